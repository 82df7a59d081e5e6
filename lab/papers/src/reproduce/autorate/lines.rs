//! Lines whose rate varies: recorded ones, and synthetic ones that are drawn from the seed.

use std::sync::Arc;

use tidegate_autorate::Bounds;
use tidegate_core::random::Stream;
use tidegate_core::{Rate, Span};
use tidegate_sim::RateProcess;

/// A line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The name in ids.
    pub name: &'static str,
    /// A description of the line, for the table.
    pub what: &'static str,
    /// Whether constants of the controller were chosen with it in view.
    pub tuned: bool,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Delivery opportunities, up and down, in the form that `opportunities` reads.
    Recorded([&'static str; 2]),
    /// Always the same rates in Mbit/s.
    Constant([u64; 2]),
    /// Three rates, ten seconds each, as parts of 16 of the rates in Mbit/s.
    Steps([u64; 2], [u64; 3]),
    /// Between a fifth and the whole of the rates, in a minute, with noise of a tenth for each second.
    Wave([u64; 2]),
    /// A random walk with outages (Winstein, Sivaraman, Balakrishnan 2013), up to these rates.
    Walk([u64; 2]),
    /// Another rate, from a third to the whole, after each 15 s, with a gap of 15 to 50 ms in between.
    Handover([u64; 2]),
}

/// All lines.
pub const LINES: [Line; 8] = [
    Line {
        name: "verizon",
        what: "LTE while driving, recorded",
        tuned: true,
        kind: Kind::Recorded([
            include_str!("../../../autorate/lines/verizon-lte.up"),
            include_str!("../../../autorate/lines/verizon-lte.down"),
        ]),
    },
    Line {
        name: "att",
        what: "LTE while driving, another network, recorded",
        tuned: false,
        kind: Kind::Recorded([
            include_str!("../../../autorate/lines/att-lte-driving.up"),
            include_str!("../../../autorate/lines/att-lte-driving.down"),
        ]),
    },
    Line { name: "constant", what: "a constant rate", tuned: true, kind: Kind::Constant([5, 20]) },
    Line { name: "steps", what: "three rates in turn", tuned: true, kind: Kind::Steps([8, 40], [8, 2, 16]) },
    Line { name: "drops", what: "other rates in turn", tuned: false, kind: Kind::Steps([20, 100], [16, 5, 9]) },
    Line { name: "wave", what: "slow, as cable in the evening", tuned: false, kind: Kind::Wave([20, 80]) },
    Line { name: "walk", what: "a random walk with outages", tuned: false, kind: Kind::Walk([6, 12]) },
    Line {
        name: "handover",
        what: "15 s slots with gaps, as satellites",
        tuned: false,
        kind: Kind::Handover([15, 60]),
    },
];

/// Milliseconds of a synthetic line, after which it repeats.
const SYNTHETIC: usize = 60_000;

/// The bytes that one direction of a line can carry in each millisecond.
#[derive(Clone, Debug)]
pub struct Capacity {
    bytes: Arc<[u32]>,
}

/// Reads the recorded form: each character is the distance in ms to the opportunity before, from `!` for 0 on; `~` adds 93 and
/// continues.
fn opportunities(text: &str) -> Vec<u32> {
    let (mut at, mut bytes) = (0_usize, Vec::new());
    for c in text.bytes().filter(|c| (b'!'..=b'~').contains(c)) {
        at += usize::from(c - b'!');
        if c != b'~' {
            bytes.resize(bytes.len().max(at).max(1), 0);
            // An opportunity is at the end of its millisecond.
            bytes[at.max(1) - 1] += 1_500;
        }
    }
    bytes
}

impl Line {
    /// The capacity of a direction (0 up, 1 down) under a seed. Recorded lines begin elsewhere for each seed.
    pub fn capacity(&self, direction: usize, seed: u64) -> Capacity {
        let mut random = Stream::named(seed, &format!("line {} {direction}", self.name));
        // 125 bytes in a millisecond are 1 Mbit/s.
        let mut bytes: Vec<u32> = match self.kind {
            Kind::Recorded(texts) => opportunities(texts[direction]),
            Kind::Constant(mbit) => vec![125 * mbit[direction] as u32; SYNTHETIC],
            Kind::Steps(mbit, parts) => {
                let rate = |ms: usize| 125 * mbit[direction] * parts[ms / 10_000 % 3] / 16;
                (0..SYNTHETIC).map(|ms| rate(ms) as u32).collect()
            }
            Kind::Wave(mbit) => {
                let noise: Vec<f64> = (0..60).map(|_| 0.9 + 0.2 * random.unit()).collect();
                let rate = |ms: usize| {
                    let turn = (ms as f64 / SYNTHETIC as f64 * 2.0 - 1.0).abs();
                    125.0 * mbit[direction] as f64 * (0.2 + 0.7 * turn) * noise[ms / 1_000]
                };
                (0..SYNTHETIC).map(|ms| rate(ms) as u32).collect()
            }
            Kind::Walk(mbit) => walk(125.0 * mbit[direction] as f64, &mut random),
            Kind::Handover(mbit) => {
                let mut bytes = Vec::with_capacity(SYNTHETIC);
                while bytes.len() < SYNTHETIC {
                    let gap = 15 + random.below(36) as usize;
                    let rate = (125.0 * mbit[direction] as f64 * (1.0 + 2.0 * random.unit()) / 3.0) as u32;
                    bytes.extend(std::iter::repeat_n(0, gap).chain(std::iter::repeat_n(rate, 15_000 - gap)));
                }
                bytes
            }
        };
        if let Kind::Recorded(_) = self.kind {
            let start = (seed as usize).wrapping_sub(1).wrapping_mul(17_000) % bytes.len();
            bytes.rotate_left(start);
        }
        Capacity { bytes: bytes.into() }
    }
}

/// A random walk in steps of 20 ms that stays at zero for an exponential time of half a second.
fn walk(most: f64, random: &mut Stream) -> Vec<u32> {
    let (mut rate, mut bytes) = (most / 2.0, Vec::with_capacity(SYNTHETIC));
    while bytes.len() < SYNTHETIC {
        // The sum of three uniform values is nearly normal.
        let normal = (random.unit() + random.unit() + random.unit() - 1.5) * 2.0;
        rate = (rate + most * 0.028 * normal).min(most);
        if rate <= 0.0 {
            rate = 0.0;
            let outage = -0.5 * (1.0 - random.unit()).ln();
            bytes.extend(std::iter::repeat_n(0, (outage * 1_000.0) as usize));
        }
        bytes.extend(std::iter::repeat_n(rate as u32, 20));
    }
    bytes.truncate(SYNTHETIC);
    bytes
}

impl Capacity {
    /// The bytes of each millisecond.
    pub fn millis(&self) -> Arc<[u32]> {
        Arc::clone(&self.bytes)
    }
    /// Bytes between two times in ms.
    pub fn between(&self, from: u64, to: u64) -> u64 {
        (from..to).map(|ms| u64::from(self.bytes[ms as usize % self.bytes.len()])).sum()
    }

    /// The mean rate.
    pub fn mean(&self) -> Rate {
        let length = self.bytes.len() as u64;
        Rate::from_bps(self.between(0, length) * 8_000 / length.max(1))
    }

    /// The bounds that a careful user of the line would write, by the means over a second of the whole line: half of what it
    /// carries at its worst, three quarters of what it mostly carries, and half more than at its best.
    pub fn bounds(&self) -> Bounds {
        let mut seconds: Vec<u64> =
            (0..self.bytes.len() as u64 / 1_000).map(|s| self.between(1_000 * s, 1_000 * s + 1_000) * 8).collect();
        seconds.sort_unstable();
        let at = |percent: usize| seconds[(seconds.len() - 1) * percent / 100];
        let rate = |bps: u64| Rate::from_bps(bps.max(100_000));
        Bounds { least: rate(at(5).max(at(99) / 25) / 2), base: rate(at(50) / 4 * 3), most: rate(at(99) / 2 * 3) }
    }

    /// The rate over time for the simulator.
    pub fn process(&self) -> RateProcess {
        let mut steps: Vec<(Span, Rate)> = Vec::new();
        for (ms, bytes) in (0..).zip(self.bytes.iter()) {
            let rate = Rate::from_bps(u64::from(*bytes) * 8_000);
            if steps.last().is_none_or(|last| last.1 != rate) {
                steps.push((Span::from_millis(ms), rate));
            }
        }
        RateProcess::Steps { steps: steps.into(), repeat: Some(Span::from_millis(self.bytes.len() as u64)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_lines_carry_what_was_recorded() {
        // The number of lines and the last time of the recordings.
        for (name, direction, packets, millis) in [
            ("verizon", 0, 69_367, 140_000),
            ("verizon", 1, 58_655, 140_000),
            ("att", 0, 19_101, 120_002),
            ("att", 1, 45_604, 120_002),
        ] {
            let line = LINES.iter().find(|line| line.name == name).unwrap();
            let capacity = line.capacity(direction, 1);
            let length = capacity.bytes.len() as u64;
            assert!(length.abs_diff(millis) <= 2, "{name} {direction}: {length} ms");
            assert_eq!(capacity.between(0, length), packets * 1_500, "{name} {direction}");
        }
    }

    #[test]
    fn bounds_are_in_order() {
        for line in &LINES {
            for direction in 0..2 {
                let Bounds { least, base, most } = line.capacity(direction, 3).bounds();
                assert!(least <= base && base <= most, "{} {direction}", line.name);
            }
        }
    }
}

//! Section 8 of the paper: the burst rate.

use tidegate_pace::{BurstCap, Clock, Kind, VirtualClock, wait_until};
use tidegate_units::{Bytes, Instant, Rate, Span};

use super::build;
use crate::reproduce::Item;
use crate::reproduce::item::{Bound, paper, theory};

/// The rate and the burst rate in byte/s, and the packet size. Without a burst rate five packets are sent after each
/// sleep. Sending a packet takes no time here, so that a burst is as fast as possible.
pub const RATE: u64 = 100_000;
pub const CAP: u64 = 200_000;
pub const SIZE: u64 = 500;

/// A burst rate, and the bytes that may be sent at once beyond it.
#[derive(Clone, Copy)]
pub struct Burst {
    pub rate: Rate,
    pub allowance: Bytes,
}

/// Returns the times at which `kind` sends `packets` on the paper's clock, with or without a burst rate.
pub fn sent(kind: Kind, rate: Rate, burst: Option<Burst>, size: Bytes, packets: u32) -> Vec<Instant> {
    let mut clock = VirtualClock::paper();
    let mut algorithm = build(kind, rate.as_bps() / 8);
    let mut cap = burst
        .map(|Burst { rate, allowance }| BurstCap::new(rate, allowance, Instant::ZERO).expect("the rate is not zero"));
    let mut times = Vec::new();
    for _ in 0..packets {
        times.push(clock.now());
        let mut due = algorithm.next(clock.now(), size);
        if let Some(cap) = &mut cap {
            due = due.max(cap.next(clock.now(), size));
        }
        wait_until(&mut clock, &mut *algorithm, due);
    }
    times
}

/// The highest rate in byte/s over any sequence of two or more packets. The last packet of a sequence is not counted.
fn fastest(times: &[Instant], size: u64) -> f64 {
    let mut most = 0.0_f64;
    for (first, begin) in times.iter().enumerate() {
        for (n, end) in times.iter().enumerate().skip(first + 1) {
            let span = end.since(*begin).max(Span::from_nanos(1)).as_secs_f64();
            most = most.max((n - first) as f64 * size as f64 / span);
        }
    }
    most
}

pub fn run(items: &mut Vec<Item>) {
    let (rate, size) = (Rate::from_bytes_per_sec(RATE), Bytes::new(SIZE));
    let cap = |allowance| Burst { rate: Rate::from_bytes_per_sec(CAP), allowance };
    let times = |burst| sent(Kind::Dt1, rate, burst, size, 500);
    let (free, capped) = (times(None), times(Some(cap(Bytes::ZERO))));
    let what = |how: &str| format!("DT1, {RATE} byte/s, packets of {SIZE} byte, {how}");
    let basis = paper("section 4: several packets are sent after each sleep, which section 8 calls a burst");
    items.push(
        Item::measured("fig15.free.fastest", what("no burst rate: the highest rate of any run"), "byte/s", {
            fastest(&free, SIZE).min(1e9)
        })
        .bound(Bound::above(CAP as f64, basis)),
    );
    let basis =
        paper("section 1: the burst rate is that of any subsequence of packets; section 8: a maximum to enforce");
    items.push(
        Item::measured(
            "fig15.capped.fastest",
            what("a burst rate of twice that: the highest rate of any run"),
            "byte/s",
            fastest(&capped, SIZE),
        )
        .bound(Bound::at_most(CAP as f64, basis)),
    );
    // A sleep takes one to two ticks, and without an allowance only one packet is sent after each.
    let basis = theory("a pause is as coarse as any sleep, and without an allowance it is not made up for");
    items.push(
        Item::measured("fig15.capped.mean", what("a burst rate of twice that: the mean rate"), "byte/s", mean(&capped))
            .bound(Bound::below(mean(&free), basis)),
    );
    for kind in Kind::ALL {
        others(kind, cap, items);
    }
}

/// The mean rate of a run in byte/s.
fn mean(times: &[Instant]) -> f64 {
    let span = times.last().map_or(f64::NAN, |last| last.since(Instant::ZERO).as_secs_f64());
    (times.len() - 1) as f64 * SIZE as f64 / span
}

/// The burst rate with each algorithm, without an allowance and with one for what is due after the longest sleep, two ticks.
fn others(kind: Kind, cap: impl Fn(Bytes) -> Burst, items: &mut Vec<Item>) {
    let (rate, size) = (Rate::from_bytes_per_sec(RATE), Bytes::new(SIZE));
    let two_ticks = Bytes::new(RATE / 50);
    let name = kind.name().to_uppercase();
    for (id, allowance) in [("bare", Bytes::ZERO), ("allowance", two_ticks)] {
        let times = sent(kind, rate, Some(cap(allowance)), size, 500);
        // A sequence may have the allowance at once, and for the rest the burst rate.
        let excess = excess(&times, CAP, SIZE);
        let basis = paper("section 8: a maximum burst rate to enforce, in a similar manner for the other algorithms");
        items.push(
            Item::measured(
                format!("fig15.{kind}.{id}.excess"),
                format!("{name}, a burst rate of twice the rate and {allowance} at once: the most beyond both"),
                "byte",
                excess - allowance.as_u64() as f64,
            )
            .bound(Bound::at_most(0.5, basis)),
        );
        let part = mean(&times) / mean(&sent(kind, rate, None, size, 500));
        let what =
            format!("{name}, a burst rate of twice the rate and {allowance} at once: the mean rate over that without");
        let item = Item::measured(format!("fig15.{kind}.{id}.mean"), what, "ratio", part);
        let basis = theory("an allowance for what is due after the longest sleep leaves the mean rate as it is");
        items.push(if allowance == Bytes::ZERO { item } else { item.bound(Bound::near(1.0, 0.01, basis)) });
    }
}

/// The most bytes by which any sequence of packets exceeds `rate` byte/s. The last packet of a sequence is not counted.
fn excess(times: &[Instant], rate: u64, size: u64) -> f64 {
    let (mut least, mut most) = (f64::MAX, 0.0_f64);
    for (n, at) in times.iter().enumerate() {
        let ahead = (n as u64 * size) as f64 - rate as f64 * at.since(Instant::ZERO).as_secs_f64();
        most = most.max(ahead - least);
        least = least.min(ahead);
    }
    most
}

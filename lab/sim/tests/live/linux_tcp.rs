//! The simulator's TCP beside that of the kernel: the same losses on the same wire, one pattern of losses at a time.
//!
//! Both transfer 60 segments of 1000 bytes over a wire without a rate and with a delay of 50 ms, with Reno, SACK, an
//! initial window of 10 and no timestamps; the kernel's sender and receiver are in namespaces of their own, and the wire
//! is this process, between two TUN devices. The first window of data, segments 0 to 9, leaves at 0 RTT, the second, 10 to
//! 29, at 1 RTT. A pattern names transmissions by segment and copy.
//!
//! Both retransmit the same segments in every pattern. [`Differs`] lists the allowed differences and their reasons.

use std::collections::BTreeMap;
use std::fmt;
use std::thread;

use tidegate_core::Span;
use tidegate_sim::tcp::{Config, RtoBounds};
use tidegate_testbed::Ended;

use crate::kernel;
use crate::wire::{Fate, Wire};

const SEGMENTS: u32 = 60;
pub const SIZE: u32 = 1000;
/// Segments of a longer transfer, of which every 50th is lost, but not the last.
const LONG: u32 = 590;
const DELAY: Span = Span::from_millis(50);

/// Transmissions that are lost: segment and how many of its first copies.
pub type Losses = &'static [(u32, usize)];

/// An allowed difference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Differs {
    /// By at most three RTTs at the end: the kernel reduces cwnd in proportion to what is acknowledged (RFC 6937), so that it
    /// sends from the first duplicate on, where RFC 6675 waits for half of the window; and its RTO is SRTT plus the least
    /// RTO, where RFC 6298 takes the larger of the two.
    Time,
    /// The kernel repairs without a timeout: RACK (RFC 8985) detects that a retransmission was lost, RFC 6675 does not.
    Timeouts,
    /// By at most a tenth at the end.
    Rate,
}

const PATTERNS: [(&str, Losses, Differs); 12] = [
    ("the first segment of all", &[(0, 1)], Differs::Time),
    ("the first of a window", &[(10, 1)], Differs::Time),
    ("one inside a window", &[(20, 1)], Differs::Time),
    ("two adjacent", &[(15, 1), (16, 1)], Differs::Time),
    ("four apart", &[(12, 1), (15, 1), (18, 1), (21, 1)], Differs::Time),
    (
        "every second of a window",
        &[(10, 1), (12, 1), (14, 1), (16, 1), (18, 1), (20, 1), (22, 1), (24, 1), (26, 1), (28, 1)],
        Differs::Time,
    ),
    (
        "the first half of a window",
        &[(10, 1), (11, 1), (12, 1), (13, 1), (14, 1), (15, 1), (16, 1), (17, 1), (18, 1), (19, 1)],
        Differs::Time,
    ),
    ("the last of the transfer", &[(59, 1)], Differs::Time),
    ("the last three of the transfer", &[(57, 1), (58, 1), (59, 1)], Differs::Time),
    ("one in the middle and the last", &[(40, 1), (59, 1)], Differs::Time),
    ("one and its retransmission", &[(10, 2)], Differs::Timeouts),
    ("one and two retransmissions", &[(10, 3)], Differs::Timeouts),
];

/// The transmissions of a sender, in RTTs since its first data segment.
struct Trace {
    /// Segments sent again, each with its time rounded to RTTs.
    retransmitted: Vec<(u32, u64)>,
    /// Retransmissions after more than half a second without one segment.
    timeouts: usize,
    /// When a segment was sent for the last time.
    end: u64,
}

impl Trace {
    /// From the time in milliseconds and the number of each data segment.
    fn new(sent: &[(u64, u32)]) -> Self {
        let first = sent.first().map_or(0, |&(at, _)| at);
        let rtts = |at: u64| (at - first + 50) / 100;
        let mut highest = None;
        let (mut retransmitted, mut timeouts, mut previous) = (vec![], 0, first);
        for &(at, number) in sent {
            if highest.is_some_and(|highest| number <= highest) {
                retransmitted.push((number, rtts(at)));
                timeouts += usize::from(at - previous > 500);
            }
            highest = highest.max(Some(number));
            previous = at;
        }
        Self { retransmitted, timeouts, end: rtts(previous) }
    }

    fn segments(&self) -> Vec<u32> {
        let mut segments: Vec<_> = self.retransmitted.iter().map(|&(number, _)| number).collect();
        segments.sort_unstable();
        segments
    }

    /// Whether `kernel` did the same, as far as it is not allowed to differ.
    fn agrees(&self, kernel: &Self, differs: Differs) -> bool {
        let rest = match differs {
            Differs::Time => self.timeouts == kernel.timeouts && self.end.abs_diff(kernel.end) <= 3,
            Differs::Rate => self.timeouts == kernel.timeouts && self.end.abs_diff(kernel.end) * 10 <= kernel.end,
            Differs::Timeouts => self.timeouts > 0 && kernel.timeouts == 0 && kernel.end < self.end,
        };
        rest && self.segments() == kernel.segments()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let again: Vec<_> = self.retransmitted.iter().map(|(number, at)| format!("{number} at {at}")).collect();
        write!(f, "{} | {} | {}", again.join(", "), self.timeouts, self.end)
    }
}

/// Counts the copies of each segment and chooses those that are lost.
pub fn is_lost(losses: Losses) -> impl FnMut(u32) -> bool {
    let mut copies = BTreeMap::new();
    move |number| {
        let copy = copies.entry(number).or_insert(0);
        *copy += 1;
        losses.iter().any(|&(lost, count)| lost == number && *copy <= count)
    }
}

fn simulated(losses: Losses, segments: u32) -> Trace {
    let rto = RtoBounds { min: Span::from_secs(1), ..RtoBounds::default() };
    let config = Config { mss: SIZE as u16, delayed_ack: None, rto, ..Config::sack() };
    let mut lost = is_lost(losses);
    let mut wire = Wire::new(config, DELAY, |from, _, segment| {
        if from == 0 && segment.len > 0 && lost((segment.seq - 1) / SIZE) { Fate::Drop } else { Fate::Pass }
    });
    wire.ends[0].write(u64::from(segments * SIZE));
    wire.run(Span::from_secs(60));
    assert_eq!(wire.ends[1].received(), u64::from(segments * SIZE));
    let sent: Vec<_> = wire.data().into_iter().map(|(at, seq, _)| (at, (seq - 1) / SIZE)).collect();
    Trace::new(&sent)
}

pub fn losses_are_repaired_as_by_the_kernel() -> Ended {
    if let Err(reason) = kernel::available() {
        return Ended::Skipped(reason);
    }
    println!(
        "| lost | simulator: retransmitted, at RTT | timeouts | end | kernel: retransmitted, at RTT | timeouts | end |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let compare = |name: &'static str, losses: Losses, differs: Differs| {
        let segments = if differs == Differs::Rate { LONG } else { SEGMENTS };
        let simulated = simulated(losses, segments);
        // The kernel's clock is that of a machine that may be busy.
        for attempt in 0..3 {
            let kernel = Trace::new(&kernel::transfer(losses, segments).expect("a transfer"));
            if simulated.agrees(&kernel, differs) || attempt == 2 {
                println!("| {name} | {simulated} | {kernel} |");
                return simulated.agrees(&kernel, differs);
            }
        }
        false
    };
    let every: Vec<_> = (49..LONG).step_by(50).map(|number| (number, 1)).collect();
    let long = ("every 50th of a longer transfer", &*every.leak(), Differs::Rate);
    let patterns = PATTERNS.into_iter().chain([long]);
    let threads: Vec<_> =
        patterns.map(|(name, losses, differs)| thread::spawn(move || compare(name, losses, differs))).collect();
    let agree: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
    assert!(agree.iter().all(|agrees| *agrees), "{agree:?}");
    Ended::Passed
}

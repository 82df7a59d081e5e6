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

/// Returns the times at which DT1 sends `packets` on the paper's clock, with or without a burst rate.
pub fn sent(rate: Rate, cap: Option<Rate>, size: Bytes, packets: u32) -> Vec<Instant> {
    let mut clock = VirtualClock::paper();
    let mut algorithm = build(Kind::Dt1, rate.as_bps() / 8);
    let mut cap = cap.map(|cap| BurstCap::new(cap, Bytes::ZERO, Instant::ZERO).expect("the rate is not zero"));
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
    let (rate, cap, size) = (Rate::from_bytes_per_sec(RATE), Rate::from_bytes_per_sec(CAP), Bytes::new(SIZE));
    let times = |cap| sent(rate, cap, size, 500);
    let (free, capped) = (times(None), times(Some(cap)));
    let mean = |times: &[Instant]| {
        let span = times.last().map_or(f64::NAN, |last| last.since(Instant::ZERO).as_secs_f64());
        (times.len() - 1) as f64 * SIZE as f64 / span
    };
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
}

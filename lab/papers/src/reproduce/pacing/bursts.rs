//! Section 4 of the paper: how many packets follow a sleep, and whether DT2 is more bursty than DT1.

use tidegate_pace::{Clock, Kind, VirtualClock, wait_until};
use tidegate_units::{Bytes, Instant};

use super::{Paper, Point, build};
use crate::reproduce::Item;
use crate::reproduce::item::{Bound, paper};

const PACKETS: usize = 10_000;

/// A run of an algorithm on the paper's clock.
struct Run {
    /// When each packet was sent.
    sent: Vec<Instant>,
    /// The number of sleeps, and their mean length in seconds.
    sleeps: u32,
    sleep: f64,
}

impl Run {
    fn new(numbers: &Paper, kind: Kind, point: &Point) -> Self {
        let mut clock = VirtualClock::paper();
        let (mut algorithm, mut sleeps, mut sent) = (build(kind, point.rate), 0_u32, Vec::new());
        for _ in 0..PACKETS {
            sent.push(clock.now());
            clock.advance(numbers.send_time());
            let (before, due) = (clock.slept(), algorithm.next(clock.now(), Bytes::new(point.size)));
            wait_until(&mut clock, &mut *algorithm, due);
            sleeps += u32::from(clock.slept() > before);
        }
        Self { sent, sleeps, sleep: clock.slept().as_secs_f64() / f64::from(sleeps.max(1)) }
    }
    /// Packets for each sleep.
    fn per_sleep(&self) -> f64 {
        self.sent.len() as f64 / f64::from(self.sleeps.max(1))
    }
    /// The burst in packets: the depth of the smallest token bucket at the run's own rate that all packets pass. It is
    /// 1 for packets at equal distances.
    fn burst(&self) -> f64 {
        // The beginning, in which DT2 still learns to sleep less, does not count.
        let sent = &self.sent[self.sent.len() / 2..];
        let (first, last) = (sent[0], sent[sent.len() - 1]);
        let rate = (sent.len() - 1) as f64 / last.since(first).as_secs_f64();
        let (mut least, mut burst) = (f64::MAX, 0.0_f64);
        for (n, at) in sent.iter().enumerate() {
            let ahead = n as f64 - rate * at.since(first).as_secs_f64();
            least = least.min(ahead);
            burst = burst.max(ahead - least + 1.0);
        }
        burst
    }
}

pub fn run(numbers: &Paper, items: &mut Vec<Item>) {
    let (mut ratios, mut per_sleep, mut longest) = (Vec::new(), Vec::new(), [0.0_f64; 2]);
    for point in numbers.points() {
        let [dt1, dt2] = [Kind::Dt1, Kind::Dt2].map(|kind| Run::new(numbers, kind, &point));
        let rest = point.size as f64 / point.rate as f64 - numbers.send_time().as_secs_f64();
        ratios.push(dt2.burst() / dt1.burst());
        if rest < 1e-9 {
            // DT1 need not sleep at all, and DT2 sleeps as always.
            longest = [longest[0].max(dt1.burst()), longest[1].max(dt2.burst())];
        }
        // The formula holds if there is a sleep and it is shorter than a tick.
        if rest < 1e-3 || rest >= numbers.sleep_granularity_ms as f64 / 1e3 {
            continue;
        }
        per_sleep.push(dt2.per_sleep() / dt1.per_sleep());
        // After a sleep of `sleep`, n = R sleep / (S - R T) packets are due. The paper writes G for the sleep.
        let what = format!(
            "DT1, packets for each sleep over R G / (S - R T), G being the length of a sleep, {}",
            point.what()
        );
        let basis = paper("section 4: n is roughly R G / (S - R T)");
        items.push(
            Item::measured(format!("section4.n.{}", point.id), what, "ratio", dt1.per_sleep() * rest / dt1.sleep)
                .paper(1.0)
                .bound(Bound::near(1.0, 0.1, basis)),
        );
    }
    let mean = |ratios: &[f64]| ratios.iter().sum::<f64>() / ratios.len() as f64;
    let basis = paper("section 4: DT2 is inevitably more bursty than DT1");
    let what = "the burst of DT2 over that of DT1: the mean of the grid";
    items.push(Item::measured("section4.dt2", what, "ratio", mean(&ratios)).bound(Bound::above(1.0, basis)));
    let what = "packets for each sleep, DT2 over DT1: the mean of the points with sleeps shorter than a tick";
    items.push(Item::measured("section4.dt2.per-sleep", what, "ratio", mean(&per_sleep)));
    for (kind, burst) in ["dt1", "dt2"].into_iter().zip(longest) {
        let what = format!("the longest burst of {} where S is at most R T", kind.to_uppercase());
        items.push(Item::measured(format!("section4.back-to-back.{kind}"), what, "packets", burst));
    }
}

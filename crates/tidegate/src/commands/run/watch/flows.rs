//! The largest flows of a live run over time, observed once per second, in bounded memory.
//!
//! *Law*: all bytes sent and packets dropped by observed flows are in the series of the flows and of the others.
//! *Notes*: a flow that begins and ends between two observations is counted in its class only.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_control::calls::FlowObservation;
use tidegate_metrics::{OTHER_FLOWS, Part, SHOWN_PARTS, Series};
use tidegate_replay::flows::Flows;
use tidegate_report::{Axis, Curve, Plot, Section, Style};
use tidegate_units::{Instant, Span};

/// The initial bins of the series: the interval of observations.
const BIN: Span = Span::from_secs(1);

/// A flow over time.
#[derive(Clone, Debug)]
struct Live {
    sent: Series,
    dropped: Series,
    /// Bytes queued, at every observation.
    queue: Series,
    /// The 99th percentile of waits, in ns.
    wait: Series,
}

impl Part for Live {
    fn new(width: Span) -> Self {
        let series = || Series::new(width);
        Self { sent: series(), dropped: series(), queue: series(), wait: series() }
    }
    fn merge(&mut self, other: &Self) {
        self.sent.merge(&other.sent);
        self.dropped.merge(&other.dropped);
        self.queue.merge(&other.queue);
        self.wait.merge(&other.wait);
    }
}

/// Bytes sent and packets dropped.
type SentAndDropped = (u64, u64);

/// The flows of a direction over time.
#[derive(Debug)]
pub struct FlowWatch {
    flows: Flows<Live>,
    /// The number of observations, by which sums of levels are divided.
    looks: Series,
    before: HashMap<u64, SentAndDropped>,
}

/// A flow in a bin.
#[derive(Debug)]
pub struct FlowPoint {
    /// The name.
    pub flow: String,
    /// Seconds since the start at the end of the bin.
    pub end: f64,
    /// Seconds it covers.
    pub width: f64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Mean bytes queued.
    pub queue: u64,
    /// The mean of the 99th percentiles of waits, in seconds; not for the sum of others.
    pub wait: Option<f64>,
}

impl FlowWatch {
    /// Returns an empty observation.
    pub fn new() -> Self {
        Self { flows: Flows::new(BIN), looks: Series::new(BIN), before: HashMap::new() }
    }

    /// Adds an observation of all flows, at `elapsed` since the start.
    pub fn look(&mut self, elapsed: Duration, seen: &[FlowObservation]) {
        let at = Instant::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        self.looks.add(at, 1);
        let mut now = HashMap::with_capacity(seen.len());
        for flow in seen {
            let Ok(key) = u64::from_str_radix(&flow.flow.key, 16) else { continue };
            let counts = (flow.sent_bytes.as_u64(), flow.dropped_packets());
            let (bytes, dropped) = self.before.get(&key).copied().unwrap_or_default();
            // After a restart, or if it was removed in between, the counts begin at zero.
            let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
            let (sent, dropped) = (since(counts.0, bytes), since(counts.1, dropped));
            now.insert(key, counts);
            let live = self.flows.of(key, sent, || flow.flow.to_string());
            live.sent.add(at, sent);
            live.dropped.add(at, dropped);
            live.queue.add(at, flow.queue.bytes.as_u64());
            if sent > 0 {
                live.wait.add(at, flow.wait.p99.as_nanos());
            }
        }
        self.before = now;
    }

    /// Flows and others as points, bin by bin; the bins are those of the observations.
    pub fn points(&self) -> Vec<FlowPoint> {
        let width = self.looks.width().as_nanos();
        let bins = self.looks.sums().count();
        let (flows, others) = self.flows.largest(SHOWN_PARTS);
        let all = flows.into_iter().chain(others.iter().map(|others| (OTHER_FLOWS, others)));
        let mut points = Vec::new();
        for (name, live) in all {
            let others = name == OTHER_FLOWS;
            let place = |at: Instant| ((at.as_nanos() / width) as usize).min(bins.saturating_sub(1));
            let spread = |series: &Series| {
                let mut sums = vec![0_u64; bins];
                series.sums().for_each(|(at, sum)| sums[place(at)] += sum);
                sums
            };
            let (sent, dropped, queue) = (spread(&live.sent), spread(&live.dropped), spread(&live.queue));
            let mut waits = vec![None; bins];
            live.wait.means().for_each(|(at, wait)| waits[place(at)] = Some(wait / 1e9));
            let flow = if others { name.to_owned() } else { format!("flow {name}") };
            for (bin, (_, looks)) in self.looks.sums().enumerate().filter(|(_, (_, looks))| *looks > 0) {
                points.push(FlowPoint {
                    flow: flow.clone(),
                    end: (bin as u64 + 1) as f64 * width as f64 / 1e9,
                    width: width as f64 / 1e9,
                    bytes: sent[bin],
                    dropped: dropped[bin],
                    queue: queue[bin] / looks,
                    wait: waits[bin].filter(|_| !others),
                });
            }
        }
        points
    }

    /// The plots of a direction, without its name if there is only one.
    pub fn section(&self, direction: &str) -> Section {
        let points = self.points();
        let of = if direction.is_empty() { String::new() } else { format!(", {direction}") };
        let plot = |title: &str, y: Axis, value: &dyn Fn(&FlowPoint) -> Option<f64>| {
            let mut curves: Vec<Curve> = Vec::new();
            for point in &points {
                let Some(value) = value(point) else { continue };
                match curves.last_mut().filter(|curve| curve.name == point.flow) {
                    Some(curve) => curve.points.push((point.end, value)),
                    None => curves.push(Curve::new(point.flow.clone(), [(point.end, value)])),
                }
            }
            let (x, title) = (Axis::new("time", "s"), format!("{title} of each flow{of}"));
            Plot { title, x, y, style: Style::Lines, note: None, curves }
        };
        Section::new(format!("Flows over time{of}"))
            .note(format!(
                "The {SHOWN_PARTS} flows with the most bytes, and all others together, as they were seen once a second."
            ))
            .with(plot("Rate", Axis::new("rate", "bit/s"), &|point| Some(point.bytes as f64 * 8.0 / point.width)))
            .with(plot("Queue", Axis::new("queue", "B"), &|point| Some(point.queue as f64)))
            .with(
                plot("Wait that 99 of 100 packets did not exceed", Axis::new("wait", "s"), &|point| point.wait)
                    .with_gaps(),
            )
            .with(plot("Drops", Axis::new("packets a second", ""), &|point| Some(point.dropped as f64 / point.width)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_control::calls::{Flow, FlowDrops, Queued};
    use tidegate_units::Bytes;

    fn seen(key: u64, sent: u64, dropped: u64, queue: u64) -> FlowObservation {
        let drops = FlowDrops { reason: "queue_limit".into(), packets: dropped };
        FlowObservation {
            flow: Flow { key: format!("{key:016x}"), ..Flow::default() },
            sent_bytes: Bytes::new(sent),
            queue: Queued { bytes: Bytes::new(queue), ..Queued::default() },
            dropped: vec![drops],
            ..FlowObservation::default()
        }
    }

    #[test]
    fn what_is_sent_between_two_looks_is_in_one_of_the_series() {
        let mut watch = FlowWatch::new();
        let second = |n: u64| Duration::from_millis(n * 1_000 + 500);
        // Two hundred flows, of which flow 7 sends a hundred times as much; another joins in the third second.
        for n in 0..5_u64 {
            let mut flows: Vec<_> =
                (0..200).map(|key| seen(key, (n + 1) * if key == 7 { 100_000 } else { 1_000 }, n, 10)).collect();
            if n >= 3 {
                flows.push(seen(500, (n - 2) * 3_000_000, 0, 7));
            }
            watch.look(second(n), &flows);
        }
        let points = watch.points();
        // A flow without a protocol is named by its key.
        let name = |key: u64| format!("flow flow {key:016x}");
        let sum = |flow: &str| -> u64 { points.iter().filter(|p| p.flow == flow).map(|p| p.bytes).sum() };
        assert_eq!(sum(&name(7)), 500_000);
        assert_eq!(sum(&name(500)), 6_000_000);
        let all: u64 = points.iter().map(|point| point.bytes).sum();
        assert_eq!(all, 5 * (199 * 1_000 + 100_000) + 6_000_000);
        assert_eq!(points.iter().map(|point| point.dropped).sum::<u64>(), 200 * 4);
        // Fifteen have a curve; the others' queue is the sum of theirs: 201 - 15 flows of 10 bytes in the last second.
        let last = points.iter().rfind(|point| point.flow == OTHER_FLOWS).unwrap();
        assert_eq!((last.queue, last.wait), (1_860, None));
        assert_eq!(points.iter().filter(|point| point.flow == name(7)).count(), 5);
    }
}

//! The data of a report of a live run: samples of the classes, and the largest flows, in bounded memory.

mod flows;

use std::time::Instant;

use tidegate_control::calls::DirectionObservation;
use tidegate_control::view::{ClassQuantity, Shown};
use tidegate_daemon::class_status;
use tidegate_display::human;
use tidegate_engine::ClassStatus;
use tidegate_metrics::Delays;
use tidegate_report::columns::{self, Column};
use tidegate_report::{Axis, Curve, Plot, Report, Section, Source, Style, Table};

use crate::output::shown;
use flows::FlowWatch;

/// The number of samples. Beyond it neighbours are merged, and each then covers twice the time: a second and a month
/// need the same memory.
const SAMPLES: usize = 2_000;

/// A shorter sample, in seconds, is merged with the one before it, because its rate is meaningless.
const LEAST: f64 = 0.1;

/// The counts of a class between two observations.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Sample {
    /// Seconds since the start at its end.
    end: f64,
    /// Seconds it covers.
    width: f64,
    bytes: u64,
    dropped: u64,
    marked: u64,
    /// Packets queued at the end; the largest value of the merged samples.
    backlog: u64,
    /// Packets that left, and the sum of their waits in seconds.
    sent: u64,
    waited: f64,
    /// The 99th percentile of waits; the largest value of the merged samples.
    p99: f64,
}

impl Sample {
    fn and(self, next: Self) -> Self {
        Self {
            end: next.end,
            width: self.width + next.width,
            bytes: self.bytes + next.bytes,
            dropped: self.dropped + next.dropped,
            marked: self.marked + next.marked,
            backlog: self.backlog.max(next.backlog),
            sent: self.sent + next.sent,
            waited: self.waited + next.waited,
            p99: self.p99.max(next.p99),
        }
    }
}

/// A class over time.
#[derive(Debug)]
struct Class {
    name: String,
    samples: Vec<Sample>,
    /// The observations per sample, and those in the last sample.
    covers: u32,
    open: u32,
    bytes: u64,
    dropped: u64,
    marked: u64,
    delays: Delays,
}

impl Class {
    fn look(&mut self, end: f64, status: &ClassStatus) {
        let counts = &status.counts;
        let (bytes, dropped) = (counts.through.bytes.as_u64(), counts.accounts.dropped_total().packets);
        let waited = counts.waited.since(&self.delays);
        // After a restart the counts begin at zero.
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        let sample = Sample {
            end,
            width: end - self.samples.last().map_or(0.0, |last| last.end),
            bytes: since(bytes, self.bytes),
            dropped: since(dropped, self.dropped),
            marked: since(counts.marked, self.marked),
            backlog: counts.backlog.packets,
            sent: waited.count(),
            waited: waited.sum().as_secs_f64(),
            p99: waited.quantile(0.99).as_secs_f64(),
        };
        (self.bytes, self.dropped, self.marked) = (bytes, dropped, counts.marked);
        self.delays = counts.waited;
        self.add(sample);
    }

    fn add(&mut self, sample: Sample) {
        match self.samples.last_mut() {
            Some(last) if sample.width < LEAST => *last = last.and(sample),
            Some(last) if self.open > 0 && self.open < self.covers => {
                *last = last.and(sample);
                self.open += 1;
            }
            _ => {
                self.samples.push(sample);
                self.open = 1;
            }
        }
        if self.samples.len() >= SAMPLES && self.open == self.covers {
            let halves =
                self.samples.chunks(2).map(|pair| pair.iter().copied().reduce(Sample::and).unwrap_or_default());
            self.samples = halves.collect();
            self.covers *= 2;
            self.open = self.covers;
        }
    }
}

/// All classes over time.
#[derive(Debug)]
pub struct Watch {
    begin: Instant,
    classes: Vec<Class>,
    /// The flows of each direction.
    flows: Vec<(String, FlowWatch)>,
}

impl Watch {
    /// Starts the observation.
    pub fn new() -> Self {
        Self { begin: Instant::now(), classes: Vec::new(), flows: Vec::new() }
    }
    /// Adds an observation of the classes of a direction. `several` is whether there is more than one direction.
    /// `seen` are its flows, if observed.
    pub fn look(
        &mut self,
        direction: &str,
        several: bool,
        classes: &[ClassStatus],
        seen: Option<&DirectionObservation>,
    ) {
        let elapsed = self.begin.elapsed();
        self.look_at(elapsed.as_secs_f64(), direction, several, classes);
        let Some(seen) = seen.filter(|seen| !seen.flows.is_empty()) else { return };
        let name = if several { direction } else { "" };
        let end = match self.flows.iter().position(|(known, _)| known == name) {
            Some(end) => end,
            None => {
                self.flows.push((name.to_owned(), FlowWatch::new()));
                self.flows.len() - 1
            }
        };
        self.flows[end].1.look(elapsed, &seen.flows);
    }

    fn look_at(&mut self, end: f64, direction: &str, several: bool, classes: &[ClassStatus]) {
        for status in classes {
            let name = if several { format!("{direction} {}", status.name) } else { status.name.clone() };
            let class = match self.classes.iter().position(|class| class.name == name) {
                Some(index) => &mut self.classes[index],
                None => {
                    let delays = Delays::default();
                    let (samples, covers, open) = (Vec::new(), 1, 0);
                    self.classes.push(Class { name, samples, covers, open, bytes: 0, dropped: 0, marked: 0, delays });
                    let last = self.classes.len() - 1;
                    &mut self.classes[last]
                }
            };
            class.look(end, status);
        }
    }

    fn plot(&self, title: &str, y: Axis, style: Style, value: impl Fn(&Sample) -> Option<f64>) -> Plot {
        let curves = self.classes.iter().map(|class| {
            let points = class.samples.iter().filter_map(|sample| value(sample).map(|value| (sample.end, value)));
            Curve::new(class.name.clone(), points)
        });
        Plot { title: title.to_owned(), x: Axis::new("time", "s"), y, style, note: None, curves: curves.collect() }
    }

    /// Builds the report of the run.
    pub fn report(
        &self,
        interface: &str,
        ended: &[(String, Vec<ClassStatus>)],
        files: &[tidegate_config::Source],
    ) -> Report {
        let seconds = self.begin.elapsed().as_secs_f64();
        let source = |file: &tidegate_config::Source| Source { name: file.name().into(), text: file.text().into() };
        let sources: Vec<Source> = files.iter().map(source).collect();
        let names: Vec<&str> = files.iter().map(tidegate_config::Source::name).collect();
        let flows = self.flows.iter().map(|(direction, flows)| flows.section(direction));
        let marked = ended.iter().flat_map(|(_, classes)| classes).any(|class| class.counts.marked > 0);
        let sections = [results(ended, seconds), self.over_time(marked)].into_iter().chain(flows);
        Report {
            title: format!("Shaping {interface}"),
            sentence: Some("A live run: what passed, what waited, what was dropped".to_owned()),
            facts: vec![
                ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
                ("interface".to_owned(), interface.to_owned()),
                ("configuration".to_owned(), names.join(", ")),
                ("lasted".to_owned(), human(seconds, "s")),
            ],
            sections: sections.chain([distributions(ended)]).collect(),
            sources,
            primary: Vec::new(),
        }
    }

    /// The plots over time; those of marks only if packets were `marked`.
    fn over_time(&self, marked: bool) -> Section {
        let lines =
            |title: &str, y: Axis, value: &dyn Fn(&Sample) -> Option<f64>| self.plot(title, y, Style::Lines, value);
        let per_second = |count: fn(&Sample) -> u64| {
            move |sample: &Sample| (sample.width > 0.0).then(|| count(sample) as f64 / sample.width)
        };
        let waited = |sample: &Sample| (sample.sent > 0).then(|| sample.waited / sample.sent as f64);
        let section = Section::new("Over time")
            .note("A point is what happened since the point before it; of the queue, the most that was seen.")
            .with(lines("Rate of each class", Axis::new("rate", "bit/s"), &|sample| {
                (sample.width > 0.0).then(|| sample.bytes as f64 * 8.0 / sample.width)
            }))
            .with(lines("Packets in the queue of each class", Axis::new("packets", ""), &|sample| {
                Some(sample.backlog as f64)
            }))
            .with(lines("Mean wait of each class", Axis::new("wait", "s"), &waited).with_gaps())
            .with(
                lines("Wait that 99 of 100 did not exceed", Axis::new("wait", "s"), &|sample| {
                    (sample.sent > 0).then_some(sample.p99)
                })
                .with_gaps(),
            )
            .with(lines(
                "Drops of each class",
                Axis::new("packets a second", ""),
                &per_second(|sample| sample.dropped),
            ));
        if !marked {
            return section;
        }
        let marks = per_second(|sample| sample.marked);
        section.with(lines("Congestion marks of each class", Axis::new("packets a second", ""), &marks))
    }

    /// The samples as columns for notebooks: one row for each class, or flow, and sample.
    pub fn table(&self) -> columns::Table {
        let mut rows: Vec<Row> = Vec::new();
        for class in &self.classes {
            rows.extend(class.samples.iter().map(|sample| Row::of(&class.name, sample)));
        }
        for (direction, flows) in &self.flows {
            let name = |flow: &str| if direction.is_empty() { flow.to_owned() } else { format!("{direction} {flow}") };
            for point in flows.points() {
                rows.push(Row { name: name(&point.flow), is_flow: true, ..Row::of_flow(&point) });
            }
        }
        let text = |of: fn(&Row) -> Option<String>| Column::Text(rows.iter().map(of).collect());
        let integer = |of: fn(&Row) -> Option<u64>| Column::Integer(rows.iter().map(of).collect());
        let number = |of: fn(&Row) -> Option<f64>| Column::Number(rows.iter().map(of).collect());
        columns::Table::default()
            .with("class", text(|row| (!row.is_flow).then(|| row.name.clone())))
            .with("flow", text(|row| row.is_flow.then(|| row.name.clone())))
            .with("end_s", number(|row| Some(row.end)))
            .with("width_s", number(|row| Some(row.width)))
            .with("sent_bytes", integer(|row| Some(row.bytes)))
            .with("dropped_packets", integer(|row| Some(row.dropped)))
            .with("marked_packets", integer(|row| row.marked))
            .with("backlog_packets", integer(|row| row.backlog))
            .with("backlog_bytes", integer(|row| row.backlog_bytes))
            .with("sent_packets", integer(|row| row.sent))
            .with("wait_mean_s", number(|row| row.wait_mean))
            .with("wait_p99_s", number(|row| row.wait_p99))
    }
}

/// The classes of each direction with their names in a report, which have that of the direction where there are several.
fn named(ended: &[(String, Vec<ClassStatus>)]) -> impl Iterator<Item = (String, &ClassStatus)> {
    let several = ended.len() > 1;
    ended.iter().flat_map(move |(direction, classes)| {
        classes
            .iter()
            .map(move |class| (if several { format!("{direction} {}", class.name) } else { class.name.clone() }, class))
    })
}

/// The totals of the classes, and their drops by reason.
fn results(ended: &[(String, Vec<ClassStatus>)], seconds: f64) -> Section {
    let mut totals = Table::new(
        "Classes, from start to end",
        ["class", ">promised", ">packets", ">sent", ">mean rate", ">dropped", ">marked", ">wait p50", ">wait p99"],
    );
    let mut reasons = Table::new("Why packets were dropped", ["class", "reason", ">packets"]);
    for (name, class) in named(ended) {
        let class = class_status(class);
        let bytes = class.through_bytes.as_u64() as f64;
        let text = |quantity| shown(&class.value(quantity)).into();
        totals.row([
            name.clone().into(),
            class.rate.map_or("-".to_owned(), |rate| human(rate.as_bps() as f64, "bit/s")).into(),
            text(ClassQuantity::SentPackets),
            human(bytes, "B").into(),
            human(bytes * 8.0 / seconds, "bit/s").into(),
            text(ClassQuantity::Dropped),
            text(ClassQuantity::Marked),
            human(class.wait_p50.as_secs_f64(), "s").into(),
            human(class.wait_p99.as_secs_f64(), "s").into(),
        ]);
        for drops in &class.dropped {
            reasons.row([name.clone().into(), drops.reason.as_str().into(), drops.packets.to_string().into()]);
        }
    }
    let results = Section::new("Results").with(totals);
    if reasons.rows.is_empty() { results } else { results.with(reasons) }
}

/// The distributions of the waits since the start.
fn distributions(ended: &[(String, Vec<ClassStatus>)]) -> Section {
    let waited = named(ended).filter(|(_, class)| !class.counts.waited.is_empty());
    let curve = |(name, class): (String, &ClassStatus)| {
        let shares = (1..=200).map(|n| f64::from(n) / 200.0).chain([0.999, 1.0]);
        let mut points: Vec<(f64, f64)> =
            shares.map(|share| (class.counts.waited_at(share).as_secs_f64(), share)).collect();
        points.sort_by(|a, b| a.1.total_cmp(&b.1));
        Curve::new(name, points)
    };
    Section::new("Distributions").with(Plot {
        note: None,
        title: "Wait in the queue, distribution".to_owned(),
        x: Axis::log("wait", "s"),
        y: Axis::tail("share of the packets"),
        style: Style::Cdf,
        curves: waited.map(curve).collect(),
    })
}

/// A row of the table for notebooks.
#[derive(Debug, Default)]
struct Row {
    name: String,
    is_flow: bool,
    end: f64,
    width: f64,
    bytes: u64,
    dropped: u64,
    marked: Option<u64>,
    backlog: Option<u64>,
    backlog_bytes: Option<u64>,
    sent: Option<u64>,
    wait_mean: Option<f64>,
    wait_p99: Option<f64>,
}

impl Row {
    fn of(name: &str, sample: &Sample) -> Self {
        Self {
            name: name.to_owned(),
            end: sample.end,
            width: sample.width,
            bytes: sample.bytes,
            dropped: sample.dropped,
            marked: Some(sample.marked),
            backlog: Some(sample.backlog),
            sent: Some(sample.sent),
            wait_mean: (sample.sent > 0).then(|| sample.waited / sample.sent as f64),
            wait_p99: (sample.sent > 0).then_some(sample.p99),
            ..Self::default()
        }
    }
    fn of_flow(point: &flows::FlowPoint) -> Self {
        Self {
            end: point.end,
            width: point.width,
            bytes: point.bytes,
            dropped: point.dropped,
            backlog_bytes: Some(point.queue),
            wait_p99: point.wait,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_no_count_is_lost() {
        let delays = Delays::default();
        let (samples, name) = (Vec::new(), String::new());
        let mut class = Class { name, samples, covers: 1, open: 0, bytes: 0, dropped: 0, marked: 0, delays };
        for n in 1..=100_000_u64 {
            let backlog = if n == 50_000 { 77 } else { 1 };
            let end = n as f64 / 4.0;
            class.add(Sample {
                end,
                width: 0.25,
                bytes: 3,
                dropped: u64::from(n % 10 == 0),
                backlog,
                ..Sample::default()
            });
        }
        assert!(class.samples.len() <= SAMPLES);
        let sum = |of: fn(&Sample) -> u64| class.samples.iter().map(of).sum::<u64>();
        assert_eq!((sum(|s| s.bytes), sum(|s| s.dropped)), (300_000, 10_000));
        // 100,000 observations in samples of 64: 1563.
        assert_eq!((class.covers, class.samples.len()), (64, 1_563));
        assert!((class.samples.iter().map(|s| s.width).sum::<f64>() - 25_000.0).abs() < 1e-6);
        assert_eq!(class.samples.iter().map(|s| s.backlog).max(), Some(77));
        assert!(class.samples.is_sorted_by(|a, b| a.end < b.end));
    }
}

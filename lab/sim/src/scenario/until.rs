//! How many runs a scenario makes, and how long its warm-up lasts, where the file leaves that to a rule.
//!
//! *Source*: Law, *Simulation Modeling and Analysis*, 9.4.1, for runs until an interval has a relative width; MSER-5 for the
//! warm-up ([`tidegate_metrics::warm_up`]).

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::json;
use tidegate_config::decode::mismatch;
use tidegate_config::node::{Node, Value};
use tidegate_config::schema::Schemas;
use tidegate_config::{Decode, Diagnostics, Place};
use tidegate_core::Span;
use tidegate_metrics::names::{not_meant, parts_of, the_only};
use tidegate_metrics::{Points, Series, summarise};

use super::file::{schema_of_span_or, span_or};
use super::model::{Scenario, Trace};
use super::outcome::Outcome;
use super::run::Run;
use crate::conditions::{RateProcess, Windows};
use crate::ids::LinkId;

/// Before so many runs, an interval may be narrow by chance.
const FIRST_RUNS: u32 = 5;

/// Further runs are made until the 95 % interval of a measure is narrow enough.
#[derive(Clone, PartialEq, Debug)]
pub struct Until {
    /// The measure, of one flow or link as `primary` names it or with the flow or link before it, or of all: `goodput of flow bulk`,
    /// `flow bulk goodput`, `goodput`.
    pub measure: String,
    /// Half the width of the interval, as a share of the mean.
    pub share: f64,
}

/// How far a rule is fulfilled by the runs that were made.
#[derive(Clone, PartialEq, Debug)]
pub struct Progress {
    /// The value that is known least, with its variant.
    pub widest: String,
    /// Half the width of its interval, as a share of its mean.
    pub share: f64,
    /// The number of runs to have next; `None` if no more are needed.
    pub next: Option<u32>,
}

impl Until {
    /// Reads `MEASURE +- SHARE %`.
    ///
    /// # Errors
    /// The part that is missing or wrong.
    fn parse(text: &str) -> Result<Self, &'static str> {
        let parts = text.split_once("+-").or_else(|| text.split_once('\u{b1}'));
        let (measure, share) = parts.ok_or("a measure without a share")?;
        let measure = measure.split_whitespace().collect::<Vec<_>>().join(" ");
        if measure.is_empty() {
            return Err("a share without a measure");
        }
        let percent = share.trim().strip_suffix('%').ok_or("a share without %")?;
        let percent = percent.trim().parse().ok().filter(|percent| (0.0..100.0).contains(percent) && *percent > 0.0);
        let percent: f64 = percent.ok_or("a share that is not between 0 and 100 %")?;
        Ok(Self { measure, share: percent / 100.0 })
    }

    /// The measure and the subject that are meant, if it is written as those of `primary` are, by the same rules.
    ///
    /// # Errors
    /// If it means none of `measurable`, subjects with their measures, or several, with those that there are.
    pub(super) fn quantity(&self, measurable: &[(String, Vec<String>)]) -> Result<Option<(String, String)>, String> {
        let Some((measure, subject)) = parts_of(&self.measure) else { return Ok(None) };
        let subjects: Vec<&str> = measurable.iter().map(|(subject, _)| subject.as_str()).collect();
        let subject = the_only(&subjects, subject, "subject")?;
        let of_subject = measurable.iter().filter(|(of, _)| of == subject).flat_map(|(_, measures)| measures);
        let measures: Vec<&str> = of_subject.map(String::as_str).collect();
        let measure = the_only(&measures, measure, &format!("measure of {subject}"))?;
        Ok(Some((measure.to_owned(), subject.to_owned())))
    }

    /// Judges the runs that were made. The numbers of runs do not depend on the machine, nor on how many are made at a
    /// time.
    ///
    /// # Errors
    /// No value has this name; the text lists those that there are.
    pub fn judge(&self, outcomes: &[Outcome]) -> Result<Progress, String> {
        let mut found: BTreeMap<(&str, &str, &str), Vec<f64>> = BTreeMap::new();
        let values = || outcomes.iter().flat_map(|outcome| &outcome.values);
        let mut measured: Vec<(String, Vec<String>)> = Vec::new();
        for value in values() {
            let at = measured.iter().position(|(subject, _)| *subject == value.subject).unwrap_or_else(|| {
                measured.push((value.subject.clone(), Vec::new()));
                measured.len() - 1
            });
            if !measured[at].1.contains(&value.measure) {
                measured[at].1.push(value.measure.clone());
            }
        }
        let quantity = self.quantity(&measured)?;
        for value in values() {
            let whole = self.measure.strip_prefix(value.subject.as_str()).and_then(|rest| rest.strip_prefix(' '));
            let is_meant = match &quantity {
                Some((measure, subject)) => (&value.measure, &value.subject) == (measure, subject),
                None => value.measure == whole.unwrap_or(&self.measure),
            };
            if is_meant {
                let key = (value.variant.as_str(), value.subject.as_str(), value.measure.as_str());
                found.entry(key).or_default().push(value.value);
            }
        }
        let runs = outcomes.len() as u32;
        let share = |values: &Vec<f64>| match summarise(values) {
            Some(summary) if summary.half_width == Some(0.0) => 0.0,
            // A percentile that was not reached has no interval.
            Some(summary) => summary
                .half_width
                .filter(|half| half.is_finite())
                .map_or(f64::INFINITY, |half| half / summary.mean.abs()),
            None => f64::INFINITY,
        };
        let shares = found.iter().map(|(key, values)| (share(values), key));
        let Some((share, (variant, subject, measure))) = shares.max_by(|a, b| a.0.total_cmp(&b.0)) else {
            // `delay p99` may mean `delay up p99`: those with all of its words come first.
            let has_all =
                |name: &&str| self.measure.split(' ').all(|word| name.split(' ').any(|of_name| of_name == word));
            let mut names: Vec<&str> = Vec::new();
            for name in measured.iter().flat_map(|(_, measures)| measures).map(String::as_str) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            names.sort_by_key(|name| !has_all(name));
            return Err(not_meant(&names, &self.measure, "measure"));
        };
        let name = format!("{subject} {measure}");
        let widest = if variant.is_empty() { name } else { format!("{variant}: {name}") };
        let next = (share > self.share).then(|| {
            // The width falls with the root of the number of runs. At most twice as many: the estimate is rough.
            let factor = (share / self.share) * (share / self.share);
            let wanted = (f64::from(runs) * factor).min(f64::from(runs) * 2.0).ceil() as u32;
            wanted.max(runs + 1)
        });
        Ok(Progress { widest, share, next })
    }
}

impl Decode for Until {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        let help = "write for example \"goodput +- 2 %\", or \"delay p99 of flow call +- 2 %\" for one flow";
        let Value::Text(text) = &node.value else {
            mismatch(node, "a measure and a share", help, diagnostics);
            return None;
        };
        let read = Self::parse(text);
        read.map_err(|what| _ = diagnostics.error(node.place, what).label("not a measure and a share in %").help(help))
            .ok()
    }
    fn example() -> String {
        "\"goodput +- 2 %\"".into()
    }
    fn schema(_schemas: &mut Schemas) -> serde_json::Value {
        json!({ "type": "string", "pattern": "^.+(\\+-|\u{b1}) *[0-9.]+ *%$" })
    }
}

/// The warm-up of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WarmUp {
    /// This long.
    Lasts(Span),
    /// As long as MSER-5 finds it in a run with the first seed.
    Mser5,
}

impl Decode for WarmUp {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        span_or(node, diagnostics, ("mser-5", Self::Mser5), Self::Lasts)
    }
    fn example() -> String {
        "\"5s\"".into()
    }
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        schema_of_span_or("mser-5", schemas)
    }
}

/// A warm-up that is found by the first run that needs it, and what has no steady state after half of the run.
pub(super) type FoundWarmUp = Arc<OnceLock<(Span, Vec<String>)>>;

impl Scenario {
    /// The number of runs to begin with, and the largest number.
    pub fn planned_runs(&self) -> (u32, u32) {
        match self.until {
            None => (self.runs, self.runs),
            Some(_) => {
                let most = self.windows().map_or(self.most_runs, |windows| self.most_runs.min(windows));
                (self.runs.max(FIRST_RUNS).min(most), most)
            }
        }
    }

    /// The number of windows of a trace that do not overlap, of which each run has another; `None` if runs do not have such.
    fn windows(&self) -> Option<u32> {
        let (_, windows) = self.traces.iter().find_map(|trace| trace.drawn.as_ref())?;
        (windows.step >= self.duration).then(|| u32::try_from(windows.count()).unwrap_or(u32::MAX))
    }

    /// Checks that so many runs with successive seeds are as many replications.
    ///
    /// # Errors
    /// If runs would have windows of a trace that others have: these are no further samples of the line, whatever else they draw.
    pub fn check_runs(&self, runs: usize) -> Result<(), String> {
        match self.windows() {
            Some(windows) if runs > windows as usize => Err(format!(
                "{runs} runs, and {windows} windows of {} in the trace, of which each run has another: more runs are no further samples of the \
                 line. Make at most {windows}, shorter runs, or take a longer trace",
                self.duration
            )),
            _ => Ok(()),
        }
    }

    /// The time at the beginning of a run that is not measured. If the file leaves it to a rule, the first call simulates
    /// the first seed of each variant.
    pub fn warm_up(&self) -> Span {
        match &self.found_warm_up {
            Some(found) => found.get_or_init(|| self.find_warm_up()).0,
            None => self.warm_up,
        }
    }

    /// A sentence about the warm-up that MSER-5 was to find: how long it is, or which series have no steady state. `None` if the file has the warm-up.
    pub fn said_of_warm_up(&self) -> Option<String> {
        let (span, unsteady) = self.found_warm_up.as_ref()?.get_or_init(|| self.find_warm_up());
        let seconds = span.as_secs_f64();
        Some(match unsteady.as_slice() {
            [] => format!("The warm-up of {seconds:.2} s is found by MSER-5."),
            all => format!(
                "MSER-5 finds no steady state within the first half of the run in the {}: the first {seconds:.2} s are not measured, which is \
                 no warm-up that a rule has found. Make the runs longer, or write a warm-up.",
                all.join(", the ")
            ),
        })
    }

    /// Whether the warm-up is found by MSER-5.
    pub fn finds_warm_up(&self) -> bool {
        self.found_warm_up.is_some()
    }

    /// States what a reader of the results of runs with these seeds has to know: what they are no sample of, such as each line whose rate repeats within
    /// a run, as a trace does that is shorter than the run, and traces, which are the same in all of them; and which direction is up.
    pub fn notes(&self, seeds: impl Iterator<Item = u64>) -> Vec<String> {
        let seeds: Vec<u64> = seeds.collect();
        let runs = seeds.len();
        let repeated = self.wires.iter().enumerate().filter_map(|(number, wire)| {
            let period = wire.conditions.as_ref()?.rate.as_ref()?.periods().into_iter().min()?;
            let times = self.duration.as_secs_f64() / period.as_secs_f64();
            (times > 1.0 + 1e-9).then(|| {
                let (name, period, run) = (self.wire_name(number), period.as_secs_f64(), self.duration.as_secs_f64());
                format!(
                    "The rate of link {name} repeats after {period} s: a run of {run} s has the same {period} s {times:.1} times, and is no \
                     sample of more of the line."
                )
            })
        });
        let fixed = self.traces.iter().filter(|trace| trace.drawn.is_none());
        let fixed: Vec<String> = fixed.map(Trace::named).collect();
        let same = (runs > 1 && !fixed.is_empty()).then(|| {
            format!(
                "All runs have the same part of {}: intervals and tests hold for that part, and say nothing of other times and lines. With \
                 `from = \"drawn\"` each run has another part, of one of several files if `file` is a list: a statement about more lines.",
                fixed.join(", ")
            )
        });
        let drawn = self.traces.iter().filter(|_| runs > 1).filter_map(|trace| {
            let (lengths, windows) = trace.drawn.as_ref()?;
            let all = lengths.iter().fold(Span::ZERO, |all, lasts| all + *lasts);
            let [of_each, of_all, met] = [self.duration, all, self.met(windows, &seeds).min(all)].map(Span::as_secs_f64);
            let (its, these) = if lengths.len() > 1 { ("their", "these traces") } else { ("its", "this trace") };
            let meet = format!("{runs} runs of {of_each} s meet {met:.0} of {its} {of_all:.0} s");
            let meet = match self.warm_up() {
                Span::ZERO => meet,
                warm_up => format!("{meet}, of which each run measures all but its first {} s", warm_up.as_secs_f64()),
            };
            let meet = match met < of_each * runs as f64 - 1e-6 {
                true => format!("{meet}, some of them the same, so that intervals are too narrow"),
                false => format!("{meet}, none of them twice"),
            };
            let possible = self.windows().map_or(String::new(), |all| match (all as usize).saturating_sub(runs) {
                0 => ", and no further run is possible: where more would decide they need shorter runs or more traces".to_owned(),
                more => format!(", and {more} more can be made: where still more would decide they need shorter runs or more traces"),
            });
            Some(format!(
                "Each run has a part of {} by its seed: intervals and tests hold for the times of {these}. {meet}{possible}.",
                trace.named()
            ))
        });
        repeated
            .chain(same)
            .chain(drawn)
            .chain(self.directions().map(|said| format!("In names of measures {said}.")))
            .collect()
    }

    /// How much of a trace runs with these seeds meet.
    fn met(&self, windows: &Windows, seeds: &[u64]) -> Span {
        let mut begins: Vec<(usize, Span)> = seeds.iter().map(|seed| windows.begin(*seed)).collect();
        begins.sort_unstable();
        let (mut met, mut until) = (0, (0, 0));
        for (trace, begin) in begins {
            let (begin, end) = (begin.as_nanos(), (begin + self.duration).as_nanos());
            let known = if until.0 == trace { until.1 } else { 0 };
            met += end - begin.max(known);
            until = (trace, end);
        }
        Span::from_nanos(met)
    }

    /// Gives all traces the windows of the shortest of them, so that all lines of a run begin at the same time, which all of them have.
    ///
    /// # Errors
    /// The place of a line that has another number of traces than the others, and the problem.
    pub(super) fn align_windows(&mut self) -> Result<(), (Place, String)> {
        let drawn = || self.traces.iter().filter_map(|trace| Some((trace, &trace.drawn.as_ref()?.0)));
        let Some((_, first)) = drawn().next() else { return Ok(()) };
        let mut shortest = first.clone();
        for (trace, lengths) in drawn() {
            if lengths.len() != shortest.len() {
                let why = format!(
                    "a line has {} traces, and another {}: all lines of a run begin at one time of the same trace of their lists",
                    lengths.len(),
                    shortest.len()
                );
                return Err((trace.place, why));
            }
            shortest.iter_mut().zip(lengths).for_each(|(least, lasts)| *least = (*least).min(*lasts));
        }
        let all = Windows::of(&shortest, self.duration);
        for (_, windows) in self.traces.iter_mut().filter_map(|trace| trace.drawn.as_mut()) {
            *windows = all.clone();
        }
        for conditions in self.wires.iter_mut().filter_map(|wire| wire.conditions.as_mut()) {
            if let Some(RateProcess::Drawn { windows, .. }) = &mut conditions.rate {
                *windows = all.clone();
            }
        }
        Ok(())
    }

    /// The longest warm-up that MSER-5 finds in the goodput of flows and in the throughput and queueing of watched links.
    /// A measure without a steady state counts with half of the run.
    fn find_warm_up(&self) -> (Span, Vec<String>) {
        let mut pilot = self.clone();
        (pilot.found_warm_up, pilot.warm_up) = (None, Span::ZERO);
        pilot.flows.iter_mut().for_each(|flow| flow.watch = true);
        // Bins that are not widened during the run, and few enough for fine steps.
        pilot.bin = Span::from_nanos((self.duration.as_nanos() / 1_000).max(1));
        let (mut longest, mut unsteady) = (Span::ZERO, Vec::new());
        for (part, variant) in (0..pilot.parts()).zip(pilot.variant_names().map(Some).chain(std::iter::repeat(None))) {
            let mut run = Run::new(&pilot, pilot.seed, part);
            run.run_until(tidegate_core::Instant::ZERO + pilot.duration);
            for SteadySeries { name, points, step } in steady_series(&pilot, &run) {
                let found = warm_up_of(&points, step, pilot.duration);
                longest = longest.max(found.unwrap_or_else(|| half_of(pilot.duration)));
                if found.is_none() {
                    unsteady.push(name + &variant.map_or(String::new(), |variant| format!(" ({variant})")));
                }
            }
        }
        (longest, unsteady)
    }
}

impl Trace {
    /// The names of its files.
    fn named(&self) -> String {
        self.names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    }
}

/// A series of a run that is expected to become steady.
struct SteadySeries {
    name: String,
    points: Points,
    /// The step in which its values are known: of rates a packet in a bin, of queueing the time of one.
    step: f64,
}

/// The size of a packet of most flows, in bits.
const PACKET: f64 = 12_000.0;

/// The series of a run that are expected to become steady.
fn steady_series(scenario: &Scenario, run: &Run<&Scenario>) -> Vec<SteadySeries> {
    let end = run.simulation().now();
    let step = PACKET / scenario.bin.as_secs_f64();
    let flows: Vec<_> = run.simulation().flows().map(|(_, metrics)| metrics).collect();
    let of_section = scenario.sections.iter().filter_map(|section| {
        let mut all = flows[section.flows.clone()].iter().filter_map(|flow| flow.series.as_deref());
        let mut sum: Series = all.next()?.clone();
        all.for_each(|series| sum.merge(series));
        Some(SteadySeries { name: format!("goodput of flow {}", section.name), points: sum.rate_points(end), step })
    });
    let of_link = (0..scenario.wires.len()).filter(|wire| scenario.wires[*wire].watch).flat_map(|wire| {
        let series = run.simulation().link(LinkId(wire as u32)).series.as_deref();
        series.into_iter().flat_map(move |series| {
            let [green, yellow, red] = &series.sent;
            let mut sent = green.clone();
            [yellow, red].into_iter().for_each(|series| sent.merge(series));
            let of = |measure: &str| format!("{measure} of link {}", scenario.wire_name(wire));
            let throughput = SteadySeries { name: of("throughput"), points: sent.rate_points(end), step };
            // A packet more or less in front of one.
            let packet = PACKET * 1e9 / scenario.wires[wire].line.rate.as_bps() as f64;
            [throughput, SteadySeries { name: of("queueing"), points: series.delay_ns.mean_points(), step: packet }]
        })
    });
    of_section.chain(of_link).collect()
}

fn half_of(duration: Span) -> Span {
    Span::from_nanos(duration.as_nanos() / 2)
}

/// The warm-up of points over seconds; `None` if they have no steady state in the first half.
fn warm_up_of(points: &Points, step: f64, duration: Span) -> Option<Span> {
    let values: Vec<f64> = points.iter().map(|point| point.1).collect();
    if values.len() < 50 {
        // Too little happens for a rule.
        return Some(Span::ZERO);
    }
    let cut = tidegate_metrics::warm_up(&values, step)?;
    let begins = points.get(cut).map_or(0.0, |point| point.0);
    Some(Span::from_nanos((begins * 1e9 + 0.5) as u64).min(half_of(duration)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(seed: u64, values: &[(&str, &str, f64)]) -> Outcome {
        let value = |(subject, measure, value): &(&str, &str, f64)| tidegate_metrics::Value {
            variant: String::new(),
            subject: (*subject).into(),
            measure: (*measure).into(),
            unit: "bps",
            value: *value,
        };
        Outcome { seed, values: values.iter().map(value).collect(), ..Outcome::default() }
    }

    #[test]
    fn the_rule_reads_a_measure_and_a_share() {
        let read = |text: &str| Until::parse(text).map(|until| (until.measure, until.share));
        assert_eq!(read("goodput +- 2 %"), Ok(("goodput".into(), 0.02)));
        assert_eq!(read("flow bulk  delay p99\u{b1}0.5%"), Ok(("flow bulk delay p99".into(), 0.005)));
        for (wrong, why) in [
            ("goodput", "without a share"),
            ("goodput +- 2", "without %"),
            ("+- 2 %", "without a measure"),
            ("goodput +- 0 %", "between 0 and 100 %"),
            ("goodput +- 100 %", "between 0 and 100 %"),
            ("goodput +- x %", "between 0 and 100 %"),
        ] {
            let said = read(wrong).expect_err(wrong);
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }

    /// Goodputs of 9 and 11 in turn: the standard error of n runs is about 1 / sqrt(n), so that 5 % of 10 need
    /// (2.0 / 0.5)^2 = 16 runs and some more.
    #[test]
    fn runs_are_made_until_the_interval_is_narrow() {
        let until = Until::parse("goodput +- 5 %").unwrap();
        let runs = |count: u64| -> Vec<Outcome> {
            let values = |n: u64| {
                [("flow a", "goodput", 10.0 + if n.is_multiple_of(2) { 1.0 } else { -1.0 }), ("flow a", "x", 1.0)]
            };
            (0..count).map(|n| outcome(n, &values(n))).collect()
        };
        let mut made = 6;
        let mut steps = vec![made];
        while let Some(next) = until.judge(&runs(made)).unwrap().next {
            assert!(u64::from(next) > made && u64::from(next) <= 2 * made);
            made = u64::from(next);
            steps.push(made);
        }
        assert!((18..=30).contains(&made), "{steps:?}");
        let last = until.judge(&runs(made)).unwrap();
        assert!(last.widest == "flow a goodput" && last.share <= 0.05, "{last:?}");
        // Only the subject that is named counts, and an unknown one is an error with the names that there are.
        let mut mixed = runs(made);
        mixed[0].values.push(outcome(0, &[("flow b", "goodput", 1.0)]).values.remove(0));
        assert_eq!(until.judge(&mixed).unwrap().share, f64::INFINITY, "one run with flow b says nothing");
        assert_eq!(Until::parse("flow a goodput +- 5 %").unwrap().judge(&mixed).unwrap().next, None);
        let unknown = Until::parse("flow c goodput +- 5 %").unwrap().judge(&mixed).unwrap_err();
        assert!(unknown.contains("There are") && unknown.contains('x'), "{unknown}");
        // The same quantity as `primary` names it, by whole words.
        for quantity in ["goodput of flow a +- 5 %", "goodput of a +- 5 %"] {
            assert_eq!(Until::parse(quantity).unwrap().judge(&mixed).unwrap().next, None, "{quantity}");
        }
        let unknown = Until::parse("goodput of flow c +- 5 %").unwrap().judge(&mixed).unwrap_err();
        assert!(unknown.contains("no subject is meant by `flow c`") && unknown.contains("flow a, flow b"), "{unknown}");
        // A call has a delay of each direction, behind many other measures.
        let many: Vec<String> =
            (0..30).map(|n| format!("m{n}")).chain(["delay up p99".into(), "delay down p99".into()]).collect();
        let values: Vec<(&str, &str, f64)> = many.iter().map(|name| ("flow call", name.as_str(), 1.0)).collect();
        let unknown = Until::parse("delay p99 +- 5 %").unwrap().judge(&[outcome(0, &values)]).unwrap_err();
        assert!(
            unknown.contains("There are delay up p99, delay down p99, m0,") && unknown.ends_with(", ..."),
            "{unknown}"
        );
    }
}

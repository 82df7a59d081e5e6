//! An item of an experiment: a measured value, the paper's value, the bound that follows from the paper, and the
//! verdict.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The result of comparing an item with its paper.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The value is within a bound that follows from the paper.
    Reproduced,
    /// The value is outside of the bound, for a cause that a separate experiment found and within the range which that
    /// experiment predicts.
    Deviates,
    /// The value is outside of the bound.
    Contradicted,
    /// The item has no bound.
    Information,
}

impl Verdict {
    /// All verdicts, in the order in which they are counted.
    pub const ALL: [Self; 4] = [Self::Reproduced, Self::Deviates, Self::Contradicted, Self::Information];

    /// The verdict in a table or a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Deviates => "deviates",
            Self::Contradicted => "contradicted",
            Self::Information => "information",
        }
    }
}

/// The basis of a bound. The text names the section, the formula or the runs in one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Basis {
    /// A number or a claim of the paper.
    Paper(Cow<'static, str>),
    /// Arithmetic on parameters that the paper states.
    Theory(Cow<'static, str>),
    /// The spread among the paper's own runs.
    Spread(Cow<'static, str>),
}

/// Creates a basis that is a number or a claim of the paper.
pub fn paper(text: impl Into<Cow<'static, str>>) -> Basis {
    Basis::Paper(text.into())
}
/// Creates a basis that is arithmetic on parameters of the paper.
pub fn theory(text: impl Into<Cow<'static, str>>) -> Basis {
    Basis::Theory(text.into())
}
/// Creates a basis that is the spread among the paper's own runs.
pub fn spread(text: impl Into<Cow<'static, str>>) -> Basis {
    Basis::Spread(text.into())
}

impl Basis {
    /// The kind of the basis and its text in one line.
    pub fn line(&self) -> String {
        match self {
            Self::Paper(text) => format!("paper: {text}"),
            Self::Theory(text) => format!("theory: {text}"),
            Self::Spread(text) => format!("spread: {text}"),
        }
    }
}

/// The range of values that an item may have. Every bound states its basis.
#[derive(Clone, PartialEq, Debug)]
pub struct Bound {
    low: f64,
    high: f64,
    basis: Basis,
}

impl Bound {
    /// The values from `low` to `high`.
    pub fn between(low: f64, high: f64, basis: Basis) -> Self {
        assert!(low <= high, "the bound {low} .. {high} contains nothing");
        Self { low, high, basis }
    }
    /// The values up to and including `high`.
    pub fn at_most(high: f64, basis: Basis) -> Self {
        Self::between(f64::NEG_INFINITY, high, basis)
    }
    /// The values from `low` on.
    pub fn at_least(low: f64, basis: Basis) -> Self {
        Self::between(low, f64::INFINITY, basis)
    }
    /// The values below `high`.
    pub fn below(high: f64, basis: Basis) -> Self {
        Self::at_most(high.next_down(), basis)
    }
    /// The values above `low`.
    pub fn above(low: f64, basis: Basis) -> Self {
        Self::at_least(low.next_up(), basis)
    }
    /// The values that differ from `value` by at most the fraction `part` of it.
    pub fn near(value: f64, part: f64, basis: Basis) -> Self {
        let margin = (value * part).abs();
        Self::between(value - margin, value + margin, basis)
    }
    /// The values that differ from `value` by at most `margin`.
    pub fn around(value: f64, margin: f64, basis: Basis) -> Self {
        Self::between(value - margin, value + margin, basis)
    }
    /// The lower end, if there is one.
    pub fn low(&self) -> Option<f64> {
        self.low.is_finite().then_some(self.low)
    }
    /// The upper end, if there is one.
    pub fn high(&self) -> Option<f64> {
        self.high.is_finite().then_some(self.high)
    }
    /// The basis of the bound.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }
    /// Whether `value` is within the bound. NaN never is.
    pub fn contains(&self, value: f64) -> bool {
        value >= self.low && value <= self.high
    }
}

/// The reason why a value is outside of its bound: the name of the finding, and the range of values which that finding
/// predicts.
#[derive(Clone, PartialEq, Debug)]
struct Cause {
    finding: &'static str,
    low: f64,
    high: f64,
}

/// The mean over runs with different seeds, and its 95 % confidence interval.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// The mean.
    pub mean: f64,
    /// The ends of the confidence interval by Student's t-distribution; `None` for a single run.
    pub interval: Option<(f64, f64)>,
    /// The value of each run.
    pub runs: Vec<f64>,
}

impl Sample {
    /// Creates a sample from one value per run.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        /// The 97.5 % quantiles of Student's t-distribution for 1 to 30 degrees of freedom.
        const T: [f64; 30] = [
            12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
            2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
        ];
        let runs: Vec<f64> = values.into_iter().collect();
        let count = runs.len() as f64;
        let mean = runs.iter().sum::<f64>() / count;
        let interval = (runs.len() > 1).then(|| {
            let variance = runs.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let margin = T.get(runs.len() - 2).copied().unwrap_or(1.98) * (variance / count).sqrt();
            (mean - margin, mean + margin)
        });
        Self { mean, interval, runs }
    }
}

/// Describes the noise of a machine: the least and the largest value of one measurement in several runs.
pub fn range(runs: &[f64], digits: usize) -> String {
    let (low, high) = runs.iter().fold((f64::MAX, f64::MIN), |(low, high), &run| (low.min(run), high.max(run)));
    format!("{low:.digits$} to {high:.digits$} in {} runs", runs.len())
}

/// The median of several runs on a machine. For an even number of runs it is the higher of the two in the middle.
pub fn median(mut runs: Vec<f64>) -> f64 {
    runs.sort_by(f64::total_cmp);
    runs.get(runs.len() / 2).copied().unwrap_or(f64::NAN)
}

/// One cell of a table, reading of a figure, or claim of a paper.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "Record", from = "Record")]
pub struct Item {
    /// The id, unique within the experiment. It begins with the group: `a2.c1.green`.
    pub id: String,
    /// A description of the quantity that is measured.
    pub what: String,
    /// The unit of the value.
    pub unit: String,
    /// The paper's value, if it states a number.
    pub paper: Option<f64>,
    /// The measured value; `None` if it could not be measured here.
    pub measured: Option<f64>,
    /// The 95 % confidence interval of the mean, if there were several runs with different seeds.
    pub interval: Option<(f64, f64)>,
    /// The values of these runs, as far as they are finite.
    pub runs: Vec<f64>,
    /// A remark, such as what the machine lacks or how the value was measured.
    pub note: String,
    bound: Option<Bound>,
    cause: Option<Cause>,
}

/// An item in JSON. Fields that follow from others, such as the verdict, are written but not read.
#[derive(Serialize, Deserialize)]
struct Record {
    id: String,
    what: String,
    unit: String,
    paper: Option<f64>,
    measured: Option<f64>,
    interval: Option<(f64, f64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    runs: Vec<f64>,
    low: Option<f64>,
    high: Option<f64>,
    /// The basis of the bound.
    source: Option<String>,
    /// The finding that explains why the value is outside of the bound.
    #[serde(skip_deserializing)]
    cause: Option<&'static str>,
    #[serde(skip_deserializing)]
    verdict: Option<Verdict>,
    /// Whether the verdict is not "contradicted". Kept for readers of the format that preceded `verdict`.
    #[serde(skip_deserializing)]
    holds: Option<bool>,
    note: String,
}

impl From<Item> for Record {
    fn from(item: Item) -> Self {
        let verdict = item.verdict();
        Self {
            low: item.low(),
            high: item.high(),
            source: item.bound.as_ref().map(|bound| bound.basis.line()),
            cause: (verdict == Some(Verdict::Deviates)).then(|| item.finding()).flatten(),
            verdict,
            holds: verdict.map(|verdict| verdict != Verdict::Contradicted),
            id: item.id,
            what: item.what,
            unit: item.unit,
            paper: item.paper,
            measured: item.measured,
            interval: item.interval,
            runs: item.runs,
            note: item.note,
        }
    }
}

impl From<Record> for Item {
    fn from(record: Record) -> Self {
        let Record { id, what, unit, paper, measured, interval, runs, low, high, source, note, .. } = record;
        let bound = source.map(|source| Bound {
            low: low.unwrap_or(f64::NEG_INFINITY),
            high: high.unwrap_or(f64::INFINITY),
            basis: match source.split_once(": ") {
                Some(("theory", text)) => theory(text.to_owned()),
                Some(("spread", text)) => spread(text.to_owned()),
                Some((_, text)) => self::paper(text.to_owned()),
                None => self::paper(source),
            },
        });
        Self { id, what, unit, paper, measured, interval, runs, note, bound, cause: None }
    }
}

/// Reads the items of a result that `tidegate reproduce NAME --json` printed. The causes of deviations are lost.
///
/// # Errors
/// If `text` is not a result of the experiment of that name.
pub fn from_json(text: &str, experiment: &str) -> Result<Vec<Item>, String> {
    #[derive(Deserialize)]
    struct Whole {
        experiment: String,
        items: Vec<Item>,
    }
    let result: Whole = serde_json::from_str(text).map_err(|error| format!("no result as JSON: {error}"))?;
    if result.experiment != experiment {
        return Err(format!("a result of {}, not of {experiment}", result.experiment));
    }
    Ok(result.items)
}

impl Item {
    /// Creates a measured item, which is information until it has a bound.
    pub fn measured(id: impl Into<String>, what: impl Into<String>, unit: impl Into<String>, measured: f64) -> Self {
        Self {
            id: id.into(),
            what: what.into(),
            unit: unit.into(),
            paper: None,
            measured: Some(measured),
            interval: None,
            runs: Vec::new(),
            note: String::new(),
            bound: None,
            cause: None,
        }
    }
    /// Creates an item with one value per run, whose value is the mean with its confidence interval.
    pub fn sampled(id: impl Into<String>, what: impl Into<String>, unit: impl Into<String>, sample: Sample) -> Self {
        let mut runs = sample.runs;
        runs.retain(|run| sample.interval.is_some() && run.is_finite());
        Self { interval: sample.interval, runs, ..Self::measured(id, what, unit, sample.mean) }
    }
    /// Creates an item for a claim. Its value is 1 if the claim is true and 0 otherwise, and must be 1.
    pub fn claim(id: impl Into<String>, what: impl Into<String>, holds: bool, basis: Basis) -> Self {
        Self::measured(id, what, "true=1", f64::from(u8::from(holds))).bound(Bound::at_least(1.0, basis))
    }
    /// Creates an item that this machine cannot measure, with the reason. It never counts as reproduced.
    pub fn unmeasured(id: impl Into<String>, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { measured: None, note: why.into(), ..Self::measured(id, what, "", 0.0) }
    }
    /// Sets the paper's value.
    #[must_use]
    pub fn paper(mut self, value: f64) -> Self {
        self.paper = Some(value);
        self.check();
        self
    }
    /// Sets the bound on the measured value. The paper's value must lie within it.
    #[must_use]
    pub fn bound(mut self, bound: Bound) -> Self {
        self.bound = Some(bound);
        self.check();
        self
    }
    /// Removes the bound, so that the item is information beside the paper's value.
    #[must_use]
    pub fn unbound(mut self) -> Self {
        self.bound = None;
        self
    }
    /// Sets the cause of a deviation. A value outside of the bound then deviates, instead of contradicting the paper,
    /// if it is in the range `low` to `high` that `finding` predicts. `finding` is an item, a group of items or a
    /// heading of the experiment's page.
    #[must_use]
    pub fn because(mut self, finding: &'static str, low: f64, high: f64) -> Self {
        self.cause = Some(Cause { finding, low, high });
        self
    }
    /// Sets the note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
    /// Panics if the bound excludes the paper's own value, because such a bound cannot follow from the paper.
    fn check(&self) {
        if let (Some(paper), Some(bound)) = (self.paper, &self.bound) {
            assert!(bound.contains(paper), "{}: the paper's value {paper} is outside of its bound {bound:?}", self.id);
        }
    }
    /// The verdict, or `None` if the item could not be measured here. If there is a confidence interval, all of it must
    /// be within the bound.
    pub fn verdict(&self) -> Option<Verdict> {
        let measured = self.measured?;
        let Some(bound) = &self.bound else { return Some(Verdict::Information) };
        let (low, high) = self.interval.unwrap_or((measured, measured));
        Some(if bound.contains(low) && bound.contains(high) {
            Verdict::Reproduced
        } else if self.cause.as_ref().is_some_and(|cause| measured >= cause.low && measured <= cause.high) {
            Verdict::Deviates
        } else {
            Verdict::Contradicted
        })
    }
    /// The lower end of the bound, if there is one.
    pub fn low(&self) -> Option<f64> {
        self.bound.as_ref().and_then(Bound::low)
    }
    /// The upper end of the bound, if there is one.
    pub fn high(&self) -> Option<f64> {
        self.bound.as_ref().and_then(Bound::high)
    }
    /// The basis of the bound.
    pub fn basis(&self) -> Option<&Basis> {
        self.bound.as_ref().map(Bound::basis)
    }
    /// The item, group or heading that explains a value outside of the bound.
    pub fn finding(&self) -> Option<&'static str> {
        self.cause.as_ref().map(|cause| cause.finding)
    }
}

/// The number of items with each verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Items within their bounds.
    pub reproduced: usize,
    /// Items outside of their bounds, for a known cause.
    pub deviates: usize,
    /// Items outside of their bounds, for no known cause.
    pub contradicted: usize,
    /// Items without a bound.
    pub information: usize,
    /// Items that could not be measured here.
    pub unmeasured: usize,
}

impl Counts {
    /// Counts `items`.
    pub fn of<'a>(items: impl IntoIterator<Item = &'a Item>) -> Self {
        let mut counts = Self::default();
        for item in items {
            *match item.verdict() {
                Some(Verdict::Reproduced) => &mut counts.reproduced,
                Some(Verdict::Deviates) => &mut counts.deviates,
                Some(Verdict::Contradicted) => &mut counts.contradicted,
                Some(Verdict::Information) => &mut counts.information,
                None => &mut counts.unmeasured,
            } += 1;
        }
        counts
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { reproduced, deviates, contradicted, information, unmeasured } = self;
        write!(
            f,
            "{reproduced} reproduced, {deviates} deviate, {contradicted} contradicted, {information} information, \
             {unmeasured} not here"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(value: f64) -> Item {
        let bound = Bound::near(10.0, 0.1, paper("table 1"));
        Item::measured("group.cell", "a cell", "s", value).paper(10.0).bound(bound)
    }

    #[test]
    fn the_verdict_follows_from_bound_interval_and_cause() {
        assert_eq!(item(9.0).verdict(), Some(Verdict::Reproduced));
        assert_eq!(item(8.9).verdict(), Some(Verdict::Contradicted));
        assert_eq!(item(8.9).because("group.other", 8.0, 9.0).verdict(), Some(Verdict::Deviates));
        assert_eq!(item(7.9).because("group.other", 8.0, 9.0).verdict(), Some(Verdict::Contradicted));
        assert_eq!(item(f64::NAN).verdict(), Some(Verdict::Contradicted));
        assert_eq!(Item::measured("a", "b", "c", 1.0).verdict(), Some(Verdict::Information));
        assert_eq!(Item::unmeasured("a", "b", "c").verdict(), None);
        let wide = Sample::of([8.0, 12.0]);
        assert_eq!(wide.mean, 10.0);
        assert_eq!(Item { interval: wide.interval, ..item(wide.mean) }.verdict(), Some(Verdict::Contradicted));
        assert!(Bound::above(1.0, paper("")).contains(1.001) && !Bound::above(1.0, paper("")).contains(1.0));
    }

    #[test]
    #[should_panic(expected = "outside of its bound")]
    fn a_bound_without_the_papers_value_is_none() {
        let _ = Item::measured("a", "b", "c", 1.0).bound(Bound::near(1.0, 0.1, theory("ours"))).paper(2.0);
    }

    #[test]
    fn what_was_written_is_read() {
        let sampled = Item::sampled("a", "b", "c", Sample::of([1.0, 2.0]));
        assert_eq!(sampled.runs, [1.0, 2.0]);
        let items = vec![item(8.9), Item::unmeasured("a", "b", "c"), item(10.0).note("n"), sampled];
        let written = serde_json::json!({ "experiment": "x", "items": items }).to_string();
        let read = from_json(&written, "x").unwrap();
        assert_eq!(serde_json::json!({ "experiment": "x", "items": read }).to_string(), written);
        assert!(from_json("{}", "x").is_err() && from_json(&written, "y").is_err());
    }

    #[test]
    fn the_interval_is_students() {
        // The mean is 3, the standard deviation sqrt(2.5), with four degrees of freedom: 2.776 * sqrt(2.5 / 5).
        let (low, high) = Sample::of([1.0, 2.0, 3.0, 4.0, 5.0]).interval.unwrap();
        assert!((low - 1.037).abs() < 1e-3 && (high - 4.963).abs() < 1e-3, "{low} {high}");
    }
}

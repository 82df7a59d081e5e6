//! A suite for congestion controls: fixed scenarios, and criteria of RFC 9743 with a bound for each.
//!
//! RFC 9743 names what the community must consider and gives no thresholds (section 5). The bounds are this suite's. Where a
//! control is judged by what it does to others, the same scenario with TCP's CUBIC (RFC 9438) in its place is the measure, as
//! section 5.2 asks: does it harm them more than a standard control would?
//!
//! ```
//! use tidegate_sim::scenario::conform::{Subject, suite};
//! let subject = Subject::tcp("\"cubic\"");
//! let case = suite().into_iter().find(|case| case.name == "single").unwrap();
//! let text = case.text(&subject);
//! assert!(text.contains("congestion = \"cubic\""));
//! ```

mod cases;

use std::fmt;
use std::ops::ControlFlow;

use serde_json::{Value as Json, json};
use tidegate_config::{Diagnostics, Severity, Source};
use tidegate_core::Span;
use tidegate_metrics::{Digest, summarise};

use super::{Outcome, Scenario, congestion};

/// A congestion control in its transport, as the flows of a scenario name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject(String);

impl Subject {
    /// The control that `name` means, over QUIC if `quic` or if it is one of quinn, and over TCP otherwise. A name is a word of
    /// `tcp.congestion`, the word of a registered kind, or the table of one in TOML.
    pub fn named(name: &str, quic: bool) -> Self {
        let value = if name.trim_start().starts_with('{') {
            name.to_owned()
        } else if congestion::kinds().contains(&name) {
            format!("{{ kind = \"{name}\" }}")
        } else {
            // Quoted as TOML, whatever it has in it: an error about it shows it.
            Json::from(name).to_string()
        };
        if quic || name.starts_with("quinn-") { Self::quic(&value) } else { Self::tcp(&value) }
    }
    /// TCP with the control `congestion`, a value of `tcp.congestion` in TOML, and otherwise as Linux has it, with HyStart where the control
    /// has a slow start, and a larger window. DCTCP has ECN, without which it is Reno; Prague sets it itself.
    pub fn tcp(congestion: &str) -> Self {
        Self::tcp_with(congestion, congestion.trim() == "\"dctcp\"")
    }
    /// TCP, with ECN (RFC 3168) if `ecn`.
    fn tcp_with(congestion: &str, ecn: bool) -> Self {
        let ecn = if ecn { ", ecn = true" } else { "" };
        Self(format!(
            "tcp = {{ defaults = \"linux\", congestion = {congestion}{ecn}, mss = \"1460B\", window = \"64MiB\" }}"
        ))
    }
    /// QUIC with the control `congestion`. Whoever runs it has registered this transport.
    pub fn quic(congestion: &str) -> Self {
        Self(format!("transport = {{ kind = \"quic\", congestion = {congestion}, window = \"64MB\" }}"))
    }
    /// Checks that the control can be read.
    ///
    /// # Errors
    /// Each error and its remedy. The scenario in which the control is tried for this is no file of the user, and no place in it is named.
    pub fn check(&self) -> Result<(), String> {
        let case = matrix();
        let (source, mut diagnostics) = (Source::new(case.name, case.text(self)), Diagnostics::new());
        if Scenario::load(&source, None, &mut diagnostics).is_some() {
            return Ok(());
        }
        let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
        let texts = errors.map(|error| match &error.help {
            Some(help) => format!("the control cannot be used: {}\n{help}", error.message),
            None => format!("the control cannot be used: {}", error.message),
        });
        Err(texts.collect::<Vec<_>>().join("\n"))
    }
    /// The control beside which others are judged.
    pub fn reference() -> Self {
        Self::tcp("\"cubic\"")
    }
}

/// The runs of a case: with the control, and with the reference in its place where a criterion needs it.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// The outcome of each seed.
    pub own: Vec<Outcome>,
    /// The outcome of each seed with the reference; empty if no criterion compares.
    pub reference: Vec<Outcome>,
}

impl Runs {
    /// A digest of all runs.
    pub fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        self.own.iter().chain(&self.reference).for_each(|outcome| digest.digest(outcome.digest));
        digest
    }
}

/// The values of one seed, for the figure of a criterion.
pub(crate) struct Values<'a> {
    own: &'a Outcome,
    reference: Option<&'a Outcome>,
}

/// All values of a measure of a subject, one for each variant.
fn of<'a>(outcome: &'a Outcome, subject: &'a str, measure: &'a str) -> impl Iterator<Item = f64> + 'a {
    let wanted = move |value: &&tidegate_metrics::Value| value.subject == subject && value.measure == measure;
    outcome.values.iter().filter(wanted).map(|value| value.value)
}

impl Values<'_> {
    fn get(&self, subject: &str, measure: &str) -> Option<f64> {
        of(self.own, subject, measure).next()
    }
    fn least(&self, subject: &str, measure: &str) -> Option<f64> {
        of(self.own, subject, measure).min_by(f64::total_cmp)
    }
    fn most(&self, subject: &str, measure: &str) -> Option<f64> {
        of(self.own, subject, measure).max_by(f64::total_cmp)
    }
    /// The value over that with the reference.
    fn over_reference(&self, subject: &str, measure: &str) -> Option<f64> {
        let reference = of(self.reference?, subject, measure).next()?;
        Some(self.get(subject, measure)? / reference)
    }
    /// The least, over all variants, of the value over that with the reference.
    fn least_over_reference(&self, subject: &str, measure: &str) -> Option<f64> {
        let pairs = of(self.own, subject, measure).zip(of(self.reference?, subject, measure));
        pairs.map(|(own, reference)| own / reference).min_by(f64::total_cmp)
    }
    /// How much larger the value is than with the reference.
    fn above_reference(&self, subject: &str, measure: &str) -> Option<f64> {
        Some(self.get(subject, measure)? - of(self.reference?, subject, measure).next()?)
    }
}

/// The bound of a figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bound {
    /// The figure is at least this.
    AtLeast(f64),
    /// The figure is at most this.
    AtMost(f64),
}

impl Bound {
    fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(least) => figure >= least,
            Self::AtMost(most) => figure <= most,
        }
    }
}

/// A criterion: a figure of the runs of a case, and its bound.
#[derive(Clone, Copy)]
pub struct Criterion {
    /// The figure, in words.
    pub figure: &'static str,
    /// Its unit: `bps`, `ns`, `%`, `packets` or 1.
    pub unit: &'static str,
    /// The section of RFC 9743 with the criterion.
    pub section: &'static str,
    /// The bound.
    pub bound: Bound,
    /// The reason for the bound.
    pub reason: &'static str,
    /// Whether the figure compares with the reference.
    pub compares: bool,
    of: fn(&Values<'_>) -> Option<f64>,
}

/// A scenario of the suite, and what it judges.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    template: &'static str,
    /// The quantity that is judged.
    pub criteria: &'static [Criterion],
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The result of a criterion.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The mean of the figure over the seeds, and its least and largest value. NaN if it was not measured.
    pub mean: f64,
    /// The least and the largest value.
    pub range: [f64; 2],
    /// Half the width of the 95 % interval of the mean over the seeds; `None` for a single one.
    pub half_width: Option<f64>,
    /// Whether the mean is within the bound.
    pub holds: bool,
}

impl Finding {
    /// Whether the interval of the mean has the bound in it, so that other seeds may say otherwise.
    pub fn is_on(&self, bound: Bound) -> bool {
        let (Bound::AtLeast(bound) | Bound::AtMost(bound)) = bound;
        self.half_width.is_some_and(|half| half > 0.0 && (self.mean - bound).abs() <= half)
    }
}

impl Case {
    /// The scenario with `subject`.
    pub fn text(&self, subject: &Subject) -> String {
        let (cubic, with_ecn) = (Subject::reference(), Subject::tcp_with("\"cubic\"", true));
        self.template
            .replace("{{control}}", &subject.0)
            .replace("{{cubic}}", &cubic.0)
            .replace("{{cubic-ecn}}", &with_ecn.0)
    }
    /// The behaviour that the scenario shows.
    pub fn sentence(&self) -> &'static str {
        let line = self.template.lines().find_map(|line| line.strip_prefix("sentence = \""));
        line.map_or("", |line| line.trim_end_matches('"'))
    }
    /// Reads the scenario with `subject`.
    ///
    /// # Errors
    /// The errors of the text, such as those of a control that does not exist.
    pub fn scenario(&self, subject: &Subject) -> Result<Scenario, String> {
        let source = Source::new(format!("{}.toml", self.name), self.text(subject));
        let mut diagnostics = Diagnostics::new();
        Scenario::load(&source, None, &mut diagnostics).ok_or_else(|| diagnostics.render(&source))
    }
    /// Whether a criterion compares with the reference.
    pub fn compares(&self) -> bool {
        self.criteria.iter().any(|criterion| criterion.compares)
    }
    /// Runs the case with `seeds`. `progress` is called now and then; if it breaks, there is no result.
    ///
    /// # Errors
    /// As [`Case::scenario`].
    pub fn run(
        &self,
        subject: &Subject,
        seeds: impl Iterator<Item = u64> + Clone,
        mut progress: impl FnMut(Span) -> ControlFlow<()>,
    ) -> Result<Option<Runs>, String> {
        let mut all = |subject: &Subject| -> Result<Option<Vec<Outcome>>, String> {
            let scenario = self.scenario(subject)?;
            let run = |seed: u64| {
                let parts = (0..scenario.parts()).map(|part| scenario.run_part(seed, part, &mut progress));
                parts.collect::<Option<Vec<_>>>().map(|parts| Outcome::joined(seed, parts))
            };
            Ok(seeds.clone().map(run).collect())
        };
        let Some(own) = all(subject)? else { return Ok(None) };
        let reference = if self.compares() { all(&Subject::reference())? } else { Some(Vec::new()) };
        Ok(reference.map(|reference| Runs { own, reference }))
    }
    /// Judges the runs by each criterion.
    pub fn judge(&self, runs: &Runs) -> Vec<Finding> {
        let judged = |criterion: &Criterion| {
            let figure = |(number, own): (usize, &Outcome)| {
                let reference = runs.reference.get(number);
                (criterion.of)(&Values { own, reference }).filter(|figure| figure.is_finite())
            };
            let found: Option<Vec<f64>> = runs.own.iter().enumerate().map(figure).collect();
            let Some(found) = found.filter(|found| !found.is_empty()) else {
                return Finding { mean: f64::NAN, range: [f64::NAN; 2], half_width: None, holds: false };
            };
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            let half_width = summarise(&found).and_then(|summary| summary.half_width);
            let range =
                [found.iter().copied().fold(f64::MAX, f64::min), found.iter().copied().fold(f64::MIN, f64::max)];
            Finding { mean, range, half_width, holds: criterion.bound.holds(mean) }
        };
        self.criteria.iter().map(judged).collect()
    }
}

/// The result of the suite.
#[derive(Clone, Debug)]
pub struct Judgement {
    control: String,
    subject: Subject,
    cases: Vec<(Case, Vec<Finding>, Digest)>,
    seeds: Vec<u64>,
}

impl Judgement {
    /// Judges the runs of cases with the control of this name.
    pub fn new(control: &str, subject: &Subject, cases: Vec<(Case, Runs)>) -> Self {
        let seeds = cases.first().map_or(Vec::new(), |(_, runs)| runs.own.iter().map(|outcome| outcome.seed).collect());
        let judged = |(case, runs): (Case, Runs)| (case, case.judge(&runs), runs.digest());
        Self {
            control: control.to_owned(),
            subject: subject.clone(),
            cases: cases.into_iter().map(judged).collect(),
            seeds,
        }
    }
    /// The cases with a finding for each criterion.
    pub fn cases(&self) -> impl Iterator<Item = (&Case, &[Finding])> {
        self.cases.iter().map(|(case, findings, _)| (case, findings.as_slice()))
    }
    /// Whether all criteria hold.
    pub fn all_hold(&self) -> bool {
        self.cases().flat_map(|(_, findings)| findings).all(|finding| finding.holds)
    }
    /// A digest of all runs.
    pub fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        self.cases.iter().for_each(|(.., one)| digest.digest(*one));
        digest
    }
    fn transport(&self) -> &'static str {
        if self.subject.0.starts_with("transport") { "QUIC" } else { "TCP" }
    }
    /// The result in one sentence.
    pub fn sentence(&self) -> String {
        let all: usize = self.cases().map(|(_, findings)| findings.len()).sum();
        let hold = self.cases().flat_map(|(_, findings)| findings).filter(|finding| finding.holds).count();
        let pairs = self.cases().flat_map(|(case, findings)| case.criteria.iter().zip(findings));
        let on = match pairs.filter(|(criterion, finding)| finding.is_on(criterion.bound)).count() {
            0 => String::new(),
            on => format!("; {on} on the bound, where other seeds may say otherwise: more runs (--runs) tell"),
        };
        let (control, transport, digest) = (&self.control, self.transport(), self.digest());
        let (runs, plural) = (self.seeds.len(), if self.seeds.len() == 1 { "" } else { "s" });
        format!(
            "{control} over {transport}: {hold} of {all} criteria hold, by the mean of {runs} run{plural}{on}; digest {digest}"
        )
    }
    /// The result as JSON, with the version of the program that made it.
    pub fn json(&self, version: &str) -> Json {
        let criterion = |(criterion, finding): (&Criterion, &Finding)| {
            let bound = match criterion.bound {
                Bound::AtLeast(least) => json!({ "at_least": least }),
                Bound::AtMost(most) => json!({ "at_most": most }),
            };
            json!({
                "figure": criterion.figure, "unit": criterion.unit, "section": criterion.section, "bound": bound,
                "reason": criterion.reason, "beside_cubic": criterion.compares,
                "mean": finding.mean, "half_width_95": finding.half_width, "least": finding.range[0], "largest": finding.range[1],
                "holds": finding.holds, "on_bound": finding.is_on(criterion.bound),
            })
        };
        let case = |(case, findings, digest): &(Case, Vec<Finding>, Digest)| {
            json!({
                "name": case.name, "sentence": case.sentence(), "digest": digest.to_string(),
                "criteria": case.criteria.iter().zip(findings).map(criterion).collect::<Vec<_>>(),
            })
        };
        json!({
            "version": version, "control": self.control, "transport": self.transport(), "seeds": self.seeds,
            "digest": self.digest().to_string(), "cases": self.cases.iter().map(case).collect::<Vec<_>>(),
        })
    }
}

/// The cases of the suite.
pub fn suite() -> Vec<Case> {
    cases::CASES.to_vec()
}

/// The scenario of a matrix of coexistence: a flow beside one of CUBIC. Its variants are queues; rates and delays vary by
/// [`matrix_axes`].
pub fn matrix() -> Case {
    cases::MATRIX
}

/// The axes of a matrix: paths of the scenario, and their values as lists of TOML.
pub fn matrix_axes() -> [(&'static str, &'static str); 2] {
    [
        ("link.r->s.rate", "[\"4mbit\", \"12mbit\", \"40mbit\", \"120mbit\"]"),
        // One way: the round trips are twice as long.
        ("link.r->s.delay", "[\"2500us\", \"5ms\", \"10ms\", \"25ms\", \"50ms\"]"),
    ]
}

//! Compares measured values with those that an artifact expects.
//!
//! The artifact is the work of somebody else, who may have written into it what suits him. How far a value may be from the expected
//! one therefore follows from the runs that were made here, and a value that may be far off is named as no evidence.

use tidegate_display::human;

use super::{Expected, Manifest};

/// A value that may differ by more than this part of what was measured is no evidence that the results are reproduced.
const FIRM: f64 = 0.1;

/// How many values are named in a line.
const NAMED: usize = 5;

/// The result of the comparison.
#[derive(Debug, Default)]
pub struct Compared {
    /// A line for each value that is not as expected.
    pub wrong: Vec<String>,
    /// The names of values that are as expected, but could be far off.
    weak: Vec<String>,
    /// The number of expected values.
    expected: usize,
    /// The number of measured values that the artifact does not expect.
    unexpected: usize,
}

impl Compared {
    /// Notes about the values that are not wrong.
    pub fn remarks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.weak.is_empty() {
            let (weak, named) = (self.weak.len(), self.weak.len().min(NAMED));
            let more = if weak > named { format!(" and {} more", weak - named) } else { String::new() };
            lines.push(format!(
                "not evidence: {weak} of {} values, which may be off by more than {} %: {}{more}",
                self.expected,
                FIRM * 100.0,
                self.weak[..named].join("; ")
            ));
        }
        if self.unexpected > 0 {
            lines.push(format!("values that were measured and the artifact does not expect: {}", self.unexpected));
        }
        lines
    }
}

/// The place of the value that has the names of `wanted`.
fn find(values: &[Expected], wanted: &Expected) -> Option<usize> {
    values.iter().position(|other| {
        other.subject == wanted.subject && other.variant == wanted.variant && other.measure == wanted.measure
    })
}

/// How far values are apart; nothing, if both were not reached.
fn distance(a: f64, b: f64) -> f64 {
    if a == b { 0.0 } else { (a - b).abs() }
}

/// Two values for people; whole where their digits do not tell them apart.
fn told_apart(values: [f64; 2], unit: &str) -> [String; 2] {
    let [a, b] = values.map(|value| human(value, unit));
    if a == b { values.map(|value| format!("{value} {unit}")) } else { [a, b] }
}

fn rounding(value: f64) -> f64 {
    value.abs() * 1e-12
}

/// Compares the values of runs with the same digest: they must be equal but for the rounding of text, and the same values.
pub fn exactly(manifest: &Manifest, found: &[Expected]) -> Compared {
    let mut compared = Compared { expected: manifest.values.len(), ..Compared::default() };
    for expected in &manifest.values {
        let Expected { subject, measure, unit, mean, half_width_95, .. } = expected;
        let Some(other) = find(found, expected).map(|at| &found[at]) else {
            compared.wrong.push(format!("{subject}, {measure}: not measured"));
            continue;
        };
        let interval = match (half_width_95, other.half_width_95) {
            (Some(a), Some(b)) => (a - b).abs() <= rounding(*a),
            (a, b) => a.is_none() && b.is_none(),
        };
        let far = distance(other.mean, *mean);
        // A NaN, which others may have written, is wrong.
        if far > rounding(*mean) || !far.is_finite() {
            let [mean, other] = told_apart([*mean, other.mean], unit);
            compared.wrong.push(format!("{subject}, {measure}: {mean} is expected; measured was {other}"));
        } else if !interval || other.unit != *unit || other.not_reached != expected.not_reached {
            compared.wrong.push(format!(
                "{subject}, {measure}: its unit, its 95 % interval or the number of runs that did not reach it is another"
            ));
        }
    }
    let unexpected = found.iter().filter(|value| find(&manifest.values, value).is_none());
    compared
        .wrong
        .extend(unexpected.map(|value| format!("{}, {}: measured, and not expected", value.subject, value.measure)));
    compared
}

/// Compares the values of other runs: each is within its tolerance in percent, or within the 95 % interval of what was measured here.
/// The interval that the artifact states does not count, as its author may have made it wide.
pub fn within_tolerances(manifest: &Manifest, found: &[Expected]) -> Compared {
    let unexpected = found.iter().filter(|value| find(&manifest.values, value).is_none()).count();
    let mut compared = Compared { expected: manifest.values.len(), unexpected, ..Compared::default() };
    for expected in &manifest.values {
        let Expected { subject, measure, unit, mean, .. } = expected;
        let Some(other) = find(found, expected).map(|at| &found[at]) else {
            compared.wrong.push(format!("{subject}, {measure}: not measured"));
            continue;
        };
        let percent = manifest.tolerance(measure);
        let allowed = (other.mean.abs() * percent / 100.0).max(other.half_width_95.unwrap_or(0.0));
        let far = distance(other.mean, *mean);
        if far > allowed || !far.is_finite() || allowed.is_nan() {
            let (mean, other) = (human(*mean, unit), human(other.mean, unit));
            compared.wrong.push(format!(
                "{subject}, {measure}: {mean} is expected; measured was {other}, with {percent} % or the 95 % interval of these runs \
                 to either side"
            ));
        } else if allowed > FIRM * other.mean.abs() {
            compared.weak.push(format!("{subject}, {measure}"));
        }
    }
    if !manifest.values.is_empty() && compared.wrong.is_empty() && compared.weak.len() == manifest.values.len() {
        compared.wrong.push("no value is evidence: all may be off by too much".to_owned());
    }
    compared
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(measure: &str, mean: f64, half_width_95: f64) -> Expected {
        Expected {
            not_reached: None,
            subject: "flow bulk".into(),
            variant: String::new(),
            point: String::new(),
            measure: measure.into(),
            unit: "ns".into(),
            mean,
            half_width_95: Some(half_width_95),
        }
    }

    fn manifest(values: Vec<Expected>, percent: f64) -> Manifest {
        Manifest {
            needs: None,
            artifact: 1,
            title: String::new(),
            version: "0".into(),
            program: String::new(),
            seconds: 0.0,
            processors: 0,
            scenario: String::new(),
            axes: Vec::new(),
            by: Vec::new(),
            seed: 1,
            runs: 5,
            digest: String::new(),
            digests: Vec::new(),
            look: String::new(),
            figures: Vec::new(),
            claims: Vec::new(),
            tolerances: vec![super::super::Tolerance { measure: String::new(), percent }],
            figure_tolerance_percent: 1.0,
            values,
            primary: Vec::new(),
        }
    }

    /// The author has written another mean and an interval that reaches to the measured one.
    #[test]
    fn an_interval_that_the_author_wrote_does_not_count() {
        let found = [value("delay p50", 100.0, 1.0), value("goodput", 50.0, 0.5)];
        let honest = manifest(vec![value("delay p50", 101.5, 1.0), value("goodput", 50.4, 0.5)], 2.0);
        let compared = within_tolerances(&honest, &found);
        assert!(compared.wrong.is_empty() && compared.remarks().is_empty(), "{compared:?}");
        let wide = manifest(vec![value("delay p50", 150.0, 90.0), value("goodput", 50.4, 0.5)], 2.0);
        let compared = within_tolerances(&wide, &found);
        assert!(
            compared.wrong.len() == 1 && compared.wrong[0].contains("delay p50: 150 ns is expected"),
            "{compared:?}"
        );
    }

    #[test]
    fn what_may_be_far_off_is_not_evidence() {
        // Few runs that differ much, and a tolerance that allows everything.
        let found = [value("timeouts", 1.0, 2.0), value("goodput", 50.0, 0.5)];
        let compared =
            within_tolerances(&manifest(vec![value("timeouts", 2.5, 0.1), value("goodput", 50.4, 0.5)], 2.0), &found);
        assert!(compared.wrong.is_empty(), "{compared:?}");
        assert_eq!(
            compared.remarks(),
            ["not evidence: 1 of 2 values, which may be off by more than 10 %: flow bulk, timeouts"]
        );
        let all = manifest(vec![value("timeouts", 1.9, 0.1), value("goodput", 99.0, 0.5)], 100.0);
        let compared = within_tolerances(&all, &found);
        assert_eq!(compared.wrong, ["no value is evidence: all may be off by too much"]);
    }

    #[test]
    fn values_that_the_author_left_out_are_counted() {
        let found = [value("delay p50", 100.0, 1.0), value("goodput", 50.0, 0.5)];
        let compared = within_tolerances(&manifest(vec![value("goodput", 50.0, 0.5)], 2.0), &found);
        assert_eq!(compared.remarks(), ["values that were measured and the artifact does not expect: 1"]);
    }
}

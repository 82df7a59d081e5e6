//! The suite for congestion controls: its scenarios are sound, and it tells a control that harms others from those that do not.

use std::ops::ControlFlow;

use tidegate_config::{Place, record};
use tidegate_core::Instant;
use tidegate_sim::scenario::conform::{Bound, Case, Finding, Judgement, Subject, matrix, matrix_axes, suite};
use tidegate_sim::scenario::congestion::{self, Kind};
use tidegate_sim::scenario::sweep::Axis;
use tidegate_sim::tcp::{Ack, CongestionControl, CongestionSignal};

record! {
    /// A window of 600 segments, whatever happens.
    pub struct Deaf as "deaf control" {
        /// The window in segments.
        pub segments: u64 = 600,
    }
}

struct Fixed(u64);

impl CongestionControl for Fixed {
    fn on_ack(&mut self, _: &Ack) {}
    fn on_congestion(&mut self, _: Instant, _: u64, _: CongestionSignal) {}
    fn on_timeout(&mut self, _: Instant, _: u64, _: bool) {}
    fn on_recovered(&mut self, _: Instant, _: u64) {}
    fn on_idle(&mut self, _: u64) {}
    fn cwnd(&self) -> u64 {
        self.0
    }
    fn ssthresh(&self) -> u64 {
        self.0
    }
}

impl Kind for Deaf {
    const KIND: &'static str = "deaf";
    fn check(&self, _: Place, _: &mut tidegate_config::Diagnostics) {}
    fn make(&self, mss: u64, _: u64) -> Box<dyn CongestionControl> {
        Box::new(Fixed(self.segments * mss))
    }
}

fn judge(name: &str, cases: impl IntoIterator<Item = Case>) -> Judgement {
    let subject = Subject::named(name, false);
    let run = |case: Case| {
        let runs = case.run(&subject, 1..=1, |_| ControlFlow::Continue(()));
        (case, runs.unwrap_or_else(|wrong| panic!("{wrong}")).expect("it is not stopped"))
    };
    Judgement::new(name, &subject, cases.into_iter().map(run).collect())
}

/// The cases of which a criterion fails.
fn failed(judgement: &Judgement) -> Vec<&'static str> {
    let fails = judgement.cases().filter(|(_, findings)| findings.iter().any(|finding| !finding.holds));
    fails.map(|(case, _)| case.name).collect()
}

/// Standard controls meet the criteria, but for the one of which RFC 9743 says itself that they do not. BBR meets that, too.
#[test]
fn standard_controls_meet_the_criteria() {
    for (control, expected) in [("reno", &["deep-queue"][..]), ("cubic", &["deep-queue"]), ("bbr", &[])] {
        let judgement = judge(control, suite());
        assert_eq!(failed(&judgement), expected, "{:#}", judgement.json(""));
        let measured = judgement.cases().flat_map(|(_, findings)| findings).all(|finding| finding.mean.is_finite());
        assert!(measured, "{control}: {:#}", judgement.json(""));
    }
}

/// Scalable controls take from CUBIC behind one queue that marks, which RFC 9331, section 4.3, says of them; with a mark as with a loss
/// nothing is taken. DCTCP is judged with ECN, without which it is Reno.
#[test]
fn scalable_controls_fail_behind_one_marking_queue() {
    let cases = || suite().into_iter().filter(|case| case.name == "marking-queues");
    for control in ["prague", "dctcp"] {
        let judgement = judge(control, cases());
        let (_, findings) = judgement.cases().next().expect("the case");
        assert!(!findings[0].holds && findings[0].mean < 0.4 && findings[1].holds, "{control}: {findings:?}");
    }
    let judgement = judge("reno", cases());
    assert!(judgement.all_hold(), "{:#}", judgement.json(""));
}

/// A mean whose interval has the bound in it is on the bound: other seeds may say otherwise.
#[test]
fn a_mean_near_its_bound_is_on_it() {
    let finding =
        |mean: f64, half_width: Option<f64>| Finding { mean, range: [mean; 2], half_width, holds: mean >= 0.5 };
    for (mean, half, on) in [(0.51, Some(0.02), true), (0.497, Some(0.02), true), (0.53, Some(0.02), false)] {
        assert_eq!(finding(mean, half).is_on(Bound::AtLeast(0.5)), on, "{mean}");
        assert_eq!(finding(mean, half).is_on(Bound::AtMost(0.5)), on, "{mean}");
    }
    assert!(!finding(0.5, None).is_on(Bound::AtLeast(0.5)), "of a single run nobody knows");
    // Runs of one seed have no interval, and those of several one from Student's t.
    let subject = Subject::named("cubic", false);
    let case = suite().into_iter().find(|case| case.name == "lossy").expect("the case");
    let runs = case.run(&subject, 1..=3, |_| ControlFlow::Continue(())).expect("valid").expect("not stopped");
    let findings = case.judge(&runs);
    assert!(findings.iter().any(|finding| finding.half_width.is_some_and(|half| half > 0.0)), "{findings:?}");
    let said = Judgement::new("cubic", &subject, vec![(case, runs)]);
    assert_eq!(said.sentence().contains(" on the bound,"), said.json("").to_string().contains("\"on_bound\":true"));
}

/// A sender that ignores all signals fills queues, loses packets for good and starves CUBIC.
#[test]
fn a_control_that_ignores_signals_fails() {
    congestion::register::<Deaf>();
    let harmful = [
        "single",
        "deep-queue",
        "fair",
        "coexistence",
        "marking-queues",
        "real-time",
        "variable-rate",
        "active-queues",
    ];
    let judgement = judge("deaf", suite().into_iter().filter(|case| harmful.contains(&case.name)));
    assert_eq!(failed(&judgement), harmful, "{:#}", judgement.json(""));
}

#[test]
fn results_can_be_compared_by_digest() {
    let cases = || suite().into_iter().filter(|case| ["single", "lossy", "short-beside-long"].contains(&case.name));
    let digest = |name| judge(name, cases()).digest().to_string();
    assert_eq!(digest("reno"), digest("reno"));
    assert_ne!(digest("reno"), digest("cubic"));
}

/// Each case has a sentence and criteria with a section and a reason, and the matrix has the keys that its axes vary.
#[test]
fn the_suite_is_complete() {
    for case in suite() {
        assert!(!case.sentence().is_empty() && !case.criteria.is_empty(), "{case:?}");
        for criterion in case.criteria {
            assert!(!criterion.section.is_empty() && !criterion.reason.is_empty(), "{case:?}: {}", criterion.figure);
        }
        let placeholders = case.text(&Subject::reference()).contains("{{");
        assert!(!placeholders && case.scenario(&Subject::reference()).is_ok(), "{case:?}");
    }
    let matrix = matrix().scenario(&Subject::reference()).expect("it is sound");
    assert_eq!(matrix.variant_names().count(), 4);
    assert!(matrix_axes().iter().all(|(path, values)| Axis::parse(path, values).is_ok()));
}

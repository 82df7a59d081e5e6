//! The claims of an artifact: orders of two variants by a measure, or equalities, which the results must support here and elsewhere.

use serde::{Deserialize, Serialize};
use tidegate_metrics::{LEVEL, holm};
use tidegate_report::Look;
use tidegate_report::comparison::{Comparison, Estimate, Group, Stated};
use tidegate_report::judgement::{Contrast, probability_after};
use tidegate_report::simulation::kinds_of;

use crate::Failure;

/// The most names that an error lists.
const MOST_NAMED: usize = 24;

/// A statement that a measure of one variant is less than that of another, or that both are equal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The statement in the words of the paper; empty if there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
    measure: String,
    subject: String,
    less: String,
    more: String,
    /// Whether the two variants are equal within 2 %, in place of one having less than the other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    equal: bool,
    /// The difference and its probability where the artifact was packed, or that the seeds change nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    evidence: String,
}

impl Claim {
    /// Parses `[TEXT=]MEASURE of SUBJECT: A < B`, or with `>` or `=` between the variants. The subject and the variants of a sweep have `=`, too:
    /// the words end at the last one before a whole order.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form = "expected [TEXT=]MEASURE of SUBJECT[ at POINT]: VARIANT < VARIANT, or with = for equal within 2 %, such as \
                    `CoDel waits less=delay p99 of flow bulk: codel < fifo`";
        let ends = text.rmatch_indices('=').map(|(at, _)| (&text[..at], &text[at + 1..]));
        let mut all = ends.chain([("", text)]);
        all.find_map(|(words, order)| Self::order_of(words, order)).ok_or_else(|| form.to_owned())
    }

    /// The claim of the words of a paper, and the order that stands for them.
    fn order_of(words: &str, order: &str) -> Option<Self> {
        let (of, order) = order.rsplit_once(": ")?;
        let (measure, subject) = of.split_once(" of ")?;
        let (relation, (a, b)) =
            [" < ", " > ", " = "].into_iter().find_map(|relation| Some((relation, order.split_once(relation)?)))?;
        let [measure, subject, a, b] = [measure, subject, a, b].map(|part| part.trim().to_owned());
        let (less, more) = if relation == " > " { (b, a) } else { (a, b) };
        let is_complete = [&measure, &subject, &less, &more].iter().all(|part| !part.is_empty());
        is_complete.then(|| Self {
            text: words.trim().to_owned(),
            measure,
            subject,
            less,
            more,
            equal: relation == " = ",
            evidence: String::new(),
        })
    }

    /// The claim in one line: the words of the paper, if there are any, and the order that stands for them.
    pub fn line(&self) -> String {
        let relation = if self.equal { '=' } else { '<' };
        let order = format!("{} of {}: {} {relation} {}", self.measure, self.subject, self.less, self.more);
        if self.text.is_empty() { order } else { format!("{} ({order})", self.text) }
    }

    /// The difference and its probability where the artifact was packed, or that the seeds change nothing.
    pub fn evidence(&self) -> &str {
        &self.evidence
    }

    /// The end of its evidence that says for how many differences or claims its probability is corrected.
    pub fn correction(&self) -> Option<&str> {
        let begin = self.evidence.rfind(", corrected for all ")?;
        Some(&self.evidence[begin..])
    }

    /// Whether its evidence is that of the same runs here: as a claim of the authors, or as one of those that are `found`.
    pub fn has_evidence(&self, evidence: &str, found: &[Self]) -> bool {
        self.evidence.starts_with(evidence) || found.contains(self)
    }

    /// Whether its quantity is one of a part of the comparison.
    fn is_of(&self, part: &Comparison) -> bool {
        let has = |group: &Group| group.measures.iter().any(|measure| measure.name == self.measure);
        let is_there = |is_it: &dyn Fn(&str) -> bool| part.groups.iter().any(|group| is_it(&group.name) && has(group));
        match self.kinds() {
            // Of two flows both are, at whatever point.
            Some(_) => [&self.less, &self.more].into_iter().all(|name| is_there(&|group| plain(group) == name)),
            None => is_there(&|group| group == self.subject),
        }
    }

    /// The word for all subjects of which it orders two, such as `flows`; `None` if it orders two variants by one subject.
    fn kinds(&self) -> Option<&str> {
        let subject = plain(&self.subject);
        (kinds_of(&self.less).as_deref() == Some(subject)).then_some(subject)
    }

    /// Whether it orders these two variants by this quantity.
    fn is_about(&self, contrast: &Contrast) -> bool {
        let [a, b] = &contrast.variants;
        (&contrast.subject, &contrast.measure) == (&self.subject, &self.measure)
            && ((a == &self.less && b == &self.more) || (a == &self.more && b == &self.less))
    }

    /// Adds what the runs say for it, and whether it is about one of the quantities that the scenario named before its first run.
    pub fn with_evidence(self, supported: &str, primary: Option<&Comparison>) -> Self {
        let besides = primary.filter(|primary| !self.is_of(primary));
        let besides = besides.map_or("", |_| "; not one of the quantities that the scenario names as primary");
        Self { evidence: format!("{supported}{besides}"), ..self }
    }

    /// Checks before the first run that a scenario has what the claim is about: its subjects with their measures, and its variants. What the
    /// points of a sweep have in their names, and variants that are such points, is left for the results.
    ///
    /// # Errors
    /// The name that does not exist, with those that do.
    pub fn check_planned(&self, measurable: &[(String, Vec<String>)], variants: &[&str]) -> Result<(), String> {
        let missing = |what: &str, name: &str, all: &[&str]| {
            let rest = if all.len() > MOST_NAMED { ", ..." } else { "" };
            let all = all[..all.len().min(MOST_NAMED)].join(", ");
            Err(format!("claim {}: there is no {what} `{name}`; there are {all}{rest}", self.line()))
        };
        let subject = plain(&self.subject);
        if self.kinds().is_some() {
            let names = measurable.iter().map(|(name, _)| name.as_str());
            let subjects: Vec<&str> = names.filter(|name| kinds_of(name).as_deref() == Some(subject)).collect();
            let unknown = [&self.less, &self.more].into_iter().find(|name| !subjects.contains(&name.as_str()));
            return unknown
                .map_or(Ok(()), |name| missing(self.less.split(' ').next().unwrap_or("subject"), name, &subjects));
        }
        let subjects: Vec<&str> = measurable.iter().map(|(name, _)| name.as_str()).collect();
        let Some((_, measures)) = measurable.iter().find(|(name, _)| name == subject) else {
            return missing("subject", subject, &subjects);
        };
        // Which reasons and colours there are is known once packets have them.
        let is_counted = ["dropped ", "throughput "].iter().any(|begin| self.measure.starts_with(begin));
        if !is_counted && !measures.contains(&self.measure) {
            return missing(
                &format!("measure of {subject}"),
                &self.measure,
                &measures.iter().map(String::as_str).collect::<Vec<_>>(),
            );
        }
        let unknown =
            [&self.less, &self.more].into_iter().find(|name| !name.contains('=') && !variants.contains(&name.as_str()));
        match unknown {
            Some(name) if !variants.is_empty() => missing("variant", name, variants),
            _ => Ok(()),
        }
    }

    /// The claim at each point of a sweep for one `at all points`, or as it is.
    ///
    /// # Errors
    /// If it is about what was measured at points and names none, with those that there are.
    pub fn at_each_point(&self, comparison: &Comparison) -> Result<Vec<Self>, String> {
        let all = self.subject.strip_suffix(" at all points");
        let names = || comparison.groups.iter().map(|group| &*group.name);
        let is_at_point = |name: &&str| {
            let rest = name.strip_prefix(all.unwrap_or(&self.subject));
            rest.is_some_and(|rest| rest.starts_with(" at "))
        };
        match all {
            None if names().any(|name| name == self.subject) => Ok(vec![self.clone()]),
            Some(_) if names().any(|name| is_at_point(&name)) => {
                Ok(names().filter(is_at_point).map(|name| Self { subject: name.to_owned(), ..self.clone() }).collect())
            }
            _ => Err(self.wrong(&self.not_measured(comparison))),
        }
    }

    /// Finds what the claim is about, and checks that the means of several runs have its order. Returns the difference of the two variants; none
    /// if the seeds change nothing.
    ///
    /// # Errors
    /// The reason why the results do not support the claim.
    fn order(&self, comparison: &Comparison) -> Result<Option<Contrast>, String> {
        let wrong = |why: String| self.wrong(&why);
        let names = |names: Vec<&str>| names.join(", ");
        if !comparison.groups.iter().any(|group| group.name == self.subject) {
            return Err(wrong(self.not_measured(comparison)));
        }
        // A claim may be about any measure, also one that a comparison does not show by itself.
        let look = Look { subjects: vec![self.subject.clone()], measures: vec![self.measure.clone()], ..Look::page() };
        let chosen = look.comparison(comparison).map_err(wrong)?;
        let group = chosen.groups.iter().find(|group| group.name == self.subject);
        let place = |group: &Group| group.measures.iter().position(|measure| measure.name == self.measure);
        let Some((group, at)) = group.and_then(|group| Some((group, place(group)?))) else {
            let measures = chosen.groups.iter().flat_map(|group| &group.measures);
            let measures = names(measures.map(|measure| measure.name.as_str()).collect());
            return Err(wrong(format!("it has no measure `{}`, but {measures}", self.measure)));
        };
        let unit = &group.measures[at].unit;
        let [less, more] = [&self.less, &self.more].map(|variant| estimate(group, at, variant).map_err(wrong));
        let both = [less?, more?];
        let contrast = chosen.contrasts().into_iter().find(|contrast| self.is_about(contrast));
        for (estimate, variant) in both.iter().zip([&self.less, &self.more]) {
            if let Some((open, runs)) = estimate.open.filter(|_| self.equal || contrast.is_none()) {
                let why = if self.equal { "equality is not tested" } else { "nothing was tested" };
                return Err(wrong(format!("{variant} did not reach it in {open} of {runs} runs, so that {why}")));
            }
            if estimate.is_of_completed {
                return Err(wrong(format!(
                    "{variant} has not completed all, and the mean is of what was completed, so that nothing was tested; claim a percentile"
                )));
            }
        }
        let [less, more] = both.map(|estimate| estimate.mean);
        let [shown_less, shown_more] = [less, more].map(|value| tidegate_display::human(value, unit));
        let is_several = both.iter().any(|estimate| estimate.values.len() + estimate.missing > 1);
        if !is_several {
            return Err(wrong("a single run tells nothing apart; make several with --runs".to_owned()));
        }
        // A NaN supports nothing. Where some runs did not reach it the means say nothing, and the runs have an order.
        let by_runs = contrast.as_ref().filter(|contrast| contrast.limit.is_some());
        let is_so = match by_runs {
            Some(contrast) => (contrast.variants[0] == self.less) == (contrast.difference.mean < 0.0),
            None => self.equal || less < more,
        };
        if !is_so {
            return Err(wrong(format!("{} has {shown_less}, {} has {shown_more}", self.less, self.more)));
        }
        if contrast.is_none() && chosen.repeated().is_none() {
            return Err(wrong("it was measured in too few runs, so that nothing was tested".to_owned()));
        }
        Ok(contrast)
    }

    /// Says what was measured in the place of the subject: of a sweep the points, if the subject lacks one.
    fn not_measured(&self, comparison: &Comparison) -> String {
        let listed = |names: &mut dyn Iterator<Item = &str>| {
            let mut names: Vec<&str> = names.collect();
            let more = if names.len() > MOST_NAMED { "; ..." } else { "" };
            names.truncate(MOST_NAMED);
            format!("{}{more}", names.join("; "))
        };
        let all = || comparison.groups.iter().map(|group| group.name.as_str());
        let is_at_point = |name: &&str| name.strip_prefix(&*self.subject).is_some_and(|rest| rest.starts_with(" at "));
        match all().any(|name| is_at_point(&name)) {
            true => format!(
                "`{}` was measured at several points of a sweep, so name one, or `at all points`: {}",
                self.subject,
                listed(&mut all().filter(is_at_point))
            ),
            false => format!("`{}` was not measured; measured were: {}", self.subject, listed(&mut all())),
        }
    }

    fn wrong(&self, why: &str) -> String {
        format!("claim not supported: {}: {why}", self.line())
    }

    /// The orders that a comparison states: of each measure the best variant and the one that is told apart from it by most. They were
    /// chosen by the results, so that their evidence is corrected for all differences among which they were found.
    pub fn of(comparison: &Comparison) -> Vec<Self> {
        let contrasts = comparison.contrasts();
        if contrasts.is_empty() && comparison.repeated().is_none() {
            return Vec::new();
        }
        let claim = |stated: Stated| {
            let Stated { measure, subject, less, more } = stated;
            let is_it = |of: &&Contrast| {
                let [a, b] = &of.variants;
                (&of.measure, &of.subject) == (&measure, &subject)
                    && [a, b].iter().all(|name| **name == less || **name == more)
            };
            let evidence = contrasts.iter().find(is_it).map(|of| {
                let comparisons = of.stated.map_or(0, |stated| stated.comparisons);
                let among = format!(", corrected for all {comparisons} differences among which it was found");
                said(of, of.stated.map(|stated| stated.p), "", &among)
            });
            Self {
                text: String::new(),
                measure,
                subject,
                less,
                more,
                equal: false,
                evidence: evidence.unwrap_or_else(|| untested(comparison)),
            }
        };
        comparison.stated().into_iter().map(claim).collect()
    }
}

/// The quantities of a comparison that the scenario names before its first run; `None` if it names none.
///
/// # Errors
/// If one was not measured, with those that were.
pub fn planned(comparison: &Comparison, primary: &[String]) -> Result<Option<Comparison>, Failure> {
    match primary {
        [] => Ok(None),
        primary => Ok(Some(Look::page().stated(comparison, primary).map_err(Failure::Usage)?.0)),
    }
}

/// Checks that the means have the order of each claim and that the paired differences decide it at 5 %. An equality is
/// decided by two one-sided tests. A claim about one of the quantities that the scenario named before its first run, which are those of
/// `primary`, is corrected for all differences that were planned, as it is wherever else it is stated; the others for their number: an artifact
/// states these together.
///
/// Returns for each claim the difference and its probability, or that the seeds change nothing; or else the reason why the results do not support
/// it, as those of a single run.
pub fn check(claims: &[Claim], comparison: &Comparison, primary: Option<&Comparison>) -> Vec<Result<String, String>> {
    let planned = primary.map_or_else(Vec::new, Comparison::contrasts);
    let stated = claims.iter().map(|claim| {
        let contrast = planned.iter().find(|contrast| claim.is_about(contrast))?;
        if claim.equal { contrast.stated_equality } else { contrast.stated }
    });
    let stated: Vec<_> = stated.collect();
    let besides = stated.iter().filter(|stated| stated.is_none()).count();
    let found: Vec<Result<Option<Contrast>, String>> = claims.iter().map(|claim| claim.order(comparison)).collect();
    // One that is not supported for another reason counts too: leaving out what does not fit would be a choice by the results.
    let p = |(claim, found): (&Claim, &Result<Option<Contrast>, String>)| match found {
        Ok(None) => 0.0,
        Ok(Some(contrast)) if claim.equal => contrast.equality.map_or(0.0, |equality| equality.p()),
        Ok(Some(contrast)) => contrast.difference.p.unwrap_or(0.0),
        Err(_) => 1.0,
    };
    let of_besides = claims.iter().zip(&found).zip(&stated).filter(|(_, stated)| stated.is_none());
    let mut of_besides = holm(&of_besides.map(|(claim, _)| p(claim)).collect::<Vec<_>>()).into_iter();
    let corrected = stated.into_iter().map(|stated| match stated {
        Some(stated) => {
            (stated.p, stated.comparisons, corrected_for(stated.comparisons, "differences that were planned"))
        }
        None => (of_besides.next().unwrap_or(1.0), besides, corrected_for(besides, "claims")),
    });
    let decided = |claim: &Claim,
                   found: Result<Option<Contrast>, String>,
                   (p, tests, corrected): (f64, usize, String)| {
        let Some(contrast) = found? else { return Ok(untested(comparison)) };
        let is_fixed = contrast.difference.is_fixed();
        let is_shown = match is_fixed {
            true => !claim.equal || contrast.is_equal() == Some(true),
            false => p <= LEVEL,
        };
        if is_shown {
            let within = if claim.equal { "equal within 2 % (two one-sided tests), " } else { "" };
            return Ok(said(&contrast, Some(p).filter(|_| !is_fixed), within, &corrected));
        }
        let (what, plan) = match claim.equal {
            true => ("shown to be equal within 2 %", contrast.plan_of_equality(tests)),
            false => ("told apart", contrast.plan(tests)),
        };
        let plan = plan.map_or(String::new(), |plan| format!("; {plan}"));
        let runs = contrast.difference.runs;
        Err(claim.wrong(&format!("{} and {} are not {what} by {runs} runs{corrected}{plan}", claim.less, claim.more)))
    };
    claims
        .iter()
        .zip(found)
        .zip(corrected)
        .map(|((claim, found), corrected)| decided(claim, found, corrected))
        .collect()
}

/// A subject without the point of a sweep that it ends with.
fn plain(subject: &str) -> &str {
    subject.split_once(" at ").map_or(subject, |(plain, _)| plain)
}

/// Says why nothing was tested: runs that the seeds do not change are one.
fn untested(comparison: &Comparison) -> String {
    let runs = comparison.repeated();
    runs.map_or(String::new(), |runs| {
        format!(
            "the seeds change nothing: all {runs} runs have measured the same, and are one run, which is not tested"
        )
    })
}

/// Says what the runs have of a difference; `p` is `None` if the seeds do not change it. `tested` is what has this probability if it is not the difference.
fn said(contrast: &Contrast, p: Option<f64>, tested: &str, corrected: &str) -> String {
    let difference = &contrast.difference;
    let Some(p) = p else {
        let by = tidegate_display::human(difference.mean.abs(), &contrast.unit);
        return format!(
            "apart by {by} in all {} runs: the seeds do not change this, and it is not tested",
            difference.runs
        );
    };
    let apart = tidegate_display::human_interval(difference.mean.abs(), difference.half_width(), &contrast.unit);
    let p = probability_after(p, "= ");
    let times = contrast.times_of_more().map_or(String::new(), |times| format!("{times} times as much, "));
    let counted = contrast.limit.map_or(String::new(), |limit| {
        let limit = tidegate_display::human(limit, &contrast.unit);
        format!(" (one that did not reach it counts with {limit}, the longest that any did)")
    });
    format!("apart by {apart} in {} runs{counted}, {times}{tested}p {p}{corrected}", difference.runs)
}

/// Says for how many tests of a kind a probability is corrected; empty for one, which needs no correction.
fn corrected_for(tests: usize, kind: &str) -> String {
    if tests > 1 { format!(", corrected for all {tests} {kind}") } else { String::new() }
}

/// The estimate of a measure from the runs of a variant.
fn estimate<'a>(group: &'a Group, at: usize, variant: &str) -> Result<&'a Estimate, String> {
    let row = group.rows.iter().find(|row| row.name == variant);
    row.and_then(|row| row.cells.get(at)?.as_ref()).ok_or_else(|| {
        let variants: Vec<&str> = group.rows.iter().map(|row| row.name.as_str()).collect();
        format!("variant `{variant}` has no such value; the variants are {}", variants.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_has_words_and_an_order() {
        let claim = Claim::parse("It waits less=delay p99 of flow bulk: codel < fifo").expect("a claim");
        assert_eq!(claim.line(), "It waits less (delay p99 of flow bulk: codel < fifo)");
        let turned = Claim::parse("goodput of link a->b: codel > fifo").expect("a claim");
        assert_eq!(turned.line(), "goodput of link a->b: fifo < codel");
        let equal = Claim::parse("As much=goodput of link a->b: codel = fifo").expect("a claim");
        assert_eq!((equal.line().as_str(), equal.equal), ("As much (goodput of link a->b: codel = fifo)", true));
        let at = "goodput of flow bulk at rate=2mbit: rate/queue.rate=5mbit/4mbit < rate=9mbit";
        assert_eq!(Claim::parse(at).expect("a claim").line(), at);
        let worded = Claim::parse(&format!("half=a half of it={at}")).expect("a claim");
        assert_eq!(worded.line(), format!("half=a half of it ({at})"));
        let flows =
            Claim::parse("CUBIC gets less=goodput of flows at variant=fifo: flow cubic < flow bbr").expect("a claim");
        let measurable = ["flow cubic", "flow bbr"].map(|name| (name.to_owned(), vec!["goodput".to_owned()]));
        assert_eq!(flows.check_planned(&measurable, &["fifo"]), Ok(()));
        let unknown = Claim { less: "flow reno".into(), ..flows };
        assert!(unknown.check_planned(&measurable, &["fifo"]).is_err_and(|why| why.contains("no flow `flow reno`")));
        for wrong in ["CoDel waits less", "delay of x: a", " of x: a < b", "delay of x: a < "] {
            assert!(Claim::parse(wrong).is_err(), "{wrong}");
        }
    }
}

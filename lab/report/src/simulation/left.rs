//! [`Left`]: the transfers and pages that were not completed.

use std::collections::BTreeMap;

use super::Quantity;
use crate::comparison::each_once;

/// The transfers, pages or frames that were not completed, in the mean of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Left {
    /// How many were not completed.
    pub count: f64,
    /// How many began.
    pub begun: f64,
    /// The kind that is counted: `transfers`, `pages` or `frames`.
    pub what: &'static str,
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A mean of a few runs has no more digits than anybody asks for.
        let number = |value: f64| match value {
            _ if value.fract() == 0.0 || value >= 1_000.0 => tidegate_display::human(value, ""),
            _ if value >= 10.0 => format!("{value:.1}"),
            _ => format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        };
        write!(f, "{} of {} {}", number(self.count), number(self.begun), self.what)
    }
}

/// The frames of a live video. One that is not complete is lost, whenever it was captured.
const FRAMES: &str = "frames";

/// The measures that count what began and what of it was completed, what these are, and how the names of their times begin.
const COUNTED: [([&str; 2], &str, &[&str]); 3] = [
    (["opened", "completed"], "transfers", &["completion ", "slowdown "]),
    (["pages begun", "pages loaded"], "pages", &["page load "]),
    (["frames", "frames complete"], FRAMES, &["frame delay "]),
];

/// Whether a measure counts what began or what was completed.
pub(crate) fn is_count(measure: &str) -> bool {
    COUNTED.iter().any(|(counts, ..)| counts.contains(&measure))
}

/// The kind that a time of this name belongs to, `transfers`, `pages` or `frames`; `None` for other measures.
pub fn counted_by(measure: &str) -> Option<&'static str> {
    let is_of = |times: &[&str]| times.iter().any(|time| time.trim_end() == measure);
    COUNTED.iter().find(|(_, _, times)| is_of(times)).map(|(_, what, _)| *what)
}

/// Marks the quantities of what was not completed: the number that began, and all times of its parts. The numbers are those of
/// `quantities`, so that these have to be all that was measured, before some are chosen.
pub fn mark_left(quantities: &mut [Quantity]) {
    for ([began, ended], what, times) in COUNTED {
        let of = |measure: &str| -> BTreeMap<String, f64> {
            let found = quantities.iter().filter(|quantity| quantity.measure == measure);
            found.map(|quantity| (quantity.subject.clone(), quantity.mean)).collect()
        };
        let (begun, completed) = (of(began), of(ended));
        for quantity in quantities.iter_mut() {
            let is_of_it = quantity.measure == began || times.iter().any(|time| quantity.measure.starts_with(time));
            let Some(begun) = begun.get(&quantity.subject).copied().filter(|_| is_of_it) else { continue };
            let count = begun - completed.get(&quantity.subject).copied().unwrap_or(0.0);
            quantity.left = (count > 0.0).then_some(Left { count, begun, what });
        }
    }
}

/// The most subjects of which a sentence has the number.
const MOST: usize = 12;

/// States how many transfers and pages were not completed, and what this means for their times: the slower a variant, the more of its
/// longest ones it has not ended. Of the points of a sweep it is the one at which the greatest share was not. `None` if all were completed.
pub fn unfinished<'a>(quantities: impl Iterator<Item = &'a Quantity>) -> Option<String> {
    let mut found: Vec<(&str, Left, &str)> = Vec::new();
    for quantity in quantities {
        let Some(left) = quantity.left else { continue };
        let (subject, point) = (quantity.without_point(), quantity.point.as_str());
        let share = |left: &Left| left.count / left.begun;
        match found.iter_mut().find(|(known, of, _)| (*known, of.what) == (subject, left.what)) {
            Some(known) if share(&known.1) < share(&left) => *known = (subject, left, point),
            Some(_) => {}
            None => found.push((subject, left, point)),
        }
    }
    let is_of_points = found.iter().any(|(.., point)| !point.is_empty());
    let one = |(subject, left, point): &(&str, Left, &str)| {
        let at = if point.is_empty() { String::new() } else { format!(" at {point}") };
        ((*subject).to_owned(), format!("{left}{at}"))
    };
    let more = found.len().saturating_sub(MOST);
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    let said = together(&found.iter().take(MOST).map(one).collect::<Vec<_>>());
    // What begins late is seen for less time, and in a queue that grows takes longer: the estimate assumes that neither has to do with the other.
    let is_much = found.iter().any(|(_, left, _)| left.what != FRAMES && left.count > left.begun / 10.0);
    let late = if is_much {
        " Of so many the percentiles may be too short, as what began late was watched for less time: let flows end before the run (`stop`)."
    } else {
        ""
    };
    let most = if is_of_points { ", at the point where it is the greatest share" } else { "" };
    (!said.is_empty()).then(|| {
        format!(
            "Not completed, in the mean of a run{most}: {}{more}. Percentiles and distributions count such as longer than they had lasted \
             (Kaplan and Meier): a percentile that lies among them is not reached. Means are of what was completed.{late}",
            said.join("; ")
        )
    })
}

/// Says for each name its count, such as `2 of 30 transfers` for `fifo: flow short`, with the variants of a subject together that have it of equally many:
/// `flow short: fifo 2, codel 1 of 30 transfers`.
pub(crate) fn together(all: &[(String, String)]) -> Vec<String> {
    // The subject, of how many, and the variants with their numbers.
    type Together<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>);
    let mut groups: Vec<Together<'_>> = Vec::new();
    for (name, left) in all {
        let (variant, subject) = name.split_once(": ").unwrap_or(("", name));
        let (count, rest) = left.split_once(' ').unwrap_or((left, ""));
        match groups.iter_mut().find(|(of, known, _)| !variant.is_empty() && (*of, *known) == (subject, rest)) {
            Some((.., counts)) => counts.push((variant, count)),
            None => groups.push((subject, rest, vec![(variant, count)])),
        }
    }
    let said = |(subject, rest, counts): &Together<'_>| match counts.as_slice() {
        [("", count)] => format!("{subject} {count} {rest}"),
        [(variant, count)] => format!("{variant}: {subject} {count} {rest}"),
        counts => {
            let counts: Vec<String> = counts.iter().map(|(variant, count)| format!("{variant} {count}")).collect();
            format!("{subject}: {} {rest}", counts.join(", "))
        }
    };
    groups.iter().map(said).collect()
}

/// States which of the stated percentiles are the greatest of few values, and how many lost packets those of delay leave out.
pub fn cautions<'a>(
    quantities: impl Iterator<Item = &'a Quantity> + Clone,
    is_stated: impl Fn(&str, &str) -> bool,
) -> Vec<String> {
    let few = greatest(quantities.clone(), &is_stated);
    few.into_iter().chain(lost(quantities, is_stated)).collect()
}

/// States how many packets are lost beside percentiles of delay that are stated, where these would move the percentile if they counted as
/// never arriving; `None` if none would.
fn lost<'a>(
    quantities: impl Iterator<Item = &'a Quantity> + Clone,
    is_stated: impl Fn(&str, &str) -> bool,
) -> Option<String> {
    // For each loss the variants that have it, and their percentages.
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let losses = quantities.clone().filter(|of| of.measure.starts_with("loss"));
    let losses: BTreeMap<(&str, &str), f64> = losses.map(|of| ((&*of.subject, &*of.measure), of.mean)).collect();
    for delay in quantities {
        let Some((kind, share)) = delay.measure.rsplit_once(" p") else { continue };
        let (Some(direction), Ok(share)) = (kind.strip_prefix("delay"), share.parse::<f64>()) else { continue };
        let name = format!("loss{direction}");
        let loss = losses.get(&(&*delay.subject, &*name)).copied();
        // A tenth of what is above the percentile moves it by a tenth of the way.
        let Some(loss) = loss.filter(|loss| *loss > (100.0 - share) / 10.0) else { continue };
        if !is_stated(&delay.measure, delay.plain()) {
            continue;
        }
        let of = format!("{name} of {}", delay.plain());
        let said = format!("{} {loss:.2} %", delay.variant);
        match found.iter_mut().find(|(known, _)| *known == of) {
            Some((_, all)) if all.contains(&said) => {}
            Some((_, all)) => all.push(said),
            None => found.push((of, vec![said])),
        }
    }
    let more = found.len().saturating_sub(MOST);
    let said = found.iter().take(MOST).map(|(of, all)| format!("{of}: {}", all.join(", ").trim_start()));
    let said: Vec<String> = said.chain((more > 0).then(|| format!("{more} more"))).collect();
    (!said.is_empty()).then(|| {
        format!(
            "Delays are of the packets that arrived. So many others were lost that percentiles would be greater with them: {}. Judge both \
             together, or a call by its R factor.",
            said.join("; ")
        )
    })
}

/// States which percentiles of transfers and pages are the greatest of so few values; `None` if none of those that are stated is. `begun`
/// counts failed ones too, so that a percentile just beyond the limit may not be named.
fn greatest<'a>(
    quantities: impl Iterator<Item = &'a Quantity> + Clone,
    is_stated: impl Fn(&str, &str) -> bool,
) -> Option<String> {
    let mut said: Vec<String> = Vec::new();
    for ([began, _], what, times) in COUNTED {
        let mut least: Vec<(&str, f64)> = Vec::new();
        for quantity in quantities.clone().filter(|quantity| quantity.measure == began) {
            match least.iter_mut().find(|(subject, _)| *subject == quantity.plain()) {
                Some((_, count)) => *count = count.min(quantity.mean),
                None => least.push((quantity.plain(), quantity.mean)),
            }
        }
        for (subject, count) in least.into_iter().filter(|(_, count)| *count >= 1.0) {
            let is_meant = |name: &&str| {
                let share = name.rsplit_once(" p").and_then(|(_, share)| share.parse::<f64>().ok());
                let is_greatest = share.is_some_and(|share| count * (1.0 - share / 100.0) < 1.0);
                is_greatest && times.iter().any(|time| name.starts_with(time)) && is_stated(name, subject)
            };
            let of_subject = quantities.clone().filter(|quantity| quantity.plain() == subject);
            let names = each_once(of_subject.map(|quantity| quantity.measure.as_str()).filter(is_meant));
            if !names.is_empty() {
                let count = tidegate_display::human(count, "");
                said.push(format!("{} of {subject} ({count} {what} in a run)", names.join(", ")));
            }
        }
    }
    (!said.is_empty()).then(|| format!("The greatest value, because there are so few: {}.", said.join("; ")))
}

#[cfg(test)]
mod tests {
    use tidegate_metrics::Value;

    use super::*;
    use crate::simulation::{Run, Simulation};

    /// The 99th percentile of 99 transfers is the greatest of them. That of 100 is not, only the 99.9th is.
    #[test]
    fn percentiles_of_few_values_are_called_the_greatest() {
        let said = |opened: f64| {
            let of = |measure: &str, value: f64| Quantity::of_one_run("fifo", "flow short", measure, "ns", value);
            let all = [
                of("opened", opened),
                of("completion p50", 1.0),
                of("completion p99", 3.0),
                of("completion p99.9", 4.0),
            ];
            greatest(all.iter(), |measure, subject| subject == "flow short" && measure != "completion p50")
        };
        let of = |names: &str, count: u32| {
            Some(format!(
                "The greatest value, because there are so few: {names} of flow short ({count} transfers in a run)."
            ))
        };
        assert_eq!(said(99.0), of("completion p99, completion p99.9", 99));
        assert_eq!(said(101.0), of("completion p99.9", 101));
        assert_eq!(said(2000.0), None);
    }

    #[test]
    fn what_variants_have_of_equally_many_is_said_together() {
        let all = [
            ("fifo: flow short", "3.6 of 210.6 transfers"),
            ("codel: flow short", "0.8 of 210.6 transfers"),
            ("fifo: flow web", "1 of 30 pages"),
            ("flow other", "2 of 7 transfers"),
            ("cake: flow short", "1 of 99 transfers"),
        ];
        let all = all.map(|(name, left)| (name.to_owned(), left.to_owned()));
        assert_eq!(
            together(&all),
            [
                "flow short: fifo 3.6, codel 0.8 of 210.6 transfers",
                "fifo: flow web 1 of 30 pages",
                "flow other 2 of 7 transfers",
                "cake: flow short 1 of 99 transfers"
            ]
        );
    }

    /// A variant that completes less says so.
    #[test]
    fn transfers_that_were_not_completed_are_counted() {
        let run = |completed: f64| {
            [("opened", 259.0), ("completed", completed)].map(|(measure, value)| Value {
                variant: "fifo".into(),
                subject: "flow short".into(),
                measure: measure.into(),
                unit: "1",
                value,
            })
        };
        let said = |runs: &[[Value; 2]]| {
            let run = |values| Run { seed: 1, events: 0, digest: String::new(), values, curves: &[] };
            Simulation { runs: runs.iter().map(|values| run(values)).collect(), ..Simulation::default() }.unfinished()
        };
        let found = said(&[run(256.0), run(257.0)]).expect("five of two runs");
        assert!(found.contains("fifo: flow short 2.5 of 259 transfers. Percentiles"), "{found}");
        let found = said(&[run(259.0), run(259.0), run(258.0)]).expect("one of three runs");
        assert!(found.contains("fifo: flow short 0.33 of 259 transfers. Percentiles"), "{found}");
        assert_eq!(said(&[run(259.0)]), None);
    }

    /// Lost packets have no delay: a percentile that would be greater with them says so, and one that they do not reach does not.
    #[test]
    fn a_percentile_of_delay_says_how_many_packets_it_leaves_out() {
        let of = |variant: &str, measure: &str, unit, value| {
            Quantity::of_one_run(variant, "flow call", measure, unit, value)
        };
        let all = [
            of("codel", "delay down p95", "ns", 121e6),
            of("codel", "loss down", "%", 2.4),
            of("fq-codel", "delay down p95", "ns", 150e6),
            of("fq-codel", "loss down", "%", 0.0),
            of("codel", "delay up p50", "ns", 20e6),
            of("codel", "loss up", "%", 1.0),
        ];
        let said = |stated: &str| lost(all.iter(), |measure, subject| measure == stated && subject == "flow call");
        let found = said("delay down p95").expect("a note");
        assert!(found.contains("loss down of flow call: codel 2.40 %. Judge both"), "{found}");
        assert_eq!(said("delay up p50"), None);
        assert_eq!(said("loss down"), None);
    }
}

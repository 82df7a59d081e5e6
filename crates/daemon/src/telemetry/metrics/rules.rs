//! The metrics of rules: what each has matched, quotas and times.

use std::collections::BTreeMap;
use std::fmt;

use tidegate_control::calls::{Observation, QuotaStatus, RuleObservation};

use super::{Family, Labels, of, with};
use crate::audit::short;

/// The label of a quota that both directions share.
const BOTH: &str = "both";

fn labels<'a>(observation: &'a Observation, [direction, rule, class]: [&'a str; 3]) -> Labels<'a> {
    with(with(of(observation, direction), "rule", rule), "class", class)
}

/// Names a rule, wherever it stands in the file and in all metrics: its name, or else its conditions, as in
/// [`RuleObservation::label`].
fn named(label: &str) -> String {
    short(label)
}

/// Writes the packets and bytes that each rule has matched.
fn matched(to: &mut Family<'_, '_>, observation: &Observation) -> fmt::Result {
    let rules: Vec<_> = observation
        .directions
        .iter()
        .flat_map(|direction| direction.rules.iter().map(move |rule| (direction, named(&rule.label), rule)))
        .collect();
    // A name is one series, also where several rules have it.
    let mut series: BTreeMap<[&str; 3], (u64, u64)> = BTreeMap::new();
    for (direction, name, RuleObservation { class, packets, bytes, .. }) in &rules {
        let (sum, size) = series.entry([&direction.name, name, class]).or_default();
        (*sum, *size) = (*sum + packets, *size + bytes.as_u64());
    }
    let (packets, bytes) = (
        series.iter().map(|(key, (packets, _))| (labels(observation, *key), *packets)),
        series.iter().map(|(key, (_, bytes))| (labels(observation, *key), *bytes)),
    );
    to.counters("rule_packets", "Packets that the rule matched, by its name, or else its conditions", packets)?;
    to.counters("rule_bytes", "Bytes that the rule matched, by its name, or else its conditions", bytes)
}

/// A count of a quota, with the labels that it has in common with what its rule matches.
struct OfQuota<'a> {
    direction: &'a str,
    is_shared: bool,
    rule: String,
    class: &'a str,
    quota: &'a QuotaStatus,
}

/// The counts of quotas, each once, so that nothing is told twice of one that both directions share.
fn quotas(observation: &Observation) -> Vec<OfQuota<'_>> {
    let all = || observation.directions.iter().flat_map(|one| one.quotas.iter().map(move |quota| (one, quota)));
    let mut quotas: Vec<OfQuota<'_>> = Vec::new();
    for (direction, quota) in all() {
        let is_same = |other: &QuotaStatus| !quota.count.is_empty() && other.count == quota.count;
        if quotas.iter().any(|other| is_same(other.quota)) {
            continue;
        }
        let is_shared = all().any(|(other, status)| other.name != direction.name && is_same(status));
        let class = direction.rules.iter().find(|rule| rule.rule == quota.rule).map_or("", |rule| &rule.class);
        let mut one = OfQuota { direction: &direction.name, is_shared, rule: named(&quota.label), class, quota };
        let key = |one: &OfQuota<'_>| {
            let direction = if one.is_shared { BOTH } else { one.direction };
            (direction.to_owned(), one.rule.clone(), one.class.to_owned())
        };
        let is_taken = |other: &OfQuota<'_>| other.quota.period == quota.period && key(other) == key(&one);
        // Only the beginning of long conditions is a label.
        if quotas.iter().any(is_taken) {
            one.rule = format!("{} (rule {})", one.rule, quota.rule);
        }
        quotas.push(one);
    }
    quotas
}

/// The rules, and those that hold for a part of the time only: by their times, or until a quota is used up.
pub(super) fn rules(to: &mut Family<'_, '_>, observation: &Observation) -> fmt::Result {
    matched(to, observation)?;
    let quotas = quotas(observation);
    let each = |value: fn(&QuotaStatus) -> Option<f64>| {
        quotas.iter().filter_map(move |OfQuota { direction, is_shared, rule, class, quota }| {
            let mut labels = labels(observation, [direction, rule, class]);
            if *is_shared {
                labels[1].1 = BOTH;
            }
            Some((with(labels, "period", &quota.period), value(quota)?))
        })
    };
    to.gauges("quota_bytes", "The quota of a rule for each period", each(|quota| Some(quota.quota.as_u64() as f64)))?;
    to.gauges(
        "quota_used_bytes",
        "Bytes that the rule has taken since the period began",
        each(|quota| Some(quota.used.as_u64() as f64)),
    )?;
    to.gauges(
        "quota_resets_timestamp_seconds",
        "When the quota begins anew, in seconds since 1970",
        each(|quota| quota.next_s.map(|seconds| seconds as f64)),
    )?;
    // Where several rules have one name, any of them may hold.
    let mut times: BTreeMap<(&str, String), bool> = BTreeMap::new();
    for direction in &observation.directions {
        for timed in &direction.times {
            *times.entry((&direction.name, named(&timed.label))).or_default() |= timed.holds;
        }
    }
    to.gauges(
        "rule_in_force",
        "Whether it is the time of a rule that has `when` (1), or not (0)",
        times.iter().map(|((direction, rule), holds)| {
            (with(of(observation, direction), "rule", rule), f64::from(u8::from(*holds)))
        }),
    )
}

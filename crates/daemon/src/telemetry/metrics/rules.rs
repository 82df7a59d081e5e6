//! The metrics of rules: what each has matched, quotas and times.

use std::collections::BTreeMap;
use std::fmt;

use tidegate_control::calls::{Observation, QuotaStatus, RuleObservation};

use super::{Family, Labels};

/// The label of a quota that both directions share.
const BOTH: &str = "both";

fn labels<'a>([direction, rule, class]: [&'a str; 3]) -> Labels<'a> {
    vec![("direction", direction), ("rule", rule), ("class", class)]
}

/// What each rule has matched. A rule with a name is known by it wherever it stands in the file.
fn matched(to: &mut Family<'_, '_>, observation: &Observation) -> fmt::Result {
    let rules: Vec<_> = observation
        .directions
        .iter()
        .flat_map(|direction| direction.rules.iter().map(move |rule| (direction, rule)))
        .map(|(direction, rule)| (direction, rule.name.clone().unwrap_or_else(|| rule.rule.to_string()), rule))
        .collect();
    // A name is one series, also where several rules have it.
    let mut series: BTreeMap<[&str; 3], (u64, u64)> = BTreeMap::new();
    for (direction, name, RuleObservation { class, packets, bytes, .. }) in &rules {
        let (sum, size) = series.entry([&direction.name, name, class]).or_default();
        (*sum, *size) = (*sum + packets, *size + bytes.as_u64());
    }
    let (packets, bytes) = (
        series.iter().map(|(key, (packets, _))| (labels(*key), *packets)),
        series.iter().map(|(key, (_, bytes))| (labels(*key), *bytes)),
    );
    to.counters("rule_packets", "Packets that the rule matched, by its name, or else its number", packets)?;
    to.counters("rule_bytes", "Bytes that the rule matched, by its name, or else its number", bytes)
}

/// The rules, and those that hold for a part of the time only: by their times, or until a quota is used up.
pub(super) fn rules(to: &mut Family<'_, '_>, observation: &Observation) -> fmt::Result {
    matched(to, observation)?;
    let numbered = |rule: u32| rule.to_string();
    // One series for each count, so that nothing is told twice of one that both directions share.
    let of_quotas = || observation.directions.iter().flat_map(|one| one.quotas.iter().map(move |quota| (one, quota)));
    let mut quotas: Vec<(&str, String, &QuotaStatus)> = Vec::new();
    for (direction, quota) in of_quotas() {
        let is_same = |other: &QuotaStatus| !quota.count.is_empty() && other.count == quota.count;
        if quotas.iter().any(|(.., other)| is_same(other)) {
            continue;
        }
        let is_shared = of_quotas().any(|(other, status)| other.name != direction.name && is_same(status));
        let direction = if is_shared { BOTH } else { &direction.name };
        quotas.push((direction, numbered(quota.rule), quota));
    }
    let each = |value: fn(&QuotaStatus) -> Option<f64>| {
        quotas.iter().filter_map(move |(direction, rule, quota)| {
            let labels: Labels<'_> =
                vec![("direction", direction), ("rule", rule), ("label", &quota.label), ("period", &quota.period)];
            Some((labels, value(quota)?))
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
    let times: Vec<_> = observation
        .directions
        .iter()
        .flat_map(|direction| direction.times.iter().map(move |timed| (direction, numbered(timed.rule), timed)))
        .collect();
    to.gauges(
        "rule_in_force",
        "Whether it is the time of a rule that has `when` (1), or not (0)",
        times.iter().map(|(direction, rule, timed)| {
            let labels: Labels<'_> = vec![("direction", &direction.name), ("rule", rule), ("label", &timed.label)];
            (labels, f64::from(u8::from(timed.holds)))
        }),
    )
}

//! The metrics of rules with a quota or with times.

use std::fmt;

use tidegate_control::calls::{Observation, QuotaStatus};

use super::{Family, Labels};

/// The rules that hold for a part of the time only: by their times, or until a quota is used up.
pub(super) fn rules(to: &mut Family<'_, '_>, observation: &Observation) -> fmt::Result {
    let numbered = |rule: u32| rule.to_string();
    let quotas: Vec<_> = observation
        .directions
        .iter()
        .flat_map(|direction| direction.quotas.iter().map(move |quota| (direction, numbered(quota.rule), quota)))
        .collect();
    let each = |value: fn(&QuotaStatus) -> Option<f64>| {
        quotas.iter().filter_map(move |(direction, rule, quota)| {
            let labels: Labels<'_> = vec![
                ("direction", &direction.name),
                ("rule", rule),
                ("label", &quota.label),
                ("period", &quota.period),
            ];
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

//! Whether rules hold now, in explanations.

use tidegate_config::shaper::Match;
use tidegate_engine::Names;

use super::Condition;

/// Whether the rule at index `rule` holds now, if it holds at some times or until its quota is used up.
pub(super) fn condition(rule: usize, matches: &Match, names: &Names) -> Option<Condition> {
    let holds = !names.off.contains(&(rule as u32));
    let times = matches.when.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (wanted, has) = match (matches.quota, holds) {
        (None, true) => (times, "within its times"),
        (None, false) => (times, "another time"),
        (Some(quota), true) if times.is_empty() => (quota.to_string(), "not used up"),
        (Some(quota), false) if times.is_empty() => (quota.to_string(), "used up"),
        (Some(quota), true) => (format!("{times}, {quota}"), "within its times, and not used up"),
        (Some(quota), false) => (format!("{times}, {quota}"), "another time, or used up"),
    };
    Some(Condition { key: matches.key_of_clock()?, wanted, has: has.into(), holds })
}

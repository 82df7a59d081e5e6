//! The parts of rules that change while a shaper runs: times, quotas, and the addresses of devices and names.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use tidegate_config::shaper::{Config, Named};
use tidegate_config::values::Times;
use tidegate_live::shaping::{devices, leased};
use tidegate_live::timing::{today, week_minute};

use crate::Failure;
use crate::output;

/// Writes for each rule with times whether it holds now on this machine, and when this changes; for each quota when it begins anew;
/// for each device and name the addresses that it has now.
pub fn write(out: &mut dyn Write, config: &Config, told: &mut HashSet<String>) -> Result<(), Failure> {
    let now = week_minute();
    for (number, rule) in (1..).zip(&config.rules).filter(|(_, rule)| !rule.matches.when.is_empty()) {
        let state = if rule.matches.holds_at(now) { "holds now" } else { "does not hold now" };
        let until = Times::next_change(&rule.matches.when, now).map_or_else(String::new, |at| format!(", until {at}"));
        // A rule that both directions share has the same number in both, unless one has rules of its own.
        if told.insert(format!("{number} {}", rule.matches)) {
            writeln!(out, "rule {number} {state} ({now}){until}; its week:")?;
            write!(out, "{}", week(&rule.matches.when))?;
        }
    }
    let devices =
        if config.rules.iter().any(|rule| !rule.matches.macs.is_empty()) { devices(config).ok() } else { None };
    for (number, rule) in (1..).zip(&config.rules) {
        let known = rule.matches.macs.iter().filter_map(|mac| Some((mac, devices.as_ref()?.get(mac)?)));
        for (mac, addresses) in known {
            let listed: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            let listed = if listed.is_empty() {
                "is not in the table of neighbours now".into()
            } else {
                format!("has {} now", listed.join(", "))
            };
            once(out, told, format!("rule {number} {mac} {listed}"))?;
        }
    }
    let named = leased(config);
    for (number, rule) in (1..).zip(&config.rules) {
        for name in rule.matches.named() {
            let addresses: Vec<_> = named.get(&name).into_iter().flatten().copied().collect();
            let text = match &name {
                Named::Device(_) => output::addresses(&addresses),
                Named::Answered(_) => "has the addresses of the answers that a running shaper sees".into(),
            };
            once(out, told, format!("rule {number} {name} {text}"))?;
        }
    }
    for (number, rule) in (1..).zip(&config.rules) {
        for name in rule.matches.from_interfaces.iter().filter(|name| !Path::new("/sys/class/net").join(name).exists())
        {
            once(out, told, format!("rule {number}: there is no interface `{name}` here now"))?;
        }
    }
    let today = today();
    for (rule, _, quota) in config.quotas() {
        let next = quota.period.next(today);
        let line = format!(
            "rule {} until {} are used, then later rules decide; anew each {}, next on {next}",
            rule + 1,
            output::bytes(quota.amount),
            quota.period.word()
        );
        once(out, told, line)?;
    }
    Ok(())
}

/// Writes a line, unless another direction has written the same.
fn once(out: &mut dyn Write, told: &mut HashSet<String>, line: String) -> Result<(), Failure> {
    if told.insert(line.clone()) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The hours of each day in which a rule with these times holds. Days that are alike and follow each other share a line.
fn week(when: &[Times]) -> String {
    let (days, mut text) = (Times::week(when), String::new());
    for alike in days.chunk_by(|(_, one), (_, next)| one == next) {
        let [(first, hours), ..] = alike else { continue };
        let name = match alike.last() {
            Some((last, _)) if last != first => format!("{first}-{last}"),
            _ => (*first).to_owned(),
        };
        let hours = if hours.is_empty() { "not".to_owned() } else { hours.join(", ") };
        let _ = writeln!(text, "    {name:<8}{hours}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::Scalar;

    #[test]
    fn the_week_of_a_rule_shows_that_monday_morning_is_left_out() {
        let times = |text: &str| Times::from_text(text).unwrap_or_else(|_| panic!("{text}"));
        assert_eq!(
            week(&[times("mon-fri 18:00-08:00")]),
            "    mon     18:00-24:00\n    tue-fri 00:00-08:00, 18:00-24:00\n    sat     00:00-08:00\n    sun     not\n"
        );
        assert_eq!(week(&[times("mon-sun")]), "    mon-sun 00:00-24:00\n");
    }
}

//! The rules of a running tidegate: what each has matched, and quotas.

use std::io::{self, Write};

use serde_json::{Value, json};
use tidegate_control::Status;
use tidegate_control::calls::{DirectionObservation, DirectionStatus, Observation, QuotaStatus, RuleObservation};
use tidegate_display::Table;

use crate::Failure;

/// Prints the rules of each direction.
pub fn print(out: &mut impl Write, status: &Status, seen: &Observation, width: Option<usize>) -> io::Result<()> {
    for direction in &status.directions {
        let observed = seen.direction(&direction.name);
        let name = format!("{}, {}", status.interface, direction.name);
        match observed.map(|one| &one.rules[..]) {
            None | Some([]) => writeln!(out, "{name}: there are no rules")?,
            Some(rules) => {
                writeln!(out, "{name}:")?;
                write!(out, "{}", table(rules).text(width))?;
                if rules.len() == Observation::MOST_RULES {
                    writeln!(out, "rules behind number {} are not listed", Observation::MOST_RULES)?;
                }
                unmatched(out, observed)?;
            }
        }
    }
    Ok(())
}

/// Says that there are no counts at the moment.
pub fn silent(status: &Status) -> String {
    format!("{}: its data path does not answer at the moment; try again", status.interface)
}

/// Returns the rules of each direction with their counts, and the packets that matched none.
///
/// # Errors
/// While the data path does not answer.
pub fn json(status: &Status, seen: Option<&Observation>) -> Result<Value, Failure> {
    let seen = seen.ok_or_else(|| Failure::Failed(silent(status)))?;
    let of_direction = |direction: &DirectionStatus| {
        let observed = seen.direction(&direction.name);
        json!({
            "name": direction.name,
            "rules": observed.map_or(&[][..], |one| &one.rules[..]),
            "unmatched_packets": observed.map_or(0, |one| one.data_path.unclassified_packets),
            "quotas": direction.quotas,
        })
    };
    let directions: Vec<Value> = status.directions.iter().map(of_direction).collect();
    Ok(json!({ "interface": status.interface, "directions": directions }))
}

fn table(rules: &[RuleObservation]) -> Table {
    let table = Table::new("", [">rule", "name or conditions", "class", ">packets", ">bytes", "now"]);
    let mut table = table.optional(["now", "packets"]).shorten("name or conditions", 20);
    for RuleObservation { rule, label, class, in_force, packets, bytes, .. } in rules {
        let label = if label.is_empty() { "every packet" } else { label };
        let now = if *in_force { "in force" } else { "off" };
        let (packets, bytes) = (tidegate_display::count(*packets), tidegate_display::bytes(bytes.as_u64()));
        table.row([rule.to_string(), label.into(), class.clone(), packets, bytes, now.into()].map(Into::into));
    }
    table
}

/// Says how many packets matched no rule.
fn unmatched(out: &mut impl Write, observed: Option<&DirectionObservation>) -> io::Result<()> {
    let packets = observed.map_or(0, |one| one.data_path.unclassified_packets);
    writeln!(out, "no rule matched {} packets, which went to the default class", tidegate_display::count(packets))
}

/// Prints the quotas of a direction. One that it shares with a direction before it was printed there.
pub fn quotas(out: &mut impl Write, direction: &DirectionStatus, all: &[DirectionStatus]) -> io::Result<()> {
    for status in &direction.quotas {
        let QuotaStatus { rule, label, used, left, quota, period, next, .. } = status;
        let is_same = |other: &QuotaStatus| !status.count.is_empty() && other.count == status.count;
        let with = |other: &&DirectionStatus| other.name != direction.name && other.quotas.iter().any(is_same);
        let before = all.iter().take_while(|other| other.name != direction.name);
        if before.filter(with).count() > 0 {
            continue;
        }
        let name = if all.iter().filter(with).count() > 0 { "both directions" } else { &direction.name };
        let [used, left, quota] = [used, left, quota].map(|bytes| tidegate_display::bytes(bytes.as_u64()));
        let left = match status.is_used_up() {
            true => "used up, so that later rules decide".into(),
            false => format!("{left} left"),
        };
        writeln!(out, "{name}: rule {rule} ({label}) {used} of {quota} this {period}, {left}; anew on {next}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_units::Bytes;

    #[test]
    fn json_has_the_rules_of_each_direction() {
        let (status, mut seen) = crate::snapshots::gateway();
        assert!(json(&status, None).is_err());
        seen.directions[0].data_path.unclassified_packets = 7;
        let found = json(&status, Some(&seen)).expect("it answers");
        assert_eq!(found["interface"], "wan0");
        let direction = &found["directions"][0];
        assert_eq!((direction["name"].as_str(), direction["unmatched_packets"].as_u64()), (Some("up"), Some(7)));
        assert!(direction["rules"].is_array());
    }

    #[test]
    fn the_rules_fit_the_terminal() {
        let (status, mut seen) = crate::snapshots::gateway();
        let rule = |number: u32, label: &str, packets: u64| RuleObservation {
            rule: number,
            name: None,
            label: label.into(),
            class: "calls".into(),
            in_force: number != 2,
            packets,
            bytes: Bytes::new(1_234 * packets),
        };
        seen.directions[0].rules = vec![
            rule(1, "conference", 48_210),
            rule(2, "protocol udp source 192.168.50.0/24,2001:db8:50::/64 destination-port 5000-5999 when mon-fri", 0),
            rule(3, "", 1_234_567_890),
        ];
        crate::snapshots::check("status-rules", |columns| {
            let mut out = Vec::new();
            print(&mut out, &status, &seen, Some(columns.into())).unwrap();
            crate::output::broken(std::str::from_utf8(&out).unwrap(), columns.into())
        });
    }
}

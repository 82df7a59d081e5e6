//! The texts of the cells, and the table without a terminal.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;

use tidegate_control::calls::{DirectionObservation, Flow, FlowObservation, FollowStatus, Observation, arrives};
use tidegate_control::view::{ClassQuantity, FlowQuantity, FollowQuantity, Shown, Value};
use tidegate_display::{Table, wrapped};
use tidegate_units::{Rate, Span};

use super::programs::{Names, Programs};
use crate::Failure;
use crate::output::{self, shown, wait};

pub use crate::output::rate;

/// A rate that may be unknown.
pub fn maybe(value: Option<Rate>) -> String {
    value.map_or("-".into(), rate)
}

/// A duration as text.
pub fn clock(span: Span) -> String {
    let s = span.as_nanos() / 1_000_000_000;
    match s {
        0..3_600 => format!("{}:{:02}", s / 60, s % 60),
        3_600..86_400 => format!("{}:{:02}:{:02}", s / 3_600, s / 60 % 60, s % 60),
        _ => format!("{}d {}:{:02}", s / 86_400, s / 3_600 % 24, s / 60 % 60),
    }
}

/// Drops by reason.
pub fn reasons<'a>(drops: impl Iterator<Item = (&'a str, u64)>) -> String {
    let parts: Vec<String> = drops.map(|(reason, packets)| format!("{} {packets}", reason.replace('_', " "))).collect();
    if parts.is_empty() { "none".into() } else { parts.join(", ") }
}

/// The names of hosts, by their addresses.
pub type Hosts = BTreeMap<IpAddr, String>;

/// The names of the hosts of an observation, where they are known.
pub fn host_names(seen: &Observation) -> Hosts {
    seen.hosts.iter().filter_map(|host| Some((host.address, host.name.clone()?))).collect()
}

/// A flow as text, with names of hosts in the place of their addresses.
fn named(flow: &Flow, names: &Hosts) -> String {
    let word = |word: &str| {
        let ends = [flow.source, flow.destination].into_iter().flatten();
        let mut name = ends.filter_map(|address| {
            let (name, plain) = (names.get(&address)?, address.to_string());
            let rest = match word.strip_prefix(&format!("[{plain}]")) {
                Some(port) => port,
                // What follows an address of IPv6 without brackets is part of it.
                None => word
                    .strip_prefix(&plain)
                    .filter(|port| port.is_empty() || (address.is_ipv4() && port.starts_with(':')))?,
            };
            Some(format!("{name}{rest}"))
        });
        name.next().unwrap_or_else(|| word.to_owned())
    };
    flow.to_string().split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A flow in `width` columns, with the `names` of hosts; if that is too little, without the local address, which is the same for
/// most; of a `gateway` without the remote one, because it is known by the host behind it, and then without the port of that
/// host.
pub fn flow(flow: &Flow, direction: &str, gateway: bool, names: &Hosts, width: usize) -> String {
    let fits = |text: &String| text.chars().count() <= width;
    let whole = named(flow, names);
    if fits(&whole) || flow.protocol.is_none() {
        return whole;
    }
    let port = |port: Option<u16>| port.map_or("?".into(), |port| format!(":{port}"));
    let (without, source_port, destination_port) = (flow.clone(), port(flow.source_port), port(flow.destination_port));
    if arrives(direction) != gateway {
        let short = |flow: Flow| {
            named(&Flow { destination: None, ..flow }, names).replace("> ?", &format!("> {destination_port}"))
        };
        let text = short(without.clone());
        if fits(&text) || !gateway { text } else { short(Flow { source_port: None, ..without }) }
    } else {
        let short =
            |flow: Flow| named(&Flow { source: None, ..flow }, names).replace("? >", &format!("{source_port} >"));
        let text = short(without.clone());
        if fits(&text) || !gateway { text } else { short(Flow { destination_port: None, ..without }) }
    }
}

/// The answers of all directions, a line each: the name, the grade and the sentence.
pub fn answers(seen: &Observation) -> Vec<String> {
    let known = seen.directions.iter().filter_map(|one| Some((&one.name, one.answer.as_ref()?)));
    known
        .map(|(name, answer)| match answer.grade {
            Some(grade) => format!("{name}: {}. {}", grade.word(), answer.text),
            None => format!("{name}: {}", answer.text),
        })
        .collect()
}

/// The owner: the program, or the user.
pub fn owner(flow: &FlowObservation, names: &Names, programs: &Programs) -> String {
    match (names.get(&flow.flow.key), flow.flow.uid) {
        (Some((name, _)), _) => name.clone(),
        (None, Some(uid)) => format!("({})", programs.user(uid)),
        (None, None) => "-".into(),
    }
}

/// Whether the text of a flow contains `filter`.
pub fn matches(flow: &FlowObservation, names: &Names, programs: &Programs, filter: &str) -> bool {
    if filter.is_empty() {
        return true;
    }
    let user = flow.flow.uid.map(|uid| programs.user(uid)).unwrap_or_default();
    let program = names.get(&flow.flow.key).map_or("", |(name, _)| name);
    let rule = flow.rule.as_deref().unwrap_or("");
    let text =
        format!("{} {} {rule} {program} {user}", flow.flow, shown(&flow.value(FlowQuantity::Class))).to_lowercase();
    text.contains(&filter.to_lowercase())
}

/// The rate on the line of a direction, how full that is, the rate of the line itself, and the part that its overhead takes.
pub fn line(direction: &DirectionObservation) -> String {
    let mut text = rate(direction.line.used);
    if let Some((limit, part)) = direction.limit.zip(direction.used_part()) {
        text.push_str(&format!(" of {} ({:.0} %)", rate(limit), part * 100.0));
    }
    if let Some(carries) = direction.line.carries {
        text.push_str(&format!(", line {}", rate(carries)));
    }
    if let Some(part) = direction.overhead_part() {
        text.push_str(&format!(", overhead {:.1} %", part * 100.0));
    }
    if let Some(following) = &direction.follow {
        text.push_str(&format!("; {}", follow(following)));
    }
    text
}

/// A rate that follows the line: what it goes by, and why it changed last.
pub fn follow(follow: &FollowStatus) -> String {
    let delay = match follow.value(FollowQuantity::Delay) {
        Value::Wait(delay) => format!("delay {}", wait(delay)),
        _ => "no delay known".into(),
    };
    let ago = wait(follow.changed);
    format!("follows the line, {delay} by {} peers, {} {ago} ago", follow.peers, follow.cause)
}

/// The name of a direction in a sentence, where `wan0 down` would be an interface that is down.
pub fn direction_word(name: &str) -> String {
    let stream = if name.ends_with("up") || name.ends_with("down") { "stream" } else { "" };
    format!("{name}{stream}")
}

/// The most flows without traffic that are listed below those with it.
const IDLE: usize = 5;

/// Flows with traffic first, each part in its order, and then a few of those without.
pub fn live_first(flows: Vec<FlowObservation>) -> Vec<FlowObservation> {
    let (idle, mut live): (Vec<_>, Vec<_>) = flows.into_iter().partition(FlowObservation::is_idle);
    live.extend(idle.into_iter().take(IDLE));
    live
}

/// The headline of a direction.
pub fn headline(seen: &Observation, direction: &DirectionObservation) -> String {
    let force = if seen.in_force { "in force" } else { "NOT in force" };
    format!("{} {}: {force}, {}", seen.interface, direction_word(&direction.name), line(direction))
}

/// Why a direction has no table of flows.
pub fn uncounted(direction: &DirectionObservation) -> String {
    let why = direction.table.uncounted.as_deref().map_or(String::new(), |why| format!(": {why}"));
    format!("flows are not listed{why}")
}

/// How many flows a direction has.
pub fn flows(direction: &DirectionObservation) -> String {
    format!("{} flow{}", direction.table.flows, if direction.table.flows == 1 { "" } else { "s" })
}

/// The rates of the interfaces of a direction, where there are several.
pub fn interfaces(direction: &DirectionObservation) -> Option<String> {
    let each = direction.interfaces.iter().map(|interface| {
        let absent = if interface.counts.present { "" } else { " (not there)" };
        format!("{} {}{absent}", interface.counts.name, rate(interface.rate))
    });
    (direction.interfaces.len() > 1).then(|| each.collect::<Vec<_>>().join(", "))
}

/// The coupled queues of the classes of a direction; empty where there are none.
pub fn coupled(direction: &DirectionObservation, width: Option<usize>) -> String {
    super::coupled::text(direction.classes.iter().map(|class| (class.name.as_str(), class.coupled.as_ref())), width)
}

/// The widths below which a table has flows as the screen has them, without the address that most have in common.
const NARROW: usize = 100;
/// The characters that a flow has in such a table, and to which it is shortened.
const FLOW: usize = 30;

const CLASSES: [(&str, ClassQuantity); 16] = [
    ("class", ClassQuantity::Name),
    (">rate", ClassQuantity::Rate),
    (">promised", ClassQuantity::Promised),
    (">at-most", ClassQuantity::AtMost),
    (">host-at-most", ClassQuantity::HostAtMost),
    (">flow-at-most", ClassQuantity::FlowAtMost),
    (">borrowed", ClassQuantity::Borrowed),
    (">flows", ClassQuantity::Flows),
    (">queue", ClassQuantity::Queue),
    ("held by", ClassQuantity::HeldBy),
    (">p50", ClassQuantity::WaitP50),
    (">p99", ClassQuantity::WaitP99),
    (">jitter", ClassQuantity::Jitter),
    (">drops", ClassQuantity::Dropped),
    (">marks", ClassQuantity::Marked),
    (">promise", ClassQuantity::Promise),
];

/// The columns between the ends of a flow and the reasons of its drops.
const FLOWS: [(&str, FlowQuantity); 11] = [
    ("class", FlowQuantity::Class),
    (">rate", FlowQuantity::Rate),
    (">share", FlowQuantity::Share),
    (">borrowed", FlowQuantity::Borrowed),
    (">queue", FlowQuantity::Queue),
    ("held by", FlowQuantity::HeldBy),
    (">p50", FlowQuantity::WaitP50),
    (">p99", FlowQuantity::WaitP99),
    (">jitter", FlowQuantity::Jitter),
    (">drops", FlowQuantity::Dropped),
    (">marks", FlowQuantity::Marked),
];

/// Tables for a terminal of `width` characters, or for a pipe or a log.
pub fn table(
    out: &mut impl Write,
    seen: &Observation,
    names: &Names,
    programs: &Programs,
    width: Option<usize>,
) -> Result<(), Failure> {
    for line in answers(seen) {
        writeln!(out, "{}", wrapped(&line, width))?;
    }
    let hosts = host_names(seen);
    for direction in &seen.directions {
        let head = format!("{}, {}", headline(seen, direction), flows(direction));
        writeln!(out, "{}", wrapped(&head, width))?;
        if let Some(each) = interfaces(direction) {
            writeln!(out, "{}", wrapped(&each, width))?;
        }
        let classes = output::table(&CLASSES, &direction.classes, shown)
            .if_any(["held by", "at-most", "host-at-most", "flow-at-most"])
            .optional([
                "marks",
                "jitter",
                "flow-at-most",
                "host-at-most",
                "p50",
                "borrowed",
                "at-most",
                "held by",
                "flows",
                "promise",
            ])
            .shorten("class", 12);
        write!(out, "{}", classes.text(width))?;
        write!(out, "{}", coupled(direction, width))?;
        let heads = FLOWS.iter().map(|(heading, _)| *heading);
        let heads = ["program", "flow"].into_iter().chain(heads).chain(["reasons of drops"]);
        let mut table = Table::new("", heads)
            .optional(["reasons of drops", "marks", "jitter", "held by", "p50", "borrowed", "share", "queue", "class"])
            .shorten("flow", FLOW)
            .shorten("program", 8);
        let room = width.filter(|width| *width < NARROW).map_or(usize::MAX, |_| FLOW);
        for flow in &direction.flows {
            let ends = self::flow(&flow.flow, &direction.name, seen.is_gateway(), &hosts, room);
            let quantities = FLOWS.iter().map(|(_, quantity)| shown(&flow.value(*quantity)));
            let drops = reasons(flow.dropped.iter().map(|drops| (drops.reason.as_str(), drops.packets)));
            let row = [owner(flow, names, programs), ends].into_iter().chain(quantities).chain([drops]);
            table.row(row.map(Into::into));
        }
        if direction.table.counted {
            write!(out, "{}", table.if_any(["held by"]).text(width))?;
        } else {
            writeln!(out, "{}", wrapped(&uncounted(direction), width))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_control::calls::LineObservation;

    #[test]
    fn a_line_states_what_it_carries_and_how_full_it_is() {
        let line = |limit, carries, used, overhead| {
            let line = LineObservation { carries, used: Rate::from_kbit(used), overhead: Rate::from_kbit(overhead) };
            super::line(&DirectionObservation { limit, line, ..Default::default() })
        };
        let mbit = |n| Some(Rate::from_mbit(n));
        // ADSL: 9.5 Mbit/s full, of which an eighth is cells and headers of the line.
        assert_eq!(
            line(mbit(19), mbit(20), 9_500, 1_200),
            "9.50 Mbit/s of 19.0 Mbit/s (50 %), line 20.0 Mbit/s, overhead 12.6 %"
        );
        assert_eq!(line(mbit(1), None, 0, 0), "0 bit/s of 1.00 Mbit/s (0 %)");
        assert_eq!(line(None, None, 700, 0), "700 kbit/s");
    }

    #[test]
    fn it_fits_the_terminal() {
        let (_, seen) = crate::snapshots::gateway();
        crate::snapshots::check("top", |columns| {
            let mut out = Vec::new();
            table(&mut out, &seen, &Names::new(), &Programs::default(), Some(columns.into())).unwrap();
            String::from_utf8(out).unwrap()
        });
        crate::snapshots::check("top-hosts", |columns| {
            let mut out = Vec::new();
            super::super::hosts::table(&mut out, &seen, &seen.hosts, Some(columns.into())).unwrap();
            String::from_utf8(out).unwrap()
        });
    }

    #[test]
    fn a_flow_has_the_names_of_its_hosts() {
        assert_eq!(clock(Span::from_secs(59 * 60 + 7)), "59:07");
        assert_eq!(clock(Span::from_secs(90_000)), "1d 1:00");
        let udp = Flow {
            key: "1".into(),
            protocol: Some(tidegate_control::calls::Protocol::UDP),
            source: Some([10, 0, 0, 1].into()),
            source_port: Some(5),
            destination: Some([10, 0, 0, 2].into()),
            destination_port: Some(53),
            uid: None,
        };
        let hosts = Hosts::new();
        let flow = |udp: &Flow, direction, gateway, width| flow(udp, direction, gateway, &hosts, width);
        assert_eq!(flow(&udp, "up", false, 40), "udp 10.0.0.1:5 > 10.0.0.2:53");
        assert_eq!(flow(&udp, "up", false, 20), "udp :5 > 10.0.0.2:53");
        assert_eq!(flow(&udp, "wan0.down", false, 20), "udp 10.0.0.1:5 > :53");
        // The host behind a gateway.
        assert_eq!(flow(&udp, "up", true, 20), "udp 10.0.0.1:5 > :53");
        assert_eq!(flow(&udp, "down", true, 20), "udp :5 > 10.0.0.2:53");
        assert_eq!(
            [flow(&udp, "up", true, 18), flow(&udp, "down", true, 18)],
            ["udp 10.0.0.1 > :53", "udp :5 > 10.0.0.2"]
        );
        // 10.0.0.1 is the beginning of 10.0.0.12, and 2001:db8::1 of 2001:db8::1:5.
        let names =
            Hosts::from([([10, 0, 0, 1].into(), "anna".to_owned()), ("2001:db8::1".parse().unwrap(), "ben".into())]);
        let named = |source: &str, destination: &str, port: Option<u16>| {
            let (source, destination) = (source.parse().ok(), destination.parse().ok());
            let flow = Flow { source, destination, source_port: port, destination_port: port, ..udp.clone() };
            super::flow(&flow, "up", false, &names, 80)
        };
        assert_eq!(named("10.0.0.1", "10.0.0.12", Some(5)), "udp anna:5 > 10.0.0.12:5");
        assert_eq!(named("2001:db8::1", "2001:db8::1:5", Some(5)), "udp ben:5 > [2001:db8::1:5]:5");
        assert_eq!(named("2001:db8::1", "2001:db8::1:5", None), "udp ben > 2001:db8::1:5");
    }
}

//! Resolves the rules of a file.

use std::collections::HashMap;

use tidegate_core::{ClassId, Rate};

use super::conditions;
use super::config::Root;
use super::file::{Direction, DisplaceSection, File, RuleSection};
use crate::classes::{Class, Displace, Match, Rule, Shaper, Sharing, ceiling, lookup};
use crate::decode::{Many, Spanned};
use crate::diagnostic::{Diagnostics, Place};
use crate::values::{Ports, Prefix, Protocol};

/// The most rules with a quota, so that what is kept of them is bounded.
const MOST_QUOTAS: usize = 256;

/// The classes that a rule can name.
struct Classes<'a> {
    by_name: HashMap<&'a str, u32>,
    listed: Vec<&'a str>,
    /// The classes of the other direction.
    elsewhere: &'a [String],
    direction: Direction,
}

impl Classes<'_> {
    /// The number of a class. Reports an error if there is no such class.
    fn find(&self, name: &Spanned<String>, diagnostics: &mut Diagnostics) -> ClassId {
        if self.by_name.contains_key(name.as_str()) || !self.elsewhere.contains(&name.value) {
            return lookup(name, &self.by_name, &self.listed, diagnostics);
        }
        let (here, there) = (self.direction.table(), self.direction.other().table());
        diagnostics
            .error(name.place, format!("there is no class `{}` in [{here}]", name.value))
            .label(format!("only [{there}] has it"))
            .help(format!("write the rule as [[{there}.rule]], or add the class as [[{here}.class]]"));
        ClassId(0)
    }
}

/// Resolves the rules of a direction with the classes `names`; `elsewhere` are those of the other one.
pub(super) fn rules(
    file: &File,
    root: &Root,
    names: &[String],
    (elsewhere, direction): (&[String], Direction),
    diagnostics: &mut Diagnostics,
) -> Vec<Rule> {
    let listed = names.iter().map(String::as_str).collect();
    let classes = Classes { by_name: numbered(names), listed, elsewhere, direction };
    let errors = diagnostics.errors();
    let rules: Vec<Rule> = file.rule.iter().map(|rule| self::rule(rule, root, &classes, diagnostics)).collect();
    if diagnostics.errors() == errors {
        let places: Vec<Place> = file.rule.iter().map(|rule| rule.place).collect();
        conditions::check(&rules, &places, diagnostics);
    }
    if let Some((at, ..)) = file.rule.iter().enumerate().filter(|(_, rule)| rule.quota.is_some()).nth(MOST_QUOTAS) {
        diagnostics
            .error(file.rule[at].place, format!("more than {MOST_QUOTAS} rules with `quota`"))
            .label("one too many")
            .help("give several devices a rule and a quota together, or let nftables mark what is beyond a quota");
    }
    if let Root::Shaper(shaper) = root {
        minimums(file, shaper, &classes.by_name, diagnostics);
    }
    rules
}

pub(super) fn numbered(names: &[String]) -> HashMap<&str, u32> {
    names.iter().enumerate().map(|(i, name)| (name.as_str(), i as u32)).collect()
}

fn rule(section: &Spanned<RuleSection>, root: &Root, classes: &Classes<'_>, diagnostics: &mut Diagnostics) -> Rule {
    let class = classes.find(&section.class, diagnostics);
    impossible(section, diagnostics);
    incoming(section, classes.direction, diagnostics);
    if section.weight.value == 0 || section.weight.value > 1_000_000 {
        diagnostics
            .error(section.weight.place, format!("a weight of {} is not possible", section.weight.value))
            .label("not between 1 and 1000000")
            .help("write 2 for twice what others get");
    }
    let minimum = section.minimum.map_or(Rate::ZERO, |minimum| minimum.value);
    if let Some(minimum) = section.minimum.filter(|minimum| minimum.value.is_zero()) {
        diagnostics
            .error(minimum.place, "a minimum of zero")
            .label("zero")
            .help("leave `minimum` out, or write a rate");
    }
    if let Some(flows) = &section.flows {
        if section.minimum.is_none() {
            diagnostics
                .error(flows.place, "`flows` without `minimum`")
                .label("the number of flows for which the minimum is reserved")
                .help("add minimum = \"...\", or remove `flows`");
        } else if flows.value == 0 {
            diagnostics.error(flows.place, "a minimum for no flow").label("zero").help("write at least 1");
        }
    }
    let displace = section.displace.as_ref().map(|displace| {
        let to = classes.find(&displace.to, diagnostics);
        check_displacement(section, displace, minimum, diagnostics);
        Displace { below: displace.below.value, to }
    });
    refuse_flow_keys(section, root, class, diagnostics);
    if let Some(name) = &section.name
        && (name.is_empty() || name.len() > 64 || name.chars().any(char::is_control))
    {
        diagnostics
            .error(name.place, "this cannot be the name of a rule")
            .label("not 1 to 64 bytes without control characters")
            .help("write for example name = \"calls\", or leave it out");
    }
    let shaped = match root {
        Root::Shaper(shaper) => shaper.classes.get(class.0 as usize),
        Root::Discipline(_) => None,
    };
    if let Some(class) = shaped {
        ceilings(section, class, diagnostics);
    }
    let at_most = section.at_most.zip(shaped).map(|(most, class)| ceiling(most.value, class.flow_burst));
    Rule {
        name: section.name.as_ref().map(|name| name.value.clone()),
        class,
        matches: matches(&section.value),
        weight: section.weight.value,
        minimum,
        flows: section.flows.map_or(1, |flows| flows.value),
        displace,
        at_most,
    }
}

/// Reports a ceiling of a rule for `class` that cannot be kept, and minimums that ceilings do not allow.
fn ceilings(section: &RuleSection, class: &Class, diagnostics: &mut Diagnostics) {
    let name = &class.name;
    if let (Some(minimum), Some(most)) = (section.minimum, class.at_most.flow)
        && minimum.value > most.rate
    {
        diagnostics
            .error(
                minimum.place,
                format!("a minimum of {} in a class whose flows get at most {}", minimum.value, most.rate),
            )
            .label(format!("more than flow-at-most of `{name}`"))
            .help("lower `minimum` or raise `flow-at-most`");
    }
    if let (Some(minimum), Some(_)) = (section.minimum, class.at_most.host) {
        diagnostics
            .error(minimum.place, format!("a minimum in class `{name}`, whose hosts have a ceiling"))
            .label("other flows of its host could use up the ceiling")
            .help("give these flows a class without `host-at-most`, or promise the class a larger `rate`");
    }
    let Some(most) = section.at_most else { return };
    let mut refuse = |message: String, label: &str, help: &str| {
        diagnostics.error(most.place, message).label(label).help(help);
    };
    if most.value.is_zero() {
        refuse(
            "`at-most` of zero lets nothing pass".into(),
            "a rate of zero",
            "write a rate, for example at-most = \"2mbit\"; a firewall blocks packets",
        );
    }
    if section.minimum.is_some() {
        refuse(
            "`minimum` and `at-most` in one rule".into(),
            "other flows of the rule could use up the ceiling",
            "remove one of the two; `rate` of a class promises to all of its flows together",
        );
    }
    if section.displace.is_some() {
        refuse(
            "`displace` and `at-most` in one rule".into(),
            "a flow that moves to another class would leave the ceiling",
            "remove one of the two",
        );
    }
    if class.at_most.host.is_some() {
        refuse(
            format!("a rule with a ceiling in class `{name}`, whose hosts have one"),
            "its packets can count towards one of the two only",
            "give the rule a class of its own, or remove one of the two ceilings",
        );
    }
    if class.share == Sharing::Strict {
        refuse(
            format!("a rule with a ceiling in class `{name}`, which has strict sharing"),
            "no flow gets more than its share here",
            "remove `at-most`, or write share = \"work-conserving\" in the class",
        );
    }
}

/// Reports keys about flows in a rule for a class without a queue for each flow.
fn refuse_flow_keys(section: &RuleSection, root: &Root, class: ClassId, diagnostics: &mut Diagnostics) {
    let per_flow = [
        ("minimum", section.minimum.map(|minimum| minimum.place)),
        ("displace", section.displace.as_ref().map(|displace| displace.below.place)),
        ("at-most", section.at_most.map(|ceiling| ceiling.place)),
        ("weight", (section.weight.value != 1).then_some(section.weight.place)),
    ];
    let without_flows = match root {
        Root::Discipline(discipline) => Some(format!("the discipline `{}`", discipline.kind())),
        Root::Shaper(shaper) => shaper.classes.get(class.0 as usize).and_then(|class| {
            class.queue.as_ref().map(|queue| format!("the `{}` queue of `{}`", queue.kind(), class.name))
        }),
    };
    if let Some(owner) = without_flows {
        for (key, place) in per_flow {
            if let Some(place) = place {
                diagnostics
                    .error(place, format!("`{key}` does not apply to {owner}"))
                    .label("only classes with one queue per flow have it")
                    .help(format!("remove `{key}`, or use a class without a queue of its own"));
            }
        }
    }
    of_packets(section, &per_flow, diagnostics);
}

fn check_displacement(
    section: &Spanned<RuleSection>,
    displace: &DisplaceSection,
    minimum: Rate,
    diagnostics: &mut Diagnostics,
) {
    if displace.to.value == section.class.value {
        diagnostics
            .error(
                displace.to.place,
                format!("flows of `{}` cannot be displaced to `{}` itself", section.class.value, displace.to.value),
            )
            .label("the same class")
            .related(section.class.place, "the class of the rule")
            .help("name another class");
    }
    if displace.below.value <= minimum {
        diagnostics
            .error(
                displace.below.place,
                format!("the threshold {} is not above the minimum {minimum}", displace.below.value),
            )
            .label("a share never falls below the minimum, so that this never happens")
            .related(section.minimum.map_or(section.place, |m| m.place), "the minimum")
            .help("raise `below` or lower `minimum`");
    }
}

fn values<T: Clone>(list: &Many<Spanned<T>>) -> Vec<T> {
    list.iter().map(|one| one.value.clone()).collect()
}

fn matches(section: &RuleSection) -> Match {
    Match {
        dscps: section.dscp.0.clone(),
        protocols: values(&section.protocol),
        sources: values(&section.source),
        destinations: values(&section.destination),
        source_ports: values(&section.source_port),
        destination_ports: values(&section.destination_port),
        hosts: values(&section.host),
        macs: values(&section.mac),
        host_names: values(&section.host_name),
        dns_names: values(&section.dns_name),
        ports: values(&section.port),
        both_ways: section.both_ways.value,
        marks: section.mark.0.clone(),
        users: section.uid.0.clone(),
        cgroups: section.cgroup.iter().map(|path| path.value.trim_matches('/').to_owned()).collect(),
        from_interfaces: values(&section.from_interface),
        lengths: values(&section.length),
        tcp_flags: values(&section.tcp_flags),
        pure_ack: section.pure_ack.value,
        icmp_types: values(&section.icmp_type),
        when: values(&section.when),
        quota: section.quota,
    }
}

/// The conditions about single packets: their keys and places, and the protocols that have them (all if the list is empty).
fn packet_conditions(section: &RuleSection) -> impl Iterator<Item = (&'static str, Place, &'static [u8])> {
    const ALL: &[u8] = &[];
    const TCP: &[u8] = &[6];
    const ICMP: &[u8] = &[1, 58];
    [
        ("length", section.length.first().map(|one| one.place), ALL),
        ("tcp-flags", section.tcp_flags.first().map(|one| one.place), TCP),
        ("pure-ack", section.pure_ack.value.then_some(section.pure_ack.place), TCP),
        ("icmp-type", section.icmp_type.first().map(|one| one.place), ICMP),
    ]
    .into_iter()
    .filter_map(|(key, place, protocols)| Some((key, place?, protocols)))
}

/// Reports promises to flows (`per_flow`) in a rule about single packets, and protocols whose packets cannot match it.
fn of_packets(section: &RuleSection, per_flow: &[(&str, Option<Place>)], diagnostics: &mut Diagnostics) {
    let conditions: Vec<_> = packet_conditions(section).collect();
    let Some((key, place, _)) = conditions.first() else { return };
    for (promise, at) in per_flow.iter().filter_map(|(promise, at)| Some((promise, (*at)?))) {
        diagnostics
            .error(at, format!("`{promise}` is for flows, and `{key}` is about single packets"))
            .label("a flow has packets that match and packets that do not")
            .related(*place, "selects packets")
            .help(format!("remove `{promise}`, or select whole flows, by addresses and ports"));
    }
    for (key, place, protocols) in conditions.iter().filter(|(.., protocols)| !protocols.is_empty()) {
        let others = |protocol: &&Spanned<Protocol>| !protocols.contains(&protocol.value.0);
        for protocol in section.protocol.iter().filter(others) {
            let has = if protocols.len() == 1 { "\"tcp\"" } else { "\"icmp\" or \"icmpv6\"" };
            diagnostics
                .error(*place, format!("packets of {} have no `{key}`", protocol.value))
                .label("nothing matches this")
                .related(protocol.place, "the protocol")
                .help(format!("leave `protocol` out, or write {has}"));
        }
    }
    let icmp = conditions.iter().find(|(key, ..)| *key == "icmp-type");
    let ports = section.source_port.first().or(section.destination_port.first()).or(section.port.first());
    let of_tcp = conditions.iter().find(|(.., protocols)| protocols.len() == 1).map(|(key, place, _)| (*key, *place));
    let other = of_tcp.or(ports.map(|ports| ("ports", ports.place)));
    if let (Some((_, place, _)), Some((other, at))) = (icmp, other) {
        diagnostics
            .error(*place, format!("no packet has an `icmp-type` and {other}"))
            .label("nothing matches this")
            .related(at, "packets of ICMP do not have it")
            .help("make a rule for each of the two");
    }
}

/// The longest name that the kernel gives an interface, in bytes.
const LONGEST_INTERFACE: usize = 15;

/// Reports interfaces by which no packet can have come in.
fn incoming(section: &RuleSection, direction: Direction, diagnostics: &mut Diagnostics) {
    let Some(first) = section.from_interface.first() else { return };
    if direction == Direction::Ingress {
        diagnostics
            .error(first.place, "`from-interface` in a rule for what arrives")
            .label("it has come in by the shaped interface, and is not forwarded yet")
            .help("write `host` with the addresses behind that interface, or put the rule into [[up.rule]]");
    }
    let owner = section.uid.first().map(|_| "uid").or(section.cgroup.first().map(|_| "cgroup"));
    if let Some(owner) = owner {
        diagnostics
            .error(first.place, format!("no packet has a `{owner}` and has come in by an interface"))
            .label("nothing matches this")
            .help("make a rule for each of the two");
    }
    for name in section.from_interface.iter() {
        let is_name = |c: char| !c.is_whitespace() && !c.is_control() && c != '/' && c != ':';
        if name.is_empty() || name.len() > LONGEST_INTERFACE || !name.chars().all(is_name) {
            diagnostics
                .error(name.place, format!("`{}` is not the name of an interface", name.escape_debug()))
                .label("not 1 to 15 bytes without spaces, slashes and colons")
                .help("write for example from-interface = \"br-guest\"; `ip link` lists them");
        }
    }
}

/// Reports rules that no packet can match.
fn impossible(section: &RuleSection, diagnostics: &mut Diagnostics) {
    let ports = section.source_port.first().or(section.destination_port.first()).or(section.port.first());
    if let Some(ports) = ports {
        for protocol in section.protocol.iter().filter(|protocol| !protocol.value.has_ports()) {
            diagnostics
                .error(ports.place, format!("packets of {} have no ports", protocol.value))
                .label("nothing matches this")
                .related(protocol.place, "the protocol")
                .help("remove the ports, or write protocol = [\"tcp\", \"udp\"]");
        }
    }
    if let (Some(source), Some(destination)) = (section.source.first(), section.destination.first()) {
        let family = |v4: bool| {
            section.source.iter().any(|p| p.address.is_ipv4() == v4)
                && section.destination.iter().any(|p| p.address.is_ipv4() == v4)
        };
        if !family(true) && !family(false) {
            diagnostics
                .error(destination.place, "no packet goes from IPv4 to IPv6")
                .label(if destination.address.is_ipv4() { "IPv4" } else { "IPv6" })
                .related(source.place, if source.address.is_ipv4() { "IPv4" } else { "IPv6" })
                .help("make a rule for each of the two");
        }
    }
    if section.both_ways.value && end(section).is_none() {
        diagnostics
            .error(section.both_ways.place, "`both-ways` without an end to exchange")
            .label("no source and no destination")
            .help("add `source`, `destination` or a port of one of them, or remove `both-ways`; `host` and `port` mean either end");
    }
    for path in section.cgroup.iter() {
        if path.trim_matches('/').is_empty() || path.split('/').any(|part| part == "..") {
            diagnostics
                .error(path.place, format!("`{}` is not the path of a control group", path.value))
                .label("not a path below the root")
                .help("write for example \"/system.slice/backup.service\"; `systemd-cgls` lists them");
        }
    }
}

/// The keys about the sender or the receiver alone.
pub(super) const ENDS: [&str; 4] = ["source", "destination", "source-port", "destination-port"];

/// The first condition about the sender or the receiver alone: its key and its place.
fn end(section: &RuleSection) -> Option<(&'static str, Place)> {
    let address = |list: &Many<Spanned<Prefix>>| list.first().map(|one| one.place);
    let port = |list: &Many<Spanned<Ports>>| list.first().map(|one| one.place);
    let places = [
        address(&section.source),
        address(&section.destination),
        port(&section.source_port),
        port(&section.destination_port),
    ];
    ENDS.into_iter().zip(places).find_map(|(key, place)| Some((key, place?)))
}

/// Reports rules for both directions whose meaning depends on the direction.
pub(super) fn one_sided(rules: &[Spanned<RuleSection>], diagnostics: &mut Diagnostics) {
    for rule in rules.iter().filter(|rule| !rule.both_ways.value) {
        let Some((key, place)) = end(rule) else { continue };
        let either = if key.ends_with("port") { "port" } else { "host" };
        diagnostics
            .error(place, format!("`{key}` in a rule for both directions"))
            .label("packets of the other direction have it at their other end")
            .help(format!(
                "write `{either}` for either end, add both-ways = true, or put the rule into [[up.rule]] or [[down.rule]]"
            ));
    }
}

/// Checks that the promises to flows fit into their class.
fn minimums(file: &File, shaper: &Shaper, by_name: &HashMap<&str, u32>, diagnostics: &mut Diagnostics) {
    let mut by_class: Vec<Vec<&Spanned<RuleSection>>> = vec![Vec::new(); shaper.classes.len()];
    for rule in file.rule.iter().filter(|rule| rule.minimum.is_some()) {
        if let Some(class) = by_name.get(rule.class.as_str()) {
            by_class[*class as usize].push(rule);
        }
    }
    for (i, (class, rules)) in shaper.classes.iter().zip(by_class).enumerate() {
        let promised = |rule: &RuleSection| {
            let flows = rule.flows.map_or(1, |flows| flows.value);
            rule.minimum.map_or(0, |minimum| u128::from(minimum.value.as_bps()) * u128::from(flows))
        };
        let sum: u128 = rules.iter().map(|rule| promised(rule)).sum();
        let rate = u128::from(class.rate.as_bps());
        if sum <= rate {
            continue;
        }
        let bps = |n: u128| Rate::from_bps(u64::try_from(n).unwrap_or(u64::MAX));
        // Point at the promise that exceeds the rate.
        let mut so_far = 0;
        for rule in rules {
            so_far += promised(rule);
            if so_far > rate
                && let Some(minimum) = rule.minimum
            {
                let class_rate = file
                    .class
                    .get(i)
                    .map_or(Place::default(), |class| class.rate.map_or(class.name.place, |rate| rate.place));
                diagnostics
                    .error(
                        minimum.place,
                        format!(
                            "the flows of class `{}` are promised {}, more than its {}",
                            class.name,
                            bps(sum),
                            class.rate
                        ),
                    )
                    .label(format!("with this, {} are promised", bps(so_far)))
                    .related(class_rate, "the rate of the class")
                    .help("lower a minimum (or its `flows`), or raise the rate of the class");
                break;
            }
        }
    }
}

//! The interface: its state, what is stacked on it, and what takes packets before or behind the shaper.

use super::{Examination, Offload, Severity, offloads, tcx};
use crate::bypass::{self, Takes};
use crate::rtnl::{Link, OnLink, OperationalState, Rtnl, Taking, sysctl};
use crate::rules::Direction;
use crate::shaping::backend::DISCIPLINE;

/// The interface itself.
pub(super) fn interface(found: &mut Examination, name: &str, mtu: Option<u32>) {
    let mut rtnl = match Rtnl::open() {
        Ok(rtnl) => rtnl,
        Err(error) => {
            found.add("interface", Severity::Prevents, error.to_string(), "");
            return;
        }
    };
    let link = match rtnl.link(name) {
        Ok(Some(link)) => link,
        Ok(None) => {
            let known: Vec<_> = rtnl.links().unwrap_or_default().into_iter().map(|link| link.name).collect();
            found.add(
                "interface",
                Severity::Prevents,
                format!("no interface is called {name}"),
                format!("name one of: {}", known.join(", ")),
            );
            return;
        }
        Err(error) => {
            found.add("interface", Severity::Prevents, error.to_string(), "");
            return;
        }
    };
    state(found, &link, mtu);
    above(found, &mut rtnl, &link);
    flowtables(found, &link);
    disciplines(found, &mut rtnl, &link);
    takers(found, &mut rtnl, &link);
    offloading(found, &link);
}

fn state(found: &mut Examination, link: &Link, mtu: Option<u32>) {
    let name = &link.name;
    if !link.is_up() {
        let remedy = format!("ip link set {name} up");
        found.add("interface", Severity::Prevents, format!("{name} is down: nothing leaves by it"), remedy);
    } else if !matches!(link.state, OperationalState::Up | OperationalState::Unknown) {
        found.add(
            "interface",
            Severity::Prevents,
            format!("{name} is up without a carrier ({})", link.state),
            "plug it in; for a virtual one, set its other end up",
        );
    } else {
        found.fine("interface", format!("{name} is up"));
    }
    match mtu {
        Some(configured) if configured != link.mtu => found.add(
            "mtu",
            Severity::Weakens,
            format!("the file counts with an MTU of {configured}, {name} has {}: segments are miscounted", link.mtu),
            format!("write mtu = \"{}B\" under [interface]", link.mtu),
        ),
        _ => found.fine("mtu", format!("{} bytes", link.mtu)),
    }
}

/// Interfaces above it, which have the packets that it carries.
fn above(found: &mut Examination, rtnl: &mut Rtnl, link: &Link) {
    let name = &link.name;
    if let Some((why, remedy)) = link.kind.as_deref().and_then(bypass::unseen) {
        found.add("stack", Severity::Prevents, format!("{name} cannot be shaped: {why}"), remedy);
        return;
    }
    let stack = match bypass::stack(rtnl, link) {
        Ok(stack) => stack,
        Err(error) => {
            found.add("stack", Severity::Note, error.to_string(), "");
            return;
        }
    };
    let Some(first) = stack.above.first() else {
        found.fine("stack", format!("nothing stands above {name}"));
        return;
    };
    let remedy = format!("shape that: --interface {}", first.name);
    if stack.carries_all {
        let text = format!("no packet has the interface {name}, only what is stacked on it: {}", stack.names());
        found.add("stack", Severity::Prevents, text, remedy);
    } else {
        let text = format!("packets of what stands above {name} pass its rules by: {}", stack.names());
        found.add("stack", Severity::Note, text, format!("for these, {remedy}"));
    }
}

/// Flow tables, which forward packets past all rules.
fn flowtables(found: &mut Examination, link: &Link) {
    let mut offloads = Vec::new();
    for direction in [Direction::Egress, Direction::Ingress] {
        for offload in bypass::offloads(link, direction).unwrap_or_default() {
            if !offloads.contains(&offload) {
                offloads.push(offload);
            }
        }
    }
    for offload in offloads {
        let severity = match offload.takes {
            Takes::Yes => Severity::Prevents,
            Takes::Perhaps => Severity::Weakens,
            Takes::No => Severity::Fine,
        };
        let remedy = if offload.takes == Takes::No { String::new() } else { offload.remedy(&link.name) };
        let which = if offload.takes == Takes::No { ", those of others" } else { "" };
        found.add("flowtables", severity, format!("{offload}{which}"), remedy);
    }
}

/// Kernel qdiscs below us.
fn disciplines(found: &mut Examination, rtnl: &mut Rtnl, link: &Link) {
    let name = &link.name;
    let qdiscs = match rtnl.qdiscs(link.index) {
        Ok(qdiscs) => qdiscs,
        Err(error) => {
            found.add("qdisc", Severity::Note, error.to_string(), "");
            return;
        }
    };
    for kind in qdiscs {
        match kind.as_str() {
            "ingress" | "clsact" => found.add(
                "qdisc",
                Severity::Note,
                format!("{name} has a {kind} qdisc; what its filters do is reported under `tc`"),
                "",
            ),
            kind => match bypass::slower(kind, name) {
                Some((text, remedy)) => found.add("qdisc", Severity::Weakens, text, remedy),
                None => found.fine("qdisc", format!("{kind} below us, which shapes nothing")),
            },
        }
    }
}

/// Examines what takes packets outside of the packet filter: arriving ones before it, departing ones after it.
fn takers(found: &mut Examination, rtnl: &mut Rtnl, link: &Link) {
    let name = &link.name;
    for other in rtnl.links().unwrap_or_default() {
        let Some(program) = other.xdp else { continue };
        let remedy =
            format!("see `bpftool prog show id {program}`; without it: ip link set dev {} xdp off", other.name);
        if other.index == link.index {
            let text = format!(
                "XDP program {program} sees what arrives by {name} first: what it drops or sends elsewhere is not shaped"
            );
            found.add("xdp", Severity::Weakens, text, remedy);
        } else {
            let text =
                format!("XDP program {program} at {} may send packets out by {name} past the shaper", other.name);
            found.add("xdp", Severity::Note, text, remedy);
        }
    }
    for direction in [OnLink::Arriving, OnLink::Leaving] {
        let (what, when) = ways(direction);
        // A kernel that does not support the query has no such programs.
        if let Ok(count @ 1..) = tcx::programs(link.index, direction) {
            let text = format!("programs ({count}, tcx) decide on what {what} by {name}, {when}");
            found.add("tc", Severity::Note, text, format!("see `bpftool net show dev {name}`"));
        }
    }
    let takers = match rtnl.takers(link.index) {
        // A data path in the kernel has a program of ours there.
        Ok(takers) => takers.into_iter().filter(|(_, taking)| !is_ours(taking)).collect::<Vec<_>>(),
        Err(error) => {
            found.add("tc", Severity::Note, error.to_string(), "");
            return;
        }
    };
    if takers.is_empty() {
        found.fine("tc", format!("no filter of tc takes packets at {name}"));
    }
    for (direction, taking) in takers {
        let (what, when) = ways(direction);
        let hook = if direction == OnLink::Arriving { "ingress" } else { "egress" };
        let (severity, does) = match taking {
            Taking::Redirects(to) => {
                let to = rtnl.link_by_index(to).ok().flatten().map_or(format!("interface {to}"), |link| link.name);
                (Severity::Weakens, format!("sends to {to} what"))
            }
            Taking::Drops => (Severity::Note, "drops some of what".to_owned()),
            Taking::Program(Some(program)) => (Severity::Note, format!("has the program {program} decide on what")),
            Taking::Program(None) => (Severity::Note, "has a program decide on what".to_owned()),
        };
        found.add(
            "tc",
            severity,
            format!("a filter of tc {does} {what} by {name}, {when}"),
            format!("see `tc filter show dev {name} {hook}`; without them: tc filter del dev {name} {hook}"),
        );
    }
}

fn is_ours(taking: &Taking) -> bool {
    matches!(taking, Taking::Program(Some(program)) if program == DISCIPLINE)
}

/// The verb for packets of a direction, and when programs see them.
fn ways(direction: OnLink) -> (&'static str, &'static str) {
    match direction {
        OnLink::Arriving => ("arrives", "before we see it"),
        OnLink::Leaving => ("leaves", "after we let it go"),
    }
}

fn offloading(found: &mut Examination, link: &Link) {
    let name = &link.name;
    for offload in offloads(name).unwrap_or_default() {
        match offload {
            Offload::Lro => found.add(
                "offloads",
                Severity::Weakens,
                format!("{name} merges arriving packets for good (LRO): forwarded, they are too long and are dropped"),
                format!("ethtool -K {name} lro off"),
            ),
            Offload::Gro => found.add(
                "offloads",
                Severity::Note,
                format!("{name} merges arriving packets (GRO); those too long for a rate are cut again, which costs time"),
                format!("nothing to do; for the evenest spacing of forwarded traffic: ethtool -K {name} gro off"),
            ),
            Offload::Tso => found.add(
                "offloads",
                Severity::Note,
                format!("{name} cuts superpackets itself (TSO); what passes whole leaves in bursts of up to 64 kB, at rates \
                         where that takes under a millisecond"),
                format!("nothing to do; for the evenest spacing: ethtool -K {name} tso off"),
            ),
            Offload::Gso => {}
        }
    }
}

pub(super) fn forwarding(found: &mut Examination, interface: Option<&str>) {
    let forwards = sysctl::read("ipv4/ip_forward").is_ok_and(|text| text == "1");
    if !forwards {
        return;
    }
    let strict = |name: &str| sysctl::read(&format!("ipv4/conf/{name}/rp_filter")).is_ok_and(|text| text == "1");
    if strict("all") || interface.is_some_and(strict) {
        found.add(
            "rp_filter",
            Severity::Note,
            "this machine forwards and drops packets whose way back would be another (rp_filter 1)",
            "with several uplinks: sysctl net.ipv4.conf.all.rp_filter=2",
        );
    }
}

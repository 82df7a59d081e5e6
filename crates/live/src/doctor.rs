//! Finds what on this machine would keep shaping from working, and suggests remedies.
//!
//! Nothing is changed: trials leave nothing behind.
//!
//! *Cost*: some netlink dumps and small files; milliseconds.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::bypass::{self, Takes};
use crate::netlink::{self, Protocol, Socket};
use crate::nfqueue::{Outcome, QueueSettings, QueueSocket};
use crate::nft::{self, Expression, Family};
use crate::rtnl::{Link, OnLink, OperationalState, Rtnl, Taking, sysctl};
use crate::rules::{Direction, PREFIX};
use crate::timing::{self, Priority};

mod offload;
mod tcx;

pub use offload::{Offload, offloads};

/// How severe a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// No problem was found.
    Fine,
    /// Information without a problem.
    Note,
    /// Shaping works with limitations, or not for all packets.
    Weakens,
    /// Shaping does not work.
    Prevents,
}

impl Severity {
    /// The severity in lower case, as reports show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Note => "note",
            Self::Weakens => "weakens",
            Self::Prevents => "prevents",
        }
    }
}

/// The result of one examination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// A stable identifier of the subject: `queue`, `qdisc`, `rules`.
    pub about: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The finding as text.
    pub found: String,
    /// The suggested remedy; empty when there is no problem.
    pub remedy: String,
}

/// All findings.
#[derive(Clone, Debug, Default)]
pub struct Examination {
    /// In the order in which they were made.
    pub findings: Vec<Finding>,
}

impl Examination {
    /// Whether nothing prevents shaping.
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity < Severity::Prevents)
    }

    fn add(&mut self, about: &'static str, severity: Severity, found: impl Into<String>, remedy: impl Into<String>) {
        self.findings.push(Finding { about, severity, found: found.into(), remedy: remedy.into() });
    }
    fn fine(&mut self, about: &'static str, found: impl Into<String>) {
        self.add(about, Severity::Fine, found, "");
    }
}

/// The subject of an examination, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject<'a> {
    /// The interface to shape.
    pub interface: Option<&'a str>,
    /// The MTU that the configuration specifies.
    pub mtu: Option<u32>,
}

/// Examines the machine, in the network namespace of the calling thread.
pub fn examine(subject: Subject<'_>) -> Examination {
    let mut found = Examination::default();
    filter(&mut found);
    connections(&mut found);
    queue(&mut found);
    scheduling(&mut found);
    clocks(&mut found);
    match subject.interface {
        Some(name) => interface(&mut found, name, subject.mtu),
        None => found.add(
            "interface",
            Severity::Note,
            "no interface was named, so none was looked at",
            "name one: tidegate doctor --interface eth0",
        ),
    }
    forwarding(&mut found, subject.interface);
    service(&mut found, subject.interface);
    found
}

fn is_permission(error: &netlink::Error) -> bool {
    matches!(error.errno(), Some(libc::EPERM | libc::EACCES))
}

/// Examines the kernel's packet filter and other users of it.
fn filter(found: &mut Examination) {
    let tables = Socket::open(Protocol::Netfilter).and_then(|mut socket| {
        let tables = nft::tables(&mut socket)?;
        Ok((socket, tables))
    });
    let (mut socket, tables) = match tables {
        Ok(tables) => tables,
        Err(error) if is_permission(&error) => {
            found.add(
                "privileges",
                Severity::Prevents,
                format!("the packet filter may not be read: {error}"),
                "run as root or with CAP_NET_ADMIN; as a service: tidegate@INTERFACE",
            );
            return;
        }
        Err(error) => {
            found.add(
                "nf_tables",
                Severity::Prevents,
                format!("the kernel has no nf_tables: {error}"),
                "load it with `modprobe nf_tables`, or use a kernel with CONFIG_NF_TABLES and CONFIG_NF_TABLES_INET",
            );
            return;
        }
    };
    found.fine("nf_tables", "the kernel has it");
    for (family, name) in tables {
        if let Some(interface) = name.strip_prefix(PREFIX) {
            found.add(
                "instance",
                Severity::Note,
                format!("another tidegate shapes already: table {} {name}", family.name()),
                format!(
                    "if it is none of yours, see `tidegate status` and end it; for {interface} a second one is refused"
                ),
            );
            continue;
        }
        match nft::read(&mut socket, family, &name) {
            Ok(Some(table)) => others(found, family, &table.table),
            Ok(None) => {}
            Err(error) => found.add("rules", Severity::Note, format!("table {name} cannot be read: {error}"), ""),
        }
    }
    for (names, tool) in [("ip_tables_names", "iptables-legacy"), ("ip6_tables_names", "ip6tables-legacy")] {
        let text = fs::read_to_string(Path::new("/proc/thread-self/net").join(names)).unwrap_or_default();
        if !text.trim().is_empty() {
            found.add(
                "rules",
                Severity::Note,
                format!("{tool} has tables ({}), which are not seen from here", text.trim().replace('\n', ", ")),
                format!("look for NFQUEUE and DROP in `{tool}-save`"),
            );
        }
    }
}

/// The connection tracker. Without one there is no address translation, and fragments are not put together.
fn connections(found: &mut Examination) {
    let number = |name: &str| sysctl::read(&format!("netfilter/nf_conntrack_{name}")).ok()?.parse::<u64>().ok();
    let (Some(count), Some(max)) = (number("count"), number("max")) else {
        found.fine("conntrack", "connections are not tracked");
        return;
    };
    let text = format!("{count} connections are tracked, of {max} at most");
    if count > max - max / 10 {
        found.add(
            "conntrack",
            Severity::Weakens,
            format!(
                "{text}: when that is reached the kernel drops packets of new connections, before or behind the queue"
            ),
            format!("sysctl net.netfilter.nf_conntrack_max={}", max.saturating_mul(2)),
        );
    } else {
        found.fine("conntrack", text);
    }
}

/// Examines the order of chains: earlier chains may take packets before ours, later ones before the wire.
fn others(found: &mut Examination, family: Family, table: &nft::Table) {
    const OUTPUT: u32 = libc::NF_INET_LOCAL_OUT as u32;
    const POSTROUTING: u32 = libc::NF_INET_POST_ROUTING as u32;
    const OURS: i32 = 60;
    let mut sound = true;
    for rule in &table.rules {
        let Some(chain) = table.chains.iter().find(|chain| chain.name == rule.chain) else { continue };
        let place = format!("{} {} {}", family.name(), table.name, chain.name);
        let when = match chain.hook {
            Some((OUTPUT | POSTROUTING, priority)) if priority < OURS => "before ours",
            Some((POSTROUTING, _)) => "behind ours",
            Some(_) => continue,
            None => "called from others",
        };
        for expression in &rule.expressions {
            let what = match expression {
                Expression::Queue { first, .. } | Expression::QueueTarget { first, .. } => {
                    format!("hands packets to queue {first}")
                }
                Expression::Unknown(name) if name == "queue" => "hands packets to a queue".to_owned(),
                Expression::Unknown(name) if name == "target" => "has a target of iptables".to_owned(),
                Expression::Drop => "drops packets".to_owned(),
                Expression::Unknown(name) if name == "reject" => "rejects packets".to_owned(),
                Expression::Unknown(name) if name == "notrack" || name == "fwd" || name == "synproxy" => {
                    format!("takes packets away ({name})")
                }
                _ => continue,
            };
            sound = false;
            let queues = match expression {
                Expression::Queue { .. } | Expression::QueueTarget { .. } => true,
                Expression::Unknown(name) => name == "queue",
                _ => false,
            };
            found.add(
                "rules",
                if queues { Severity::Weakens } else { Severity::Note },
                format!("a rule of {place}, {when}, {what}"),
                format!("see `nft list chain {place}`; packets that it takes are not shaped, or are shaped twice"),
            );
        }
    }
    if sound && !table.rules.is_empty() {
        found.fine("rules", format!("table {} {} takes no packets from us", family.name(), table.name));
    }
}

/// The kernel's queue to user space.
fn queue(found: &mut Examination) {
    // An unused queue number, far above those of the data path.
    const TRIAL: u16 = 64_999;
    let trial = QueueSocket::open(1 << 20).and_then(|mut socket| socket.bind(TRIAL, &QueueSettings::default()));
    match trial {
        Ok(report) => {
            found.fine("queue", "the kernel has NFQUEUE and lets us use it");
            for (what, outcome, effect) in [
                ("superpackets", &report.gso, "TCP costs more processor"),
                ("fail-open", &report.fail_open, "a hung process would drop instead of letting pass"),
            ] {
                if let Outcome::Refused(why) = outcome {
                    let found_text = format!("{what} are refused by the queue ({why}): {effect}");
                    found.add("queue", Severity::Weakens, found_text, "use a newer kernel");
                }
            }
        }
        Err(error) if is_permission(&error) => found.add(
            "privileges",
            Severity::Prevents,
            format!("no queue may be bound: {error}"),
            "run as root or with CAP_NET_ADMIN; as a service: tidegate@INTERFACE",
        ),
        Err(error) => found.add(
            "queue",
            Severity::Prevents,
            format!("the kernel has no NFQUEUE: {error}"),
            "load it with `modprobe nfnetlink_queue`, or use a kernel with CONFIG_NETFILTER_NETLINK_QUEUE",
        ),
    }
}

/// Examines what the data path would be granted, on a thread of its own, so that the calling thread does not change.
fn scheduling(found: &mut Examination) {
    let granted = std::thread::scope(|scope| scope.spawn(|| timing::prepare_thread(Priority::RealTime)).join());
    let Ok(granted) = granted else { return };
    match &granted.real_time {
        Outcome::Refused(why) => found.add(
            "real-time",
            Severity::Weakens,
            format!("no real-time scheduling ({why}): on a busy machine rates fall short and packets are late"),
            "grant CAP_SYS_NICE, or set `rtprio` in /etc/security/limits.conf; the service has it",
        ),
        _ => found.fine("real-time", "scheduling is granted"),
    }
    if let Outcome::Refused(why) = &granted.timer_slack {
        found.add("timers", Severity::Weakens, format!("timers are not exact ({why})"), "run on the host's kernel");
    }
    if let Outcome::Refused(why) = &granted.locked_memory {
        found.add(
            "memory",
            Severity::Note,
            format!("memory is not locked: {why}; a machine that swaps delays packets"),
            "raise `memlock` to unlimited, or grant CAP_IPC_LOCK; the service has it",
        );
    }
    let runtime = fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").unwrap_or_default();
    if runtime.trim() == "0" {
        found.add(
            "real-time",
            Severity::Prevents,
            "the kernel gives real-time threads no time (kernel.sched_rt_runtime_us is 0)",
            "sysctl kernel.sched_rt_runtime_us=950000, or run with --normal-priority",
        );
    }
}

fn clocks(found: &mut Examination) {
    let resolution = timing::resolution();
    if resolution.as_nanos() > 1_000 {
        found.add(
            "timers",
            Severity::Weakens,
            format!("the kernel's timers have steps of {resolution}: packets leave in bursts that long"),
            "boot without `highres=off` and with CONFIG_HIGH_RES_TIMERS",
        );
    } else {
        found.fine("timers", format!("high resolution ({resolution})"));
    }
    let path = "/sys/devices/system/clocksource/clocksource0/";
    let read = |name| fs::read_to_string(format!("{path}{name}")).map(|text| text.trim().to_owned());
    let Ok(current) = read("current_clocksource") else { return };
    if ["hpet", "acpi_pm", "jiffies", "refined-jiffies"].contains(&current.as_str()) {
        found.add(
            "clock source",
            Severity::Weakens,
            format!("reading the clock {current} takes a microsecond or more, and it is read for each batch"),
            format!("choose a faster one of: {}", read("available_clocksource").unwrap_or_default()),
        );
    } else {
        found.fine("clock source", current);
    }
}

/// The interface itself.
fn interface(found: &mut Examination, name: &str, mtu: Option<u32>) {
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
        let text = format!("no packet has the interface {name}, only what stands above it: {}", stack.names());
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
    const HARMLESS: [&str; 8] = ["noqueue", "pfifo_fast", "pfifo", "bfifo", "fq_codel", "fq", "mq", "multiq"];
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
                format!("{name} has a {kind} qdisc; what its filters do is told under `tc`"),
                "",
            ),
            kind if HARMLESS.contains(&kind) => found.fine("qdisc", format!("{kind} below us, which shapes nothing")),
            kind => found.add(
                "qdisc",
                Severity::Weakens,
                format!("{name} has a {kind} qdisc, which shapes or delays what we let go: the slower of both counts"),
                format!("tc qdisc del dev {name} root"),
            ),
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
        Ok(takers) => takers,
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

fn forwarding(found: &mut Examination, interface: Option<&str>) {
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

fn service(found: &mut Examination, interface: Option<&str>) {
    if !Path::new("/run/systemd/system").exists() {
        found.add(
            "service",
            Severity::Note,
            "systemd does not run here: tidegate is not restarted if it dies",
            "have your own service manager run `tidegate run FILE`, and start it again when it ends",
        );
        return;
    }
    found.fine("service", "systemd runs here");
    if let Some(interface) = interface {
        instance(found, &format!("tidegate@{interface}"));
    }
}

/// Examines the service manager's state of the instance for the interface.
fn instance(found: &mut Examination, unit: &str) {
    let asked = Command::new("systemctl")
        .args(["show", &format!("{unit}.service"), "--property=ActiveState,Result,UnitFileState"])
        .output();
    // Without a reply there is no finding.
    let Ok(output) = asked else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    let property = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap_or("");
    match (property("ActiveState"), property("UnitFileState")) {
        ("failed", _) => found.add(
            "service",
            Severity::Weakens,
            format!("{unit} has failed ({}) and is not tried again: nothing is shaped by it", property("Result")),
            format!("see `systemctl status {unit}`, fix what it reports, then: systemctl restart {unit}"),
        ),
        ("inactive", "enabled") => found.add(
            "service",
            Severity::Note,
            format!("{unit} is enabled and does not run"),
            format!("systemctl start {unit}"),
        ),
        ("active", _) => found.fine("service", format!("{unit} runs")),
        _ => {}
    }
}

//! The kernel: its packet filter and other users of it, its queue, its scheduling and its clocks.

use std::fs;
use std::path::Path;

use super::{Examination, Finding, Severity, is_permission};
use crate::netlink::{Protocol, Socket};
use crate::nfqueue::search::{self, Search};
use crate::nfqueue::{Outcome, QueueSettings, QueueSocket};
use crate::nft::{self, Expression, Family};
use crate::rtnl::sysctl;
use crate::rules::interface_of;
use crate::timing::{self, Priority};

/// Examines the kernel's packet filter and other users of it. `ended` finds out whether the shaper of an interface has ended.
pub(super) fn filter(found: &mut Examination, ended: Option<fn(&str) -> Option<Finding>>) {
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
        if let Some(interface) = interface_of(&name) {
            match ended.and_then(|ended| ended(&interface)) {
                // The tables of both directions may be there.
                Some(finding) if found.findings.contains(&finding) => {}
                Some(finding) => found.findings.push(finding),
                None => found.add(
                    "instance",
                    Severity::Note,
                    format!("another tidegate shapes already: table {} {name}", family.name()),
                    format!(
                        "if it is none of yours, see `tidegate status` and end it; for {interface} a second one is refused"
                    ),
                ),
            }
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
pub(super) fn connections(found: &mut Examination) {
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
pub(super) fn queue(found: &mut Examination) {
    // An unused queue number, far above those of the data path.
    const TRIAL: u16 = 64_999;
    let trial = QueueSocket::open(1 << 20).and_then(|mut socket| socket.bind(TRIAL, &QueueSettings::default()));
    match trial {
        Ok(report) => {
            found.fine("queue", "the kernel has NFQUEUE and lets us use it");
            for (what, outcome, effect) in [
                ("superpackets", &report.gso, "TCP costs more processor"),
                ("fail-open", &report.fail_open, "a hung process would drop packets instead of letting them pass"),
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

/// Examines the cost of a verdict while many packets wait.
pub(super) fn verdicts(found: &mut Examination) {
    let release = search::release();
    match Search::of(&release) {
        Some(Search::Walk) => found.add(
            "verdicts",
            Severity::Note,
            format!(
                "Linux {release} walks through its queue for each packet that leaves out of order: a packet of a fast class costs more time \
                 the more packets wait in slower ones; beyond {} packets in all, classes with more than their part queue no more",
                search::MOST_WALKED
            ),
            "Linux 7.0, or 6.12.107 and later of 6.12",
        ),
        Some(Search::UnsafeHash) => found.add(
            "verdicts",
            Severity::Weakens,
            format!("the packet queue of Linux {release} may use memory after it was freed, which can stop the machine"),
            "update the kernel to 6.18.25 or later",
        ),
        Some(Search::Hash) => found.fine("verdicts", "the kernel finds a packet by a hash, however many wait"),
        None => {}
    }
}

/// Examines what the data path would be granted, on a thread of its own, so that the calling thread does not change.
pub(super) fn scheduling(found: &mut Examination) {
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

pub(super) fn clocks(found: &mut Examination) {
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

//! Why shaping is not in force.

use std::io;

use tidegate_engine::BuildFailure;

use crate::netlink;
use crate::probe::Version;
use crate::rules::{Direction, RulesError};

/// Why shaping is not in force.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Neither the configuration nor the command line names an interface.
    #[error("no interface is named; write `name` under [interface], or give --interface")]
    NoInterface,
    /// The interface does not exist.
    #[error("no interface is called `{name}` here; there are: {}", .known.join(", "))]
    UnknownInterface {
        /// The name that was given.
        name: String,
        /// The interfaces that exist.
        known: Vec<String>,
    },
    /// Packets of the interface belong to interfaces above it.
    #[error(
        "no packet has the interface {interface} here, only what is stacked on it: {above}; shape that: --interface {name}"
    )]
    Below {
        /// The name of the interface.
        interface: String,
        /// The interfaces above it.
        above: String,
        /// The one of them to shape.
        name: String,
    },
    /// The packet filter sees no packets of an interface of this kind.
    #[error("{interface} cannot be shaped: it is a {kind}: {why}; {remedy}")]
    Unseen {
        /// The name of the interface.
        interface: String,
        /// Its kind.
        kind: String,
        /// The reason.
        why: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// A flow table forwards connections past all rules.
    #[error("forwarded packets would pass {interface} unshaped: {offload}; {remedy}")]
    Offloaded {
        /// The name of the interface.
        interface: String,
        /// The rule that puts connections into the flow table.
        offload: String,
        /// The suggested remedy.
        remedy: String,
    },
    /// The program in the kernel does not do what the configuration asks for.
    #[error(
        "the data path in the kernel cannot do this yet: {what}; change that in the file, or leave out --in-kernel and \
         `data-path`"
    )]
    NotInKernel {
        /// The parts of the configuration that the program cannot do.
        what: String,
    },
    /// The kernel does not take the program, or the process may not load it.
    #[error("no data path in the kernel: {0}; leave out --in-kernel and `data-path`, or see `tidegate doctor`")]
    NoKernelProgram(String),
    /// The program is being loaded by another thread.
    #[error("the kernel path is being loaded, which takes some seconds; try again then")]
    KernelLoading,
    /// Somebody has configured a discipline that the data path in the kernel would replace.
    #[error(
        "the root of {interface} is {kind}, which somebody has configured; remove it: tc qdisc del dev {interface} root"
    )]
    RootConfigured {
        /// The name of the interface.
        interface: String,
        /// The kind of the discipline.
        kind: String,
    },
    /// The configuration needs all flows in one thread.
    #[error("this cannot be divided over threads: {0}; remove `threads` from the file")]
    Divided(String),
    /// The engine cannot be built.
    #[error(transparent)]
    Build(#[from] BuildFailure),
    /// The process lacks a privilege.
    #[error("not allowed to {operation}: run as root or with CAP_NET_ADMIN")]
    Permission {
        /// The operation that failed.
        operation: String,
    },
    /// The kernel has no queues for packets.
    #[error("this kernel has no NFQUEUE ({0}); it needs CONFIG_NETFILTER_NETLINK_QUEUE (module nfnetlink_queue)")]
    NoQueue(String),
    /// The rules could not be installed.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The kernel refused something.
    #[error(transparent)]
    Netlink(#[from] netlink::Error),
    /// The operating system refused something.
    #[error("cannot {operation}: {source}")]
    System {
        /// The operation that failed.
        operation: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The rules are installed, but probes do not come through the queue.
    #[error("shaping is NOT in force on {interface}: {}", explain(.failures))]
    Unproven {
        /// The name of the interface.
        interface: String,
        /// The probes that failed.
        failures: Vec<Unproven>,
    },
    /// The configuration cannot be replaced by the other one.
    #[error("{0}")]
    Change(String),
    /// The data path ended before it answered.
    #[error("the data path ended: {0}")]
    DataPath(String),
}

/// A reason for which shaping is not proven.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unproven {
    /// A rule is missing or changed.
    Rule(String),
    /// A queue is not registered with the kernel.
    Queue(u16),
    /// No packet of this protocol that leaves comes through the queue.
    Protocol(Version),
    /// No packet of this protocol that arrives comes through the queue.
    Arrival(Version),
    /// Packets of this class do not come through, though others do.
    Class(String, Version),
    /// Packets of this class come through as another.
    Mistaken(Mistaken),
}

/// Packets of a class that come through as another, because something rewrites them before the queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistaken {
    /// The class that the probes were made for.
    pub class: String,
    /// The class that they were classified into.
    pub taken_for: String,
    /// The protocols of these probes.
    pub versions: Vec<Version>,
    /// Whether they left or arrived.
    pub direction: Direction,
    /// The first rule of either class that asks for what can be rewritten. `None` where none does.
    pub rule: Option<RewritingRule>,
}

/// A rule that has an effect, or none, because packets are rewritten.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RewritingRule {
    /// Its number in the file, from 1.
    pub number: usize,
    /// Its conditions.
    pub matches: String,
    /// The change that it asks for.
    pub rewritten: Rewritten,
    /// Whether it takes packets that it is not for, or misses those that it is for.
    pub effect: Effect,
}

/// The effect of a rule on packets that were rewritten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It takes packets that it is not for.
    Takes,
    /// It misses packets that it is for.
    Misses,
}

/// Fields of a packet that another program can change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rewritten {
    /// The firewall mark.
    Mark,
    /// The code point.
    Dscp,
}

impl StartError {
    /// The note that packets are queued in user space, because of this error.
    pub fn reason(&self) -> String {
        let why = match self {
            Self::KernelLoading => {
                return "the kernel path is being loaded; packets are queued in user space until then".into();
            }
            Self::NotInKernel { what } => format!("the data path in the kernel cannot do this yet: {what}"),
            Self::NoKernelProgram(why) => why.clone(),
            error => error.to_string(),
        };
        format!("packets are queued in user space, where all of this works: {why}")
    }
}

fn explain(failures: &[Unproven]) -> String {
    let text = |failure: &Unproven| match failure {
        Unproven::Rule(difference) => format!("read back, {difference}"),
        Unproven::Queue(queue) => format!("the kernel does not know queue {queue}"),
        Unproven::Protocol(version) => format!(
            "no {version} packet that we sent by it came through the queue; `tidegate doctor` looks for what may take it"
        ),
        Unproven::Arrival(version) => format!(
            "no {version} packet that we had arrive by it came through the queue; `tidegate doctor` looks for what may \
             take it"
        ),
        Unproven::Class(class, version) => format!("{version} packets of class `{class}` do not pass the queue"),
        Unproven::Mistaken(mistaken) => mistaken_text(mistaken),
    };
    failures.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// What is rewritten, by which rule that has an effect, and what to do about it.
fn mistaken_text(mistaken: &Mistaken) -> String {
    let Mistaken { class, taken_for, versions, direction, rule } = mistaken;
    let versions = versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    let way = match direction {
        Direction::Egress => "leave",
        Direction::Ingress => "arrive",
    };
    let what =
        format!("{versions} packets that {way} and belong to class `{class}` come to the queue as class `{taken_for}`");
    let Some(rule) = rule else {
        return format!(
            "{what}: another program rewrites them before the queue; `nft list ruleset`, `iptables-save` and `tc filter show` \
             show which"
        );
    };
    let RewritingRule { number, matches, rewritten, effect } = rule;
    let what_is_set = match rewritten {
        Rewritten::Mark => "mark",
        Rewritten::Dscp => "code point",
    };
    let how = match effect {
        Effect::Takes => format!("by rule {number} ({matches})"),
        Effect::Misses => format!("although rule {number} ({matches}) is for them"),
    };
    format!(
        "{what}, {how}: another program sets their {what_is_set} before the queue; find it with `nft list ruleset` or \
         `iptables-save`, and have it leave these packets alone; or write a rule for class `{class}` before rule {number}, by \
         addresses or ports"
    )
}

pub(super) fn system(operation: &str) -> impl FnOnce(io::Error) -> StartError {
    let operation = operation.into();
    move |source| StartError::System { operation, source }
}

/// Maps an error for lack of a privilege to [`StartError::Permission`].
pub(super) fn permission(error: RulesError) -> StartError {
    match error {
        RulesError::Netlink(error) if is_permission(&error) => {
            StartError::Permission { operation: "install packet filter rules".into() }
        }
        error => error.into(),
    }
}

pub(super) fn is_permission(error: &netlink::Error) -> bool {
    matches!(error.errno(), Some(libc::EPERM | libc::EACCES))
}

pub(super) fn no_queue(error: netlink::Error) -> StartError {
    if is_permission(&error) {
        StartError::Permission { operation: "bind a packet queue".into() }
    } else {
        StartError::NoQueue(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_are_rewritten_are_told_once_with_direction_rule_and_remedy() {
        let mistaken = Mistaken {
            class: "house".into(),
            taken_for: "guests".into(),
            versions: vec![Version::V4, Version::V6],
            direction: Direction::Egress,
            rule: Some(RewritingRule {
                number: 2,
                matches: "mark 0x10/0xff".into(),
                rewritten: Rewritten::Mark,
                effect: Effect::Takes,
            }),
        };
        let text = |mistaken: &Mistaken| {
            let failures = vec![Unproven::Mistaken(mistaken.clone())];
            StartError::Unproven { interface: "wan0".into(), failures }.to_string()
        };
        let said = text(&mistaken);
        assert!(said.contains("IPv4 and IPv6 packets that leave and belong to class `house`"), "{said}");
        assert!(
            said.contains("as class `guests`, by rule 2 (mark 0x10/0xff)") && said.contains("sets their mark"),
            "{said}"
        );
        assert!(said.contains("`nft list ruleset`") && said.contains("before rule 2"), "{said}");
        let unknown = Mistaken { rule: None, direction: Direction::Ingress, versions: vec![Version::V4], ..mistaken };
        assert!(text(&unknown).contains("IPv4 packets that arrive") && text(&unknown).contains("iptables-save"));
    }
}

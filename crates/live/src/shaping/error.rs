//! Why shaping is not in force.

use std::io;

use tidegate_engine::BuildFailure;

use crate::netlink;
use crate::probe::Version;
use crate::rules::RulesError;

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
    Mistaken {
        /// The class that the probe was made for.
        class: String,
        /// The class that it was classified into.
        taken_for: String,
    },
}

impl StartError {
    /// The note that packets are queued in user space, because of this error.
    pub fn reason(&self) -> String {
        let why = match self {
            Self::NotInKernel { what } => format!("what the file asks for is not there yet: {what}"),
            Self::NoKernelProgram(why) => why.clone(),
            error => error.to_string(),
        };
        format!("packets are queued in user space and not in the kernel: {why}")
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
        Unproven::Mistaken { class, taken_for } => {
            format!(
                "packets of class `{class}` arrive as class `{taken_for}`; something rewrites them before the queue"
            )
        }
    };
    failures.iter().map(text).collect::<Vec<_>>().join("; ")
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

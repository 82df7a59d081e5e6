//! Finds what on this machine would keep shaping from working, and suggests remedies.
//!
//! Nothing is changed: trials leave nothing behind.
//!
//! *Cost*: some netlink dumps and small files; milliseconds.

use crate::netlink;

mod ecn;
mod interface;
mod kernel;
mod offload;
mod place;
mod service;
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
    /// The interfaces to shape together; without one that of the default route is looked at.
    pub interfaces: &'a [String],
    /// The MTU that the configuration specifies.
    pub mtu: Option<u32>,
    /// Examines whether the data path can be in the kernel.
    pub offload: Option<fn() -> Finding>,
    /// Looks up what became of the shaper whose rules an interface has; nothing if it is running.
    pub ended: Option<fn(interface: &str) -> Option<Finding>>,
}

/// Examines the machine, in the network namespace of the calling thread.
pub fn examine(subject: Subject<'_>) -> Examination {
    let mut found = Examination::default();
    kernel::filter(&mut found, subject.ended);
    kernel::connections(&mut found);
    kernel::queue(&mut found);
    kernel::verdicts(&mut found);
    found.findings.extend(subject.offload.map(|examine| examine()));
    kernel::scheduling(&mut found);
    kernel::clocks(&mut found);
    let first = subject.interfaces.first().map(String::as_str);
    let uplink = place::place(&mut found, first);
    match (subject.interfaces, &uplink) {
        ([], Some(name)) => {
            let text = format!("none was named; {name} is looked at, by which the default route leaves");
            found.add("interface", Severity::Note, text, "");
            interface::interface(&mut found, name, subject.mtu);
        }
        ([], None) => found.add(
            "interface",
            Severity::Note,
            "no interface was named, so none was looked at",
            "name one: tidegate doctor --interface eth0",
        ),
        (names, _) => names.iter().for_each(|name| interface::interface(&mut found, name, subject.mtu)),
    }
    let name = first.or(uplink.as_deref());
    interface::forwarding(&mut found, name);
    service::service(&mut found, name);
    ecn::ecn(&mut found, name);
    found
}

fn is_permission(error: &netlink::Error) -> bool {
    matches!(error.errno(), Some(libc::EPERM | libc::EACCES))
}

//! Classes of flows, of a shaper file and of the discipline `fbq`: their sections, and what these are resolved to.

pub mod file;
mod parameters;
mod resolve;

use std::fmt;

use tidegate_core::{Bytes, ClassId, Dscp, Rate, Span};

use crate::discipline::Discipline;
use crate::values::{Mark, Percent, Ports, Prefix, Protocol, User, dscp_name};

pub use file::{Bursts, FairBy, FlowBy, Sharing};
pub(crate) use parameters::profiles;
pub(crate) use resolve::{lookup, resolve};

/// An FBC: classes under one total.
#[derive(Clone, Debug)]
pub struct Shaper {
    /// The total that is never exceeded.
    pub rate: Rate,
    /// What may leave at once over all classes.
    pub burst: Bytes,
    /// Whose packets are one flow.
    pub flow_by: FlowBy,
    /// What shares a class equally. [`FairBy::Host`] is resolved to one of the two addresses.
    pub fair_by: FairBy,
    /// A flow without packets for so long is over.
    pub idle_timeout: Span,
    /// How many flows are distinguished at once.
    pub flows: u32,
    /// The classes in the order of the file; [`ClassId`] `i` is the `i`-th.
    pub classes: Vec<Class>,
}

/// The addresses of a packet by which flows are divided over threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DividedBy {
    /// The source address.
    Source,
    /// The destination address.
    Destination,
    /// Both addresses.
    HostPair,
}

impl Shaper {
    /// The addresses that all packets of a flow, and where hosts share a class all packets of a host, have in common; `None`
    /// where a flow may have any.
    pub fn divided_by(&self) -> Option<DividedBy> {
        match (self.fair_by, self.flow_by) {
            (_, FlowBy::User | FlowBy::ControlGroup | FlowBy::Dscp | FlowBy::Mark) => None,
            (FairBy::Host | FairBy::Source, FlowBy::Destination)
            | (FairBy::Destination, FlowBy::Source | FlowBy::Socket) => None,
            (FairBy::Host | FairBy::Source, _) | (FairBy::Flow, FlowBy::Source | FlowBy::Socket) => {
                Some(DividedBy::Source)
            }
            (FairBy::Destination, _) | (FairBy::Flow, FlowBy::Destination) => Some(DividedBy::Destination),
            (FairBy::Flow, FlowBy::FiveTuple | FlowBy::HostPair) => Some(DividedBy::HostPair),
        }
    }
}

/// A class: an FBQ, or a discipline behind a bucket.
#[derive(Clone, Debug)]
pub struct Class {
    /// By which rules, calls and counters name it; unique in the file.
    pub name: String,
    /// The rate that the class is allocated.
    pub rate: Rate,
    /// TB(q), what the class may send at once.
    pub burst: Bytes,
    /// TB(f), what one flow may send at once.
    pub flow_burst: Bytes,
    /// Smaller is asked first.
    pub priority: u8,
    /// The code point written on its packets; `None`: they keep theirs.
    pub dscp: Option<Dscp>,
    /// Whether the bucket of the class is in force.
    pub bursts: Bursts,
    /// What becomes of a share that its flow does not use.
    pub share: Sharing,
    /// Whether it uses what other classes leave.
    pub borrow: Borrow,
    /// Bytes that may wait in it.
    pub limit: Bytes,
    /// Bytes of one flow that may wait in it.
    pub flow_limit: Bytes,
    /// `incr`: what a preference adds to the share of a flow.
    pub increment: Percent,
    /// When the owner of a flow is notified that its queue fills.
    pub feedback: Option<Feedback>,
    /// A discipline in the place of the queues per flow.
    pub queue: Option<Discipline>,
}

/// Whether a class uses what other classes leave of the total.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Borrow {
    /// The class borrows.
    Allowed,
    /// The class keeps to its own rate.
    Never,
}

/// When the owner of a flow is notified that its queue fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// Fill of the queue of the flow above which it is notified.
    pub above: Percent,
    /// Fill below which it is notified that there is space again.
    pub below: Percent,
    /// Whether packets are marked as well.
    pub ecn: EcnFeedback,
}

/// Whether feedback marks packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EcnFeedback {
    /// ECN-capable packets of a flow above its threshold are marked.
    Mark,
    /// The owner receives events only.
    Off,
}

/// Which packets go to a class, and what their flows are promised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Its name, where the file has one.
    pub name: Option<String>,
    /// Where packets that match go.
    pub class: ClassId,
    /// The conditions on a packet.
    pub matches: Match,
    /// How much each flow gets beside flows of weight 1; at least 1.
    pub weight: u32,
    /// dmin(f): what each flow is promised.
    pub minimum: Rate,
    /// For how many flows the minimum fits.
    pub flows: u32,
    /// Where a flow goes when its share has fallen too low.
    pub displace: Option<Displace>,
}

/// What a packet must be: an empty list matches all, else one of the list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Match {
    /// Code points.
    pub dscps: Vec<Dscp>,
    /// Protocol numbers above IP; any of them matches, and all protocols if there are none.
    pub protocols: Vec<Protocol>,
    /// Sending addresses.
    pub sources: Vec<Prefix>,
    /// Receiving addresses.
    pub destinations: Vec<Prefix>,
    /// Sending ports.
    pub source_ports: Vec<Ports>,
    /// Receiving ports.
    pub destination_ports: Vec<Ports>,
    /// Firewall marks.
    pub marks: Vec<Mark>,
    /// Owners of the sending socket.
    pub users: Vec<User>,
    /// Control groups of the sending socket, without the leading slash.
    pub cgroups: Vec<String>,
}

impl Rule {
    /// Its name, else what it matches.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.matches.to_string())
    }
}

impl Match {
    /// Whether it matches every packet.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = [
            ("dscp", self.dscps.iter().copied().map(dscp_name).collect::<Vec<_>>()),
            ("protocol", texts(&self.protocols)),
            ("source", texts(&self.sources)),
            ("source-port", texts(&self.source_ports)),
            ("destination", texts(&self.destinations)),
            ("destination-port", texts(&self.destination_ports)),
            ("mark", texts(&self.marks)),
            ("uid", texts(&self.users)),
            ("cgroup", texts(&self.cgroups)),
        ];
        let parts: Vec<String> = listed
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(key, values)| format!("{key} {}", values.join(",")))
            .collect();
        f.write_str(if parts.is_empty() { "everything" } else { "" })?;
        f.write_str(&parts.join(" "))
    }
}

fn texts<T: ToString>(list: &[T]) -> Vec<String> {
    list.iter().map(T::to_string).collect()
}

/// Where a flow goes when its share has fallen too low.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Displace {
    /// thres(f): the share, as a rate, below which it goes.
    pub below: Rate,
    /// The class it goes to.
    pub to: ClassId,
}

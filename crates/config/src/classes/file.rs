//! The sections of classes and of what they share, as they are written.

use tidegate_core::{Bytes, Rate, Span};

use crate::decode::Spanned;
use crate::values::Percent;

crate::choices! {
    /// Whose packets are one flow.
    pub enum FlowBy as "kind of flow" {
        /// Protocol, addresses and ports.
        FiveTuple = "5-tuple",
        /// The two addresses.
        HostPair = "host-pair",
        /// The sending address.
        Source = "source",
        /// The receiving address.
        Destination = "destination",
        /// Protocol, sending address and port: the sending socket, whatever it sends to.
        Socket = "socket",
        /// The owner of the sending socket; what has none is one flow.
        User = "uid",
        /// The control group of the sending socket; what has none is one flow.
        ControlGroup = "cgroup",
        /// The code point as it arrives.
        Dscp = "dscp",
        /// The firewall mark.
        Mark = "mark",
    }
}

crate::choices! {
    /// What shares a class equally.
    pub enum FairBy as "kind of fairness" {
        /// Flows.
        Flow = "flow",
        /// Hosts on this side of the interface, and in each its flows: what leaves goes by the sending address, what
        /// arrives by the receiving one.
        Host = "host",
        /// Sending hosts, and in each its flows.
        Source = "source",
        /// Receiving hosts, and in each its flows.
        Destination = "destination",
    }
}

crate::record! {
    /// What the classes share: the total, and what a flow is.
    pub struct ShaperSection as "shaper" {
        /// The total that is never exceeded. Default: the sum of the rates of the classes.
        pub rate: Option<Spanned<Rate>>,
        /// What may leave at once over all classes. Default: 1 ms at the total rate, at least two of the largest
        /// packets: short enough for a neighbour's jitter, long enough for a timer's lateness.
        pub burst: Option<Spanned<Bytes>>,
        /// Whose packets are one flow, within a class. Default 5-tuple, a connection.
        pub flow_by: Spanned<FlowBy> = "5-tuple",
        /// What shares a class equally, in rate and in buffer. Default flow: a host has as many shares as connections.
        /// With host it has one, whatever it opens, and its connections share that; weights and preferences then act
        /// among the flows of a host. Addresses are those behind address translation by this machine.
        pub fair_by: Spanned<FairBy> = "flow",
        /// A flow without packets for so long is over, and its share goes back. Default 10 s: longer than the
        /// pauses of interactive use, shorter than the time in which ports are used again.
        pub idle_timeout: Spanned<Span> = "10s",
        /// How many flows are remembered at once, over all classes; beyond that the one that has been idle for
        /// longest is forgotten first. Default 65536: more than a host has, and 26 MB when all are there.
        pub flows: Spanned<u32> = 65536,
    }
}

crate::choices! {
    /// What the bucket of a whole class bounds.
    pub enum Bursts as "kind of bursts" {
        /// The class as a whole never sends more than `burst` at once: what a Premium Service polices.
        Strict = "strict",
        /// Each flow is bounded by `flow-burst`, the class only by 64 of them: an Assured Service takes small bursts.
        Loose = "loose",
    }
}

crate::choices! {
    /// What becomes of a share that its flow does not use.
    pub enum Sharing as "kind of sharing" {
        /// The other flows of the class use it, in proportion to their shares.
        WorkConserving = "work-conserving",
        /// It stays unused: a flow never gets more than its share, as in the paper.
        Strict = "strict",
    }
}

crate::record! {
    /// When the owner of a flow is notified that its queue fills.
    pub struct FeedbackSection as "feedback" {
        /// Fill of the queue of the flow above which it is notified. Default 75%.
        pub above: Spanned<Percent> = "75%",
        /// Fill below which it is notified that there is space again. Default 25%: far from `above`, so that a queue
        /// that hovers does not chatter.
        pub below: Spanned<Percent> = "25%",
        /// Whether packets of ECN-capable flows are marked while above. Default false: an event only.
        pub ecn: bool = false,
    }
}

crate::record! {
    /// Where a flow goes when its share has fallen too low; it returns when the share suffices again.
    pub struct DisplaceSection as "displace" {
        /// The share, as a rate, below which it goes. Above `minimum`.
        pub below: Spanned<Rate>,
        /// The class it goes to.
        pub to: Spanned<String>,
    }
}

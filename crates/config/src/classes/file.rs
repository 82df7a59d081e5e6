//! The sections of classes, and of the settings that classes share.

use tidegate_core::{Bytes, Rate, Span};

use crate::decode::{Many, Spanned};
use crate::values::{Percent, Prefix};

crate::choices! {
    /// Which packets form one flow.
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
        /// The owner of the sending socket; packets without one form one flow.
        User = "uid",
        /// The control group of the sending socket; packets without one form one flow.
        ControlGroup = "cgroup",
        /// The code point as it arrives.
        Dscp = "dscp",
        /// The firewall mark.
        Mark = "mark",
    }
}

crate::choices! {
    /// Who shares a class equally.
    pub enum FairBy as "kind of fairness" {
        /// Flows.
        Flow = "flow",
        /// Hosts on this side of the interface, and among the flows of each: the source address counts for egress, the
        /// destination address for ingress.
        Host = "host",
        /// Sending hosts, and among the flows of each.
        Source = "source",
        /// Receiving hosts, and among the flows of each.
        Destination = "destination",
    }
}

crate::record! {
    /// The settings of all classes together: the total rate, and the definition of a flow.
    pub struct ShaperSection as "shaper" {
        /// The total rate, which is never exceeded. Default: the sum of the rates of the classes.
        pub rate: Option<Spanned<Rate>>,
        /// The burst of all classes together. Default: 1 ms at the total rate, at least two packets of the largest
        /// size: short enough not to add jitter for others, long enough to absorb late timers.
        pub burst: Option<Spanned<Bytes>>,
        /// Which packets form one flow within a class. Default 5-tuple, a connection.
        pub flow_by: Spanned<FlowBy> = "5-tuple",
        /// Who shares the rate and the buffer of a class equally. Default flow: a host has as many shares as
        /// connections. With host it has one share, however many connections it opens, and these divide it; weights and
        /// preferences then apply among the flows of a host. If this machine translates addresses, the addresses behind
        /// the translation count.
        pub fair_by: Spanned<FairBy> = "flow",
        /// A flow that sends nothing for this long has ended, and its share is released. Default 10 s: longer than the
        /// pauses of interactive use, shorter than the time after which ports are reused.
        pub idle_timeout: Spanned<Span> = "10s",
        /// The largest number of flows in the table, over all classes. When it is full, the flow that has been idle for
        /// longest is evicted. Default 65536: more than a host has, and 26 MB if all are in use.
        pub flows: Spanned<u32> = 65536,
        /// Follows a line whose rate varies (mobile, satellite, cable): `rate` is then the base, to which it returns. Classes
        /// keep their shares of the rate. Default: the rate is constant.
        pub follow: Option<Spanned<FollowSection>>,
    }
}

crate::record! {
    /// The bounds between which the rate of a shaper follows the line. The rate falls when round trips through the line show a
    /// queue, and rises while it is used up and there is none.
    pub struct FollowSection as "line that varies" {
        /// The rate is never lower: what the line carries at its worst.
        pub from: Spanned<Rate>,
        /// The rate is never higher: what the line carries at its best.
        pub to: Spanned<Rate>,
        /// Addresses of hosts beyond the line that may be probed with ICMP echo, at most 8. They are probed only while the
        /// rate is used up and passing traffic shows no round trips, with at most 0.1 % of the rate. Default none: passing
        /// traffic alone.
        pub peers: Many<Spanned<Prefix>>,
    }
}

crate::choices! {
    /// Whether the token bucket bounds a whole class.
    pub enum Bursts as "kind of bursts" {
        /// The class as a whole never sends more than `burst` at once, as a Premium Service polices it.
        Strict = "strict",
        /// Each flow is bounded by `flow-burst`, and the class by 64 times that: an Assured Service accepts small
        /// bursts.
        Loose = "loose",
    }
}

crate::choices! {
    /// Who gets the share that a flow leaves unused.
    pub enum Sharing as "kind of sharing" {
        /// The other flows of the class use it, in proportion to their shares.
        WorkConserving = "work-conserving",
        /// Nobody: a flow never gets more than its share, as in the paper. With `borrow = true` that is its share of what
        /// the class has at the time, the rate that other classes leave included.
        Strict = "strict",
    }
}

crate::choices! {
    /// The rate that the shaper advises to flows of QUIC that ask for it.
    pub enum Advice as "kind of rate advice" {
        /// No rate is advised.
        None = "none",
        /// The most that the class may send: its rate, or with `borrow` the total.
        Ceiling = "ceiling",
        /// The share of the flow among those that its class has now.
        FairShare = "fair-share",
        /// The minimum that the flow is granted; nothing to flows without one.
        Promise = "promise",
    }
}

crate::record! {
    /// When to notify the owner of a flow that its queue is filling up.
    pub struct FeedbackSection as "feedback" {
        /// The fill level of the flow's queue above which the owner is notified. Default 75%.
        pub above: Spanned<Percent> = "75%",
        /// The fill level below which the owner is notified that there is space again. Default 25%: far from `above`,
        /// so that small changes cause no notifications.
        pub below: Spanned<Percent> = "25%",
        /// Whether packets of ECN-capable flows are marked while the queue is above the threshold. Default false: only
        /// an event is sent.
        pub ecn: bool = false,
    }
}

crate::record! {
    /// The class to which a flow moves when its share falls too low. The flow returns when the share suffices again.
    pub struct DisplaceSection as "displace" {
        /// The share, as a rate, below which the flow moves. Must be above `minimum`.
        pub below: Spanned<Rate>,
        /// The class to which the flow moves.
        pub to: Spanned<String>,
    }
}

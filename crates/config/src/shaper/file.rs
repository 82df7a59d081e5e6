//! The sections of a shaper file, as they are written.

use tidegate_core::{Bytes, Dscp, Rate, Span};

use super::control::ControlSection;
use super::metrics::MetricsSection;
use crate::decode::{Many, Spanned};
use crate::discipline::Discipline;
use crate::values::{Mark, Percent, Ports, Prefix, Protocol, User};

crate::record! {
    /// A shaper file of Tidegate: either a `shaper` with classes, or one `discipline` of any kind.
    pub struct File as "shaper file" {
        /// The version of the language: 1.
        pub version: Spanned<u32>,
        /// Where the traffic leaves or arrives.
        pub interface: Option<Spanned<InterfaceSection>>,
        /// What the classes share. Default: all its defaults.
        pub shaper: Option<Spanned<ShaperSection>>,
        /// The classes, asked in the order of their priorities, then of the file.
        pub class: Vec<Spanned<ClassSection>>,
        /// Instead of `shaper` and `class`: any discipline on the whole interface.
        pub discipline: Option<Spanned<Discipline>>,
        /// The class of `discipline` for packets that no rule matches. Default: the `default` of the discipline, else its
        /// first. Classes of a `shaper` state `default = true` themselves.
        pub default_class: Option<Spanned<String>>,
        /// Which packets go where. The first that matches wins.
        pub rule: Vec<Spanned<RuleSection>>,
        /// What leaves, where a file shapes both directions: `[up.shaper]`, `[[up.class]]`, `[up.discipline]` and so on.
        /// Default: the file is for one direction, and these are at the top level.
        pub up: Option<Spanned<ShapedDirection>>,
        /// What arrives, likewise.
        pub down: Option<Spanned<ShapedDirection>>,
        /// The extent of the statistics. Default: all its defaults.
        pub statistics: Option<StatisticsSection>,
        /// Who may do what over the control socket. Default: every user may read, root may do everything.
        pub control: Option<ControlSection>,
        /// Where metrics and a web page are served. Default: nowhere.
        pub metrics: Option<MetricsSection>,
    }
}

crate::record! {
    /// One direction of a file that shapes both.
    pub struct ShapedDirection as "table of a direction" {
        /// What the classes share. Default: all its defaults.
        pub shaper: Option<Spanned<ShaperSection>>,
        /// The classes, asked in the order of their priorities, then of the file.
        pub class: Vec<Spanned<ClassSection>>,
        /// Instead of `shaper` and `class`: any discipline on the whole direction.
        pub discipline: Option<Spanned<Discipline>>,
        /// The class of `discipline` for packets that no rule matches. Default: the `default` of the discipline, else its
        /// first.
        pub default_class: Option<Spanned<String>>,
        /// Which packets go where. The first that matches wins.
        pub rule: Vec<Spanned<RuleSection>>,
    }
}

crate::choices! {
    /// What is counted, beside packets and bytes.
    pub enum Detail as "detail" {
        /// Of each flow: rate, delays, jitter, drops by reason, marks, promises; and all that is counted of classes.
        Flows = "flows",
        /// Of each class: rate, delays and promises.
        Classes = "classes",
        /// Nothing: the accounts of the classes only.
        Off = "off",
    }
}

crate::record! {
    /// What is counted, for display in `tidegate top`, the metrics and the web page.
    pub struct StatisticsSection as "statistics" {
        /// What is counted. Default flows: some tens of nanoseconds a packet, and some hundreds with thousands of flows
        /// in turn.
        pub detail: Detail = "flows",
        /// The most flows that are remembered; then the least busy are evicted and counted. Default
        /// 16384, which is 5 to 10 MB when all are there.
        pub flows: Spanned<u32> = 16384,
        /// A flow without packets for so long is forgotten. Default 60 s: long enough to be looked at when it is over.
        pub idle: Spanned<Span> = "60s",
        /// Whether the resolver of the system is asked for the names of hosts that no lease and no file has. Default false:
        /// whoever answers for the resolver would learn which hosts are there.
        pub reverse_lookup: bool = false,
    }
}

crate::choices! {
    /// Which of the two ways through an interface is shaped.
    pub enum Direction as "direction" {
        /// What leaves by it: the host's own traffic and what it forwards.
        Egress = "egress",
        /// What arrives by it: for the host and for those behind it.
        Ingress = "ingress",
    }
}

crate::choices! {
    /// Where packets are queued.
    pub enum DataPath as "data path" {
        /// In tidegate: everything that a file can ask for.
        UserSpace = "user-space",
        /// In the kernel (Linux 6.16 and later), for less processor time: `fifo`, `codel`, `red`, `ared`, `pie`, `drr`, `sfq`
        /// or `fq-codel` on the whole interface, or one class at a rate with a `fifo` as its `queue`. Another file is
        /// refused with what it asks for.
        Kernel = "kernel",
        /// In the kernel where it has that and can do what the file asks for, otherwise in tidegate; the reason is printed.
        Auto = "auto",
    }
}

crate::choices! {
    /// What becomes of a data path in the kernel when tidegate ends without ending it.
    pub enum Unattended as "behaviour without tidegate" {
        /// The kernel goes on shaping as it was last configured; the next run takes over.
        Keep = "keep",
        /// Packets pass unshaped after 5 s, as without tidegate.
        Pass = "pass",
    }
}

crate::record! {
    /// The interface, or interfaces, whose traffic, the host's own and the forwarded, is shaped.
    pub struct InterfaceSection as "interface" {
        /// Its name; or a list of names, whose traffic shares the rates and the classes: two VLANs under the rate of one
        /// uplink. Default: none, and the command line must name it; so one file serves many hosts.
        pub name: Many<Spanned<String>>,
        /// What leaves by it or what arrives by it. Default egress: what leaves can be held back exactly, while what
        /// arrives has used the line already, so that its rates must stay below the line's.
        pub direction: Spanned<Direction> = "egress",
        /// The largest packet, which bursts must hold. Default 1500 B, Ethernet.
        pub mtu: Spanned<Bytes> = "1500B",
        /// What the link adds to each packet, counted in all rates (Ethernet with preamble and gap: 38 B).
        /// Default none: rates are those of IP packets, as in `tc`'s `fq` and in agreements on IP level.
        pub overhead: Spanned<Bytes> = "0B",
        /// Where packets are queued. Default user-space, which does everything; `tidegate doctor` shows whether this
        /// machine's kernel can.
        pub data_path: DataPath = "user-space",
        /// What becomes of a data path in the kernel when tidegate ends without ending it, as a fault. Default keep: a link
        /// that must not be overloaded is not.
        pub unattended: Unattended = "keep",
        /// How many threads share the work, at most 16: flows are divided by a hash of their addresses, with `fair-by` of those
        /// of the hosts, and the rates are those of all together. Default 1, which keeps every limit of a queue exact and
        /// suffices for some hundred thousand packets a second.
        pub threads: Spanned<u32> = 1,
    }
}

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
    /// A class: a rate, and the flows that share it.
    pub struct ClassSection as "class" {
        /// By which rules and `tidegate status` name it; unique in the file.
        pub name: Spanned<String>,
        /// The rate that the class is allocated.
        pub rate: Spanned<Rate>,
        /// What the class may send at once. Default: 1 ms at its rate, at least two of the largest packets.
        pub burst: Option<Spanned<Bytes>>,
        /// What a flow that was silent may send at once. Default: the same as `burst`.
        pub flow_burst: Option<Spanned<Bytes>>,
        /// Classes with a smaller number are asked first. Default 1, so that 0 is free for a premium class.
        pub priority: Spanned<u8> = 1,
        /// The code point written on its packets. Default: they keep theirs.
        pub dscp: Option<Dscp>,
        /// What the bucket of the class bounds. Default strict: a network that polices drops what exceeds it.
        pub bursts: Bursts = "strict",
        /// What becomes of a share that its flow does not use. Default work-conserving: no capacity is left idle.
        pub share: Spanned<Sharing> = "work-conserving",
        /// Whether it may use what other classes leave of the total. Default true, no capacity is left idle; false with
        /// strict sharing, where no flow gets more than its share. Set it to false where a network polices the class.
        pub borrow: Option<Spanned<bool>>,
        /// Bytes that may wait in it. Default: 200 ms at its rate, at least 64 of the largest packets.
        pub limit: Option<Spanned<Bytes>>,
        /// Bytes of one flow that may wait in it. Default: half of `limit`, so that one flow cannot fill it.
        pub flow_limit: Option<Spanned<Bytes>>,
        /// What a preference adds to the share of a flow. Default 10%: felt at once, and ten steps go from nothing
        /// to everything.
        pub increment: Percent = "10%",
        /// When the owner of a flow is notified that its queue fills. Default: never.
        pub feedback: Option<FeedbackSection>,
        /// Any discipline instead of one queue per flow, behind the bucket of the class. What belongs to flows
        /// (`flow-burst`, `flow-limit`, `feedback`, minimum rates) then does not apply. Default: none.
        pub queue: Option<Spanned<Discipline>>,
        /// Whether packets that no rule matches go here. Exactly one class has it. Default false.
        pub default: Option<Spanned<bool>>,
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
    /// Which packets go to a class, and what their flows are promised. All keys that are there must match; of a
    /// list, one of it.
    pub struct RuleSection as "rule" {
        /// Its name. Default: what it matches.
        pub name: Option<Spanned<String>>,
        /// The class (of a `discipline`: its class) they go to.
        pub class: Spanned<String>,
        /// Code points.
        pub dscp: Many<Dscp>,
        /// Protocols above IP, by name or number; any of them matches.
        pub protocol: Many<Spanned<Protocol>>,
        /// Sending addresses.
        pub source: Many<Spanned<Prefix>>,
        /// Receiving addresses.
        pub destination: Many<Spanned<Prefix>>,
        /// Sending ports.
        pub source_port: Many<Spanned<Ports>>,
        /// Receiving ports.
        pub destination_port: Many<Spanned<Ports>>,
        /// Firewall marks.
        pub mark: Many<Mark>,
        /// Owners of the sending socket; forwarded packets have none, and nothing that arrives has.
        pub uid: Many<User>,
        /// Control groups of the sending socket, with all below them; forwarded packets have none, and nothing that
        /// arrives has.
        pub cgroup: Many<Spanned<String>>,
        /// How much of the class each flow gets beside flows of weight 1. Default 1.
        pub weight: Spanned<u32> = 1,
        /// What each flow is promised at least. Default: nothing.
        pub minimum: Option<Spanned<Rate>>,
        /// For how many flows `minimum` must fit into the class. Default 1: later flows may find it full, are
        /// taken with rate 0, and get theirs as soon as another flow ends.
        pub flows: Option<Spanned<u32>>,
        /// Where a flow goes when its share has fallen too low. Default: it stays.
        pub displace: Option<DisplaceSection>,
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

//! The sections of a shaper file, as they are written.

use tidegate_core::{Bytes, Dscp, Rate, Span};

use super::control::ControlSection;
use super::metrics::MetricsSection;
pub use crate::classes::file::{DisplaceSection, FeedbackSection, ShaperSection};
use crate::decode::{Many, Spanned};
pub use crate::discipline::ClassSection;
use crate::discipline::Discipline;
use crate::values::{Mark, Ports, Prefix, Protocol, User};

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
        /// In the kernel (Linux 6.16 and later), for less processor time. It has classes with rates, priorities, borrowing and
        /// limits, rules, promised minimums, and `fifo`, `codel`, `red`, `ared`, `mered`, `pie`, `drr`, `sfq` and `fq-codel` on
        /// the whole interface, without ECN. A file that asks for more is refused, and the error names what.
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

//! The sections of a shaper file, as they are written.

use tidegate_core::{Bytes, Dscp, Rate, Span};

use super::control::ControlSection;
use super::metrics::MetricsSection;
pub use crate::classes::file::{DisplaceSection, FeedbackSection, ShaperSection};
use crate::decode::{Many, Spanned};
pub use crate::discipline::ClassSection;
use crate::discipline::Discipline;
use crate::values::{
    DnsName, HostName, Lengths, Mac, Mark, MessageType, Ports, Prefix, Protocol, Quota, TcpFlags, Times, User,
};

crate::record! {
    /// A shaper file of Tidegate: either a `shaper` with classes, or one `discipline` of any kind.
    pub struct File as "shaper file" {
        /// The version of the language: 1.
        pub version: Spanned<u32>,
        /// Where the traffic leaves or arrives.
        pub interface: Option<Spanned<InterfaceSection>>,
        /// The settings of all classes together. Default: the defaults of the section.
        pub shaper: Option<Spanned<ShaperSection>>,
        /// The classes, served in the order of their priorities, then of the file.
        pub class: Vec<Spanned<ClassSection>>,
        /// Instead of `shaper` and `class`: any discipline on the whole interface.
        pub discipline: Option<Spanned<Discipline>>,
        /// The class of `discipline` for packets that no rule matches. Default: the `default` of the discipline, else its
        /// first. Classes of a `shaper` state `default = true` themselves.
        pub default_class: Option<Spanned<String>>,
        /// Rules that assign packets to classes. The first that matches applies. In a file that shapes both directions these
        /// are for both, and are tried in the order of the file with those of `up` and of `down`.
        pub rule: Vec<Spanned<RuleSection>>,
        /// The egress direction of a file that shapes both: `[up.shaper]`, `[[up.class]]`, `[up.discipline]` and so on.
        /// Default: the file is for one direction, and these tables are at the top level.
        pub up: Option<Spanned<ShapedDirection>>,
        /// The ingress direction, likewise.
        pub down: Option<Spanned<ShapedDirection>>,
        /// The extent of the statistics. Default: the defaults of the section.
        pub statistics: Option<StatisticsSection>,
        /// Permissions on the control socket. Default: every user may read, root may do everything.
        pub control: Option<ControlSection>,
        /// Where metrics and a web page are served. Default: nowhere.
        pub metrics: Option<MetricsSection>,
    }
}

crate::record! {
    /// One direction of a file that shapes both.
    pub struct ShapedDirection as "table of a direction" {
        /// The settings of all classes together. Default: the defaults of the section.
        pub shaper: Option<Spanned<ShaperSection>>,
        /// The classes, served in the order of their priorities, then of the file.
        pub class: Vec<Spanned<ClassSection>>,
        /// Instead of `shaper` and `class`: any discipline on the whole direction.
        pub discipline: Option<Spanned<Discipline>>,
        /// The class of `discipline` for packets that no rule matches. Default: the `default` of the discipline, else its
        /// first.
        pub default_class: Option<Spanned<String>>,
        /// Rules that assign packets to classes. The first that matches applies.
        pub rule: Vec<Spanned<RuleSection>>,
    }
}

crate::choices! {
    /// The measurements besides packets and bytes.
    pub enum Detail as "detail" {
        /// For each flow: rate, delays, jitter, drops by reason, marks and promises; and everything that is measured
        /// for classes.
        Flows = "flows",
        /// For each class: rate, delays and promises.
        Classes = "classes",
        /// Nothing: classes count packets and bytes only.
        Off = "off",
    }
}

crate::record! {
    /// The statistics that `tidegate top`, the metrics and the web page display.
    pub struct StatisticsSection as "statistics" {
        /// The level of detail. Default flows: it costs some tens of nanoseconds per packet, and some hundreds with
        /// thousands of alternating flows.
        pub detail: Detail = "flows",
        /// The largest number of flows in the table; beyond that the least busy are evicted and counted. Default 16384,
        /// which takes 5 to 10 MB if all are in use.
        pub flows: Spanned<u32> = 16384,
        /// A flow that sends nothing for this long is forgotten. Default 60 s: long enough to look at a flow that has
        /// ended.
        pub idle: Spanned<Span> = "60s",
        /// Whether the system's resolver is asked for the names of hosts that no lease and no file contains. Default
        /// false, because the operator of the resolver would learn which hosts are there.
        pub reverse_lookup: bool = false,
    }
}

crate::choices! {
    /// The direction of an interface that is shaped.
    pub enum Direction as "direction" {
        /// Traffic that leaves through the interface: the host's own and forwarded traffic.
        Egress = "egress",
        /// Traffic that arrives through the interface, for the host and for hosts behind it.
        Ingress = "ingress",
    }
}

impl Direction {
    /// The name of the table of a file that is for this direction, by which commands and replies name it as well.
    pub const fn table(self) -> &'static str {
        match self {
            Self::Egress => "up",
            Self::Ingress => "down",
        }
    }
    /// The other direction.
    pub const fn other(self) -> Self {
        match self {
            Self::Egress => Self::Ingress,
            Self::Ingress => Self::Egress,
        }
    }
}

crate::choices! {
    /// Where packets are queued.
    pub enum DataPath as "data path" {
        /// In tidegate, which supports everything that a file can ask for.
        UserSpace = "user-space",
        /// In the kernel (Linux 6.16 and later), for less processor time. It has classes with rates, priorities, borrowing and
        /// limits, rules, promised minimums, code points, and `fifo`, `codel`, `red`, `ared`, `mered`, `pie`, `drr`, `sfq` and
        /// `fq-codel` on the whole interface. A file that asks for more is refused, and the error names what.
        Kernel = "kernel",
        /// In the kernel if it supports that and everything in the file, and a superpacket takes at most 10 ms there; otherwise in
        /// tidegate, as with `run --hand-over`. The reason is printed.
        Auto = "auto",
    }
}

crate::choices! {
    /// The fate of a data path in the kernel if tidegate terminates without removing it.
    pub enum Unattended as "behaviour without tidegate" {
        /// The kernel goes on shaping as it was last configured; the next run takes over.
        Keep = "keep",
        /// Packets pass unshaped after 5 s, as without tidegate.
        Pass = "pass",
    }
}

crate::record! {
    /// The interfaces whose traffic, the host's own and forwarded, is shaped.
    pub struct InterfaceSection as "interface" {
        /// Its name; or a list of names, whose traffic shares the rates and the classes: two VLANs under the rate of one
        /// uplink. Default: none, and the command line must name it; so one file serves many hosts.
        pub name: Many<Spanned<String>>,
        /// The direction. Default egress, which can be held back exactly. Ingress traffic has already used the line, so
        /// its rates must be below the rate of the line.
        pub direction: Spanned<Direction> = "egress",
        /// The size of the largest packet; bursts must be at least as large. Default 1500 B, Ethernet.
        pub mtu: Spanned<Bytes> = "1500B",
        /// The per-packet overhead of the link, which counts in all rates (38 B for Ethernet with preamble and gap).
        /// Default 0: rates are those of IP packets, as in `tc`'s `fq` and in agreements at the IP level.
        pub overhead: Spanned<Bytes> = "0B",
        /// Where packets are queued. Default auto: in the kernel, for less processor time, where machine and file allow it, otherwise
        /// in user space, which does everything that a file can ask for; `tidegate run` prints the reason. `tidegate check` shows what
        /// a file asks for that the kernel does not do, `tidegate doctor` whether this machine's kernel can.
        pub data_path: DataPath = "auto",
        /// The fate of a data path in the kernel if tidegate terminates by a fault. Default keep: a link that must not
        /// be overloaded stays protected.
        pub unattended: Unattended = "keep",
        /// How many threads share the work, at most 16: flows are divided by a hash of their addresses, with `fair-by` of those
        /// of the hosts, and the rates are those of all together. In the kernel it is up to how many queues of the card have a discipline each.
        /// Default 1, which keeps every limit of a queue exact and suffices for some hundred thousand packets a second.
        pub threads: Spanned<u32> = 1,
    }
}

crate::record! {
    /// Assigns packets to a class, and makes promises to their flows. A packet matches if it matches all keys that are
    /// given; in a list, one element.
    pub struct RuleSection as "rule" {
        /// The name of the rule. Default: its conditions.
        pub name: Option<Spanned<String>>,
        /// The class of packets that match: one of the shaper, or of the `discipline`.
        pub class: Spanned<String>,
        /// Code points.
        pub dscp: Many<Dscp>,
        /// Protocols above IP, by name or number.
        pub protocol: Many<Spanned<Protocol>>,
        /// Sending addresses.
        pub source: Many<Spanned<Prefix>>,
        /// Receiving addresses.
        pub destination: Many<Spanned<Prefix>>,
        /// Addresses at either end, so that one rule serves both directions: packets from them and packets to them.
        pub host: Many<Spanned<Prefix>>,
        /// Devices at either end by hardware address: packets from and to the addresses that the table of neighbours of this machine has
        /// for them, up to 32 for each. Devices behind another router are not neighbours.
        pub mac: Many<Spanned<Mac>>,
        /// Devices at either end by name: packets from and to the addresses that the leases of a DHCP server on this machine, or its
        /// `/etc/hosts`, have for them, up to 32 for each. A name without a domain means the device in any domain.
        pub host_name: Many<Spanned<HostName>>,
        /// Hosts at either end by the name that was looked up: packets from and to the addresses that answers of the Domain Name System
        /// had for it, as they passed this machine in plain text, up to 64 for each. `*.example.com` means all names below
        /// `example.com`.
        pub dns_name: Many<Spanned<DnsName>>,
        /// Sending ports.
        pub source_port: Many<Spanned<Ports>>,
        /// Receiving ports.
        pub destination_port: Many<Spanned<Ports>>,
        /// Ports at either end: packets from them and packets to them.
        pub port: Many<Spanned<Ports>>,
        /// Whether the rule matches the answers, too: packets that meet its conditions with source and destination exchanged.
        /// Default false.
        pub both_ways: Spanned<bool> = false,
        /// Firewall marks.
        pub mark: Many<Mark>,
        /// Owners of the sending socket; forwarded packets have none, and nothing that arrives has.
        pub uid: Many<User>,
        /// Control groups of the sending socket, with all below them; forwarded packets have none, and nothing that
        /// arrives has.
        pub cgroup: Many<Spanned<String>>,
        /// Interfaces by which forwarded packets came in, as "br-guest"; packets of this host have none. Only for what leaves: what
        /// arrives has come in by no other interface.
        pub from_interface: Many<Spanned<String>>,
        /// Lengths of the packet in bytes with the IP header, as "0-200" or "1400-"; those of fragments are not known.
        pub length: Many<Spanned<Lengths>>,
        /// Flags of TCP that are set, as "syn", or are not, as "syn !ack".
        pub tcp_flags: Many<Spanned<TcpFlags>>,
        /// Whether the packet is a TCP acknowledgement without data. Default false: it may be one or not.
        pub pure_ack: Spanned<bool> = false,
        /// Types of ICMP messages by name, which stands for those of ICMP and of ICMPv6, or by number.
        pub icmp_type: Many<Spanned<MessageType>>,
        /// Times at which the rule holds, in the time zone of the host, as "mon-fri 08:00-18:00", "sat,sun" or "22:00-06:00". At
        /// other times later rules decide. Hours that end before they begin end on the next day: the span belongs to the
        /// day on which it begins, so that "mon-fri 18:00-08:00" has Saturday morning and not Monday morning. Default: always.
        pub when: Many<Spanned<Times>>,
        /// How many bytes the rule takes in each day, week or month, as "100GB/month". Then later rules decide until the next period
        /// begins: at midnight, on Monday, on the first, in the time zone of the host. It counts the packets that match as they
        /// arrive, in both directions together. Default: no end.
        pub quota: Option<Quota>,
        /// The share of each flow relative to flows of weight 1. Default 1.
        pub weight: Spanned<u32> = 1,
        /// The minimum rate of each flow. Default: none.
        pub minimum: Option<Spanned<Rate>>,
        /// The number of flows for which `minimum` must fit into the class. Default 1: later flows may find the class
        /// full; they start with rate 0 and get their minimum as soon as another flow ends.
        pub flows: Option<Spanned<u32>>,
        /// The class to which a flow moves when its share falls too low. Default: it stays.
        pub displace: Option<DisplaceSection>,
        /// The most that all packets of the rule together send, borrowed capacity included: a device or an application. A rule for both
        /// directions has it in each.
        /// Default: no bound.
        pub at_most: Option<Spanned<Rate>>,
    }
}

//! Flows.

use tidegate_config::Spanned;
use tidegate_config::values::{Ports, User};
use tidegate_core::{Dscp, Span};

use super::tcp::{EcnWord, Tcp};
use super::workload::WorkloadSection;
use crate::scenario::transport::FlowTransport;

tidegate_config::record! {
    /// A flow, or several of the same kind.
    pub struct FlowSection as "flow" {
        /// Its name in the results.
        pub name: Spanned<String>,
        /// The host that opens or sends, or a range of hosts.
        pub from: Spanned<String>,
        /// The other host, or a range: as many as in `from`, or one.
        pub to: Spanned<String>,
        /// The number of equal flows between the same hosts. Default 1.
        pub count: Spanned<u32> = 1,
        /// The transport. Default: datagrams for packets at a rate (`constant`, `poisson`, `on-off`) unless `tcp` is
        /// given, and TCP for everything else.
        pub transport: Option<FlowTransport>,
        /// TCP's settings. Default: SACK with Reno's window, and the default of every key. `{ defaults = "linux" }` is TCP as Linux has it.
        pub tcp: Option<Spanned<Tcp>>,
        /// Whether datagrams are sent as ECN-capable: `true` for ECT(0), `"l4s"` for ECT(1). For TCP, what `tcp.ecn` is by
        /// default. Default no; for QUIC ECT(0), as quinn sends it, and `"l4s"` with Prague.
        pub ecn: Option<Spanned<EcnWord>>,
        /// The traffic that the flow sends.
        pub workload: Spanned<WorkloadSection>,
        /// When the flow begins. Default at once.
        pub start: Span = "0s",
        /// The time between the starts of two flows of the section. Default zero, which keeps equal flows in step.
        pub stagger: Span = "0s",
        /// The upper bound of a random delay of the start, drawn for each flow from the seed. Default none.
        pub jitter: Span = "0s",
        /// When the flow stops. Default never.
        pub stop: Option<Spanned<Span>>,
        /// Its class in the disciplines that have classes: a name, or a number. Default the first.
        pub class: Option<Spanned<String>>,
        /// The profile of the flow in a discipline with profiles (`fbq`): its name, or its number from 1. Default none.
        pub profile: Option<Spanned<String>>,
        /// Its code point. Default best effort.
        pub dscp: Option<Dscp>,
        /// Whether its goodput is kept over time. Default no.
        pub watch: bool = false,
        /// The port at `to`, which the rules of shaper files see. With a range, each flow of the section has its own.
        /// Default 5001.
        pub port: Option<Spanned<Ports>>,
        /// The port at `from`; with a range, each flow has its own. Default: one from 32768 on for each flow, and one
        /// from 49152 on for each connection of a flow with many.
        pub source_port: Option<Spanned<Ports>>,
        /// The packet mark, as firewalls set it. Default none.
        pub mark: u32 = 0,
        /// The user who owns the socket at `from`, which rules know on links that begin at that host. Default unknown.
        pub user: Option<User>,
        /// The control group that owns the socket at `from`, known to the same rules. Default unknown.
        pub control_group: Option<String>,
    }
}

tidegate_config::choices! {
    /// The transport protocol of a flow.
    pub enum TransportWord as "transport" {
        /// TCP, with the settings of `tcp`: acknowledged, in order, with congestion control.
        Tcp = "tcp",
        /// UDP datagrams, which are neither acknowledged nor sent again, at the rate of the workload.
        Udp = "udp",
    }
}

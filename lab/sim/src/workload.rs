//! [`FlowSpec`]: the specification of a flow and its workload.

mod models;
mod properties;

use std::sync::Arc;

use tidegate_config::values::User;
use tidegate_core::{Bytes, Dscp, Ecn, Instant, Rate, Span};

use crate::distribution::Distribution;
use crate::ids::{FlowId, NodeId};
use crate::tcp;
use crate::transport::Protocol;
pub use models::{Arrivals, Call, Media, Phase, Video, Web};
pub(crate) use properties::Needs;

/// The transport protocol of a flow.
#[derive(Clone, Debug)]
pub enum Transport {
    /// TCP; see [`tcp::Config`].
    Tcp(Arc<tcp::Config>),
    /// Datagrams without acknowledgements.
    Udp {
        /// The ECN field of datagrams: ECT(0) or ECT(1) as by a transport that reacts to marks.
        ecn: Ecn,
    },
    /// A reliable transport from outside of this crate.
    Other {
        /// The transport with its settings.
        protocol: &'static dyn Protocol,
        /// Which ECN field its packets carry. Default: what the transport itself does.
        ecn: Option<tcp::EcnUse>,
    },
}

impl Transport {
    /// Whether it has connections, with acknowledgements and congestion control.
    pub fn has_connections(&self) -> bool {
        !matches!(self, Self::Udp { .. })
    }
}

/// The direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the client, the flow's `from`, to the server.
    Upload,
    /// The client sends a request, and the server answers with the transfer.
    Download {
        /// The size of the request.
        request: Bytes,
    },
}

/// The traffic of a flow.
#[derive(Clone, PartialEq, Debug)]
pub enum Workload {
    /// One transfer, endless without a size. TCP only.
    Bulk {
        /// The size of the transfer; `None` for an endless one.
        bytes: Option<Bytes>,
    },
    /// One transfer of random size, drawn for each flow. TCP only.
    Transfer {
        /// The size, in bytes.
        size: Distribution,
    },
    /// Packets of equal size at a constant rate.
    Constant {
        /// The rate of bytes on the link for datagrams, or of data over TCP.
        rate: Rate,
        /// The size of each packet on the link.
        packet: Bytes,
    },
    /// Packets at random times, independent of each other (exponential gaps).
    Poisson {
        /// The mean rate.
        rate: Rate,
        /// The size of each packet on the link.
        packet: Bytes,
    },
    /// A constant rate for a random time, silence for a random time, and so on. Exponential times make the classical
    /// voice model; Pareto times make self-similar traffic in the sum of many flows.
    OnOff {
        /// The rate while it sends.
        rate: Rate,
        /// The size of each packet on the link.
        packet: Bytes,
        /// The length of a period of sending, in seconds.
        on: Distribution,
        /// The length of a period of silence, in seconds.
        off: Distribution,
    },
    /// Short transfers, each on a connection of its own. TCP only.
    Mice {
        /// The time between two connections, in seconds.
        interval: Distribution,
        /// The size of a transfer, in bytes.
        size: Distribution,
        /// The direction of the transfers.
        direction: Direction,
        /// The largest number of open connections, which bounds the memory of an overload. Further connections are
        /// counted as refused.
        most_open: u32,
    },
    /// Requests and answers on one connection, with a pause between. TCP only.
    Requests {
        /// The size of a request, in bytes.
        request: Distribution,
        /// The size of an answer, in bytes.
        response: Distribution,
        /// The pause after an answer, in seconds.
        think: Distribution,
    },
    /// Packets with random gaps and sizes, in the forward (0) direction, the reverse (1) direction, or both. Over TCP
    /// only forward.
    Packets {
        /// The packets in each direction.
        directions: [Option<Arrivals>; 2],
    },
    /// A cycle of phases, each with a constant rate for a random time.
    Phases {
        /// The size of each packet on the link.
        packet: Bytes,
        /// The phases, in order.
        phases: Vec<Phase>,
    },
    /// Pages of the web. TCP only.
    Web(Box<Web>),
    /// A video whose rate follows the buffer of its player. TCP only.
    Video(Video),
    /// Speech in both directions. Datagrams only.
    Call(Box<Call>),
    /// A live video from the client, which follows the network.
    Media(Media),
    /// Times from the start of the flow, which must not fall, and sizes: datagrams over UDP, or transfers on a
    /// connection each over TCP.
    Trace(Vec<(Span, Bytes)>),
}

impl Workload {
    /// A transfer without end.
    pub const BULK: Self = Self::Bulk { bytes: None };

    /// Whether both hosts send data, so that what is measured of a direction has its name, whether or not data came through it.
    pub(crate) fn goes_both_ways(&self) -> bool {
        match self {
            Self::Requests { .. } | Self::Web(_) | Self::Video(_) | Self::Call(_) => true,
            Self::Mice { direction, .. } => matches!(direction, Direction::Download { .. }),
            Self::Packets { directions } => directions.iter().all(Option::is_some),
            _ => false,
        }
    }

    /// Uploads that arrive in a Poisson process of `per_second`, with at most 10,000 open.
    pub fn mice(per_second: f64, size: Distribution) -> Self {
        Self::Mice {
            interval: Distribution::Exponential { mean: 1.0 / per_second },
            size,
            direction: Direction::Upload,
            most_open: 10_000,
        }
    }
}

/// A flow of the scenario: its sender, receiver, transport and workload.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// The name, which appears in results and names the random stream of the flow.
    pub name: String,
    /// The host that opens connections or sends datagrams.
    pub from: NodeId,
    /// The other host.
    pub to: NodeId,
    /// The transport protocol.
    pub transport: Transport,
    /// The traffic that it sends.
    pub workload: Arc<Workload>,
    /// When the flow begins. Default: at once.
    pub start: Instant,
    /// The flow begins later than `start` by a random time below this. Default: zero.
    pub jitter: Span,
    /// When the flow stops sending or opening connections. Default: never.
    pub stop: Option<Instant>,
    /// The class of its packets, in both directions. Default 0.
    pub class: u16,
    /// The profile of its packets. Default 0.
    pub profile: u16,
    /// The code point of its packets. Default best effort.
    pub dscp: Dscp,
    /// Whether its goodput is recorded over time. Default no.
    pub watch: bool,
    /// The flow to whose histograms its delays and times are added, for thousands of equal flows that would otherwise
    /// take 30 kB each. Default: its own.
    pub pool: Option<FlowId>,
    /// The port at `to`. Default 5001.
    pub port: u16,
    /// The port at `from`. Default: a different one for each flow, and for each connection of a flow with many.
    pub source_port: Option<u16>,
    /// The packet mark set by firewalls on its path, which rules see in both directions. Default 0.
    pub mark: u32,
    /// The user who owns the socket at `from`. Default: unknown.
    pub user: Option<User>,
    /// The control group that owns the socket at `from`. Default: unknown.
    pub control_group: Option<String>,
}

/// The default destination port of flows.
pub const PORT: u16 = 5_001;

impl FlowSpec {
    /// A flow from `from` to `to`.
    pub fn new(
        name: impl Into<String>,
        from: NodeId,
        to: NodeId,
        transport: Transport,
        workload: impl Into<Arc<Workload>>,
    ) -> Self {
        Self {
            name: name.into(),
            from,
            to,
            transport,
            workload: workload.into(),
            start: Instant::ZERO,
            jitter: Span::ZERO,
            stop: None,
            class: 0,
            profile: 0,
            dscp: Dscp::BEST_EFFORT,
            watch: false,
            pool: None,
            port: PORT,
            source_port: None,
            mark: 0,
            user: None,
            control_group: None,
        }
    }
    /// A TCP flow.
    pub fn tcp(
        name: impl Into<String>,
        from: NodeId,
        to: NodeId,
        config: impl Into<Arc<tcp::Config>>,
        workload: impl Into<Arc<Workload>>,
    ) -> Self {
        Self::new(name, from, to, Transport::Tcp(config.into()), workload)
    }
    /// A flow of datagrams.
    pub fn udp(name: impl Into<String>, from: NodeId, to: NodeId, workload: impl Into<Arc<Workload>>) -> Self {
        Self::new(name, from, to, Transport::Udp { ecn: Ecn::NotEct }, workload)
    }
    /// Sets the time at which the flow begins.
    #[must_use]
    pub fn starting(self, at: Instant) -> Self {
        Self { start: at, ..self }
    }
    /// Delays the start by a random time below `jitter`.
    #[must_use]
    pub fn jittered(self, jitter: Span) -> Self {
        Self { jitter, ..self }
    }
    /// Sets the time at which the flow stops.
    #[must_use]
    pub fn stopping(self, at: Instant) -> Self {
        Self { stop: Some(at), ..self }
    }
    /// Sets the class.
    #[must_use]
    pub fn in_class(self, class: u16) -> Self {
        Self { class, ..self }
    }
    /// Sets the port at `to`.
    #[must_use]
    pub fn to_port(self, port: u16) -> Self {
        Self { port, ..self }
    }
    /// Adds its delays and times to the histograms of `flow`.
    #[must_use]
    pub fn pooled(self, flow: FlowId) -> Self {
        Self { pool: Some(flow), ..self }
    }
    /// Records its goodput over time.
    #[must_use]
    pub fn watched(self) -> Self {
        Self { watch: true, ..self }
    }
}

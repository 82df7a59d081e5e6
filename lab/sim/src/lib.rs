//! A deterministic discrete-event simulator of networks, for the disciplines of `tidegate-core`.
//!
//! Time is counted in integer nanoseconds, events are ordered by (time, sequence), and every component draws from its
//! own named random stream. A [`Network`] and a seed therefore produce the same numbers on every machine. Hosts run
//! real TCP ([`tcp`]). The queue of a link is any [`Qdisc`](tidegate_core::Qdisc), or the engine of a whole shaper file
//! ([`ShaperQueue`]).
//!
//! A run needs memory for the packets in flight and for fixed-size statistics ([`metrics`]). Neither grows with
//! simulated time.

pub mod applications;
pub mod attained;
mod conditions;
pub mod distribution;
mod driver;
mod engine;
mod event;
mod follow;
mod ids;
mod impairment;
mod link;
mod loss;
pub mod metrics;
mod network;
mod packet;
pub mod parallel;
pub mod scenario;
mod shaper;
mod shared;
pub mod srpt;
pub mod tcp;
pub mod trace;
pub mod transport;
mod workload;

pub use attained::Attained;
pub use conditions::{Cellular, Conditions, Failures, Jitter, LineChange, MarkovState, RateProcess, Windows};
pub use distribution::Distribution;
pub use driver::{Driver, Service};
pub use engine::Simulation;
pub use follow::{Follow, RateControl, SharedControl, TICK};
pub use ids::{FlowId, LinkId, NodeId};
pub use link::{Conditioner, Line, Stage, Tap, Verdict};
pub use loss::Loss;
pub use network::{Network, NetworkError};
pub use packet::{Advice, Proto, SimPacket, TCP_HEADER, UDP_HEADER};
pub use shaper::{FIRST_USER, LinkSink, Notification, ShaperQueue};
pub use shared::Shared;
pub use srpt::Srpt;
pub use workload::{Arrivals, Call, Direction, FlowSpec, Media, Phase, Transport, Video, Web, Workload};

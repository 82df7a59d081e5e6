//! The testbed that the tests of all parts share: hosts that are network namespaces, with real sockets at both ends of a link
//! ([`Pair`], [`Chain`], [`DelayLine`]), senders and receivers ([`Senders`], [`Sink`], [`Mice`]), a runner for tests
//! inside namespaces ([`harness`]), and readers of what commands write: a terminal, a browser, JSON Schema, OpenMetrics.
//!
//! Namespaces have no name on the machine; when the last handle is closed, also by `kill -9`, nothing remains. Without
//! root, call [`tidegate_live::netns::enter`] first thing in `main`.
//!
//! *Units*: rates in bit/s of the payload of UDP and TCP, unless specified as rates of the link; times in ns of the
//! machine's clock, which both ends share, so that one-way delays are exact.

pub mod browser;
pub mod effort;
pub mod evaluator;
pub mod files;
pub mod openmetrics;
pub mod width;

#[cfg(feature = "network")]
mod network {
    pub mod chaos;
    pub mod delay;
    pub mod drops;
    pub mod harness;
    pub mod mice;
    pub mod sink;
    pub mod steady;
    pub mod terminal;
    pub mod topology;
    pub mod traffic;
    pub mod veth;
}

#[cfg(feature = "network")]
pub use network::{
    chaos,
    delay::{self, DelayLine},
    drops::dropped_between,
    harness::{self, Ended},
    mice::{self, Direction, Mice, MiceSpec, Mouse, Sizes},
    sink::{self, FlowReport, Sink, Stamp},
    steady::{self, Measurements, patiently},
    terminal,
    topology::{self, Chain, Family, Host, Pair},
    traffic::{self, FlowSpec, Senders, Transport},
    veth,
};

pub use effort::{Chaos, is_nightly, share};

//! Temporary testbeds: hosts are network namespaces, links are veth pairs, with real sockets at both ends.
//!
//! Nothing has a name on the machine; when the last handle is closed, also by `kill -9`, nothing remains. Without root,
//! call [`tidegate_live::netns::enter`] first thing in `main`.
//!
//! *Units*: rates in bit/s of the payload of UDP and TCP, unless specified as rates of the link; times in ns of the
//! machine's clock, which both ends share, so that one-way delays are exact.

pub mod delay;
pub mod drops;
pub mod mice;
pub mod sink;
pub mod topology;
pub mod traffic;

pub use delay::DelayLine;
pub use drops::dropped_between;
pub use mice::{Direction, Mice, MiceSpec, Mouse, Sizes};
pub use sink::{FlowReport, Sink, Stamp};
pub use topology::{Chain, Family, Host, Pair};
pub use traffic::{FlowSpec, Senders, Transport};

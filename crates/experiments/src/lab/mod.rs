//! Throwaway laboratories: hosts that are network namespaces, links that are veth pairs, real sockets at both ends.
//!
//! Nothing has a name on the machine; when the last handle is gone, also after `kill -9`, nothing is left. Without
//! root, call [`tidegate_live::netns::enter`] first thing in `main`.
//!
//! *Units*: rates in bit/s of the payload of UDP and TCP, unless they are said to be of the wire; times in ns of
//! the machine's clock, which both ends share, so that one-way delays are exact.

pub mod drops;
pub mod mice;
pub mod sink;
pub mod topology;
pub mod traffic;

pub use drops::dropped_between;
pub use mice::{Direction, Mice, MiceSpec, Mouse, Sizes};
pub use sink::{FlowReport, Sink, Stamp};
pub use topology::{Chain, Family, Host, Pair};
pub use traffic::{FlowSpec, Senders, Transport};

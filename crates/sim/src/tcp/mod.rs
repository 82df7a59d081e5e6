//! TCP as a state machine without I/O and without a clock.
//!
//! An [`Endpoint`] is one end of a connection. Segments go in with [`Endpoint::on_segment`], what it wants to send
//! comes out of [`Endpoint::poll`], and [`Endpoint::deadline`] says when [`Endpoint::on_timer`] is due. Between a
//! link and a test there is no difference.

pub mod congestion;
pub mod cubic;
mod endpoint;
mod ranges;
mod rtt;
mod segment;

pub use congestion::{Ack, Algorithm, CongestionControl, Reno, Signal};
pub use cubic::Cubic;
pub use endpoint::{Config, Counters, Endpoint, Recovery, State, Vintage};
pub use rtt::{RtoBounds, RttEstimator};
pub use segment::{Flags, SackBlocks, Segment};

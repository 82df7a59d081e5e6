//! TCP as a state machine without I/O and without a clock.
//!
//! An [`Endpoint`] is one end of a connection. [`Endpoint::on_segment`] takes a received segment, [`Endpoint::poll`]
//! returns the next segment to send, and [`Endpoint::deadline`] returns the time at which [`Endpoint::on_timer`] is
//! due. The simulator and the tests drive it in the same way.
//!
//! Variables are named as in RFC 9293, 5681, 6298, 6582 and 6675: SND.UNA is `snd_una`, HighRxt is `high_rxt`.

mod accecn;
pub mod bbr;
pub mod congestion;
pub mod cubic;
pub mod dctcp;
mod delivery;
mod endpoint;
mod hystart;
pub mod prague;
mod prr;
mod ranges;
mod rtt;
mod segment;
mod transmissions;

pub use bbr::{Bbr, BbrState};
pub use congestion::{
    Ack, Algorithm, CongestionControl, CongestionSignal, DeliverySample, EcnCounts, EcnFeedback, LossRecovery,
    LostSegment, Make, Reno,
};
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use delivery::{Delivery, Departure};
pub use endpoint::{Config, Counters, EcnUse, Endpoint, Growth, Recovery, State, Vintage};
pub use prague::Prague;
pub use rtt::{RtoBounds, RttEstimator};
pub use segment::{AccEcnOption, EcnBytes, Flags, SackBlocks, Segment, Timestamps};

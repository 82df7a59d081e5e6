//! [`Call`]: everything that a [`Controller`] receives, so that its decisions can be recorded and made again.

use tidegate_units::{Bytes, Instant, Span};

use crate::controller::{Bounds, Controller, Decision, Side};

/// A call of a controller that changes its state. A controller that gets the same calls makes the same decisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// [`Controller::new`] without bounds: the first call.
    Start {
        /// The time of the call.
        now: Instant,
    },
    /// [`Controller::set_bounds`].
    Bounds {
        /// The direction.
        side: Side,
        /// Its bounds; `None` if it does not follow the line.
        bounds: Option<Bounds>,
    },
    /// [`Controller::round_trip`].
    RoundTrip {
        /// When the answer came.
        now: Instant,
        /// The number of the peer.
        peer: u64,
        /// The round trip.
        round_trip: Span,
        /// The one-way delay of the answer, with an arbitrary zero, in ns.
        down: Option<u64>,
    },
    /// [`Controller::carried`].
    Carried {
        /// The direction.
        side: Side,
        /// The bytes since the last such call.
        bytes: Bytes,
        /// Whether packets wait in its shaper.
        waiting: bool,
    },
    /// [`Controller::decide`].
    Decide {
        /// The time of the call.
        now: Instant,
    },
}

/// The decisions of a call, for each direction: only those of [`Call::Decide`] are not empty.
pub type Decided = [Option<Decision>; 2];

/// Receives every call of a controller with its decisions. It runs where the decisions are made, and must not block.
pub trait Recorder: Send {
    /// A call was made. Calls of a controller are numbered from 0.
    fn call(&mut self, number: u64, call: &Call, decided: &Decided);
}

impl Controller {
    /// Makes a call.
    pub fn call(&mut self, call: &Call) -> Decided {
        match *call {
            Call::Start { now } => *self = Self::new([None; 2], now),
            Call::Bounds { side, bounds } => self.set_bounds(side, bounds),
            Call::RoundTrip { now, peer, round_trip, down } => self.round_trip(now, peer, round_trip, down),
            Call::Carried { side, bytes, waiting } => self.carried(side, bytes, waiting),
            Call::Decide { now } => return self.decide(now),
        }
        [None; 2]
    }
}

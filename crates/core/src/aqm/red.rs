//! RED: random early detection, in fixed point.
//!
//! *Law*: the average is `avg' = avg + w (q - avg)` at each arrival, and `(1 - w)^m avg` after the queue was empty
//! for as long as `m` typical packets take. Below `min` nothing is dropped. From `min` to `max` the base probability
//! rises linearly from 0 to `max_p`; above `max` everything is dropped, or marked where ECN allows it, or, gently,
//! the probability rises on from `max_p` at `max` to 1 at twice `max`.
//! *Source*: Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance" (1993), sections 4 and
//! 7 (both methods of spacing) and 11 (idle time); Floyd, "Recommendation on using the gentle variant of RED"
//! (2000); RFC 3168 section 7 for marking.
//! *Units*: thresholds in packets or in bytes; the average in either with 32 bits of fraction ([`Level`]);
//! probabilities in 32 bits of fraction ([`Probability`]).
//! *Cost*: O(1) an arrival: a multiplication for the average and, between the thresholds, a multiplication and a
//! random draw; O(log m) multiplications after an idle time. No allocation.
//! *Notes*: queues beyond 2³² - 1 bytes or packets count as that. The average is rounded down to a multiple of
//! 2⁻³², so that it can rest up to `1 / (w 2³²)` below the queue: 10⁻⁷ packets at `w` = 0.002. The drop
//! test compares integers and is exact for the rounded average.
//! *Departures from the source, and why*: the idle time is consumed when an arrival has counted it, in whole
//! packets, and the rest counts with the next idle time: short ones add up, where an implementation that forgets them
//! leaves the average of a queue that each arrival finds empty where it was, and goes on dropping. The paper counts
//! idle time again when that arrival is dropped and the queue stays empty. `count` is the number of packets since the
//! last drop, as the text of section 7 has it; the pseudocode starts at one more after a drop, and its gaps are then
//! not uniform. With ECN, packets are marked between the thresholds and dropped above `max`, as RFC 3168 recommends,
//! unless [`AboveMax::Mark`] asks for the step of RFC 8257.
//! Nothing is dropped or marked while fewer than two packets are queued, as in ns-2 (`red.cc`). The average lags behind
//! the queue, so that drops would go on after the queue has emptied, and the senders would fall into step.
//! *See also*: [`rio`](crate::rio): RED with an average for each drop precedence; [`wred`](crate::wred): one average
//! and several curves. [`Average`], [`EarlyDrop`] and [`Dropper`] serve all of them.
//!
//! ```
//! use tidegate_core::{probability::Probability, red::{Params, Profile, Red, Thresholds}};
//! let params = Params::new(Thresholds::Packets { min: 5, max: 15 });
//! let red = Red::new(params, 1, "uplink").expect("valid");
//! assert_eq!(red.average().as_f64(), 0.0);
//! let wrong = Params { profile: Profile { max_p: Probability::ZERO, ..params.profile }, ..params };
//! assert_eq!(wrong.validate().unwrap_err().field, "max_p");
//! ```

mod average;
mod curve;
mod dropper;

pub use average::{Average, Level};
pub use curve::{AboveMax, Curve, Profile, Thresholds, Zone};
pub use dropper::{Dropper, EarlyDrop, Signal, Sizing, Spacer, Spacing};

use crate::aqm::{Aqm, Verdict, Verdicts};
use crate::packet::Packet;
use crate::params::ParamError;
use crate::probability::Probability;
use crate::qdisc::Backlog;
use crate::random::Stream;
use tidegate_units::Instant;

/// The parameters of RED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The drop probability by average queue.
    pub profile: Profile,
    /// How the average is made, and how drops follow from it.
    pub early: EarlyDrop,
}

impl Params {
    /// `thresholds` with the values of the paper's section 4 and of the gentle recommendation: `max_p` 0.1, and
    /// [`EarlyDrop::RECOMMENDED`].
    pub const fn new(thresholds: Thresholds) -> Self {
        let max_p = match Probability::from_ratio(1, 10) {
            Some(p) => p,
            None => Probability::ONE,
        };
        Self { profile: Profile { thresholds, max_p }, early: EarlyDrop::RECOMMENDED }
    }
    /// Checks the parameters.
    ///
    /// # Errors
    /// Names the field that cannot work: `max_th`, `max_p`, `weight`, `mean`.
    pub fn validate(&self) -> Result<(), ParamError> {
        self.profile.validate()?;
        self.early.validate()
    }
}

/// RED. See the [module](self).
#[derive(Clone, Debug)]
pub struct Red {
    params: Params,
    average: Average,
    dropper: Dropper,
}

impl Red {
    /// RED for an empty queue, drawing from the random stream `name` under `seed`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params, seed: u64, name: &str) -> Result<Self, ParamError> {
        Self::drawing_from(params, Stream::named(seed, name))
    }
    /// RED for an empty queue, drawing from `random`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn drawing_from(params: Params, random: Stream) -> Result<Self, ParamError> {
        params.validate()?;
        Ok(Self::drawing(params, random))
    }
    /// [`drawing_from`](Self::drawing_from) by validated parameters.
    fn drawing(params: Params, random: Stream) -> Self {
        Self {
            params,
            average: Average::new(params.early.weight, params.early.idle_packet),
            dropper: Dropper::new(params.profile, params.early.above_max, random),
        }
    }
    /// The parameters in force.
    pub fn params(&self) -> &Params {
        &self.params
    }
    /// Puts other parameters into force; the average and the count are kept.
    ///
    /// # Errors
    /// As [`Params::validate`]; then nothing has changed.
    pub fn set_params(&mut self, params: Params) -> Result<(), ParamError> {
        params.validate()?;
        self.average.set_weight(params.early.weight);
        self.average.set_idle_packet(params.early.idle_packet);
        self.dropper.set_profile(params.profile, params.early.above_max);
        self.params = params;
        Ok(())
    }
    /// Changes `max_p` alone: what an adaptive RED does twice a second. Zero counts as 2⁻³².
    pub fn set_max_p(&mut self, max_p: Probability) {
        let max_p = max_p.max(Probability::saturating_from_bits(1));
        self.params.profile.max_p = max_p;
        self.dropper.set_max_p(max_p);
    }
    /// Returns the average queue.
    pub fn average(&self) -> Level {
        self.average.level()
    }
    /// The part of the curve in which the average lies now.
    pub fn zone(&self) -> Zone {
        self.dropper.zone(self.average.level())
    }
    /// The base probability at the present average, before it is spread over the packets between two drops.
    pub fn base_probability(&self) -> Probability {
        match self.zone() {
            Zone::Below => Probability::ZERO,
            Zone::Chance(p) | Zone::Gentle(p) => p,
            Zone::Beyond => Probability::ONE,
        }
    }
    /// The verdicts so far.
    pub fn verdicts(&self) -> &Verdicts {
        self.dropper.verdicts()
    }
    /// Updates the average for an arrival that finds `queue`, and returns the zone in which it is decided: the first half
    /// of a decision, for callers that scale the probability before the second, [`Red::decide`].
    pub fn observe(&mut self, now: Instant, queue: Backlog) -> Zone {
        self.average.on_arrival(now, self.params.profile.thresholds.measure(queue));
        self.zone_at(queue)
    }
    /// The zone in which an arrival that finds `queue` is decided at the present average.
    pub(crate) fn zone_at(&self, queue: Backlog) -> Zone {
        self.dropper.zone_at(self.average.level(), queue)
    }
    /// The second half: the verdict on `packet` in `zone`, which is counted.
    pub fn decide<P: Packet>(&mut self, packet: &P, zone: Zone) -> Verdict {
        self.dropper.decide(&self.params.early, zone, packet)
    }
    /// The queue is not empty.
    pub fn on_busy(&mut self) {
        self.average.on_busy();
    }
    /// The queue became empty.
    pub fn on_empty(&mut self, now: Instant) {
        self.average.on_empty(now);
    }
}

impl<P: Packet> Aqm<P> for Red {
    fn on_arrival(&mut self, now: Instant, packet: &P, queue: Backlog) -> Verdict {
        let zone = self.observe(now, queue);
        self.decide(packet, zone)
    }
    fn on_admission(&mut self, _now: Instant, _packet: &P) {
        self.on_busy();
    }
    fn on_departure(&mut self, now: Instant, _packet: &P, queue: Backlog) {
        if queue.is_empty() {
            self.on_empty(now);
        }
    }
    fn probability(&self) -> Option<Probability> {
        Some(self.base_probability())
    }
}

#[cfg(test)]
mod tests;

//! WRED: RED with one average of the whole queue, and a curve for each precedence.
//!
//! *Law*: the curve that the colour or the code point of a packet selects decides on it, at the average of the whole
//! queue.
//! *Source*: RFC 2309 section 3 and RFC 2597 section 3 (which leaves the scheme open); the usual form of routers.
//! *Units*: as [`red`](crate::red).
//! *Cost*: O(1) an arrival: one average, one table look-up, one curve, one draw. No allocation.
//! *Notes*: up to 64 profiles. A profile whose `min` is the `max` of another protects it completely.
//! *See also*: [`rio`](crate::rio): an average for each precedence, so that worse ones do not count for better;
//! [`red`](crate::red): one curve.
//!
//! ```
//! use tidegate_core::{red::{Profile, Thresholds}, wred::{Params, Selector, Wred}, Probability};
//! let profile = |min, max| Profile {
//!     thresholds: Thresholds::Packets { min, max },
//!     max_p: Probability::from_ratio(1, 10).unwrap(),
//! };
//! // Green, yellow, red.
//! let params = Params::new(vec![profile(30, 60), profile(20, 40), profile(10, 20)], Selector::Colour);
//! assert!(Wred::new(params.clone(), 1, "edge").is_ok());
//! let two = Params { profiles: params.profiles[..2].to_vec(), ..params };
//! assert_eq!(two.validate().unwrap_err().field, "profiles");
//! ```

use crate::aqm::{Aqm, Verdict, Verdicts};
use crate::packet::Packet;
use crate::params::ParamError;
use crate::qdisc::Backlog;
use crate::random::Stream;
use crate::red::{Average, Dropper, EarlyDrop, Level, Profile};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use tidegate_units::Instant;

/// The property of a packet that selects its profile.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Selector {
    /// Its colour: profile 0 green, 1 yellow, 2 red.
    #[default]
    Colour,
    /// Its code point, by this table of profiles.
    Dscp(Box<[u8; 64]>),
}

impl Selector {
    /// The profile of `packet`.
    fn of<P: Packet>(&self, packet: &P) -> usize {
        match self {
            Self::Colour => packet.colour() as usize,
            Self::Dscp(table) => usize::from(table[usize::from(packet.dscp().value())]),
        }
    }
    /// The highest profile that may be selected.
    fn highest(&self) -> usize {
        match self {
            Self::Colour => 2,
            Self::Dscp(table) => table.iter().copied().max().map_or(0, usize::from),
        }
    }
}

/// The parameters of WRED.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Params {
    /// Drop curves by drop precedence.
    pub profiles: Vec<Profile>,
    /// Which curve applies to a packet.
    pub selector: Selector,
    /// Parameters of the average and of the drops.
    pub early: EarlyDrop,
}

impl Params {
    /// `profiles` with [`EarlyDrop::RECOMMENDED`].
    pub fn new(profiles: Vec<Profile>, selector: Selector) -> Self {
        Self { profiles, selector, early: EarlyDrop::RECOMMENDED }
    }
    /// Checks the parameters.
    ///
    /// # Errors
    /// Names `profiles` (with the number of the profile) when one cannot work, there are none or more than 64, they
    /// measure the queue in different units, or the selector asks for one that does not exist; `weight`; `mean`.
    pub fn validate(&self) -> Result<(), ParamError> {
        let wrong = |problem| Err(ParamError::new("profiles", problem));
        let Some(first) = self.profiles.first() else {
            return wrong("there must be at least one".into());
        };
        if self.profiles.len() > 64 {
            return wrong(format!("there may be at most 64, but there are {}", self.profiles.len()));
        }
        for (n, profile) in self.profiles.iter().enumerate() {
            if let Err(error) = profile.validate() {
                return wrong(format!("profile {n}: {error}"));
            }
            if core::mem::discriminant(&profile.thresholds) != core::mem::discriminant(&first.thresholds) {
                return wrong(format!("profile {n} measures the queue in another unit than profile 0"));
            }
        }
        if self.selector.highest() >= self.profiles.len() {
            let (highest, len) = (self.selector.highest(), self.profiles.len());
            return wrong(format!("profile {highest} may be selected, but there are only {len}"));
        }
        self.early.validate()
    }
}

/// WRED. See the [module](self).
#[derive(Clone, Debug)]
pub struct Wred {
    params: Params,
    average: Average,
    droppers: Vec<Dropper>,
}

impl Wred {
    /// WRED for an empty queue, drawing from random streams that begin with `name` under `seed`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params, seed: u64, name: &str) -> Result<Self, ParamError> {
        Self::drawing_from(params, |n| Self::stream(seed, name, n))
    }
    /// The random stream of profile number `profile` in WRED whose streams begin with `name` under `seed`.
    pub fn stream(seed: u64, name: &str, profile: usize) -> Stream {
        Stream::named(seed, &format!("{name}.{profile}"))
    }
    /// WRED for an empty queue, drawing for each profile from the random stream that `streams` has for its number.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn drawing_from(params: Params, streams: impl Fn(usize) -> Stream) -> Result<Self, ParamError> {
        params.validate()?;
        let dropper = |(n, profile): (usize, &Profile)| Dropper::new(*profile, params.early.above_max, streams(n));
        let droppers = params.profiles.iter().enumerate().map(dropper).collect();
        Ok(Self { average: Average::new(params.early.weight, params.early.idle_packet), droppers, params })
    }
    /// The parameters in force.
    pub fn params(&self) -> &Params {
        &self.params
    }
    /// The average of the whole queue.
    pub fn average(&self) -> Level {
        self.average.level()
    }
    /// The verdicts by profile number `profile` so far.
    pub fn verdicts(&self, profile: usize) -> Option<&Verdicts> {
        self.droppers.get(profile).map(Dropper::verdicts)
    }
}

impl<P: Packet> Aqm<P> for Wred {
    fn on_arrival(&mut self, now: Instant, packet: &P, queue: Backlog) -> Verdict {
        let profile = self.params.selector.of(packet);
        let level = self.average.on_arrival(now, self.params.profiles[profile].thresholds.measure(queue));
        let dropper = &mut self.droppers[profile];
        dropper.decide(&self.params.early, dropper.zone_at(level, queue), packet)
    }
    fn on_admission(&mut self, _now: Instant, _packet: &P) {
        self.average.on_busy();
    }
    fn on_departure(&mut self, now: Instant, _packet: &P, queue: Backlog) {
        if queue.is_empty() {
            self.average.on_empty(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    use crate::packet::{Colour, Dscp};
    use crate::probability::Probability;
    use crate::red::{Spacing, Thresholds};
    use tidegate_units::Bytes;

    struct P(Colour, Dscp);
    impl Packet for P {
        fn size(&self) -> Bytes {
            Bytes::new(500)
        }
        fn flow(&self) -> crate::FlowKey {
            crate::FlowKey::default()
        }
        fn colour(&self) -> Colour {
            self.0
        }
        fn dscp(&self) -> Dscp {
            self.1
        }
    }

    fn profile(min: u64, max: u64) -> Profile {
        Profile { thresholds: Thresholds::Packets { min, max }, max_p: Probability::from_ratio(1, 10).unwrap() }
    }

    /// Among 50,000 arrivals at a standing queue, the share that is dropped.
    fn share(params: &Params, packet: &P, packets: u64) -> f64 {
        let mut wred = Wred::new(params.clone(), 1, "test").unwrap();
        let queue = Backlog { packets, bytes: Bytes::new(packets * 500) };
        let drops = (0..50_000).filter(|_| wred.on_arrival(Instant::ZERO, packet, queue) != Verdict::Admit).count();
        drops as f64 / 50_000.0
    }

    #[test]
    fn one_average_and_a_curve_for_each_colour() {
        let params = Params {
            early: EarlyDrop { weight: Probability::ONE, spacing: Spacing::Geometric, ..EarlyDrop::RECOMMENDED },
            ..Params::new(vec![profile(30, 60), profile(20, 40), profile(10, 20)], Selector::Colour)
        };
        // At 35 packets: green 0.1 * 5/30 = 0.0167; yellow 0.1 * 15/20 = 0.075; red in the gentle region,
        // 0.1 + 0.9 * 15/20 = 0.775. Five standard deviations: 0.0029, 0.0059, 0.0094.
        for (colour, expected, within) in
            [(Colour::Green, 0.0167, 0.0029), (Colour::Yellow, 0.075, 0.0059), (Colour::Red, 0.775, 0.0094)]
        {
            let got = share(&params, &P(colour, Dscp::default()), 35);
            assert!((got - expected).abs() < within, "{colour:?}: {got}");
        }
        assert_eq!(share(&params, &P(Colour::Red, Dscp::default()), 40), 1.0);
    }

    #[test]
    fn code_points_select_by_table() {
        let mut table = [0_u8; 64];
        table[usize::from(Dscp::EF.value())] = 1;
        let params = Params {
            early: EarlyDrop { weight: Probability::ONE, ..EarlyDrop::RECOMMENDED },
            ..Params::new(vec![profile(10, 20), profile(100, 200)], Selector::Dscp(Box::new(table)))
        };
        assert_eq!(share(&params, &P(Colour::Red, Dscp::BEST_EFFORT), 50), 1.0);
        assert_eq!(share(&params, &P(Colour::Red, Dscp::EF), 50), 0.0);
    }

    #[test]
    fn errors_name_the_profile() {
        let good = Params::new(vec![profile(30, 60), profile(20, 40), profile(10, 20)], Selector::Colour);
        let error = |params: Params| params.validate().unwrap_err();
        let bad = error(Params { profiles: vec![profile(30, 60), profile(40, 40), profile(1, 2)], ..good.clone() });
        assert!(bad.field == "profiles" && bad.problem.starts_with("profile 1: max_th"), "{bad}");
        assert_eq!(error(Params { profiles: Vec::new(), ..good.clone() }).field, "profiles");
        let table = Selector::Dscp(Box::new([3; 64]));
        assert!(error(Params { selector: table, ..good.clone() }).problem.contains("only 3"));
        let bytes = Thresholds::Bytes { min: Bytes::new(1), max: Bytes::new(2) };
        let mixed = vec![profile(30, 60), profile(20, 40), Profile { thresholds: bytes, ..profile(1, 2) }];
        assert!(error(Params { profiles: mixed, ..good.clone() }).problem.contains("another unit"));
        let early = EarlyDrop { weight: Probability::ZERO, ..good.early };
        assert_eq!(error(Params { early, ..good }).field, "weight");
    }
}

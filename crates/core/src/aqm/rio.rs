//! RIO: RED with an average for each of three drop precedences.
//!
//! *Law*: the curve of its colour decides on a packet, at the average of its colour. Coupled, the average of a
//! colour counts its own packets and those of better colours: green counts green, yellow counts green and yellow,
//! red counts all; so green is never dropped for what yellow and red do. Uncoupled (RIO-DC), each average counts its
//! own colour only.
//! *Source*: Clark and Fang, "Explicit Allocation of Best-Effort Packet Delivery Service" (1998), section III, for
//! two precedences; RFC 2963 appendix A.1 for three; Seddigh, Nandy and Pieda (1999) for RIO-DC.
//! *Units*: as [`red`](crate::red).
//! *Cost*: O(1) an arrival: up to three averages, one curve, one draw. No allocation.
//! *Notes*: an average is idle, and decays, while none of the packets it counts is queued. The colour of a packet
//! must not change between its arrival and its departure.
//! *See also*: [`red`](crate::red): one average and one curve; [`wred`](crate::wred): one average of the whole queue
//! and a curve for each precedence.
//!
//! ```
//! use tidegate_core::{aqm::AqmFifo, fifo::Limit, rio::{Params, Rio}};
//! # use tidegate_core::*;
//! # struct P; impl Packet for P { fn size(&self) -> Bytes { Bytes::new(1500) } fn flow(&self) -> FlowKey { FlowKey::default() } }
//! // The bottleneck of RFC 2963's simulations.
//! let rio = Rio::new(Params::rfc2963(), 1, "er1").unwrap();
//! let queue: AqmFifo<P, Rio> = AqmFifo::new(Limit::packets(1_000), rio);
//! assert_eq!(queue.aqm().average(Colour::Green).as_f64(), 0.0);
//! ```

use crate::aqm::{Aqm, Verdict, Verdicts};
use crate::packet::{Colour, Packet};
use crate::params::ParamError;
use crate::probability::Probability;
use crate::qdisc::Backlog;
use crate::random::Stream;
use crate::red::{AboveMax, Average, Dropper, EarlyDrop, Level, Profile, Thresholds};
use alloc::format;
use tidegate_units::{Instant, Span};

/// The colours, best first.
const COLOURS: [Colour; 3] = [Colour::Green, Colour::Yellow, Colour::Red];

/// Which packets an average counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Coupling {
    /// Those of its colour and of better ones (RIO-C).
    #[default]
    Coupled,
    /// Those of its colour only (RIO-DC).
    Uncoupled,
}

/// The parameters of RIO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The curve of green packets.
    pub green: Profile,
    /// The curve of yellow packets.
    pub yellow: Profile,
    /// The curve of red packets.
    pub red: Profile,
    /// Which packets an average counts.
    pub coupling: Coupling,
    /// Parameters of the averages and of the drops.
    pub early: EarlyDrop,
}

impl Params {
    /// The bottleneck of RFC 2963's simulations (appendix A.1): red 100 to 200 packets, yellow 200 to 400, green 400
    /// to 800, at 0.1, 0.05 and 0.02, weight 0.002; what the RFC leaves open as Clark and Fang have it: coupled, a
    /// cliff, uniform. The typical packet is 1500 B at 70 Mbit/s.
    pub const fn rfc2963() -> Self {
        const fn profile(min: u64, max: u64, hundredths: u64) -> Profile {
            let max_p = match Probability::from_ratio(hundredths, 100) {
                Some(p) => p,
                None => Probability::ONE,
            };
            Profile { thresholds: Thresholds::Packets { min, max }, max_p }
        }
        Self {
            green: profile(400, 800, 2),
            yellow: profile(200, 400, 5),
            red: profile(100, 200, 10),
            coupling: Coupling::Coupled,
            early: EarlyDrop {
                above_max: AboveMax::Cliff,
                idle_packet: Span::from_micros(171),
                ..EarlyDrop::RECOMMENDED
            },
        }
    }
    /// Checks the parameters.
    ///
    /// # Errors
    /// Names the precedence (`green`, `yellow`, `red`) or the field (`weight`, `mean`) that cannot.
    pub fn validate(&self) -> Result<(), ParamError> {
        for (field, profile) in [("green", self.green), ("yellow", self.yellow), ("red", self.red)] {
            profile.validate().map_err(|error| ParamError::new(field, format!("{error}")))?;
        }
        self.early.validate()
    }
    const fn profile(&self, colour: Colour) -> &Profile {
        match colour {
            Colour::Green => &self.green,
            Colour::Yellow => &self.yellow,
            Colour::Red => &self.red,
        }
    }
}

/// The state of one colour.
#[derive(Clone, Debug)]
struct Lane {
    average: Average,
    dropper: Dropper,
    /// The queued packets of this colour.
    queue: Backlog,
}

/// RIO. See the [module](self).
#[derive(Clone, Debug)]
pub struct Rio {
    params: Params,
    lanes: [Lane; 3],
}

impl Rio {
    /// RIO for an empty queue, drawing from random streams that begin with `name` under `seed`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params, seed: u64, name: &str) -> Result<Self, ParamError> {
        Self::drawing_from(params, |colour| Self::stream(seed, name, colour))
    }
    /// The random stream of `colour` in RIO whose streams begin with `name` under `seed`.
    pub fn stream(seed: u64, name: &str, colour: Colour) -> Stream {
        Stream::named(seed, &format!("{name}.{colour:?}"))
    }
    /// RIO for an empty queue, drawing for each colour from the random stream that `streams` has for it.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn drawing_from(params: Params, streams: impl Fn(Colour) -> Stream) -> Result<Self, ParamError> {
        params.validate()?;
        let lanes = COLOURS.map(|colour| Lane {
            average: Average::new(params.early.weight, params.early.idle_packet),
            dropper: Dropper::new(*params.profile(colour), params.early.above_max, streams(colour)),
            queue: Backlog::default(),
        });
        Ok(Self { params, lanes })
    }
    /// The parameters in force.
    pub fn params(&self) -> &Params {
        &self.params
    }
    /// Puts other parameters into force; averages and counts are kept.
    ///
    /// # Errors
    /// As [`Params::validate`]; then nothing has changed.
    pub fn set_params(&mut self, params: Params) -> Result<(), ParamError> {
        params.validate()?;
        for (lane, colour) in self.lanes.iter_mut().zip(COLOURS) {
            lane.average.set_weight(params.early.weight);
            lane.average.set_idle_packet(params.early.idle_packet);
            lane.dropper.set_profile(*params.profile(colour), params.early.above_max);
        }
        self.params = params;
        Ok(())
    }
    /// The average that decides on packets of `colour`.
    pub fn average(&self, colour: Colour) -> Level {
        self.lanes[colour as usize].average.level()
    }
    /// The queued packets of `colour`.
    pub fn queue(&self, colour: Colour) -> Backlog {
        self.lanes[colour as usize].queue
    }
    /// The verdicts on packets of `colour` so far.
    pub fn verdicts(&self, colour: Colour) -> &Verdicts {
        self.lanes[colour as usize].dropper.verdicts()
    }
    /// The averages that count a packet of `colour`.
    fn counting(&self, colour: Colour) -> core::ops::Range<usize> {
        let own = colour as usize;
        match self.params.coupling {
            Coupling::Coupled => own..3,
            Coupling::Uncoupled => own..own + 1,
        }
    }
    /// The packets that the average of lane `lane` counts.
    fn counted(&self, lane: usize) -> Backlog {
        match self.params.coupling {
            Coupling::Uncoupled => self.lanes[lane].queue,
            Coupling::Coupled => self.lanes[..=lane].iter().fold(Backlog::default(), |sum, lane| Backlog {
                packets: sum.packets + lane.queue.packets,
                bytes: sum.bytes + lane.queue.bytes,
            }),
        }
    }
}

impl<P: Packet> Aqm<P> for Rio {
    fn on_arrival(&mut self, now: Instant, packet: &P, _queue: Backlog) -> Verdict {
        let colour = packet.colour();
        for lane in self.counting(colour) {
            let counted = self.counted(lane);
            let level = self.params.profile(COLOURS[lane]).thresholds.measure(counted);
            self.lanes[lane].average.on_arrival(now, level);
        }
        let queue = self.counted(colour as usize);
        let lane = &mut self.lanes[colour as usize];
        let zone = lane.dropper.zone_at(lane.average.level(), queue);
        lane.dropper.decide(&self.params.early, zone, packet)
    }

    fn on_admission(&mut self, _now: Instant, packet: &P) {
        let colour = packet.colour();
        self.lanes[colour as usize].queue.add(packet.size());
        for lane in self.counting(colour) {
            self.lanes[lane].average.on_busy();
        }
    }

    fn on_departure(&mut self, now: Instant, packet: &P, _queue: Backlog) {
        let colour = packet.colour();
        self.lanes[colour as usize].queue.remove(packet.size());
        for lane in self.counting(colour) {
            if self.counted(lane).is_empty() {
                self.lanes[lane].average.on_empty(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::DropReason;
    use tidegate_units::Bytes;

    struct P(Colour);
    impl Packet for P {
        fn size(&self) -> Bytes {
            Bytes::new(1_500)
        }
        fn flow(&self) -> crate::FlowKey {
            crate::FlowKey::default()
        }
        fn colour(&self) -> Colour {
            self.0
        }
    }

    /// Weight 1, so that an average is the queue; cliffs at 10, 20 and 40 packets, and hardly a chance before.
    fn sharp(coupling: Coupling) -> Rio {
        let at = |max| Profile {
            thresholds: Thresholds::Packets { min: max - 1, max },
            max_p: Probability::from_bits(1).unwrap(),
        };
        let params = Params {
            green: at(40),
            yellow: at(20),
            red: at(10),
            coupling,
            early: EarlyDrop { weight: Probability::ONE, ..Params::rfc2963().early },
        };
        Rio::new(params, 1, "test").unwrap()
    }

    /// How many of `n` packets of `colour` get in, one after the other.
    fn push(rio: &mut Rio, colour: Colour, n: u64) -> u64 {
        let packet = P(colour);
        (0..n)
            .filter(|_| {
                let admit = rio.on_arrival(Instant::ZERO, &packet, Backlog::default()) == Verdict::Admit;
                if admit {
                    rio.on_admission(Instant::ZERO, &packet);
                }
                admit
            })
            .count() as u64
    }

    #[test]
    fn coupled_averages_count_better_colours() {
        let mut rio = sharp(Coupling::Coupled);
        // Red sees all: 10 get in. Yellow does not see them: 20. Green sees neither: 40.
        assert_eq!(push(&mut rio, Colour::Red, 60), 10);
        assert_eq!(push(&mut rio, Colour::Yellow, 60), 20);
        assert_eq!(push(&mut rio, Colour::Green, 60), 40);
        // The other way round, 5 green leave space for 15 yellow, and those for no red.
        let mut rio = sharp(Coupling::Coupled);
        assert_eq!(push(&mut rio, Colour::Green, 5), 5);
        assert_eq!(push(&mut rio, Colour::Yellow, 60), 15);
        assert_eq!(push(&mut rio, Colour::Red, 60), 0);
        assert_eq!(rio.verdicts(Colour::Red).forced, 60);
    }

    #[test]
    fn uncoupled_averages_count_their_own() {
        let mut rio = sharp(Coupling::Uncoupled);
        assert_eq!(push(&mut rio, Colour::Green, 5), 5);
        assert_eq!(push(&mut rio, Colour::Yellow, 60), 20);
        assert_eq!(push(&mut rio, Colour::Red, 60), 10);
    }

    #[test]
    fn departures_make_room() {
        let mut rio = sharp(Coupling::Coupled);
        push(&mut rio, Colour::Green, 10);
        assert_eq!(push(&mut rio, Colour::Red, 1), 0);
        rio.on_departure(Instant::ZERO, &P(Colour::Green), Backlog::default());
        assert_eq!(push(&mut rio, Colour::Red, 2), 1);
        assert_eq!(rio.queue(Colour::Red).packets, 1);
    }

    #[test]
    fn the_rfcs_values() {
        // Averages of 150, 300 and 600 packets lie in the middle: half of 0.1, 0.05, 0.02.
        use crate::red::{Curve, Zone};
        let params = Params::rfc2963();
        for (colour, packets, p) in [(Colour::Red, 150, 0.05), (Colour::Yellow, 300, 0.025), (Colour::Green, 600, 0.01)]
        {
            let Zone::Chance(got) =
                Curve::new(*params.profile(colour), params.early.above_max).zone(Level::whole(packets))
            else {
                panic!("not chance")
            };
            assert!((got.as_f64() - p).abs() < 1e-8, "{colour:?} {got}");
        }
        assert_eq!(params.validate(), Ok(()));
    }

    #[test]
    fn errors_name_the_precedence() {
        let good = Params::rfc2963();
        let bad = Profile { thresholds: Thresholds::Packets { min: 3, max: 3 }, ..good.green };
        assert_eq!(Params { yellow: bad, ..good }.validate().unwrap_err().field, "yellow");
        let bad = Profile { max_p: Probability::ZERO, ..good.green };
        let error = Params { red: bad, ..good }.validate().unwrap_err();
        assert!(error.field == "red" && error.problem.starts_with("max_p"), "{error}");
        let early = EarlyDrop { weight: Probability::ZERO, ..good.early };
        assert_eq!(Params { early, ..good }.validate().unwrap_err().field, "weight");
    }

    #[test]
    fn an_unseen_colour_does_not_disturb() {
        // The green average moves by green arrivals only.
        let early = EarlyDrop { weight: Probability::ONE, ..Params::rfc2963().early };
        let mut rio = Rio::new(Params { early, ..Params::rfc2963() }, 1, "test").unwrap();
        push(&mut rio, Colour::Green, 3);
        push(&mut rio, Colour::Red, 50);
        assert_eq!(rio.average(Colour::Green), Level::whole(2));
        assert_eq!(rio.average(Colour::Red), Level::whole(52));
        let verdict = rio.on_arrival(Instant::ZERO, &P(Colour::Green), Backlog::default());
        assert!(verdict == Verdict::Admit && verdict != Verdict::Drop(DropReason::Early));
    }
}

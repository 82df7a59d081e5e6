//! RIO: RED with an average for each of three drop precedences.
//!
//! *Law*: a packet of a colour is judged by that colour's curve at that colour's average. Coupled, the average of a
//! colour counts its own packets and those of better colours: green counts green, yellow counts green and yellow,
//! red counts all; so green is never dropped for what yellow and red do. Uncoupled (RIO-DC), each average counts its
//! own colour only.
//! *Source*: Clark and Fang, "Explicit Allocation of Best-Effort Packet Delivery Service" (1998), section III, for
//! two precedences; RFC 2963 appendix A.1 for three; Seddigh, Nandy and Pieda (1999) for RIO-DC.
//! *Units*: as [`red`](crate::red).
//! *Cost*: O(1) an arrival: up to three averages, one curve, one draw. No allocation.
//! *Notes*: an average is idle, and decays, while none of the packets it counts is inside. The colour of a packet
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
use crate::red::{
    AboveMax, Average, Curve, Level, Signal, Sizing, Spacer, Spacing, Thresholds, decide, validate_fraction,
};
use alloc::format;
use tidegate_units::{Instant, Span};

/// The colours, best first.
const COLOURS: [Colour; 3] = [Colour::Green, Colour::Yellow, Colour::Red];

/// The curve of one drop precedence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Precedence {
    /// Where dropping begins and where it is at its most.
    pub thresholds: Thresholds,
    /// The base probability at the upper threshold.
    pub max_p: Probability,
}

impl Precedence {
    /// Whether it can work, as an error of `field`.
    pub(crate) fn validate(&self, field: &'static str) -> Result<(), ParamError> {
        self.thresholds
            .validate()
            .and_then(|()| validate_fraction("max_p", self.max_p))
            .map_err(|error| ParamError::new(field, format!("{error}")))
    }
}

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
    pub green: Precedence,
    /// The curve of yellow packets.
    pub yellow: Precedence,
    /// The curve of red packets.
    pub red: Precedence,
    /// Which packets an average counts.
    pub coupling: Coupling,
    /// The weight of a new sample in each average.
    pub weight: Probability,
    /// What happens above an upper threshold.
    pub above_max: AboveMax,
    /// How drops are spread.
    pub spacing: Spacing,
    /// Whether large packets are dropped more often.
    pub sizing: Sizing,
    /// What an early drop does to a packet that understands ECN.
    pub signal: Signal,
    /// The time a typical packet takes on the link, by which idle time is counted; zero: each arrival at an
    /// empty queue counts for one.
    pub idle_packet: Span,
}

impl Params {
    /// The bottleneck of RFC 2963's simulations (appendix A.1): red 100 to 200 packets, yellow 200 to 400, green 400
    /// to 800, at 0.1, 0.05 and 0.02, weight 0.002; what the RFC leaves open as Clark and Fang have it: coupled, a
    /// cliff, uniform. The typical packet is 1500 B at 70 Mbit/s.
    pub const fn rfc2963() -> Self {
        const fn precedence(min: u64, max: u64, hundredths: u64) -> Precedence {
            let max_p = match Probability::from_ratio(hundredths, 100) {
                Some(p) => p,
                None => Probability::ONE,
            };
            Precedence { thresholds: Thresholds::Packets { min, max }, max_p }
        }
        Self {
            green: precedence(400, 800, 2),
            yellow: precedence(200, 400, 5),
            red: precedence(100, 200, 10),
            coupling: Coupling::Coupled,
            weight: match Probability::from_ratio(2, 1_000) {
                Some(weight) => weight,
                None => Probability::ONE,
            },
            above_max: AboveMax::Cliff,
            spacing: Spacing::Uniform,
            sizing: Sizing::PerPacket,
            signal: Signal::Drop,
            idle_packet: Span::from_micros(171),
        }
    }
    /// Whether they can work.
    ///
    /// # Errors
    /// Names the precedence (`green`, `yellow`, `red`) or the field (`weight`, `mean`) that cannot.
    pub fn validate(&self) -> Result<(), ParamError> {
        self.green.validate("green")?;
        self.yellow.validate("yellow")?;
        self.red.validate("red")?;
        validate_fraction("weight", self.weight)?;
        self.sizing.validate()
    }
    const fn precedence(&self, colour: Colour) -> &Precedence {
        match colour {
            Colour::Green => &self.green,
            Colour::Yellow => &self.yellow,
            Colour::Red => &self.red,
        }
    }
}

/// What belongs to one colour.
#[derive(Clone, Debug)]
struct Lane {
    average: Average,
    curve: Curve,
    spacer: Spacer,
    /// The packets of this colour that are inside.
    queue: Backlog,
    verdicts: Verdicts,
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
        params.validate()?;
        let lanes = COLOURS.map(|colour| Lane {
            average: Average::new(params.weight, params.idle_packet),
            curve: curve(&params, colour),
            spacer: Spacer::new(Stream::named(seed, &format!("{name}.{colour:?}"))),
            queue: Backlog::default(),
            verdicts: Verdicts::default(),
        });
        Ok(Self { params, lanes })
    }
    /// The parameters in force.
    pub fn params(&self) -> &Params {
        &self.params
    }
    /// Takes other parameters; averages and counts are kept.
    ///
    /// # Errors
    /// As [`Params::validate`]; then nothing has changed.
    pub fn set_params(&mut self, params: Params) -> Result<(), ParamError> {
        params.validate()?;
        for (lane, colour) in self.lanes.iter_mut().zip(COLOURS) {
            lane.average.set_weight(params.weight);
            lane.average.set_idle_packet(params.idle_packet);
            lane.curve = curve(&params, colour);
        }
        self.params = params;
        Ok(())
    }
    /// The average by which packets of `colour` are judged.
    pub fn average(&self, colour: Colour) -> Level {
        self.lanes[colour as usize].average.level()
    }
    /// The packets of `colour` that are inside.
    pub fn queue(&self, colour: Colour) -> Backlog {
        self.lanes[colour as usize].queue
    }
    /// What was decided on packets of `colour` so far.
    pub fn verdicts(&self, colour: Colour) -> &Verdicts {
        &self.lanes[colour as usize].verdicts
    }
    /// The averages that count a packet of `colour`.
    fn counting(&self, colour: Colour) -> core::ops::Range<usize> {
        let own = colour as usize;
        match self.params.coupling {
            Coupling::Coupled => own..3,
            Coupling::Uncoupled => own..own + 1,
        }
    }
    /// What the average of lane `lane` counts.
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

fn curve(params: &Params, colour: Colour) -> Curve {
    let precedence = params.precedence(colour);
    Curve::new(precedence.thresholds, precedence.max_p, params.above_max)
}

impl<P: Packet> Aqm<P> for Rio {
    fn on_arrival(&mut self, now: Instant, packet: &P, _queue: Backlog) -> Verdict {
        let colour = packet.colour();
        for lane in self.counting(colour) {
            let counted = self.counted(lane);
            let level = self.params.precedence(COLOURS[lane]).thresholds.measure(counted);
            self.lanes[lane].average.on_arrival(now, level);
        }
        let Params { spacing, sizing, signal, .. } = self.params;
        let lane = &mut self.lanes[colour as usize];
        let zone = lane.curve.zone(lane.average.level());
        let verdict = decide(&mut lane.spacer, zone, spacing, sizing, signal, packet);
        lane.verdicts.count(verdict)
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
        let at = |max| Precedence {
            thresholds: Thresholds::Packets { min: max - 1, max },
            max_p: Probability::from_bits(1).unwrap(),
        };
        let params = Params {
            green: at(40),
            yellow: at(20),
            red: at(10),
            coupling,
            weight: Probability::ONE,
            ..Params::rfc2963()
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
        // The other way round, 5 green leave room for 15 yellow, and those for no red.
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
        use crate::red::Zone;
        let params = Params::rfc2963();
        for (colour, packets, p) in [(Colour::Red, 150, 0.05), (Colour::Yellow, 300, 0.025), (Colour::Green, 600, 0.01)]
        {
            let Zone::Chance(got) = curve(&params, colour).zone(Level::whole(packets)) else { panic!("not chance") };
            assert!((got.as_f64() - p).abs() < 1e-8, "{colour:?} {got}");
        }
        assert_eq!(params.validate(), Ok(()));
    }

    #[test]
    fn errors_name_the_precedence() {
        let good = Params::rfc2963();
        let bad = Precedence { thresholds: Thresholds::Packets { min: 3, max: 3 }, ..good.green };
        assert_eq!(Params { yellow: bad, ..good }.validate().unwrap_err().field, "yellow");
        let bad = Precedence { max_p: Probability::ZERO, ..good.green };
        let error = Params { red: bad, ..good }.validate().unwrap_err();
        assert!(error.field == "red" && error.problem.starts_with("max_p"), "{error}");
        assert_eq!(Params { weight: Probability::ZERO, ..good }.validate().unwrap_err().field, "weight");
    }

    #[test]
    fn an_unseen_colour_does_not_disturb() {
        // The green average moves by green arrivals only.
        let mut rio = Rio::new(Params { weight: Probability::ONE, ..Params::rfc2963() }, 1, "test").unwrap();
        push(&mut rio, Colour::Green, 3);
        push(&mut rio, Colour::Red, 50);
        assert_eq!(rio.average(Colour::Green), Level::whole(2));
        assert_eq!(rio.average(Colour::Red), Level::whole(52));
        let verdict = rio.on_arrival(Instant::ZERO, &P(Colour::Green), Backlog::default());
        assert!(verdict == Verdict::Admit && verdict != Verdict::Drop(DropReason::Early));
    }
}

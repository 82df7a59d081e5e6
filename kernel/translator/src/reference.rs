//! The disciplines of the core behind the records that the C reads and writes.

use std::ops::Deref;

use tidegate_core::aqm::AqmFifo;
use tidegate_core::ared::{self, Ared};
use tidegate_core::cake::{self, AckFilter, Cake, Framing, Isolation, Tins, Wire};
use tidegate_core::cbq::Cbq;
use tidegate_core::codel::{self, CoDel};
use tidegate_core::drr::{self, Drr};
use tidegate_core::dualpi2::{self, DualPi2, Nqb, Scheduler, protection};
use tidegate_core::elephants::{self, FlowBy, Measure, PairRule, ValueTable};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::flow_table;
use tidegate_core::fq_codel::{self, FqCodel};
use tidegate_core::fq_pie::{self, FqPie};
use tidegate_core::ingress::{self, Ingress};
use tidegate_core::marker::{Action, Actions, Conditioner, Marker, Point};
use tidegate_core::meredt::{self, Meredt};
use tidegate_core::meter::{AnyMeter, Mode, NoMeter};
use tidegate_core::nested::Nested;
use tidegate_core::pie::{self, Pie};
use tidegate_core::probability::Probability;
use tidegate_core::qdisc::{DropReason, Event, Outlet};
use tidegate_core::random::Stream;
use tidegate_core::ras::{self, Curve, Ras};
use tidegate_core::red::{self, AboveMax, EarlyDrop, Profile, Red, Signal, Sizing, Spacing, Thresholds};
use tidegate_core::rfc4115::{self, Rfc4115};
use tidegate_core::rio::{self, Coupling, Rio};
use tidegate_core::sfq::{self, Sfq};
use tidegate_core::srtcm::{self, SrTcm};
use tidegate_core::step::Step;
use tidegate_core::tbf::{self, Tbf};
use tidegate_core::trtcm::{self, TrTcm};
use tidegate_core::tswtcm::{self, TswTcm};
use tidegate_core::wred::{self, Selector, Wred};
use tidegate_core::{
    Bytes, ClassId, Colour, Deadline, Dscp, Ecn, FlowKey, Instant, Packet, ParamError, Qdisc, Rate, Span, packet_fields,
};
use tidegate_kernel::options::{
    ARED, CAKE, CODEL, DRR, DUALPI2, FIFO, FQ_CODEL, FQ_PIE, INGRESS, MERED, Options, PIE, RAS, RED, RIO, SFQ, TBF,
    WRED,
};

use super::classes::{Classes, set_rate};
use super::promises::{Promises, note_ended};
use super::trees::{self, Tree};

/// An operation: what, the time in nanoseconds, and four numbers: of an arrival the size, its service (code point and bits of
/// congestion), the key of its flow and that of its pair of hosts; of a change the rate. For CAKE the second has in bit 8 whether it is an
/// acknowledgement without data, and in its upper half the packets that it is on the line. With FBQ an arrival has its class, its service
/// and the key of its host in 16, 16 and 32 bits of the second, and its profile in place of the fourth, in the upper half of which is the
/// number of its promise; a change has the number of a class, plus 1, in place of the second. A leaf of CBQ that gets a class, or with
/// rate 0 loses it, has its number, plus 1, in place of the second, the priority with the place in the round above 32 bits in place of the
/// third, and whether it borrows in place of the fourth. Of another promise there are its
/// place, with its class in the upper half, minimum, flows and number; before it, as an operation of its own, its steps of
/// preference, the rate below which its flows are displaced, and the class to which, plus 1.
pub type Operation = [u64; 6];
/// The effects of a call, in this order: the number of the packet that left plus 1, or whether one was queued, with FBQ in the
/// upper two bits whether the queue of a flow crossed a threshold; twice the
/// number of packets dropped, plus 1 if one was marked; the sum of the numbers of those dropped, each plus 1; the deadline;
/// the packets and bytes that wait. Arrivals are numbered from 0.
pub type Decision = [u64; DECISION];

pub const DECISION: usize = 6;
/// An operation and its decision.
pub const CALL: usize = 6 + DECISION;
pub const ENQUEUE: u64 = 1;
pub const DEQUEUE: u64 = 2;
pub const SET_RATE: u64 = 3;
/// Begins a script: the options are next.
pub const BEGIN: u64 = 4;
pub const PROMISE: u64 = 7;
pub const TERMS: u64 = 8;
pub const LEAF: u64 = 9;
/// Tells the counts of the class with the number of the second, less 1, of CBQ, in place of a decision.
pub const COUNTS: u64 = 10;

/// The deadline of a queue that waits for nothing.
pub const IDLE: u64 = u64::MAX;

/// Options, from which the discipline of the core is made.
pub struct Specification<'a>(pub &'a Options);

impl Deref for Specification<'_> {
    type Target = Options;

    fn deref(&self) -> &Options {
        self.0
    }
}

impl Specification<'_> {
    fn limit(&self) -> Limit {
        Limit { packets: self.limit_packets, bytes: Bytes::new(self.limit_bytes) }
    }
    fn signal(&self) -> Signal {
        if self.marks == 1 { Signal::Mark } else { Signal::Drop }
    }
    fn sizing(&self) -> Sizing {
        if self.mean == 0 { Sizing::PerPacket } else { Sizing::PerByte { mean: Bytes::new(self.mean) } }
    }
    fn codel(&self) -> codel::Params {
        codel::Params {
            target: Span::from_nanos(self.target),
            interval: Span::from_nanos(self.interval),
            mtu: Bytes::new(self.mtu),
            signal: self.signal(),
            limit: self.limit(),
            longest: Some(Span::from_nanos(self.longest)).filter(|_| self.longest != 0),
        }
    }
    /// A curve by its thresholds and its highest probability.
    fn curve(&self, min: u64, max: u64, max_p: u64) -> Profile {
        let thresholds = if self.in_bytes == 1 {
            Thresholds::Bytes { min: Bytes::new(min), max: Bytes::new(max) }
        } else {
            Thresholds::Packets { min, max }
        };
        Profile { thresholds, max_p: Probability::saturating_from_bits(max_p) }
    }
    fn early(&self) -> EarlyDrop {
        EarlyDrop {
            weight: Probability::saturating_from_bits(self.weight),
            above_max: match self.above_max {
                0 => AboveMax::Cliff,
                1 => AboveMax::Gentle,
                _ => AboveMax::Mark,
            },
            spacing: if self.spacing == 1 { Spacing::Geometric } else { Spacing::Uniform },
            sizing: self.sizing(),
            signal: self.signal(),
            idle_packet: Span::from_nanos(self.idle_packet),
        }
    }
    fn red(&self) -> Result<Red, ParamError> {
        let profile = self.curve(self.min, self.max, self.max_p);
        Red::drawing_from(red::Params { profile, early: self.early() }, self.stream())
    }
    /// The curves of green, yellow and red packets.
    fn curves(&self) -> [Profile; 3] {
        [
            self.curve(self.min, self.max, self.max_p),
            self.curve(self.yellow_min, self.yellow_max, self.yellow_max_p),
            self.curve(self.red_min, self.red_max, self.red_max_p),
        ]
    }
    /// The random stream of a colour.
    fn stream_of(&self, colour: usize) -> Stream {
        let [high, low, step_high, step_low] = match colour {
            0 => self.random,
            other => std::array::from_fn(|at| self.more_random[(other - 1) * 4 + at]),
        };
        Stream::from_parts(high, low, step_high, step_low)
    }
    fn wred(&self) -> Result<Wred, ParamError> {
        let params = wred::Params { early: self.early(), ..wred::Params::new(self.curves().into(), Selector::Colour) };
        Wred::drawing_from(params, |profile| self.stream_of(profile))
    }
    fn rio(&self) -> Result<Rio, ParamError> {
        let [green, yellow, red] = self.curves();
        let coupling = if self.coupled == 1 { Coupling::Coupled } else { Coupling::Uncoupled };
        let params = rio::Params { green, yellow, red, coupling, early: self.early() };
        Rio::drawing_from(params, |colour| self.stream_of(colour as usize))
    }
    fn stream(&self) -> Stream {
        let [high, low, step_high, step_low] = self.random;
        Stream::from_parts(high, low, step_high, step_low)
    }
    fn pie(&self) -> pie::Params {
        pie::Params {
            target: Span::from_nanos(self.target),
            update: Span::from_nanos(self.interval),
            burst: Span::from_nanos(self.allowance),
            alpha: u32::try_from(self.alpha).unwrap_or(u32::MAX),
            beta: u32::try_from(self.beta).unwrap_or(u32::MAX),
            mean: Bytes::new(self.least_queue_mean),
            sizing: self.sizing(),
            signal: self.signal(),
            most_marked: Probability::saturating_from_bits(self.most_marked),
            limit: self.limit(),
        }
    }
    fn dualpi2(&self) -> dualpi2::Params {
        let span = Span::from_nanos;
        let protection = protection::Params {
            critical: span(self.critical),
            score: span(self.score),
            ageing: Bytes::new(self.ageing),
        };
        dualpi2::Params {
            target: span(self.target),
            update: span(self.interval),
            alpha: u32::try_from(self.alpha).unwrap_or(u32::MAX),
            beta: u32::try_from(self.beta).unwrap_or(u32::MAX),
            coupling: u32::try_from(self.coupling).unwrap_or(u32::MAX),
            step: Step { from: span(self.step_from), full: span(self.step_full) },
            scheduler: match u32::try_from(self.parts) {
                Ok(0) => Scheduler::TimeShifted { shift: span(self.shift) },
                parts => Scheduler::Weighted { parts: parts.unwrap_or(u32::MAX) },
            },
            nqb: if self.nqb == 1 { Nqb::LowLatency } else { Nqb::ByEcn },
            protection: Some(protection).filter(|_| self.critical != 0),
            limit: self.limit(),
        }
    }
    fn mered(&self) -> Result<meredt::Params, ParamError> {
        let pair = PairRule { threshold: Bytes::new(self.pair_threshold), rate: Rate::from_bps(self.pair_rate) };
        let point = |point: &u64| (Bytes::new(point & ((1 << 48) - 1)), (point >> 48) as u16);
        Ok(meredt::Params {
            elephants: elephants::Params {
                flow_by: if self.by_pair == 1 { FlowBy::HostPair } else { FlowBy::Flow },
                measure: if self.counts_packets == 1 { Measure::Packets } else { Measure::Bytes },
                value: ValueTable::new(self.values.iter().take(self.points as usize).map(point).collect())?,
                table: flow_table::Params {
                    capacity: u32::try_from(self.records).unwrap_or(u32::MAX),
                    idle: Span::from_nanos(self.idle),
                },
                pair: Some(pair).filter(|_| self.pair_threshold != 0),
            },
            limit: self.limit(),
            elephant_limit: Bytes::new(self.elephant_limit),
            floor: Probability::saturating_from_bits(self.floor),
            floor_credit: Bytes::new(self.floor_credit),
            fairness: Probability::saturating_from_bits(self.fairness),
            // Its ARED is made from the options.
            ..meredt::Params::for_link(Rate::from_mbit(10))
        })
    }
    fn ingress(&self) -> Result<ingress::Params, ParamError> {
        let meredt::Params { elephants, floor, floor_credit, fairness, .. } = self.mered()?;
        // Its ARED is made from the options, but for the packet.
        let ared = ared::Params { packet: Bytes::new(self.mtu), ..ared::Params::for_link(Rate::from_mbit(10)) };
        let (rate, limit) = (Rate::from_bps(self.rate), Bytes::new(self.burst));
        Ok(ingress::Params { rate, limit, elephants, ared, floor, burst: floor_credit, fairness })
    }
    fn step(&self) -> Option<Step> {
        (self.step_full != 0).then(|| Step::at(Span::from_nanos(self.step_full)))
    }
    fn cake(&self) -> cake::Params {
        let rate = Some(Rate::from_bps(self.rate)).filter(|rate| !rate.is_zero());
        cake::Params {
            rate,
            // What the rate carries in that time is the depth.
            lateness: rate.and_then(|rate| rate.time_for_ceil(Bytes::new(self.burst))).unwrap_or(Span::ZERO),
            wire: Wire {
                overhead: self.overhead as i16,
                least: Bytes::new(self.least),
                framing: [Framing::None, Framing::Atm, Framing::Ptm][self.framing as usize % 3],
            },
            tins: match self.tins {
                1 => Tins::BestEffort,
                3 => Tins::Diffserv3,
                _ => Tins::Diffserv4,
            },
            hosts: [Isolation::Flows, Isolation::Source, Isolation::Destination, Isolation::Pair]
                [self.hosts as usize % 4],
            codel: self.codel(),
            step: self.step(),
            queues: u32::try_from(self.queues).unwrap_or(u32::MAX),
            quantum: Bytes::new(self.quantum),
            ack_filter: if self.ack_filter == 1 { AckFilter::On } else { AckFilter::Off },
        }
    }
    fn ras(&self) -> ras::Params {
        let ([cir, pir, mir], [cir_th, pir_th, mir_th]) =
            (self.shaping_rates.map(Rate::from_bps), self.shaping_bytes.map(Bytes::new));
        ras::Params {
            curve: if pir.is_zero() {
                Curve::Single { cir, mir, cir_th, mir_th }
            } else {
                Curve::Two { cir, pir, mir, cir_th, pir_th, mir_th }
            },
            buffer: Bytes::new(self.limit_bytes),
            line_rate: mir,
            averaging: Span::from_nanos(self.interval),
            coupling: if self.green == 1 { ras::Coupling::Green } else { ras::Coupling::Uncoupled },
            slack: Span::from_nanos(self.slack),
        }
    }
    /// The discipline, if it is not one with a rate.
    ///
    /// # Errors
    /// As its constructor.
    pub fn discipline<P: Packet + 'static>(&self) -> Result<Option<Box<dyn Qdisc<P>>>, ParamError> {
        if self.kind == RAS
            && self.meter_exit == 2
            && let Some(meter) = self.meter()?
        {
            return Ok(Some(Box::new(Ras::new(self.ras(), Conditioner::new(meter, self.actions()))?)));
        }
        let Some(inner) = self.inside()? else { return Ok(None) };
        let Some(meter) = self.meter()? else { return Ok(Some(inner)) };
        let point = if self.meter_exit == 1 { Point::Exit } else { Point::Entry };
        Ok(Some(Box::new(Marker::new(inner, Conditioner::new(meter, self.actions()), point))))
    }
    /// The actions on packets, by the colour that the meter gives them.
    fn actions(&self) -> Actions {
        let action = |action: u64| match action.checked_sub(2) {
            None if action == 0 => Action::Pass,
            None => Action::Drop,
            Some(dscp) => Action::Mark(Dscp::new(dscp as u8).unwrap_or_default()),
        };
        let [green, yellow, red] = self.0.actions.map(action);
        Actions { green, yellow, red }
    }
    /// The meter, if there is one.
    fn meter(&self) -> Result<Option<AnyMeter>, ParamError> {
        let ([cir, second], [cbs, burst]) = (self.meter_rates.map(Rate::from_bps), self.meter_bursts.map(Bytes::new));
        let mode = if self.meter_aware == 1 { Mode::Aware } else { Mode::Blind };
        let [high, low, step_high, step_low] = self.meter_random;
        let start = Instant::ZERO;
        Ok(Some(match self.meter {
            0 => return Ok(None),
            1 => AnyMeter::SrTcm(SrTcm::new(srtcm::Params { cir, cbs, ebs: burst, mode }, start)?),
            2 => AnyMeter::TrTcm(TrTcm::new(trtcm::Params { cir, cbs, pir: second, pbs: burst, mode }, start)?),
            3 => AnyMeter::Rfc4115(Rfc4115::new(rfc4115::Params { cir, cbs, eir: second, ebs: burst, mode }, start)?),
            _ => {
                let params =
                    tswtcm::Params { ctr: cir, ptr: second, window: Span::from_nanos(self.meter_window), mode };
                AnyMeter::TswTcm(TswTcm::drawing_from(
                    params,
                    start,
                    Stream::from_parts(high, low, step_high, step_low),
                )?)
            }
        }))
    }
    /// The discipline without its meter.
    fn inside<P: Packet + 'static>(&self) -> Result<Option<Box<dyn Qdisc<P>>>, ParamError> {
        let (limit, quantum) = (self.limit(), Bytes::new(self.quantum));
        let interval = Span::from_nanos(self.interval);
        let queues = u32::try_from(self.queues).unwrap_or(u32::MAX);
        Ok(Some(match self.kind {
            RAS => Box::new(Ras::new(self.ras(), Conditioner::new(NoMeter, Actions::default()))?),
            FIFO => Box::new(Fifo::new(limit)),
            CODEL => Box::new(CoDel::new(self.codel())?),
            RED => Box::new(AqmFifo::new(limit, self.red()?)),
            ARED => Box::new(AqmFifo::new(limit, Ared::around(self.red()?, interval)?)),
            MERED => Box::new(Meredt::around(self.mered()?, Ared::around(self.red()?, interval)?)?),
            INGRESS => {
                let ared = Ared::around(self.red()?, interval)?;
                Box::new(AqmFifo::new(limit, Ingress::around(self.ingress()?, ared)?))
            }
            PIE => Box::new(Pie::drawing_from(self.pie(), self.stream())?),
            DRR => Box::new(Drr::new(drr::Params { quantum, limit, step: self.step(), ..drr::Params::default() })?),
            SFQ => {
                let perturb = Some(Span::from_nanos(self.perturb)).filter(|_| self.perturb != 0);
                Box::new(Sfq::new(sfq::Params { queues, quantum, limit, perturb, seed: self.seed })?)
            }
            WRED => Box::new(AqmFifo::new(limit, self.wred()?)),
            RIO => Box::new(AqmFifo::new(limit, self.rio()?)),
            DUALPI2 => Box::new(DualPi2::new(self.dualpi2())?),
            FQ_CODEL => {
                let (codel, step) = (self.codel(), self.step());
                Box::new(FqCodel::new(fq_codel::Params { codel, queues, quantum, step })?)
            }
            FQ_PIE => {
                Box::new(FqPie::drawing_from(fq_pie::Params { pie: self.pie(), queues, quantum }, self.stream())?)
            }
            CAKE => Box::new(Cake::drawing_from(self.cake(), self.stream())?),
            _ => return Ok(None),
        }))
    }
    fn queue(&self) -> Result<Option<Queue>, ParamError> {
        if self.kind != TBF {
            return Ok(self.discipline()?.map(Queue::Other));
        }
        let (rate, burst) = (Rate::from_bps(self.rate), Bytes::new(self.burst));
        Ok(Some(Queue::Tbf(Tbf::new(tbf::Params { rate, burst, limit: self.limit() })?)))
    }
}

/// A packet with its number.
#[derive(Debug)]
pub struct Numbered {
    id: u64,
    size: Bytes,
    flow: FlowKey,
    ecn: Ecn,
    dscp: Dscp,
    colour: Colour,
    class: ClassId,
    profile: u32,
    pure_ack: bool,
    segments: u32,
}

impl Packet for Numbered {
    packet_fields!(size, flow, ecn, mark_ce, dscp, colour, class, profile, pure_ack, segments);
}

/// The parameters of a discipline with classes, beside its options.
#[derive(Clone, Copy, Debug)]
pub enum Structure<'a> {
    /// FBC over FBQ.
    Classes(&'a Classes),
    /// CBQ.
    Tree(&'a Tree),
}

impl Structure<'_> {
    /// As the C reads it after the options.
    pub fn record(&self) -> Vec<u64> {
        match self {
            Self::Classes(classes) => classes.record(),
            Self::Tree(tree) => tree.record(),
        }
    }
}

enum Queue {
    Tbf(Tbf<Numbered>),
    Fbq(Box<Nested<Numbered>>, Promises),
    Cbq(Box<Cbq<Numbered>>, Tree),
    Other(Box<dyn Qdisc<Numbered>>),
}

/// The packets that a call dropped and marked.
#[derive(Default)]
struct Outcome {
    drops: u64,
    which: u64,
    marks: u64,
    /// The number of the packet that arrives, and whether it was dropped before it was queued.
    arriving: Option<u64>,
    refused: bool,
    refuses_at_limits: bool,
    /// Flows that ended.
    ended: Vec<u64>,
    /// The upper two bits of the result: whether the queue of a flow has risen to the upper threshold of feedback, or fallen to the
    /// lower one.
    crossed: u64,
}

impl Outlet<Numbered> for Outcome {
    fn dropped(&mut self, packet: Numbered, reason: DropReason) {
        self.drops += 1;
        self.which += packet.id + 1;
        // Fair queueing drops another packet for one that it has queued, at its limit of flows, and so does the filter of acknowledgements.
        let is_other = matches!(reason, DropReason::FlowLimit | DropReason::AckFiltered);
        self.refused |= self.arriving == Some(packet.id) && (!is_other || self.refuses_at_limits);
    }
    fn event(&mut self, event: Event) {
        self.marks += u64::from(matches!(event, Event::Marked { .. }));
        note_ended(event, &mut self.ended);
        match event {
            Event::QueueAbove { .. } => self.crossed = 1 << 63,
            Event::QueueBelow { .. } => self.crossed = 1 << 62,
            _ => {}
        }
    }
}

/// A discipline of the core, and the number of the next packet.
pub struct Reference {
    queue: Queue,
    next: u64,
    /// The time of the latest packet.
    latest: Instant,
}

impl Reference {
    /// An empty discipline.
    ///
    /// # Errors
    /// As the constructor of the discipline, or for a kind that the twin has not.
    pub fn new(options: &Options, structure: Option<Structure<'_>>) -> Result<Self, String> {
        match structure {
            Some(Structure::Classes(classes)) => {
                return Ok(Self::with(Queue::Fbq(Box::new(classes.discipline()?), Promises::default())));
            }
            Some(Structure::Tree(tree)) => {
                return Ok(Self::with(Queue::Cbq(Box::new(tree.discipline()?), tree.clone())));
            }
            None => {}
        }
        let queue = Specification(options).queue().map_err(|error| error.to_string())?;
        let queue = queue.ok_or_else(|| format!("there is no discipline number {}", options.kind))?;
        Ok(Self::with(queue))
    }

    fn with(queue: Queue) -> Self {
        Self { queue, next: 0, latest: Instant::ZERO }
    }

    /// A discipline that is made already.
    pub fn of(queue: Box<dyn Qdisc<Numbered>>) -> Self {
        Self::with(Queue::Other(queue))
    }

    fn queue(&mut self) -> &mut dyn Qdisc<Numbered> {
        match &mut self.queue {
            Queue::Tbf(queue) => queue,
            Queue::Fbq(queue, _) => &mut **queue,
            Queue::Cbq(queue, _) => &mut **queue,
            Queue::Other(queue) => &mut **queue,
        }
    }

    /// Makes an operation.
    pub fn apply(&mut self, operation: Operation) -> Decision {
        let [what, now, first, second, flow, pair] = operation;
        if let (COUNTS, Queue::Cbq(queue, _)) = (what, &self.queue) {
            return trees::counts(queue, second);
        }
        let is_fbq = matches!(self.queue, Queue::Fbq(..));
        let has_classes = is_fbq || matches!(self.queue, Queue::Cbq(..));
        let now = Instant::from_nanos(now);
        // Changes pass by the queues inside classes, which keep time from running back.
        let now = if has_classes { now.max(self.latest) } else { now };
        if [ENQUEUE, DEQUEUE].contains(&what) {
            self.latest = now;
        }
        let mut outcome = Outcome { refuses_at_limits: is_fbq, ..Outcome::default() };
        let mut result = 0;
        match what {
            ENQUEUE => {
                // One number stands for either host.
                let host = if has_classes { second >> 32 } else { pair };
                let flow = FlowKey { flow, source: host, destination: host };
                let (class, profile) = if has_classes { (second as u16, pair as u32) } else { (0, 0) };
                let class = ClassId(class.into());
                let service = if has_classes { (second >> 16) as u8 } else { second as u8 };
                // Without a discipline in the class all packets are those that its step may mark.
                let is_stepped = matches!(&self.queue, Queue::Fbq(queue, _) if !queue.has_own(class));
                let ecn = if is_stepped { Ecn::Ect1 } else { Ecn::from_bits(service) };
                let dscp = Dscp::new(service >> 2).unwrap_or_default();
                let promise = pair >> 32;
                let packet = Numbered {
                    id: self.next,
                    size: Bytes::new(first),
                    flow,
                    ecn,
                    dscp,
                    colour: dscp.colour(),
                    class,
                    profile,
                    pure_ack: !has_classes && second >> 8 & 1 == 1,
                    segments: if has_classes { 1 } else { (second >> 32) as u32 },
                };
                outcome.arriving = Some(self.next);
                self.next += 1;
                if let Queue::Fbq(queue, _) = &self.queue {
                    // A discipline in a class may drop another packet for this one as well.
                    outcome.refuses_at_limits = !queue.has_own(class);
                }
                if let Queue::Fbq(queue, promises) = &mut self.queue
                    && !queue.has_own(class)
                {
                    promises.arrives(queue.fbc_mut(), now, &packet, promise, &mut outcome.ended);
                }
                self.queue().enqueue(now, packet, &mut outcome);
                result = u64::from(!outcome.refused);
            }
            DEQUEUE => {
                if let Some(packet) = self.queue().dequeue(now, &mut outcome) {
                    result = packet.id + 1;
                }
            }
            TERMS => {
                if let Queue::Fbq(_, promises) = &mut self.queue {
                    promises.set_terms(operation);
                }
            }
            PROMISE => {
                if let Queue::Fbq(queue, promises) = &mut self.queue {
                    promises.change(queue.fbc_mut(), now, operation);
                }
            }
            _ => match &mut self.queue {
                Queue::Tbf(queue) => queue.set_rate(now, Rate::from_bps(first)),
                Queue::Fbq(queue, _) => set_rate(queue.fbc_mut(), now, second, first),
                Queue::Cbq(queue, tree) => tree.apply(queue, now, operation, &mut outcome),
                Queue::Other(_) => {}
            },
        }
        if let Queue::Fbq(queue, promises) = &mut self.queue {
            promises.ended(queue.fbc_mut(), &outcome.ended);
        }
        let queue = self.queue();
        let deadline = match queue.deadline(now) {
            Deadline::Now => 0,
            Deadline::At(at) => at.as_nanos(),
            Deadline::Idle => IDLE,
        };
        let backlog = queue.backlog();
        [
            result | outcome.crossed,
            outcome.drops * 2 + outcome.marks,
            outcome.which,
            deadline,
            backlog.packets,
            backlog.bytes.as_u64(),
        ]
    }
}

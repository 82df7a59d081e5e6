//! From disciplines of a configuration to the options of the program.

use tidegate_config::discipline::meter::Metered;
use tidegate_config::discipline::outside::Outside;
use tidegate_config::discipline::ras::RasQueue;
use tidegate_config::discipline::{Discipline, InKernel, Site};
use tidegate_core::cake::{self, AckFilter, Isolation, Tins};
use tidegate_core::dualpi2::{self, Nqb, Scheduler};
use tidegate_core::elephants::{self, FlowBy, Measure};
use tidegate_core::fifo::Limit;
use tidegate_core::marker::{Action, Actions, Point};
use tidegate_core::meter::{AnyMeter, Mode};
use tidegate_core::random::Stream;
use tidegate_core::ras::{self, Curve};
use tidegate_core::red::{AboveMax, EarlyDrop, Profile, Signal, Sizing, Spacing, Thresholds};
use tidegate_core::rio::{Coupling, Rio};
use tidegate_core::step::Step;
use tidegate_core::two_bucket::TwoBucketRule;
use tidegate_core::wred::Wred;
use tidegate_core::{Bytes, Colour, Dscp, Instant, Rate, Span, codel, ingress, meredt, pie, red};

use super::options::{
    ARED, CAKE, CODEL, DRR, DUALPI2, FIFO, FQ_CODEL, FQ_PIE, INGRESS, MERED, OWN, OWN_NUMBERS, Options, PIE, POINTS,
    RAS, RECORDS, RED, RIO, SFQ, SLOTS, SPACE, WRED,
};

/// The most packets that are queued: the arriving packet needs a slot too, before another is dropped for it.
pub(super) const PACKETS: u64 = SLOTS - 1;
/// The bits of a length in a point of a table of values.
const LENGTH_BITS: u32 = 48;
/// The flows that `drr` in a class tells apart.
const FLOWS_OF_CLASS: u64 = 1_024;

/// Where a discipline is.
pub(super) struct Place<'a> {
    /// For people.
    pub shown: String,
    pub seed: u64,
    /// The name of its random stream, that of the engine.
    pub stream: &'a str,
    /// The flows that `drr` tells apart.
    pub flows: u64,
}

impl<'a> Place<'a> {
    /// At the root of an interface.
    pub fn interface(seed: u64) -> Self {
        Self { shown: "[discipline]".into(), seed, stream: "root", flows: SPACE }
    }

    /// In a class.
    pub fn class(name: &'a str, seed: u64) -> Self {
        Self { shown: format!("class `{name}`"), seed, stream: name, flows: FLOWS_OF_CLASS }
    }
}

/// The options of a discipline with a meter before or behind it.
fn metered(
    inside: &Discipline,
    metered: &Metered,
    point: Point,
    at: &Place<'_>,
    lack: &mut dyn FnMut(String),
) -> Option<Options> {
    let place = &at.shown;
    let stream = format!("{}.inside", at.stream);
    let within = Place { shown: format!("`marker` in {place}"), stream: &stream, ..*at };
    let options = options_of(inside, &within, lack)?;
    if options.meter != 0 || options.kind == OWN {
        // A discipline has the state of one meter.
        let meter = if options.kind == RAS { "`conditioner` of " } else { "" };
        lack(format!("{meter}kind = \"{}\" in `marker` in {place}", inside.kind()));
        return None;
    }
    // A class asks it for one packet a call; the marker would ask for another where it drops one.
    if point == Point::Exit && options.kind == RAS {
        lack(format!("`at = \"exit\"` behind kind = \"ras\" in {place} (its own `conditioner` is a meter behind it)"));
    }
    // Such a mark is decided on before it is known whether the packet passes.
    if point == Point::Exit && options.marks_late() {
        lack(format!(
            "`at = \"exit\"` behind the marks of kind = \"{}\" in {place} (signal = \"drop\" is possible)",
            inside.kind()
        ));
    }
    Some(options.behind(metered, u64::from(point == Point::Exit), at))
}

/// The options of a rate adaptive shaper.
fn shaping(section: &RasQueue, at: &Place<'_>) -> Options {
    let params = section.params();
    let (shaping_rates, shaping_bytes) = match params.curve {
        Curve::Single { cir, mir, cir_th, mir_th } => ([cir, Rate::ZERO, mir], [cir_th, Bytes::ZERO, mir_th]),
        Curve::Two { cir, pir, mir, cir_th, pir_th, mir_th } => ([cir, pir, mir], [cir_th, pir_th, mir_th]),
    };
    let options = Options {
        kind: RAS,
        interval: params.averaging.as_nanos(),
        shaping_rates: shaping_rates.map(Rate::as_bps),
        shaping_bytes: shaping_bytes.map(Bytes::as_u64),
        slack: params.slack.as_nanos(),
        green: u64::from(params.coupling == ras::Coupling::Green),
        ..Options::default()
    };
    let options = options.within(Limit::bytes(params.buffer));
    section.conditioner.as_ref().map_or(options, |conditioner| options.behind(&conditioner.value, 2, at))
}

impl Options {
    /// The options with a meter, which is where `meter_exit` says.
    fn behind(self, metered: &Metered, meter_exit: u64, at: &Place<'_>) -> Self {
        let conditioner = metered.build(&Site { seed: at.seed, name: at.stream.to_owned(), now: Instant::ZERO });
        let (meter, mode, [(rate, burst), (second, more)], window) = match conditioner.meter() {
            AnyMeter::SrTcm(meter) => (1, meter.params().mode, meter.params().buckets(), Span::ZERO),
            AnyMeter::TrTcm(meter) => (2, meter.params().mode, meter.params().buckets(), Span::ZERO),
            AnyMeter::Rfc4115(meter) => (3, meter.params().mode, meter.params().buckets(), Span::ZERO),
            AnyMeter::TswTcm(meter) => {
                let params = meter.params();
                (4, params.mode, [(params.ctr, Bytes::ZERO), (params.ptr, Bytes::ZERO)], params.window)
            }
        };
        let Actions { green, yellow, red } = *conditioner.actions();
        Self {
            meter,
            meter_exit,
            meter_aware: u64::from(mode == Mode::Aware),
            meter_rates: [rate.as_bps(), second.as_bps()],
            meter_bursts: [burst.as_u64(), more.as_u64()],
            meter_window: window.as_nanos(),
            meter_random: Stream::named(at.seed, &format!("{}.meter", at.stream)).parts(),
            actions: [green, yellow, red].map(|action| match action {
                Action::Pass => 0,
                Action::Drop => 1,
                Action::Mark(dscp) => 2 + u64::from(dscp.value()),
            }),
            ..self
        }
    }

    /// Whether packets get code points by their colours.
    pub(super) fn remarks(&self) -> bool {
        self.meter != 0 && self.actions.iter().any(|action| *action >= 2)
    }
}

/// The options of a discipline of another crate, if it has a decider for the kernel.
fn own(section: &Outside, kind: &str, place: &str, lack: &mut dyn FnMut(String)) -> Option<Options> {
    let mut own = [0; OWN_NUMBERS as usize];
    let lacks = match section.kernel() {
        None => "which has no decider for the kernel (tidegate new-qdisc --kernel writes a crate that has one)".into(),
        Some(InKernel { program: [], .. }) => {
            "which was built without clang (install clang and libbpf-dev, and build it again)".into()
        }
        Some(InKernel { numbers, .. }) => match own.get_mut(..numbers.len()) {
            Some(taken) => {
                taken.copy_from_slice(&numbers);
                return Some(Options { kind: OWN, own, ..Options::default() }.within(Limit::packets(PACKETS)));
            }
            None => format!("whose decider has more than {} parameters", own.len()),
        },
    };
    lack(format!("kind = \"{kind}\" in {place}, {lacks}"));
    None
}

/// The options of a discipline. `None` if the program has no such discipline, which is reported to `lack`.
pub(super) fn options_of(discipline: &Discipline, at: &Place<'_>, lack: &mut dyn FnMut(String)) -> Option<Options> {
    let (none, place) = (Options::default(), &at.shown);
    let (options, signal) = match discipline {
        Discipline::Fifo(fifo) => (Options { kind: FIFO, ..none }.within(fifo.limit()), Signal::Drop),
        Discipline::CoDel(section) => controlled(CODEL, &section.params()),
        Discipline::Red(section) => {
            let options = early(&section.params());
            (Options { kind: RED, ..options.within(Limit::bytes(section.limit)) }, section.params().early.signal)
        }
        Discipline::Ared(section) => {
            let params = section.params();
            let options = early(&params.red().ok()?);
            let options = Options { kind: ARED, interval: params.interval.as_nanos(), ..options };
            (options.within(Limit::bytes(section.limit)), params.signal)
        }
        Discipline::Mered(section) => {
            let params = section.params();
            (mered(&params.table_driven(), place, lack)?, params.ared.signal)
        }
        Discipline::Meredt(section) => {
            let params = section.params().ok()?;
            (mered(&params, place, lack)?, params.ared.signal)
        }
        Discipline::IngressFilter(section) => {
            let params = section.params();
            (ingress(&params, place, lack)?.within(section.limit()), params.ared.signal)
        }
        Discipline::Pie(section) => {
            let params = section.params();
            (pie(&params), params.signal)
        }
        Discipline::Drr(section) => {
            let params = section.params();
            let options = Options {
                kind: DRR,
                quantum: params.quantum.as_u64(),
                queues: at.flows,
                step_full: full(params.step),
                ..none
            };
            (options.within(params.limit), Signal::Drop)
        }
        Discipline::Sfq(section) => {
            let params = section.params(at.seed);
            let options = Options {
                kind: SFQ,
                quantum: params.quantum.as_u64(),
                queues: params.queues.into(),
                perturb: params.perturb.map_or(0, Span::as_nanos),
                seed: params.seed,
                ..none
            };
            (options.within(params.limit), Signal::Drop)
        }
        Discipline::FqCodel(section) => {
            let params = section.params();
            let (options, signal) = controlled(FQ_CODEL, &params.codel);
            let (quantum, queues) = (params.quantum.as_u64(), params.queues.into());
            (Options { quantum, queues, step_full: full(params.step), ..options }, signal)
        }
        Discipline::FqPie(section) => {
            let params = section.params();
            let options = Options { kind: FQ_PIE, quantum: params.quantum.as_u64(), ..pie(&params.pie) };
            (Options { queues: params.queues.into(), ..options }, params.pie.signal)
        }
        Discipline::Wred(section) => {
            let params = section.params();
            let curves = [params.profiles[0], params.profiles[1], params.profiles[2]];
            let streams = [1, 2].map(|profile| Wred::stream(at.seed, at.stream, profile));
            let options = coloured(curves, params.early, streams);
            (Options { kind: WRED, ..options.within(Limit::bytes(section.limit)) }, params.early.signal)
        }
        Discipline::Rio(section) => {
            let params = section.params();
            let streams = [Colour::Yellow, Colour::Red].map(|colour| Rio::stream(at.seed, at.stream, colour));
            let options = coloured([params.green, params.yellow, params.red], params.early, streams);
            let coupled = u64::from(params.coupling == Coupling::Coupled);
            (Options { kind: RIO, coupled, ..options.within(Limit::bytes(section.limit)) }, params.early.signal)
        }
        Discipline::Marker(section) => {
            let inside = section.inside.as_ref().map_or_else(Discipline::plain, |inside| (*inside.value.0).clone());
            return metered(&inside, &section.conditioner.value, section.at, at, lack);
        }
        Discipline::Ras(section) => (shaping(section, at), Signal::Drop),
        Discipline::DualPi2(section) => (coupled(&section.params()), Signal::Mark),
        Discipline::Cake(section) => {
            let params = section.params();
            (cake(&params), params.codel.signal)
        }
        Discipline::Outside(section) => (own(section, discipline.kind(), place, lack)?, Signal::Drop),
        other => {
            lack(format!("kind = \"{}\" in {place}", other.kind()));
            return None;
        }
    };
    if options.queues > SPACE {
        lack(format!("{} queues of `{}` in {place} (up to {SPACE} are possible)", options.queues, discipline.kind()));
    }
    let random = match options.kind {
        RED | ARED | PIE | FQ_PIE | MERED | INGRESS | OWN | CAKE => Stream::named(at.seed, at.stream).parts(),
        WRED => Wred::stream(at.seed, at.stream, 0).parts(),
        RIO => Rio::stream(at.seed, at.stream, Colour::Green).parts(),
        _ => [0; 4],
    };
    Some(Options { marks: u64::from(signal == Signal::Mark), random, ..options })
}

/// The delay of a step, 0 for none.
fn full(step: Option<Step>) -> u64 {
    step.map_or(0, |step| step.full.as_nanos())
}

impl Options {
    /// Whether packets are marked when they leave.
    pub fn marks_late(&self) -> bool {
        self.step_full != 0 || self.marks == 1 && [CODEL, FQ_CODEL, CAKE].contains(&self.kind)
    }

    /// Whether packets are marked at all, for which the program at tc is needed.
    pub(super) fn marks_any(&self) -> bool {
        self.marks != 0 || self.step_full != 0
    }

    /// The queues that a discipline needs of [`SPACE`].
    pub(super) fn queues_needed(&self) -> u64 {
        match self.kind {
            DRR | SFQ | FQ_CODEL | FQ_PIE | CAKE => self.queues,
            MERED => 2,
            DUALPI2 => 3,
            _ => 1,
        }
    }

    /// The options with the tins of CAKE.
    pub fn with_tins(self, tins: Tins) -> Self {
        let list = tins.list();
        let mut options = Self { tins: list.len() as u64, tin: [0; 4], tin_of: [0; 2], ..self };
        for (to, tin) in options.tin.iter_mut().zip(list) {
            *to = u64::from(tin.first_share) << 32 | u64::from(tin.weight);
        }
        for point in (0..64).filter_map(Dscp::new) {
            let at = usize::from(point.value());
            options.tin_of[at / 32] |= (tins.of(point) as u64) << (at % 32 * 2);
        }
        options
    }

    fn within(self, limit: Limit) -> Self {
        Self { limit_packets: limit.packets, limit_bytes: limit.bytes.as_u64(), ..self }
    }
}

/// Whether it tells receivers apart, or pairs of hosts.
pub(super) fn tells_receivers(discipline: &Discipline) -> bool {
    let elephants = match discipline {
        Discipline::Mered(section) => section.params().table_driven().elephants,
        Discipline::Meredt(section) => match section.params() {
            Ok(params) => params.elephants,
            Err(_) => return false,
        },
        Discipline::IngressFilter(section) => section.params().elephants,
        Discipline::Cake(section) => return matches!(section.hosts, Isolation::Destination | Isolation::Pair),
        _ => return false,
    };
    elephants.pair.is_some() || elephants.flow_by == FlowBy::HostPair
}

/// `options` with those by which mice are told from elephants.
fn measured(elephants: &elephants::Params, options: Options, place: &str, lack: &mut dyn FnMut(String)) -> Options {
    let records = u64::from(elephants.table.capacity);
    if records > RECORDS {
        lack(format!("{records} records in {place} (up to {RECORDS} are possible)"));
    }
    let points = elephants.value.points();
    if points.iter().any(|point| point.0.as_u64() >> LENGTH_BITS != 0) {
        lack(format!("a mouse of 2^{LENGTH_BITS} bytes in {place}"));
    }
    let mut values = [0; POINTS as usize];
    for (to, (length, value)) in values.iter_mut().zip(points) {
        *to = u64::from(*value) << LENGTH_BITS | length.as_u64();
    }
    let longest_mouse = points.iter().rev().find(|point| point.1 == 0).map_or(Bytes::ZERO, |point| point.0);
    Options {
        longest_mouse: longest_mouse.as_u64(),
        counts_packets: u64::from(elephants.measure == Measure::Packets),
        by_pair: u64::from(elephants.flow_by == FlowBy::HostPair),
        records,
        idle: elephants.table.idle.as_nanos(),
        pair_threshold: elephants.pair.map_or(0, |pair| pair.threshold.as_u64().max(1)),
        pair_rate: elephants.pair.map_or(0, |pair| pair.rate.as_bps()),
        points: points.len() as u64,
        values,
        ..options
    }
}

/// The options of MERED, which is MEREDT with a table of one step.
fn mered(params: &meredt::Params, place: &str, lack: &mut dyn FnMut(String)) -> Option<Options> {
    let options = Options {
        kind: MERED,
        interval: params.ared.interval.as_nanos(),
        elephant_limit: params.elephant_limit.as_u64(),
        floor: params.floor.bits(),
        floor_credit: params.floor_credit.as_u64(),
        fairness: params.fairness.bits(),
        ..measured(&params.elephants, early(&params.ared.red().ok()?), place, lack)
    };
    Some(options.within(params.limit))
}

/// The options of the ingress filter.
fn ingress(params: &ingress::Params, place: &str, lack: &mut dyn FnMut(String)) -> Option<Options> {
    Some(Options {
        kind: INGRESS,
        rate: params.rate.as_bps(),
        burst: params.limit.as_u64(),
        mtu: params.ared.packet.as_u64(),
        interval: params.ared.interval.as_nanos(),
        floor: params.floor.bits(),
        floor_credit: params.burst.as_u64(),
        fairness: params.fairness.bits(),
        ..measured(&params.elephants, early(&params.ared.red().ok()?), place, lack)
    })
}

fn pie(params: &pie::Params) -> Options {
    let options = Options {
        kind: PIE,
        target: params.target.as_nanos(),
        interval: params.update.as_nanos(),
        allowance: params.burst.as_nanos(),
        alpha: params.alpha.into(),
        beta: params.beta.into(),
        least_queue_mean: params.mean.as_u64(),
        mean: mean(params.sizing),
        most_marked: params.most_marked.bits(),
        ..Options::default()
    };
    options.within(params.limit)
}

/// The options of DualPI2.
fn coupled(params: &dualpi2::Params) -> Options {
    let (parts, shift) = match params.scheduler {
        Scheduler::TimeShifted { shift } => (0, shift),
        Scheduler::Weighted { parts } => (parts.into(), Span::ZERO),
    };
    let protection =
        params.protection.unwrap_or(dualpi2::protection::Params { critical: Span::ZERO, ..Default::default() });
    let options = Options {
        kind: DUALPI2,
        target: params.target.as_nanos(),
        interval: params.update.as_nanos(),
        alpha: params.alpha.into(),
        beta: params.beta.into(),
        coupling: params.coupling.into(),
        step_from: params.step.from.as_nanos(),
        step_full: params.step.full.as_nanos(),
        parts,
        shift: shift.as_nanos(),
        nqb: u64::from(params.nqb == Nqb::LowLatency),
        critical: protection.critical.as_nanos(),
        score: protection.score.as_nanos(),
        ageing: protection.ageing.as_u64(),
        ..Options::default()
    };
    options.within(params.limit)
}

fn controlled(kind: u64, params: &codel::Params) -> (Options, Signal) {
    let options = Options {
        kind,
        target: params.target.as_nanos(),
        interval: params.interval.as_nanos(),
        mtu: params.mtu.as_u64(),
        longest: params.longest.map_or(0, Span::as_nanos),
        ..Options::default()
    };
    (options.within(params.limit), params.signal)
}

/// The thresholds of a curve, and whether they are in bytes.
fn thresholds(profile: &Profile) -> (u64, u64, bool) {
    match profile.thresholds {
        Thresholds::Packets { min, max } => (min, max, false),
        Thresholds::Bytes { min, max } => (min.as_u64(), max.as_u64(), true),
    }
}

/// The options of WRED and RIO, of which the streams of yellow and red are given.
fn coloured([green, yellow, red]: [Profile; 3], early_drop: EarlyDrop, streams: [Stream; 2]) -> Options {
    let ((yellow_min, yellow_max, _), (red_min, red_max, _)) = (thresholds(&yellow), thresholds(&red));
    let mut more_random = [0; 8];
    for (to, number) in more_random.iter_mut().zip(streams.iter().flat_map(Stream::parts)) {
        *to = number;
    }
    Options {
        yellow_min,
        yellow_max,
        yellow_max_p: yellow.max_p.bits(),
        red_min,
        red_max,
        red_max_p: red.max_p.bits(),
        more_random,
        ..early(&red::Params { profile: green, early: early_drop })
    }
}

fn cake(params: &cake::Params) -> Options {
    let (options, _) = controlled(CAKE, &params.codel);
    Options {
        step_full: full(params.step),
        rate: params.rate.map_or(0, Rate::as_bps),
        burst: params.rate.map_or(0, |rate| rate.bytes_in_floor(params.lateness).as_u64()),
        queues: params.queues.into(),
        quantum: params.quantum.as_u64(),
        // Sixteen bits with a sign.
        overhead: params.wire.overhead as u64,
        least: params.wire.least.as_u64(),
        framing: params.wire.framing as u64,
        hosts: match params.hosts {
            Isolation::Flows => 0,
            Isolation::Source => 1,
            Isolation::Destination => 2,
            Isolation::Pair => 3,
        },
        ack_filter: u64::from(params.ack_filter == AckFilter::On),
        ..options
    }
    .with_tins(params.tins)
}

fn early(params: &red::Params) -> Options {
    let (min, max, in_bytes) = thresholds(&params.profile);
    Options {
        min,
        max,
        in_bytes: u64::from(in_bytes),
        max_p: params.profile.max_p.bits(),
        weight: params.early.weight.bits(),
        above_max: match params.early.above_max {
            AboveMax::Cliff => 0,
            AboveMax::Gentle => 1,
            AboveMax::Mark => 2,
        },
        spacing: u64::from(params.early.spacing == Spacing::Geometric),
        idle_packet: params.early.idle_packet.as_nanos(),
        mean: mean(params.early.sizing),
        ..Options::default()
    }
}

fn mean(sizing: Sizing) -> u64 {
    match sizing {
        Sizing::PerPacket => 0,
        Sizing::PerByte { mean } => mean.as_u64(),
    }
}

//! Builds and simulates the network of RFC 2963, appendix A.1.

use tidegate_core::aqm::AqmFifo;
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::marker::{Actions, Conditioner, Marker, Point};
use tidegate_core::meter::{AnyMeter, Mode};
use tidegate_core::random::Stream;
use tidegate_core::ras::{self, Coupling, Curve, Ras};
use tidegate_core::red::{AboveMax, EarlyDrop, Profile, Thresholds};
use tidegate_core::rfc4115::{self, Rfc4115};
use tidegate_core::rio::{self, Rio};
use tidegate_core::srtcm::{self, SrTcm};
use tidegate_core::trtcm::{self, TrTcm};
use tidegate_core::tswtcm::{self, TswTcm};
use tidegate_core::{Bytes, Colour, Instant, ParamError, Rate, Span};
use tidegate_sim::tcp::{self, RtoBounds, Vintage};
use tidegate_sim::{FlowSpec, Line, LinkId, Network, Workload};

use super::reading::{Schedule, Shaper};
use crate::Failure;

/// The maximum window of a connection: 64 KByte, or rather the largest value of TCP's 16 bits.
pub const WINDOW: u64 = 65_535;
/// The CIRs in Mbit/s of C1 to C5, and again of C6 to C10.
pub const CIRS: [u64; 5] = [2, 4, 6, 8, 10];
const LINE_RATE: Rate = Rate::from_mbit(34);

/// The traffic of each customer router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sources {
    /// One connection from each of this number of workstations. The RFC has ten.
    Tcp { stations: u64 },
    /// A mean rate from each of ten workstations, together this percentage of CIR, which no loss changes.
    Udp { percent_of_cir: u64, gaps: Gaps },
}

/// The times between the packets of a flow that does not react to losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gaps {
    /// All equal: flows of one rate keep the phases of their beginnings, and so the bursts of their sum.
    Constant,
    /// Exponential.
    Random,
}

/// The meter of every customer router. The RFC simulates trTCM alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Metering {
    /// RFC 2697, which has one rate; the shaper before it is the single rate one.
    SrTcm,
    /// RFC 2698.
    TrTcm,
    /// RFC 4115, with an excess rate of PIR - CIR.
    Rfc4115,
    /// RFC 2859, which colours by chance from an estimated rate; a green shaper cannot ask it.
    TswTcm,
}

impl Metering {
    /// The window of TSWTCM's estimate: about a round trip, as its RFC advises.
    const WINDOW: Span = Span::from_millis(100);

    fn build(self, setup: &Setup, customer: u64, cir: Rate, pir: Rate) -> Result<AnyMeter, ParamError> {
        let mode = Mode::Blind;
        let (cbs, pbs) = (Bytes::new(setup.cbs_kb * setup.kb), Bytes::new(2 * setup.cbs_kb * setup.kb));
        let start = Instant::ZERO;
        Ok(match self {
            Self::SrTcm => AnyMeter::SrTcm(SrTcm::new(srtcm::Params { cir, cbs, ebs: pbs, mode }, start)?),
            Self::TrTcm => AnyMeter::TrTcm(TrTcm::new(trtcm::Params { cir, cbs, pir, pbs, mode }, start)?),
            Self::Rfc4115 => {
                let eir = pir.saturating_sub(cir);
                AnyMeter::Rfc4115(Rfc4115::new(rfc4115::Params { cir, cbs, eir, ebs: pbs, mode }, start)?)
            }
            Self::TswTcm => {
                let params = tswtcm::Params { ctr: cir, ptr: pir, window: Self::WINDOW, mode };
                let name = format!("rfc2963.meter.{customer}");
                AnyMeter::TswTcm(TswTcm::new(params, start, setup.seed, &name)?)
            }
        })
    }
}

/// The parameters of a run: CBS and the shaper, which the RFC's tables vary, and those that the RFC leaves open.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The seed of the start times and of RIO.
    pub seed: u64,
    /// The committed burst size (CBS) in KByte. The peak burst size (PBS) is twice that.
    pub cbs_kb: u64,
    /// The number of bytes in a KByte.
    pub kb: u64,
    /// The traffic of the workstations.
    pub sources: Sources,
    /// Whether C6 to C10 shape at all.
    pub shaped: bool,
    /// The shaper of C6 to C10: trRAS or G-trRAS, or srRAS or G-srRAS before a meter with one rate.
    pub shaper: Coupling,
    /// The meter of all routers.
    pub meter: Metering,
    /// CIR_th, PIR_th, MIR_th and the size of the buffer, in thousandths of a maximum window.
    pub thresholds: [u64; 4],
    /// CIR_th in tenths of CBS instead, with PIR_th in tenths of PBS and MIR_th twice that.
    pub by_burst: Option<u64>,
    /// The reading of the shaper's schedules T1 and T2.
    pub schedule: Schedule,
    /// Whether the meter of a shaped router precedes its shaper.
    pub metered_first: bool,
    /// The time constant K of the estimated average rate (EAR).
    pub averaging: Span,
    /// The delay of the link between the edge routers ER1 and ER2.
    pub delay: Span,
    /// How long receivers delay acknowledgements, if they do.
    pub delayed_ack: Option<Span>,
    /// The minimum retransmission timeout.
    pub least_rto: Span,
    /// The initial window in segments.
    pub initial_window: u32,
    /// The refinements of loss recovery that the connections implement.
    pub vintage: Vintage,
    /// Connections start at random times within this span.
    pub starts: Span,
    /// RIO's behaviour above a maximum threshold.
    pub above_max: AboveMax,
    /// The packets that RIO's averages count.
    pub coupling: rio::Coupling,
    /// The number of connections for which RIO's thresholds are; the RFC's are "reasonable" for 100.
    pub rio_connections: u64,
    /// The limit of the bottleneck's queue in packets.
    pub limit: u64,
    /// The place of the meter in unshaped routers: before their queue or behind it.
    pub metered_at: Point,
    /// The duration of the simulation, warm-up included.
    pub end: Span,
    /// The time at the beginning that is not measured.
    pub warm_up: Span,
}

impl Setup {
    /// The RFC's scenario with our choices, for which the README gives the reasons.
    pub const fn new(shaper: Coupling, cbs_kb: u64, seed: u64) -> Self {
        Self {
            seed,
            cbs_kb,
            kb: 1_000,
            sources: Sources::Tcp { stations: 10 },
            shaped: true,
            shaper,
            meter: Metering::TrTcm,
            thresholds: [1_000, 2_000, 4_000, 10_000],
            by_burst: None,
            schedule: Schedule::Paid,
            metered_first: false,
            averaging: Span::from_millis(500),
            delay: Span::from_millis(10),
            delayed_ack: Some(Span::from_millis(200)),
            least_rto: Span::from_secs(1),
            initial_window: 2,
            vintage: Vintage::Rfc2581,
            starts: Span::from_secs(1),
            above_max: AboveMax::Cliff,
            coupling: rio::Coupling::Coupled,
            rio_connections: 100,
            limit: 1_000,
            metered_at: Point::Entry,
            end: Span::from_secs(102),
            warm_up: Span::from_secs(2),
        }
    }
}

impl Setup {
    /// The thresholds of the shaper and its buffer. The buffer is larger than the last threshold, so that nothing is lost there.
    pub fn in_bytes(&self) -> [Bytes; 4] {
        let windows = self.thresholds.map(|milli| Bytes::new(WINDOW * milli / 1_000));
        let Some(tenths) = self.by_burst else { return windows };
        let cir_th = Bytes::new(self.cbs_kb * self.kb * tenths / 10);
        let mir_th = cir_th.saturating_mul(4);
        [cir_th, cir_th.saturating_mul(2), mir_th, windows[3].max(mir_th.saturating_mul(2))]
    }
}

/// The measurements of one customer router, in Mbit/s.
#[derive(Clone, Copy, Default, Debug)]
pub struct Customer {
    /// The rate it sent towards ER1, by colour. The RFC must have measured there, because its tables' totals exceed the
    /// bottleneck.
    pub sent: [f64; 3],
    /// The rate that reached the applications behind the router on the other side.
    pub goodput: f64,
}

impl Customer {
    /// The rate it sent in all colours together.
    pub fn total(&self) -> f64 {
        self.sent.iter().sum()
    }
    /// The rate it sent in `colour`.
    pub fn colour(&self, colour: Colour) -> f64 {
        self.sent[colour as usize]
    }
}

/// The results of one run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The customer routers C1 to C10.
    pub customers: [Customer; 10],
    /// The fraction of the time in which the bottleneck was busy.
    pub utilisation: f64,
    /// The fraction of its arrivals that the bottleneck dropped.
    pub loss: f64,
    /// The number of packets lost anywhere else. According to the RFC there are none.
    pub lost_elsewhere: u64,
}

fn mbit(bytes: u64, span: Span) -> f64 {
    bytes as f64 * 8e-6 / span.as_secs_f64()
}

/// Runs `setup`.
pub fn run(setup: &Setup) -> Result<Outcome, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::Failed(format!("the scenario of RFC 2963: {error}"));
    let mut starts = Stream::named(setup.seed, "rfc2963.starts");
    let mut net = Network::new(setup.seed);
    let (er1, er2) = (net.router("ER1"), net.router("ER2"));
    let (bottleneck, _) = net.duplex(er1, er2, Line::new(Rate::from_mbit(70), setup.delay));
    let paper = rio::Params::rfc2963();
    let early = EarlyDrop { above_max: setup.above_max, ..paper.early };
    let scaled = |profile: Profile| match profile.thresholds {
        Thresholds::Packets { min, max } => {
            let part = |packets: u64| packets * setup.rio_connections / 100;
            Profile { thresholds: Thresholds::Packets { min: part(min), max: part(max) }, ..profile }
        }
        _ => profile,
    };
    let [green, yellow, red] = [paper.green, paper.yellow, paper.red].map(scaled);
    let rio = rio::Params { early, coupling: setup.coupling, green, yellow, red };
    let rio = Rio::new(rio, setup.seed, "rfc2963.rio").map_err(|error| wrong(&error))?;
    net.queue(bottleneck, AqmFifo::new(Limit::packets(setup.limit * setup.rio_connections / 100), rio));
    let config = tcp::Config {
        receive_buffer: WINDOW,
        initial_window: setup.initial_window,
        delayed_ack: setup.delayed_ack,
        vintage: setup.vintage,
        rto: RtoBounds { min: setup.least_rto, ..RtoBounds::default() },
        ..tcp::Config::sack()
    };
    let lan = Line::new(Rate::from_mbit(10), Span::from_millis(1));
    let access = Line::new(LINE_RATE, Span::from_micros(2_500));
    let mut uplinks = Vec::new();
    let mut flows = Vec::new();
    for customer in 1..=10_u64 {
        let (near, far) = (net.router(format!("C{customer}")), net.router(format!("C{customer}'")));
        let (uplink, _) = net.duplex(near, er1, access);
        net.duplex(er2, far, access);
        condition(&mut net, uplink, setup, customer).map_err(|error| wrong(&error))?;
        uplinks.push(uplink);
        let stations = match setup.sources {
            Sources::Tcp { stations } => stations,
            Sources::Udp { .. } => 10,
        };
        for station in 1..=stations {
            let from = net.host(format!("W{customer}.{station}"));
            let to = net.host(format!("W{customer}.{station}'"));
            net.duplex(from, near, lan);
            net.duplex(far, to, lan);
            let start = Instant::from_nanos(starts.below(setup.starts.as_nanos().max(1)));
            let name = format!("{customer}.{station}");
            let flow = match setup.sources {
                Sources::Tcp { .. } => FlowSpec::tcp(name, from, to, config, Workload::BULK),
                Sources::Udp { percent_of_cir, gaps } => {
                    let cir = CIRS[(customer as usize - 1) % 5] * 1_000_000;
                    let rate = Rate::from_bps(cir / 100 * percent_of_cir / stations);
                    let packet = Bytes::new(1_500);
                    let workload = match gaps {
                        Gaps::Constant => Workload::Constant { rate, packet },
                        Gaps::Random => Workload::Poisson { rate, packet },
                    };
                    FlowSpec::udp(name, from, to, workload)
                }
            };
            flows.push(net.flow(flow.starting(start)));
        }
    }
    net.warm_up(setup.warm_up);
    let mut sim = net.build().map_err(|error| wrong(&error))?;
    sim.run_until(Instant::ZERO + setup.end);

    let span = sim.measured();
    let mut outcome = Outcome::default();
    for (n, customer) in outcome.customers.iter_mut().enumerate() {
        customer.sent = sim.link(uplinks[n]).sent.map(|tally| mbit(tally.bytes, span));
        let each = flows.len() / 10;
        let goodput: u64 = flows[n * each..][..each].iter().map(|&flow| sim.flow(flow).goodput_total()).sum();
        customer.goodput = mbit(goodput, span);
    }
    let link = sim.link(bottleneck);
    let (sent, dropped) = (link.sent_total(), link.dropped_total());
    outcome.utilisation = mbit(sent.bytes, span) / 70.0;
    outcome.loss = dropped.packets as f64 / (sent.packets + dropped.packets).max(1) as f64;
    outcome.lost_elsewhere = sim.links().map(|(_, link)| link.dropped_total().packets).sum::<u64>() - dropped.packets;
    Ok(outcome)
}

/// Installs the marker on the uplink of `customer`, for C6 to C10 with the shaper before it.
fn condition(net: &mut Network, uplink: LinkId, setup: &Setup, customer: u64) -> Result<(), ParamError> {
    let cir_mbit = CIRS[(customer as usize - 1) % 5];
    let (cir, pir) = (Rate::from_mbit(cir_mbit), Rate::from_mbit(2 * cir_mbit));
    let conditioner = Conditioner::new(setup.meter.build(setup, customer, cir, pir)?, Actions::default());
    let [cir_th, pir_th, mir_th, buffer] = setup.in_bytes();
    if customer <= 5 || !setup.shaped {
        net.queue(uplink, Marker::new(Fifo::new(Limit::bytes(buffer)), conditioner, setup.metered_at));
        return Ok(());
    }
    let curve = match setup.meter {
        Metering::SrTcm => Curve::Single { cir, mir: LINE_RATE, cir_th, mir_th },
        _ => Curve::Two { cir, pir, mir: LINE_RATE, cir_th, pir_th, mir_th },
    };
    let params = ras::Params {
        curve,
        buffer,
        line_rate: LINE_RATE,
        averaging: setup.averaging,
        coupling: setup.shaper,
        slack: Span::ZERO,
    };
    if setup.schedule == Schedule::Paid && !setup.metered_first {
        net.queue(uplink, Ras::new(params, conditioner)?);
    } else {
        net.queue(uplink, Shaper::new(params, setup.schedule, setup.metered_first, conditioner));
    }
    Ok(())
}

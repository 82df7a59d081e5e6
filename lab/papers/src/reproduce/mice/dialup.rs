//! The first scenario of the paper: a line of 56 kbit/s, and one upload a second of 5 kB on average.

use tidegate_core::elephants::PairRule;
use tidegate_core::fifo::Limit;
use tidegate_core::{Bytes, Instant, Probability, Qdisc, Rate, Span, mered};
use tidegate_metrics::Histogram;
use tidegate_sim::tcp::{Config, RtoBounds};
use tidegate_sim::{Direction, Distribution, FlowSpec, Line, Network, SimPacket, Workload};

use super::peers::Peer;
use super::{Item, Options};
use crate::Failure;
use crate::reproduce::item::{Bound, Sample, paper, theory};
use crate::reproduce::under_seeds;

const LINE: Rate = Rate::from_kbit(56);
/// The limit of the queue before the line in packets, which is 6.4 s of the line. The paper does not state it.
const ROOM: u64 = 30;
/// The one-way delay. The paper does not state it.
const DELAY: Span = Span::from_millis(50);
/// The maximum number of uploads that the client has open at once. The paper states that some could not be started, but
/// not when.
const MOST_OPEN: u32 = 25;
/// The number of runs per seed for the early interval, whose results vary more.
const STARTS: u64 = 5;
/// The long-run interval of measurement. When it begins, TCP has learnt the round-trip time.
const LONG: (Span, Span) = (Span::from_secs(120), Span::from_secs(1_920));
/// The early interval of measurement, in which TCP is still learning the round-trip time.
const START: (Span, Span) = (Span::from_secs(15), Span::from_secs(90));
/// An elephant is starved below this goodput in bit/s, a quarter of its long-run goodput.
const STARVED: f64 = 2_700.0;

/// Makes the discipline of a run from its limit and its seed.
type Queue<'a> = dyn Fn(Limit, u64) -> Result<Box<dyn Qdisc<SimPacket>>, Failure> + Sync + 'a;

/// A test case: a discipline, and the values that the paper does not state.
struct Setup<'a> {
    queue: &'a Queue<'a>,
    with_elephant: bool,
    /// The limit of the queue in packets.
    room: u64,
    /// The one-way delay from the router to the server.
    delay: Span,
    /// The beginning and the end of the measurement.
    measured: (Span, Span),
    /// TCP's minimum retransmission timeout.
    least_rto: Span,
}

impl<'a> Setup<'a> {
    /// Creates a case with the values of the scenario.
    fn new(queue: &'a Queue<'a>, with_elephant: bool) -> Self {
        let least_rto = RtoBounds::default().min;
        Self { queue, with_elephant, room: ROOM, delay: DELAY, measured: LONG, least_rto }
    }
}

/// Means over the runs.
#[derive(Clone, Copy, Default, Debug)]
struct Outcome {
    /// The time from the SYN to the last byte, in seconds.
    response: f64,
    /// The time from the SYN to the end of the handshake, in seconds.
    connect: f64,
    /// The elephant's goodput in bit/s.
    goodput: f64,
    /// The share of the mice that could not be started.
    refused: f64,
}

/// Simulates one run of a case.
fn simulate(setup: &Setup<'_>, seed: u64) -> Result<Outcome, Failure> {
    let mut net = Network::new(seed);
    let limit = Limit { packets: setup.room, bytes: Bytes::new(setup.room * 1_500) };
    let (client, elephant_host) = (net.host("client"), net.host("elephant host"));
    let (router, server) = (net.router("router"), net.host("server"));
    let (up, down) = net.duplex(router, server, Line::new(LINE, setup.delay));
    net.queue(up, (setup.queue)(limit, seed)?);
    net.queue(down, (setup.queue)(limit, seed)?);
    for host in [client, elephant_host] {
        net.duplex(host, router, Line::new(Rate::from_mbit(100), Span::from_micros(100)));
    }
    // TCP is that of the paper's time, RFC 3390 and RFC 2988.
    let initial = Span::from_secs(3).max(setup.least_rto);
    let rto = RtoBounds { initial, min: setup.least_rto, ..RtoBounds::default() };
    let config = Config { initial_window: 3, rto, ..Config::sack() };
    let workload = Workload::Mice {
        interval: Distribution::Uniform { low: 0.0, high: 2.0 },
        size: Distribution::Uniform { low: 2_500.0, high: 7_500.0 },
        direction: Direction::Upload,
        most_open: MOST_OPEN,
    };
    let mice = net.flow(FlowSpec::tcp("mice", client, server, config, workload));
    let elephant =
        setup.with_elephant.then(|| net.flow(FlowSpec::tcp("elephant", elephant_host, server, config, Workload::BULK)));
    net.warm_up(setup.measured.0);
    let mut sim = net.build().map_err(|error| Failure::Failed(error.to_string()))?;
    sim.run_until(Instant::ZERO + setup.measured.1);
    let metrics = sim.flow(mice);
    let seconds = |histogram: &Histogram| histogram.mean().unwrap_or(f64::NAN) / 1e9;
    Ok(Outcome {
        response: seconds(&metrics.completion_ns),
        connect: seconds(&metrics.connect_ns),
        goodput: elephant.map_or(0.0, |flow| sim.flow(flow).goodput(sim.measured()).as_bps() as f64),
        refused: metrics.refused as f64 / (metrics.opened + metrics.refused) as f64,
    })
}

fn mean(options: &Options, peer: Peer, with_elephant: bool) -> Result<Outcome, Failure> {
    let queue = |limit, seed| peer.make(LINE, limit, seed);
    mean_of(options, &Setup::new(&queue, with_elephant))
}

fn mean_of(options: &Options, setup: &Setup<'_>) -> Result<Outcome, Failure> {
    let runs = u64::from(options.runs);
    let mut sum = Outcome::default();
    for one in under_seeds(options, runs, |seed| simulate(setup, seed))? {
        sum.response += one.response / runs as f64;
        sum.connect += one.connect / runs as f64;
        sum.goodput += one.goodput / runs as f64;
        sum.refused += one.refused / runs as f64;
    }
    Ok(sum)
}

/// Shows which parameters the result depends on. It compares MERED with one parameter changed at a time to mice alone
/// on the same line.
fn sensitivity(options: &Options) -> Result<Vec<Item>, Failure> {
    let base = mered::Params::for_link(LINE);
    let floor = |percent| Probability::from_ratio(percent, 100).unwrap_or(Probability::ZERO);
    let pair = |kbit| base.pair.map(|pair| PairRule { rate: Rate::from_kbit(kbit), ..pair });
    let (kb, ms) = (|n: u64| Bytes::new(n * 1_000), Span::from_millis);
    let same = |params| (params, ROOM, DELAY);
    let cases = [
        ("threshold.7kB", same(mered::Params { threshold: kb(7), ..base })),
        ("threshold.15kB", same(base)),
        ("threshold.30kB", same(mered::Params { threshold: kb(30), ..base })),
        ("threshold.100kB", same(mered::Params { threshold: kb(100), ..base })),
        ("floor.0", same(mered::Params { floor: floor(0), ..base })),
        ("floor.5", same(mered::Params { floor: floor(5), ..base })),
        ("floor.20", same(mered::Params { floor: floor(20), ..base })),
        ("credit.0", same(mered::Params { floor_credit: kb(0), ..base })),
        ("credit.5kB", same(mered::Params { floor_credit: kb(5), ..base })),
        ("credit.15kB", same(mered::Params { floor_credit: kb(15), ..base })),
        ("credit.60kB", same(mered::Params { floor_credit: kb(60), ..base })),
        ("pair.14kbit", same(mered::Params { pair: pair(14), ..base })),
        ("pair.42kbit", same(mered::Params { pair: pair(42), ..base })),
        ("room.20", (base, 20, DELAY)),
        ("room.40", (base, 40, DELAY)),
        ("delay.10ms", (base, ROOM, ms(10))),
        ("delay.150ms", (base, ROOM, ms(150))),
    ];
    let mut items = Vec::new();
    for (name, (params, room, delay)) in cases {
        let id = format!("dialup.sensitivity.{name}");
        if !options.wants(&id) {
            continue;
        }
        let fifo = |limit, seed| Peer::Fifo.make(LINE, limit, seed);
        let only = mean_of(options, &Setup { room, delay, ..Setup::new(&fifo, false) })?;
        let queue = |limit: Limit, seed| -> Result<Box<dyn Qdisc<SimPacket>>, Failure> {
            let elephant_limit = Bytes::new(limit.bytes.as_u64() / 2);
            let params = mered::Params { limit, elephant_limit, ..params };
            let wrong = |error| Failure::Failed(format!("{name}: {error}"));
            Ok(Box::new(mered::Mered::new(params, seed, "mered").map_err(wrong)?))
        };
        let got = mean_of(options, &Setup { room, delay, ..Setup::new(&queue, true) })?;
        let ratio = got.response / only.response;
        let note = format!(
            "{:.2} by {:.2} s; elephant {:.0} bit/s, {:.1} % refused",
            got.response,
            only.response,
            got.goodput,
            got.refused * 100.0
        );
        let what = format!("M&E with its defaults but {name}: response over that of mice only");
        items.push(Item::measured(id, what, "ratio", ratio).note(note));
    }
    Ok(items)
}

/// Measures the elephant's goodput from 15 to 90 s, and the number of runs in which it starves in that time.
fn start(options: &Options, long_run: f64) -> Result<Vec<Item>, Failure> {
    let patient = Span::from_secs(5);
    let usual = RtoBounds::default().min;
    let cases = [
        ("fifo", "drop tail", Peer::Fifo, usual),
        ("mered_paper", "M&E as published", Peer::MeredAsPublished, usual),
        ("mered_floor", "M&E with the floor from packet to packet", Peer::MeredWithFloor, usual),
        ("mered", "M&E with its defaults", Peer::Mered, usual),
        ("mered_patient", "M&E with its defaults, timeouts of 5 s or more", Peer::Mered, patient),
    ];
    let mut items = Vec::new();
    let mut means = Vec::new();
    for (name, what, peer, least_rto) in cases {
        let queue = |limit, seed| peer.make(LINE, limit, seed);
        let setup = Setup { measured: START, least_rto, ..Setup::new(&queue, true) };
        let runs = STARTS * u64::from(options.runs);
        let goodputs = under_seeds(options, runs, |seed| Ok(simulate(&setup, seed)?.goodput))?;
        let mean = goodputs.iter().sum::<f64>() / runs as f64;
        let starved = goodputs.iter().filter(|goodput| **goodput < STARVED).count() as f64 / runs as f64;
        let item = |key: &str, what: String, unit: &str, value| {
            Item::measured(format!("dialup.start.{name}.{key}"), what, unit, value)
        };
        items.push(item("elephant", format!("from 15 to 90 s, {what}: goodput of the elephant"), "bit/s", mean));
        items.push(item("starved", format!("from 15 to 90 s, {what}: runs in which it is starved"), "share", starved));
        means.push(mean);
    }
    let ratio = |id: &str, what: &str, value| Item::measured(format!("dialup.start.{id}"), what, "ratio", value);
    let credit = "from 15 to 90 s: goodput of the elephant, M&E with its defaults over the floor from packet to packet";
    items.push(ratio("credit", credit, means[3] / means[2]));
    let timeouts = "from 15 to 90 s, timeouts of 5 s or more: goodput of the elephant over that in the long run";
    items.push(ratio("timeouts", timeouts, means[4] / long_run));
    Ok(items)
}

/// The tolerance of the paper's values. Parameters that the paper does not state change them by more than this, see
/// `dialup.sensitivity`.
const NEAR: f64 = 0.10;

pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let numbers = super::paper()?.dialup;
    let runs = |peer: Peer, with_elephant| {
        let queue = |limit, seed| peer.make(LINE, limit, seed);
        let setup = Setup::new(&queue, with_elephant);
        under_seeds(options, options.runs.into(), |seed| simulate(&setup, seed))
    };
    let only = runs(Peer::Fifo, false)?;
    let congested = runs(Peer::Fifo, true)?;
    let sampled = |id: &str, what: &str, unit: &str, runs: &[Outcome], of: fn(&Outcome) -> f64| {
        Item::sampled(format!("dialup.{id}"), what, unit, Sample::of(runs.iter().map(of)))
    };
    let near = |item: Item, value: f64| {
        let basis = paper("Scenario Testing; 10 % for a mean of an hour's transfers and what is not stated");
        item.paper(value).bound(Bound::near(value, NEAR, basis))
    };
    let response = |run: &Outcome| run.response;
    let connect = |run: &Outcome| run.connect;
    let mut items = vec![
        near(sampled("only.response", "mice only: mean response", "s", &only, response), numbers.only.response_s),
        near(sampled("only.connect", "mice only: mean time to connect", "s", &only, connect), numbers.only.connect_s),
        near(
            sampled("congested.response", "with an elephant, drop tail: mean response", "s", &congested, response),
            numbers.congested.response_s,
        ),
        near(
            sampled("congested.connect", "with an elephant, drop tail: mean time to connect", "s", &congested, connect),
            numbers.congested.connect_s,
        ),
        sampled(
            "congested.refused",
            "with an elephant, drop tail: mice that cannot be started",
            "%",
            &congested,
            |run| run.refused * 100.0,
        )
        .bound(Bound::above(0.0, paper("Scenario Testing: not all of the mouse flows could be started"))),
    ];
    // A mouse may have to wait for a packet of the elephant at its SYN, at its first window and at its remaining data.
    let packet = LINE.time_for_ceil(Bytes::new(1_500)).map_or(0.0, Span::as_secs_f64);
    let mut long_run = 0.0;
    let mut published = Vec::new();
    for (id, name, peer) in [
        ("me", "M&E as published", Peer::MeredAsPublished),
        ("packets", "M&E as published, mice by their packets", Peer::MeredByPackets),
        ("default", "M&E with its defaults", Peer::Mered),
    ] {
        let ours = runs(peer, true)?;
        if peer == Peer::MeredAsPublished {
            published.clone_from(&ours);
        }
        let id = |what: &str| format!("{id}.{what}");
        let ratio = |id: &str, what: &str, of: fn(&Outcome) -> f64, by: &[Outcome]| {
            let ratios = ours.iter().zip(by).map(|(ours, by)| of(ours) / of(by));
            Item::sampled(format!("dialup.{id}"), format!("{name}: {what}"), "ratio", Sample::of(ratios))
        };
        let improved =
            || paper("Scenario Testing, illustration 7: dramatic improvement of response and connection times");
        let exchanges = |n: f64, total: f64| {
            let basis =
                theory(format!("{n} exchanges of a mouse may each meet a packet of the elephant, 214 ms, on the line"));
            Bound::at_most(1.0 + n * packet / total, basis)
        };
        let goodput = |run: &Outcome| run.goodput;
        items.extend([
            sampled(&id("response"), &format!("{name}, with an elephant: mean response"), "s", &ours, response),
            sampled(&id("connect"), &format!("{name}, with an elephant: mean time to connect"), "s", &ours, connect),
            ratio(&id("response_gain"), "mean response over that under drop tail", response, &congested)
                .bound(Bound::at_most(0.5, improved())),
            ratio(&id("connect_gain"), "mean time to connect over that under drop tail", connect, &congested)
                .bound(Bound::at_most(0.5, improved())),
            ratio(&id("response_ratio"), "mean response over that of mice only", response, &only)
                .bound(exchanges(3.0, numbers.only.response_s)),
            ratio(&id("connect_ratio"), "mean time to connect over that of mice only", connect, &only)
                .bound(exchanges(1.0, numbers.only.connect_s)),
            sampled(
                &id("refused"),
                &format!("{name}, with an elephant: mice that cannot be started"),
                "%",
                &ours,
                |run| run.refused * 100.0,
            )
            .bound(Bound::at_most(0.0, paper("Scenario Testing: not all could be started in the congested test only"))),
            ratio(&id("elephant"), "goodput of the elephant over that under drop tail", goodput, &congested).bound(
                Bound::at_least(
                    0.95,
                    theory("mice need what they need under both; nothing is lost by retransmissions"),
                ),
            ),
        ]);
        long_run = Sample::of(ours.iter().map(goodput)).mean;
    }
    if options.wants("dialup.fair") {
        let fair = runs(Peer::Sfq, true)?;
        let by = |id: &str, what: &str, ours: &[Outcome], by: &[Outcome], basis| {
            let ratios = ours.iter().zip(by).map(|(ours, by)| ours.response / by.response);
            Item::sampled(format!("dialup.fair.{id}"), what, "ratio", Sample::of(ratios))
                .bound(Bound::below(1.0, paper(basis)))
        };
        let improves = "Mice and Elephants Strategies, Conclusion: fair queueing improves the response";
        let favours = "Mice and Elephants Strategies: the same rate for each flow disadvantages the short ones";
        items.extend([
            by("response", "mean response, SFQ over drop tail", &fair, &congested, improves),
            by("favoured", "mean response, M&E as published over SFQ", &published, &fair, favours),
        ]);
    }
    let item = |id: &str, what: &str, unit: &str, value: f64| Item::measured(format!("dialup.{id}"), what, unit, value);
    if options.wants("dialup.start") {
        items.extend(start(options, long_run)?);
    }
    if options.wants("dialup.sensitivity") {
        items.extend(sensitivity(options)?);
    }
    for peer in Peer::ALL {
        let (id, group) = (peer.name(), format!("dialup.all.{}", peer.name()));
        if !options.wants(&group) {
            continue;
        }
        let outcome = mean(options, peer, true)?;
        let describe = |what: &str| format!("with an elephant, {id}: {what}");
        items.extend([
            item(&format!("all.{id}.response"), &describe("mean response"), "s", outcome.response),
            item(&format!("all.{id}.connect"), &describe("mean time to connect"), "s", outcome.connect),
            item(&format!("all.{id}.refused"), &describe("mice that cannot be started"), "share", outcome.refused),
            item(&format!("all.{id}.elephant"), &describe("goodput of the elephant"), "bit/s", outcome.goodput),
        ]);
    }
    Ok(items)
}

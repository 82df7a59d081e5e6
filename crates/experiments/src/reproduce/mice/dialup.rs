//! The first scenario of the paper: a line of 56 kbit/s, uploads of 5 kB on average, one a second.

use tidegate_core::elephants::PairRule;
use tidegate_core::fifo::Limit;
use tidegate_core::{Bytes, Instant, Probability, Qdisc, Rate, Span, mered};
use tidegate_metrics::Histogram;
use tidegate_sim::tcp::{Config, RtoBounds};
use tidegate_sim::{Direction, Distribution, FlowSpec, Line, Network, SimPacket, Workload};

use super::peers::Peer;
use super::{Item, Options};
use crate::Failure;

const LINE: Rate = Rate::from_kbit(56);
/// Packets that the queue before the line holds: 6.4 s of the line. The paper does not state it.
const ROOM: u64 = 30;
/// One way. The paper does not state it.
const DELAY: Span = Span::from_millis(50);
/// Uploads that the client has open at most; the paper states that some could not be started, not when.
const MOST_OPEN: u32 = 25;
/// Runs with different seeds for one of the command line: a run is half an hour and takes some 20 ms.
const SEEDS: u64 = 10;
/// The same for what happens in the first minute and a half.
const STARTS: u64 = 100;
/// When measuring begins and ends: a TCP has learnt by then what a round trip is.
const LONG: (Span, Span) = (Span::from_secs(120), Span::from_secs(1_920));
/// The same, while it has not.
const START: (Span, Span) = (Span::from_secs(15), Span::from_secs(90));
/// An elephant that has less than this is starved: a quarter of what it has in the long run, in bit/s.
const STARVED: f64 = 2_700.0;

/// A case: a discipline, and the values that the paper does not state.
struct Setup<'a> {
    queue: &'a dyn Fn(Limit, u64) -> Result<Box<dyn Qdisc<SimPacket>>, Failure>,
    with_elephant: bool,
    /// Packets that the queue holds.
    room: u64,
    /// The way from the router to the server.
    delay: Span,
    /// When measuring begins and ends.
    measured: (Span, Span),
    /// The least timeout of TCP.
    least_rto: Span,
}

impl<'a> Setup<'a> {
    /// As in the scenario.
    fn new(queue: &'a dyn Fn(Limit, u64) -> Result<Box<dyn Qdisc<SimPacket>>, Failure>, with_elephant: bool) -> Self {
        let least_rto = RtoBounds::default().min;
        Self { queue, with_elephant, room: ROOM, delay: DELAY, measured: LONG, least_rto }
    }
}

/// Means over the runs.
#[derive(Clone, Copy, Default, Debug)]
struct Outcome {
    /// From the SYN to the last byte, in seconds.
    response: f64,
    /// From the SYN to the end of the handshake, in seconds.
    connect: f64,
    /// Of the elephant, in bit/s.
    goodput: f64,
    /// Share of the mice that could not be started.
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
    // TCP of the paper's time: RFC 3390 and RFC 2988.
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
    let runs = SEEDS * u64::from(options.runs);
    let mut sum = Outcome::default();
    for seed in options.seed..options.seed + runs {
        let one = simulate(setup, seed)?;
        sum.response += one.response / runs as f64;
        sum.connect += one.connect / runs as f64;
        sum.goodput += one.goodput / runs as f64;
        sum.refused += one.refused / runs as f64;
    }
    Ok(sum)
}

/// The parameters that the result depends on: MERED with its defaults, one thing changed at a time, by mice only under
/// the same line.
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
        let what = format!("M&E with its defaults but {name}: response by mice only");
        items.push(Item::measured(id, what, "ratio", ratio).note(note));
    }
    Ok(items)
}

/// What the elephant has from 15 to 90 s, and in how many runs it is starved then.
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
        let goodputs = (options.seed..options.seed + runs).map(|seed| Ok(simulate(&setup, seed)?.goodput));
        let goodputs = goodputs.collect::<Result<Vec<f64>, Failure>>()?;
        let mean = goodputs.iter().sum::<f64>() / runs as f64;
        let starved = goodputs.iter().filter(|goodput| **goodput < STARVED).count() as f64 / runs as f64;
        let item = |key: &str, what: String, unit: &str, value| {
            Item::measured(format!("dialup.start.{name}.{key}"), what, unit, value)
        };
        items.push(item("elephant", format!("from 15 to 90 s, {what}: goodput of the elephant"), "bit/s", mean));
        items.push(item("starved", format!("from 15 to 90 s, {what}: runs in which it is starved"), "share", starved));
        means.push(mean);
    }
    let ratio = |id: &str, what: &str, value| {
        Item::measured(format!("dialup.start.{id}"), what, "ratio", value).within(0.9, f64::INFINITY)
    };
    let credit = "from 15 to 90 s: the elephant, M&E with its defaults by the floor from packet to packet";
    items.push(ratio("credit", credit, means[3] / means[2]));
    let timeouts = "from 15 to 90 s, timeouts of 5 s or more: the elephant by what it has in the long run";
    items.push(ratio("timeouts", timeouts, means[4] / long_run));
    Ok(items)
}

pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let paper = super::paper()?.dialup;
    let only = mean(options, Peer::Fifo, false)?;
    let congested = mean(options, Peer::Fifo, true)?;
    let ours = mean(options, Peer::MeredAsPublished, true)?;
    let item = |id: &str, what: &str, unit: &str, value: f64| Item::measured(format!("dialup.{id}"), what, unit, value);
    let mut items = vec![
        item("only.response", "mice only: mean response", "s", only.response)
            .paper(paper.only.response_s)
            .within(1.2, 2.8),
        item("only.connect", "mice only: mean time to connect", "s", only.connect)
            .paper(paper.only.connect_s)
            .within(0.4, 1.0),
        item("congested.response", "with an elephant, drop tail: mean response", "s", congested.response)
            .paper(paper.congested.response_s)
            .within(12.0, 28.0),
        item("congested.connect", "with an elephant, drop tail: mean time to connect", "s", congested.connect)
            .paper(paper.congested.connect_s)
            .within(3.0, 9.4),
        Item::claim(
            "dialup.congested.refused",
            "with an elephant, drop tail: some mice cannot be started",
            congested.refused > 0.0,
        )
        .note(format!("{:.1} % of them", congested.refused * 100.0)),
        item("me.response", "with an elephant, M&E as published: mean response", "s", ours.response),
        item("me.connect", "with an elephant, M&E as published: mean time to connect", "s", ours.connect),
        item("me.response_ratio", "that response by the one of mice only", "ratio", ours.response / only.response)
            .within(0.0, 1.3),
        item("me.connect_ratio", "that time to connect by the one of mice only", "ratio", ours.connect / only.connect)
            .within(0.0, 1.5),
        Item::claim("dialup.me.refused", "with an elephant, M&E: every mouse can be started", ours.refused == 0.0),
        item("me.elephant", "goodput of the elephant, M&E by drop tail", "ratio", ours.goodput / congested.goodput)
            .within(0.95, f64::INFINITY)
            .note(format!("{:.0} by {:.0} bit/s", ours.goodput, congested.goodput)),
    ];
    let ours = mean(options, Peer::Mered, true)?;
    let elephant = ours.goodput / congested.goodput;
    items.extend([
        item(
            "default.response_ratio",
            "M&E with its defaults: response by mice only",
            "ratio",
            ours.response / only.response,
        )
        .within(0.0, 1.3),
        item(
            "default.connect_ratio",
            "M&E with its defaults: time to connect by mice only",
            "ratio",
            ours.connect / only.connect,
        )
        .within(0.0, 1.5),
        Item::claim("dialup.default.refused", "M&E with its defaults: every mouse can be started", ours.refused == 0.0),
        item("default.elephant", "goodput of the elephant, M&E with its defaults by drop tail", "ratio", elephant)
            .within(0.95, f64::INFINITY),
    ]);
    if options.wants("dialup.start") {
        items.extend(start(options, ours.goodput)?);
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
        let of = |what: &str| format!("with an elephant, {id}: {what}");
        items.extend([
            item(&format!("all.{id}.response"), &of("mean response"), "s", outcome.response),
            item(&format!("all.{id}.connect"), &of("mean time to connect"), "s", outcome.connect),
            item(&format!("all.{id}.refused"), &of("mice that cannot be started"), "share", outcome.refused),
            item(&format!("all.{id}.elephant"), &of("goodput of the elephant"), "bit/s", outcome.goodput),
        ]);
    }
    Ok(items)
}

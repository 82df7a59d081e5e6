//! The second scenario of the paper: a line of 100 Mbit/s, one download a second of 100 kB on average, and the ingress
//! filter.

use tidegate_core::ParamError;
use tidegate_core::aqm::AqmFifo;
use tidegate_core::elephants::ValueTable;
use tidegate_core::fifo::Limit;
use tidegate_core::ingress::{Ingress, Params};
use tidegate_core::{Bytes, Instant, Rate, Span};
use tidegate_sim::tcp::Config;
use tidegate_sim::{Direction, Distribution, FlowSpec, Line, Network, Workload};

use super::peers::{Peer, mered_as_published};
use super::{Item, Options};
use crate::Failure;
use crate::reproduce::item::{Bound, Sample, paper, theory};
use crate::reproduce::under_seeds;

const LINE: Rate = Rate::from_mbit(100);
/// The limit of the queue, which is 120 ms of the line.
const ROOM: Limit = Limit { packets: 1_000, bytes: Bytes::new(1_500_000) };

/// The arrangements of line and filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Mice only, with drop tail before the line.
    Only,
    /// Mice and the elephant, with drop tail before the line.
    Congested,
    /// Mice and the elephant, with drop tail before the line and the filter behind it.
    Filter,
    /// Mice and the elephant, with M&E as the queue before the line.
    Queue,
}

/// Mice of 50 to 150 kB end below it, with their headers. The paper does not state its threshold; its mice are mice.
const THRESHOLD: Bytes = Bytes::new(200_000);
/// The default, which is in the middle of the mice.
const MIDDLE: Bytes = Bytes::new(100_000);

/// Returns the mean response time in seconds and the elephant's goodput in bit/s, over two minutes.
fn simulate(way: Way, threshold: Bytes, seed: u64) -> Result<(f64, f64), Failure> {
    let mut net = Network::new(seed);
    let (server, gateway, client) = (net.host("server"), net.router("gateway"), net.host("client"));
    let provider = net.router("provider");
    net.duplex(server, provider, Line::new(Rate::from_mbit(1_000), Span::from_micros(200)));
    let (down, _) = net.duplex(provider, gateway, Line::new(LINE, Span::from_micros(200)));
    let (inside, _) = net.duplex(gateway, client, Line::new(Rate::from_mbit(1_000), Span::from_micros(100)));
    let wrong = |error: ParamError| Failure::Failed(format!("mice and elephants at {LINE}: {error}"));
    net.queue(
        down,
        match way {
            Way::Queue => mered_as_published(LINE, threshold, ROOM, seed).map_err(wrong)?,
            _ => Peer::Fifo.make(LINE, ROOM, seed)?,
        },
    );
    if way == Way::Filter {
        let mut params = Params::for_line(LINE);
        params.elephants.value = ValueTable::step(threshold);
        let filter = Ingress::new(params, seed, "filter").map_err(wrong)?;
        net.queue(inside, AqmFifo::new(ROOM, filter));
    }
    let config = Config { receive_buffer: 4 << 20, ..Config::sack() };
    let workload = Workload::Mice {
        interval: Distribution::Exponential { mean: 1.0 },
        size: Distribution::Uniform { low: 50_000.0, high: 150_000.0 },
        direction: Direction::Download { request: Bytes::new(300) },
        most_open: 1_000,
    };
    let mice = net.flow(FlowSpec::tcp("mice", client, server, config, workload));
    let elephant =
        (way != Way::Only).then(|| net.flow(FlowSpec::tcp("elephant", server, client, config, Workload::BULK)));
    net.warm_up(Span::from_secs(20));
    let mut sim = net.build().map_err(|error| Failure::Failed(error.to_string()))?;
    sim.run_until(Instant::ZERO + Span::from_secs(140));
    let goodput = elephant.map_or(0.0, |flow| sim.flow(flow).goodput(sim.measured()).as_bps() as f64);
    Ok((sim.flow(mice).completion_ns.mean().unwrap_or(f64::NAN) / 1e9, goodput))
}

pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let runs = |way, threshold| under_seeds(options, options.runs.into(), |seed| simulate(way, threshold, seed));
    let with = |threshold| Ok::<_, Failure>((runs(Way::Filter, threshold)?, runs(Way::Queue, threshold)?));
    let (only, congested) = (runs(Way::Only, THRESHOLD)?, runs(Way::Congested, THRESHOLD)?);
    let ((filter, queue), (filter_in_middle, queue_in_middle)) = (with(THRESHOLD)?, with(MIDDLE)?);
    let response = |id: &str, what: &str, runs: &[(f64, f64)]| {
        Item::sampled(format!("filter.{id}"), what, "s", Sample::of(runs.iter().map(|run| run.0)))
    };
    type Of = fn(&(f64, f64)) -> f64;
    let ratio = |id: &str, what: &str, a: &[(f64, f64)], b: &[(f64, f64)], of: Of| {
        let ratios = Sample::of(a.iter().zip(b).map(|(a, b)| of(a) / of(b)));
        Item::sampled(format!("filter.{id}"), what, "ratio", ratios)
    };
    let improves = paper("Scenario Testing, illustration 8: the improvement of the response is still impressive");
    let less = paper("Scenario Testing: the improvement is less than with the queueing discipline");
    Ok(vec![
        response("only.response", "mice only: mean response", &only),
        response("congested.response", "with an elephant, drop tail: mean response", &congested),
        response("filter.response", "with an elephant, filter: mean response", &filter),
        response("queue.response", "with an elephant, M&E as queue: mean response", &queue),
        ratio("filter.improves", "mean response with an elephant, filter over drop tail", &filter, &congested, |run| {
            run.0
        })
        .bound(Bound::at_most(0.5, improves)),
        ratio(
            "filter.less_than_queue",
            "mean response with an elephant, filter over M&E as queue",
            &filter,
            &queue,
            |run| run.0,
        )
        .bound(Bound::above(1.0, less)),
        ratio(
            "filter.less_than_queue.100kb",
            "the same with a threshold in the middle of the mice",
            &filter_in_middle,
            &queue_in_middle,
            |run| run.0,
        ),
        ratio("filter.elephant", "goodput of the elephant, filter over drop tail", &filter, &congested, |run| run.1)
            .bound(Bound::between(
                0.7,
                0.95,
                theory("Reno without a buffer has three quarters of the 95 % that the filter leaves, at most all"),
            )),
        ratio("queue.elephant", "goodput of the elephant, M&E as queue over drop tail", &queue, &congested, |run| {
            run.1
        })
        .bound(Bound::near(1.0, 0.05, theory("mice take a hundredth of the line; both conserve work"))),
    ])
}

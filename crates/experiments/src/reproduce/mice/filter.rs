//! The second scenario of the paper: 100 Mbit/s, downloads of 100 kB on average, one a second, the ingress filter.

use tidegate_core::aqm::AqmFifo;
use tidegate_core::fifo::Limit;
use tidegate_core::ingress::{Ingress, Params};
use tidegate_core::{Bytes, Instant, Rate, Span};
use tidegate_sim::tcp::Config;
use tidegate_sim::{Direction, Distribution, FlowSpec, Line, Network, Workload};

use super::peers::Peer;
use super::{Item, Options};
use crate::Failure;

const LINE: Rate = Rate::from_mbit(100);
/// 120 ms of the line.
const ROOM: Limit = Limit { packets: 1_000, bytes: Bytes::new(1_500_000) };

/// The arrangements of line and filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Mice only, drop tail before the line.
    Only,
    /// The elephant, drop tail before the line.
    Congested,
    /// The elephant, drop tail before the line, the filter behind it.
    Filter,
    /// The elephant, M&E as the queue before the line.
    Queue,
}

/// Mean response in seconds, and the elephant's goodput in bit/s, over two minutes.
fn simulate(way: Way, seed: u64) -> Result<(f64, f64), Failure> {
    let mut net = Network::new(seed);
    let (server, gateway, client) = (net.host("server"), net.router("gateway"), net.host("client"));
    let provider = net.router("provider");
    net.duplex(server, provider, Line::new(Rate::from_mbit(1_000), Span::from_micros(200)));
    let (down, _) = net.duplex(provider, gateway, Line::new(LINE, Span::from_micros(200)));
    let (inside, _) = net.duplex(gateway, client, Line::new(Rate::from_mbit(1_000), Span::from_micros(100)));
    let peer = if way == Way::Queue { Peer::MeredAsPublished } else { Peer::Fifo };
    net.queue(down, peer.make(LINE, ROOM, seed)?);
    if way == Way::Filter {
        let filter = Ingress::new(Params::for_line(LINE), seed, "filter")
            .map_err(|error| Failure::Failed(format!("ingress filter: {error}")))?;
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
    // The filter and the queue differ by less than the mean of 120 transfers of one run varies.
    let options = &Options { runs: options.runs.max(10), ..options.clone() };
    let mean = |way| -> Result<(f64, f64), Failure> {
        Ok((
            super::mean_over_seeds(options, |seed| Ok(simulate(way, seed)?.0))?,
            super::mean_over_seeds(options, |seed| Ok(simulate(way, seed)?.1))?,
        ))
    };
    let (only, congested, filter, queue) =
        (mean(Way::Only)?, mean(Way::Congested)?, mean(Way::Filter)?, mean(Way::Queue)?);
    let item = |id: &str, what: &str, unit: &str, value: f64| Item::measured(format!("filter.{id}"), what, unit, value);
    Ok(vec![
        item("only.response", "mice only: mean response", "s", only.0),
        item("congested.response", "with an elephant, drop tail: mean response", "s", congested.0),
        item("filter.response", "with an elephant, filter: mean response", "s", filter.0),
        item("queue.response", "with an elephant, M&E as queue: mean response", "s", queue.0),
        Item::claim("filter.improves", "the filter improves the response", filter.0 < 0.9 * congested.0),
        Item::claim("filter.less_than_queue", "by less than the queue does", queue.0 <= filter.0),
        item("filter.elephant", "goodput of the elephant, filter by drop tail", "ratio", filter.1 / congested.1)
            .within(0.7, 1.0)
            .note(format!(
                "{:.1} by {:.1} Mbit/s; the filter leaves 5 % of the line",
                filter.1 / 1e6,
                congested.1 / 1e6
            )),
        item("queue.elephant", "goodput of the elephant, M&E as queue by drop tail", "ratio", queue.1 / congested.1)
            .within(0.95, 1.05),
    ])
}

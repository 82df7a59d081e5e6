//! Bulk TCP flows over one bottleneck of 100 kbit/s for each of them, with a queue of 50 ms, alike for every benchmark that measures
//! them.

use std::sync::Arc;

use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::{Bytes, Qdisc, Rate, Span};
use tidegate_sim::{FlowId, FlowSpec, Line, Network, SimPacket, Workload, tcp};

/// A queue of the bottleneck, for its rate.
pub type MakeQueue = fn(Rate) -> Box<dyn Qdisc<SimPacket>>;

/// 50 ms of a line.
pub fn limit(rate: Rate) -> Limit {
    Limit::bytes(Bytes::new(rate.as_bps() / 8 / 20))
}

/// `flows`, each of hosts of its own where they are `apart`.
pub fn network(flows: u64, apart: bool, queue: MakeQueue) -> Network {
    let mut net = Network::new(1);
    let rate = Rate::from_bps(flows * 100_000);
    let (near, far) = (net.router("near"), net.router("far"));
    let (bottleneck, _) = net.duplex(near, far, Line::new(rate, Span::from_millis(10)));
    net.queue(bottleneck, queue(rate));
    let (workload, config) = (Arc::new(Workload::BULK), Arc::new(tcp::Config::sack()));
    let access = if apart {
        Line::new(Rate::from_mbit(100), Span::from_millis(1))
    } else {
        // One bottleneck: faster than it, or a second queue would hold a window of each flow.
        Line::new(Rate::from_bps(rate.as_bps() * 4), Span::from_millis(1))
    };
    let mut first: Option<FlowId> = None;
    let mut ends = None;
    for n in 0..flows {
        let (from, to) = match ends {
            Some(ends) if !apart => ends,
            _ => {
                let (from, to) = (net.host(format!("s{n}")), net.host(format!("d{n}")));
                net.duplex(from, near, access.limit(Limit::packets(1_000_000)));
                net.duplex(far, to, access.limit(Limit::packets(1_000_000)));
                (from, to)
            }
        };
        ends = Some((from, to));
        let spec = FlowSpec::tcp(format!("f{n}"), from, to, Arc::clone(&config), Arc::clone(&workload));
        let spec = spec.jittered(Span::from_secs(1));
        let id = net.flow(match first {
            Some(first) => spec.pooled(first),
            None => spec,
        });
        first.get_or_insert(id);
    }
    net
}

/// A queue of 50 ms, in the order of arrival.
pub fn fifo(rate: Rate) -> Box<dyn Qdisc<SimPacket>> {
    Box::new(Fifo::new(limit(rate)))
}

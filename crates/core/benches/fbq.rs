//! ns/packet of FBC over FBQ by the number of flows, with FIFO as the baseline of the same run, in the easy case: every flow has a
//! packet queued, one packet leaves and the next of its flow arrives, so that the flow is in the cache. Beside it DPDK's
//! `rte_sched`, which gets packets of random flows. `arrivals` has the cases in which both get the same.

use std::hint::black_box;

use tidegate_benches::Harness;
use tidegate_benches::peers::Peer;
use tidegate_core::fbq::{ClassParams, Fbc, FbcParams, Spare};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::packet::NO_SLOT;
use tidegate_core::qdisc::Discard;
use tidegate_core::{Bytes, FlowKey, Instant, Packet, Qdisc, Rate, Span};

/// A packet that carries the slot of its flow, as the packets of the engine do.
#[derive(Clone, Copy)]
struct Small {
    flow: u64,
    slot: u32,
    size: u32,
}

impl Packet for Small {
    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.size))
    }
    fn flow(&self) -> FlowKey {
        FlowKey::numbered(key(self.flow))
    }
    fn flow_slot(&self) -> u32 {
        self.slot
    }
}

fn key(flow: u64) -> u64 {
    flow.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// With two packets of each flow: all of 1,400 B, or `mixed` of 64 to 1,500 B, so that no two tags are equal.
fn shaper(flows: u64, spare: Spare, mixed: bool) -> Fbc<Small> {
    let rate = Rate::from_mbit(10_000);
    let class = ClassParams {
        spare,
        limit: Bytes::MAX,
        flow_limit: Bytes::MAX,
        burst: Bytes::new(1_000_000),
        ..ClassParams::new(rate)
    };
    let params = FbcParams {
        max_flows: flows as usize + 1,
        idle_timeout: Span::from_secs(1_000_000),
        burst: Bytes::new(1_000_000),
        ..FbcParams::new(rate)
    };
    let mut shaper = Fbc::new(params, vec![class], vec![], Instant::ZERO).expect("valid");
    for round in 0..2 {
        for flow in 0..flows {
            let size = if mixed { 64 + (key(flow * 2 + round) >> 32) as u32 % 1_437 } else { 1_400 };
            // Flows get their slots in turn.
            shaper.enqueue(Instant::from_nanos(round), Small { flow, slot: flow as u32, size }, &mut Discard);
        }
    }
    shaper
}

fn one(queue: &mut impl Qdisc<Small>, now: &mut Instant) {
    *now = queue.deadline(*now).instant(*now).unwrap_or(*now);
    if let Some(packet) = queue.dequeue(*now, &mut Discard) {
        queue.enqueue(*now, black_box(packet), &mut Discard);
    }
}

fn main() {
    let mut harness = Harness::from_args();
    harness.case("fifo", 1, || {
        let mut queue = Fifo::new(Limit::NONE);
        (0..64).for_each(|flow| {
            queue.enqueue(Instant::ZERO, Small { flow, slot: NO_SLOT, size: 1_400 }, &mut Discard);
        });
        let mut now = Instant::ZERO;
        move || one(&mut queue, &mut now)
    });
    for (kind, spare, mixed) in
        [("easy Shared", Spare::Shared, false), ("easy mixed", Spare::Shared, true), ("easy Idle", Spare::Idle, false)]
    {
        for flows in [64, 4_096, 65_536, 1_000_000] {
            let name = format!("{kind}/{flows}");
            harness.case(&name, 1, || {
                let mut shaper = shaper(flows, spare, mixed);
                let mut now = Instant::from_nanos(1);
                // A round, so that the flows are served in the order of their tags and not of their making.
                (0..flows).for_each(|_| one(&mut shaper, &mut now));
                move || one(&mut shaper, &mut now)
            });
            // rte_sched has a power of two of pipes, and memory for 32,768 of them.
            match flows {
                4_096 => harness.beside(&name, Peer::RteSched(4_096), "packet"),
                65_536 => harness.beside(&name, Peer::RteSched(32_768), "packet"),
                _ => {}
            }
        }
    }
}

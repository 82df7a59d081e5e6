//! The cost of a packet where nothing helps: flows drawn at random, uniformly or by Zipf's law, sizes of 64 to 1,500 B, half of the
//! flows ending and others beginning, and arrivals that do not depend on what leaves. One packet arrives and, unless one was
//! dropped, one leaves, so that the number of queued packets is constant. The cases of `fbq`, `cbq` and `fair`, where packets return to where they left, are the
//! easy ones beside these.
//!
//! Warm rows are measured over and over, so that the caches have what fits into them; cold rows after something else has filled
//! them, 32 packets at a time.

use std::hint::black_box;

use tidegate_benches::Harness;
use tidegate_benches::peers::Peer;
use tidegate_benches::traffic::{Arrival, Spread, Traffic};
use tidegate_core::cake::{self, Cake};
use tidegate_core::cbq::{self, Cbq};
use tidegate_core::codel;
use tidegate_core::drr::{self, Drr};
use tidegate_core::fbq::{ClassParams, Fbc, FbcParams};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::fq_codel::{self, FqCodel};
use tidegate_core::htb::{self, Htb};
use tidegate_core::mered::{self, Mered};
use tidegate_core::packet::NO_SLOT;
use tidegate_core::qdisc::Discard;
use tidegate_core::sfq::{self, Sfq};
use tidegate_core::{Bytes, ClassId, FlowKey, Instant, Packet, Qdisc, Rate, Span};

/// A packet that carries the slot of its flow, as the packets of the engine do.
#[derive(Clone, Copy)]
struct P {
    flow: u64,
    slot: u32,
    class: u16,
    size: u16,
}

impl Packet for P {
    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.size))
    }
    fn flow(&self) -> FlowKey {
        FlowKey { flow: self.flow, source: self.flow >> 4, destination: self.flow >> 8 }
    }
    fn class(&self) -> ClassId {
        ClassId(u32::from(self.class))
    }
    fn flow_slot(&self) -> u32 {
        self.slot
    }
}

const LINK: Rate = Rate::from_mbit(10_000);
const TOGETHER: usize = 32;

/// Whether packets are classified or belong to one class.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Flow,
    Class,
}

/// A discipline under traffic.
struct Run<Q> {
    qdisc: Q,
    by: By,
    traffic: Traffic,
    /// The slot that the flow of each place had last, as the engine remembers it.
    slots: Vec<u32>,
    queued: u32,
    now: Instant,
    arrived: [Arrival; TOGETHER],
    next: usize,
}

impl<Q: Qdisc<P>> Run<Q> {
    /// With `queued` packets in it.
    fn new(qdisc: Q, by: By, spread: Spread, flows: u32, queued: u32) -> Self {
        let mut traffic = Traffic::new(spread, flows);
        let arrived = std::array::from_fn(|_| traffic.arrival());
        let slots = vec![NO_SLOT; flows as usize];
        let mut run = Self { qdisc, by, traffic, slots, queued, now: Instant::ZERO, arrived, next: 0 };
        (0..queued).for_each(|_| run.arrive());
        // Until each flow has been served several times.
        (0..4 * u64::from(queued.max(flows))).for_each(|_| run.one());
        run
    }
    /// Packets come from the line in groups, so that what the caller knows of their flows is read for several at once.
    #[inline]
    fn packet(&mut self) -> (P, u32) {
        if self.next == TOGETHER {
            self.arrived = std::array::from_fn(|_| self.traffic.arrival());
            self.next = 0;
            black_box(self.arrived.map(|arrival| self.slots[arrival.place as usize]));
        }
        let Arrival { place, flow, size } = self.arrived[self.next];
        self.next += 1;
        let class = if self.by == By::Class { place as u16 } else { 0 };
        (P { flow: mixed(flow), slot: self.slots[place as usize], class, size: size as u16 }, place)
    }
    #[inline]
    fn arrive(&mut self) {
        let (packet, place) = self.packet();
        self.slots[place as usize] = self.qdisc.enqueue(self.now, packet, &mut Discard).slot;
    }
    #[inline]
    fn leave(&mut self) {
        if self.qdisc.backlog().packets <= u64::from(self.queued) {
            return;
        }
        self.now = self.qdisc.deadline(self.now).instant(self.now).unwrap_or(self.now);
        black_box(self.qdisc.dequeue(self.now, &mut Discard));
    }
    #[inline]
    fn one(&mut self) {
        self.arrive();
        // The mean packet takes 626 ns.
        self.now += Span::from_nanos(500);
        self.leave();
    }
}

/// A flow's key: a hash, as the classifier makes it.
fn mixed(flow: u64) -> u64 {
    (flow ^ (flow >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

/// Both kinds of traffic, warm and cold, one by one.
fn rows<Q: Qdisc<P>>(harness: &mut Harness, name: &str, by: By, flows: u32, queued: u32, make: impl Fn() -> Q) {
    for (kind, spread) in Spread::ALL {
        harness.case(&format!("{name} {kind} warm/{flows}"), 1, || {
            let mut run = Run::new(make(), by, spread, flows, queued);
            move || run.one()
        });
    }
    let uniform = Spread::Uniform;
    harness.cold_case(&format!("{name} uniform cold/{flows}"), TOGETHER as u64, || {
        let mut run = Run::new(make(), by, uniform, flows, queued);
        move || (0..TOGETHER).for_each(|_| run.one())
    });
}

fn fbq(flows: u32) -> Fbc<P> {
    let burst = Bytes::new(1_000_000);
    let class = ClassParams { limit: Bytes::MAX, flow_limit: Bytes::MAX, burst, ..ClassParams::new(LINK) };
    // Records for as many flows that ended as there are, so that each flow that begins removes one of these.
    let params = FbcParams { max_flows: 2 * flows as usize, burst, ..FbcParams::new(LINK) };
    Fbc::new(params, vec![class], vec![], Instant::ZERO).expect("valid")
}

fn cbq(classes: u32) -> Cbq<P, Fifo<P>> {
    let root = ClassId(1 << 19);
    let mut tree = Cbq::new(cbq::Params::new(LINK, Bytes::new(1_500), root)).expect("valid");
    for id in 0..classes {
        let class = cbq::Class::new(Rate::from_bps(LINK.as_bps() / u64::from(classes))).borrowing();
        tree.add_leaf(Instant::ZERO, ClassId(id), root, class, Fifo::new(Limit::NONE)).expect("fits");
    }
    tree
}

/// Leaves under one class of the link's rate, half of it their own.
fn htb(classes: u32) -> Htb<P, Fifo<P>> {
    let burst = Bytes::new(12_500);
    let root = htb::Class { burst, cburst: burst, ..htb::Class::new(LINK) };
    let own = Rate::from_bps(LINK.as_bps() / u64::from(2 * classes));
    let leaf = htb::Class { ceil: LINK, burst, cburst: burst, ..htb::Class::new(own) };
    let leaves = (0..classes).map(|_| htb::Node::leaf(leaf, Some(0), Fifo::new(Limit::NONE)));
    Htb::new(std::iter::once(htb::Node::inner(root, None)).chain(leaves).collect(), None).expect("valid")
}

/// With limits that the packets which the benchmark queues do not reach.
fn without_rate(harness: &mut Harness, flows: u32) {
    let limit = Limit::packets(2_000);
    let codel = codel::Params { limit, ..codel::Params::default() };
    let queued = 1_000;
    rows(harness, "drr", By::Flow, flows, queued, || {
        Drr::new(drr::Params { limit, ..drr::Params::default() }).expect("valid")
    });
    rows(harness, "sfq", By::Flow, flows, queued, || {
        Sfq::new(sfq::Params { limit, ..sfq::Params::default() }).expect("valid")
    });
    rows(harness, "fq_codel", By::Flow, flows, queued, || {
        FqCodel::new(fq_codel::Params { codel, ..fq_codel::Params::default() }).expect("valid")
    });
    rows(harness, "cake", By::Flow, flows, queued, || {
        Cake::new(cake::Params { rate: None, codel, ..cake::Params::for_link(LINK) }, 1, "cake").expect("valid")
    });
    rows(harness, "mered", By::Flow, flows, queued, || {
        Mered::new(mered::Params { limit, ..mered::Params::for_link(LINK) }, 1, "mered").expect("valid")
    });
}

fn main() {
    let mut harness = Harness::from_args();
    for flows in [4_096, 32_768, 1_000_000] {
        rows(&mut harness, "fbq", By::Flow, flows, flows, || fbq(flows));
        for (kind, spread) in Spread::ALL.into_iter().filter(|_| flows <= 32_768) {
            harness.beside(&format!("fbq {kind} warm/{flows}"), Peer::RteSchedMixed(flows, spread), "packet");
        }
    }
    for classes in [10, 1_000, 10_000] {
        rows(&mut harness, "cbq", By::Class, classes, 2 * classes, || cbq(classes));
        rows(&mut harness, "htb", By::Class, classes, 2 * classes, || htb(classes));
    }
    for flows in [4_096, 100_000] {
        without_rate(&mut harness, flows);
    }
}

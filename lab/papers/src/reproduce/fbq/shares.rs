//! Section 4 of the paper, tested on the shaper alone: minimum rates, preference, displacement, feedback, and the order
//! of the classes. These items are deterministic.

use std::collections::BTreeMap;

use tidegate_core::fbq::{ClassParams, Displace, Fbc, FbcParams, Feedback, Marking, Profile, Spare, Terms};
use tidegate_core::{Bytes, ClassId, DropReason, Event, Instant, Outlet, Packet, Qdisc, Rate, Span};
use tidegate_sim::SimPacket;

use crate::reproduce::Item;
use crate::reproduce::item::{Bound, paper};

/// The rate of the class, in Mbit/s.
const CLASS: u64 = 10;
const SIZE: u32 = 1_000;
/// The tolerance, one hundredth. Half a second has 625 packets.
const EVEN: f64 = 0.01;

/// A shaper, its clock, and the bytes that it has sent for each flow.
struct Bench {
    shaper: Fbc<SimPacket>,
    now: Instant,
    sent: BTreeMap<u64, u64>,
    outlet: Events,
    /// The classes of the packets, in the order in which these were sent.
    order: Vec<u32>,
}

#[derive(Default)]
struct Events(Vec<Event>);

impl Outlet<SimPacket> for Events {
    fn dropped(&mut self, _: SimPacket, _: DropReason) {}
    fn event(&mut self, event: Event) {
        self.0.push(event);
    }
}

impl Bench {
    fn new(classes: Vec<ClassParams>, profiles: Vec<Profile>) -> Self {
        let total: Rate = classes.iter().map(|class| class.rate).sum();
        let params = FbcParams { idle_timeout: Span::from_millis(200), ..FbcParams::new(total) };
        let shaper = Fbc::new(params, classes, profiles, Instant::ZERO).expect("the classes fit");
        Self { shaper, now: Instant::ZERO, sent: BTreeMap::new(), outlet: Events::default(), order: Vec::new() }
    }
    /// Keeps flows (key, class, profile) backlogged for `span`. Returns the rate of each in Mbit/s.
    fn greedy(&mut self, flows: &[(u64, u16, u16)], span: Span) -> BTreeMap<u64, f64> {
        self.sent.clear();
        let end = self.now + span;
        while self.now < end {
            for &(key, class, profile) in flows {
                // Packets of a flow without a share may find no room and are dropped.
                let queued = self.shaper.flow(key).map_or(0, |flow| flow.backlog.packets);
                for _ in queued..8 {
                    let mut packet = SimPacket::datagram(key, SIZE);
                    packet.class = class;
                    packet.profile = profile;
                    self.shaper.enqueue(self.now, packet, &mut self.outlet);
                }
            }
            self.run_until((self.now + Span::from_micros(500)).min(end));
        }
        self.sent.iter().map(|(key, bytes)| (*key, *bytes as f64 * 8e-6 / span.as_secs_f64())).collect()
    }
    fn run_until(&mut self, end: Instant) {
        while let Some(due) = self.shaper.deadline(self.now).instant(self.now)
            && due <= end
        {
            self.now = self.now.max(due);
            let Some(packet) = self.shaper.dequeue(self.now, &mut self.outlet) else { break };
            self.order.push(u32::from(packet.class));
            *self.sent.entry(packet.flow).or_default() += u64::from(packet.size);
        }
        self.now = end;
    }
}

fn class(mbit: u64) -> ClassParams {
    ClassParams {
        spare: Spare::Idle,
        limit: Bytes::new(10_000_000),
        flow_limit: Bytes::MAX,
        ..ClassParams::new(Rate::from_mbit(mbit))
    }
}

fn minimum(mbit: u64) -> Profile {
    Profile { minimum: Rate::from_mbit(mbit), ..Profile::default() }
}

const HALF: Span = Span::from_millis(500);

pub fn run() -> Vec<Item> {
    let mut items = Vec::new();
    sharing(&mut items);
    minimums(&mut items);
    preference(&mut items);
    displacement(&mut items);
    feedback(&mut items);
    order(&mut items);
    items
}

fn mbit(id: &str, what: &str, value: f64, expected: f64, source: &'static str) -> Item {
    let item = Item::measured(format!("shares.{id}"), what, "Mbit/s", value).paper(expected);
    item.bound(Bound::around(expected, EVEN * CLASS as f64, paper(source)))
}

/// Equations (4.1) to (4.3): n flows have 1/n each, n + 1 flows have 1/(n + 1), and the share of a flow that ends is
/// given back.
fn sharing(items: &mut Vec<Item>) {
    let mut bench = Bench::new(vec![class(CLASS)], vec![Profile::default()]);
    let flows: Vec<_> = (0..5).map(|key| (key, 0, 0)).collect();
    for (id, n, what) in [
        ("equal.4", 4, "four flows in a class of 10 Mbit/s: the least rate"),
        ("equal.5", 5, "a fifth flow begins: the least rate"),
        ("equal.2", 2, "three of them end: the least rate"),
    ] {
        bench.greedy(&flows[..n], HALF);
        let rates = bench.greedy(&flows[..n], HALF);
        let least = rates.values().fold(f64::INFINITY, |least, rate| least.min(*rate));
        items.push(mbit(
            id,
            what,
            least,
            CLASS as f64 / n as f64,
            "section 4.1, (4.2) and (4.3): 1/n of d(q) for each of n flows",
        ));
    }
}

/// Equation (4.4): granted rates are kept, and a flow for which no rate is left has d(f) = 0 until some is released.
fn minimums(items: &mut Vec<Item>) {
    let mut bench = Bench::new(vec![class(CLASS)], vec![Profile::default(), minimum(5), minimum(4)]);
    let flows: Vec<_> = std::iter::once((0, 0, 1)).chain((1..6).map(|key| (key, 0, 0))).collect();
    bench.greedy(&flows, HALF);
    let rates = bench.greedy(&flows, HALF);
    items.push(mbit(
        "minimum",
        "a flow with a minimum of 5 Mbit/s beside five without",
        rates[&0],
        5.0,
        "section 4.1: shaping must not reduce the share below the minimum",
    ));
    items.push(mbit(
        "minimum.others",
        "one of the five flows beside the one with a minimum",
        rates[&1],
        1.0,
        "section 4.1: the others share what remains",
    ));

    let mut bench = Bench::new(vec![class(CLASS)], vec![Profile::default(), minimum(5)]);
    bench.greedy(&[(0, 0, 1), (1, 0, 1)], HALF);
    let rates = bench.greedy(&[(0, 0, 1), (1, 0, 1), (2, 0, 0)], HALF);
    let new = rates.get(&2).copied().unwrap_or(0.0);
    items.push(mbit(
        "none-left",
        "a new flow where two minimums take the whole class",
        new,
        0.0,
        "section 4.1, (4.4): it is not rejected, it gets d(f) = 0",
    ));
    bench.greedy(&[(0, 0, 1), (2, 0, 0)], HALF);
    let rates = bench.greedy(&[(0, 0, 1), (2, 0, 0)], HALF);
    items.push(mbit(
        "released",
        "the same flow once one of the two has ended",
        rates[&2],
        5.0,
        "section 4.1: released rate is assigned at once",
    ));
}

/// Equation (4.5): each step of preference adds the fraction `incr` of d(q), as far as the minimums of the others
/// allow.
fn preference(items: &mut Vec<Item>) {
    let flows = [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)];
    let mut bench = Bench::new(vec![class(CLASS)], vec![Profile::default()]);
    bench.greedy(&flows, HALF);
    bench.shaper.prefer(bench.now, 0, 2).expect("the flow is there");
    let rates = bench.greedy(&flows, HALF);
    items.push(mbit(
        "preferred",
        "one of four flows preferred by two steps of 10 % of the class",
        rates[&0],
        4.5,
        "section 4.2: incr is the percentage by which its share is increased",
    ));
    items.push(mbit(
        "preferred.others",
        "one of the three flows beside the preferred one",
        rates[&1],
        11.0 / 6.0,
        "section 4.2: at the expense of the shares of the others",
    ));

    let flows = [(0, 0, 0), (1, 0, 1), (2, 0, 1)];
    let mut bench = Bench::new(vec![class(CLASS)], vec![Profile::default(), minimum(3)]);
    bench.greedy(&flows, HALF);
    bench.shaper.prefer(bench.now, 0, 10).expect("the flow is there");
    let rates = bench.greedy(&flows, HALF);
    items.push(mbit(
        "s-free",
        "preferred by the whole class beside two minimums of 3 Mbit/s",
        rates[&0],
        4.0,
        "section 4.2, (4.5): only what the minimums of the others leave",
    ));
}

/// A flow whose share falls below its threshold is moved to the other class.
fn displacement(items: &mut Vec<Item>) {
    let profiles = vec![Profile::default()];
    let mut bench = Bench::new(vec![class(CLASS), class(CLASS)], profiles);
    let displace = Some(Displace { below: Rate::from_mbit(3), to: 1 });
    let terms = Terms { displace, ..Terms::default() };
    let shaper = &mut bench.shaper;
    shaper.expect(bench.now, SimPacket::datagram(0, SIZE).flow(), ClassId(0), 0, terms, &mut bench.outlet);
    let flows: Vec<_> = (0..5).map(|key| (key, 0, 0)).collect();
    bench.greedy(&flows[..3], HALF);
    let stays = bench.shaper.flow(0).is_some_and(|flow| flow.class == ClassId(0));
    let basis = || paper("section 4.2: moved when its share is below thres > dmin(f)");
    items.push(Item::claim(
        "shares.displaced.not",
        "with a share of 3.3 Mbit/s, above thres = 3, it stays in its class",
        stays,
        basis(),
    ));
    bench.greedy(&flows, HALF);
    let moved = bench.shaper.flow(0).is_some_and(|flow| flow.class == ClassId(1));
    items.push(Item::claim(
        "shares.displaced",
        "with a share of 2 Mbit/s it is moved to the other class",
        moved,
        basis(),
    ));
    let rates = bench.greedy(&flows, HALF);
    items.push(mbit(
        "displaced.rate",
        "its rate there, where it is alone",
        rates[&0],
        CLASS as f64,
        "section 4.2: flows are displaced to classes with room",
    ));
}

/// The owner of a flow is notified when its queue exceeds one threshold, and when it falls below another.
fn feedback(items: &mut Vec<Item>) {
    let thresholds = Feedback { above: Bytes::new(6_000), below: Bytes::new(2_000), mark: Marking::Never };
    let mut bench =
        Bench::new(vec![ClassParams { feedback: Some(thresholds), ..class(CLASS) }], vec![Profile::default()]);
    bench.greedy(&[(0, 0, 0)], HALF);
    let end = bench.now + HALF;
    bench.run_until(end);
    let first = |of: fn(&Event) -> bool| bench.outlet.0.iter().position(of);
    let above = first(|event| matches!(event, Event::QueueAbove { flow: 0, bytes } if bytes.as_u64() >= 6_000));
    let below = first(|event| matches!(event, Event::QueueBelow { flow: 0, bytes } if bytes.as_u64() <= 2_000));
    let told = above.zip(below).is_some_and(|(above, below)| above < below);
    let basis = paper("section 4.2: a signal when the utilisation of a flow's queue passes thresholds");
    items.push(Item::claim(
        "shares.feedback",
        "the owner is notified when the queue passes 6 kB and when it is below 2 kB",
        told,
        basis,
    ));
}

/// Classes are served in the order of their priority, whatever the order of their configuration.
fn order(items: &mut Vec<Item>) {
    let with = |priority| ClassParams { priority, ..class(CLASS) };
    let mut bench = Bench::new(vec![with(2), with(0), with(1)], vec![Profile::default()]);
    for (key, class) in [(0, 0), (1, 1), (2, 2)] {
        let mut packet = SimPacket::datagram(key, SIZE);
        packet.class = class;
        bench.shaper.enqueue(bench.now, packet, &mut bench.outlet);
    }
    let end = bench.now + Span::from_millis(10);
    bench.run_until(end);
    let ordered = bench.order == [1, 2, 0];
    let basis = paper("section 4: the control sequence of the classes depends on their priority");
    items.push(Item::claim(
        "shares.order",
        "with packets in all classes the first packets leave by priority",
        ordered,
        basis,
    ));
}

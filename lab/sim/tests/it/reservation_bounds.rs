//! The delay bounds of reservations hold in the simulator, whatever the others send, and whether the line takes a
//! packet when it can send it or a driver takes all that it is given: 10,000 random trees with random reservations that
//! were admitted.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tidegate_core::bucket::TokenBucket;
use tidegate_core::cbq::{Borrow, Cbq, Class, Conserving, Lead, Params, Regulation, Sharing};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::random::Stream;
use tidegate_core::reservation::{Grant, Policy, Request, Reservations, Service, TSpec};
use tidegate_core::{Bytes, ClassId, Instant, Rate, Span};
use tidegate_sim::{Driver, FlowSpec, Line, Network, Service as Calls, SimPacket, Stage, Workload};

const ROOT: ClassId = ClassId(1);
const RESERVED: ClassId = ClassId(2);
const ZERO: Instant = Instant::ZERO;

type Tree = Cbq<SimPacket, Fifo<SimPacket>>;

fn between(random: &mut Stream, low: u64, high: u64) -> u64 {
    low + random.below(high - low + 1)
}

/// A tree with rate free for reservations, and others of the same and of lower priority that borrow what they can.
fn tree(random: &mut Stream) -> (Tree, Vec<u16>) {
    let link = Rate::from_kbit(between(random, 256, 50_000));
    let mtu = Bytes::new([576, 1_500, 9_180][random.below(3) as usize]);
    let packets = link.time_for_ceil(mtu.saturating_mul(random.below(8))).expect("not zero");
    let default = Params::new(link, mtu, ROOT);
    let params = Params {
        lead: [default.lead, Lead::Within(Span::ZERO), Lead::Within(packets)][random.below(3) as usize],
        sharing: [Sharing::Formal, Sharing::AncestorOnly][random.below(2) as usize],
        regulation: [Regulation::Recheck, Regulation::Sleep][random.below(2) as usize],
        conserving: [Conserving::Strict, Conserving::WhenLinkIdle, Conserving::Efficient][random.below(3) as usize],
        ..default
    };
    let mut cbq = Cbq::new(params).expect("valid");
    let part = |percent: u64| Rate::from_bps(link.as_bps() / 100 * percent);
    let reserved = between(random, 20, 70);
    cbq.add_inner(ZERO, RESERVED, ROOT, Class::new(part(reserved)).borrowing()).expect("fits");
    let urgent = random.below(30);
    let mut others = Vec::new();
    if urgent > 0 {
        let class = Class::new(part(urgent)).borrowing().with_priority(0);
        cbq.add_leaf(ZERO, ClassId(3), ROOT, class, Fifo::new(Limit::packets(30))).expect("fits");
        others.push(3);
    }
    let class = Class::new(part(100 - reserved - urgent)).borrowing().with_priority(1);
    cbq.add_leaf(ZERO, ClassId(4), ROOT, class, Fifo::new(Limit::packets(30))).expect("fits");
    others.push(4);
    (cbq, others)
}

fn request(random: &mut Stream, free: Rate, mtu: Bytes) -> Request {
    let rate = Rate::from_bps(between(random, free.as_bps() / 40 + 1, free.as_bps() / 3 + 1));
    // Voice at times: nothing of its own to wait for, so that what others do to it shows.
    let (most, burst) = if random.below(3) == 0 { (100, 1) } else { (mtu.as_u64(), 8 * mtu.as_u64()) };
    let max_packet = Bytes::new(between(random, 40, most));
    let tspec = TSpec {
        rate,
        bucket: max_packet + Bytes::new(random.below(burst)),
        peak: Rate::from_bps(rate.as_bps() * between(random, 1, 20)),
        min_unit: Bytes::new(between(random, 1, max_packet.as_u64())),
        max_packet,
    };
    let rate = Rate::from_bps(rate.as_bps() + random.below(rate.as_bps()));
    let service = match random.below(4) {
        0 => Service::ControlledLoad,
        2 => Service::Guaranteed { rate: Some(free), delay: None },
        1 => Service::Guaranteed { rate: Some(rate), delay: None },
        _ => Service::Guaranteed { rate: None, delay: Some(Span::from_millis(between(random, 20, 2_000))) },
    };
    Request { tspec, service }
}

/// The arrivals of a flow that sends as much as its specification allows, now and then after a rest.
fn arrivals(random: &mut Stream, tspec: &TSpec, n: usize) -> Vec<(Span, Bytes)> {
    let mut peak = TokenBucket::full(tspec.peak, tspec.max_packet, ZERO);
    let mut token = TokenBucket::full(tspec.rate, tspec.bucket, ZERO);
    let mut now = ZERO;
    (0..n)
        .map(|_| {
            let size = match random.below(3) {
                0 => tspec.min_unit,
                1 => tspec.max_packet,
                _ => Bytes::new(between(random, tspec.min_unit.as_u64(), tspec.max_packet.as_u64())),
            };
            if random.below(16) == 0 {
                let fill = tspec.rate.time_for_ceil(tspec.bucket).expect("not zero");
                now += Span::from_nanos(random.below(fill.as_nanos()));
            }
            let allowed = |bucket: &TokenBucket| bucket.time_of(now, size).expect("fits");
            now = allowed(&peak).max(allowed(&token));
            assert!(peak.take(now, size) && token.take(now, size));
            (now.since(ZERO), size)
        })
        .collect()
}

/// Takes all that it is given and holds it in front of the line.
const GREEDY: Driver = Driver {
    software: Bytes::new(1 << 30),
    hardware: Bytes::new(1 << 16),
    service: Calls::DrainAll,
    on_receive: false,
    on_enqueue: true,
    forwarding: Span::ZERO,
    timer_hz: None,
};

/// The longest delays of the flows by class, from the arrival to the last bit on the link.
fn delays(random: &mut Stream, cbq: Tree, others: &[u16], granted: &[(TSpec, Grant)]) -> HashMap<u16, Span> {
    let params = *cbq.params();
    let mut network = Network::new(random.next_u64());
    let (from, to) = (network.host("a"), network.host("b"));
    let link = network.simplex(from, to, Line::new(params.link, Span::ZERO));
    network.queue(link, cbq);
    if random.below(2) == 0 {
        network.driver(link, GREEDY);
    }
    let packet_time = params.link.time_for_ceil(params.mtu).expect("not zero");
    let end = ZERO + packet_time.saturating_mul(60);
    for &class in others {
        let packet = Bytes::new(between(random, params.mtu.as_u64() / 3 + 28, params.mtu.as_u64()));
        let workload = Workload::Constant { rate: Rate::from_bps(params.link.as_bps() * 3 / 2), packet };
        network.flow(FlowSpec::udp(format!("other {class}"), from, to, workload).in_class(class).stopping(end));
    }
    for (n, (tspec, grant)) in granted.iter().enumerate() {
        let trace = arrivals(random, tspec, 40);
        let start = ZERO + Span::from_nanos(random.below(packet_time.as_nanos() * 20));
        let class = grant.id.0 as u16;
        let flow = FlowSpec::udp(format!("reserved {n}"), from, to, Workload::Trace(trace));
        network.flow(flow.in_class(class).starting(start));
    }
    let worst = Rc::new(RefCell::new(HashMap::new()));
    let (shared, mut came) = (worst.clone(), HashMap::<u16, std::collections::VecDeque<Instant>>::new());
    network.tap(link, move |now, stage, packet| match stage {
        Stage::Arrived => came.entry(packet.class).or_default().push_back(now),
        Stage::Transmitting => {
            let at = came.get_mut(&packet.class).and_then(|queue| queue.pop_front()).expect("it came");
            let gone = now + params.link.time_for_ceil(Bytes::new(u64::from(packet.size))).expect("not zero");
            let mut worst = shared.borrow_mut();
            let longest: &mut Span = worst.entry(packet.class).or_default();
            *longest = (*longest).max(gone.since(at));
        }
        Stage::Dropped(_) => {
            // Only others are dropped: their queue refuses at the tail. A reserved packet would show as a missing one.
            came.get_mut(&packet.class).and_then(|queue| queue.pop_back()).expect("it came");
            assert!(packet.class < 100, "a conforming packet was dropped");
        }
        _ => {}
    });
    let mut simulation = network.build().expect("builds");
    simulation.run_until(end + Span::from_secs(1_000_000));
    worst.take()
}

#[test]
fn no_admitted_reservation_waits_longer_than_promised() {
    let (mut configurations, mut reservations, mut closest) = (0, 0, 0.0_f64);
    let mut seed = 0;
    while configurations < 10_000 {
        let mut random = Stream::named(seed, "bounds");
        seed += 1;
        let (mut cbq, others) = tree(&mut random);
        let policy = Policy {
            flows: between(&mut random, 1, 4) as u32,
            first_id: ClassId(100),
            borrow: if random.below(2) == 0 { Borrow::Never } else { Borrow::FromParent },
            ..Policy::new(RESERVED)
        };
        let mut admission = Reservations::new(policy).expect("valid");
        let mut granted = Vec::new();
        for _ in 0..policy.flows {
            let (free, mtu) = (cbq.free_rate(RESERVED).expect("there"), cbq.params().mtu);
            let request = request(&mut random, free, mtu);
            if let Ok(grant) = admission.reserve(ZERO, &mut cbq, &request, Fifo::new) {
                granted.push((request.tspec, grant));
            }
        }
        if granted.is_empty() {
            continue;
        }
        configurations += 1;
        reservations += granted.len();
        let longest = delays(&mut random, cbq, &others, &granted);
        for (tspec, grant) in granted {
            let bound = grant.bound.expect("bytes and priority 0 can promise");
            let longest = longest[&(grant.id.0 as u16)];
            assert!(longest <= bound, "seed {}: {longest:?} > {bound:?} for {tspec:?} {grant:?}", seed - 1);
            closest = closest.max(longest.as_secs_f64() / bound.as_secs_f64());
        }
    }
    assert!(reservations > 15_000, "{reservations}");
    // A bound that no packet comes near would prove nothing.
    assert!(closest > 0.8, "the closest came to {closest} of its bound");
    println!("{reservations} reservations, the closest came to {closest} of its bound");
}

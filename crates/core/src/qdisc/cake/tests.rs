use super::*;
use crate::codel;
use crate::fifo::Limit;
use crate::packet::Dscp;
use tidegate_units::Span;

#[derive(Clone, Copy, Debug, PartialEq)]
struct P {
    flow: u64,
    host: u64,
    size: u64,
    dscp: u8,
    ack: bool,
    /// When it was sent, in ticks.
    at: u64,
}
impl Packet for P {
    fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }
    fn flow(&self) -> FlowKey {
        FlowKey { flow: self.flow, source: self.host, destination: 0 }
    }
    fn dscp(&self) -> Dscp {
        Dscp::new(self.dscp).unwrap()
    }
    fn is_pure_ack(&self) -> bool {
        self.ack
    }
}
fn p(flow: u64, host: u64) -> P {
    P { flow, host, size: 1_000, dscp: 0, ack: false, at: 0 }
}

/// Keeps every flow of `flows` backlogged for `seconds` at 8 Mbit/s, and returns the bytes sent by each.
fn share(params: Params, flows: &[P], seconds: u64) -> Vec<u64> {
    let mut cake = Cake::new(params, 1, "test").unwrap();
    let mut sent = alloc::vec![0_u64; flows.len()];
    let mut waiting = alloc::vec![0_u32; flows.len()];
    let mut now = Instant::ZERO;
    let end = Instant::ZERO + Span::from_secs(seconds);
    let mut out: Vec<(P, DropReason)> = Vec::new();
    while now < end {
        for (n, flow) in flows.iter().enumerate() {
            while waiting[n] < 3 {
                cake.enqueue(now, *flow, &mut out);
                waiting[n] += 1;
            }
        }
        if let Some(packet) = cake.dequeue(now, &mut out) {
            let n = flows.iter().position(|flow| *flow == packet).unwrap();
            sent[n] += packet.size;
            waiting[n] -= 1;
        }
        for (packet, _) in out.drain(..) {
            waiting[flows.iter().position(|flow| *flow == packet).unwrap()] -= 1;
        }
        now = cake.deadline(now).instant(now).unwrap_or(now);
    }
    sent
}

#[test]
fn hosts_share_evenly_and_flows_share_the_host() {
    // Host 1 has four flows, host 2 one: a half each, and an eighth for each of the four.
    let flows = [p(1, 1), p(2, 1), p(3, 1), p(4, 1), p(5, 2)];
    let base = Params::for_link(Rate::from_mbit(8));
    let sent = share(Params { hosts: Isolation::Source, ..base }, &flows, 10);
    // 10 s at 1 MB/s, and 1 ms of lateness at the start. COBALT may move a packet or two.
    let total: u64 = sent.iter().sum();
    assert!((9_990_000..=10_003_000).contains(&total), "{total}");
    for (sent, expected) in sent.iter().zip([1.25e6, 1.25e6, 1.25e6, 1.25e6, 5e6]) {
        assert!((*sent as f64 / expected - 1.0).abs() < 0.01, "{sent} of {expected}");
    }
    let sent = share(Params { hosts: Isolation::Flows, ..base }, &flows, 10);
    for sent in sent {
        assert!((sent as f64 / 2e6 - 1.0).abs() < 0.01, "{sent}");
    }
}

#[test]
fn a_large_packet_that_waits_behind_another_is_not_a_queue() {
    // At 4 Mbit/s a packet of 9,000 B takes 18 ms. The next one arrives 5 ms before that, so that it waits for 23 ms.
    let sent_and_dropped = |params| {
        let mut cake = Cake::new(params, 1, "test").unwrap();
        let (mut now, mut sent) = (Instant::ZERO, 0);
        let mut out: Vec<(P, DropReason)> = Vec::new();
        let large = P { size: 9_000, ..p(1, 1) };
        cake.enqueue(now, large, &mut out);
        while now < Instant::ZERO + Span::from_secs(10) {
            // The sender repeats each packet that was dropped.
            for _ in cake.backlog().packets..2 {
                cake.enqueue(now + Span::from_millis(13), large, &mut out);
            }
            now = cake.deadline(now).instant(now).unwrap();
            sent += u32::from(cake.dequeue(now, &mut out).is_some());
        }
        (sent, out.len())
    };
    let rate = Rate::from_mbit(4);
    let (sent, dropped) = sent_and_dropped(Params::for_packets(rate, Bytes::new(9_014)));
    assert!(sent > 550 && dropped == 0, "{sent} and {dropped}");
    // With packets of Ethernet's size, a packet that waits for 23 ms waits for seven others.
    let (sent, dropped) = sent_and_dropped(Params::for_link(rate));
    assert!(dropped > 50, "{sent} and {dropped}");
}

#[test]
fn tins_go_first_within_their_share_and_the_rest_keep_theirs() {
    // Voice, video, best effort and bulk, all with more than they get.
    let tin = |n: u64, dscp| P { dscp, ..p(n, n) };
    let flows = [tin(1, 46), tin(2, 34), tin(3, 0), tin(4, 8)];
    let params = Params { tins: Tins::Diffserv4, ..Params::for_link(Rate::from_mbit(8)) };
    let sent = share(params, &flows, 20);
    // First 4/16 and 8/16 of 20 MB: 5 and 10. The last quarter, 5 MB, in turns of 4 : 8 : 16 : 1 of 29.
    for (sent, expected) in sent.iter().zip([5.0 + 20.0 / 29.0, 10.0 + 40.0 / 29.0, 80.0 / 29.0, 5.0 / 29.0]) {
        assert!((*sent as f64 / 1e6 / expected - 1.0).abs() < 0.05, "{sent} of {expected} MB");
    }
}

#[test]
fn sets_of_eight_keep_flows_apart() {
    let mut cake = Cake::<P>::new(Params { rate: None, ..Params::for_link(Rate::from_mbit(8)) }, 1, "test").unwrap();
    let mut random = Stream::named(1, "flows");
    // 100 busy flows on 1,024 queues: plain hashing would put about 9 of them together.
    for _ in 0..100 {
        let flow = random.next_u64();
        for _ in 0..2 {
            cake.enqueue(Instant::ZERO, P { size: 100, ..p(flow, 1) }, &mut crate::qdisc::Discard);
        }
    }
    assert_eq!(cake.stats().shared, 0);
    // 1,100 cannot all have one.
    for _ in 0..1_000 {
        let flow = random.next_u64();
        cake.enqueue(Instant::ZERO, P { size: 20, ..p(flow, 1) }, &mut crate::qdisc::Discard);
    }
    let shared = cake.stats().shared;
    assert!((76..250).contains(&shared), "{shared}");
}

#[test]
fn the_ack_filter_leaves_three() {
    let base = Params::for_link(Rate::from_mbit(8));
    let mut cake = Cake::<P>::new(Params { ack_filter: AckFilter::On, ..base }, 1, "test").unwrap();
    let mut out = Vec::new();
    let ack = |flow, n: u64| P { ack: true, size: 40 + n, ..p(flow, 1) };
    cake.enqueue(Instant::ZERO, p(1, 1), &mut out);
    for n in 0..10 {
        cake.enqueue(Instant::ZERO, ack(1, n), &mut out);
        cake.enqueue(Instant::ZERO, ack(2, n), &mut out);
    }
    assert_eq!(cake.stats().acks_filtered, 14);
    assert!(out.iter().all(|(packet, reason)| packet.ack && *reason == DropReason::AckFiltered));
    let mut left = [Vec::new(), Vec::new()];
    let mut now = Instant::ZERO;
    while let Some(at) = cake.deadline(now).instant(now) {
        now = at;
        let packet = cake.dequeue(now, &mut out).unwrap();
        left[packet.flow as usize - 1].push(packet.size);
    }
    assert_eq!(left, [alloc::vec![1_000, 47, 48, 49], alloc::vec![47, 48, 49]]);
}

#[test]
fn the_ack_filter_leaves_three_of_a_flow_that_shares_its_queue() {
    let base = Params::for_link(Rate::from_mbit(8));
    let mut cake = Cake::<P>::new(Params { ack_filter: AckFilter::On, queues: 8, ..base }, 1, "test").unwrap();
    let mut out = Vec::new();
    let ack = |flow, n: u64| P { ack: true, size: 40 + n, ..p(flow, 1) };
    // Eight flows have the eight queues, each with two acknowledgements; what others send lands among them.
    for flow in 1..=8 {
        for n in 0..2 {
            cake.enqueue(Instant::ZERO, ack(flow, n), &mut out);
        }
    }
    for flow in 100..200 {
        cake.enqueue(Instant::ZERO, ack(flow, 0), &mut out);
    }
    assert_eq!(cake.stats().shared, 100);
    // A third of their own is no reason to drop the first; a fourth is.
    for flow in 1..=8 {
        cake.enqueue(Instant::ZERO, ack(flow, 2), &mut out);
    }
    assert!(out.is_empty(), "{} were dropped", out.len());
    for flow in 1..=8 {
        cake.enqueue(Instant::ZERO, ack(flow, 3), &mut out);
    }
    let dropped: Vec<_> = out.iter().map(|(packet, _)| (packet.flow, packet.size)).collect();
    assert_eq!(dropped, (1..=8).map(|flow| (flow, 40)).collect::<Vec<_>>());
}

#[test]
fn what_codel_counted_is_counted_down_also_while_there_is_no_packet() {
    // A flow of 1.2 times the line for ten seconds, and, after a rest, 200 packets whose first has waited for 10 ms:
    // the milliseconds, from when they came, at which packets were dropped.
    let after = |rest_ms: u64| {
        let codel = codel::Params { limit: Limit::packets(10_000), ..codel::Params::default() };
        let params = Params { rate: None, codel, ..Params::for_link(Rate::from_mbit(8)) };
        let mut cake = Cake::<P>::new(params, 1, "test").unwrap();
        let mut out: Vec<(P, DropReason)> = Vec::new();
        let at = |ms| Instant::ZERO + Span::from_millis(ms);
        for ms in 0..10_000 {
            for _ in 0..if ms % 5 == 0 { 2 } else { 1 } {
                cake.enqueue(at(ms), p(1, 1), &mut out);
            }
            cake.dequeue(at(ms), &mut out);
        }
        let mut ms = 10_000;
        while !cake.backlog().is_empty() {
            cake.dequeue(at(ms), &mut out);
            ms += 1;
        }
        assert!(out.len() > 1_000 && cake.stats().overflowed == 0);
        let start = ms + rest_ms;
        for _ in 0..200 {
            cake.enqueue(at(start), p(1, 1), &mut out);
        }
        let mut when = Vec::new();
        for ms in 10..150 {
            out.clear();
            cake.dequeue(at(start + ms), &mut out);
            when.extend(out.iter().map(|_| ms));
        }
        when
    };
    // 40 ms are no rest. In a second the root of the count, which is above 30, falls by 1 s / 0.2 s = 5; in an hour
    // by more than there is: as with a new flow the first drop comes an interval after the first packet that was late.
    let (soon, later) = (after(40), after(1_000));
    assert!(soon.len() > 40 && soon[0] < 20, "{soon:?}");
    assert!(later.len() > 30 && later.len() + 3 < soon.len(), "{later:?}");
    assert_eq!(after(3_600_000), [110]);
}

#[test]
fn blue_holds_down_what_does_not_react() {
    // 16 Mbit/s into 8 without reaction; beside it a flow of 0.8 Mbit/s.
    let mut cake = Cake::<P>::new(Params::for_link(Rate::from_mbit(8)), 1, "test").unwrap();
    let mut out = Vec::new();
    let (mut thin, mut thin_late) = (0, 0);
    for tick in 0..200_000_u64 {
        let now = Instant::ZERO + Span::from_micros(tick * 100);
        if tick % 5 == 0 {
            cake.enqueue(now, p(1, 1), &mut out);
        }
        if tick % 100 == 0 {
            cake.enqueue(now, P { at: tick, ..p(2, 2) }, &mut out);
        }
        while let Some(packet) = cake.dequeue(now, &mut out) {
            if packet.flow == 2 {
                thin += 1;
                thin_late += u64::from(tick - packet.at > 40);
            }
        }
    }
    assert_eq!(thin + out.iter().filter(|(packet, _)| packet.flow == 2).count() as u64, 2_000);
    assert!(thin >= 1_990 && thin_late < 20, "{thin} {thin_late}");
    assert!(cake.stats().dropped > 1_000, "{:?}", cake.stats());
}

#[test]
fn who_comes_after_a_flood_does_not_pay_for_it() {
    // Eight queues, so that later flows share the queue of the flood: 16 Mbit/s into 8 for 5 s, until BLUE
    // drops next to everything.
    let limit = Limit { packets: 10_240, bytes: Bytes::new(20_000) };
    let base = Params::for_link(Rate::from_mbit(8));
    let params = Params { queues: 8, codel: codel::Params { limit, ..base.codel }, ..base };
    let mut cake = Cake::<P>::new(params, 1, "test").unwrap();
    let mut out: Vec<(P, DropReason)> = Vec::new();
    let mut now = Instant::ZERO;
    for tick in 0..50_000_u64 {
        now = Instant::ZERO + Span::from_micros(tick * 100);
        (0..8).for_each(|flow| {
            if tick % 40 == flow * 5 {
                cake.enqueue(now, p(flow, flow), &mut out);
            }
        });
        (0..8).for_each(|flow| {
            if tick % 40 == flow * 5 + 1 {
                cake.enqueue(now, p(flow, flow), &mut out);
            }
        });
        while cake.dequeue(now, &mut out).is_some() {}
    }
    // Not the first, which is the first that is free.
    let of = |queue: &u32| cake.flows[*queue].cobalt.probability();
    let worst = (1..cake.params.queues).max_by_key(of).unwrap();
    let (flood, probability) = (cake.sets.tag(worst), of(&worst));
    assert!(probability > u32::MAX / 2, "{probability}");
    while !cake.backlog().is_empty() {
        now += Span::from_millis(1);
        cake.dequeue(now, &mut out);
    }
    // Packet by packet all come through, the flood's own, too: it is remembered, but a queue of one is not too long.
    out.clear();
    for n in 0..100 {
        now += Span::from_millis(10);
        cake.enqueue(now, p(flood, 1), &mut out);
        assert!(cake.dequeue(now, &mut out).is_some() && out.is_empty(), "packet {n} was dropped");
    }
    // At once they do not.
    for _ in 0..10 {
        cake.enqueue(now, p(flood, 1), &mut out);
    }
    while !cake.backlog().is_empty() {
        now += Span::from_micros(100);
        cake.dequeue(now, &mut out);
    }
    assert!(out.len() > 2, "what the flood did was forgotten: {}", out.len());
    out.clear();
    // New flows, one in each queue, which have received no congestion signal, keep all they send, also what waits.
    for flow in 0..80 {
        for _ in 0..2 {
            cake.enqueue(now, p(1_000 + flow, 1), &mut out);
        }
        if flow % 8 == 7 {
            while !cake.backlog().is_empty() {
                now += Span::from_micros(100);
                cake.dequeue(now, &mut out);
            }
        }
    }
    assert!(out.is_empty(), "{}", out.len());
}

#[test]
fn a_flow_that_comes_back_gets_the_queue_it_had() {
    let params = Params { queues: 8, rate: None, ..Params::for_link(Rate::from_mbit(8)) };
    let mut cake = Cake::<P>::new(params, 1, "test").unwrap();
    for flow in 1..=3 {
        cake.enqueue(Instant::ZERO, p(flow, 1), &mut crate::qdisc::Discard);
    }
    let had = (0..8).find(|&queue| cake.sets.tag(queue) == 3);
    // A fourth, which takes the first queue, and after which the third is released.
    while cake.dequeue(Instant::ZERO, &mut crate::qdisc::Discard).is_some() {}
    cake.enqueue(Instant::ZERO, p(4, 1), &mut crate::qdisc::Discard);
    cake.dequeue(Instant::ZERO, &mut crate::qdisc::Discard);
    assert_eq!((0..8).filter(|&queue| !cake.sets.is_busy(queue)).count(), 7);
    assert_eq!((Some(cake.flow_of(3)), cake.flow_of(9)), (had, 1));
}

#[test]
fn a_superpacket_of_small_segments_is_paid_off_in_one_turn() {
    // 64 segments of 28 B with 100 B of overhead each are 1,792 B that take 8,192 on the line, more than four quanta of
    // 1,892: in bulk, whose turn is one quantum, who sent one owes that much, and is not to keep the line waiting until it is paid.
    #[derive(Debug)]
    struct Super;
    impl Packet for Super {
        fn size(&self) -> Bytes {
            Bytes::new(1_792)
        }
        fn flow(&self) -> FlowKey {
            FlowKey::numbered(1)
        }
        fn segments(&self) -> u32 {
            64
        }
        fn dscp(&self) -> Dscp {
            Dscp::new(8).unwrap()
        }
    }
    let wire = Wire { overhead: 100, ..Wire::RAW };
    let limit = Limit::packets(100);
    let codel = codel::Params { limit, ..codel::Params::default() };
    let mut cake =
        Cake::new(Params { rate: None, wire, codel, ..Params::for_link(Rate::from_mbit(100)) }, 1, "test").unwrap();
    for _ in 0..20 {
        cake.enqueue(Instant::ZERO, Super, &mut crate::qdisc::Discard);
    }
    for n in 0..20 {
        assert_eq!(cake.deadline(Instant::ZERO), Deadline::Now);
        assert!(cake.dequeue(Instant::ZERO, &mut crate::qdisc::Discard).is_some(), "packet {n} waits for nothing");
    }
}

#[test]
fn blue_lets_go_while_its_queue_is_empty() {
    let (params, at) = (codel::Params::default(), |ms| Instant::ZERO + Span::from_millis(ms));
    let (up, down) = (1 << 24, 1 << 20);
    let raised = || {
        let mut state = cobalt::State::default();
        // Two rises, since the second call comes within the same target of 5 ms.
        [10, 14, 15].into_iter().for_each(|ms| state.on_overflow(&params, at(ms)));
        assert_eq!(state.probability(), 2 * up);
        state
    };
    // Empty from 100 ms to 117 ms: one step at once, since the last rise was 5 ms ago or more, and three more, each 5 ms
    // later. The next call is at 117 ms, where a kernel would have looked many times.
    let mut state = raised();
    state.on_empty(at(100));
    state.on_arrival(&params, at(117));
    assert_eq!(state.probability(), 2 * up - 4 * down);
    // No step while packets are queued, and the next one only 5 ms after the last, which was at 115 ms.
    state.on_arrival(&params, at(1_000));
    state.on_empty(at(1_000));
    state.on_arrival(&params, at(1_000));
    state.on_empty(at(1_004));
    state.on_arrival(&params, at(1_004));
    assert_eq!(state.probability(), 2 * up - 5 * down);
    // Soon after a rise: the first step is at 20 ms. A long rest ends it.
    let mut state = raised();
    state.on_empty(at(16));
    state.on_arrival(&params, at(19));
    assert_eq!(state.probability(), 2 * up);
    state.on_empty(at(19));
    state.on_arrival(&params, at(3_600_000));
    assert_eq!(state.probability(), 0);
}

#[test]
fn many_new_flows_of_the_only_host_leave() {
    // 150 flows send a packet each, which is less than a quantum: the host owes 16 quanta before all have left, and no flow takes
    // turns.
    let mut cake = Cake::<P>::new(Params { rate: None, ..Params::for_link(Rate::from_mbit(8)) }, 1, "test").unwrap();
    let mut out: Vec<(P, DropReason)> = Vec::new();
    for flow in 1..=150 {
        cake.enqueue(Instant::ZERO, p(flow, 1), &mut out);
    }
    for flow in 1..=150 {
        assert_eq!(cake.dequeue(Instant::ZERO, &mut out).map(|packet| packet.flow), Some(flow));
    }
    assert!(cake.backlog().is_empty() && out.is_empty());
}

#[test]
fn new_flows_of_a_busy_host_do_not_take_from_the_others() {
    // Host 1 has one flow that is always busy, host 2 thirty that send a packet each whenever their last one has left: all
    // are new each time.
    let mut cake = Cake::<P>::new(Params { rate: None, ..Params::for_link(Rate::from_mbit(8)) }, 1, "test").unwrap();
    let mut out: Vec<(P, DropReason)> = Vec::new();
    for flow in 2..32 {
        cake.enqueue(Instant::ZERO, p(flow, 2), &mut out);
    }
    let mut bytes = [0_u64; 3];
    for ms in 0..5_000 {
        let now = Instant::ZERO + Span::from_millis(ms);
        while cake.pool.backlog().packets < 40 {
            cake.enqueue(now, p(1, 1), &mut out);
        }
        let packet = cake.dequeue(now, &mut out).unwrap();
        bytes[packet.host as usize] += 1_000;
        if packet.host == 2 {
            cake.enqueue(now, packet, &mut out);
        }
    }
    let ratio = bytes[1] as f64 / bytes[2] as f64;
    assert!((0.95..1.05).contains(&ratio), "{bytes:?}");
}

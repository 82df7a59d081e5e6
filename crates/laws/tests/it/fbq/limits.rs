//! The space of a buffer, by exact numbers. With n flows queued each may fill 4/(4n + 1) of it.

use tidegate_core::fbq::FairBy;

use super::*;

const SIZE: u64 = 1_000;

/// A packet of the flow; a host has a hundred flows.
fn packet(flow: u64, profile: u32) -> TestPacket {
    let mut packet = TestPacket::new(0, flow, SIZE).with_profile(profile);
    packet.flow.source = flow / 100;
    packet
}

/// Enqueues packets of the flow until one is refused; returns the packets that it has queued then.
fn fill(shaper: &mut Shaper, flow: u64, profile: u32) -> u64 {
    let mut before = None;
    loop {
        let queued = shaper.flow(flow).map_or(0, |view| view.backlog.packets);
        if before == Some(queued) {
            return queued;
        }
        before = Some(queued);
        shaper.enqueue(start(), packet(flow, profile), &mut Discard);
    }
}

fn shaper(limit: u64, fair_by: FairBy) -> Shaper {
    let rate = Rate::from_mbit(10);
    let class = ClassParams { limit: Bytes::new(limit), flow_limit: Bytes::MAX, ..ClassParams::new(rate) };
    let profiles = vec![Profile::default(), Profile { minimum: Rate::from_mbit(4), ..Profile::default() }];
    let params = FbcParams { fair_by, idle_timeout: Span::from_millis(100), ..FbcParams::new(rate) };
    Fbc::new(params, vec![class], profiles, start()).unwrap()
}

#[test]
fn flows_fill_their_parts_and_what_is_free_to_the_byte() {
    let mut shaper = shaper(50_000, FairBy::Flow);
    // 50,000 * 4/5; then what is free, which is less than 50,000 * 4/9.
    assert_eq!([fill(&mut shaper, 1, 0), fill(&mut shaper, 2, 0), fill(&mut shaper, 3, 0)], [40, 10, 0]);
}

#[test]
fn an_eighth_is_kept_for_flows_with_a_minimum() {
    // 4 of 10 Mbit/s are 32,000 of 80,000 bytes; without it and the eighth, 38,000 are left: 4/9 of them, less than
    // a part of 4/5 of the 70,000 that there are while the flow with the minimum has no queue.
    let mut first = shaper(80_000, FairBy::Flow);
    assert_eq!([fill(&mut first, 1, 1), fill(&mut first, 2, 0)], [32, 16]);
    // Two flows have 4/9 of 70,000 each. A third is refused within its part of 4/13, because the eighth is kept; the flow
    // with the minimum is not.
    let mut last = shaper(80_000, FairBy::Flow);
    last.enqueue(start(), TestPacket::new(0, 1, SIZE).with_profile(1), &mut Discard);
    last.dequeue(start(), &mut Discard).expect("due");
    assert_eq!(fill(&mut last, 2, 0), 56);
    for _ in 0..20 {
        last.enqueue(start(), TestPacket::new(0, 3, SIZE), &mut Discard);
    }
    assert_eq!((last.flow(3).unwrap().backlog.packets, fill(&mut last, 1, 1)), (14, 10));
}

/// Sends a packet of each flow at `now`, and what is queued, as if it were due.
fn pass(shaper: &mut Shaper, now: Instant, flows: &[u64]) {
    for flow in flows {
        shaper.enqueue(now, packet(*flow, 0), &mut Discard);
    }
    while let Some(due) = shaper.deadline(now).instant(now) {
        shaper.dequeue(due, &mut Discard).expect("due");
    }
}

#[test]
fn a_flow_has_the_part_of_its_host_and_more_when_others_end() {
    let mut shaper = shaper(90_000, FairBy::Source);
    let mut now = start();
    for _ in 0..3 {
        for (flows, rates) in [
            (&[1, 100, 101][..], &[(1, 5_000), (100, 2_500), (101, 2_500)][..]),
            (&[1, 100], &[(1, 5_000), (100, 5_000)]),
            (&[1], &[(1, 10_000)]),
        ] {
            // At each packet two records that have been idle for long are removed.
            for _ in 0..3 {
                now += Span::from_millis(60);
                pass(&mut shaper, now, flows);
            }
            let mut seen: Vec<_> = shaper.flows().map(|view| (view.key, view.rate)).collect();
            seen.sort_unstable();
            let rates: Vec<_> = rates.iter().map(|&(flow, rate)| (flow, kbit(rate))).collect();
            assert_eq!(seen, rates);
        }
    }
}

#[test]
fn a_displaced_flow_leaves_its_part_of_the_buffer_to_others() {
    let rate = Rate::from_mbit(10);
    let class = ClassParams { limit: Bytes::new(90_000), flow_limit: Bytes::MAX, ..ClassParams::new(rate) };
    let displaced = Profile { displace: Some(Displace { below: Rate::from_mbit(6), to: 1 }), ..Profile::default() };
    let params = FbcParams { fair_by: FairBy::Source, ..FbcParams::new(Rate::from_mbit(20)) };
    let mut shaper = Fbc::new(params, vec![class; 2], vec![Profile::default(), displaced], start()).unwrap();
    assert_eq!(fill(&mut shaper, 1, 1), 57);
    // The second host lowers the rate of the first flow to 5 Mbit/s; after that each host has what it would have alone or
    // with the third, whose record is that of the first.
    assert_eq!(fill(&mut shaper, 100, 0), 57);
    assert_eq!(shaper.flow(1).unwrap().class, ClassId(1));
    assert_eq!(fill(&mut shaper, 200, 0), 32);
    pass(&mut shaper, start(), &[]);
    assert_eq!(begin(&mut shaper, 200..300), 72);
}

/// Enqueues a packet of each flow; returns how many were accepted.
fn begin(shaper: &mut Shaper, flows: core::ops::Range<u64>) -> u64 {
    let before = shaper.backlog().packets;
    for flow in flows {
        shaper.enqueue(start(), packet(flow, 0), &mut Discard);
    }
    shaper.backlog().packets - before
}

#[test]
fn new_flows_of_a_host_have_a_packet_each_within_the_part_of_the_host() {
    let mut shaper = shaper(9_000, FairBy::Source);
    for _ in 0..3 {
        // 7,200 bytes, of which the seventh of equal flows has less than a packet.
        assert_eq!(begin(&mut shaper, 100..110), 7);
        pass(&mut shaper, start(), &[]);
    }
}

#[test]
fn a_flow_has_the_larger_of_its_minimum_and_its_share_and_not_both() {
    for fair_by in [FairBy::Flow, FairBy::Source] {
        let mut shaper = shaper(90_000, fair_by);
        // The first has a minimum of 4 Mbit/s and a share of 5.
        for _ in 0..10 {
            shaper.enqueue(start(), packet(100, 1), &mut Discard);
            shaper.enqueue(start(), packet(200, 0), &mut Discard);
        }
        let (mut now, mut sent) = (start(), [0, 0]);
        for _ in 0..1_000 {
            now = shaper.deadline(now).instant(now).expect("queued");
            let flow = shaper.dequeue(now, &mut Discard).expect("due").flow.flow;
            sent[flow as usize / 100 - 1] += 1;
            shaper.enqueue(now, packet(flow, u32::from(flow == 100)), &mut Discard);
        }
        assert!(sent[0] >= 497 && sent[0] <= 503, "{fair_by:?}: {sent:?}");
    }
}

#[test]
fn hosts_fill_their_parts_however_their_flows_come_and_go() {
    let mut shaper = shaper(90_000, FairBy::Source);
    let mut now = start();
    for _ in 0..3 {
        // 4/5 of 90,000 for the host, of which 4/5 for its only flow.
        assert_eq!(fill(&mut shaper, 1, 0), 57);
        // Two hosts: 40,000 each, of which 4/5 or 4/9; then 1,000 bytes are free.
        assert_eq!([fill(&mut shaper, 100, 0), fill(&mut shaper, 101, 0)], [32, 1]);
        while let Some(due) = shaper.deadline(now).instant(now) {
            now = due;
            shaper.dequeue(now, &mut Discard).expect("due");
        }
        assert_eq!(shaper.class(ClassId(0)).unwrap().backlog.packets, 0);
        // All records expire, two at each packet; that of this flow in the next turn.
        now += Span::from_secs(1);
        for _ in 0..2 {
            shaper.enqueue(now, TestPacket::new(0, 7, SIZE), &mut Discard);
            now += Span::from_millis(10);
            shaper.dequeue(now, &mut Discard).expect("due");
        }
    }
}

#[test]
fn a_host_has_no_space_beyond_its_part_for_new_flows() {
    let queue = |shaper: &mut Shaper, host: u64, flow: u64, size: u64| {
        let mut packet = TestPacket::new(0, flow, size);
        packet.flow.source = host;
        shaper.enqueue(start(), packet, &mut Discard);
        shaper.flow(flow).map_or(0, |view| view.backlog.bytes.as_u64())
    };
    // The host may have 72,000 bytes, so its flows with a packet each are 72.
    let mut shaper = shaper(90_000, FairBy::Source);
    for flow in 0..90 {
        queue(&mut shaper, 0, flow, SIZE);
    }
    assert_eq!(shaper.backlog().packets, 72);
    // Another host may always queue one packet.
    assert_eq!(queue(&mut shaper, 1, 100, 18_000), 18_000);
    // Three hosts with little in their queues leave 4/17 of 10,000 to a fourth, which is less than its packet.
    let mut shaper = self::shaper(10_000, FairBy::Source);
    for host in 0..3 {
        assert_eq!(queue(&mut shaper, host, host, 100), 100);
    }
    assert_eq!(queue(&mut shaper, 3, 3, 4_000), 4_000);
    assert_eq!(queue(&mut shaper, 3, 3, 100), 4_000);
}

#[test]
fn the_rate_of_a_flow_is_a_part_of_its_host() {
    let mut shaper = shaper(90_000, FairBy::Source);
    let expect = |shaper: &mut Shaper, host: u64, flow: u64| {
        let mut packet = TestPacket::new(0, flow, SIZE);
        packet.flow.source = host;
        shaper.expect(start(), packet.flow, ClassId(0), 0, Terms::default(), &mut Discard);
    };
    (1..=3).for_each(|flow| expect(&mut shaper, 1, flow));
    expect(&mut shaper, 2, 4);
    let rates = |shaper: &Shaper| [1, 2, 4].map(|flow| shaper.flow(flow).unwrap().rate.as_bps());
    assert_eq!(rates(&shaper), [1_666_666, 1_666_666, 5_000_000]);
    // Preferred, flow 1 has a larger weight in its host, and what the hosts get stays the same.
    shaper.prefer(start(), 1, 2).unwrap();
    let [preferred, other, alone] = rates(&shaper);
    assert!(preferred > 2 * other, "{preferred} {other}");
    assert_eq!(((preferred + 2 * other).div_ceil(10), alone), (500_000, 5_000_000));
    shaper.prefer(start(), 1, 0).unwrap();
    assert_eq!(rates(&shaper), [1_666_666, 1_666_666, 5_000_000]);
}

#[test]
fn the_outlook_counts_hosts_and_the_flows_in_them() {
    let mut shaper = shaper(90_000, FairBy::Source);
    let packet = |host: u64, flow: u64| {
        let mut packet = TestPacket::new(0, flow, SIZE);
        packet.flow.source = host;
        packet
    };
    // Host 1 has two flows that wait and one that does not, host 2 one that waits; hosts 3 and 4 have none that waits.
    for (host, flow) in [(1, 1), (1, 2), (2, 4)] {
        shaper.enqueue(start(), packet(host, flow), &mut Discard);
    }
    for (host, flow) in [(1, 3), (3, 5), (4, 6)] {
        shaper.expect(start(), packet(host, flow).flow, ClassId(0), 0, Terms::default(), &mut Discard);
    }
    let outlook = |flow| shaper.outlook(flow, ClassId(0)).unwrap().as_bps();
    // A third of one of two hosts, one of three hosts; of a flow that is not known as much.
    assert_eq!([3, 5, 9].map(outlook), [10_000_000 / 6, 10_000_000 / 3, 10_000_000 / 3]);
}

#[test]
fn a_watched_flow_is_reported_at_three_quarters_and_one_quarter_of_its_part() {
    let mut bench = Bench::new(shaper(10_000, FairBy::Flow));
    bench.put(2, 0, 0, SIZE);
    bench.run_until(start() + Span::from_millis(10));
    bench.put(1, 0, 0, SIZE / 2);
    bench.shaper.watch(1, true);
    // Its part is 4/5 of 10,000 bytes.
    for _ in 0..15 {
        bench.put(1, 0, 0, SIZE / 2);
    }
    bench.run_until(start() + Span::from_secs(1));
    for _ in 0..8 {
        bench.put(2, 0, 0, SIZE);
    }
    let reported: Vec<_> = bench
        .events
        .0
        .iter()
        .filter_map(|event| match *event {
            Event::QueueAbove { flow, bytes } => Some((flow, true, bytes.as_u64())),
            Event::QueueBelow { flow, bytes } => Some((flow, false, bytes.as_u64())),
            _ => None,
        })
        .collect();
    assert_eq!(reported, [(1, true, 6_000), (1, false, 2_000)]);
}

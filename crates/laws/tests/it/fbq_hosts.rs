//! FBC over FBQ where hosts share the classes: the laws, and the share of a host however many flows it has.

use std::collections::BTreeMap;

use tidegate_core::fbq::{ClassParams, Displace, FairBy, Fbc, FbcParams, ParamError, Profile, Spare, WEIGHT_ONE};
use tidegate_core::qdisc::{Backlog, Discard};
use tidegate_core::{Accounted, Bytes, ClassId, Deadline, Instant, Outlet, Qdisc, Queued, Rate, Span};
use tidegate_laws::{Shape, TestPacket, check_seeds};
use tidegate_testbed::share;

fn start() -> Instant {
    Instant::from_nanos(1_000_000_000)
}

/// Flows, four of each host, that change their preference while packets arrive.
struct Preferring(Fbc<TestPacket>);

impl Qdisc<TestPacket> for Preferring {
    fn enqueue(&mut self, now: Instant, packet: TestPacket, out: &mut dyn Outlet<TestPacket>) -> Queued {
        if packet.id.is_multiple_of(64) {
            let _ = self.0.prefer(now, packet.flow.flow, (packet.id / 64 % 3) as u32);
        }
        self.0.enqueue(now, packet, out)
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<TestPacket>) -> Option<TestPacket> {
        self.0.dequeue(now, out)
    }
    fn deadline(&self, now: Instant) -> Deadline {
        self.0.deadline(now)
    }
    fn backlog(&self) -> Backlog {
        self.0.backlog()
    }
}

#[test]
fn obeys_the_laws() {
    let class = |kbit, priority| ClassParams {
        priority,
        limit: Bytes::new(40_000),
        flow_limit: Bytes::new(20_000),
        ..ClassParams::new(Rate::from_kbit(kbit))
    };
    let displace = Some(Displace { below: Rate::from_kbit(900), to: 1 });
    let profiles = vec![
        Profile::default(),
        Profile { minimum: Rate::from_kbit(333), ..Profile::default() },
        Profile { weight: 3 * WEIGHT_ONE, minimum: Rate::from_kbit(50), displace, ..Profile::default() },
    ];
    let params = FbcParams {
        idle_timeout: Span::from_millis(200),
        max_flows: 30,
        fair_by: FairBy::Source,
        ..FbcParams::new(Rate::from_kbit(8_500))
    };
    let make = || {
        let classes = vec![class(1_001, 0), class(3_007, 1), class(4_013, 2)];
        Accounted::new(Preferring(Fbc::new(params, classes, profiles.clone(), start()).expect("valid")))
    };
    for shape in [
        Shape { flows: 24, ..Shape::default() },
        Shape { flows: 500, longest_wait: Span::from_millis(400), enqueues: 140, ..Shape::default() },
        Shape { flows: 12, sizes: (40, 20_000), ..Shape::default() },
    ] {
        let report = check_seeds(make, &shape, share(24), 2_000);
        assert!(report.dequeued > share(5_000) && report.deadlines > share(1_000), "{report:?}");
    }
}

fn shaper(rate: Rate, profiles: Vec<Profile>) -> Fbc<TestPacket> {
    let class = ClassParams { limit: Bytes::new(400_000), flow_limit: Bytes::new(200_000), ..ClassParams::new(rate) };
    Fbc::new(FbcParams { fair_by: FairBy::Source, ..FbcParams::new(rate) }, vec![class], profiles, start())
        .expect("valid")
}

/// Keeps each flow (host, flow, profile, size) backlogged for four seconds; returns the bytes of each in the last three.
fn greedy(shaper: &mut Fbc<TestPacket>, flows: &[(u64, u64, u32, u64)]) -> BTreeMap<(u64, u64), u64> {
    let mut sent = BTreeMap::new();
    let (mut now, mut id) = (start(), 0);
    let end = start() + Span::from_secs(4);
    while now < end {
        for &(host, flow, profile, size) in flows {
            while shaper.flow(flow).is_none_or(|view| view.backlog.packets < 2) {
                let mut packet = TestPacket::new(id, flow, size).with_profile(profile);
                packet.flow.source = host;
                id += 1;
                let before = shaper.backlog();
                shaper.enqueue(now, packet, &mut Discard);
                assert_ne!(shaper.backlog(), before, "host {host} has no space for two packets of flow {flow}");
            }
        }
        now = shaper.deadline(now).instant(now).expect("backlogged");
        let packet = shaper.dequeue(now, &mut Discard).expect("due");
        if now >= start() + Span::from_secs(1) {
            *sent.entry((packet.flow.source, packet.flow.flow)).or_default() += packet.size.as_u64();
        }
    }
    sent
}

fn by_host(sent: &BTreeMap<(u64, u64), u64>) -> BTreeMap<u64, u64> {
    let mut hosts = BTreeMap::new();
    for ((host, _), bytes) in sent {
        *hosts.entry(*host).or_default() += bytes;
    }
    hosts
}

#[test]
fn hosts_share_equally_however_many_flows_they_have() {
    // One flow, four and thirty, of different packets: 2.5 MB each in 3 s at 20 Mbit/s.
    let mut flows = vec![(1, 1, 0, 400)];
    flows.extend((0..4).map(|n| (2, 10 + n, 0, 1_500)));
    flows.extend((0..30).map(|n| (3, 100 + n, 0, 900)));
    let sent = greedy(&mut shaper(Rate::from_mbit(20), vec![]), &flows);
    for (host, bytes) in by_host(&sent) {
        assert!(bytes.abs_diff(2_500_000) <= 2 * 1_500, "host {host}: {bytes}");
    }
    for n in 0..4 {
        assert!(sent[&(2, 10 + n)].abs_diff(625_000) <= 2 * 1_500, "{sent:?}");
    }
    for n in 0..30 {
        assert!(sent[&(3, 100 + n)].abs_diff(2_500_000 / 30) <= 2 * 1_500, "{sent:?}");
    }
}

#[test]
fn weights_act_within_a_host_and_minimums_in_the_class() {
    let profiles = vec![
        Profile::default(),
        Profile { weight: 3 * WEIGHT_ONE, ..Profile::default() },
        Profile { minimum: Rate::from_mbit(4), ..Profile::default() },
    ];
    // Host 1: weights 1 and 3. Host 2: nine flows, one of which is promised 4 of 10 Mbit/s, more than its part of
    // the host. 3.75 MB in 3 s.
    let mut flows = vec![(1, 1, 0, 1_000), (1, 2, 1, 1_000), (2, 99, 2, 1_000)];
    flows.extend((0..8).map(|n| (2, 10 + n, 0, 1_000)));
    let mut shaper = shaper(Rate::from_mbit(10), profiles);
    let sent = greedy(&mut shaper, &flows);
    assert!(sent[&(2, 99)] + 3_000 >= 1_500_000, "{sent:?}");
    assert!((sent[&(1, 2)] / 3).abs_diff(sent[&(1, 1)]) <= 2_000, "{sent:?}");
    // The promised flow is served by its minimum; the share of its host is charged for it, with a debt of one packet.
    let hosts = by_host(&sent);
    assert!(hosts[&1] >= 1_125_000 - 3_000, "{hosts:?}");
    // d(f): 6 Mbit/s are left, half for each host; of host 1 a quarter for its first flow.
    assert_eq!(shaper.flow(1).map(|view| view.rate), Some(Rate::from_kbit(750)));
    assert_eq!(shaper.flow(99).map(|view| view.rate), Some(Rate::from_mbit(4)));
}

/// A host with a hundred greedy flows that send what they can, beside one that sends 100 packets/s: no packet of it is
/// dropped, and none waits for more than a few packets.
#[test]
fn a_host_within_its_share_neither_loses_nor_waits() {
    let mut shaper = shaper(Rate::from_mbit(4), vec![]);
    let (mut waits, mut id, mut sent) = (BTreeMap::new(), 1_000_000, 0);
    let mut worst = Span::ZERO;
    for step in 0..4_000_u64 {
        let now = start() + Span::from_millis(step);
        while shaper.deadline(now).instant(now).is_some_and(|time| time <= now) {
            let packet = shaper.dequeue(now, &mut Discard).expect("due");
            if let Some(arrived) = waits.remove(&packet.id) {
                worst = worst.max(now.since(arrived));
                sent += 1;
            }
        }
        for flow in 0..100 {
            id += 1;
            let mut packet = TestPacket::new(id, flow + step % 3 * 1_000, 1_500);
            packet.flow.source = 1;
            shaper.enqueue(now, packet, &mut Discard);
        }
        if step.is_multiple_of(10) {
            let mut packet = TestPacket::new(step, 7_777, 200);
            packet.flow.source = 2;
            waits.insert(step, now);
            shaper.enqueue(now, packet, &mut Discard);
        }
    }
    // 1500 B take 3 ms at 4 Mbit/s; one leaves already, one is selected, and its own.
    assert!(sent >= 398 && worst <= Span::from_millis(8), "{sent} of 400 sent, at most {worst}");
}

#[test]
fn hosts_cannot_share_a_class_that_limits_flows_to_their_shares() {
    let rate = Rate::from_mbit(1);
    let params = FbcParams { fair_by: FairBy::Destination, ..FbcParams::new(rate) };
    let strict = ClassParams { spare: Spare::Idle, ..ClassParams::new(rate) };
    let made: Result<Fbc<TestPacket>, _> = Fbc::new(params, vec![strict], vec![], start());
    assert_eq!(made.err(), Some(ParamError::StrictHosts { class: 0 }));
    let mut made: Fbc<TestPacket> = Fbc::new(params, vec![ClassParams::new(rate)], vec![], start()).expect("valid");
    let flows = FbcParams { fair_by: FairBy::Flow, ..params };
    assert_eq!(made.change(start(), flows, &[ClassParams::new(rate)], vec![]), Err(ParamError::FairBy));
    // A flow is expected with the host that its packets have.
    let mut packet = TestPacket::new(1, 5, 1_000);
    packet.flow.destination = 9;
    made.expect(start(), packet.flow, ClassId(0), 0, Default::default(), &mut Discard);
    made.enqueue(start(), packet, &mut Discard);
    assert_eq!(made.flow(5).map(|view| (view.backlog.packets, view.rate)), Some((1, rate)));
}

//! The laws for ARED and the Mice and Elephants family.

use tidegate_core::aqm::AqmFifo;
use tidegate_core::ared::{self, Ared, Unit};
use tidegate_core::elephants::{self, FlowBy, Measure, PairRule, ValueTable};
use tidegate_core::fifo::Limit;
use tidegate_core::flow_table;
use tidegate_core::ingress::{self, Ingress};
use tidegate_core::mered::{self, Mered};
use tidegate_core::meredt::{self, Meredt};
use tidegate_core::red::{Sizing, Spacing};
use tidegate_core::{Accounted, Bytes, FlowKey, Instant, Qdisc, Rate, Span};
use tidegate_laws::{Report, Shape, TestPacket, check_seeds};
use tidegate_testbed::share;

const LIMIT: Limit = Limit { packets: 30, bytes: Bytes::new(20_000) };

fn shapes() -> [Shape; 3] {
    [
        Shape { enqueues: 130, ..Shape::default() },
        // More flows than records.
        Shape { flows: 300, enqueues: 140, ..Shape::default() },
        Shape { flows: 3, sizes: (1, 9_000), longest_wait: Span::from_secs(2), enqueues: 120, ..Shape::default() },
    ]
}

fn reached(report: &Report) {
    assert!(
        report.dropped > share(1_000) && report.dequeued > share(10_000) && report.backwards > share(100),
        "{report:?}"
    );
}

/// Few records with a short timeout, and low thresholds, so that flows change sides often.
fn flows() -> (flow_table::Params, Option<PairRule>) {
    let table = flow_table::Params { capacity: 40, idle: Span::from_millis(20) };
    (table, Some(PairRule { threshold: Bytes::new(9_000), rate: Rate::from_kbit(500) }))
}

#[test]
fn ared_obeys_the_laws() {
    for shape in shapes() {
        for (unit, spacing) in [(Unit::Packets, Spacing::Uniform), (Unit::Bytes, Spacing::Geometric)] {
            let sizing = Sizing::PerByte { mean: Bytes::new(1_000) };
            let params =
                ared::Params { unit, spacing, sizing, least_packets: 2, ..ared::Params::for_link(Rate::from_mbit(1)) };
            let fresh = || Accounted::new(AqmFifo::new(LIMIT, Ared::new(params, 7, "laws").unwrap()));
            reached(&check_seeds(fresh, &shape, share(4 * 30), 2_000));
        }
    }
}

#[test]
fn mered_obeys_the_laws() {
    let (table, pair) = flows();
    for shape in shapes() {
        for flow_by in [FlowBy::Flow, FlowBy::HostPair] {
            let params = mered::Params {
                flow_by,
                threshold: Bytes::new(3_000),
                table,
                pair,
                limit: LIMIT,
                elephant_limit: Bytes::new(12_000),
                ..mered::Params::for_link(Rate::from_mbit(1))
            };
            reached(&check_seeds(
                || Accounted::new(Mered::new(params, 7, "laws").unwrap()),
                &shape,
                share(4 * 40),
                2_000,
            ));
        }
    }
}

#[test]
fn meredt_obeys_the_laws() {
    let (table, pair) = flows();
    let points = [(1_000, 0), (3_000, 4), (9_000, 40)].map(|(length, value)| (Bytes::new(length), value));
    let value = ValueTable::new(points.into()).unwrap();
    for shape in shapes() {
        let params = meredt::Params {
            elephants: elephants::Params {
                flow_by: FlowBy::Flow,
                measure: Measure::Bytes,
                value: value.clone(),
                table,
                pair,
            },
            limit: LIMIT,
            elephant_limit: Bytes::new(12_000),
            ..meredt::Params::for_link(Rate::from_mbit(1))
        };
        reached(&check_seeds(
            || Accounted::new(Meredt::new(params.clone(), 7, "laws").unwrap()),
            &shape,
            share(4 * 60),
            2_000,
        ));
    }
}

#[test]
fn the_ingress_filter_obeys_the_laws() {
    let (table, pair) = flows();
    for shape in shapes() {
        let params = ingress::Params {
            elephants: elephants::Params {
                flow_by: FlowBy::Flow,
                measure: Measure::Packets,
                value: ValueTable::step(Bytes::new(3)),
                table,
                pair,
            },
            ..ingress::Params::for_line(Rate::from_kbit(700))
        };
        let fresh = || Accounted::new(AqmFifo::new(LIMIT, Ingress::new(params.clone(), 7, "laws").unwrap()));
        reached(&check_seeds(fresh, &shape, share(4 * 60), 2_000));
    }
}

/// The sender in [`served`], by the source of the flow key.
const ELEPHANT: u64 = 1;
const MICE: u64 = 2;
const ADVERSARY: u64 = 3;

/// The bytes that the honest elephant, honest mice and the adversary send through 10 Mbit/s in 20 s, and the longest
/// wait of an honest mouse's packet after the first 5 s. The elephant and the adversary offer 10 Mbit/s each, mice 1
/// Mbit/s in flows of 5 packets from many hosts; the adversary changes its flow every `split` packets.
fn served(pair: Option<PairRule>, split: u64) -> ([u64; 4], Span) {
    let link = Rate::from_mbit(10);
    let mut queue =
        Accounted::new(Mered::new(mered::Params { pair, ..mered::Params::for_link(link) }, 7, "duel").unwrap());
    let mut served = [0; 4];
    let mut sent_at = std::collections::HashMap::new();
    let mut longest = Span::ZERO;
    // A packet of 1,250 B takes a millisecond on the link.
    for ms in 0..20_000_u64 {
        let now = Instant::ZERO + Span::from_millis(ms);
        let mut send = |who: u64, flow: u64, host: u64| {
            let id = ms * 4 + who;
            let key = FlowKey { flow: who << 40 | flow, source: who << 40 | host, destination: 0 };
            sent_at.insert(id, now);
            queue.enqueue(now, TestPacket { flow: key, ..TestPacket::new(id, 0, 1_250) }, &mut vec![]);
        };
        send(ELEPHANT, 0, 0);
        send(ADVERSARY, ms / split, 0);
        if ms % 10 == 0 {
            send(MICE, ms / 50, ms / 50);
        }
        let Some(packet) = queue.dequeue(now, &mut vec![]) else { continue };
        let who = packet.flow.source >> 40;
        served[who as usize] += packet.size.as_u64();
        // In the first second or so the adversary uses up the burst of a pair.
        if who == MICE && ms > 5_000 {
            longest = longest.max(now.since(sent_at[&packet.id]));
        }
    }
    (served, longest)
}

#[test]
fn an_adversary_that_splits_its_transfer_gains_little() {
    let rule = mered::Params::for_link(Rate::from_mbit(10)).pair;
    let mouse_allowance =
        rule.map_or(0, |rule| rule.threshold.as_u64() + rule.rate.bytes_in_floor(Span::from_secs(20)).as_u64());
    // 1 MB at once and a quarter of the link: 1,000,000 + 20 * 312,500.
    assert_eq!(mouse_allowance, 7_250_000);
    let (honest, _) = served(rule, u64::MAX);
    let (split, wait) = served(rule, 10);
    let (unruled, _) = served(None, 10);
    // As one long flow it gets what the honest elephant gets.
    let [_, elephant, mice, adversary] = honest.map(|bytes| bytes as f64 / 1e6);
    assert!((adversary / elephant - 1.0).abs() < 0.15, "{elephant} {adversary}");
    // 1 Mbit/s of mice passes whatever the others do: 2.5 MB.
    assert!(mice > 2.45 && split[MICE as usize] > 2_450_000, "{mice} {split:?}");
    // Split, it gains less than the mouse traffic of a pair; and the elephant keeps at least a quarter of the link.
    let gain = split[ADVERSARY as usize].saturating_sub(honest[ADVERSARY as usize]);
    assert!(gain < mouse_allowance, "{gain}");
    assert!(split[ELEPHANT as usize] > 6_250_000, "{split:?}");
    assert!(wait < Span::from_millis(30), "{wait:?}");
    // Without the rule it takes all but the floor, and honest mice find the queue full of its packets.
    assert!(unruled[ADVERSARY as usize] > 18_000_000 && unruled[ELEPHANT as usize] < 3_000_000, "{unruled:?}");
    assert!(unruled[MICE as usize] * 2 < split[MICE as usize], "{unruled:?} {split:?}");
}

#[test]
fn an_adversary_that_idles_stays_an_elephant() {
    let params = mered::Params::for_link(Rate::from_mbit(10));
    let mut queue = Mered::new(params, 7, "idle").unwrap();
    let (mut as_mouse, mut now) = (0_u64, Instant::ZERO);
    // 100 packets, then an idle period of a second less than the timeout, for an hour.
    for burst in 0..60 {
        for n in 0..100 {
            queue.enqueue(now, TestPacket::new(burst * 100 + n, 1, 1_250), &mut vec![]);
            as_mouse += u64::from(queue.inner().mice().packets > 0);
            while queue.dequeue(now, &mut vec![]).is_some() {}
        }
        now += params.table.idle.saturating_sub(Span::from_secs(1));
    }
    // 100 kB are 80 packets, and no more for the rest of the hour.
    assert_eq!(as_mouse, 80);
}

//! The laws for ARED and the Mice and Elephants family.

use tidegate_core::aqm::AqmFifo;
use tidegate_core::ared::{self, Ared, Unit};
use tidegate_core::elephants::{self, FlowBy, PairRule, ValueTable};
use tidegate_core::fifo::Limit;
use tidegate_core::flow_table;
use tidegate_core::ingress::{self, Ingress};
use tidegate_core::mered::{self, Mered};
use tidegate_core::meredt::{self, Meredt};
use tidegate_core::red::{Sizing, Spacing};
use tidegate_core::{Books, Bytes, Rate, Span};
use tidegate_laws::{Report, Shape, check_seeds};

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
    assert!(report.dropped > 1_000 && report.dequeued > 10_000 && report.backwards > 100, "{report:?}");
}

/// Few records that soon end, and low thresholds, so that flows change sides all the time.
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
            let fresh = || Books::new(AqmFifo::new(LIMIT, Ared::new(params, 7, "laws").unwrap()));
            reached(&check_seeds(fresh, &shape, 30, 2_000));
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
            reached(&check_seeds(|| Books::new(Mered::new(params, 7, "laws").unwrap()), &shape, 40, 2_000));
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
            elephants: elephants::Params { flow_by: FlowBy::Flow, value: value.clone(), table, pair },
            limit: LIMIT,
            elephant_limit: Bytes::new(12_000),
            ..meredt::Params::for_link(Rate::from_mbit(1))
        };
        reached(&check_seeds(|| Books::new(Meredt::new(params.clone(), 7, "laws").unwrap()), &shape, 60, 2_000));
    }
}

#[test]
fn the_ingress_filter_obeys_the_laws() {
    let (table, pair) = flows();
    for shape in shapes() {
        let params = ingress::Params {
            elephants: elephants::Params {
                flow_by: FlowBy::Flow,
                value: ValueTable::step(Bytes::new(3_000)),
                table,
                pair,
            },
            ..ingress::Params::for_line(Rate::from_kbit(700))
        };
        let fresh = || Books::new(AqmFifo::new(LIMIT, Ingress::new(params.clone(), 7, "laws").unwrap()));
        reached(&check_seeds(fresh, &shape, 60, 2_000));
    }
}

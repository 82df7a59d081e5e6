//! Worked numbers; the laws and the oracle are in `crates/laws`.

use super::*;
use crate::marker::Actions;
use crate::meter::{Mode, NoMeter};
use crate::packet::{Colour, FlowKey};
use crate::qdisc::Discard;
use crate::trtcm::{self, TrTcm};

#[derive(Debug)]
struct P(u64, Colour);
impl Packet for P {
    fn size(&self) -> Bytes {
        Bytes::new(self.0)
    }
    fn flow(&self) -> FlowKey {
        FlowKey::default()
    }
    fn set_colour(&mut self, colour: Colour) {
        self.1 = colour;
    }
}

// 8 kbit/s is one byte a millisecond.
const TWO: Curve = Curve::Two {
    cir: Rate::from_kbit(8),
    pir: Rate::from_kbit(16),
    mir: Rate::from_kbit(80),
    cir_th: Bytes::new(2_000),
    pir_th: Bytes::new(4_000),
    mir_th: Bytes::new(8_000),
};
// An EAR with a time constant of a week stays constant, so that F alone decides.
const PARAMS: Params = Params {
    curve: TWO,
    buffer: Bytes::new(10_000),
    line_rate: Rate::from_kbit(80),
    averaging: Span::from_secs(600_000),
    coupling: Coupling::Uncoupled,
    slack: Span::ZERO,
};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}
fn plain(params: Params) -> Ras<P, NoMeter> {
    Ras::new(params, Conditioner::new(NoMeter, Actions::default())).unwrap()
}
fn enqueue<M: Meter<P>>(ras: &mut Ras<P, M>, now: Instant, size: u64) {
    ras.enqueue(now, P(size, Colour::Green), &mut Discard);
}

#[test]
fn the_curve_is_piecewise_linear() {
    let kbit = |occupancy| TWO.rate(Bytes::new(occupancy)).as_bps();
    // 8 to 16 kbit/s from 2 to 4 kB, 16 to 80 from 4 to 8 kB.
    let points = [(0, 8_000), (2_000, 8_000), (2_001, 8_004), (3_000, 12_000), (4_000, 16_000), (6_000, 48_000)];
    for (occupancy, rate) in points.into_iter().chain([(7_999, 79_984), (8_000, 80_000), (99_999, 80_000)]) {
        assert_eq!(kbit(occupancy), rate, "{occupancy}");
    }
    let step = Curve::Single {
        cir: Rate::from_kbit(8),
        mir: Rate::from_kbit(80),
        cir_th: Bytes::new(500),
        mir_th: Bytes::new(500),
    };
    assert_eq!(step.rate(Bytes::new(499)), Rate::from_kbit(8));
    assert_eq!(step.rate(Bytes::new(500)), Rate::from_kbit(80));
}

#[test]
fn the_ear_follows_the_formula() {
    let mut ear = Ear::default();
    let second = Span::from_secs(1);
    // After an infinite pause L/T is 0. One second later, K = 1 s, 1000 B: (1 - 1/e) 8000 = 5056.96447.
    ear.on_arrival(at(0), Bytes::new(1_000), second);
    assert_eq!(ear.rate(), Rate::ZERO);
    ear.on_arrival(at(1_000), Bytes::new(1_000), second);
    assert_eq!(ear.rate(), Rate::from_bps(5_056));
    // At the same instant the limit is L/K more: 5056.96 + 8000.
    ear.on_arrival(at(1_000), Bytes::new(1_000), second);
    assert_eq!(ear.rate(), Rate::from_bps(13_056));
    // Half a second later: (1 - e^-0.5) 16000 + e^-0.5 13056.96447 = 6295.4894 + 7919.4493 = 14214.938.
    ear.on_arrival(at(1_500), Bytes::new(1_000), second);
    assert_eq!(ear.rate(), Rate::from_bps(14_214));
}

#[test]
fn the_ear_of_a_constant_rate_is_that_rate() {
    let mut ear = Ear::default();
    // 1500 B each 3 ms: 4 Mbit/s, whatever K is.
    for n in 0..2_000 {
        ear.on_arrival(at(3 * n), Bytes::new(1_500), Span::from_millis(100));
    }
    assert!(ear.rate().as_bps().abs_diff(4_000_000) <= 1, "{}", ear.rate());
}

#[test]
fn the_first_leaves_at_once_and_the_next_when_it_is_paid_for() {
    let mut ras = plain(PARAMS);
    enqueue(&mut ras, at(0), 500);
    enqueue(&mut ras, at(0), 300);
    assert_eq!(ras.deadline(at(0)), Deadline::Now);
    assert_eq!(ras.dequeue(at(0), &mut Discard).unwrap().0, 500);
    // 500 B at 1 B/ms.
    assert_eq!(ras.deadline(at(0)), Deadline::At(at(500)));
    assert!(ras.dequeue(at(500).saturating_sub(Span::from_nanos(1)), &mut Discard).is_none());
    assert_eq!(ras.dequeue(at(500), &mut Discard).unwrap().0, 300);
    // A packet that arrives 100 ms later waits for the remaining 200 ms of those 300.
    enqueue(&mut ras, at(600), 400);
    assert_eq!(ras.deadline(at(600)), Deadline::At(at(800)));
}

#[test]
fn occupancy_moves_the_release() {
    let mut ras = plain(PARAMS);
    enqueue(&mut ras, at(0), 1_000);
    ras.dequeue(at(0), &mut Discard);
    enqueue(&mut ras, at(0), 1_500);
    assert_eq!(ras.deadline(at(0)), Deadline::At(at(1_000)));
    // At 400 ms, 600 B are owed. 1500 B more make the occupancy 3000 B and the rate 1.5 B/ms: 400 ms more.
    enqueue(&mut ras, at(400), 1_500);
    assert_eq!(ras.deadline(at(400)), Deadline::At(at(800)));
    // At 600 ms, 300 B are owed. 5 kB more: at 8000 B the rate is 10 B/ms: 30 ms.
    enqueue(&mut ras, at(600), 5_000);
    assert_eq!(ras.deadline(at(600)), Deadline::At(at(630)));
    // Beyond the buffer of 10 kB packets are dropped.
    let mut dropped = alloc::vec::Vec::new();
    ras.enqueue(at(610), P(2_001, Colour::Green), &mut dropped);
    assert_eq!(dropped[0].1, DropReason::QueueLimit);
}

#[test]
fn the_ear_carries_a_fast_source_without_a_queue() {
    // 500 B per 100 ms are 40 kbit/s, five times CIR; with K = 100 ms the EAR reaches it, and then no packet waits
    // long.
    let mut ras = plain(Params { averaging: Span::from_millis(100), ..PARAMS });
    let mut left = at(0);
    for n in 0..100 {
        enqueue(&mut ras, at(100 * n), 500);
        while let Deadline::Now = ras.deadline(at(100 * n)) {
            ras.dequeue(at(100 * n), &mut Discard);
        }
        while let Deadline::At(t) = ras.deadline(at(100 * n))
            && t < at(100 * (n + 1))
        {
            ras.dequeue(t, &mut Discard);
            left = t;
        }
    }
    assert!(ras.rate() >= Rate::from_kbit(39), "{}", ras.rate());
    assert!(left > at(0) && ras.backlog().bytes <= Bytes::new(1_000), "{:?}", ras.backlog());
}

#[test]
fn mir_caps_the_ear() {
    let mut ras = plain(Params { averaging: Span::from_millis(1), ..PARAMS });
    enqueue(&mut ras, at(0), 1_000);
    enqueue(&mut ras, at(1), 1_000);
    assert!(ras.ear() > Rate::from_mbit(5));
    assert_eq!(ras.rate(), Rate::from_kbit(80));
}

/// trTCM with the curve's CIR and PIR, one packet of 1000 B deep, and a green shaper before it.
fn green(coupling: Coupling) -> Ras<P, TrTcm> {
    let params = trtcm::Params {
        cir: Rate::from_kbit(8),
        cbs: Bytes::new(2_000),
        pir: Rate::from_kbit(16),
        pbs: Bytes::new(3_000),
        mode: Mode::Blind,
    };
    let meter = TrTcm::new(params, Instant::ZERO).unwrap();
    Ras::new(Params { coupling, ..PARAMS }, Conditioner::new(meter, Actions::default())).unwrap()
}

#[test]
fn green_leaves_at_the_earlier_of_both_schedules() {
    let mut ras = green(Coupling::Green);
    for _ in 0..3 {
        enqueue(&mut ras, at(0), 1_000);
    }
    // Two are green at once: CBS is 2000 B. The plain shaper would hold the second until 666.7 ms: 3000 B of
    // occupancy, then 2000, is 8 kbit/s; so 1000 ms.
    assert_eq!(ras.dequeue(at(0), &mut Discard).unwrap().1, Colour::Green);
    assert_eq!(ras.deadline(at(0)), Deadline::Now);
    assert_eq!(ras.dequeue(at(0), &mut Discard).unwrap().1, Colour::Green);
    // The third: T1 = 1000 B at 1 B/ms; T2 = 1000 B of tokens at 1 B/ms (peak: 1000 left). The same.
    assert_eq!(ras.deadline(at(0)), Deadline::At(at(1_000)));
    assert_eq!(ras.dequeue(at(1_000), &mut Discard).unwrap().1, Colour::Green);
    assert_eq!(*ras.stats(), Stats { by_rate: 2, by_green: 1 });
    let mut plain = green(Coupling::Uncoupled);
    enqueue(&mut plain, at(0), 1_000);
    enqueue(&mut plain, at(0), 1_000);
    plain.dequeue(at(0), &mut Discard);
    assert_eq!(plain.deadline(at(0)), Deadline::At(at(1_000)));
}

#[test]
fn what_never_turns_green_follows_the_rate() {
    let mut ras = green(Coupling::Green);
    enqueue(&mut ras, at(0), 2_001);
    enqueue(&mut ras, at(0), 2_001);
    // Larger than CBS: T2 is infinite. The first leaves at once by rate, yellow; the second at F(2001) =
    // 8004 bit/s: 2001 B take 2 s to the nanosecond.
    assert_eq!(ras.dequeue(at(0), &mut Discard).unwrap().1, Colour::Yellow);
    assert_eq!(ras.deadline(at(0)), Deadline::At(at(2_000)));
}

#[test]
fn lateness_is_made_up_within_the_slack() {
    for (slack, next) in [(0, 1_040), (10, 1_030), (100, 1_000)] {
        let mut ras = plain(Params { slack: Span::from_millis(slack), ..PARAMS });
        for _ in 0..3 {
            enqueue(&mut ras, at(0), 500);
        }
        ras.dequeue(at(0), &mut Discard);
        assert!(ras.dequeue(at(540), &mut Discard).is_some(), "due at 500 ms, 40 ms late");
        assert_eq!(ras.deadline(at(540)), Deadline::At(at(next)), "slack {slack} ms");
    }
}

#[test]
fn a_change_of_parameters_settles_first() {
    let mut ras = plain(PARAMS);
    enqueue(&mut ras, at(0), 1_000);
    enqueue(&mut ras, at(0), 1_000);
    ras.dequeue(at(0), &mut Discard);
    // At 500 ms 500 B are owed; at 2 B/ms they take 250 ms.
    let curve = Curve::Single {
        cir: Rate::from_kbit(16),
        mir: Rate::from_kbit(80),
        cir_th: Bytes::new(2_000),
        mir_th: Bytes::new(8_000),
    };
    ras.set_params(at(500), Params { curve, ..PARAMS }).unwrap();
    assert_eq!(ras.deadline(at(500)), Deadline::At(at(750)));
}

#[test]
fn errors_name_the_field() {
    let Curve::Two { cir, pir, mir, cir_th, pir_th, mir_th } = TWO else { unreachable!("TWO has two rates") };
    let two = |cir, pir, mir, cir_th, pir_th, mir_th| Params {
        curve: Curve::Two { cir, pir, mir, cir_th, pir_th, mir_th },
        ..PARAMS
    };
    let (low, high) = (Rate::from_kbit(7), Rate::from_kbit(81));
    for (params, field) in [
        (two(Rate::ZERO, pir, mir, cir_th, pir_th, mir_th), "cir"),
        (two(cir, low, mir, cir_th, pir_th, mir_th), "pir"),
        (two(cir, pir, low, cir_th, pir_th, mir_th), "mir"),
        (two(cir, pir, high, cir_th, pir_th, mir_th), "mir"),
        (two(cir, pir, mir, cir_th, Bytes::new(1_999), mir_th), "pir_th"),
        (two(cir, pir, mir, cir_th, pir_th, Bytes::new(3_999)), "mir_th"),
        (two(cir, pir, mir, cir_th, pir_th, Bytes::new(10_001)), "mir_th"),
        (Params { buffer: Bytes::ZERO, ..PARAMS }, "buffer"),
        (Params { averaging: Span::ZERO, ..PARAMS }, "averaging"),
    ] {
        assert_eq!(params.validate().unwrap_err().field, field);
    }
    let single = Curve::Single { cir: mir, mir: cir, cir_th, mir_th };
    assert_eq!(Params { curve: single, ..PARAMS }.validate().unwrap_err().field, "mir");
    let single = Curve::Single { cir, mir, cir_th: mir_th, mir_th: cir_th };
    assert_eq!(Params { curve: single, ..PARAMS }.validate().unwrap_err().field, "mir_th");
}

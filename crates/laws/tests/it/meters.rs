//! Every meter against the definition of its RFC, token by token; and the laws for markers at both points.

use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::marker::{Action, Actions, Conditioner, Marker, Point};
use tidegate_core::meter::{AnyMeter, Mode};
use tidegate_core::random::Stream;
use tidegate_core::{Accounted, Bytes, Colour, Instant, Rate, Span};
use tidegate_core::{rfc4115, srtcm, trtcm, tswtcm};
use tidegate_laws::{Shape, TestPacket, check_seeds};
use tidegate_testbed::share;

const MILLI: u64 = 1_000_000;

/// The buckets of the RFCs, one token per byte, in discrete ticks: at the rates here a token arrives at whole
/// milliseconds, as do packets, so discrete and continuous buckets must agree to the byte.
struct Ticking {
    /// Tokens per millisecond.
    rates: [u64; 2],
    sizes: [u64; 2],
    tokens: [u64; 2],
}

impl Ticking {
    fn new(rates: [u64; 2], sizes: [u64; 2]) -> Self {
        Self { rates, sizes, tokens: sizes }
    }
    /// RFC 2697 section 3: a token is added to the committed bucket, else to the excess bucket, else discarded.
    fn tick_single(&mut self) {
        for _ in 0..self.rates[0] {
            if self.tokens[0] < self.sizes[0] {
                self.tokens[0] += 1;
            } else if self.tokens[1] < self.sizes[1] {
                self.tokens[1] += 1;
            }
        }
    }
    /// RFC 2698 section 3 and RFC 4115 section 4: each bucket by its own rate.
    fn tick_both(&mut self) {
        for bucket in 0..2 {
            for _ in 0..self.rates[bucket] {
                self.tokens[bucket] = (self.tokens[bucket] + 1).min(self.sizes[bucket]);
            }
        }
    }
    fn has(&self, bucket: usize, size: u64) -> bool {
        self.tokens[bucket] >= size
    }
}

/// RFC 2697 section 3, both modes (colour-blind is colour-aware with packets that are all green).
fn single(oracle: &mut Ticking, size: u64, incoming: Colour) -> Colour {
    if incoming == Colour::Green && oracle.has(0, size) {
        oracle.tokens[0] -= size;
        Colour::Green
    } else if (incoming == Colour::Green || incoming == Colour::Yellow) && oracle.has(1, size) {
        oracle.tokens[1] -= size;
        Colour::Yellow
    } else {
        Colour::Red
    }
}

/// RFC 2698 section 3; bucket 1 is the peak bucket.
fn two(oracle: &mut Ticking, size: u64, incoming: Colour) -> Colour {
    if incoming == Colour::Red || !oracle.has(1, size) {
        Colour::Red
    } else if incoming == Colour::Yellow || !oracle.has(0, size) {
        oracle.tokens[1] -= size;
        Colour::Yellow
    } else {
        oracle.tokens[0] -= size;
        oracle.tokens[1] -= size;
        Colour::Green
    }
}

/// RFC 4115 section 4; bucket 1 is the excess bucket. Its rule is [`single`]'s with independent rates.
fn efficient(oracle: &mut Ticking, size: u64, incoming: Colour) -> Colour {
    single(oracle, size, incoming)
}

type Decide = fn(&mut Ticking, u64, Colour) -> Colour;

/// Random traffic through a meter and its oracle: every colour must be equal.
fn compare(
    name: &str,
    mode: Mode,
    tick: fn(&mut Ticking),
    decide: Decide,
    mut oracle: Ticking,
    mut meter: impl FnMut(Instant, Bytes, Colour) -> Colour,
) {
    let mut random = Stream::named(11, name);
    let (mut now, mut counts) = (0, [0_u32; 3]);
    for _ in 0..60_000 {
        // Bursts and pauses: mostly no pause, sometimes one that fills both buckets.
        let pause = match random.below(20) {
            0 => random.below(4_000),
            1..=6 => random.below(300),
            _ => 0,
        };
        for _ in 0..pause {
            tick(&mut oracle);
        }
        now += pause;
        let size = match random.below(8) {
            0 => oracle.sizes[random.below(2) as usize],
            1 => oracle.sizes[random.below(2) as usize] + 1,
            // Exactly the tokens that are there, or one more.
            2 => oracle.tokens[random.below(2) as usize] + random.below(2),
            _ => random.below(400),
        };
        let incoming = [Colour::Green, Colour::Yellow, Colour::Red][random.below(3) as usize];
        let seen = if mode == Mode::Blind { Colour::Green } else { incoming };
        let expected = decide(&mut oracle, size, seen);
        let got = meter(Instant::from_nanos(now * MILLI), Bytes::new(size), incoming);
        assert_eq!(got, expected, "{name} {mode:?}: {size} B at {now} ms, tokens {:?}", oracle.tokens);
        counts[got as usize] += 1;
    }
    assert!(counts.iter().all(|&n| n > 1_000), "{name} {mode:?} did not see every colour: {counts:?}");
}

#[test]
fn meters_agree_with_their_rfcs_token_by_token() {
    // Three and five bytes per millisecond.
    let (low, high) = (Rate::from_kbit(24), Rate::from_kbit(40));
    let (small, large) = (Bytes::new(700), Bytes::new(1_000));
    let start = Instant::ZERO;
    for mode in [Mode::Blind, Mode::Aware] {
        let params = srtcm::Params { cir: low, cbs: small, ebs: large, mode };
        let mut meter = srtcm::SrTcm::new(params, start).unwrap();
        let oracle = Ticking::new([3, 0], [700, 1_000]);
        compare("srtcm", mode, Ticking::tick_single, single, oracle, |now, size, incoming| {
            meter.colour(now, size, incoming)
        });
        let params = trtcm::Params { cir: low, cbs: small, pir: high, pbs: large, mode };
        let mut meter = trtcm::TrTcm::new(params, start).unwrap();
        let oracle = Ticking::new([3, 5], [700, 1_000]);
        compare("trtcm", mode, Ticking::tick_both, two, oracle, |now, size, incoming| {
            meter.colour(now, size, incoming)
        });
        let params = rfc4115::Params { cir: low, cbs: small, eir: high, ebs: large, mode };
        let mut meter = rfc4115::Rfc4115::new(params, start).unwrap();
        let oracle = Ticking::new([3, 5], [700, 1_000]);
        compare("rfc4115", mode, Ticking::tick_both, efficient, oracle, |now, size, incoming| {
            meter.colour(now, size, incoming)
        });
    }
}

#[test]
fn the_time_of_green_is_exact() {
    let mode = Mode::Blind;
    let mut random = Stream::named(5, "green");
    let params = trtcm::Params {
        cir: Rate::from_bps(7_001),
        cbs: Bytes::new(3_000),
        pir: Rate::from_bps(13_007),
        pbs: Bytes::new(4_000),
        mode,
    };
    let mut meter = trtcm::TrTcm::new(params, Instant::ZERO).unwrap();
    let single = srtcm::Params { cir: Rate::from_bps(7_001), cbs: Bytes::new(3_000), ebs: Bytes::new(500), mode };
    let mut single = srtcm::SrTcm::new(single, Instant::ZERO).unwrap();
    let mut now = Instant::ZERO;
    let mut waits = 0;
    for _ in 0..20_000 {
        now += Span::from_nanos(random.below(2_000_000_000));
        let size = Bytes::new(1 + random.below(3_000));
        if random.below(3) == 0 {
            meter.colour(now, size, Colour::Green);
            single.colour(now, size, Colour::Green);
            continue;
        }
        for at in [meter.time_of_green(now, size), single.time_of_green(now, size)] {
            let at = at.expect("within both bursts");
            waits += u32::from(at > now);
        }
        let at = meter.time_of_green(now, size).unwrap();
        assert_eq!(meter.clone().colour(at, size, Colour::Green), Colour::Green);
        if at > now {
            assert_ne!(
                meter.clone().colour(at.saturating_sub(Span::from_nanos(1)), size, Colour::Green),
                Colour::Green
            );
        }
        let at = single.time_of_green(now, size).unwrap();
        assert_eq!(single.clone().colour(at, size, Colour::Green), Colour::Green);
        if at > now {
            assert_ne!(
                single.clone().colour(at.saturating_sub(Span::from_nanos(1)), size, Colour::Green),
                Colour::Green
            );
        }
    }
    assert!(waits > 1_000, "{waits}");
}

fn meters() -> [AnyMeter; 4] {
    let (cir, mode, start) = (Rate::from_mbit(8), Mode::Aware, Instant::ZERO);
    let (cbs, ebs) = (Bytes::new(2_000), Bytes::new(3_000));
    let double = Rate::from_mbit(16);
    let window = Span::from_millis(50);
    [
        AnyMeter::SrTcm(srtcm::SrTcm::new(srtcm::Params { cir, cbs, ebs, mode }, start).unwrap()),
        AnyMeter::TrTcm(trtcm::TrTcm::new(trtcm::Params { cir, cbs, pir: double, pbs: ebs, mode }, start).unwrap()),
        AnyMeter::Rfc4115(
            rfc4115::Rfc4115::new(rfc4115::Params { cir, cbs, eir: double, ebs, mode: Mode::Blind }, start).unwrap(),
        ),
        AnyMeter::TswTcm(
            tswtcm::TswTcm::new(tswtcm::Params { ctr: cir, ptr: double, window, mode: Mode::Blind }, start, 1, "laws")
                .unwrap(),
        ),
    ]
}

#[test]
fn markers_obey_the_laws() {
    let actions = Actions { red: Action::Drop, ..Actions::assured(2).unwrap() };
    for meter in meters() {
        for point in [Point::Entry, Point::Exit] {
            let fresh = || {
                let inner = Fifo::<TestPacket>::new(Limit::packets(30));
                Accounted::new(Marker::new(inner, Conditioner::new(meter.clone(), actions), point))
            };
            let report = check_seeds(fresh, &Shape::default(), share(4 * 30), 2_000);
            assert!(report.dropped > share(1_000) && report.dequeued > share(4_000), "{meter:?} {point:?}: {report:?}");
        }
    }
}

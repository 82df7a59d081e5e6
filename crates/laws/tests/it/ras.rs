//! The laws for the four rate adaptive shapers; the shapers against RFC 2963 in floating point; and the bounds that
//! their manual states.

use tidegate_core::marker::{Action, Actions, Conditioner};
use tidegate_core::meter::{Meter, Mode, NoMeter};
use tidegate_core::qdisc::Discard;
use tidegate_core::random::Stream;
use tidegate_core::ras::{Coupling, Curve, Params, Ras};
use tidegate_core::srtcm::{self, SrTcm};
use tidegate_core::trtcm::{self, TrTcm};
use tidegate_core::{Accounted, Bytes, Colour, Instant, Qdisc, Rate, Span};
use tidegate_laws::{Shape, TestPacket, check_seeds};
use tidegate_testbed::share;

const CIR: Rate = Rate::from_mbit(2);
const TWO: Curve = Curve::Two {
    cir: CIR,
    pir: Rate::from_mbit(4),
    mir: Rate::from_mbit(34),
    cir_th: Bytes::new(5_000),
    pir_th: Bytes::new(10_000),
    mir_th: Bytes::new(20_000),
};
const SINGLE: Curve =
    Curve::Single { cir: CIR, mir: Rate::from_mbit(34), cir_th: Bytes::new(5_000), mir_th: Bytes::new(20_000) };

fn params(curve: Curve, coupling: Coupling) -> Params {
    Params {
        curve,
        buffer: Bytes::new(24_000),
        line_rate: Rate::from_mbit(34),
        averaging: Span::from_millis(20),
        coupling,
        slack: Span::ZERO,
    }
}

fn trtcm() -> TrTcm {
    let (cbs, pbs) = (Bytes::new(3_000), Bytes::new(6_000));
    TrTcm::new(trtcm::Params { cir: CIR, cbs, pir: Rate::from_mbit(4), pbs, mode: Mode::Blind }, Instant::ZERO).unwrap()
}

fn srtcm() -> SrTcm {
    let (cbs, ebs) = (Bytes::new(3_000), Bytes::new(3_000));
    SrTcm::new(srtcm::Params { cir: CIR, cbs, ebs, mode: Mode::Aware }, Instant::ZERO).unwrap()
}

fn obeys<M: Meter<TestPacket> + Clone>(params: Params, meter: &M, actions: Actions) {
    // The default shape under load, and packets slow enough for the meter to matter.
    let crowded = Shape { enqueues: 140, ..Shape::default() };
    let slow = Shape { enqueues: 60, ..Shape::default() };
    let mut sum = (0, 0);
    for shape in [Shape::default(), crowded, slow] {
        let fresh = || Accounted::new(Ras::new(params, Conditioner::new(meter.clone(), actions)).unwrap());
        let report = check_seeds(fresh, &shape, share(4 * 25), 2_000);
        assert!(
            report.dequeued > share(3_000) && report.deadlines > share(1_000) && report.backwards > share(500),
            "{report:?}"
        );
        sum = (sum.0 + report.dropped, sum.1 + report.steps);
    }
    assert!(sum.0 > share(1_000), "too few drops: {sum:?}");
}

#[test]
fn all_four_obey_the_laws() {
    let assured = Actions::assured(1).unwrap();
    let policed = Actions { red: Action::Drop, ..assured };
    obeys(params(TWO, Coupling::Uncoupled), &trtcm(), assured);
    obeys(params(TWO, Coupling::Green), &trtcm(), policed);
    obeys(params(SINGLE, Coupling::Uncoupled), &srtcm(), assured);
    obeys(params(SINGLE, Coupling::Green), &srtcm(), policed);
    obeys(Params { slack: Span::from_micros(500), ..params(TWO, Coupling::Green) }, &trtcm(), assured);
}

/// An output of a shaper.
enum Step {
    Came(Instant, u64),
    Left(Instant, TestPacket),
}

/// Plays arrivals, and dequeues at every deadline.
fn play<M: Meter<TestPacket>>(ras: &mut Ras<TestPacket, M>, arrivals: &[(Instant, u64)]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut now = Instant::ZERO;
    let mut next = arrivals.iter().peekable();
    loop {
        let deadline = ras.deadline(now).instant(now);
        match (next.peek(), deadline) {
            (Some(&&(at, size)), due) if due.is_none_or(|due| at <= due) => {
                now = at;
                next.next();
                ras.enqueue(now, TestPacket::new(0, 1, size), &mut Discard);
                steps.push(Step::Came(at, size));
            }
            (_, Some(due)) => {
                now = due;
                steps.push(Step::Left(now, ras.dequeue(now, &mut Discard).expect("due")));
            }
            (None, None) => return steps,
            (Some(_), None) => unreachable!("an arrival is played when nothing is due"),
        }
    }
}

/// Bursts and pauses around CIR, sizes from 40 to 1500 B.
fn arrivals(seed: u64, n: usize) -> Vec<(Instant, u64)> {
    let mut random = Stream::named(seed, "arrivals");
    let mut now = Instant::from_nanos(1_000_000);
    (0..n)
        .map(|_| {
            now += match random.below(12) {
                0 => Span::from_micros(1 + random.below(60_000)),
                1..=5 => Span::from_micros(1 + random.below(4_000)),
                _ => Span::from_micros(1 + random.below(50)),
            };
            (now, [40, 1_500, 40 + random.below(1_461)][random.below(3) as usize])
        })
        .collect()
}

/// RFC 2963 sections 2 and 3 in floating point and seconds, one packet at a time.
struct Oracle {
    green: bool,
    queue: std::collections::VecDeque<f64>,
    ear: f64,
    last_arrival: f64,
    /// Bits of the last packet that are not paid for yet.
    debt: f64,
    clock: f64,
    head_since: f64,
    tokens: [f64; 2],
    metered: f64,
}

impl Oracle {
    const K: f64 = 0.02;
    const CIR: f64 = 2e6;
    const PIR: f64 = 4e6;

    fn occupancy(&self) -> f64 {
        self.queue.iter().sum()
    }
    fn shaping_rate(&self) -> f64 {
        let q = self.occupancy();
        let line = |x0: f64, y0: f64, x1: f64, y1: f64| y0 + (y1 - y0) * (q - x0) / (x1 - x0);
        let f = if q < 5e3 {
            2e6
        } else if q < 10e3 {
            line(5e3, 2e6, 10e3, 4e6)
        } else if q < 20e3 {
            line(10e3, 4e6, 20e3, 34e6)
        } else {
            34e6
        };
        self.ear.max(f).min(34e6)
    }
    fn advance(&mut self, now: f64) {
        self.debt = (self.debt - self.shaping_rate() * (now - self.clock)).max(0.0);
        self.clock = now;
    }
    fn arrive(&mut self, now: f64, size: f64) {
        self.advance(now);
        let t = now - self.last_arrival;
        let forget = (-t / Self::K).exp();
        self.ear = (1.0 - forget) * size * 8.0 / t + forget * self.ear;
        self.last_arrival = now;
        if self.occupancy() + size > 24e3 {
            return;
        }
        if self.queue.is_empty() {
            self.head_since = now;
        }
        self.queue.push_back(size);
    }
    /// min(T1, T2), section 3.5.
    fn release(&self) -> Option<f64> {
        let head = *self.queue.front()?;
        let t1 = (self.clock + self.debt / self.shaping_rate()).max(self.head_since);
        if !self.green {
            return Some(t1);
        }
        let t = self.head_since;
        let grown = |level: f64, rate: f64, depth: f64| (level + rate * (t - self.metered) / 8.0).min(depth);
        let (tc, tp) = (grown(self.tokens[0], Self::CIR, 3e3), grown(self.tokens[1], Self::PIR, 6e3));
        let t2 = t.max(t + (head - tc) * 8.0 / Self::CIR).max(t + (head - tp) * 8.0 / Self::PIR);
        Some(t1.min(t2))
    }
    /// Releases the head; returns whether the meter colours it green.
    fn depart(&mut self, now: f64) -> bool {
        self.advance(now);
        let size = self.queue.pop_front().unwrap();
        self.debt = size * 8.0;
        self.head_since = now;
        let passed = now - self.metered;
        self.metered = now;
        self.tokens[0] = (self.tokens[0] + Self::CIR * passed / 8.0).min(3e3);
        self.tokens[1] = (self.tokens[1] + Self::PIR * passed / 8.0).min(6e3);
        // A float may miss a token by an error that the integers do not have.
        let has = |tokens: f64| tokens + 1e-3 >= size;
        let green = has(self.tokens[0]) && has(self.tokens[1]);
        if green {
            self.tokens[0] -= size;
        }
        if has(self.tokens[1]) {
            self.tokens[1] -= size;
        }
        green
    }
}

#[test]
fn shapers_follow_the_rfc() {
    for (coupling, green) in [(Coupling::Uncoupled, false), (Coupling::Green, true)] {
        let mut ras = Ras::new(params(TWO, coupling), Conditioner::new(trtcm(), Actions::default())).unwrap();
        let steps = play(&mut ras, &arrivals(3, 20_000));
        let mut oracle = Oracle {
            green,
            queue: std::collections::VecDeque::new(),
            ear: 0.0,
            last_arrival: f64::NEG_INFINITY,
            debt: 0.0,
            clock: 0.0,
            head_since: 0.0,
            tokens: [3e3, 6e3],
            metered: 0.0,
        };
        let (mut worst, mut greens) = (0.0_f64, 0);
        for step in steps {
            match step {
                Step::Came(at, size) => oracle.arrive(at.as_nanos() as f64 / 1e9, size as f64),
                Step::Left(at, packet) => {
                    let at = at.as_nanos() as f64 / 1e9;
                    let due = oracle.release().expect("the oracle has a packet too");
                    worst = worst.max((at - due).abs());
                    let green = oracle.depart(at);
                    assert_eq!(packet.colour == Colour::Green, green, "{coupling:?} at {at} s");
                    greens += u32::from(green);
                }
            }
        }
        assert!(oracle.queue.is_empty(), "{coupling:?}: the oracle dropped less");
        // The oracle dequeues when the shaper does, so errors do not add up: instants are whole ns, rates whole bit/s
        // (a part in two million of at most 6 ms), and floats of 80 s are precise to 0.02 ns.
        assert!(worst < 8e-9, "{coupling:?}: off by {worst} s");
        assert!(greens > 2_000 && ras.stats().by_rate > 1_000, "{coupling:?}: {greens} green, {:?}", ras.stats());
        assert_eq!(ras.stats().by_green > 1_000, green, "{:?}", ras.stats());
    }
}

#[test]
fn distances_are_within_mir_and_cir() {
    let mut ras = Ras::new(params(TWO, Coupling::Uncoupled), Conditioner::new(NoMeter, Actions::default())).unwrap();
    let arrivals = arrivals(8, 20_000);
    let left: Vec<_> = play(&mut ras, &arrivals)
        .into_iter()
        .filter_map(|step| match step {
            Step::Left(at, packet) => Some((at, packet)),
            Step::Came(..) => None,
        })
        .collect();
    let mut waited = 0;
    for pair in left.windows(2) {
        let ((before, packet), (after, _)) = (pair[0], pair[1]);
        let gap = after.since(before);
        let least = Rate::from_mbit(34).time_for_ceil(packet.size).unwrap();
        let most = CIR.time_for_ceil(packet.size).unwrap();
        assert!(gap >= least, "{gap:?} after {packet:?}");
        if gap > most {
            // Then the queue was empty: the next left on arrival.
            assert!(arrivals.iter().any(|&(at, _)| at == after), "{gap:?} after {packet:?}");
        } else {
            waited += 1;
        }
    }
    assert!(waited > 5_000, "{waited}");
}

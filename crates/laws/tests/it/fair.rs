//! The laws for the fair queues, and CoDel's control law against the pseudocode of its RFC in floats.

use tidegate_core::cake::{self, AckFilter, Cake, Framing, Isolation, Tins, Wire};
use tidegate_core::codel::{self, CoDel};
use tidegate_core::drr::{self, Drr};
use tidegate_core::fifo::Limit;
use tidegate_core::fq_codel::{self, FqCodel};
use tidegate_core::fq_pie::{self, FqPie};
use tidegate_core::pie::{self, Pie};
use tidegate_core::random::Stream;
use tidegate_core::red::{Signal, Sizing};
use tidegate_core::sfq::{self, Sfq};
use tidegate_core::step::Step;
use tidegate_core::tbf::{self, Tbf};
use tidegate_core::{Accounted, Bytes, Ecn, Instant, Qdisc, Rate, Span};
use tidegate_laws::{Report, Shape, TestPacket, check_seeds};
use tidegate_testbed::share;

const LIMIT: Limit = Limit { packets: 30, bytes: Bytes::new(20_000) };

fn shapes() -> [Shape; 3] {
    [
        Shape::default(),
        Shape { flows: 300, enqueues: 140, ..Shape::default() },
        Shape { flows: 2, sizes: (1, 9_000), longest_wait: Span::from_secs(2), enqueues: 120, ..Shape::default() },
    ]
}

fn reached(report: &Report) {
    assert!(
        report.dropped > share(1_000) && report.dequeued > share(5_000) && report.backwards > share(100),
        "{report:?}"
    );
}

#[test]
fn drr_obeys_the_laws() {
    for shape in shapes() {
        let step = Some(Step::at(Span::from_millis(1)));
        let params = || drr::Params { limit: LIMIT, weights: vec![2, 1, 7], step, ..drr::Params::default() };
        let report = check_seeds(|| Accounted::new(Drr::new(params()).unwrap()), &shape, share(4 * 50), 2_000);
        reached(&report);
    }
}

#[test]
fn sfq_obeys_the_laws() {
    for queues in [1, 4, 1_024] {
        for shape in shapes() {
            let perturb = Some(Span::from_millis(20));
            let params = sfq::Params { queues, limit: LIMIT, perturb, ..sfq::Params::default() };
            reached(&check_seeds(|| Accounted::new(Sfq::new(params).unwrap()), &shape, share(4 * 25), 2_000));
        }
    }
}

#[test]
fn codel_obeys_the_laws() {
    for (target, interval) in [(5, 100), (1, 3)] {
        for shape in shapes() {
            let params = codel::Params {
                target: Span::from_millis(target),
                interval: Span::from_millis(interval),
                limit: LIMIT,
                ..codel::Params::default()
            };
            let report = check_seeds(|| Accounted::new(CoDel::new(params).unwrap()), &shape, share(4 * 30), 2_000);
            reached(&report);
            assert!(report.most_drops_a_call <= u64::from(codel::MOST_DROPS_A_CALL), "{report:?}");
        }
    }
}

/// Also when some packets exceed the burst, or the limit on bytes is what drops.
#[test]
fn tbf_obeys_the_laws() {
    for (burst, kbit) in [(9_000, 4_000), (1_500, 20_000), (400, 1_000)] {
        for shape in shapes() {
            let params = tbf::Params { rate: Rate::from_kbit(kbit), burst: Bytes::new(burst), limit: LIMIT };
            let report = check_seeds(|| Accounted::new(Tbf::new(params).unwrap()), &shape, share(4 * 20), 2_000);
            assert!(
                report.dropped > share(1_000) && report.dequeued > share(1_000) && report.backwards > share(100),
                "{report:?}"
            );
        }
    }
}

#[test]
fn fq_codel_obeys_the_laws() {
    for queues in [1, 4, 1_024] {
        for shape in shapes() {
            let codel = codel::Params {
                target: Span::from_millis(1),
                interval: Span::from_millis(10),
                limit: LIMIT,
                ..codel::Params::default()
            };
            let step = (queues == 4).then_some(Step::at(Span::from_micros(200)));
            let params = fq_codel::Params { codel, queues, quantum: Bytes::new(300), step };
            reached(&check_seeds(|| Accounted::new(FqCodel::new(params).unwrap()), &shape, share(4 * 25), 2_000));
        }
    }
}

#[test]
fn fq_pie_obeys_the_laws() {
    for queues in [1, 4, 1_024] {
        for shape in shapes() {
            // A fast controller, so that its probability matters within a script.
            let pie = pie::Params {
                target: Span::from_millis(1),
                update: Span::from_millis(1),
                burst: Span::from_millis(5),
                alpha: 1_600,
                beta: 1_600,
                mean: Bytes::new(500),
                limit: LIMIT,
                ..pie::Params::default()
            };
            let params = fq_pie::Params { pie, queues, quantum: Bytes::new(300) };
            reached(&check_seeds(
                || Accounted::new(FqPie::new(params, 7, "laws").unwrap()),
                &shape,
                share(4 * 25),
                2_000,
            ));
        }
    }
}

#[test]
fn cake_obeys_the_laws() {
    let wires = [
        Wire { overhead: 40, framing: Framing::Atm, ..Wire::RAW },
        Wire { overhead: 22, least: Bytes::new(84), framing: Framing::Ptm },
    ];
    let hosts = [Isolation::Source, Isolation::Pair];
    for (shape, queues) in shapes().into_iter().flat_map(|shape| [(shape, 8), (shape, 64)]) {
        for (n, rate) in [Some(Rate::from_mbit(2)), None].into_iter().enumerate() {
            let codel = codel::Params {
                target: Span::from_millis(1),
                interval: Span::from_millis(10),
                limit: LIMIT,
                ..codel::Params::default()
            };
            let params = cake::Params {
                rate,
                lateness: Span::from_micros(n as u64 * 700),
                wire: wires[n],
                tins: [Tins::Diffserv4, Tins::Diffserv3][n],
                hosts: hosts[n],
                codel,
                queues,
                ack_filter: AckFilter::On,
                ..cake::Params::for_link(Rate::from_mbit(2))
            };
            let report =
                check_seeds(|| Accounted::new(Cake::new(params, 7, "laws").unwrap()), &shape, share(4 * 25), 2_000);
            reached(&report);
            assert!(rate.is_none() || report.deadlines > share(1_000), "{report:?}");
        }
    }
}

#[test]
fn pie_obeys_the_laws() {
    for shape in shapes() {
        for sizing in [Sizing::PerPacket, Sizing::PerByte { mean: Bytes::new(1_000) }] {
            // A fast controller, so that its probability matters within a script.
            let params = pie::Params {
                target: Span::from_millis(1),
                update: Span::from_millis(1),
                burst: Span::from_millis(5),
                alpha: 1_600,
                beta: 1_600,
                mean: Bytes::new(500),
                sizing,
                limit: LIMIT,
                ..pie::Params::default()
            };
            reached(&check_seeds(
                || Accounted::new(Pie::new(params, 7, "laws").unwrap()),
                &shape,
                share(4 * 30),
                2_000,
            ));
        }
    }
}

/// RFC 8289, section 5, as written, with floats and without a bound of drops per call.
#[derive(Default)]
struct Oracle {
    queue: std::collections::VecDeque<(u64, f64, u64)>,
    first_above: f64,
    drop_next: f64,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl Oracle {
    const TARGET: f64 = 5e6;
    const INTERVAL: f64 = 100e6;

    fn take(&mut self, now: f64) -> (Option<u64>, bool) {
        let Some((id, at, _)) = self.queue.pop_front() else {
            self.first_above = 0.0;
            return (None, false);
        };
        let bytes: u64 = self.queue.iter().map(|packet| packet.2).sum();
        let mut ok_to_drop = false;
        if now - at < Self::TARGET || bytes <= 1_514 {
            self.first_above = 0.0;
        } else if self.first_above == 0.0 {
            self.first_above = now + Self::INTERVAL;
        } else if now >= self.first_above {
            ok_to_drop = true;
        }
        (Some(id), ok_to_drop)
    }

    fn dequeue(&mut self, now: f64, dropped: &mut Vec<u64>) -> Option<u64> {
        let law = |t: f64, count: u32| t + Self::INTERVAL / f64::from(count).sqrt();
        let (mut packet, mut ok) = self.take(now);
        if self.dropping {
            if !ok {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                dropped.extend(packet);
                self.count += 1;
                (packet, ok) = self.take(now);
                if !ok {
                    self.dropping = false;
                } else {
                    self.drop_next = law(self.drop_next, self.count);
                }
            }
        } else if ok {
            dropped.extend(packet);
            (packet, _) = self.take(now);
            self.dropping = true;
            let delta = self.count as i64 - self.last_count as i64;
            self.count = 1;
            if delta > 1 && now - self.drop_next < 16.0 * Self::INTERVAL {
                self.count = delta as u32;
            }
            self.drop_next = law(now, self.count);
            self.last_count = self.count;
        }
        packet
    }
}

#[test]
fn codel_is_the_pseudocode_of_the_rfc() {
    let mut drops = 0;
    for seed in 0..40 {
        let mut random = Stream::named(seed, "codel oracle");
        let params = codel::Params { limit: Limit::NONE, signal: Signal::Drop, ..codel::Params::default() };
        let mut codel = CoDel::new(params).unwrap();
        let mut oracle = Oracle::default();
        let mut now = Instant::from_nanos(1);
        for id in 0..5_000 {
            // Odd nanoseconds of microseconds, so that no decision depends on the last bit of a float.
            now += Span::from_nanos(random.below(1_500_000) * 2 + 1);
            // Phases of overload and of recovery.
            let load = if id / 700 % 2 == 0 { 6 } else { 4 };
            if random.below(10) < load {
                let size = 100 + random.below(1_400);
                codel.enqueue(now, TestPacket { ecn: Ecn::NotEct, ..TestPacket::new(id, 0, size) }, &mut vec![]);
                oracle.queue.push_back((id, now.as_nanos() as f64, size));
            } else {
                let (mut dropped, mut expected) = (vec![], vec![]);
                let packet = codel.dequeue(now, &mut dropped).map(|packet| packet.id);
                assert_eq!(packet, oracle.dequeue(now.as_nanos() as f64, &mut expected));
                let dropped: Vec<_> = dropped.iter().map(|(packet, _)| packet.id).collect();
                assert_eq!(dropped, expected);
                drops += dropped.len();
            }
        }
    }
    assert!(drops > 1_000, "{drops}");
}

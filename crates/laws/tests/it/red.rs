//! The laws for RED in a FIFO, and RED against the pseudocode of the paper in floating point.

use tidegate_core::aqm::{Aqm, AqmFifo, Verdict};
use tidegate_core::fifo::Limit;
use tidegate_core::qdisc::Backlog;
use tidegate_core::random::Stream;
use tidegate_core::red::{AboveMax, EarlyDrop, Params, Profile, Red, Signal, Sizing, Spacing, Thresholds};
use tidegate_core::{Accounted, Bytes, Instant, Probability, Span};
use tidegate_laws::{Shape, TestPacket, check_seeds};
use tidegate_testbed::share;

fn queue(params: Params) -> Accounted<AqmFifo<TestPacket, Red>> {
    Accounted::new(AqmFifo::new(Limit::packets(60), Red::new(params, 1, "red").expect("valid")))
}

#[test]
fn red_obeys_the_laws() {
    let weight = Probability::from_ratio(1, 8).unwrap();
    let early = EarlyDrop { weight, ..EarlyDrop::RECOMMENDED };
    let packets = Params { early, ..Params::new(Thresholds::Packets { min: 5, max: 15 }) };
    let thresholds = Thresholds::Bytes { min: Bytes::new(3_000), max: Bytes::new(9_000) };
    let bytes = Params {
        profile: Profile { thresholds, ..packets.profile },
        early: EarlyDrop {
            above_max: AboveMax::Cliff,
            spacing: Spacing::Geometric,
            sizing: Sizing::PerByte { mean: Bytes::new(500) },
            signal: Signal::Mark,
            ..early
        },
    };
    let crowded = Shape { enqueues: 150, ..Shape::default() };
    for (params, shape) in [(packets, Shape::default()), (packets, crowded), (bytes, crowded)] {
        let report = check_seeds(|| queue(params), &shape, share(4 * 60), 2_000);
        assert!(
            report.dropped > share(1_000) && report.dequeued > share(10_000) && report.backwards > share(100),
            "{report:?}"
        );
    }
}

/// The paper's figure 2, in floats.
struct Oracle {
    average: f64,
    weight: f64,
    max_p: f64,
    min: f64,
    max: f64,
    idle_since: Option<f64>,
    /// Idle time too short to be counted, added to the next idle time.
    rest: f64,
    packet_time: f64,
}

impl Oracle {
    /// The base probability for an arrival at `now` that finds `queue`; none below two packets, as in ns-2.
    fn arrival(&mut self, now: f64, queue: f64) -> f64 {
        if queue > 0.0 {
            self.average += self.weight * (queue - self.average);
        } else if let Some(since) = self.idle_since {
            let packets = ((now - since) / self.packet_time).floor();
            self.average *= (1.0 - self.weight).powf(packets);
            self.idle_since = Some(since + packets * self.packet_time);
        }
        if queue < 2.0 || self.average < self.min {
            0.0
        } else if self.average < self.max {
            self.max_p * (self.average - self.min) / (self.max - self.min)
        } else if self.average < 2.0 * self.max {
            self.max_p + (1.0 - self.max_p) * (self.average - self.max) / self.max
        } else {
            1.0
        }
    }
}

#[test]
fn red_follows_the_paper() {
    use tidegate_core::red::Zone;
    let early = EarlyDrop {
        weight: Probability::from_ratio(2, 100).unwrap(),
        // A whole number of nanoseconds and of their binary fractions, so that the oracle's floor is exact.
        idle_packet: Span::from_nanos(1 << 20),
        ..EarlyDrop::RECOMMENDED
    };
    let params = Params { early, ..Params::new(Thresholds::Packets { min: 20, max: 60 }) };
    let mut red = Red::new(params, 1, "red").unwrap();
    let (weight, max_p) = (0.02, 0.1);
    let mut oracle = Oracle {
        average: 0.0,
        weight,
        max_p,
        min: 20.0,
        max: 60.0,
        idle_since: Some(0.0),
        rest: 0.0,
        packet_time: (1 << 20) as f64,
    };
    let mut random = Stream::named(9, "arrivals");
    let (mut now, mut queue) = (Instant::ZERO, 0_u64);
    let mut zones = [0_u32; 4];
    for _ in 0..200_000 {
        now += Span::from_nanos(random.below(1 << 21));
        // A queue that varies between empty and 150, slowly.
        match random.below(200) {
            0 => queue = 0,
            1 => queue = random.below(150),
            _ => queue = (queue + random.below(3)).saturating_sub(1),
        }
        let packets = Backlog { packets: queue, bytes: Bytes::new(queue * 500) };
        let expected = oracle.arrival(now.as_nanos() as f64, queue as f64);
        let zone = red.observe(now, packets);
        let got = match zone {
            Zone::Below => 0.0,
            Zone::Chance(p) | Zone::Gentle(p) => p.as_f64(),
            Zone::Beyond => 1.0,
        };
        zones[match zone {
            Zone::Below => 0,
            Zone::Chance(_) => 1,
            Zone::Gentle(_) => 2,
            Zone::Beyond => 3,
        }] += 1;
        // Each update rounds down by at most 2^-32, and errors decay with the weight: the average is off by 2^-32 / w
        // plus the rounding of w itself, 2^-33 / w of the queue: below 10^-5 packets. The steepest slope is 0.9 / 60
        // per packet.
        assert!((red.average().as_f64() - oracle.average).abs() < 1e-5, "{:?} {}", red.average(), oracle.average);
        let at_an_edge = [20.0, 60.0, 120.0].iter().any(|edge| (oracle.average - edge).abs() < 1e-5);
        assert!(at_an_edge || (got - expected).abs() < 1e-6, "{got} {expected}");
        if queue == 0 && oracle.idle_since.is_none() {
            oracle.idle_since = Some(now.as_nanos() as f64 - oracle.rest);
            red.on_empty(now);
        } else if queue > 0 {
            if let Some(since) = oracle.idle_since.take() {
                oracle.rest = now.as_nanos() as f64 - since;
            }
            red.on_busy();
        }
    }
    assert!(zones.iter().all(|&n| n > 1_000), "{zones:?}");
}

#[test]
fn the_share_dropped_is_the_curve() {
    // A standing queue of 40 between 20 and 60: base probability 0.05. Geometric drops 5 %; uniform drops one in
    // (1 + 1/0.05) / 2 = 10.5 packets.
    for (spacing, expected) in [(Spacing::Geometric, 5_000.0), (Spacing::Uniform, 100_000.0 / 10.5)] {
        let early = EarlyDrop { weight: Probability::ONE, spacing, ..EarlyDrop::RECOMMENDED };
        let params = Params { early, ..Params::new(Thresholds::Packets { min: 20, max: 60 }) };
        let mut red = Red::new(params, 7, "share").unwrap();
        let standing = Backlog { packets: 40, bytes: Bytes::new(20_000) };
        let packet = TestPacket::new(0, 1, 500);
        let drops = (0..100_000).filter(|_| red.on_arrival(Instant::ZERO, &packet, standing) != Verdict::Admit).count();
        // Five standard deviations of the binomial: 345; uniform gaps vary less.
        assert!((drops as f64 - expected).abs() < 345.0, "{spacing:?}: {drops}");
        assert_eq!(red.verdicts().early, drops as u64);
    }
}

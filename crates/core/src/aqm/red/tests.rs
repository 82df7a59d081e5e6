//! Worked numbers; the laws and the oracle are in `crates/laws`.

use super::*;
use crate::qdisc::DropReason;
use tidegate_units::{Bytes, Span};

fn p(numerator: u64, denominator: u64) -> Probability {
    Probability::from_ratio(numerator, denominator).unwrap()
}

struct Pkt {
    size: u64,
    ecn: crate::Ecn,
}
impl Packet for Pkt {
    fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }
    fn flow(&self) -> crate::FlowKey {
        crate::FlowKey::numbered(1)
    }
    fn ecn(&self) -> crate::Ecn {
        self.ecn
    }
}
const PLAIN: Pkt = Pkt { size: 500, ecn: crate::Ecn::NotEct };

#[test]
fn the_average_follows_the_formula() {
    let mut average = Average::new(p(1, 4), Span::from_millis(1));
    average.on_busy();
    // From 0 with q = 100 and w = 1/4: 25, 43.75, 57.8125: each exact in binary.
    let now = Instant::ZERO;
    let levels: [f64; 3] = core::array::from_fn(|_| average.on_arrival(now, Level::whole(100)).as_f64());
    assert_eq!(levels, [25.0, 43.75, 57.8125]);
    // Idle for 2.5 packets: two count, 57.8125 * 9/16 = 32.51953125. Half a packet later the third does,
    // also when the arrival between was dropped and the queue stayed empty: 24.3896484375.
    average.on_empty(now);
    let at = |micros| now + Span::from_micros(micros);
    assert_eq!(average.on_arrival(at(2_500), Level::whole(0)).as_f64(), 32.519_531_25);
    assert_eq!(average.on_arrival(at(2_999), Level::whole(0)).as_f64(), 32.519_531_25);
    assert_eq!(average.on_arrival(at(3_000), Level::whole(0)).as_f64(), 24.389_648_437_5);
}

#[test]
fn short_idle_times_add_up() {
    // A packet's time is 1 ms. Each arrival finds the queue empty, for 0.6 ms since the last packet left; 0.6, 1.2, 1.8,
    // 2.4 and 3 ms in all: 0, 1, 1, 2 and 3 whole times, and 3/4 of the average for each.
    let mut average = Average::new(p(1, 4), Span::from_millis(1));
    average.on_busy();
    average.on_arrival(Instant::ZERO, Level::whole(256));
    assert_eq!(average.level(), Level::whole(64));
    let mut now = Instant::ZERO;
    let levels: [f64; 5] = core::array::from_fn(|_| {
        average.on_empty(now);
        now += Span::from_micros(600);
        let level = average.on_arrival(now, Level::whole(0)).as_f64();
        average.on_busy();
        now += Span::from_micros(400);
        level
    });
    assert_eq!(levels, [64.0, 48.0, 48.0, 36.0, 27.0]);
}

#[test]
fn an_average_at_the_top_comes_down_again() {
    // Far above the upper threshold everything is dropped, and so nothing but idle time can bring the average down:
    // 10 packets a millisecond, each dropped, with the time of a packet at 1.2 ms, and at none at all.
    for idle_packet in [Span::from_micros(1_200), Span::ZERO] {
        let thresholds = Thresholds::Packets { min: 5, max: 15 };
        let early = EarlyDrop { idle_packet, weight: p(1, 8), ..EarlyDrop::RECOMMENDED };
        let params = Params { early, ..Params::new(thresholds) };
        let mut red = Red::new(params, 1, "top").unwrap();
        let full = Backlog { packets: 100, bytes: Bytes::new(50_000) };
        for _ in 0..20 {
            red.on_arrival(Instant::ZERO, &PLAIN, full);
            red.on_busy();
        }
        assert_eq!(red.zone(), Zone::Beyond);
        red.on_empty(Instant::ZERO);
        let zones = (1..1_000).map(|n| {
            let now = Instant::ZERO + Span::from_micros(n * 100);
            red.on_arrival(now, &PLAIN, Backlog::default());
            red.zone()
        });
        let first = zones.take_while(|zone| *zone == Zone::Beyond).count();
        // (7/8)^9 of 93 are below 30: after 9 arrivals, or 108.
        assert!(first < 120, "{idle_packet:?}: {first} arrivals");
    }
}

#[test]
fn nothing_is_dropped_while_fewer_than_two_packets_are_queued() {
    // The average is far above the upper threshold, and the queue has just emptied.
    let thresholds = Thresholds::Packets { min: 5, max: 15 };
    let mut red = Red::new(Params::new(thresholds), 1, "short").unwrap();
    let queue = |packets| Backlog { packets, bytes: Bytes::new(packets * 500) };
    for _ in 0..10_000 {
        red.on_arrival(Instant::ZERO, &PLAIN, queue(100));
        red.on_busy();
    }
    let verdict = |red: &mut Red, packets| red.on_arrival(Instant::ZERO, &PLAIN, queue(packets));
    assert_eq!([0, 1].map(|packets| verdict(&mut red, packets)), [Verdict::Admit; 2]);
    assert_eq!(red.zone(), Zone::Beyond);
    assert_eq!(verdict(&mut red, 2), Verdict::Drop(DropReason::Forced));
}

#[test]
fn a_long_idle_time_forgets_everything_and_an_endless_one_ends() {
    let mut average = Average::new(p(2, 1000), Span::from_micros(1));
    average.on_busy();
    average.on_arrival(Instant::ZERO, Level::whole(1_000_000));
    average.on_empty(Instant::ZERO);
    // (1 - 0.002)^11500 < 10^-10, times 2000 is below 2^-20.
    let late = average.on_arrival(Instant::ZERO + Span::from_micros(11_500), Level::whole(0));
    assert!(late.bits() < 1 << 12, "{late:?}");
    assert_eq!(average.on_arrival(Instant::MAX, Level::whole(0)), Level(0));
}

#[test]
fn the_curve_is_the_published_one() {
    // The paper's figure: 0 at min = 5, max_p = 0.02 just below max = 15, 1 from there; gently 0.51 at 22.5
    // (0.02 + 0.98 / 2) and 1 at 30.
    let thresholds = Thresholds::Packets { min: 5, max: 15 };
    let level = |tenths: u64| Level((tenths << 32) / 10);
    let cliff = Curve::new(Profile { thresholds, max_p: p(2, 100) }, AboveMax::Cliff);
    assert_eq!(cliff.zone(level(49)), Zone::Below);
    assert_eq!(cliff.zone(level(50)), Zone::Chance(Probability::ZERO));
    let Zone::Chance(half) = cliff.zone(level(100)) else { panic!("not chance") };
    assert!((half.as_f64() - 0.01).abs() < 1e-9, "{half}");
    assert_eq!(cliff.zone(level(150)), Zone::Beyond);
    let gentle = Curve::new(Profile { thresholds, max_p: p(2, 100) }, AboveMax::Gentle);
    let Zone::Gentle(at_max) = gentle.zone(level(150)) else { panic!("not gentle") };
    assert_eq!(at_max, p(2, 100));
    let Zone::Gentle(middle) = gentle.zone(level(225)) else { panic!("not gentle") };
    assert!((middle.as_f64() - 0.51).abs() < 1e-9, "{middle}");
    assert!(matches!(gentle.zone(level(299)), Zone::Gentle(_)));
    assert_eq!(gentle.zone(level(300)), Zone::Beyond);
}

/// Gaps between drops at p = 0.02, as in the paper's figure of both methods (section 7).
fn gaps(spacing: Spacing, n: usize) -> alloc::vec::Vec<u64> {
    let mut spacer = Spacer::new(Stream::named(3, "gaps"));
    (0..n)
        .map(|_| {
            let mut gap = 1;
            while !spacer.draw(spacing, p(2, 100)) {
                gap += 1;
            }
            gap
        })
        .collect()
}

#[test]
fn gaps_are_uniform_or_geometric_as_published() {
    let n = 20_000;
    let uniform = gaps(Spacing::Uniform, n);
    // Uniform on 1..=50: mean 25.5, variance (50^2 - 1) / 12 = 208; five standard errors are 0.51.
    assert!(uniform.iter().all(|&gap| (1..=51).contains(&gap)), "{:?}", uniform.iter().max());
    let mean = uniform.iter().sum::<u64>() as f64 / n as f64;
    assert!((mean - 25.5).abs() < 0.51, "{mean}");
    // Each fifth of the range has a fifth of the gaps: 4000, standard deviation 57.
    for fifth in 0..5 {
        let count = uniform.iter().filter(|&&gap| (gap - 1) / 10 == fifth).count();
        assert!(count.abs_diff(4_000) < 285, "{fifth}: {count}");
    }
    let geometric = gaps(Spacing::Geometric, n);
    // Mean 1/p = 50, standard deviation sqrt(1 - p) / p = 49.5; five standard errors are 1.75. Longer than 100
    // with probability 0.98^100 = 0.1326: 2652, standard deviation 48.
    let mean = geometric.iter().sum::<u64>() as f64 / n as f64;
    assert!((mean - 50.0).abs() < 1.75, "{mean}");
    assert!(geometric.iter().filter(|&&gap| gap > 100).count().abs_diff(2_652) < 240);
}

fn dropper(seed_name: &str) -> Dropper {
    let profile = Params::new(Thresholds::Packets { min: 5, max: 15 }).profile;
    Dropper::new(profile, AboveMax::Gentle, Stream::named(5, seed_name))
}

#[test]
fn byte_mode_scales_with_the_size() {
    let sizing = Sizing::PerByte { mean: Bytes::new(500) };
    let drops = |size| {
        let mut dropper = dropper("sizes");
        let early = EarlyDrop { spacing: Spacing::Geometric, sizing, ..EarlyDrop::RECOMMENDED };
        let packet = Pkt { size, ecn: crate::Ecn::NotEct };
        let zone = Zone::Chance(p(1, 50));
        (0..100_000).filter(|_| dropper.decide(&early, zone, &packet) != Verdict::Admit).count()
    };
    // 0.02 * 1500/500 = 0.06: 6000, standard deviation 75; 40/500: 0.0016: 160, standard deviation 12.6.
    assert!(drops(1_500).abs_diff(6_000) < 375);
    assert!(drops(500).abs_diff(2_000) < 222);
    assert!(drops(40).abs_diff(160) < 64);
}

#[test]
fn marks_only_what_understands_it_and_only_below_max() {
    let mut dropper = dropper("ecn");
    let capable = Pkt { size: 500, ecn: crate::Ecn::Ect0 };
    let mut decide = |zone, signal, packet: &Pkt| {
        let early = EarlyDrop { spacing: Spacing::Geometric, signal, ..EarlyDrop::RECOMMENDED };
        dropper.decide(&early, zone, packet)
    };
    let sure = Probability::ONE;
    assert_eq!(decide(Zone::Chance(sure), Signal::Mark, &capable), Verdict::Mark);
    assert_eq!(decide(Zone::Chance(sure), Signal::Mark, &PLAIN), Verdict::Drop(DropReason::Early));
    assert_eq!(decide(Zone::Chance(sure), Signal::Drop, &capable), Verdict::Drop(DropReason::Early));
    assert_eq!(decide(Zone::Gentle(sure), Signal::Mark, &capable), Verdict::Drop(DropReason::Early));
    assert_eq!(decide(Zone::Beyond, Signal::Mark, &capable), Verdict::Drop(DropReason::Forced));
}

#[test]
fn the_step_of_dctcp_marks_above_max() {
    let mut dropper = dropper("step");
    let capable = Pkt { size: 500, ecn: crate::Ecn::Ect0 };
    let mut decide = |signal, packet: &Pkt| {
        let early = EarlyDrop { above_max: AboveMax::Mark, signal, ..EarlyDrop::RECOMMENDED };
        dropper.decide(&early, Zone::Beyond, packet)
    };
    assert_eq!(decide(Signal::Mark, &capable), Verdict::Mark);
    assert_eq!(decide(Signal::Mark, &PLAIN), Verdict::Drop(DropReason::Forced));
    assert_eq!(decide(Signal::Drop, &capable), Verdict::Drop(DropReason::Forced));
}

#[test]
fn errors_name_the_field() {
    let good = Params::new(Thresholds::Packets { min: 5, max: 15 });
    assert_eq!(good.validate(), Ok(()));
    let Params { profile, early } = good;
    let of = |profile| Params { profile, ..good };
    for (wrong, field) in [
        (of(Profile { thresholds: Thresholds::Packets { min: 5, max: 5 }, ..profile }), "max_th"),
        (of(Profile { thresholds: Thresholds::Bytes { min: Bytes::ZERO, max: Bytes::MAX }, ..profile }), "max_th"),
        (of(Profile { max_p: Probability::ZERO, ..profile }), "max_p"),
        (Params { early: EarlyDrop { weight: Probability::ZERO, ..early }, ..good }, "weight"),
        (Params { early: EarlyDrop { sizing: Sizing::PerByte { mean: Bytes::ZERO }, ..early }, ..good }, "mean"),
    ] {
        assert_eq!(wrong.validate().unwrap_err().field, field);
    }
}

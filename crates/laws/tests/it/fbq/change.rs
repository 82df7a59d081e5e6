//! Changes of parameters while the shaper runs, and what a successor takes over.

use tidegate_core::Deadline;
use tidegate_core::fbq::ParamError;

use super::*;

fn mbit(rates: &[u64]) -> Vec<ClassParams> {
    rates.iter().map(|rate| ClassParams::new(Rate::from_mbit(*rate))).collect()
}
fn shaper(total: u64, rates: &[u64], profiles: Vec<Profile>) -> Shaper {
    Fbc::new(FbcParams::new(Rate::from_mbit(total)), mbit(rates), profiles, start()).unwrap()
}
fn rate_of(shaper: &Shaper, flow: u64) -> Rate {
    shaper.flow(flow).unwrap().rate
}

#[test]
fn the_defaults_are_as_documented() {
    let total = FbcParams::new(Rate::from_mbit(1));
    assert_eq!((total.burst.as_u64(), total.idle_timeout, total.max_flows), (3_028, Span::from_secs(10), 1_048_576));
    let class = ClassParams::new(Rate::from_mbit(1));
    assert_eq!([class.burst, class.flow_burst].map(Bytes::as_u64), [3_028; 2]);
    assert_eq!((class.limit.as_u64(), class.flow_limit.as_u64()), (1_000_000, 500_000));
    assert_eq!((class.priority, class.increment), (0, (1 << 32) / 10));
}

#[test]
fn parameters_are_checked_with_their_numbers() {
    let params = FbcParams::new(Rate::from_mbit(10));
    let error = |classes, profiles| Shaper::new(params, classes, profiles, start()).err();
    let mut classes = mbit(&[5, 5]);
    classes[1].burst = Bytes::ZERO;
    assert_eq!(error(classes, vec![]), Some(ParamError::ZeroBurst { class: 1 }));
    let displace = |below, to| Profile {
        minimum: Rate::from_mbit(2),
        displace: Some(Displace { below: Rate::from_mbit(below), to }),
        ..Profile::default()
    };
    assert_eq!(error(mbit(&[5, 5]), vec![displace(3, 1)]), None);
    assert_eq!(error(mbit(&[5, 5]), vec![displace(3, 2)]), Some(ParamError::NoSuchTarget { profile: 0 }));
    assert_eq!(error(mbit(&[5, 5]), vec![displace(2, 1)]), Some(ParamError::ThresholdBelowMinimum { profile: 0 }));
    // A packet of a class that does not exist is dropped.
    let mut shaper = shaper(10, &[10], vec![]);
    shaper.enqueue(start(), TestPacket::new(0, 1, 100).in_class(1), &mut Discard);
    assert_eq!((shaper.backlog().packets, shaper.class(ClassId(1))), (0, None));
}

#[test]
fn rates_are_exchanged_in_either_direction_and_never_exceed_the_total() {
    for (before, after) in [([3, 7], [7, 3]), ([7, 3], [3, 7])] {
        let mut shaper = shaper(10, &before, vec![]);
        for class in 0..2 {
            shaper.enqueue(start(), TestPacket::new(0, class, 1_000).in_class(class as u32), &mut Discard);
        }
        shaper.change(start(), FbcParams::new(Rate::from_mbit(10)), &mbit(&after), vec![]).unwrap();
        assert_eq!([0, 1].map(|flow| rate_of(&shaper, flow)), after.map(Rate::from_mbit));
    }
    let mut shaper = shaper(10, &[4, 4], vec![]);
    let rates = |shaper: &Shaper| shaper.classes().map(|class| class.rate).collect::<Vec<_>>();
    assert!(!shaper.set_class_rate(start(), ClassId(1), Rate::from_mbit(7)));
    assert!(!shaper.set_class_rate(start(), ClassId(2), Rate::from_mbit(1)));
    assert_eq!(rates(&shaper), [4, 4].map(Rate::from_mbit));
    assert!(shaper.set_class_rate(start(), ClassId(1), Rate::from_mbit(6)));
    assert_eq!(rates(&shaper), [4, 6].map(Rate::from_mbit));
    assert!(!shaper.set_rate(start(), Rate::from_mbit(9)));
    assert!(shaper.set_rate(start(), Rate::from_mbit(10)));
}

#[test]
fn a_changed_step_applies_to_preferred_flows() {
    let mut shaper = shaper(10, &[10], vec![]);
    for flow in 0..2 {
        shaper.enqueue(start(), TestPacket::new(0, flow, 1_000), &mut Discard);
    }
    shaper.prefer(start(), 0, 1).unwrap();
    assert!(rate_of(&shaper, 0).as_bps().abs_diff(6_000_000) < 1_000);
    let class = ClassParams { increment: (1 << 32) / 5, ..ClassParams::new(Rate::from_mbit(10)) };
    shaper.change(start(), FbcParams::new(Rate::from_mbit(10)), &[class], vec![]).unwrap();
    assert!(rate_of(&shaper, 0).as_bps().abs_diff(7_000_000) < 1_000);
}

#[test]
fn a_changed_profile_applies_to_flows_without_settings_of_their_own() {
    let minimum = |mbit| Profile { minimum: Rate::from_mbit(mbit), ..Profile::default() };
    let mut shaper = shaper(20, &[20], vec![minimum(1), minimum(2)]);
    for (flow, profile) in [(0, 0), (1, 0), (2, 1)] {
        shaper.enqueue(start(), TestPacket::new(0, flow, 1_000).with_profile(profile), &mut Discard);
    }
    shaper.set_minimum(start(), 1, Rate::from_mbit(4)).unwrap();
    shaper.set_minimum(start(), 2, Rate::from_mbit(5)).unwrap();
    let classes = mbit(&[20]);
    let total = FbcParams::new(Rate::from_mbit(20));
    shaper.change(start(), total, &classes, vec![minimum(3), minimum(2)]).unwrap();
    let minimums: Vec<_> = shaper.flows().map(|view| (view.key, view.minimum)).collect();
    assert_eq!(minimums, [(0, 3), (1, 4), (2, 5)].map(|(flow, minimum)| (flow, Rate::from_mbit(minimum))));
}

#[test]
fn a_successor_has_no_more_credit_than_there_was() {
    let mut old = shaper(8, &[4, 4], vec![]);
    for flow in 0..4 {
        old.enqueue(start(), TestPacket::new(0, flow, 1_000).in_class(flow as u32 % 2), &mut Discard);
    }
    old.dequeue(start(), &mut Discard).expect("due");
    let levels = |shaper: &Shaper, class| {
        let levels = shaper.levels(start(), ClassId(class)).expect("a class");
        [levels.class, levels.all].map(|level| level.bytes_floor().as_u64())
    };
    let left = [levels(&old, 0), levels(&old, 1)];
    assert_eq!(left, [[2_028, 2_028], [3_028, 2_028]]);
    let mut new = shaper(8, &[4, 4], vec![]);
    new.succeed(start(), &old, Some);
    assert_eq!([levels(&new, 0), levels(&new, 1)], left);
}

#[test]
fn compensation_of_lateness_can_be_set_and_outlasts_a_change() {
    for (catch_up, third) in [(0, 2_500), (1, 2_000)] {
        let class = ClassParams { burst: Bytes::new(1_000), ..ClassParams::new(Rate::from_mbit(8)) };
        let mut shaper = Shaper::new(FbcParams::new(Rate::from_mbit(8)), vec![class], vec![], start()).unwrap();
        shaper.set_catch_up(Span::from_millis(catch_up));
        shaper.change(start(), FbcParams::new(Rate::from_mbit(8)), &[class], vec![]).expect("the same parameters");
        for _ in 0..3 {
            shaper.enqueue(start(), TestPacket::new(0, 1, 1_000), &mut Discard);
        }
        // The second is due after 1 ms and leaves half a millisecond late.
        for micros in [0, 1_500] {
            shaper.dequeue(start() + Span::from_micros(micros), &mut Discard).expect("due");
        }
        let due = start() + Span::from_micros(third);
        assert_eq!(shaper.deadline(start() + Span::from_micros(1_500)), Deadline::At(due));
    }
}

#[test]
fn a_deadline_follows_the_rate_of_the_total() {
    let class = ClassParams { burst: Bytes::new(100_000), flow_burst: Bytes::new(100_000), ..mbit(&[4])[0] };
    let total = FbcParams { burst: Bytes::new(1_000), ..FbcParams::new(Rate::from_mbit(4)) };
    let mut shaper = Shaper::new(total, vec![class], vec![], start()).unwrap();
    for flow in 0..2 {
        shaper.enqueue(start(), TestPacket::new(0, flow, 1_000), &mut Discard);
    }
    shaper.dequeue(start(), &mut Discard).expect("due");
    assert_eq!(shaper.deadline(start()), Deadline::At(start() + Span::from_millis(2)));
    assert!(shaper.set_rate(start(), Rate::from_mbit(8)));
    assert_eq!(shaper.deadline(start()), Deadline::At(start() + Span::from_millis(1)));
}

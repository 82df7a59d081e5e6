//! Terms of single flows, and rate that is held for future ones.

use super::*;

fn mbit(n: u64) -> Rate {
    Rate::from_mbit(n)
}
/// One class of 10 Mbit/s with a packet of each of `flows`.
fn shaper(flows: u64) -> Shaper {
    let mut shaper = Fbc::new(FbcParams::new(mbit(10)), vec![ClassParams::new(mbit(10))], vec![], start()).unwrap();
    for flow in 1..=flows {
        shaper.enqueue(start(), TestPacket::new(0, flow, 1_000), &mut Discard);
    }
    shaper
}
fn minimum(n: u64) -> Terms {
    Terms { minimum: mbit(n), ..Terms::default() }
}

#[test]
fn held_rate_is_granted_to_no_flow_until_it_is_released() {
    let mut shaper = shaper(1);
    assert_eq!(shaper.hold(ClassId(1), mbit(1)), Err(Rate::ZERO));
    assert_eq!(shaper.hold(ClassId(0), mbit(11)), Err(mbit(10)));
    assert_eq!(shaper.hold(ClassId(0), mbit(10)), Ok(()));
    shaper.release(ClassId(0), mbit(4));
    assert_eq!(shaper.hold(ClassId(0), mbit(5)), Err(mbit(4)));
    assert_eq!(shaper.set_minimum(start(), 1, mbit(5)), Ok(Promise::Waiting { free: mbit(4) }));
    shaper.release(ClassId(0), mbit(6));
    // What waits is granted with the next operation.
    shaper.dequeue(start(), &mut Discard).expect("due");
    assert!(shaper.flow(1).unwrap().granted);
    assert_eq!(shaper.class(ClassId(0)).unwrap().unpromised, mbit(5));
}

#[test]
fn all_minimums_that_wait_are_granted_in_their_order() {
    let mut shaper = shaper(3);
    let minimums = [(1, 8), (2, 4), (3, 5)];
    for (flow, minimum) in minimums {
        shaper.set_minimum(start(), flow, mbit(minimum)).unwrap();
    }
    let granted = |shaper: &Shaper| minimums.map(|(flow, _)| shaper.flow(flow).unwrap().granted);
    assert_eq!(granted(&shaper), [true, false, false]);
    shaper.set_minimum(start(), 1, mbit(2)).unwrap();
    shaper.dequeue(start(), &mut Discard).expect("due");
    // 10 - 2 - 4 is less than 5.
    assert_eq!(granted(&shaper), [true, true, false]);
    shaper.set_minimum(start(), 1, Rate::ZERO).unwrap();
    shaper.dequeue(start(), &mut Discard).expect("due");
    assert!(granted(&shaper)[2]);
}

#[test]
fn terms_report_the_state_of_the_minimum_whether_it_changes_or_not() {
    let mut shaper = shaper(2);
    let mut set = |flow, terms| shaper.set_terms(start(), flow, terms).unwrap();
    let free = mbit(6);
    for _ in 0..2 {
        assert_eq!(set(1, Some(minimum(4))), Promise::Granted);
        assert_eq!(set(2, Some(minimum(7))), Promise::Waiting { free });
    }
    // All that is free.
    assert_eq!(set(2, Some(minimum(6))), Promise::Granted);
    assert_eq!(set(2, Some(Terms::default())), Promise::Granted);
    assert_eq!(set(2, None), Promise::Granted);
}

#[test]
fn steps_of_preference_come_and_go_with_the_terms() {
    let mut shaper = shaper(2);
    for (terms, steps) in [(Some(Terms { steps: 2, ..minimum(1) }), 2), (Some(minimum(1)), 0), (None, 0)] {
        shaper.set_terms(start(), 1, terms).unwrap();
        let view = shaper.flow(1).unwrap();
        assert_eq!((view.preferred, view.own), (steps, terms));
    }
}

/// The flows in the order in which their packets leave.
fn order(shaper: &mut Shaper) -> Vec<u64> {
    let mut now = start();
    let mut order = vec![];
    while let Some(due) = shaper.deadline(now).instant(now) {
        now = due;
        order.push(shaper.dequeue(now, &mut Discard).expect("due").flow.flow);
    }
    order
}

#[test]
fn a_flow_whose_weight_rises_is_served_by_it_at_once() {
    let mut shaper = shaper(0);
    for (flow, size) in [(1, 1_000), (2, 900)] {
        shaper.enqueue(start(), TestPacket::new(0, flow, size), &mut Discard);
    }
    // 1.5 times the weight: 1,000 / 1.5 is less than 900.
    shaper.prefer(start(), 1, 1).unwrap();
    assert_eq!(order(&mut shaper), [1, 2]);
}

#[test]
fn saved_tokens_are_kept_in_bytes_when_the_weight_changes() {
    for (steps, ahead) in [(0, 4), (1, 4)] {
        let mut shaper = shaper(1);
        let mut now = start();
        // After its packet the first flow saves 3,028 bytes, its bucket, while the second sends.
        for _ in 0..9 {
            shaper.enqueue(now, TestPacket::new(0, 2, 1_000), &mut Discard);
        }
        for _ in 0..10 {
            now = shaper.deadline(now).instant(now).expect("queued");
            shaper.dequeue(now, &mut Discard).expect("due");
        }
        for _ in 0..9 {
            shaper.enqueue(now, TestPacket::new(0, 1, 1_000), &mut Discard);
        }
        shaper.enqueue(now, TestPacket::new(0, 2, 1_000), &mut Discard);
        shaper.prefer(now, 1, steps).unwrap();
        let order = order(&mut shaper);
        assert_eq!(order.iter().position(|flow| *flow == 2), Some(ahead), "{steps} steps: {order:?}");
    }
}

#[test]
fn the_outlook_of_a_new_flow_counts_it_in() {
    let class = ClassParams { spare: Spare::Idle, ..ClassParams::new(mbit(10)) };
    let mut shaper = Shaper::new(FbcParams::new(mbit(10)), vec![class], vec![], start()).unwrap();
    for flow in [1, 2] {
        shaper.enqueue(start(), TestPacket::new(0, flow, 1_000), &mut Discard);
    }
    // A minimum of 4 is below a share of 5, and above one of 10/3; one of 7 is above both.
    for (minimum, second, third) in [(4, 5_000, 3_000), (7, 3_000, 1_500)] {
        shaper.set_minimum(start(), 1, mbit(minimum)).unwrap();
        assert_eq!(shaper.flow(2).unwrap().rate, kbit(second));
        assert_eq!(shaper.outlook(3, ClassId(0)), Some(kbit(third)));
    }
}

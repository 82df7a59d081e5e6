//! Ceilings beside classes that borrow with strict shares, whose time is not that of the ceilings.

use super::*;

fn strict(mbit: u64) -> ClassParams {
    ClassParams { spare: Spare::Idle, ..class(mbit, Ceilings::default()) }
}

/// Draws ceilings, or one class that borrows with strict shares and ceilings for the others.
fn draw_one_strict(random: &mut Stream, fair_by: FairBy) -> Drawn {
    let mut drawn = draw(random, fair_by);
    let chosen = random.below(4) as usize;
    if let Some(class) = drawn.classes.get_mut(chosen) {
        (class.spare, class.at_most) = (Spare::Idle, Ceilings::default());
        drawn.profiles[2].at_most = None;
    }
    drawn
}

#[test]
fn obey_the_laws_while_classes_begin_and_cease_to_borrow_with_strict_shares() {
    assert_laws(FairBy::Flow, draw_one_strict);
}

#[test]
fn ceilings_hold_beside_a_class_that_borrows_with_strict_shares() {
    let of_class = Ceilings { class: mbit(3), ..Ceilings::default() };
    let per_flow = Ceilings { flow: mbit(1), ..Ceilings::default() };
    let plain = class(2, Ceilings::default());
    let mut shaper = shaper(20, FairBy::Flow, &[strict(4), class(2, of_class), class(6, per_flow), plain], &[]);
    let mut now = start();
    let mut flows = vec![greedy(1, 1, 0, 0), greedy(2, 2, 0, 0), greedy(3, 3, 1, 0)];
    flows.extend([greedy(4, 4, 2, 0), greedy(5, 5, 2, 0)]);
    // With the last class idle, the 8 Mbit/s that nobody is guaranteed are divided 4:2:6, and only the first can use its part.
    let rates = run(&mut shaper, &mut now, 4, &flows);
    [1, 2].into_iter().for_each(|flow| assert_near(rates[&flow], 20_000 / 6));
    [(3, 3_000), (4, 1_000), (5, 1_000)].into_iter().for_each(|(flow, kbit)| assert_near(rates[&flow], kbit));
    assert_eq!(shaper.class(ClassId(0)).unwrap().held_by, None);
    assert_eq!(shaper.class(ClassId(1)).unwrap().held_by, Some(HeldBy::Class));
    assert_eq!(shaper.class(ClassId(2)).unwrap().held_by, Some(HeldBy::Flow));
    // The 6 Mbit/s that are left are divided 4:2:6:2. The last class borrows what those with ceilings cannot use as well.
    flows.push(greedy(6, 6, 3, 0));
    let rates = run(&mut shaper, &mut now, 4, &flows);
    [1, 2].into_iter().for_each(|flow| assert_near(rates[&flow], 20_000 / 7));
    [(3, 3_000), (4, 1_000), (5, 1_000)].into_iter().for_each(|(flow, kbit)| assert_near(rates[&flow], kbit));
    assert_near(rates[&6], 20_000 - 40_000 / 7 - 5_000);
}

/// The time of a class that borrows with strict shares runs up to ten times as fast here. Ceilings that it gets afterwards hold
/// in real time, and those that it loses leave no arrears.
#[test]
fn ceilings_replace_strict_borrowing_and_are_replaced_by_it() {
    let rule = |at_most| vec![Profile::default(), Profile { at_most, ..Profile::default() }];
    let per_flow = class(1, Ceilings { flow: mbit(1), ..Ceilings::default() });
    let of_class = class(1, Ceilings { class: mbit(4), ..Ceilings::default() });
    let both = class(1, Ceilings { class: mbit(3), flow: mbit(1), host: None });
    let plain = class(1, Ceilings::default());
    let never = ClassParams { borrow: Borrow::Never, ..of_class };
    let flows = [greedy(1, 1, 0, 1), greedy(2, 2, 0, 1), greedy(3, 3, 1, 0)];
    let mut shaper = shaper(20, FairBy::Flow, &[strict(1), plain], &rule(None));
    let mut now = start();
    for (first, of_rule, each, other) in [
        (strict(1), None, 5_000, 10_000),
        (per_flow, None, 1_000, 18_000),
        (strict(1), None, 5_000, 10_000),
        (both, None, 1_000, 18_000),
        (strict(1), None, 5_000, 10_000),
        (of_class, None, 2_000, 16_000),
        (strict(1), None, 5_000, 10_000),
        (plain, mbit(2), 1_000, 18_000),
        (strict(1), None, 5_000, 10_000),
        (never, None, 500, 19_000),
        (plain, None, 5_000, 10_000),
        (strict(1), None, 5_000, 10_000),
        (plain, None, 5_000, 10_000),
        (per_flow, mbit(1), 500, 19_000),
        (plain, None, 5_000, 10_000),
    ] {
        let before = shaper.backlog();
        shaper.change(now, FbcParams::new(Rate::from_mbit(20)), &[first, plain], rule(of_rule)).expect("valid");
        assert_eq!(shaper.backlog(), before);
        let rates = run(&mut shaper, &mut now, 2, &flows);
        assert_near(rates[&1], each);
        assert_near(rates[&2], each);
        assert_near(rates[&3], other);
    }
}

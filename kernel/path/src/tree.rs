//! The tree of CBQ as numbers for the program: `struct twin_cbq_options` of kernel/tree.h.

use std::ops::Range;

use tidegate_core::cbq::{
    Accounting, Borrow, Cbq, Conserving, Derivation, Finish, General, Heuristic, Lead, LinkClock, Regulation, Sharing,
};
use tidegate_core::{ClassId, Instant, Packet, Qdisc, Span};

use super::options::cbq_class_options::WORDS as CLASS;
use super::options::cbq_options::WORDS as HEAD;
use super::options::{CBQ_INNER, CBQ_LEAVES};

/// How many numbers a tree has.
pub const NUMBERS: usize = HEAD + (CBQ_LEAVES + CBQ_INNER) as usize * CLASS;
/// How many numbers a class has.
pub const CLASS_NUMBERS: usize = CLASS;

/// The place of a class among those of the program, where the first `leaves` numbers are of leaves and the last is of the root.
pub fn node(class: ClassId, leaves: u64) -> u64 {
    let number = u64::from(class.0);
    if number < leaves { number } else { CBQ_LEAVES + number - leaves }
}

/// A class as the program has it.
pub fn class_numbers<P: Packet, Q: Qdisc<P>>(cbq: &Cbq<P, Q>, class: ClassId, leaves: u64) -> [u64; CLASS] {
    let mut numbers = [0; CLASS];
    let (Some(params), Some(limits)) = (cbq.class(class), cbq.limits_of(class)) else { return numbers };
    let of_tree = [
        cbq.parent(class).map_or(0, |parent| node(parent, leaves) + 1),
        cbq.status(class, Instant::ZERO).map_or(0, |status| status.level.into()),
        u64::from(params.borrow == Borrow::FromParent),
        params.priority.into(),
        cbq.position(class).unwrap_or_default().into(),
    ];
    let all = of_tree.into_iter().chain(limits.numbers());
    numbers.iter_mut().zip(all).for_each(|(to, number)| *to = number);
    numbers
}

/// The tree as the program has it, whose `leaves` have the first numbers and whose root has the last. Leaves that it does not have are
/// vacant, and so are `vacant` more behind them, which have no number here. It makes up for lateness of `catch_up`.
pub fn numbers<P: Packet, Q: Qdisc<P>>(cbq: &Cbq<P, Q>, leaves: u64, vacant: u64, catch_up: Span) -> Vec<u64> {
    let params = cbq.params();
    let classes = params.root.0 + 1;
    let (gain, from_zero) = match params.accounting {
        Accounting::Bytes => (0, false),
        Accounting::IdleTime { gain, derivation } => (gain, derivation == Derivation::Ns2),
    };
    let (resets, clock_lead) = match params.link_clock {
        LinkClock::Reset(lead) => (true, lead),
        LinkClock::Clamp(lead) => (false, lead),
    };
    let mut numbers = vec![
        params.link.as_bps(),
        params.mtu.as_u64(),
        match params.sharing {
            Sharing::Formal => 0,
            Sharing::AncestorOnly => 1,
            Sharing::TopLevel(Heuristic::Floyd1995) => 2,
            Sharing::TopLevel(Heuristic::Altq) => 3,
        },
        u64::from(params.general == General::PacketRoundRobin),
        gain.into(),
        u64::from(from_zero),
        u64::from(params.finish == Finish::Expected),
        u64::from(params.regulation == Regulation::Sleep),
        match params.conserving {
            Conserving::Strict => 0,
            Conserving::Efficient => 1,
            Conserving::WhenLinkIdle => 2,
        },
        u64::from(resets),
        clock_lead.as_nanos(),
        match params.lead {
            Lead::Unbounded => 0,
            Lead::Within(lead) => lead.as_nanos().saturating_add(1),
        },
        catch_up.as_nanos(),
        params.default.map_or(0, |class| u64::from(class.0) + 1),
        leaves + vacant,
        u64::from(classes) - leaves,
    ];
    numbers.resize(NUMBERS, 0);
    for class in (0..classes).map(ClassId) {
        if let Some(place) = numbers.get_mut(words_of(node(class, leaves))) {
            place.copy_from_slice(&class_numbers(cbq, class, leaves));
        }
    }
    numbers
}

/// The words of a class.
pub(super) fn words_of(node: u64) -> Range<usize> {
    let at = HEAD + node as usize * CLASS;
    at..at + CLASS
}

/// Whether the program can change a tree of the numbers `before` to one of the numbers `after` while packets wait: they differ in
/// nothing but rates, limits, priorities and borrowing of classes, and the leaves of reservations.
pub(super) fn continues(before: impl Fn(usize) -> u64, after: &[u64], reserved: &Range<u64>) -> bool {
    use super::options::cbq_class_options::{BORROWS, PRIORITY, RATE};
    let reserved = words_of(reserved.start).start..words_of(reserved.end).start;
    let in_place = |at: usize| {
        let word = at.checked_sub(HEAD).map(|at| at % CLASS);
        word.is_some_and(|word| [BORROWS, PRIORITY].contains(&word) || word >= RATE) || reserved.contains(&at)
    };
    after.iter().enumerate().all(|(at, number)| in_place(at) || before(at) == *number)
}

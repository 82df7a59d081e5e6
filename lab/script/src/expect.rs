//! The expectations of a script.
//!
//! Expectations of order are evaluated one after the other: each one matches the departures (or drops) that follow
//! those matched by the one before. All others examine the whole log, or the state at their time.

use tidegate_config::Place;
use tidegate_core::{Bytes, Colour, Deadline, DropReason, Dscp, Ecn, Instant, Span};

use crate::log::clock;

mod check;

pub(crate) use check::{Checker, check_state};

/// A time window, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub(crate) from: Instant,
    pub(crate) to: Instant,
}

impl Window {
    pub(crate) const ALWAYS: Self = Self { from: Instant::ZERO, to: Instant::MAX };
    pub(crate) fn around(time: Instant, slack: Span) -> Self {
        Self { from: time.saturating_sub(slack), to: time + slack }
    }
    pub(crate) fn holds(&self, time: Instant) -> bool {
        self.from <= time && time <= self.to
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.from == self.to {
            write!(f, "at {}", clock(self.from))
        } else if self.to == Instant::MAX {
            write!(f, "from {}", clock(self.from))
        } else {
            write!(f, "from {} to {}", clock(self.from), clock(self.to))
        }
    }
}

/// An element of an expected order: any packet of a flow, or one by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Element {
    pub(crate) flow: usize,
    pub(crate) number: Option<u32>,
    pub(crate) place: Place,
}

/// An expected property of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fact {
    Leaves(Window),
    Dropped(Option<DropReason>, Window),
    Waits(Span, Span),
    Ecn(Ecn),
    Dscp(Dscp),
    Colour(Colour),
    Stays,
}

/// A quantity that is counted per flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counted {
    Left,
    LeftBytes,
    Dropped(Option<DropReason>),
    Marked,
    Rate,
}

/// An expected property of a class of CBQ in the sharing of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClassFact {
    /// Packets that it sent with borrowed rate.
    Borrowed(u64),
    /// Packets that classes below it sent with its rate.
    Lent(u64),
    /// Packets after which it was over its limit.
    Overlimit(u64),
    /// How often it was suspended.
    Regulated(u64),
    /// Its average idle time, from and to, in ns.
    Idle(i64, i64),
    /// The bytes that it may send at once, from and to.
    Credit(i64, i64),
    /// Its under-time; `None` while it is not over its limit.
    UnderTime(Option<Window>),
}

/// An expectation of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expect {
    Order {
        elements: Vec<Element>,
        window: Option<Window>,
    },
    Drops {
        elements: Vec<Element>,
        reason: Option<DropReason>,
        window: Option<Window>,
    },
    Packet {
        packet: Element,
        fact: Fact,
    },
    /// `None` means all flows.
    Count {
        flow: Option<usize>,
        what: Counted,
        low: u64,
        high: u64,
        window: Window,
    },
    Waits {
        flow: Option<usize>,
        low: Span,
        high: Span,
    },
    Nothing(Window),
    NothingElse,
    Backlog {
        packets: u64,
        bytes: Option<Bytes>,
    },
    Deadline(Deadline),
    Class {
        name: String,
        fact: ClassFact,
    },
}

/// An expectation and its place in the script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expectation {
    pub(crate) place: Place,
    pub(crate) expect: Expect,
}

impl Expectation {
    pub(crate) fn is_about_state(&self) -> bool {
        matches!(self.expect, Expect::Backlog { .. } | Expect::Deadline(_) | Expect::Class { .. })
    }
}

//! [`Decisions`]: makes the decisions of a recorded rate that follows the line again, and compares them.
//!
//! *Law*: a controller is a deterministic function of its calls, so that a controller of this version makes every recorded decision again,
//! with its time, rates, cause, delay and number of peers. If it does not, the first one that differs is reported. The comparison ends
//! where calls are missing.
//! *Cost*: that of the controller. Up to [`RECENT`] decisions are kept.

use std::collections::VecDeque;
use std::fmt;

use tidegate_autorate::calls::{Call, Decided};
use tidegate_autorate::{Controller, Decision, Side};
use tidegate_units::{Instant, Rate};

/// The number of decisions that are kept for each direction, the last ones.
pub const RECENT: usize = 20;

/// The first difference between a decision and the recorded one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The number of the call, from 0.
    pub call: u64,
    /// The time of the call.
    pub at: Instant,
    /// The direction.
    pub side: Side,
    /// The recorded decision; `None` if the rate was kept.
    pub recorded: Option<Decision>,
    /// The decision of this version.
    pub here: Option<Decision>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |decision: Option<Decision>| match decision {
            None => "no change".to_owned(),
            Some(Decision { from, to, cause, achieved, delay, peers, .. }) => {
                let delay = delay.map_or("unknown".to_owned(), |delay| delay.to_string());
                let carried = format!("{achieved} carried, delay {delay}, {peers} peers");
                format!("{from} to {to} ({}; {carried})", cause.name())
            }
        };
        let (side, at) = (self.side.name(), self.at);
        let (recorded, here) = (shown(self.recorded), shown(self.here));
        let seconds = at.as_nanos() as f64 / 1e9;
        write!(f, "call {} at {seconds:.3} s, {side}: {recorded} in the recording, {here} here", self.call)
    }
}

/// The result of making decisions again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All decisions are equal.
    Equal,
    /// Calls are missing from this number on; the decisions before it are equal.
    EqualUpTo(u64),
    /// They differ, for the first time as described.
    Different(Difference),
}

/// The decisions of a recording, made again.
#[derive(Clone, Debug)]
pub struct Decisions {
    controller: Controller,
    verdict: Verdict,
    /// The number of calls made, and of decisions that were compared.
    calls: u64,
    compared: u64,
    now: Instant,
    recent: [VecDeque<Decision>; 2],
}

impl Default for Decisions {
    fn default() -> Self {
        Self {
            controller: Controller::new([None; 2], Instant::ZERO),
            verdict: Verdict::Equal,
            calls: 0,
            compared: 0,
            now: Instant::ZERO,
            recent: [VecDeque::new(), VecDeque::new()],
        }
    }
}

impl Decisions {
    /// Makes call `number` again, and compares its decisions with `recorded`. After the first difference or gap nothing is done.
    pub(crate) fn call(&mut self, number: u64, call: &Call, recorded: &Decided) {
        if self.verdict != Verdict::Equal {
            return;
        }
        if number != self.calls {
            self.verdict = Verdict::EqualUpTo(self.calls);
            return;
        }
        self.calls += 1;
        if let Call::Start { now } | Call::RoundTrip { now, .. } | Call::Decide { now } = *call {
            self.now = self.now.max(now);
        }
        let here = self.controller.call(call);
        for side in Side::BOTH {
            let (recorded, here) = (recorded[side as usize], here[side as usize]);
            if recorded != here {
                let difference = Difference { call: number, at: self.now, side, recorded, here };
                self.verdict = Verdict::Different(difference);
                return;
            }
            if let Some(decision) = here {
                self.compared += 1;
                let recent = &mut self.recent[side as usize];
                if recent.len() == RECENT {
                    recent.pop_front();
                }
                recent.push_back(decision);
            }
        }
    }

    /// The result so far.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }
    /// The number of decisions that were compared and are equal.
    pub fn compared(&self) -> u64 {
        self.compared
    }
    /// Whether the recording has a rate that follows the line.
    pub fn is_empty(&self) -> bool {
        self.calls == 0 && self.verdict == Verdict::Equal
    }
    /// The controller after the last call.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }
    /// The time of the last call.
    pub fn now(&self) -> Instant {
        self.now
    }
    /// The last decisions of a direction, the latest at the end.
    pub fn recent(&self, side: Side) -> impl Iterator<Item = &Decision> {
        self.recent[side as usize].iter()
    }
    /// The allowed rate of a direction after the last call; `None` if it does not follow the line.
    pub fn allowed(&self, side: Side) -> Option<Rate> {
        self.controller.allowed(side)
    }
}

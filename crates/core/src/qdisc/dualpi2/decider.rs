//! The decider of DualPI2: its probabilities, signals and schedule, by integers alone.

use super::{Params, Scheduler};
use crate::codel::Action;
use crate::step::{ONE, mul_div_up};
use tidegate_units::{Bytes, Instant, Span};

/// The most updates that one call makes up for.
const MOST_UPDATES: u32 = 1_024;
/// The largest difference of delays that an update counts, five hours: so that the products fit 64 bits.
const MOST: u64 = 1 << 44;

/// The controller and the scheduler of both queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// The base probability p', times [`ONE`].
    base: u64,
    /// Its square, times [`ONE`] and rounded up.
    squared: u64,
    /// The delay at the last update.
    delay: Span,
    next_update: Instant,
    /// The likelihoods accumulated since the last signal, of each queue for itself: otherwise what arrives in step with another
    /// queue could be hit each time.
    low: Counts,
    sanctioned: Counts,
    classic: u64,
    /// The bytes that L has sent while C waited.
    credit: u64,
}

/// The likelihoods of marks and drops that have accumulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counts {
    marks: u64,
    drops: u64,
}

impl Counts {
    /// Decides by the likelihood of a mark, or under overload of a drop.
    fn decide(&mut self, mark: u64, drop: u64, overloaded: bool, scalable: bool) -> Action {
        if overloaded && recur(&mut self.drops, drop) {
            Action::Drop
        } else if scalable && (overloaded || recur(&mut self.marks, mark)) {
            Action::Signal
        } else {
            Action::Send
        }
    }
}

/// A queue that has packets, to the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// When its first packet arrived.
    pub arrived: Instant,
    /// The size of that packet.
    pub size: Bytes,
    /// Whether that packet is under sanction.
    pub sanctioned: bool,
}

impl State {
    /// A controller of empty queues, updated for the first time after `params.update`.
    pub fn new(params: &Params) -> Self {
        Self {
            base: 0,
            squared: 0,
            delay: Span::ZERO,
            next_update: Instant::ZERO + params.update,
            low: Counts::default(),
            sanctioned: Counts::default(),
            classic: 0,
            credit: 0,
        }
    }
    /// The base probability p', times [`ONE`].
    pub fn base(&self) -> u64 {
        self.base
    }
    /// The coupled probability of L, k p', at most [`ONE`].
    pub fn coupled(&self, params: &Params) -> u64 {
        (self.base * u64::from(params.coupling)).min(ONE)
    }
    /// The probability of C, the square of p'.
    pub fn squared(&self) -> u64 {
        self.squared
    }
    /// Whether the coupled probability is at its maximum, so that marks alone no longer control the queues.
    pub fn is_overloaded(&self, params: &Params) -> bool {
        self.coupled(params) == ONE
    }

    /// Makes the updates that were due by `now`; `oldest` is the arrival of the oldest packet in both queues.
    pub fn catch_up(&mut self, params: &Params, now: Instant, oldest: Option<Instant>) {
        for _ in 0..MOST_UPDATES {
            if !self.update_if_due(params, now, oldest) {
                break;
            }
        }
        self.skip_missed(params, now, oldest);
    }

    /// Makes the next update if it is due by `now`. Returns whether another may be, and would change more than the delay.
    fn update_if_due(&mut self, params: &Params, now: Instant, oldest: Option<Instant>) -> bool {
        if self.next_update > now {
            return false;
        }
        let before = self.delay;
        self.update(params, delay_at(self.next_update, oldest));
        self.next_update += params.update;
        // The probability is at an end towards which it moves.
        let at_rest = self.base == 0 && self.delay.is_zero() && before.is_zero();
        !(at_rest || self.base == ONE && self.delay > params.target && self.delay >= before)
    }

    /// Makes up for the updates that are due by `now` without going through each.
    fn skip_missed(&mut self, params: &Params, now: Instant, oldest: Option<Instant>) {
        if self.next_update > now {
            return;
        }
        let missed = now.since(self.next_update).as_nanos() / params.update.as_nanos() + 1;
        if oldest.is_none() {
            // Each takes off as much as the next.
            let error = u64::from(params.alpha) * params.target.as_nanos().min(MOST);
            self.set_base(self.base.saturating_sub(error.saturating_mul(missed)));
        }
        self.delay = delay_at(self.next_update + params.update.saturating_mul(missed - 1), oldest);
        self.next_update += params.update.saturating_mul(missed);
    }

    /// One update (RFC 9332, appendix A.1, `dualpi2_update`).
    pub fn update(&mut self, params: &Params, delay: Span) {
        let error = i64::from(params.alpha) * difference(delay, params.target)
            + i64::from(params.beta) * difference(delay, self.delay);
        // In thousandths per second times nanoseconds, which is 1/ONE: no update rounds.
        let change = error.unsigned_abs();
        self.set_base(if error > 0 {
            self.base.saturating_add(change).min(ONE)
        } else {
            self.base.saturating_sub(change)
        });
        self.delay = delay;
    }

    fn set_base(&mut self, base: u64) {
        if base != self.base {
            self.base = base;
            self.squared = mul_div_up(base, base, ONE);
        }
    }

    /// Decides on a packet that leaves L, where `native` is the likelihood by the delay of L and `scalable` whether the packet
    /// is of ECT(1) or CE (appendix A.2, `dualpi2_dequeue`).
    pub fn low_latency(&mut self, params: &Params, native: u64, scalable: bool) -> Action {
        let mark = native.max(self.coupled(params));
        self.low.decide(mark, self.squared, self.is_overloaded(params), scalable)
    }

    /// Decides on a packet that leaves C (appendix A.2, `dualpi2_dequeue`).
    pub fn classic(&mut self, params: &Params) -> Action {
        let squared = self.squared();
        if !recur(&mut self.classic, squared) {
            Action::Send
        } else if self.is_overloaded(params) {
            Action::Drop
        } else {
            Action::Signal
        }
    }

    /// Decides on a packet that leaves after a sanction: by the probability that its sender responds to.
    pub fn sanctioned(&mut self, params: &Params, scalable: bool) -> Action {
        if !scalable {
            return self.classic(params);
        }
        self.sanctioned.decide(self.coupled(params), self.squared, self.is_overloaded(params), true)
    }

    /// Decides on a packet whose flow was under sanction and is no more: as in L, by the delay of the packets under sanction. A scalable
    /// sender would otherwise keep as much queue as C has there, and never leave it.
    pub fn returning(&mut self, params: &Params, native: u64, scalable: bool) -> Action {
        let mark = native.max(self.coupled(params));
        self.sanctioned.decide(mark, self.squared, self.is_overloaded(params), scalable)
    }

    /// Whether the next packet is taken from L, and not from C (appendix A.1, `scheduler`).
    pub fn chooses_low(&self, params: &Params, low: Option<Head>, classic: Option<Head>) -> bool {
        let Some(low) = low else { return false };
        let Some(classic) = classic else { return true };
        if classic.sanctioned && low.arrived <= classic.arrived {
            // Its flow may have packets in L, and they must leave before.
            return true;
        }
        match params.scheduler {
            Scheduler::TimeShifted { shift } => low.arrived <= classic.arrived + shift,
            Scheduler::Weighted { parts } => self.credit < u64::from(parts - 1) * classic.size.as_u64(),
        }
    }

    /// A packet of `size` was taken from L or C, while the other queue has packets or not.
    pub fn took(&mut self, params: &Params, from_low: bool, size: Bytes, other_waits: bool) {
        match params.scheduler {
            Scheduler::TimeShifted { .. } => {}
            Scheduler::Weighted { parts } => {
                let bytes = size.as_u64();
                self.credit = if !other_waits {
                    0
                } else if from_low {
                    self.credit.saturating_add(bytes)
                } else {
                    self.credit.saturating_sub(u64::from(parts - 1) * bytes)
                };
            }
        }
    }
}

/// The delay at `instant` of a queue whose oldest packet arrived at `oldest`.
fn delay_at(instant: Instant, oldest: Option<Instant>) -> Span {
    match oldest {
        Some(arrived) => instant.since(arrived),
        None => Span::ZERO,
    }
}

/// Whether a signal is due when `likelihood` is added to `count` (appendix A.1, `recur`).
fn recur(count: &mut u64, likelihood: u64) -> bool {
    *count += likelihood;
    let due = *count >= ONE;
    if due {
        *count -= ONE;
    }
    due
}

/// `a - b` in nanoseconds, from `-MOST` to `MOST`.
fn difference(a: Span, b: Span) -> i64 {
    if a >= b {
        a.saturating_sub(b).as_nanos().min(MOST) as i64
    } else {
        0 - b.saturating_sub(a).as_nanos().min(MOST) as i64
    }
}

//! When the head of the queue is released: a shaper without its packets.
//!
//! *See also*: `kernel/`, where it is translated to C.

use super::curve::Curve;
use super::ear::Ear;
use crate::credit::{PER_BYTE, time_of, work};
use tidegate_units::{Bytes, Instant, Rate, Span};

/// When the head is released, and why then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Release {
    pub(super) at: Instant,
    /// T2 decides: the meter behind the shaper colours it green then.
    pub(super) by_green: bool,
}

/// The shaping rate and the debt of the packet that left last. No call has an earlier time than one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Schedule {
    pub(super) ear: Ear,
    /// The shaping rate since the last call.
    pub(super) rate: Rate,
    /// The rest of the debt of the last packet at `settled`, in bit·ns/s.
    debt: u128,
    settled: Instant,
    /// The instant up to which the debt is paid.
    paid_at: Instant,
    /// When the packet at the head became the head.
    pub(super) head_since: Instant,
}

impl Schedule {
    /// Without packets.
    pub(super) fn new(curve: &Curve) -> Self {
        Self {
            ear: Ear::default(),
            rate: curve.rate(Bytes::ZERO),
            debt: 0,
            settled: Instant::ZERO,
            paid_at: Instant::ZERO,
            head_since: Instant::ZERO,
        }
    }
    /// Reduces the debt by what the rate earned until `now`. To be called before the rate changes.
    pub(super) fn settle(&mut self, now: Instant) {
        if self.debt > 0 {
            let earned = work(self.rate.as_bps(), now.since(self.settled).as_nanos());
            if earned >= self.debt {
                self.paid_at = self.rate_schedule();
                self.debt = 0;
            } else {
                self.debt -= earned;
            }
        }
        self.settled = self.settled.max(now);
    }
    /// Notes a packet that arrives, whether it is queued or not. The rate is to be renewed then.
    pub(super) fn on_arrival(&mut self, now: Instant, size: Bytes, averaging: Span) {
        self.settle(now);
        self.ear.on_arrival(now, size, averaging);
    }
    /// Notes that a packet was queued, or that one left, and `occupancy` is queued now.
    pub(super) fn renew_rate(&mut self, curve: &Curve, occupancy: Bytes) {
        let least = curve.rate(occupancy);
        self.rate = self.ear.rate().max(least).min(curve.mir());
    }
    /// T1: when the packet before the head is paid for, if the rate does not change.
    fn rate_schedule(&self) -> Instant {
        if self.debt > 0 {
            // The rate is at least CIR, which is not zero, so the debt is paid in finite time.
            self.settled + time_of(self.debt, self.rate)
        } else {
            self.paid_at
        }
    }
    /// When the head is released, not before it became the head; the meter behind the shaper colours it green from `green` on.
    pub(super) fn release(&self, green: Option<Instant>) -> Release {
        let by_rate = self.rate_schedule().max(self.head_since);
        let Some(green) = green else {
            return Release { at: by_rate, by_green: false };
        };
        Release { at: green.min(by_rate), by_green: green < by_rate }
    }
    /// The head, of `size` bytes, leaves at `now`, which was to be released at `due`. Its bytes are owed from
    /// its release on, or from a little later when the caller is later than `slack`.
    pub(super) fn on_release(&mut self, now: Instant, due: Instant, size: Bytes, slack: Span) {
        self.head_since = now;
        self.debt = work(size.as_u64(), PER_BYTE);
        self.settled = due.max(now.saturating_sub(slack));
    }
}

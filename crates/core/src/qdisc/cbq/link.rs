//! The clock of the link: when the packets released so far are expected to have left it.
//!
//! *See also*: `kernel/`, where it is translated to C.

use super::estimator::Accounting;
use super::params::{Conserving, Lead, LinkClock, Params};
use crate::credit::{PER_BYTE, time_of, work};
use tidegate_units::{Bytes, Instant, Span};

/// When the packets released so far are expected to have left the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct LinkUse {
    /// Rounded up to a nanosecond.
    pub(super) free: Instant,
    /// The credit of the link that was unused before that instant, in bit·ns/s: less than its rate.
    rest: u64,
}

impl LinkUse {
    /// Charges the link for a packet that leaves at `now`; returns when it is expected to have left the link.
    pub(super) fn tick(&mut self, params: &Params, now: Instant, size: Bytes) -> Instant {
        self.idle_until(now.saturating_sub(params.catch_up));
        // Packets back to back share a nanosecond; rounding each up would slow down a fast link.
        let cost = work(size.as_u64(), PER_BYTE);
        let rest = u128::from(self.rest);
        let on_link = time_of(cost.saturating_sub(rest), params.link);
        let finish = self.free + on_link;
        // A clock that stops within the lead would never exceed it.
        let lead = match params.lead {
            Lead::Within(lead) => lead,
            Lead::Unbounded => Span::ZERO,
        };
        self.free = match params.link_clock {
            LinkClock::Reset(most) => {
                if finish > now + most {
                    now
                } else {
                    finish
                }
            }
            LinkClock::Clamp(most) => finish.min(now + most.max(lead + on_link)),
        };
        // The average idle time is in whole nanoseconds, and a class with the whole link must not run ahead of it.
        let in_bytes = match params.accounting {
            Accounting::Bytes => true,
            Accounting::IdleTime { .. } => false,
        };
        let sendable = work(params.link.as_bps(), on_link.as_nanos()) + rest;
        self.rest = if in_bytes && self.free == finish { sendable.saturating_sub(cost) as u64 } else { 0 };
        self.free
    }

    /// Sets the link idle until `until`, if that is later than its packets.
    pub(super) fn idle_until(&mut self, until: Instant) {
        if until > self.free {
            self.free = until;
            self.rest = 0;
        }
    }

    /// No packet is released before this instant.
    pub(super) fn earliest_release(&self, params: &Params) -> Instant {
        match params.lead {
            Lead::Unbounded => Instant::ZERO,
            Lead::Within(lead) => self.free.saturating_sub(lead),
        }
    }

    /// From when on a leaf may send although the guidelines allow none; `None` for never.
    pub(super) fn rescue_from(&self, params: &Params, now: Instant) -> Option<Instant> {
        match params.conserving {
            Conserving::Strict => None,
            Conserving::Efficient => Some(now),
            Conserving::WhenLinkIdle => Some(self.free),
        }
    }
}

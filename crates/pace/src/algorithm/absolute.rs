//! AT0, AT1: elapsed time is measured from the beginning of the transmission.
//!
//! *Law*: packet k is not sent before `start + bytes before it / R`, so what is sent by `t` is at most
//! `R * (t - start) + one packet`; and the schedule never drifts: it is exact however long it runs. After a gap
//! longer than its threshold AT1 never catches up.
//! *Source*: sections 5 to 7 of the paper, figures 11 and 13.
//! *Units*: the account is in bit·ns/s; the returned instant is rounded up to a nanosecond, the account is not.
//! *Cost*: O(1), one division per packet.
//! *Notes*: AT0 makes up for every delay at once, back to back, even after an hour without data: for files, not for
//! live data. [`BurstCap`](super::BurstCap) bounds the rate of catching up.
//! *Departures from the source, and why*: figure 13 swaps the two branches of `queue.isEmpty()`, and does not reset
//! `dataSent` with `start`. Here the gap is measured when the queue is empty, and a restart resets both, as in the
//! text.
//! *See also*: [`Pacer`](crate::Pacer), which has more bounds on catching up.

use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

use super::{Algorithm, ParamError, positive};
use crate::account::Account;

/// AT0: the absolute schedule. See the [module](self).
#[derive(Clone, Debug)]
pub struct At0 {
    account: Account,
}

impl At0 {
    /// Returns a schedule whose first packet may be sent at `start`.
    ///
    /// # Errors
    /// When `rate` is zero.
    pub fn new(rate: Rate, start: Instant) -> Result<Self, ParamError> {
        Ok(Self { account: Account::new(positive("rate", rate)?, start) })
    }
}

/// Discards unused credit; a debt remains.
fn restart(account: &mut Account, now: Instant) -> Instant {
    let debt = account.debt(now).max(Credit::ZERO);
    account.set_debt(now, debt);
    account.due()
}

impl Algorithm for At0 {
    fn next(&mut self, _now: Instant, size: Bytes) -> Instant {
        self.account.charge(size);
        self.account.due()
    }
    fn woke(&mut self, _now: Instant) -> Instant {
        self.account.due()
    }
    fn set_rate(&mut self, now: Instant, rate: Rate) -> Result<Instant, ParamError> {
        self.account.set_rate(now, positive("rate", rate)?);
        Ok(self.account.due())
    }
    fn rate(&self) -> Rate {
        self.account.rate()
    }
    fn resume(&mut self, now: Instant) -> Instant {
        restart(&mut self.account, now)
    }
}

/// AT1: AT0 that restarts after a gap in the data. See the [module](self).
#[derive(Clone, Debug)]
pub struct At1 {
    account: Account,
    threshold: Span,
}

impl At1 {
    /// The default threshold: 100 ms, longer than a scheduler delays a producer on a busy machine, and shorter than
    /// people notice as a burst.
    pub const THRESHOLD: Span = Span::from_millis(100);

    /// Returns a schedule whose first packet may be sent at `start`, and that restarts when the queue was empty for
    /// longer than `threshold`.
    ///
    /// # Errors
    /// When `rate` is zero.
    pub fn new(rate: Rate, threshold: Span, start: Instant) -> Result<Self, ParamError> {
        Ok(Self { account: Account::new(positive("rate", rate)?, start), threshold })
    }
}

impl Algorithm for At1 {
    fn next(&mut self, _now: Instant, size: Bytes) -> Instant {
        self.account.charge(size);
        self.account.due()
    }
    fn woke(&mut self, _now: Instant) -> Instant {
        self.account.due()
    }
    fn refilled(&mut self, since: Instant, now: Instant) {
        if now.since(since) > self.threshold {
            restart(&mut self.account, now);
        }
    }
    fn set_rate(&mut self, now: Instant, rate: Rate) -> Result<Instant, ParamError> {
        self.account.set_rate(now, positive("rate", rate)?);
        Ok(self.account.due())
    }
    fn rate(&self) -> Rate {
        self.account.rate()
    }
    fn resume(&mut self, now: Instant) -> Instant {
        restart(&mut self.account, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn after_a_gap_at0_catches_up_and_at1_does_not() {
        // 10 kB at 2 kB/s take 5 s; more data at 10 s.
        let rate = Rate::from_bytes_per_sec(2_000);
        let mut at0 = At0::new(rate, at(0)).unwrap();
        let mut at1 = At1::new(rate, At1::THRESHOLD, at(0)).unwrap();
        for algorithm in [&mut at0 as &mut dyn Algorithm, &mut at1] {
            assert_eq!(algorithm.next(at(0), Bytes::new(10_000)), at(5));
            algorithm.refilled(at(5), at(10));
        }
        assert_eq!(at0.next(at(10), Bytes::new(10_000)), at(10));
        assert_eq!(at1.next(at(10), Bytes::new(10_000)), at(15));
        assert_eq!(at0.resume(at(20)), at(20));
        assert_eq!(at0.next(at(20), Bytes::new(2_000)), at(21));
    }

    #[test]
    fn a_restart_forgives_no_debt() {
        let mut at1 = At1::new(Rate::from_bytes_per_sec(1_000), Span::ZERO, at(0)).unwrap();
        assert_eq!(at1.next(at(0), Bytes::new(5_000)), at(5));
        at1.refilled(at(0), at(1));
        assert_eq!(at1.next(at(1), Bytes::new(1_000)), at(6));
    }
}

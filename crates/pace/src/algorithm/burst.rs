//! The burst cap: limits every run of packets to a maximum rate.
//!
//! *Law*: for the packets `i .. k` sent at `t_i <= .. <= t_k`,
//! `s_i + .. + s_(k-1) <= allowance + R_max * (t_k - t_i)`, in any window.
//! *Source*: section 8 of the paper, figure 15.
//! *Units*: credit in bit·ns/s; the returned instant is rounded up.
//! *Cost*: O(1), one division per packet.
//! *Notes*: without an allowance, consecutive packets are at least S/R_max apart, and a coarse sleep may reduce the
//! rate below R: use an allowance of R_max times the granularity of the sleep.
//! *Departures from the source, and why*: figure 15 restarts the account only when the cap itself requested the
//! pause, and before that pause, so that the pause would be credited twice; the text restarts it after each sleep.
//! Even this lets a sender that was late (in `getPacket`, for example) send faster than R_max between two sleeps
//! until the account is even. Here credit beyond the allowance is discarded, so the law holds in any window. The
//! algorithm under the cap sees a pause as oversleep, and its policy decides how to make up for it; in the paper the
//! average rate decreases.

use tidegate_units::{Bytes, Credit, Instant, Rate};

use super::{Algorithm, ParamError, Wait, positive};

/// The account of a burst cap. See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BurstCap {
    rate: Rate,
    allowance: Credit,
    debt: Credit,
    settled: Instant,
}

impl BurstCap {
    /// Returns a cap of `rate` with a burst of `allowance` bytes, from `start` on.
    ///
    /// # Errors
    /// When `rate` is zero.
    pub fn new(rate: Rate, allowance: Bytes, start: Instant) -> Result<Self, ParamError> {
        let allowance = Credit::of(allowance);
        Ok(Self { rate: positive("burst rate", rate)?, allowance, debt: Credit::ZERO - allowance, settled: start })
    }
    /// Charges a packet of `size` sent at `now`; returns the first instant at which the cap allows another.
    pub fn next(&mut self, now: Instant, size: Bytes) -> Instant {
        self.settle(now);
        self.debt += Credit::of(size);
        self.due()
    }
    /// The maximum rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }
    /// The bytes that may be sent at once.
    pub fn allowance(&self) -> Bytes {
        self.allowance.bytes_floor()
    }
    /// Sets another maximum from `now` on; the present credit is kept, within the new allowance.
    ///
    /// # Errors
    /// When `rate` is zero; the cap is then unchanged.
    pub fn set(&mut self, now: Instant, rate: Rate, allowance: Bytes) -> Result<(), ParamError> {
        let rate = positive("burst rate", rate)?;
        self.settle(now);
        self.rate = rate;
        self.allowance = Credit::of(allowance);
        self.debt = self.debt.max(Credit::ZERO - self.allowance);
        Ok(())
    }
    /// The first instant at which the cap allows a packet; an instant that is not after now means at once.
    pub fn due(&self) -> Instant {
        self.debt.time_at_ceil(self.rate).map_or(Instant::MAX, |wait| self.settled + wait)
    }
    /// Continues at `now` after the clock was set back from `last`.
    pub(crate) fn settle_and_rebase(&mut self, last: Instant, now: Instant) {
        self.settle(last);
        self.settled = now;
    }
    fn settle(&mut self, now: Instant) {
        let earned = self.rate.credit_in(now.since(self.settled));
        self.debt = (self.debt - earned).max(Credit::ZERO - self.allowance);
        self.settled = self.settled.max(now);
    }
}

/// Any algorithm under a [`BurstCap`].
#[derive(Clone, Debug)]
pub struct Capped<A> {
    inner: A,
    cap: BurstCap,
    /// The result of the inner algorithm, while only the cap makes the sender wait.
    inner_waits: bool,
}

impl<A: Algorithm> Capped<A> {
    /// Limits `inner` by `cap`.
    pub fn new(inner: A, cap: BurstCap) -> Self {
        Self { inner, cap, inner_waits: false }
    }
    /// The algorithm under the cap.
    pub fn inner(&self) -> &A {
        &self.inner
    }
    /// The cap.
    pub fn cap(&self) -> &BurstCap {
        &self.cap
    }
    /// Sets another cap from `now` on.
    ///
    /// # Errors
    /// When `rate` is zero; the cap is then unchanged.
    pub fn set_cap(&mut self, now: Instant, rate: Rate, allowance: Bytes) -> Result<(), ParamError> {
        self.cap.set(now, rate, allowance)
    }
}

impl<A: Algorithm> Algorithm for Capped<A> {
    fn next(&mut self, now: Instant, size: Bytes) -> Instant {
        let due = self.inner.next(now, size);
        self.inner_waits = due > now;
        due.max(self.cap.next(now, size))
    }
    fn woke(&mut self, now: Instant) -> Instant {
        // A pause that the inner algorithm did not request is not a sleep to it, but part of its next send time.
        let inner = if self.inner_waits { self.inner.woke(now) } else { now };
        self.inner_waits = inner > now;
        inner.max(self.cap.due())
    }
    fn refilled(&mut self, since: Instant, now: Instant) {
        self.inner.refilled(since, now);
    }
    fn set_rate(&mut self, now: Instant, rate: Rate) -> Result<Instant, ParamError> {
        Ok(self.inner.set_rate(now, rate)?.max(self.cap.due()))
    }
    fn rate(&self) -> Rate {
        self.inner.rate()
    }
    fn resume(&mut self, now: Instant) -> Instant {
        self.inner_waits = false;
        self.inner.resume(now).max(self.cap.due())
    }
    fn plan(&mut self, now: Instant, due: Instant) -> Wait {
        self.inner.plan(now, due)
    }
    fn waited(&mut self, wait: Wait, from: Instant, now: Instant) {
        self.inner.waited(wait, from, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::At0;
    use tidegate_units::Span;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Span::from_millis(n)
    }

    #[test]
    fn at0_catches_up_at_the_cap() {
        // 1000 B at 100 kB/s, at most 200 kB/s: one every 10 ms, every 5 ms when late.
        let cap = BurstCap::new(Rate::from_bytes_per_sec(200_000), Bytes::ZERO, ms(0)).unwrap();
        let mut capped = Capped::new(At0::new(Rate::from_bytes_per_sec(100_000), ms(0)).unwrap(), cap);
        assert_eq!(capped.next(ms(0), Bytes::new(1000)), ms(10));
        assert_eq!(capped.next(ms(32), Bytes::new(1000)), ms(37));
        assert_eq!(capped.next(ms(37), Bytes::new(1000)), ms(42));
        assert_eq!(capped.next(ms(42), Bytes::new(1000)), ms(47));
        assert_eq!(capped.next(ms(47), Bytes::new(1000)), ms(52));
        // The sixth packet, at 52 ms, has caught up at 60 ms.
        assert_eq!(capped.next(ms(52), Bytes::new(1000)), ms(60));
    }

    #[test]
    fn the_allowance_goes_at_once_and_comes_back_at_the_rate() {
        let mut cap = BurstCap::new(Rate::from_bytes_per_sec(1_000_000), Bytes::new(2_000), ms(0)).unwrap();
        assert_eq!(cap.next(ms(5), Bytes::new(1_000)), ms(5));
        assert_eq!(cap.next(ms(5), Bytes::new(1_000)), ms(5));
        assert_eq!(cap.next(ms(5), Bytes::new(1_000)), ms(6));
        assert_eq!(cap.allowance(), Bytes::new(2_000));
    }
}

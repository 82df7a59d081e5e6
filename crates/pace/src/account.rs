//! The exact absolute account: bytes sent against credit earned at the rate.

use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

/// The account of the bytes sent since `anchor`, which are paid for at `rate`. Only the returned instants are rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Account {
    rate: Rate,
    anchor: Instant,
    /// Sent since the anchor; negative when credit was left at a settlement.
    sent: Credit,
}

impl Account {
    /// Returns an account with nothing sent at `now`. `rate` must be above zero.
    pub(crate) fn new(rate: Rate, now: Instant) -> Self {
        debug_assert!(!rate.is_zero(), "validated by the caller");
        Self { rate, anchor: now, sent: Credit::ZERO }
    }
    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }
    /// Charges `size`.
    pub(crate) fn charge(&mut self, size: Bytes) {
        self.sent += Credit::of(size);
        // Moves the anchor, exactly, so that the division in `due` stays in 64 bits.
        if self.sent.as_raw() > 1 << 62 {
            let whole = (self.sent.as_raw() as u128 / u128::from(self.rate.as_bps())).min(u128::from(u64::MAX));
            let whole = Span::from_nanos(whole as u64);
            self.anchor += whole;
            self.sent -= self.rate.credit_in(whole);
        }
    }
    /// The debt at `now`: bytes sent and not yet paid for. Negative when the sender is behind.
    pub(crate) fn debt(&self, now: Instant) -> Credit {
        let earned = self.rate.credit_in(now.since(self.anchor)) - self.rate.credit_in(self.anchor.since(now));
        self.sent - earned
    }
    /// The first instant at which everything sent is paid for.
    pub(crate) fn due(&self) -> Instant {
        if self.sent >= Credit::ZERO {
            // The time exists unless it is beyond `Instant::MAX`: then the result is never.
            return self.sent.time_at_ceil(self.rate).map_or(Instant::MAX, |wait| self.anchor + wait);
        }
        let ahead = self.sent.as_raw().unsigned_abs() / u128::from(self.rate.as_bps());
        self.anchor.saturating_sub(Span::from_nanos(u64::try_from(ahead).unwrap_or(u64::MAX)))
    }
    /// Sets the debt at `now`.
    pub(crate) fn set_debt(&mut self, now: Instant, debt: Credit) {
        (self.anchor, self.sent) = (now, debt);
    }
    /// Sets the rate from `now` on; the debt in bytes does not change.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Rate) {
        debug_assert!(!rate.is_zero(), "validated by the caller");
        let debt = self.debt(now);
        self.set_debt(now, debt);
        self.rate = rate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_drift_however_long() {
        // 1400 B at 7 Mbit/s is 1.6 ms exactly; 10^7 of them are 16,000 s, and the anchor has moved many times.
        let mut account = Account::new(Rate::from_mbit(7), Instant::ZERO);
        for _ in 0..10_000_000 {
            account.charge(Bytes::new(1400));
        }
        assert_eq!(account.due(), Instant::ZERO + Span::from_secs(16_000));
        // 1 B at 3 bit/s is 2.666.. s; three million of them are 8,000,000 s with no remainder.
        let mut account = Account::new(Rate::from_bps(3), Instant::ZERO);
        for _ in 0..3_000_000 {
            account.charge(Bytes::new(1));
        }
        assert_eq!(account.due(), Instant::ZERO + Span::from_secs(8_000_000));
    }

    #[test]
    fn a_change_of_rate_keeps_the_debt_in_bytes() {
        let mut account = Account::new(Rate::from_kbit(8), Instant::ZERO);
        account.charge(Bytes::new(2_000));
        // One second earns 1000 B; the other 1000 B take 0.1 s at ten times the rate.
        let second = Instant::ZERO + Span::from_secs(1);
        account.set_rate(second, Rate::from_kbit(80));
        assert_eq!(account.due(), second + Span::from_millis(100));
        // Two seconds later 19,000 B are missing: 1.9 s at 10 kB/s.
        let later = second + Span::from_secs(2);
        assert_eq!(account.debt(later), Credit::ZERO - Credit::of(Bytes::new(19_000)));
        account.set_debt(later, account.debt(later));
        assert_eq!(account.due(), second + Span::from_millis(100));
    }
}

//! The exact absolute account: what was sent against what the rate has earned.

use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

/// What was sent since `anchor`, to be earned at `rate`. Nothing is rounded but the instants it tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Account {
    rate: Rate,
    anchor: Instant,
    /// Sent since the anchor; negative when credit was left at a settlement.
    sent: Credit,
}

impl Account {
    /// Nothing sent at `now`. `rate` is above zero.
    pub(crate) fn new(rate: Rate, now: Instant) -> Self {
        debug_assert!(!rate.is_zero(), "validated by whoever makes the account");
        Self { rate, anchor: now, sent: Credit::ZERO }
    }
    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }
    /// `size` more was sent.
    pub(crate) fn charge(&mut self, size: Bytes) {
        self.sent += Credit::of(size);
        // Move the anchor on, exactly, so that the division in `due` stays in 64 bits.
        if self.sent.as_raw() > 1 << 62 {
            let whole = (self.sent.as_raw() as u128 / u128::from(self.rate.as_bps())).min(u128::from(u64::MAX));
            let whole = Span::from_nanos(whole as u64);
            self.anchor += whole;
            self.sent -= self.rate.credit_in(whole);
        }
    }
    /// What is sent and not yet earned at `now`; negative when the sender is behind.
    pub(crate) fn debt(&self, now: Instant) -> Credit {
        let earned = self.rate.credit_in(now.since(self.anchor)) - self.rate.credit_in(self.anchor.since(now));
        self.sent - earned
    }
    /// The first instant at which everything sent is earned.
    pub(crate) fn due(&self) -> Instant {
        if self.sent >= Credit::ZERO {
            // Only beyond `Instant::MAX` is there no time: that is never.
            return self.sent.time_at_ceil(self.rate).map_or(Instant::MAX, |wait| self.anchor + wait);
        }
        let ahead = self.sent.as_raw().unsigned_abs() / u128::from(self.rate.as_bps());
        self.anchor.saturating_sub(Span::from_nanos(u64::try_from(ahead).unwrap_or(u64::MAX)))
    }
    /// Makes the debt at `now` be `debt`, whatever it was.
    pub(crate) fn set_debt(&mut self, now: Instant, debt: Credit) {
        (self.anchor, self.sent) = (now, debt);
    }
    /// Another rate from `now` on; what is owed stays owed, in bytes.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Rate) {
        debug_assert!(!rate.is_zero(), "validated by whoever calls");
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

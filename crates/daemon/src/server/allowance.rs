//! [`Allowance`]: the requests that a connection, or a user, may still make.

use std::time::{Duration, Instant};

/// Requests of a connection in a second, and in a burst.
pub const REQUESTS: u32 = 200;
/// Requests of one user who is not root, over all connections, in a second and in a burst.
pub const REQUESTS_OF_ONE: u32 = 400;

/// A token bucket of requests: a number of them a second, and as many in a burst.
#[derive(Debug)]
pub struct Allowance {
    rate: u32,
    remaining: u32,
    /// When `left` was right.
    updated: Instant,
}

impl Allowance {
    /// A full bucket of `rate` requests.
    pub fn new(rate: u32) -> Self {
        Self { rate, remaining: rate, updated: Instant::now() }
    }

    /// Returns when there will be a token, if there is none now.
    pub fn empty_until(&self, now: Instant) -> Option<Instant> {
        (self.remaining == 0 && self.gained(now) == 0).then(|| self.updated + self.each())
    }
    /// Whether no request was made for so long that none is remembered.
    pub fn is_full(&self, now: Instant) -> bool {
        self.remaining.saturating_add(self.gained(now)) >= self.rate
    }
    /// Takes a token, if there is one.
    pub fn take(&mut self, now: Instant) {
        let gained = self.gained(now);
        if self.remaining.saturating_add(gained) >= self.rate {
            (self.remaining, self.updated) = (self.rate, now);
        } else {
            (self.remaining, self.updated) = (self.remaining + gained, self.updated + self.each() * gained);
        }
        self.remaining = self.remaining.saturating_sub(1);
    }

    /// The time that a token takes.
    fn each(&self) -> Duration {
        Duration::from_secs(1) / self.rate
    }
    fn gained(&self, now: Instant) -> u32 {
        let gained = now.saturating_duration_since(self.updated).as_nanos() / self.each().as_nanos();
        u32::try_from(gained).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_a_second_has_may_come_at_once_and_then_one_after_the_other() {
        let (mut allowance, began) = (Allowance::new(100), Instant::now() + Duration::from_secs(1));
        for _ in 0..100 {
            assert_eq!(allowance.empty_until(began), None);
            allowance.take(began);
        }
        // One in 10 ms.
        assert_eq!(allowance.empty_until(began), Some(began + Duration::from_millis(10)));
        let later = began + Duration::from_millis(25);
        let taken =
            (0..).take_while(|_| allowance.empty_until(later).is_none().then(|| allowance.take(later)).is_some());
        assert_eq!(taken.count(), 2);
        assert!(!allowance.is_full(later) && allowance.is_full(later + Duration::from_secs(1)));
    }
}

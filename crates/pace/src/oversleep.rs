//! The oversleep of this machine, learned; and how much spinning may compensate it.

use tidegate_units::{Instant, Span};

use crate::algorithm::{ParamError, Wait};

/// The share of one core that may be used by spinning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpinBudget {
    permille: u16,
}

impl SpinBudget {
    /// No spinning: every wait is a sleep.
    pub const NONE: Self = Self { permille: 0 };
    /// A whole core: the last microseconds of every wait may be spun.
    pub const FULL: Self = Self { permille: 1000 };
    /// A quarter of a core: keeps 100 Mbit/s of 1400-byte packets within a few microseconds on a machine that
    /// oversleeps by 25 microseconds.
    pub const DEFAULT: Self = Self { permille: 250 };

    /// `permille` thousandths of a core.
    ///
    /// # Errors
    /// Above 1000.
    pub const fn permille(permille: u16) -> Result<Self, ParamError> {
        if permille > 1000 {
            return Err(ParamError { field: "spin budget", problem: "is more than a whole core" });
        }
        Ok(Self { permille })
    }
    /// Thousandths of a core.
    pub const fn as_permille(self) -> u16 {
        self.permille
    }
}

impl Default for SpinBudget {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Learns how late sleeps end, and splits a wait into a sleep that ends early enough and a spin.
///
/// *Law*: over any time `t`, spinning takes at most `budget * t + DEPTH`.
/// *Source*: the estimator is that of RFC 6298 for round trips: mean by 1/8, mean deviation by 1/4, mean plus four
/// deviations as the margin.
/// *Cost*: O(1), no division.
/// *Notes*: a single oversleep counts as at most [`LARGEST`](Self::LARGEST).
#[derive(Clone, Debug)]
pub struct Oversleep {
    mean: Span,
    deviation: Span,
    budget: SpinBudget,
    /// The spin time available, in thousandths of a nanosecond.
    purse: u64,
    filled: Instant,
}

impl Oversleep {
    /// The most that one oversleep counts: 100 us. On a machine with later sleeps longer spinning does not help: the
    /// scheduler takes the core away from a spinning thread.
    pub const LARGEST: Span = Span::from_micros(100);
    /// The most spin time that accumulates: 10 ms.
    pub const DEPTH: Span = Span::from_millis(10);
    /// The initial value: 60 us, a timer of Linux with its usual slack of 50 us.
    pub const FIRST: Span = Span::from_micros(60);

    /// Returns the initial state.
    pub fn new(budget: SpinBudget, start: Instant) -> Self {
        let purse = if budget == SpinBudget::NONE { 0 } else { Self::DEPTH.as_nanos() * 1000 };
        Self { mean: Self::FIRST, deviation: Span::ZERO, budget, purse, filled: start }
    }
    /// The learned margin: how long before the packet is due a sleep should end.
    pub fn margin(&self) -> Span {
        self.mean + self.deviation.saturating_mul(4)
    }
    /// The spin time available at `now`.
    pub fn spin_left(&self, now: Instant) -> Span {
        Span::from_nanos(self.purse_at(now) / 1000)
    }
    /// How to wait from `now` to `due`: first a sleep that ends early by the margin, as far as the budget permits
    /// spinning; then a spin.
    pub fn plan(&mut self, now: Instant, due: Instant) -> Wait {
        self.purse = self.purse_at(now);
        self.filled = self.filled.max(now);
        let gap = due.since(now);
        let affordable = Span::from_nanos(self.purse / 1000);
        let margin = self.margin().min(affordable);
        if margin.is_zero() {
            return Wait::Sleep(due);
        }
        // A sleep shorter than its oversleep is useless.
        if gap > margin { Wait::Sleep(due.saturating_sub(margin)) } else { Wait::Spin }
    }
    /// Learns from a plan: `wait` began at `from` and ended `now`.
    pub fn waited(&mut self, wait: Wait, from: Instant, now: Instant) {
        match wait {
            Wait::Sleep(until) if now >= until => self.learn(now.since(until)),
            // Woken early by a signal: no information about oversleep.
            Wait::Sleep(_) => {}
            Wait::Spin => {
                self.purse = self.purse_at(now).saturating_sub(now.since(from).as_nanos().saturating_mul(1000));
                self.filled = self.filled.max(now);
            }
        }
    }
    /// Continues at `now` after the clock was set back.
    pub(crate) fn rebase(&mut self, now: Instant) {
        self.filled = now;
    }
    fn learn(&mut self, late: Span) {
        let late = late.min(Self::LARGEST).as_nanos();
        let (mean, deviation) = (self.mean.as_nanos(), self.deviation.as_nanos());
        let error = late.abs_diff(mean);
        self.deviation = Span::from_nanos(deviation - deviation / 4 + error / 4);
        self.mean = Span::from_nanos(mean - mean / 8 + late / 8);
    }
    fn purse_at(&self, now: Instant) -> u64 {
        let earned = now.since(self.filled).as_nanos().saturating_mul(u64::from(self.budget.permille));
        self.purse.saturating_add(earned).min(Self::DEPTH.as_nanos() * 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Instant {
        Instant::ZERO + Span::from_micros(n)
    }

    #[test]
    fn learns_a_constant_oversleep() {
        let mut oversleep = Oversleep::new(SpinBudget::FULL, us(0));
        for _ in 0..200 {
            oversleep.waited(Wait::Sleep(us(100)), us(0), us(125));
        }
        // 25 us, and the rests of the divisions by 8 and 4: 8 ns of mean, four times 11 ns of deviation.
        assert!(oversleep.margin().as_nanos().abs_diff(25_000) <= 52, "{}", oversleep.margin());
        assert_eq!(oversleep.plan(us(0), us(1000)), Wait::Sleep(us(1000).saturating_sub(oversleep.margin())));
        assert_eq!(oversleep.plan(us(980), us(1000)), Wait::Spin);
    }

    #[test]
    fn spins_within_the_budget() {
        // A tenth of a core: after the accumulated 10 ms, 1 ms of spinning in 10 ms.
        let mut oversleep = Oversleep::new(SpinBudget::permille(100).unwrap(), us(0));
        oversleep.waited(Wait::Spin, us(0), us(10_000));
        assert_eq!(oversleep.spin_left(us(10_000)), Span::ZERO);
        assert_eq!(oversleep.plan(us(10_000), us(10_010)), Wait::Sleep(us(10_010)));
        assert_eq!(oversleep.spin_left(us(20_000)), Span::from_millis(1));
        assert_eq!(Oversleep::new(SpinBudget::NONE, us(0)).plan(us(0), us(1)), Wait::Sleep(us(1)));
        assert!(SpinBudget::permille(1001).is_err());
    }
}

//! The estimator: whether a class is over limit, and until when.
//!
//! *Law*: a class is over limit at `t` exactly when `t` is before its under-time. The under-time changes only when
//! the class is charged for a packet, regulated, or gets other parameters. With [`Accounting::Bytes`], the bytes `s_i
//! .. s_k` that a class sends without borrowing satisfy `s_i + .. + s_(k-1) <= depth + rate x (t_k - t_i)`.
//! *Source*: Floyd and Van Jacobson 1995, section 4 and appendix A, for the average idle time; Floyd, "Notes on
//! CBQ: setting parameters", 1996, for `maxidle` and `offtime`; Risso and Gevros 1999, section 6, for the two
//! finish times.
//! *Units*: idle time in ns, scaled by 2^gain: the average `a` is kept as `A = a 2^gain`, and one packet changes it
//! by `A <- A + idle - floor(A / 2^gain)`, which is `a <- a + (idle - a) / 2^gain` without losing the fraction. The
//! floor is off by less than 2^-gain ns of the average, towards more idle time.
//! *Cost*: one division per packet for each class on its path.
//!
//! # The idle time
//! For a class of rate `r` on a link of rate `B`, the idle time before a packet of `s` bytes that finishes at `f`,
//! after one that finished at `f'`, is `(f - f') - s/r`: negative when the class was faster than `r`. The average is
//! bounded above by `maxidle`, which bounds the burst after an idle period, and below by `minidle`, which bounds the
//! debt from borrowing. With `c = s/r - s/B`, `g = 1 - 2^-gain`:
//!
//! - `maxidle = c (1 - g^n) / g^n`: `n` = `max_burst` packets back to back use up the largest average;
//! - `offtime = c (1 + 2^gain (1 - g^(m-1)) / g^(m-1))`: after this suspension `m` = `min_burst` packets may be sent
//!   back to back, in the steady state;
//! - `minidle = -(s/r) 2^-gain`: one packet's time, in the scaled average, as in the implementation that the paper
//!   measured. It lets a class of packets larger than configured exceed its rate.
//!
//! All three use the configured packet size `s`, so a wrong one results in a wrong rate.

use super::Limits;
use crate::credit::{PER_BYTE, time_of, work};
use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

/// How the use of the link by a class is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accounting {
    /// The exponential average of the idle time, with a weight of 2^-`gain`: the original. Depends on the configured
    /// packet size.
    IdleTime {
        /// The weight is 2^-gain; 5 in the implementation that the paper measured, 4 in ns-2. From 1 to 12.
        gain: u8,
        /// Where the bounds and the start of the average come from.
        derivation: Derivation,
    },
    /// A credit in bytes, exact: the class's rate times time, less what it sent. Needs no packet size.
    Bytes,
}

/// Where the bounds of an average idle time, and its first value, come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Derivation {
    /// The implementation that the paper measured: all three bounds from the bursts, see the [module](self). A class starts
    /// with the largest average: `max_burst` packets pass at once.
    #[default]
    Altq,
    /// ns-2: `maxidle` as there, but at least `t (1 - g)` of a packet time `t` of the link (Floyd 1996, section 3); no
    /// `minidle`, so that what was borrowed is owed in full; and no `extradelay` unless it is given. A class starts with an
    /// average of zero, as if it had sent when it was made: what passes at once is what it was silent for since then.
    Ns2,
}

/// Bounds of the average idle time; `None` for those that follow from the bursts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IdleBounds {
    /// `maxidle`, unscaled.
    pub max: Option<Span>,
    /// How far below zero the average may fall: `minidle` without its sign, unscaled.
    pub min: Option<Span>,
    /// `offtime`, the `extradelay` of ns-2: how long a class that is regulated is suspended beyond its debt.
    pub off: Option<Span>,
}

impl IdleBounds {
    /// All from the bursts.
    pub const DERIVED: Self = Self { max: None, min: None, off: None };
}

/// The finish time from which the under-time of an overlimit class is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finish {
    /// When the packet left the scheduler: the paper's correction, and the 1995 paper.
    Actual,
    /// When it is expected to have left the link: the defect that the paper found. The class waits too long by the
    /// time of one packet, and by all that the driver holds.
    Expected,
}

/// The estimator's measure of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Estimate {
    /// The average idle time in ns; negative when the class was faster than its rate.
    IdleTime(i64),
    /// The credit in bit·ns/s.
    Bytes(Credit),
}

impl Estimate {
    /// The average idle time in ns, where that is the measure.
    pub fn idle_nanos(self) -> Option<i64> {
        match self {
            Self::IdleTime(idle) => Some(idle),
            Self::Bytes(_) => None,
        }
    }
    /// The credit in whole bytes, rounded down, where that is the measure.
    pub fn credit_bytes(self) -> Option<i64> {
        match self {
            Self::IdleTime(_) => None,
            Self::Bytes(credit) => {
                let bytes = credit.as_raw().div_euclid(Credit::of(Bytes::new(1)).as_raw());
                Some(i64::try_from(bytes).unwrap_or(if bytes < 0 { i64::MIN } else { i64::MAX }))
            }
        }
    }
}

/// One packet, as the estimator sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// The instant at which the packet left the scheduler.
    pub(super) now: Instant,
    /// When it is expected to have left the link.
    pub(super) finish: Instant,
    pub(super) size: Bytes,
    /// Whether the charged class used or lent its own allocation: the lender and its ancestors. Those below borrowed.
    pub(super) by_right: bool,
}

/// Far beyond every practical wait, in ns.
const FOREVER: u64 = (i64::MAX >> 16) as u64;

/// The nanoseconds of `bytes` at `rate`, rounded up; saturates far beyond every practical wait.
pub(super) fn nanos(rate: Rate, bytes: Bytes) -> i64 {
    time_of(work(bytes.as_u64(), PER_BYTE), rate).as_nanos().min(FOREVER) as i64
}

/// A span in ns; saturates.
fn signed(span: Span) -> i64 {
    span.as_nanos().min(i64::MAX as u64) as i64
}

/// The estimator of one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Estimator {
    pub(super) limits: Limits,
    /// The class is over limit before this instant.
    pub(super) under_time: Instant,
    /// By idle time: the scaled average, and when the last packet was expected to have left the link.
    average: i64,
    last: Option<Instant>,
    /// In bytes: how much less than the depth the credit is at an instant, in bit·ns/s. More than the depth is a debt.
    used: u128,
    at: Instant,
    /// The time of the last packet at the class's rate, which `offtime` replaces.
    last_packet: Span,
    regulated: bool,
}

impl Estimator {
    pub(super) fn new(limits: Limits, now: Instant) -> Self {
        let mut made = Self {
            limits,
            under_time: Instant::ZERO,
            average: 0,
            last: None,
            used: 0,
            at: now,
            last_packet: Span::ZERO,
            regulated: false,
        };
        made.begin(now);
        made
    }

    /// One that has measured this elsewhere, to read its estimate.
    pub(super) fn measured(limits: Limits, average: i64, used: u128, at: Instant) -> Self {
        Self { average, used, ..Self::new(limits, at) }
    }

    /// Begins the measure anew.
    fn begin(&mut self, now: Instant) {
        self.average = self.limits.max_idle;
        self.last = None;
        self.used = 0;
        self.at = now;
        match self.limits.accounting {
            Accounting::IdleTime { derivation, .. } => match derivation {
                Derivation::Altq => {}
                Derivation::Ns2 => {
                    self.average = 0;
                    self.last = Some(now);
                }
            },
            Accounting::Bytes => {}
        }
    }

    pub(super) fn estimate(&self, now: Instant) -> Estimate {
        match self.limits.accounting {
            Accounting::IdleTime { gain, .. } => Estimate::IdleTime(self.average >> gain),
            Accounting::Bytes => {
                Estimate::Bytes(Credit::from_raw(self.limits.depth as i128 - self.used_at(now) as i128))
            }
        }
    }

    /// How much less than the depth the credit is at `now`.
    fn used_at(&self, now: Instant) -> u128 {
        self.used.saturating_sub(work(self.limits.rate.as_bps(), now.since(self.at).as_nanos()))
    }

    /// Charges the class for a packet. Afterwards the class is over limit until `under_time`.
    pub(super) fn charge(&mut self, sent: Sent) {
        self.regulated = false;
        match self.limits.accounting {
            Accounting::IdleTime { gain, .. } => self.charge_idle_time(sent, u32::from(gain)),
            Accounting::Bytes => self.charge_bytes(sent),
        }
    }

    fn charge_idle_time(&mut self, sent: Sent, gain: u32) {
        let own = nanos(self.limits.rate, sent.size);
        self.last_packet = Span::from_nanos(own as u64);
        if let Some(last) = self.last {
            let gap = if sent.finish >= last {
                signed(sent.finish.since(last))
            } else {
                // The clock of expected finish times was set back.
                0 - signed(last.since(sent.finish))
            };
            let idle = gap.saturating_sub(own);
            let next = self.average.saturating_add(idle).saturating_sub(self.average >> gain);
            self.average = next.clamp(self.limits.min_idle, self.limits.max_idle);
        }
        self.last = Some(sent.finish);
        if self.average > 0 || (self.average == 0 && self.limits.whole_link) {
            self.under_time = Instant::ZERO;
            return;
        }
        let base = match self.limits.finish {
            Finish::Actual => sent.now,
            Finish::Expected => sent.finish,
        };
        // The next packet at this time brings the average to zero: its idle time is then (2^gain - 1) |a|, since
        // a (1 - 2^-gain) + idle 2^-gain = 0.
        let debt = self.average.unsigned_abs();
        self.under_time = base + self.last_packet + Span::from_nanos(debt - (debt >> gain));
    }

    fn charge_bytes(&mut self, sent: Sent) {
        let depth = self.limits.depth;
        let cost = work(sent.size.as_u64(), PER_BYTE);
        let before = self.used_at(sent.now);
        // Borrowed bytes need not be repaid, so they deepen no debt beyond one packet. Bytes that descendants send within
        // their own limits are paid in full; otherwise the class would lend what they have used.
        self.used = if sent.by_right { before + cost } else { (before + cost).min(before.max(depth + cost)) };
        self.at = sent.now;
        self.wait_for_credit();
    }

    /// The class is over limit until it has no debt.
    fn wait_for_credit(&mut self) {
        let depth = self.limits.depth;
        self.under_time =
            if self.used > depth { self.at + time_of(self.used - depth, self.limits.rate) } else { Instant::ZERO };
    }

    /// Regulates a class that is backlogged, over limit and may not borrow: it is suspended for at least its
    /// `offtime`. Returns whether anything changed.
    pub(super) fn regulate(&mut self) -> bool {
        if self.regulated {
            return false;
        }
        self.regulated = true;
        match self.limits.accounting {
            Accounting::IdleTime { .. } => {
                self.under_time += self.limits.off_time.saturating_sub(self.last_packet);
            }
            Accounting::Bytes => {
                let most = self.limits.depth - self.limits.resume;
                self.under_time = self.at + time_of(self.used.saturating_sub(most), self.limits.rate);
            }
        }
        true
    }

    /// Sets other parameters from `now` on. The use so far is kept, within the new bounds.
    pub(super) fn set_limits(&mut self, limits: Limits, now: Instant) {
        let used = self.used_at(now);
        let before = self.limits;
        self.limits = limits;
        match limits.accounting {
            Accounting::IdleTime { .. } => {
                match before.accounting {
                    Accounting::IdleTime { .. } => {
                        self.average = self.average.clamp(limits.min_idle, limits.max_idle);
                    }
                    Accounting::Bytes => self.begin(now),
                }
                // A class that gets more rate is not suspended for what its old rate owed: from now at most for the
                // longest suspension under the new parameters.
                let longest = limits.min_idle.unsigned_abs().min(1 << 60).saturating_mul(2);
                self.under_time = self.under_time.min(now + (Span::from_nanos(longest) + limits.off_time));
            }
            Accounting::Bytes => {
                match before.accounting {
                    Accounting::IdleTime { .. } => self.begin(now),
                    // The credit is kept, as far as the new depth allows.
                    Accounting::Bytes => self.used = (used + limits.depth).saturating_sub(before.depth),
                }
                self.at = now;
                self.wait_for_credit();
                self.regulated = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::Given;
    use super::*;

    fn given(accounting: Accounting) -> Given {
        // 1000 B packets on 8 Mbit/s take 1 ms; a class of 2 Mbit/s may send one each 4 ms: c = 3 ms.
        Given {
            link: Rate::from_mbit(8),
            rate: Rate::from_mbit(2),
            mtu: Bytes::new(1000),
            packet_size: Bytes::new(1000),
            max_burst: 4,
            min_burst: 2,
            accounting,
            finish: Finish::Actual,
            idle: IdleBounds::DERIVED,
        }
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn bursts_become_idle_times() {
        let limits = Limits::derive(&given(Accounting::IdleTime { gain: 1, derivation: Derivation::Altq }));
        // g = 1/2: maxidle = 3 ms (2^4 - 1) = 45 ms, scaled by 2; offtime = 3 ms (1 + 2 (2^1 - 1)) = 9 ms;
        // minidle = -(4 ms) in the scaled average.
        assert_eq!(limits.max_idle, 90 * MS as i64);
        assert_eq!(limits.off_time, Span::from_millis(9));
        assert_eq!(limits.min_idle, -4 * MS as i64);
    }

    #[test]
    fn bounds_of_ns_2_and_given_ones() {
        let of = |given: Given| {
            let limits = Limits::derive(&given);
            (limits.max_idle, limits.min_idle, limits.off_time)
        };
        let ns2 = given(Accounting::IdleTime { gain: 1, derivation: Derivation::Ns2 });
        // maxidle as before, no minidle, no extradelay; a class with all of the link has the packet time (1 ms) of Floyd's
        // lower bound.
        assert_eq!(of(ns2), (90 * MS as i64, i64::MIN >> 8, Span::ZERO));
        assert_eq!(of(Given { rate: Rate::from_mbit(8), ..ns2 }).0, MS as i64);
        let ms = |n| Some(Span::from_millis(n));
        let idle = IdleBounds { max: ms(7), min: ms(2), off: ms(11) };
        // Scaled by 2.
        assert_eq!(of(Given { idle, ..ns2 }), (14 * MS as i64, -4 * MS as i64, Span::from_millis(11)));
    }

    #[test]
    fn the_first_burst_is_that_of_the_derivation() {
        // Packets of 1 ms back to back, for a class with a quarter of the link: with the largest average four may pass
        // before it is over limit (max_burst), and from zero none.
        let burst = |derivation| {
            let accounting = Accounting::IdleTime { gain: 1, derivation };
            let mut estimator = Estimator::new(Limits::derive(&given(accounting)), Instant::ZERO);
            let mut at = Instant::from_nanos(0);
            for n in 0..20_u32 {
                at += Span::from_millis(1);
                estimator.charge(Sent { now: at, finish: at, size: Bytes::new(1000), by_right: true });
                if estimator.under_time > at {
                    return n;
                }
            }
            20
        };
        assert_eq!((burst(Derivation::Altq), burst(Derivation::Ns2)), (4, 0));
    }

    #[test]
    fn long_bursts_saturate() {
        // g = 1/2: the 2^256 of a burst of 256 packets exceeds every integer type, and 2^64 times 3 ms those used here.
        let limits = |max_burst, min_burst, gain| {
            Limits::derive(&Given {
                max_burst,
                min_burst,
                ..given(Accounting::IdleTime { gain, derivation: Derivation::Altq })
            })
        };
        for gain in 1..=12 {
            let (less, most) = (limits(64, 64, gain), limits(256, 256, gain));
            assert!(most.max_idle >= less.max_idle && most.off_time >= less.off_time, "{gain}");
        }
        let longest = i64::MAX >> 8;
        assert_eq!((limits(256, 256, 1).max_idle, limits(256, 256, 1).off_time.as_nanos()), (longest, longest as u64));
        // Values that fit do not change: 3 ms (1 + 2 (2^9 - 1)).
        assert_eq!(limits(10, 10, 1).off_time, Span::from_millis(3 * (1 + 2 * 511)));
    }

    #[test]
    fn the_average_is_used_up_by_the_burst() {
        let mut estimator = Estimator::new(
            Limits::derive(&given(Accounting::IdleTime { gain: 1, derivation: Derivation::Altq })),
            Instant::ZERO,
        );
        let at = |n: u64| Sent {
            now: Instant::from_nanos(n * MS),
            finish: Instant::from_nanos((n + 1) * MS),
            size: Bytes::new(1000),
            by_right: true,
        };
        // The first ends the idle period. Then A <- A - 3 - A/2: 90, 42, 18, 6, 0 (in ms): four packets back to back.
        for n in 0..4 {
            estimator.charge(at(n));
            assert_eq!(estimator.under_time, Instant::ZERO, "packet {n}");
        }
        estimator.charge(at(4));
        // The average is zero: at the limit, and the next packet is due one packet time of the class later.
        assert_eq!(estimator.under_time, Instant::from_nanos(8 * MS));
        // Regulated, it is suspended for offtime = 9 ms instead of the 4 ms of its packet.
        assert!(estimator.regulate());
        assert_eq!(estimator.under_time, Instant::from_nanos(13 * MS));
        assert!(!estimator.regulate(), "only once per packet");
    }

    #[test]
    fn more_rate_ends_a_rest_that_was_for_less() {
        let slow = Given {
            rate: Rate::from_bps(8_000),
            ..given(Accounting::IdleTime { gain: 1, derivation: Derivation::Altq })
        };
        let mut estimator = Estimator::new(Limits::derive(&slow), Instant::ZERO);
        for n in 0..6 {
            let now = Instant::from_nanos(n * MS);
            estimator.charge(Sent { now, finish: now + Span::from_millis(1), size: Bytes::new(1000), by_right: true });
        }
        estimator.regulate();
        // A packet per second: it is suspended for seconds.
        assert!(estimator.under_time > Instant::from_nanos(1_000 * MS));
        // At 2 Mbit/s a packet is 4 ms and offtime 9 ms: no longer than 2 x 4 + 9 ms.
        estimator.set_limits(
            Limits::derive(&given(Accounting::IdleTime { gain: 1, derivation: Derivation::Altq })),
            Instant::from_nanos(10 * MS),
        );
        assert_eq!(estimator.under_time, Instant::from_nanos(27 * MS));
    }

    #[test]
    fn the_expected_finish_time_waits_one_packet_more() {
        let mut actual = given(Accounting::IdleTime { gain: 1, derivation: Derivation::Altq });
        actual.max_burst = 1;
        let expected = Given { finish: Finish::Expected, ..actual };
        let under_time = |given: &Given| {
            let mut estimator = Estimator::new(Limits::derive(given), Instant::ZERO);
            for n in 0..3_u64 {
                estimator.charge(Sent {
                    now: Instant::from_nanos(n * MS),
                    finish: Instant::from_nanos((n + 1) * MS),
                    size: Bytes::new(1000),
                    by_right: true,
                });
            }
            estimator.under_time
        };
        // maxidle is 3 ms: A = 6, 0, -3 ms; the wait is 4 ms + 3 ms (1 - 1/2) from 2 ms, or from 3 ms.
        assert_eq!(under_time(&actual), Instant::from_nanos(7_500_000));
        assert_eq!(under_time(&expected), Instant::from_nanos(8_500_000));
    }

    #[test]
    fn bytes_are_exact_and_need_no_packet_size() {
        let mut estimator = Estimator::new(Limits::derive(&given(Accounting::Bytes)), Instant::ZERO);
        let sent = |now: u64, size: u64| Sent {
            now: Instant::from_nanos(now),
            finish: Instant::from_nanos(now),
            size: Bytes::new(size),
            by_right: true,
        };
        // The depth is 4000 B. After 4040 B at once, 40 B are owed: 320 bit at 2 Mbit/s, 160 us.
        estimator.charge(sent(0, 4000));
        assert_eq!(estimator.under_time, Instant::ZERO);
        estimator.charge(sent(0, 40));
        assert_eq!(estimator.under_time, Instant::from_nanos(160_000));
        // Regulated, it waits for one packet of 1000 B on top: 4 ms.
        assert!(estimator.regulate());
        assert_eq!(estimator.under_time, Instant::from_nanos(4_160_000));
        // Borrowing does not deepen the debt beyond the larger of the previous debt and the packet.
        estimator.charge(Sent { by_right: false, ..sent(0, 100) });
        estimator.charge(Sent { by_right: false, ..sent(0, 100) });
        assert_eq!(estimator.estimate(Instant::ZERO), Estimate::Bytes(Credit::ZERO - Credit::of(Bytes::new(100))));
        // A packet of a descendant within its own limits does.
        estimator.charge(sent(0, 100));
        assert_eq!(estimator.estimate(Instant::ZERO), Estimate::Bytes(Credit::ZERO - Credit::of(Bytes::new(200))));
    }
}

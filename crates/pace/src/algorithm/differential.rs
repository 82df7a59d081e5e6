//! DT0, DT1, DT2: durations are measured in each cycle.
//!
//! *Law*: the bytes sent by `t` are at most `R * (t - start) + one packet`; the transmit time S/R of each packet has
//! passed, asleep or sending, before the next is sent. DT1 and DT2 also reach `min(S/T, R)` with sleeps of any
//! granularity; DT0 does not.
//! *Source*: sections 2 and 4 of the paper, figures 3, 9 and 10.
//! *Units*: times are stored as the credit that the rate earns in them ([`Credit`]), so S/R is never rounded.
//! *Cost*: O(1); one multiplication and at most one division per packet.
//! *Notes*: after a gap in the data DT0 and DT1 continue as before (the gap is one long send time). DT2 takes it for lost
//! time and makes up for it; [`Dt2::live`] does not, as section 7 requires for data that is produced while it is sent.
//! *Departures from the source, and why*: three errors of the figures are corrected by the text. In figure 3 a
//! negative `sleepTime` would enter the next `sendTime` and carry the oversleep on without end; the formula of
//! section 2 has `max(S/R - T, 0)`, and only with that do the measurements of figure 7 follow (152 ms for 100 packets
//! of 500 bytes). In figure 9 `ostTime` is `lostTime`. In figure 10 `size` is never set to zero: it is charged once
//! here.
//! *See also*: [`At0`](super::At0), which needs no measuring.

use core::marker::PhantomData;

use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

use super::{Algorithm, ParamError, positive};

/// Measures elapsed time as credit since a mark, across changes of the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stopwatch {
    rate: Rate,
    mark: Instant,
    carried: Credit,
}

impl Stopwatch {
    fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, mark: now, carried: Credit::ZERO }
    }
    fn elapsed(&self, now: Instant) -> Credit {
        self.carried + self.rate.credit_in(now.since(self.mark))
    }
    fn restart(&mut self, now: Instant) {
        (self.mark, self.carried) = (now, Credit::ZERO);
    }
    fn set_rate(&mut self, now: Instant, rate: Rate) {
        self.carried = self.elapsed(now);
        (self.mark, self.rate) = (now, rate);
    }
    /// The time at which `need` more than now is earned.
    fn after(&self, now: Instant, need: Credit) -> Instant {
        need.time_at_ceil(self.rate).map_or(Instant::MAX, |wait| now + wait)
    }
}

/// The step of one of the algorithms when a packet is ready.
pub trait Cycle: Clone + core::fmt::Debug {
    /// The packet may be sent now, or at the end of a sleep that was begun.
    fn next(measured: &mut Measured, now: Instant, size: Bytes) -> Instant;
}

/// The measurements that DT0, DT1 and DT2 share.
#[derive(Clone, Debug)]
pub struct Measured {
    watch: Stopwatch,
    /// The time that the last cycle took beyond its sleep: the time of sending in DT0, lost time in DT1 and DT2.
    excess: Credit,
    /// The credit that the present sleep was requested for, and the reading of the watch at its beginning.
    asleep: Option<(Credit, Credit)>,
}

impl Measured {
    fn sleep(&mut self, now: Instant, need: Credit) -> Instant {
        self.asleep = Some((need, self.watch.elapsed(now)));
        self.watch.after(now, need)
    }
    /// The rest of the present sleep.
    fn owed(&self, now: Instant) -> Option<Credit> {
        self.asleep.map(|(asked, began)| asked - (self.watch.elapsed(now) - began))
    }
    /// Pays `need` out of the excess as far as possible; returns the rest, which must be slept.
    fn pay_back(&mut self, need: Credit) -> Credit {
        let paid = need.min(self.excess).max(Credit::ZERO);
        self.excess -= paid;
        need - paid
    }
}

/// An algorithm that measures durations in each cycle. See the [module](self).
#[derive(Clone, Debug)]
pub struct Differential<C> {
    measured: Measured,
    /// The longest time with an empty queue that counts as lost.
    threshold: Span,
    cycle: PhantomData<C>,
}

impl<C: Cycle> Differential<C> {
    /// Returns an algorithm whose first packet may be sent at `start`.
    ///
    /// # Errors
    /// When `rate` is zero.
    pub fn new(rate: Rate, start: Instant) -> Result<Self, ParamError> {
        let watch = Stopwatch::new(positive("rate", rate)?, start);
        let measured = Measured { watch, excess: Credit::ZERO, asleep: None };
        Ok(Self { measured, threshold: Span::MAX, cycle: PhantomData })
    }
}

impl Dt2 {
    /// DT2 for live data: when the queue was empty for longer than `threshold`, its measurement starts afresh, and
    /// neither the gap nor time that was lost before it is made up for. Section 7 of the paper requires this
    /// modification of DT2 as of AT0, whose modified form is [`At1`](super::At1).
    ///
    /// # Errors
    /// When `rate` is zero.
    pub fn live(rate: Rate, threshold: Span, start: Instant) -> Result<Self, ParamError> {
        Ok(Self { threshold, ..Self::new(rate, start)? })
    }
}

impl<C: Cycle> Algorithm for Differential<C> {
    fn next(&mut self, now: Instant, size: Bytes) -> Instant {
        C::next(&mut self.measured, now, size)
    }
    fn woke(&mut self, now: Instant) -> Instant {
        let measured = &mut self.measured;
        if let Some((asked, _)) = measured.asleep.take() {
            measured.excess = (measured.watch.elapsed(now) - asked).max(Credit::ZERO);
            measured.watch.restart(now);
        }
        now
    }
    fn refilled(&mut self, since: Instant, now: Instant) {
        if now.since(since) > self.threshold && self.measured.asleep.is_none() {
            self.measured.excess = Credit::ZERO;
            self.measured.watch.restart(now);
        }
    }
    fn set_rate(&mut self, now: Instant, rate: Rate) -> Result<Instant, ParamError> {
        self.measured.watch.set_rate(now, positive("rate", rate)?);
        Ok(self.measured.owed(now).map_or(now, |owed| self.measured.watch.after(now, owed)))
    }
    fn rate(&self) -> Rate {
        self.measured.watch.rate
    }
    fn resume(&mut self, now: Instant) -> Instant {
        let measured = &mut self.measured;
        if let Some(owed) = measured.owed(now).filter(|owed| *owed > Credit::ZERO) {
            return measured.watch.after(now, owed);
        }
        measured.excess = Credit::ZERO;
        measured.asleep = None;
        measured.watch.restart(now);
        now
    }
}

/// The naive algorithm of figure 3: the time of sending is deducted from the next sleep, and oversleep is lost.
pub type Dt0 = Differential<Figure3>;
/// DT1: oversleep is measured as lost time and repaid in later cycles, which sends about `n = R G / (S - R T)`
/// packets per wake-up. Figure 9.
pub type Dt1 = Differential<Figure9>;
/// DT2: one measurement per cycle, from wake-up to wake-up; it sleeps whenever there is no lost time to repay. Figure 10.
pub type Dt2 = Differential<Figure10>;

/// The cycle of [`Dt0`].
#[derive(Clone, Debug)]
pub enum Figure3 {}

impl Cycle for Figure3 {
    fn next(measured: &mut Measured, now: Instant, size: Bytes) -> Instant {
        let sleep = Credit::of(size) - measured.excess;
        if sleep > Credit::ZERO {
            return measured.sleep(now, sleep);
        }
        measured.excess = measured.watch.elapsed(now);
        measured.watch.restart(now);
        now
    }
}

/// The cycle of [`Dt1`].
#[derive(Clone, Debug)]
pub enum Figure9 {}

impl Cycle for Figure9 {
    fn next(measured: &mut Measured, now: Instant, size: Bytes) -> Instant {
        let due = Credit::of(size) - measured.watch.elapsed(now);
        measured.watch.restart(now);
        let need = measured.pay_back(due);
        if need <= Credit::ZERO { now } else { measured.sleep(now, need) }
    }
}

/// The cycle of [`Dt2`].
#[derive(Clone, Debug)]
pub enum Figure10 {}

impl Cycle for Figure10 {
    fn next(measured: &mut Measured, now: Instant, size: Bytes) -> Instant {
        let need = measured.pay_back(Credit::of(size));
        if need <= Credit::ZERO { now } else { measured.sleep(now, need) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Span::from_millis(n)
    }

    #[test]
    fn dt0_absorbs_once_and_loses_the_rest() {
        // 500 B at 100,000 B/s: 5 ms. Sent by 2 ms, sleep of 5 ms requested, awake at 20 ms: 13 ms too late.
        let mut dt0 = Dt0::new(Rate::from_bytes_per_sec(100_000), ms(0)).unwrap();
        assert_eq!(dt0.next(ms(2), Bytes::new(500)), ms(7));
        dt0.woke(ms(20));
        // The 15 ms that were not sleep exceed the whole next sleep ..
        assert_eq!(dt0.next(ms(22), Bytes::new(500)), ms(22));
        // .. and then only the 2 ms of the send count: 10 ms are lost for good.
        assert_eq!(dt0.next(ms(24), Bytes::new(500)), ms(27));
    }

    #[test]
    fn dt1_pays_back_to_the_last_nanosecond() {
        let mut dt1 = Dt1::new(Rate::from_bytes_per_sec(100_000), ms(0)).unwrap();
        // 5 ms - 2 ms: 3 ms of sleep, 15 ms too long.
        assert_eq!(dt1.next(ms(2), Bytes::new(500)), ms(5));
        dt1.woke(ms(20));
        // 15 ms pay for five cycles of 3 ms.
        for k in 1..=5 {
            assert_eq!(dt1.next(ms(20 + 2 * k), Bytes::new(500)), ms(20 + 2 * k));
        }
        assert_eq!(dt1.next(ms(32), Bytes::new(500)), ms(35), "seven packets by 35 ms: on schedule");
    }

    #[test]
    fn dt2_measures_from_wake_up_to_wake_up() {
        let mut dt2 = Dt2::new(Rate::from_bytes_per_sec(100_000), ms(0)).unwrap();
        // It sleeps the whole 5 ms although 2 ms have passed; from 0 to 20 ms that is 15 ms lost.
        assert_eq!(dt2.next(ms(2), Bytes::new(500)), ms(7));
        dt2.woke(ms(20));
        for k in 1..=3 {
            assert_eq!(dt2.next(ms(20 + 2 * k), Bytes::new(500)), ms(20 + 2 * k));
        }
        assert_eq!(dt2.next(ms(28), Bytes::new(500)), ms(33));
    }

    #[test]
    fn a_gap_is_lost_time_to_dt2_but_not_with_live_data() {
        // 1000 B at 100,000 B/s: 10 ms. The queue is empty from 10 ms to a second.
        let rate = Rate::from_bytes_per_sec(100_000);
        let mut published = Dt2::new(rate, ms(0)).unwrap();
        let mut live = Dt2::live(rate, Span::from_millis(100), ms(0)).unwrap();
        for dt2 in [&mut published, &mut live] {
            assert_eq!(dt2.next(ms(0), Bytes::new(1000)), ms(10));
            dt2.woke(ms(10));
            dt2.refilled(ms(10), ms(1000));
            // The second batch: a packet, and the sleep after it.
            assert_eq!(dt2.next(ms(1000), Bytes::new(1000)), ms(1010));
            dt2.woke(ms(1010));
        }
        // 990 ms were lost: the rest of the batch leaves back to back.
        assert_eq!(published.next(ms(1010), Bytes::new(1000)), ms(1010));
        assert_eq!(live.next(ms(1010), Bytes::new(1000)), ms(1020));
        // A gap within the threshold is lost time as any.
        live.woke(ms(1020));
        live.refilled(ms(1020), ms(1070));
        assert_eq!(live.next(ms(1070), Bytes::new(1000)), ms(1080));
        live.woke(ms(1080));
        assert_eq!(live.next(ms(1080), Bytes::new(1000)), ms(1080));
    }

    #[test]
    fn a_rate_change_while_asleep_keeps_what_was_earned() {
        for mut algorithm in [
            Box::new(Dt0::new(Rate::from_kbit(8), ms(0)).unwrap()) as Box<dyn Algorithm>,
            Box::new(Dt1::new(Rate::from_kbit(8), ms(0)).unwrap()),
            Box::new(Dt2::new(Rate::from_kbit(8), ms(0)).unwrap()),
        ] {
            // 1000 B at 1 kB/s; after 0.4 s ten times the rate: 600 B more are 60 ms.
            assert_eq!(algorithm.next(ms(0), Bytes::new(1000)), ms(1000));
            assert_eq!(algorithm.set_rate(ms(400), Rate::from_kbit(80)), Ok(ms(460)));
            assert!(algorithm.set_rate(ms(400), Rate::ZERO).is_err());
        }
    }
}

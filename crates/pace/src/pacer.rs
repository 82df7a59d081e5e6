//! The pacer: the recommended algorithm.
//!
//! *Law*: the bytes sent by `t` are at most the integral of the rate over the time not paused, plus one packet; no
//! window exceeds the burst cap (see [`BurstCap`]); the schedule is absolute and exact, so it never drifts; and it is
//! never further behind than the [`GapPolicy`] allows.
//! *Source*: the paper's AT0 and AT1 for the schedule, section 8 for the cap; RFC 6298 for the estimator of
//! [`Oversleep`].
//! *Units*: credit in bit·ns/s.
//! *Cost*: O(1); two divisions per packet, one without a cap.
//! *Notes*: intended for a clock that neither steps nor counts suspend (`CLOCK_MONOTONIC`). On another clock, a step
//! back costs the time between the last two readings, and a step forward (or a counted suspend) is a gap like any
//! other: the policy bounds what is made up for.
//! *Departures from the source, and why*: AT1 restarts only when the queue was empty. Here a sender that was
//! prevented from sending (by a blocking reader, a busy machine, a suspend) is late in the same way, and the same
//! policy applies.
//! *See also*: [`At0`](crate::At0), [`At1`](crate::At1): the schedule alone.
//!
//! ```
//! use tidegate_pace::{Algorithm, GapPolicy, Pacer, Params};
//! use tidegate_units::{Bytes, Instant, Rate, Span};
//!
//! let params = Params { gap: GapPolicy::Restart { after: Span::from_millis(50) }, ..Params::new(Rate::from_mbit(8)) };
//! let mut pacer = Pacer::new(params, Instant::ZERO)?;
//! // 1000 bytes at 8 Mbit/s: 1 ms.
//! assert_eq!(pacer.next(Instant::ZERO, Bytes::new(1000)), Instant::ZERO + Span::from_millis(1));
//! // Nothing to send for a second: the next packet starts a new schedule.
//! let later = Instant::ZERO + Span::from_secs(1);
//! assert_eq!(pacer.next(later, Bytes::new(1000)), later + Span::from_millis(1));
//! # Ok::<(), tidegate_pace::ParamError>(())
//! ```

use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

use crate::account::Account;
use crate::algorithm::{Algorithm, BurstCap, ParamError, Wait, positive};
use crate::oversleep::{Oversleep, SpinBudget};

/// The policy for a sender that is behind its schedule, because it had no data or could not send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapPolicy {
    /// When later than `after`, the schedule restarts and nothing is made up for. For live data.
    Restart {
        /// The largest lateness that is made up for.
        after: Span,
    },
    /// At most the last `within` of the missed time is made up for. For files, where the average counts.
    CatchUp {
        /// The longest time that is made up for.
        within: Span,
    },
    /// A packet that is later than `after` is dropped: the schedule continues as if it had been sent. For media,
    /// where a late packet is useless. An empty queue does not make packets late.
    DropLate {
        /// The largest lateness of a packet that is sent.
        after: Span,
    },
}

/// The burst cap of a [`Pacer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cap {
    /// No limit on catching up.
    Off,
    /// A multiple of the rate, following its changes, with a burst of `span`.
    Ratio {
        /// Percent of the rate, at least 100.
        percent: u32,
        /// The burst, as the time it takes at that rate.
        span: Span,
    },
    /// A rate and a burst in bytes.
    Fixed {
        /// The maximum rate of any run of packets.
        rate: Rate,
        /// The bytes that may be sent at once.
        allowance: Bytes,
    },
}

/// The parameters of a [`Pacer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The rate; above zero.
    pub rate: Rate,
    /// The policy for a late sender. Default: catch up within 1 s, because most people measure the average, and
    /// schedulers delay a process by less than a second.
    pub gap: GapPolicy,
    /// The limit on catching up. Default: four times the rate, with a burst of 1 ms: a sleep that is 1 ms late is
    /// made up for without sleeping less than a sleep can, and a sender that runs only a quarter of the time on a
    /// busy machine keeps its rate.
    pub cap: Cap,
    /// The share of a core for spinning. Default: a quarter.
    pub spin: SpinBudget,
}

impl Params {
    /// The defaults at `rate`.
    pub const fn new(rate: Rate) -> Self {
        Self {
            rate,
            gap: GapPolicy::CatchUp { within: Span::from_secs(1) },
            cap: Cap::Ratio { percent: 400, span: Span::from_millis(1) },
            spin: SpinBudget::DEFAULT,
        }
    }
    /// For data that is produced as it is sent: a gap of more than 100 ms restarts the schedule.
    pub const fn live(rate: Rate) -> Self {
        Self { gap: GapPolicy::Restart { after: crate::At1::THRESHOLD }, ..Self::new(rate) }
    }
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the field: the rate is zero, or the cap is below the rate.
    pub fn validate(self) -> Result<Self, ParamError> {
        positive("rate", self.rate)?;
        match self.cap {
            Cap::Off => {}
            Cap::Ratio { percent, .. } if percent < 100 => {
                return Err(ParamError {
                    field: "burst ratio",
                    problem: "is below 100 %, so the rate is never reached",
                });
            }
            Cap::Fixed { rate, .. } if rate < self.rate => {
                return Err(ParamError {
                    field: "burst rate",
                    problem: "is below the rate, which is then never reached",
                });
            }
            Cap::Ratio { .. } | Cap::Fixed { .. } => {}
        }
        Ok(self)
    }
    /// The cap in bytes: the rate and the burst.
    pub fn cap(&self) -> Option<(Rate, Bytes)> {
        match self.cap {
            Cap::Off => None,
            Cap::Fixed { rate, allowance } => Some((rate, allowance)),
            Cap::Ratio { percent, span } => {
                let bps = u128::from(self.rate.as_bps()) * u128::from(percent) / 100;
                let rate = Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX));
                Some((rate, rate.bytes_in_floor(span)))
            }
        }
    }
}

/// Whether a packet may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// At once.
    Send,
    /// Not before this instant.
    Wait(Instant),
    /// It is too late: drop it and continue with the next.
    Drop,
    /// Not before [`Pacer::resume`](Algorithm::resume).
    Paused,
}

/// The state of a pacer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// The rate.
    pub rate: Rate,
    /// Whether it is paused.
    pub paused: bool,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: Bytes,
    /// Packets dropped as too late.
    pub dropped: u64,
    /// How often the schedule was restarted, or shortened to the part that may be made up for.
    pub restarts: u64,
    /// How far it is behind its schedule.
    pub late: Span,
    /// The learned margin: how long before a packet is due a sleep ends.
    pub margin: Span,
}

/// The pacer. See the [module](self).
#[derive(Clone, Debug)]
pub struct Pacer {
    params: Params,
    account: Account,
    cap: Option<BurstCap>,
    oversleep: Oversleep,
    latest: Instant,
    /// The debt when it was paused.
    paused: Option<Credit>,
    packets: u64,
    bytes: Bytes,
    dropped: u64,
    restarts: u64,
}

impl Pacer {
    /// Returns a pacer whose first packet may be sent at `start`.
    ///
    /// # Errors
    /// Those of [`Params::validate`].
    pub fn new(params: Params, start: Instant) -> Result<Self, ParamError> {
        let params = params.validate()?;
        let cap = params.cap().map(|(rate, allowance)| BurstCap::new(rate, allowance, start)).transpose()?;
        Ok(Self {
            params,
            account: Account::new(params.rate, start),
            cap,
            oversleep: Oversleep::new(params.spin, start),
            latest: start,
            paused: None,
            packets: 0,
            bytes: Bytes::ZERO,
            dropped: 0,
            restarts: 0,
        })
    }
    /// Whether a packet of `size` may be sent at `now`. With [`Admission::Drop`] the packet has been counted and
    /// charged.
    pub fn admit(&mut self, now: Instant, size: Bytes) -> Admission {
        if self.paused.is_some() {
            return Admission::Paused;
        }
        self.settle(now);
        if let GapPolicy::DropLate { after } = self.params.gap
            && self.behind(now) > self.params.rate.credit_in(after)
        {
            self.account.charge(size);
            self.dropped += 1;
            return Admission::Drop;
        }
        let due = self.due();
        if due > now { Admission::Wait(due) } else { Admission::Send }
    }
    /// The first instant at which the next packet may be sent; one that is not after now means at once,
    /// [`Instant::MAX`] means paused.
    pub fn due(&self) -> Instant {
        if self.paused.is_some() {
            return Instant::MAX;
        }
        self.account.due().max(self.cap.map_or(Instant::ZERO, |cap| cap.due()))
    }
    /// Stops the schedule until [`resume`](Algorithm::resume).
    pub fn pause(&mut self, now: Instant) {
        if self.paused.is_none() {
            self.settle(now);
            self.paused = Some(self.account.debt(now));
        }
    }
    /// Sets other parameters from `now` on; a debt remains.
    ///
    /// # Errors
    /// Those of [`Params::validate`]; the parameters are then unchanged.
    pub fn set_params(&mut self, now: Instant, params: Params) -> Result<(), ParamError> {
        let params = params.validate()?;
        self.settle(now);
        self.account.set_rate(now, params.rate);
        match (&mut self.cap, params.cap()) {
            (Some(cap), Some((rate, allowance))) => cap.set(now, rate, allowance)?,
            (cap, Some((rate, allowance))) => *cap = Some(BurstCap::new(rate, allowance, now)?),
            (cap, None) => *cap = None,
        }
        if params.spin != self.params.spin {
            self.oversleep = Oversleep::new(params.spin, now);
        }
        self.params = params;
        Ok(())
    }
    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }
    /// The state at `now`.
    pub fn status(&self, now: Instant) -> Status {
        let late =
            if self.paused.is_some() { Some(Span::ZERO) } else { self.behind(now).time_at_ceil(self.params.rate) };
        Status {
            rate: self.params.rate,
            paused: self.paused.is_some(),
            packets: self.packets,
            bytes: self.bytes,
            dropped: self.dropped,
            restarts: self.restarts,
            late: late.unwrap_or(Span::MAX),
            margin: self.oversleep.margin(),
        }
    }

    /// The credit that was not used; negative while there is a debt.
    fn behind(&self, now: Instant) -> Credit {
        Credit::ZERO - self.account.debt(now)
    }
    /// Advances to `now`: corrects for a clock that was set back, and applies the policy to a gap.
    fn settle(&mut self, now: Instant) {
        if now < self.latest {
            // The debt of the last reading, from the new reading on.
            let debt = self.account.debt(self.latest);
            self.account.set_debt(now, debt);
            if let Some(cap) = &mut self.cap {
                cap.settle_and_rebase(self.latest, now);
            }
            self.oversleep.rebase(now);
        }
        self.latest = now;
        if self.paused.is_some() {
            return;
        }
        let (limit, left) = match self.params.gap {
            GapPolicy::Restart { after } => (after, Span::ZERO),
            GapPolicy::CatchUp { within } => (within, within),
            GapPolicy::DropLate { .. } => return,
        };
        if self.behind(now) > self.params.rate.credit_in(limit) {
            self.account.set_debt(now, Credit::ZERO - self.params.rate.credit_in(left));
            self.restarts += 1;
        }
    }
}

impl Algorithm for Pacer {
    fn next(&mut self, now: Instant, size: Bytes) -> Instant {
        self.settle(now);
        self.packets += 1;
        self.bytes += size;
        if let Some(debt) = &mut self.paused {
            *debt += Credit::of(size);
        }
        self.account.charge(size);
        if let Some(cap) = &mut self.cap {
            cap.next(now, size);
        }
        self.due()
    }
    fn woke(&mut self, now: Instant) -> Instant {
        self.settle(now);
        self.due()
    }
    fn refilled(&mut self, _since: Instant, now: Instant) {
        if let GapPolicy::DropLate { .. } = self.params.gap {
            // The queue was empty, so nothing is late: the new packet starts a new schedule.
            let debt = self.account.debt(now).max(Credit::ZERO);
            self.account.set_debt(now, debt);
        }
        self.settle(now);
    }
    fn set_rate(&mut self, now: Instant, rate: Rate) -> Result<Instant, ParamError> {
        self.set_params(now, Params { rate, ..self.params })?;
        Ok(self.due())
    }
    fn rate(&self) -> Rate {
        self.params.rate
    }
    fn resume(&mut self, now: Instant) -> Instant {
        self.settle(now);
        if let Some(debt) = self.paused.take() {
            self.account.set_debt(now, debt);
        }
        self.due()
    }
    fn plan(&mut self, now: Instant, due: Instant) -> Wait {
        self.oversleep.plan(now, due)
    }
    fn waited(&mut self, wait: Wait, from: Instant, now: Instant) {
        self.oversleep.waited(wait, from, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1000);

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Span::from_millis(n)
    }

    /// 1000 bytes every 10 ms.
    fn pacer(gap: GapPolicy, cap: Cap) -> Pacer {
        Pacer::new(Params { gap, cap, ..Params::new(Rate::from_bytes_per_sec(100_000)) }, ms(0)).unwrap()
    }

    #[test]
    fn catches_up_within_the_bound() {
        let mut pacer = pacer(GapPolicy::CatchUp { within: Span::from_millis(30) }, Cap::Off);
        assert_eq!(pacer.next(ms(0), PACKET), ms(10));
        // At 100 ms it is 90 ms late, of which 30 are made up for: three packets, and the one that is due.
        for _ in 0..3 {
            assert!(pacer.next(ms(100), PACKET) <= ms(100));
        }
        assert_eq!(pacer.next(ms(100), PACKET), ms(110));
        assert_eq!(pacer.status(ms(100)).restarts, 1);
    }

    #[test]
    fn catches_up_no_faster_than_the_cap() {
        // Four times the rate, with a burst of 5 ms: 2000 bytes, and then one packet every 2.5 ms.
        let cap = Cap::Ratio { percent: 400, span: Span::from_millis(5) };
        let mut pacer = pacer(GapPolicy::CatchUp { within: Span::from_secs(1) }, cap);
        assert!(pacer.next(ms(100), PACKET) <= ms(100));
        assert!(pacer.next(ms(100), PACKET) <= ms(100));
        assert_eq!(pacer.next(ms(100), PACKET), ms(100) + Span::from_micros(2_500));
    }

    #[test]
    fn drops_what_is_late_and_goes_on_with_the_rest() {
        let mut pacer = pacer(GapPolicy::DropLate { after: Span::from_millis(25) }, Cap::Off);
        assert_eq!(pacer.admit(ms(0), PACKET), Admission::Send);
        assert_eq!(pacer.next(ms(0), PACKET), ms(10));
        assert_eq!(pacer.admit(ms(5), PACKET), Admission::Wait(ms(10)));
        // Prevented from sending until 60 ms: those due at 10, 20 and 30 ms are dropped, that of 40 ms is 20 ms late.
        for _ in 0..3 {
            assert_eq!(pacer.admit(ms(60), PACKET), Admission::Drop);
        }
        assert_eq!(pacer.admit(ms(60), PACKET), Admission::Send);
        assert_eq!(pacer.next(ms(60), PACKET), ms(50));
        assert_eq!(pacer.status(ms(60)).dropped, 3);
        // An empty queue makes nothing late.
        pacer.refilled(ms(60), ms(500));
        assert_eq!(pacer.admit(ms(500), PACKET), Admission::Send);
        assert_eq!(pacer.next(ms(500), PACKET), ms(510));
    }

    #[test]
    fn time_stands_still_in_a_pause() {
        let mut pacer = pacer(GapPolicy::CatchUp { within: Span::from_secs(1) }, Cap::Off);
        assert_eq!(pacer.next(ms(0), PACKET), ms(10));
        pacer.pause(ms(4));
        assert_eq!((pacer.due(), pacer.admit(ms(5), PACKET)), (Instant::MAX, Admission::Paused));
        assert!(pacer.status(ms(500)).paused);
        // 6 ms were left to wait.
        assert_eq!(pacer.resume(ms(1000)), ms(1006));
    }

    #[test]
    fn rates_and_clocks_change_under_way() {
        let mut pacer = pacer(GapPolicy::CatchUp { within: Span::from_secs(1) }, Cap::Off);
        assert_eq!(pacer.next(ms(1000), Bytes::new(102_000)), ms(1020));
        // 10 ms earn 1000 of the 2000 bytes owed; the others take 1 ms at ten times the rate.
        assert_eq!(pacer.set_rate(ms(1010), Rate::from_bytes_per_sec(1_000_000)), Ok(ms(1011)));
        assert!(pacer.set_rate(ms(1010), Rate::ZERO).is_err());
        // The clock is set back to 200 ms: 1 ms remains to be waited.
        assert_eq!(pacer.woke(ms(200)), ms(201));
    }

    #[test]
    fn parameters_that_cannot_be() {
        let rate = Rate::from_mbit(1);
        for (params, field) in [
            (Params::new(Rate::ZERO), "rate"),
            (Params { cap: Cap::Ratio { percent: 99, span: Span::ZERO }, ..Params::new(rate) }, "burst ratio"),
            (
                Params { cap: Cap::Fixed { rate: Rate::from_kbit(999), allowance: PACKET }, ..Params::new(rate) },
                "burst rate",
            ),
        ] {
            assert_eq!(params.validate().unwrap_err().field, field);
        }
        assert_eq!(Params::live(rate).gap, GapPolicy::Restart { after: Span::from_millis(100) });
    }
}

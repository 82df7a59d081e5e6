//! The pacer: what a program should use.
//!
//! *Law*: what is sent by `t` is at most the integral of the rate over the time not paused, plus one packet; no
//! window exceeds the burst cap (see [`BurstCap`]); the schedule is absolute and exact, so it never drifts; and it
//! is never further behind than the [`GapPolicy`] says.
//! *Source*: the paper's AT0 and AT1 for the schedule, section 8 for the cap; RFC 6298 for the estimator of
//! [`Oversleep`].
//! *Units*: credit in bit·ns/s.
//! *Cost*: O(1); two divisions a packet, one without a cap.
//! *Notes*: meant for a clock that neither steps nor counts suspend (`CLOCK_MONOTONIC`). On one that does, a step
//! back costs the time between the last two readings, and a step forward (or a suspend that is counted) is a gap
//! like any other: the policy bounds what is made up for.
//! *Departures from the source, and why*: AT1 restarts only when the queue was empty; here a sender that was kept
//! from sending (a reader that blocks, a machine that is busy, a suspend) is late in the same way, and the same
//! policy says what happens.
//! *See also*: [`At0`](crate::At0), [`At1`](crate::At1): the schedule alone.
//!
//! ```
//! use tidegate_pace::{Algorithm, GapPolicy, Pacer, Params};
//! use tidegate_units::{Bytes, Instant, Rate, Span};
//!
//! let params = Params { gap: GapPolicy::Restart { after: Span::from_millis(50) }, ..Params::new(Rate::from_mbit(8)) };
//! let mut pacer = Pacer::new(params, Instant::ZERO)?;
//! // 1000 byte at 8 Mbit/s: 1 ms.
//! assert_eq!(pacer.next(Instant::ZERO, Bytes::new(1000)), Instant::ZERO + Span::from_millis(1));
//! // Nothing to send for a second: the next packet begins a new schedule.
//! let later = Instant::ZERO + Span::from_secs(1);
//! assert_eq!(pacer.next(later, Bytes::new(1000)), later + Span::from_millis(1));
//! # Ok::<(), tidegate_pace::ParamError>(())
//! ```

use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

use crate::account::Account;
use crate::algorithm::{Algorithm, BurstCap, ParamError, Wait, positive};
use crate::oversleep::{Oversleep, SpinBudget};

/// What happens when the sender is behind its schedule: it had nothing to send, or was kept from sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapPolicy {
    /// Later than `after`: the schedule begins anew and nothing is made up for. For live data.
    Restart {
        /// The lateness that is still made up for.
        after: Span,
    },
    /// At most the last `within` of what was missed is made up for. For files, where the average counts.
    CatchUp {
        /// The longest stretch that is made up for.
        within: Span,
    },
    /// A packet that is later than `after` is dropped: the schedule moves on as if it had been sent. For media,
    /// where a late packet is worth nothing. A queue that was empty does not make packets late.
    DropLate {
        /// The lateness up to which a packet is still sent.
        after: Span,
    },
}

/// The burst cap of a [`Pacer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cap {
    /// Catching up is as fast as the sender can.
    Off,
    /// A multiple of the rate, following its changes; `span` of it may go at once.
    Ratio {
        /// Hundredths of the rate, 100 or more.
        percent: u32,
        /// What may go at once, as the time it takes at that rate.
        span: Span,
    },
    /// A rate, and the bytes that may go at once.
    Fixed {
        /// The maximum rate of any run of packets.
        rate: Rate,
        /// The bytes that may go at once.
        allowance: Bytes,
    },
}

/// The parameters of a [`Pacer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The rate; above zero.
    pub rate: Rate,
    /// What happens when the sender is late. Default: catch up within 1 s, because the average is what most people
    /// measure, and a second is longer than what a scheduler does to a process.
    pub gap: GapPolicy,
    /// How fast it may catch up. Default: at four times the rate, 1 ms of which may go at once: a sleep that is 1 ms
    /// late is made up for without sleeping less than a sleep can, and a sender that a busy machine lets run only a
    /// quarter of the time keeps its rate.
    pub cap: Cap,
    /// How much of a core spinning may take. Default: a quarter.
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
    /// For data that arrives as it is made: a gap of more than 100 ms restarts the schedule.
    pub const fn live(rate: Rate) -> Self {
        Self { gap: GapPolicy::Restart { after: crate::At1::THRESHOLD }, ..Self::new(rate) }
    }
    /// The same parameters, checked.
    ///
    /// # Errors
    /// Names the field: a rate of zero, a cap below the rate.
    pub fn validate(self) -> Result<Self, ParamError> {
        positive("rate", self.rate)?;
        match self.cap {
            Cap::Off => {}
            Cap::Ratio { percent, .. } if percent < 100 => {
                return Err(ParamError { field: "burst ratio", problem: "is below 100 %: the rate is never reached" });
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
    /// The cap in bytes: the rate, and what may go at once.
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
    /// Now.
    Send,
    /// Not before then.
    Wait(Instant),
    /// It is too late: drop it and go on with the next.
    Drop,
    /// Not before [`Pacer::resume`](Algorithm::resume).
    Paused,
}

/// Where a pacer stands.
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
    /// Schedules begun anew, or shortened to what may be made up for.
    pub restarts: u64,
    /// How far behind its schedule it is.
    pub late: Span,
    /// How much before it is due a sleep is asked to end, as learned.
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
    /// The first packet may go at `start`.
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
    /// Whether a packet of `size` may be sent `now`. A packet that is to be dropped has been counted and charged
    /// when this returns.
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
    /// The first instant at which the next packet may go: not after now means at once, [`Instant::MAX`] while
    /// paused.
    pub fn due(&self) -> Instant {
        if self.paused.is_some() {
            return Instant::MAX;
        }
        self.account.due().max(self.cap.map_or(Instant::ZERO, |cap| cap.due()))
    }
    /// Time stands still for the schedule until [`resume`](Algorithm::resume).
    pub fn pause(&mut self, now: Instant) {
        if self.paused.is_none() {
            self.settle(now);
            self.paused = Some(self.account.debt(now));
        }
    }
    /// Other parameters from `now` on; what is owed stays owed.
    ///
    /// # Errors
    /// Those of [`Params::validate`]; nothing has changed then.
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
    /// Where it stands at `now`.
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

    /// What could have been sent and was not; negative while something is owed.
    fn behind(&self, now: Instant) -> Credit {
        Credit::ZERO - self.account.debt(now)
    }
    /// Takes note of the time: mends a clock that was set back, and lets the policy act on a gap.
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
            // Nothing was waiting, so nothing is late: what comes now begins a new schedule.
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

    /// 1000 byte every 10 ms.
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
        // Four times the rate, 5 ms of which may go at once: 2000 byte, and then one every 2.5 ms.
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
        // Kept from sending until 60 ms: those due at 10, 20 and 30 ms are dropped, that of 40 ms is 20 ms late.
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
        // 10 ms earn 1000 of the 2000 byte owed; the others take 1 ms at ten times the rate.
        assert_eq!(pacer.set_rate(ms(1010), Rate::from_bytes_per_sec(1_000_000)), Ok(ms(1011)));
        assert!(pacer.set_rate(ms(1010), Rate::ZERO).is_err());
        // The clock is set back to 200 ms: 1 ms is still to be waited.
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

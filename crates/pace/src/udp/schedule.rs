//! [`Schedule`]: the pacer of a socket, and how long before they are due datagrams are handed to the kernel.

use tidegate_units::{Bytes, Instant, Rate, Span};

use crate::algorithm::{Algorithm, ParamError, Wait};
use crate::pacer::{GapPolicy, Pacer, Params, Status};

/// Whether a datagram may be handed to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// It may be, and departs at this instant, which is not before now.
    Now(Instant),
    /// Not before this instant.
    At(Instant),
    /// Not before the schedule is resumed.
    Paused,
}

/// A [`Pacer`] in front of a kernel that may hold datagrams until they depart.
///
/// *Law*: departures obey the law of the pacer. A datagram is handed over at most `lead` before it departs. With a lead,
/// a wait ends half a lead before the next departure, so that one wake-up hands over what departs in half a lead.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pacer: Pacer,
    lead: Span,
    /// The latest departure. The pacer would take an earlier reading for a clock that was set back.
    latest: Instant,
}

impl Schedule {
    /// Returns a schedule whose first datagram may depart at `now`.
    ///
    /// # Errors
    /// Those of [`Params::validate`]; and for [`GapPolicy::DropLate`], which needs a queue in front of the pacer.
    pub(crate) fn new(params: Params, lead: Span, now: Instant) -> Result<Self, ParamError> {
        Ok(Self { pacer: Pacer::new(without_queue(params)?, now)?, lead, latest: now })
    }
    /// Whether a datagram may be handed over at `now`.
    pub(crate) fn turn(&self, now: Instant) -> Turn {
        let due = self.pacer.due();
        if due == Instant::MAX {
            return Turn::Paused;
        }
        if due.saturating_sub(self.lead) <= now {
            Turn::Now(now.max(due).max(self.latest))
        } else {
            Turn::At(due.saturating_sub(Span::from_nanos(self.lead.as_nanos() / 2)))
        }
    }
    /// Charges `size` bytes that depart at `departs`.
    pub(crate) fn sent(&mut self, departs: Instant, size: Bytes) {
        self.latest = self.latest.max(departs);
        self.pacer.next(self.latest, size);
    }
    /// How to wait from `now` to `until`.
    pub(crate) fn plan(&mut self, now: Instant, until: Instant) -> Wait {
        self.pacer.plan(now, until)
    }
    /// Reports the end of a wait.
    pub(crate) fn waited(&mut self, wait: Wait, from: Instant, now: Instant) {
        self.pacer.waited(wait, from, now);
    }
    /// Sets other parameters and another lead from `now` on.
    ///
    /// # Errors
    /// Those of [`new`](Self::new); nothing has changed then.
    pub(crate) fn set_params(&mut self, now: Instant, params: Params, lead: Span) -> Result<(), ParamError> {
        self.pacer.set_params(now.max(self.latest), without_queue(params)?)?;
        self.lead = lead;
        Ok(())
    }
    /// Stops the schedule.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.pacer.pause(now.max(self.latest));
    }
    /// Continues the schedule; the time of the pause is not made up for.
    pub(crate) fn resume(&mut self, now: Instant) {
        self.pacer.resume(now.max(self.latest));
    }
    pub(crate) fn params(&self) -> &Params {
        self.pacer.params()
    }
    pub(crate) fn rate(&self) -> Rate {
        self.pacer.rate()
    }
    pub(crate) fn status(&self, now: Instant) -> Status {
        self.pacer.status(now)
    }
}

/// `params` unless they are for a sender that has a queue.
fn without_queue(params: Params) -> Result<Params, ParamError> {
    if let GapPolicy::DropLate { .. } = params.gap {
        return Err(ParamError {
            field: "gap policy",
            problem: "drops what waited too long in a queue, and a socket has none; take GapPolicy::Restart",
        });
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Instant {
        Instant::ZERO + Span::from_micros(n)
    }

    /// 1000 bytes every millisecond.
    fn schedule(lead: Span) -> Schedule {
        Schedule::new(Params::new(Rate::from_mbit(8)), lead, us(0)).unwrap()
    }

    #[test]
    fn without_a_lead_it_is_the_pacer() {
        let mut schedule = schedule(Span::ZERO);
        assert_eq!(schedule.turn(us(0)), Turn::Now(us(0)));
        schedule.sent(us(0), Bytes::new(1000));
        assert_eq!(schedule.turn(us(400)), Turn::At(us(1000)));
        assert_eq!(schedule.turn(us(1100)), Turn::Now(us(1100)));
        schedule.sent(us(1100), Bytes::new(1000));
        assert_eq!(schedule.turn(us(1100)), Turn::At(us(2000)));
    }

    #[test]
    fn with_a_lead_a_wake_up_hands_over_what_departs_soon() {
        let mut schedule = schedule(Span::from_millis(4));
        // Those of 0 to 4 ms at once, each with its own departure.
        for k in 0..=4 {
            assert_eq!(schedule.turn(us(0)), Turn::Now(us(1000 * k)));
            schedule.sent(us(1000 * k), Bytes::new(1000));
        }
        // That of 5 ms not before 1 ms; the wait lasts until 3 ms, and then those up to 7 ms are handed over.
        assert_eq!(schedule.turn(us(900)), Turn::At(us(3000)));
        for k in 5..=7 {
            assert_eq!(schedule.turn(us(3000)), Turn::Now(us(1000 * k)));
            schedule.sent(us(1000 * k), Bytes::new(1000));
        }
        assert_eq!(schedule.turn(us(3000)), Turn::At(us(6000)));
        // Twice the rate from the last departure on: what was handed over stays.
        schedule.set_params(us(3000), Params::new(Rate::from_mbit(16)), Span::from_millis(4)).unwrap();
        assert_eq!(schedule.turn(us(3500)), Turn::Now(us(7500)));
        // With a shorter lead it stays longer in the process.
        schedule.set_params(us(3000), Params::new(Rate::from_mbit(16)), Span::from_millis(2)).unwrap();
        assert_eq!(schedule.turn(us(3500)), Turn::At(us(6500)));
    }

    #[test]
    fn pauses_and_what_a_socket_cannot_do() {
        let mut schedule = schedule(Span::ZERO);
        schedule.sent(us(0), Bytes::new(1000));
        schedule.pause(us(400));
        assert_eq!(schedule.turn(us(5000)), Turn::Paused);
        schedule.resume(us(9000));
        assert_eq!(schedule.turn(us(9000)), Turn::At(us(9600)));
        let late = Params { gap: GapPolicy::DropLate { after: Span::ZERO }, ..Params::new(Rate::from_mbit(8)) };
        assert_eq!(schedule.set_params(us(0), late, Span::ZERO).unwrap_err().field, "gap policy");
        assert!(Schedule::new(late, Span::ZERO, us(0)).is_err());
    }
}

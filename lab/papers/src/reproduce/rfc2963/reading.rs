//! Readings of the schedules T1 and T2 of RFC 2963 that differ from that of [`tidegate_core::ras`], to see whether the
//! results depend on the reading.

use std::collections::VecDeque;

use tidegate_core::marker::{Conditioner, Outcome};
use tidegate_core::meter::{AnyMeter, Meter};
use tidegate_core::qdisc::{Backlog, Deadline, DropReason, Outlet, Queued};
use tidegate_core::ras::{Coupling, Ear, Params};
use tidegate_core::{Credit, Instant, Packet, Qdisc, Rate, Span};

/// The rule by which T1 releases the head of the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// The head leaves when the previous packet is paid for at the shaping rate, which changes with every arrival. This
    /// is the reading of the core.
    Paid,
    /// Like `Paid`, but at the rate that was in force when the previous packet left.
    PaidAtOnce,
    /// The head leaves when it has been transmitted itself at the shaping rate, as by a link of that rate.
    Served,
    /// Like `Served`, but at the rate that was in force when the packet became the head.
    ServedAtOnce,
}

/// A shaper with another reading. The meter is behind it or, if `metered_first` is set, before it.
pub struct Shaper<P> {
    params: Params,
    schedule: Schedule,
    metered_first: bool,
    conditioner: Conditioner<AnyMeter>,
    queue: VecDeque<P>,
    backlog: Backlog,
    ear: Ear,
    rate: Rate,
    /// The part of the previous packet that was not paid for at the time `settled`.
    debt: Credit,
    settled: Instant,
    head_since: Instant,
    latest: Instant,
}

impl<P: Packet> Shaper<P> {
    pub fn new(params: Params, schedule: Schedule, metered_first: bool, conditioner: Conditioner<AnyMeter>) -> Self {
        Self {
            params,
            schedule,
            metered_first,
            conditioner,
            queue: VecDeque::new(),
            backlog: Backlog::default(),
            ear: Ear::default(),
            rate: params.curve.cir(),
            debt: Credit::ZERO,
            settled: Instant::ZERO,
            head_since: Instant::ZERO,
            latest: Instant::ZERO,
        }
    }
    /// Pays at the rate in force until `now`, and then adopts the current rate, unless the schedule keeps the initial
    /// one.
    fn settle(&mut self, now: Instant) {
        self.latest = self.latest.max(now);
        let earned = self.rate.credit_in(self.latest.since(self.settled));
        self.debt = if earned >= self.debt { Credit::ZERO } else { self.debt - earned };
        self.settled = self.latest;
    }
    fn renew_rate(&mut self, begins: bool) {
        if begins || matches!(self.schedule, Schedule::Paid | Schedule::Served) {
            let least = self.params.curve.rate(self.backlog.bytes);
            self.rate = self.ear.rate().max(least).min(self.params.curve.mir());
        }
    }
    fn serves_the_head(&self) -> bool {
        matches!(self.schedule, Schedule::Served | Schedule::ServedAtOnce)
    }
    fn release(&self) -> Option<Instant> {
        let head = self.queue.front()?;
        // The rate is at least CIR, which is not zero.
        let paid = self.settled + self.debt.time_at_ceil(self.rate).unwrap_or(Span::MAX);
        let by_rate = if self.debt > Credit::ZERO { paid } else { self.head_since };
        let by_green = (self.params.coupling == Coupling::Green)
            .then(|| Meter::<P>::green_at(self.conditioner.meter(), self.head_since, head))
            .flatten();
        Some(by_green.map_or(by_rate, |by_green| by_green.min(by_rate)))
    }
}

impl<P: Packet> Qdisc<P> for Shaper<P> {
    fn enqueue(&mut self, now: Instant, mut packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.settle(now);
        let size = packet.size();
        self.ear.on_arrival(self.latest, size, self.params.averaging);
        if self.backlog.bytes + size > self.params.buffer {
            return out.refused(packet, DropReason::QueueLimit);
        }
        if self.metered_first && self.conditioner.condition(self.latest, &mut packet) == Outcome::Refused {
            return out.refused(packet, DropReason::Policed);
        }
        let first = self.queue.is_empty();
        self.backlog.add(size);
        self.queue.push_back(packet);
        if first {
            self.head_since = self.latest;
            if self.serves_the_head() {
                self.debt = Credit::of(size);
            }
        }
        self.renew_rate(first && self.serves_the_head());
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.settle(now);
        if self.release()? > self.latest {
            return None;
        }
        let mut packet = self.queue.pop_front()?;
        self.backlog.remove(packet.size());
        self.head_since = self.latest;
        let owed = if self.serves_the_head() { self.queue.front().map(P::size) } else { Some(packet.size()) };
        self.debt = owed.map_or(Credit::ZERO, Credit::of);
        self.renew_rate(true);
        if !self.metered_first && self.conditioner.condition(self.latest, &mut packet) == Outcome::Refused {
            out.dropped(packet, DropReason::Policed);
            return None;
        }
        Some(packet)
    }

    fn deadline(&self, now: Instant) -> Deadline {
        self.release().map_or(Deadline::Idle, |at| Deadline::at(at, now.max(self.latest)))
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

//! TBF: a FIFO that a token bucket releases, the smallest shaper.
//!
//! *Law*: packets leave in the order of arrival, each at the first instant at which the bucket holds its size: in any time
//! `t` at most `burst + rate * t` bytes leave. A packet that exceeds the limit is dropped on arrival, and so is one
//! that exceeds the burst and could never leave.
//! *Source*: `tc-tbf(8)`, with one bucket; FBQ paper, equations (5.1) to (5.4), for the bucket.
//! *Units*: the rate in bits per second, burst and limit in bytes.
//! *Cost*: O(1) per call; no allocation once the queue has reached its greatest length.
//! *Departures from the source, and why*: exact credit instead of a time in ticks; no peak rate, which is a second
//! bucket that [`htb`](crate::htb) has.
//! *See also*: [`bucket`](crate::bucket); `kernel/`, the same discipline for the kernel.
//!
//! ```
//! use tidegate_core::{fifo::Limit, qdisc::{Discard, Qdisc}, tbf::{Params, Tbf}, *};
//! # #[derive(Debug)] struct P(u64);
//! # impl Packet for P { fn size(&self) -> Bytes { Bytes::new(self.0) } fn flow(&self) -> FlowKey { FlowKey::default() } }
//! let mut queue = Tbf::new(Params { rate: Rate::from_mbit(12), burst: Bytes::new(1500), limit: Limit::packets(10) })?;
//! let start = Instant::ZERO;
//! (0..2).for_each(|_| { queue.enqueue(start, P(1500), &mut Discard); });
//! assert!(queue.dequeue(start, &mut Discard).is_some() && queue.dequeue(start, &mut Discard).is_none());
//! // 1500 B at 12 Mbit/s are 1 ms.
//! assert_eq!(queue.deadline(start), Deadline::At(start + Span::from_millis(1)));
//! # Ok::<(), ParamError>(())
//! ```

use crate::bucket::TokenBucket;
use crate::fifo::{Fifo, Limit};
use crate::packet::Packet;
use crate::params::ParamError;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc, Queued};
use tidegate_units::{Bytes, Instant, Rate};

/// Parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The rate of the bucket.
    pub rate: Rate,
    /// The depth of the bucket: what leaves at once after an idle time.
    pub burst: Bytes,
    /// The limit of the queue.
    pub limit: Limit,
}

impl Params {
    /// Checks the ranges.
    ///
    /// # Errors
    /// A rate or a burst of zero.
    pub fn validate(self) -> Result<Self, ParamError> {
        if self.rate.is_zero() {
            return Err(ParamError::new("rate", "must be above 0, for example 20mbit"));
        }
        if self.burst == Bytes::ZERO {
            return Err(ParamError::new("burst", "must hold the largest packet, for example 3000B"));
        }
        Ok(self)
    }
}

/// A queue behind a token bucket. See the [module](self).
#[derive(Clone, Debug)]
pub struct Tbf<P> {
    bucket: TokenBucket,
    fifo: Fifo<P>,
    latest: Instant,
}

impl<P: Packet> Tbf<P> {
    /// Returns an empty queue with a full bucket.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params) -> Result<Self, ParamError> {
        let Params { rate, burst, limit } = params.validate()?;
        let latest = Instant::ZERO;
        Ok(Self { bucket: TokenBucket::full(rate, burst, latest), fifo: Fifo::new(limit), latest })
    }
    /// Changes the rate from `now` on. What was earned is kept.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) {
        self.latest = self.latest.max(now);
        self.bucket.set_rate(self.latest, rate);
    }
}

impl<P: Packet> Qdisc<P> for Tbf<P> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.latest = self.latest.max(now);
        if packet.size() > self.bucket.depth() {
            return out.refused(packet, DropReason::LargerThanBurst);
        }
        self.fifo.enqueue(self.latest, packet, out)
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.latest = self.latest.max(now);
        if !self.bucket.take(self.latest, self.fifo.front()?.size()) {
            return None;
        }
        self.fifo.dequeue(self.latest, out)
    }

    fn deadline(&self, now: Instant) -> Deadline {
        let Some(head) = self.fifo.front() else { return Deadline::Idle };
        let now = self.latest.max(now);
        match self.bucket.time_of(now, head.size()) {
            Some(at) => Deadline::at(at, now),
            None => Deadline::Idle,
        }
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

//! WFQ: weighted fair queueing, that is packet-by-packet generalized processor sharing (PGPS).
//!
//! *Law*: packets leave in the order in which generalized processor sharing (GPS), which serves all busy sessions at once
//! in proportion to their weights, would finish them. A packet has left the link at the latest Lmax/r after GPS would
//! have finished it, where Lmax is the largest packet and r the rate of the link.
//! *Source*: Demers, Keshav and Shenker, "Analysis and simulation of a fair queueing algorithm" (1989); Parekh and
//! Gallager (1993), section III: theorem 1 is the law, equations (7) to (9) are the virtual time.
//! *Units*: bytes, bit/s, ns; virtual time is a tag of [`sessions`](crate::sessions).
//! *Example*: below.
//! *Cost*: O(log n) for n busy sessions, amortised: a session that GPS has finished is found once for each packet of it.
//! No allocation after warm-up.
//! *Notes*: a session is a flow, or a class with a weight. A flow exists until GPS has finished its last packet, so there
//! are about as many flows as queued packets. With a `lead` packets are ordered up to that much earlier than they leave,
//! and the law holds with `lead` added.
//! *Departures from the source, and why*: packets beyond the limit are dropped, at the head of the longest queue, and GPS
//! is then counted as if they had not come: a session that overflows is not charged for what it lost. The link is
//! modelled here (`link`, `lead`), as a process sees none.
//! *See also*: [`wf2q`](crate::wf2q), which also bounds how far a session can be ahead; [`drr`](crate::drr), O(1) and
//! fair within a round; [`hfsc`](crate::hfsc), where delay does not follow from the weight.
//!
//! ```
//! use tidegate_core::{sessions::Params, wfq::Wfq, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u64, u64);
//! # impl Packet for P { fn size(&self) -> Bytes { Bytes::new(self.1) } fn flow(&self) -> FlowKey { FlowKey::numbered(self.0) } }
//! let mut queue = Wfq::new(Params { lead: Span::from_secs(1), ..Params::flows(Rate::from_mbit(8)) })?;
//! for (flow, size) in [(1, 1500), (1, 1500), (2, 400), (2, 400), (2, 400)] {
//!     queue.enqueue(Instant::ZERO, P(flow, size), &mut Discard);
//! }
//! let order: Vec<_> = (0..5).map(|_| queue.dequeue(Instant::ZERO, &mut Discard).unwrap().0).collect();
//! // Finished by GPS after 1500 and 3000 B of flow 1, and after 400, 800 and 1200 B of flow 2.
//! assert_eq!(order, [2, 2, 2, 1, 1]);
//! # Ok::<(), ParamError>(())
//! ```

use crate::bucket::TokenBucket;
use crate::heap::{Heap, NOWHERE};
use crate::packet::{FlowKey, Packet};
use crate::params::ParamError;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc, Queued};
use crate::sessions::{Params, Sessions, Tag, cost, scaled};
use tidegate_units::{Bytes, Instant};

/// A packet with the virtual time of its arrival.
#[derive(Clone, Debug)]
struct Stamped<P> {
    packet: P,
    arrival: Tag,
}

impl<P: Packet> Packet for Stamped<P> {
    fn size(&self) -> Bytes {
        self.packet.size()
    }
    fn flow(&self) -> FlowKey {
        self.packet.flow()
    }
    fn class(&self) -> crate::ClassId {
        self.packet.class()
    }
}

#[derive(Clone, Debug)]
struct Tags {
    /// When GPS finishes the packet that left last.
    left: Tag,
    /// When GPS finishes the last packet that arrived.
    last: Tag,
    /// The position among the sessions that are busy under GPS.
    in_gps: u32,
    /// The position among those with queued packets.
    in_heads: u32,
}

impl Default for Tags {
    fn default() -> Self {
        Self { left: 0, last: 0, in_gps: NOWHERE, in_heads: NOWHERE }
    }
}

/// Weighted fair queueing. See the [module](self).
#[derive(Clone, Debug)]
pub struct Wfq<P> {
    sessions: Sessions<Stamped<P>, Tags>,
    link: TokenBucket,
    /// Virtual time at `latest`.
    virtual_time: Tag,
    /// The part of the service until `latest` that is too little to advance the virtual time by one: without it the
    /// virtual time would depend on how often it is advanced.
    unserved: u128,
    latest: Instant,
    /// Sessions that are busy under GPS, by when it finishes them, and the sum of their weights.
    gps: Heap<Tag>,
    weight: u64,
    /// Sessions with queued packets, by when GPS finishes their first.
    heads: Heap<Tag>,
}

impl<P: Packet> Wfq<P> {
    /// Creates a scheduler with empty queues.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params) -> Result<Self, ParamError> {
        let params = params.validate()?;
        Ok(Self {
            sessions: Sessions::new(&params),
            link: TokenBucket::full(params.link, params.link.bytes_in_floor(params.lead), Instant::ZERO),
            virtual_time: 0,
            unserved: 0,
            latest: Instant::ZERO,
            gps: Heap::new(),
            weight: 0,
            heads: Heap::new(),
        })
    }

    /// Lets GPS serve until `now` (equation (8): the slope is r over the weight of the busy sessions).
    fn advance(&mut self, now: Instant) {
        let mut credit = self.unserved + scaled(self.link.rate().credit_in(now.since(self.latest)));
        self.latest = self.latest.max(now);
        self.unserved = 0;
        while let Some((last, number)) = self.gps.peek() {
            let needed = last.saturating_sub(self.virtual_time).saturating_mul(u128::from(self.weight));
            if needed > credit {
                self.virtual_time += credit / u128::from(self.weight);
                self.unserved = credit % u128::from(self.weight);
                return;
            }
            credit -= needed;
            self.virtual_time = self.virtual_time.max(last);
            self.leave_gps(number);
        }
    }

    fn leave_gps(&mut self, number: u32) {
        let all = &mut self.sessions.all;
        let at = all[number].tags.in_gps;
        self.gps.remove(at, &mut |id, to| all[id].tags.in_gps = to);
        self.weight -= all[number].weight;
        if all[number].queue.is_empty() {
            self.sessions.end(number);
        }
    }

    /// Takes the first packet of a session. One that is dropped is not charged.
    fn pop(&mut self, number: u32, dropped: bool) -> Option<P> {
        let Stamped { packet, arrival } = self.sessions.pop(number)?;
        let session = &mut self.sessions.all[number];
        let cost = cost(packet.size(), session.weight);
        if dropped {
            session.tags.last = session.tags.last.saturating_sub(cost);
        } else {
            session.tags.left = session.tags.left.max(arrival) + cost;
        }
        self.order_head(number);
        let tags = &self.sessions.all[number].tags;
        let (last, in_gps) = (tags.last, tags.in_gps);
        if in_gps == NOWHERE {
            if self.sessions.all[number].queue.is_empty() {
                self.sessions.end(number);
            }
        } else if dropped && last <= self.virtual_time {
            self.leave_gps(number);
        } else if dropped {
            let all = &mut self.sessions.all;
            self.gps.update(in_gps, last, &mut |id, to| all[id].tags.in_gps = to);
        }
        Some(packet)
    }

    /// Gives the first packet of a session its place among the others.
    fn order_head(&mut self, number: u32) {
        let head = self.sessions.front(number).map(|head| (head.arrival, head.size()));
        let all = &mut self.sessions.all;
        let session = &all[number];
        let at = session.tags.in_heads;
        match head {
            Some((arrival, size)) => {
                let finish = session.tags.left.max(arrival) + cost(size, session.weight);
                self.heads.set(at, finish, number, &mut |id, to| all[id].tags.in_heads = to);
            }
            None => self.heads.remove(at, &mut |id, to| all[id].tags.in_heads = to),
        }
    }
}

impl<P: Packet> Qdisc<P> for Wfq<P> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.advance(now);
        let size = packet.size();
        if !self.sessions.pool.can_hold(size) {
            return out.refused(packet, DropReason::QueueLimit);
        }
        let stamped = Stamped { packet, arrival: self.virtual_time };
        let Some(number) = self.sessions.of(&stamped) else {
            return out.refused(stamped.packet, DropReason::NoClass);
        };
        let all = &mut self.sessions.all;
        let session = &mut all[number];
        if session.tags.in_gps == NOWHERE {
            self.weight += session.weight;
        }
        let last = session.tags.last.max(self.virtual_time) + cost(size, session.weight);
        session.tags.last = last;
        let (at, was_empty) = (session.tags.in_gps, session.queue.is_empty());
        self.gps.set(at, last, number, &mut |id, to| all[id].tags.in_gps = to);
        self.sessions.push(number, stamped, self.latest);
        if was_empty {
            self.order_head(number);
        }
        while let Some(packet) = self.sessions.pool.over_limit().and_then(|longest| self.pop(longest, true)) {
            out.dropped(packet, DropReason::FlowLimit);
        }
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, _out: &mut dyn Outlet<P>) -> Option<P> {
        self.advance(now);
        self.link.update(self.latest);
        let (_, number) = self.heads.peek()?;
        if self.link.time_of(self.latest, Bytes::ZERO)? > self.latest {
            return None;
        }
        let packet = self.pop(number, false)?;
        self.link.charge(self.latest, packet.size());
        Some(packet)
    }

    fn deadline(&self, now: Instant) -> Deadline {
        let now = now.max(self.latest);
        match self.link.time_of(now, Bytes::ZERO) {
            Some(time) if !self.heads.is_empty() => Deadline::at(time, now),
            _ => Deadline::Idle,
        }
    }

    fn backlog(&self) -> Backlog {
        self.sessions.pool.backlog()
    }
}

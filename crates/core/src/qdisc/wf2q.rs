//! WF2Q+: worst-case fair weighted fair queueing.
//!
//! *Law*: of the packets that generalized processor sharing would have begun to send, the one that it would finish first
//! leaves. In every interval in which a session of a class is backlogged it receives at least its part w/W of what the
//! link sends, less L + (Lmax - L) w/W, where L is its largest packet and Lmax the largest of all: a session is neither
//! behind by more than this, nor ahead, so that it is never left out for long after a burst.
//! *Source*: Bennett and Zhang, "Hierarchical packet fair queueing algorithms" (1996): the virtual time is equation (27),
//! the tags equations (28) and (29), the law theorem 4 (bit worst-case fair index).
//! *Units*: bytes, bit/s, ns; virtual time is a tag of [`sessions`](crate::sessions).
//! *Example*: below.
//! *Cost*: O(log n) for n busy sessions, amortised: a packet becomes eligible once. No allocation after warm-up.
//! *Notes*: a session is a flow, or a class with a weight. Where sessions are flows, W is the weight of those present,
//! and a flow is present until virtual time has passed the finish of its last packet.
//! *Departures from the source, and why*: as for [`wfq`](crate::wfq): a limit, and a link.
//! *See also*: [`wfq`](crate::wfq), which sends up to half of all packets of a heavy session ahead of GPS.
//!
//! ```
//! use tidegate_core::{sessions::Params, wf2q::Wf2q, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u32);
//! # impl Packet for P {
//! #     fn size(&self) -> Bytes { Bytes::new(1000) }
//! #     fn flow(&self) -> FlowKey { FlowKey::default() }
//! #     fn class(&self) -> ClassId { ClassId(self.0) }
//! # }
//! // The example of the paper: half of the link for one session, a twentieth for each of ten others.
//! let weights = vec![10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
//! let mut queue = Wf2q::new(Params::classes(Rate::from_mbit(8), weights))?;
//! (0..11).for_each(|_| { queue.enqueue(Instant::ZERO, P(0), &mut Discard); });
//! (1..11).for_each(|class| { queue.enqueue(Instant::ZERO, P(class), &mut Discard); });
//! let at = |ms| Instant::ZERO + Span::from_millis(ms);
//! let order: Vec<_> = (0..21).map(|ms| queue.dequeue(at(ms), &mut Discard).unwrap().0).collect();
//! assert_eq!(order, [0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0]);
//! # Ok::<(), ParamError>(())
//! ```

use crate::bucket::TokenBucket;
use crate::heap::{Heap, NOWHERE};
use crate::packet::Packet;
use crate::params::ParamError;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc, Queued};
use crate::sessions::{By, Params, Sessions, Tag, cost, scaled};
use tidegate_units::{Bytes, Instant};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    /// A class without packets, or a flow that was just made.
    #[default]
    Absent,
    /// A flow without packets whose last finish is still ahead.
    Lingering,
    /// Its first packet would not have begun.
    Waiting,
    /// Its first packet would have begun.
    Eligible,
}

#[derive(Clone, Debug)]
struct Tags {
    state: State,
    /// Start and finish of the first packet; without one, finish is that of the last packet that left.
    start: Tag,
    finish: Tag,
    /// The position in the heap of the state.
    at: u32,
}

impl Default for Tags {
    fn default() -> Self {
        Self { state: State::Absent, start: 0, finish: 0, at: NOWHERE }
    }
}

/// WF2Q+. See the [module](self).
#[derive(Clone, Debug)]
pub struct Wf2q<P> {
    sessions: Sessions<P, Tags>,
    link: TokenBucket,
    virtual_time: Tag,
    latest: Instant,
    /// The weight of all classes, or of the flows present.
    weight: u64,
    /// By finish, by start, by finish.
    lingering: Heap<Tag>,
    waiting: Heap<Tag>,
    eligible: Heap<Tag>,
}

impl<P: Packet> Wf2q<P> {
    /// Creates a scheduler with empty queues.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params) -> Result<Self, ParamError> {
        let params = params.validate()?;
        let weight = match &params.by {
            By::Flows => 0,
            By::Classes { weights, .. } => weights.iter().map(|weight| u64::from(*weight)).sum(),
        };
        Ok(Self {
            sessions: Sessions::new(&params),
            link: TokenBucket::full(params.link, params.link.bytes_in_floor(params.lead), Instant::ZERO),
            virtual_time: 0,
            latest: Instant::ZERO,
            weight,
            lingering: Heap::new(),
            waiting: Heap::new(),
            eligible: Heap::new(),
        })
    }

    /// Advances virtual time to `now` and ends the flows that it passes.
    fn advance(&mut self, now: Instant) {
        let mut credit = scaled(self.link.rate().credit_in(now.since(self.latest)));
        self.latest = self.latest.max(now);
        while let Some((finish, number)) = self.lingering.peek() {
            let needed = finish.saturating_sub(self.virtual_time).saturating_mul(u128::from(self.weight));
            if needed > credit {
                break;
            }
            credit -= needed;
            self.virtual_time = self.virtual_time.max(finish);
            self.enter(number, State::Absent);
            self.weight -= self.sessions.all[number].weight;
            self.sessions.end(number);
        }
        if self.weight > 0 {
            self.virtual_time = self.virtual_time.saturating_add(credit / u128::from(self.weight));
        }
    }

    /// Moves a session to the heap of `state`.
    fn enter(&mut self, number: u32, state: State) {
        let all = &mut self.sessions.all;
        let tags = &all[number].tags;
        let (before, at, start, finish) = (tags.state, tags.at, tags.start, tags.finish);
        let heap = |this: State| match this {
            State::Absent => None,
            State::Lingering => Some((0, finish)),
            State::Waiting => Some((1, start)),
            State::Eligible => Some((2, finish)),
        };
        let heaps = [&mut self.lingering, &mut self.waiting, &mut self.eligible];
        if let Some((n, _)) = heap(before) {
            heaps[n].remove(at, &mut |id, to| all[id].tags.at = to);
        }
        if let Some((n, key)) = heap(state) {
            heaps[n].insert(key, number, &mut |id, to| all[id].tags.at = to);
        }
        all[number].tags.state = state;
    }

    /// Sets the tags of the new first packet of a session, which starts at `start`, or lets the session wait for one.
    fn renew(&mut self, number: u32, start: Tag) {
        let size = self.sessions.front(number).map(Packet::size);
        let session = &mut self.sessions.all[number];
        match size {
            Some(size) => {
                session.tags.start = start;
                session.tags.finish = start + cost(size, session.weight);
                self.enter(number, State::Waiting);
            }
            None => {
                session.tags.finish = start;
                let ends = self.sessions.come_and_go();
                self.enter(number, if ends { State::Lingering } else { State::Absent });
            }
        }
    }
}

impl<P: Packet> Qdisc<P> for Wf2q<P> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.advance(now);
        if !self.sessions.pool.can_hold(packet.size()) {
            return out.refused(packet, DropReason::QueueLimit);
        }
        let Some(number) = self.sessions.of(&packet) else {
            return out.refused(packet, DropReason::NoClass);
        };
        let session = &self.sessions.all[number];
        let (was_empty, finish) = (session.queue.is_empty(), session.tags.finish);
        if session.tags.state == State::Absent && self.sessions.come_and_go() {
            self.weight += session.weight;
        }
        self.sessions.push(number, packet, self.latest);
        if was_empty {
            self.renew(number, finish.max(self.virtual_time));
        }
        while let Some(longest) = self.sessions.pool.over_limit() {
            // The next packet takes the start of the one that is dropped.
            let Some(packet) = self.sessions.pop(longest) else { return Queued::default() };
            self.renew(longest, self.sessions.all[longest].tags.start);
            out.dropped(packet, DropReason::FlowLimit);
        }
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, _out: &mut dyn Outlet<P>) -> Option<P> {
        self.advance(now);
        self.link.update(self.latest);
        if self.link.time_of(self.latest, Bytes::ZERO)? > self.latest {
            return None;
        }
        if self.eligible.is_empty()
            && let Some((start, _)) = self.waiting.peek()
        {
            self.virtual_time = self.virtual_time.max(start);
        }
        while let Some((start, number)) = self.waiting.peek()
            && start <= self.virtual_time
        {
            self.enter(number, State::Eligible);
        }
        let (finish, number) = self.eligible.peek()?;
        let packet = self.sessions.pop(number)?;
        self.renew(number, finish);
        self.link.charge(self.latest, packet.size());
        Some(packet)
    }

    fn deadline(&self, now: Instant) -> Deadline {
        let now = now.max(self.latest);
        match self.link.time_of(now, Bytes::ZERO) {
            Some(time) if !self.sessions.pool.backlog().is_empty() => Deadline::at(time, now),
            _ => Deadline::Idle,
        }
    }

    fn backlog(&self) -> Backlog {
        self.sessions.pool.backlog()
    }
}

//! [`FlowQueues`]: flows hashed onto queues that take turns, new ones first, each under an AQM of its own.
//!
//! *Law*: that of [`fq_codel`](crate::fq_codel), with any AQM.
//! *Source*: RFC 8290, sections 4.1 (enqueue, overload) and 4.2 (dequeue).
//! *Cost*: O(1) a call and that of the AQM, as stated for [`fq_codel`](crate::fq_codel).
//! *See also*: [`fq_codel`](crate::fq_codel) and [`fq_pie`](crate::fq_pie), which are this with CoDel and with PIE.

use crate::fifo::Limit;
use crate::packet::Packet;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc, Queued};
use crate::queues::{Linked as _, Links, List, Pool, Queue, Store};
use crate::round::{Deficit, spread};
use crate::slab::Slab;
use core::iter::repeat_n;
use tidegate_units::{Bytes, Instant};

/// An AQM of which each of many queues has a state.
pub(crate) trait QueueAqm<P>: Send {
    /// Its state for one queue.
    type State: Clone + Send;

    /// The state of a queue that was never used.
    fn fresh(&self) -> Self::State;
    /// Whether `packet`, which arrives at a queue of `backlog`, is enqueued, marked if need be; if not, it is dropped.
    fn admits(
        &mut self,
        _state: &mut Self::State,
        _packet: &mut P,
        _backlog: Backlog,
        _now: Instant,
        _out: &mut dyn Outlet<P>,
    ) -> bool {
        true
    }
    /// Returns the packet that leaves `queue`; dropped packets go to `out`.
    fn dequeue(
        &mut self,
        state: &mut Self::State,
        store: &mut Store<P>,
        queue: &mut Queue,
        now: Instant,
        out: &mut dyn Outlet<P>,
    ) -> Option<P>;
}

/// The list in which a queue is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Place {
    /// Not in a list.
    #[default]
    Off,
    New,
    Old,
}

impl Place {
    /// The list of a queue of `self` that has run empty. A new one waits a turn among the old ones, if there are any, or it
    /// would be new for ever.
    fn once_empty(self, has_old: bool) -> Self {
        if self == Self::New && has_old { Self::Old } else { Self::Off }
    }
}

#[derive(Clone, Debug)]
struct Flow<S> {
    queue: Queue,
    state: S,
    deficit: Deficit,
    place: Place,
    /// The busy period that `place` is about.
    busy_period: u64,
}

/// Queues that take turns. See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct FlowQueues<P: Packet, A: QueueAqm<P>> {
    aqm: A,
    quantum: i64,
    flows: Slab<u32, Flow<A::State>>,
    new: List,
    old: List,
    links: Links,
    pool: Pool<P>,
    /// Counts the times when a packet arrived while none was queued: every queue is off the lists then.
    busy_period: u64,
    overflowed: u64,
    new_flows: u64,
    latest: Instant,
}

impl<P: Packet, A: QueueAqm<P>> FlowQueues<P, A> {
    /// Empty queues. The parameters have been checked.
    pub fn new(aqm: A, queues: u32, quantum: Bytes, limit: Limit) -> Self {
        let flow = Flow {
            queue: Queue::default(),
            state: aqm.fresh(),
            deficit: Deficit::default(),
            place: Place::Off,
            busy_period: 0,
        };
        Self {
            aqm,
            quantum: quantum.as_u64() as i64,
            flows: repeat_n(flow, queues as usize).collect(),
            new: List::default(),
            old: List::default(),
            links: Links::default(),
            pool: Pool::new(limit),
            busy_period: 0,
            overflowed: 0,
            new_flows: 0,
            latest: Instant::ZERO,
        }
    }
    pub fn aqm(&self) -> &A {
        &self.aqm
    }
    /// Packets dropped because the limit was passed.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }
    /// Times a queue became busy as a new flow.
    pub fn new_flows(&self) -> u64 {
        self.new_flows
    }
}

impl<P: Packet, A: QueueAqm<P>> Qdisc<P> for FlowQueues<P, A> {
    fn enqueue(&mut self, now: Instant, mut packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.latest = self.latest.max(now);
        if !self.pool.can_hold(packet.size()) {
            return out.refused(packet, DropReason::QueueLimit);
        }
        if self.pool.backlog().is_empty() {
            // A kernel's next dequeue would take the empty queues off their lists; a timer asks only when something is due.
            (self.new, self.old) = (List::default(), List::default());
            self.busy_period += 1;
        }
        let index = spread(packet.flow().flow, self.flows.slots());
        let flow = &mut self.flows[index];
        if !self.aqm.admits(&mut flow.state, &mut packet, flow.queue.backlog(), self.latest, out) {
            return out.refused(packet, DropReason::Early);
        }
        self.pool.push(index, &mut flow.queue, packet, self.latest);
        if flow.place == Place::Off || flow.busy_period != self.busy_period {
            flow.place = Place::New;
            flow.busy_period = self.busy_period;
            flow.deficit = Deficit::starting_with(self.quantum);
            self.new_flows += 1;
            self.links.push_back(&mut self.new, index);
        }
        // One arrival of s bytes can need several small packets to be dropped; each arrived before.
        while let Some(longest) = self.pool.over_limit() {
            let Some((packet, _)) = self.pool.pop(longest, &mut self.flows[longest].queue) else {
                return Queued::default();
            };
            self.overflowed += 1;
            out.dropped(packet, DropReason::FlowLimit);
        }
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.latest = self.latest.max(now);
        if self.pool.backlog().is_empty() {
            return None;
        }
        loop {
            let from_new = !self.new.is_empty();
            let index = self.new.front().or(self.old.front())?;
            let flow = &mut self.flows[index];
            if flow.deficit.renew(self.quantum) {
                flow.place = Place::Old;
                self.links.remove(if from_new { &mut self.new } else { &mut self.old }, index);
                self.links.push_back(&mut self.old, index);
                continue;
            }
            let aqm = &mut self.aqm;
            let packet = self.pool.take(index, &mut flow.queue, |store, queue| {
                aqm.dequeue(&mut flow.state, store, queue, self.latest, out)
            });
            if let Some(packet) = packet {
                flow.deficit.spend(packet.size().as_u64() as i64);
                return Some(packet);
            }
            self.links.remove(if from_new { &mut self.new } else { &mut self.old }, index);
            flow.place = flow.place.once_empty(!self.old.is_empty());
            if flow.place == Place::Old {
                self.links.push_back(&mut self.old, index);
            }
        }
    }

    fn deadline(&self, _now: Instant) -> Deadline {
        self.pool.deadline()
    }

    fn backlog(&self) -> Backlog {
        self.pool.backlog()
    }
}

//! Classes of the shaper with a discipline of their own, instead of queues per flow, behind their bucket.
//!
//! *Law*: that of [`fbq`](crate::fbq) between the classes; within a class that of its discipline, which is dequeued
//! only when the class has no packet staged. At most one packet of it is staged.
//! *Source*: the tree of the Linux QoS framework that the FBQ paper builds on (section 4).
//! *Units*: those of the disciplines.
//! *Cost*: that of the two disciplines, and O(log m) in the m classes with a discipline of their own.
//! *Notes*: the shaper sees the packets of such a class as one flow. Per-flow features (minimum, feedback,
//! displacement) do not apply to it.
//! *Departures*: if the discipline of a class delays packets itself (a shaper), law 3 holds in a weaker form: at its
//! deadline the packet is staged in the class, and leaves then only if the class has credit for it. The shortfall
//! cannot be computed earlier, because a discipline does not reveal its next packet.
//! *See also*: CBQ, for link sharing of any depth.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::dualpi2::Coupled;
use crate::fbq::Fbc;
use crate::heap::{Heap, NOWHERE};
use crate::packet::{ClassId, Colour, Dscp, Ecn, FlowKey, Packet};
use crate::qdisc::{Backlog, Deadline, DropReason, Event, Outlet, Qdisc, Queued};
use tidegate_units::{Bytes, Instant};

/// A packet in the shaper: of its own flow, or of the single flow of a class with a discipline.
#[derive(Clone, Debug)]
pub struct Staged<P> {
    packet: P,
    /// Whether its class has a discipline.
    nested: bool,
}

/// The single flow of a class with a discipline, to the shaper.
fn flow_of(class: ClassId) -> u64 {
    u64::MAX - u64::from(class.0)
}

impl<P: Packet> Packet for Staged<P> {
    fn size(&self) -> Bytes {
        self.packet.size()
    }
    fn flow(&self) -> FlowKey {
        if self.nested { FlowKey::numbered(flow_of(self.class())) } else { self.packet.flow() }
    }
    fn flow_slot(&self) -> u32 {
        self.packet.flow_slot()
    }
    fn class(&self) -> ClassId {
        self.packet.class()
    }
    fn leaves_by(&mut self, class: ClassId) {
        self.packet.leaves_by(class);
    }
    fn profile(&self) -> u32 {
        if self.nested { NO_PROFILE } else { self.packet.profile() }
    }
    fn dscp(&self) -> Dscp {
        self.packet.dscp()
    }
    fn set_dscp(&mut self, dscp: Dscp) {
        self.packet.set_dscp(dscp);
    }
    fn ecn(&self) -> Ecn {
        self.packet.ecn()
    }
    fn mark_ce(&mut self) -> bool {
        self.packet.mark_ce()
    }
    fn colour(&self) -> Colour {
        self.packet.colour()
    }
    fn set_colour(&mut self, colour: Colour) {
        self.packet.set_colour(colour);
    }
    fn segments(&self) -> u32 {
        self.packet.segments()
    }
    fn is_pure_ack(&self) -> bool {
        self.packet.is_pure_ack()
    }
    fn remaining(&self) -> Option<Bytes> {
        self.packet.remaining()
    }
}

/// The profile of the single flow of a class with a discipline: that of no rule, whatever the rules of its packets.
const NO_PROFILE: u32 = u32::MAX;

/// Unwraps the packets that the shaper drops.
struct Unwrap<'a, P>(&'a mut dyn Outlet<P>);

impl<P> Outlet<Staged<P>> for Unwrap<'_, P> {
    fn dropped(&mut self, staged: Staged<P>, reason: DropReason) {
        self.0.dropped(staged.packet, reason);
    }
    fn event(&mut self, event: Event) {
        self.0.event(event);
    }
}

/// The discipline of one class.
struct Inner<P> {
    queue: Box<dyn Qdisc<P>>,
    /// Whether one of its packets is in the shaper.
    staged: bool,
}

/// An FBC in which some classes have a discipline of their own. See the [module](self).
pub struct Nested<P> {
    fbc: Fbc<Staged<P>>,
    inner: Vec<Option<Inner<P>>>,
    /// Classes without a staged packet, by the deadline of their discipline.
    waiting: Heap<Instant>,
    waiting_at: Vec<u32>,
    /// The packets in the disciplines, without staged ones.
    inside: Backlog,
    now: Instant,
}

impl<P: Packet> Nested<P> {
    /// Adds `queues`, one for each class with a discipline of its own, to the classes of `fbc`.
    pub fn new(fbc: Fbc<Staged<P>>, queues: Vec<Option<Box<dyn Qdisc<P>>>>) -> Self {
        let inner: Vec<_> = queues.into_iter().map(|queue| queue.map(|queue| Inner { queue, staged: false })).collect();
        Self {
            fbc,
            waiting: Heap::new(),
            waiting_at: vec![NOWHERE; inner.len()],
            inner,
            inside: Backlog::default(),
            now: Instant::ZERO,
        }
    }
    /// Returns the FBC that shapes the classes.
    pub fn fbc(&self) -> &Fbc<Staged<P>> {
        &self.fbc
    }
    /// The shaper, for changes. Packets must only pass through [`Nested`].
    pub fn fbc_mut(&mut self) -> &mut Fbc<Staged<P>> {
        &mut self.fbc
    }

    /// Calls `work` on the discipline of class `q` and updates the backlog.
    fn with<T>(&mut self, q: usize, work: impl FnOnce(&mut dyn Qdisc<P>) -> T) -> Option<T> {
        let inner = self.inner.get_mut(q)?.as_mut()?;
        let before = inner.queue.backlog();
        let result = work(inner.queue.as_mut());
        let after = inner.queue.backlog();
        self.inside.packets = self.inside.packets + after.packets - before.packets;
        self.inside.bytes = self.inside.bytes + after.bytes - before.bytes;
        Some(result)
    }

    /// Stages the next packet of class `q` if none is staged, or records its deadline. Returns the flow of the staged packet
    /// and where it is.
    fn refill(&mut self, now: Instant, q: usize, out: &mut dyn Outlet<P>) -> Option<(u64, Queued)> {
        let mut result = None;
        let is_staged = |nested: &Self| nested.inner[q].as_ref().is_none_or(|inner| inner.staged);
        // A packet that the shaper rejects is dropped, and the next one is tried. This repeats only where the limit
        // of a class is smaller than a packet, which a validated configuration rules out.
        while !is_staged(self) {
            let Some(Some(packet)) = self.with(q, |queue| queue.dequeue(now, out)) else { break };
            let (flow, before) = (packet.flow().flow, self.fbc.backlog().packets);
            result = Some((flow, self.fbc.enqueue(now, Staged { packet, nested: true }, &mut Unwrap(out))));
            if let Some(inner) = &mut self.inner[q] {
                inner.staged = self.fbc.backlog().packets > before;
            }
        }
        let next = match &self.inner[q] {
            Some(inner) if !inner.staged => inner.queue.deadline(now).instant(now),
            _ => None,
        };
        let at = self.waiting_at[q];
        match next {
            Some(time) => self.waiting.set(at, time, q as u32, &mut |id, to| self.waiting_at[id as usize] = to),
            None => self.waiting.remove(at, &mut |id, to| self.waiting_at[id as usize] = to),
        }
        result
    }

    /// The flow that the shaper takes packets of `flow` in `class` for: the single one of a class with a discipline of its own.
    pub fn scheduled_as(&self, flow: u64, class: ClassId) -> u64 {
        if self.has_own(class) { flow_of(class) } else { flow }
    }

    /// Whether a class has a discipline of its own.
    pub fn has_own(&self, class: ClassId) -> bool {
        self.inner.get(class.0 as usize).is_some_and(Option::is_some)
    }
}

impl<P: Packet> Qdisc<P> for Nested<P> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.now = self.now.max(now);
        let now = self.now;
        let q = packet.class().0 as usize;
        if self.has_own(packet.class()) {
            let key = packet.flow().flow;
            self.with(q, |queue| queue.enqueue(now, packet, out));
            match self.refill(now, q, out) {
                Some((flow, queued)) if flow == key => queued,
                _ => Queued::default(),
            }
        } else {
            self.fbc.enqueue(now, Staged { packet, nested: false }, &mut Unwrap(out))
        }
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.now = self.now.max(now);
        let now = self.now;
        while let Some((time, q)) = self.waiting.peek()
            && time <= now
        {
            self.refill(now, q as usize, out);
            if self.waiting.peek() == Some((time, q)) {
                break;
            }
        }
        let staged = self.fbc.dequeue(now, &mut Unwrap(out))?;
        let q = staged.packet.class().0 as usize;
        if let Some(Some(inner)) = self.inner.get_mut(q) {
            inner.staged = false;
            self.refill(now, q, out);
        }
        Some(staged.packet)
    }

    fn deadline(&self, now: Instant) -> Deadline {
        let now = self.now.max(now);
        let shaper = self.fbc.deadline(now);
        self.waiting.peek().map_or(shaper, |(time, _)| shaper.min(Deadline::at(time, now)))
    }

    fn backlog(&self) -> Backlog {
        let fbc = self.fbc.backlog();
        Backlog { packets: fbc.packets + self.inside.packets, bytes: fbc.bytes + self.inside.bytes }
    }

    fn coupled(&self, class: ClassId, now: Instant) -> Option<Coupled> {
        self.inner.get(class.0 as usize)?.as_ref()?.queue.coupled(class, now)
    }
}

//! [`Qdisc`]: the trait of all queueing disciplines, and the laws they obey.

pub mod accounts;
pub mod any_packet;
pub mod cake;
pub mod cbq;
pub mod drr;
pub mod dualpi2;
pub mod fbq;
pub mod fifo;
pub(crate) mod flow_queues;
pub mod fq_codel;
pub mod fq_pie;
pub mod hfsc;
pub mod htb;
pub mod nested;
pub mod ras;
pub mod sfq;
pub mod tbf;
pub mod wf2q;
pub mod wfq;

use alloc::vec::Vec;

use crate::dualpi2::Coupled;
use crate::packet::{ClassId, NO_SLOT, Packet};
use crate::probability::Probability;
use tidegate_units::{Bytes, Instant};

/// A queueing discipline.
///
/// # The laws
/// `tidegate-laws` asserts them after every call, for every discipline of this crate.
///
/// 1. **Conservation**, in packets and in bytes: every enqueued packet has left, was dropped, or is in the backlog.
///    A packet that will not be delivered is passed to the [`Outlet`] with its reason during the same call.
/// 2. **Time never runs back.** A call with an earlier `now` than a previous call has the same effect as one with the
///    latest `now` so far: no credit is gained or lost.
/// 3. **Deadlines are exact.** At [`Deadline::At`]`(t)` a `dequeue` returns a packet or drops one; at `t - 1 ns` it
///    does neither. [`Deadline::Now`] means that a `dequeue` at this `now` does so; [`Deadline::Idle`] that none will
///    until an `enqueue` or a change. A deadline is valid until the next call that takes `&mut self`.
/// 4. **Work is bounded**, and each discipline states its bound; it never grows linearly with flows or classes.
/// 5. **Same inputs, same outputs**, bit for bit, on every machine.
/// 6. **Order within a flow** is kept: of two packets with the same [`FlowKey::flow`](crate::FlowKey) the one that
///    was enqueued first leaves first, also when the flow is moved to another class.
///
/// A discipline is `Send`: the live data path runs on its own thread.
///
/// There is no `peek`: a shaper stages at most one packet, and a staged packet counts in the backlog. Calling
/// `dequeue` too early is harmless (it returns `None`); calling it late delays packets, and the manual of a shaper
/// states how much lateness it compensates.
pub trait Qdisc<P: Packet>: Send {
    /// Enqueues `packet` at `now`, and returns where its flow is. Packets that are rejected or displaced by it go to
    /// `out`.
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued;

    /// Returns the packet that leaves at `now`, if any. Packets dropped on the way go to `out`.
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P>;

    /// When `dequeue` next returns or drops a packet, if no other call happens before.
    fn deadline(&self, now: Instant) -> Deadline;

    /// The queued packets, staged ones included. O(1).
    fn backlog(&self) -> Backlog;

    /// The probability with which its active queue management drops or marks the next arrival, where one probability
    /// holds for the whole queue: for statistics. Default none.
    fn probability(&self) -> Option<Probability> {
        None
    }

    /// The coupled queues in which packets of `class` wait, if they do: for statistics. A discipline without classes has the same for
    /// each. Default none.
    fn coupled(&self, _class: ClassId, _now: Instant) -> Option<Coupled> {
        None
    }
}

/// The result of [`Qdisc::enqueue`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queued {
    /// The slot of the packet's flow in the flow table of the discipline, to be returned by [`Packet::flow_slot`] of the
    /// flow's next packet. [`NO_SLOT`] if the discipline has no flow table or no room in it.
    pub slot: u32,
}

impl Default for Queued {
    fn default() -> Self {
        Self { slot: NO_SLOT }
    }
}

/// When `dequeue` must be called next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deadline {
    /// A `dequeue` at this `now` has an effect.
    Now,
    /// A `dequeue` at this instant has an effect, and an earlier one has none.
    At(Instant),
    /// No `dequeue` has an effect until the next `enqueue` or change.
    Idle,
}

impl Deadline {
    /// `At(t)`, or `Now` when `t` is not later than `now`.
    pub fn at(t: Instant, now: Instant) -> Self {
        if t <= now { Self::Now } else { Self::At(t) }
    }
    /// The earlier of the two.
    pub fn min(self, other: Self) -> Self {
        match (self, other) {
            (Self::Now, _) | (_, Self::Now) => Self::Now,
            (Self::Idle, d) | (d, Self::Idle) => d,
            (Self::At(a), Self::At(b)) => Self::At(if a < b { a } else { b }),
        }
    }
    /// The instant, `now` for [`Deadline::Now`], or `None` when idle.
    pub fn instant(self, now: Instant) -> Option<Instant> {
        match self {
            Self::Now => Some(now),
            Self::At(t) => Some(t),
            Self::Idle => None,
        }
    }
}

/// The packets that a discipline holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// The number of packets.
    pub packets: u64,
    /// Their size in total, link overhead included.
    pub bytes: Bytes,
}

impl Backlog {
    /// Adds a packet of `size`.
    pub fn add(&mut self, size: Bytes) {
        self.packets += 1;
        self.bytes += size;
    }
    /// Removes a packet of `size`.
    pub fn remove(&mut self, size: Bytes) {
        debug_assert!(self.packets > 0, "backlog below zero");
        self.packets -= 1;
        self.bytes -= size;
    }
    /// Adds what is queued elsewhere.
    pub fn merge(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
    /// Whether no packet is queued.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }
}

/// Why a packet will not be delivered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum DropReason {
    /// The queue of the whole discipline is full.
    QueueLimit,
    /// The queue of its flow is full, or its flow exceeds its share of the buffer.
    FlowLimit,
    /// The queue of its class is full.
    ClassLimit,
    /// Larger than the burst of its bucket, so that it could never leave.
    LargerThanBurst,
    /// An AQM dropped it by probability or by its control law.
    Early,
    /// An AQM dropped it because the average or estimate exceeded the hard limit.
    Forced,
    /// It was queued longer than the discipline allows.
    TooOld,
    /// A policer found that it exceeds its profile.
    Policed,
    /// A later acknowledgement supersedes it.
    AckFiltered,
    /// No class accepts it.
    NoClass,
    /// The discipline is being removed or replaced, or its interface went down.
    Flushed,
}

impl DropReason {
    /// Every reason, in the order of the declaration.
    pub const ALL: [Self; 11] = [
        Self::QueueLimit,
        Self::FlowLimit,
        Self::ClassLimit,
        Self::LargerThanBurst,
        Self::Early,
        Self::Forced,
        Self::TooOld,
        Self::Policed,
        Self::AckFiltered,
        Self::NoClass,
        Self::Flushed,
    ];
    /// The name in tables and machine-readable output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueLimit => "queue_limit",
            Self::FlowLimit => "flow_limit",
            Self::ClassLimit => "class_limit",
            Self::LargerThanBurst => "larger_than_burst",
            Self::Early => "early",
            Self::Forced => "forced",
            Self::TooOld => "too_old",
            Self::Policed => "policed",
            Self::AckFiltered => "ack_filtered",
            Self::NoClass => "no_class",
            Self::Flushed => "flushed",
        }
    }
}

/// An event of a flow that a discipline reports: the feedback of the end-system shaper, and marks. A call reports at
/// most a constant number of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The first packet of a flow arrived.
    FlowStarted {
        /// The key of the flow.
        flow: u64,
        /// Its class.
        class: ClassId,
    },
    /// A flow was idle for longer than the idle timeout, and its state was removed.
    FlowEnded {
        /// The key of the flow.
        flow: u64,
        /// Its class.
        class: ClassId,
    },
    /// The bytes queued for a flow reached its upper threshold.
    QueueAbove {
        /// The key of the flow.
        flow: u64,
        /// Bytes queued now.
        bytes: Bytes,
    },
    /// The bytes queued for a flow fell to its lower threshold.
    QueueBelow {
        /// The key of the flow.
        flow: u64,
        /// Bytes queued now.
        bytes: Bytes,
    },
    /// A flow was moved to another class with its queue.
    Moved {
        /// The key of the flow.
        flow: u64,
        /// The class it left.
        from: ClassId,
        /// The class it is in now.
        to: ClassId,
    },
    /// A packet of the flow was marked congestion experienced.
    Marked {
        /// The key of the flow.
        flow: u64,
    },
    /// Queue protection put a flow of the low-latency queue under sanction.
    Sanctioned {
        /// The key of the flow.
        flow: u64,
        /// The class of the packet.
        class: ClassId,
    },
    /// The last packet of a flow that was under sanction has left, and the next may wait in the low-latency queue.
    Released {
        /// The key of the flow.
        flow: u64,
        /// The class of the packet.
        class: ClassId,
    },
}

impl Event {
    /// The flow that the event is about.
    pub const fn flow(&self) -> u64 {
        match *self {
            Self::FlowStarted { flow, .. }
            | Self::FlowEnded { flow, .. }
            | Self::QueueAbove { flow, .. }
            | Self::QueueBelow { flow, .. }
            | Self::Moved { flow, .. }
            | Self::Sanctioned { flow, .. }
            | Self::Released { flow, .. }
            | Self::Marked { flow } => flow,
        }
    }
}

/// Receives the drops and events of a call.
pub trait Outlet<P> {
    /// `packet` was dropped.
    fn dropped(&mut self, packet: P, reason: DropReason);
    /// Drops a packet that a discipline does not accept: the result of its [`Qdisc::enqueue`].
    fn refused(&mut self, packet: P, reason: DropReason) -> Queued {
        self.dropped(packet, reason);
        Queued::default()
    }
    /// An event of a flow. The default ignores it.
    fn event(&mut self, _event: Event) {}
}

/// Collects drops, for tests.
impl<P> Outlet<P> for Vec<(P, DropReason)> {
    fn dropped(&mut self, packet: P, reason: DropReason) {
        self.push((packet, reason));
    }
}

/// An outlet that ignores drops and events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Discard;

impl<P> Outlet<P> for Discard {
    fn dropped(&mut self, _packet: P, _reason: DropReason) {}
}

impl<P: Packet, Q: Qdisc<P> + ?Sized> Qdisc<P> for alloc::boxed::Box<Q> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        (**self).enqueue(now, packet, out)
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        (**self).dequeue(now, out)
    }
    fn deadline(&self, now: Instant) -> Deadline {
        (**self).deadline(now)
    }
    fn backlog(&self) -> Backlog {
        (**self).backlog()
    }
    fn probability(&self) -> Option<Probability> {
        (**self).probability()
    }
    fn coupled(&self, class: ClassId, now: Instant) -> Option<Coupled> {
        (**self).coupled(class, now)
    }
}

//! [`Qdisc`]: the one trait of all queueing disciplines, and the laws they obey.

use crate::packet::{ClassId, Packet};
use tidegate_units::{Bytes, Instant};

/// A queueing discipline.
///
/// # The laws
/// `tidegate-laws` asserts them after every call, for every discipline that exists.
///
/// 1. **Conservation**, in packets and in bytes: what was enqueued has left, was dropped, or is in the backlog.
///    Every packet that will not be delivered is handed to the [`Outlet`] with its reason, at once.
/// 2. **Time never runs back.** When a call carries an earlier `now` than the one before, the state holds still as
///    if it carried the same: no credit is gained, none is lost.
/// 3. **Deadlines are exact.** At [`Deadline::At`]`(t)` a `dequeue` gives a packet or hands one to the outlet; at
///    `t - 1 ns` it does neither. [`Deadline::Now`] means a `dequeue` at this `now` does it; [`Deadline::Idle`]
///    that none will until an `enqueue` or a change. An answer goes stale with the next call that is not `&self`.
/// 4. **Work is bounded**, and each discipline states its bound; it never grows linearly with flows or classes.
/// 5. **Same inputs, same outputs**, bit for bit, on every machine.
/// 6. **Order within a flow** is kept: of two packets with the same [`FlowKey::flow`](crate::FlowKey) the one that
///    was enqueued first leaves first, also when the flow is moved to another class.
///
/// A discipline can be handed to another thread (`Send`): the live data path has one of its own.
///
/// There is no `peek`: a shaper stages at most one packet inside, and a staged packet counts in the backlog.
/// Calling `dequeue` too early is harmless (it gives nothing); calling it late costs the delay, and a shaper says
/// in its manual what lateness it makes up for.
pub trait Qdisc<P: Packet>: Send {
    /// Takes `packet` at `now`. What is refused, or pushed out by it, goes to `out`.
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>);

    /// The packet that leaves at `now`, if one may. What is dropped on the way goes to `out`.
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P>;

    /// When `dequeue` next gives or drops something, if nothing else happens until then.
    fn deadline(&self, now: Instant) -> Deadline;

    /// What waits inside, staged packets included. Constant time.
    fn backlog(&self) -> Backlog;
}

/// When a discipline wants to be asked again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deadline {
    /// A call now does something.
    Now,
    /// A call at this instant does something, and none before.
    At(Instant),
    /// Nothing to do.
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

/// What waits in a discipline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: Bytes,
}

impl Backlog {
    /// One more packet of `size`.
    pub fn add(&mut self, size: Bytes) {
        self.packets += 1;
        self.bytes += size;
    }
    /// One packet of `size` fewer.
    pub fn remove(&mut self, size: Bytes) {
        debug_assert!(self.packets > 0, "backlog below zero");
        self.packets -= 1;
        self.bytes -= size;
    }
    /// Whether nothing waits.
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
    /// The queue of its flow is full, or its flow has more than its part of the buffer.
    FlowLimit,
    /// The queue of its class is full.
    ClassLimit,
    /// Larger than the burst it must fit into, so that it could never leave.
    LargerThanBurst,
    /// An active queue management dropped it early.
    Early,
    /// An active queue management dropped it because the average or estimate was beyond its hard limit.
    Forced,
    /// It waited longer than the discipline allows.
    TooOld,
    /// A policer found that it exceeds what was agreed.
    Policed,
    /// A later acknowledgement says the same.
    AckFiltered,
    /// No class takes it.
    NoClass,
    /// The discipline is being taken down or replaced.
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
    /// A name for tables and machine output.
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

/// Something a discipline tells about a flow, besides packets: the feedback of the end-system shaper and what
/// other disciplines have to say. Never more than a constant number a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A flow was seen for the first time.
    FlowStarted {
        /// The flow.
        flow: u64,
        /// Its class.
        class: ClassId,
    },
    /// A flow was silent for longer than the idle timeout, and is forgotten.
    FlowEnded {
        /// The flow.
        flow: u64,
        /// Its class.
        class: ClassId,
    },
    /// The fill of a flow's queue rose to its upper threshold or above.
    QueueAbove {
        /// The flow.
        flow: u64,
        /// Its queue now.
        bytes: Bytes,
    },
    /// The fill of a flow's queue fell to its lower threshold or below.
    QueueBelow {
        /// The flow.
        flow: u64,
        /// Its queue now.
        bytes: Bytes,
    },
    /// A flow was moved to another class, with its queue.
    Moved {
        /// The flow.
        flow: u64,
        /// The class it left.
        from: ClassId,
        /// The class it is in now.
        to: ClassId,
    },
    /// A packet of the flow was marked congestion experienced.
    Marked {
        /// The flow.
        flow: u64,
    },
}

impl Event {
    /// The flow it is about.
    pub const fn flow(&self) -> u64 {
        match *self {
            Self::FlowStarted { flow, .. }
            | Self::FlowEnded { flow, .. }
            | Self::QueueAbove { flow, .. }
            | Self::QueueBelow { flow, .. }
            | Self::Moved { flow, .. }
            | Self::Marked { flow } => flow,
        }
    }
}

/// Where a discipline puts what does not leave by the front door.
pub trait Outlet<P> {
    /// `packet` will not be delivered.
    fn dropped(&mut self, packet: P, reason: DropReason);
    /// Something happened that the owner of a flow may want to know. Ignored by default.
    fn event(&mut self, _event: Event) {}
}

/// An outlet that keeps what was dropped, for tests.
impl<P> Outlet<P> for alloc::vec::Vec<(P, DropReason)> {
    fn dropped(&mut self, packet: P, reason: DropReason) {
        self.push((packet, reason));
    }
}

/// An outlet that forgets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Discard;

impl<P> Outlet<P> for Discard {
    fn dropped(&mut self, _packet: P, _reason: DropReason) {}
}

impl<P: Packet, Q: Qdisc<P> + ?Sized> Qdisc<P> for alloc::boxed::Box<Q> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) {
        (**self).enqueue(now, packet, out);
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
}

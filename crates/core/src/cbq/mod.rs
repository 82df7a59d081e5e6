//! Class-based queueing: a tree of classes that share a link. Each class is guaranteed its rate, and unused rate is
//! lent to others by the link-sharing guidelines.
//!
//! *Law*: a leaf sends exactly when it is not over limit, or when the link-sharing guideline allows it to borrow from
//! an ancestor that is not over limit. Of the leaves that may send, those of the highest priority do, each in
//! proportion to its rate. See [`estimator`] for the definition of "over limit", [`sharing`] for the guidelines.
//! *Source*: S. Floyd and V. Jacobson, "Link-sharing and resource management models for packet networks", 1995, for
//! the algorithm; F. Risso and P. Gevros, "Operational and performance issues of a CBQ router", 1999, for the rules
//! of the implementation they measured, its defects and their corrections. Section numbers refer to the latter.
//! *Units*: rates in bit/s, sizes in bytes as reported by the packet, times in ns.
//! *Cost*: for a tree of depth d with n backlogged classes, O(d log n) per call, independent of the number of other
//! classes. A class that comes below its limit costs O(d log n) once, in the call that detects it. No allocation once
//! every class has reached its longest queue. `deadline` is O(1), except for classes whose queue delays packets: it
//! examines each of these that releases a packet before the result.
//! *Notes*: at most 31 levels, 8 priorities (0 goes first), class numbers below 2^20. A class needs a rate of at
//! least 1 bit/s, and the sum of the rates under a class may not exceed its own. A packet of an unknown class goes to
//! the default class, or is dropped with [`DropReason::NoClass`].
//!
//! Call the scheduler when the link, or the driver before it, can take a packet. It knows the link's rate and keeps a
//! clock of when the packets it released are expected to have left. A driver that takes many packets at once makes
//! this clock run ahead of time; [`LinkClock`] selects what happens then.
//!
//! # The defects that the paper found, and their corrections
//! [`Params::new`] has the corrections, [`Params::altq`] the defects; each can be selected separately.
//!
//! | defect | section | parameter |
//! | --- | --- | --- |
//! | the under-time is taken from the expected finish time, and classes wait too long | 6, 6.1 | [`Finish`] |
//! | the clock of expected finish times is set back, and every class appears over limit | 6.1 | [`LinkClock`] |
//! | a suspended class stays suspended although its parent has come below its limit | 6.1 | [`Regulation`] |
//! | `efficient` fills the driver's buffers and hurts TCP | 6.1 | [`Conserving`] |
//! | packets wait in the driver, outside the classes | 4, 5 | [`Lead`] |
//! | the rate depends on a configured packet size | 6.3 | [`Accounting`] |
//! | larger bursts cost throughput | 6.4 | [`Accounting`] |
//!
//! # Departures from the sources, and why
//! - "At limit" is one nanosecond wide here: a class is either over its limit or not.
//! - For the formal guideline a class is unsatisfied only because of a descendant that may borrow from it. Otherwise
//!   a backlogged class that may not borrow could keep the link idle for all its ancestors.
//! - Only the class whose own packet took it over its limit is suspended. The implementation also suspended every
//!   class that its scan of the ring visited, which is linear work.
//! - A class keeps its position in the round while it may not send, and loses the turns it could not use. One that
//!   becomes backlogged again within a round has the rest of its turn, and no more.
//! - A turn that needs the allotments of several rounds (small class, large packet) is granted in one step; the order
//!   is the same as with the rounds one by one.
//!
//! *See also*: a hierarchical token bucket bounds the same rates but lends by ceilings, not by guidelines; fair
//! bandwidth queueing shares per flow within a class.
//!
//! ```
//! use tidegate_core::{cbq::{Cbq, Class, Params}, fifo::{Fifo, Limit}, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u32, u64);
//! # impl Packet for P {
//! #     fn size(&self) -> Bytes { Bytes::new(self.1) }
//! #     fn flow(&self) -> FlowKey { FlowKey::default() }
//! #     fn class(&self) -> ClassId { ClassId(self.0) }
//! # }
//! let root = ClassId(1);
//! let mut cbq = Cbq::<P>::new(Params::new(Rate::from_mbit(10), Bytes::new(1500), root))?;
//! let queue = || Box::new(Fifo::new(Limit::packets(50)));
//! cbq.add_leaf(Instant::ZERO, ClassId(2), root, Class::new(Rate::from_mbit(7)).borrowing(), queue())?;
//! cbq.add_leaf(Instant::ZERO, ClassId(3), root, Class::new(Rate::from_mbit(3)), queue())?;
//! cbq.enqueue(Instant::ZERO, P(3, 1500), &mut Discard);
//! assert_eq!(cbq.dequeue(Instant::ZERO, &mut Discard).unwrap().0, 3);
//! # Ok::<(), cbq::TreeError>(())
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::accounts::Account;
use crate::heap::Heap;
use crate::packet::{ClassId, Packet};
use crate::params::ParamError;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc};
use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

pub mod estimator;
mod replacement;
mod scheduler;
pub mod sharing;
mod tree;

pub use estimator::{Accounting, Estimate, Finish};
pub use sharing::{Heuristic, Sharing};
pub use tree::{Removal, TreeError};

use scheduler::{Leaf, Ring};
use tree::Node;

/// The number of priorities.
pub const PRIORITIES: usize = 8;
/// The number of levels. Leaves are level 1; the root is at most this level.
pub const LEVELS: usize = 31;

/// How the general scheduler shares among the classes of a priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum General {
    /// Packet round robin: each class one packet a round.
    PacketRoundRobin,
    /// Weighted round robin: per round each class may send its part, by rate, of the number of classes times the
    /// largest packet.
    WeightedRoundRobin,
}

/// What a regulated class waits for. A class is regulated when it is backlogged, its last packet took it over its
/// limit, and it may not borrow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Regulation {
    /// Its own under-time, or an ancestor below its limit, whichever comes first: the 1995 paper.
    Recheck,
    /// Its own under-time, even when an ancestor comes below its limit: the implementation that the paper measured.
    Sleep,
}

/// What happens when classes are backlogged and none may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conserving {
    /// The link stays idle.
    Strict,
    /// The next class in the round that may borrow sends at once: the option `efficient`. The driver gets packets as
    /// long as it takes any, and its buffers stay full.
    Efficient,
    /// The next class in the round that may borrow sends, but only when the packets released so far are expected to
    /// have left the link: the link is never idle, and no buffer fills.
    WhenLinkIdle,
}

/// What happens when the clock of expected finish times runs ahead because the driver takes packets faster than the
/// link sends them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkClock {
    /// Beyond this lead it is set back to the present, so that every class appears to have sent its last packet in no
    /// time: the implementation that the paper measured.
    Reset(Span),
    /// It leads by at most this, or by [`Lead`] and the packet that leaves, if that is more. Beyond it, packets that
    /// leave faster than the link's rate are charged as such.
    Clamp(Span),
}

/// How far ahead of the link packets are released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lead {
    /// As fast as the driver takes them: its buffers fill, and the scheduler does not control what they hold.
    Unbounded,
    /// No packet is released while previous ones are expected to occupy the link for longer than this. The rate of
    /// the root is then a limit also for a faster driver.
    Within(Span),
}

/// Whether a class may borrow from its parent, and through it from those that the parent may borrow from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Borrow {
    /// It uses only its own rate.
    #[default]
    Never,
    /// It may use the unused rate of its parent.
    FromParent,
}

/// The parameters of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The root class, whose rate is the link's.
    pub root: ClassId,
    /// The rate of the link.
    pub link: Rate,
    /// The largest packet of the link: the unit of a WRR round, and the default packet size of classes.
    pub mtu: Bytes,
    /// How the classes of a priority take turns.
    pub general: General,
    /// Which classes may borrow.
    pub sharing: Sharing,
    /// How the use of the link is measured.
    pub accounting: Accounting,
    /// The origin of an under-time. [`Accounting::Bytes`] does not need it.
    pub finish: Finish,
    /// What a regulated class waits for.
    pub regulation: Regulation,
    /// What happens when no class may send.
    pub conserving: Conserving,
    /// What happens when the link clock runs ahead.
    pub link_clock: LinkClock,
    /// How far ahead of the link packets are released.
    pub lead: Lead,
    /// The burst of the root, in packets of `mtu`: how far the driver may be ahead of the link before borrowing
    /// stops, with [`Accounting::Bytes`].
    pub root_burst: u32,
    /// The class for packets of an unknown class; `None` drops them.
    pub default: Option<ClassId>,
    /// The lateness of `dequeue` that is compensated: a packet that could have been released at most this long ago
    /// counts as released then, so that a process that is scheduled late does not lose capacity. Zero in a
    /// simulation.
    pub catch_up: Span,
}

impl Params {
    /// The corrected parameters: exact bytes, formal link sharing, WRR, no sleeping, a link that is not idle while a
    /// class that may borrow is backlogged, a clock that is never set back, and a lead of two packets or half a
    /// millisecond, whichever is more. Timer lateness up to the lead costs nothing (for borrowers, up to 256 packets
    /// of it).
    pub fn new(link: Rate, mtu: Bytes, root: ClassId) -> Self {
        let lead = Self::packets(link, mtu, 2).max(Span::from_micros(500));
        // A borrower may be as far ahead as the lead; otherwise lateness would cost it what it does not cost others.
        let burst = link.bytes_in_floor(lead).as_u64() / mtu.as_u64().max(1) + 1;
        Self {
            root,
            link,
            mtu,
            general: General::WeightedRoundRobin,
            sharing: Sharing::Formal,
            accounting: Accounting::Bytes,
            finish: Finish::Actual,
            regulation: Regulation::Recheck,
            conserving: Conserving::WhenLinkIdle,
            link_clock: LinkClock::Clamp(Self::packets(link, mtu, 16).max(Span::from_millis(10))),
            lead: Lead::Within(lead),
            root_burst: burst.clamp(16, u64::from(MAX_BURST)) as u32,
            default: None,
            catch_up: Span::ZERO,
        }
    }

    /// The implementation that the paper measured, with its defects: average idle time with a gain of 5, top-level
    /// link sharing, under-times from the expected finish time, sleeping classes, a clock that is set back when it
    /// leads by sixteen packets, and packets released as fast as the driver takes them.
    pub fn altq(link: Rate, mtu: Bytes, root: ClassId) -> Self {
        Self {
            sharing: Sharing::TopLevel(Heuristic::Altq),
            accounting: Accounting::IdleTime { gain: 5 },
            finish: Finish::Expected,
            regulation: Regulation::Sleep,
            conserving: Conserving::Strict,
            link_clock: LinkClock::Reset(Self::packets(link, mtu, 16)),
            lead: Lead::Unbounded,
            ..Self::new(link, mtu, root)
        }
    }

    fn packets(link: Rate, mtu: Bytes, n: u64) -> Span {
        link.time_for_ceil(mtu.saturating_mul(n)).unwrap_or(Span::MAX)
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn validate(&self) -> Result<(), ParamError> {
        if self.link.is_zero() {
            return Err(ParamError::new("link", "a link of rate zero sends nothing; give its rate"));
        }
        if self.mtu == Bytes::ZERO || self.mtu > Bytes::new(1 << 24) {
            return Err(ParamError::new("mtu", "the largest packet must have 1 to 16777216 bytes"));
        }
        if let Accounting::IdleTime { gain } = self.accounting
            && !(1..=12).contains(&gain)
        {
            return Err(ParamError::new("accounting.gain", "the weight is 2^-gain, with a gain of 1 to 12"));
        }
        if !(1..=MAX_BURST).contains(&self.root_burst) {
            return Err(ParamError::new("root_burst", "the burst of the root must be 1 to 256 packets"));
        }
        Ok(())
    }
}

const MAX_BURST: u32 = 256;

/// The parameters of one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// The guaranteed rate. The sum of the rates under a class may not exceed its own.
    pub rate: Rate,
    /// 0 is served first; below [`PRIORITIES`]. Only that of leaves matters.
    pub priority: u8,
    /// Whether it may borrow.
    pub borrow: Borrow,
    /// The size of its packets, for [`Accounting::IdleTime`]; the link's largest packet when `None`.
    pub packet_size: Option<Bytes>,
    /// Packets it may send back to back after an idle period, 1 to 256.
    pub max_burst: u32,
    /// Packets it may send back to back after a suspension, 1 to 256.
    pub min_burst: u32,
}

impl Class {
    /// A class of `rate` that does not borrow, of priority 1, with bursts of 16 and 2 packets, the defaults of the
    /// implementation that the paper measured.
    pub const fn new(rate: Rate) -> Self {
        Self { rate, priority: 1, borrow: Borrow::Never, packet_size: None, max_burst: 16, min_burst: 2 }
    }
    /// The same, borrowing from its parent.
    #[must_use]
    pub const fn borrowing(self) -> Self {
        Self { borrow: Borrow::FromParent, ..self }
    }
    /// Returns the leaf with another priority.
    #[must_use]
    pub const fn with_priority(self, priority: u8) -> Self {
        Self { priority, ..self }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn validate(&self) -> Result<(), ParamError> {
        if self.rate.is_zero() {
            return Err(ParamError::new(
                "rate",
                "a class of rate zero would never be below its limit; give it a small rate and let it borrow",
            ));
        }
        if usize::from(self.priority) >= PRIORITIES {
            return Err(ParamError::new("priority", "priorities are 0, which goes first, to 7"));
        }
        if self.packet_size == Some(Bytes::ZERO) {
            return Err(ParamError::new("packet_size", "a packet has at least one byte"));
        }
        if !(1..=MAX_BURST).contains(&self.max_burst) {
            return Err(ParamError::new("max_burst", "a burst has 1 to 256 packets"));
        }
        if !(1..=MAX_BURST).contains(&self.min_burst) {
            return Err(ParamError::new("min_burst", "a burst has 1 to 256 packets"));
        }
        Ok(())
    }
}

/// Counters of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Enqueued; zero for a class with children.
    pub arrived: Account,
    /// Sent by it or by its descendants.
    pub sent: Account,
    /// Sent by it while over limit, with rate of an ancestor. Leaves only.
    pub borrowed: Account,
    /// Sent by others with its rate.
    pub lent: Account,
    /// Sent when no class had rate left, because the link would have been idle. Leaves only.
    pub rescued: Account,
    /// Packets that took it over its limit.
    pub overlimit: u64,
    /// Times it was regulated.
    pub regulated: u64,
}

/// The state of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// The class is over limit before this instant; an instant in the past when it is not.
    pub under_time: Instant,
    /// The estimator's measure.
    pub estimate: Estimate,
    /// Leaves are level 1, other classes one more than the highest of their children.
    pub level: u8,
    /// The packets in its queue; zero for a class with children.
    pub backlog: Backlog,
    /// Whether it is suspended regardless of its ancestors ([`Regulation::Sleep`]).
    pub asleep: bool,
}

/// The last leaf that sent, and the class whose rate it used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served {
    /// The class of the leaf.
    pub class: ClassId,
    /// The class whose allocation it used: itself, or the lowest ancestor it borrows from that was not over limit.
    /// `None` when no class had rate left ([`Conserving`]).
    pub lender: Option<ClassId>,
}

/// A tree of classes that share a link. See the [module](self).
#[derive(Clone, Debug)]
pub struct Cbq<P, Q = Box<dyn Qdisc<P>>> {
    params: Params,
    clock: Instant,
    backlog: Backlog,
    /// When the packets released so far are expected to have left the link, rounded up to a nanosecond.
    link_free: Instant,
    /// The credit of the link before that instant.
    link_rest: Credit,
    /// The highest level that may lend under top-level link sharing.
    top_level: u8,
    served: Option<Served>,

    /// Class number to node, densely.
    index: Vec<u32>,
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    leaves: Vec<Leaf<P, Q>>,
    free_leaves: Vec<u32>,
    rings: [Ring; PRIORITIES],
    next_turn: u32,

    /// Classes over limit with possible borrowers, by under-time.
    timers: Heap<Instant>,
    /// Leaves whose queue delays packets, by its deadline.
    waiting: Heap<Instant>,
}

impl<P: Packet, Q: Qdisc<P>> Cbq<P, Q> {
    /// The highest level that may lend now, under top-level link sharing.
    pub fn top_level(&self) -> u8 {
        self.top_level
    }
    /// Returns the parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }
    /// The last leaf that sent.
    pub fn last_served(&self) -> Option<Served> {
        self.served
    }
    /// When the packets released so far are expected to have left the link.
    pub fn link_free(&self) -> Instant {
        self.link_free
    }

    /// Advances the clock, never back, and admits the classes that may send by now.
    fn advance(&mut self, now: Instant) {
        self.clock = self.clock.max(now);
        while let Some((due, node)) = self.timers.peek() {
            if due > self.clock {
                break;
            }
            self.came_below(node);
        }
        while let Some((due, leaf)) = self.waiting.peek() {
            if due > self.clock {
                break;
            }
            self.refresh(leaf);
        }
    }

    /// No packet is released before this instant.
    fn earliest_release(&self) -> Instant {
        match self.params.lead {
            Lead::Unbounded => Instant::ZERO,
            Lead::Within(lead) => self.link_free.saturating_sub(lead),
        }
    }

    /// Charges the link for a packet that leaves now; returns when it is expected to have left the link.
    fn tick_link(&mut self, size: Bytes) -> Instant {
        self.rest_link(self.clock.saturating_sub(self.params.catch_up));
        // Packets back to back share a nanosecond; rounding each up would slow down a fast link.
        let cost = Credit::of(size) - self.link_rest;
        let on_link = cost.time_at_ceil(self.params.link).unwrap_or(Span::MAX);
        let finish = self.link_free + on_link;
        // A clock that stops within the lead would never exceed it.
        let lead = match self.params.lead {
            Lead::Within(lead) => lead,
            Lead::Unbounded => Span::ZERO,
        };
        self.link_free = match self.params.link_clock {
            LinkClock::Reset(lead) if finish > self.clock + lead => self.clock,
            LinkClock::Clamp(most) => finish.min(self.clock + most.max(lead + on_link)),
            LinkClock::Reset(_) => finish,
        };
        // The average idle time is in whole nanoseconds, and a class with the whole link must not run ahead of it.
        let is_exact = self.link_free == finish && self.params.accounting == Accounting::Bytes;
        self.link_rest = if is_exact { self.params.link.credit_in(on_link) - cost } else { Credit::ZERO };
        self.link_free
    }

    /// Sets the link idle until `until`, if that is later than its packets.
    fn rest_link(&mut self, until: Instant) {
        if until > self.link_free {
            (self.link_free, self.link_rest) = (until, Credit::ZERO);
        }
    }
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for Cbq<P, Q> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) {
        self.advance(now);
        let Some(leaf) = self.leaf_of(packet.class()) else {
            out.dropped(packet, DropReason::NoClass);
            return;
        };
        let size = packet.size();
        if self.backlog.is_empty() {
            // Capacity before a packet was queued is not compensated.
            self.rest_link(self.clock);
        }
        let node = self.leaves[leaf as usize].node;
        self.nodes[node as usize].stats.arrived.count(size);
        let slot = &mut self.leaves[leaf as usize];
        let before = slot.queue.backlog();
        slot.queue.enqueue(self.clock, packet, out);
        let after = slot.queue.backlog();
        self.count_change(before, after);
        self.arrived(leaf);
        self.refresh(leaf);
        if before.is_empty() && !after.is_empty() {
            self.regulate_if_stuck(leaf);
        }
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.advance(now);
        if self.earliest_release() > self.clock {
            return None;
        }
        loop {
            let Some(pick) = self.pick() else {
                self.found_none();
                return None;
            };
            let slot = &mut self.leaves[pick as usize];
            let before = slot.queue.backlog();
            let packet = slot.queue.dequeue(self.clock, out);
            let after = slot.queue.backlog();
            self.count_change(before, after);
            if let Some(packet) = packet {
                self.serve(pick, packet.size());
                return Some(packet);
            }
            if before == after {
                debug_assert!(false, "a queue returned Deadline::Now and released nothing");
                self.mark_unready(pick);
            } else {
                self.refresh(pick);
            }
        }
    }

    fn deadline(&self, now: Instant) -> Deadline {
        let now = now.max(self.clock);
        let mut earliest = self.first_ready(now);
        self.waiting.visit_before(&mut |due, leaf| {
            let due = due.max(self.permitted_at(leaf, now));
            earliest = Some(earliest.map_or(due, |e| e.min(due)));
            earliest
        });
        match earliest {
            Some(t) if t < Instant::MAX => Deadline::at(t.max(self.earliest_release()), now),
            _ => Deadline::Idle,
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

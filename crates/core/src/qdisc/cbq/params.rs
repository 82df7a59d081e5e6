//! The parameters of the tree and of its classes.

use super::estimator::{Accounting, Derivation, Finish, IdleBounds};
use crate::packet::ClassId;
use crate::params::ParamError;
use tidegate_units::{Bytes, Rate, Span};

/// The number of priorities.
pub const PRIORITIES: usize = 8;
/// The number of levels. Leaves are level 1; the root is at most this level.
pub const LEVELS: usize = HIGHEST as usize;
/// The highest level.
pub(super) const HIGHEST: u8 = 31;

/// How the general scheduler shares among the classes of a priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum General {
    /// Packet round robin: each class one packet a round.
    PacketRoundRobin,
    /// Weighted round robin: per round each class may send its part, by rate, of the number of classes times the
    /// largest packet.
    WeightedRoundRobin,
}

/// Which classes may borrow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// The formal guidelines.
    Formal,
    /// Every ancestor that is not over limit may lend.
    AncestorOnly,
    /// Ancestors up to a level that a heuristic determines may lend.
    TopLevel(Heuristic),
}

impl Sharing {
    /// The level N of top-level link sharing when a leaf is to send, and `lowest` is the lowest level at which a class can.
    pub(super) fn level_to_send(self, level: u8, lowest: u8) -> u8 {
        match self {
            Self::TopLevel(heuristic) => {
                if lowest <= level {
                    level
                } else {
                    match heuristic {
                        Heuristic::Floyd1995 => HIGHEST,
                        Heuristic::Altq => lowest,
                    }
                }
            }
            Self::Formal => level,
            Self::AncestorOnly => level,
        }
    }

    /// The highest level that may lend, where N is `level`.
    pub(super) fn highest(self, level: u8, lowest: u8) -> u8 {
        match self {
            Self::Formal => lowest,
            Self::AncestorOnly => HIGHEST,
            Self::TopLevel(_) => level,
        }
    }

    /// The level N once a packet has arrived for a leaf that could use the rate of a class at the level `lender`.
    pub(super) fn level_on_arrival(self, level: u8, lender: Option<u8>) -> u8 {
        match self {
            Self::TopLevel(_) => match lender {
                Some(lender) => {
                    if lender < level {
                        lender
                    } else {
                        level
                    }
                }
                None => level,
            },
            Self::Formal => level,
            Self::AncestorOnly => level,
        }
    }

    /// The level N once a leaf has sent, which may go on by the rate of a class at the level `lender`.
    pub(super) fn level_once_sent(self, level: u8, ready: bool, lender: Option<u8>) -> u8 {
        match self {
            Self::TopLevel(heuristic) => match heuristic {
                Heuristic::Floyd1995 => match lender {
                    Some(lender) => {
                        if ready && lender <= level {
                            level
                        } else {
                            HIGHEST
                        }
                    }
                    None => HIGHEST,
                },
                Heuristic::Altq => level,
            },
            Self::Formal => level,
            Self::AncestorOnly => level,
        }
    }
}

/// How top-level link sharing sets its level N.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heuristic {
    /// The 1995 paper. When a packet arrives for a class that is not over limit, N is 1. When it arrives for one that
    /// is, with an ancestor at a level j below N that is not, N is j. When a class has sent and has an empty queue or
    /// may not continue, N is the highest level.
    Floyd1995,
    /// The implementation that Risso and Gevros measured. The first two rules are the same. When no class can send, N
    /// rises by one until one can, and is the highest level when none can at all.
    Altq,
}

/// When a regulated class may send again. A class is regulated when it is backlogged, its last packet took it over its
/// limit, and it may not borrow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Regulation {
    /// Its own under-time, or an ancestor below its limit, whichever comes first: the 1995 paper.
    Recheck,
    /// Its own under-time, even when an ancestor comes below its limit: the implementation that the paper measured.
    Sleep,
}

/// Whether a packet is sent when classes are backlogged and none may send.
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

/// How the clock of expected finish times is corrected when it runs ahead because the driver takes packets faster than the
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
    /// The rate of the root class; the link's when `None`. Papers give it 98 or 99 % of the link, so that it can be over
    /// its limit while the link is used, and give its children 100 %: then they may exceed it together.
    pub root_rate: Option<Rate>,
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
    /// When a regulated class may send again.
    pub regulation: Regulation,
    /// Whether a packet is sent when no class may send.
    pub conserving: Conserving,
    /// How the link clock is corrected when it runs ahead.
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
            root_rate: None,
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
            accounting: Accounting::IdleTime { gain: 5, derivation: Derivation::Altq },
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
        if self.root_rate.is_some_and(|rate| rate.is_zero() || rate > self.link) {
            return Err(ParamError::new("root_rate", "the rate of the root must be above 0 and at most the link's"));
        }
        if self.mtu == Bytes::ZERO || self.mtu > Bytes::new(1 << 24) {
            return Err(ParamError::new("mtu", "the largest packet must have 1 to 16777216 bytes"));
        }
        if let Accounting::IdleTime { gain, .. } = self.accounting
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
    /// Bounds of the estimator instead of those derived from the bursts, for [`Accounting::IdleTime`].
    pub idle: IdleBounds,
}

impl Class {
    /// A class of `rate` that does not borrow, of priority 1, with bursts of 16 and 2 packets, the defaults of the
    /// implementation that the paper measured.
    pub const fn new(rate: Rate) -> Self {
        Self {
            rate,
            priority: 1,
            borrow: Borrow::Never,
            packet_size: None,
            max_burst: 16,
            min_burst: 2,
            idle: IdleBounds::DERIVED,
        }
    }
    /// A class as made by [`new`](Self::new) that borrows from its parent.
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

//! The parameters of a class.

use tidegate_units::{Bytes, Rate};

use super::ceiling::Ceilings;
use crate::packet::Dscp;
use crate::step::Step;

/// The use of rate that a flow leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spare {
    /// It is shared among the other backlogged flows of the class in proportion to their shares: work-conserving.
    #[default]
    Shared,
    /// It is left unused: a flow never exceeds d(f), as in the paper's (5.1) to (5.3). For classes whose flows must
    /// be smooth individually.
    Idle,
}

/// Whether a class may use rate that other classes leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Borrow {
    /// It uses only its own rate.
    #[default]
    Never,
    /// It uses what the others leave, in proportion to the rates of the borrowing classes. With [`Spare::Idle`] its rate
    /// d(q) rises by that, and with it what each flow may send; packets are then not counted as borrowed.
    FromOthers,
}

/// The thresholds at which the owner of a flow is notified about its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// Notified when the queue of the flow reaches this size.
    pub above: Bytes,
    /// Notified again when it falls to this size.
    pub below: Bytes,
    /// Whether packets of ECN-capable flows are marked on arrival while the queue is above.
    pub mark: Marking,
}

/// Whether feedback marks packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Marking {
    /// Packets are not marked: the owner receives events only.
    #[default]
    Never,
    /// Arrivals are marked congestion experienced while the queue is above its threshold.
    EcnCapable,
}

/// The parameters of one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassParams {
    /// d(q).
    pub rate: Rate,
    /// TB(q), the aggregate bucket (5.4). A larger packet leaves when the bucket is full, and leaves a debt.
    pub burst: Bytes,
    /// TB(f): the burst of a flow that becomes backlogged, beyond its share.
    pub flow_burst: Bytes,
    /// Classes with a smaller number are served first.
    pub priority: u32,
    /// The code point written on packets that leave through this class.
    pub dscp: Option<Dscp>,
    /// The use of rate that a flow leaves.
    pub spare: Spare,
    /// Whether it may use rate of other classes.
    pub borrow: Borrow,
    /// The most bytes queued in the class. An eighth is reserved for flows with a granted minimum, if there are any.
    /// Use at least two packets per flow that may be greedy at once; with less, chance decides which flows find
    /// space, and flows in lockstep may exclude others.
    pub limit: Bytes,
    /// The most bytes queued for one flow.
    pub flow_limit: Bytes,
    /// `incr`: the part of d(q), in 1/2^32, by which one step of preference raises a share.
    pub increment: u64,
    /// Feedback to the owners of flows.
    pub feedback: Option<Feedback>,
    /// The step for packets of ECT(1), by the queue of their flow, if there is one.
    pub step: Option<Step>,
    /// The ceilings of the class, its hosts and its flows, borrowed rate included.
    pub at_most: Ceilings,
}

impl ClassParams {
    /// A class of `rate` with defaults: bursts of two full-size packets, a queue of one megabyte, steps of preference
    /// of a tenth.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            burst: Bytes::new(3_028),
            flow_burst: Bytes::new(3_028),
            priority: 0,
            dscp: None,
            spare: Spare::default(),
            borrow: Borrow::default(),
            limit: Bytes::new(1_000_000),
            flow_limit: Bytes::new(500_000),
            increment: (1_u64 << 32) / 10,
            feedback: None,
            step: None,
            at_most: Ceilings::default(),
        }
    }
}

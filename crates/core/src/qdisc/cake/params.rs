//! [`Params`]: what a CAKE-like discipline is made with.

use super::sets::WAYS;
use super::{Tins, Wire};
use crate::codel;
use crate::fifo::Limit;
use crate::params::ParamError;
use crate::round::check_quantum;
use crate::step::Step;
use tidegate_units::{Bytes, Rate, Span};

/// The hosts that share a tin equally, before their flows do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    /// Nothing: flows only.
    Flows,
    /// Sending hosts: on a line upwards, with the hosts inside.
    #[default]
    Source,
    /// Receiving hosts: on a line downwards.
    Destination,
    /// Pairs of hosts.
    Pair,
}

/// Whether later acknowledgements replace earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AckFilter {
    /// Every acknowledgement stays.
    #[default]
    Off,
    /// The newest three of a flow stay.
    On,
}

/// Parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The rate of the line; `None` when something else shapes.
    pub rate: Option<Rate>,
    /// The largest lateness of the caller that is compensated.
    pub lateness: Span,
    /// The size of packets on the line.
    pub wire: Wire,
    /// Classes of service.
    pub tins: Tins,
    /// The hosts or flows that share a tin equally.
    pub hosts: Isolation,
    /// COBALT's target and interval, mark or drop; `limit` is that of all queues together.
    pub codel: codel::Params,
    /// The step for packets of ECT(1), if there is one.
    pub step: Option<Step>,
    /// Queues, a multiple of 8 up to 65,536.
    pub queues: u32,
    /// Bytes a turn; the largest packet seen where that is more. Both as the line carries them.
    pub quantum: Bytes,
    /// Whether later acknowledgements replace earlier ones.
    pub ack_filter: AckFilter,
}

impl Params {
    /// For a line of `rate` with packets of Ethernet: see [`Params::for_packets`].
    pub fn for_link(rate: Rate) -> Self {
        Self::for_packets(rate, Bytes::new(1_514))
    }
    /// For a line of `rate` whose largest packet, with its header, is `mtu`: a millisecond of lateness, no overhead, three
    /// tins, sending hosts, 1,024 queues. The target is 5 ms or the time of one and a half such packets, whichever is more, and
    /// nothing is dropped while one of them is all that waits. The limit is four intervals at `rate`, at least
    /// 4 MiB, as in the kernel: with less, what many flows keep in flight overflows it, and the drops hit the longest
    /// queue, which is that of the only flow of another host.
    pub fn for_packets(rate: Rate, mtu: Bytes) -> Self {
        let packet = rate.time_for_ceil(mtu).unwrap_or(Span::ZERO);
        let target = Span::from_millis(5).max(Span::from_nanos(packet.as_nanos().saturating_mul(3) / 2));
        let target = target.min(Span::from_secs(2));
        let interval = Span::from_millis(100).max(target.saturating_mul(2)).min(Span::from_secs(4));
        let bytes = rate.bytes_in_floor(interval.saturating_mul(4)).max(Bytes::new(4 << 20));
        let limit = Limit { packets: 10_240, bytes };
        Self {
            rate: Some(rate),
            lateness: Span::from_millis(1),
            wire: Wire::RAW,
            tins: Tins::Diffserv3,
            hosts: Isolation::Source,
            codel: codel::Params { target, interval, mtu, limit, ..codel::Params::default() },
            step: None,
            queues: 1_024,
            quantum: mtu,
            ack_filter: AckFilter::Off,
        }
    }
    /// Checks the parameters.
    ///
    /// # Errors
    /// A rate of zero, queues that are not a multiple of 8 up to 65,536; as [`codel::Params::validate`] and
    /// [`Wire::validate`]; a quantum outside 64 B to 1 MiB.
    pub fn validate(self) -> Result<Self, ParamError> {
        if self.rate.is_some_and(Rate::is_zero) {
            return Err(ParamError::new("rate", "must be above 0, for example 20mbit; leave it out for no shaper"));
        }
        if self.queues == 0 || !self.queues.is_multiple_of(WAYS) || self.queues > 65_536 {
            return Err(ParamError::new("queues", "must be a multiple of 8 up to 65536, for example 1024"));
        }
        self.wire.validate()?;
        self.codel.validate()?;
        self.step.map(Step::validate).transpose()?;
        check_quantum(self.quantum)?;
        Ok(self)
    }
}

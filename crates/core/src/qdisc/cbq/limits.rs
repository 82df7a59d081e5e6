//! The limits of a class, derived from its parameters: see [`estimator`](super::estimator).

use super::estimator::{Accounting, Derivation, Finish, IdleBounds, nanos};
use crate::credit::{PER_BYTE, work};
use tidegate_units::{Bytes, Rate, Span};

/// Values derived from the parameters of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub(super) rate: Rate,
    pub(super) finish: Finish,
    pub(super) accounting: Accounting,
    /// The class has the whole rate of the link: while it sends back to back it is at its limit, not over it.
    pub(super) whole_link: bool,
    pub(super) max_idle: i64,
    pub(super) min_idle: i64,
    pub(super) off_time: Span,
    /// The largest credit, in bit·ns/s.
    pub(super) depth: u128,
    /// The credit at which a regulated class may send again, in bit·ns/s.
    pub(super) resume: u128,
}

/// The parameters of [`Limits::derive`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) link: Rate,
    pub(super) rate: Rate,
    pub(super) mtu: Bytes,
    pub(super) packet_size: Bytes,
    pub(super) max_burst: u32,
    pub(super) min_burst: u32,
    pub(super) accounting: Accounting,
    pub(super) finish: Finish,
    pub(super) idle: IdleBounds,
}

/// `(1 / g)^n` with 32 fractional bits, for `g = 1 - 2^-gain`. The relative error is below `n` 2^-32; saturates,
/// because a large weight and a long burst reach 2^256.
fn growth(gain: u8, n: u32) -> u128 {
    let one = 1_u128 << gain;
    (0..n).fold(1_u128 << 32, |x, _| x.saturating_mul(one) / (one - 1))
}

impl Limits {
    pub(super) fn derive(given: &Given) -> Self {
        let (gain, derivation) = match given.accounting {
            Accounting::IdleTime { gain, derivation } => (gain, derivation),
            Accounting::Bytes => (0, Derivation::Altq),
        };
        let own = nanos(given.rate, given.packet_size);
        let rest = (own - nanos(given.link, given.packet_size)).max(0);
        let scaled = |factor: u128| i64::try_from((rest as u128).saturating_mul(factor) >> 32).unwrap_or(i64::MAX >> 8);
        let (max_idle, off_time) = if gain == 0 {
            (0, 0)
        } else {
            let one = 1_u128 << 32;
            let sum = |n| (growth(gain, n) - one).saturating_mul(1 << gain);
            let max_idle = scaled(sum(given.max_burst));
            let off_time = scaled(sum(given.min_burst - 1).saturating_add(one));
            match derivation {
                Derivation::Altq => (max_idle, off_time),
                // t (1 - g), scaled by 2^gain, is t.
                Derivation::Ns2 => (max_idle.max(nanos(given.link, given.packet_size)), 0),
            }
        };
        let min_idle = match derivation {
            Derivation::Altq => -own,
            Derivation::Ns2 => i64::MIN >> 8,
        };
        let of = |span: Span| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX).min(i64::MAX >> 24);
        let max_idle = given.idle.max.map_or(max_idle, |max| of(max) << gain);
        let min_idle = given.idle.min.map_or(min_idle, |min| -(of(min) << gain));
        let off_time = given.idle.off.map_or(off_time, of);
        let depth = given.mtu.saturating_mul(u64::from(given.max_burst.max(given.min_burst)));
        let resume = given.mtu.saturating_mul(u64::from(given.min_burst - 1));
        Self {
            rate: given.rate,
            finish: given.finish,
            accounting: given.accounting,
            whole_link: given.rate >= given.link,
            max_idle,
            min_idle,
            off_time: Span::from_nanos(off_time as u64),
            depth: work(depth.as_u64(), PER_BYTE),
            resume: work(resume.as_u64(), PER_BYTE),
        }
    }

    /// As numbers: the rate; 1 for the whole link; the bounds of the idle time, the second as the number of 64 bits of its
    /// complement, and the suspension, in ns; the depth and the credit to go on with, each with its upper half first.
    pub fn numbers(&self) -> [u64; 9] {
        [
            self.rate.as_bps(),
            u64::from(self.whole_link),
            self.max_idle as u64,
            self.min_idle as u64,
            self.off_time.as_nanos(),
            (self.depth >> 64) as u64,
            self.depth as u64,
            (self.resume >> 64) as u64,
            self.resume as u64,
        ]
    }
}

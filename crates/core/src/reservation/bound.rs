//! The delay bound of RFC 2212 and its error terms; their derivation is in the [module above](super).

use super::TSpec;
use tidegate_units::{Bytes, Credit, Rate, Span};

/// The error terms of RFC 2212 for one leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorTerms {
    /// The rate-dependent error term C of RFC 2212, in bytes.
    pub bytes: Bytes,
    /// The rate-independent error term D of RFC 2212.
    pub time: Span,
}

impl ErrorTerms {
    /// The terms of a leaf of `rate` among `leaves` leaves of priority 0 with the sum `rates`, on a link of `link`
    /// with packets up to `mtu` and `device` bytes behind the discipline; `packet` is the leaf's largest. See the
    /// [module](super).
    pub fn of(link: Rate, mtu: Bytes, device: Bytes, leaves: u64, rates: Rate, rate: Rate, packet: Bytes) -> Self {
        let round = mtu.saturating_mul(leaves);
        let own = u128::from(round.as_u64()) * u128::from(rate.as_bps()) / u128::from(rates.as_bps().max(1));
        let own = Bytes::new(u64::try_from(own).unwrap_or(u64::MAX)).min(round);
        let ahead = round + (round - own).saturating_mul(2) + device;
        Self { bytes: packet.saturating_mul(2), time: link.time_for_ceil(ahead).unwrap_or(Span::MAX) }
    }
}

/// The delay bound of RFC 2212 at the reserved rate `rate`, which must be at least the token rate. Every division
/// rounds up; `rate` is reduced by a millionth, for the rounding of the scheduler's turns.
pub fn delay_bound(tspec: &TSpec, rate: Rate, errors: ErrorTerms) -> Span {
    let served = rate.saturating_sub(Rate::from_bps(rate.as_bps() / 1_000_000 + 1)).max(Rate::from_bps(1));
    let burst = if tspec.peak > rate {
        let bits = u128::from((tspec.bucket - tspec.max_packet).bits());
        let (over, all) = ((tspec.peak - rate).as_bps(), (tspec.peak - tspec.rate).as_bps());
        // (b - M) (p - R) / (p - r), rounded up to a bit.
        let bits = (bits * u128::from(over)).div_ceil(u128::from(all.max(1)));
        time_of_bits(u64::try_from(bits).unwrap_or(u64::MAX), served)
    } else {
        Span::ZERO
    };
    burst + served.time_for_ceil(tspec.max_packet + errors.bytes).unwrap_or(Span::MAX) + errors.time
}

fn time_of_bits(bits: u64, rate: Rate) -> Span {
    Credit::from_raw(i128::from(bits) * 1_000_000_000).time_at_ceil(rate).unwrap_or(Span::MAX)
}

//! [`Tins`]: classes of service by code point.

use crate::bucket::TokenBucket;
use crate::packet::Dscp;
use tidegate_units::{Bytes, Instant, Rate};

/// How code points are sorted into tins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tins {
    /// One tin for everything.
    BestEffort,
    /// Bulk, best effort, voice.
    #[default]
    Diffserv3,
    /// Bulk, best effort, video, voice.
    Diffserv4,
}

/// The properties of a tin: shares are 16ths of the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tin {
    /// A name for tables and machine output.
    pub name: &'static str,
    /// While it has sent no more than this share, it goes before the lower ones; 0: never.
    pub first_share: u32,
    /// The weight of its turns otherwise.
    pub weight: u32,
}

const BULK: Tin = Tin { name: "bulk", first_share: 0, weight: 1 };
const BEST_EFFORT: Tin = Tin { name: "best_effort", first_share: 0, weight: 16 };
const VIDEO: Tin = Tin { name: "video", first_share: 8, weight: 8 };
const VOICE: Tin = Tin { name: "voice", first_share: 4, weight: 4 };

impl Tins {
    /// The tins, lowest first.
    pub const fn list(self) -> &'static [Tin] {
        match self {
            Self::BestEffort => &[BEST_EFFORT],
            Self::Diffserv3 => &[BULK, BEST_EFFORT, VOICE],
            Self::Diffserv4 => &[BULK, BEST_EFFORT, VIDEO, VOICE],
        }
    }
    /// The number of the tin for `dscp`.
    ///
    /// Bulk: CS1, LE (RFC 8622). Voice: EF, voice admit, CS6, CS7; with four tins CS4 and CS5 too. Video: CS2, CS3
    /// and all of AF2 to AF4. Everything else is best effort.
    pub const fn of(self, dscp: Dscp) -> usize {
        match (self, dscp.value()) {
            (Self::BestEffort, _) => 0,
            (_, 1 | 8) => 0,
            (Self::Diffserv3, 44 | 46 | 48 | 56) => 2,
            (Self::Diffserv4, 32 | 40 | 44 | 46 | 48 | 56) => 3,
            (Self::Diffserv4, 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38) => 2,
            _ => 1,
        }
    }
}

/// The part of a second, in bits for a byte, for which a tin may send its share at once: 20 ms.
const FIRST_DEPTH: u64 = 8 * 50;

/// The bucket for the `sixteenths` of `rate` within which a tin goes first.
pub(super) fn first_share(rate: Rate, sixteenths: u32) -> TokenBucket {
    let rate = Rate::from_bps((rate.as_bps() / 16).saturating_mul(u64::from(sixteenths)));
    let depth = (rate.as_bps() / FIRST_DEPTH).max(3_000);
    TokenBucket::full(rate, Bytes::new(depth), Instant::ZERO)
}

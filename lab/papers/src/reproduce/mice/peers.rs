//! The disciplines that are compared. Each has its defaults for the link, and all have the same queue limit.

use tidegate_core::aqm::AqmFifo;
use tidegate_core::ared::{self, Ared};
use tidegate_core::cake::{self, Cake};
use tidegate_core::codel::{self, CoDel};
use tidegate_core::drr::{self, Drr};
use tidegate_core::elephants::Measure;
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::fq_codel::{self, FqCodel};
use tidegate_core::mered::{self, Mered};
use tidegate_core::meredt::{self, Meredt};
use tidegate_core::pie::{self, Pie};
use tidegate_core::red::Red;
use tidegate_core::sfq::{self, Sfq};
use tidegate_core::{Bytes, ParamError, Probability, Qdisc, Rate, Span};
use tidegate_sim::{SimPacket, Srpt};

use crate::Failure;

/// A discipline of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    Fifo,
    Red,
    Ared,
    Pie,
    CoDel,
    Drr,
    Sfq,
    FqCodel,
    Cake,
    Mered,
    Meredt,
    /// MERED as in the paper, without a floor for elephants and without a rule on pairs of hosts.
    MeredAsPublished,
    /// MERED with a threshold in packets.
    MeredByPackets,
    /// MERED with the floor applied from packet to packet, and without a rule on pairs of hosts.
    MeredWithFloor,
    Srpt,
}

fn mered(params: mered::Params, limit: Limit, seed: u64) -> Result<Box<dyn Qdisc<SimPacket>>, ParamError> {
    let elephant_limit = Bytes::new(limit.bytes.as_u64() / 2);
    Ok(Box::new(Mered::new(mered::Params { limit, elephant_limit, ..params }, seed, "mered")?))
}

/// MERED by the paper's rules alone, with mice up to `threshold`.
pub fn mered_as_published(
    link: Rate,
    threshold: Bytes,
    limit: Limit,
    seed: u64,
) -> Result<Box<dyn Qdisc<SimPacket>>, ParamError> {
    let floor = Probability::ZERO;
    mered(mered::Params { threshold, floor, pair: None, ..mered::Params::for_link(link) }, limit, seed)
}

impl Peer {
    pub const ALL: [Self; 15] = [
        Self::Fifo,
        Self::Red,
        Self::Ared,
        Self::Pie,
        Self::CoDel,
        Self::Drr,
        Self::Sfq,
        Self::FqCodel,
        Self::Cake,
        Self::Mered,
        Self::Meredt,
        Self::MeredAsPublished,
        Self::MeredByPackets,
        Self::MeredWithFloor,
        Self::Srpt,
    ];

    /// The name in the ids of items.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Red => "red",
            Self::Ared => "ared",
            Self::Pie => "pie",
            Self::CoDel => "codel",
            Self::Drr => "drr",
            Self::Sfq => "sfq",
            Self::FqCodel => "fq_codel",
            Self::Cake => "cake",
            Self::Mered => "mered",
            Self::Meredt => "meredt",
            Self::MeredAsPublished => "mered_paper",
            Self::MeredByPackets => "mered_packets",
            Self::MeredWithFloor => "mered_floor",
            Self::Srpt => "srpt",
        }
    }

    /// Creates the discipline for a link of rate `link`, with this queue limit and this seed of its random numbers.
    pub fn make(self, link: Rate, limit: Limit, seed: u64) -> Result<Box<dyn Qdisc<SimPacket>>, Failure> {
        self.try_make(link, limit, seed).map_err(|error| Failure::Failed(format!("{} on {link}: {error}", self.name())))
    }

    fn try_make(self, link: Rate, limit: Limit, seed: u64) -> Result<Box<dyn Qdisc<SimPacket>>, ParamError> {
        // On a slow line the target must allow for the transmission of a packet, as RFC 8290 advises.
        let packet = link.time_for_ceil(Bytes::new(1_514)).unwrap_or(Span::ZERO);
        let target = Span::from_millis(5).max(Span::from_nanos(packet.as_nanos() * 3 / 2));
        let interval = Span::from_millis(100).max(target.saturating_mul(4));
        let codel = codel::Params { target, interval, limit, ..codel::Params::default() };
        Ok(match self {
            Self::Fifo => Box::new(Fifo::new(limit)),
            Self::Red => Box::new(AqmFifo::new(limit, Red::new(ared::Params::for_link(link).red()?, seed, "red")?)),
            Self::Ared => Box::new(AqmFifo::new(limit, Ared::new(ared::Params::for_link(link), seed, "ared")?)),
            Self::Pie => {
                let target = Span::from_millis(15).max(target);
                Box::new(Pie::new(pie::Params { target, limit, ..pie::Params::default() }, seed, "pie")?)
            }
            Self::CoDel => Box::new(CoDel::new(codel)?),
            Self::Drr => Box::new(Drr::new(drr::Params { limit, ..drr::Params::default() })?),
            Self::Sfq => Box::new(Sfq::new(sfq::Params { limit, ..sfq::Params::default() })?),
            Self::FqCodel => Box::new(FqCodel::new(fq_codel::Params { codel, ..fq_codel::Params::default() })?),
            Self::Cake => {
                // The link limits the rate already, so CAKE's own shaper is off.
                let hosts = cake::Isolation::Flows;
                let params = cake::Params { rate: None, hosts, codel, ..cake::Params::for_link(link) };
                Box::new(Cake::new(params, seed, "cake")?)
            }
            Self::Mered => mered(mered::Params::for_link(link), limit, seed)?,
            Self::Meredt => {
                let mut params = meredt::Params::for_link(link);
                params.limit = limit;
                params.elephant_limit = Bytes::new(limit.bytes.as_u64() / 2);
                Box::new(Meredt::new(params, seed, "meredt")?)
            }
            Self::MeredAsPublished => mered_as_published(link, mered::Params::for_link(link).threshold, limit, seed)?,
            Self::MeredByPackets => {
                // The threshold in bytes is converted to packets of 1000 B, plus those that a connection needs to begin
                // and end.
                let params = mered::Params::for_link(link);
                let threshold = Bytes::new(params.threshold.as_u64() / 1_000);
                let (floor, measure) = (Probability::ZERO, Measure::Packets);
                mered(mered::Params { floor, measure, threshold, pair: None, ..params }, limit, seed)?
            }
            Self::MeredWithFloor => {
                let floor_credit = Bytes::ZERO;
                mered(mered::Params { floor_credit, pair: None, ..mered::Params::for_link(link) }, limit, seed)?
            }
            Self::Srpt => Box::new(Srpt::new(limit)),
        })
    }
}

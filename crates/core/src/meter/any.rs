use tidegate_units::Instant;

use super::Meter;
use crate::packet::{Colour, Packet};
use crate::rfc4115::Rfc4115;
use crate::srtcm::SrTcm;
use crate::trtcm::TrTcm;
use crate::tswtcm::TswTcm;

/// Any of the meters, for trees that are built from a configuration.
#[derive(Clone, Debug)]
pub enum AnyMeter {
    /// RFC 2697.
    SrTcm(SrTcm),
    /// RFC 2698.
    TrTcm(TrTcm),
    /// RFC 4115.
    Rfc4115(Rfc4115),
    /// RFC 2859.
    TswTcm(TswTcm),
}

impl<P: Packet> Meter<P> for AnyMeter {
    fn meter(&mut self, now: Instant, packet: &P) -> Colour {
        match self {
            Self::SrTcm(meter) => meter.meter(now, packet),
            Self::TrTcm(meter) => meter.meter(now, packet),
            Self::Rfc4115(meter) => meter.meter(now, packet),
            Self::TswTcm(meter) => meter.meter(now, packet),
        }
    }
    fn green_at(&self, now: Instant, packet: &P) -> Option<Instant> {
        match self {
            Self::SrTcm(meter) => meter.green_at(now, packet),
            Self::TrTcm(meter) => meter.green_at(now, packet),
            Self::Rfc4115(meter) => meter.green_at(now, packet),
            Self::TswTcm(meter) => meter.green_at(now, packet),
        }
    }
}

//! [`Meter`]: colours packets by whether they keep to what was agreed.
//!
//! *Law*: a meter changes nothing but its own state; each states what its green and yellow traffic cannot exceed.
//! *Source*: RFC 2475 section 2.3.3.1 for the place of a meter; the meters' own RFCs.
//! *Units*: the size of a packet is [`Packet::size`]. The RFCs count IP packets without link headers; an embedding
//! that hands in frames should agree on rates for frames.
//! *Cost*: O(1) a packet, stated by each.
//! *Notes*: an instant before the last one counts as the last one.
//! *See also*: [`srtcm`], [`trtcm`], [`rfc4115`],
//! [`tswtcm`]; [`marker`] for what is done about a colour.

pub mod marker;
pub mod rfc4115;
pub mod srtcm;
pub mod trtcm;
pub mod tswtcm;
pub mod two_bucket;

mod any;

pub use any::AnyMeter;

use crate::packet::{Colour, Packet};
use tidegate_units::Instant;

/// Whether the colour of an arriving packet counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Every packet counts as uncoloured.
    #[default]
    Blind,
    /// A meter upstream has coloured it, and it never gets a better colour.
    Aware,
}

impl Mode {
    /// `colour` where it counts, or else green.
    pub const fn effective(self, colour: Colour) -> Colour {
        match self {
            Self::Blind => Colour::Green,
            Self::Aware => colour,
        }
    }
    /// The colour with which `packet` arrives, where it counts.
    pub fn incoming<P: Packet>(self, packet: &P) -> Colour {
        self.effective(packet.colour())
    }
}

/// Measures packets against a profile and sets their colour.
pub trait Meter<P: Packet>: Send {
    /// The colour of `packet`, which passes at `now`.
    fn meter(&mut self, now: Instant, packet: &P) -> Colour;

    /// The first instant, not before `now`, at which the meter would colour `packet` green if nothing passed until
    /// then; `None` when it never would, or when the meter decides by chance.
    fn green_at(&self, now: Instant, packet: &P) -> Option<Instant>;
}

/// A meter that leaves the colour as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoMeter;

impl<P: Packet> Meter<P> for NoMeter {
    fn meter(&mut self, _now: Instant, packet: &P) -> Colour {
        packet.colour()
    }
    fn green_at(&self, _now: Instant, _packet: &P) -> Option<Instant> {
        None
    }
}

impl<P: Packet, M: Meter<P> + ?Sized> Meter<P> for alloc::boxed::Box<M> {
    fn meter(&mut self, now: Instant, packet: &P) -> Colour {
        (**self).meter(now, packet)
    }
    fn green_at(&self, now: Instant, packet: &P) -> Option<Instant> {
        (**self).green_at(now, packet)
    }
}

//! The properties of a packet that a discipline may read and change.
//!
//! Disciplines are generic over [`Packet`]: a simulated segment, a record of a capture and the handle of a packet
//! that the kernel holds pass through the same code without a copy.

use tidegate_units::Bytes;

/// A Differentiated Services code point (RFC 2474): six bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Dscp(u8);

impl Dscp {
    /// Best effort, class selector 0.
    pub const BEST_EFFORT: Self = Self(0);
    /// Expedited forwarding (RFC 3246).
    pub const EF: Self = Self(46);
    /// Non-queue-building (RFC 9956).
    pub const NQB: Self = Self(45);

    /// The code point `value`, or `None` above 63.
    pub const fn new(value: u8) -> Option<Self> {
        if value < 64 { Some(Self(value)) } else { None }
    }
    /// Assured forwarding class 1 to 4 with drop precedence 1 to 3 (RFC 2597), or `None` outside them.
    pub const fn assured(class: u8, precedence: u8) -> Option<Self> {
        if class >= 1 && class <= 4 && precedence >= 1 && precedence <= 3 {
            Some(Self(class * 8 + precedence * 2))
        } else {
            None
        }
    }
    /// The colour of an assured forwarding code point (RFC 2597): drop precedence 1 is green, 2 yellow, 3 red. Every
    /// other code point is green.
    pub const fn colour(self) -> Colour {
        let (class, precedence) = (self.0 >> 3, self.0 & 7);
        match (class, precedence) {
            (1..=4, 4) => Colour::Yellow,
            (1..=4, 6) => Colour::Red,
            _ => Colour::Green,
        }
    }
    /// Returns the code point, 0 to 63.
    pub const fn value(self) -> u8 {
        self.0
    }
}

/// The ECN field (RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Ecn {
    /// The transport is not ECN-capable.
    #[default]
    NotEct,
    /// ECN-capable, code point ECT(1).
    Ect1,
    /// ECN-capable, code point ECT(0).
    Ect0,
    /// Congestion experienced.
    Ce,
}

impl Ecn {
    /// From the two low bits of the traffic class octet; higher bits are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
    /// Returns the two bits of the ECN field.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }
    /// Whether a mark can replace a drop.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
    /// Sets [`Ecn::Ce`] if the field is ECN-capable, and returns whether it is. [`Packet::mark_ce`] does this to the
    /// field of a packet.
    pub const fn mark(&mut self) -> bool {
        if self.is_capable() {
            *self = Self::Ce;
        }
        self.is_capable()
    }
}

/// The colour set by a meter (RFC 2697): green conforms, yellow exceeds the committed burst, red exceeds all bursts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Colour {
    /// Within the committed rate and burst. The default of packets that no meter has seen.
    #[default]
    Green,
    /// Exceeds the committed burst, within the excess or peak burst.
    Yellow,
    /// Exceeds every burst of the profile.
    Red,
}

impl Colour {
    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Yellow => "yellow",
            Self::Red => "red",
        }
    }
}

/// The identity of a packet's flow and hosts: three keyed hashes, computed once per packet.
///
/// Equal flows have equal keys. Different flows have different keys but for a probability of 2⁻⁶⁴ per pair, which
/// disciplines ignore. With a secret key an outsider cannot make two flows collide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FlowKey {
    /// The flow: a hash of the 5-tuple by default, or of the fields that the configuration specifies (host, uid, mark).
    pub flow: u64,
    /// A hash of the source address.
    pub source: u64,
    /// A hash of the destination address.
    pub destination: u64,
}

impl FlowKey {
    /// A key made of a number, for tests and simulations. Different numbers have different keys.
    pub const fn numbered(n: u64) -> Self {
        Self { flow: n, source: n, destination: n }
    }
    /// The ordered pair of hosts as one key.
    pub const fn host_pair(self) -> u64 {
        // An odd multiplier is a bijection of 64 bits; the rotation keeps (a, b) and (b, a) apart.
        self.source.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ self.destination
    }
}

/// The number of a class, assigned when the tree is built.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ClassId(pub u32);

/// The slot of a flow that is in no flow table.
pub const NO_SLOT: u32 = u32::MAX;

/// A packet, as seen by a discipline.
///
/// Every method but [`Packet::size`] and [`Packet::flow`] has a default for packet types without that property.
pub trait Packet: Send {
    /// The bytes it takes on the link, the headers of every segment included.
    fn size(&self) -> Bytes;
    /// The key of its flow.
    fn flow(&self) -> FlowKey;
    /// The class that the classifier chose.
    fn class(&self) -> ClassId {
        ClassId(0)
    }
    /// Records that it leaves through `class`, which differs from [`Packet::class`] when its flow was displaced. For
    /// statistics.
    fn leaves_by(&mut self, _class: ClassId) {}
    /// The slot that the flow had in the flow table of the discipline when it was last there, or [`NO_SLOT`]. A hint: a
    /// discipline that has the flow elsewhere looks it up.
    fn flow_slot(&self) -> u32 {
        NO_SLOT
    }
    /// The number of the rule that matched. Per-flow settings (minimum rate, weight) are looked up by it.
    fn profile(&self) -> u32 {
        0
    }
    /// Its code point.
    fn dscp(&self) -> Dscp {
        Dscp::BEST_EFFORT
    }
    /// Sets the code point.
    fn set_dscp(&mut self, _dscp: Dscp) {}
    /// Its ECN field.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    /// Marks congestion experienced and returns `true`, or returns `false` and changes nothing if the transport is
    /// not ECN-capable.
    fn mark_ce(&mut self) -> bool {
        false
    }
    /// The colour that a meter upstream has set.
    fn colour(&self) -> Colour {
        Colour::Green
    }
    /// Sets the colour.
    fn set_colour(&mut self, _colour: Colour) {}
    /// The number of packets on the wire that it represents, at least 1; several for a superpacket.
    fn segments(&self) -> u32 {
        1
    }
    /// Whether it is a TCP acknowledgement without data, which an ACK filter may drop when a later one is queued.
    fn is_pure_ack(&self) -> bool {
        false
    }
    /// The bytes that its flow has yet to send after it, where known: the simulator knows them, for the SRPT bound.
    fn remaining(&self) -> Option<Bytes> {
        None
    }
}

/// Implements the methods of [`Packet`] that read or write the field of the same name, inside `impl Packet for ...`.
/// Methods that are not listed keep their defaults.
///
/// `mark_ce` marks the field `ecn` and needs no field of its own. A type that counts marks implements it itself.
///
/// ```
/// use tidegate_core::{Bytes, Dscp, FlowKey, Packet, packet_fields};
/// struct Datagram { size: Bytes, flow: FlowKey, dscp: Dscp }
/// impl Packet for Datagram {
///     packet_fields!(size, flow, dscp);
/// }
/// let mut datagram = Datagram { size: Bytes::new(100), flow: FlowKey::numbered(1), dscp: Dscp::EF };
/// datagram.set_dscp(Dscp::BEST_EFFORT);
/// assert_eq!((datagram.size(), datagram.dscp()), (Bytes::new(100), Dscp::BEST_EFFORT));
/// ```
#[macro_export]
macro_rules! packet_fields {
    ($($field:ident),+ $(,)?) => { $($crate::packet_fields!(@ $field);)+ };
    (@ size) => { fn size(&self) -> $crate::Bytes { self.size } };
    (@ flow) => { fn flow(&self) -> $crate::FlowKey { self.flow } };
    (@ flow_slot) => { fn flow_slot(&self) -> u32 { self.flow_slot } };
    (@ class) => { fn class(&self) -> $crate::ClassId { self.class } };
    (@ profile) => { fn profile(&self) -> u32 { self.profile } };
    (@ dscp) => {
        fn dscp(&self) -> $crate::Dscp { self.dscp }
        fn set_dscp(&mut self, dscp: $crate::Dscp) { self.dscp = dscp; }
    };
    (@ ecn) => { fn ecn(&self) -> $crate::Ecn { self.ecn } };
    (@ mark_ce) => { fn mark_ce(&mut self) -> bool { self.ecn.mark() } };
    (@ colour) => {
        fn colour(&self) -> $crate::Colour { self.colour }
        fn set_colour(&mut self, colour: $crate::Colour) { self.colour = colour; }
    };
    (@ segments) => { fn segments(&self) -> u32 { self.segments } };
    (@ pure_ack) => { fn is_pure_ack(&self) -> bool { self.pure_ack } };
    (@ remaining) => { fn remaining(&self) -> Option<$crate::Bytes> { self.remaining } };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assured_forwarding_has_colours() {
        for class in 1..=4 {
            for (precedence, colour) in [(1, Colour::Green), (2, Colour::Yellow), (3, Colour::Red)] {
                assert_eq!(Dscp::assured(class, precedence).unwrap().colour(), colour);
            }
        }
        // CS1 is 8, EF 46 (class 5); 12 is AF12, 36 AF42, 44 voice admit.
        for other in [0, 8, 46, 44, 54, 63, 4, 6] {
            assert_eq!(Dscp::new(other).unwrap().colour(), Colour::Green, "{other}");
        }
    }
}

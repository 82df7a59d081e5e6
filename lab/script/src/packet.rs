//! [`Item`]: a packet of a script. [`Header`]: the fields of a packet that a script specifies.

use tidegate_core::classify::Fields;
use tidegate_core::{Bytes, ClassId, Colour, Dscp, Ecn, FlowKey, Packet, packet_fields};

/// The fields of a packet as specified by a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Addresses, protocol, ports, code point, mark, owner.
    pub fields: Fields,
    /// Bytes from the network header on or, for a single discipline, bytes on the link.
    pub size: Bytes,
    /// Its ECN field.
    pub ecn: Ecn,
    /// The class, by name or number, for a single discipline with classes.
    pub class: Option<(String, tidegate_config::Place)>,
    /// The colour set by a meter upstream. Default: that of the code point.
    pub colour: Option<Colour>,
    /// The number of the matching rule plus one, for a single discipline.
    pub profile: u32,
    /// The number of packets on the wire that it represents, for a single discipline.
    pub segments: u32,
    /// Whether it is a TCP acknowledgement without data.
    pub pure_ack: bool,
}

impl Header {
    /// The colour that a discipline sees.
    pub fn colour(&self) -> Colour {
        self.colour.unwrap_or_else(|| self.fields.dscp.colour())
    }
}

/// A packet as a single discipline sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// Its number in the script, from 0 in the order of arrival.
    pub id: u32,
    /// Bytes on the link.
    pub size: Bytes,
    /// The key of its flow.
    pub flow: FlowKey,
    /// Its class.
    pub class: ClassId,
    /// The number of the matching rule plus one; 0 for none.
    pub profile: u32,
    /// Its code point.
    pub dscp: Dscp,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Its colour.
    pub colour: Colour,
    /// The number of packets on the wire that it represents.
    pub segments: u32,
    /// Whether it is a TCP acknowledgement without data.
    pub pure_ack: bool,
}

impl Packet for Item {
    packet_fields!(size, flow, class, profile, dscp, ecn, mark_ce, colour, segments, pure_ack);
}

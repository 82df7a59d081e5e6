//! [`Item`]: a packet of a script; [`Header`]: what a script says of one.

use tidegate_core::classify::Fields;
use tidegate_core::{Bytes, ClassId, Colour, Dscp, Ecn, FlowKey, Packet, packet_fields};

/// What a script says of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Addresses, protocol, ports, code point, mark, owner.
    pub fields: Fields,
    /// Bytes from the network header on; for a bare discipline the bytes on the link.
    pub size: Bytes,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Its class, by name or number, for a bare discipline that has classes.
    pub class: Option<(String, tidegate_config::Place)>,
    /// What a meter upstream said. Default: what the code point says.
    pub colour: Option<Colour>,
    /// The rule that it is taken to have matched, plus one, for a bare discipline.
    pub profile: u32,
    /// How many packets of the wire it stands for, for a bare discipline.
    pub segments: u32,
    /// Whether it is an acknowledgement without data.
    pub pure_ack: bool,
}

impl Header {
    /// The colour a discipline sees.
    pub fn colour(&self) -> Colour {
        self.colour.unwrap_or_else(|| self.fields.dscp.colour())
    }
}

/// A packet in a bare discipline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// Its number in the script, from 0 in order of arrival.
    pub id: u32,
    /// Bytes on the link.
    pub size: Bytes,
    /// Its flow.
    pub flow: FlowKey,
    /// Its class.
    pub class: ClassId,
    /// The rule it matched, plus one; 0 for none.
    pub profile: u32,
    /// Its code point.
    pub dscp: Dscp,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Its colour.
    pub colour: Colour,
    /// How many packets of the wire it stands for.
    pub segments: u32,
    /// Whether it is an acknowledgement without data.
    pub pure_ack: bool,
}

impl Packet for Item {
    packet_fields!(size, flow, class, profile, dscp, ecn, mark_ce, colour, segments, pure_ack);
}

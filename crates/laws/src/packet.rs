//! [`TestPacket`]: a packet with every property that a discipline may read.

use tidegate_core::{Bytes, ClassId, Colour, Dscp, Ecn, FlowKey, Packet, packet_fields};

/// A packet of a test.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TestPacket {
    /// Unique, increasing in the order of arrival.
    pub id: u64,
    /// Bytes on the link.
    pub size: Bytes,
    /// Its flow.
    pub flow: FlowKey,
    /// Its class.
    pub class: ClassId,
    /// The rule it matched.
    pub profile: u32,
    /// Its code point.
    pub dscp: Dscp,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Its colour.
    pub colour: Colour,
    /// Whether it is an acknowledgement without data.
    pub pure_ack: bool,
}

impl TestPacket {
    /// A packet of `size` bytes in flow number `flow`, with defaults otherwise.
    pub fn new(id: u64, flow: u64, size: u64) -> Self {
        Self {
            id,
            size: Bytes::new(size),
            flow: FlowKey::numbered(flow),
            class: ClassId(0),
            profile: 0,
            dscp: Dscp::BEST_EFFORT,
            ecn: Ecn::NotEct,
            colour: Colour::Green,
            pure_ack: false,
        }
    }
    /// Returns the packet with another class.
    pub fn in_class(self, class: u32) -> Self {
        Self { class: ClassId(class), ..self }
    }
    /// Returns the packet with another profile.
    pub fn with_profile(self, profile: u32) -> Self {
        Self { profile, ..self }
    }
}

impl Packet for TestPacket {
    packet_fields!(size, flow, class, profile, dscp, ecn, mark_ce, colour, pure_ack);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_packet_has_the_defaults() {
        let packet = TestPacket::new(1, 2, 3).in_class(4).with_profile(5);
        assert_eq!((packet.id, packet.flow.flow, packet.size), (1, 2, Bytes::new(3)));
        assert_eq!((packet.class, packet.profile), (ClassId(4), 5));
        assert_eq!((packet.dscp, packet.ecn, packet.colour), (Dscp::BEST_EFFORT, Ecn::NotEct, Colour::Green));
        assert!(!packet.pure_ack);
    }
}

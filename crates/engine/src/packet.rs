//! [`QueuedPacket`]: a packet in the engine, whose bytes the data path holds.

use tidegate_core::{Bytes, ClassId, Colour, Dscp, Ecn, FlowKey, Instant, Packet, packet_fields};

use crate::rules::Classification;

/// A packet in the engine, the same type for every data path: disciplines are compiled for it once. The data path keeps
/// the bytes; its handle is in the packet table, under `slot`.
#[derive(Clone, Copy, Debug)]
pub struct QueuedPacket {
    /// The number of its arrival, from 0.
    pub number: u64,
    /// Bytes on the link, the headers of every segment and the overhead of the link included.
    pub size: Bytes,
    /// Its flow.
    pub flow: FlowKey,
    /// Its class.
    pub class: ClassId,
    /// The class it leaves through: another while its flow is displaced.
    pub left_by: ClassId,
    /// The rule it matched, plus one; 0 for none.
    pub profile: u32,
    /// The code point at arrival.
    pub arrived_as: Dscp,
    /// Its code point as it will leave.
    pub dscp: Dscp,
    /// Its ECN field as it will leave.
    pub ecn: Ecn,
    /// Whether it was marked here.
    pub marked: bool,
    /// The colour that the meters set.
    pub colour: Colour,
    /// How many packets on the wire it represents.
    pub segments: u32,
    /// Whether it is an acknowledgement without data.
    pub pure_ack: bool,
    /// The time of arrival.
    pub arrived: Instant,
    /// The place of the record of its flow ([`Flows`](crate::Flows)), which stays as long as this packet waits.
    pub record: u32,
    /// The slot of its flow in the scheduler, where it is known.
    pub flow_slot: u32,
    /// Its slot in the packet table.
    pub slot: u32,
}

impl QueuedPacket {
    /// A packet with this classification and code point; its size and what is known of it beside are still to be set.
    #[inline]
    pub(crate) fn classified(number: u64, classification: &Classification, dscp: Dscp) -> Self {
        let Classification { rule, class, flow } = *classification;
        Self {
            number,
            size: Bytes::ZERO,
            flow,
            class,
            left_by: class,
            profile: rule.map_or(0, |rule| rule + 1),
            arrived_as: dscp,
            dscp,
            ecn: Ecn::NotEct,
            marked: false,
            // What a meter upstream wrote: colour-aware meters, RIO and WRED use it.
            colour: dscp.colour(),
            segments: 1,
            pure_ack: false,
            arrived: Instant::ZERO,
            record: crate::flows::UNTRACKED,
            flow_slot: tidegate_core::packet::NO_SLOT,
            slot: 0,
        }
    }
}

impl Packet for QueuedPacket {
    packet_fields!(size, flow, flow_slot, class, profile, dscp, ecn, colour, segments, pure_ack);

    fn leaves_by(&mut self, class: ClassId) {
        self.left_by = class;
    }
    fn mark_ce(&mut self) -> bool {
        let was = self.ecn;
        let could = self.ecn.mark();
        self.marked |= self.ecn != was;
        could
    }
}

#[cfg(test)]
impl QueuedPacket {
    /// A packet of 0 bytes of no flow, for tests to change.
    pub(crate) fn example() -> Self {
        let classification = Classification { rule: None, class: ClassId(0), flow: FlowKey::default() };
        Self::classified(0, &classification, Dscp::BEST_EFFORT)
    }
}

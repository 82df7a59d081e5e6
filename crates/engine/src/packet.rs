//! [`QueuedPacket`]: a packet in the engine. The data path holds its bytes.

use tidegate_core::{Bytes, ClassId, Colour, Dscp, Ecn, FlowKey, Instant, Packet, packet_fields};

use crate::rules::Classification;

/// A packet in the engine. It is the same type for every data path, so that disciplines are compiled once. The handle of the
/// data path is in the packet table, at `slot`.
#[derive(Clone, Copy, Debug)]
pub struct QueuedPacket {
    /// The number of its arrival, from 0.
    pub number: u64,
    /// Bytes on the link, including the headers of every segment and the overhead of the link.
    pub size: Bytes,
    /// Its flow.
    pub flow: FlowKey,
    /// Its class.
    pub class: ClassId,
    /// The class through which it leaves: a different one while its flow is displaced.
    pub left_by: ClassId,
    /// The number of the rule that it matched, plus one; 0 for none.
    pub profile: u32,
    /// The code point at arrival.
    pub arrived_as: Dscp,
    /// The code point with which it will leave.
    pub dscp: Dscp,
    /// The ECN field with which it will leave.
    pub ecn: Ecn,
    /// Whether it was marked here.
    pub marked: bool,
    /// The colour that meters have given it.
    pub colour: Colour,
    /// The number of packets on the wire that it represents.
    pub segments: u32,
    /// Whether it is an acknowledgement without data.
    pub pure_ack: bool,
    /// The time of arrival.
    pub arrived: Instant,
    /// The place of the record of its flow in [`Flows`](crate::Flows), which is kept while this packet is queued.
    pub record: u32,
    /// The slot of its flow in the scheduler, if known.
    pub flow_slot: u32,
    /// Its slot in the packet table.
    pub slot: u32,
}

impl QueuedPacket {
    /// A packet with this classification and code point. Its other fields are still to be set.
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
            // A meter upstream may have written the colour; colour-aware meters, RIO and WRED use it.
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
    /// A packet of 0 bytes without a flow, for tests to change.
    pub(crate) fn example() -> Self {
        let classification = Classification { rule: None, class: ClassId(0), flow: FlowKey::default() };
        Self::classified(0, &classification, Dscp::BEST_EFFORT)
    }
}

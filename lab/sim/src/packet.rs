//! [`SimPacket`]: a packet of the simulation.

use tidegate_capture::scone;
use tidegate_core::classify::Signal;
use tidegate_core::{Bytes, ClassId, Colour, Dscp, Ecn, FlowKey, Packet, packet_fields};

use crate::tcp::{Flags, Segment};

/// Bytes of an IPv4 header without options.
pub(crate) const IPV4_HEADER: u32 = 20;
/// Bytes of an IPv4 and a TCP header without options.
pub const TCP_HEADER: u32 = 40;
/// Bytes of an IPv4 and a UDP header.
pub const UDP_HEADER: u32 = 28;

/// A packet of the simulation: the fields that a discipline may read, and the TCP segment inside. It has about 100
/// bytes and is moved by value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimPacket {
    /// The flow key, unique over the whole run: twice the number of the connection, plus one in the reverse direction.
    pub flow: u64,
    /// When the sender created it, in nanoseconds.
    pub sent: u64,
    /// When it arrived at the queue it is in, in nanoseconds.
    pub queued: u64,
    /// How long it has waited in the queues behind it, in nanoseconds.
    pub waited: u64,
    /// The TCP segment. In a datagram only `len` and `ecn` are meaningful, in a packet of QUIC `seq`, too, which counts packets.
    pub segment: Segment,
    /// Bytes that its transfer has still to send after this packet; `u32::MAX` if unknown.
    pub remaining: u32,
    /// The connection's slot, or the source's number.
    pub(crate) slot: u32,
    /// The position of the next hop in the routing table.
    pub(crate) hop: u32,
    /// Bytes on the link, including headers.
    pub size: u32,
    /// The host that sent the packet.
    pub source: u32,
    /// The destination host.
    pub destination: u32,
    /// The flow of the scenario to which it belongs. A flow of mice is a single flow with many connections.
    pub group: u32,
    /// The class, see [`Packet::class`].
    pub class: u16,
    /// The profile, see [`Packet::profile`].
    pub profile: u16,
    /// The code point.
    pub dscp: Dscp,
    /// The colour that a meter set.
    pub colour: Colour,
    /// The transport protocol.
    pub transport: Proto,
    /// The rate advice that it carries, as a SCONE packet of QUIC in front of its data does.
    pub advice: Advice,
}

/// The place for rate advice in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Advice {
    /// It has none.
    #[default]
    None,
    /// Its sender asks for advice, and no queue has answered.
    Asked,
    /// The lowest signal of the queues on its path.
    Told(scone::Signal),
}

impl Advice {
    /// Writes `signal`, if there is a place for it and no lower one; returns whether it was written.
    pub fn lower(&mut self, signal: scone::Signal) -> bool {
        let lower = match *self {
            Self::None => false,
            Self::Asked => true,
            Self::Told(told) => signal < told,
        };
        if lower {
            *self = Self::Told(signal);
        }
        lower
    }
}

/// The transport protocol of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proto {
    /// A TCP segment.
    Tcp,
    /// A datagram.
    Udp,
    /// A packet of a connection over datagrams, whose contents are encrypted: QUIC.
    Quic,
}

impl SimPacket {
    /// Creates a datagram of `size` bytes on the link that belongs to flow `flow`, for tests and scripts of
    /// disciplines.
    pub fn datagram(flow: u64, size: u32) -> Self {
        Self {
            flow,
            sent: 0,
            queued: 0,
            waited: 0,
            segment: Segment { len: size.saturating_sub(UDP_HEADER), ..Segment::default() },
            remaining: u32::MAX,
            slot: 0,
            hop: 0,
            size,
            source: flow as u32,
            destination: flow as u32,
            class: 0,
            profile: 0,
            group: 0,
            dscp: Dscp::BEST_EFFORT,
            colour: Colour::Green,
            transport: Proto::Udp,
            advice: Advice::None,
        }
    }
    /// The signal of the packet to its transport, as rules see it.
    pub(crate) fn signal(&self) -> Signal {
        let bits = [(Flags::FIN, 0x01), (Flags::SYN, 0x02), (Flags::ACK, 0x10), (Flags::ECE, 0x40), (Flags::CWR, 0x80)];
        let has = |(flag, bit): (Flags, u8)| if self.segment.flags.has(flag) { bit } else { 0 };
        match self.transport {
            Proto::Tcp => Signal::Tcp { flags: bits.into_iter().map(has).sum(), pure_ack: self.is_pure_ack() },
            Proto::Udp | Proto::Quic => Signal::Unknown,
        }
    }
    /// Bytes of application data.
    pub fn payload(&self) -> u32 {
        self.segment.len
    }
    /// The number of its connection in the run; of a datagram, that of its source.
    pub fn connection(&self) -> u64 {
        self.flow >> 1
    }
    /// The direction in which it goes: 0 from the first host of its flow to the second, 1 back.
    pub fn direction(&self) -> usize {
        (self.flow & 1) as usize
    }
    /// Whether it has data of an application. A datagram of headers alone has, an empty segment has not.
    pub(crate) fn has_data(&self) -> bool {
        self.payload() > 0 || self.transport == Proto::Udp
    }
}

impl Packet for SimPacket {
    packet_fields!(dscp, colour);

    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.size))
    }
    fn flow(&self) -> FlowKey {
        FlowKey { flow: self.flow, source: u64::from(self.source), destination: u64::from(self.destination) }
    }
    fn class(&self) -> ClassId {
        ClassId(u32::from(self.class))
    }
    fn profile(&self) -> u32 {
        u32::from(self.profile)
    }
    fn ecn(&self) -> Ecn {
        self.segment.ecn
    }
    fn mark_ce(&mut self) -> bool {
        self.segment.ecn.mark()
    }
    fn is_pure_ack(&self) -> bool {
        self.transport == Proto::Tcp && self.segment.len == 0 && self.segment.flags == Flags::ACK
    }
    fn remaining(&self) -> Option<Bytes> {
        (self.remaining != u32::MAX).then(|| Bytes::new(u64::from(self.remaining)))
    }
}

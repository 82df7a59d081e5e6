//! Reads the packets of a datagram (RFC 9000, sections 17 and 19): which frames they have, for what is measured and logged.
//!
//! Packets have no protection here, so that their contents can be read from outside.

use tidegate_core::Span;
use tidegate_sim::transport::{EcnFields, Field, Frame};

use crate::session::TAG;

/// Bytes of the connection identifiers of both ends.
pub(crate) const CID: usize = 8;

/// The types of packets by their names in qlog, in the order of their packet number spaces.
pub(crate) const KINDS: [&str; 3] = ["initial", "handshake", "1RTT"];

/// The type of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PacketType {
    Initial,
    Handshake,
    OneRtt,
    /// Retry, 0-RTT, version negotiation: none of which these ends send.
    Other,
}

impl PacketType {
    /// Its name in qlog, and its packet number space; none if these ends do not send it.
    pub fn space(self) -> Option<(&'static str, usize)> {
        let space = match self {
            Self::Initial => 0,
            Self::Handshake => 1,
            Self::OneRtt => 2,
            Self::Other => return None,
        };
        Some((KINDS[space], space))
    }
}

/// The exponent by which the delay of an acknowledgement is scaled: the default, which quinn keeps (RFC 9000, section 18.2).
const ACK_DELAY_EXPONENT: u32 = 3;

/// Whether the peer acknowledges a frame (section 13.2).
fn is_ack_eliciting(frame: &Frame) -> bool {
    match frame {
        Frame::Ack { .. } => false,
        Frame::Other { name, .. } => !["padding", "connection_close"].contains(name),
        Frame::Stream { .. } | Frame::Crypto { .. } => true,
    }
}

/// A packet of a datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Packet {
    pub kind: PacketType,
    /// The low bytes of the packet number, and how many there are.
    pub number: (u64, u32),
    /// Its bytes, the tag included.
    pub length: usize,
    pub frames: Vec<Frame>,
}

impl Packet {
    pub fn is_ack_eliciting(&self) -> bool {
        self.frames.iter().any(is_ack_eliciting)
    }
    /// Whether it counts as bytes in flight (RFC 9002, section 2).
    pub fn is_in_flight(&self) -> bool {
        let is_padding = |frame: &Frame| matches!(frame, Frame::Other { name: "padding", .. });
        self.frames.iter().any(|frame| is_ack_eliciting(frame) || is_padding(frame))
    }
}

/// Reads bytes from the front; `None` beyond the end.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }
    fn number(&mut self, bytes: usize) -> Option<u64> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
    /// A variable-length integer (section 16).
    fn varint(&mut self) -> Option<u64> {
        let bytes = 1 << (self.0.first()? >> 6);
        let number = self.number(bytes)?;
        Some(number & (u64::MAX >> (66 - 8 * bytes)))
    }
}

/// The packets of a datagram. A packet that cannot be read ends the list.
pub(crate) fn packets(datagram: &[u8]) -> Vec<Packet> {
    let (mut reader, mut packets) = (Reader(datagram), Vec::new());
    while !reader.0.is_empty() {
        let Some(packet) = packet(&mut reader) else { break };
        packets.push(packet);
    }
    packets
}

fn packet(reader: &mut Reader<'_>) -> Option<Packet> {
    let before = reader.0.len();
    let first = reader.byte()?;
    let number_bytes = usize::from(first & 3) + 1;
    let (kind, length) = if first & 0x80 == 0 {
        reader.take(CID)?;
        (PacketType::OneRtt, reader.0.len())
    } else {
        let kind = match first >> 4 & 3 {
            0 => PacketType::Initial,
            2 => PacketType::Handshake,
            _ => PacketType::Other,
        };
        reader.take(4)?;
        for _ in 0..2 {
            let cid = reader.byte()?;
            reader.take(usize::from(cid))?;
        }
        if kind == PacketType::Initial {
            let token = reader.varint()?;
            reader.take(usize::try_from(token).ok()?)?;
        }
        (kind, usize::try_from(reader.varint()?).ok()?)
    };
    let mut payload = Reader(reader.take(length)?);
    let number = payload.number(number_bytes)?;
    payload.0 = payload.0.get(..payload.0.len().checked_sub(TAG)?)?;
    let mut frames = Vec::new();
    while !payload.0.is_empty() {
        frames.push(frame(&mut payload)?);
    }
    Some(Packet { kind, number: (number, number_bytes as u32), length: before - reader.0.len(), frames })
}

fn frame(reader: &mut Reader<'_>) -> Option<Frame> {
    let kind = reader.varint()?;
    match kind {
        0x00 => {
            let rest = reader.0.iter().take_while(|byte| **byte == 0).count();
            reader.take(rest)?;
            let length = Field::Number(rest as u64 + 1);
            Some(Frame::Other { name: "padding", fields: vec![("payload_length", length)] })
        }
        0x02 | 0x03 => ack(reader, kind == 0x03),
        0x06 => {
            let (offset, length) = (reader.varint()?, reader.varint()?);
            reader.take(usize::try_from(length).ok()?)?;
            Some(Frame::Crypto { offset, length })
        }
        0x08..=0x0f => {
            let id = reader.varint()?;
            let offset = if kind & 4 != 0 { reader.varint()? } else { 0 };
            let length = if kind & 2 != 0 { reader.varint()? } else { reader.0.len() as u64 };
            reader.take(usize::try_from(length).ok()?)?;
            Some(Frame::Stream { id, offset, length, fin: kind & 1 != 0 })
        }
        _ => other(reader, kind),
    }
}

/// A frame that is logged alone, with its numbers by their names in qlog and in their order in the frame.
fn other(reader: &mut Reader<'_>, kind: u64) -> Option<Frame> {
    let (name, numbers): (_, &[_]) = match kind {
        0x01 => ("ping", &[]),
        0x04 => ("reset_stream", &["stream_id", "error_code", "final_size"]),
        0x05 => ("stop_sending", &["stream_id", "error_code"]),
        0x10 => ("max_data", &["maximum"]),
        0x11 => ("max_stream_data", &["stream_id", "maximum"]),
        0x12 | 0x13 => ("max_streams", &["maximum"]),
        0x14 => ("data_blocked", &["limit"]),
        0x15 => ("stream_data_blocked", &["stream_id", "limit"]),
        0x16 | 0x17 => ("streams_blocked", &["limit"]),
        0x18 => ("new_connection_id", &["sequence_number", "retire_prior_to"]),
        0x19 => ("retire_connection_id", &["sequence_number"]),
        0x1a => ("path_challenge", &[]),
        0x1b => ("path_response", &[]),
        0x1c => ("connection_close", &["error_code", "trigger_frame_type"]),
        0x1d => ("connection_close", &["error_code"]),
        0x1e => ("handshake_done", &[]),
        // IMMEDIATE_ACK (draft-ietf-quic-ack-frequency), which is in each of quinn's probes for losses. qlog has no name for it.
        0x1f => ("unknown", &[]),
        _ => return None,
    };
    let mut fields = Vec::new();
    for number in numbers {
        fields.push((*number, Field::Number(reader.varint()?)));
    }
    let text = |text: &str| Field::Text(text.into());
    match kind {
        0x12 | 0x16 => fields.push(("stream_type", text("bidirectional"))),
        0x13 | 0x17 => fields.push(("stream_type", text("unidirectional"))),
        0x18 => {
            let length = reader.byte()?;
            let digits = reader.take(length.into())?.iter().map(|byte| format!("{byte:02x}"));
            fields.push(("connection_id", Field::Text(digits.collect())));
            // The token of a stateless reset.
            reader.take(16)?;
        }
        0x1a | 0x1b => drop(reader.take(8)?),
        0x1f => fields.push(("raw_frame_type", Field::Number(kind))),
        0x1c | 0x1d => {
            let reason = reader.varint()?;
            reader.take(usize::try_from(reason).ok()?)?;
        }
        _ => {}
    }
    Some(Frame::Other { name, fields })
}

fn ack(reader: &mut Reader<'_>, with_counts: bool) -> Option<Frame> {
    let (largest, delay, more, first) = (reader.varint()?, reader.varint()?, reader.varint()?, reader.varint()?);
    let mut low = largest.checked_sub(first)?;
    let mut ranges = vec![(low, largest)];
    for _ in 0..more {
        let (gap, length) = (reader.varint()?, reader.varint()?);
        let high = low.checked_sub(gap.checked_add(2)?)?;
        low = high.checked_sub(length)?;
        ranges.push((low, high));
    }
    let ecn = match with_counts {
        true => Some(EcnFields { ect0: reader.varint()?, ect1: reader.varint()?, ce: reader.varint()? }),
        false => None,
    };
    let delay = Some(Span::from_micros(delay << ACK_DELAY_EXPONENT));
    Some(Frame::Ack { ranges, delay, ecn })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 9000, appendix A.1.
    #[test]
    fn the_integers_of_the_rfc() {
        let read = |bytes: &[u8]| Reader(bytes).varint();
        assert_eq!(read(&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]), Some(151_288_809_941_952_652));
        assert_eq!(read(&[0x9d, 0x7f, 0x3e, 0x7d]), Some(494_878_333));
        assert_eq!(read(&[0x7b, 0xbd]), Some(15_293));
        assert_eq!(read(&[0x25]), Some(37));
        assert_eq!(read(&[0x40, 0x25]), Some(37));
        assert_eq!(read(&[0x40]), None, "cut off");
    }

    #[test]
    fn frames_of_a_packet() {
        // 1-RTT with two bytes of number; an ACK of 5 and 2..=3 with counts, a limit, an identifier, and data to the end of the packet.
        let mut datagram = vec![0x41, 1, 2, 3, 4, 5, 6, 7, 8, 0x12, 0x34];
        datagram.extend([0x03, 5, 9, 1, 0, 0, 1, 7, 0, 2]);
        datagram.extend([0x11, 4, 0x44, 0x01]);
        datagram.extend([0x18, 1, 0, 2, 0xab, 0x0c]);
        datagram.extend([7; 16]);
        datagram.extend([0x0c, 0, 0x44, 0x00, 9, 9, 9]);
        datagram.extend([0; TAG]);
        let [packet] = packets(&datagram).try_into().expect("one packet");
        assert_eq!((packet.kind, packet.number, packet.length), (PacketType::OneRtt, (0x1234, 2), datagram.len()));
        let counts = EcnFields { ect0: 7, ect1: 0, ce: 2 };
        let number = |name, value| (name, Field::Number(value));
        let limit = vec![number("stream_id", 4), number("maximum", 0x401)];
        let identifier = ("connection_id", Field::Text("ab0c".into()));
        let identifier = vec![number("sequence_number", 1), number("retire_prior_to", 0), identifier];
        assert_eq!(
            packet.frames,
            [
                Frame::Ack { ranges: vec![(5, 5), (2, 3)], delay: Some(Span::from_micros(72)), ecn: Some(counts) },
                Frame::Other { name: "max_stream_data", fields: limit },
                Frame::Other { name: "new_connection_id", fields: identifier },
                Frame::Stream { id: 0, offset: 0x400, length: 3, fin: false },
            ]
        );
        assert!(packet.is_ack_eliciting());
        assert_eq!(packets(&datagram[..20]), [], "cut off");
    }

    /// quinn's probe for losses.
    #[test]
    fn a_probe_with_a_frame_that_qlog_does_not_know() {
        let mut datagram = vec![0x40, 1, 2, 3, 4, 5, 6, 7, 8, 0x12, 0x1f, 0x01];
        datagram.extend([0; TAG]);
        let [packet] = packets(&datagram).try_into().expect("one packet");
        let unknown = Frame::Other { name: "unknown", fields: vec![("raw_frame_type", Field::Number(0x1f))] };
        assert_eq!(packet.frames, [unknown, Frame::Other { name: "ping", fields: vec![] }]);
        assert!(packet.is_ack_eliciting());
    }
}

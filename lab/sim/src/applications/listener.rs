//! The receiving end of a call: its playout buffer, and what is played to the listener.
//!
//! *Law*: a packet is played if it arrives before its playout time, which is its sending time plus an offset: the delay
//! of the first packet of the talk spurt plus the buffer. In a spurt longer than [`ADJUSTED`], the offset is recomputed
//! whenever that much time has passed, as receivers stretch and shorten speech.
//! *Source*: Ramjee, Kurose, Towsley, Schulzrinne, "Adaptive playout mechanisms for packetized audio applications in
//! wide-area networks", 1994, for playout by spurts; RFC 3550, appendix A.3, for how many packets were expected.

use tidegate_core::Span;

use super::Talker;
use super::emodel::{self, Codec};
use crate::packet::SimPacket;

/// The time in ns after which the offset is recomputed within a spurt.
const ADJUSTED: u64 = 1_000_000_000;
/// The silence in ns after which all outstanding packets are considered lost.
const SETTLED: u64 = 1_000_000_000;

/// The receiver at one end of a call.
#[derive(Debug)]
pub(crate) struct Listener {
    codec: Codec,
    /// How long the first packet of a spurt waits, in ns.
    buffer: u64,
    warm_up: u64,
    /// The number and sending time of the latest packet.
    latest: Option<(u32, u64)>,
    heard_at: u64,
    /// The playout offset, and the sending time of the packet that determined it.
    offset: (u64, u64),
    played: u64,
    late: u64,
    offsets: u128,
}

/// The quality of a call at one end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CallQuality {
    /// The end that hears it: 0 for the host at which the flow begins.
    pub end: usize,
    /// The number of packets that should have arrived.
    pub expected: u64,
    /// Packets that arrived in time to be played.
    pub played: u64,
    /// Packets that arrived too late.
    pub late: u64,
    /// The mean mouth-to-ear delay of the packets played: the packet's own length, the look-ahead of the codec, the
    /// network, and the playout buffer.
    pub delay: Span,
    /// The transmission rating of the E-model, 0 to 93.2 ([`emodel`]).
    pub rating: f64,
}

impl Listener {
    pub fn new(codec: Codec, buffer: Span, warm_up: u64) -> Self {
        let buffer = buffer.as_nanos();
        Self { codec, buffer, warm_up, latest: None, heard_at: 0, offset: (0, 0), played: 0, late: 0, offsets: 0 }
    }

    /// Handles an arriving packet.
    pub fn receive(&mut self, now: u64, packet: &SimPacket) {
        self.heard_at = now;
        let (number, sent, delay) = (packet.segment.seq, packet.sent, now - packet.sent);
        let interval = self.codec.interval.as_nanos();
        let begins = match self.latest {
            None => true,
            // A silence: the sender's time advanced without a packet.
            Some((last, at)) => {
                number > last && sent - at > u64::from(number - last) * interval + interval / 2
                    || sent > self.offset.1 + ADJUSTED
            }
        };
        if begins {
            self.offset = (delay + self.buffer, sent);
        }
        if self.latest.is_none_or(|(last, _)| number > last) {
            self.latest = Some((number, sent));
        }
        if sent < self.warm_up {
            return;
        }
        if delay <= self.offset.0 {
            self.played += 1;
            self.offsets += u128::from(self.offset.0);
        } else {
            self.late += 1;
        }
    }

    /// The quality of the speech that `talker`, at the other end, has sent.
    pub fn result(&self, end_of_call: usize, talker: &Talker, now: u64) -> CallQuality {
        // Packets in flight are neither lost nor played as long as packets keep arriving.
        let end = match self.latest {
            Some((latest, _)) if now - self.heard_at < SETTLED => latest.wrapping_add(1),
            _ => talker.number,
        };
        let expected = u64::from(end.saturating_sub(talker.first.unwrap_or(end))).max(self.played + self.late);
        let wait = (self.offsets / u128::from(self.played.max(1))) as u64;
        let delay = Span::from_nanos(wait) + self.codec.interval + self.codec.look_ahead;
        let loss = 1.0 - self.played as f64 / expected.max(1) as f64;
        let rating = if expected == 0 { 0.0 } else { emodel::rating(&self.codec, delay, loss) };
        CallQuality { end: end_of_call, expected, played: self.played, late: self.late, delay, rating }
    }
}

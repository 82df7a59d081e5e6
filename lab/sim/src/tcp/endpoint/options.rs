//! Timestamps and PAWS (RFC 7323), D-SACK (RFC 2883).

use tidegate_core::{Instant, Span};

use super::{AckPending, Endpoint, Recovery, unwrap};
use crate::tcp::segment::{Flags, Segment, Timestamps};

/// Beyond this age, TS.Recent is not compared with (RFC 7323, 5.5): half of the range of the clock.
const OUTDATED: Span = Span::from_secs(1_000);

/// The timestamp clock, in microseconds.
fn clock(now: Instant) -> u32 {
    (now.as_nanos() / 1_000) as u32
}

impl Endpoint {
    /// Turns timestamps on if the SYNs of both ends have them.
    pub(super) fn negotiate_timestamps(&mut self, now: Instant, segment: &Segment) {
        if let Some(timestamps) = segment.timestamps.filter(|_| self.config.timestamps) {
            self.extensions.timestamps.on = true;
            self.extensions.timestamps.recent = timestamps.value;
            self.extensions.timestamps.recent_at = now;
        }
    }

    /// The timestamps option of a segment that is sent now.
    pub(super) fn timestamps_now(&self, now: Instant, flags: Flags) -> Option<Timestamps> {
        let wanted = if flags.has(Flags::SYN) && !flags.has(Flags::ACK) {
            self.config.timestamps
        } else {
            self.extensions.timestamps.on
        };
        wanted.then(|| Timestamps { value: clock(now), echo: self.extensions.timestamps.recent })
    }

    /// Checks a segment by PAWS (RFC 7323, 5.3, R1) and updates TS.Recent (R3). Returns whether the segment passes.
    pub(super) fn passes_paws(&mut self, now: Instant, segment: &Segment) -> bool {
        let (true, Some(timestamps)) = (self.extensions.timestamps.on, segment.timestamps) else { return true };
        let newer = timestamps.value.wrapping_sub(self.extensions.timestamps.recent) as i32 >= 0;
        if !newer && now.since(self.extensions.timestamps.recent_at) < OUTDATED {
            self.counters.old_duplicates += 1;
            self.ack_pending = AckPending::Now;
            return false;
        }
        let start = unwrap(self.rcv_nxt, segment.seq.wrapping_sub(self.peer_isn));
        if start <= self.extensions.timestamps.last_ack.max(1) {
            self.extensions.timestamps.recent = timestamps.value;
            self.extensions.timestamps.recent_at = now;
        }
        true
    }

    /// The RTT sample in an acknowledgement of new data, and the expected number of samples in a window.
    pub(super) fn timestamp_rtt(&self, now: Instant, segment: &Segment, flight_size: u64) -> Option<(Span, u64)> {
        let timestamps = segment.timestamps.filter(|_| self.extensions.timestamps.on)?;
        let rtt = Span::from_micros(u64::from(clock(now).wrapping_sub(timestamps.echo)));
        Some((rtt, flight_size.div_ceil(2 * self.mss).max(1)))
    }

    /// Records that `[start, end)` was received again.
    pub(super) fn note_duplicate(&mut self, start: u64, end: u64) {
        if self.config.d_sack && self.config.recovery == Recovery::Sack && start < end {
            self.extensions.duplicate = Some((start, end));
        }
    }

    /// Whether the first SACK block reports a duplicate (RFC 2883, section 4): it lies below the acknowledgement or
    /// within the second block.
    pub(super) fn reports_duplicate(&self, segment: &Segment, ack: u64) -> bool {
        let at = |wire: u32| unwrap(self.snd_una, wire.wrapping_sub(self.config.isn));
        match segment.sack.as_slice() {
            [(_, end), ..] if at(*end) <= ack => true,
            [(start, end), (low, high), ..] => at(*low) <= at(*start) && at(*end) <= at(*high),
            _ => false,
        }
    }
}

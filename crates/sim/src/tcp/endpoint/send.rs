//! Segments out: new data, retransmissions, acknowledgements, window probes.

use tidegate_core::{Ecn, Instant, Span};

use super::{Endpoint, Owed, Phase, Recovery, State, Vintage};
use crate::tcp::segment::{Flags, Segment};

impl Endpoint {
    /// The next segment to send now, if there is one.
    pub fn poll(&mut self, now: Instant) -> Option<Segment> {
        match self.state {
            State::Listen | State::Closed => None,
            State::SynSent | State::SynReceived => self.poll_syn(now),
            State::TimeWait => self.poll_ack(),
            _ => {
                if let Some(segment) = self.poll_data(now) {
                    return Some(segment);
                }
                self.poll_ack()
            }
        }
    }

    pub(super) fn poll_syn(&mut self, now: Instant) -> Option<Segment> {
        if !core::mem::take(&mut self.syn_due) {
            return None;
        }
        let mut flags = Flags::SYN;
        if self.state == State::SynReceived {
            flags |= Flags::ACK;
            if self.ecn {
                flags |= Flags::ECE;
            }
        } else if self.config.ecn {
            flags |= Flags::ECE | Flags::CWR;
        }
        self.timed = (self.retries == 0).then_some((1, now));
        if self.rto_at.is_none_or(|at| at <= now) {
            self.rto_at = Some(now + self.rtt.timeout());
        }
        self.last_sent = now;
        Some(Segment { seq: self.config.isn, mss: self.config.mss, flags, ..self.header() })
    }

    pub(super) fn poll_ack(&mut self) -> Option<Segment> {
        if core::mem::take(&mut self.probe) && self.nxt < self.written {
            // RFC 9293, 3.8.6.1: one byte beyond the window, which is not counted as sent.
            self.counters.probes += 1;
            self.probed = true;
            return Some(Segment { seq: self.wire(self.nxt), len: 1, ..self.header() });
        }
        if self.owed != Owed::Now {
            return None;
        }
        Some(Segment { seq: self.wire(self.nxt), ..self.header() })
    }

    /// Everything that every segment carries, with the acknowledgement that this settles.
    pub(super) fn header(&mut self) -> Segment {
        let window = self.room();
        let mut flags = Flags::NONE;
        if self.expected > 0 {
            flags = Flags::ACK;
            self.advertised = self.advertised.max(self.expected + window);
        }
        if self.echo {
            flags |= Flags::ECE;
        }
        self.owed = Owed::Nothing;
        self.unacknowledged = 0;
        Segment {
            seq: 0,
            ack: (self.expected as u32).wrapping_add(self.peer_isn),
            window: u32::try_from(window).unwrap_or(u32::MAX),
            len: 0,
            mss: 0,
            flags,
            ecn: Ecn::NotEct,
            sack: self.sack_blocks(),
        }
    }

    pub(super) fn wire(&self, at: u64) -> u32 {
        (at as u32).wrapping_add(self.config.isn)
    }

    pub(super) fn poll_data(&mut self, now: Instant) -> Option<Segment> {
        if self.pace_at > now {
            return None;
        }
        let limit = self.written + u64::from(self.closing);
        if self.una >= limit {
            return None;
        }
        if self.una == self.max && self.nxt < limit && now.since(self.last_sent) > self.rtt.timeout() {
            // RFC 5681, 4.1.
            self.controller.on_idle(u64::from(self.config.initial_window.max(1)) * self.mss);
        }
        if core::mem::take(&mut self.again) {
            let (_, next) = self.scoreboard.gap_from(self.una);
            let end = (self.una + self.mss).min(next.unwrap_or(u64::MAX)).min(self.max);
            self.rexmitted = self.rexmitted.max(end);
            return Some(self.emit(now, self.una, end));
        }
        if self.config.recovery == Recovery::Sack {
            return self.poll_sack(now, limit);
        }
        let window = self.window();
        // RFC 3042: each of the first two duplicate acknowledgements lets a segment out.
        let limited_transmit = self.phase == Phase::Open && self.config.vintage == Vintage::Current;
        let lift = if limited_transmit { u64::from(self.duplicates.min(2)) * self.mss } else { 0 };
        let (start, end) = self.next_new(limit)?;
        // The FIN takes no room in the window.
        if end.min(self.written).saturating_sub(self.una) > window + lift && self.nxt > self.una {
            self.limited = true;
            return None;
        }
        self.nxt = end;
        Some(self.emit(now, start, end))
    }

    pub(super) fn poll_sack(&mut self, now: Instant, limit: u64) -> Option<Segment> {
        let pipe = self.pipe();
        let window = self.window();
        if self.phase == Phase::Open {
            let (start, end) = self.next_new(limit)?;
            if pipe + end.min(self.written).saturating_sub(start) > window && pipe > 0 {
                self.limited = true;
                return None;
            }
            self.nxt = end;
            return Some(self.emit(now, start, end));
        }
        // RFC 6675, section 5, C: as long as the window has room for a segment.
        if pipe + self.mss > window && pipe > 0 {
            self.limited = true;
            return None;
        }
        if let Some((start, end)) = self.next_retransmission(1) {
            self.rexmitted = end;
            return Some(self.emit(now, start, end));
        }
        if let Some((start, end)) = self.next_new(limit) {
            self.nxt = end;
            return Some(self.emit(now, start, end));
        }
        if let Some((start, end)) = self.next_retransmission(3) {
            self.rexmitted = end;
            return Some(self.emit(now, start, end));
        }
        let may_rescue = !self.rescued && self.config.vintage == Vintage::Current;
        if may_rescue && matches!(self.phase, Phase::Fast { .. }) && self.scoreboard.end() != Some(self.max) {
            // Rule 4: the last segment once, lest a timeout be needed for it.
            self.rescued = true;
            let low = self.scoreboard.end().unwrap_or(self.una).max(self.una);
            let start = low.max(self.max.saturating_sub(self.mss));
            return (start < self.max).then(|| self.emit(now, start, self.max));
        }
        None
    }

    /// The next segment of data that was not sent yet (or, after a timeout without SACK, is sent again in order), if
    /// the other end's window has room; starts the persist timer when it has none.
    pub(super) fn next_new(&mut self, limit: u64) -> Option<(u64, u64)> {
        if self.nxt >= limit {
            return None;
        }
        let data_end = (self.nxt + self.mss).min(self.written);
        let room = self.right.max(self.nxt) - self.nxt;
        let mut end = data_end;
        if end > self.right.max(self.nxt) {
            end = self.right.max(self.nxt);
            // RFC 9293, 3.8.6.2.1: a part of a segment only when it is half of the largest window.
            if end == self.nxt || room < self.mss && 2 * room < self.widest {
                return None;
            }
        }
        if end == self.written && self.closing && end <= self.right {
            end += 1;
        }
        (end > self.nxt).then_some((self.nxt, end))
    }

    /// Makes the segment of `[start, end)`, of which the last may be the FIN.
    pub(super) fn emit(&mut self, now: Instant, start: u64, end: u64) -> Segment {
        let fin = end > self.written;
        let len = (end - u64::from(fin)).saturating_sub(start) as u32;
        let again = start < self.max;
        let mut segment = Segment { seq: self.wire(start), len, ..self.header() };
        if fin {
            segment.flags |= Flags::FIN;
        }
        if len > 0 {
            self.counters.segments += 1;
        }
        if again {
            segment.flags |= Flags::AGAIN;
            if len > 0 {
                self.counters.retransmitted += 1;
                self.counters.retransmitted_bytes += u64::from(len);
            }
            // Karn: an acknowledgement could mean either copy.
            self.timed = None;
        } else {
            if self.ecn && len > 0 {
                // RFC 3168, 6.1.5: not on retransmissions.
                segment.ecn = Ecn::Ect0;
                if core::mem::take(&mut self.reduced) {
                    segment.flags |= Flags::CWR;
                }
            }
            if self.timed.is_none() {
                self.timed = Some((end, now));
            }
        }
        self.max = self.max.max(end);
        self.nxt = self.nxt.max(self.una);
        // RFC 6298, 5.1.
        if self.rto_at.is_none() {
            self.rto_at = Some(now + self.rtt.timeout());
        }
        self.persist_at = None;
        self.limited = false;
        self.last_sent = now;
        if let Some(rate) = self.controller.pacing() {
            let size = tidegate_core::Bytes::new(u64::from(len) + 40);
            self.pace_at = now + rate.time_for_ceil(size).unwrap_or(Span::ZERO);
        }
        if fin {
            self.advance_state();
        }
        segment
    }

    /// Call after the last [`Endpoint::poll`] of a round: arms the persist timer when data waits for a window and
    /// nothing is out whose acknowledgement would bring one.
    pub fn settle(&mut self, now: Instant) {
        let waiting = self.nxt < self.written + u64::from(self.closing);
        let established = !matches!(self.state, State::Listen | State::SynSent | State::SynReceived) && !self.is_over();
        if waiting && established && self.nxt == self.una && self.rto_at.is_none() && self.persist_at.is_none() {
            let wait = self.rtt.timeout().saturating_mul(1 << self.persist_backoff).min(self.config.rto.most);
            self.persist_at = Some(now + wait);
        }
    }
}

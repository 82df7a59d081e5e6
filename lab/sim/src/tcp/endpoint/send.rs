//! Segments to send: new data, retransmissions, acknowledgements, window probes.

use tidegate_core::{Ecn, Instant, Rate, Span};
use tidegate_engine::advice::PERIOD;

use super::{AckPending, Endpoint, NEVER, Phase, Recovery, State, Vintage};
use crate::tcp::segment::{Flags, Segment};

impl Endpoint {
    /// Whether this end has sent anything but its SYN.
    pub(crate) fn has_sent(&self) -> bool {
        self.high_data > 1
    }

    /// Bounds the window by a rate that the path advises, if the connection follows advice.
    pub fn advise(&mut self, now: Instant, rate: Rate) {
        if self.config.follow_advice {
            self.advised = Some((rate, now));
        }
    }

    /// The end of the window: that of the receiver, or before it the one that the advised rate leaves. Two segments more than
    /// rate times round trip, so that delayed acknowledgements do not stop the sender.
    fn window_edge(&self, now: Instant) -> u64 {
        let advised = self.advised.filter(|(_, told)| now.since(*told) < PERIOD);
        let (Some((rate, _)), Some(round_trip)) = (advised, self.rtt.min_rtt()) else { return self.snd_wnd_edge };
        let bytes = rate.bytes_in_floor(round_trip).as_u64() + 2 * self.mss;
        self.snd_wnd_edge.min(self.snd_una + bytes)
    }

    /// The pacing rate of the congestion control; `None` if it does not pace.
    pub fn pacing(&self) -> Option<Rate> {
        self.controller.pacing()
    }

    /// The next segment to send at `now`, if any.
    pub fn poll(&mut self, now: Instant) -> Option<Segment> {
        match self.state {
            State::Listen | State::Closed => None,
            State::SynSent | State::SynReceived => self.poll_syn(now),
            State::TimeWait => self.poll_ack(now),
            _ => {
                if let Some(segment) = self.poll_ack_of_syn_ack(now).or_else(|| self.poll_ack_before(now)) {
                    return Some(segment);
                }
                if let Some(segment) = self.poll_data(now) {
                    return Some(segment);
                }
                self.poll_ack(now)
            }
        }
    }

    pub(super) fn poll_syn(&mut self, now: Instant) -> Option<Segment> {
        if !core::mem::take(&mut self.syn_pending) {
            return None;
        }
        let mut flags = Flags::SYN | self.syn_flags();
        if self.state == State::SynReceived {
            flags |= Flags::ACK;
        }
        // Karn's algorithm also applies if the SYN-ACK is sent again for a repeated SYN.
        self.timed_at = if self.timed_end == 0 { now } else { NEVER };
        self.timed_end = 1;
        if self.rto_at <= now || self.rto_at == NEVER {
            self.rto_at = now + self.rto();
        }
        self.last_sent = now;
        let timestamps = self.timestamps_now(now, flags);
        let header = self.header(now);
        let mut segment = Segment { seq: self.config.isn, mss: self.config.mss, flags, timestamps, ..header };
        segment.accecn = None;
        self.add_option(&mut segment);
        Some(segment)
    }

    pub(super) fn poll_ack(&mut self, now: Instant) -> Option<Segment> {
        if core::mem::take(&mut self.probe_pending) && self.snd_nxt < self.written {
            // RFC 9293, 3.8.6.1: one byte beyond the window; SND.NXT does not advance.
            self.counters.probes += 1;
            self.probe_sent = true;
            return Some(Segment { seq: self.wire(self.snd_nxt), len: 1, ..self.header(now) });
        }
        if self.ack_pending != AckPending::Now {
            return None;
        }
        Some(Segment { seq: self.wire(self.snd_nxt), ..self.header(now) })
    }

    /// Builds the fields that every segment sent now has in common. Clears the pending acknowledgement.
    pub(super) fn header(&mut self, now: Instant) -> Segment {
        let window = self.rcv_wnd();
        let mut flags = Flags::NONE;
        if self.rcv_nxt > 0 {
            flags = Flags::ACK;
            self.rcv_wnd_edge = self.rcv_wnd_edge.max(self.rcv_nxt + window);
        }
        flags |= self.feedback_flags();
        if self.extensions.timestamps.on {
            self.extensions.timestamps.last_ack = self.rcv_nxt;
        }
        self.ack_pending = AckPending::No;
        self.segments_since_ack = 0;
        let mut segment = Segment {
            seq: 0,
            ack: (self.rcv_nxt as u32).wrapping_add(self.peer_isn),
            window: u32::try_from(window).unwrap_or(u32::MAX),
            len: 0,
            mss: 0,
            flags,
            ecn: Ecn::NotEct,
            sack: self.sack_blocks(),
            timestamps: self.timestamps_now(now, flags),
            accecn: None,
        };
        if !matches!(self.state, State::SynSent | State::SynReceived) {
            self.add_option(&mut segment);
        }
        segment
    }

    pub(super) fn wire(&self, at: u64) -> u32 {
        (at as u32).wrapping_add(self.config.isn)
    }

    pub(super) fn poll_data(&mut self, now: Instant) -> Option<Segment> {
        let limit = self.written + u64::from(self.closing);
        if self.pace_at > now {
            self.pacing_limited = self.snd_nxt < limit;
            return None;
        }
        if self.snd_una >= limit {
            return None;
        }
        if self.snd_una == self.high_data && self.snd_nxt < limit && now.since(self.last_sent) > self.rto() {
            // RFC 5681, 4.1.
            self.controller.on_idle(u64::from(self.config.initial_window.max(1)) * self.mss);
        }
        if core::mem::take(&mut self.retransmit_pending) {
            if self.config.rack() {
                let (start, end) = self.transmissions.as_ref()?.first_lost()?;
                return Some(self.emit(now, start, end));
            }
            let (_, next) = self.scoreboard.gap_from(self.snd_una);
            let end = self.retransmission_end(self.snd_una, next);
            self.high_rxt = self.high_rxt.max(end);
            return Some(self.emit(now, self.snd_una, end));
        }
        if self.config.rack()
            && let Some(probe) = self.poll_probe(now, limit)
        {
            return Some(probe);
        }
        if self.config.recovery == Recovery::Sack {
            return self.poll_sack(now, limit);
        }
        let cwnd = self.cwnd();
        // RFC 3042: a new segment for each of the first two duplicate acknowledgements.
        let limited_transmit = self.phase == Phase::Open && self.config.vintage == Vintage::Current;
        let limited = if limited_transmit { u64::from(self.dup_acks.min(2)) * self.mss } else { 0 };
        let (start, end) = self.next_new(now, limit)?;
        // The FIN is not limited by cwnd.
        if end.min(self.written).saturating_sub(self.snd_una) > cwnd + limited && self.snd_nxt > self.snd_una {
            self.cwnd_limited = true;
            return None;
        }
        self.snd_nxt = end;
        Some(self.emit(now, start, end))
    }

    pub(super) fn poll_sack(&mut self, now: Instant, limit: u64) -> Option<Segment> {
        let pipe = self.pipe();
        let cwnd = self.window(pipe);
        if self.config.rack() && self.phase != Phase::Open {
            return self.poll_rack(now, limit, pipe, cwnd);
        }
        if self.phase == Phase::Open {
            let (start, end) = self.next_new(now, limit)?;
            if pipe + end.min(self.written).saturating_sub(start) > cwnd && pipe > 0 {
                self.cwnd_limited = true;
                return None;
            }
            self.snd_nxt = end;
            return Some(self.emit(now, start, end));
        }
        // RFC 6675, section 5, (C): while cwnd - pipe >= 1 SMSS.
        if pipe + self.mss > cwnd && pipe > 0 {
            self.cwnd_limited = true;
            return None;
        }
        if let Some((start, end)) = self.next_retransmission(1) {
            self.high_rxt = end;
            return Some(self.emit(now, start, end));
        }
        if let Some((start, end)) = self.next_new(now, limit) {
            self.snd_nxt = end;
            return Some(self.emit(now, start, end));
        }
        if let Some((start, end)) = self.next_retransmission(3) {
            self.high_rxt = end;
            return Some(self.emit(now, start, end));
        }
        if self.config.vintage == Vintage::Current
            && let Phase::FastRecovery { recovery_point, .. } = self.phase
            && let Some((start, end)) = self.rescue()
        {
            // RFC 6675, section 4, NextSeg (4): once in a recovery. HighRxt stays.
            self.rescue_rxt = recovery_point;
            return Some(self.emit(now, start, end));
        }
        None
    }

    /// Sends segments that RACK considers lost, then new data.
    fn poll_rack(&mut self, now: Instant, limit: u64, pipe: u64, window: u64) -> Option<Segment> {
        if pipe + self.mss > window && pipe > 0 {
            self.cwnd_limited = true;
            return None;
        }
        if let Some((start, end)) = self.transmissions.as_ref().and_then(|sent| sent.first_lost()) {
            return Some(self.emit(now, start, end));
        }
        let (start, end) = self.next_new(now, limit)?;
        self.snd_nxt = end;
        Some(self.emit(now, start, end))
    }

    /// The segment at SND.NXT, if the send window allows it: new data or, after a timeout without SACK, data that is
    /// sent again.
    pub(super) fn next_new(&mut self, now: Instant, limit: u64) -> Option<(u64, u64)> {
        if self.snd_nxt >= limit {
            return None;
        }
        let edge = self.window_edge(now);
        let data_end = (self.snd_nxt + self.mss).min(self.written);
        let room = edge.max(self.snd_nxt) - self.snd_nxt;
        let mut end = data_end;
        if end > edge.max(self.snd_nxt) {
            end = edge.max(self.snd_nxt);
            // RFC 9293, 3.8.6.2.1: less than a segment only if it is half of the largest window.
            if end == self.snd_nxt || room < self.mss && 2 * room < self.max_snd_wnd {
                return None;
            }
        }
        if end == self.written && self.closing && end <= edge {
            end += 1;
        }
        (end > self.snd_nxt).then_some((self.snd_nxt, end))
    }

    /// Sends `[start, end)`, which may include the sequence number of the FIN.
    pub(super) fn emit(&mut self, now: Instant, start: u64, end: u64) -> Segment {
        let fin = end > self.written;
        let len = (end - u64::from(fin)).saturating_sub(start) as u32;
        let retransmission = start < self.high_data;
        let mut segment = Segment { seq: self.wire(start), len, ..self.header(now) };
        if fin {
            segment.flags |= Flags::FIN;
        }
        if len > 0 {
            self.counters.segments += 1;
            segment.ecn = self.code_point(retransmission);
        }
        if retransmission {
            segment.flags |= Flags::RETRANSMISSION;
            if len > 0 {
                self.counters.retransmitted += 1;
                self.counters.retransmitted_bytes += u64::from(len);
            }
            // Karn's algorithm: the acknowledgement may be of either transmission.
            self.timed_at = NEVER;
        } else {
            if self.cwr_pending && len > 0 {
                self.cwr_pending = false;
                segment.flags |= Flags::CWR;
            }
            if self.timed_at == NEVER {
                (self.timed_end, self.timed_at) = (end, now);
            }
        }
        if let Some(transmissions) = &mut self.transmissions {
            if transmissions.in_flight() == 0 {
                self.controller.on_restart(now, transmissions.is_limited_by_application());
            }
            transmissions.on_send(now, start, end);
            if end >= self.written && self.phase == Phase::Open {
                transmissions.limited_by_application();
            }
        }
        if let Some(prr) = &mut self.prr {
            prr.on_send(u64::from(len));
        }
        self.high_data = self.high_data.max(end);
        self.snd_nxt = self.snd_nxt.max(self.snd_una);
        // RFC 6298, 5.1.
        if self.rto_at == NEVER {
            self.rto_at = now + self.rto();
        }
        self.stop_persist();
        self.cwnd_limited = false;
        self.pacing_limited = false;
        if !retransmission {
            self.schedule_probe(now);
        }
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

    /// Stops the persist timer but keeps its backoff.
    pub(super) fn stop_persist(&mut self) {
        if self.extensions.persist.at != NEVER {
            self.extensions.persist.at = NEVER;
        }
    }

    /// Starts the persist timer if data waits for a window and no acknowledgement is outstanding that could open it.
    /// Call this after the last [`Endpoint::poll`] at a time.
    pub fn settle(&mut self, now: Instant) {
        let waiting = self.snd_nxt < self.written + u64::from(self.closing);
        let established = !matches!(self.state, State::Listen | State::SynSent | State::SynReceived) && !self.is_over();
        if waiting
            && established
            && self.snd_nxt == self.snd_una
            && self.rto_at == NEVER
            && self.extensions.persist.at == NEVER
        {
            let wait = self.rto().saturating_mul(1 << self.extensions.persist.backoff).min(self.config.rto.max);
            self.extensions.persist.at = now + wait;
        }
    }

    /// The limit of data in the network: cwnd, or the window of PRR in fast recovery.
    fn window(&self, pipe: u64) -> u64 {
        match (&self.prr, self.phase) {
            (Some(prr), Phase::FastRecovery { .. }) => prr.window(pipe, self.mss),
            _ => self.cwnd(),
        }
    }
}

//! Segments in: the handshake, acknowledgements, losses (RFC 9293, 5681, 6582, 6675, 3168).

use tidegate_core::Instant;

use super::{DUPLICATES, Endpoint, Owed, Phase, Recovery, State, Vintage, unwrap};
use crate::tcp::congestion::{Ack, Controller, Signal};
use crate::tcp::segment::{Flags, Segment};

impl Endpoint {
    /// A segment came in. Afterwards [`Endpoint::poll`] until it has nothing more.
    pub fn on_segment(&mut self, now: Instant, segment: &Segment) {
        match self.state {
            State::Closed => return,
            State::Listen => {
                if segment.flags.has(Flags::SYN) {
                    self.on_syn(segment);
                    // RFC 3168, 6.1.1: ECE and CWR ask, ECE alone agrees.
                    self.ecn = self.config.ecn && segment.flags.has(Flags::ECE | Flags::CWR);
                    self.opened = Some(now);
                    self.state = State::SynReceived;
                    self.syn_due = true;
                }
                return;
            }
            State::SynSent => {
                if segment.flags.has(Flags::SYN | Flags::ACK) {
                    self.on_syn(segment);
                    self.ecn = self.config.ecn && segment.flags.has(Flags::ECE) && !segment.flags.has(Flags::CWR);
                    self.on_handshake_acknowledged(now, segment);
                    self.owed = Owed::Now;
                }
                return;
            }
            State::SynReceived => {
                if segment.flags.has(Flags::SYN) {
                    // Ours was lost, and theirs came again.
                    self.syn_due = true;
                    return;
                }
                if !segment.flags.has(Flags::ACK) || self.unwrap_ack(segment) < 1 {
                    return;
                }
                self.on_handshake_acknowledged(now, segment);
            }
            _ => {
                if segment.flags.has(Flags::SYN) {
                    // Our acknowledgement of the SYN was lost.
                    self.owed = Owed::Now;
                    return;
                }
            }
        }
        if segment.flags.has(Flags::ACK) {
            self.on_ack(now, segment);
        }
        if segment.len > 0 || segment.flags.has(Flags::FIN) {
            self.on_data(now, segment);
        }
        self.advance_state();
    }

    pub(super) fn on_syn(&mut self, segment: &Segment) {
        self.peer_isn = segment.seq;
        self.expected = 1;
        self.advertised = 1;
        if segment.mss > 0 && u64::from(segment.mss) < self.mss {
            self.mss = u64::from(segment.mss);
        }
        let initial = u64::from(self.config.initial_window.max(1)) * self.mss;
        self.controller = Controller::new(self.config.algorithm, self.mss, initial);
    }

    pub(super) fn on_handshake_acknowledged(&mut self, now: Instant, segment: &Segment) {
        self.state = State::Established;
        self.established = Some(now);
        self.syn_due = false;
        self.una = 1;
        self.nxt = 1;
        self.max = 1;
        self.careful = 1;
        self.rexmitted = 1;
        self.ecn_point = 1;
        self.right = 1 + u64::from(segment.window);
        self.widest = u64::from(segment.window);
        self.rto_at = None;
        if self.retries > 0 {
            // RFC 6298, 5.7 and RFC 5681, 3.1: after a lost SYN begin with one segment.
            self.controller.on_idle(self.mss);
        }
        self.retries = 0;
        if let Some((_, at)) = self.timed.take() {
            self.rtt.sample(now.since(at));
        } else {
            self.rtt.end_backoff();
        }
        self.last_sent = now;
    }

    pub(super) fn unwrap_ack(&self, segment: &Segment) -> u64 {
        unwrap(self.una, segment.ack.wrapping_sub(self.config.isn))
    }

    pub(super) fn on_ack(&mut self, now: Instant, segment: &Segment) {
        let ack = self.unwrap_ack(segment);
        if self.probed && ack == self.nxt + 1 && ack > self.max {
            // There was room for the byte of a window probe.
            self.max = ack;
            self.probed = false;
        }
        if ack > self.max || ack < self.una {
            return;
        }
        let right = ack + u64::from(segment.window);
        let widened = right > self.right;
        self.right = self.right.max(right);
        self.widest = self.widest.max(u64::from(segment.window));
        if widened && self.persist_at.is_some() {
            self.persist_at = None;
            self.persist_backoff = 0;
        }

        let flight = self.flight();
        let fresh = if self.config.recovery == Recovery::Sack { self.on_sack(segment) } else { 0 };
        if self.ecn && segment.flags.has(Flags::ECE) && ack > self.ecn_point && self.phase == Phase::Open {
            // RFC 3168, 6.1.2: once for a window of data.
            self.controller.on_congestion(now, flight, Signal::Ecn);
            self.counters.ecn_reductions += 1;
            self.ecn_point = self.max;
            self.reduced = true;
            self.limited = false;
        }
        if ack > self.una {
            self.on_new_ack(now, ack, flight);
        } else if self.nxt > self.una && self.is_duplicate(segment, widened, fresh) {
            self.on_duplicate(now, flight);
        }
    }

    /// RFC 5681, section 2, and RFC 6675, section 2.
    pub(super) fn is_duplicate(&self, segment: &Segment, widened: bool, fresh: u64) -> bool {
        if self.config.recovery == Recovery::Sack {
            fresh > 0
        } else {
            segment.len == 0 && !segment.flags.has(Flags::FIN) && !widened
        }
    }

    /// Notes what is selectively acknowledged, and tells how many bytes of it are news.
    pub(super) fn on_sack(&mut self, segment: &Segment) -> u64 {
        let mut fresh = 0;
        for &(start, end) in segment.sack.as_slice() {
            let start = unwrap(self.una, start.wrapping_sub(self.config.isn)).max(self.una);
            let end = unwrap(self.una, end.wrapping_sub(self.config.isn)).min(self.max);
            if start < end {
                fresh += self.scoreboard.insert(start, end).0;
            }
        }
        fresh
    }

    pub(super) fn on_new_ack(&mut self, now: Instant, ack: u64, flight: u64) {
        let acked = ack - self.una;
        self.una = ack;
        self.nxt = self.nxt.max(ack);
        self.rexmitted = self.rexmitted.max(ack);
        if !self.scoreboard.is_empty() {
            self.scoreboard.trim(ack);
        }
        self.retries = 0;
        self.persist_backoff = 0;
        let mut rtt = None;
        match self.timed {
            Some((end, at)) if ack >= end => {
                let sample = now.since(at);
                self.rtt.sample(sample);
                rtt = Some(sample);
                self.timed = None;
            }
            _ => self.rtt.end_backoff(),
        }
        let mut restart_timer = true;
        let recovering = match self.phase {
            Phase::Open => {
                self.duplicates = 0;
                false
            }
            Phase::Loss { recover } => {
                if ack >= recover {
                    self.phase = Phase::Open;
                }
                self.duplicates = 0;
                false
            }
            Phase::Fast { recover } => {
                if ack >= recover || self.config.recovery == Recovery::Reno {
                    self.end_fast_recovery(now);
                } else if self.config.recovery == Recovery::NewReno {
                    // RFC 6582, 3.2 step 3, partial acknowledgement; the impatient variant.
                    self.again = true;
                    self.inflation -= acked as i64;
                    if acked >= self.mss {
                        self.inflation += self.mss as i64;
                    }
                    restart_timer = self.first_partial;
                    self.first_partial = false;
                }
                true
            }
        };
        self.controller.on_ack(&Ack {
            now,
            acked,
            flight,
            limited: self.limited,
            rtt,
            smoothed: self.rtt.smoothed(),
            delivered: self.una + self.scoreboard.bytes(),
            recovering,
        });
        // RFC 6298, 5.2 and 5.3.
        if self.una == self.max {
            self.rto_at = None;
        } else if restart_timer {
            self.rto_at = Some(now + self.rtt.timeout());
        }
        // With SACK a loss may show while the cumulative acknowledgement advances.
        if self.phase == Phase::Open && !self.scoreboard.is_empty() && self.lost_edge() > self.una {
            self.begin_fast_recovery(now, self.flight());
        }
    }

    pub(super) fn on_duplicate(&mut self, now: Instant, flight: u64) {
        match self.phase {
            Phase::Loss { .. } => {}
            Phase::Fast { .. } => {
                if self.config.recovery != Recovery::Sack {
                    self.inflation += self.mss as i64;
                }
            }
            Phase::Open => {
                self.duplicates += 1;
                let sack = self.config.recovery == Recovery::Sack;
                // RFC 6582, 3.2 step 2: not for what an earlier recovery sent again; RFC 6675, 5 (1) and (2).
                let careful = sack || self.config.recovery == Recovery::Reno || self.una > self.careful;
                let lost = self.duplicates >= DUPLICATES || sack && self.lost_edge() > self.una;
                if lost && careful {
                    self.begin_fast_recovery(now, flight);
                }
            }
        }
    }

    pub(super) fn begin_fast_recovery(&mut self, now: Instant, flight: u64) {
        self.counters.recoveries += 1;
        self.phase = Phase::Fast { recover: self.max };
        self.careful = self.max;
        // RFC 5681, 3.2: what limited transmit sent does not count as flight.
        let sent_beyond = self.config.recovery != Recovery::Sack && self.config.vintage == Vintage::Current;
        let limited = if sent_beyond { 2 * self.mss } else { 0 };
        self.controller.on_congestion(now, flight.saturating_sub(limited.min(flight / 2)), Signal::Loss);
        // A mark in the same window asks for nothing more.
        self.ecn_point = self.max;
        self.reduced = self.ecn;
        self.again = true;
        self.first_partial = true;
        self.rescued = false;
        self.timed = None;
        self.rexmitted = self.una;
        if self.config.recovery != Recovery::Sack {
            self.inflation = i64::from(DUPLICATES) * self.mss as i64;
        }
    }

    pub(super) fn end_fast_recovery(&mut self, now: Instant) {
        self.phase = Phase::Open;
        self.duplicates = 0;
        self.inflation = 0;
        self.again = false;
        if self.config.recovery == Recovery::NewReno {
            self.controller.on_recovered(now, self.flight());
        }
    }
}

//! Data in: reassembly, delayed acknowledgements, SACK blocks, the ECN echo; and the states of the close.

use tidegate_core::{Ecn, Instant};

use super::{Endpoint, Owed, Recovery, State, unwrap};
use crate::tcp::segment::{Flags, SackBlocks, Segment};

impl Endpoint {
    pub(super) fn on_data(&mut self, now: Instant, segment: &Segment) {
        let start = unwrap(self.expected, segment.seq.wrapping_sub(self.peer_isn));
        let len = u64::from(segment.len);
        if self.ecn && len > 0 {
            // RFC 3168, 6.1.3: echo from the mark until the sender says that it has reduced.
            if segment.flags.has(Flags::CWR) {
                self.echo = false;
            }
            if segment.ecn == Ecn::Ce {
                self.echo = true;
            }
        }
        let end = start + len;
        let before = self.received();
        // What is beyond the advertised edge has no room; the FIN, which takes a sequence number, needs none.
        let room = self.advertised.max(self.expected);
        let mut accepted = end.min(room);
        let mut at_once = accepted < end;
        if segment.flags.has(Flags::FIN) && end <= room {
            self.fin_at = Some(end);
            accepted = end + 1;
            at_once = true;
        }
        if accepted <= self.expected {
            // Known already, or without room.
            at_once = true;
        } else if start <= self.expected {
            self.expected = accepted;
            if !self.early.is_empty() {
                // It fills a hole: say so at once (RFC 5681, 4.2).
                at_once = true;
                self.early.trim(self.expected);
                while let Some(high) = self.early.take_from(self.expected) {
                    self.expected = self.expected.max(high);
                }
            }
        } else if start < accepted {
            let (_, (low, _)) = self.early.insert(start, accepted);
            self.note_recent(low);
            at_once = true;
        }
        let news = self.received() - before;
        if !self.config.reads_at_once {
            self.unread += news;
        }
        if news > 0 {
            self.unacknowledged += 1;
        }
        match self.config.delayed_ack {
            // RFC 5681, 4.2: at least every second segment, and not later than the delay.
            Some(delay) if !at_once && self.unacknowledged < 2 => {
                if self.owed == Owed::Nothing {
                    self.owed = Owed::Until(now + delay);
                }
            }
            _ => self.owed = Owed::Now,
        }
    }

    /// Keeps the ranges that changed last, for the order of the SACK blocks (RFC 2018, section 4).
    pub(super) fn note_recent(&mut self, low: u64) {
        if self.recent[0] != low {
            self.recent[1] = self.recent[0];
            self.recent[0] = low;
        }
    }

    pub(super) fn sack_blocks(&self) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        if self.config.recovery != Recovery::Sack || self.early.is_empty() {
            return blocks;
        }
        let wire = |at: u64| (at as u32).wrapping_add(self.peer_isn);
        let mut said = [u64::MAX; SackBlocks::MOST];
        let mut count = 0;
        let recent = self.recent.iter().filter_map(|&low| self.early.holding(low));
        let rest = self.early.as_slice().iter().rev().copied();
        for (start, end) in recent.chain(rest) {
            if count == SackBlocks::MOST {
                break;
            }
            if !said[..count].contains(&start) {
                blocks.push(wire(start), wire(end));
                said[count] = start;
                count += 1;
            }
        }
        blocks
    }

    /// Bytes of room in the receive buffer.
    pub(super) fn room(&self) -> u64 {
        self.config.receive_buffer.saturating_sub(self.unread)
    }

    pub(super) fn advance_state(&mut self) {
        let fin_acknowledged = self.closing && self.una > self.written;
        let fin_sent = self.closing && self.max > self.written;
        let theirs = self.peer_closed();
        self.state = match self.state {
            State::Established if fin_sent && theirs => State::Closing,
            State::Established if fin_sent => State::FinWait1,
            State::Established if theirs => State::CloseWait,
            State::CloseWait if fin_sent => State::LastAck,
            State::FinWait1 if theirs => State::Closing,
            state => state,
        };
        if fin_acknowledged {
            self.state = match self.state {
                State::FinWait1 => State::FinWait2,
                State::Closing => State::TimeWait,
                State::LastAck => State::Closed,
                State::FinWait2 if theirs => State::TimeWait,
                state => state,
            };
        }
        if self.is_over() {
            self.rto_at = None;
            self.persist_at = None;
        }
    }
}

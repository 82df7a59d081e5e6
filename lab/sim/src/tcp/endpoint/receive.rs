//! Received data: reassembly, delayed acknowledgements, SACK blocks, ECN-Echo; and the closing states.

use tidegate_core::Instant;

use super::{AckPending, Endpoint, NEVER, Recovery, State, unwrap};
use crate::tcp::segment::{Flags, SackBlocks, Segment};

impl Endpoint {
    pub(super) fn on_data(&mut self, now: Instant, segment: &Segment) {
        let start = unwrap(self.rcv_nxt, segment.seq.wrapping_sub(self.peer_isn));
        let len = u64::from(segment.len);
        self.on_ecn_field(segment);
        let end = start + len;
        let before = self.received();
        // Data beyond the receive window is not accepted. The FIN needs no buffer.
        let room = self.rcv_wnd_edge.max(self.rcv_nxt);
        let mut accepted = end.min(room);
        let mut at_once = accepted < end;
        if segment.flags.has(Flags::FIN) && end <= room {
            self.fin_at = end;
            accepted = end + 1;
            at_once = true;
        }
        if accepted <= self.rcv_nxt {
            // The segment is a duplicate or outside of the window.
            at_once = true;
            self.note_duplicate(start, end);
        } else if start <= self.rcv_nxt {
            self.rcv_nxt = accepted;
            if !self.out_of_order.is_empty() {
                // RFC 5681, 4.2: a segment that fills a gap is acknowledged immediately.
                at_once = true;
                self.out_of_order.trim(self.rcv_nxt);
                while let Some(high) = self.out_of_order.take_from(self.rcv_nxt) {
                    self.rcv_nxt = self.rcv_nxt.max(high);
                }
            }
        } else if start < accepted {
            let (new, (low, _)) = self.out_of_order.insert(start, accepted);
            if new == 0 {
                self.note_duplicate(start, accepted);
            }
            self.note_recent(low);
            at_once = true;
        }
        let newly_received = self.received() - before;
        if !self.config.reads_at_once {
            self.unread += newly_received;
        }
        if newly_received > 0 {
            self.segments_since_ack += 1;
        }
        match self.config.delayed_ack {
            // RFC 5681, 4.2: at least for every second segment, and within the delay.
            Some(delay) if !at_once && self.segments_since_ack < 2 => {
                if self.ack_pending == AckPending::No {
                    self.ack_pending = AckPending::Until(now + delay);
                }
            }
            _ => self.ack_pending = AckPending::Now,
        }
    }

    /// Records which blocks changed most recently, for the order of the SACK blocks (RFC 2018, section 4).
    pub(super) fn note_recent(&mut self, low: u64) {
        if self.recent_blocks[0] != low {
            self.recent_blocks[1] = self.recent_blocks[0];
            self.recent_blocks[0] = low;
        }
    }

    pub(super) fn sack_blocks(&mut self) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let duplicate = self.extensions.duplicate;
        if duplicate.is_some() {
            self.extensions.duplicate = None;
        }
        if self.config.recovery != Recovery::Sack || self.out_of_order.is_empty() && duplicate.is_none() {
            return blocks;
        }
        let wire = |at: u64| (at as u32).wrapping_add(self.peer_isn);
        let mut reported = [u64::MAX; SackBlocks::MOST];
        let mut count = 0;
        if let Some((start, end)) = duplicate {
            // RFC 2883, section 4: the duplicate is the first block, and the other blocks follow as usual.
            blocks.push(wire(start), wire(end));
            count = 1;
        }
        let recent = self.recent_blocks.iter().filter_map(|&low| self.out_of_order.holding(low));
        let rest = self.out_of_order.as_slice().iter().rev().copied();
        for (start, end) in recent.chain(rest) {
            if count == SackBlocks::MOST {
                break;
            }
            if !reported[..count].contains(&start) {
                blocks.push(wire(start), wire(end));
                reported[count] = start;
                count += 1;
            }
        }
        blocks
    }

    /// RCV.WND: free bytes of the receive buffer.
    pub(super) fn rcv_wnd(&self) -> u64 {
        self.config.receive_buffer.saturating_sub(self.unread)
    }

    pub(super) fn advance_state(&mut self) {
        let fin_acknowledged = self.closing && self.snd_una > self.written;
        let fin_sent = self.closing && self.high_data > self.written;
        let peer_closed = self.peer_closed();
        self.state = match self.state {
            State::Established if fin_sent && peer_closed => State::Closing,
            State::Established if fin_sent => State::FinWait1,
            State::Established if peer_closed => State::CloseWait,
            State::CloseWait if fin_sent => State::LastAck,
            State::FinWait1 if peer_closed => State::Closing,
            state => state,
        };
        if fin_acknowledged {
            self.state = match self.state {
                State::FinWait1 => State::FinWait2,
                State::Closing => State::TimeWait,
                State::LastAck => State::Closed,
                State::FinWait2 if peer_closed => State::TimeWait,
                state => state,
            };
        }
        if self.is_over() {
            self.rto_at = NEVER;
            self.stop_persist();
        }
    }
}

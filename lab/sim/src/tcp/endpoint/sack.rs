//! IsLost, SetPipe and NextSeg of RFC 6675, section 4.

use super::{DUP_THRESH, Endpoint, Phase, Vintage};

impl Endpoint {
    /// IsLost of section 4 for all bytes at once: bytes below the returned number that are not SACKed are lost.
    pub(super) fn is_lost_edge(&self) -> u64 {
        let mut bytes = 0;
        for (count, &(start, end)) in self.scoreboard.as_slice().iter().rev().enumerate() {
            bytes += end - start;
            if count as u32 + 1 >= DUP_THRESH || bytes > u64::from(DUP_THRESH - 1) * self.mss {
                return start;
            }
        }
        self.snd_una
    }

    /// The end of the data that is considered lost: [`Self::is_lost_edge`], and after a timeout everything that was
    /// outstanding then.
    pub(super) fn loss_edge(&self) -> u64 {
        match self.phase {
            Phase::RtoRecovery { recovery_point } => recovery_point.max(self.is_lost_edge()),
            Phase::FastRecovery { lost, .. } => self.is_lost_edge().max(lost),
            Phase::Open => self.snd_una,
        }
    }

    /// SetPipe of section 4: pipe, the estimate of the bytes in the network.
    pub(crate) fn pipe(&self) -> u64 {
        if let Some(transmissions) = self.transmissions.as_ref().filter(|_| self.config.rack()) {
            return transmissions.in_flight();
        }
        let outstanding = self.snd_nxt - self.snd_una;
        if self.phase == Phase::Open {
            // Limited Transmit: SACKed bytes have left the network, even before a loss is detected.
            let sacked = if self.config.vintage == Vintage::Current { self.scoreboard.bytes() } else { 0 };
            return outstanding - sacked.min(outstanding);
        }
        let not_sacked = |edge: u64| edge.max(self.snd_una) - self.snd_una - self.scoreboard.bytes_below(edge);
        let lost = not_sacked(self.loss_edge().min(self.snd_nxt));
        let retransmitted = not_sacked(self.high_rxt.min(self.snd_nxt));
        (outstanding + retransmitted).saturating_sub(self.scoreboard.bytes() + lost)
    }

    /// NextSeg of section 4, rules 1 and 3. Rule 2, new data, is up to the caller.
    pub(super) fn next_retransmission(&self, rule: u8) -> Option<(u64, u64)> {
        let top = match self.phase {
            Phase::RtoRecovery { recovery_point } => recovery_point.max(self.scoreboard.end().unwrap_or(0)),
            _ => self.scoreboard.end()?,
        };
        let (start, next) = self.scoreboard.gap_from(self.high_rxt.max(self.snd_una));
        let edge = if rule == 1 { self.loss_edge().min(top) } else { top };
        let end = self.retransmission_end(start, next);
        (start < edge && start < end).then_some((start, end))
    }

    /// The end of a retransmission from `start`, if data from `next` on is SACKed. The FIN is sent with the last data.
    pub(super) fn retransmission_end(&self, start: u64, next: Option<u64>) -> u64 {
        let end = (start + self.mss).min(next.unwrap_or(u64::MAX)).min(self.high_data);
        if end == self.written && next.is_none() { self.high_data } else { end }
    }

    /// NextSeg of section 4, rule 4: the segment with the highest outstanding sequence number that is not SACKed.
    pub(super) fn rescue(&self) -> Option<(u64, u64)> {
        if self.snd_una <= self.rescue_rxt {
            return None;
        }
        let (mut start, mut end) = (self.snd_una, self.high_data);
        for &(low, high) in self.scoreboard.as_slice().iter().rev() {
            if high < end {
                start = high;
                break;
            }
            end = low;
        }
        let fin = u64::from(end > self.written);
        let start = start.max(end.saturating_sub(self.mss + fin));
        (start < end).then_some((start, end))
    }
}

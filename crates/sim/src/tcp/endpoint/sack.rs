//! What the scoreboard says: IsLost, SetPipe and NextSeg of RFC 6675, section 4.

use super::{DUPLICATES, Endpoint, Phase, Vintage};

impl Endpoint {
    /// Everything below this that is not SACKed is lost: IsLost of section 4, for all bytes at once.
    pub(super) fn lost_edge(&self) -> u64 {
        let mut bytes = 0;
        for (count, &(start, end)) in self.scoreboard.as_slice().iter().rev().enumerate() {
            bytes += end - start;
            if count as u32 + 1 >= DUPLICATES || bytes > u64::from(DUPLICATES - 1) * self.mss {
                return start;
            }
        }
        self.una
    }

    /// What is taken for lost now: by [`Self::lost_edge`], and after a timeout everything that was out then.
    pub(super) fn loss_edge(&self) -> u64 {
        match self.phase {
            Phase::Loss { recover } => recover.max(self.lost_edge()),
            // The segment that the duplicate acknowledgements are about is lost by definition.
            Phase::Fast { .. } => self.lost_edge().max(self.una + self.mss),
            Phase::Open => self.una,
        }
    }

    /// SetPipe of section 4: bytes that are probably in the network.
    pub(super) fn pipe(&self) -> u64 {
        let outstanding = self.nxt - self.una;
        if self.phase == Phase::Open {
            // Limited transmit: what was SACKed makes room for new segments before a loss is sure.
            let room = if self.config.vintage == Vintage::Current { self.scoreboard.bytes() } else { 0 };
            return outstanding - room.min(outstanding);
        }
        let missing = |edge: u64| edge.max(self.una) - self.una - self.scoreboard.bytes_below(edge);
        let lost = missing(self.loss_edge().min(self.nxt));
        let again = missing(self.rexmitted.min(self.nxt));
        (outstanding + again).saturating_sub(self.scoreboard.bytes() + lost)
    }

    /// NextSeg of section 4 for retransmissions, rules 1, 3 and 4; rule 2, new data, is the caller's in between.
    pub(super) fn next_retransmission(&self, rule: u8) -> Option<(u64, u64)> {
        let top = match self.phase {
            Phase::Loss { recover } => recover.max(self.scoreboard.end().unwrap_or(0)),
            _ => self.scoreboard.end()?,
        };
        let (start, next) = self.scoreboard.gap_from(self.rexmitted.max(self.una));
        let edge = if rule == 1 { self.loss_edge().min(top) } else { top };
        let end = (start + self.mss).min(next.unwrap_or(u64::MAX)).min(self.max);
        (start < edge && start < end).then_some((start, end))
    }
}

//! [`Schedule`]: when to probe which peer.
//!
//! *Law*: probes and their answers take at most one part in a thousand of the allowed rate, and none are sent while passing
//! traffic shows the delay.

use tidegate_units::{Instant, Rate, Span};

/// Bytes of a probe with its headers on most lines: an ICMP echo with 16 bytes of data over IPv6, and a link header.
pub const BYTES: u64 = 78;
/// One part in this many of the rate.
pub const SHARE: u64 = 1_000;
/// More probes than this tell nothing more.
const SHORTEST: Span = Span::from_millis(50);

/// When to send the next probe, and to which of the peers that the user has named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    peers: usize,
    next: usize,
    due: Instant,
}

impl Schedule {
    /// A schedule over this many peers.
    pub const fn new(peers: usize) -> Self {
        Self { peers, next: 0, due: Instant::ZERO }
    }

    /// The peer to probe now, if it is time. `rate` is the lower of the allowed rates, `wanted` whether probes are needed
    /// ([`Controller::wants_probes`](crate::Controller::wants_probes)).
    pub fn poll(&mut self, now: Instant, wanted: bool, rate: Rate) -> Option<usize> {
        if !wanted || self.peers == 0 || now < self.due {
            return None;
        }
        let nanos = u128::from(BYTES * 8 * SHARE) * 1_000_000_000 / u128::from(rate.as_bps().max(1));
        let gap = Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).max(SHORTEST);
        self.due = now + gap;
        let peer = self.next % self.peers;
        self.next = peer + 1;
        Some(peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_take_a_thousandth_and_turns() {
        for kbit in [500, 2_000, 20_000, 1_000_000] {
            let (mut schedule, rate) = (Schedule::new(3), Rate::from_kbit(kbit));
            let mut sent = [0_u64; 3];
            for millis in 0..60_000 {
                let now = Instant::ZERO + Span::from_millis(millis);
                if let Some(peer) = schedule.poll(now, true, rate) {
                    sent[peer] += 1;
                }
            }
            let bits = sent.iter().sum::<u64>() * BYTES * 8;
            // One more for the first one.
            assert!(bits <= rate.as_bps() * 60 / SHARE + BYTES * 8, "{kbit}: {sent:?}");
            assert!(sent.iter().all(|count| count.abs_diff(sent[0]) <= 1) && sent[0] > 0, "{kbit}: {sent:?}");
        }
        let mut schedule = Schedule::new(3);
        assert_eq!(schedule.poll(Instant::ZERO, false, Rate::from_mbit(1)), None);
        assert_eq!(Schedule::new(0).poll(Instant::ZERO, true, Rate::from_mbit(1)), None);
    }
}

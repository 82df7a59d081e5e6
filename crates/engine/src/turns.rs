//! [`Turns`]: when a loop in real time may take its next turn.
//!
//! A turn costs a sleep and some system calls, however few packets it handles. On a gateway that forwards 100 Mbit/s a packet
//! arrives every 112 µs, and a turn for each takes more processor time than all the work on the packets.
//!
//! *Law*: once [`AT_ONCE`] turns have followed each other, a turn that handled no packet is followed by a rest, and one that handled
//! n of [`WORTH`] packets by a rest less n parts of it. No rest is longer than the parameter, and a loop that takes fewer turns than one
//! a rest never waits.
//! *Units*: packets as on the link: a superpacket counts as the packets that it is segmented into.
//! *Cost*: an addition for each packet, a division for each turn.

use tidegate_core::{Instant, Span};

/// The number of turns that may follow each other after a quiet time.
const AT_ONCE: u64 = 8;
/// The number of packets that are worth a turn.
const WORTH: u64 = 32;
/// The bytes of a packet, of which a superpacket has many.
const PACKET: u32 = 1_500;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    rest: Span,
    /// When the next turn may begin.
    next: Instant,
    /// The packets handled in this turn.
    handled: u64,
}

impl Turns {
    pub(crate) fn new(rest: Span) -> Self {
        Self { rest, next: Instant::ZERO, handled: 0 }
    }
    /// A packet of `length` bytes arrives in this turn.
    #[inline]
    pub(crate) fn handle(&mut self, length: u32) {
        self.handled += u64::from(length / PACKET + 1);
    }
    /// Ends the turn that began at `began`.
    pub(crate) fn end(&mut self, began: Instant) {
        let missing = WORTH.saturating_sub(std::mem::take(&mut self.handled));
        let rest = self.rest.as_nanos();
        let saved = Span::from_nanos(rest * (AT_ONCE - 1));
        let next = self.next.max(began.saturating_sub(saved)) + Span::from_nanos(rest * missing / WORTH);
        // A turn that could not wait for the rest before it makes the next one no longer.
        self.next = next.min(began + self.rest);
    }
    /// When the next turn may begin.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000)
    }

    /// Takes a turn as soon as there is a packet and the rest is over. Returns when each of the turns began.
    fn turns(rest: Span, arrivals: impl Iterator<Item = (u64, u32)>) -> Vec<u64> {
        let (mut turns, mut began) = (Turns::new(rest), Vec::new());
        let mut arrivals = arrivals.peekable();
        while let Some(&(first, _)) = arrivals.peek() {
            let now = us(first).max(turns.next());
            while let Some((_, length)) = arrivals.next_if(|(at, _)| us(*at) <= now) {
                turns.handle(length);
            }
            turns.end(now);
            began.push(now.as_nanos() / 1_000);
        }
        began
    }

    /// 100 Mbit/s of 1,400 bytes for a second: without rests 8,929 turns. In a rest of x ms are 8.93 x packets, after which it is
    /// 1 - 8.93 x / 32 ms: x = 0.78.
    #[test]
    fn packets_that_come_singly_share_turns() {
        let arrivals = || (0..8_929).map(|n| (1_000_000 + n * 112, 1_400));
        let began = turns(Span::from_millis(1), arrivals());
        assert!((1_200..1_400).contains(&began.len()), "{}", began.len());
        assert!(began.windows(2).all(|pair| pair[1] - pair[0] <= 1_000 + 112));
        assert_eq!(began[..8], [0, 1, 2, 3, 4, 5, 6, 7].map(|n| 1_000_000 + n * 112), "at once, after a quiet time");
        assert_eq!(turns(Span::ZERO, arrivals()).len(), 8_929);
    }

    /// 20 Gbit/s in superpackets of 64 KB, and one packet every 2 ms.
    #[test]
    fn a_turn_that_is_worth_it_is_followed_by_no_rest() {
        assert_eq!(turns(Span::from_millis(1), (0..10_000).map(|n| (n * 26, 65_536))).len(), 10_000);
        assert_eq!(turns(Span::from_millis(1), (0..1_000).map(|n| (n * 2_000, 200))).len(), 1_000);
    }
}

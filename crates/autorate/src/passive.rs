//! [`Tracker`]: round trips of passing packets, at no cost to the line.
//!
//! *Law*: memory is bounded, whatever passes; no input panics; a round trip is never shorter than the time between the packet that
//! left and the one that answered it. A sender that lies about its values can spoil the round trips of its own peer alone.
//! *Source*: RFC 7323 (timestamps: the first segment that leaves with a value, and the first that echoes it), RFC 9293 (handshakes, and
//! sequence numbers where there are no timestamps, by Karn's rule without retransmissions), RFC 9000 section 17.4 (the spin bit of
//! QUIC).
//! *Cost*: a look-up among four flows for a packet.
//! *Notes*: what leaves has to be seen as it leaves the shaper, and what arrives before it is queued. A pure acknowledgement may wait
//! at the peer until its application has something to send; its echo counts only in a stream of arrivals. Spin bits that change at
//! random are recognised after three outward changes without an answer, and ignored.

use alloc::boxed::Box;
use alloc::vec;

use tidegate_units::{Instant, Span};

/// Flows that are remembered at once.
pub const FLOWS: usize = WAYS * SETS;
const WAYS: usize = 4;
const SETS: usize = 128;
/// Values in flight of one flow.
const PENDING: usize = 48;
/// An echo of a pure acknowledgement counts if the arrival before it was less than this ago.
const STREAM: Span = Span::from_millis(20);
/// Outward changes of a spin bit without an answer after which it is ignored.
const STRIKES: u8 = 3;
/// The zero of one-way delays, so that they are positive.
const ZERO: i64 = 1 << 40;

/// The fields of a passing packet that show a round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Identifies the connection, the same in both directions.
    pub flow: u64,
    /// Identifies the host on the far side of the line.
    pub peer: u64,
    /// Whether it leaves.
    pub outward: bool,
    /// The protocol, with its fields.
    pub kind: Kind,
}

/// The part of a packet that an answer refers to, or that answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A segment of TCP.
    Tcp {
        /// The timestamps option: the value sent, and the echo of a value received.
        timestamps: Option<(u32, u32)>,
        /// The sequence number behind the segment.
        end: u32,
        /// The acknowledgement, if it has one.
        ack: Option<u32>,
        /// Whether the segment takes up sequence space (data, SYN or FIN), so that it will be acknowledged.
        answered: bool,
    },
    /// The spin bit of a QUIC packet with a short header.
    Spin(bool),
}

/// A round trip that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The peer.
    pub peer: u64,
    /// From the shaper to the peer and back.
    pub round_trip: Span,
    /// The one-way delay of the answer above the least of its flow, in ns, if the peer's clock could be read.
    pub down: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// Its value, if no segment before it had the same one: an echo may be that of the first.
    value: Option<u32>,
    at: Instant,
    /// Whether an answer is certain.
    answered: bool,
    /// The sequence number behind it, unless it was sent before.
    end: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    key: u64,
    last: Instant,
    /// The values that left and were not echoed, oldest first.
    pending: [Sent; PENDING],
    waiting: usize,
    /// The least time between two of them.
    gap: Span,
    /// The value that was echoed last.
    echoed: Option<u32>,
    latest: Option<u32>,
    arrived: Option<Instant>,
    /// Without timestamps: the sequence number that an acknowledgement is awaited for, and the highest that was sent.
    awaited: Option<(u32, Instant)>,
    highest: Option<u32>,
    clock: Clock,
    spin: Spin,
}

/// The peer's clock by its timestamps.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    first: Option<(u32, Instant)>,
    /// The length of a tick in ns, once it is known.
    tick: u64,
    /// The least one-way delay of this and of the previous half minute.
    least: [i64; 2],
    window: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Spin {
    outward: Option<bool>,
    inward: Option<bool>,
    /// The bit that left last and has not come back.
    edge: Option<(bool, Instant)>,
    strikes: u8,
}

/// Finds round trips. See the [module](self).
#[derive(Clone, Debug)]
pub struct Tracker {
    flows: Box<[Option<Flow>]>,
    now: Instant,
}

impl Default for Tracker {
    fn default() -> Self {
        Self { flows: vec![None; FLOWS].into_boxed_slice(), now: Instant::ZERO }
    }
}

impl Tracker {
    /// A packet leaves or arrives at `now`.
    pub fn see(&mut self, now: Instant, segment: &Segment) -> Option<Found> {
        self.now = self.now.max(now);
        let now = self.now;
        let flow = self.flow(segment.flow);
        flow.last = now;
        let found = match (segment.kind, segment.outward) {
            (Kind::Tcp { timestamps, end, answered, .. }, true) => {
                flow.leaves(now, timestamps, end, answered);
                None
            }
            (Kind::Tcp { timestamps, ack, .. }, false) => flow.arrives(now, timestamps, ack),
            (Kind::Spin(bit), true) => {
                flow.spin.leaves(now, bit);
                None
            }
            (Kind::Spin(bit), false) => flow.spin.arrives(now, bit).map(|round_trip| (round_trip, None)),
        };
        found.map(|(round_trip, down)| Found { peer: segment.peer, round_trip, down })
    }

    /// The record of a flow; of four with the same hash the one that was quiet for longest makes room.
    fn flow(&mut self, key: u64) -> &mut Flow {
        let set = (key ^ key >> 32) as usize % SETS * WAYS;
        let ways = &mut self.flows[set..set + WAYS];
        let at = ways.iter().position(|flow| flow.is_some_and(|flow| flow.key == key));
        let at = at.or_else(|| ways.iter().position(Option::is_none)).unwrap_or_else(|| {
            let quietest = (0..WAYS).min_by_key(|&at| ways[at].map(|flow| flow.last)).unwrap_or(0);
            ways[quietest] = None;
            quietest
        });
        ways[at].get_or_insert(Flow {
            key,
            last: self.now,
            pending: [Sent::default(); PENDING],
            waiting: 0,
            gap: Span::ZERO,
            echoed: None,
            latest: None,
            arrived: None,
            awaited: None,
            highest: None,
            clock: Clock::default(),
            spin: Spin::default(),
        })
    }
}

/// Whether `a` is later than `b` in a sequence that wraps.
fn later(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Flow {
    fn leaves(&mut self, now: Instant, timestamps: Option<(u32, u32)>, end: u32, answered: bool) {
        let Some((value, _)) = timestamps else {
            let new = self.highest.is_none_or(|highest| later(end, highest));
            if !new && answered {
                // A retransmission: it would not be known which of the two is acknowledged.
                self.awaited = None;
            } else if answered && self.awaited.is_none() {
                self.awaited = Some((end, now));
            }
            if new {
                self.highest = Some(end);
            }
            return;
        };
        let is_new_data = answered && self.highest.is_none_or(|highest| later(end, highest));
        let is_new_value = self.latest.is_none_or(|latest| later(value, latest));
        if is_new_data {
            self.highest = Some(end);
        } else if !is_new_value {
            return;
        }
        if is_new_value {
            self.latest = Some(value);
        }
        // Of many values in flight some are enough, spread over the round trip.
        let spaced = self.waiting == 0 || now.since(self.pending[self.waiting - 1].at) >= self.gap;
        if !spaced {
            return;
        }
        if self.waiting == PENDING {
            for n in 0..PENDING / 2 {
                self.pending[n] = self.pending[2 * n];
            }
            self.waiting = PENDING / 2;
            self.gap = Span::from_nanos(now.since(self.pending[0].at).as_nanos() / (PENDING as u64 / 2));
        }
        self.pending[self.waiting] =
            Sent { value: is_new_value.then_some(value), at: now, answered, end: is_new_data.then_some(end) };
        self.waiting += 1;
    }

    fn arrives(
        &mut self,
        now: Instant,
        timestamps: Option<(u32, u32)>,
        ack: Option<u32>,
    ) -> Option<(Span, Option<u64>)> {
        let before = self.arrived.replace(now);
        let Some((value, echo)) = timestamps else {
            let (end, at) = self.awaited?;
            let acknowledged = ack.is_some_and(|ack| !later(end, ack));
            return acknowledged.then(|| {
                self.awaited = None;
                (now.since(at), None)
            });
        };
        let down = self.clock.read(now, value);
        let pending = &self.pending[..self.waiting];
        // The value itself, or the one before it where it was left out: a little too long rather than nothing.
        let is_first = self.echoed.is_none_or(|echoed| later(echo, echoed));
        let echoed = pending.iter().rposition(|sent| is_first && sent.value.is_some_and(|value| !later(value, echo)));
        // A delayed acknowledgement echoes the first segment that it covers, and is sent for the last one.
        let acknowledged = pending.iter().rposition(|sent| sent.end.is_some() && sent.end == ack);
        let at = echoed.max(acknowledged)?;
        let sent = self.pending[at];
        self.pending.copy_within(at + 1..self.waiting, 0);
        self.waiting -= at + 1;
        self.gap = Span::from_nanos(now.since(sent.at).as_nanos() / PENDING as u64);
        self.echoed = Some(echo);
        let in_a_stream = before.is_some_and(|before| now.since(before) <= STREAM);
        (sent.answered || in_a_stream).then(|| (now.since(sent.at), down))
    }
}

impl Clock {
    /// Reads the clock; returns the one-way delay above the least of the flow once the length of a tick is known.
    fn read(&mut self, now: Instant, value: u32) -> Option<u64> {
        let (first, since) = *self.first.get_or_insert((value, now));
        let (ticks, time) = (u64::from(value.wrapping_sub(first)), now.since(since).as_nanos());
        if ticks > 1 << 31 {
            // It runs back: another host behind the same address, or a lie.
            *self = Self::default();
            return None;
        }
        if self.tick == 0 {
            if time < 1_000_000_000 || ticks == 0 {
                return None;
            }
            let known = [1_000, 1_000_000, 4_000_000, 10_000_000];
            self.tick = known.into_iter().find(|tick| (time / ticks).abs_diff(*tick) <= tick / 16).unwrap_or(0);
            if self.tick == 0 {
                *self = Self::default();
                return None;
            }
            self.least = [i64::MAX; 2];
        }
        let delay = ZERO + time as i64 - (u128::from(ticks) * u128::from(self.tick)).min(1 << 62) as i64;
        let window = now.as_nanos() / 30_000_000_000;
        if window != self.window {
            self.least = [i64::MAX, if window == self.window + 1 { self.least[0] } else { i64::MAX }];
            self.window = window;
        }
        self.least[0] = self.least[0].min(delay);
        Some(delay.saturating_sub(self.least[0].min(self.least[1])) as u64)
    }
}

impl Spin {
    fn leaves(&mut self, now: Instant, bit: bool) {
        let before = self.outward.replace(bit);
        if before.is_none_or(|before| before == bit) || self.strikes >= STRIKES {
            return;
        }
        if self.edge.replace((bit, now)).is_some() {
            self.strikes += 1;
        }
    }
    fn arrives(&mut self, now: Instant, bit: bool) -> Option<Span> {
        let before = self.inward.replace(bit);
        let (edge, at) = self.edge?;
        if before.is_none_or(|before| before == bit) || edge != bit || self.strikes >= STRIKES {
            return None;
        }
        self.edge = None;
        Some(now.since(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }
    fn tcp(outward: bool, timestamps: Option<(u32, u32)>, answered: bool, end: u32, ack: u32) -> Segment {
        Segment { flow: 5, peer: 9, outward, kind: Kind::Tcp { timestamps, end, ack: Some(ack), answered } }
    }
    fn round_trip(found: Option<Found>) -> Option<u64> {
        found.map(|found| found.round_trip.as_nanos() / 1_000_000)
    }

    #[test]
    fn the_first_echo_of_the_first_segment_with_a_value_counts() {
        let mut tracker = Tracker::default();
        assert_eq!(tracker.see(at(0), &tcp(true, Some((100, 0)), true, 1_000, 0)), None);
        tracker.see(at(3), &tcp(true, Some((100, 0)), true, 2_000, 0));
        tracker.see(at(5), &tcp(true, Some((105, 0)), true, 3_000, 0));
        assert_eq!(round_trip(tracker.see(at(40), &tcp(false, Some((7, 100)), false, 0, 1_000))), Some(40));
        assert_eq!(tracker.see(at(41), &tcp(false, Some((7, 100)), false, 0, 1_000)), None);
        assert_eq!(round_trip(tracker.see(at(46), &tcp(false, Some((8, 105)), false, 0, 3_000))), Some(41));
        assert_eq!(tracker.see(at(47), &tcp(false, Some((8, 99)), false, 0, 3_000)), None, "never sent");
    }

    #[test]
    fn a_delayed_acknowledgement_is_measured_from_its_last_segment() {
        let mut tracker = Tracker::default();
        tracker.see(at(0), &tcp(true, Some((100, 0)), true, 1_000, 0));
        tracker.see(at(30), &tcp(true, Some((130, 0)), true, 2_000, 0));
        assert_eq!(round_trip(tracker.see(at(70), &tcp(false, Some((7, 100)), false, 0, 2_000))), Some(40));
        // A retransmission does not count as the segment that is acknowledged.
        tracker.see(at(80), &tcp(true, Some((180, 0)), true, 3_000, 0));
        tracker.see(at(300), &tcp(true, Some((400, 0)), true, 3_000, 0));
        assert_eq!(round_trip(tracker.see(at(345), &tcp(false, Some((8, 400)), false, 0, 3_000))), Some(45));
    }

    /// The first segment with a value is left out, since it follows another too closely; the next one has the same value.
    #[test]
    fn a_segment_does_not_stand_for_one_before_it_with_its_value() {
        let mut tracker = Tracker::default();
        for n in 0..200_u32 {
            tracker.see(at(u64::from(n)), &tcp(true, Some((100 + n, 0)), true, 1_000 * (n + 1), 0));
        }
        // Some of the 200 in flight are remembered. Whichever of them precedes the value 900, its first segment is the one that is echoed.
        for before in 0..16_u32 {
            let mut tracker = tracker.clone();
            for n in 0..before {
                tracker.see(at(200 + u64::from(n)), &tcp(true, Some((300 + n, 0)), true, 1_000 * (201 + n), 0));
            }
            let first = 200 + u64::from(before);
            for n in 0..20 {
                tracker.see(at(first + n), &tcp(true, Some((900, 0)), true, 1_000 * (201 + before + n as u32), 0));
            }
            let found = round_trip(tracker.see(at(first + 40), &tcp(false, Some((7, 900)), false, 0, 5)));
            assert!(found.is_some_and(|found| (40..=60).contains(&found)), "{before}: {found:?}");
        }
    }

    #[test]
    fn an_acknowledgement_after_which_the_peer_paused_tells_nothing() {
        let mut tracker = Tracker::default();
        tracker.see(at(0), &tcp(true, Some((100, 0)), false, 0, 0));
        assert_eq!(tracker.see(at(900), &tcp(false, Some((7, 100)), true, 0, 0)), None, "the application slept");
        tracker.see(at(901), &tcp(true, Some((200, 7)), false, 0, 0));
        for n in 0..5 {
            tracker.see(at(915 + 5 * n), &tcp(false, Some((8, 100)), true, 0, 0));
        }
        assert_eq!(round_trip(tracker.see(at(941), &tcp(false, Some((9, 200)), true, 0, 0))), Some(40));
    }

    #[test]
    fn without_timestamps_a_retransmission_is_not_measured() {
        let mut tracker = Tracker::default();
        tracker.see(at(0), &tcp(true, None, true, 1_000, 0));
        assert_eq!(round_trip(tracker.see(at(30), &tcp(false, None, false, 0, 1_000))), Some(30));
        tracker.see(at(40), &tcp(true, None, true, 2_000, 0));
        tracker.see(at(90), &tcp(true, None, true, 2_000, 0));
        assert_eq!(tracker.see(at(100), &tcp(false, None, false, 0, 2_000)), None);
        // Sequence numbers wrap.
        tracker.see(at(110), &tcp(true, None, true, 0x7000_0000, 0));
        tracker.see(at(120), &tcp(false, None, false, 0, 0x7000_0000));
        tracker.see(at(130), &tcp(true, None, true, 0xd000_0000, 0));
        tracker.see(at(140), &tcp(false, None, false, 0, 0xd000_0000));
        tracker.see(at(150), &tcp(true, None, true, 10, 0));
        assert_eq!(round_trip(tracker.see(at(175), &tcp(false, None, false, 0, 10))), Some(25));
    }

    #[test]
    fn the_clock_of_the_peer_tells_the_ways_apart() {
        let mut tracker = Tracker::default();
        let mut last = None;
        let mut events = vec![];
        for n in 0..400_u64 {
            // One packet each 10 ms; after 3 s the way down takes 25 ms more.
            let queue = if n >= 300 { 25 } else { 0 };
            events.push((10 * n, tcp(true, Some((n as u32, 0)), true, n as u32, 0)));
            let stamps = Some(((10 * n + 20) as u32, n as u32));
            events.push((10 * n + 40 + queue, tcp(false, stamps, false, 0, n as u32)));
        }
        events.sort_by_key(|event| event.0);
        for (time, segment) in events {
            last = tracker.see(at(time), &segment).or(last);
        }
        let last = last.unwrap();
        assert_eq!((last.round_trip, last.down), (Span::from_millis(65), Some(25_000_000)));
    }

    #[test]
    fn a_fast_flow_has_samples_all_the_time() {
        let mut tracker = Tracker::default();
        let (mut events, mut found) = (vec![], 0);
        for n in 0..20_000_u64 {
            // Four acknowledgements a millisecond, of which the peer sees the second of each two only; 200 ms for the way.
            let kind = |timestamps| Kind::Tcp { timestamps: Some(timestamps), end: 0, ack: Some(0), answered: false };
            let outward = Segment { flow: 5, peer: 9, outward: true, kind: kind((n as u32, 0)) };
            events.push((n * 250, outward));
            if n % 2 == 1 {
                let kind = Kind::Tcp { timestamps: Some((7, n as u32)), end: 0, ack: Some(0), answered: true };
                events.push((n * 250 + 200_000, Segment { flow: 5, peer: 9, outward: false, kind }));
            }
        }
        events.sort_by_key(|event| event.0);
        for (micros, segment) in events {
            if let Some(sample) = tracker.see(Instant::ZERO + Span::from_micros(micros), &segment) {
                let round_trip = sample.round_trip;
                assert!(round_trip >= Span::from_millis(200) && round_trip <= Span::from_millis(215), "{round_trip}");
                found += 1;
            }
        }
        // Ten for each round trip, of which there are 24.
        assert!(found >= 240, "{found}");
    }

    #[test]
    fn spin_bits_are_followed_and_random_ones_ignored() {
        let mut tracker = Tracker::default();
        let spin = |outward, bit| Segment { flow: 1, peer: 2, outward, kind: Kind::Spin(bit) };
        tracker.see(at(0), &spin(true, false));
        tracker.see(at(1), &spin(false, false));
        tracker.see(at(50), &spin(true, true));
        assert_eq!(tracker.see(at(60), &spin(false, false)), None);
        assert_eq!(round_trip(tracker.see(at(85), &spin(false, true))), Some(35));
        assert_eq!(tracker.see(at(86), &spin(false, true)), None);
        let mut found = 0;
        for n in 0..1_000_u64 {
            let bit = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60 & 1 == 1;
            found += usize::from(tracker.see(at(100 + n), &spin(n % 2 == 0, bit)).is_some());
        }
        assert!(found < 20, "{found} round trips of noise");
    }

    #[test]
    fn memory_is_bounded() {
        let mut tracker = Tracker::default();
        for flow in 0..100_000_u64 {
            let kind = Kind::Tcp { timestamps: Some((1, 0)), end: 0, ack: None, answered: true };
            tracker.see(at(flow), &Segment { flow, peer: flow, outward: true, kind });
        }
        assert_eq!(tracker.flows.len(), FLOWS);
    }
}

//! Measurements of a flow or a class: its rate, its jitter, and whether its minimum was kept.

use tidegate_core::{Bytes, Instant, Rate, Span};

/// An exponentially weighted average of the rate.
///
/// *Law*: bytes are counted in windows of 2²⁸ ns (268 ms), aligned with the clock. After each window the rate becomes the mean
/// of the old rate and the rate of the window. So three windows after a change the meter shows seven eighths of it, and each
/// silent window halves the rate. The first window of a flow counts fully.
/// *Cost*: constant, also after a long silence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateMeter {
    /// The number of the window, shifted left by one; the lowest bit is set once a window has ended after the first byte.
    window: u64,
    bytes: u64,
    bps: u64,
}

const WINDOW_BITS: u32 = 28;

impl RateMeter {
    /// Counts `size` bytes at `now`.
    #[inline]
    pub fn count(&mut self, now: Instant, size: Bytes) {
        self.roll(now);
        self.bytes += size.as_u64();
    }
    fn roll(&mut self, now: Instant) {
        let window = now.as_nanos() >> WINDOW_BITS;
        let (before, mut begun) = (self.window >> 1, self.window & 1 == 1);
        if window <= before {
            return;
        }
        let sample = ((u128::from(self.bytes) * 8_000_000_000) >> WINDOW_BITS) as u64;
        if self.bytes > 0 || begun {
            self.bps = if begun { u64::midpoint(self.bps, sample) } else { sample };
            begun = true;
        }
        let silent = window - before - 1;
        self.bps = self.bps.checked_shr(silent.min(64) as u32).unwrap_or(0);
        self.window = window << 1 | u64::from(begun);
        self.bytes = 0;
    }
    /// Adds the rate of another meter, which has counted other packets.
    pub fn add(&mut self, now: Instant, mut other: Self) {
        self.roll(now);
        other.roll(now);
        self.bps += other.bps;
        self.bytes += other.bytes;
        self.window |= other.window & 1;
    }
    /// The rate at `now`.
    pub fn rate(mut self, now: Instant) -> Rate {
        self.roll(now);
        Rate::from_bps(self.bps)
    }
}

/// The interarrival jitter of RFC 3550, section 6.4.1, between arrival and departure here, so that it excludes the jitter of
/// the sender and of the networks before us.
///
/// *Law*: J ← J + (|D| − J)/16, where D is the difference between the delays of two consecutive packets of the flow; in
/// integers, as in appendix A.8 of the RFC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Jitter {
    /// Sixteen times J, in nanoseconds.
    scaled: u64,
}

impl Jitter {
    /// Updates J with the difference of two delays.
    #[inline]
    pub fn differ(&mut self, difference: Span) {
        self.scaled = self.scaled + difference.as_nanos() - ((self.scaled + 8) >> 4);
    }
    /// The jitter J.
    pub fn value(self) -> Span {
        Span::from_nanos(self.scaled >> 4)
    }
}

/// Counts the seconds in which a granted rate was delivered.
///
/// *Law*: a second in which at least the promised rate was delivered is kept. A second in which less was delivered although
/// there always was a packet to send is missed. All others count as neither, because there was not enough to send: the queue
/// was empty for a time, or all that was queued waited for a ceiling that the configuration asks for.
/// *Notes*: a second ends with the first packet or check after it; a longer one counts as its whole seconds. Where four full
/// packets take the promised rate longer than a second, that time is judged as a whole. The amount due is
/// reduced by 1 % and two of the largest packets, because a rate is not exact within a packet. If the promise changed within
/// the second, the smaller rate is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MinimumMeter {
    since: Instant,
    delivered: u64,
    largest: u32,
    emptied: bool,
    begun: bool,
    promised: Rate,
    kept: u32,
    missed: u32,
}

/// How often a minimum is checked.
pub const CHECKED: Span = Span::from_secs(1);

/// The fewest full packets that are due within what is judged: of fewer, it is chance on which side of its end one leaves.
const FEWEST: u64 = 4;
/// The size of a full packet, unless larger ones have left.
const FULL: u32 = 1_500;

impl MinimumMeter {
    /// A meter that was first checked at `now`, with `promised` and `waits`; `largest` is the size of the largest packet that
    /// had left by then.
    pub(crate) fn begun(now: Instant, promised: Rate, waits: bool, largest: u32) -> Self {
        Self { since: now, largest, emptied: !waits, begun: true, promised, ..Self::default() }
    }
    /// Whether [`check`](Self::check) is due. It saves the look-up of the granted rate for each packet.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        let elapsed = now.since(self.since);
        elapsed >= CHECKED && self.is_enough(self.promised, elapsed)
    }
    /// Whether `promised` is enough for [`FEWEST`] packets in `elapsed`. Nothing is due of no rate.
    fn is_enough(&self, promised: Rate, elapsed: Span) -> bool {
        let fewest = FEWEST * u64::from(self.largest.max(FULL));
        promised.is_zero() || promised.bytes_in_floor(elapsed).as_u64() >= fewest
    }
    /// Checks the second that has passed. `promised` is the rate that is granted now; `waits`, whether a packet is queued that no
    /// ceiling holds.
    pub fn check(&mut self, now: Instant, promised: Rate, waits: bool) {
        if !self.is_due(now) {
            return;
        }
        let elapsed = now.since(self.since);
        if self.begun {
            let promised = self.promised.min(promised);
            let due = promised.bytes_in_floor(elapsed).as_u64();
            let seconds = (elapsed.as_nanos() / CHECKED.as_nanos()).min(u64::from(u32::MAX)) as u32;
            let slack = due / 100 + 2 * u64::from(self.largest);
            if due == 0 || !self.is_enough(promised, elapsed) {
                // The rate was not promised for the whole second, or it was so little that this says nothing.
            } else if self.delivered + slack >= due && self.delivered > 0 {
                self.kept = self.kept.saturating_add(seconds);
            } else if waits && !self.emptied {
                self.missed = self.missed.saturating_add(seconds);
            }
        }
        *self = Self { since: now, delivered: 0, emptied: !waits, begun: true, promised, ..*self };
    }
    /// Counts a departure; `waits` is whether a packet is still queued that no ceiling holds.
    #[inline]
    pub fn delivered(&mut self, size: Bytes, waits: bool) {
        self.delivered_all(1, size, waits);
    }
    /// Counts `packets` that left together, of `bytes` in all.
    #[inline]
    pub fn delivered_all(&mut self, packets: u64, bytes: Bytes, waits: bool) {
        let bytes = bytes.as_u64();
        self.delivered += bytes;
        // The case of one packet needs no division.
        let size = if packets == 1 { bytes } else { bytes.div_ceil(packets.max(1)) };
        self.largest = self.largest.max(size.min(u64::from(u32::MAX)) as u32);
        self.emptied |= !waits;
    }
    /// Seconds in which it was kept.
    pub fn kept(&self) -> u32 {
        self.kept
    }
    /// Seconds in which it was missed.
    pub fn missed(&self) -> u32 {
        self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Span::from_millis(n)
    }

    #[test]
    fn a_steady_rate_is_measured() {
        let mut meter = RateMeter::default();
        // 1,250 bytes every 10 ms are 1 Mbit/s.
        (0..300).for_each(|n| meter.count(ms(10 * n), Bytes::new(1_250)));
        let read = meter.rate(ms(3_000)).as_bps();
        // A window holds 26 or 27 of them, 26.8 on average.
        assert!((960_000..1_040_000).contains(&read), "{read}");
        // Ten windows later the rate is a thousandth, and much later it is zero.
        assert!(meter.rate(ms(3_000 + 2_750)).as_bps() < 2_000);
        assert_eq!(meter.rate(ms(1_000_000)), Rate::ZERO);
    }

    #[test]
    fn jitter_is_that_of_the_rfc() {
        let mut jitter = Jitter::default();
        // A difference of 16 µs makes J = 1 µs; without a difference J then loses a sixteenth.
        jitter.differ(Span::from_micros(16));
        assert_eq!(jitter.value(), Span::from_micros(1));
        jitter.differ(Span::ZERO);
        assert_eq!(jitter.value().as_nanos(), (16_000 - (16_000 + 8) / 16) / 16);
        (0..1_000).for_each(|_| jitter.differ(Span::from_micros(50)));
        assert!(jitter.value().as_nanos().abs_diff(50_000) < 100);
    }

    /// 1 Mbit/s is 125,000 B a second; slack 1,250 B and two packets of 1,000 B: 121,750 B are enough.
    #[test]
    fn a_promise_is_kept_or_missed_or_neither() {
        let promised = Rate::from_bps(1_000_000);
        let second = |delivered: u64, emptied: bool| {
            let mut promise = MinimumMeter::default();
            promise.check(ms(5_000), promised, true);
            for n in 0..delivered / 1_000 {
                promise.delivered(Bytes::new(1_000), !(emptied && n == 0));
            }
            promise.check(ms(5_999), promised, true);
            assert_eq!((promise.kept(), promise.missed()), (0, 0), "not before the second is over");
            promise.check(ms(6_000), promised, true);
            (promise.kept(), promise.missed())
        };
        assert_eq!(second(125_000, false), (1, 0));
        assert_eq!(second(122_000, false), (1, 0));
        assert_eq!(second(121_000, false), (0, 1));
        assert_eq!(second(121_000, true), (0, 0), "there was not enough to send");
        assert_eq!(second(300_000, true), (1, 0));
    }

    #[test]
    fn starvation_is_noticed_at_the_next_check() {
        let mut promise = MinimumMeter::default();
        promise.check(ms(5_000), Rate::from_bps(1_000_000), true);
        promise.check(ms(9_500), Rate::from_bps(1_000_000), true);
        assert_eq!((promise.kept(), promise.missed()), (0, 4));
        // The smaller of two promises is due.
        promise.check(ms(10_500), Rate::ZERO, true);
        assert_eq!((promise.kept(), promise.missed()), (0, 4));
    }
}

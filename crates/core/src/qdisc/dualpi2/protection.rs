//! Queue protection: which packets of a shared low-latency queue have to wait with those of the other queue, by the flows
//! that build it.
//!
//! *Law*: each packet adds to the score of its flow its size times the native likelihood of a mark, which falls by `ageing`
//! bytes a second. While L is delayed by more than `critical`, a packet is under sanction if the delay times the score of its
//! flow exceeds `critical * score`. A flow stays under sanction as long as one of its packets does.
//! *Source*: RFC 9957, sections 4.2.1 to 4.2.3 (`qprotect`, `pick_bucket`, `fill_bucket`) and 4.1 (its parameters).
//! *Units*: a score is the time that it takes to age, in nanoseconds.
//! *Cost*: two buckets are looked at a packet; 9 kB, whatever the number of flows.
//! *Notes*: 32 buckets are owned by a flow each until its score has aged; a flow that finds both of its own owned by others
//! shares the last one. A delay above 1 s counts as 1 s.
//! *Departures from the source, and why*: the delay is that of the first packet of L, not its length divided by a rate that
//! a shaper's queue does not know. The RFC moves single packets into C, which reorders a flow; here the flow follows,
//! so that its order is kept. Its packets wait in a queue of their own, S, and take turns as if they were in C; when the score
//! of the first one's flow has aged, S empties with the turns of L and the marks of L, and the flow is back: by the marks of C alone a scalable
//! sender would keep C's target of delay in S for ever, where the RFC's next packet goes to L. The RFC raises `critical` on slow links, to two
//! frames of 2,000 B and the ramp (`FLOOR` in section 4.1: 2.1 ms at 20 Mbit/s); a queue that knows no rate does not, and a lone scalable sender
//! is under sanction about as often with it (the chapter *L4S* has the figures). The packets in S are counted in 1,024
//! places by a hash of their flow: a flow that shares its place with one under sanction is moved with it.

use crate::key_index::mix;
use crate::params::ParamError;
use crate::round::spread;
use crate::step::{ONE, mul_div_up};
use tidegate_units::{Bytes, Instant, Span};

/// Buckets that a flow can own: 2 to the power of [`BITS`].
const OWNED: usize = 1 << BITS;
const BITS: u32 = 5;
/// The buckets that are tried for a flow.
const ATTEMPTS: u32 = 2;
/// The places in which the packets of flows under sanction are counted.
const PLACES: usize = 1_024;
/// The highest score.
const MOST_SCORE: Span = Span::from_secs(5);
/// The longest delay that counts, so that its product with a score fits 64 bits.
const MOST_DELAY: Span = Span::from_secs(1);

/// Parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The delay of L below which no packet is under sanction (`CRITICALqL`).
    pub critical: Span,
    /// The score that is too much at this delay (`CRITICALqLSCORE`).
    pub score: Span,
    /// The bytes by which a score ages in a second (`AGING`).
    pub ageing: Bytes,
}

impl Default for Params {
    /// RFC 9957: 1 ms, 4 ms, 2^19 bytes a second.
    fn default() -> Self {
        Self { critical: Span::from_millis(1), score: Span::from_millis(4), ageing: Bytes::new(1 << 19) }
    }
}

impl Params {
    /// Checks the ranges.
    ///
    /// # Errors
    /// A critical delay above 1 s or of zero, a score above 5 s, an ageing of zero or above 1 GB a second.
    pub fn validate(self) -> Result<Self, ParamError> {
        if self.critical.is_zero() || self.critical > MOST_DELAY {
            return Err(ParamError::new("critical", "must be above 0 and at most 1s, for example 1ms"));
        }
        if self.score > MOST_SCORE {
            return Err(ParamError::new("score", "must be at most 5s, for example 4ms"));
        }
        if !(1..=1_000_000_000).contains(&self.ageing.as_u64()) {
            return Err(ParamError::new("ageing", "must be 1B to 1GB a second, for example 524288B"));
        }
        Ok(self)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Bucket {
    key: u64,
    /// When its score has aged.
    expires: Instant,
}

impl Bucket {
    /// Adds a packet of `size` to the score, whose likelihood of a mark is `native`. Returns whether its flow has too much at a delay of L
    /// of `delay` (`fill_bucket`, `qprotect`).
    fn exceeds(&mut self, params: &Params, now: Instant, size: Bytes, delay: Span, native: u64) -> bool {
        // The likelihood is in 10^-12, and the time in nanoseconds.
        let added = mul_div_up(native, size.as_u64(), params.ageing.as_u64() * (ONE / 1_000_000_000));
        self.expires = (self.expires.max(now) + Span::from_nanos(added)).min(now + MOST_SCORE);
        let score = self.expires.since(now).as_nanos();
        let delay = delay.min(MOST_DELAY).as_nanos();
        delay > params.critical.as_nanos() && delay * score > params.critical.as_nanos() * params.score.as_nanos()
    }

    /// Whether its score has aged by `now`.
    fn has_aged(&self, now: Instant) -> bool {
        self.expires <= now
    }
}

/// The scores of flows. See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Protection {
    buckets: [Bucket; OWNED + 1],
    /// The packets under sanction.
    waiting: [u32; PLACES],
}

impl Default for Protection {
    fn default() -> Self {
        Self { buckets: [Bucket::default(); OWNED + 1], waiting: [0; PLACES] }
    }
}

impl Protection {
    /// The bucket of the flow `key` (`pick_bucket`).
    fn pick(&mut self, key: u64, now: Instant) -> usize {
        let mut hash = mix(key);
        let mut expired = OWNED;
        for _ in 0..ATTEMPTS {
            let at = (hash % OWNED as u64) as usize;
            if self.buckets[at].key == key {
                return at;
            }
            if expired == OWNED && self.buckets[at].has_aged(now) {
                expired = at;
            }
            hash >>= BITS;
        }
        self.buckets[expired].key = key;
        expired
    }

    /// Whether a packet of `size` that arrives for L at `now` is put under sanction, where `delay` is that of L and `native`
    /// the likelihood of a mark by it (`qprotect`).
    pub fn sanctions(
        &mut self,
        params: &Params,
        now: Instant,
        key: u64,
        size: Bytes,
        delay: Span,
        native: u64,
    ) -> bool {
        let at = self.pick(key, now);
        let is_guilty = self.buckets[at].exceeds(params, now, size, delay, native);
        let place = spread(key, PLACES as u32) as usize;
        let moved = is_guilty || self.waiting[place] > 0;
        self.waiting[place] += u32::from(moved);
        moved
    }

    /// The packets of the flow `key` that are under sanction, with those of other flows that are counted at the same place.
    pub fn under_sanction(&self, key: u64) -> u32 {
        self.waiting[spread(key, PLACES as u32) as usize]
    }

    /// The flows under sanction that own a bucket, or were the last to use the shared one.
    pub fn flows(&self) -> impl Iterator<Item = u64> + '_ {
        // A bucket without an owner has the time at which all begins.
        let owned = self.buckets.iter().filter(|bucket| bucket.expires > Instant::ZERO);
        owned.map(|bucket| bucket.key).filter(|key| self.under_sanction(*key) > 0)
    }

    /// Whether the score of the flow `key` has aged by `now`.
    pub fn has_aged(&self, key: u64, now: Instant) -> bool {
        let mut hash = mix(key);
        let mut own = &self.buckets[OWNED];
        for _ in 0..ATTEMPTS {
            let bucket = &self.buckets[(hash % OWNED as u64) as usize];
            if bucket.key == key {
                own = bucket;
                break;
            }
            hash >>= BITS;
        }
        own.has_aged(now)
    }

    /// A packet of the flow `key` that was under sanction has left.
    pub fn released(&mut self, key: u64) {
        self.waiting[spread(key, PLACES as u32) as usize] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1_500);

    fn at(us: u64) -> Instant {
        Instant::ZERO + Span::from_secs(1) + Span::from_micros(us)
    }

    #[test]
    fn a_score_is_the_time_that_it_takes_to_age() {
        let mut protection = Protection::default();
        let params = Params::default();
        // 1500 B at likelihood 1 are 1500 / 2^19 s = 2.861022949 ms; at a half 1.430511474 ms; rounded up.
        protection.sanctions(&params, at(0), 7, PACKET, Span::ZERO, ONE);
        let at_flow = protection.pick(7, at(0));
        assert_eq!(protection.buckets[at_flow].expires.since(at(0)).as_nanos(), 2_861_023);
        protection.sanctions(&params, at(0), 7, PACKET, Span::ZERO, ONE / 2);
        assert_eq!(protection.buckets[at_flow].expires.since(at(0)).as_nanos(), 2_861_023 + 1_430_512);
        // It ages as time passes.
        protection.sanctions(&params, at(4_000), 7, PACKET, Span::ZERO, 0);
        assert_eq!(protection.buckets[at_flow].expires.since(at(4_000)).as_nanos(), 291_535);
        // It has an end.
        for _ in 0..10_000 {
            protection.sanctions(&params, at(4_000), 7, PACKET, Span::ZERO, ONE);
        }
        assert_eq!(protection.buckets[at_flow].expires.since(at(4_000)), MOST_SCORE);
    }

    #[test]
    fn a_packet_of_any_size_has_the_highest_score_at_most() {
        let (mut bucket, params) = (Bucket::default(), Params { ageing: Bytes::new(1), ..Params::default() });
        bucket.exceeds(&params, at(0), Bytes::new(u64::MAX), Span::ZERO, ONE);
        assert_eq!(bucket.expires.since(at(0)), MOST_SCORE);
    }

    #[test]
    fn delay_and_score_together_are_critical() {
        let params = Params::default();
        // Two packets at likelihood 1 score 5.722 ms: at 1 ms of delay the product is above 1 ms * 4 ms, but the delay must
        // exceed 1 ms. One packet scores 2.861 ms, which is too much from 4 / 2.861 = 1.398 ms on.
        let sanctioned = |packets: u64, delay: u64| {
            let mut protection = Protection::default();
            (0..packets).map(|_| protection.sanctions(&params, at(0), 7, PACKET, Span::from_micros(delay), ONE)).last()
        };
        assert_eq!([sanctioned(2, 1_000), sanctioned(2, 1_001)], [Some(false), Some(true)]);
        assert_eq!([sanctioned(1, 1_398), sanctioned(1, 1_399)], [Some(false), Some(true)]);
    }

    #[test]
    fn a_flow_follows_its_packets_until_they_have_left() {
        let params = Params::default();
        let mut protection = Protection::default();
        for _ in 0..2 {
            protection.sanctions(&params, at(0), 7, PACKET, Span::from_millis(9), ONE);
        }
        assert!(!protection.has_aged(7, at(1_000)) && protection.has_aged(7, at(60_000_000)));
        assert!(protection.sanctions(&params, at(60_000_000), 7, PACKET, Span::ZERO, 0), "its score has aged");
        (0..3).for_each(|_| protection.released(7));
        assert!(!protection.sanctions(&params, at(60_000_000), 7, PACKET, Span::ZERO, 0));
    }

    #[test]
    fn thousands_of_flows_share_the_last_bucket() {
        let params = Params::default();
        let mut protection = Protection::default();
        // Each of these owns a bucket or adds to the last one, which is then guilty.
        let guilty =
            (0..5_000).filter(|key| protection.sanctions(&params, at(0), *key, PACKET, Span::from_micros(1_100), ONE));
        assert!(guilty.count() > 4_000);
    }
}

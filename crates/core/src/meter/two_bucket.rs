//! [`TwoBucketMeter`]: the meters of RFC 2697, RFC 2698 and RFC 4115 are two token buckets and a rule.
//!
//! *Law*: that of each rule; see [`srtcm`](crate::srtcm), [`trtcm`](crate::trtcm), [`rfc4115`](crate::rfc4115).
//! *Source*: section 3 of RFC 2697, section 3 of RFC 2698, section 4 of RFC 4115.
//! *Units*: rates as [`Rate`], bursts in bytes; tokens in bit·ns/s, so that nothing rounds.
//! *Cost*: O(1): a multiplication for each bucket, and no branch that depends on the traffic.
//! *Departures from the source, and why*: tokens arrive continuously instead of one byte at a time; at the instants
//! where the RFCs add a token, both have the same.

use core::fmt;

use crate::bucket::TokenBucket;
use crate::meter::{Meter, Mode};
use crate::packet::{Colour, Packet};
use crate::params::ParamError;
use tidegate_units::{Bytes, Credit, Instant, Rate};

/// The buckets of a meter.
#[derive(Clone, Copy, Debug)]
pub struct Buckets {
    /// Fills at CIR up to CBS.
    pub committed: TokenBucket,
    /// The peak or the excess bucket.
    pub second: TokenBucket,
}

impl Buckets {
    /// Adds to each bucket what it has earned until `now`.
    #[inline]
    pub fn update(&mut self, now: Instant) {
        self.committed.update(now);
        self.second.update(now);
    }
}

/// Green, else yellow, else red.
#[inline]
pub(crate) fn graded(green: bool, yellow: bool) -> Colour {
    if green {
        Colour::Green
    } else if yellow {
        Colour::Yellow
    } else {
        Colour::Red
    }
}

/// The parameters of a two-bucket meter, and its rule.
pub trait TwoBucketRule: Copy + fmt::Debug + Send {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Names the field that cannot work.
    fn validate(&self) -> Result<(), ParamError>;
    /// Rate and burst of the committed and of the second bucket.
    fn buckets(&self) -> [(Rate, Bytes); 2];
    /// Whether the colour of an arriving packet counts.
    fn mode(&self) -> Mode;
    /// The colour of `size` bytes that pass at `now` and arrived as `incoming`. Takes the tokens for it.
    fn colour(buckets: &mut Buckets, now: Instant, size: Bytes, incoming: Colour) -> Colour;
    /// The first instant, not before `now`, at which the tokens for `size` green bytes are there.
    fn time_of_green(buckets: &Buckets, now: Instant, size: Bytes) -> Option<Instant> {
        buckets.committed.time_of(now, size)
    }
    /// Moves tokens between the buckets, as of `now`. By default each bucket keeps what it earns.
    fn settle(_buckets: &mut Buckets, _now: Instant) {}
}

/// A meter of two token buckets. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct TwoBucketMeter<R> {
    rule: R,
    buckets: Buckets,
}

impl<R: TwoBucketRule> TwoBucketMeter<R> {
    /// A meter whose buckets are full at `now`.
    ///
    /// # Errors
    /// As [`TwoBucketRule::validate`].
    pub fn new(params: R, now: Instant) -> Result<Self, ParamError> {
        params.validate()?;
        let [committed, second] = params.buckets().map(|(rate, burst)| TokenBucket::full(rate, burst, now));
        Ok(Self { rule: params, buckets: Buckets { committed, second } })
    }
    /// The parameters in force.
    pub fn params(&self) -> &R {
        &self.rule
    }
    /// Puts other parameters into force at `now`. The tokens earned until then are kept as far as the buckets hold
    /// them.
    ///
    /// # Errors
    /// As [`TwoBucketRule::validate`]; then nothing has changed.
    pub fn set_params(&mut self, now: Instant, params: R) -> Result<(), ParamError> {
        params.validate()?;
        R::settle(&mut self.buckets, now);
        let [committed, second] = params.buckets();
        for (bucket, (rate, burst)) in [(&mut self.buckets.committed, committed), (&mut self.buckets.second, second)] {
            bucket.set_rate(now, rate);
            bucket.set_depth(now, burst);
        }
        self.rule = params;
        Ok(())
    }
    /// The tokens in the committed and in the second bucket at `now`.
    pub fn tokens(&self, now: Instant) -> (Credit, Credit) {
        let mut buckets = self.buckets;
        R::settle(&mut buckets, now);
        (buckets.committed.level(now), buckets.second.level(now))
    }
    /// Colours `size` bytes that pass at `now` and arrived with `incoming`, which counts in aware mode only.
    pub fn colour(&mut self, now: Instant, size: Bytes, incoming: Colour) -> Colour {
        R::colour(&mut self.buckets, now, size, self.rule.mode().effective(incoming))
    }
    /// The first instant, not before `now`, at which `size` bytes would be green if nothing passed until then; `None`
    /// when they exceed a bucket that they need, or its rate is zero and its tokens do not suffice.
    pub fn time_of_green(&self, now: Instant, size: Bytes) -> Option<Instant> {
        R::time_of_green(&self.buckets, now, size)
    }
}

impl<P: Packet, R: TwoBucketRule> Meter<P> for TwoBucketMeter<R> {
    fn meter(&mut self, now: Instant, packet: &P) -> Colour {
        self.colour(now, packet.size(), packet.colour())
    }
    fn green_at(&self, now: Instant, packet: &P) -> Option<Instant> {
        match self.rule.mode().incoming(packet) {
            Colour::Green => self.time_of_green(now, packet.size()),
            Colour::Yellow | Colour::Red => None,
        }
    }
}

//! Named random streams: one generator for each component, derived from a seed and the name of the component.
//!
//! Two machines draw the same bits, and a new component does not change the draws of the others.
//!
//! *Source*: PCG XSL RR 128/64 (O'Neill, 2014) for the stream; FNV-1a and SplitMix64 for the derivation.
//! *Cost*: one 128-bit multiplication per draw.
//! *Notes*: in halves of 64 bits, so that the kernel twin draws the same; a test compares it with the crate `rand_pcg`.

use tidegate_units::wide::mul_high;

/// A random stream. See the [module](self).
#[derive(Clone, Debug)]
pub struct Stream {
    /// The state of 128 bits.
    high: u64,
    low: u64,
    /// The number that each step adds; it is odd.
    step_high: u64,
    step_low: u64,
}

/// The multiplier of the generator.
const FACTOR_HIGH: u64 = 0x2360_ed05_1fc6_5da4;
const FACTOR_LOW: u64 = 0x4385_df64_9fcc_f645;
/// Each draw of [`Stream::below`] is taken with a probability above a half: so many in vain never happen.
const MOST_DRAWS: u32 = 256;

impl Stream {
    /// The stream of `name` under `seed`. Different names have independent streams.
    pub fn named(seed: u64, name: &str) -> Self {
        // FNV-1a of the name, then SplitMix64 to spread both over 256 bits.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let mut mix = seed ^ hash.rotate_left(32);
        let mut next = || {
            mix = mix.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = mix ^ hash;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let [state_high, state_low, stream_high, stream_low] = core::array::from_fn(|_| next());
        let step_low = stream_low << 1 | 1;
        let (low, carry) = state_low.overflowing_add(step_low);
        let step_high = stream_high << 1 | stream_low >> 63;
        let high = state_high.wrapping_add(step_high).wrapping_add(u64::from(carry));
        let mut stream = Self { high, low, step_high, step_low };
        stream.advance();
        stream
    }

    /// The state, then the step, each with the upper half first: with these another implementation continues the stream.
    pub const fn parts(&self) -> [u64; 4] {
        [self.high, self.low, self.step_high, self.step_low]
    }

    /// The stream that continues from [`parts`](Self::parts).
    pub const fn from_parts(high: u64, low: u64, step_high: u64, step_low: u64) -> Self {
        Self { high, low, step_high, step_low }
    }

    fn advance(&mut self) {
        let product = self.low.wrapping_mul(FACTOR_LOW);
        let cross = self.high.wrapping_mul(FACTOR_LOW).wrapping_add(self.low.wrapping_mul(FACTOR_HIGH));
        let high = mul_high(self.low, FACTOR_LOW).wrapping_add(cross);
        self.low = product.wrapping_add(self.step_low);
        self.high = high.wrapping_add(self.step_high).wrapping_add(u64::from(self.low < product));
    }

    /// 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        self.advance();
        (self.high ^ self.low).rotate_right((self.high >> 58) as u32)
    }

    /// Uniform below `bound`, without bias (Lemire's method); 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        for _ in 0..MOST_DRAWS {
            let draw = self.next_u64();
            // The threshold is below `bound`; most draws need no division to tell that they are above it.
            let low = draw.wrapping_mul(bound);
            if low >= bound || low >= 0_u64.wrapping_sub(bound) % bound {
                return mul_high(draw, bound);
            }
        }
        mul_high(self.next_u64(), bound)
    }

    /// Uniform in [0, 1), a multiple of 2⁻⁵³. For workloads and statistics; disciplines compare integers instead (see
    /// [`Stream::chance`]).
    #[expect(clippy::float_arithmetic, reason = "for workloads and statistics")]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Returns `true` with probability `numerator / 2^32`.
    pub fn chance(&mut self, numerator: u64) -> bool {
        self.next_u64() >> 32 < numerator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_reproducible_and_apart() {
        let draw = |seed, name| {
            let mut stream = Stream::named(seed, name);
            core::array::from_fn::<u64, 4, _>(|_| stream.next_u64())
        };
        assert_eq!(draw(1, "red"), draw(1, "red"));
        assert_ne!(draw(1, "red"), draw(2, "red"));
        assert_ne!(draw(1, "red"), draw(1, "rio"));
    }

    #[test]
    fn it_is_the_generator_of_the_library() {
        use rand_core::Rng as _;
        for seed in 0..200_u64 {
            let mut stream = Stream::named(seed, "same");
            // What is between the derivation and the first draw: the library adds the step and advances once.
            let mut parts = Stream::named(seed, "same").parts().map(u128::from);
            parts[1] |= parts[0] << 64;
            parts[3] |= parts[2] << 64;
            let factor = u128::from(FACTOR_HIGH) << 64 | u128::from(FACTOR_LOW);
            // The inverse of an odd number modulo 2^128 by Newton's iteration; each step doubles the bits that hold.
            let inverse = (0..7).fold(factor, |x, _| x.wrapping_mul(2_u128.wrapping_sub(factor.wrapping_mul(x))));
            let state = parts[1].wrapping_sub(parts[3]).wrapping_mul(inverse).wrapping_sub(parts[3]);
            let mut library = rand_pcg::Pcg64::new(state, parts[3] >> 1);
            for _ in 0..1_000 {
                assert_eq!(stream.next_u64(), library.next_u64());
            }
        }
    }

    #[test]
    fn below_is_uniform() {
        let mut stream = Stream::named(7, "uniform");
        let mut counts = [0_u32; 7];
        for _ in 0..70_000 {
            counts[stream.below(7) as usize] += 1;
        }
        // Mean 10,000, standard deviation sqrt(70,000 * 1/7 * 6/7) = 92.6; five of them is 463.
        assert!(counts.iter().all(|n| n.abs_diff(10_000) < 463), "{counts:?}");
    }
}

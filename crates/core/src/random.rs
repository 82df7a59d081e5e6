//! Named random streams: one generator for each component, derived from a seed and the name of the component.
//!
//! Two machines draw the same bits, and a new component does not change the draws of the others.
//!
//! *Source*: PCG XSL RR 128/64 (O'Neill, 2014) for the stream; FNV-1a and SplitMix64 for the derivation.
//! *Cost*: one 128-bit multiplication per draw.

use rand_core::Rng as _;
use rand_pcg::Pcg64;

/// A random stream. See the [module](self).
#[derive(Clone, Debug)]
pub struct Stream(Pcg64);

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
            u128::from(z ^ (z >> 31))
        };
        let (state, stream) = (next() << 64 | next(), next() << 64 | next());
        Self(Pcg64::new(state, stream))
    }

    /// 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform below `bound`, without bias (Lemire's method); 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            // The threshold is below `bound`; most draws need no division to tell that they are above it.
            let low = product as u64;
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
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

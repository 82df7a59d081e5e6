//! Traffic that does not help the scheduler: flows drawn at random, packets of mixed sizes, flows that begin and end, and
//! arrivals that do not depend on what leaves.
//!
//! A benchmark in which the packet that left returns to its own flow finds that flow in the cache, and flows that are served in
//! the order of their records let the processor read ahead. Neither happens on a gateway, so those are the *easy* cases.

/// Which flows send how often.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Spread {
    /// Every flow sends equally often.
    Uniform,
    /// The flow of rank r sends in proportion to 1/r (Zipf's law with exponent 1).
    Zipf,
}

impl Spread {
    /// Both, with the names that rows have.
    pub const ALL: [(&'static str, Self); 2] = [("uniform", Self::Uniform), ("zipf", Self::Zipf)];
}

/// One arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Which of the flows that are present at once, from 0.
    pub place: u32,
    /// The number of the flow. At places with odd numbers flows end, and others with new numbers follow them.
    pub flow: u64,
    /// The packet's size, 64 to 1,500 bytes.
    pub size: u32,
}

/// Draws are made before the measurement, and used again after so many. They are read in their order, which costs nothing.
const DRAWS: usize = 1 << 22;
/// The packets that a flow of average rate sends before it ends, if its place has an odd number.
const LIFE: u64 = 8;

#[derive(Clone, Copy)]
struct Draw {
    place: u32,
    size: u32,
}

/// An endless sequence of arrivals, the same in each run.
pub struct Traffic {
    draws: Vec<Draw>,
    arrivals: u64,
    /// How long a flow lasts, as a power of two of arrivals of all flows.
    life: u32,
}

impl Traffic {
    /// Arrivals of `flows` flows at once.
    pub fn new(spread: Spread, flows: u32) -> Self {
        let mut random = Random(0x5eed);
        let draws = (0..DRAWS).map(|_| Draw { place: place(spread, flows, &mut random), size: size(&mut random) });
        let life = (u64::from(flows) * LIFE).next_power_of_two().trailing_zeros();
        Self { draws: draws.collect(), arrivals: 0, life }
    }
    /// The next arrival.
    #[inline]
    pub fn arrival(&mut self) -> Arrival {
        let Draw { place, size } = self.draws[self.arrivals as usize % DRAWS];
        // Each place changes its flow at another time.
        let begun = (self.arrivals.wrapping_add(spread_bits(place.into()) >> (64 - self.life))) >> self.life;
        let generation = if place % 2 == 1 { begun } else { 0 };
        self.arrivals += 1;
        Arrival { place, flow: (generation << 32) | u64::from(place), size }
    }
}

fn size(random: &mut Random) -> u32 {
    64 + random.below(1_437)
}

fn place(spread: Spread, flows: u32, random: &mut Random) -> u32 {
    match spread {
        Spread::Uniform => random.below(flows),
        Spread::Zipf => {
            // The inverse of the distribution function ln(rank)/ln(flows + 1).
            let uniform = f64::from(random.below(u32::MAX)) / f64::from(u32::MAX);
            let rank = f64::from(flows + 1).powf(uniform) as u64 - 1;
            // Frequent flows are not neighbours in memory: a prime number that is no factor of `flows` permutes the ranks.
            (rank.min(u64::from(flows) - 1) * 2_654_435_761 % u64::from(flows)) as u32
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (((spread_bits(self.0) >> 32) * u64::from(bound)) >> 32) as u32
    }
}

/// A permutation of 64 bits in which neighbours have nothing in common.
fn spread_bits(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn arrivals(spread: Spread, flows: u32, count: usize) -> Vec<Arrival> {
        let mut traffic = Traffic::new(spread, flows);
        (0..count).map(|_| traffic.arrival()).collect()
    }

    #[test]
    fn flows_have_the_frequencies_of_their_distribution() {
        for (spread, most) in [(Spread::Uniform, 150), (Spread::Zipf, 16_000)] {
            let mut counts = vec![0; 1_000];
            let all = arrivals(spread, 1_000, 100_000);
            all.iter().for_each(|arrival| counts[arrival.place as usize] += 1);
            assert!(all.iter().all(|arrival| (64..=1_500).contains(&arrival.size)));
            counts.sort_unstable();
            // ln 2 / ln 1001 is a tenth of all arrivals; the flow of rank 10 has a tenth of that of rank 1.
            let (first, tenth) = (counts[999], counts[990]);
            assert!(first < most, "{spread:?}: {first} of the most frequent flow");
            if spread == Spread::Zipf {
                assert!((9_000..11_000).contains(&first) && (6..10).contains(&(first / tenth)), "{first}, {tenth}");
            }
        }
    }

    #[test]
    fn half_of_the_flows_end_and_others_begin() {
        let all = arrivals(Spread::Uniform, 1_024, 1_024 * 80);
        let flows = |odd| all.iter().filter(move |arrival| arrival.place % 2 == odd).map(|arrival| arrival.flow);
        assert_eq!(flows(0).collect::<BTreeSet<_>>().len(), 512);
        // Each of 512 places has ten lives, and the parts of one at both ends.
        assert!((512 * 10..=512 * 11).contains(&flows(1).collect::<BTreeSet<_>>().len()));
        // At any time as many flows send as there are places.
        let now: BTreeSet<_> = all[40_000..42_000].iter().map(|arrival| arrival.flow).collect();
        assert!(now.len() < 1_200, "{} flows at once", now.len());
    }
}

//! [`Windows`]: at which times of traces runs begin.

use std::sync::Arc;

use tidegate_core::Span;

/// The times of traces at which a run may begin: one after the other, so that as many successive seeds as there are windows have each of them
/// once, and none goes from one trace to the next. Where there is no room for two, begins are spread over what there is, and windows overlap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Windows {
    /// The time from one begin to the next.
    pub step: Span,
    /// The number of begins in each trace.
    counts: Arc<[u64]>,
}

/// The number of begins of windows that overlap.
const OVERLAPPING: u64 = 997;

impl Windows {
    /// The windows of runs of `duration` in traces of these lengths. Where one trace is not longer, a run may begin anywhere.
    pub fn of(lengths: &[Span], duration: Span) -> Self {
        let counts: Vec<u64> = lengths.iter().map(|all| all.as_nanos() / duration.as_nanos().max(1)).collect();
        match lengths {
            [all] if counts[0] < 2 => {
                let latest = if *all > duration { all.saturating_sub(duration) } else { *all };
                let step = Span::from_nanos((latest.as_nanos() / OVERLAPPING).max(1));
                Self { step, counts: [OVERLAPPING].into() }
            }
            _ => Self { step: duration, counts: counts.into() },
        }
    }
    /// The number of begins.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
    /// The number of the trace in which the run with a seed begins, counted from 0, and when in it.
    pub fn begin(&self, seed: u64) -> (usize, Span) {
        let count = self.count().max(1);
        // Steps of the golden ratio spread successive seeds (Weyl, 1916); one that has no factor in common with the number meets each.
        let shares = |a: u64| std::iter::successors(Some((a, count)), |(a, b)| (*b > 0).then(|| (*b, a % b))).last();
        let near = (count as f64 * 0.618_034) as u64;
        let stride = (near.max(1)..).find(|stride| shares(*stride).is_some_and(|(common, _)| common == 1)).unwrap_or(1);
        let mut place = (u128::from(seed % count) * u128::from(stride) % u128::from(count)) as u64;
        for (trace, count) in self.counts.iter().enumerate() {
            if place < *count {
                return (trace, Span::from_nanos(self.step.as_nanos().saturating_mul(place)));
            }
            place -= count;
        }
        (0, Span::ZERO)
    }
}

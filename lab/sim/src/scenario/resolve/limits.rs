//! Limits of scenarios, which ensure that every accepted scenario ends.

use tidegate_config::Place;
use tidegate_core::Span;

use super::Resolver;
use crate::scenario::file::File;

/// The longest run: thirty days.
const LONGEST: Span = Span::from_secs(30 * 86_400);
/// The largest number of runs.
const RUNS: u64 = 10_000;
/// The largest number of bins in a run.
const BINS: u64 = 1_000_000;
/// The largest mean number of packets or connections that a flow begins in a run. Links may let fewer pass.
const ARRIVALS: f64 = 1e9;
/// The largest mean number of failures of a line in a run. Those that a transmission meets are held in memory.
const FAILURES: f64 = 1e7;
/// The largest rate of packets or connections per second. Time resolves one in a nanosecond, and bursts need a margin.
const ARRIVALS_PER_SECOND: f64 = 1e8;

/// The width of bins that a file does not mention: 100 ms, or more of it where a run would have too many.
pub(super) fn usual_bin(duration: Span) -> Span {
    let mut bin = Span::from_millis(100);
    while duration.as_nanos() / bin.as_nanos() > BINS {
        bin = bin.saturating_mul(2);
    }
    bin
}

impl Resolver<'_> {
    /// Checks the duration, the number of runs and the bins.
    pub(super) fn limits(&mut self, file: &File) {
        if file.duration.value > LONGEST {
            let help = format!("write at most \"{}h\"", LONGEST.as_nanos() / 3_600_000_000_000);
            self.error(file.duration.place, "a simulation of more than 30 days", "too long", help);
        }
        if u64::from(file.runs.value) > RUNS {
            let message = format!("{} runs are more than the limit of {RUNS}", file.runs.value);
            self.error(file.runs.place, message, "too many", "use fewer; the mean is known well before that");
        }
        if u64::from(file.most_runs.value) > RUNS {
            let message = format!("{} runs are more than the limit of {RUNS}", file.most_runs.value);
            self.error(file.most_runs.place, message, "too many", "use fewer, or a wider interval");
        }
        if let Some(bin) = &file.bin
            && file.duration.value.as_nanos() / bin.value.as_nanos().max(1) > BINS
        {
            let message = format!("more than {BINS} bins in a run");
            self.error(bin.place, message, "too short for the duration", "make the bin longer, or leave it out");
        }
    }

    /// Checks that a line which fails `per_second` times stays within the limit, and reports an error otherwise.
    pub(super) fn fails_rarely(&mut self, place: Place, per_second: f64) -> bool {
        let all = per_second * self.scenario.duration.as_secs_f64();
        if all > FAILURES {
            let message = format!("{all:.3e} failures in a run are more than the limit of {FAILURES:e}");
            self.error(place, message, "too many", "make them rarer; for packets that are lost there is `loss`");
            return false;
        }
        true
    }

    /// Checks that a flow which begins `per_second` packets or connections stays within the limits, and reports an
    /// error otherwise.
    pub(super) fn arrives(&mut self, place: Place, per_second: f64, what: &str) -> bool {
        if per_second > ARRIVALS_PER_SECOND {
            let message =
                format!("{per_second:.3e} {what} per second are more than the limit of {ARRIVALS_PER_SECOND:e}");
            self.error(place, message, "too many", "make them rarer");
            return false;
        }
        let all = per_second * self.scenario.duration.as_secs_f64();
        if all > ARRIVALS {
            let message = format!("{all:.3e} {what} in a run are more than the limit of {ARRIVALS:e}");
            self.error(place, message, "too many", "make them rarer, or the duration shorter");
            return false;
        }
        true
    }
}

//! All runs of a scenario: several seeds and variants on all processors, with progress, until a signal.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use tidegate_core::Span;
use tidegate_sim::scenario::{Outcome, Scenario};

use tidegate_sim::parallel::Division;

use super::cache::Cache;
use crate::progress::Progress;

/// The outcomes of the runs.
pub struct Runs {
    /// The outcome of each seed, in order. If some variants of a seed did not end, it has the others; without any it is left
    /// out.
    pub outcomes: Vec<Outcome>,
    /// A run is a seed with a variant: all of them, those that have ended, and those of which the cache had the outcome.
    pub wanted: usize,
    pub ended: usize,
    pub cached: usize,
    /// Why an outcome could not be kept, where that happened.
    pub unkept: Option<std::io::Error>,
    /// How the first run that ended was divided among threads, where that was tried.
    pub division: Option<Division>,
}

/// How runs use the processors.
#[derive(Clone, Copy)]
pub struct Jobs {
    /// Runs at a time.
    pub runs: usize,
    /// The most threads of a run.
    pub threads: usize,
}

/// Calls `work` on so many threads at once.
fn spawn(threads: usize, work: &(dyn Fn(usize) + Sync)) {
    std::thread::scope(|scope| (0..threads).for_each(|number| drop(scope.spawn(move || work(number)))));
}

impl Runs {
    /// Adds runs with later seeds.
    pub fn add(&mut self, more: Self) {
        self.outcomes.extend(more.outcomes);
        self.wanted += more.wanted;
        self.ended += more.ended;
        self.cached += more.cached;
        self.unkept = self.unkept.take().or(more.unkept);
        self.division = self.division.or(more.division);
    }
}

/// Set by the first SIGINT or SIGTERM; the second one ends the process.
pub fn stop_on_signals() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Runs seeds `seed`, `seed + 1`, ... of `scenario`, as many at a time as `jobs` says. The results do not depend on which thread
/// ran what. The first SIGINT or SIGTERM ends the runs that have not ended, the second one the process.
pub fn all(scenario: &Scenario, seed: u64, seeds: usize, jobs: Jobs, cache: Option<&Cache>) -> std::io::Result<Runs> {
    let stop = stop_on_signals()?;
    let parts = scenario.parts();
    let wanted = seeds * parts;
    let next = AtomicUsize::new(0);
    let simulated: Vec<AtomicU64> = (0..wanted).map(|_| AtomicU64::new(0)).collect();
    let mut outcomes: Vec<Option<Outcome>> = (0..wanted).map(|_| None).collect();
    let (mut cached, mut unkept, mut divided) = (0, None, None);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.runs {
            let sender = sender.clone();
            let (next, simulated, stop) = (&next, &simulated, &stop);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= wanted || stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let (seed, part) = (seed.wrapping_add((index / parts) as u64), index % parts);
                    let known = cache.and_then(|cache| cache.take(seed, part));
                    let (from_cache, begin) = (known.is_some(), Instant::now());
                    let progress = |at: Span| {
                        simulated[index].store(at.as_nanos(), Ordering::Relaxed);
                        if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    };
                    let run = || match jobs.threads {
                        0 | 1 => Some((scenario.run_part(seed, part, progress)?, None)),
                        threads => {
                            let divided = scenario.run_divided((seed, part), threads, progress, &spawn)?;
                            Some((divided.0, Some(divided.1)))
                        }
                    };
                    let Some((outcome, division)) = known.map(|known| (known, None)).or_else(run) else { return };
                    let kept = match cache.filter(|_| !from_cache) {
                        Some(cache) => cache.keep(seed, part, &outcome, begin.elapsed()),
                        None => Ok(()),
                    };
                    if sender.send((index, outcome, from_cache, kept, division)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut bar = Bar::new(scenario.duration, wanted);
        loop {
            match receiver.recv_timeout(Duration::from_millis(100)) {
                Ok((index, outcome, from_cache, kept, division)) => {
                    divided = divided.or(division);
                    outcomes[index] = Some(outcome);
                    bar.ended += 1;
                    if from_cache {
                        cached += 1;
                        bar.skip(scenario.duration);
                    }
                    unkept = unkept.take().or(kept.err());
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    bar.show(simulated.iter().map(|at| at.load(Ordering::Relaxed)).sum::<u64>());
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    let ended = outcomes.iter().flatten().count();
    let mut outcomes = outcomes.into_iter();
    let of_seed = |n: usize| {
        let found: Vec<Outcome> = outcomes.by_ref().take(parts).flatten().collect();
        (!found.is_empty()).then(|| Outcome::joined(seed.wrapping_add(n as u64), found))
    };
    let outcomes = (0..seeds).filter_map(of_seed).collect();
    Ok(Runs { outcomes, wanted, ended, cached, unkept, division: divided })
}

/// The progress in simulated time.
struct Bar {
    /// Nanoseconds to simulate: those of runs that the cache has are no part of it.
    total: u64,
    wanted: usize,
    ended: usize,
    progress: Progress,
}

impl Bar {
    fn new(duration: Span, wanted: usize) -> Self {
        let total = duration.as_nanos().saturating_mul(wanted as u64);
        Self { total, wanted, ended: 0, progress: Progress::new() }
    }
    fn skip(&mut self, duration: Span) {
        self.total -= duration.as_nanos();
    }
    fn show(&mut self, nanos: u64) {
        let (done, total) = (nanos as f64 / 1e9, self.total as f64 / 1e9);
        let runs = if self.wanted > 1 { format!(", {} of {} runs", self.ended, self.wanted) } else { String::new() };
        let text = || format!("{done:.1} of {total:.1} s simulated{runs}");
        self.progress.show(nanos / 1_000_000, self.total / 1_000_000, text);
    }
}

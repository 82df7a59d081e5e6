//! One simulation on several processors, with the results of one.
//!
//! The network is divided into regions, which run on a thread each, in windows no longer than the shortest delay between two regions:
//! what one region sends within a window arrives in another after the window (conservative, synchronous: Chandy and Misra 1979; Nicol
//! 1993). After each window the regions exchange the packets that cross.
//!
//! *Law*: the measurements, and so the digest, are those of [`Simulation::run_until`], whatever the number of regions. Events of
//! equal times are handled in the order in which one processor would have scheduled them; `order` finds it after each window.
//! *Source*: R. M. Fujimoto, "Parallel discrete event simulation", CACM 33(10), 1990.
//! *Cost*: for each event some 10 ns more than on one processor, for each packet that crosses about 100; for each window the wait for
//! the slowest region. What memory holds of the network is there once for each region.
//! *Notes*: the division of a network into regions is that of `plan`. A run is not divided if one region would have nearly all of the work, and
//! a connection between regions that is aborted makes the run begin again on one processor. This crate starts no thread: the caller
//! does.

mod meeting;
mod order;
mod plan;
mod share;

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use tidegate_core::Instant;

use crate::engine::Simulation;
pub(crate) use meeting::{Attendance, Letter, Meeting, Message};
pub(crate) use order::{HERE, History, Log, Origin, rank, rank_of};
pub(crate) use plan::Plan;
pub use share::Division;
pub(crate) use share::{LinkShare, Share};

/// Calls its second argument with each number below the first, each on a thread of its own, and returns when all of them have.
pub type Spawn<'a> = &'a dyn Fn(usize, &(dyn Fn(usize) + Sync));

/// What is told of the progress of a run: the simulated time. If it breaks, the run ends without a result.
pub type Watch<'a> = &'a mut (dyn FnMut(Instant) -> ControlFlow<()> + Send);

/// How a divided run ended.
pub(crate) enum End {
    Reached { windows: u64 },
    Stopped,
    Diverged,
}

/// The reason for a run that began again.
const DIVERGED: &str = "a connection between two regions was aborted, or too much happened at one time";

/// Runs the simulation that `build` returns until `end`, on at most `threads` threads that `spawn` starts, and returns what `finish`
/// makes of it. `build` is called on each thread and must return the same simulation each time. The simulation that `finish` gets has the
/// measurements of all regions, but state (endpoints, backlogs) of the first region only.
///
/// ```
/// use std::ops::ControlFlow;
/// use tidegate_core::{Instant, Rate, Span};
/// use tidegate_sim::{FlowSpec, Line, Network, Workload, parallel, tcp};
/// let build = || {
///     let mut net = Network::new(1);
///     let (a, b) = (net.host("a"), net.host("b"));
///     net.duplex(a, b, Line::new(Rate::from_mbit(100), Span::from_millis(10)));
///     net.flow(FlowSpec::tcp("bulk", a, b, tcp::Config::sack(), Workload::BULK));
///     net.build().unwrap()
/// };
/// let end = Instant::ZERO + Span::from_secs(2);
/// let spawn: parallel::Spawn<'_> = &|threads, work| {
///     std::thread::scope(|scope| (0..threads).for_each(|n| drop(scope.spawn(move || work(n)))));
/// };
/// let finish = |sim: tidegate_sim::Simulation, division: parallel::Division| (sim.events(), division.regions);
/// let (events, regions) = parallel::run(2, end, &build, &mut |_| ControlFlow::Continue(()), finish, spawn).unwrap();
/// let mut alone = build();
/// alone.run_until(end);
/// assert_eq!((events, regions), (alone.events(), 2));
/// ```
pub fn run<T: Send>(
    threads: usize,
    end: Instant,
    build: &(dyn Fn() -> Simulation + Sync),
    watch: Watch<'_>,
    finish: impl FnOnce(Simulation, Division) -> T + Send,
    spawn: Spawn<'_>,
) -> Option<T> {
    let threads = threads.clamp(1, plan::MOST_REGIONS);
    let meeting = Meeting::new(threads);
    let first = Mutex::new(Some((watch, finish)));
    let result = Mutex::new(None);
    spawn(threads, &|number| {
        let attendance = Attendance::new(&meeting);
        let first = if number == 0 { first.lock().unwrap_or_else(PoisonError::into_inner).take() } else { None };
        if let Some((watch, finish)) = first {
            let made = lead(threads, end, build, watch, &meeting).map(|(sim, division)| finish(sim, division));
            *result.lock().unwrap_or_else(PoisonError::into_inner) = made;
        } else if number > 0 {
            assist(number, threads, end, build, &meeting);
        }
        attendance.end();
    });
    result.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the first region, or all of the simulation if it is not divided.
fn lead(
    threads: usize,
    end: Instant,
    build: &dyn Fn() -> Simulation,
    watch: Watch<'_>,
    meeting: &Meeting,
) -> Option<(Simulation, Division)> {
    let mut sim = build();
    let reason = match plan::plan(&sim, threads) {
        Err(reason) => reason,
        Ok(plan) => {
            let (regions, lookahead) = (plan.regions, tidegate_core::Span::from_nanos(plan.lookahead));
            sim.enter(plan, 0);
            match sim.run_region(end, meeting, watch) {
                End::Stopped => return None,
                End::Reached { windows } => {
                    meeting.wait(regions);
                    let shares = std::mem::take(&mut *meeting.shares.lock().unwrap_or_else(PoisonError::into_inner));
                    sim.add_shares(shares);
                    return Some((sim, Division { regions, lookahead, windows, undivided: None }));
                }
                End::Diverged => {
                    sim = build();
                    DIVERGED
                }
            }
        }
    };
    let step = (end.as_nanos() / 256).max(1);
    while sim.now() < end {
        sim.run_until(end.min(sim.now() + tidegate_core::Span::from_nanos(step)));
        if watch(sim.now()).is_break() {
            return None;
        }
    }
    sim.run_until(end);
    Some((sim, Division::none(reason)))
}

/// Runs region `number`, if there is one.
fn assist(number: usize, threads: usize, end: Instant, build: &dyn Fn() -> Simulation, meeting: &Meeting) {
    let mut sim = build();
    let Ok(plan) = plan::plan(&sim, threads) else { return };
    let regions = plan.regions;
    if number >= regions {
        return;
    }
    sim.enter(plan, number as u8);
    if let End::Reached { .. } = sim.run_region(end, meeting, &mut |_| ControlFlow::Continue(())) {
        meeting.shares.lock().unwrap_or_else(PoisonError::into_inner).push(sim.share());
        meeting.wait(regions);
    }
}

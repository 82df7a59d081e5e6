//! Detects whether other load on the machine has disturbed a measurement.
//!
//! A rate or a delay over real sockets is meaningful only if the machine scheduled the sender, the shaper and the
//! receiver in time. [`patiently`] evaluates a failed attempt by the load that a [`Watch`] measured meanwhile.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidegate_sys::process;

use crate::harness::{Ended, is_alone};

/// Failed attempts on a steady machine after which the test fails.
const ATTEMPTS: usize = 3;
/// How long attempts on an unsteady machine are repeated. Beside other tests this is short, since what cannot be measured
/// beside them is measured again alone.
fn patience() -> Duration {
    Duration::from_secs(if is_alone() { 90 } else { 15 })
}
/// The share of all processors that other processes may use.
const TAKEN: f64 = 0.05;
/// The part of the time that a processor may stand still.
const STALLED: f64 = 0.01;

/// Runs `attempt` until it holds. It fails when it went wrong three times on a steady machine; where the
/// machine was not steady for that long, the test is skipped with what was seen. An attempt panics by itself when
/// something fails that has nothing to do with time.
///
/// # Panics
/// When it went wrong too often on a steady machine.
pub fn patiently(mut attempt: impl FnMut() -> Result<(), String>) -> Ended {
    let began = Instant::now();
    let (mut off, mut disturbed) = (Vec::new(), Vec::new());
    loop {
        let watch = Watch::start();
        let what = match attempt() {
            Ok(()) => return Ended::Passed,
            Err(what) => what,
        };
        match watch.disturbance() {
            None => {
                println!("  {what}");
                off.push(what);
            }
            Some(meanwhile) => {
                println!("  {what}, while {meanwhile}");
                disturbed.push(meanwhile);
                thread::sleep(Duration::from_millis(500));
            }
        }
        assert!(off.len() < ATTEMPTS, "{off:?}");
        if began.elapsed() > patience() {
            return Ended::Unsteady(format!("the machine was not steady enough to measure: {}", disturbed.join("; ")));
        }
    }
}

/// The part of a test that depends on scheduling. Each measurement is an attempt of its own, so that a running setup
/// need not be restarted. A measurement that was not possible skips the test, after the rest of it has been checked.
#[derive(Debug)]
pub struct Measurements {
    began: Instant,
    unsteady: Option<String>,
}

impl Default for Measurements {
    fn default() -> Self {
        Self::new()
    }
}

impl Measurements {
    /// Begins with nothing measured.
    pub fn new() -> Self {
        Self { began: Instant::now(), unsteady: None }
    }

    /// Repeats `attempt` until it holds, as [`patiently`] does. A test that has measured for too long begins no other
    /// measurement.
    ///
    /// # Panics
    /// When it went wrong too often on a steady machine.
    pub fn hold(&mut self, mut attempt: impl FnMut() -> Result<(), String>) {
        if self.unsteady.is_some() {
            return;
        }
        if self.began.elapsed() > patience() {
            // Once, so that one that is right is seen.
            self.unsteady = attempt().err().map(|what| format!("the machine was not steady for long: {what}"));
        } else if let Ended::Unsteady(why) = patiently(attempt) {
            self.unsteady = Some(why);
        }
    }

    /// How the test ends.
    pub fn ended(self) -> Ended {
        self.unsteady.map_or(Ended::Passed, Ended::Unsteady)
    }
}

/// Observes the machine from [`Watch::start`] on.
#[derive(Debug)]
pub struct Watch {
    began: Instant,
    processors: f64,
    used: Used,
    stop: Arc<AtomicBool>,
    /// A thread for each processor, which returns how long the processor stood still.
    stalls: Vec<JoinHandle<Option<Duration>>>,
}

impl Watch {
    /// Begins to observe.
    pub fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let processors = allowed();
        let stalls = processors.iter().map(|&processor| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || stalls(processor, &stop))
        });
        Self {
            began: Instant::now(),
            processors: thread::available_parallelism().map_or(1.0, |number| number.get() as f64),
            used: Used::now(),
            stalls: stalls.collect(),
            stop,
        }
    }

    /// Processor time of this process, of its descendants and of the kernel's threads.
    pub fn ours(&self) -> Duration {
        Duration::from_secs_f64(ours_between(&self.used.ours, &ours()) as f64 / TICKS)
    }

    /// Describes what disturbed a measurement; `None` when the machine was steady.
    ///
    /// # Panics
    /// When a thread that observes has panicked.
    pub fn disturbance(mut self) -> Option<String> {
        let elapsed = self.began.elapsed().as_secs_f64();
        let now = Used::now();
        let stalled = self.stop().unwrap_or_default().as_secs_f64() / elapsed;
        let part = |from: u64, to: u64| to.saturating_sub(from) as f64 / TICKS / self.processors / elapsed;
        let stolen = part(self.used.stolen, now.stolen);
        let others = part(self.used.all, now.all) - part(0, ours_between(&self.used.ours, &now.ours));
        (stolen + others > TAKEN || stalled > STALLED).then(|| {
            format!(
                "other programs took {:.0} % of the processors, other machines {:.0} %, and one stood still for {:.1} % of {elapsed:.1} s",
                others.max(0.0) * 100.0,
                stolen * 100.0,
                stalled * 100.0
            )
        })
    }
}

impl Watch {
    /// Ends the threads. Returns how long the processor stood still that did so for longest, where that was measured.
    fn stop(&mut self) -> Option<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        self.stalls.drain(..).filter_map(|thread| thread.join().expect("no panic")).max()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The unit of `/proc/stat` (`USER_HZ`), the same on every architecture that Linux runs Rust programs on.
const TICKS: f64 = 100.0;

/// Processor time in ticks since the machine began.
#[derive(Debug)]
struct Used {
    /// The time of all processes.
    all: u64,
    /// The time that the host of this machine has taken.
    stolen: u64,
    /// The times of this process, its descendants, and the kernel's threads, which work for our traffic.
    ours: HashMap<u32, Ours>,
}

/// Processor time in ticks of one process that is ours, with that of the children it waited for.
#[derive(Debug)]
struct Ours {
    kernel: bool,
    time: u64,
}

impl Used {
    fn now() -> Self {
        let all = fs::read_to_string("/proc/stat").unwrap_or_default();
        let fields: Vec<u64> =
            all.lines().next().unwrap_or_default().split_whitespace().skip(1).map_while(|n| n.parse().ok()).collect();
        let field = |n: usize| fields.get(n).copied().unwrap_or(0);
        // user, nice and system; interrupts (5 and 6) are our packets.
        Self { all: field(0) + field(1) + field(2), stolen: field(7), ours: ours() }
    }
}

/// The time that our processes used between two observations. When a thread of the kernel ends, its time is gone; when
/// another process ends, its time goes to the parent that waited for it, and what it used before must be subtracted.
fn ours_between(before: &HashMap<u32, Ours>, now: &HashMap<u32, Ours>) -> u64 {
    let since = |(pid, one): (&u32, &Ours)| one.time.saturating_sub(before.get(pid).map_or(0, |one| one.time));
    let gone = |(pid, one): (&u32, &Ours)| if one.kernel || now.contains_key(pid) { 0 } else { one.time };
    now.iter().map(since).sum::<u64>().saturating_sub(before.iter().map(gone).sum())
}

fn ours() -> HashMap<u32, Ours> {
    // The parent of each process, and its time with that of the children it waited for.
    let mut processes = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // It may have ended since.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name, in brackets, may contain anything.
        let Some((_, rest)) = stat.rsplit_once(')') else { continue };
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |n: usize| fields.get(n).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        processes.insert(pid, (field(1) as u32, (11..15).map(field).sum::<u64>()));
    }
    /// The parent of all of the kernel's threads.
    const KTHREADD: u32 = 2;
    let mut tree = HashSet::from([std::process::id(), KTHREADD]);
    loop {
        let before = tree.len();
        tree.extend(
            processes.iter().filter(|(_, (parent, _))| tree.contains(parent)).map(|(pid, _)| *pid).collect::<Vec<_>>(),
        );
        if tree.len() == before {
            break;
        }
    }
    let ours = |pid| {
        let (parent, time) = *processes.get(&pid)?;
        Some((pid, Ours { kernel: parent == KTHREADD || pid == KTHREADD, time }))
    };
    tree.into_iter().filter_map(ours).collect()
}

/// The processors that this process may use, so many as are worth a thread each.
fn allowed() -> Vec<usize> {
    let ours = process::processors().unwrap_or_default();
    ours.into_iter().take(8).collect()
}

/// How long `processor` stood still until `stop`: as a thread sees it that goes before every other one, so that only
/// the kernel or the host keep it from waking. `None` where such a thread may not be had.
fn stalls(processor: usize, stop: &AtomicBool) -> Option<Duration> {
    if process::stay_on(&[processor]).is_err() || process::set_real_time(99, false).is_err() {
        return None;
    }
    const EVERY: Duration = Duration::from_millis(1);
    // The kernel may handle packets for this long before it runs any thread.
    const OURS: Duration = Duration::from_millis(3);
    let mut stalled = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let before = Instant::now();
        thread::sleep(EVERY);
        let late = before.elapsed().saturating_sub(EVERY);
        if late > OURS {
            stalled += late;
        }
    }
    Some(stalled)
}

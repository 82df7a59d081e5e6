//! The watchdog: a thread that checks the progress of the data paths, and lets traffic pass when one has stopped.
//!
//! It is apart from the thread that supervises and handles requests, because that may itself wait for a data path that no
//! longer replies. All it uses of a data path is its [`WatchdogHandle`].
//!
//! *Law*: traffic passes again within a second of a stall or a panic; then shaping is started again, at once the first
//! time, later after a growing pause.
//! *Notes*: a data path that has nothing to do makes a turn every 100 ms; one without progress for [`PATIENCE`] checks is
//! abandoned, 0.5 s after its last progress. Checks are counted, not time: a machine that was suspended has checked once.
//! The guardian, a process of its own, lets packets pass before that; what is left for this thread is that another data
//! path is started.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_live::shaping::WatchdogHandle;
use tidegate_live::timing::Scheduled;

use crate::service;

/// The interval between checks.
const CHECK: Duration = Duration::from_millis(50);
/// Checks without progress after which the data path is abandoned.
const PATIENCE: u32 = 10;

/// From the supervisor to the watchdog.
enum Command {
    /// Watch the data path of this direction, in the place of an earlier one.
    Watch(usize, Box<WatchdogHandle>),
    /// Watch that direction no longer.
    Unwatch(usize),
}

/// From the watchdog to the supervisor.
pub(super) enum Report {
    /// The data path of this direction has stopped, and traffic passes unshaped.
    Failed(usize, String),
    /// The data path of this direction continues; the text is for people.
    Note(usize, String),
}

/// A running watchdog.
pub(super) struct Watchdog {
    commands: Sender<Command>,
    reports: Receiver<Report>,
    /// Counts ticks of the supervisor, so that the service manager notices its end too.
    alive: Arc<AtomicU64>,
}

struct Watched {
    direction: usize,
    handle: Box<WatchdogHandle>,
    threads: Vec<Progress>,
}

/// The progress of a thread of the data path.
struct Progress {
    /// The turns that were last seen, and the checks since.
    beats: u64,
    quiet: u32,
    /// How it had been scheduled at the first of these checks.
    before: Option<Scheduled>,
}

impl Watchdog {
    pub fn start() -> std::io::Result<Self> {
        let (commands, received) = mpsc::channel();
        let (to, reports) = mpsc::channel();
        let alive = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&alive);
        thread::Builder::new().name("watchdog".into()).spawn(move || run(&received, &to, &counter))?;
        Ok(Self { commands, reports, alive })
    }

    /// Watches the data path of a direction, from each start of it.
    pub fn watch(&self, direction: usize, handle: WatchdogHandle) {
        let _ = self.commands.send(Command::Watch(direction, Box::new(handle)));
    }
    /// Watches it no longer: before it is ended on purpose.
    pub fn unwatch(&self, direction: usize) {
        let _ = self.commands.send(Command::Unwatch(direction));
    }
    /// Reports that the supervisor runs, and returns what the watchdog found.
    pub fn reports(&self) -> Vec<Report> {
        self.alive.fetch_add(1, Ordering::Relaxed);
        self.reports.try_iter().collect()
    }
}

fn run(commands: &Receiver<Command>, reports: &Sender<Report>, alive: &AtomicU64) {
    let mut watched: Vec<Watched> = Vec::new();
    let service = service::watchdog_interval();
    let (mut notified, mut last) = (Instant::now(), 0);
    loop {
        match commands.recv_timeout(CHECK) {
            Ok(Command::Watch(direction, handle)) => {
                watched.retain(|watched| watched.direction != direction);
                let threads =
                    handle.beats().into_iter().map(|beats| Progress { beats, quiet: 0, before: None }).collect();
                watched.push(Watched { direction, threads, handle });
                continue;
            }
            Ok(Command::Unwatch(direction)) => {
                watched.retain(|watched| watched.direction != direction);
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // A supervisor that has ended needs no reports.
        watched.retain_mut(|watched| {
            for note in watched.handle.notes() {
                let _ = reports.send(Report::Note(watched.direction, note));
            }
            let Some(why) = watched.check() else { return true };
            let why = match watched.handle.let_pass(&why) {
                Ok(()) => why,
                Err(error) => format!("{why}; and the rules could not be opened: {error}"),
            };
            let _ = reports.send(Report::Failed(watched.direction, why));
            false
        });
        if let Some(interval) = service
            && notified.elapsed() >= interval
        {
            // Only when the supervisor has run since: otherwise the service manager restarts the service.
            let now = alive.load(Ordering::Relaxed);
            if now != last {
                service::notify("WATCHDOG=1");
                (notified, last) = (Instant::now(), now);
            }
        }
    }
}

impl Watched {
    /// The reason to abandon the data path, if there is one.
    fn check(&mut self) -> Option<String> {
        if let Some(why) = self.handle.fault() {
            return Some(why);
        }
        for (nth, (thread, beats)) in self.threads.iter_mut().zip(self.handle.beats()).enumerate() {
            if thread.beats != beats {
                (thread.beats, thread.quiet) = (beats, 0);
                continue;
            }
            thread.quiet += 1;
            if thread.quiet == 1 {
                thread.before = self.handle.scheduled(nth);
            }
            if thread.quiet >= PATIENCE {
                let millis = |checks: u32| CHECK.as_millis() * u128::from(checks);
                let why = format!("the data path is stalled: a turn of its loop has taken {} ms", millis(thread.quiet));
                let now = self.handle.scheduled(nth);
                return Some(match now.zip(thread.before).map(|(now, before)| now.since(before)) {
                    Some(Scheduled { ran, waited, is_ready }) => {
                        let seen = millis(thread.quiet - 1);
                        let [ran, waited] = [ran, waited].map(|time| tidegate_display::wait(time.as_nanos()));
                        let now = if is_ready { "is ready to run" } else { "sleeps in the kernel" };
                        format!(
                            "{why}; in the last {seen} ms its thread ran for {ran} and waited for a processor for {waited}, \
                             and it {now}"
                        )
                    }
                    None => why,
                });
            }
        }
        None
    }
}

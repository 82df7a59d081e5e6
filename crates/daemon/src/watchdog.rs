//! The watchdog: a thread that looks whether the data paths turn, and lets traffic pass when one does not.
//!
//! It is apart from the thread that supervises and answers, because that may itself wait for a data path that no longer
//! answers. It knows no more of a data path than its [`Lifeline`].
//!
//! *Law*: traffic passes again within a second of a stall or a panic; then shaping is started anew, at once the first
//! time, later after a growing pause.
//! *Notes*: a data path that sleeps is asked for a turn each [`QUIET`]; one that lets [`PATIENCE`] looks go by without is
//! given up, 0.5 s after its last turn. Looks are counted, not time: a machine that was suspended has looked once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_live::shaping::Lifeline;

use crate::daemon::{Daemon, DaemonError};
use crate::service;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(50);
/// So many looks without a turn, and it asks for one.
const QUIET: u32 = 2;
/// So many more without an answer, and the data path is given up.
const PATIENCE: u32 = 8;
/// The first pause before shaping is started again, after one that lasted for less than [`STEADY`].
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);
/// Shaping that held for so long begins anew with pauses.
const STEADY: Duration = Duration::from_secs(60);

/// What the supervisor tells the watchdog.
enum Order {
    /// Look after this direction, and no longer after another data path of it.
    Watch(usize, Box<Lifeline>),
    /// No longer look after it.
    Leave(usize),
}

/// What the watchdog tells the supervisor.
pub(crate) enum Report {
    /// The data path of this direction no longer shapes, and traffic passes.
    Failed(usize, String),
    /// A data path goes on; somebody should know this.
    Note(String),
}

/// A running watchdog.
pub(crate) struct Watchdog {
    orders: Sender<Order>,
    reports: Receiver<Report>,
    /// Counted up by the supervisor, so that systemd hears of its end too.
    alive: Arc<AtomicU64>,
}

struct Watched {
    direction: usize,
    lifeline: Box<Lifeline>,
    beats: u64,
    quiet: u32,
}

impl Watchdog {
    pub fn start() -> std::io::Result<Self> {
        let (orders, inbox) = mpsc::channel();
        let (to, reports) = mpsc::channel();
        let alive = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&alive);
        thread::Builder::new().name("watchdog".into()).spawn(move || watch(&inbox, &to, &seen))?;
        Ok(Self { orders, reports, alive })
    }
}

fn watch(orders: &Receiver<Order>, reports: &Sender<Report>, alive: &AtomicU64) {
    let mut watched: Vec<Watched> = Vec::new();
    let service = service::watchdog_interval();
    let (mut told, mut heard) = (Instant::now(), 0);
    loop {
        match orders.recv_timeout(LOOK) {
            Ok(Order::Watch(direction, lifeline)) => {
                watched.retain(|watched| watched.direction != direction);
                watched.push(Watched { direction, beats: lifeline.beats(), lifeline, quiet: 0 });
                continue;
            }
            Ok(Order::Leave(direction)) => {
                watched.retain(|watched| watched.direction != direction);
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // A supervisor that is gone wants no reports.
        watched.retain_mut(|watched| {
            for note in watched.lifeline.notes() {
                let _ = reports.send(Report::Note(note));
            }
            let Some(why) = watched.look() else { return true };
            let why = match watched.lifeline.let_pass(&why) {
                Ok(()) => why,
                Err(error) => format!("{why}; and the rules could not be opened: {error}"),
            };
            let _ = reports.send(Report::Failed(watched.direction, why));
            false
        });
        if let Some(interval) = service
            && told.elapsed() >= interval
        {
            // Only when the supervisor has turned since: otherwise systemd shall start us again.
            let now = alive.load(Ordering::Relaxed);
            if now != heard {
                service::notify("WATCHDOG=1");
                (told, heard) = (Instant::now(), now);
            }
        }
    }
}

impl Watched {
    /// Why the data path must be given up, if it must.
    fn look(&mut self) -> Option<String> {
        if let Some(why) = self.lifeline.fault() {
            return Some(why);
        }
        let beats = self.lifeline.beats();
        if beats != self.beats {
            (self.beats, self.quiet) = (beats, 0);
            return None;
        }
        self.quiet += 1;
        if self.quiet >= QUIET + PATIENCE {
            let millis = LOOK.as_millis() * u128::from(self.quiet);
            return Some(format!("the data path is stalled: it has not turned for {millis} ms"));
        }
        if self.quiet >= QUIET {
            self.lifeline.ring();
        }
        None
    }
}

/// When to start shaping again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    /// When shaping began to be in force.
    since: Instant,
    /// The pause before the next start.
    pause: Duration,
    /// When to try.
    due: Option<Instant>,
}

impl Recovery {
    pub fn new() -> Self {
        Self { since: Instant::now(), pause: Duration::ZERO, due: None }
    }

    /// It has failed; how long to wait.
    fn failed(&mut self) -> Duration {
        if self.since.elapsed() >= STEADY {
            self.pause = Duration::ZERO;
        }
        let pause = self.pause;
        self.pause = (self.pause * 2).clamp(PAUSE, LONGEST);
        self.due = Some(Instant::now() + pause);
        pause
    }
}

impl Daemon {
    /// Has the data path of a direction watched, from each start of it.
    pub(crate) fn guard(&mut self, at: usize) -> Result<(), DaemonError> {
        let (Some(watchdog), Some(shaping)) = (&self.watchdog, &self.directions[at].shaping) else { return Ok(()) };
        let lifeline = Box::new(shaping.lifeline().map_err(DaemonError::Serve)?);
        let _ = watchdog.orders.send(Order::Watch(at, lifeline));
        Ok(())
    }

    /// Has it left alone: before it is ended on purpose.
    pub(crate) fn unguard(&self, at: usize) {
        if let Some(watchdog) = &self.watchdog {
            let _ = watchdog.orders.send(Order::Leave(at));
        }
    }

    /// Does what the watchdog found necessary, and starts again what it gave up.
    pub(crate) fn heed(&mut self) {
        let Some(watchdog) = &self.watchdog else { return };
        watchdog.alive.fetch_add(1, Ordering::Relaxed);
        for report in watchdog.reports.try_iter().collect::<Vec<_>>() {
            match report {
                Report::Note(text) => self.say(&text),
                Report::Failed(at, why) => {
                    // Its thread may be stuck: this does not wait for it.
                    drop(self.directions[at].shaping.take());
                    self.status_cache = None;
                    self.outage(at, &why);
                }
            }
        }
        for at in 0..self.directions.len() {
            if self.directions[at].recovery.due.is_some_and(|due| due <= Instant::now()) {
                self.recover(at);
            }
        }
    }

    /// Traffic of a direction passes unshaped: says why, and when it is tried again.
    pub(crate) fn outage(&mut self, at: usize, why: &str) {
        let pause = self.directions[at].recovery.failed();
        self.trouble = Some(why.to_owned());
        service::notify(&format!("STATUS=not shaping: {why}"));
        let when = match pause.as_secs() {
            0 => "at once".to_owned(),
            seconds => format!("in {seconds} s"),
        };
        self.say(&format!("{why}; traffic passes unshaped; starting again {when}"));
    }

    fn recover(&mut self, at: usize) {
        self.directions[at].recovery.due = None;
        match self.restart(at) {
            Ok(()) => {
                self.directions[at].recovery.since = Instant::now();
                self.status_cache = None;
                if self.directions.iter().all(|direction| direction.shaping.is_some()) {
                    let was = self.trouble.take().unwrap_or_default();
                    service::notify(&format!("STATUS=shaping {}", self.interface()));
                    self.say(&format!("shaping {} is in force again, after: {was}", self.interface()));
                }
            }
            Err(error) => self.outage(at, &error.to_string()),
        }
    }
}

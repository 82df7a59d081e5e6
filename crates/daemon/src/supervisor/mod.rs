//! [`Supervisor`]: starts and watches the data paths, and restarts what fails.
//!
//! It reacts to what the watchdog reports, to rules that were changed, to traffic that bypasses the queue, and to
//! interfaces that vanish, return and are renamed.

mod inspect;
mod links;
mod watchdog;

use std::time::{Duration, Instant};

use tidegate_live::bypass::Bypass;
use tidegate_live::guardian::Condition;
use tidegate_live::rtnl::LinkMonitor;
use tidegate_live::shaping::{Options, StartError, Successor};

use crate::directions::{ShapedDirection, interface};
use crate::notifier::Notifier;
use crate::promises::Promises;
use crate::reservations::Reservations;
use crate::service;
use crate::telemetry::observer::Health;
use watchdog::{Report, Watchdog};

/// The first pause before shaping is started again, after shaping that lasted for less than [`STEADY`].
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);
/// Shaping that lasted for this long begins again without a pause.
const STEADY: Duration = Duration::from_secs(60);
/// The interval at which the rules are read back.
const INSPECT: Duration = Duration::from_secs(2);

/// Grants beside the configuration, which are made again in a data path that was started again.
pub(crate) struct Grants<'a> {
    pub promises: &'a mut Promises,
    pub reservations: &'a mut Reservations,
    pub notifier: &'a Notifier,
}

/// The state of all supervision.
pub(crate) struct Supervisor {
    options: Options,
    watchdog: Watchdog,
    monitor: Option<LinkMonitor>,
    /// The interfaces with their indices, by which they are identified when they are renamed.
    links: Vec<(String, Option<u32>)>,
    above: links::Above,
    inspected: Instant,
    started: Instant,
    /// Why shaping is not in force, if it is not.
    trouble: Option<String>,
    /// Another process waits to take over.
    successor: bool,
    /// One for each direction.
    states: Vec<PathState>,
}

/// The state of the data path of a direction.
#[derive(Debug)]
struct PathState {
    recovery: Recovery,
    /// The message that was logged when a probe did not come through.
    unproven: Option<String>,
    /// The interface of which most packets bypass the queue, and the message that was logged about it.
    bypass: Vec<(String, String)>,
    /// The links that carry packets past the rules, for each interface, as they were reported.
    bypasses: Vec<Bypass>,
    /// Its rules could not be read back, which was logged.
    unreadable: bool,
    /// The packets that the kernel dropped while they waited, as logged last.
    kernel_drops: inspect::KernelDrops,
}

/// When to start shaping again.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// When shaping was put in force.
    since: Instant,
    /// The pause before the next start.
    pause: Duration,
    /// The time of the next start.
    due: Option<Instant>,
}

impl Recovery {
    fn new() -> Self {
        Self { since: Instant::now(), pause: Duration::ZERO, due: None }
    }

    /// Shaping has failed. Returns the time until the next start.
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

impl Supervisor {
    /// Begins to supervise data paths that were started with `options`.
    ///
    /// # Errors
    /// When the thread of the watchdog cannot be started.
    pub fn start(directions: &[ShapedDirection], options: Options) -> std::io::Result<Self> {
        let state = |direction: &ShapedDirection| PathState {
            recovery: Recovery::new(),
            unproven: None,
            bypass: Vec::new(),
            bypasses: direction.shaping().map_or_else(Vec::new, |shaping| shaping.bypasses().to_vec()),
            unreadable: false,
            kernel_drops: inspect::KernelDrops::default(),
        };
        let supervisor = Self {
            options,
            watchdog: Watchdog::start()?,
            monitor: LinkMonitor::open().ok(),
            links: links::of(directions),
            above: links::Above::default(),
            inspected: Instant::now(),
            started: Instant::now(),
            trouble: None,
            successor: false,
            states: directions.iter().map(state).collect(),
        };
        for (index, direction) in directions.iter().enumerate() {
            supervisor.watch(index, direction);
        }
        Ok(supervisor)
    }

    /// Whether another process waits to take over.
    pub fn has_successor(&self) -> bool {
        self.successor
    }
    /// Since the start.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
    /// The state of `interface` as others report it.
    pub fn health<'a>(&'a self, interface: &'a str) -> Health<'a> {
        Health { interface, started: self.started, trouble: self.trouble.as_deref() }
    }

    /// Everything that is due. Called with every tick.
    pub fn tick(&mut self, directions: &mut [ShapedDirection], grants: &mut Grants<'_>) {
        self.follow_links(directions, grants);
        self.handle_reports(directions, grants);
        for direction in directions.iter_mut() {
            match direction.tend_guardian() {
                Condition::Watching => {}
                Condition::Successor => self.successor = true,
                Condition::Restarted(why) => {
                    grants.notifier.log(&format!("{}: a new guardian was started: {why}", direction.name));
                }
                Condition::Missing(why) => {
                    let text = "the packets that it holds are lost if this process ends unexpectedly";
                    grants.notifier.log(&format!("{}: there is no guardian: {why}; {text}", direction.name));
                }
            }
        }
        directions.iter_mut().for_each(ShapedDirection::note_progress);
        for index in 0..directions.len() {
            self.prove(directions, grants.notifier, index);
        }
        if self.inspected.elapsed() >= INSPECT {
            self.inspected = Instant::now();
            for index in 0..directions.len() {
                self.inspect(directions, grants, index);
            }
            self.follow_stacks(directions, grants.notifier);
        }
    }

    /// Ends the shaping of a direction and starts it again, with its promises and reservations.
    ///
    /// # Errors
    /// When it does not start; traffic passes unshaped then.
    fn restart(
        &mut self,
        directions: &mut [ShapedDirection],
        grants: &mut Grants<'_>,
        index: usize,
    ) -> Result<(), StartError> {
        self.watchdog.unwatch(index);
        directions[index].leave(Successor::Ready);
        directions[index].prepare_again(&self.options)?;
        // Before it takes over packets, of which those of a flow with a promise would otherwise be queued without it.
        grants.promises.reinstate(directions, grants.notifier, index);
        grants.reservations.reinstate(directions, grants.notifier, index);
        directions[index].begin()?;
        directions[index].prove()?;
        // Whether traffic bypasses the queue is for the new data path to find out.
        for (_, text) in self.states[index].bypass.drain(..) {
            self.trouble.take_if(|trouble| *trouble == text);
        }
        self.watch(index, &directions[index]);
        grants.notifier.attach(index, &directions[index])
    }

    /// Has the watchdog watch the data path of a direction no longer, before that is ended on purpose.
    pub fn unwatch(&self, index: usize) {
        self.watchdog.unwatch(index);
    }

    /// Has the watchdog watch the data path of a direction.
    pub fn watch(&self, index: usize, direction: &ShapedDirection) {
        if let Some(shaping) = direction.shaping() {
            self.watchdog.watch(index, shaping.watchdog_handle());
        }
    }

    /// Handles what the watchdog found, and starts again what has failed.
    fn handle_reports(&mut self, directions: &mut [ShapedDirection], grants: &mut Grants<'_>) {
        for report in self.watchdog.reports() {
            match report {
                // Each direction has a data path and a guardian of its own.
                Report::Note(index, text) if directions.len() > 1 => {
                    grants.notifier.log(&format!("{}: {text}", directions[index].name));
                }
                Report::Note(_, text) => grants.notifier.log(&text),
                Report::Failed(index, why) => {
                    // Its thread may be stuck: this does not wait for it for long.
                    directions[index].leave(Successor::Later);
                    self.outage(grants.notifier, index, &why);
                }
            }
        }
        for index in 0..directions.len() {
            if self.states[index].recovery.due.is_some_and(|due| due <= Instant::now()) {
                self.recover(directions, grants, index);
            }
        }
    }

    /// Logs that traffic of a direction passes unshaped, and schedules the next start.
    fn outage(&mut self, notifier: &Notifier, index: usize, why: &str) {
        let pause = self.states[index].recovery.failed();
        self.trouble = Some(why.to_owned());
        service::notify(&format!("STATUS=not shaping: {why}"));
        let when = match pause.as_secs() {
            0 => "now".to_owned(),
            seconds => format!("in {seconds} s"),
        };
        notifier.log(&format!("{why}; traffic passes unshaped; the next start is tried {when}"));
    }

    fn recover(&mut self, directions: &mut [ShapedDirection], grants: &mut Grants<'_>, index: usize) {
        self.states[index].recovery.due = None;
        match self.restart(directions, grants, index) {
            Ok(()) => {
                self.states[index].recovery.since = Instant::now();
                if directions.iter().all(|direction| direction.shaping().is_some()) {
                    let was = self.trouble.take().unwrap_or_default();
                    let interface = interface(directions);
                    service::notify(&format!("STATUS=shaping {interface}"));
                    grants.notifier.log(&format!("shaping {interface} is in force again, after: {was}"));
                }
            }
            Err(error) => self.outage(grants.notifier, index, &error.to_string()),
        }
    }
}

//! A data path whose packets are scheduled outside of this process: the thread that mirrors the counters of the scheduler in an
//! engine, and answers the control plane from it.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use tidegate_config::shaper::{Config, DataPath};
use tidegate_engine::Engine;
use tidegate_units::{Instant, Span};

use super::backend::{OffloadBackend, OffloadCounters};
use super::command::{Command, LiveEngine, VerdictSink, WorkerCounts};
use super::departures::Departures;
use super::error::{StartError, system};
use super::interfaces::{InterfaceCounters, InterfaceCounts};
use super::options::Options;
use super::prove::VERSIONS;
use super::running::{Beginning, Running};
use super::thread::PathThread;
use super::watchdog::WorkerState;
use super::{Beside, Shaping};
use crate::guardian::{LONGEST_WAIT, Page};
use crate::netlink::Error;
use crate::timing::{self, Priority, Readiness, Waiter, Woken};

/// How often flows are read while some are watched.
const LOOK: Span = Span::from_millis(10);
/// How often events of feedback are looked for while somebody listens to them.
const EVENTS: Span = Span::from_millis(2);

/// A backend, or why there is none although one would be preferred.
type Choice = (Option<Box<dyn OffloadBackend>>, Option<StartError>);

/// The number of schedulers that are being made ready.
pub(super) fn loading(options: &Options) -> usize {
    options.offload.as_ref().map_or(0, |provider| provider.loading())
}

/// The backend of a data path that is to be in the kernel; without one, why packets are queued here although the kernel would
/// be preferred.
///
/// # Errors
/// Why it cannot be in the kernel, where it must.
pub(super) fn choose(config: &Config, options: &Options) -> Result<Choice, StartError> {
    let wanted = options.data_path.unwrap_or(config.interface.data_path);
    // Who has no such schedulers does not ask for one.
    if wanted == DataPath::UserSpace || wanted == DataPath::Auto && options.offload.is_none() {
        return Ok((None, None));
    }
    match (take(config, options, wanted), wanted) {
        (Ok(backend), _) => Ok((Some(backend), None)),
        (Err(error), DataPath::Auto) => Ok((None, Some(error))),
        (Err(error), _) => Err(error),
    }
}

/// A backend in the kernel for `config`, which asks for one by `wanted`.
///
/// # Errors
/// Why there is none: for [`DataPath::Auto`] also what would be lost without a word.
pub(super) fn take(
    config: &Config,
    options: &Options,
    wanted: DataPath,
) -> Result<Box<dyn OffloadBackend>, StartError> {
    let lacks = |what: &str| Err(StartError::NotInKernel { what: what.into() });
    if options.recorder.is_some() {
        return lacks("recording");
    }
    if wanted == DataPath::Auto && options.guardian.as_ref().is_some_and(|guardian| guardian.take_over) {
        return lacks("to hand promises over to the next run (--hand-over)");
    }
    match &options.offload {
        Some(provider) => {
            let mut config = config.clone();
            config.interface.data_path = wanted;
            if config.interface.threads > 1 && !options.interfaces.is_empty() {
                // How many queues it has is to be looked up.
                config.interface.names.clone_from(&options.interfaces);
            }
            provider.take(&config)
        }
        None => Err(StartError::NoKernelProgram("no program was loaded for it at the start".into())),
    }
}

/// Whether packets must be queued in the kernel.
pub(super) fn must(config: &Config, options: &Options) -> bool {
    options.data_path.unwrap_or(config.interface.data_path) == DataPath::Kernel
}

/// Starts a data path with this backend; `beside` one of this process, which has the lock of the interface, it is to be locked later.
///
/// # Errors
/// See [`StartError`]; nothing is left behind then.
pub(super) fn start(
    beginning: Beginning,
    config: &Config,
    options: &Options,
    backend: Box<dyn OffloadBackend>,
    beside: Beside,
) -> Result<Shaping, StartError> {
    let Beginning { found, mut setup, .. } = beginning;
    let direction = config.interface.direction;
    let (mut counters, interfaces) = InterfaceCounters::new(direction, &found, 1);
    let mut engine = Engine::new(config, &setup, timing::now())?;
    if let Some(numbers) = &mut setup.names.interfaces {
        *numbers = backend.interfaces(config)?;
    }
    let class_names = engine.class_names().to_vec();
    let page = Page::create().map_err(system("share memory"))?;
    let state = Arc::new(WorkerState::new(Arc::new(page), true));
    let (config, threads, locks) = (config.clone(), Vec::new(), Vec::new());
    let departures = Departures::default();
    let mut running = Running { interfaces, direction, threads, class_names, config, setup, locks, departures };
    if beside == Beside::Nothing {
        running.lock()?;
    }
    // From here on a failure drops the backend, which gives the interface its default discipline, and after it the lock.
    let mut backend = backend;
    let warnings = backend.attach(&found, &running.config, &running.setup)?;
    engine.expect_packets_of(backend.longest_packet());
    let (offload, counters, of_thread, marks) =
        (backend.counters(), counters.remove(0), Arc::clone(&state), options.marks);
    let run = move |commands, waker, ready: &_| {
        let sink = VerdictSink::new(marks, Arc::clone(&counters), timing::now());
        Mirror { engine, offload, sink, commands, waker, state: of_thread, counters }.run(ready)
    };
    let (thread, readiness) = PathThread::start(state, run)?;
    running.threads.push(thread);
    let (named, options) = (!options.interfaces.is_empty(), options.clone());
    Ok(Shaping {
        running,
        backend,
        readiness,
        warnings,
        bypasses: Vec::new(),
        named,
        options,
        copies: Default::default(),
        awaited: None,
    })
}

/// The thread.
struct Mirror {
    engine: LiveEngine,
    offload: Box<dyn OffloadCounters>,
    sink: VerdictSink,
    commands: Receiver<Command>,
    waker: UnixStream,
    state: Arc<WorkerState>,
    counters: Arc<InterfaceCounters>,
}

impl Mirror {
    /// Runs until [`Command::Stop`].
    fn run(mut self, ready: &Sender<Readiness>) -> Result<WorkerCounts, Error> {
        self.state.set_thread();
        // Nothing waits for this thread but the control plane.
        let _ = ready.send(timing::prepare_thread(Priority::Normal));
        let (waiter, mut turns) = (Waiter::new(Span::ZERO), 0);
        loop {
            // Whoever watches flows waits for their changes.
            let until = timing::now() + if self.engine.next_poll().is_some() { LOOK } else { LONGEST_WAIT };
            self.sleep(&waiter, until)
                .map_err(|source| Error::System { operation: "wait for a command".into(), source })?;
            let mut bytes = [0; 64];
            while (&self.waker).read(&mut bytes).is_ok_and(|n| n == bytes.len()) {}
            self.state.page.beat();
            turns += 1;
            if self.state.is_abandoned() {
                return Ok(self.counts(turns));
            }
            self.offload.renew();
            let now = timing::now();
            // Reservations may have expired.
            self.hand_over(now);
            self.read(now);
            loop {
                match self.commands.try_recv() {
                    Ok(Command::Do(work)) => {
                        work(&mut self.engine, now, &mut self.sink);
                        if self.hand_over(now) {
                            self.read(now);
                        }
                    }
                    Ok(Command::Listen(listener)) => self.sink.listen(listener),
                    Ok(Command::Count(to)) => drop(to.send(self.counts(turns))),
                    Ok(Command::Pass(done)) => drop(done.send(())),
                    // No packet comes here.
                    Ok(Command::Groups(_) | Command::Watch(..) | Command::Observe(_) | Command::Leave(..)) => {}
                    Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                        self.read(now);
                        return Ok(self.counts(turns));
                    }
                    Err(TryRecvError::Empty) => break,
                }
            }
        }
    }

    /// Hands promises and reservations that have changed to the scheduler; returns whether there are any.
    fn hand_over(&mut self, now: Instant) -> bool {
        let promises = self.engine.offload_promises(now, &mut *self.offload);
        let reservations = self.engine.offload_reservations(now, &mut *self.offload, &mut self.sink);
        let mut any = false;
        for (what, outcome) in [("promises", promises), ("reservations", reservations)] {
            match outcome {
                Ok(changed) => any |= changed,
                // They were checked before they were handed in.
                Err(why) => self.state.note(format!("the {what} are not in force in the kernel: {why}")),
            }
        }
        any
    }

    /// Waits for a command, an event that somebody listens to, or until `until`.
    fn sleep(&self, waiter: &Waiter, until: Instant) -> io::Result<()> {
        loop {
            let listens = self.offload.feeds_back() && tidegate_engine::Sink::wants_notifications(&self.sink);
            let next = if listens { until.min(timing::now() + EVENTS) } else { until };
            let woken = waiter.wait(&[&self.waker.as_fd()], Some(next))?;
            if woken != Woken::Deadline || next == until || self.offload.has_events() {
                return Ok(());
            }
        }
    }

    /// Reads the counters of the scheduler.
    fn read(&mut self, now: Instant) {
        tidegate_engine::Sink::set_time(&mut self.sink, now);
        self.engine.mirror(now, &mut *self.offload, &mut self.sink);
        let (sent, dropped, line) = (self.engine.sent(), self.engine.dropped(), self.engine.line());
        let all =
            InterfaceCounts { sent_packets: sent.packets, sent_bytes: line.packets.as_u64(), dropped_packets: dropped };
        let mut each = self.offload.interfaces();
        if each.is_empty() {
            each.push(all);
        }
        let sent: Vec<_> = VERSIONS.into_iter().filter(|version| self.offload.has_sent(*version)).collect();
        for (at, one) in (0..).zip(each) {
            self.counters.set(at, one.sent_packets, one.sent_bytes, one.dropped_packets);
            // By which of several interfaces the packets of a protocol have left is not counted.
            sent.iter().filter(|_| one.sent_packets > 0).for_each(|version| self.counters.note(at, *version));
        }
    }

    fn counts(&self, turns: u64) -> WorkerCounts {
        WorkerCounts {
            passed: self.engine.sent().packets,
            refused: self.engine.dropped(),
            turns,
            usage: timing::thread_usage(),
            ..WorkerCounts::default()
        }
    }
}

//! Shaping interfaces: the engine behind a packet queue, verified to be in force.
//!
//! One data path shapes what leaves, or arrives, by one or by several interfaces: rules for each of them lead to one queue,
//! and one engine has the classes and the total. A packet of any of them is the next to leave as if there were one.
//!
//! [`Shaping::start`] binds the queues, starts the data path on a thread of its own, installs the rules, and then
//! verifies the result: it reads the rules back and sends a probe of each class in each protocol through the interface,
//! which must arrive from the queue in that class. Only then does it return.
//!
//! Arriving packets pass the same engine ([`Direction::Ingress`]): a queued packet has used the line already, so that
//! the rate must be below the line's for the queue to build up here. The kernel's receive offload joins segments on
//! arrival; such a superpacket is segmented where it would take longer than
//! [`LONGEST_WHOLE`](tidegate_engine::schedule::LONGEST_WHOLE), in the same way as a departing one, and its segments
//! are forwarded separately.
//!
//! Traffic passes even if the process fails: the rules let packets pass when the queue is not served, and a queue that
//! overflows lets them pass too. An orderly stop sends every verdict first.

mod change;
mod coverage;
mod error;
mod find;
mod guard;
mod held;
#[cfg(debug_assertions)]
mod injection;
mod interfaces;
pub mod kernel;
mod options;
mod owners;
mod prove;
mod watchdog;
mod worker;

use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate_config::shaper::Config;
use tidegate_core::Event;
use tidegate_engine::guard::lock;
use tidegate_engine::{ClassStatus, Engine, NotificationKind, Setup};
use tidegate_units::Instant;

use crate::guardian::{Guardian, Page, Turn};
use crate::netlink;
use crate::nfqueue::{self, QueueReport, QueueSettings, QueueSocket, Superpackets};
use crate::probe::{Inspection, inspect};
use crate::rtnl::Rtnl;
use crate::rules::{self, Direction, Installed, Rules, Spec};
use crate::timing::{self, Readiness};

pub use coverage::Coverage;
pub use error::{StartError, Unproven};
pub use guard::{Inherited, Successor};
#[cfg(debug_assertions)]
pub use injection::{Fault, Injection};
pub use interfaces::{InterfaceCounts, Proof, ShapedInterface};
pub use options::{MakeRecorder, Options, RecorderFactory};
pub use owners::{known_owners, user_number};
pub use watchdog::WatchdogHandle;
use watchdog::WorkerState;
pub use worker::{Handle, Listener, LiveEngine, VerdictSink, WorkerCounts};

use error::{is_permission, no_queue, permission, system};
use find::{check_bypass, find, find_some, wanted};
use interfaces::InterfaceCounters;
use owners::resolve;
use worker::{Command, PathParts, Worker};

/// How long the data path may take to reply to the control plane.
const ANSWER: Duration = Duration::from_secs(10);
/// How often a thread that waits for a reply checks whether the data path has been abandoned.
const LOOK: Duration = Duration::from_millis(50);
/// How long the thread of the data path may take to start on a busy machine; one that ends instead is noticed at once.
const START: Duration = Duration::from_secs(20);
/// The queue numbers that are tried.
const QUEUES: std::ops::Range<u16> = 7_400..7_600;

/// Interfaces that are being shaped together, in one direction. Dropping it stops shaping in order.
pub struct Shaping {
    interfaces: Vec<ShapedInterface>,
    direction: Direction,
    rules: Option<Rules>,
    installed: Option<Installed>,
    /// The data path in the kernel, which has neither rules nor queues here.
    kernel: Option<kernel::KernelPath>,
    queues: [u16; 2],
    commands: Sender<Command>,
    waker: UnixStream,
    state: Arc<WorkerState>,
    worker: Option<JoinHandle<Result<WorkerCounts, netlink::Error>>>,
    reports: Vec<QueueReport>,
    readiness: Readiness,
    warnings: Vec<String>,
    may_be_bypassed: bool,
    retry: prove::Retry,
    class_names: Vec<String>,
    /// The configuration in force.
    config: Config,
    setup: Setup,
    spec: Spec,
    /// The control groups of all tags since the start, by tag.
    groups: Vec<u64>,
    /// Whether the options and not the configuration name the interfaces.
    named: bool,
    guardian: Option<Guardian>,
    /// Why there is no guardian, although one was asked for.
    unguarded: Option<String>,
}

impl Shaping {
    /// Starts to shape packets that leave or arrive by the interfaces, in the network namespace of the calling thread.
    /// Takes over what an earlier shaper has left to its guardian.
    ///
    /// # Errors
    /// See [`StartError`]; no rule and no thread remains then.
    pub fn start(config: &Config, options: &Options) -> Result<Self, StartError> {
        for name in wanted(config, options)? {
            find(&name)?;
        }
        Self::start_from(config, options, None)
    }

    /// As [`start`](Self::start), from what an earlier data path of this process has left: nothing is lost or reordered
    /// between the two. Of several interfaces some may be missing: they are shaped once they return.
    ///
    /// # Errors
    /// See [`StartError`]; packets pass unshaped then.
    pub fn start_from(config: &Config, options: &Options, left: Option<Inherited>) -> Result<Self, StartError> {
        let (discipline, elsewhere) = kernel::choose(config, options)?;
        if let Some(discipline) = discipline {
            return Self::start_in_kernel(config, options, discipline);
        }
        let names = wanted(config, options)?;
        let direction = config.interface.direction;
        let found = find_some(&names)?;
        let (mut warnings, mut may_be_bypassed) = (Vec::from_iter(elsewhere), false);
        for index in found.iter().filter_map(|(_, index)| *index) {
            let (of_one, may_be) = check_bypass(index, direction)?;
            warnings.extend(of_one);
            may_be_bypassed |= may_be;
        }
        let (counters, interfaces) = InterfaceCounters::new(direction, &found);
        let (owners, tags, groups) = resolve(config, Vec::new())?;
        let secret = match options.secret {
            Some(secret) => secret,
            None => random()?,
        };
        let setup = Setup { seed: secret[0], secret, catch_up: options.catch_up, names: owners };
        let now = timing::now();
        let mut engine = Engine::new(config, &setup, now)?;
        if let Some(RecorderFactory(make)) = &options.recorder {
            engine.set_recorder(make(config, &setup, now));
        }
        let class_names = engine.class_names().to_vec();
        let spare_setup = setup.clone();
        let mut settings = QueueSettings::default();
        settings.copy_range = options.copy_range.unwrap_or(settings.copy_range);
        let left = match left {
            None => Inherited::find(options, &names, direction)?,
            left => left,
        };
        let (socket, queues, reports) = match &left {
            Some(left) => left.queues(&settings)?,
            None => bind(&settings)?,
        };
        let (commands, inbox) = mpsc::channel();
        let (waker, woken) = UnixStream::pair().map_err(system("make a pair of sockets"))?;
        for end in [&waker, &woken] {
            end.set_nonblocking(true).map_err(system("make a socket nonblocking"))?;
        }
        let page = match &left {
            Some(left) => left.page(),
            None => Arc::new(Page::create().map_err(system("share memory with the guardian"))?),
        };
        let state = Arc::new(WorkerState::new(page));
        let matched = found.into_iter().map(|(name, index)| rules::Interface { name, index: index.unwrap_or(0) });
        let spec =
            Spec { interfaces: matched.collect(), direction, marks: options.marks, tags, ..Spec::new("", queues[0]) };
        // A guardian serves the queue of what was left; otherwise the data path must, before packets are led there.
        let adopted = left.as_ref().map(|left| left.rules(&spec)).transpose()?;
        *lock(&state.releaser) = Some(socket.releaser(queues).map_err(system("share the queue socket"))?);
        let parts = PathParts {
            socket,
            copy_range: settings.copy_range,
            whole: queues[0],
            cut: queues[1],
            marks: options.marks,
            groups: groups.clone(),
            commands: inbox,
            waker: woken,
            quantum: options.quantum,
            spin: options.spin,
            priority: options.priority,
            patient: options.catch_up_normal,
            #[cfg(debug_assertions)]
            inject: options.inject,
            state: Arc::clone(&state),
            counters,
            left: left.as_ref().map(Inherited::list),
        };
        let worker = Worker { engine, parts };
        let (worker, readiness) = start_worker(move |ready| worker.run(ready))?;
        let mut shaping = Self {
            interfaces,
            direction,
            rules: None,
            installed: None,
            kernel: None,
            queues,
            commands,
            waker,
            state,
            worker: Some(worker),
            reports,
            readiness,
            warnings,
            may_be_bypassed,
            retry: prove::Retry::start(),
            class_names,
            config: config.clone(),
            setup: spare_setup,
            spec,
            groups,
            named: !options.interfaces.is_empty(),
            guardian: None,
            unguarded: None,
        };
        // From here on a failure drops `shaping`, which stops the data path and removes the rules.
        let rules = match adopted {
            Some(rules) => rules,
            None => Rules::install(&shaping.spec).map_err(permission)?,
        };
        shaping.installed = Some(rules.installed().clone());
        // With the lock of the interface no other instance has one there.
        shaping.warnings.extend(shaping.remove_left_in_kernel());
        shaping.rules = Some(rules);
        shaping.guard(options.guardian.as_ref(), left);
        shaping.prove(config)?;
        Ok(shaping)
    }

    /// Reads the rules and the queues back.
    pub fn inspect(&mut self) -> Result<Inspection, netlink::Error> {
        let (queues, kernel) = (self.queues, self.kernel.as_ref());
        match &mut self.rules {
            Some(rules) => inspect(rules, &queues),
            None => {
                let difference = kernel.map_or(Ok(None), kernel::KernelPath::difference)?;
                Ok(Inspection { differences: Vec::from_iter(difference), queues: Vec::new() })
            }
        }
    }

    /// The interfaces, in the order of the configuration.
    pub fn interfaces(&self) -> &[ShapedInterface] {
        &self.interfaces
    }
    /// Notes that interface `name` has vanished; its rules remain. See [`follow`](Self::follow) for its return.
    pub fn vanished(&mut self, name: &str) {
        let interface = self.interfaces.iter_mut().find(|interface| interface.name() == name);
        interface.into_iter().for_each(|interface| interface.set_index(None));
    }
    /// The names of the interfaces, for people.
    pub fn interface(&self) -> String {
        self.interfaces.iter().map(ShapedInterface::name).collect::<Vec<_>>().join(" + ")
    }
    /// Whether departing or arriving packets are shaped.
    pub fn direction(&self) -> Direction {
        self.direction
    }
    /// How the rules were installed.
    pub fn installed(&self) -> Option<&Installed> {
        self.installed.as_ref()
    }
    /// The result of each setting of the queues.
    pub fn queue_reports(&self) -> &[QueueReport] {
        &self.reports
    }
    /// The privileges that the system granted to the data path.
    pub fn readiness(&self) -> &Readiness {
        &self.readiness
    }
    /// Mechanisms that may carry packets past the rules.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
    /// Whether a flow table may take forwarded packets past the rules, which a probe does not show.
    pub fn may_be_bypassed(&self) -> bool {
        self.may_be_bypassed
    }
    /// The names of the classes.
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }
    /// The number of turns of the data path so far.
    pub fn heartbeat(&self) -> u64 {
        self.state.page.beats()
    }

    /// A handle for the watchdog's thread, which lets traffic pass when the data path has stopped.
    pub fn watchdog_handle(&self) -> WatchdogHandle {
        WatchdogHandle { state: Arc::clone(&self.state) }
    }

    /// Calls `work` with the engine, between two packets, and returns its result.
    ///
    /// # Errors
    /// [`StartError::DataPath`] when the data path has ended or does not answer.
    pub fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LiveEngine, Instant) -> T + Send + 'static,
    ) -> Result<T, StartError> {
        self.change(move |engine, now, _| work(engine, now))
    }

    /// As [`with`](Self::with), for work that may release packets.
    ///
    /// # Errors
    /// [`StartError::DataPath`] when the data path has ended or does not answer.
    pub fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LiveEngine, Instant, &mut VerdictSink) -> T + Send + 'static,
    ) -> Result<T, StartError> {
        let (reply, answer) = mpsc::channel();
        self.send(Command::Do(Box::new(move |engine, now, sink| {
            let _ = reply.send(work(engine, now, sink));
        })))?;
        self.receive(&answer)
    }

    /// The classes with their counts so far.
    pub fn status(&self) -> Result<Vec<ClassStatus>, StartError> {
        self.with(|engine, _| engine.status())
    }
    /// The counters of the data path.
    pub fn counts(&self) -> Result<WorkerCounts, StartError> {
        let (reply, answer) = mpsc::channel();
        self.send(Command::Count(reply))?;
        self.receive(&answer)
    }
    /// Calls `listener` with every notification of flows from now on, on the data path's own thread: it must return at
    /// once.
    pub fn listen(&self, listener: Listener) -> Result<(), StartError> {
        self.send(Command::Listen(listener))
    }

    /// Every event from now on, in an unbounded channel.
    pub fn events(&self) -> Result<Receiver<Event>, StartError> {
        let (to, events) = mpsc::channel();
        self.listen(Box::new(move |_, notification| match notification.kind {
            NotificationKind::Event(event) => to.send(event).is_ok(),
            _ => true,
        }))?;
        Ok(events)
    }

    /// Stops shaping: queued packets are released in order, later ones pass at once, then the rules are removed.
    ///
    /// # Errors
    /// When the rules could not be removed, or the data path had failed before.
    pub fn stop(mut self) -> Result<WorkerCounts, StartError> {
        self.end()
    }

    fn end(&mut self) -> Result<WorkerCounts, StartError> {
        if let Some(path) = self.kernel.take() {
            return self.end_in_kernel(&path);
        }
        if self.state.is_abandoned() {
            return self.abandon();
        }
        // The kernel drops queued packets when a chain with a queue is deleted.
        let closed = if self.pass() { Ok(()) } else { self.close() };
        nfqueue::wait_for_processors();
        let removed = self.rules.take().map(Rules::remove);
        let _ = self.send(Command::Stop);
        let guardian = self.guardian.take();
        let ended = match self.worker.take().map(JoinHandle::join) {
            Some(Ok(counts)) => counts.map_err(StartError::Netlink),
            Some(Err(_)) => Err(StartError::DataPath("it panicked".into())),
            None => Ok(WorkerCounts::default()),
        };
        if let Some(guardian) = guardian {
            guardian.end();
        }
        if let Some(Err(error)) = removed {
            return Err(error.into());
        }
        closed.and(ended)
    }

    /// Stops shaping after a [`WatchdogHandle`] has abandoned the data path, without a command to a thread that may
    /// never receive it. The thread ends when it wakes.
    fn abandon(&mut self) -> Result<WorkerCounts, StartError> {
        drop(self.worker.take());
        let closed = self.close();
        let rules = self.rules.take();
        closed.and(rules.map_or(Ok(()), Rules::remove).map_err(StartError::from))?;
        if let Some(guardian) = self.guardian.take() {
            guardian.end();
        }
        Err(StartError::DataPath("it was given up".into()))
    }

    /// Has the data path list what it holds, and end. Returns the length of the list; 0 when there is none.
    fn list_held(&self, file: &Arc<fs::File>) -> u64 {
        if self.state.is_abandoned() || self.state.page.turn() != Turn::Shaper {
            return 0;
        }
        let (count, listed) = mpsc::channel();
        match self.send(Command::Leave(Arc::clone(file), count)) {
            Ok(()) => listed.recv_timeout(guard::LAST_TURN).unwrap_or(0),
            Err(_) => 0,
        }
    }

    /// Has the data path release every packet and end queueing; returns whether it has.
    fn pass(&self) -> bool {
        let (done, is_done) = mpsc::channel();
        self.send(Command::Pass(done)).is_ok() && self.receive(&is_done).is_ok()
    }

    /// Ends queueing in the place of the data path.
    fn close(&self) -> Result<(), StartError> {
        Ok(self.state.close()?)
    }

    /// Waits for a reply of the data path, on a machine that may be busy, unless the data path is abandoned.
    fn receive<T>(&self, answer: &Receiver<T>) -> Result<T, StartError> {
        let asked = std::time::Instant::now();
        loop {
            let why = match answer.recv_timeout(LOOK) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) if asked.elapsed() < ANSWER && !self.state.is_abandoned() => continue,
                Err(RecvTimeoutError::Timeout) => "it does not answer",
                Err(RecvTimeoutError::Disconnected) => "it is not running",
            };
            return Err(StartError::DataPath(why.into()));
        }
    }

    fn send(&self, command: Command) -> Result<(), StartError> {
        self.commands.send(command).map_err(|_| StartError::DataPath("it is not running".into()))?;
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        // A full pipe wakes it as well.
        let _ = (&self.waker).write(&[1]);
    }

    /// The traffic of each interface since its last measurement, once there is enough of it, with the place of the
    /// interface. To be called every second or two, in the network namespace of the interfaces.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn coverage(&mut self) -> Result<Vec<(usize, Coverage)>, netlink::Error> {
        let mut measured = Vec::new();
        // All that leaves passes the root of an interface.
        let all = if self.kernel.is_some() { 0 } else { self.interfaces.len() };
        for at in 0..all {
            measured.extend(self.coverage_of(at)?.map(|coverage| (at, coverage)));
        }
        Ok(measured)
    }

    fn coverage_of(&mut self, at: usize) -> Result<Option<Coverage>, netlink::Error> {
        // Traffic bypasses an abandoned data path, which has been reported.
        let interface = &mut self.interfaces[at];
        let link = Rtnl::open()?.link(interface.name())?.filter(|_| !self.state.is_abandoned());
        let Some(link) = link else {
            interface.coverage = coverage::Monitor::default();
            return Ok(None);
        };
        interface.set_index(Some(link.index));
        let carried = match self.direction {
            Direction::Ingress => link.statistics.rx_bytes,
            Direction::Egress => link.statistics.tx_bytes,
        };
        // Read after the interface's counters, so that packets in between count as come through. The reply also
        // confirms that the data path has received what came before.
        if self.counts().is_err() {
            // The watchdog reports a data path that does not reply.
            self.interfaces[at].coverage = coverage::Monitor::default();
            return Ok(None);
        }
        let interface = &mut self.interfaces[at];
        let waiting = if self.direction == Direction::Egress { interface.waiting_bytes() } else { 0 };
        let through = interface.received_bytes();
        Ok(interface.coverage.sample(std::time::Instant::now(), carried, through, waiting))
    }
}

impl Drop for Shaping {
    fn drop(&mut self) {
        if self.worker.is_some() {
            let _ = self.end();
        }
    }
}

/// Starts the thread of a data path, and waits until it is ready.
///
/// # Errors
/// When there is no thread to be had, or it ends before it is ready, or is not ready within [`START`].
fn start_worker(
    run: impl FnOnce(&Sender<Readiness>) -> Result<WorkerCounts, netlink::Error> + Send + 'static,
) -> Result<(JoinHandle<Result<WorkerCounts, netlink::Error>>, Readiness), StartError> {
    let (ready, is_ready) = mpsc::channel();
    let worker = thread::Builder::new()
        .name("tidegate".into())
        .spawn(move || run(&ready))
        .map_err(system("start the data path"))?;
    let readiness = is_ready.recv_timeout(START).map_err(|_| StartError::DataPath("it did not start".into()))?;
    Ok((worker, readiness))
}

/// Binds two neighbouring queues: in the first superpackets arrive whole, in the second the kernel segments them.
fn bind(settings: &QueueSettings) -> Result<(QueueSocket, [u16; 2], Vec<QueueReport>), StartError> {
    let mut socket = QueueSocket::open(64 << 20).map_err(|error| StartError::NoQueue(error.to_string()))?;
    let first = QUEUES.start + (std::process::id() % (u32::from(QUEUES.end - QUEUES.start) / 2)) as u16 * 2;
    let candidates = (first..QUEUES.end).chain(QUEUES.start..first).step_by(2);
    for queue in candidates {
        let cutting = QueueSettings { superpackets: Superpackets::Segmented, ..*settings };
        match socket.bind(queue, settings) {
            Ok(whole) => match socket.bind(queue + 1, &cutting) {
                Ok(cut) => return Ok((socket, [queue, queue + 1], vec![whole, cut])),
                Err(error) if is_permission(&error) => return Err(no_queue(error)),
                Err(_) => socket.unbind(queue)?,
            },
            // Another program serves it, or a privilege is missing: EPERM stands for both, so the next ones decide.
            Err(error) if error.errno() == Some(libc::EBUSY) => {}
            Err(error) => return Err(no_queue(error)),
        }
    }
    Err(StartError::NoQueue(format!("queues {} to {} are all taken", QUEUES.start, QUEUES.end - 1)))
}

fn random() -> Result<[u64; 2], StartError> {
    let mut bytes = [0; 16];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| io::Read::read_exact(&mut file, &mut bytes));
    read.map_err(system("draw random bytes"))?;
    let number = u128::from_ne_bytes(bytes);
    Ok([number as u64, (number >> 64) as u64])
}

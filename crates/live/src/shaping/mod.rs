//! Shaping an interface: the engine behind a packet queue, verified to be in force.
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
mod prove;
mod watchdog;
mod worker;

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate_config::shaper::Config;
use tidegate_config::values::User;
use tidegate_core::Event;
use tidegate_engine::{BuildFailure, ClassStatus, Engine, Names, NotificationKind, Recorder, Setup};
use tidegate_units::{Instant, Span};

use crate::bypass::{self, Takes};
use crate::marks::MarkLayout;
use crate::netlink;
use crate::netns;
use crate::nfqueue::{QueueReport, QueueSettings, QueueSocket, Superpackets};
use crate::probe::{Inspection, Version, inspect};
use crate::rtnl::Rtnl;
use crate::rules::{self, Direction, Installed, Rules, RulesError, Sender as PacketSender, Spec, TagRule};
use crate::timing::{self, Priority, Readiness};

pub use coverage::Coverage;
pub use prove::{Proof, Unproven};
pub use watchdog::{Fault, Injection, WatchdogHandle};
use watchdog::{SharedRules, WorkerState, lock};
pub use worker::{Handle, Listener, LiveEngine, VerdictSink, WorkerCounts};

use worker::{Command, PathParts, Received, Worker};

/// How long the data path may take to reply to the control plane.
const ANSWER: Duration = Duration::from_secs(10);
/// How often a thread that waits for a reply checks whether the data path has been abandoned.
const LOOK: Duration = Duration::from_millis(50);
/// How long the thread of the data path may take to start on a busy machine; one that ends instead is noticed at once.
const START: Duration = Duration::from_secs(20);
/// The queue numbers that are tried.
const QUEUES: std::ops::Range<u16> = 7_400..7_600;

/// Options of a run that are not part of the configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// The interface, in place of the configuration's.
    pub interface: Option<String>,
    /// The lateness of the process that is made up for: by default 5 ms, what a loaded machine needs with real-time
    /// scheduling.
    pub catch_up: Span,
    /// The same where the system does not grant real-time scheduling: by default 20 ms.
    pub catch_up_normal: Span,
    /// The longest time between two groups of departures: by default 50 µs, so that a fast link does not cost a wake-up
    /// for each packet; zero for the finest spacing.
    pub quantum: Span,
    /// How long before a deadline the thread spins instead of sleeping, which costs processor time. Zero: never.
    pub spin: Span,
    /// Whether to ask for real-time scheduling.
    pub priority: Priority,
    /// The bits of the firewall mark that may be used.
    pub marks: MarkLayout,
    /// The secret of flow keys; random if absent, given to make runs reproducible.
    pub secret: Option<[u64; 2]>,
    /// The bytes of each packet that the kernel copies: enough for headers, or all if payload is recorded.
    pub copy_range: Option<u32>,
    /// Makes the recorder of an engine before it runs.
    pub recorder: Option<RecorderFactory>,
    /// A fault to inject, to test that traffic passes nevertheless.
    pub inject: Option<Injection>,
}

/// Called for each engine before its first packet, with its configuration, its setup and the time.
pub type MakeRecorder = dyn Fn(&Config, &Setup, Instant) -> Option<Box<dyn Recorder>> + Send + Sync;

/// Makes recorders, which receive every call of the engine from the first on.
#[derive(Clone)]
pub struct RecorderFactory(pub Arc<MakeRecorder>);

impl std::fmt::Debug for RecorderFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecorderFactory")
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interface: None,
            catch_up: Span::from_millis(5),
            catch_up_normal: Span::from_millis(20),
            quantum: Span::from_micros(50),
            spin: Span::ZERO,
            priority: Priority::RealTime,
            marks: MarkLayout::default(),
            secret: None,
            copy_range: None,
            recorder: None,
            inject: None,
        }
    }
}

/// Why shaping is not in force.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Neither the configuration nor the command line names an interface.
    #[error("no interface is named; write `name` under [interface], or give --interface")]
    NoInterface,
    /// The interface does not exist.
    #[error("no interface is called `{name}` here; there are: {}", .known.join(", "))]
    UnknownInterface {
        /// The name that was given.
        name: String,
        /// The interfaces that exist.
        known: Vec<String>,
    },
    /// Packets of the interface belong to interfaces above it.
    #[error(
        "no packet has the interface {interface} here, only what stands above it: {above}; shape that: --interface {name}"
    )]
    Below {
        /// The name of the interface.
        interface: String,
        /// The interfaces above it.
        above: String,
        /// The one of them to shape.
        name: String,
    },
    /// A flow table forwards connections past all rules.
    #[error("forwarded packets would pass {interface} unshaped: {offload}; {remedy}")]
    Offloaded {
        /// The name of the interface.
        interface: String,
        /// The rule that puts connections into the flow table.
        offload: String,
        /// The suggested remedy.
        remedy: String,
    },
    /// The engine cannot be built.
    #[error(transparent)]
    Build(#[from] BuildFailure),
    /// The process lacks a privilege.
    #[error("not allowed to {operation}: run as root or with CAP_NET_ADMIN")]
    Permission {
        /// The operation that failed.
        operation: String,
    },
    /// The kernel has no queues for packets.
    #[error("this kernel has no NFQUEUE ({0}); it needs CONFIG_NETFILTER_NETLINK_QUEUE (module nfnetlink_queue)")]
    NoQueue(String),
    /// The rules could not be installed.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The kernel refused something.
    #[error(transparent)]
    Netlink(#[from] netlink::Error),
    /// The operating system refused something.
    #[error("cannot {operation}: {source}")]
    System {
        /// The operation that failed.
        operation: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The rules are installed, but probes do not come through the queue.
    #[error("shaping is NOT in force on {interface}: {}", prove::explain(.failures))]
    Unproven {
        /// The name of the interface.
        interface: String,
        /// The probes that failed.
        failures: Vec<Unproven>,
    },
    /// The configuration cannot be replaced by the other one.
    #[error("{0}")]
    Change(String),
    /// The data path ended before it answered.
    #[error("the data path ended: {0}")]
    DataPath(String),
}

/// An interface that is being shaped. Dropping it stops shaping in order.
pub struct Shaping {
    interface: String,
    index: u32,
    direction: Direction,
    received: Arc<Received>,
    rules: SharedRules,
    installed: Option<Installed>,
    queues: [u16; 2],
    commands: Sender<Command>,
    waker: UnixStream,
    state: Arc<WorkerState>,
    worker: Option<JoinHandle<Result<WorkerCounts, netlink::Error>>>,
    reports: Vec<QueueReport>,
    readiness: Readiness,
    warnings: Vec<String>,
    proof: Proof,
    retry: prove::Retry,
    class_names: Vec<String>,
    /// The configuration in force.
    config: Config,
    setup: Setup,
    spec: Spec,
    /// The control groups of all tags since the start, by tag.
    groups: Vec<u64>,
    /// Whether the options and not the configuration name the interface.
    named: bool,
    /// The counters of the interface and the queue at the last measurement.
    coverage: coverage::Monitor,
}

impl Shaping {
    /// Starts to shape packets that leave or arrive by the interface, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// See [`StartError`]; no rule and no thread remains then.
    pub fn start(config: &Config, options: &Options) -> Result<Self, StartError> {
        let interface =
            options.interface.clone().or_else(|| config.interface.name.clone()).ok_or(StartError::NoInterface)?;
        let direction = config.interface.direction;
        let index = find(&interface)?;
        let warnings = check_bypass(index, direction)?;
        let (names, tags, groups) = resolve(config, Vec::new())?;
        let secret = match options.secret {
            Some(secret) => secret,
            None => random()?,
        };
        let setup = Setup { seed: secret[0], secret, catch_up: options.catch_up, names };
        let now = timing::now();
        let mut engine = Engine::new(config, &setup, now)?;
        if let Some(RecorderFactory(make)) = &options.recorder {
            engine.set_recorder(make(config, &setup, now));
        }
        let class_names = engine.class_names().to_vec();
        let spare_setup = setup.clone();
        let mut settings = QueueSettings::default();
        settings.copy_range = options.copy_range.unwrap_or(settings.copy_range);
        let (socket, queues, reports) = bind(&settings)?;
        let (commands, inbox) = mpsc::channel();
        let (waker, woken) = UnixStream::pair().map_err(system("make a pair of sockets"))?;
        for end in [&waker, &woken] {
            end.set_nonblocking(true).map_err(system("make a socket nonblocking"))?;
        }
        let state = Arc::new(WorkerState::default());
        *lock(&state.releaser) = Some(socket.releaser().map_err(system("share the queue socket"))?);
        let received = Arc::new(Received::default());
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
            inject: options.inject,
            state: Arc::clone(&state),
            received: Arc::clone(&received),
        };
        let worker = Worker { engine, parts };
        let (ready, is_ready) = mpsc::channel();
        let worker = thread::Builder::new()
            .name("tidegate".into())
            .spawn(move || worker.run(&ready))
            .map_err(system("start the data path"))?;
        let readiness = is_ready.recv_timeout(START).map_err(|_| StartError::DataPath("it did not start".into()))?;
        let mut shaping = Self {
            interface: interface.clone(),
            index,
            direction,
            received,
            rules: Arc::new(Mutex::new(None)),
            installed: None,
            queues,
            commands,
            waker,
            state,
            worker: Some(worker),
            reports,
            readiness,
            warnings,
            proof: Proof::default(),
            retry: prove::Retry::start(),
            class_names,
            config: config.clone(),
            setup: spare_setup,
            spec: Spec { direction, marks: options.marks, tags, ..Spec::new(&interface, queues[0]) },
            groups,
            named: options.interface.is_some(),
            coverage: coverage::Monitor::default(),
        };
        // From here on a failure drops `shaping`, which stops the data path and removes the rules.
        let rules = Rules::install(&shaping.spec).map_err(permission)?;
        shaping.installed = Some(rules.installed().clone());
        *lock(&shaping.rules) = Some(rules);
        shaping.proof = shaping.prove(config, index)?;
        Ok(shaping)
    }

    /// Reads the rules and the queues back.
    pub fn inspect(&mut self) -> Result<Inspection, netlink::Error> {
        let queues = self.queues;
        match &mut *lock(&self.rules) {
            Some(rules) => inspect(rules, &queues),
            None => Ok(Inspection { differences: Vec::new(), queues: Vec::new() }),
        }
    }

    /// The name of the interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }
    /// The index of the interface, which stays the same when it is renamed.
    pub fn index(&self) -> u32 {
        self.index
    }
    /// Whether departing or arriving packets are shaped.
    pub fn direction(&self) -> Direction {
        self.direction
    }
    /// Whether a packet of `version`, other than a probe, has come through the queue.
    pub fn has_received(&self, version: Version) -> bool {
        self.received.has(version)
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
    /// What has been proven: at the start, and later by [`prove_again`](Self::prove_again).
    pub fn proof(&self) -> &Proof {
        &self.proof
    }
    /// The names of the classes.
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }
    /// The number of turns of the data path so far.
    pub fn heartbeat(&self) -> u64 {
        self.state.beats.load(Ordering::Relaxed)
    }

    /// A handle for the watchdog's thread, which lets traffic pass when the data path has stopped.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn watchdog_handle(&self) -> io::Result<WatchdogHandle> {
        let (state, rules) = (Arc::clone(&self.state), Arc::clone(&self.rules));
        Ok(WatchdogHandle { waker: self.waker.try_clone()?, state, rules })
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
        if self.state.is_abandoned() {
            return self.abandon();
        }
        // The kernel drops queued packets when a chain with a queue is deleted: release all packets, then bypass the
        // queue, and release those that arrived in between.
        self.pass();
        // If another process deleted the rules, their packets are lost already.
        let bypassed = lock(&self.rules).as_mut().map(Rules::bypass);
        if bypassed.is_some() {
            self.pass();
        }
        let removed = lock(&self.rules).take().map(Rules::remove);
        let _ = self.send(Command::Stop);
        let ended = match self.worker.take().map(JoinHandle::join) {
            Some(Ok(counts)) => counts.map_err(StartError::Netlink),
            Some(Err(_)) => Err(StartError::DataPath("it panicked".into())),
            None => Ok(WorkerCounts::default()),
        };
        if let Some(Err(error)) = removed {
            return Err(error.into());
        }
        ended
    }

    /// Stops shaping after a [`WatchdogHandle`] has abandoned the data path, without a command to a thread that may
    /// never receive it. The thread ends by itself when it wakes.
    fn abandon(&mut self) -> Result<WorkerCounts, StartError> {
        drop(self.worker.take());
        lock(&self.rules).take().map_or(Ok(()), Rules::remove)?;
        Err(StartError::DataPath("it was given up".into()))
    }

    /// Releases every packet that has arrived so far.
    fn pass(&self) {
        let (done, is_done) = mpsc::channel();
        if self.send(Command::Pass(done)).is_ok() {
            let _ = self.receive(&is_done);
        }
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
        // A full pipe wakes it as well.
        let _ = (&self.waker).write(&[1]);
        Ok(())
    }
}

impl Drop for Shaping {
    fn drop(&mut self) {
        if self.worker.is_some() {
            let _ = self.end();
        }
    }
}

fn system(operation: &str) -> impl FnOnce(io::Error) -> StartError {
    let operation = operation.into();
    move |source| StartError::System { operation, source }
}

/// Maps an error for want of a privilege to [`StartError::Permission`].
fn permission(error: RulesError) -> StartError {
    match error {
        RulesError::Netlink(error) if is_permission(&error) => {
            StartError::Permission { operation: "install packet filter rules".into() }
        }
        error => error.into(),
    }
}

fn is_permission(error: &netlink::Error) -> bool {
    matches!(error.errno(), Some(libc::EPERM | libc::EACCES))
}

fn find(interface: &str) -> Result<u32, StartError> {
    let mut rtnl = Rtnl::open()?;
    if let Some(link) = rtnl.link(interface)? {
        return Ok(link.index);
    }
    let known = rtnl.links()?.into_iter().map(|link| link.name).collect();
    Err(StartError::UnknownInterface { name: interface.into(), known })
}

/// Looks for what would carry packets past the rules of the interface; returns warnings for what may carry some of
/// them.
fn check_bypass(index: u32, direction: Direction) -> Result<Vec<String>, StartError> {
    let mut rtnl = Rtnl::open()?;
    let Some(link) = rtnl.link_by_index(index)? else { return Ok(Vec::new()) };
    let (interface, mut warnings) = (link.name.clone(), Vec::new());
    let stack = bypass::stack(&mut rtnl, &link)?;
    match stack.above.first() {
        Some(first) if stack.carries_all => {
            return Err(StartError::Below { interface, above: stack.names(), name: first.name.clone() });
        }
        Some(first) => warnings.push(format!(
            "packets of what stands above {interface} are not shaped here: {}; for these --interface {}",
            stack.names(),
            first.name
        )),
        None => {}
    }
    // Without the privilege to look, installing the rules fails with the reason.
    for offload in bypass::offloads(&link, direction).unwrap_or_default() {
        let (text, remedy) = (offload.to_string(), offload.remedy(&interface));
        match offload.takes {
            Takes::Yes => return Err(StartError::Offloaded { interface, offload: text, remedy }),
            Takes::Perhaps => {
                warnings.push(format!("{text}; where these are of {interface} they are not shaped: {remedy}"))
            }
            Takes::No => {}
        }
    }
    Ok(warnings)
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

fn no_queue(error: netlink::Error) -> StartError {
    if is_permission(&error) {
        StartError::Permission { operation: "bind a packet queue".into() }
    } else {
        StartError::NoQueue(error.to_string())
    }
}

type Resolved = (Names, Vec<TagRule>, Vec<u64>);

/// Looks up users and control groups of the rules. A control group becomes a tag before the queue, in the order of
/// the rules, so that of nested groups the one that is named first wins. Groups that have a tag keep it, because
/// packets on their way bear it.
fn resolve(config: &Config, mut groups: Vec<u64>) -> Result<Resolved, StartError> {
    let mut names = Names::default();
    let mut tags = Vec::new();
    let mut users: Option<HashMap<String, u32>> = None;
    for (at, rule) in config.rules.iter().enumerate() {
        for user in &rule.matches.users {
            if let User::Name(name) = user {
                let table = users.get_or_insert_with(passwd);
                if let Some(uid) = table.get(name) {
                    names.users.insert(name.clone(), netns::outside_uid(*uid).unwrap_or(*uid));
                }
            }
        }
        for path in &rule.matches.cgroups {
            if names.cgroups.contains_key(path) {
                continue;
            }
            let full = Path::new("/sys/fs/cgroup").join(path);
            let sender = rules::cgroup(&full).map_err(|error| BuildFailure::UnknownControlGroup {
                rule: at + 1,
                path: path.clone(),
                why: error.to_string(),
            })?;
            if let PacketSender::Cgroup { id, .. } = sender {
                let known = groups.iter().position(|group| *group == id);
                let tag = known.unwrap_or_else(|| {
                    groups.push(id);
                    groups.len() - 1
                });
                tags.push(TagRule { sender, tag: tag as u16 });
                names.cgroups.insert(path.clone(), id);
            }
        }
    }
    Ok((names, tags, groups))
}

/// Checks that all users and control groups that the rules name exist.
///
/// # Errors
/// The first one that does not, with its rule.
pub fn known_owners(config: &Config) -> Result<(), StartError> {
    let (names, ..) = resolve(config, Vec::new())?;
    BuildFailure::unknown_owner(config, &names).map_or(Ok(()), |failure| Err(failure.into()))
}

/// The uid of a local user.
pub fn user_number(name: &str) -> Option<u32> {
    passwd().get(name).copied()
}

/// The local users by name. Those of a directory service must be given by uid.
fn passwd() -> HashMap<String, u32> {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let entry = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((name, fields.nth(1)?.parse().ok()?))
    };
    text.lines().filter_map(entry).collect()
}

fn random() -> Result<[u64; 2], StartError> {
    let mut bytes = [0; 16];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| io::Read::read_exact(&mut file, &mut bytes));
    read.map_err(system("draw random bytes"))?;
    let number = u128::from_ne_bytes(bytes);
    Ok([number as u64, (number >> 64) as u64])
}

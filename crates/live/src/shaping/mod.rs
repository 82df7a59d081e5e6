//! Shaping an interface: the engine behind a queue, proven to be in force.
//!
//! [`Shaping::start`] binds the queues, starts the data path on a thread of its own, installs the rules, and then
//! proves what it did: it reads the rules back and sends a probe of each class in each protocol through the interface,
//! which must come out of the queue in that class. Only then does it return.
//!
//! What arrives by an interface passes the same engine ([`Direction::Ingress`]): a packet that waits has used the line
//! already, so that the rate must be below the line's for the queue to be here. The kernel's receive offload joins
//! segments on arrival; such a superpacket is cut where it would take longer than
//! [`LONGEST_WHOLE`](tidegate_engine::schedule::LONGEST_WHOLE), in the same way as one that leaves, and its segments
//! travel on alone.
//!
//! Traffic passes whatever happens to the process: the rules let packets by when nobody serves the queue, and a queue
//! that overflows lets them by too. An orderly end sends every verdict first.

mod change;
mod lifeline;
mod passage;
mod prove;
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

pub use lifeline::{Fault, Injection, Lifeline};
use lifeline::{Pulse, SharedRules, lock};
pub use passage::Passage;
pub use prove::{Proof, Unproven};
pub use worker::{Handle, Listener, LiveEngine, VerdictSink, WorkerCounts};

use worker::{Command, PathParts, Seen, Worker};

/// How long the data path may take to answer the control plane.
const ANSWER: Duration = Duration::from_secs(10);
/// How often who waits for that looks whether the data path has been given up.
const LOOK: Duration = Duration::from_millis(50);
/// How long its thread may take to begin on a machine that is too busy; one that ends instead is noticed at once.
const START: Duration = Duration::from_secs(20);
/// The first queue number that is tried, and how many.
const QUEUES: std::ops::Range<u16> = 7_400..7_600;

/// How to run, beside the configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// The interface; instead of the configuration's.
    pub interface: Option<String>,
    /// Lateness of the process that is made up for. 5 ms, what a loaded machine needs with real-time scheduling.
    pub catch_up: Span,
    /// The same where the system does not grant real-time scheduling. 20 ms.
    pub catch_up_normal: Span,
    /// Packets leave in groups this far apart at the most. 50 µs, so that a fast link does not cost a wake-up for each
    /// packet; zero for the finest spacing.
    pub quantum: Span,
    /// How long before a deadline the thread stops sleeping and watches the clock. Zero: never; it costs processor.
    pub spin: Span,
    /// Whether to ask for real-time scheduling.
    pub priority: Priority,
    /// The bits of the firewall mark that may be used.
    pub marks: MarkLayout,
    /// The secret of flow keys; random unless runs are to be equal.
    pub secret: Option<[u64; 2]>,
    /// Bytes of each packet that the kernel hands over: what headers need, or all for whoever records payload.
    pub copy_range: Option<u32>,
    /// Who makes the recorder of an engine that is about to run.
    pub recorder: Option<RecorderFactory>,
    /// What shall go wrong, to see that traffic passes all the same.
    pub inject: Option<Injection>,
}

/// What is called for each engine before its first packet, with its configuration, how it was set up, and when.
pub type MakeRecorder = dyn Fn(&Config, &Setup, Instant) -> Option<Box<dyn Recorder>> + Send + Sync;

/// Makes taps: every call of the engine, from the first on, is told to them.
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
    /// There is no such interface.
    #[error("no interface is called `{name}` here; there are: {}", .known.join(", "))]
    UnknownInterface {
        /// The name.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// Its packets have other interfaces.
    #[error(
        "no packet has the interface {interface} here, only what stands above it: {above}; shape that: --interface {name}"
    )]
    Below {
        /// The interface.
        interface: String,
        /// What stands above it.
        above: String,
        /// The one of these to be shaped.
        name: String,
    },
    /// Forwarded connections pass all rules.
    #[error("forwarded packets would pass {interface} unshaped: {offload}; {way_out}")]
    Offloaded {
        /// The interface.
        interface: String,
        /// The rule.
        offload: String,
        /// What to do about it.
        way_out: String,
    },
    /// The engine cannot be built.
    #[error(transparent)]
    Build(#[from] BuildFailure),
    /// The process may not do it.
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
    /// Everything is in place, and packets do not come through.
    #[error("shaping is NOT in force on {interface}: {}", prove::explain(.failures))]
    Unproven {
        /// The interface.
        interface: String,
        /// What did not come through.
        failures: Vec<Unproven>,
    },
    /// Another configuration cannot take over.
    #[error("{0}")]
    Change(String),
    /// The data path ended before it answered.
    #[error("the data path ended: {0}")]
    DataPath(String),
}

/// An interface that is being shaped. Dropping it ends it in order.
pub struct Shaping {
    interface: String,
    index: u32,
    direction: Direction,
    seen: Arc<Seen>,
    rules: SharedRules,
    installed: Option<Installed>,
    queues: [u16; 2],
    commands: Sender<Command>,
    waker: UnixStream,
    pulse: Arc<Pulse>,
    worker: Option<JoinHandle<Result<WorkerCounts, netlink::Error>>>,
    reports: Vec<QueueReport>,
    readiness: Readiness,
    warnings: Vec<String>,
    proof: Proof,
    retry: prove::Retry,
    class_names: Vec<String>,
    /// What is in force, and how it came about.
    config: Config,
    setup: Setup,
    spec: Spec,
    /// The control groups of all tags since the start.
    groups: Vec<u64>,
    /// Whether the interface was named beside the configuration.
    named: bool,
    /// What the interface and the queue had counted.
    passage: passage::Watch,
}

impl Shaping {
    /// Shapes what leaves or arrives by the interface, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left behind then.
    pub fn start(config: &Config, options: &Options) -> Result<Self, StartError> {
        let interface =
            options.interface.clone().or_else(|| config.interface.name.clone()).ok_or(StartError::NoInterface)?;
        let direction = config.interface.direction;
        let index = find(&interface)?;
        let warnings = around(index, direction)?;
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
        let pulse = Arc::new(Pulse::default());
        *lock(&pulse.releaser) = Some(socket.releaser().map_err(system("share the queue socket"))?);
        let seen = Arc::new(Seen::default());
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
            pulse: Arc::clone(&pulse),
            seen: Arc::clone(&seen),
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
            seen,
            rules: Arc::new(Mutex::new(None)),
            installed: None,
            queues,
            commands,
            waker,
            pulse,
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
            passage: passage::Watch::default(),
        };
        // From here on a failure drops `shaping`, which ends the data path and takes the rules away.
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

    /// The interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }
    /// Its index, which stays when it is renamed.
    pub fn index(&self) -> u32 {
        self.index
    }
    /// What leaves by it or what arrives by it.
    pub fn direction(&self) -> Direction {
        self.direction
    }
    /// Whether a packet of `version`, other than a probe, has come through the queue.
    pub fn has_seen(&self, version: Version) -> bool {
        self.seen.has(version)
    }
    /// How the rules were installed.
    pub fn installed(&self) -> Option<&Installed> {
        self.installed.as_ref()
    }
    /// What became of each setting of the queues.
    pub fn queue_reports(&self) -> &[QueueReport] {
        &self.reports
    }
    /// What the system granted to the data path.
    pub fn readiness(&self) -> &Readiness {
        &self.readiness
    }
    /// What may carry packets past the rules.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
    /// What is proven: at the start, and since by [`prove_again`](Self::prove_again).
    pub fn proof(&self) -> &Proof {
        &self.proof
    }
    /// The names of the classes.
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }
    /// Counts up with each turn of the data path.
    pub fn heartbeat(&self) -> u64 {
        self.pulse.beats.load(Ordering::Relaxed)
    }

    /// A hold on the data path for another thread, which lets traffic pass when that no longer does.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn lifeline(&self) -> io::Result<Lifeline> {
        let (pulse, rules) = (Arc::clone(&self.pulse), Arc::clone(&self.rules));
        Ok(Lifeline { waker: self.waker.try_clone()?, pulse, rules })
    }

    /// Does `work` to the engine, between two packets, and gives what it returns.
    ///
    /// # Errors
    /// [`StartError::DataPath`] when the data path has ended or does not answer.
    pub fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LiveEngine, Instant) -> T + Send + 'static,
    ) -> Result<T, StartError> {
        self.change(move |engine, now, _| work(engine, now))
    }

    /// The same for what may let packets out.
    ///
    /// # Errors
    /// [`StartError::DataPath`] when the data path has ended or does not answer.
    pub fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LiveEngine, Instant, &mut VerdictSink) -> T + Send + 'static,
    ) -> Result<T, StartError> {
        let (reply, answer) = mpsc::channel();
        self.say(Command::Do(Box::new(move |engine, now, gate| {
            let _ = reply.send(work(engine, now, gate));
        })))?;
        self.receive(&answer)
    }

    /// The classes with their counts so far.
    pub fn status(&self) -> Result<Vec<ClassStatus>, StartError> {
        self.with(|engine, _| engine.status())
    }
    /// What the data path counts about itself.
    pub fn counts(&self) -> Result<WorkerCounts, StartError> {
        let (reply, answer) = mpsc::channel();
        self.say(Command::Count(reply))?;
        self.receive(&answer)
    }
    /// Tells `listener` all news of flows from now on, on the data path's own thread: it must return at once.
    pub fn listen(&self, listener: Listener) -> Result<(), StartError> {
        self.say(Command::Listen(listener))
    }

    /// Every event from now on, in a queue without a bound.
    pub fn events(&self) -> Result<Receiver<Event>, StartError> {
        let (to, events) = mpsc::channel();
        self.listen(Box::new(move |_, news| match news.kind {
            NotificationKind::Event(event) => to.send(event).is_ok(),
            _ => true,
        }))?;
        Ok(events)
    }

    /// Ends shaping: what is held is let go in order, what comes passes at once, then the rules go away.
    ///
    /// # Errors
    /// When the rules could not be taken away, or the data path had failed before.
    pub fn stop(mut self) -> Result<WorkerCounts, StartError> {
        self.end()
    }

    fn end(&mut self) -> Result<WorkerCounts, StartError> {
        if self.pulse.is_abandoned() {
            return self.abandon();
        }
        // The kernel drops what is queued when a chain with a queue goes away: first let everything go, then let nothing
        // come any more, and let go what came in between.
        self.pass();
        // When somebody else took them away there is nothing more to be lost.
        let bypassed = lock(&self.rules).as_mut().map(Rules::bypass);
        if bypassed.is_some() {
            self.pass();
        }
        let removed = lock(&self.rules).take().map(Rules::remove);
        let _ = self.say(Command::Stop);
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

    /// Ends what a [`Lifeline`] has let pass: without a word to a thread that may never hear it. It ends by itself when
    /// it wakes.
    fn abandon(&mut self) -> Result<WorkerCounts, StartError> {
        drop(self.worker.take());
        lock(&self.rules).take().map_or(Ok(()), Rules::remove)?;
        Err(StartError::DataPath("it was given up".into()))
    }

    /// Lets everything go that has come so far.
    fn pass(&self) {
        let (done, is_done) = mpsc::channel();
        if self.say(Command::Pass(done)).is_ok() {
            let _ = self.receive(&is_done);
        }
    }

    /// Waits for an answer of the data path, on a machine that may be too busy for it: until that is given up.
    fn receive<T>(&self, answer: &Receiver<T>) -> Result<T, StartError> {
        let asked = std::time::Instant::now();
        loop {
            let why = match answer.recv_timeout(LOOK) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) if asked.elapsed() < ANSWER && !self.pulse.is_abandoned() => continue,
                Err(RecvTimeoutError::Timeout) => "it does not answer",
                Err(RecvTimeoutError::Disconnected) => "it is not running",
            };
            return Err(StartError::DataPath(why.into()));
        }
    }

    fn say(&self, command: Command) -> Result<(), StartError> {
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

/// Missing privileges get an error of their own, whatever they were missing for.
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

/// Looks for what would carry packets past the rules of the interface; returns what only some of them may pass by.
fn around(index: u32, direction: Direction) -> Result<Vec<String>, StartError> {
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
    // Who may not look is told by the rules themselves.
    for offload in bypass::offloads(&link, direction).unwrap_or_default() {
        let (text, way_out) = (offload.to_string(), offload.way_out(&interface));
        match offload.takes {
            Takes::Yes => return Err(StartError::Offloaded { interface, offload: text, way_out }),
            Takes::Perhaps => {
                warnings.push(format!("{text}; where these are of {interface} they are not shaped: {way_out}"))
            }
            Takes::No => {}
        }
    }
    Ok(warnings)
}

/// Binds two neighbouring queues: in the first superpackets come whole, in the second the kernel cuts them.
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
            // Another program has it, or we may not: EPERM stands for both, so the next ones tell.
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
/// the rules, so that of nested groups the one that is named first wins. Groups that have a tag keep it: packets on
/// their way bear it.
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

/// Whether all users and control groups that the rules name are known here.
///
/// # Errors
/// The first that is not, with its rule.
pub fn known_owners(config: &Config) -> Result<(), StartError> {
    let (names, ..) = resolve(config, Vec::new())?;
    BuildFailure::unknown_owner(config, &names).map_or(Ok(()), |failure| Err(failure.into()))
}

/// The number of a local user.
pub fn user_number(name: &str) -> Option<u32> {
    passwd().get(name).copied()
}

/// The local users. Those of a directory service are named by number.
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

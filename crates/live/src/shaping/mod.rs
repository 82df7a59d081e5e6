//! Shaping an interface: the engine behind a queue, proven to be in force.
//!
//! [`Shaping::start`] binds the queues, starts the data path on a thread of its own, installs the rules, and then
//! proves what it did: it reads the rules back and sends a probe of each class in each protocol through the interface,
//! which must come out of the queue in that class. Only then does it return.
//!
//! Traffic passes whatever happens to the process: the rules let packets by when nobody serves the queue, and a queue
//! that overflows lets them by too. An orderly end sends every verdict first.

mod prove;
mod worker;

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate_config::shaper::Config;
use tidegate_config::values::User;
use tidegate_core::Event;
use tidegate_engine::{BuildFailure, ClassStatus, Names, Pipeline, Setup};
use tidegate_units::{Instant, Span};

use crate::marks::MarkLayout;
use crate::netlink;
use crate::netns;
use crate::nfqueue::{QueueReport, QueueSettings, QueueSocket, Superpackets};
use crate::probe::{Inspection, inspect};
use crate::rtnl::Rtnl;
use crate::rules::{self, Installed, Rules, RulesError, Sender as PacketSender, Spec, TagRule};
use crate::timing::{self, Priority, Readiness};

pub use prove::{Proof, Unproven};
pub use worker::{Handle, LivePipeline, WorkerCounts};

use worker::{Word, Worker};

/// How long the data path may take to answer the control plane.
const ANSWER: Duration = Duration::from_secs(2);
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
    /// The engine cannot be built.
    #[error(transparent)]
    Build(#[from] BuildFailure),
    /// The process may not do it.
    #[error("not allowed to {operation}: run as root or with CAP_NET_ADMIN")]
    Permission {
        /// What.
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
        /// What.
        operation: String,
        /// Why.
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
    /// The data path ended before it answered.
    #[error("the data path ended: {0}")]
    DataPath(String),
}

/// An interface that is being shaped. Dropping it ends it in order.
pub struct Shaping {
    interface: String,
    rules: Option<Rules>,
    queues: [u16; 2],
    words: Sender<Word>,
    bell: UnixStream,
    heartbeat: Arc<AtomicU64>,
    worker: Option<JoinHandle<Result<WorkerCounts, netlink::Error>>>,
    reports: Vec<QueueReport>,
    readiness: Readiness,
    proof: Proof,
    class_names: Vec<String>,
}

impl Shaping {
    /// Shapes what leaves by the interface, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left behind then.
    pub fn start(config: &Config, options: &Options) -> Result<Self, StartError> {
        let interface =
            options.interface.clone().or_else(|| config.interface.name.clone()).ok_or(StartError::NoInterface)?;
        let index = find(&interface)?;
        let (names, tags, groups) = resolve(config)?;
        let secret = match options.secret {
            Some(secret) => secret,
            None => random()?,
        };
        let setup = Setup { seed: secret[0], secret, catch_up: options.catch_up, names };
        let now = timing::now();
        let pipeline = Pipeline::new(config, &setup, now)?;
        let class_names = pipeline.class_names().to_vec();
        let settings = QueueSettings::default();
        let (socket, queues, reports) = bind(&settings)?;
        let (words, inbox) = mpsc::channel();
        let (bell, ear) = UnixStream::pair().map_err(system("make a pair of sockets"))?;
        for end in [&bell, &ear] {
            end.set_nonblocking(true).map_err(system("make a socket nonblocking"))?;
        }
        let heartbeat = Arc::new(AtomicU64::new(0));
        let worker = Worker {
            pipeline,
            socket,
            copy_range: settings.copy_range,
            whole: queues[0],
            cut: queues[1],
            marks: options.marks,
            groups,
            words: inbox,
            bell: ear,
            quantum: options.quantum,
            spin: options.spin,
            priority: options.priority,
            patient: options.catch_up_normal,
            heartbeat: Arc::clone(&heartbeat),
        };
        let (ready, is_ready) = mpsc::channel();
        let worker = thread::Builder::new()
            .name("tidegate".into())
            .spawn(move || worker.run(&ready))
            .map_err(system("start the data path"))?;
        let readiness = is_ready.recv_timeout(ANSWER).map_err(|_| StartError::DataPath("it did not start".into()))?;
        let mut shaping = Self {
            interface: interface.clone(),
            rules: None,
            queues,
            words,
            bell,
            heartbeat,
            worker: Some(worker),
            reports,
            readiness,
            proof: Proof::default(),
            class_names,
        };
        // From here on a failure drops `shaping`, which ends the data path and takes the rules away.
        let spec = Spec { queue: queues[0], marks: options.marks, tags, ..Spec::new(&interface, queues[0]) };
        shaping.rules = Some(Rules::install(&spec).map_err(permission)?);
        shaping.proof = shaping.prove(config, index)?;
        Ok(shaping)
    }

    /// Reads the rules and the queues back.
    pub fn inspect(&mut self) -> Result<Inspection, netlink::Error> {
        let queues = self.queues;
        match &mut self.rules {
            Some(rules) => inspect(rules, &queues),
            None => Ok(Inspection { differences: Vec::new(), queues: Vec::new() }),
        }
    }

    /// The interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }
    /// How the rules were installed.
    pub fn installed(&self) -> Option<&Installed> {
        self.rules.as_ref().map(Rules::installed)
    }
    /// What became of each setting of the queues.
    pub fn queue_reports(&self) -> &[QueueReport] {
        &self.reports
    }
    /// What the system granted to the data path.
    pub fn readiness(&self) -> &Readiness {
        &self.readiness
    }
    /// What was proven at the start.
    pub fn proof(&self) -> &Proof {
        &self.proof
    }
    /// The names of the classes.
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }
    /// Counts up with each turn of the data path.
    pub fn heartbeat(&self) -> u64 {
        self.heartbeat.load(Ordering::Relaxed)
    }

    /// Does `work` to the engine, between two packets, and gives what it returns.
    ///
    /// # Errors
    /// [`StartError::DataPath`] when the data path has ended or does not answer.
    pub fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LivePipeline, Instant) -> T + Send + 'static,
    ) -> Result<T, StartError> {
        let (reply, answer) = mpsc::channel();
        self.say(Word::Do(Box::new(move |pipeline, now| {
            let _ = reply.send(work(pipeline, now));
        })))?;
        receive(&answer)
    }

    /// The classes with their counts so far.
    pub fn status(&self) -> Result<Vec<ClassStatus>, StartError> {
        self.with(|pipeline, _| pipeline.status())
    }
    /// What the data path counts about itself.
    pub fn counts(&self) -> Result<WorkerCounts, StartError> {
        let (reply, answer) = mpsc::channel();
        self.say(Word::Count(reply))?;
        receive(&answer)
    }
    /// Every event from now on.
    pub fn events(&self) -> Result<Receiver<Event>, StartError> {
        let (to, events) = mpsc::channel();
        self.say(Word::Events(to))?;
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
        // The kernel drops what is queued when a chain with a queue goes away: first let everything go, then let nothing
        // come any more, and let go what came in between.
        self.pass();
        if let Some(rules) = &mut self.rules {
            // When somebody else took them away there is nothing more to be lost.
            let _ = rules.bypass();
            self.pass();
        }
        let removed = self.rules.take().map(Rules::remove);
        let _ = self.say(Word::Stop);
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

    /// Lets everything go that has come so far.
    fn pass(&self) {
        let (done, is_done) = mpsc::channel();
        if self.say(Word::Pass(done)).is_ok() {
            let _ = is_done.recv_timeout(ANSWER);
        }
    }

    fn say(&self, word: Word) -> Result<(), StartError> {
        self.words.send(word).map_err(|_| StartError::DataPath("it is not running".into()))?;
        // A full pipe means that it has been rung already.
        let _ = (&self.bell).write(&[1]);
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

fn receive<T>(answer: &Receiver<T>) -> Result<T, StartError> {
    answer.recv_timeout(ANSWER).map_err(|error| {
        StartError::DataPath(match error {
            RecvTimeoutError::Timeout => "it does not answer".into(),
            RecvTimeoutError::Disconnected => "it is not running".into(),
        })
    })
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
/// the rules, so that of nested groups the one that is named first wins.
fn resolve(config: &Config) -> Result<Resolved, StartError> {
    let mut names = Names::default();
    let (mut tags, mut groups) = (Vec::new(), Vec::new());
    let mut users: Option<HashMap<String, u32>> = None;
    for rule in &config.rules {
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
            let sender = rules::cgroup(&full)
                .map_err(|error| BuildFailure::UnknownControlGroup(path.clone(), error.to_string()))?;
            if let PacketSender::Cgroup { id, .. } = sender {
                tags.push(TagRule { sender, tag: groups.len() as u16 });
                names.cgroups.insert(path.clone(), id);
                groups.push(id);
            }
        }
    }
    Ok((names, tags, groups))
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

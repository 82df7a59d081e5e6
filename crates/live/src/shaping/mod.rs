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
//! *Threads*: with `threads` in the file several engines share the work, each in a thread of its own with queues of its own;
//! they have the rates in common ([`tidegate_engine::shards`]). The rules divide flows by a hash of their addresses, so that
//! all packets of a flow, and where hosts share a class all of a host, are in one thread: order and fairness between hosts are
//! those of one. Each thread has a guardian.
//!
//! Traffic passes even if the process fails: the rules let packets pass when the queue is not served, and a queue that
//! overflows lets them pass too. An orderly stop sends every verdict first.

mod change;
mod coverage;
mod division;
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
mod thread;
mod watchdog;
mod worker;

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use tidegate_config::shaper::Config;
use tidegate_core::Event;
use tidegate_engine::guard::lock;
use tidegate_engine::shards::merged;
use tidegate_engine::{ClassStatus, NotificationKind, PromiseTable, Setup};
use tidegate_units::Instant;

use crate::guardian::Page;
use crate::netlink;
use crate::nfqueue::{QueueReport, QueueSettings};
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

use division::{Division, bind, engines};
use error::{permission, system};
use find::{check_bypass, find, find_some, wanted};
use interfaces::InterfaceCounters;
use owners::resolve;
use thread::PathThread;
use worker::{Command, PathParts, Worker};

/// Interfaces that are being shaped together, in one direction. Dropping it stops shaping in order.
pub struct Shaping {
    interfaces: Vec<ShapedInterface>,
    direction: Direction,
    rules: Option<Rules>,
    installed: Option<Installed>,
    /// The data path in the kernel, which has neither rules nor queues here.
    kernel: Option<kernel::KernelPath>,
    /// At least one.
    threads: Vec<PathThread>,
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
        let division = Division::of(config);
        let (counters, interfaces) = InterfaceCounters::new(direction, &found, division.threads);
        let (owners, tags, groups) = resolve(config, Vec::new())?;
        let secret = match options.secret {
            Some(secret) => secret,
            None => random()?,
        };
        let setup = Setup { seed: secret[0], secret, catch_up: options.catch_up, names: owners };
        let now = timing::now();
        let engines = engines(config, &setup, options, division.threads, now)?;
        let class_names = engines[0].class_names().to_vec();
        let mut settings = QueueSettings::default();
        settings.copy_range = options.copy_range.unwrap_or(settings.copy_range);
        let left = match left {
            None => Inherited::find(options, &names, direction)?,
            left => left,
        };
        let matched = found.into_iter().map(|(name, index)| rules::Interface { name, index: index.unwrap_or(0) });
        let spec = Spec {
            interfaces: matched.collect(),
            direction,
            marks: options.marks,
            tags,
            threads: division.threads as u16,
            divided_by: division.by,
            ..Spec::new("", 0)
        };
        let left = match left {
            // Flows would have to move between threads: what is held passes, and shaping begins anew.
            Some(left) if left.division() != division => left.end(&spec).map(|()| None)?,
            left => left,
        };
        let bound = match &left {
            Some(left) => left.queues(&settings)?,
            None => bind(&settings, division.threads)?,
        };
        let spec = Spec { queue: bound[0].1[0], ..spec };
        // A guardian serves the queue of what was left; otherwise the data path must, before packets are led there.
        let adopted = left.as_ref().map(|left| left.rules(&spec)).transpose()?;
        let (mut threads, mut reports, mut ready) = (Vec::new(), Vec::new(), None);
        for (at, ((engine, (socket, queues, reported)), counters)) in
            engines.into_iter().zip(bound).zip(counters).enumerate()
        {
            let page = match &left {
                Some(left) => left.page(at),
                None => Arc::new(Page::create().map_err(system("share memory with the guardian"))?),
            };
            let state = Arc::new(WorkerState::new(page));
            *lock(&state.releaser) = Some(socket.releaser(queues).map_err(system("share the queue socket"))?);
            let (groups, of_thread) = (groups.clone(), Arc::clone(&state));
            let (marks, quantum, spin, priority) = (options.marks, options.quantum, options.spin, options.priority);
            let (patient, copy_range) = (options.catch_up_normal, settings.copy_range);
            #[cfg(debug_assertions)]
            let inject = options.inject;
            let left = left.as_ref().map(|left| left.list(at));
            let run = move |commands, waker, ready: &_| {
                let parts = PathParts {
                    socket,
                    copy_range,
                    whole: queues[0],
                    cut: queues[1],
                    marks,
                    groups,
                    commands,
                    waker,
                    quantum,
                    spin,
                    priority,
                    patient,
                    #[cfg(debug_assertions)]
                    inject,
                    state: of_thread,
                    counters,
                    left,
                };
                Worker { engine, parts }.run(ready)
            };
            let (thread, readiness) = PathThread::start(queues, state, run)?;
            threads.push(thread);
            reports.extend(reported);
            ready.get_or_insert(readiness);
        }
        let mut shaping = Self {
            interfaces,
            direction,
            rules: None,
            installed: None,
            kernel: None,
            threads,
            reports,
            readiness: ready.ok_or_else(|| StartError::DataPath("it has no thread".into()))?,
            warnings,
            may_be_bypassed,
            retry: prove::Retry::start(),
            class_names,
            config: config.clone(),
            setup,
            spec,
            groups,
            named: !options.interfaces.is_empty(),
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
        let queues: Vec<u16> = self.threads.iter().flat_map(|thread| thread.queues).collect();
        let kernel = self.kernel.as_ref();
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
    /// The number of turns of each thread of the data path so far.
    pub fn beats(&self) -> Vec<u64> {
        self.threads.iter().map(|thread| thread.state.page.beats()).collect()
    }

    /// A handle for the watchdog's thread, which lets traffic pass when the data path has stopped.
    pub fn watchdog_handle(&self) -> WatchdogHandle {
        WatchdogHandle { states: self.threads.iter().map(|thread| Arc::clone(&thread.state)).collect() }
    }

    /// Whether flows are told apart, so that they can be promised something and watched: in the kernel only those of classes that
    /// have a queue for each flow.
    pub fn has_flows(&self) -> bool {
        self.kernel.as_ref().is_none_or(kernel::KernelPath::has_flows)
    }

    /// Whether a data path in the kernel has room for these conditions of promises and watches.
    ///
    /// # Errors
    /// The numbers that there are and may be.
    pub fn check_promises(&self, table: &PromiseTable) -> Result<(), String> {
        self.kernel.as_ref().map_or(Ok(()), |path| path.check_promises(table))
    }

    /// How many threads share the work: shards, each with a part of the flows.
    pub fn shards(&self) -> usize {
        self.threads.len()
    }

    /// Calls `work` with the engine, between two packets, and returns its result; of several engines with the first, for what
    /// all have in common.
    ///
    /// # Errors
    /// [`StartError::DataPath`] when the data path has ended or does not answer.
    pub fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LiveEngine, Instant) -> T + Send + 'static,
    ) -> Result<T, StartError> {
        self.with_shard(0, work)
    }

    /// As [`with`](Self::with), with the engine of a shard.
    ///
    /// # Errors
    /// As [`with`](Self::with), and when there is no such shard.
    pub fn with_shard<T: Send + 'static>(
        &self,
        shard: usize,
        work: impl FnOnce(&mut LiveEngine, Instant) -> T + Send + 'static,
    ) -> Result<T, StartError> {
        let thread = self.threads.get(shard).ok_or_else(|| StartError::DataPath("it has fewer threads".into()))?;
        thread.receive(&thread.ask(|reply| command(reply, move |engine, now, _| work(engine, now)))?)
    }

    /// As [`with`](Self::with), for work that may release packets.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LiveEngine, Instant, &mut VerdictSink) -> T + Send + 'static,
    ) -> Result<T, StartError> {
        let thread = &self.threads[0];
        thread.receive(&thread.ask(|reply| command(reply, work))?)
    }

    /// Calls work with the engine of each shard, at the same time, and returns the results in their order. `work` makes it.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn each<T: Send + 'static, W>(&self, mut work: impl FnMut() -> W) -> Result<Vec<T>, StartError>
    where
        W: FnOnce(&mut LiveEngine, Instant, &mut VerdictSink) -> T + Send + 'static,
    {
        self.ask_all(|reply| command(reply, work()))
    }

    fn ask_all<T>(&self, mut make: impl FnMut(mpsc::Sender<T>) -> Command) -> Result<Vec<T>, StartError> {
        let asked: Vec<_> = self.threads.iter().map(|thread| thread.ask(&mut make)).collect::<Result<_, _>>()?;
        self.threads.iter().zip(asked).map(|(thread, answer)| thread.receive(&answer)).collect()
    }

    /// The classes with their counts so far.
    pub fn status(&self) -> Result<Vec<ClassStatus>, StartError> {
        let all = self.each(|| |engine: &mut LiveEngine, now, _: &mut _| (engine.status(), now))?;
        let now = all.iter().map(|(_, now)| *now).max().unwrap_or_default();
        Ok(merged(all.into_iter().map(|(classes, _)| classes), now))
    }
    /// The counters of the data path.
    pub fn counts(&self) -> Result<WorkerCounts, StartError> {
        Ok(self.ask_all(Command::Count)?.into_iter().sum())
    }
    /// Calls a listener with every notification of flows from now on, on the data path's own thread: it must return at
    /// once. `listener` makes one for each thread.
    pub fn listen(&self, mut listener: impl FnMut() -> Listener) -> Result<(), StartError> {
        self.threads.iter().try_for_each(|thread| thread.send(Command::Listen(listener())))
    }

    /// Every event from now on, in an unbounded channel.
    pub fn events(&self) -> Result<Receiver<Event>, StartError> {
        let (to, events) = mpsc::channel();
        self.listen(|| {
            let to = to.clone();
            Box::new(move |_, notification| match notification.kind {
                NotificationKind::Event(event) => to.send(event).is_ok(),
                _ => true,
            })
        })?;
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
        if self.is_abandoned() {
            return self.abandon();
        }
        // The kernel drops queued packets when a chain with a queue is deleted: every thread releases its packets and ends
        // queueing before that, or another one does it in its place.
        let passing: Vec<_> = self.threads.iter().map(|thread| thread.ask(Command::Pass).ok()).collect();
        let mut closed = Ok(());
        for (thread, passes) in self.threads.iter().zip(passing) {
            let has_passed = passes.is_some_and(|passes| thread.receive(&passes).is_ok());
            if !has_passed && let Err(error) = thread.state.close() {
                closed = Err(StartError::from(error));
            }
        }
        let removed = self.rules.take().map(Rules::remove);
        for thread in &self.threads {
            let _ = thread.send(Command::Stop);
        }
        let ended = self.threads.iter_mut().map(PathThread::join).collect::<Vec<_>>();
        self.end_guardians();
        if let Some(Err(error)) = removed {
            return Err(error.into());
        }
        closed.and(ended.into_iter().sum())
    }

    fn is_abandoned(&self) -> bool {
        self.threads.iter().any(|thread| thread.state.is_abandoned())
    }

    fn end_guardians(&mut self) {
        for guardian in self.threads.iter_mut().filter_map(|thread| thread.guardian.take()) {
            guardian.end();
        }
    }

    /// Stops shaping after a [`WatchdogHandle`] has abandoned the data path, without a command to a thread that may
    /// never receive it. The threads end when they wake.
    fn abandon(&mut self) -> Result<WorkerCounts, StartError> {
        let mut closed = Ok(());
        for thread in &mut self.threads {
            thread.detach(std::time::Instant::now());
            closed = closed.and(thread.state.close());
        }
        let removed = self.rules.take().map_or(Ok(()), Rules::remove);
        closed.and(removed)?;
        self.end_guardians();
        Err(StartError::DataPath("it was given up".into()))
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
        let is_abandoned = self.is_abandoned();
        let interface = &mut self.interfaces[at];
        let link = Rtnl::open()?.link(interface.name())?.filter(|_| !is_abandoned);
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
        if self.threads.iter().any(PathThread::is_running) {
            let _ = self.end();
        }
    }
}

/// A command that calls `work` with the engine and sends its result.
fn command<T: Send + 'static>(
    reply: mpsc::Sender<T>,
    work: impl FnOnce(&mut LiveEngine, Instant, &mut VerdictSink) -> T + Send + 'static,
) -> Command {
    Command::Do(Box::new(move |engine, now, sink| {
        let _ = reply.send(work(engine, now, sink));
    }))
}

fn random() -> Result<[u64; 2], StartError> {
    let mut bytes = [0; 16];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| io::Read::read_exact(&mut file, &mut bytes));
    read.map_err(system("draw random bytes"))?;
    let number = u128::from_ne_bytes(bytes);
    Ok([number as u64, (number >> 64) as u64])
}

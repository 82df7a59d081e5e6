//! Shaping interfaces: an engine between the packets and the line, verified to be in force.
//!
//! One data path shapes what leaves, or arrives, by one or by several interfaces: one engine has the classes and the total of
//! all of them, as if they were one interface.
//!
//! A [`Backend`] queues the packets: [`Queue`] in this process, or a scheduler in the kernel. [`Shaping::start`] starts the threads
//! with the engines, has the backend lead packets to them, and then verifies the result: it reads the installation back and, where
//! packets come to this process, sends a probe of each class in each protocol through the interface, which must arrive in that class.
//! Only then does it return.
//!
//! Arriving packets pass the same engine ([`Direction::Ingress`]): a queued packet has used the line already, so that
//! the rate must be below the line's for the queue to build up here. The kernel's receive offload joins segments on
//! arrival; such a superpacket is segmented where it would take longer than
//! [`LONGEST_WHOLE`](tidegate_engine::LONGEST_WHOLE), in the same way as a departing one, and its segments
//! are forwarded separately.

mod answers;
pub mod backend;
mod change;
mod command;
mod coverage;
mod departures;
mod error;
mod find;
mod hold;
#[cfg(debug_assertions)]
mod injection;
mod interfaces;
mod named;
mod offload;
mod options;
mod owners;
mod passing;
mod prove;
mod queue;
mod quotas;
mod running;
mod thread;
mod watchdog;

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use tidegate_config::shaper::{Config, Match};
use tidegate_core::Event;
use tidegate_engine::shards::merged;
use tidegate_engine::{ClassStatus, NotificationKind, PromiseTable};
use tidegate_units::Instant;

use crate::bypass::Bypass;
use crate::netlink;
use crate::nfqueue::QueueReport;
use crate::probe::Inspection;
use crate::rtnl::Rtnl;
use crate::rules::{Direction, Installed, InterfaceLock, remove_holds};
use crate::timing::Readiness;

pub use change::{Change, Move};
pub use command::{Handle, Listener, LiveEngine, VerdictSink, WorkerCounts};
pub use coverage::Coverage;
pub use error::{Effect, Mistaken, RewritingRule, Rewritten, StartError, Unproven};
pub use find::are_there;
pub use hold::{Hold, wait_until_empty};
#[cfg(debug_assertions)]
pub use injection::{Fault, Injection};
pub use interfaces::{InterfaceCounts, Proof, ShapedInterface};
pub use named::{Addresses, KnownNames, leased};
pub use options::{MakeRecorder, Options, RecorderFactory};
pub use owners::{addresses_of, devices, known_owners, resolve, user_name, user_number};
pub use passing::{Passed, Passing};
pub use queue::{Inherited, Queue, Successor};
pub use quotas::Quotas;
pub use running::Running;
pub use watchdog::WatchdogHandle;

use backend::Backend;
use command::Command;
use departures::Epoch;
use running::{Beginning, command};
use thread::PathThread;

/// Whether a data path of this process shapes the same interfaces until another one is in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beside {
    /// There is none: what was left by an ended process is removed.
    Nothing,
    /// There is one, which ends afterwards.
    Earlier,
}

/// Interfaces that are being shaped together, in one direction. Dropping it stops shaping in order.
#[derive(Debug)]
pub struct Shaping {
    running: Running,
    backend: Box<dyn Backend>,
    readiness: Readiness,
    warnings: Vec<String>,
    /// The links that carry packets past the rules, for each interface; none in the kernel.
    bypasses: Vec<Bypass>,
    /// Whether the options and not the configuration name the interfaces.
    named: bool,
    /// The options that it was started with.
    options: Options,
    /// Whether its rules copy answers of the Domain Name System.
    copies: named::Copies,
    /// The number of schedulers in the kernel that were being made ready when it was last looked at, while one of them is awaited; the
    /// greatest number to look at once.
    awaited: Option<usize>,
}

impl Shaping {
    /// Starts to shape packets that leave or arrive by the interfaces, in the network namespace of the calling thread.
    /// Takes over what an earlier shaper has left to its guardian.
    ///
    /// # Errors
    /// See [`StartError`]; no rule and no thread remains then.
    pub fn start(config: &Config, options: &Options) -> Result<Self, StartError> {
        are_there(config, options)?;
        Self::start_from(config, options, None)
    }

    /// Like [`start`](Self::start), from what an earlier data path of this process has left: nothing is lost or reordered
    /// between the two. Of several interfaces some may be missing: they are shaped once they return.
    ///
    /// # Errors
    /// See [`StartError`]; packets pass unshaped then.
    pub fn start_from(config: &Config, options: &Options, left: Option<Inherited>) -> Result<Self, StartError> {
        let mut shaping = Self::prepare(config, options, left)?;
        shaping.begin()?;
        shaping.prove()?;
        Ok(shaping)
    }

    /// Like [`start_from`](Self::start_from), but takes no packet over before [`begin`](Self::begin), which is to be followed by
    /// [`prove`](Self::prove). Until then its engines can be given what flows have been promised, so that no packet of theirs is queued
    /// without it. The guardian of an earlier data path keeps packets that wait for this one for a moment only, and lets all pass then.
    /// A scheduler in the kernel takes packets from here on.
    ///
    /// # Errors
    /// As [`start_from`](Self::start_from).
    pub fn prepare(config: &Config, options: &Options, left: Option<Inherited>) -> Result<Self, StartError> {
        Self::prepare_by(config, options, left, Beside::Nothing)
    }

    fn prepare_by(
        config: &Config,
        options: &Options,
        left: Option<Inherited>,
        beside: Beside,
    ) -> Result<Self, StartError> {
        // Read first: one that is ready a moment later has changed it.
        let loading = offload::loading(options);
        let (offload, why_not) = offload::choose(config, options)?;
        // What an earlier data path has left waits in queues of this process, with the rules that are the lock of the interface: it is taken
        // over there, and the traffic moves then.
        let moves_later = left.is_some() && offload.is_some() && !offload::must(config, options);
        let offload = offload.filter(|_| !moves_later);
        let awaited = match why_not {
            Some(StartError::KernelLoading) => Some(loading),
            _ => moves_later.then_some(usize::MAX),
        };
        let mut why_not = why_not.map(|error| error.reason());
        let beginning = Beginning::new(config, options)?;
        let in_kernel = offload.map(|backend| offload::start(beginning, config, options, backend, beside));
        let mut shaping = match in_kernel {
            Some(Ok(shaping)) => shaping,
            // Beside an earlier data path, that one goes on.
            Some(Err(error)) if offload::must(config, options) || beside == Beside::Earlier => return Err(error),
            other => {
                why_not = other.and_then(Result::err).map(|error| error.reason()).or(why_not);
                queue::start(Beginning::new(config, options)?, config, options, left)?
            }
        };
        shaping.warnings.splice(0..0, why_not);
        shaping.awaited = awaited;
        Ok(shaping)
    }

    /// Shapes from now on: packets that come, and those that an earlier data path has left.
    ///
    /// # Errors
    /// See [`StartError`]. Drop it then, so that packets pass unshaped.
    pub fn begin(&mut self) -> Result<(), StartError> {
        self.begin_beside(Beside::Nothing)
    }

    fn begin_beside(&mut self, beside: Beside) -> Result<(), StartError> {
        let Self { running, backend, warnings, .. } = self;
        let Some(queue) = backend.queue_mut() else { return Ok(()) };
        queue.begin(running)?;
        // With the lock of the interface no other instance has a discipline there.
        if beside == Beside::Nothing {
            warnings.extend(queue::remove_disciplines(&running.interfaces, running.direction));
        }
        Ok(())
    }

    /// Starts the guardians, which replace those of an earlier data path, and proves that shaping is in force. Takes some
    /// 50 ms, and seconds where probes are lost. So begin all data paths that are to start before the first of them is proven.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn prove(&mut self) -> Result<(), StartError> {
        let Self { running, backend, options, .. } = self;
        if let Some((queue, settings)) = backend.queue_mut().zip(options.guardian.as_ref()) {
            queue.start_guardians(running, settings);
        }
        if named::has_answered(&self.running.config) {
            self.copy_answers()?;
        }
        self.backend.prove(&mut self.running)?;
        self.count_unsent().map_err(|error| StartError::DataPath(error.to_string()))
    }

    /// Reads back what leads packets to the data path.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn inspect(&mut self) -> Result<Inspection, netlink::Error> {
        self.backend.inspect()
    }

    /// The name of the discipline at the root of the interface, for a data path in the kernel.
    pub fn in_kernel(&self) -> Option<&str> {
        self.backend.discipline()
    }

    /// The interfaces, in the order of the configuration.
    pub fn interfaces(&self) -> &[ShapedInterface] {
        &self.running.interfaces
    }
    /// Notes that interface `name` has vanished; its rules remain. See [`follow`](Self::follow) for its return.
    pub fn vanished(&mut self, name: &str) {
        let interface = self.running.interfaces.iter_mut().find(|interface| interface.name() == name);
        if let Some(interface) = interface {
            interface.set_index(None);
            interface.set_down(false);
        }
    }
    /// Notes that interface `name` is down, so that nothing passes by it, or is up again.
    pub fn set_down(&mut self, name: &str, is_down: bool) {
        let interface = self.running.interfaces.iter_mut().find(|interface| interface.name() == name);
        interface.into_iter().for_each(|interface| interface.set_down(is_down));
    }
    /// The names of the interfaces, for people.
    pub fn interface(&self) -> String {
        self.running.names()
    }
    /// Whether departing or arriving packets are shaped.
    pub fn direction(&self) -> Direction {
        self.running.direction
    }
    /// How the rules were installed.
    pub fn installed(&self) -> Option<&Installed> {
        self.backend.queue()?.installed()
    }
    /// The result of each setting of the queues.
    pub fn queue_reports(&self) -> &[QueueReport] {
        self.backend.queue().map_or(&[], Queue::reports)
    }
    /// The privileges that the system granted to the data path.
    pub fn readiness(&self) -> &Readiness {
        &self.readiness
    }
    /// The remarks of the start of the data path that people should know, and the links that carry packets past the rules.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.iter().cloned().chain(self.bypasses.iter().flat_map(Bypass::warnings)).collect()
    }
    /// The links that carry packets past the rules, for each interface, as they were looked for last.
    pub fn bypasses(&self) -> &[Bypass] {
        &self.bypasses
    }
    /// Looks again for what carries packets past the rules. To be called in the network namespace of the interfaces.
    ///
    /// # Errors
    /// When the kernel does not answer; what was known is kept.
    pub fn look_for_bypasses(&mut self) -> Result<(), netlink::Error> {
        // Packets of what is stacked on an interface pass its root and its tc as well.
        if self.in_kernel().is_some() {
            return Ok(());
        }
        let (mut rtnl, direction) = (Rtnl::open()?, self.direction());
        let mut of_one = |interface: &ShapedInterface| {
            let link = interface.index().map(|index| rtnl.link_by_index(index)).transpose()?.flatten();
            match link {
                Some(link) => Bypass::find(&mut rtnl, &link, direction),
                None => Ok(Bypass { interface: interface.name().to_owned(), ..Bypass::default() }),
            }
        };
        self.bypasses = self.running.interfaces.iter().map(&mut of_one).collect::<Result<_, _>>()?;
        Ok(())
    }
    /// Warnings about qdiscs of others, at this moment, that shape or delay what leaves here.
    pub fn slower(&self) -> Vec<String> {
        // A data path in the kernel is the root of its interface, and what has arrived passes no qdisc.
        if self.in_kernel().is_some() || self.direction() == Direction::Ingress {
            return Vec::new();
        }
        let Ok(mut rtnl) = Rtnl::open() else { return Vec::new() };
        let links = self.interfaces().iter().filter_map(|each| rtnl.link(each.name()).ok().flatten());
        let links: Vec<_> = links.collect();
        links.iter().flat_map(|link| find::slower(&mut rtnl, link)).collect()
    }
    /// Whether a flow table may take forwarded packets past the rules, which a probe does not show.
    pub fn may_be_bypassed(&self) -> bool {
        self.bypasses.iter().any(|bypass| !bypass.offloads.is_empty())
    }
    /// The names of the classes.
    pub fn class_names(&self) -> &[String] {
        &self.running.class_names
    }
    /// The number of turns of each thread of the data path so far.
    pub fn beats(&self) -> Vec<u64> {
        self.running.beats()
    }

    /// A handle for the watchdog's thread, which lets traffic pass when the data path has stopped.
    pub fn watchdog_handle(&self) -> WatchdogHandle {
        WatchdogHandle { states: self.running.threads.iter().map(|thread| Arc::clone(&thread.state)).collect() }
    }

    /// Whether flows are told apart, so that they can be promised rate and watched. In the kernel only classes with a queue for
    /// each flow have flows.
    pub fn has_flows(&self) -> bool {
        self.backend.has_flows()
    }

    /// Why nothing can be promised to flows although they are told apart; `None` where it can be.
    pub fn without_promises(&self) -> Option<&'static str> {
        self.backend.without_promises()
    }

    /// Whether the data path has room for these conditions of promises and watches.
    ///
    /// # Errors
    /// The numbers in use and the limits.
    pub fn check_promises(&self, table: &PromiseTable) -> Result<(), String> {
        self.backend.check_promises(table)
    }

    /// Whether the data path has room for a reservation of packets with these conditions.
    ///
    /// # Errors
    /// The condition that it does not know, or the room that it lacks.
    pub fn check_reservation(&self, matches: &Match) -> Result<(), String> {
        self.backend.check_reservation(matches)
    }

    /// How many threads share the work: shards, each with a part of the flows.
    pub fn shards(&self) -> usize {
        self.running.threads.len()
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
        self.running.with_shard(shard, move |engine, now, _| work(engine, now))
    }

    /// As [`with`](Self::with), for work that may release packets.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LiveEngine, Instant, &mut VerdictSink) -> T + Send + 'static,
    ) -> Result<T, StartError> {
        self.running.with_shard(0, work)
    }

    /// Calls work with the engine of each shard, at the same time, and returns the results in their order. `work` makes it.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn each<T: Send + 'static, W>(&self, mut work: impl FnMut() -> W) -> Result<Vec<T>, StartError>
    where
        W: FnOnce(&mut LiveEngine, Instant, &mut VerdictSink) -> T + Send + 'static,
    {
        self.running.ask_all(|reply| command(reply, work()))
    }

    /// The classes with their counts so far.
    pub fn status(&self) -> Result<Vec<ClassStatus>, StartError> {
        let all = self.each(|| |engine: &mut LiveEngine, now, _: &mut _| (engine.status(), now))?;
        let now = all.iter().map(|(_, now)| *now).max().unwrap_or_default();
        Ok(merged(all.into_iter().map(|(classes, _)| classes), now))
    }
    /// The counters of the data path.
    pub fn counts(&self) -> Result<WorkerCounts, StartError> {
        self.running.counts()
    }
    /// Calls a listener with every notification of flows from now on, on the data path's own thread: it must return at
    /// once. `listener` makes one for each thread.
    pub fn listen(&self, mut listener: impl FnMut() -> Listener) -> Result<(), StartError> {
        self.running.threads.iter().try_for_each(|thread| thread.send(Command::Listen(listener())))
    }

    /// Puts what passes into `passing` from now on. A data path in the kernel shows nothing.
    pub fn observe(&self, passing: &Arc<Passing>) -> Result<(), StartError> {
        let outward = self.running.direction == Direction::Egress;
        let observer = || Command::Observe(Box::new(passing::Observer::new(Arc::clone(passing), outward)));
        self.running.threads.iter().try_for_each(|thread| thread.send(observer()))
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
        // Before it has begun another instance may have the interface, and hold packets there.
        let has_begun = self.in_kernel().is_some() || self.installed().is_some();
        let ended = self.backend.end(&mut self.running);
        if !has_begun {
            return ended;
        }
        let directory = self.options.guardian.as_ref().and_then(|guardian| guardian.directory.as_deref());
        self.running.interfaces.iter().for_each(|interface| remove_holds(interface.name(), directory));
        ended
    }

    /// Follows the interface that was called `earlier`, which has another name or another index since, while packets are
    /// shaped as before. Does nothing if that is not one of these interfaces.
    ///
    /// # Errors
    /// See [`RulesError`](crate::rules::RulesError): everything is as before then.
    pub fn follow(&mut self, earlier: &str, name: &str, index: u32) -> Result<(), StartError> {
        let Self { running, backend, .. } = self;
        let Some(at) = running.interfaces.iter().position(|interface| interface.name() == earlier) else {
            return Ok(());
        };
        if !running.locks.is_empty() {
            // The lock of the earlier name stays. Without that of the new one it is shaped all the same.
            running.locks.extend(InterfaceLock::acquire(name, running.direction));
        }
        backend.follow(at, name, index, running)?;
        running.interfaces[at].rename(name);
        running.interfaces[at].set_index(Some(index));
        Ok(())
    }

    /// The traffic of each interface since its last measurement, once there is enough of it, with the place of the
    /// interface. To be called every second or two, in the network namespace of the interfaces.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn coverage(&mut self) -> Result<Vec<(usize, Coverage)>, netlink::Error> {
        let mut measured = Vec::new();
        // Nothing that leaves bypasses the root of an interface.
        let all = if self.in_kernel().is_some() { 0 } else { self.running.interfaces.len() };
        for at in 0..all {
            measured.extend(self.coverage_of(at)?.map(|coverage| (at, coverage)));
        }
        self.count_unsent()?;
        Ok(measured)
    }

    /// Counts the packets that the kernel has discarded after they were let pass.
    fn count_unsent(&mut self) -> Result<(), netlink::Error> {
        // Packets that have arrived have no route yet, and those in a discipline need theirs no more.
        if self.running.direction == Direction::Ingress || self.in_kernel().is_some() {
            return Ok(());
        }
        let (takeovers, is_guarded) = self.running.takeovers();
        let earlier = self.sent_by_interfaces()?;
        let counts = if self.running.is_abandoned() || is_guarded { None } else { self.counts().ok() };
        let later = self.sent_by_interfaces()?;
        let departures = &mut self.running.departures;
        match (counts, earlier, later) {
            (Some(counts), Some((earlier, _)), Some((later, indices))) => {
                let passed = counts.let_pass.saturating_sub(counts.socket.refused_verdicts);
                departures.sample(passed, (earlier, later), Epoch { takeovers, indices });
            }
            _ => departures.restart(),
        }
        Ok(())
    }

    /// The packets that the interfaces have sent or dropped, and the sum of their indices; `None` while one is not there.
    fn sent_by_interfaces(&self) -> Result<Option<(u64, u64)>, netlink::Error> {
        let (mut rtnl, mut sum) = (Rtnl::open()?, (0, 0));
        for interface in &self.running.interfaces {
            let link = interface.index().map(|index| rtnl.link_by_index(index)).transpose()?.flatten();
            let Some(link) = link else { return Ok(None) };
            sum = (sum.0 + link.statistics.tx_packets + link.statistics.tx_dropped, sum.1 + u64::from(link.index));
        }
        Ok(Some(sum))
    }

    fn coverage_of(&mut self, at: usize) -> Result<Option<Coverage>, netlink::Error> {
        // Traffic bypasses an abandoned data path, which has been reported, and a guardian that has the turn, which is reported too.
        let (takeovers, is_guarded) = self.running.takeovers();
        let is_abandoned = self.running.is_abandoned() || is_guarded;
        let interface = &mut self.running.interfaces[at];
        let link = Rtnl::open()?.link(interface.name())?.filter(|_| !is_abandoned);
        let Some(link) = link else {
            interface.coverage = coverage::Monitor::default();
            return Ok(None);
        };
        interface.set_index(Some(link.index));
        let carried = match self.running.direction {
            Direction::Ingress => link.statistics.rx_bytes,
            Direction::Egress => link.statistics.tx_bytes,
        };
        // Read after the interface's counters, so that packets in between count as come through. The reply also
        // confirms that the data path has received what came before.
        if self.counts().is_err() {
            // The watchdog reports a data path that does not reply.
            self.running.interfaces[at].coverage = coverage::Monitor::default();
            return Ok(None);
        }
        let interface = &mut self.running.interfaces[at];
        let waiting = if self.running.direction == Direction::Egress { interface.waiting_bytes() } else { 0 };
        let through = interface.received_bytes();
        Ok(interface.coverage.sample(std::time::Instant::now(), carried, (through, waiting), takeovers))
    }
}

impl Drop for Shaping {
    fn drop(&mut self) {
        if self.running.threads.iter().any(PathThread::is_running) {
            let _ = self.end();
        }
    }
}

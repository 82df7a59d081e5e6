//! [`Running`]: the state of a data path that does not depend on its backend.

use std::fs::File;
use std::io::Read;
use std::sync::mpsc::Sender;
use std::time::Instant as Clock;

use tidegate_config::shaper::Config;
use tidegate_engine::Setup;
use tidegate_units::Instant;

use super::command::{Command, LiveEngine, VerdictSink, WorkerCounts};
use super::departures::Departures;
use super::error::{StartError, system};
use super::find::{find_some, wanted};
use super::interfaces::ShapedInterface;
use super::options::Options;
use super::owners::resolve;
use super::thread::PathThread;
use crate::guardian::Turn;
use crate::nfqueue::search;
use crate::rules::{Direction, InterfaceLock, TagRule};

/// The interfaces, threads and configuration of a data path.
#[derive(Debug)]
pub struct Running {
    pub(super) interfaces: Vec<ShapedInterface>,
    pub(super) direction: Direction,
    /// At least one.
    pub(super) threads: Vec<PathThread>,
    pub(super) class_names: Vec<String>,
    /// The configuration in force.
    pub(super) config: Config,
    pub(super) setup: Setup,
    /// Keep other instances from the interface, by each name that it has had, where no rules do.
    pub(super) locks: Vec<InterfaceLock>,
    /// Packets that were let pass and have not left.
    pub(super) departures: Departures,
}

impl Running {
    /// Keeps other instances from the interfaces.
    ///
    /// # Errors
    /// When another instance has one of them.
    pub(super) fn lock(&mut self) -> Result<(), StartError> {
        for interface in &self.interfaces {
            self.locks.push(InterfaceLock::acquire(interface.name(), self.direction)?);
        }
        Ok(())
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Stops the threads, which release the packets that they hold. Threads that a
    /// [`WatchdogHandle`](super::WatchdogHandle) has abandoned end when they wake; they are not waited for.
    ///
    /// # Errors
    /// When a thread has failed or was abandoned.
    pub fn stop(&mut self) -> Result<WorkerCounts, StartError> {
        if self.is_abandoned() {
            for thread in &mut self.threads {
                let _ = thread.send(Command::Stop);
                thread.detach(Clock::now());
            }
            return Err(StartError::DataPath("it was given up".into()));
        }
        for thread in &self.threads {
            let _ = thread.send(Command::Stop);
        }
        let ended: Vec<_> = self.threads.iter_mut().map(PathThread::join).collect();
        ended.into_iter().sum()
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.threads.iter().any(|thread| thread.state.is_abandoned())
    }
    /// The names of the interfaces, for people.
    pub(super) fn names(&self) -> String {
        self.interfaces.iter().map(ShapedInterface::name).collect::<Vec<_>>().join(" + ")
    }
    /// The number of turns of each thread so far.
    pub(super) fn beats(&self) -> Vec<u64> {
        self.threads.iter().map(|thread| thread.state.page.beats()).collect()
    }
    /// How often guardians took the turn so far, and whether one has it now.
    pub fn takeovers(&self) -> (u64, bool) {
        let pages = || self.threads.iter().map(|thread| &thread.state.page);
        (pages().map(|page| page.takeovers()).sum(), pages().any(|page| page.turn() != Turn::Shaper))
    }

    /// Sends a command to each thread, and waits for the replies.
    pub(super) fn ask_all<T>(&self, mut make: impl FnMut(Sender<T>) -> Command) -> Result<Vec<T>, StartError> {
        let asked: Vec<_> = self.threads.iter().map(|thread| thread.ask(&mut make)).collect::<Result<_, _>>()?;
        self.threads.iter().zip(asked).map(|(thread, answer)| thread.receive(&answer)).collect()
    }
    /// The counters of all threads.
    pub(super) fn counts(&self) -> Result<WorkerCounts, StartError> {
        let counts: WorkerCounts = self.ask_all(Command::Count)?.into_iter().sum();
        Ok(WorkerCounts { unsent: self.departures.lost(), ..counts })
    }
    /// Calls `work` with the engine of a shard, between two packets, and returns its result.
    pub(super) fn with_shard<T: Send + 'static>(
        &self,
        shard: usize,
        work: impl FnOnce(&mut LiveEngine, Instant, &mut VerdictSink) -> T + Send + 'static,
    ) -> Result<T, StartError> {
        let thread = self.threads.get(shard).ok_or_else(|| StartError::DataPath("it has fewer threads".into()))?;
        thread.receive(&thread.ask(|reply| command(reply, work))?)
    }
}

/// A command that calls `work` with the engine and sends its result.
pub(super) fn command<T: Send + 'static>(
    reply: Sender<T>,
    work: impl FnOnce(&mut LiveEngine, Instant, &mut VerdictSink) -> T + Send + 'static,
) -> Command {
    Command::Do(Box::new(move |engine, now, sink| {
        let _ = reply.send(work(engine, now, sink));
    }))
}

/// The interfaces and the setup of a data path before it starts.
pub(super) struct Beginning {
    pub names: Vec<String>,
    /// The interfaces with their indices; `None` for one that is missing.
    pub found: Vec<(String, Option<u32>)>,
    pub setup: Setup,
    pub tags: Vec<TagRule>,
    pub groups: Vec<u64>,
}

impl Beginning {
    pub fn new(config: &Config, options: &Options) -> Result<Self, StartError> {
        let names = wanted(config, options)?;
        let found = find_some(&names)?;
        let (mut owners, tags, groups) = resolve(config, Vec::new())?;
        owners.off = options.quotas.rules_off(config);
        owners.named = options.known_names.addresses(config)?;
        let secret = match options.secret {
            Some(secret) => secret,
            None => random()?,
        };
        let most_queued = options.most_queued.or_else(search::most_affordable);
        let setup = Setup { seed: secret[0], secret, catch_up: options.catch_up, most_queued, names: owners };
        Ok(Self { names, found, setup, tags, groups })
    }
}

pub(super) fn random() -> Result<[u64; 2], StartError> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(system("draw random bytes"))?;
    let number = u128::from_ne_bytes(bytes);
    Ok([number as u64, (number >> 64) as u64])
}

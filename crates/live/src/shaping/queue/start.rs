//! Starting a data path over NFQUEUE.

use std::fs::File;
use std::sync::Arc;

use tidegate_config::shaper::Config;
use tidegate_engine::guard::lock;

use super::division::{Bound, Division, bind, engines};
use super::guard::Inherited;
use super::kernel::Nfqueue;
use super::probe::Retry;
use super::worker::{PathParts, Worker};
use super::{Queue, Served};
use crate::bypass::Bypass;
use crate::guardian::Page;
use crate::nfqueue::QueueSettings;
use crate::rules::{self, Direction, Spec};
use crate::shaping::Shaping;
use crate::shaping::backend;
use crate::shaping::command::LiveEngine;
use crate::shaping::departures::Departures;
use crate::shaping::error::{StartError, system};
use crate::shaping::find::check_bypass;
use crate::shaping::interfaces::{InterfaceCounters, ShapedInterface};
use crate::shaping::options::Options;
use crate::shaping::running::{Beginning, Running};
use crate::shaping::thread::PathThread;
use crate::shaping::watchdog::WorkerState;
use crate::timing::{self, Readiness, Waiter};

/// Starts a data path, from what an earlier one has left, if it has. It takes no packet over before [`Queue::begin`].
///
/// # Errors
/// See [`StartError`].
pub(in crate::shaping) fn start(
    beginning: Beginning,
    config: &Config,
    options: &Options,
    left: Option<Inherited>,
) -> Result<Shaping, StartError> {
    let Beginning { names, found, setup, tags, groups } = beginning;
    let direction = config.interface.direction;
    let bypasses = bypassing(&found, direction)?;
    let division = Division::of(config);
    let (counters, interfaces) = InterfaceCounters::new(direction, &found, division.threads);
    let engines = engines(config, &setup, options, division.threads, timing::now())?;
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
        // Flows would have to move between threads: queued packets pass, and shaping begins anew.
        Some(left) if left.division() != division => left.end(&spec).map(|()| None)?,
        left => left,
    };
    let bound = match &left {
        Some(left) => left.queues(&settings)?,
        None => bind(&settings, division.threads)?,
    };
    let spec = Spec { queue: bound[0].1[0], ..spec };
    let rules = left.as_ref().map(|left| left.rules(&spec)).transpose()?;
    let mut queue = Queue {
        rules,
        spec,
        groups,
        division,
        served: Vec::new(),
        reports: Vec::new(),
        directory: options.guardian.as_ref().and_then(|guardian| guardian.directory.clone()),
        unguarded: None,
        left: None,
        retry: Retry::start(),
        change: None,
    };
    let mut threads = Vec::new();
    let mut ready = None;
    for (at, ((engine, bound), counters)) in engines.into_iter().zip(bound).zip(counters).enumerate() {
        let left = left.as_ref().map(|left| (left.page(at), left.list(at)));
        let (thread, readiness) = queue.start_thread(engine, bound, counters, options, left)?;
        threads.push(thread);
        ready.get_or_insert(readiness);
    }
    let readiness = ready.ok_or_else(|| StartError::DataPath("it has no thread".into()))?;
    let (config, locks, departures) = (config.clone(), Vec::new(), Departures::default());
    let running = Running { interfaces, direction, threads, class_names, config, setup, locks, departures };
    queue.left = left;
    let (named, options, warnings) = (!options.interfaces.is_empty(), options.clone(), Vec::new());
    let (backend, copies) = (Box::new(queue), Default::default());
    Ok(Shaping { running, backend, readiness, warnings, bypasses, named, options, copies, awaited: None })
}

/// Looks for what would carry packets past the rules of these interfaces; see [`check_bypass`].
fn bypassing(found: &[(String, Option<u32>)], direction: Direction) -> Result<Vec<Bypass>, StartError> {
    let of_one = |(_, index): &(String, Option<u32>)| {
        index.map_or_else(|| Ok(Bypass::default()), |index| check_bypass(index, direction))
    };
    found.iter().map(of_one).collect()
}

/// Removes disciplines that earlier runs have left in the kernel for this direction. Returns notes for people.
pub(in crate::shaping) fn remove_disciplines(interfaces: &[ShapedInterface], direction: Direction) -> Vec<String> {
    let left = |interface: &&ShapedInterface| {
        interface.index().is_some_and(|index| backend::remove_left(index, direction).unwrap_or(false))
    };
    let note = |name: &str| {
        format!("the kernel went on shaping {name} as an earlier run had configured it; that has been removed")
    };
    interfaces.iter().filter(left).map(|interface| note(interface.name())).collect()
}

impl Queue {
    /// Starts a thread that serves the queues of `bound`. `left` is the page of an earlier thread and the file with the packets
    /// that it held.
    fn start_thread(
        &mut self,
        engine: LiveEngine,
        (socket, queues, reports): Bound,
        counters: Arc<InterfaceCounters>,
        options: &Options,
        left: Option<(Arc<Page>, Arc<File>)>,
    ) -> Result<(PathThread, Readiness), StartError> {
        let (page, left) = match left {
            Some((page, list)) => (page, Some(list)),
            None => (Arc::new(Page::create().map_err(system("share memory with the guardian"))?), None),
        };
        let state = Arc::new(WorkerState::new(page, left.is_none()));
        *lock(&state.releaser) = Some(socket.releaser(queues).map_err(system("share the queue socket"))?);
        let (groups, of_thread) = (self.groups.clone(), Arc::clone(&state));
        let copy_range = options.copy_range.unwrap_or(QueueSettings::default().copy_range);
        let (marks, quantum, rest) = (options.marks, options.quantum, options.rest);
        let (spin, priority) = (options.spin, options.priority);
        let patient = options.catch_up_normal;
        #[cfg(debug_assertions)]
        let inject = options.inject;
        let run = move |commands, waker, ready: &_| {
            let parts = PathParts {
                copy_range,
                whole: queues[0],
                cut: queues[1],
                marks,
                groups,
                commands,
                quantum,
                rest,
                priority,
                patient,
                #[cfg(debug_assertions)]
                inject,
                state: of_thread,
                counters,
                left,
            };
            let kernel = Nfqueue { socket, waker, waiter: Waiter::new(spin) };
            Worker { engine, kernel, parts }.run(ready)
        };
        let (thread, readiness) = PathThread::start(state, run)?;
        self.reports.extend(reports);
        self.served.push(Served { queues, guardian: None });
        Ok((thread, readiness))
    }
}

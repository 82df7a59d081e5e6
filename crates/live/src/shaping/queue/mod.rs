//! [`Queue`]: the data path over NFQUEUE. The rules of the packet filter lead packets to queues of the kernel, from where
//! threads of this process receive and release them.
//!
//! *Threads*: with `threads` in the file several engines share the work, each in a thread of its own with queues of its own;
//! they have the rates in common ([`tidegate_engine::shards`]). The rules divide flows by a hash of their addresses, so that
//! all packets of a flow, and where hosts share a class all of a host, are in one thread: order and fairness between hosts are
//! those of one. Each thread has a guardian.
//!
//! Traffic passes even if the process fails: [`guardian`](crate::guardian) lists which mechanism covers which fault. An orderly
//! stop sends every verdict first.

mod advice;
mod division;
mod guard;
mod held;
mod kernel;
mod probe;
#[cfg(test)]
mod referee;
mod shape;
mod start;
mod worker;

use std::path::PathBuf;

use tidegate_config::shaper::Config;
use tidegate_engine::Names;

use super::backend::Backend;
use super::command::{Command, WorkerCounts};
use super::error::{StartError, permission};
use super::owners::resolve;
use super::running::Running;
use super::thread::PathThread;
use crate::guardian::{Aside, Guardian};
use crate::netlink;
use crate::nfqueue::QueueReport;
use crate::probe::{Inspection, Version, inspect};
use crate::rules::{Installed, Interface, Rules, Spec};

pub use guard::{Inherited, Successor};

pub(in crate::shaping) use advice::Written;
use division::Division;
pub(super) use division::{Bound, bind};

pub(super) use start::{remove_disciplines, start};

/// The queues of a data path, their rules and guardians.
#[derive(Debug)]
pub struct Queue {
    /// `None` before they are installed and after they were removed.
    rules: Option<Rules>,
    spec: Spec,
    /// The control groups of all tags since the start, by tag.
    groups: Vec<u64>,
    division: Division,
    /// For each thread of the data path.
    served: Vec<Served>,
    reports: Vec<QueueReport>,
    /// Where guardians have their sockets.
    directory: Option<PathBuf>,
    /// Why there is no guardian, although one was asked for.
    unguarded: Option<String>,
    /// The guardians of an earlier data path, until others replace them.
    left: Option<Inherited>,
    retry: probe::Retry,
    change: Option<QueueChange>,
}

/// The queues of a thread: the one whose superpackets arrive whole, and the one where the kernel segments them.
#[derive(Debug)]
struct Served {
    queues: [u16; 2],
    guardian: Option<Guardian>,
}

/// A change of the configuration that has not ended.
#[derive(Debug)]
struct QueueChange {
    next: Spec,
    groups: Vec<u64>,
    /// The earlier rules, once `next` is in force.
    before: Option<Spec>,
}

impl Queue {
    /// How the rules were installed.
    pub(super) fn installed(&self) -> Option<&Installed> {
        self.rules.as_ref().map(Rules::installed)
    }
    /// The result of each setting of the queues.
    pub(super) fn reports(&self) -> &[QueueReport] {
        &self.reports
    }

    /// Has UDP datagrams from and to a port copied for a group of the packet log.
    pub(super) fn copy(&mut self, port: u16, group: u16) -> Result<(), netlink::Error> {
        self.rules.as_mut().map_or(Ok(()), |rules| rules.copy(port, group))
    }

    fn retag(&mut self, spec: Spec) -> Result<Spec, StartError> {
        self.rules.as_mut().map_or(Ok(()), |rules| rules.retag(&spec)).map_err(permission)?;
        Ok(std::mem::replace(&mut self.spec, spec))
    }

    /// Removes the rules. Other data paths of the network namespace let pass what waits first.
    fn remove_rules(&mut self) -> Result<(), netlink::Error> {
        let Some(rules) = self.rules.take() else { return Ok(()) };
        let left = self.left.iter().flat_map(Inherited::socket_names);
        let own: Vec<String> = self.guardians().map(Guardian::socket_name).chain(left).collect();
        let _aside = Aside::ask(self.directory.as_deref(), "", &own);
        rules.remove()
    }

    fn end_guardians(&mut self) {
        if let Some(left) = self.left.take() {
            left.end_guardians();
        }
        for guardian in self.served.iter_mut().filter_map(|served| served.guardian.take()) {
            guardian.end();
        }
    }

    /// Ends shaping after a [`WatchdogHandle`](super::WatchdogHandle) has abandoned the data path, without a command to a thread
    /// that may never receive it. The threads end when they wake.
    fn abandon(&mut self, running: &mut Running) -> Result<WorkerCounts, StartError> {
        let ended = running.stop();
        let mut closed = Ok(());
        for thread in &running.threads {
            closed = closed.and(thread.state.close());
        }
        let removed = self.remove_rules();
        closed.and(removed)?;
        self.end_guardians();
        ended
    }
}

impl Backend for Queue {
    fn inspect(&mut self) -> Result<Inspection, netlink::Error> {
        let queues: Vec<u16> = self.served.iter().flat_map(|served| served.queues).collect();
        let Some(rules) = &mut self.rules else {
            return Ok(Inspection { differences: Vec::new(), queues: Vec::new() });
        };
        inspect(rules, &queues)
    }

    fn prove(&mut self, running: &mut Running) -> Result<(), StartError> {
        self.prove_by_probes(running)
    }

    fn prove_again(&mut self, running: &mut Running) -> Result<Vec<(String, Version)>, StartError> {
        self.probe_again(running)
    }

    fn prepare(&mut self, config: &Config) -> Result<Names, StartError> {
        if Division::of(config) != self.division {
            let text = "flows would have to move between threads, with another number of them or other addresses to divide \
                        flows by; stop, and start again";
            return Err(StartError::Change(text.into()));
        }
        let (names, tags, groups) = resolve(config, self.groups.clone())?;
        self.change = Some(QueueChange { next: Spec { tags, ..self.spec.clone() }, groups, before: None });
        Ok(names)
    }

    fn begin_change(&mut self, running: &Running, _names: &Names) -> Result<(), StartError> {
        let Some(QueueChange { next, groups, .. }) = self.change.take() else { return Ok(()) };
        // Tags of earlier groups keep their meaning; packets bear new ones only after the next step.
        self.groups.clone_from(&groups);
        for thread in &running.threads {
            thread.send(Command::Groups(groups.clone()))?;
        }
        let before = self.retag(next.clone())?;
        self.change = Some(QueueChange { next, groups, before: Some(before) });
        Ok(())
    }

    fn revert(&mut self, _config: &Config, _names: &Names) -> Result<(), StartError> {
        match self.change.take().and_then(|change| change.before) {
            Some(before) => self.retag(before).map(drop),
            None => Ok(()),
        }
    }

    fn follow(&mut self, at: usize, name: &str, index: u32, running: &Running) -> Result<(), StartError> {
        let mut spec = self.spec.clone();
        let earlier = std::mem::replace(&mut spec.interfaces[at], Interface { name: name.into(), index });
        self.rules.as_mut().map_or(Ok(()), |rules| rules.follow(&spec)).map_err(permission)?;
        self.spec = spec;
        // A successor looks for sockets of the new name, which is that of the first interface.
        if at == 0 && earlier.name != name {
            self.rename_guardians(running);
        }
        Ok(())
    }

    fn end(&mut self, running: &mut Running) -> Result<WorkerCounts, StartError> {
        if running.is_abandoned() {
            return self.abandon(running);
        }
        // One that has not begun releases what an earlier data path has left.
        running.threads.iter().for_each(PathThread::begin);
        // The kernel drops queued packets when a chain with a queue is deleted: every thread releases its packets and ends
        // queueing before that, or another one does it in its place.
        let passing: Vec<_> = running.threads.iter().map(|thread| thread.ask(Command::Pass).ok()).collect();
        let mut closed = Ok(());
        for (thread, passes) in running.threads.iter().zip(passing) {
            let has_passed = passes.is_some_and(|passes| thread.receive(&passes).is_ok());
            if !has_passed && let Err(error) = thread.state.close() {
                closed = Err(StartError::from(error));
            }
        }
        let removed = self.remove_rules();
        let ended = running.stop();
        self.end_guardians();
        removed?;
        closed.and(ended)
    }

    fn queue(&self) -> Option<&Queue> {
        Some(self)
    }
    fn queue_mut(&mut self) -> Option<&mut Queue> {
        Some(self)
    }
}

//! `mq` at the root of an interface, with a discipline of ours for each of its queues.

use tidegate_config::shaper::Config;
use tidegate_live::netlink::Error;
use tidegate_live::rtnl::{MULTI_QUEUE, Rtnl};
use tidegate_live::shaping::StartError;

use super::{Attachment, KernelPath, detached};
use crate::shards;

impl KernelPath {
    /// Has as many programs as the interface has queues.
    ///
    /// # Errors
    /// Where it has another number of queues than there are programs for.
    pub(super) fn count_queues(&mut self, to: &Attachment, config: &Config) -> Result<(), StartError> {
        if !self.shards.are_several() {
            return Ok(());
        }
        let line = to.lines.first().ok_or_else(detached)?;
        let queues = shards::transmit_queues(&line.name).ok_or_else(detached)?;
        let count = shards::fitting(&line.name, queues, config.interface.threads as usize)?;
        if count > self.shards.all().len() {
            let text = format!("{} has {count} queues now, for which no programs were loaded at the start", line.name);
            return Err(StartError::NoKernelProgram(text));
        }
        self.shards.keep(count);
        Ok(())
    }

    /// Refuses a change to several threads, or from them to one.
    ///
    /// # Errors
    /// [`StartError::Change`].
    pub(super) fn check_threads(&self, config: &Config) -> Result<(), StartError> {
        if (config.interface.threads > 1) == self.shards.are_several() {
            return Ok(());
        }
        Err(StartError::Change("the number of threads changes with a new start; stop, and start again".into()))
    }

    /// Makes each program the discipline of a queue.
    pub(super) fn take_queues(&self, rtnl: &mut Rtnl, index: u32, name: &str) -> Result<(), StartError> {
        rtnl.set_multi_queue(index)?;
        for (queue, discipline) in (0..).zip(self.shards.all()) {
            rtnl.set_queue(index, queue, &discipline.name)?;
        }
        match self.found(rtnl, index)? {
            found if found == self.shards.name() => Ok(()),
            found => {
                Err(StartError::DataPath(format!("{name} has {found} although {} was put there", self.shards.name())))
            }
        }
    }

    /// The discipline at the root of a link, with those of its queues where these are several; by name.
    pub(super) fn found(&self, rtnl: &mut Rtnl, index: u32) -> Result<String, Error> {
        let root = rtnl.root_qdisc(index)?.map_or("nothing".into(), |root| root.kind);
        if root != MULTI_QUEUE || !self.shards.are_several() {
            return Ok(root);
        }
        let queues: Vec<String> = rtnl.queue_qdiscs(index)?.into_iter().map(|(_, kind)| kind).collect();
        Ok(format!("{MULTI_QUEUE} with {}", queues.join(", ")))
    }

    /// Whether what a link has is what was put there.
    pub(super) fn is_root(&self, rtnl: &mut Rtnl, index: u32) -> bool {
        self.found(rtnl, index).is_ok_and(|found| found == self.shards.name())
    }
}

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

    /// Makes each program the discipline of a queue. Where one cannot be, the link gets its default back.
    pub(super) fn take_queues(&self, rtnl: &mut Rtnl, index: u32, name: &str) -> Result<(), StartError> {
        let taken = self.put_queues(rtnl, index).and_then(|()| self.found(rtnl, index));
        match taken {
            Ok(found) if found == self.shards.name() => return Ok(()),
            _ => rtnl.clear_qdisc(index)?,
        }
        let found = taken?;
        Err(StartError::DataPath(format!("{name} has {found} although {} was put there", self.shards.name())))
    }

    fn put_queues(&self, rtnl: &mut Rtnl, index: u32) -> Result<(), Error> {
        rtnl.set_multi_queue(index)?;
        (0..).zip(self.shards.all()).try_for_each(|(queue, shard)| rtnl.set_queue(index, queue, &shard.name))
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

    /// Whether a link has what was put there, or some of it.
    pub(super) fn is_root(&self, rtnl: &mut Rtnl, index: u32) -> bool {
        let is_ours = |kind: &String| self.shards.all().iter().any(|shard| shard.name == *kind);
        match rtnl.root_qdisc(index) {
            Ok(Some(root)) if root.kind == MULTI_QUEUE => {
                rtnl.queue_qdiscs(index).is_ok_and(|queues| queues.iter().any(|(_, kind)| is_ours(kind)))
            }
            root => root.ok().flatten().is_some_and(|root| is_ours(&root.kind)),
        }
    }
}

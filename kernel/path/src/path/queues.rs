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
        let queues = shards::transmit_queues(&line.name).ok_or_else(|| {
            StartError::DataPath(format!(
                "/sys/class/net/{0} does not list the queues of {0}: /sys is that of another network namespace, or not mounted; \
                 `ip netns exec` mounts the right one",
                line.name
            ))
        })?;
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

    /// Makes the program the root of a link, or each of several that of a queue. Where one of these cannot be, the link gets its default back.
    pub(super) fn take_root(&self, rtnl: &mut Rtnl, index: u32, name: &str) -> Result<(), StartError> {
        let taken = self.put_root(rtnl, index).and_then(|()| self.found(rtnl, index));
        if taken.as_ref().is_ok_and(|found| found == self.shards.name()) {
            return Ok(());
        }
        if self.shards.are_several() {
            rtnl.clear_qdisc(index)?;
        }
        let (found, meant) = (taken?, self.shards.name());
        Err(StartError::DataPath(format!("the root of {name} is {found} although {meant} was put there")))
    }

    fn put_root(&self, rtnl: &mut Rtnl, index: u32) -> Result<(), Error> {
        if !self.shards.are_several() {
            return rtnl.set_plain(index, self.shards.name());
        }
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
        let is_ours = |kind: &str| self.shards.all().iter().any(|shard| shard.name == kind);
        rtnl.has_qdisc(index, is_ours).unwrap_or_default()
    }
}

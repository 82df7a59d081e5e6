//! [`Hold`]: what leaves by an interface waits while something is exchanged that the kernel exchanges with a loss.
//!
//! When the root discipline of an interface changes, or `clsact` comes or goes, the kernel takes the queues of the interface out of
//! service for some milliseconds (`dev_deactivate`), in which it drops what is sent, and it drops what waits in the earlier
//! discipline. A hold leads what leaves to a queue of NFQUEUE instead, behind the chains of data paths, waits until
//! nothing is on its way any more, and releases it afterwards in the order in which it came. Packets that pass no packet
//! filter (ARP, packet sockets) are not held.
//!
//! Cost: some 20 to 60 ms for two grace periods of RCU, in which what leaves waits; 65,536 packets have room.

use std::thread;
use std::time::{Duration, Instant};

use super::error::StartError;
use super::queue::{Bound, bind};
use crate::nfqueue::release::after_packets_on_their_way;
use crate::nfqueue::{Owners, QueueSettings};
use crate::rtnl::Rtnl;
use crate::rules::{HoldRules, Interface};

/// How long an earlier discipline may take to send what waits in it.
const EMPTYING: Duration = Duration::from_millis(300);

/// Packets that leave by an interface wait until [`end`](Self::end), or until this is dropped.
#[derive(Debug)]
pub struct Hold {
    rules: Option<HoldRules>,
    bound: Bound,
}

impl Hold {
    /// Begins to hold what leaves by an interface; what was on its way to the interface's queue is there afterwards.
    ///
    /// # Errors
    /// When the kernel has no NFQUEUE, or this process may not use it: nothing is held then.
    pub fn begin(rtnl: &mut Rtnl, index: u32) -> Result<Self, StartError> {
        let link = rtnl.link_by_index(index)?.ok_or_else(|| StartError::DataPath("the interface is gone".into()))?;
        let settings = QueueSettings { copy_range: 1, owners: Owners::Omitted, ..QueueSettings::default() };
        let bound = bind(&settings, 1)?.pop().ok_or_else(|| StartError::NoQueue("it has none".into()))?;
        let rules = HoldRules::begin(&Interface { name: link.name, index }, bound.1[0])?;
        after_packets_on_their_way();
        Ok(Self { rules: Some(rules), bound })
    }

    /// Releases what waits, in order, and lets later packets pass.
    ///
    /// # Errors
    /// When the rules could not be changed.
    pub fn end(mut self) -> Result<(), StartError> {
        self.release()
    }

    fn release(&mut self) -> Result<(), StartError> {
        let Some(rules) = self.rules.take() else { return Ok(()) };
        let (socket, queues, _) = &mut self.bound;
        let closed = socket.close(*queues, 0);
        rules.end()?;
        // One that the earlier rules have sent to the queue meanwhile has passed it before it is gone.
        after_packets_on_their_way();
        Ok(closed?)
    }
}

/// Waits until nothing is in the discipline at the root of a link, into which nothing should come meanwhile. What a slow line
/// keeps there for longer than a moment is not waited for.
pub fn wait_until_empty(rtnl: &mut Rtnl, index: u32) {
    let began = Instant::now();
    while rtnl.root_qdisc(index).is_ok_and(|root| root.is_some_and(|root| root.queued_packets > 0))
        && began.elapsed() < EMPTYING
    {
        thread::sleep(Duration::from_millis(1));
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = self.release();
    }
}

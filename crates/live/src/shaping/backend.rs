//! [`Backend`]: a way to queue the packets of interfaces, and what an implementation outside of this crate has to provide.
//!
//! [`Queue`] queues them in this process, which the rules of the packet filter lead there. An [`OffloadBackend`] has a scheduler
//! of the kernel at the root of the interface, which this process only configures and reads; `kernel/path` implements it.
//! [`Shaping`](super::Shaping) does for both what does not depend on where the packets are: it keeps the engines, follows the
//! interfaces, proves that shaping is in force, and exchanges configurations.

use std::collections::BTreeMap;
use std::fmt::Debug;

use tidegate_config::shaper::{Config, Match};
use tidegate_engine::{Names, Offload, PromiseTable, Setup};
use tidegate_units::Bytes;

use super::command::WorkerCounts;
use super::error::StartError;
use super::hold::{Hold, wait_until_empty};
use super::interfaces::InterfaceCounts;
use super::prove::prove_by_traffic;
use super::queue::Queue;
use super::running::Running;
use crate::netlink;
use crate::probe::{Inspection, Version};
use crate::rtnl::{Link, OnLink, Rtnl, Taking};
use crate::rules::Direction;

/// The names of our root disciplines begin with this. It is also the name of our programs at tc.
pub const DISCIPLINE: &str = "tidegate";
/// The kind of the device that has a discipline of ours for what arrives.
pub const DEVICE: &str = "ifb";
/// The kind of one with two ends, by the other of which a program sees what has arrived and waited.
const DEVICE_WITH_ENDS: &str = "veth";

/// Whether a link with a name of ours is a device of ours.
#[must_use]
pub fn is_device(link: &Link) -> bool {
    matches!(link.kind.as_deref(), Some(DEVICE | DEVICE_WITH_ENDS))
}

/// The name of the device where what arrives, or what leaves by several interfaces, waits; the first of these has this index.
pub fn device_name(interface: u32, direction: OnLink) -> String {
    format!("{DISCIPLINE}{interface}{}", if direction == OnLink::Leaving { "u" } else { "" })
}

/// Removes the device for what arrives by an interface, and before that the program that leads packets there. What waits there has a
/// moment to leave. Returns the number of packets that were lost; `None` if there was no device.
///
/// # Errors
/// When the kernel refuses it.
pub fn remove_device(rtnl: &mut Rtnl, interface: u32) -> Result<Option<u32>, netlink::Error> {
    let device = rtnl.link(&device_name(interface, OnLink::Arriving))?.filter(is_device);
    let Some(device) = device else { return Ok(None) };
    if rtnl.link_by_index(interface)?.is_some() {
        let _hold = Hold::begin(rtnl, interface);
        rtnl.remove_program(interface, OnLink::Arriving, DISCIPLINE)?;
        rtnl.remove_clsact(interface)?;
    }
    wait_until_empty(rtnl, device.index);
    let queued = rtnl.root_qdisc(device.index)?.map_or(0, |root| root.queued_packets);
    rtnl.delete_link(device.index)?;
    Ok(Some(queued))
}

/// Removes the device where what leaves by an interface waits together with that of others, if there is one, and the programs that
/// lead packets there. What waits there has a moment to leave. Returns the number of packets that were lost; `None` if there was no
/// device.
///
/// # Errors
/// When the kernel refuses it.
pub fn remove_common_device(rtnl: &mut Rtnl, interface: u32) -> Result<Option<u32>, netlink::Error> {
    let leads = |rtnl: &mut Rtnl, from: u32| -> Result<Option<u32>, netlink::Error> {
        let is_ours = rtnl.program(from, OnLink::Leaving, DISCIPLINE)?.is_some();
        let to = rtnl.takers(from)?.into_iter().find_map(|taker| match taker {
            (OnLink::Leaving, Taking::Redirects(to)) => Some(to),
            _ => None,
        });
        Ok(to.filter(|_| is_ours))
    };
    let Some(device) = leads(rtnl, interface)? else { return Ok(None) };
    for link in rtnl.links()? {
        if leads(rtnl, link.index)? == Some(device) {
            let _hold = Hold::begin(rtnl, link.index);
            rtnl.remove_program(link.index, OnLink::Leaving, DISCIPLINE)?;
            rtnl.remove_clsact(link.index)?;
        }
    }
    if rtnl.link_by_index(device)?.is_none_or(|link| link.kind.as_deref() != Some(DEVICE)) {
        return Ok(Some(0));
    }
    wait_until_empty(rtnl, device);
    let queued = rtnl.root_qdisc(device)?.map_or(0, |root| root.queued_packets);
    rtnl.delete_link(device)?;
    Ok(Some(queued))
}

/// Removes what an earlier run has left in the kernel for a direction of an interface; returns whether there was something. With the
/// lock of the interface no other instance has something there.
pub(super) fn remove_left(interface: u32, direction: Direction) -> Result<bool, netlink::Error> {
    let mut rtnl = Rtnl::open()?;
    if direction == Direction::Ingress {
        let had_device = remove_device(&mut rtnl, interface)?.is_some();
        // That of another interface may be gone.
        let had_program = rtnl.program(interface, OnLink::Arriving, DISCIPLINE)?.is_some();
        rtnl.remove_program(interface, OnLink::Arriving, DISCIPLINE)?;
        return Ok(had_device || had_program);
    }
    let had_device = remove_common_device(&mut rtnl, interface)?.is_some();
    let left = has_discipline(&mut rtnl, interface)?;
    if left {
        clear_root(&mut rtnl, interface)?;
    }
    Ok(left || had_device)
}

/// Whether an interface has a discipline of ours: at its root, or for its queues.
///
/// # Errors
/// When the kernel does not answer.
pub fn has_discipline(rtnl: &mut Rtnl, interface: u32) -> Result<bool, netlink::Error> {
    rtnl.has_qdisc(interface, |kind| kind.starts_with(DISCIPLINE))
}

/// Gives an interface its default discipline, once the one at its root has had a moment to send what waits in it, and removes our
/// program. Returns the number of packets that were lost.
///
/// # Errors
/// When the kernel refuses it.
pub fn clear_root(rtnl: &mut Rtnl, interface: u32) -> Result<u32, netlink::Error> {
    let _hold = Hold::begin(rtnl, interface);
    wait_until_empty(rtnl, interface);
    let queued = rtnl.root_qdisc(interface)?.map_or(0, |root| root.queued_packets);
    rtnl.remove_program(interface, OnLink::Leaving, DISCIPLINE)?;
    rtnl.clear_qdisc(interface)?;
    rtnl.remove_clsact(interface)?;
    Ok(queued)
}

/// A way to queue packets.
pub trait Backend: Debug + Send + Sync {
    /// The name of the discipline at the root of the interface, for packets that are queued in the kernel.
    fn discipline(&self) -> Option<&str> {
        None
    }

    /// Reads the installation back.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn inspect(&mut self) -> Result<Inspection, netlink::Error>;

    /// Proves that shaping is in force, and notes it with the interfaces. By default packets that leave are the proof.
    ///
    /// # Errors
    /// [`StartError::Unproven`] when it is not.
    fn prove(&mut self, running: &mut Running) -> Result<(), StartError> {
        prove_by_traffic(running, &self.inspect()?)
    }

    /// Tries to complete the proof without waiting for traffic; returns the protocols that are proven now, with the
    /// interface.
    ///
    /// # Errors
    /// [`StartError::Unproven`] when a probe was sent and lost.
    fn prove_again(&mut self, _running: &mut Running) -> Result<Vec<(String, Version)>, StartError> {
        Ok(Vec::new())
    }

    /// The numbers that packets have for the interfaces that rules name, where these are not those of their names, as
    /// [`Names::interfaces`] has them.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn interfaces(&self, _config: &Config) -> Result<BTreeMap<String, u64>, netlink::Error> {
        Ok(BTreeMap::new())
    }

    /// Makes another configuration ready, and returns the users, control groups and interfaces that it names. A change goes on with
    /// [`begin_change`](Self::begin_change), the exchange of the engines' configurations, and
    /// [`finish_change`](Self::finish_change).
    ///
    /// # Errors
    /// Why it cannot be had without a new start.
    fn prepare(&mut self, config: &Config) -> Result<Names, StartError>;

    /// Does the part of a change that has to precede the exchange of the engines' configurations. The rules have these `names` after
    /// it.
    ///
    /// # Errors
    /// When the packet filter refuses it.
    fn begin_change(&mut self, _running: &Running, _names: &Names) -> Result<(), StartError> {
        Ok(())
    }

    /// Does the part of a change that has to follow the exchange.
    fn finish_change(&mut self) {}

    /// Ends a change that has failed: `config`, the earlier configuration, whose rules have these `names`, is in force again afterwards.
    ///
    /// # Errors
    /// When that fails, too.
    fn revert(&mut self, config: &Config, names: &Names) -> Result<(), StartError>;

    /// Puts the rules of `config`, the configuration in force, in force with other names. A backend whose engines classify has nothing
    /// to do.
    ///
    /// # Errors
    /// When the rules cannot be had; the earlier ones stay in force then.
    fn renew_rules(&mut self, _config: &Config, _names: &Names) -> Result<(), StartError> {
        Ok(())
    }

    /// Follows the interface at `at`, which has another name or another index.
    ///
    /// # Errors
    /// When it cannot be shaped; everything is as before then.
    fn follow(&mut self, at: usize, name: &str, index: u32, running: &Running) -> Result<(), StartError>;

    /// Ends shaping: queued packets pass in order, and the backend removes everything that it has installed.
    ///
    /// # Errors
    /// When something could not be removed, or the data path had failed before.
    fn end(&mut self, running: &mut Running) -> Result<WorkerCounts, StartError>;

    /// Whether flows are told apart, so that they can be promised rate and watched.
    fn has_flows(&self) -> bool {
        true
    }

    /// Why nothing can be promised to flows although they are told apart; `None` where it can be.
    fn without_promises(&self) -> Option<&'static str> {
        None
    }

    /// Whether there is room for these conditions of promises and watches.
    ///
    /// # Errors
    /// The numbers in use and the limits.
    fn check_promises(&self, _table: &PromiseTable) -> Result<(), String> {
        Ok(())
    }

    /// Whether there is room for a reservation of packets with these conditions.
    ///
    /// # Errors
    /// The condition that is not known, or the room that is missing.
    fn check_reservation(&self, _matches: &Match) -> Result<(), String> {
        Ok(())
    }

    /// The queues of this process, their rules and guardians, where packets come here.
    fn queue(&self) -> Option<&Queue> {
        None
    }
    /// As [`queue`](Self::queue).
    fn queue_mut(&mut self) -> Option<&mut Queue> {
        None
    }
}

/// A scheduler outside of this process, at the root of an interface. Dropping it removes it.
pub trait OffloadBackend: Backend {
    /// Puts the scheduler in force at the interfaces, by name and index; one without an index is missing, and may return
    /// ([`follow`](Backend::follow)). Returns notes for people.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left behind then.
    fn attach(
        &mut self,
        interfaces: &[(String, Option<u32>)],
        config: &Config,
        setup: &Setup,
    ) -> Result<Vec<String>, StartError>;

    /// Access to its counters, for the thread that reads them.
    fn counters(&self) -> Box<dyn OffloadCounters>;

    /// The longest packet that it sends whole, once it is attached.
    fn longest_packet(&self) -> Bytes {
        Bytes::ZERO
    }
}

/// The scheduler as the thread sees it that mirrors its counters.
pub trait OffloadCounters: Offload + Send {
    /// Tells the scheduler that this process is alive. Called several times a second.
    fn renew(&mut self);
    /// Whether the owners of flows are told of their queues.
    fn feeds_back(&self) -> bool;
    /// Whether queues have crossed thresholds of feedback since flows were read. It costs as much as reading a number.
    fn has_events(&self) -> bool;
    /// The packets of each of several interfaces, in the order of the configuration; nothing of a single one, whose are all.
    fn interfaces(&self) -> Vec<InterfaceCounts> {
        Vec::new()
    }
    /// Whether a packet of the protocol has left.
    fn has_sent(&self, version: Version) -> bool;
}

/// Schedulers that were made ready while the process had the privileges for it, or are being made ready by a thread that has them.
pub trait OffloadProvider: Debug + Send + Sync {
    /// One for `config` that is not in use.
    ///
    /// # Errors
    /// [`StartError::NotInKernel`] with what of `config` it cannot do, [`StartError::KernelLoading`] or [`StartError::NoKernelProgram`].
    fn take(&self, config: &Config) -> Result<Box<dyn OffloadBackend>, StartError>;

    /// The number of schedulers that are being made ready. [`take`](Self::take) may have another answer when it has changed.
    fn loading(&self) -> usize {
        0
    }
}

//! Whether what goes by the interface comes through the queue: the counters of the one against those of the other.
//!
//! The proof at the start is a probe of our own. What the network sends, or another part of the kernel, may still pass
//! us by: XDP and flow tables take packets before the packet filter sees them, a bridge or a VLAN on top gives them
//! another interface. Then the rules are in place, the queue is served, and nothing is shaped.
//!
//! *Law*: a finding is made of at least [`PLENTY`] of link traffic, or of [`ENOUGH`] within [`WINDOW`]; packets are past
//! the queue when less than half of the bytes came through it. What waited in the queue at the beginning counts as come
//! through, so that a queue that empties after its senders have ended is no finding.
//! *Notes*: ARP and other protocols than IP never come here: below 3 kB/s they are no finding. Frames for others count
//! on an interface that is promiscuous.

use std::time::{Duration, Instant as Clock};

use tidegate_core::Qdisc;

use super::Shaping;
use crate::netlink;
use crate::rtnl::Rtnl;
use crate::rules::Direction;

/// So many bytes are judged at once.
const PLENTY: u64 = 64_000;
/// Fewer are judged after this time.
const WINDOW: Duration = Duration::from_secs(10);
/// Still fewer are not judged at all.
const ENOUGH: u64 = 32_000;
/// What a link header adds to a packet in the interface's counters.
pub(super) const LINK_HEADER: u64 = 14;

/// What went by the interface for a while, and what of it came through the queue, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passage {
    /// What the interface counted.
    pub carried: u64,
    /// What came through the queue, or waited there at the beginning.
    pub through: u64,
}

impl Passage {
    /// Whether most of it did not come through the queue: it is not shaped.
    pub const fn is_past(&self) -> bool {
        self.through < self.carried / 2
    }
}

/// Compares two counters.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Watch(Option<Baseline>);

#[derive(Clone, Copy, Debug)]
struct Baseline {
    at: Clock,
    carried: u64,
    through: u64,
    waiting: u64,
}

impl Watch {
    /// At `at` the interface has counted `carried` bytes, the queue `through`, of which `waiting` wait.
    fn look(&mut self, at: Clock, carried: u64, through: u64, waiting: u64) -> Option<Passage> {
        let fresh = Baseline { at, carried, through, waiting };
        let before = *self.0.get_or_insert(fresh);
        let (Some(carried), Some(through)) = (carried.checked_sub(before.carried), through.checked_sub(before.through))
        else {
            // Another interface of the same name: it counts from zero.
            self.0 = Some(fresh);
            return None;
        };
        let over = at.saturating_duration_since(before.at) >= WINDOW;
        if carried < PLENTY && !over {
            return None;
        }
        self.0 = Some(fresh);
        (carried >= ENOUGH).then_some(Passage { carried, through: through + before.waiting })
    }
}

impl Shaping {
    /// What went by the interface since the last finding, once there is enough of it to judge by. To be asked every
    /// second or two, in the network namespace of the interface.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn passage(&mut self) -> Result<Option<Passage>, netlink::Error> {
        // What a lifeline has let go passes us by, and that was said.
        let Some(link) = Rtnl::open()?.link(&self.interface)?.filter(|_| !self.pulse.is_abandoned()) else {
            self.passage = Watch::default();
            return Ok(None);
        };
        let carried = match self.direction {
            Direction::Ingress => link.statistics.rx_bytes,
            Direction::Egress => link.statistics.tx_bytes,
        };
        // Asked and read after the interface, so that what comes in between counts in our favour. The answer also says that
        // the data path has taken what came before.
        let Ok(waiting) = self.with(|engine, _| engine.tree().backlog().bytes.as_u64()) else {
            // That it does not answer is not ours to tell.
            self.passage = Watch::default();
            return Ok(None);
        };
        let waiting = if self.direction == Direction::Egress { waiting } else { 0 };
        Ok(self.passage.look(Clock::now(), carried, self.seen.bytes(), waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_needs_enough_to_judge_by() {
        let start = Clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut watch = Watch::default();
        assert_eq!(watch.look(at(0), 1_000, 5, 0), None, "the beginning");
        assert_eq!(watch.look(at(2), 60_000, 5, 0), None, "59 kB in 2 s are too few");
        // 100 kB, of which nothing came.
        let past = watch.look(at(4), 101_000, 5, 0).unwrap();
        assert_eq!(past, Passage { carried: 100_000, through: 0 });
        assert!(past.is_past());
        // Half is enough: headers weigh differently in the two counters.
        assert!(!watch.look(at(6), 201_000, 50_005, 0).unwrap().is_past());
        assert!(watch.look(at(8), 301_000, 100_004, 0).unwrap().is_past());
        // After the window 32 kB are enough, and less is forgotten.
        assert_eq!(watch.look(at(17), 340_000, 100_004, 0), None);
        assert!(watch.look(at(18), 340_000, 100_004, 0).unwrap().is_past());
        assert_eq!(watch.look(at(28), 360_000, 100_004, 0), None);
        assert_eq!(watch.look(at(30), 380_000, 100_004, 0), None, "the 20 kB before do not count any more");
    }

    #[test]
    fn what_waited_counts_and_a_new_interface_begins_anew() {
        let at = Clock::now();
        let mut watch = Watch::default();
        watch.look(at, 0, 200_000, 150_000);
        // The senders have ended, and the queue empties.
        assert!(!watch.look(at, 150_000, 200_000, 0).unwrap().is_past());
        assert!(watch.look(at, 300_000, 200_000, 0).unwrap().is_past());
        assert_eq!(watch.look(at, 70_000, 200_000, 0), None, "the counter went back");
        assert!(!watch.look(at, 140_000, 270_000, 0).unwrap().is_past());
    }
}

//! Compares the interface's counters with the queue's, to detect traffic that bypasses the queue.
//!
//! The proof at the start uses probes. Other traffic may still bypass the queue: XDP and flow tables take packets
//! before the packet filter sees them, and a bridge or a VLAN on top assigns them another interface. Then the rules are
//! in place, the queue is served, and nothing is shaped.
//!
//! *Law*: a measurement covers at least [`PLENTY`] bytes of link traffic, or [`ENOUGH`] within [`WINDOW`]; the queue is
//! bypassed when less than half of the bytes came through it. Bytes that were queued at the beginning count as come
//! through, so that a queue that empties after its senders have ended is not reported.
//! *Notes*: ARP and other protocols than IP are never queued: below 3 kB/s they are not reported. Frames for other
//! hosts count on an interface that is promiscuous.

use std::time::{Duration, Instant as Clock};

/// The bytes that suffice for a measurement at once.
const PLENTY: u64 = 64_000;
/// The time after which fewer bytes suffice.
const WINDOW: Duration = Duration::from_secs(10);
/// The least bytes of a measurement.
const ENOUGH: u64 = 32_000;

/// The bytes that the interface carried during a measurement, and how many of them came through the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coverage {
    /// The bytes that the interface counted.
    pub carried: u64,
    /// The bytes that came through the queue, or were queued at the beginning.
    pub through: u64,
}

impl Coverage {
    /// Whether most of the traffic bypassed the queue and is not shaped.
    pub const fn is_bypassed(&self) -> bool {
        self.through < self.carried / 2
    }
}

/// Compares the counters of the interface and the queue over time.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Monitor(Option<Baseline>);

#[derive(Clone, Copy, Debug)]
struct Baseline {
    at: Clock,
    carried: u64,
    through: u64,
    waiting: u64,
    takeovers: u64,
}

impl Monitor {
    /// Adds a sample: at `at` the interface has counted `carried` bytes and the queue `through`, of which `waiting` are
    /// queued; guardians have taken the turn `takeovers` times. A measurement in which one did so is given up: it let packets pass.
    pub fn sample(
        &mut self,
        at: Clock,
        carried: u64,
        (through, waiting): (u64, u64),
        takeovers: u64,
    ) -> Option<Coverage> {
        let fresh = Baseline { at, carried, through, waiting, takeovers };
        let before = *self.0.get_or_insert(fresh);
        if before.takeovers != takeovers {
            self.0 = Some(fresh);
            return None;
        }
        let (Some(carried), Some(through)) = (carried.checked_sub(before.carried), through.checked_sub(before.through))
        else {
            // Another interface of the same name, whose counters began at zero.
            self.0 = Some(fresh);
            return None;
        };
        let over = at.saturating_duration_since(before.at) >= WINDOW;
        if carried < PLENTY && !over {
            return None;
        }
        self.0 = Some(fresh);
        (carried >= ENOUGH).then_some(Coverage { carried, through: through + before.waiting })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_needs_enough_traffic() {
        let start = Clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut watch = Monitor::default();
        assert_eq!(watch.sample(at(0), 1_000, (5, 0), 0), None, "the beginning");
        assert_eq!(watch.sample(at(2), 60_000, (5, 0), 0), None, "59 kB in 2 s are too few");
        // 100 kB, of which nothing came through.
        let past = watch.sample(at(4), 101_000, (5, 0), 0).unwrap();
        assert_eq!(past, Coverage { carried: 100_000, through: 0 });
        assert!(past.is_bypassed());
        // Half is enough: headers weigh differently in the two counters.
        assert!(!watch.sample(at(6), 201_000, (50_005, 0), 0).unwrap().is_bypassed());
        assert!(watch.sample(at(8), 301_000, (100_004, 0), 0).unwrap().is_bypassed());
        // After the window 32 kB are enough, and less is forgotten.
        assert_eq!(watch.sample(at(17), 340_000, (100_004, 0), 0), None);
        assert!(watch.sample(at(18), 340_000, (100_004, 0), 0).unwrap().is_bypassed());
        assert_eq!(watch.sample(at(28), 360_000, (100_004, 0), 0), None);
        assert_eq!(watch.sample(at(30), 380_000, (100_004, 0), 0), None, "the 20 kB before do not count any more");
    }

    #[test]
    fn traffic_that_a_guardian_lets_pass_is_no_bypass() {
        let at = Clock::now();
        let mut watch = Monitor::default();
        watch.sample(at, 0, (0, 0), 0);
        assert_eq!(watch.sample(at, 500_000, (0, 0), 1), None);
        assert!(watch.sample(at, 1_000_000, (0, 0), 1).unwrap().is_bypassed(), "after its turn");
    }

    #[test]
    fn queued_bytes_count_and_a_new_interface_restarts_the_measurement() {
        let at = Clock::now();
        let mut watch = Monitor::default();
        watch.sample(at, 0, (200_000, 150_000), 0);
        // The senders have ended, and the queue empties.
        assert!(!watch.sample(at, 150_000, (200_000, 0), 0).unwrap().is_bypassed());
        assert!(watch.sample(at, 300_000, (200_000, 0), 0).unwrap().is_bypassed());
        assert_eq!(watch.sample(at, 70_000, (200_000, 0), 0), None, "the counter went back");
        assert!(!watch.sample(at, 140_000, (270_000, 0), 0).unwrap().is_bypassed());
    }
}

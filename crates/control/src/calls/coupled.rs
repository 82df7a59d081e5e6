//! The coupled queues of DualPI2, in `status`, `classes`, `flows` and `explain`.

use serde::{Deserialize, Serialize};
use tidegate_units::Span;

use super::Flow;
use super::observation::{QueueFields, Queued};
use crate::quantities::ns;

/// The queues of DualPI2 (RFC 9332), with their counts since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CoupledQueues {
    /// L: packets of ECT(1), CE and NQB.
    pub low_latency: CoupledQueue,
    /// C: all others.
    pub classic: CoupledQueue,
    /// Packets of L that queue protection (RFC 9957) lets wait with those of C.
    pub sanctioned: CoupledQueue,
    /// The coupled probability with which L marks at least, in millionths.
    pub coupled_ppm: u64,
    /// The probability with which C marks or drops, in millionths.
    pub classic_ppm: u64,
    /// The flows under sanction now; none of the kernel path, which does not list them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<Flow>,
}

/// One of the queues of DualPI2.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CoupledQueue {
    /// The packets that wait.
    #[serde(flatten, with = "QueueFields")]
    pub queue: Queued,
    /// The wait of the oldest of them.
    #[serde(rename = "delay_ns", with = "ns")]
    pub delay: Span,
    /// The mean wait of the packets that were sent: in an observation of the last second, otherwise since the start.
    #[serde(rename = "wait_mean_ns", with = "ns")]
    pub wait: Span,
    /// The sum of the waits of all packets that were sent.
    #[serde(rename = "wait_sum_ns", with = "ns")]
    pub waited: Span,
    /// Packets that were put into it.
    pub enqueued_packets: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets of these that were marked congestion experienced.
    pub marked_packets: u64,
    /// Packets dropped by a probability.
    pub dropped_packets: u64,
}

impl CoupledQueue {
    /// Returns the same with the mean wait since `earlier`, or zero where nothing was sent.
    pub fn since(self, earlier: &Self) -> Self {
        let sum = self.waited.as_nanos().saturating_sub(earlier.waited.as_nanos());
        let sent = self.sent_packets.saturating_sub(earlier.sent_packets);
        Self { wait: Span::from_nanos(sum.checked_div(sent).unwrap_or(0)), ..self }
    }
}

impl CoupledQueues {
    /// Returns the same with the mean waits since `earlier`.
    pub fn since(self, earlier: &Self) -> Self {
        Self {
            low_latency: self.low_latency.since(&earlier.low_latency),
            classic: self.classic.since(&earlier.classic),
            sanctioned: self.sanctioned.since(&earlier.sanctioned),
            ..self
        }
    }
    /// Returns each queue with its name and the probability of its control law, where it has one of its own.
    pub fn each(&self) -> [(&'static str, CoupledQueue, Option<u64>); 3] {
        [
            ("low-latency", self.low_latency, Some(self.coupled_ppm)),
            ("classic", self.classic, Some(self.classic_ppm)),
            ("sanctioned", self.sanctioned, None),
        ]
    }
}

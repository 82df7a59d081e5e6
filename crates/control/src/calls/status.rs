//! `status`: the state of the shaper and the counts of its classes.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Rate, Span};

use super::coupled::CoupledQueues;
use super::observation::{HeldBy, QueueFields, Queued};
use crate::quantities::{bps, bytes, is_zero, ns};

/// The request `status`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusQuery {}

/// The state of the shaper, at most 20 ms old.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The version of the program.
    pub version: String,
    /// Process number of the daemon.
    pub pid: u32,
    /// Number of its network namespace (the inode of `/proc/PID/ns/net`); absent from daemons of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_namespace: Option<u64>,
    /// Name of the shaped interface; of several the names with ` + ` between them.
    pub interface: String,
    /// Path of the shaper file; `-` for standard input.
    pub file: String,
    /// The time since the start of the daemon.
    #[serde(rename = "uptime_ns", with = "ns")]
    pub uptime: Span,
    /// Whether shaping is in force; `false` while traffic passes unshaped, for the reason in `trouble`.
    pub in_force: bool,
    /// Why shaping is not in force, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The time left of the trial of a change, which is then taken back unless it is confirmed; none without a trial.
    #[serde(rename = "trial_ns", with = "ns::option", default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Span>,
    /// The privileges of the daemon's process, of all threads together; absent where they cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privileges: Option<PrivilegeStatus>,
    /// The shaped directions: egress, ingress, or both.
    pub directions: Vec<DirectionStatus>,
    /// The counters of the control socket.
    pub control: ControlStatus,
}

/// A rule with a quota.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QuotaStatus {
    /// The number of the rule, from 1.
    pub rule: u32,
    /// Its name, or its conditions.
    pub label: String,
    /// Names the count. Rules with the same one share it, as the two directions of a rule that is for both.
    #[serde(default)]
    pub count: String,
    /// Bytes that it has taken since the period began. They exceed the quota by those that arrived before it was switched off, at most
    /// two seconds' traffic.
    #[serde(rename = "used_bytes", with = "bytes")]
    pub used: Bytes,
    /// Bytes that are left of the quota.
    #[serde(rename = "left_bytes", with = "bytes")]
    pub left: Bytes,
    /// The quota of a period.
    #[serde(rename = "quota_bytes", with = "bytes")]
    pub quota: Bytes,
    /// `day`, `week` or `month`.
    pub period: String,
    /// The date on which it begins anew, at midnight in the time zone of the host.
    pub next: String,
    /// That moment, in seconds since 1970; absent where the clock of the host has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_s: Option<u64>,
}

/// A rule that holds at some times only.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TimedRuleStatus {
    /// The number of the rule, from 1.
    pub rule: u32,
    /// Its name, or its conditions.
    pub label: String,
    /// Whether it is the time of the rule.
    pub holds: bool,
    /// When this changes next, as `fri 18:00` in the time zone of the host; absent where it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// The ceilings that the configuration sets for a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ceilings {
    /// The ceiling of the class, `at-most`.
    #[serde(rename = "at_most_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Rate>,
    /// The ceiling of each of its hosts, `host-at-most`.
    #[serde(rename = "host_at_most_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Rate>,
    /// The ceiling of each of its flows, `flow-at-most`.
    #[serde(rename = "flow_at_most_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Rate>,
}

impl QuotaStatus {
    /// Whether the rule matches nothing until the next period, because nothing is left.
    pub fn is_used_up(&self) -> bool {
        self.left == Bytes::ZERO
    }
}

/// A name in a rule, and the addresses that it has now.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NameStatus {
    /// The number of the rule, from 1.
    pub rule: u32,
    /// The key of the rule: `host-name`, `dns-name` or `mac`.
    pub key: String,
    /// The name as the file has it.
    pub name: String,
    /// Its addresses, in order; empty while none is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
}

/// The privileges of a process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PrivilegeStatus {
    /// Its capabilities, as `CAP_NET_ADMIN`.
    pub capabilities: Vec<String>,
    /// Capabilities that a program which it runs could have beside these, if `no_new_privs` did not prevent it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub obtainable: Vec<String>,
    /// Whether it gains no privileges by running a program.
    pub no_new_privs: bool,
    /// Whether system calls are filtered.
    pub filtered: bool,
}

/// One direction of the traffic.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DirectionStatus {
    /// `up` for egress, `down` for ingress.
    pub name: String,
    /// The rate of all classes together.
    #[serde(rename = "rate_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The interfaces whose traffic shares the rate and the classes, in the order of the file; empty while there is no
    /// data path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceStatus>,
    /// Protocols that are not proven to be shaped, because no packet of them has come through yet, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unproven: Vec<String>,
    /// Packets that pass an interface and are not shaped here, because of what is stacked on it or of a flow table, each with the
    /// remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unshaped: Vec<String>,
    /// The rules that hold at some times only, each with whether it holds now and until when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timed_rules: Vec<String>,
    /// The rules with a quota, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaStatus>,
    /// The names in rules whose addresses change, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<NameStatus>,
    /// The discipline in the kernel that queues packets; absent where they are queued in user space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_kernel: Option<String>,
    /// Whether the kernel path is being loaded, to which the traffic moves then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaits_kernel: bool,
    /// Packets that the kernel dropped while they waited, because a chain of the packet filter, the interface or their route was
    /// removed. They count as sent as well.
    #[serde(default)]
    pub kernel_dropped_packets: u64,
    /// In the order of the file; empty while there is no data path.
    pub classes: Vec<ClassStatus>,
    /// The classes of CBQ in the sharing of the link, inner classes included: the root first, each class before its children.
    /// Empty for another discipline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_classes: Vec<SharedClassStatus>,
    /// The guardian, which lets packets pass when the shaper cannot; absent where none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guardian: Option<GuardianStatus>,
    /// The rate that follows the line; absent where the rate is constant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<FollowStatus>,
}

/// A rate that follows the line.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FollowStatus {
    /// The allowed rate now.
    #[serde(rename = "allowed_bps", with = "bps")]
    pub allowed: Rate,
    /// The rate is never lower.
    #[serde(rename = "least_bps", with = "bps")]
    pub least: Rate,
    /// The rate at the start, when idle and without signals.
    #[serde(rename = "base_bps", with = "bps")]
    pub base: Rate,
    /// The rate is never higher.
    #[serde(rename = "most_bps", with = "bps")]
    pub most: Rate,
    /// The rate that was carried lately.
    #[serde(rename = "achieved_bps", with = "bps")]
    pub achieved: Rate,
    /// The delay of the line's queue, where peers have answered lately.
    #[serde(rename = "delay_ns", with = "ns::option", default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// The least round trip of the last minute.
    #[serde(rename = "floor_ns", with = "ns::option", default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Span>,
    /// The number of peers that have answered within 300 ms.
    pub peers: u64,
    /// The number of probes sent.
    pub probes: u64,
    /// The number of changes of the rate.
    pub changes: u64,
    /// The cause of the last change: `start`, `quiet`, `delay`, `drain`, `silent`, `blind` or `idle`.
    pub cause: String,
    /// The cause as a sentence.
    pub reason: String,
    /// How long ago the rate changed last.
    #[serde(rename = "changed_ns", with = "ns")]
    pub changed: Span,
    /// The last changes, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<FollowDecision>,
}

/// A change of a rate that follows the line.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FollowDecision {
    /// How long ago it was.
    #[serde(rename = "ago_ns", with = "ns")]
    pub ago: Span,
    /// The rate before.
    #[serde(rename = "from_bps", with = "bps")]
    pub from: Rate,
    /// The rate after.
    #[serde(rename = "to_bps", with = "bps")]
    pub to: Rate,
    /// The cause, as in [`FollowStatus::cause`].
    pub cause: String,
    /// The rate that was carried before it.
    #[serde(rename = "achieved_bps", with = "bps")]
    pub achieved: Rate,
    /// The delay that was known, if any.
    #[serde(rename = "delay_ns", with = "ns::option", default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
}

/// One of the interfaces of a direction.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct InterfaceStatus {
    /// Its name.
    pub name: String,
    /// Whether it is there; it is shaped again when it returns.
    pub present: bool,
    /// Whether it is there and down, so that nothing passes by it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub down: bool,
    /// Packets of it that were sent since the data path was started.
    pub sent_packets: u64,
    /// Their bytes, from the network header on.
    #[serde(with = "bytes")]
    pub sent_bytes: Bytes,
    /// Packets of it that were dropped.
    pub dropped_packets: u64,
}

/// The guardian of a direction.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GuardianStatus {
    /// Number of its process; absent while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// How often it let packets pass, since the first of the shapers that took over from each other.
    pub takeovers: u64,
    /// Packets that arrived meanwhile.
    pub passed_packets: u64,
    /// How often another guardian was started in its place.
    pub restarts: u64,
    /// Whether its memory is locked.
    pub locked: bool,
    /// Whether it is scheduled before the data path.
    pub real_time: bool,
    /// Whether it has given up all privileges that it does not need.
    pub restricted: bool,
    /// Whether a restart or another version can take over through it.
    pub reachable: bool,
}

/// The counts of a class, since the start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClassStatus {
    /// The name of the class.
    pub name: String,
    /// The rate that the configuration promises to the class; none where its discipline promises none.
    #[serde(rename = "rate_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The rate that could still be promised to flows.
    #[serde(rename = "unpromised_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub unpromised: Option<Rate>,
    /// Its ceilings.
    #[serde(flatten)]
    pub ceilings: Ceilings,
    /// Flows present, where its discipline knows flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u64>,
    /// Packets that the rules put into it.
    pub enqueued_packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub enqueued_bytes: Bytes,
    /// Packets sent through it, including flows that were displaced to it.
    pub through_packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub through_bytes: Bytes,
    /// The backlog.
    #[serde(flatten, with = "QueueFields")]
    pub queue: Queued,
    /// The ceiling that all of its packets wait for; none while one may leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<HeldBy>,
    /// Drops by reason; reasons without a drop are absent.
    pub dropped: Vec<DropCount>,
    /// Packets marked congestion experienced.
    pub marked_packets: u64,
    /// Packets sent with another code point than they arrived with.
    pub remarked_packets: u64,
    /// QUIC datagrams into which a rate was written as advice; absent where there were none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub advised_packets: u64,
    /// The median wait.
    #[serde(rename = "wait_p50_ns", with = "ns")]
    pub wait_p50: Span,
    /// The 99th percentile of the waits.
    #[serde(rename = "wait_p99_ns", with = "ns")]
    pub wait_p99: Span,
    /// The coupled queues of DualPI2; absent where its discipline is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coupled: Option<CoupledQueues>,
}

/// A class of CBQ in the sharing of the link, with its counts since its tree was built.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SharedClassStatus {
    /// Its name; `root` for the link.
    pub name: String,
    /// The name of the class above it; absent for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The rate that it is guaranteed.
    #[serde(rename = "rate_bps", with = "bps")]
    pub rate: Rate,
    /// Packets that it or its descendants sent.
    pub sent_packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub sent_bytes: Bytes,
    /// Packets that it sent while it was over its limit, with rate of a class above it. Only a class with a queue borrows.
    pub borrowed_packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub borrowed_bytes: Bytes,
    /// Packets that classes below it sent with its rate. Only a class with children lends.
    pub lent_packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub lent_bytes: Bytes,
    /// Packets that it sent although no class had rate left, because the link would have been idle (`conserving`).
    #[serde(default)]
    pub rescued_packets: u64,
    /// Packets after which it was over its limit.
    pub overlimit_packets: u64,
    /// How often it was suspended: over its limit with a packet waiting and no class to borrow from.
    pub regulated: u64,
    /// The time until its under-time, when it is below its limit again; absent while it is not over its limit.
    #[serde(rename = "under_time_ns", with = "ns::option", default, skip_serializing_if = "Option::is_none")]
    pub under_time: Option<Span>,
    /// The average idle time in nanoseconds, negative when it was faster than its rate (`accounting = "idle-time"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_idle_ns: Option<i64>,
    /// The bytes that it may send at once, negative when it owes some (`accounting = "bytes"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_bytes: Option<i64>,
}

/// Drops for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DropCount {
    /// Name of a drop reason.
    pub reason: String,
    /// Number of packets.
    pub packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub bytes: Bytes,
}

/// Counters of the control socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ControlStatus {
    /// Connections open.
    pub clients: u64,
    /// Subscriptions of all connections.
    pub subscriptions: u64,
    /// Requests received.
    pub requests: u64,
    /// Requests refused.
    pub refused: u64,
    /// Connections refused, or closed because of a limit.
    pub cut: u64,
    /// Notifications sent.
    pub pushes: u64,
    /// Notifications lost because clients did not read in time.
    pub lost: u64,
}

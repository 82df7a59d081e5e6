//! `status`: what is in force, and what it did.

use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Rate, Span};

use crate::quantities::{bps, bytes, ns};

/// Asks what is in force. Everybody may.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusQuery {}

/// What is in force. At most 20 ms old.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The version of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// The interface.
    pub interface: String,
    /// The shaper file.
    pub file: String,
    /// Since the start.
    #[serde(rename = "uptime_ns", with = "ns")]
    pub uptime: Span,
    /// Whether shaping is in force; `false` while traffic passes unshaped, and `trouble` says why.
    pub in_force: bool,
    /// What is wrong at the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// How long a change is still on trial; none when none is. It goes back then unless it is confirmed.
    #[serde(rename = "trial_ns", with = "ns::option", default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Span>,
    /// What is shaped: traffic that leaves, traffic that comes, or both.
    pub directions: Vec<DirectionStatus>,
    /// The socket itself.
    pub control: ControlStatus,
}

/// One direction of the traffic.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DirectionStatus {
    /// `up` for what leaves, `down` for what comes.
    pub name: String,
    /// The total.
    #[serde(rename = "rate_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Protocols of which no packet has come through yet, each with the reason: whether they are shaped is not proven.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unproven: Vec<String>,
    /// Its classes.
    pub classes: Vec<ClassStatus>,
}

/// One class.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// What it is promised; none where its discipline promises nothing.
    #[serde(rename = "rate_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// What could still be promised to flows.
    #[serde(rename = "unpromised_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub unpromised: Option<Rate>,
    /// Flows present, where its discipline knows flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u64>,
    /// Packets that the rules put into it.
    pub enqueued_packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub enqueued_bytes: Bytes,
    /// Packets that left through it, flows that were displaced to it included.
    pub through_packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub through_bytes: Bytes,
    /// What waits.
    pub queue_packets: u64,
    /// Its bytes.
    #[serde(with = "bytes")]
    pub queue_bytes: Bytes,
    /// Drops, by reason; reasons without a drop are left out.
    pub dropped: Vec<DropCount>,
    /// Packets marked congestion experienced.
    pub marked_packets: u64,
    /// Packets that left with another code point than they came with.
    pub remarked_packets: u64,
    /// The wait that half of the packets did not exceed.
    #[serde(rename = "wait_p50_ns", with = "ns")]
    pub wait_p50: Span,
    /// The wait that 99 of 100 did not exceed.
    #[serde(rename = "wait_p99_ns", with = "ns")]
    pub wait_p99: Span,
}

/// Drops for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DropCount {
    /// The reason.
    pub reason: String,
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub bytes: Bytes,
}

/// What the socket counts about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ControlStatus {
    /// Clients connected.
    pub clients: u64,
    /// Subscriptions.
    pub subscriptions: u64,
    /// Requests so far.
    pub requests: u64,
    /// Of them, refused.
    pub refused: u64,
    /// Clients that were turned away or cut.
    pub cut: u64,
    /// Pushes written.
    pub pushes: u64,
    /// Pushes that clients did not read in time.
    pub lost: u64,
}

//! `reserve`, `refresh`, `unreserve` and `reservations`: a class under CBQ for a single flow.

use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Rate, Span};

use crate::quantities::{bps, bytes, ns};

/// The request `reserve`. The reservation ends with the connection, or after `for_ns`; without `for_ns` it must be refreshed
/// before it expires. For a user who is not root it applies to packets of that user.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserve {
    /// The direction, where more than one is shaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// The name of the class. Default: one with a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Conditions on its packets: keys and values as in a rule, such as `["destination-port", "5004"]`.
    pub matches: Vec<(String, String)>,
    /// Token rate r (RFC 2210).
    #[serde(rename = "rate_bps", with = "bps")]
    pub rate: Rate,
    /// Bucket b. Default: two of the largest packets.
    #[serde(rename = "bucket_bytes", default, with = "bytes::option", skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bytes>,
    /// Peak rate p. Default: that of the link.
    #[serde(rename = "peak_bps", default, with = "bps::option", skip_serializing_if = "Option::is_none")]
    pub peak: Option<Rate>,
    /// Minimum policed unit m. Default: 64 bytes.
    #[serde(rename = "min_unit_bytes", default, with = "bytes::option", skip_serializing_if = "Option::is_none")]
    pub min_unit: Option<Bytes>,
    /// Maximum packet size M. Default: the link's.
    #[serde(rename = "max_packet_bytes", default, with = "bytes::option", skip_serializing_if = "Option::is_none")]
    pub max_packet: Option<Bytes>,
    /// Whether a bound on the delay is required (RFC 2212), and not the rate alone (RFC 2211).
    #[serde(default)]
    pub guaranteed: bool,
    /// The required bound on the delay; as much rate is reserved as it needs.
    #[serde(rename = "delay_ns", default, with = "ns::option", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// The reservation lasts for this time, also without the connection.
    #[serde(rename = "for_ns", default, with = "ns::option", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
}

/// A reservation in force.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reserved {
    /// Its number, for `refresh` and `unreserve`.
    pub reservation: u64,
    /// The name of its class in `status`.
    pub name: String,
    /// The conditions on its packets, as text.
    pub matches: String,
    /// The reserved rate.
    #[serde(rename = "rate_bps", with = "bps")]
    pub rate: Rate,
    /// The bound on the wait of a packet, of a flow that conforms to its token bucket (RFC 2212); none where the tree has no
    /// bound.
    #[serde(rename = "bound_ns", default, with = "ns::option", skip_serializing_if = "Option::is_none")]
    pub bound: Option<Span>,
    /// The limit of its queue.
    #[serde(rename = "buffer_bytes", with = "bytes")]
    pub buffer: Bytes,
    /// The time until it ends: without a refresh, or, with `for_ns`, in any case.
    #[serde(rename = "expires_in_ns", with = "ns")]
    pub expires: Span,
    /// The rate that can still be reserved.
    #[serde(rename = "free_bps", with = "bps")]
    pub free: Rate,
}

/// The request `refresh`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    /// Number of the reservation.
    pub reservation: u64,
}

/// The reply to `refresh`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refreshed {
    /// The time until it ends without another refresh.
    #[serde(rename = "expires_in_ns", with = "ns")]
    pub expires: Span,
}

/// The request `unreserve`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unreserve {
    /// Number of the reservation.
    pub reservation: u64,
}

/// The reply to `unreserve`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unreserved {
    /// The name that it had.
    pub name: String,
}

/// The request `reservations`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReservationsQuery {}

/// The reply to `reservations`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReservationList {
    /// The oldest first.
    pub reservations: Vec<Reserved>,
}

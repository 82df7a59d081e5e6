//! `reserve`, `refresh`, `unreserve` and `reservations`: a class of its own for a flow.

use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Rate, Span};

use crate::quantities::{bps, bytes, ns};

/// Asks for a class of its own for packets that match. It ends with the connection, or after `for_ns`; until then it must
/// be refreshed before it expires, unless `for_ns` is given. Who is not root gets it for packets of his own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserve {
    /// The direction, where more than one is shaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// What it is called. Default: a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What its packets are: keys and values as in a rule, such as `["destination-port", "5004"]`.
    pub matches: Vec<(String, String)>,
    /// r, the token rate.
    #[serde(rename = "rate_bps", with = "bps")]
    pub rate: Rate,
    /// b, the bucket. Default: two of the largest packets.
    #[serde(rename = "bucket_bytes", default, with = "bytes::option", skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bytes>,
    /// p, the peak rate. Default: that of the link.
    #[serde(rename = "peak_bps", default, with = "bps::option", skip_serializing_if = "Option::is_none")]
    pub peak: Option<Rate>,
    /// m, the minimum policed unit. Default: 64 bytes.
    #[serde(rename = "min_unit_bytes", default, with = "bytes::option", skip_serializing_if = "Option::is_none")]
    pub min_unit: Option<Bytes>,
    /// M, the largest packet. Default: the link's.
    #[serde(rename = "max_packet_bytes", default, with = "bytes::option", skip_serializing_if = "Option::is_none")]
    pub max_packet: Option<Bytes>,
    /// Whether a delay is to be guaranteed (RFC 2212), and not only the rate (RFC 2211).
    #[serde(default)]
    pub guaranteed: bool,
    /// The longest delay that will do. With it as much rate is reserved as that needs.
    #[serde(rename = "delay_ns", default, with = "ns::option", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Lives for so long, also without the connection.
    #[serde(rename = "for_ns", default, with = "ns::option", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
}

/// What was granted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reserved {
    /// Its number, for `refresh` and `unreserve`.
    pub reservation: u64,
    /// What it is called; its class is called so in `status`.
    pub name: String,
    /// Its packets, for people.
    pub matches: String,
    /// The reserved rate.
    #[serde(rename = "rate_bps", with = "bps")]
    pub rate: Rate,
    /// The longest that a packet of a flow waits that keeps to what was said of it (RFC 2212); none where the tree
    /// cannot promise that.
    #[serde(rename = "bound_ns", default, with = "ns::option", skip_serializing_if = "Option::is_none")]
    pub bound: Option<Span>,
    /// What its queue holds.
    #[serde(rename = "buffer_bytes", with = "bytes")]
    pub buffer: Bytes,
    /// When it ends: without a refresh, or, where it was asked for with `for_ns`, then.
    #[serde(rename = "expires_in_ns", with = "ns")]
    pub expires: Span,
    /// What is free for others.
    #[serde(rename = "free_bps", with = "bps")]
    pub free: Rate,
}

/// Lets a reservation live on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    /// Its number.
    pub reservation: u64,
}

/// Until when.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refreshed {
    /// When it ends without another refresh.
    #[serde(rename = "expires_in_ns", with = "ns")]
    pub expires: Span,
}

/// Ends a reservation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unreserve {
    /// Its number.
    pub reservation: u64,
}

/// It has ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unreserved {
    /// What it was called.
    pub name: String,
}

/// Asks which reservations there are. Everybody may.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReservationsQuery {}

/// The reservations there are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReservationList {
    /// All of them, the oldest first.
    pub reservations: Vec<Reserved>,
}

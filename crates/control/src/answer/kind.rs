//! The kind of traffic that a class or a flow carries.
//!
//! Three sources are asked in turn, and the first that knows decides: the name that the operator gave the class, the code point
//! at arrival, and what the flow does. Where none of them knows, the kind is [`Traffic::Unknown`].

use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Span};

use super::Traffic;
use crate::calls::{FlowObservation, Protocol};

/// Why traffic was taken to be of a kind, the strongest reason first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The name of its class.
    #[default]
    ClassName,
    /// The code point that its sender set.
    CodePoint,
    /// Its protocol, its port, and the sizes, number and rate of its packets.
    Behaviour,
    /// Nothing is known of it.
    Nothing,
}

/// Words in the name of a class, and the kind that they state. A plural has an `s` more.
const WORDS: [(Traffic, &[&str]); 4] = [
    (Traffic::Calls, &["call", "voice", "voip", "phone", "telephony", "conference", "conferencing", "sip", "rtp"]),
    (Traffic::Games, &["game", "gaming"]),
    (Traffic::Web, &["web", "www", "browsing", "http", "https", "dns"]),
    (Traffic::Bulk, &["bulk", "backup", "download", "upload", "transfer", "scavenger", "torrent", "update"]),
];

/// Returns the kind of traffic that the name of a class states: a whole word of it, as in `video-calls`. `None` where no word
/// or words of several kinds are in it.
pub fn of_class(name: &str) -> Option<Traffic> {
    let mut found = None;
    for word in name.split(|c: char| !c.is_alphanumeric()).map(str::to_ascii_lowercase) {
        let matches = |known: &&str| word == **known || word.strip_suffix('s') == Some(*known);
        let Some((traffic, _)) = WORDS.iter().find(|(_, words)| words.iter().any(matches)) else {
            continue;
        };
        if found.is_some_and(|found| found != *traffic) {
            return None;
        }
        found = Some(*traffic);
    }
    found
}

/// Returns the kind of traffic that a code point states. The default code point and those for network control, signalling of
/// operators, streaming and broadcast state none of ours.
pub const fn of_code_point(dscp: u8) -> Option<Traffic> {
    match dscp {
        // EF, voice admit (RFC 5865), signalling CS5, and AF4 of conferences (RFC 4594, 4.1 to 4.3; RFC 8837, 5).
        46 | 44 | 40 | 34 | 36 | 38 => Some(Traffic::Calls),
        // CS4, real-time interactive (RFC 4594, 4.4).
        32 => Some(Traffic::Games),
        // AF2, low-latency data: transactions of the web (RFC 4594, 4.7).
        18 | 20 | 22 => Some(Traffic::Web),
        // AF1, high-throughput data (RFC 4594, 4.8); CS1 and LE, lower effort (RFC 4594, 4.10; RFC 8622).
        10 | 12 | 14 | 8 | 1 => Some(Traffic::Bulk),
        _ => None,
    }
}

/// A transfer of this size is not a page: four times what all connections of the median page transfer together (HTTP Archive,
/// 2024: 2.6 MB).
pub const LONG_TRANSFER: Bytes = Bytes::new(10_000_000);
/// The age from which a flow that still has a queue takes what rate it finds.
const ESTABLISHED: Span = Span::from_secs(10);
/// The age from which a stream is steady.
const STEADY: Span = Span::from_secs(5);
/// The mean size from which packets are those of a transfer.
const LARGE: u64 = 1_000;
/// The largest mean size of packets that are acknowledgements: TCP with IPv6 and options has 92 bytes.
const ACKNOWLEDGEMENT: u64 = 100;
/// So many acknowledgements are those of a long transfer: two segments of 1,460 bytes each make 3 MB.
const MANY: u64 = 1_000;
/// The mean size of the datagrams of a voice call or a game lies below: 20 ms of G.711 with all headers are 214 bytes; games send
/// less.
const SMALL: u64 = 400;
/// Datagrams a second of calls and games: voice of 60 ms, and games at 128 updates in a second.
const OFTEN: [u64; 2] = [15, 150];

/// Returns the kind of a flow's traffic, and why. A class whose name states a kind is not looked at here.
pub fn of_flow(flow: &FlowObservation) -> (Traffic, Basis) {
    if let Some(traffic) = flow.dscp.and_then(of_code_point) {
        return (traffic, Basis::CodePoint);
    }
    match by_behaviour(flow) {
        Some(traffic) => (traffic, Basis::Behaviour),
        None => (Traffic::Unknown, Basis::Nothing),
    }
}

fn by_behaviour(flow: &FlowObservation) -> Option<Traffic> {
    let packets = flow.arrived_packets.max(1);
    let mean = flow.arrived_bytes.as_u64() / packets;
    let from_or_to = |ports: &[u16]| {
        [flow.flow.source_port, flow.flow.destination_port].into_iter().flatten().any(|port| ports.contains(&port))
    };
    let takes_all = flow.age >= ESTABLISHED && flow.queue.packets > 1 && mean >= LARGE;
    match flow.flow.protocol? {
        Protocol::TCP if mean <= ACKNOWLEDGEMENT && packets >= MANY => Some(Traffic::Bulk),
        Protocol::TCP if flow.sent_bytes >= LONG_TRANSFER || takes_all => Some(Traffic::Bulk),
        Protocol::TCP => from_or_to(&[80, 443, 53, 853]).then_some(Traffic::Web),
        // QUIC sends pages, transfers and calls from the same port.
        Protocol::UDP if from_or_to(&[443]) => {
            Some(if flow.sent_bytes >= LONG_TRANSFER || takes_all { Traffic::Bulk } else { Traffic::Web })
        }
        Protocol::UDP if from_or_to(&[53]) => Some(Traffic::Web),
        Protocol::UDP => {
            let millis = (flow.age.as_nanos().saturating_sub(flow.idle.as_nanos()) / 1_000_000).max(1);
            let a_second = packets.saturating_mul(1_000) / millis;
            let is_steady = flow.age >= STEADY && (OFTEN[0]..=OFTEN[1]).contains(&a_second);
            (is_steady && mean <= SMALL).then_some(Traffic::Live)
        }
        _ => None,
    }
}

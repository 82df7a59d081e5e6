//! [`Encoder`] encodes records.

use tidegate_core::DropReason;
use tidegate_core::classify::{Fields, Hosts, Traits};
use tidegate_engine::{Adjustment, Change, PacketMeta, Shape};
use tidegate_units::Instant;

use super::codec::{Body, Short, crc32};
use super::head::Payload;
use super::{ChunkKind, DIFFERENCE, PLACES, bits, tag};

/// The metadata that the packets of a flow have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Common {
    fields: Fields,
    network_header: u32,
    headers: u32,
}

/// A place in the table of flows.
#[derive(Clone, Copy, Debug)]
struct Place {
    common: Option<Common>,
    /// The headers of the last packet, and their length.
    before: [u8; DIFFERENCE],
    length: usize,
}

const EMPTY: Place = Place { common: None, before: [0; DIFFERENCE], length: 0 };

/// Makes chunks of records. A chunk can be read without those before it.
#[derive(Debug)]
pub struct Encoder {
    out: Body,
    payload: Payload,
    places: Box<[Place]>,
    /// The time of the last record.
    now: u64,
    /// The number of the next arrival.
    arrivals: u64,
    /// One more than the number of the last outcome.
    outcomes: u64,
    records: u64,
    /// The number of the first record of this chunk.
    first: u64,
    /// The number of records that were lost before this chunk.
    lost: u64,
}

impl Encoder {
    /// Begins an empty chunk with this capacity in bytes.
    pub fn new(payload: Payload, capacity: usize) -> Self {
        let mut encoder = Self {
            out: Body::new(Vec::with_capacity(capacity)),
            payload,
            places: vec![EMPTY; PLACES].into(),
            now: 0,
            arrivals: 0,
            outcomes: 0,
            records: 0,
            first: 0,
            lost: 0,
        };
        encoder.begin();
        encoder
    }

    fn begin(&mut self) {
        for place in &mut self.places {
            place.common = None;
        }
        self.first = self.records;
        self.outcomes = self.arrivals;
        self.out.clear();
        let bases = [self.records, self.lost, self.now, self.arrivals];
        self.out.append(|out| bases.into_iter().for_each(|base| out.number(base)));
    }

    /// Starts to count records at `records`.
    pub(super) fn go_on_from(&mut self, records: u64) {
        self.records = records;
        self.begin();
    }
    /// The number of bytes in the chunk.
    pub fn len(&self) -> usize {
        self.out.len()
    }
    /// Whether the chunk has no records.
    pub fn is_empty(&self) -> bool {
        self.records == self.first
    }
    /// The number of records in the chunk.
    pub(super) fn in_chunk(&self) -> u64 {
        self.records - self.first
    }
    /// The number of records so far, including those that were lost.
    pub fn records(&self) -> u64 {
        self.records
    }
    /// The time of the last record.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Takes the body of the chunk, and begins a new chunk in the memory of `other`.
    pub fn take(&mut self, other: Vec<u8>) -> Vec<u8> {
        let body = std::mem::replace(&mut self.out, Body::new(other)).into_bytes();
        self.lost = 0;
        self.begin();
        body
    }
    /// Takes the chunk with its header, and begins a new one.
    pub fn chunk(&mut self) -> Vec<u8> {
        let body = self.take(Vec::new());
        [&chunk_header(ChunkKind::Records, &body)[..], &body].concat()
    }
    /// Discards the records of the chunk, and returns their number. The next chunk reports them as lost.
    pub fn lose(&mut self) -> u64 {
        let lost = self.records - self.first;
        self.lost += lost;
        self.begin();
        lost
    }

    /// Appends a record; `write` writes the part after the tag.
    #[inline]
    fn record(&mut self, tag: u8, write: impl FnOnce(&mut Short<'_>)) {
        self.records += 1;
        self.out.append(|out| {
            out.byte(tag);
            write(out);
        });
    }
    /// Returns the difference between the time of a record and that of the record before.
    #[inline]
    fn pass_time(&mut self, now: Instant) -> i64 {
        now.as_nanos().wrapping_sub(std::mem::replace(&mut self.now, now.as_nanos())) as i64
    }
    #[inline]
    fn timed(&mut self, tag: u8, now: Instant, write: impl FnOnce(&mut Short<'_>)) {
        let passed = self.pass_time(now);
        self.record(tag, |out| {
            out.signed(passed);
            write(out);
        });
    }
    /// Appends a record that ends with a text.
    fn text(&mut self, tag: u8, now: Instant, text: &str) {
        self.timed(tag, now, |out| out.number(text.len() as u64));
        self.out.extend(text.as_bytes());
    }
    #[inline]
    fn outcome(&mut self, tag: u8, number: u64, write: impl FnOnce(&mut Short<'_>)) {
        let difference = number.wrapping_sub(self.outcomes) as i64;
        self.outcomes = number.wrapping_add(1);
        self.record(tag, |out| {
            out.signed(difference);
            write(out);
        });
    }

    /// Records that an engine was built; `json` is its [`Setup`](super::Setup).
    pub fn setup(&mut self, now: Instant, json: &str) {
        self.text(tag::SETUP, now, json);
        self.arrivals = 0;
        self.outcomes = 0;
    }
    /// Records that the configuration was replaced; `json` is the [`Reconfiguration`](super::Reconfiguration).
    pub fn reconfigure(&mut self, now: Instant, json: &str) {
        self.text(tag::RECONFIGURE, now, json);
    }
    /// Records an arrival.
    pub fn arrives(&mut self, now: Instant, number: u64, meta: &PacketMeta, bytes: &[u8]) {
        debug_assert_eq!(number, self.arrivals, "arrivals are numbered without gaps");
        let passed = self.pass_time(now);
        self.arrivals = number + 1;
        let fragment = meta.fields.fragment;
        let common = Common {
            // What differs between the packets of a flow is in their headers.
            fields: Fields { fragment: None, traits: Traits::default(), ..meta.fields },
            network_header: meta.network_header,
            headers: meta.headers,
        };
        let slot = place_of(&common);
        let place = &mut self.places[slot];
        let known = place.common == Some(common);
        let kept = match self.payload {
            Payload::All => bytes,
            Payload::Headers => &bytes[..bytes.len().min(headers_kept(meta))],
        };
        let differs = known && kept.len() == place.length && !kept.is_empty();
        let flags = meta.ecn.bits()
            | if meta.pure_ack { bits::PURE_ACK } else { 0 }
            | if meta.shape == Shape::Super { bits::SUPER } else { 0 }
            | if fragment.is_some() { bits::FRAGMENT } else { 0 }
            | match (kept.is_empty(), differs) {
                (true, _) => 0,
                (false, true) => bits::DIFFERENCE,
                (false, false) => bits::BYTES,
            }
            | if known { 0 } else { bits::DEFINED };
        self.records += 1;
        self.out.append(|out| {
            out.byte(tag::ARRIVES);
            out.signed(passed);
            out.byte(flags);
            out.number(slot as u64);
            if !known {
                place.common = Some(common);
                define(out, &common);
            }
            out.number(meta.length.into());
            if let Some(fragment) = fragment {
                out.number(fragment.id.into());
                out.number(u64::from(fragment.offset) << 1 | u64::from(fragment.more));
            }
            if !differs && !kept.is_empty() {
                out.number(kept.len() as u64);
            }
        });
        if differs {
            self.out.append(|out| out.difference(&place.before[..kept.len()], kept));
        } else {
            self.out.extend(kept);
        }
        // Headers that are too long for a difference are written in full each time.
        place.length = if kept.len() <= DIFFERENCE { kept.len() } else { usize::MAX };
        if let Some(before) = place.before.get_mut(..kept.len()) {
            before.copy_from_slice(kept);
        }
    }
    /// Records that the engine was asked for a packet.
    pub fn departs(&mut self, now: Instant) {
        self.timed(tag::DEPARTS, now, |_| ());
    }
    /// Records that all packets were released at once.
    pub fn release_all(&mut self) {
        self.record(tag::RELEASE_ALL, |_| ());
    }
    /// Records the change of a parameter.
    pub fn adjust(&mut self, now: Instant, adjustment: Adjustment) {
        let (kind, a, b) = match adjustment {
            Adjustment::CatchUp(span) => (0, span.as_nanos(), 0),
            Adjustment::Rate(rate) => (1, rate.as_bps(), 0),
            Adjustment::ClassRate(class, rate) => (2, class.0.into(), rate.as_bps()),
            Adjustment::Minimum(flow, rate) => (3, flow, rate.as_bps()),
            Adjustment::Prefer(flow, steps) => (4, flow, steps.into()),
            Adjustment::Follow(rate) => (5, rate.as_bps(), 0),
        };
        self.timed(tag::ADJUSTMENT, now, |out| {
            out.byte(kind);
            out.number(a);
            out.number(b);
        });
    }
    /// Records a call about a promise or a reservation; `json` is the [`Control`](super::Control).
    pub fn control(&mut self, now: Instant, json: &str) {
        self.text(tag::CONTROL, now, json);
    }
    /// Records that a change was made that recordings do not represent.
    pub fn unrecorded(&mut self) {
        self.record(tag::UNRECORDED, |_| ());
    }
    /// Records that a packet was sent.
    pub fn passed(&mut self, number: u64, change: Change) {
        if change == Change::default() {
            self.outcome(tag::PASSED, number, |_| ());
            return;
        }
        // The code point takes six bits. 64 stands for no code point; bit 7 for a mark.
        let dscp = change.dscp.map_or(64, |dscp| dscp.value());
        self.outcome(tag::CHANGED, number, |out| out.byte(dscp | if change.congestion { 128 } else { 0 }));
    }
    /// Records that a packet was dropped.
    pub fn refused(&mut self, number: u64, reason: DropReason) {
        self.outcome(tag::REFUSED, number, |out| out.byte(reason as u8));
    }
    /// Records that a superpacket was returned for segmentation.
    pub fn too_long(&mut self, number: u64) {
        self.outcome(tag::TOO_LONG, number, |_| ());
    }
}

/// The number of bytes to keep as the headers of a packet; a fixed number if they could not be read.
fn headers_kept(meta: &PacketMeta) -> usize {
    if meta.headers == 0 { 64 } else { meta.headers as usize }
}

/// Hashes a flow to a place in the table.
fn place_of(common: &Common) -> usize {
    let Fields { hosts, protocol, source_port, destination_port, mark, .. } = &common.fields;
    let addresses = match hosts {
        Hosts::Unknown => 0,
        Hosts::V4 { source, destination } => u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits()),
        Hosts::V6 { source, destination } => {
            let (s, d) = (source.to_bits(), destination.to_bits());
            (s >> 64) as u64 ^ (s as u64).rotate_left(21) ^ (d >> 64) as u64 ^ (d as u64).rotate_left(42)
        }
    };
    let port = |port: &Option<u16>| u64::from(port.unwrap_or(0));
    let rest = port(source_port) << 48
        | port(destination_port) << 32
        | u64::from(mark.wrapping_mul(0x9e37_79b9) >> 8)
        | u64::from(protocol.unwrap_or(0));
    let mixed = (addresses ^ rest.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (mixed >> 54) as usize % PLACES
}

/// Writes the definition of a flow: flags for the fields that are known, then these fields.
fn define(out: &mut Short<'_>, common: &Common) {
    let fields = &common.fields;
    let version = match fields.hosts {
        Hosts::Unknown => 0,
        Hosts::V4 { .. } => 1,
        Hosts::V6 { .. } => 2,
    };
    let known = |known: bool, bit: u8| u8::from(known) << bit;
    out.byte(
        version
            | known(fields.protocol.is_some(), 2)
            | known(fields.source_port.is_some(), 3)
            | known(fields.destination_port.is_some(), 4)
            | known(fields.uid.is_some(), 5)
            | known(fields.cgroup.is_some(), 6),
    );
    match fields.hosts {
        Hosts::Unknown => {}
        Hosts::V4 { source, destination } => {
            out.array(source.octets());
            out.array(destination.octets());
        }
        Hosts::V6 { source, destination } => {
            out.array(source.octets());
            out.array(destination.octets());
        }
    }
    out.byte(fields.dscp.value());
    if let Some(protocol) = fields.protocol {
        out.byte(protocol);
    }
    for port in [fields.source_port, fields.destination_port].into_iter().flatten() {
        out.array(port.to_le_bytes());
    }
    out.number(fields.mark.into());
    if let Some(uid) = fields.uid {
        out.number(uid.into());
    }
    if let Some(cgroup) = fields.cgroup {
        out.number(cgroup);
    }
    out.number(common.network_header.into());
    out.number(common.headers.into());
}

/// Makes a chunk of any kind, for tests of files that no recorder writes.
pub fn raw_chunk(kind: u8, body: &[u8]) -> Vec<u8> {
    [&header(kind, body)[..], body].concat()
}

/// The header of a chunk: its kind, the length of its body, and a checksum of kind, length and body.
pub(crate) fn chunk_header(kind: ChunkKind, body: &[u8]) -> [u8; 9] {
    header(kind as u8, body)
}

fn header(kind: u8, body: &[u8]) -> [u8; 9] {
    let mut header = [0; 9];
    header[0] = kind;
    header[1..5].copy_from_slice(&(body.len() as u32).to_le_bytes());
    let crc = crc32(&[&header[..5], body]);
    header[5..].copy_from_slice(&crc.to_le_bytes());
    header
}

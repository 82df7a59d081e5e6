//! [`Reader`] decodes records.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, Ipv6Addr};

use tidegate_capture::dissect::network;
use tidegate_core::classify::{Fields, Fragment, Hosts};
use tidegate_core::{ClassId, DropReason, Dscp, Ecn, Rate};
use tidegate_engine::{Adjustment, Change, PacketMeta, Shape};
use tidegate_units::{Instant, Span};

use crate::decisions::Decisions;

use super::codec::{Cursor, crc32};
use super::line;
use super::{
    ChunkKind, Counts, DIFFERENCE, FORMAT, Head, MAGIC, MAX_CHUNK, Missing, PLACES, PacketOutcome, Record, bits, tag,
};

/// Why a recording cannot be read, or not to its end.
#[derive(Debug)]
pub enum RecordingError {
    /// The file is not a recording, but begins with these bytes.
    Foreign(Vec<u8>),
    /// The file has this later version of the format.
    Newer(u32),
    /// The file ends within a chunk.
    Truncated {
        /// The number of the next record, from 0.
        record: u64,
        /// The offset of the truncated chunk.
        offset: u64,
    },
    /// The next chunk cannot be found.
    Corrupt {
        /// The number of the next record, from 0.
        record: u64,
        /// The offset in the file, in bytes.
        offset: u64,
        /// The defect, for people.
        why: String,
    },
    /// Reading failed.
    Io(std::io::Error),
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(first) if first.is_empty() => f.write_str("the file is empty; a recording was expected"),
            Self::Foreign(first) if first.starts_with(&MAGIC[..4]) => {
                f.write_str("this was a recording, and was changed on its way as text is; copy it again, as binary")
            }
            Self::Foreign(first) => write!(f, "not a recording: it begins with {first:02x?}"),
            Self::Newer(format) => {
                write!(f, "the recording has format {format}, this program reads up to {FORMAT}; use a newer one")
            }
            Self::Truncated { record, offset } => {
                write!(f, "record {record}: the file ends within the chunk at byte {offset}; it was read up to there")
            }
            Self::Corrupt { record, offset, why } => {
                write!(f, "record {record}, byte {offset}: corrupt ({why}); nothing can be read behind it")
            }
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for RecordingError {}

/// A place in the table of flows.
#[derive(Clone, Copy, Debug)]
struct Place {
    fields: Fields,
    network_header: u32,
    headers: u32,
    before: [u8; DIFFERENCE],
    length: usize,
}

/// Reads a recording, record by record. See the [module](super).
pub struct Reader<R> {
    source: R,
    head: Head,
    body: Vec<u8>,
    at: usize,
    /// The offset of the present chunk.
    chunk: u64,
    /// The offset of the next chunk.
    offset: u64,
    decoder: Decoder,
    record: u64,
    gap: Option<Missing>,
    end: Option<Counts>,
    /// Whether the file says that the recording goes on in another file.
    goes_on: bool,
    done: bool,
    decisions: Decisions,
    next_part: Option<NextPart<R>>,
}

/// Opens the file of a recording with this number.
type NextPart<R> = Box<dyn FnMut(u64) -> Option<R>>;

/// Reads the chunk at `offset` into `body`. Returns `None` at the end of the file, and a text if the chunk is damaged but the next
/// one can be found. `record` is the number of the next record, for errors.
fn read_chunk(
    source: &mut impl Read,
    body: &mut Vec<u8>,
    record: u64,
    offset: u64,
) -> Result<Option<Result<ChunkKind, String>>, RecordingError> {
    let mut header = Vec::with_capacity(9);
    source.take(9).read_to_end(&mut header).map_err(RecordingError::Io)?;
    if header.is_empty() {
        return Ok(None);
    }
    let truncated = RecordingError::Truncated { record, offset };
    let Some(fixed) = header.first_chunk::<9>() else { return Err(truncated) };
    let length = u32::from_le_bytes([fixed[1], fixed[2], fixed[3], fixed[4]]);
    let Some(kind) = ChunkKind::from_byte(fixed[0]).filter(|_| length as usize <= MAX_CHUNK) else {
        return Err(RecordingError::Corrupt { record, offset, why: "this is not the beginning of a chunk".into() });
    };
    body.clear();
    match source.take(length.into()).read_to_end(body) {
        Ok(n) if n == length as usize => {}
        Ok(_) => return Err(truncated),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(truncated),
        Err(error) => return Err(RecordingError::Io(error)),
    }
    let stated = u32::from_le_bytes([fixed[5], fixed[6], fixed[7], fixed[8]]);
    let right = crc32(&[&fixed[..5], body]) == stated;
    Ok(Some(if right { Ok(kind) } else { Err("its checksum is wrong".into()) }))
}

/// The length of a chunk with this body.
fn chunk_length(body: &[u8]) -> u64 {
    9 + body.len() as u64
}

impl<R: Read> Reader<R> {
    /// Opens a recording and reads its head.
    ///
    /// # Errors
    /// If the file is not a recording, or its head cannot be read.
    pub fn new(mut source: R) -> Result<Self, RecordingError> {
        /// The fields of the head that every format has.
        #[derive(serde::Deserialize)]
        struct Version {
            format: u32,
        }
        let mut magic = Vec::new();
        source.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(RecordingError::Io)?;
        if magic != MAGIC {
            return Err(RecordingError::Foreign(magic));
        }
        let (mut body, offset) = (Vec::new(), MAGIC.len() as u64);
        let corrupt = |why: String| RecordingError::Corrupt { record: 0, offset, why };
        match read_chunk(&mut source, &mut body, 0, offset)? {
            Some(Ok(ChunkKind::Head)) => {}
            Some(Ok(_)) => return Err(corrupt("the first chunk is not a head".into())),
            Some(Err(why)) => return Err(corrupt(why)),
            None => return Err(RecordingError::Truncated { record: 0, offset }),
        }
        let version: Version = serde_json::from_slice(&body).map_err(|error| corrupt(error.to_string()))?;
        if version.format > FORMAT {
            return Err(RecordingError::Newer(version.format));
        }
        let head: Head = serde_json::from_slice(&body).map_err(|error| corrupt(error.to_string()))?;
        let known = |name: &String| DropReason::ALL.into_iter().find(|reason| reason.name() == name);
        let reasons = head.reasons.iter().map(known).collect();
        let (scratch, places) = (Vec::new(), vec![None; PLACES]);
        Ok(Self {
            source,
            gap: (head.part > 0).then_some(Missing::Before),
            head,
            at: body.len(),
            chunk: offset,
            offset: offset + chunk_length(&body),
            body,
            decoder: Decoder { places, scratch, reasons, now: 0, arrivals: 0, outcomes: 0 },
            record: 0,
            end: None,
            goes_on: false,
            done: false,
            decisions: Decisions::default(),
            next_part: None,
        })
    }

    /// Opens a recording in several files. After the end of `source` the reader goes on with the next files, which `open` finds by
    /// their numbers.
    ///
    /// # Errors
    /// If the file is not a recording, or its head cannot be read.
    pub fn with_parts(source: R, open: impl FnMut(u64) -> Option<R> + 'static) -> Result<Self, RecordingError> {
        let mut reader = Self::new(source)?;
        reader.next_part = Some(Box::new(open));
        Ok(reader)
    }

    /// The head of the file.
    pub fn head(&self) -> &Head {
        &self.head
    }
    /// The counts of the recorder at its end; `None` before the end has been read, and if the recording process was killed.
    pub fn counts(&self) -> Option<Counts> {
        self.end
    }
    /// The number of the next record, from 0, and the offset of its chunk in the file.
    pub fn position(&self) -> (u64, u64) {
        (self.record, self.chunk)
    }
    /// The bytes that were kept of the last arrival, from its network header on.
    pub fn bytes(&self) -> &[u8] {
        &self.decoder.scratch
    }

    /// The decisions of a rate that follows the line, made again from the calls that have been read.
    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    fn next_chunk(&mut self) -> Result<Option<Result<ChunkKind, String>>, RecordingError> {
        let read = read_chunk(&mut self.source, &mut self.body, self.record, self.offset)?;
        if read.is_some() {
            self.chunk = self.offset;
            self.offset += chunk_length(&self.body);
        }
        Ok(read)
    }

    /// Goes on to the next file of the recording; returns `false` if there is none that can be read.
    fn go_on(&mut self) -> bool {
        let Some(open) = &mut self.next_part else { return false };
        let Some(part) = self.head.part.checked_add(1) else { return false };
        let Some(mut next) = open(part).and_then(|source| Self::new(source).ok()) else { return false };
        if next.head.recording != self.head.recording || next.head.part != part {
            return false;
        }
        (next.gap, next.record, next.next_part) = (None, self.record, self.next_part.take());
        next.decisions = std::mem::take(&mut self.decisions);
        *self = next;
        true
    }

    /// Reads the initial values of a chunk of records.
    fn begin(&mut self) -> Option<()> {
        let mut cursor = Cursor { rest: &self.body };
        let (record, lost) = (cursor.number()?, cursor.number()?);
        (self.decoder.now, self.decoder.arrivals) = (cursor.number()?, cursor.number()?);
        // No recorder reaches such counts, and counting on from them would overflow.
        if [record, lost, self.decoder.arrivals].iter().any(|&count| count > MOST) {
            return None;
        }
        // Records in a damaged chunk were reported with it, and are not among these.
        if lost > 0 {
            self.gap = Some(Missing::NotKept { records: lost });
        }
        self.record = record;
        self.decoder.outcomes = self.decoder.arrivals;
        self.at = self.body.len() - cursor.rest.len();
        self.decoder.places.fill(None);
        Some(())
    }

    /// The next record; `None` at the end and after an error.
    pub fn next_record(&mut self) -> Option<Result<Record, RecordingError>> {
        if self.done {
            return None;
        }
        if let Some(missing) = self.gap.take() {
            return Some(Ok(Record::Gap(missing)));
        }
        while self.at >= self.body.len() {
            let offset = self.offset;
            let damaged = match self.next_chunk() {
                Ok(Some(Ok(ChunkKind::Records))) => self.begin().is_none().then(|| "it has no beginning".to_owned()),
                Ok(Some(Ok(ChunkKind::Line))) => {
                    self.at = self.body.len();
                    let decisions = &mut self.decisions;
                    let read = line::calls(&self.body, |number, call, made| decisions.call(number, call, made));
                    read.is_none().then(|| "it has a call of a controller that this program does not know".to_owned())
                }
                Ok(Some(Ok(ChunkKind::End))) => {
                    self.at = self.body.len();
                    let mut cursor = Cursor { rest: &self.body };
                    self.end = Counts::decode(&mut cursor);
                    self.goes_on = cursor.number() == Some(1);
                    None
                }
                Ok(Some(Ok(ChunkKind::Head))) => Some("a second head".into()),
                Ok(Some(Err(why))) => Some(why),
                Ok(None) if self.go_on() => None,
                Ok(None) => {
                    self.done = true;
                    let lost = self.end.map_or(0, |end| end.records.saturating_sub(self.record));
                    return match (self.goes_on, lost) {
                        (true, _) => Some(Ok(Record::Gap(Missing::Behind))),
                        (false, 0) => None,
                        (false, records) => Some(Ok(Record::Gap(Missing::NotKept { records }))),
                    };
                }
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            };
            if let Some(why) = damaged {
                self.at = self.body.len();
                return Some(Ok(Record::Gap(Missing::Damaged { offset, why })));
            }
            if let Some(missing) = self.gap.take() {
                return Some(Ok(Record::Gap(missing)));
            }
        }
        let offset = self.chunk;
        let mut cursor = Cursor { rest: &self.body[self.at..] };
        match self.decoder.record(&mut cursor) {
            Some(record) => {
                self.at = self.body.len() - cursor.rest.len();
                self.record += 1;
                Some(Ok(record))
            }
            None => {
                // The checksum is right, so that it was written like this, perhaps by a later version.
                self.at = self.body.len();
                let why = format!("record {} is not one that this program knows", self.record);
                Some(Ok(Record::Gap(Missing::Damaged { offset, why })))
            }
        }
    }
}

/// An upper bound on the counts of records and packets.
const MOST: u64 = 1 << 62;

/// Decodes records, with the state to which they refer: the table of flows, the last time, and counts.
struct Decoder {
    places: Vec<Option<Place>>,
    scratch: Vec<u8>,
    reasons: Vec<Option<DropReason>>,
    now: u64,
    arrivals: u64,
    outcomes: u64,
}

impl Decoder {
    fn time(&mut self, cursor: &mut Cursor<'_>) -> Option<Instant> {
        self.now = self.now.wrapping_add(cursor.signed()? as u64);
        Some(Instant::from_nanos(self.now))
    }
    fn number(&mut self, cursor: &mut Cursor<'_>) -> Option<u64> {
        let number = self.outcomes.wrapping_add(cursor.signed()? as u64);
        self.outcomes = number.wrapping_add(1);
        Some(number)
    }

    fn record(&mut self, cursor: &mut Cursor<'_>) -> Option<Record> {
        Some(match cursor.byte()? {
            tag::SETUP => {
                self.time(cursor)?;
                self.arrivals = 0;
                self.outcomes = 0;
                Record::Setup(serde_json::from_slice(cursor.bytes()?).ok()?)
            }
            tag::ARRIVES => return self.arrives(cursor),
            tag::DEPARTS => Record::Departs { now: self.time(cursor)? },
            tag::RELEASE_ALL => Record::ReleaseAll,
            tag::ADJUSTMENT => Record::Adjustment { now: self.time(cursor)?, adjustment: adjust(cursor)? },
            tag::RECONFIGURE => {
                Record::Reconfigure { now: self.time(cursor)?, to: serde_json::from_slice(cursor.bytes()?).ok()? }
            }
            tag::CONTROL => {
                Record::Control { now: self.time(cursor)?, control: serde_json::from_slice(cursor.bytes()?).ok()? }
            }
            tag::UNRECORDED => Record::Unrecorded,
            tag::PASSED => {
                Record::Outcome { number: self.number(cursor)?, outcome: PacketOutcome::Passed(Change::default()) }
            }
            tag::CHANGED => {
                let number = self.number(cursor)?;
                let change = cursor.byte()?;
                let dscp = match change & 127 {
                    64 => None,
                    value => Some(Dscp::new(value)?),
                };
                Record::Outcome { number, outcome: PacketOutcome::Passed(Change { dscp, congestion: change >= 128 }) }
            }
            tag::REFUSED => {
                let number = self.number(cursor)?;
                let reason = *self.reasons.get(usize::from(cursor.byte()?))?;
                Record::Outcome { number, outcome: PacketOutcome::Refused(reason?) }
            }
            tag::TOO_LONG => Record::Outcome { number: self.number(cursor)?, outcome: PacketOutcome::TooLong },
            _ => return None,
        })
    }

    fn arrives(&mut self, cursor: &mut Cursor<'_>) -> Option<Record> {
        let now = self.time(cursor)?;
        let number = self.arrivals;
        self.arrivals = number.checked_add(1)?;
        let flags = cursor.byte()?;
        let slot = self.places.get_mut(cursor.small::<usize>()?)?;
        if flags & bits::DEFINED != 0 {
            *slot = Some(define(cursor)?);
        }
        let place = slot.as_mut()?;
        let length: u32 = cursor.small()?;
        let mut fields = place.fields;
        if flags & bits::FRAGMENT != 0 {
            let id = cursor.small()?;
            let offset = cursor.small::<u32>()?;
            fields.fragment = Some(Fragment { id, offset: u16::try_from(offset >> 1).ok()?, more: offset & 1 != 0 });
        }
        let meta = PacketMeta {
            fields,
            ecn: Ecn::from_bits(flags & bits::ECN),
            length,
            network_header: place.network_header,
            headers: place.headers,
            pure_ack: flags & bits::PURE_ACK != 0,
            shape: if flags & bits::SUPER != 0 { Shape::Super } else { Shape::Single },
        };
        let bytes = if flags & bits::DIFFERENCE != 0 {
            let before = place.before.get_mut(..place.length)?;
            for chunk in before.chunks_mut(8) {
                let mask = cursor.byte()?;
                for (bit, byte) in chunk.iter_mut().enumerate() {
                    if mask >> bit & 1 != 0 {
                        *byte = cursor.byte()?;
                    }
                }
            }
            &*before
        } else if flags & bits::BYTES != 0 {
            let bytes = cursor.bytes()?;
            place.length = if bytes.len() <= DIFFERENCE { bytes.len() } else { usize::MAX };
            if let Some(before) = place.before.get_mut(..bytes.len()) {
                before.copy_from_slice(bytes);
            }
            bytes
        } else {
            place.length = 0;
            &[]
        };
        self.scratch.clear();
        self.scratch.extend_from_slice(bytes);
        // The record has the headers that the data path has read them from.
        let traits = network(bytes, length as usize).map(|seen| seen.fields.traits).unwrap_or_default();
        let meta = PacketMeta { fields: Fields { traits, ..meta.fields }, ..meta };
        Some(Record::Arrives { now, number, meta })
    }
}

fn adjust(cursor: &mut Cursor<'_>) -> Option<Adjustment> {
    let (kind, a, b) = (cursor.byte()?, cursor.number()?, cursor.number()?);
    Some(match kind {
        0 => Adjustment::CatchUp(Span::from_nanos(a)),
        1 => Adjustment::Rate(Rate::from_bps(a)),
        2 => Adjustment::ClassRate(ClassId(a.try_into().ok()?), Rate::from_bps(b)),
        3 => Adjustment::Minimum(a, Rate::from_bps(b)),
        4 => Adjustment::Prefer(a, b.try_into().ok()?),
        5 => Adjustment::Follow(Rate::from_bps(a)),
        _ => return None,
    })
}

fn define(cursor: &mut Cursor<'_>) -> Option<Place> {
    let known = cursor.byte()?;
    let has = |bit: u8| known >> bit & 1 != 0;
    let hosts = match known & 3 {
        0 => Hosts::Unknown,
        1 => Hosts::V4 {
            source: Ipv4Addr::from(cursor.array::<4>()?),
            destination: Ipv4Addr::from(cursor.array::<4>()?),
        },
        2 => Hosts::V6 {
            source: Ipv6Addr::from(cursor.array::<16>()?),
            destination: Ipv6Addr::from(cursor.array::<16>()?),
        },
        _ => return None,
    };
    let dscp = Dscp::new(cursor.byte()?)?;
    let protocol = if has(2) { Some(cursor.byte()?) } else { None };
    let mut port = |bit| Some(if has(bit) { Some(u16::from_le_bytes(cursor.array()?)) } else { None });
    let (source_port, destination_port) = (port(3)?, port(4)?);
    let mark = cursor.small()?;
    let uid = if has(5) { Some(cursor.small()?) } else { None };
    let cgroup = if has(6) { Some(cursor.number()?) } else { None };
    let fields =
        Fields { hosts, dscp, protocol, source_port, destination_port, mark, uid, cgroup, ..Fields::default() };
    let (network_header, headers) = (cursor.small()?, cursor.small()?);
    Some(Place { fields, network_header, headers, before: [0; DIFFERENCE], length: 0 })
}

//! [`Source`] reads packets with their times from a capture, or from the arrivals of a recording.
//!
//! *Law*: times never decrease; packets are numbered from 1 in the order of the file; every defect is reported as a [`Notice`]
//! or an error that names the packet or record.
//! *Units*: ns since the first packet of a capture, or since the beginning of a recording.
//! *Notes*: a superpacket that was returned for segmentation is left out of a recording, because its segments follow.

use std::collections::HashSet;
use std::fmt;
use std::io::{Chain, Cursor, Read};

use tidegate_capture::read::Warning;
use tidegate_capture::{CaptureError, CaptureReader, LinkType};
use tidegate_core::classify::{Hosts, Prefix};
use tidegate_engine::{PacketMeta, Shape};
use tidegate_units::Instant;

use crate::cut::can_be_cut;
use crate::recording::{Head, MAGIC, Missing, PacketOutcome, Reader, Record, RecordingError, Setup};

/// The most host pairs that are remembered to find out whether a capture has both directions.
const LOOK_AT: usize = 4096;

/// A packet that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The number of the packet in the file, from 1.
    pub number: u64,
    /// The time on the clock of the run.
    pub time: Instant,
    /// The metadata.
    pub meta: PacketMeta,
    /// The link type; `None` if it is not known here.
    pub link: Option<LinkType>,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// Its length in bytes, including the link header.
    pub length: u32,
    /// The offset of the network header in `bytes`.
    pub network: usize,
}

/// A selection of the packets of a capture.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The source addresses to select; all if empty.
    pub from: Vec<Prefix>,
    /// The direction to select, in a capture that records it.
    pub direction: Direction,
}

/// The direction of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// Either, or not recorded.
    #[default]
    Any,
    /// Sent by the capturing host. Only Linux cooked captures record it.
    Sent,
    /// Received by the capturing host.
    Received,
}

impl Choice {
    fn takes(&self, meta: &PacketMeta, link: Option<LinkType>, bytes: &[u8]) -> bool {
        let from = || {
            let source = meta.fields.hosts.source();
            self.from.is_empty() || source.is_some_and(|source| self.from.iter().any(|prefix| prefix.contains(source)))
        };
        let direction = || {
            // Packet type 4 (PACKET_OUTGOING): sent by the capturing host.
            let sent = match link {
                Some(LinkType::LinuxCooked) => bytes.get(..2).map(|kind| kind == [0, 4]),
                Some(LinkType::LinuxCooked2) => bytes.get(10).map(|kind| *kind == 4),
                _ => None,
            };
            match self.direction {
                Direction::Any => true,
                Direction::Sent => sent == Some(true),
                Direction::Received => sent == Some(false),
            }
        };
        from() && direction()
    }
}

/// A remark about the source for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A defect in a packet of a capture was repaired.
    Capture(Warning),
    /// Records are missing in a recording.
    Missing {
        /// The record before which they are missing, from 0.
        record: u64,
        /// The missing part.
        missing: Missing,
    },
    /// The capture has packets of both directions of a conversation, and all are selected.
    BothDirections,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capture(warning) => warning.fmt(f),
            Self::Missing { record, missing } => write!(f, "record {record}: {missing}"),
            Self::BothDirections => f.write_str(
                "the capture has both directions of its conversations, and all of it goes one way here; choose one \
                 with --from ADDRESS (or, in a Linux cooked capture, --direction sent)",
            ),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotKept { records } => {
                write!(f, "{records} records are missing: the recorder could not write that fast")
            }
            Self::Damaged { offset, why } => write!(f, "the chunk at byte {offset} is damaged ({why}) and left out"),
            Self::Behind => f.write_str("the recording goes on in another file, which is not here"),
            Self::Before => f.write_str("this file goes on from another, which is not here"),
        }
    }
}

/// Why a source cannot be read, or not to its end.
#[derive(Debug)]
pub enum SourceError {
    /// An error in a capture.
    Capture(CaptureError),
    /// An error in a recording.
    Recording(RecordingError),
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capture(CaptureError::Foreign(first)) if !first.is_empty() => {
                write!(f, "not a pcap, pcapng or recording: it begins with {first:02x?}")
            }
            Self::Capture(error) => error.fmt(f),
            Self::Recording(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SourceError {}

/// A source whose first bytes have been examined.
pub type Sniffed<R> = Chain<Cursor<Vec<u8>>, R>;

/// The format of a file.
pub enum Kind<R: Read> {
    /// A pcap or pcapng file, probably.
    Capture(Sniffed<R>),
    /// A recording.
    Recording(Sniffed<R>),
}

/// Determines the format of `source` from its first bytes.
///
/// # Errors
/// If reading fails.
pub fn sniff<R: Read>(mut source: R) -> std::io::Result<Kind<R>> {
    let mut first = Vec::new();
    source.by_ref().take(MAGIC.len() as u64).read_to_end(&mut first)?;
    // A recording whose signature was damaged in transfer is to be read as a recording, for its error message.
    let is_recording = first.starts_with(&MAGIC[..4]);
    let whole = Cursor::new(first).chain(source);
    Ok(if is_recording { Kind::Recording(whole) } else { Kind::Capture(whole) })
}

/// See the [module](self).
pub struct Source<R: Read> {
    input: Input<R>,
    choice: Choice,
    number: u64,
    directions: Directions,
}

#[expect(clippy::large_enum_variant, reason = "there is one for each file that is read")]
enum Input<R: Read> {
    Capture {
        reader: CaptureReader<R>,
        /// The time of the first packet with a time, in ns since 1970.
        first: Option<u64>,
    },
    Recording {
        reader: Reader<R>,
        /// The instant at which the recording began, in ns.
        first: Option<u64>,
        /// The record after an arrival, which is read ahead.
        ahead: Option<Record>,
        bytes: Vec<u8>,
        time: Instant,
        setup: Option<Setup>,
    },
}

impl<R: Read> Source<R> {
    /// Reads the packets of a capture.
    ///
    /// # Errors
    /// If the file is not a capture, or its header cannot be read.
    pub fn capture(source: R, choice: Choice) -> Result<Self, SourceError> {
        let reader = CaptureReader::new(source).map_err(SourceError::Capture)?;
        Ok(Self::new(Input::Capture { reader, first: None }, choice))
    }
    /// Reads the arrivals of a recording.
    pub fn recording(reader: Reader<R>, choice: Choice) -> Self {
        let setup = reader.head().setup.clone();
        let first = setup.as_ref().map(|setup| setup.now_ns);
        let (ahead, bytes, time) = (None, Vec::new(), Instant::ZERO);
        Self::new(Input::Recording { reader, first, ahead, bytes, time, setup }, choice)
    }
    fn new(input: Input<R>, choice: Choice) -> Self {
        let looking = choice.from.is_empty() && choice.direction == Direction::Any;
        let directions =
            Directions { hosts: HashSet::new(), looking: looking && matches!(input, Input::Capture { .. }) };
        Self { input, choice, number: 0, directions }
    }

    /// The time zero of this source in ns since 1970, which is known after the first packet.
    pub fn wall_clock(&self) -> u64 {
        match &self.input {
            Input::Capture { first, .. } => first.unwrap_or(0),
            Input::Recording { reader, first, .. } => {
                let head: &Head = reader.head();
                head.wall_clock_ns.wrapping_add(first.unwrap_or(head.instant_ns).wrapping_sub(head.instant_ns))
            }
        }
    }
    /// The setup of the recorded engine, once it has been read.
    pub fn setup(&self) -> Option<&Setup> {
        match &self.input {
            Input::Capture { .. } => None,
            Input::Recording { setup, .. } => setup.as_ref(),
        }
    }

    /// The next packet; `None` at the end of the file and after an error. `notice` receives remarks.
    pub fn next_arrival(&mut self, notice: &mut dyn FnMut(Notice)) -> Option<Result<Arrival<'_>, SourceError>> {
        match self.input {
            Input::Capture { .. } => self.next_of_capture(notice),
            Input::Recording { .. } => self.next_of_recording(notice),
        }
    }

    fn next_of_capture(&mut self, notice: &mut dyn FnMut(Notice)) -> Option<Result<Arrival<'_>, SourceError>> {
        let Input::Capture { reader, first } = &mut self.input else { return None };
        loop {
            let packet = match reader.next_packet(&mut |warning| notice(Notice::Capture(warning)))? {
                Ok(packet) => packet,
                Err(error) => return Some(Err(SourceError::Capture(error))),
            };
            self.number = packet.number;
            // Packets before the first one with a time arrive together with it.
            let now = packet.time.as_nanos();
            let time = if packet.timed { now - *first.get_or_insert(now) } else { 0 };
            let time = Instant::from_nanos(time);
            let dissected = packet.dissect();
            let mut meta = PacketMeta {
                fields: dissected.fields,
                ecn: dissected.ecn,
                length: dissected.total,
                network_header: dissected.network_header.into(),
                headers: dissected.headers(),
                pure_ack: dissected.is_pure_ack(),
                shape: Shape::Single,
            };
            // Unlike a recording, a capture does not distinguish superpackets from long datagrams, which few programs send.
            if can_be_cut(&meta) {
                meta.shape = Shape::Super;
            }
            if !self.choice.takes(&meta, packet.link, packet.bytes) {
                continue;
            }
            if self.directions.notes(&meta) {
                notice(Notice::BothDirections);
            }
            // The borrow checker does not allow to return `packet`, a borrow of the reader, from the loop.
            let (number, link, length, network) =
                (packet.number, packet.link, packet.length, usize::from(dissected.link_header));
            let bytes = reader.last_bytes();
            return Some(Ok(Arrival { number, time, meta, link, bytes, length, network }));
        }
    }

    fn next_of_recording(&mut self, notice: &mut dyn FnMut(Notice)) -> Option<Result<Arrival<'_>, SourceError>> {
        let Input::Recording { reader, first, ahead, bytes, time, setup } = &mut self.input else { return None };
        loop {
            let record = match ahead.take() {
                Some(record) => record,
                None => {
                    let position = reader.position().0;
                    match reader.next_record()? {
                        Ok(Record::Gap(missing)) => {
                            notice(Notice::Missing { record: position, missing });
                            continue;
                        }
                        Ok(record) => record,
                        Err(error) => return Some(Err(SourceError::Recording(error))),
                    }
                }
            };
            let (now, arrived, meta) = match record {
                Record::Setup(built) => {
                    first.get_or_insert(built.now_ns);
                    *setup = Some(built);
                    continue;
                }
                Record::Arrives { now, number, meta } => (now, number, meta),
                _ => continue,
            };
            bytes.clear();
            bytes.extend_from_slice(reader.bytes());
            self.number += 1;
            match reader.next_record() {
                Some(Ok(Record::Outcome { number, outcome: PacketOutcome::TooLong })) if number == arrived => continue,
                Some(Ok(Record::Gap(missing))) => notice(Notice::Missing { record: reader.position().0, missing }),
                Some(Ok(record)) => *ahead = Some(record),
                Some(Err(error)) => return Some(Err(SourceError::Recording(error))),
                None => {}
            }
            if !self.choice.takes(&meta, None, &[]) {
                continue;
            }
            let first = *first.get_or_insert(now.as_nanos());
            *time = (*time).max(Instant::from_nanos(now.as_nanos().saturating_sub(first)));
            let (number, length) = (self.number, meta.length.max(u32::try_from(bytes.len()).unwrap_or(u32::MAX)));
            let link = Some(LinkType::Raw);
            return Some(Ok(Arrival { number, time: *time, meta, link, bytes, length, network: 0 }));
        }
    }
}

/// Finds out whether a capture has packets of both directions.
struct Directions {
    hosts: HashSet<Hosts>,
    looking: bool,
}

impl Directions {
    /// Returns whether this packet is the first one of the opposite direction.
    fn notes(&mut self, meta: &PacketMeta) -> bool {
        if !self.looking || meta.fields.hosts == Hosts::Unknown {
            return false;
        }
        let back = match meta.fields.hosts {
            Hosts::Unknown => Hosts::Unknown,
            Hosts::V4 { source, destination } => Hosts::V4 { source: destination, destination: source },
            Hosts::V6 { source, destination } => Hosts::V6 { source: destination, destination: source },
        };
        // The opposite direction of a known pair was checked when the pair was inserted.
        if !self.hosts.insert(meta.fields.hosts) {
            return false;
        }
        let both = back != meta.fields.hosts && self.hosts.contains(&back);
        self.looking = !both && self.hosts.len() <= LOOK_AT;
        both
    }
}

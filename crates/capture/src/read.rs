//! Capture files, read packet by packet: pcap with microseconds or nanoseconds, either byte order, and pcapng.
//!
//! *Law*: no file panics or makes the reader allocate more than [`MAX_RECORD`] per record; packets are in the order
//! of the file with times that never run back; every correction is reported with the number of the packet, and an
//! error that cannot be corrected ends the reading and names the packet.
//! *Source*: the pcap and pcapng formats (IETF opsawg drafts), by way of the `pcap-file` crate.
//! *Units*: times in ns since 1970, lengths in bytes.
//! *Notes*: compressed files are refused with a remedy. A pcapng simple packet has no time and takes that of the packet
//! before it. Packets of link types that [`LinkType`] does not know are delivered, with unknown fields.
//! *See also*: [`write`](crate::write).
//!
//! ```
//! use tidegate_capture::{read::CaptureReader, write::CaptureWriter, LinkType};
//! use tidegate_core::Instant;
//! let mut file = CaptureWriter::new(Vec::new()).unwrap();
//! let uplink = file.add_interface("uplink", LinkType::Raw).unwrap();
//! file.write(uplink, Instant::from_nanos(1_234_567_891), &[0x45; 60], 1500, Some("delayed")).unwrap();
//! let bytes = file.finish().unwrap();
//!
//! let mut reader = CaptureReader::new(&bytes[..]).unwrap();
//! let packet = reader.next_packet(&mut |warning| panic!("{warning}")).unwrap().unwrap();
//! assert_eq!((packet.number, packet.time.as_nanos(), packet.length), (1, 1_234_567_891, 1500));
//! assert_eq!(packet.comment, Some("delayed"));
//! ```

use std::fmt;
use std::io::{Chain, Cursor, ErrorKind, Read};
use std::time::Duration;

use pcap_file::pcap::{PcapReadError, PcapReader, PcapTsResolution};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::{Block, PcapNgReadError, PcapNgReader, PcapNgState};
use tidegate_core::{Instant, Span};

use crate::dissect::Dissection;
use crate::link::{LinkType, frame};

/// The largest record that is read, headers of the format included.
pub const MAX_RECORD: usize = 1 << 20;

/// A packet of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Captured<'a> {
    /// The number of the packet in the file, from 1.
    pub number: u64,
    /// The offset of its record in the file, in bytes.
    pub offset: u64,
    /// The capture time, in ns since 1970; never before that of the previous packet.
    pub time: Instant,
    /// Whether `time` is valid: `false` for packets before the first with a capture time.
    pub timed: bool,
    /// The link header; `None` for an unsupported type.
    pub link: Option<LinkType>,
    /// The original length, at least that of `bytes`.
    pub length: u32,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// Its first comment, in pcapng.
    pub comment: Option<&'a str>,
}

impl Captured<'_> {
    /// Dissects its headers.
    pub fn dissect(&self) -> Dissection {
        match self.link {
            Some(link) => frame(link, self.bytes, self.length as usize),
            None => Dissection { total: self.length, ..Dissection::default() },
        }
    }
}

/// A correction, with its packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// The packet, from 1.
    pub packet: u64,
    /// The offset of its record in the file, in bytes.
    pub offset: u64,
    /// The flaw that was corrected.
    pub flaw: Flaw,
}

/// A flaw of a packet that is delivered all the same, or skipped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// It is older than the previous packet, by this much; it is delivered with the time of that packet.
    TimeBackwards(Span),
    /// Its time has a fraction of more than a second, or is after the year 2554; it is delivered with the time of the
    /// previous packet.
    TimeInvalid,
    /// It has no bytes and no length.
    Empty,
    /// More bytes were captured than its length; the length is taken as the number of bytes.
    LengthTooShort {
        /// The length in the file.
        stated: u32,
        /// The number of bytes in the file.
        captured: u32,
    },
    /// Its link type is not supported; its fields are unknown. Reported once for each type.
    LinkType(u32),
    /// The block is corrupt and was skipped, with the reason. It has the number that a packet in its place would have.
    Skipped(String),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {} at byte {}: ", self.packet, self.offset)?;
        match &self.flaw {
            Flaw::TimeBackwards(by) => {
                write!(f, "{} ns before the previous packet, whose time is used", by.as_nanos())
            }
            Flaw::TimeInvalid => f.write_str("its time is invalid; that of the previous packet is used"),
            Flaw::Empty => f.write_str("zero length"),
            Flaw::LengthTooShort { stated, captured } => {
                write!(
                    f,
                    "{captured} bytes were captured of a packet of {stated}; its length is taken to be {captured}"
                )
            }
            Flaw::LinkType(number) => {
                write!(f, "link type {number}{} is not supported; its headers are not read", known_as(*number))
            }
            Flaw::Skipped(why) => write!(f, "skipped a corrupt block: {why}"),
        }
    }
}

/// The usual name of an unsupported link type, in brackets; empty for rare ones.
const fn known_as(number: u32) -> &'static str {
    match number {
        9 | 50 => " (PPP)",
        51 => " (PPPoE)",
        105 => " (802.11)",
        119 | 127 | 163 | 192 => " (802.11 with a radio header)",
        189 | 220 | 249 => " (USB)",
        187 | 201 | 251 | 272 => " (Bluetooth)",
        195 | 230 | 283 => " (802.15.4)",
        227 => " (CAN)",
        _ => "",
    }
}

/// Why a capture, or the rest of it, cannot be read.
#[derive(Debug)]
pub enum CaptureError {
    /// Not a capture; contains the first bytes.
    Foreign(Vec<u8>),
    /// Compressed by this program.
    Compressed(&'static str),
    /// The file ends within this packet (or, for packet 1, within the header), or a damaged length points beyond the
    /// end.
    Truncated {
        /// The packet, from 1.
        packet: u64,
        /// The offset of its record in the file, in bytes.
        offset: u64,
    },
    /// The structure of the file is broken at this packet, so that the next cannot be found.
    Corrupt {
        /// The packet, from 1.
        packet: u64,
        /// The offset of its record in the file, in bytes.
        offset: u64,
        /// The reason.
        why: String,
    },
    /// Reading failed.
    Io {
        /// The packet that was being read, from 1.
        packet: u64,
        /// The offset of its record in the file, in bytes.
        offset: u64,
        /// The error.
        error: std::io::Error,
    },
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(first) if first.is_empty() => {
                f.write_str("the file is empty; a pcap or pcapng file was expected")
            }
            Self::Foreign(first) => write!(f, "not a pcap or pcapng file: it begins with {first:02x?}"),
            Self::Compressed(program) => write!(f, "the capture is compressed; unpack it first, with `{program} -d`"),
            Self::Truncated { offset: 0, .. } => f.write_str("the file ends within its header"),
            Self::Truncated { packet, offset } => write!(
                f,
                "packet {packet} at byte {offset}: the file ends within it, or its length is damaged; nothing can be \
                 read behind it"
            ),
            Self::Corrupt { packet, offset, why } => {
                write!(f, "packet {packet} at byte {offset}: corrupt ({why}); nothing after it can be read")
            }
            Self::Io { packet, offset, error } => write!(f, "packet {packet} at byte {offset}: {error}"),
        }
    }
}

impl std::error::Error for CaptureError {}

type Source<R> = Chain<Cursor<Vec<u8>>, R>;

#[derive(Debug)]
enum Format<R: Read> {
    Pcap(PcapReader<Source<R>>),
    PcapNg(PcapNgReader<Source<R>>),
}

/// A packet of a file, before validation. The bytes are in the reader's buffer.
struct Found {
    time: Option<Option<Duration>>,
    link: u32,
    length: u32,
    comment: Option<String>,
}

/// The packet being read, and the offset of its record.
#[derive(Clone, Copy)]
struct At {
    packet: u64,
    offset: u64,
}

/// The header of a file.
const START: At = At { packet: 1, offset: 0 };

/// Reads a capture. See the [module](self).
#[derive(Debug)]
pub struct CaptureReader<R: Read> {
    format: Format<R>,
    bytes: Vec<u8>,
    comment: Option<String>,
    number: u64,
    /// In pcap, the offset of the next record: after a header of 24 bytes at first.
    next: u64,
    time: Instant,
    /// Whether a packet has had a time.
    timed: bool,
    done: bool,
    /// Unsupported link types that were reported.
    unknown: Vec<u32>,
}

impl<R: Read> CaptureReader<R> {
    /// Detects the format of `source` and reads its header.
    ///
    /// # Errors
    /// When it is not a capture or its header cannot be read.
    pub fn new(mut source: R) -> Result<Self, CaptureError> {
        let mut first = Vec::new();
        source.by_ref().take(4).read_to_end(&mut first).map_err(|error| io_error(error, START))?;
        let magic = first.clone();
        let source = Cursor::new(first).chain(source);
        let format = match magic[..] {
            [0x0a, 0x0d, 0x0d, 0x0a] => PcapNgReader::with_capacity(source, MAX_RECORD)
                .map(Format::PcapNg)
                .map_err(|error| pcapng_error(error, START))?,
            [0xa1, 0xb2, 0xc3, 0xd4]
            | [0xd4, 0xc3, 0xb2, 0xa1]
            | [0xa1, 0xb2, 0x3c, 0x4d]
            | [0x4d, 0x3c, 0xb2, 0xa1] => PcapReader::with_capacity(source, MAX_RECORD)
                .map(Format::Pcap)
                .map_err(|error| pcap_error(error, START))?,
            [0x1f, 0x8b, ..] => return Err(CaptureError::Compressed("gzip")),
            [0x28, 0xb5, 0x2f, 0xfd] => return Err(CaptureError::Compressed("zstd")),
            [0xfd, b'7', b'z', b'X'] => return Err(CaptureError::Compressed("xz")),
            _ => return Err(CaptureError::Foreign(magic)),
        };
        let unknown = Vec::new();
        Ok(Self {
            format,
            bytes: Vec::new(),
            comment: None,
            number: 0,
            next: 24,
            time: Instant::ZERO,
            timed: false,
            done: false,
            unknown,
        })
    }

    /// The bytes of the packet that was read last.
    pub fn last_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the next packet; `None` at the end of the file and after an error. `warn` receives corrections.
    pub fn next_packet(&mut self, warn: &mut dyn FnMut(Warning)) -> Option<Result<Captured<'_>, CaptureError>> {
        if self.done {
            return None;
        }
        let packet = self.number + 1;
        let mut at = At { packet, offset: self.next };
        let found = match &mut self.format {
            Format::Pcap(reader) => next_of_pcap(reader, &mut self.bytes, at),
            Format::PcapNg(reader) => next_of_pcapng(reader, &mut self.bytes, &mut at, warn),
        };
        let found = match found {
            Some(Ok(found)) => found,
            Some(Err(error)) => {
                self.done = true;
                return Some(Err(error));
            }
            None => {
                self.done = true;
                return None;
            }
        };
        self.number = packet;
        let offset = at.offset;
        self.next += 16 + self.bytes.len() as u64;
        let mut warn = |flaw| warn(Warning { packet, offset, flaw });
        match found.time {
            None => {}
            Some(time) => {
                let nanos = time.and_then(|time| u64::try_from(time.as_nanos()).ok()).map(Instant::from_nanos);
                match nanos {
                    None => warn(Flaw::TimeInvalid),
                    Some(time) if time < self.time => warn(Flaw::TimeBackwards(self.time.since(time))),
                    Some(time) => (self.time, self.timed) = (time, true),
                }
            }
        }
        let captured = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        if found.length < captured {
            warn(Flaw::LengthTooShort { stated: found.length, captured });
        } else if found.length == 0 {
            warn(Flaw::Empty);
        }
        let link = LinkType::from_number(found.link);
        if link.is_none() && !self.unknown.contains(&found.link) {
            self.unknown.push(found.link);
            warn(Flaw::LinkType(found.link));
        }
        let length = found.length.max(captured);
        let (time, timed) = (self.time, self.timed);
        self.comment = found.comment;
        let comment = self.comment.as_deref();
        Some(Ok(Captured { number: packet, offset, time, timed, link, length, bytes: &self.bytes, comment }))
    }
}

fn next_of_pcap<R: Read>(
    reader: &mut PcapReader<R>,
    bytes: &mut Vec<u8>,
    at: At,
) -> Option<Result<Found, CaptureError>> {
    let header = reader.header();
    let raw = match reader.next_raw_packet()? {
        Ok(raw) => raw,
        Err(error) => return Some(Err(pcap_error(error, at))),
    };
    bytes.clear();
    bytes.extend_from_slice(&raw.data);
    let nanos = match header.ts_resolution {
        PcapTsResolution::MicroSecond => u64::from(raw.ts_frac) * 1_000,
        PcapTsResolution::NanoSecond => raw.ts_frac.into(),
    };
    let time = (nanos < 1_000_000_000).then(|| Duration::new(raw.ts_sec.into(), nanos as u32));
    // The upper bits specify a frame check sequence at the end, which is after the IP packet.
    let link = u32::from(header.datalink) & 0x03ff_ffff;
    Some(Ok(Found { time: Some(time), link, length: raw.orig_len, comment: None }))
}

fn next_of_pcapng<R: Read>(
    reader: &mut PcapNgReader<R>,
    bytes: &mut Vec<u8>,
    at: &mut At,
    warn: &mut dyn FnMut(Warning),
) -> Option<Result<Found, CaptureError>> {
    loop {
        at.offset = reader.bytes_parsed();
        let (raw, state) = match reader.next_raw_block()? {
            Ok(next) => next,
            Err(error) => return Some(Err(pcapng_error(error, *at))),
        };
        let block = match raw.try_into_block(state) {
            Ok(block) => block,
            Err(error) => {
                warn(Warning { packet: at.packet, offset: at.offset, flaw: Flaw::Skipped(chain(&error)) });
                continue;
            }
        };
        let link = |state: &PcapNgState, id: u32| {
            state.interfaces().get(id as usize).map_or(u32::MAX, |interface| interface.linktype.into())
        };
        let mut comment = None;
        let (time, link, length, data) = match block {
            Block::EnhancedPacket(block) => {
                comment = block.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Common(CommonOption::Comment(text)) => Some(text.to_string()),
                    _ => None,
                });
                (Some(Some(block.timestamp)), link(state, block.interface_id), block.original_len, block.data)
            }
            Block::Packet(block) => {
                (Some(Some(block.timestamp)), link(state, block.interface_id.into()), block.original_len, block.data)
            }
            Block::SimplePacket(block) => (None, link(state, 0), block.original_len, block.data),
            _ => continue,
        };
        bytes.clear();
        bytes.extend_from_slice(&data);
        return Some(Ok(Found { time, link, length, comment }));
    }
}

fn io_error(error: std::io::Error, at: At) -> CaptureError {
    let At { packet, offset } = at;
    match error.kind() {
        ErrorKind::UnexpectedEof => CaptureError::Truncated { packet, offset },
        _ => CaptureError::Io { packet, offset, error },
    }
}

fn pcap_error(error: PcapReadError, at: At) -> CaptureError {
    match error {
        PcapReadError::Io(error) => io_error(error, at),
        other => CaptureError::Corrupt { packet: at.packet, offset: at.offset, why: chain(&other) },
    }
}

fn pcapng_error(error: PcapNgReadError, at: At) -> CaptureError {
    match error {
        PcapNgReadError::Io(error) => io_error(error, at),
        other => CaptureError::Corrupt { packet: at.packet, offset: at.offset, why: chain(&other) },
    }
}

/// An error and its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(|cause| cause.to_string()).collect::<Vec<_>>().join(": ")
}

//! The packets that one data path holds, as a list for the next one, which may be of another process.
//!
//! The list is in the file of the state, behind its halves (`guard.rs`); the page has the number of its packets while it
//! is valid, and the version of its form is that of the page. Times are of the system's monotonic clock, which all
//! processes share.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::FileExt;

use tidegate_core::classify::{Fields, Fragment, Hosts, IcmpType, Signal, Traits, Version};
use tidegate_core::{Bytes, Dscp, Ecn};
use tidegate_engine::HeldPacket;
use tidegate_units::Instant;

use crate::shaping::command::Handle;

/// Where the list begins in the file: behind both halves of the state, which end at 16 MiB.
const BEHIND_STATE: u64 = 32 << 20;
/// The most packets of a list: what both queues hold.
const MOST: u64 = 2 * 65_536;
/// The bytes of a packet in the list.
const RECORD: usize = 118;

/// Writes the list of `held`.
///
/// # Errors
/// When the system refuses memory, or there are more packets than a list holds.
pub(super) fn write(file: &File, held: &[HeldPacket<Handle>]) -> io::Result<()> {
    if held.len() as u64 > MOST {
        return Err(io::Error::other("too many packets are held"));
    }
    let bytes: Vec<u8> = held.iter().flat_map(encode).collect();
    file.write_all_at(&bytes, BEHIND_STATE)
}

/// Reads a list of `count` packets.
///
/// # Errors
/// When it is shorter, or is none.
pub(super) fn read(file: &File, count: u64) -> io::Result<Vec<HeldPacket<Handle>>> {
    if count > MOST {
        return Err(io::Error::other("the list of held packets is too long"));
    }
    let mut bytes = vec![0; count as usize * RECORD];
    file.read_exact_at(&mut bytes, BEHIND_STATE)?;
    let malformed = || io::Error::other("the list of held packets cannot be read");
    bytes.chunks_exact(RECORD).map(|record| decode(record).ok_or_else(malformed)).collect()
}

/// Appends the parts of a record.
struct Writer {
    record: [u8; RECORD],
    at: usize,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        self.record[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
    /// A number that may be missing: whether it is there, and the number.
    fn maybe(&mut self, number: Option<u64>) {
        self.put(&[number.is_some().into()]);
        self.put(&number.unwrap_or(0).to_ne_bytes());
    }
}

fn encode(packet: &HeldPacket<Handle>) -> [u8; RECORD] {
    let HeldPacket { handle, fields, ecn, size, segments, pure_ack, arrived } = packet;
    let mut to = Writer { record: [0; RECORD], at: 0 };
    to.put(&handle.queue.to_ne_bytes());
    to.put(&[handle.interface]);
    for number in [handle.id, handle.mark, handle.length] {
        to.put(&number.to_ne_bytes());
    }
    to.put(&size.as_u64().to_ne_bytes());
    to.put(&segments.to_ne_bytes());
    to.put(&arrived.as_nanos().to_ne_bytes());
    to.put(&[ecn.bits(), (*pure_ack).into(), fields.dscp.value()]);
    match fields.hosts {
        Hosts::Unknown => to.put(&[0; 33]),
        Hosts::V4 { source, destination } => {
            to.put(&[4]);
            to.put(&source.to_ipv6_mapped().octets());
            to.put(&destination.to_ipv6_mapped().octets());
        }
        Hosts::V6 { source, destination } => {
            to.put(&[6]);
            to.put(&source.octets());
            to.put(&destination.octets());
        }
    }
    // Missing is what no protocol and no port is.
    to.put(&fields.protocol.map_or(u16::MAX, u16::from).to_ne_bytes());
    for port in [fields.source_port, fields.destination_port] {
        to.put(&port.map_or(u32::MAX, u32::from).to_ne_bytes());
    }
    to.put(&fields.mark.to_ne_bytes());
    to.maybe(fields.uid.map(u64::from));
    to.maybe(fields.cgroup);
    let Fragment { id, offset, more } = fields.fragment.unwrap_or(Fragment { id: 0, offset: 0, more: false });
    to.put(&[fields.fragment.is_some().into(), more.into()]);
    to.put(&id.to_ne_bytes());
    to.put(&offset.to_ne_bytes());
    let (kind, number, pure_ack) = match fields.traits.signal {
        Signal::Unknown => (0, 0, false),
        Signal::Tcp { flags, pure_ack } => (1, flags, pure_ack),
        Signal::Icmp(IcmpType { version: Version::V4, number }) => (2, number, false),
        Signal::Icmp(IcmpType { version: Version::V6, number }) => (3, number, false),
    };
    to.put(&fields.traits.length.to_ne_bytes());
    to.put(&[kind, number, pure_ack.into()]);
    to.record
}

/// Takes the parts of a record.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }
    fn flag(&mut self) -> Option<bool> {
        self.take::<1>().map(|[byte]| byte != 0)
    }
    fn maybe(&mut self) -> Option<Option<u64>> {
        let (there, number) = (self.flag()?, u64::from_ne_bytes(self.take()?));
        Some(there.then_some(number))
    }
}

fn decode(record: &[u8]) -> Option<HeldPacket<Handle>> {
    let mut from = Reader(record);
    let queue = u16::from_ne_bytes(from.take()?);
    let [interface] = from.take()?;
    let (id, mark) = (u32::from_ne_bytes(from.take()?), u32::from_ne_bytes(from.take()?));
    let length = u32::from_ne_bytes(from.take()?);
    let handle = Handle { queue, interface, id, mark, length };
    let size = Bytes::new(u64::from_ne_bytes(from.take()?));
    let segments = u32::from_ne_bytes(from.take()?);
    let arrived = Instant::from_nanos(u64::from_ne_bytes(from.take()?));
    let [ecn] = from.take()?;
    let (pure_ack, [dscp]) = (from.flag()?, from.take()?);
    let ([version], source, destination) = (from.take()?, Ipv6Addr::from(from.take::<16>()?), from.take::<16>()?);
    let destination = Ipv6Addr::from(destination);
    let v4 = |address: Ipv6Addr| -> Option<Ipv4Addr> { address.to_ipv4_mapped() };
    let hosts = match version {
        0 => Hosts::Unknown,
        4 => Hosts::V4 { source: v4(source)?, destination: v4(destination)? },
        6 => Hosts::V6 { source, destination },
        _ => return None,
    };
    let protocol = u8::try_from(u16::from_ne_bytes(from.take()?)).ok();
    let [source_port, destination_port] =
        [from.take()?, from.take()?].map(|port| u16::try_from(u32::from_ne_bytes(port)).ok());
    let mark = u32::from_ne_bytes(from.take()?);
    let uid = match from.maybe()? {
        Some(uid) => Some(u32::try_from(uid).ok()?),
        None => None,
    };
    let cgroup = from.maybe()?;
    let (is_fragment, more) = (from.flag()?, from.flag()?);
    let piece = Fragment { id: u32::from_ne_bytes(from.take()?), offset: u16::from_ne_bytes(from.take()?), more };
    let dscp = Dscp::new(dscp)?;
    let fragment = is_fragment.then_some(piece);
    let traits = traits(&mut from)?;
    let fields = Fields { hosts, dscp, protocol, source_port, destination_port, mark, uid, cgroup, fragment, traits };
    Some(HeldPacket { handle, fields, ecn: Ecn::from_bits(ecn), size, segments, pure_ack, arrived })
}

fn traits(from: &mut Reader<'_>) -> Option<Traits> {
    let length = u16::from_ne_bytes(from.take()?);
    let ([kind, number], is_pure_ack) = (from.take()?, from.flag()?);
    let signal = match kind {
        0 => Signal::Unknown,
        1 => Signal::Tcp { flags: number, pure_ack: is_pure_ack },
        2 => Signal::Icmp(IcmpType { version: Version::V4, number }),
        3 => Signal::Icmp(IcmpType { version: Version::V6, number }),
        _ => return None,
    };
    Some(Traits { length, signal })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guardian;

    fn packets() -> Vec<HeldPacket<Handle>> {
        let plain = HeldPacket {
            handle: Handle { queue: 7_400, interface: 15, id: u32::MAX, mark: 0xdead_beef, length: 1_500 },
            fields: Fields::default(),
            ecn: Ecn::NotEct,
            size: Bytes::new(1_514),
            segments: 1,
            pure_ack: false,
            arrived: Instant::from_nanos(u64::MAX),
        };
        let v4 = Hosts::V4 { source: [192, 0, 2, 1].into(), destination: [0, 0, 0, 0].into() };
        let v6 = Hosts::V6 { source: Ipv6Addr::LOCALHOST, destination: [0xffff; 8].into() };
        let full = Fields {
            hosts: v6,
            dscp: Dscp::EF,
            protocol: Some(255),
            source_port: Some(u16::MAX),
            destination_port: Some(0),
            mark: 5,
            uid: Some(u32::MAX),
            cgroup: Some(u64::MAX),
            fragment: Some(Fragment { id: 9, offset: 1_480, more: true }),
            traits: Traits { length: u16::MAX, signal: Signal::Tcp { flags: 0x12, pure_ack: true } },
        };
        let echo = Signal::Icmp(IcmpType { version: Version::V6, number: 128 });
        let echo = Fields { traits: Traits { length: 84, signal: echo }, ..Fields::default() };
        vec![
            plain,
            HeldPacket { fields: Fields { hosts: v4, ..Fields::default() }, ecn: Ecn::Ce, ..plain },
            HeldPacket { fields: full, segments: 44, pure_ack: true, ..plain },
            HeldPacket { fields: echo, ..plain },
        ]
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let (file, packets) = (guardian::state_file().unwrap(), packets());
        write(&file, &packets).unwrap();
        assert_eq!(read(&file, 4).unwrap(), packets);
        assert_eq!(read(&file, 2).unwrap(), packets[..2]);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let file = guardian::state_file().unwrap();
        assert!(read(&file, 1).is_err(), "it is empty");
        write(&file, &packets()).unwrap();
        assert!(read(&file, 5).is_err(), "it is shorter");
        assert!(read(&file, MOST + 1).is_err());
        // The version of the addresses.
        file.write_all_at(&[5], BEHIND_STATE + 38).unwrap();
        assert!(read(&file, 1).is_err());
    }
}

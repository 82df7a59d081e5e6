//! Packets on the wire, captured by a packet socket at the far end.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::socket::sockopt::RcvBuf;
use nix::sys::socket::{AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, setsockopt, socket};
use tidegate_sys::net::{Ethtool, ethtool};

use crate::queue::PATIENCE;

/// Captures every packet that arrives in the namespace in which it was opened.
pub struct Tap(OwnedFd);

impl Tap {
    pub fn open() -> Self {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Packet, SockType::Datagram, flags, SockProtocol::EthAll).unwrap();
        setsockopt(&fd, RcvBuf, &8_000_000).unwrap();
        Self(fd)
    }

    /// The packets that are there, from the IP header on; only those that came in.
    pub fn packets(&self) -> Vec<Vec<u8>> {
        let mut packets = vec![];
        let mut buffer = vec![0; 70_000];
        loop {
            let Ok((length, address)) = recvfrom::<LinkAddr>(self.0.as_raw_fd(), &mut buffer) else { return packets };
            if address.is_some_and(|address| address.pkttype() != libc::PACKET_OUTGOING) {
                packets.push(buffer[..length].to_vec());
            }
        }
    }

    /// Waits for a packet that `matches`.
    pub fn find(&self, matches: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(packet) = self.packets().into_iter().find(|p| matches(p)) {
                return Some(packet);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }
}

/// The DSCP and ECN of a packet.
pub fn traffic_class(packet: &[u8]) -> (u8, u8) {
    let class = match packet[0] >> 4 {
        4 => packet[1],
        _ => packet[0] << 4 | packet[1] >> 4,
    };
    (class >> 2, class & 3)
}

/// The Internet checksum (RFC 1071) over everything, which is zero for a header whose checksum is right.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u32::from(*b));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Whether every checksum of a TCP or UDP packet is right.
pub fn is_sound(packet: &[u8]) -> bool {
    let (header, addresses, protocol) = match packet[0] >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            if checksum(&[&packet[..header]]) != 0 {
                return false;
            }
            (header, &packet[12..20], packet[9])
        }
        _ => (40, &packet[8..40], packet[6]),
    };
    let length = (packet.len() - header) as u16;
    checksum(&[addresses, &[0, protocol], &length.to_be_bytes(), &packet[header..]]) == 0
}

/// Makes the interface compute checksums and cut superpackets in software, so that a capture contains complete packets.
/// To be called in the namespace of the interface.
pub fn disable_offloads(device: &str) {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    for request in [Ethtool::SetTso, Ethtool::SetSendChecksums] {
        ethtool(&socket, device, request, 0).unwrap();
    }
}

//! Packets on the wire, captured by a packet socket at the far end.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::queue::PATIENCE;

/// Captures every packet that arrives in the namespace in which it was opened.
pub struct Tap(OwnedFd);

impl Tap {
    pub fn open() -> Self {
        // SAFETY: socket(2) takes no pointers; the descriptor is ours alone.
        let fd = unsafe {
            let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            let fd = libc::socket(libc::AF_PACKET, kind, i32::from((libc::ETH_P_ALL as u16).to_be()));
            assert!(fd >= 0, "packet socket: {}", io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        let size = 8_000_000_i32;
        // SAFETY: the value is live for the call and its size is given.
        unsafe {
            let length = size_of::<i32>() as libc::socklen_t;
            libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, (&raw const size).cast(), length);
        }
        Self(fd)
    }

    /// The packets that are there, from the IP header on; only those that came in.
    pub fn packets(&self) -> Vec<Vec<u8>> {
        let mut packets = vec![];
        let mut buffer = vec![0; 70_000];
        loop {
            // SAFETY: buffer and address are live for the call and their sizes are given.
            let (length, address) = unsafe {
                let mut address: libc::sockaddr_ll = std::mem::zeroed();
                let mut size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
                let buffer_length = buffer.len();
                let pointer = (&raw mut address).cast();
                let buffer = buffer.as_mut_ptr().cast();
                (libc::recvfrom(self.0.as_raw_fd(), buffer, buffer_length, 0, pointer, &mut size), address)
            };
            if length < 0 {
                return packets;
            }
            if address.sll_pkttype != libc::PACKET_OUTGOING {
                packets.push(buffer[..length as usize].to_vec());
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
    const SIOCETHTOOL: u64 = 0x8946;
    const SET_TX_CHECKSUMS: u32 = 0x17;
    const SET_TSO: u32 = 0x1f;
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    for command in [SET_TSO, SET_TX_CHECKSUMS] {
        let mut value = Value { command, data: 0 };
        // SAFETY: the request names the device with a zero byte behind it and points at `value`, live for the call.
        let result = unsafe {
            let mut request: libc::ifreq = std::mem::zeroed();
            for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_data = (&raw mut value).cast();
            libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &mut request)
        };
        assert!(result >= 0, "ethtool {command:#x}: {}", io::Error::last_os_error());
    }
}

//! Batches of netlink messages, socket options, and requests to network devices.

use std::fs::File;
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::checked;

/// A datagram that [`receive_netlink`] has received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// The bytes of it in its slot.
    pub length: usize,
    /// Whether the kernel has sent it, and not another process.
    pub is_from_kernel: bool,
    /// Whether it was longer than its slot.
    pub is_truncated: bool,
}

/// Receives up to `N` waiting datagrams of a netlink socket by one system call, each into a slot of `slot` bytes of `bytes`,
/// and calls `received` with the number of the slot and what is in it. Never waits. Returns how many there were.
///
/// # Errors
/// Those of recvmmsg(2): [`io::ErrorKind::WouldBlock`] when none is waiting.
///
/// # Panics
/// When slots have no room.
#[inline]
pub fn receive_netlink<const N: usize>(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    slot: usize,
    mut received: impl FnMut(usize, Datagram),
) -> io::Result<usize> {
    // SAFETY: an all-zero mmsghdr, iovec and sockaddr_nl is a valid, empty one.
    let (mut headers, mut vectors, mut senders): ([libc::mmsghdr; N], [libc::iovec; N], [libc::sockaddr_nl; N]) =
        unsafe { std::mem::zeroed() };
    let mut slots = 0;
    for (at, slot) in bytes.chunks_exact_mut(slot).take(N).enumerate() {
        vectors[at] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
        headers[at].msg_hdr.msg_iov = &raw mut vectors[at];
        headers[at].msg_hdr.msg_iovlen = 1;
        headers[at].msg_hdr.msg_name = (&raw mut senders[at]).cast();
        headers[at].msg_hdr.msg_namelen = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        slots += 1;
    }
    // SAFETY: each of the first `slots` headers points at its own vector and address, each vector at its own slot of `bytes`;
    // all of them outlive the call, and the kernel writes no more than the lengths given.
    let count = unsafe {
        let none = std::ptr::null_mut();
        libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), slots, libc::MSG_DONTWAIT, none)
    };
    let count = checked(count)? as usize;
    for (at, (header, sender)) in headers.iter().zip(&senders).enumerate().take(count) {
        received(
            at,
            Datagram {
                length: (header.msg_len as usize).min(slot),
                is_from_kernel: sender.nl_pid == 0,
                is_truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            },
        );
    }
    Ok(count)
}

/// Sets a socket option whose value is an integer.
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_option(socket: impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_bytes(socket.as_fd(), level, name, &value.to_ne_bytes())
}

/// Binds a socket to an interface: it sends and receives by no other.
///
/// # Errors
/// Those of setsockopt(2); `EPERM` without `CAP_NET_RAW` before Linux 5.7.
pub fn bind_to_interface(socket: impl AsFd, name: &str) -> io::Result<()> {
    set_bytes(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name.as_bytes())
}

/// Sets the options of the IPv4 header of what a socket sends, as they are in the header.
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_header_options(socket: impl AsFd, options: &[u8]) -> io::Result<()> {
    set_bytes(socket.as_fd(), libc::IPPROTO_IP, libc::IP_OPTIONS, options)
}

/// Not for options whose value has addresses of memory in it.
fn set_bytes(socket: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads the value, which is live for the call and of the length given. That has no address in it: an
    // integer is too short for an option with one, and the other callers name an option without.
    let result = unsafe {
        let length = value.len() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), length)
    };
    checked(result).map(drop)
}

/// The process at the other end of a Unix socket when it connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its number; 0 if it is in a namespace of processes that this process cannot see.
    pub pid: i32,
    /// Its effective user.
    pub uid: u32,
}

/// The process at the other end of a connected Unix socket. rustix has this too, but its numbers of processes cannot be 0,
/// which the kernel gives for a process of another namespace.
///
/// # Errors
/// When it is no such socket.
pub fn peer(socket: impl AsFd) -> io::Result<Peer> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the credentials and their length are live for the call and agree; every bit pattern of them is valid.
    let result = unsafe {
        let value = (&raw mut peer).cast();
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, value, &raw mut length)
    };
    checked(result)?;
    Ok(Peer { pid: peer.pid, uid: peer.uid })
}

/// The bytes that were written to a connection and are not acknowledged by the peer.
///
/// # Errors
/// Those of ioctl(2).
pub fn unacknowledged(stream: &TcpStream) -> io::Result<u64> {
    let mut count: libc::c_int = 0;
    // SAFETY: TIOCOUTQ writes an int, which is live for the call.
    checked(unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) })?;
    Ok(count.max(0) as u64)
}

/// Limits the bytes that a TCP socket takes from its program beyond what it has sent (`TCP_NOTSENT_LOWAT`), so that what a
/// program writes last does not wait long behind what it wrote before.
///
/// # Errors
/// Those of setsockopt(2).
pub fn limit_unsent(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    set_option(stream, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, i32::try_from(bytes).unwrap_or(i32::MAX))
}

/// A request about one setting of a network device, of `include/uapi/linux/ethtool.h`: those whose argument is a
/// `struct ethtool_value`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Ethtool {
    /// Sets whether the device computes checksums of what it sends.
    SetSendChecksums = 0x17,
    /// Whether the device segments TCP superpackets (TSO).
    GetTso = 0x1e,
    /// Sets that.
    SetTso = 0x1f,
    /// Whether the kernel segments superpackets late (GSO).
    GetGso = 0x23,
    /// The flags of the device, of which bit 15 is LRO.
    GetFlags = 0x25,
    /// Whether the kernel merges arriving packets (GRO).
    GetGro = 0x2b,
}

/// Makes a request about a device; returns its value, or that which was set.
///
/// # Errors
/// `ENODEV` when there is no such device, `EOPNOTSUPP` when its driver does not support the request.
pub fn ethtool(socket: &UdpSocket, device: &str, request: Ethtool, value: u32) -> io::Result<u32> {
    const SIOCETHTOOL: u32 = 0x8946;
    // struct ethtool_value: the command, and the value.
    let mut value = [request as u32, value];
    let mut whole = interface_request(device).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
    whole.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    // SAFETY: the request is live for the call and names `value`, which is as large as these commands read and write.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut whole) })?;
    Ok(value[1])
}

/// Makes an open `/dev/net/tun` the other end of a new interface of this name, for IP packets without a header in front.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN` in the namespace, `EBUSY` when there is an interface of that name.
pub fn create_tun(file: &File, name: &str) -> io::Result<()> {
    let mut request = interface_request(name)
        .filter(|_| !name.is_empty())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the name of an interface has 1 to 15 bytes"))?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an ifreq, which is live for the call and has no address in it.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) }).map(drop)
}

/// A request about an interface; `None` if no interface can have that name.
fn interface_request(name: &str) -> Option<libc::ifreq> {
    // SAFETY: all zeroes are a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte of the name stays zero.
    let room = request.ifr_name.len() - 1;
    request.ifr_name[..room].get_mut(..name.len())?.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as _);
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_peer_of_a_pair_is_this_process() {
        let (a, _b) = UnixStream::pair().unwrap();
        let own = Peer { pid: std::process::id() as i32, uid: rustix::process::geteuid().as_raw() };
        assert_eq!(peer(&a).unwrap(), own);
        assert!(peer(UdpSocket::bind("127.0.0.1:0").unwrap()).is_ok_and(|peer| peer.pid == 0));
    }

    #[test]
    fn the_loopback_segments_late_and_other_names_are_no_devices() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        // The kernel has had GSO on for the loopback since 2.6.
        assert_eq!(ethtool(&socket, "lo", Ethtool::GetGso, 0).unwrap(), 1);
        for name in ["nosuch0", "a-name-of-16-byt", ""] {
            assert_eq!(ethtool(&socket, name, Ethtool::GetGso, 0).unwrap_err().raw_os_error(), Some(libc::ENODEV));
        }
        assert!(interface_request("fifteen-bytes-x").is_some());
        let null = File::open("/dev/null").unwrap();
        assert_eq!(create_tun(&null, "").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(create_tun(&null, "x").is_err());
    }

    #[test]
    fn what_the_peer_has_not_acknowledged_is_counted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(unacknowledged(&stream).unwrap(), 0);
        set_option(&stream, libc::IPPROTO_IP, libc::IP_TOS, 0x20).unwrap();
        assert!(set_option(&stream, libc::IPPROTO_IP, -1, 0).is_err());
        assert!(bind_to_interface(&stream, "nosuch0").is_err());
    }
}

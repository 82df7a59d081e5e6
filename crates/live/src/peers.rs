//! [`Peers`]: the user at the other end of a TCP connection on this machine.

use std::net::{IpAddr, SocketAddr};

use crate::netlink::{Error, Protocol, Result, Socket};

/// A request by the addresses and ports of one socket (`SOCK_DIAG_BY_FAMILY`).
const BY_FAMILY: u16 = 20;
/// No cookie is known (`INET_DIAG_NOCOOKIE`).
const NO_COOKIE: u32 = u32::MAX;
/// The place of the user in the kernel's answer (`inet_diag_msg`): after family, state, timer, retransmissions, the socket's
/// identity of 48 bytes, and three numbers.
const USER: usize = 4 + 48 + 12;
/// The inode follows; a socket that its program has closed has none, and root as its user.
const INODE: usize = USER + 4;

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// A socket of this user (uid).
    User(u32),
    /// A socket of this machine that is closed.
    Closed,
    /// No socket of this machine.
    Elsewhere,
}

/// Asks the kernel which user has a socket. It belongs to the network namespace of the thread that opened it.
///
/// *Source*: `include/uapi/linux/inet_diag.h`.
#[derive(Debug)]
pub struct Peers {
    socket: Socket,
}

impl Peers {
    /// Opens a socket for it.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn open() -> Result<Self> {
        Ok(Self { socket: Socket::open(Protocol::Diagnosis)? })
    }

    /// Returns who has the socket at `client`, of a connection to `server`. One exchange with the kernel.
    ///
    /// # Errors
    /// When the kernel cannot answer, as one without `INET_DIAG`.
    pub fn peer(&mut self, client: SocketAddr, server: SocketAddr) -> Result<Peer> {
        let request = request(client, server);
        let answer = self.socket.request("look up the user of a connection", BY_FAMILY, 0, |body| {
            body.raw(&request);
        });
        match answer {
            Ok(replies) => Ok(replies.iter().find_map(|reply| read(&reply.body)).unwrap_or(Peer::Closed)),
            Err(Error::Refused { errno: libc::ENOENT, .. }) if client.ip().to_canonical().is_loopback() => {
                Ok(Peer::Closed)
            }
            Err(Error::Refused { errno: libc::ENOENT, .. }) => Ok(Peer::Elsewhere),
            Err(error) => Err(error),
        }
    }
}

/// Reads an `inet_diag_msg`.
fn read(body: &[u8]) -> Option<Peer> {
    let number = |at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let (user, inode) = (number(USER)?, number(INODE)?);
    Some(if inode == 0 { Peer::Closed } else { Peer::User(user) })
}

/// An `inet_diag_req_v2`.
fn request(client: SocketAddr, server: SocketAddr) -> Vec<u8> {
    let octets = |address: IpAddr| -> (u8, [u8; 16]) {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&address.octets());
                (libc::AF_INET as u8, bytes)
            }
            IpAddr::V6(address) => (libc::AF_INET6 as u8, address.octets()),
        }
    };
    let ((family, from), (_, to)) = (octets(client.ip()), octets(server.ip()));
    let mut request = vec![family, libc::IPPROTO_TCP as u8, 0, 0];
    // All states.
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(client.port().to_be_bytes());
    request.extend(server.port().to_be_bytes());
    request.extend(from);
    request.extend(to);
    // Any interface.
    request.extend(0_u32.to_ne_bytes());
    request.extend(NO_COOKIE.to_ne_bytes());
    request.extend(NO_COOKIE.to_ne_bytes());
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_connection_is_that_of_this_process() {
        let Ok(mut peers) = Peers::open() else { return println!("SKIP: this kernel has no socket diagnosis") };
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(address) else { continue };
            let server = listener.local_addr().unwrap();
            let client = std::net::TcpStream::connect(server).unwrap();
            let at = client.local_addr().unwrap();
            match peers.peer(at, server) {
                Ok(peer) => assert_eq!(peer, Peer::User(rustix::process::geteuid().as_raw()), "{address}"),
                Err(error) => return println!("SKIP: this kernel has no socket diagnosis: {error}"),
            }
            // It is kept for a while by the kernel, as root's.
            drop(client);
            assert_eq!(peers.peer(at, server).unwrap(), Peer::Closed);
            assert_eq!(peers.peer(SocketAddr::new(at.ip(), 1), server).unwrap(), Peer::Closed);
            assert_eq!(peers.peer("192.0.2.1:1".parse().unwrap(), server).unwrap(), Peer::Elsewhere);
        }
    }
}

//! Reads which offloads of an interface are on, by the legacy `SIOCETHTOOL`, which every driver supports.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// An operation on packets that is offloaded to an interface or deferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offload {
    /// The interface segments TCP superpackets (TSO).
    Tso,
    /// The kernel segments superpackets as late as it can (GSO).
    Gso,
    /// The kernel merges arriving packets, reversibly (GRO).
    Gro,
    /// The interface merges arriving packets, irreversibly (LRO).
    Lro,
}

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GET_TSO: u32 = 0x1e;
const GET_GSO: u32 = 0x23;
const GET_FLAGS: u32 = 0x25;
const GET_GRO: u32 = 0x2b;
const FLAG_LRO: u32 = 1 << 15;

/// The offloads that are on. An interface without drivers' help, such as a tunnel, may have none.
///
/// # Errors
/// `ENODEV` when there is no such interface.
pub fn offloads(interface: &str) -> io::Result<Vec<Offload>> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let mut on = Vec::new();
    for (command, bit, offload) in [
        (GET_TSO, 1, Offload::Tso),
        (GET_GSO, 1, Offload::Gso),
        (GET_GRO, 1, Offload::Gro),
        (GET_FLAGS, FLAG_LRO, Offload::Lro),
    ] {
        match ask(&socket, interface, command) {
            Ok(value) if value & bit != 0 => on.push(offload),
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Err(error),
            // A driver that does not support the query does not have the offload.
            Err(_) => {}
        }
    }
    Ok(on)
}

fn ask(socket: &UdpSocket, interface: &str, command: u32) -> io::Result<u32> {
    // struct ethtool_value: the command, and the value.
    let mut value = [command, 0];
    // SAFETY: all zeroes are a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = interface.as_bytes();
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    // SAFETY: the request is live for the call and names `value`, which is as large as these commands read and write.
    if unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value[1])
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_loopback_cuts_late_and_nonsense_has_no_offloads() {
        // The kernel has had GSO on for the loopback since 2.6.
        assert!(super::offloads("lo").unwrap().contains(&super::Offload::Gso));
        assert!(super::offloads("nosuch0").is_err());
    }
}

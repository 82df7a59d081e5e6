//! Reads which offloads of an interface are on, by the legacy `SIOCETHTOOL`, which every driver supports.

use std::io;
use std::net::UdpSocket;

use tidegate_sys::net::{Ethtool, ethtool};

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

const FLAG_LRO: u32 = 1 << 15;

/// The offloads that are on. An interface without drivers' help, such as a tunnel, may have none.
///
/// # Errors
/// `ENODEV` when there is no such interface.
pub fn offloads(interface: &str) -> io::Result<Vec<Offload>> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let mut on = Vec::new();
    for (request, bit, offload) in [
        (Ethtool::GetTso, 1, Offload::Tso),
        (Ethtool::GetGso, 1, Offload::Gso),
        (Ethtool::GetGro, 1, Offload::Gro),
        (Ethtool::GetFlags, FLAG_LRO, Offload::Lro),
    ] {
        match ethtool(&socket, interface, request, 0) {
            Ok(value) if value & bit != 0 => on.push(offload),
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Err(error),
            // A driver that does not support the query does not have the offload.
            Err(_) => {}
        }
    }
    Ok(on)
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

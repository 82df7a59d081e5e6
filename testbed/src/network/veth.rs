//! Two namespaces and a veth pair between them: the smallest network, without senders.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::time::Duration;

use tidegate_live::netns::Namespace;
use tidegate_live::rtnl::{Address, Rtnl, sysctl};

/// Two namespaces joined by a veth pair: `tg0` in the left one, `peer0` in the right one.
#[derive(Debug)]
pub struct Pair {
    /// The host that is shaped.
    pub left: Namespace,
    /// The other host.
    pub right: Namespace,
}

/// The interface of the left host.
pub const DEVICE: &str = "tg0";
/// The addresses of the left host, IPv4 and IPv6.
pub const LEFT: [IpAddr; 2] = addresses(1);
/// The addresses of the right host.
pub const RIGHT: [IpAddr; 2] = addresses(2);

const fn addresses(host: u8) -> [IpAddr; 2] {
    [IpAddr::V4(Ipv4Addr::new(10, 77, 0, host)), IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host as u16))]
}

impl Default for Pair {
    fn default() -> Self {
        Self::new()
    }
}

impl Pair {
    /// Makes both hosts, with addresses and the link up.
    ///
    /// # Panics
    /// When the machine refuses something.
    pub fn new() -> Self {
        let pair = Self { left: Namespace::create().unwrap(), right: Namespace::create().unwrap() };
        pair.left.run(|| Rtnl::open().unwrap().create_veth_into(DEVICE, "peer0", pair.right.as_fd()).unwrap()).unwrap();
        for (namespace, device, own) in [(&pair.left, DEVICE, LEFT), (&pair.right, "peer0", RIGHT)] {
            namespace.run(|| bring_up(device, own)).unwrap();
        }
        pair.left.run(|| wait_for_carrier(DEVICE)).unwrap();
        pair.right.run(|| wait_for_carrier("peer0")).unwrap();
        pair
    }
}

/// Gives `device` of the calling thread's namespace its addresses, and brings it and the loopback up.
///
/// # Panics
/// When the machine refuses something.
pub fn bring_up(device: &str, own: [IpAddr; 2]) {
    let mut rtnl = Rtnl::open().unwrap();
    // Without duplicate detection link-local addresses, which neighbour discovery needs, are usable at once.
    let _ = sysctl::write(&format!("ipv6/conf/{device}/accept_dad"), "0");
    for name in ["lo", device] {
        let index = rtnl.index(name).unwrap();
        rtnl.up(index).unwrap();
    }
    let index = rtnl.index(device).unwrap();
    for (address, prefix) in own.into_iter().zip([24, 64]) {
        rtnl.add_address(Address { index, address, prefix }).unwrap();
    }
}

/// Waits until packets can flow; before that the kernel drops them silently.
///
/// # Panics
/// When that takes too long.
pub fn wait_for_carrier(device: &str) {
    let mut rtnl = Rtnl::open().unwrap();
    let index = rtnl.index(device).unwrap();
    assert!(rtnl.wait_until_running(index, Duration::from_secs(20)).unwrap(), "no carrier");
}

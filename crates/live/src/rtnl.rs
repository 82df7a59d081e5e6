//! Links, addresses and routes over rtnetlink.
//!
//! An [`Rtnl`] belongs to the network namespace of the thread that opened it. Links are named by their index; look one
//! up with [`Rtnl::link`]. Every error names the operation and contains the kernel's message.
//!
//! *Units*: MTU and GSO sizes in bytes, statistics since the link was made.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use crate::netlink::{Body, CREATE, EXCL, Error, Protocol, REPLACE, Reply, Result, Socket};

mod filter;
mod link;
mod monitor;
mod neighbour;
mod qdisc;
pub mod sysctl;

pub use filter::{OnLink, Taking};
pub use link::{Link, LinkStatistics, OperationalState};
pub use monitor::{ChangeMonitor, LinkEvent, LinkMonitor};
pub use neighbour::Neighbour;
pub use qdisc::{HtbClass, MULTI_QUEUE, RootQdisc};

const NEWLINK: u16 = libc::RTM_NEWLINK;
const DELLINK: u16 = libc::RTM_DELLINK;
const GETLINK: u16 = libc::RTM_GETLINK;
const NEWADDR: u16 = libc::RTM_NEWADDR;
const DELADDR: u16 = libc::RTM_DELADDR;
const GETADDR: u16 = libc::RTM_GETADDR;
const NEWROUTE: u16 = libc::RTM_NEWROUTE;
const GETROUTE: u16 = libc::RTM_GETROUTE;

const IFLA_ADDRESS: u16 = libc::IFLA_ADDRESS;
const IFLA_IFNAME: u16 = libc::IFLA_IFNAME;
const IFLA_MTU: u16 = libc::IFLA_MTU;
const IFLA_LINK: u16 = libc::IFLA_LINK;
const IFLA_MASTER: u16 = libc::IFLA_MASTER;
const IFLA_TXQLEN: u16 = libc::IFLA_TXQLEN;
const IFLA_OPERSTATE: u16 = libc::IFLA_OPERSTATE;
const IFLA_LINKINFO: u16 = libc::IFLA_LINKINFO;
const IFLA_STATS64: u16 = libc::IFLA_STATS64;
const IFLA_NET_NS_FD: u16 = libc::IFLA_NET_NS_FD;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_NEW_NETNSID: u16 = 45;
const IFLA_GSO_MAX_SEGS: u16 = libc::IFLA_GSO_MAX_SEGS;
const IFLA_GSO_MAX_SIZE: u16 = libc::IFLA_GSO_MAX_SIZE;
const IFLA_XDP: u16 = libc::IFLA_XDP;
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
const INFO_KIND: u16 = libc::IFLA_INFO_KIND;
const INFO_DATA: u16 = libc::IFLA_INFO_DATA;
const VETH_INFO_PEER: u16 = 1;
const VLAN_ID: u16 = 1;

const IFINFO: usize = 16;
const IFADDR: usize = 8;
const RTMSG: usize = 12;

/// How long the kernel may take to enter an address; some microseconds, unless the machine is busy.
const ENTERED: Duration = Duration::from_secs(5);

/// An address of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The index of the link.
    pub index: u32,
    /// The address without its prefix length.
    pub address: IpAddr,
    /// The length of its prefix in bits.
    pub prefix: u8,
}

/// A route to add.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The network; `None` is the default route of the gateway's family.
    pub to: Option<(IpAddr, u8)>,
    /// The next hop.
    pub via: Option<IpAddr>,
    /// The link it leaves by.
    pub index: Option<u32>,
}

/// The limits on superpackets of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GsoLimits {
    /// The maximum number of segments.
    pub segments: Option<u32>,
    /// The maximum size in bytes, IPv6.
    pub bytes: Option<u32>,
    /// The maximum size in bytes, IPv4 (Linux 6.3 and later).
    pub ipv4_bytes: Option<u32>,
}

/// A connection to rtnetlink.
#[derive(Debug)]
pub struct Rtnl {
    socket: Socket,
}

impl Rtnl {
    /// Opens one in the calling thread's network namespace.
    pub fn open() -> Result<Self> {
        let socket = Socket::open(Protocol::Route)?;
        let _ = socket.option(libc::SOL_NETLINK, libc::NETLINK_GET_STRICT_CHK, 1);
        Ok(Self { socket })
    }

    /// All links.
    pub fn links(&mut self) -> Result<Vec<Link>> {
        let replies = self.socket.dump("list the links", GETLINK, |m| {
            m.raw(&[0; IFINFO]);
        })?;
        Ok(replies.iter().filter_map(|r| Link::parse(&r.body)).collect())
    }

    /// The link of that name; `None` if there is none.
    pub fn link(&mut self, name: &str) -> Result<Option<Link>> {
        let replies = self.socket.request(&format!("look up {name}"), GETLINK, 0, |m| {
            m.raw(&[0; IFINFO]).string(IFLA_IFNAME, name);
        });
        found(replies)
    }

    /// The link of that index, with fresh statistics; `None` if there is none.
    pub fn link_by_index(&mut self, index: u32) -> Result<Option<Link>> {
        let replies = self.socket.request(&format!("look up link {index}"), GETLINK, 0, |m| {
            m.raw(&header(index, 0, 0));
        });
        found(replies)
    }

    /// The index of the link of that name, or an error if it does not exist.
    pub fn index(&mut self, name: &str) -> Result<u32> {
        match self.link(name)? {
            Some(link) => Ok(link.index),
            None => Err(Error::Refused {
                operation: format!("look up {name}"),
                errno: libc::ENODEV,
                text: Some("no interface has this name".into()),
            }),
        }
    }

    /// Makes a pair of virtual Ethernet links, both here.
    pub fn create_veth(&mut self, name: &str, peer: &str) -> Result<()> {
        self.create_veth_pair(name, peer, None)
    }

    /// Makes a pair of virtual Ethernet links, the peer in another namespace.
    pub fn create_veth_into(&mut self, name: &str, peer: &str, namespace: BorrowedFd<'_>) -> Result<()> {
        self.create_veth_pair(name, peer, Some(namespace))
    }

    fn create_veth_pair(&mut self, name: &str, peer: &str, namespace: Option<BorrowedFd<'_>>) -> Result<()> {
        self.create_link(name, "veth", None, |data| {
            data.nest(VETH_INFO_PEER, |p| {
                p.raw(&[0; IFINFO]).string(IFLA_IFNAME, peer);
                if let Some(namespace) = namespace {
                    p.u32(IFLA_NET_NS_FD, namespace.as_raw_fd() as u32);
                }
            });
        })
    }

    /// Makes a link without parameters: a `dummy`, `ifb` or `bridge`.
    pub fn create(&mut self, name: &str, kind: &str) -> Result<()> {
        self.create_link(name, kind, None, |_| ())
    }

    /// Makes a VLAN on a link.
    pub fn create_vlan(&mut self, name: &str, parent: u32, id: u16) -> Result<()> {
        self.create_link(name, "vlan", Some(parent), |data| {
            data.attr(VLAN_ID, &id.to_ne_bytes());
        })
    }

    /// Makes a link that is stacked on another one, such as a macvlan, with the kernel's defaults for its kind.
    pub fn create_above(&mut self, name: &str, kind: &str, parent: u32) -> Result<()> {
        self.create_link(name, kind, Some(parent), |_| ())
    }

    fn create_link(
        &mut self,
        name: &str,
        kind: &str,
        parent: Option<u32>,
        data: impl FnOnce(&mut Body<'_>),
    ) -> Result<()> {
        let operation = format!("create the {kind} link {name}");
        self.change(&operation, NEWLINK, CREATE | EXCL, |m| {
            m.raw(&[0; IFINFO]).string(IFLA_IFNAME, name);
            if let Some(parent) = parent {
                m.u32(IFLA_LINK, parent);
            }
            m.nest(IFLA_LINKINFO, |info| {
                info.string(INFO_KIND, kind).nest(INFO_DATA, data);
            });
        })
    }

    /// Deletes a link; of a veth pair both ends.
    pub fn delete_link(&mut self, index: u32) -> Result<()> {
        self.change(&format!("delete link {index}"), DELLINK, 0, |m| {
            m.raw(&header(index, 0, 0));
        })
    }

    /// Moves a link into another namespace; it goes down and loses its addresses.
    pub fn move_link(&mut self, index: u32, namespace: BorrowedFd<'_>) -> Result<()> {
        self.set(&format!("move link {index} to another namespace"), index, |m| {
            m.u32(IFLA_NET_NS_FD, namespace.as_raw_fd() as u32);
        })
    }

    /// Renames a link.
    pub fn rename(&mut self, index: u32, name: &str) -> Result<()> {
        self.set(&format!("rename link {index} to {name}"), index, |m| {
            m.string(IFLA_IFNAME, name);
        })
    }

    /// Makes a link a port of a bridge.
    pub fn set_master(&mut self, index: u32, bridge: u32) -> Result<()> {
        self.set(&format!("make link {index} a port of {bridge}"), index, |m| {
            m.u32(IFLA_MASTER, bridge);
        })
    }

    /// Sets a link up.
    pub fn up(&mut self, index: u32) -> Result<()> {
        let up = libc::IFF_UP as u32;
        self.change(&format!("set link {index} up"), NEWLINK, 0, |m| {
            m.raw(&header(index, up, up));
        })
    }

    /// Waits until a link that was set up sends what it is given, for a limited time. Until the kernel has seen the carrier of a new one with
    /// two ends, in a thread of its own, it drops that silently. Returns whether it does.
    pub fn wait_until_running(&mut self, index: u32, most: Duration) -> Result<bool> {
        let begun = Instant::now();
        loop {
            match self.link_by_index(index)? {
                None => return Ok(false),
                Some(link) if link.state == OperationalState::Up => return Ok(true),
                Some(_) if begun.elapsed() > most => return Ok(false),
                Some(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Sets a link down.
    pub fn down(&mut self, index: u32) -> Result<()> {
        self.change(&format!("set link {index} down"), NEWLINK, 0, |m| {
            m.raw(&header(index, 0, libc::IFF_UP as u32));
        })
    }

    /// Sets the MTU.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<()> {
        self.set(&format!("set the MTU of link {index} to {mtu}"), index, |m| {
            m.u32(IFLA_MTU, mtu);
        })
    }

    /// Sets how many packets wait before a link at most, where its queue goes by that.
    pub fn set_queue_length(&mut self, index: u32, packets: u32) -> Result<()> {
        self.set(&format!("let {packets} packets wait before link {index}"), index, |m| {
            m.u32(IFLA_TXQLEN, packets);
        })
    }

    /// Sets the limits that are given, one message each, so that a kernel without the last still takes the others.
    pub fn set_gso(&mut self, index: u32, limits: GsoLimits) -> Result<()> {
        let wishes = [
            ("gso_max_segs", IFLA_GSO_MAX_SEGS, limits.segments),
            ("gso_max_size", IFLA_GSO_MAX_SIZE, limits.bytes),
            ("gso_ipv4_max_size", IFLA_GSO_IPV4_MAX_SIZE, limits.ipv4_bytes),
        ];
        for (name, kind, value) in wishes {
            if let Some(value) = value {
                self.set(&format!("set {name} of link {index} to {value}"), index, |m| {
                    m.u32(kind, value);
                })?;
            }
        }
        Ok(())
    }

    /// All addresses.
    pub fn addresses(&mut self) -> Result<Vec<Address>> {
        let replies = self.socket.dump("list the addresses", GETADDR, |m| {
            m.raw(&[0; IFADDR]);
        })?;
        Ok(replies.iter().filter_map(parse_address).collect())
    }

    /// Adds an address to a link, usable at once: there is no duplicate detection, and on a link that is up this waits
    /// until the kernel accepts packets to an IPv6 address. The kernel enters that on a thread of its own, which may be
    /// delayed on a busy machine; until then it sends from the address and drops the replies.
    pub fn add_address(&mut self, address: Address) -> Result<()> {
        let operation = format!("add {}/{} to link {}", address.address, address.prefix, address.index);
        self.change(&operation, NEWADDR, CREATE | EXCL, |m| address.encode(m))?;
        if address.address.is_ipv6() && self.link_by_index(address.index)?.is_some_and(|link| link.is_up()) {
            let deadline = Instant::now() + ENTERED;
            while !self.is_own(address.address)? && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Whether packets to `address` are delivered to this machine.
    fn is_own(&mut self, address: IpAddr) -> Result<bool> {
        // struct rtmsg: family, two lengths, type of service, table, protocol, scope, type.
        Ok(self.lookup(address)?.is_some_and(|reply| reply.body.get(7) == Some(&libc::RTN_LOCAL)))
    }

    /// Removes an address from a link.
    pub fn delete_address(&mut self, address: Address) -> Result<()> {
        let operation = format!("remove {}/{} from link {}", address.address, address.prefix, address.index);
        self.change(&operation, DELADDR, 0, |m| address.encode(m))
    }

    /// Adds a route, or replaces the one to the same network.
    ///
    /// # Errors
    /// Besides the kernel's: a route with neither network nor gateway belongs to no family.
    pub fn add_route(&mut self, route: Route) -> Result<()> {
        let operation = format!("add the route {route:?}");
        let Some(family) = route.to.map(|(to, _)| to).or(route.via) else {
            return Err(Error::Refused {
                operation,
                errno: libc::EINVAL,
                text: Some("give a network or a gateway".into()),
            });
        };
        self.change(&operation, NEWROUTE, CREATE | REPLACE, |m| {
            let mut header = [0; RTMSG];
            header[0] = family_of(family);
            header[1] = route.to.map_or(0, |(_, prefix)| prefix);
            header[4] = libc::RT_TABLE_MAIN;
            header[5] = libc::RTPROT_STATIC;
            header[6] = if route.via.is_some() { libc::RT_SCOPE_UNIVERSE } else { libc::RT_SCOPE_LINK };
            header[7] = libc::RTN_UNICAST;
            m.raw(&header);
            if let Some((to, _)) = route.to {
                bytes_of(to, |b| m.attr(libc::RTA_DST, b));
            }
            if let Some(via) = route.via {
                bytes_of(via, |b| m.attr(libc::RTA_GATEWAY, b));
            }
            if let Some(index) = route.index {
                m.u32(libc::RTA_OIF, index);
            }
        })
    }

    /// Routes packets to one address out by a link although its network is the machine's own: an entry of the local
    /// table, which is consulted first.
    pub fn divert(&mut self, address: IpAddr, index: u32) -> Result<()> {
        self.change(&format!("lead {address} out by link {index}"), NEWROUTE, CREATE | REPLACE, |m| {
            let mut header = [0; RTMSG];
            header[0] = family_of(address);
            header[1] = if address.is_ipv4() { 32 } else { 128 };
            header[4] = libc::RT_TABLE_LOCAL;
            header[5] = libc::RTPROT_STATIC;
            header[6] = libc::RT_SCOPE_LINK;
            header[7] = libc::RTN_UNICAST;
            m.raw(&header);
            bytes_of(address, |b| m.attr(libc::RTA_DST, b));
            m.u32(libc::RTA_OIF, index);
        })
    }

    /// The index of the link by which packets to `address` leave.
    pub fn route_to(&mut self, address: IpAddr) -> Result<Option<u32>> {
        Ok(self.lookup(address)?.and_then(|reply| reply.attributes(RTMSG).find(libc::RTA_OIF)?.u32()))
    }

    /// The links of the default routes of the main table with their metrics, least metric first: of several next hops
    /// each, of both families. A link occurs once.
    pub fn default_routes(&mut self) -> Result<Vec<(u32, u32)>> {
        let replies = self.socket.dump("list the routes", GETROUTE, |m| {
            m.raw(&[0; RTMSG]);
        })?;
        let mut found: Vec<(u32, u32)> = Vec::new();
        for reply in &replies {
            // struct rtmsg: the length of the destination's prefix, the table, the type.
            let [_, 0, _, _, libc::RT_TABLE_MAIN, _, _, libc::RTN_UNICAST, ..] = reply.body[..] else { continue };
            let number = |kind| reply.attributes(RTMSG).find(kind).and_then(|attribute| attribute.u32());
            let metric = number(libc::RTA_PRIORITY).unwrap_or(0);
            let hops = reply.attributes(RTMSG).find(libc::RTA_MULTIPATH).map_or(&[][..], |hops| hops.payload);
            found.extend(next_hops(hops).chain(number(libc::RTA_OIF)).map(|index| (index, metric)));
        }
        found.sort_by_key(|&(_, metric)| metric);
        let mut seen = Vec::new();
        found.retain(|&(index, _)| !seen.contains(&index) && (seen.push(index), true).1);
        Ok(found)
    }

    /// Looks up the route of packets to `address`.
    fn lookup(&mut self, address: IpAddr) -> Result<Option<Reply>> {
        let replies = self.socket.request(&format!("find the route to {address}"), GETROUTE, 0, |m| {
            let mut header = [0; RTMSG];
            header[0] = family_of(address);
            header[1] = if address.is_ipv4() { 32 } else { 128 };
            m.raw(&header);
            bytes_of(address, |b| m.attr(libc::RTA_DST, b));
        });
        match replies {
            Err(Error::Refused { errno: libc::ENETUNREACH | libc::EHOSTUNREACH, .. }) => Ok(None),
            other => Ok(other?.into_iter().next()),
        }
    }

    fn set(&mut self, operation: &str, index: u32, fill: impl FnOnce(&mut Body<'_>)) -> Result<()> {
        self.change(operation, NEWLINK, 0, |m| {
            m.raw(&header(index, 0, 0));
            fill(m);
        })
    }

    fn change(&mut self, operation: &str, kind: u16, flags: u16, fill: impl FnOnce(&mut Body<'_>)) -> Result<()> {
        self.socket.request(operation, kind, flags, fill).map(drop)
    }
}

impl Address {
    fn encode(&self, m: &mut Body<'_>) {
        let mut header = [0; IFADDR];
        header[0] = family_of(self.address);
        header[1] = self.prefix;
        header[2] = if self.address.is_ipv6() { libc::IFA_F_NODAD as u8 } else { 0 };
        header[4..].copy_from_slice(&self.index.to_ne_bytes());
        m.raw(&header);
        bytes_of(self.address, |b| {
            m.attr(libc::IFA_LOCAL, b).attr(libc::IFA_ADDRESS, b);
        });
    }
}

fn parse_address(reply: &Reply) -> Option<Address> {
    let header = reply.body.first_chunk::<IFADDR>()?;
    let attributes = reply.attributes(IFADDR);
    // On a point-to-point link IFA_ADDRESS is the other end; IFA_LOCAL, where it exists, is always ours.
    let bytes = attributes.find(libc::IFA_LOCAL).or_else(|| attributes.find(libc::IFA_ADDRESS))?.payload;
    let address = match i32::from(header[0]) {
        libc::AF_INET => IpAddr::from(*bytes.first_chunk::<4>()?),
        libc::AF_INET6 => IpAddr::from(*bytes.first_chunk::<16>()?),
        _ => return None,
    };
    let index = u32::from_ne_bytes([header[4], header[5], header[6], header[7]]);
    Some(Address { index, address, prefix: header[1] })
}

/// The links of next hops: `struct rtnexthop` has the length of each with its attributes, flags, hops, and the link.
fn next_hops(mut bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    std::iter::from_fn(move || {
        let head = bytes.first_chunk::<8>()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let index = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]);
        // Each begins at a multiple of four bytes.
        bytes = bytes.get(length.max(8).next_multiple_of(4)..).unwrap_or_default();
        Some(index)
    })
}

fn found(replies: Result<Vec<Reply>>) -> Result<Option<Link>> {
    match replies {
        // ERANGE: longer than the name of any link may be.
        Err(Error::Refused { errno: libc::ENODEV | libc::ERANGE, .. }) => Ok(None),
        other => Ok(other?.first().and_then(|r| Link::parse(&r.body))),
    }
}

/// struct ifinfomsg: family, padding, type, index, flags, change mask.
fn header(index: u32, flags: u32, change: u32) -> [u8; IFINFO] {
    let mut bytes = [0; IFINFO];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..].copy_from_slice(&change.to_ne_bytes());
    bytes
}

fn family_unspecified() -> u8 {
    libc::AF_UNSPEC as u8
}

fn family_of(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

fn bytes_of<T>(address: IpAddr, then: impl FnOnce(&[u8]) -> T) -> T {
    match address {
        IpAddr::V4(a) => then(&a.octets()),
        IpAddr::V6(a) => then(&a.octets()),
    }
}

impl AsFd for Rtnl {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

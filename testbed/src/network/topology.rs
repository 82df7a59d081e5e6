//! Hosts and the link between them.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use tidegate_live::netns::Namespace;
use tidegate_live::rtnl::{Address, Route, Rtnl, sysctl};
use tidegate_units::{Bytes, Rate};

use crate::delay::{Capacity, DelayLine};

/// IPv4 or IPv6.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

/// A host: a namespace with one interface to the other host.
#[derive(Debug)]
pub struct Host {
    /// The namespace that represents it.
    pub namespace: Namespace,
    /// The name of its interface.
    pub interface: &'static str,
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// Its IPv6 address.
    pub v6: Ipv6Addr,
}

impl Host {
    /// Its address of the given family.
    pub fn address(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => self.v4.into(),
            Family::V6 => self.v6.into(),
        }
    }
}

/// Two hosts and a link.
#[derive(Debug)]
pub struct Pair {
    /// The sending host; its egress is shaped.
    pub sender: Host,
    /// The receiving host, which measures.
    pub receiver: Host,
}

impl Pair {
    /// Creates both hosts and the link between them, up and with addresses.
    ///
    /// # Errors
    /// When the machine allows no namespaces (see [`tidegate_live::netns::available`]) or refuses a link.
    pub fn create() -> io::Result<Self> {
        let host = |interface, last: u8| -> io::Result<Host> {
            Ok(Host {
                namespace: Namespace::create()?,
                interface,
                v4: Ipv4Addr::new(10, 77, 0, last),
                v6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, u16::from(last)),
            })
        };
        let pair = Self { sender: host("tg0", 1)?, receiver: host("tg1", 2)? };
        pair.connect()?;
        Ok(pair)
    }

    /// Creates the link, also again after [`Pair::disconnect`].
    ///
    /// # Errors
    /// When the machine refuses it.
    pub fn connect(&self) -> io::Result<()> {
        let into = &self.receiver.namespace;
        self.sender.namespace.run(|| -> io::Result<()> {
            let mut rtnl = Rtnl::open().map_err(io::Error::other)?;
            let (name, peer) = (self.sender.interface, self.receiver.interface);
            rtnl.create_veth_into(name, peer, into.as_fd()).map_err(io::Error::other)
        })??;
        self.prepare()
    }

    /// Gives both ends their addresses, and waits until packets flow.
    fn prepare(&self) -> io::Result<()> {
        for host in [&self.sender, &self.receiver] {
            host.namespace.run(|| bring_up(host))??;
        }
        for host in [&self.sender, &self.receiver] {
            host.namespace.run(|| wait_until_up(host.interface))?;
        }
        for family in [Family::V4, Family::V6] {
            self.sender.namespace.run(|| acquaint(self.receiver.address(family)))?;
        }
        Ok(())
    }

    /// Another link between the hosts, with these interfaces, and addresses that have `number` in them.
    ///
    /// # Errors
    /// When the machine refuses it.
    pub fn another_link(&self, number: u8, interfaces: [&'static str; 2]) -> io::Result<Self> {
        let host = |host: &Host, interface, last: u8| -> io::Result<Host> {
            Ok(Host {
                namespace: host.namespace.try_clone()?,
                interface,
                v4: Ipv4Addr::new(10, 77, number, last),
                v6: Ipv6Addr::new(0xfd77, u16::from(number), 0, 0, 0, 0, 0, u16::from(last)),
            })
        };
        let [sending, receiving] = interfaces;
        let pair = Self { sender: host(&self.sender, sending, 1)?, receiver: host(&self.receiver, receiving, 2)? };
        pair.connect()?;
        Ok(pair)
    }

    /// Deletes the link, both ends of it.
    ///
    /// # Errors
    /// When there is none.
    pub fn disconnect(&self) -> io::Result<()> {
        self.at_sender(|rtnl, index| rtnl.delete_link(index))
    }

    /// Adds a further IPv4 address to `host`, with the last octet `last`: another host as far as flows are concerned.
    ///
    /// # Errors
    /// When the machine refuses it.
    pub fn add_host(&self, host: &Host, last: u8) -> io::Result<IpAddr> {
        let address = IpAddr::from([10, 77, 0, last]);
        host.namespace.run(|| {
            let mut rtnl = Rtnl::open().map_err(io::Error::other)?;
            let index = rtnl.index(host.interface).map_err(io::Error::other)?;
            rtnl.add_address(Address { index, address, prefix: 24 }).map_err(io::Error::other)
        })??;
        Ok(address)
    }

    /// Limits the sender's end of the link to `rate` with a queue of `limit`, by the kernel's TBF.
    ///
    /// # Errors
    /// When the kernel has no TBF.
    pub fn limit_wire(&self, rate: Rate, limit: Bytes) -> io::Result<()> {
        self.at_sender(|rtnl, index| rtnl.set_tbf(index, rate, Bytes::new(3_028), limit))
    }

    /// Calls `work` with the sender's interface.
    pub fn at_sender<T: Send>(
        &self,
        work: impl FnOnce(&mut Rtnl, u32) -> Result<T, tidegate_live::netlink::Error> + Send,
    ) -> io::Result<T> {
        let interface = self.sender.interface;
        self.sender.namespace.run(|| {
            let mut rtnl = Rtnl::open().map_err(io::Error::other)?;
            let index = rtnl.index(interface).map_err(io::Error::other)?;
            work(&mut rtnl, index).map_err(io::Error::other)
        })?
    }
}

/// Two hosts with a router between them, IPv4 only: a queue in a router does not throttle its sender as a queue on the
/// sender's own host does (TCP small queues).
#[derive(Debug)]
pub struct Chain {
    /// The main sender, with the addresses `10.78.1.1` and, as a second host, [`Chain::ELEPHANT`].
    pub server: Host,
    /// The router; its interface towards the client is `tgr1`.
    pub router: Host,
    /// The receiver, by `tgc0`.
    pub client: Host,
    /// The line between the router and the client, where that has a delay.
    pub line: Option<DelayLine>,
}

impl Chain {
    /// The second address of the server.
    pub const ELEPHANT: Ipv4Addr = Ipv4Addr::new(10, 78, 1, 3);

    /// Creates the three hosts, with links up, addresses and routes.
    ///
    /// # Errors
    /// When the machine allows no namespaces (see [`tidegate_live::netns::available`]) or refuses a link.
    pub fn create() -> io::Result<Self> {
        Self::make(None)
    }

    /// Creates the chain with a line of `delay` each way between the router and the client.
    ///
    /// # Errors
    /// As [`Chain::create`], and as [`DelayLine::create`].
    pub fn create_delayed(delay: Duration) -> io::Result<Self> {
        Self::make(Some((delay, [None, None])))
    }

    /// As [`Chain::create_delayed`], with a capacity from the router to the client, and one back.
    ///
    /// # Errors
    /// As [`Chain::create`], and as [`DelayLine::create`].
    pub fn create_with_line(delay: Duration, capacities: [Capacity; 2]) -> io::Result<Self> {
        Self::make(Some((delay, capacities.map(Some))))
    }

    fn make(line: Option<(Duration, [Option<Capacity>; 2])>) -> io::Result<Self> {
        let host = |interface, v4: [u8; 4]| -> io::Result<Host> {
            let v6 = Ipv6Addr::new(0xfd78, 0, 0, v4[2].into(), 0, 0, 0, v4[3].into());
            Ok(Host { namespace: Namespace::create()?, interface, v4: v4.into(), v6 })
        };
        let mut chain = Self {
            server: host("tgs0", [10, 78, 1, 1])?,
            router: host("tgr1", [10, 78, 2, 2])?,
            client: host("tgc0", [10, 78, 2, 1])?,
            line: None,
        };
        let (to_server, to_client) = (chain.server.namespace.as_fd(), chain.client.namespace.as_fd());
        chain.router.namespace.run(|| -> io::Result<()> {
            let mut rtnl = Rtnl::open().map_err(io::Error::other)?;
            rtnl.create_veth_into("tgr0", "tgs0", to_server).map_err(io::Error::other)?;
            if line.is_none() {
                rtnl.create_veth_into("tgr1", "tgc0", to_client).map_err(io::Error::other)?;
            }
            sysctl::enable_forwarding()
        })??;
        if let Some((delay, capacities)) = line {
            let ends = [(&chain.router.namespace, "tgr1"), (&chain.client.namespace, "tgc0")];
            chain.line = Some(DelayLine::create_with(ends, delay, capacities)?);
        }
        let near: Ipv4Addr = [10, 78, 1, 2].into();
        chain.router.namespace.run(|| settle("tgr0", &[near], None))??;
        chain.router.namespace.run(|| settle("tgr1", &[chain.router.v4], None))??;
        chain.server.namespace.run(|| settle("tgs0", &[chain.server.v4, Self::ELEPHANT], Some(near)))??;
        chain.client.namespace.run(|| settle("tgc0", &[chain.client.v4], Some(chain.router.v4)))??;
        Ok(chain)
    }

    /// Adds `count` further addresses to the server and the client each, as many pairs of hosts as far as flows are
    /// concerned. Returns those of the server first.
    ///
    /// # Errors
    /// When the machine refuses it.
    ///
    /// # Panics
    /// For more than 100.
    pub fn add_hosts(&self, count: u8) -> io::Result<Vec<(IpAddr, IpAddr)>> {
        assert!(count <= 100, "addresses go by one byte");
        let add = |host: &Host, network: u8| {
            host.namespace.run(|| -> io::Result<Vec<IpAddr>> {
                let mut rtnl = Rtnl::open().map_err(io::Error::other)?;
                let index = rtnl.index(host.interface).map_err(io::Error::other)?;
                let addresses = (0..count).map(|n| IpAddr::from([10, 78, network, 100 + n]));
                addresses
                    .map(|address| {
                        rtnl.add_address(Address { index, address, prefix: 24 }).map_err(io::Error::other)?;
                        Ok(address)
                    })
                    .collect()
            })?
        };
        Ok(add(&self.server, 1)?.into_iter().zip(add(&self.client, 2)?).collect())
    }

    /// Calls `work` with the router's interface towards the client.
    pub fn at_router<T: Send>(
        &self,
        work: impl FnOnce(&mut Rtnl, u32) -> Result<T, tidegate_live::netlink::Error> + Send,
    ) -> io::Result<T> {
        self.router.namespace.run(|| {
            let mut rtnl = Rtnl::open().map_err(io::Error::other)?;
            let index = rtnl.index("tgr1").map_err(io::Error::other)?;
            work(&mut rtnl, index).map_err(io::Error::other)
        })?
    }
}

/// The TCP of the papers. A machine's own default may limit its own rate (BBR), or leave slow start early
/// (CUBIC), which would hide the effect of a queue.
const CONGESTION_CONTROL: &str = "reno";

/// Adds an address to an interface of the calling thread's namespace, and routes everything else by `gateway`.
fn settle(interface: &str, addresses: &[Ipv4Addr], gateway: Option<Ipv4Addr>) -> io::Result<()> {
    sysctl::write("ipv4/tcp_congestion_control", CONGESTION_CONTROL)?;
    let mut rtnl = Rtnl::open().map_err(io::Error::other)?;
    let mut inner = || {
        let loopback = rtnl.index("lo")?;
        rtnl.up(loopback)?;
        let index = rtnl.index(interface)?;
        for &address in addresses {
            rtnl.add_address(Address { index, address: address.into(), prefix: 24 })?;
        }
        rtnl.up(index)?;
        if let Some(gateway) = gateway {
            rtnl.add_route(Route { to: None, via: Some(gateway.into()), index: None })?;
        }
        Ok(())
    };
    inner().map_err(|error: tidegate_live::netlink::Error| io::Error::other(error))
}

/// Waits, for a limited time, until packets can flow: before that the kernel drops them silently, including neighbour
/// solicitations, which it repeats only after a second.
fn wait_until_up(interface: &str) {
    let Ok(mut rtnl) = Rtnl::open() else { return };
    let _ = rtnl.index(interface).and_then(|index| rtnl.wait_until_running(index, Duration::from_secs(5)));
}

/// Resolves the link addresses of both ends before anything is measured. Packets that wait for resolution wait behind
/// every discipline, and are reordered when the reply arrives. A failure shows in the traffic that follows.
fn acquaint(peer: IpAddr) {
    const PATIENCE: Duration = Duration::from_secs(20);
    /// No socket listens on it, which the other end reports.
    const PORT: u16 = 9;
    let began = Instant::now();
    let ask = || -> io::Result<()> {
        let socket = match peer {
            IpAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
            IpAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
        }?;
        socket.connect((peer, PORT))?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        socket.send(&[])?;
        socket.recv(&mut [0]).map(drop)
    };
    while began.elapsed() < PATIENCE {
        match ask() {
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::HostUnreachable) => {
            }
            // Refused: the addresses are resolved. Or the protocol is not available here.
            _ => return,
        }
    }
}

fn bring_up(host: &Host) -> io::Result<()> {
    let mut rtnl = Rtnl::open().map_err(io::Error::other)?;
    let mut inner = || {
        let loopback = rtnl.index("lo")?;
        rtnl.up(loopback)?;
        let index = rtnl.index(host.interface)?;
        rtnl.add_address(Address { index, address: host.v4.into(), prefix: 24 })?;
        rtnl.up(index)?;
        rtnl.add_address(Address { index, address: host.v6.into(), prefix: 64 })
    };
    inner().map_err(io::Error::other)
}

//! Hosts and the link between them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

use tidegate_live::netns::Namespace;
use tidegate_live::rtnl::{Address, Rtnl};
use tidegate_units::{Bytes, Rate};

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
    /// Where it lives.
    pub namespace: Namespace,
    /// The name of its interface.
    pub interface: &'static str,
    /// Its address.
    pub v4: Ipv4Addr,
    /// Its other address.
    pub v6: Ipv6Addr,
}

impl Host {
    /// Its address of a family.
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
    /// The one that sends; its egress is what gets shaped.
    pub sender: Host,
    /// The one that receives and measures.
    pub receiver: Host,
}

impl Pair {
    /// Makes both hosts, the link between them up and addressed.
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

    /// Makes the link: once more after [`Pair::disconnect`].
    ///
    /// # Errors
    /// When the machine refuses it.
    pub fn connect(&self) -> io::Result<()> {
        let into = &self.receiver.namespace;
        self.sender.namespace.run(|| -> io::Result<()> {
            let mut rtnl = Rtnl::open().map_err(io::Error::other)?;
            rtnl.create_veth_into("tg0", "tg1", into.as_fd()).map_err(io::Error::other)
        })??;
        for host in [&self.sender, &self.receiver] {
            host.namespace.run(|| bring_up(host))??;
        }
        Ok(())
    }

    /// Deletes the link, both ends of it.
    ///
    /// # Errors
    /// When there is none.
    pub fn disconnect(&self) -> io::Result<()> {
        self.at_sender(|rtnl, index| rtnl.delete_link(index))
    }

    /// Makes the sender's end of the link a wire of `rate` with a queue of `limit`, by the kernel's TBF.
    ///
    /// # Errors
    /// When the kernel has no TBF.
    pub fn limit_wire(&self, rate: Rate, limit: Bytes) -> io::Result<()> {
        self.at_sender(|rtnl, index| rtnl.set_tbf(index, rate, Bytes::new(3_028), limit))
    }

    /// Does something to the sender's interface.
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

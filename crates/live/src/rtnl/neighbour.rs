//! The table of neighbours: which devices of the own segments have which addresses.

use std::net::IpAddr;

use super::Rtnl;
use crate::netlink::{Reply, Result};

const GETNEIGH: u16 = libc::RTM_GETNEIGH;
const NDMSG: usize = 12;
const NDA_DST: u16 = libc::NDA_DST;
const NDA_LLADDR: u16 = libc::NDA_LLADDR;
/// States in which the kernel sends to the hardware address: reachable, stale, delay, probe, permanent.
const USABLE: u16 = libc::NUD_REACHABLE | libc::NUD_STALE | libc::NUD_DELAY | libc::NUD_PROBE | libc::NUD_PERMANENT;

/// A device of an own segment with an address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Neighbour {
    /// Its hardware address.
    pub mac: [u8; 6],
    /// One of its addresses.
    pub address: IpAddr,
}

impl Rtnl {
    /// The neighbours whose hardware address is known and in use.
    pub fn neighbours(&mut self) -> Result<Vec<Neighbour>> {
        let replies = self.socket.dump("list the neighbours", GETNEIGH, |m| {
            m.raw(&[0; NDMSG]);
        })?;
        Ok(replies.iter().filter_map(Neighbour::parse).collect())
    }
}

impl Neighbour {
    /// Reads an entry of a dump; `None` for one that is cut off or not in use.
    pub fn parse(reply: &Reply) -> Option<Self> {
        // ndmsg: family, padding of 3, index, state, flags, type.
        let state = u16::from_ne_bytes(reply.body.get(8..10)?.try_into().ok()?);
        let found = |kind| reply.attributes(NDMSG).find(kind);
        let mac = found(NDA_LLADDR)?.payload.try_into().ok()?;
        let bytes = found(NDA_DST)?.payload;
        let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
        let address = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()?;
        (state & USABLE != 0).then_some(Self { mac, address })
    }
}

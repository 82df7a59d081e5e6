//! [`Log`]: copies of packets of some ports, which the kernel makes beside their way.
//!
//! *Law*: no packet waits for this socket. The kernel copies what the rules name, within [`RATE`]; a copy that does not fit
//! the receive buffer is lost, and the packet goes on in any case.
//! *Source*: the kernel's `include/uapi/linux/netfilter/nfnetlink_log.h`.
//! *Notes*: the rules (module `table`) are in a table of their own that belongs to the socket of a shaper's other rules: a successor inherits
//! them with these, since with any hook that goes the kernel drops what waits in packet queues. The kernel removes the table with the
//! socket (Linux 5.12 and later). Packets are copied where they enter this host or are sent by it, after the translation of addresses of
//! what arrives, so that question and answer of a host behind this one have its own address.

use std::time::Duration;

use crate::netlink::{self, Error, Messages, Protocol, Result, Socket};
use crate::nft::{Base, Chain, Compare, Expression as E, Family, Field, MetaKey, Rule, Table};

const SUBSYSTEM: u16 = (libc::NFNL_SUBSYS_ULOG as u16) << 8;
const MSG_PACKET: u16 = SUBSYSTEM;
const MSG_CONFIG: u16 = SUBSYSTEM | 1;
const CFG_CMD: u16 = 1;
const CFG_MODE: u16 = 2;
const CFG_TIMEOUT: u16 = 4;
const CMD_BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const IFINDEX_INDEV: u16 = 4;
const PAYLOAD: u16 = 9;
const UDP: u8 = libc::IPPROTO_UDP as u8;

/// The first group that is tried, and how many.
const GROUPS: std::ops::Range<u16> = 21_353..21_385;
/// The bytes of a packet that are copied.
const COPIED: u32 = 4_096;
/// The most bytes of packets that are copied in a second.
pub const RATE: u64 = 500_000;
/// The size of the receive buffer: the copies of some seconds.
const BUFFER: i32 = 4 << 20;
/// The time for which the kernel gathers copies, to send them at once.
const GATHERED: Duration = Duration::from_millis(100);
/// Between the translation of destinations (-100) and the queue (-90).
const PRIORITY: i32 = -95;

/// A copy of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copied {
    /// The index of the interface by which it came in; 0 for a packet of this host.
    pub incoming: u32,
    /// Its bytes from the IP header on, perhaps not all.
    pub bytes: Vec<u8>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Log {
    packets: Socket,
    group: u16,
}

impl Log {
    /// Receives what rules copy to a group that no other socket has, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// When the kernel lacks packet logs, or without `CAP_NET_ADMIN`.
    pub fn open() -> Result<Self> {
        let mut packets = Socket::open(Protocol::Netfilter)?;
        // Beyond the limit for others, where that is allowed; otherwise more copies are lost.
        if packets.option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER).is_err() {
            let _ = packets.option(libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER);
        }
        let mut group = GROUPS.start;
        // A group belongs to one socket; another instance may have the first ones.
        while let Err(error) = configure(&mut packets, group, CFG_CMD, &[CMD_BIND]) {
            group += 1;
            if !matches!(error.errno(), Some(libc::EBUSY | libc::EPERM)) || group == GROUPS.end {
                return Err(error);
            }
        }
        let [a, b, c, d] = COPIED.to_be_bytes();
        configure(&mut packets, group, CFG_MODE, &[a, b, c, d, COPY_PACKET, 0])?;
        let hundredths = GATHERED.as_millis() as u32 / 10;
        configure(&mut packets, group, CFG_TIMEOUT, &hundredths.to_be_bytes())?;
        Ok(Self { packets, group })
    }

    /// The group to which rules copy packets for it.
    pub fn group(&self) -> u16 {
        self.group
    }

    /// The copies that are there, at most about `most`. Does not wait.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn receive(&mut self, most: usize) -> Result<Vec<Copied>> {
        let mut copied = Vec::new();
        while copied.len() < most {
            match self.packets.try_receive("receive copies of packets") {
                Ok(Some(bytes)) => copied.extend(Messages::new(bytes).filter_map(|message| copy(&message))),
                Ok(None) => break,
                // Copies were lost, because there were more than the buffer holds.
                Err(error) if error.errno() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(copied)
    }
}

fn copy(message: &netlink::Message<'_>) -> Option<Copied> {
    if message.kind != MSG_PACKET || message.body.len() < 4 {
        return None;
    }
    let found = |kind| message.attributes(4).find(kind);
    let bytes = found(PAYLOAD)?.payload.to_vec();
    Some(Copied { incoming: found(IFINDEX_INDEV).and_then(|index| index.be32()).unwrap_or(0), bytes })
}

fn configure(socket: &mut Socket, group: u16, kind: u16, value: &[u8]) -> std::result::Result<(), Error> {
    let replies = socket.request(&format!("set up packet log {group}"), MSG_CONFIG, 0, |m| {
        let [high, low] = group.to_be_bytes();
        m.raw(&[0, 0, high, low]).attr(kind, value);
    })?;
    drop(replies);
    Ok(())
}

/// The table `name` with the rules that copy UDP datagrams from and to `port` for `group`; without a group there are the chains alone.
pub(crate) fn table(name: &str, port: u16, group: Option<u16>) -> Table {
    let hooks = [("arriving", libc::NF_INET_PRE_ROUTING), ("sent", libc::NF_INET_LOCAL_OUT)];
    let chains = hooks.map(|(name, hook)| Chain { name: name.into(), hook: Some((hook as u32, PRIORITY)) });
    let ends = [("from", 0), ("to", 2)];
    let rule = |group: u16, chain: &str, (end, offset): (&str, u32)| Rule {
        chain: chain.into(),
        comment: format!("copy what is {end} port {port}"),
        expressions: vec![
            E::Meta(MetaKey::Transport, 1),
            E::Compare(1, Compare::Equal, vec![UDP]),
            E::Load(Field { base: Base::Transport, offset, length: 2 }, 1),
            E::Compare(1, Compare::Equal, port.to_be_bytes().to_vec()),
            E::Limit { rate: RATE, burst: RATE as u32 },
            E::Log { group, copied: COPIED },
        ],
    };
    let of_group = |group: u16| hooks.iter().flat_map(move |(chain, _)| ends.map(|end| rule(group, chain, end)));
    let rules = group.into_iter().flat_map(of_group).collect();
    Table { family: Family::Inet, name: name.into(), chains: chains.into(), rules }
}

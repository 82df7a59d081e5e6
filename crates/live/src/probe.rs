//! Proof that shaping is in force, packet by packet.
//!
//! Installed rules do not prove that packets are queued; a packet that arrives from the queue does. A [`Prober`] sends
//! UDP datagrams out of the very interface, each looking like a packet of one class (family, DSCP, mark, ports); the
//! data path calls [`recognise`] on each packet, enters the result in the [`ProbeTable`], and drops the datagram:
//! nothing leaves the host. A probe that does not arrive in time means that shaping is not in force: a wrong interface,
//! IPv6 going another way, a rule before ours that accepts.
//!
//! For arriving packets, a probe is a multicast datagram to all nodes with a TTL of 0, sent by the interface: the
//! kernel delivers the sending host's own copy through the receiving half of that interface, and transmits nothing.
//!
//! *Notes*: a probe of what leaves has a TTL of 1 and goes to the discard port of an address reserved for documentation (RFC 5737,
//! RFC 3849), or to loopback on `lo`, so that one that escapes does no harm. A probe is dropped before it could cause
//! neighbour discovery. An arriving probe passes everything from the packet filter on, but not the card, its driver and
//! programs attached there (XDP, a flow table): that is proven only by packets from the network, and monitored while
//! shaping runs ([`Shaping::coverage`](crate::shaping::Shaping::coverage)). It is not possible on an interface without
//! multicast, and only for rules that a destination of all nodes meets. The cookie is drawn by the caller; probes of
//! another run are not recognised.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use tidegate_sys::net::{bind_to_interface, set_option};

use crate::netlink::Error;
use crate::nfqueue::{QueueCounters, queue_counters};
use crate::rules::{Difference, Direction, Rules};

const MAGIC: [u8; 8] = *b"tidegate";
const LENGTH: usize = 20;
const DISCARD: u16 = 9;

/// The two protocols a probe can have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// A datagram that represents a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The number in its payload, by which it is recognised.
    pub number: u32,
    /// Its network protocol.
    pub version: Version,
    /// Its DSCP, 0 to 63.
    pub dscp: u8,
    /// Its firewall mark, if the class requires one (needs `CAP_NET_ADMIN`).
    pub mark: Option<u32>,
    /// Its destination, if the class requires one; otherwise an address reserved for documentation.
    pub to: Option<IpAddr>,
    /// Its destination port; 9 (discard) if the class requires none.
    pub port: Option<u16>,
    /// Its source port, if the class requires one.
    pub source_port: Option<u16>,
}

impl Probe {
    /// A probe identified by protocol and DSCP alone.
    pub fn new(number: u32, version: Version, dscp: u8) -> Self {
        Self { number, version, dscp, mark: None, to: None, port: None, source_port: None }
    }
}

/// Sends probes out of one interface, or into it.
#[derive(Clone, Debug)]
pub struct Prober {
    interface: String,
    index: u32,
    loopback: bool,
    direction: Direction,
    cookie: u64,
}

impl Prober {
    /// A prober for the interface of that name and index. `cookie` distinguishes the probes of this run from others:
    /// draw it at random.
    pub fn new(interface: &str, index: u32, cookie: u64) -> Self {
        Self { interface: interface.into(), index, loopback: interface == "lo", direction: Direction::Egress, cookie }
    }

    /// As this prober, but with probes that arrive by the interface.
    #[must_use]
    pub fn arriving(self) -> Self {
        Self { direction: Direction::Ingress, ..self }
    }

    /// The cookie of this run.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Sends one probe, from the calling thread's network namespace.
    ///
    /// # Errors
    /// With the step that failed: binding to the interface, setting the mark, or sending. IPv6 fails to send on an
    /// interface where it is switched off: then no packet of it can leave there either, and nothing remains to be
    /// proven. IPv4 is sent even by an interface without an address.
    pub fn send(&self, probe: &Probe) -> Result<(), Error> {
        let step = |what: &str| {
            let operation = format!("probe {} by {} ({what})", probe.version, self.interface);
            move |source| Error::System { operation, source }
        };
        let any: IpAddr = match probe.version {
            Version::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Version::V6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, probe.source_port.unwrap_or(0))).map_err(step("open a socket"))?;
        bind_to_interface(&socket, &self.interface).map_err(step("bind to the interface"))?;
        let class = i32::from(probe.dscp & 0x3f) << 2;
        let (level, traffic_class, hops) = match probe.version {
            Version::V4 => (libc::IPPROTO_IP, libc::IP_TOS, libc::IP_TTL),
            Version::V6 => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_UNICAST_HOPS),
        };
        set_option(&socket, level, traffic_class, class).map_err(step("set the DSCP"))?;
        if self.direction == Direction::Ingress && !self.loopback {
            let (level, hops, through) = match probe.version {
                Version::V4 => (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, libc::IP_MULTICAST_LOOP),
                Version::V6 => (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, libc::IPV6_MULTICAST_LOOP),
            };
            set_option(&socket, level, hops, 0).map_err(step("keep it on this host"))?;
            set_option(&socket, level, through, 1).map_err(step("have a copy"))?;
        } else {
            set_option(&socket, level, hops, 1).map_err(step("limit its reach"))?;
        }
        if let Some(mark) = probe.mark {
            set_option(&socket, libc::SOL_SOCKET, libc::SO_MARK, mark.cast_signed()).map_err(step("set the mark"))?;
        }
        let mut payload = [0; LENGTH];
        payload[..8].copy_from_slice(&MAGIC);
        payload[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        payload[16..].copy_from_slice(&probe.number.to_be_bytes());
        let port = probe.port.unwrap_or(DISCARD);
        let to = match self.destination(probe) {
            IpAddr::V6(a) => SocketAddrV6::new(a, port, 0, if is_local(a) { self.index } else { 0 }).into(),
            a => SocketAddr::new(a, port),
        };
        socket.send_to(&payload, to).map_err(step("send"))?;
        Ok(())
    }

    /// The destination address of `probe`.
    pub fn destination(&self, probe: &Probe) -> IpAddr {
        match (probe.to, probe.version) {
            (Some(to), _) => to,
            (None, Version::V4) if self.loopback => Ipv4Addr::LOCALHOST.into(),
            (None, Version::V6) if self.loopback => Ipv6Addr::LOCALHOST.into(),
            // Every host belongs to these groups without reporting it to the network.
            (None, Version::V4) if self.direction == Direction::Ingress => Ipv4Addr::new(224, 0, 0, 1).into(),
            (None, Version::V6) if self.direction == Direction::Ingress => {
                Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).into()
            }
            // An IPv4 socket bound to a device needs no route: the destination counts as on the link.
            (None, Version::V4) => Ipv4Addr::new(192, 0, 2, 9).into(),
            // IPv6 always needs one; every link with IPv6 has one to link-local multicast. This group is unassigned.
            (None, Version::V6) => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0x7469, 0x6465).into(),
        }
    }
}

fn is_local(address: Ipv6Addr) -> bool {
    address.is_unicast_link_local() || address.segments()[0] & 0xff0f == 0xff02
}

/// The number of the probe in a packet (from its IP header on), if it is one of the run with this cookie.
pub fn recognise(packet: &[u8], cookie: u64) -> Option<u32> {
    read(packet).filter(|(of, _)| *of == cookie).map(|(_, number)| number)
}

/// Cookie and number of the probe in a packet.
///
/// Cost: for any other packet one comparison of its protocol, one of its length. Probes have no extension headers and
/// no fragments.
pub fn read(packet: &[u8]) -> Option<(u64, u32)> {
    let (header, protocol, total) = match packet.first()? >> 4 {
        4 => (usize::from(packet[0] & 15) * 4, *packet.get(9)?, be16(packet, 2)?),
        6 => (40, *packet.get(6)?, 40 + be16(packet, 4)?),
        _ => return None,
    };
    if i32::from(protocol) != libc::IPPROTO_UDP || total != header + 8 + LENGTH {
        return None;
    }
    let payload = packet.get(header + 8..header + 8 + LENGTH)?;
    let (magic, rest) = payload.split_first_chunk()?;
    (*magic == MAGIC).then_some((u64::from_be_bytes(*rest.first_chunk()?), u32::from_be_bytes(*payload.last_chunk()?)))
}

fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?)))
}

/// The probes that were sent, and how those that arrived were classified.
#[derive(Clone, Debug)]
pub struct ProbeTable<C> {
    entries: Vec<(Probe, C, Option<C>)>,
}

impl<C> Default for ProbeTable<C> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

/// A probe that did not prove that its class is shaped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure<C> {
    /// It did not come through the queue: packets like it are not shaped.
    Lost {
        /// The probe that failed.
        probe: Probe,
        /// The class that it represents.
        class: C,
    },
    /// It arrived and was classified into another class.
    Misclassified {
        /// The probe that failed.
        probe: Probe,
        /// The class that it represents.
        class: C,
        /// The class that it was classified into.
        taken_for: C,
    },
}

impl<C: Clone + PartialEq> ProbeTable<C> {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a probe that is about to be sent, and assigns its number.
    pub fn expect(&mut self, mut probe: Probe, class: C) -> Probe {
        probe.number = self.entries.len() as u32;
        self.entries.push((probe, class, None));
        probe
    }

    /// Records that the probe of that number arrived and was classified into `class`.
    pub fn arrived(&mut self, number: u32, class: C) {
        if let Some(entry) = self.entries.get_mut(number as usize) {
            entry.2 = Some(class);
        }
    }

    /// Whether every probe has arrived.
    pub fn complete(&self) -> bool {
        self.entries.iter().all(|(.., taken_for)| taken_for.is_some())
    }

    /// All probes, with the class that each represents.
    pub fn probes(&self) -> impl Iterator<Item = (&Probe, &C)> {
        self.entries.iter().map(|(probe, class, _)| (probe, class))
    }

    /// The probes that are still awaited.
    pub fn awaited(&self) -> impl Iterator<Item = &Probe> {
        self.entries.iter().filter(|(.., taken_for)| taken_for.is_none()).map(|(probe, ..)| probe)
    }

    /// The probes that failed; empty if shaping is proven.
    pub fn failures(&self) -> Vec<Failure<C>> {
        let mut failures = Vec::new();
        for (probe, class, taken_for) in &self.entries {
            match taken_for {
                None => failures.push(Failure::Lost { probe: *probe, class: class.clone() }),
                Some(other) if other != class => failures.push(Failure::Misclassified {
                    probe: *probe,
                    class: class.clone(),
                    taken_for: other.clone(),
                }),
                Some(_) => {}
            }
        }
        failures
    }
}

/// The state of one queue according to the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QueueState {
    /// It is served; these are its counters.
    Served(QueueCounters),
    /// No socket serves it: packets pass unshaped.
    Unserved,
    /// The kernel does not disclose it to this user (an unprivileged user namespace): rely on the probes.
    Hidden(String),
}

/// Looks up `queue` in the kernel's list, in the calling thread's network namespace.
pub fn queue_state(queue: u16) -> QueueState {
    match queue_counters() {
        Err(error) => QueueState::Hidden(error.to_string()),
        Ok(list) => list.into_iter().find(|c| c.queue == queue).map_or(QueueState::Unserved, QueueState::Served),
    }
}

/// The result of [`inspect`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inspection {
    /// The differences between the rules and the plan.
    pub differences: Vec<Difference>,
    /// The state of each queue asked for.
    pub queues: Vec<(u16, QueueState)>,
}

impl Inspection {
    /// Whether the rules and queues are as they should be.
    pub fn is_sound(&self) -> bool {
        self.differences.is_empty() && self.queues.iter().all(|(_, state)| *state != QueueState::Unserved)
    }
}

/// Reads back the rules, and the queues of the calling thread's network namespace. The probes are the other half of the proof.
pub fn inspect(rules: &mut Rules, queues: &[u16]) -> Result<Inspection, Error> {
    Ok(Inspection {
        differences: rules.verify()?,
        queues: queues.iter().map(|&queue| (queue, queue_state(queue))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_table_distinguishes_lost_from_misclassified_probes() {
        let mut sent_probes = ProbeTable::new();
        let probes: Vec<_> =
            ["gold", "silver", "bronze"].map(|c| sent_probes.expect(Probe::new(0, Version::V4, 0), c)).into();
        assert_eq!(probes.iter().map(|p| p.number).collect::<Vec<_>>(), [0, 1, 2]);
        sent_probes.arrived(0, "gold");
        sent_probes.arrived(1, "bronze");
        sent_probes.arrived(99, "gold");
        assert!(!sent_probes.complete());
        assert_eq!(sent_probes.awaited().map(|p| p.number).collect::<Vec<_>>(), [2]);
        assert!(matches!(
            sent_probes.failures()[..],
            [Failure::Misclassified { taken_for: "bronze", .. }, Failure::Lost { class: "bronze", .. }]
        ));
    }

    #[test]
    fn only_probes_of_this_run_are_recognised() {
        let mut packet = vec![0x45, 0, 0, 48, 0, 0, 0, 0, 1, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 9];
        packet.extend([0; 8]);
        packet.extend(MAGIC);
        packet.extend(7_u64.to_be_bytes());
        packet.extend(3_u32.to_be_bytes());
        assert_eq!(recognise(&packet, 7), Some(3));
        assert_eq!(recognise(&packet, 8), None);
        for end in 0..packet.len() {
            assert_eq!(recognise(&packet[..end], 7), None);
        }
        packet[9] = 6;
        assert_eq!(recognise(&packet, 7), None);
    }

    proptest! {
        #[test]
        fn random_packets_are_no_probes(bytes in prop::collection::vec(any::<u8>(), 0..128), cookie: u64) {
            prop_assert_eq!(recognise(&bytes, cookie), None);
        }
    }
}

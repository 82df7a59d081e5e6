//! The queueing discipline on the route to an address: two requests to rtnetlink.
//!
//! *Source*: rtnetlink(7); the attributes are those of `linux/rtnetlink.h` and `linux/pkt_sched.h`.
//! *Cost*: a few system calls, once.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_ETF_PARMS: u16 = 1;
const TC_H_ROOT: u32 = u32::MAX;

/// The queueing discipline of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queueing {
    /// The index of the device.
    pub device: u32,
    /// The kind of the root, and of each child if the root has several queues (`mq`).
    kinds: Vec<(u32, String)>,
    etf_clock: Option<i32>,
}

impl Queueing {
    /// Whether every queue is an fq.
    pub fn is_fq(&self) -> bool {
        self.all_are("fq")
    }
    /// The clock of the etf of every queue.
    pub fn etf_clock(&self) -> Option<i32> {
        self.etf_clock.filter(|_| self.all_are("etf"))
    }
    /// The discipline of this kind at the root of a device, for tests.
    #[cfg(test)]
    pub(crate) fn of(kind: &str) -> Self {
        Self { device: 1, kinds: vec![(TC_H_ROOT, kind.into())], etf_clock: None }
    }
    fn all_are(&self, wanted: &str) -> bool {
        let many = |kind: &str| matches!(kind, "mq" | "mqprio" | "taprio");
        let mut kinds = self.kinds.iter().map(|(_, kind)| kind.as_str()).filter(|kind| !many(kind)).peekable();
        kinds.peek().is_some() && kinds.all(|kind| kind == wanted)
    }
}

impl fmt::Display for Queueing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = self.kinds.iter().find(|(parent, _)| *parent == TC_H_ROOT).map_or("none", |(_, kind)| kind);
        write!(f, "{root} on device {}", self.device)
    }
}

/// The queueing discipline on the route to `peer`; `None` without a route.
///
/// # Errors
/// The error of the netlink socket.
pub fn queueing_towards(peer: IpAddr) -> io::Result<Option<Queueing>> {
    device_towards(peer)?.map(queueing_on).transpose()
}

/// The queueing discipline of a device, by its index.
pub(crate) fn queueing_on(device: u32) -> io::Result<Queueing> {
    let mut request = vec![0_u8; 20];
    request[4..8].copy_from_slice(&device.to_ne_bytes());
    let mut found = Queueing { device, kinds: Vec::new(), etf_clock: None };
    ask(RTM_GETQDISC, NLM_F_DUMP, &request, |kind, body| {
        if kind != RTM_NEWQDISC || u32_at(body, 4) != Some(device) {
            return;
        }
        let parent = u32_at(body, 12).unwrap_or(0);
        for (attribute, value) in attributes(body.get(20..).unwrap_or_default()) {
            match attribute {
                TCA_KIND => {
                    let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
                    let text = String::from_utf8_lossy(text).into_owned();
                    // Ingress disciplines do not queue departing packets.
                    if text != "ingress" && text != "clsact" {
                        found.kinds.push((parent, text));
                    }
                }
                TCA_OPTIONS => {
                    // struct tc_etf_qopt { s32 delta; s32 clockid; u32 flags; }
                    let parameters =
                        attributes(value).find(|(attribute, value)| *attribute == TCA_ETF_PARMS && value.len() == 12);
                    if found.kinds.last().is_some_and(|(_, kind)| kind == "etf") {
                        found.etf_clock = parameters.and_then(|(_, value)| u32_at(value, 4)).map(|clock| clock as i32);
                    }
                }
                _ => {}
            }
        }
    })?;
    Ok(found)
}

fn device_towards(peer: IpAddr) -> io::Result<Option<u32>> {
    let address: Vec<u8> = match peer {
        IpAddr::V4(address) => address.octets().into(),
        IpAddr::V6(address) => address.octets().into(),
    };
    let family = if address.len() == 4 { libc::AF_INET } else { libc::AF_INET6 };
    // struct rtmsg: family, dst_len, and ten bytes that are not needed here.
    let mut request = vec![0_u8; 12];
    request[0] = family as u8;
    request[1] = (address.len() * 8) as u8;
    request.extend(((4 + address.len()) as u16).to_ne_bytes());
    request.extend(RTA_DST.to_ne_bytes());
    request.extend(&address);
    let mut device = None;
    ask(RTM_GETROUTE, 0, &request, |kind, body| {
        if kind == RTM_NEWROUTE {
            let found = attributes(body.get(12..).unwrap_or_default()).find(|(attribute, _)| *attribute == RTA_OIF);
            device = device.or(found.and_then(|(_, value)| u32_at(value, 0)));
        }
    })?;
    Ok(device)
}

/// Sends a request to rtnetlink and passes each message of the response to `each`: its type and its body.
fn ask(kind: u16, flags: u16, body: &[u8], mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
    let netlink = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    let mut request = Vec::with_capacity(16 + body.len());
    request.extend(((16 + body.len()) as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((NLM_F_REQUEST | flags).to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    send(netlink.as_raw_fd(), &request, MsgFlags::empty())?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = recv(netlink.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut rest = &buffer[..length];
        while let (Some(size), Some(kind)) = (u32_at(rest, 0), rest.get(4..6)) {
            let kind = u16::from_ne_bytes([kind[0], kind[1]]);
            let size = size as usize;
            let Some(message) = rest.get(16..size) else { return Ok(()) };
            if kind == NLMSG_DONE || kind == NLMSG_ERROR {
                return Ok(());
            }
            each(kind, message);
            rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
        }
        if flags & NLM_F_DUMP == 0 {
            return Ok(());
        }
    }
}

/// The attributes in `data`: type and value.
fn attributes(mut data: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let header = data.get(..4)?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & 0x3fff;
        let value = data.get(4..length)?;
        data = data.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_a_discipline() {
        let queueing = queueing_towards(IpAddr::from([127, 0, 0, 1])).unwrap().expect("127.0.0.1 has a route");
        assert!(queueing.to_string().contains("device"), "{queueing}");
        assert!(!queueing.is_fq() || queueing.etf_clock().is_none());
    }

    #[test]
    fn disciplines_of_several_queues() {
        let queueing = |kinds: &[(u32, &str)]| Queueing {
            device: 2,
            kinds: kinds.iter().map(|(parent, kind)| (*parent, (*kind).to_string())).collect(),
            etf_clock: Some(libc::CLOCK_TAI),
        };
        assert!(queueing(&[(TC_H_ROOT, "fq")]).is_fq());
        assert!(queueing(&[(TC_H_ROOT, "mq"), (1, "fq"), (2, "fq")]).is_fq());
        assert!(!queueing(&[(TC_H_ROOT, "mq"), (1, "fq"), (2, "fq_codel")]).is_fq());
        assert!(!queueing(&[]).is_fq());
        assert_eq!(queueing(&[(TC_H_ROOT, "etf")]).etf_clock(), Some(libc::CLOCK_TAI));
        assert_eq!(queueing(&[(TC_H_ROOT, "fq")]).etf_clock(), None);
    }
}

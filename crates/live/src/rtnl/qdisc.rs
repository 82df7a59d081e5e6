//! The kernel's own shapers, over rtnetlink: TBF as a link of limited rate, HTB for comparison.

use tidegate_units::{Bytes, Rate, Span};

use super::{Rtnl, family_unspecified};
use crate::netlink::{Body, CREATE, EXCL, Error, REPLACE, Result};

const NEWQDISC: u16 = libc::RTM_NEWQDISC;
const DELQDISC: u16 = libc::RTM_DELQDISC;
const GETQDISC: u16 = libc::RTM_GETQDISC;
const NEWTCLASS: u16 = libc::RTM_NEWTCLASS;

const ROOT: u32 = 0xffff_ffff;
/// The number that a root discipline of ours is given.
const HANDLE: u32 = 0x1_0000;
/// Where `clsact` is, which has filters and no queue.
pub(super) const CLSACT_PARENT: u32 = 0xffff_fff1;
pub(super) const TCA_KIND: u16 = libc::TCA_KIND;
pub(super) const TCA_OPTIONS: u16 = libc::TCA_OPTIONS;
const TCA_STATS2: u16 = libc::TCA_STATS2;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;

/// With this link layer the kernel computes transmission times itself instead of reading a table of ours.
const LINKLAYER_ETHERNET: u8 = 1;
/// Nanoseconds in a tick of the kernel's packet scheduler (`PSCHED_SHIFT` 6).
const TICK: u64 = 64;

/// The root that has a discipline for each queue of its link.
pub const MULTI_QUEUE: &str = "mq";

/// A class of HTB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HtbClass {
    /// Its minor number; a socket with `SO_PRIORITY` 0x1_0000 + minor sends through it.
    pub minor: u16,
    /// Its guaranteed rate.
    pub rate: Rate,
    /// Its ceiling, up to which it may borrow.
    pub ceiling: Rate,
    /// Its burst.
    pub burst: Bytes,
    /// Its priority; lower values are served first.
    pub priority: u32,
}

/// The discipline at the root of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RootQdisc {
    /// Its kind.
    pub kind: String,
    /// The number that it was given, in the upper half; 0 for a default that nobody configured.
    pub handle: u32,
    /// The packets that wait in it.
    pub queued_packets: u32,
}

impl Rtnl {
    /// The discipline at the root of a link; `None` for a link that is not there or has none.
    pub fn root_qdisc(&mut self, index: u32) -> Result<Option<RootQdisc>> {
        let replies = self.socket.dump(&format!("look up the qdisc of link {index}"), GETQDISC, |m| {
            m.raw(&header(index, 0, 0));
        })?;
        // struct tcmsg: family, padding, index, handle, parent, info.
        let number = |body: &[u8], at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
        Ok(replies.iter().find_map(|reply| {
            if number(&reply.body, 4)? != index || number(&reply.body, 12)? != ROOT {
                return None;
            }
            // struct gnet_stats_queue begins with the packets that wait.
            let statistics = reply.attributes(20).find(TCA_STATS2);
            let queue = statistics.and_then(|all| all.nested().find(TCA_STATS_QUEUE));
            Some(RootQdisc {
                kind: reply.attributes(20).find(TCA_KIND)?.string()?,
                handle: number(&reply.body, 8)?,
                queued_packets: queue.and_then(|queue| number(queue.payload, 0)).unwrap_or(0),
            })
        }))
    }

    /// The disciplines that [`mq`](Self::set_multi_queue) at the root of a link has for the queues of the link, by the number of the
    /// queue. The kernel lists those of queues that are in use.
    pub fn queue_qdiscs(&mut self, index: u32) -> Result<Vec<(u16, String)>> {
        let Some(root) = self.root_qdisc(index)?.filter(|root| root.handle != 0) else { return Ok(Vec::new()) };
        let replies = self.socket.dump(&format!("list the qdiscs of link {index}"), GETQDISC, |m| {
            m.raw(&header(index, 0, 0));
        })?;
        let number = |body: &[u8], at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
        let mut found: Vec<_> = replies
            .iter()
            .filter_map(|reply| {
                // struct tcmsg: family, padding, index, handle, parent, info.
                let parent = number(&reply.body, 12).filter(|parent| parent & 0xffff_0000 == root.handle)?;
                let queue = (parent as u16).checked_sub(1).filter(|_| number(&reply.body, 4) == Some(index))?;
                Some((queue, reply.attributes(20).find(TCA_KIND)?.string()?))
            })
            .collect();
        found.sort();
        Ok(found)
    }

    /// Whether a discipline of a kind that `is_meant` has packets of a link: the one at its root or, below [`mq`](Self::set_multi_queue), one of a
    /// queue.
    pub fn has_qdisc(&mut self, index: u32, is_meant: impl Fn(&str) -> bool) -> Result<bool> {
        match self.root_qdisc(index)? {
            Some(root) if root.kind == MULTI_QUEUE => {
                Ok(self.queue_qdiscs(index)?.iter().any(|(_, kind)| is_meant(kind)))
            }
            root => Ok(root.is_some_and(|root| is_meant(&root.kind))),
        }
    }

    /// The kinds of the disciplines of a link, the root first and then those of its classes and queues, each once.
    pub fn qdiscs(&mut self, index: u32) -> Result<Vec<String>> {
        let replies = self.socket.dump(&format!("list the qdiscs of link {index}"), GETQDISC, |m| {
            m.raw(&header(index, 0, 0));
        })?;
        let mut kinds = Vec::new();
        for reply in &replies {
            // struct tcmsg: family, padding, index, handle, parent, info.
            let of = reply.body.get(4..8).and_then(|bytes| Some(u32::from_ne_bytes(bytes.try_into().ok()?)));
            let kind = reply.attributes(20).find(TCA_KIND).and_then(|kind| kind.string());
            if let (Some(of), Some(kind)) = (of, kind)
                && of == index
                && !kinds.contains(&kind)
            {
                kinds.push(kind);
            }
        }
        Ok(kinds)
    }

    /// Makes TBF the root of a link, with rate `rate` and a queue of up to `limit`.
    ///
    /// # Errors
    /// `ENOENT` if the kernel has no TBF.
    pub fn set_tbf(&mut self, index: u32, rate: Rate, burst: Bytes, limit: Bytes) -> Result<()> {
        let operation = format!("limit link {index} to {rate}");
        self.change(&operation, NEWQDISC, CREATE | REPLACE, |m| {
            m.raw(&header(index, 0x1_0000, ROOT)).string(TCA_KIND, "tbf").nest(TCA_OPTIONS, |o| {
                let mut parameters = [0_u8; 36];
                parameters[..12].copy_from_slice(&rate_spec(rate));
                parameters[24..28].copy_from_slice(&clamp(limit).to_ne_bytes());
                parameters[28..32].copy_from_slice(&ticks(rate, burst).to_ne_bytes());
                o.attr(TCA_TBF_PARMS, &parameters).u32(TCA_TBF_BURST, clamp(burst));
                rate64(o, TCA_TBF_RATE64, rate);
            });
        })
    }

    /// Makes HTB the root of a link, with `classes` below one class of rate `total`. Packets of no class use the last
    /// one.
    ///
    /// # Errors
    /// `ENOENT` if the kernel has no HTB.
    pub fn set_htb(&mut self, index: u32, total: Rate, classes: &[HtbClass]) -> Result<()> {
        let Some(last) = classes.last() else {
            return Err(Error::Refused {
                operation: "make a tree of HTB".into(),
                errno: libc::EINVAL,
                text: Some("it has no classes".into()),
            });
        };
        let operation = format!("make HTB the root of link {index}");
        self.change(&operation, NEWQDISC, CREATE | REPLACE, |m| {
            m.raw(&header(index, 0x1_0000, ROOT)).string(TCA_KIND, "htb").nest(TCA_OPTIONS, |o| {
                // struct tc_htb_glob: version, rate2quantum, default class, debug, direct packets.
                let words = [3_u32, 10, u32::from(last.minor), 0, 0];
                o.attr(TCA_HTB_INIT, &words.map(u32::to_ne_bytes).concat());
            });
        })?;
        let root = HtbClass { minor: 1, rate: total, ceiling: total, burst: Bytes::new(16_000), priority: 0 };
        self.add_htb_class(index, 0x1_0000, root)?;
        for &class in classes {
            self.add_htb_class(index, 0x1_0001, class)?;
        }
        Ok(())
    }

    fn add_htb_class(&mut self, index: u32, parent: u32, class: HtbClass) -> Result<()> {
        let operation = format!("add HTB class 1:{:x} to link {index}", class.minor);
        let handle = 0x1_0000 | u32::from(class.minor);
        self.change(&operation, NEWTCLASS, CREATE | EXCL, |m| {
            m.raw(&header(index, handle, parent)).string(TCA_KIND, "htb").nest(TCA_OPTIONS, |o| {
                // struct tc_htb_opt: rate, ceiling, buffer, cbuffer, quantum, level, priority.
                let mut parameters = [0_u8; 44];
                parameters[..12].copy_from_slice(&rate_spec(class.rate));
                parameters[12..24].copy_from_slice(&rate_spec(class.ceiling));
                parameters[24..28].copy_from_slice(&ticks(class.rate, class.burst).to_ne_bytes());
                parameters[28..32].copy_from_slice(&ticks(class.ceiling, class.burst).to_ne_bytes());
                parameters[32..36].copy_from_slice(&1_514_u32.to_ne_bytes());
                parameters[40..44].copy_from_slice(&class.priority.to_ne_bytes());
                o.attr(TCA_HTB_PARMS, &parameters);
                rate64(o, TCA_HTB_RATE64, class.rate);
                rate64(o, TCA_HTB_CEIL64, class.ceiling);
            });
        })
    }

    /// Makes a discipline of the kernel the root of a link, with its own defaults.
    ///
    /// # Errors
    /// `ENOENT` if the kernel has none of that kind, `EINVAL` if it has no defaults.
    pub fn set_plain(&mut self, index: u32, kind: &str) -> Result<()> {
        self.change(&format!("make {kind} the root of link {index}"), NEWQDISC, CREATE | REPLACE, |m| {
            m.raw(&header(index, HANDLE, ROOT)).string(TCA_KIND, kind);
        })
    }

    /// Makes `mq` the root of a link of several queues, which has a discipline for each of them: at first those that the kernel has by
    /// default.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the link has one queue.
    pub fn set_multi_queue(&mut self, index: u32) -> Result<()> {
        self.set_plain(index, MULTI_QUEUE)
    }

    /// Makes a discipline of the kernel that of a queue below `mq`, with its own defaults.
    ///
    /// # Errors
    /// `ENOENT` if the kernel has none of that kind, or there is no such queue.
    pub fn set_queue(&mut self, index: u32, queue: u16, kind: &str) -> Result<()> {
        self.change(
            &format!("make {kind} the discipline of queue {queue} of link {index}"),
            NEWQDISC,
            CREATE | REPLACE,
            |m| {
                m.raw(&header(index, 0, HANDLE + u32::from(queue) + 1)).string(TCA_KIND, kind);
            },
        )
    }

    /// Restores the default discipline of a link. No error if it is in place.
    pub fn clear_qdisc(&mut self, index: u32) -> Result<()> {
        match self.change(&format!("clear the queue of link {index}"), DELQDISC, 0, |m| {
            m.raw(&header(index, 0, ROOT));
        }) {
            Err(Error::Refused { errno: libc::ENOENT | libc::EINVAL, .. }) => Ok(()),
            other => other,
        }
    }
}

/// struct tcmsg: family, padding, index, handle, parent, info.
pub(super) fn header(index: u32, handle: u32, parent: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[0] = family_unspecified();
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&handle.to_ne_bytes());
    bytes[12..16].copy_from_slice(&parent.to_ne_bytes());
    bytes
}

/// struct tc_ratespec, in bytes a second.
fn rate_spec(rate: Rate) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[1] = LINKLAYER_ETHERNET;
    let per_second = u32::try_from(rate.as_bps() / 8).unwrap_or(u32::MAX);
    bytes[8..].copy_from_slice(&per_second.to_ne_bytes());
    bytes
}

fn rate64(o: &mut Body<'_>, kind: u16, rate: Rate) {
    if rate.as_bps() / 8 > u64::from(u32::MAX) {
        o.attr(kind, &(rate.as_bps() / 8).to_ne_bytes());
    }
}

/// The time `burst` takes at `rate`, in ticks.
fn ticks(rate: Rate, burst: Bytes) -> u32 {
    let time = rate.time_for_ceil(burst).unwrap_or(Span::ZERO);
    u32::try_from(time.as_nanos() / TICK).unwrap_or(u32::MAX)
}

fn clamp(bytes: Bytes) -> u32 {
    u32::try_from(bytes.as_u64()).unwrap_or(u32::MAX)
}

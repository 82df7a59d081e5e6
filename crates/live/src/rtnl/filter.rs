//! Filters of tc and programs that redirect or drop packets of a link outside of the packet filter.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::Rtnl;
use super::qdisc::{CLSACT_PARENT, TCA_KIND, TCA_OPTIONS, header};
use crate::netlink::{Attribute, Body, CREATE, EXCL, Error, Reply, Result};

const NEWTFILTER: u16 = libc::RTM_NEWTFILTER;
const DELTFILTER: u16 = libc::RTM_DELTFILTER;
const GETTFILTER: u16 = libc::RTM_GETTFILTER;
const NEWQDISC: u16 = libc::RTM_NEWQDISC;
const DELQDISC: u16 = libc::RTM_DELQDISC;
/// The parents of the filters of a `clsact` qdisc; the first is also that of `ingress`.
const CLSACT: [(OnLink, u32); 2] = [(OnLink::Arriving, 0xffff_fff2), (OnLink::Leaving, 0xffff_fff3)];
const TCA_BPF_ACT: u16 = 1;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
/// The program's result is what becomes of the packet.
const DIRECT_ACTION: u32 = 1;
/// The handle of our filters, "tg": with the kind and the name it tells them from those of others.
const OURS: u32 = 0x7467;
/// The preferences that are tried for a filter of ours. The first that is free is taken, since a filter before it may keep packets
/// from it.
const PREFERENCES: std::ops::RangeInclusive<u32> = 1..=32;
/// All protocols.
const ETH_P_ALL: u16 = 3;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
const EGRESS_REDIRECT: u32 = 1;
const TC_ACT_STOLEN: u32 = 4;
const TCA_GACT_PARMS: u16 = 2;
/// The maximum number of actions of a filter.
const ACTIONS: u16 = 32;

/// The packets of a link that a filter applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnLink {
    /// Arriving packets.
    Arriving,
    /// Departing packets.
    Leaving,
}

/// The effect of a filter of tc on packets, as far as it matters for shaping before or after it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taking {
    /// It redirects them to the interface of this index.
    Redirects(u32),
    /// It drops them.
    Drops,
    /// A program decides; its name, where it has one.
    Program(Option<String>),
}

impl OnLink {
    fn parent(self) -> u32 {
        CLSACT[usize::from(self == Self::Leaving)].1
    }
}

impl Rtnl {
    /// Gives a link `clsact`, where programs of tc are, unless it has one. The kernel drops what leaves meanwhile, and what waits.
    ///
    /// # Errors
    /// `ENOENT` if the kernel has no `clsact`.
    pub fn add_clsact(&mut self, index: u32) -> Result<()> {
        let made = self.change(&format!("add clsact to link {index}"), NEWQDISC, CREATE | EXCL, |m| {
            m.raw(&header(index, 0xffff_0000, CLSACT_PARENT)).string(TCA_KIND, "clsact");
        });
        match made {
            // It has one, or that for arriving packets alone.
            Err(Error::Refused { errno: libc::EEXIST, .. }) => Ok(()),
            made => made,
        }
    }

    /// Has a program of tc see the packets of a link in a direction, in place of an earlier one of this name. It stays when this
    /// process ends. Where the link has no `clsact` yet, see [`add_clsact`](Self::add_clsact). With `to` the packets that it returns -1
    /// for are led to the link of that index, which knows them by the index of this one; the kernel does not lead them there again
    /// when they come back.
    ///
    /// # Errors
    /// `ENOENT` if the kernel has no `clsact`, no filters by programs or no redirection, and when the link has filters at all
    /// preferences.
    pub fn set_program(
        &mut self,
        index: u32,
        direction: OnLink,
        name: &str,
        program: BorrowedFd<'_>,
        to: Option<u32>,
    ) -> Result<()> {
        self.remove_program(index, direction, name)?;
        self.add_clsact(index)?;
        let operation = format!("have {name} see packets of link {index}");
        let mut preferences = PREFERENCES;
        loop {
            let preference = preferences.next().unwrap_or(*PREFERENCES.end());
            let added = self.change(&operation, NEWTFILTER, CREATE | EXCL, |m| {
                m.raw(&filter_header(index, direction, preference)).string(TCA_KIND, "bpf").nest(TCA_OPTIONS, |o| {
                    o.u32(TCA_BPF_FD, program.as_raw_fd() as u32).string(TCA_BPF_NAME, name);
                    match to {
                        Some(to) => o.nest(TCA_BPF_ACT, |actions| redirect(actions, to)),
                        None => o.u32(TCA_BPF_FLAGS, DIRECT_ACTION),
                    };
                });
            });
            match added {
                // The preference is taken by a filter of another kind or by one like this.
                Err(Error::Refused { errno: libc::EEXIST | libc::EINVAL, .. }) if !preferences.is_empty() => {}
                added => return added,
            }
        }
    }

    /// Removes the program of tc of this name. No error if there is none.
    pub fn remove_program(&mut self, index: u32, direction: OnLink, name: &str) -> Result<()> {
        let Some(preference) = self.program(index, direction, name)? else { return Ok(()) };
        self.change(&format!("remove {name} from link {index}"), DELTFILTER, 0, |m| {
            m.raw(&filter_header(index, direction, preference)).string(TCA_KIND, "bpf");
        })
    }

    /// Removes `clsact` where nothing uses it. The kernel drops what leaves meanwhile, and what waits.
    pub fn remove_clsact(&mut self, index: u32) -> Result<()> {
        for direction in [OnLink::Arriving, OnLink::Leaving] {
            if !self.filters(index, direction)?.is_empty() {
                return Ok(());
            }
        }
        let removed = self.change(&format!("remove clsact from link {index}"), DELQDISC, 0, |m| {
            m.raw(&header(index, 0, CLSACT_PARENT)).string(TCA_KIND, "clsact");
        });
        match removed {
            // There is none, or it is not `clsact` but `ingress`.
            Err(Error::Refused { errno: libc::EINVAL | libc::ENOENT, .. }) => Ok(()),
            removed => removed,
        }
    }

    /// The preference of the program of tc of this name, which we have set.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn program(&mut self, index: u32, direction: OnLink, name: &str) -> Result<Option<u32>> {
        let found = self.filters(index, direction)?;
        Ok(found.iter().find_map(|reply| {
            let options = reply.attributes(20).find(TCA_OPTIONS)?;
            let is_ours = word(&reply.body, 8) == Some(OURS)
                && reply.attributes(20).find(TCA_KIND)?.string()? == "bpf"
                && options.nested().find(TCA_BPF_NAME)?.string()? == name;
            word(&reply.body, 16).filter(|_| is_ours).map(|info| info >> 16)
        }))
    }

    /// The filters of a link in a direction, as the kernel describes them.
    fn filters(&mut self, index: u32, direction: OnLink) -> Result<Vec<Reply>> {
        let parent = direction.parent();
        let replies = self.socket.dump(&format!("list the filters of link {index}"), GETTFILTER, |m| {
            m.raw(&header(index, 0, parent));
        });
        match replies {
            // There is no such qdisc.
            Err(error) if matches!(error.errno(), Some(libc::EINVAL | libc::ENOENT | libc::EOPNOTSUPP)) => {
                Ok(Vec::new())
            }
            replies => Ok(replies?
                .into_iter()
                // struct tcmsg: family, padding, index, handle, parent, info.
                .filter(|reply| word(&reply.body, 4) == Some(index) && word(&reply.body, 12) == Some(parent))
                .collect()),
        }
    }

    /// The filters at a link that divert packets from it, each kind once, with their direction.
    ///
    /// Filters below classful disciplines are not listed, nor are programs that are attached by a BPF link (tcx); the
    /// kernel lists `u32` filters of both directions in each.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn takers(&mut self, index: u32) -> Result<Vec<(OnLink, Taking)>> {
        let mut found = Vec::new();
        for (direction, _) in CLSACT {
            for reply in &self.filters(index, direction)? {
                let kind = reply.attributes(20).find(TCA_KIND).and_then(|kind| kind.string()).unwrap_or_default();
                let Some(options) = reply.attributes(20).find(TCA_OPTIONS) else { continue };
                if kind == "bpf" {
                    let name = options.nested().find(TCA_BPF_NAME).and_then(|name| name.string());
                    note(&mut found, direction, Taking::Program(name));
                }
                options.nested().for_each(|option| actions(&option, &mut |taking| note(&mut found, direction, taking)));
            }
        }
        Ok(found)
    }
}

/// An action, the first of a list, that leads packets to the link of this index.
fn redirect(actions: &mut Body<'_>, to: u32) {
    actions.nest(1, |action| {
        action.string(TCA_ACT_KIND, "mirred").nest(TCA_ACT_OPTIONS, |options| {
            // struct tc_mirred: index, capabilities, what then, references, bindings, what it does, interface.
            let parameters = [0, 0, TC_ACT_STOLEN, 0, 0, EGRESS_REDIRECT, to];
            options.attr(TCA_MIRRED_PARMS, &parameters.map(u32::to_ne_bytes).concat());
        });
    });
}

/// `struct tcmsg` of a filter of ours.
fn filter_header(index: u32, direction: OnLink, preference: u32) -> [u8; 20] {
    let mut bytes = header(index, OURS, direction.parent());
    bytes[16..].copy_from_slice(&(preference << 16 | u32::from(ETH_P_ALL.to_be())).to_ne_bytes());
    bytes
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn note(found: &mut Vec<(OnLink, Taking)>, direction: OnLink, taking: Taking) {
    let one = (direction, taking);
    if !found.contains(&one) {
        found.push(one);
    }
}

/// Looks for actions in an option of a filter: each kind of filter has them under a number of its own, and all have them
/// in one form, a list with names. Other options have no name at that position.
fn actions(option: &Attribute<'_>, tell: &mut dyn FnMut(Taking)) {
    for action in option.nested().filter(|action| (1..=ACTIONS).contains(&action.kind)) {
        let Some(kind) = action.nested().find(TCA_ACT_KIND).and_then(|kind| kind.string()) else { continue };
        let parameters = |number| {
            let options = action.nested().find(TCA_ACT_OPTIONS)?;
            options.nested().find(number).map(|parameters| parameters.payload.to_vec())
        };
        let word = |bytes: &[u8], at: usize| Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        // struct tc_gen: index, capabilities, what then, references, bindings.
        const WHAT_THEN: usize = 8;
        const GENERAL: usize = 20;
        match kind.as_str() {
            // struct tc_mirred: tc_gen, what it does, interface. 1 and 3 redirect, 2 and 4 copy.
            "mirred" => {
                let Some(parameters) = parameters(TCA_MIRRED_PARMS) else { continue };
                if let (Some(1 | 3), Some(to)) = (word(&parameters, GENERAL), word(&parameters, GENERAL + 4)) {
                    tell(Taking::Redirects(to as u32));
                }
            }
            // TC_ACT_SHOT and TC_ACT_STOLEN.
            "gact" => {
                let verdict = parameters(TCA_GACT_PARMS).and_then(|parameters| word(&parameters, WHAT_THEN));
                if matches!(verdict, Some(2 | 4)) {
                    tell(Taking::Drops);
                }
            }
            "bpf" => tell(Taking::Program(None)),
            _ => {}
        }
    }
}

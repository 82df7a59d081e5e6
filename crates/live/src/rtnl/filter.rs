//! Filters of tc and programs that redirect or drop packets of a link outside of the packet filter.

use super::Rtnl;
use super::qdisc::{TCA_KIND, TCA_OPTIONS, header};
use crate::netlink::{Attribute, Result};

const GETTFILTER: u16 = libc::RTM_GETTFILTER;
/// The parents of the filters of a `clsact` qdisc; the first is also that of `ingress`.
const CLSACT: [(OnLink, u32); 2] = [(OnLink::Arriving, 0xffff_fff2), (OnLink::Leaving, 0xffff_fff3)];
const TCA_BPF_NAME: u16 = 7;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
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

impl Rtnl {
    /// The filters at a link that divert packets from it, each kind once, with their direction.
    ///
    /// Filters below classful disciplines are not listed, nor are programs that are attached by a BPF link (tcx); the
    /// kernel lists `u32` filters of both directions in each.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn takers(&mut self, index: u32) -> Result<Vec<(OnLink, Taking)>> {
        let mut found = Vec::new();
        for (direction, parent) in CLSACT {
            let replies = self.socket.dump(&format!("list the filters of link {index}"), GETTFILTER, |m| {
                m.raw(&header(index, 0, parent));
            });
            let replies = match replies {
                Ok(replies) => replies,
                // There is no such qdisc.
                Err(error) if matches!(error.errno(), Some(libc::EINVAL | libc::ENOENT | libc::EOPNOTSUPP)) => continue,
                Err(error) => return Err(error),
            };
            for reply in &replies {
                // struct tcmsg: family, padding, index, handle, parent, info.
                let word = |at: usize| Some(u32::from_ne_bytes(reply.body.get(at..at + 4)?.try_into().ok()?));
                if word(4) != Some(index) || word(12) != Some(parent) {
                    continue;
                }
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

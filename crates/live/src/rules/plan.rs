//! The rules as values, before the kernel sees them.

use super::{Chain, Direction, Family, Rule, RulesError, Sender, Spec, Table, Verb, table_name};
use crate::marks::{MAX_TAG, MarkLayout};
use crate::nft::{Base, Compare, Expression as E, Field, MetaKey};

const HOOK_PREROUTING: u32 = 0;
const HOOK_FORWARD: u32 = 2;
const HOOK_OUTPUT: u32 = 3;
const HOOK_POSTROUTING: u32 = 4;
const PRIORITY_QUEUE: i32 = 60;
const PRIORITY_APPLY: i32 = 70;
/// Between destination NAT (-100) and filter (0).
const PRIORITY_QUEUE_IN: i32 = -90;
const PRIORITY_APPLY_IN: i32 = -80;

/// The first two bytes of an IP header hold the whole traffic class in both versions, and begin on an even offset,
/// which the kernel's checksum arithmetic needs.
const FIRST_WORD: Field = Field { base: Base::Network, offset: 0, length: 2 };
const ICMP_TYPE: Field = Field { base: Base::Transport, offset: 0, length: 1 };
const IPV4_CHECKSUM: u32 = 10;

pub(super) fn check(spec: &Spec) -> Result<(), RulesError> {
    let name = spec.interface.as_bytes();
    if name.is_empty() || name.len() > 15 || name.iter().any(|b| b"/ \t\n\0".contains(b)) {
        return Err(RulesError::Invalid(format!(
            "\"{}\" cannot be the name of an interface: 1 to 15 bytes without space and slash",
            spec.interface
        )));
    }
    if spec.queue_count == 0 || spec.queue.checked_add(spec.queue_count - 1).is_none() {
        return Err(RulesError::Invalid(format!(
            "{} queues from number {} do not fit into 0 to 65535",
            spec.queue_count, spec.queue
        )));
    }
    if let Some(rule) = spec.tags.iter().find(|r| r.tag > MAX_TAG) {
        return Err(RulesError::Invalid(format!("tag {} is above the largest, {MAX_TAG}", rule.tag)));
    }
    if spec.direction == Direction::Ingress && !spec.tags.is_empty() {
        return Err(RulesError::Invalid(
            "what arrives has no owner: it cannot be tagged by uid or control group".into(),
        ));
    }
    Ok(())
}

pub(super) fn table(spec: &Spec, family: Family, verb: Verb) -> Table {
    let mut plan = Plan {
        spec,
        table: Table { family, name: table_name(&spec.interface, spec.direction), chains: vec![], rules: vec![] },
    };
    let marks = spec.marks;
    let (shape, apply) = match spec.direction {
        Direction::Egress => {
            plan.before_egress();
            ((HOOK_POSTROUTING, PRIORITY_QUEUE), (HOOK_POSTROUTING, PRIORITY_APPLY))
        }
        Direction::Ingress => {
            plan.chain("foreign", Some((HOOK_PREROUTING, PRIORITY_QUEUE_IN - 1)));
            plan.other_interfaces("foreign");
            plan.foreign("foreign");
            ((HOOK_PREROUTING, PRIORITY_QUEUE_IN), (HOOK_PREROUTING, PRIORITY_APPLY_IN))
        }
    };

    plan.chain("shape", Some(shape));
    plan.other_interfaces("shape");
    if family != Family::Ipv4 {
        // What ARP is to IPv4, which never comes here, is ICMPv6 133 to 137 to IPv6: without it nothing can be sent.
        let mut expressions =
            if family == Family::Inet { vec![E::Meta(MetaKey::Protocol, 1), equal(1, [10])] } else { vec![] };
        expressions.extend([
            E::Meta(MetaKey::Transport, 1),
            equal(1, [58]),
            E::Load(ICMP_TYPE, 1),
            E::Compare(1, Compare::AtLeast, vec![133]),
            E::Compare(1, Compare::AtMost, vec![137]),
            E::Counter,
            E::Return,
        ]);
        plan.rule("shape", "exempt neighbour discovery".into(), expressions);
    }
    let (first, count) = (spec.queue, spec.queue_count);
    let queue = match verb {
        Verb::Native => E::Queue { first, count },
        Verb::Compatible => E::QueueTarget { first, count },
    };
    plan.rule("shape", "queue".into(), vec![E::Counter, queue]);

    // A chain exists before the rule that jumps to it.
    let versions: &[(u8, &str)] = match family {
        Family::Inet => &[(2, "write4"), (10, "write6")],
        Family::Ipv4 => &[(2, "write4")],
        Family::Ipv6 => &[(10, "write6")],
    };
    for (protocol, chain) in versions {
        plan.chain(chain, None);
        plan.write(chain, *protocol == 2);
    }
    plan.chain("apply", Some(apply));
    plan.other_interfaces("apply");
    plan.rule(
        "apply",
        "without our bits".into(),
        [mark_bits(marks.stamps(), Compare::Equal, 0), vec![E::Return]].concat(),
    );
    for (protocol, chain) in versions {
        let mut expressions = mark_bits(marks.action_stamp(), Compare::NotEqual, 0);
        if family == Family::Inet {
            expressions.extend([E::Meta(MetaKey::Protocol, 1), equal(1, [*protocol])]);
        }
        expressions.extend([E::Counter, E::Jump((*chain).into())]);
        plan.rule("apply", format!("apply {chain}"), expressions);
    }
    plan.rule("apply", "clear our bits".into(), set_mark(marks.mask(), 0));
    plan.table
}

struct Plan<'a> {
    spec: &'a Spec,
    table: Table,
}

impl Plan<'_> {
    /// What has to be done while the sender of a packet is still known.
    fn before_egress(&mut self) {
        self.chain("tag", Some((HOOK_OUTPUT, PRIORITY_QUEUE)));
        self.other_interfaces("tag");
        self.foreign("tag");
        let spec = self.spec;
        for tag in &spec.tags {
            let (text, mut expressions) = match tag.sender {
                Sender::Uid(uid) => {
                    (format!("uid {uid}"), vec![E::Meta(MetaKey::SocketUid, 1), equal(1, uid.to_ne_bytes())])
                }
                Sender::Cgroup { id, level } => {
                    (format!("cgroup {id}"), vec![E::Cgroup { level, register: 1 }, equal(1, id.to_ne_bytes())])
                }
            };
            expressions.push(E::Counter);
            expressions.extend(set_mark(spec.marks.mask(), spec.marks.tag_bits(tag.tag)));
            expressions.push(E::Accept);
            self.rule("tag", format!("tag {} for {text}", tag.tag), expressions);
        }

        self.chain("foreign", Some((HOOK_FORWARD, PRIORITY_QUEUE)));
        self.other_interfaces("foreign");
        self.foreign("foreign");
    }

    fn chain(&mut self, name: &str, hook: Option<(u32, i32)>) {
        self.table.chains.push(Chain { name: name.into(), hook });
    }

    fn rule(&mut self, chain: &str, comment: String, expressions: Vec<E>) {
        self.table.rules.push(Rule { chain: chain.into(), comment, expressions });
    }

    fn other_interfaces(&mut self, chain: &str) {
        let mut name = [0; 16];
        name[..self.spec.interface.len()].copy_from_slice(self.spec.interface.as_bytes());
        let other = E::Compare(1, Compare::NotEqual, name.to_vec());
        let key = match self.spec.direction {
            Direction::Egress => MetaKey::OutName,
            Direction::Ingress => MetaKey::InName,
        };
        self.rule(chain, "other interfaces".into(), vec![E::Meta(key, 1), other, E::Return]);
    }

    fn foreign(&mut self, chain: &str) {
        let marks = self.spec.marks;
        let mut expressions = mark_bits(marks.stamps(), Compare::NotEqual, 0);
        expressions.push(E::Counter);
        expressions.extend(set_mark(marks.mask(), 0));
        self.rule(chain, "foreign mark".into(), expressions);
    }

    /// The rules that write DSCP and CE. In the first word the traffic class is shifted by four bits between the
    /// versions: IPv4 has version, IHL, DSCP, ECN; IPv6 has version, DSCP, ECN, flow label.
    fn write(&mut self, chain: &str, ipv4: bool) {
        let marks: MarkLayout = self.spec.marks;
        let (shift, checksum) = if ipv4 { (0, Some(IPV4_CHECKSUM)) } else { (4, None) };
        let (dscp, ecn) = (0x00fc_u16 << shift, 0x0003_u16 << shift);
        let edit = |keep: u16, flip: u16| {
            [
                E::Load(FIRST_WORD, 2),
                E::Bitwise { register: 2, mask: keep.to_be_bytes().into(), flip: flip.to_be_bytes().into() },
                E::Store(FIRST_WORD, 2, checksum),
            ]
        };
        let mut expressions = mark_bits(marks.write(), Compare::Equal, marks.write());
        expressions.extend(edit(!dscp, 0));
        self.rule(chain, "clear dscp".into(), expressions);
        for bit in 0..6 {
            let wanted = marks.write() | marks.dscp_bit(bit);
            let place = 1_u16 << (bit + 2 + shift);
            let mut expressions = mark_bits(wanted, Compare::Equal, wanted);
            expressions.extend(edit(!place, place));
            self.rule(chain, format!("dscp bit {bit}"), expressions);
        }
        let mut expressions = mark_bits(marks.congestion(), Compare::Equal, marks.congestion());
        expressions.extend([
            E::Load(FIRST_WORD, 2),
            E::Bitwise { register: 2, mask: ecn.to_be_bytes().into(), flip: vec![0, 0] },
            E::Compare(2, Compare::NotEqual, vec![0, 0]),
        ]);
        expressions.extend(edit(!ecn, ecn));
        self.rule(chain, "congestion experienced".into(), expressions);
    }
}

fn equal<const N: usize>(register: u32, value: [u8; N]) -> E {
    E::Compare(register, Compare::Equal, value.into())
}

/// Goes on if the bits of the mark under `mask` compare so with `value`.
fn mark_bits(mask: u32, how: Compare, value: u32) -> Vec<E> {
    vec![
        E::Meta(MetaKey::Mark, 1),
        E::Bitwise { register: 1, mask: mask.to_ne_bytes().into(), flip: vec![0; 4] },
        E::Compare(1, how, value.to_ne_bytes().into()),
    ]
}

/// Sets the bits of the mark under `mask` to `value`.
fn set_mark(mask: u32, value: u32) -> Vec<E> {
    vec![
        E::Meta(MetaKey::Mark, 1),
        E::Bitwise { register: 1, mask: (!mask).to_ne_bytes().into(), flip: value.to_ne_bytes().into() },
        E::SetMeta(MetaKey::Mark, 1),
    ]
}

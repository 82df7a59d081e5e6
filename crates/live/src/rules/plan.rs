//! The rules as values, before the kernel sees them.

use super::{
    Chain, Direction, DividedBy, Family, Interface, QUEUES_OF_ONE, Rule, RulesError, Sender, Spec, Table, Verb,
};
use crate::marks::{MAX_TAG, MarkLayout};
use crate::nft::{Base, Compare, Expression as E, Field, MetaKey};

const HOOK_PREROUTING: u32 = libc::NF_INET_PRE_ROUTING as u32;
const HOOK_FORWARD: u32 = libc::NF_INET_FORWARD as u32;
const HOOK_OUTPUT: u32 = libc::NF_INET_LOCAL_OUT as u32;
const HOOK_POSTROUTING: u32 = libc::NF_INET_POST_ROUTING as u32;
const PRIORITY_QUEUE: i32 = 60;
const PRIORITY_APPLY: i32 = 70;
/// After the chains of a data path, so that what it has released waits as well.
const PRIORITY_HOLD: i32 = 80;
/// Between destination NAT (-100) and filter (0).
const PRIORITY_QUEUE_IN: i32 = -90;
const PRIORITY_APPLY_IN: i32 = -80;

/// The first two bytes of an IP header hold the whole traffic class in both versions, and begin on an even offset,
/// which the kernel's checksum arithmetic needs.
const FIRST_WORD: Field = Field { base: Base::Network, offset: 0, length: 2 };
const IPV4_SOURCE: u32 = 12;
const IPV6_SOURCE: u32 = 8;
/// The seed of the hash that divides flows over threads. It is no secret: whoever chooses addresses so that all flows meet in one
/// thread slows that thread only.
const HASH_SEED: u32 = 0x7469_6465;
/// The first byte of the destination distinguishes multicast from unicast in both versions.
const IPV4_DESTINATION: u32 = 16;
const IPV6_DESTINATION: u32 = 24;
const IPV4_TTL: u32 = 8;
const IPV6_HOP_LIMIT: u32 = 7;
const IPV4_ALL_NODES: [u8; 4] = [224, 0, 0, 1];
const IPV6_ALL_NODES: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// The rate at which packets pass unshaped that cannot be distinguished from others, 64 kB/s: far more than neighbour
/// discovery and service discovery need.
const BOUNDED: E = E::Limit { rate: 64_000, burst: 0 };
const ICMP_TYPE: Field = Field { base: Base::Transport, offset: 0, length: 1 };
const IPV4_CHECKSUM: u32 = 10;

pub(super) fn check(spec: &Spec) -> Result<(), RulesError> {
    for Interface { name: interface, .. } in &spec.interfaces {
        let name = interface.as_bytes();
        if name.is_empty() || name.len() > 15 || name.iter().any(|b| b"/ \t\n\0".contains(b)) {
            return Err(RulesError::Invalid(format!(
                "\"{interface}\" cannot be the name of an interface: 1 to 15 bytes without space and slash"
            )));
        }
    }
    let queues = u32::from(spec.threads) * u32::from(QUEUES_OF_ONE);
    if queues == 0 || u32::from(spec.queue) + queues > 1 << 16 {
        let text = format!("{queues} queues from number {} do not fit into 0 to 65535", spec.queue);
        return Err(RulesError::Invalid(text));
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

/// Expressions that a kernel may lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extras {
    /// `limit`: exempt traffic is bounded in rate. Without it copies for this host are shaped like departing packets.
    limit: bool,
    /// Expressions that tell packets that IPsec encrypts or has decrypted. A kernel without them does neither.
    ipsec: bool,
}

impl Extras {
    /// All combinations, the best first.
    pub const ALL: [Self; 4] = [
        Self { limit: true, ipsec: true },
        Self { limit: true, ipsec: false },
        Self { limit: false, ipsec: true },
        Self { limit: false, ipsec: false },
    ];
    /// The last of all.
    pub const FEWEST: Self = Self { limit: false, ipsec: false };
}

/// A table without a hook that holds the lock of a name as `table` holds that of its own: by its owner, or by the queue.
pub(super) fn lock(table: &Table, name: &str) -> Table {
    let is_queue = |e: &&E| matches!(e, E::Queue { .. } | E::QueueTarget { .. });
    let queue = table.rules.iter().flat_map(|rule| &rule.expressions).find(is_queue);
    let chain = "lock".to_owned();
    Table {
        family: table.family,
        name: name.into(),
        chains: vec![Chain { name: chain.clone(), hook: None }],
        rules: vec![Rule { chain, comment: "in use".into(), expressions: queue.cloned().into_iter().collect() }],
    }
}

pub(super) fn table(
    spec: &Spec,
    interface: &Interface,
    family: Family,
    verb: Verb,
    extras: Extras,
    name: &str,
) -> Table {
    let mut plan = Plan::new(spec, interface, family, name);
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

    let versions = versions(family);
    if spec.direction == Direction::Egress {
        plan.copies_of(versions, extras);
    }
    plan.chain("shape", Some(shape));
    plan.other_interfaces("shape");
    if extras.ipsec {
        plan.ipsec(family, versions);
    }
    if spec.direction == Direction::Egress {
        plan.multicast(family, versions);
    }
    if family != Family::Ipv4 {
        plan.neighbour_discovery(family, extras);
    }
    plan.queues(family, versions, verb);
    plan.apply(family, versions, apply);
    plan.table
}

/// A table that leads what leaves by an interface to the queue, after the chains of a data path.
pub(super) fn hold(
    spec: &Spec,
    interface: &Interface,
    family: Family,
    verb: Verb,
    extras: Extras,
    name: &str,
) -> Table {
    let mut plan = Plan::new(spec, interface, family, name);
    let versions = versions(family);
    plan.copies_of(versions, extras);
    plan.chain("shape", Some((HOOK_POSTROUTING, PRIORITY_HOLD)));
    plan.other_interfaces("shape");
    if extras.ipsec {
        plan.ipsec(family, versions);
    }
    plan.multicast(family, versions);
    plan.queues(family, versions, verb);
    plan.table
}

/// The protocols in a table: their numbers in `meta nfproto`, and how chains are called.
fn versions(family: Family) -> &'static [(u8, &'static str)] {
    match family {
        Family::Inet => &[(2, "4"), (10, "6")],
        Family::Ipv4 => &[(2, "4")],
        Family::Ipv6 => &[(10, "6")],
    }
}

/// Whether the packets of a table are those of the interface of this name, as [`Plan::other_interfaces`] has it.
pub(super) fn is_of(table: &Table, name: &str) -> bool {
    table.rules.iter().any(|rule| rule.expressions.contains(&is_not(name)))
}

/// Continues if the name of the interface is another one.
fn is_not(name: &str) -> E {
    let mut bytes = [0; libc::IFNAMSIZ];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    E::Compare(1, Compare::NotEqual, bytes.into())
}

struct Plan<'a> {
    spec: &'a Spec,
    interface: &'a Interface,
    table: Table,
}

impl<'a> Plan<'a> {
    /// An empty table.
    fn new(spec: &'a Spec, interface: &'a Interface, family: Family, name: &str) -> Self {
        Self { spec, interface, table: Table { family, name: name.into(), chains: vec![], rules: vec![] } }
    }

    /// Jumps to the chains that recognise copies of multicast packets.
    fn multicast(&mut self, family: Family, versions: &[(u8, &str)]) {
        for (protocol, version) in versions {
            let (offset, first) = if *protocol == 2 { (IPV4_DESTINATION, 224) } else { (IPV6_DESTINATION, 255) };
            let mut expressions = of_version(family, *protocol);
            expressions.extend([
                E::Load(Field { base: Base::Network, offset, length: 1 }, 1),
                E::Compare(1, Compare::AtLeast, vec![first]),
                E::Jump(format!("copies{version}")),
            ]);
            self.rule("shape", format!("multicast of IPv{version}"), expressions);
        }
    }

    /// Exempts the packets inside IPsec, which come by twice: what leaves before it is encrypted, what arrives after it was decrypted.
    /// On the line there is only the packet that is encrypted. A probe has one hop; it must come to the queue before a policy for
    /// all traffic would encrypt it.
    fn ipsec(&mut self, family: Family, versions: &[(u8, &str)]) {
        if self.spec.direction == Direction::Ingress {
            let decrypted = vec![E::Meta(MetaKey::Decrypted, 1), equal(1, [1]), E::Counter, E::Return];
            self.rule("shape", "exempt after decryption".into(), decrypted);
            return;
        }
        for (protocol, version) in versions {
            let offset = if *protocol == 2 { IPV4_TTL } else { IPV6_HOP_LIMIT };
            let mut expressions = of_version(family, *protocol);
            expressions.extend([
                E::IsToEncrypt(1),
                equal(1, [1]),
                E::Load(Field { base: Base::Network, offset, length: 1 }, 1),
                E::Compare(1, Compare::AtLeast, vec![2]),
                E::Counter,
                E::Return,
            ]);
            self.rule("shape", format!("exempt before encryption, IPv{version}"), expressions);
        }
    }

    /// Leads packets to the queues of the threads.
    fn queues(&mut self, family: Family, versions: &[(u8, &str)], verb: Verb) {
        let spec = self.spec;
        let queue = |thread: u16| {
            let (first, count) = (spec.queue + thread * QUEUES_OF_ONE, 1);
            match verb {
                Verb::Native => E::Queue { first, count },
                Verb::Compatible => E::QueueTarget { first, count },
            }
        };
        // The last thread has the rest, which is all where there is one thread.
        let last = spec.threads - 1;
        for thread in 0..last {
            for (protocol, version) in versions {
                let addresses = addresses(spec.divided_by, *protocol == 2);
                let (length, modulus) = (addresses.length, spec.threads.into());
                let mut expressions = of_version(family, *protocol);
                expressions.extend([
                    E::Load(addresses, 1),
                    E::Hash { register: 1, length, modulus, seed: HASH_SEED },
                    equal(1, u32::from(thread).to_ne_bytes()),
                    E::Counter,
                    queue(thread),
                ]);
                self.rule("shape", format!("queue of thread {thread}, IPv{version}"), expressions);
            }
        }
        self.rule("shape", "queue".into(), vec![E::Counter, queue(last)]);
    }

    /// Writes the actions of the mark into packets that come back from a queue, and clears our bits.
    fn apply(&mut self, family: Family, versions: &[(u8, &str)], hook: (u32, i32)) {
        let marks = self.spec.marks;
        for (protocol, version) in versions {
            self.write(&format!("write{version}"), *protocol == 2);
        }
        self.chain("apply", Some(hook));
        self.other_interfaces("apply");
        self.rule(
            "apply",
            "without our bits".into(),
            [mark_bits(marks.stamps(), Compare::Equal, 0), vec![E::Return]].concat(),
        );
        for (protocol, version) in versions {
            let chain = format!("write{version}");
            let mut expressions = mark_bits(marks.action_stamp(), Compare::NotEqual, 0);
            expressions.extend(of_version(family, *protocol));
            expressions.extend([E::Counter, E::Jump(chain.clone())]);
            self.rule("apply", format!("apply {chain}"), expressions);
        }
        self.rule("apply", "clear our bits".into(), set_mark(marks.mask(), 0));
    }

    /// The rules that require the sender of a packet, before it is lost.
    fn before_egress(&mut self) {
        self.chain("tag", Some((HOOK_OUTPUT, PRIORITY_QUEUE)));
        self.other_interfaces("tag");
        self.foreign("tag");
        self.tags("tag", |sender| !matches!(sender, Sender::Incoming(_)));

        self.chain("foreign", Some((HOOK_FORWARD, PRIORITY_QUEUE)));
        self.other_interfaces("foreign");
        self.foreign("foreign");
        self.tags("foreign", |sender| matches!(sender, Sender::Incoming(_)));
    }

    /// The rules of `chain` that tag packets of these senders.
    fn tags(&mut self, chain: &str, of: impl Fn(Sender) -> bool) {
        let spec = self.spec;
        for tag in spec.tags.iter().filter(|tag| of(tag.sender)) {
            let (text, mut expressions) = match tag.sender {
                Sender::Uid(uid) => {
                    (format!("uid {uid}"), vec![E::Meta(MetaKey::SocketUid, 1), equal(1, uid.to_ne_bytes())])
                }
                Sender::Incoming(name) => {
                    (format!("packets from {name}"), vec![E::Meta(MetaKey::InName, 1), equal(1, name.bytes())])
                }
                Sender::Cgroup { id, level } => {
                    (format!("cgroup {id}"), vec![E::Cgroup { level, register: 1 }, equal(1, id.to_ne_bytes())])
                }
            };
            expressions.push(E::Counter);
            expressions.extend(set_mark(spec.marks.mask(), spec.marks.tag_bits(tag.tag)));
            expressions.push(E::Accept);
            self.rule(chain, format!("tag {} for {text}", tag.tag), expressions);
        }
    }

    fn chain(&mut self, name: &str, hook: Option<(u32, i32)>) {
        self.table.chains.push(Chain { name: name.into(), hook });
    }

    fn rule(&mut self, chain: &str, comment: String, expressions: Vec<E>) {
        self.table.rules.push(Rule { chain: chain.into(), comment, expressions });
    }

    fn other_interfaces(&mut self, chain: &str) {
        let (by_name, by_index) = match self.spec.direction {
            Direction::Egress => (MetaKey::OutName, MetaKey::OutIndex),
            Direction::Ingress => (MetaKey::InName, MetaKey::InIndex),
        };
        // One that has neither.
        let other = vec![
            E::Meta(by_name, 1),
            is_not(&self.interface.name),
            E::Meta(by_index, 1),
            E::Compare(1, Compare::NotEqual, self.interface.index.to_ne_bytes().to_vec()),
            E::Return,
        ];
        self.rule(chain, "other interfaces".into(), other);
    }

    fn foreign(&mut self, chain: &str) {
        let marks = self.spec.marks;
        let mut expressions = mark_bits(marks.stamps(), Compare::NotEqual, 0);
        expressions.push(E::Counter);
        expressions.extend(set_mark(marks.mask(), 0));
        self.rule(chain, "foreign mark".into(), expressions);
    }

    /// The rules that let neighbour discovery pass, without which no packet can be sent; ARP, its IPv4 counterpart, is
    /// not filtered by these rules. It is never forwarded, and has the largest hop limit (RFC 4861, section 7.1).
    ///
    /// For departing packets that is sufficient: a forwarded packet has a smaller one. An arriving packet may still be
    /// forwarded, unless its destination is on this link; packets with another destination pass at a bounded rate, and
    /// the rest is shaped.
    fn neighbour_discovery(&mut self, family: Family, extras: Extras) {
        let mut discovery = of_version(family, 10);
        discovery.extend([
            E::Meta(MetaKey::Transport, 1),
            equal(1, [58]),
            E::Load(ICMP_TYPE, 1),
            E::Compare(1, Compare::AtLeast, vec![133]),
            E::Compare(1, Compare::AtMost, vec![137]),
            E::Load(Field { base: Base::Network, offset: IPV6_HOP_LIMIT, length: 1 }, 1),
            equal(1, [255]),
        ]);
        let direction = self.spec.direction;
        let mut exempt = |comment: &str, more: Vec<E>| {
            let expressions = [discovery.clone(), more, vec![E::Counter, E::Return]].concat();
            self.rule("shape", format!("exempt neighbour discovery{comment}"), expressions);
        };
        match direction {
            Direction::Egress => exempt("", vec![]),
            Direction::Ingress => {
                let to = |mask: [u8; 2], prefix: [u8; 2]| {
                    vec![
                        E::Load(Field { base: Base::Network, offset: IPV6_DESTINATION, length: 2 }, 1),
                        E::Bitwise { register: 1, mask: mask.into(), flip: vec![0; 2] },
                        equal(1, prefix),
                    ]
                };
                exempt(" to this link", to([0xff, 0xc0], [0xfe, 0x80]));
                exempt(" to groups of this link", to([0xff, 0x0f], [0xff, 0x02]));
                if extras.limit {
                    exempt(" to others", vec![BOUNDED]);
                }
            }
        }
    }

    /// The chains that recognise copies of multicast packets; a chain exists before the rule that jumps to it.
    fn copies_of(&mut self, versions: &[(u8, &str)], extras: Extras) {
        for (protocol, version) in versions {
            self.copies(&format!("copies{version}"), *protocol == 2, extras);
        }
    }

    /// The rules that let pass the copies of multicast that stay on this host.
    ///
    /// The kernel sends what a host sends to a group that it belongs to through postrouting twice: for IPv4 a copy for
    /// the host itself first, then the packet; for IPv6 the other way round. With a connection tracker both share an entry
    /// that is not confirmed yet, and the kernel drops such a packet instead of queueing it. The copy has no socket.
    /// Nor have packets that some tunnels send to a group, so the rate is bounded.
    fn copies(&mut self, chain: &str, ipv4: bool, extras: Extras) {
        self.chain(chain, None);
        let (hops, destination, all_nodes) = if ipv4 {
            (IPV4_TTL, IPV4_DESTINATION, IPV4_ALL_NODES.to_vec())
        } else {
            (IPV6_HOP_LIMIT, IPV6_DESTINATION, IPV6_ALL_NODES.to_vec())
        };
        let length = all_nodes.len() as u32;
        // The kernel transmits none of these: each interface with multicast belongs to this group. The exception is an
        // IPv6 sender without multicast loopback, so their rate is bounded.
        let mut expressions = vec![
            E::Load(Field { base: Base::Network, offset: hops, length: 1 }, 1),
            equal(1, [0]),
            E::Load(Field { base: Base::Network, offset: destination, length }, 1),
            E::Compare(1, Compare::Equal, all_nodes),
        ];
        if !ipv4 && extras.limit {
            expressions.push(BOUNDED);
        }
        if ipv4 || extras.limit {
            expressions.extend([E::Counter, E::Accept]);
            self.rule(chain, "exempt what goes no hop".into(), expressions);
        }
        if extras.limit {
            let forwarded = E::Compare(1, Compare::NotEqual, vec![0; 4]);
            self.rule(chain, "forwarded".into(), vec![E::Meta(MetaKey::InIndex, 1), forwarded, E::Return]);
            // Without a socket this does not match.
            self.rule(chain, "from a socket".into(), vec![E::Meta(MetaKey::SocketUid, 1), E::Return]);
            self.rule(chain, "exempt copies for this host".into(), vec![BOUNDED, E::Counter, E::Accept]);
        }
    }

    /// The rules that write DSCP and CE. In the first word the traffic class is shifted by four bits between the
    /// versions: IPv4 has version, IHL, DSCP, ECN; IPv6 has version, DSCP, ECN, flow label.
    fn write(&mut self, chain: &str, ipv4: bool) {
        self.chain(chain, None);
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

/// The addresses by which flows are divided, which are neighbours in both headers.
fn addresses(by: DividedBy, ipv4: bool) -> Field {
    let (source, destination) = if ipv4 { (IPV4_SOURCE, IPV4_DESTINATION) } else { (IPV6_SOURCE, IPV6_DESTINATION) };
    let one = destination - source;
    let (offset, length) = match by {
        DividedBy::Source => (source, one),
        DividedBy::Destination => (destination, one),
        DividedBy::HostPair => (source, 2 * one),
    };
    Field { base: Base::Network, offset, length }
}

/// Continues if the packet is of the version; empty in a table of that version alone.
fn of_version(family: Family, protocol: u8) -> Vec<E> {
    if family == Family::Inet { vec![E::Meta(MetaKey::Protocol, 1), equal(1, [protocol])] } else { vec![] }
}

fn equal<const N: usize>(register: u32, value: [u8; N]) -> E {
    E::Compare(register, Compare::Equal, value.into())
}

/// Continues if the bits of the mark under `mask` compare so with `value`.
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

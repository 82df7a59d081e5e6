//! Detects what carries packets of an interface past its rules: interfaces above it, and flow tables.
//!
//! The packet filter sees a packet at one interface, the uppermost: a port of a bridge, the parent of a VLAN or the card
//! below a PPPoE session carry frames whose packets have another interface. A flow table forwards the packets of a
//! connection without the packet filter. The rules are in place then, the queue is served, and nothing is shaped.
//!
//! *Notes*: an interface above that is in another network namespace (a macvlan of a container) is not seen from here; only its
//! departure to there is.
//! Rules that put connections into a flow table are evaluated as far as they compare names and numbers of interfaces, together
//! with the rules before them in the same chain that return for such interfaces.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv6Addr};

use crate::netlink::{Protocol, Result, Socket};
use crate::nft::{self, Compare, Expression, Flowtable, MetaKey};
use crate::rtnl::{Link, Rtnl, sysctl};
use crate::rules::Direction;
use crate::shaping::backend::DISCIPLINE;

/// Masters whose ports the packet filter does not see as interfaces of packets.
pub(crate) const MASTERS: [&str; 7] = ["bridge", "bond", "team", "openvswitch", "hsr", "batadv", "lag"];
/// Kinds of interfaces that are stacked on another one and whose packets the packet filter sees.
pub(crate) const UPPER: [&str; 8] = ["vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "macsec", "dsa", "rmnet"];

/// An interface above another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Above {
    /// The name of the interface.
    pub name: String,
    /// The kind of interface: `bridge`, `vlan`, `ppp`.
    pub kind: String,
}

impl Above {
    /// How to shape its packets.
    fn remedy(&self) -> String {
        match unseen(&self.kind) {
            Some((_, remedy)) => remedy.to_owned(),
            None => format!("shape these by --interface {}", self.name),
        }
    }
}

impl fmt::Display for Above {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.kind)
    }
}

/// The interfaces stacked above an interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stack {
    /// The interfaces that carry its frames.
    pub above: Vec<Above>,
    /// Whether no packet belongs to the interface itself: it is a port, or has no address while others are stacked on
    /// it.
    pub carries_all: bool,
}

impl Stack {
    /// The interfaces as text for a message.
    pub fn names(&self) -> String {
        self.above.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// A link or table that carries packets of an interface past its rules, or may.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bypass {
    /// The name of the interface.
    pub interface: String,
    /// The interfaces above it.
    pub stack: Stack,
    /// The rules that put its connections into a flow table, or may.
    pub offloads: Vec<Offload>,
}

impl Bypass {
    /// Looks at a link, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn find(rtnl: &mut Rtnl, link: &Link, direction: Direction) -> Result<Self> {
        // Without the privilege to look, installing the rules fails with the reason.
        let mut offloads = offloads(link, direction).unwrap_or_default();
        offloads.retain(|offload| offload.takes != Takes::No);
        Ok(Self { interface: link.name.clone(), stack: stack(rtnl, link)?, offloads })
    }

    /// Warnings for people, each with its remedy.
    pub fn warnings(&self) -> Vec<String> {
        let above = self.stack.above.first().map(|first| {
            let (interface, names, remedy) = (&self.interface, self.stack.names(), first.remedy());
            match self.stack.carries_all {
                true => {
                    format!("no packet has the interface {interface}, only what is stacked on it: {names}; {remedy}")
                }
                false => format!("packets of what stands above {interface} are not shaped here: {names}; {remedy}"),
            }
        });
        above.into_iter().chain(self.offloads.iter().map(|offload| self.offloaded(offload))).collect()
    }

    fn offloaded(&self, offload: &Offload) -> String {
        let remedy = offload.remedy(&self.interface);
        format!("{offload}; where these are of {} they are not shaped: {remedy}", self.interface)
    }

    /// Describes what has come and gone since `before`. Interfaces named in `moved` have gone to another network namespace.
    pub fn changes(&self, before: &Self, moved: &[String]) -> Vec<String> {
        let interface = &self.interface;
        let come = self.stack.above.iter().filter(|above| !before.stack.above.contains(above)).map(|above| {
            let remedy = above.remedy();
            format!("{above} stands above {interface} now, and its packets are not shaped here; {remedy}")
        });
        let gone = before.stack.above.iter().filter(|above| !self.stack.above.contains(above)).map(|above| match moved
            .contains(&above.name)
        {
            true => format!(
                "{above} has gone to another network namespace: its packets still pass {interface} unshaped, and it is \
                     no longer seen from here"
            ),
            false => format!("{above} no longer stands above {interface}"),
        });
        let alone = (self.stack.carries_all && !before.stack.carries_all)
            .then(|| format!("no packet has the interface {interface} any more, only what is stacked on it"));
        let offloads = self.offloads.iter().filter(|offload| !before.offloads.contains(offload));
        let ended = before.offloads.iter().filter(|offload| !self.offloads.contains(offload));
        let ended = ended.map(|offload| format!("it is no longer so that {offload}"));
        come.chain(gone).chain(alone).chain(offloads.map(|offload| self.offloaded(offload))).chain(ended).collect()
    }
}

/// What a qdisc of this kind, below a shaper at `interface`, does to it, and how to remove the qdisc; `None` for one that
/// neither shapes nor delays, and for ours.
pub fn slower(kind: &str, interface: &str) -> Option<(String, String)> {
    const HARMLESS: [&str; 10] =
        ["noqueue", "pfifo_fast", "pfifo", "bfifo", "fq_codel", "fq", "mq", "multiq", "ingress", "clsact"];
    if HARMLESS.contains(&kind) || kind.starts_with(DISCIPLINE) {
        return None;
    }
    let text =
        format!("{interface} has a {kind} qdisc, which shapes or delays what we let go: the slower of both counts");
    Some((text, format!("tc qdisc del dev {interface} root")))
}

/// Why the packet filter sees no packets of an interface of this kind, and what to shape instead; `None` if it does.
pub fn unseen(kind: &str) -> Option<(&'static str, &'static str)> {
    match kind {
        "macvtap" | "ipvtap" => Some((
            "its packets are those of a program, a virtual machine in most cases, and pass the packet filter by",
            "shape inside that machine, or limit the machine where it is defined",
        )),
        "vrf" => Some((
            "it stands for a table of routes, and packets leave by the interfaces in it",
            "shape one of these; `ip link show master` with its name lists them",
        )),
        _ => None,
    }
}

/// Returns the interfaces above `link`, in the network namespace of the calling thread.
///
/// # Errors
/// When the kernel does not answer.
pub fn stack(rtnl: &mut Rtnl, link: &Link) -> Result<Stack> {
    if let Some(master) = link.master.map(|master| rtnl.link_by_index(master)).transpose()?.flatten() {
        let kind = master.kind.unwrap_or_default();
        if MASTERS.contains(&kind.as_str()) {
            return Ok(Stack { above: vec![Above { name: master.name, kind }], carries_all: true });
        }
    }
    let links = rtnl.links()?;
    let on_it = |other: &&Link| {
        let kind = other.kind.as_deref().unwrap_or_default();
        other.peer == Some(link.index) && !other.is_peer_elsewhere && UPPER.contains(&kind)
    };
    let has_session = session_devices(&sessions()).any(|device| device == link.name);
    let is_session = |other: &&Link| has_session && other.kind.as_deref() == Some("ppp");
    let above: Vec<_> = links
        .iter()
        .filter(|other| on_it(other) || is_session(other))
        .map(|other| Above { name: other.name.clone(), kind: other.kind.clone().unwrap_or_default() })
        .collect();
    let has_address = rtnl.addresses()?.iter().any(|a| a.index == link.index && !is_link_local(a.address));
    Ok(Stack { carries_all: !above.is_empty() && !has_address, above })
}

/// The PPPoE sessions of this network namespace, as the kernel lists them; empty without any.
pub(crate) fn sessions() -> String {
    fs::read_to_string("/proc/thread-self/net/pppoe").unwrap_or_default()
}

/// The interface below each session of the list: a heading, then number, address and device of each.
pub(crate) fn session_devices(sessions: &str) -> impl Iterator<Item = &str> {
    sessions.lines().skip(1).filter_map(|line| line.split_whitespace().nth(2))
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if Ipv6Addr::is_unicast_link_local(&address))
}

/// Whether a rule puts forwarded connections of an interface into a flow table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Takes {
    /// Its conditions, or earlier rules of the chain, exclude the interface.
    No,
    /// It has conditions that are not evaluated.
    Perhaps,
    /// It puts them into the flow table.
    Yes,
}

/// A rule that puts connections into a flow table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offload {
    /// Family, table and name of the flow table.
    pub flowtable: String,
    /// Family, table and name of the chain that the rule is in.
    pub chain: String,
    /// Whether connections of the interface are among them.
    pub takes: Takes,
}

impl Offload {
    /// The suggested remedy.
    pub fn remedy(&self, interface: &str) -> String {
        format!(
            "begin that rule with `iifname != \"{interface}\" oifname != \"{interface}\"`, or delete it and the flow \
             table; see `nft list chain {}`",
            self.chain
        )
    }
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a rule of chain {} puts forwarded connections into the flow table {}", self.chain, self.flowtable)
    }
}

/// The rules that put connections into a flow table whose packets pass the queue of what leaves or arrives by `link`.
///
/// # Errors
/// When the kernel does not reply, or refuses the request.
pub fn offloads(link: &Link, direction: Direction) -> Result<Vec<Offload>> {
    let mut socket = Socket::open(Protocol::Netfilter)?;
    let flowtables = nft::flowtables(&mut socket)?;
    if flowtables.is_empty() || !sysctl::forwards() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for (family, name) in nft::tables(&mut socket)? {
        let ours: Vec<&Flowtable> = flowtables
            .iter()
            .filter(|flowtable| flowtable.family == family && flowtable.table == name)
            .filter(|flowtable| carries(flowtable, &link.name, direction))
            .collect();
        if ours.is_empty() {
            continue;
        }
        let Some(table) = nft::read(&mut socket, family, &name)?.map(|found| found.table) else { continue };
        for chain in &table.chains {
            let rules: Vec<_> = table.rules.iter().filter(|rule| rule.chain == chain.name).collect();
            let lists: Vec<&[Expression]> = rules.iter().map(|rule| rule.expressions.as_slice()).collect();
            for (at, rule) in rules.iter().enumerate() {
                let added = rule.expressions.iter().find_map(|expression| match expression {
                    Expression::AddFlow(name) => ours.iter().find(|flowtable| flowtable.name == *name),
                    _ => None,
                });
                let Some(flowtable) = added else { continue };
                let takes = takes(&lists[..=at], link);
                // The conditions for a jump to a chain without a hook are in other chains.
                let takes = if chain.hook.is_none() { takes.min(Takes::Perhaps) } else { takes };
                found.push(Offload {
                    flowtable: flowtable.to_string(),
                    chain: format!("{} {} {}", family.name(), table.name, chain.name),
                    takes,
                });
            }
        }
    }
    Ok(found)
}

/// Whether packets in the flow table could leave or arrive by the interface: it receives them at its own devices and
/// sends them by any.
fn carries(flowtable: &Flowtable, interface: &str, direction: Direction) -> bool {
    let of = |is_ours: bool| flowtable.devices.iter().any(|device| (device == interface) == is_ours);
    flowtable.devices.is_empty() || of(direction == Direction::Ingress)
}

/// Whether the last of `rules`, those of a chain up to it, sees connections of `link`.
fn takes(rules: &[&[Expression]], link: &Link) -> Takes {
    let Some((last, before)) = rules.split_last() else { return Takes::No };
    let (mut excluded, mut unclear) = ([false; 2], false);
    for (side, keys) in [[MetaKey::InName, MetaKey::InIndex], [MetaKey::OutName, MetaKey::OutIndex]].iter().enumerate()
    {
        let mut conditions = conditions(last, *keys);
        excluded[side] = conditions.iter().any(|condition| condition.excludes(link));
        unclear |= conditions.drain(..).any(|condition| matches!(condition, Condition::Unclear));
        for exit in before {
            let ends = matches!(exit.last(), Some(Expression::Accept | Expression::Return | Expression::Drop));
            let only = exit.iter().filter(|expression| matches!(expression, Expression::Compare(..))).count() == 1;
            let is_ours = |condition: &Condition<'_>| match condition {
                Condition::Compared(how, what) => *how == Compare::Equal && names(what, link),
                Condition::Unclear => false,
            };
            excluded[side] |= ends && only && self::conditions(exit, *keys).iter().any(is_ours);
        }
    }
    match (excluded, unclear) {
        ([true, true], _) => Takes::No,
        (_, true) => Takes::Perhaps,
        _ => Takes::Yes,
    }
}

/// The condition of a rule on an interface of a packet.
enum Condition<'a> {
    Compared(Compare, &'a [u8]),
    /// A condition that is not evaluated, such as a set.
    Unclear,
}

impl Condition<'_> {
    fn excludes(&self, link: &Link) -> bool {
        match self {
            Self::Compared(Compare::Equal, what) => !names(what, link),
            Self::Compared(Compare::NotEqual, what) => names(what, link),
            _ => false,
        }
    }
}

fn conditions<'a>(rule: &'a [Expression], keys: [MetaKey; 2]) -> Vec<Condition<'a>> {
    let one = |pair: &'a [Expression]| match pair {
        [Expression::Meta(key, register), next] if keys.contains(key) => Some(match next {
            Expression::Compare(other, how, what) if other == register => Condition::Compared(*how, what),
            _ => Condition::Unclear,
        }),
        _ => None,
    };
    rule.windows(2).filter_map(one).collect()
}

/// Whether a name (filled with zeros; without one it stands for all that begin so) or a number is that of `link`.
fn names(what: &[u8], link: &Link) -> bool {
    let name = link.name.as_bytes();
    match what.iter().position(|byte| *byte == 0) {
        _ if what.len() == 4 && what == link.index.to_ne_bytes() => true,
        Some(end) => &what[..end] == name,
        None => name.starts_with(what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_whose_packets_are_not_seen_have_a_remedy() {
        assert!(["macvtap", "ipvtap", "vrf"].iter().all(|kind| unseen(kind).is_some()));
        assert!(
            ["", "veth", "vlan", "macvlan", "bridge", "ppp", "wireguard"].iter().all(|kind| unseen(kind).is_none())
        );
    }

    fn wan() -> Link {
        Link { index: 7, name: "wan0".into(), ..Link::default() }
    }

    fn padded(name: &str) -> Vec<u8> {
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize(16, 0);
        bytes
    }

    fn rule(conditions: &[(MetaKey, Compare, Vec<u8>)], then: Expression) -> Vec<Expression> {
        let mut rule = Vec::new();
        for (key, how, what) in conditions {
            rule.extend([Expression::Meta(*key, 1), Expression::Compare(1, *how, what.clone())]);
        }
        rule.push(then);
        rule
    }

    #[test]
    fn conditions_on_both_interfaces_exclude_a_rule() {
        use Compare::{Equal, NotEqual};
        use MetaKey::{InName, OutIndex, OutName};
        let flow = || Expression::AddFlow("fast".into());
        let takes_of = |conditions: &[(MetaKey, Compare, Vec<u8>)]| takes(&[&rule(conditions, flow())], &wan());
        assert_eq!(takes_of(&[]), Takes::Yes);
        assert_eq!(takes_of(&[(InName, NotEqual, padded("wan0"))]), Takes::Yes, "connections from inside still do");
        let both = [(InName, NotEqual, padded("wan0")), (OutName, NotEqual, padded("wan0"))];
        assert_eq!(takes_of(&both), Takes::No);
        assert_eq!(takes_of(&[(InName, Equal, padded("lan0")), (OutName, Equal, padded("lan1"))]), Takes::No);
        assert_eq!(takes_of(&[(InName, Equal, padded("lan0")), (OutName, Equal, b"wan".to_vec())]), Takes::Yes);
        assert_eq!(
            takes_of(&[(InName, NotEqual, padded("wan0")), (OutIndex, NotEqual, 7_u32.to_ne_bytes().into())]),
            Takes::No
        );
        // A set of names.
        let set = [Expression::Meta(InName, 1), Expression::Unknown("lookup".into()), flow()];
        assert_eq!(takes(&[&set], &wan()), Takes::Perhaps);
        // An earlier rule leaves the chain.
        let exits = [
            rule(&[(InName, Equal, padded("wan0"))], Expression::Accept),
            rule(&[(OutName, Equal, padded("wan0"))], Expression::Return),
        ];
        assert_eq!(takes(&[&exits[0], &exits[1], &[flow()]], &wan()), Takes::No);
        assert_eq!(takes(&[&exits[0], &[flow()]], &wan()), Takes::Yes);
    }

    #[test]
    fn interfaces_that_come_and_go_above_another_are_told_once() {
        let with = |above: &[(&str, &str)], carries_all| Bypass {
            interface: "wan0".into(),
            stack: Stack {
                above: above.iter().map(|(name, kind)| Above { name: (*name).into(), kind: (*kind).into() }).collect(),
                carries_all,
            },
            offloads: Vec::new(),
        };
        let (none, one) = (with(&[], false), with(&[("mac0", "macvlan")], false));
        let both = with(&[("mac0", "macvlan"), ("tap0", "macvtap")], true);
        assert_eq!(one.changes(&one, &[]), [""; 0]);
        let told = one.changes(&none, &[]);
        assert!(told.len() == 1 && told[0].contains("mac0 (macvlan) stands above wan0 now"), "{told:?}");
        assert!(told[0].ends_with("by --interface mac0") && one.warnings()[0].ends_with("by --interface mac0"));
        let told = both.changes(&one, &[]);
        assert!(told.len() == 2 && told[0].contains("tap0 (macvtap)") && told[1].contains("any more"), "{told:?}");
        // A macvtap cannot be shaped itself.
        assert!(!told[0].contains("--interface") && told[0].contains("inside that machine"), "{told:?}");
        assert_eq!(none.changes(&one, &[]), ["mac0 (macvlan) no longer stands above wan0"]);
        let told = none.changes(&one, &["mac0".into()]);
        assert!(told.len() == 1 && told[0].contains("another network namespace"), "{told:?}");
    }

    #[test]
    fn sessions_of_pppoe_name_their_interface() {
        let text = "Id       Address              Device\n00000100 52:54:00:00:00:01   wan0\n";
        assert_eq!(session_devices(text).collect::<Vec<_>>(), ["wan0"]);
        assert_eq!(session_devices("").count(), 0);
    }

    #[test]
    fn a_flow_table_takes_packets_where_they_arrive() {
        let table = |devices: &[&str]| Flowtable {
            family: nft::Family::Inet,
            table: "gw".into(),
            name: "fast".into(),
            devices: devices.iter().map(ToString::to_string).collect(),
        };
        use Direction::{Egress, Ingress};
        let both = table(&["lan0", "wan0"]);
        assert!(carries(&both, "wan0", Egress) && carries(&both, "wan0", Ingress));
        let inner = table(&["lan0"]);
        assert!(carries(&inner, "wan0", Egress) && !carries(&inner, "wan0", Ingress));
        assert!(!carries(&table(&["wan0"]), "wan0", Egress) && carries(&table(&[]), "wan0", Egress));
    }
}

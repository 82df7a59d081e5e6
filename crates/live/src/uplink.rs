//! Finds the uplinks of this machine: the interfaces by which the default routes leave, and what they are stacked on.
//!
//! A packet belongs to the uppermost interface, which is the one that a route names and the one to shape. A tunnel is an
//! exception: its packets leave a second time by the uplink, where all traffic of the line is. So tunnels are listed
//! beside the uplinks.
//!
//! *Notes*: default routes of other tables than the main one count where the rules of routing lead there. Address
//! translation by legacy iptables is recognised by its table, not by its rules.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bypass::{self, Above, MASTERS, UPPER};
use crate::netlink::{Protocol, Result, Socket};
use crate::nft;
use crate::rtnl::{Link, Rtnl, sysctl};

/// Addresses for documentation, which no interface has: the way to them is that of the default route.
const ANYWHERE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];
/// Kinds of interfaces whose packets leave again by another one. A TUN device has the kind `tun`.
const CLOSED_TUNNELS: [&str; 7] = ["wireguard", "tun", "gretap", "vti", "vti6", "xfrm", "erspan"];
/// Kinds of tunnels that the dissector looks into.
const OPEN_TUNNELS: [&str; 5] = ["ipip", "sit", "gre", "ip6tnl", "ip6gre"];
/// Names that managers of containers and virtual machines give to their bridges.
const CONTAINERS: [&str; 7] = ["docker", "podman", "cni", "virbr", "lxcbr", "lxdbr", "incusbr"];
/// The most interfaces that are stacked on each other.
const DEPTH: usize = 8;

/// The kind of an uplink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A network card, or a virtual one.
    Card,
    /// A session that this machine dials: PPPoE, or a modem.
    Session,
    /// A mobile line: its rate varies.
    Mobile,
    /// A VLAN of the provider.
    Vlan,
    /// A bridge with the address of this machine.
    Bridge,
    /// Another interface that is stacked on one: a bond, a macvlan.
    Stacked,
}

/// An interface by which a default route leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Uplink {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its kind as the kernel names it, empty for a card.
    pub kernel_kind: String,
    /// The interfaces below it, the nearest first; the ports of a bridge or a bond.
    pub below: Vec<Above>,
}

impl fmt::Display for Uplink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            Kind::Card => "a network card",
            Kind::Session => "a session that this machine dials",
            Kind::Mobile => "a mobile line",
            Kind::Vlan => "a VLAN",
            Kind::Bridge => "a bridge",
            Kind::Stacked => &self.kernel_kind,
        };
        write!(f, "{}, {what}", self.name)?;
        let mut before = self.kernel_kind.as_str();
        for below in &self.below {
            let (joint, next) = match before {
                "port" => (", ", "port"),
                master if MASTERS.contains(&master) => (" with ", "port"),
                _ => (" above ", below.kind.as_str()),
            };
            write!(f, "{joint}{}", below.name)?;
            if !below.kind.is_empty() {
                write!(f, " ({})", below.kind)?;
            }
            before = next;
        }
        Ok(())
    }
}

/// The uplinks of this machine, and what there is beside them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Uplinks {
    /// The interfaces of the default routes, the preferred one first.
    pub all: Vec<Uplink>,
    /// Tunnels whose packets leave again by an uplink, where each of these tunnels is one flow.
    pub tunnels: Vec<String>,
    /// Tunnels whose packets leave again by an uplink, and are told apart there by the packets inside.
    pub open_tunnels: Vec<String>,
    /// Bridges with a name that managers of containers and virtual machines give.
    pub containers: Vec<String>,
    /// Other bridges with ports: of a LAN, or of virtual hosts.
    pub bridges: Vec<String>,
    /// Whether this machine forwards packets of other hosts.
    pub forwards: bool,
    /// Whether it translates addresses; also false where the rules may not be read.
    pub translates: bool,
}

impl Uplinks {
    /// The uplinks in the network namespace of the calling thread.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn find() -> Result<Self> {
        let mut rtnl = Rtnl::open()?;
        let links = rtnl.links()?;
        let mut order = Vec::new();
        let routes = rtnl.default_routes()?.into_iter().map(|(index, _)| index);
        for index in preferred(&mut rtnl).into_iter().chain(routes) {
            if !order.contains(&index) {
                order.push(index);
            }
        }
        let named =
            order.iter().filter_map(|index| links.iter().find(|link| link.index == *index && !link.is_loopback()));
        let (tunnels, cards): (Vec<&Link>, Vec<&Link>) = named.partition(|link| is_tunnel(link));
        // Where there is nothing but a tunnel, it is the uplink.
        let cards = if cards.is_empty() { &tunnels } else { &cards };
        let sessions = bypass::sessions();
        let all: Vec<Uplink> = cards.iter().map(|link| uplink(&links, link, &sessions)).collect();
        let is_uplink = |name: &str| all.iter().any(|up| up.name == name || up.below.iter().any(|b| b.name == name));
        let others = || links.iter().filter(|link| !is_uplink(&link.name));
        let has_ports = |link: &&Link| links.iter().any(|port| port.master == Some(link.index));
        let (containers, bridges): (Vec<&Link>, Vec<&Link>) =
            others().filter(|link| kind_of(link) == "bridge").partition(|link| is_for_containers(&link.name));
        let names = |links: Vec<&Link>| links.into_iter().map(|link| link.name.clone()).collect();
        let (open_tunnels, tunnels): (Vec<&Link>, Vec<&Link>) = others()
            .filter(|link| is_tunnel(link) && link.is_up())
            .partition(|link| OPEN_TUNNELS.contains(&kind_of(link)));
        Ok(Self {
            tunnels: names(tunnels),
            open_tunnels: names(open_tunnels),
            containers: names(containers),
            bridges: names(bridges.into_iter().filter(has_ports).collect()),
            forwards: sysctl::forwards(),
            translates: translates(),
            all,
        })
    }

    /// The uplink of that name.
    pub fn get(&self, name: &str) -> Option<&Uplink> {
        self.all.iter().find(|uplink| uplink.name == name)
    }

    /// The word of `--link` for an uplink, where its place suggests one.
    pub fn line_kind(&self, uplink: &Uplink) -> Option<&'static str> {
        match uplink.kind {
            Kind::Session => Some("vdsl"),
            Kind::Vlan => Some("ethernet"),
            _ if !self.containers.is_empty() => Some("ethernet"),
            _ => None,
        }
    }

    /// The commands that shape the uplink, for a line with rates `up` and `down`, and show that it works.
    pub fn commands(&self, uplink: &Uplink, up: &str, down: &str) -> [String; 3] {
        let name = &uplink.name;
        let link = self.line_kind(uplink).map_or(String::new(), |kind| format!(" --link {kind}"));
        [
            format!("tidegate check --up {up} --down {down}{link} > /etc/tidegate/{name}.toml"),
            format!("systemctl enable --now tidegate@{name}"),
            format!("tidegate status --interface {name}"),
        ]
    }

    /// Remarks about the position of an uplink, a sentence each. Empty in the plain case.
    pub fn remarks(&self, uplink: &Uplink) -> Vec<String> {
        let mut remarks = Vec::new();
        let name = &uplink.name;
        match (uplink.kind, uplink.below.first()) {
            (Kind::Session, Some(below)) => {
                remarks.push(format!("on {} the packets are inside of the session, and no rule sees them", below.name))
            }
            (Kind::Vlan | Kind::Stacked, Some(below)) => {
                remarks.push(format!("{} carries the same packets, and no rule sees them there", below.name));
            }
            (Kind::Bridge, Some(_)) => {
                remarks.push(format!("a port of {name} has no packets of its own; what is only bridged is not shaped"));
            }
            _ => {}
        }
        if self.translates {
            remarks.push("this machine translates addresses; hosts are distinguished by their inner addresses".into());
        }
        if !self.containers.is_empty() {
            remarks.push(format!("containers behind {} are shaped with it", self.containers.join(", ")));
        }
        if self.forwards && !self.bridges.is_empty() {
            remarks.push(format!("hosts behind {} are shaped with it", self.bridges.join(", ")));
        }
        if !self.tunnels.is_empty() {
            let names = self.tunnels.join(", ");
            remarks.push(format!(
                "packets of {names} leave by it as well, as one flow; shape {names} too where what is inside must share"
            ));
        }
        if !self.open_tunnels.is_empty() {
            let names = self.open_tunnels.join(", ");
            remarks
                .push(format!("packets of {names} leave by it as well; each connection inside is a flow of its own"));
        }
        if self.all.len() > 1 {
            let others: Vec<_> = self.all.iter().map(|up| up.name.as_str()).filter(|other| other != name).collect();
            remarks
                .push(format!("another uplink ({}) has a queue, a file and an instance of its own", others.join(", ")));
        }
        remarks
    }
}

/// The interfaces that packets to the Internet leave by, by the rules of routing; IPv4 first.
pub fn preferred(rtnl: &mut Rtnl) -> Vec<u32> {
    ANYWHERE.into_iter().filter_map(|address| rtnl.route_to(address).ok().flatten()).collect()
}

fn kind_of(link: &Link) -> &str {
    link.kind.as_deref().unwrap_or_default()
}

fn is_tunnel(link: &Link) -> bool {
    CLOSED_TUNNELS.contains(&kind_of(link)) || OPEN_TUNNELS.contains(&kind_of(link))
}

/// Whether a bridge of that name is for containers or virtual machines. Its ports do not tell: a port of the kind `veth`
/// may lead to any namespace.
fn is_for_containers(name: &str) -> bool {
    // A network of Docker has the first twelve digits of its identifier.
    let is_network = |digits: &str| digits.len() == 12 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    CONTAINERS.iter().any(|known| name.starts_with(known)) || name.strip_prefix("br-").is_some_and(is_network)
}

/// Whether an interface is that of a mobile line: the kernel names the type of its device (`DEVTYPE=wwan`), as drivers of modems set it,
/// and udev its name by that.
fn is_mobile(name: &str) -> bool {
    let uevent = fs::read_to_string(format!("/sys/class/net/{name}/uevent")).unwrap_or_default();
    uevent.lines().any(|line| line == "DEVTYPE=wwan") || name.starts_with("ww")
}

fn uplink(links: &[Link], link: &Link, sessions: &str) -> Uplink {
    let kind = match kind_of(link) {
        "ppp" => Kind::Session,
        "vlan" => Kind::Vlan,
        "bridge" => Kind::Bridge,
        kind if MASTERS.contains(&kind) || UPPER.contains(&kind) || is_tunnel(link) => Kind::Stacked,
        _ if is_mobile(&link.name) => Kind::Mobile,
        _ => Kind::Card,
    };
    let mut below = Vec::new();
    let mut at = link;
    while below.len() < DEPTH {
        let next = under(links, at, sessions);
        below.extend(next.iter().map(|link| Above { name: link.name.clone(), kind: kind_of(link).to_owned() }));
        match next[..] {
            [one] => at = one,
            _ => break,
        }
    }
    below.truncate(DEPTH);
    Uplink { name: link.name.clone(), kind, kernel_kind: kind_of(link).to_owned(), below }
}

/// The links right below one.
fn under<'a>(links: &'a [Link], link: &Link, sessions: &str) -> Vec<&'a Link> {
    let kind = kind_of(link);
    let is_under = |other: &&Link| {
        if kind == "ppp" {
            // The kernel does not list which session is which interface: of several the first is as good.
            bypass::session_devices(sessions).next() == Some(&other.name)
        } else if MASTERS.contains(&kind) {
            other.master == Some(link.index)
        } else {
            UPPER.contains(&kind) && !link.is_peer_elsewhere && link.peer == Some(other.index)
        }
    };
    links.iter().filter(is_under).collect()
}

/// Whether a rule of the packet filter translates addresses.
fn translates() -> bool {
    let names = fs::read_to_string("/proc/thread-self/net/ip_tables_names").unwrap_or_default();
    if names.lines().any(|name| name == "nat") {
        return true;
    }
    let Ok(mut socket) = Socket::open(Protocol::Netfilter) else { return false };
    let tables = nft::tables(&mut socket).unwrap_or_default();
    tables.into_iter().any(|(family, name)| {
        let Ok(Some(found)) = nft::read(&mut socket, family, &name) else { return false };
        // iptables over nf_tables has its targets in tables of its own names.
        let is_iptables = name == "nat" && found.table.rules.iter().any(|rule| !rule.expressions.is_empty());
        is_iptables || found.table.rules.iter().any(nft::Rule::translates)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, kind: &str) -> Link {
        let kind = (!kind.is_empty()).then(|| kind.to_owned());
        Link { index, name: name.into(), kind, ..Link::default() }
    }

    #[test]
    fn an_uplink_is_described_down_to_the_card() {
        let session = "Id       Address              Device\n00000100 52:54:00:00:00:01   wan0.7\n";
        let mut vlan = link(3, "wan0.7", "vlan");
        vlan.peer = Some(2);
        let links = [link(2, "wan0", ""), vlan, link(4, "ppp0", "ppp")];
        let found = uplink(&links, &links[2], session);
        assert_eq!(found.kind, Kind::Session);
        assert_eq!(found.to_string(), "ppp0, a session that this machine dials above wan0.7 (vlan) above wan0");
        assert_eq!(uplink(&links, &links[1], "").to_string(), "wan0.7, a VLAN above wan0");
        assert_eq!(uplink(&links, &links[0], "").to_string(), "wan0, a network card");
    }

    #[test]
    fn ports_are_below_their_bridge_and_containers_are_recognised() {
        let port = |index, name: &str, kind: &str| Link { master: Some(9), ..link(index, name, kind) };
        let bridge = |name: &str| link(9, name, "bridge");
        let links = [bridge("br0"), port(2, "lan1", ""), port(3, "veth7", "veth")];
        let found = uplink(&links, &links[0], "");
        assert_eq!(found.to_string(), "br0, a bridge with lan1, veth7 (veth)");
        assert!(is_for_containers("docker0") && is_for_containers("br-0123456789ab"));
        assert!(!is_for_containers("br-lan") && !is_for_containers("br0"));
        let of = |containers: &[&str], bridges: &[&str], forwards| {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let all = vec![uplink(&[], &link(1, "wan0", ""), "")];
            let found =
                Uplinks { containers: names(containers), bridges: names(bridges), forwards, all, ..Uplinks::default() };
            found.remarks(&found.all[0])
        };
        assert_eq!(of(&["docker0"], &[], true), ["containers behind docker0 are shaped with it"]);
        assert_eq!(of(&[], &["br0"], true), ["hosts behind br0 are shaped with it"]);
        assert!(of(&[], &["br0"], false).is_empty(), "they have no way to the uplink");
    }

    #[test]
    fn a_place_has_its_commands() {
        let uplinks = Uplinks { translates: true, tunnels: vec!["wg0".into()], ..Uplinks::default() };
        let ppp = Uplink { name: "ppp0".into(), kind: Kind::Session, kernel_kind: "ppp".into(), below: Vec::new() };
        let [check, enable, status] = uplinks.commands(&ppp, "20mbit", "100mbit");
        assert_eq!(check, "tidegate check --up 20mbit --down 100mbit --link vdsl > /etc/tidegate/ppp0.toml");
        assert_eq!(enable, "systemctl enable --now tidegate@ppp0");
        assert_eq!(status, "tidegate status --interface ppp0");
        let remarks = uplinks.remarks(&ppp);
        assert!(
            remarks.len() == 2 && remarks[1].starts_with("packets of wg0 leave by it as well, as one"),
            "{remarks:?}"
        );
        let open = Uplinks { open_tunnels: vec!["sit1".into()], ..Uplinks::default() }.remarks(&ppp);
        assert_eq!(open, ["packets of sit1 leave by it as well; each connection inside is a flow of its own"]);
    }
}

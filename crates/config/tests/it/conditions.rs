//! A rule with lists means the same as its conjunctions: for any packet, one value of each list matches exactly when
//! one conjunction does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use proptest::strategy::ValueTree as _;
use tidegate_config::shaper::{Match, Named, Owners, UnknownOwner};
use tidegate_config::values::{Lengths, Mac, Mark, MessageType, Ports, Prefix, Protocol, TcpFlags, User};
use tidegate_core::Dscp;
use tidegate_core::classify::{Fields, Hosts, IcmpType, Signal, Traits, Version};

struct House;

impl Owners for House {
    fn user(&mut self, name: &str) -> Option<u32> {
        (name == "alice").then_some(1000)
    }
    fn cgroup(&mut self, path: &str) -> Option<u64> {
        path.strip_prefix("slice").and_then(|number| number.parse().ok())
    }
    fn interface(&mut self, name: &str) -> Option<u64> {
        name.strip_prefix("lan").and_then(|number| number.parse::<u64>().ok()).map(|number| 100 + number)
    }
    /// The first device has an address of each family, the second one is not there.
    fn addresses(&mut self, mac: Mac) -> Option<Vec<IpAddr>> {
        match mac.0[5] {
            1 => Some(vec![Ipv4Addr::from_bits(0x0a40_0001).into(), Ipv6Addr::from_bits(0x2001_0db8 << 96).into()]),
            2 => Some(Vec::new()),
            _ => None,
        }
    }
    /// The device has two addresses, the site has one of these and another one, `nowhere.example` has none.
    fn named(&mut self, name: &Named) -> Option<Vec<IpAddr>> {
        let (first, second) = (Ipv4Addr::from_bits(0x0a40_0001).into(), Ipv6Addr::from_bits(0x2001_0db8 << 96).into());
        match name.to_string().as_str() {
            "laptop" => Some(vec![first, second]),
            "site.example" => Some(vec![first, Ipv4Addr::from_bits(0x0a80_0002).into()]),
            "nowhere.example" => Some(Vec::new()),
            _ => None,
        }
    }
}

/// Whether the packet is from or to one of the addresses of `names`, if there are any.
fn has_name(names: impl Iterator<Item = Named>, packet: &Fields) -> bool {
    let names: Vec<Named> = names.collect();
    names.is_empty()
        || names.iter().any(|name| {
            let addresses = House.named(name).unwrap_or_default();
            [packet.hosts.source(), packet.hosts.destination()]
                .into_iter()
                .flatten()
                .any(|end| addresses.contains(&end))
        })
}

/// As a rule is documented: all keys that are there must match; of a list, one of it.
fn means(wanted: &Match, packet: &Fields) -> bool {
    means_as_written(wanted, packet) || wanted.both_ways && means_as_written(wanted, &packet.exchanged())
}

fn means_as_written(wanted: &Match, packet: &Fields) -> bool {
    fn one<T>(list: &[T], is: impl Fn(&T) -> bool) -> bool {
        list.is_empty() || list.iter().any(is)
    }
    let within = |ports: &Ports, port: Option<u16>| port.is_some_and(|port| ports.first <= port && port <= ports.last);
    one(&wanted.dscps, |dscp| *dscp == packet.dscp)
        && one(&wanted.protocols, |protocol| packet.protocol == Some(protocol.0))
        && one(&wanted.sources, |prefix| packet.hosts.source().is_some_and(|host| prefix.contains(host)))
        && one(&wanted.destinations, |prefix| packet.hosts.destination().is_some_and(|host| prefix.contains(host)))
        && one(&wanted.source_ports, |ports| within(ports, packet.source_port))
        && one(&wanted.destination_ports, |ports| within(ports, packet.destination_port))
        && one(&wanted.hosts, |prefix| {
            [packet.hosts.source(), packet.hosts.destination()].into_iter().flatten().any(|host| prefix.contains(host))
        })
        && one(&wanted.macs, |mac| {
            let device = House.addresses(*mac).unwrap_or_default();
            [packet.hosts.source(), packet.hosts.destination()].into_iter().flatten().any(|host| device.contains(&host))
        })
        && has_name(wanted.host_names.iter().cloned().map(Named::Device), packet)
        && has_name(wanted.dns_names.iter().cloned().map(Named::Answered), packet)
        && one(&wanted.ports, |ports| within(ports, packet.source_port) || within(ports, packet.destination_port))
        && one(&wanted.marks, |mark| packet.mark & mark.mask == mark.value)
        && one(&wanted.users, |user| packet.uid == Some(if let User::Id(id) = user { *id } else { 1000 }))
        && one(&wanted.lengths, |lengths| lengths.contains(packet.traits.length))
        && one(
            &wanted.tcp_flags,
            |flags| matches!(packet.traits.signal, Signal::Tcp { flags: has, .. } if flags.holds(has)),
        )
        && (!wanted.pure_ack || matches!(packet.traits.signal, Signal::Tcp { pure_ack: true, .. }))
        && one(
            &wanted.icmp_types,
            |kind| matches!(packet.traits.signal, Signal::Icmp(has) if kind.types().any(|one| one == has)),
        )
        && (wanted.cgroups.is_empty() && wanted.from_interfaces.is_empty()
            || wanted.cgroups.iter().any(|path| packet.cgroup == House.cgroup(path))
            || wanted.from_interfaces.iter().any(|name| packet.cgroup == House.interface(name)))
}

fn some<T: Clone + std::fmt::Debug + 'static>(all: &[T]) -> impl Strategy<Value = Vec<T>> + use<T> {
    subsequence(all.to_vec(), 0..=all.len().min(3))
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0_u32..4).prop_map(|n| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 | n << 22 | n))),
        (0_u128..4).prop_map(|n| IpAddr::V6(Ipv6Addr::from_bits(0x2001_0db8 << 96 | n << 94 | n))),
    ]
}

fn device(number: u8) -> Mac {
    Mac([2, 0, 0x5e, 0, 0x53, number])
}

fn prefixes() -> impl Strategy<Value = Vec<Prefix>> {
    let prefix = (address(), any::<Index>()).prop_map(|(address, index)| {
        let lengths: &[u8] = if address.is_ipv4() { &[0, 9, 10, 32] } else { &[0, 33, 34, 128] };
        let length = lengths[index.index(lengths.len())];
        let covering = tidegate_core::classify::Prefix::covering(address, length).unwrap();
        Prefix { address: covering.address(), length }
    });
    proptest::collection::vec(prefix, 0..3)
}

type TraitsWanted = (Vec<Lengths>, (Vec<TcpFlags>, bool, Vec<MessageType>));

fn traits_wanted() -> impl Strategy<Value = TraitsWanted> {
    let lengths = some(&[Lengths { first: 0, last: 2 }, Lengths { first: 2, last: 3 }]);
    let flags = some(&[TcpFlags { set: 2, clear: 16 }, TcpFlags { set: 16, clear: 0 }]);
    let types = some(&[MessageType { v4: Some(8), v6: Some(128) }, MessageType { v4: None, v6: Some(2) }]);
    let signals = prop_oneof![
        15 => Just((vec![], false, vec![])),
        1 => flags.prop_map(|flags| (flags, false, vec![])),
        1 => Just((vec![], true, vec![])),
        1 => types.prop_map(|types| (vec![], false, types)),
    ];
    (rarely(lengths), signals)
}

fn traits() -> impl Strategy<Value = Traits> {
    let signals = vec![
        Signal::Unknown,
        Signal::Tcp { flags: 2, pure_ack: false },
        Signal::Tcp { flags: 16, pure_ack: true },
        Signal::Tcp { flags: 18, pure_ack: false },
        Signal::Icmp(IcmpType { version: Version::V4, number: 8 }),
        Signal::Icmp(IcmpType { version: Version::V6, number: 8 }),
        Signal::Icmp(IcmpType { version: Version::V6, number: 2 }),
    ];
    (0_u16..5, select(signals)).prop_map(|(length, signal)| Traits { length, signal })
}

/// A condition that most rules do not have, so that packets match the others.
fn rarely<T: Clone + std::fmt::Debug + 'static>(
    list: impl Strategy<Value = Vec<T>> + 'static,
) -> impl Strategy<Value = Vec<T>> {
    prop_oneof![5 => Just(Vec::new()), 1 => list]
}

fn wanted() -> impl Strategy<Value = Match> {
    let ports = [Ports { first: 1, last: 2 }, Ports { first: 2, last: 3 }, Ports { first: 4, last: 4 }];
    let dscps = [Dscp::BEST_EFFORT, Dscp::EF];
    let marks = [Mark { value: 1, mask: 3 }, Mark { value: 0, mask: 1 }, Mark { value: 7, mask: u32::MAX }];
    let users = [User::Name("alice".into()), User::Id(0), User::Id(1000)];
    (
        some(&dscps),
        some(&[Protocol(6), Protocol(17)]),
        (prefixes(), prefixes(), rarely(prefixes()), rarely(some(&[device(1), device(2)]))),
        (some(&ports), some(&ports), rarely(some(&ports)), any::<bool>()),
        some(&marks),
        some(&users),
        (some(&["slice1".to_owned(), "slice2".to_owned()]), rarely(some(&["lan1".to_owned()])), traits_wanted()),
        (
            rarely(some(&["laptop".parse().expect("a name")])),
            rarely(some(&["site.example", "nowhere.example"].map(|name| name.parse().expect("a name")))),
        ),
    )
        .prop_map(
            |(
                dscps,
                protocols,
                (sources, destinations, hosts, macs),
                ports,
                marks,
                users,
                (cgroups, from_interfaces, traits),
                (host_names, dns_names),
            )| {
                let (lengths, (tcp_flags, pure_ack, icmp_types)) = traits;
                let (source_ports, destination_ports, ports, both_ways) = ports;
                Match {
                    dscps,
                    protocols,
                    sources,
                    destinations,
                    hosts,
                    macs,
                    host_names,
                    dns_names,
                    source_ports,
                    destination_ports,
                    ports,
                    both_ways,
                    marks,
                    users,
                    cgroups,
                    from_interfaces,
                    lengths,
                    tcp_flags,
                    pure_ack,
                    icmp_types,
                    when: Vec::new(),
                    quota: None,
                }
            },
        )
}

fn packet() -> impl Strategy<Value = Fields> {
    let hosts = (address(), address()).prop_map(|(source, destination)| match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Hosts::V4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Hosts::V6 { source, destination },
        _ => Hosts::V4 { source: Ipv4Addr::from_bits(0x0a00_0000), destination: Ipv4Addr::from_bits(0x0a40_0001) },
    });
    (
        hosts,
        select(vec![Dscp::BEST_EFFORT, Dscp::EF]),
        select(vec![None, Some(6), Some(17)]),
        (proptest::option::of(0_u16..6), proptest::option::of(0_u16..6)),
        0_u32..8,
        select(vec![None, Some(0), Some(1000)]),
        (select(vec![None, Some(1), Some(2), Some(101)]), traits()),
    )
        .prop_map(|(hosts, dscp, protocol, (source_port, destination_port), mark, uid, (cgroup, traits))| Fields {
            hosts,
            dscp,
            protocol,
            source_port,
            destination_port,
            mark,
            uid,
            cgroup,
            traits,
            ..Fields::default()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn conjunctions_mean_what_the_lists_mean(wanted in wanted(), packets in proptest::collection::vec(packet(), 1..20)) {
        let conjunctions = wanted.conjunctions(&mut House).unwrap();
        for packet in packets {
            let matches = conjunctions.iter().any(|one| one.matches(&packet));
            prop_assert_eq!(matches, means(&wanted, &packet), "{:?}", packet);
        }
    }
}

#[test]
fn the_strategies_reach_matches_and_misses() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut results = [0_u32; 2];
    for _ in 0..2_000 {
        let mut draw =
            || (wanted().new_tree(&mut runner).unwrap().current(), packet().new_tree(&mut runner).unwrap().current());
        let (wanted, packet) = draw();
        if !wanted.is_everything() {
            results[usize::from(means(&wanted, &packet))] += 1;
        }
    }
    assert!(results.iter().all(|n| *n > 10), "{results:?}");
}

#[test]
fn names_without_a_user_are_reported() {
    let wanted = Match { users: vec![User::Name("bob".into())], ..Match::default() };
    assert_eq!(wanted.conjunctions(&mut House), Err(UnknownOwner::User("bob".into())));
    let wanted = Match { cgroups: vec!["web".into()], ..Match::default() };
    assert_eq!(wanted.conjunctions(&mut House), Err(UnknownOwner::ControlGroup("web".into())));
    let wanted = Match { from_interfaces: vec!["wan".into()], ..Match::default() };
    assert_eq!(wanted.conjunctions(&mut House), Err(UnknownOwner::Interface("wan".into())));
    let wanted = Match { host_names: vec!["phone".parse().unwrap()], ..Match::default() };
    assert_eq!(wanted.conjunctions(&mut House), Err(UnknownOwner::Named(Named::Device("phone".parse().unwrap()))));
    let wanted = Match { macs: vec![device(3)], ..Match::default() };
    assert_eq!(wanted.conjunctions(&mut House), Err(UnknownOwner::Mac(device(3))));
}

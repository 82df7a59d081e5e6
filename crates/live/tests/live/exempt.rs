//! Packets that are exempt from the queue.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::netns::Namespace;
use tidegate_live::nfqueue::QueueSocket;
use tidegate_live::nft::{self, Chain, Expression, Family, Ownership, Rule, Table};
use tidegate_live::rtnl::{Route, Rtnl, sysctl};
use tidegate_live::rules::Spec;
use tidegate_sys::net::set_option;

use crate::queue::{PORT, QUEUE, default_queue, drain, serve, shaped, texts, transport};
use tidegate_testbed::Ended;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair, RIGHT, bring_up, wait_for_carrier};

const GROUP4: Ipv4Addr = Ipv4Addr::new(239, 7, 7, 7);
const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0x7469, 0x7777);

/// Whether this kernel has the expression that bounds the rate of copies.
fn has_limits() -> Result<(), String> {
    let chain = "trial".to_owned();
    let rule = Rule {
        chain: chain.clone(),
        comment: String::new(),
        expressions: vec![Expression::Limit { rate: 1_000, burst: 1_000 }],
    };
    let chains = vec![Chain { name: chain.clone(), hook: None }];
    let table = Table { family: Family::Ipv4, name: chain, chains, rules: vec![rule] };
    let mut socket = Socket::open(Protocol::Netfilter).map_err(|error| error.to_string())?;
    nft::create(&mut socket, &[table], Ownership::Persistent).map_err(|error| error.to_string())?;
    nft::delete(&mut socket, Family::Ipv4, "trial").map_err(|error| error.to_string())
}

pub fn copies_of_multicast_for_this_host_are_not_queued() -> Ended {
    let pair = Pair::new();
    if let Err(why) = pair.left.run(has_limits).unwrap() {
        return Ended::Skipped(format!("this kernel bounds no rate in its rules: {why}"));
    }
    for (group, own) in [(IpAddr::V4(GROUP4), LEFT[0]), (GROUP6.into(), IpAddr::from([0_u8; 16]))] {
        let (mut socket, mut rules) = shaped(&pair, &Spec::new(DEVICE, QUEUE), &default_queue());
        let sockets = || {
            let index = Rtnl::open().unwrap().index(DEVICE).unwrap();
            let any = if group.is_ipv4() { IpAddr::from([0_u8; 4]) } else { IpAddr::from([0_u8; 16]) };
            let receiver = UdpSocket::bind((any, PORT)).unwrap();
            let to = match (group, own) {
                (IpAddr::V4(group), IpAddr::V4(own)) => {
                    receiver.join_multicast_v4(&group, &own).unwrap();
                    SocketAddr::from((group, PORT))
                }
                (IpAddr::V6(group), _) => {
                    receiver.join_multicast_v6(&group, index).unwrap();
                    SocketAddrV6::new(group, PORT, 0, index).into()
                }
                _ => unreachable!("the lists are of the same version"),
            };
            let sender = UdpSocket::bind((own, 0)).unwrap();
            // For IPv4 the route decides, and there is one to the network of this address alone.
            if let SocketAddr::V4(_) = to {
                let route = Route { to: Some((group, 32)), via: None, index: Some(index) };
                Rtnl::open().unwrap().add_route(route).unwrap();
            }
            (sender, receiver, to)
        };
        let (sender, receiver, to) = pair.left.run(sockets).unwrap();
        let mut queued = 0;
        for text in ["first", "second"] {
            sender.send_to(text.as_bytes(), to).unwrap();
        }
        // For IPv4 the copy arrives before the packet is queued, for IPv6 when the packet is released.
        serve(&mut socket, 2, |packet, verdicts| {
            verdicts.accept(QUEUE, packet.id);
            let ours = transport(packet).0 == 17;
            queued += usize::from(ours);
            ours
        });
        drain(&mut socket, |packet, verdicts| {
            queued += usize::from(transport(packet).0 == 17);
            verdicts.accept(QUEUE, packet.id);
        });
        assert_eq!(texts(&receiver, 2), ["first", "second"], "{group}");
        assert_eq!(queued, 2, "each packet once, {group}");
        assert!(rules.counters().unwrap().exempt >= 2, "{:?}", rules.counters());
        // Packets beyond the rate of service discovery are queued, and arrive nevertheless.
        let many = 80;
        for _ in 0..many {
            sender.send_to(&[7; 1_400], to).unwrap();
        }
        let mut queued = 0;
        drain(&mut socket, |packet, verdicts| {
            queued += usize::from(transport(packet).0 == 17);
            verdicts.accept(QUEUE, packet.id);
        });
        assert!(queued > many + many / 4 && queued < many * 2, "{queued} of {many} and their copies, {group}");
        assert_eq!(texts(&receiver, many).len(), many, "{group}");
    }
    Ended::Passed
}

/// The payload of the test's ICMPv6 packets.
const MARKER: &[u8] = b"tidegate-test";
const SOLICITATION: u8 = 135;
const ECHO: u8 = 128;

/// Sends an ICMPv6 packet with that hop limit.
fn send_icmp(kind: u8, hops: i32, length: usize, to: SocketAddrV6) {
    let (family, protocol) = (AddressFamily::INET6, Some(ipproto::ICMPV6));
    let socket = rustix::net::socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol).unwrap();
    for option in [libc::IPV6_UNICAST_HOPS, libc::IPV6_MULTICAST_HOPS] {
        set_option(&socket, libc::IPPROTO_IPV6, option, hops).unwrap();
    }
    let socket = UdpSocket::from(socket);
    let mut packet = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    packet.extend_from_slice(MARKER);
    packet.resize(length.max(packet.len()), 0);
    socket.send_to(&packet, to).unwrap();
}

/// The number of the test's packets that arrive from the queue.
fn queued(socket: &mut QueueSocket) -> usize {
    let mut count = 0;
    drain(socket, |packet, verdicts| {
        count += usize::from(packet.payload.get(48..).is_some_and(|rest| rest.starts_with(MARKER)));
        verdicts.drop(QUEUE, packet.id);
    });
    count
}

fn port0(address: IpAddr) -> SocketAddrV6 {
    match address {
        IpAddr::V6(address) => SocketAddrV6::new(address, 0, 0, 0),
        IpAddr::V4(_) => unreachable!("ICMPv6 goes to IPv6 only"),
    }
}

pub fn only_neighbour_discovery_of_the_link_is_not_queued() -> Ended {
    let pair = Pair::new();
    let left = |kind, hops| pair.left.run(move || send_icmp(kind, hops, 0, port0(RIGHT[1]))).unwrap();
    let (mut socket, mut rules) = shaped(&pair, &Spec::new(DEVICE, QUEUE), &default_queue());
    queued(&mut socket);
    let before = rules.counters().unwrap().exempt;
    left(SOLICITATION, 255);
    assert_eq!(queued(&mut socket), 0, "neighbour discovery");
    assert!(rules.counters().unwrap().exempt > before);
    for (kind, hops) in [(SOLICITATION, 64), (SOLICITATION, 254), (ECHO, 255)] {
        left(kind, hops);
        assert_eq!(queued(&mut socket), 1, "type {kind}, hop limit {hops}");
    }
    drop((socket, rules));

    let limited = pair.left.run(has_limits).unwrap().is_ok();
    let (mut socket, mut rules) = shaped(&pair, &Spec::arriving(DEVICE, QUEUE), &default_queue());
    let index = pair.right.run(|| Rtnl::open().unwrap().index("peer0").unwrap()).unwrap();
    let right = |hops, length, to| pair.right.run(move || send_icmp(SOLICITATION, hops, length, to)).unwrap();
    queued(&mut socket);
    let before = rules.counters().unwrap().exempt;
    right(255, 0, SocketAddrV6::new(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 0, 0, index));
    assert_eq!(queued(&mut socket), 0, "to a group of the link");
    assert!(rules.counters().unwrap().exempt > before);
    right(64, 0, port0(LEFT[1]));
    assert_eq!(queued(&mut socket), 1, "a smaller hop limit");
    // Packets that could be forwarded: what exceeds the bound is shaped.
    let many = 80;
    for _ in 0..many {
        right(255, 1_400, port0(LEFT[1]));
    }
    let shaped = queued(&mut socket);
    if limited {
        assert!((many / 4..many).contains(&shaped), "{shaped} of {many}");
    } else {
        assert_eq!(shaped, many);
    }
    Ended::Passed
}

pub fn forwarded_neighbour_discovery_is_queued() -> Ended {
    let pair = Pair::new();
    let far = Namespace::create().unwrap();
    let (near_own, far_own) = ("fd78::1".parse().unwrap(), "fd78::2".parse().unwrap());
    let unused: [IpAddr; 2] = ["10.78.0.1".parse().unwrap(), "10.78.0.2".parse().unwrap()];
    let inside = || {
        Rtnl::open().unwrap().create_veth_into("out0", "in0", std::os::fd::AsFd::as_fd(&far)).unwrap();
        bring_up("out0", [unused[0], near_own]);
        sysctl::enable_forwarding()
    };
    if let Err(error) = pair.left.run(inside).unwrap() {
        return Ended::Skipped(format!("forwarding cannot be switched on: {error}"));
    }
    far.run(|| bring_up("in0", [unused[1], far_own])).unwrap();
    pair.left.run(|| wait_for_carrier("out0")).unwrap();
    let route = Route { to: None, via: Some(LEFT[1]), index: None };
    pair.right.run(|| Rtnl::open().unwrap().add_route(route).unwrap()).unwrap();
    let (mut socket, _rules) = shaped(&pair, &Spec::new("out0", QUEUE), &default_queue());
    queued(&mut socket);
    pair.right.run(|| send_icmp(SOLICITATION, 255, 0, port0(far_own))).unwrap();
    assert_eq!(queued(&mut socket), 1);
    Ended::Passed
}

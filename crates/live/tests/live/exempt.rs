//! What passes without the queue, and what does not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nft::{self, Chain, Expression, Family, Ownership, Rule, Table};
use tidegate_live::rtnl::{Route, Rtnl};
use tidegate_live::rules::Spec;

use crate::queue::{PORT, QUEUE, default_queue, drain, serve, shaped, texts, transport};
use crate::support::{DEVICE, Ended, LEFT, Pair};

const GROUP4: Ipv4Addr = Ipv4Addr::new(239, 7, 7, 7);
const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0x7469, 0x7777);

/// Whether this kernel has the expression that bounds what passes as a copy.
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
    nft::create(&mut socket, &[table], Ownership::Nobody).map_err(|error| error.to_string())?;
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
        // For IPv4 the copy comes before the packet is queued, for IPv6 when that is let go.
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
        // More than a service says of itself waits in its turn, and comes all the same.
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

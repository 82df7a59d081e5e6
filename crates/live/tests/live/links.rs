//! Links, routes, and what happens to shaping when they change.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::netns::Namespace;
use tidegate_live::nfqueue::{Hook, QueueSettings, QueueSocket};
use tidegate_live::nft;
use tidegate_live::rtnl::{GsoLimits, LinkEvent, LinkMonitor, Route, Rtnl, sysctl};
use tidegate_live::rules::{Interface, Rules, RulesError, Spec};
use tidegate_live::shaping::{Options, Shaping};

use crate::queue::{PATIENCE, PORT, QUEUE, default_queue, serve, shaped, texts, transport, udp};
use tidegate_testbed::Ended;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair, RIGHT, bring_up, wait_for_carrier};

fn wait_for(monitor: &mut LinkMonitor, what: &str, matches: impl Fn(&LinkEvent) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        match monitor.event().unwrap() {
            Some(event) if matches(&event) => return,
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    panic!("no event: {what}");
}

pub fn links_are_made_changed_and_watched() -> Ended {
    let here = Namespace::create().unwrap();
    let there = Namespace::create().unwrap();
    assert_ne!(here.id().unwrap(), there.id().unwrap());
    let test = || {
        let mut rtnl = Rtnl::open().unwrap();
        let mut monitor = LinkMonitor::open().unwrap();
        rtnl.create_veth("a", "b").unwrap();
        wait_for(&mut monitor, "b appears", |e| matches!(e, LinkEvent::Changed(l) if l.name == "b"));
        let (a, b) = (rtnl.link("a").unwrap().unwrap(), rtnl.link("b").unwrap().unwrap());
        assert_eq!((a.kind.as_deref(), a.peer, b.peer), (Some("veth"), Some(b.index), Some(a.index)));
        assert!(!a.is_up() && !a.is_loopback() && a.mtu == 1500 && a.address.len() == 6);
        assert_eq!(rtnl.links().unwrap().len(), 3);
        assert!(rtnl.link("c").unwrap().is_none() && rtnl.link_by_index(999).unwrap().is_none());
        let error = rtnl.index("c").unwrap_err();
        assert!(error.to_string().starts_with("look up c: No such device (errno 19): no interface has this name"));

        rtnl.rename(a.index, "wan").unwrap();
        rtnl.set_mtu(a.index, 9000).unwrap();
        let limits = GsoLimits { segments: Some(10), bytes: Some(20_000), ipv4_bytes: Some(15_000) };
        rtnl.set_gso(a.index, limits).unwrap();
        rtnl.up(a.index).unwrap();
        let wan = rtnl.link_by_index(a.index).unwrap().unwrap();
        assert_eq!((wan.name.as_str(), wan.mtu, wan.is_up()), ("wan", 9000, true));
        assert_eq!(wan.gso, limits);
        rtnl.down(a.index).unwrap();
        assert!(!rtnl.link("wan").unwrap().unwrap().is_up());

        assert!(rtnl.create_veth("wan", "x").unwrap_err().to_string().contains("File exists"));
        rtnl.create("dummy0", "dummy").map_or_else(|e| eprintln!("no dummy links here: {e}"), drop);
        rtnl.move_link(b.index, std::os::fd::AsFd::as_fd(&there)).unwrap();
        wait_for(&mut monitor, "b leaves", |e| matches!(e, LinkEvent::Gone { name, .. } if name == "b"));
        assert!(there.run(|| Rtnl::open().unwrap().link("b").unwrap().is_some()).unwrap());
        rtnl.delete_link(a.index).unwrap();
        wait_for(&mut monitor, "wan goes", |e| matches!(e, LinkEvent::Gone { index, .. } if *index == a.index));
        assert!(there.run(|| Rtnl::open().unwrap().link("b").unwrap().is_none()).unwrap());
    };
    here.run(test).unwrap();

    let pair = Pair::new();
    let left = || {
        let mut rtnl = Rtnl::open().unwrap();
        let link = rtnl.link(DEVICE).unwrap().unwrap();
        let addresses = rtnl.addresses().unwrap();
        let ours: Vec<_> = addresses.iter().filter(|a| a.index == link.index && LEFT.contains(&a.address)).collect();
        assert_eq!(ours.len(), 2, "{addresses:?}");
        assert_eq!(rtnl.route_to(RIGHT[1]).unwrap(), Some(link.index));
        let far: IpAddr = Ipv4Addr::new(198, 51, 100, 1).into();
        assert_eq!(rtnl.route_to(far).unwrap(), None);
        rtnl.add_route(Route { to: None, via: Some(RIGHT[0]), index: None }).unwrap();
        assert_eq!(rtnl.route_to(far).unwrap(), Some(link.index));
        rtnl.delete_address(*ours[0]).unwrap();
        assert_eq!(rtnl.route_to(far).unwrap(), None);
    };
    pair.left.run(left).unwrap();
    Ended::Passed
}

/// Sends a packet; returns how many were queued, and how many arrived.
fn send_one(pair: &Pair, socket: &mut QueueSocket) -> (usize, usize) {
    let (sender, receiver) = udp(pair, 0);
    sender.send(b"x").unwrap();
    let count = serve(socket, 1, |packet, verdicts| {
        verdicts.accept(QUEUE, packet.id);
        transport(packet).0 == 17
    });
    (count, texts(&receiver, 1).len())
}

/// Deletes the interface and makes another one of the name.
fn make_again(pair: &Pair, name: &str) {
    let again = || {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.index(name).unwrap();
        rtnl.delete_link(index).unwrap();
        rtnl.create_veth_into(name, "peer0", std::os::fd::AsFd::as_fd(&pair.right)).unwrap();
        assert_ne!(rtnl.index(name).unwrap(), index);
        bring_up(name, LEFT);
    };
    pair.left.run(again).unwrap();
    pair.right.run(|| bring_up("peer0", RIGHT)).unwrap();
    pair.left.run(|| wait_for_carrier(name)).unwrap();
}

pub fn rules_hold_through_a_rename() -> Ended {
    let pair = Pair::new();
    let index = pair.left.run(|| Rtnl::open().unwrap().index(DEVICE).unwrap()).unwrap();
    let is =
        |name: &str, index| Spec { interfaces: vec![Interface { name: name.into(), index }], ..Spec::new("", QUEUE) };
    let spec = is(DEVICE, index);
    let (mut socket, mut rules) = shaped(&pair, &spec, &default_queue());
    pair.left.run(|| Rtnl::open().unwrap().rename(index, "uplink0").unwrap()).unwrap();
    // Before the rules contain the new name.
    assert_eq!(send_one(&pair, &mut socket), (1, 1));
    let follow = |rules: &mut Rules, spec: &Spec| pair.left.run(|| rules.follow(spec).unwrap()).unwrap();
    follow(&mut rules, &is("uplink0", index));
    assert_eq!(rules.verify().unwrap(), []);
    assert_eq!(send_one(&pair, &mut socket), (1, 1));
    // The lock is that of both names.
    for name in [DEVICE, "uplink0"] {
        let second = pair.left.run(|| Rules::install(&Spec::new(name, QUEUE + 1)).unwrap_err()).unwrap();
        assert!(matches!(second, RulesError::Busy { .. }), "{name}: {second}");
    }
    // By the name, and with its index through another rename.
    make_again(&pair, "uplink0");
    assert_eq!(send_one(&pair, &mut socket), (1, 1));
    let index = pair.left.run(|| Rtnl::open().unwrap().index("uplink0").unwrap()).unwrap();
    follow(&mut rules, &is("uplink0", index));
    pair.left.run(|| Rtnl::open().unwrap().rename(index, DEVICE).unwrap()).unwrap();
    assert_eq!(send_one(&pair, &mut socket), (1, 1));
    follow(&mut rules, &is(DEVICE, index));
    assert_eq!(rules.verify().unwrap(), []);
    drop(pair.left.run(|| Rules::install(&Spec::new("uplink0", QUEUE + 1)).unwrap()).unwrap());
    drop(rules);
    let left = pair.left.run(|| nft::tables(&mut Socket::open(Protocol::Netfilter).unwrap()).unwrap()).unwrap();
    assert_eq!(left, []);
    Ended::Passed
}

pub fn rules_survive_an_interface_that_comes_back() -> Ended {
    let pair = Pair::new();
    let (mut socket, mut rules) = shaped(&pair, &Spec::new(DEVICE, QUEUE), &default_queue());
    assert_eq!(send_one(&pair, &mut socket), (1, 1));
    let (sender, _) = udp(&pair, 0);
    sender.send(b"lost with the interface").unwrap();
    make_again(&pair, DEVICE);
    assert_eq!(rules.verify().unwrap(), []);
    // The verdict for a packet that the kernel dropped with its interface is refused and counted, no more.
    serve(&mut socket, 1, |packet, verdicts| {
        verdicts.accept(QUEUE, packet.id);
        transport(packet).0 == 17
    });
    assert_eq!(send_one(&pair, &mut socket), (1, 1));
    assert!(socket.counters().refused_verdicts >= 1);
    Ended::Passed
}

pub fn a_gateway_is_shaped_where_it_forwards() -> Ended {
    // right -- left -- far: left forwards from right to far, shaped on its link to far.
    let pair = Pair::new();
    let far = Namespace::create().unwrap();
    let far_addresses: [IpAddr; 2] =
        [Ipv4Addr::new(10, 78, 0, 2).into(), Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 2).into()];
    let near_addresses: [IpAddr; 2] =
        [Ipv4Addr::new(10, 78, 0, 1).into(), Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 1).into()];
    let inside = || {
        Rtnl::open().unwrap().create_veth_into("out0", "in0", std::os::fd::AsFd::as_fd(&far)).unwrap();
        bring_up("out0", near_addresses);
        sysctl::enable_forwarding()
    };
    if let Err(error) = pair.left.run(inside).unwrap() {
        return Ended::Skipped(format!("forwarding cannot be switched on: {error}"));
    }
    far.run(|| bring_up("in0", far_addresses)).unwrap();
    pair.left.run(|| wait_for_carrier("out0")).unwrap();
    let routes = |namespace: &Namespace, via: [IpAddr; 2]| {
        let add = || {
            let mut rtnl = Rtnl::open().unwrap();
            for via in via {
                rtnl.add_route(Route { to: None, via: Some(via), index: None }).unwrap();
            }
        };
        namespace.run(add).unwrap();
    };
    routes(&pair.right, LEFT);
    routes(&far, near_addresses);
    let install = || {
        let mut socket = QueueSocket::open(1 << 20).unwrap();
        socket.bind(QUEUE, &QueueSettings::default()).unwrap();
        (socket, Rules::install(&Spec::new("out0", QUEUE)).unwrap())
    };
    let (mut socket, _rules) = pair.left.run(install).unwrap();
    let incoming = pair.left.run(|| Rtnl::open().unwrap().index(DEVICE).unwrap()).unwrap();
    for family in [0, 1] {
        let receiver = far.run(|| UdpSocket::bind((far_addresses[family], PORT)).unwrap()).unwrap();
        let sender = pair.right.run(|| UdpSocket::bind((RIGHT[family], 0)).unwrap()).unwrap();
        sender.send_to(b"through", (far_addresses[family], PORT)).unwrap();
        let count = serve(&mut socket, 1, |packet, verdicts| {
            verdicts.accept(QUEUE, packet.id);
            if transport(packet).0 != 17 {
                return false;
            }
            assert_eq!((packet.hook, packet.uid), (Hook::Postrouting, None));
            assert_eq!(packet.indev, incoming);
            true
        });
        assert_eq!((count, texts(&receiver, 1)), (1, vec!["through".to_owned()]), "family {family}");
    }
    Ended::Passed
}

/// Starts to shape the interface; returns the error or the warnings.
fn begin(pair: &Pair, interface: &str) -> Result<Vec<String>, String> {
    let text = "version = 1\n[[class]]\nname = \"all\"\nrate = \"10mbit\"\ndefault = true\n";
    let config = shaper::load(&Source::new("test.toml", text), &mut Diagnostics::new()).expect("a file");
    let options = Options { interfaces: vec![interface.into()], ..Options::default() };
    let started = pair.left.run(|| Shaping::start(&config, &options)).unwrap();
    started.map(|shaping| shaping.warnings().to_vec()).map_err(|error| error.to_string())
}

pub fn an_interface_below_others_is_refused_by_their_name() -> Ended {
    let pair = Pair::new();
    let vlan = || {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.index(DEVICE).unwrap();
        rtnl.create_vlan("tg0.7", index, 7)
    };
    let made = pair.left.run(vlan).unwrap();
    match &made {
        Ok(()) => {
            // It has addresses of its own: untagged packets are shaped.
            let warnings = begin(&pair, DEVICE).unwrap();
            assert!(warnings.len() == 1 && warnings[0].contains("--interface tg0.7"), "{warnings:?}");
            let bare = || {
                let mut rtnl = Rtnl::open().unwrap();
                let index = rtnl.index(DEVICE).unwrap();
                for address in rtnl.addresses().unwrap() {
                    if address.index == index && LEFT.contains(&address.address) {
                        rtnl.delete_address(address).unwrap();
                    }
                }
                bring_up("tg0.7", LEFT);
            };
            pair.left.run(bare).unwrap();
            let error = begin(&pair, DEVICE).unwrap_err();
            assert!(error.contains("tg0.7 (vlan)") && error.contains("--interface tg0.7"), "{error}");
            assert_eq!(begin(&pair, "tg0.7").unwrap(), [""; 0]);
        }
        Err(error) => eprintln!("no VLANs here: {error}"),
    }
    let bridge = || {
        let mut rtnl = Rtnl::open().unwrap();
        rtnl.create("br0", "bridge")?;
        let (port, bridge) = (rtnl.index(DEVICE)?, rtnl.index("br0")?);
        rtnl.set_master(port, bridge)?;
        rtnl.up(bridge)
    };
    match pair.left.run(bridge).unwrap() {
        Ok(()) => {
            let error = begin(&pair, DEVICE).unwrap_err();
            assert!(error.contains("br0 (bridge)") && error.contains("--interface br0"), "{error}");
            assert_eq!(begin(&pair, "br0").unwrap(), [""; 0]);
        }
        Err(error) if made.is_err() => return Ended::Skipped(format!("neither VLANs nor bridges here: {error}")),
        Err(error) => eprintln!("no bridges here: {error}"),
    }
    Ended::Passed
}

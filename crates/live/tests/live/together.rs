//! Several interfaces under one total: what is proven, locked, counted and left to a successor is so for each of them.

use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nft;
use tidegate_live::probe::Version;
use tidegate_live::rtnl::{Address, Rtnl};
use tidegate_live::shaping::{Options, Shaping, StartError, Successor};

use crate::guardian;
use crate::queue::PATIENCE;
use tidegate_testbed::Ended;
use tidegate_testbed::veth::Pair;

const LANS: [&str; 2] = ["lan.5", "lan.6"];

/// Adds LAN number `number` to the left host; what leaves by it goes nowhere.
fn add_lan(rtnl: &mut Rtnl, number: u8) {
    let (name, peer) = (LANS[usize::from(number) - 5], format!("peer.{number}"));
    rtnl.create_veth(name, &peer).unwrap();
    let [peer, index] = [&peer, name].map(|name| rtnl.index(name).unwrap());
    rtnl.up(peer).unwrap();
    rtnl.add_address(Address { index, address: IpAddr::from([10, 9, number, 1]), prefix: 24 }).unwrap();
    rtnl.up(index).unwrap();
}

fn with_lans() -> Pair {
    let pair = Pair::new();
    pair.left
        .run(|| {
            let mut rtnl = Rtnl::open().unwrap();
            add_lan(&mut rtnl, 5);
            add_lan(&mut rtnl, 6);
        })
        .unwrap();
    pair
}

fn config(names: &str) -> shaper::Config {
    let text = format!(
        "version = 1\n[interface]\nname = {names}\n[[class]]\nname = \"all\"\nrate = \"10mbit\"\ndefault = true\n"
    );
    shaper::load(&Source::new("test.toml", &text), &mut Diagnostics::new()).expect("a file")
}

fn start(pair: &Pair, names: &str, options: &Options) -> Result<Shaping, StartError> {
    let config = config(names);
    pair.left.run(|| Shaping::start(&config, options)).unwrap()
}

/// Sends ten datagrams by LAN number `number`, and waits until they are counted there: and only there.
fn sends_by(pair: &Pair, shaping: &Shaping, number: u8) {
    let counted = || [0, 1].map(|at| shaping.interfaces()[at].counts().sent_packets);
    let before = counted();
    let send = || {
        let socket = UdpSocket::bind((IpAddr::from([10, 9, number, 1]), 0)).unwrap();
        // Nobody answers for the address: the packets wait for it behind the queue.
        for _ in 0..10 {
            socket.send_to(&[0; 100], (IpAddr::from([10, 9, number, 2]), 9)).unwrap();
        }
    };
    pair.left.run(send).unwrap();
    let (at, deadline) = (usize::from(number) - 5, Instant::now() + PATIENCE);
    while counted()[at] < before[at] + 10 {
        assert!(Instant::now() < deadline, "{:?} of {:?} by {}", counted(), before, LANS[at]);
        std::thread::sleep(Duration::from_millis(5));
    }
    // The kernel itself sends now and then, but not ten packets.
    let other = 1 - at;
    assert!(counted()[other] < before[other] + 10, "{:?} after {:?} by {}", counted(), before, LANS[at]);
}

fn tables(pair: &Pair) -> Vec<String> {
    let tables = || nft::tables(&mut Socket::open(Protocol::Netfilter).unwrap()).unwrap();
    let mut names: Vec<String> = pair.left.run(tables).unwrap().into_iter().map(|(_, name)| name).collect();
    names.sort();
    names.dedup();
    names
}

pub fn each_of_several_interfaces_is_proven_locked_and_counted() -> Ended {
    let pair = with_lans();
    let before = tables(&pair);
    let both = start(&pair, "[\"lan.5\", \"lan.6\"]", &Options::default()).unwrap();
    for (interface, name) in both.interfaces().iter().zip(LANS) {
        assert_eq!(interface.name(), name);
        assert!(interface.proof().has(Version::V4), "{name}: {:?}", interface.proof());
    }
    sends_by(&pair, &both, 5);
    sends_by(&pair, &both, 6);
    // A second instance on any of them is refused with its name, and so is one where another interface is missing.
    for (names, message) in [
        ("\"lan.6\"", "another tidegate is shaping what leaves by lan.6"),
        ("[\"tg0\", \"lan.5\"]", "another tidegate is shaping what leaves by lan.5"),
        ("[\"tg0\", \"tg9\"]", "no interface is called `tg9` here"),
    ] {
        let error = start(&pair, names, &Options::default()).map(drop).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    pair.left.run(|| both.stop()).unwrap().unwrap();
    assert_eq!(tables(&pair), before, "nothing is left behind");
    Ended::Passed
}

pub fn one_of_several_interfaces_vanishes_and_returns() -> Ended {
    let pair = with_lans();
    let mut both = start(&pair, "[\"lan.5\", \"lan.6\"]", &Options::default()).unwrap();
    let links = |work: fn(&mut Rtnl)| pair.left.run(|| work(&mut Rtnl::open().unwrap())).unwrap();
    links(|rtnl| {
        let index = rtnl.index("lan.6").unwrap();
        rtnl.delete_link(index).unwrap();
    });
    sends_by(&pair, &both, 5);
    assert!(pair.left.run(|| both.inspect()).unwrap().unwrap().is_sound());
    // A start again needs one of them, and waits for the other.
    pair.left.run(|| both.stop()).unwrap().unwrap();
    let config = config("[\"lan.5\", \"lan.6\"]");
    both = pair.left.run(|| Shaping::start_from(&config, &Options::default(), None)).unwrap().unwrap();
    assert_eq!(both.interfaces()[1].index(), None);
    assert!(both.interfaces()[1].proof().awaited.iter().all(|(_, why)| why == "it is not there"));
    links(|rtnl| add_lan(rtnl, 6));
    let deadline = Instant::now() + PATIENCE;
    while both.interfaces()[1].proof().awaited.iter().any(|(version, _)| *version == Version::V4) {
        assert!(Instant::now() < deadline, "{:?}", both.interfaces()[1].proof());
        let proven = pair.left.run(|| both.prove_again()).unwrap().unwrap();
        // IPv6 of the other waits for its address.
        assert!(proven.iter().all(|(name, version)| name == "lan.6" || *version == Version::V6), "{proven:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    sends_by(&pair, &both, 6);
    sends_by(&pair, &both, 5);
    pair.left.run(|| both.stop()).unwrap().unwrap();
    Ended::Passed
}

pub fn other_interfaces_are_taken_over_without_a_rule_left() -> Ended {
    let pair = with_lans();
    let of = |names: &[&str]| Options {
        interfaces: names.iter().map(|&name| name.to_owned()).collect(),
        guardian: Some(guardian::own()),
        ..Options::default()
    };
    let mut shaping = start(&pair, "\"tg0\"", &of(&LANS)).unwrap();
    assert_eq!(shaping.unguarded(), None);
    for names in [&LANS[..], &["lan.6", "lan.5"], &["lan.6"], &["tg0", "lan.6"]] {
        let (config, options) = (config("\"tg0\""), of(names));
        let left = shaping.leave(Successor::Ready);
        assert!(left.is_some());
        shaping = pair.left.run(|| Shaping::start_from(&config, &options, left)).unwrap().unwrap();
        let mut wanted: Vec<String> =
            names.iter().map(|name| format!("tidegate_{}", name.replace('.', ".2e"))).collect();
        wanted.sort();
        assert_eq!(tables(&pair), wanted);
        assert!(pair.left.run(|| shaping.inspect()).unwrap().unwrap().is_sound());
    }
    pair.left.run(|| shaping.stop()).unwrap().unwrap();
    assert!(tables(&pair).is_empty(), "nothing is left behind");
    Ended::Passed
}

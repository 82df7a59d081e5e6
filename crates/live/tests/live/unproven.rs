//! Shaping that cannot be proven at the start is reported as unproven, and is proven later.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use tidegate_config::shaper::Config;
use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nft::{self, Chain, Compare, Expression, Family, MetaKey, Ownership, Rule, Table};
use tidegate_live::probe::Version;
use tidegate_live::rtnl::{Rtnl, sysctl};
use tidegate_live::shaping::{Options, Shaping};

use crate::queue::{PATIENCE, PORT};
use tidegate_testbed::Ended;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair, RIGHT, bring_up, wait_for_carrier};

fn config(direction: &str) -> Config {
    let text = format!(
        "version = 1\ninterface = {{ name = \"{DEVICE}\", direction = \"{direction}\" }}\n\
         [[class]]\nname = \"all\"\nrate = \"10mbit\"\ndefault = true\n"
    );
    shaper::load(&Source::new("test.toml", &text), &mut Diagnostics::new()).expect("a file")
}

fn start(pair: &Pair, direction: &str) -> Shaping {
    let config = config(direction);
    pair.left.run(|| Shaping::start(&config, &Options::default())).unwrap().unwrap()
}

fn awaited(shaping: &Shaping) -> Vec<Version> {
    shaping.interfaces()[0].proof().awaited.iter().map(|(version, _)| *version).collect()
}

/// Tries again until nothing is awaited, and returns what was proven.
fn settle(pair: &Pair, shaping: &mut Shaping) -> Vec<Version> {
    let mut proven = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while !shaping.interfaces()[0].proof().awaited.is_empty() {
        assert!(Instant::now() < deadline, "{:?}", shaping.interfaces()[0].proof());
        let now = pair.left.run(|| shaping.prove_again()).unwrap().unwrap();
        proven.extend(now.into_iter().map(|(_, version)| version));
        std::thread::sleep(Duration::from_millis(10));
    }
    proven.sort();
    proven
}

/// A filter of this host that drops every datagram it sends.
fn drop_datagrams(family: Family) {
    let datagram = vec![Expression::Meta(MetaKey::Transport, 1), Expression::Compare(1, Compare::Equal, vec![17])];
    let rule = Rule {
        chain: "output".into(),
        comment: String::new(),
        expressions: [datagram, vec![Expression::Drop]].concat(),
    };
    let chains = vec![Chain { name: "output".into(), hook: Some((3, 0)) }];
    let table = Table { family, name: "filter".into(), chains, rules: vec![rule] };
    nft::create(&mut Socket::open(Protocol::Netfilter).unwrap(), &[table], Ownership::Persistent).unwrap();
}

pub fn a_filter_that_drops_the_probes_leaves_the_proof_to_traffic() -> Ended {
    for direction in ["egress", "ingress"] {
        let pair = Pair::new();
        pair.left.run(|| [Family::Ipv4, Family::Ipv6].map(drop_datagrams)).unwrap();
        let mut shaping = start(&pair, direction);
        assert!(
            shaping.interfaces()[0].proof().proven.is_empty() && shaping.interfaces()[0].proof().not_carried.is_empty(),
            "{:?}",
            shaping.interfaces()[0].proof()
        );
        assert_eq!(awaited(&shaping), [Version::V4, Version::V6]);
        let why = &shaping.interfaces()[0].proof().awaited[0].1;
        assert!(why.contains("a rule of the packet filter drops"), "{why}");
        // A packet of the traffic is a proof: a connection attempt, and its reply.
        let to: IpAddr = RIGHT[0];
        let _ = pair.left.run(|| std::net::TcpStream::connect((to, PORT)).map(drop)).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let mut proven = Vec::new();
        while awaited(&shaping).contains(&Version::V4) {
            assert!(Instant::now() < deadline, "{:?}", shaping.interfaces()[0].proof());
            proven.extend(pair.left.run(|| shaping.prove_again()).unwrap().unwrap());
        }
        // Without the rule the probe is, unless a host has reported its multicast groups meanwhile, which is traffic as well.
        pair.left
            .run(|| nft::delete(&mut Socket::open(Protocol::Netfilter).unwrap(), Family::Ipv6, "filter").unwrap())
            .unwrap();
        let mut proven: Vec<_> = proven.into_iter().map(|(_, version)| version).collect();
        proven.extend(settle(&pair, &mut shaping));
        proven.sort();
        assert_eq!(proven, [Version::V4, Version::V6]);
        pair.left.run(|| shaping.stop()).unwrap().unwrap();
    }
    Ended::Passed
}

pub fn an_interface_that_comes_up_later_is_proven_then() -> Ended {
    for direction in ["egress", "ingress"] {
        let pair = Pair::new();
        pair.left
            .run(|| {
                let mut rtnl = Rtnl::open().unwrap();
                let index = rtnl.index(DEVICE).unwrap();
                rtnl.down(index).unwrap();
            })
            .unwrap();
        let mut shaping = start(&pair, direction);
        assert_eq!(awaited(&shaping), [Version::V4, Version::V6], "{direction}: {:?}", shaping.interfaces()[0].proof());
        // Still down: trying again changes nothing.
        std::thread::sleep(Duration::from_millis(1_200));
        assert_eq!(pair.left.run(|| shaping.prove_again()).unwrap().unwrap(), []);
        pair.left
            .run(|| {
                let mut rtnl = Rtnl::open().unwrap();
                let index = rtnl.index(DEVICE).unwrap();
                let address = rtnl.addresses().unwrap().into_iter().find(|a| a.address == LEFT[0]);
                if let Some(address) = address {
                    rtnl.delete_address(address).unwrap();
                }
                rtnl.up(index).unwrap();
            })
            .unwrap();
        pair.left.run(|| bring_up(DEVICE, LEFT)).unwrap();
        pair.left.run(|| wait_for_carrier(DEVICE)).unwrap();
        settle(&pair, &mut shaping);
        pair.left.run(|| shaping.stop()).unwrap().unwrap();
    }
    Ended::Passed
}

pub fn a_protocol_that_is_switched_off_is_not_carried() -> Ended {
    let pair = Pair::new();
    pair.left.run(|| sysctl::write(&format!("ipv6/conf/{DEVICE}/disable_ipv6"), "1").unwrap()).unwrap();
    let shaping = start(&pair, "egress");
    let proof = shaping.interfaces()[0].proof();
    assert_eq!(proof.proven, [("all".to_owned(), vec![Version::V4])]);
    assert!(proof.awaited.is_empty(), "{proof:?}");
    let why = format!("net.ipv6.conf.{DEVICE}.disable_ipv6 is 1");
    assert_eq!(proof.not_carried, [(Version::V6, why)]);
    pair.left.run(|| shaping.stop()).unwrap().unwrap();
    Ended::Passed
}

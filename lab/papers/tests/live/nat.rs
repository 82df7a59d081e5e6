//! Hosts behind address translation share equally, by their inner addresses, both ways.

use std::net::IpAddr;
use std::time::Duration;

use tidegate_config::shaper::Direction;
use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nft::{self, Compare, Expression, Family, MetaKey, Ownership, Rule, Table};
use tidegate_live::shaping::{Options, Shaping};
use tidegate_testbed::Chain;

use crate::load::Load;
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

const MEGABITS: u64 = 20;
/// Connections of the two hosts.
const CONNECTIONS: [usize; 2] = [1, 6];
const POSTROUTING: u32 = 4;
const SRCNAT: i32 = 100;

/// The router translates the addresses of what leaves towards the client.
fn masquerade() -> Result<(), String> {
    let mut name = b"tgr1".to_vec();
    name.resize(16, 0);
    let rule = Rule {
        chain: "post".into(),
        comment: String::new(),
        expressions: vec![
            Expression::Meta(MetaKey::OutName, 1),
            Expression::Compare(1, Compare::Equal, name),
            Expression::Unknown("masq".into()),
        ],
    };
    let chains = vec![nft::Chain { name: "post".into(), hook: Some((POSTROUTING, SRCNAT)) }];
    let table = Table { family: Family::Ipv4, name: "nat".into(), chains, rules: vec![rule] };
    let mut socket = Socket::open(Protocol::Netfilter).map_err(|error| error.to_string())?;
    nft::create(&mut socket, &[table], Ownership::Persistent).map_err(|error| error.to_string())
}

fn shape(chain: &Chain, direction: Direction) -> Shaping {
    let text = format!(
        "version = 1\ninterface = {{ direction = \"{}\" }}\n[shaper]\nrate = \"{MEGABITS}mbit\"\nfair-by = \"host\"\n\
         [[class]]\nname = \"all\"\nrate = \"{MEGABITS}mbit\"\ndefault = true\n",
        direction.word()
    );
    let config = shaper::load(&Source::new("nat.toml", &text), &mut Diagnostics::new()).expect("a file");
    let options = Options { interfaces: vec!["tgr1".into()], ..Options::default() };
    chain.router.namespace.run(|| Shaping::start(&config, &options)).expect("a thread").expect("shaping")
}

pub fn hosts_behind_translation_share_by_their_inner_addresses() -> Ended {
    let chain = Chain::create().expect("three hosts");
    if let Err(error) = chain.router.namespace.run(masquerade).expect("a thread") {
        return Ended::Skipped(format!("addresses cannot be translated here: {error}"));
    }
    for direction in [Direction::Egress, Direction::Ingress] {
        match patiently(|| share(&chain, direction)) {
            Ended::Passed => {}
            skipped => return skipped,
        }
    }
    Ended::Passed
}

fn share(chain: &Chain, direction: Direction) -> Result<(), String> {
    let shaping = shape(chain, direction);
    let load = Load::start(chain, direction, "reno", CONNECTIONS);
    // The client sees the router, whichever host it is.
    assert!(load.peers.iter().all(|peer| *peer == IpAddr::V4(chain.router.v4)), "{:?}", load.peers);
    let rates = load.rates(Duration::from_secs(1), Duration::from_secs(3));
    drop(load);
    shaping.stop().expect("an orderly end");
    println!("  {}: {rates:.2?} Mbit/s for {CONNECTIONS:?} connections", direction.word());
    let whole: f64 = rates.iter().sum();
    if !(MEGABITS as f64 * 0.85..MEGABITS as f64).contains(&whole) {
        return Err(format!("{whole} of {MEGABITS} Mbit/s"));
    }
    // By connections, or by outer addresses, it would be 1 to 6.
    let ratio = rates[0] / rates[1];
    if (0.8..1.25).contains(&ratio) { Ok(()) } else { Err(format!("the hosts share {rates:?}")) }
}

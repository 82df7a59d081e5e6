//! Packets that pass the queue by, in either direction: the rules are in place, and nothing is shaped.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::netlink;
use tidegate_live::rtnl::{Address, Rtnl};
use tidegate_live::shaping::{Options, Shaping};
use tidegate_testbed::{Host, Pair, Senders, Sink};

use crate::flows::{udp, until};
use tidegate_testbed::Ended;

const PATIENCE: Duration = Duration::from_secs(30);

pub fn arrivals_that_a_bridge_takes_are_missed() -> Ended {
    let pair = Pair::create().expect("a pair of hosts");
    missed(&pair, &pair.receiver, "ingress")
}

pub fn departures_that_a_bridge_takes_are_missed() -> Ended {
    let pair = Pair::create().expect("a pair of hosts");
    missed(&pair, &pair.sender, "egress")
}

/// Shapes `direction` at `host`, then makes its interface a port of a bridge, which changes the name by which packets
/// come and go, and takes it out again.
fn missed(pair: &Pair, host: &Host, direction: &str) -> Ended {
    let text = format!(
        "version = 1\ninterface = {{ direction = \"{direction}\" }}\n\
         [[class]]\nname = \"all\"\nrate = \"50mbit\"\ndefault = true\n"
    );
    let config = shaper::load(&Source::new("test.toml", &text), &mut Diagnostics::new()).expect("a file");
    let options = Options { interfaces: vec![host.interface.into()], ..Options::default() };
    let mut shaping = host.namespace.run(|| Shaping::start(&config, &options)).expect("a thread").expect("shaping");
    let flows = [udp(0, 8_000, 1_000)];
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    becomes(&mut shaping, host, false);
    if let Err(error) = host.namespace.run(|| bridged(host)).expect("a thread") {
        return Ended::Skipped(format!("no bridge here: {error}"));
    }
    let before = sink.report(0).packets;
    becomes(&mut shaping, host, true);
    until("packets arrive: it is the queue that is passed by, not the host", || sink.report(0).packets > before);
    host.namespace.run(|| unbridged(host)).expect("a thread").expect("taken out again");
    becomes(&mut shaping, host, false);
    senders.stop();
    shaping.stop().expect("an orderly end");
    Ended::Passed
}

/// Waits for a finding that packets pass by the queue, or that they do not.
fn becomes(shaping: &mut Shaping, host: &Host, past: bool) {
    let deadline = Instant::now() + PATIENCE;
    // The first finding may be of the time before.
    let mut in_a_row = 0;
    while in_a_row < 2 {
        let coverage = host.namespace.run(|| shaping.coverage()).expect("a thread").expect("the kernel answers");
        if let [(_, coverage)] = coverage[..] {
            in_a_row = if coverage.is_bypassed() == past { in_a_row + 1 } else { 0 };
        }
        assert!(Instant::now() < deadline, "not found that packets pass by: {past}; the last: {coverage:?}");
        sleep(Duration::from_millis(100));
    }
}

fn address(host: &Host, index: u32) -> Address {
    Address { index, address: host.v4.into(), prefix: 24 }
}

fn bridged(host: &Host) -> Result<(), netlink::Error> {
    let mut rtnl = Rtnl::open()?;
    rtnl.create("tgb", "bridge")?;
    let (bridge, port) = (rtnl.index("tgb")?, rtnl.index(host.interface)?);
    rtnl.set_master(port, bridge)?;
    rtnl.delete_address(address(host, port))?;
    rtnl.add_address(address(host, bridge))?;
    rtnl.up(bridge)
}

fn unbridged(host: &Host) -> Result<(), netlink::Error> {
    let mut rtnl = Rtnl::open()?;
    let (bridge, port) = (rtnl.index("tgb")?, rtnl.index(host.interface)?);
    rtnl.delete_link(bridge)?;
    rtnl.add_address(address(host, port))
}

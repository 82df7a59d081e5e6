//! Several interfaces under one total.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::shaping::{Options, Shaping, StartError};
use tidegate_sim::scenario::Scenario;
use tidegate_testbed::{FlowSpec, Pair, Senders, Sink};
use tidegate_units::{Bytes, Rate};

use crate::flows::{in_order, near, until, wire_rate};
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

const FILE: &str = include_str!("../../../../examples/vlans.toml");
/// The total of the file.
const TOTAL: f64 = 20e6;
/// Bit/s on the wire by VLAN and class.
type Rates = [[f64; 2]; 2];

/// Returns the rates of the simulator for the same file and flows: both VLANs busy, then the first alone.
fn simulated() -> [Rates; 2] {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let source = Source::open(&folder.join("vlans.toml")).expect("the scenario");
    let open = |name: &str| Source::open(&folder.join(name));
    let mut diagnostics = Diagnostics::new();
    let scenario = Scenario::load(&source, Some(&open), &mut diagnostics);
    let outcome = scenario.unwrap_or_else(|| panic!("{}", diagnostics.render(&source))).run(1, |_| ());
    let all: Vec<_> = outcome.reports.iter().filter(|report| report.kind == "status").collect();
    let sent = |at: usize, name: &str| {
        let flows = all[at].result["flows"].as_array().expect("flows");
        let flow = flows.iter().find(|flow| flow["flow"]["name"] == format!("flow {name}"));
        // One that has ended long ago is forgotten.
        flow.map_or(0.0, |flow| flow["sent_bytes"].as_f64().expect("bytes"))
    };
    [[0, 1], [2, 3]].map(|[from, to]| {
        let seconds = all[to].time.since(all[from].time).as_secs_f64();
        [["work", "guests"], ["other-work", "other-guests"]]
            .map(|vlan| vlan.map(|name| (sent(to, name) - sent(from, name)) * 8.0 / seconds))
    })
}

/// Two more links between a pair of hosts, in the place of two VLANs, which not every kernel has.
fn vlans() -> (Pair, [Pair; 2]) {
    let pair = Pair::create().expect("a pair of hosts");
    let link = |number, names| pair.another_link(number, names).expect("a link");
    let vlans = [link(10, ["tg0.10", "tg1.10"]), link(20, ["tg0.20", "tg1.20"])];
    (pair, vlans)
}

fn try_shape(pair: &Pair, text: &str, interfaces: &[&str]) -> Result<Shaping, StartError> {
    let source = Source::new("vlans.toml", text);
    let mut diagnostics = Diagnostics::new();
    let Some(config) = shaper::load(&source, &mut diagnostics) else { panic!("{}", diagnostics.render(&source)) };
    let interfaces = interfaces.iter().map(|&name| name.to_owned()).collect();
    let options = Options { interfaces, ..Options::default() };
    pair.sender.namespace.run(|| Shaping::start(&config, &options)).expect("a thread")
}

/// One flow for each class by port, each of which alone would fill the total.
fn flows() -> [FlowSpec; 2] {
    let flow = |name: &str, port| FlowSpec::udp(name, port, 0, Rate::from_mbit(22), Bytes::new(1_400));
    [flow("work", 5_000), flow("guests", 6_000)]
}

/// Bit/s on the wire by VLAN and class, of flows in the VLANs that are `busy`.
fn measured(shaping: &Shaping, vlans: &[Pair; 2], busy: &[usize]) -> Rates {
    let flows = flows();
    let running: Vec<_> = busy
        .iter()
        .map(|&vlan| {
            let sink = Sink::start(&vlans[vlan].receiver, &flows).expect("a sink");
            let senders = Senders::start(&vlans[vlan].sender, &vlans[vlan].receiver, &flows).expect("senders");
            (vlan, sink, senders)
        })
        .collect();
    sleep(Duration::from_millis(700));
    running.iter().for_each(|(_, sink, _)| sink.restart());
    let began = Instant::now();
    sleep(Duration::from_secs(2));
    running.iter().for_each(|(_, sink, _)| sink.freeze());
    let elapsed = began.elapsed().as_nanos() as u64;
    let mut rates = [[0.0; 2]; 2];
    for (vlan, sink, senders) in running {
        for (class, rate) in rates[vlan].iter_mut().enumerate() {
            let report = sink.report(class);
            in_order(&report);
            *rate = wire_rate(&report, elapsed);
        }
        senders.stop();
    }
    // What waits belongs to flows that have ended, and would arrive among those that follow.
    until("the queues are empty", || {
        shaping.status().expect("the classes").iter().all(|class| class.counts.backlog.packets == 0)
    });
    rates
}

pub fn two_interfaces_share_one_total() -> Ended {
    let expected = simulated();
    println!("  simulated: {expected:.0?}");
    patiently(|| share(&expected))
}

fn share([both_busy, alone]: &[Rates; 2]) -> Result<(), String> {
    let (pair, vlans) = vlans();
    let shaping = try_shape(&pair, FILE, &["tg0.10", "tg0.20"]).unwrap_or_else(|error| panic!("{error}"));
    for interface in shaping.interfaces() {
        let (name, proven) = (interface.name(), &interface.proof().proven);
        assert!(proven.len() == 2, "{name}: {proven:?}");
    }
    // Both are busy: the total is held, each class has its rate over both, and its flows share it.
    let both = measured(&shaping, &vlans, &[0, 1]);
    println!("  both busy: {both:.0?}");
    near(both.iter().flatten().sum(), TOTAL, 0.02)?;
    for class in 0..2 {
        near(both[0][class] + both[1][class], both_busy[0][class] + both_busy[1][class], 0.02)?;
        near(both[0][class], both_busy[0][class], 0.04)?;
    }
    // One is idle: the other has everything.
    for busy in [0, 1] {
        let one = measured(&shaping, &vlans, &[busy])[busy];
        println!("  {} busy: {one:.0?}", vlans[busy].sender.interface);
        near(one.iter().sum(), TOTAL, 0.02)?;
        for class in 0..2 {
            near(one[class], alone[0][class], 0.02)?;
        }
    }
    let counts: Vec<_> = shaping.interfaces().iter().map(|interface| interface.counts()).collect();
    let passed = shaping.stop().expect("an orderly end").passed;
    assert!(counts.iter().all(|counts| counts.sent_packets > 1_000), "{counts:?}");
    let sent: u64 = counts.iter().map(|counts| counts.sent_packets).sum();
    // What waited when it was counted is released at the end.
    assert!(sent <= passed && passed - sent < 2_000, "{sent} of {passed}");
    Ok(())
}

/// One of two interfaces vanishes and returns; the other is shaped all the time.
pub fn one_of_two_vanishes_and_returns() -> Ended {
    patiently(vanish)
}

fn vanish() -> Result<(), String> {
    let (pair, vlans) = vlans();
    let mut shaping = try_shape(&pair, FILE, &["tg0.10", "tg0.20"]).unwrap_or_else(|error| panic!("{error}"));
    let delete = |host: &tidegate_testbed::Host| {
        let delete = || {
            let mut rtnl = tidegate_live::rtnl::Rtnl::open().expect("a socket");
            let index = rtnl.index(host.interface).expect("it is there");
            rtnl.delete_link(index).expect("deleted");
        };
        host.namespace.run(delete).expect("a thread");
    };
    delete(&vlans[1].sender);
    let inspection = pair.sender.namespace.run(|| shaping.inspect()).expect("a thread").expect("an answer");
    assert!(inspection.is_sound(), "{:?}", inspection.differences);
    let one = measured(&shaping, &vlans, &[0])[0];
    println!("  the other is missing: {one:.0?}");
    near(one.iter().sum(), TOTAL, 0.02)?;
    let returned = pair.another_link(20, ["tg0.20", "tg1.20"]).expect("made again");
    // Its packets are counted as its own as soon as its index is known.
    pair.sender.namespace.run(|| shaping.coverage()).expect("a thread").expect("an answer");
    let before = shaping.interfaces()[1].counts().sent_packets;
    let [first, _] = vlans;
    let both = measured(&shaping, &[first, returned], &[0, 1]);
    println!("  it has returned: {both:.0?}");
    near(both.iter().flatten().sum(), TOTAL, 0.02)?;
    assert!(shaping.interfaces()[1].counts().sent_packets > before + 500);
    shaping.stop().expect("an orderly end");
    Ok(())
}

pub fn each_of_two_interfaces_is_locked() -> Ended {
    let (pair, _vlans) = vlans();
    let both = try_shape(&pair, FILE, &["tg0.10", "tg0.20"]).unwrap_or_else(|error| panic!("{error}"));
    // A second instance on the second of them is refused, and names it.
    let refused = |interfaces: &[&str]| match try_shape(&pair, FILE, interfaces) {
        Ok(_) => panic!("two instances shape {interfaces:?}"),
        Err(error) => error.to_string(),
    };
    let error = refused(&["tg0.20"]);
    assert!(error.contains("another tidegate is shaping what leaves by tg0.20"), "{error}");
    // Neither starts where one of several is taken or missing, and nothing is left behind.
    let error = refused(&["tg0", "tg0.10"]);
    assert!(error.contains("by tg0.10"), "{error}");
    let error = refused(&["tg0", "tg9"]);
    assert!(error.contains("no interface is called `tg9`"), "{error}");
    both.stop().expect("an orderly end");
    for interfaces in [["tg0.20"], ["tg0.10"], ["tg0"]] {
        let one = try_shape(&pair, FILE, &interfaces).unwrap_or_else(|error| panic!("{error}"));
        until("it has begun", || one.counts().is_ok());
        one.stop().expect("an orderly end");
    }
    Ended::Passed
}

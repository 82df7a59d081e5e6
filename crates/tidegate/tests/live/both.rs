//! Both directions of an interface by one file, one process and one socket; and by two processes, as before.

use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::at_pair::{command, output, succeeds};
use crate::run::holding_ipv6;
use crate::running::{Printing, Running, Traffic};
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nft;
use tidegate_live::rtnl::Rtnl;
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::veth::{DEVICE, Pair};

const BOTH: &str = "version = 1\n\
    # What leaves.\n\
    [[up.class]]\nname = \"calls\"\nrate = \"2mbit\"\n\
    [[up.class]]\nname = \"rest\"\nrate = \"5mbit\"\ndefault = true\n\
    [[up.rule]]\nclass = \"calls\"\ndscp = \"ef\"\n\
    # What arrives.\n\
    [[down.class]]\nname = \"rest\"\nrate = \"20mbit\"\ndefault = true\n";

pub fn one_file_shapes_both_ways() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let file = scratch.write("both.toml", BOTH);
    let (file, socket) = (file.to_str().unwrap(), scratch.0.join("s"));
    let at = ["--control", socket.to_str().unwrap()];
    let mut running = Running::start(command(&pair, &["run", file, "--interface", DEVICE, at[0], at[1]]));
    running.says("control socket");
    assert!(running.said.contains("shaping tg0 by") && running.said.contains("shaping what arrives by tg0"));
    let call = |words: &[&str]| output(&pair, &[words, &at[..]].concat());
    let works = |words: &[&str]| succeeds(&pair, &[words, &at[..]].concat());

    let status = works(&["status"]);
    assert!(status.contains("up: 7.00 Mbit/s in total") && status.contains("down: 20.0 Mbit/s in total"), "{status}");
    // The file in force is the one for both, with its comments.
    assert_eq!(
        works(&["status", "--file"]).trim_end(),
        BOTH.trim_end()
            .replace("\n# What arrives", "\n\n# What arrives")
            .replace("\n# What leaves", "\n\n# What leaves")
    );
    // Only one direction has calls; both have a rest.
    let said = works(&["set", "class", "calls", "rate", "1mbit"]);
    assert!(said.contains("up: class calls: rate 2.00 Mbit/s -> 1.00 Mbit/s"), "{said}");
    let (code, said) = call(&["set", "class", "rest", "rate", "9mbit"]);
    assert!(code == Some(2) && said.contains("--direction: up or down, or both"), "{said}");
    let said = works(&["set", "class", "rest", "rate", "9mbit", "--direction", "down"]);
    assert!(said.contains("down: class rest: rate 20.0 Mbit/s -> 9.00 Mbit/s"), "{said}");
    assert!(works(&["status", "--file", "--direction", "down"]).contains("9mbit"));
    assert!(works(&["status"]).contains("down: 9.00 Mbit/s in total"));

    // Several sections of both directions by one command, all or none.
    let said =
        works(&["set", "class", "rest", "rate", "3mbit", "class", "rest", "priority", "3", "--direction", "both"]);
    assert!(said.contains("up: class rest: rate 5.00 Mbit/s -> 3.00 Mbit/s"), "{said}");
    assert!(
        said.contains("down: class rest: rate 9.00 Mbit/s -> 3.00 Mbit/s") && said.contains("priority 3"),
        "{said}"
    );
    let (code, said) =
        call(&["set", "class", "rest", "rate", "4mbit", "class", "no", "rate", "1mbit", "--direction", "up"]);
    assert!(code == Some(2) && said.contains("there is no class `no`"), "{said}");
    assert!(!works(&["status", "--file"]).contains("4mbit"));
    // A rule that was added to both is one rule, and is changed as one without a direction.
    works(&["add", "rule", "rest", "port", "5004", "--direction", "both"]);
    works(&["remove", "rule", "2", "--direction", "up"]);
    let said = works(&["set", "rule", "1", "when", "mon-fri 08:00-18:00"]);
    assert!(said.contains("up: ") && said.contains("down: "), "{said}");
    let whole = works(&["status", "--file"]);
    assert!(whole.contains("\n[[rule]]") && whole.matches("when = ").count() == 1, "{whole}");
    // With another number in one direction it is still that rule; a number that means two rules is refused.
    works(&["add", "rule", "rest", "port", "5005", "--direction", "down"]);
    let (code, said) = call(&["set", "rule", "1", "weight", "3"]);
    assert!(code == Some(2) && said.contains("rule 1 is not the same rule in both directions"), "{said}");
    let said = works(&["set", "rule", "2", "weight", "3"]);
    assert!(said.contains("up: ") && said.contains("down: "), "{said}");
    works(&["remove", "rule", "1", "--direction", "down"]);
    works(&["set", "class", "rest", "rate", "9mbit", "--direction", "both"]);

    // The file again, for both at once, on trial, and taken back for both.
    let said = works(&["apply", file, "--confirm", "10min"]);
    assert!(
        said.contains("up: class calls") && said.contains("down: class rest: rate 9.00 Mbit/s -> 20.0 Mbit/s"),
        "{said}"
    );
    works(&["confirm", "--rollback"]);
    let status = works(&["status", "--file"]);
    assert!(status.contains("1mbit") && status.contains("9mbit"), "{status}");
    // A reload reads both from the file; what is not valid changes nothing.
    running.signal(libc::SIGHUP);
    running.says("was reloaded and is in force");
    assert!(works(&["status", "--file"]).contains("20mbit"));
    scratch.write("both.toml", BOTH.replace("[[down.class]]", "[[down.clas]]"));
    running.signal(libc::SIGHUP);
    running.says("was refused, and nothing has changed");
    running.signal(libc::SIGINT);
    let (status, out, said) = running.end();
    assert!(status.success(), "{said}");
    assert!(out.contains("up: calls") && out.contains("down: rest"), "{out}");
    Ended::Passed
}

/// A successor shapes both directions from its start on, and not the second one when the first is proven: that takes long here,
/// because another program holds some of its probes.
pub fn both_ways_are_shaped_before_either_is_proven() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let file = scratch.write("both.toml", BOTH.replace("20mbit", "1mbit"));
    let (file, socket) = (file.to_str().unwrap(), scratch.path("s"));
    // At the other host the traffic of the pair arrives.
    let host = Pair { left: pair.right.try_clone().unwrap(), right: pair.left.try_clone().unwrap() };
    let words = ["run", file, "--interface", "peer0", "--control", &socket, "--hand-over"];
    let mut first = Running::start(command(&host, &words));
    first.says("control socket");
    // 500 bytes each: 4 Mbit/s, of which 250 packets a second are 1 Mbit/s.
    let traffic = Traffic::to(&pair, 5_004, 472, Duration::from_millis(1));
    traffic.until(500);
    let other = holding_ipv6(&host);
    let second = Running::start(command(&host, &words));
    let (status, _, said) = first.end();
    assert!(status.success() && said.contains("is left to a successor"), "{status}: {said}");
    thread::sleep(Duration::from_millis(300));
    let from = SystemTime::now();
    thread::sleep(Duration::from_millis(800));
    let rate = traffic.rate((from, SystemTime::now()));
    let said = second.fails(1);
    assert!(said.contains("NOT in force") && said.contains("no IPv6 packet that we sent"), "{said}");
    assert!(rate < 400.0, "{rate} packets a second arrive while the other direction is proven");
    traffic.stop_now();
    drop(other);
    Ended::Passed
}

pub fn the_preset_is_a_file() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let text = succeeds(&pair, &["check", "--up", "20mbit", "--down", "100mbit"]);
    let file = scratch.write("line.toml", &text);
    let shown = succeeds(&pair, &["check", file.to_str().unwrap()]);
    assert!(shown.contains("what leaves") && shown.contains("what arrives"), "{shown}");
    let mut running = Running::start(command(
        &pair,
        &["run", file.to_str().unwrap(), "--interface", DEVICE, "--control", "off", "--duration", "100ms"],
    ));
    running.says("has ended; nothing is left behind");
    assert!(running.end().0.success());
    // With the MTU of the interface, where it is above that of Ethernet.
    let preset = || succeeds(&pair, &["check", "--up", "20mbit", "--interface", DEVICE]);
    assert!(!preset().contains("mtu"), "{}", preset());
    let large = |rtnl: &mut Rtnl| {
        let index = rtnl.index(DEVICE)?;
        rtnl.set_mtu(index, 9_000)
    };
    pair.left.run(|| large(&mut Rtnl::open().unwrap())).unwrap().unwrap();
    assert!(["mtu = \"9000B\"", "mtu = \"9014B\""].iter().all(|line| preset().contains(line)), "{}", preset());
    // Without an interface the message has the command to copy.
    let (code, said) = output(&pair, &["run", "--up", "20mbit", "--down", "100mbit"]);
    let copy = format!("tidegate run --up 20mbit --down 100mbit --interface {DEVICE}");
    assert!(code == Some(2) && said.contains(&copy), "{said}");
    // Without anything it has one to begin with.
    let (code, said) = output(&pair, &["run"]);
    assert!(code == Some(2) && said.contains(&copy) && said.contains("tidegate setup"), "{said}");
    Ended::Passed
}

/// Both directions of an interface have the same above them, which is reported once.
pub fn what_is_stacked_later_is_reported_while_it_is_there() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let (file, socket) = (scratch.write("both.toml", BOTH), scratch.0.join("s"));
    let at = ["--control", socket.to_str().unwrap()];
    let above = |kind: &str| {
        let make = || {
            let mut rtnl = Rtnl::open().unwrap();
            let below = rtnl.index(DEVICE).unwrap();
            rtnl.create_above("mac0", kind, below)?;
            rtnl.index("mac0")
        };
        pair.left.run(make).unwrap()
    };
    let change = |work: &(dyn Fn(&mut Rtnl) -> tidegate_live::netlink::Result<()> + Sync)| {
        pair.left.run(|| work(&mut Rtnl::open().unwrap())).unwrap().unwrap();
    };
    let mut running =
        Running::start(command(&pair, &["run", file.to_str().unwrap(), "--interface", DEVICE, at[0], at[1]]));
    running.says("control socket");
    let mut events = Printing::start(command(&pair, &["events", at[0], at[1]]));
    let unshaped = || {
        let status: Value = serde_json::from_str(&succeeds(&pair, &["status", "--json", at[0], at[1]])).unwrap();
        [0, 1].map(|n| status["directions"][n]["unshaped"].as_array().map_or(0, Vec::len))
    };
    assert_eq!(unshaped(), [0, 0]);
    let index = match above("macvtap") {
        Ok(index) => index,
        Err(error) => return Ended::Skipped(format!("there are no macvtaps here: {error}")),
    };
    running.says("mac0 (macvtap) stands above tg0 now");
    events.prints("mac0 (macvtap) stands above tg0 now");
    assert_eq!(unshaped(), [1, 1]);
    let shown = succeeds(&pair, &["status", at[0], at[1]]);
    for way in ["up", "down"] {
        let line = format!("{way}: packets of what stands above tg0 are not shaped here: mac0 (macvtap); shape inside");
        assert!(shown.contains(&line), "{shown}");
    }
    change(&|rtnl| rtnl.delete_link(index));
    running.says("mac0 (macvtap) no longer stands above tg0");
    events.prints("mac0 (macvtap) no longer stands above tg0");
    assert_eq!(unshaped(), [0, 0]);
    // As a network of containers does: it is made here, and goes to theirs.
    let index = match above("macvlan") {
        Ok(index) => index,
        Err(error) => return Ended::Skipped(format!("there are no macvlans here: {error}")),
    };
    running.says(
        "mac0 (macvlan) stands above tg0 now, and its packets are not shaped here; shape these by --interface mac0",
    );
    change(&|rtnl| rtnl.move_link(index, pair.right.as_fd()));
    running.says("mac0 (macvlan) has gone to another network namespace: its packets still pass tg0 unshaped");
    let said = running.stops();
    for line in
        ["mac0 (macvtap) stands", "mac0 (macvtap) no longer", "mac0 (macvlan) stands", "mac0 (macvlan) has gone"]
    {
        assert_eq!(said.matches(line).count(), 1, "{said}");
    }
    Ended::Passed
}

pub fn doctor_tries_both_ways_and_leaves_nothing() -> Ended {
    let pair = Pair::new();
    let tables = || {
        let tables = || nft::tables(&mut Socket::open(Protocol::Netfilter).unwrap()).unwrap().len();
        pair.left.run(tables).unwrap()
    };
    let before = tables();
    let said = succeeds(&pair, &["doctor", "--interface", DEVICE, "--try"]);
    for way in ["what leaves: packets came through (IPv4", "what arrives: packets came through (IPv4"] {
        assert!(said.contains(way), "{said}");
    }
    assert!(!said.contains("guardian:"), "{said}");
    assert_eq!(tables(), before);
    // Beside a running shaper it fails, and the shaper stays.
    let mut running =
        Running::start(command(&pair, &["run", "--up", "5mbit", "--interface", DEVICE, "--control", "off"]));
    running.says("is in force");
    let (code, said) = output(&pair, &["doctor", "--interface", DEVICE, "--try"]);
    assert!(code == Some(1) && said.contains("what arrives: packets came through"), "{said}");
    running.signal(libc::SIGINT);
    assert!(running.end().0.success());
    Ended::Passed
}

pub fn it_waits_for_its_interface() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let file = scratch.write("both.toml", BOTH);
    let words = ["run", file.to_str().unwrap(), "--interface", "late0", "--wait", "--control", "off"];
    let mut running = Running::start(command(&pair, &words));
    running.says("waiting for the interface late0");
    rename(&pair, "late0");
    running.says("the interface late0 has appeared");
    running.says("shaping what arrives by late0");
    running.signal(libc::SIGINT);
    assert!(running.end().0.success());
    // One that waits in vain ends in order.
    let mut running = Running::start(command(&pair, &["run", file.to_str().unwrap(), "-i", "never0", "--wait"]));
    running.says("waiting for the interface never0");
    running.stops();
    Ended::Passed
}

pub fn what_is_not_proven_at_the_start_is_proven_when_the_link_comes() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let at = |work: fn(&mut Rtnl, u32)| {
        let run = move || {
            let mut rtnl = Rtnl::open().unwrap();
            let index = rtnl.index(DEVICE).unwrap();
            work(&mut rtnl, index);
        };
        pair.left.run(run).unwrap();
    };
    at(|rtnl, index| {
        for address in rtnl.addresses().unwrap().into_iter().filter(|address| address.index == index) {
            rtnl.delete_address(address).unwrap();
        }
        rtnl.down(index).unwrap();
    });
    let (file, socket) = (scratch.write("both.toml", BOTH), scratch.0.join("s"));
    let control = ["--control", socket.to_str().unwrap()];
    let words = ["run", file.to_str().unwrap(), "--interface", DEVICE];
    let mut running = Running::start(command(&pair, &[&words[..], &control].concat()));
    running.says("control socket");
    assert_eq!(
        running.said.matches("is installed, but no packet has come through it yet:").count(),
        2,
        "{}",
        running.said
    );
    assert!(!running.said.contains("is in force"), "{}", running.said);
    let status = succeeds(&pair, &[&["status"][..], &control].concat());
    assert!(
        status.contains("is installed, but no packet has come through it yet")
            && status.contains("up: not proven yet, IPv4"),
        "{status}"
    );
    pair.left.run(|| tidegate_testbed::veth::bring_up(DEVICE, tidegate_testbed::veth::LEFT)).unwrap();
    for way in [
        "up: the first packet of IPv4",
        "up: the first packet of IPv6",
        "down: the first packet of IPv4",
        "down: the first packet of IPv6",
    ] {
        running.says(&format!("{way} on {DEVICE} came through the queue"));
    }
    // The status may be some milliseconds old.
    let deadline = Instant::now() + crate::running::PATIENCE;
    loop {
        let status = succeeds(&pair, &[&["status"][..], &control].concat());
        if status.contains("is in force") && !status.contains("not proven") {
            break;
        }
        assert!(Instant::now() < deadline, "{status}");
    }
    running.signal(libc::SIGINT);
    assert!(running.end().0.success());
    Ended::Passed
}

fn rename(pair: &Pair, name: &str) {
    let rename = || {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.index(DEVICE).unwrap();
        rtnl.down(index).unwrap();
        rtnl.rename(index, name).unwrap();
        rtnl.up(index).unwrap();
    };
    pair.left.run(rename).unwrap();
}

pub fn two_processes_have_plain_sockets_and_one_status() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    // The sockets are where clients look, beside those of others.
    let name = format!("tb{}", std::process::id());
    rename(&pair, &name);
    let class = "[[class]]\nname = \"all\"\nrate = \"3mbit\"\ndefault = true\n";
    let start = |direction: &str| {
        let text = format!("version = 1\n[interface]\ndirection = \"{direction}\"\n{class}");
        let file = scratch.write(direction, &text);
        let mut running = Running::start(command(&pair, &["run", file.to_str().unwrap(), "--interface", &name]));
        running.says_one_of(&["control socket: ", "no control socket"]);
        running
    };
    let (up, down) = (start("egress"), start("ingress"));
    if up.said.contains("no control socket") {
        return Ended::Skipped("no directory for sockets can be made here".into());
    }
    assert!(up.said.contains(&format!("/{name}.sock")), "{}", up.said);
    assert!(down.said.contains(&format!("/{name}.down.sock")), "{}", down.said);
    let status = succeeds(&pair, &["status", "--interface", &name]);
    assert!(status.contains("up: 3.00 Mbit/s in total") && status.contains("down: 3.00 Mbit/s in total"), "{status}");
    let json: Value =
        serde_json::from_str(&succeeds(&pair, &["status", "--interface", &name, "--json"])).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(2));
    for running in [up, down] {
        running.signal(libc::SIGINT);
        assert!(running.end().0.success());
    }
    Ended::Passed
}

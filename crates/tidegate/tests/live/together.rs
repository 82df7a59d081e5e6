//! Several interfaces under one total, by the command: each is shown, proven, followed, and left to a successor.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::at_pair::{command, output, succeeds};
use crate::running::Running;
use tidegate_live::rtnl::Rtnl;
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::veth::Pair;

const FILE: &str = "version = 1\n[interface]\nname = [\"lan1\", \"lan2\"]\n\
    [[up.class]]\nname = \"work\"\nrate = \"5mbit\"\n\
    [[up.class]]\nname = \"rest\"\nrate = \"15mbit\"\ndefault = true\n\
    [[up.rule]]\nclass = \"work\"\ndestination-port = 5000\n\
    [[down.class]]\nname = \"all\"\nrate = \"50mbit\"\ndefault = true\n";

/// Calls `work` in the namespace of the left host.
fn links(pair: &Pair, work: impl FnOnce(&mut Rtnl) + Send) {
    pair.left.run(|| work(&mut Rtnl::open().unwrap())).unwrap();
}

fn add_lan(rtnl: &mut Rtnl, name: &str) {
    let peer = format!("{name}-peer");
    rtnl.create_veth(name, &peer).unwrap();
    for name in [&peer, name] {
        let index = rtnl.index(name).unwrap();
        rtnl.up(index).unwrap();
    }
}

fn with_lans() -> Pair {
    let pair = Pair::new();
    links(&pair, |rtnl| {
        add_lan(rtnl, "lan1");
        add_lan(rtnl, "lan2");
    });
    pair
}

pub fn each_interface_is_shown_and_followed() -> Ended {
    let (pair, scratch) = (with_lans(), Folder::new("test"));
    let file = scratch.write("lans.toml", FILE);
    let (file, socket) = (file.to_str().unwrap(), scratch.0.join("s"));
    let at = ["--control", socket.to_str().unwrap()];
    let shown = succeeds(&pair, &["check", file]);
    assert!(shown.contains("interfaces lan1 + lan2 under one total, what leaves"), "{shown}");
    let mut running = Running::start(command(&pair, &["run", file, at[0], at[1]]));
    running.says("control socket");
    for said in
        ["shaping lan1 + lan2 by", "shaping what arrives by lan1 + lan2", "lan2: class work: a packet came through"]
    {
        assert!(running.said.contains(said), "no {said:?} in {}", running.said);
    }
    let works = |words: &[&str]| succeeds(&pair, &[words, &at[..]].concat());
    let status = works(&["status"]);
    assert!(status.contains("lan1 + lan2: shaping by") && status.contains("up: 20.0 Mbit/s in total"), "{status}");
    assert!(status.contains("up: of lan1 ") && status.contains("down: of lan2 "), "{status}");
    let status = |words: &[&str]| -> serde_json::Value { serde_json::from_str(&works(words)).expect("JSON") };
    let interfaces = &status(&["status", "--json"])["directions"][0]["interfaces"];
    assert_eq!(interfaces[1]["name"], "lan2");
    assert_eq!(interfaces[1]["present"], true);
    assert!(works(&["top", "--once"]).contains("lan1 "), "the rates of each");
    // The file in force names both; a file for others is refused.
    assert!(works(&["status", "--file"]).contains("name = [\"lan1\", \"lan2\"]"));
    let other = scratch.write("other.toml", FILE.replace("\"lan1\", ", ""));
    let (code, said) = output(&pair, &["apply", other.to_str().unwrap(), at[0], at[1]]);
    assert!(code != Some(0) && said.contains("lan1 + lan2 is being shaped, and the file is for lan2"), "{said}");
    works(&["set", "class", "work", "rate", "4mbit"]);

    // The second vanishes and returns; nothing happens to the first.
    links(&pair, |rtnl| {
        let index = rtnl.index("lan2").unwrap();
        rtnl.delete_link(index).unwrap();
    });
    running.says("lan2 has vanished; the rules wait for it to come back");
    assert_eq!(status(&["status", "--json"])["directions"][0]["interfaces"][1]["present"], false);
    assert!(works(&["status"]).contains("it is not there now"));
    // The first is renamed meanwhile: shaping follows it, and waits for the second.
    links(&pair, |rtnl| {
        let index = rtnl.index("lan1").unwrap();
        rtnl.down(index).unwrap();
        rtnl.rename(index, "port1").unwrap();
        rtnl.up(index).unwrap();
    });
    running.says("lan1 was renamed to port1; shaping follows it");
    running.says_times("shaping port1 + lan2 is in force", 2);
    links(&pair, |rtnl| add_lan(rtnl, "lan2"));
    running.says("lan2 is ");
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let json = status(&["status", "--json"]);
        let interfaces = &json["directions"][0]["interfaces"];
        assert_eq!(interfaces[0]["name"], "port1");
        if interfaces[1]["present"] == true {
            break;
        }
        assert!(Instant::now() < deadline, "{interfaces}");
        sleep(Duration::from_millis(20));
    }
    assert!(!running.said.contains("NOT in force"), "{}", running.said);
    running.signal(libc::SIGINT);
    let (ended, _, said) = running.end();
    assert!(ended.success() && said.contains("shaping port1 + lan2 has ended; nothing is left behind"), "{said}");
    Ended::Passed
}

pub fn a_successor_takes_over_all_of_them() -> Ended {
    let (pair, scratch) = (with_lans(), Folder::new("test"));
    let file = scratch.write("lans.toml", FILE);
    let (file, socket) = (file.to_str().unwrap(), scratch.0.join("s"));
    let start = |interfaces: &str| {
        let words = ["run", file, "--interface", interfaces, "--hand-over", "--control", socket.to_str().unwrap()];
        let mut running = Running::start(command(&pair, &words));
        running.says_one_of(&["control socket: ", "no control socket"]);
        running
    };
    let first = start("lan1,lan2");
    // In another order, so that it finds the guardian by another name than its own first.
    let second = start("lan2,lan1");
    let (ended, _, said) = first.end();
    assert!(ended.success() && said.contains("is left to a successor"), "{said}");
    let status = succeeds(&pair, &["status", "--control", socket.to_str().unwrap()]);
    // Without an address nothing is proven at once.
    let is_in = status.contains("is in force") || status.contains("is installed");
    assert!(status.contains("lan2 + lan1: shaping by") && is_in, "{status}");
    second.signal(libc::SIGINT);
    assert!(second.end().0.success());
    // One that shapes fewer leaves no rule of the others. It is found by the first of them.
    let (third, fourth) = (start("lan1,lan2"), start("lan1"));
    assert!(third.end().0.success());
    let other = ["run", file, "--interface", "lan2", "--control", "off", "--duration", "100ms"];
    succeeds(&pair, &other);
    fourth.signal(libc::SIGINT);
    assert!(fourth.end().0.success());
    Ended::Passed
}

pub fn two_uplinks_in_one_process_have_their_own_rates() -> Ended {
    let (pair, scratch) = (with_lans(), Folder::new("test"));
    let text = |name: &str, rate: &str| {
        format!(
            "version = 1\n[interface]\nname = \"{name}\"\n\
             [[up.class]]\nname = \"all\"\nrate = \"{rate}\"\ndefault = true\n\
             [[down.class]]\nname = \"all\"\nrate = \"50mbit\"\ndefault = true\n"
        )
    };
    let files = [("lan1", "5mbit"), ("lan2", "8mbit")]
        .map(|(name, rate)| scratch.write(&format!("{name}.toml"), text(name, rate)).display().to_string());
    let socket = scratch.0.join("s");
    let at = ["--control", socket.to_str().unwrap()];
    let mut running = Running::start(command(&pair, &["run", &files[0], &files[1], at[0], at[1]]));
    running.says("control socket");
    assert!(running.said.contains(&format!("shaping lan2 by {} is in force", files[1])), "{}", running.said);
    let call = |words: &[&str]| output(&pair, &[words, &at[..]].concat());
    let works = |words: &[&str]| succeeds(&pair, &[words, &at[..]].concat());
    let status = works(&["status"]);
    for line in [
        "lan1.up: 5.00 Mbit/s in total",
        "lan2.up: 8.00 Mbit/s in total",
        "lan2.down: 50.0 Mbit/s in total",
        "lan1 + lan2: ",
    ] {
        assert!(status.contains(line), "no {line} in {status}");
    }
    // Each file is changed, read back and read again for itself.
    works(&["set", "class", "all", "rate", "6mbit", "--direction", "lan2.up"]);
    let status = works(&["status"]);
    assert!(
        status.contains("lan1.up: 5.00 Mbit/s in total") && status.contains("lan2.up: 6.00 Mbit/s in total"),
        "{status}"
    );
    assert!(works(&["status", "--file", "--direction", "lan2"]).contains("6mbit"));
    let (code, said) = call(&["status", "--file"]);
    assert!(code != Some(0) && said.contains("lan1.up, lan1.down, lan2.up, lan2.down"), "{said}");
    let changed = scratch.write("changed.toml", text("lan2", "7mbit"));
    works(&["apply", changed.to_str().unwrap()]);
    let status = works(&["status"]);
    assert!(
        status.contains("lan1.up: 5.00 Mbit/s in total") && status.contains("lan2.up: 7.00 Mbit/s in total"),
        "{status}"
    );
    running.signal(libc::SIGHUP);
    running.says("was reloaded and is in force");
    assert!(works(&["status"]).contains("lan2.up: 8.00 Mbit/s in total"));
    running.signal(libc::SIGINT);
    let (ended, out, said) = running.end();
    assert!(ended.success() && out.contains("lan2.down: all"), "{out}{said}");
    // One file cannot be for what another one shapes, and each names its interface.
    for (words, message) in [
        (vec!["run", &files[0], &files[0]], "both shape egress of lan1"),
        (vec!["run", &files[0], &files[1], "--interface", "lan1"], "each of them names its own"),
    ] {
        let (code, said) = output(&pair, &words);
        assert!(code == Some(2) && said.contains(message), "{said}");
    }
    Ended::Passed
}

pub fn what_cannot_be_is_refused() -> Ended {
    let (pair, scratch) = (with_lans(), Folder::new("test"));
    let file = scratch.write("lans.toml", FILE.replace("\"lan2\"", "\"lan1\""));
    let (code, said) = output(&pair, &["run", file.to_str().unwrap()]);
    assert!(code == Some(2) && said.contains("lans.toml:3:17") && said.contains("`lan1` is named twice"), "{said}");
    let file = scratch.write("lans.toml", FILE.replace("lan2", "lan9"));
    let (code, said) = output(&pair, &["run", file.to_str().unwrap()]);
    assert!(code == Some(2) && said.contains("no interface is called `lan9` here"), "{said}");
    let (code, said) = output(&pair, &["run", "--up", "5mbit", "--interface", "lan1,lan1"]);
    assert!(code == Some(2) && said.contains("`lan1` is named twice"), "{said}");
    Ended::Passed
}

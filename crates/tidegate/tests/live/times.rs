//! Rules that hold at some times only, on a host whose time zone is chosen so that the time changes in a moment.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::at_pair::{command, succeeds};
use crate::running::{Running, Traffic};
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::veth::{DEVICE, Pair};

const FILE: &str = "version = 1\n\
    [[class]]\nname = \"work\"\nrate = \"4mbit\"\n\
    [[class]]\nname = \"rest\"\nrate = \"4mbit\"\ndefault = true\n\
    [[rule]]\nclass = \"work\"\nprotocol = \"udp\"\nwhen = \"08:00-18:00\"\n";

/// A time zone in which it is so many seconds before 8 o'clock now (POSIX, whose offsets point west).
fn zone_before_eight(seconds: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
    let west = (now - (8 * 3_600 - seconds)).rem_euclid(86_400);
    // At most 24 hours; half of the world is nearer by the other way.
    let (sign, west) = if west > 43_200 { ("-", 86_400 - west) } else { ("", west) };
    format!("TST{sign}{:02}:{:02}:{:02}", west / 3_600, west / 60 % 60, west % 60)
}

pub fn a_rule_begins_at_its_hour_and_no_packet_is_lost() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("times"));
    let file = scratch.write("times.toml", FILE);
    let (file, socket) = (file.to_str().unwrap(), scratch.0.join("s"));
    let at = ["--control", socket.to_str().unwrap()];
    // Long enough for a busy machine to start.
    let mut run = command(&pair, &["run", file, "--interface", DEVICE, at[0], at[1]]);
    run.env("TZ", zone_before_eight(15));
    let mut running = Running::start(run);
    running.says("control socket");
    let status = || succeeds(&pair, &["status", at[0], at[1]]);
    let packets = |class: &str| {
        let status: serde_json::Value =
            serde_json::from_str(&succeeds(&pair, &["status", "--json", at[0], at[1]])).expect("JSON");
        let classes = status["directions"][0]["classes"].as_array().expect("classes").clone();
        let class = classes.into_iter().find(|one| one["name"] == class).expect("the class");
        class["enqueued_packets"].as_u64().expect("a count")
    };
    let before = status();
    assert!(before.contains("does not hold now, until"), "{before}");
    let traffic = Traffic::start(&pair, 500, Duration::from_millis(5));
    traffic.until(100);
    assert_eq!(packets("work"), 0, "{}", status());
    running.says("holds now, until");
    // The answer to `status` may be of a moment ago.
    std::thread::sleep(Duration::from_millis(1_500));
    let (rest, work) = (packets("rest"), packets("work"));
    assert!(work > 0 && status().contains("holds now, until"), "{}", status());
    std::thread::sleep(Duration::from_millis(1_500));
    let (rest, work) = (packets("rest") - rest, packets("work") - work);
    // Neighbour discovery and the like stay in the other class.
    assert!(work > 50 && rest < 20, "{rest} and {work}");
    let arrivals = traffic.stop();
    assert_eq!((arrivals.lost(), arrivals.reordered()), (0, 0));
    running.signal(libc::SIGINT);
    let (ended, _, said) = running.end();
    assert!(ended.success(), "{said}");
    Ended::Passed
}

//! Rules that hold at some times only or until a quota is used up, on a host whose time zone is chosen so that the time changes in
//! a moment.

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
    let west = (now() - (8 * 3_600 - seconds)).rem_euclid(86_400);
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
    // The class at another time, by the rules of the running shaper.
    let at_nine = ["explain", "--live", "--source", "192.0.2.7", "--destination", "198.51.100.1", "--protocol", "udp"];
    let explained = |time| succeeds(&pair, &[&at_nine[..], &["--time", time, at[0], at[1]]].concat());
    let morning = explained("2026-11-30 09:00");
    assert!(
        morning.contains("yes when is within its times") && morning.ends_with("class work on mon 09:00\n"),
        "{morning}"
    );
    let evening = explained("2026-11-30 19:00");
    assert!(evening.contains("class rest on mon 19:00: no rule matches"), "{evening}");
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

const QUOTA: &str = "version = 1\n\
    [[class]]\nname = \"fast\"\nrate = \"4mbit\"\n\
    [[class]]\nname = \"rest\"\nrate = \"4mbit\"\ndefault = true\n\
    [[rule]]\nname = \"allowance\"\nclass = \"fast\"\nprotocol = \"udp\"\nquota = \"100kB/day\"\n";

/// Seconds since 1970.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64
}

/// A time zone in which day `day` since 1970 begins in so many seconds.
fn zone_before_midnight(day: i64, seconds: i64) -> String {
    let west = now() + seconds - day * 86_400;
    let (sign, west) = (if west < 0 { "-" } else { "" }, west.abs());
    format!("TST{sign}{:02}:{:02}:{:02}", west / 3_600, west / 60 % 60, west % 60)
}

/// A quota is used up without a lost or overtaken packet, stays so over a crash and a change of the file, and begins anew at midnight.
pub fn a_quota_is_used_up_outlives_a_crash_and_begins_anew() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("quota"));
    let file = scratch.write("quota.toml", QUOTA);
    let (path, socket) = (file.to_str().unwrap(), scratch.0.join("s"));
    let at = ["--control", socket.to_str().unwrap()];
    let folder = scratch.0.join("state");
    let start = |zone: String| {
        let mut run = command(&pair, &["run", path, "--interface", DEVICE, at[0], at[1]]);
        run.arg("--history").arg(&folder).env("TZ", zone);
        let mut running = Running::start(run);
        running.says("control socket");
        running
    };
    let status = || -> serde_json::Value {
        serde_json::from_str(&succeeds(&pair, &["status", "--json", at[0], at[1]])).expect("JSON")
    };
    let used = || status()["directions"][0]["quotas"][0]["used_bytes"].as_u64().expect("a count");
    // Late enough for this test to end on the same day.
    let day = (now() + 1_800) / 86_400;
    let mut running = start(zone_before_midnight(day, 1_800));
    assert_eq!(used(), 0);
    let traffic = Traffic::start(&pair, 500, Duration::from_millis(5));
    running.says("rule 1 (allowance) has used up");
    std::thread::sleep(Duration::from_millis(1_500));
    let (first, table) = (used(), succeeds(&pair, &["status", at[0], at[1]]));
    assert!(table.contains("used up, so that later rules decide; anew on"), "{table}");
    let rules = succeeds(&pair, &["status", "--rules", at[0], at[1]]);
    let row = rules.lines().find(|line| line.contains("allowance")).unwrap_or_else(|| panic!("{rules}"));
    assert!(row.contains("fast") && row.ends_with("off") && !row.contains(" 0 B "), "{rules}");
    let seen = status()["directions"][0]["rules"][0].clone();
    let (packets, bytes) = (seen["packets"].as_u64().expect("a count"), seen["bytes"].as_u64().expect("a count"));
    assert_eq!(bytes, first, "{seen}");
    assert!(packets > 150 && bytes / packets > 500 && seen["in_force"] == false, "{seen}");
    // 106 kB a second, which are seen to within two seconds.
    assert!((100_000..450_000).contains(&first), "{first}");
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(used(), first, "packets of the other class do not count");
    let packet = ["--protocol", "udp", "--source", "192.0.2.1", "--destination", "192.0.2.2"];
    let explained = succeeds(&pair, &[&["explain", "--live", at[0], at[1]], &packet[..]].concat());
    assert!(explained.contains("no  quota is used up") && explained.contains("class rest"), "{explained}");
    let arrivals = traffic.stop();
    assert_eq!((arrivals.lost(), arrivals.reordered()), (0, 0));
    running.stops();

    let mut running = start(zone_before_midnight(day, 1_200));
    assert_eq!(used(), first, "kept over a restart");
    // Another amount, another place in the file; the name stays.
    let more = QUOTA.replace("100kB", "5MB").replace("[[rule]]", "[[rule]]\nclass = \"rest\"\nport = 9\n[[rule]]");
    std::fs::write(&file, more).expect("the file");
    running.signal(libc::SIGHUP);
    running.says("in force");
    let changed = || status()["directions"][0]["quotas"][0]["rule"] == 2;
    let deadline = std::time::Instant::now() + crate::running::PATIENCE;
    while !changed() {
        assert!(std::time::Instant::now() < deadline, "{}", status());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(used(), first, "kept over a change");
    running.signal(libc::SIGKILL);
    let _ = running.end();

    std::fs::write(&file, QUOTA).expect("the file");
    // Long enough for a busy machine to start.
    let mut running = start(zone_before_midnight(day, 20));
    assert_eq!(used(), first, "kept over a crash");
    running.says("rule 1 (allowance) has used 0 B");
    assert_eq!(used(), 0);
    running.stops();
    Ended::Passed
}

/// A rule for both directions: what it has used is told once, by the log and by `status`.
pub fn a_quota_of_both_directions_is_told_once() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("shared"));
    let classes = |way: &str| {
        format!(
            "[[{way}.class]]\nname = \"fast\"\nrate = \"4mbit\"\n\
             [[{way}.class]]\nname = \"rest\"\nrate = \"4mbit\"\ndefault = true\n"
        )
    };
    let rule = "[[rule]]\nname = \"allowance\"\nclass = \"fast\"\nprotocol = \"udp\"\nquota = \"100kB/day\"\n";
    let file = scratch.write("shared.toml", format!("version = 1\n{}{}{rule}", classes("up"), classes("down")));
    let (path, socket) = (file.to_str().unwrap(), scratch.0.join("s"));
    let at = ["--control", socket.to_str().unwrap()];
    let mut run = command(&pair, &["run", path, "--interface", DEVICE, at[0], at[1]]);
    run.arg("--history").arg(scratch.0.join("state"));
    let mut running = Running::start(run);
    running.says("control socket");
    let traffic = Traffic::start(&pair, 500, Duration::from_millis(5));
    running.says("both directions: rule 1 (allowance) has used up");
    std::thread::sleep(Duration::from_millis(2_500));
    let status = succeeds(&pair, &["status", at[0], at[1]]);
    assert_eq!(status.matches("(allowance)").count(), 1, "{status}");
    assert!(status.contains("both directions: rule 1 (allowance)"), "{status}");
    let rules = succeeds(&pair, &["status", "--rules", at[0], at[1]]);
    assert_eq!(rules.matches("allowance").count(), 2, "each direction counts what it matched: {rules}");
    drop(traffic.stop());
    let said = running.stops();
    assert_eq!(said.matches("has used up").count(), 1, "{said}");
    Ended::Passed
}

//! Control of a running shaper by the built command as a user types it: `apply`, `set`, `add`, `remove`, `confirm`,
//! `promise`, `reserve`, `events`, `status` and `top`, over the real socket, with traffic whose arrival is measured.

pub mod stage;
mod users;

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub use users::another_user_may_look_and_not_touch;

use crate::running::Traffic;
use serde_json::Value;
use stage::{Stage, about, finished, meanwhile, refused, whole};
use tidegate_testbed::Ended;
use tidegate_testbed::steady::Measurements;
use tidegate_testbed::terminal::Terminal;
use tidegate_testbed::veth::DEVICE;
use users::{own_uid, the_author_is_found_afterwards};

/// Packets of the tests are 500 bytes with headers, so at 1 Mbit/s 250 of them leave in a second. The bursts bridge
/// 96 ms in which a busy machine gives us no time; the limits hold what the tests queue.
const SHAPER: &str = r#"version = 1

[shaper]
rate = "6mbit"
burst = "12kB"

[[class]]
name = "media"
rate = "1mbit"
burst = "12kB"
limit = "32MB"
flow-limit = "16MB"
borrow = false

[[class]]
name = "rest"
rate = "1mbit"
borrow = false
default = true

[[rule]]
class = "media"
destination-port = "5000-5099"

[control]
minimum = "300kbit"
preference = 1
"#;

pub fn rates_change_while_packets_wait() -> Ended {
    let (stage, mut measured) = (Stage::new(SHAPER), Measurements::new());
    // 1.6 Mbit/s are offered.
    let traffic = stage.traffic(5_004, 400);
    measured.hold(|| about(&traffic, meanwhile(), 1_000.0));
    let finished = stage.run(&["set", "class", "media", "rate", "2mbit"]);
    assert_eq!(
        (finished.code, finished.out.as_str()),
        (Some(0), "class media: rate 1.00 Mbit/s -> 2.00 Mbit/s\n"),
        "{}",
        finished.err
    );
    assert!(finished.err.contains("in force, in place"), "{}", finished.err);
    measured.hold(|| {
        // What is offered, and what waited; more than the old rate in any case.
        let rate = traffic.rate(meanwhile()) * 4.0;
        if (1_150.0..2_200.0).contains(&rate) { Ok(()) } else { Err(format!("{rate} kbit/s")) }
    });
    // Several at once, with a dash of what a person may write.
    let out = stage.does(&["set", "class", "media", "rate", "500kbit", "priority", "0"]);
    assert!(out.contains("class media: rate 2.00 Mbit/s -> 500 kbit/s") && out.contains("priority"), "{out}");
    measured.hold(|| about(&traffic, meanwhile(), 500.0));
    // The file again, edited as its owner would, and what is shown is what a file in force looks like.
    let file = stage.scratch.write("shaper.toml", SHAPER.replacen("rate = \"1mbit\"", "rate = \"4mbit\"", 1));
    let shown = stage.does(&["apply", file.to_str().unwrap(), "--dry-run"]);
    assert_eq!(stage.rate("media"), Some(500_000), "a dry run changes nothing");
    assert_eq!(shown, stage.does(&["apply", file.to_str().unwrap()]));
    assert!(shown.contains("class media: rate 500 kbit/s -> 4.00 Mbit/s"), "{shown}");
    let finished = stage.run(&["apply", file.to_str().unwrap()]);
    assert_eq!((finished.code, finished.out.as_str()), (Some(0), ""));
    let json = stage.does(&["set", "class", "media", "rate", "3mbit", "--dry-run", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["differences"][0]["text"], "class media: rate 4.00 Mbit/s -> 3.00 Mbit/s", "{json}");
    assert_eq!(json["applied"], false);
    assert!(finished.err.contains("nothing changes"), "{}", finished.err);
    assert!(stage.does(&["status", "--file"]).contains("rate = \"4mbit\""));
    whole(&traffic.stop());
    stage.end();
    measured.ended()
}

pub fn classes_and_rules_come_and_go_while_packets_wait() -> Ended {
    let (stage, mut measured) = (Stage::new(SHAPER), Measurements::new());
    let traffic = stage.traffic(5_004, 320);
    measured.hold(|| about(&traffic, meanwhile(), 1_000.0));
    let out = stage.does(&[
        "add",
        "class",
        "backup",
        "rate",
        "500kbit",
        "borrow",
        "false",
        "limit",
        "32MB",
        "flow-limit",
        "16MB",
    ]);
    assert!(out.starts_with("+ class backup"), "{out}");
    // A rule that is added goes before the others, and takes the flow with its queue.
    let finished = stage.run(&["add", "rule", "backup", "destination-port", "5004"]);
    assert_eq!(finished.code, Some(0), "{}", finished.err);
    assert!(finished.out.contains("+ rule class backup, destination-port 5004"), "{}", finished.out);
    assert!(finished.err.contains("the new rule is rule 1, before the others"), "{}", finished.err);
    stage.until("the flow in its new class", |stage| {
        let counts = stage.status();
        let backup = &counts["directions"][0]["classes"][2];
        assert_eq!(backup["name"], "backup", "{counts:#}");
        backup["through_packets"].as_u64().unwrap() > 100
    });
    measured.hold(|| about(&traffic, meanwhile(), 500.0));
    // It is in use, so it cannot go before its rule does.
    stage.refuses(
        2,
        &["remove", "class", "backup"],
        &["rule 1 still uses the class `backup`", "remove it, or set its class, first"],
    );
    for _ in 0..8 {
        let removed = stage.does(&["remove", "rule", "1"]);
        assert!(removed.contains("- rule class backup"), "{removed}");
        stage.does(&["remove", "class", "backup"]);
        stage.does(&["add", "class", "backup", "rate", "500kbit", "limit", "32MB", "flow-limit", "16MB"]);
        stage.does(&["add", "rule", "backup", "destination-port", "5004"]);
    }
    stage.does(&["remove", "rule", "1"]);
    stage.does(&["remove", "class", "backup"]);
    stage.does(&["set", "class", "media", "rate", "4mbit"]);
    whole(&traffic.stop());
    stage.end();
    measured.ended()
}

pub fn a_change_on_trial_goes_back_unless_it_is_confirmed() -> Ended {
    let stage = Stage::new(SHAPER);
    let half = ["set", "class", "media", "rate", "500kbit", "--confirm"];
    let traffic = stage.traffic(5_004, 300);
    let mut events = stage.events(&["--kind", "log"]);
    let finished = stage.run(&[&half[..], &["2s"]].concat());
    assert_eq!(
        (finished.code, finished.out.as_str()),
        (Some(0), "class media: rate 1.00 Mbit/s -> 500 kbit/s\n"),
        "{}",
        finished.err
    );
    assert!(finished.err.contains("it is reverted after 2s unless `tidegate confirm` is run"), "{}", finished.err);
    // That it is in force meanwhile is seen below, of one that lasts for an hour.
    stage.until("the change goes back", |stage| stage.rate("media") == Some(1_000_000));
    events.prints("the change was taken back");
    stage.refuses(1, &["confirm"], &["no change is on trial", "it was confirmed, or its time was over"]);

    stage.does(&[&half[..], &["1h"]].concat());
    assert_eq!(stage.rate("media"), Some(500_000));
    let shown = stage.does(&["status"]);
    assert!(
        shown.contains("a change is on trial for another 3") && shown.contains("`tidegate confirm` keeps it"),
        "{shown}"
    );
    stage.refuses(
        2,
        &["set", "class", "media", "rate", "2mbit"],
        &["a change is on trial for another 3", "confirm --rollback"],
    );
    stage.does(&["confirm", "--rollback"]);
    assert_eq!(stage.rate("media"), Some(1_000_000));
    assert!(stage.status().get("trial_ns").is_none());

    // A busy machine may let the time for that pass: then it is too late, and not a moment before.
    let mut late = 0;
    let trial = Duration::from_secs(3);
    loop {
        let began = Instant::now();
        stage.does(&[&half[..], &["3s"]].concat());
        let finished = stage.run(&["confirm"]);
        if finished.code == Some(0) {
            break;
        }
        assert!(began.elapsed() >= trial && late < 10, "{}{}", finished.out, finished.err);
        late += 1;
    }
    // Longer than the trial would have lasted.
    thread::sleep(trial + Duration::from_millis(500));
    assert_eq!(stage.rate("media"), Some(500_000));
    stage.does(&["set", "class", "media", "rate", "4mbit"]);
    // Changes that were kept are taken back one by one, the confirmed one as well.
    let shown = stage.does(&["undo", "--dry-run"]);
    assert!(shown.contains("class media: rate 4.00 Mbit/s -> 500 kbit/s"), "{shown}");
    the_author_is_found_afterwards(&stage);
    assert_eq!(stage.rate("media"), Some(4_000_000));
    stage.does(&["undo"]);
    assert_eq!(stage.rate("media"), Some(500_000));
    stage.does(&["undo"]);
    assert_eq!(stage.rate("media"), Some(1_000_000));
    stage.refuses(1, &["undo"], &["no change was made since the start", "tidegate apply FILE"]);
    stage.does(&["set", "class", "media", "rate", "4mbit"]);
    whole(&traffic.stop());
    events.prints_times("set class media rate", 5 + late);
    events.signal(libc::SIGTERM);
    let (_, printed) = events.end();
    let times = |text: &str| printed.matches(text).count();
    let counts = (times("was taken back"), times("is confirmed"), times("set class media rate"));
    assert_eq!(counts, (4 + late, 1, 5 + late), "{printed}");
    // Who, by which command, and what.
    let uid = own_uid();
    let audit = |line: &str| {
        line.contains(&format!("(uid {uid}), process "))
            && line.contains("--confirm 2s: in force, on trial: class media: rate 1.00 Mbit/s -> 500 kbit/s")
    };
    assert!(printed.lines().any(audit), "{printed}");
    stage.end();
    Ended::Passed
}

pub fn a_promise_is_kept_refused_listed_and_ends() -> Ended {
    let (stage, mut measured) = (Stage::new(SHAPER), Measurements::new());
    // Both offer 800 kbit/s, and share 1 Mbit/s.
    let (one, other) = (stage.traffic(5_004, 200), stage.traffic(5_005, 200));
    let mut share = |of_one: f64, of_other: f64| {
        measured.hold(|| {
            let time = meanwhile();
            about(&one, time, of_one).and(about(&other, time, of_other))
        });
    };
    share(500.0, 500.0);
    let mut promise = stage.starts(&["promise", "--port", "5004", "--min", "700kbit"]);
    promise.prints("in class media: at least 700 kbit/s a flow; one flow, granted ");
    promise.prints("has 300 kbit/s left to promise");
    promise.prints("promised while this command runs");
    promise.prints(" promised ");
    share(700.0, 300.0);
    stage.refuses(
        1,
        &["promise", "--port", "5005", "--min", "400kbit"],
        &["class `media` has 300kbit left to promise, not 400kbit", "ask for at most 300kbit, or wait", "--wait"],
    );
    // Changes are pushed: more than a megabit is granted only now.
    stage.does(&["set", "class", "media", "rate", "3mbit"]);
    promise.prints_one_of(&["granted 1.", "granted 2"]);
    let listed = stage.does(&["promise"]);
    assert!(listed.contains("at least 700 kbit/s a flow") && listed.lines().count() == 1, "{listed}");
    let listed: Value = serde_json::from_str(&stage.does(&["promise", "--json"])).unwrap();
    assert_eq!((&listed[0]["minimum_bps"], &listed[0]["target"]["port"]), (&700_000.into(), &5_004.into()));
    promise.signal(libc::SIGINT);
    assert_eq!(promise.end().0.code(), Some(0));
    stage.until("the end of the promise", |stage| stage.does(&["promise"]).contains("nothing is promised"));

    // One whose owner dies without a word.
    let mut promise = stage.starts(&["promise", "--port", "5004", "--min", "700kbit"]);
    promise.prints("promised while this command runs");
    promise.signal(libc::SIGKILL);
    promise.end();
    stage.until("the end of the promise", |stage| stage.does(&["promise"]).contains("nothing is promised"));

    // A lease outlives its command.
    let mut events = stage.events(&["--kind", "promise-ended", "--count", "2"]);
    let out = stage.does(&["promise", "--port", "5004", "--min", "100kbit", "--for", "2s"]);
    assert!(out.contains("; for 2 s"), "{out}");
    events.prints("its lease is over");
    let out = stage.does(&["promise", "--port", "5004", "--prefer", "2", "--for", "1h"]);
    let number = out.split_whitespace().nth(1).unwrap();
    assert!(out.contains("preferred by 2 steps"), "{out}");
    stage.does(&["promise", "--release", number]);
    assert!(events.end().0.success(), "after the second it ends");
    assert!(stage.does(&["promise"]).contains("nothing is promised"));

    stage.does(&["set", "class", "media", "rate", "4mbit"]);
    whole(&one.stop());
    whole(&other.stop());
    stage.end();
    measured.ended()
}

pub fn status_events_and_top_show_what_arrives() -> Ended {
    let stage = Stage::new(SHAPER);
    let mut events = stage.events(&["--kind", "flow-started", "--port", "5004", "--count", "1"]);
    let mut json = stage.events(&["--json", "--class", "media,nix", "--count", "1"]);
    json.prints("there is no class `nix` yet, only media, rest; waiting for it");
    // Subscribed by now; the daemon counts.
    stage.until("both subscriptions", |stage| stage.status()["control"]["subscriptions"] == 2);
    let traffic = stage.traffic(5_004, 200);
    events.prints("flow-started media udp 10.77.0.1:");
    assert!(events.printed.contains(" > 10.77.0.2:5004"), "{}", events.printed);
    assert!(events.end().0.success());
    json.prints("\"kind\":\"flow-started\"");
    assert!(json.end().0.success());

    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    let of_ours =
        |line: &str| line.contains("> 10.77.0.2:5004") && line.contains("media") && line.contains(name.trim());
    stage.until("the flow in the table", |stage| stage.does(&["top", "--once"]).lines().any(of_ours));
    stage.until("the flow in JSON", |stage| {
        let seen: Value = serde_json::from_str(&stage.does(&["top", "--once", "--json"])).unwrap();
        let flows = seen["directions"][0]["flows"].as_array().unwrap();
        let mut of_ours = flows.iter().filter(|flow| flow["flow"]["destination_port"] == 5_004);
        of_ours.any(|flow| flow["pid"] == std::process::id())
    });
    let filtered = stage.does(&["top", "--once", "--filter", "no such flow"]);
    assert!(!filtered.contains("10.77.0.2:5004"), "{filtered}");

    let arrivals = traffic.stop();
    assert_eq!((arrivals.lost(), arrivals.reordered()), (0, 0));
    let count = arrivals.sent;
    stage.until("every packet in the counts", |stage| {
        stage.status()["directions"][0]["classes"][0]["through_packets"] == count
    });
    let status = stage.status();
    let media = &status["directions"][0]["classes"][0];
    assert_eq!((&media["name"], &media["through_packets"]), (&"media".into(), &count.into()), "{status:#}");
    assert_eq!(media["through_bytes"], count * 500);
    let shown = stage.does(&["status"]);
    assert!(shown.contains(&format!("{DEVICE}: shaping by ")) && shown.contains("is in force"), "{shown}");
    assert!(shown.contains("up: 6.00 Mbit/s in total"), "{shown}");
    let row = shown.lines().find(|line| line.starts_with("media ")).unwrap_or_else(|| panic!("{shown}"));
    assert!(row.contains("1.00 Mbit/s") && row.contains(&format!(" {count} ")), "{row}");
    assert_eq!(stage.does(&["status", "--file"]), SHAPER);

    // Who listens hears of the end, and is not told that all is well.
    let mut events = stage.events(&[]);
    stage.until("a subscription", |stage| stage.status()["control"]["subscriptions"] == 1);
    stage.end();
    events.prints("this tidegate has ended");
    assert_eq!(events.end().0.code(), Some(1));
    Ended::Passed
}

/// An error names its place and the remedy, and changes nothing.
pub fn a_flow_is_preferred_from_the_screen_and_no_longer() -> Ended {
    const FREE: &str = "nothing is promised";
    let stage = Stage::new(SHAPER);
    let traffic = stage.traffic(5_004, 200);
    let mut command = stage.command(&["top", "--filter", ":5004"]);
    command.env("TERM", "xterm");
    let mut top = Terminal::start(command, Some((120, 30)));
    top.shows(&["> 10.77.0.2:5004", "media"]);
    top.press("\x1b[B");
    top.press("p");
    // What would change is shown, and is not made.
    top.shows(&["prefer udp 10.77.0.1:", "> 10.77.0.2:5004 by one step", "until top ends", "enter makes the change"]);
    assert!(stage.does(&["promise"]).contains(FREE));
    top.press("\x1b");
    top.hides("enter makes the change");
    assert!(stage.does(&["promise"]).contains(FREE), "it was left");
    top.press("p");
    top.shows(&["enter makes the change"]);
    top.press("\r");
    top.shows(&["in force; z takes it back"]);
    let listed: Value = serde_json::from_str(&stage.does(&["promise", "--json"])).unwrap();
    assert_eq!(
        (&listed[0]["target"]["destination_port"], &listed[0]["prefer"]),
        (&5_004.into(), &1.into()),
        "{listed}"
    );
    stage.until("the preference of the flow", |stage| {
        let seen: Value = serde_json::from_str(&stage.does(&["top", "--once", "--json"])).unwrap();
        seen["directions"][0]["flows"].as_array().unwrap().iter().any(|flow| flow["preferred"] == 1)
    });
    top.press("z");
    top.shows(&["taken back"]);
    assert!(stage.does(&["promise"]).contains(FREE));
    // One that is left ends with the screen.
    top.press("p");
    top.shows(&["enter makes the change"]);
    top.press("\r");
    top.shows(&["in force; z takes it back"]);
    top.press("q");
    assert_eq!(top.end().0, Some(0));
    stage.until("the end of the preference", |stage| stage.does(&["promise"]).contains(FREE));
    let arrivals = traffic.stop();
    assert_eq!((arrivals.lost(), arrivals.reordered()), (0, 0));
    stage.end();
    Ended::Passed
}

pub fn what_is_wrong_is_said_and_changes_nothing() -> Ended {
    let stage = Stage::new(SHAPER);
    let wrong = stage.scratch.write("wrong.toml", SHAPER.replace("borrow = false", "borow = false"));
    let wrong = wrong.to_str().unwrap();
    for (code, arguments, texts) in [
        (2, &["set", "class", "nix", "rate", "1mbit"][..], &["there is no class `nix`", "media"][..]),
        (
            2,
            &["set", "class", "media", "rate", "9mbit"],
            &["promised 10mbit", "6mbit", "status --file", "raise the total"],
        ),
        (2, &["set", "class", "media", "rat", "1mbit"], &["unknown key `rat`", "did you mean `rate`"]),
        (2, &["set", "class", "media", "rate", "1"], &["has no unit", "20mbit"]),
        (2, &["set", "class", "media", "rate"], &["in pairs"]),
        (2, &["set", "clas", "media", "rate", "1mbit"], &["cannot read `clas`", "class NAME"]),
        (2, &["set", "shapr", "rate", "7mbit"], &["shapr", "did you mean `shaper`"]),
        (2, &["set", "rule", "7", "class", "rest"], &["there is no rule 7; there is one"]),
        (2, &["set", "class", "media", "rate", "2mbit", "--confirm", "2h"], &["at most an hour"]),
        (2, &["set", "class", "media", "rate", "2mbit", "--confirm", "soon"], &["--confirm", "soon"]),
        (
            1,
            &["set", "class", "media", "rate", "2mbit", "--direction", "down"],
            &["no direction `down`", "there is up"],
        ),
        (2, &["add", "class", "media", "rate", "1mbit"], &["media"]),
        (2, &["add", "class", "fax"], &["in pairs"]),
        (2, &["add", "rule", "fax", "protocol", "udp"], &["there is no class `fax`", "choose from"]),
        (2, &["add", "discipline", "x", "y", "z"], &["class", "rule"]),
        (2, &["remove", "class", "rest"], &["no class is the default"]),
        (2, &["remove", "class", "nix"], &["there is no class `nix`"]),
        (2, &["remove", "rule", "two"], &["by their number", "two"]),
        (2, &["apply", wrong], &["wrong.toml:13:1", "unknown key `borow`", "did you mean `borrow`"]),
        (2, &["apply", "/nonexistent.toml"], &["/nonexistent.toml"]),
        (1, &["confirm"], &["no change is on trial"]),
        (1, &["confirm", "--rollback"], &["no change is on trial"]),
        (2, &["promise", "--min", "1mbit"], &["the flows are not specified", "a port"]),
        (2, &["promise", "--port", "5004"], &["the request asks for nothing", "a minimum"]),
        (2, &["promise", "--port", "5004", "--below", "rest"], &["--below 1mbit:rest", "--min"]),
        (1, &["promise", "--port", "5004", "--min", "10kbit", "--class", "nix"], &["there is no class `nix`", "media"]),
        (1, &["promise", "--port", "5004", "--min", "10kbit", "--below", "nix"], &["there is no class `nix`", "media"]),
        (1, &["promise", "--pid", "4194305", "--min", "10kbit"], &["there is no process 4194305"]),
        (1, &["promise", "--cgroup", "/no/such", "--min", "10kbit"], &["control group `/no/such`", "systemd-cgls"]),
        (2, &["promise", "--source", "nobody", "--min", "10kbit"], &["--source", "192.0.2.1:5004"]),
        (1, &["promise", "--release", "99"], &["there is no promise 99", "lease"]),
        (1, &["reserve", "--rate", "100kbit", "--port", "5004"], &["no reservations here", "kind = \"cbq\""]),
        (2, &["reserve", "--rate", "100kbit"], &["--flow", "--port"]),
        (2, &["reserve", "--rate", "100kbit", "--flow", "udp"], &["--flow udp", "KEY=VALUE"]),
        (2, &["events", "--kind", "started"], &["no events called `started`", "flow-started"]),
        (1, &["events", "--direction", "down"], &["no direction `down`", "there is up"]),
        (2, &["top", "--once", "--every", "1ms"], &["--every must be at least 100ms"]),
        (2, &["top", "--once", "--sort", "name"], &["rate", "queue"]),
        (1, &["status", "--file", "--direction", "down"], &["no direction `down`"]),
    ] {
        stage.refuses(code, arguments, texts);
    }
    assert_eq!(stage.does(&["status", "--file"]), SHAPER);

    // A socket that is none, one of nobody, and none at all.
    let nobody = stage.scratch.0.join("nobody");
    drop(std::os::unix::net::UnixListener::bind(&nobody).unwrap());
    for arguments in [
        &["status"][..],
        &["top", "--once"],
        &["events"],
        &["confirm"],
        &["apply", "shaper.toml"],
        &["set", "class", "media", "rate", "1mbit"],
        &["promise"],
        &["reserve", "--list"],
    ] {
        let file = stage.scratch.0.join("shaper.toml");
        let at = |path: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
            let arguments =
                arguments.iter().map(|one| if *one == "shaper.toml" { file.to_str().unwrap() } else { one });
            command.args(arguments).args(["--control", path]).stdin(Stdio::null());
            finished(command)
        };
        refused(
            at("/nonexistent/socket"),
            1,
            arguments,
            &["cannot reach tidegate at /nonexistent/socket", "is it running?"],
        );
        // `status` says what became of the process.
        let expected: &[&str] = match arguments[0] {
            "status" => &["nothing listens at ", "its process left no words"],
            _ => &["cannot reach tidegate at ", "`tidegate status` shows its last words"],
        };
        refused(at(nobody.to_str().unwrap()), 1, arguments, expected);
        let mut elsewhere = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let arguments: Vec<&str> =
            arguments.iter().map(|one| if *one == "shaper.toml" { file.to_str().unwrap() } else { one }).collect();
        elsewhere.args(&arguments).args(["--interface", "nosuch0"]).stdin(Stdio::null());
        refused(finished(elsewhere), 1, &arguments, &["nosuch0.sock", "tidegate run FILE", "--control"]);
    }
    stage.end();
    Ended::Passed
}

/// 2 Mbit/s, of which 750 kbit/s can be reserved. Packets are 1,000 bytes with headers.
const CBQ: &str = r#"version = 1

[discipline]
kind = "cbq"
link = "2mbit"
class = [
  { name = "rest", rate = "1250kbit", borrow = "from-parent" },
  { name = "reserved", rate = "750kbit" },
]
reservations = { class = "reserved", flows = 4, max-rate = "600kbit" }
"#;

pub fn a_reservation_is_kept_refused_listed_and_ends() -> Ended {
    let (stage, mut measured) = (Stage::new(CBQ), Measurements::new());
    let send = |port, a_second| Traffic::to(&stage.pair, port, 972, Duration::from_secs(1) / a_second);
    // 2.4 Mbit/s that nobody holds back, and 400 kbit/s that shall not suffer.
    let (greedy, own) = (send(6_000, 300), send(5_004, 50));
    greedy.until(20);
    assert_eq!(stage.does(&["reserve", "--list"]), "nothing is reserved\n");
    let reserve = ["reserve", "--rate", "500kbit", "--bucket", "6kB", "--max-packet", "1400B"];
    let mut kept = stage.starts(&[&reserve[..], &["--port", "5004", "--guaranteed", "--name", "studio"]].concat());
    kept.prints("studio: 500 kbit/s for ");
    kept.prints("no packet waits longer than ");
    kept.prints("reserved while this command runs");
    let listed = stage.does(&["reserve", "--list"]);
    assert!(listed.contains("studio: 500 kbit/s") && listed.lines().count() == 1, "{listed}");
    assert!(stage.does(&["status"]).contains("studio"));
    // Under the reservation none is lost, and the rest of the link goes to the others.
    measured.hold(|| {
        let time = meanwhile();
        let numbers: Vec<u64> = own.seen(time).into_iter().map(|(_, number)| number).collect();
        let rest = greedy.rate(time) * 8.0;
        let whole = numbers.windows(2).all(|pair| pair[1] == pair[0] + 1);
        if numbers.len() > 60 && whole && (1_100.0..1_700.0).contains(&rest) {
            Ok(())
        } else {
            Err(format!("of the reserved flow {} arrived, all: {whole}; {rest} kbit/s of the others", numbers.len()))
        }
    });
    // 250 kbit/s are left, and the refusal says so.
    stage.refuses(1, &[&reserve[..], &["--port", "5005"]].concat(), &["250kbit"]);
    stage.refuses(2, &[&reserve[..], &["--flow", "colour=red"]].concat(), &["colour"]);
    stage.refuses(2, &["reserve", "--rate", "100kbit", "--bucket", "1B", "--port", "5005"], &["bucket"]);
    kept.signal(libc::SIGTERM);
    assert_eq!(kept.end().0.code(), Some(0));
    stage.until("the end of the reservation", |stage| stage.does(&["reserve", "--list"]) == "nothing is reserved\n");
    let began = Instant::now();
    let out = stage
        .does(&[&reserve[..], &["--flow", "destination-port=5004", "--flow", "protocol=udp", "--for", "2s"]].concat());
    assert!(out.contains("500 kbit/s"), "{out}");
    let listed = stage.does(&["reserve", "--list"]);
    assert!(listed.contains("500 kbit/s") || began.elapsed() >= Duration::from_secs(2), "{listed}");
    stage.until("the end of the reservation", |stage| stage.does(&["reserve", "--list"]) == "nothing is reserved\n");
    let (greedy, own) = (greedy.stop_lossy(), own.stop_lossy());
    assert_eq!((own.reordered(), greedy.reordered()), (0, 0));
    stage.end();
    measured.ended()
}

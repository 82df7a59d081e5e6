//! Who did it: other users of the control socket, and the authors of changes.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serde_json::Value;
use tidegate_testbed::Ended;

use super::SHAPER;
use super::stage::{Stage, finished, refused};
use crate::running::Printing;

pub(super) fn own_uid() -> u32 {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap())
}

/// Who made the last change, as `undo` and `events --since` have it.
pub(super) fn the_author_is_found_afterwards(stage: &Stage) {
    let shown: Value = serde_json::from_str(&stage.does(&["undo", "--dry-run", "--json"])).unwrap();
    let change = &shown["undone"];
    assert_eq!(change["command"], "set class media rate 4mbit", "{shown}");
    let uid = own_uid();
    assert!(change["uid"] == uid && change["author"].as_str().unwrap().contains(&format!("(uid {uid}), process ")));
    let kept = stage.does(&["events", "--since", "1h"]);
    let is_change = |line: &&str| line.contains(" change ") && line.contains("set class media rate 4mbit: in force: ");
    // Where the namespace of the machine cannot be told from this one, there are changes of an earlier run, too.
    assert!(
        kept.lines().rev().find(is_change).is_some_and(|line| line.contains(&format!("(uid {uid}), process "))),
        "{kept}"
    );
    let late_ones = stage.does(&["events", "--since", "2100-01-01 00:00"]);
    assert_eq!(late_ones, "", "nothing is of the future");
}

/// Another user may look, and steer his own flows within `[control]`; the socket tells who he is.
pub fn another_user_may_look_and_not_touch() -> Ended {
    const NOBODY: u32 = 65_534;
    let maps = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    if !maps.split_whitespace().eq(["0", "0", "4294967295"]) {
        return Ended::Skipped("this user namespace has one user only".into());
    }
    let stage = Stage::new(SHAPER);
    let file = stage.scratch.0.join("shaper.toml");
    let file = file.to_str().unwrap();
    // The socket is no part of a network namespace.
    let command = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(arguments).arg("--control").arg(stage.scratch.0.join("control")).stdin(Stdio::null());
        command.uid(NOBODY).gid(NOBODY);
        command
    };
    for arguments in [&["status"][..], &["top", "--once"], &["promise"], &["reserve", "--list"], &["status", "--file"]]
    {
        let finished = finished(command(arguments));
        assert_eq!(finished.code, Some(0), "{arguments:?}: {}", finished.err);
    }
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let texts = ["not readable for all users", "ask root"];
    refused(finished(command(&["status", "--file"])), 1, &["status", "--file"], &texts);
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
    for (arguments, text) in [
        (&["apply", file][..], "change what is shaped"),
        (&["set", "class", "media", "rate", "2mbit"], "change what is shaped"),
        (&["add", "class", "mine", "rate", "1mbit"], "change what is shaped"),
        (&["remove", "rule", "1"], "change what is shaped"),
        (&["confirm"], "confirm a change"),
        (&["confirm", "--rollback"], "take a change back"),
        (&["undo"], "take a change back"),
    ] {
        let texts = [&format!("user {NOBODY} may not {text}")[..], "ask root"];
        refused(finished(command(arguments)), 1, arguments, &texts);
    }
    for (arguments, texts) in [
        (&["promise", "--port", "5004", "--min", "400kbit"][..], &["300kbit", "[control]"][..]),
        (&["promise", "--port", "5004", "--prefer", "2"], &["1", "[control]"]),
        (&["promise", "--uid", "0", "--min", "10kbit"], &["may not steer flows of user 0", "your own"]),
        (&["promise", "--pid", "1", "--min", "10kbit"], &["may not steer flows of the owner of process 1"]),
    ] {
        refused(finished(command(arguments)), 1, arguments, texts);
    }
    let mut own = Printing::start(command(&["promise", "--port", "5004", "--min", "200kbit"]));
    own.prints("at least 200 kbit/s a flow; no flow of it yet");
    // What is not theirs they may not end; root may.
    let held: Value = serde_json::from_str(&stage.does(&["promise", "--json"])).unwrap();
    assert_eq!(held[0]["uid"], NOBODY);
    let number = held[0]["promise"].to_string();
    stage.does(&["promise", "--port", "5005", "--min", "100kbit", "--for", "1h"]);
    let held: Value = serde_json::from_str(&stage.does(&["promise", "--json"])).unwrap();
    let roots = held.as_array().unwrap().iter().find(|one| one["uid"] == 0).unwrap()["promise"].to_string();
    let arguments = ["promise", "--release", &roots];
    refused(finished(command(&arguments)), 1, &arguments, &[&format!("user {NOBODY}")]);
    stage.does(&["promise", "--release", &number]);
    own.prints("the promise ended");
    assert_eq!(own.end().0.code(), Some(1));
    assert_eq!(stage.does(&["status", "--file"]), SHAPER);
    stage.end();
    Ended::Passed
}

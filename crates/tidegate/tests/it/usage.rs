//! Invalid usage is refused: with the position, a remedy, the exit code, and nothing left behind.

use std::fs;

use crate::command::tidegate;
use tidegate_testbed::files::{Folder, text};

fn refused(args: &[&str], code: i32, parts: &[&str]) {
    let output = tidegate(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{args:?}: `{part}` is not in {said}");
    }
    assert!(output.stdout.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
}

const SHAPER: &[u8] = b"version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\ndefault = true\n";

#[test]
fn a_file_in_another_encoding_is_refused_with_its_line() {
    let folder = Folder::new("encoding");
    // An e with an acute accent in Latin-1, in the third line: 12 + 12 + 4 bytes before it.
    let latin = folder.with("latin.toml", b"version = 1\n# the house\n# a \xe9migr\xe9\n");
    for command in ["check", "script", "simulate", "apply"] {
        refused(
            &[command, &latin],
            2,
            &["latin.toml", "line 3, byte 28 of the file, is not UTF-8", "save it as UTF-8"],
        );
    }
    // As some editors on other systems save text.
    let wide = folder.with("wide.toml", b"\xff\xfev\0e\0r\0s\0i\0o\0n\0");
    refused(&["check", &wide], 2, &["wide.toml", "line 1, byte 0 of the file, is not UTF-8"]);
}

#[test]
fn marks_and_line_ends_of_other_systems_are_read() {
    let folder = Folder::new("ends");
    let text = String::from_utf8_lossy(SHAPER).replace('\n', "\r\n");
    let file = folder.with("other.toml", [b"\xef\xbb\xbf".as_slice(), text.as_bytes()].concat());
    let output = tidegate(&["check", &file]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let wrong = folder.with("wrong.toml", text.replace("8mbit", "8").as_bytes());
    refused(&["check", &wrong], 2, &["wrong.toml:4:8", "rate `8` has no unit"]);
}

#[test]
fn no_events_are_not_waited_for() {
    refused(&["events", "--count", "0"], 2, &["--count", "0 is not in 1.."]);
    refused(&["events", "--since", "yesterday"], 2, &["neither a time ago, as 2h", "\"2026-11-27 07:30\""]);
    let kept = ["events of the kind moved are not kept", "kinds change and event"];
    refused(&["events", "--since", "2h", "--kind", "moved"], 2, &kept);
}

#[test]
fn setup_does_nothing_that_was_not_agreed_to() {
    refused(&["setup", "--up", "1mbit"], 2, &["no terminal for the questions", "--yes", "--dry-run"]);
    refused(&["setup", "--undo", "--up", "1mbit", "--yes"], 2, &["--undo", "--up"]);
    refused(&["setup", "--yes", "--dry-run"], 2, &["--dry-run", "--yes"]);
    let folder = Folder::new("setup");
    let directory = folder.0.to_str().expect("text");
    let setup = |more: &[&str], code, parts: &[&str]| {
        let fixed = ["setup", "--dry-run", "--service", "none", "--directory", directory];
        refused(&[&fixed, more].concat(), code, parts);
    };
    setup(&["--interface", "../lo", "--up", "1mbit"], 2, &["`../lo` is not the name of an interface"]);
    setup(&["--interface", "lo"], 2, &["--up and --down", "--measure"]);
    setup(&["--interface", "lo", "--up", "0mbit"], 2, &["--up 0"]);
    setup(&["--interface", "lo", "--measure", "ftp://example.net/x"], 2, &["names no peer", "https://HOST"]);
    setup(&["--undo"], 1, &["was written by `tidegate setup`"]);
    assert_eq!(fs::read_dir(&folder.0).expect("read").count(), 0);
}

#[test]
fn options_of_run_that_cannot_be_are_refused_before_it_starts() {
    let folder = Folder::new("run");
    let file = folder.with("shaper.toml", SHAPER);
    // An interface that does not exist: commands that get this far fail there, and shape nothing.
    let run = |more: &[&str], parts: &[&str]| {
        refused(&[&["run", &file, "--interface", "nosuch0"], more].concat(), 2, parts);
    };
    run(&[], &["no interface is called `nosuch0` here"]);
    refused(&["run", &file, "--interface", "muchtoolongforaname"], 2, &["`muchtoolongforaname`", "there are: "]);
    let queued = folder.with("queued.toml", [SHAPER, b"queue = { kind = \"wfq\", link = \"1mbit\" }\n"].concat());
    refused(
        &["run", &queued, "--interface", "lo", "--in-kernel"],
        2,
        &["kind = \"wfq\" in class `all`", "--in-kernel"],
    );
    run(&["--quantum", "6ms"], &["--quantum", "cannot keep the rates", "at most"]);
    run(&["--quantum", "5ms"], &["nosuch0"]);
    run(&["--quantum", "5"], &["--quantum", "has no unit"]);
    run(&["--metrics", "9435"], &["--metrics", "127.0.0.1:9435"]);
    run(&["--hook", "/bin/true", "--hook-event", "foo"], &["--hook-event", "no events called `foo`", "promise-ended"]);
    run(&["--hook", "/bin/true", "--control", "off"], &["--hook", "leave out --control off"]);
    for option in ["--report", "--parquet"] {
        run(&[option, "/nowhere/x"], &["cannot write /nowhere/x"]);
    }
    run(&["--table", "/nowhere/x.csv"], &["cannot write /nowhere/x.csv"]);
    // Testing whether a file can be written leaves no file, and does not change an existing one.
    let (fresh, there) = (folder.0.join("fresh.html"), folder.with("there.html", b"of before"));
    run(&["--report", fresh.to_str().expect("text")], &["nosuch0"]);
    run(&["--report", &there], &["nosuch0"]);
    assert!(!fresh.exists());
    assert_eq!(fs::read(&there).expect("there"), b"of before");
}

#[test]
fn results_that_cannot_be_written_are_refused_before_they_are_made() {
    let folder = Folder::new("results");
    // One packet after an hour of real time: a command that returned did not wait for it.
    let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 101, 0, 0, 0];
    for seconds in [0_u32, 3_600] {
        [seconds, 0, 20, 20].iter().for_each(|word| capture.extend(word.to_le_bytes()));
        capture.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    }
    let file = folder.with("c.pcap", &capture);
    let to = ["--report", "/nowhere/x.html"];
    refused(&[&["replay", &file, "--with", "fifo@1mbit", "--real-time"], &to[..]].concat(), 2, &["/nowhere/x.html"]);
    refused(&[&["reproduce", "pacing"], &to[..]].concat(), 2, &["cannot write /nowhere/x.html"]);
    // A file after the option that takes a number is not taken as its value.
    refused(&["replay", "--real-time", &file, "--with", "fifo@1mbit"], 2, &["--real-time", "write the file before"]);
}

#[test]
fn a_path_that_is_too_long_for_a_socket_is_named_with_the_limit() {
    let path = format!("/tmp/{}", "x".repeat(150));
    refused(&["status", "--control", &path], 1, &["cannot reach tidegate at /tmp/xxx", "at most 107 bytes"]);
}

#[test]
fn help_has_no_colours_where_no_terminal_reads_it() {
    for args in [&["help"][..], &["help", "top"], &["help", "run"]] {
        let output = tidegate(args);
        assert!(output.status.success() && output.stdout.len() > 200, "{args:?}");
        assert!(!output.stdout.contains(&0x1b), "{args:?}");
    }
}

#[test]
fn doctor_names_the_rule_with_a_user_who_is_not_there() {
    let folder = Folder::new("doctor");
    let rules = "[[rule]]\nclass = \"all\"\ndscp = \"ef\"\n[[rule]]\nclass = \"all\"\nuid = \"no-such-user\"\n";
    let text = [SHAPER, rules.as_bytes()].concat();
    let owners = |name: &str, text: &[u8]| {
        let output = tidegate(&["doctor", &folder.with(name, text), "--json"]);
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let findings = told["findings"].as_array().expect("a list").clone();
        findings.into_iter().find(|finding| finding["about"] == "owners").expect("owners were looked at")
    };
    let found = owners("wrong.toml", &text);
    assert_eq!(found["severity"], "prevents", "{found}");
    assert!(found["found"].as_str().is_some_and(|found| found.contains("rule 2: no user is called `no-such-user`")));
    let root = String::from_utf8_lossy(&text).replace("no-such-user", "root");
    assert_eq!(owners("right.toml", root.as_bytes())["severity"], "fine");
}

/// A command follows `exec`, but an unknown option is not a command.
#[test]
fn an_unknown_option_of_exec_is_not_taken_for_the_program() {
    refused(&["exec", "--dwon", "2mbit", "--", "true"], 2, &["--dwon", "--down"]);
    refused(&["exec", "--down", "2mbit", "--verbos", "--", "true"], 2, &["--verbos", "--verbose"]);
}

#[test]
fn a_program_does_not_run_without_its_promise_unless_that_is_asked_for() {
    const NOWHERE: [&str; 5] = ["promise", "--control", "/nonexistent/socket", "--min", "1mbit"];
    let folder = Folder::new("promise");
    let mark = folder.path("mark");
    let run = |more: &[&str], code, parts: &[&str]| refused(&[&NOWHERE, more].concat(), code, parts);
    run(&["--", "touch", &mark], 125, &["cannot reach tidegate at /nonexistent", "touch was not run", "--anyway"]);
    run(&["touch", &mark], 2, &["unexpected argument 'touch'"]);
    run(&["--for", "1s", "--", "touch", &mark], 2, &["--for", "COMMAND"]);
    run(&["--anyway"], 2, &["COMMAND"]);
    assert!(!folder.file("mark").exists());
    run(&["--anyway", "--", "/nosuch/program"], 127, &["cannot reach tidegate", "cannot run `/nosuch/program`"]);
    let script = format!("touch {mark}; exit 3");
    run(&["--anyway", "--", "sh", "-c", &script], 3, &["sh runs without a promise until one is given"]);
    assert!(folder.file("mark").exists());
}

/// A name that clears the screen, sets the title of the window, and begins with an escape of one byte (C1).
const HOSTILE: &str = "\x1b[2J\x1b]0;mine\x07\u{9b}31m";

/// Fails if `shown` has its control sequences.
fn is_harmless(words: &[&str], shown: &str) {
    let raw = shown.contains("\x1b[2J") || shown.contains("\x1b]") || shown.contains(['\x07', '\u{9b}']);
    assert!(!raw, "{words:?}: {shown:?}");
}

/// Fails if `output` has them, or has not what stands for them.
fn shows_it(words: &[&str], output: &[u8]) {
    let shown = text(output);
    is_harmless(words, &shown);
    assert!(shown.contains("\\u001b[2J"), "{words:?}: {shown:?}");
}

#[test]
fn names_do_nothing_to_a_terminal() {
    let folder = Folder::new("hostile names");
    let name = serde_json::to_string(HOSTILE).unwrap();
    let class = "[[class]]\nname = \"rest\"\nrate = \"1mbit\"\ndefault = true\n";
    let rule = format!("[[rule]]\nclass = \"rest\"\ncgroup = {name}\n");
    let shaper = format!("version = 1\n[interface]\nname = {name}\n[shaper]\nrate = \"1mbit\"\n{class}{rule}");
    let flow = format!(
        "version = 1\nsentence = \"a flow\"\nduration = \"1s\"\nhosts = [\"a\", \"b\"]\n[[link]]\nfrom = \"a\"\n\
         to = \"b\"\nrate = \"1mbit\"\n[[flow]]\nname = {name}\nfrom = \"a\"\nto = \"b\"\nwatch = true\n\
         workload = {{ kind = \"bulk\" }}\n"
    );
    let both = |words: &[&str]| {
        let output = tidegate(words);
        [output.stdout, output.stderr].concat()
    };
    let path = folder.with("shaper.toml", &shaper);
    shows_it(&["check"], &both(&["check", &path]));
    let path = folder.with("scenario.toml", &flow);
    shows_it(&["simulate"], &both(&["simulate", &path]));
    // Files that are not there, and one with an error, whose name a message quotes.
    let absent = folder.path(HOSTILE);
    for words in [["check", &absent], ["simulate", &absent], ["script", &absent], ["replay", &absent]] {
        shows_it(&words, &both(&words));
    }
    let wrong = folder.with(&format!("{HOSTILE}.toml"), "version = 1\n\u{9b}[shaper]\nrat = \"1mbit\"\n");
    shows_it(&["check", "wrong"], &both(&["check", &wrong]));
    // JSON means what it meant.
    let path = folder.with("shaper.toml", &shaper);
    let whole: serde_json::Value = serde_json::from_slice(&tidegate(&["check", "--json", &path]).stdout).unwrap();
    assert!(whole.to_string().contains("\\u001b[2J"), "{whole}");
}

#[test]
fn colours_of_a_diagnostic_are_the_only_control_sequences() {
    let folder = Folder::new("hostile colours");
    let wrong = folder.with(&format!("{HOSTILE}.toml"), "version = 1\n# \u{9b}31m\n[shaper]\nrat = \"\\u001b[2J\"\n");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["check", &wrong]).env_remove("NO_COLOR");
    let (code, shown) = tidegate_testbed::terminal::Terminal::start(command, None).end();
    assert!(code == Some(2) && shown.contains("\x1b["), "{shown:?}");
    shows_it(&["check"], shown.as_bytes());
}

#[test]
fn an_argument_that_is_refused_does_nothing_to_a_terminal() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg(HOSTILE);
    let (code, shown) = tidegate_testbed::terminal::Terminal::start(command, None).end();
    assert!(code == Some(2) && shown.contains("unrecognized subcommand"), "{shown:?}");
    is_harmless(&[HOSTILE], &shown);
}

#[test]
fn a_foreign_socket_does_nothing_to_a_terminal() {
    use std::io::{BufRead, BufReader, Write};
    let folder = Folder::new("hostile socket");
    let path = folder.path("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let refusal = serde_json::json!({ "id": 1, "error": { "code": "failed", "message": HOSTILE } });
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = BufReader::new(stream.try_clone().unwrap()).read_line(&mut String::new());
            let _ = writeln!(stream, "{refusal}");
        }
    });
    for words in [&["status"][..], &["events"], &["promise"], &["top", "--once"]] {
        let output = tidegate(&[words, &["--control", &path]].concat());
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        shows_it(words, &output.stderr);
    }
}

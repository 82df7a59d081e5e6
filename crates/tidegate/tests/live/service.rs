//! The command as a service: its notifications to a service manager, its privileges under the unit, and the results
//! of `doctor` with real conflicts.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::running::{PATIENCE, Running};
use serde_json::Value;
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nft::{self, Chain, Expression, Family, Ownership, Rule, Table};
use tidegate_live::rtnl::Rtnl;
use tidegate_sys::bpf::{ProgramKind, ProgramSource, load_program};
use tidegate_sys::process::{AtExec, at_exec, signal};
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::veth::{DEVICE, Pair};
use tidegate_units::{Bytes, Rate};

const SHAPER: &str =
    "version = 1\n[interface]\nmtu = \"1400B\"\n[[class]]\nname = \"rest\"\nrate = \"5mbit\"\ndefault = true\n";

fn command(pair: &Pair, arguments: &[&str]) -> Command {
    let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Waits for a message of the service that contains `text`.
fn told(manager: &UnixDatagram, text: &str) {
    let deadline = Instant::now() + PATIENCE;
    let mut heard = Vec::new();
    while Instant::now() < deadline {
        let mut buffer = [0; 1_024];
        if let Ok(length) = manager.recv(&mut buffer) {
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if message.lines().any(|line| line == text) {
                return;
            }
            heard.push(message);
        }
    }
    panic!("{text} was not said, but {heard:?}");
}

/// A service manager that listens, and the command that it runs with these options on a file of its own.
fn managed(pair: &Pair, scratch: &Folder, options: &[&str]) -> (UnixDatagram, Command) {
    let at = scratch.0.join("notify");
    let manager = UnixDatagram::bind(&at).unwrap();
    manager.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let file = scratch.write("shaper.toml", SHAPER);
    let mut run = command(pair, &["run", file.to_str().unwrap(), "--interface", DEVICE]);
    run.args(options).env("NOTIFY_SOCKET", &at);
    (manager, run)
}

/// The output of `tidegate status --json`.
fn status(pair: &Pair, control: &str) -> Value {
    let output = command(pair, &["status", "--json", "--control", control]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The rate of the first class in it.
fn first_rate(status: &Value) -> &Value {
    &status["directions"][0]["classes"][0]["rate_bps"]
}

pub fn a_service_manager_hears_of_it() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let (manager, mut run) = managed(&pair, &scratch, &[]);
    run.env("WATCHDOG_USEC", "400000");
    let running = Running::start(run);
    told(&manager, "READY=1");
    // Twice: it is alive now, and not only before.
    told(&manager, "WATCHDOG=1");
    told(&manager, "WATCHDOG=1");
    running.signal(libc::SIGTERM);
    told(&manager, "STOPPING=1");
    let (status, _, said) = running.end();
    assert!(status.success(), "{said}");
    Ended::Passed
}

pub fn a_fault_is_told_to_the_service_manager() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let (manager, run) = managed(&pair, &scratch, &["--inject", "panic:200ms"]);
    let mut running = Running::start(run);
    told(&manager, "READY=1");
    let traffic = crate::running::Traffic::start(&pair, 500, Duration::from_millis(10));
    told(&manager, "STATUS=not shaping: the discipline panicked: a fault was injected");
    told(&manager, &format!("STATUS=shaping {DEVICE}"));
    running.says("is in force again");
    traffic.stop();
    running.stops();
    Ended::Passed
}

pub fn a_reload_applies_the_file_and_a_wrong_one_changes_nothing() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let control = scratch.0.join("control");
    let control = control.to_str().unwrap();
    let (manager, run) = managed(&pair, &scratch, &["--control", control]);
    let mut running = Running::start(run);
    told(&manager, "READY=1");
    let rate = || first_rate(&status(&pair, control)).clone();
    assert_eq!(rate(), 5_000_000);
    scratch.write("shaper.toml", SHAPER.replace("5mbit", "3mbit"));
    running.signal(libc::SIGHUP);
    told(&manager, "RELOADING=1");
    told(&manager, "READY=1");
    running.says("was reloaded and is in force");
    assert_eq!(rate(), 3_000_000);
    scratch.write("shaper.toml", "version = 1\n[[class]]\n");
    running.signal(libc::SIGHUP);
    running.says("was refused, and nothing has changed");
    assert_eq!(rate(), 3_000_000);
    std::fs::write(scratch.0.join("shaper.toml"), b"version = 1\n# caf\xe9\n").unwrap();
    running.signal(libc::SIGHUP);
    running.says("line 2, byte 17 of the file, is not UTF-8");
    assert_eq!(rate(), 3_000_000);
    running.stops();
    Ended::Passed
}

/// A closed terminal, or the closed pipe of `2>&1 | tee`: shaping and its control continue.
pub fn it_goes_on_when_nobody_reads_what_it_says() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let control = scratch.0.join("control");
    let control = control.to_str().unwrap();
    let (manager, mut run) = managed(&pair, &scratch, &["--control", control]);
    run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = run.spawn().unwrap();
    told(&manager, "READY=1");
    drop(running.stderr.take());
    for rate in ["3mbit", "4mbit"] {
        scratch.write("shaper.toml", SHAPER.replace("5mbit", rate));
        signal(running.id(), libc::SIGHUP).unwrap();
        told(&manager, "RELOADING=1");
        told(&manager, "READY=1");
        let shown = status(&pair, control);
        assert_eq!(shown["in_force"], true);
        let bps = first_rate(&shown).as_u64().unwrap();
        assert_eq!(format!("{}mbit", bps / 1_000_000), rate);
    }
    signal(running.id(), libc::SIGTERM).unwrap();
    assert!(running.wait().unwrap().success());
    Ended::Passed
}

pub fn the_unit_is_valid_and_allows_little() -> Ended {
    // 10.0 is exposed to everything; services without any sandbox have 9.6. The unit explains the cost of
    // CAP_SYS_PTRACE.
    allows_little("tidegate@.service", 30)
}

pub fn the_unit_of_a_promise_is_valid_and_allows_less() -> Ended {
    allows_little("tidegate-promise@.service", 20)
}

/// A unit of the package is valid, and exposed by at most `tenths` of what systemd calls a point.
fn allows_little(name: &str, tenths: u32) -> Ended {
    let scratch = Folder::new("test");
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd").join(name);
    // Neither the command nor the pages are installed here.
    let text = std::fs::read_to_string(unit).unwrap().replace("/usr/bin/tidegate", env!("CARGO_BIN_EXE_tidegate"));
    let text: String =
        text.lines().filter(|line| !line.starts_with("Documentation=")).flat_map(|line| [line, "\n"]).collect();
    let unit = scratch.write(name, &text);
    // The instance that is verified is called `i`, and so is the service that a promise is for.
    scratch.write("i.service", "[Service]\nExecStart=/bin/true\n");
    let analyze = |arguments: &[&str]| Command::new("systemd-analyze").args(arguments).arg(&unit).output();
    let verified = match analyze(&["verify"]) {
        Ok(output) => output,
        Err(error) => return Ended::Skipped(format!("no systemd-analyze: {error}")),
    };
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && !said.contains("Unknown"), "{said}");
    let scored = analyze(&["security", "--offline=true", &format!("--threshold={tenths}")]).unwrap();
    let table = String::from_utf8_lossy(&scored.stdout).into_owned();
    println!("{}", table.lines().last().unwrap_or_default());
    if !scored.status.success() && String::from_utf8_lossy(&scored.stderr).contains("unrecognized option") {
        return Ended::Skipped("systemd-analyze is too old to score a file".into());
    }
    assert!(scored.status.success(), "{table}");
    Ended::Passed
}

/// The output of `doctor`, and its exit code.
fn doctor(pair: &Pair, arguments: &[&str]) -> (Value, Option<i32>) {
    let output = command(pair, &[&["doctor", "--json"], arguments].concat()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    (found, output.status.code())
}

/// Whether there is a result about a subject, of a severity, that contains `text` and a remedy.
fn finds(found: &Value, about: &str, severity: &str, text: &str) {
    let matches = |finding: &&Value| {
        finding["about"] == about
            && finding["severity"] == severity
            && finding["found"].as_str().unwrap().contains(text)
    };
    let one = found["findings"].as_array().unwrap().iter().find(matches);
    let one = one.unwrap_or_else(|| panic!("no {severity} about {about} with {text:?} in {found:#}"));
    assert!(severity == "fine" || !one["mend"].as_str().unwrap().is_empty(), "{one}");
}

pub fn doctor_finds_nothing_where_nothing_is() -> Ended {
    let pair = Pair::new();
    let (found, code) = doctor(&pair, &["--interface", DEVICE]);
    assert_eq!((code, &found["sound"]), (Some(0), &Value::Bool(true)), "{found:#}");
    for about in ["nf_tables", "queue", "interface", "qdisc", "mtu"] {
        finds(&found, about, "fine", "");
    }
    Ended::Passed
}

pub fn doctor_finds_what_is_wrong_with_the_interface() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let at_left = |work: fn(&mut Rtnl, u32)| {
        pair.left
            .run(|| {
                let mut rtnl = Rtnl::open().unwrap();
                let index = rtnl.index(DEVICE).unwrap();
                work(&mut rtnl, index);
            })
            .unwrap();
    };
    let file = scratch.write("shaper.toml", SHAPER);
    let (found, code) = doctor(&pair, &[file.to_str().unwrap(), "--interface", DEVICE]);
    assert_eq!(code, Some(0));
    finds(&found, "mtu", "weakens", "1400");
    at_left(|rtnl, index| {
        rtnl.set_tbf(index, Rate::from_bps(1_000_000), Bytes::new(5_000), Bytes::new(50_000)).unwrap();
    });
    let (found, code) = doctor(&pair, &["--interface", DEVICE]);
    assert_eq!(code, Some(0), "it weakens");
    finds(&found, "qdisc", "weakens", "tbf");
    at_left(|rtnl, index| rtnl.down(index).unwrap());
    let (found, code) = doctor(&pair, &["--interface", DEVICE]);
    assert_eq!(code, Some(1));
    finds(&found, "interface", "prevents", "is down");
    let (found, code) = doctor(&pair, &["--interface", "nosuch0"]);
    assert_eq!(code, Some(1));
    finds(&found, "interface", "prevents", "nosuch0");
    Ended::Passed
}

pub fn doctor_finds_other_rules_and_other_instances() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let table = |rules: Vec<(&str, Expression)>| Table {
        family: Family::Inet,
        name: "others".into(),
        chains: vec![
            Chain { name: "early".into(), hook: Some((4, 0)) },
            Chain { name: "late".into(), hook: Some((4, 300)) },
        ],
        rules: rules
            .into_iter()
            .map(|(chain, expression)| Rule {
                chain: chain.into(),
                comment: "a test".into(),
                expressions: vec![expression],
            })
            .collect(),
    };
    // Without an owner, so that it stays when the socket is closed; by the expression or the target, as the kernel
    // has it.
    let install = |queue: Expression| {
        let rules = table(vec![("early", queue), ("late", Expression::Drop)]);
        pair.left
            .run(|| {
                let mut socket = Socket::open(Protocol::Netfilter).unwrap();
                nft::create(&mut socket, std::slice::from_ref(&rules), Ownership::Persistent)
            })
            .unwrap()
    };
    let installed = install(Expression::Queue { first: 5, count: 1 })
        .or_else(|_| install(Expression::QueueTarget { first: 5, count: 1 }));
    if let Err(error) = installed {
        return Ended::Skipped(format!("no rule to a queue: {error}"));
    }
    let (found, code) = doctor(&pair, &["--interface", DEVICE]);
    assert_eq!(code, Some(0), "{found:#}");
    finds(&found, "rules", "weakens", "inet others early, before ours, hands packets to queue 5");
    finds(&found, "rules", "note", "inet others late, behind ours, drops packets");
    pair.left
        .run(|| nft::delete(&mut Socket::open(Protocol::Netfilter).unwrap(), Family::Inet, "others").unwrap())
        .unwrap();

    let file = scratch.write("shaper.toml", SHAPER);
    let mut running = Running::start(command(&pair, &["run", file.to_str().unwrap(), "--interface", DEVICE]));
    running.says("is in force");
    finds(&doctor(&pair, &["--interface", DEVICE]).0, "instance", "note", "another tidegate");
    running.stops();
    Ended::Passed
}

pub fn doctor_finds_filters_that_take_packets() -> Ended {
    let pair = Pair::new();
    let tc = |words: &str| {
        let output = pair.left.command("tc").unwrap().args(words.split(' ')).output();
        match output {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(format!("tc {words}: {}", String::from_utf8_lossy(&output.stderr).trim())),
            Err(error) => Err(format!("no tc (iproute2): {error}")),
        }
    };
    // The kernel lists the u32 filters of both directions in each, so there is one direction at a time.
    let redirect = "protocol ip u32 match ip dport 9 0xffff action mirred egress redirect dev lo";
    let prepared = tc(&format!("qdisc add dev {DEVICE} clsact"))
        .and_then(|()| tc(&format!("filter add dev {DEVICE} egress {redirect}")));
    if let Err(reason) = prepared {
        return Ended::Skipped(reason);
    }
    let seen = || doctor(&pair, &["--interface", DEVICE]);
    let (found, code) = seen();
    assert_eq!(code, Some(0), "it weakens");
    finds(&found, "tc", "weakens", &format!("sends to lo what leaves by {DEVICE}"));
    // Its remedy works.
    tc(&format!("filter del dev {DEVICE} egress")).unwrap();
    finds(&seen().0, "tc", "fine", "");
    // A copy removes no packet.
    tc(&format!("filter add dev {DEVICE} ingress {}", redirect.replace("redirect", "mirror"))).unwrap();
    finds(&seen().0, "tc", "fine", "");
    tc(&format!("filter add dev {DEVICE} ingress {redirect}")).unwrap();
    finds(&seen().0, "tc", "weakens", &format!("sends to lo what arrives by {DEVICE}"));
    tc(&format!("filter del dev {DEVICE} ingress")).unwrap();
    finds(&seen().0, "tc", "fine", "");
    // Not every kernel has this action.
    if tc(&format!("filter add dev {DEVICE} ingress protocol ip u32 match ip dport 9 0xffff action drop")).is_ok() {
        finds(&seen().0, "tc", "note", &format!("drops some of what arrives by {DEVICE}"));
    }
    Ended::Passed
}

/// The smallest XDP program, which passes everything.
fn xdp_program() -> Result<OwnedFd, String> {
    // r0 = XDP_PASS; exit.
    let code: Vec<u8> =
        [0x0000_0002_0000_00b7_u64, 0x0000_0000_0000_0095].iter().flat_map(|one| one.to_le_bytes()).collect();
    let program = ProgramSource {
        kind: ProgramKind::Xdp,
        name: "pass",
        code: &code,
        licence: c"MIT",
        types: None,
        operation: (0, 0),
    };
    load_program(&program, None).map_err(|error| format!("no program can be loaded: {error}"))
}

pub fn doctor_finds_xdp_programs() -> Ended {
    const XDP: u16 = 43;
    const FD: u16 = 1;
    const FLAGS: u16 = 3;
    const ANY_DRIVER: u32 = 2;
    let pair = Pair::new();
    let program = match xdp_program() {
        Ok(program) => program,
        Err(reason) => return Ended::Skipped(reason),
    };
    let attach = |device: &'static str, fd: i32| {
        let set = move || {
            let index = Rtnl::open().unwrap().index(device).unwrap();
            let mut header = [0; 16];
            header[4..8].copy_from_slice(&index.to_ne_bytes());
            let mut socket = Socket::open(Protocol::Route).unwrap();
            socket.request("attach a program", libc::RTM_SETLINK, 0, |message| {
                message.raw(&header).nest(XDP, |xdp| {
                    xdp.u32(FD, fd as u32).u32(FLAGS, ANY_DRIVER);
                });
            })
        };
        pair.left.run(set).unwrap()
    };
    if let Err(error) = attach("lo", program.as_raw_fd()) {
        return Ended::Skipped(format!("no XDP on this kernel: {error}"));
    }
    let seen = || doctor(&pair, &["--interface", DEVICE]);
    finds(&seen().0, "xdp", "note", &format!("at lo may send packets out by {DEVICE}"));
    attach(DEVICE, program.as_raw_fd()).unwrap();
    let (found, code) = seen();
    assert_eq!(code, Some(0), "it weakens");
    finds(&found, "xdp", "weakens", &format!("sees what arrives by {DEVICE} first"));
    // What the program lets pass is shaped.
    let words = ["run", "--up", "5mbit", "--down", "5mbit", "--interface", DEVICE, "--control", "off"];
    let mut running = Running::start(command(&pair, &words));
    running.says(&format!("shaping {DEVICE} by the preset --up is in force"));
    running.says(&format!("shaping what arrives by {DEVICE}, by the preset --down, is in force"));
    let traffic = crate::running::Traffic::start(&pair, 100, Duration::from_millis(5));
    traffic.until(20);
    assert_eq!(traffic.stop().lost(), 0);
    running.signal(libc::SIGINT);
    assert!(running.end().0.success());
    for device in ["lo", DEVICE] {
        attach(device, -1).unwrap();
    }
    let none = seen().0;
    assert!(!none["findings"].as_array().unwrap().iter().any(|one| one["about"] == "xdp"), "{none:#}");
    Ended::Passed
}

pub fn doctor_says_when_it_may_not() -> Ended {
    let pair = Pair::new();
    let mut powerless = command(&pair, &["doctor", "--json", "--interface", DEVICE]);
    at_exec(&mut powerless, AtExec::WithoutRoot);
    let output = powerless.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    finds(&found, "privileges", "prevents", "");
    Ended::Passed
}

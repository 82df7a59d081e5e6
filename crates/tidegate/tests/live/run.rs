//! `tidegate run` and `tidegate demo` as a shell sees them: the built command in its own namespaces.

use std::fs::{self, File};
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::running::{PATIENCE, Running};
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nfqueue::{QueueSettings, QueueSocket};
use tidegate_live::nft::{self, Base, Chain, Compare, Expression, Family, Field, MetaKey, Ownership, Rule, Table};
use tidegate_live::rtnl::{Address, Rtnl};
use tidegate_sys::process::{AtExec, at_exec};
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::steady::patiently;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair, RIGHT};
use tidegate_units::{Bytes, Rate};

const SHAPER: &str = "version = 1\n\
    [[class]]\nname = \"gold\"\nrate = \"5mbit\"\ndscp = \"af11\"\n\
    [[class]]\nname = \"rest\"\nrate = \"5mbit\"\ndefault = true\n\
    [[rule]]\nclass = \"gold\"\ndscp = \"ef\"\n";
fn command(pair: &Pair) -> Command {
    pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap()
}

/// A directory with the shaper file.
fn shaper() -> Folder {
    let scratch = Folder::new("test");
    fs::write(path(&scratch), SHAPER).unwrap();
    scratch
}

fn path(scratch: &Folder) -> PathBuf {
    scratch.0.join("shaper.toml")
}

fn run(pair: &Pair, file: &Folder, interface: &str) -> Command {
    let mut command = command(pair);
    command.arg("run").arg(path(file)).args(["--interface", interface]);
    command
}

/// Drops all capabilities of the command.
fn powerless(command: &mut Command) {
    at_exec(command, AtExec::WithoutRoot);
}

/// One datagram of each protocol arrives.
fn passes(pair: &Pair) {
    for (from, to) in LEFT.into_iter().zip(RIGHT) {
        let receiver = pair.right.run(|| UdpSocket::bind((to, 0)).unwrap()).unwrap();
        receiver.set_read_timeout(Some(PATIENCE)).unwrap();
        let sender = pair.left.run(|| UdpSocket::bind((from, 0)).unwrap()).unwrap();
        sender.send_to(b"passes", receiver.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 16];
        let n = receiver.recv(&mut buffer).expect("it arrives");
        assert_eq!(&buffer[..n], b"passes");
    }
}

fn tables(pair: &Pair) -> usize {
    pair.left.run(|| nft::tables(&mut Socket::open(Protocol::Netfilter).unwrap()).unwrap().len()).unwrap()
}

pub fn in_force_and_an_orderly_end() -> Ended {
    let (pair, file) = (Pair::new(), shaper());
    let page = file.0.join("page.html");
    let mut command = run(&pair, &file, DEVICE);
    command.arg("--report").arg(&page);
    let mut running = Running::start(command);
    running.says("class rest: a packet came through (IPv4, IPv6)");
    assert!(running.said.contains("is in force"), "{}", running.said);
    assert!(running.said.contains("class gold: a packet came through (IPv4, IPv6)"), "{}", running.said);
    passes(&pair);
    assert!(tables(&pair) > 0);
    running.signal(libc::SIGINT);
    let (status, out, said) = running.end();
    assert!(status.success(), "{status}: {said}");
    assert!(out.contains("gold") && out.contains("rest") && out.contains("re-marked"), "{out}");
    assert!(said.contains("nothing is left behind"), "{said}");
    assert_eq!(tables(&pair), 0);
    passes(&pair);
    let report = fs::read_to_string(&page).expect("a report");
    fs::remove_file(&page).expect("our file");
    for part in ["Rate of each class", "Wait in the queue, distribution", "dscp = &quot;af11&quot;", "5 Mbit/s"] {
        assert!(report.contains(part), "{part}");
    }
    assert!(!report.contains("://"));
    Ended::Passed
}

pub fn rates_of_the_line_shape_both_ways() -> Ended {
    let pair = Pair::new();
    let line = ["--interface", DEVICE, "--up", "2mbit", "--down", "3mbit", "--link", "ip", "--json"];
    let mut shape = command(&pair);
    shape.arg("run").args(line);
    let mut running = Running::start(shape);
    running.says("shaping what arrives by tg0, by the preset --down, is in force");
    assert!(running.said.contains("shaping tg0 by the preset --up is in force"), "{}", running.said);
    passes(&pair);
    // A second instance finds both directions in use.
    let said = {
        let mut second = command(&pair);
        second.args(["run", "--interface", DEVICE, "--down", "3mbit", "--control", "off"]);
        Running::start(second).fails(1)
    };
    assert!(said.contains("shaping what arrives by tg0"), "{said}");
    // One second of ten times the rate in either direction, 2 and 3 Mbit/s less the margins: 1.9 and 2.7.
    let flood = |from: &tidegate_live::netns::Namespace, to: &tidegate_live::netns::Namespace, own, other| {
        let receiver = to.run(|| UdpSocket::bind((other, 0)).unwrap()).unwrap();
        let sender = from.run(|| UdpSocket::bind((own, 0)).unwrap()).unwrap();
        let (began, mut got) = (Instant::now(), 0_usize);
        // A sender that waited for buffer space would read late.
        for socket in [&receiver, &sender] {
            socket.set_nonblocking(true).unwrap();
        }
        let mut buffer = [0; 2_000];
        while began.elapsed() < Duration::from_millis(1_500) {
            let _ = sender.send_to(&[0; 972], receiver.local_addr().unwrap());
            while let Ok(n) = receiver.recv(&mut buffer) {
                // The first half second is for buckets and queues to fill.
                got += if began.elapsed() > Duration::from_millis(500) { n + 28 } else { 0 };
            }
            thread::sleep(Duration::from_micros(300));
        }
        got as f64 * 8.0 / 1e6
    };
    let measured = patiently(|| {
        let up = flood(&pair.left, &pair.right, LEFT[0], RIGHT[0]);
        let down = flood(&pair.right, &pair.left, RIGHT[0], LEFT[0]);
        println!("  {up:.2} and {down:.2} Mbit/s");
        let right = (1.5..2.0).contains(&up) && (2.2..2.8).contains(&down);
        if right { Ok(()) } else { Err(format!("{up} and {down} Mbit/s")) }
    });
    running.signal(libc::SIGINT);
    let (status, out, said) = running.end();
    assert!(status.success(), "{status}: {said}");
    let ended: serde_json::Value = serde_json::from_str(&out).expect("valid JSON");
    let ways: Vec<_> = ended["classes"].as_array().unwrap().iter().map(|class| class["direction"].clone()).collect();
    assert_eq!(ways, ["up", "down"]);
    assert_eq!(tables(&pair), 0);
    passes(&pair);
    measured
}

/// What `status` says, within two seconds, of a tidegate that does not answer.
fn status(pair: &Pair) -> String {
    let begun = Instant::now();
    let output = command(pair).args(["status", "--interface", DEVICE]).output().unwrap();
    let (taken, said) = (begun.elapsed(), String::from_utf8(output.stderr).unwrap());
    // The start of a program is not bounded on a machine that does other things.
    assert!(taken < Duration::from_millis(2_500), "{taken:?}: {said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

pub fn killed_it_stops_no_traffic_and_starts_again() -> Ended {
    let (pair, file) = (Pair::new(), shaper());
    let mut killed = Running::start(run(&pair, &file, DEVICE));
    killed.says("is in force");
    if killed.said.contains("no control socket") {
        return Ended::Skipped("no directory for sockets can be made here".into());
    }
    let process = killed.child.id();
    killed.signal(libc::SIGSTOP);
    let said = status(&pair);
    assert!(said.contains(&format!("its process {process} is stopped")), "{said}");
    killed.signal(libc::SIGCONT);
    killed.signal(libc::SIGKILL);
    assert!(!killed.end().0.success());
    passes(&pair);
    // Until a successor comes, or nobody does, its guardian is named; its words stay.
    let deadline = Instant::now() + PATIENCE;
    let told = [format!("process {process}, which listened at"), format!("process {process} has ended unexpectedly")];
    while !told.iter().all(|part| status(&pair).contains(part)) {
        assert!(Instant::now() < deadline, "{}", status(&pair));
        thread::sleep(Duration::from_millis(50));
    }
    assert!(status(&pair).contains("its guardian"), "{}", status(&pair));
    let doctor = command(&pair).args(["doctor", "--interface", DEVICE]).output().unwrap();
    let found = String::from_utf8(doctor.stdout).unwrap();
    let told = format!("process {process}, which shaped {DEVICE}, died; its guardian lets packets pass");
    assert!(found.split_whitespace().collect::<Vec<_>>().join(" ").contains(&told), "{found}");
    assert!(!found.contains("another tidegate shapes"), "{found}");
    assert_eq!(found.matches("which shaped").count(), 1, "{found}");
    // Its guardian is killed as well: no rules are left, and its end is still known.
    let told = status(&pair);
    let (_, guardian) = told.split_once("its guardian, process ").unwrap_or_else(|| panic!("{told}"));
    let guardian: u32 = guardian.split(',').next().unwrap().parse().unwrap();
    tidegate_sys::process::signal(guardian, libc::SIGKILL).unwrap();
    while tables(&pair) > 0 {
        assert!(Instant::now() < deadline, "the guardian's rules stay");
        thread::sleep(Duration::from_millis(50));
    }
    passes(&pair);
    let doctor = command(&pair).args(["doctor", "--interface", DEVICE]).output().unwrap();
    let found = String::from_utf8(doctor.stdout).unwrap();
    let told = format!("process {process}, which shaped {DEVICE}, ended unexpectedly; traffic passes unshaped");
    assert!(found.split_whitespace().collect::<Vec<_>>().join(" ").contains(&told), "{found}");
    let mut again = Running::start(run(&pair, &file, DEVICE));
    again.says("is in force");
    passes(&pair);
    again.signal(libc::SIGTERM);
    let (status, _, said) = again.end();
    assert!(status.success(), "{said}");
    assert_eq!(tables(&pair), 0);
    Ended::Passed
}

/// A qdisc below that shapes is announced before shaping is, at the start and with a change.
pub fn a_qdisc_that_shapes_below_is_announced() -> Ended {
    let (pair, file) = (Pair::new(), shaper());
    let limited = pair.left.run(|| {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.link(DEVICE).unwrap().unwrap().index;
        rtnl.set_tbf(index, Rate::from_mbit(50), Bytes::new(50_000), Bytes::new(500_000))
    });
    if let Err(error) = limited.unwrap() {
        return Ended::Skipped(format!("the kernel has no TBF: {error}"));
    }
    let control = file.0.join("control.sock");
    let mut command_line = run(&pair, &file, DEVICE);
    command_line.arg("--control").arg(&control);
    let mut running = Running::start(command_line);
    running.says("is in force");
    let warning = format!("warning: {DEVICE} has a tbf qdisc, which shapes or delays what we let go");
    let (told, in_force) = (running.said.find(&warning), running.said.find("is in force"));
    assert!(told.is_some() && told < in_force, "{}", running.said);
    let mut set = command(&pair);
    let set = set.args(["set", "class", "gold", "rate", "4mbit", "--control"]).arg(&control).output().unwrap();
    let said = String::from_utf8(set.stderr).unwrap();
    assert!(said.contains(&warning) && said.find(&warning) < said.find("in force,"), "{said}");
    running.stops();
    Ended::Passed
}

/// An orderly end writes the minute so far, and the next start continues it.
pub fn the_history_of_one_run_is_that_of_the_next() -> Ended {
    let (pair, file) = (Pair::new(), shaper());
    let kept = Folder::new("history");
    let history = kept.0.join(format!("{DEVICE}.up.history"));
    let size = || fs::metadata(&history).map_or(0, |data| data.len());
    let mut sizes = Vec::new();
    for _ in 0..2 {
        let mut command = run(&pair, &file, DEVICE);
        command.arg("--history").arg(&kept.0);
        let mut running = Running::start(command);
        running.says("is in force");
        passes(&pair);
        // A second of observations.
        thread::sleep(Duration::from_millis(2_500));
        let said = running.stops();
        assert!(!said.contains("the history in"), "{said}");
        sizes.push(size());
    }
    // The heading alone has 19 bytes, a minute of two classes more than 100. The next run rewrites what it has read.
    assert!(sizes[0] > 100 && sizes[1] >= sizes[0], "{sizes:?}");
    Ended::Passed
}

pub fn signals_that_ask_for_reports_do_not_end_it() -> Ended {
    let (pair, file) = (Pair::new(), shaper());
    let mut running = Running::start(run(&pair, &file, DEVICE));
    running.says("is in force");
    for signal in [libc::SIGUSR1, libc::SIGUSR2] {
        running.signal(signal);
    }
    passes(&pair);
    running.stops();
    Ended::Passed
}

pub fn a_wrong_interface_is_named_with_the_right_ones() -> Ended {
    let (pair, file) = (Pair::new(), shaper());
    let said = Running::start(run(&pair, &file, "nosuch0")).fails(2);
    for name in ["nosuch0", "lo", DEVICE] {
        assert!(said.contains(name), "{said}");
    }
    assert_eq!(tables(&pair), 0);
    Ended::Passed
}

pub fn missing_permission_is_said() -> Ended {
    let (pair, file) = (Pair::new(), shaper());
    let mut command = run(&pair, &file, DEVICE);
    powerless(&mut command);
    let said = Running::start(command).fails(1);
    assert!(said.contains("not allowed to") && said.contains("CAP_NET_ADMIN"), "{said}");
    assert_eq!(tables(&pair), 0);
    Ended::Passed
}

/// The directory is told before anything is attached: no change of the packet filter is announced.
pub fn a_directory_that_is_read_only_is_said_before_the_start() -> Ended {
    let (pair, file) = (Pair::new(), shaper());
    let script =
        "mount -t tmpfs none /run && mkdir /run/tidegate && mount -t tmpfs -o ro none /run/tidegate && exec \"$@\"";
    let over = |words: &[&str]| {
        let mut command = pair.left.command("unshare").unwrap();
        command.args(["--mount", "sh", "-c", script, "sh"]).args(words).env_remove("XDG_RUNTIME_DIR");
        command
    };
    if !over(&["true"]).status().is_ok_and(|end| end.success()) {
        return Ended::Skipped("nothing can be mounted here".into());
    }
    // NFNLGRP_NFTABLES
    let mut changes = pair.left.run(|| Socket::with_groups(Protocol::Netfilter, 1 << (7 - 1)).unwrap()).unwrap();
    let path = file.file("shaper.toml");
    let words = [env!("CARGO_BIN_EXE_tidegate"), "run", path.to_str().unwrap(), "--interface", DEVICE];
    for socket in ["/run/tidegate/tg0.sock", "/run/tidegate/named"] {
        let at: &[&str] = if socket.ends_with("named") { &["--control", socket] } else { &[] };
        let said = Running::start(over(&[&words, at].concat())).fails(1);
        assert!(said.contains("no file can be made in /run/tidegate: Read-only file system"), "{said}");
        assert!(said.contains("make it writable") && said.contains("--control off"), "{said}");
    }
    assert!(changes.try_receive("watch the packet filter").unwrap().is_none(), "rules were installed");
    // The way out that it names.
    let mut running = Running::start(over(&[&words[..], &["--control", "off"]].concat()));
    running.says("is in force");
    assert!(changes.try_receive("watch the packet filter").unwrap().is_some(), "changes are seen");
    running.stops();
    Ended::Passed
}

/// Inserts a rule before ours, for datagrams to the right.
fn in_front(family: Family, then: Vec<Expression>) -> Result<(), tidegate_live::netlink::Error> {
    let mut netfilter = Socket::open(Protocol::Netfilter).unwrap();
    let only_udp = [Expression::Meta(MetaKey::Transport, 1), Expression::Compare(1, Compare::Equal, vec![17])];
    let table = Table {
        family,
        name: "in_front".into(),
        chains: vec![Chain { name: "early".into(), hook: Some((4, 0)) }],
        rules: vec![Rule {
            chain: "early".into(),
            comment: "takes it".into(),
            expressions: only_udp.into_iter().chain(then).collect(),
        }],
    };
    nft::create(&mut netfilter, &[table], Ownership::Persistent)
}

/// A queue of another program that holds the IPv6 packets, and only those.
pub fn holding_ipv6(pair: &Pair) -> QueueSocket {
    let hold = || {
        let mut other = QueueSocket::open(1 << 20).unwrap();
        other.bind(9, &QueueSettings::default()).unwrap();
        // Whichever the kernel has.
        in_front(Family::Ipv6, vec![Expression::QueueTarget { first: 9, count: 1 }])
            .or_else(|_| in_front(Family::Ipv6, vec![Expression::Queue { first: 9, count: 1 }]))
            .unwrap();
        other
    };
    pair.left.run(hold).unwrap()
}

pub fn packets_that_another_program_takes_are_missed() -> Ended {
    let (pair, file) = (Pair::new(), shaper());
    let other = holding_ipv6(&pair);
    let said = Running::start(run(&pair, &file, DEVICE)).fails(1);
    assert!(said.contains("NOT in force") && said.contains("no IPv6 packet that we sent"), "{said}");
    assert!(!said.contains("no IPv4 packet"), "{said}");
    assert_eq!(tables(&pair), 1, "ours is gone, the other stays");
    drop(other);
    Ended::Passed
}

pub fn packets_that_are_rewritten_are_mistaken() -> Ended {
    let (pair, file) = (Pair::new(), shaper());
    let word = Field { base: Base::Network, offset: 0, length: 2 };
    let bleach = vec![
        Expression::Load(word, 1),
        Expression::Bitwise { register: 1, mask: vec![0xff, 0x03], flip: vec![0, 0] },
        Expression::Store(word, 1, Some(10)),
    ];
    pair.left.run(|| in_front(Family::Ipv4, bleach).unwrap()).unwrap();
    let said = Running::start(run(&pair, &file, DEVICE)).fails(1);
    // Once, with direction, rule and remedy.
    let told = "IPv4 packets that leave and belong to class `gold` come to the queue as class `rest`, although rule 1 (dscp ef) is \
                for them: another program sets their code point";
    assert!(said.contains("NOT in force") && said.matches(told).count() == 1, "{said}");
    assert!(said.contains("`nft list ruleset`"), "{said}");
    passes(&pair);
    Ended::Passed
}

/// Makes the device of the left a port of a bridge that has its address: egress then uses another interface name.
fn bridged() -> Result<(), tidegate_live::netlink::Error> {
    let mut rtnl = Rtnl::open()?;
    rtnl.create("tgb", "bridge")?;
    let (bridge, index) = (rtnl.index("tgb")?, rtnl.index(DEVICE)?);
    rtnl.set_master(index, bridge)?;
    rtnl.delete_address(Address { index, address: LEFT[0], prefix: 24 })?;
    rtnl.add_address(Address { index: bridge, address: LEFT[0], prefix: 24 })?;
    rtnl.up(bridge)
}

pub fn packets_that_a_bridge_takes_are_noticed() -> Ended {
    let (pair, file) = (Pair::new(), shaper());
    let mut running = Running::start(run(&pair, &file, DEVICE));
    running.says("is in force");
    let stop = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        let (socket, stop) = (pair.left.run(|| UdpSocket::bind((LEFT[0], 0)).unwrap()).unwrap(), &stop);
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // 4 Mbit/s. While the address moves there is no route.
                let _ = socket.send_to(&[0; 1_000], (RIGHT[0], 9));
                thread::sleep(Duration::from_millis(2));
            }
        });
        // The sender must end even if the test fails.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if let Err(error) = pair.left.run(bridged).unwrap() {
                return Ended::Skipped(format!("no bridge here: {error}"));
            }
            running.says("most traffic that leaves on tg0 bypasses the queue");
            let apart = |rtnl: &mut Rtnl| {
                let (bridge, index) = (rtnl.index("tgb").unwrap(), rtnl.index(DEVICE).unwrap());
                rtnl.delete_link(bridge).unwrap();
                rtnl.add_address(Address { index, address: LEFT[0], prefix: 24 }).unwrap();
            };
            pair.left.run(|| apart(&mut Rtnl::open().unwrap())).unwrap();
            running.says("traffic that leaves on tg0 comes through the queue again");
            Ended::Passed
        }));
        stop.store(true, Ordering::Relaxed);
        outcome
    });
    running.signal(libc::SIGINT);
    let (status, _, said) = running.end();
    assert!(status.success(), "{said}");
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

pub fn a_file_that_changes_is_noticed() -> Ended {
    let (pair, file) = (Pair::new(), shaper());
    let mut running = Running::start(run(&pair, &file, DEVICE));
    running.says("is in force");
    // Even into a file that cannot be read.
    fs::write(path(&file), "version = ").unwrap();
    File::options().append(true).open(path(&file)).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
    running.says("has changed");
    running.says("puts it in force, and so does a reload");
    passes(&pair);
    running.signal(libc::SIGINT);
    let (status, _, said) = running.end();
    assert!(status.success(), "{said}");
    Ended::Passed
}

pub fn a_second_one_on_the_same_interface_is_refused() -> Ended {
    let (pair, file) = (Pair::new(), shaper());
    let mut first = Running::start(run(&pair, &file, DEVICE));
    first.says("is in force");
    let before = tables(&pair);
    let said = Running::start(run(&pair, &file, DEVICE)).fails(1);
    assert!(said.contains(DEVICE), "{said}");
    assert_eq!(tables(&pair), before);
    passes(&pair);
    first.signal(libc::SIGINT);
    let (status, _, said) = first.end();
    assert!(status.success(), "{said}");
    Ended::Passed
}

pub fn an_interface_that_vanishes_is_noticed() -> Ended {
    let (pair, file) = (Pair::new(), shaper());
    let mut running = Running::start(run(&pair, &file, DEVICE));
    running.says("is in force");
    pair.left
        .run(|| {
            let mut rtnl = Rtnl::open().unwrap();
            let index = rtnl.index(DEVICE).unwrap();
            rtnl.delete_link(index).unwrap();
        })
        .unwrap();
    running.says("has vanished");
    running.signal(libc::SIGINT);
    let (status, _, said) = running.end();
    assert!(status.success(), "{said}");
    assert_eq!(tables(&pair), 0);
    Ended::Passed
}

pub fn the_demonstration_ends_with_its_table() -> Ended {
    demonstrate(demo());
    let users = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    // As root of the machine, and as a user who must create a user namespace first.
    if users.contains("4294967295") {
        let mut command = demo();
        command.uid(NOBODY).gid(NOBODY);
        if command.arg("--help").stdout(Stdio::null()).status().is_err() {
            return Ended::Skipped("another user may not execute the command where it lies".into());
        }
        let mut command = demo();
        command.uid(NOBODY).gid(NOBODY);
        demonstrate(command);
    }
    Ended::Passed
}

const NOBODY: u32 = 65_534;

fn demo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["demo", "--seconds", "5", "--json"]);
    command
}

fn demonstrate(command: Command) {
    let (status, out, said) = Running::start(command).end();
    assert!(status.success(), "{said}");
    let table: serde_json::Value = serde_json::from_str(&out).expect("valid JSON");
    let flows = table["flows"].as_array().expect("flows");
    assert_eq!(flows.len(), 10);
    for flow in flows {
        // The whole message: a problem of one flow is visible in the others.
        assert_eq!(flow["packets_reordered"], 0, "{}: {out}\n{said}", flow["flow"]);
        assert!(flow["packets_received"].as_u64() > Some(0), "{}: {out}\n{said}", flow["flow"]);
    }
    // What the grades are depends on the machine; that there are some, and that the last sentence is the conclusion, does not.
    let verdict = &table["verdict"];
    assert!(verdict["grade"].is_string() && verdict["unshaped_grade"].is_string(), "{verdict}");
    let last = verdict["text"].as_array().and_then(|text| text.last()).and_then(|text| text.as_str());
    assert!(last.is_some_and(|text| text.starts_with("Verdict: ")), "{verdict}");
}

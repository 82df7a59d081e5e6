//! A killed process and the next one: what they promise, and what is dropped between them.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::thread;
use std::time::{Duration, Instant};

use crate::running::{PATIENCE, Running, Traffic};
use crate::watchdog::{DOUBLE, PAYLOAD, command, orderly};
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nfqueue::queue_counters;
use tidegate_live::nft;
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::veth::{DEVICE, Pair};

pub fn promises_survive_a_restart_and_a_kill() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let run = || {
        let mut command = command(&pair, &scratch, "");
        command.arg("--hand-over");
        let mut running = Running::start(command);
        running.says("control socket");
        running
    };
    let promises = |arguments: &[&str]| {
        let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
        let output = command.arg("promise").args(arguments).arg("--control").arg(scratch.0.join("control")).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let first = run();
    promises(&["--port", "5004", "--min", "100kbit", "--for", "1h"]);
    promises(&["--port", "5006", "--prefer", "2", "--for", "1h"]);
    let numbers = |listed: &str| {
        let listed: serde_json::Value = serde_json::from_str(listed).unwrap();
        let number = |promise: &serde_json::Value| promise["promise"].as_u64().unwrap();
        listed.as_array().unwrap().iter().map(number).collect::<Vec<_>>()
    };
    let before = numbers(&promises(&["--json"]));
    assert_eq!(before.len(), 2, "{before:?}");
    first.signal(libc::SIGTERM);
    let (status, _, said) = first.end();
    assert!(status.success() && said.contains("is left to a successor"), "{status}: {said}");
    let second = run();
    assert_eq!(numbers(&promises(&["--json"])), before);
    // The state is kept some times a second.
    thread::sleep(Duration::from_secs(1));
    second.signal(libc::SIGKILL);
    second.end();
    let third = run();
    assert_eq!(numbers(&promises(&["--json"])), before);
    // A new one has another number.
    promises(&["--port", "5008", "--prefer", "1", "--for", "1h"]);
    let mut after = numbers(&promises(&["--json"]));
    after.sort_unstable();
    after.dedup();
    assert_eq!(after.len(), 3, "{after:?}");
    orderly(third);
    Ended::Passed
}

/// Each process counts what it drops, as far as its counts are read, and between the end of one and the start of the next nothing is
/// dropped: the guardian lets packets pass. So of an overload around a kill only drops of the moment between the
/// last reading and the kill are in no count.
pub fn drops_around_a_kill_are_counted() -> Ended {
    const SMALL: &str = "version = 1\n[shaper]\nrate = \"1mbit\"\n\
        [[class]]\nname = \"rest\"\nrate = \"1mbit\"\ndefault = true\nlimit = \"25000B\"\nflow-limit = \"25000B\"\n";
    /// Counts are at most 20 ms old when they are read; as much again for a busy machine. A packet comes every 2 ms.
    const OLD: u64 = 20;
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let start = || {
        let mut command = command(&pair, &scratch, "");
        scratch.write("shaper.toml", SMALL);
        command.arg("--hand-over");
        let mut running = Running::start(command);
        running.says("control socket: ");
        running
    };
    let traffic = Traffic::start(&pair, PAYLOAD, DOUBLE);
    // The packets sent before the last reading, and the drops that it showed. Over one connection, so that a kill can follow at once.
    let read = |least: u64| {
        let mut connection = BufReader::new(UnixStream::connect(scratch.0.join("control")).unwrap());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let sent = traffic.sent();
            writeln!(connection.get_ref(), "{{\"id\":1,\"version\":1,\"call\":\"status\"}}").unwrap();
            let mut line = String::new();
            connection.read_line(&mut line).unwrap();
            let shown: serde_json::Value = serde_json::from_str(&line).unwrap();
            let direction = &shown["ok"]["directions"][0];
            assert_eq!(direction["kernel_dropped_packets"], 0, "{direction}");
            let reasons = direction["classes"][0]["dropped"].as_array().unwrap().iter();
            let dropped: u64 = reasons.map(|of| of["packets"].as_u64().unwrap()).sum();
            if dropped >= least {
                return (sent, dropped);
            }
            assert!(Instant::now() < deadline, "only {dropped} are dropped");
            thread::sleep(Duration::from_millis(5));
        }
    };
    let mut periods = Vec::new();
    for _ in 0..3 {
        let running = start();
        let (sent, dropped) = read(200);
        running.signal(libc::SIGKILL);
        periods.push((sent.saturating_sub(OLD), traffic.sent(), dropped));
        let (status, ..) = running.end();
        assert_eq!(status.signal(), Some(libc::SIGKILL));
        thread::sleep(Duration::from_millis(200));
    }
    let running = start();
    read(200);
    traffic.pause();
    // What is queued leaves, and what was dropped is counted.
    thread::sleep(Duration::from_secs(1));
    let (sent, dropped) = read(200);
    periods.push((sent, sent, dropped));
    let arrivals = traffic.stop_lossy();
    orderly(running);
    assert_eq!((arrivals.reordered(), arrivals.dropped), (0, 0), "of {}", arrivals.sent);
    let mut missing = vec![true; arrivals.sent as usize];
    arrivals.at.iter().for_each(|(_, number)| missing[*number as usize] = false);
    let missing = |from: u64, to: u64| missing[from as usize..to as usize].iter().filter(|is| **is).count() as u64;
    let mut from = 0;
    for (read, killed, dropped) in periods {
        let (lost, unread) = (missing(from, killed), killed - read);
        println!(
            "{dropped} counted of {lost} of packets {from} to {killed}, of which {unread} came after the last reading"
        );
        assert!(dropped <= lost && lost <= dropped + unread, "{dropped} of {lost}, {unread} after the last reading");
        from = killed;
    }
    Ended::Passed
}

/// The guardians of both directions end at the same time when no successor comes. The rules of the one go first, and with them the kernel
/// would drop what waits in the queue of the other.
pub fn guardians_that_end_drop_nothing_of_each_other() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
    command.args(["run", "--interface", DEVICE, "--up", "1gbit", "--down", "1gbit"]);
    command.arg("--control").arg(scratch.0.join("control"));
    let mut running = Running::start(command);
    running.says("control socket: ");
    running.signal(libc::SIGKILL);
    running.end();
    let tables =
        || pair.left.run(|| nft::tables(&mut Socket::open(Protocol::Netfilter).unwrap()).unwrap().len()).unwrap();
    assert!(tables() > 0);
    // They wait for ten seconds. What arrives has no packets, so that its guardian has nothing to wait for.
    thread::sleep(Duration::from_secs(8));
    let traffic = Traffic::start(&pair, 64, Duration::from_micros(20));
    let queued = || -> Vec<(u16, u32)> {
        let queues = pair.left.run(queue_counters).unwrap().unwrap();
        queues.iter().map(|queue| (queue.queue, queue.sequence)).collect()
    };
    thread::sleep(Duration::from_millis(200));
    let (all, before) = (tables(), queued());
    let deadline = Instant::now() + PATIENCE;
    let fewer_than = |count: usize| {
        while tables() >= count {
            assert!(Instant::now() < deadline, "the rules stay");
        }
    };
    fewer_than(all);
    // Packets pass the queues by then, of which the last to end may be gone.
    let first = queued();
    thread::sleep(Duration::from_millis(50));
    let second = queued();
    println!("the last packets in the queues: {before:?} before, {first:?} and {second:?} once rules are gone");
    assert!(second.iter().all(|last| first.contains(last)), "{second:?} after {first:?}");
    fewer_than(1);
    let arrivals = traffic.stop();
    println!("{} sent", arrivals.sent);
    assert!(arrivals.sent > 2_000, "{} sent", arrivals.sent);
    assert_eq!((arrivals.lost(), arrivals.reordered()), (0, 0), "lost and reordered of {}", arrivals.sent);
    Ended::Passed
}

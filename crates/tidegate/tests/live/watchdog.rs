//! Faults in the data path of the built command, and their effect on traffic: faults are injected while packets are
//! queued, between namespaces, and the longest silence at the receiver is measured.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::running::{Arrivals, PATIENCE, Printing, Running, Traffic, until_trouble};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nft::{self, Chain, Expression, Family, Ownership, Rule, Table};
use tidegate_live::rtnl::{Route, Rtnl};
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::steady::patiently;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair, RIGHT, bring_up};

/// 1 Mbit/s; packets of the test are 500 bytes with headers, so 250 of them leave in a second.
/// The limits suffice for the packets that the tests queue.
const SHAPER: &str = "version = 1\n[shaper]\nrate = \"1mbit\"\nburst = \"3000B\"\n\
    [[class]]\nname = \"rest\"\nrate = \"1mbit\"\nburst = \"3000B\"\ndefault = true\n\
    limit = \"8MB\"\nflow-limit = \"4MB\"\n";
pub const PAYLOAD: usize = 472;
/// The guarantee: traffic passes again within this.
const PROMISE: Duration = Duration::from_secs(1);

pub fn command(pair: &Pair, scratch: &Folder, fault: &str) -> Command {
    let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
    command.arg("run").arg(scratch.write("shaper.toml", SHAPER)).args(["--interface", DEVICE]);
    command.arg("--control").arg(scratch.0.join("control"));
    if !fault.is_empty() {
        command.args(["--inject", fault]);
    }
    command
}

fn shaped(pair: &Pair, scratch: &Folder, fault: &str) -> Running {
    let mut running = Running::start(command(pair, scratch, fault));
    running.says("is in force");
    running
}

fn status(pair: &Pair, scratch: &Folder) -> serde_json::Value {
    let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
    let output = command.arg("status").arg("--json").arg("--control").arg(scratch.0.join("control")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Waits until `status` satisfies a condition.
fn until(pair: &Pair, scratch: &Folder, what: &str, mut is_so: impl FnMut(&serde_json::Value) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown = status(pair, scratch);
        if is_so(&shown) {
            return;
        }
        assert!(Instant::now() < deadline, "{what} does not come: {shown}");
    }
}

/// 1,000,000 / (500 B * 8) = 250 packets per second fit; one per 3.8 ms is 5 % more.
const FULL: Duration = Duration::from_micros(3_800);
/// Twice what fits.
pub const DOUBLE: Duration = Duration::from_millis(2);

/// Traffic faster than the shaper, so that packets are always queued, while `fault` happens and `what` is done.
fn under(
    fault: &str,
    every: Duration,
    what: impl FnOnce(&Pair, &Folder, &mut Running, &Traffic),
) -> (Traffic, Running) {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let mut running = shaped(&pair, &scratch, fault);
    let traffic = Traffic::start(&pair, PAYLOAD, every);
    what(&pair, &scratch, &mut running, &traffic);
    (traffic, running)
}

pub fn orderly(running: Running) -> String {
    running.signal(libc::SIGINT);
    let (status, _, said) = running.end();
    assert!(status.success(), "{status}: {said}");
    assert!(said.contains("nothing is left behind"), "{said}");
    said
}

fn nothing_lost(arrivals: &Arrivals) {
    assert_eq!((arrivals.lost(), arrivals.reordered()), (0, 0), "of {} sent", arrivals.sent);
}

fn passes_within_a_second(what: &str, arrivals: &Arrivals) -> Result<(), String> {
    let gap = arrivals.longest_gap();
    println!("{what}: {} ms of silence, {} of {} lost", gap.as_millis(), arrivals.lost(), arrivals.sent);
    assert!(arrivals.at.len() > 300, "{} arrived", arrivals.at.len());
    if gap < PROMISE { Ok(()) } else { Err(format!("{what}: nothing passed for {gap:?}")) }
}

/// In 200 ms: 50 by the rate, 6 by each of the two buckets, and what a late process makes up for: 20 ms, 5.
fn makes_no_burst(what: &str, arrivals: &Arrivals) -> Result<(), String> {
    let most = arrivals.most_within(Duration::from_millis(200));
    println!("{what}: at most {most} packets in 200 ms");
    if most <= 50 + 12 + 5 { Ok(()) } else { Err(format!("{what}: {most} packets in 200 ms")) }
}

/// Started by hand, it has the privileges that it needs, and a data path that begins later is as the first was.
pub fn privileges_are_given_up_and_a_data_path_starts_again() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let mut running = shaped(&pair, &scratch, "panic:1s");
    let pid = running.child.id();
    let scheduling = || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let threads = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
        // The 41st field is the policy: the 39th after the name.
        let policy = |stat: String| {
            let (_, rest) = stat.rsplit_once(')')?;
            Some(rest.split_ascii_whitespace().nth(38)?.to_owned())
        };
        let mut policies: Vec<_> = threads.filter_map(policy).collect();
        policies.sort();
        // Threads that read names of hosts come and go.
        policies.dedup();
        policies
    };
    let before = scheduling();
    let traffic = Traffic::start(&pair, PAYLOAD, FULL);
    let shown = status(&pair, &scratch);
    let privileges = &shown["privileges"];
    // The last two where the limits for scheduling and memory may not be raised.
    let needed = ["CAP_NET_ADMIN", "CAP_SYS_NICE", "CAP_IPC_LOCK"];
    let kept = |name: &serde_json::Value| needed.contains(&name.as_str().unwrap());
    // What this process may have, the data path has.
    let real_time = thread::spawn(|| tidegate_sys::process::set_real_time(1, false).is_ok());
    assert_eq!(before.contains(&libc::SCHED_FIFO.to_string()), real_time.join().unwrap(), "{before:?}");
    assert!(privileges["capabilities"].as_array().unwrap().iter().all(kept), "{privileges}");
    assert_eq!(privileges["obtainable"], serde_json::Value::Null, "{privileges}");
    assert_eq!((&privileges["no_new_privs"], &privileges["filtered"]), (&true.into(), &true.into()), "{privileges}");
    running.says("is in force again");
    until(&pair, &scratch, "its being in force", |shown| shown["in_force"] == true);
    assert!(!before.is_empty());
    assert_eq!(scheduling(), before);
    traffic.stop_now();
    orderly(running);
    Ended::Passed
}

pub fn a_stalled_data_path_is_let_pass_and_started_again() -> Ended {
    patiently(|| {
        // It would be stuck for 3 s; again and again, one second after each start.
        let (traffic, running) = under("stall:1s:3s", FULL, |pair, scratch, running, _| {
            running.says("the data path is stalled");
            running.says("is in force again");
            until(pair, scratch, "its being in force", |shown| shown["in_force"] == true);
            running.says_times("is in force again", 2);
        });
        let arrivals = traffic.stop();
        assert_eq!(arrivals.lost(), 0, "of {} sent", arrivals.sent);
        let said = orderly(running);
        assert!(said.contains("traffic passes unshaped; the next start is tried now"), "{said}");
        // Whether other programs have kept it from running.
        let is_counted = std::fs::exists("/proc/self/schedstat").unwrap();
        assert_eq!(said.contains(" and waited for a processor for "), is_counted, "{said}");
        // The injected stall is a sleep.
        assert_eq!(said.contains("and it sleeps in the kernel"), is_counted, "{said}");
        arrivals.in_order_but_for(said.matches("the data path is stalled").count())?;
        passes_within_a_second("stall", &arrivals)
    })
}

/// A data path without processor time during the proof is not taken for one that packets bypass.
pub fn a_stall_at_the_start_is_waited_for() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    // So much that packets are queued from the start.
    let traffic = Traffic::start(&pair, PAYLOAD, Duration::from_micros(100));
    traffic.until(10);
    // Longer than all attempts of the proof take with a live data path.
    let running = shaped(&pair, &scratch, "stall:0ms:2500ms");
    traffic.stop_now();
    orderly(running);
    Ended::Passed
}

pub fn a_panic_in_a_discipline_is_caught_and_said() -> Ended {
    patiently(|| {
        let (traffic, running) = under("panic:500ms", FULL, |pair, scratch, running, _| {
            running.says("the discipline panicked: a fault was injected");
            running.says("is in force again");
            // It panics again after half a second, and now there is a pause, longer each time: then the reason is
            // shown.
            running.says("the next start is tried in 1 s");
            until_trouble("panicked", || status(pair, scratch));
            running.says_times("is in force again", 2);
        });
        let arrivals = traffic.stop();
        assert_eq!(arrivals.lost(), 0, "of {} sent", arrivals.sent);
        let said = orderly(running);
        arrivals.in_order_but_for(said.matches("traffic passes unshaped").count())?;
        passes_within_a_second("panic", &arrivals)
    })
}

pub fn a_clock_that_goes_back_stops_nothing() -> Ended {
    patiently(|| {
        let (traffic, running) = under("back:500ms:10s", FULL, |_, _, running, traffic| {
            running.says("the clock went back by");
            traffic.until(400);
        });
        let arrivals = traffic.stop();
        nothing_lost(&arrivals);
        orderly(running);
        passes_within_a_second("clock back", &arrivals)
    })
}

pub fn a_clock_that_jumps_ahead_makes_no_burst() -> Ended {
    patiently(|| {
        // The 10 s that did not pass would release the whole queue.
        let (traffic, running) = under("forward:700ms:10s", DOUBLE, |_, _, running, traffic| {
            running.says("no time was given to the data path for 10");
            traffic.until(400);
        });
        let arrivals = traffic.stop();
        nothing_lost(&arrivals);
        orderly(running);
        passes_within_a_second("clock ahead", &arrivals).and(makes_no_burst("clock ahead", &arrivals))
    })
}

pub fn memory_refused_ends_the_process_and_stops_no_traffic() -> Ended {
    patiently(|| {
        let (traffic, running) = under("memory:1s", FULL, |_, _, running, traffic| {
            running.says("memory allocation of");
            traffic.until(600);
        });
        let arrivals = traffic.stop_lossy();
        let (status, _, said) = running.end();
        assert_eq!(status.signal(), Some(libc::SIGABRT), "{said}");
        nothing_lost(&arrivals);
        passes_within_a_second("memory", &arrivals)
    })
}

pub fn a_renamed_interface_stays_shaped() -> Ended {
    patiently(|| {
        let (traffic, running) = under("", FULL, |pair, scratch, running, traffic| {
            traffic.until(100);
            pair.left
                .run(|| {
                    let mut rtnl = Rtnl::open().unwrap();
                    let index = rtnl.index(DEVICE).unwrap();
                    rtnl.rename(index, "uplink0").unwrap();
                })
                .unwrap();
            running.says("tg0 was renamed to uplink0; shaping follows it");
            running.says("shaping uplink0 is in force");
            until(pair, scratch, "the other name, shaped", |shown| {
                let through = shown["directions"][0]["classes"][0]["through_packets"].as_u64();
                shown["interface"] == "uplink0" && through > Some(200)
            });
            // The lock has followed: a second instance is refused.
            let mut second = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
            second.arg("run").arg(scratch.write("second.toml", SHAPER)).args([
                "--interface",
                "uplink0",
                "--control",
                "off",
            ]);
            let (ended, _, said) = Running::start(second).end();
            assert_eq!(ended.code(), Some(1), "{said}");
            assert!(said.contains("another tidegate is shaping what leaves by uplink0"), "{said}");
        });
        let arrivals = traffic.stop();
        orderly(running);
        passes_within_a_second("rename", &arrivals)
    })
}

/// The loss of resources that clients use up does not end shaping.
pub fn without_descriptors_shaping_goes_on() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let control = scratch.0.join("control");
    let mut few = pair.left.command("sh").unwrap();
    few.args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tidegate"), "run"]);
    few.arg(scratch.write("shaper.toml", SHAPER)).args(["--interface", DEVICE, "--control"]).arg(&control);
    let mut running = Running::start(few);
    running.says("control socket");
    let clients: Vec<UnixStream> = (0..100).map(|_| UnixStream::connect(&control).unwrap()).collect();
    running.says("cannot check whether shaping is still in force");
    let traffic = Traffic::start(&pair, PAYLOAD, FULL);
    traffic.until(20);
    drop(clients);
    running.says("it can be checked again whether shaping is in force");
    until(&pair, &scratch, "what was shaped", |shown| {
        shown["in_force"] == true && shown["directions"][0]["classes"][0]["through_packets"].as_u64() > Some(20)
    });
    traffic.stop();
    orderly(running);
    Ended::Passed
}

/// It then has another number, and of many changes at once the kernel reports only a part.
pub fn a_rename_is_noticed_whatever_was_before() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let mut running = shaped(&pair, &scratch, "");
    let replace = || {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.index(DEVICE).unwrap();
        rtnl.delete_link(index).unwrap();
        rtnl.create_veth_into(DEVICE, "peer0", pair.right.as_fd()).unwrap();
        assert_ne!(rtnl.index(DEVICE).unwrap(), index);
        bring_up(DEVICE, LEFT);
    };
    pair.left.run(replace).unwrap();
    pair.right.run(|| bring_up("peer0", RIGHT)).unwrap();
    running.says("tg0 has vanished");
    running.says("tg0 is up");
    let rename = |from: &str, to: &str| {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.index(from).unwrap();
        rtnl.rename(index, to).unwrap();
        index
    };
    pair.left.run(|| rename(DEVICE, "uplink0")).unwrap();
    running.says("tg0 was renamed to uplink0; shaping follows it");
    running.says("shaping uplink0 is in force");
    // While it does not read, more is reported than its socket holds.
    running.signal(libc::SIGSTOP);
    let many = || {
        let mut rtnl = Rtnl::open().unwrap();
        rtnl.create_veth("busy0", "busy1").unwrap();
        let index = rtnl.index("busy0").unwrap();
        for _ in 0..1_000 {
            rtnl.up(index).unwrap();
            rtnl.down(index).unwrap();
        }
        rtnl.delete_link(index).unwrap();
        rename("uplink0", "wan0");
    };
    pair.left.run(many).unwrap();
    running.signal(libc::SIGCONT);
    running.says("uplink0 was renamed to wan0; shaping follows it");
    running.says("shaping wan0 is in force");
    orderly(running);
    Ended::Passed
}

pub fn a_link_that_goes_down_and_up_stays_shaped() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let mut running = shaped(&pair, &scratch, "");
    let link = |up: bool| {
        let set = move || {
            let mut rtnl = Rtnl::open().unwrap();
            let index = rtnl.index(DEVICE).unwrap();
            if up { rtnl.up(index) } else { rtnl.down(index) }.unwrap();
        };
        pair.left.run(set).unwrap();
    };
    link(false);
    running.says("tg0 is down");
    link(true);
    running.says("tg0 is up");
    let traffic = Traffic::start(&pair, PAYLOAD, DOUBLE);
    traffic.until(20);
    let ended = patiently(|| {
        let from = SystemTime::now();
        thread::sleep(Duration::from_secs(1));
        // 500 per second are sent, 250 pass.
        let rate = traffic.rate((from, SystemTime::now()));
        if (200.0..=275.0).contains(&rate) { Ok(()) } else { Err(format!("{rate} packets in a second")) }
    });
    traffic.stop_now();
    orderly(running);
    ended
}

/// A stopped process corresponds to a suspended machine: no time passes for it, and then a long time has passed.
pub fn a_suspended_process_makes_no_burst_when_it_wakes() -> Ended {
    patiently(|| {
        let (pair, scratch) = (Pair::new(), Folder::new("test"));
        let mut running = shaped(&pair, &scratch, "");
        running.signal(libc::SIGSTOP);
        thread::sleep(Duration::from_secs(4));
        let traffic = Traffic::start(&pair, PAYLOAD, DOUBLE);
        thread::sleep(Duration::from_millis(100));
        let woken = SystemTime::now();
        running.signal(libc::SIGCONT);
        traffic.until(400);
        let mut arrivals = traffic.stop_now();
        arrivals.at.retain(|(time, _)| *time >= woken);
        running.says("no time was given to the data path");
        orderly(running);
        makes_no_burst("woken", &arrivals)
    })
}

/// Promises with a lease outlive the process, also one that is killed; they keep their numbers.
/// A stream that is idle goes on; the socket is made again when its file was removed; nobody waits for a daemon that is stopped.
pub fn clients_notice_that_the_daemon_is_stopped() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let mut running = shaped(&pair, &scratch, "");
    let control = scratch.0.join("control");
    let client = |words: &[&str]| {
        let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
        command.args(words).arg("--control").arg(&control);
        command
    };
    let mut events = Printing::start(client(&["events", "--kind", "log"]));
    events.prints("subscribed");
    // Longer than it takes until the daemon is asked whether it is there.
    thread::sleep(Duration::from_secs(9));
    std::fs::remove_file(&control).unwrap();
    running.says("the control socket was removed, and has been made again");
    events.prints("the control socket was removed");
    status(&pair, &scratch);
    running.signal(libc::SIGSTOP);
    let stopped = format!("its process {} is stopped (state T); `kill -CONT", running.child.id());
    for words in [
        &["status"][..],
        &["top", "--once"],
        &["set", "shaper", "rate", "2mbit"],
        &["promise", "--min", "1kbit", "--port", "9"],
    ] {
        let said = Running::start(client(words)).fails(1);
        assert!(said.contains(&stopped), "{words:?}: {said}");
    }
    let (code, printed) = events.end();
    assert!(code.code() == Some(1) && printed.contains(&stopped), "{code}: {printed}");
    // Others wait at the socket, more than its queue has room for.
    let waiting: Vec<UnixStream> = std::iter::from_fn(|| {
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
        net::connect(&socket, &SocketAddrUnix::new(&control).unwrap()).ok()?;
        Some(socket.into())
    })
    .collect();
    let said = Running::start(client(&["status"])).fails(1);
    assert!(waiting.len() > 100 && said.contains("stopped or hangs"), "{}: {said}", waiting.len());
    running.signal(libc::SIGCONT);
    drop(waiting);
    until(&pair, &scratch, "an answer", |status| status["in_force"] == true);
    orderly(running);
    Ended::Passed
}

/// A start loses no packet that waits for a shaper that runs in the same network namespace, whatever the kernel lacks: rules
/// that it refuses are tried without hooks, because a hook that is taken back empties its queues.
pub fn a_start_beside_a_shaper_drops_nothing_that_waits() -> Ended {
    let (traffic, running) = under("", DOUBLE, |pair, scratch, _, traffic| {
        traffic.until(200);
        let missing = Expression::Unknown("tidegate_has_no_such_expression".into());
        let chain = Chain { name: "early".into(), hook: Some((4, 0)) };
        let rule = Rule { chain: "early".into(), comment: String::new(), expressions: vec![missing] };
        let table = Table { family: Family::Ipv4, name: "other".into(), chains: vec![chain], rules: vec![rule] };
        let refused = pair.left.run(|| {
            let mut socket = Socket::open(Protocol::Netfilter)?;
            nft::create(&mut socket, &[table], Ownership::Persistent)
        });
        assert!(refused.unwrap().is_err(), "the kernel refuses it");
        traffic.until(600);
        let shown = status(pair, scratch);
        assert_eq!(shown["directions"][0]["kernel_dropped_packets"], 0, "{shown}");
    });
    nothing_lost(&traffic.stop());
    orderly(running);
    Ended::Passed
}

/// Whenever a chain of the packet filter goes, of any program, the kernel drops what waits in its queues. As many packets are
/// reported as did not arrive.
pub fn packets_that_the_kernel_drops_are_counted_and_reported() -> Ended {
    let mut counted = 0;
    let (traffic, running) = under("", DOUBLE, |pair, scratch, running, traffic| {
        traffic.until(200);
        let changed = pair.left.run(|| {
            let chain = Chain { name: "early".into(), hook: Some((4, 0)) };
            let table = Table { family: Family::Ipv4, name: "other".into(), chains: vec![chain], rules: Vec::new() };
            let mut socket = Socket::open(Protocol::Netfilter)?;
            nft::create(&mut socket, &[table], Ownership::Persistent)?;
            nft::delete(&mut socket, Family::Ipv4, "other")
        });
        changed.unwrap().unwrap();
        running.says("packets that waited, ");
        traffic.until(600);
        // The verdicts for what is gone are refused one by one, as their time comes.
        let mut steady = (0, 0);
        until(pair, scratch, "an end of the count", |shown| {
            counted = shown["directions"][0]["kernel_dropped_packets"].as_u64().unwrap();
            thread::sleep(Duration::from_millis(500));
            steady = if steady.1 == counted { (steady.0 + 1, counted) } else { (0, counted) };
            steady.0 == 4
        });
    });
    let arrivals = traffic.stop_lossy();
    orderly(running);
    println!("{counted} of {} packets dropped by the kernel", arrivals.sent);
    assert!(counted > 10, "{counted}");
    // The probes of the shaper itself may have waited too.
    let lost = arrivals.lost();
    assert!(lost <= counted && counted <= lost + 4, "{lost} lost, {counted} counted");
    Ended::Passed
}

/// A packet waits with its route. When that is replaced, the kernel discards what waits as it leaves, without a word; the
/// interface's own counter shows it.
pub fn packets_whose_route_goes_are_counted_and_reported() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let lead = |via: Option<IpAddr>| {
        let work = || {
            let mut rtnl = Rtnl::open()?;
            let index = Some(rtnl.index(DEVICE)?);
            rtnl.add_route(Route { to: Some((RIGHT[0], 32)), via, index })
        };
        pair.left.run(work).unwrap().unwrap();
    };
    lead(None);
    let mut running = shaped(&pair, &scratch, "");
    let traffic = Traffic::start(&pair, PAYLOAD, DOUBLE);
    // However late a busy machine lets the sender be.
    let waiting = |shown: &serde_json::Value| shown["directions"][0]["classes"][0]["queue_packets"].as_u64();
    until(&pair, &scratch, "a queue", |shown| waiting(shown).is_some_and(|packets| packets > 150));
    lead(Some(RIGHT[0]));
    running.says("packets that waited, ");
    traffic.until(600);
    let shown = status(&pair, &scratch);
    let counted = shown["directions"][0]["kernel_dropped_packets"].as_u64().unwrap();
    let arrivals = traffic.stop_lossy();
    orderly(running);
    let lost = arrivals.lost();
    println!("{counted} counted of {lost} that were lost");
    assert!(lost > 100, "the kernel goes on to send them: {lost}");
    // Neighbour discovery and the like pass meanwhile, and each hides one.
    assert!(counted <= lost && counted + 20 >= lost, "{lost} lost, {counted} counted");
    Ended::Passed
}

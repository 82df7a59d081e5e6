//! What goes wrong in the data path of the built command, and what the traffic notices: faults are injected while
//! packets wait, between namespaces, and the longest silence at the receiver is measured.

#[path = "../../live/tests/support/mod.rs"]
mod support;

mod running;

use std::os::unix::process::ExitStatusExt;
use std::thread;
use std::time::{Duration, SystemTime};

use running::{Arrivals, Running, Scratch, Traffic, until_not_in_force};
use support::{DEVICE, Ended, Pair};
use tidegate_live::rtnl::Rtnl;

/// 1 Mbit/s; packets of the test are 500 bytes with headers, so 250 of them leave in a second.
const SHAPER: &str = "version = 1\n[shaper]\nrate = \"1mbit\"\nburst = \"3000B\"\n\
    [[class]]\nname = \"rest\"\nrate = \"1mbit\"\nburst = \"3000B\"\ndefault = true\n";
const PAYLOAD: usize = 472;
/// The promise: traffic passes again within this.
const PROMISE: Duration = Duration::from_secs(1);

fn shaped(pair: &Pair, scratch: &Scratch, fault: &str) -> Running {
    let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
    command.arg("run").arg(scratch.write("shaper.toml", SHAPER)).args(["--interface", DEVICE]);
    command.arg("--control").arg(scratch.0.join("control"));
    if !fault.is_empty() {
        command.args(["--inject", fault]);
    }
    let mut running = Running::start(command);
    running.says("is in force");
    running
}

fn status(pair: &Pair, scratch: &Scratch) -> serde_json::Value {
    let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
    let output = command.arg("status").arg("--json").arg("--control").arg(scratch.0.join("control")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Traffic faster than the shaper, so that packets always wait, while `fault` happens and `what` is done.
fn under(fault: &str, what: impl FnOnce(&Pair, &Scratch, &mut Running)) -> (Arrivals, Running) {
    let (pair, scratch) = (Pair::new(), Scratch::new());
    let mut running = shaped(&pair, &scratch, fault);
    // 1,000,000 / (500 B * 8) = 250 packets a second fit; one each 3.8 ms is 5 % more.
    let traffic = Traffic::start(&pair, PAYLOAD, Duration::from_micros(3_800));
    what(&pair, &scratch, &mut running);
    (traffic.stop(), running)
}

fn orderly(running: Running) -> String {
    running.signal(libc::SIGINT);
    let (status, _, said) = running.end();
    assert!(status.success(), "{status}: {said}");
    assert!(said.contains("nothing is left behind"), "{said}");
    said
}

fn nothing_lost(arrivals: &Arrivals) {
    assert_eq!((arrivals.lost(), arrivals.reordered()), (0, 0), "of {} sent", arrivals.sent);
}

fn passes_within_a_second(what: &str, arrivals: &Arrivals) {
    let gap = arrivals.longest_gap();
    println!("{what}: {} ms of silence, {} of {} lost", gap.as_millis(), arrivals.lost(), arrivals.sent);
    assert!(arrivals.at.len() > 300, "{} arrived", arrivals.at.len());
    assert!(gap < PROMISE, "{what}: nothing passed for {gap:?}");
}

fn a_stalled_data_path_is_let_pass_and_started_again() -> Ended {
    // It would be stuck for 3 s; again and again, one second after each start.
    let (arrivals, running) = under("stall:1s:3s", |pair, scratch, running| {
        running.says("the data path is stalled");
        running.says("is in force again");
        assert_eq!(status(pair, scratch)["in_force"], true);
        thread::sleep(Duration::from_secs(2));
    });
    passes_within_a_second("stall", &arrivals);
    assert_eq!(arrivals.lost(), 0, "of {} sent", arrivals.sent);
    let said = orderly(running);
    assert!(said.contains("traffic passes unshaped; starting again at once"), "{said}");
    // A packet that comes in the very moment in which the rules change may overtake the one before it.
    let stalls = said.matches("the data path is stalled").count();
    assert!(arrivals.reordered() <= stalls, "{} reordered by {stalls} stalls", arrivals.reordered());
    Ended::Passed
}

fn a_panic_in_a_discipline_is_caught_and_said() -> Ended {
    let (arrivals, running) = under("panic:500ms", |pair, scratch, running| {
        running.says("the discipline panicked: a fault was injected");
        running.says("is in force again");
        // It panics again after half a second, and now there is a pause, longer each time: then the reason is shown.
        running.says("starting again in 1 s");
        let shown = until_not_in_force(|| status(pair, scratch));
        assert!(shown["trouble"].as_str().unwrap().contains("panicked"), "{shown}");
        thread::sleep(Duration::from_millis(1_500));
    });
    passes_within_a_second("panic", &arrivals);
    assert_eq!(arrivals.lost(), 0, "of {} sent", arrivals.sent);
    let said = orderly(running);
    let panics = said.matches("the discipline panicked").count();
    assert!(arrivals.reordered() <= panics, "{} reordered by {panics} panics", arrivals.reordered());
    Ended::Passed
}

fn a_clock_that_goes_back_stops_nothing() -> Ended {
    let (arrivals, mut running) = under("back:500ms:10s", |_, _, _| thread::sleep(Duration::from_secs(3)));
    passes_within_a_second("clock back", &arrivals);
    nothing_lost(&arrivals);
    running.says("the clock went back by");
    orderly(running);
    Ended::Passed
}

fn a_clock_that_jumps_ahead_makes_no_burst() -> Ended {
    let (arrivals, mut running) = under("forward:500ms:10s", |_, _, _| thread::sleep(Duration::from_secs(3)));
    passes_within_a_second("clock ahead", &arrivals);
    nothing_lost(&arrivals);
    // In 200 ms: 50 by the rate, 6 by each of the two buckets, and what a late process catches up with: 20 ms, 5. The
    // 10 s that did not pass would have let all of the queue go.
    let most = arrivals.most_within(Duration::from_millis(200));
    println!("clock ahead: at most {most} packets in 200 ms");
    assert!(most <= 50 + 12 + 5, "{most} packets in 200 ms");
    running.says("no time was given to the data path for 10");
    orderly(running);
    Ended::Passed
}

fn memory_refused_ends_the_process_and_stops_no_traffic() -> Ended {
    let (arrivals, running) = under("memory:1s", |_, _, _| thread::sleep(Duration::from_secs(3)));
    passes_within_a_second("memory", &arrivals);
    let (status, _, said) = running.end();
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{said}");
    assert!(said.contains("memory allocation of"), "{said}");
    // The kernel drops what a dying process held; no more than waited.
    assert!(arrivals.lost() < arrivals.sent / 4, "{} of {} lost", arrivals.lost(), arrivals.sent);
    Ended::Passed
}

fn a_renamed_interface_stays_shaped() -> Ended {
    let (arrivals, running) = under("", |pair, scratch, running| {
        thread::sleep(Duration::from_millis(500));
        pair.left
            .run(|| {
                let mut rtnl = Rtnl::open().unwrap();
                let index = rtnl.index(DEVICE).unwrap();
                rtnl.rename(index, "uplink0").unwrap();
            })
            .unwrap();
        running.says("tg0 is called uplink0 now; shaping follows it");
        running.says("shaping uplink0 is in force");
        assert_eq!(status(pair, scratch)["interface"], "uplink0");
        thread::sleep(Duration::from_millis(1_500));
        let shown = status(pair, scratch);
        assert!(shown["directions"][0]["classes"][0]["through_packets"].as_u64().unwrap() > 200, "{shown}");
    });
    passes_within_a_second("rename", &arrivals);
    orderly(running);
    Ended::Passed
}

fn a_link_that_goes_down_and_up_stays_shaped() -> Ended {
    let (pair, scratch) = (Pair::new(), Scratch::new());
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
    let traffic = Traffic::start(&pair, PAYLOAD, Duration::from_millis(2));
    thread::sleep(Duration::from_secs(2));
    let arrivals = traffic.stop();
    // 500 a second are sent, 250 pass.
    let most = arrivals.most_within(Duration::from_secs(1));
    assert!((200..=275).contains(&most), "{most} packets in a second");
    orderly(running);
    Ended::Passed
}

/// A stopped process is what a suspended machine is to us: no time passes for it, and then much has.
fn a_suspended_process_makes_no_burst_when_it_wakes() -> Ended {
    let (pair, scratch) = (Pair::new(), Scratch::new());
    let mut running = shaped(&pair, &scratch, "");
    running.signal(libc::SIGSTOP);
    thread::sleep(Duration::from_secs(4));
    let traffic = Traffic::start(&pair, PAYLOAD, Duration::from_millis(2));
    thread::sleep(Duration::from_millis(100));
    let woken = SystemTime::now();
    running.signal(libc::SIGCONT);
    thread::sleep(Duration::from_secs(2));
    let mut arrivals = traffic.stop();
    arrivals.at.retain(|(time, _)| *time >= woken);
    let most = arrivals.most_within(Duration::from_millis(200));
    println!("woken: at most {most} packets in 200 ms");
    assert!(most <= 50 + 12 + 5, "{most} packets in 200 ms");
    running.says("no time was given to the data path");
    orderly(running);
    Ended::Passed
}

fn main() -> ! {
    support::main_with(
        &[
            ("a_stalled_data_path_is_let_pass_and_started_again", a_stalled_data_path_is_let_pass_and_started_again),
            ("a_panic_in_a_discipline_is_caught_and_said", a_panic_in_a_discipline_is_caught_and_said),
            ("a_clock_that_goes_back_stops_nothing", a_clock_that_goes_back_stops_nothing),
            ("a_clock_that_jumps_ahead_makes_no_burst", a_clock_that_jumps_ahead_makes_no_burst),
            (
                "memory_refused_ends_the_process_and_stops_no_traffic",
                memory_refused_ends_the_process_and_stops_no_traffic,
            ),
            ("a_renamed_interface_stays_shaped", a_renamed_interface_stays_shaped),
            ("a_link_that_goes_down_and_up_stays_shaped", a_link_that_goes_down_and_up_stays_shaped),
            ("a_suspended_process_makes_no_burst_when_it_wakes", a_suspended_process_makes_no_burst_when_it_wakes),
        ],
        &[
            "a_clock_that_goes_back_stops_nothing",
            "a_clock_that_jumps_ahead_makes_no_burst",
            "a_renamed_interface_stays_shaped",
            "a_link_that_goes_down_and_up_stays_shaped",
            "a_suspended_process_makes_no_burst_when_it_wakes",
        ],
    )
}

//! A discipline of another crate that panics while packets are queued in it, under live traffic. The binary is this
//! test's own, with the discipline, as `tidegate new-qdisc` would make it.

use std::collections::VecDeque;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::running::{Arrivals, Running, Traffic, until_trouble};
use tidegate_config::discipline::{Kind, Site};
use tidegate_config::record;
use tidegate_core::{AnyPacket, Backlog, Deadline, Instant as Time, Outlet, Packet, Qdisc, Queued, Span};
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::steady::patiently;
use tidegate_testbed::veth::{DEVICE, Pair};

/// Set for the process that is the command.
pub const AS_COMMAND: &str = "TIDEGATE_TEST_AS_COMMAND";
/// 250 packets of 500 bytes leave in a second.
const EACH: Span = Span::from_millis(4);
const PAYLOAD: usize = 472;
const PROMISE: Duration = Duration::from_secs(1);

record! {
    /// A paced queue with a bug.
    pub struct Faulty as "faulty queue" {
        /// The call of enqueue that panics. Default: none.
        pub enqueue: Option<u64>,
        /// The call of dequeue that panics. Default: none.
        pub dequeue: Option<u64>,
        /// The call of deadline that panics. Default: none.
        pub deadline: Option<u64>,
        /// Whether it panics when it is built. Default: no.
        pub build: bool = false,
        /// Whether it panics when it is thrown away. Default: no.
        pub drop: bool = false,
    }
}

impl Kind for Faulty {
    const KIND: &'static str = "faulty";
    fn build(&self, site: &Site) -> Box<dyn Qdisc<AnyPacket>> {
        assert!(!self.build, "a bug in build");
        let [enqueue, dequeue, deadline] = [self.enqueue, self.dequeue, self.deadline].map(Countdown::new);
        Box::new(Queue { waiting: VecDeque::new(), next: site.now, enqueue, dequeue, deadline, drop: self.drop })
    }
}

/// Panics in the `n`-th call.
#[derive(Debug)]
struct Countdown {
    at: Option<u64>,
    turns: std::cell::Cell<u64>,
}

impl Countdown {
    fn new(at: Option<u64>) -> Self {
        Self { at, turns: std::cell::Cell::new(0) }
    }
    fn turn(&self, call: &str, waiting: usize) {
        self.turns.set(self.turns.get() + 1);
        assert!(self.at != Some(self.turns.get()), "a bug in {call}, and {waiting} packets wait");
    }
}

struct Queue {
    waiting: VecDeque<AnyPacket>,
    next: Time,
    enqueue: Countdown,
    dequeue: Countdown,
    deadline: Countdown,
    drop: bool,
}

impl Qdisc<AnyPacket> for Queue {
    fn enqueue(&mut self, _now: Time, packet: AnyPacket, _out: &mut dyn Outlet<AnyPacket>) -> Queued {
        // In the middle: the packet is queued, and no other part knows it yet.
        self.waiting.push_back(packet);
        self.enqueue.turn("enqueue", self.waiting.len());
        Queued::default()
    }
    fn dequeue(&mut self, now: Time, _out: &mut dyn Outlet<AnyPacket>) -> Option<AnyPacket> {
        if now < self.next {
            return None;
        }
        // In the middle as well: it is dequeued, and no other part has it.
        let packet = self.waiting.pop_front()?;
        self.dequeue.turn("dequeue", self.waiting.len());
        self.next = now + EACH;
        Some(packet)
    }
    fn deadline(&self, now: Time) -> Deadline {
        if !self.waiting.is_empty() {
            self.deadline.turn("deadline", self.waiting.len());
        }
        if self.waiting.is_empty() { Deadline::Idle } else { Deadline::at(self.next, now) }
    }
    fn backlog(&self) -> Backlog {
        let mut backlog = Backlog::default();
        self.waiting.iter().for_each(|packet| backlog.add(packet.size()));
        backlog
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        assert!(!self.drop || thread::panicking(), "a bug in drop");
    }
}

fn command(pair: &Pair) -> Command {
    let mut command = pair.left.command(std::env::current_exe().unwrap()).unwrap();
    command.env(AS_COMMAND, "yes");
    command
}

fn status(pair: &Pair, scratch: &Folder) -> serde_json::Value {
    let output = command(pair).args(["status", "--json", "--control"]).arg(scratch.0.join("control")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Traffic 5 % faster than the discipline passes it, while it panics, is restarted, panics again and is restarted
/// after a pause.
fn under(bug: &str, reason: &str) -> (Arrivals, String) {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let file = scratch.write("shaper.toml", format!("version = 1\n[discipline]\nkind = \"faulty\"\n{bug}\n"));
    let mut running = command(&pair);
    running.arg("run").arg(file).args(["--interface", DEVICE, "--control"]).arg(scratch.0.join("control"));
    let mut running = Running::start(running);
    running.says("is in force");
    let traffic = Traffic::start(&pair, PAYLOAD, Duration::from_micros(3_800));
    running.says(&format!("the discipline panicked: {reason}"));
    running.says("traffic passes unshaped; the next start is tried now");
    running.says("is in force again");
    running.says("traffic passes unshaped; the next start is tried in 1 s");
    // It panics again and again, with longer pauses: one of them is seen.
    until_trouble(reason, || status(&pair, &scratch));
    // After the pause: it is in force for a third time.
    running.says_times("is in force again", 2);
    let arrivals = traffic.stop();
    running.signal(libc::SIGINT);
    let (status, _, said) = running.end();
    assert!(status.success() && said.contains("nothing is left behind"), "{status}: {said}");
    (arrivals, said)
}

/// The kernel holds each packet until its verdict: packets that a discipline held when it panicked are released by
/// one verdict for all, in order.
fn nothing_is_lost(what: &str, arrivals: &Arrivals, said: &str) -> Result<(), String> {
    let gap = arrivals.longest_gap();
    println!("{what}: {} ms of silence, {} of {} lost", gap.as_millis(), arrivals.lost(), arrivals.sent);
    assert!(arrivals.at.len() > 200, "{} arrived", arrivals.at.len());
    assert_eq!(arrivals.lost(), 0, "of {} sent", arrivals.sent);
    arrivals.in_order_but_for(said.matches("traffic passes unshaped").count())?;
    if gap < PROMISE { Ok(()) } else { Err(format!("{what}: nothing passed for {gap:?}")) }
}

fn loses_nothing(bug: &str, reason: &str) -> Ended {
    patiently(|| {
        let (arrivals, said) = under(bug, reason);
        nothing_is_lost(bug, &arrivals, &said)
    })
}

pub fn a_bug_in_enqueue_loses_nothing() -> Ended {
    // By then 300 have arrived and 285 have left: about 15 are queued.
    loses_nothing("enqueue = 300", "a bug in enqueue, and")
}

pub fn a_bug_in_dequeue_loses_nothing() -> Ended {
    loses_nothing("dequeue = 280", "a bug in dequeue, and")
}

pub fn a_bug_in_deadline_loses_nothing() -> Ended {
    loses_nothing("deadline = 700", "a bug in deadline, and")
}

pub fn a_bug_in_what_is_done_after_a_bug_loses_nothing() -> Ended {
    loses_nothing("dequeue = 280\ndrop = true", "a bug in dequeue, and")
}

pub fn bugs_when_it_is_built_or_thrown_away_stop_nothing() -> Ended {
    patiently(bugs_when_it_is_built_or_thrown_away)
}

fn bugs_when_it_is_built_or_thrown_away() -> Result<(), String> {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let file = |name, bug| scratch.write(name, format!("version = 1\n[discipline]\nkind = \"faulty\"\n{bug}\n"));
    let mut running = command(&pair);
    let good = file("good.toml", "drop = true");
    running.arg("run").arg(&good).args(["--interface", DEVICE, "--control"]).arg(scratch.0.join("control"));
    let mut running = Running::start(running);
    running.says("is in force");
    let traffic = Traffic::start(&pair, PAYLOAD, Duration::from_micros(3_800));
    let apply = |file: &std::path::Path| {
        let output = command(&pair).arg("apply").arg(file).arg("--control").arg(scratch.0.join("control")).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    traffic.until(100);
    // One that cannot be built is refused, and nothing changes.
    let (code, said) = apply(&file("bad.toml", "build = true"));
    assert!(code == Some(2) && said.contains("the discipline cannot be built: it panicked: a bug in build"), "{said}");
    // The old one is dropped with its packets, which wait for the new one.
    let (code, said) = apply(&file("other.toml", "enqueue = 1000000"));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(status(&pair, &scratch)["in_force"], true);
    let (code, said) = apply(&good);
    assert_eq!(code, Some(0), "{said}");
    traffic.until(300);
    let arrivals = traffic.stop();
    assert_eq!(status(&pair, &scratch)["in_force"], true);
    // The last one is dropped at the end.
    running.signal(libc::SIGINT);
    let (status, _, said) = running.end();
    assert!(status.success() && said.contains("nothing is left behind"), "{status}: {said}");
    nothing_is_lost("build and drop", &arrivals, &said)
}

/// 1 Mbit/s, with 0.6 reserved for the test's traffic of 1.05, which queues; reservations are refreshed every 0.3 s.
const CBQ: &str = r#"version = 1
[discipline]
kind = "cbq"
link = "1mbit"
class = [{ name = "rest", rate = "600kbit" }, { name = "reserved", rate = "400kbit" }]
reservations = { class = "reserved", flows = 4, max-rate = "300kbit", lifetime = "1s" }
"#;

pub fn a_reservation_outlives_outages_with_its_command() -> Ended {
    patiently(a_reservation_outlives_outages)
}

fn a_reservation_outlives_outages() -> Result<(), String> {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let control = scratch.0.join("control");
    let mut running = command(&pair);
    running.arg("run").arg(scratch.write("shaper.toml", CBQ)).args(["--interface", DEVICE, "--inject", "panic:1s"]);
    running.arg("--control").arg(&control);
    let mut running = Running::start(running);
    running.says("is in force");
    let mut holder = command(&pair);
    holder.args(["reserve", "--rate", "200kbit", "--bucket", "3kB", "--max-packet", "1400B", "--port", "5004"]);
    holder.args(["--name", "studio", "--control"]).arg(&control);
    let holder = Running::start(holder);
    let listed = || {
        let output = command(&pair).args(["reserve", "--list", "--control"]).arg(&control).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("studio: 200 kbit/s")
    };
    let until_listed = |when: &str| {
        let deadline = Instant::now() + crate::running::PATIENCE;
        while !listed() {
            assert!(Instant::now() < deadline, "not reserved {when}");
            thread::sleep(Duration::from_millis(50));
        }
    };
    until_listed("at first");
    let traffic = Traffic::start(&pair, PAYLOAD, Duration::from_micros(3_800));
    // The second outage lasts for a second: three times it cannot be refreshed.
    running.says("is in force again");
    running.says("traffic passes unshaped; the next start is tried in 1 s");
    running.says_times("is in force again", 2);
    traffic.stop_now();
    until_listed("after the outages");
    holder.signal(libc::SIGTERM);
    let (ended, _, said) = holder.end();
    // Its holder ends on a signal.
    assert!(ended.success(), "{ended}: {said}");
    running.signal(libc::SIGINT);
    assert!(running.end().0.success());
    // It was never lost, so it was not requested again; but a process without processor time for a second has not
    // refreshed it.
    if said.contains("requesting it again") { Err(said) } else { Ok(()) }
}

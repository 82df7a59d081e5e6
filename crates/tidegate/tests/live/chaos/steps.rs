//! The steps of a chaos run, done.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nft::{self, Chain, Family, Ownership, Table};
use tidegate_live::rtnl::Rtnl;
use tidegate_sys::process::signal;
use tidegate_testbed::chaos::{Client, Load, Reader, Step};

use super::stage::{Stage, file};
use super::traffic::{Moment, Packets, Running, VIDEO};

/// From this length of a stop on traffic must pass before its end: the guardian's 500 ms, and as much again for a busy machine.
const PASSES: Duration = Duration::from_secs(1);

/// A guardian waits for ten seconds for a successor; as much again for a busy machine.
const GUARDIAN: Duration = Duration::from_secs(20);

/// A queue of the video flow at its limit of 64 kB leaves within 3 s by its minimum of 600 kbit/s, while 424 kbit/s arrive.
const DRAINS: Duration = Duration::from_secs(10);

/// The kernel tells devices that the carrier has changed once a second.
const LINKWATCH: Duration = Duration::from_millis(1_500);

/// Counts of flows are read once a second, as far as the machine is not busy.
const READ: Duration = Duration::from_millis(1_500);

/// Packets that were let pass and discarded are counted by two comparisons with the interface, one every two seconds, and
/// reported by the next; as much again for a busy machine.
const NOTICED: Duration = Duration::from_secs(8);

/// Fewer that are discarded with their route are not noticed, and as many more hide behind packets that pass unqueued.
const UNNOTICED: u64 = 8 + 8;

/// The packets that a step may lose, each for one reason.
#[derive(Default, Debug)]
pub struct Toll {
    /// They waited when the kernel emptied its queues, which counts them.
    pub waited: Option<Packets>,
    /// They were sent while there was no link.
    pub unlinked: Option<Packets>,
    /// Shaper and guardian held them when both were killed.
    pub killed: Option<Packets>,
    /// As many of those that waited may not be counted.
    pub unnoticed: u64,
    /// A process that has ended may have dropped them after its counts were read, and those counts, of the video flow.
    pub uncounted: Option<(Packets, u64)>,
}

/// The last counts of a process.
struct Last {
    /// A moment before they were taken.
    since: Moment,
    dropped: u64,
}

impl Last {
    /// The packets that the process may have dropped uncounted until its end, which is now, with its counts.
    fn until_now(&self, stage: &Stage) -> (Packets, u64) {
        (self.since.on_the_way_until(&stage.flows.now()), self.dropped)
    }
}

/// The state of each thread of a process, where in the kernel it waits, and how long it has run and waited for a processor.
fn waits(pid: u32) -> Vec<[String; 3]> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let read = |thread: &std::path::Path, file| std::fs::read_to_string(thread.join(file)).unwrap_or_default();
    threads.map(|thread| ["stat", "wchan", "schedstat"].map(|file| read(&thread.path(), file))).collect()
}

/// What acts on the stage, and what it has begun.
pub struct Actor {
    pub stage: Stage,
    loads: BTreeMap<Load, Running>,
    /// The number of the video flow's promise.
    promise: Option<u64>,
    /// Until then the video flow may lack packets that its rivals displaced.
    contested_until: Instant,
}

impl Actor {
    pub fn new(stage: Stage) -> Self {
        Self { stage, loads: BTreeMap::new(), promise: None, contested_until: Instant::now() }
    }

    /// Whether the video flow must lose nothing: it has a minimum or no rivals, and what queued before has left.
    pub fn is_video_safe(&mut self) -> bool {
        // Until now, however long the last step has taken.
        if self.is_contested() {
            self.contested_until = Instant::now() + DRAINS;
        }
        Instant::now() >= self.contested_until
    }

    fn is_contested(&self) -> bool {
        self.promise.is_none() && self.loads.contains_key(&Load::Rivals)
    }

    pub fn end(self) {
        drop(self.loads);
        self.stage.end();
    }

    /// Does a step, and returns when shaping is in force after it. Returns which packets it may have lost.
    pub fn act(&mut self, step: Step) -> Toll {
        let mut toll = Toll::default();
        match step {
            Step::Rate { class, kbit } => {
                let rate = format!("{kbit}kbit");
                self.stage.does(&["set", "class", class, "rate", &rate, "--direction", "up"]);
            }
            Step::Reload { classes } => {
                self.stage.scratch.write("shaper.toml", file(classes));
                self.stage.running.signal(libc::SIGHUP);
                self.stage.until("the file", |status| {
                    let up = &status["directions"][0]["classes"];
                    up.as_array().is_some_and(|all| all.len() as u64 == 3 + classes)
                });
            }
            Step::Broken => {
                let path = self.stage.scratch.with("broken.toml", file(1).replace("200kbit", "200kbyte"));
                let finished = self.stage.run(&["apply", &path]);
                assert!(!finished.is_success && finished.err.contains("broken.toml:"), "{}", finished.err);
            }
            Step::Trial { kbit, confirmed } => self.try_rate(kbit, confirmed),
            Step::Promise => self.promise(),
            Step::Withdraw => {
                if let Some(number) = self.promise.take() {
                    self.stage.does(&["promise", "--release", &number.to_string()]);
                }
            }
            Step::Toggle(load) => self.toggle(load),
            Step::Kill { absent } => {
                toll.uncounted = Some(self.kill());
                thread::sleep(absent);
                self.succeed();
            }
            Step::Desert => {
                toll.uncounted = Some(self.kill());
                self.desert();
            }
            Step::KillBoth => self.kill_both(&mut toll),
            Step::Upgrade => toll.uncounted = Some(self.upgrade()),
            Step::Stop { time } => self.stop(time),
            Step::KillGuardian => self.kill_guardian(),
            Step::Table => self.filter(Vec::new()),
            Step::Chain => {
                let before = self.stage.flows.now();
                self.filter(vec![Chain { name: "early".into(), hook: Some((4, 0)) }]);
                toll.waited = Some(before.on_the_way_until(&self.stage.flows.now()));
                self.stage.until_counted();
            }
            Step::Down { time } => {
                let down = |actor: &mut Self| actor.link(|rtnl, index| rtnl.down(index).unwrap());
                let up = |actor: &mut Self| actor.link(|rtnl, index| rtnl.up(index).unwrap());
                self.without_link(&mut toll, time, down, up);
            }
            Step::Vanish { time } => {
                let down = |actor: &mut Self| actor.stage.pair.disconnect().unwrap();
                let up = |actor: &mut Self| actor.stage.pair.connect().unwrap();
                self.without_link(&mut toll, time, down, up);
            }
            Step::Mtu { bytes } => {
                let before = self.stage.flows.now();
                self.link(move |rtnl, index| rtnl.set_mtu(index, bytes).unwrap());
                // Packets above an earlier MTU have made the kernel remember it, and what waits has its route no more.
                toll.waited = Some(before.on_the_way_until(&self.stage.flows.now()));
                toll.unnoticed = UNNOTICED;
                thread::sleep(NOTICED);
                self.stage.until_counted();
            }
            Step::Hostile(client) => self.misbehave(client),
            Step::Read(reader) => self.read(reader),
        }
        self.stage.until_in_force();
        self.check_promise();
        toll
    }

    /// The counts of the video flow by the process, before it ends; counts of flows are read once a second. A flow that loses
    /// nothing has nothing to count.
    fn last_counts(&mut self) -> Last {
        let since = self.stage.flows.now();
        if self.is_video_safe() {
            return Last { since, dropped: 0 };
        }
        thread::sleep(READ);
        Last { since, dropped: self.stage.dropped("up", VIDEO) }
    }

    /// Kills the shaper. Returns what it may not have counted.
    fn kill(&mut self) -> (Packets, u64) {
        let last = self.last_counts();
        self.stage.running.signal(libc::SIGKILL);
        last.until_now(&self.stage)
    }

    /// Kills shaper and guardian, and starts another shaper.
    fn kill_both(&mut self, toll: &mut Toll) {
        let (last, before) = (self.last_counts(), self.stage.flows.now());
        self.kill_all();
        toll.killed = Some(before.on_the_way_until(&self.stage.flows.now()));
        toll.uncounted = Some(last.until_now(&self.stage));
        self.succeed();
        // Nobody was left to keep it.
        self.promise = None;
    }

    /// Has another shaper take over. Returns what the one before may not have counted.
    fn upgrade(&mut self) -> (Packets, u64) {
        let last = self.last_counts();
        let (status, _, said) = self.stage.launch().end();
        let uncounted = last.until_now(&self.stage);
        assert!(status.success() && said.contains("is left to a successor"), "{status}: {said}");
        self.stage.keep(&said);
        uncounted
    }

    /// Kills shaper and guardians, and waits until the last of them is gone, and with it the queues.
    fn kill_all(&mut self) {
        let all = [self.stage.guardians(), vec![self.stage.pid()]].concat();
        for pid in &all {
            signal(*pid, libc::SIGKILL).unwrap();
        }
        let deadline = Instant::now() + GUARDIAN;
        // The last thread closes the descriptors; then the first one is only waited for.
        let lives = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
            threads > 1 || threads == 1 && !stat.contains(") Z ")
        };
        while all.iter().any(lives) {
            assert!(Instant::now() < deadline, "processes that were killed go on: {all:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Has no link for this time. What waited then is counted by the kernel; what is sent until the link carries packets again
    /// has nowhere to go. Of that the shaper lets pass what is sent as soon as there is an interface, and counts it as it does
    /// packets whose route has gone.
    fn without_link(&mut self, toll: &mut Toll, time: Duration, down: fn(&mut Self), up: fn(&mut Self)) {
        let before = self.stage.flows.now();
        down(self);
        thread::sleep(time);
        up(self);
        thread::sleep(LINKWATCH);
        toll.waited = Some(before.on_the_way());
        toll.unlinked = Some(before.sent_until(&self.stage.flows.now()));
        thread::sleep(NOTICED);
        self.stage.until_counted();
    }

    fn promise(&mut self) {
        if self.promise.is_some() {
            return;
        }
        let port = VIDEO.to_string();
        let words = ["promise", "--port", &port, "--min", "600kbit", "--for", "3h", "--direction", "up"];
        let out = self.stage.does(&words);
        let number = out.split_whitespace().nth(1).and_then(|number| number.trim_end_matches(':').parse().ok());
        self.promise = Some(number.unwrap_or_else(|| panic!("no number in {out}")));
        // Promises are kept for a successor twice a second.
        thread::sleep(Duration::from_millis(1_200));
    }

    /// A promise stays until it is released, whatever happens.
    fn check_promise(&self) {
        let listed = self.stage.ask("promises");
        let numbers = listed["promises"].as_array().into_iter().flatten().filter_map(|one| one["promise"].as_u64());
        assert_eq!(numbers.collect::<Vec<_>>(), Vec::from_iter(self.promise), "{listed}");
    }

    fn toggle(&mut self, load: Load) {
        if self.loads.remove(&load).is_some() {
            return;
        }
        match Running::start(&self.stage.pair, load) {
            Ok(running) => drop(self.loads.insert(load, running)),
            Err(error) => println!("chaos: {load:?} does not start: {error}"),
        }
    }

    /// Starts the successor of a shaper that was killed.
    fn succeed(&mut self) {
        let (_, _, said) = self.stage.launch().end();
        self.stage.keep(&said);
    }

    /// Waits until the guardian of a shaper that was killed has removed the rules.
    fn desert(&mut self) {
        let deadline = Instant::now() + GUARDIAN;
        while !self.stage.tables().is_empty() {
            assert!(Instant::now() < deadline, "the rules of a shaper that was killed stay: {:?}", self.stage.tables());
            thread::sleep(Duration::from_millis(50));
        }
        self.succeed();
        // What nobody has taken over ends with the guardian.
        self.promise = None;
    }

    fn try_rate(&self, kbit: u64, confirmed: bool) {
        let rate = format!("{kbit}kbit");
        let trial = if confirmed { "1h" } else { "500ms" };
        self.stage.does(&["set", "class", "rest", "rate", &rate, "--direction", "up", "--confirm", trial]);
        if confirmed {
            self.stage.does(&["confirm"]);
        }
        self.stage.until("the end of the trial", |status| status["trial_ns"].is_null());
    }

    fn stop(&mut self, time: Duration) {
        let guardians = self.stage.guardians();
        self.stage.running.signal(libc::SIGSTOP);
        if time < PASSES {
            thread::sleep(time);
        } else {
            thread::sleep(PASSES);
            let arrived = || [0, 3].map(|flow| self.stage.flows.arrived(flow));
            let before = arrived();
            let began = Instant::now();
            thread::sleep(time - PASSES);
            // Within a moment: the rest of the time may be shorter than the interval of packets.
            while !arrived().iter().zip(&before).all(|(now, before)| now > before) {
                let waits: Vec<_> = guardians.iter().map(|pid| waits(*pid)).collect();
                assert!(
                    began.elapsed() < Duration::from_secs(3),
                    "nothing passes while the shaper is stopped; guardians: {waits:?}"
                );
                thread::sleep(Duration::from_millis(10));
            }
        }
        self.stage.running.signal(libc::SIGCONT);
    }

    fn kill_guardian(&mut self) {
        let before = self.stage.guardians();
        for pid in &before {
            signal(*pid, libc::SIGKILL).unwrap();
        }
        self.stage.until("another guardian", |status| {
            let directions = status["directions"].as_array().unwrap();
            let other = |pid: u64| !before.iter().any(|old| u64::from(*old) == pid);
            directions.iter().all(|direction| direction["guardian"]["pid"].as_u64().is_some_and(other))
        });
    }

    /// Another program adds a table with these chains, and removes it.
    fn filter(&self, chains: Vec<Chain>) {
        let table = Table { family: Family::Ipv4, name: "other".into(), chains, rules: Vec::new() };
        let change = || {
            let mut socket = Socket::open(Protocol::Netfilter)?;
            nft::create(&mut socket, &[table], Ownership::Persistent)?;
            nft::delete(&mut socket, Family::Ipv4, "other")
        };
        self.stage.pair.sender.namespace.run(change).unwrap().unwrap();
    }

    fn link(&self, work: impl FnOnce(&mut Rtnl, u32) + Send) {
        let host = &self.stage.pair.sender;
        let change = || {
            let mut rtnl = Rtnl::open().unwrap();
            let index = rtnl.index(host.interface).unwrap();
            work(&mut rtnl, index);
        };
        host.namespace.run(change).unwrap();
    }

    fn misbehave(&self, client: Client) {
        const REQUEST: &str = "{\"id\":1,\"version\":1,\"call\":\"status\"}\n";
        let connect = || {
            let stream = self.stage.connect().unwrap();
            stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
            stream
        };
        // It may be refused, cut off or left without an answer; all that counts is how others fare.
        let send = |bytes: &[u8]| {
            let mut stream = connect();
            let _ = stream.write_all(bytes);
            stream
        };
        let _open: Vec<UnixStream> = match client {
            Client::Half => (0..20).map(|_| send(&REQUEST.as_bytes()[..20])).collect(),
            Client::Garbage => {
                let bytes: Vec<u8> = (0..40_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
                (0..20).map(|_| send(&bytes)).collect()
            }
            Client::Long => (0..4).map(|_| send(&[b'x'; 200_000])).collect(),
            Client::Many => (0..200).map(|_| connect()).collect(),
            Client::Deaf => (0..4).map(|_| send(REQUEST.repeat(50).as_bytes())).collect(),
        };
        for _ in 0..4 {
            self.stage.status();
            thread::sleep(Duration::from_millis(250));
        }
    }

    fn read(&self, reader: Reader) {
        match reader {
            Reader::Status => assert!(self.stage.reads(&["status"]).contains("calls")),
            Reader::Top => assert!(self.stage.reads(&["top", "--once"]).contains("calls")),
            Reader::Promises => drop(self.stage.reads(&["promise"])),
            Reader::Metrics => {
                let read = || -> std::io::Result<String> {
                    let mut stream = TcpStream::connect(super::stage::METRICS)?;
                    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
                    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
                    let mut text = String::new();
                    stream.read_to_string(&mut text)?;
                    Ok(text)
                };
                let text = self.stage.pair.sender.namespace.run(read).unwrap().unwrap();
                assert!(text.starts_with("HTTP/1.1 200") && text.contains("calls"), "{text}");
            }
        }
    }
}

//! The guardian: traffic while the shaper is stopped, killed and replaced, and while the guardian itself is.
//!
//! The process of the test only sends and receives; shapers are processes of their own, and their guardians run this
//! test's program (see `main`).

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::guardian::{Condition, Settings};
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nfqueue::queue_counters;
use tidegate_live::nft;
use tidegate_live::shaping::{Options, Shaping, Successor};

use crate::arrivals::{Arrivals, HOSTS, traffic_to};
use crate::queue::PATIENCE;
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;
use tidegate_testbed::veth::{DEVICE, Pair};

/// Packets of 500 bytes, at 2,000 a second: 8 Mbit/s. The shaper lets 7.5 Mbit/s pass, so that packets are held.
const EVERY: Duration = Duration::from_micros(500);
const SHAPER: &str = "version = 1\n[shaper]\nrate = \"7500kbit\"\nburst = \"3000B\"\n\
    [[class]]\nname = \"rest\"\nrate = \"7500kbit\"\nburst = \"3000B\"\ndefault = true\n\
    limit = \"8MB\"\nflow-limit = \"4MB\"\n";

/// A shaper in two threads.
const THREADS: &str = "version = 1\n[interface]\nthreads = 2\n[shaper]\nrate = \"7500kbit\"\nburst = \"3000B\"\n\
    [[class]]\nname = \"rest\"\nrate = \"7500kbit\"\nburst = \"3000B\"\ndefault = true\n\
    limit = \"8MB\"\nflow-limit = \"4MB\"\n";

/// The action of a shaper when its test writes a byte.
const LEAVE: u8 = b'l';
const END: u8 = b'e';
const ADOPTED: u8 = b'a';

/// A process that shapes, of this program. It answers each byte that it is sent with the number of its guardian, or with how many packets
/// data paths have taken from the one before.
struct Shaper {
    child: Child,
    pipe: UnixStream,
}

impl Shaper {
    /// A process that starts to shape when [`start`](Self::start) is called.
    fn spawn(pair: &Pair, directory: &std::path::Path, take_over: bool) -> Self {
        Self::spawn_with(SHAPER, pair, directory, take_over)
    }
    fn spawn_with(file: &str, pair: &Pair, directory: &std::path::Path, take_over: bool) -> Self {
        Self::spawn_at(DEVICE, file, pair, directory, take_over)
    }
    fn spawn_at(interface: &str, file: &str, pair: &Pair, directory: &std::path::Path, take_over: bool) -> Self {
        Self::spawn_as(&take_over.to_string(), interface, file, pair, directory)
    }
    fn spawn_as(role: &str, interface: &str, file: &str, pair: &Pair, directory: &std::path::Path) -> Self {
        let (pipe, theirs) = UnixStream::pair().unwrap();
        pipe.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut command = pair.left.command("/proc/self/exe").unwrap();
        command.args([SHAPE, interface, file]).arg(directory).arg(role);
        let child = command.stdin(OwnedFd::from(theirs)).spawn().unwrap();
        Self { child, pipe }
    }
    /// Sends a byte and returns the answer.
    fn tell(&mut self, byte: u8) -> i32 {
        self.pipe.write_all(&[byte]).unwrap();
        let mut answer = [0; 4];
        self.pipe.read_exact(&mut answer).unwrap();
        i32::from_ne_bytes(answer)
    }
    /// Starts to shape; returns the number of the guardian.
    fn start(&mut self) -> i32 {
        self.tell(b's')
    }
    fn signal(&self, signal: i32) {
        tidegate_sys::process::signal(self.child.id(), signal).unwrap();
    }
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
    /// Its exit code, if it has ended.
    fn ended(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap()?.code()
    }
}

fn kill(process: i32, signal: i32) {
    tidegate_sys::process::signal(process as u32, signal).unwrap();
}

/// The first argument of such a process.
pub const SHAPE: &str = "shape";

/// Does what the arguments after [`SHAPE`] say.
pub fn shape_by(mut arguments: impl Iterator<Item = String>) {
    let mut next = || arguments.next().unwrap();
    let (interface, file, directory, role) = (next(), next(), next(), next());
    let pipe = UnixStream::from(tidegate_sys::process::take_stdin().unwrap());
    shape(interface, &file, pipe, directory.as_ref(), &role);
}

/// The role of a shaper that takes over, and whose guardian is never ready.
const STUCK: &str = "stuck";
/// The role of a shaper whose guardians take two seconds to be ready.
const SLOW: &str = "slow";

/// A guardian that is this program, without a directory, which leaves nothing to another process.
pub fn own() -> Settings {
    Settings {
        program: "/proc/self/exe".into(),
        arguments: vec!["guard-a-shaper".into()],
        directory: None,
        linger: Duration::from_secs(3),
        take_over: false,
        log: None,
    }
}

fn shape(interface: String, file: &str, mut pipe: UnixStream, directory: &std::path::Path, role: &str) {
    let mut byte = [0; 1];
    pipe.read_exact(&mut byte).unwrap();
    let config = shaper::load(&Source::new("shaper", file), &mut Diagnostics::default()).unwrap();
    let slow = format!("sleep 2; exec {} guard-a-shaper", std::env::current_exe().unwrap().display());
    let guardian = match role {
        STUCK => Settings { program: "/bin/sleep".into(), arguments: vec!["30".into()], ..own() },
        SLOW => Settings { program: "/bin/sh".into(), arguments: vec!["-c".into(), slow.into()], ..own() },
        _ => own(),
    };
    let take_over = ![SLOW, "false"].contains(&role);
    let guardian = Settings { directory: Some(directory.to_owned()), take_over, ..guardian };
    let options = Options { interfaces: vec![interface], guardian: Some(guardian), ..Options::default() };
    let mut shaping = Some(Shaping::start(&config, &options).unwrap());
    assert_eq!(shaping.as_ref().and_then(Shaping::unguarded), None);
    pipe.set_nonblocking(true).unwrap();
    loop {
        if byte[0] != 0 {
            let process = shaping.as_ref().and_then(|shaping| shaping.guardians().next()?.process());
            let pages = shaping.iter().flat_map(Shaping::pages);
            let adopted = pages.map(|page| page.adopted() as u32).sum();
            let answer = if byte[0] == ADOPTED { adopted } else { process.unwrap_or(0) };
            pipe.write_all(&answer.to_ne_bytes()).unwrap();
            byte[0] = 0;
        }
        thread::sleep(Duration::from_millis(5));
        let condition = shaping.as_mut().unwrap().tend_guardian();
        let _ = pipe.read(&mut byte);
        if byte[0] == LEAVE {
            // To the next data path of this process.
            let left = shaping.take().unwrap().leave(Successor::Ready);
            assert!(left.is_some());
            shaping = Some(Shaping::start_from(&config, &options, left).unwrap());
        }
        if byte[0] == END {
            shaping.take().unwrap().stop().unwrap();
            pipe.write_all(&[0; 4]).unwrap();
            return;
        }
        if condition == Condition::Successor {
            drop(shaping.take().unwrap().leave(Successor::Ready));
            return;
        }
    }
}

/// Numbered datagrams from left to right, 2,000 a second, while `work` runs.
fn traffic(pair: &Pair, work: impl FnOnce(&dyn Fn(u64))) -> Arrivals {
    traffic_to(1, EVERY, pair, work)
}

/// A directory for the sockets of guardians.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-guardian-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tables(pair: &Pair) -> usize {
    pair.left.run(|| nft::tables(&mut Socket::open(Protocol::Netfilter).unwrap()).unwrap().len()).unwrap()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// How long traffic may pause when the shaper is silent, and when it ends; and what a busy machine adds.
const SILENT: Duration = Duration::from_millis(500);
const GONE: Duration = Duration::from_millis(50);

pub fn a_stopped_shaper_loses_nothing_and_shapes_again_when_it_continues() -> Ended {
    patiently(|| {
        let (pair, directory) = (Pair::new(), Directory::new());
        let mut shaper = Shaper::spawn(&pair, &directory.0, false);
        assert_ne!(shaper.start(), 0);
        let arrivals = traffic(&pair, |until| {
            until(1_500);
            shaper.signal(libc::SIGSTOP);
            until(2_000);
            shaper.signal(libc::SIGCONT);
            until(1_500);
            shaper.tell(END);
        });
        arrivals.all_in_order();
        assert_eq!(tables(&pair), 0, "nothing is left behind");
        arrivals.within(SILENT)
    })
}

/// Waits until the rules and the sockets of a shaper that was killed are gone.
fn until_nothing_is_left(pair: &Pair, directory: &Directory) {
    until("the rules remain", || tables(pair) == 0);
    until("a socket remains", || directory.0.read_dir().unwrap().count() == 0);
}

pub fn a_killed_shaper_loses_nothing_and_its_rules_go() -> Ended {
    patiently(|| {
        let (pair, directory) = (Pair::new(), Directory::new());
        let mut shaper = Shaper::spawn(&pair, &directory.0, false);
        shaper.start();
        let arrivals = traffic(&pair, |until| {
            until(1_500);
            shaper.kill();
            // Longer than the guardian waits for a successor.
            until(8_000);
        });
        arrivals.all_in_order();
        until_nothing_is_left(&pair, &directory);
        arrivals.within(GONE)
    })
}

/// The sender is late, because its socket waits for what the shaper holds, and catches up in a burst when the shaper ends.
pub fn an_end_that_causes_a_burst_keeps_the_order() -> Ended {
    let (pair, directory) = (Pair::new(), Directory::new());
    let shapers: Vec<Shaper> = (0..4).map(|_| Shaper::spawn(&pair, &directory.0, false)).collect();
    for mut shaper in shapers {
        shaper.start();
        let arrivals = traffic_to(1, EVERY / 2, &pair, |until| {
            until(500);
            shaper.tell(END);
            until(200);
        });
        arrivals.all_in_order();
    }
    Ended::Passed
}

/// When a chain of the packet filter comes, the kernel may queue what waits a second time; when one goes, it drops what waits in any
/// queue of the network namespace.
pub fn another_shaper_that_starts_and_ends_loses_and_reorders_nothing() -> Ended {
    patiently(|| {
        let (pair, directory) = (Pair::new(), Directory::new());
        let mut shaper = Shaper::spawn(&pair, &directory.0, false);
        let others =
            ["lo", "lo", "lo"].map(|interface| Shaper::spawn_at(interface, SHAPER, &pair, &directory.0, false));
        shaper.start();
        let mut held = Vec::new();
        let arrivals = traffic(&pair, |until| {
            for mut other in others {
                other.start();
                until(500);
                held.extend(waiting(&pair));
                other.tell(END);
                until(200);
            }
            shaper.tell(END);
        });
        // One that arrives in the very moment of a change waits for its verdict; more do if a thread gets no processor.
        if arrivals.lost + arrivals.reordered > 6 {
            return Err(format!("{} lost, {} reordered", arrivals.lost, arrivals.reordered));
        }
        assert_eq!(tables(&pair), 0, "nothing is left behind");
        arrivals.within(SILENT)?;
        if held.iter().all(|held| *held > 5) { Ok(()) } else { Err(format!("so many waited at each end: {held:?}")) }
    })
}

/// The packets that wait in all queues of the left host, where the kernel shows them.
fn waiting(pair: &Pair) -> Option<u32> {
    let queues = pair.left.run(queue_counters).unwrap().ok()?;
    Some(queues.iter().map(|queue| queue.waiting).sum())
}

pub fn a_successor_takes_over_from_a_killed_shaper_and_from_one_that_runs() -> Ended {
    patiently(|| {
        let (pair, directory) = (Pair::new(), Directory::new());
        let mut first = Shaper::spawn(&pair, &directory.0, false);
        let mut second = Shaper::spawn(&pair, &directory.0, false);
        let mut third = Shaper::spawn(&pair, &directory.0, true);
        let mut adopted = 0;
        first.start();
        let arrivals = traffic(&pair, |until| {
            until(1_500);
            first.kill();
            until(200);
            second.start();
            until(1_500);
            third.start();
            until(1_500);
            assert_eq!(tables(&pair), 1);
            adopted = third.tell(ADOPTED);
            third.tell(END);
        });
        arrivals.all_in_order();
        assert_eq!(second.ended(), Some(0));
        assert_eq!(tables(&pair), 0);
        arrivals.within(GONE)?;
        // The second one has shaped for long enough to hold some.
        if adopted > 0 { Ok(()) } else { Err("what the second shaper held has passed at once".into()) }
    })
}

/// A successor that is killed before its guardian watches leaves all to the next one: the guardian before it can still be reached.
pub fn a_successor_that_is_killed_unguarded_leaves_all_to_the_next() -> Ended {
    let (pair, directory) = (Pair::new(), Directory::new());
    let mut first = Shaper::spawn(&pair, &directory.0, false);
    let mut stuck = Shaper::spawn_as(STUCK, DEVICE, SHAPER, &pair, &directory.0);
    let mut third = Shaper::spawn(&pair, &directory.0, true);
    first.start();
    let arrivals = traffic(&pair, |passed| {
        passed(1_000);
        stuck.pipe.write_all(b"s").unwrap();
        let deadline = Instant::now() + PATIENCE;
        while first.ended().is_none() {
            assert!(Instant::now() < deadline, "the first one goes on");
            thread::sleep(Duration::from_millis(5));
        }
        passed(1_000);
        stuck.kill();
        passed(200);
        third.start();
        passed(1_000);
        assert_eq!(tables(&pair), 1);
        third.tell(END);
    });
    arrivals.all_in_order();
    assert_eq!(tables(&pair), 0);
    Ended::Passed
}

pub fn a_guardian_that_ends_or_stops_is_replaced() -> Ended {
    let (pair, directory) = (Pair::new(), Directory::new());
    let mut shaper = Shaper::spawn(&pair, &directory.0, false);
    let first = shaper.start();
    let arrivals = traffic(&pair, |passed| {
        passed(500);
        kill(first, libc::SIGKILL);
        let mut second = first;
        let deadline = Instant::now() + PATIENCE;
        while second == first {
            assert!(Instant::now() < deadline, "no other guardian");
            second = shaper.tell(b'?');
        }
        kill(second, libc::SIGSTOP);
        let mut third = second;
        while third == second {
            assert!(Instant::now() < deadline, "the stopped guardian stays");
            third = shaper.tell(b'?');
        }
        // The last one does what the first one would have done.
        shaper.signal(libc::SIGSTOP);
        passed(2_000);
        shaper.signal(libc::SIGCONT);
        passed(500);
        shaper.tell(END);
    });
    arrivals.all_in_order();
    Ended::Passed
}

/// A shaper that is stopped while it replaces a guardian leaves either that one or the next: where the earlier one was silent for a
/// while and the next is not ready yet, and where the earlier one has been told to end.
pub fn a_shaper_that_is_stopped_between_two_guardians_lets_packets_pass() -> Ended {
    patiently(|| {
        for (role, byte, ready) in [(SLOW, None, Duration::ZERO), ("false", Some(LEAVE), Duration::from_millis(600))] {
            let (pair, directory) = (Pair::new(), Directory::new());
            let mut shaper = Shaper::spawn_as(role, DEVICE, SHAPER, &pair, &directory.0);
            let first = shaper.start();
            let arrivals = traffic(&pair, |passed| {
                passed(1_000);
                kill(first, libc::SIGSTOP);
                if let Some(byte) = byte {
                    shaper.pipe.write_all(&[byte]).unwrap();
                }
                until("no other guardian", || children_of(shaper.child.id()).iter().any(|child| *child != first));
                thread::sleep(ready);
                shaper.signal(libc::SIGSTOP);
                kill(first, libc::SIGCONT);
                passed(6_000);
                shaper.signal(libc::SIGCONT);
                if byte.is_some() {
                    // It answers once the next data path shapes.
                    shaper.pipe.read_exact(&mut [0; 4]).unwrap();
                }
                passed(500);
                shaper.tell(END);
            });
            arrivals.all_in_order();
            assert_eq!(tables(&pair), 0);
            arrivals.within(SILENT * 2)?;
        }
        Ok(())
    })
}

/// The processes that a process has started.
fn children_of(process: u32) -> Vec<i32> {
    let parent = |stat: &str| stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |child: &i32| {
        std::fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|stat| parent(&stat) == Some(process))
    };
    numbers.filter(is_child).collect()
}

pub fn a_data_path_leaves_its_queue_and_what_is_in_it_to_the_next_one() -> Ended {
    patiently(|| {
        let (pair, directory) = (Pair::new(), Directory::new());
        let mut shaper = Shaper::spawn(&pair, &directory.0, false);
        let mut adopted = 0;
        shaper.start();
        let arrivals = traffic(&pair, |until| {
            for _ in 0..3 {
                until(700);
                shaper.tell(LEAVE);
            }
            until(700);
            adopted = shaper.tell(ADOPTED);
            shaper.tell(END);
        });
        arrivals.all_in_order();
        assert_eq!(tables(&pair), 0);
        if adopted > 0 { Ok(()) } else { Err("what was held has passed at once, each time".into()) }
    })
}

/// A successor takes over both threads of a killed process and of one that runs, and then goes to one thread, which divides
/// the flows in another way.
pub fn a_successor_takes_over_all_threads() -> Ended {
    patiently(|| {
        let (pair, directory) = (Pair::new(), Directory::new());
        let mut first = Shaper::spawn_with(THREADS, &pair, &directory.0, false);
        let mut second = Shaper::spawn_with(THREADS, &pair, &directory.0, false);
        let mut third = Shaper::spawn_with(THREADS, &pair, &directory.0, true);
        let mut fourth = Shaper::spawn(&pair, &directory.0, true);
        let mut adopted = [0; 2];
        first.start();
        let arrivals = traffic_to(HOSTS, EVERY, &pair, |until| {
            until(1_500);
            first.kill();
            until(200);
            second.start();
            until(1_500);
            second.tell(LEAVE);
            until(1_500);
            adopted[0] = second.tell(ADOPTED);
            third.start();
            until(1_500);
            adopted[1] = third.tell(ADOPTED);
            fourth.start();
            until(1_500);
            assert_eq!(tables(&pair), 1);
            fourth.tell(END);
        });
        arrivals.all_in_order();
        assert_eq!((second.ended(), third.ended()), (Some(0), Some(0)));
        assert_eq!(tables(&pair), 0);
        arrivals.within(GONE)?;
        if adopted[0] > 0 && adopted[1] > adopted[0] {
            Ok(())
        } else {
            Err(format!("what was held has passed at once, {adopted:?} were taken over"))
        }
    })
}

/// The guardian of each thread lets its packets pass.
pub fn threads_that_stop_and_are_killed_lose_nothing() -> Ended {
    patiently(|| {
        let (pair, directory) = (Pair::new(), Directory::new());
        let mut shaper = Shaper::spawn_with(THREADS, &pair, &directory.0, false);
        shaper.start();
        let arrivals = traffic_to(HOSTS, EVERY, &pair, |until| {
            until(1_500);
            shaper.signal(libc::SIGSTOP);
            until(2_000);
            shaper.signal(libc::SIGCONT);
            until(1_500);
            shaper.kill();
            until(8_000);
        });
        arrivals.all_in_order();
        until_nothing_is_left(&pair, &directory);
        arrivals.within(SILENT)
    })
}

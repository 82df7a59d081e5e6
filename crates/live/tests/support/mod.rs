//! A harness for tests that need network namespaces.
//!
//! Every test runs in a process of its own, forked from a `main` with one thread, so that it may create namespaces
//! and fork again, and so that a hang or a crash affects that test only. As root each test runs twice: as root, and as
//! an unprivileged user through a user namespace.
#![allow(dead_code)] // Each test target uses a part of it.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::exit;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tidegate_live::netns::{self, Namespace};
use tidegate_live::nfqueue::{QueueSettings, QueueSocket};
use tidegate_live::rtnl::{Address, Rtnl, sysctl};
use tidegate_live::rules::{Rules, Spec};
use tidegate_live::sys::map::memory_file;
use tidegate_live::sys::process;
pub use tidegate_live::sys::process::Child;

pub mod steady;

/// How a test ended without failing.
pub enum Ended {
    Passed,
    Skipped(String),
    /// Skipped since the machine was not steady enough to measure.
    Unsteady(String),
}

pub type Test = (&'static str, fn() -> Ended);

const NOBODY: u32 = 65_534;
/// How long a test may take: one that measures again and again until the machine is steady, [`steady`], takes long.
const LIMIT: Duration = Duration::from_secs(240);
const SKIPPED: i32 = 77;
const UNSTEADY: i32 = 78;

/// Runs the tests whose name, with the mode before it (`root::` or `rootless::`), contains one of the arguments, two at
/// a time or as `--test-threads` or `RUST_TEST_THREADS` specify. Understands as much of libtest's command line as
/// `cargo test` uses.
pub fn main(tests: &[Test]) -> ! {
    main_with(tests, &[])
}

/// The same; the tests named in `once`, long ones to which privileges make no difference, run in one mode only.
pub fn main_with(tests: &[Test], once: &[&str]) -> ! {
    let (mut filters, mut skips) = (vec![], vec![]);
    let mut list = false;
    let mut threads = std::env::var("RUST_TEST_THREADS").ok();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--list" => list = true,
            "--skip" => skips.extend(arguments.next()),
            "--test-threads" => threads = arguments.next(),
            "--format" | "-Z" => drop(arguments.next()),
            a if a.starts_with('-') => {}
            _ => filters.push(argument),
        }
    }
    // They wait more than they compute; more of them would disturb each other's measurements.
    let threads = threads.and_then(|number| number.parse().ok()).unwrap_or(2).max(1);
    let contains = |name: &str, parts: &[String]| parts.iter().any(|part| name.contains(part.as_str()));
    let is_chosen = |full: &str| (filters.is_empty() || contains(full, &filters)) && !contains(full, &skips);
    let root = process::effective_user() == 0;
    let mut modes = vec![];
    if root {
        modes.push(("root", false));
    }
    modes.push(("rootless", true));
    let only = modes[0].0;
    let in_mode = |mode: &str| -> Vec<_> {
        let runs = |name: &str| (mode == only || !once.contains(&name)) && is_chosen(&format!("{mode}::{name}"));
        tests.iter().filter(|(name, _)| runs(name)).collect()
    };
    if list {
        for (mode, _) in &modes {
            in_mode(mode).iter().for_each(|(name, _)| println!("{mode}::{name}: test"));
        }
        exit(0);
    }
    // Opened before privileges are dropped; the processes of the tests inherit it.
    let log = std::env::var_os("TIDEGATE_SKIP_LOG")
        .and_then(|path| OpenOptions::new().create(true).append(true).open(path).ok());
    let chosen = modes.into_iter().flat_map(|(mode, rootless)| {
        in_mode(mode).into_iter().map(move |(name, test)| Case { mode, name, test: *test, drop_root: root && rootless })
    });
    let began_all = Instant::now();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let mut waiting: VecDeque<Case> = chosen.collect();
    let (mut running, mut unsteady): (Vec<Running>, Vec<Case>) = (vec![], vec![]);
    // What could not be measured beside another test is measured alone, when all the others have ended.
    let mut alone = false;
    loop {
        let places = if alone { 1 } else { threads };
        while running.len() < places
            && let Some(case) = waiting.pop_front()
        {
            running.push(Running::start(case, alone || threads == 1, log.as_ref()));
        }
        let Some((at, end)) = running.iter().enumerate().find_map(|(at, one)| Some((at, one.end()?))) else {
            if running.is_empty() && unsteady.is_empty() {
                break;
            }
            if running.is_empty() {
                alone = true;
                waiting.extend(unsteady.drain(..));
            }
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let Running { case, began, output, .. } = running.swap_remove(at);
        show(output);
        let (name, seconds) = (format!("{}::{}", case.mode, case.name), began.elapsed().as_secs_f32());
        match end {
            Ok(0) => {
                passed += 1;
                println!("test {name} ... ok ({seconds:.1} s)");
            }
            Ok(SKIPPED) => {
                skipped += 1;
                println!("test {name} ... SKIPPED, reason above");
            }
            Ok(UNSTEADY) => {
                println!("{name} could not be measured beside another test; it runs again alone");
                unsteady.push(case);
            }
            other => {
                failed += 1;
                println!("test {name} ... FAILED ({other:?})");
            }
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    let seconds = began_all.elapsed().as_secs_f32();
    // The format of libtest, for tools that count results.
    println!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; {skipped} ignored; 0 measured; 0 filtered out; \
         finished in {seconds:.2}s\n"
    );
    exit(if failed == 0 { 0 } else { 101 });
}

/// A test in one of its modes.
struct Case {
    mode: &'static str,
    name: &'static str,
    test: fn() -> Ended,
    drop_root: bool,
}

/// A test in its process. What it prints is kept until it ends, since others run beside it.
struct Running {
    case: Case,
    child: Child,
    began: Instant,
    output: File,
}

impl Running {
    /// Starts it; `alone` when no other test runs beside it.
    fn start(case: Case, alone: bool, log: Option<&File>) -> Self {
        let output = File::from(memory_file(c"output").unwrap());
        let child = Child::fork(|| {
            process::redirect_output(&output).unwrap();
            case.run(alone, log)
        });
        Self { case, child, began: Instant::now(), output }
    }

    /// How it ended, if it has: with an exit code, or why without one.
    fn end(&self) -> Option<Result<i32, String>> {
        match self.child.try_wait() {
            Some(end) => Some(end.map_err(|signal| format!("killed by signal {signal}"))),
            None if self.began.elapsed() > LIMIT => {
                self.child.kill();
                Some(Err(format!("still running after {LIMIT:?}")))
            }
            None => None,
        }
    }
}

/// Copies what a test has printed.
fn show(mut output: File) {
    let mut text = Vec::new();
    // A file in memory; what cannot be read or printed is lost and changes no result.
    let _ = output.seek(SeekFrom::Start(0)).and_then(|_| output.read_to_end(&mut text));
    let _ = io::stdout().write_all(&text);
}

impl Case {
    /// Runs the test, and returns the exit code of its process.
    fn run(&self, alone: bool, mut log: Option<&File>) -> i32 {
        let mut skip = |reason: &str| {
            let line = format!("SKIP: {}::{}: {reason}\n", self.mode, self.name);
            eprint!("{line}");
            if let Some(log) = &mut log {
                // The reason has been printed; an error of the log is ignored.
                let _ = log.write_all(line.as_bytes());
            }
            SKIPPED
        };
        if self.drop_root
            && let Err(error) = process::set_user_and_group(NOBODY, NOBODY)
        {
            return skip(&format!("cannot become an unprivileged user: {error}"));
        }
        let promise = netns::available();
        if let Err(reason) = netns::enter() {
            assert!(promise.is_err(), "available() reported that it would work");
            return skip(&reason.to_string());
        }
        if let Err(reason) = Namespace::create().unwrap().run(has_a_data_path).unwrap() {
            return skip(&format!("this kernel has no data path: {reason}"));
        }
        match catch_unwind(AssertUnwindSafe(self.test)) {
            Ok(Ended::Passed) => 0,
            Ok(Ended::Unsteady(_)) if !alone => UNSTEADY,
            Ok(Ended::Skipped(reason) | Ended::Unsteady(reason)) => skip(&reason),
            // With privileges the data path runs before all else, and a stall is its own.
            Err(_)
                if self.drop_root
                    && let Some(reason) = STALL.get() =>
            {
                if alone {
                    skip(reason)
                } else {
                    UNSTEADY
                }
            }
            Err(_) => 101,
        }
    }
}

/// The first stall of a data path in this process.
static STALL: OnceLock<String> = OnceLock::new();

/// Notes what a daemon reports: a test that fails after a data path without privileges has stalled runs again alone, and is
/// skipped when that stalls as well.
pub fn note_report(line: &str) {
    if line.contains("the data path is stalled") {
        // The first one is enough.
        let _ = STALL.set(line.into());
    }
}

/// What every test needs of the kernel: veth links, NFQUEUE, and a rule that leads there.
fn has_a_data_path() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Rtnl::open()?.create_veth(DEVICE, "peer0")?;
    QueueSocket::open(1)?.bind(1, &QueueSettings::default())?;
    Rules::install(&Spec::new(DEVICE, 1))?;
    Ok(())
}

/// Two namespaces joined by a veth pair: `tg0` in the left one, `peer0` in the right one.
pub struct Pair {
    pub left: Namespace,
    pub right: Namespace,
}

pub const DEVICE: &str = "tg0";
pub const LEFT: [IpAddr; 2] = addresses(1);
pub const RIGHT: [IpAddr; 2] = addresses(2);

const fn addresses(host: u8) -> [IpAddr; 2] {
    [IpAddr::V4(Ipv4Addr::new(10, 77, 0, host)), IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host as u16))]
}

impl Pair {
    pub fn new() -> Self {
        let pair = Self { left: Namespace::create().unwrap(), right: Namespace::create().unwrap() };
        pair.left.run(|| Rtnl::open().unwrap().create_veth_into(DEVICE, "peer0", pair.right_fd()).unwrap()).unwrap();
        for (namespace, device, own) in [(&pair.left, DEVICE, LEFT), (&pair.right, "peer0", RIGHT)] {
            namespace.run(|| bring_up(device, own)).unwrap();
        }
        pair.left.run(|| wait_for_carrier(DEVICE)).unwrap();
        pair.right.run(|| wait_for_carrier("peer0")).unwrap();
        pair
    }

    fn right_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.right)
    }
}

pub fn bring_up(device: &str, own: [IpAddr; 2]) {
    let mut rtnl = Rtnl::open().unwrap();
    // Without duplicate detection link-local addresses, which neighbour discovery needs, are usable at once.
    let _ = sysctl::write(&format!("ipv6/conf/{device}/accept_dad"), "0");
    for name in ["lo", device] {
        let index = rtnl.index(name).unwrap();
        rtnl.up(index).unwrap();
    }
    let index = rtnl.index(device).unwrap();
    for (address, prefix) in own.into_iter().zip([24, 64]) {
        rtnl.add_address(Address { index, address, prefix }).unwrap();
    }
}

/// Waits until packets can flow; before that the kernel drops them silently.
pub fn wait_for_carrier(device: &str) {
    let mut rtnl = Rtnl::open().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while rtnl.link(device).unwrap().unwrap().state != tidegate_live::rtnl::OperationalState::Up {
        assert!(Instant::now() < deadline, "no carrier");
        std::thread::sleep(Duration::from_millis(5));
    }
}

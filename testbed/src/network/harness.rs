//! A runner for tests that need network namespaces.
//!
//! Every test runs in a process of its own, forked from a `main` with one thread, so that it may create namespaces and fork
//! again, and so that a hang or a crash affects that test only. A test has two modes: `root`, and `rootless` through a user
//! namespace. A short run takes one of them, a nightly run both; see [`Test`].

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::exit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate_live::netns::{self, Namespace};
use tidegate_live::nfqueue::{QueueSettings, QueueSocket};
use tidegate_live::rtnl::Rtnl;
use tidegate_live::rules::{Rules, Spec};
use tidegate_sys::map::memory_file;
use tidegate_sys::process;
pub use tidegate_sys::process::Child;

use crate::effort::is_nightly;
use crate::veth::DEVICE;

/// How a test ended without failing.
#[derive(Debug)]
pub enum Ended {
    /// Everything held.
    Passed,
    /// The machine lacks something that the test needs.
    Skipped(String),
    /// The machine was not steady enough to measure.
    Unsteady(String),
}

/// A test by its module and name. [`tests!`](crate::tests) makes them.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    name: &'static str,
    run: fn() -> Ended,
    once: bool,
    nightly: bool,
    limit: Duration,
}

impl Test {
    /// A test that runs without root in a short run, where that is possible, and in both modes nightly.
    pub const fn new(name: &'static str, run: fn() -> Ended) -> Self {
        Self { name, run, once: false, nightly: false, limit: LIMIT }
    }

    /// Runs in one mode only, as root where that is possible: privileges make no difference to what is tested, or it cannot
    /// be promised without real-time scheduling.
    #[must_use]
    pub const fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// Runs only nightly, or when a filter has its whole name.
    #[must_use]
    pub const fn nightly(self) -> Self {
        Self { nightly: true, ..self }
    }

    /// May take as long as it is asked to, up to two hours.
    #[must_use]
    pub const fn long(self) -> Self {
        Self { limit: LONG, ..self }
    }
}

/// Runs the listed tests and exits: `tests! { module::test, #[once] module::another, #[nightly, once] module::long }`.
#[macro_export]
macro_rules! tests {
    ($($(#[$($when:ident),+])? $module:ident::$test:ident),* $(,)?) => {
        $crate::harness::main(&[$(
            $crate::harness::Test::new(concat!(stringify!($module), "::", stringify!($test)), $module::$test)$($(.$when())+)?
        ),*])
    };
}

const NOBODY: u32 = 65_534;
/// How long a test may take. One that measures repeatedly until the machine is steady takes long.
const LIMIT: Duration = Duration::from_secs(240);
/// The limit of a test whose length is asked for.
const LONG: Duration = Duration::from_secs(7_200);
/// Tests that run at the same time: most of them wait most of the time.
const AT_ONCE: usize = 6;
const SKIPPED: i32 = 77;
const UNSTEADY: i32 = 78;

/// The part of libtest's command line that `cargo test` uses.
#[derive(Default)]
struct Arguments {
    filters: Vec<String>,
    skips: Vec<String>,
    list: bool,
    threads: Option<usize>,
}

impl Arguments {
    fn read() -> Self {
        let mut read = Self::default();
        let mut threads = std::env::var("RUST_TEST_THREADS").ok();
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => read.list = true,
                "--skip" => read.skips.extend(arguments.next()),
                "--test-threads" => threads = arguments.next(),
                "--format" | "-Z" => drop(arguments.next()),
                a if a.starts_with('-') => {}
                _ => read.filters.push(argument),
            }
        }
        read.threads = threads.and_then(|number| number.parse().ok());
        read
    }

    /// Whether to run `test` in `mode`, which is one of `modes` by default, or none when the test has no default.
    fn chooses(&self, test: &Test, mode: &str, by_default: bool) -> bool {
        let full = format!("{mode}::{}", test.name);
        let contains = |parts: &[String]| parts.iter().any(|part| full.contains(part.as_str()));
        // A filter that names a mode asks for it, and one with a whole name for that test.
        let named = |filter: &String| {
            filter
                .strip_prefix(mode)
                .and_then(|rest| rest.strip_prefix("::"))
                .is_some_and(|rest| test.name.contains(rest))
                && (!test.nightly || is_nightly() || *filter == full)
        };
        let chosen = if self.filters.is_empty() { by_default } else { by_default && contains(&self.filters) };
        (chosen || self.filters.iter().any(named)) && !contains(&self.skips)
    }
}

/// The modes in which tests may run on this machine, the one for tests that run in one mode first.
fn modes() -> Vec<&'static str> {
    if process::effective_user() != 0 {
        return vec!["rootless"];
    }
    let possible = Child::fork(|| i32::from(become_nobody().is_err() || netns::available().is_err()));
    let end = loop {
        match possible.try_wait() {
            Some(end) => break end,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    if end == Ok(0) { vec!["root", "rootless"] } else { vec!["root"] }
}

fn become_nobody() -> io::Result<()> {
    process::set_user_and_group(NOBODY, NOBODY)
}

/// Runs the tests whose name, with the mode before it (`root::` or `rootless::`), contains one of the arguments, six at a
/// time or as `--test-threads` or `RUST_TEST_THREADS` specify.
pub fn main(tests: &[Test]) -> ! {
    let arguments = Arguments::read();
    let modes = modes();
    let by_default = |test: &Test, mode: &str| {
        let (first, last) = (modes[0] == mode, modes.last() == Some(&mode));
        let in_this = if test.once { first } else { last || is_nightly() };
        in_this && (!test.nightly || is_nightly())
    };
    let has_root = modes.len() > 1 && !is_nightly();
    let case = |mode, test| Case { mode, test, as_root: has_root && mode == "rootless" };
    let chosen = modes.iter().flat_map(|&mode| tests.iter().map(move |&test| case(mode, test)));
    let chosen: VecDeque<Case> =
        chosen.filter(|case| arguments.chooses(&case.test, case.mode, by_default(&case.test, case.mode))).collect();
    if arguments.list {
        chosen.iter().for_each(|case| println!("{}: test", case.name()));
        exit(0);
    }
    let nightly =
        tests.iter().filter(|test| test.nightly && !chosen.iter().any(|case| case.test.name == test.name)).count();
    // Opened before privileges are dropped; the processes of the tests inherit it.
    let log = std::env::var_os("TIDEGATE_SKIP_LOG")
        .and_then(|path| OpenOptions::new().create(true).append(true).open(path).ok());
    let began = Instant::now();
    let tally = run_all(chosen, arguments.threads.unwrap_or(AT_ONCE).max(1), log.as_ref());
    let verdict = if tally.failed == 0 { "ok" } else { "FAILED" };
    // The format of libtest, for tools that count results.
    println!(
        "\ntest result: {verdict}. {} passed; {} failed; {} ignored; 0 measured; {nightly} filtered out; finished in {:.2}s\n",
        tally.passed,
        tally.failed,
        tally.skipped,
        began.elapsed().as_secs_f32()
    );
    exit(if tally.failed == 0 { 0 } else { 101 });
}

#[derive(Default)]
struct Tally {
    passed: u32,
    failed: u32,
    skipped: u32,
}

/// Runs `threads` tests at a time. What could not be measured beside another test is measured alone, when all the others
/// have ended.
fn run_all(mut waiting: VecDeque<Case>, threads: usize, log: Option<&File>) -> Tally {
    let mut tally = Tally::default();
    let (mut running, mut unsteady): (Vec<Running>, Vec<Case>) = (vec![], vec![]);
    let mut alone = threads == 1;
    loop {
        let places = if alone { 1 } else { threads };
        while running.len() < places
            && let Some(case) = waiting.pop_front()
        {
            running.push(Running::start(case, alone, log));
        }
        let Some((at, end)) = running.iter().enumerate().find_map(|(at, one)| Some((at, one.end()?))) else {
            if running.is_empty() && unsteady.is_empty() {
                return tally;
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
        let (name, seconds) = (case.name(), began.elapsed().as_secs_f32());
        match end {
            Ok(0) => {
                tally.passed += 1;
                println!("test {name} ... ok ({seconds:.1} s)");
            }
            Ok(SKIPPED) if case.as_root => {
                println!("{name} is not possible without root; it runs as root");
                waiting.push_back(Case { mode: "root", as_root: false, ..case });
            }
            Ok(SKIPPED) => {
                tally.skipped += 1;
                println!("test {name} ... SKIPPED, reason above");
            }
            Ok(UNSTEADY) => {
                println!("{name} could not be measured beside another test; it runs again alone");
                unsteady.push(case);
            }
            other => {
                tally.failed += 1;
                println!("test {name} ... FAILED ({other:?})");
            }
        }
    }
}

/// A test in one of its modes.
struct Case {
    mode: &'static str,
    test: Test,
    /// Whether the test runs as root if it is skipped in this mode: a short run tries it in one mode only.
    as_root: bool,
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
            None if self.began.elapsed() > self.case.test.limit => {
                self.child.kill();
                Some(Err(format!("still running after {:?}", self.case.test.limit)))
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
    fn name(&self) -> String {
        format!("{}::{}", self.mode, self.test.name)
    }

    /// Runs the test, and returns the exit code of its process.
    fn run(&self, alone: bool, mut log: Option<&File>) -> i32 {
        ALONE.store(alone, Ordering::Relaxed);
        let mut skip = |reason: &str| {
            let line = format!("SKIP: {}: {reason}\n", self.name());
            eprint!("{line}");
            if let Some(log) = log.as_mut().filter(|_| !self.as_root) {
                // The reason has been printed; an error of the log is ignored.
                let _ = log.write_all(line.as_bytes());
            }
            SKIPPED
        };
        let drops_root = self.mode == "rootless" && process::effective_user() == 0;
        if drops_root && let Err(error) = become_nobody() {
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
        match catch_unwind(AssertUnwindSafe(self.test.run)) {
            Ok(Ended::Passed) => 0,
            Ok(Ended::Unsteady(_)) if !alone => UNSTEADY,
            Ok(Ended::Skipped(reason) | Ended::Unsteady(reason)) => skip(&reason),
            Err(payload) => match (payload.downcast_ref(), STALL.get()) {
                (Some(Lacking(reason)), _) => skip(reason),
                // With privileges the data path runs before all else, and a stall is its own.
                (None, Some(reason)) if drops_root && alone => skip(reason),
                (None, Some(_)) if drops_root => UNSTEADY,
                _ => 101,
            },
        }
    }
}

/// The payload of a panic that skips the test, with what the machine lacks.
struct Lacking(String);

/// Ends the calling test, on its main thread, as [`Ended::Skipped`]: for a set-up that finds that the machine lacks something.
pub fn skip(reason: String) -> ! {
    resume_unwind(Box::new(Lacking(reason)))
}

/// Whether the test of this process runs without others beside it.
static ALONE: AtomicBool = AtomicBool::new(true);

/// Whether no other test of this program runs at the same time.
pub fn is_alone() -> bool {
    ALONE.load(Ordering::Relaxed)
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

/// Tries what every test needs of the kernel: veth links, NFQUEUE, and a rule that leads there.
fn has_a_data_path() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Rtnl::open()?.create_veth(DEVICE, "peer0")?;
    QueueSocket::open(1)?.bind(1, &QueueSettings::default())?;
    Rules::install(&Spec::new(DEVICE, 1))?;
    Ok(())
}

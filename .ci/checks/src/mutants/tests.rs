//! The tests of the copy: which mutants each reaches, and what it makes of one.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::SURVIVED;
use super::schema::Mutant;

/// How many tests run at a time.
const WORKERS: usize = 2;
/// The quickest tests that together take this fraction (1/n) of the time of all are the quick ones.
const QUICK: u32 = 8;
/// A test may use this many times the processor time that it takes without a mutant, and [`PATIENCE`] more, before it
/// counts as endless. Processor time, because other programs use the machine too.
const TIMES: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(3);
/// A test that waits, which uses no processor time, may take this many times as long.
const WAITING: u32 = 10;
/// The signal to a process that has used its processor time.
const SIGXCPU: i32 = 24;
/// The memory of a test, in KiB: a mutant may collect without end.
const MEMORY: u32 = 3 << 20;

/// A test of a program.
#[derive(Clone, Debug)]
pub struct Test {
    program: PathBuf,
    /// The directory of its package.
    folder: PathBuf,
    name: String,
}

/// The tests of a program that are not ignored.
pub fn list(program: &Path, folder: &Path) -> io::Result<Vec<Test>> {
    let names = |only: &[&str]| -> io::Result<Vec<String>> {
        let output = Command::new(program)
            .args(["--list", "--format", "terse"])
            .args(only)
            .current_dir(folder)
            .stderr(Stdio::null())
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    };
    let ignored = names(&["--ignored"])?;
    let all = names(&[])?.into_iter().filter(|name| !ignored.contains(name));
    Ok(all.map(|name| Test { program: program.to_owned(), folder: folder.to_owned(), name }).collect())
}

enum Ended {
    Passed,
    Failed,
    /// It did not end in time.
    Endless,
}

impl Test {
    /// Runs the test with `mutant` in the environment.
    fn run(&self, mutant: &str, limit: Option<Duration>) -> io::Result<Ended> {
        // A shell limits memory and processor time, so that nothing here is unsafe.
        let seconds = limit.map_or(String::from("unlimited"), |limit| limit.as_secs().to_string());
        let mut child = Command::new("sh")
            .args(["-c", &format!("ulimit -c 0; ulimit -v {MEMORY}; ulimit -S -t {seconds}; exec nice \"$@\""), "sh"])
            .arg(&self.program)
            .args(["--exact", &self.name, "--test-threads=1", "--quiet"])
            .current_dir(&self.folder)
            .env("TIDEGATE_MUTANT", mutant)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let (began, mut pause) = (Instant::now(), Duration::from_millis(1));
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(match status.signal() {
                    Some(SIGXCPU) => Ended::Endless,
                    _ if status.success() => Ended::Passed,
                    _ => Ended::Failed,
                });
            }
            if limit.is_some_and(|limit| began.elapsed() > limit * WAITING) {
                child.kill()?;
                child.wait()?;
                return Ok(Ended::Endless);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    fn shown(&self) -> String {
        let program = self.program.file_name().unwrap_or_default().to_string_lossy();
        format!("{} {}", program.rsplit_once('-').map_or(&*program, |(name, _)| name), self.name)
    }
}

/// Which tests are run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speed {
    Quick,
    Slow,
}

/// Runs `work` in as many threads as tests run at a time.
pub fn parallel(work: impl Fn() -> io::Result<()> + Sync) -> io::Result<()> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(&work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
    })
}

/// The tests, the quickest first, and which places each reaches.
pub struct Reach {
    pub tests: Vec<(Test, Duration)>,
    /// How many of them are quick.
    quick: usize,
    /// The tests that reach a place, by its first mutant.
    by: BTreeMap<u32, Vec<usize>>,
}

impl Reach {
    /// Runs each test once without a mutant. Fails when a test does.
    pub fn record(tests: Vec<Test>, folder: &Path) -> io::Result<Self> {
        let folder = fs::canonicalize(folder)?;
        let (todo, done) = (Mutex::new(tests.into_iter().enumerate()), Mutex::new(Vec::new()));
        parallel(|| {
            loop {
                let next = todo.lock().expect("no worker panics").next();
                let Some((nth, test)) = next else { return Ok(()) };
                let file = folder.join(format!("reached-{nth}"));
                let _ = fs::remove_file(&file);
                let began = Instant::now();
                let ended = test.run(&format!("record:{}", file.display()), None)?;
                let took = began.elapsed();
                if !matches!(ended, Ended::Passed) {
                    return Err(io::Error::other(format!("without a mutant `{}` fails", test.shown())));
                }
                let text = fs::read_to_string(&file).unwrap_or_default();
                let _ = fs::remove_file(&file);
                let places: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
                done.lock().expect("no worker panics").push((test, took, places));
            }
        })?;
        let mut done = done.into_inner().expect("no worker panics");
        done.retain(|(_, _, places)| !places.is_empty());
        done.sort_by_key(|(_, took, _)| *took);
        let all: Duration = done.iter().map(|(_, took, _)| *took).sum();
        let mut sum = Duration::ZERO;
        let quick = done.iter().take_while(|(_, took, _)| {
            sum += *took;
            sum * QUICK <= all
        });
        let mut reach = Self { tests: Vec::new(), quick: quick.count(), by: BTreeMap::new() };
        for (nth, (test, took, places)) in done.into_iter().enumerate() {
            for place in places {
                reach.by.entry(place).or_default().push(nth);
            }
            reach.tests.push((test, took));
        }
        Ok(reach)
    }

    /// Runs the quick tests that reach a mutant, or the others, until one notices it. `None` when no quick test does and
    /// there are others.
    pub fn outcome(&self, mutant: &Mutant, speed: Speed) -> io::Result<Option<String>> {
        let Some(reaching) = self.by.get(&mutant.first) else {
            return Ok(Some(format!("{SURVIVED}: no test reaches it")));
        };
        let (quick, slow) = reaching.split_at(reaching.partition_point(|nth| *nth < self.quick));
        for (test, took) in if speed == Speed::Quick { quick } else { slow }.iter().map(|nth| &self.tests[*nth]) {
            match test.run(&mutant.number.to_string(), Some(*took * TIMES + PATIENCE))? {
                Ended::Passed => {}
                Ended::Failed => return Ok(Some(format!("caught by {}", test.shown()))),
                Ended::Endless => return Ok(Some(format!("not ended: {}", test.shown()))),
            }
        }
        Ok((speed == Speed::Slow || slow.is_empty()).then(|| SURVIVED.to_owned()))
    }
}

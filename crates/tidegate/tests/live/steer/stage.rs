//! A shaper between two namespaces, the commands that control it, and what is measured of its traffic.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::running::{Arrivals, PATIENCE, Printing, Running, Traffic};
use tidegate_testbed::files::Folder;
use tidegate_testbed::veth::{DEVICE, Pair};

const PAYLOAD: usize = 472;
const SOME_TIME: Duration = Duration::from_millis(1_500);

/// A shaper that runs between two namespaces, and the commands that control it.
pub struct Stage {
    pub running: Running,
    pub pair: Pair,
    pub scratch: Folder,
}

/// The result of a command.
pub struct Finished {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Stage {
    pub fn new(text: &str) -> Self {
        let (pair, scratch) = (Pair::new(), Folder::new("test"));
        scratch.write("shaper.toml", text);
        Self { running: start(&pair, &scratch, &[]), pair, scratch }
    }

    /// Ends the shaper, and calls `between` before another one starts at its place.
    pub fn start_again(&mut self, between: impl FnOnce()) {
        self.running.signal(libc::SIGINT);
        assert!(self.running.child.wait().unwrap().success());
        between();
        self.running = start(&self.pair, &self.scratch, &[]);
    }

    /// Has another process take over.
    pub fn hand_over(&mut self) {
        let next = start(&self.pair, &self.scratch, &["--hand-over"]);
        let (status, _, said) = std::mem::replace(&mut self.running, next).end();
        assert!(status.success() && said.contains("is left to a successor"), "{status}: {said}");
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
        command.args(arguments).arg("--control").arg(self.scratch.0.join("control")).stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Finished {
        finished(self.command(arguments))
    }

    /// Returns the output of a command that must succeed.
    pub fn does(&self, arguments: &[&str]) -> String {
        let finished = self.run(arguments);
        assert_eq!(finished.code, Some(0), "{arguments:?}: {}{}", finished.out, finished.err);
        finished.out
    }

    /// A command that must not succeed: the code, and all that it must say.
    pub fn refuses(&self, code: i32, arguments: &[&str], texts: &[&str]) {
        refused(self.run(arguments), code, arguments, texts);
    }

    pub fn starts(&self, arguments: &[&str]) -> Printing {
        Printing::start(self.command(arguments))
    }

    /// `tidegate events` with `arguments`, subscribed.
    pub fn events(&self, arguments: &[&str]) -> Printing {
        let mut events = self.starts(&[&["events"], arguments].concat());
        events.prints("subscribed");
        events
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&self.does(&["status", "--json"])).unwrap()
    }

    /// Returns the promised rate of the class.
    pub fn rate(&self, class: &str) -> Option<u64> {
        let status = self.status();
        let classes = status["directions"][0]["classes"].as_array().unwrap();
        classes.iter().find(|one| one["name"] == class)?["rate_bps"].as_u64()
    }

    /// Waits until something is so.
    pub fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "{what} does not come: {:#}", self.status());
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn traffic(&self, port: u16, a_second: u32) -> Traffic {
        Traffic::to(&self.pair, port, PAYLOAD, Duration::from_secs(1) / a_second)
    }

    pub fn end(self) {
        self.running.signal(libc::SIGINT);
        let (status, _, said) = self.running.end();
        assert!(status.success() && said.contains("nothing is left behind"), "{status}: {said}");
    }
}

/// Starts a shaper with the file and the control socket of the folder.
fn start(pair: &Pair, scratch: &Folder, options: &[&str]) -> Running {
    let mut run = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
    run.arg("run").arg(scratch.0.join("shaper.toml")).args(["--interface", DEVICE]);
    run.arg("--control").arg(scratch.0.join("control")).args(options);
    let mut running = Running::start(run);
    running.says("is in force");
    running.says("control socket");
    running
}

/// Waits for a command that ends by itself, and returns its result.
pub fn finished(mut command: Command) -> Finished {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{command:?} does not end: {:?}", child.wait_with_output());
        }
        thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Finished { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

pub fn refused(finished: Finished, code: i32, arguments: &[&str], texts: &[&str]) {
    let Finished { code: was, out, err } = finished;
    assert_eq!(was, Some(code), "{arguments:?}: {out}{err}");
    for text in texts {
        assert!(err.contains(text), "{arguments:?} does not say {text:?}, but {err}");
    }
    assert!(!err.contains("panicked") && !err.contains("RUST_BACKTRACE"), "{arguments:?}: {err}");
}

/// Lets some time pass, and gives its begin and end.
pub fn meanwhile() -> (SystemTime, SystemTime) {
    // What was granted before, and what is queued on the way, is over by then.
    thread::sleep(Duration::from_millis(400));
    let from = SystemTime::now();
    thread::sleep(SOME_TIME);
    (from, SystemTime::now())
}

/// 250 packets a second are 1 Mbit/s. What is queued on the way when the rates change is above or below that for a moment.
pub fn about(traffic: &Traffic, time: (SystemTime, SystemTime), kbit: f64) -> Result<(), String> {
    let rate = traffic.rate(time) * 4.0;
    println!("{rate:.0} kbit/s of {kbit:.0}");
    if (0.8 * kbit..1.1 * kbit).contains(&rate) { Ok(()) } else { Err(format!("{rate} kbit/s where {kbit} are due")) }
}

pub fn whole(arrivals: &Arrivals) {
    assert!(arrivals.at.len() > 500, "{} arrived", arrivals.at.len());
    assert_eq!((arrivals.lost(), arrivals.reordered()), (0, 0), "lost and reordered of {} sent", arrivals.sent);
}

//! The shaper of a chaos run: its processes, one after the other, and their control socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::traffic::Flows;
use crate::running::{PATIENCE, Running};
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nft::{self, Family};
use tidegate_testbed::Pair;
use tidegate_testbed::files::Folder;

/// How long a thread of this machine, at least one, has waited for a processor since the start; nothing where the kernel does not say.
fn waiting_for_processors() -> Duration {
    let pressure = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let total = pressure.lines().next().and_then(|some| some.rsplit_once("total=")?.1.parse().ok());
    Duration::from_micros(total.unwrap_or(0))
}

/// The time within which the control socket answers.
const ANSWER: Duration = Duration::from_secs(2);
/// The shapers' page of metrics, in the namespace of the left host.
pub const METRICS: &str = "127.0.0.1:9469";

/// Both directions, with `classes` more than the three that every file has. The flows that are measured fit into `calls` and
/// `media`.
pub fn file(classes: u64) -> String {
    let mut text = String::from("version = 1\n");
    for way in ["up", "down"] {
        text += &format!(
            "[[{way}.class]]\nname = \"calls\"\nrate = \"1mbit\"\npriority = 0\nlimit = \"256kB\"\nflow-limit = \"64kB\"\n\
             [[{way}.class]]\nname = \"media\"\nrate = \"1500kbit\"\nlimit = \"512kB\"\nflow-limit = \"64kB\"\n\
             [[{way}.class]]\nname = \"rest\"\nrate = \"2mbit\"\nlimit = \"256kB\"\nflow-limit = \"64kB\"\ndefault = true\n\
             [[{way}.rule]]\nclass = \"calls\"\ndestination-port = \"5000-5005\"\n\
             [[{way}.rule]]\nclass = \"media\"\ndestination-port = \"5006-5099\"\n"
        );
    }
    for n in 0..classes {
        text += &format!(
            "[[up.class]]\nname = \"more{n}\"\nrate = \"200kbit\"\n\
             [[up.rule]]\nclass = \"more{n}\"\ndestination-port = {}\n",
            6_100 + n
        );
    }
    text
}

/// A shaper that runs between two hosts, with the flows that are measured.
pub struct Stage {
    pub pair: Pair,
    pub scratch: Folder,
    pub running: Running,
    pub flows: Flows,
    /// The messages of the processes that have ended.
    ended: String,
}

/// The result of a command.
pub struct Finished {
    pub is_success: bool,
    pub out: String,
    pub err: String,
}

impl Stage {
    pub fn start() -> Self {
        let (pair, scratch) = (Pair::create().expect("a pair of hosts"), Folder::new("chaos"));
        scratch.write("shaper.toml", file(0));
        let running = launch(&pair, &scratch);
        let flows = Flows::start(&pair);
        Self { pair, scratch, running, flows, ended: String::new() }
    }

    fn socket(&self) -> PathBuf {
        self.scratch.file("control")
    }

    pub fn pid(&self) -> u32 {
        self.running.child.id()
    }

    /// Another process, which takes over from one that runs or has been killed. Returns the one before.
    pub fn launch(&mut self) -> Running {
        let next = launch(&self.pair, &self.scratch);
        std::mem::replace(&mut self.running, next)
    }

    /// Keeps the messages of a process that has ended.
    pub fn keep(&mut self, said: &str) {
        assert!(!said.contains("panicked"), "{said}");
        self.ended += said;
        // Those of an hour are many, and the last ones explain a failure.
        let surplus = self.ended.len().saturating_sub(1 << 16);
        let surplus = (surplus..=self.ended.len()).find(|at| self.ended.is_char_boundary(*at)).unwrap_or(0);
        self.ended.drain(..surplus);
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.pair.sender.namespace.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
        command.args(arguments).arg("--control").arg(self.socket()).stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Finished {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Finished { is_success: output.status.success(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Returns the output of a command that must succeed.
    pub fn does(&self, arguments: &[&str]) -> String {
        let Finished { is_success, out, err } = self.run(arguments);
        assert!(is_success, "{arguments:?}: {out}{err}");
        out
    }

    /// As [`does`](Self::does), for a command that only reads: again where it timed out because the processors were given to others.
    pub fn reads(&self, arguments: &[&str]) -> String {
        let began = Instant::now();
        loop {
            let (asked, waited) = (Instant::now(), waiting_for_processors());
            let Finished { is_success, out, err } = self.run(arguments);
            if is_success {
                return out;
            }
            let is_busy = waiting_for_processors().saturating_sub(waited) > asked.elapsed() / 2;
            assert!(is_busy && began.elapsed() < PATIENCE, "{arguments:?}: {out}{err}");
        }
    }

    pub fn connect(&self) -> std::io::Result<UnixStream> {
        UnixStream::connect(self.socket())
    }

    /// Makes a call, which is answered within two seconds.
    pub fn ask(&self, call: &str) -> Value {
        self.ask_with(call, &serde_json::json!({}))
    }

    /// Makes a call with parameters.
    pub fn ask_with(&self, call: &str, with: &Value) -> Value {
        let began = Instant::now();
        let attempt = || -> std::io::Result<String> {
            let mut stream = self.connect()?;
            stream.set_read_timeout(Some(ANSWER))?;
            writeln!(stream, "{{\"id\":1,\"version\":1,\"call\":\"{call}\",\"with\":{with}}}")?;
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line)?;
            Ok(line)
        };
        let line = loop {
            let (asked, waited) = (Instant::now(), waiting_for_processors());
            let answer = attempt();
            let took = asked.elapsed();
            let is_in_time = answer.is_ok() && took < ANSWER;
            let is_busy = waiting_for_processors().saturating_sub(waited) > took / 2;
            match answer {
                Ok(line) if is_in_time => break line,
                // Nobody is late where the processors are given to others.
                _ if is_busy && began.elapsed() < PATIENCE => {}
                Ok(_) => panic!("{call} takes {took:?}"),
                Err(error) => panic!("{call} is not answered: {error}"),
            }
        };
        let mut answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(answer["ok"].is_object() || answer["ok"].is_array(), "{answer}");
        answer["ok"].take()
    }

    pub fn status(&self) -> Value {
        self.ask("status")
    }

    /// Waits until `status` satisfies a condition, and returns it.
    pub fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "{what} does not come: {status:#}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until shaping is in force and guarded.
    pub fn until_in_force(&self) -> Value {
        self.until("shaping", |status| {
            let guarded = |direction: &Value| direction["guardian"]["pid"].is_u64();
            status["in_force"] == true && status["directions"].as_array().is_some_and(|all| all.iter().all(guarded))
        })
    }

    /// Waits until what the kernel has dropped is counted: the verdicts for it are refused one by one, as their time comes.
    pub fn until_counted(&self) {
        let counted = || {
            let status = self.until_in_force();
            let directions = status["directions"].as_array().unwrap().iter();
            directions.map(|direction| direction["kernel_dropped_packets"].as_u64().unwrap()).sum::<u64>()
        };
        let mut before = counted();
        loop {
            thread::sleep(Duration::from_millis(1_500));
            let now = counted();
            if now == before {
                return;
            }
            before = now;
        }
    }

    /// The packets of the flow to this port that this process has dropped, by whatever reason, as of at most a second ago.
    pub fn dropped(&self, way: &str, port: u16) -> u64 {
        let seen = self.ask_with("flows", &serde_json::json!({ "direction": way, "port": port }));
        let directions = seen["directions"].as_array().unwrap().iter();
        let flows = directions.flat_map(|direction| direction["flows"].as_array().into_iter().flatten());
        let drops = flows.flat_map(|flow| flow["dropped"].as_array().into_iter().flatten());
        drops.map(|reason| reason["packets"].as_u64().unwrap()).sum()
    }

    /// The processes that guard, each once.
    pub fn guardians(&self) -> Vec<u32> {
        let status = self.until_in_force();
        let directions = status["directions"].as_array().unwrap();
        let mut all: Vec<u32> =
            directions.iter().map(|direction| direction["guardian"]["pid"].as_u64().unwrap() as u32).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The tables of the packet filter, where the shaper's rules are.
    pub fn tables(&self) -> Vec<(Family, String)> {
        tables(&self.pair)
    }

    /// Ends shaping, and checks that nothing is left.
    pub fn end(self) {
        let Self { pair, scratch, running, flows, .. } = self;
        drop(flows);
        running.signal(libc::SIGINT);
        let (status, _, said) = running.end();
        assert!(status.success() && said.contains("nothing is left behind"), "{status}: {said}");
        let tables = tables(&pair);
        assert!(tables.is_empty(), "{tables:?}");
        let sockets: Vec<_> = std::fs::read_dir(&scratch.0)
            .unwrap()
            .filter_map(|entry| entry.ok().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket())))
            .collect();
        assert!(sockets.is_empty(), "{sockets:?}");
        // A guardian ends just after its shaper.
        let deadline = Instant::now() + Duration::from_secs(15);
        while let left = processes_in(pair.sender.namespace.id().unwrap())
            && !left.is_empty()
        {
            assert!(Instant::now() < deadline, "processes are left: {left:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// What the last processes said, once a step has failed.
    pub fn last_words(self) -> String {
        let Self { mut running, ended, .. } = self;
        let _ = running.child.kill();
        ended + &running.end().2
    }
}

fn tables(pair: &Pair) -> Vec<(Family, String)> {
    let list = || nft::tables(&mut Socket::open(Protocol::Netfilter).unwrap()).unwrap();
    pair.sender.namespace.run(list).unwrap()
}

fn launch(pair: &Pair, scratch: &Folder) -> Running {
    let mut command = pair.sender.namespace.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
    command.arg("run").arg(scratch.file("shaper.toml")).args([
        "--interface",
        pair.sender.interface,
        "--hand-over",
        "--metrics",
        METRICS,
    ]);
    command.arg("--control").arg(scratch.file("control"));
    let mut running = Running::start(command);
    running.says("control socket: ");
    running
}

/// The processes of a network namespace.
fn processes_in(namespace: u64) -> Vec<(u32, String)> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let own = std::fs::metadata(entry.path().join("ns/net")).ok()?.ino();
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        (own == namespace).then_some((pid, name))
    });
    processes.collect()
}

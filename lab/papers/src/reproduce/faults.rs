//! Measures what faults of a running shaper cost the traffic. `tidegate run` shapes 2,000 packets a second between two
//! namespaces so that a queue builds up; then one fault is caused. The results are the packets lost, the packets
//! reordered, and the longest time without an arrival.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::netns;
use tidegate_live::nft::{self, Chain, Family, Ownership, Table};
use tidegate_units::{Bytes, Rate};

use super::item::{Bound, theory};
use super::{Item, Options, output};
use crate::Failure;
use tidegate_testbed::{FlowSpec, Pair, Senders, Sink, dropped_between};

pub const NAME: &str = "faults";
pub const SENTENCE: &str =
    "A fault in a running shaper: what is lost, what is reordered, and for how long nothing passes";

/// The shaper passes 7.5 of the 8 Mbit/s offered and has room for the rest, so packets are always queued and none is
/// dropped.
const SHAPER: &str = "version = 1\n[shaper]\nrate = \"7500kbit\"\nburst = \"3000B\"\n\
    [[class]]\nname = \"rest\"\nrate = \"7500kbit\"\nburst = \"3000B\"\ndefault = true\n\
    limit = \"8MB\"\nflow-limit = \"4MB\"\n";
/// The bytes that [`SHAPER`] passes in 100 ms.
const SHAPED: u64 = 7_500_000 / 8 / 10;
/// The payload of a packet: 500 bytes with 28 bytes of headers, sent 2,000 times a second.
const PAYLOAD: u64 = 472;
const RATE: Rate = Rate::from_kbit(7_552);
/// The duration of traffic before the fault, and after `Fault::cause` has returned.
const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(1);
/// The longest wait for a process on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);
/// If nothing arrives for this long, the packets that are still missing count as lost.
const QUIET: Duration = Duration::from_millis(500);

/// Bounds on the longest gap in ms: for faults after which the shaper makes no progress, and for all others.
const SILENT: u32 = 500;
const REPLACED: u32 = 50;

/// A fault, how to cause it, and the bound on its effect.
struct Fault {
    id: &'static str,
    what: &'static str,
    /// Further arguments of `tidegate run`.
    arguments: &'static [&'static str],
    cause: fn(&mut Bench) -> io::Result<()>,
    /// The bound on the time without an arrival, in ms; `None` if the kernel drops what waits, or the link itself is down.
    gap: Option<u32>,
}

const fn fault(
    id: &'static str,
    what: &'static str,
    arguments: &'static [&'static str],
    gap: Option<u32>,
    cause: fn(&mut Bench) -> io::Result<()>,
) -> Fault {
    Fault { id, what, arguments, cause, gap }
}

const FAULTS: &[Fault] = &[
    fault("none", "no fault", &[], Some(REPLACED), |_| Ok(())),
    fault("stop", "the process is stopped for 2 s (SIGSTOP)", &[], Some(SILENT), |bench| {
        bench.signal(Signal::SIGSTOP)?;
        sleep(Duration::from_secs(2));
        bench.signal(Signal::SIGCONT)
    }),
    fault("stall", "the data path hangs for 3 s", &["--inject", "stall:600ms:3s"], Some(SILENT), |_| {
        sleep(Duration::from_secs(3));
        Ok(())
    }),
    fault("panic", "a discipline panics", &["--inject", "panic:600ms"], Some(SILENT), |_| Ok(())),
    fault("abort", "the process aborts (SIGABRT)", &[], Some(REPLACED), |bench| bench.signal(Signal::SIGABRT)),
    fault("kill", "the process is killed (SIGKILL)", &[], Some(REPLACED), |bench| bench.signal(Signal::SIGKILL)),
    fault("memory", "memory is refused", &["--inject", "memory:600ms"], Some(REPLACED), |_| Ok(())),
    fault("descriptors", "clients take every descriptor", &["--few-descriptors"], Some(REPLACED), |bench| {
        let clients: Vec<UnixStream> = (0..100).map_while(|_| UnixStream::connect(bench.control()).ok()).collect();
        sleep(Duration::from_secs(1));
        drop(clients);
        Ok(())
    }),
    fault("processor", "busy programs on every processor, four each, for 2 s", &[], Some(SILENT), |_| {
        let stop = Arc::new(AtomicBool::new(false));
        let count = 4 * thread::available_parallelism().map_or(2, usize::from);
        for _ in 0..count {
            let stop = Arc::clone(&stop);
            thread::Builder::new().spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })?;
        }
        sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
        Ok(())
    }),
    fault("forward", "the clock jumps 10 s ahead", &["--inject", "forward:600ms:10s"], Some(REPLACED), |_| Ok(())),
    fault("back", "the clock goes back 10 s", &["--inject", "back:600ms:10s"], Some(REPLACED), |_| Ok(())),
    fault("flush", "another program deletes all rules", &[], Some(REPLACED), |bench| {
        bench.pair.sender.namespace.run(|| {
            let mut socket = Socket::open(Protocol::Netfilter).map_err(io::Error::other)?;
            for (family, name) in nft::tables(&mut socket).map_err(io::Error::other)? {
                // The kernel refuses to delete a table that another process owns.
                let _ = nft::delete(&mut socket, family, &name);
            }
            Ok(())
        })?
    }),
    fault("chains", "another program adds and removes a chain of the packet filter ten times", &[], None, |bench| {
        bench.pair.sender.namespace.run(|| {
            let mut socket = Socket::open(Protocol::Netfilter).map_err(io::Error::other)?;
            for _ in 0..10 {
                let chain = Chain { name: "early".into(), hook: Some((4, 0)) };
                let table =
                    Table { family: Family::Ipv4, name: "other".into(), chains: vec![chain], rules: Vec::new() };
                nft::create(&mut socket, &[table], Ownership::Persistent).map_err(io::Error::other)?;
                nft::delete(&mut socket, Family::Ipv4, "other").map_err(io::Error::other)?;
                sleep(Duration::from_millis(100));
            }
            Ok(())
        })?
    }),
    fault("frozen", "shaper and guardian are stopped together for 1 s", &[], None, |bench| {
        let guardian = Pid::from_raw(bench.guardian()?);
        kill(guardian, Signal::SIGSTOP)?;
        bench.signal(Signal::SIGSTOP)?;
        sleep(Duration::from_secs(1));
        kill(guardian, Signal::SIGCONT)?;
        bench.signal(Signal::SIGCONT)
    }),
    fault(
        "pipe",
        "the file of leases is a named pipe that nobody writes to",
        &["--piped-leases"],
        Some(REPLACED),
        |bench| {
            // Names are read anew every few seconds, on a thread of their own.
            for _ in 0..10 {
                bench.answers()?;
                sleep(Duration::from_millis(300));
            }
            Ok(())
        },
    ),
    fault(
        "lock",
        "another program locks the directory of the control socket, while another process takes over",
        &["--hand-over"],
        Some(REPLACED),
        |bench| {
            let directory = fs::File::open(&bench.directory)?;
            directory.lock()?;
            bench.replace()
        },
    ),
    fault("down", "the link is down for 500 ms", &[], None, |bench| {
        bench.pair.at_sender(|rtnl, index| rtnl.down(index))?;
        sleep(Duration::from_millis(500));
        bench.pair.at_sender(|rtnl, index| rtnl.up(index))
    }),
    fault("rename", "the interface is renamed", &[], Some(REPLACED), |bench| {
        bench.pair.at_sender(|rtnl, index| rtnl.rename(index, "uplink0"))?;
        bench.says("shaping uplink0 is in force")
    }),
    fault("recreate", "the interface is deleted and made again", &[], None, |bench| {
        bench.pair.disconnect()?;
        bench.pair.connect()
    }),
    fault("mtu", "the MTU changes ten times", &[], Some(REPLACED), |bench| {
        for n in 0..10 {
            bench.pair.at_sender(|rtnl, index| rtnl.set_mtu(index, if n % 2 == 0 { 1_400 } else { 1_500 }))?;
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }),
    fault("disk", "standard output is a full disk", &["--full-disk"], Some(REPLACED), |bench| {
        bench.signal(Signal::SIGHUP)
    }),
    fault("terminal", "the terminal is gone", &[], Some(REPLACED), |bench| {
        bench.shaper.lines = None;
        let _ = UnixStream::connect(bench.control())?;
        Ok(())
    }),
    fault("guardian", "the guardian is killed, then the shaper", &[], Some(REPLACED), |bench| {
        let first = bench.guardian()?;
        kill(Pid::from_raw(first), Signal::SIGKILL)?;
        bench.says("a new guardian was started")?;
        bench.signal(Signal::SIGKILL)
    }),
    fault("restart", "restart: SIGTERM, and a new process", &["--hand-over"], Some(REPLACED), |bench| {
        bench.signal(Signal::SIGTERM)?;
        bench.shaper.child.wait()?;
        bench.shaper = bench.start(&["--hand-over"])?;
        Ok(())
    }),
    fault("killed-restart", "restart after SIGKILL", &["--hand-over"], Some(REPLACED), |bench| {
        bench.signal(Signal::SIGKILL)?;
        bench.shaper.child.wait()?;
        bench.shaper = bench.start(&["--hand-over"])?;
        Ok(())
    }),
    fault("upgrade", "another process takes over from one that runs", &["--hand-over"], Some(REPLACED), Bench::replace),
];

/// A running shaper between two namespaces.
pub(super) struct Bench {
    pub pair: Pair,
    directory: PathBuf,
    shaper: Shaper,
}

/// A running `tidegate run`.
pub(super) struct Shaper {
    child: Child,
    /// The lines that the process prints on standard error. Dropping the receiver closes the pipe.
    lines: Option<Receiver<String>>,
    said: String,
}

impl Bench {
    fn new(arguments: &[&str]) -> io::Result<Self> {
        let directory = std::env::temp_dir().join(format!("tidegate-faults-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        fs::write(directory.join("shaper.toml"), SHAPER)?;
        let pair = Pair::create()?;
        let shaper = start(&pair, &directory, arguments)?;
        Ok(Self { pair, directory, shaper })
    }
    fn start(&self, arguments: &[&str]) -> io::Result<Shaper> {
        start(&self.pair, &self.directory, arguments)
    }
    /// Has another process take over from the one that runs.
    fn replace(&mut self) -> io::Result<()> {
        let new = self.start(&["--hand-over"])?;
        let mut old = std::mem::replace(&mut self.shaper, new);
        old.child.wait().map(drop)
    }
    /// Checks that the control socket answers within two seconds.
    fn answers(&self) -> io::Result<()> {
        let mut stream = UnixStream::connect(self.control())?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"{\"id\":1,\"version\":1,\"call\":\"status\"}\n")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        if line.contains("\"ok\"") { Ok(()) } else { Err(io::Error::other(format!("status is not answered: {line}"))) }
    }
    /// The path of the control socket.
    pub fn control(&self) -> PathBuf {
        self.directory.join("control")
    }
    /// The process id of the shaper.
    pub fn process(&self) -> u32 {
        self.shaper.process()
    }
    fn signal(&mut self, signal: Signal) -> io::Result<()> {
        kill(Pid::from_raw(self.process() as i32), signal).map_err(io::Error::from)
    }
    fn says(&mut self, text: &str) -> io::Result<()> {
        self.shaper.says(text)
    }
    /// The process id of the guardian, as the shaper announced it at its start.
    fn guardian(&self) -> io::Result<i32> {
        let said = self.shaper.said.split_once("guardian: process ").map(|(_, rest)| rest);
        let number = said.and_then(|rest| rest.split(' ').next()?.parse().ok());
        number.ok_or_else(|| io::Error::other(format!("there is no guardian: {}", self.shaper.said)))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.shaper.stop();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Shaper {
    /// Starts `command`, and waits until it listens.
    pub fn start(command: Command) -> io::Result<Self> {
        Self::start_with(command, Stdio::null())
    }
    fn start_with(mut command: Command, output: Stdio) -> io::Result<Self> {
        // Symbolising a backtrace would take longer than anything measured here.
        command.env_remove("RUST_BACKTRACE");
        let mut child = command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped()).spawn()?;
        let printed = child.stderr.take().ok_or_else(|| io::Error::other("its standard error was asked for"))?;
        let (to, lines) = mpsc::channel();
        // This thread ends, and closes the pipe, once the receiver is dropped.
        thread::Builder::new()
            .spawn(move || BufReader::new(printed).lines().map_while(Result::ok).try_for_each(|line| to.send(line)))?;
        let mut shaper = Self { child, lines: Some(lines), said: String::new() };
        shaper.says("control socket")?;
        Ok(shaper)
    }
    /// The process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }
    /// Ends it, and waits for that.
    pub fn stop(&mut self) {
        let _ = kill(Pid::from_raw(self.process() as i32), Signal::SIGINT);
        let _ = self.child.wait();
    }
    fn says(&mut self, text: &str) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.said.contains(text) {
            let wait = deadline.saturating_duration_since(Instant::now());
            let lines = self.lines.as_ref().ok_or_else(|| io::Error::other("it is not listened to"))?;
            match lines.recv_timeout(wait) {
                Ok(line) => self.said = format!("{}{line}\n", self.said),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other(format!("it does not report {text:?}, but: {}", self.said)));
                }
            }
        }
        Ok(())
    }
}

fn start(pair: &Pair, directory: &Path, arguments: &[&str]) -> io::Result<Shaper> {
    let program = std::env::current_exe()?;
    let mut command: Command = if arguments.contains(&"--few-descriptors") {
        let mut shell = pair.sender.namespace.command("sh")?;
        shell.args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""]).arg(program);
        shell
    } else if arguments.contains(&"--piped-leases") {
        let mut shell = pair.sender.namespace.command("unshare")?;
        let over = "mount -t tmpfs none /var/lib/misc && mkfifo /var/lib/misc/dnsmasq.leases && exec \"$0\" \"$@\"";
        shell.args(["--mount", "sh", "-c", over]).arg(program);
        shell
    } else {
        pair.sender.namespace.command(program)?
    };
    command.arg("run").arg(directory.join("shaper.toml")).args(["--interface", pair.sender.interface]);
    command.arg("--control").arg(directory.join("control"));
    command.args(
        arguments
            .iter()
            .filter(|argument| !matches!(**argument, "--few-descriptors" | "--piped-leases" | "--full-disk")),
    );
    let output = if arguments.contains(&"--full-disk") {
        Stdio::from(fs::File::options().write(true).open("/dev/full")?)
    } else {
        Stdio::null()
    };
    Shaper::start_with(command, output)
}

/// The measurements of one fault.
pub(super) struct Outcome {
    pub sent: u64,
    pub lost: u64,
    pub reordered: u64,
    pub gap: Duration,
    /// The largest number of bytes by which a span of 100 ms exceeded the rate of the shaper.
    pub beyond: u64,
}

/// Runs a shaper with these additional arguments, sends traffic through it, and meanwhile calls `cause`. If `excused`
/// is set, packets that the receiver dropped for lack of processor time do not count as lost.
pub(super) fn measure(
    arguments: &[&str],
    excused: bool,
    cause: impl FnOnce(&mut Bench) -> io::Result<()>,
) -> io::Result<Outcome> {
    let mut bench = Bench::new(arguments)?;
    let flow = [FlowSpec::udp("packets", 6_000, 0, RATE, Bytes::new(PAYLOAD))];
    let ends = [bench.pair.sender.namespace.try_clone()?, bench.pair.receiver.namespace.try_clone()?];
    let dropped = dropped_between(&ends[0], &ends[1])?;
    let sink = Sink::start(&bench.pair.receiver, &flow)?;
    let senders = Senders::start(&bench.pair.sender, &bench.pair.receiver, &flow)?;
    sleep(BEFORE);
    let caused = cause(&mut bench);
    sleep(AFTER);
    // The sender stops, and the queue drains at the rate of the shaper.
    senders.set_rate(0, Rate::ZERO);
    sleep(Duration::from_millis(50));
    let sent = senders.sent(0).packets.load(Ordering::Relaxed);
    let (mut before, mut since) = (sink.report(0).packets, Instant::now());
    while before < sent && since.elapsed() < QUIET {
        sleep(Duration::from_millis(20));
        let arrived = sink.report(0).packets;
        if arrived > before {
            (before, since) = (arrived, Instant::now());
        }
    }
    senders.stop();
    let report = sink.stop().swap_remove(0);
    caused?;
    // A receiver that gets no processor time drops packets that have passed the shaper.
    let excused = if excused { dropped_between(&ends[0], &ends[1])?.saturating_sub(dropped) } else { 0 };
    Ok(Outcome {
        sent,
        lost: sent.saturating_sub(report.packets + excused),
        reordered: report.reordered,
        gap: Duration::from_nanos(report.gaps.max()),
        beyond: (report.bins.iter().max().unwrap_or(&0) / PAYLOAD * 500).saturating_sub(SHAPED),
    })
}

pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    if let Some(page) = &options.page {
        // This is checked before minutes of measurements begin.
        output::check_table(page, NAME)?;
    }
    let wanted: Vec<&Fault> = FAULTS.iter().filter(|fault| options.wants(fault.id)).collect();
    let unmeasured = |fault: &Fault, why: &str| Item::unmeasured(fault.id, fault.what, why);
    if let Err(error) = netns::enter() {
        return Ok(wanted.iter().map(|fault| unmeasured(fault, &error.to_string())).collect());
    }
    let (mut items, mut rows) = (Vec::new(), Vec::new());
    for fault in wanted {
        match measure(fault.arguments, fault.gap.is_some(), fault.cause) {
            Ok(outcome) => {
                items.extend(judge(fault, &outcome));
                rows.push((fault, outcome));
            }
            Err(error) => items.push(unmeasured(fault, &error.to_string())),
        }
    }
    if let Some(page) = &options.page {
        output::write_table(page, NAME, &table(&rows))?;
    }
    Ok(items)
}

fn judge(fault: &Fault, outcome: &Outcome) -> Vec<Item> {
    let none = |why: &'static str| Bound::at_most(0.0, theory(why));
    let item = |part: &str, unit, value| Item::measured(format!("{}.{part}", fault.id), fault.what, unit, value);
    let gap = outcome.gap.as_secs_f64() * 1e3;
    let sent = item("sent", "packets", outcome.sent as f64);
    let beyond = item("beyond", "kB", outcome.beyond as f64 / 1e3).note("the most within 100 ms above the rate");
    match fault.gap {
        Some(most) => vec![
            sent,
            beyond,
            item("lost", "packets", outcome.lost as f64)
                .bound(none("a shaper that is gone or stopped lets traffic pass")),
            item("reordered", "packets", outcome.reordered as f64).bound(none("one queue keeps the order of a flow")),
            item("gap", "ms", gap)
                .bound(Bound::at_most(f64::from(most), theory("the time after which the kernel or the watchdog acts"))),
        ],
        None => vec![
            sent,
            beyond,
            item("lost", "packets", outcome.lost as f64).note("the kernel drops what waits, or the link is down"),
            item("reordered", "packets", outcome.reordered as f64),
            item("gap", "ms", gap),
        ],
    }
}

/// Formats the results as the table of the page.
fn table(rows: &[(&Fault, Outcome)]) -> String {
    let mut text = String::from(
        "| fault | sent | lost | reordered | longest gap | aim | above the rate within 100 ms |\n\
                      |---|---:|---:|---:|---:|---:|---:|\n",
    );
    for (fault, outcome) in rows {
        let aim = fault.gap.map_or("-".into(), |most| format!("{most} ms"));
        let gap = outcome.gap.as_millis();
        let Outcome { sent, lost, reordered, beyond, .. } = outcome;
        let beyond = *beyond as f64 / 1e3;
        let _ =
            writeln!(text, "| {} | {sent} | {lost} | {reordered} | {gap} ms | {aim} | {beyond:.0} kB |", fault.what);
    }
    text
}

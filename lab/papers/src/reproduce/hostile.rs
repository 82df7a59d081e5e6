//! Hostile clients of a running shaper. Another user floods the control socket or the metrics endpoint, while traffic
//! passes and root asks for the status.
//!
//! The other user's process is this program, started again with [`CLIENT`] in its environment.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use tidegate_live::netns;

use super::faults::{Bench, Outcome, measure};
use super::item::{Bound, theory};
use super::{Item, Options, output};
use crate::Failure;

pub const NAME: &str = "hostile";
pub const SENTENCE: &str =
    "Another user floods a running shaper: what traffic loses, and how long root waits for replies";

/// The environment variable that turns this program into a hostile client. It holds the kind of the flood and the
/// address.
const CLIENT: &str = "TIDEGATE_REPRODUCE_CLIENT";
/// A user id that no account has.
const OTHER: u32 = 4_000_001;
/// The connections of a flood. One user may have 256.
const CONNECTIONS: usize = 250;
/// The number of root's calls during a flood, and the pause between two calls.
const CALLS: usize = 200;
const PAUSE: Duration = Duration::from_millis(10);
/// The port of the metrics endpoint.
const METRICS: u16 = 9_095;

/// Bounds on the duration of root's calls in ms, at the median and at the 99th percentile, and on the memory in MB.
const MEDIAN: f64 = 50.0;
const LAST: f64 = 250.0;
const MEMORY: f64 = 64.0;

/// The floods, each with its description.
const FLOODS: &[(&str, &str)] = &[
    ("none", "no flood"),
    ("unread", "250 connections that ask for all flows and read nothing"),
    ("requests", "250 connections that ask for the status as fast as they are answered"),
    ("connections", "connections, made and closed as fast as possible"),
    ("subscriptions", "250 connections that subscribe to every event and read nothing"),
    ("grants", "promises and reservations, with leases of any length"),
    ("lines", "250 connections that send lines without an end"),
    ("web", "250 connections to the page of metrics that read nothing"),
];

/// The measurements during a flood.
struct Seen {
    outcome: Outcome,
    median: Duration,
    last: Duration,
    /// The peak resident memory of the shaper in MB.
    memory: f64,
}

pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    if let Some(flood) = std::env::var_os(CLIENT) {
        be_hostile(&flood.to_string_lossy());
    }
    if let Some(page) = &options.page {
        // This is checked before minutes of measurements begin.
        output::check_table(page, NAME)?;
    }
    let wanted: Vec<_> = FLOODS.iter().filter(|(id, _)| options.wants(id)).collect();
    let unmeasured = |why: &str| wanted.iter().map(|(id, what)| Item::unmeasured(*id, *what, why)).collect();
    if !is_root_of_the_machine() {
        return Ok(unmeasured("only root of the machine can be two users"));
    }
    if let Err(error) = netns::enter() {
        return Ok(unmeasured(&error.to_string()));
    }
    let (mut items, mut rows) = (Vec::new(), Vec::new());
    for (id, what) in wanted {
        match observe(id) {
            Ok(seen) => {
                items.extend(judge(id, what, &seen));
                rows.push((*what, seen));
            }
            Err(error) => items.push(Item::unmeasured(*id, *what, error.to_string())),
        }
    }
    if let Some(page) = &options.page {
        output::write_table(page, NAME, &table(&rows))?;
    }
    Ok(items)
}

/// Whether this process is root and can become another user. In a user namespace of its own it cannot.
fn is_root_of_the_machine() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let all = map.split_ascii_whitespace().last().and_then(|count| count.parse().ok()) == Some(u32::MAX);
    all && fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn observe(id: &str) -> io::Result<Seen> {
    let mut seen = None;
    let metrics = format!("0.0.0.0:{METRICS}");
    let outcome = measure(&["--metrics", &metrics, "--metrics-anywhere"], true, |bench| {
        seen = Some(flooded(id, bench)?);
        Ok(())
    })?;
    let (median, last, memory) = seen.ok_or_else(|| io::Error::other("nothing was observed"))?;
    Ok(Seen { outcome, median, last, memory })
}

/// Measures root's calls during a flood. Returns their median and 99th percentile, and the peak memory of the shaper in
/// MB.
fn flooded(id: &str, bench: &mut Bench) -> io::Result<(Duration, Duration, f64)> {
    let path = bench.control();
    let address = match id {
        "web" => format!("{}:{METRICS}", bench.pair.sender.v4),
        _ => path.display().to_string(),
    };
    let start = || {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["reproduce", NAME]).env(CLIENT, format!("{id} {address}")).uid(OTHER).gid(OTHER);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    };
    let mut other = match id {
        "none" => None,
        _ => Some(bench.pair.sender.namespace.run(start)??),
    };
    if let Some(output) = other.as_mut().and_then(|other| other.stdout.take()) {
        // The client prints a line once the flood has begun.
        BufReader::new(output).read_line(&mut String::new())?;
    }
    let calls = (0..CALLS).map(|_| {
        sleep(PAUSE);
        status(&path)
    });
    let times: io::Result<Vec<Duration>> = calls.collect();
    if let Some(other) = &mut other {
        other.kill()?;
        other.wait()?;
    }
    let mut times = times?;
    times.sort_unstable();
    let process = fs::read_to_string(format!("/proc/{}/status", bench.process()))?;
    let largest = process.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().split(' ').next()?.parse().ok());
    let largest: f64 = largest.ok_or_else(|| io::Error::other("the kernel does not report memory"))?;
    Ok((times[CALLS / 2], times[CALLS * 99 / 100], largest / 1024.0))
}

/// Measures how long root waits for the status over a new connection.
fn status(path: &Path) -> io::Result<Duration> {
    let began = Instant::now();
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(b"{\"id\":1,\"version\":1,\"call\":\"status\"}\n")?;
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply)?;
    if reply.contains("\"ok\"") { Ok(began.elapsed()) } else { Err(io::Error::other(format!("status: {reply}"))) }
}

fn judge(id: &str, what: &str, seen: &Seen) -> Vec<Item> {
    let item = |part: &str, unit, value| Item::measured(format!("{id}.{part}"), what, unit, value);
    let most = |most, why: &'static str| Bound::at_most(most, theory(why));
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let turns = "requests of root precede those of other users";
    vec![
        item("sent", "packets", seen.outcome.sent as f64),
        item("lost", "packets", seen.outcome.lost as f64).bound(most(0.0, "the data path serves no client")),
        item("reordered", "packets", seen.outcome.reordered as f64).bound(most(0.0, "one queue keeps the order")),
        item("gap", "ms", millis(seen.outcome.gap)),
        item("median", "ms", millis(seen.median)).bound(most(MEDIAN, turns)),
        item("p99", "ms", millis(seen.last)).bound(most(LAST, turns)),
        item("memory", "MB", seen.memory)
            .bound(most(MEMORY, "each user has a budget of unread bytes and subscriptions")),
    ]
}

/// Formats the results as the table of the page.
fn table(rows: &[(&str, Seen)]) -> String {
    let mut text = String::from(
        "| flood | sent | lost | reordered | longest gap | root's status: median | 99th percentile | memory |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for (what, Seen { outcome, median, last, memory }) in rows {
        let Outcome { sent, lost, reordered, gap, .. } = outcome;
        let [gap, median, last] = [gap, median, last].map(|time| time.as_secs_f64() * 1e3);
        let _ = writeln!(
            text,
            "| {what} | {sent} | {lost} | {reordered} | {gap:.0} ms | {median:.1} ms | {last:.1} ms | {memory:.0} MB |"
        );
    }
    text
}

/// Floods until it is killed.
fn be_hostile(flood: &str) -> ! {
    let (kind, address) = flood.split_once(' ').unwrap_or_default();
    let line = |call: &str, with: &str| format!("{{\"id\":1,\"version\":1,\"call\":\"{call}\",\"with\":{with}}}\n");
    let (text, reads) = match kind {
        "unread" => (line("flows", "{\"limit\":1000}").repeat(8), false),
        "requests" => (line("status", "{}"), true),
        "connections" => (String::new(), false),
        "subscriptions" => (line("events", "{}").repeat(16), false),
        "grants" => {
            let promise =
                "{\"target\":{\"port\":6000},\"minimum_bps\":1000,\"flows\":1,\"lease_ns\":18446744073709551615}";
            let plain = "{\"target\":{\"port\":6000},\"flows\":1}";
            let reserve = "{\"matches\":[[\"destination-port\",\"6000\"]],\"rate_bps\":1000000,\"for_ns\":1}";
            (line("promise", promise) + &line("promise", plain) + &line("reserve", reserve), true)
        }
        "lines" => ("x".repeat(65_536), false),
        _ => ("GET /metrics HTTP/1.1\r\nHost: metrics\r\n\r\n".repeat(8), false),
    };
    let begun = AtomicBool::new(false);
    let tell = || {
        if !begun.swap(true, Ordering::Relaxed) {
            // The process that waits for this line may have exited.
            let _ = writeln!(io::stdout(), "begun").and_then(|()| io::stdout().flush());
        }
    };
    loop {
        if kind == "connections" {
            for _ in 0..CONNECTIONS {
                drop(UnixStream::connect(address));
            }
            tell();
            continue;
        }
        let mut streams: Vec<Box<dyn Flooded>> = (0..CONNECTIONS).filter_map(|_| connect(kind, address).ok()).collect();
        // Once half of the connections are closed, all are opened anew.
        while streams.len() > CONNECTIONS / 2 {
            streams.retain_mut(|stream| flood_once(stream.as_mut(), text.as_bytes(), reads));
            tell();
            thread::yield_now();
        }
        sleep(Duration::from_millis(1));
    }
}

/// A connection over TCP or a Unix socket.
trait Flooded: Read + Write {}
impl<T: Read + Write> Flooded for T {}

fn connect(kind: &str, address: &str) -> io::Result<Box<dyn Flooded>> {
    Ok(if kind == "web" {
        let stream = TcpStream::connect(address)?;
        stream.set_nonblocking(true)?;
        Box::new(stream)
    } else {
        let stream = UnixStream::connect(address)?;
        stream.set_nonblocking(true)?;
        Box::new(stream)
    })
}

/// Writes as much as the socket accepts, and reads if `reads` is set. Returns whether the connection is still open.
fn flood_once(stream: &mut dyn Flooded, text: &[u8], reads: bool) -> bool {
    let is_open = |result: io::Result<usize>| match result {
        Ok(count) => count > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    };
    is_open(stream.write(text)) && (!reads || is_open(stream.read(&mut [0; 65_536])))
}

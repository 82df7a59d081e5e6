//! The built command, running, with its messages line by line; and traffic beside it.

use std::io::{BufRead, BufReader, IoSliceMut, Read};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};

use tidegate_live::netns::Namespace;
use tidegate_testbed::dropped_between;

use tidegate_testbed::harness::note_report;
use tidegate_testbed::veth::{LEFT, Pair, RIGHT};

/// The time limit of an expected event on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(40);

pub struct Running {
    pub child: Child,
    lines: Receiver<String>,
    pub said: String,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        // Backtraces of injected panics would hide what a failed test prints.
        command.env("RUST_BACKTRACE", "0");
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (to, lines) = mpsc::channel();
        let talk = child.stderr.take().unwrap();
        // A stall that the test asks for is no reason to skip it.
        let is_asked = command.get_args().any(|arg| arg == "--inject");
        let report = move |line: String| {
            if !is_asked {
                note_report(&line);
            }
            to.send(line)
        };
        thread::spawn(move || BufReader::new(talk).lines().map_while(Result::ok).try_for_each(report));
        Self { child, lines, said: String::new() }
    }

    /// Waits for the message `text`.
    pub fn says(&mut self, text: &str) {
        self.says_times(text, 1);
    }

    /// Waits for one of these messages.
    pub fn says_one_of(&mut self, texts: &[&str]) {
        self.until(&format!("{texts:?}"), |said| texts.iter().any(|text| said.contains(text)));
    }

    /// Waits until the message `text` has appeared `times` times.
    pub fn says_times(&mut self, text: &str, times: usize) {
        self.until(&format!("{text:?} {times} times"), |said| said.matches(text).count() >= times);
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(&self.said) {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.said = format!("{}{line}\n", self.said),
                Err(_) => panic!("it does not say {what}, but {}", self.said),
            }
        }
    }

    pub fn signal(&self, signal: i32) {
        tidegate_sys::process::signal(self.child.id(), signal).unwrap();
    }

    /// Waits for its end: the exit status, standard output, and all messages.
    pub fn end(mut self) -> (ExitStatus, String, String) {
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let status = self.child.wait().unwrap();
        self.said.extend(self.lines.iter().map(|line| line + "\n"));
        (status, out, std::mem::take(&mut self.said))
    }

    /// Has it end in order; returns its messages.
    pub fn stops(self) -> String {
        self.signal(libc::SIGTERM);
        let (status, _, said) = self.end();
        assert!(status.success(), "{status}: {said}");
        said
    }

    /// Waits for its end by itself with this exit code and without output; returns its messages.
    pub fn fails(self, code: i32) -> String {
        let (status, out, said) = self.end();
        assert_eq!(status.code(), Some(code), "{said}");
        assert_eq!(out, "");
        said
    }
}

impl Drop for Running {
    /// Kills a command that a failed test leaves; one that has ended must not be killed.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that keeps printing: its output to either stream, line by line.
pub struct Printing {
    pub child: Child,
    lines: Receiver<String>,
    pub printed: String,
}

impl Printing {
    pub fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (to, lines) = mpsc::channel();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for stream in streams {
            let to = to.clone();
            let read = move || BufReader::new(stream).lines().map_while(Result::ok).try_for_each(|line| to.send(line));
            thread::spawn(read);
        }
        Self { child, lines, printed: String::new() }
    }

    /// Waits until it prints `text`.
    pub fn prints(&mut self, text: &str) {
        self.prints_one_of(&[text]);
    }

    /// Waits until it has printed `text` `times` times.
    pub fn prints_times(&mut self, text: &str, times: usize) {
        self.until(&format!("{text} {times} times"), |printed| printed.matches(text).count() >= times);
    }

    /// Waits until it prints one of these.
    pub fn prints_one_of(&mut self, texts: &[&str]) {
        self.until(&format!("{texts:?}"), |printed| texts.iter().any(|text| printed.contains(text)));
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(&self.printed) {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.printed = format!("{}{line}\n", self.printed),
                Err(_) => panic!("it does not print {what}, but {}", self.printed),
            }
        }
    }

    pub fn signal(&self, signal: i32) {
        tidegate_sys::process::signal(self.child.id(), signal).unwrap();
    }

    /// Waits for its end: the exit status, and all output.
    pub fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        self.printed.extend(self.lines.iter().map(|line| line + "\n"));
        (status, std::mem::take(&mut self.printed))
    }
}

impl Drop for Printing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `status` reports that shaping is not in force because of `reason`, for a shaper that fails repeatedly
/// with longer pauses. It may report another reason in between, if a restart failed on a slow machine.
pub fn until_trouble(reason: &str, status: impl Fn() -> serde_json::Value) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown = status();
        if shown["in_force"] == false && shown["trouble"].as_str().is_some_and(|trouble| trouble.contains(reason)) {
            return;
        }
        assert!(Instant::now() < deadline, "no trouble with {reason:?}: {shown}");
    }
}

/// When the kernel received a datagram, and its number.
type Arrival = (SystemTime, u64);

/// Datagrams from left to right, numbered, until it is stopped.
pub struct Traffic {
    stop: Arc<AtomicBool>,
    /// The number of datagrams sent so far.
    sent: Arc<AtomicU64>,
    /// The number of datagrams sent, once sending has stopped.
    end: Arc<AtomicU64>,
    arrived: Arc<Mutex<Vec<Arrival>>>,
    sender: JoinHandle<u64>,
    receiver: JoinHandle<()>,
    /// The namespaces, and the drops of the kernel there at the start.
    ends: [Namespace; 2],
    dropped: u64,
}

/// The datagrams that arrived.
pub struct Arrivals {
    pub sent: u64,
    /// The datagrams that the kernel dropped: its backlog, or the socket of a receiver without processor time, was
    /// full.
    pub dropped: u64,
    /// When the kernel received it, so that a late receiver on a loaded machine does not look like a burst; and its
    /// number.
    pub at: Vec<Arrival>,
}

impl Traffic {
    /// Sends `size` bytes of payload every `every`.
    pub fn start(pair: &Pair, size: usize, every: Duration) -> Self {
        Self::to(pair, 0, size, every)
    }

    /// Sends to this port, as [`Traffic::start`] does.
    pub fn to(pair: &Pair, port: u16, size: usize, every: Duration) -> Self {
        let receiver = pair.right.run(|| UdpSocket::bind((RIGHT[0], port)).unwrap()).unwrap();
        let sender = pair.left.run(|| UdpSocket::bind((LEFT[0], 0)).unwrap()).unwrap();
        let to = receiver.local_addr().unwrap();
        receiver.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        setsockopt(&receiver, sockopt::ReceiveTimestampns, &true).unwrap();
        // For a receiver without processor time; without permission the default remains.
        let _ = setsockopt(&receiver, sockopt::RcvBufForce, &(8 << 20));
        let ends = [pair.left.try_clone().unwrap(), pair.right.try_clone().unwrap()];
        let dropped = dropped_between(&ends[0], &ends[1]).unwrap();
        let (stop, end) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(u64::MAX)));
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let (sending, receiving, arriving) = (Arc::clone(&stop), Arc::clone(&end), Arc::clone(&arrived));
        let sent = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&sent);
        let sender = thread::spawn(move || {
            let mut payload = vec![0; size];
            let began = Instant::now();
            let mut number = 0_u64;
            while !sending.load(Ordering::Relaxed) {
                payload[..8].copy_from_slice(&number.to_be_bytes());
                if sender.send_to(&payload, to).is_ok() {
                    number += 1;
                    counter.store(number, Ordering::Relaxed);
                }
                // By the schedule, so that a late wake-up is made up for.
                thread::sleep((began + every * number as u32).saturating_duration_since(Instant::now()));
            }
            number
        });
        let receiver = thread::spawn(move || {
            let mut buffer = [0; 2_048];
            // The last datagrams may be there when this is reported: it is checked after each wait, too.
            while receiving.load(Ordering::Relaxed) > arriving.lock().unwrap().len() as u64 {
                if let Ok(time) = receive(&receiver, &mut buffer) {
                    let number = u64::from_be_bytes(buffer[..8].try_into().unwrap());
                    arriving.lock().unwrap().push((time, number));
                }
            }
        });
        Self { stop, sent, end, arrived, sender, receiver, ends, dropped }
    }

    /// How many have been sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sends no more; [`stop`](Self::stop) still has to be called.
    pub fn pause(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits until `count` have arrived.
    pub fn until(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.arrived.lock().unwrap().len() < count {
            assert!(Instant::now() < deadline, "only {} arrive", self.arrived.lock().unwrap().len());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The arrivals in a time interval, up to now.
    pub fn seen(&self, time: (SystemTime, SystemTime)) -> Vec<Arrival> {
        // A receiver without processor time reads late.
        let deadline = Instant::now() + Duration::from_millis(300);
        let reads_later = || self.arrived.lock().unwrap().last().is_some_and(|last| last.0 >= time.1);
        while !reads_later() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let arrived = self.arrived.lock().unwrap();
        arrived.iter().filter(|(at, _)| (time.0..time.1).contains(at)).copied().collect()
    }

    /// Packets per second in a time interval, up to now.
    pub fn rate(&self, time: (SystemTime, SystemTime)) -> f64 {
        self.seen(time).len() as f64 / time.1.duration_since(time.0).unwrap().as_secs_f64()
    }

    /// Stops sending and waits until everything in flight has arrived.
    pub fn stop(self) -> Arrivals {
        self.end(PATIENCE)
    }

    /// Stops when some packets are lost: nothing is in flight any more when nothing arrives for half a second.
    pub fn stop_lossy(self) -> Arrivals {
        self.end(Duration::from_millis(500))
    }

    /// Stops without waiting for packets in flight.
    pub fn stop_now(self) -> Arrivals {
        self.end(Duration::ZERO)
    }

    fn end(self, silence: Duration) -> Arrivals {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.join().unwrap();
        let arrived = || self.arrived.lock().unwrap().len() as u64;
        let dropped = || dropped_between(&self.ends[0], &self.ends[1]).unwrap().saturating_sub(self.dropped);
        let (mut before, mut since) = (arrived(), Instant::now());
        while arrived() + dropped() < sent && since.elapsed() < silence {
            thread::sleep(Duration::from_millis(10));
            if arrived() > before {
                (before, since) = (arrived(), Instant::now());
            }
        }
        let dropped = dropped();
        self.end.store(0, Ordering::Relaxed);
        self.receiver.join().unwrap();
        Arrivals { sent, dropped, at: std::mem::take(&mut *self.arrived.lock().unwrap()) }
    }
}

/// The next datagram, and when the kernel received it.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> nix::Result<SystemTime> {
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty())?;
    let stamp = message.cmsgs()?.find_map(|one| match one {
        ControlMessageOwned::ScmTimestampns(time) => Some(Duration::from(time)),
        _ => None,
    });
    Ok(SystemTime::UNIX_EPOCH + stamp.expect("a timestamp, as was asked for"))
}

impl Arrivals {
    /// The longest time in which nothing arrived.
    pub fn longest_gap(&self) -> Duration {
        self.at.windows(2).filter_map(|pair| pair[1].0.duration_since(pair[0].0).ok()).max().unwrap_or_default()
    }
    /// The number that neither arrived nor was dropped by the kernel.
    pub fn lost(&self) -> u64 {
        if self.dropped > 0 {
            println!("  the kernel dropped {} of {}", self.dropped, self.sent);
        }
        (self.sent - self.at.len() as u64).saturating_sub(self.dropped)
    }
    pub fn reordered(&self) -> usize {
        self.at.windows(2).filter(|pair| pair[1].1 < pair[0].1).count()
    }
    /// Checks that at most one packet was overtaken per outage: a packet that arrives at the moment in which the
    /// rules change may overtake the one before it. More can be overtaken if the process gets no processor time to
    /// release what is queued at that moment, so this is for an attempt.
    pub fn in_order_but_for(&self, outages: usize) -> Result<(), String> {
        let reordered = self.reordered();
        if reordered <= outages { Ok(()) } else { Err(format!("{reordered} reordered in {outages} outages")) }
    }
    /// The most packets that arrived in any `window`.
    pub fn most_within(&self, window: Duration) -> usize {
        let mut first = 0;
        let mut most = 0;
        for (last, (time, _)) in self.at.iter().enumerate() {
            while time.duration_since(self.at[first].0).is_ok_and(|since| since > window) {
                first += 1;
            }
            most = most.max(last + 1 - first);
        }
        most
    }
}

//! The built command, running, with what it says line by line; and traffic beside it.
#![allow(dead_code)] // Each test target uses a part of it.

use std::fs;
use std::io::{BufRead, BufReader, IoSliceMut, Read};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};

use crate::support::{LEFT, Pair, RIGHT};

pub const PATIENCE: Duration = Duration::from_secs(15);

/// A directory that everybody may write to; it goes when this goes.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-test-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub struct Running {
    pub child: Child,
    lines: Receiver<String>,
    pub said: String,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (to, lines) = mpsc::channel();
        let talk = child.stderr.take().unwrap();
        thread::spawn(move || BufReader::new(talk).lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
        Self { child, lines, said: String::new() }
    }

    /// Waits until it says `text`.
    pub fn says(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.said.contains(text) {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.said = format!("{}{line}\n", self.said),
                Err(_) => panic!("it does not say {text:?}, but {}", self.said),
            }
        }
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a child of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Its end: the exit status, standard output, and all it said.
    pub fn end(mut self) -> (ExitStatus, String, String) {
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let status = self.child.wait().unwrap();
        self.said.extend(self.lines.iter().map(|line| line + "\n"));
        (status, out, std::mem::take(&mut self.said))
    }
}

/// A command that goes on and prints: what it writes to either stream, line by line, as a user sees it.
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

    /// Waits until it prints one of these.
    pub fn prints_one_of(&mut self, texts: &[&str]) {
        let deadline = Instant::now() + PATIENCE;
        while !texts.iter().any(|text| self.printed.contains(text)) {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.printed = format!("{}{line}\n", self.printed),
                Err(_) => panic!("it does not print {texts:?}, but {}", self.printed),
            }
        }
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a child of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Its end: the exit status, and all it printed.
    pub fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        self.printed.extend(self.lines.iter().map(|line| line + "\n"));
        (status, self.printed)
    }
}

/// The first `status` that says that shaping is not in force, of a shaper that fails again and again with longer pauses.
pub fn until_not_in_force(status: impl Fn() -> serde_json::Value) -> serde_json::Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown = status();
        if shown["in_force"] == false {
            return shown;
        }
        assert!(Instant::now() < deadline, "always in force: {shown}");
    }
}

/// Datagrams from left to right, numbered, until it is stopped.
pub struct Traffic {
    stop: Arc<AtomicBool>,
    sender: JoinHandle<u64>,
    receiver: JoinHandle<Vec<(SystemTime, u64)>>,
}

/// What arrived.
pub struct Arrivals {
    pub sent: u64,
    /// When the kernel got it, so that a busy machine's late receiver does not look like a burst; and its number.
    pub at: Vec<(SystemTime, u64)>,
}

impl Traffic {
    /// `size` bytes of payload each `every`.
    pub fn start(pair: &Pair, size: usize, every: Duration) -> Self {
        Self::to(pair, 0, size, every)
    }

    /// The same, to this port.
    pub fn to(pair: &Pair, port: u16, size: usize, every: Duration) -> Self {
        let receiver = pair.right.run(|| UdpSocket::bind((RIGHT[0], port)).unwrap()).unwrap();
        let sender = pair.left.run(|| UdpSocket::bind((LEFT[0], 0)).unwrap()).unwrap();
        let to = receiver.local_addr().unwrap();
        receiver.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        setsockopt(&receiver, sockopt::ReceiveTimestampns, &true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (sending, receiving) = (Arc::clone(&stop), Arc::clone(&stop));
        let sender = thread::spawn(move || {
            let mut payload = vec![0; size];
            let began = Instant::now();
            let mut number = 0_u64;
            while !sending.load(Ordering::Relaxed) {
                payload[..8].copy_from_slice(&number.to_be_bytes());
                if sender.send_to(&payload, to).is_ok() {
                    number += 1;
                }
                // By the plan, so that a late wake-up is made up for.
                thread::sleep((began + every * number as u32).saturating_duration_since(Instant::now()));
            }
            number
        });
        let receiver = thread::spawn(move || {
            let (mut arrivals, mut buffer) = (Vec::new(), [0; 2_048]);
            loop {
                match receive(&receiver, &mut buffer) {
                    Ok(time) => arrivals.push((time, u64::from_be_bytes(buffer[..8].try_into().unwrap()))),
                    // What waits when the sender has stopped comes within half a second, or it does not come.
                    Err(_) if receiving.load(Ordering::Relaxed) => return arrivals,
                    Err(_) => {}
                }
            }
        });
        Self { stop, sender, receiver }
    }

    pub fn stop(self) -> Arrivals {
        self.stop.store(true, Ordering::Relaxed);
        Arrivals { sent: self.sender.join().unwrap(), at: self.receiver.join().unwrap() }
    }
}

/// The next datagram, and when the kernel got it.
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
    pub fn lost(&self) -> u64 {
        self.sent - self.at.len() as u64
    }
    pub fn reordered(&self) -> usize {
        self.at.windows(2).filter(|pair| pair[1].1 < pair[0].1).count()
    }
    /// What arrived from then to then.
    pub fn between(&self, from: SystemTime, to: SystemTime) -> impl Iterator<Item = u64> {
        self.at.iter().filter(move |(time, _)| (from..to).contains(time)).map(|(_, number)| *number)
    }
    /// Packets a second from then to then.
    pub fn rate(&self, from: SystemTime, to: SystemTime) -> f64 {
        self.between(from, to).count() as f64 / to.duration_since(from).unwrap().as_secs_f64()
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

//! ControlSocket of a running transfer: signals and the control socket.
//!
//! The protocol of the socket: one line per request, one line per response. `rate 3MB/s`, `pause`, `resume` return
//! `ok` and the new state, or `error` and the reason; `status` returns one JSON object.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use tidegate_engine::guard::lock;
use tidegate_pace::control::{LONGEST, Request};
use tidegate_units::Rate;

use crate::Failure;

/// The requested state of the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub rate: Rate,
    pub paused: bool,
    /// The signal that requested the end.
    pub stop: Option<i32>,
}

/// The state of the sender.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Standing {
    pub rate_bps: u64,
    pub paused: bool,
    pub bytes: u64,
    pub packets: u64,
    pub dropped_packets: u64,
    pub elapsed_ns: u64,
    pub late_ns: u64,
    pub gap_p50_ns: u64,
    pub gap_p99_ns: u64,
}

/// Shared between the sender and its controllers.
#[derive(Debug)]
pub struct ControlSocket {
    wanted: Mutex<Wanted>,
    standing: Mutex<Standing>,
    changes: AtomicU64,
}

impl ControlSocket {
    pub fn new(rate: Rate) -> Arc<Self> {
        let wanted = Wanted { rate, paused: false, stop: None };
        Arc::new(Self { wanted: Mutex::new(wanted), standing: Mutex::default(), changes: AtomicU64::new(0) })
    }
    /// A counter of changes, cheap to read.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
    pub fn wanted(&self) -> Wanted {
        *lock(&self.wanted)
    }
    pub fn publish(&self, standing: Standing) {
        *lock(&self.standing) = standing;
    }
    fn change<T>(&self, change: impl FnOnce(&mut Wanted) -> T) -> T {
        let outcome = change(&mut lock(&self.wanted));
        self.changes.fetch_add(1, Ordering::Release);
        outcome
    }

    /// Handles signals. SIGUSR1 raises the rate by `step`, SIGUSR2 lowers it, down to `step`.
    pub fn obey_signals(self: &Arc<Self>, step: Rate) -> io::Result<()> {
        let mut signals = Signals::new([SIGUSR1, SIGUSR2, SIGINT, SIGTERM])?;
        let control = Arc::clone(self);
        thread::spawn(move || {
            for signal in &mut signals {
                control.change(|wanted| match signal {
                    SIGUSR1 => wanted.rate += step,
                    SIGUSR2 => wanted.rate = wanted.rate.saturating_sub(step).max(step),
                    _ if wanted.stop.is_some() => std::process::exit(128 + signal),
                    _ => wanted.stop = Some(signal),
                });
            }
        });
        Ok(())
    }

    /// Creates the control socket and serves it. It is removed when the result is dropped.
    pub fn obey_socket(self: &Arc<Self>, path: &Path) -> Result<Socket, Failure> {
        let failed =
            |what: &str, error: io::Error| Failure::Failed(format!("--control {}: {what}: {error}", path.display()));
        if path.metadata().is_ok_and(|metadata| metadata.file_type().is_socket()) && UnixStream::connect(path).is_err()
        {
            // Left by a process that was killed.
            std::fs::remove_file(path).map_err(|error| failed("an old socket cannot be removed", error))?;
        }
        let listener = UnixListener::bind(path).map_err(|error| failed("cannot be made", error))?;
        let control = Arc::clone(self);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let control = Arc::clone(&control);
                thread::spawn(move || control.converse(stream));
            }
        });
        Ok(Socket(path.to_path_buf()))
    }
    fn converse(&self, stream: UnixStream) -> io::Result<()> {
        // A silent client must not occupy its thread for ever.
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut answers = stream.try_clone()?;
        let mut requests = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            requests.by_ref().take(LONGEST as u64 + 1).read_until(b'\n', &mut line)?;
            if line.is_empty() {
                return Ok(());
            }
            if line.len() > LONGEST {
                return writeln!(answers, "error a line is longer than {LONGEST} bytes");
            }
            writeln!(answers, "{}", self.answer(&String::from_utf8_lossy(&line)))?;
        }
    }
    fn answer(&self, line: &str) -> String {
        match Request::parse(line) {
            Ok(Request::Rate(rate)) => {
                self.change(|wanted| wanted.rate = rate);
                format!("ok rate {rate}")
            }
            Ok(Request::Pause) => {
                self.change(|wanted| wanted.paused = true);
                "ok paused".into()
            }
            Ok(Request::Resume) => {
                self.change(|wanted| wanted.paused = false);
                "ok running".into()
            }
            Ok(Request::Status) => match serde_json::to_string(&*lock(&self.standing)) {
                Ok(json) => json,
                Err(error) => format!("error {error}"),
            },
            Err(why) => format!("error {why}"),
        }
    }
}

/// The control socket; removed on drop.
#[derive(Debug)]
pub struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        // An error means that it is removed already.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands() {
        let control = ControlSocket::new(Rate::from_mbit(1));
        assert_eq!(control.answer("rate 3MB/s"), "ok rate 24mbit");
        assert_eq!(control.wanted().rate, Rate::from_mbit(24));
        assert_eq!(control.answer("pause"), "ok paused");
        assert!(control.wanted().paused);
        assert_eq!(control.answer("resume"), "ok running");
        assert_eq!(control.changes(), 3);
        assert!(control.answer("rate 0bit").starts_with("error "));
        assert_eq!(control.changes(), 3, "a refused request changes nothing");
        assert!(control.answer("status").starts_with("{\"rate_bps\":"));
    }

    #[test]
    fn a_line_without_an_end_ends_the_connection() {
        let (mut client, served) = UnixStream::pair().unwrap();
        let control = ControlSocket::new(Rate::from_mbit(1));
        let serving = thread::spawn(move || control.converse(served));
        client.write_all(b"status\n").unwrap();
        client.write_all(&[b'x'; LONGEST + 1]).unwrap();
        let mut answers = String::new();
        client.read_to_string(&mut answers).unwrap();
        assert!(answers.starts_with("{\"rate_bps\":") && answers.ends_with("error a line is longer than 1024 bytes\n"));
        serving.join().unwrap().unwrap();
    }
}

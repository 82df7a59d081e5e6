//! A load-generating connection to `tidegate measure --serve`, over which probes are multiplexed.
//!
//! HTTP/1.1 cannot answer a request while another response is being sent, so the connection is upgraded (RFC 9110, 7.8) to
//! [`PROTOCOL`]. The side that generates load sends cells of [`CELL`] bytes without end. Downwards the client sends a byte for each
//! probe, and the first byte of the next cell is the number of probes that it answers. Upwards a cell with the first byte 1
//! is a probe, and the server answers it by a byte. All other first bytes are 0.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant as Clock};

use rustix::net::{RecvFlags, recv};
use tidegate_engine::guard::lock;
use tidegate_live::rules::Direction;
use tidegate_sys::net::{limit_unsent, unacknowledged};

use super::peer::Peer;
use super::wire::{Connection, is_pause};
use super::{SILENCE, Shared, noise};

/// The name of the protocol.
pub const PROTOCOL: &str = "tidegate-load/1";
/// The bytes of a cell.
pub const CELL: usize = 1_024;
/// The cells of a write.
pub const CELLS: usize = 16;
/// The bytes that the sender's socket may hold unsent: a probe waits behind them.
pub const UNSENT: u32 = 16 << 10;
/// Probes without an answer, beyond which a connection is asked no more.
const OUTSTANDING: usize = 32;

/// The path of the load of a direction, as seen by the client.
pub const fn path(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "/load/down",
        Direction::Egress => "/load/up",
    }
}

/// Cells without a probe.
pub fn cells() -> Vec<u8> {
    let mut bytes = noise(CELL * CELLS);
    bytes.iter_mut().step_by(CELL).for_each(|first| *first = 0);
    bytes
}

/// A load-generating connection.
pub struct Load {
    stream: TcpStream,
    /// The start of each probe without an answer.
    sent: Mutex<VecDeque<Clock>>,
    /// Probes that the sender of cells has still to send.
    wanted: AtomicU32,
    direction: Direction,
}

impl Load {
    /// Opens a connection; `None` if the peer serves HTTP but does not know the protocol.
    ///
    /// # Errors
    /// A text for people.
    pub fn open(peer: &Peer, address: SocketAddr, direction: Direction) -> Result<Option<Self>, String> {
        let mut opened = Connection::open(peer, address, None)?.connection;
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n",
            path(direction)
        );
        opened.send(request.as_bytes())?;
        let Some(head) = opened.head(|| false)? else { return Ok(None) };
        let Connection::Plain(stream) = opened else { return Ok(None) };
        if head.code != 101 {
            return Ok(None);
        }
        // The server begins to send when it is asked to, so that no cell comes with the head.
        let _ = limit_unsent(&stream, UNSENT);
        let load = Self { stream, sent: Mutex::default(), wanted: AtomicU32::new(0), direction };
        if direction == Direction::Ingress {
            (&load.stream).write_all(&[0]).map_err(|error| error.to_string())?;
        }
        Ok(Some(load))
    }

    /// Sends a probe.
    pub fn probe(&self) {
        {
            let mut sent = lock(&self.sent);
            if sent.len() >= OUTSTANDING {
                return;
            }
            sent.push_back(Clock::now());
        }
        match self.direction {
            Direction::Egress => drop(self.wanted.fetch_add(1, Ordering::Relaxed)),
            // A byte that cannot be sent now is a probe without an answer, and ends with the connection.
            Direction::Ingress => drop((&self.stream).write(&[1])),
        }
    }

    /// Takes note of `count` answers.
    fn answered(&self, count: usize, out: &Mutex<Vec<(Clock, Duration)>>) {
        let (mut sent, now) = (lock(&self.sent), Clock::now());
        let count = count.min(sent.len());
        lock(out).extend(sent.drain(..count).map(|at| (now, now - at)));
    }

    /// Generates load until the measurement ends. Answers go to `out`, with the time at which they came.
    ///
    /// # Errors
    /// A text for people.
    pub fn run(&self, shared: &Shared, out: &Mutex<Vec<(Clock, Duration)>>) -> Result<(), String> {
        match self.direction {
            Direction::Ingress => self.receive(shared, out),
            Direction::Egress => std::thread::scope(|scope| {
                let answers = scope.spawn(|| self.answers(shared, out));
                let sent = self.send(shared);
                sent.and(answers.join().unwrap_or_else(|_| Err("the reader of answers failed".into())))
            }),
        }
    }

    fn receive(&self, shared: &Shared, out: &Mutex<Vec<(Clock, Duration)>>) -> Result<(), String> {
        let (mut buffer, mut at, mut last) = (vec![0; 64 << 10], 0_usize, Clock::now());
        while !shared.has_ended() {
            match (&self.stream).read(&mut buffer) {
                Ok(0) => return Err("it ends the load before the measurement has ended".into()),
                Ok(length) => {
                    let first = (CELL - at) % CELL;
                    for flag in buffer[..length].iter().skip(first).step_by(CELL).filter(|flag| **flag > 0) {
                        self.answered(usize::from(*flag), out);
                    }
                    at = (at + length) % CELL;
                    last = Clock::now();
                    shared.bytes.fetch_add(length as u64, Ordering::Relaxed);
                }
                Err(error) if is_pause(&error) && last.elapsed() < SILENCE => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn send(&self, shared: &Shared) -> Result<(), String> {
        let cells = cells();
        let mut probing = cells[..CELL].to_vec();
        probing[0] = 1;
        let (mut at, mut asks) = (0, false);
        let (mut written, mut counted, mut last) = (0_u64, 0_u64, Clock::now());
        while !shared.has_ended() {
            if at == 0 {
                let take = |wanted: u32| wanted.checked_sub(1);
                asks = self.wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
            }
            // Within a cell that cell is ended; at its beginning several may be sent.
            let piece = match (asks, at) {
                (true, at) => &probing[at..],
                (false, 0) => &cells[..],
                (false, at) => &cells[at..CELL],
            };
            match (&self.stream).write(piece) {
                Ok(length) => {
                    written += length as u64;
                    at = (at + length) % CELL;
                }
                Err(error) if is_pause(&error) && last.elapsed() < SILENCE => {}
                Err(error) => return Err(error.to_string()),
            }
            let acknowledged = written.saturating_sub(unacknowledged(&self.stream).unwrap_or(0));
            if acknowledged > counted {
                shared.bytes.fetch_add(acknowledged - counted, Ordering::Relaxed);
                (counted, last) = (acknowledged, Clock::now());
            }
        }
        Ok(())
    }

    fn answers(&self, shared: &Shared, out: &Mutex<Vec<(Clock, Duration)>>) -> Result<(), String> {
        let mut buffer = [0; 64];
        while !shared.has_ended() {
            match (&self.stream).read(&mut buffer) {
                Ok(0) => return Err("it ends the load before the measurement has ended".into()),
                Ok(length) => self.answered(length, out),
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }
}

/// Reads without waiting; the number of bytes, 0 where there are none.
///
/// # Errors
/// When the other side has ended.
pub fn peek_bytes(stream: &TcpStream, buffer: &mut [u8]) -> Result<usize, ()> {
    match recv(stream, buffer, RecvFlags::DONTWAIT) {
        Ok((0, _)) => Err(()),
        Ok((length, _)) => Ok(length),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
        Err(_) => Err(()),
    }
}

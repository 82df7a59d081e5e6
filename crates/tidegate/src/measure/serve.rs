//! A peer for measurements: `tidegate measure --serve`.
//!
//! It serves bytes that mean nothing and reads what it is sent without keeping it, so there is nothing to read or to
//! change. Every connection, its time and its bytes are [bounded](Bounds), and so are all of them together.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant as Clock};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use tidegate_engine::guard::lock;
use tidegate_sys::net::limit_unsent;

use super::load::{CELL, CELLS, PROTOCOL, UNSENT, cells, path, peek_bytes};
use super::wire::is_pause;
use super::{LOOK, SILENCE};
use tidegate_live::rules::Direction;

/// What a server permits.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections at the same time.
    pub connections: usize,
    /// Connections at the same time of one IPv4 address, or of one /64 of IPv6.
    pub per_client: usize,
    /// The longest time of a connection.
    pub connection_time: Duration,
    /// The bytes of all connections together, in both directions.
    pub bytes: u64,
    /// The time after which the server ends.
    pub time: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 128,
            // A client has 16 connections with load, and up to 32 probes.
            per_client: 64,
            connection_time: Duration::from_secs(45),
            bytes: 100_000_000_000,
            time: Duration::from_secs(3_600),
        }
    }
}

/// The longest head of a request.
const HEAD: usize = 4 << 10;

#[derive(Default)]
struct State {
    clients: Mutex<HashMap<IpAddr, usize>>,
    bytes: AtomicU64,
}

/// Serves until the time or the bytes of `bounds` are used up.
///
/// # Errors
/// When the listener fails.
pub fn serve(listener: &TcpListener, bounds: Bounds) -> io::Result<()> {
    set_socket_timeout(listener, Timeout::Recv, Some(Duration::from_millis(200)))?;
    let (state, began) = (State::default(), Clock::now());
    let is_over = || began.elapsed() >= bounds.time || state.bytes.load(Ordering::Relaxed) >= bounds.bytes;
    thread::scope(|scope| {
        while !is_over() {
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                // Without descriptors, or for a client that has gone: the next one may succeed.
                Err(error) => {
                    if !is_pause(&error) {
                        thread::sleep(LOOK);
                    }
                    continue;
                }
            };
            let client = network(from.ip());
            if !admit(&state, client, bounds) {
                continue;
            }
            let ends = (Clock::now() + bounds.connection_time).min(began + bounds.time);
            let state = &state;
            let served = thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, move || {
                // A client that fails is of no interest to anybody.
                let _ = Session { stream: &stream, state, ends, bytes: bounds.bytes }.run();
                leave(state, client);
            });
            if served.is_err() {
                leave(state, client);
            }
        }
    });
    Ok(())
}

/// The address that the connections of a client are counted by.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

fn admit(state: &State, client: IpAddr, bounds: Bounds) -> bool {
    let mut clients = lock(&state.clients);
    let has_room = clients.values().sum::<usize>() < bounds.connections
        && clients.get(&client).is_none_or(|count| *count < bounds.per_client);
    if has_room {
        *clients.entry(client).or_default() += 1;
    }
    has_room
}

fn leave(state: &State, client: IpAddr) {
    let mut clients = lock(&state.clients);
    if let Some(count) = clients.get_mut(&client) {
        *count -= 1;
        if *count == 0 {
            clients.remove(&client);
        }
    }
}

/// A connection of a client.
struct Session<'a> {
    stream: &'a TcpStream,
    state: &'a State,
    ends: Clock,
    bytes: u64,
}

type Done = Result<(), ()>;

impl Session<'_> {
    fn run(&mut self) -> Done {
        let set = self.stream.set_read_timeout(Some(LOOK)).and_then(|()| self.stream.set_write_timeout(Some(LOOK)));
        set.and_then(|()| self.stream.set_nodelay(true)).map_err(drop)?;
        let head = self.head()?;
        let head = String::from_utf8_lossy(&head);
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let field = |name: &str| {
            lines.clone().find_map(|line| line.split_once(':').filter(|(key, _)| key.eq_ignore_ascii_case(name)))
        };
        if field("Upgrade").is_some_and(|(_, value)| value.trim() == PROTOCOL) {
            let down = target == path(Direction::Ingress);
            if !down && target != path(Direction::Egress) {
                return self.respond("404 Not Found", 0);
            }
            let head =
                format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n");
            self.write(head.as_bytes())?;
            return if down { self.load_down() } else { self.load_up() };
        }
        match method {
            "HEAD" => self.respond("200 OK", self.left()),
            "GET" if target == "/small" => {
                self.respond("200 OK", 1)?;
                self.write(b"1")
            }
            "GET" => {
                let length = self.left();
                self.respond("200 OK", length)?;
                let (cells, mut left) = (cells(), length);
                while left > 0 {
                    let part = (cells.len() as u64).min(left);
                    self.write(&cells[..part as usize])?;
                    left -= part;
                }
                Ok(())
            }
            "POST" | "PUT" => {
                let length = field("Content-Length").and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0);
                self.read_all(length)?;
                self.respond("200 OK", 0)
            }
            _ => self.respond("405 Method Not Allowed", 0),
        }
    }

    /// Bytes that may still be served.
    fn left(&self) -> u64 {
        self.bytes.saturating_sub(self.state.bytes.load(Ordering::Relaxed))
    }

    fn respond(&mut self, status: &str, length: u64) -> Done {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/octet-stream\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        self.write(head.as_bytes())
    }

    /// Whether the connection may go on: its time, the time since bytes last moved, and the bytes of all.
    fn may_go_on(&self, last: Clock) -> Done {
        if Clock::now() < self.ends && last.elapsed() < SILENCE && self.left() > 0 { Ok(()) } else { Err(()) }
    }

    fn write(&mut self, mut bytes: &[u8]) -> Done {
        let mut last = Clock::now();
        while !bytes.is_empty() {
            self.may_go_on(last)?;
            match self.stream.write(bytes) {
                Ok(length) => {
                    self.state.bytes.fetch_add(length as u64, Ordering::Relaxed);
                    (bytes, last) = (&bytes[length..], Clock::now());
                }
                Err(error) if is_pause(&error) => {}
                Err(_) => return Err(()),
            }
        }
        Ok(())
    }

    /// Reads some bytes; 0 at the end.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ()> {
        let last = Clock::now();
        loop {
            self.may_go_on(last)?;
            match self.stream.read(buffer) {
                Ok(length) => {
                    self.state.bytes.fetch_add(length as u64, Ordering::Relaxed);
                    return Ok(length);
                }
                Err(error) if is_pause(&error) => {}
                Err(_) => return Err(()),
            }
        }
    }

    /// The head of a request, without the bytes behind it: those of an upload are counted by their number alone.
    fn head(&mut self) -> Result<Vec<u8>, ()> {
        let (mut head, began) = (Vec::new(), Clock::now());
        let mut byte = [0; 1];
        // Byte by byte, so that nothing behind the head is taken; it is short.
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() >= HEAD || began.elapsed() >= SILENCE || self.read(&mut byte)? == 0 {
                return Err(());
            }
            head.push(byte[0]);
        }
        Ok(head)
    }

    fn read_all(&mut self, mut left: u64) -> Done {
        let mut buffer = vec![0; 64 << 10];
        while left > 0 {
            let part = (buffer.len() as u64).min(left) as usize;
            match self.read(&mut buffer[..part])? {
                0 => return Err(()),
                length => left -= length as u64,
            }
        }
        Ok(())
    }

    /// Sends cells; the first byte of one is the number of probes that it answers.
    fn load_down(&mut self) -> Done {
        // The client asks for the first cell when it has read the head.
        if self.read(&mut [0; 1])? == 0 {
            return Err(());
        }
        let _ = limit_unsent(self.stream, UNSENT);
        let cells = cells();
        let mut answer = cells[..CELL].to_vec();
        let mut probes = [0; 64];
        loop {
            match peek_bytes(self.stream, &mut probes)? {
                0 => self.write(&cells[..CELL * CELLS])?,
                count => {
                    answer[0] = count as u8;
                    self.write(&answer)?;
                }
            }
        }
    }

    /// Reads cells, and answers each that is a probe by a byte.
    fn load_up(&mut self) -> Done {
        let (mut buffer, mut at) = (vec![0; 64 << 10], 0_usize);
        loop {
            let length = self.read(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            let first = (CELL - at) % CELL;
            let probes = buffer[..length].iter().skip(first).step_by(CELL).filter(|flag| **flag > 0).count();
            at = (at + length) % CELL;
            self.write(&vec![1; probes])?;
        }
    }
}

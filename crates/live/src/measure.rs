//! Measures what a line carries: several TCP connections to a peer of the user's choosing, that serves HTTP/1.1.
//!
//! Downwards a file is requested again and again (GET), upwards data is sent (POST). Every [`SAMPLE`] the bytes that all
//! connections have received, or whose arrival the peer has acknowledged, are counted. The result is the median of the
//! samples since the rate has become steady.
//!
//! *Law*: a rate is steady when the quartiles of the last [`STEADY`] samples are within a tenth of their median. Without
//! that the measurement ends after [`LONGEST`], and its result is the median of the second half.
//! *Units*: rates of IP packets; what is counted is the content of TCP, to which the headers of full-sized packets are
//! added.
//! *Notes*: the peer, or anything between it and the line, may be slower than the line. Other traffic of the line is not
//! counted and takes its share.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant as Clock};

use tidegate_engine::guard::lock;
use tidegate_sys::net::unacknowledged;
use tidegate_units::Rate;

use crate::rtnl::Rtnl;
use crate::rules::Direction;

/// The time between two samples.
pub const SAMPLE: Duration = Duration::from_millis(200);
/// The samples of a rate that is steady: two seconds.
pub const STEADY: usize = 10;
/// The longest time of a measurement.
pub const LONGEST: Duration = Duration::from_secs(12);

/// Connections at the same time: one alone may not fill a long line.
const CONNECTIONS: usize = 4;
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection waits before it looks whether the measurement has ended.
const LOOK: Duration = Duration::from_millis(50);
/// How long a peer may send nothing.
const SILENCE: Duration = Duration::from_secs(5);
/// The length of a request upwards, which is repeated.
const UPLOAD: u64 = 1 << 30;
const PIECE: usize = 16 << 10;
/// The longest head of a response.
const HEAD: usize = 16 << 10;

/// Why a line was not measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The peer is not written as a URL or as host and port.
    #[error(
        "`{0}` names no peer: write http://HOST[:PORT]/FILE, or HOST:PORT; https is not supported, because no TLS is built in"
    )]
    Peer(String),
    /// The name of the peer has no address.
    #[error("the address of {host} is not known: {source}")]
    Name {
        /// The host that was named.
        host: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Packets to the peer do not leave by the interface.
    #[error("the way to {peer} leaves by {by} and not by {interface}: name a peer beyond {interface}")]
    Elsewhere {
        /// The address of the peer.
        peer: IpAddr,
        /// The interface that is to be measured.
        interface: String,
        /// The interface by which packets to the peer leave.
        by: String,
    },
    /// The peer did not do what was asked for.
    #[error("{0}")]
    Refused(String),
    /// The kernel did not answer.
    #[error(transparent)]
    Netlink(#[from] crate::netlink::Error),
}

/// A peer that serves HTTP without TLS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    host: String,
    port: u16,
    path: String,
}

impl Peer {
    /// Reads `http://HOST[:PORT][/PATH]` or `HOST:PORT`; an IPv6 address is in brackets.
    ///
    /// # Errors
    /// [`MeasureError::Peer`].
    pub fn parse(text: &str) -> Result<Self, MeasureError> {
        let wrong = || MeasureError::Peer(text.into());
        let (rest, default) = match text.strip_prefix("http://") {
            Some(rest) => (rest, Some(80)),
            None => (text, None),
        };
        let (authority, path) = rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, path.into()));
        let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| wrong())?)),
            None => (authority, default),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_word = |text: &str| !text.chars().any(|c| c.is_whitespace() || c.is_control());
        match port {
            Some(port) if !host.is_empty() && !host.contains('/') && is_word(host) && is_word(&path) => {
                Ok(Self { host: host.into(), port, path: format!("/{path}") })
            }
            _ => Err(wrong()),
        }
    }

    fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{host}:{}", self.port)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

/// The result of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// The rate of IP packets.
    pub rate: Rate,
    /// The size of these packets in bytes: the MTU of the interface.
    pub packet: u32,
    /// The rate of the content of TCP.
    pub content: Rate,
    /// The quartiles of the samples of the content.
    pub quartiles: [Rate; 2],
    /// Whether it has become steady.
    pub is_steady: bool,
    /// The time that it took.
    pub time: Duration,
    /// The address of the peer.
    pub peer: SocketAddr,
}

/// State that the connections of a measurement share.
#[derive(Default)]
struct Shared {
    bytes: AtomicU64,
    stop: AtomicBool,
    error: Mutex<Option<String>>,
}

impl Shared {
    fn has_ended(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
    fn fail(&self, why: String) {
        lock(&self.error).get_or_insert(why);
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Measures a direction of the line behind `interface`, in the network namespace of the calling thread, for seconds.
///
/// # Errors
/// See [`MeasureError`].
pub fn measure(peer: &Peer, direction: Direction, interface: &str) -> Result<Measured, MeasureError> {
    let address = reach(peer, interface)?;
    let mtu = Rtnl::open()?.link(interface)?.map_or(1_500, |link| link.mtu);
    let shared = Shared::default();
    let began = Clock::now();
    let samples = thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let outcome = match direction {
                    Direction::Ingress => download(peer, address, &shared),
                    Direction::Egress => upload(peer, address, &shared),
                };
                if let Err(why) = outcome
                    && !shared.has_ended()
                {
                    shared.fail(format!("{peer}: {why}"));
                }
            });
        }
        let samples = watch(&shared, began);
        shared.stop.store(true, Ordering::Relaxed);
        samples
    });
    if let Some(why) = lock(&shared.error).take() {
        return Err(MeasureError::Refused(why));
    }
    let is_steady = steady(&samples).is_some();
    let last = steady(&samples).unwrap_or(&samples[samples.len() / 2..]);
    let [low, content, high] = quartiles(last);
    if content == 0 {
        return Err(MeasureError::Refused(format!("{peer}: nothing came through")));
    }
    // The header of IP, and that of TCP with timestamps.
    let headers = if address.is_ipv4() { 52 } else { 72 };
    let whole = u128::from(content) * u128::from(mtu) / u128::from(mtu.saturating_sub(headers).max(1));
    Ok(Measured {
        rate: Rate::from_bps(whole as u64),
        packet: mtu,
        content: Rate::from_bps(content),
        quartiles: [Rate::from_bps(low), Rate::from_bps(high)],
        is_steady,
        time: began.elapsed(),
        peer: address,
    })
}

/// An address of the peer to which packets leave by the interface.
fn reach(peer: &Peer, interface: &str) -> Result<SocketAddr, MeasureError> {
    let addresses = (peer.host.as_str(), peer.port)
        .to_socket_addrs()
        .map_err(|source| MeasureError::Name { host: peer.host.clone(), source })?;
    let mut rtnl = Rtnl::open()?;
    let mut why = MeasureError::Refused(format!("{peer}: it has no address"));
    for address in addresses {
        let by = match rtnl.route_to(address.ip())? {
            Some(index) => rtnl.link_by_index(index)?.map_or_else(|| index.to_string(), |link| link.name),
            None => {
                why = MeasureError::Refused(format!("{peer}: there is no route to {}", address.ip()));
                continue;
            }
        };
        if by != interface {
            why = MeasureError::Elsewhere { peer: address.ip(), interface: interface.into(), by };
            continue;
        }
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(_) => return Ok(address),
            Err(error) => why = MeasureError::Refused(format!("{peer}, {address}: {error}")),
        }
    }
    Err(why)
}

/// Takes samples until the rate is steady, a connection fails, or the time is over; in bit/s.
fn watch(shared: &Shared, began: Clock) -> Vec<u64> {
    let mut samples = Vec::new();
    let (mut at, mut before) = (began, shared.bytes.load(Ordering::Relaxed));
    while !shared.has_ended() && began.elapsed() < LONGEST && steady(&samples).is_none() {
        thread::sleep(SAMPLE);
        let (now, bytes) = (Clock::now(), shared.bytes.load(Ordering::Relaxed));
        let nanos = now.duration_since(at).as_nanos().max(1);
        let bits = u128::from(bytes - before) * 8;
        samples.push((bits * 1_000_000_000 / nanos) as u64);
        (at, before) = (now, bytes);
    }
    samples
}

/// The last samples, if they are steady.
fn steady(samples: &[u64]) -> Option<&[u64]> {
    let last = samples.get(samples.len().checked_sub(STEADY)?..)?;
    let [low, median, high] = quartiles(last);
    (low > 0 && high - low <= median / 10).then_some(last)
}

/// The quartiles of `samples`; zeros without any.
fn quartiles(samples: &[u64]) -> [u64; 3] {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    [1, 2, 3].map(|quarter| sorted.get(sorted.len() * quarter / 4).copied().unwrap_or(0))
}

fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    let stream = TcpStream::connect_timeout(&address, CONNECT).map_err(|error| error.to_string())?;
    let set = stream.set_read_timeout(Some(LOOK)).and_then(|()| stream.set_write_timeout(Some(LOOK)));
    set.map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Whether an operation only has to be repeated.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn download(peer: &Peer, address: SocketAddr, shared: &Shared) -> Result<(), String> {
    while !shared.has_ended() {
        let mut stream = connect(address)?;
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tidegate\r\nAccept: */*\r\nAccept-Encoding: identity\r\n\
             Connection: close\r\n\r\n",
            peer.path,
            peer.authority()
        );
        stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let Some(mut received) = head(&mut stream, shared)? else { return Ok(()) };
        shared.bytes.fetch_add(received, Ordering::Relaxed);
        let (mut buffer, mut last) = (vec![0; 64 << 10], Clock::now());
        while !shared.has_ended() {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    received += length as u64;
                    last = Clock::now();
                    shared.bytes.fetch_add(length as u64, Ordering::Relaxed);
                }
                Err(error) if is_pause(&error) && last.elapsed() < SILENCE => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        if received == 0 {
            return Err("the file is empty; name a large one".into());
        }
    }
    Ok(())
}

/// Reads the head of a response, which must be a success; returns the bytes behind it that came with it, `None` when
/// the measurement has ended.
fn head(stream: &mut TcpStream, shared: &Shared) -> Result<Option<u64>, String> {
    let (mut bytes, mut buffer, began) = (Vec::new(), [0; 4_096], Clock::now());
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let line = String::from_utf8_lossy(&bytes[..end]).lines().next().unwrap_or_default().to_owned();
            let code = line.split_whitespace().nth(1).unwrap_or_default();
            if code.starts_with('2') {
                return Ok(Some((bytes.len() - end - 4) as u64));
            }
            let advice = if code.starts_with('3') { "; name the place that it refers to, without https" } else { "" };
            return Err(format!("it answers `{line}`{advice}"));
        }
        if bytes.len() > HEAD {
            return Err("what it answers is not HTTP".into());
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Err("it closes the connection without a response".into()),
            Ok(length) => bytes.extend_from_slice(&buffer[..length]),
            Err(error) if is_pause(&error) && began.elapsed() < SILENCE => {
                if shared.has_ended() {
                    return Ok(None);
                }
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn upload(peer: &Peer, address: SocketAddr, shared: &Shared) -> Result<(), String> {
    // Not all zeros, which a link on the way might compress.
    let mut state = 1_u64;
    let piece: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
    .take(PIECE)
    .collect();
    while !shared.has_ended() {
        let mut stream = connect(address)?;
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tidegate\r\nContent-Type: application/octet-stream\r\n\
             Content-Length: {UPLOAD}\r\nConnection: close\r\n\r\n",
            peer.path,
            peer.authority()
        );
        stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let (mut written, mut counted, mut last) = (0_u64, 0_u64, Clock::now());
        while !shared.has_ended() && written < UPLOAD {
            let left = (UPLOAD - written).min(PIECE as u64) as usize;
            match stream.write(&piece[..left]) {
                Ok(length) => written += length as u64,
                Err(error) if is_pause(&error) && last.elapsed() < SILENCE => {}
                // Why the peer takes no more is in its response, if there is one.
                Err(error) => {
                    return Err(match head(&mut stream, shared) {
                        Err(why) => format!("it takes no upload: {why}"),
                        Ok(_) => format!("it takes no upload of this length: {error}"),
                    });
                }
            }
            let acknowledged = written.saturating_sub(unacknowledged(&stream).unwrap_or(0));
            if acknowledged > counted {
                shared.bytes.fetch_add(acknowledged - counted, Ordering::Relaxed);
                (counted, last) = (acknowledged, Clock::now());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_url_or_host_and_port() {
        let read = |text: &str| Peer::parse(text).map(|peer| peer.to_string()).map_err(|error| error.to_string());
        assert_eq!(read("http://example.net/100mb.bin").unwrap(), "http://example.net:80/100mb.bin");
        assert_eq!(read("http://example.net").unwrap(), "http://example.net:80/");
        assert_eq!(read("192.0.2.1:8080").unwrap(), "http://192.0.2.1:8080/");
        assert_eq!(read("http://[2001:db8::1]:81/a/b?c").unwrap(), "http://[2001:db8::1]:81/a/b?c");
        assert_eq!(read("http://[2001:db8::1]/").unwrap(), "http://[2001:db8::1]:80/");
        for wrong in ["", "example.net", "https://example.net/x", "http:///x", "host:port", "h:1/a b", "h\r\n:1"] {
            assert!(read(wrong).is_err_and(|why| why.contains("names no peer")), "{wrong}");
        }
    }

    #[test]
    fn the_steady_part_begins_after_the_start() {
        assert_eq!(steady(&[10; 9]), None);
        assert_eq!(steady(&[0; 20]), None, "nothing came");
        let start: Vec<u64> = (0..10).map(|n| n * 10).collect();
        assert_eq!(steady(&start), None);
        // 100 with single samples beside it: the quartiles are 99 and 101.
        let flat = [100, 99, 101, 100, 140, 99, 101, 60, 100, 100];
        let all = [&start[..], &flat[..]].concat();
        assert_eq!(steady(&all), Some(&flat[..]));
        assert_eq!(quartiles(&flat), [99, 100, 101]);
    }
}

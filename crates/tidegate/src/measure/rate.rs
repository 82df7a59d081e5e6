//! The rates of a line: several TCP connections download or upload until the rate is steady.
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

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant as Clock};

use tidegate_live::rtnl::Rtnl;
use tidegate_live::rules::Direction;
use tidegate_sys::net::unacknowledged;
use tidegate_units::Rate;

use super::peer::Peer;
use super::wire::{Connection, Trust, is_pause};
use super::{MeasureError, SILENCE, Shared, noise};

/// The time between two samples.
pub const SAMPLE: Duration = Duration::from_millis(200);
/// The samples of a rate that is steady: two seconds.
pub const STEADY: usize = 10;
/// The longest time of a measurement.
pub const LONGEST: Duration = Duration::from_secs(12);

/// Connections at the same time: one alone may not fill a long line.
const CONNECTIONS: usize = 4;
/// The length of a request upwards, which is repeated.
const UPLOAD: u64 = 1 << 30;
const PIECE: usize = 16 << 10;

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

/// Measures a direction of the line behind `interface`, in the network namespace of the calling thread, for seconds.
///
/// # Errors
/// See [`MeasureError`].
pub fn measure(
    peer: &Peer,
    direction: Direction,
    interface: &str,
    trust: Option<&Trust>,
) -> Result<Measured, MeasureError> {
    let address = peer.reach(Some(interface))?;
    let mtu = Rtnl::open()?.link(interface)?.map_or(1_500, |link| link.mtu);
    let shared = Shared::default();
    let began = Clock::now();
    let samples = thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let outcome = match direction {
                    Direction::Ingress => download(peer, address, trust, &shared),
                    Direction::Egress => upload(peer, address, trust, &shared),
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
    shared.outcome()?;
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

/// Downloads the file again and again, and counts its bytes.
///
/// # Errors
/// A text for people.
pub fn download(peer: &Peer, address: SocketAddr, trust: Option<&Trust>, shared: &Shared) -> Result<(), String> {
    while !shared.has_ended() {
        let mut stream = Connection::open(peer, address, trust)?.connection;
        stream.send(peer.request("GET", "Connection: close\r\n").as_bytes())?;
        let Some(head) = stream.head(|| shared.has_ended())? else { return Ok(()) };
        let mut received = head.success()?.len() as u64;
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
        if received == 0 && !shared.has_ended() {
            return Err("the file is empty; name a large one".into());
        }
    }
    Ok(())
}

/// Uploads without end, and counts the bytes whose arrival the peer has acknowledged.
///
/// # Errors
/// A text for people.
pub fn upload(peer: &Peer, address: SocketAddr, trust: Option<&Trust>, shared: &Shared) -> Result<(), String> {
    let piece = noise(PIECE);
    while !shared.has_ended() {
        let mut stream = Connection::open(peer, address, trust)?.connection;
        let lines =
            format!("Content-Type: application/octet-stream\r\nContent-Length: {UPLOAD}\r\nConnection: close\r\n");
        stream.send(peer.request("POST", &lines).as_bytes())?;
        let (mut written, mut counted, mut last) = (0_u64, 0_u64, Clock::now());
        while !shared.has_ended() && written < UPLOAD {
            let left = (UPLOAD - written).min(PIECE as u64) as usize;
            match stream.write(&piece[..left]) {
                Ok(length) => written += length as u64,
                Err(error) if is_pause(&error) && last.elapsed() < SILENCE => {}
                // Why the peer takes no more is in its response, if there is one.
                Err(error) => {
                    return Err(
                        match stream.head(|| shared.has_ended()).map(|head| head.map(super::wire::Head::success)) {
                            Err(why) | Ok(Some(Err(why))) => format!("it takes no upload: {why}"),
                            Ok(_) => format!("it takes no upload of this length: {error}"),
                        },
                    );
                }
            }
            let acknowledged = written.saturating_sub(unacknowledged(stream.socket()).unwrap_or(0));
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

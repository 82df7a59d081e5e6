//! Responsiveness under working conditions, in round trips a minute (RPM): draft-ietf-ippm-responsiveness-08.
//!
//! One direction after the other is loaded: a load-generating connection more every [`INTERVAL`], up to [`CONNECTIONS`]. Probes
//! are sent meanwhile, on connections of their own ("foreign": handshakes of TCP and TLS, and a request for one byte) and on the
//! loaded ones. When the goodput has become stable and then the responsiveness, or after [`LONGEST`], the direction is done.
//!
//! *Law*: `TM` being the mean of the probes of the last four intervals without the slowest 5 %, in ms,
//!
//! ```text
//! foreign = 60000 / ((TM(tcp) + TM(tls) + TM(http)) / 3)      with TLS
//! foreign = 60000 / ((TM(tcp) + TM(http)) / 2)                without
//! loaded  = 60000 / TM(loaded)
//! RPM     = (foreign + loaded) / 2
//! ```
//!
//! A value is stable when the standard deviation of its last four moving averages is at most 5 % of the latest one.
//! *Source*: draft-ietf-ippm-responsiveness-08, "Measuring Responsiveness", "Final Algorithm"; its default parameters.
//! *Departures from the source, and why*: HTTP/1.1 instead of HTTP/2, for which this program has no library. Probes on loaded
//! connections need a [`super::serve`] at the other end, which multiplexes them; with any other peer only the foreign half
//! is measured, and its result is called that. At most [`PROBES`] pairs a second, a fifth of the permitted ones, are sent, and fewer where
//! they would take more than 5 % of the goodput. A probe without an answer after five seconds counts as five seconds.
//! Larger values are better; the wait in the other direction is part of every round trip.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant as Clock};

use serde::Serialize;
use tidegate_control::answer::{Evidence, Grade, Traffic};
use tidegate_engine::guard::lock;
use tidegate_live::rules::Direction;
use tidegate_units::Span;

use super::load::Load;
use super::peer::Peer;
use super::wire::{Connection, Trust, is_pause};
use super::{LOOK, MeasureError, SILENCE, Shared, rate};

/// The time between two evaluations (ID).
pub const INTERVAL: Duration = Duration::from_secs(1);
/// The intervals of a moving average (MAD).
pub const INTERVALS: usize = 4;
/// The most load-generating connections (MNP).
pub const CONNECTIONS: usize = 16;
/// The most pairs of probes in a second.
pub const PROBES: u64 = 20;
/// The longest time of a direction.
pub const LONGEST: Duration = Duration::from_secs(20);
/// The bytes of a pair of probes, as the draft estimates them.
const PAIR: u64 = 6_000;
/// Foreign probes at the same time.
const FOREIGN: usize = 32;
/// Probes before the load.
const IDLE: usize = 5;

/// How much a result can be relied on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Four intervals were not reached.
    Low,
    /// The responsiveness did not become stable.
    Medium,
    /// The responsiveness became stable.
    High,
}

impl Confidence {
    /// Returns the word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// The result for one direction. Times are in milliseconds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Responsiveness {
    /// Round trips a minute; the foreign half alone where the peer multiplexes no probes.
    pub rpm: f64,
    /// Round trips a minute on separate connections.
    pub foreign_rpm: f64,
    /// Round trips a minute on load-generating connections.
    pub loaded_rpm: Option<f64>,
    /// Trimmed mean of the handshakes of TCP.
    pub tcp_ms: f64,
    /// Trimmed mean of a round trip of the handshakes of TLS.
    pub tls_ms: Option<f64>,
    /// Trimmed mean of the requests on separate connections.
    pub http_ms: f64,
    /// Trimmed mean of the requests on load-generating connections.
    pub loaded_ms: Option<f64>,
    /// The foreign round trips a minute before the load.
    pub idle_rpm: f64,
    /// The content of TCP in the last four intervals, in bit/s.
    pub goodput_bps: u64,
    /// Load-generating connections.
    pub connections: usize,
    /// Probes that the result is derived from.
    pub probes: usize,
    /// How much it can be relied on.
    pub confidence: Confidence,
    /// The time that it took, in seconds.
    pub seconds: f64,
}

impl Responsiveness {
    /// Returns the grade of pages under this load on separate connections, and where they were measured on loaded ones.
    pub fn grades(&self) -> [Option<Grade>; 2] {
        [Some(self.foreign_rpm), self.loaded_rpm].map(|rpm| grade(rpm?))
    }
}

/// The grade of pages by round trips a minute: half of a round trip is the wait in one direction.
fn grade(rpm: f64) -> Option<Grade> {
    let wait = Span::from_nanos((30e9 / rpm.max(1.0)) as u64);
    Traffic::Web.grade(&Evidence { wait, ..Evidence::default() })
}

/// A foreign probe.
#[derive(Clone, Copy, Debug)]
struct Foreign {
    at: Clock,
    tcp: Duration,
    tls: Option<Duration>,
    http: Duration,
}

/// What is known at one time.
#[derive(Clone, Copy, Debug)]
struct Means {
    tcp: f64,
    tls: Option<f64>,
    http: f64,
    loaded: Option<f64>,
    probes: usize,
}

impl Means {
    /// The means of probes that ended at `from` or later; `None` as long as a kind has none.
    fn of(foreign: &[Foreign], loaded: Option<&[(Clock, Duration)]>, from: Clock) -> Option<Self> {
        let recent: Vec<_> = foreign.iter().filter(|probe| probe.at >= from).collect();
        let mean = |get: &dyn Fn(&Foreign) -> Option<Duration>| trimmed(recent.iter().filter_map(|probe| get(probe)));
        let loaded = loaded.map(|all| all.iter().filter(|(at, _)| *at >= from).map(|(_, time)| *time));
        let count = loaded.clone().map_or(0, Iterator::count);
        Some(Self {
            tcp: mean(&|probe| Some(probe.tcp))?,
            tls: mean(&|probe| probe.tls),
            http: mean(&|probe| Some(probe.http))?,
            loaded: match loaded {
                Some(times) => Some(trimmed(times)?),
                None => None,
            },
            probes: recent.len() + count,
        })
    }
    fn foreign_rpm(&self) -> f64 {
        let parts = [Some(self.tcp), self.tls, Some(self.http)];
        let count = parts.iter().flatten().count();
        60_000.0 * count as f64 / parts.iter().flatten().sum::<f64>().max(0.001)
    }
    fn rpm(&self) -> f64 {
        let foreign = self.foreign_rpm();
        self.loaded.map_or(foreign, |loaded| f64::midpoint(foreign, 60_000.0 / loaded.max(0.001)))
    }
}

/// The mean without the slowest 5 %, in milliseconds; `None` without any.
fn trimmed(times: impl Iterator<Item = Duration>) -> Option<f64> {
    let mut sorted: Vec<Duration> = times.collect();
    sorted.sort_unstable();
    let kept = &sorted[..(sorted.len() * 95).div_ceil(100)];
    (!kept.is_empty()).then(|| kept.iter().sum::<Duration>().as_secs_f64() * 1_000.0 / kept.len() as f64)
}

/// Whether the last values are stable.
fn is_stable(values: &[f64]) -> bool {
    let Some(last) = values.len().checked_sub(INTERVALS).map(|from| &values[from..]) else { return false };
    let mean = last.iter().sum::<f64>() / INTERVALS as f64;
    let deviation = (last.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / INTERVALS as f64).sqrt();
    let latest = last[INTERVALS - 1];
    latest > 0.0 && deviation <= 0.05 * latest
}

/// State of a direction that is being measured.
struct Run<'a> {
    peer: &'a Peer,
    address: SocketAddr,
    trust: Option<&'a Trust>,
    direction: Direction,
    shared: Shared,
    loads: Mutex<Vec<Arc<Load>>>,
    foreign: Mutex<Vec<Foreign>>,
    loaded: Mutex<Vec<(Clock, Duration)>>,
    running: AtomicUsize,
    goodput: AtomicU64,
}

/// Measures the responsiveness of a direction, in the network namespace of the calling thread, for at most [`LONGEST`] and the
/// time-outs of the connections.
///
/// # Errors
/// See [`MeasureError`].
pub fn measure(
    peer: &Peer,
    direction: Direction,
    interface: Option<&str>,
    trust: Option<&Trust>,
) -> Result<Responsiveness, MeasureError> {
    let address = peer.reach(interface)?;
    let refused = |why: String| MeasureError::Refused(format!("{peer}: {why}"));
    let began = Clock::now();
    // The peer multiplexes probes, or does not.
    let multiplexes = !peer.is_secure && Load::open(peer, address, direction).map_err(refused)?.is_some();
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        idle.push(foreign(peer, address, trust, multiplexes, || false).map_err(refused)?);
    }
    let idle_rpm = Means::of(&idle, None, began).map_or(0.0, |means| means.foreign_rpm());
    let run = Run {
        peer,
        address,
        trust,
        direction,
        shared: Shared::default(),
        loads: Mutex::default(),
        foreign: Mutex::default(),
        loaded: Mutex::default(),
        running: AtomicUsize::new(0),
        goodput: AtomicU64::new(0),
    };
    let found = run.watch(multiplexes);
    run.shared.outcome()?;
    let (means, confidence, connections) = found;
    let means = means.ok_or_else(|| refused("no probe was answered under load".into()))?;
    Ok(Responsiveness {
        rpm: means.rpm(),
        foreign_rpm: means.foreign_rpm(),
        loaded_rpm: means.loaded.map(|loaded| 60_000.0 / loaded.max(0.001)),
        tcp_ms: means.tcp,
        tls_ms: means.tls,
        http_ms: means.http,
        loaded_ms: means.loaded,
        idle_rpm,
        goodput_bps: run.goodput.load(Ordering::Relaxed),
        connections,
        probes: means.probes,
        confidence,
        seconds: began.elapsed().as_secs_f64(),
    })
}

impl Run<'_> {
    /// Loads and probes until the responsiveness is stable; the means, how much they can be relied on, and the connections.
    fn watch(&self, multiplexes: bool) -> (Option<Means>, Confidence, usize) {
        thread::scope(|scope| {
            scope.spawn(move || self.probe(scope, multiplexes));
            let began = Clock::now();
            let (mut bytes, mut averages, mut rpms) = (vec![0], Vec::new(), Vec::new());
            let (mut means, mut connections, mut stable) = (None, 0, [false; 2]);
            while began.elapsed() < LONGEST && !self.shared.has_ended() && !stable[1] {
                if connections < CONNECTIONS {
                    connections += 1;
                    scope.spawn(move || self.load(multiplexes));
                }
                thread::sleep(INTERVAL);
                bytes.push(self.shared.bytes.load(Ordering::Relaxed));
                let from = bytes.len().saturating_sub(INTERVALS + 1);
                let count = (bytes.len() - 1 - from) as u64;
                let average = (bytes[bytes.len() - 1] - bytes[from]) * 8 / count.max(1);
                self.goodput.store(average, Ordering::Relaxed);
                averages.push(average as f64);
                stable[0] |= is_stable(&averages);
                let since = Clock::now() - INTERVAL * INTERVALS as u32;
                let loaded = lock(&self.loaded);
                means = Means::of(&lock(&self.foreign), multiplexes.then_some(&loaded[..]), since);
                drop(loaded);
                if let Some(means) = means.filter(|_| stable[0]) {
                    rpms.push(means.rpm());
                    stable[1] = is_stable(&rpms);
                }
            }
            self.shared.stop.store(true, Ordering::Relaxed);
            let confidence = match (stable[1], averages.len() >= INTERVALS) {
                (true, _) => Confidence::High,
                (false, true) => Confidence::Medium,
                (false, false) => Confidence::Low,
            };
            (means, confidence, connections)
        })
    }

    /// Generates load by one connection.
    fn load(&self, multiplexes: bool) {
        let (peer, address, trust, shared) = (self.peer, self.address, self.trust, &self.shared);
        let outcome = match (multiplexes, self.direction) {
            (true, direction) => self.multiplexed(direction),
            (false, Direction::Ingress) => rate::download(peer, address, trust, shared),
            (false, Direction::Egress) => rate::upload(peer, address, trust, shared),
        };
        if let Err(why) = outcome
            && !shared.has_ended()
        {
            shared.fail(format!("{peer}: {why}"));
        }
    }

    fn multiplexed(&self, direction: Direction) -> Result<(), String> {
        let load = Load::open(self.peer, self.address, direction)?;
        let load = Arc::new(load.ok_or("it generates load no more")?);
        lock(&self.loads).push(Arc::clone(&load));
        load.run(&self.shared, &self.loaded)
    }

    /// Sends probes, of both kinds in turn, until the measurement ends.
    fn probe<'scope>(&'scope self, scope: &'scope thread::Scope<'scope, '_>, multiplexes: bool) {
        let mut turn = 0_usize;
        while !self.shared.has_ended() {
            // 5 % of the goodput (PTC).
            let a_second = (self.goodput.load(Ordering::Relaxed) / 20 / (8 * PAIR)).clamp(2, PROBES);
            let half = Duration::from_secs(1) / (2 * a_second) as u32;
            if self.running.load(Ordering::Relaxed) < FOREIGN {
                self.running.fetch_add(1, Ordering::Relaxed);
                scope.spawn(move || {
                    let found = foreign(self.peer, self.address, self.trust, multiplexes, || self.shared.has_ended());
                    let lost =
                        Foreign { at: Clock::now(), tcp: SILENCE, tls: self.trust.map(|_| SILENCE), http: SILENCE };
                    if !self.shared.has_ended() {
                        lock(&self.foreign).push(found.unwrap_or(lost));
                    }
                    self.running.fetch_sub(1, Ordering::Relaxed);
                });
            }
            thread::sleep(half);
            let load = {
                let loads = lock(&self.loads);
                (!loads.is_empty()).then(|| Arc::clone(&loads[turn % loads.len()]))
            };
            if let Some(load) = load {
                load.probe();
            }
            turn += 1;
            thread::sleep(half);
        }
    }
}

/// A probe on a connection of its own: for the byte that a [`super::serve`] has, or for the head of the file of any other peer.
fn foreign(
    peer: &Peer,
    address: SocketAddr,
    trust: Option<&Trust>,
    is_ours: bool,
    ended: impl Fn() -> bool,
) -> Result<Foreign, String> {
    let mut opened = Connection::open(peer, address, trust)?;
    let began = Clock::now();
    let request = match is_ours {
        true => format!("GET /small HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"),
        false => peer.request("HEAD", "Connection: close\r\n"),
    };
    opened.connection.send(request.as_bytes())?;
    let head = opened.connection.head(&ended)?.ok_or("the measurement has ended")?;
    let mut body = head.success()?.len();
    while is_ours && body == 0 && !ended() {
        match std::io::Read::read(&mut opened.connection, &mut [0; 16]) {
            Ok(0) => return Err("the response is cut short".into()),
            Ok(length) => body += length,
            Err(error) if is_pause(&error) && began.elapsed() < SILENCE => thread::sleep(LOOK / 50),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(Foreign { at: Clock::now(), tcp: opened.tcp, tls: opened.tls, http: began.elapsed() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(values: &[u64]) -> impl Iterator<Item = Duration> + '_ {
        values.iter().copied().map(Duration::from_millis)
    }

    #[test]
    fn the_slowest_twentieth_is_no_part_of_the_mean() {
        assert_eq!(trimmed(ms(&[])), None);
        assert_eq!(trimmed(ms(&[10])), Some(10.0));
        // Of 20 the slowest one is left out; of 19 none.
        let mut times = vec![10; 19];
        assert_eq!(trimmed(ms(&times)), Some(10.0));
        times.push(5_000);
        assert_eq!(trimmed(ms(&times)), Some(10.0));
    }

    #[test]
    fn stable_is_within_a_twentieth() {
        assert!(!is_stable(&[100.0; 3]));
        assert!(is_stable(&[1.0, 100.0, 104.0, 96.0, 100.0]));
        // Deviations of 10 each: 10 % of 100.
        assert!(!is_stable(&[110.0, 90.0, 110.0, 90.0]));
        assert!(!is_stable(&[0.0; 4]));
    }

    #[test]
    fn the_formula_has_a_form_with_and_one_without_tls() {
        let now = Clock::now();
        let probe = |tcp, tls: Option<u64>, http| Foreign {
            at: now,
            tcp: Duration::from_millis(tcp),
            tls: tls.map(Duration::from_millis),
            http: Duration::from_millis(http),
        };
        // 60000 / ((20 + 40) / 2) = 2000; 60000 / 60 = 1000; their mean is 1500.
        let loaded = [(now, Duration::from_millis(60))];
        let plain = Means::of(&[probe(20, None, 40)], Some(&loaded), now).unwrap();
        assert_eq!((plain.foreign_rpm().round(), plain.rpm().round(), plain.probes), (2_000.0, 1_500.0, 2));
        // 60000 / ((20 + 30 + 40) / 3) = 2000, and without probes on loaded connections that is all.
        let secure = Means::of(&[probe(20, Some(30), 40)], None, now).unwrap();
        assert_eq!((secure.rpm().round(), secure.loaded), (2_000.0, None));
        // As long as a kind has no probe there is no result.
        assert!(Means::of(&[probe(20, None, 40)], Some(&[]), now).is_none());
        assert!(Means::of(&[probe(20, None, 40)], None, now + Duration::from_secs(1)).is_none());
    }
}

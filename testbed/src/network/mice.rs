//! [`Mice`]: short transfers over TCP, each by a connection of its own, with the time that each took.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};

use crate::topology::Host;

/// The direction of the bytes of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the end that opens the connection to the end that listens.
    Upload,
    /// To the end that opens the connection, after a short request.
    Download,
}

/// The distribution of transfer sizes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sizes {
    /// Uniform between the two, in bytes.
    Uniform(u64, u64),
    /// Bounded Pareto between the two, in bytes, with this exponent.
    Pareto(u64, u64, f64),
}

impl Sizes {
    /// The size for `u`, drawn uniformly from 0 to 1.
    pub fn at(self, u: f64) -> u64 {
        match self {
            Self::Uniform(low, high) => low + ((high - low) as f64 * u) as u64,
            Self::Pareto(low, high, exponent) => {
                // Inverse of the distribution function of the bounded Pareto distribution.
                let ratio = (low as f64 / high as f64).powf(exponent);
                (low as f64 * (1.0 - u * (1.0 - ratio)).powf(-1.0 / exponent)).min(high as f64) as u64
            }
        }
    }
}

/// A workload of transfers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MiceSpec {
    /// The address that connections come from.
    pub from: IpAddr,
    /// The address that listens.
    pub to: SocketAddr,
    /// The mean time from one start to the next; times are exponential.
    pub interval: Duration,
    /// The distribution of their sizes.
    pub sizes: Sizes,
    /// Which way the bytes go.
    pub direction: Direction,
    /// Transfers that may be open at once; more are refused.
    pub most_open: usize,
    /// The seed of times and sizes; equal for runs that are compared.
    pub seed: u64,
}

/// The result of one transfer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mouse {
    /// Its size in bytes.
    pub size: u64,
    /// Its start, since the start of the workload.
    pub began: Duration,
    /// The time until the connection was established; `None` if it was not.
    pub connect: Option<Duration>,
    /// The time from the first packet until the last byte arrived; `None` if it did not arrive within the run.
    pub completion: Option<Duration>,
    /// Whether it was refused because too many were open.
    pub refused: bool,
}

/// The length of a request for a download.
const REQUEST: usize = 8;
/// The time after which a transfer is aborted.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Running transfers. They stop when this is dropped.
#[derive(Debug)]
pub struct Mice {
    stop: Arc<AtomicBool>,
    /// No transfer is started any more; open ones continue.
    enough: Arc<AtomicBool>,
    log: Arc<Mutex<Vec<Mouse>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Mice {
    /// Starts transfers between a `client`, which opens connections, and a `server`.
    ///
    /// # Errors
    /// When the server cannot listen or a thread cannot be made.
    pub fn start(client: &Host, server: &Host, spec: MiceSpec) -> io::Result<Self> {
        let (stop, enough) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let log = Arc::new(Mutex::new(Vec::new()));
        let listener = server.namespace.run(|| TcpListener::bind(spec.to))??;
        listener.set_nonblocking(true)?;
        let stopped = Arc::clone(&stop);
        let serving =
            thread::Builder::new().name("mice server".into()).spawn(move || serve(&listener, spec, &stopped))?;
        let (stopped, no_more, into) = (Arc::clone(&stop), Arc::clone(&enough), Arc::clone(&log));
        let client = client.namespace.try_clone()?;
        let sending = thread::Builder::new().name("mice".into()).spawn(move || {
            // Threads started from here on are in the same namespace.
            if client.enter_thread().is_ok() {
                generate(spec, &stopped, &no_more, &into);
            }
        })?;
        Ok(Self { stop, enough, log, threads: vec![serving, sending] })
    }

    /// The results of transfers that have ended so far, in the order of their ends.
    pub fn so_far(&self) -> Vec<Mouse> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops and returns all results; transfers that were open have no completion.
    pub fn stop(mut self) -> Vec<Mouse> {
        self.halt();
        self.so_far()
    }

    /// Starts no more transfers, waits at most `patience` for open ones, and returns all results; those that took
    /// longer have no completion. The results thus cover all transfers and not only fast ones.
    pub fn finish(mut self, patience: Duration) -> Vec<Mouse> {
        self.enough.store(true, Ordering::Relaxed);
        let began = Instant::now();
        // The last thread starts them, and waits for each.
        while self.threads.last().is_some_and(|making| !making.is_finished()) && began.elapsed() < patience {
            thread::sleep(Duration::from_millis(5));
        }
        self.halt();
        self.so_far()
    }

    fn halt(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Mice {
    fn drop(&mut self) {
        self.halt();
    }
}

/// A small generator (splitmix64): the same transfers in runs that are compared.
fn draw(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

fn generate(spec: MiceSpec, stop: &Arc<AtomicBool>, enough: &AtomicBool, log: &Arc<Mutex<Vec<Mouse>>>) {
    let over = || stop.load(Ordering::Relaxed) || enough.load(Ordering::Relaxed);
    let (start, mut random) = (Instant::now(), spec.seed);
    let open = Arc::new(AtomicUsize::new(0));
    let mut running: Vec<JoinHandle<()>> = Vec::new();
    let mut due = Duration::ZERO;
    while !over() {
        due += spec.interval.mul_f64(-(1.0 - draw(&mut random)).ln());
        let size = spec.sizes.at(draw(&mut random));
        while start.elapsed() < due && !over() {
            thread::sleep((due.saturating_sub(start.elapsed())).min(Duration::from_millis(20)));
        }
        if over() {
            break;
        }
        let mut mouse = Mouse { size, began: start.elapsed(), connect: None, completion: None, refused: false };
        if open.load(Ordering::Relaxed) >= spec.most_open {
            mouse.refused = true;
            log.lock().unwrap_or_else(PoisonError::into_inner).push(mouse);
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let (stop, into, open) = (Arc::clone(stop), Arc::clone(log), Arc::clone(&open));
        let thread = thread::Builder::new().stack_size(256 << 10).spawn(move || {
            // A failed transfer has no completion.
            let _ = transfer(spec, &mut mouse, &stop);
            open.fetch_sub(1, Ordering::Relaxed);
            into.lock().unwrap_or_else(PoisonError::into_inner).push(mouse);
        });
        running.extend(thread);
        running.retain(|thread| !thread.is_finished());
    }
    for thread in running {
        let _ = thread.join();
    }
}

/// A connection from `from` to `to`, made within [`PATIENCE`] and before `stop`.
pub(crate) fn connected(from: IpAddr, to: SocketAddr, stop: &AtomicBool) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let fd: OwnedFd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    bind(fd.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from, 0)))?;
    match connect(fd.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(nix::errno::Errno::EINPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(fd);
    let began = Instant::now();
    while began.elapsed() < PATIENCE && !stop.load(Ordering::Relaxed) {
        let mut polled = [nix::poll::PollFd::new(std::os::fd::AsFd::as_fd(&stream), nix::poll::PollFlags::POLLOUT)];
        if nix::poll::poll(&mut polled, nix::poll::PollTimeout::from(50_u8))? > 0 {
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
            stream.set_nonblocking(false)?;
            return Ok(stream);
        }
    }
    Err(ErrorKind::TimedOut.into())
}

fn transfer(spec: MiceSpec, mouse: &mut Mouse, stop: &AtomicBool) -> io::Result<()> {
    let began = Instant::now();
    let mut stream = connected(spec.from, spec.to, stop)?;
    mouse.connect = Some(began.elapsed());
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    stream.set_write_timeout(Some(Duration::from_millis(100)))?;
    let ended = || began.elapsed() > PATIENCE || stop.load(Ordering::Relaxed);
    let whole = match spec.direction {
        Direction::Upload => {
            write(&mut stream, mouse.size, &ended)?;
            stream.shutdown(Shutdown::Write)?;
            // The other end closes when it has received everything.
            read(&mut stream, &ended)? == 0
        }
        Direction::Download => {
            stream.write_all(&mouse.size.to_be_bytes())?;
            read(&mut stream, &ended)? == mouse.size
        }
    };
    if whole {
        mouse.completion = Some(began.elapsed());
    }
    Ok(())
}

fn serve(listener: &TcpListener, spec: MiceSpec, stop: &Arc<AtomicBool>) {
    let mut running: Vec<JoinHandle<()>> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                let stop = Arc::clone(stop);
                let thread = thread::Builder::new().stack_size(256 << 10).spawn(move || {
                    // A client may disconnect at any time.
                    let _ = answer(stream, spec.direction, &stop);
                });
                running.extend(thread);
                running.retain(|thread| !thread.is_finished());
            }
            // Woken by the next connection, so that its reply does not wait for the next iteration of this loop.
            Err(_) => {
                let mut polled =
                    [nix::poll::PollFd::new(std::os::fd::AsFd::as_fd(listener), nix::poll::PollFlags::POLLIN)];
                let _ = nix::poll::poll(&mut polled, nix::poll::PollTimeout::from(50_u8));
            }
        }
    }
    for thread in running {
        let _ = thread.join();
    }
}

fn answer(mut stream: TcpStream, direction: Direction, stop: &AtomicBool) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    stream.set_write_timeout(Some(Duration::from_millis(100)))?;
    let ended = || stop.load(Ordering::Relaxed);
    match direction {
        Direction::Upload => read(&mut stream, &ended).map(drop),
        Direction::Download => {
            let mut request = [0; REQUEST];
            let mut filled = 0;
            while filled < REQUEST && !ended() {
                match stream.read(&mut request[filled..]) {
                    Ok(0) => return Ok(()),
                    Ok(n) => filled += n,
                    Err(error) if is_pause(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            write(&mut stream, u64::from_be_bytes(request), &ended)
        }
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn write(stream: &mut TcpStream, size: u64, ended: &dyn Fn() -> bool) -> io::Result<()> {
    let chunk = [0x6d; 16_384];
    let mut left = size;
    while left > 0 && !ended() {
        match stream.write(&chunk[..left.min(chunk.len() as u64) as usize]) {
            Ok(n) => left -= n as u64,
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads to the end of the stream; returns the bytes received, or an error if it did not end in time.
fn read(stream: &mut TcpStream, ended: &dyn Fn() -> bool) -> io::Result<u64> {
    let mut buffer = [0; 16_384];
    let mut got = 0;
    while !ended() {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(got),
            Ok(n) => got += n as u64,
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_to_their_bounds_and_their_mean() {
        let mut state = 7;
        for (sizes, low, high, mean) in [
            (Sizes::Uniform(2_500, 7_500), 2_500, 7_500, 5_000.0),
            // Mean of the bounded Pareto: L^a / (1 - (L/H)^a) * a / (a - 1) * (L^(1-a) - H^(1-a))
            // = 6 * 2,000 * (1 - 5,000^-0.2) / (1 - 5,000^-1.2) = 12,000 * 0.81794 / 0.99996 = 9,815.
            (Sizes::Pareto(2_000, 10_000_000, 1.2), 2_000, 10_000_000, 9_815.0),
        ] {
            let drawn: Vec<u64> = (0..400_000).map(|_| sizes.at(draw(&mut state))).collect();
            assert!(drawn.iter().all(|&size| (low..=high).contains(&size)));
            let got = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
            // The tail dominates the variance: 400,000 draws leave some percent.
            assert!((got / mean - 1.0).abs() < 0.15, "{got} for {mean}");
        }
    }
}

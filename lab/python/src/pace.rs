//! [`PacedSocket`]: a UDP socket that sends at a rate, the native part of `tidegate.pace`.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_pace::udp::{Attempt, Choice, Settings};
use tidegate_pace::{Clock, Instant, MonotonicClock, Paced, Params, Rate, Span, SpinBudget, Timer, UdpSocket};

use crate::{failure, watch};

/// A UDP socket that sends at a rate. `tidegate.pace` has classes for threads and for asyncio over it.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct PacedSocket {
    socket: UdpSocket,
    /// Wakes an event loop when an attempt may be repeated.
    timer: Timer,
}

#[pymethods]
impl PacedSocket {
    #[new]
    #[pyo3(signature = (peer, rate, *, bind=None, live=false, burst=None, spin=0, backend="auto", towards=None))]
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of the Python classes")]
    fn new(
        py: Python<'_>,
        peer: Option<&str>,
        rate: &str,
        bind: Option<&str>,
        live: bool,
        burst: Option<&str>,
        spin: u16,
        backend: &str,
        towards: Option<&str>,
    ) -> PyResult<Self> {
        let rate = parsed::<Rate>("rate", rate)?;
        let spin = SpinBudget::permille(spin.saturating_mul(10)).map_err(value)?;
        let mut settings = if live { Settings::from(Params::live(rate)) } else { Settings::new(rate) };
        settings.params.spin = spin;
        settings.burst = burst.map_or(Ok(settings.burst), |text| parsed("burst", text))?;
        settings.backend = choice(backend)?;
        settings.towards = towards.map(|text| parsed("towards", text)).transpose()?;
        let socket = failure::guarded(py, || {
            let socket = match (peer, bind) {
                (Some(peer), None) => UdpSocket::connect(peer, settings),
                (None, Some(local)) => UdpSocket::bind(local, settings),
                (Some(peer), Some(local)) => std::net::UdpSocket::bind(local).and_then(|socket| {
                    socket.connect(peer)?;
                    UdpSocket::from_std(socket, settings)
                }),
                (None, None) => {
                    let text =
                        "neither a peer nor an address to bind; write for example UdpSocket(\"192.0.2.1:5000\", ..)";
                    return Err(PyValueError::new_err(text));
                }
            };
            socket.map_err(os)
        })?;
        Ok(Self { socket, timer: Timer::new()? })
    }
    /// Blocks until `data` may be sent, to `to` or to the peer, and sends it as one datagram. Returns its length.
    #[pyo3(signature = (data, to=None))]
    fn send(&self, py: Python<'_>, data: &[u8], to: Option<&str>) -> PyResult<usize> {
        let to = address(py, to)?;
        self.pass(py, |socket| attempt(socket, data, to))
    }
    /// Blocks until all of `data` is sent in datagrams of `size` bytes, with time between batches of them. Returns its
    /// length.
    fn send_segments(&self, py: Python<'_>, data: &[u8], size: u16) -> PyResult<usize> {
        let mut sent = 0;
        while sent < data.len() {
            sent += self.pass(py, |socket| socket.try_send_segments(&data[sent..], size))?;
        }
        Ok(sent)
    }
    /// Sends `data` if it is time, without blocking, and returns its length. Otherwise returns `None`: then the
    /// descriptor `timer_fileno` is readable when this may be repeated.
    #[pyo3(signature = (data, to=None))]
    fn try_send(&self, py: Python<'_>, data: &[u8], to: Option<&str>) -> PyResult<Option<usize>> {
        let to = address(py, to)?;
        self.outcome(attempt(&self.socket, data, to))
    }
    /// Like `try_send`, for the first batch of `data` in datagrams of `size` bytes.
    fn try_send_segments(&self, data: &[u8], size: u16) -> PyResult<Option<usize>> {
        self.outcome(self.socket.try_send_segments(data, size))
    }
    /// Sets the rate from now on, for example `"20mbit"` or `"2.5MB/s"`.
    fn set_rate(&self, rate: &str) -> PyResult<()> {
        self.socket.set_rate(parsed("rate", rate)?).map_err(os)?;
        self.wake()
    }
    /// Sends nothing until `resume`.
    fn pause(&self) -> PyResult<()> {
        self.socket.pause();
        self.wake()
    }
    /// Ends a pause, which is not made up for.
    fn resume(&self) -> PyResult<()> {
        self.socket.resume();
        self.wake()
    }
    /// The state of the schedule, as a dictionary.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let status = self.socket.status();
        let state = PyDict::new(py);
        state.set_item("rate_bps", status.rate.as_bps())?;
        state.set_item("paused", status.paused)?;
        state.set_item("packets", status.packets)?;
        state.set_item("bytes", status.bytes.as_u64())?;
        state.set_item("restarts", status.restarts)?;
        state.set_item("late_ns", status.late.as_nanos())?;
        Ok(state)
    }
    /// The back end that keeps departures apart, as text.
    #[getter]
    fn backend(&self) -> String {
        self.socket.backend().to_string()
    }
    /// A line about each feature of the kernel: whether it is used, and why not.
    #[getter]
    fn told(&self) -> Vec<String> {
        self.socket.told().to_vec()
    }
    /// The local address and port, as text.
    #[getter]
    fn local_address(&self) -> PyResult<String> {
        Ok(self.socket.get_ref().local_addr()?.to_string())
    }
    /// The descriptor of the socket. What is sent through it is not paced.
    fn fileno(&self) -> i32 {
        self.socket.as_raw_fd()
    }
    /// The descriptor of the timer for event loops.
    fn timer_fileno(&self) -> i32 {
        self.timer.as_raw_fd()
    }
}

impl PacedSocket {
    /// How long a full socket is waited for, for which the timer stands in.
    const FULL: Span = Span::from_micros(500);

    fn pass(&self, py: Python<'_>, attempt: impl Fn(&UdpSocket) -> io::Result<Attempt> + Sync) -> PyResult<usize> {
        let period = Span::from_nanos(u64::try_from(watch::PERIOD.as_nanos()).unwrap_or(u64::MAX));
        loop {
            let outcome = failure::guarded(py, || match attempt(&self.socket).map_err(os)? {
                Attempt::Sent(sent) => Ok(Some(sent)),
                _ => self.socket.wait(period).map(|_| None).map_err(os),
            })?;
            if let Some(sent) = outcome {
                return Ok(sent);
            }
            watch::signals()?;
        }
    }
    fn outcome(&self, outcome: io::Result<Attempt>) -> PyResult<Option<usize>> {
        let again = match outcome.map_err(os)? {
            Attempt::Sent(sent) => return Ok(Some(sent)),
            Attempt::NotBefore(until) => until,
            Attempt::Paused => Instant::MAX,
            Attempt::Full => MonotonicClock.now() + Self::FULL,
        };
        self.timer.arm(again)?;
        Ok(None)
    }
    /// Has an event loop repeat its attempt.
    fn wake(&self) -> PyResult<()> {
        Ok(self.timer.arm(Instant::ZERO)?)
    }
}

fn attempt(socket: &UdpSocket, data: &[u8], to: Option<SocketAddr>) -> io::Result<Attempt> {
    match to {
        None => socket.try_send(data),
        Some(to) => socket.try_send_to(data, to),
    }
}

/// The first address of a name with a port; numbers do not block.
fn address(py: Python<'_>, text: Option<&str>) -> PyResult<Option<SocketAddr>> {
    let Some(text) = text else { return Ok(None) };
    if let Ok(address) = text.parse() {
        return Ok(Some(address));
    }
    let found = failure::guarded(py, || text.to_socket_addrs().map(|mut found| found.next()).map_err(os))?;
    found
        .map(Some)
        .ok_or_else(|| PyValueError::new_err(format!("`{text}` has no address; write for example 192.0.2.1:5000")))
}

fn choice(text: &str) -> PyResult<Choice> {
    match text {
        "auto" => Ok(Choice::Auto),
        "timers" => Ok(Choice::Timers),
        "txtime" => Ok(Choice::TransmitTime),
        "max-pacing-rate" => Ok(Choice::MaxRate),
        _ => {
            let text = format!("backend=`{text}`: must be one of auto, timers, txtime, max-pacing-rate");
            Err(PyValueError::new_err(text))
        }
    }
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(name: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error| PyValueError::new_err(format!("{name}: {error}")))
}

fn value(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// An invalid argument is a `ValueError`, anything else an `OSError`.
fn os(error: io::Error) -> PyErr {
    if error.kind() == io::ErrorKind::InvalidInput && error.raw_os_error().is_none() {
        value(error)
    } else {
        error.into()
    }
}

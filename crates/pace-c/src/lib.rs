//! The C interface of `tidegate-pace`, declared in `include/tidegate-pace.h`: a static library.
//!
//! Every function here has the contract of its declaration in the header. What Rust cannot check, that a pointer of the
//! caller's is what the header asks for, is an invariant of the function; null pointers and everything else are checked
//! and answered by `-EINVAL`. Everything behind this boundary is safe code of `tidegate-pace`. A panic would end the process,
//! as `extern "C"` does, and not unwind into C.

#![cfg(target_os = "linux")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::{self, ErrorKind};
use std::net::UdpSocket as StdSocket;
use std::os::fd::{AsRawFd, BorrowedFd};

use tidegate_pace::udp::{Attempt, Backend, Choice, Settings};
use tidegate_pace::{Clock, GapPolicy, Instant, MonotonicClock, Paced, Rate, Span, SpinBudget, UdpSocket};

/// `struct tidegate_pace`.
#[derive(Debug)]
pub struct Socket(UdpSocket);

/// `struct tidegate_pace_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Options {
    rate_bps: u64,
    burst_ns: u64,
    catch_up_ns: u64,
    spin_permille: u32,
    backend: u32,
}

/// `struct tidegate_pace_status`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Status {
    rate_bps: u64,
    packets: u64,
    bytes: u64,
    restarts: u64,
    late_ns: u64,
    paused: u32,
    backend: u32,
}

impl Options {
    fn settings(self) -> io::Result<Settings> {
        let invalid = |_| io::Error::from_raw_os_error(libc::EINVAL);
        let mut settings = Settings::new(Rate::from_bps(self.rate_bps));
        let spin = u16::try_from(self.spin_permille).unwrap_or(u16::MAX);
        settings.params.spin = SpinBudget::permille(spin).map_err(invalid)?;
        if self.catch_up_ns > 0 {
            settings.params.gap = GapPolicy::CatchUp { within: Span::from_nanos(self.catch_up_ns) };
        }
        if self.burst_ns > 0 {
            settings.burst = Span::from_nanos(self.burst_ns);
        }
        settings.backend = match self.backend {
            0 => Choice::Auto,
            1 => Choice::Timers,
            2 => Choice::TransmitTime,
            3 => Choice::MaxRate,
            _ => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        Ok(settings)
    }
}

/// The number of an error.
fn number(error: &io::Error) -> c_int {
    error.raw_os_error().unwrap_or(match error.kind() {
        ErrorKind::Unsupported => libc::EOPNOTSUPP,
        ErrorKind::InvalidInput => libc::EINVAL,
        ErrorKind::NotFound => libc::EADDRNOTAVAIL,
        // The resolver's errors have no number.
        _ => libc::EHOSTUNREACH,
    })
}

/// A length, or the negative number of the error.
fn returned(outcome: io::Result<usize>) -> i64 {
    match outcome {
        Ok(length) => i64::try_from(length).unwrap_or(i64::MAX),
        Err(error) => -i64::from(number(&error)),
    }
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

/// Hands a socket to C, or null with `errno` set.
fn handed(socket: io::Result<UdpSocket>) -> *mut Socket {
    match socket {
        Ok(socket) => Box::into_raw(Box::new(Socket(socket))),
        Err(error) => {
            // SAFETY: the address of errno is that of this thread's, which lives as long as the thread.
            unsafe { *libc::__errno_location() = number(&error) };
            std::ptr::null_mut()
        }
    }
}

/// The socket of a handle.
///
/// # Safety
/// `socket` is null or came from `tidegate_pace_connect` or `tidegate_pace_from_fd`, and is not closed before `'a` ends.
unsafe fn socket_of<'a>(socket: *const Socket) -> io::Result<&'a UdpSocket> {
    // SAFETY: not null, it is a `Box` of ours that nobody frees in `'a`, by the contract of this function. It is only ever
    // shared, and `UdpSocket` is `Sync`.
    unsafe { socket.as_ref() }.map(|socket| &socket.0).ok_or_else(invalid)
}

/// The data of a call.
///
/// # Safety
/// `data` is null or points to `length` bytes that nobody writes before `'a` ends.
unsafe fn data_of<'a>(data: *const c_void, length: usize) -> io::Result<&'a [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    if data.is_null() || isize::try_from(length).is_err() {
        return Err(invalid());
    }
    // SAFETY: not null, `length` bytes are readable and unchanged by the contract of this function, bytes need no alignment,
    // and the length fits an `isize`.
    Ok(unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) })
}

/// Opens a socket.
///
/// # Safety
/// `peer` is null or a string that ends in a zero byte; `options` is null or points to options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_connect(peer: *const c_char, options: *const Options) -> *mut Socket {
    if peer.is_null() || options.is_null() {
        return handed(Err(invalid()));
    }
    // SAFETY: neither is null; the caller vouches for the string and the options, which are plain numbers.
    let (peer, options) = unsafe { (CStr::from_ptr(peer), options.read()) };
    let peer = peer.to_str().map_err(|_| invalid());
    handed(peer.and_then(|peer| UdpSocket::connect(peer, options.settings()?)))
}

/// Paces a socket of the caller's.
///
/// # Safety
/// `options` is null or points to options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_from_fd(fd: c_int, options: *const Options) -> *mut Socket {
    if fd < 0 || options.is_null() {
        return handed(Err(invalid()));
    }
    // SAFETY: the descriptor is not -1, and it is only duplicated, which fails for one that is not open; the options are not
    // null, the caller vouches for them, and they are plain numbers.
    let (fd, options) = unsafe { (BorrowedFd::borrow_raw(fd), options.read()) };
    let socket = fd.try_clone_to_owned().map(StdSocket::from);
    // The schedule is for datagrams to a peer; for another descriptor, this is where it fails.
    let socket = socket.and_then(|socket| socket.peer_addr().map(|_| socket));
    handed(socket.and_then(|socket| UdpSocket::from_std(socket, options.settings()?)))
}

/// Sends a datagram when it is time.
///
/// # Safety
/// `socket` is null or open; `data` is null or points to `length` bytes that stay as they are during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_send(socket: *mut Socket, data: *const c_void, length: usize) -> i64 {
    // SAFETY: the contracts of both are those of this function.
    let (socket, data) = unsafe { (socket_of(socket), data_of(data, length)) };
    returned(socket.and_then(|socket| socket.send(data?)))
}

/// Sends batches of datagrams with time between them.
///
/// # Safety
/// Those of `tidegate_pace_send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_send_segments(
    socket: *mut Socket,
    data: *const c_void,
    length: usize,
    size: u16,
) -> i64 {
    // SAFETY: the contracts of both are those of this function.
    let (socket, data) = unsafe { (socket_of(socket), data_of(data, length)) };
    returned(socket.and_then(|socket| socket.send_segments(data?, size)))
}

/// Sends a datagram if it is time.
///
/// # Safety
/// Those of `tidegate_pace_send`; and `not_before_ns` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_try_send(
    socket: *mut Socket,
    data: *const c_void,
    length: usize,
    not_before_ns: *mut u64,
) -> i64 {
    // SAFETY: the contracts of both are those of this function.
    let (socket, data) = unsafe { (socket_of(socket), data_of(data, length)) };
    let again = match socket.and_then(|socket| socket.try_send(data?)) {
        Ok(Attempt::Sent(sent)) => return returned(Ok(sent)),
        Err(error) => return returned(Err(error)),
        Ok(Attempt::NotBefore(until)) => until,
        Ok(Attempt::Paused) => Instant::MAX,
        Ok(Attempt::Full) => MonotonicClock.now(),
    };
    // SAFETY: null, or the caller vouches that it may be written.
    if let Some(not_before) = unsafe { not_before_ns.as_mut() } {
        *not_before = again.as_nanos();
    }
    -i64::from(libc::EAGAIN)
}

/// Sets the rate.
///
/// # Safety
/// `socket` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_set_rate(socket: *mut Socket, rate_bps: u64) -> c_int {
    // SAFETY: the contract is that of this function.
    let changed = unsafe { socket_of(socket) }.and_then(|socket| socket.set_rate(Rate::from_bps(rate_bps)));
    changed.map_or_else(|error| -number(&error), |()| 0)
}

/// Pauses the schedule.
///
/// # Safety
/// `socket` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_pause(socket: *mut Socket) -> c_int {
    // SAFETY: the contract is that of this function.
    let paused = unsafe { socket_of(socket) }.map(Paced::pause);
    paused.map_or_else(|error| -number(&error), |()| 0)
}

/// Resumes the schedule.
///
/// # Safety
/// `socket` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_resume(socket: *mut Socket) -> c_int {
    // SAFETY: the contract is that of this function.
    let resumed = unsafe { socket_of(socket) }.map(Paced::resume);
    resumed.map_or_else(|error| -number(&error), |()| 0)
}

/// Reads the state.
///
/// # Safety
/// `socket` is null or open; `status` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_status(socket: *const Socket, status: *mut Status) -> c_int {
    // SAFETY: the contract is that of this function.
    let found = unsafe { socket_of(socket) };
    let (Ok(socket), false) = (found, status.is_null()) else { return -libc::EINVAL };
    let state = socket.status();
    let state = Status {
        rate_bps: state.rate.as_bps(),
        packets: state.packets,
        bytes: state.bytes.as_u64(),
        restarts: state.restarts,
        late_ns: state.late.as_nanos(),
        paused: state.paused.into(),
        backend: match socket.backend() {
            Backend::Timers => 1,
            Backend::TransmitTime(_) => 2,
            Backend::MaxRate => 3,
        },
    };
    // SAFETY: not null, and the caller vouches that it may be written. What was there need not be initialised.
    unsafe { status.write(state) };
    0
}

/// The descriptor.
///
/// # Safety
/// `socket` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_fd(socket: *const Socket) -> c_int {
    // SAFETY: the contract is that of this function.
    unsafe { socket_of(socket) }.map_or_else(|error| -number(&error), AsRawFd::as_raw_fd)
}

/// Closes the socket.
///
/// # Safety
/// `socket` is null, or open and used by nobody else during this call or after it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_close(socket: *mut Socket) {
    if !socket.is_null() {
        // SAFETY: it came from `Box::into_raw` in `handed`, and the caller vouches that nobody uses it any more.
        drop(unsafe { Box::from_raw(socket) });
    }
}

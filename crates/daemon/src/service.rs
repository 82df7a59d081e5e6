//! Notification of the service manager: the protocol of `sd_notify(3)`, a datagram of lines to the socket that it names.
//!
//! Without a service manager, that is without `NOTIFY_SOCKET`, all of it does nothing.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Notifies the service manager of a state, such as `READY=1`. Errors are ignored: it has timeouts of its own.
pub fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&path),
    };
    // Never waits: a service manager that does not read must not keep a supervisor.
    let sent = address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to_addr(state.as_bytes(), &address)
    });
    drop(sent);
}

/// The interval between notifications of the service manager's watchdog: half of `WatchdogSec`.
pub fn watchdog_interval() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    // Meant for another process, which passed its environment on.
    if number("WATCHDOG_PID").is_some_and(|process| process != u64::from(std::process::id())) {
        return None;
    }
    number("WATCHDOG_USEC").filter(|&micros| micros > 0).map(|micros| Duration::from_micros(micros / 2))
}

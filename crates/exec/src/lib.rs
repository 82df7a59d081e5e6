//! One program and its children behind their own shapers, in both directions, without changes to the host.
//!
//! The program runs in a network namespace whose only device is a TUN device; its other end is a relay in this
//! process. Packets from the program pass one engine, packets to it another, with the disciplines that shape an
//! interface. Between the engines the relay terminates TCP with its own stack and forwards the traffic over ordinary
//! sockets of the host. So it needs no privileges, no rules and no address, and static binaries and UDP are shaped
//! like everything else.
//!
//! ```text
//! program ─> kernel ─> TUN ─> engine (up)   ─> relay ─> sockets of the host ─> network
//! program <─ kernel <─ TUN <─ engine (down) <─ relay <─ sockets of the host <─ network
//! ```
//!
//! *Fail closed*: if the relay dies, the device disappears and the program gets "network is unreachable"; it never
//! sends unshaped traffic.
//!
//! *Limits*: TCP, UDP and ICMP echo only. TCP connections are terminated, so options and path MTU are those of the
//! host. The program cannot accept connections from outside. At most [`tcp::CONNECTIONS`] connections and
//! [`udp::ASSOCIATIONS`] UDP sockets at once.
#![cfg(target_os = "linux")]

pub mod inside;
mod relay;
mod shape;
mod signals;
mod tcp;
mod udp;
mod wire;

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use tidegate_config::shaper::Config;
use tidegate_engine::{BuildFailure, ClassStatus};
use tidegate_units::Span;

pub use inside::Loopback;
#[doc(hidden)]
pub use relay::relay_packets;
pub use tcp::CONNECTIONS;
pub use udp::ASSOCIATIONS;

/// When to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Until {
    /// When the program and all its descendants have ended.
    #[default]
    LastProcess,
    /// When the program has ended. Remaining descendants lose the network.
    Command,
}

/// The configuration of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The shaper for packets from the program; `None` does not shape.
    pub up: Option<Config>,
    /// The shaper for packets to the program; `None` does not shape.
    pub down: Option<Config>,
    /// When to end.
    pub until: Until,
}

/// Counters of one direction.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Packets that passed.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
    /// Packets that a discipline dropped.
    pub dropped: u64,
    /// The classes of the engine; empty without a shaper.
    pub classes: Vec<ClassStatus>,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The exit code of the program; 128 plus the number of the signal that killed it.
    pub code: u8,
    /// Packets from the program.
    pub up: Traffic,
    /// Packets to the program.
    pub down: Traffic,
    /// The number of its TCP connections.
    pub connections: u64,
    /// The duration of the run.
    pub lasted: Span,
}

/// Why the program did not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("cannot {operation}: {source}")]
    System {
        /// The operation that failed.
        operation: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// An engine cannot be built.
    #[error(transparent)]
    Build(#[from] BuildFailure),
    /// The namespace could not be set up; the text has a remedy.
    #[error("{0}")]
    Inside(String),
    /// The program could not be started in the namespace; the exit code is that of shells, 126 or 127.
    #[error("{text}")]
    Command {
        /// Why the program could not be started.
        text: String,
        /// 127 when there is no such program, 126 when it may not be run.
        code: u8,
    },
}

fn system(operation: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::System { operation, source }
}

/// Runs a program behind the shapers and waits for its end.
///
/// `again` is the command that starts this executable again, which must call [`inside::run`] and becomes the program. Only a process with one thread can create the namespace, and this process may
/// have several.
///
/// # Errors
/// See [`Error`]; the program is then not running.
pub fn run(options: &Options, mut again: Command) -> Result<Outcome, Error> {
    let (up, down) = (shape::driver(options.up.as_ref())?, shape::driver(options.down.as_ref())?);
    let (ours, theirs) = UnixStream::pair().map_err(system("make a pair of sockets"))?;
    // Orphaned descendants of the program become our children, so that we can wait for their end.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    again.stdin(Stdio::from(OwnedFd::from(theirs)));
    let child = again.spawn().map_err(system("start again inside the namespace"))?;
    // With their end of the connection: only the child keeps that open.
    drop(again);
    // If the child has ended already, it says nothing more, which is noticed next.
    let _ = inside::send(&ours, io::stdin().as_fd());
    // Only now: the program must not inherit the blocked signals.
    let signals = signals::Signals::new().map_err(system("watch for signals"))?;
    let (child, tun) = receive(child, &ours)?;
    let relay = relay::Relay::new(tun, signals, child.id(), options.until, down);
    let relay = relay.map_err(system("set up the relay"))?;
    let signalled = inside::signal_ready(&ours).map_err(system("start the program"));
    if let Err(error) = signalled.and_then(|()| started(&ours)) {
        reap(child);
        return Err(error);
    }
    relay.run(up, [options.up.is_some(), options.down.is_some()]).map_err(system("relay packets"))
}

/// The device that the child created, or the reason why it could not.
fn receive(child: Child, ours: &UnixStream) -> Result<(Child, OwnedFd), Error> {
    match inside::receive(ours) {
        Ok(tun) => Ok((child, tun)),
        Err(text) => {
            reap(child);
            Err(Error::Inside(text))
        }
    }
}

/// Waits until the child has executed the program, which closes its end of the socket.
fn started(mut ours: &UnixStream) -> Result<(), Error> {
    let mut text = String::new();
    ours.read_to_string(&mut text).map_err(system("receive the status of the program's start"))?;
    let Some((code, text)) = text.split_once(' ') else { return Ok(()) };
    Err(Error::Command { text: text.into(), code: code.parse().unwrap_or(126) })
}

fn reap(mut child: Child) {
    // It has ended, or ends when its socket closes.
    let _ = child.wait();
}

//! Runs one program and its children behind shapers of their own, in both directions, without changes to the host.
//!
//! The program runs in a network namespace whose only device is a TUN device. A relay in this process holds the other
//! end of the device. Packets from the program pass one engine and packets to it pass another; both use the disciplines
//! that also shape interfaces. Behind the engines the relay terminates TCP with its own stack and forwards the traffic
//! over ordinary sockets of the host. So it needs no privileges, no firewall rules and no address of its own, and it
//! shapes static binaries and UDP like everything else.
//!
//! ```text
//! program ─> kernel ─> TUN ─> engine (up)   ─> relay ─> sockets of the host ─> network
//! program <─ kernel <─ TUN <─ engine (down) <─ relay <─ sockets of the host <─ network
//! ```
//!
//! *Fail closed*: if the relay dies, the device disappears and the program gets "network is unreachable"; it never
//! sends unshaped traffic.
//!
//! *Limits*: only TCP, UDP and ICMP echo are relayed. TCP connections are terminated, so TCP options and path MTU are
//! those of the host. The program cannot accept connections from outside. It can have at most [`tcp::CONNECTIONS`]
//! connections and [`udp::ASSOCIATIONS`] UDP sockets at once.
#![cfg(target_os = "linux")]

pub mod inside;
mod relay;
mod shape;
pub mod signals;
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

/// The event that ends a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Until {
    /// The run ends when the program and all its descendants have exited.
    #[default]
    LastProcess,
    /// The run ends when the program has exited. Descendants that still run lose the network.
    Command,
}

/// The configuration of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The shaper for packets from the program. With `None` they are not shaped.
    pub up: Option<Config>,
    /// The shaper for packets to the program. With `None` they are not shaped.
    pub down: Option<Config>,
    /// The event that ends the run.
    pub until: Until,
}

/// Counters of one direction.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// The number of packets that passed.
    pub packets: u64,
    /// The bytes of these packets, IP headers included.
    pub bytes: u64,
    /// The number of packets that a discipline dropped.
    pub dropped: u64,
    /// The status of the engine's classes; empty without a shaper.
    pub classes: Vec<ClassStatus>,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The program's exit code, or 128 plus the number of the signal that killed it.
    pub code: u8,
    /// Counters of the packets from the program.
    pub up: Traffic,
    /// Counters of the packets to the program.
    pub down: Traffic,
    /// The number of TCP connections that the program established.
    pub connections: u64,
    /// The duration of the run.
    pub lasted: Span,
}

/// Why the program did not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {operation}: {source}")]
    System {
        /// The operation that failed, as it follows "cannot".
        operation: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// An engine cannot be built.
    #[error(transparent)]
    Build(#[from] BuildFailure),
    /// The namespace could not be set up. The text suggests a remedy.
    #[error("{0}")]
    Inside(String),
    /// The program could not be started in the namespace; the exit code is that of shells, 126 or 127.
    #[error("{text}")]
    Command {
        /// Why the program could not be started.
        text: String,
        /// 127 if there is no such program, 126 if it cannot be executed.
        code: u8,
    },
}

fn system(operation: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::System { operation, source }
}

/// Runs a program behind the shapers and waits for its end.
///
/// `again` is a command that starts this executable a second time. That process must call [`inside::run`], which
/// creates the namespace and then executes the program. It has to be a separate process because only a single-threaded
/// process can create the namespace, and this one may have several threads.
///
/// # Errors
/// See [`Error`]. The program is not running then.
pub fn run(options: &Options, mut again: Command) -> Result<Outcome, Error> {
    let (up, down) = (shape::driver(options.up.as_ref())?, shape::driver(options.down.as_ref())?);
    let (ours, theirs) = UnixStream::pair().map_err(system("make a pair of sockets"))?;
    // Orphaned descendants of the program become our children, so that we can wait for their end.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    again.stdin(Stdio::from(OwnedFd::from(theirs)));
    let child = again.spawn().map_err(system("start again inside the namespace"))?;
    // This closes our copy of the child's socket, so that only the child holds it open.
    drop(again);
    // If the child has already exited, this fails, and so does the receive below, which reports it.
    let _ = inside::send(&ours, io::stdin().as_fd());
    // Signals are blocked only after the spawn, because the program must not inherit the signal mask.
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

/// Receives the TUN device from the child, or the reason why it could not create one.
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
    // The child has exited already, or exits when its socket closes.
    let _ = child.wait();
}

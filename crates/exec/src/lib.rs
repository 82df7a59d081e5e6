//! One program and its children behind shapers of their own, in both directions, without touching the host.
//!
//! The program runs in a network namespace whose only way out is a TUN device; the other end of that is a relay in this
//! process. What the program sends passes one engine, what it receives another: whole packets, by the same disciplines
//! that shape an interface. Between the engines the relay speaks TCP with the program by a stack of its own and does
//! what the program asked for with ordinary sockets of the host: so it needs no privileges, no rules and no address,
//! and static binaries and UDP are shaped like everything else.
//!
//! ```text
//! program ─> kernel ─> TUN ─> engine (up)   ─> relay ─> sockets of the host ─> network
//! program <─ kernel <─ TUN <─ engine (down) <─ relay <─ sockets of the host <─ network
//! ```
//!
//! *Fail closed*: when the relay dies the device goes, and the program gets "network is unreachable"; it never sends
//! unshaped.
//!
//! *Limits*: TCP, UDP and ICMP echo; nothing else leaves the namespace. TCP is ended and begun anew, so options and
//! path MTU are those of the host. The program's end cannot be reached from outside: connections are made by it.
//! At most [`tcp::CONNECTIONS`] connections and [`udp::ASSOCIATIONS`] UDP sockets at once.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

pub mod inside;
mod relay;
mod shape;
mod signals;
mod tcp;
mod udp;
mod wire;

use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};

use tidegate_config::shaper::Config;
use tidegate_engine::{BuildFailure, ClassStatus};
use tidegate_units::Span;

pub use inside::Loopback;
pub use tcp::CONNECTIONS;
pub use udp::ASSOCIATIONS;

/// When to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Until {
    /// When the program and all processes that it left behind have ended.
    #[default]
    LastProcess,
    /// When the program has ended. Processes that it left behind lose the network.
    Command,
}

/// What to do.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What shapes what the program sends; `None`: nothing.
    pub up: Option<Config>,
    /// What shapes what the program receives; `None`: nothing.
    pub down: Option<Config>,
    /// When to end.
    pub until: Until,
}

/// What passed in one direction.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Packets that passed.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
    /// Packets that a discipline dropped.
    pub dropped: u64,
    /// The classes of the engine; none when nothing shapes.
    pub classes: Vec<ClassStatus>,
}

/// How it ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The exit code of the program; 128 and the number of the signal that killed it.
    pub code: u8,
    /// What it sent.
    pub up: Traffic,
    /// What it received.
    pub down: Traffic,
    /// TCP connections that it made.
    pub connections: u64,
    /// How long it took.
    pub lasted: Span,
}

/// Why the program did not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("cannot {operation}: {source}")]
    System {
        /// What.
        operation: &'static str,
        /// Why.
        source: io::Error,
    },
    /// An engine cannot be built.
    #[error(transparent)]
    Build(#[from] BuildFailure),
    /// The namespace could not be set up; the text says what to do.
    #[error("{0}")]
    Inside(String),
    /// The namespace is there, and the program could not be started: the exit code is that of shells, 126 or 127.
    #[error("{text}")]
    Command {
        /// What is wrong.
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
/// `launch` makes the command that starts this program once more, so that it calls [`inside::run`] with the number of
/// the socket that it is given and then becomes the program: the namespace can only be made by a process of one
/// thread, which this one need not be.
///
/// # Errors
/// See [`Error`]; nothing runs then.
pub fn run(options: &Options, launch: impl FnOnce(RawFd) -> Command) -> Result<Outcome, Error> {
    let (up, down) = (shape::driver(options.up.as_ref())?, shape::driver(options.down.as_ref())?);
    let (ours, theirs) = UnixStream::pair().map_err(system("make a pair of sockets"))?;
    rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty()).map_err(|e| system("pass a socket on")(e.into()))?;
    // What the program leaves behind becomes ours, so that its end can be waited for.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let child = launch(theirs.as_raw_fd()).spawn().map_err(system("start again inside the namespace"))?;
    drop(theirs);
    // Only now: the program must not inherit what is blocked here.
    let signals = signals::Signals::new().map_err(system("watch for signals"))?;
    let (child, tun) = receive(child, &ours)?;
    let relay = relay::Relay::new(tun, signals, child.id(), options.until, down);
    let relay = relay.map_err(system("set up the relay"))?;
    let told = inside::tell(&ours).map_err(system("start the program"));
    if let Err(error) = told.and_then(|()| started(&ours)) {
        reap(child);
        return Err(error);
    }
    relay.run(up, [options.up.is_some(), options.down.is_some()]).map_err(system("relay packets"))
}

/// The device that the child made, or its reason why not.
fn receive(child: Child, ours: &UnixStream) -> Result<(Child, OwnedFd), Error> {
    match inside::receive(ours) {
        Ok(tun) => Ok((child, tun)),
        Err(text) => {
            reap(child);
            Err(Error::Inside(text))
        }
    }
}

/// Waits until the child has become the program: then its end of the socket closes without a word.
fn started(mut ours: &UnixStream) -> Result<(), Error> {
    let mut text = String::new();
    ours.read_to_string(&mut text).map_err(system("hear whether the program started"))?;
    let Some((code, text)) = text.split_once(' ') else { return Ok(()) };
    Err(Error::Command { text: text.into(), code: code.parse().unwrap_or(126) })
}

fn reap(mut child: Child) {
    // It has ended by itself, or does so as its socket closes.
    let _ = child.wait();
}

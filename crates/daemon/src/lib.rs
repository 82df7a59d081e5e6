//! What runs beside the data path: the supervision of a shaper, and its control socket.
//!
//! Three threads, none of which the data path waits for. The data path has its own ([`tidegate_live::shaping`]). The
//! [`server`] thread owns the socket: it reads and writes lines, keeps every limit on clients, and fans events out. The
//! thread of [`Daemon::run`] owns the shapings: it supervises them, and answers the requests that the server hands it,
//! one after the other, by a module each ([`requests`] is the list). What a request does to the engine is a closure that
//! the data path runs between two packets ([`Shaping::with`](tidegate_live::shaping::Shaping::with)).
//!
//! `CONTRIBUTING.md` has a section on adding a call.
#![forbid(unsafe_code)]

pub mod apply;
mod daemon;
pub mod events;
pub mod history;
mod hook;
pub mod metrics;
pub mod observe;
mod owners;
mod promise;
pub mod requests;
pub mod reserve;
pub mod server;
pub mod service;
mod socket;
pub mod status;
mod targets;
mod watchdog;
pub mod web;

pub use daemon::{Control, Daemon, DaemonError, Direction, Sampler, Settings, modified};
pub use requests::Caller;
pub use socket::{Listening, SocketError};

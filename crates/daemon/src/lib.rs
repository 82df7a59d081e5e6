//! The daemon around the data path: five parts with their own state, and the control socket.
//!
//! | part | state |
//! | --- | --- |
//! | `config_store` | the configurations in force as text, the file they came from, the change on trial |
//! | `promises` | promises, watches, and the sockets of the processes that they follow |
//! | `reservations` | reservations under CBQ and their holders |
//! | [`telemetry`] | observations, history, metrics, subscriptions, the web page, the program run on events |
//! | `supervisor` | the watchdog, the interface, recovery after failures |
//!
//! Beside them are `directions`, the shaped directions, and `notifier`, which sends events. [`Daemon`] owns all of them and
//! drives them in one loop; `requests` passes each request to its part.
//!
//! Three threads, none of which the data path waits for. The data path has its own ([`tidegate_live::shaping`]). The
//! thread of the [`server`] owns the socket: it reads and writes lines, keeps every limit on clients, and distributes
//! events. The thread of [`Daemon::run`] supervises, and handles requests one after the other. What a request does to the
//! engine is a closure that the data path runs between two packets
//! ([`Shaping::with`](tidegate_live::shaping::Shaping::with)).
//!
//! `ARCHITECTURE.md` has a section on adding a call.

mod audit;
mod caller;
mod config_store;
mod daemon;
mod directions;
mod follower;
mod handover;
mod notifier;
mod promises;
mod quotas;
mod requests;
mod reservations;
pub mod server;
pub mod service;
mod state_file;
mod supervisor;
pub mod telemetry;
mod waiting;

pub use caller::{Caller, Peer};
pub use config_store::modified;
pub use daemon::{ControlSocket, Daemon, DaemonError, HistoryPlace, Settings, ShaperFile};
pub use directions::ShapedDirection;
pub use follower::{LineRecorders, status as follow_status};
pub use promises::lookup;
pub use server::{Listening, SocketError};
pub use telemetry::{Sampler, class_status, metrics, web};
pub use waiting::wait_for_interface;

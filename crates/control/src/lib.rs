//! The control protocol of a running Tidegate, and a small blocking client for it.
//!
//! A program that is shaped links this crate, not the engine: it needs the units, serde, serde_json and thiserror. A message is
//! one line of JSON on a Unix stream socket; see [`protocol`] for its form, [`calls`] for what can be asked, and
//! `book/src/reference/control-protocol.md` and `control-calls.md` for the same without Rust.
//!
//! ```no_run
//! let mut client = tidegate_control::Client::open(Some("eth0"))?;
//! for direction in client.status()?.directions {
//!     for class in direction.classes {
//!         println!("{}: {} bytes left", class.name, class.through_bytes);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(missing_docs)]

pub mod answer;
pub mod calls;
mod client;
mod declare;
mod place;
pub mod protocol;
mod quantities;
pub mod view;
pub mod words;

pub use calls::{Event, EventKind, Status};
pub use client::{Client, ClientError, Pushed, Silent, Subscription};
pub use place::{Place, PlaceError, candidates, direction_name, directories, file_name, own_namespace};
pub use protocol::{Call, Code, Refusal};
pub use tidegate_units::{Bytes, Rate, Span};

/// The calls as the description of an interface of [Varlink](https://varlink.org/Interface-Definition).
pub const VARLINK: &str = include_str!("invalid.tidegate.Control.varlink");

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

//! The laws of [`Qdisc`](tidegate_core::Qdisc), checked after every call of random scripts.
//!
//! A script is a list of [`Op`]s made from a seed. It runs on fresh copies of a discipline; a violation is shrunk
//! to a short script that still shows it and told as text. See [`check`].
//!
//! The harness is harmless to a correct discipline and says so by [`Report`]: how many calls of each kind it made,
//! so that a test can assert that a script did reach what it was meant to.

#![forbid(unsafe_code)]

pub mod harness;
pub mod packet;
pub mod script;

pub use harness::{Report, Violation, check, check_seeds};
pub use packet::TestPacket;
pub use script::{Op, Shape};

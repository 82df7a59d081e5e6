//! The laws of [`Qdisc`](tidegate_core::Qdisc), checked after every call of random scripts.
//!
//! A script is a list of [`Op`]s made from a seed. It runs on new copies of a discipline; a violation is shrunk to a
//! short script and reported as text. See [`check`].
//!
//! A [`Report`] counts the calls of each kind, so that a test can assert that its scripts covered what they should.

#![deny(missing_docs)]

pub mod autorate;
pub mod harness;
pub mod packet;
pub mod script;

pub use harness::{Report, Violation, check, check_seeds};
pub use packet::TestPacket;
pub use script::{CodePoints, Op, Shape};

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

//! The quantities of Tidegate and their exact arithmetic.
//!
//! *Law*: every rounding is named. [`Rate`]` x `[`Span`] is a [`Credit`] in bit·ns/s, which an integer holds exactly.
//! A rounding that cannot be avoided (from credit to bytes, from credit to a waiting time) is in the name of the
//! method and disadvantages the sender.
//!
//! No type converts from a bare integer by `From`: the name of the constructor has the unit. Text needs a unit too,
//! see [`text`].
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

pub mod quantity;
pub mod text;
pub mod wide;

pub use quantity::{Bytes, Credit, Instant, Rate, Span};
pub use text::{UnitError, UnitProblem};

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

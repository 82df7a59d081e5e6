//! A rate for each direction of a line whose rate varies.
//!
//! [`Controller`] has the laws and the manual. Everything here is a function of its inputs: no clock, no I/O, no floats.
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

pub mod calls;
pub mod controller;
pub mod passive;
pub mod probes;
mod side;
mod sources;

pub use controller::{Bounds, Cause, Controller, Decision, PERIOD, Side, State};

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

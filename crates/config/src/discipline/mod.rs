//! Disciplines in a file: the section of each kind, and how it is built.
//!
//! # Adding a kind
//! 1. A file `discipline/<kind>.rs`: the section of the file as a [`record!`](crate::record) (every key with its unit, its
//!    default and the reason for it), and [`Section`] for it. `fifo.rs` is the pattern.
//! 2. A line in the table of `kinds.rs`, and its `mod`.
//!
//! Schema, reference, `tidegate check` and "did you mean" follow from it. A crate of its own adds a kind by
//! [`register`]: see [`outside`]; `tidegate new-qdisc` writes one.

mod ared;
mod cake;
pub mod cbq;
mod codel;
mod drr;
mod dualpi2;
pub mod early;
mod elephants;
mod fair;
pub mod fbq;
mod fifo;
mod fq_codel;
mod fq_pie;
mod hfsc;
pub mod htb;
mod ingress_filter;
mod kinds;
mod marker;
mod mered;
mod meredt;
pub mod meter;
pub mod outside;
mod pie;
pub mod ras;
mod red;
mod rio;
mod section;
mod sfq;
mod tree;
mod wred;

pub use kinds::{ClassSection, Discipline, Inside};
pub use outside::{InKernel, Kind, RegisterError, is_kind_name};
pub use section::{Section, Site};

/// Adds a kind to all files that this process reads from now on.
///
/// # Errors
/// When its name is taken or cannot be one.
pub fn register<K: Kind>() -> Result<(), RegisterError> {
    outside::add::<K>(Discipline::KINDS)
}

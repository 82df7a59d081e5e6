//! Packets as bytes: parsing of headers ([`dissect`]), writing of code points and marks ([`rewrite`]), rate advice in QUIC
//! datagrams ([`scone`]), names and addresses in answers of the Domain Name System ([`dns`]), and capture files ([`read`], [`write`](mod@write)).
#![deny(missing_docs)]

pub mod dissect;
pub mod dns;
pub mod link;
pub mod passive;
pub mod read;
pub mod rewrite;
pub mod scone;
pub mod write;

pub use dissect::{Dissection, Malformed};
pub use link::LinkType;
pub use read::{CaptureError, CaptureReader, Captured};
pub use write::CaptureWriter;

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

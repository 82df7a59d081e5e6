//! Packets as bytes: what their headers say ([`dissect`]), code points and marks written into them ([`rewrite`]), and
//! the bytes they take on a wire ([`wire`]).
#![forbid(unsafe_code)]

pub mod dissect;
pub mod link;
pub mod rewrite;
pub mod wire;

pub use dissect::{Dissection, Malformed};
pub use link::LinkType;

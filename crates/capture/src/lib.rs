//! Packets as bytes: what their headers say ([`dissect`]), code points and marks written into them ([`rewrite`]), and
//! capture files ([`read`], [`write`](mod@write)).
#![forbid(unsafe_code)]

pub mod dissect;
pub mod link;
pub mod read;
pub mod rewrite;
pub mod write;

pub use dissect::{Dissection, Malformed};
pub use link::LinkType;
pub use read::{CaptureError, CaptureReader, Captured};
pub use write::CaptureWriter;

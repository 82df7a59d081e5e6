//! Queueing disciplines and the pure deciders around them.
//!
//! Nothing here reads a clock, draws entropy, does I/O or decides by a float: time, randomness seeds and packets
//! come in through arguments, so the same code runs in a simulator, over a capture, in a script and live on an
//! interface. Start with [`Qdisc`], whose documentation holds the laws that every discipline obeys.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod aqm;
pub mod ared;
pub mod books;
pub mod bucket;
pub mod cake;
pub mod cbq;
pub mod classify;
pub mod codel;
pub mod decay;
pub mod drr;
pub mod elephants;
pub mod fbq;
pub mod fifo;
pub mod flow;
pub mod flow_table;
pub mod fq_codel;
pub mod fragments;
mod heap;
pub mod ingress;
pub mod key_index;
pub mod marker;
pub mod mered;
pub mod meredt;
pub mod meter;
pub mod nested;
pub mod packet;
pub mod params;
pub mod parcel;
pub mod pie;
pub mod probability;
pub mod qdisc;
pub mod queues;
pub mod random;
pub mod ras;
pub mod red;
pub mod reservation;
pub mod rfc4115;
pub mod rio;
pub mod sfq;
pub mod srtcm;
pub mod trtcm;
pub mod tswtcm;
pub mod wred;

pub use tidegate_units as units;
pub use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

pub use aqm::{Aqm, AqmFifo, Verdict};
pub use books::{Account, Books};
pub use packet::{ClassId, Colour, Dscp, Ecn, FlowKey, Packet};
pub use params::ParamError;
pub use parcel::{Parcel, Parcels};
pub use probability::Probability;
pub use qdisc::{Backlog, Deadline, DropReason, Event, Outlet, Qdisc};

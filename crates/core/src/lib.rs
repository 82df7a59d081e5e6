//! Queueing disciplines, AQMs, meters and classifiers.
//!
//! Nothing here reads a clock, draws entropy, does I/O or uses a float in a decision. Time, random seeds and packets
//! are arguments, so the same code runs in a simulator, over a capture, in a script and live on an interface. Start
//! with [`Qdisc`]; its documentation has the laws that every discipline obeys.
#![no_std]
#![deny(missing_docs)]
#![cfg_attr(not(test), deny(clippy::float_arithmetic))] // Decisions are exact: integers only.

extern crate alloc;

pub mod accounts;
pub mod any_packet;
pub mod aqm;
pub mod ared;
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
mod flow_queues;
pub mod flow_table;
pub mod fq_codel;
pub mod fq_pie;
pub mod fragments;
mod heap;
pub mod hfsc;
pub mod htb;
pub mod ingress;
pub mod key_index;
pub mod marker;
pub mod mered;
pub mod meredt;
pub mod meter;
pub mod nested;
pub mod packet;
pub mod params;
pub mod pie;
pub mod pool;
pub mod probability;
pub mod qdisc;
pub mod queues;
pub mod random;
pub mod ras;
pub mod red;
pub mod reservation;
pub mod rfc4115;
pub mod rio;
pub mod round;
pub mod sessions;
pub mod sfq;
mod slab;
pub mod srtcm;
pub mod tbf;
mod tournament;
pub mod tree;
pub mod trtcm;
pub mod tswtcm;
pub mod two_bucket;
pub mod wf2q;
pub mod wfq;
pub mod wred;

pub use tidegate_units as units;
pub use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

pub use accounts::{Account, Accounted};
pub use any_packet::{AnyPacket, AnyQdisc};
pub use aqm::{Aqm, AqmFifo, Verdict};
pub use packet::{ClassId, Colour, Dscp, Ecn, FlowKey, Packet};
pub use params::ParamError;
pub use probability::Probability;
pub use qdisc::{Backlog, Deadline, DropReason, Event, Outlet, Qdisc, Queued};

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

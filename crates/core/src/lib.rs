//! Queueing disciplines, AQMs, meters and classifiers.
//!
//! Nothing here reads a clock, draws entropy, does I/O or uses a float in a decision. Time, random seeds and packets
//! are arguments, so the same code runs in a simulator, over a capture, in a script and live on an interface. Start
//! with [`Qdisc`]; its documentation has the laws that every discipline obeys.
#![no_std]
#![deny(missing_docs)]
#![cfg_attr(not(test), deny(clippy::float_arithmetic))] // Decisions are exact: integers only.

extern crate alloc;

pub mod aqm;
pub mod classify;
pub mod decay;
pub mod meter;
pub mod packet;
pub mod params;
pub mod probability;
pub mod qdisc;
pub mod random;
pub mod reservation;
pub mod structures;

// Each module is also at the root, where its users name it.
pub use aqm::{ared, codel, elephants, ingress, mered, meredt, pie, red, rio, step, wred};
pub use classify::{flow, fragments};
pub use meter::{marker, rfc4115, srtcm, trtcm, tswtcm, two_bucket};
pub(crate) use qdisc::flow_queues;
pub use qdisc::{
    accounts, any_packet, cake, cbq, drr, dualpi2, fbq, fifo, fq_codel, fq_pie, hfsc, htb, nested, ras, sfq, tbf, wf2q,
    wfq,
};
pub use structures::{bucket, flow_table, key_index, pool, queues, round, sessions, tree};
pub(crate) use structures::{credit, heap, slab, tournament};

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

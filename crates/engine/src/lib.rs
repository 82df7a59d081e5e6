//! The engine: it classifies packets, queues them in a tree of disciplines, and counts them. The same engine runs live, over
//! captures and in scripts.
//!
//! It does no I/O and reads no clock. A data path hands in the metadata of each packet with a handle of its own, and gets the
//! handle back when the packet is to be sent ([`Sink::transmit`]) or dropped ([`Sink::drop_packet`]). Begin to read in
//! [`engine`], which has the way of a packet from top to bottom.
#![deny(missing_docs)]

mod account;
mod admit;
pub mod advice;
mod class_names;
mod classes;
mod classify;
mod diversion;
pub mod driver;
pub mod engine;
mod flow_record;
pub mod flows;
pub mod guard;
mod handover;
mod hold_queue;
pub mod measure;
pub mod notification;
pub mod offload;
pub mod packet;
mod packet_table;
pub mod quota;
pub mod recorder;
pub mod registry;
pub mod reserve;
pub mod rules;
pub mod shards;
pub mod sink;
pub mod stats;
mod steering;
pub mod swap;
pub mod target;
pub mod tree;
mod turns;
mod view;
pub mod wire;

pub use account::LineUse;
pub use driver::{Arrival, DataPath, Driver, Offered, Segmentation};
pub use engine::Engine;
pub use flows::{FlowIdentity, FlowRecord, FlowRow, Flows};
pub use guard::guarded;
pub use handover::HeldPacket;
pub use notification::{FlowState, Notification, NotificationKind};
pub use offload::{Offload, OffloadedFlow, OffloadedFlows, OffloadedReservation, Totals};
pub use packet::QueuedPacket;
pub use quota::{Ledger, QuotaState};
pub use recorder::{Adjustment, ControlCall, Operation, Recorder};
pub use registry::{PromiseControl, PromiseError, PromiseSlots, PromiseTable, PromiseView, Promised};
pub use reserve::{Lease, ReserveError};
pub use rules::{BuildFailure, Classification, Names, Setup, interface_number};
pub use sink::{Admission, Change, Disposition, PacketMeta, Shape, Sink};
pub use stats::{ClassCounts, ClassStatus};
pub use swap::{PreparedConfig, Retired, SwapError, SwapKind, SwapReport};
pub use target::{NoTarget, Target};
pub use tree::{LONGEST_WHOLE, Tree};
pub use view::{ClassRow, CoupledClass, SharedClass};

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

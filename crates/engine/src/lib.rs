//! The engine that runs live, over captures and in scripts: dissect, classify, a tree of disciplines, accounts.
//!
//! It does no I/O and reads no clock. A data path hands in the bytes it holds of a packet with a handle of its own,
//! and gets the handle back when the packet may pass ([`Sink::transmit`]) or must not ([`Sink::drop_packet`]).

mod account;
mod admit;
mod batch;
mod class_names;
mod classes;
mod classify;
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
pub mod recorder;
pub mod registry;
pub mod reserve;
pub mod rules;
pub mod schedule;
pub mod shards;
pub mod sink;
pub mod stats;
pub mod swap;
pub mod target;
pub mod tree;
mod view;
pub mod wire;

pub use account::LineUse;
pub use driver::{Arrival, DataPath, Driver, Offered, Segmentation};
pub use engine::Engine;
pub use flows::{FlowIdentity, FlowRecord, FlowRow, Flows};
pub use guard::guarded;
pub use handover::HeldPacket;
pub use notification::{FlowState, Notification, NotificationKind};
pub use offload::{Offload, OffloadedFlow, OffloadedFlows, Totals};
pub use packet::QueuedPacket;
pub use recorder::{Adjustment, ControlCall, Operation, Recorder};
pub use registry::{PromiseControl, PromiseError, PromiseSlots, PromiseTable, PromiseView, Promised};
pub use reserve::{Lease, ReserveError};
pub use rules::{BuildFailure, Classification, Names, Setup};
pub use schedule::LONGEST_WHOLE;
pub use sink::{Admission, Change, Disposition, PacketMeta, Shape, Sink};
pub use stats::{ClassCounts, ClassStatus};
pub use swap::{PreparedConfig, Retired, SwapError, SwapKind, SwapReport};
pub use target::{NoTarget, Target};
pub use tree::Tree;
pub use view::ClassRow;

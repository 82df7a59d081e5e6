//! The engine that runs live, over captures and in scripts: dissect, classify, a tree of disciplines, accounts.
//!
//! It does no I/O and reads no clock. A data path hands in the bytes it holds of a packet with a handle of its own,
//! and gets the handle back when the packet may pass ([`Exit::pass`]) or must not ([`Exit::refuse`]).
#![forbid(unsafe_code)]

mod classes;
pub mod delays;
pub mod desk;
pub mod exit;
pub mod flows;
pub mod guard;
pub mod held;
mod ledger;
pub mod measure;
pub mod news;
pub mod pipeline;
pub mod reserve;
mod room;
pub mod rules;
pub mod stats;
pub mod swap;
pub mod tap;
pub mod tree;
pub mod wire;

pub use desk::{Book, NoPromise, PromiseView, Steering};
pub use exit::{Change, Exit, Fate, Shape, Sighting, Taken};
pub use flows::{FlowRecord, FlowRow, Flows, Who};
pub use guard::guarded;
pub use held::Held;
pub use news::{Facts, News, What};
pub use pipeline::{ClassRow, Pipeline};
pub use reserve::{Lease, Refused};
pub use rules::{BuildFailure, Judgement, Names, Setup};
pub use stats::{ClassCounts, ClassStatus};
pub use swap::{How, Next, Spare, SwapFailure, Swapped};
pub use tap::{Act, Control, Steer, Tap};
pub use tree::Tree;

//! The data structures that disciplines are made of.

pub mod bucket;
pub(crate) mod credit;
pub mod flow_table;
pub(crate) mod heap;
pub mod key_index;
pub mod pool;
pub mod queues;
pub mod round;
pub mod sessions;
pub(crate) mod slab;
pub(crate) mod tournament;
pub mod tree;

//! The state that threads and processes share, compiled from the sources of the shaper, with the atomics and locks of loom.

pub mod guardian;
pub mod shards;

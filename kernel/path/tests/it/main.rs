//! Tests of the crate with the other paths of packets.

mod paths;

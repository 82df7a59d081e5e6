//! Tests of the crate with the other paths of packets.

mod late_marks;
mod paths;

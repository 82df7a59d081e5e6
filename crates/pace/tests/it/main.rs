//! Tests of the pacing algorithms under a virtual clock, and of the sockets on loopback.

mod laws;
mod paper;
mod sockets;

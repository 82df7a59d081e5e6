//! Tests of the pacing algorithms under a virtual clock.

mod laws;
mod paper;

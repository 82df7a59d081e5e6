//! Tests of what the daemon exports.

mod metrics;
mod prometheus;

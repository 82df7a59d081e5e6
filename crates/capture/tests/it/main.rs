//! Tests of parsing and of capture files.

mod dissect;
mod files;
mod scone;

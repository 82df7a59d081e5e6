//! Tests of the engine and of the driver around it.

mod admission;
mod crowded;
mod data_path;
mod driver;
mod flow_keys;
mod promises;
mod reservations;
mod statistics;
mod swap;

//! Tests of the simulator.

mod applications;
mod conditions;
mod digests;
mod engine;
mod reservation_bounds;
mod results;
mod round_trips;
mod scenarios;
mod shapers;
mod tcp_choices;
mod tcp_laws;
mod tcp_script;
mod traces;
mod wire;

//! Tests of the simulator.

mod accecn;
mod applications;
mod coexistence;
mod conditions;
mod conform;
mod congestion;
mod digests;
mod engine;
mod l4s;
mod measures;
mod parallel;
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

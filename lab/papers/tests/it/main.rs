//! Tests of the simulated experiments.

mod verdicts;

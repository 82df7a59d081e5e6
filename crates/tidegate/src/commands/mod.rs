//! The subcommands, a module each: `Args` for the command line, `run` to do it.

pub mod check;
pub mod demo;
pub mod pace;
pub mod reproduce;
pub mod run;
pub mod schema;
pub mod simulate;

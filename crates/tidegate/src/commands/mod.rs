//! The subcommands, a module each: `Args` for the command line, `run` to do it.

pub mod reproduce;

//! The subcommands, one module each: `Args` for the command line, and `run`.

pub mod apply;
pub mod book;
pub mod check;
pub mod completions;
pub mod connect;
pub mod demo;
pub mod doctor;
pub mod events;
pub mod exec;
pub mod explain;
pub mod line;
pub mod man;
pub mod new_qdisc;
pub mod pace;
pub mod promise;
pub mod record;
pub mod replay;
pub mod reproduce;
pub mod reserve;
pub mod run;
pub mod schema;
pub mod script;
pub mod simulate;
pub mod status;
pub mod top;
pub mod watch;

//! The subcommands, one module each: `Args` for the command line, and `run`. Those that work in virtual time need the feature
//! `lab`.

#[cfg(feature = "lab")]
mod answer;
pub mod apply;
#[cfg(feature = "lab")]
pub mod artifact;
pub mod book;
pub mod check;
#[cfg(feature = "lab")]
pub mod compare;
pub mod completions;
#[cfg(feature = "lab")]
pub mod conform;
pub mod connect;
pub mod container;
#[cfg(feature = "lab")]
pub mod demo;
pub mod doctor;
pub mod events;
pub mod exec;
#[cfg(feature = "lab")]
pub mod explain;
#[cfg(feature = "lab")]
pub mod figure;
pub mod import;
pub mod interfaces;
pub mod line;
pub mod man;
pub mod measure;
pub mod metrics;
#[cfg(feature = "lab")]
pub mod new_lab;
pub mod pace;
pub mod promise;
#[cfg(feature = "lab")]
pub mod replay;
#[cfg(feature = "lab")]
pub mod reproduce;
pub mod reserve;
pub mod run;
#[cfg(feature = "lab")]
mod scaffold;
#[cfg(feature = "lab")]
pub mod scenario;
pub mod schema;
#[cfg(feature = "lab")]
pub mod script;
pub mod setup;
#[cfg(feature = "lab")]
pub mod simulate;
pub mod status;
#[cfg(feature = "lab")]
pub mod sweep;
pub mod top;
pub mod varlink;

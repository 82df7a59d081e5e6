//! Tests of the built command.

mod artifact;
mod book;
mod check;
mod command;
mod conform;
mod explain;
mod faults;
mod figures;
mod flows;
mod help;
mod howto;
mod mice;
mod pace;
mod qlog;
mod replay;
mod report;
mod scaffold;
mod script;
mod simulate;
mod steering;
mod sweep;
mod tables;
mod told_apart;
mod usage;
mod width;

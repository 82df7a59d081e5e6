//! The built command.

use std::process::{Command, Output, Stdio};

/// Runs the command without input until it ends.
pub fn tidegate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(args).stdin(Stdio::null()).output().expect("tidegate runs")
}

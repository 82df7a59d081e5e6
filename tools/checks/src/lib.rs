//! A program of checks: what it finds it prints, and its exit code tells whether that was something.

use std::io;
use std::process::ExitCode;

/// Runs a program with the arguments of its command line. `run` returns a line for each finding, or `None` when it does not know the
/// arguments. The exit code is 0 without findings, 1 with some or after an error, and 2 for unknown arguments.
pub fn program(usage: &str, run: impl FnOnce(&[&str]) -> Option<io::Result<Vec<String>>>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if arguments.iter().any(|argument| matches!(*argument, "-h" | "--help")) {
        println!("{usage}");
        return ExitCode::SUCCESS;
    }
    let Some(found) = run(&arguments) else {
        eprintln!("{usage}");
        return ExitCode::from(2);
    };
    let findings = found.unwrap_or_else(|error| vec![format!("{}: {error}", arguments.join(" "))]);
    findings.iter().for_each(|line| println!("{line}"));
    ExitCode::from(u8::from(!findings.is_empty()))
}

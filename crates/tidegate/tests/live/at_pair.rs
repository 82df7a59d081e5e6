//! The command on the left host of a pair.

use std::process::{Command, Output};

use tidegate_testbed::veth::Pair;

pub fn command(pair: &Pair, words: &[&str]) -> Command {
    let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
    command.args(words);
    command
}

pub fn output(pair: &Pair, words: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command(pair, words).output().unwrap();
    (status.code(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

pub fn succeeds(pair: &Pair, words: &[&str]) -> String {
    let (code, said) = output(pair, words);
    assert_eq!(code, Some(0), "{words:?}: {said}");
    said
}

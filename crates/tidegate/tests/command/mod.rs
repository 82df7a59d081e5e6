//! What tests of commands share: the built program, the text of its output, and a folder for its files.
#![allow(dead_code)] // Each test uses a part of it.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Runs the program without input until it ends.
pub fn tidegate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(args).stdin(Stdio::null()).output().expect("tidegate runs")
}

/// Output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A temporary folder, empty at first, removed on drop. Its name is that of no other test of the same process.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let name = format!("tidegate-{}-{}", name.replace('/', "-"), std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }
    /// The path of a file in it.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
    /// Writes a file, and returns its path.
    pub fn with(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a file in it");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reports what this machine cannot test.
pub fn skip(reason: &str) {
    use std::io::Write;
    eprintln!("SKIP: {reason}");
    if let Some(log) = std::env::var_os("TIDEGATE_SKIP_LOG") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        let _ = file.and_then(|mut file| writeln!(file, "SKIP: {reason}"));
    }
}

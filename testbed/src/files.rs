//! Folders for the files of a test, and the log of what a machine cannot test.

use std::io::Write as _;
use std::path::PathBuf;

/// A temporary folder, empty at first, removed on drop. The user of the test may write to it, and nobody else has made it.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// Makes a folder with `name` in its name.
    ///
    /// # Panics
    /// When no folder can be made.
    pub fn new(name: &str) -> Self {
        let name = format!("tidegate-{}-{}", name.replace('/', "-"), std::process::id());
        let names = (0..).map(|n| std::env::temp_dir().join(format!("{name}-{n}")));
        let made = |path: &PathBuf| match std::fs::create_dir(path) {
            // Another user may have left one.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
            other => other.map(|()| true).expect("a temporary folder"),
        };
        Self({ names }.find(made).expect("a free name"))
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The path of a file in it, as an argument of a command.
    pub fn path(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    /// Writes a file, and returns its path.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let file = self.file(name);
        std::fs::write(&file, content).expect("a file in it");
        file
    }

    /// Like [`write`](Self::write), with the path as an argument of a command.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn with(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        self.write(name, content);
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Converts output to text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reports what this machine cannot test: to people, and to the file that `TIDEGATE_SKIP_LOG` names.
pub fn skip(reason: &str) {
    eprintln!("SKIP: {reason}");
    if let Some(log) = std::env::var_os("TIDEGATE_SKIP_LOG") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        let _ = file.and_then(|mut file| writeln!(file, "SKIP: {reason}"));
    }
}

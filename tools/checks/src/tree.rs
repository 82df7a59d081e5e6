//! Copies the repository's files, for checks that change them.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// Copies the files that git tracks or does not ignore from the current directory to `to`, each as `change` returns it.
/// Unchanged files keep their times, so that they are not built again.
pub fn copy(to: &Path, change: impl Fn(&str, Vec<u8>) -> Vec<u8>) -> io::Result<()> {
    let listed = Command::new("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output()?;
    for file in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|file| !file.is_empty()) {
        let (from, to) = (Path::new(file), to.join(file));
        if !from.is_file() {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(Path::new(".")))?;
        let content = change(file, fs::read(from)?);
        if fs::read(&to).ok().as_ref() != Some(&content) {
            fs::write(to, content)?;
        }
    }
    Ok(())
}

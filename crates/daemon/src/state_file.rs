//! Files in the state directory: read as if anybody had written them, replaced at once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Reads a file of at most `largest` bytes that only this user may write.
pub(crate) fn read(path: &Path, largest: u64) -> io::Result<Vec<u8>> {
    read_if(path, largest, |owner| owner == rustix::process::geteuid().as_raw())
}

/// Reads a file of at most `largest` bytes that only its owner may write, for people to see.
pub(crate) fn read_of_any(path: &Path, largest: u64) -> io::Result<Vec<u8>> {
    read_if(path, largest, |_| true)
}

fn read_if(path: &Path, largest: u64, is_trusted: impl FnOnce(u32) -> bool) -> io::Result<Vec<u8>> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let data = file.metadata()?;
    let refuse = |why: &str| Err(io::Error::other(why.to_owned()));
    if !data.is_file() {
        return refuse("it is not a file");
    }
    if !is_trusted(data.uid()) || data.mode() & 0o022 != 0 {
        return refuse("others may have written it");
    }
    if data.len() > largest {
        return refuse("it is larger than it can be");
    }
    let mut bytes = Vec::new();
    file.take(largest).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes `bytes` beside the file and puts them in its place; returns the new file, to be appended to.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new: PathBuf = path.with_file_name(name);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Fails where somebody has made it again, as a link above all.
    let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&new, path)?;
    Ok(file)
}

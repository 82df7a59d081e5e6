//! The last words of a daemon and of its guardian: a file beside the socket, which outlives both.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::place::{directories, own_namespace};

/// How much of the end of the file is read, in bytes.
const TAIL: u64 = 16 << 10;
/// The longest file that its writers let it become, in bytes; then it is begun anew.
pub const LARGEST: u64 = 64 << 10;

/// Who wrote a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaker {
    /// The process that shapes.
    Daemon,
    /// The process that lets packets pass where that one cannot.
    Guardian,
}

impl Speaker {
    /// The word in the file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Guardian => "guardian",
        }
    }
}

/// A line of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Word {
    /// When it was written, in nanoseconds of the monotonic clock, which begins with the machine.
    pub nanos: u64,
    /// Who wrote it.
    pub speaker: Speaker,
    /// The number of its process.
    pub process: u32,
    /// The text. It was written by others: print it with care.
    pub text: String,
}

/// The name of the file of a daemon that shapes `interface`, in the network namespace of this process. Sockets have shorter
/// names where they can, which is not known yet when the first line is written.
pub fn log_name(interface: &str) -> String {
    let name = interface.replace('/', "_");
    own_namespace().map_or_else(|| format!("{name}.words"), |namespace| format!("{name}@{namespace}.words"))
}

/// The path of the file that belongs to a socket.
pub fn log_of(socket: &Path) -> PathBuf {
    let is_standard = socket.parent().is_some_and(|parent| directories().iter().any(|directory| directory == parent));
    let stem = socket.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if !is_standard {
        return socket.with_extension("words");
    }
    if stem.contains('@') {
        return socket.with_file_name(format!("{stem}.words"));
    }
    let interface = [".up", ".down"].iter().find_map(|end| stem.strip_suffix(end)).unwrap_or(stem);
    socket.with_file_name(log_name(interface))
}

/// Returns the path of the file to read for a socket. A socket with a plain name may belong to another network namespace, after
/// which its file is named: this is the one that was written last, except those of other sockets.
pub fn found_of(socket: &Path) -> PathBuf {
    let own = log_of(socket);
    let stem = |path: &Path| path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
    let interface = stem(&own).and_then(|stem| Some(stem.split_once('@')?.0.to_owned()));
    let (Some(interface), Some(directory)) = (interface, own.parent()) else { return own };
    if stem(socket).is_none_or(|stem| stem.contains('@')) {
        return own;
    }
    newest(directory, &interface).unwrap_or(own)
}

/// The file of `interface` in any namespace that was written last, except those of sockets that are named after theirs.
fn newest(directory: &Path, interface: &str) -> Option<PathBuf> {
    let name = |path: &Path| Some(path.file_stem()?.to_str()?.split_once('@')?.0.to_owned());
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let of_interface = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "words")
            && name(path).is_some_and(|name| name == interface)
            && !path.with_extension("sock").exists()
    };
    let written = |path: &PathBuf| fs::metadata(path).and_then(|data| data.modified()).ok();
    entries.filter(of_interface).max_by_key(written)
}

/// Reads the last lines of the file at `path`, the oldest first. Lines that are not as they should be are left out.
///
/// # Errors
/// When there is no such file, or it cannot be read.
pub fn last_words(path: &Path) -> io::Result<Vec<Word>> {
    // Neither a link nor a pipe: others may write to the directory of a user's own socket.
    let mut file = OpenOptions::new().read(true).custom_flags(NOFOLLOW | NONBLOCK).open(path)?;
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    file.seek(SeekFrom::Start(data.len().saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).lines().filter_map(word).collect())
}

/// The words at `path` by which a guardian has noted the end of the last daemon that wrote there, and what became of packets; `None`
/// where that one ended in an orderly way.
pub fn unexpected_end(path: &Path) -> Option<Word> {
    let words = last_words(path).ok()?;
    let last = words.iter().rposition(|word| word.speaker == Speaker::Daemon)?;
    let ended = format!("process {} has ended unexpectedly", words[last].process);
    words.into_iter().skip(last).find(|word| word.speaker == Speaker::Guardian && word.text.contains(&ended))
}

/// `O_NOFOLLOW` and `O_NONBLOCK` of Linux: this crate depends on no library of system calls.
const NOFOLLOW: i32 = if cfg!(any(target_arch = "arm", target_arch = "aarch64")) { 0o100_000 } else { 0o400_000 };
const NONBLOCK: i32 = 0o4_000;

fn word(line: &str) -> Option<Word> {
    let mut parts = line.splitn(4, ' ');
    let nanos = parts.next()?.parse().ok()?;
    let speaker = match parts.next()? {
        "daemon" => Speaker::Daemon,
        "guardian" => Speaker::Guardian,
        _ => return None,
    };
    Some(Word { nanos, speaker, process: parts.next()?.parse().ok()?, text: parts.next()?.to_owned() })
}

/// Whether a guardian of this number is running.
pub fn guards(process: u32) -> bool {
    // One that has ended keeps its name until its parent asks for its exit status.
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.split_once("(tidegate-guard) ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_read_and_what_is_none_is_left_out() {
        let path = std::env::temp_dir().join(format!("tidegate-words-{}.words", std::process::id()));
        let long = format!("1 daemon 7 {}\n", "x".repeat(100)).repeat(1_000);
        let lines = "20 guardian 8 process 7 has ended unexpectedly; packets pass unshaped\nhello\n30 ghost 9 boo\nx daemon 1 y\n";
        fs::write(&path, format!("{long}{lines}")).unwrap();
        let words = last_words(&path).unwrap();
        assert!(words.len() < 200, "{} lines", words.len());
        let last = words.last().unwrap();
        assert_eq!((last.nanos, last.speaker, last.process), (20, Speaker::Guardian, 8));
        assert_eq!(last.text, "process 7 has ended unexpectedly; packets pass unshaped");
        let link = path.with_extension("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(last_words(&link).is_err());
        // Its guardian has noted the end of the last one; one that wrote after that has not ended.
        assert_eq!(unexpected_end(&path).as_ref(), Some(last));
        fs::write(&path, format!("{long}{lines}40 daemon 9 shaping eth0 has begun\n")).unwrap();
        assert_eq!(unexpected_end(&path), None);
        fs::remove_file(link).unwrap();
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_plain_socket_of_another_namespace_leads_to_the_file_that_was_written_last() {
        let directory = std::env::temp_dir().join(format!("tidegate-newest-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let write = |name: &str, seconds: u64| {
            let file = fs::File::create(directory.join(name)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        };
        assert_eq!(newest(&directory, "wan0"), None);
        for (name, seconds) in [("wan0@1.words", 10), ("wan0@2.words", 20), ("wan0@3.words", 30), ("wan01@4.words", 40)]
        {
            write(name, seconds);
        }
        // The third belongs to a socket that is named after its namespace.
        write("wan0@3.sock", 30);
        assert_eq!(newest(&directory, "wan0"), Some(directory.join("wan0@2.words")));
        assert_eq!(found_of(Path::new("/run/tidegate/wan0@77.sock")), Path::new("/run/tidegate/wan0@77.words"));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_socket_leads_to_the_file_of_its_interface() {
        let standard = |name: &str| log_of(&Path::new("/run/tidegate").join(name)).file_name().unwrap().to_owned();
        let of_namespace = log_name("eth0");
        assert_eq!(standard("eth0.sock").to_str(), Some(of_namespace.as_str()));
        assert_eq!(standard("eth0.down.sock").to_str(), Some(of_namespace.as_str()));
        assert_eq!(standard("eth0@77.sock").to_str(), Some("eth0@77.words"));
        assert_eq!(log_of(Path::new("/tmp/x/mine.sock")), Path::new("/tmp/x/mine.words"));
        assert!(!guards(std::process::id()));
    }
}

//! The last day in a file, so that it survives a crash, a hand-over and a restart of the machine.
//!
//! *Law*: a file is a heading and blocks, each a minute of the classes or a note. A block is appended when its minute is
//! over, and at an orderly end; so a crash loses less than a minute, and a block that was cut off by it is dropped. Once the
//! file has twice the blocks of a day it is written anew, beside the old one, and takes its place at once.
//! *Units*: a block is `kind u8, length u32, payload`, little-endian, and the digest of kind and payload in 32 hexadecimal
//! digits.
//! *Cost*: about 75 B for a class and minute, a system call a minute; at most [`LARGEST`] bytes.
//! *Notes*: the file is read once, at the start. Nothing in it is trusted: only a regular file of this user that nobody
//! else may write is read, up to the first block that is cut off, malformed, of the future or before its predecessor.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_config::decode::is_printable;
use tidegate_metrics::Digest;

use super::history::{History, MOST, Minute, Point, Record, WAITS};
use super::notes::{Note, NoteKind, Notes};
use super::observer::Shared;
use crate::state_file;

const HEADING: &[u8] = b"tidegate history 1\n";
/// The largest file that is read, in bytes: two days of [`MOST`] classes with long names.
pub const LARGEST: u64 = 24 << 20;
/// The most blocks in a file, before it is written anew: minutes of two days, and notes.
const BLOCKS: usize = 2 * 1_440 + 4 * super::notes::MOST;
/// The longest name of a direction or a class.
const LONGEST_NAME: usize = 255;
/// The longest text of a note.
const LONGEST_NOTE: usize = 4_000;
/// The reach of the finer rings, in seconds, and a minute.
const RECENT: u64 = 7_200 + 60;
/// A day, in seconds.
const DAY: u64 = 86_400;

const MINUTE: u8 = 1;
const NOTE: u8 = 2;

/// A file with the last day. See the [module](self).
#[derive(Debug)]
pub(crate) struct HistoryFile {
    path: PathBuf,
    file: File,
    blocks: usize,
    /// A failure to write has been reported.
    is_reported: bool,
}

impl HistoryFile {
    /// Opens the file at `path`, or makes it, and adds what it has to `shared`. Returns it, and what is wrong with what was
    /// there.
    ///
    /// # Errors
    /// When it can be neither read nor written.
    pub fn open(path: &Path, shared: &Shared) -> io::Result<(Self, Option<String>)> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut wrong = None;
        match state_file::read(path, LARGEST) {
            Ok(bytes) => {
                let mut history = shared.history();
                let (notes, sound) = last_day(&bytes, now, |minute| {
                    history.restore(&minute, minute.from + RECENT > now);
                });
                shared.notes().restore(notes);
                if sound < bytes.len() {
                    wrong = Some(format!("it is damaged from byte {sound} on; what is behind that is dropped"));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => wrong = Some(format!("{error}; it is begun anew")),
        }
        // Written anew each time: what is too old or damaged is gone.
        let (history, notes) = (shared.history(), shared.notes());
        let (file, blocks) = write_anew(path, &history, &notes)?;
        Ok((Self { path: path.to_owned(), file, blocks, is_reported: false }, wrong))
    }

    /// Appends the minute that is over, if it was not taken yet, and the notes since the last call; with `end` the minute
    /// so far as well. Returns why that failed, once.
    pub fn keep(&mut self, shared: &Shared, end: bool) -> Option<String> {
        let (mut history, mut notes) = (shared.history(), shared.notes());
        let mut minutes: Vec<Minute> = history.take_over().into_iter().collect();
        minutes.extend(Some(history.minute()).filter(|minute| end && !minute.records.is_empty()));
        let notes_of = notes.take_new();
        if minutes.is_empty() && notes_of.is_empty() {
            return None;
        }
        let mut bytes = Vec::new();
        minutes.iter().for_each(|minute| block(&mut bytes, MINUTE, &minute_bytes(minute)));
        notes_of.iter().for_each(|note| block(&mut bytes, NOTE, &note_bytes(note)));
        self.blocks += minutes.len() + notes_of.len();
        let outcome = if self.blocks > BLOCKS {
            write_anew(&self.path, &history, &notes).map(|(file, blocks)| (self.file, self.blocks) = (file, blocks))
        } else {
            drop((history, notes));
            self.file.write_all(&bytes)
        };
        let failed = outcome.err().filter(|_| !self.is_reported);
        self.is_reported |= failed.is_some();
        failed.map(|error| format!("the history in {} is not written: {error}", self.path.display()))
    }
}

/// Reads a file's notes of the last day, and calls `keep` with each of its minutes. Returns how many bytes are sound as well.
fn last_day(bytes: &[u8], now: u64, mut keep: impl FnMut(Minute)) -> (Vec<Note>, usize) {
    let mut blocks = Blocks { rest: bytes.strip_prefix(HEADING).unwrap_or_default(), last: 0, now };
    let mut notes = Vec::new();
    while let Some(block) = blocks.next() {
        match block {
            Block::Minute(minute) if minute.from + DAY > now => keep(minute),
            Block::Note(note) if note.time_s.saturating_add(DAY) > now => notes.push(note),
            Block::Minute(_) | Block::Note(_) => {}
        }
    }
    let sound = if bytes.starts_with(HEADING) { bytes.len() - blocks.rest.len() } else { 0 };
    (notes, sound)
}

/// The changes and faults of the last day from second `since` on, as the file at `path` has them, for people: the daemon that
/// writes it need not run, and may be that of another user.
///
/// # Errors
/// When the file cannot be read, or any user may have written it.
pub fn read_notes(path: &Path, since: u64) -> io::Result<Vec<Note>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let bytes = state_file::read_of_any(path, LARGEST)?;
    if !bytes.starts_with(HEADING) {
        return Err(io::Error::other("it is not a history of tidegate"));
    }
    let mut notes = Notes::default();
    notes.restore(last_day(&bytes, now, |_| {}).0);
    Ok(notes.since(since))
}

/// The files with a history in `folder`, of `interface` where one is named, in the order of their names.
pub fn files(folder: &Path, interface: Option<&str>) -> Vec<PathBuf> {
    let directions = [None, Some("up"), Some("down")];
    let wanted = interface.map(|interface| directions.map(|direction| file_name(interface, direction)));
    let is_wanted = |path: &Path| match &wanted {
        Some(names) => path.file_name().is_some_and(|name| names.iter().any(|wanted| name == wanted.as_str())),
        None => path.extension().is_some_and(|end| end == "history"),
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(|path| is_wanted(path)).collect();
    found.sort();
    found
}

/// Writes the last day beside the file and puts it in its place; returns the new file, to be appended to, and its blocks.
fn write_anew(path: &Path, history: &History, notes: &Notes) -> io::Result<(File, usize)> {
    let mut bytes = HEADING.to_vec();
    let (minutes, notes) = (history.minutes(), notes.all());
    let blocks = minutes.len() + notes.len();
    minutes.iter().for_each(|minute| block(&mut bytes, MINUTE, &minute_bytes(minute)));
    notes.iter().for_each(|note| block(&mut bytes, NOTE, &note_bytes(note)));
    Ok((state_file::replace(path, &bytes)?, blocks))
}

fn digest(kind: u8, payload: &[u8]) -> Digest {
    let mut digest = Digest::default();
    digest.bytes(&[kind]);
    digest.bytes(payload);
    digest
}

fn block(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    out.push(kind);
    out.extend((payload.len() as u32).to_le_bytes());
    out.extend(payload);
    out.extend(digest(kind, payload).to_string().into_bytes());
}

/// The characters of a digest.
const DIGEST: usize = 32;

fn minute_bytes(minute: &Minute) -> Vec<u8> {
    let mut out = minute.from.to_le_bytes().to_vec();
    for Record { direction, class, seconds, point } in &minute.records {
        if direction.len() > LONGEST_NAME || class.len() > LONGEST_NAME {
            continue;
        }
        for name in [direction, class] {
            out.push(name.len() as u8);
            out.extend(name.as_bytes());
        }
        out.push(*seconds);
        point.values().iter().for_each(|value| out.extend(value.to_le_bytes()));
        out.extend(point.waits);
    }
    out
}

fn note_bytes(note: &Note) -> Vec<u8> {
    let mut out = note.time_s.to_le_bytes().to_vec();
    out.push(u8::from(note.kind == NoteKind::Change));
    let end = note.text.floor_char_boundary(LONGEST_NOTE);
    out.extend(&note.text.as_bytes()[..end]);
    out
}

enum Block {
    Minute(Minute),
    Note(Note),
}

/// The blocks of a file. It ends before the first one that is not as it should be; `rest` begins there.
struct Blocks<'a> {
    rest: &'a [u8],
    /// The first second of the last minute.
    last: u64,
    now: u64,
}

impl Blocks<'_> {
    fn next(&mut self) -> Option<Block> {
        let (&kind, rest) = self.rest.split_first()?;
        let (length, rest) = rest.split_at_checked(4)?;
        let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
        let (payload, rest) = rest.split_at_checked(length)?;
        let (text, rest) = rest.split_at_checked(DIGEST)?;
        if Digest::from_hex(std::str::from_utf8(text).ok()?)? != digest(kind, payload) {
            return None;
        }
        let block = match kind {
            MINUTE => Block::Minute(minute(payload).filter(|minute| self.follows(minute))?),
            NOTE => Block::Note(note(payload).filter(|note| note.time_s <= self.now + 60)?),
            _ => return None,
        };
        if let Block::Minute(minute) = &block {
            self.last = minute.from;
        }
        self.rest = rest;
        Some(block)
    }

    /// Whether a minute may stand here. The one that was written at an end may be there again, longer.
    fn follows(&self, minute: &Minute) -> bool {
        minute.from >= self.last && minute.from <= self.now
    }
}

fn minute(bytes: &[u8]) -> Option<Minute> {
    let (from, mut rest) = bytes.split_at_checked(8)?;
    let from = u64::from_le_bytes(from.try_into().ok()?);
    let mut records = Vec::new();
    while !rest.is_empty() {
        let direction = name(&mut rest)?;
        let class = name(&mut rest)?;
        let (&seconds, after) = rest.split_first()?;
        let (values, after) = after.split_at_checked(9 * 4)?;
        let (waits, after) = after.split_at_checked(WAITS)?;
        let mut all = [0.0; 9];
        for (value, bytes) in all.iter_mut().zip(values.chunks_exact(4)) {
            *value = f32::from_le_bytes(bytes.try_into().ok()?);
        }
        let is_sound = all.iter().all(|value| value.is_finite() && *value >= 0.0) && (1..=60).contains(&seconds);
        if !is_sound || records.len() == MOST {
            return None;
        }
        records.push(Record { direction, class, seconds, point: Point::from_values(all, waits.try_into().ok()?) });
        rest = after;
    }
    (from.is_multiple_of(60) && !records.is_empty()).then_some(Minute { from, records })
}

/// The name of a direction or a class; empty for the line ([`LINE`](super::history::LINE)).
fn name(rest: &mut &[u8]) -> Option<String> {
    let (&length, after) = rest.split_first()?;
    let (name, after) = after.split_at_checked(length.into())?;
    *rest = after;
    let name = std::str::from_utf8(name).ok().filter(|name| is_printable(name))?;
    Some(name.to_owned())
}

fn note(bytes: &[u8]) -> Option<Note> {
    let (time, rest) = bytes.split_at_checked(8)?;
    let (&kind, text) = rest.split_first()?;
    let kind = match kind {
        0 => NoteKind::Event,
        1 => NoteKind::Change,
        _ => return None,
    };
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= LONGEST_NOTE)?;
    let is_text = text.chars().all(|c| c == '\n' || !c.is_control());
    is_text.then(|| Note { time_s: u64::from_le_bytes(time.try_into().unwrap_or_default()), kind, text: text.into() })
}

/// Where the history of `interface` is kept by default, in this network namespace; `None` in others than that of the machine,
/// whose interfaces may have the same names and are gone with it. A direction is named where a daemon shapes only it.
pub fn default_path(interface: &str, direction: Option<&str>) -> Option<PathBuf> {
    Some(state_directory()?.join(file_name(interface, direction)))
}

/// The directory of what is kept over restarts, in this network namespace. See [`default_path`].
pub fn state_directory() -> Option<PathBuf> {
    let number = |path: &Path| fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
    let own = number(Path::new("/proc/thread-self/ns/net"))?;
    let is_another = match number(Path::new("/proc/1/ns/net")) {
        Some(machine) => machine != own,
        // In a container the first process may be hidden. A namespace that was entered for this process alone, or one of `ip netns`,
        // is none of a machine even so.
        None => {
            let parent = PathBuf::from(format!("/proc/{}/ns/net", std::os::unix::process::parent_id()));
            let named = || {
                fs::read_dir("/run/netns").is_ok_and(|all| all.flatten().any(|one| number(&one.path()) == Some(own)))
            };
            number(&parent).is_some_and(|parent| parent != own) || named()
        }
    };
    if is_another {
        return None;
    }
    match std::env::var_os("STATE_DIRECTORY") {
        // Several may be listed, with colons between them.
        Some(folders) => Some(PathBuf::from(folders.to_string_lossy().split(':').next().unwrap_or_default())),
        None if rustix::process::geteuid().is_root() => Some(PathBuf::from("/var/lib/tidegate")),
        None => None,
    }
}

/// The name of the file of an interface.
pub fn file_name(interface: &str, direction: Option<&str>) -> String {
    let direction = direction.map_or(String::new(), |direction| format!(".{direction}"));
    format!("{}{direction}.history", interface.replace('/', "_"))
}

#[cfg(test)]
mod tests;

//! [`Recording`] writes the files of a recording on a thread of its own.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use tidegate_core::DropReason;
use tidegate_engine::guard::lock;
use tidegate_units::{Bytes, Instant};

use super::codec::{Body, Cursor};
use super::encode::chunk_header;
use super::head::{Head, Payload, Reconfiguration, Setup};
use super::line::LineRecorder;
use super::recorder::FileRecorder;
use super::{ChunkKind, FORMAT, MAGIC};

/// The size of a chunk in bytes, for some ten thousand records.
pub(super) const CHUNK: usize = 256 << 10;

/// Settings of a recording.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the recorded interface.
    pub of: String,
    /// The part of packets that is kept.
    pub payload: Payload,
    /// The size at which another file is begun; `None` for one file of any size.
    pub limit: Option<Bytes>,
    /// The number of files to keep, the newest ones; `None` for all.
    pub files: Option<u64>,
    /// An instant of the clock of the data path, and the same instant in ns since 1970.
    pub clock: (Instant, u64),
    /// The number of chunks of 256 KiB that may wait to be written. 32 chunks (8 MiB) suffice for a second of a million packets
    /// a second.
    pub buffers: usize,
    /// Called with the reason when writing fails, at once and on the thread that writes.
    pub failed: fn(&str),
}

/// Counts of records that were kept and lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// The number of records, including those that were lost.
    pub records: u64,
    /// The number of lost records, because the file was too slow or could not be written.
    pub lost: u64,
    /// The number of bytes written to all files.
    pub bytes: u64,
    /// The number of files begun.
    pub files: u64,
}

impl Counts {
    fn encode(&self, goes_on: bool) -> Vec<u8> {
        let mut out = Body::new(Vec::new());
        let counts = [self.records, self.lost, self.bytes, self.files];
        out.append(|out| counts.into_iter().chain([goes_on.into()]).for_each(|value| out.number(value)));
        out.into_bytes()
    }
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Option<Self> {
        let mut next = || cursor.number();
        Some(Self { records: next()?, lost: next()?, bytes: next()?, files: next()? })
    }
}

/// A recording stopped before its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// The file and the error, such as a full disk.
    pub why: String,
    /// The counts at the end.
    pub counts: Counts,
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the recording stopped: {}", self.why)
    }
}

impl std::error::Error for Stopped {}

/// The body of a chunk on its way to the file.
pub(super) struct Chunk {
    pub kind: ChunkKind,
    pub body: Vec<u8>,
    /// The number of records, or of calls of a controller.
    pub records: u64,
}

/// The state that recorders and the writing thread share.
pub(super) struct Shared {
    pub payload: Payload,
    pool: Mutex<Vec<Vec<u8>>>,
    setup: Mutex<Option<Setup>>,
    failure: Mutex<Option<String>>,
    pub records: AtomicU64,
    pub lost: AtomicU64,
    bytes: AtomicU64,
    files: AtomicU64,
}

impl Shared {
    fn counts(&self) -> Counts {
        let [records, lost, bytes, files] =
            [&self.records, &self.lost, &self.bytes, &self.files].map(|counter| counter.load(Ordering::Relaxed));
        Counts { records, lost, bytes, files }
    }
    /// Takes a free buffer, if there is one. The lock is held only while three words are moved.
    pub fn buffer(&self) -> Option<Vec<u8>> {
        lock(&self.pool).pop()
    }
    /// Notes a new configuration for the heads of later files.
    pub fn reconfigured(&self, to: Reconfiguration) {
        if let Some(setup) = &mut *lock(&self.setup) {
            setup.users = to.users;
            setup.cgroups = to.cgroups;
            setup.interfaces = to.interfaces;
            setup.macs = to.macs;
            setup.named = to.named;
            setup.off = to.off;
            setup.configuration = to.configuration;
        }
    }
}

/// Opens the file of a recording for writing, without emptying it; a new one has mode 0600.
///
/// A recording is often written by root, and perhaps into a directory of another user, who could make a symbolic link there to any
/// file. So a link is followed only if it belongs to root or to the user of this process, as `/dev/stdout` does.
///
/// # Errors
/// When the file cannot be opened, or is a link of somebody else.
pub fn open_file(path: &Path) -> io::Result<File> {
    let mut new = OpenOptions::new();
    // This follows no link.
    new.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut new, 0o600);
    match new.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    refuse_link_of_others(path, None)?;
    let file = OpenOptions::new().write(true).open(path)?;
    // It may have been replaced meanwhile.
    refuse_link_of_others(path, Some(&file))?;
    Ok(file)
}

#[cfg(unix)]
fn refuse_link_of_others(path: &Path, opened: Option<&File>) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let named = path.symlink_metadata()?;
    let denied = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    if named.is_symlink() {
        let ours = fs::metadata("/proc/self")?.uid();
        if named.uid() != 0 && named.uid() != ours {
            return denied("it is a symbolic link of another user; remove it, or record to another path");
        }
    } else if let Some(opened) = opened {
        let opened = opened.metadata()?;
        if (opened.dev(), opened.ino()) != (named.dev(), named.ino()) {
            return denied("it was replaced while it was opened");
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn refuse_link_of_others(_: &Path, _: Option<&File>) -> io::Result<()> {
    Ok(())
}

/// The path of file number `part` of the recording at `path`: `path` itself, then `path.1`, `path.2`, and so on.
pub fn part_path(path: &Path, part: u64) -> PathBuf {
    if part == 0 {
        return path.into();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{part}"));
    name.into()
}

/// A recording that is being written. See [`Recording::finish`].
pub struct Recording {
    shared: Arc<Shared>,
    to: Option<SyncSender<Chunk>>,
    writer: Option<JoinHandle<()>>,
}

impl Recording {
    /// Begins the first file, and overwrites an existing one. Only its owner may read the file, because it contains addresses.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path, settings: Settings) -> io::Result<Self> {
        let buffers = settings.buffers.max(2);
        let shared = Arc::new(Shared {
            payload: settings.payload,
            pool: Mutex::new(vec![vec![0; CHUNK]; buffers]),
            setup: Mutex::new(None),
            failure: Mutex::new(None),
            records: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            files: AtomicU64::new(0),
        });
        let mut files = Files {
            path: path.into(),
            shared: Arc::clone(&shared),
            part: 0,
            file: None,
            written: 0,
            chunks: 0,
            settings,
        };
        files.open(0)?;
        let (to, chunks) = mpsc::sync_channel(buffers + 2);
        let writer = thread::Builder::new().name("tidegate-record".into()).spawn(move || files.write_all(&chunks))?;
        Ok(Self { shared, to: Some(to), writer: Some(writer) })
    }

    /// Makes the recorder of an engine that was just set up with `setup`. Several engines may be recorded, one after another.
    pub fn recorder(&self, setup: Setup) -> FileRecorder {
        let to = self.to.clone().expect("present until the recording is dropped");
        let recorder = FileRecorder::new(to, Arc::clone(&self.shared), &setup);
        *lock(&self.shared.setup) = Some(setup);
        recorder
    }
    /// Makes the recorder of the controller of a rate that follows the line. There may be one.
    pub fn line(&self) -> LineRecorder {
        LineRecorder::new(self.to.clone().expect("present until the recording is dropped"), Arc::clone(&self.shared))
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }
    /// The error because of which nothing is written any more.
    pub fn failure(&self) -> Option<String> {
        lock(&self.shared.failure).clone()
    }

    /// Waits until all kept records are written. Every [`FileRecorder`] and [`LineRecorder`] must have been dropped.
    ///
    /// # Errors
    /// The error that stopped the recording, such as a full disk.
    pub fn finish(mut self) -> Result<Counts, Stopped> {
        self.end();
        let counts = self.counts();
        self.failure().map_or(Ok(counts), |why| Err(Stopped { why, counts }))
    }

    fn end(&mut self) {
        self.to = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            *lock(&self.shared.failure) = Some("the thread that writes panicked".into());
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end();
    }
}

/// The state of the writing thread.
struct Files {
    path: PathBuf,
    shared: Arc<Shared>,
    settings: Settings,
    part: u64,
    file: Option<File>,
    /// The number of bytes and chunks in this file.
    written: u64,
    chunks: u64,
}

impl Files {
    fn write_all(&mut self, chunks: &Receiver<Chunk>) {
        for Chunk { kind, mut body, records } in chunks {
            let result = self.chunk(kind, &body, records);
            // Give the buffer its full length here, so that the data path need not zero it.
            if body.capacity() > 2 * CHUNK {
                body.truncate(CHUNK);
                body.shrink_to(CHUNK);
            }
            body.resize(body.capacity(), 0);
            lock(&self.shared.pool).push(body);
            if let Err(error) = result {
                // A part of the chunk in the file has no valid checksum, and readers skip it.
                self.shared.lost.fetch_add(records, Ordering::Relaxed);
                self.fail(&error);
            }
        }
        if let Err(error) = self.close(false) {
            self.fail(&error);
        }
    }

    /// Stops writing. Later records are lost; the data path goes on.
    fn fail(&mut self, error: &io::Error) {
        self.file = None;
        let why = format!("{}: {error}", part_path(&self.path, self.part).display());
        (self.settings.failed)(&why);
        lock(&self.shared.failure).get_or_insert(why);
    }

    fn chunk(&mut self, kind: ChunkKind, body: &[u8], records: u64) -> io::Result<()> {
        if self.file.is_none() {
            // Writing has failed before.
            self.shared.lost.fetch_add(records, Ordering::Relaxed);
            return Ok(());
        }
        let size = 9 + body.len() as u64;
        if self.chunks > 0 && self.settings.limit.is_some_and(|limit| self.written + size > limit.as_u64()) {
            self.close(true)?;
            self.open(self.part + 1)?;
        }
        self.chunks += 1;
        self.put(kind, body)
    }

    fn put(&mut self, kind: ChunkKind, body: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(&chunk_header(kind, body))?;
        file.write_all(body)?;
        self.count(9 + body.len() as u64);
        Ok(())
    }

    fn count(&mut self, bytes: u64) {
        self.written += bytes;
        self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn open(&mut self, part: u64) -> io::Result<()> {
        self.part = part;
        let path = part_path(&self.path, part);
        let file = open_file(&path)?;
        // An existing file may be readable for others. Leave a pipe or a device alone.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
            #[cfg(unix)]
            file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        }
        self.file = Some(file);
        (self.written, self.chunks) = (0, 0);
        self.shared.files.fetch_add(1, Ordering::Relaxed);
        if let (Some(keep), Some(file)) = (self.settings.files, part.checked_sub(self.settings.files.unwrap_or(0)))
            && keep > 0
        {
            // The file may have been removed already.
            let _ = fs::remove_file(part_path(&self.path, file));
        }
        let (instant, wall_clock_ns) = self.settings.clock;
        let head = Head {
            format: FORMAT,
            tidegate: env!("CARGO_PKG_VERSION").into(),
            recording: format!("{wall_clock_ns:016x}{:016x}", instant.as_nanos()),
            part,
            of: self.settings.of.clone(),
            instant_ns: instant.as_nanos(),
            wall_clock_ns,
            payload: self.settings.payload,
            reasons: DropReason::ALL.iter().map(|reason| reason.name().to_owned()).collect(),
            setup: if part == 0 { None } else { lock(&self.shared.setup).clone() },
        };
        if let Some(file) = &mut self.file {
            file.write_all(&MAGIC)?;
        }
        self.count(MAGIC.len() as u64);
        let json = serde_json::to_vec(&head).map_err(io::Error::other)?;
        self.put(ChunkKind::Head, &json)
    }

    /// Ends the file. `goes_on` is whether another one follows.
    fn close(&mut self, goes_on: bool) -> io::Result<()> {
        let counts = self.shared.counts();
        self.put(ChunkKind::End, &counts.encode(goes_on))?;
        self.file = None;
        Ok(())
    }
}

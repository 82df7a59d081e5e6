//! The guardian: a small process that lets packets pass when the shaper cannot.
//!
//! It holds the socket of the queue together with the shaper, so that the queue and the packets in it outlive the
//! shaper, and the socket that owns the rules. It watches the shaper's progress in memory that both share (`page`).
//! When the shaper stops, hangs, aborts or is killed, the guardian takes the turn: it accepts what is held, in order,
//! then everything that arrives, until the shaper makes progress and asks for the turn, or until another shaper takes
//! over. Nothing that shaping writes into packets is written meanwhile.
//!
//! *Law*: no packet is lost, and those of a flow stay in order. Traffic passes within 500 ms when the shaper is silent,
//! within 50 ms when its process has ended.
//! *Notes*: the kernel drops what its queues hold when the last descriptor of the socket is closed: when both processes
//! are killed at once, and also when any program removes a chain of the packet filter in the same network namespace. A guardian
//! that was killed is replaced some 100 ms later by a shaper that runs, later on a busy machine: packets wait when the shaper is stopped in
//! between. While a guardian is replaced that lives, one of the two watches at each moment.
//! Between two packets the guardian waits for nothing but a processor; its log is written by a thread of its own (`speaker`).
//!
//! *Faults*, and what lets traffic pass in each:
//!
//! | fault | mechanism | packets in the queue |
//! | --- | --- | --- |
//! | the queue of the kernel overflows | fail-open of the queue ([`WhenFull`](crate::nfqueue::WhenFull)): the packet that does not fit passes | stay |
//! | nobody has the queue open: both processes died | `bypass` in the rules; where a socket owns the rules, the kernel removes them | are lost |
//! | an engine panics, or a socket fails | the thread abandons itself ([`WatchdogHandle`](crate::shaping::WatchdogHandle)) | pass |
//! | a thread stalls while the process runs | the watchdog of the process abandons it, in the same way | pass |
//! | the process dies, is stopped or hangs as a whole | the guardian | pass, or wait for a successor |
//! | another data path adds or removes a chain, which the kernel empties queues for | the guardian, which asks the shaper for the turn (`aside`) | pass |
//! | the shaper is replaced: no fault | the list of held packets, which the next data path takes over | stay, and are shaped |
//!
//! Fail-open and `bypass` need no process, but cannot release what is queued. A thread that abandons itself or another one can, but
//! not in a process that is dead. The guardian can in any case; it notices a stalled thread as well, but cannot start another data
//! path, which is why the watchdog abandons that thread too. Without a guardian an abandoned data path ends queueing itself.
//!
//! The guardian runs the same program with other arguments ([`Settings`]): its memory is its own, so that it can be
//! locked; it can be started again at any time from a process with threads; and it inherits nothing. A fork would share
//! pages that the shaper then copies, and locks.

mod memory {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};

    pub(super) use tidegate_sys::map::{Shared, memory_file};
}
mod aside;
mod message;
mod page;
mod preparation;
mod process;
mod speaker;

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{Access, Mode};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tidegate_sys::map::memory_file;
use tidegate_sys::time::Readable;
use tidegate_units::Span;

use message::{GO, HELD, Kept, LONGEST, READY, REPLACED, SUCCESSOR, TAKE, TAKE_LEFT, TURN};

pub(crate) use aside::Aside;
pub use page::{Page, Reason, Turn};
pub use process::run;

/// The longest wait of a data path between two turns, so that the guardian can distinguish an idle one from one that hangs.
pub const LONGEST_WAIT: Span = Span::from_millis(100);

/// How long a guardian may take to be prepared, on a busy machine.
const START: Duration = Duration::from_secs(20);
/// How long a guardian may be silent before it is replaced.
const SILENCE: Duration = Duration::from_secs(1);
/// How long a successor waits for a shaper to end, and for what it leaves.
const PATIENCE: Duration = Duration::from_secs(20);

/// How to start guardians.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The program, which calls [`run`] when it is started with `arguments`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The directory of the socket by which a successor takes over, which only root may write to; without it none can.
    pub directory: Option<PathBuf>,
    /// How long to wait for a successor when the shaper has ended without announcing it.
    pub linger: Duration,
    /// Whether to take over from a shaper that runs, which ends then.
    pub take_over: bool,
    /// The file to which guardians append what they do, a line each: nanoseconds of the monotonic clock, `guardian`, the
    /// number of the process, and the text. `None` for nowhere.
    pub log: Option<PathBuf>,
}

/// The privileges that the system granted to a guardian.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Granted {
    /// Its memory is locked.
    pub locked: bool,
    /// It is scheduled before the data path.
    pub real_time: bool,
    /// It has no capability but CAP_NET_ADMIN, and makes no system calls but those that it needs.
    pub dropped: bool,
}

/// The descriptors and the memory that a shaper and its guardian share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub queue: OwnedFd,
    pub rules: OwnedFd,
    pub page: Arc<Page>,
    /// The file with the state of the shaper for its successor.
    pub state: Arc<fs::File>,
}

/// The state of a guardian when it was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// It watches.
    Watching,
    /// It had ended or stopped, and another one has been started.
    Restarted(String),
    /// It has ended or stopped, and no other one can be started.
    Missing(String),
    /// A successor waits for the end of this shaper.
    Successor,
}

/// A guardian, from the side of the shaper.
#[derive(Debug)]
pub struct Guardian {
    settings: Settings,
    shared: Shared,
    kept: Kept,
    process: Option<Process>,
    restarts: u64,
    /// When another start is tried after one that failed.
    next: Instant,
}

#[derive(Debug)]
struct Process {
    child: Child,
    control: OwnedFd,
    granted: Granted,
    /// Its turns when they were last seen to change, and when.
    beats: (u64, Instant),
}

/// The name of the socket of the guardian of a rules table, in a directory that other network namespaces may share, and of
/// one of the threads: the first has the name without a number.
pub(crate) fn socket_name(table: &str, thread: usize) -> io::Result<String> {
    let name = format!(".guardian-{}-{table}", fs::metadata("/proc/thread-self/ns/net")?.ino());
    Ok(if thread == 0 { name } else { format!("{name}-{thread}") })
}

/// Reads bytes as each of the messages that a guardian receives; for fuzzing.
#[doc(hidden)]
pub fn read_messages(bytes: &[u8]) {
    if let Some(kept) = Kept::decode(bytes) {
        assert_eq!(Kept::decode(&kept.encode()).as_ref(), Some(&kept), "what was read is written the same");
    }
    process::read_packet(bytes);
}

impl Guardian {
    /// Starts a guardian that is prepared but does not watch yet, of a data path whose flows are divided in this way.
    /// `socket` is the name of the socket for a successor.
    ///
    /// # Errors
    /// When the process cannot be started or does not answer.
    pub(crate) fn prepare(
        settings: &Settings,
        shared: Shared,
        queues: [u16; 2],
        division: u8,
        socket: &str,
    ) -> io::Result<Self> {
        let path = settings.directory.as_deref().filter(|directory| is_there(directory));
        let path = path.map(|directory| directory.join(socket)).filter(|path| path.as_os_str().len() < message::PATH);
        let path = path.as_ref().map_or(&[][..], |path| path.as_os_str().as_bytes());
        let linger = u32::try_from(settings.linger.as_millis()).unwrap_or(u32::MAX);
        let kept = Kept::new(queues, division, linger, path);
        let kept = kept.ok_or_else(|| io::Error::other("the path of its socket is too long"))?;
        let mut guardian =
            Self { settings: settings.clone(), shared, kept, process: None, restarts: 0, next: Instant::now() };
        guardian.process = Some(guardian.spawn()?);
        Ok(guardian)
    }

    /// Has it watch, as soon as an earlier guardian has ended, which is at the other end of `earlier`. Have it watch before that one is
    /// told to end: when this process is stopped in between, one of the two watches nevertheless.
    pub(crate) fn watch(&self, earlier: Option<BorrowedFd<'_>>) {
        self.send(GO, earlier.as_slice());
        if earlier.is_none() {
            self.take_name();
        }
    }
    /// Has successors find it in the place of an earlier guardian, which has ended. It does so itself when it begins to watch; a
    /// successor that comes at once does not wait for that.
    pub(crate) fn take_name(&self) {
        let path = self.kept.path();
        if let Some(next) = next_path(path) {
            let _ = rustix::fs::rename(&next, path);
        }
    }

    /// Notifies it that the turn has changed.
    pub(crate) fn notify(&self) {
        self.send(TURN, &[]);
    }

    fn send(&self, byte: u8, descriptors: &[BorrowedFd<'_>]) {
        if let Some(process) = &self.process {
            // One that does not read is replaced.
            let _ = message::send(process.control.as_fd(), &[byte], descriptors);
        }
    }
    /// The connection with it.
    pub(crate) fn connection(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(|process| process.control.as_fd())
    }

    fn spawn(&self) -> io::Result<Process> {
        let (control, other) = message::pair()?;
        let listener = match self.kept.path() {
            path if path.is_empty() => None,
            // At its own path a guardian that watches can be reached until this one does.
            path => Some(listen(next_path(path).as_deref().unwrap_or(path))?),
        };
        let mut command = Command::new(&self.settings.program);
        command.args(&self.settings.arguments).env_clear().current_dir("/").process_group(0);
        // A file alone: a pipe that nobody reads would hold a guardian up, and one that somebody reads would not end.
        let log = self.settings.log.as_deref().and_then(|path| open_log(path).ok());
        let log = log.map_or_else(Stdio::null, Stdio::from);
        command.stdin(Stdio::from(other)).stdout(Stdio::null()).stderr(log);
        let child = command.spawn()?;
        // With its end of the connection: only the child keeps that open.
        drop(command);
        let mut process = Process { child, control, granted: Granted::default(), beats: (0, Instant::now()) };
        let shared = &self.shared;
        let mut descriptors =
            vec![shared.queue.as_fd(), shared.rules.as_fd(), shared.page.as_fd(), shared.state.as_fd()];
        descriptors.extend(listener.as_ref().map(AsFd::as_fd));
        message::send(process.control.as_fd(), &self.kept.encode(), &descriptors)?;
        wait_at_most(&process.control, START)?;
        let mut answer = [0; 4];
        match message::receive(process.control.as_fd(), &mut answer, &mut []) {
            Ok(4) if answer[0] == READY => {}
            Ok(_) => {
                let _ = process.child.kill();
                let ended = process.child.wait()?;
                return Err(io::Error::other(format!("its process ended with {ended}")));
            }
            Err(error) => {
                let _ = process.child.kill();
                let _ = process.child.wait();
                return Err(error);
            }
        }
        let [_, locked, real_time, dropped] = answer.map(|byte| byte != 0);
        process.granted = Granted { locked, real_time, dropped };
        // Its time begins now, however long it took to be ready.
        process.beats = (shared.page.guardian_beats(), Instant::now());
        Ok(process)
    }

    /// Looks at the guardian, and starts another one in the place of one that has ended or stopped. Called some times a
    /// second.
    pub fn tend(&mut self) -> Condition {
        let why = match &mut self.process {
            None if Instant::now() < self.next => return Condition::Watching,
            None => "it was missing".into(),
            Some(process) => match process.look(&self.shared.page) {
                Ok(condition) => return condition,
                Err(why) => why,
            },
        };
        // One that is only slow watches until the next one does.
        let earlier = self.process.take();
        let spawned = self.spawn().map(|process| self.process = Some(process));
        if spawned.is_ok() {
            self.watch(earlier.as_ref().map(|earlier| earlier.control.as_fd()));
        }
        if let Some(Process { mut child, control, .. }) = earlier {
            let _ = child.kill();
            drop(control);
            reap(child);
        }
        match spawned {
            Ok(()) => {
                self.take_name();
                self.restarts += 1;
                Condition::Restarted(why)
            }
            Err(error) => {
                self.next = Instant::now() + Duration::from_secs(5);
                Condition::Missing(format!("{why}, and another one cannot be started: {error}"))
            }
        }
    }

    /// The number of its process, while there is one.
    pub fn process(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.child.id())
    }
    /// The privileges that the system granted to it.
    pub fn granted(&self) -> Granted {
        self.process.as_ref().map(|process| process.granted).unwrap_or_default()
    }
    /// How often another one was started in its place.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }
    /// Whether a successor can take over through it.
    pub fn is_reachable(&self) -> bool {
        !self.kept.path().is_empty()
    }
    /// Further handles of what it holds.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub(crate) fn share(&self) -> io::Result<Shared> {
        let Shared { queue, rules, page, state } = &self.shared;
        let (page, state) = (Arc::clone(page), Arc::clone(state));
        Ok(Shared { queue: queue.try_clone()?, rules: rules.try_clone()?, page, state })
    }
    /// The name of its socket; empty if it has none.
    pub(crate) fn socket_name(&self) -> String {
        let path = Path::new(OsStr::from_bytes(self.kept.path().to_bytes()));
        path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
    /// The file with the state of the shaper for its successor.
    pub(crate) fn state(&self) -> &Arc<fs::File> {
        &self.shared.state
    }

    /// Removes the socket for a successor.
    fn unlink(&self) {
        let path = self.kept.path();
        if !path.is_empty() {
            // Another one may have replaced it.
            let _ = rustix::fs::unlink(path);
        }
    }

    /// Ends it, after the rules have been removed and no packet is held.
    pub(crate) fn end(mut self) {
        self.shared.page.end();
        self.unlink();
        let Some(Process { child, control, .. }) = self.process.take() else { return };
        drop(control);
        reap(child);
    }

    /// How it was started.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Ends it in favour of another one that is prepared, if one could be.
    pub(crate) fn replace(mut self, next: Option<&Self>) {
        self.send(REPLACED, &[]);
        if next.is_none_or(|next| next.kept.path() != self.kept.path()) {
            self.unlink();
        }
        if let Some(Process { child, control, .. }) = self.process.take() {
            drop(control);
            reap(child);
        }
    }
}

/// Waits for the end of a process that was told to end, and kills one that does not. One that cannot be killed, because its log cannot be
/// written, has closed all else.
fn reap(mut child: Child) {
    let asked = Instant::now();
    let mut is_killed = false;
    while matches!(child.try_wait(), Ok(None)) && asked.elapsed() < 2 * SILENCE {
        if asked.elapsed() > SILENCE && !is_killed {
            let _ = child.kill();
            is_killed = true;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

impl Process {
    /// # Errors
    /// Why another one is needed.
    fn look(&mut self, page: &Page) -> Result<Condition, String> {
        let mut byte = [0; 1];
        let mut readable = Readable::<1>::new([Some(self.control.as_fd())]);
        if readable.wait(Duration::ZERO).is_ok_and(|ready| ready != 0) {
            return match message::receive(self.control.as_fd(), &mut byte, &mut []) {
                Ok(1) if byte[0] == SUCCESSOR => Ok(Condition::Successor),
                Ok(1) => Ok(Condition::Watching),
                _ => Err("it had ended".into()),
            };
        }
        let beats = page.guardian_beats();
        if beats != self.beats.0 {
            self.beats = (beats, Instant::now());
        } else if self.beats.1.elapsed() > SILENCE {
            return Err("it had stopped".into());
        }
        Ok(Condition::Watching)
    }
}

/// A data path that a shaper has left to its guardian.
#[derive(Debug)]
pub(crate) struct Left {
    pub shared: Shared,
    pub queues: [u16; 2],
    /// As the guardian was started with it.
    pub division: u8,
    /// The guardian that lets packets pass until it is replaced.
    pub guardian: OwnedFd,
    /// The path of its socket.
    pub socket: PathBuf,
}

impl Left {
    /// Takes over from the guardians of the shaper of a rules table, one for each of its threads, if there are any.
    ///
    /// # Errors
    /// When the shaper does not end, or is of another version.
    pub fn find(settings: &Settings, table: &str) -> io::Result<Vec<Self>> {
        let Some(directory) = &settings.directory else { return Ok(Vec::new()) };
        let mut guardians = Vec::new();
        // All are asked before one replies: once the shaper has ended, packets wait for a short while.
        loop {
            let socket = directory.join(socket_name(table, guardians.len())?);
            let Some(peer) = connect(&socket)?.filter(|peer| is_trusted(peer.as_fd())) else { break };
            message::send(peer.as_fd(), &[if settings.take_over { TAKE } else { TAKE_LEFT }], &[])?;
            wait_at_most(&peer, PATIENCE)?;
            guardians.push((peer, socket));
        }
        let left = guardians.into_iter().map(|(guardian, socket)| Self::receive(guardian, socket));
        Ok(left.collect::<io::Result<Option<Vec<_>>>>()?.unwrap_or_default())
    }

    /// Receives everything that a guardian has; `None` when it has ended.
    fn receive(guardian: OwnedFd, socket: PathBuf) -> io::Result<Option<Self>> {
        let (mut setup, mut descriptors) = ([0; LONGEST], [const { None }; HELD]);
        let length = match message::receive(guardian.as_fd(), &mut setup, &mut descriptors) {
            Ok(0) => return Ok(None),
            Err(error) if error.raw_os_error() == Some(libc::ECONNRESET) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::other("the shaper that runs does not end"));
            }
            other => other?,
        };
        let malformed = || io::Error::other("what the shaper has left cannot be read");
        let Kept { queues, division, .. } = Kept::decode(&setup[..length]).ok_or_else(malformed)?;
        let [Some(queue), Some(rules), Some(page), Some(state)] = descriptors else { return Err(malformed()) };
        let shared = Shared { queue, rules, page: Arc::new(Page::open(page)?), state: Arc::new(fs::File::from(state)) };
        Ok(Some(Self { shared, queues, division, guardian, socket }))
    }

    /// Ends the guardian that has let packets pass, and waits until it has: only then another one begins.
    pub fn relieve(guardian: OwnedFd) {
        let _ = message::send(guardian.as_fd(), &[REPLACED], &[]);
        let _ = message::receive(guardian.as_fd(), &mut [0; 1], &mut []);
    }
}

/// Whether the directory is there, or can be made, and files can be made in it.
fn is_there(directory: &Path) -> bool {
    let _ = fs::DirBuilder::new().mode(0o755).create(directory);
    rustix::fs::access(directory, Access::WRITE_OK).is_ok()
}

/// Opens the file to which a shaper and its guardians append their last words, or makes it.
///
/// # Errors
/// When it is no file, or the system refuses.
pub fn open_log(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut options = fs::OpenOptions::new();
    let file = options.append(true).create(true).mode(0o644).custom_flags(flags.bits() as i32).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a file")) }
}

/// A new file for what a shaper leaves to its successor.
pub(crate) fn state_file() -> io::Result<fs::File> {
    memory_file(c"tidegate-state").map(fs::File::from)
}

/// Whether the process at the other end is of this user or of root.
fn is_trusted(peer: BorrowedFd<'_>) -> bool {
    let own = rustix::process::geteuid().as_raw();
    tidegate_sys::net::peer(peer).is_ok_and(|peer| [0, own].contains(&peer.uid))
}

fn wait_at_most(socket: &OwnedFd, time: Duration) -> io::Result<()> {
    Ok(set_socket_timeout(socket, Timeout::Recv, Some(time))?)
}

fn socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

fn address(path: impl rustix::path::Arg) -> io::Result<SocketAddrUnix> {
    let too_long = |_| io::Error::other("the path of the guardian's socket is too long");
    SocketAddrUnix::new(path).map_err(too_long)
}

/// The path at which a guardian listens that is to watch later, beside the path of the one that watches; `None` where it would be
/// too long.
fn next_path(path: &CStr) -> Option<CString> {
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let mut name = OsString::from(".next");
    name.push(path.file_name()?);
    let next = path.with_file_name(name);
    CString::new(next.as_os_str().as_bytes()).ok().filter(|next| next.as_bytes().len() < message::PATH)
}

/// Listens at a path in the place of an earlier guardian. Only the owner may connect.
fn listen(path: &CStr) -> io::Result<OwnedFd> {
    let (socket, address) = (socket()?, address(path)?);
    // There may be none.
    let _ = rustix::fs::unlink(path);
    // The mode of a socket's file is that of the socket when it is bound.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, 4)?;
    Ok(socket)
}

/// Connects to a guardian's socket, if one listens.
fn connect(path: &Path) -> io::Result<Option<OwnedFd>> {
    let (socket, address) = (socket()?, address(path)?);
    match rustix::net::connect(&socket, &address) {
        Ok(()) => Ok(Some(socket)),
        // The last one: of another user. That the rules are in use is found out later.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::CONNREFUSED | Errno::ACCESS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

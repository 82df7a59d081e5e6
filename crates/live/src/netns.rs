//! Temporary network namespaces, as root and without.
//!
//! A [`Namespace`] is a file descriptor and nothing else: it has no name and no mount, so nothing of it is left when
//! its last process and its last handle are gone, also after `kill -9`. Work is done in one by a thread that enters it.
//!
//! As root a namespace can be made at once. Without, the process must first become root of a user namespace of its own,
//! and the kernel allows that only to a process with a single thread: call [`enter`] first thing in `main`, before any
//! thread exists. Tests do the same: a test target with `harness = false` has a `main` of its own (see
//! `tests/live`). [`available`] returns in advance, at any time, which way will work or exactly why none does.
//!
//! ```no_run
//! use tidegate_live::netns::{Namespace, enter};
//! enter()?;
//! let sender = Namespace::create()?;
//! let links = sender.run(|| tidegate_live::rtnl::Rtnl::open()?.links())??;
//! assert_eq!(links.len(), 1); // its own loopback
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::thread;

use rustix::process::{getegid, geteuid};
use tidegate_sys::process::Namespace as Space;
use tidegate_sys::process::{AtExec, Step, at_exec, enter_network, take, try_in_child};

/// The way in which namespaces can be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The process has `CAP_SYS_ADMIN` already.
    Privileged,
    /// Through a user namespace of its own.
    UserNamespace,
}

/// Why namespaces cannot be made here.
#[derive(Debug, thiserror::Error)]
#[error("no network namespace can be made here: {step}: {source}{advice}")]
pub struct Unavailable {
    step: &'static str,
    source: io::Error,
    advice: String,
}

const STEP_USER: &str = "a user namespace of our own (unshare)";
const STEP_MAP: &str = "becoming root in it (uid_map)";
const STEP_NET: &str = "a network namespace inside it (unshare)";

const USER: Step<'_> = Step::Unshare(Space::User);
const NETWORK: Step<'_> = Step::Unshare(Space::Network);

/// Finds out which way namespaces can be made, in a child process; nothing changes in this one.
pub fn available() -> Result<Way, Unavailable> {
    if try_in_child(&[NETWORK]).is_ok() {
        return Ok(Way::Privileged);
    }
    let maps = Maps::current();
    let [groups, users, own_groups] = maps.steps();
    try_in_child(&[USER]).map_err(|e| unavailable(STEP_USER, e))?;
    try_in_child(&[USER, groups, users, own_groups]).map_err(|e| unavailable(STEP_MAP, e))?;
    try_in_child(&[USER, groups, users, own_groups, NETWORK]).map_err(|e| unavailable(STEP_NET, e))?;
    Ok(Way::UserNamespace)
}

/// Makes this process able to create namespaces: nothing to do as root, otherwise it becomes root of a new user
/// namespace. Call it before the process has a second thread.
///
/// Afterwards files made by the process belong to the same user as before; only its own namespaces see it as root.
///
/// # Errors
/// As [`available`]; and `EINVAL` at the first step if the process has more than one thread.
pub fn enter() -> Result<Way, Unavailable> {
    if try_in_child(&[NETWORK]).is_ok() {
        return Ok(Way::Privileged);
    }
    let maps = Maps::current();
    take(&[USER]).map_err(|e| unavailable(STEP_USER, e))?;
    take(&maps.steps()).map_err(|e| unavailable(STEP_MAP, e))?;
    try_in_child(&[NETWORK]).map_err(|e| unavailable(STEP_NET, e))?;
    Ok(Way::UserNamespace)
}

/// Moves this process into a network namespace of its own in which it may configure everything, as the user it is:
/// its numbers stay the same. The capabilities end with the next `exec`, unless that user is root.
///
/// # Errors
/// As [`available`]; and `EINVAL` at the first step if the process has more than one thread.
pub fn isolate() -> Result<Way, Unavailable> {
    if take(&[NETWORK]).is_ok() {
        return Ok(Way::Privileged);
    }
    let maps = Maps::identity();
    take(&[USER]).map_err(|e| unavailable(STEP_USER, e))?;
    take(&maps.steps()).map_err(|e| unavailable(STEP_MAP, e))?;
    take(&[NETWORK]).map_err(|e| unavailable(STEP_NET, e))?;
    Ok(Way::UserNamespace)
}

/// The number that identifies `uid` in the parent of this process's user namespace; `None` if it has no such user.
///
/// NFQUEUE reports the owner of a packet in the numbers of the initial user namespace, while rules and files use those
/// of this one. As root both are the same.
pub fn outside_uid(uid: u32) -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    map.lines().find_map(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|n| n.parse::<u32>());
        let (inside, outside, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        let offset = uid.checked_sub(inside).filter(|&o| o < count)?;
        outside.checked_add(offset)
    })
}

fn unavailable(step: &'static str, source: io::Error) -> Unavailable {
    let setting = |path: &str| fs::read_to_string(path).ok().map(|t| t.trim().to_owned());
    let advice = match source.raw_os_error() {
        Some(libc::EINVAL) if step == STEP_USER => {
            "; the process already has several threads: call this first thing in main".into()
        }
        _ if setting("/proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0") => {
            "; run as root, or set kernel.unprivileged_userns_clone=1".into()
        }
        _ if setting("/proc/sys/user/max_user_namespaces").as_deref() == Some("0") => {
            "; run as root, or raise user.max_user_namespaces".into()
        }
        _ if setting("/proc/sys/user/max_net_namespaces").as_deref() == Some("0") => {
            "; raise user.max_net_namespaces".into()
        }
        _ if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") => {
            "; run as root, or set kernel.apparmor_restrict_unprivileged_userns=0".into()
        }
        _ => "; run as root, outside a container that forbids it".into(),
    };
    Unavailable { step, source, advice }
}

/// The maps by which a user is the same as before or root of its namespace.
struct Maps {
    uid: String,
    gid: String,
}

impl Maps {
    fn current() -> Self {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        Self { uid: format!("0 {uid} 1"), gid: format!("0 {gid} 1") }
    }

    fn identity() -> Self {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        Self { uid: format!("{uid} {uid} 1"), gid: format!("{gid} {gid} 1") }
    }

    /// Writes them.
    fn steps(&self) -> [Step<'_>; 3] {
        [
            // Linux before 3.19 has no such file; then the group map does not require it.
            Step::WriteIfThere(c"/proc/self/setgroups", b"deny"),
            Step::Write(c"/proc/self/uid_map", self.uid.as_bytes()),
            Step::Write(c"/proc/self/gid_map", self.gid.as_bytes()),
        ]
    }
}

/// A handle of a network namespace, which lives as long as a handle, a process or a socket inside it.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
}

impl Namespace {
    /// A new namespace with nothing in it but a loopback, which is down.
    ///
    /// # Errors
    /// `EPERM` without the right; see [`enter`].
    pub fn create() -> io::Result<Self> {
        on_thread(|| {
            take(&[NETWORK])?;
            Self::current()
        })
    }

    /// The namespace the calling thread is in.
    pub fn current() -> io::Result<Self> {
        Ok(Self { fd: fs::File::open("/proc/thread-self/ns/net")?.into() })
    }

    /// The namespace of a process.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        Ok(Self { fd: fs::File::open(format!("/proc/{pid}/ns/net"))?.into() })
    }

    /// Another handle of the same namespace.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()? })
    }

    /// The inode number, which identifies the namespace.
    pub fn id(&self) -> io::Result<u64> {
        Ok(fs::File::from(self.fd.try_clone()?).metadata()?.ino())
    }

    /// Runs `work` on a thread of its own inside the namespace and waits for it. Sockets opened there stay there,
    /// wherever they are used later.
    ///
    /// # Errors
    /// If the thread cannot be started or may not enter. A panic of `work` continues in the caller.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_thread(|| {
            self.enter_thread()?;
            Ok(work())
        })
    }

    /// Starts a thread inside the namespace.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<thread::JoinHandle<io::Result<T>>> {
        let inside = self.try_clone()?;
        thread::Builder::new().name(name.into()).spawn(move || {
            inside.enter_thread()?;
            Ok(work())
        })
    }

    /// A command that will run inside the namespace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> io::Result<Command> {
        let mut command = Command::new(program);
        at_exec(&mut command, AtExec::Enter(self.fd.try_clone()?));
        Ok(command)
    }

    /// Moves the calling thread into the namespace, for the rest of its life.
    pub fn enter_thread(&self) -> io::Result<()> {
        enter_network(self.fd.as_fd())
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn on_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let handle = thread::Builder::new().name("netns".into()).spawn_scoped(scope, work)?;
        handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

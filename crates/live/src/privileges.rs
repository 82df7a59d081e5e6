//! The privileges of the process: capabilities, system calls, and the limits of the kernel on its resources.
//!
//! [`restrict`] is called once, by the first thread before there are others, and cannot be undone. Afterwards the process
//! and the programs that it runs have the capabilities that were kept and no others, gain none by running a program
//! (`no_new_privs`), turn no memory into code, and get `EPERM` from system calls outside of [`Calls`]. A thread that exists
//! already, because it needs other privileges for a while, restricts itself ([`Scope::Thread`]).
//!
//! The capability of [`SHAPER`] is for rules, queues and links of the network namespace (`CAP_NET_ADMIN`). Real-time scheduling and locked memory need limits of resources: [`raise_limits`] sets
//! them before the capability to do so is given up. Where it may not, the capabilities for these two are needed instead.
//!
//! *Source*: capabilities(7), seccomp(2), `include/uapi/linux/capability.h`.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::nfqueue::Outcome;
use crate::timing::{Priority, granted};

mod filter;
mod limits;

pub use filter::Calls;
pub use limits::raise_limits;
pub use tidegate_sys::process::Scope;

/// A set of capabilities.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Capabilities(u64);

impl Capabilities {
    /// No capability.
    pub const NONE: Self = Self(0);
    /// Files of other users: writing.
    pub const DAC_OVERRIDE: Self = Self(1 << 1);
    /// Files of other users: reading.
    pub const DAC_READ_SEARCH: Self = Self(1 << 2);
    /// Ports below 1024.
    pub const NET_BIND_SERVICE: Self = Self(1 << 10);
    /// Rules, queues and links.
    pub const NET_ADMIN: Self = Self(1 << 12);
    /// Sockets bound to an interface, before Linux 5.7.
    pub const NET_RAW: Self = Self(1 << 13);
    /// Locked memory beyond the limit.
    pub const IPC_LOCK: Self = Self(1 << 14);
    /// Real-time scheduling beyond the limit.
    pub const SYS_NICE: Self = Self(1 << 23);
    /// Looking into other processes.
    pub const SYS_PTRACE: Self = Self(1 << 19);
    /// Programs in BPF that read what they are given by the kernel.
    pub const PERFMON: Self = Self(1 << 38);
    /// Programs in BPF.
    pub const BPF: Self = Self(1 << 39);

    /// Whether all of `other` are in this set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names, as `CAP_NET_ADMIN`, in the order of the kernel.
    pub fn names(self) -> Vec<String> {
        (0..64).filter(|bit| self.0 >> bit & 1 == 1).map(name).collect()
    }
}

impl std::ops::BitOr for Capabilities {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.names().as_slice() {
            [] => f.write_str("none"),
            names => f.write_str(&names.join(" ")),
        }
    }
}

/// The capabilities of a process that shapes.
pub const SHAPER: Capabilities = Capabilities::NET_ADMIN;

/// The capabilities of a thread that loads queueing disciplines in BPF.
pub const LOADER: Capabilities =
    Capabilities(Capabilities::NET_ADMIN.0 | Capabilities::PERFMON.0 | Capabilities::BPF.0);

/// Names by number; a later kernel may have more.
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

fn name(bit: u32) -> String {
    match NAMES.get(bit as usize) {
        Some(name) => format!("CAP_{name}"),
        None => format!("CAP_{bit}"),
    }
}

/// The privileges that a process keeps, or a thread of it.
#[derive(Clone, Copy, Debug)]
pub struct Restriction<'a> {
    /// The capabilities that it keeps of those that it has.
    pub keep: Capabilities,
    /// The system calls that it keeps.
    pub calls: Calls<'a>,
    /// The process, whose only thread calls; or the calling thread and those that it starts, while others restrict themselves.
    pub scope: Scope,
}

/// The result of each part of a restriction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restricted {
    /// The process has no other capability.
    pub capabilities: Outcome,
    /// The programs that it runs have no other either. Without this `no_new_privs` keeps them from gaining any.
    pub bounding_set: Outcome,
    /// No program that it runs gains privileges by being run.
    pub no_new_privs: Outcome,
    /// No memory becomes code (Linux 6.3).
    pub no_new_code: Outcome,
    /// System calls are filtered.
    pub calls: Outcome,
}

/// Restricts the process or thread for good. Parts that the kernel refuses are reported; the others are in force.
///
/// Capabilities are those of a thread: it must be the only one, or each restricts itself. That no memory becomes code is in force for
/// the whole process in either case. The programs that it runs inherit everything but the
/// refusal of new code.
pub fn restrict(restriction: &Restriction<'_>) -> Restricted {
    let bounding_set = drop_bounding_set(restriction.keep);
    let capabilities = granted(keep_only(restriction.keep, restriction.scope));
    // A kernel that refuses it has none, since none is inheritable.
    let _ = rustix::thread::clear_ambient_capability_set();
    Restricted {
        capabilities,
        bounding_set,
        no_new_privs: granted(rustix::thread::set_no_new_privs(true)),
        no_new_code: granted(tidegate_sys::process::refuse_new_code()),
        calls: granted(filter::install(&restriction.calls, restriction.scope)),
    }
}

/// The capabilities that a shaper needs beside [`SHAPER`] to read and write these files, to bind probes to an interface on
/// this kernel, and to be scheduled by `priority` within the limits that [`raise_limits`] has left. Found out by trying each
/// file without privileges.
///
/// A file that does not exist yet is looked for by its directory. The calling thread loses its privileges while this
/// runs.
///
/// # Errors
/// When the thread cannot change its capabilities; nothing has changed then.
pub fn needed(reads: &[&Path], writes: &[&Path], priority: Priority) -> io::Result<Capabilities> {
    let [effective, permitted] = capabilities_of_thread()?;
    set_capabilities(Capabilities(effective.0 & SHAPER.0), permitted)?;
    let mut needed = limits::needed(priority);
    if reads.iter().any(|path| is_denied(path, Access::READ_OK)) {
        needed = needed | Capabilities::DAC_READ_SEARCH;
    }
    let denied = |path: &&Path| match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            is_denied(parent, Access::WRITE_OK | Access::EXEC_OK)
        }
        _ => is_denied(path, Access::WRITE_OK),
    };
    if writes.iter().any(denied) {
        needed = needed | Capabilities::DAC_OVERRIDE;
    }
    if binding_to_an_interface_is_denied() {
        needed = needed | Capabilities::NET_RAW;
    }
    set_capabilities(effective, permitted)?;
    Ok(needed)
}

/// Whether the effective user is refused access for lack of a permission, and not because there is no such file.
fn is_denied(path: &Path, mode: Access) -> bool {
    matches!(rustix::fs::accessat(CWD, path, mode, AtFlags::EACCESS), Err(Errno::ACCESS | Errno::PERM))
}

fn binding_to_an_interface_is_denied() -> bool {
    let Ok(socket) = std::net::UdpSocket::bind("127.0.0.1:0") else { return false };
    let bound = tidegate_sys::net::bind_to_interface(&socket, "lo");
    bound.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
}

/// The privileges of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Privileges {
    /// The capabilities that any of its threads has or can take.
    pub capabilities: Capabilities,
    /// The capabilities that a program which any of them runs can have.
    pub bounding_set: Capabilities,
    /// Whether no thread gains privileges by running a program.
    pub no_new_privs: bool,
    /// Whether system calls of every thread are filtered.
    pub filtered: bool,
}

impl Privileges {
    /// Reads the privileges of this process, of all threads together.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn in_force() -> io::Result<Self> {
        let mut all = Self { no_new_privs: true, filtered: true, ..Self::default() };
        for thread in fs::read_dir("/proc/self/task")? {
            // A thread that has ended meanwhile has none.
            let Ok(status) = fs::read_to_string(thread?.path().join("status")) else { continue };
            let one = Self::parse(&status).ok_or(io::ErrorKind::InvalidData)?;
            all.capabilities = all.capabilities | one.capabilities;
            all.bounding_set = all.bounding_set | one.bounding_set;
            all.no_new_privs &= one.no_new_privs;
            all.filtered &= one.filtered;
        }
        Ok(all)
    }

    /// From the `status` of a thread in `/proc`.
    pub fn parse(status: &str) -> Option<Self> {
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        let set = |name| Some(Capabilities(u64::from_str_radix(field(name)?, 16).ok()?));
        Some(Self {
            capabilities: set("CapPrm")? | set("CapEff")?,
            bounding_set: set("CapBnd")?,
            no_new_privs: field("NoNewPrivs")? == "1",
            // A kernel without seccomp has no such field.
            filtered: field("Seccomp").is_some_and(|mode| mode == "2"),
        })
    }
}

/// Drops every other capability of the calling thread.
fn keep_only(keep: Capabilities, scope: Scope) -> io::Result<()> {
    let [_, permitted] = capabilities_of_thread()?;
    let kept = Capabilities(permitted.0 & keep.0);
    set_capabilities(kept, kept)?;
    match (scope, fs::read_dir("/proc/self/task")?.count()) {
        (Scope::Thread, _) | (Scope::Process, 1) => Ok(()),
        (Scope::Process, threads) => {
            Err(io::Error::other(format!("{} threads that exist already keep theirs", threads - 1)))
        }
    }
}

fn drop_bounding_set(keep: Capabilities) -> Outcome {
    for bit in (0..64).filter(|bit| keep.0 >> bit & 1 == 0) {
        match rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            // Beyond the last capability of this kernel.
            Err(Errno::INVAL) => break,
            Err(error) => return granted(Err(error)),
            Ok(()) => {}
        }
    }
    Outcome::InForce
}

/// The effective and the permitted capabilities of the calling thread.
fn capabilities_of_thread() -> io::Result<[Capabilities; 2]> {
    let sets = rustix::thread::capabilities(None)?;
    Ok([sets.effective, sets.permitted].map(|set| Capabilities(set.bits())))
}

/// Sets the effective and the permitted capabilities of the calling thread; no program inherits any.
fn set_capabilities(effective: Capabilities, permitted: Capabilities) -> io::Result<()> {
    let [effective, permitted, inheritable] =
        [effective, permitted, Capabilities::NONE].map(|set| CapabilitySet::from_bits_retain(set.0));
    Ok(rustix::thread::set_capabilities(None, CapabilitySets { effective, permitted, inheritable })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_thread_is_read() {
        let status = "Name:\tx\nCapInh:\t0\nCapPrm:\t0000000000081000\nCapEff:\t0000000000001000\n\
            CapBnd:\t000001ffffffffff\nCapAmb:\t0\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let read = Privileges::parse(status).unwrap();
        let both = Capabilities::NET_ADMIN | Capabilities::SYS_PTRACE;
        assert_eq!((read.capabilities, read.no_new_privs, read.filtered), (both, true, true));
        assert_eq!(read.capabilities.to_string(), "CAP_NET_ADMIN CAP_SYS_PTRACE");
        assert_eq!(read.bounding_set.names().len(), NAMES.len());
        assert_eq!(Privileges::parse("CapPrm: 1"), None);
        assert_eq!(
            (Capabilities::NONE.to_string(), Capabilities(1 << 60).to_string()),
            ("none".into(), "CAP_60".into())
        );
        assert!(Privileges::in_force().unwrap().bounding_set.contains(Capabilities::NONE));
    }

    #[test]
    fn files_that_anybody_may_use_need_nothing() {
        let open = [Path::new("/proc/self/status"), Path::new("/no/such/file")];
        let writable = std::env::temp_dir().join("not yet");
        let found = needed(&open, &[Path::new("/dev/null"), &writable], Priority::RealTime).unwrap();
        assert!(
            !found.contains(Capabilities::DAC_OVERRIDE) && !found.contains(Capabilities::DAC_READ_SEARCH),
            "{found}"
        );
    }
}

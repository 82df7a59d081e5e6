//! A small process that reads which sockets other processes hold.
//!
//! The sockets of another user's process are readable with `CAP_SYS_PTRACE` alone, and with it `/proc/PID/mem` is writable: a
//! mistake in whatever has it takes over every process of the machine. So the daemon gives it up, and asks this process, which
//! does nothing else: it opens files for reading only, and has no other privilege, neither sockets nor programs.
//!
//! *Protocol*, over a stream of its own, in the byte order of the machine: the number of a process (4 bytes); in reply the number of
//! an error of the system or 0 (4), how many sockets follow (4), and the inode of each (8).

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use tidegate_live::nfqueue::Outcome;
use tidegate_live::privileges::{Calls, Capabilities, Restriction, Scope, restrict};

use super::owners::Inodes;

/// The time within which the process must reply.
const PATIENCE: Duration = Duration::from_secs(2);
/// The maximum number of sockets in a reply.
const SOCKETS: usize = 65_536;

/// The process, seen from the daemon. It ends when this is dropped.
#[derive(Debug)]
pub struct Lookup {
    stream: Option<UnixStream>,
    child: Child,
}

impl Lookup {
    /// Starts `program`, which calls [`serve`] when it is started with `argument`. Must be called while this process still has
    /// `CAP_SYS_PTRACE`.
    ///
    /// # Errors
    /// When the program cannot be started, or cannot restrict itself.
    pub fn start(program: &Path, argument: &str) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE * 5))?;
        ours.set_write_timeout(Some(PATIENCE))?;
        let child = Command::new(program)
            .arg(argument)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut lookup = Self { stream: Some(ours), child };
        let ready = lookup.reply()?;
        lookup.stream.as_ref().map_or(Ok(()), |stream| stream.set_read_timeout(Some(PATIENCE)))?;
        if ready.is_empty() { Ok(lookup) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// The inodes of the sockets that a process holds.
    ///
    /// # Errors
    /// When there is no such process, or it may not be looked into; or when the process that looks is gone.
    pub fn held(&mut self, pid: u32) -> io::Result<Vec<u64>> {
        let Some(stream) = &mut self.stream else {
            let text = "the process that reads the sockets of others has ended; start tidegate again";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        };
        let asked = stream.write_all(&pid.to_ne_bytes());
        let outcome = asked.and_then(|()| self.reply());
        // After an incomplete reply the next one could be taken for that of another process.
        if outcome.as_ref().is_err_and(|error| error.raw_os_error().is_none()) {
            self.stream = None;
        }
        outcome
    }

    fn reply(&mut self) -> io::Result<Vec<u64>> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut number = || -> io::Result<u32> {
            let mut bytes = [0; 4];
            stream.read_exact(&mut bytes).map_err(incomplete)?;
            Ok(u32::from_ne_bytes(bytes))
        };
        let (error, count) = (number()?, number()? as usize);
        if count > SOCKETS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; count * 8];
        stream.read_exact(&mut bytes).map_err(incomplete)?;
        match error {
            0 => Ok(bytes.as_chunks().0.iter().map(|inode| u64::from_ne_bytes(*inode)).collect()),
            error => Err(io::Error::from_raw_os_error(error as i32)),
        }
    }
}

/// An error of the stream, which must not be taken for one that the process replied.
fn incomplete(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), "the process that reads the sockets of others does not reply")
}

impl Drop for Lookup {
    fn drop(&mut self) {
        self.stream = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the process at the other end of standard input, until the daemon ends.
///
/// # Errors
/// When standard input is not the stream of a daemon, or the process cannot give up its privileges.
pub fn serve() -> io::Result<()> {
    let mut stream = UnixStream::from(rustix::io::dup(io::stdin())?);
    stream.peer_addr().map_err(|_| io::Error::other("it is started by `tidegate run`, not by hand"))?;
    // A terminal or a service manager signals all processes; this one ends with the daemon.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"tidegate-lookup");
    let inodes = Inodes::new()?;
    let restricted =
        restrict(&Restriction { keep: Capabilities::SYS_PTRACE, calls: Calls::ReadFiles, scope: Scope::Process });
    for outcome in [&restricted.capabilities, &restricted.no_new_privs, &restricted.calls] {
        if let Outcome::Refused(why) = outcome {
            return Err(io::Error::other(why.clone()));
        }
    }
    stream.write_all(&[0; 8])?;
    loop {
        let mut pid = [0; 4];
        match stream.read_exact(&mut pid) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
        let (error, held) = match inodes.held(u32::from_ne_bytes(pid)) {
            Ok(held) => (0, held),
            Err(error) => (error.raw_os_error().unwrap_or(Errno::PERM.raw_os_error()), Vec::new()),
        };
        let held = &held[..held.len().min(SOCKETS)];
        let mut reply = Vec::with_capacity(8 + held.len() * 8);
        reply.extend(error.to_ne_bytes());
        reply.extend((held.len() as u32).to_ne_bytes());
        reply.extend(held.iter().flat_map(|inode| inode.to_ne_bytes()));
        stream.write_all(&reply)?;
    }
}

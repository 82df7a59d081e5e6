//! The listening socket: its path, its mode, and its removal at the end.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags, flock, open, renameat_with};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tidegate_control as control;
use tidegate_engine::guard::lock;

/// The most connections that wait to be accepted: what one of root waits behind, when others make them without end.
const WAITING: i32 = 128;
/// How long a connection to another daemon waits for a place in the queue of its socket.
const PATIENCE: Duration = Duration::from_secs(2);

/// Errors of making the control socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another daemon listens there.
    #[error("another tidegate is running: it listens at {}; stop it, or choose another path with --control", .0.display())]
    Living(PathBuf),
    /// A file of another type has this name.
    #[error("{} exists and is not a socket; choose another path with --control", .0.display())]
    NotASocket(PathBuf),
    /// Its path does not fit into the address of a socket.
    #[error("the path {} is too long for a socket, which takes 107 bytes; choose a shorter one with --control", .0.display())]
    TooLong(PathBuf),
    /// No file can be made in its directory.
    #[error(
        "no file can be made in {}: {source}; make it writable for tidegate, choose a path in another directory with --control, \
         or do without the socket by --control off",
        .directory.display()
    )]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The system refused.
    #[error("cannot {operation} {}: {source}", .path.display())]
    System {
        /// The operation that failed.
        operation: &'static str,
        /// The path that was requested.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// No directory for sockets can be made.
    #[error("its directory does not exist: {0}; choose a path with --control")]
    NoDirectory(String),
}

/// A listening socket in the file system; dropping it removes the file.
#[derive(Debug)]
pub struct Listening {
    path: Mutex<PathBuf>,
    /// Whether its name is that of an interface, and the direction that the name may have.
    by_interface: Option<Option<&'static str>>,
    identity: (u64, u64),
    listener: UnixListener,
    /// That it cannot be made again was reported.
    is_lost: AtomicBool,
}

impl Listening {
    /// Listens at `path`. A socket of a process that has ended is replaced.
    pub fn at(path: &Path, mode: u32) -> Result<Self, SocketError> {
        let failed =
            |operation| move |source: io::Error| SocketError::System { operation, path: path.to_owned(), source };
        let _lock = Lock::take(path)?;
        let address = SocketAddrUnix::new(path).map_err(|_| SocketError::TooLong(path.to_owned()))?;
        match fs::symlink_metadata(path) {
            Ok(metadata) if !metadata.file_type().is_socket() => return Err(SocketError::NotASocket(path.to_owned())),
            Ok(_) => match net::connect(&socket().map_err(failed("make a socket for"))?, &address) {
                Err(rustix::io::Errno::CONNREFUSED) => {
                    fs::remove_file(path).map_err(failed("replace the socket of a process that is gone,"))?;
                }
                _ => return Err(SocketError::Living(path.to_owned())),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("look at")(error)),
        }
        let listener = socket().map_err(failed("make a socket for"))?;
        net::bind(&listener, &address).map_err(io::Error::from).map_err(failed("make the socket"))?;
        // The mode is right before anybody can connect.
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed("set the mode of"))?;
        net::listen(&listener, WAITING).map_err(io::Error::from).map_err(failed("listen at"))?;
        let metadata = fs::symlink_metadata(path).map_err(failed("look at"))?;
        Ok(Self {
            path: Mutex::new(path.to_owned()),
            by_interface: None,
            identity: identity(&metadata),
            listener: listener.into(),
            is_lost: AtomicBool::new(false),
        })
    }

    /// The socket again, if its file was removed.
    ///
    /// # Errors
    /// When it cannot be made, once.
    pub fn again(&self, mode: u32) -> Result<Option<Self>, SocketError> {
        let path = self.path();
        if fs::symlink_metadata(&path).is_ok() {
            return Ok(None);
        }
        if let (Some(_), Some(directory)) = (self.by_interface, path.parent()) {
            // Where it cannot be made, neither can the socket.
            let _ = fs::DirBuilder::new().mode(0o755).create(directory);
        }
        match Self::at(&path, mode) {
            Ok(mut again) => {
                again.by_interface = self.by_interface;
                Ok(Some(again))
            }
            Err(_) if self.is_lost.swap(true, Ordering::Relaxed) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks that files can be made where [`at`](Self::at) would make the socket: its lock is made and removed.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn check(path: &Path) -> Result<(), SocketError> {
        Lock::take(path).map(drop)
    }

    /// Like [`check`](Self::check), for [`for_interface`](Self::for_interface).
    ///
    /// # Errors
    /// When the system refuses, or there is no directory for sockets.
    pub fn check_for_interface(interface: &str) -> Result<(), SocketError> {
        in_a_directory(|directory| Self::check(&directory.join(control::file_name(interface, None))))
    }

    /// Listens where clients look for the daemon of `interface`; `direction` is the one that it shapes, if it is one.
    pub fn for_interface(interface: &str, direction: Option<&'static str>, mode: u32) -> Result<Self, SocketError> {
        in_a_directory(|directory| {
            // A plain name is for the first. The other direction of the same interface has a name of its own, and so has
            // an interface of the same name in another namespace.
            let [long, plain] = control::candidates(directory, interface);
            let mut listening = match Self::at(&plain, mode) {
                Err(SocketError::Living(_)) => match direction.filter(|_| is_of_this_namespace(&plain)) {
                    Some(direction) => Self::at(&directory.join(control::direction_name(interface, direction)), mode),
                    None => Self::at(&long, mode),
                },
                other => other,
            }?;
            listening.by_interface = Some(direction);
            Ok(listening)
        })
    }

    /// Renames the socket after its interface was renamed to `interface`. One with a path of its own keeps it, and so does
    /// one for which no name is free.
    ///
    /// # Errors
    /// When the system refuses; the path is unchanged then.
    pub fn follow(&self, interface: &str) -> Result<(), SocketError> {
        let mut path = lock(&self.path);
        let (Some(directory), Some(direction)) = (path.parent(), self.by_interface) else { return Ok(()) };
        let [long, plain] = control::candidates(directory, interface);
        let of_direction = direction.map(|direction| directory.join(control::direction_name(interface, direction)));
        for new in [Some(plain), of_direction, Some(long)].into_iter().flatten() {
            match renameat_with(CWD, &*path, CWD, &new, RenameFlags::NOREPLACE) {
                Ok(()) => {
                    *path = new;
                    return Ok(());
                }
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => {
                    return Err(SocketError::System {
                        operation: "move the socket to",
                        path: new,
                        source: error.into(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Sets the mode of the file, which decides who may connect from now on.
    ///
    /// # Errors
    /// When the system refuses, or something else has its name; nothing has changed then.
    pub fn set_mode(&self, mode: u32) -> Result<(), SocketError> {
        let path = self.path();
        let failed = |source| SocketError::System { operation: "set the mode of", path: path.clone(), source };
        let metadata = fs::symlink_metadata(&path).map_err(failed)?;
        if identity(&metadata) != self.identity {
            return Err(SocketError::Living(path));
        }
        if metadata.mode() & 0o7777 == mode {
            return Ok(());
        }
        fs::set_permissions(&path, Permissions::from_mode(mode)).map_err(failed)
    }

    /// The path of the socket.
    pub fn path(&self) -> PathBuf {
        lock(&self.path).clone()
    }
    /// The socket, nonblocking.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

/// Calls `make` with each directory in which clients look for sockets, until one of them lets this process make files.
fn in_a_directory<T>(make: impl Fn(&Path) -> Result<T, SocketError>) -> Result<T, SocketError> {
    let mut refused = Vec::new();
    for directory in control::directories() {
        let parent = directory.parent().is_some_and(Path::exists);
        let made = fs::DirBuilder::new().mode(0o755).create(&directory);
        if let Err(error) = made
            && (error.kind() != io::ErrorKind::AlreadyExists || !parent)
        {
            refused.push(format!("{}: {error}", directory.display()));
            continue;
        }
        match make(&directory) {
            Err(SocketError::System { source, .. } | SocketError::Directory { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                refused.push(format!("{}: {source}", directory.display()));
            }
            outcome => return outcome,
        }
    }
    Err(SocketError::NoDirectory(refused.join("; ")))
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// While this is held, others that make the same socket wait, and see the first afterwards. The lock is on a file that no
/// other user may open, since every process that can open a file can lock it.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    fn take(socket: &Path) -> Result<Self, SocketError> {
        let name = socket.file_name().unwrap_or_default().to_string_lossy();
        let path = socket.with_file_name(format!(".{name}.lock"));
        let failed = |source: io::Error| SocketError::System { operation: "make the lock", path: path.clone(), source };
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = match open(&path, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => File::from(file),
                // A symbolic link, which somebody has put there.
                Err(error @ rustix::io::Errno::LOOP) => return Err(failed(error.into())),
                Err(error) => {
                    let directory = path.parent().unwrap_or(Path::new(".")).to_owned();
                    return Err(SocketError::Directory { directory, source: error.into() });
                }
            };
            let metadata = file.metadata().map_err(failed)?;
            if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
                let text = "others can open it; remove it";
                return Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, text)));
            }
            flock(&file, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
            // The process that had the lock before has removed its file.
            if fs::symlink_metadata(&path).is_ok_and(|found| identity(&found) == identity(&metadata)) {
                return Ok(Self { path, _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A nonblocking stream socket.
fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Connects to the daemon that listens at `path`, whose queue of connections may be full because it is stopped.
fn connect(path: &Path) -> io::Result<OwnedFd> {
    let (address, begun) = (SocketAddrUnix::new(path)?, Instant::now());
    loop {
        let stream = socket()?;
        match net::connect(&stream, &address) {
            Ok(()) => return Ok(stream),
            Err(rustix::io::Errno::AGAIN) if begun.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether the daemon that listens at `path` is in the network namespace of this process. One that does not accept
/// connections counts as one of another namespace.
fn is_of_this_namespace(path: &Path) -> bool {
    let peer = connect(path).ok().and_then(|stream| tidegate_sys::net::peer(&stream).ok());
    let namespace = |process: &str| fs::metadata(format!("/proc/{process}/ns/net")).ok().map(|metadata| metadata.ino());
    let theirs = peer.and_then(|peer| namespace(&peer.pid.to_string()));
    theirs.is_some() && theirs == namespace("thread-self")
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Unless another socket has replaced it.
        let ours = |metadata: fs::Metadata| identity(&metadata) == self.identity;
        let path = self.path();
        if fs::symlink_metadata(&path).is_ok_and(ours) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    #[test]
    fn a_lock_on_the_directory_keeps_nobody_waiting() {
        let directory = directory("locked");
        let held = File::open(&directory).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        let (path, lock) = (directory.join("eth0.sock"), directory.join(".eth0.sock.lock"));
        let (made, is_made) = std::sync::mpsc::channel();
        let at = path.clone();
        thread::spawn(move || made.send(Listening::at(&at, 0o666)));
        let listening = is_made.recv_timeout(Duration::from_secs(60)).expect("it waits for the lock").unwrap();
        assert!(!lock.exists());
        drop(listening);
        // One that others might have locked is not waited for, either.
        fs::write(&lock, "").unwrap();
        fs::set_permissions(&lock, Permissions::from_mode(0o644)).unwrap();
        let refused = Listening::at(&path, 0o666).unwrap_err().to_string();
        assert!(refused.contains("others can open"), "{refused}");
        fs::remove_file(&lock).unwrap();
        std::os::unix::fs::symlink("/etc/hosts", &lock).unwrap();
        assert!(Listening::at(&path, 0o666).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_daemon_that_accepts_no_connection_is_not_waited_for() {
        let directory = directory("full");
        let path = directory.join("eth0.sock");
        let full = socket().unwrap();
        net::bind(&full, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        net::listen(&full, 0).unwrap();
        let listens = |path: &Path| {
            let (path, (sender, receiver)) = (path.to_owned(), std::sync::mpsc::channel());
            thread::spawn(move || sender.send(is_of_this_namespace(&path)));
            receiver.recv_timeout(Duration::from_secs(60)).expect("it waits for a place in the queue")
        };
        assert!(listens(&path), "there is a place in the queue, and this process listens");
        // That connection has the place until it is accepted.
        assert!(!listens(&path));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn of_many_that_start_at_once_one_listens() {
        let directory = directory("many");
        let path = directory.join("eth0.sock");
        let begin = std::sync::Barrier::new(8);
        for _ in 0..200 {
            // It was left by a process that is gone, so that each of them would remove it.
            drop(UnixListener::bind(&path).unwrap());
            let start = || {
                begin.wait();
                Listening::at(&path, 0o666)
            };
            let all: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(all.iter().filter(|one| one.is_ok()).count(), 1, "{all:?}");
            UnixStream::connect(&path).unwrap();
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "nothing is left behind");
        fs::remove_dir(&directory).unwrap();
    }

    #[test]
    fn the_socket_of_an_interface_follows_its_name() {
        let directory = directory("socket");
        let name = |interface: &str| directory.join(control::file_name(interface, None));
        let at = |interface: &str| Listening::at(&name(interface), 0o666).unwrap();
        let mut listening = at("eth0");
        listening.by_interface = Some(Some("up"));
        listening.follow("wan0").unwrap();
        assert_eq!((listening.path(), name("eth0").exists()), (name("wan0"), false));
        UnixStream::connect(name("wan0")).unwrap();
        // A name that is taken stays whose it is.
        let other = at("lan0");
        listening.follow("lan0").unwrap();
        assert_ne!(listening.path(), other.path());
        UnixStream::connect(listening.path()).unwrap();
        // One with a path of its own stays.
        other.follow("eth0").unwrap();
        assert_eq!(other.path(), name("lan0"));
        drop((listening, other));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "nothing is left behind");
        fs::remove_dir(&directory).unwrap();
    }
}

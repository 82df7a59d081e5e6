//! The path of a control socket: in a directory of the system or of the user, named after the interface.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::client::Client;
use crate::protocol::DIRECTORY;
use crate::words;

/// The specification of a socket.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// The only one that exists.
    #[default]
    Any,
    /// The socket of an interface.
    Interface(String),
    /// The path of a socket.
    Path(PathBuf),
}

/// Errors of finding a socket.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlaceError {
    /// No daemon has a socket.
    #[error(
        "no tidegate is running here: {looked}; start one with `tidegate run FILE`, or name its socket by --control"
    )]
    Nothing {
        /// The paths that were tried.
        looked: String,
    },
    /// Several daemons have one.
    #[error("several tidegates are running: {}; choose one by --interface or --control", .0.join(", "))]
    Several(Vec<String>),
}

/// Returns the directories of sockets, the preferred one first: that of the system, then that of the user. The latter counts only
/// where it and `$XDG_RUNTIME_DIR` are of this user or of root and not writable for everybody, so that the environment of another
/// user leads nobody to a daemon of theirs.
pub fn directories() -> Vec<PathBuf> {
    let user = std::env::var_os("XDG_RUNTIME_DIR").and_then(|base| of_user(Path::new(&base)));
    std::iter::once(PathBuf::from(DIRECTORY)).chain(user).collect()
}

fn of_user(base: &Path) -> Option<PathBuf> {
    let own = effective_user()?;
    let is_ours = |path: &Path| {
        let data = fs::symlink_metadata(path)?;
        Ok(data.is_dir() && [0, own].contains(&data.uid()) && data.mode() & 0o002 == 0)
    };
    let directory = base.join("tidegate");
    let is_absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let is_trusted = is_ours(base).unwrap_or(false) && is_ours(&directory).unwrap_or_else(|error| is_absent(&error));
    is_trusted.then_some(directory)
}

/// The effective user of this thread, without a library of system calls.
fn effective_user() -> Option<u32> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the file name of the socket of `interface`: plain, or with the number of the network namespace where another
/// namespace has an interface of the same name.
pub fn file_name(interface: &str, namespace: Option<u64>) -> String {
    match namespace {
        Some(namespace) => format!("{interface}@{namespace}.sock"),
        None => format!("{interface}.sock"),
    }
}

/// Returns the file name of the socket of one direction of `interface`, where another daemon shapes the other direction
/// and has the plain name.
pub fn direction_name(interface: &str, direction: &str) -> String {
    format!("{interface}.{direction}.sock")
}

/// Returns the possible paths of the socket of `interface` in `directory`, the preferred one first.
pub fn candidates(directory: &Path, interface: &str) -> [PathBuf; 2] {
    [directory.join(file_name(interface, own_namespace())), directory.join(file_name(interface, None))]
}

/// The number of the network namespace of this process.
pub fn own_namespace() -> Option<u64> {
    fs::metadata("/proc/thread-self/ns/net").ok().map(|metadata| metadata.ino())
}

impl Place {
    /// Returns the paths of all sockets that this may mean: of an interface both, where each direction has a daemon. Of any
    /// those of this network namespace, and those whose daemon died and left its last words; where there are none, all.
    ///
    /// # Errors
    /// When there is none.
    pub fn find_all(&self) -> Result<Vec<PathBuf>, PlaceError> {
        let directories = directories();
        let mut found: Vec<PathBuf> = match self {
            Self::Path(_) => vec![self.find()?],
            Self::Interface(interface) => {
                let of_direction = |directory: &PathBuf| {
                    ["up", "down"].map(|direction| directory.join(direction_name(interface, direction)))
                };
                let others = directories.iter().flat_map(of_direction).filter(|path| path.exists());
                self.find().ok().into_iter().chain(others).collect()
            }
            Self::Any => {
                let all = directories.iter().flat_map(|directory| sockets(directory)).collect();
                prefer(all, |path| is_own(path).or_else(|| left_by_own(path)))
            }
        };
        found.dedup();
        if found.is_empty() { self.find().map(|path| vec![path]) } else { Ok(found) }
    }

    /// Returns the path of the socket. Of several daemons the one of this network namespace is meant.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn find(&self) -> Result<PathBuf, PlaceError> {
        match self {
            Self::Path(path) => Ok(path.clone()),
            Self::Interface(interface) => {
                let directories = directories();
                let all = directories.iter().flat_map(|directory| candidates(directory, interface));
                served(all.filter(|path| path.exists()).collect()).ok_or_else(|| PlaceError::Nothing {
                    looked: format!("there is no {} in {}", file_name(interface, None), listed(&directories)),
                })
            }
            Self::Any => {
                let directories = directories();
                let all = directories.iter().flat_map(|directory| sockets(directory));
                let (found, stale): (Vec<_>, Vec<_>) = all.partition(|path| is_served(path));
                match &prefer(found, is_own)[..] {
                    [] => Err(PlaceError::Nothing { looked: nothing(&directories, &stale) }),
                    [only] => Ok(only.clone()),
                    several => {
                        Err(PlaceError::Several(several.iter().map(|path| path.display().to_string()).collect()))
                    }
                }
            }
        }
    }
}

fn listed(directories: &[PathBuf]) -> String {
    directories.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" nor in ")
}

/// Describes the sockets at which no process listens.
fn nothing(directories: &[PathBuf], stale: &[PathBuf]) -> String {
    match stale {
        [] => format!("there is no socket in {}", listed(directories)),
        _ => {
            let paths: Vec<_> = stale.iter().map(|path| path.display().to_string()).collect();
            format!(
                "nothing listens at {}, whose process was killed (`tidegate status` shows its last words)",
                paths.join(", ")
            )
        }
    }
}

/// The sockets in a directory.
fn sockets(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "sock")).collect();
    found.sort();
    found
}

/// The sockets of daemons of this network namespace, where `is_own` knows of any, else all. A single one is not asked about.
fn prefer(paths: Vec<PathBuf>, is_own: impl Fn(&Path) -> Option<bool>) -> Vec<PathBuf> {
    if paths.len() < 2 {
        return paths;
    }
    let own: Vec<PathBuf> = paths.iter().filter(|path| is_own(path) == Some(true)).cloned().collect();
    if own.is_empty() { paths } else { own }
}

/// Whether the daemon that listens at `path` is in the network namespace of this process; `None` where none answers. It is asked,
/// since an ordinary user cannot look up the namespace of a process of another user.
fn is_own(path: &Path) -> Option<bool> {
    let status = Client::connect_within(path, Duration::from_millis(500)).ok()?.status().ok()?;
    Some(status.network_namespace? == own_namespace()?)
}

/// Whether a daemon has left its socket at `path`, and its last words beside it.
fn left_by_own(path: &Path) -> Option<bool> {
    words::log_of(path).exists().then_some(true)
}

/// The first of these sockets at which a process listens; where none does, the first, whose daemon was killed. A single one is not
/// asked.
fn served(mut paths: Vec<PathBuf>) -> Option<PathBuf> {
    let at = if paths.len() > 1 { paths.iter().position(|path| is_served(path)).unwrap_or(0) } else { 0 };
    (at < paths.len()).then(|| paths.swap_remove(at))
}

/// Whether a process listens on a socket. One without permission to connect counts too, and one that is stopped.
fn is_served(path: &Path) -> bool {
    match crate::client::connect(path) {
        Ok(_) => true,
        Err(error) => matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::TimedOut),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_whose_process_was_killed_is_named() {
        let directory = std::env::temp_dir().join(format!("tidegate-place-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let directories = [directory.clone()];
        assert!(nothing(&directories, &sockets(&directory)).contains("there is no socket in"));
        let path = directory.join("eth0.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(is_served(&path));
        // Dropping the listener leaves its file, as a kill does.
        drop(listener);
        assert!(!is_served(&path));
        let said = nothing(&directories, &sockets(&directory));
        let wanted =
            format!("nothing listens at {}, whose process was killed (`tidegate status` shows", path.display());
        assert!(said.starts_with(&wanted), "{said}");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_socket_of_a_killed_daemon_does_not_hide_one_that_listens() {
        let folder = std::env::temp_dir().join(format!("tidegate-stale-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [stale, lives] = ["eth0@7.sock", "eth0.sock"].map(|name| folder.join(name));
        drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
        let listener = std::os::unix::net::UnixListener::bind(&lives).unwrap();
        let both = || vec![stale.clone(), lives.clone()];
        assert_eq!(served(both()), Some(lives.clone()));
        drop(listener);
        // The last words of the preferred one are shown.
        assert_eq!(served(both()), Some(stale.clone()));
        assert_eq!(served(Vec::new()), None);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_directory_in_which_others_may_write_leads_nowhere() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        let base = std::env::temp_dir().join(format!("tidegate-others-{}", std::process::id()));
        let directory = base.join("tidegate");
        fs::create_dir_all(&directory).unwrap();
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        for path in [&base, &directory] {
            open(path, 0o755);
        }
        assert_eq!(of_user(&base), Some(directory.clone()));
        for path in [&base, &directory] {
            open(path, 0o1777);
            assert_eq!(of_user(&base), None);
            open(path, 0o755);
            // Only root can give a directory away.
            if chown(path, Some(65_534), None).is_ok() {
                assert_eq!(of_user(&base), None);
                chown(path, Some(0), None).unwrap();
            }
        }
        fs::remove_dir(&directory).unwrap();
        assert_eq!(of_user(&base), Some(directory.clone()), "a daemon makes it");
        symlink("/run", &directory).unwrap();
        assert_eq!(of_user(&base), None);
        fs::remove_dir_all(&base).unwrap();
    }

    /// Answers one `status` after the other at `path` from a network namespace.
    fn serve(path: &Path, namespace: Option<u64>) {
        use std::io::{BufRead, BufReader, Write};
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut line = String::new();
                BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
                let id = serde_json::from_str::<serde_json::Value>(&line).map_or(0.into(), |call| call["id"].clone());
                let mut ok = serde_json::json!({
                    "version": "1", "pid": 1, "interface": "eth0", "file": "-", "uptime_ns": 0, "in_force": true,
                    "directions": [], "control": crate::calls::ControlStatus::default(),
                });
                if let Some(namespace) = namespace {
                    ok["network_namespace"] = namespace.into();
                }
                let _ = writeln!(stream, "{}", serde_json::json!({ "id": id, "ok": ok }));
            }
        });
    }

    #[test]
    fn sockets_of_this_network_namespace_are_preferred_and_dead_ones_do_not_count() {
        let folder = std::env::temp_dir().join(format!("tidegate-own-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let paths = ["here.sock", "dead.sock", "there.sock", "old.sock"].map(|name| folder.join(name));
        serve(&paths[0], own_namespace());
        drop(std::os::unix::net::UnixListener::bind(&paths[1]).unwrap());
        serve(&paths[2], own_namespace().map(|own| own + 1));
        serve(&paths[3], None);
        assert_eq!(paths.each_ref().map(|path| is_own(path)), [Some(true), None, Some(false), None]);
        assert_eq!(prefer(paths.to_vec(), is_own), [paths[0].clone()]);
        assert_eq!(prefer(paths.to_vec(), |_| Some(false)), paths);
        // One that died here is shown for its last words.
        assert_eq!(left_by_own(&paths[1]), None);
        fs::write(words::log_of(&paths[1]), "").unwrap();
        let shown = prefer(paths.to_vec(), |path| is_own(path).or_else(|| left_by_own(path)));
        assert_eq!(shown, [paths[0].clone(), paths[1].clone()]);
        fs::remove_dir_all(&folder).unwrap();
    }
}

//! Connects to a running daemon, for every command that needs one.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt};
use tidegate_control::{Client, ClientError, Code, Place, PlaceError, words};

use crate::Failure;

/// Selects a running tidegate.
#[derive(Debug, Clone, clap::Args)]
pub struct Connect {
    /// The path of the control socket; by default it is looked for
    #[arg(long, value_name = "PATH", conflicts_with = "interface")]
    control: Option<PathBuf>,
    /// The shaped interface, where there are several
    #[arg(long, short, value_name = "NAME")]
    interface: Option<String>,
}

/// The path of a socket, and what the daemon there replied.
pub type Answer<T> = (PathBuf, Result<T, ClientError>);

impl Connect {
    /// Connects.
    pub fn open(&self) -> Result<Client, Failure> {
        match self.place().find() {
            Ok(path) => Ok(connect(&path)?),
            Err(PlaceError::Several(found)) => {
                let paths: Vec<PathBuf> = found.iter().map(PathBuf::from).collect();
                match &own(paths, is_own)[..] {
                    [only] => Ok(connect(only)?),
                    [] => Err(Failure::Failed(PlaceError::Several(found).to_string())),
                    several => {
                        let several = several.iter().map(|path| path.display().to_string()).collect();
                        Err(Failure::Failed(PlaceError::Several(several).to_string()))
                    }
                }
            }
            Err(error) => self.among_others().ok_or_else(|| Failure::Failed(error.to_string())),
        }
    }

    /// The interface that was named.
    pub fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// The daemon that shapes the interface together with another, after which its socket is named.
    fn among_others(&self) -> Option<Client> {
        let name = self.interface.as_ref()?;
        let paths = Place::Any.find_all().ok()?;
        paths.iter().filter_map(|path| connect(path).ok()).find_map(|mut client| {
            let directions = client.status().ok()?.directions;
            let mut interfaces = directions.iter().flat_map(|direction| &direction.interfaces);
            interfaces.any(|interface| interface.name == *name).then_some(client)
        })
    }

    /// Asks every daemon that matches, all at once, so that one that does not answer holds up no other: `ask` has `limit`
    /// for each of its calls. Returns each socket with the outcome.
    pub fn ask_all<T: Send>(
        &self,
        limit: Duration,
        ask: impl Fn(&mut Client) -> Result<T, ClientError> + Sync,
    ) -> Result<Vec<Answer<T>>, Failure> {
        let paths = match (self.place().find_all(), &self.interface) {
            (Ok(paths), _) if self.place() == Place::Any && paths.len() > 1 => {
                let own = own(paths.clone(), |path| is_own(path).or_else(|| left_by_own(path)));
                if own.is_empty() { paths } else { own }
            }
            (Ok(paths), _) => paths,
            (Err(error), None) => return Err(Failure::Failed(error.to_string())),
            // One that shapes the interface together with another has a socket that is named after that.
            (Err(error), Some(name)) => {
                let all = Place::Any.find_all().map_err(|_| Failure::Failed(error.to_string()))?;
                let outcomes = each(&all, limit, &|client: &mut Client| {
                    let status = client.status()?;
                    let mut interfaces = status.directions.iter().flat_map(|direction| &direction.interfaces);
                    if interfaces.any(|interface| interface.name == *name) { ask(client).map(Some) } else { Ok(None) }
                });
                let found = outcomes.into_iter().filter_map(|(path, outcome)| match outcome {
                    Ok(Some(found)) => Some((path, Ok(found))),
                    Ok(None) | Err(_) => None,
                });
                let found: Vec<_> = found.collect();
                return if found.is_empty() { Err(Failure::Failed(error.to_string())) } else { Ok(found) };
            }
        };
        Ok(each(&paths, limit, &ask))
    }

    fn place(&self) -> Place {
        match (&self.control, &self.interface) {
            (Some(path), _) => Place::Path(path.clone()),
            (None, Some(interface)) => Place::Interface(interface.clone()),
            (None, None) => Place::Any,
        }
    }
}

/// The sockets of daemons of this network namespace, as `is_own` answers for each; it has no answer for one that is dead.
fn own(mut paths: Vec<PathBuf>, is_own: impl Fn(&Path) -> Option<bool>) -> Vec<PathBuf> {
    paths.retain(|path| is_own(path) == Some(true));
    paths
}

/// Whether the process that listens at `path` is in the network namespace of this one; `None` where none listens, or which its
/// namespace is cannot be told.
fn is_own(path: &Path) -> Option<bool> {
    let client = Client::connect_within(path, Duration::from_millis(500)).ok()?;
    let namespace = |process: &str| {
        let data = std::fs::metadata(format!("/proc/{process}/ns/net")).ok()?;
        Some((data.dev(), data.ino()))
    };
    Some(namespace(&process(&client)?.to_string())? == namespace("thread-self")?)
}

/// Whether a daemon of this network namespace has left its socket at `path`, and its last words beside it.
fn left_by_own(path: &Path) -> Option<bool> {
    words::log_of(path).exists().then_some(true)
}

/// Asks the daemons at `paths`, each on a thread of its own.
fn each<T: Send>(
    paths: &[PathBuf],
    limit: Duration,
    ask: &(impl Fn(&mut Client) -> Result<T, ClientError> + Sync),
) -> Vec<Answer<T>> {
    let one = &|path: &Path| {
        let mut client = Client::connect_within(path, limit)?;
        if let Some(process) = process(&client) {
            client.set_process(process);
        }
        ask(&mut client)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = paths.iter().map(|path| (path, scope.spawn(move || one(path)))).collect();
        let outcome = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().unwrap_or(Err(ClientError::Closed));
        threads.into_iter().map(|(path, thread)| (path.clone(), outcome(thread))).collect()
    })
}

/// Connects to the socket at `path`, and looks up the process that listens there.
///
/// # Errors
/// [`ClientError::Connect`].
pub fn connect(path: &Path) -> Result<Client, ClientError> {
    let mut client = Client::connect(path)?;
    if let Some(process) = process(&client) {
        client.set_process(process);
    }
    Ok(client)
}

/// The process at the other end of a connection; `None` for one of another namespace.
pub fn process(client: &Client) -> Option<i32> {
    let peer = getsockopt(client.stream(), sockopt::PeerCredentials).ok()?;
    Some(peer.pid()).filter(|process| *process > 0)
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::Refused(refusal) if matches!(refusal.code, Code::Malformed | Code::Invalid) => {
                Self::Usage(error.to_string())
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_this_network_namespace_are_preferred_and_dead_ones_do_not_count() {
        let folder = std::env::temp_dir().join(format!("tidegate-connect-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let paths = ["here.sock", "dead.sock", "there.sock"].map(|name| folder.join(name));
        let [here, dead, there] = paths.each_ref().map(|path| std::os::unix::net::UnixListener::bind(path).unwrap());
        drop(dead);
        assert_eq!(paths.each_ref().map(|path| is_own(path)), [Some(true), None, Some(true)]);
        let elsewhere = |path: &Path| is_own(path).map(|own| own && !path.ends_with("there.sock"));
        assert_eq!(own(paths.to_vec(), elsewhere), [paths[0].clone()]);
        // One that died here is shown for its last words.
        assert_eq!(left_by_own(&paths[1]), None);
        std::fs::write(words::log_of(&paths[1]), "").unwrap();
        let shown = own(paths.to_vec(), |path| elsewhere(path).or_else(|| left_by_own(path)));
        assert_eq!(shown, [paths[0].clone(), paths[1].clone()]);
        drop((here, there));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

//! Connects to a running daemon, for every command that needs one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt};
use tidegate_control::{Client, ClientError, Code, Place, PlaceError};

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
            Err(error @ PlaceError::Several(_)) => Err(Failure::Failed(error.to_string())),
            Err(error) => self.among_others().ok_or_else(|| Failure::Failed(error.to_string())),
        }
    }

    /// Whether several daemons run of which none was chosen.
    pub fn are_several(&self) -> bool {
        matches!(self.place().find(), Err(PlaceError::Several(_)))
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

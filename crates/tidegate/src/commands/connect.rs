//! Connects to a running daemon, for every command that needs one.

use std::path::{Path, PathBuf};

use nix::sys::socket::{getsockopt, sockopt};
use tidegate_control::{Client, ClientError, Code, Place};

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

impl Connect {
    /// Connects.
    pub fn open(&self) -> Result<Client, Failure> {
        match self.place().find() {
            Ok(path) => Ok(connect(&path)?),
            Err(error) => self.among_others().ok_or_else(|| Failure::Failed(error.to_string())),
        }
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

    /// Connects to every daemon that matches.
    pub fn open_all(&self) -> Result<Vec<Client>, Failure> {
        let paths = match self.place().find_all() {
            Ok(paths) => paths,
            Err(error) => {
                let client = self.among_others().ok_or_else(|| Failure::Failed(error.to_string()))?;
                return Ok(vec![client]);
            }
        };
        paths.iter().map(|path| Ok(connect(path)?)).collect()
    }

    fn place(&self) -> Place {
        match (&self.control, &self.interface) {
            (Some(path), _) => Place::Path(path.clone()),
            (None, Some(interface)) => Place::Interface(interface.clone()),
            (None, None) => Place::Any,
        }
    }
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

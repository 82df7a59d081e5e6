//! The way to a running daemon, which every command that speaks to one shares.

use std::path::PathBuf;

use tidegate_control::{Client, ClientError, Code, Place};

use crate::Failure;

/// Which running tidegate is meant.
#[derive(Debug, Clone, clap::Args)]
pub struct Connect {
    /// The control socket, instead of looking for it
    #[arg(long, value_name = "PATH", conflicts_with = "interface")]
    control: Option<PathBuf>,
    /// The interface that is shaped, where several are
    #[arg(long, short, value_name = "NAME")]
    interface: Option<String>,
}

impl Connect {
    /// Connects.
    pub fn open(&self) -> Result<Client, Failure> {
        let path = self.place().find().map_err(|error| Failure::Failed(error.to_string()))?;
        Client::connect(&path).map_err(Failure::from)
    }

    /// Connects to every daemon that may be meant.
    pub fn open_all(&self) -> Result<Vec<Client>, Failure> {
        let paths = self.place().find_all().map_err(|error| Failure::Failed(error.to_string()))?;
        paths.iter().map(|path| Client::connect(path).map_err(Failure::from)).collect()
    }

    fn place(&self) -> Place {
        match (&self.control, &self.interface) {
            (Some(path), _) => Place::Path(path.clone()),
            (None, Some(interface)) => Place::Interface(interface.clone()),
            (None, None) => Place::Any,
        }
    }
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

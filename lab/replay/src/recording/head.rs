//! What a recording knows of itself and of the engine that it records; kept as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_engine::{Names, Setup as EngineSetup};
use tidegate_units::{Instant, Span};

/// The part of a packet that is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// Its headers: the network and the transport header.
    Headers,
    /// All that the data path has of it.
    All,
}

/// The head of a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// [`FORMAT`](super::FORMAT).
    pub format: u32,
    /// The version of the program that recorded.
    pub tidegate: String,
    /// Which recording it is: the same in all of its files.
    pub recording: String,
    /// The number of the file in the recording, from 0.
    pub part: u64,
    /// What the recording was made of: an interface.
    pub of: String,
    /// A moment of the clock of the data path.
    pub instant_ns: u64,
    /// The same moment in ns since 1970.
    pub wall_clock_ns: u64,
    /// Whether payload is kept.
    pub payload: Payload,
    /// The names of the reasons for drops, by the number that records have.
    pub reasons: Vec<String>,
    /// For a file that goes on from another: how the engine was set up when the file began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Setup>,
}

/// The setup of an engine: configuration, seed and time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// When it was built, in ns of the clock of the data path.
    pub now_ns: u64,
    /// [`EngineSetup::seed`].
    pub seed: u64,
    /// [`EngineSetup::secret`].
    pub secret: [u64; 2],
    /// [`EngineSetup::catch_up`].
    pub catch_up_ns: u64,
    /// Numbers of users.
    pub users: BTreeMap<String, u32>,
    /// Numbers of control groups.
    pub cgroups: BTreeMap<String, u64>,
    /// The shaper file.
    pub configuration: String,
}

impl Setup {
    /// Describes an engine that was built at `now` from the file `configuration`.
    pub fn new(setup: &EngineSetup, configuration: &str, now: Instant) -> Self {
        Self {
            now_ns: now.as_nanos(),
            seed: setup.seed,
            secret: setup.secret,
            catch_up_ns: setup.catch_up.as_nanos(),
            users: setup.names.users.iter().map(|(name, id)| (name.clone(), *id)).collect(),
            cgroups: setup.names.cgroups.iter().map(|(path, id)| (path.clone(), *id)).collect(),
            configuration: configuration.into(),
        }
    }
    /// Returns the setup of the engine.
    pub fn engine(&self) -> EngineSetup {
        EngineSetup {
            seed: self.seed,
            secret: self.secret,
            catch_up: Span::from_nanos(self.catch_up_ns),
            names: self.names(),
        }
    }
    /// The ids of the names in the configuration.
    pub fn names(&self) -> Names {
        Names {
            users: self.users.iter().map(|(name, id)| (name.clone(), *id)).collect(),
            cgroups: self.cgroups.iter().map(|(path, id)| (path.clone(), *id)).collect(),
        }
    }
    /// Returns the instant at which it was built.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now_ns)
    }
}

/// Another configuration that took over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reconfiguration {
    /// When its tree was built, in ns of the clock of the data path.
    pub built_ns: u64,
    /// Numbers of users.
    pub users: BTreeMap<String, u32>,
    /// Numbers of control groups.
    pub cgroups: BTreeMap<String, u64>,
    /// The shaper file.
    pub configuration: String,
}

impl Reconfiguration {
    /// Of the file `text`, whose names mean `names`, and whose tree was built at `built`.
    pub fn new(text: &str, names: &Names, built: Instant) -> Self {
        Self {
            built_ns: built.as_nanos(),
            users: names.users.iter().map(|(name, id)| (name.clone(), *id)).collect(),
            cgroups: names.cgroups.iter().map(|(path, id)| (path.clone(), *id)).collect(),
            configuration: text.into(),
        }
    }
    /// The ids of the names in the configuration.
    pub fn names(&self) -> Names {
        Names {
            users: self.users.iter().map(|(name, id)| (name.clone(), *id)).collect(),
            cgroups: self.cgroups.iter().map(|(path, id)| (path.clone(), *id)).collect(),
        }
    }
}

//! The head of a recording and the setup of the recorded engine, which are stored as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tidegate_config::shaper::Named;
use tidegate_config::values::Mac;
use tidegate_engine::{Names, Setup as EngineSetup};
use tidegate_units::{Instant, Span};

/// The part of a packet that is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// The network and the transport header.
    Headers,
    /// All bytes that the data path has.
    All,
}

/// The head of a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// [`FORMAT`](super::FORMAT).
    pub format: u32,
    /// The version of the program that recorded.
    pub tidegate: String,
    /// The identity of the recording, which is the same in all of its files.
    pub recording: String,
    /// The number of the file in the recording, from 0.
    pub part: u64,
    /// The name of the recorded interface.
    pub of: String,
    /// An instant of the clock of the data path.
    pub instant_ns: u64,
    /// This instant in ns since 1970.
    pub wall_clock_ns: u64,
    /// The part of packets that is kept.
    pub payload: Payload,
    /// The names of the reasons of drops, indexed by their number in records.
    pub reasons: Vec<String>,
    /// For a file that continues another: the setup of the engine when the file began.
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
    /// [`EngineSetup::most_queued`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_queued: Option<u32>,
    /// Numbers of users.
    pub users: BTreeMap<String, u32>,
    /// Numbers of control groups.
    pub cgroups: BTreeMap<String, u64>,
    /// Whether packets have the number of the interface by which they came in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interfaces: bool,
    /// The addresses of devices by hardware address.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub macs: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The addresses of names, each behind the key by which a rule names it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The indices of rules that did not hold.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub off: BTreeSet<u32>,
    /// The shaper file.
    pub configuration: String,
}

impl Setup {
    /// Describes an engine that was built at `now` from the shaper file `configuration`.
    pub fn new(setup: &EngineSetup, configuration: &str, now: Instant) -> Self {
        Self {
            now_ns: now.as_nanos(),
            seed: setup.seed,
            secret: setup.secret,
            catch_up_ns: setup.catch_up.as_nanos(),
            most_queued: setup.most_queued,
            users: ids(&setup.names.users),
            cgroups: ids(&setup.names.cgroups),
            interfaces: setup.names.interfaces.is_some(),
            macs: devices(&setup.names),
            named: named(&setup.names),
            off: setup.names.off.clone(),
            configuration: configuration.into(),
        }
    }
    /// Returns the setup of the engine.
    pub fn engine(&self) -> EngineSetup {
        EngineSetup {
            seed: self.seed,
            secret: self.secret,
            catch_up: Span::from_nanos(self.catch_up_ns),
            most_queued: self.most_queued,
            names: self.names(),
        }
    }
    /// The ids of the names in the configuration.
    pub fn names(&self) -> Names {
        Names {
            users: ids(&self.users),
            cgroups: ids(&self.cgroups),
            interfaces: self.interfaces.then(BTreeMap::new),
            macs: names_of_devices(&self.macs),
            named: names_of(&self.named),
            off: self.off.clone(),
        }
    }
    /// The instant at which it was built.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now_ns)
    }
}

/// Copies ids by name from one kind of map to another.
fn ids<'a, V: Copy + 'a, M: FromIterator<(String, V)>>(ids: impl IntoIterator<Item = (&'a String, &'a V)>) -> M {
    ids.into_iter().map(|(name, id)| (name.clone(), *id)).collect()
}

/// The addresses of devices, as a recording has them.
fn devices(names: &Names) -> BTreeMap<String, BTreeSet<IpAddr>> {
    names.macs.iter().map(|(mac, addresses)| (mac.to_string(), addresses.clone())).collect()
}

/// The addresses of devices of a recording. What is no hardware address, no rule names.
fn names_of_devices(devices: &BTreeMap<String, BTreeSet<IpAddr>>) -> BTreeMap<Mac, BTreeSet<IpAddr>> {
    devices.iter().filter_map(|(mac, addresses)| Some((mac.parse().ok()?, addresses.clone()))).collect()
}

/// The addresses of names, as a recording has them.
fn named(names: &Names) -> BTreeMap<String, BTreeSet<IpAddr>> {
    names.named.iter().map(|(name, addresses)| (format!("{} {name}", name.key()), addresses.clone())).collect()
}

/// The addresses of names of a recording. Texts that are no names are left out, because no rule has them.
fn names_of(named: &BTreeMap<String, BTreeSet<IpAddr>>) -> BTreeMap<Named, BTreeSet<IpAddr>> {
    let name = |text: &str| match text.split_once(' ')? {
        ("host-name", name) => Some(Named::Device(name.parse().ok()?)),
        ("dns-name", name) => Some(Named::Answered(name.parse().ok()?)),
        _ => None,
    };
    named.iter().filter_map(|(text, addresses)| Some((name(text)?, addresses.clone()))).collect()
}

/// A new configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reconfiguration {
    /// When its tree was built, in ns of the clock of the data path.
    pub built_ns: u64,
    /// Numbers of users.
    pub users: BTreeMap<String, u32>,
    /// Numbers of control groups.
    pub cgroups: BTreeMap<String, u64>,
    /// Whether packets have the number of the interface by which they came in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interfaces: bool,
    /// The addresses of devices by hardware address.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub macs: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The addresses of names, each behind the key by which a rule names it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The indices of rules that did not hold.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub off: BTreeSet<u32>,
    /// The shaper file.
    pub configuration: String,
}

impl Reconfiguration {
    /// Describes the shaper file `text` with the ids of its names; its tree was built at `built`.
    pub fn new(text: &str, names: &Names, built: Instant) -> Self {
        Self {
            built_ns: built.as_nanos(),
            users: ids(&names.users),
            cgroups: ids(&names.cgroups),
            interfaces: names.interfaces.is_some(),
            macs: devices(names),
            named: named(names),
            off: names.off.clone(),
            configuration: text.into(),
        }
    }
    /// The ids of the names in the configuration.
    pub fn names(&self) -> Names {
        Names {
            users: ids(&self.users),
            cgroups: ids(&self.cgroups),
            interfaces: self.interfaces.then(BTreeMap::new),
            macs: names_of_devices(&self.macs),
            named: names_of(&self.named),
            off: self.off.clone(),
        }
    }
}

//! The terms of a container in the running shaper, for `tidegate cni` and `tidegate oci`.
//!
//! It is one rule of the running shaper, and a class of its own where it has a minimum. Both are named after the container, so that
//! they are found again when it ends.

pub mod cni;
pub mod oci;
mod runtime;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use serde::Deserialize;
use serde_json::json;
use tidegate_control::calls::{Apply, Edit, InForce};
use tidegate_control::{Client, ClientError, Place, PlaceError};
use tidegate_units::Rate;

use crate::commands::connect::connect;

/// How long another command may take that changes the same shaper.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest input that is read, in bytes.
const LONGEST: u64 = 1 << 20;
/// Both directions, in a request.
const BOTH: &str = "both";
/// The terms, as configurations and annotations name them.
const TERMS: [&str; 3] = ["class", "at-most", "minimum"];

/// The terms that a container is given.
#[derive(Debug, Default, Deserialize)]
struct Terms {
    /// An existing class.
    class: Option<String>,
    /// The rate that it gets at the most.
    #[serde(rename = "at-most")]
    at_most: Option<String>,
    /// The rate that it gets at the least.
    minimum: Option<String>,
}

/// The running shaper.
#[derive(Debug, Default, Deserialize)]
struct Shaper {
    /// The shaped interface, where several are shaped.
    interface: Option<String>,
    /// The path of the control socket, where it is another.
    control: Option<PathBuf>,
    /// The direction, where both are shaped apart from each other.
    direction: Option<String>,
}

/// Why a container cannot be given its terms.
#[derive(Debug)]
struct Error {
    kind: Problem,
    text: String,
    /// The remedy; empty where there is none.
    details: String,
}

/// A direction, and the edits that remove from it what a container has.
type Removal = (Option<String>, Vec<Edit>);

/// The side that must change for a command to succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Problem {
    /// The environment of the command.
    Environment,
    /// Its input.
    Content,
    /// Its configuration.
    Configuration,
    /// The version of its input.
    Version,
    /// The shaper cannot be reached.
    Later,
    /// The shaper refuses.
    Refused,
}

fn error(kind: Problem, text: impl Into<String>) -> Error {
    Error { kind, text: text.into(), details: String::new() }
}

impl From<ClientError> for Error {
    fn from(failed: ClientError) -> Self {
        match failed {
            ClientError::Refused(refusal) => {
                Self { kind: Problem::Refused, text: refusal.message, details: refusal.help.unwrap_or_default() }
            }
            other => error(Problem::Later, other.to_string()),
        }
    }
}

/// Whether the name of a container can be a part of that of a rule.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// The digits of a container that are a part of the name of its rule, which has at most 64 bytes.
fn shortened(container: &str) -> &str {
    &container[..container.len().min(40)]
}

/// Checks the names of the terms that annotations may set.
fn check_permitted(annotations: &[String]) -> Result<(), Error> {
    match annotations.iter().find(|name| !TERMS.contains(&name.as_str())) {
        None => Ok(()),
        Some(other) => {
            Err(error(Problem::Configuration, format!("`{other}` in annotations is none of {}", TERMS.join(", "))))
        }
    }
}

impl Terms {
    fn is_empty(&self) -> bool {
        [&self.class, &self.at_most, &self.minimum].iter().all(|term| term.is_none())
    }

    /// These terms, with those of the annotations `annotated` that are `permitted` in their place.
    fn annotated(&self, permitted: &[String], annotated: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        check_permitted(permitted)?;
        let term = |key: &str, own: &Option<String>| {
            annotated(key).filter(|_| permitted.iter().any(|permitted| permitted == key)).or_else(|| own.clone())
        };
        let found = Self {
            class: term("class", &self.class),
            at_most: term("at-most", &self.at_most),
            minimum: term("minimum", &self.minimum),
        };
        for (key, rate) in [("at-most", &found.at_most), ("minimum", &found.minimum)] {
            if let Some(Err(wrong)) = rate.as_ref().map(|rate| rate.parse::<Rate>()) {
                return Err(error(Problem::Configuration, format!("{key}: {wrong}")));
            }
        }
        Ok(found)
    }

    /// The edits that give the terms to these addresses. There must be terms, unless annotations are `permitted` to have some.
    fn added(&self, name: &str, addresses: &[String], permitted: bool) -> Result<Vec<Edit>, Error> {
        let value = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let ceiling = self.at_most.iter().map(|rate| value("at-most", rate));
        let rule = |class: &str| {
            vec![value("name", name), value("class", class), value("host", &json!(addresses).to_string())]
        };
        let edit = |section: &str, values| Edit::Add { section: section.into(), values };
        match (&self.class, &self.minimum) {
            (Some(_), Some(_)) => {
                let text =
                    "`class` and `minimum`: a container with a minimum has a class of its own; leave one of them out";
                Err(error(Problem::Configuration, text))
            }
            (None, Some(minimum)) => {
                let class = [value("name", name), value("rate", minimum)].into_iter().chain(ceiling).collect();
                Ok(vec![edit("class", class), edit("rule", rule(name))])
            }
            (Some(class), None) => Ok(vec![edit("rule", rule(class).into_iter().chain(ceiling).collect())]),
            (None, None) if self.at_most.is_some() => Err(error(
                Problem::Configuration,
                "`at-most` without `class` or `minimum`: name the class of which the container is a part",
            )),
            // Annotations may give it something, and do not have to.
            (None, None) if permitted => Ok(Vec::new()),
            (None, None) => Err(error(
                Problem::Configuration,
                "the container would be given nothing: write `class`, `at-most` or `minimum`, or permit them in `annotations`",
            )),
        }
    }
}

impl Shaper {
    /// A connection to the shaper, and the directory of its socket.
    fn client(&self) -> Result<(Client, PathBuf), Error> {
        let place = match (&self.control, &self.interface) {
            (Some(path), _) => Place::Path(path.clone()),
            (None, Some(interface)) => Place::Interface(interface.clone()),
            (None, None) => Place::Any,
        };
        let path = place.find().map_err(|failed| match failed {
            PlaceError::Nothing { .. } => error(Problem::Later, failed.to_string()),
            // Waiting does not help, and what the container has would never be removed.
            PlaceError::Several(paths) => Error {
                details: "name the one that shapes containers by `interface`".into(),
                ..error(Problem::Configuration, format!("several tidegates are running: {}", paths.join(", ")))
            },
        })?;
        let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
        Ok((connect(&path)?, directory))
    }

    /// Replaces what the container has by what `edits` add: in both directions, where both are shaped and none is named.
    fn change(&self, name: &str, edits: Vec<Edit>) -> Result<(), Error> {
        let (mut client, directory) = self.client()?;
        // Rules are removed by their numbers, which another command may change at the same time.
        let _lock = locked(&directory)?;
        let directions = self.directions(&mut client, name)?;
        let mut apply = |direction: Option<String>, edits: Vec<Edit>| match edits.is_empty() {
            true => Ok(()),
            false => client.apply(&Apply { direction, edits, ..Apply::default() }).map(drop),
        };
        let all = if directions.len() > 1 { Some(BOTH.to_owned()) } else { self.direction.clone() };
        let (_, first) = &directions[0];
        if directions.iter().all(|(_, removed)| removed == first) {
            // One change, so that a refused one leaves what the container has.
            return Ok(apply(all, first.iter().cloned().chain(edits).collect())?);
        }
        for (direction, removed) in directions {
            apply(direction, removed)?;
        }
        Ok(apply(all, edits)?)
    }

    /// The directions that are meant, each with the edits that remove from it what the container has.
    fn directions(&self, client: &mut Client, name: &str) -> Result<Vec<Removal>, Error> {
        let mut directions = vec![self.direction.clone()];
        if self.direction.is_none() {
            let names: Vec<String> = client.status()?.directions.into_iter().map(|direction| direction.name).collect();
            if names.len() == 2 && ["up", "down"].iter().all(|name| names.iter().any(|found| found == name)) {
                directions = names.into_iter().map(Some).collect();
            }
        }
        let removed = |direction: Option<String>| Ok((direction.clone(), removed(&in_force(client, direction)?, name)));
        directions.into_iter().map(removed).collect()
    }

    /// Removes what the container has. Without a shaper there is nothing to remove, and the container must be able to end.
    fn remove(&self, name: &str) -> Result<(), Error> {
        match self.change(name, Vec::new()) {
            Ok(()) | Err(Error { kind: Problem::Later, .. }) => Ok(()),
            Err(failed) => Err(failed),
        }
    }

    /// Whether the container has a rule in each direction.
    fn has(&self, name: &str) -> Result<bool, Error> {
        let directions = self.directions(&mut self.client()?.0, name)?;
        Ok(directions.iter().all(|(_, removed)| !removed.is_empty()))
    }
}

fn in_force(client: &mut Client, direction: Option<String>) -> Result<toml::Table, Error> {
    let text = client.in_force(&InForce { direction })?;
    text.parse().map_err(|failed| error(Problem::Refused, format!("the file in force cannot be read: {failed}")))
}

/// Locks a file that only the user of the runtime can open. Everybody may open the directory, and could hold a lock of it to keep
/// containers from starting.
fn locked(directory: &Path) -> Result<File, Error> {
    let path = directory.join("cni.lock");
    let failed =
        |failed: &dyn std::fmt::Display| error(Problem::Later, format!("cannot lock {}: {failed}", path.display()));
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(&path);
    let file = file.map_err(|error| failed(&error))?;
    let found = file.metadata().map_err(|error| failed(&error))?;
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o077 != 0 {
        return Err(failed(&"it is not of this user alone; remove it"));
    }
    let deadline = Instant::now() + PATIENCE;
    while let Err(busy) = file.try_lock() {
        if !matches!(busy, std::fs::TryLockError::WouldBlock) || Instant::now() > deadline {
            return Err(failed(&busy));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(file)
}

/// The edits that remove the rules and the class of this name, if there are some.
fn removed(file: &toml::Table, name: &str) -> Vec<Edit> {
    let is_ours = |one: &toml::Value| one.get("name").and_then(toml::Value::as_str) == Some(name);
    let list = |section: &str| file.get(section).and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let remove = |section: &str, name: String| Edit::Remove { section: section.into(), name };
    let rules = list("rule").into_iter().enumerate().filter(|(_, rule)| is_ours(rule));
    // The last first, so that the numbers of the others stay what they are.
    let mut edits: Vec<Edit> = rules.map(|(at, _)| remove("rule", (at + 1).to_string())).collect();
    edits.reverse();
    edits.extend(list("class").iter().filter(|class| is_ours(class)).map(|_| remove("class", name.into())));
    edits
}

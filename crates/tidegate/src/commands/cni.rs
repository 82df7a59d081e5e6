//! `tidegate cni`: a chained plugin of the Container Network Interface (CNI 0.3 to 1.0). A container has its class, ceiling and
//! minimum from the configuration of its network, or from its annotations.
//!
//! The runtime passes the command and the container in the environment, and the configuration on standard input. What a container
//! is given is one rule of the running shaper, and a class of its own where it has a minimum. Both are named after the container
//! and its interface, so that they are found again when it ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_control::calls::{Apply, Edit, InForce};
use tidegate_control::{Client, ClientError, Place};
use tidegate_units::Rate;

use crate::Failure;
use crate::commands::connect::connect;

/// The versions whose configurations and results have the form that is read here.
const VERSIONS: [&str; 4] = ["0.3.0", "0.3.1", "0.4.0", "1.0.0"];
/// The longest configuration that is read, in bytes.
const LONGEST: u64 = 1 << 20;
/// How long another plugin may take that changes the same shaper.
const PATIENCE: Duration = Duration::from_secs(20);
/// The capability by which a runtime passes the annotations of a pod, as containerd and CRI-O name it.
const ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";

/// Give a container its class, ceiling and minimum, as a chained CNI plugin: for container runtimes
///
/// `tidegate book promise` has the configuration.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// The configuration of the network, as far as it is ours.
#[derive(Debug, Deserialize)]
struct Network {
    #[serde(rename = "cniVersion")]
    version: String,
    /// The shaped interface, where several are shaped.
    interface: Option<String>,
    /// The path of the control socket, where it is another.
    control: Option<PathBuf>,
    /// The direction, where both are shaped apart from each other.
    direction: Option<String>,
    #[serde(flatten)]
    terms: Terms,
    /// The terms that annotations may set: none by default, because whoever starts a container writes them.
    #[serde(default)]
    annotations: Vec<String>,
    #[serde(rename = "runtimeConfig", default)]
    runtime: Value,
    #[serde(rename = "prevResult")]
    previous: Option<Value>,
}

/// What a container is given.
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

/// An error, as the runtime reads it.
struct Error {
    code: u32,
    text: String,
    details: String,
}

/// The codes of the specification that are used, and one of our own.
const ENVIRONMENT: u32 = 4;
const CONTENT: u32 = 6;
const CONFIGURATION: u32 = 7;
const LATER: u32 = 11;
const REFUSED: u32 = 100;

fn error(code: u32, text: impl Into<String>) -> Error {
    Error { code, text: text.into(), details: String::new() }
}

impl From<ClientError> for Error {
    fn from(failed: ClientError) -> Self {
        match failed {
            ClientError::Refused(refusal) => {
                Self { code: REFUSED, text: refusal.message, details: refusal.help.unwrap_or_default() }
            }
            other => error(LATER, other.to_string()),
        }
    }
}

/// Runs the command.
pub fn run(_: &Args) -> Result<(), Failure> {
    let mut text = String::new();
    io::stdin().take(LONGEST).read_to_string(&mut text)?;
    let read: Result<Value, _> = serde_json::from_str(&text);
    // An error has the version that was asked for, if that can be read.
    let version = read.as_ref().ok().and_then(|read| read["cniVersion"].as_str()).unwrap_or("1.0.0").to_owned();
    let read = read.map_err(|wrong| error(CONTENT, format!("standard input is not the JSON of a network: {wrong}")));
    let answer = read.and_then(answer).map_err(|error| {
        (json!({ "cniVersion": version, "code": error.code, "msg": error.text, "details": error.details }), 1)
    });
    let (answer, code) = answer.map_or_else(|failed| failed, |answer| (answer.unwrap_or_default(), 0));
    if !answer.is_null() {
        writeln!(crate::output::stdout(), "{answer}")?;
    }
    if code == 0 { Ok(()) } else { Err(Failure::Exit(code, String::new())) }
}

/// What is printed where the command succeeds.
fn answer(read: Value) -> Result<Option<Value>, Error> {
    let command = variable("CNI_COMMAND")?;
    if command == "VERSION" {
        return Ok(Some(json!({ "cniVersion": "1.0.0", "supportedVersions": VERSIONS })));
    }
    let network: Network = serde_json::from_value(read)
        .map_err(|failed| error(CONTENT, format!("the configuration of the network cannot be read: {failed}")))?;
    if !VERSIONS.contains(&network.version.as_str()) {
        return Err(error(1, format!("version {} of CNI is none of {}", network.version, VERSIONS.join(", "))));
    }
    let name = name(&variable("CNI_CONTAINERID")?, &variable("CNI_IFNAME")?)?;
    match command.as_str() {
        "ADD" => {
            let previous = network.previous.clone();
            let previous = previous.ok_or_else(|| {
                error(CONFIGURATION, "there is no prevResult: put this plugin after the one that makes the interface")
            })?;
            let permitted = !network.annotations.is_empty();
            let edits = added(&name, &network.terms()?, &addresses(&previous)?, permitted)?;
            change(&network, &name, edits)?;
            Ok(Some(previous))
        }
        "DEL" => match change(&network, &name, Vec::new()) {
            // Without a shaper there is nothing to remove, and the container must be able to end.
            Ok(()) | Err(Error { code: LATER, .. }) => Ok(None),
            Err(failed) => Err(failed),
        },
        "CHECK" if removed(&in_force(&mut client(&network)?.0, &network)?, &name).is_empty() => {
            Err(error(REFUSED, format!("the shaper has no rule {name} for this container; it may have been restarted")))
        }
        "CHECK" => Ok(None),
        other => Err(error(ENVIRONMENT, format!("CNI_COMMAND is {other}, not ADD, DEL, CHECK or VERSION"))),
    }
}

fn variable(name: &str) -> Result<String, Error> {
    std::env::var(name).ok().filter(|value| !value.is_empty()).ok_or_else(|| {
        error(ENVIRONMENT, format!("{name} is not set: a container runtime starts this command, not a person"))
    })
}

/// The name of the rule and the class of a container.
fn name(container: &str, interface: &str) -> Result<String, Error> {
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    if !plain(container) || !plain(interface) || interface.len() > 15 {
        let text = format!("`{container}` and `{interface}` are not the names of a container and an interface");
        return Err(error(ENVIRONMENT, text));
    }
    // The name of a rule has at most 64 bytes. So many digits of a container are its own.
    Ok(format!("cni-{}-{interface}", &container[..container.len().min(40)]))
}

impl Network {
    /// What the container is given: by its annotations where these are permitted, and otherwise by the network.
    fn terms(&self) -> Result<Terms, Error> {
        let known = ["class", "at-most", "minimum"];
        if let Some(other) = self.annotations.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(error(CONFIGURATION, format!("`{other}` in annotations is none of {}", known.join(", "))));
        }
        let term = |key: &str, own: &Option<String>| {
            let annotated = self.runtime[ANNOTATIONS][format!("tidegate/{key}")].as_str().map(str::to_owned);
            annotated.filter(|_| self.annotations.iter().any(|permitted| permitted == key)).or_else(|| own.clone())
        };
        let Terms { class, at_most, minimum } = &self.terms;
        let (class, at_most, minimum) = (term("class", class), term("at-most", at_most), term("minimum", minimum));
        for (key, rate) in [("at-most", &at_most), ("minimum", &minimum)] {
            if let Some(Err(wrong)) = rate.as_ref().map(|rate| rate.parse::<Rate>()) {
                return Err(error(CONFIGURATION, format!("{key}: {wrong}")));
            }
        }
        Ok(Terms { class, at_most, minimum })
    }
}

/// The edits that give the terms to these addresses. There must be terms, unless annotations are `permitted` to have some.
fn added(name: &str, terms: &Terms, addresses: &[String], permitted: bool) -> Result<Vec<Edit>, Error> {
    let value = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let ceiling = terms.at_most.iter().map(|rate| value("at-most", rate));
    let rule =
        |class: &str| vec![value("name", name), value("class", class), value("host", &json!(addresses).to_string())];
    let edit = |section: &str, values| Edit::Add { section: section.into(), values };
    match (&terms.class, &terms.minimum) {
        (Some(_), Some(_)) => {
            let text =
                "`class` and `minimum`: a container with a minimum has a class of its own; leave one of them out";
            Err(error(CONFIGURATION, text))
        }
        (None, Some(minimum)) => {
            let class = [value("name", name), value("rate", minimum)].into_iter().chain(ceiling).collect();
            Ok(vec![edit("class", class), edit("rule", rule(name))])
        }
        (Some(class), None) => Ok(vec![edit("rule", rule(class).into_iter().chain(ceiling).collect())]),
        (None, None) if terms.at_most.is_some() => Err(error(
            CONFIGURATION,
            "`at-most` without `class` or `minimum`: name the class of which the container is a part",
        )),
        // Annotations may give it something, and do not have to.
        (None, None) if permitted => Ok(Vec::new()),
        (None, None) => Err(error(
            CONFIGURATION,
            "the container would be given nothing: write `class`, `at-most` or `minimum`, or permit them in `annotations`",
        )),
    }
}

/// The addresses of the container, from the result of the plugin that gave them.
fn addresses(previous: &Value) -> Result<Vec<String>, Error> {
    let all = previous["ips"].as_array().into_iter().flatten().filter_map(|one| one["address"].as_str());
    let parsed = all.map(|text| {
        let address = text.split_once('/').map_or(text, |(address, _)| address).parse::<std::net::IpAddr>();
        address.map(|address| address.to_string()).map_err(|_| error(CONTENT, format!("`{text}` is not an address")))
    });
    let found = parsed.collect::<Result<Vec<_>, _>>()?;
    if found.is_empty() {
        Err(error(CONFIGURATION, "the container has no address by which it could be shaped"))
    } else {
        Ok(found)
    }
}

/// A connection to the shaper, and the directory of its socket.
fn client(network: &Network) -> Result<(Client, PathBuf), Error> {
    let place = match (&network.control, &network.interface) {
        (Some(path), _) => Place::Path(path.clone()),
        (None, Some(interface)) => Place::Interface(interface.clone()),
        (None, None) => Place::Any,
    };
    let path = place.find().map_err(|failed| error(LATER, failed.to_string()))?;
    let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
    Ok((connect(&path)?, directory))
}

/// Replaces what the container has by what `edits` add.
fn change(network: &Network, name: &str, edits: Vec<Edit>) -> Result<(), Error> {
    let (mut client, directory) = client(network)?;
    // Rules are removed by their numbers, which another plugin may change at the same time.
    let _lock = locked(&directory)?;
    let mut all = removed(&in_force(&mut client, network)?, name);
    all.extend(edits);
    if !all.is_empty() {
        client.apply(&Apply { direction: network.direction.clone(), edits: all, ..Apply::default() })?;
    }
    Ok(())
}

/// Locks a file that only the user of the runtime can open. Everybody may open the directory, and could hold a lock of it to keep
/// containers from starting.
fn locked(directory: &Path) -> Result<File, Error> {
    let path = directory.join("cni.lock");
    let failed = |failed: &dyn std::fmt::Display| error(LATER, format!("cannot lock {}: {failed}", path.display()));
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

fn in_force(client: &mut Client, network: &Network) -> Result<toml::Table, Error> {
    let text = client.in_force(&InForce { direction: network.direction.clone() })?;
    text.parse().map_err(|failed| error(REFUSED, format!("the file in force cannot be read: {failed}")))
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

//! `tidegate cni`: a chained plugin of the Container Network Interface (CNI 0.3 to 1.0). A container has its class, ceiling and
//! minimum from the configuration of its network, or from its annotations.
//!
//! The runtime passes the command and the container in the environment, and the configuration on standard input. What a container
//! is given is one rule of the running shaper, and a class of its own where it has a minimum. Both are named after the container
//! and its interface, so that they are found again when it ends.

use std::io::{self, Read, Write};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Error, LONGEST, Problem, Shaper, Terms, error, is_plain, shortened};
use crate::Failure;

/// The versions whose configurations and results have the form that is read here.
const VERSIONS: [&str; 4] = ["0.3.0", "0.3.1", "0.4.0", "1.0.0"];
/// The capability by which a runtime passes the annotations of a pod, as containerd and CRI-O name it.
const ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";

/// Give a container its class, ceiling and minimum, as a chained CNI plugin: for container runtimes
///
/// A runtime passes the command in the environment (CNI_COMMAND, CNI_CONTAINERID, CNI_IFNAME) and the configuration of the
/// network on standard input, and reads the result from standard output. It starts plugins without arguments: under the name
/// tidegate-cni this program is the plugin, so that a symbolic link in /opt/cni/bin serves. `tidegate book promise` has the
/// configuration, and a call by hand.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// The configuration of the network, as far as it is ours.
#[derive(Debug, Deserialize)]
struct Network {
    #[serde(rename = "cniVersion")]
    version: String,
    #[serde(flatten)]
    shaper: Shaper,
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

impl Problem {
    /// The code of the specification; 100 is one of our own.
    fn code(self) -> u32 {
        match self {
            Self::Version => 1,
            Self::Environment => 4,
            Self::Content => 6,
            Self::Configuration => 7,
            Self::Later => 11,
            Self::Refused => 100,
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
    let read =
        read.map_err(|wrong| error(Problem::Content, format!("standard input is not the JSON of a network: {wrong}")));
    let answer = read.and_then(answer).map_err(|error| {
        (json!({ "cniVersion": version, "code": error.kind.code(), "msg": error.text, "details": error.details }), 1)
    });
    let (answer, code) = answer.map_or_else(|failed| failed, |answer| (answer.unwrap_or_default(), 0));
    if !answer.is_null() {
        writeln!(crate::output::stdout(), "{answer}")?;
    }
    if code == 0 { Ok(()) } else { Err(Failure::Exit(code, String::new())) }
}

/// Returns the text to print where the command succeeds.
fn answer(read: Value) -> Result<Option<Value>, Error> {
    let command = variable("CNI_COMMAND")?;
    if command == "VERSION" {
        return Ok(Some(json!({ "cniVersion": "1.0.0", "supportedVersions": VERSIONS })));
    }
    let network: Network = serde_json::from_value(read).map_err(|failed| {
        error(Problem::Content, format!("the configuration of the network cannot be read: {failed}"))
    })?;
    if !VERSIONS.contains(&network.version.as_str()) {
        return Err(error(
            Problem::Version,
            format!("version {} of CNI is none of {}", network.version, VERSIONS.join(", ")),
        ));
    }
    let name = name(&variable("CNI_CONTAINERID")?, &variable("CNI_IFNAME")?)?;
    match command.as_str() {
        "ADD" => {
            let previous = network.previous.clone();
            let previous = previous.ok_or_else(|| {
                error(
                    Problem::Configuration,
                    "there is no prevResult: put this plugin after the one that makes the interface",
                )
            })?;
            let permitted = !network.annotations.is_empty();
            let edits = network.terms()?.added(&name, &addresses(&previous)?, permitted)?;
            network.shaper.change(&name, edits)?;
            Ok(Some(previous))
        }
        "DEL" => network.shaper.remove(&name).map(|()| None),
        "CHECK" if !network.shaper.has(&name)? => Err(error(
            Problem::Refused,
            format!("the shaper has no rule {name} for this container; it may have been restarted"),
        )),
        "CHECK" => Ok(None),
        other => Err(error(Problem::Environment, format!("CNI_COMMAND is {other}, not ADD, DEL, CHECK or VERSION"))),
    }
}

fn variable(name: &str) -> Result<String, Error> {
    std::env::var(name).ok().filter(|value| !value.is_empty()).ok_or_else(|| {
        error(Problem::Environment, format!("{name} is not set: a container runtime starts this command, not a person"))
    })
}

/// The name of the rule and the class of a container.
fn name(container: &str, interface: &str) -> Result<String, Error> {
    if !is_plain(container) || !is_plain(interface) || interface.len() > 15 {
        let text = format!("`{container}` and `{interface}` are not the names of a container and an interface");
        return Err(error(Problem::Environment, text));
    }
    Ok(format!("cni-{}-{interface}", shortened(container)))
}

impl Network {
    /// The terms that the container is given: by its annotations where these are permitted, and otherwise by the network.
    fn terms(&self) -> Result<Terms, Error> {
        let annotations = &self.runtime[ANNOTATIONS];
        let annotated = |key: &str| annotations[format!("tidegate/{key}")].as_str().map(str::to_owned);
        self.terms.annotated(&self.annotations, annotated)
    }
}

/// The addresses of the container, from the result of the plugin that gave them.
fn addresses(previous: &Value) -> Result<Vec<String>, Error> {
    let all = previous["ips"].as_array().into_iter().flatten().filter_map(|one| one["address"].as_str());
    let parsed = all.map(|text| {
        let address = text.split_once('/').map_or(text, |(address, _)| address).parse::<std::net::IpAddr>();
        address
            .map(|address| address.to_string())
            .map_err(|_| error(Problem::Content, format!("`{text}` is not an address")))
    });
    let found = parsed.collect::<Result<Vec<_>, _>>()?;
    if found.is_empty() {
        Err(error(Problem::Configuration, "the container has no address by which it could be shaped"))
    } else {
        Ok(found)
    }
}

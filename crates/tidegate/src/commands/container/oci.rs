//! `tidegate oci`: a hook of the OCI runtime specification (runc, crun, youki; Podman and CRI-O by their hooks). A container has its
//! class, ceiling and minimum from the arguments of the hook, or from its annotations.
//!
//! The runtime passes the state of the container on standard input. As `createRuntime` the hook runs when the namespaces of the
//! container are made and before its program starts; as `poststop` after the container has been deleted.

use std::collections::HashMap;
use std::io::{self, Read};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use serde::Deserialize;
use tidegate_live::netns::Namespace;

use super::{Error, LONGEST, Problem, Shaper, Terms, error, is_plain, shortened};
use crate::Failure;

/// Give a container its class, ceiling and minimum, as an OCI hook: for container runtimes
///
/// The hook of createRuntime adds a rule for the addresses that the container has by then, and the hook of poststop removes it.
/// Both are this command; the state of the container on standard input says which one it is. `tidegate book promise` has the
/// configuration for runc, Podman, CRI-O and Docker. With --runtime it is a runtime, for Docker: it adds these hooks, and leaves the rest
/// to another one.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The path of the control socket; by default it is looked for
    #[arg(long, value_name = "PATH")]
    control: Option<std::path::PathBuf>,
    /// The shaped interface, where there are several
    #[arg(long, short, value_name = "NAME")]
    interface: Option<String>,
    /// The direction, where both are shaped apart from each other: up or down
    #[arg(long, value_name = "NAME")]
    direction: Option<String>,
    /// The class of containers without an annotation of it
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// Their ceiling
    #[arg(long, value_name = "RATE")]
    at_most: Option<String>,
    /// Their minimum, in a class of its own for each
    #[arg(long, value_name = "RATE", conflicts_with = "class")]
    minimum: Option<String>,
    /// The terms that annotations (tidegate.class, tidegate.at-most, tidegate.minimum) may set: class, at-most, minimum
    ///
    /// None by default, because whoever starts a container writes its annotations.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    annotations: Vec<String>,
    /// Be a runtime: add the hooks to the container that the words behind -- create, and run this program with them
    #[arg(long, value_name = "PROGRAM")]
    runtime: Option<std::path::PathBuf>,
    /// The words that a runtime is called with
    #[arg(last = true, value_name = "WORDS", requires = "runtime")]
    words: Vec<std::ffi::OsString>,
}

impl Args {
    /// The arguments of a hook with these options.
    fn of_hook(&self) -> Vec<String> {
        let Self { control, interface, direction, class, at_most, minimum, annotations, .. } = self;
        let control = control.as_ref().map(|path| path.display().to_string());
        let annotations = (!annotations.is_empty()).then(|| annotations.join(","));
        let options = [
            ("--control", &control),
            ("--interface", interface),
            ("--direction", direction),
            ("--class", class),
            ("--at-most", at_most),
            ("--minimum", minimum),
            ("--annotations", &annotations),
        ];
        let given = options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value.clone()?]));
        ["tidegate".into(), "oci".into()].into_iter().chain(given.flatten()).collect()
    }
}

/// The state of a container, as far as it is used.
#[derive(Debug, Deserialize)]
struct State {
    id: String,
    status: Status,
    /// The first process, in the numbers of the host; absent or 0 where there is none.
    #[serde(default)]
    pid: u32,
    #[serde(default)]
    annotations: HashMap<String, String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Creating,
    Created,
    Running,
    Stopped,
}

/// Runs the command. Runtimes print its messages when it fails, and do not start the container.
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(runtime) = &args.runtime {
        return super::runtime::run(runtime, &args.words, &args.of_hook());
    }
    let mut text = String::new();
    io::stdin().take(LONGEST).read_to_string(&mut text)?;
    hook(args, &text).map_err(|error| {
        let remedy = if error.details.is_empty() { String::new() } else { format!("; {}", error.details) };
        let text = format!("{}{remedy}", error.text);
        if error.kind == Problem::Configuration { Failure::Usage(text) } else { Failure::Failed(text) }
    })
}

fn hook(args: &Args, text: &str) -> Result<(), Error> {
    let state: State = serde_json::from_str(text).map_err(|wrong| {
        let text = format!("standard input is not the state of a container, which a runtime passes to a hook: {wrong}");
        error(Problem::Content, text)
    })?;
    if !is_plain(&state.id) {
        return Err(error(Problem::Content, format!("`{}` is not the name of a container", state.id)));
    }
    let name = format!("oci-{}", shortened(&state.id));
    let (control, interface, direction) = (args.control.clone(), args.interface.clone(), args.direction.clone());
    let shaper = Shaper { interface, control, direction };
    if state.status == Status::Stopped {
        return shaper.remove(&name);
    }
    let own = Terms { class: args.class.clone(), at_most: args.at_most.clone(), minimum: args.minimum.clone() };
    let terms = own.annotated(&args.annotations, |key| state.annotations.get(&format!("tidegate.{key}")).cloned())?;
    if terms.is_empty() && !args.annotations.is_empty() {
        // Annotations may give it something, and do not have to: then its addresses are of no interest.
        return Ok(());
    }
    let edits = terms.added(&name, &addresses(state.pid)?, false)?;
    shaper.change(&name, edits)
}

/// The addresses in the network namespace of a process, without those that only that namespace sees.
fn addresses(pid: u32) -> Result<Vec<String>, Error> {
    let failed = |failed: &dyn std::fmt::Display| {
        error(Problem::Content, format!("the addresses of process {pid} cannot be read: {failed}"))
    };
    let of = Namespace::of_process(pid).map_err(|error| failed(&error))?;
    let own = Namespace::current().and_then(|own| own.id()).map_err(|error| failed(&error))?;
    if of.id().map_err(|error| failed(&error))? == own {
        let text = "the container shares the network of the host, and has no address of its own";
        let details =
            "start it with a network of its own, or give a rule of the shaper file its control group (cgroup)";
        return Err(Error { details: details.into(), ..error(Problem::Configuration, text) });
    }
    let found =
        of.run(|| getifaddrs().map(|found| found.filter_map(|one| one.address).filter_map(reachable).collect()));
    let mut addresses: Vec<String> = found.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.is_empty() {
        let text = "the container has no address yet by which it could be shaped";
        let details = "its network must be made before this hook runs, or by a hook in front of it";
        return Err(Error { details: details.into(), ..error(Problem::Configuration, text) });
    }
    Ok(addresses)
}

/// The text of an address that others can reach.
fn reachable(address: SockaddrStorage) -> Option<String> {
    if let Some(address) = address.as_sockaddr_in() {
        let address = address.ip();
        return (!address.is_loopback() && !address.is_link_local()).then(|| address.to_string());
    }
    let address = address.as_sockaddr_in6()?.ip();
    (!address.is_loopback() && !address.is_unicast_link_local()).then(|| address.to_string())
}

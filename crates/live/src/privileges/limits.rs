//! Limits of the kernel on the resources of a process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Capabilities, Priority};

/// The number of open files below which a message warns: one for each client, and a few dozen of the process itself.
const FILES: u64 = 1_024;

/// Raises the limits that shaping needs, as far as the process may, and returns messages about those that remain too low.
///
/// Open files are allowed up to the hard limit, which is left as it is: an administrator may have set it. Real-time
/// scheduling of the two lowest priorities and locked memory are allowed for the process, so that no capability is needed for
/// them, unless `priority` asks for neither.
pub fn raise_limits(priority: Priority) -> Vec<String> {
    let mut messages = Vec::new();
    let files = getrlimit(Resource::Nofile);
    // Refused or not, the limit that holds is examined.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).is_ok();
    if let Some(files) = if raised { files.maximum } else { files.current }.filter(|files| *files < FILES) {
        let text = format!("at most {files} files may be open, and each client takes one");
        messages.push(format!("{text}; raise the limit to {FILES} or more: ulimit -Hn, LimitNOFILE="));
    }
    if priority == Priority::RealTime {
        // Refusals are reported where the data path asks for what these allow.
        // One for the data path, and one above it for the guardian.
        raise(Resource::Rtprio, Some(2));
        raise(Resource::Memlock, None);
        if let Some(soft) = getrlimit(Resource::Rttime).current {
            let text = format!("a real-time thread is ended after {soft} us without a pause (RLIMIT_RTTIME)");
            messages.push(format!("{text}; remove that limit, or use --normal-priority"));
        }
    }
    for (resource, name, effect) in [
        (Resource::As, "RLIMIT_AS", "bytes of memory, beyond which shaping would end"),
        (Resource::Data, "RLIMIT_DATA", "bytes of data, beyond which shaping would end"),
        (Resource::Cpu, "RLIMIT_CPU", "seconds of processor time, after which shaping ends"),
    ] {
        if let Some(soft) = getrlimit(resource).current {
            messages.push(format!("limited to {soft} {effect}; remove the limit {name}"));
        }
    }
    messages
}

/// The capabilities that real-time scheduling and locked memory take where their limits could not be raised.
pub(super) fn needed(priority: Priority) -> Capabilities {
    let mut needed = Capabilities::NONE;
    if priority == Priority::RealTime {
        if getrlimit(Resource::Rtprio).current == Some(0) {
            needed = needed | Capabilities::SYS_NICE;
        }
        if getrlimit(Resource::Memlock).current.is_some() {
            needed = needed | Capabilities::IPC_LOCK;
        }
    }
    needed
}

/// Raises a limit to `value` at least; `None` is no limit.
fn raise(resource: Resource, value: Option<u64>) {
    let Rlimit { current: soft, maximum: hard } = getrlimit(resource);
    let higher = |one: Option<u64>, other: Option<u64>| Some(one?.max(other?));
    let lower = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
    let set = |current, maximum| setrlimit(resource, Rlimit { current, maximum });
    // Without CAP_SYS_RESOURCE the hard limit stays; as much of it as there is helps.
    if set(higher(soft, value), higher(hard, value)).is_err() {
        let _ = set(higher(lower(hard, value), soft), hard);
    }
}

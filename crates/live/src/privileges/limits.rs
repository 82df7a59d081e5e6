//! Limits of the kernel on the resources of a process.

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
    if let Some((soft, hard)) = get(libc::RLIMIT_NOFILE) {
        // Refused or not, the limit that holds is examined.
        let files = if set(libc::RLIMIT_NOFILE, hard, hard) { hard } else { soft };
        if files < FILES {
            let text = format!("at most {files} files may be open, and each client takes one");
            messages.push(format!("{text}; raise the limit to {FILES} or more: ulimit -Hn, LimitNOFILE="));
        }
    }
    if priority == Priority::RealTime {
        // Refusals are reported where the data path asks for what these allow.
        // One for the data path, and one above it for the guardian.
        raise(libc::RLIMIT_RTPRIO, 2);
        raise(libc::RLIMIT_MEMLOCK, libc::RLIM_INFINITY);
        if let Some((soft, _)) = get(libc::RLIMIT_RTTIME).filter(|(soft, _)| *soft != libc::RLIM_INFINITY) {
            let text = format!("a real-time thread is ended after {soft} us without a pause (RLIMIT_RTTIME)");
            messages.push(format!("{text}; remove that limit, or use --normal-priority"));
        }
    }
    for (resource, name, effect) in [
        (libc::RLIMIT_AS, "RLIMIT_AS", "bytes of memory, beyond which shaping would end"),
        (libc::RLIMIT_DATA, "RLIMIT_DATA", "bytes of data, beyond which shaping would end"),
        (libc::RLIMIT_CPU, "RLIMIT_CPU", "seconds of processor time, after which shaping ends"),
    ] {
        if let Some((soft, _)) = get(resource).filter(|(soft, _)| *soft != libc::RLIM_INFINITY) {
            messages.push(format!("limited to {soft} {effect}; remove the limit {name}"));
        }
    }
    messages
}

/// The capabilities that real-time scheduling and locked memory take where their limits could not be raised.
pub(super) fn needed(priority: Priority) -> Capabilities {
    let mut needed = Capabilities::NONE;
    if priority == Priority::RealTime {
        if get(libc::RLIMIT_RTPRIO).is_none_or(|(soft, _)| soft == 0) {
            needed = needed | Capabilities::SYS_NICE;
        }
        if get(libc::RLIMIT_MEMLOCK).is_none_or(|(soft, _)| soft != libc::RLIM_INFINITY) {
            needed = needed | Capabilities::IPC_LOCK;
        }
    }
    needed
}

/// Raises a limit to `value` at least.
fn raise(resource: libc::__rlimit_resource_t, value: u64) {
    if let Some((soft, hard)) = get(resource) {
        // Without CAP_SYS_RESOURCE the hard limit stays; as much of it as there is helps.
        if !set(resource, soft.max(value), hard.max(value)) {
            let _ = set(resource, hard.min(value).max(soft), hard);
        }
    }
}

/// The soft and the hard limit.
fn get(resource: libc::__rlimit_resource_t) -> Option<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is live for the call.
    (unsafe { libc::getrlimit(resource, &mut limit) } == 0).then_some((limit.rlim_cur, limit.rlim_max))
}

fn set(resource: libc::__rlimit_resource_t, soft: u64, hard: u64) -> bool {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: `limit` is live for the call.
    unsafe { libc::setrlimit(resource, &limit) == 0 }
}

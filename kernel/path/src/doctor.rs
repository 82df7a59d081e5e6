//! Whether the kernel of this machine takes the data path.

use tidegate_live::doctor::{Finding, Severity};

use crate::bpf::LoadError;
use crate::programs::examine;

/// Loads the program and removes it again.
pub fn finding() -> Finding {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let (severity, found, remedy) = match examine() {
        Ok(()) => {
            (Severity::Fine, format!("Linux {release} takes the data path (data-path = \"kernel\")"), String::new())
        }
        Err(error @ LoadError::Permission(_)) => (
            Severity::Note,
            format!("whether Linux {release} takes the data path cannot be seen: {error}"),
            "only --in-kernel and `data-path` need it".into(),
        ),
        Err(error) => (
            Severity::Note,
            format!("Linux {release} does not take the data path: {error}"),
            "packets are queued in user space, which does all that a file can ask for; Linux from 6.16 with \
             CONFIG_NET_SCH_BPF and CONFIG_DEBUG_INFO_BTF takes it"
                .into(),
        ),
    };
    Finding { about: "in kernel", severity, found, remedy }
}

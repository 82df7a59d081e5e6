//! The service manager, and its instance for the interface.

use std::path::Path;
use std::process::Command;

use super::{Examination, Severity};

pub(super) fn service(found: &mut Examination, interface: Option<&str>) {
    if !Path::new("/run/systemd/system").exists() {
        found.add(
            "service",
            Severity::Note,
            "systemd does not run here: tidegate is not restarted if it dies",
            "have your own service manager run `tidegate run FILE`, and start it again when it ends",
        );
        return;
    }
    found.fine("service", "systemd runs here");
    if let Some(interface) = interface {
        instance(found, &format!("tidegate@{interface}"));
    }
}

/// Examines the service manager's state of the instance for the interface.
fn instance(found: &mut Examination, unit: &str) {
    let asked = Command::new("systemctl")
        .args(["show", &format!("{unit}.service"), "--property=ActiveState,Result,UnitFileState"])
        .output();
    // Without a reply there is no finding.
    let Ok(output) = asked else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    let property = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap_or("");
    match (property("ActiveState"), property("UnitFileState")) {
        ("failed", _) => found.add(
            "service",
            Severity::Weakens,
            format!("{unit} has failed ({}) and is not tried again: nothing is shaped by it", property("Result")),
            format!("see `systemctl status {unit}`, fix what it reports, then: systemctl restart {unit}"),
        ),
        ("inactive", "enabled") => found.add(
            "service",
            Severity::Note,
            format!("{unit} is enabled and does not run"),
            format!("systemctl start {unit}"),
        ),
        ("active", _) => found.fine("service", format!("{unit} runs")),
        _ => {}
    }
}

//! The place of this machine: which interface to shape, and the commands for it.

use super::{Examination, Severity};
use crate::uplink::{Uplink, Uplinks};

/// Compares the interface that is named with the uplinks; returns the one to examine, where none is named.
pub(super) fn place(found: &mut Examination, named: Option<&str>) -> Option<String> {
    let uplinks = match Uplinks::find() {
        Ok(uplinks) => uplinks,
        Err(error) => {
            found.add("place", Severity::Note, error.to_string(), "");
            return None;
        }
    };
    let Some(first) = uplinks.all.first() else {
        found.add("place", Severity::Note, "there is no default route, so the uplink is not known", "");
        return None;
    };
    match named {
        Some(name) if uplinks.get(name).is_none() => {
            let names: Vec<_> = uplinks.all.iter().map(|uplink| uplink.name.as_str()).collect();
            // What stands below the uplink is refused by its own finding.
            let sides = match uplinks.all.iter().any(|uplink| uplink.below.iter().any(|below| below.name == name)) {
                true => "",
                false => {
                    "; where it leads to hosts, what comes from the Internet leaves by it, and the rates are exchanged"
                }
            };
            let text = format!("{name} is not an uplink: the default route leaves by {}{sides}", names.join(", "));
            found.add("place", Severity::Note, text, advice(&uplinks, first));
        }
        Some(name) => {
            let uplink = uplinks.get(name).unwrap_or(first);
            found.add("place", Severity::Note, description(&uplinks, uplink), advice(&uplinks, uplink));
        }
        None => {
            for uplink in &uplinks.all {
                found.add("place", Severity::Note, description(&uplinks, uplink), advice(&uplinks, uplink));
            }
        }
    }
    Some(first.name.clone())
}

fn description(uplinks: &Uplinks, uplink: &Uplink) -> String {
    let remarks = uplinks.remarks(uplink);
    let remarks = if remarks.is_empty() { String::new() } else { format!(". {}", remarks.join("; ")) };
    format!("the uplink is {uplink}: shape {}{remarks}", uplink.name)
}

fn advice(uplinks: &Uplinks, uplink: &Uplink) -> String {
    format!(
        "tidegate setup --interface {}; or by hand:\n{}",
        uplink.name,
        uplinks.commands(uplink, "RATE", "RATE").join("\n")
    )
}

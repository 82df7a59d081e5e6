//! Whether a file is meant as a shaper file or as a scenario of the simulator.

use std::io::Write;
use std::path::Path;

use tidegate_config::node::{self, Node};
use tidegate_config::{Diagnostics, Source};

use crate::Failure;

/// The two kinds of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// A shaper file.
    Shaper,
    /// A scenario of the simulator.
    Scenario,
}

impl Meaning {
    /// The kind that a file is meant as, by keys that only this kind has; `None` if it has none of them, or of both.
    pub fn of(source: &Source) -> Option<Self> {
        let root = Node::parse(source, &mut Diagnostics::new());
        let Some(Node { value: node::Value::Table(entries), .. }) = root else { return None };
        let has = |keys: &[&str]| entries.iter().any(|entry| keys.contains(&entry.key.as_str()));
        let scenario = has(&["duration", "hosts", "routers", "flow", "link"]);
        match (scenario, has(&["interface", "shaper", "class", "discipline", "rule", "up", "down"])) {
            (true, false) => Some(Self::Scenario),
            (false, true) => Some(Self::Shaper),
            _ => None,
        }
    }
}

/// Refuses a scenario where a shaper file is wanted.
pub(super) fn refuse_scenario(source: &Source) -> Result<(), Failure> {
    match Meaning::of(source) {
        Some(Meaning::Scenario) => Err(Failure::Usage(format!(
            "{}: this is a scenario of the simulator, not a shaper file; `tidegate simulate` runs it",
            source.name()
        ))),
        _ => Ok(()),
    }
}

#[cfg(not(feature = "lab"))]
pub(super) fn check_scenario(_: bool, _: &Path, source: &Source, _: &mut impl Write) -> Result<(), Failure> {
    refuse_scenario(source)
}

/// Checks a scenario of the simulator.
#[cfg(feature = "lab")]
pub(super) fn check_scenario(json: bool, file: &Path, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
    use crate::commands::scenario;
    let mut diagnostics = Diagnostics::new();
    let loaded = scenario::read(source, scenario::beside(file), &mut diagnostics);
    if json {
        let findings: Vec<serde_json::Value> = diagnostics.iter().map(|d| super::finding_json(d, source)).collect();
        let whole = serde_json::json!({
            "file": source.name(), "valid": loaded.is_some(), "findings": findings,
            "scenario": loaded.as_ref().map(scenario::to_json),
        });
        writeln!(out, "{whole:#}")?;
    } else {
        super::say(&diagnostics, source);
        if let Some(loaded) = &loaded {
            scenario::describe(out, source, loaded)?;
            out.flush()?;
            if file.as_os_str() != "-" {
                crate::output::hint(&format!("`tidegate simulate {}` runs it", file.display()));
            }
        }
    }
    out.flush()?;
    loaded.map(|_| ()).ok_or_else(|| super::refusal(&diagnostics, source))
}

//! [`Parser`]: the state of parsing, and its errors.

use std::collections::HashMap;

use tidegate_config::{Diagnostics, Place, Source, suggest};
use tidegate_core::Instant;

use crate::script::{Limits, Script};

/// Returned for a statement with an error that has already been reported.
pub(super) struct Reported;
pub(super) type Parsed<T> = Result<T, Reported>;

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) diagnostics: Diagnostics,
    /// The errors of the files to which the script refers.
    pub(super) foreign: Vec<(Source, Diagnostics)>,
    pub(super) script: Script,
    pub(super) names: HashMap<String, usize>,
    pub(super) now: Instant,
}

impl<'a> Parser<'a> {
    pub(super) fn new(source: &'a Source, limits: Limits) -> Self {
        let script = Script {
            source: Source::new("", ""),
            subject: None,
            subject_place: Place::default(),
            seed: 1,
            flows: Vec::new(),
            headers: Vec::new(),
            steps: Vec::new(),
            configs: Vec::new(),
            until: None,
            expectations: Vec::new(),
            limits,
        };
        Self {
            text: source.text(),
            diagnostics: Diagnostics::new(),
            foreign: Vec::new(),
            script,
            names: HashMap::new(),
            now: Instant::ZERO,
        }
    }

    pub(super) fn error<T>(&mut self, place: Place, message: impl Into<String>, help: impl Into<String>) -> Parsed<T> {
        self.diagnostics.error(place, message).help(help);
        Err(Reported)
    }

    /// The number of the flow called `name`.
    pub(super) fn lookup(&mut self, name: &str, place: Place) -> Parsed<usize> {
        if let Some(number) = self.names.get(name) {
            return Ok(*number);
        }
        if matches!(name, "at" | "after") {
            let help = format!("begin the line with it: {name} 5ms send a");
            return self.error(place, format!("`{name}` must be before the statement whose time it specifies"), help);
        }
        let known: Vec<&str> = self.script.flows.iter().map(|flow| flow.name.as_str()).collect();
        let help = match suggest::nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("define it first: flow {name} size 1000"),
        };
        self.error(place, format!("no flow is called `{name}`"), help)
    }
}

//! What waits before a transmitter, as it is written: a discipline, or a whole shaper file.

use std::sync::Arc;

use tidegate_config::decode::mismatch;
use tidegate_config::discipline::Discipline;
use tidegate_config::node::{Node, Value};
use tidegate_config::shaper::{Config, Embedded};
use tidegate_config::{Decode, Diagnostics, Schemas, Spanned};

tidegate_config::record! {
    /// A whole shaper file: the engine runs it on the link as it runs it on an interface.
    pub struct ShaperSection as "shaper of a link" {
        /// The name of the file, beside the scenario; or its tables.
        pub shaper: Spanned<Embedded>,
        /// In how many shards: engines, each with a part of the flows, that have the rates of the file in common, as live
        /// where it runs in several threads. Default 1; at most 64.
        pub shards: Spanned<u64> = 1,
    }
}

/// The queue before a transmitter.
#[derive(Clone, Debug)]
pub enum QueueSection {
    /// A discipline, chosen by `kind`.
    Discipline(Box<Discipline>),
    /// A shaper file, named by `shaper`.
    Shaper(ShaperSection),
}

impl Decode for QueueSection {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        let Value::Table(entries) = &node.value else {
            let help = "write { kind = \"fifo\" }, or { shaper = \"office.toml\" }";
            mismatch(node, "a discipline or a shaper", help, diagnostics);
            return None;
        };
        if entries.iter().any(|entry| entry.key == "shaper") {
            ShaperSection::decode(node, diagnostics).map(Self::Shaper)
        } else {
            Discipline::decode(node, diagnostics).map(Box::new).map(Self::Discipline)
        }
    }
    fn example() -> String {
        Discipline::example()
    }
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        let (discipline, shaper) = (Discipline::schema(schemas), ShaperSection::schema(schemas));
        serde_json::json!({ "anyOf": [discipline, shaper] })
    }
}

/// The queue before a transmitter, validated.
#[derive(Clone, Debug)]
pub(super) enum LinkQueue {
    Discipline(Box<Discipline>),
    /// With the number of shards.
    Shaper(Arc<Config>, usize),
}

impl LinkQueue {
    /// The names of the classes of a discipline. Those of a shaper file are chosen by its rules.
    pub fn classes(&self) -> Vec<&str> {
        match self {
            Self::Discipline(discipline) => discipline.classes(),
            Self::Shaper(..) => Vec::new(),
        }
    }
    /// The names of the profiles of a discipline.
    pub fn profiles(&self) -> Vec<&str> {
        match self {
            Self::Discipline(discipline) => discipline.profiles(),
            Self::Shaper(..) => Vec::new(),
        }
    }
    /// The shaper file, where it is one.
    pub fn shaper(&self) -> Option<&Arc<Config>> {
        match self {
            Self::Discipline(_) => None,
            Self::Shaper(config, _) => Some(config),
        }
    }
    /// The number of engines that it is divided over.
    pub fn shards(&self) -> usize {
        match self {
            Self::Discipline(_) => 1,
            Self::Shaper(_, shards) => *shards,
        }
    }
}

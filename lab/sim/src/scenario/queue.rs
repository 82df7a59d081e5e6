//! Queues of links, as written in the file: a discipline, or a whole shaper file.

use std::sync::Arc;

use tidegate_config::decode::mismatch;
use tidegate_config::discipline::Discipline;
use tidegate_config::node::{Node, Value};
use tidegate_config::shaper::{Config, Embedded};
use tidegate_config::{Decode, Diagnostics, Schemas, Spanned, suggest};

tidegate_config::record! {
    /// A whole shaper file. The engine runs it on the link as it does on an interface. Its rate should be at most that of the link, and
    /// below those of the links before it, or the bottleneck is elsewhere; the utilisation of the link is that of the line.
    pub struct ShaperSection as "shaper of a link" {
        /// The name of the file, beside the scenario; or its tables.
        pub shaper: Spanned<Embedded>,
        /// The number of shards: engines that each handle a part of the flows and share the rates of the file, as in a
        /// live shaper with several threads. Default 1; at most 64.
        pub shards: Spanned<u64> = 1,
    }
}

/// The queue of a link.
#[derive(Clone, PartialEq, Debug)]
pub enum QueueSection {
    /// A discipline, chosen by `kind`.
    Discipline(Box<Discipline>),
    /// A shaper file, named by `shaper`.
    Shaper(ShaperSection),
}

impl Decode for QueueSection {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        let Value::Table(entries) = &node.value else {
            let kinds = Discipline::kinds();
            let kind = match &node.value {
                Value::Text(kind) if kinds.contains(&kind.as_str()) => kind.as_str(),
                _ => "fifo",
            };
            let help = format!("write {{ kind = \"{kind}\" }}, or {{ shaper = \"office.toml\" }}");
            mismatch(node, "a discipline or a shaper", &help, diagnostics);
            return None;
        };
        if entries.iter().any(|entry| entry.key == "shaper") {
            ShaperSection::decode(node, diagnostics).map(Self::Shaper)
        } else {
            let kind = entries.iter().find(|entry| entry.key == "kind").map(|entry| &entry.node);
            if let Some(Node { value: Value::Text(kind), place }) = kind
                && !Discipline::kinds().contains(&kind.as_str())
            {
                let help = suggest::help(kind, &Discipline::kinds());
                diagnostics
                    .error(*place, format!("no discipline of this program is called `{kind}`"))
                    .label("unknown")
                    .help(format!("{help}; for a discipline of your own run the binary of its crate"));
                return None;
            }
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

/// The validated queue of a link.
#[derive(Clone, Debug)]
pub(super) enum LinkQueue {
    Discipline(Box<Discipline>),
    /// The shaper file and the number of shards.
    Shaper(Arc<Config>, usize),
}

impl LinkQueue {
    /// The names of the classes of a discipline. The classes of a shaper file are not listed, because its rules choose
    /// them.
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
    /// The shaper file, if it is one.
    pub fn shaper(&self) -> Option<&Arc<Config>> {
        match self {
            Self::Discipline(_) => None,
            Self::Shaper(config, _) => Some(config),
        }
    }
    /// The number of engines.
    pub fn shards(&self) -> usize {
        match self {
            Self::Discipline(_) => 1,
            Self::Shaper(_, shards) => *shards,
        }
    }
}

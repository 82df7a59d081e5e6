//! The shaper file: what `tidegate run` enforces, `tidegate check` explains and the simulator can run too.
//!
//! [`load`] reads it, proves that its guarantees add up, and returns plain Rust types without places: a [`Config`]
//! in which every default is filled in and every name is a number.

mod both;
pub mod conditions;
mod config;
pub mod control;
pub mod file;
pub mod guarantees;
pub mod metrics;
mod resolve;
mod rules;

use crate::decode::{Decode, Record};
use crate::diagnostic::{Diagnostics, Source};
use crate::node::{Entry, Node, Value};
use crate::schema::Schemas;

pub use crate::classes::{
    Borrow, Bursts, Class, Displace, DividedBy, EcnFeedback, FairBy, Feedback, FlowBy, Match, Rule, Shaper, Sharing,
};
pub use conditions::{Owners, UnknownOwner};
pub use config::{Config, Interface, MOST_INTERFACES, MOST_THREADS, Root, Statistics};
pub use control::{Bounds, Control, EVENTS, Hook};
pub use file::{DataPath, Detail, Direction, Unattended};
pub use metrics::Metrics;

/// Reads a shaper file for one direction and checks it. `None` exactly when errors went to `diagnostics`; warnings may go
/// there in any case.
pub fn load(source: &Source, diagnostics: &mut Diagnostics) -> Option<Config> {
    let node = Node::parse(source, diagnostics)?;
    resolve::resolve(source.text().into(), node, diagnostics)
}

/// Reads a shaper file for one direction or both, and checks it: a configuration for each direction that is shaped, what
/// leaves first. `None` exactly when errors went to `diagnostics`.
pub fn load_all(source: &Source, diagnostics: &mut Diagnostics) -> Option<Vec<Config>> {
    both::load_all(source, diagnostics)
}

/// The file for one direction of a file for both. `None` when the text is no table, or has no such direction.
pub fn split(text: &str, direction: Direction) -> Option<String> {
    both::split(text, direction)
}

/// The file for both directions of a file for each; `None` when the tables that they have in common differ.
pub fn join(up: &str, down: &str) -> Option<String> {
    both::join(up, down)
}

/// A whole shaper file, or the same tables within another file: the value of a key of that file.
#[derive(Clone, Debug)]
pub enum Embedded {
    /// The name of a file.
    File(String),
    /// The tables. `version` may be left out.
    Tables(Box<Config>),
}

impl Decode for Embedded {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        match &node.value {
            Value::Text(name) => Some(Self::File(name.clone())),
            Value::Table(entries) => {
                let mut node = node.clone();
                if let Value::Table(own) = &mut node.value
                    && entries.iter().all(|entry| entry.key != "version")
                {
                    let version = Node { place: node.place, value: Value::Integer(Some(1)) };
                    own.insert(0, Entry { key: "version".into(), key_place: node.place, node: version });
                }
                let config = resolve::resolve(node.to_text().into(), node, diagnostics)?;
                Some(Self::Tables(Box::new(config)))
            }
            _ => {
                let wanted = "the name of a shaper file, or its tables";
                crate::decode::mismatch(node, wanted, "write for example \"office.toml\"", diagnostics);
                None
            }
        }
    }
    fn example() -> String {
        "\"office.toml\"".into()
    }
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        let tables = file::File::schema(schemas);
        serde_json::json!({ "anyOf": [{ "type": "string" }, tables] })
    }
}

/// The JSON Schema of a shaper file.
pub fn schema() -> serde_json::Value {
    crate::schema::document("Tidegate shaper file", file::File::object)
}

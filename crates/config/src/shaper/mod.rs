//! The shaper file, which `tidegate run` enforces, `tidegate check` explains and the simulator can run.
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
    Advice, Borrow, Bursts, Class, Displace, DividedBy, EcnFeedback, FairBy, Feedback, FlowBy, Follow, Match, Rule,
    Shaper, Sharing,
};
pub use conditions::{MOST_ADDRESSES, MOST_ANSWERED, Named, Owners, UnknownOwner};
pub use config::{Config, Interface, MOST_INTERFACES, MOST_THREADS, Root, Statistics};
pub use control::{Bounds, Control, EVENTS, Hook};
pub use file::{DataPath, Detail, Direction, Unattended};
pub use metrics::Metrics;

/// Reads and checks a shaper file for one direction. Returns `None` exactly if there are errors in `diagnostics`, which
/// may also get warnings.
pub fn load(source: &Source, diagnostics: &mut Diagnostics) -> Option<Config> {
    let node = Node::parse(source, diagnostics)?;
    resolve::resolve(source.text().into(), node, diagnostics)
}

/// Reads and checks a shaper file for one direction or both. Returns a configuration for each direction that is shaped,
/// egress first, or `None` exactly if there are errors in `diagnostics`.
pub fn load_all(source: &Source, diagnostics: &mut Diagnostics) -> Option<Vec<Config>> {
    both::load_all(source, diagnostics)
}

/// Extracts the file for one direction from a file for both. `None` if the text is no table or has no such direction.
pub fn split(text: &str, direction: Direction) -> Option<String> {
    both::split(text, direction)
}

/// Joins the files for each direction into one for both. `None` if the tables that both share differ.
pub fn join(up: &str, down: &str) -> Option<String> {
    both::join(up, down)
}

/// A reference to a shaper file, or its tables, as the value of a key of another file.
#[derive(Clone, Debug)]
pub enum Embedded {
    /// The name of a file.
    File(String),
    /// The tables. `version` may be left out.
    Tables(Box<Config>),
}

/// Tables are equal that have the same text.
impl PartialEq for Embedded {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(name), Self::File(other)) => name == other,
            (Self::Tables(config), Self::Tables(other)) => config.text == other.text,
            _ => false,
        }
    }
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

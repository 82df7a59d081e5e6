//! The transport of a flow in a file: `"tcp"`, `"udp"`, or a kind that another crate [`register`]s, by its word or as a
//! table.

use std::fmt;

use serde_json::{Value as Json, json};
use tidegate_config::decode::word;
use tidegate_config::node::{Node, Value};
use tidegate_config::{Decode, Diagnostics, Place, Record, Schemas};

use super::file::TransportWord;
use super::registry::Registry;
use crate::transport::Protocol;

/// A kind of transport from another crate, as a table in a file.
pub trait Kind: Record + fmt::Debug + Send + Sync + 'static {
    /// The word that selects this kind.
    const KIND: &'static str;

    /// Checks the combination of keys, and makes the transport. `place` is the place of the table.
    fn make(self, place: Place, diagnostics: &mut Diagnostics) -> Box<dyn Protocol>;
}

static KINDS: Registry<dyn Protocol> = Registry::new();

/// Makes a kind available in all scenarios that this process reads from now on. Has no effect if its word is registered
/// already.
pub fn register<K: Kind>() {
    KINDS.register::<K>(K::KIND, K::make);
}

/// The transport of a flow.
#[derive(Clone, Copy, Debug)]
pub enum FlowTransport {
    /// A word for a transport of the simulator.
    Own(TransportWord),
    /// A transport from another crate.
    Other(&'static dyn Protocol),
}

/// Transports from another crate are equal that are one, by address and functions: the registry keeps one for all tables with equal values.
impl PartialEq for FlowTransport {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Own(word), Self::Own(other)) => word == other,
            (Self::Other(one), Self::Other(other)) => std::ptr::eq(*one, *other),
            _ => false,
        }
    }
}

impl Decode for FlowTransport {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        let kinds = KINDS.kinds();
        if kinds.is_empty() {
            return TransportWord::decode(node, diagnostics).map(Self::Own);
        }
        if matches!(node.value, Value::Table(_)) {
            return KINDS.decode(node, "transport", diagnostics).map(Self::Other);
        }
        let own = TransportWord::ALL.iter().map(|own| (own.word(), Ok(*own)));
        let words: Vec<_> = own.chain(kinds.into_iter().map(|kind| (kind, Err(kind)))).collect();
        match word(node, "transport", &words, diagnostics)? {
            Ok(own) => Some(Self::Own(own)),
            Err(kind) => KINDS.decode_word(kind, node.place, diagnostics).map(Self::Other),
        }
    }
    fn example() -> String {
        TransportWord::example()
    }
    fn schema(schemas: &mut Schemas) -> Json {
        let mut words = TransportWord::schema(schemas);
        if let Some(words) = words["oneOf"].as_array_mut() {
            let with_defaults = |kind| json!({ "const": kind, "description": "With the default of every key." });
            words.extend(KINDS.kinds().into_iter().map(with_defaults));
        }
        KINDS.schema(words, schemas)
    }
}

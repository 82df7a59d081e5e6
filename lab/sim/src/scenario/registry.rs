//! [`Registry`]: kinds of something that other crates add to scenario files, each a table with the key `kind`.

use std::fmt;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use serde_json::{Value as Json, json};
use tidegate_config::decode::{kind, tagged};
use tidegate_config::node::{Node, Value};
use tidegate_config::{Diagnostics, Place, Record, Schemas};

/// Turns the checked section of a kind into what runs.
type Build<K, T> = fn(K, Place, &mut Diagnostics) -> Box<T>;
type Decode<T> = Box<dyn Fn(&Registry<T>, &Node, &mut Diagnostics) -> Option<&'static T> + Send + Sync>;

struct Entry<T: ?Sized + 'static> {
    kind: &'static str,
    decode: Decode<T>,
    schema: fn(&mut Schemas) -> Json,
}

/// The registered kinds of `T`. They are added before files are read and never removed.
pub(super) struct Registry<T: ?Sized + 'static> {
    entries: RwLock<Vec<Entry<T>>>,
    /// The values that were made of the tables that were read, by kind and values. Connections refer to it, so it is never removed. There
    /// is one entry for each different table that the process reads.
    made: RwLock<Vec<(String, &'static T)>>,
}

impl<T: ?Sized + Send + Sync + 'static> Registry<T> {
    pub const fn new() -> Self {
        Self { entries: RwLock::new(Vec::new()), made: RwLock::new(Vec::new()) }
    }

    fn entries(&self) -> RwLockReadGuard<'_, Vec<Entry<T>>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }
    /// The words of the kinds.
    pub fn kinds(&self) -> Vec<&'static str> {
        self.entries().iter().map(|entry| entry.kind).collect()
    }

    /// Adds a kind. Has no effect if its word is registered already.
    pub fn register<K: Record + fmt::Debug + 'static>(&self, word: &'static str, build: Build<K, T>) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if entries.iter().any(|entry| entry.kind == word) {
            return;
        }
        let decode = move |registry: &Self, node: &Node, diagnostics: &mut Diagnostics| {
            let section = K::decode(node, diagnostics)?;
            let text = format!("{word} {section:?}");
            let made = build(section, node.place, diagnostics);
            Some(registry.interned(text, made))
        };
        entries.push(Entry { kind: word, decode: Box::new(decode), schema: K::object });
    }

    /// Returns what was made earlier of the table whose debug form is `text`, or keeps `made` for it.
    fn interned(&self, text: String, made: Box<T>) -> &'static T {
        let mut all = self.made.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = all.iter().find(|(known, _)| *known == text) {
            return known;
        }
        let made: &'static T = Box::leak(made);
        all.push((text, made));
        made
    }

    /// Reads the table of a kind.
    pub fn decode(&self, node: &Node, title: &str, diagnostics: &mut Diagnostics) -> Option<&'static T> {
        let (kind, rest) = kind(node, title, "kind", &self.kinds(), diagnostics)?;
        self.decode_as(kind, &rest, diagnostics)
    }

    /// Reads the table of the kind `word` without the key that selects it.
    pub fn decode_as(&self, word: &str, rest: &Node, diagnostics: &mut Diagnostics) -> Option<&'static T> {
        let entries = self.entries();
        let entry = entries.iter().find(|entry| entry.kind == word)?;
        (entry.decode)(self, rest, diagnostics)
    }

    /// Reads the kind `word` with the defaults of all keys, as a file writes it without a table.
    pub fn decode_word(&self, word: &str, place: Place, diagnostics: &mut Diagnostics) -> Option<&'static T> {
        self.decode_as(word, &Node { place, value: Value::Table(Vec::new()) }, diagnostics)
    }

    /// The schema of `words` and of the tables of all kinds.
    pub fn schema(&self, words: Json, schemas: &mut Schemas) -> Json {
        let tables: Vec<_> = self.entries().iter().map(|entry| (entry.kind, entry.schema)).collect();
        if tables.is_empty() {
            return words;
        }
        let tables = tables.into_iter().map(|(kind, object)| tagged(object(schemas), "kind", kind));
        let all: Vec<Json> = std::iter::once(words).chain(tables).collect();
        json!({ "anyOf": all })
    }
}

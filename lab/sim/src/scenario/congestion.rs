//! The congestion control of a flow in a file: a word, or the table of a kind that another crate [`register`]s.
//!
//! ```
//! use tidegate_config::{Diagnostics, Source, record};
//! use tidegate_sim::scenario::{Scenario, congestion};
//! use tidegate_sim::tcp::{CongestionControl, Reno};
//!
//! record! {
//!     /// Reno with an initial window of its own.
//!     pub struct Bold as "bold control" {
//!         /// Times the usual initial window. Default 4.
//!         pub times: u64 = 4,
//!     }
//! }
//! impl congestion::Kind for Bold {
//!     const KIND: &'static str = "bold";
//!     fn make(&self, mss: u64, initial: u64) -> Box<dyn CongestionControl> {
//!         Box::new(Reno::new(mss, self.times * initial))
//!     }
//! }
//! congestion::register::<Bold>();
//!
//! let text = r#"
//!     version = 1
//!     duration = "5s"
//!     hosts = ["a", "b"]
//!     link = [{ from = "a", to = "b", rate = "10mbit" }]
//!     [[flow]]
//!     name = "bulk"
//!     from = "a"
//!     to = "b"
//!     workload = { kind = "bulk" }
//!     tcp.congestion = { kind = "bold", times = 8 }
//! "#;
//! assert!(Scenario::load(&Source::new("bold.toml", text), None, &mut Diagnostics::new()).is_some());
//! ```

use std::fmt;
use std::sync::{PoisonError, RwLock};

use serde_json::{Value as Json, json};
use tidegate_config::decode::{kind, tagged};
use tidegate_config::node::{Node, Value};
use tidegate_config::{Decode, Diagnostics, Place, Record, Schemas};

use super::file::AlgorithmWord;
use crate::tcp::{Algorithm, CongestionControl, Make};

/// A kind of congestion control from another crate, as a table in a file.
pub trait Kind: Record + fmt::Debug + Send + Sync + 'static {
    /// The word that selects this kind.
    const KIND: &'static str;

    /// Checks the combination of keys. `place` is the place of the table.
    fn check(&self, _place: Place, _diagnostics: &mut Diagnostics) {}

    /// Creates the control of a connection in slow start, for segments of `mss` bytes and an initial window of
    /// `initial` bytes.
    fn make(&self, mss: u64, initial: u64) -> Box<dyn CongestionControl>;
}

/// A registered kind, as a table of functions that the word alone selects.
struct Entry {
    kind: &'static str,
    decode: fn(&Node, &mut Diagnostics) -> Option<&'static Make>,
    schema: fn(&mut Schemas) -> Json,
}

/// The registered kinds. They are added before files are read and never removed.
static ENTRIES: RwLock<Vec<Entry>> = RwLock::new(Vec::new());

/// The tables that were read, by kind and values. An [`Algorithm`] is copied into each connection, so the constructor
/// to which it refers is never removed. There is one entry for each different table that the process reads.
static TABLES: RwLock<Vec<(String, &'static Make)>> = RwLock::new(Vec::new());

/// Makes a kind available in all scenarios that this process reads from now on. Has no effect if its word is registered
/// already.
pub fn register<K: Kind>() {
    let mut entries = ENTRIES.write().unwrap_or_else(PoisonError::into_inner);
    if entries.iter().any(|entry| entry.kind == K::KIND) {
        return;
    }
    entries.push(Entry {
        kind: K::KIND,
        decode: |node, diagnostics| {
            let section = K::decode(node, diagnostics)?;
            section.check(node.place, diagnostics);
            Some(interned(format!("{} {section:?}", K::KIND), section))
        },
        schema: |schemas| tagged(K::object(schemas), "kind", K::KIND),
    });
}

/// Returns the constructor of the table whose debug form is `text`.
fn interned<K: Kind>(text: String, section: K) -> &'static Make {
    let mut tables = TABLES.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(make) = tables.iter().find(|(known, _)| *known == text).map(|(_, make)| *make) {
        return make;
    }
    let make: &'static Make = Box::leak(Box::new(move |mss, initial| section.make(mss, initial)));
    tables.push((text, make));
    make
}

/// The congestion control of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Congestion(Algorithm);

impl Congestion {
    /// The algorithm of the flow's connections.
    pub fn algorithm(self) -> Algorithm {
        self.0
    }
}

impl Decode for Congestion {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        let kinds: Vec<&'static str> =
            ENTRIES.read().unwrap_or_else(PoisonError::into_inner).iter().map(|entry| entry.kind).collect();
        if kinds.is_empty() || !matches!(node.value, Value::Table(_)) {
            let word = AlgorithmWord::decode(node, diagnostics)?;
            return Some(Self(match word {
                AlgorithmWord::Reno => Algorithm::Reno,
                AlgorithmWord::Cubic => Algorithm::Cubic,
                AlgorithmWord::Dctcp => Algorithm::Dctcp,
                AlgorithmWord::Prague => Algorithm::Prague,
                AlgorithmWord::Bbr => Algorithm::Bbr,
            }));
        }
        let (kind, rest) = kind(node, "congestion control", "kind", &kinds, diagnostics)?;
        let decode = {
            let entries = ENTRIES.read().unwrap_or_else(PoisonError::into_inner);
            entries.iter().find(|entry| entry.kind == kind)?.decode
        };
        decode(&rest, diagnostics).map(|make| Self(Algorithm::Custom(make)))
    }
    fn example() -> String {
        AlgorithmWord::example()
    }
    fn schema(schemas: &mut Schemas) -> Json {
        let words = AlgorithmWord::schema(schemas);
        let others: Vec<_> =
            ENTRIES.read().unwrap_or_else(PoisonError::into_inner).iter().map(|entry| entry.schema).collect();
        if others.is_empty() {
            return words;
        }
        let all: Vec<Json> = std::iter::once(words).chain(others.into_iter().map(|schema| schema(schemas))).collect();
        json!({ "anyOf": all })
    }
}

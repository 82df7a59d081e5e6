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

use serde_json::Value as Json;
use tidegate_config::decode::mismatch;
use tidegate_config::node::{Node, Value};
use tidegate_config::{Decode, Diagnostics, Place, Record, Schemas};

use super::file::AlgorithmWord;
use super::registry::Registry;
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

static KINDS: Registry<Make> = Registry::new();

/// Makes a kind available in all scenarios that this process reads from now on. Has no effect if its word is registered
/// already.
pub fn register<K: Kind>() {
    KINDS.register::<K>(K::KIND, |section, place, diagnostics| {
        section.check(place, diagnostics);
        Box::new(move |mss, initial| section.make(mss, initial))
    });
}

/// The words of the kinds that are registered now.
pub fn kinds() -> Vec<&'static str> {
    KINDS.kinds()
}

/// The congestion control of a flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Congestion(Algorithm);

impl Congestion {
    /// The algorithm of the flow's connections.
    pub fn algorithm(self) -> Algorithm {
        self.0
    }
}

impl Decode for Congestion {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        if let Value::Table(entries) = &node.value {
            let kind = entries.iter().find(|entry| entry.key == "kind").map(|entry| &entry.node.value);
            if KINDS.is_empty() || matches!(kind, Some(Value::Text(kind)) if !KINDS.kinds().contains(&kind.as_str())) {
                let help = "write one of the words, such as \"cubic\"; for a control of your own, a table with its `kind`, run the \
                            binary of its crate";
                mismatch(node, "a congestion control of this program", help, diagnostics);
                return None;
            }
            let make = KINDS.decode(node, "congestion control", diagnostics)?;
            return Some(Self(Algorithm::Custom(make)));
        }
        AlgorithmWord::decode(node, diagnostics).map(|word| {
            Self(match word {
                AlgorithmWord::Reno => Algorithm::Reno,
                AlgorithmWord::Cubic => Algorithm::Cubic,
                AlgorithmWord::Dctcp => Algorithm::Dctcp,
                AlgorithmWord::Prague => Algorithm::Prague,
                AlgorithmWord::Bbr => Algorithm::Bbr,
            })
        })
    }
    fn example() -> String {
        AlgorithmWord::example()
    }
    fn schema(schemas: &mut Schemas) -> Json {
        let words = AlgorithmWord::schema(schemas);
        KINDS.schema(words, schemas)
    }
}

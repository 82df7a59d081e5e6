//! Kinds of disciplines that other crates add: [`register`](super::register) them before the first file is read.
//!
//! A kind is a section of a file, declared by [`record!`](crate::record) as those here are, and [`Kind`], which builds
//! its discipline. Shaper files, scenarios, replay and scripts then take `kind = "..."` with its keys; errors have
//! places, and schema, reference and "did you mean" include it.
//!
//! ```
//! use tidegate_config::discipline::{self, Discipline, Kind, Site};
//! use tidegate_config::{Diagnostics, Source, read, record};
//! use tidegate_core::fifo::{Fifo, Limit};
//! use tidegate_core::{AnyPacket, Qdisc};
//!
//! record! {
//!     /// A queue of a few packets.
//!     pub struct Short as "short" {
//!         /// Packets that may wait. Default 8.
//!         pub packets: u64 = 8,
//!     }
//! }
//! impl Kind for Short {
//!     const KIND: &'static str = "short";
//!     fn build(&self, _site: &Site) -> Box<dyn Qdisc<AnyPacket>> {
//!         Box::new(Fifo::new(Limit::packets(self.packets)))
//!     }
//! }
//!
//! discipline::register::<Short>().unwrap();
//! let mut diagnostics = Diagnostics::new();
//! let queue: Option<Discipline> = read(&Source::new("q.toml", "kind = \"short\"\npackets = 3"), &mut diagnostics);
//! assert_eq!(queue.unwrap().kind(), "short");
//! // A name cannot be registered twice.
//! assert!(discipline::register::<Short>().is_err());
//! ```

use std::any::Any;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value as Json;
use tidegate_core::{AnyPacket, AnyQdisc, Packet, Qdisc, Rate};

use super::section::{Section, Site};
use crate::decode::{Open, Record, tagged};
use crate::diagnostic::{Diagnostics, Place};
use crate::node::Node;
use crate::schema::Schemas;

/// The form that a discipline of another crate has in the kernel.
#[derive(Clone, PartialEq, Eq)]
pub struct InKernel {
    /// The program in BPF with its decider, as the build script of the crate has compiled it; empty where there was no compiler.
    pub program: &'static [u8],
    /// The parameters of its decider, in the order of their fields.
    pub numbers: Vec<u64>,
}

impl fmt::Debug for InKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InKernel {{ program: {} B, numbers: {:?} }}", self.program.len(), self.numbers)
    }
}

/// A kind of discipline that another crate adds: its section of a file.
pub trait Kind: Record + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// The value of `kind` that selects it: lower-case letters, digits and `-`.
    const KIND: &'static str;

    /// Checks the keys against each other. `place` is the section's.
    fn check(&self, _place: Place, _diagnostics: &mut Diagnostics) {}

    /// The names of the classes, in the order of their numbers. Empty if the discipline has no classes.
    fn classes(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The rate of the link behind the discipline, if the section states it.
    fn line(&self) -> Option<Rate> {
        None
    }

    /// The compiled program that runs the discipline in the kernel. Default none: `tidegate new-qdisc --kernel` writes a crate that has it.
    fn kernel(&self) -> Option<InKernel> {
        None
    }

    /// Builds the discipline, empty. The section must have passed [`Kind::check`]. A discipline inside it, taken as
    /// [`Inside`](super::Inside), is built by its own `build` with the same type of packet.
    fn build(&self, site: &Site) -> Box<dyn Qdisc<AnyPacket>>;
}

/// Why a kind cannot be registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegisterError {
    /// The name is taken.
    Taken(&'static str),
    /// The name does not consist of lower-case letters, digits and `-`, or does not begin with a letter.
    BadName(&'static str),
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(name) => write!(f, "there is a discipline called `{name}` already; choose another name"),
            Self::BadName(name) => {
                write!(f, "`{name}` cannot name a discipline; use lower case letters, digits and `-`")
            }
        }
    }
}

impl std::error::Error for RegisterError {}

/// A registered kind, as functions that need no type parameter.
struct Entry {
    kind: &'static str,
    decode: fn(&Node, &mut Diagnostics) -> Option<Outside>,
    schema: fn(&mut Schemas) -> Json,
}

/// Kinds are part of the program, as those of the enum are: added once, before files are read, and never removed.
/// It is process-wide because a declaration (`record!`) names types and not values, so that no value can carry it.
static ENTRIES: RwLock<Vec<Entry>> = RwLock::new(Vec::new());

/// Whether `name` can name a kind.
pub fn is_kind_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !name.ends_with('-')
        && !name.contains("--")
}

/// Adds a kind; `declared` are the names that are taken anyway.
pub(super) fn add<K: Kind>(declared: &[&str]) -> Result<(), RegisterError> {
    if !is_kind_name(K::KIND) {
        return Err(RegisterError::BadName(K::KIND));
    }
    let mut entries = ENTRIES.write().unwrap_or_else(PoisonError::into_inner);
    if declared.contains(&K::KIND) || entries.iter().any(|entry| entry.kind == K::KIND) {
        return Err(RegisterError::Taken(K::KIND));
    }
    entries.push(Entry {
        kind: K::KIND,
        decode: |node, diagnostics| {
            K::decode(node, diagnostics).map(|section| Outside { kind: K::KIND, section: Arc::new(section) })
        },
        schema: |schemas| tagged(K::object(schemas), "kind", K::KIND),
    });
    Ok(())
}

/// The object-safe form of [`Kind`].
trait AnyKind: Any + fmt::Debug + Send + Sync {
    /// Whether the section `other` is of the same type and has the same values.
    fn equals(&self, other: &dyn AnyKind) -> bool;
    fn check(&self, place: Place, diagnostics: &mut Diagnostics);
    fn classes(&self) -> Vec<&str>;
    fn line(&self) -> Option<Rate>;
    fn kernel(&self) -> Option<InKernel>;
    fn build(&self, site: &Site) -> Box<dyn Qdisc<AnyPacket>>;
}

impl<K: Kind> AnyKind for K {
    fn equals(&self, other: &dyn AnyKind) -> bool {
        (other as &dyn Any).downcast_ref::<K>().is_some_and(|other| self == other)
    }
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        Kind::check(self, place, diagnostics);
    }
    fn classes(&self) -> Vec<&str> {
        Kind::classes(self)
    }
    fn line(&self) -> Option<Rate> {
        Kind::line(self)
    }
    fn kernel(&self) -> Option<InKernel> {
        Kind::kernel(self)
    }
    fn build(&self, site: &Site) -> Box<dyn Qdisc<AnyPacket>> {
        Kind::build(self, site)
    }
}

/// The section of a kind that another crate added.
#[derive(Clone, Debug)]
pub struct Outside {
    kind: &'static str,
    section: Arc<dyn AnyKind>,
}

impl PartialEq for Outside {
    fn eq(&self, other: &Self) -> bool {
        self.section.equals(&*other.section)
    }
}

impl Outside {
    /// The compiled program that runs the discipline in the kernel, if there is one.
    pub fn kernel(&self) -> Option<InKernel> {
        self.section.kernel()
    }
}

impl Section for Outside {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        self.section.check(place, diagnostics);
    }
    fn classes(&self) -> Vec<&str> {
        self.section.classes()
    }
    fn line(&self) -> Option<Rate> {
        self.section.line()
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(AnyQdisc::new(self.section.build(site)))
    }
}

impl Open for Outside {
    fn kinds() -> Vec<&'static str> {
        ENTRIES.read().unwrap_or_else(PoisonError::into_inner).iter().map(|entry| entry.kind).collect()
    }
    fn kind(&self) -> &'static str {
        self.kind
    }
    fn decode(kind: &str, node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        // The lock is released before the section is read: a discipline may be inside another.
        let decode = {
            let entries = ENTRIES.read().unwrap_or_else(PoisonError::into_inner);
            entries.iter().find(|entry| entry.kind == kind)?.decode
        };
        decode(node, diagnostics)
    }
    fn schemas(schemas: &mut Schemas) -> Vec<Json> {
        let all: Vec<_> =
            ENTRIES.read().unwrap_or_else(PoisonError::into_inner).iter().map(|entry| entry.schema).collect();
        all.into_iter().map(|schema| schema(schemas)).collect()
    }
}

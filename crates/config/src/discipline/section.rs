//! What each kind has in common: its [`Section`], and what it is built from.

use tidegate_core::{Bytes, FlowKey, Instant, Packet, ParamError, Qdisc, Rate};

use crate::decode::key;
use crate::diagnostic::{Diagnostics, Place};

/// The section of a kind of discipline in a file.
pub trait Section {
    /// Checks what no key alone shows. `place` is that of the section.
    fn check(&self, place: Place, diagnostics: &mut Diagnostics);
    /// The names of the classes: a packet of class number `i` goes to the `i`-th. Empty: there are none.
    fn classes(&self) -> Vec<&str> {
        Vec::new()
    }
    /// The name of the class for packets that no rule gives one.
    fn default_class(&self) -> Option<&str> {
        None
    }
    /// The names of the profiles: a flow with profile number `i + 1` has the promises of the `i`-th.
    fn profiles(&self) -> Vec<&str> {
        Vec::new()
    }
    /// The rate of the line behind the discipline, where the section has it.
    fn line(&self) -> Option<Rate> {
        None
    }
    /// Builds the discipline, empty. The section has passed [`check`](Self::check), which validates the same parameters.
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>>;
}

/// What a discipline is built from beyond its own section.
#[derive(Clone, Debug)]
pub struct Site {
    /// Random streams are derived from it and from `name`.
    pub seed: u64,
    /// The name of the component, unique in its tree, for random streams.
    pub name: String,
    /// The first instant that it will be called with.
    pub now: Instant,
}

/// A packet for checking trees, where none passes.
pub(super) struct NoPacket;

impl Packet for NoPacket {
    fn size(&self) -> Bytes {
        Bytes::ZERO
    }
    fn flow(&self) -> FlowKey {
        FlowKey::default()
    }
}

/// Reports `error` at the key that it names, or at the whole table.
pub(super) fn report(error: &ParamError, places: &[(&str, Place)], table: Place, diagnostics: &mut Diagnostics) {
    let found = places.iter().find(|(field, _)| *field == error.field);
    let place = found.map_or(table, |(_, place)| *place);
    diagnostics.error(place, format!("`{}` {}", key(error.field), error.problem)).label("cannot work");
}

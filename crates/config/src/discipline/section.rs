//! [`Section`], which every kind implements, and [`Site`].

use tidegate_core::step::Step;
use tidegate_core::{Bytes, FlowKey, Instant, Packet, ParamError, Qdisc, Rate, Span};

use crate::decode::{Spanned, key};
use crate::diagnostic::{Diagnostics, Place};

/// The section of a kind of discipline in a file.
pub trait Section {
    /// Checks the keys against each other. `place` is the section's.
    fn check(&self, place: Place, diagnostics: &mut Diagnostics);
    /// The names of the classes, in the order of their numbers. Empty if the discipline has no classes.
    fn classes(&self) -> Vec<&str> {
        Vec::new()
    }
    /// The class of packets that match no rule.
    fn default_class(&self) -> Option<&str> {
        None
    }
    /// The names of the profiles: a flow with profile number `i + 1` has the promises of the `i`-th.
    fn profiles(&self) -> Vec<&str> {
        Vec::new()
    }
    /// The rate of the link behind the discipline, if the section states it.
    fn line(&self) -> Option<Rate> {
        None
    }
    /// Builds the discipline, empty. The section must have passed [`check`](Self::check), which validates the same
    /// parameters.
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>>;
}

/// Parameters of a discipline that do not come from its section.
#[derive(Clone, Debug)]
pub struct Site {
    /// The seed from which, with `name`, random streams are derived.
    pub seed: u64,
    /// The name of the component, unique in its tree, for random streams.
    pub name: String,
    /// The first instant that it will be called with.
    pub now: Instant,
}

/// A packet type for trees that are only built to be checked.
pub(super) struct NoPacket;

impl Packet for NoPacket {
    fn size(&self) -> Bytes {
        Bytes::ZERO
    }
    fn flow(&self) -> FlowKey {
        FlowKey::default()
    }
}

/// The step of an optional key `l4s-step`.
pub(crate) fn step(key: Option<Spanned<Span>>) -> Option<Step> {
    key.map(|step| Step::at(step.value))
}

/// Reports `error` at the key that it names, or else at the table.
pub(super) fn report(error: &ParamError, places: &[(&str, Place)], table: Place, diagnostics: &mut Diagnostics) {
    let found = places.iter().find(|(field, _)| *field == error.field);
    let place = found.map_or(table, |(_, place)| *place);
    diagnostics.error(place, format!("`{}` {}", key(error.field), error.problem)).label("cannot work");
}

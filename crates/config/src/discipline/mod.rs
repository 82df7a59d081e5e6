//! Nodes of any discipline: what a file says of it, and the factory that builds it.
//!
//! # Adding a kind
//! 1. A file `discipline/<kind>.rs` with the section of the file as a [`record!`](crate::record) (every key with
//!    its unit, its default and the reason) and a function `build(&self, ...) -> Box<dyn Qdisc<P>>`;
//!    `fifo.rs` is the pattern. A section that can be inconsistent has `check(&self, place, diagnostics)` as well.
//! 2. One line in [`Discipline`], one in [`Discipline::check`] when it has one, and one in [`Discipline::build`].
//!
//! Schema, `tidegate check` and "did you mean" follow. A crate of its own adds a kind by [`register`]: see
//! [`outside`]; `tidegate new-qdisc` writes one.

pub mod cbq;
pub mod conditioning;
pub mod early;
pub mod fair;
pub mod fbq;
pub mod fifo;
pub mod mice;
pub mod outside;

use tidegate_core::{Instant, Packet, Qdisc, Rate};

use crate::decode::Decode;
use crate::diagnostic::{Diagnostics, Place};
use crate::node::Node;
use crate::schema::Schemas;

pub use outside::{Kind, RegisterError, is_kind_name, register};

crate::choice! {
    /// A queueing discipline.
    pub enum Discipline as "discipline" by "kind" {
        /// RED that sets itself from the link.
        Ared(fair::AredQueue) = "ared",
        /// A shaper for a line, with tins, fair to hosts and flows.
        Cake(fair::CakeQueue) = "cake",
        /// Classes that share a link.
        Cbq(cbq::CbqQueue) = "cbq",
        /// Controlled delay.
        CoDel(fair::CoDelQueue) = "codel",
        /// Deficit round robin over flows.
        Drr(fair::DrrQueue) = "drr",
        /// Classes, and in each the flows by their shares.
        Fbq(fbq::FbqQueue) = "fbq",
        /// First in, first out.
        Fifo(fifo::Fifo) = "fifo",
        /// Fair queueing with controlled delay.
        FqCodel(fair::FqCodelQueue) = "fq-codel",
        /// Mice and Elephants without a queue, on what arrives.
        IngressFilter(mice::IngressQueue) = "ingress-filter",
        /// A meter, and what is done about its colours, around another discipline.
        Marker(conditioning::MarkerQueue) = "marker",
        /// Mice and Elephants with one threshold.
        Mered(mice::MeredQueue) = "mered",
        /// Mice and Elephants with a table of values.
        Meredt(mice::MeredtQueue) = "meredt",
        /// Proportional integral controller, enhanced.
        Pie(fair::PieQueue) = "pie",
        /// A rate adaptive shaper.
        Ras(conditioning::RasQueue) = "ras",
        /// Random early detection.
        Red(early::RedQueue) = "red",
        /// Random early detection with an average for each colour.
        Rio(early::RioQueue) = "rio",
        /// Stochastic fairness queueing.
        Sfq(fair::SfqQueue) = "sfq",
        /// Random early detection with a curve for each colour.
        Wred(early::WredQueue) = "wred",
        ..
        /// A kind that another crate added.
        Outside(outside::Outside)
    }
}

/// A discipline inside another.
#[derive(Clone, Debug)]
pub struct Inside(pub Box<Discipline>);

impl Decode for Inside {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        Discipline::decode(node, diagnostics).map(|discipline| Self(Box::new(discipline)))
    }
    fn example() -> String {
        Discipline::example()
    }
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        Discipline::schema(schemas)
    }
}

/// What a discipline needs to know when it is built, beyond its own section.
#[derive(Clone, Debug)]
pub struct Site {
    /// Random streams are derived from it and from `name`.
    pub seed: u64,
    /// The name of the component, unique in its tree, for random streams.
    pub name: String,
    /// The first instant that it will be called with.
    pub now: Instant,
}

impl Discipline {
    /// A FIFO of 1 MB: what stands where a file says nothing.
    pub fn plain() -> Self {
        Self::Fifo(fifo::Fifo::plain())
    }

    /// Checks what one key alone cannot tell. `place` is where the node stands.
    pub fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        match self {
            Self::Fifo(fifo) => fifo.check(place, diagnostics),
            Self::Ared(ared) => ared.check(place, diagnostics),
            Self::Cake(cake) => cake.check(place, diagnostics),
            Self::Cbq(cbq) => cbq.check(place, diagnostics),
            Self::CoDel(codel) => codel.check(place, diagnostics),
            Self::Drr(drr) => drr.check(place, diagnostics),
            Self::Fbq(fbq) => fbq.check(place, diagnostics),
            Self::FqCodel(fq_codel) => fq_codel.check(place, diagnostics),
            Self::IngressFilter(filter) => filter.check(place, diagnostics),
            Self::Mered(mered) => mered.check(place, diagnostics),
            Self::Meredt(meredt) => meredt.check(place, diagnostics),
            Self::Pie(pie) => pie.check(place, diagnostics),
            Self::Sfq(sfq) => sfq.check(place, diagnostics),
            Self::Marker(marker) => marker.check(diagnostics),
            Self::Ras(ras) => ras.check(place, diagnostics),
            Self::Red(red) => red.check(place, diagnostics),
            Self::Rio(rio) => rio.check(place, diagnostics),
            Self::Wred(wred) => wred.check(place, diagnostics),
            Self::Outside(outside) => outside.check(place, diagnostics),
        }
    }

    /// Whether the two say the same, wherever they stand and however their values are written.
    pub fn is_same(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }

    /// The names of its classes: a packet of class number `i` goes to the `i`-th. Empty: it has no classes.
    pub fn classes(&self) -> Vec<&str> {
        match self {
            Self::Cbq(cbq) => cbq.classes(),
            Self::Fbq(fbq) => fbq.classes(),
            Self::Marker(marker) => marker.classes(),
            Self::Outside(outside) => outside.classes(),
            Self::Fifo(_)
            | Self::Ras(_)
            | Self::Red(_)
            | Self::Rio(_)
            | Self::Wred(_)
            | Self::Ared(_)
            | Self::Cake(_)
            | Self::CoDel(_)
            | Self::Drr(_)
            | Self::FqCodel(_)
            | Self::IngressFilter(_)
            | Self::Mered(_)
            | Self::Meredt(_)
            | Self::Pie(_)
            | Self::Sfq(_) => Vec::new(),
        }
    }

    /// The names of its profiles: a flow with profile number `i + 1` has the promises of the `i`-th.
    pub fn profiles(&self) -> Vec<&str> {
        match self {
            Self::Fbq(fbq) => fbq.profiles(),
            _ => Vec::new(),
        }
    }

    /// The rate of the line that it stands before, where it knows one.
    pub fn line(&self) -> Option<Rate> {
        match self {
            Self::Ared(ared) => Some(ared.link.value),
            Self::Cake(cake) => cake.rate.map(|rate| rate.value),
            Self::Cbq(cbq) => Some(cbq.link.value),
            Self::Fbq(fbq) => fbq.line(),
            Self::IngressFilter(filter) => Some(filter.link.value),
            Self::Mered(mered) => Some(mered.link.value),
            Self::Meredt(meredt) => Some(meredt.link.value),
            Self::Ras(ras) => Some(ras.line_rate.value),
            Self::Marker(marker) => marker.inside.as_ref().and_then(|inside| inside.value.0.line()),
            Self::CoDel(_)
            | Self::Drr(_)
            | Self::Fifo(_)
            | Self::FqCodel(_)
            | Self::Outside(_)
            | Self::Pie(_)
            | Self::Red(_)
            | Self::Rio(_)
            | Self::Sfq(_)
            | Self::Wred(_) => None,
        }
    }

    /// Builds it. The node has passed [`Discipline::check`].
    pub fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        match self {
            Self::Fifo(fifo) => fifo.build(),
            Self::Ared(ared) => ared.build(site),
            Self::Cake(cake) => cake.build(site),
            Self::Cbq(cbq) => cbq.build(site),
            Self::CoDel(codel) => codel.build(),
            Self::Drr(drr) => drr.build(),
            Self::Fbq(fbq) => fbq.build(site),
            Self::FqCodel(fq_codel) => fq_codel.build(),
            Self::IngressFilter(filter) => filter.build(site),
            Self::Mered(mered) => mered.build(site),
            Self::Meredt(meredt) => meredt.build(site),
            Self::Pie(pie) => pie.build(site),
            Self::Sfq(sfq) => sfq.build(site),
            Self::Marker(marker) => marker.build(site),
            Self::Ras(ras) => ras.build(site),
            Self::Red(red) => red.build(site),
            Self::Rio(rio) => rio.build(site),
            Self::Wred(wred) => wred.build(site),
            Self::Outside(outside) => outside.build(site),
        }
    }
}

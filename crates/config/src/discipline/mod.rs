//! Nodes of any discipline: what a file says of it, and the factory that builds it.
//!
//! # Adding a kind
//! 1. A file `discipline/<kind>.rs` with the section of the file as a [`record!`](crate::record) (every key with
//!    its unit, its default and the reason) and a function `build(&self, ...) -> Box<dyn Qdisc<P>>`;
//!    `fifo.rs` is the pattern. A section that can be inconsistent has `check(&self, place, diagnostics)` as well.
//! 2. One line in [`Discipline`], one in [`Discipline::check`] when it has one, and one in [`Discipline::build`].
//!
//! Schema, `tidegate check` and "did you mean" follow.

pub mod fifo;

use tidegate_core::{Instant, Packet, Qdisc};

use crate::diagnostic::{Diagnostics, Place};

crate::choice! {
    /// A queueing discipline.
    pub enum Discipline as "discipline" by "kind" {
        /// First in, first out.
        Fifo(fifo::Fifo) = "fifo",
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
    /// Checks what one key alone cannot tell. `place` is where the node stands.
    pub fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        match self {
            Self::Fifo(fifo) => fifo.check(place, diagnostics),
        }
    }

    /// The names of its classes: a packet of class number `i` goes to the `i`-th. Empty: it has no classes.
    pub fn classes(&self) -> Vec<&str> {
        match self {
            Self::Fifo(_) => Vec::new(),
        }
    }

    /// Builds it. The node has passed [`Discipline::check`].
    pub fn build<P: Packet + 'static>(&self, _site: &Site) -> Box<dyn Qdisc<P>> {
        match self {
            Self::Fifo(fifo) => fifo.build(),
        }
    }
}

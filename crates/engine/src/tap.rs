//! [`Tap`]: who writes down what is done to the engine, so that it can be done again.
//!
//! The engine is a function of its calls: a tap that keeps all of them, in order, keeps the run. Every call that can
//! change something reports here before it does, and what became of packets as it happens; what only looks does not.
//! Whoever adds such a call adds its report, or goes through [`Pipeline::tree_mut`](crate::Pipeline::tree_mut), which
//! reports that the run cannot be repeated from here on ([`Act::Untold`]).

use tidegate_core::{ClassId, DropReason, Instant, Rate, Span};

use crate::pipeline::{Change, Names, Sighting};

/// A change that the control plane makes to the running shaper, between two packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steer {
    /// The lateness that is made up for.
    CatchUp(Span),
    /// The rate of the link.
    Rate(Rate),
    /// The rate of a class.
    ClassRate(ClassId, Rate),
    /// The rate that a flow is promised.
    Minimum(u64, Rate),
    /// Steps of preference for a flow.
    Prefer(u64, u32),
}

/// What is done to the engine other than packets coming and going.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Act<'a> {
    /// Everything is let go at once.
    ReleaseAll,
    /// The control plane changes a rate or a promise.
    Steer(Steer),
    /// Another configuration takes over, with all that waits.
    Reconfigure {
        /// The shaper file.
        text: &'a str,
        /// What names in it mean.
        names: &'a Names,
        /// When its tree was built, which may have been before.
        built: Instant,
    },
    /// Something that no tap is told.
    Untold,
}

/// Hears every call of the engine and what came of it. It runs on the data path: it must not block.
pub trait Tap: Send {
    /// The bytes of the packet that arrives next, from its network header on, as far as the data path has them.
    fn bytes(&mut self, bytes: &[u8]);
    /// A packet arrives. The engine numbers arrivals from 0.
    fn arrives(&mut self, now: Instant, number: u64, seen: &Sighting);
    /// A packet is asked for.
    fn departs(&mut self, now: Instant);
    /// Something else is done.
    fn acts(&mut self, now: Instant, act: Act<'_>);
    /// Packet `number` passes.
    fn passed(&mut self, number: u64, change: Change);
    /// Packet `number` is refused.
    fn refused(&mut self, number: u64, reason: DropReason);
    /// Packet `number`, a superpacket, goes back to be cut.
    fn too_long(&mut self, number: u64);
    /// Nothing happened, and it is `now`: an opportunity to bring to safety what has been kept.
    fn idles(&mut self, now: Instant);
}

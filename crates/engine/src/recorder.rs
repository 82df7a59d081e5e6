//! [`Recorder`]: records every call of the engine, so that a run can be repeated.
//!
//! The engine is a function of its calls: a recorder that keeps all of them, in order, keeps the run. Every call that
//! can change something reports here before it does, and what became of packets as it happens; what only looks does
//! not. A new call of this kind reports itself, or goes through [`Engine::tree_mut`](crate::Engine::tree_mut), which
//! reports that the run cannot be repeated from here on ([`Operation::Unrecorded`]).

use tidegate_config::shaper::Match;
use tidegate_core::fbq::Terms;
use tidegate_core::reservation::Request;
use tidegate_core::{ClassId, DropReason, Instant, Rate, Span};

use crate::registry::PromiseTable;
use crate::rules::Names;
use crate::sink::{Change, PacketMeta};

/// A change that the control plane makes to the running shaper, between two packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Adjustment {
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

/// What the control plane does about promises and reservations, between two packets; refused or not. Which
/// flows are watched is not recorded: no departure depends on it.
#[derive(Clone, Copy, Debug)]
pub enum ControlCall<'a> {
    /// [`PromiseControl::promise`](crate::PromiseControl::promise).
    Promise {
        /// The number of the promise.
        number: u64,
        /// Minimum, preference and displacement.
        terms: Terms,
        /// In which class.
        class: ClassId,
        /// For how many flows rate is held.
        flows: u32,
        /// Whether it may wait for free rate.
        anyway: bool,
    },
    /// [`PromiseControl::end`](crate::PromiseControl::end).
    End(u64),
    /// [`PromiseControl::set_table`](crate::PromiseControl::set_table).
    PromiseTable(&'a PromiseTable),
    /// [`PromiseControl::review`](crate::PromiseControl::review).
    Review {
        /// From this place of the table on.
        from: u32,
        /// So many places.
        most: u32,
    },
    /// [`PromiseControl::clear`](crate::PromiseControl::clear).
    Forget,
    /// [`Engine::reserve`](crate::Engine::reserve).
    Reserve {
        /// The name of the reservation.
        name: &'a str,
        /// The traffic specification and the service.
        request: &'a Request,
        /// For which packets.
        matches: &'a Match,
    },
    /// [`Engine::refresh`](crate::Engine::refresh).
    Refresh(ClassId),
    /// [`Engine::release`](crate::Engine::release).
    Release(ClassId),
}

/// A call of the engine other than arrivals and departures.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// All packets are released at once.
    ReleaseAll,
    /// The control plane changes a rate or a promise.
    Adjustment(Adjustment),
    /// The control plane makes or ends a promise or a reservation.
    Control(ControlCall<'a>),
    /// Another configuration takes over, with all that waits.
    Reconfigure {
        /// The text of the shaper file.
        text: &'a str,
        /// The ids of the users and control groups that it names.
        names: &'a Names,
        /// When its tree was built, which may have been before.
        built: Instant,
    },
    /// Something that nothing is recorded.
    Unrecorded,
}

/// Receives every call of the engine and its results. It runs on the data path and must not block.
pub trait Recorder: Send {
    /// The bytes of the packet that arrives next, from its network header on, as far as the data path has them.
    fn packet_bytes(&mut self, bytes: &[u8]);
    /// A packet arrives. The engine numbers arrivals from 0.
    fn arrival(&mut self, now: Instant, number: u64, meta: &PacketMeta);
    /// A packet is asked for.
    fn departure(&mut self, now: Instant);
    /// Something else is done.
    fn operation(&mut self, now: Instant, act: Operation<'_>);
    /// Packet `number` passes.
    fn sent(&mut self, number: u64, change: Change);
    /// Packet `number` is refused.
    fn dropped(&mut self, number: u64, reason: DropReason);
    /// Packet `number`, a superpacket, goes back to be cut.
    fn too_long(&mut self, number: u64);
    /// Nothing happened, and it is `now`: an opportunity to bring to safety what has been kept.
    fn idle(&mut self, now: Instant);
}

//! [`Recorder`] records every call of the engine, so that a run can be repeated.
//!
//! The engine is a deterministic function of its calls, so that all calls in order are a recording of the run. Every call that
//! can change something reports to the recorder before it does so; the fate of a packet is reported when it is known. Calls
//! that only read are not reported. A new call that changes something must report itself, or go through
//! [`Engine::tree_mut`](crate::Engine::tree_mut), which reports that the run cannot be repeated beyond this point
//! ([`Operation::Unrecorded`]).

use tidegate_config::shaper::Match;
use tidegate_core::fbq::Terms;
use tidegate_core::reservation::Request;
use tidegate_core::{ClassId, DropReason, Instant, Rate, Span};

use crate::registry::PromiseTable;
use crate::rules::Names;
use crate::sink::{Change, PacketMeta};

/// A parameter of the running shaper that the control plane changes between two packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Adjustment {
    /// The lateness for which the discipline makes up.
    CatchUp(Span),
    /// The rate of the link.
    Rate(Rate),
    /// The rate of a link that varies; the classes keep their shares.
    Follow(Rate),
    /// The rate of a class.
    ClassRate(ClassId, Rate),
    /// The minimum of a flow.
    Minimum(u64, Rate),
    /// Steps of preference for a flow.
    Prefer(u64, u32),
}

/// A call of the control plane about promises or reservations, made between two packets, refused or not. Watches of flows are
/// not recorded, because no departure depends on them.
#[derive(Clone, Copy, Debug)]
pub enum ControlCall<'a> {
    /// [`PromiseControl::promise`](crate::PromiseControl::promise).
    Promise {
        /// The number of the promise.
        number: u64,
        /// Minimum, preference and displacement.
        terms: Terms,
        /// The class in which rate is held.
        class: ClassId,
        /// The number of flows for which rate is held.
        flows: u32,
        /// Whether the promise may wait for free rate.
        anyway: bool,
    },
    /// [`PromiseControl::end`](crate::PromiseControl::end).
    End(u64),
    /// [`PromiseControl::set_table`](crate::PromiseControl::set_table).
    PromiseTable(&'a PromiseTable),
    /// [`PromiseControl::review`](crate::PromiseControl::review).
    Review {
        /// The first place of the table.
        from: u32,
        /// The largest number of places.
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
        /// The conditions on its packets.
        matches: &'a Match,
    },
    /// [`Engine::refresh`](crate::Engine::refresh).
    Refresh(ClassId),
    /// [`Engine::release`](crate::Engine::release).
    Release(ClassId),
}

/// A call of the engine other than an arrival or a departure.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// [`Engine::release_all`](crate::Engine::release_all).
    ReleaseAll,
    /// The control plane changes a parameter.
    Adjustment(Adjustment),
    /// The control plane makes or ends a promise or a reservation.
    Control(ControlCall<'a>),
    /// The configuration is replaced.
    Reconfigure {
        /// The text of the shaper file.
        text: &'a str,
        /// The ids of the users and control groups that it names.
        names: &'a Names,
        /// The instant at which its tree was built, which may be earlier.
        built: Instant,
    },
    /// A change that recordings do not represent.
    Unrecorded,
}

/// Receives every call of the engine and its results. The methods run on the data path and must not block.
pub trait Recorder: Send {
    /// The bytes of the next arrival, from the network header on, as far as the data path has them.
    fn packet_bytes(&mut self, bytes: &[u8]);
    /// A packet arrives. The engine numbers arrivals from 0.
    fn arrival(&mut self, now: Instant, number: u64, meta: &PacketMeta);
    /// The engine is asked for a packet.
    fn departure(&mut self, now: Instant);
    /// Another call is made.
    fn operation(&mut self, now: Instant, act: Operation<'_>);
    /// Packet `number` is sent.
    fn sent(&mut self, number: u64, change: Change);
    /// Packet `number` is dropped.
    fn dropped(&mut self, number: u64, reason: DropReason);
    /// Packet `number`, a superpacket, is returned for segmentation.
    fn too_long(&mut self, number: u64);
    /// A turn of the data path's loop ends: an opportunity to write buffered records.
    fn idle(&mut self, now: Instant);
}

//! FBC over FBQ: the end-system shaper.
//!
//! The *flow-based classifier* ([`Fbc`]) serves its classes in the order of their priority; each class is an *FBQ*
//! with one FIFO per flow. A class is shaped to its rate d(q) by an exact token bucket; within it a flow f has the
//! nominal rate d(f) = s(f)·d(q).
//!
//! *Law*:
//! 1. Aggregate: on its own rate a class sends within τ at most `max(TB(q), largest packet) + d(q)·(τ + catch_up)`;
//!    all classes together, borrowed rate included, send at most the same with the parameters of the total.
//! 2. Minimum: a flow with a granted minimum that stays backlogged gets at least dmin(f)·τ, less one packet of each
//!    other flow with a granted minimum and two of the largest packets, whatever weights and borrowers do.
//! 3. Shares: two flows without minimum that stay backlogged are served in proportion to their weights, up to one
//!    packet each and the unused TB(f) of one of them.
//! 4. Work conservation: with [`Spare::Shared`] a backlogged class sends whenever its bucket has enough credit.
//! 5. Preference: a flow preferred by k steps has the nominal rate that it would have without preference and k·`incr`
//!    of d(q) more, at most what the others have above their minimums (4.5), for as long as it is preferred,
//!    whichever flows join or leave.
//! 6. Strict shares: with [`Spare::Idle`] a backlogged flow never has more than its share of d(q). In a class that
//!    borrows, d(q) is its rate and its part of what other classes leave, and a function of time as in (5.1).
//! 7. Hosts: with [`FairBy::Source`] or [`FairBy::Destination`] two hosts that stay backlogged in a class are served
//!    equally, up to one packet each and the unused TB(f) of one of them, however many flows they have, and each has
//!    an equal part of the buffer. 2 holds; 3 and 5 hold among the flows of a host.
//! 8. Ceilings: what has a ceiling ([`Ceilings`], [`Profile::at_most`]) sends within τ at most
//!    `max(burst, largest packet) + rate·(τ + catch_up)` of the ceiling, borrowed rate included. While it waits for its
//!    ceiling, 1 to 7 hold for the others as if it had no packet, except that its class lends nothing to those with strict
//!    shares (6). A minimum under the ceiling of its host or of its rule has no precedence.
//!
//! *Source*: FBQ paper, equations (4.1) to (5.4). With spare rate shared, the next flow of a class is selected by
//! self-clocked fair queueing (Golestani, INFOCOM 1994) with a bucket of unused service for each flow.
//! *Units*: one token is one byte; buckets are in bit·ns/s, so that nothing rounds.
//! *Example*: see [`Fbc`].
//! *Cost*: O(1) in the backlogged flows of the class, O(log n) for a flow that has a ceiling or whose packet lasts much longer than
//! others, or where the next packets of many flows have equal tags of more than two values, and O(log m) in the m classes per call;
//! flows that are idle or not eligible cost nothing. A flow is a record of 192 bytes, of which a packet reads 64 as it arrives in a
//! queue and 128 as it leaves, and of 400 more if it has a minimum, a preference, a threshold of displacement or a ceiling.
//! *Notes*: a packet larger than a bucket leaves when the bucket is full, and leaves it in debt. Housekeeping (idle
//! flows, waiting minimums, displacement) is bounded per packet.
//! *Departures from the source, and why*: tokens that a flow does not use go to the others of its class at once
//! ([`Spare::Shared`]; the paper discards them, users expect them to be used; [`Spare::Idle`] is the paper's rule). A
//! new flow starts with a full bucket only while no flow is backlogged in its class; otherwise a stream of new flows
//! would starve the old ones. The bucket of a flow is stored as the virtual time of its class at which it was empty,
//! not as a number that every packet of every other flow updates. Preference is a state, not an event: the paper
//! raises a share once, which has no effect on a flow that is alone at that time and diminishes with each flow that
//! joins. After a flow joins or leaves, the weights of the preferred flows are recomputed, four with each packet of
//! their class.
//! *See also*: CBQ, which shares between classes only; its round robin sends the packets of a class in bursts.

mod buffer;
mod ceiling;
mod change;
mod class;
mod class_order;
mod control;
mod deciders;
mod error;
mod fbc;
mod flow;
mod hosts;
mod lending;
mod openings;
mod params;
mod profile;
mod shard;
mod shares;
mod terms;
mod ties;
mod wheel;

pub use ceiling::{Ceiling, Ceilings, HeldBy};
pub use control::{ClassView, FlowView, Levels, NoSuchFlow, Promise};
pub use deciders::Slots;
pub use error::ParamError;
pub use fbc::{Fbc, FbcParams};
pub use flow::FlowCounts;
pub use hosts::FairBy;
pub use params::{Borrow, ClassParams, Feedback, Marking, Spare};
pub use profile::{Displace, Profile, Terms};
pub use shares::WEIGHT_ONE;

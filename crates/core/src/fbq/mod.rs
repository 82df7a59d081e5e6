//! FBC over FBQ: the end-system shaper.
//!
//! The *flow-based classifier* ([`Fbc`]) asks its classes in the order of their priority; each class is an *FBQ*
//! with one FIFO for each flow. A class is shaped to its rate d(q) by an exact token bucket; within it a flow f is
//! promised d(f) = s(f)·d(q).
//!
//! *Law*:
//! 1. Aggregate: what a class sends within τ on its own rate is at most `max(TB(q), largest packet) + d(q)·(τ +
//!    catch_up)`, and all classes together, borrowed rate included, the same with the total.
//! 2. Minimum: a flow with a granted minimum that stays backlogged gets at least dmin(f)·τ less one packet of each
//!    flow that has one too and two of the largest, whatever weights and borrowers do.
//! 3. Shares: two flows that stay backlogged, without minimum, get service in proportion to their weights up to
//!    one packet each and the TB(f) one of them had saved up.
//! 4. Nothing is wasted: with [`Spare::Shared`] a class with a backlog sends whenever its bucket can pay.
//! 5. Preference: a flow preferred by k steps is promised what it would be without, and k·`incr` of d(q) more, at most what
//!    the others have above their minimums (4.5), as long as it is preferred and whoever comes and goes.
//!
//! *Source*: FBQ paper, equations (4.1) to (5.4). Who is next inside a class, with spare rate shared, is
//! self-clocked fair queueing (Golestani, INFOCOM 1994) with a bucket of saved-up service for each flow.
//! *Units*: one token is one byte; buckets keep bit·ns/s, so that nothing rounds.
//! *Example*: see [`Fbc`].
//! *Cost*: O(log n) in the backlogged flows of the class and O(log m) in the classes a call; flows that are idle
//! or wait cost nothing. A flow is a record of some 400 bytes.
//! *Notes*: a packet larger than a bucket leaves when the bucket is full, and the bucket goes into debt. Housekeeping
//! (idle flows, waiting minimums, displacement) does a bounded number of things with each packet.
//! *Departures from the source, and why*: tokens that a flow does not use go to the others of its class at once
//! ([`Spare::Shared`]; the paper loses them, users expect them; [`Spare::Idle`] is the paper's rule). A new flow
//! starts with a full bucket only while nobody waits in its class: else a stream of new flows would starve the old
//! ones. A flow's bucket is a time at which it was empty in the virtual time of its class, not a number updated
//! with each packet of every other flow. Preference is a state and not an event: the paper raises a share once, which is
//! nothing for a flow that is alone then, and melts away with each flow that joins. After a flow came or went those who are
//! preferred are weighed anew, four with each packet of their class.
//! *See also*: CBQ, which shares between classes only, and whose round robin sends the packets of a class in bursts.

mod agenda;
mod change;
mod class;
mod control;
mod fbc;
mod flow;
mod shares;
mod terms;

pub use class::{Borrow, ClassParams, Feedback, Marking, Spare};
pub use control::{ClassView, FlowView, Levels, NoSuchFlow, Promise};
pub use fbc::{Fbc, FbcParams, ParamError};
pub use flow::{Displace, FlowCounts, Profile};
pub use shares::WEIGHT_ONE;
pub use terms::Terms;

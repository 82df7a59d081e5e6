//! The calls: one module for each group of them has the requests and replies, [`CALLS`] declares each call once.

mod change;
mod coupled;
mod declaration;
mod events;
mod explain;
mod hosts;
mod notes;
mod observation;
mod promise;
mod reserve;
mod rival;
mod status;

pub use change::{Applied, Apply, Change, Confirm, Confirmed, Difference, Edit, InForce, Rollback, Text, Undo};
pub use coupled::{CoupledQueue, CoupledQueues};
pub use declaration::{Authority, CALLS, Declaration, Permission, Service, answer, capitals};
pub use events::{Event, EventKind, Events, Flow, Protocol, Subscribed, Unsubscribe, Unsubscribed};
pub use explain::{Buckets, Choice, Explain, Explained};
pub use hosts::{HostDirection, HostLimit, HostObservation, arrives, host_of, hosts};
pub use notes::{Note, NoteKind, NoteList, Notes};
pub use observation::{
    ClassObservation, Classes, DataPathCounters, DirectionObservation, FlowDrops, FlowObservation, FlowSort,
    FlowTableState, Flows, HeldBy, InterfaceObservation, LineObservation, Observation, Queued, RuleObservation,
    WaitTimes, Waits,
};
pub use promise::{
    Displacement, Feedback, FlowState, PromiseCall, PromiseList, PromiseState, Promised, Promises, Release, Released,
    Renew, Target, Watching,
};
pub use reserve::{Refresh, Refreshed, ReservationList, ReservationsQuery, Reserve, Reserved, Unreserve, Unreserved};
pub(crate) use rival::percent;
pub use rival::{Rival, RivalBy};
pub use status::{
    Ceilings, ClassStatus, ControlStatus, DirectionStatus, DropCount, FollowDecision, FollowStatus, GuardianStatus,
    InterfaceStatus, NameStatus, PrivilegeStatus, QuotaStatus, SharedClassStatus, Status, StatusQuery, TimedRuleStatus,
};

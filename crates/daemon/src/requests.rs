//! The handlers of the calls: which part of the daemon answers each of them.

use tidegate_control::calls::{
    Applied, Apply, Authority, Classes, Confirm, Confirmed, Events, Explain, Explained, Feedback, Flows, InForce,
    PromiseCall, PromiseList, PromiseState, Promised, Promises, Refresh, Refreshed, Release, Released, Renew,
    ReservationList, ReservationsQuery, Reserve, Reserved, Rollback, Seen, Service, Status, StatusQuery, Subscribed,
    Text, Unreserve, Unreserved, Unsubscribe, Unsubscribed, Watching,
};
use tidegate_control::protocol::Refusal;

use crate::daemon::Daemon;
use crate::server::Peer;
use crate::{apply, events, observe, promise, reserve, status};

/// The origin of a request.
#[derive(Debug)]
pub struct Caller {
    /// The connection. What was requested over it ends with it.
    pub client: u64,
    /// The process at its other end.
    pub peer: Peer,
}

impl Authority for Caller {
    fn uid(&self) -> u32 {
        self.peer.uid
    }
    fn is_operator(&self) -> bool {
        self.peer.uid == 0 || self.peer.uid == rustix::process::geteuid().as_raw()
    }
}

impl Service for Daemon {
    type Caller = Caller;

    fn status(&mut self, _: &Caller, request: StatusQuery) -> Result<Status, Refusal> {
        status::answer(self, request)
    }
    fn classes(&mut self, _: &Caller, _: Classes) -> Result<Seen, Refusal> {
        observe::classes(self)
    }
    fn flows(&mut self, _: &Caller, request: Flows) -> Result<Seen, Refusal> {
        observe::flows(self, &request)
    }
    fn explain(&mut self, _: &Caller, request: Explain) -> Result<Explained, Refusal> {
        observe::explain(self, &request)
    }
    fn events(&mut self, caller: &Caller, request: Events) -> Result<Subscribed, Refusal> {
        events::subscribe(self, caller, request)
    }
    fn unsubscribe(&mut self, caller: &Caller, request: Unsubscribe) -> Result<Unsubscribed, Refusal> {
        events::unsubscribe(self, caller, request)
    }
    fn feedback(&mut self, caller: &Caller, request: Feedback) -> Result<Watching, Refusal> {
        promise::feedback(self, caller, request)
    }
    fn promise(&mut self, caller: &Caller, request: PromiseCall) -> Result<Promised, Refusal> {
        promise::promise(self, caller, request)
    }
    fn renew(&mut self, caller: &Caller, request: Renew) -> Result<PromiseState, Refusal> {
        promise::renew(self, caller, &request)
    }
    fn release(&mut self, caller: &Caller, request: Release) -> Result<Released, Refusal> {
        promise::release(self, caller, &request)
    }
    fn promises(&mut self, _: &Caller, request: Promises) -> Result<PromiseList, Refusal> {
        promise::promises(self, request)
    }
    fn reserve(&mut self, caller: &Caller, request: Reserve) -> Result<Reserved, Refusal> {
        reserve::reserve(self, caller, request)
    }
    fn refresh(&mut self, caller: &Caller, request: Refresh) -> Result<Refreshed, Refusal> {
        reserve::refresh(self, caller, &request)
    }
    fn unreserve(&mut self, caller: &Caller, request: Unreserve) -> Result<Unreserved, Refusal> {
        reserve::release(self, caller, &request)
    }
    fn reservations(&mut self, _: &Caller, request: ReservationsQuery) -> Result<ReservationList, Refusal> {
        reserve::list(self, &request)
    }
    fn apply(&mut self, _: &Caller, request: Apply) -> Result<Applied, Refusal> {
        apply::apply(self, request)
    }
    fn confirm(&mut self, _: &Caller, _: Confirm) -> Result<Confirmed, Refusal> {
        apply::confirm(self)
    }
    fn rollback(&mut self, _: &Caller, _: Rollback) -> Result<Confirmed, Refusal> {
        apply::rollback(self)
    }
    fn in_force(&mut self, _: &Caller, request: InForce) -> Result<Text, Refusal> {
        apply::in_force(self, &request)
    }
}

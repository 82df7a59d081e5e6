//! The handlers of the calls: each passes a request to the part of the daemon that answers it, with what that part uses.

use tidegate_control::calls::{
    Applied, Apply, Classes, Confirm, Confirmed, Events, Explain, Explained, Feedback, Flows, InForce, NoteList, Notes,
    Observation, PromiseCall, PromiseList, PromiseState, Promised, Promises, Refresh, Refreshed, Release, Released,
    Renew, ReservationList, ReservationsQuery, Reserve, Reserved, Rollback, Service, Status, StatusQuery, Subscribed,
    Text, Undo, Unreserve, Unreserved, Unsubscribe, Unsubscribed, Watching,
};
use tidegate_control::protocol::{Code, Refusal};

use crate::audit::Author;
use crate::caller::Caller;
use crate::config_store::{ConfigStore, Followers};
use crate::daemon::Daemon;
use crate::directions::ShapedDirection;
use crate::telemetry::explain;

impl Service for Daemon {
    type Caller = Caller;

    fn status(&mut self, _: &Caller, _: StatusQuery) -> Result<Status, Refusal> {
        let interface = self.interface();
        let (health, trial) = (self.supervisor.health(&interface), self.store.trial_left());
        let (file, counters) = (self.store.paths(), self.notifier.counters());
        Ok(self.telemetry.status.answer(&self.directions, &health, file, trial, counters))
    }
    fn classes(&mut self, _: &Caller, _: Classes) -> Result<Observation, Refusal> {
        let interface = self.interface();
        self.telemetry.observer.classes(&self.directions, &self.supervisor.health(&interface))
    }
    fn flows(&mut self, _: &Caller, request: Flows) -> Result<Observation, Refusal> {
        let interface = self.interface();
        self.telemetry.observer.flows(&self.directions, &self.supervisor.health(&interface), &request)
    }
    fn explain(&mut self, _: &Caller, request: Explain) -> Result<Explained, Refusal> {
        explain::explain(&self.directions, &request)
    }

    fn events(&mut self, caller: &Caller, request: Events) -> Result<Subscribed, Refusal> {
        self.telemetry.subscriptions.subscribe(&self.directions, &self.notifier, caller, request)
    }
    fn notes(&mut self, _: &Caller, request: Notes) -> Result<NoteList, Refusal> {
        let notes = self.telemetry.observer.shared().notes();
        Ok(NoteList { notes: notes.since(request.since_s.unwrap_or(0)) })
    }
    fn unsubscribe(&mut self, caller: &Caller, request: Unsubscribe) -> Result<Unsubscribed, Refusal> {
        let (client, subscription) = (caller.client, request.subscription);
        let own = self.telemetry.subscriptions.remove(client, subscription);
        if !own && !self.promises.has_subscription(client, subscription) {
            let text = format!("this connection has no subscription {subscription}");
            return Err(Refusal::new(Code::NotFound, text));
        }
        self.promises.unwatch(&self.directions, &self.notifier, client, subscription);
        self.notifier.unsubscribe(client, subscription);
        Ok(Unsubscribed {})
    }
    fn feedback(&mut self, caller: &Caller, request: Feedback) -> Result<Watching, Refusal> {
        let subscriptions = &mut self.telemetry.subscriptions;
        self.promises.feedback(&self.directions, subscriptions, &self.notifier, caller, request)
    }

    fn promise(&mut self, caller: &Caller, request: PromiseCall) -> Result<Promised, Refusal> {
        self.promises.promise(&self.directions, &self.notifier, caller, request)
    }
    fn renew(&mut self, caller: &Caller, request: Renew) -> Result<PromiseState, Refusal> {
        self.promises.renew(&self.directions, caller, &request)
    }
    fn release(&mut self, caller: &Caller, request: Release) -> Result<Released, Refusal> {
        self.promises.release(&self.directions, &self.notifier, caller, &request)
    }
    fn promises(&mut self, _: &Caller, _: Promises) -> Result<PromiseList, Refusal> {
        self.promises.list(&self.directions)
    }

    fn reserve(&mut self, caller: &Caller, request: Reserve) -> Result<Reserved, Refusal> {
        self.reservations.reserve(&self.directions, &self.notifier, caller, request)
    }
    fn refresh(&mut self, caller: &Caller, request: Refresh) -> Result<Refreshed, Refusal> {
        self.reservations.refresh(&self.directions, caller, &request)
    }
    fn unreserve(&mut self, caller: &Caller, request: Unreserve) -> Result<Unreserved, Refusal> {
        self.reservations.unreserve(&self.directions, caller, &request)
    }
    fn reservations(&mut self, _: &Caller, _: ReservationsQuery) -> Result<ReservationList, Refusal> {
        self.reservations.list(&self.directions)
    }

    fn apply(&mut self, caller: &Caller, request: Apply) -> Result<Applied, Refusal> {
        let author = Author::Client(caller.peer);
        with_store(self, |store, directions, followers| store.apply(directions, followers, author, request))
    }
    fn confirm(&mut self, caller: &Caller, _: Confirm) -> Result<Confirmed, Refusal> {
        self.store.confirm(&self.directions, &self.notifier, Author::Client(caller.peer))
    }
    fn rollback(&mut self, caller: &Caller, _: Rollback) -> Result<Confirmed, Refusal> {
        let author = Author::Client(caller.peer);
        with_store(self, |store, directions, followers| store.rollback(directions, followers, author))
    }
    fn undo(&mut self, caller: &Caller, request: Undo) -> Result<Applied, Refusal> {
        let author = Author::Client(caller.peer);
        with_store(self, |store, directions, followers| store.undo(directions, followers, author, &request))
    }
    fn in_force(&mut self, caller: &Caller, request: InForce) -> Result<Text, Refusal> {
        if !caller.peer.is_operator() && !self.store.is_public() {
            let text = "the shaper file is not readable for all users";
            return Err(
                Refusal::new(Code::NotAllowed, text).help("ask root for it; `tidegate status` shows its classes")
            );
        }
        ConfigStore::in_force(&self.directions, &request)
    }
}

/// A change of the configuration, with the parts that follow it.
fn with_store<T>(
    daemon: &mut Daemon,
    change: impl FnOnce(&mut ConfigStore, &mut [ShapedDirection], Followers<'_>) -> T,
) -> T {
    let interface = daemon.interface();
    let Daemon { directions, store, promises, reservations, telemetry, supervisor, notifier, .. } = daemon;
    change(
        store,
        directions,
        Followers { promises, reservations, telemetry, notifier, supervisor, interface: &interface },
    )
}

//! The list of calls, and who may make them.

use serde_json::Value;
use tidegate_control::calls::{
    Apply, Classes, Confirm, Events, Explain, Feedback, Flows, InForce, PromiseCall, Promises, Refresh, Release, Renew,
    ReservationsQuery, Reserve, Rollback, StatusQuery, Unreserve, Unsubscribe,
};
use tidegate_control::protocol::{Call, Code, Refusal, Request};

use crate::daemon::Daemon;
use crate::server::Peer;
use crate::{apply, events, observe, promise, reserve, status};

/// Who asks.
#[derive(Debug)]
pub struct Caller {
    /// The connection; what it holds ends with it (see [`Daemon::gone`](crate::Daemon)).
    pub client: u64,
    /// The process at its other end.
    pub peer: Peer,
}

impl Caller {
    /// Whether this is root, or the user that runs the daemon.
    pub fn may_all(&self) -> bool {
        self.peer.uid == 0 || self.peer.uid == rustix::process::geteuid().as_raw()
    }
    /// Refuses everybody but root and the user that runs the daemon.
    ///
    /// # Errors
    /// [`Code::NotAllowed`].
    pub fn must_be_root(&self, what: &str) -> Result<(), Refusal> {
        if self.may_all() {
            return Ok(());
        }
        let text = format!("user {} may not {what}", self.peer.uid);
        Err(Refusal::new(Code::NotAllowed, text).help("ask root, or the user that runs tidegate"))
    }
}

/// Every call, by name, for the refusal of another one.
const CALLS: &[&str] = &[
    StatusQuery::NAME,
    Classes::NAME,
    Flows::NAME,
    Explain::NAME,
    Events::NAME,
    Unsubscribe::NAME,
    PromiseCall::NAME,
    Renew::NAME,
    Release::NAME,
    Promises::NAME,
    Feedback::NAME,
    Apply::NAME,
    Confirm::NAME,
    Rollback::NAME,
    InForce::NAME,
    Reserve::NAME,
    Refresh::NAME,
    Unreserve::NAME,
    ReservationsQuery::NAME,
];

/// Does what is asked for.
pub(crate) fn answer(daemon: &mut Daemon, caller: &mut Caller, request: &Request) -> Result<Value, Refusal> {
    match request.call.as_str() {
        StatusQuery::NAME => with(request, |call| status::answer(daemon, call)),
        Classes::NAME => with(request, |_: Classes| observe::classes(daemon)),
        Flows::NAME => with(request, |call| observe::flows(daemon, &call)),
        Explain::NAME => with(request, |call| observe::explain(daemon, &call)),
        Events::NAME => with(request, |call| events::subscribe(daemon, caller, call)),
        Apply::NAME => with(request, |call| apply::apply(daemon, caller, call)),
        Confirm::NAME => with(request, |call| apply::confirm(daemon, caller, call)),
        Rollback::NAME => with(request, |call| apply::rollback(daemon, caller, call)),
        InForce::NAME => with(request, |call| apply::in_force(daemon, &call)),
        Reserve::NAME => with(request, |call| reserve::reserve(daemon, caller, call)),
        Refresh::NAME => with(request, |call| reserve::refresh(daemon, caller, &call)),
        Unreserve::NAME => with(request, |call| reserve::release(daemon, caller, &call)),
        ReservationsQuery::NAME => with(request, |call| reserve::list(daemon, &call)),
        Unsubscribe::NAME => with(request, |call| events::unsubscribe(daemon, caller, call)),
        PromiseCall::NAME => with(request, |call| promise::promise(daemon, caller, call)),
        Renew::NAME => with(request, |call| promise::renew(daemon, caller, &call)),
        Release::NAME => with(request, |call| promise::release(daemon, caller, &call)),
        Promises::NAME => with(request, |call| promise::promises(daemon, call)),
        Feedback::NAME => with(request, |call| promise::feedback(daemon, caller, call)),
        other => Err(Refusal::new(Code::UnknownCall, format!("there is no call `{other}`"))
            .help(format!("there are {}", CALLS.join(", ")))),
    }
}

/// Reads the parameters, does the work, writes the answer.
fn with<C: Call>(request: &Request, work: impl FnOnce(C) -> Result<C::Reply, Refusal>) -> Result<Value, Refusal> {
    let reply = work(request.parameters()?)?;
    serde_json::to_value(reply).map_err(|error| Refusal::new(Code::Failed, error.to_string()))
}

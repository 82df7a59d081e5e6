//! Hands grants from one process to the next: promises and reservations that do not end with a connection.
//!
//! They are kept as they were requested, in the memory that the guardian holds for a successor ([`Shaping::set_state`]), so
//! that they survive a process that is killed as well. The successor makes them again, with their numbers, before it takes over the
//! packets of their flows.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidegate_control::calls::{PromiseCall, Reserve};
use tidegate_control::protocol::Refusal;
use tidegate_live::shaping::Shaping;
use tidegate_live::timing;
use tidegate_units::Span;

use crate::caller::{Caller, Peer};
use crate::directions::ShapedDirection;
use crate::notifier::Notifier;
use crate::promises::Promises;
use crate::reservations::Reservations;
use crate::supervisor::Grants;

/// The version of the format. Grants in another version are not read.
const VERSION: u32 = 1;

/// A promise or a reservation.
#[derive(Debug)]
pub(crate) struct Grant {
    pub number: u64,
    pub uid: u32,
    pub pid: i32,
    /// When it ends.
    pub until: Option<Instant>,
    /// The class of a promise.
    pub class: Option<String>,
    pub request: GrantRequest,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum GrantRequest {
    Promise(PromiseCall),
    Reservation(Reserve),
}

/// The grants of a direction.
#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    /// Numbers below it have been used.
    next: u64,
    grants: Vec<KeptGrant>,
}

#[derive(Serialize, Deserialize)]
struct KeptGrant {
    number: u64,
    uid: u32,
    pid: i32,
    /// When it ends, in nanoseconds of the monotonic clock, which all processes share.
    until: Option<u64>,
    /// The class of a promise; a predecessor of an earlier version does not name it.
    #[serde(default)]
    class: Option<String>,
    request: GrantRequest,
}

/// Keeps the grants of each direction for a successor, once after each change.
#[derive(Debug, Default)]
pub(crate) struct Handover(Vec<Option<Signature>>);

/// Differs when the grants of a direction may have changed.
#[derive(PartialEq, Eq, Debug)]
struct Signature {
    /// The generation of the data path; another data path may keep the grants in another file.
    generation: u64,
    next: u64,
    /// Numbers and ends; a request never changes.
    grants: Vec<(u64, Option<Instant>)>,
}

impl Handover {
    /// Called with every tick.
    pub fn keep(
        &mut self,
        directions: &[ShapedDirection],
        promises: &Promises,
        reservations: &Reservations,
        notifier: &Notifier,
    ) {
        self.0.resize_with(directions.len(), || None);
        let (now, clock) = (Instant::now(), timing::now());
        let until = |time: Instant| {
            (clock + Span::from_nanos(time.saturating_duration_since(now).as_nanos() as u64)).as_nanos()
        };
        for (at, direction) in directions.iter().enumerate() {
            let Some(shaping) = direction.shaping() else { continue };
            let signature = Signature {
                generation: direction.generation(),
                next: notifier.numbers_used(),
                grants: promises.ends(at).chain(reservations.ends(at)).collect(),
            };
            if self.0[at].as_ref() == Some(&signature) {
                continue;
            }
            let mut grants: Vec<Grant> = promises.lasting(at).chain(reservations.lasting(at)).collect();
            grants.sort_by_key(|grant| grant.number);
            let kept = grants.into_iter().map(|grant| KeptGrant {
                number: grant.number,
                uid: grant.uid,
                pid: grant.pid,
                until: grant.until.map(until),
                class: grant.class,
                request: of_direction(grant.request, &direction.name),
            });
            let kept = Kept { version: VERSION, next: signature.next, grants: kept.collect() };
            let bytes = serde_json::to_vec(&kept).unwrap_or_default();
            if shaping.set_state(&bytes).is_ok() {
                self.0[at] = Some(signature);
            }
        }
    }
}

/// Makes again what the predecessor of this process had granted in the last of `directions`, whose data path has not begun. Returns
/// what could not be made again, for people.
pub(crate) fn restore(directions: &[ShapedDirection], grants: &mut Grants<'_>) -> Vec<String> {
    let Grants { promises, reservations, notifier } = grants;
    let Some(direction) = directions.last() else { return Vec::new() };
    let kept = direction.shaping().and_then(Shaping::left_state).and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let Some(kept) = kept.filter(|kept: &Kept| kept.version == VERSION) else { return Vec::new() };
    let mut next = notifier.numbers_used().max(kept.next);
    let mut lost = Vec::new();
    for grant in kept.grants {
        let now = timing::now().as_nanos();
        let remaining = grant.until.map(|until| Span::from_nanos(until.saturating_sub(now)));
        if remaining.is_some_and(Span::is_zero) {
            continue;
        }
        notifier.continue_numbers(grant.number);
        // Their connections no longer exist. Limits are by connection, so each grant counts as one of its own.
        let caller = Caller { client: u64::MAX - grant.number, peer: Peer { uid: grant.uid, pid: grant.pid } };
        let outcome = match grant.request {
            GrantRequest::Promise(request) => {
                // No flow is here yet by which its class could be chosen again, nor the rate that it has elsewhere be counted.
                let class = grant.class.filter(|class| direction.class_named(class).is_ok());
                let class = request.class.or(class);
                let request = PromiseCall { class, wait: true, lease: remaining, ..request };
                promises.add(directions, notifier, &caller, request).map(drop)
            }
            GrantRequest::Reservation(request) => {
                let request = Reserve { lasts: remaining, ..request };
                reservations.reserve(directions, notifier, &caller, request).map(drop)
            }
        };
        if let Err(Refusal { message, .. }) = outcome {
            lost.push(format!("number {} is lost, because it could not be made again: {message}", grant.number));
        }
        next = next.max(notifier.numbers_used());
    }
    notifier.continue_numbers(next);
    // Once for all: packets wait for a moment only.
    if let Err(Refusal { message, .. }) = promises.install(directions, notifier, directions.len() - 1) {
        lost.push(format!("what was promised before this start has no effect: {message}"));
    }
    lost
}

/// The request, of the direction that it was resolved to.
fn of_direction(request: GrantRequest, name: &str) -> GrantRequest {
    let direction = Some(name.to_owned());
    match request {
        GrantRequest::Promise(request) => GrantRequest::Promise(PromiseCall { direction, ..request }),
        GrantRequest::Reservation(request) => GrantRequest::Reservation(Reserve { direction, ..request }),
    }
}

/// How often the grants are kept.
pub(crate) const EVERY: Duration = Duration::from_millis(500);

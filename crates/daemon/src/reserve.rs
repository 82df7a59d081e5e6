//! `reserve`, `refresh`, `unreserve`, `reservations`: leases, and whose they are.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tidegate_config::discipline::Discipline;
use tidegate_config::edit;
use tidegate_config::shaper::{Match, Root};
use tidegate_config::values::User;
use tidegate_control::calls::{
    Authority, Permission, Refresh, Refreshed, ReservationList, ReservationsQuery, Reserve, Reserved, Unreserve,
    Unreserved,
};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_core::reservation::{Refusal as Admission, Request, Service, TSpec};
use tidegate_engine::{Lease, ReserveError};
use tidegate_units::{Bytes, Instant as Time, Rate, Span};

use crate::daemon::Daemon;
use crate::requests::Caller;

/// The longest name of a reservation.
const NAME: usize = 64;

/// A lease that somebody holds.
#[derive(Clone, Debug)]
struct Held {
    direction: usize,
    class: tidegate_core::ClassId,
    name: String,
    /// What was asked for, to be asked for again when the data path is started anew.
    request: Request,
    matches: Match,
    uid: u32,
    /// The connection it ends with.
    client: Option<u64>,
    /// When it ends; it is kept alive until then.
    until: Option<Instant>,
    /// When it is kept alive next.
    refresh: Instant,
    every: Duration,
}

/// Every lease, by its number.
#[derive(Debug, Default)]
pub(crate) struct Leases(HashMap<u64, Held>);

fn refused(refused: &ReserveError) -> Refusal {
    let code = match refused {
        ReserveError::Nowhere => Code::Unsupported,
        ReserveError::Everything | ReserveError::Bounds(_) | ReserveError::Name(_) | ReserveError::Rules(_) => {
            Code::Invalid
        }
        ReserveError::Admission(Admission::Unknown(_)) => Code::NotFound,
        ReserveError::Admission(Admission::TSpec(_) | Admission::PacketSize { .. }) => Code::Invalid,
        ReserveError::Admission(Admission::NoBounds) => Code::Unsupported,
        ReserveError::Admission(_) | ReserveError::InTheWay { .. } => Code::NoRoom,
    };
    let refusal = Refusal::new(code, refused.to_string());
    match refused {
        ReserveError::Admission(Admission::Rate { free, .. }) if !free.is_zero() => {
            refusal.help(format!("ask for at most {free}, or wait for what others release"))
        }
        _ => refusal,
    }
}

/// The link's rate and largest packet.
fn link(daemon: &Daemon, at: usize) -> Option<(Rate, Bytes)> {
    match &daemon.directions[at].config.root {
        Root::Discipline(discipline) => match &**discipline {
            Discipline::Cbq(cbq) => Some((cbq.link.value, cbq.mtu.value)),
            _ => None,
        },
        Root::Shaper(_) => None,
    }
}

/// How long it is until then.
fn left(until: Instant) -> Span {
    Span::from_nanos(until.saturating_duration_since(Instant::now()).as_nanos() as u64)
}

/// `until`: when it ends however often it is refreshed.
fn reserved(number: u64, lease: &Lease, until: Option<Instant>, free: Option<Rate>, now: Time) -> Reserved {
    Reserved {
        reservation: number,
        name: lease.name.clone(),
        matches: lease.matches.to_string(),
        rate: lease.grant.rate,
        bound: lease.grant.bound,
        buffer: lease.grant.buffer,
        expires: until.map_or(lease.grant.expires.since(now), left),
        free: free.unwrap_or(Rate::ZERO),
    }
}

/// What a reservation is called. Everybody may make one, and others are shown its name, at terminals too.
fn named(name: Option<String>, number: u64) -> Result<String, Refusal> {
    let Some(name) = name else { return Ok(format!("reservation {number}")) };
    if name.trim().is_empty() || name.chars().count() > NAME || name.chars().any(char::is_control) {
        return Err(Refusal::new(Code::Invalid, "a reservation cannot be called that")
            .help(format!("give a name of at most {NAME} characters in one line, or none")));
    }
    Ok(name)
}

pub(crate) fn reserve(daemon: &mut Daemon, caller: &Caller, call: Reserve) -> Result<Reserved, Refusal> {
    let at = daemon.direction_named(call.direction.as_deref())?;
    let (link, mtu) = link(daemon, at).ok_or_else(|| refused(&ReserveError::Nowhere))?;
    let mut matches = edit::matching(&call.matches).map_err(|text| Refusal::new(Code::Invalid, text))?;
    if matches.is_everything() {
        return Err(refused(&ReserveError::Everything));
    }
    if !caller.is_operator() {
        matches.users = vec![User::Id(caller.peer.uid)];
    }
    let max_packet = call.max_packet.unwrap_or(mtu);
    let tspec = TSpec {
        rate: call.rate,
        bucket: call.bucket.unwrap_or(max_packet.saturating_mul(2)),
        peak: call.peak.unwrap_or(link.max(call.rate)),
        min_unit: call.min_unit.unwrap_or(Bytes::new(64).min(max_packet)),
        max_packet,
    };
    let service = match (call.guaranteed, call.delay) {
        (false, None) => Service::ControlledLoad,
        (_, delay) => Service::Guaranteed { rate: None, delay },
    };
    let number = daemon.next_number();
    let name = named(call.name, number)?;
    let request = Request { tspec, service };
    let shaping = daemon.directions[at].shaping()?;
    let (asked, packets) = (name.clone(), matches.clone());
    let outcome = shaping.change(move |pipeline, now, gate| {
        let lease = pipeline.reserve(now, &asked, &request, packets, gate)?;
        Ok::<_, ReserveError>((lease, pipeline.unreserved(), now))
    });
    let (lease, free, now) =
        outcome.map_err(|error| Refusal::new(Code::Failed, error.to_string()))?.map_err(|reason| refused(&reason))?;
    let every = Duration::from_nanos(lease.grant.expires.since(now).as_nanos() / 3);
    let until = call.lasts.map(|span| Instant::now() + Duration::from_nanos(span.as_nanos()));
    let held = Held {
        direction: at,
        class: lease.grant.id,
        name,
        request,
        matches,
        uid: caller.peer.uid,
        client: until.is_none().then_some(caller.client),
        until,
        refresh: Instant::now() + every,
        every,
    };
    daemon.leases.0.insert(number, held);
    Ok(reserved(number, &lease, until, free, now))
}

/// The lease `number`, which the caller may handle.
fn held(daemon: &Daemon, caller: &Caller, number: u64) -> Result<Held, Refusal> {
    let none = || Refusal::new(Code::NotFound, format!("there is no reservation {number}")).help("it may have expired");
    let held = daemon.leases.0.get(&number).ok_or_else(none)?;
    Permission::check_holder(caller, held.uid, "change a reservation of another user")?;
    Ok(held.clone())
}

pub(crate) fn refresh(daemon: &mut Daemon, caller: &Caller, call: &Refresh) -> Result<Refreshed, Refusal> {
    let lease = held(daemon, caller, call.reservation)?;
    let class = lease.class;
    let expires: Result<Span, ReserveError> = daemon.directions[lease.direction]
        .ask(move |pipeline, now| pipeline.refresh(now, class).map(|expires| expires.since(now)))?;
    // However often it is refreshed.
    let until = lease.until.map(left);
    expires.map(|expires| Refreshed { expires: until.unwrap_or(expires) }).map_err(|reason| {
        daemon.leases.0.remove(&call.reservation);
        refused(&reason)
    })
}

pub(crate) fn release(daemon: &mut Daemon, caller: &Caller, call: &Unreserve) -> Result<Unreserved, Refusal> {
    let lease = held(daemon, caller, call.reservation)?;
    daemon.leases.0.remove(&call.reservation);
    end(daemon, &lease)?;
    Ok(Unreserved { name: lease.name })
}

fn end(daemon: &Daemon, lease: &Held) -> Result<(), Refusal> {
    let class = lease.class;
    let outcome = daemon.directions[lease.direction]
        .shaping()?
        .change(move |pipeline, now, gate| pipeline.release(now, class, gate))
        .map_err(|error| Refusal::new(Code::Failed, error.to_string()))?;
    outcome.map_err(|reason| refused(&reason))
}

pub(crate) fn list(daemon: &Daemon, _: &ReservationsQuery) -> Result<ReservationList, Refusal> {
    let mut reservations = Vec::new();
    for (at, direction) in daemon.directions.iter().enumerate() {
        let (leases, free, now) = direction
            .ask(|pipeline, now| (pipeline.leases().cloned().collect::<Vec<_>>(), pipeline.unreserved(), now))?;
        for lease in &leases {
            let known = daemon.leases.0.iter().find(|(_, held)| held.direction == at && held.class == lease.grant.id);
            let (number, until) = known.map_or((0, None), |(number, held)| (*number, held.until));
            reservations.push(reserved(number, lease, until, free, now));
        }
    }
    Ok(ReservationList { reservations })
}

/// A client is gone: its leases end.
pub(crate) fn gone(daemon: &mut Daemon, client: u64) {
    let of_client = |held: &Held| held.client == Some(client);
    let ended: Vec<Held> = daemon.leases.0.values().filter(|held| of_client(held)).cloned().collect();
    daemon.leases.0.retain(|_, held| !of_client(held));
    for lease in ended {
        // One that has expired in the meantime is none any more.
        let _ = end(daemon, &lease);
    }
}

/// Makes all reservations of a direction again, in the order in which they were made, in an engine that knows none: after
/// its data path was started anew. Their holders need not know.
pub(crate) fn reinstate(daemon: &mut Daemon, at: usize) {
    let of_direction = daemon.leases.0.iter().filter(|(_, held)| held.direction == at);
    let mut numbers: Vec<u64> = of_direction.map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    for number in numbers {
        let (Some(held), Ok(shaping)) = (daemon.leases.0.get_mut(&number), daemon.directions[at].shaping()) else {
            continue;
        };
        let (name, request, matches) = (held.name.clone(), held.request, held.matches.clone());
        let again = shaping.change(move |pipeline, now, gate| pipeline.reserve(now, &name, &request, matches, gate));
        let why = match again {
            Ok(Ok(lease)) => {
                held.class = lease.grant.id;
                continue;
            }
            Ok(Err(refused)) => refused.to_string(),
            Err(error) => error.to_string(),
        };
        let name = held.name.clone();
        daemon.leases.0.remove(&number);
        daemon.say(&format!("`{name}` is reserved no longer, it could not be made again: {why}"));
    }
}

/// Keeps alive what is to live for a time of its own, and ends it then.
pub(crate) fn tick(daemon: &mut Daemon) {
    let now = Instant::now();
    let over = |held: &Held| held.until.is_some_and(|until| until <= now);
    let ended: Vec<Held> = daemon.leases.0.values().filter(|held| over(held)).cloned().collect();
    daemon.leases.0.retain(|_, held| !over(held));
    for lease in ended {
        let _ = end(daemon, &lease);
    }
    let mut gone = Vec::new();
    for (number, held) in &mut daemon.leases.0 {
        if held.until.is_none() || held.refresh > now {
            continue;
        }
        held.refresh = now + held.every;
        let class = held.class;
        let kept = daemon.directions[held.direction].ask(move |pipeline, now| pipeline.refresh(now, class).is_ok());
        if kept == Ok(false) {
            gone.push(*number);
        }
    }
    gone.iter().for_each(|number| drop(daemon.leases.0.remove(number)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_can_be_had() {
        let (free, asked) = (Rate::from_mbit(1), Rate::from_mbit(2));
        let refusal = refused(&ReserveError::Admission(Admission::Rate { free, asked }));
        assert_eq!(refusal.message, "needs 2mbit, 1mbit is free");
        assert_eq!(refusal.help.as_deref(), Some("ask for at most 1mbit, or wait for what others release"));
    }
    #[test]
    fn a_name_is_what_a_terminal_can_show() {
        let code = |name: &str| named(Some(name.to_owned()), 7).map_err(|refusal| refusal.code);
        assert_eq!(named(None, 7).unwrap(), "reservation 7");
        assert_eq!(code("Anrufe, früh 🦀"), Ok("Anrufe, früh 🦀".to_owned()));
        assert_eq!(code(&"x".repeat(64)), Ok("x".repeat(64)));
        for wrong in ["", " ", "two\nlines", "\x1b[2Jgone", "\u{9b}2J", &"x".repeat(65)] {
            assert_eq!(code(wrong), Err(Code::Invalid), "{wrong:?}");
        }
    }
}

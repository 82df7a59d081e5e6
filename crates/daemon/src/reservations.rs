//! `reserve`, `refresh`, `unreserve` and `reservations`: classes under CBQ for single flows, and their holders.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tidegate_config::decode::is_bidi_control;
use tidegate_config::discipline::Discipline;
use tidegate_config::edit;
use tidegate_config::shaper::{Match, Root};
use tidegate_config::values::User;
use tidegate_control::calls::{
    Authority, Permission, Refresh, Refreshed, ReservationList, Reserve, Reserved, Unreserve, Unreserved,
};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_core::ClassId;
use tidegate_core::reservation::{Refusal as Admission, Request, Service, TSpec};
use tidegate_engine::{Lease, ReserveError};
use tidegate_live::shaping::Shaping;
use tidegate_units::{Bytes, Instant as Time, Rate, Span};

use crate::caller::Caller;
use crate::directions::{IN_USER_SPACE, ShapedDirection, beyond_bounds, direction_named};
use crate::handover::{Grant, GrantRequest};
use crate::notifier::Notifier;

/// The longest name of a reservation.
const NAME: usize = 64;

/// A reservation in force.
#[derive(Clone, Debug)]
struct Reservation {
    direction: usize,
    class: ClassId,
    name: String,
    /// The rate that was granted.
    rate: Rate,
    /// The request, which is made again when the data path is started again.
    request: Request,
    matches: Match,
    uid: u32,
    /// The connection it ends with.
    client: Option<u64>,
    /// When it ends; until then it is refreshed here.
    until: Option<Instant>,
    /// The time of the next refresh.
    refresh: Instant,
    every: Duration,
    /// The process that requested it, and its request, for a successor.
    pid: i32,
    call: Reserve,
}

/// The class and the rate that a reservation has in a data path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    class: ClassId,
    rate: Rate,
}

/// The reservations of all directions, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Reservations(HashMap<u64, Reservation>);

impl Reservations {
    /// Answers `reserve`.
    pub fn reserve(
        &mut self,
        directions: &[ShapedDirection],
        notifier: &Notifier,
        caller: &Caller,
        call: Reserve,
    ) -> Result<Reserved, Refusal> {
        let index = direction_named(directions, call.direction.as_deref())?;
        let direction = &directions[index];
        let (link, mtu) = link(direction).ok_or_else(|| refusal(&ReserveError::Nowhere))?;
        let mut matches = edit::matching(&call.matches).map_err(|text| Refusal::new(Code::Invalid, text))?;
        if matches.is_everything() {
            return Err(refusal(&ReserveError::Everything));
        }
        let mut bound = None;
        if !caller.is_operator() {
            self.within_bounds(direction, caller, call.lasts)?;
            matches.users = vec![User::Id(caller.peer.uid)];
            bound = Some((direction.bounds(caller.peer.uid).reserved, self.reserved_by(index, caller.peer.uid)));
        }
        check(direction.running()?, &matches)
            .map_err(|why| Refusal::new(Code::Unsupported, why).help(IN_USER_SPACE))?;
        let request = Request { tspec: tspec(&call, link, mtu), service: service(&call) };
        let kept = call.clone();
        let number = notifier.next_number();
        let name = name_of(call.name, number)?;
        let (requested, packets) = (name.clone(), matches.clone());
        let outcome = direction.running()?.change(move |engine, now, sink| {
            let remaining = bound.map(|(most, own)| left_to(most, own, engine.unreserved().unwrap_or(Rate::ZERO)));
            let lease = engine.reserve(now, &requested, &request, packets, sink)?;
            // The rate that a bound on the delay takes is known only now.
            if let Some(remaining) = remaining.filter(|remaining| lease.grant.rate > *remaining) {
                engine.release(now, lease.grant.id, sink)?;
                return Ok(Err((remaining, lease.grant.rate)));
            }
            Ok::<_, ReserveError>(Ok((lease, engine.unreserved(), now)))
        });
        let outcome = outcome.map_err(|error| Refusal::new(Code::Failed, error.to_string()))?;
        let (lease, free, now) = outcome.map_err(|error| refusal(&error))?.map_err(|(remaining, wanted)| {
            beyond_bounds(format!("user {} may reserve {remaining} more, not {wanted}", caller.peer.uid))
        })?;
        let every = Duration::from_nanos(lease.grant.expires.since(now).as_nanos() / 3);
        let until = call.lasts.map(|span| Instant::now() + Duration::from_nanos(span.as_nanos()));
        let reservation = Reservation {
            direction: index,
            class: lease.grant.id,
            name,
            rate: lease.grant.rate,
            request,
            matches,
            uid: caller.peer.uid,
            client: until.is_none().then_some(caller.client),
            until,
            refresh: Instant::now() + every,
            every,
            pid: caller.peer.pid,
            call: kept,
        };
        self.0.insert(number, reservation);
        Ok(reserved(number, &lease, until, free, now))
    }

    fn detached(&self, index: usize) -> impl Iterator<Item = (&u64, &Reservation)> {
        self.0.iter().filter(move |(_, held)| held.direction == index && held.until.is_some())
    }
    /// The numbers and ends of [`lasting`](Self::lasting), which costs less.
    pub fn ends(&self, index: usize) -> impl Iterator<Item = (u64, Option<Instant>)> {
        self.detached(index).map(|(number, held)| (*number, held.until))
    }
    /// The reservations of a direction that do not end with a connection.
    pub fn lasting(&self, index: usize) -> impl Iterator<Item = Grant> {
        self.detached(index).map(|(number, held)| Grant {
            number: *number,
            uid: held.uid,
            pid: held.pid,
            until: held.until,
            class: None,
            request: GrantRequest::Reservation(held.call.clone()),
        })
    }

    /// Refuses what exceeds the bounds of the configuration for a user who is not root.
    fn within_bounds(&self, direction: &ShapedDirection, caller: &Caller, lasts: Option<Span>) -> Result<(), Refusal> {
        let uid = caller.peer.uid;
        let most = direction.bounds(uid).reservations;
        if self.0.values().filter(|held| held.uid == uid).count() as u64 >= u64::from(most) {
            return Err(beyond_bounds(format!("user {uid} may hold {most} reservations, and holds that many")));
        }
        direction.check_lease(lasts)
    }

    /// The sum of the rates that a user has reserved in a direction.
    fn reserved_by(&self, index: usize, uid: u32) -> Rate {
        let own = self.0.values().filter(|held| held.direction == index && held.uid == uid);
        Rate::from_bps(own.fold(0, |sum, held| sum.saturating_add(held.rate.as_bps())))
    }

    /// The reservation `number`, which the caller may change.
    fn held(&self, caller: &Caller, number: u64) -> Result<&Reservation, Refusal> {
        let none =
            || Refusal::new(Code::NotFound, format!("there is no reservation {number}")).help("it may have expired");
        let held = self.0.get(&number).ok_or_else(none)?;
        Permission::check_holder(caller, held.uid, "change a reservation of another user")?;
        Ok(held)
    }

    /// Answers `refresh`.
    pub fn refresh(
        &mut self,
        directions: &[ShapedDirection],
        caller: &Caller,
        request: &Refresh,
    ) -> Result<Refreshed, Refusal> {
        let held = self.held(caller, request.reservation)?;
        let class = held.class;
        let expires: Result<Span, ReserveError> = directions[held.direction]
            .ask(move |engine, now| engine.refresh(now, class).map(|expires| expires.since(now)))?;
        // One with a time of its own ends then, however often it is refreshed.
        let until = held.until.map(remaining);
        expires.map(|expires| Refreshed { expires: until.unwrap_or(expires) }).map_err(|error| {
            self.0.remove(&request.reservation);
            refusal(&error)
        })
    }

    /// Answers `unreserve`.
    pub fn unreserve(
        &mut self,
        directions: &[ShapedDirection],
        caller: &Caller,
        request: &Unreserve,
    ) -> Result<Unreserved, Refusal> {
        let held = self.held(caller, request.reservation)?.clone();
        self.0.remove(&request.reservation);
        end(directions, &held)?;
        Ok(Unreserved { name: held.name })
    }

    /// Answers `reservations`.
    pub fn list(&self, directions: &[ShapedDirection]) -> Result<ReservationList, Refusal> {
        let mut reservations = Vec::new();
        for (index, direction) in directions.iter().enumerate() {
            let (leases, free, now) = direction
                .ask(|engine, now| (engine.leases().cloned().collect::<Vec<_>>(), engine.unreserved(), now))?;
            for lease in &leases {
                let known = self.0.iter().find(|(_, held)| held.direction == index && held.class == lease.grant.id);
                let (number, until) = known.map_or((0, None), |(number, held)| (*number, held.until));
                reservations.push(reserved(number, lease, until, free, now));
            }
        }
        Ok(ReservationList { reservations })
    }

    /// Ends the reservations of a connection that has ended.
    pub fn disconnected(&mut self, directions: &[ShapedDirection], client: u64) {
        self.end_where(directions, |held| held.client == Some(client));
    }

    fn end_where(&mut self, directions: &[ShapedDirection], over: impl Fn(&Reservation) -> bool) {
        for (_, held) in self.0.extract_if(|_, held| over(held)) {
            // One that has expired meanwhile is gone already.
            let _ = end(directions, &held);
        }
    }

    /// Makes all reservations of a direction again, in an engine that has none: after its data path was started again. Their holders
    /// need not know.
    pub fn reinstate(&mut self, directions: &[ShapedDirection], notifier: &Notifier, index: usize) {
        let Ok(shaping) = directions[index].running() else { return };
        for (number, made) in self.make_again(shaping, index) {
            match made {
                Ok(made) => self.renew(number, made),
                Err(reason) => {
                    let name = self.0.remove(&number).map(|held| held.name).unwrap_or_default();
                    notifier.log(&format!(
                        "the reservation `{name}` is lost, because it could not be made again: {reason}"
                    ));
                }
            }
        }
    }

    /// Makes all reservations of a direction again in another data path for it, which is to take the place of this one. With
    /// [`renew`](Self::renew) they are those of that one.
    ///
    /// # Errors
    /// Why one cannot be made there.
    pub fn move_to(&self, shaping: &Shaping, index: usize) -> Result<Vec<(u64, Made)>, String> {
        let one = |(number, made): (u64, Result<Made, String>)| match made {
            Ok(made) => Ok((number, made)),
            Err(why) => {
                let name = self.0.get(&number).map_or("", |held| &held.name);
                Err(format!("the reservation `{name}` cannot be made there: {why}"))
            }
        };
        self.make_again(shaping, index).into_iter().map(one).collect()
    }

    /// Notes what a reservation is in the data path that has it from now on.
    pub fn renew(&mut self, number: u64, made: Made) {
        if let Some(held) = self.0.get_mut(&number) {
            (held.class, held.rate) = (made.class, made.rate);
        }
    }

    /// Makes all reservations of a direction in a data path that has none, in the order in which they were made.
    fn make_again(&self, shaping: &Shaping, index: usize) -> Vec<(u64, Result<Made, String>)> {
        let mut all: Vec<_> = self.0.iter().filter(|(_, held)| held.direction == index).collect();
        all.sort_unstable_by_key(|(number, _)| **number);
        let again = |held: &Reservation| {
            check(shaping, &held.matches)?;
            let (name, request, matches) = (held.name.clone(), held.request, held.matches.clone());
            let again = shaping.change(move |engine, now, sink| engine.reserve(now, &name, &request, matches, sink));
            let lease = again.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
            Ok(Made { class: lease.grant.id, rate: lease.grant.rate })
        };
        all.into_iter().map(|(number, held)| (*number, again(held))).collect()
    }

    /// Refreshes reservations that have a time of their own, and ends them then.
    pub fn tick(&mut self, directions: &[ShapedDirection]) {
        let now = Instant::now();
        self.end_where(directions, |held| held.until.is_some_and(|until| until <= now));
        self.0.retain(|_, held| {
            if held.until.is_none() || held.refresh > now {
                return true;
            }
            held.refresh = now + held.every;
            let class = held.class;
            directions[held.direction].ask(move |engine, now| engine.refresh(now, class).is_ok()) != Ok(false)
        });
    }
}

/// Checks that a data path can tell the packets of a reservation apart.
fn check(shaping: &Shaping, matches: &Match) -> Result<(), String> {
    shaping.check_reservation(matches).map_err(|what| format!("the kernel path does not have {what}"))
}

/// The rate that a user may still reserve who has reserved `own`, while `free` is not reserved.
fn left_to(most: Option<Rate>, own: Rate, free: Rate) -> Rate {
    let half = || Rate::from_bps(own.as_bps().saturating_add(free.as_bps()) / 2);
    most.unwrap_or_else(half).saturating_sub(own)
}

/// Ends a reservation in the engine.
fn end(directions: &[ShapedDirection], held: &Reservation) -> Result<(), Refusal> {
    let class = held.class;
    let outcome = directions[held.direction]
        .running()?
        .change(move |engine, now, sink| engine.release(now, class, sink))
        .map_err(|error| Refusal::new(Code::Failed, error.to_string()))?;
    outcome.map_err(|error| refusal(&error))
}

/// The rate of the link and its largest packet.
fn link(direction: &ShapedDirection) -> Option<(Rate, Bytes)> {
    match &direction.config.root {
        Root::Discipline(discipline) => match &**discipline {
            Discipline::Cbq(cbq) => Some((cbq.link.value, cbq.mtu.value)),
            _ => None,
        },
        Root::Shaper(_) => None,
    }
}

fn tspec(call: &Reserve, link: Rate, mtu: Bytes) -> TSpec {
    let max_packet = call.max_packet.unwrap_or(mtu);
    TSpec {
        rate: call.rate,
        bucket: call.bucket.unwrap_or(max_packet.saturating_mul(2)),
        peak: call.peak.unwrap_or(link.max(call.rate)),
        min_unit: call.min_unit.unwrap_or(Bytes::new(64).min(max_packet)),
        max_packet,
    }
}

fn service(call: &Reserve) -> Service {
    match (call.guaranteed, call.delay) {
        (false, None) => Service::ControlledLoad,
        (_, delay) => Service::Guaranteed { rate: None, delay },
    }
}

/// The name of a reservation. Every user may make one, and others see its name, on terminals too.
fn name_of(name: Option<String>, number: u64) -> Result<String, Refusal> {
    let Some(name) = name else { return Ok(format!("reservation {number}")) };
    let hidden = |c: char| c.is_control() || is_bidi_control(c);
    if name.trim().is_empty() || name.chars().count() > NAME || name.chars().any(hidden) {
        return Err(Refusal::new(Code::Invalid, "a reservation cannot be called that")
            .help(format!("give a name of at most {NAME} characters in one line, or none")));
    }
    Ok(name)
}

/// The time left until then.
fn remaining(until: Instant) -> Span {
    Span::from_nanos(until.saturating_duration_since(Instant::now()).as_nanos() as u64)
}

/// A reservation in the form of the protocol; with `until` it ends then, however often it is refreshed.
fn reserved(number: u64, lease: &Lease, until: Option<Instant>, free: Option<Rate>, now: Time) -> Reserved {
    Reserved {
        reservation: number,
        name: lease.name.clone(),
        matches: lease.matches.to_string(),
        rate: lease.grant.rate,
        bound: lease.grant.bound,
        buffer: lease.grant.buffer,
        expires: until.map_or(lease.grant.expires.since(now), remaining),
        free: free.unwrap_or(Rate::ZERO),
    }
}

/// The refusal of a reservation by the engine.
fn refusal(error: &ReserveError) -> Refusal {
    let code = match error {
        ReserveError::Nowhere => Code::Unsupported,
        ReserveError::Everything | ReserveError::Bounds(_) | ReserveError::Name(_) | ReserveError::Rules(_) => {
            Code::Invalid
        }
        ReserveError::Admission(Admission::Unknown(_)) => Code::NotFound,
        ReserveError::Admission(Admission::TSpec(_) | Admission::PacketSize { .. }) => Code::Invalid,
        ReserveError::Admission(Admission::NoBounds) => Code::Unsupported,
        ReserveError::Admission(_) | ReserveError::InTheWay { .. } => Code::NoRoom,
    };
    let refusal = Refusal::new(code, error.to_string());
    match error {
        ReserveError::Admission(Admission::Rate { free, .. }) if !free.is_zero() => {
            refusal.help(format!("ask for at most {free}, or wait for what others release"))
        }
        _ => refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_contains_the_available_rate() {
        let (free, asked) = (Rate::from_mbit(1), Rate::from_mbit(2));
        let refusal = refusal(&ReserveError::Admission(Admission::Rate { free, asked }));
        assert_eq!(refusal.message, "needs 2mbit, 1mbit is free");
        assert_eq!(refusal.help.as_deref(), Some("ask for at most 1mbit, or wait for what others release"));
    }
    #[test]
    fn a_user_may_reserve_a_bounded_rate_and_by_default_half() {
        let mbit = Rate::from_mbit;
        assert_eq!(left_to(Some(mbit(3)), mbit(1), mbit(100)), mbit(2));
        assert_eq!(left_to(Some(mbit(3)), mbit(4), mbit(100)), Rate::ZERO, "the bound was lowered");
        assert_eq!(left_to(None, Rate::ZERO, mbit(6)), mbit(3));
        assert_eq!(left_to(None, mbit(2), mbit(4)), mbit(1));
        assert_eq!(left_to(None, mbit(3), mbit(3)), Rate::ZERO);
    }
    #[test]
    fn a_name_is_what_a_terminal_can_show() {
        let code = |name: &str| name_of(Some(name.to_owned()), 7).map_err(|refusal| refusal.code);
        assert_eq!(name_of(None, 7).unwrap(), "reservation 7");
        assert_eq!(code("Anrufe, früh 🦀"), Ok("Anrufe, früh 🦀".to_owned()));
        assert_eq!(code(&"x".repeat(64)), Ok("x".repeat(64)));
        for wrong in ["", " ", "two\nlines", "\x1b[2Jgone", "\u{9b}2J", &"x".repeat(65)] {
            assert_eq!(code(wrong), Err(Code::Invalid), "{wrong:?}");
        }
    }
}

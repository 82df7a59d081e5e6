//! `promise`, `renew`, `release` and `promises`.

use std::time::{Duration, Instant};

use tidegate_config::shaper::Root;
use tidegate_control::calls::{
    Authority, Permission, PromiseCall, PromiseList, PromiseState, Promised, Release, Released, Renew,
};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_core::ClassId;
use tidegate_core::fbq::{Displace, Terms};
use tidegate_engine::{PromiseError, PromiseView};
use tidegate_live::shaping::LiveEngine;
use tidegate_units::{Rate, Span};

use super::targets::Selection;
use super::{Promise, Promises, present};
use crate::caller::Caller;
use crate::directions::{ShapedDirection, beyond_bounds, direction_named};
use crate::notifier::Notifier;
use crate::server::event::Selector;

/// The maximum number of promises.
const PROMISES: usize = 1_024;
/// The maximum number of promises of one connection.
const PROMISES_OF_ONE: usize = 256;
/// The maximum number of flows for which one promise reserves rate.
const FLOWS: u32 = 1_024;
/// The number of present flows after which no more are counted to find the class of a promise.
const COUNTED: usize = 1_024;

impl Promises {
    /// Answers `promise`.
    pub fn promise(
        &mut self,
        directions: &[ShapedDirection],
        notifier: &Notifier,
        caller: &Caller,
        request: PromiseCall,
    ) -> Result<Promised, Refusal> {
        let (number, subscription) = self.add(directions, notifier, caller, request)?;
        let place = self.promises.len() - 1;
        let index = self.promises[place].direction;
        if let Err(refusal) = self.install(directions, notifier, index) {
            notifier.unsubscribe(caller.client, subscription);
            // Its conditions cannot be looked up, so it is not made.
            self.promises.pop();
            let _ = directions[index].ask_each(|| move |engine: &mut LiveEngine, now| engine.promises(now).end(number));
            return Err(refusal);
        }
        Ok(Promised { promise: number, subscription, state: self.state(directions, place)? })
    }

    /// Makes a promise, which has no effect before the conditions of all are installed. Returns its number and that of its
    /// subscription; it is the last one then.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn add(
        &mut self,
        directions: &[ShapedDirection],
        notifier: &Notifier,
        caller: &Caller,
        request: PromiseCall,
    ) -> Result<(u64, u64), Refusal> {
        let index = direction_named(directions, request.direction.as_deref())?;
        let direction = &directions[index];
        check(&request)?;
        direction.can_promise()?;
        if !caller.is_operator() {
            self.within_bounds(direction, caller, &request)?;
        }
        self.within_counts(caller)?;
        let minimum = request.minimum.unwrap_or(Rate::ZERO);
        let selection = Selection::of(caller, request.target.clone(), !caller.is_operator(), &mut self.reader)?;
        let present = present::by_class(&present::flows(direction, &selection.matches, COUNTED)?);
        let class = class_of(direction, request.class.as_deref(), &selection, &present)?;
        let name = direction.name_of(class).to_owned();
        let displace = match &request.displace {
            None => None,
            Some(displace) => {
                let to = direction.class_named(&displace.to)?;
                if to == class {
                    return Err(invalid("flows cannot be displaced to the class they are in", "name another class"));
                }
                Some(Displace { below: displace.below, to: to.0 })
            }
        };
        let kept = request.clone();
        let number = notifier.next_number();
        let subscription = notifier.next_number();
        let (terms, flows) = (Terms { minimum, steps: request.prefer, displace }, request.flows);
        // A flow that is displaced may get it elsewhere.
        if displace.is_none() {
            never_fits(direction, class, minimum).map_or(Ok(()), Err)?;
        }
        let elsewhere: Vec<_> = present.into_iter().filter(|(other, _)| *other != class).collect();
        if !request.wait && !minimum.is_zero() {
            fits_elsewhere(direction, &elsewhere, minimum, flows)?;
        }
        // The rate that those flows have where they are need not be free in this class too.
        let counted: u32 = elsewhere.iter().map(|(_, count)| count).sum();
        let here = flows.saturating_sub(counted);
        let is_enough = counted > 0 && times(minimum, here) <= unpromised(direction, class)?;
        let outcome = make(direction, number, terms, class, flows, request.wait || is_enough)?;
        outcome.map_err(|error| refusal(error, &name, minimum, here.max(1)))?;
        self.promises.push(Promise {
            number,
            uid: caller.peer.uid,
            client: caller.client,
            detached: request.detached,
            subscription,
            direction: index,
            class: name,
            selection,
            minimum,
            steps: request.prefer,
            displace: request.displace.map(|displace| (displace.below, displace.to)),
            flows,
            until: request.lease.map(from_now),
            pid: caller.peer.pid,
            request: kept,
        });
        // Before the promise is in force, so that no event that follows from it is missed.
        notifier.subscribe(caller.client, subscription, Selector::Promise(number));
        Ok((number, subscription))
    }

    /// Answers `renew`.
    pub fn renew(
        &mut self,
        directions: &[ShapedDirection],
        caller: &Caller,
        request: &Renew,
    ) -> Result<PromiseState, Refusal> {
        let place = self.place_of(caller, request.promise)?;
        if !caller.is_operator() {
            directions[self.promises[place].direction].check_lease(Some(request.lease))?;
        }
        self.promises[place].until = Some(from_now(request.lease));
        self.state(directions, place)
    }

    /// Answers `release`.
    pub fn release(
        &mut self,
        directions: &[ShapedDirection],
        notifier: &Notifier,
        caller: &Caller,
        request: &Release,
    ) -> Result<Released, Refusal> {
        let place = self.place_of(caller, request.promise)?;
        // Notified in any case: the promise may be of another connection than this one.
        let own = self.promises[place].uid == caller.peer.uid;
        let reason = if own { "it was released" } else { "root ended it" };
        self.end(directions, notifier, vec![(request.promise, reason)]);
        Ok(Released {})
    }

    /// Answers `promises`.
    pub fn list(&self, directions: &[ShapedDirection]) -> Result<PromiseList, Refusal> {
        let promises = (0..self.promises.len()).map(|place| self.state(directions, place)).collect::<Result<_, _>>()?;
        Ok(PromiseList { promises })
    }

    /// Refuses more promises than there may be, or than may be of one connection.
    fn within_counts(&self, caller: &Caller) -> Result<(), Refusal> {
        if self.promises.len() >= PROMISES {
            let text = format!("{PROMISES} promises are held already, which is the most that there can be");
            return Err(Refusal::new(Code::TooMany, text)
                .help("wait until one ends; `tidegate promise` without conditions lists them"));
        }
        if self.promises.iter().filter(|promise| promise.client == caller.client).count() >= PROMISES_OF_ONE {
            let text = format!("this connection holds {PROMISES_OF_ONE} promises, and can have no more");
            return Err(Refusal::new(Code::TooMany, text)
                .help("release one, ask for more `flows` in one, or open another connection"));
        }
        Ok(())
    }

    /// Refuses what exceeds the bounds of the configuration for a user who is not root.
    fn within_bounds(
        &self,
        direction: &ShapedDirection,
        caller: &Caller,
        request: &PromiseCall,
    ) -> Result<(), Refusal> {
        let uid = caller.peer.uid;
        let bounds = direction.bounds(uid);
        let refuse = |text: String| Err(beyond_bounds(text));
        let own = || self.promises.iter().filter(|promise| promise.uid == uid);
        if own().count() as u64 >= u64::from(bounds.promises) {
            return refuse(format!("user {uid} holds {} promises already", bounds.promises));
        }
        let so_far: u64 = own().map(|promise| promise.minimum.as_bps().saturating_mul(promise.flows.into())).sum();
        let wanted = request.minimum.unwrap_or(Rate::ZERO).as_bps().saturating_mul(request.flows.into());
        let remaining = bounds.minimum.saturating_sub(Rate::from_bps(so_far));
        if Rate::from_bps(wanted) > remaining {
            return refuse(format!("user {uid} may be promised {remaining} more, not {}", Rate::from_bps(wanted)));
        }
        if request.prefer > bounds.preference {
            return refuse(format!(
                "user {uid} may prefer flows by {} steps, not {}",
                bounds.preference, request.prefer
            ));
        }
        if let Some(displace) = &request.displace {
            let to = direction.class_named(&displace.to)?;
            if !direction.config.control.displace_to.contains(&to.0) {
                return refuse(format!("user {uid} may not have flows displaced to class `{}`", displace.to));
            }
        }
        direction.check_lease(request.lease)
    }

    /// The index of a promise that the caller may change.
    fn place_of(&self, caller: &Caller, number: u64) -> Result<usize, Refusal> {
        let place = self.promises.iter().position(|promise| promise.number == number).ok_or_else(|| {
            Refusal::new(Code::NotFound, format!("there is no promise {number}")).help("perhaps its lease is over")
        })?;
        Permission::check_holder(caller, self.promises[place].uid, "change a promise of another user")?;
        Ok(place)
    }

    /// The state of a promise, with the flows under it.
    fn state(&self, directions: &[ShapedDirection], place: usize) -> Result<PromiseState, Refusal> {
        let promise = &self.promises[place];
        let direction = &directions[promise.direction];
        let (number, class) = (promise.number, direction.class_named(&promise.class)?);
        let all = direction.ask_each(|| {
            move |engine: &mut LiveEngine, now| {
                let view = engine.promises(now).view(number).unwrap_or_default();
                let class = engine.tree().shaper().and_then(|shaper| shaper.class(class));
                (view, class.map_or(Rate::ZERO, |class| class.unpromised))
            }
        })?;
        let sum = all.into_iter().reduce(|(mut sum, free), (view, _)| {
            sum.add(&view);
            (sum, free)
        });
        let (view, free) = sum.unwrap_or_default();
        let names = direction.config.class_names();
        let elsewhere = view.elsewhere.and_then(|class| names.get(class.0 as usize));
        let remaining = |until: Instant| until.saturating_duration_since(Instant::now()).as_nanos();
        Ok(PromiseState {
            promise: number,
            uid: promise.uid,
            direction: direction.name.clone(),
            class: promise.class.clone(),
            elsewhere: elsewhere.map(ToString::to_string),
            target: promise.selection.target.clone(),
            minimum: promise.minimum,
            prefer: promise.steps,
            flows: view.flows,
            waiting: view.waiting,
            granted: view.rate,
            held: view.held,
            free,
            obstacle: obstacle(direction, promise, class, &view)?,
            lease: promise.until.map(|until| Span::from_nanos(remaining(until) as u64)),
            detached: promise.detached,
        })
    }
}

/// Makes a promise in each shard of a direction. The rate that is held for future flows is common to all shards.
///
/// # Errors
/// When the data path does not reply; inside, why the promise cannot be made.
pub(super) fn make(
    direction: &ShapedDirection,
    number: u64,
    terms: Terms,
    class: ClassId,
    flows: u32,
    wait: bool,
) -> Result<Result<(), PromiseError>, Refusal> {
    let made = direction.ask(move |engine, now| engine.promises(now).promise(number, terms, class, flows, wait))?;
    let slots = match made {
        Ok(slots) => slots,
        Err(error) => return Ok(Err(error)),
    };
    for shard in direction.shards().skip(1) {
        let slots = slots.clone();
        direction.ask_shard(shard, move |engine, now| engine.promises(now).share(number, terms, class, slots))?;
    }
    Ok(Ok(()))
}

/// Refuses a request that contradicts itself, independent of the state.
fn check(request: &PromiseCall) -> Result<(), Refusal> {
    let minimum = request.minimum.unwrap_or(Rate::ZERO);
    if minimum.is_zero() && request.prefer == 0 && request.displace.is_none() {
        return Err(invalid("the request asks for nothing", "give a minimum, steps of preference or a displacement"));
    }
    if request.flows == 0 || request.flows > FLOWS {
        return Err(invalid("the number of flows is out of range", "give 1 to 1024"));
    }
    if request.prefer > 1_000 {
        return Err(invalid("the preference has too many steps", "ten steps of 10% already give everything"));
    }
    if request.detached && request.lease.is_none() {
        return Err(invalid("a promise that outlives its connection needs a lease", "give lease_ns"));
    }
    if request.lease.is_some_and(Span::is_zero) {
        return Err(invalid("the lease is 0 s", "give a longer one, or leave it out"));
    }
    if let Some(displace) = request.displace.as_ref().filter(|displace| displace.below <= minimum) {
        let text = format!("the threshold {} is not above the minimum {minimum}", displace.below);
        return Err(invalid(&text, "a share never falls below its minimum; give a higher threshold"));
    }
    Ok(())
}

fn invalid(message: &str, help: &str) -> Refusal {
    Refusal::new(Code::Invalid, message).help(help)
}

fn from_now(lease: Span) -> Instant {
    Instant::now() + Duration::from_nanos(lease.as_nanos())
}

/// The refusal of a promise where the discipline has no flows.
pub(super) fn without_flows() -> Refusal {
    Refusal::new(Code::Unsupported, "this discipline has no promises to flows")
        .help("promises need a shaper file with [[class]]")
}

/// The refusal of a promise by the engine.
pub(super) fn refusal(error: PromiseError, class: &str, minimum: Rate, flows: u32) -> Refusal {
    let PromiseError::NoRoom(free) = error else { return without_flows() };
    let each = Rate::from_bps(free.as_bps() / u64::from(flows.max(1)));
    let (wanted, fits) = match flows {
        1 => (minimum.to_string(), free.to_string()),
        _ => (format!("{minimum} for each of {flows} flows"), format!("{each} for each of {flows} flows")),
    };
    let text = format!("class `{class}` has {free} left to promise, not {wanted}");
    let wait = "wait for what others release: `--wait`, or `wait` over the socket";
    let holders = "`tidegate promise` without conditions lists who holds the rest";
    Refusal::new(Code::NoRoom, text).help(match each.is_zero() {
        true => format!("{wait}; {holders}"),
        false => format!("ask for at most {fits}, or {wait}; {holders}"),
    })
}

/// The refusal of a minimum that exceeds the rate of its class, and is therefore never granted there, however long a flow waits.
fn never_fits(direction: &ShapedDirection, class: ClassId, minimum: Rate) -> Option<Refusal> {
    let Root::Shaper(shaper) = &direction.config.root else { return None };
    let own = shaper.classes.get(class.0 as usize).filter(|own| minimum > own.rate)?;
    let text = format!("class `{}` has {} in all, which is less than {minimum}", own.name, own.rate);
    let larger = shaper.classes.iter().find(|other| other.rate >= minimum);
    let elsewhere = larger.map_or_else(String::new, |other| {
        format!(", or a rule that leads these flows to class `{}`, which has {}", other.name, other.rate)
    });
    let help =
        format!("ask for at most {}; more needs a higher rate of the class in the shaper file{elsewhere}", own.rate);
    Some(Refusal::new(Code::NoRoom, text).help(help))
}

/// Why flows of a promise wait, or nothing is held for flows to come; `None` where neither is so. `class` is that of the promise.
fn obstacle(
    direction: &ShapedDirection,
    promise: &Promise,
    class: ClassId,
    view: &PromiseView,
) -> Result<Option<String>, Refusal> {
    let is_unheld = view.flows == 0 && view.held == 0;
    let waits_in = view.waits_in.or(is_unheld.then_some(class)).filter(|_| !promise.minimum.is_zero());
    let Some(class) = waits_in else { return Ok(None) };
    if let Some(never) = never_fits(direction, class, promise.minimum) {
        return Ok(Some(never.to_string()));
    }
    let (name, free) = (direction.name_of(class), unpromised(direction, class)?);
    let holders = "`tidegate promise` without conditions lists who holds the rest";
    Ok(Some(format!("class `{name}` has {free} left to promise, not {}; {holders}", promise.minimum)))
}

/// The rate of `flows` flows with this minimum.
fn times(minimum: Rate, flows: u32) -> Rate {
    Rate::from_bps(minimum.as_bps().saturating_mul(flows.into()))
}

/// The rate that a class has left to promise.
fn unpromised(direction: &ShapedDirection, class: ClassId) -> Result<Rate, Refusal> {
    direction.ask(move |engine, _| {
        let class = engine.tree().shaper().and_then(|shaper| shaper.class(class));
        class.map_or(Rate::ZERO, |class| class.unpromised)
    })
}

/// Refuses a minimum for present flows that the classes in which they are have not left. `elsewhere` has these classes with their
/// numbers of flows; no more than `flows` are counted.
fn fits_elsewhere(
    direction: &ShapedDirection,
    elsewhere: &[(ClassId, u32)],
    minimum: Rate,
    flows: u32,
) -> Result<(), Refusal> {
    let mut counted = 0;
    for &(class, count) in elsewhere {
        let count = count.min(flows - counted);
        counted += count;
        if let Some(never) = never_fits(direction, class, minimum).filter(|_| count > 0) {
            return Err(never);
        }
        let free = unpromised(direction, class)?;
        if times(minimum, count) > free {
            return Err(refusal(PromiseError::NoRoom(free), direction.name_of(class), minimum, count));
        }
    }
    Ok(())
}

/// The class of this name, or else the one in which most of such flows are now, or if there are none, the one that the rules choose
/// for them.
fn class_of(
    direction: &ShapedDirection,
    name: Option<&str>,
    selection: &Selection,
    present: &[(ClassId, u32)],
) -> Result<ClassId, Refusal> {
    let Root::Shaper(_) = &direction.config.root else { return Err(without_flows()) };
    match (name, present.first()) {
        (Some(name), _) => direction.class_named(name),
        (None, Some((class, _))) => Ok(*class),
        (None, None) => by_rules(direction, selection),
    }
}

/// The class that the rules choose for packets as such flows may send them. A rule on something that the selection leaves open
/// does not match these.
fn by_rules(direction: &ShapedDirection, selection: &Selection) -> Result<ClassId, Refusal> {
    let (samples, default) = (selection.samples(), direction.config.default_class);
    direction.ask(move |engine, _| {
        let mut classified = samples.iter().map(|fields| engine.classify(fields));
        classified.find(|classification| classification.rule.is_some()).map_or(default, |found| found.class)
    })
}

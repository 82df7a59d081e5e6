//! `promise`, `renew`, `release`, `promises` and `feedback`: what is given to flows beside the configuration.
//!
//! The terms and who holds them are kept here; the engine has what it needs to apply them ([`tidegate_engine::registry`]).
//! Every change goes the same way: the conditions of all promises become a classifier here, off the data path; it is
//! handed to the engine; then the flows that are present are reviewed, some hundreds between two packets.

use std::time::{Duration, Instant};

use tidegate_config::shaper::{Bounds, Root};
use tidegate_config::values::User;
use tidegate_control::calls::{
    Authority, Event, EventKind, Feedback, FlowState, Permission, PromiseCall, PromiseList, PromiseState, Promised,
    Promises, Release, Released, Renew, Watching,
};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_core::ClassId;
use tidegate_core::classify::{Classifier, Rule};
use tidegate_core::fbq::{Displace, Terms};
use tidegate_engine::{PromiseError, PromiseTable, PromiseView};
use tidegate_live::timing;
use tidegate_units::{Rate, Span};

use crate::daemon::{Daemon, Direction};
use crate::events::{Interest, flow_of, may_subscribe};
use crate::requests::Caller;
use crate::server::Outbound;
use crate::targets::Selection;

/// The most promises in all.
const PROMISES: usize = 1_024;
/// The most promises that were given over one connection.
const PROMISES_OF_ONE: usize = 256;
/// The most flows for which one promise holds rate.
const FLOWS: u32 = 1_024;
/// The most watches of one user who is not root, and how many of them may follow processes or control groups: what these
/// hold is read again and again, and each of their sockets is a condition to look up.
const WATCHES_OF_ONE: usize = 256;
const FOLLOWED_OF_ONE: usize = 16;
/// Flows that are reviewed between two packets.
const REVIEWED: u32 = 512;
/// Flows that an answer lists.
const LISTED: usize = 64;
/// The delay that is news unless another is asked for.
const DELAY: Span = Span::from_millis(20);
/// What processes have is looked at again so often, and so soon after a flow began.
const HUNT: Duration = Duration::from_millis(200);
const HUNT_AGAIN: Duration = Duration::from_millis(10);

/// A promise that was given.
#[derive(Debug)]
struct Given {
    number: u64,
    uid: u32,
    /// The connection it ends with, unless it is detached.
    client: u64,
    detached: bool,
    subscription: u64,
    direction: usize,
    class: String,
    selection: Selection,
    minimum: Rate,
    steps: u32,
    displace: Option<(Rate, String)>,
    flows: u32,
    until: Option<Instant>,
}

/// Somebody who wants to be told of flows.
#[derive(Debug)]
struct Watch {
    subscription: u64,
    uid: u32,
    client: u64,
    direction: usize,
    selection: Selection,
    delay: Span,
}

/// All promises and watches.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    given: Vec<Given>,
    watches: Vec<Watch>,
    hunted: Option<Instant>,
    /// A flow began that may be of a process that is followed.
    scent: bool,
}

impl Desk {
    /// Whether flows of processes are waited for.
    pub fn hunts(&self) -> bool {
        self.given.iter().map(|given| &given.selection).any(Selection::is_alive)
            || self.watches.iter().map(|watch| &watch.selection).any(Selection::is_alive)
    }
    /// A flow began.
    pub fn scents(&mut self) {
        self.scent = true;
    }
    /// When there is something to do, if there is.
    pub fn next(&self) -> Option<Instant> {
        let hunt = self.hunts().then(|| {
            let pause = if self.scent { HUNT_AGAIN } else { HUNT };
            self.hunted.map_or_else(Instant::now, |hunted| hunted + pause)
        });
        self.given.iter().filter_map(|given| given.until).chain(hunt).min()
    }
}

/// What this user may do, in the direction's configuration.
fn bounds(direction: &Direction, uid: u32) -> Bounds {
    let control = &direction.config.control;
    let is_it = |user: &User| match user {
        User::Id(id) => *id == uid,
        User::Name(name) => tidegate_live::shaping::user_number(name) == Some(uid),
    };
    control.users.iter().find(|(user, _)| is_it(user)).map_or(control.bounds, |(_, bounds)| *bounds)
}

fn invalid(message: &str, help: &str) -> Refusal {
    Refusal::new(Code::Invalid, message).help(help)
}

pub(crate) fn promise(daemon: &mut Daemon, caller: &Caller, call: PromiseCall) -> Result<Promised, Refusal> {
    let at = daemon.direction_named(call.direction.as_deref())?;
    let minimum = call.minimum.unwrap_or(Rate::ZERO);
    if minimum.is_zero() && call.prefer == 0 && call.displace.is_none() {
        return Err(invalid("nothing is asked for", "give a minimum, steps of preference or a displacement"));
    }
    if call.flows == 0 || call.flows > FLOWS {
        return Err(invalid("rate cannot be held for so many flows", "give 1 to 1024"));
    }
    if call.prefer > 1_000 {
        return Err(invalid("so many steps of preference mean nothing", "ten steps of 10% are everything"));
    }
    let lease = call.lease.map(|lease| Duration::from_nanos(lease.as_nanos()));
    if call.detached && lease.is_none() {
        return Err(invalid("a promise that outlives its connection needs a lease", "give lease_ns"));
    }
    if lease.is_some_and(|lease| lease.is_zero()) {
        return Err(invalid("a lease of nothing", "leave it out, or give a time"));
    }
    let own = !caller.is_operator();
    if own {
        within_bounds(daemon, at, caller, &call)?;
    }
    if daemon.desk.given.len() >= PROMISES {
        return Err(Refusal::new(
            Code::TooMany,
            format!("{PROMISES} promises are held already, which is all there may be"),
        )
        .help("wait until one ends; `tidegate promise` without conditions lists them"));
    }
    if daemon.desk.given.iter().filter(|given| given.client == caller.client).count() >= PROMISES_OF_ONE {
        let text = format!("{PROMISES_OF_ONE} promises were given over this connection, and there may be no more");
        return Err(Refusal::new(Code::TooMany, text)
            .help("release one, ask for more `flows` in one, or open another connection"));
    }
    let selection = Selection::of(caller, call.target.clone(), own)?;
    let (class, name) = class_of(daemon, at, call.class.as_deref(), &selection)?;
    let displace = match &call.displace {
        None => None,
        Some(displace) if displace.below <= minimum => {
            let text = format!("the threshold {} is not above the minimum {minimum}", displace.below);
            return Err(invalid(&text, "a share never falls below its minimum; give a higher threshold"));
        }
        Some(displace) => {
            let to = named(&daemon.directions[at], &displace.to)?;
            if to == class {
                return Err(invalid("flows cannot be displaced to the class they are in", "name another class"));
            }
            Some(Displace { below: displace.below, to: to.0 })
        }
    };
    let number = daemon.next_number();
    let subscription = daemon.next_number();
    let (terms, flows, wait) = (Terms { minimum, steps: call.prefer, displace }, call.flows, call.wait);
    let given = daemon.directions[at]
        .ask(move |pipeline, now| pipeline.promises(now).promise(number, terms, class, flows, wait))?;
    given.map_err(|why| no_promise(why, &name, minimum, flows))?;
    daemon.desk.given.push(Given {
        number,
        uid: caller.peer.uid,
        client: caller.client,
        detached: call.detached,
        subscription,
        direction: at,
        class: name,
        selection,
        minimum,
        steps: call.prefer,
        displace: call.displace.map(|displace| (displace.below, displace.to)),
        flows,
        until: lease.map(|lease| Instant::now() + lease),
    });
    // Before it is in force, so that nothing that follows from it is missed.
    let interest = Interest::Promise(number);
    daemon.say_to_server(Outbound::Subscribe { client: caller.client, subscription, interest });
    if let Err(refusal) = rebook(daemon, at) {
        daemon.say_to_server(Outbound::Unsubscribe { client: caller.client, subscription });
        // The promise cannot be looked up, so it is not given.
        daemon.desk.given.pop();
        let _ = daemon.directions[at].ask(move |pipeline, now| pipeline.promises(now).end(number));
        return Err(refusal);
    }
    let place = daemon.desk.given.len() - 1;
    Ok(Promised { promise: number, subscription, state: state(daemon, place)? })
}

fn no_promise(why: PromiseError, class: &str, minimum: Rate, flows: u32) -> Refusal {
    match why {
        PromiseError::NoShaper => Refusal::new(Code::Unsupported, "this discipline knows no promises to flows")
            .help("promises need a shaper file with [[class]]"),
        PromiseError::NoRoom(free) => {
            let wanted = if flows == 1 { minimum.to_string() } else { format!("{minimum} for each of {flows} flows") };
            let text = format!("class `{class}` has {free} left to promise, not {wanted}");
            Refusal::new(Code::NoRoom, text).help(if free.is_zero() {
                "wait for what others release: `--wait`, or `wait` over the socket".to_owned()
            } else {
                format!("ask for at most {free}, or wait for what others release: `--wait`, or `wait` over the socket")
            })
        }
    }
}

/// Refuses what is beyond the bounds that the configuration gives to a user who is not root.
fn within_bounds(daemon: &Daemon, at: usize, caller: &Caller, call: &PromiseCall) -> Result<(), Refusal> {
    let (uid, direction) = (caller.peer.uid, &daemon.directions[at]);
    let bounds = bounds(direction, uid);
    let refuse = |text: String| {
        Err(Refusal::new(Code::NotAllowed, text).help("[control] in the shaper file says what users may; root may all"))
    };
    let own = || daemon.desk.given.iter().filter(|given| given.uid == uid);
    if own().count() as u64 >= u64::from(bounds.promises) {
        return refuse(format!("user {uid} holds {} promises already", bounds.promises));
    }
    let so_far: u64 = own().map(|given| given.minimum.as_bps().saturating_mul(given.flows.into())).sum();
    let wanted = call.minimum.unwrap_or(Rate::ZERO).as_bps().saturating_mul(call.flows.into());
    let left = bounds.minimum.saturating_sub(Rate::from_bps(so_far));
    if Rate::from_bps(wanted) > left {
        return refuse(format!("user {uid} may be promised {left} more, not {}", Rate::from_bps(wanted)));
    }
    if call.prefer > bounds.preference {
        return refuse(format!("user {uid} may prefer flows by {} steps, not {}", bounds.preference, call.prefer));
    }
    if let Some(displace) = &call.displace {
        let to = named(direction, &displace.to)?;
        if !direction.config.control.displace_to.contains(&to.0) {
            return refuse(format!("user {uid} may not have flows displaced to class `{}`", displace.to));
        }
    }
    longest_lease(direction, call.lease)
}

fn longest_lease(direction: &Direction, lease: Option<Span>) -> Result<(), Refusal> {
    let longest = direction.config.control.lease;
    match lease {
        Some(lease) if lease > longest => {
            let text = format!("a lease of {lease} is longer than {longest}");
            Err(Refusal::new(Code::NotAllowed, text).help("renew it from time to time"))
        }
        _ => Ok(()),
    }
}

fn named(direction: &Direction, name: &str) -> Result<ClassId, Refusal> {
    let names = direction.config.class_names();
    match names.iter().position(|other| *other == name) {
        Some(at) => Ok(ClassId(at as u32)),
        None => Err(Refusal::new(Code::NotFound, format!("there is no class `{name}`"))
            .help(format!("there are {}", names.join(", ")))),
    }
}

/// The class that is named, or the one to which the rules lead.
fn class_of(
    daemon: &Daemon,
    at: usize,
    name: Option<&str>,
    selection: &Selection,
) -> Result<(ClassId, String), Refusal> {
    let direction = &daemon.directions[at];
    let Root::Shaper(_) = &direction.config.root else {
        return Err(no_promise(PromiseError::NoShaper, "", Rate::ZERO, 1));
    };
    let class = match name {
        Some(name) => named(direction, name)?,
        None => {
            let (samples, default) = (selection.samples(), direction.config.default_class);
            direction.ask(move |pipeline, _| {
                let judged = samples.iter().map(|fields| pipeline.classify(fields));
                judged.into_iter().find(|judgement| judgement.rule.is_some()).map_or(default, |found| found.class)
            })?
        }
    };
    let name = direction.config.class_names().get(class.0 as usize).map(ToString::to_string).unwrap_or_default();
    Ok((class, name))
}

/// Hands the conditions of all promises and watches of a direction to the engine, and has its flows reviewed.
pub(crate) fn rebook(daemon: &mut Daemon, at: usize) -> Result<(), Refusal> {
    let unbuildable = |error: tidegate_core::classify::BuildError| {
        Refusal::new(Code::NoRoom, format!("these conditions cannot be looked up with those of the others: {error}"))
    };
    let mut book = PromiseTable::default();
    let mut rules = Vec::new();
    for given in daemon.desk.given.iter().filter(|given| given.direction == at) {
        let target = book.numbers.len() as u32;
        book.numbers.push(given.number);
        rules.extend(given.selection.matches.iter().map(|matching| Rule { matching: matching.clone(), target }));
    }
    if !rules.is_empty() {
        book.promises = Some(Classifier::new(rules).map_err(unbuildable)?);
    }
    let mut watches: Vec<&Watch> = daemon.desk.watches.iter().filter(|watch| watch.direction == at).collect();
    watches.sort_by_key(|watch| watch.delay);
    let mut rules = Vec::new();
    for watch in watches {
        let target = book.delays.len() as u32;
        book.delays.push(watch.delay);
        rules.extend(watch.selection.matches.iter().map(|matching| Rule { matching: matching.clone(), target }));
    }
    if !rules.is_empty() {
        book.watches = Some(Classifier::new(rules).map_err(unbuildable)?);
    }
    let direction = &daemon.directions[at];
    // The old one comes back, and is freed here.
    drop(direction.ask(move |pipeline, now| pipeline.promises(now).set_table(book))?);
    let mut from = Some(0);
    while let Some(place) = from {
        from = direction.ask(move |pipeline, now| pipeline.promises(now).review(place, REVIEWED))?;
    }
    daemon.tell_hunting();
    Ok(())
}

fn state(daemon: &Daemon, place: usize) -> Result<PromiseState, Refusal> {
    let given = &daemon.desk.given[place];
    let direction = &daemon.directions[given.direction];
    let (number, class) = (given.number, named(direction, &given.class)?);
    let (view, free) = direction.ask(move |pipeline, now| {
        let view = pipeline.promises(now).view(number).unwrap_or(PromiseView::default());
        let class = pipeline.tree().shaper().and_then(|shaper| shaper.class(class));
        (view, class.map_or(Rate::ZERO, |class| class.unpromised))
    })?;
    let left = |until: Instant| until.saturating_duration_since(Instant::now()).as_nanos();
    Ok(PromiseState {
        promise: number,
        uid: given.uid,
        direction: direction.name.clone(),
        class: given.class.clone(),
        target: given.selection.target.clone(),
        minimum: given.minimum,
        prefer: given.steps,
        flows: view.flows,
        waiting: view.waiting,
        granted: view.rate,
        held: view.held,
        free,
        lease: given.until.map(|until| Span::from_nanos(left(until) as u64)),
        detached: given.detached,
    })
}

/// The place of a promise that the caller may change.
fn place_of(daemon: &Daemon, caller: &Caller, number: u64) -> Result<usize, Refusal> {
    let place = daemon.desk.given.iter().position(|given| given.number == number);
    let place = place.ok_or_else(|| {
        Refusal::new(Code::NotFound, format!("there is no promise {number}")).help("perhaps its lease is over")
    })?;
    Permission::check_holder(caller, daemon.desk.given[place].uid, "change a promise of another user")?;
    Ok(place)
}

pub(crate) fn renew(daemon: &mut Daemon, caller: &Caller, call: &Renew) -> Result<PromiseState, Refusal> {
    let place = place_of(daemon, caller, call.promise)?;
    if !caller.is_operator() {
        longest_lease(&daemon.directions[daemon.desk.given[place].direction], Some(call.lease))?;
    }
    daemon.desk.given[place].until = Some(Instant::now() + Duration::from_nanos(call.lease.as_nanos()));
    state(daemon, place)
}

pub(crate) fn release(daemon: &mut Daemon, caller: &Caller, call: &Release) -> Result<Released, Refusal> {
    let place = place_of(daemon, caller, call.promise)?;
    // Told in any case: it may be held over another connection than this one.
    let why = if daemon.desk.given[place].uid == caller.peer.uid { "it was released" } else { "root ended it" };
    end(daemon, vec![call.promise], Some(why));
    Ok(Released {})
}

pub(crate) fn promises(daemon: &Daemon, _: Promises) -> Result<PromiseList, Refusal> {
    let promises = (0..daemon.desk.given.len()).map(|place| state(daemon, place)).collect::<Result<_, _>>()?;
    Ok(PromiseList { promises })
}

/// Ends promises; with a reason their owners are told.
fn end(daemon: &mut Daemon, numbers: Vec<u64>, why: Option<&str>) {
    let mut directions = Vec::new();
    for number in numbers {
        let Some(place) = daemon.desk.given.iter().position(|given| given.number == number) else { continue };
        let given = daemon.desk.given.remove(place);
        let direction = &daemon.directions[given.direction];
        // A data path that does not answer has no promises to keep either.
        let _ = direction.ask(move |pipeline, now| pipeline.promises(now).end(number));
        if let Some(why) = why {
            let mut event = Event::new(EventKind::PromiseEnded, Span::from_nanos(timing::now().as_nanos()));
            event.promise = Some(number);
            event.direction = Some(direction.name.clone());
            event.class = Some(given.class);
            event.text = Some(why.into());
            daemon.publish(event);
        }
        daemon.say_to_server(Outbound::Unsubscribe { client: given.client, subscription: given.subscription });
        if !directions.contains(&given.direction) {
            directions.push(given.direction);
        }
    }
    for at in directions {
        let _ = rebook(daemon, at);
    }
}

/// Refuses a user who is not root and has as many watches as one may have: everybody may watch, and nobody shall keep the
/// daemon busy with it.
fn may_watch(daemon: &Daemon, caller: &Caller, selection: &Selection) -> Result<(), Refusal> {
    let uid = caller.peer.uid;
    let own = || daemon.desk.watches.iter().filter(|watch| watch.uid == uid).map(|watch| &watch.selection);
    let text = if caller.is_operator() {
        return Ok(());
    } else if selection.is_alive() && own().filter(|own| own.is_alive()).count() >= FOLLOWED_OF_ONE {
        format!("user {uid} has {FOLLOWED_OF_ONE} processes and control groups followed already, and may have no more")
    } else if own().count() >= WATCHES_OF_ONE {
        format!("user {uid} watches flows {WATCHES_OF_ONE} times already, and may no more")
    } else {
        return Ok(());
    };
    Err(Refusal::new(Code::TooMany, text)
        .help("end one by `unsubscribe`, or name more flows in one, by ports or a uid"))
}

pub(crate) fn feedback(daemon: &mut Daemon, caller: &Caller, call: Feedback) -> Result<Watching, Refusal> {
    let at = daemon.direction_named(call.direction.as_deref())?;
    may_subscribe(daemon, caller)?;
    let Root::Shaper(_) = &daemon.directions[at].config.root else {
        return Err(no_promise(PromiseError::NoShaper, "", Rate::ZERO, 1));
    };
    let selection = Selection::of(caller, call.target, false)?;
    may_watch(daemon, caller, &selection)?;
    let subscription = daemon.next_number();
    let matches = selection.matches.clone();
    // Before the engine looks: what it told before would be the last that it tells until something changes again.
    let interest = Interest::Flows { direction: at, matches: matches.clone() };
    daemon.say_to_server(Outbound::Subscribe { client: caller.client, subscription, interest });
    daemon.desk.watches.push(Watch {
        subscription,
        uid: caller.peer.uid,
        client: caller.client,
        direction: at,
        selection,
        delay: call.delay.unwrap_or(DELAY).max(Span::from_micros(1)),
    });
    if let Err(refusal) = rebook(daemon, at) {
        daemon.say_to_server(Outbound::Unsubscribe { client: caller.client, subscription });
        daemon.desk.watches.pop();
        return Err(refusal);
    }
    daemon.subscriptions.entry(caller.client).or_default().push(subscription);
    let direction = &daemon.directions[at];
    let names = direction.config.class_names();
    let (mut from, mut flows) = (Some(0), Vec::new());
    while let Some(place) = from.filter(|_| flows.len() < LISTED) {
        let matches = matches.clone();
        let mut some = Vec::new();
        (from, some) = direction.ask(move |pipeline, now| {
            let wanted = |fields: &_| matches.iter().any(|one| one.matches(fields));
            (pipeline.promises(now).find(place, REVIEWED, wanted, &mut some), some)
        })?;
        flows.extend(some);
    }
    let state = |(key, fields, facts): &(u64, _, tidegate_engine::FlowState)| FlowState {
        flow: flow_of(*key, Some(fields)),
        class: names.get(facts.class.0 as usize).map(ToString::to_string).unwrap_or_default(),
        granted: facts.rate,
        minimum: facts.minimum,
        promised: facts.granted,
    };
    Ok(Watching { subscription, flows: flows.iter().take(LISTED).map(state).collect() })
}

/// Whether a promise of this connection is told of by that subscription.
pub(crate) fn has_subscription(daemon: &Daemon, client: u64, subscription: u64) -> bool {
    daemon.desk.given.iter().any(|given| (given.client, given.subscription) == (client, subscription))
}

/// This subscription has ended; it may have been a watch.
pub(crate) fn unwatch(daemon: &mut Daemon, client: u64, subscription: u64) {
    let watch =
        daemon.desk.watches.iter().position(|watch| (watch.client, watch.subscription) == (client, subscription));
    if let Some(place) = watch {
        let at = daemon.desk.watches.remove(place).direction;
        let _ = rebook(daemon, at);
    }
}

/// A client is gone, and what it held with it.
pub(crate) fn gone(daemon: &mut Daemon, client: u64) {
    let ended = |given: &&Given| given.client == client && !given.detached;
    let ended: Vec<u64> = daemon.desk.given.iter().filter(ended).map(|given| given.number).collect();
    end(daemon, ended, Some("its connection ended"));
    let of_it = |watch: &&Watch| watch.client == client;
    let mut directions: Vec<usize> = daemon.desk.watches.iter().filter(of_it).map(|watch| watch.direction).collect();
    directions.dedup();
    daemon.desk.watches.retain(|watch| watch.client != client);
    for at in directions {
        let _ = rebook(daemon, at);
    }
}

/// What is due: leases that are over, processes that have other sockets.
pub(crate) fn tick(daemon: &mut Daemon) {
    let now = Instant::now();
    let over = |given: &&Given| given.until.is_some_and(|until| until <= now);
    let over: Vec<u64> = daemon.desk.given.iter().filter(over).map(|given| given.number).collect();
    if !over.is_empty() {
        end(daemon, over, Some("its lease is over"));
    }
    let pause = if daemon.desk.scent { HUNT_AGAIN } else { HUNT };
    if !daemon.desk.hunts() || daemon.desk.hunted.is_some_and(|hunted| now < hunted + pause) {
        return;
    }
    daemon.desk.scent = false;
    let mut directions = Vec::new();
    for given in &mut daemon.desk.given {
        if given.selection.refresh() {
            directions.push(given.direction);
        }
    }
    let mut changed = Vec::new();
    for watch in &mut daemon.desk.watches {
        if watch.selection.refresh() {
            directions.push(watch.direction);
            let interest = Interest::Flows { direction: watch.direction, matches: watch.selection.matches.clone() };
            changed.push(Outbound::Subscribe { client: watch.client, subscription: watch.subscription, interest });
        }
    }
    changed.into_iter().for_each(|word| daemon.say_to_server(word));
    directions.sort_unstable();
    directions.dedup();
    for at in directions {
        let _ = rebook(daemon, at);
    }
    // Counted from the end, so that looking takes a part of the time and not all of it.
    daemon.desk.hunted = Some(Instant::now());
}

/// Gives all promises of a direction again, to an engine that knows none: after a restart, or when the classes have
/// changed. One whose class is gone ends; one for which there is no room any more waits.
pub(crate) fn reinstate(daemon: &mut Daemon, at: usize) {
    let mut ended = Vec::new();
    let _ = daemon.directions[at].ask(|pipeline, now| pipeline.promises(now).clear());
    for given in daemon.desk.given.iter().filter(|given| given.direction == at) {
        let direction = &daemon.directions[at];
        let displace = given.displace.as_ref().and_then(|(below, to)| Some((*below, named(direction, to).ok()?)));
        let displace = displace.map(|(below, to)| Displace { below, to: to.0 });
        let (number, flows) = (given.number, given.flows);
        let terms = Terms { minimum: given.minimum, steps: given.steps, displace };
        let again = named(direction, &given.class).ok().and_then(|class| {
            let again = move |pipeline: &mut tidegate_live::shaping::LiveEngine, now| {
                pipeline.promises(now).promise(number, terms, class, flows, true).is_ok()
            };
            direction.ask(again).ok()
        });
        if again != Some(true) {
            ended.push(given.number);
        }
    }
    end(daemon, ended, Some("its class is gone"));
    let _ = rebook(daemon, at);
}

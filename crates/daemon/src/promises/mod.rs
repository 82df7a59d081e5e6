//! Promises and watches: grants to flows beside the configuration, and the clients that receive feedback.
//!
//! The terms and their holders are kept here; the engine has what it needs to apply them
//! ([`tidegate_engine::registry`]). Every change takes the same way: the conditions of all promises become a classifier
//! here, off the data path; it is installed in the engine; then the flows present are reviewed, some hundreds between two
//! packets.

mod feedback;
pub mod lookup;
mod owners;
mod present;
mod requests;
mod targets;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidegate_control::calls::{Event, EventKind, PromiseCall};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_core::fbq::{Displace, Terms};
use tidegate_engine::PromiseTable;
use tidegate_live::shaping::LiveEngine;
use tidegate_units::{Rate, Span};

use crate::directions::ShapedDirection;
use crate::handover::{Grant, GrantRequest};
use crate::notifier::{Notifier, now};
use crate::server::event::Selector;
use lookup::Lookup;
use owners::SocketReader;
use targets::Selection;

/// Flows that are reviewed between two packets.
const REVIEWED: u32 = 512;
/// The interval at which sockets of processes are read, and the pause after a flow began.
const READ: Duration = Duration::from_millis(200);
const READ_AGAIN: Duration = Duration::from_millis(10);

/// A promise in force.
#[derive(Debug)]
struct Promise {
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
    /// The process that requested it, and its request, for a successor.
    pid: i32,
    request: PromiseCall,
}

/// A subscription to the feedback of flows.
#[derive(Debug)]
struct Watch {
    subscription: u64,
    uid: u32,
    client: u64,
    direction: usize,
    selection: Selection,
    /// The kinds of events that are reported; all if it is empty.
    kinds: Vec<EventKind>,
    delay: Span,
}

/// The promises and watches of all directions.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    promises: Vec<Promise>,
    watches: Vec<Watch>,
    reader: SocketReader,
    /// When the sockets of followed processes were read last.
    read: Option<Instant>,
    /// A flow began since then, which may be of a followed process.
    flow_began: bool,
}

impl Promises {
    /// No promises yet. The sockets of processes of other users are read by `lookup`, if there is one.
    pub fn new(lookup: Option<Lookup>) -> Self {
        Self { reader: lookup.into(), ..Self::default() }
    }

    /// Whether sockets of processes are followed.
    fn follows(&self) -> bool {
        self.promises.iter().map(|promise| &promise.selection).any(Selection::follows)
            || self.watches.iter().map(|watch| &watch.selection).any(Selection::follows)
    }

    /// Notes that a flow began.
    pub fn flow_began(&mut self) {
        self.flow_began = true;
    }

    /// The time of the next [`tick`](Self::tick), if one is due.
    pub fn next(&self) -> Option<Instant> {
        let read = self.follows().then(|| self.read.map_or_else(Instant::now, |read| read + self.pause()));
        self.promises.iter().filter_map(|promise| promise.until).chain(read).min()
    }

    fn pause(&self) -> Duration {
        if self.flow_began { READ_AGAIN } else { READ }
    }

    fn detached(&self, index: usize) -> impl Iterator<Item = &Promise> {
        self.promises.iter().filter(move |promise| promise.direction == index && promise.detached)
    }
    /// The numbers and ends of [`lasting`](Self::lasting), which costs less.
    pub fn ends(&self, index: usize) -> impl Iterator<Item = (u64, Option<Instant>)> {
        self.detached(index).map(|promise| (promise.number, promise.until))
    }
    /// The promises of a direction that do not end with a connection.
    pub fn lasting(&self, index: usize) -> impl Iterator<Item = Grant> {
        self.detached(index).map(|promise| Grant {
            number: promise.number,
            uid: promise.uid,
            pid: promise.pid,
            until: promise.until,
            class: Some(promise.class.clone()),
            request: GrantRequest::Promise(promise.request.clone()),
        })
    }

    /// Whether the notifications of a promise of this connection have this subscription.
    pub fn has_subscription(&self, client: u64, subscription: u64) -> bool {
        self.promises.iter().any(|promise| (promise.client, promise.subscription) == (client, subscription))
    }

    /// Ends the promises and watches of a connection that has ended.
    pub fn disconnected(&mut self, directions: &[ShapedDirection], notifier: &Notifier, client: u64) {
        let ended = |promise: &&Promise| promise.client == client && !promise.detached;
        let ended: Vec<_> = self.promises.iter().filter(ended).map(|it| (it.number, "its connection ended")).collect();
        self.end(directions, notifier, ended);
        let of_it = |watch: &&Watch| watch.client == client;
        let mut changed: Vec<usize> = self.watches.iter().filter(of_it).map(|watch| watch.direction).collect();
        self.watches.retain(|watch| watch.client != client);
        self.install_in(directions, notifier, &mut changed);
    }

    /// Ends promises whose lease is over, and reads the sockets of followed processes.
    pub fn tick(&mut self, directions: &[ShapedDirection], notifier: &Notifier) {
        let now = Instant::now();
        let over = |promise: &&Promise| promise.until.is_some_and(|until| until <= now);
        let over: Vec<_> = self.promises.iter().filter(over).map(|it| (it.number, "its lease is over")).collect();
        if !over.is_empty() {
            self.end(directions, notifier, over);
        }
        if !self.follows() || self.read.is_some_and(|read| now < read + self.pause()) {
            return;
        }
        self.flow_began = false;
        let mut changed = Vec::new();
        for promise in &mut self.promises {
            if promise.selection.refresh(&mut self.reader) {
                changed.push(promise.direction);
            }
        }
        for watch in &mut self.watches {
            if watch.selection.refresh(&mut self.reader) {
                changed.push(watch.direction);
                let (matches, kinds) = (watch.selection.matches.clone(), watch.kinds.clone());
                let selector = Selector::Flows { direction: watch.direction, matches, kinds };
                notifier.subscribe(watch.client, watch.subscription, selector);
            }
        }
        self.install_in(directions, notifier, &mut changed);
        // From the end of the read, so that reading takes a part of the time and not all of it.
        self.read = Some(Instant::now());
    }

    /// Ends promises, each for a reason, and notifies their holders.
    pub fn end(&mut self, directions: &[ShapedDirection], notifier: &Notifier, ended: Vec<(u64, impl Into<String>)>) {
        let mut changed = Vec::new();
        for (number, reason) in ended {
            let Some(place) = self.promises.iter().position(|promise| promise.number == number) else { continue };
            let promise = self.promises.remove(place);
            let direction = &directions[promise.direction];
            // A data path that does not reply has no promises either.
            let _ = direction.ask_each(|| move |engine: &mut LiveEngine, now| engine.promises(now).end(number));
            let mut event = Event::new(EventKind::PromiseEnded, now());
            event.promise = Some(number);
            event.direction = Some(direction.name.clone());
            event.class = Some(promise.class);
            event.text = Some(reason.into());
            notifier.publish(event);
            notifier.unsubscribe(promise.client, promise.subscription);
            changed.push(promise.direction);
        }
        self.install_in(directions, notifier, &mut changed);
    }

    /// Makes all promises of a direction again, in an engine that has none: after a restart, or when the classes have
    /// changed. A promise that cannot be made again ends, and its holder is notified of the reason; one whose minimum no longer
    /// fits waits.
    pub fn reinstate(&mut self, directions: &[ShapedDirection], notifier: &Notifier, index: usize) {
        let refused = self.make_again(directions, notifier, index);
        self.end(directions, notifier, refused);
    }

    /// Like [`reinstate`](Self::reinstate), but a promise that cannot be made again stays without effect. Returns the numbers of these
    /// with the reasons, for [`end`](Self::end).
    pub fn make_again(&self, directions: &[ShapedDirection], notifier: &Notifier, index: usize) -> Vec<(u64, String)> {
        let direction = &directions[index];
        let mut refused = Vec::new();
        let _ = direction.ask_each(|| |engine: &mut LiveEngine, now| engine.promises(now).clear());
        for promise in self.promises.iter().filter(|promise| promise.direction == index) {
            let displace = promise.displace.as_ref();
            let displace = displace.and_then(|(below, to)| Some((*below, direction.class_named(to).ok()?)));
            let displace = displace.map(|(below, to)| Displace { below, to: to.0 });
            let (number, flows) = (promise.number, promise.flows);
            let terms = Terms { minimum: promise.minimum, steps: promise.steps, displace };
            let again = || {
                direction.can_promise()?;
                let class = direction.class_named(&promise.class)?;
                requests::make(direction, number, terms, class, flows, true)?
                    .map_err(|error| requests::refusal(error, &promise.class, promise.minimum, flows))
            };
            if let Err(Refusal { message, .. }) = again() {
                refused.push((number, message));
            }
        }
        let _ = self.install(directions, notifier, index);
        refused
    }

    /// Installs the conditions in directions whose promises or watches have ended; a data path that does not reply gets
    /// them when it is started again.
    fn install_in(&self, directions: &[ShapedDirection], notifier: &Notifier, changed: &mut Vec<usize>) {
        changed.sort_unstable();
        changed.dedup();
        for index in changed.drain(..) {
            let _ = self.install(directions, notifier, index);
        }
    }

    /// Installs the conditions of all promises and watches of a direction in its engine, and has its flows reviewed.
    pub fn install(&self, directions: &[ShapedDirection], notifier: &Notifier, index: usize) -> Result<(), Refusal> {
        let direction = &directions[index];
        let shaping = direction.running()?;
        for shard in direction.shards() {
            let promises = self.promises.iter().filter(|promise| promise.direction == index);
            let promises = promises.map(|promise| (promise.number, promise.selection.matches.as_slice()));
            let watches = self.watches.iter().filter(|watch| watch.direction == index);
            let watches = watches.map(|watch| (watch.delay, watch.selection.matches.as_slice()));
            let table = PromiseTable::new(promises, watches).map_err(|error| {
                let text =
                    format!("these conditions cannot be looked up together with those of the other promises: {error}");
                Refusal::new(Code::NoRoom, text)
            })?;
            shaping.check_promises(&table).map_err(|numbers| {
                let text = format!(
                    "the kernel has no room for these conditions beside those of the other promises: {numbers}"
                );
                Refusal::new(Code::NoRoom, text)
            })?;
            // The previous table is returned, and freed on this thread.
            drop(direction.ask_shard(shard, move |engine, now| engine.promises(now).set_table(table))?);
            let mut from = Some(0);
            while let Some(place) = from {
                from = direction.ask_shard(shard, move |engine, now| engine.promises(now).review(place, REVIEWED))?;
            }
        }
        self.note_follows(notifier);
        Ok(())
    }

    /// Has the server report flows that begin, if sockets of processes are followed.
    pub fn note_follows(&self, notifier: &Notifier) {
        if let Some(server) = notifier.server() {
            server.counters().follows.store(self.follows(), Ordering::Relaxed);
        }
    }
}

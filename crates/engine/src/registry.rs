//! The flow registry: the identity of each flow, the promises made at run time, and the flows that are watched.
//!
//! A promise covers the flows that its conditions match: those of a port, a user, a socket. The first packet of a flow is
//! classified once against all promises, and the shaper's record of the flow is made with the terms in force before that
//! packet is enqueued. Later packets of the flow look up no promise. When promises change, the control plane sets another
//! [`PromiseTable`] and lets the flows that are present be reviewed, some at a time ([`PromiseControl::review`]).
//!
//! *Cost*: nothing for a packet while there are no promises, otherwise one look-up of its flow; one classification for a new
//! flow; one look at the record of a watched flow, at most once a millisecond.

use std::collections::HashMap;

use tidegate_core::cbq::Measured;
use tidegate_core::classify::{self, BuildError, Classifier, Fields, Match, Rule, Target};
use tidegate_core::dualpi2::Coupled;
use tidegate_core::fbq::{Fbc, FlowView, HeldBy};
use tidegate_core::flow::{FlowBy, FlowHash};
use tidegate_core::key_index::KeyIndex;
use tidegate_core::nested::Staged;
use tidegate_core::{ClassId, Event, Instant, Outlet, Packet, Rate, Span};

use crate::notification::{FlowState, Notification, NotificationKind};
use crate::offload::OffloadedFlow;
use crate::packet::QueuedPacket;
use crate::tree::Tree;

mod offload;
mod promise;

pub use promise::{PromiseControl, PromiseError, PromiseSlots, PromiseView, Promised};

use promise::Entry;

/// The least time between two looks at watched flows.
const LOOK: Span = Span::from_millis(1);
/// The longest time between two looks while a packet is queued.
const LOOK_AGAIN: Span = Span::from_millis(2);
/// The most watched flows in one look.
const LOOKS: usize = 256;
/// A change of rate by less than one part in this many is notified only if no change was notified for [`SOON`].
const PART: u64 = 64;
/// See [`PART`]. Also the least time between two notifications of marks of a flow that is not watched.
const SOON: Span = Span::from_millis(100);

/// The conditions of all promises and of all watches, as classifiers.
#[derive(Debug, Default)]
pub struct PromiseTable {
    /// The conditions of promises. The target of a rule is an index of `numbers`.
    pub promises: Option<Classifier>,
    /// The number of the promise for each target.
    pub numbers: Vec<u64>,
    /// The conditions of watches. The target of a rule is an index of `delays`.
    pub watches: Option<Classifier>,
    /// The delay above which a notification is sent, for each target.
    pub delays: Vec<Span>,
}

impl PromiseTable {
    /// Builds the table of `promises`, each with its number, and of `watches`, each with the delay above which it notifies. A
    /// flow that matches several promises is under the first one; of several watches, that with the smallest delay counts.
    ///
    /// # Errors
    /// If a classifier of all conditions cannot be built.
    pub fn new<'a>(
        promises: impl IntoIterator<Item = (u64, &'a [Match])>,
        watches: impl IntoIterator<Item = (Span, &'a [Match])>,
    ) -> Result<Self, BuildError> {
        fn classifier<T>(all: Vec<(T, &[Match])>, values: &mut Vec<T>) -> Result<Option<Classifier>, BuildError> {
            let mut rules = Vec::new();
            for (target, (value, matches)) in (0..).zip(all) {
                values.push(value);
                rules.extend(matches.iter().map(|matching| Rule { matching: matching.clone(), target }));
            }
            if rules.is_empty() { Ok(None) } else { Classifier::new(rules).map(Some) }
        }
        let mut table = Self::default();
        table.promises = classifier(promises.into_iter().collect(), &mut table.numbers)?;
        let mut watches: Vec<_> = watches.into_iter().collect();
        watches.sort_by_key(|(delay, _)| *delay);
        table.watches = classifier(watches, &mut table.delays)?;
        Ok(table)
    }
    /// Returns the conditions of the promises as an array of numbers, for a program that classifies by itself; `None` without
    /// promises. The class of a target is one plus the place that `place_of` returns for the number of the promise; 0 if there
    /// is none.
    ///
    /// # Errors
    /// If the array cannot be built. That does not happen for a table that was built.
    pub fn image(&self, place_of: impl Fn(u64) -> Option<u32>) -> Result<Option<Vec<u64>>, BuildError> {
        let Some(promises) = &self.promises else { return Ok(None) };
        let target =
            |number: &u64| Target { class: place_of(*number).map_or(0, |place| place + 1), ..Target::default() };
        let targets: Vec<Target> = self.numbers.iter().map(target).collect();
        // The hash is not used: the rules of classes determine the keys of flows.
        let hash = FlowHash::new([0; 2], FlowBy::FiveTuple);
        classify::image(promises.rules(), &targets, Target::default(), &hash, &[]).map(Some)
    }
    /// Whether a watch has a condition on the user.
    pub fn watches_users(&self) -> bool {
        self.watches.iter().flat_map(Classifier::rules).any(|rule| rule.matching.uid.is_some())
    }
    fn promise(&self, fields: &Fields) -> Option<u64> {
        let classifier = self.promises.as_ref()?;
        let target = classifier.rules().get(classifier.classify(fields)? as usize)?.target;
        self.numbers.get(target as usize).copied()
    }
    fn watch(&self, fields: &Fields) -> Option<Span> {
        let classifier = self.watches.as_ref()?;
        let target = classifier.rules().get(classifier.classify(fields)? as usize)?.target;
        self.delays.get(target as usize).copied()
    }
}

/// A flow that is present.
#[derive(Clone, Copy, Debug)]
struct Known {
    flow: u64,
    fields: Fields,
    /// When its marks were last notified.
    marks_notified: Option<Instant>,
    promise: Option<u64>,
    /// Its index among the watched flows.
    watched: Option<u32>,
}

/// A flow that is watched.
#[derive(Clone, Copy, Debug)]
struct Watched {
    flow: u64,
    delay: Span,
    above: bool,
    last: Option<FlowState>,
    rate_notified: Instant,
}

/// Flows, promises and watches. See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct FlowRegistry {
    table: PromiseTable,
    places: Vec<Option<Known>>,
    free: Vec<u32>,
    index: KeyIndex,
    entries: HashMap<u64, Entry>,
    watched: Vec<Watched>,
    /// Flows under a promise that ended in this call, with the number of the promise; rate is held for others afterwards.
    ended: Vec<(u64, u64)>,
    /// Events of the shaper that are still to be reported.
    pending: Vec<Event>,
    /// Flows that are watched from now on; the shaper learns of them after the call.
    watch_now: Vec<u64>,
    /// When watched flows are looked at next, and at which index that begins.
    next_look: Instant,
    cursor: usize,
    /// The flows of an offload by their keys, at the last reading.
    offloaded: Option<HashMap<u64, OffloadedFlow>>,
    /// The coupled queues of classes of an offload at the last reading.
    pub(crate) coupled: HashMap<ClassId, Coupled>,
    /// The classes of CBQ of an offload at the last reading.
    pub(crate) shared_classes: HashMap<ClassId, Measured>,
    /// The classes of an offload all of whose packets waited for ceilings at the last reading, and for which.
    ceilings: HashMap<ClassId, HeldBy>,
    /// Whether an offload does not have the present table yet.
    table_is_new: bool,
}

impl FlowRegistry {
    fn place(&self, flow: u64) -> Option<u32> {
        self.index.find(flow, |place| self.places[place as usize].as_ref().is_some_and(|known| known.flow == flow))
    }
    fn known(&self, flow: u64) -> Option<&Known> {
        self.places[self.place(flow)? as usize].as_ref()
    }
    fn known_mut(&mut self, flow: u64) -> Option<&mut Known> {
        let place = self.place(flow)?;
        self.places[place as usize].as_mut()
    }

    /// The state of a flow.
    pub(crate) fn view<P: Packet>(&self, fbc: &Fbc<P>, flow: u64) -> Option<FlowView> {
        let view = fbc.flow(flow)?;
        let offloaded = self.offloaded.as_ref().and_then(|flows| flows.get(&flow));
        Some(offloaded.map_or(view, |offloaded| offloaded.over(view)))
    }

    /// An empty registry in place of this one.
    pub fn renewed(&self) -> Self {
        Self { table_is_new: self.table_is_new || self.table.promises.is_some(), ..Self::default() }
    }

    /// Prepares the shaper for `packet`: makes a record with the terms in force if its flow is new and under a promise. Returns
    /// whether events are pending.
    #[inline]
    pub fn prepare(&mut self, now: Instant, packet: &mut QueuedPacket, fields: &Fields, tree: &mut Tree) -> bool {
        if self.table.promises.is_some()
            && let Tree::Shaper(nested) = tree
        {
            match nested.fbc().find(packet.flow.flow, packet.flow_slot) {
                Some(slot) => packet.flow_slot = slot,
                None => self.expect(now, packet, fields, nested.fbc_mut()),
            }
        }
        !self.pending.is_empty()
    }

    fn expect<P: Packet>(&mut self, now: Instant, packet: &P, fields: &Fields, fbc: &mut Fbc<Staged<P>>) {
        let flow = packet.flow().flow;
        let Some(number) = self.table.promise(fields) else { return };
        // If there is no room for the record, the flow gets no rate.
        let Some(entry) = self.entries.get_mut(&number).filter(|_| fbc.takes_flows()) else { return };
        entry.begin(flow, fbc);
        if fbc.expect(now, packet.flow(), packet.class(), packet.profile(), entry.terms, &mut Events(&mut self.pending))
        {
            self.started(flow, fields, Some(number), now);
        } else {
            entry.end(flow, fbc);
        }
    }

    /// The next event that the shaper reported in [`prepare`](Self::prepare).
    pub fn next_pending(&mut self) -> Option<Event> {
        (!self.pending.is_empty()).then(|| self.pending.remove(0))
    }

    /// Registers a new flow.
    fn started(&mut self, flow: u64, fields: &Fields, promise: Option<u64>, now: Instant) {
        if let Some(known) = self.known_mut(flow) {
            known.promise = promise.or(known.promise);
            return;
        }
        let known = Known { flow, fields: *fields, marks_notified: None, promise, watched: None };
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(known);
                place
            }
            None => {
                self.places.push(Some(known));
                (self.places.len() - 1) as u32
            }
        };
        self.index.insert(flow, place);
        self.watch(flow, now);
    }

    /// Starts or stops watching a flow as the table requires; returns whether it is watched.
    fn watch(&mut self, flow: u64, now: Instant) -> bool {
        let Some(place) = self.place(flow) else { return false };
        let Some(known) = &mut self.places[place as usize] else { return false };
        let promised = known.promise.map(|_| DELAY);
        let delay = self.table.watch(&known.fields).or(promised);
        match (known.watched, delay) {
            (None, Some(delay)) => {
                known.watched = Some(self.watched.len() as u32);
                self.watch_now.push(flow);
                self.watched.push(Watched { flow, delay, above: false, last: None, rate_notified: now });
                self.next_look = self.next_look.min(now + LOOK);
            }
            (Some(at), Some(delay)) => self.watched[at as usize].delay = delay,
            (Some(at), None) => {
                known.watched = None;
                self.unwatch(at);
            }
            (None, None) => {}
        }
        delay.is_some()
    }

    fn unwatch(&mut self, at: u32) {
        self.watched.swap_remove(at as usize);
        if let Some(moved) = self.watched.get(at as usize).map(|watched| watched.flow)
            && let Some(known) = self.known_mut(moved)
        {
            known.watched = Some(at);
        }
    }

    /// Processes an event of the shaper and notifies of it. `fields` are those of the packet that is being enqueued.
    pub fn event(
        &mut self,
        now: Instant,
        event: Event,
        fields: Option<&Fields>,
        out: &mut dyn FnMut(&Notification<'_>),
    ) {
        let flow = event.flow();
        if let (Event::FlowStarted { .. }, Some(fields)) = (event, fields) {
            self.started(flow, fields, None, now);
        }
        if let Event::Marked { .. } = event {
            let Some(known) = self.known_mut(flow) else { return };
            // For watched flows the number of marks is notified when the flow is polled.
            if known.watched.is_some() || known.marks_notified.is_some_and(|last| now.since(last) < SOON) {
                return;
            }
            known.marks_notified = Some(now);
        }
        let known = self.known(flow);
        out(&Notification {
            kind: NotificationKind::Event(event),
            flow,
            fields: known.map(|known| &known.fields).or(fields),
            promise: known.and_then(|known| known.promise),
            state: None,
        });
        if let Event::FlowEnded { .. } = event
            && let Some(place) = self.place(flow)
        {
            self.index.remove(flow, place);
            self.free.push(place);
            if let Some(known) = self.places[place as usize].take() {
                if let Some(at) = known.watched {
                    self.unwatch(at);
                }
                if let Some(number) = known.promise {
                    self.ended.push((number, flow));
                }
            }
        }
    }

    /// Completes a call of the shaper: holds the rate of flows that ended for flows to come.
    #[inline]
    pub fn settle(&mut self, tree: &mut Tree) {
        if !self.ended.is_empty() || !self.watch_now.is_empty() {
            self.settle_ended(tree);
        }
    }

    #[cold]
    fn settle_ended(&mut self, tree: &mut Tree) {
        let Some(fbc) = tree.shaper_mut() else { return };
        self.watch_now.drain(..).for_each(|flow| fbc.watch(flow, true));
        for (number, flow) in self.ended.drain(..) {
            if let Some(entry) = self.entries.get_mut(&number) {
                entry.end(flow, fbc);
            }
        }
    }

    /// When watched flows are to be polled; `None` if no flow is watched.
    #[inline]
    pub fn next_poll(&self) -> Option<Instant> {
        (!self.watched.is_empty()).then_some(self.next_look)
    }

    /// Requests a look at watched flows soon.
    #[inline]
    pub fn mark_dirty(&mut self, now: Instant) {
        self.next_look = self.next_look.min(now + LOOK);
    }

    /// Compares watched flows with their last state, and notifies of changes.
    pub fn poll(&mut self, now: Instant, tree: &Tree, out: &mut dyn FnMut(&Notification<'_>)) {
        let Some(fbc) = tree.shaper() else { return };
        let all = self.watched.len();
        let looks = all.min(LOOKS);
        let mut waits = all > looks;
        for n in 0..looks {
            let at = (self.cursor + n) % all;
            let flow = self.watched[at].flow;
            let Some(view) = self.view(fbc, flow) else { continue };
            let facts = FlowState::of(&view, now);
            waits |= !view.backlog.is_empty();
            let place = self.place(flow);
            let known = place.and_then(|place| self.places[place as usize].as_ref());
            self.watched[at].compare(now, facts, |kind| {
                out(&Notification {
                    kind,
                    flow,
                    fields: known.map(|known| &known.fields),
                    promise: known.and_then(|known| known.promise),
                    state: Some(facts),
                });
            });
        }
        self.cursor = if all == 0 { 0 } else { (self.cursor + looks) % all };
        self.next_look = if waits { now + LOOK_AGAIN } else { Instant::MAX };
    }
}

/// The delay above which a notification is sent for a flow that is watched only because it is under a promise.
const DELAY: Span = Span::from_millis(20);

impl Watched {
    fn compare(&mut self, now: Instant, facts: FlowState, mut notify: impl FnMut(NotificationKind)) {
        let Some(last) = self.last.replace(facts) else {
            // The initial state is notified.
            self.rate_notified = now;
            notify(NotificationKind::Rate);
            if !facts.minimum.is_zero() {
                notify(if facts.granted { NotificationKind::Promised } else { NotificationKind::Waiting });
            }
            return;
        };
        let (new, old) = (facts.rate.as_bps(), last.rate.as_bps());
        if new != old && (new.abs_diff(old) > old / PART || now.since(self.rate_notified) >= SOON) {
            self.rate_notified = now;
            notify(NotificationKind::Rate);
        } else if let Some(last) = &mut self.last {
            // Compare the next rate with the one that was notified.
            last.rate = Rate::from_bps(old);
        }
        if !facts.minimum.is_zero() && (facts.granted, facts.minimum) != (last.granted, last.minimum) {
            notify(if facts.granted { NotificationKind::Promised } else { NotificationKind::Waiting });
        }
        if facts.dropped > last.dropped {
            notify(NotificationKind::Dropped(facts.dropped - last.dropped));
        }
        if facts.marked > last.marked {
            notify(NotificationKind::Marked(facts.marked - last.marked));
        }
        if !self.above && facts.delay > self.delay {
            self.above = true;
            notify(NotificationKind::DelayAbove);
        } else if self.above && facts.delay.as_nanos() < self.delay.as_nanos() / 2 {
            self.above = false;
            notify(NotificationKind::DelayBelow);
        }
    }
}

/// An outlet for calls that drop no packet.
struct Events<'a>(&'a mut Vec<Event>);

impl<P> Outlet<P> for Events<'_> {
    fn dropped(&mut self, _packet: P, _reason: tidegate_core::DropReason) {}
    fn event(&mut self, event: Event) {
        self.0.push(event);
    }
}

//! [`Offload`]: a scheduler outside of the engine that queues the packets in its place.
//!
//! As with the offload of a queueing discipline to a network card, the engine keeps the configuration, and mirrors the counters of
//! the scheduler ([`Engine::mirror`]). Whoever reads the engine finds the same classes and flows with an offload and without.

mod totals;

use tidegate_config::shaper::Match;
use tidegate_core::accounts::Account;
use tidegate_core::cbq::{Class, Measured};
use tidegate_core::classify::Fields;
use tidegate_core::dualpi2::Coupled;
use tidegate_core::fbq::{FlowCounts, FlowView, HeldBy};
use tidegate_core::qdisc::{Backlog, Event};
use tidegate_core::{Bytes, ClassId, Instant, Rate, Span};

use crate::advice::OffloadedAdvice;
use crate::engine::Engine;
use crate::quota::Key;
use crate::registry::{PromiseTable, Promised};
use crate::sink::Sink;

pub use totals::Totals;

/// A scheduler that has the packets of an engine.
pub trait Offload {
    /// Reads the counters of `classes`, given by name, of reservations, and of all packets. Classes without counters are left out.
    fn totals(&mut self, classes: &[String]) -> (Vec<(ClassId, Totals)>, Totals);
    /// Reads the packets that each rule has matched since the last reading, by the count to which the rule belongs, and those that
    /// matched none. Rules without new packets may be left out. Nothing where there are no rules.
    fn matched(&mut self) -> Vec<(Option<Key>, Account)> {
        Vec::new()
    }
    /// Reads the coupled queues of each class that has DualPI2.
    fn coupled(&mut self, _now: Instant) -> Vec<(ClassId, Coupled)> {
        Vec::new()
    }
    /// Reads the counters and estimators of the classes of CBQ, of which the first `leaves` are leaves, and of reservations.
    fn shared_classes(&mut self, _leaves: u32) -> Vec<(ClassId, Measured)> {
        Vec::new()
    }
    /// Reads all flows.
    fn flows(&mut self) -> OffloadedFlows;
    /// Replaces the promises that the scheduler applies to flows.
    ///
    /// # Errors
    /// Why it cannot; the earlier promises stay in force then.
    fn set_promises(&mut self, promised: &[Promised], table: &PromiseTable) -> Result<(), String>;
    /// Replaces the reservations, the oldest first. One that was there stays as it is. What is queued of a flow goes to the class that it
    /// has now, in its order.
    ///
    /// # Errors
    /// Why it cannot, as by default; the earlier reservations stay in force then.
    fn set_reservations(&mut self, _reservations: Vec<OffloadedReservation>) -> Result<(), String> {
        Err("this scheduler makes no classes while packets pass".into())
    }
    /// Replaces the rates that the scheduler writes into packets of flows.
    fn set_advice(&mut self, advice: &OffloadedAdvice);
}

/// A reservation for an offload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OffloadedReservation {
    /// Its place among those that the configuration allows at a time, from 0.
    pub place: u32,
    /// Another number is another reservation.
    pub serial: u64,
    /// The number of its class.
    pub class: ClassId,
    /// The parameters of its class, below the class of all reservations.
    pub params: Class,
    /// The limit of its queue.
    pub buffer: Bytes,
    /// The conditions on its packets.
    pub matches: Match,
}

/// A reading of all flows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OffloadedFlows {
    /// The flows.
    pub flows: Vec<OffloadedFlow>,
    /// The number of each promise that is in force, and for how many more flows it reserves rate.
    pub held: Vec<(u64, u32)>,
    /// Whether the configuration has been the same since the last reading.
    pub continues: bool,
    /// The events of queues that have crossed thresholds of feedback since the last reading.
    pub crossed: Vec<Event>,
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Sets all counters and flows to those of `offload` at `now`. Notifies of flows that began or ended, and of changes of flows
    /// that are watched. Cost: linear in the flows.
    pub fn mirror(&mut self, now: Instant, offload: &mut dyn Offload, out: &mut impl Sink<H>) {
        let (classes, all) = offload.totals(self.class_names());
        self.set_totals(now, &classes, &all);
        for (key, counted) in offload.matched() {
            match key {
                Some(key) => self.account.rules.add(&key, counted),
                None => self.account.unclassified += counted.packets,
            }
        }
        self.admit.registry.coupled = offload.coupled(now).into_iter().collect();
        let leaves = self.class_names().len() as u32;
        self.admit.registry.shared_classes = offload.shared_classes(leaves).into_iter().collect();
        let OffloadedFlows { flows, held, continues, crossed } = offload.flows();
        self.set_flows(now, &flows, &held, continues, out);
        self.pass_on(now, crossed, out);
        offload.set_advice(&self.offloaded_advice());
    }

    /// Hands promises that have changed to `offload`; returns whether they had. The next [`mirror`](Self::mirror) shows their
    /// effect.
    ///
    /// # Errors
    /// As [`Offload::set_promises`].
    pub fn offload_promises(&mut self, now: Instant, offload: &mut dyn Offload) -> Result<bool, String> {
        let mut control = self.promises(now);
        let Some((promised, table)) = control.unsent() else { return Ok(false) };
        offload.set_promises(&promised, table).map(|()| true)
    }
}

/// A flow of an offload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffloadedFlow {
    /// Its key.
    pub key: u64,
    /// Its class.
    pub class: ClassId,
    /// The class of its packets; differs from `class` while it is displaced.
    pub home: ClassId,
    /// The index of its profile.
    pub profile: u32,
    /// The fields of one of its packets.
    pub fields: Fields,
    /// The promise that it is under.
    pub promise: Option<u64>,
    /// The minimum rate that it asks for.
    pub minimum: Rate,
    /// Whether the minimum is granted.
    pub granted: bool,
    /// Steps of preference.
    pub steps: u32,
    /// The packets that are queued.
    pub backlog: Backlog,
    /// The arrival of its oldest packet, while it has a queue.
    pub head_arrived: Option<Instant>,
    /// The ceiling that its next packet waits for.
    pub held_by: Option<HeldBy>,
    /// Its counters since its start.
    pub counts: FlowCounts,
    /// The sum of the delays of the packets sent.
    pub waited: Span,
}

impl OffloadedFlow {
    /// The minimum in force.
    pub(crate) fn granted_minimum(&self) -> Rate {
        if self.granted { self.minimum } else { Rate::ZERO }
    }

    /// The view of the engine's own, empty record, completed by the counters.
    pub(crate) fn over(&self, view: FlowView) -> FlowView {
        let Self { home, minimum, granted, backlog, head_arrived, held_by, counts, .. } = *self;
        FlowView { home, minimum, granted, backlog, head_arrived, held_by, counts, ..view }
    }
}

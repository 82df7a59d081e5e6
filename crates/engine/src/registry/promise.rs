//! Promises: the calls of the control plane, made between two packets, and the state that the engine keeps of each.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use tidegate_core::classify::Fields;
use tidegate_core::fbq::{Fbc, Slots, Terms};
use tidegate_core::{ClassId, Instant, Packet, Rate};

use super::{FlowRegistry, PromiseTable};
use crate::guard::lock;
use crate::notification::FlowState;
use crate::recorder::{ControlCall, Operation, Recorder};
use crate::tree::Tree;

/// Access of the control plane to the flow registry between two packets.
pub struct PromiseControl<'a> {
    pub(crate) tree: &'a mut Tree,
    pub(crate) registry: &'a mut FlowRegistry,
    pub(crate) recorder: &'a mut Option<Box<dyn Recorder>>,
    pub(crate) now: Instant,
}

/// Why a promise cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PromiseError {
    /// The discipline has no flows.
    NoShaper,
    /// The class has only this much free rate.
    NoRoom(Rate),
}

impl PromiseControl<'_> {
    fn record(&mut self, control: ControlCall<'_>) {
        if let Some(recorder) = self.recorder {
            recorder.operation(self.now, Operation::Control(control));
        }
    }

    /// Makes promise `number`: holds its minimum in `class` for `flows` flows, and returns these holds for
    /// [`share`](Self::share). The promise comes into force for flows with the next [`PromiseTable`]. With `anyway` the promise
    /// is also made if the class does not have enough free rate: flows then wait for their minimum.
    ///
    /// # Errors
    /// See [`PromiseError`]; nothing has changed then.
    pub fn promise(
        &mut self,
        number: u64,
        terms: Terms,
        class: ClassId,
        flows: u32,
        anyway: bool,
    ) -> Result<PromiseSlots, PromiseError> {
        self.record(ControlCall::Promise { number, terms, class, flows, anyway });
        let fbc = self.tree.shaper_mut().ok_or(PromiseError::NoShaper)?;
        let before = self.registry.entries.get(&number).map_or(0, |entry| entry.flows.len() as u32);
        debug_assert!(before == 0, "a promise is changed by ending it and making another");
        let mut held = 0;
        if !terms.minimum.is_zero() {
            while held < flows {
                match fbc.hold(class, terms.minimum) {
                    Ok(()) => held += 1,
                    Err(_) if anyway => break,
                    Err(free) => {
                        // Undo the holds of this call; their rate counts as free.
                        let free = free + Rate::from_bps(terms.minimum.as_bps().saturating_mul(held.into()));
                        (0..held).for_each(|_| fbc.release(class, terms.minimum));
                        return Err(PromiseError::NoRoom(free));
                    }
                }
            }
        }
        let slots = PromiseSlots(Arc::new(Mutex::new(Slots { held, wanted: flows, here: 0 })));
        self.share(number, terms, class, slots.clone());
        Ok(slots)
    }

    /// Makes promise `number`, which another shard has made already.
    pub fn share(&mut self, number: u64, terms: Terms, class: ClassId, slots: PromiseSlots) {
        self.registry.entries.insert(number, Entry { terms, class, slots, flows: HashSet::new() });
    }

    /// Ends promise `number`, and frees the rate that was held for flows to come. To be called for each shard. Flows under the
    /// promise keep their terms until they are reviewed with a table without it.
    pub fn end(&mut self, number: u64) {
        self.record(ControlCall::End(number));
        let Some(entry) = self.registry.entries.remove(&number) else { return };
        let mut slots = lock(&entry.slots.0);
        slots.wanted = 0;
        if let Some(fbc) = self.tree.shaper_mut() {
            (0..std::mem::take(&mut slots.held)).for_each(|_| fbc.release(entry.class, entry.terms.minimum));
        }
    }

    /// Sets the table for flows that begin from now on. Returns the old one, so that the caller can free it elsewhere.
    pub fn set_table(&mut self, table: PromiseTable) -> PromiseTable {
        if table.promises.is_some() || self.registry.table.promises.is_some() {
            self.record(ControlCall::PromiseTable(&table));
        }
        self.registry.table_is_new = true;
        std::mem::replace(&mut self.registry.table, table)
    }

    /// The promises in force with their conditions, unless an offload has them already.
    pub(crate) fn unsent(&mut self) -> Option<(Vec<Promised>, &PromiseTable)> {
        if !std::mem::take(&mut self.registry.table_is_new) {
            return None;
        }
        let promised = |(&number, entry): (&u64, &Entry)| Promised {
            number,
            class: entry.class,
            terms: entry.terms,
            flows: lock(&entry.slots.0).wanted,
        };
        Some((self.registry.entries.iter().map(promised).collect(), &self.registry.table))
    }

    /// Applies the table to the flows at up to `most` places of the registry from place `from` on. Returns the place to
    /// continue from; `None` after the last place.
    pub fn review(&mut self, from: u32, most: u32) -> Option<u32> {
        self.record(ControlCall::Review { from, most });
        let fbc = self.tree.shaper_mut()?;
        let all = self.registry.places.len() as u32;
        let end = from.saturating_add(most).min(all);
        for place in from..end {
            let Some(known) = &self.registry.places[place as usize] else { continue };
            let (flow, old) = (known.flow, known.promise);
            let new =
                self.registry.table.promise(&known.fields).filter(|number| self.registry.entries.contains_key(number));
            // A promise that ended has no entry any more, and its flows lose their terms.
            // An offload looks up the promise of a flow itself, with the next packet of the flow.
            if new != old && self.registry.offloaded.is_none() {
                let terms = new.and_then(|number| self.registry.entries.get_mut(&number)).map(|entry| {
                    entry.begin(flow, fbc);
                    entry.terms
                });
                let _ = fbc.set_terms(self.now, flow, terms);
                if let Some(entry) = old.and_then(|number| self.registry.entries.get_mut(&number)) {
                    entry.end(flow, fbc);
                }
                if let Some(known) = &mut self.registry.places[place as usize] {
                    known.promise = new;
                }
            }
            let watched = self.registry.watch(flow, self.now);
            fbc.watch(flow, watched);
        }
        self.registry.mark_dirty(self.now);
        (end < all).then_some(end)
    }

    /// The state of promise `number`. Cost: linear in the number of its flows.
    pub fn view(&self, number: u64) -> Option<PromiseView> {
        let entry = self.registry.entries.get(&number)?;
        let mut view = PromiseView { held: lock(&entry.slots.0).held, ..PromiseView::default() };
        for flow in entry.flows.iter().filter_map(|flow| self.registry.view(self.tree.shaper()?, *flow)) {
            view.flows += 1;
            if !flow.granted && !flow.minimum.is_zero() {
                view.waiting += 1;
                view.waits_in = view.waits_in.or(Some(flow.class));
            }
            view.rate += flow.rate;
            view.elsewhere = view.elsewhere.or(Some(flow.class).filter(|class| *class != entry.class));
        }
        Some(view)
    }

    /// Appends the flows for which `wanted` holds, with their state, to `found`: those at up to `most` places of the registry
    /// from place `from` on. Returns the place to continue from; `None` after the last place.
    pub fn find(
        &self,
        from: u32,
        most: u32,
        wanted: impl Fn(&Fields) -> bool,
        found: &mut Vec<(u64, Fields, FlowState)>,
    ) -> Option<u32> {
        let fbc = self.tree.shaper()?;
        let all = self.registry.places.len() as u32;
        let end = from.saturating_add(most).min(all);
        for known in self.registry.places[from.min(end) as usize..end as usize].iter().flatten() {
            if wanted(&known.fields)
                && let Some(view) = self.registry.view(fbc, known.flow)
            {
                found.push((known.flow, known.fields, FlowState::of(&view, self.now)));
            }
        }
        (end < all).then_some(end)
    }

    /// Forgets every promise and what was held for it, after the discipline was replaced. The flows stay.
    pub fn clear(&mut self) {
        self.record(ControlCall::Forget);
        self.registry.entries.clear();
        self.registry.ended.clear();
        self.registry.table = PromiseTable::default();
        self.registry.places.iter_mut().flatten().for_each(|known| known.promise = None);
    }
}

/// The state of a promise in the engine.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) terms: Terms,
    /// The class in which rate is held for its flows.
    class: ClassId,
    slots: PromiseSlots,
    pub(super) flows: HashSet<u64>,
}

/// A promise in force, for an [`Offload`](crate::Offload).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promised {
    /// Its number.
    pub number: u64,
    /// The class in which rate is held.
    pub class: ClassId,
    /// The terms of each flow.
    pub terms: Terms,
    /// The number of flows for which it holds rate.
    pub flows: u32,
}

/// The rate that a promise holds for flows to come. Shards share it, because a flow under the promise may begin in any of them.
#[derive(Clone, Debug)]
pub struct PromiseSlots(Arc<Mutex<Slots>>);

/// The state of a promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PromiseView {
    /// The number of flows under it.
    pub flows: u64,
    /// Flows under it whose minimum waits until rate is released.
    pub waiting: u64,
    /// The sum of the rates of its flows.
    pub rate: Rate,
    /// The number of flows to come for which rate is held.
    pub held: u32,
    /// A class of its flows that is not the one in which rate is held.
    pub elsewhere: Option<ClassId>,
    /// A class in which a flow waits for its minimum.
    pub waits_in: Option<ClassId>,
}

impl PromiseView {
    /// Adds the state of the same promise in another shard. The held rate is common to both.
    pub fn add(&mut self, other: &Self) {
        self.flows += other.flows;
        self.waiting += other.waiting;
        self.rate += other.rate;
        self.elsewhere = self.elsewhere.or(other.elsewhere);
        self.waits_in = self.waits_in.or(other.waits_in);
    }
}

impl Entry {
    /// Holds rate for `held` flows to come, as a data path in the kernel does.
    pub(super) fn set_held<P: Packet>(&mut self, held: u32, fbc: &mut Fbc<P>) {
        let mut slots = lock(&self.slots.0);
        (held..slots.held).for_each(|_| fbc.release(self.class, self.terms.minimum));
        slots.held = slots.held.min(held);
        while slots.held < held && fbc.hold(self.class, self.terms.minimum).is_ok() {
            slots.held += 1;
        }
    }
    /// A flow begins: releases the rate that was held for it, so that it can be granted to the flow.
    pub(super) fn begin<P: Packet>(&mut self, flow: u64, fbc: &mut Fbc<P>) {
        if self.flows.insert(flow) && lock(&self.slots.0).begin() {
            fbc.release(self.class, self.terms.minimum);
        }
    }
    /// A flow has ended: holds its rate for the next flow, if it is still free.
    pub(super) fn end<P: Packet>(&mut self, flow: u64, fbc: &mut Fbc<P>) {
        let mut slots = lock(&self.slots.0);
        if self.flows.remove(&flow) && slots.end() && fbc.hold(self.class, self.terms.minimum).is_ok() {
            slots.held += 1;
        }
    }
}

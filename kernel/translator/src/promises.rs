//! Promises to flows of the core, under the operations of `kernel/promises.h`: what `engine::registry` does, but that a flow is
//! looked at with its next packet.

use std::collections::HashMap;

use tidegate_core::fbq::{Fbc, Slots, Terms};
use tidegate_core::qdisc::DropReason;
use tidegate_core::random::Stream;
use tidegate_core::{ClassId, Event, Instant, Outlet, Packet, Rate};

use super::classes::displace;
use super::reference::{Operation, PROMISE, TERMS};

/// Places of promises that scripts use: few, so that one takes the place of another.
const PLACES: u64 = 6;

#[derive(Clone, Copy, Debug, Default)]
struct Promise {
    number: u64,
    class: ClassId,
    terms: Terms,
    slots: Slots,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// How often conditions had changed when its promise was found.
    conditions: u64,
    /// The place of its promise.
    promise: Option<usize>,
}

/// The promises in force, and which flow has which.
#[derive(Debug, Default)]
pub struct Promises {
    places: HashMap<usize, Promise>,
    flows: HashMap<u64, Known>,
    conditions: u64,
    /// Terms of the promise that is made next, without its minimum.
    terms: Terms,
}

impl Promises {
    fn hold<P: Packet>(promise: &mut Promise, fbc: &mut Fbc<P>) {
        if promise.slots.end() && fbc.hold(promise.class, promise.terms.minimum).is_ok() {
            promise.slots.held += 1;
        }
    }
    fn begin<P: Packet>(&mut self, place: Option<usize>, fbc: &mut Fbc<P>) -> Option<Terms> {
        let promise = self.places.get_mut(&place?)?;
        if promise.slots.begin() {
            fbc.release(promise.class, promise.terms.minimum);
        }
        Some(promise.terms)
    }
    fn end<P: Packet>(&mut self, place: Option<usize>, fbc: &mut Fbc<P>) {
        if let Some(promise) = place.and_then(|place| self.places.get_mut(&place)) {
            Self::hold(promise, fbc);
        }
    }

    /// Before a packet that meets the conditions of the promise of this number minus 1 is enqueued.
    pub fn arrives<P: Packet, Q: Packet>(
        &mut self,
        fbc: &mut Fbc<Q>,
        now: Instant,
        packet: &P,
        number: u64,
        ended: &mut Vec<u64>,
    ) {
        let (flow, class, key) = (packet.flow(), packet.class(), packet.flow().flow);
        if fbc.class(class).is_none() {
            return;
        }
        let found = number.checked_sub(1).map(|place| place as usize).filter(|place| self.places.contains_key(place));
        let after = Known { conditions: self.conditions, promise: found };
        if fbc.find(key, u32::MAX).is_some() {
            let before = self.flows.insert(key, after).unwrap_or_default();
            if before.conditions == self.conditions {
                self.flows.insert(key, before);
            } else if before.promise != found {
                let terms = self.begin(found, fbc);
                let _ = fbc.set_terms(now, key, terms);
                self.end(before.promise, fbc);
            }
        } else {
            self.flows.insert(key, after);
            if fbc.takes_flows()
                && let Some(terms) = self.begin(found, fbc)
            {
                fbc.expect(now, flow, class, packet.profile(), terms, &mut Endings(ended));
            }
        }
    }

    /// After a call in which these flows ended.
    pub fn ended<P: Packet>(&mut self, fbc: &mut Fbc<P>, flows: &[u64]) {
        for flow in flows {
            let known = self.flows.remove(flow).unwrap_or_default();
            self.end(known.promise, fbc);
        }
    }

    /// The terms of the promise that is made next.
    pub fn set_terms(&mut self, [_, _, steps, below, to, _]: Operation) {
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        self.terms = Terms { minimum: Rate::ZERO, steps, displace: displace(below, to) };
    }

    /// Another promise in the place of one.
    pub fn change<P: Packet>(&mut self, fbc: &mut Fbc<P>, now: Instant, [_, _, at, minimum, flows, number]: Operation) {
        let place = at as u32 as usize;
        self.conditions += 1;
        if self.places.get(&place).is_some_and(|promise| promise.number == number) {
            return;
        }
        if let Some(ended) = self.places.remove(&place) {
            (0..ended.slots.held).for_each(|_| fbc.release(ended.class, ended.terms.minimum));
            for key in fbc.flows().map(|view| view.key).collect::<Vec<_>>() {
                if let Some(known) = self.flows.get_mut(&key)
                    && known.promise.take_if(|had| *had == place).is_some()
                {
                    let _ = fbc.set_terms(now, key, None);
                }
            }
        }
        if number == 0 {
            return;
        }
        let (class, minimum) = (ClassId((at >> 32) as u32), Rate::from_bps(minimum));
        let mut slots = Slots { wanted: u32::try_from(flows).unwrap_or(u32::MAX), ..Slots::default() };
        while !minimum.is_zero() && slots.held < slots.wanted && fbc.hold(class, minimum).is_ok() {
            slots.held += 1;
        }
        self.places.insert(place, Promise { number, class, terms: Terms { minimum, ..self.terms }, slots });
    }
}

/// Notes the flows that end.
struct Endings<'a>(&'a mut Vec<u64>);

impl<P> Outlet<P> for Endings<'_> {
    fn dropped(&mut self, _packet: P, _reason: DropReason) {}
    fn event(&mut self, event: Event) {
        note_ended(event, self.0);
    }
}

/// The flows that end in a call.
pub fn note_ended(event: Event, ended: &mut Vec<u64>) {
    if let Event::FlowEnded { flow, .. } = event {
        ended.push(flow);
    }
}

/// Makes promises of a script: which flow meets the conditions of which, and changes.
#[derive(Debug, Default)]
pub struct Draw {
    changes: u64,
}

impl Draw {
    /// The number of the promise of a flow, as the conditions are.
    pub fn of_flow(&self, flow: u64) -> u64 {
        let mixed = (flow ^ self.changes.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 40;
        if self.changes == 0 || mixed.is_multiple_of(3) { 0 } else { mixed % (PLACES + 1) }
    }
    /// Another promise, of up to `most`, in one of `classes`: its terms, and itself.
    pub fn change(&mut self, random: &mut Stream, now: u64, classes: u64, most: u64) -> [Operation; 2] {
        self.changes += 1;
        let number = if random.below(4) == 0 { 0 } else { self.changes };
        let minimum = if random.below(20) == 0 { 0 } else { random.below(most / 2 + 2) };
        let steps = random.below(2) * random.below(20);
        // Now and then to a class that there is not, or with a threshold that never applies.
        let to = random.below(2) * (1 + random.below(classes + 1));
        let below = random.below(most / 2 + 2) + random.below(2) * minimum;
        let place = random.below(PLACES) | random.below(classes) << 32;
        let promise = [PROMISE, now, place, minimum, 1 + random.below(4), number];
        [[TERMS, now, steps, below, to, 0], promise]
    }
}

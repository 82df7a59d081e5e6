//! `Sessions`: the queues of weighted fair queueing, one for each flow or for each class, with their weights.
//!
//! *Law*: a session has one queue in the order of arrival. When all queues together exceed the limit, the head of a queue
//! within 1/9 of the longest is dropped.
//! *Source*: Parekh and Gallager, "A generalized processor sharing approach to flow control in integrated services
//! networks: the single-node case" (1993), whose sessions these are.
//! *Units*: a `Tag` is virtual time: bit·ns/s per unit of weight, with 20 bits of fraction.
//! *Cost*: O(1) a call, one hash look-up for a packet where sessions are flows; no allocation after warm-up.
//! *Notes*: a quotient is rounded down to a tag: by less than 2⁻²⁰ bit·ns/s, 10⁻¹⁶ of a byte.
//! *See also*: [`wfq`](crate::wfq) and [`wf2q`](crate::wf2q), which order the sessions.

use alloc::vec::Vec;

use crate::fifo::Limit;
use crate::key_index::KeyIndex;
use crate::packet::{ClassId, Packet};
use crate::params::ParamError;
use crate::queues::{Pool, Queue};
use crate::slab::{Slab, reusable};
use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

/// Virtual time, see the [module](self).
pub(crate) type Tag = u128;

/// Bits of fraction of a [`Tag`].
const FRACTION: u32 = 20;

/// Returns the virtual time that `credit` is worth at a weight of one.
pub(crate) fn scaled(credit: Credit) -> Tag {
    let raw = u128::try_from(credit.as_raw()).unwrap_or(0);
    raw.min(u128::MAX >> FRACTION) << FRACTION
}

/// Returns the virtual time in which a session of `weight` is served `bytes`.
pub(crate) fn cost(bytes: Bytes, weight: u64) -> Tag {
    scaled(Credit::of(bytes)) / u128::from(weight)
}

/// Whether sessions are flows or classes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum By {
    /// A flow, by its exact key; all have the same weight.
    Flows,
    /// A class, with the weight of its number.
    Classes {
        /// The weight of each class, 1 to 1,000,000.
        weights: Vec<u32>,
        /// The class for packets of an unknown class; `None` drops them.
        default: Option<ClassId>,
    },
}

/// Parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Params {
    /// The rate of the link. No more is sent.
    pub link: Rate,
    /// How far ahead of the link packets are released. A caller that is late by up to this loses no capacity.
    pub lead: Span,
    /// Whether sessions are flows or classes.
    pub by: By,
    /// The most that all sessions together may hold.
    pub limit: Limit,
}

impl Params {
    /// Sessions that are flows, at most 1,000 packets, and no lead.
    pub fn flows(link: Rate) -> Self {
        Self { link, lead: Span::ZERO, by: By::Flows, limit: Limit::packets(1_000) }
    }
    /// Sessions that are classes with these weights, at most 1,000 packets, and no lead.
    pub fn classes(link: Rate, weights: Vec<u32>) -> Self {
        Self { by: By::Classes { weights, default: None }, ..Self::flows(link) }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// A link of rate zero; no class; a weight outside 1 to 1,000,000; a default that is not a class.
    pub fn validate(self) -> Result<Self, ParamError> {
        if self.link.is_zero() {
            return Err(ParamError::new("link", "a link of rate zero sends nothing; give its rate"));
        }
        if let By::Classes { weights, default } = &self.by {
            if weights.is_empty() {
                return Err(ParamError::new("class", "must have at least one class"));
            }
            if weights.iter().any(|weight| !(1..=1_000_000).contains(weight)) {
                return Err(ParamError::new("weight", "must be 1 to 1000000"));
            }
            if default.is_some_and(|class| class.0 as usize >= weights.len()) {
                return Err(ParamError::new("default", "must be one of the classes"));
            }
        }
        Ok(self)
    }
}

/// One queue with its weight and what the discipline keeps of it.
#[derive(Clone, Debug)]
pub(crate) struct Session<T> {
    key: u64,
    pub weight: u64,
    pub queue: Queue,
    pub tags: T,
}

reusable!(Session<T>, queue: u32);

/// The sessions. See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Sessions<P, T> {
    /// By class, or where sessions are flows in slots that are used again.
    pub all: Slab<u32, Session<T>>,
    pub pool: Pool<P>,
    /// The sessions by key, where they are flows.
    index: Option<KeyIndex>,
    default: Option<ClassId>,
}

impl<P: Packet, T: Clone + Default> Sessions<P, T> {
    /// The sessions of validated parameters, empty.
    pub fn new(params: &Params) -> Self {
        let session = |weight: u64| Session { key: 0, weight, queue: Queue::default(), tags: T::default() };
        let (all, index, default) = match &params.by {
            By::Flows => (Slab::default(), Some(KeyIndex::with_capacity(64)), None),
            By::Classes { weights, default } => {
                (weights.iter().map(|weight| session(u64::from(*weight))).collect(), None, *default)
            }
        };
        Self { all, pool: Pool::new(params.limit), index, default }
    }

    /// The session of `packet`, which is made if it is that of a new flow; `None` for an unknown class.
    pub fn of(&mut self, packet: &P) -> Option<u32> {
        let Some(index) = &mut self.index else {
            let known = |class: ClassId| (class.0 < self.all.slots()).then_some(class.0);
            return known(packet.class()).or(self.default.map(|class| class.0));
        };
        let key = packet.flow().flow;
        let new = self.all.next();
        let number = index.find_or_insert(key, new, |number| self.all[number].key == key);
        if number == new {
            self.all.insert(Session { key, weight: 1, queue: Queue::default(), tags: T::default() });
        }
        Some(number)
    }

    /// Forgets a session whose queue is empty and whose tags are of no more use; a class stays.
    pub fn end(&mut self, number: u32) {
        if let Some(index) = &mut self.index {
            index.remove(self.all[number].key, number);
            self.all.release(number);
        }
    }

    /// Whether sessions end, as flows do.
    pub fn come_and_go(&self) -> bool {
        self.index.is_some()
    }

    pub fn push(&mut self, number: u32, packet: P, at: Instant) {
        self.pool.push(number, &mut self.all[number].queue, packet, at);
    }
    pub fn pop(&mut self, number: u32) -> Option<P> {
        self.pool.pop(number, &mut self.all[number].queue).map(|(packet, _)| packet)
    }
    pub fn front(&self, number: u32) -> Option<&P> {
        self.pool.front(&self.all[number].queue)
    }
}

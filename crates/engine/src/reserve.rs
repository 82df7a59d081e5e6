//! Reservations in a running engine. Each has a leaf of CBQ and a rule that leads the packets of its flow there.
//!
//! *Law*: making or ending a reservation neither loses nor reorders a packet, and leaves the averages of other classes alone.
//! *Source*: Risso and Gevros 1999, section 7.2; see [`tidegate_core::reservation`] for admission and bounds.
//! *Notes*: the rules of reservations, the oldest first, are matched before those of the configuration. Packets of the flow
//! that are queued in another class when the reservation is made move to its leaf: the queue of the other class begins anew,
//! and its packets go to the hold queue ([`crate::swap`]). Where an offload has the packets, it is given each change, and moves them.

use std::fmt;

use tidegate_config::discipline::cbq::{CbqQueue, Reservations as Section};
use tidegate_config::shaper::{Config, Match};
use tidegate_core::cbq::{Cbq, Removal};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::qdisc::Discard;
use tidegate_core::reservation::{Grant, Policy, Refusal, Request, Reservations};
use tidegate_core::{Bytes, ClassId, Instant, Packet, Qdisc, Rate};

use crate::class_names::cbq_of;
use crate::engine::Engine;
use crate::offload::{Offload, OffloadedReservation};
use crate::recorder::{ControlCall, Operation};
use crate::rules::BuildFailure;
use crate::sink::Sink;

/// A reservation that was granted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// Its name.
    pub name: String,
    /// The traffic specification and the service that were requested.
    pub request: Request,
    /// The granted rate, delay and class; [`Grant::id`] identifies the reservation in later calls.
    pub grant: Grant,
    /// The conditions on its packets.
    pub matches: Match,
    /// The number of reservations that were made before it: one that gets the same class later has another.
    pub serial: u64,
}

/// Why a reservation was not made, or why reservations do not permit a change of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReserveError {
    /// The configuration has no class for reservations.
    Nowhere,
    /// Its conditions match every packet.
    Everything,
    /// The request exceeds what the configuration allows for one flow.
    Bounds(String),
    /// Another reservation or class has this name.
    Name(String),
    /// The reservation is not admitted, or does not exist.
    Admission(Refusal),
    /// Its rule cannot be built.
    Rules(BuildFailure),
    /// The new configuration cannot hold the present reservations.
    InTheWay {
        /// The number of present reservations.
        reservations: usize,
        /// The reason, as text.
        why: String,
    },
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str(
                "no reservations here; write kind = \"cbq\" and reservations = { class = \"...\" } under [discipline]",
            ),
            Self::Everything => f.write_str("specify the packets, by address, port or protocol"),
            Self::Bounds(text) => f.write_str(text),
            Self::Name(name) => write!(f, "a reservation or class is called `{name}` already"),
            Self::Admission(refusal) => refusal.fmt(f),
            Self::Rules(failure) => failure.fmt(f),
            Self::InTheWay { reservations, why } => {
                write!(f, "{reservations} reservations would not fit any more ({why}); release them first")
            }
        }
    }
}

impl std::error::Error for ReserveError {}

fn section(config: &Config) -> Option<&Section> {
    cbq_of(config).and_then(|cbq| cbq.reservations.as_ref()).map(|section| &section.value)
}

/// The reservations that were granted, and the admission control for others.
pub(crate) struct Leases {
    reservations: Option<Reservations>,
    list: Vec<Lease>,
    first_class: u32,
    /// The number of reservations that were ever made.
    made: u64,
    /// Whether an offload does not have the list yet.
    is_new: bool,
    /// See [`Policy::longest`].
    longest: Bytes,
}

/// The policy of a configuration, where other classes send packets of up to `longest` whole.
fn policy_of(config: &Config, longest: Bytes) -> Option<Policy> {
    cbq_of(config).and_then(CbqQueue::policy).map(|policy| Policy { longest, ..policy })
}

fn queue<P: Packet + 'static>(limit: Limit) -> Box<dyn Qdisc<P>> {
    Box::new(Fifo::new(limit))
}

impl Leases {
    pub(crate) fn new(config: &Config, longest: Bytes) -> Result<Self, String> {
        let reservations = match policy_of(config, longest) {
            Some(policy) => Some(Reservations::new(policy).map_err(|error| error.to_string())?),
            None => None,
        };
        let first_class = cbq_of(config).map_or(u32::MAX, CbqQueue::first_reserved);
        Ok(Self { reservations, list: Vec::new(), first_class, made: 0, is_new: false, longest })
    }
    /// The class number of the first reservation.
    pub(crate) fn first_class(&self) -> u32 {
        self.first_class
    }
    /// Whether the configuration permits reservations.
    pub(crate) fn is_open(&self) -> bool {
        self.reservations.is_some()
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.list.iter()
    }
    #[inline]
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.reservations.as_ref().and_then(Reservations::next_expiry)
    }
    pub(crate) fn rules(&self) -> Vec<(&Match, ClassId)> {
        self.list.iter().map(|lease| (&lease.matches, lease.grant.id)).collect()
    }
    pub(crate) fn lease(&self, class: ClassId) -> Option<&Lease> {
        self.list.iter().find(|lease| lease.grant.id == class)
    }
    /// Makes an empty queue for the class of a lease.
    pub(crate) fn queue<P: Packet + 'static>(&self, class: ClassId) -> Option<Box<dyn Qdisc<P>>> {
        self.lease(class).map(|lease| queue(Limit::bytes(lease.grant.buffer)))
    }
    /// Makes the leases of `config` from these, and leaves for them in its tree `cbq`.
    pub(crate) fn moved<P: Packet + 'static>(
        &self,
        now: Instant,
        config: &Config,
        cbq: Option<&mut Cbq<P>>,
    ) -> Result<Self, ReserveError> {
        let in_the_way = |why: String| ReserveError::InTheWay { reservations: self.list.len(), why };
        let mut registry = Self::new(config, self.longest).map_err(in_the_way)?;
        registry.made = self.made;
        if self.list.is_empty() {
            return Ok(registry);
        }
        let (Some(cbq), Some(policy), Some(old)) = (cbq, policy_of(config, self.longest), &self.reservations) else {
            return Err(in_the_way("it has no class for them".into()));
        };
        let mut reservations = old.clone();
        reservations.replant(now, cbq, policy, queue).map_err(|refusal| in_the_way(refusal.to_string()))?;
        registry.reservations = Some(reservations);
        registry.list.clone_from(&self.list);
        registry.is_new = true;
        Ok(registry)
    }
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Makes a class for the packets that match; matching packets that are queued in other classes move to it. The reservation
    /// lasts until it is released, or until it expires without [`Engine::refresh`].
    ///
    /// # Errors
    /// See [`ReserveError`]; nothing has changed then.
    pub fn reserve(
        &mut self,
        now: Instant,
        name: &str,
        request: &Request,
        matches: Match,
        out: &mut impl Sink<H>,
    ) -> Result<Lease, ReserveError> {
        self.record(now, Operation::Control(ControlCall::Reserve { name, request, matches: &matches }));
        let (Some(cbq), Some(reservations), Some(section)) =
            (self.tree.cbq_mut(), &mut self.leases.reservations, section(&self.config))
        else {
            return Err(ReserveError::Nowhere);
        };
        if matches.is_everything() {
            return Err(ReserveError::Everything);
        }
        if self.leases.list.iter().any(|lease| lease.name == name)
            || self.account.classes.names().iter().any(|n| n == name)
        {
            return Err(ReserveError::Name(name.to_owned()));
        }
        section.admits(request).map_err(ReserveError::Bounds)?;
        let grant = reservations.reserve(now, cbq, request, queue).map_err(ReserveError::Admission)?;
        let serial = self.leases.made;
        self.leases.list.push(Lease { name: name.to_owned(), request: *request, grant, matches, serial });
        if let Err(failure) = self.classify.set_reserved(&self.leases.rules(), &self.setup.names) {
            self.leases.list.pop();
            if let (Some(cbq), Some(reservations)) = (self.tree.cbq_mut(), &mut self.leases.reservations) {
                let _ = reservations.release(now, cbq, grant.id, Removal::Flush, &mut Discard);
            }
            return Err(ReserveError::Rules(failure));
        }
        self.leases.made += 1;
        self.leases.is_new = true;
        self.account.classes.open(grant.id);
        self.requeue(now, &[], out);
        let lease = self.leases.list.last().cloned();
        lease.ok_or(ReserveError::Nowhere)
    }

    /// Renews a reservation; returns when it will expire.
    ///
    /// # Errors
    /// [`ReserveError`] when the reservation has ended.
    pub fn refresh(&mut self, now: Instant, id: ClassId) -> Result<Instant, ReserveError> {
        self.record(now, Operation::Control(ControlCall::Refresh(id)));
        let expires = match &mut self.leases.reservations {
            Some(reservations) => reservations.refresh(now, id).map_err(ReserveError::Admission)?,
            None => return Err(ReserveError::Nowhere),
        };
        for lease in self.leases.list.iter_mut().filter(|lease| lease.grant.id == id) {
            lease.grant.expires = expires;
        }
        Ok(expires)
    }

    /// Ends a reservation. Packets queued in its class move to the classes of their rules.
    ///
    /// # Errors
    /// [`ReserveError`] when the reservation has ended already.
    pub fn release(&mut self, now: Instant, id: ClassId, out: &mut impl Sink<H>) -> Result<(), ReserveError> {
        self.record(now, Operation::Control(ControlCall::Release(id)));
        self.end_lease(now, id, out)
    }

    /// Ends a reservation without recording that, because it follows from a recorded call.
    fn end_lease(&mut self, now: Instant, id: ClassId, out: &mut impl Sink<H>) -> Result<(), ReserveError> {
        let (Some(cbq), Some(reservations)) = (self.tree.cbq_mut(), &mut self.leases.reservations) else {
            return Err(ReserveError::Nowhere);
        };
        // The packets of the leaf are in the packet table, and are enqueued again from there.
        reservations.release(now, cbq, id, Removal::Flush, &mut Discard).map_err(ReserveError::Admission)?;
        self.leases.list.retain(|lease| lease.grant.id != id);
        self.leases.is_new = true;
        self.classify.set_reserved(&self.leases.rules(), &self.setup.names).map_err(ReserveError::Rules)?;
        self.requeue(now, &[id], out);
        Ok(())
    }

    /// Ends the reservations that were not refreshed in time.
    pub(crate) fn expire_reservations(&mut self, now: Instant, out: &mut impl Sink<H>) {
        while self.leases.next_expiry().is_some_and(|expiry| expiry <= now) {
            let over = self.leases.list.iter().find(|lease| lease.grant.expires <= now).map(|lease| lease.grant.id);
            if over.is_none_or(|id| self.end_lease(now, id, out).is_err()) {
                break;
            }
        }
    }

    /// Prepares for an offload in which other classes send packets of up to `longest` whole, before the first reservation: no bound on
    /// a delay is promised then that such packets break.
    pub fn expect_packets_of(&mut self, longest: Bytes) {
        if let Ok(leases) = Leases::new(&self.config, longest) {
            self.leases = leases;
        }
    }

    /// Ends the reservations that were not refreshed by `now`, and hands the others to `offload` if they have changed; returns whether
    /// they had.
    ///
    /// # Errors
    /// As [`Offload::set_reservations`].
    pub fn offload_reservations(
        &mut self,
        now: Instant,
        offload: &mut dyn Offload,
        out: &mut impl Sink<H>,
    ) -> Result<bool, String> {
        self.expire_reservations(now, out);
        if !std::mem::take(&mut self.leases.is_new) {
            return Ok(false);
        }
        let (first, tree) = (self.leases.first_class, self.tree.cbq());
        let reservation = |lease: &Lease| {
            let Grant { id, buffer, .. } = lease.grant;
            let (place, params) = (id.0 - first, *tree?.class(id)?);
            let (matches, serial) = (lease.matches.clone(), lease.serial);
            Some(OffloadedReservation { place, serial, class: id, params, buffer, matches })
        };
        let reservations = self.leases.iter().filter_map(reservation).collect();
        offload.set_reservations(reservations).map(|()| true)
    }

    /// The reservations, the oldest first.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.iter()
    }

    /// The free part of the rate for reservations; `None` if the configuration permits none.
    pub fn unreserved(&self) -> Option<Rate> {
        let policy = self.leases.reservations.as_ref()?.policy();
        self.tree.cbq()?.free_rate(policy.parent)
    }
}

//! Markers and policers: actions by the colour of a meter.
//!
//! *Law*: every packet that passes is metered exactly once and coloured; by its colour it passes, is marked with a
//! code point, or is dropped ([`DropReason::Policed`]). The order of packets never changes.
//! *Source*: RFC 2475 section 2.3.3 (marker, dropper); RFC 2597 section 6 for the code points AFx1, AFx2, AFx3 of
//! green, yellow, red.
//! *Units*: code points; everything else is the meter's.
//! *Cost*: the meter's, and O(1). At exit, one `dequeue` may drop several packets; each was enqueued once.
//! *Notes*: writing the code point into a header, and its checksum, is the packet's business
//! ([`Packet::set_dscp`]).
//! *See also*: [`meter`](crate::meter) for the colours; [`ras`](crate::ras), which shapes before a marker and
//! contains a [`Conditioner`] because it may look at the meter.
//!
//! ```
//! use tidegate_core::{fifo::{Fifo, Limit}, marker::{Action, Actions, Conditioner, Marker, Point}, meter::Mode};
//! use tidegate_core::{qdisc::Discard, srtcm::{Params, SrTcm}, *};
//! # #[derive(Debug)] struct P(u64, Dscp);
//! # impl Packet for P {
//! #     fn size(&self) -> Bytes { Bytes::new(self.0) }
//! #     fn flow(&self) -> FlowKey { FlowKey::default() }
//! #     fn set_dscp(&mut self, dscp: Dscp) { self.1 = dscp; }
//! # }
//! let params = Params { cir: Rate::from_mbit(1), cbs: Bytes::new(1_500), ebs: Bytes::new(1_500), mode: Mode::Blind };
//! let meter = SrTcm::new(params, Instant::ZERO).unwrap();
//! // Assured forwarding class 1; red is not let in.
//! let actions = Actions { red: Action::Drop, ..Actions::assured(1).unwrap() };
//! let mut queue = Marker::new(Fifo::new(Limit::NONE), Conditioner::new(meter, actions), Point::Entry);
//! let mut dropped = vec![];
//! for _ in 0..3 {
//!     queue.enqueue(Instant::ZERO, P(1_500, Dscp::BEST_EFFORT), &mut dropped);
//! }
//! assert_eq!(queue.dequeue(Instant::ZERO, &mut Discard).unwrap().1, Dscp::assured(1, 1).unwrap());
//! assert_eq!(queue.dequeue(Instant::ZERO, &mut Discard).unwrap().1, Dscp::assured(1, 2).unwrap());
//! assert_eq!(dropped[0].1, DropReason::Policed);
//! ```

use crate::accounts::Account;
use crate::dualpi2::Coupled;
use crate::meter::Meter;
use crate::packet::{ClassId, Colour, Dscp, Packet};
use crate::probability::Probability;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc, Queued};
use tidegate_units::Instant;

/// The treatment of a packet of one colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Action {
    /// It passes with the code point it has.
    #[default]
    Pass,
    /// It passes with this code point.
    Mark(Dscp),
    /// The packet is dropped.
    Drop,
}

/// The treatment of packets by colour. By default all pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Actions {
    /// With green packets.
    pub green: Action,
    /// With yellow packets.
    pub yellow: Action,
    /// With red packets.
    pub red: Action,
}

impl Actions {
    /// Marks with the three drop precedences of assured forwarding class `class` (1 to 4), or `None` outside them.
    pub const fn assured(class: u8) -> Option<Self> {
        match (Dscp::assured(class, 1), Dscp::assured(class, 2), Dscp::assured(class, 3)) {
            (Some(green), Some(yellow), Some(red)) => {
                Some(Self { green: Action::Mark(green), yellow: Action::Mark(yellow), red: Action::Mark(red) })
            }
            _ => None,
        }
    }
    /// The action for `colour`.
    pub const fn of(&self, colour: Colour) -> Action {
        match colour {
            Colour::Green => self.green,
            Colour::Yellow => self.yellow,
            Colour::Red => self.red,
        }
    }
}

/// Whether a packet is forwarded after conditioning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The packet passes, possibly with another code point.
    Passed,
    /// The caller must drop the packet.
    Refused,
}

/// A meter with the actions for its colours and an account of each.
#[derive(Clone, Debug, Default)]
pub struct Conditioner<M> {
    meter: M,
    actions: Actions,
    accounts: [Account; 3],
}

impl<M> Conditioner<M> {
    /// `actions` by the colours of `meter`.
    pub fn new(meter: M, actions: Actions) -> Self {
        Self { meter, actions, accounts: [Account::default(); 3] }
    }
    /// Returns the meter that colours packets.
    pub fn meter(&self) -> &M {
        &self.meter
    }
    /// The meter, to change its parameters.
    pub fn meter_mut(&mut self) -> &mut M {
        &mut self.meter
    }
    /// Returns the actions by colour.
    pub fn actions(&self) -> &Actions {
        &self.actions
    }
    /// Takes other actions.
    pub fn set_actions(&mut self, actions: Actions) {
        self.actions = actions;
    }
    /// The packets that got `colour` so far, dropped ones included.
    pub fn account(&self, colour: Colour) -> Account {
        self.accounts[colour as usize]
    }
    /// Meters, colours and marks `packet`, which passes at `now`.
    pub fn condition<P: Packet>(&mut self, now: Instant, packet: &mut P) -> Outcome
    where
        M: Meter<P>,
    {
        let colour = self.meter.meter(now, packet);
        packet.set_colour(colour);
        self.accounts[colour as usize].count(packet.size());
        match self.actions.of(colour) {
            Action::Pass => Outcome::Passed,
            Action::Mark(dscp) => {
                packet.set_dscp(dscp);
                Outcome::Passed
            }
            Action::Drop => Outcome::Refused,
        }
    }
}

/// Where a marker conditions packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Point {
    /// Before the discipline inside: packets are metered as they come.
    #[default]
    Entry,
    /// Behind it: packets are metered as they leave, so a shaper inside has smoothed them.
    Exit,
}

/// A discipline with a conditioner before or behind it. See the [module](self).
#[derive(Clone, Debug)]
pub struct Marker<Q, M> {
    inner: Q,
    conditioner: Conditioner<M>,
    point: Point,
    /// The latest instant of any call: the meter sees only some of them, and must not receive an earlier one.
    latest: Instant,
}

impl<Q, M> Marker<Q, M> {
    /// `inner` with `conditioner` at `point`.
    pub fn new(inner: Q, conditioner: Conditioner<M>, point: Point) -> Self {
        Self { inner, conditioner, point, latest: Instant::ZERO }
    }
    /// Returns the discipline behind the marker.
    pub fn inner(&self) -> &Q {
        &self.inner
    }
    /// The discipline, to change its parameters.
    pub fn inner_mut(&mut self) -> &mut Q {
        &mut self.inner
    }
    /// Returns the meter with its actions.
    pub fn conditioner(&self) -> &Conditioner<M> {
        &self.conditioner
    }
    /// The conditioner, to change its parameters.
    pub fn conditioner_mut(&mut self) -> &mut Conditioner<M> {
        &mut self.conditioner
    }
}

impl<P: Packet, Q: Qdisc<P>, M: Meter<P>> Qdisc<P> for Marker<Q, M> {
    fn enqueue(&mut self, now: Instant, mut packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.latest = self.latest.max(now);
        let now = self.latest;
        if self.point == Point::Entry && self.conditioner.condition(now, &mut packet) == Outcome::Refused {
            return out.refused(packet, DropReason::Policed);
        }
        self.inner.enqueue(now, packet, out)
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.latest = self.latest.max(now);
        let now = self.latest;
        loop {
            let mut packet = self.inner.dequeue(now, out)?;
            if self.point == Point::Entry || self.conditioner.condition(now, &mut packet) == Outcome::Passed {
                return Some(packet);
            }
            out.dropped(packet, DropReason::Policed);
        }
    }

    fn deadline(&self, now: Instant) -> Deadline {
        self.inner.deadline(now.max(self.latest))
    }

    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }

    fn probability(&self) -> Option<Probability> {
        self.inner.probability()
    }

    fn coupled(&self, class: ClassId, now: Instant) -> Option<Coupled> {
        self.inner.coupled(class, now)
    }
}

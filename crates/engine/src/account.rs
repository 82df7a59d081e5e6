//! The second stage: counts packets by class and by flow, as they arrive, leave and are dropped.
//!
//! *Law*: for the packets that the rules put into a class, arrived and moved in is sent, dropped, moved out and backlog.
//! *Cost*: with `detail = "flows"` one look-up of the flow for a packet ([`Account::find`]). The record holds the slot of
//! the flow in the scheduler as well, so that the scheduler looks nothing up. A departure or a drop looks nothing up:
//! the packet carries the index of the record, which stays as long as a packet of the flow is queued.

use tidegate_config::shaper::{Config, Detail};
use tidegate_core::accounts::Account as Counter;
use tidegate_core::classify::Fields;
use tidegate_core::packet::NO_SLOT;
use tidegate_core::{Bytes, ClassId, DropReason, Instant, Packet, Rate};

use crate::class_names::names_of;
use crate::classes::Classes;
use crate::flows::{self, FlowSlots, Flows, Leaving};
use crate::packet::QueuedPacket;
use crate::rules::{BuildFailure, Classification};
use crate::sink::Change;
use crate::tree::Tree;

/// See the [module](self).
pub(crate) struct Account {
    pub(crate) classes: Classes,
    /// Statistics beside the accounts of classes.
    pub(crate) detail: Detail,
    /// The flows, where they are counted.
    pub(crate) flows: Option<Flows>,
    pub(crate) arrivals: u64,
    pub(crate) unclassified: u64,
    pub(crate) sent: Counter,
    pub(crate) dropped: u64,
}

/// The table of flows that a configuration asks for.
pub(crate) fn flows_of(config: &Config) -> Result<Option<Flows>, BuildFailure> {
    match config.statistics.detail {
        Detail::Flows => Flows::new(config.statistics.flows, config.statistics.idle)
            .map(Some)
            .map_err(|error| BuildFailure::Tree(format!("statistics: {error}"))),
        Detail::Classes | Detail::Off => Ok(None),
    }
}

impl Account {
    pub(crate) fn new(config: &Config, first_reserved: u32) -> Result<Self, BuildFailure> {
        Ok(Self {
            classes: Classes::new(names_of(config), first_reserved),
            detail: config.statistics.detail,
            flows: flows_of(config)?,
            arrivals: 0,
            unclassified: 0,
            sent: Counter::default(),
            dropped: 0,
        })
    }

    /// Looks the flow up.
    #[inline]
    pub(crate) fn find(&self, flow: u64) -> FlowSlots {
        match &self.flows {
            Some(flows) => flows.slots(flow),
            None => FlowSlots { record: None, scheduler: NO_SLOT },
        }
    }

    /// A packet arrives; returns the index of the record of its flow.
    #[inline]
    pub(crate) fn arrived(
        &mut self,
        now: Instant,
        classification: &Classification,
        fields: &Fields,
        size: Bytes,
        slots: FlowSlots,
    ) -> u32 {
        let Classification { rule, class, flow } = *classification;
        self.unclassified += u64::from(rule.is_none());
        self.classes.of(class).arrived(size);
        self.flow_arrived(now, flow.flow, fields, (class, rule), size, slots)
    }

    /// The part of an arrival that concerns its flow alone.
    #[inline]
    pub(crate) fn flow_arrived(
        &mut self,
        now: Instant,
        flow: u64,
        fields: &Fields,
        class: (ClassId, Option<u32>),
        size: Bytes,
        slots: FlowSlots,
    ) -> u32 {
        match &mut self.flows {
            Some(flows) => flows.arrived(now, flow, fields, class, size, slots.record),
            None => flows::UNTRACKED,
        }
    }

    /// The scheduler has the flow of the record in `slot`.
    #[inline]
    pub(crate) fn scheduled(&mut self, record: u32, slot: u32) {
        if let Some(flows) = &mut self.flows {
            flows.scheduled(record, slot);
        }
    }

    /// A packet is sent, with `change` made to it.
    pub(crate) fn sent(&mut self, now: Instant, packet: &QueuedPacket, change: Change, tree: &Tree) {
        self.sent.count(packet.size);
        let index = self.classes.index(packet.class);
        let counts = self.classes.at(index);
        counts.left(packet.size);
        counts.marked += u64::from(change.congestion);
        counts.remarked += u64::from(change.dscp.is_some());
        let through = self.classes.of(packet.left_by);
        through.sent(packet.size);
        if self.detail == Detail::Off {
            return;
        }
        let waited = now.since(packet.arrived);
        through.measured(now, packet.size, waited);
        if let Some(flows) = &mut self.flows {
            let leaving = Leaving {
                size: packet.size,
                waited,
                through: packet.left_by,
                marked: change.congestion,
                remarked: change.dscp.is_some(),
            };
            if let Some(difference) = flows.left(now, packet.record, &leaving) {
                through.differed(difference);
            }
        }
        self.check_minimums(now, packet, tree);
    }

    /// A packet is dropped.
    pub(crate) fn dropped(&mut self, now: Instant, packet: &QueuedPacket, reason: DropReason) {
        self.dropped += 1;
        self.classes.of(packet.class).dropped(packet.size(), reason);
        if let Some(flows) = &mut self.flows {
            flows.dropped(now, packet.record, packet.size(), reason);
        }
    }

    /// Once a second: whether the class and the flow of `packet` had the rate that they are granted.
    #[inline]
    pub(crate) fn check_minimums(&mut self, now: Instant, packet: &QueuedPacket, tree: &Tree) {
        let index = self.classes.index(packet.class);
        if self.detail != Detail::Off && self.classes.at(index).promise_is_due(now) {
            let rate = tree.class_rate(ClassId(index as u32)).unwrap_or(Rate::ZERO);
            self.classes.at(index).check(now, rate);
        }
        if let Some(flows) = &mut self.flows
            && flows.is_due(now, packet.record)
        {
            let view = tree.shaper().and_then(|shaper| shaper.flow(packet.flow.flow));
            flows.check(now, packet.record, flows::promised(view.as_ref()));
        }
    }
}

//! Targets of scripts: a bare discipline, or the engine of a shaper file.

use tidegate_config::shaper::Config;
use tidegate_core::cbq::{Cbq, ClassState};
use tidegate_core::classify::{Hosts, Signal};
use tidegate_core::{Backlog, Colour, Deadline, DropReason, Dscp, Ecn, Instant, Outlet, Qdisc};
use tidegate_engine::driver::{Arrival, Driver};
use tidegate_engine::{Change, PacketMeta, Setup, Shape, Sink};

use crate::packet::{Header, Item};

/// An effect of a call: a departure or a drop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// A packet left with these fields.
    Left { id: u32, dscp: Dscp, ecn: Ecn, marked: bool, colour: Option<Colour> },
    /// A packet was dropped.
    Dropped { id: u32, reason: DropReason },
}

/// The target of a script. The effects of a call are added to `out`, in order.
pub trait Target {
    /// Enqueues `item`, whose header is `header`.
    fn enqueue(&mut self, now: Instant, item: Item, header: &Header, out: &mut Vec<Effect>);
    /// Dequeues a packet; returns whether one left.
    fn dequeue(&mut self, now: Instant, out: &mut Vec<Effect>) -> bool;
    /// Returns when to dequeue next.
    fn deadline(&self, now: Instant) -> Deadline;
    /// Returns the packets and bytes queued.
    fn backlog(&self) -> Backlog;
    /// Returns the class of CBQ that is called `name`, inner classes included.
    fn shared_class(&self, now: Instant, name: &str) -> Option<ClassState>;
    /// Replaces the configuration.
    fn reconfigure(
        &mut self,
        now: Instant,
        config: &Config,
        setup: &Setup,
        out: &mut Vec<Effect>,
    ) -> Result<(), String>;
}

/// A discipline that a script can run on alone.
pub trait Alone: Qdisc<Item> {
    /// Its classes in the sharing of a link; empty for a discipline other than CBQ.
    fn shared_classes(&self, _now: Instant) -> Vec<ClassState> {
        Vec::new()
    }
}

impl Alone for Box<dyn Qdisc<Item>> {}

impl Alone for Cbq<Item> {
    fn shared_classes(&self, now: Instant) -> Vec<ClassState> {
        self.states(now)
    }
}

/// A discipline alone.
pub struct Bare<Q> {
    /// The discipline.
    pub discipline: Q,
    /// The names of its classes in the sharing of a link, at the indices of their numbers.
    pub shared: Vec<String>,
}

struct EffectSink<'a>(&'a mut Vec<Effect>);

impl Outlet<Item> for EffectSink<'_> {
    fn dropped(&mut self, item: Item, reason: DropReason) {
        self.0.push(Effect::Dropped { id: item.id, reason });
    }
}

impl<Q: Alone> Target for Bare<Q> {
    fn enqueue(&mut self, now: Instant, item: Item, _header: &Header, out: &mut Vec<Effect>) {
        self.discipline.enqueue(now, item, &mut EffectSink(out));
    }
    fn dequeue(&mut self, now: Instant, out: &mut Vec<Effect>) -> bool {
        let left = self.discipline.dequeue(now, &mut EffectSink(out));
        if let Some(Item { id, dscp, ecn, colour, .. }) = left {
            // Marks are detected by comparison with the ECN field on arrival.
            out.push(Effect::Left { id, dscp, ecn, marked: false, colour: Some(colour) });
        }
        left.is_some()
    }
    fn deadline(&self, now: Instant) -> Deadline {
        self.discipline.deadline(now)
    }
    fn backlog(&self) -> Backlog {
        self.discipline.backlog()
    }
    fn shared_class(&self, now: Instant, name: &str) -> Option<ClassState> {
        let all = self.discipline.shared_classes(now);
        all.into_iter().find(|state| self.shared.get(state.class.0 as usize).is_some_and(|known| known == name))
    }
    fn reconfigure(&mut self, _: Instant, _: &Config, _: &Setup, _: &mut Vec<Effect>) -> Result<(), String> {
        Err("a discipline alone has no configuration".into())
    }
}

/// The handle of a packet in the engine: its number, and its fields on arrival.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    id: u32,
    dscp: Dscp,
    ecn: Ecn,
}

/// The engine of a shaper file.
pub struct Shaped(pub Driver<Handle>);

impl Sink<Handle> for EffectSink<'_> {
    fn transmit(&mut self, handle: Handle, change: Change) {
        let (dscp, marked) = (change.dscp.unwrap_or(handle.dscp), change.congestion);
        let ecn = if marked { Ecn::Ce } else { handle.ecn };
        self.0.push(Effect::Left { id: handle.id, dscp, ecn, marked, colour: None });
    }
    fn drop_packet(&mut self, handle: Handle, reason: DropReason) {
        self.0.push(Effect::Dropped { id: handle.id, reason });
    }
}

impl Target for Shaped {
    fn enqueue(&mut self, now: Instant, item: Item, header: &Header, out: &mut Vec<Effect>) {
        let network = if matches!(header.fields.hosts, Hosts::V6 { .. }) { 40 } else { 20 };
        let transport = match header.fields.protocol {
            Some(6) => 20,
            Some(17) => 8,
            _ => 0,
        };
        let length = u32::try_from(header.size.as_u64()).unwrap_or(u32::MAX);
        let mut fields = header.fields;
        fields.traits.length = u16::try_from(length).unwrap_or(u16::MAX);
        fields.traits.signal = match fields.traits.signal {
            // Segments of an open connection have ACK.
            Signal::Unknown if header.pure_ack || fields.protocol == Some(6) => {
                Signal::Tcp { flags: 0x10, pure_ack: header.pure_ack }
            }
            other => other,
        };
        let meta = PacketMeta {
            fields,
            ecn: header.ecn,
            length,
            network_header: network.min(length),
            headers: (network + transport).min(length),
            pure_ack: header.pure_ack,
            shape: Shape::Single,
        };
        let handle = Handle { id: item.id, dscp: header.fields.dscp, ecn: header.ecn };
        // Only superpackets are segmented, and scripts have none.
        let _ = self.0.offer(now, Arrival::new(handle, &meta), &mut EffectSink(out));
    }
    fn dequeue(&mut self, now: Instant, out: &mut Vec<Effect>) -> bool {
        self.0.depart(now, &mut EffectSink(out))
    }
    fn deadline(&self, now: Instant) -> Deadline {
        self.0.engine().deadline(now)
    }
    fn backlog(&self) -> Backlog {
        let mut backlog = Qdisc::backlog(self.0.engine().tree());
        let (held, _) = self.0.engine().fragments();
        backlog.packets += held.packets;
        backlog.bytes += held.bytes;
        backlog
    }
    fn shared_class(&self, now: Instant, name: &str) -> Option<ClassState> {
        let all = self.0.engine().shared_classes(now);
        all.into_iter().find(|class| class.name == name).map(|class| class.state)
    }
    fn reconfigure(
        &mut self,
        now: Instant,
        config: &Config,
        setup: &Setup,
        out: &mut Vec<Effect>,
    ) -> Result<(), String> {
        let done = self.0.engine_mut().reconfigure(config, setup, now, &mut EffectSink(out));
        done.map(drop).map_err(|failure| failure.to_string())
    }
}

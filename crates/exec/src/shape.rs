//! One direction: packets in, packets out when the engine lets them.

use tidegate_capture::{dissect, rewrite};
use tidegate_config::shaper::Config;
use tidegate_core::{DropReason, Instant};
use tidegate_engine::{BuildFailure, Change, Engine, Names, PacketMeta, Setup, Shape, Sink};
use tidegate_live::timing;
use tidegate_units::Span;

use crate::Traffic;

/// The relay has no real-time priority: lateness up to this is made up for.
const CATCH_UP: Span = Span::from_millis(20);

/// A direction.
pub(crate) struct Direction {
    engine: Option<Engine<u32>>,
    packets: Vec<Vec<u8>>,
    exit: Door,
    traffic: Traffic,
}

/// Where the engine puts what it is done with.
#[derive(Default)]
struct Door {
    ready: Vec<(u32, Change)>,
    free: Vec<u32>,
    dropped: u64,
}

impl Sink<u32> for Door {
    fn transmit(&mut self, handle: u32, change: Change) {
        self.ready.push((handle, change));
    }
    fn drop_packet(&mut self, handle: u32, _reason: DropReason) {
        self.dropped += 1;
        self.free.push(handle);
    }
}

impl Direction {
    /// A direction that `config` shapes, or nothing.
    pub fn new(config: Option<&Config>) -> Result<Self, BuildFailure> {
        let mut secret = [0; 16];
        // Without entropy, early at boot, the secret protects from nobody; it still works.
        let _ = rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::NONBLOCK);
        let secret = u128::from_ne_bytes(secret);
        let secret = [secret as u64, (secret >> 64) as u64];
        let setup = Setup { seed: secret[0], secret, catch_up: CATCH_UP, names: Names::default() };
        let engine = config.map(|config| Engine::new(config, &setup, timing::now())).transpose()?;
        Ok(Self { engine, packets: Vec::new(), exit: Door::default(), traffic: Traffic::default() })
    }

    /// Takes a packet.
    pub fn offer(&mut self, now: Instant, packet: &[u8]) {
        let slot = self.exit.free.pop().unwrap_or_else(|| {
            self.packets.push(Vec::new());
            (self.packets.len() - 1) as u32
        });
        let held = &mut self.packets[slot as usize];
        held.clear();
        held.extend_from_slice(packet);
        let Some(engine) = &mut self.engine else {
            self.exit.ready.push((slot, Change::default()));
            return;
        };
        let seen = dissect::network(packet, packet.len()).unwrap_or_default();
        let sighting = PacketMeta {
            fields: seen.fields,
            ecn: seen.ecn,
            length: packet.len() as u32,
            network_header: seen.network_header.into(),
            headers: seen.headers(),
            pure_ack: seen.is_pure_ack(),
            shape: Shape::Single,
        };
        // A single packet is never too long.
        let _ = engine.enqueue(now, slot, &sighting, &mut self.exit);
    }

    /// Hands over what may go, one packet after the other.
    pub fn depart(&mut self, now: Instant, mut take: impl FnMut(&[u8])) {
        if let Some(engine) = &mut self.engine {
            while engine.deadline(now).instant(now).is_some_and(|time| time <= now) {
                // Nothing left, and due all the same: what is due was a fragment or a drop, which is done now.
                if !engine.dequeue(now, &mut self.exit) && engine.deadline(now).instant(now) == Some(now) {
                    break;
                }
            }
        }
        for (slot, change) in self.exit.ready.drain(..) {
            let packet = &mut self.packets[slot as usize];
            if let Some(dscp) = change.dscp {
                rewrite::set_dscp(packet, dscp);
            }
            if change.congestion {
                rewrite::mark_ce(packet);
            }
            self.traffic.packets += 1;
            self.traffic.bytes += packet.len() as u64;
            take(packet);
            self.exit.free.push(slot);
        }
    }

    /// When something may go next.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        if !self.exit.ready.is_empty() {
            return Some(now);
        }
        self.engine.as_ref().and_then(|engine| engine.deadline(now).instant(now))
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.exit.ready.is_empty() && self.exit.free.len() == self.packets.len()
    }

    /// What passed so far.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            dropped: self.exit.dropped,
            classes: self.engine.as_ref().map(Engine::status).unwrap_or_default(),
            ..self.traffic.clone()
        }
    }
}

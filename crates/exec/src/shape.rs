//! One direction of the relay. Packets are offered to an engine and taken when the engine releases them.

use tidegate_capture::{dissect, rewrite};
use tidegate_config::shaper::{self, Config};
use tidegate_config::{Diagnostics, Source};
use tidegate_core::{DropReason, Instant};
use tidegate_engine::driver::{Arrival, Driver, Params};
use tidegate_engine::{BuildFailure, Change, Engine, Names, PacketMeta, Setup, Shape, Sink};
use tidegate_live::timing;
use tidegate_units::Span;

use crate::Traffic;

/// Lateness up to this span is compensated. The relay may have to run without real-time priority.
const CATCH_UP: Span = Span::from_millis(20);

/// The configuration of a direction without a shaper: a FIFO without a rate, which releases every packet at once.
const UNSHAPED: &str = "version = 1\n[discipline]\nkind = \"fifo\"\nlimit = \"1GB\"\n";

/// Creates the driver of a direction, which shapes according to `config`, or not at all without one.
pub(crate) fn driver(config: Option<&Config>) -> Result<Driver<u32>, BuildFailure> {
    let mut secret = [0; 16];
    // Early at boot there may be no entropy yet. The secret is predictable then, but nothing fails.
    let _ = rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::NONBLOCK);
    let secret = u128::from_ne_bytes(secret);
    let secret = [secret as u64, (secret >> 64) as u64];
    let setup = Setup { seed: secret[0], secret, catch_up: CATCH_UP, most_queued: None, names: Names::default() };
    let unshaped = || {
        let loaded = shaper::load(&Source::new("unshaped", UNSHAPED), &mut Diagnostics::new());
        loaded.ok_or_else(|| BuildFailure::Tree("the configuration of an unshaped direction is invalid".into()))
    };
    let config = config.map_or_else(unshaped, |config| Ok(config.clone()))?;
    BuildFailure::without_clock(&config)?;
    let now = timing::now();
    Ok(Driver::new(Engine::new(&config, &setup, now)?, Params::default(), now))
}

/// Stores the packets of a direction, and is the sink of its engine.
#[derive(Default)]
pub(crate) struct Packets {
    bytes: Vec<Vec<u8>>,
    ready: Vec<(u32, Change)>,
    free: Vec<u32>,
    traffic: Traffic,
}

impl Sink<u32> for Packets {
    fn transmit(&mut self, handle: u32, change: Change) {
        self.ready.push((handle, change));
    }
    fn drop_packet(&mut self, handle: u32, _reason: DropReason) {
        self.traffic.dropped += 1;
        self.free.push(handle);
    }
}

impl Packets {
    /// Offers a packet to `driver`.
    pub fn offer(&mut self, now: Instant, packet: &[u8], driver: &mut Driver<u32>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.bytes.push(Vec::new());
            (self.bytes.len() - 1) as u32
        });
        let stored = &mut self.bytes[slot as usize];
        stored.clear();
        stored.extend_from_slice(packet);
        let headers = dissect::network(packet, packet.len()).unwrap_or_default();
        let meta = PacketMeta {
            fields: headers.fields,
            ecn: headers.ecn,
            length: packet.len() as u32,
            network_header: headers.network_header.into(),
            headers: headers.headers(),
            pure_ack: headers.is_pure_ack(),
            shape: Shape::Single,
        };
        // The driver only ever asks for the segmentation of superpackets, and this is a single packet.
        let _ = driver.offer(now, Arrival::new(slot, &meta), self);
    }

    /// Passes the packets that were released to `take`, in the order of their release.
    pub fn take(&mut self, mut take: impl FnMut(&[u8])) {
        for (slot, change) in self.ready.drain(..) {
            let packet = &mut self.bytes[slot as usize];
            if let Some(dscp) = change.dscp {
                rewrite::set_dscp(packet, dscp);
            }
            if change.congestion {
                rewrite::mark_ce(packet);
            }
            self.traffic.packets += 1;
            self.traffic.bytes += packet.len() as u64;
            take(packet);
            self.free.push(slot);
        }
    }

    /// Whether no packet is queued.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.free.len() == self.bytes.len()
    }
    /// Whether packets were released and not yet taken.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The counters so far. `driver` is `Some` if the direction is shaped.
    pub fn traffic(&self, driver: Option<&Driver<u32>>) -> Traffic {
        Traffic { classes: driver.map(|driver| driver.engine().status()).unwrap_or_default(), ..self.traffic.clone() }
    }
}

/// A direction together with its driver, for packets that are offered from several places.
pub(crate) struct Direction {
    driver: Driver<u32>,
    packets: Packets,
}

impl Direction {
    /// Creates a direction that `driver` shapes.
    pub fn new(driver: Driver<u32>) -> Self {
        Self { driver, packets: Packets::default() }
    }
    pub fn offer(&mut self, now: Instant, packet: &[u8]) {
        self.packets.offer(now, packet, &mut self.driver);
    }
    /// Passes the packets that are due at `now` to `take`, one after the other.
    pub fn depart(&mut self, now: Instant, take: impl FnMut(&[u8])) {
        self.driver.depart_due(now, &mut self.packets);
        self.packets.take(take);
    }
    /// When the next packet is due.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        if self.packets.is_ready() { Some(now) } else { self.driver.next_departure(now) }
    }
    /// The counters so far, with those of the classes if the direction is shaped.
    pub fn traffic(&self, shaped: bool) -> Traffic {
        self.packets.traffic(shaped.then_some(&self.driver))
    }
}

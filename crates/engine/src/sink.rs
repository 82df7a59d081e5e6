//! What a data path offers, and what it receives: [`PacketMeta`], [`Sink`] and [`Admission`].

use tidegate_core::classify::Fields;
use tidegate_core::{DropReason, Dscp, Ecn, Event, FlowKey, Instant};

use crate::notification::Notification;
use crate::packet::QueuedPacket;

/// The metadata of a packet, from the data path and the parser.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketMeta {
    /// The fields for rules and flow keys.
    pub fields: Fields,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Bytes from the network header on, all segments of a superpacket together.
    pub length: u32,
    /// Bytes of the network header, with options and extension headers; 0 when it could not be read.
    pub network_header: u32,
    /// Bytes of the network and transport headers.
    pub headers: u32,
    /// Whether it is an acknowledgement without data.
    pub pure_ack: bool,
    /// Whether it is a superpacket, which the data path could have cut.
    pub shape: Shape,
}

/// Whether a packet is one packet of the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Shape {
    /// It leaves unchanged.
    #[default]
    Single,
    /// It will be cut into segments on its way out.
    Super,
}

/// The changes to a packet that passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// The code point to write, if another than it has.
    pub dscp: Option<Dscp>,
    /// Whether to mark congestion experienced.
    pub congestion: bool,
}

/// Where the engine sends packets: the data path's half of [`Engine`](crate::Engine).
pub trait Sink<H> {
    /// Sends the packet, with `change` made to it.
    fn transmit(&mut self, handle: H, change: Change);
    /// Drops the packet.
    fn drop_packet(&mut self, handle: H, reason: DropReason);
    /// The calls that follow are made at `now`. A [`Driver`](crate::Driver) calls it first.
    fn set_time(&mut self, _now: Instant) {}
    /// An event of a discipline.
    fn event(&mut self, _event: Event) {}
    /// Whether notifications are requested; otherwise none is made.
    fn wants_notifications(&self) -> bool {
        false
    }
    /// Receives a notification.
    fn notify(&mut self, _notification: &Notification<'_>) {}
    /// A packet is about to be sent or dropped; `fields` are those that classified it. For measurements.
    fn observe(&mut self, _handle: H, _packet: &QueuedPacket, _fields: &Fields, _disposition: Disposition) {}
}

/// The fate of a packet in the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disposition {
    /// It is sent, with this change.
    Sent(Change),
    /// It is dropped.
    Dropped(DropReason),
}

/// The result of [`Engine::enqueue`](crate::Engine::enqueue).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission<H> {
    /// The engine has taken it: it waits, or has been sent or dropped already.
    Consumed,
    /// The superpacket is too long for the rate of its flow: cut it, and hand the segments in instead.
    TooLong {
        /// The data path's handle of the superpacket.
        handle: H,
        /// Its flow, all of whose packets must follow it.
        flow: FlowKey,
    },
}

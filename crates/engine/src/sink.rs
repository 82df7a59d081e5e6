//! The interface of the engine to a data path: [`PacketMeta`], [`Sink`] and [`Admission`].

use tidegate_core::classify::Fields;
use tidegate_core::{DropReason, Dscp, Ecn, Event, FlowKey, Instant};

use crate::notification::Notification;
use crate::packet::QueuedPacket;

/// The metadata of a packet, as the data path and the dissector know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketMeta {
    /// The fields for rules and flow keys.
    pub fields: Fields,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Bytes from the network header on; for a superpacket those of all segments.
    pub length: u32,
    /// Bytes of the network header, with options and extension headers; 0 if it could not be read.
    pub network_header: u32,
    /// Bytes of the network and transport headers.
    pub headers: u32,
    /// Whether it is an acknowledgement without data.
    pub pure_ack: bool,
    /// Whether it is a superpacket, which the data path could segment.
    pub shape: Shape,
}

/// Whether a packet is one packet on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Shape {
    /// One packet.
    #[default]
    Single,
    /// A superpacket, which will be segmented on its way out.
    Super,
}

/// The changes to make to a packet that is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// The code point to write, if it differs from the present one.
    pub dscp: Option<Dscp>,
    /// Whether to mark congestion experienced.
    pub congestion: bool,
}

/// The data path, as the engine sees it: it sends and drops packets.
pub trait Sink<H> {
    /// Sends the packet, with `change` made to it.
    fn transmit(&mut self, handle: H, change: Change);
    /// Drops the packet.
    fn drop_packet(&mut self, handle: H, reason: DropReason);
    /// Announces that the following calls are made at `now`. A [`Driver`](crate::Driver) calls it first.
    fn set_time(&mut self, _now: Instant) {}
    /// An event of a discipline.
    fn event(&mut self, _event: Event) {}
    /// Whether to call [`notify`](Self::notify).
    fn wants_notifications(&self) -> bool {
        false
    }
    /// Receives a notification.
    fn notify(&mut self, _notification: &Notification<'_>) {}
    /// Called before a packet is sent or dropped, for measurements; `fields` are those that classified it.
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
    /// The engine has taken the packet: it is queued, or has already been sent or dropped.
    Consumed,
    /// The superpacket is too long for the rate of its flow: segment it, and enqueue the segments instead.
    TooLong {
        /// The data path's handle of the superpacket.
        handle: H,
        /// Its flow. Later packets of the flow must follow the segments.
        flow: FlowKey,
    },
}

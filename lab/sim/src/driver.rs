//! The driver of a network card, between a discipline and the line.
//!
//! *Source*: Risso and Gevros, "Operational and performance issues of a CBQ router", section 4: the ATM driver of BSD
//! with ALTQ.
//! *Law*: the discipline is asked only when something calls the driver: a transmission ended, a timer tick came at or
//! after the discipline's deadline, and, if so configured, a packet was enqueued or a receive interrupt came. A packet
//! enters the software buffer when no more than `software` bytes wait there, the hardware when it fits.
//! *Units*: bytes; the timer in ticks per second.
//! *Cost*: one event for each transmission, one more for each tick that is waited for.

use std::collections::VecDeque;

use tidegate_core::{Bytes, Span};

use crate::packet::SimPacket;

/// The number of packets that one call of the driver moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// Until the discipline has nothing to release or the software buffer is full (the original ALTQ driver).
    DrainAll,
    /// One packet (the modified driver).
    OnePerCall,
}

/// A driver's parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Driver {
    /// A packet enters the software buffer when at most this many bytes wait there.
    pub software: Bytes,
    /// Capacity of the hardware buffer in packets, the one being transmitted included.
    pub hardware: Bytes,
    /// How many packets one call moves to the hardware.
    pub service: Service,
    /// Whether a receive interrupt calls the driver before the packet that arrived is enqueued.
    pub on_receive: bool,
    /// Whether the driver is called when a packet was enqueued. Without it, only the end of a transmission and the timer
    /// call it.
    pub on_enqueue: bool,
    /// The time between the receive interrupt and the enqueueing: the router's own work.
    pub forwarding: Span,
    /// Ticks per second of the kernel timer that wakes the discipline at its deadlines; `None` wakes it exactly.
    pub timer_hz: Option<u32>,
}

impl Driver {
    /// ALTQ's driver as it was: 20 + 32 KB, drains all, also on receive interrupts, 100 Hz.
    pub const ORIGINAL: Self = Self {
        software: Bytes::new(20 * 1024),
        hardware: Bytes::new(32 * 1024),
        service: Service::DrainAll,
        on_receive: true,
        on_enqueue: true,
        forwarding: Span::from_micros(50),
        timer_hz: Some(100),
    };
    /// The paper's modified driver: 20 + 32 KB, one packet a call, not called on receive interrupts, 100 Hz.
    pub const MODIFIED: Self = Self { service: Service::OnePerCall, on_receive: false, ..Self::ORIGINAL };
    /// The modified driver with small buffers, 2 + 16 KB.
    pub const SMALL: Self = Self { software: Bytes::new(2 * 1024), hardware: Bytes::new(16 * 1024), ..Self::MODIFIED };
}

/// The packets in the buffers of a driver.
pub(crate) struct DriverState {
    pub params: Driver,
    pub software: VecDeque<SimPacket>,
    pub software_bytes: u64,
    pub hardware: VecDeque<SimPacket>,
    pub hardware_bytes: u64,
    /// Whether the head of the hardware buffer is on the line.
    pub sending: bool,
    /// Packets between the receive interrupt and the discipline.
    pub forwarding: VecDeque<(u64, SimPacket)>,
    /// The pending timer event.
    pub poll_at: u64,
}

impl DriverState {
    pub fn new(params: Driver) -> Self {
        Self {
            params,
            software: VecDeque::new(),
            software_bytes: 0,
            hardware: VecDeque::new(),
            hardware_bytes: 0,
            sending: false,
            forwarding: VecDeque::new(),
            poll_at: u64::MAX,
        }
    }

    /// Whether the software buffer takes a packet.
    pub fn has_room(&self) -> bool {
        self.software_bytes <= self.params.software.as_u64()
    }

    /// Moves what fits from the software to the hardware buffer.
    pub fn fill_hardware(&mut self, mut moved: impl FnMut(&SimPacket)) {
        while let Some(packet) = self.software.front() {
            let size = u64::from(packet.size);
            // An oversized packet goes when the hardware is empty, or it would never go.
            if self.hardware_bytes + size > self.params.hardware.as_u64() && !self.hardware.is_empty() {
                break;
            }
            moved(packet);
            self.hardware_bytes += size;
            self.software_bytes -= size;
            self.hardware.push_back(*packet);
            self.software.pop_front();
        }
    }
}

//! The driver of a network card, between a discipline and the line.
//!
//! *Source*: Risso and Gevros, "Operational and performance issues of a CBQ router", section 4: the ATM driver of BSD
//! with ALTQ.
//! *Law*: the discipline is asked for a packet only when something calls the driver: the end of a transmission, a timer
//! tick at or after the discipline's deadline and, if configured so, an enqueue or a receive interrupt. A packet enters
//! the software buffer if at most `software` bytes are in it, and the hardware buffer if it fits.
//! *Units*: bytes; the timer in ticks per second.
//! *Cost*: one event for each transmission, and one for each timer tick that is waited for.

use std::collections::VecDeque;

use tidegate_core::{Bytes, Span};

use crate::packet::SimPacket;

/// How many packets one call of the driver moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// Packets until the discipline has none to release or the software buffer is full (the original ALTQ driver).
    DrainAll,
    /// One packet (the modified driver).
    OnePerCall,
}

/// A driver's parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Driver {
    /// A packet enters the software buffer when at most this many bytes wait there.
    pub software: Bytes,
    /// Capacity of the hardware buffer in bytes, including the packet that is being transmitted.
    pub hardware: Bytes,
    /// How many packets one call moves to the hardware.
    pub service: Service,
    /// Whether a receive interrupt calls the driver before the packet that arrived is enqueued.
    pub on_receive: bool,
    /// Whether the driver is called after a packet was enqueued. Otherwise only the end of a transmission and the timer
    /// call it.
    pub on_enqueue: bool,
    /// The time that the router needs between the receive interrupt and the enqueue.
    pub forwarding: Span,
    /// Ticks per second of the kernel timer that wakes the discipline at its deadlines; `None` wakes it exactly.
    pub timer_hz: Option<u32>,
}

impl Driver {
    /// The original driver of ALTQ: 20 + 32 KB, drains the discipline, also on receive interrupts, 100 Hz timer.
    pub const ORIGINAL: Self = Self {
        software: Bytes::new(20 * 1024),
        hardware: Bytes::new(32 * 1024),
        service: Service::DrainAll,
        on_receive: true,
        on_enqueue: true,
        forwarding: Span::from_micros(50),
        timer_hz: Some(100),
    };
    /// The modified driver of the paper: 20 + 32 KB, one packet for each call, no calls on receive interrupts, 100 Hz
    /// timer.
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
    /// Whether the head of the hardware buffer is being transmitted.
    pub sending: bool,
    /// Packets between the receive interrupt and the discipline.
    pub forwarding: VecDeque<(u64, SimPacket)>,
    /// When the pending timer event is due.
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

    /// Whether the software buffer accepts a packet.
    pub fn has_room(&self) -> bool {
        self.software_bytes <= self.params.software.as_u64()
    }

    /// Moves packets from the software to the hardware buffer while they fit.
    pub fn fill_hardware(&mut self, mut moved: impl FnMut(&SimPacket)) {
        while let Some(packet) = self.software.front() {
            let size = u64::from(packet.size);
            // An oversized packet moves when the hardware buffer is empty; otherwise it would never move.
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

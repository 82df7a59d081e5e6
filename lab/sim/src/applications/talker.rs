//! Senders of packet patterns.

use tidegate_core::random::Stream;
use tidegate_core::{Bytes, Rate};

use crate::workload::{Arrivals, Call, Phase, Workload};

/// One direction of an application that sends a packet pattern.
#[derive(Debug)]
pub(crate) struct Talker {
    random: Stream,
    /// When it acts next, in nanoseconds.
    pub next: u64,
    /// When the current phase or spurt ends.
    until: u64,
    /// The number of phases begun, and the rate of the current one.
    phase: usize,
    rate: Rate,
    /// The number of packets sent so far.
    pub number: u32,
    /// The number of the first packet after the warm-up.
    pub first: Option<u32>,
}

impl Talker {
    pub fn new(random: Stream, now: u64) -> Self {
        Self { random, next: now, until: now, phase: 0, rate: Rate::ZERO, number: 0, first: None }
    }

    /// Acts at `now` and returns the size of the packet to send, if there is one. Sets [`next`](Self::next).
    pub fn act(&mut self, now: u64, workload: &Workload, side: usize) -> Option<u32> {
        match workload {
            Workload::Packets { directions } => self.arrival(now, directions[side].as_ref()?),
            Workload::Phases { packet, phases } => self.in_phases(now, packet.as_u64() as u32, phases),
            Workload::Call(call) => self.speak(now, call),
            _ => None,
        }
    }

    fn arrival(&mut self, now: u64, pattern: &Arrivals) -> Option<u32> {
        let size = pattern.size.sample_bytes(&mut self.random).as_u64().min(65_535) as u32;
        // At least a nanosecond: gaps of zero must not stop the clock.
        self.next = now.saturating_add(pattern.gap.sample_span(&mut self.random).as_nanos().max(1));
        Some(size)
    }

    fn in_phases(&mut self, now: u64, size: u32, phases: &[Phase]) -> Option<u32> {
        if now >= self.until {
            let phase = &phases[self.phase % phases.len()];
            self.phase += 1;
            self.rate = phase.rate;
            self.until = now.saturating_add(phase.lasts.sample_span(&mut self.random).as_nanos().max(1));
        }
        let gap = self.rate.time_for_ceil(Bytes::new(size.into())).filter(|_| !self.rate.is_zero());
        self.next = gap.map_or(self.until, |gap| now.saturating_add(gap.as_nanos().max(1)).min(self.until));
        (!self.rate.is_zero()).then_some(size)
    }

    fn speak(&mut self, now: u64, call: &Call) -> Option<u32> {
        let interval = call.codec.interval.as_nanos();
        let Some((talk, silence)) = &call.spurts else {
            self.next = now.saturating_add(interval);
            return Some(call.codec.packet);
        };
        if now >= self.until {
            self.until = now.saturating_add(talk.sample_span(&mut self.random).as_nanos().max(1));
        }
        let next = now.saturating_add(interval);
        self.next = if next < self.until {
            next
        } else {
            let pause = silence.sample_span(&mut self.random).as_nanos();
            self.until = next.saturating_add(pause);
            self.until
        };
        Some(call.codec.packet)
    }
}

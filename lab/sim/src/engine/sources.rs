//! Sources: when flows send, and how much.

use tidegate_core::{Bytes, Instant, Span};

use super::{EventKind, Role, Simulation, Source, target};
use crate::applications::Application;
use crate::distribution::Distribution;
use crate::link::NEVER;
use crate::packet::{Proto, UDP_HEADER};
use crate::tcp::Segment;
use crate::workload::{Direction, Transport, Workload};

impl Simulation {
    pub(super) fn on_stop(&mut self, flow: u32) {
        self.sources[flow as usize].stopped = true;
        self.finish_connections(flow);
        // Packets of a call that are in flight still arrive, so its application stays.
        if let Some(Application::Browse(_) | Application::Play(_)) = self.sources[flow as usize].application.as_deref()
        {
            self.retire(flow);
        }
    }

    pub(super) fn on_source(&mut self, flow: u32) {
        let index = flow as usize;
        if self.sources[index].stopped || self.sources[index].due != self.now {
            return;
        }
        self.sources[index].due = NEVER;
        let spec = &self.flows[index];
        let source = &mut self.sources[index];
        let random = &mut source.random;
        let mut wait = None;
        match &*spec.workload {
            Workload::Bulk { bytes } => {
                let size = bytes.map(|bytes| bytes.as_u64());
                self.open_own(flow, Role::Upload { size });
            }
            Workload::Transfer { size } => {
                let size = Some(size.sample_bytes(random).as_u64());
                self.open_own(flow, Role::Upload { size });
            }
            Workload::Constant { rate, packet } => {
                wait = rate.time_for_ceil(*packet);
                let size = packet.as_u64() as u32;
                self.emit(flow, size);
            }
            Workload::Poisson { rate, packet } => {
                let mean = rate.time_for_ceil(*packet).unwrap_or(Span::MAX).as_secs_f64();
                wait = Some(Distribution::Exponential { mean }.sample_span(random));
                let size = packet.as_u64() as u32;
                self.emit(flow, size);
            }
            Workload::OnOff { rate, packet, on, off } => {
                let gap = rate.time_for_ceil(*packet).unwrap_or(Span::MAX).as_nanos();
                let (sends, next) = source.on_off(self.now, gap, on, off);
                wait = Some(next);
                if sends {
                    let size = packet.as_u64() as u32;
                    self.emit(flow, size);
                }
            }
            Workload::Mice { interval, size, direction, most_open } => {
                wait = Some(interval.sample_span(random));
                let size = size.sample_bytes(random).as_u64();
                let role = match direction {
                    Direction::Upload => Role::Upload { size: Some(size) },
                    Direction::Download { request } => {
                        Role::Download { request: request.as_u64().max(1), size, answered: false }
                    }
                };
                if source.open < *most_open {
                    self.open(flow, role);
                } else if self.measuring() {
                    self.metrics[index].refused += 1;
                }
            }
            Workload::Requests { request, response, .. } => {
                let request = request.sample_bytes(random).as_u64();
                let response = response.sample_bytes(random).as_u64();
                let slot = source.slot;
                let slot = self.ask(flow, slot, request, response);
                self.sources[index].slot = Some(slot);
            }
            Workload::Packets { .. }
            | Workload::Phases { .. }
            | Workload::Web(_)
            | Workload::Video(_)
            | Workload::Call(_)
            | Workload::Media(_) => self.on_application(flow),
            Workload::Trace(entries) => {
                let (size, next) = source.replay(self.now, spec.start, entries);
                wait = next;
                match (size, &spec.transport) {
                    (None, _) => {}
                    (Some(size), Transport::Tcp(_) | Transport::Other { .. }) => {
                        self.open(flow, Role::Upload { size: Some(size.max(1)) });
                    }
                    (Some(size), Transport::Udp { .. }) => self.emit(flow, size.min(65_535) as u32),
                }
            }
        }
        if let Some(wait) = wait {
            self.schedule_source(flow, wait);
        }
    }

    /// Opens the connection of a source that has one at a time.
    fn open_own(&mut self, flow: u32, role: Role) -> u32 {
        let slot = self.open(flow, role);
        self.sources[flow as usize].slot = Some(slot);
        slot
    }

    /// Schedules the next event of a source after `wait`.
    pub(super) fn schedule_source(&mut self, flow: u32, wait: Span) {
        let due = self.now.saturating_add(wait.as_nanos());
        self.sources[flow as usize].due = due;
        self.events.push(due, target(EventKind::Source, flow));
    }

    /// Sends a packet of `size` bytes on the link: as a datagram, or as the same amount of data on the connection.
    pub(super) fn emit(&mut self, flow: u32, size: u32) {
        let index = flow as usize;
        match self.flows[index].transport {
            Transport::Udp { .. } => {
                let number = self.sources[index].datagrams;
                self.sources[index].datagrams = number.wrapping_add(1);
                self.datagram(flow, 0, number, size);
            }
            Transport::Tcp(_) | Transport::Other { .. } => {
                let slot = self.sources[index].slot.unwrap_or_else(|| self.open_own(flow, Role::Stream));
                if let Some(connection) = &mut self.connections[slot as usize] {
                    connection.ends[0].write(u64::from(size));
                    self.pump(slot, 0);
                }
            }
        }
    }

    /// Sends a datagram of `size` bytes on the link from end `side` of a flow.
    pub(super) fn datagram(&mut self, flow: u32, side: usize, number: u32, size: u32) {
        let Transport::Udp { ecn } = self.flows[flow as usize].transport else { return };
        let segment = Segment { seq: number, len: size.saturating_sub(UDP_HEADER), ecn, ..Segment::default() };
        if self.measuring() {
            self.metrics[flow as usize].sent[side].count(size);
        }
        // The top bit distinguishes datagrams from connections.
        let number = 1 << 63 | u64::from(flow) << 1 | side as u64;
        self.send(number, flow, flow, side, segment, size, u32::MAX, Proto::Udp);
    }
}

impl Source {
    /// Advances an on/off source whose packets are `gap` ns apart. Returns whether it sends a packet now, and how long
    /// to wait before it acts again.
    fn on_off(&mut self, now: u64, gap: u64, on: &Distribution, off: &Distribution) -> (bool, Span) {
        if now >= self.burst_end {
            // A burst begins here.
            self.burst_end = now.saturating_add(on.sample_span(&mut self.random).as_nanos());
        }
        let next = now.saturating_add(gap);
        let sends = now < self.burst_end;
        if next < self.burst_end {
            return (sends, Span::from_nanos(gap));
        }
        let silence = off.sample_span(&mut self.random).as_nanos();
        self.burst_end = self.burst_end.max(if sends { next } else { now }).saturating_add(silence);
        // At least a nanosecond: two empty periods in a row must not stop the clock.
        (sends, Span::from_nanos((self.burst_end - now).max(1)))
    }

    /// Advances a source that replays `entries`, whose times count from `start`. Returns the size of the entry that is
    /// due, if one is, and how long to wait for the next.
    fn replay(&mut self, now: u64, start: Instant, entries: &[(Span, Bytes)]) -> (Option<u64>, Option<Span>) {
        let wait = |entry: usize| {
            let due = start.as_nanos().saturating_add(entries.get(entry)?.0.as_nanos());
            Some(Span::from_nanos(due.saturating_sub(now)))
        };
        match wait(self.entry) {
            // The first event is the start of the flow, not the first entry.
            Some(early) if !early.is_zero() => (None, Some(early)),
            None => (None, None),
            Some(_) => {
                let size = entries[self.entry].1.as_u64();
                self.entry += 1;
                (Some(size), wait(self.entry))
            }
        }
    }
}

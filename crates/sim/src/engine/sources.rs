//! Sources: what begins flows, and when.

use std::sync::Arc;

use tidegate_core::{Ecn, Instant, Span};

use super::{Exchange, Kind, Role, Simulation, target};
use crate::distribution::Distribution;
use crate::ids::FlowId;
use crate::link::NEVER;
use crate::packet::{Proto, UDP_HEADER};
use crate::tcp::Segment;
use crate::workload::{Direction, FlowSpec, Transport, Workload};

impl Simulation {
    pub(super) fn on_stop(&mut self, flow: u32) {
        let source = &mut self.sources[flow as usize];
        source.stopped = true;
        if let Some(slot) = source.slot
            && let Some(connection) = &mut self.connections[slot as usize]
        {
            connection.ends[0].finish();
            self.pump(slot, 0);
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
                let role = Role::Upload { size: bytes.map(|bytes| bytes.as_u64()) };
                let slot = self.open(flow, role);
                self.sources[index].slot = Some(slot);
            }
            Workload::Transfer { size } => {
                let size = Some(size.sample_bytes(random).as_u64());
                let slot = self.open(flow, Role::Upload { size });
                self.sources[index].slot = Some(slot);
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
                if self.now >= source.burst_end {
                    // A burst begins here.
                    source.burst_end = self.now.saturating_add(on.sample_span(random).as_nanos());
                }
                let gap = rate.time_for_ceil(*packet).unwrap_or(Span::MAX).as_nanos();
                let next = self.now.saturating_add(gap);
                let size = packet.as_u64() as u32;
                let sends = self.now < source.burst_end;
                if next < source.burst_end {
                    wait = Some(Span::from_nanos(gap));
                } else {
                    let silence = off.sample_span(random).as_nanos();
                    let begin = source.burst_end.max(if sends { next } else { self.now }).saturating_add(silence);
                    source.burst_end = begin;
                    // At least a nanosecond: two empty periods in a row must not stop the clock.
                    wait = Some(Span::from_nanos((begin - self.now).max(1)));
                }
                if sends {
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
                match source.slot {
                    None => {
                        let role = Role::Requests(Box::new(Exchange {
                            request,
                            asked: request,
                            served: 0,
                            response,
                            answered: response,
                            taken: 0,
                            asked_at: self.now,
                        }));
                        let slot = self.open(flow, role);
                        self.sources[index].slot = Some(slot);
                    }
                    Some(slot) => {
                        let Some(connection) = &mut self.connections[slot as usize] else { return };
                        if let Role::Requests(exchange) = &mut connection.role {
                            let Exchange { asked, response: next, answered, asked_at, .. } = &mut **exchange;
                            *asked += request;
                            *next = response;
                            *answered += response;
                            *asked_at = self.now;
                        }
                        connection.ends[0].write(request);
                        if self.now >= self.warm_up {
                            self.metrics[index].opened += 1;
                        }
                        self.pump(slot, 0);
                    }
                }
            }
            Workload::Trace(entries) => {
                let Some(&(_, size)) = entries.get(source.entry) else { return };
                // The first event is the start of the flow, not of the first entry.
                let due = spec.start.as_nanos().saturating_add(entries[source.entry].0.as_nanos());
                if due > self.now {
                    wait = Some(Span::from_nanos(due - self.now));
                } else {
                    source.entry += 1;
                    if let Some(&(next, _)) = entries.get(source.entry) {
                        let next = spec.start.as_nanos().saturating_add(next.as_nanos());
                        wait = Some(Span::from_nanos(next.saturating_sub(self.now)));
                    }
                    let size = size.as_u64();
                    match spec.transport {
                        Transport::Tcp(_) => {
                            self.open(flow, Role::Upload { size: Some(size.max(1)) });
                        }
                        Transport::Udp { .. } => self.emit(flow, size.min(65_535) as u32),
                    }
                }
            }
        }
        if let Some(wait) = wait {
            self.schedule_source(flow, wait);
        }
    }

    /// Lets a source act after `wait`.
    pub(super) fn schedule_source(&mut self, flow: u32, wait: Span) {
        let due = self.now.saturating_add(wait.as_nanos());
        self.sources[flow as usize].due = due;
        self.events.push(due, target(Kind::Source, flow));
    }

    /// Gives a flow another workload from now on: what it sends on a connection of its own ends as when the flow stops,
    /// transfers under way go on, and the new workload begins, unless the flow begins later anyway.
    ///
    /// # Errors
    /// The reason for which the flow cannot have this workload.
    pub fn set_workload(&mut self, flow: FlowId, workload: impl Into<Arc<Workload>>) -> Result<(), &'static str> {
        let index = flow.index();
        let spec = FlowSpec { workload: workload.into(), ..self.flows[index].clone() };
        spec.validate()?;
        self.flows[index] = spec;
        let source = &mut self.sources[index];
        (source.burst_end, source.entry) = (0, 0);
        let slot = source.slot.take();
        if let Some(slot) = slot
            && let Some(connection) = &mut self.connections[slot as usize]
        {
            connection.ends[0].finish();
            self.pump(slot, 0);
        }
        if self.flows[index].start.as_nanos() <= self.now {
            self.flows[index].start = Instant::from_nanos(self.now);
            self.schedule_source(flow.0, Span::ZERO);
        }
        Ok(())
    }

    /// A source makes a packet of `size` bytes on the link: a datagram, or as much data for its connection.
    pub(super) fn emit(&mut self, flow: u32, size: u32) {
        let index = flow as usize;
        match self.flows[index].transport {
            Transport::Udp { ecn } => {
                let source = &mut self.sources[index];
                let number = source.datagrams;
                source.datagrams = number.wrapping_add(1);
                let segment = Segment {
                    seq: number,
                    len: size.saturating_sub(UDP_HEADER),
                    ecn: if ecn { Ecn::Ect0 } else { Ecn::NotEct },
                    ..Segment::default()
                };
                if self.measuring() {
                    self.metrics[index].sent.count(size);
                }
                // The top bit keeps datagrams apart from connections.
                let number = 1 << 63 | u64::from(flow) << 1;
                self.send(number, flow, flow, 0, segment, size, u32::MAX, Proto::Udp);
            }
            Transport::Tcp(_) => {
                let slot = match self.sources[index].slot {
                    Some(slot) => slot,
                    None => {
                        let slot = self.open(flow, Role::Stream);
                        self.sources[index].slot = Some(slot);
                        slot
                    }
                };
                if let Some(connection) = &mut self.connections[slot as usize] {
                    connection.ends[0].write(u64::from(size));
                    self.pump(slot, 0);
                }
            }
        }
    }
}

//! Links with a driver: interrupts, buffers and the kernel timer.

use super::shapers::schedule_watch;
use super::{EventKind, Simulation, target};
use crate::driver::Service;
use crate::link::{Discipline, FlowCounters, Link, NEVER, Queue, Stage, call_tap, next_call};
use crate::packet::SimPacket;

impl Simulation {
    pub(super) fn offer_driver(&mut self, link: u32, packet: SimPacket) {
        let Queue::Driver(_, driver) = &mut self.links[link as usize].queue else { return };
        let (forwarding, on_receive) = (driver.params.forwarding.as_nanos(), driver.params.on_receive);
        if on_receive {
            self.call_driver(link);
        }
        let Queue::Driver(_, driver) = &mut self.links[link as usize].queue else { return };
        driver.forwarding.push_back((self.now + forwarding, packet));
        if driver.forwarding.len() == 1 {
            self.events.push(self.now + forwarding, target(EventKind::Forward, link));
        }
    }

    pub(super) fn on_forward(&mut self, link: u32) {
        let (now, measuring) = (self.now, self.measuring());
        let l = &mut self.links[link as usize];
        let Queue::Driver(_, driver) = &mut l.queue else { return };
        let Some((_, mut packet)) = driver.forwarding.pop_front() else { return };
        let on_enqueue = driver.params.on_enqueue;
        if let Some(&(next, _)) = driver.forwarding.front() {
            self.events.push(next, target(EventKind::Forward, link));
        }
        packet.queued = now;
        let mut counters = FlowCounters { flows: &mut self.metrics, measuring };
        l.enqueue(now, packet, &mut counters);
        if on_enqueue {
            self.call_driver(link);
        } else {
            self.schedule_poll(link);
        }
    }

    /// One call of the driver: moves packets from the discipline to the software buffer, from there to the hardware,
    /// and from there to the line.
    pub(super) fn call_driver(&mut self, link: u32) {
        let (now, measuring) = (self.now, self.measuring());
        let l = &mut self.links[link as usize];
        let mut counters = FlowCounters { flows: &mut self.metrics, measuring };
        loop {
            let Queue::Driver(_, driver) = &l.queue else { return };
            if !driver.has_room() {
                break;
            }
            let Some(packet) = l.dequeue(now, &mut counters) else { break };
            let Queue::Driver(_, driver) = &mut l.queue else { return };
            driver.software_bytes += u64::from(packet.size);
            driver.software.push_back(packet);
            if driver.params.service == Service::OnePerCall {
                break;
            }
        }
        self.pump_hardware(link);
        if self.tracer.is_some() {
            self.trace_queue(link);
        }
        self.schedule_poll(link);
    }

    pub(super) fn pump_hardware(&mut self, link: u32) {
        let (now, measuring) = (self.now, self.measuring());
        let l = &mut self.links[link as usize];
        let Link { queue: Queue::Driver(_, driver), hooks, .. } = l else { return };
        driver.fill_hardware(|packet| call_tap(hooks, now, Stage::Hardware, packet));
        if driver.sending {
            return;
        }
        let Some(&(mut packet)) = driver.hardware.front() else { return };
        driver.sending = true;
        let mut counters = FlowCounters { flows: &mut self.metrics, measuring };
        l.wait_for_line(now);
        let start = if l.conditions.is_some() { l.free_at.max(now) } else { now };
        let arrival = l.transmit(start, &mut packet, &mut counters);
        self.events.push(l.free_at, target(EventKind::Transmit, link));
        if let Some(arrival) = arrival {
            if l.queue.shaper().is_some() {
                packet.class = self.flows[packet.group as usize].class;
            }
            let index = self.packets.insert(&packet);
            self.launch(link, arrival, index);
        }
    }

    /// Handles the interrupt after the hardware has sent a packet.
    pub(super) fn on_sent(&mut self, link: u32) {
        let Queue::Driver(_, driver) = &mut self.links[link as usize].queue else { return };
        driver.sending = false;
        if let Some(packet) = driver.hardware.pop_front() {
            driver.hardware_bytes -= u64::from(packet.size);
        }
        self.pump_hardware(link);
        self.call_driver(link);
    }

    /// Arms the kernel timer, which calls the driver when the deadline of the discipline has passed.
    pub(super) fn schedule_poll(&mut self, link: u32) {
        let now = self.now;
        let l = &mut self.links[link as usize];
        let Queue::Driver(qdisc, driver) = &mut l.queue else { return };
        if let Discipline::Shaper(shaper) = qdisc {
            schedule_watch(&mut self.events, now, link, shaper);
        }
        if !driver.has_room() || qdisc.get().backlog().is_empty() {
            return;
        }
        // A packet that may leave now leaves with the next interrupt, which is certain because the hardware is sending.
        let interrupt = driver.sending;
        let Some(call) = next_call(qdisc.get(), now) else { return };
        if call <= now && interrupt {
            return;
        }
        let at = l.noticed(call.max(now));
        let Queue::Driver(_, driver) = &mut l.queue else { return };
        if at < driver.poll_at || driver.poll_at < now {
            driver.poll_at = at;
            self.events.push(at, target(EventKind::Poll, link));
        }
    }

    pub(super) fn on_poll(&mut self, link: u32) {
        let Queue::Driver(_, driver) = &mut self.links[link as usize].queue else { return };
        if driver.poll_at == self.now {
            driver.poll_at = NEVER;
            self.call_driver(link);
        }
    }
}

//! Applications on hosts: browsers, video players, and senders of packet patterns.

use std::sync::Arc;

use tidegate_core::Span;
use tidegate_core::random::Stream;

use super::{Exchange, Role, Simulation};
use crate::applications::{Application, Browser, Experience, Listener, Live, Player, Step, Talker};
use crate::ids::FlowId;
use crate::packet::SimPacket;
use crate::workload::{FlowSpec, Media, Transport, Workload};

/// How long an application waits before it tries again after a failed connection.
const AGAIN: Span = Span::from_secs(1);

impl Simulation {
    /// Creates the application of a flow whose workload needs one. It begins now.
    fn application(&mut self, index: usize) -> Option<Application> {
        let (now, warm_up) = (self.now, self.warm_up);
        let workload = &*self.flows[index].workload;
        let random = &mut self.sources[index].random;
        let mut talker = || Talker::new(Stream::named(random.next_u64(), "talker"), now);
        Some(match workload {
            Workload::Packets { directions } => {
                let talkers = [0, 1].map(|side| directions[side].is_some().then(&mut talker));
                Application::Talk { talkers, listeners: None }
            }
            Workload::Phases { .. } => Application::Talk { talkers: [Some(talker()), None], listeners: None },
            Workload::Call(call) => {
                let talkers = [Some(talker()), call.both_ways.then(talker)];
                let listeners = Box::new([0, 1].map(|_| Listener::new(call.codec, call.buffer, warm_up)));
                Application::Talk { talkers, listeners: Some(listeners) }
            }
            Workload::Web(_) => Application::Browse(Browser::new(warm_up)),
            Workload::Video(video) => Application::Play(Player::new(video, now, warm_up)),
            Workload::Media(media) => {
                let Transport::Udp { ecn } = self.flows[index].transport else { return None };
                let random = Stream::named(random.next_u64(), "encoder");
                Application::Live(Box::new(Live::new(media, ecn, random, now, warm_up)))
            }
            _ => return None,
        })
    }

    /// Starts the application of `flow`, or handles its timer.
    pub(super) fn on_application(&mut self, flow: u32) {
        let index = flow as usize;
        if self.sources[index].application.is_none() {
            self.sources[index].application = self.application(index).map(Box::new);
        }
        let Some(mut application) = self.sources[index].application.take() else { return };
        let workload = Arc::clone(&self.flows[index].workload);
        match (&mut *application, &*workload) {
            (Application::Talk { talkers, .. }, _) => self.talk(flow, talkers, &workload),
            (Application::Browse(browser), Workload::Web(web)) => {
                browser.act(self.now, web, &mut self.sources[index].random);
                self.browse(flow, browser);
            }
            (Application::Play(player), Workload::Video(video)) => {
                let response = player.request(self.now);
                let slot = self.sources[index].slot;
                let slot = self.ask(flow, slot, video.request.as_u64(), response);
                self.sources[index].slot = Some(slot);
            }
            (Application::Live(live), Workload::Media(media)) => self.stream(flow, live, media),
            _ => {}
        }
        self.sources[index].application = Some(application);
    }

    /// Sends what both ends of a live video have to send.
    fn stream(&mut self, flow: u32, live: &mut Live, media: &Media) {
        while let Some(datagram) = live.act(self.now, media) {
            self.datagram(flow, datagram.side, datagram.number, datagram.size);
        }
        let wait = live.deadline().saturating_sub(self.now);
        self.schedule_source(flow, Span::from_nanos(wait));
    }

    fn talk(&mut self, flow: u32, talkers: &mut [Option<Talker>; 2], workload: &Workload) {
        let now = self.now;
        for side in [0, 1] {
            let Some(talker) = &mut talkers[side] else { continue };
            if talker.next > now {
                continue;
            }
            if let Some(size) = talker.act(now, workload, side) {
                if self.measuring() {
                    talker.first.get_or_insert(talker.number);
                }
                let number = talker.number;
                talker.number = number.wrapping_add(1);
                match self.flows[flow as usize].transport {
                    Transport::Udp { .. } => self.datagram(flow, side, number, size),
                    Transport::Tcp(_) | Transport::Other { .. } => self.emit(flow, size),
                }
            }
        }
        if let Some(next) = talkers.iter().flatten().map(|talker| talker.next).min() {
            self.schedule_source(flow, Span::from_nanos(next - now));
        }
    }

    /// Sends all requests that a browser may send now.
    fn browse(&mut self, flow: u32, browser: &mut Browser) {
        let workload = Arc::clone(&self.flows[flow as usize].workload);
        let Workload::Web(web) = &*workload else { return };
        while let Some((size, slot)) = browser.next(web.connections as usize) {
            let slot = self.ask(flow, slot, web.request.as_u64(), size);
            browser.asked(slot);
        }
    }

    /// Sends a request on the connection in `slot`, or on a new one without a slot. Returns the slot.
    pub(super) fn ask(&mut self, flow: u32, slot: Option<u32>, request: u64, response: u64) -> u32 {
        let request = request.max(1);
        let Some(slot) = slot else {
            let role = Role::Requests(Box::new(Exchange {
                request,
                asked: request,
                served: 0,
                response,
                answered: response,
                taken: 0,
                asked_at: self.now,
            }));
            return self.open(flow, role);
        };
        let Some(connection) = &mut self.connections[slot as usize] else { return slot };
        if let Role::Requests(exchange) = &mut connection.role {
            let Exchange { asked, response: next, answered, asked_at, .. } = &mut **exchange;
            *asked += request;
            *next = response;
            *answered += response;
            *asked_at = self.now;
        }
        connection.ends[0].write(request);
        if self.measuring() {
            self.metrics[flow as usize].opened += 1;
        }
        self.pump(slot, 0);
        slot
    }

    /// Lets the client act on a complete answer on the connection in `slot`.
    pub(super) fn answered(&mut self, flow: u32, slot: u32) {
        let index = flow as usize;
        if self.sources[index].stopped {
            return;
        }
        let Some(mut application) = self.sources[index].application.take() else {
            // An answer to a request of an earlier workload is ignored.
            if self.sources[index].slot == Some(slot) {
                self.think(flow);
            }
            return;
        };
        match &mut *application {
            Application::Browse(browser) => match browser.answered(slot, self.now) {
                Step::Ask => self.browse(flow, browser),
                Step::After(time) => self.schedule_source(flow, time),
                Step::Wait => {}
            },
            Application::Play(player) if self.sources[index].slot == Some(slot) => {
                let wait = player.take(self.now);
                self.schedule_source(flow, Span::from_nanos(wait));
            }
            Application::Play(_) | Application::Talk { .. } | Application::Live(_) => {}
        }
        self.sources[index].application = Some(application);
    }

    /// Handles the end of the connection in `slot`; `failed` if it was aborted. A client that still waits for an answer
    /// asks again.
    pub(super) fn ended(&mut self, flow: u32, slot: u32, failed: bool) {
        let source = &mut self.sources[flow as usize];
        let own = source.slot == Some(slot);
        if own {
            source.slot = None;
        }
        let lost = match source.application.as_deref_mut() {
            Some(Application::Browse(browser)) => browser.lost(slot),
            Some(Application::Play(_)) => own,
            Some(Application::Talk { .. } | Application::Live(_)) => false,
            None => own && matches!(&*self.flows[flow as usize].workload, Workload::Requests { .. }),
        };
        if lost && failed && !self.sources[flow as usize].stopped {
            self.schedule_source(flow, AGAIN);
        }
    }

    /// Closes the connections that a source keeps open, after the data that was already sent.
    pub(super) fn finish_connections(&mut self, flow: u32) {
        let source = &self.sources[flow as usize];
        let mut slots: Vec<u32> = source.slot.into_iter().collect();
        if let Some(Application::Browse(browser)) = source.application.as_deref() {
            slots.extend(browser.slots());
        }
        for slot in slots {
            if let Some(connection) = &mut self.connections[slot as usize] {
                connection.ends[0].finish();
                self.pump(slot, 0);
            }
        }
    }

    /// Handles a datagram that arrives at end `side` of its flow.
    pub(super) fn receive_datagram(&mut self, packet: &SimPacket, side: usize) {
        let source = &mut self.sources[packet.group as usize];
        match source.application.as_deref_mut() {
            Some(Application::Talk { listeners: Some(listeners), .. }) => listeners[side].receive(self.now, packet),
            Some(Application::Live(live)) => {
                live.receive(self.now, packet, side);
                if !source.stopped {
                    self.on_application(packet.group);
                }
            }
            _ => {}
        }
    }

    /// Ends the application of a flow and keeps the experience of its user.
    pub(super) fn retire(&mut self, flow: u32) {
        if let Some(application) = self.sources[flow as usize].application.take() {
            self.past.entry(flow).or_default().extend(application.experience(self.now));
        }
    }

    /// The experience so far of the users of a flow's applications. There is more than one only if the workload was
    /// changed.
    pub fn experiences(&self, flow: FlowId) -> Vec<Experience> {
        let past = self.past.get(&flow.0).into_iter().flatten().cloned();
        let now = self.sources[flow.index()].application.as_ref();
        past.chain(now.and_then(|application| application.experience(self.now))).collect()
    }

    /// Replaces the workload of a flow. The data that it sends on its own connection ends as if the flow stopped, and
    /// transfers in progress continue. The new workload begins now, or when the flow starts if that is later.
    ///
    /// # Errors
    /// The reason why the flow cannot have this workload.
    pub fn set_workload(&mut self, flow: FlowId, workload: impl Into<Arc<Workload>>) -> Result<(), &'static str> {
        let index = flow.index();
        let spec = FlowSpec { workload: workload.into(), ..self.flows[index].clone() };
        spec.validate()?;
        if !spec.replaces(&self.flows[index]) {
            return Err("datagrams in both directions must begin with the flow");
        }
        self.finish_connections(flow.0);
        self.retire(flow.0);
        self.flows[index] = spec;
        let source = &mut self.sources[index];
        (source.burst_end, source.entry, source.slot) = (0, 0, None);
        if self.flows[index].start.as_nanos() <= self.now {
            self.flows[index].start = tidegate_core::Instant::from_nanos(self.now);
            self.schedule_source(flow.0, Span::ZERO);
        }
        Ok(())
    }
}

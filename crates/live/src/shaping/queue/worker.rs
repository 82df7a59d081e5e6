//! The worker thread between the kernel's queue and the engine: [`QueuePath`], a data path over NFQUEUE. It is tested over a model
//! of the kernel, too, in virtual time (`referee`).
//!
//! The loop is that of [`tidegate_engine::driver`]. A turn waits for packets, a deadline or a command, reads the clock
//! once per batch, and sends all verdicts in one call. Everything else happens on other threads.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use tidegate_capture::dissect::{self, Dissection};
use tidegate_config::shaper::Config;
use tidegate_core::Qdisc as _;
use tidegate_engine::driver::{self, Arrival, DataPath, Driver, Failure, Offered, Params, Segmentation, Wait};
use tidegate_engine::guard::lock;
use tidegate_engine::{PacketMeta, Shape, guarded};
use tidegate_units::{Instant, Span};

use super::kernel::{Kernel, Nfqueue};
use super::{advice, held, shape};
use crate::guardian::{LONGEST_WAIT, Reason, Turn};
use crate::marks::MarkLayout;
use crate::netlink::Error;
use crate::nfqueue::{self, Packet, Ring};
use crate::probe::{self, Version};
use crate::shaping::command::{Command, Handle, LiveEngine, ProbeWatch, VerdictSink, WorkerCounts};
use crate::shaping::interfaces::InterfaceCounters;
use crate::shaping::watchdog::{MonotonicClock, WorkerState};
use crate::timing::{self, Priority, Readiness};

/// A worker before it runs.
pub(super) struct Worker {
    pub engine: LiveEngine,
    pub kernel: Nfqueue,
    pub parts: PathParts,
}

/// The parts of a [`QueuePath`].
pub(super) struct PathParts {
    pub copy_range: u32,
    /// The queue whose superpackets arrive whole, and the one where the kernel segments them.
    pub whole: u16,
    pub cut: u16,
    pub marks: MarkLayout,
    /// The control groups that the tags of the rules before the queue stand for, by tag.
    pub groups: Vec<u64>,
    pub commands: Receiver<Command>,
    /// The least time between two departures in groups, so that a fast link does not cost a wake-up a packet.
    pub quantum: Span,
    /// The longest time for which the busy thread rests between two turns.
    pub rest: Span,
    pub priority: Priority,
    /// The lateness that is made up for without real-time scheduling.
    pub patient: Span,
    #[cfg(debug_assertions)]
    pub inject: Option<crate::shaping::Injection>,
    /// The state shared with the watchdog.
    pub state: Arc<WorkerState>,
    /// The counters of the interfaces.
    pub counters: Arc<InterfaceCounters>,
    /// The file with the list of packets that an earlier data path held.
    pub left: Option<Arc<File>>,
}

impl Worker {
    /// Runs until [`Command::Stop`], or until the socket fails for good or the engine panics. Packets pass then.
    pub fn run(self, ready: &Sender<Readiness>) -> Result<WorkerCounts, Error> {
        let state = Arc::clone(&self.parts.state);
        state.set_thread();
        let readiness = timing::prepare_thread(self.parts.priority);
        // Order within a flow requires this at any priority. With one other program that is always busy the scheduler
        // could find a better processor for a normal thread (voice waits 2 ms instead of 1.4 at the 99th percentile);
        // with more it makes no difference.
        let _ = timing::stay_on_a_processor(usize::from(self.parts.whole) / 2);
        let (mut path, mut driver) = QueuePath::new(self.kernel, self.parts, self.engine);
        if !readiness.real_time.in_force() {
            // A thread that others may keep from running is late for longer.
            driver.engine_mut().set_catch_up(path.parts.patient);
        }
        let _ = ready.send(readiness);
        let outcome = match driver::run(&mut driver, &mut path) {
            Ok(()) => Ok(path.counts(&driver)),
            // The guardian has let pass what this one held, and the queue and the page are those of its successor.
            Err(_) if state.is_abandoned() => Ok(path.counts(&driver)),
            Err(Failure::Path(error)) => {
                let _ = state.let_pass(&format!("the data path ended: {error}"));
                Err(error)
            }
            Err(Failure::Panicked(text)) => {
                // Queued packets pass at once, also where the guardian has to take the turn for those that follow.
                let passed = state.accept_all();
                let text = format!("the discipline panicked: {text}");
                passed.and(state.let_pass(&text)).map(|()| path.counts(&driver))
            }
        };
        // The queue is not read any more, and the kernel must know it.
        *lock(&state.releaser) = None;
        // No packet depends on the engine any more: a panic of a discipline that is dropped does no harm.
        let _ = guarded(|| drop(driver));
        outcome
    }
}

/// The data path: packets that the kernel queues arrive, verdicts leave.
pub(super) struct QueuePath<K> {
    pub(super) kernel: K,
    parts: PathParts,
    clock: MonotonicClock,
    ring: Ring,
    sink: VerdictSink,
    /// When injected faults count from.
    #[cfg(debug_assertions)]
    started: Instant,
    unreadable: u64,
    /// Probes that were let pass.
    late_probes: u64,
    probes: Option<(u64, ProbeWatch)>,
    /// Whether the waker was readable when the thread last waited.
    woken: bool,
    /// Whether the second queue copies all bytes of its packets, for advice that is written into them.
    copies_all: bool,
}

impl<K: Kernel> QueuePath<K> {
    /// The data path, and the driver with which it runs.
    pub(super) fn new(mut kernel: K, parts: PathParts, engine: LiveEngine) -> (Self, Driver<Handle>) {
        let started = kernel.time();
        let clock = MonotonicClock::new(Arc::clone(&parts.state), started);
        let rest = parts.rest_for(engine.config());
        let params = Params { quantum: parts.quantum, rest, segmentation: Segmentation::Deferred, link: None };
        let sink = VerdictSink::new(parts.marks, Arc::clone(&parts.counters), started);
        let ring = Ring::new(parts.copy_range);
        let (unreadable, late_probes, probes, woken, copies_all) = (0, 0, None, false, false);
        let path = Self {
            kernel,
            parts,
            clock,
            ring,
            sink,
            #[cfg(debug_assertions)]
            started,
            unreadable,
            late_probes,
            probes,
            woken,
            copies_all,
        };
        (path, Driver::new(engine, params, started))
    }

    /// Offers a batch to `driver`. A guardian that takes the turn at any moment accepts what was received of the first queue, then the
    /// second queue, then the rest of the first. So packets that stay in the first queue are noted as received before later
    /// ones are sent to the second, and packets that are sent there are not, as long as they are in the first.
    fn offer_all(&mut self, now: Instant, driver: &mut Driver<Handle>) -> Result<(), Error> {
        let Self { kernel, parts, ring, sink, unreadable, late_probes, probes, .. } = self;
        let mut stayed = false;
        for packet in ring.packets() {
            let interface = parts.counters.place(&packet);
            let (queue, id, mark, length) = (packet.queue, packet.id, packet.mark, packet.length);
            let handle = Handle { queue, interface, id, mark, length };
            let (meta, headers) = parts.metadata(&packet, unreadable);
            let probe = probe::read(packet.payload);
            if let Some((cookie, reports)) = probes
                && let Some((_, number)) = probe.filter(|(of, _)| of == cookie)
            {
                let _ = reports.send((number, driver.engine().classify(&meta.fields)));
                sink.verdicts.drop(handle.queue, handle.id);
                continue;
            }
            // One of an earlier attempt that comes late passes, and is not sent: nobody answers at its address.
            *late_probes += u64::from(probe.is_some());
            let is_v6 = packet.hw_protocol == libc::ETH_P_IPV6 as u16;
            parts.counters.note(interface, if is_v6 { Version::V6 } else { Version::V4 });
            if let Some(observer) = &mut sink.observer {
                observer.arrived(&handle, &headers, packet.payload);
            }
            let segmented = packet.queue != parts.whole;
            // A recording has no more of a packet than without advice.
            let recorded = &packet.payload[..packet.payload.len().min(parts.copy_range as usize)];
            let arrival = Arrival { handle, meta: &meta, bytes: recorded, segmented };
            let diverted = !segmented && advice::needs_all_bytes(now, driver.engine_mut(), (&packet, &headers), &meta);
            if segmented && let Some(bytes) = advice::written(now, driver.engine_mut(), (&packet, &headers), &meta) {
                sink.written.keep(&handle, bytes);
            }
            let offered = if diverted { driver.divert(&arrival) } else { driver.offer(now, arrival, sink) };
            match offered {
                Offered::Consumed => {
                    parts.counters.received(interface, length);
                    stayed |= !segmented;
                }
                // Packets that follow a superpacket take the same path, so that order is kept.
                Offered::Segment(handle) => {
                    if std::mem::take(&mut stayed) {
                        kernel.send(&mut sink.verdicts)?;
                        parts.state.page.set_received(handle.id.wrapping_sub(1));
                    }
                    sink.verdicts.requeue(handle.queue, handle.id, parts.cut, Some(handle.mark));
                }
            }
        }
        Ok(())
    }

    /// Releases queued and newly arrived packets, even when packets arrive faster than they can be received, and ends
    /// queueing: from then on the kernel lets packets pass.
    fn release(&mut self, now: Instant, driver: &mut Driver<Handle>) -> Result<(), Error> {
        for _ in 0..LAST_BATCHES {
            if self.kernel.receive(&mut self.ring)? == 0 {
                break;
            }
            self.offer_all(now, driver)?;
            driver.release_all(&mut self.sink);
            self.flush()?;
        }
        driver.bypass(&mut self.sink);
        self.flush()?;
        // A sender whose packets were held may send a burst now. Two processors may exchange packets of the moment in which
        // queueing ends; so it ends where none arrive, if there is such a moment.
        let began = self.kernel.time();
        while self.kernel.time().since(began) < nfqueue::LONGEST_BURST && !self.is_quiet()? {
            self.parts.state.page.beat();
            if self.kernel.receive(&mut self.ring)? > 0 {
                self.offer_all(now, driver)?;
                driver.release_all(&mut self.sink);
                self.flush()?;
            }
        }
        self.kernel.close([self.parts.whole, self.parts.cut], self.parts.state.page.received())?;
        // Packets that arrived meanwhile have been accepted; they are counted.
        while self.kernel.receive(&mut self.ring)? > 0 {
            self.offer_all(now, driver)?;
            driver.release_all(&mut self.sink);
            self.sink.verdicts.discard();
        }
        Ok(())
    }

    /// Has the second queue copy as much of a packet as the configuration needs. If the kernel refuses, nothing is advised.
    fn set_copies(&mut self, all: bool) {
        self.copies_all = all;
        let range = if all { advice::ALL_BYTES.max(self.parts.copy_range) } else { self.parts.copy_range };
        if all {
            // Longer copies may still arrive after the range was lowered: buffers only grow.
            self.ring = Ring::new(range);
        }
        if let Err(error) = self.kernel.set_copy_range(self.parts.cut, range) {
            self.parts.state.note(format!("no rate can be advised: {error}"));
        }
    }

    /// Whether no packet arrives for a while.
    fn is_quiet(&mut self) -> Result<bool, Error> {
        let until = self.kernel.time() + PAUSE;
        self.kernel.wait_for_packets(until)
    }

    fn counts(&self, driver: &Driver<Handle>) -> WorkerCounts {
        WorkerCounts {
            socket: self.kernel.counters(),
            passed: driver.engine().sent().packets,
            refused: driver.engine().dropped(),
            cut: driver.counters().segmented,
            unreadable: self.unreadable,
            turns: driver.counters().turns,
            usage: timing::thread_usage(),
            let_pass: self.parts.counters.sent_packets().saturating_sub(self.late_probes),
            unsent: 0,
        }
    }

    /// The guardian has the turn, or gets it now, so the packets that the engine holds leave. Asks for the turn, waits for it, and
    /// takes over the packets of an earlier data path.
    fn take_back(&mut self, now: Instant, driver: &mut Driver<Handle>) -> Result<(), Error> {
        self.parts.state.page.yield_turn();
        driver.release_all(&mut self.sink);
        self.sink.verdicts.discard();
        let page = &self.parts.state.page;
        let (mut answered, mut beats) = (self.kernel.time(), page.guardian_beats());
        page.ask_back();
        while page.turn() != Turn::Shaper && !self.parts.state.is_abandoned() {
            page.beat();
            // A guardian that runs may have a reason to keep the turn, and would read packets together with this one.
            if page.guardian_beats() != beats {
                (answered, beats) = (self.kernel.time(), page.guardian_beats());
            }
            if self.kernel.time().since(answered) > ANSWER {
                // It has ended or has stopped itself, and may have left packets in the queue.
                page.take_held();
                self.parts.state.accept_all()?;
                page.give_back();
                break;
            }
            self.kernel.pause(PAUSE);
        }
        if self.parts.state.is_abandoned() {
            return Ok(());
        }
        let left = match page.turn() {
            Turn::Shaper => page.take_held(),
            Turn::Guardian | Turn::Return | Turn::Yield => 0,
        };
        if left > 0 {
            return self.adopt(now, left, driver);
        }
        self.parts.state.note(match page.reason() {
            Some(Reason::Silent) => "the guardian has let packets pass, because the shaper made no progress".into(),
            _ => "the guardian has let packets pass".into(),
        });
        Ok(())
    }

    /// Takes over the packets of an earlier data path. If their list cannot be read they pass.
    fn adopt(&mut self, now: Instant, count: u64, driver: &mut Driver<Handle>) -> Result<(), Error> {
        let state = &self.parts.state;
        let file = self.parts.left.as_ref().ok_or_else(|| io::Error::other("it was not left to this data path"));
        match file.and_then(|file| held::read(file, count)) {
            Ok(mut held) => {
                for handle in held.iter_mut().map(|packet| &mut packet.handle) {
                    // Its interface may have another place now, or none.
                    handle.interface = self.parts.counters.place_of(handle.interface);
                    self.parts.counters.received(handle.interface, handle.length);
                }
                driver.engine_mut().adopt(now, &held, &mut self.sink);
                state.page.add_adopted(count);
                state.note(format!("took over {count} packets that waited"));
            }
            Err(error) => {
                state.accept_all()?;
                state.note(format!("packets that waited have passed: {error}"));
            }
        }
        Ok(())
    }

    /// Writes the list of held packets for the next data path, and returns its length: zero when packets arrive faster than they can
    /// be received, or when there is no memory for the list. No packet is released.
    fn leave(&mut self, now: Instant, driver: &mut Driver<Handle>, file: &File) -> Result<u64, Error> {
        for _ in 0..LAST_BATCHES {
            if self.receive(now, driver)? > 0 {
                continue;
            }
            // Every packet that was returned to be segmented has come back: none is on its way between the queues.
            driver.segmentation_done();
            self.flush()?;
            let mut held = driver.engine_mut().hand_over(now);
            for packet in &mut held {
                packet.arrived = self.clock.to_system_time(packet.arrived);
            }
            return Ok(held::write(file, &held).map_or(0, |()| held.len() as u64));
        }
        self.flush()?;
        Ok(0)
    }

    /// Counts a turn; an abandoned data path makes no more.
    fn go_on(&self) -> ControlFlow<()> {
        if self.parts.state.is_abandoned() {
            return ControlFlow::Break(());
        }
        self.parts.state.page.beat();
        ControlFlow::Continue(())
    }

    /// Accepts the packets of the last batch at once: they were received after this data path was abandoned, and nobody else knows
    /// of them. Those that the guardian has let pass the kernel does not know any more.
    fn pass_batch(&mut self) -> Result<usize, Error> {
        self.sink.verdicts.discard();
        for packet in self.ring.packets() {
            self.sink.verdicts.accept(packet.queue, packet.id);
        }
        self.kernel.send(&mut self.sink.verdicts).map(|()| 0)
    }

    /// Makes the injected fault happen, once it is time and packets wait.
    #[cfg(debug_assertions)]
    fn inject(&mut self, now: Instant, driver: &Driver<Handle>) {
        let due = |injection: &crate::shaping::Injection| now.since(self.started) >= injection.after;
        let Some(injection) = self.parts.inject.filter(due) else { return };
        if driver.engine().tree().backlog().is_empty() {
            return;
        }
        self.parts.inject = None;
        injection.fault.happen(&mut self.clock);
    }
}

impl<K: Kernel> DataPath for QueuePath<K> {
    type Handle = Handle;
    type Sink = VerdictSink;
    type Error = Error;

    fn now(&mut self) -> Instant {
        self.clock.now(self.kernel.time())
    }

    fn wait(&mut self, wait: Wait) -> Result<ControlFlow<()>, Error> {
        if !self.parts.state.has_begun() {
            // Packets wait with the guardian, and would wake it again and again.
            let until = self.kernel.time() + LONGEST_WAIT;
            self.kernel.wait_for_commands(until)?;
            self.woken = true;
            return Ok(self.go_on());
        }
        if let Some(until) = wait.ignore_arrivals_until {
            self.kernel.wait_for_commands(self.clock.to_system_time(until))?;
        }
        // While the guardian has the turn there is something to do: to ask for it.
        let longest = if self.parts.state.page.turn() == Turn::Shaper { LONGEST_WAIT } else { Span::ZERO };
        let latest = self.kernel.time() + longest;
        let until = wait.until.map_or(latest, |until| self.clock.to_system_time(until).min(latest));
        self.woken = self.kernel.wait(until)?;
        Ok(self.go_on())
    }

    /// A thread that was stalled in the midst of a turn may have been abandoned meanwhile: its successor reads the same socket and
    /// shares the same page, so nothing of either is touched from then on.
    fn receive(&mut self, now: Instant, driver: &mut Driver<Handle>) -> Result<usize, Error> {
        if !self.parts.state.has_begun() || self.parts.state.is_abandoned() {
            return Ok(0);
        }
        if self.parts.state.page.turn() != Turn::Shaper {
            self.take_back(now, driver)?;
        }
        if driver.engine().advises() != self.copies_all {
            self.set_copies(driver.engine().advises());
        }
        let received = self.kernel.receive(&mut self.ring)?;
        if received > 0 && self.parts.state.is_abandoned() {
            return self.pass_batch();
        }
        let before = driver.counters().segmented;
        if let Some(observer) = &mut self.sink.observer {
            observer.turn(!driver.engine().tree().backlog().is_empty());
        }
        if received > 0 {
            self.offer_all(now, driver)?;
        }
        // Before departures: a packet that arrives in an empty queue may leave in the same turn.
        #[cfg(debug_assertions)]
        self.inject(now, driver);
        if self.parts.state.is_abandoned() {
            return Ok(0);
        }
        if driver.counters().segmented != before {
            // The kernel queues the segments while it processes these verdicts, behind packets that are queued already.
            self.flush()?;
        }
        if received > 0
            && let Some(last) = self.ring.packets().filter(|packet| packet.queue == self.parts.whole).last()
        {
            self.parts.state.page.set_received(last.id);
        }
        Ok(received)
    }

    fn sink(&mut self) -> &mut VerdictSink {
        &mut self.sink
    }

    fn flush(&mut self) -> Result<(), Error> {
        if let Some(observer) = &mut self.sink.observer {
            observer.hand_over();
        }
        // The guardian has let these packets pass: the kernel would refuse their verdicts, as those of packets that it has dropped.
        if self.parts.state.is_abandoned() || !self.parts.state.page.turn().is_of_shaper() {
            self.sink.verdicts.discard();
            return Ok(());
        }
        self.kernel.send(&mut self.sink.verdicts)
    }

    fn control(&mut self, now: Instant, driver: &mut Driver<Handle>) -> Result<ControlFlow<()>, Error> {
        if self.parts.state.is_abandoned() {
            return Ok(ControlFlow::Break(()));
        }
        // Before commands are received: the waker is written to after a command is sent. Not in each turn: most are for
        // packets, and it is a system call.
        if self.woken {
            self.kernel.forget_commands();
        }
        loop {
            match self.parts.commands.try_recv() {
                Ok(Command::Do(work)) => {
                    let before = Arc::clone(&driver.engine().config().text);
                    work(driver.engine_mut(), now, &mut self.sink);
                    self.flush()?;
                    let config = driver.engine().config();
                    if !Arc::ptr_eq(&before, &config.text) {
                        driver.set_rest(self.parts.rest_for(config));
                    }
                }
                Ok(Command::Groups(groups)) => self.parts.groups = groups,
                Ok(Command::Watch(cookie, reports)) => self.probes = Some((cookie, reports)),
                Ok(Command::Listen(listener)) => self.sink.listen(listener),
                Ok(Command::Observe(observer)) => self.sink.observer = Some(observer),
                Ok(Command::Count(to)) => drop(to.send(self.counts(driver))),
                Ok(Command::Pass(done)) => {
                    self.release(now, driver)?;
                    let _ = done.send(());
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                    driver.release_all(&mut self.sink);
                    self.flush()?;
                    return Ok(ControlFlow::Break(()));
                }
                Ok(Command::Leave(file, held)) => {
                    let _ = held.send(self.leave(now, driver, &file)?);
                    return Ok(ControlFlow::Break(()));
                }
                Err(TryRecvError::Empty) => return Ok(ControlFlow::Continue(())),
            }
        }
    }
}

impl PathParts {
    /// How long the busy thread may rest with this configuration: where L4S marks by the delay, as if each packet had a turn.
    fn rest_for(&self, config: &Config) -> Span {
        if config.marks_early() { self.quantum } else { self.rest }
    }

    fn metadata(&self, packet: &Packet<'_>, unreadable: &mut u64) -> (PacketMeta, Dissection) {
        let headers = dissect::network(packet.payload, packet.length as usize).unwrap_or_else(|_| {
            *unreadable += 1;
            Dissection::default()
        });
        let mut fields = headers.fields;
        fields.mark = packet.mark & !self.marks.mask();
        fields.uid = packet.uid;
        fields.cgroup = self.marks.tag(packet.mark).and_then(|tag| self.groups.get(usize::from(tag)).copied());
        let mut meta = PacketMeta {
            fields,
            ecn: headers.ecn,
            length: packet.length,
            network_header: headers.network_header.into(),
            headers: headers.headers(),
            pure_ack: headers.is_pure_ack(),
            shape: Shape::Single,
        };
        if packet.gso && packet.queue == self.whole {
            shape::of_superpacket(&mut meta, &headers, self.counters.direction());
        }
        (meta, headers)
    }
}

/// How long to wait for a guardian that makes no turn to return that of the data path.
const ANSWER: Span = Span::from_millis(100);
/// A pause between packets in which queueing may end.
const PAUSE: Span = Span::from_micros(200);
/// The most batches that are received at an end before it is confirmed that nothing waits any more.
const LAST_BATCHES: u32 = 1_000;

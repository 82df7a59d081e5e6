//! The thread between the kernel's queue and the engine.
//!
//! One loop: wait for packets, a deadline or a word from the control plane; read the clock once; hand in what came, in
//! batches; let go what may leave; send all verdicts in one call. Everything else happens on other threads.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use tidegate_capture::dissect::{self, Dissection};
use tidegate_engine::{Admission, Change, Classification, Engine, Notification, PacketMeta, Shape, Sink, guarded};
use tidegate_units::{Instant, Span};

use tidegate_core::{DropReason, Qdisc};

use super::lifeline::{Fault, Injection, Pulse, Steady, lock};
use super::passage::LINK_HEADER;
use crate::marks::{Action, MarkLayout};
use crate::nfqueue::{Packet, QueueSocket, Ring, SocketCounters, Verdicts};
use crate::probe::{self, Version};
use crate::timing::{self, Priority, Readiness, ThreadUsage, Waiter};

/// A packet that the kernel holds for us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle {
    queue: u16,
    id: u32,
    mark: u32,
}

/// The engine as it runs live.
pub type LiveEngine = Engine<Handle>;

/// Something to be done to the engine between two packets.
type Work = Box<dyn FnOnce(&mut LiveEngine, Instant, &mut Gate) + Send>;

/// Hears news of flows, on the data path's thread, with the time of the turn in which they happened. Gives `false` to hear
/// no more.
pub type Listener = Box<dyn FnMut(Instant, &Notification<'_>) -> bool + Send>;

/// A word from the control plane to the data path, said at a packet boundary.
pub(super) enum Word {
    /// Do this to the engine.
    Do(Work),
    /// Tags mean these control groups.
    Groups(Vec<u64>),
    /// Look out for probes with this cookie and tell where they came out. Those that come when nobody listens any more
    /// are probes all the same, and no traffic.
    Watch(u64, Sender<(u32, Classification)>),
    /// Tell what you have counted.
    Count(Sender<WorkerCounts>),
    /// Tell this one of every event too.
    Listen(Listener),
    /// Let everything go, and let pass at once what comes from now on; tell when that is so.
    Pass(Sender<()>),
    /// End.
    Stop,
}

/// What the data path counts about itself.
#[derive(Clone, Debug, Default)]
pub struct WorkerCounts {
    /// The queue socket.
    pub socket: SocketCounters,
    /// Packets that passed.
    pub passed: u64,
    /// Packets that were refused.
    pub refused: u64,
    /// Superpackets sent back to be cut, and packets that had to follow them.
    pub cut: u64,
    /// Packets whose headers could not be read; they passed through the default class.
    pub unreadable: u64,
    /// Turns of the loop.
    pub turns: u64,
    /// Processor time.
    pub usage: ThreadUsage,
}

/// What a worker is made of.
pub(super) struct Worker {
    pub engine: LiveEngine,
    pub socket: QueueSocket,
    pub copy_range: u32,
    /// The queue whose superpackets come whole, and the one where the kernel cuts them.
    pub whole: u16,
    pub cut: u16,
    pub marks: MarkLayout,
    /// What the tags of the rules before the queue mean: numbers of control groups, by tag.
    pub groups: Vec<u64>,
    pub words: Receiver<Word>,
    pub bell: UnixStream,
    /// Packets leave in groups this far apart at the most, so that a fast link does not cost a wake-up a packet.
    pub quantum: Span,
    pub spin: Span,
    pub priority: Priority,
    /// The lateness that is made up for without real-time scheduling.
    pub patient: Span,
    /// When it began.
    pub started: Instant,
    /// What shall go wrong.
    pub inject: Option<Injection>,
    /// Beats once a turn; the watchdog listens.
    pub pulse: Arc<Pulse>,
    /// Which protocols came.
    pub seen: Arc<Seen>,
}

/// What came through the queue.
#[derive(Debug, Default)]
pub(super) struct Seen {
    v4: AtomicBool,
    v6: AtomicBool,
    /// With link headers; those of superpackets that are cut are counted when they are cut.
    bytes: AtomicU64,
}

impl Seen {
    fn of(&self, version: Version) -> &AtomicBool {
        match version {
            Version::V4 => &self.v4,
            Version::V6 => &self.v6,
        }
    }
    pub(super) fn has(&self, version: Version) -> bool {
        self.of(version).load(Ordering::Relaxed)
    }
    /// How many bytes came, link headers included.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
    fn count(&self, length: u32) {
        // Only the data path's thread writes.
        self.bytes.store(self.bytes() + u64::from(length) + LINK_HEADER, Ordering::Relaxed);
    }
    fn note(&self, ethertype: u16) {
        let flag = self.of(if ethertype == IPV6 { Version::V6 } else { Version::V4 });
        // Written once, so that the line of memory stays shared.
        if !flag.load(Ordering::Relaxed) {
            flag.store(true, Ordering::Relaxed);
        }
    }
}

/// The EtherType of IPv6.
const IPV6: u16 = 0x86dd;

/// Collects verdicts: where the engine lets packets out, live.
pub struct Gate {
    verdicts: Verdicts,
    marks: MarkLayout,
    passed: u64,
    refused: u64,
    /// The time of this turn.
    now: Instant,
    listeners: Vec<Listener>,
}

impl Sink<Handle> for Gate {
    fn transmit(&mut self, handle: Handle, change: Change) {
        self.passed += 1;
        let action = Action { dscp: change.dscp.map(|dscp| dscp.value()), congestion: change.congestion };
        if action.is_none() {
            self.verdicts.accept(handle.queue, handle.id);
        } else {
            self.verdicts.accept_marked(handle.queue, handle.id, self.marks.with_action(handle.mark, action));
        }
    }
    fn drop_packet(&mut self, handle: Handle, _reason: DropReason) {
        self.refused += 1;
        self.verdicts.drop(handle.queue, handle.id);
    }
    fn wants_notifications(&self) -> bool {
        !self.listeners.is_empty()
    }
    fn notify(&mut self, notification: &Notification<'_>) {
        let now = self.now;
        self.listeners.retain_mut(|listener| listener(now, notification));
    }
}

impl Worker {
    /// Runs until [`Word::Stop`], or until the socket fails for good. When the engine panics it lets everything pass
    /// until then.
    pub fn run(mut self, ready: &Sender<Readiness>) -> Result<WorkerCounts, crate::netlink::Error> {
        let outcome = self.run_to_the_end(ready);
        // From here on nobody reads the queue, and the kernel shall know it.
        *lock(&self.pulse.releaser) = None;
        // All that could be done for packets is done: how its discipline takes leave changes nothing.
        let engine = self.engine;
        let _ = guarded(|| drop(engine));
        outcome
    }

    fn run_to_the_end(&mut self, ready: &Sender<Readiness>) -> Result<WorkerCounts, crate::netlink::Error> {
        // What the engine is left as after a panic is never used again: it is built anew.
        match guarded(|| self.shape(ready)) {
            Ok(outcome) => {
                if let Err(error) = &outcome {
                    self.pulse.fail(format!("the data path ended: {error}"));
                }
                outcome
            }
            Err(text) => {
                self.pulse.fail(format!("the discipline panicked: {text}"));
                self.let_pass()
            }
        }
    }

    /// Lets go what the kernel holds, then whatever comes, until [`Word::Stop`].
    fn let_pass(&mut self) -> Result<WorkerCounts, crate::netlink::Error> {
        self.socket.releaser().map_err(wait_failed)?.accept_all()?;
        let (waiter, mut ring, mut verdicts) = (Waiter::new(Span::ZERO), Ring::new(self.copy_range), Verdicts::new());
        let mut counts = WorkerCounts::default();
        loop {
            waiter.wait(&[&self.socket.as_fd(), &self.bell.as_fd()], None).map_err(wait_failed)?;
            self.pulse.beats.fetch_add(1, Ordering::Relaxed);
            if self.pulse.is_abandoned() {
                return Ok(counts);
            }
            // Before the words, so that "all that has come" is true when it is told.
            while self.socket.receive(&mut ring)? > 0 {
                for packet in ring.packets() {
                    self.seen.count(packet.length);
                    verdicts.accept(packet.queue, packet.id);
                    counts.passed += 1;
                }
                self.socket.send(&mut verdicts)?;
            }
            drain_bell(&self.bell);
            loop {
                match self.words.try_recv() {
                    Ok(Word::Pass(done)) => drop(done.send(())),
                    Ok(Word::Count(to)) => drop(to.send(counts.clone())),
                    // There is no engine to do it to: who waits for an answer hears that there is none.
                    Ok(Word::Do(_) | Word::Watch(..) | Word::Listen(_) | Word::Groups(_)) => {}
                    Ok(Word::Stop) | Err(TryRecvError::Disconnected) => return Ok(counts),
                    Err(TryRecvError::Empty) => break,
                }
            }
        }
    }

    /// Makes happen what is to go wrong, once it is time and packets wait.
    fn inject(&mut self, now: Instant, clock: &mut Steady) {
        let Some(injection) = self.inject.filter(|injection| now.since(self.started) >= injection.after) else {
            return;
        };
        if self.engine.tree().backlog().is_empty() {
            return;
        }
        self.inject = None;
        match injection.fault {
            Fault::Stall(time) => std::thread::sleep(std::time::Duration::from_nanos(time.as_nanos())),
            Fault::Panic => panic!("a fault was injected"),
            Fault::Forward(time) => clock.inject(time, Span::ZERO),
            Fault::Back(time) => clock.inject(Span::ZERO, time),
            // More than any machine gives: what happens then is what happens when less is refused.
            Fault::Memory => drop(std::hint::black_box(Vec::<u8>::with_capacity(1 << 46))),
        }
    }

    fn shape(&mut self, ready: &Sender<Readiness>) -> Result<WorkerCounts, crate::netlink::Error> {
        let mut clock = Steady::new(Arc::clone(&self.pulse));
        self.started = clock.now();
        let readiness = timing::prepare_thread(self.priority);
        if !readiness.real_time.in_force() {
            // A thread that others may keep from running is late for longer.
            self.engine.set_catch_up(self.patient);
        }
        // Order within a flow needs it, whatever the priority. With one other program that is always busy the scheduler
        // could find a better place for a normal thread (voice waits 2 ms instead of 1.4 at the 99th percentile); with
        // more it makes no difference.
        let _ = timing::stay_on_a_processor(usize::from(self.whole) / 2);
        let _ = ready.send(readiness);
        let waiter = Waiter::new(self.spin);
        let mut ring = Ring::new(self.copy_range);
        let mut gate = Gate {
            verdicts: Verdicts::new(),
            marks: self.marks,
            passed: 0,
            refused: 0,
            now: self.started,
            listeners: Vec::new(),
        };
        let mut counts = WorkerCounts::default();
        let mut watch: Option<(u64, Sender<(u32, Classification)>)> = None;
        // Flows of which a superpacket was sent back to be cut: whatever follows it must follow it there as well, until
        // the socket has been seen empty with nothing on its way back.
        let mut detour: HashSet<u64> = HashSet::new();
        let mut last_release = Instant::ZERO;
        let (mut last_turn, mut busy) = (Instant::ZERO, 0_u32);
        let mut shaping = true;
        loop {
            if busy >= BUSY {
                // Packets come faster than one by one is worth waking up for: let some gather.
                waiter
                    .wait(&[&self.bell.as_fd()], Some(clock.by_the_system(last_turn + self.quantum)))
                    .map_err(wait_failed)?;
            }
            let deadline = self.engine.deadline(clock.now()).instant(Instant::ZERO);
            let wake = deadline.map(|time| time.max(last_release + self.quantum));
            let wake = wake.into_iter().chain(self.engine.next_poll()).min().map(|time| clock.by_the_system(time));
            waiter
                .wait(&[&self.socket.as_fd(), &self.bell.as_fd()], wake)
                .map_err(|source| crate::netlink::Error::System { operation: "wait for packets".into(), source })?;
            counts.turns += 1;
            self.pulse.beats.fetch_add(1, Ordering::Relaxed);
            if self.pulse.is_abandoned() {
                return Ok(self.count(&counts, &gate));
            }
            let mut now = clock.now();
            gate.now = now;
            busy = if now.since(last_turn) < self.quantum { busy.saturating_add(1) } else { 0 };
            last_turn = now;
            let arrived_before = self.engine.arrivals();
            // At most a few batches, so that a flood of arrivals cannot keep departures waiting.
            for _ in 0..4 {
                if self.socket.receive(&mut ring)? == 0 {
                    // Everything that was sent to be cut has come back.
                    detour.clear();
                    break;
                }
                let before = counts.cut;
                for packet in ring.packets() {
                    self.take(now, &packet, &mut gate, &mut counts, &mut detour, watch.as_ref());
                }
                if counts.cut != before {
                    // The kernel queues the segments while it takes these verdicts, behind whatever waits already.
                    self.socket.send(&mut gate.verdicts)?;
                }
                now = clock.now();
            }
            if self.inject.is_some() {
                self.inject(now, &mut clock);
            }
            if !shaping {
                self.engine.release_all(&mut gate);
            }
            let mut released = false;
            let mut stirred = self.engine.arrivals() != arrived_before;
            while self.engine.deadline(now).instant(now).is_some_and(|time| time <= now) {
                if !self.engine.dequeue(now, &mut gate) && self.engine.deadline(now).instant(now) == Some(now) {
                    break;
                }
                released = true;
            }
            if released {
                last_release = now;
            }
            self.socket.send(&mut gate.verdicts)?;
            // Before the words are taken: a word that comes while they are is rung for again.
            drain_bell(&self.bell);
            loop {
                match self.words.try_recv() {
                    Ok(Word::Do(work)) => {
                        stirred = true;
                        work(&mut self.engine, now, &mut gate);
                        self.socket.send(&mut gate.verdicts)?;
                    }
                    Ok(Word::Groups(groups)) => self.groups = groups,
                    Ok(Word::Watch(cookie, tell)) => watch = Some((cookie, tell)),
                    Ok(Word::Listen(listener)) => gate.listeners.push(listener),
                    Ok(Word::Count(to)) => {
                        let _ = to.send(self.count(&counts, &gate));
                    }
                    Ok(Word::Pass(done)) => {
                        shaping = false;
                        // All that has come, even if it comes faster than we can take it.
                        for _ in 0..LAST_BATCHES {
                            if self.socket.receive(&mut ring)? == 0 {
                                break;
                            }
                            for packet in ring.packets() {
                                self.take(now, &packet, &mut gate, &mut counts, &mut detour, watch.as_ref());
                            }
                            self.engine.release_all(&mut gate);
                            self.socket.send(&mut gate.verdicts)?;
                        }
                        self.engine.release_all(&mut gate);
                        self.socket.send(&mut gate.verdicts)?;
                        let _ = done.send(());
                    }
                    Ok(Word::Stop) | Err(TryRecvError::Disconnected) => {
                        self.engine.release_all(&mut gate);
                        self.socket.send(&mut gate.verdicts)?;
                        return Ok(self.count(&counts, &gate));
                    }
                    Err(TryRecvError::Empty) => break,
                }
            }
            if self.engine.next_poll().is_some() {
                if stirred || released {
                    self.engine.mark_dirty(now);
                }
                if self.engine.next_poll().is_some_and(|time| time <= now) {
                    self.engine.poll(now, &mut gate);
                }
            }
            if let Some(recorder) = self.engine.recorder() {
                recorder.idle(now);
            }
        }
    }

    fn count(&self, counts: &WorkerCounts, gate: &Gate) -> WorkerCounts {
        WorkerCounts {
            socket: self.socket.counters(),
            passed: gate.passed,
            refused: gate.refused,
            usage: timing::thread_usage(),
            ..counts.clone()
        }
    }

    fn take(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        gate: &mut Gate,
        counts: &mut WorkerCounts,
        detour: &mut HashSet<u64>,
        watch: Option<&(u64, Sender<(u32, Classification)>)>,
    ) {
        let handle = Handle { queue: packet.queue, id: packet.id, mark: packet.mark };
        let seen = self.sight(packet, counts);
        if let Some((cookie, tell)) = watch
            && let Some(number) = probe::recognise(packet.payload, *cookie)
        {
            let _ = tell.send((number, self.engine.classify(&seen.fields)));
            gate.verdicts.drop(handle.queue, handle.id);
            return;
        }
        self.seen.note(packet.hw_protocol);
        // A packet behind a superpacket that was sent to be cut goes the same way, so that it stays behind it.
        let flow = || self.engine.classify(&seen.fields).flow.flow;
        if packet.queue == self.whole && !detour.is_empty() && detour.contains(&flow()) {
            counts.cut += 1;
            gate.verdicts.requeue(handle.queue, handle.id, self.cut, Some(handle.mark));
            return;
        }
        if let Some(recorder) = self.engine.recorder() {
            recorder.packet_bytes(packet.payload);
        }
        if let Admission::TooLong { handle, flow } = self.engine.enqueue(now, handle, &seen, gate) {
            counts.cut += 1;
            detour.insert(flow.flow);
            gate.verdicts.requeue(handle.queue, handle.id, self.cut, Some(handle.mark));
        } else {
            self.seen.count(packet.length);
        }
    }

    fn sight(&self, packet: &Packet<'_>, counts: &mut WorkerCounts) -> PacketMeta {
        let seen = dissect::network(packet.payload, packet.length as usize).unwrap_or_else(|_| {
            counts.unreadable += 1;
            Dissection::default()
        });
        let mut fields = seen.fields;
        fields.mark = packet.mark & !self.marks.mask();
        fields.uid = packet.uid;
        fields.cgroup = self.marks.tag(packet.mark).and_then(|tag| self.groups.get(usize::from(tag)).copied());
        let whole = packet.gso && packet.queue == self.whole;
        PacketMeta {
            fields,
            ecn: seen.ecn,
            length: packet.length,
            network_header: seen.network_header.into(),
            headers: seen.headers(),
            pure_ack: seen.is_pure_ack(),
            shape: if whole { Shape::Super } else { Shape::Single },
        }
    }
}

/// At an end, so many batches are taken at the most before it is said that nothing waits any more.
const LAST_BATCHES: u32 = 1_000;
/// This many turns in a row, each within a quantum of the one before, and arrivals are taken in groups.
const BUSY: u32 = 8;

/// What a panic says.
fn wait_failed(source: std::io::Error) -> crate::netlink::Error {
    crate::netlink::Error::System { operation: "wait for packets".into(), source }
}

/// Empties the bell; how often it rang does not matter.
fn drain_bell(bell: &UnixStream) {
    use std::io::Read;
    let mut bytes = [0; 64];
    while (&*bell).read(&mut bytes).is_ok_and(|n| n == bytes.len()) {}
}

//! The thread between the kernel's queue and the engine.
//!
//! One loop: wait for packets, a deadline or a word from the control plane; read the clock once; hand in what came, in
//! batches; let go what may leave; send all verdicts in one call. Everything else happens on other threads.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use tidegate_capture::dissect::{self, Dissection};
use tidegate_engine::pipeline::Judgement;
use tidegate_engine::{Change, Exit, Pipeline, Shape, Sighting, Taken};
use tidegate_units::{Instant, Span};

use tidegate_core::{DropReason, Event};

use crate::marks::{Action, MarkLayout};
use crate::nfqueue::{Packet, QueueSocket, Ring, SocketCounters, Verdicts};
use crate::probe;
use crate::timing::{self, Priority, Readiness, ThreadUsage, Waiter};

/// A packet that the kernel holds for us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle {
    queue: u16,
    id: u32,
    mark: u32,
}

/// The engine as it runs live.
pub type LivePipeline = Pipeline<Handle>;

/// Something to be done to the engine between two packets.
type Work = Box<dyn FnOnce(&mut LivePipeline, Instant) + Send>;

/// A word from the control plane to the data path, said at a packet boundary.
pub(super) enum Word {
    /// Do this to the engine.
    Do(Work),
    /// Look out for probes with this cookie and tell where they came out; none ends it.
    Watch(Option<(u64, Sender<(u32, Judgement)>)>),
    /// Tell what you have counted.
    Count(Sender<WorkerCounts>),
    /// Send every event here too.
    Events(Sender<Event>),
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
    pub pipeline: LivePipeline,
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
    /// Beats once a turn; the watchdog listens.
    pub heartbeat: Arc<AtomicU64>,
}

/// Collects verdicts.
struct Gate {
    verdicts: Verdicts,
    marks: MarkLayout,
    passed: u64,
    refused: u64,
    events: Vec<Sender<Event>>,
}

impl Exit<Handle> for Gate {
    fn pass(&mut self, handle: Handle, change: Change) {
        self.passed += 1;
        let action = Action { dscp: change.dscp.map(|dscp| dscp.value()), congestion: change.congestion };
        if action.is_none() {
            self.verdicts.accept(handle.queue, handle.id);
        } else {
            self.verdicts.accept_marked(handle.queue, handle.id, self.marks.with_action(handle.mark, action));
        }
    }
    fn refuse(&mut self, handle: Handle, _reason: DropReason) {
        self.refused += 1;
        self.verdicts.drop(handle.queue, handle.id);
    }
    fn event(&mut self, event: Event) {
        self.events.retain(|to| to.send(event).is_ok());
    }
}

impl Worker {
    /// Runs until [`Word::Stop`], or until the socket fails for good.
    pub fn run(mut self, ready: &Sender<Readiness>) -> Result<WorkerCounts, crate::netlink::Error> {
        let readiness = timing::prepare_thread(self.priority);
        if !readiness.real_time.in_force()
            && let Some(shaper) = self.pipeline.tree_mut().shaper_mut()
        {
            // A thread that others may keep from running is late for longer.
            shaper.set_catch_up(self.patient);
        }
        let _ = ready.send(readiness);
        let waiter = Waiter::new(self.spin);
        let mut ring = Ring::new(self.copy_range);
        let mut gate = Gate { verdicts: Verdicts::new(), marks: self.marks, passed: 0, refused: 0, events: Vec::new() };
        let mut counts = WorkerCounts::default();
        let mut watch: Option<(u64, Sender<(u32, Judgement)>)> = None;
        // Flows of which a superpacket was sent back to be cut: whatever follows it must follow it there as well, until
        // the socket has been seen empty with nothing on its way back.
        let mut detour: HashSet<u64> = HashSet::new();
        let mut last_release = Instant::ZERO;
        let (mut last_turn, mut busy) = (Instant::ZERO, 0_u32);
        let mut shaping = true;
        loop {
            if busy >= BUSY {
                // Packets come faster than one by one is worth waking up for: let some gather.
                waiter.wait(&[&self.bell.as_fd()], Some(last_turn + self.quantum)).map_err(wait_failed)?;
            }
            let deadline = self.pipeline.deadline(timing::now()).instant(Instant::ZERO);
            let wake = deadline.map(|time| time.max(last_release + self.quantum));
            waiter
                .wait(&[&self.socket.as_fd(), &self.bell.as_fd()], wake)
                .map_err(|source| crate::netlink::Error::System { operation: "wait for packets".into(), source })?;
            counts.turns += 1;
            self.heartbeat.fetch_add(1, Ordering::Relaxed);
            let mut now = timing::now();
            busy = if now.since(last_turn) < self.quantum { busy.saturating_add(1) } else { 0 };
            last_turn = now;
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
                now = timing::now();
            }
            if !shaping {
                self.pipeline.release_all(&mut gate);
            }
            let mut released = false;
            while self.pipeline.deadline(now).instant(now).is_some_and(|time| time <= now) {
                if !self.pipeline.depart(now, &mut gate) && self.pipeline.deadline(now).instant(now) == Some(now) {
                    break;
                }
                released = true;
            }
            if released {
                last_release = now;
            }
            self.socket.send(&mut gate.verdicts)?;
            loop {
                match self.words.try_recv() {
                    Ok(Word::Do(work)) => work(&mut self.pipeline, now),
                    Ok(Word::Watch(other)) => watch = other,
                    Ok(Word::Events(to)) => gate.events.push(to),
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
                            self.pipeline.release_all(&mut gate);
                            self.socket.send(&mut gate.verdicts)?;
                        }
                        self.pipeline.release_all(&mut gate);
                        self.socket.send(&mut gate.verdicts)?;
                        let _ = done.send(());
                    }
                    Ok(Word::Stop) | Err(TryRecvError::Disconnected) => {
                        self.pipeline.release_all(&mut gate);
                        self.socket.send(&mut gate.verdicts)?;
                        return Ok(self.count(&counts, &gate));
                    }
                    Err(TryRecvError::Empty) => break,
                }
            }
            drain_bell(&self.bell);
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
        watch: Option<&(u64, Sender<(u32, Judgement)>)>,
    ) {
        let handle = Handle { queue: packet.queue, id: packet.id, mark: packet.mark };
        let seen = self.sight(packet, counts);
        if let Some((cookie, tell)) = watch
            && let Some(number) = probe::recognise(packet.payload, *cookie)
        {
            let _ = tell.send((number, self.pipeline.judge(&seen.fields)));
            gate.verdicts.drop(handle.queue, handle.id);
            return;
        }
        // A packet behind a superpacket that was sent to be cut goes the same way, so that it stays behind it.
        let flow = || self.pipeline.judge(&seen.fields).flow.flow;
        if packet.queue == self.whole && !detour.is_empty() && detour.contains(&flow()) {
            counts.cut += 1;
            gate.verdicts.requeue(handle.queue, handle.id, self.cut, Some(handle.mark));
            return;
        }
        if let Taken::TooLong(handle) = self.pipeline.arrive(now, handle, &seen, gate) {
            counts.cut += 1;
            detour.insert(self.pipeline.judge(&seen.fields).flow.flow);
            gate.verdicts.requeue(handle.queue, handle.id, self.cut, Some(handle.mark));
        }
    }

    fn sight(&self, packet: &Packet<'_>, counts: &mut WorkerCounts) -> Sighting {
        let seen = dissect::network(packet.payload, packet.length as usize).unwrap_or_else(|_| {
            counts.unreadable += 1;
            Dissection::default()
        });
        let mut fields = seen.fields;
        fields.mark = packet.mark & !self.marks.mask();
        fields.uid = packet.uid;
        fields.cgroup = self.marks.tag(packet.mark).and_then(|tag| self.groups.get(usize::from(tag)).copied());
        let whole = packet.gso && packet.queue == self.whole;
        Sighting {
            fields,
            ecn: seen.ecn,
            length: packet.length,
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

fn wait_failed(source: std::io::Error) -> crate::netlink::Error {
    crate::netlink::Error::System { operation: "wait for packets".into(), source }
}

/// Empties the bell; how often it rang does not matter.
fn drain_bell(bell: &UnixStream) {
    use std::io::Read;
    let mut bytes = [0; 64];
    while (&*bell).read(&mut bytes).is_ok_and(|n| n == bytes.len()) {}
}

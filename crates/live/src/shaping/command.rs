//! The thread of a data path as the control plane sees it: [`Command`]s in, verdicts, notifications and counters out.

use std::fs::File;
use std::iter::Sum;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tidegate_core::DropReason;
use tidegate_engine::{Change, Classification, Engine, Notification, Sink};
use tidegate_units::Instant;

use super::interfaces::InterfaceCounters;
use super::passing::Observer;
use super::queue::Written;
use crate::marks::{Action, MarkLayout};
use crate::nfqueue::{SocketCounters, Verdicts};
use crate::timing::ThreadUsage;

/// A packet that the kernel holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle {
    pub(super) queue: u16,
    /// The index of its interface in the data path.
    pub(super) interface: u8,
    pub(super) id: u32,
    pub(super) mark: u32,
    /// Its length from the network header on.
    pub(super) length: u32,
}

/// The engine as it runs live.
pub type LiveEngine = Engine<Handle>;

/// A change to the engine between two packets.
type Work = Box<dyn FnOnce(&mut LiveEngine, Instant, &mut VerdictSink) + Send>;

/// Receives notifications of flows, on the data path's thread, with the time of the turn in which they happened. Returns
/// `false` to receive no more.
pub type Listener = Box<dyn FnMut(Instant, &Notification<'_>) -> bool + Send>;

/// Receives the number and the classification of each probe.
pub(super) type ProbeWatch = Sender<(u32, Classification)>;

/// A request of the control plane, executed between two packets.
pub(super) enum Command {
    /// Call this with the engine.
    Do(Work),
    /// Replace the control groups that the tags of packets stand for.
    Groups(Vec<u64>),
    /// Report probes with this cookie and how they were classified. Probes are dropped even when the reports are no
    /// longer received: they are not traffic.
    Watch(u64, ProbeWatch),
    /// Report the counters.
    Count(Sender<WorkerCounts>),
    /// Add a listener.
    Listen(Listener),
    /// Observe what passes.
    Observe(Box<Observer>),
    /// Release every packet, end queueing, and confirm it.
    Pass(Sender<()>),
    /// Release every packet and end the thread.
    Stop,
    /// End the thread without releasing a packet, write the list of held packets, and report its length.
    Leave(Arc<File>, Sender<u64>),
}

/// The counters of the data path.
#[derive(Clone, Debug, Default)]
pub struct WorkerCounts {
    /// Counters of the queue socket.
    pub socket: SocketCounters,
    /// Packets that were accepted.
    pub passed: u64,
    /// Packets that were dropped.
    pub refused: u64,
    /// Superpackets requeued to be segmented, and packets that had to follow them.
    pub cut: u64,
    /// Packets whose headers could not be read; they passed through the default class.
    pub unreadable: u64,
    /// Turns of the loop.
    pub turns: u64,
    /// Processor time of the threads.
    pub usage: ThreadUsage,
    /// Packets that were let pass, each superpacket and each segment of one that was cut as one.
    pub let_pass: u64,
    /// Packets that were let pass and that the kernel discarded instead of sending them: the route had gone with which they
    /// waited.
    pub unsent: u64,
}

impl WorkerCounts {
    /// Packets that the kernel dropped while they waited, or with the route with which they waited.
    pub fn kernel_dropped(&self) -> u64 {
        self.socket.refused_verdicts + self.unsent
    }
}

impl Sum for WorkerCounts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            socket: SocketCounters {
                packets: sum.socket.packets + one.socket.packets,
                verdicts: sum.socket.verdicts + one.socket.verdicts,
                overruns: sum.socket.overruns + one.socket.overruns,
                refused_verdicts: sum.socket.refused_verdicts + one.socket.refused_verdicts,
                last_refusal: if one.socket.last_refusal == 0 {
                    sum.socket.last_refusal
                } else {
                    one.socket.last_refusal
                },
                truncated: sum.socket.truncated + one.socket.truncated,
                receive_calls: sum.socket.receive_calls + one.socket.receive_calls,
                send_calls: sum.socket.send_calls + one.socket.send_calls,
            },
            passed: sum.passed + one.passed,
            refused: sum.refused + one.refused,
            cut: sum.cut + one.cut,
            unreadable: sum.unreadable + one.unreadable,
            turns: sum.turns + one.turns,
            usage: ThreadUsage {
                user: sum.usage.user + one.usage.user,
                system: sum.usage.system + one.usage.system,
                voluntary_switches: sum.usage.voluntary_switches + one.usage.voluntary_switches,
                involuntary_switches: sum.usage.involuntary_switches + one.usage.involuntary_switches,
            },
            let_pass: sum.let_pass + one.let_pass,
            unsent: sum.unsent + one.unsent,
        })
    }
}

/// The sink of the live data path: collects verdicts.
pub struct VerdictSink {
    pub(super) verdicts: Verdicts,
    marks: MarkLayout,
    counters: Arc<InterfaceCounters>,
    /// The time of this turn.
    now: Instant,
    listeners: Vec<Listener>,
    /// Present while a rate follows the line.
    pub(super) observer: Option<Box<Observer>>,
    /// Packets that leave with a rate written into them.
    pub(super) written: Written,
}

impl VerdictSink {
    pub(super) fn new(marks: MarkLayout, counters: Arc<InterfaceCounters>, now: Instant) -> Self {
        let (listeners, written) = (Vec::new(), Written::default());
        Self { verdicts: Verdicts::new(), marks, counters, now, listeners, observer: None, written }
    }
    /// Adds a listener.
    pub(super) fn listen(&mut self, listener: Listener) {
        self.listeners.push(listener);
    }
}

impl Sink<Handle> for VerdictSink {
    fn transmit(&mut self, handle: Handle, change: Change) {
        self.counters.sent(handle.interface, handle.length);
        if let Some(observer) = &mut self.observer {
            observer.left(&handle);
        }
        let action = Action { dscp: change.dscp.map(|dscp| dscp.value()), congestion: change.congestion };
        let mark = (!action.is_none()).then(|| self.marks.with_action(handle.mark, action));
        match (self.written.take(&handle), mark) {
            (Some(bytes), mark) => self.verdicts.accept_rewritten(handle.queue, handle.id, mark, &bytes),
            (None, Some(mark)) => self.verdicts.accept_marked(handle.queue, handle.id, mark),
            (None, None) => self.verdicts.accept(handle.queue, handle.id),
        }
    }
    fn drop_packet(&mut self, handle: Handle, _reason: DropReason) {
        self.counters.dropped(handle.interface, handle.length);
        self.written.take(&handle);
        self.verdicts.drop(handle.queue, handle.id);
    }
    fn set_time(&mut self, now: Instant) {
        self.now = now;
    }
    fn wants_notifications(&self) -> bool {
        !self.listeners.is_empty()
    }
    fn notify(&mut self, notification: &Notification<'_>) {
        let now = self.now;
        self.listeners.retain_mut(|listener| listener(now, notification));
    }
}

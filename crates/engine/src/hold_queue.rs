//! [`HoldQueue`]: holds packets before a tree that has replaced another, or of flows that change their class.
//!
//! *Law*: no packet that was queued when the tree was replaced is lost, whatever the new tree refuses, and none leaves
//! before one of its flow that arrived earlier.
//!
//! Every flow that had packets queued has a queue of its own here. Of the packets that the old tree left behind one at
//! a time is *attempted* in the new tree. When the tree drops it, at once or later, it returns to the head of its
//! queue, which cannot change the order, for the rest of its flow is behind it; it is attempted again when a packet has
//! left, or after [`RETRY`]. When the last of them has left, the packets that arrived meanwhile follow all at once, and
//! the queue is removed: from then on the flow goes to the tree directly. Of a flow whose packets are in a tree that
//! stays, but of another class than that of the present rules, the queue holds what arrives until those have left.
//!
//! So that later arrivals cannot keep the refused packets out: while a packet of a class is refused, arrivals of that
//! class are held as well, and after [`GRACE`] arrivals of every class are, which empties the tree. A packet that even
//! an empty tree refuses then (a policer does, or a limit below its size) passes by the tree.
//!
//! *Cost*: nothing while no flow is held; else O(1) a packet.

use std::collections::{HashMap, VecDeque};

use tidegate_core::{ClassId, Deadline, DropReason, Instant, Span};

/// How long after a refusal the packet is attempted again, if none leaves before.
pub(crate) const RETRY: Span = Span::from_millis(1);
/// How long arrivals of other classes may precede packets that are refused.
pub(crate) const GRACE: Span = Span::from_secs(1);
/// The most arrivals held of one flow (or as many as were queued at the change), and in all. Beyond that they are
/// dropped as from a full queue.
const PER_FLOW: usize = 256;
const IN_ALL: usize = 65_536;
/// Flows whose packets are attempted again at once.
const RETRIES: usize = 64;

/// The packets of a held flow that are in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inside {
    /// No packet that the hold queue waits for.
    Nothing,
    /// This packet, which returns here if the tree drops it.
    Attempt(u32),
    /// So many packets that must leave before the queue may follow.
    Before(u32),
}

#[derive(Debug)]
struct FlowQueue {
    inside: Inside,
    /// Slots of the packet table, the oldest first.
    waiting: VecDeque<u32>,
    /// How many at the head are from before the change.
    older: usize,
    /// The most arrivals behind those.
    most: usize,
    /// The class of the packet that was refused.
    refused: Option<ClassId>,
}

impl FlowQueue {
    fn new(inside: Inside, waiting: VecDeque<u32>) -> Self {
        let older = waiting.len();
        Self { inside, waiting, older, most: older.max(PER_FLOW), refused: None }
    }
}

/// The next step of a flow that is ready.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// This packet is attempted.
    Attempt(u32),
    /// These packets go into the tree, and the flow is no longer held.
    Open(VecDeque<u32>),
    /// The flow stays held.
    Stay,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct HoldQueue {
    flows: HashMap<u64, FlowQueue>,
    /// Flows that may continue now.
    ready: VecDeque<u64>,
    /// Flows whose packet was refused, in the order of refusal.
    refused: VecDeque<u64>,
    /// How many of those there are of each class.
    refused_by_class: HashMap<ClassId, u32>,
    /// Flows that are held only because packets of others were refused.
    blocked: Vec<u64>,
    changed: Instant,
    retry_at: Instant,
    held_arrivals: usize,
}

impl HoldQueue {
    pub(crate) fn new() -> Self {
        Self {
            flows: HashMap::new(),
            ready: VecDeque::new(),
            refused: VecDeque::new(),
            refused_by_class: HashMap::new(),
            blocked: Vec::new(),
            changed: Instant::ZERO,
            retry_at: Instant::ZERO,
            held_arrivals: 0,
        }
    }
    /// Whether no flow is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }
    /// The number of flows that are held.
    pub(crate) fn flows(&self) -> usize {
        self.flows.len()
    }
    /// The tree has changed at `now`: [`GRACE`] begins.
    pub(crate) fn changed(&mut self, now: Instant) {
        self.changed = now;
    }
    /// Whether packet `at` of `flow` is attempted in the tree.
    pub(crate) fn is_attempted(&self, flow: u64, at: u32) -> bool {
        self.flows.get(&flow).is_some_and(|queue| queue.inside == Inside::Attempt(at))
    }
    /// Holds a flow, with its packets from before the change, the oldest first.
    pub(crate) fn hold_flow(&mut self, flow: u64, inside: Inside, older: VecDeque<u32>) {
        if inside == Inside::Nothing {
            self.ready.push_back(flow);
        }
        self.flows.insert(flow, FlowQueue::new(inside, older));
    }

    /// Whether an arrival of `flow` in `class` is held; the reason to drop it where the queue is full.
    pub(crate) fn arrive(&mut self, now: Instant, flow: u64, class: ClassId, at: u32) -> Result<bool, DropReason> {
        if self.is_empty() {
            return Ok(false);
        }
        let blocked =
            !self.refused.is_empty() && (now >= self.changed + GRACE || self.refused_by_class.contains_key(&class));
        let queue = match self.flows.get_mut(&flow) {
            Some(queue) => queue,
            None if !blocked => return Ok(false),
            None => {
                self.blocked.push(flow);
                self.flows.entry(flow).or_insert_with(|| FlowQueue::new(Inside::Nothing, VecDeque::new()))
            }
        };
        if queue.waiting.len() - queue.older >= queue.most {
            return Err(DropReason::FlowLimit);
        }
        if self.held_arrivals >= IN_ALL {
            return Err(DropReason::QueueLimit);
        }
        queue.waiting.push_back(at);
        self.held_arrivals += 1;
        Ok(true)
    }

    /// Packet `at` of `flow` was dropped by the tree. An attempted packet is taken back: returns `true`.
    pub(crate) fn dropped(&mut self, now: Instant, flow: u64, class: ClassId, at: u32) -> bool {
        let Some(queue) = self.flows.get_mut(&flow) else { return false };
        if queue.inside != Inside::Attempt(at) {
            self.left(flow, at);
            return false;
        }
        queue.inside = Inside::Nothing;
        queue.waiting.push_front(at);
        queue.older += 1;
        if queue.refused.is_none() {
            queue.refused = Some(class);
            *self.refused_by_class.entry(class).or_default() += 1;
        }
        self.refused.push_back(flow);
        self.retry_at = now + RETRY;
        true
    }

    /// Packet `at` of `flow` has left the tree.
    pub(crate) fn left(&mut self, flow: u64, at: u32) {
        let Some(queue) = self.flows.get_mut(&flow) else { return };
        match queue.inside {
            Inside::Attempt(attempt) if attempt == at => {
                queue.inside = Inside::Nothing;
                if let Some(class) = queue.refused.take() {
                    self.resolve(class);
                }
                self.ready.push_back(flow);
            }
            Inside::Before(packets) if packets > 1 => queue.inside = Inside::Before(packets - 1),
            Inside::Before(_) => {
                queue.inside = Inside::Nothing;
                self.ready.push_back(flow);
            }
            Inside::Attempt(_) | Inside::Nothing => {}
        }
    }

    /// A refused packet of `class` has left.
    fn resolve(&mut self, class: ClassId) {
        if let Some(refused) = self.refused_by_class.get_mut(&class) {
            *refused -= 1;
            if *refused == 0 {
                self.refused_by_class.remove(&class);
            }
        }
        if self.refused_by_class.is_empty() {
            self.ready.extend(self.blocked.drain(..));
        }
    }

    /// A packet has left the tree: a refused one may fit now.
    pub(crate) fn retry_one(&mut self) {
        self.ready.extend(self.refused.pop_front());
    }
    /// Makes refused packets ready when it is time to attempt them again.
    pub(crate) fn retry(&mut self, now: Instant) {
        if !self.refused.is_empty() && self.retry_at <= now {
            let n = self.refused.len().min(RETRIES);
            self.ready.extend(self.refused.drain(..n));
            self.retry_at = now + RETRY;
        }
    }
    /// When [`HoldQueue::retry`] does something.
    pub(crate) fn deadline(&self, now: Instant) -> Deadline {
        if self.refused.is_empty() { Deadline::Idle } else { Deadline::at(self.retry_at, now) }
    }
    /// The next flow that is ready.
    pub(crate) fn next_ready(&mut self) -> Option<u64> {
        self.ready.pop_front()
    }
    /// Returns the next step of a flow.
    pub(crate) fn step(&mut self, flow: u64) -> Step {
        let Some(queue) = self.flows.get_mut(&flow) else { return Step::Stay };
        if queue.inside != Inside::Nothing {
            return Step::Stay;
        }
        if queue.older > 0
            && let Some(at) = queue.waiting.pop_front()
        {
            queue.older -= 1;
            queue.inside = Inside::Attempt(at);
            return Step::Attempt(at);
        }
        self.held_arrivals -= queue.waiting.len();
        Step::Open(self.flows.remove(&flow).map(|queue| queue.waiting).unwrap_or_default())
    }
    /// Whether a packet that an empty tree refuses at `now` passes by it.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        now >= self.changed + GRACE
    }
    /// The packet that was refused last, if it was one of `flow`, passes by the tree.
    pub(crate) fn pass_by(&mut self, flow: u64) -> Option<u32> {
        if self.refused.back() != Some(&flow) {
            return None;
        }
        let queue = self.flows.get_mut(&flow)?;
        let at = queue.waiting.pop_front()?;
        queue.older -= 1;
        let class = queue.refused.take();
        self.refused.pop_back();
        if let Some(class) = class {
            self.resolve(class);
        }
        self.ready.push_back(flow);
        Some(at)
    }
}

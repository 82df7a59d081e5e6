//! [`HoldQueue`] holds packets in front of a tree that has replaced another, and packets of flows that change their class.
//!
//! *Law*: no packet that was queued when the tree was replaced is lost, even if the new tree refuses it, and packets of a
//! flow leave in the order of their arrival.
//!
//! Each flow with packets of the old tree has a queue here. One packet of it at a time is *attempted*, that is, queued in the
//! new tree. If the tree drops that packet, at once or later, the packet returns to the head of its queue, and is attempted
//! again when another packet has left, or after [`RETRY`]. That keeps the order, since the rest of the flow is behind it. When
//! the last packet of the old tree has left, the packets that arrived meanwhile follow at once, the queue is removed, and from
//! then on packets of the flow are queued in the tree directly. If the tree stays but the rules move a flow to another class,
//! the queue holds the arrivals of the flow until its packets in the old class have left.
//!
//! Later arrivals must not keep refused packets out for ever. While a packet of a class is refused, arrivals of that class are
//! held too; after [`GRACE`], arrivals of every class are, so that the tree empties. A packet that even an empty tree refuses
//! (because of a policer, or a limit below its size) then bypasses the tree.
//!
//! *Cost*: nothing while no flow is held; otherwise O(1) for each packet.

use std::collections::{HashMap, VecDeque};

use tidegate_core::{ClassId, Deadline, DropReason, Instant, Span};

/// The time after which a refused packet is attempted again, if no packet leaves before.
pub(crate) const RETRY: Span = Span::from_millis(1);
/// The time for which arrivals of other classes may precede refused packets.
pub(crate) const GRACE: Span = Span::from_secs(1);
/// The most arrivals of one flow that are held, if not more of its packets were queued at the change. Others are dropped.
const PER_FLOW: usize = 256;
/// The most arrivals that are held in all.
const IN_ALL: usize = 65_536;
/// The most refused flows that are attempted again in one call.
const RETRIES: usize = 64;

/// The packets of a held flow that are in the tree and must leave before the flow continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inside {
    Nothing,
    /// The packet in this slot, which returns to its queue if the tree drops it.
    Attempt(u32),
    /// This number of packets from before the change.
    Before(u32),
}

#[derive(Debug)]
struct FlowQueue {
    inside: Inside,
    /// Slots in the packet table, the oldest packet first.
    waiting: VecDeque<u32>,
    /// The number of packets at the head that arrived before the change.
    older: usize,
    /// The most arrivals behind these.
    most: usize,
    /// The class of the packet at the head, if the tree has refused that packet.
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
    /// Queue this packet in the tree; the flow stays held.
    Attempt(u32),
    /// Queue these packets in the tree; the flow is no longer held.
    Open(VecDeque<u32>),
    /// Nothing; the flow stays held.
    Stay,
}

/// See the [module](self).
#[derive(Default, Debug)]
pub(crate) struct HoldQueue {
    flows: HashMap<u64, FlowQueue>,
    /// Flows that may continue now.
    ready: VecDeque<u64>,
    /// Flows whose packet was refused, in the order of refusal.
    refused: VecDeque<u64>,
    /// The number of refused packets of each class.
    refused_by_class: HashMap<ClassId, u32>,
    /// Flows that are held only because packets of other flows were refused.
    blocked: Vec<u64>,
    changed: Instant,
    retry_at: Instant,
    held_arrivals: usize,
}

impl HoldQueue {
    /// Whether no flow is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }
    /// The number of flows that are held.
    pub(crate) fn flows(&self) -> usize {
        self.flows.len()
    }
    /// Begins [`GRACE`] after a change at `now`.
    pub(crate) fn changed(&mut self, now: Instant) {
        self.changed = now;
    }
    /// Whether the packet in `slot` is in the tree as an attempt.
    pub(crate) fn is_attempted(&self, flow: u64, slot: u32) -> bool {
        self.flows.get(&flow).is_some_and(|queue| queue.inside == Inside::Attempt(slot))
    }
    /// Holds a flow; `older` are its packets from before the change, the oldest first.
    pub(crate) fn hold_flow(&mut self, flow: u64, inside: Inside, older: VecDeque<u32>) {
        if inside == Inside::Nothing {
            self.ready.push_back(flow);
        }
        self.flows.insert(flow, FlowQueue::new(inside, older));
    }

    /// Returns whether the arrival in `slot` is held; if its queue is full, the reason to drop it.
    pub(crate) fn arrive(&mut self, now: Instant, flow: u64, class: ClassId, slot: u32) -> Result<bool, DropReason> {
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
        queue.waiting.push_back(slot);
        self.held_arrivals += 1;
        Ok(true)
    }

    /// Called when the tree drops the packet in `slot`. Takes an attempted packet back, and returns whether it did.
    pub(crate) fn dropped(&mut self, now: Instant, flow: u64, class: ClassId, slot: u32) -> bool {
        let Some(queue) = self.flows.get_mut(&flow) else { return false };
        if queue.inside != Inside::Attempt(slot) {
            self.departed(flow, slot);
            return false;
        }
        queue.inside = Inside::Nothing;
        queue.waiting.push_front(slot);
        queue.older += 1;
        if queue.refused.is_none() {
            queue.refused = Some(class);
            *self.refused_by_class.entry(class).or_default() += 1;
        }
        self.refused.push_back(flow);
        self.retry_at = now + RETRY;
        true
    }

    /// Called when the packet in `slot` has left the tree.
    pub(crate) fn departed(&mut self, flow: u64, slot: u32) {
        let Some(queue) = self.flows.get_mut(&flow) else { return };
        match queue.inside {
            Inside::Attempt(attempt) if attempt == slot => {
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

    /// Forgets one refused packet of `class`, which has left.
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

    /// Makes the oldest refused packet ready: a packet has left the tree, so that it may fit now.
    pub(crate) fn retry_one(&mut self) {
        self.ready.extend(self.refused.pop_front());
    }
    /// Makes refused packets ready if it is time to attempt them again.
    pub(crate) fn retry(&mut self, now: Instant) {
        if !self.refused.is_empty() && self.retry_at <= now {
            let n = self.refused.len().min(RETRIES);
            self.ready.extend(self.refused.drain(..n));
            self.retry_at = now + RETRY;
        }
    }
    /// When [`HoldQueue::retry`] will next have an effect.
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
            && let Some(slot) = queue.waiting.pop_front()
        {
            queue.older -= 1;
            queue.inside = Inside::Attempt(slot);
            return Step::Attempt(slot);
        }
        self.held_arrivals -= queue.waiting.len();
        Step::Open(self.flows.remove(&flow).map(|queue| queue.waiting).unwrap_or_default())
    }
    /// Whether a packet that an empty tree refuses at `now` may bypass the tree.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        now >= self.changed + GRACE
    }
    /// Takes out the packet that was refused last, if it is one of `flow`, to bypass the tree.
    pub(crate) fn pass_by(&mut self, flow: u64) -> Option<u32> {
        if self.refused.back() != Some(&flow) {
            return None;
        }
        let queue = self.flows.get_mut(&flow)?;
        let slot = queue.waiting.pop_front()?;
        queue.older -= 1;
        let class = queue.refused.take();
        self.refused.pop_back();
        if let Some(class) = class {
            self.resolve(class);
        }
        self.ready.push_back(flow);
        Some(slot)
    }
}

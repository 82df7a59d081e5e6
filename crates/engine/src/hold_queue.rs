//! The hold queue in front of a tree that has taken the place of another.
//!
//! *Law*: no packet that waited when the tree was changed is lost, whatever the new one refuses, and none leaves
//! before one of its flow that came earlier.
//!
//! Every flow that had packets waiting has a *line* here. Of a line that the old tree left behind, one packet at a
//! time is on trial in the new tree. When the tree drops it, at once or later, it goes back to the head of its line,
//! which cannot change the order, for the rest of its flow stands behind it; it is tried again when something has left,
//! or after [`AGAIN`]. When the last has left, those that came in the meantime follow all at once, and the line is gone:
//! from then on the flow meets the tree like any other. Of a flow whose packets are in a tree that stays, but of another
//! class than the rules now say, the line holds what comes until those have left.
//!
//! So that those who come later cannot keep the refused out: while a packet of a class is refused, arrivals of that class
//! stand in line as well, and after [`PATIENCE`] arrivals of every class do, which empties the tree. What is refused even
//! by an empty tree then (by a policer, or because it can never fit) passes by it.
//!
//! *Cost*: nothing while there are no lines; else O(1) a packet.

use std::collections::{HashMap, VecDeque};

use tidegate_core::{ClassId, Deadline, DropReason, Instant, Span};

/// How long after a refusal the packet is tried again, if nothing leaves before.
pub(crate) const AGAIN: Span = Span::from_millis(1);
/// How long arrivals of other classes may go before packets that are refused.
pub(crate) const PATIENCE: Span = Span::from_secs(1);
/// Arrivals that may stand in one line (or as many as waited in it at the change), and in all; beyond that they are
/// dropped as from a full queue.
const LINE: usize = 256;
const ALL: usize = 65_536;
/// Lines tried again at once when the time for that has come.
const TRIALS: usize = 64;

/// What of a flow is in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inside {
    /// Nothing that matters.
    Nothing,
    /// This packet, which comes back here if the tree drops it.
    Trial(u32),
    /// So many packets that must leave before the line may follow.
    Before(u32),
}

#[derive(Debug)]
struct Line {
    inside: Inside,
    /// Packets by their numbers in the packet table, the oldest first.
    waiting: VecDeque<u32>,
    /// How many at the head are from before the change.
    adopted: usize,
    /// Arrivals that may stand behind those.
    most: usize,
    /// The class of the packet that was refused.
    refused: Option<ClassId>,
}

impl Line {
    fn new(inside: Inside, waiting: VecDeque<u32>) -> Self {
        let adopted = waiting.len();
        Self { inside, waiting, adopted, most: adopted.max(LINE), refused: None }
    }
}

/// What a flow whose line may move on does next.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// This packet is tried.
    Try(u32),
    /// These packets go into the tree, and the line is gone.
    Open(VecDeque<u32>),
    /// Nothing yet.
    Stay,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct HoldQueue {
    lines: HashMap<u64, Line>,
    /// Flows whose line may move on now.
    ready: VecDeque<u64>,
    /// Flows whose packet was refused, the first first.
    refused: VecDeque<u64>,
    /// How many of those there are, by class.
    jams: HashMap<ClassId, u32>,
    /// Flows that stand in line only because others were refused.
    behind: Vec<u64>,
    changed: Instant,
    again: Instant,
    newcomers: usize,
}

impl HoldQueue {
    pub(crate) fn new() -> Self {
        Self {
            lines: HashMap::new(),
            ready: VecDeque::new(),
            refused: VecDeque::new(),
            jams: HashMap::new(),
            behind: Vec::new(),
            changed: Instant::ZERO,
            again: Instant::ZERO,
            newcomers: 0,
        }
    }
    /// Whether nobody stands in line.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
    /// How many flows stand in line.
    pub(crate) fn lines(&self) -> usize {
        self.lines.len()
    }
    /// A change at `now`: from here patience is counted.
    pub(crate) fn changed(&mut self, now: Instant) {
        self.changed = now;
    }
    /// Whether packet `at` of `flow` is on trial in the tree.
    pub(crate) fn is_on_trial(&self, flow: u64, at: u32) -> bool {
        self.lines.get(&flow).is_some_and(|line| line.inside == Inside::Trial(at))
    }
    /// A line of packets from before the change, the oldest first, for a flow that has none.
    pub(crate) fn line_up(&mut self, flow: u64, inside: Inside, adopted: VecDeque<u32>) {
        if inside == Inside::Nothing {
            self.ready.push_back(flow);
        }
        self.lines.insert(flow, Line::new(inside, adopted));
    }

    /// Whether an arrival of `flow` in `class` must stand in line, and why it cannot if there is no room.
    pub(crate) fn arrive(&mut self, now: Instant, flow: u64, class: ClassId, at: u32) -> Result<bool, DropReason> {
        if self.is_empty() {
            return Ok(false);
        }
        let jammed = !self.refused.is_empty() && (now >= self.changed + PATIENCE || self.jams.contains_key(&class));
        let line = match self.lines.get_mut(&flow) {
            Some(line) => line,
            None if !jammed => return Ok(false),
            None => {
                self.behind.push(flow);
                self.lines.entry(flow).or_insert_with(|| Line::new(Inside::Nothing, VecDeque::new()))
            }
        };
        if line.waiting.len() - line.adopted >= line.most {
            return Err(DropReason::FlowLimit);
        }
        if self.newcomers >= ALL {
            return Err(DropReason::QueueLimit);
        }
        line.waiting.push_back(at);
        self.newcomers += 1;
        Ok(true)
    }

    /// Packet `at` of `flow` has left the tree for good, or was dropped by it; a packet on trial that was dropped is
    /// taken back, and `true` says so.
    pub(crate) fn dropped(&mut self, now: Instant, flow: u64, class: ClassId, at: u32) -> bool {
        let Some(line) = self.lines.get_mut(&flow) else { return false };
        if line.inside != Inside::Trial(at) {
            self.left(flow, at);
            return false;
        }
        line.inside = Inside::Nothing;
        line.waiting.push_front(at);
        line.adopted += 1;
        if line.refused.is_none() {
            line.refused = Some(class);
            *self.jams.entry(class).or_default() += 1;
        }
        self.refused.push_back(flow);
        self.again = now + AGAIN;
        true
    }

    /// Packet `at` of `flow` has left the tree.
    pub(crate) fn left(&mut self, flow: u64, at: u32) {
        let Some(line) = self.lines.get_mut(&flow) else { return };
        match line.inside {
            Inside::Trial(trial) if trial == at => {
                line.inside = Inside::Nothing;
                if let Some(class) = line.refused.take() {
                    self.settle(class);
                }
                self.ready.push_back(flow);
            }
            Inside::Before(packets) if packets > 1 => line.inside = Inside::Before(packets - 1),
            Inside::Before(_) => {
                line.inside = Inside::Nothing;
                self.ready.push_back(flow);
            }
            Inside::Trial(_) | Inside::Nothing => {}
        }
    }

    /// One refused packet of `class` less.
    fn settle(&mut self, class: ClassId) {
        if let Some(jam) = self.jams.get_mut(&class) {
            *jam -= 1;
            if *jam == 0 {
                self.jams.remove(&class);
            }
        }
        if self.jams.is_empty() {
            self.ready.extend(self.behind.drain(..));
        }
    }

    /// Something has left the tree: there may be room for a refused packet.
    pub(crate) fn made_room(&mut self) {
        self.ready.extend(self.refused.pop_front());
    }
    /// The time to try refused packets again has come, if it has.
    pub(crate) fn wake(&mut self, now: Instant) {
        if !self.refused.is_empty() && self.again <= now {
            let n = self.refused.len().min(TRIALS);
            self.ready.extend(self.refused.drain(..n));
            self.again = now + AGAIN;
        }
    }
    /// When [`HoldQueue::wake`] does something.
    pub(crate) fn deadline(&self, now: Instant) -> Deadline {
        if self.refused.is_empty() { Deadline::Idle } else { Deadline::at(self.again, now) }
    }
    /// The next flow whose line may move on.
    pub(crate) fn next_ready(&mut self) -> Option<u64> {
        self.ready.pop_front()
    }
    /// What that flow does.
    pub(crate) fn step(&mut self, flow: u64) -> Step {
        let Some(line) = self.lines.get_mut(&flow) else { return Step::Stay };
        if line.inside != Inside::Nothing {
            return Step::Stay;
        }
        if line.adopted > 0
            && let Some(at) = line.waiting.pop_front()
        {
            line.adopted -= 1;
            line.inside = Inside::Trial(at);
            return Step::Try(at);
        }
        self.newcomers -= line.waiting.len();
        Step::Open(self.lines.remove(&flow).map(|line| line.waiting).unwrap_or_default())
    }
    /// Whether a packet that an empty tree refuses at `now` passes by it.
    pub(crate) fn is_out_of_patience(&self, now: Instant) -> bool {
        now >= self.changed + PATIENCE
    }
    /// The packet that was refused last of all, if it was that of `flow`, passes by the tree.
    pub(crate) fn pass_by(&mut self, flow: u64) -> Option<u32> {
        if self.refused.back() != Some(&flow) {
            return None;
        }
        let line = self.lines.get_mut(&flow)?;
        let at = line.waiting.pop_front()?;
        line.adopted -= 1;
        let class = line.refused.take();
        self.refused.pop_back();
        if let Some(class) = class {
            self.settle(class);
        }
        self.ready.push_back(flow);
        Some(at)
    }
}

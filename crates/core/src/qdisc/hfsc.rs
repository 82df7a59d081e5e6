//! H-FSC: the hierarchical fair service curve scheduler.
//!
//! *Law*: a leaf with a guarantee gets its service curve: of the service that the curve asks for by a time, all but what a
//! largest packet of the link takes (Lmax/r) is sent by then, whatever the others send. What remains is shared at every
//! class in proportion to the `share` of those below that have packets, and no class pays later for what it got so.
//! *Source*: Stoica, Zhang and Ng, "A hierarchical fair service curve algorithm for link-sharing, real-time and priority
//! service" (SIGCOMM 1997): equations (3) to (12), figures 4 to 6; theorem 2 is the law.
//! *Units*: rates in bit/s, times in ns, service in exact credit; virtual time is whole ns.
//! *Example*: below.
//! *Cost*: O(d log n) a packet for a tree of depth d with n classes; `deadline` is O(1). No allocation after warm-up.
//! *Notes*: guarantees must fit the link at all times: `new` checks their sum. Delay and rate are separate: a burst within
//! a time that the rate alone would not give. A leaf with a guarantee and without a share gets no more than its guarantee.
//! The size of a packet must be known to know its deadline, so each leaf holds its first packet outside its queue. If the
//! queue of a leaf delays packets, its deadline is when one comes out of it, which need not leave then.
//! *Departures from the source, and why*: of convex curves the minimum is not computed in full (see `Running`): the session
//! may be asked for more than the definition does, never less. A class that becomes active joins at the mean of the least
//! and the greatest virtual time of its brothers, as in the paper, and where there are none at the greatest that there was.
//! There is no upper limit, an addition of later implementations. The link is modelled here, as for
//! [`wfq`](crate::wfq).
//! *See also*: [`htb`](crate::htb) and [`cbq`](crate::cbq), where rate and delay go together; [`wf2q`](crate::wf2q).
//!
//! ```
//! use tidegate_core::{fifo::{Fifo, Limit}, hfsc::{Class, Curve, Hfsc, Node}, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u32);
//! # impl Packet for P {
//! #     fn size(&self) -> Bytes { Bytes::new(1000) }
//! #     fn flow(&self) -> FlowKey { FlowKey::default() }
//! #     fn class(&self) -> ClassId { ClassId(self.0) }
//! # }
//! let queue = || Fifo::new(Limit::packets(50));
//! let calls = Curve::burst_within(Rate::from_mbit(1), Bytes::new(1000), Span::from_millis(2));
//! let tree = vec![
//!     Node::leaf(Class::guaranteed(calls), None, queue()),
//!     Node::leaf(Class::sharing(Curve::linear(Rate::from_mbit(7))), None, queue()),
//! ];
//! let mut hfsc = Hfsc::new(Rate::from_mbit(8), Span::ZERO, tree, None)?;
//! (0..3).for_each(|_| { hfsc.enqueue(Instant::ZERO, P(1), &mut Discard); });
//! (0..2).for_each(|_| { hfsc.enqueue(Instant::ZERO, P(0), &mut Discard); });
//! let at = |ms| Instant::ZERO + Span::from_millis(ms);
//! let order: Vec<_> = (0..5).map(|ms| hfsc.dequeue(at(ms), &mut Discard).unwrap().0).collect();
//! // The first call is due at 2 ms. The second is due at 10 ms, at 1 Mbit/s, and eligible from 2 ms on.
//! assert_eq!(order, [0, 1, 0, 1, 1]);
//! # Ok::<(), ParamError>(())
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::bucket::TokenBucket;
use crate::dualpi2::Coupled;
use crate::heap::{Heap, NOWHERE};
use crate::packet::{ClassId, Packet};
use crate::params::ParamError;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc, Queued};
use crate::slab::{Slab, Slot as _};
use crate::tree::NodeId;
use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

mod curve;

pub use curve::Curve;
use curve::Running;

/// The curves of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// The service that a leaf is sure of. That of an inner class has no meaning.
    pub guarantee: Option<Curve>,
    /// How it shares with its brothers; `None` for a leaf that gets its guarantee alone.
    pub share: Option<Curve>,
}

impl Class {
    /// A leaf whose share follows from its guarantee.
    pub const fn new(curve: Curve) -> Self {
        Self { guarantee: Some(curve), share: Some(curve) }
    }
    /// A leaf that gets its guarantee alone.
    pub const fn guaranteed(curve: Curve) -> Self {
        Self { guarantee: Some(curve), share: None }
    }
    /// A class without a guarantee.
    pub const fn sharing(curve: Curve) -> Self {
        Self { guarantee: None, share: Some(curve) }
    }
}

/// A class and its place in the tree.
pub type Node<Q> = crate::tree::Node<Class, Q>;

/// The positions of a class in the heaps.
#[derive(Clone, Copy, Debug)]
struct Places {
    /// In `not_yet`, or in `eligible`.
    real_time: u32,
    least: u32,
    greatest: u32,
    waiting: u32,
}

#[derive(Clone, Debug)]
struct State<P, Q> {
    class: Class,
    parent: NodeId,
    queue: Option<Q>,
    /// The first packet of a leaf.
    first: Option<P>,
    /// Deadline curve, service by the real-time criterion, and eligible time and deadline of the first packet.
    deadlines: Running,
    by_deadline: Credit,
    eligible_at: Instant,
    due: Instant,
    is_eligible: bool,
    /// Virtual curve, all service, and virtual time.
    virtual_curve: Running,
    service: Credit,
    virtual_time: u64,
    is_active: bool,
    /// The active classes below by virtual time, and the greatest that one has had.
    least: Heap<u64, NodeId>,
    greatest: Heap<Reverse<u64>, NodeId>,
    latest_below: u64,
    places: Places,
}

/// The hierarchical fair service curve scheduler. See the [module](self).
#[derive(Clone, Debug)]
pub struct Hfsc<P, Q = Box<dyn Qdisc<P>>> {
    /// The link is the first.
    nodes: Slab<NodeId, State<P, Q>>,
    /// The node of each class number.
    leaves: Vec<NodeId>,
    default: Option<ClassId>,
    link: TokenBucket,
    /// Leaves with a packet and a guarantee, by eligible time; those whose time has come, by deadline.
    not_yet: Heap<Instant, NodeId>,
    eligible: Heap<Instant, NodeId>,
    /// Leaves without a packet whose queue delays some, by when one comes out.
    waiting: Heap<Instant, NodeId>,
    backlog: Backlog,
    latest: Instant,
}

/// The root of the tree.
const LINK: NodeId = NodeId::FIRST;

impl<P: Packet, Q: Qdisc<P>> Hfsc<P, Q> {
    /// Creates the tree, empty. A node comes after its parent; the leaves are the classes 0, 1, 2, in order. `lead` is
    /// how far ahead of the link packets are released.
    ///
    /// # Errors
    /// As [`Curve::validate`]; a link of rate zero; no leaf; a parent that has a queue or comes later; a leaf without any
    /// curve; guarantees that exceed the link at some time; a default that is not a leaf.
    pub fn new(link: Rate, lead: Span, tree: Vec<Node<Q>>, default: Option<ClassId>) -> Result<Self, ParamError> {
        if link.is_zero() {
            return Err(ParamError::new("link", "a link of rate zero sends nothing; give its rate"));
        }
        let root = Node { class: Class::sharing(Curve::linear(link)), parent: None, queue: None };
        let (mut nodes, mut leaves) = (Slab::<NodeId, State<P, Q>>::with_capacity(tree.len() + 1), Vec::new());
        for Node { class, parent, queue } in core::iter::once(root).chain(tree) {
            [class.guarantee, class.share].iter().flatten().try_for_each(Curve::validate)?;
            if class.share.is_none() && class.guarantee.is_none() {
                return Err(ParamError::new("guarantee", "a class needs a guarantee, a share, or both"));
            }
            let (node, parent) =
                (NodeId::numbered(nodes.slots()), NodeId::numbered(parent.map_or(0, |parent| parent + 1)));
            if node != LINK && nodes.get(parent).is_none_or(|above| above.queue.is_some()) {
                return Err(ParamError::new("parent", "must be a class without a queue that comes before"));
            }
            if queue.is_some() {
                leaves.push(node);
            }
            nodes.push(State {
                class,
                parent,
                queue,
                first: None,
                deadlines: Running::default(),
                by_deadline: Credit::ZERO,
                eligible_at: Instant::ZERO,
                due: Instant::ZERO,
                is_eligible: false,
                virtual_curve: Running::default(),
                service: Credit::ZERO,
                virtual_time: 0,
                is_active: false,
                least: Heap::new(),
                greatest: Heap::new(),
                latest_below: 0,
                places: Places { real_time: NOWHERE, least: NOWHERE, greatest: NOWHERE, waiting: NOWHERE },
            });
        }
        if leaves.is_empty() {
            return Err(ParamError::new("class", "must have at least one with a queue"));
        }
        if default.is_some_and(|class| class.0 as usize >= leaves.len()) {
            return Err(ParamError::new("default", "must be a class with a queue"));
        }
        let guarantees: Vec<Curve> = leaves.iter().filter_map(|leaf| nodes[*leaf].class.guarantee).collect();
        check_sum(link, &guarantees)?;
        Ok(Self {
            nodes,
            leaves,
            default,
            link: TokenBucket::full(link, link.bytes_in_floor(lead), Instant::ZERO),
            not_yet: Heap::new(),
            eligible: Heap::new(),
            waiting: Heap::new(),
            backlog: Backlog::default(),
            latest: Instant::ZERO,
        })
    }

    /// Takes the first packet out of the queue of a leaf that has none outside, or notes when there will be one.
    fn refill(&mut self, leaf: NodeId, out: &mut dyn Outlet<P>) {
        let latest = self.latest;
        let node = &mut self.nodes[leaf];
        let Some(queue) = &mut node.queue else { return };
        if node.first.is_none() {
            let before = queue.backlog();
            node.first = queue.dequeue(latest, out);
            let after = queue.backlog();
            self.backlog.packets -= before.packets - after.packets;
            self.backlog.bytes -= before.bytes - after.bytes;
            if let Some(first) = &node.first {
                self.backlog.add(first.size());
            }
        }
        let wakes = match (&node.first, queue.deadline(latest)) {
            (Some(_), _) | (None, Deadline::Idle) => None,
            (None, deadline) => deadline.instant(latest),
        };
        let at = node.places.waiting;
        let nodes = &mut self.nodes;
        let mut place = |id: NodeId, to| nodes[id].places.waiting = to;
        match wakes {
            Some(time) => self.waiting.set(at, time, leaf, &mut place),
            None => self.waiting.remove(at, &mut place),
        }
    }

    /// Gives a leaf that got its first packet after a silence its curves (figures 5 and 6 of the paper).
    fn activate(&mut self, leaf: NodeId) {
        let node = &mut self.nodes[leaf];
        if let Some(curve) = node.class.guarantee {
            node.deadlines.begin(&curve, self.latest.as_nanos(), node.by_deadline);
            self.renew_deadline(leaf, true);
        }
        let mut n = leaf;
        while n != LINK
            && !self.nodes[n].is_active
            && let Some(share) = self.nodes[n].class.share
        {
            let parent = self.nodes[n].parent;
            let above = &self.nodes[parent];
            let joins = match (above.least.peek(), above.greatest.peek()) {
                (Some((least, _)), Some((Reverse(greatest), _))) => least + (greatest - least) / 2,
                _ => above.latest_below,
            };
            let node = &mut self.nodes[n];
            node.is_active = true;
            node.virtual_curve.begin(&share, joins, node.service);
            self.place_by_virtual_time(n);
            n = parent;
        }
    }

    /// Computes eligible time, if `anew`, and deadline of the first packet of a leaf with a guarantee, or takes the leaf
    /// out when it has none.
    fn renew_deadline(&mut self, leaf: NodeId, anew: bool) {
        let nodes = &mut self.nodes;
        let node = &mut nodes[leaf];
        if node.class.guarantee.is_none() {
            return;
        }
        let (at, was_eligible) = (node.places.real_time, node.is_eligible);
        let size = node.first.as_ref().map(Packet::size);
        if let Some(size) = size {
            if anew {
                node.eligible_at = Instant::from_nanos(node.deadlines.eligible(node.by_deadline));
            }
            node.due = Instant::from_nanos(node.deadlines.reaches(node.by_deadline + Credit::of(size)));
        }
        node.is_eligible = size.is_some() && node.eligible_at <= self.latest;
        let (is_eligible, eligible_at, due) = (node.is_eligible, node.eligible_at, node.due);
        let mut place = |id: NodeId, to| nodes[id].places.real_time = to;
        if was_eligible {
            self.eligible.remove(at, &mut place);
        } else {
            self.not_yet.remove(at, &mut place);
        }
        match size {
            Some(_) if is_eligible => self.eligible.insert(due, leaf, &mut place),
            Some(_) => self.not_yet.insert(eligible_at, leaf, &mut place),
            None => {}
        }
    }

    /// Gives an active class its place among its brothers, or takes out one that is not active.
    fn place_by_virtual_time(&mut self, n: NodeId) {
        let node = &mut self.nodes[n];
        let (parent, places, is_active) = (node.parent, node.places, node.is_active);
        if is_active {
            node.virtual_time = node.virtual_curve.reaches(node.service);
        }
        let time = node.virtual_time;
        let above = &mut self.nodes[parent];
        above.latest_below = above.latest_below.max(time);
        let mut least = core::mem::replace(&mut above.least, Heap::new());
        let mut greatest = core::mem::replace(&mut above.greatest, Heap::new());
        let nodes = &mut self.nodes;
        if is_active {
            least.set(places.least, time, n, &mut |id, to| nodes[id].places.least = to);
            greatest.set(places.greatest, Reverse(time), n, &mut |id, to| nodes[id].places.greatest = to);
        } else {
            least.remove(places.least, &mut |id, to| nodes[id].places.least = to);
            greatest.remove(places.greatest, &mut |id, to| nodes[id].places.greatest = to);
        }
        nodes[parent].least = least;
        nodes[parent].greatest = greatest;
    }

    /// Counts the service of a leaf and of the classes above it; those that have nothing more become passive.
    fn serve(&mut self, leaf: NodeId, size: Bytes) {
        let mut n = leaf;
        while n != LINK {
            let node = &mut self.nodes[n];
            node.service += Credit::of(size);
            let (parent, was_active) = (node.parent, node.is_active);
            node.is_active &= if n == leaf { node.first.is_some() } else { !node.least.is_empty() };
            if was_active {
                // Also of a class that becomes passive: it begins anew where it ended.
                let node = &mut self.nodes[n];
                node.virtual_time = node.virtual_curve.reaches(node.service);
                self.place_by_virtual_time(n);
            }
            n = parent;
        }
    }

    fn is_sharing(&self) -> bool {
        !self.nodes[LINK].least.is_empty()
    }
}

/// Checks that the sum of `curves` is below the link at all times: at their knees, and in the long run.
fn check_sum(link: Rate, curves: &[Curve]) -> Result<(), ParamError> {
    let wrong = |when: &str| Err(ParamError::new("guarantee", alloc::format!("all together exceed the link {when}")));
    if curves.iter().map(|curve| curve.m2).sum::<Rate>() > link {
        return wrong("in the long run");
    }
    let mut knees: Vec<Span> = curves.iter().map(|curve| curve.d).collect();
    knees.sort_unstable();
    knees.dedup();
    for knee in knees {
        let asked = curves.iter().fold(Credit::ZERO, |sum, curve| sum + curve.service(knee));
        if asked > link.credit_in(knee) {
            return wrong(&alloc::format!("in the first {knee}"));
        }
    }
    Ok(())
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for Hfsc<P, Q> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.latest = self.latest.max(now);
        let of = |class: ClassId| self.leaves.get(class.0 as usize).copied();
        let Some(leaf) = of(packet.class()).or_else(|| of(self.default?)) else {
            return out.refused(packet, DropReason::NoClass);
        };
        let latest = self.latest;
        let node = &mut self.nodes[leaf];
        let was_empty = node.first.is_none();
        if let Some(queue) = &mut node.queue {
            let before = queue.backlog();
            queue.enqueue(latest, packet, out);
            let after = queue.backlog();
            self.backlog.packets = self.backlog.packets + after.packets - before.packets;
            self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
        }
        self.refill(leaf, out);
        if was_empty && self.nodes[leaf].first.is_some() {
            self.activate(leaf);
        }
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.latest = self.latest.max(now);
        self.link.update(self.latest);
        while let Some((time, leaf)) = self.waiting.peek()
            && time <= self.latest
        {
            self.refill(leaf, out);
            if self.nodes[leaf].first.is_some() {
                self.activate(leaf);
            } else if self.waiting.peek() == Some((time, leaf)) {
                break;
            }
        }
        if self.link.time_of(self.latest, Bytes::ZERO)? > self.latest {
            return None;
        }
        while let Some((time, leaf)) = self.not_yet.peek()
            && time <= self.latest
        {
            self.renew_deadline(leaf, false);
        }
        // The real-time criterion, and the link-sharing criterion where no guarantee is at stake.
        let (leaf, in_time) = match self.eligible.peek() {
            Some((_, leaf)) => (leaf, true),
            None => {
                let mut n = self.nodes[LINK].least.peek()?.1;
                while self.nodes[n].queue.is_none() {
                    n = self.nodes[n].least.peek()?.1;
                }
                (n, false)
            }
        };
        let packet = self.nodes[leaf].first.take()?;
        let size = packet.size();
        self.backlog.remove(size);
        self.link.charge(self.latest, size);
        self.refill(leaf, out);
        if in_time {
            let node = &mut self.nodes[leaf];
            node.by_deadline += Credit::of(size);
        }
        self.renew_deadline(leaf, in_time);
        self.serve(leaf, size);
        Some(packet)
    }

    fn deadline(&self, now: Instant) -> Deadline {
        let now = now.max(self.latest);
        let Some(free) = self.link.time_of(now, Bytes::ZERO) else { return Deadline::Idle };
        let waiting = self.waiting.peek().map_or(Deadline::Idle, |(time, _)| Deadline::at(time, now));
        let due = match self.not_yet.peek() {
            _ if self.is_sharing() || !self.eligible.is_empty() => Deadline::at(free, now),
            Some((time, _)) => Deadline::at(free.max(time), now),
            None => Deadline::Idle,
        };
        due.min(waiting)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn coupled(&self, class: ClassId, now: Instant) -> Option<Coupled> {
        let leaf = self.leaves.get(class.0 as usize).copied()?;
        self.nodes[leaf].queue.as_ref()?.coupled(class, now)
    }
}

//! [`Fbc`]: the classes together, and the path of a packet through them.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use tidegate_units::{Bytes, Instant, Rate, Span};

use super::ceiling::RELEASES;
use super::class::Class;
use super::class_order::ClassOrder;
use super::error::ParamError;
use super::flow::{Flow, Flows, NONE};
use super::hosts::FairBy;
use super::lending::Lending;
use super::openings::Openings;
use super::params::{Borrow, ClassParams, Feedback, Marking};
use super::profile::Profile;
use super::shard::Shard;
use crate::bucket::TokenBucket;
use crate::packet::{ClassId, Packet};
use crate::pool::{Pool, PoolAccess};
use crate::qdisc::{Backlog, Deadline, DropReason, Event, Outlet, Qdisc, Queued};
use crate::slab::{Slab, reusable};
use crate::step;

/// The parameters of the whole shaper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FbcParams {
    /// The shaped total, at least the sum of the classes. The excess over the sum is available to borrowers only.
    pub rate: Rate,
    /// The burst of the total.
    pub burst: Bytes,
    /// A flow without packets for this long is removed, and its share is available to the others.
    pub idle_timeout: Span,
    /// The most flows with a record. Beyond it the flow that has been idle longest is removed first.
    pub max_flows: usize,
    /// The lateness of `dequeue` that is compensated: a packet that was due at most this long ago is charged at the
    /// time it was due. Zero in a simulation; some milliseconds where the process may be scheduled late.
    pub catch_up: Span,
    /// Whether flows or hosts share a class equally.
    pub fair_by: FairBy,
}

impl FbcParams {
    /// A total of `rate` with defaults: a burst of two full-size packets, an idle timeout of 10 s, a million flows,
    /// no compensation of lateness, classes shared by flows.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            burst: Bytes::new(3_028),
            idle_timeout: Span::from_secs(10),
            max_flows: 1 << 20,
            catch_up: Span::ZERO,
            fair_by: FairBy::Flow,
        }
    }
}

/// A queued packet in the FIFO of its flow. With the engine's packets it takes two cache lines.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Node<P> {
    packet: Option<P>,
    /// The arrival and the size of the next packet. The record of the flow takes them when that becomes its head, so that the
    /// packet itself is not read yet.
    next_arrived: Instant,
    next_size: Bytes,
    next: u32,
}

reusable!(Node<P>, next: u32);

/// The end-system shaper. See the [module](super).
///
/// A packet carries the index of its class ([`Packet::class`]) and of its profile ([`Packet::profile`]; an index
/// beyond the last profile selects the default profile).
///
/// ```
/// use tidegate_core::{fbq::*, qdisc::{Discard, Qdisc}, *};
/// # #[derive(Debug)] struct P(u64, u64);
/// # impl Packet for P {
/// #     fn size(&self) -> Bytes { Bytes::new(self.1) }
/// #     fn flow(&self) -> FlowKey { FlowKey::numbered(self.0) }
/// # }
/// let rate = Rate::from_mbit(12); // 1500 B each millisecond
/// let class = ClassParams { burst: Bytes::new(1500), flow_burst: Bytes::ZERO, ..ClassParams::new(rate) };
/// let params = FbcParams { burst: Bytes::new(1500), ..FbcParams::new(rate) };
/// let mut shaper = Fbc::new(params, vec![class], vec![], Instant::ZERO).unwrap();
/// for n in 0..4 {
///     shaper.enqueue(Instant::ZERO, P(n / 2, 1500), &mut Discard); // flow 0 twice, then flow 1 twice
/// }
/// let mut now = Instant::ZERO;
/// let mut order = vec![];
/// while let Some(t) = shaper.deadline(now).instant(now) {
///     now = t;
///     order.push((shaper.dequeue(now, &mut Discard).unwrap().0, now.as_nanos() / 1_000_000));
/// }
/// assert_eq!(order, [(0, 0), (1, 1), (0, 2), (1, 3)]);
/// ```
#[derive(Clone, Debug)]
pub struct Fbc<P> {
    pub(super) params: FbcParams,
    pub(super) now: Instant,
    pub(super) classes: Slab<u32, Class>,
    pub(super) profiles: Vec<Profile>,
    pub(super) flows: Flows,
    pub(super) root: TokenBucket,
    /// Its place among several with a pool of credit.
    pub(super) shard: Option<Box<Shard>>,
    pub(super) class_order: ClassOrder,
    /// The rate that classes lend to those with strict shares, if any class borrows in this way.
    pub(super) lending: Option<Box<Lending>>,
    pub(super) openings: Openings,
    /// The virtual time of borrowing, and the position of each class in it.
    borrow_now: u128,
    borrowed_until: Slab<u32, u128>,
    nodes: Slab<u32, Node<P>>,
    backlog: Backlog,
    pub(super) cursor: u32,
    /// No flow has been idle for the idle timeout before this.
    pub(super) forgets_at: Instant,
    pub(super) line: u64,
}

impl<P: Packet> Fbc<P> {
    /// Returns an empty shaper at `now`.
    ///
    /// # Errors
    /// When the parameters are inconsistent; see [`ParamError`].
    pub fn new(
        params: FbcParams,
        classes: Vec<ClassParams>,
        profiles: Vec<Profile>,
        now: Instant,
    ) -> Result<Self, ParamError> {
        super::change::check(&params, &classes, &profiles)?;
        let class_order = ClassOrder::new(classes.iter().map(|class| class.priority));
        let classes = classes.into_iter().map(|class| Class::new(class, params.fair_by, now)).collect();
        Ok(Self {
            params,
            now,
            class_order,
            lending: Lending::new(now, now, params.rate, &classes),
            openings: Openings::NEVER,
            borrow_now: 0,
            borrowed_until: classes.values().map(|_| 0).collect(),
            classes,
            profiles,
            flows: Flows::new(),
            root: TokenBucket::full(params.rate, params.burst, now),
            shard: None,
            nodes: Slab::default(),
            backlog: Backlog::default(),
            cursor: 0,
            forgets_at: now,
            line: 1,
        })
    }

    /// Makes it shard `number` of several with the same parameters: its classes and borrowers send with credit of `pool`
    /// only. To be called while nothing is queued. Classes with [`Spare::Idle`](super::Spare::Idle) then
    /// borrow nothing.
    pub fn share(&mut self, pool: Arc<dyn PoolAccess>, number: u32) {
        self.lending = None;
        self.shard = Some(Box::new(Shard::new(pool, number, self.classes.slots())));
    }
    /// A pool for `shards` shapers with these parameters.
    pub fn pool(&self, shards: usize, now: Instant) -> Pool {
        let classes: Vec<_> = self.classes.values().map(|class| (class.params.rate, class.params.burst)).collect();
        Pool::new(shards, (self.params.rate, self.params.burst), &classes, now)
    }
    /// Whether it shares its rates with others.
    pub fn is_shard(&self) -> bool {
        self.shard.is_some()
    }
    /// Whether flows or hosts share a class equally.
    pub fn fair_by(&self) -> FairBy {
        self.params.fair_by
    }
    /// Credit that it has taken from its pool and not used, of a class, or with `None` of the spare rate.
    pub fn outstanding(&self, class: Option<ClassId>) -> Bytes {
        self.shard.as_ref().map_or(Bytes::ZERO, |shard| shard.outstanding(class.map(|class| class.0)))
    }

    /// Selects the candidate of class `q` as of `base` if it has none, and updates the position of the class.
    #[inline]
    pub(super) fn choose(&mut self, q: u32, base: Instant) {
        let base = self.time_of(q, base);
        if !self.classes[q].has_chosen(base) {
            self.choose_anew(q, base);
        }
    }

    #[inline(never)]
    fn choose_anew(&mut self, q: u32, base: Instant) {
        let class = &mut self.classes[q];
        let before = class.candidate;
        class.choose(&mut self.flows, base);
        if class.candidate != before {
            self.place(q, base);
        }
    }

    /// Updates the position of class `q` in the order of the classes by its candidate, selected as of `base`.
    #[inline(always)]
    fn place(&mut self, q: u32, base: Instant) {
        if self.shard.is_some() {
            self.place_in_shard(q, base);
        } else {
            self.order(q, base);
            self.find_openings();
        }
    }

    #[inline(never)]
    fn place_in_shard(&mut self, q: u32, base: Instant) {
        if let Some(shard) = &mut self.shard {
            shard.provide(base, q, &mut self.classes[q]);
        }
        self.order(q, base);
        self.provide_spare();
    }

    #[inline(always)]
    fn order(&mut self, q: u32, base: Instant) {
        let class = &mut self.classes[q];
        if let Some(lending) = self.lending.as_mut().filter(|lending| lending.is_of(q)) {
            lending.place(q, class);
            // `base` is no instant at which a ceiling may pay.
            self.release_borrowers(self.now);
            return;
        }
        if let Some(candidate) = class.candidate {
            let (borrows, priority) = (class.params.borrow == Borrow::FromOthers, class.params.priority);
            let waits = candidate.ready > base;
            let length = (borrows && !waits).then(|| class.borrow_length(candidate.size));
            if length.is_some() && self.class_order.is_waiting(q) {
                self.start_borrowing(q);
            }
            let borrow = length.map(|length| self.borrowed_until[q] + length);
            let held = (borrows && waits && candidate.ready < Instant::MAX).then_some(candidate.ready);
            self.class_order.set(q, candidate.due, priority, borrow, held);
        } else {
            self.class_order.clear(q);
        }
        self.release_borrowers(base);
    }

    /// Lets classes borrow again whose ceilings allow it as of `base`. What they could not borrow meanwhile they have lost.
    #[inline(always)]
    fn release_borrowers(&mut self, base: Instant) {
        for _ in 0..RELEASES {
            let Some((_, q)) = self.class_order.first_held().filter(|(until, _)| *until <= base) else { return };
            self.start_borrowing(q);
            let class = &mut self.classes[q];
            let size = class.candidate.map_or(Bytes::ZERO, |candidate| candidate.size);
            let finish = self.borrowed_until[q] + class.borrow_length(size);
            self.class_order.release(q, finish);
        }
    }
    /// Class `q` begins to borrow at the present virtual time of borrowing, without arrears.
    pub(super) fn start_borrowing(&mut self, q: u32) {
        let until = &mut self.borrowed_until[q];
        *until = self.borrow_now.max(*until);
    }

    /// Takes spare credit for the class that borrows first.
    fn provide_spare(&mut self) {
        let borrower = self.class_order.borrower().map(|q| &self.classes[q]);
        if let Some(shard) = &mut self.shard {
            shard.provide_spare(self.now, borrower);
            self.find_openings();
        }
    }

    /// Selects a new candidate of class `q`, after its flow moved or its rate changed.
    pub(super) fn rechoose(&mut self, q: u32, base: Instant) {
        let base = self.time_of(q, base);
        let class = &mut self.classes[q];
        class.choose(&mut self.flows, base);
        self.place(q, base);
    }

    /// To be called after a change of the total bucket.
    pub(super) fn root_changed(&mut self) {
        self.find_openings();
    }

    /// The record of the flow of `packet`, created if it is new. `None` when there are too many flows.
    #[inline]
    fn flow_of(&mut self, now: Instant, packet: &P, out: &mut dyn Outlet<P>) -> Option<u32> {
        let (key, home, profile) = (packet.flow(), packet.class().0, packet.profile());
        let Some(at) = self.flows.find_at(key.flow, packet.flow_slot()) else {
            return self.begin(now, key, home, profile, None, out);
        };
        let flow = &self.flows[at];
        if flow.home != home || flow.profile_index != profile {
            self.reclassify(now, at, home, profile, out);
        }
        Some(at)
    }

    /// The classifier has assigned another class or profile to the flow `at`.
    #[inline(never)]
    fn reclassify(&mut self, now: Instant, at: u32, home: u32, profile: u32, out: &mut dyn Outlet<P>) {
        if self.flows[at].home != home {
            self.rehome(now, at, home, out);
        }
        if self.flows[at].profile_index != profile {
            let wanted = self.profile(profile);
            let wanted = self.flows[at].own().map_or(wanted, |own| own.over(wanted, self.classes.slots()));
            self.flows[at].profile_index = profile;
            self.set_profile(now, at, wanted);
        }
    }

    pub(super) fn profile(&self, index: u32) -> Profile {
        self.profiles.get(index as usize).copied().unwrap_or_default()
    }

    /// Whether the owner of the flow, of that class, may be interested in the length of its queue.
    #[inline]
    fn is_watched(flow: &Flow, class: &Class) -> bool {
        flow.watched || class.params.feedback.is_some()
    }

    /// Reports to the owner of the flow that its queue has crossed a threshold.
    #[inline(never)]
    fn feed_back(&mut self, at: u32, out: &mut dyn Outlet<P>) {
        let flow = &mut self.flows[at];
        let class = &self.classes[flow.class];
        let feedback = match class.params.feedback {
            Some(feedback) => feedback,
            None if flow.watched => {
                let part = class.most_queued(flow).as_u64();
                Feedback { above: Bytes::new(part / 4 * 3), below: Bytes::new(part / 4), mark: Marking::Never }
            }
            None => return,
        };
        let (key, bytes) = (flow.key, flow.backlog.bytes);
        if !flow.above && bytes >= feedback.above {
            flow.above = true;
            out.event(Event::QueueAbove { flow: key, bytes });
        } else if flow.above && bytes <= feedback.below {
            flow.above = false;
            out.event(Event::QueueBelow { flow: key, bytes });
        }
    }
}

impl<P: Packet> Qdisc<P> for Fbc<P> {
    fn enqueue(&mut self, now: Instant, mut packet: P, out: &mut dyn Outlet<P>) -> Queued {
        let now = now.max(self.now);
        self.now = now;
        if packet.class().0 >= self.classes.slots() {
            return out.refused(packet, DropReason::NoClass);
        }
        let Some(at) = self.flow_of(now, &packet, out) else {
            return out.refused(packet, DropReason::FlowLimit);
        };
        let size = packet.size();
        let q = self.flows[at].class;
        let (own, was_empty) = (self.time_of(q, now), self.classes[q].backlog.is_empty());
        let (flow, class) = (&mut self.flows[at], &mut self.classes[q]);
        if let Some(reason) = class.refusal(flow, size) {
            flow.dropped.count(size);
            out.dropped(packet, reason);
        } else {
            let watched = Self::is_watched(flow, class);
            if flow.above {
                let marking = class.params.feedback.map(|feedback| feedback.mark);
                if marking == Some(Marking::EcnCapable) && packet.mark_ce() {
                    flow.marked += 1;
                    out.event(Event::Marked { flow: flow.key });
                }
            }
            let index =
                self.nodes.insert(Node { packet: Some(packet), next_arrived: now, next_size: Bytes::ZERO, next: NONE });
            if was_empty {
                // A class that becomes backlogged starts at the current virtual time of borrowing, without arrears.
                let until = &mut self.borrowed_until[q];
                *until = self.borrow_now.max(*until);
            }
            self.backlog.add(size);
            class.backlog.add(size);
            flow.backlog.add(size);
            let tail = core::mem::replace(&mut flow.tail, index);
            if let Some(tail) = self.nodes.get_mut(tail) {
                (tail.next, tail.next_size, tail.next_arrived) = (index, size, now);
                class.host_queued(flow, size);
            } else {
                (flow.head, flow.head_size, flow.since) = (index, size, now);
                class.queues(flow);
                class.host_queued(flow, size);
                self.flows.idle_take(at);
                class.activate(&mut self.flows, at, own);
            }
            if watched {
                self.feed_back(at, out);
            }
        }
        self.choose(q, now);
        if was_empty {
            self.use_changed(now, q);
        }
        self.update_lending(now);
        self.housekeep(now, Some(q), out);
        Queued { slot: at }
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        let now = now.max(self.now);
        self.now = now;
        if self.shard.is_some() {
            self.provide_spare();
        }
        let (q, then, borrowed) = self.pick(now)?;
        if borrowed && self.class_order.is_held() {
            self.start_borrowing(q);
        }
        // A class that borrows with strict shares is charged now: its clock has no past. It has no ceiling.
        let own =
            if self.lending.as_ref().is_some_and(|lending| lending.is_of(q)) { self.time_of(q, now) } else { then };
        let class = &mut self.classes[q];
        let candidate = class.candidate.take()?;
        let at = candidate.flow;
        let flow = &mut self.flows[at];
        let size = flow.head_size;
        self.root.charge(then, size);
        if borrowed {
            let finish = self.borrowed_until[q] + class.borrow_length(size);
            self.borrowed_until[q] = finish;
            self.borrow_now = self.borrow_now.max(finish);
            flow.borrowed.count(size);
            class.borrowed.count(size);
        } else {
            class.bucket.charge(own, size);
        }
        if let Some(shard) = &mut self.shard {
            shard.sent(q, borrowed, size);
        }
        class.charge_flow(flow, candidate.by, own);
        let dscp = class.params.dscp;
        flow.sent.count(size);
        let node = &mut self.nodes[flow.head];
        let mut packet = node.packet.take()?;
        let (next, next_size, next_arrived) = (node.next, node.next_size, node.next_arrived);
        let arrived = flow.since;
        self.nodes.release(core::mem::replace(&mut flow.head, next));
        self.backlog.remove(size);
        class.backlog.remove(size);
        class.host_sent(flow, size);
        flow.backlog.remove(size);
        if step::apply(class.params.step, &mut packet, arrived, now, flow.backlog.packets, out) {
            flow.marked += 1;
        }
        let watched = Self::is_watched(flow, class);
        if next != NONE {
            (flow.since, flow.head_size) = (next_arrived, next_size);
            class.key(&mut self.flows, at);
        } else {
            flow.tail = NONE;
            flow.since = now;
            class.queues_no_more(flow);
            class.unkey(&mut self.flows, at);
            self.flows.idle_push(at);
        }
        class.choose(&mut self.flows, own);
        let is_empty = class.backlog.is_empty();
        self.place(q, own);
        if is_empty {
            self.use_changed(now, q);
        }
        self.update_lending(now);
        if let Some(dscp) = dscp {
            packet.set_dscp(dscp);
        }
        packet.leaves_by(ClassId(q));
        if watched {
            self.feed_back(at, out);
        }
        self.housekeep(now, None, out);
        Some(packet)
    }

    fn deadline(&self, now: Instant) -> Deadline {
        let now = now.max(self.now);
        let Openings { own, borrowed, .. } = self.openings;
        // A borrower precedes, if there is one.
        match borrowed.min(own) {
            Instant::MAX => Deadline::Idle,
            time => Deadline::at(time, now),
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

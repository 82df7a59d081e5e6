//! [`Engine`]: the way of a packet from a data path through the stages and back.
//!
//! ```text
//! metadata ─> classify ─> account ─> admit ─> schedule ─> sink
//! ```
//!
//! Each stage is a struct with its own state, in its own file. Recording, promises, held flows, fragments and
//! reservations cost a packet that does not meet them one comparison each. The flow of a packet is looked up once, in
//! `account`; from there on the packet carries the slots of its flow. Its metadata is passed by reference, and its
//! fields are copied once, into the packet table.

use tidegate_config::shaper::Config;
use tidegate_core::classify::Fields;
use tidegate_core::fbq::{NoSuchFlow, Promise};
use tidegate_core::packet::NO_SLOT;
use tidegate_core::{ClassId, Deadline, Instant, Outlet, Qdisc, Rate, Span};

use crate::account::Account;
use crate::admit::{Admit, Entry};
use crate::batch::{Batch, Prefetched};
use crate::classify::Classify;
use crate::flows::UNTRACKED;
use crate::hold_queue::Step;
use crate::packet::QueuedPacket;
use crate::recorder::{Adjustment, Operation, Recorder};
use crate::registry::PromiseControl;
use crate::reserve::Leases;
use crate::rules::{BuildFailure, Classification, Setup};
use crate::schedule::{TreeOutlet, is_too_long};
use crate::sink::{Admission, Change, Disposition, PacketMeta, Shape, Sink};
use crate::tree::Tree;

/// The engine. See the [module](self).
pub struct Engine<H: Send> {
    pub(crate) config: Config,
    pub(crate) setup: Setup,
    pub(crate) classify: Classify<H>,
    pub(crate) account: Account,
    pub(crate) admit: Admit<H>,
    /// The stage `schedule`.
    pub(crate) tree: Tree,
    pub(crate) leases: Leases,
    pub(crate) recorder: Option<Box<dyn Recorder>>,
    /// A packet that leaves soon: its places in the packet table and among the records of flows.
    ahead: Option<(u32, u32)>,
    pub(crate) batch: Batch,
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Builds the engine of `config`, with empty queues at `now`.
    ///
    /// # Errors
    /// See [`BuildFailure`].
    pub fn new(config: &Config, setup: &Setup, now: Instant) -> Result<Self, BuildFailure> {
        let leases = Leases::new(config).map_err(BuildFailure::Tree)?;
        Ok(Self {
            classify: Classify::new(config, setup)?,
            account: Account::new(config, leases.first_class())?,
            admit: Admit::new(),
            tree: Tree::build(config, setup.seed, now, setup.catch_up).map_err(BuildFailure::Tree)?,
            leases,
            recorder: None,
            ahead: None,
            batch: Batch::default(),
            config: config.clone(),
            setup: setup.clone(),
        })
    }

    /// Enqueues a packet that the data path holds.
    pub fn enqueue(&mut self, now: Instant, handle: H, meta: &PacketMeta, out: &mut impl Sink<H>) -> Admission<H> {
        self.enqueue_prefetched(now, handle, meta, None, out)
    }

    /// [`enqueue`](Self::enqueue) of a packet of which is known what [`prefetch`](Self::prefetch) returned for it.
    pub(crate) fn enqueue_prefetched(
        &mut self,
        now: Instant,
        handle: H,
        meta: &PacketMeta,
        prefetched: Option<&Prefetched>,
        out: &mut impl Sink<H>,
    ) -> Admission<H> {
        let number = self.account.arrivals;
        self.account.arrivals += 1;
        if let Some(recorder) = &mut self.recorder {
            recorder.arrival(now, number, meta);
        }
        if meta.fields.fragment.is_none() {
            return self.take(now, handle, number, (meta, &meta.fields), prefetched, out);
        }
        self.classify.fragment(now, handle, number, meta);
        self.take_released(now, out);
        Admission::Consumed
    }

    fn take_released(&mut self, now: Instant, out: &mut impl Sink<H>) {
        let mut released = self.classify.take_released();
        for ((handle, number, meta), fields) in released.drain(..) {
            let meta = PacketMeta { shape: Shape::Single, ..meta };
            self.take(now, handle, number, (&meta, &fields), None, out);
        }
        self.classify.recycle(released);
    }

    /// Takes a packet through the stages; `fields` are those that classify it.
    fn take(
        &mut self,
        now: Instant,
        handle: H,
        number: u64,
        (meta, fields): (&PacketMeta, &Fields),
        prefetched: Option<&Prefetched>,
        out: &mut impl Sink<H>,
    ) -> Admission<H> {
        let classification = prefetched.map_or_else(|| self.classify.classify(fields), |packet| packet.classification);
        let Classification { class, flow, .. } = classification;
        let wire = self.classify.on_wire(meta);
        let mut slots = match prefetched {
            Some(packet) => self.account.find_again(flow.flow, packet.slots),
            None => self.account.find(flow.flow, |slot| self.tree.read_ahead(slot)),
        };
        if meta.shape == Shape::Super
            && wire.packets > 1
            // Where delays are promised, the largest packet is the configured one.
            && (self.leases.is_open() || is_too_long(&self.tree, flow.flow, class, wire, &mut slots))
        {
            if let Some(recorder) = &mut self.recorder {
                recorder.too_long(number);
            }
            return Admission::TooLong { handle, flow };
        }
        let record = self.account.arrived(now, &classification, &meta.fields, wire.size, slots);
        let mut packet = QueuedPacket {
            size: wire.size,
            segments: wire.packets,
            ecn: meta.ecn,
            pure_ack: meta.pure_ack,
            arrived: now,
            record,
            flow_slot: slots.scheduler,
            ..QueuedPacket::classified(number, &classification, meta.fields.dscp)
        };
        self.account.check_minimums(now, &packet, &self.tree);
        match self.admit.enter(now, handle, &mut packet, fields) {
            Entry::Schedule => {
                self.schedule(now, packet, out);
                self.schedule_held(now, out);
            }
            Entry::Held => {}
            Entry::Refused(reason) => self.outlet(now, out).drop_packet(&packet, reason),
        }
        Admission::Consumed
    }

    fn outlet<'a, S>(&'a mut self, now: Instant, sink: &'a mut S) -> TreeOutlet<'a, H, S> {
        let Self { account, admit, recorder, .. } = self;
        TreeOutlet { now, account, admit, current: None, recorder, sink }
    }

    /// Enqueues an admitted packet in the tree.
    fn schedule(&mut self, now: Instant, mut packet: QueuedPacket, sink: &mut impl Sink<H>) {
        let Self { tree, account, admit, recorder, .. } = self;
        let events = admit.prepare(now, &mut packet, tree);
        let (record, slot) = (packet.record, packet.flow_slot);
        let mut outlet = TreeOutlet { now, account, admit, current: Some(packet.slot), recorder, sink };
        if events {
            while let Some(event) = outlet.admit.registry.next_pending() {
                Outlet::<QueuedPacket>::event(&mut outlet, event);
            }
        }
        let queued = tree.enqueue(now, packet, &mut outlet);
        if record != UNTRACKED && queued.slot != NO_SLOT && queued.slot != slot {
            self.account.scheduled(record, queued.slot);
        }
        self.admit.registry.settle(&mut self.tree);
    }

    /// Schedules held packets as far as they may be.
    #[inline]
    pub(crate) fn schedule_held(&mut self, now: Instant, out: &mut impl Sink<H>) {
        if !self.admit.hold.is_empty() {
            self.schedule_ready(now, out);
        }
    }

    fn schedule_ready(&mut self, now: Instant, out: &mut impl Sink<H>) {
        while let Some((flow, step)) = self.admit.next_step() {
            match step {
                Step::Stay => {}
                Step::Attempt(slot) => {
                    let packet = self.admit.unhold(slot);
                    self.schedule(now, packet, out);
                    if let Some(packet) = self.admit.pass_by(now, flow, &self.tree) {
                        self.send(now, &packet, out);
                    }
                }
                Step::Open(held) => {
                    for slot in held {
                        let packet = self.admit.unhold(slot);
                        self.schedule(now, packet, out);
                    }
                }
            }
        }
    }

    /// Sends one packet if one may leave at `now`; returns whether one was sent.
    pub fn dequeue(&mut self, now: Instant, out: &mut impl Sink<H>) -> bool {
        if let Some(recorder) = &mut self.recorder {
            recorder.departure(now);
        }
        self.send_next(now, out)
    }

    /// What precedes a departure at `now`: fragments and reservations whose time is over.
    #[inline]
    pub(crate) fn expire(&mut self, now: Instant, out: &mut impl Sink<H>) {
        if self.has_expiries() {
            self.expire_due(now, out);
        }
    }

    /// Whether fragments or reservations wait for the end of their time.
    #[inline]
    fn has_expiries(&self) -> bool {
        self.classify.deadline().is_some() || self.leases.next_expiry().is_some()
    }

    #[inline(never)]
    fn expire_due(&mut self, now: Instant, out: &mut impl Sink<H>) {
        if self.classify.deadline().is_some_and(|deadline| deadline <= now) {
            self.classify.expire(now);
            self.take_released(now, out);
        }
        self.expire_reservations(now, out);
    }

    fn send_next(&mut self, now: Instant, out: &mut impl Sink<H>) -> bool {
        self.expire(now, out);
        if !self.admit.hold.is_empty() {
            self.admit.hold.retry(now);
            self.schedule_held(now, out);
        }
        let Self { tree, account, admit, recorder, .. } = self;
        let packet = tree.dequeue(now, &mut TreeOutlet { now, account, admit, current: None, recorder, sink: out });
        admit.registry.settle(tree);
        let Some(packet) = packet else {
            self.schedule_held(now, out);
            return false;
        };
        self.send(now, &packet, out);
        // Other classes send before this one does: until then no decision waits for these reads, and the departure would wait
        // for each in turn.
        let next = self.tree.head(packet.left_by).map(|packet| (packet.slot, packet.record));
        if let Some((slot, record)) = std::mem::replace(&mut self.ahead, next) {
            self.admit.packets.read_ahead(slot);
            self.account.read_ahead(record);
        }
        if !self.admit.hold.is_empty() {
            self.admit.left(packet.slot);
            self.admit.hold.retry_one();
            self.schedule_held(now, out);
        }
        true
    }

    /// Counts a packet out and sends it.
    pub(crate) fn send(&mut self, now: Instant, packet: &QueuedPacket, out: &mut impl Sink<H>) {
        let handle = self.admit.packets.remove(packet.slot);
        let dscp = (packet.dscp != packet.arrived_as).then_some(packet.dscp);
        let change = Change { dscp, congestion: packet.marked };
        self.account.sent(now, packet, change, &self.tree);
        if let Some(recorder) = &mut self.recorder {
            recorder.sent(packet.number, change);
        }
        out.observe(handle, packet, self.admit.packets.fields(packet.slot), Disposition::Sent(change));
        out.transmit(handle, change);
    }

    /// When to call [`Engine::dequeue`] next. It may then send nothing, but release a fragment, try a held packet
    /// again, or end a reservation.
    pub fn deadline(&self, now: Instant) -> Deadline {
        let tree = self.tree.deadline(now);
        if self.admit.hold.is_empty() && !self.has_expiries() {
            return tree;
        }
        let at = |time: Option<Instant>| time.map_or(Deadline::Idle, |time| Deadline::at(time, now));
        let tree = tree.min(self.admit.hold.deadline(now));
        tree.min(at(self.classify.deadline())).min(at(self.leases.next_expiry()))
    }

    /// Sends every packet at once, unshaped, in the order in which it would have left: for an orderly end.
    pub fn release_all(&mut self, out: &mut impl Sink<H>) {
        // Far enough into the future every packet may leave; a discipline that drops by age may drop.
        let mut now = Instant::ZERO;
        self.record(now, Operation::ReleaseAll);
        self.classify.drain();
        self.take_released(now, out);
        while self.admit.packets.len() > 0 {
            let Some(time) = self.tree.deadline(now).min(self.admit.hold.deadline(now)).instant(now) else { break };
            now = now.max(time);
            self.send_next(now, out);
        }
    }

    /// Returns the classification of a packet with these fields, without the table of fragments.
    pub fn classify(&self, fields: &Fields) -> Classification {
        self.classify.classify(fields)
    }

    /// The tree of disciplines.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }
    /// The tree, to change it in a way that has no method here. A recording cannot be replayed beyond that.
    pub fn tree_mut(&mut self) -> &mut Tree {
        self.record(Instant::ZERO, Operation::Unrecorded);
        &mut self.tree
    }

    /// Records every call from now on with `recorder`; returns the recorder until now.
    pub fn set_recorder(&mut self, recorder: Option<Box<dyn Recorder>>) -> Option<Box<dyn Recorder>> {
        std::mem::replace(&mut self.recorder, recorder)
    }
    /// The recorder of every call.
    pub fn recorder(&mut self) -> Option<&mut Box<dyn Recorder>> {
        self.recorder.as_mut()
    }
    pub(crate) fn record(&mut self, now: Instant, operation: Operation<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.operation(now, operation);
        }
    }

    /// Access of the control plane to promises and to the registry of flows.
    pub fn promises(&mut self, now: Instant) -> PromiseControl<'_> {
        PromiseControl { tree: &mut self.tree, registry: &mut self.admit.registry, recorder: &mut self.recorder, now }
    }
    /// When [`Engine::poll`] is to be called; `None` while no flow is watched.
    pub fn next_poll(&self) -> Option<Instant> {
        self.admit.registry.next_poll()
    }
    /// Packets arrived or left: watched flows are to be polled soon.
    pub fn mark_dirty(&mut self, now: Instant) {
        self.admit.registry.mark_dirty(now);
    }
    /// Compares watched flows with their last state, and notifies of what has changed.
    pub fn poll(&mut self, now: Instant, out: &mut impl Sink<H>) {
        self.admit.registry.poll(now, &self.tree, &mut |notification| out.notify(notification));
    }

    /// Sets the lateness that the shaper, or CBQ, makes up for; `false` when the discipline is another.
    pub fn set_catch_up(&mut self, catch_up: Span) -> bool {
        self.record(Instant::ZERO, Operation::Adjustment(Adjustment::CatchUp(catch_up)));
        self.setup.catch_up = catch_up;
        self.tree.set_catch_up(catch_up)
    }
    /// Sets the rate of the shaper's link; `false` when the classes have more, or the discipline is another.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) -> bool {
        self.record(now, Operation::Adjustment(Adjustment::Rate(rate)));
        self.tree.shaper_mut().is_some_and(|fbc| fbc.set_rate(now, rate))
    }
    /// Sets the rate of a class of the shaper; `false` when it cannot be, or the discipline is another.
    pub fn set_class_rate(&mut self, now: Instant, class: ClassId, rate: Rate) -> bool {
        self.record(now, Operation::Adjustment(Adjustment::ClassRate(class, rate)));
        self.tree.shaper_mut().is_some_and(|fbc| fbc.set_class_rate(now, class, rate))
    }
    /// Sets the minimum of flow `flow` of the shaper.
    ///
    /// # Errors
    /// [`NoSuchFlow`], also when the discipline has no flows.
    pub fn set_minimum(&mut self, now: Instant, flow: u64, rate: Rate) -> Result<Promise, NoSuchFlow> {
        self.record(now, Operation::Adjustment(Adjustment::Minimum(flow, rate)));
        self.tree.shaper_mut().ok_or(NoSuchFlow)?.set_minimum(now, flow, rate)
    }
    /// Prefers flow `flow` of the shaper by `steps`.
    ///
    /// # Errors
    /// [`NoSuchFlow`], also when the discipline has no flows.
    pub fn prefer(&mut self, now: Instant, flow: u64, steps: u32) -> Result<(), NoSuchFlow> {
        self.record(now, Operation::Adjustment(Adjustment::Prefer(flow, steps)));
        self.tree.shaper_mut().ok_or(NoSuchFlow)?.prefer(now, flow, steps)
    }
    /// Repeats an adjustment of a recording; whether it had an effect is in what follows.
    pub fn adjust(&mut self, now: Instant, adjustment: Adjustment) {
        match adjustment {
            Adjustment::CatchUp(span) => drop(self.set_catch_up(span)),
            Adjustment::Rate(rate) => drop(self.set_rate(now, rate)),
            Adjustment::ClassRate(class, rate) => drop(self.set_class_rate(now, class, rate)),
            Adjustment::Minimum(flow, rate) => drop(self.set_minimum(now, flow, rate)),
            Adjustment::Prefer(flow, steps) => drop(self.prefer(now, flow, steps)),
        }
    }
}

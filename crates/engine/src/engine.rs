//! [`Engine`]: a packet's way from a data path through the engine and back, in four steps.
//!
//! ```text
//! enqueue ──> admit ──> queue ··> dequeue
//! ```
//!
//! 1. [`Engine::enqueue`] numbers the packet and records the call. A fragment waits here for the first one of its datagram.
//! 2. `admit` classifies the packet (`classify.rs`), returns a superpacket that is too long for its flow, counts the arrival
//!    (`account.rs`), and enters the packet into the packet table. A packet of a flow that is held after a change of the
//!    configuration waits in the hold queue (`admit.rs`).
//! 3. `queue` hands the packet to the tree of disciplines (`tree.rs`). A packet that finds its class or its queue full is
//!    dropped there: the discipline calls [`Outlet::dropped`] of `EngineOutlet`, at the end of this file.
//! 4. [`Engine::dequeue`] takes out of the tree what may leave now, counts it and sends it.
//!
//! Promises, held flows, fragments, reservations and a recorder cost a packet that has nothing to do with them one comparison
//! each. The flow of a packet is looked up once, in `admit`; from there on the packet carries the slots of its flow.

use tidegate_config::shaper::Config;
use tidegate_core::classify::Fields;
use tidegate_core::packet::NO_SLOT;
use tidegate_core::{Bytes, ClassId, Deadline, DropReason, Event, Instant, Outlet, Qdisc};

use crate::account::Accounting;
use crate::admit::{Admit, Decision};
use crate::advice::ToldFlows;
use crate::classify::Classify;
use crate::hold_queue::Step;
use crate::packet::QueuedPacket;
use crate::recorder::{Operation, Recorder};
use crate::reserve::Leases;
use crate::rules::{BuildFailure, Classification, Setup};
use crate::sink::{Admission, Change, Disposition, PacketMeta, Shape, Sink};
use crate::tree::Tree;

/// The most packets of a short queue.
const SHORT: u64 = 8;

/// The engine. See the [module](self).
pub struct Engine<H: Send> {
    pub(crate) config: Config,
    pub(crate) setup: Setup,
    pub(crate) classify: Classify<H>,
    pub(crate) account: Accounting,
    pub(crate) admit: Admit<H>,
    pub(crate) tree: Tree,
    pub(crate) leases: Leases,
    /// Present while a class advises rates.
    pub(crate) told: Option<ToldFlows>,
    pub(crate) recorder: Option<Box<dyn Recorder>>,
    /// The class in which a packet last found a short queue.
    pub(crate) short: Option<ClassId>,
    /// When another configuration came into force. Class and rule in the record of a flow that was idle since then are numbers
    /// of the old one.
    pub(crate) changed: Instant,
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Builds the engine of `config`, with empty queues at `now`.
    ///
    /// # Errors
    /// See [`BuildFailure`].
    pub fn new(config: &Config, setup: &Setup, now: Instant) -> Result<Self, BuildFailure> {
        let leases = Leases::new(config, Bytes::ZERO).map_err(BuildFailure::Tree)?;
        Ok(Self {
            classify: Classify::new(config, setup)?,
            account: Accounting::new(config, leases.first_class())?,
            admit: Admit::new(),
            tree: Tree::build(config, setup.seed, now, setup.catch_up).map_err(BuildFailure::Tree)?,
            leases,
            told: ToldFlows::of(config),
            recorder: None,
            short: None,
            changed: now,
            config: config.clone(),
            setup: setup.clone(),
        })
    }

    /// Step 1: a packet arrives. `handle` is the data path's own name for it, by which the sink sends or drops it.
    pub fn enqueue(&mut self, now: Instant, handle: H, meta: &PacketMeta, out: &mut impl Sink<H>) -> Admission<H> {
        let number = self.account.arrivals;
        self.account.arrivals += 1;
        if let Some(recorder) = &mut self.recorder {
            recorder.arrival(now, number, meta);
        }
        if meta.fields.fragment.is_some() {
            self.classify.fragment(now, handle, number, meta);
            self.admit_fragments(now, out);
            return Admission::Consumed;
        }
        if meta.shape == Shape::Super {
            // Rules by length are about packets on the wire, and give a superpacket and its segments the same class.
            let mut fields = meta.fields;
            fields.traits.length = self.classify.wire_length(fields.traits.length);
            return self.admit(now, handle, number, (meta, &fields), out);
        }
        self.admit(now, handle, number, (meta, &meta.fields), out)
    }

    /// Admits the fragments that need not wait any longer, each classified by the fields of the first of its datagram.
    fn admit_fragments(&mut self, now: Instant, out: &mut impl Sink<H>) {
        let mut released = self.classify.take_released();
        for ((handle, number, meta), fields) in released.drain(..) {
            let meta = PacketMeta { shape: Shape::Single, ..meta };
            self.admit(now, handle, number, (&meta, &fields), out);
        }
        self.classify.recycle(released);
    }

    /// Step 2: classifies a packet by `fields`, counts it, and decides whether it is queued now, is held, or is returned.
    fn admit(
        &mut self,
        now: Instant,
        handle: H,
        number: u64,
        (meta, fields): (&PacketMeta, &Fields),
        out: &mut impl Sink<H>,
    ) -> Admission<H> {
        let classification = self.classify.classify(fields);
        let Classification { class, flow, .. } = classification;
        let wire = self.classify.on_wire(meta);
        let mut slots = self.account.find(flow.flow);
        if meta.shape == Shape::Super
            && wire.packets > 1
            // Delays that are guaranteed to reservations assume that no packet is longer than the configured maximum.
            && (self.leases.is_open() || self.tree.is_too_long(flow.flow, class, wire, &mut slots))
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
            Decision::Queue if self.is_crowded(&packet) => {
                self.outlet(now, out).drop_packet(&packet, DropReason::ClassLimit);
            }
            Decision::Queue => {
                self.queue(now, packet, out);
                if self.is_short(class) {
                    self.short = Some(class);
                }
                self.queue_held(now, out);
            }
            Decision::Held => {}
            Decision::Refused(reason) => self.outlet(now, out).drop_packet(&packet, reason),
        }
        Admission::Consumed
    }

    /// Step 3: hands a packet to the tree, which queues it, or drops it or other packets in its place ([`EngineOutlet`]).
    fn queue(&mut self, now: Instant, mut packet: QueuedPacket, sink: &mut impl Sink<H>) {
        let Self { tree, account, admit, recorder, .. } = self;
        let fields = admit.packets.fields(packet.slot);
        let events = admit.registry.prepare(now, &mut packet, fields, tree);
        let (record, slot) = (packet.record, packet.flow_slot);
        let mut outlet = EngineOutlet { now, account, admit, arriving: Some(packet.slot), recorder, sink };
        if events {
            while let Some(event) = outlet.admit.registry.next_pending() {
                Outlet::<QueuedPacket>::event(&mut outlet, event);
            }
        }
        let queued = tree.enqueue(now, packet, &mut outlet);
        if queued.slot != NO_SLOT && queued.slot != slot {
            self.account.scheduled(record, queued.slot);
        }
        self.admit.registry.settle(&mut self.tree);
    }

    /// Queues held packets as far as the hold queue allows.
    #[inline]
    pub(crate) fn queue_held(&mut self, now: Instant, out: &mut impl Sink<H>) {
        if self.admit.hold.is_empty() {
            return;
        }
        while let Some(flow) = self.admit.hold.next_ready() {
            match self.admit.hold.step(flow) {
                Step::Stay => {}
                Step::Attempt(slot) => {
                    let packet = self.admit.unhold(slot);
                    self.queue(now, packet, out);
                    if let Some(packet) = self.admit.pass_by(now, flow, &self.tree) {
                        self.send(now, &packet, out);
                    }
                }
                Step::Open(held) => {
                    for slot in held {
                        let packet = self.admit.unhold(slot);
                        self.queue(now, packet, out);
                    }
                }
            }
        }
    }

    /// Step 4: sends one packet if one may leave at `now`; returns whether one was sent.
    pub fn dequeue(&mut self, now: Instant, out: &mut impl Sink<H>) -> bool {
        if let Some(recorder) = &mut self.recorder {
            recorder.departure(now);
        }
        self.send_next(now, out)
    }

    fn send_next(&mut self, now: Instant, out: &mut impl Sink<H>) -> bool {
        self.expire(now, out);
        if !self.admit.hold.is_empty() {
            self.admit.hold.retry(now);
            self.queue_held(now, out);
        }
        let Self { tree, account, admit, recorder, .. } = self;
        let packet = tree.dequeue(now, &mut EngineOutlet { now, account, admit, arriving: None, recorder, sink: out });
        admit.registry.settle(tree);
        if let Some(packet) = &packet {
            self.send(now, packet, out);
            if !self.admit.hold.is_empty() {
                self.admit.hold.departed(self.admit.packets.packet(packet.slot).flow.flow, packet.slot);
                self.admit.hold.retry_one();
            }
        }
        self.queue_held(now, out);
        packet.is_some()
    }

    /// Counts a packet out and sends it.
    fn send(&mut self, now: Instant, packet: &QueuedPacket, out: &mut impl Sink<H>) {
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

    /// When to call [`Engine::dequeue`] next. The call may send nothing, but release a fragment, attempt to queue a held packet
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

    /// Whether fragments or reservations have a deadline.
    #[inline]
    fn has_expiries(&self) -> bool {
        self.classify.deadline().is_some() || self.leases.next_expiry().is_some()
    }

    /// Admits fragments and ends reservations whose time is over.
    #[inline]
    fn expire(&mut self, now: Instant, out: &mut impl Sink<H>) {
        if self.has_expiries() {
            self.expire_due(now, out);
        }
    }

    #[inline(never)]
    fn expire_due(&mut self, now: Instant, out: &mut impl Sink<H>) {
        if self.classify.deadline().is_some_and(|deadline| deadline <= now) {
            self.classify.expire(now);
            self.admit_fragments(now, out);
        }
        self.expire_reservations(now, out);
    }

    /// Sends every packet at once, unshaped, in the order in which the packets would have left: for an orderly end.
    pub fn release_all(&mut self, out: &mut impl Sink<H>) {
        // Far enough in the future every packet may leave; a discipline that drops by age may drop some.
        let mut now = Instant::ZERO;
        self.record(now, Operation::ReleaseAll);
        self.classify.drain();
        self.admit_fragments(now, out);
        while self.admit.packets.len() > 0 {
            let Some(time) = self.tree.deadline(now).min(self.admit.hold.deadline(now)).instant(now) else { break };
            now = now.max(time);
            self.send_next(now, out);
        }
    }

    /// Whether a few packets wait in a class to which one came lately, which makes their departure urgent. Where many wait, a little
    /// more does not matter.
    pub fn has_short_queue(&self) -> bool {
        self.short.is_some_and(|class| self.is_short(class))
    }
    #[inline]
    fn is_short(&self, class: ClassId) -> bool {
        (1..=SHORT).contains(&self.account.classes.all()[self.account.classes.index(class)].backlog.packets)
    }

    fn outlet<'a, S>(&'a mut self, now: Instant, sink: &'a mut S) -> EngineOutlet<'a, H, S> {
        let Self { account, admit, recorder, .. } = self;
        EngineOutlet { now, account, admit, arriving: None, recorder, sink }
    }
}

/// Receives what the tree drops and reports during a call of [`Engine::enqueue`] or [`Engine::dequeue`].
///
/// *Law*: a packet that the tree drops is counted, recorded and returned to the data path exactly once, unless the hold queue
/// takes it back.
struct EngineOutlet<'a, H, S> {
    now: Instant,
    account: &'a mut Accounting,
    admit: &'a mut Admit<H>,
    /// The slot of the packet that is being queued.
    arriving: Option<u32>,
    recorder: &'a mut Option<Box<dyn Recorder>>,
    sink: &'a mut S,
}

impl<H: Copy + Send + 'static, S: Sink<H>> EngineOutlet<'_, H, S> {
    /// Counts a packet as dropped, and tells the data path to drop it.
    fn drop_packet(&mut self, packet: &QueuedPacket, reason: DropReason) {
        let handle = self.admit.packets.remove(packet.slot);
        self.account.dropped(self.now, packet, reason);
        if let Some(recorder) = self.recorder {
            recorder.dropped(packet.number, reason);
        }
        self.sink.observe(handle, packet, self.admit.packets.fields(packet.slot), Disposition::Dropped(reason));
        self.sink.drop_packet(handle, reason);
    }
}

impl<H: Copy + Send + 'static, S: Sink<H>> Outlet<QueuedPacket> for EngineOutlet<'_, H, S> {
    /// A discipline drops `packet`. [`DropReason::ClassLimit`] is a full class.
    fn dropped(&mut self, packet: QueuedPacket, reason: DropReason) {
        if !self.admit.takes_back(self.now, &packet) {
            self.drop_packet(&packet, reason);
        }
    }
    fn event(&mut self, event: Event) {
        self.sink.event(event);
        let Self { now, admit, arriving, sink, .. } = self;
        let fields = arriving.map(|slot| admit.packets.fields(slot));
        admit.registry.event(*now, event, fields, &mut |notification| {
            if sink.wants_notifications() {
                sink.notify(notification);
            }
        });
    }
}

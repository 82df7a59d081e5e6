//! [`Engine`]: the way of a packet from a data path through the disciplines and back.

use tidegate_config::shaper::{Config, Detail};
use tidegate_core::accounts::Account;
use tidegate_core::classify::Fields;
use tidegate_core::fbq::{ClassView, NoSuchFlow, Promise};
use tidegate_core::fragments::{self, Fragments};
use tidegate_core::{Backlog, Bytes, ClassId, Deadline, DropReason, Event, Instant, Outlet, Packet, Qdisc, Rate, Span};

use crate::classes::Classes;
use crate::flows::{self, FlowRow, Flows, Leaving};
use crate::hold_queue::{HoldQueue, Step};
use crate::packet::QueuedPacket;
use crate::packet_table::PacketTable;
use crate::recorder::{Adjustment, Operation, Recorder};
use crate::registry::{FlowRegistry, PromiseControl};
use crate::reserve::Leases;
use crate::rules::{BuildFailure, Classification, Rules, Setup};
use crate::sink::{Admission, Change, Disposition, PacketMeta, Shape, Sink};
use crate::stats::{ClassCounts, ClassStatus};
use crate::tree::Tree;
use crate::wire::{OnWire, on_wire};

/// A superpacket that would occupy its flow's rate for longer than this is cut into segments first.
pub const LONGEST_WHOLE: Span = Span::from_millis(1);

/// A fragment on hold: the data path's handle, the number of its arrival, and what was seen of it.
type Fragment<H> = (H, u64, PacketMeta);

/// The engine. See the [module](self).
pub struct Engine<H: Send> {
    pub(crate) config: Config,
    pub(crate) setup: Setup,
    pub(crate) rules: Rules,
    /// Of each datagram what its first fragment, by which all are judged, showed.
    fragments: Fragments<Fragment<H>, Fields>,
    /// Fragments that the table released in this call; empty between calls.
    released: Vec<(Fragment<H>, Fields)>,
    pub(crate) mtu: u32,
    pub(crate) overhead: u32,
    pub(crate) tree: Tree<QueuedPacket<H>>,
    pub(crate) packets: PacketTable<H>,
    pub(crate) hold: HoldQueue,
    pub(crate) leases: Leases,
    pub(crate) classes: Classes,
    /// What is counted, beside the accounts.
    pub(crate) detail: Detail,
    /// The flows, where they are counted. What waits knows its place in here.
    pub(crate) flows: Option<Flows>,
    unclassified: u64,
    /// Packets that have arrived.
    arrivals: u64,
    sent: Account,
    dropped: u64,
    pub(crate) registry: FlowRegistry,
    recorder: Option<Box<dyn Recorder>>,
}

/// A class, as it was when somebody looked.
#[derive(Clone, Debug)]
pub struct ClassRow {
    /// Its number; [`Engine::class_names`] has its name.
    pub class: ClassId,
    /// What the shaper has to say of it; `None` for another discipline.
    pub view: Option<ClassView>,
    /// Its counts since the start.
    pub counts: ClassCounts,
}

/// The names of the classes of a configuration, one for all where it has none.
pub(crate) fn names_of(config: &Config) -> Vec<String> {
    match config.class_names() {
        names if names.is_empty() => vec!["all".into()],
        names => names.into_iter().map(String::from).collect(),
    }
}

/// The largest packet of a link, and what it adds to each.
pub(crate) fn link_of(config: &Config) -> (u32, u32) {
    let bytes = |n: Bytes| u32::try_from(n.as_u64()).unwrap_or(u32::MAX);
    (bytes(config.interface.mtu).max(68), bytes(config.interface.overhead))
}

/// The table of flows that a configuration asks for.
pub(crate) fn flows_of(config: &Config) -> Result<Option<Flows>, BuildFailure> {
    match config.statistics.detail {
        Detail::Flows => Flows::new(config.statistics.flows, config.statistics.idle)
            .map(Some)
            .map_err(|error| BuildFailure::Tree(format!("statistics: {error}"))),
        Detail::Classes | Detail::Off => Ok(None),
    }
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Builds the engine of `config`, with empty queues at `now`.
    ///
    /// # Errors
    /// See [`BuildFailure`].
    pub fn new(config: &Config, setup: &Setup, now: Instant) -> Result<Self, BuildFailure> {
        let (mtu, overhead) = link_of(config);
        let leases = Leases::new(config).map_err(BuildFailure::Tree)?;
        Ok(Self {
            rules: Rules::new(config, setup)?,
            fragments: Fragments::new(fragments::Params::default(), setup.secret)
                .map_err(|error| BuildFailure::Tree(error.to_string()))?,
            released: Vec::new(),
            mtu,
            overhead,
            tree: Tree::build(config, setup.seed, now, setup.catch_up).map_err(BuildFailure::Tree)?,
            packets: PacketTable::new(),
            hold: HoldQueue::new(),
            classes: Classes::new(names_of(config), leases.first_class()),
            leases,
            detail: config.statistics.detail,
            flows: flows_of(config)?,
            unclassified: 0,
            arrivals: 0,
            sent: Account::default(),
            dropped: 0,
            registry: FlowRegistry::default(),
            recorder: None,
            config: config.clone(),
            setup: setup.clone(),
        })
    }

    /// Takes a packet that the data path holds.
    pub fn enqueue(&mut self, now: Instant, handle: H, seen: &PacketMeta, out: &mut impl Sink<H>) -> Admission<H> {
        let number = self.arrivals;
        self.arrivals += 1;
        if let Some(recorder) = &mut self.recorder {
            recorder.arrival(now, number, seen);
        }
        if seen.fields.fragment.is_none() {
            return self.take(now, handle, number, seen, &seen.fields, out);
        }
        let released = &mut self.released;
        let size = Bytes::new(seen.length.into());
        let packet = (handle, number, *seen);
        self.fragments.arrive(now, &seen.fields, packet, size, &mut |fields| *fields, &mut |p, v| {
            released.push((p, v));
        });
        self.take_released(now, out);
        Admission::Consumed
    }

    fn take_released(&mut self, now: Instant, out: &mut impl Sink<H>) {
        let mut released = std::mem::take(&mut self.released);
        for ((handle, number, seen), fields) in released.drain(..) {
            self.take(now, handle, number, &PacketMeta { shape: Shape::Single, ..seen }, &fields, out);
        }
        self.released = released;
    }

    /// Takes a packet that is judged by `fields`.
    fn take(
        &mut self,
        now: Instant,
        handle: H,
        number: u64,
        seen: &PacketMeta,
        fields: &Fields,
        out: &mut impl Sink<H>,
    ) -> Admission<H> {
        let Classification { rule, class, flow } = self.rules.classify(fields);
        let OnWire { size, packets: segments } = on_wire(seen, self.mtu, self.overhead);
        // Where delays are promised, the largest packet is what the configuration says.
        let is_long = || {
            let lasts = |rate: Rate| rate.time_for_ceil(size).is_none_or(|time| time > LONGEST_WHOLE);
            self.leases.is_open() || self.tree.rate_of(flow.flow, class).is_some_and(lasts)
        };
        if seen.shape == Shape::Super && segments > 1 && is_long() {
            if let Some(recorder) = &mut self.recorder {
                recorder.too_long(number);
            }
            return Admission::TooLong { handle, flow };
        }
        self.unclassified += u64::from(rule.is_none());
        let record = match &mut self.flows {
            Some(flows) => flows.arrived(now, flow.flow, &seen.fields, class, rule, size),
            None => flows::UNTRACKED,
        };
        let mut held = QueuedPacket {
            handle,
            number,
            size,
            flow,
            class,
            left_by: class,
            profile: rule.map_or(0, |rule| rule + 1),
            arrived_as: seen.fields.dscp,
            dscp: seen.fields.dscp,
            ecn: seen.ecn,
            marked: false,
            // What a meter upstream wrote: colour-aware meters, RIO and WRED heed it.
            colour: seen.fields.dscp.colour(),
            segments,
            pure_ack: seen.pure_ack,
            arrived: now,
            record,
            slot: 0,
        };
        self.classes.of(class).arrived(size);
        self.judge_promises(now, self.classes.slot(class), flow.flow, record);
        let slot = self.packets.enter(&mut held, fields);
        match self.hold.arrive(now, flow.flow, class, slot) {
            Ok(true) => self.packets.set_waits(slot, true),
            Ok(false) => {
                self.hand_to_tree(now, held, out);
                self.file(now, out);
            }
            Err(reason) => self.door(now, out).turn_away(held, reason),
        }
        Admission::Consumed
    }

    fn door<'a, E>(&'a mut self, now: Instant, out: &'a mut E) -> TreeOutlet<'a, H, E> {
        let Self { packets, hold, classes, flows, registry, recorder, dropped, .. } = self;
        TreeOutlet { now, packets, hold, classes, flows, registry, fields: None, recorder, drops: dropped, out }
    }

    fn hand_to_tree(&mut self, now: Instant, held: QueuedPacket<H>, out: &mut impl Sink<H>) {
        let Self { tree, packets, hold, classes, flows, registry, recorder, dropped, .. } = self;
        let fields = *packets.fields(held.slot);
        let met = registry.meet(now, &held, &fields, tree);
        let door = &mut TreeOutlet {
            now,
            packets,
            hold,
            classes,
            flows,
            registry,
            fields: Some(&fields),
            recorder,
            drops: dropped,
            out,
        };
        if met {
            while let Some(event) = door.registry.met() {
                Outlet::<QueuedPacket<H>>::event(door, event);
            }
        }
        tree.enqueue(now, held, door);
        self.registry.settle(&mut self.tree);
    }

    /// Lets the lines of the hold queue move on as far as they can.
    pub(crate) fn file(&mut self, now: Instant, out: &mut impl Sink<H>) {
        while let Some(flow) = self.hold.next_ready() {
            match self.hold.step(flow) {
                Step::Stay => {}
                Step::Try(slot) => {
                    self.packets.set_waits(slot, false);
                    let held = self.packets.held(slot);
                    self.hand_to_tree(now, held, out);
                    if self.tree.backlog().is_empty()
                        && self.hold.is_out_of_patience(now)
                        && let Some(slot) = self.hold.pass_by(flow)
                    {
                        let held = self.packets.held(slot);
                        self.leave(now, &held, out);
                    }
                }
                Step::Open(waiting) => {
                    for slot in waiting {
                        self.packets.set_waits(slot, false);
                        let held = self.packets.held(slot);
                        self.hand_to_tree(now, held, out);
                    }
                }
            }
        }
    }

    /// Judges the promises of a class and of the flow that was just met, once a second.
    #[inline]
    fn judge_promises(&mut self, now: Instant, class: usize, flow: u64, record: u32) {
        if self.detail != Detail::Off && self.classes.at(class).promise_is_due(now) {
            let rate = self.tree.class_rate(ClassId(class as u32)).unwrap_or(Rate::ZERO);
            self.classes.at(class).judge(now, rate);
        }
        if let Some(flows) = &mut self.flows
            && flows.is_due(now, record)
        {
            let view = self.tree.shaper().and_then(|shaper| shaper.flow(flow));
            flows.judge(now, record, flows::promised(view.as_ref()));
        }
    }

    /// Where a packet with these fields would go, apart from what is remembered of fragments.
    pub fn classify(&self, fields: &Fields) -> Classification {
        self.rules.classify(fields)
    }

    /// Lets one packet go if one may at `now`; tells whether one did.
    pub fn dequeue(&mut self, now: Instant, out: &mut impl Sink<H>) -> bool {
        if let Some(recorder) = &mut self.recorder {
            recorder.departure(now);
        }
        self.let_go(now, out)
    }

    fn let_go(&mut self, now: Instant, out: &mut impl Sink<H>) -> bool {
        if self.fragments.deadline().is_some_and(|deadline| deadline <= now) {
            let released = &mut self.released;
            self.fragments.expire(now, &mut |p, v| released.push((p, v)));
            self.take_released(now, out);
        }
        self.expire_reservations(now, out);
        if !self.hold.is_empty() {
            self.hold.wake(now);
            self.file(now, out);
        }
        let Self { tree, packets, hold, classes, flows, registry, recorder, dropped, .. } = self;
        let held = tree.dequeue(
            now,
            &mut TreeOutlet {
                now,
                packets,
                hold,
                classes,
                flows,
                registry,
                fields: None,
                recorder,
                drops: dropped,
                out,
            },
        );
        registry.settle(tree);
        let Some(held) = held else {
            self.file(now, out);
            return false;
        };
        self.leave(now, &held, out);
        if !self.hold.is_empty() {
            self.hold.left(held.flow.flow, held.slot);
            self.hold.made_room();
            self.file(now, out);
        }
        true
    }

    /// Counts a packet out and lets it pass.
    fn leave(&mut self, now: Instant, held: &QueuedPacket<H>, out: &mut impl Sink<H>) {
        self.packets.strike(held.slot);
        self.sent.count(held.size);
        let at = self.classes.slot(held.class);
        let change = Change { dscp: (held.dscp != held.arrived_as).then_some(held.dscp), congestion: held.marked };
        let counts = self.classes.at(at);
        counts.left(held.size);
        counts.marked += u64::from(change.congestion);
        counts.remarked += u64::from(change.dscp.is_some());
        let through = self.classes.of(held.left_by);
        through.sent(held.size);
        if self.detail != Detail::Off {
            let waited = now.since(held.arrived);
            through.measured(now, held.size, waited);
            if let Some(flows) = &mut self.flows {
                let leaving = Leaving {
                    size: held.size,
                    waited,
                    through: held.left_by,
                    marked: change.congestion,
                    remarked: change.dscp.is_some(),
                };
                if let Some(difference) = flows.left(now, held.record, &leaving) {
                    through.differed(difference);
                }
            }
            self.judge_promises(now, at, held.flow.flow, held.record);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.sent(held.number, change);
        }
        out.observe(held, self.packets.fields(held.slot), Disposition::Sent(change));
        out.transmit(held.handle, change);
    }

    /// When to call [`Engine::dequeue`] next. It may then do nothing but let a fragment on hold, or a packet that was
    /// refused, step into its line, or end a reservation.
    pub fn deadline(&self, now: Instant) -> Deadline {
        let at = |time: Option<Instant>| time.map_or(Deadline::Idle, |time| Deadline::at(time, now));
        let tree = self.tree.deadline(now).min(self.hold.deadline(now));
        tree.min(at(self.fragments.deadline())).min(at(self.leases.next_expiry()))
    }

    /// Lets everything go at once, unshaped, in the order in which it would have left: for an orderly end.
    pub fn release_all(&mut self, out: &mut impl Sink<H>) {
        // Far enough into the future everything may leave; a discipline that drops by age may drop.
        let mut now = Instant::ZERO;
        self.tell(now, Operation::ReleaseAll);
        let released = &mut self.released;
        self.fragments.drain(&mut |p, v| released.push((p, v)));
        self.take_released(now, out);
        while self.packets.len() > 0 {
            let Some(time) = self.tree.deadline(now).min(self.hold.deadline(now)).instant(now) else { break };
            now = now.max(time);
            self.let_go(now, out);
        }
    }

    /// The discipline.
    pub fn tree(&self) -> &Tree<QueuedPacket<H>> {
        &self.tree
    }
    /// The discipline, to steer it in a way that has no method here: a recording cannot be replayed beyond that.
    pub fn tree_mut(&mut self) -> &mut Tree<QueuedPacket<H>> {
        self.tell(Instant::ZERO, Operation::Unrecorded);
        &mut self.tree
    }

    /// Tells `recorder` every call from now on; gives back who was told until now.
    pub fn set_recorder(&mut self, recorder: Option<Box<dyn Recorder>>) -> Option<Box<dyn Recorder>> {
        std::mem::replace(&mut self.recorder, recorder)
    }
    /// Who is told of every call.
    pub fn recorder(&mut self) -> Option<&mut Box<dyn Recorder>> {
        self.recorder.as_mut()
    }
    /// Packets that have arrived so far: the number of the next.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }
    /// Packets sent so far, with their bytes on the link.
    pub fn sent(&self) -> Account {
        self.sent
    }
    /// Packets dropped so far.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The control plane's way to promises, and to who the flows are.
    pub fn promises(&mut self, now: Instant) -> PromiseControl<'_, QueuedPacket<H>> {
        PromiseControl { tree: &mut self.tree, registry: &mut self.registry, recorder: &mut self.recorder, now }
    }
    /// When [`Engine::poll`] wants to be called, if ever.
    pub fn next_poll(&self) -> Option<Instant> {
        self.registry.next_poll()
    }
    /// Something happened in this turn of the data path: whoever is watched is looked at soon.
    pub fn mark_dirty(&mut self, now: Instant) {
        self.registry.mark_dirty(now);
    }
    /// Looks at the flows whose news somebody waits for.
    pub fn poll(&mut self, now: Instant, out: &mut impl Sink<H>) {
        self.registry.poll(now, &self.tree, &mut |news| out.notify(news));
    }

    pub(crate) fn tell(&mut self, now: Instant, act: Operation<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.operation(now, act);
        }
    }

    /// Sets the lateness that the shaper, or CBQ, makes up for; `false` when the discipline is another.
    pub fn set_catch_up(&mut self, catch_up: Span) -> bool {
        self.tell(Instant::ZERO, Operation::Adjustment(Adjustment::CatchUp(catch_up)));
        self.setup.catch_up = catch_up;
        self.tree.set_catch_up(catch_up)
    }
    /// Sets the rate of the shaper's link; `false` when the classes have more, or the discipline is another.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) -> bool {
        self.tell(now, Operation::Adjustment(Adjustment::Rate(rate)));
        self.tree.shaper_mut().is_some_and(|fbc| fbc.set_rate(now, rate))
    }
    /// Sets the rate of a class of the shaper; `false` when it cannot be, or the discipline is another.
    pub fn set_class_rate(&mut self, now: Instant, class: ClassId, rate: Rate) -> bool {
        self.tell(now, Operation::Adjustment(Adjustment::ClassRate(class, rate)));
        self.tree.shaper_mut().is_some_and(|fbc| fbc.set_class_rate(now, class, rate))
    }
    /// Promises flow `flow` of the shaper a rate.
    ///
    /// # Errors
    /// [`NoSuchFlow`], also when the discipline knows no flows.
    pub fn set_minimum(&mut self, now: Instant, flow: u64, rate: Rate) -> Result<Promise, NoSuchFlow> {
        self.tell(now, Operation::Adjustment(Adjustment::Minimum(flow, rate)));
        self.tree.shaper_mut().ok_or(NoSuchFlow)?.set_minimum(now, flow, rate)
    }
    /// Prefers flow `flow` of the shaper by `steps`.
    ///
    /// # Errors
    /// [`NoSuchFlow`], also when the discipline knows no flows.
    pub fn prefer(&mut self, now: Instant, flow: u64, steps: u32) -> Result<(), NoSuchFlow> {
        self.tell(now, Operation::Adjustment(Adjustment::Prefer(flow, steps)));
        self.tree.shaper_mut().ok_or(NoSuchFlow)?.prefer(now, flow, steps)
    }
    /// Does what a recording says was done; whether it had an effect is in what follows.
    pub fn adjust(&mut self, now: Instant, steer: Adjustment) {
        match steer {
            Adjustment::CatchUp(span) => drop(self.set_catch_up(span)),
            Adjustment::Rate(rate) => drop(self.set_rate(now, rate)),
            Adjustment::ClassRate(class, rate) => drop(self.set_class_rate(now, class, rate)),
            Adjustment::Minimum(flow, rate) => drop(self.set_minimum(now, flow, rate)),
            Adjustment::Prefer(flow, steps) => drop(self.prefer(now, flow, steps)),
        }
    }
    /// The names of the classes in the configuration.
    pub fn class_names(&self) -> &[String] {
        self.classes.names()
    }
    /// What it was built from, or changed to.
    pub fn config(&self) -> &Config {
        &self.config
    }
    /// How it was set up; its secret makes the keys of flows.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }
    /// How many flows stand in line after a change, with packets from before it; see [`crate::swap`].
    pub fn held_flows(&self) -> usize {
        self.hold.lines()
    }
    /// Packets that wait.
    pub fn queued(&self) -> usize {
        self.packets.len()
    }
    /// Packets that no rule matched.
    pub fn unclassified(&self) -> u64 {
        self.unclassified
    }
    /// The classes with their counts so far; those of reservations come last.
    pub fn status(&self) -> Vec<ClassStatus> {
        let views = self.tree.classes();
        let own = (0..).zip(self.classes.names()).map(|(n, name)| ClassStatus {
            name: name.clone(),
            rate: views.get(n).map(|view| view.rate).or_else(|| self.tree.class_rate(ClassId(n as u32))),
            flows: views.get(n).map(|view| view.flows),
            borrowed: views.get(n).map(|view| view.borrowed).or_else(|| self.tree.borrowed(ClassId(n as u32))),
            counts: self.classes.all()[n].clone(),
        });
        let reserved = self.leases.iter().map(|lease| ClassStatus {
            name: lease.name.clone(),
            rate: Some(lease.grant.rate),
            flows: None,
            borrowed: self.tree.borrowed(lease.grant.id),
            counts: self.classes.all()[self.classes.slot(lease.grant.id)].clone(),
        });
        own.chain(reserved).collect()
    }
    /// Copies up to `most` classes, from the `from`-th on, to `rows`, and gives the one to go on from; `None` when that
    /// was all. Cost: 7 kB copied for each; nothing is allocated where `rows` has room.
    pub fn class_rows(&mut self, now: Instant, from: u32, most: u32, rows: &mut Vec<ClassRow>) -> Option<u32> {
        let all = self.classes.names().len() as u32;
        let end = from.saturating_add(most).min(all);
        for class in from..end {
            let view = self.tree.shaper().and_then(|shaper| shaper.class(ClassId(class)));
            let rate = self.tree.class_rate(ClassId(class)).unwrap_or(Rate::ZERO);
            let counts = self.classes.at(class as usize);
            if self.detail != Detail::Off && counts.promise_is_due(now) {
                counts.judge(now, rate);
            }
            rows.push(ClassRow { class: ClassId(class), view, counts: counts.clone() });
        }
        (end < all).then_some(end)
    }
    /// Copies the flows at up to `most` places of the table, from the `from`-th on, to `rows`, and gives the one to go
    /// on from; `None` when that was all, or flows are not counted. Between two calls flows may come and go. Cost: a
    /// look-up and 0.7 kB copied for each; nothing is allocated where `rows` has room.
    pub fn flow_rows(&mut self, now: Instant, from: u32, most: u32, rows: &mut Vec<FlowRow>) -> Option<u32> {
        let shaper = self.tree.shaper();
        self.flows.as_mut()?.look(now, from, most, rows, |key| shaper.and_then(|shaper| shaper.flow(key)))
    }
    /// One flow, if it is counted and known.
    pub fn flow_row(&self, key: u64) -> Option<FlowRow> {
        let record = *self.flows.as_ref()?.find(key)?;
        Some(FlowRow { key, record, view: self.tree.shaper().and_then(|shaper| shaper.flow(key)) })
    }
    /// The table of flows, where they are counted.
    pub fn flows(&self) -> Option<&Flows> {
        self.flows.as_ref()
    }
    /// Fragments that wait for the first of their datagram, and what happened to fragments so far.
    pub fn fragments(&self) -> (Backlog, fragments::Counts) {
        (self.fragments.backlog(), self.fragments.counts())
    }
}

/// What the tree drops goes back into its line if it is on trial, else, counted, to the data path.
struct TreeOutlet<'a, H, E> {
    now: Instant,
    packets: &'a mut PacketTable<H>,
    hold: &'a mut HoldQueue,
    classes: &'a mut Classes,
    flows: &'a mut Option<Flows>,
    registry: &'a mut FlowRegistry,
    /// Of the packet that is being handed in.
    fields: Option<&'a Fields>,
    recorder: &'a mut Option<Box<dyn Recorder>>,
    drops: &'a mut u64,
    out: &'a mut E,
}

impl<H: Copy + Send, E: Sink<H>> TreeOutlet<'_, H, E> {
    /// Counts a packet out and refuses it.
    fn turn_away(&mut self, held: QueuedPacket<H>, reason: DropReason) {
        self.packets.strike(held.slot);
        *self.drops += 1;
        self.classes.of(held.class).dropped(held.size(), reason);
        if let Some(flows) = self.flows {
            flows.dropped(self.now, held.record, held.size(), reason);
        }
        if let Some(recorder) = self.recorder {
            recorder.dropped(held.number, reason);
        }
        self.out.observe(&held, self.packets.fields(held.slot), Disposition::Dropped(reason));
        self.out.drop_packet(held.handle, reason);
    }
}

impl<H: Copy + Send, E: Sink<H>> Outlet<QueuedPacket<H>> for TreeOutlet<'_, H, E> {
    fn dropped(&mut self, held: QueuedPacket<H>, reason: DropReason) {
        if !self.hold.is_empty() && self.hold.dropped(self.now, held.flow.flow, held.class, held.slot) {
            self.packets.set_waits(held.slot, true);
        } else {
            self.turn_away(held, reason);
        }
    }
    fn event(&mut self, event: Event) {
        self.out.event(event);
        let out = &mut *self.out;
        self.registry.hear(self.now, event, self.fields, &mut |news| {
            if out.wants_notifications() {
                out.notify(news);
            }
        });
    }
}

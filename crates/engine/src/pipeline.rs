//! [`Pipeline`]: the way of a packet from a data path through the disciplines and back.

use tidegate_config::shaper::{Config, Detail};
use tidegate_core::classify::Fields;
use tidegate_core::fbq::{ClassView, NoSuchFlow, Promise};
use tidegate_core::fragments::{self, Fragments};
use tidegate_core::{Backlog, Bytes, ClassId, Deadline, DropReason, Event, Instant, Outlet, Packet, Qdisc, Rate, Span};

use crate::classes::Classes;
use crate::desk::{Desk, Steering};
use crate::exit::{Change, Exit, Fate, Shape, Sighting, Taken};
use crate::flows::{self, FlowRow, Flows, Leaving};
use crate::held::Held;
use crate::ledger::Ledger;
use crate::reserve::Leases;
use crate::room::{Room, Step};
use crate::rules::{BuildFailure, Judgement, Rules, Setup};
use crate::stats::{ClassCounts, ClassStatus};
use crate::tap::{Act, Steer, Tap};
use crate::tree::Tree;
use crate::wire::{OnWire, on_wire};

/// A superpacket that would occupy its flow's rate for longer than this is cut into segments first.
pub const LONGEST_WHOLE: Span = Span::from_millis(1);

/// A fragment on hold: the data path's handle, the number of its arrival, and what was seen of it.
type Fragment<H> = (H, u64, Sighting);

/// The engine. See the [module](self).
pub struct Pipeline<H: Send> {
    pub(crate) config: Config,
    pub(crate) setup: Setup,
    pub(crate) rules: Rules,
    /// Of each datagram what its first fragment, by which all are judged, showed.
    fragments: Fragments<Fragment<H>, Fields>,
    /// Fragments that the table released in this call; empty between calls.
    released: Vec<(Fragment<H>, Fields)>,
    pub(crate) mtu: u32,
    pub(crate) overhead: u32,
    pub(crate) tree: Tree<Held<H>>,
    pub(crate) ledger: Ledger<H>,
    pub(crate) room: Room,
    pub(crate) leases: Leases,
    pub(crate) classes: Classes,
    /// What is counted, beside the accounts.
    pub(crate) detail: Detail,
    /// The flows, where they are counted. What waits knows its place in here.
    pub(crate) flows: Option<Flows>,
    unclassified: u64,
    /// Packets that have arrived.
    arrivals: u64,
    pub(crate) desk: Desk,
    tap: Option<Box<dyn Tap>>,
}

/// A class, as it was when somebody looked.
#[derive(Clone, Debug)]
pub struct ClassRow {
    /// Its number; [`Pipeline::class_names`] has its name.
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

impl<H: Copy + Send + 'static> Pipeline<H> {
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
            ledger: Ledger::new(),
            room: Room::new(),
            classes: Classes::new(names_of(config), leases.first_class()),
            leases,
            detail: config.statistics.detail,
            flows: flows_of(config)?,
            unclassified: 0,
            arrivals: 0,
            desk: Desk::default(),
            tap: None,
            config: config.clone(),
            setup: setup.clone(),
        })
    }

    /// Takes a packet that the data path holds.
    pub fn arrive(&mut self, now: Instant, handle: H, seen: &Sighting, out: &mut impl Exit<H>) -> Taken<H> {
        let number = self.arrivals;
        self.arrivals += 1;
        if let Some(tap) = &mut self.tap {
            tap.arrives(now, number, seen);
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
        Taken::In
    }

    fn take_released(&mut self, now: Instant, out: &mut impl Exit<H>) {
        let mut released = std::mem::take(&mut self.released);
        for ((handle, number, seen), fields) in released.drain(..) {
            self.take(now, handle, number, &Sighting { shape: Shape::Single, ..seen }, &fields, out);
        }
        self.released = released;
    }

    /// Takes a packet that is judged by `fields`.
    fn take(
        &mut self,
        now: Instant,
        handle: H,
        number: u64,
        seen: &Sighting,
        fields: &Fields,
        out: &mut impl Exit<H>,
    ) -> Taken<H> {
        let Judgement { rule, class, flow } = self.rules.judge(fields);
        let OnWire { size, packets: segments } = on_wire(seen, self.mtu, self.overhead);
        // Where delays are promised, the largest packet is what the configuration says.
        let is_long = || {
            let lasts = |rate: Rate| rate.time_for_ceil(size).is_none_or(|time| time > LONGEST_WHOLE);
            self.leases.is_open() || self.tree.rate_of(flow.flow, class).is_some_and(lasts)
        };
        if seen.shape == Shape::Super && segments > 1 && is_long() {
            if let Some(tap) = &mut self.tap {
                tap.too_long(number);
            }
            return Taken::TooLong { handle, flow };
        }
        self.unclassified += u64::from(rule.is_none());
        let record = match &mut self.flows {
            Some(flows) => flows.arrived(now, flow.flow, &seen.fields, class, rule, size),
            None => flows::UNTRACKED,
        };
        let mut held = Held {
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
        let slot = self.ledger.enter(&mut held, fields);
        match self.room.arrive(now, flow.flow, class, slot) {
            Ok(true) => self.ledger.set_waits(slot, true),
            Ok(false) => {
                self.hand_to_tree(now, held, out);
                self.file(now, out);
            }
            Err(reason) => self.door(now, out).turn_away(held, reason),
        }
        Taken::In
    }

    fn door<'a, E>(&'a mut self, now: Instant, out: &'a mut E) -> Door<'a, H, E> {
        let Self { ledger, room, classes, flows, desk, tap, .. } = self;
        Door { now, ledger, room, classes, flows, desk, fields: None, tap, out }
    }

    fn hand_to_tree(&mut self, now: Instant, held: Held<H>, out: &mut impl Exit<H>) {
        let Self { tree, ledger, room, classes, flows, desk, tap, .. } = self;
        let fields = *ledger.fields(held.slot);
        let met = desk.meet(now, &held, &fields, tree);
        let door = &mut Door { now, ledger, room, classes, flows, desk, fields: Some(&fields), tap, out };
        if met {
            while let Some(event) = door.desk.met() {
                Outlet::<Held<H>>::event(door, event);
            }
        }
        tree.enqueue(now, held, door);
        self.desk.settle(&mut self.tree);
    }

    /// Lets the lines of the waiting room move on as far as they can.
    pub(crate) fn file(&mut self, now: Instant, out: &mut impl Exit<H>) {
        while let Some(flow) = self.room.next_ready() {
            match self.room.step(flow) {
                Step::Stay => {}
                Step::Try(slot) => {
                    self.ledger.set_waits(slot, false);
                    let held = self.ledger.held(slot);
                    self.hand_to_tree(now, held, out);
                    if self.tree.backlog().is_empty()
                        && self.room.is_out_of_patience(now)
                        && let Some(slot) = self.room.pass_by(flow)
                    {
                        let held = self.ledger.held(slot);
                        self.leave(now, &held, out);
                    }
                }
                Step::Open(waiting) => {
                    for slot in waiting {
                        self.ledger.set_waits(slot, false);
                        let held = self.ledger.held(slot);
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
    pub fn judge(&self, fields: &Fields) -> Judgement {
        self.rules.judge(fields)
    }

    /// Lets one packet go if one may at `now`; tells whether one did.
    pub fn depart(&mut self, now: Instant, out: &mut impl Exit<H>) -> bool {
        if let Some(tap) = &mut self.tap {
            tap.departs(now);
        }
        self.let_go(now, out)
    }

    fn let_go(&mut self, now: Instant, out: &mut impl Exit<H>) -> bool {
        if self.fragments.deadline().is_some_and(|deadline| deadline <= now) {
            let released = &mut self.released;
            self.fragments.expire(now, &mut |p, v| released.push((p, v)));
            self.take_released(now, out);
        }
        self.expire_reservations(now, out);
        if !self.room.is_empty() {
            self.room.wake(now);
            self.file(now, out);
        }
        let Self { tree, ledger, room, classes, flows, desk, tap, .. } = self;
        let held = tree.dequeue(now, &mut Door { now, ledger, room, classes, flows, desk, fields: None, tap, out });
        desk.settle(tree);
        let Some(held) = held else {
            self.file(now, out);
            return false;
        };
        self.leave(now, &held, out);
        if !self.room.is_empty() {
            self.room.left(held.flow.flow, held.slot);
            self.room.made_room();
            self.file(now, out);
        }
        true
    }

    /// Counts a packet out and lets it pass.
    fn leave(&mut self, now: Instant, held: &Held<H>, out: &mut impl Exit<H>) {
        self.ledger.strike(held.slot);
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
        if let Some(tap) = &mut self.tap {
            tap.passed(held.number, change);
        }
        out.leaves(held, self.ledger.fields(held.slot), Fate::Passes(change));
        out.pass(held.handle, change);
    }

    /// When to call [`Pipeline::depart`] next. It may then do nothing but let a fragment on hold, or a packet that was
    /// refused, step into its line, or end a reservation.
    pub fn deadline(&self, now: Instant) -> Deadline {
        let at = |time: Option<Instant>| time.map_or(Deadline::Idle, |time| Deadline::at(time, now));
        let tree = self.tree.deadline(now).min(self.room.deadline(now));
        tree.min(at(self.fragments.deadline())).min(at(self.leases.next_expiry()))
    }

    /// Lets everything go at once, unshaped, in the order in which it would have left: for an orderly end.
    pub fn release_all(&mut self, out: &mut impl Exit<H>) {
        // Far enough into the future everything may leave; a discipline that drops by age may drop.
        let mut now = Instant::ZERO;
        self.tell(now, Act::ReleaseAll);
        let released = &mut self.released;
        self.fragments.drain(&mut |p, v| released.push((p, v)));
        self.take_released(now, out);
        while self.ledger.len() > 0 {
            let Some(time) = self.tree.deadline(now).min(self.room.deadline(now)).instant(now) else { break };
            now = now.max(time);
            self.let_go(now, out);
        }
    }

    /// The discipline.
    pub fn tree(&self) -> &Tree<Held<H>> {
        &self.tree
    }
    /// The discipline, to steer it in a way that has no method here: a recording cannot be replayed beyond that.
    pub fn tree_mut(&mut self) -> &mut Tree<Held<H>> {
        self.tell(Instant::ZERO, Act::Untold);
        &mut self.tree
    }

    /// Tells `tap` every call from now on; gives back who was told until now.
    pub fn set_tap(&mut self, tap: Option<Box<dyn Tap>>) -> Option<Box<dyn Tap>> {
        std::mem::replace(&mut self.tap, tap)
    }
    /// Who is told of every call.
    pub fn tap(&mut self) -> Option<&mut Box<dyn Tap>> {
        self.tap.as_mut()
    }
    /// Packets that have arrived so far: the number of the next.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// The control plane's way to promises, and to who the flows are.
    pub fn steering(&mut self, now: Instant) -> Steering<'_, Held<H>> {
        Steering { tree: &mut self.tree, desk: &mut self.desk, tap: &mut self.tap, now }
    }
    /// When [`Pipeline::look`] wants to be called, if ever.
    pub fn look_at(&self) -> Option<Instant> {
        self.desk.look_at()
    }
    /// Something happened in this turn of the data path: whoever is watched is looked at soon.
    pub fn stir(&mut self, now: Instant) {
        self.desk.stir(now);
    }
    /// Looks at the flows whose news somebody waits for.
    pub fn look(&mut self, now: Instant, out: &mut impl Exit<H>) {
        self.desk.look(now, &self.tree, &mut |news| out.news(news));
    }

    pub(crate) fn tell(&mut self, now: Instant, act: Act<'_>) {
        if let Some(tap) = &mut self.tap {
            tap.acts(now, act);
        }
    }

    /// Sets the lateness that the shaper, or CBQ, makes up for; `false` when the discipline is another.
    pub fn set_catch_up(&mut self, catch_up: Span) -> bool {
        self.tell(Instant::ZERO, Act::Steer(Steer::CatchUp(catch_up)));
        self.setup.catch_up = catch_up;
        self.tree.set_catch_up(catch_up)
    }
    /// Sets the rate of the shaper's link; `false` when the classes have more, or the discipline is another.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) -> bool {
        self.tell(now, Act::Steer(Steer::Rate(rate)));
        self.tree.shaper_mut().is_some_and(|fbc| fbc.set_rate(now, rate))
    }
    /// Sets the rate of a class of the shaper; `false` when it cannot be, or the discipline is another.
    pub fn set_class_rate(&mut self, now: Instant, class: ClassId, rate: Rate) -> bool {
        self.tell(now, Act::Steer(Steer::ClassRate(class, rate)));
        self.tree.shaper_mut().is_some_and(|fbc| fbc.set_class_rate(now, class, rate))
    }
    /// Promises flow `flow` of the shaper a rate.
    ///
    /// # Errors
    /// [`NoSuchFlow`], also when the discipline knows no flows.
    pub fn set_minimum(&mut self, now: Instant, flow: u64, rate: Rate) -> Result<Promise, NoSuchFlow> {
        self.tell(now, Act::Steer(Steer::Minimum(flow, rate)));
        self.tree.shaper_mut().ok_or(NoSuchFlow)?.set_minimum(now, flow, rate)
    }
    /// Prefers flow `flow` of the shaper by `steps`.
    ///
    /// # Errors
    /// [`NoSuchFlow`], also when the discipline knows no flows.
    pub fn prefer(&mut self, now: Instant, flow: u64, steps: u32) -> Result<(), NoSuchFlow> {
        self.tell(now, Act::Steer(Steer::Prefer(flow, steps)));
        self.tree.shaper_mut().ok_or(NoSuchFlow)?.prefer(now, flow, steps)
    }
    /// Does what a recording says was done; whether it had an effect is in what follows.
    pub fn steer(&mut self, now: Instant, steer: Steer) {
        match steer {
            Steer::CatchUp(span) => drop(self.set_catch_up(span)),
            Steer::Rate(rate) => drop(self.set_rate(now, rate)),
            Steer::ClassRate(class, rate) => drop(self.set_class_rate(now, class, rate)),
            Steer::Minimum(flow, rate) => drop(self.set_minimum(now, flow, rate)),
            Steer::Prefer(flow, steps) => drop(self.prefer(now, flow, steps)),
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
    pub fn lines(&self) -> usize {
        self.room.lines()
    }
    /// Packets that wait.
    pub fn waiting(&self) -> usize {
        self.ledger.len()
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
    pub fn look_at_classes(&mut self, now: Instant, from: u32, most: u32, rows: &mut Vec<ClassRow>) -> Option<u32> {
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
    pub fn look_at_flows(&mut self, now: Instant, from: u32, most: u32, rows: &mut Vec<FlowRow>) -> Option<u32> {
        let shaper = self.tree.shaper();
        self.flows.as_mut()?.look(now, from, most, rows, |key| shaper.and_then(|shaper| shaper.flow(key)))
    }
    /// One flow, if it is counted and known.
    pub fn look_at_flow(&self, key: u64) -> Option<FlowRow> {
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
struct Door<'a, H, E> {
    now: Instant,
    ledger: &'a mut Ledger<H>,
    room: &'a mut Room,
    classes: &'a mut Classes,
    flows: &'a mut Option<Flows>,
    desk: &'a mut Desk,
    /// Of the packet that is being handed in.
    fields: Option<&'a Fields>,
    tap: &'a mut Option<Box<dyn Tap>>,
    out: &'a mut E,
}

impl<H: Copy + Send, E: Exit<H>> Door<'_, H, E> {
    /// Counts a packet out and refuses it.
    fn turn_away(&mut self, held: Held<H>, reason: DropReason) {
        self.ledger.strike(held.slot);
        self.classes.of(held.class).dropped(held.size(), reason);
        if let Some(flows) = self.flows {
            flows.dropped(self.now, held.record, held.size(), reason);
        }
        if let Some(tap) = self.tap {
            tap.refused(held.number, reason);
        }
        self.out.leaves(&held, self.ledger.fields(held.slot), Fate::Refused(reason));
        self.out.refuse(held.handle, reason);
    }
}

impl<H: Copy + Send, E: Exit<H>> Outlet<Held<H>> for Door<'_, H, E> {
    fn dropped(&mut self, held: Held<H>, reason: DropReason) {
        if !self.room.is_empty() && self.room.dropped(self.now, held.flow.flow, held.class, held.slot) {
            self.ledger.set_waits(held.slot, true);
        } else {
            self.turn_away(held, reason);
        }
    }
    fn event(&mut self, event: Event) {
        self.out.event(event);
        let out = &mut *self.out;
        self.desk.hear(self.now, event, self.fields, &mut |news| {
            if out.listens() {
                out.news(news);
            }
        });
    }
}

//! Replaces the configuration of a running engine without losing or reordering a packet.
//!
//! *Law*: packets that are queued when the configuration is changed leave in their turn by the new rules. None is dropped,
//! whatever the new limits are, and packets of a flow leave in the order of their arrival. Packets that left before the change
//! count against the bursts of the new tree, so that the bound on the total holds across the change.
//! *Source*: `tc` also replaces a qdisc at a packet boundary, but drops the queued packets.
//! *Cost*: [`PreparedConfig::new`] builds the classifier and the tree beforehand; the swap itself is linear in the number of
//! queued packets.
//!
//! # What survives which change
//! | change | tree | kept | lost |
//! | --- | --- | --- | --- |
//! | rules only | continues | everything | nothing |
//! | shaper: any key of classes (but `queue`), total, weights, minimums | continues | buckets, flows with their places, preferences and promises | what exceeds a smaller bucket |
//! | CBQ: rate, share, priority, borrow, bursts of classes | continues | estimators, rounds, queues | what exceeds a smaller burst |
//! | CBQ: a reservation is made or ends | continues | estimators, rounds | the averages of the queues that packets moved out of |
//! | classes come, go or change their order, `flow-by`, `fair-by`, `queue` | new | of classes that keep their name: counts, buckets or estimators | flow records, promises that are not in the configuration (their owner makes them again), averages of queues, marks on queued packets |
//! | the kind of discipline | new | counts by name, the used part of the total's burst | everything else |
//!
//! `hold_queue.rs` explains how packets wait in front of a new tree, and why none of them can be lost. A class that keeps its
//! name keeps its counts; packets that go to another class are counted as moved.
//!
//! *Notes*: a packet keeps the size on the link with which it was counted at arrival. At first only one packet of a flow is in
//! the new tree at a time, so that flows share equally there, whatever their old queues were.

use std::collections::{HashMap, HashSet, VecDeque};

use tidegate_config::discipline::Site;
use tidegate_config::shaper::{Config, Root};
use tidegate_core::cbq::{Cbq, Class};
use tidegate_core::{ClassId, Instant, Packet, Qdisc, Rate};

use crate::account::{LineOverhead, flows_of};
use crate::advice::ToldFlows;
use crate::class_names::{cbq_of, names_of, numbers_of};
use crate::engine::Engine;
use crate::flows::Flows;
use crate::hold_queue::{HoldQueue, Inside};
use crate::quota::Meter;
use crate::recorder::Operation;
use crate::reserve::ReserveError;
use crate::rules::{BuildFailure, Rules, Setup};
use crate::sink::Sink;
use crate::tree::Tree;

/// A configuration that was built to replace another. Building takes time, the replacement hardly any.
pub struct PreparedConfig {
    config: Config,
    text: Option<String>,
    built: Instant,
    setup: Setup,
    rules: Rules,
    pub(crate) tree: Tree,
    flows: Option<Flows>,
    counts: Meter,
}

/// How a new configuration was applied to the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwapKind {
    /// The tree continues with other parameters.
    InPlace,
    /// The tree was replaced.
    Replaced,
}

/// The result of a change of the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwapReport {
    /// Whether the tree was changed in place or replaced.
    pub how: SwapKind,
    /// The number of packets that were taken out of the tree to be queued again.
    pub rehomed: usize,
}

/// The parts that a change has replaced. Freeing them takes time, and need not happen on the data path.
pub struct Retired {
    _tree: Tree,
    _rules: Rules,
    _config: Config,
}

/// Why a change was not made; nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SwapError {
    /// The configuration cannot run.
    Build(BuildFailure),
    /// Reservations do not fit the new configuration.
    ReserveError(ReserveError),
}

impl std::fmt::Display for SwapError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Build(failure) => failure.fmt(f),
            Self::ReserveError(refused) => refused.fmt(f),
        }
    }
}

impl std::error::Error for SwapError {}

impl PreparedConfig {
    /// Builds the rules and the tree of `config`. `setup` must have the secret of the running engine.
    ///
    /// # Errors
    /// See [`BuildFailure`].
    pub fn new(config: &Config, setup: &Setup, now: Instant) -> Result<Self, BuildFailure> {
        Ok(Self {
            rules: Rules::new(config, setup)?,
            tree: Tree::build(config, setup.seed, now, setup.catch_up).map_err(BuildFailure::Tree)?,
            flows: flows_of(config)?,
            counts: Meter::new(config),
            text: None,
            built: now,
            config: config.clone(),
            setup: setup.clone(),
        })
    }
    /// Adds the text of the shaper file, for recordings.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..self }
    }
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Builds a configuration and replaces the present one with it, as [`PreparedConfig::new`] and [`Engine::swap`] do.
    ///
    /// # Errors
    /// See [`SwapError`]; nothing has changed then.
    pub fn reconfigure(
        &mut self,
        config: &Config,
        setup: &Setup,
        now: Instant,
        out: &mut impl Sink<H>,
    ) -> Result<SwapReport, SwapError> {
        let next = PreparedConfig::new(config, setup, now).map_err(SwapError::Build)?;
        self.swap(next, now, out).map(|(swapped, _)| swapped).map_err(SwapError::ReserveError)
    }

    /// Replaces the configuration at `now`. Also returns the replaced parts, to be freed where that does not delay packets.
    ///
    /// # Errors
    /// If reservations do not fit; nothing has changed then.
    pub fn swap(
        &mut self,
        next: PreparedConfig,
        now: Instant,
        out: &mut impl Sink<H>,
    ) -> Result<(SwapReport, Retired), ReserveError> {
        let PreparedConfig { config, text, built, setup, mut rules, mut tree, flows, counts } = next;
        if rules.set_reserved(&self.leases.rules(), &setup.names).is_err() {
            return Err(ReserveError::InTheWay {
                reservations: self.leases.iter().count(),
                why: "their rules name owners that it does not know".into(),
            });
        }
        tree.set_catch_up(self.setup.catch_up);
        let setup = Setup { catch_up: self.setup.catch_up, most_queued: self.setup.most_queued, ..setup };
        // Queued packets refer to places in the flow table, which other statistics replace.
        let same_statistics = format!("{:?}", self.config.statistics) == format!("{:?}", config.statistics);
        let in_place = same_statistics && self.change_in_place(now, &config);
        let how = if in_place { SwapKind::InPlace } else { SwapKind::Replaced };
        let text = text.unwrap_or_else(|| config.text.to_string());
        let act = match text.as_str() {
            "" => Operation::Unrecorded,
            text => Operation::Reconfigure { text, names: &setup.names, built },
        };
        // The classes that keep their name, by their old numbers.
        let mut renumbered = HashMap::new();
        if how == SwapKind::InPlace {
            self.record(now, act);
        } else {
            let leases = self.leases.moved(now, &config, tree.cbq_mut())?;
            self.record(now, act);
            let before = numbers_of(&self.config);
            let after: HashMap<ClassId, String> =
                numbers_of(&config).into_iter().map(|(name, id)| (id, name)).collect();
            let predecessor = |id: ClassId| match after.get(&id) {
                Some(name) => before.get(name).copied(),
                // A reservation keeps its number.
                None => leases.lease(id).map(|lease| lease.grant.id),
            };
            tree.succeed(now, &self.tree, predecessor);
            renumbered.extend(after.iter().filter_map(|(new, name)| Some((*before.get(name)?, *new))));
            self.leases = leases;
        }
        // The text remains where only the rules change that hold at the time.
        self.changed = if self.config.text == config.text { self.changed } else { now };
        let old_rules = self.classify.replace(rules, &config);
        let old_config = std::mem::replace(&mut self.config, config);
        let spare = match how {
            SwapKind::InPlace => tree,
            SwapKind::Replaced => std::mem::replace(&mut self.tree, tree),
        };
        self.setup = setup;
        self.told = ToldFlows::succeed(self.told.take(), &self.config);
        self.account.overhead = LineOverhead::of(&self.config);
        let moved = self.account.rules.continue_as(counts);
        if same_statistics && let Some(flows) = self.account.flows.as_mut() {
            let (leases, default) = (&self.leases, self.config.default_class);
            let class = |old| match renumbered.get(&old) {
                Some(new) => *new,
                None if how == SwapKind::InPlace || leases.lease(old).is_some() => old,
                None => default,
            };
            if how == SwapKind::Replaced || moved.is_some() {
                flows.renumber(&moved.unwrap_or_default(), class);
            }
        }
        if !same_statistics {
            self.account.detail = self.config.statistics.detail;
            self.account.flows = flows;
            if let Some((flows, known)) = self.account.flows.as_mut().zip(self.admit.registry.offloaded()) {
                flows.start_offloaded(known);
            }
        }
        // Packets that wait in an offload are entered anew there.
        let elsewhere = match self.admit.registry.offloaded() {
            Some(_) => self.account.classes.all().iter().map(|counts| counts.backlog.packets as usize).sum(),
            None => 0,
        };
        if how == SwapKind::Replaced {
            // Flows are registered anew, and the control plane makes its promises again.
            self.admit.registry = self.admit.registry.renewed();
        }
        let rehomed = match how {
            SwapKind::InPlace => self.requeue(now, &[], out),
            SwapKind::Replaced => {
                let slots = self.admit.packets.slots();
                let places: Vec<_> = slots
                    .iter()
                    .map(|&slot| self.account.classes.index(self.admit.packets.packet(slot).class))
                    .collect();
                let classes = std::mem::replace(&mut self.account.classes, crate::classes::Classes::new(Vec::new(), 0));
                let (classes, moved) = classes.renamed(names_of(&self.config), self.leases.first_class());
                self.account.classes = classes;
                let places = places.into_iter().map(|place| moved.get(place).copied().flatten()).collect();
                elsewhere + self.rehome(now, &slots, places, &|_| true, same_statistics, out)
            }
        };
        Ok((SwapReport { how, rehomed }, Retired { _tree: spare, _rules: old_rules, _config: old_config }))
    }

    /// Changes the parameters of the tree to those of `config`, if the trees are alike enough; returns whether they are.
    fn change_in_place(&mut self, now: Instant, config: &Config) -> bool {
        match (&self.config.root, &config.root) {
            (Root::Shaper(old), Root::Shaper(new)) => {
                let alike = |(old, new): (&tidegate_config::shaper::Class, &tidegate_config::shaper::Class)| {
                    old.name == new.name && old.queue == new.queue
                };
                if old.flow_by != new.flow_by
                    || old.fair_by != new.fair_by
                    || old.classes.len() != new.classes.len()
                    || !old.classes.iter().zip(&new.classes).all(alike)
                {
                    return false;
                }
                let Some(fbc) = self.tree.shaper_mut() else { return false };
                let classes: Vec<_> = new.classes.iter().map(tidegate_config::shaper::Class::params).collect();
                fbc.change(now, new.params(self.setup.catch_up), &classes, config.profiles()).is_ok()
            }
            (Root::Discipline(old), Root::Discipline(new)) if old == new => true,
            (Root::Discipline(_), Root::Discipline(_)) => {
                let (Some(old), Some(new)) = (cbq_of(&self.config), cbq_of(config)) else { return false };
                let same_reservations = old.reservations == new.reservations;
                let parameters = new.parameters();
                match (self.tree.cbq_mut(), parameters) {
                    (Some(cbq), Ok(parameters)) if same_reservations && old.is_same_tree(new) => {
                        change_classes(cbq, now, &parameters)
                    }
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// Moves packets after rules have changed, or after the leaves `gone` were removed with their packets. In CBQ, queues out of
    /// which packets must move begin anew. In other trees arrivals wait until the queued packets of their flow have left.
    pub(crate) fn requeue(&mut self, now: Instant, gone: &[ClassId], out: &mut impl Sink<H>) -> usize {
        let slots = self.admit.packets.slots();
        let mut emptied: HashSet<ClassId> = gone.iter().copied().collect();
        if let Tree::Cbq(cbq) = &mut self.tree {
            for &slot in &slots {
                let class = self.admit.packets.packet(slot).class;
                if !self.admit.packets.is_held(slot)
                    && !emptied.contains(&class)
                    && self.classify.classify(self.admit.packets.fields(slot)).class != class
                {
                    let site = Site { seed: self.setup.seed, name: "root".into(), now };
                    let own = cbq_of(&self.config).and_then(|section| section.build_queue(class, &site));
                    if let Some(queue) = own.or_else(|| self.leases.queue(class))
                        && cbq.replace_queue(now, class, queue).is_ok()
                    {
                        emptied.insert(class);
                    }
                }
            }
        }
        let places =
            slots.iter().map(|&slot| Some(self.account.classes.index(self.admit.packets.packet(slot).class))).collect();
        self.rehome(now, &slots, places, &|class| emptied.contains(&class), true, out)
    }

    /// Rebuilds the hold queue from the packets that were in it and those that were in a class that is `gone`. `slots` are all
    /// packets, and `places` the indices of the classes in which they are counted. Returns the number of packets from classes
    /// that are gone.
    fn rehome(
        &mut self,
        now: Instant,
        slots: &[u32],
        places: Vec<Option<usize>>,
        gone: &dyn Fn(ClassId) -> bool,
        same_flows: bool,
        out: &mut impl Sink<H>,
    ) -> usize {
        struct FlowPackets {
            key: u64,
            /// To be held.
            older: VecDeque<u32>,
            /// The number that stay in the tree.
            stay: u32,
            attempt: Option<u32>,
            /// Whether packets that stay are in another class than by the present rules.
            changes: bool,
        }
        let mut flows: Vec<FlowPackets> = Vec::new();
        let mut known: HashMap<u64, usize> = HashMap::new();
        let mut rehomed = 0;
        for (&slot, place) in slots.iter().zip(places) {
            let fields = *self.admit.packets.fields(slot);
            let classification = self.classify.classify(&fields);
            let packet = self.admit.packets.packet(slot);
            let key = classification.flow.flow;
            let index = *known.entry(key).or_insert_with(|| {
                flows.push(FlowPackets { key, older: VecDeque::new(), stay: 0, attempt: None, changes: false });
                flows.len() - 1
            });
            let flow = &mut flows[index];
            if self.admit.packets.is_held(slot) || gone(packet.class) {
                rehomed += usize::from(!self.admit.packets.is_held(slot));
                self.account.classes.moves(place, self.account.classes.index(classification.class), packet.size);
                let packet = self.admit.packets.packet_mut(slot);
                packet.class = classification.class;
                packet.left_by = classification.class;
                packet.flow = classification.flow;
                packet.profile = classification.rule.map_or(0, |rule| rule + 1);
                if !same_flows {
                    let slots = self.account.find(key);
                    let class = (classification.class, classification.rule);
                    packet.record = self.account.flow_arrived(now, key, &fields, class, packet.size, slots);
                }
                self.admit.packets.set_held(slot, true);
                flow.older.push_back(slot);
            } else {
                flow.stay += 1;
                if self.admit.hold.is_attempted(key, slot) {
                    flow.attempt = Some(slot);
                }
                flow.changes |= classification.class != packet.class;
                // The hold queue counts departures by the key of the flow by the present rules.
                self.admit.packets.packet_mut(slot).flow = classification.flow;
            }
        }
        self.admit.hold = HoldQueue::default();
        self.admit.hold.changed(now);
        for FlowPackets { key, older, stay, attempt, changes } in flows {
            let inside = match (attempt, stay) {
                (Some(slot), _) => Inside::Attempt(slot),
                (None, 0) => Inside::Nothing,
                (None, stay) => Inside::Before(stay),
            };
            if !older.is_empty() || attempt.is_some() || changes {
                self.admit.hold.hold_flow(key, inside, older);
            }
        }
        self.queue_held(now, out);
        rehomed
    }
}

/// Changes the parameters of classes in an order in which the children of a class never need more rate than it has. Returns
/// whether that succeeded; if not, the tree is unchanged.
fn change_classes<P: Packet, Q: Qdisc<P>>(cbq: &mut Cbq<P, Q>, now: Instant, wanted: &[(ClassId, Class)]) -> bool {
    let before: Vec<_> = wanted.iter().filter_map(|(id, _)| Some((*id, *cbq.class(*id)?))).collect();
    // First lower each rate to the smaller of the old and the new one, children first; then raise rates, parents first.
    let low = |(id, class): &(ClassId, Class)| {
        let rate: Rate = cbq.class(*id).map_or(class.rate, |old| old.rate.min(class.rate));
        (*id, Class { rate, ..*class })
    };
    let lowered: Vec<_> = wanted.iter().map(low).collect();
    let mut all = |steps: &[(ClassId, Class)]| {
        let mut left: Vec<_> = steps.iter().copied().filter(|(id, class)| cbq.class(*id) != Some(class)).collect();
        while !left.is_empty() {
            let n = left.len();
            left.retain(|(id, class)| cbq.change(now, *id, *class).is_err());
            if left.len() == n {
                return false;
            }
        }
        true
    };
    if all(&lowered) && all(wanted) {
        return true;
    }
    let down: Vec<_> = before
        .iter()
        .zip(wanted)
        .map(|((id, old), (_, new))| (*id, Class { rate: old.rate.min(new.rate), ..*old }))
        .collect();
    all(&down);
    all(&before);
    false
}

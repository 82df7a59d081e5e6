//! Other rules and another tree for a running engine: nothing is lost by it, and nothing reordered.
//!
//! *Law*: of the packets that wait when the configuration is changed, each leaves in its turn, by the new rules, and none
//! is dropped, whatever the new limits are; within a flow all leave in the order of their arrival. What left before
//! the change counts against the bursts of the new tree, so that the bound of the total holds across it.
//! *Source*: the tree being swapped at a packet boundary is how `tc` replaces a qdisc; `tc` drops what waits.
//! *Cost*: what needs time (classifier, tree) is made before, in [`PreparedConfig::new`]; the swap itself is linear in what waits.
//!
//! # What survives which change
//! | change | tree | kept | lost |
//! | --- | --- | --- | --- |
//! | rules only | continues | everything | nothing |
//! | shaper: any key of classes (but `queue`), total, weights, minimums | continues | buckets, flows with their places, preferences and promises | what exceeds a smaller bucket |
//! | CBQ: rate, share, priority, borrow, bursts of classes | continues | estimators, rounds, queues | what exceeds a smaller burst |
//! | CBQ: a reservation is made or ends | continues | estimators, rounds | the averages of the queues that packets moved out of |
//! | classes come, go or change their order, `flow-by`, `fair-by`, `queue` | new | of classes that keep their name: counts, buckets or estimators | flow records, promises beside the configuration (their owner makes them again), averages of queues, marks made on what waits |
//! | the kind of discipline | new | counts by name, what was used of the total's burst | everything else |
//!
//! The source of the hold queue has what waits in front of a new tree, and why none of it can be lost
//! (`hold_queue.rs`). A class that keeps its name keeps its counts; packets that go to another are counted as moved.
//!
//! *Notes*: a packet keeps the size on the link that it was counted with when it arrived. In the first moments one packet
//! of a flow is in the tree at a time, so that shares between flows are even there rather than by old queues.

use std::collections::{HashMap, HashSet, VecDeque};

use tidegate_config::discipline::Site;
use tidegate_config::shaper::{Config, Root};
use tidegate_core::cbq::{Cbq, Class};
use tidegate_core::{ClassId, Instant, Packet, Qdisc, Rate};

use crate::account::{Link, flows_of};
use crate::class_names::{cbq_of, names_of, numbers_of};
use crate::engine::Engine;
use crate::flows::Flows;
use crate::hold_queue::{HoldQueue, Inside};
use crate::recorder::Operation;
use crate::reserve::ReserveError;
use crate::rules::{BuildFailure, Rules, Setup};
use crate::sink::Sink;
use crate::tree::Tree;

/// A configuration made ready to take the place of another. Making it takes time, using it hardly any.
pub struct PreparedConfig {
    config: Config,
    text: Option<String>,
    /// The instant at which it was built.
    built: Instant,
    setup: Setup,
    rules: Rules,
    pub(crate) tree: Tree,
    flows: Option<Flows>,
}

/// How a new configuration was applied to the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwapKind {
    /// It continues, with other parameters.
    InPlace,
    /// Another took its place.
    Replaced,
}

/// The result of a change of the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwapReport {
    /// Whether the tree was changed in place or replaced.
    pub how: SwapKind,
    /// Packets that waited and were entered anew.
    pub rehomed: usize,
}

/// What a change has replaced. Freeing it takes time, and need not happen on the data path.
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
    /// Builds rules and tree of `config`. `setup` must have the secret of the engine that runs.
    ///
    /// # Errors
    /// See [`BuildFailure`].
    pub fn new(config: &Config, setup: &Setup, now: Instant) -> Result<Self, BuildFailure> {
        Ok(Self {
            rules: Rules::new(config, setup)?,
            tree: Tree::build(config, setup.seed, now, setup.catch_up).map_err(BuildFailure::Tree)?,
            flows: flows_of(config)?,
            text: None,
            built: now,
            config: config.clone(),
            setup: setup.clone(),
        })
    }
    /// With the shaper file that it was read from, for recordings.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..self }
    }
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Replaces the configuration at `now`: [`PreparedConfig::new`] and [`Engine::swap`] in one.
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

    /// Replaces the configuration at `now`. Returns what is no longer needed, to be freed where it does
    /// not delay packets.
    ///
    /// # Errors
    /// When reservations do not fit; nothing has changed then.
    pub fn swap(
        &mut self,
        next: PreparedConfig,
        now: Instant,
        out: &mut impl Sink<H>,
    ) -> Result<(SwapReport, Retired), ReserveError> {
        let PreparedConfig { config, text, built, setup, mut rules, mut tree, flows } = next;
        if rules.set_reserved(&self.leases.rules(), &setup.names).is_err() {
            return Err(ReserveError::InTheWay {
                reservations: self.leases.iter().count(),
                why: "their rules name owners that it does not know".into(),
            });
        }
        tree.set_catch_up(self.setup.catch_up);
        let setup = Setup { catch_up: self.setup.catch_up, ..setup };
        // Queued packets refer to places in the flow table: other statistics need other places.
        let same_statistics = format!("{:?}", self.config.statistics) == format!("{:?}", config.statistics);
        let in_place = same_statistics && self.change_in_place(now, &config);
        let how = if in_place { SwapKind::InPlace } else { SwapKind::Replaced };
        let text = text.unwrap_or_else(|| config.text.to_string());
        let act = match text.as_str() {
            "" => Operation::Unrecorded,
            text => Operation::Reconfigure { text, names: &setup.names, built },
        };
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
            self.leases = leases;
        }
        let old_rules = self.classify.replace(rules, &config);
        let old_config = std::mem::replace(&mut self.config, config);
        let spare = match how {
            SwapKind::InPlace => tree,
            SwapKind::Replaced => std::mem::replace(&mut self.tree, tree),
        };
        self.setup = setup;
        self.account.link = Link::of(&self.config);
        if !same_statistics {
            self.account.detail = self.config.statistics.detail;
            self.account.flows = flows;
            if let Some((flows, known)) = self.account.flows.as_mut().zip(self.admit.registry.offloaded()) {
                flows.start_offloaded(known);
            }
        }
        if how == SwapKind::Replaced {
            // Flows are registered anew, and the control plane makes its promises again.
            self.admit.registry = self.admit.registry.renewed();
        }
        let rehomed = match how {
            SwapKind::InPlace => self.requeue(now, &[], out),
            SwapKind::Replaced => {
                let numbers = self.admit.packets.slots();
                let places: Vec<_> =
                    numbers.iter().map(|&at| self.account.classes.index(self.admit.packets.packet(at).class)).collect();
                let classes = std::mem::replace(&mut self.account.classes, crate::classes::Classes::new(Vec::new(), 0));
                let (classes, moved) = classes.renamed(names_of(&self.config), self.leases.first_class());
                self.account.classes = classes;
                let places = places.into_iter().map(|place| moved.get(place).copied().flatten()).collect();
                self.rehome(now, &numbers, places, &|_| true, same_statistics, out)
            }
        };
        Ok((SwapReport { how, rehomed }, Retired { _tree: spare, _rules: old_rules, _config: old_config }))
    }

    /// Changes the tree to that of `config` where it is alike enough; returns whether it was.
    fn change_in_place(&mut self, now: Instant, config: &Config) -> bool {
        match (&self.config.root, &config.root) {
            (Root::Shaper(old), Root::Shaper(new)) => {
                let alike = |(old, new): (&tidegate_config::shaper::Class, &tidegate_config::shaper::Class)| {
                    old.name == new.name
                        && match (&old.queue, &new.queue) {
                            (Some(old), Some(new)) => old.is_same(new),
                            (None, None) => true,
                            _ => false,
                        }
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
            (Root::Discipline(old), Root::Discipline(new)) if old.is_same(new) => true,
            (Root::Discipline(_), Root::Discipline(_)) => {
                let (Some(old), Some(new)) = (cbq_of(&self.config), cbq_of(config)) else { return false };
                let same_reservations = format!("{:?}", old.reservations) == format!("{:?}", new.reservations);
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

    /// After rules have changed, or the leaves `gone` were removed with their packets: queues of a tree of CBQ out of
    /// which packets must move begin anew; for other trees arriving packets wait until the queued ones have left.
    pub(crate) fn requeue(&mut self, now: Instant, gone: &[ClassId], out: &mut impl Sink<H>) -> usize {
        let numbers = self.admit.packets.slots();
        let mut emptied: HashSet<ClassId> = gone.iter().copied().collect();
        if let Tree::Cbq(cbq) = &mut self.tree {
            for &at in &numbers {
                let class = self.admit.packets.packet(at).class;
                if !self.admit.packets.is_held(at)
                    && !emptied.contains(&class)
                    && self.classify.classify(self.admit.packets.fields(at)).class != class
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
            numbers.iter().map(|&at| Some(self.account.classes.index(self.admit.packets.packet(at).class))).collect();
        self.rehome(now, &numbers, places, &|class| emptied.contains(&class), true, out)
    }

    /// Forms the lines of the hold queue anew: of all that waited there, and of all that was in a class of the tree
    /// that is `gone`. `places` are the classes that each packet is counted in.
    fn rehome(
        &mut self,
        now: Instant,
        numbers: &[u32],
        places: Vec<Option<usize>>,
        gone: &dyn Fn(ClassId) -> bool,
        same_flows: bool,
        out: &mut impl Sink<H>,
    ) -> usize {
        struct Flow {
            key: u64,
            older: VecDeque<u32>,
            stay: u32,
            attempt: Option<u32>,
            changes: bool,
        }
        let mut flows: Vec<Flow> = Vec::new();
        let mut known: HashMap<u64, usize> = HashMap::new();
        let mut rehomed = 0;
        for (&at, place) in numbers.iter().zip(places) {
            let fields = *self.admit.packets.fields(at);
            let classification = self.classify.classify(&fields);
            let packet = self.admit.packets.packet(at);
            let key = classification.flow.flow;
            let index = *known.entry(key).or_insert_with(|| {
                flows.push(Flow { key, older: VecDeque::new(), stay: 0, attempt: None, changes: false });
                flows.len() - 1
            });
            let flow = &mut flows[index];
            if self.admit.packets.is_held(at) || gone(packet.class) {
                rehomed += usize::from(!self.admit.packets.is_held(at));
                self.account.classes.moves(place, self.account.classes.index(classification.class), packet.size);
                let packet = self.admit.packets.packet_mut(at);
                packet.class = classification.class;
                packet.left_by = classification.class;
                packet.flow = classification.flow;
                packet.profile = classification.rule.map_or(0, |rule| rule + 1);
                if !same_flows {
                    let slots = self.account.find(key, |_| ());
                    let class = (classification.class, classification.rule);
                    packet.record = self.account.flow_arrived(now, key, &fields, class, packet.size, slots);
                }
                self.admit.packets.set_held(at, true);
                flow.older.push_back(at);
            } else {
                flow.stay += 1;
                if self.admit.hold.is_attempted(key, at) {
                    flow.attempt = Some(at);
                }
                flow.changes |= classification.class != packet.class;
                // What leaves is counted out of the queue of its flow by the present rules.
                self.admit.packets.packet_mut(at).flow = classification.flow;
            }
        }
        self.admit.hold = HoldQueue::new();
        self.admit.hold.changed(now);
        for Flow { key, older, stay, attempt, changes } in flows {
            let inside = match (attempt, stay) {
                (Some(at), _) => Inside::Attempt(at),
                (None, 0) => Inside::Nothing,
                (None, stay) => Inside::Before(stay),
            };
            if !older.is_empty() || attempt.is_some() || changes {
                self.admit.hold.hold_flow(key, inside, older);
            }
        }
        self.schedule_held(now, out);
        rehomed
    }
}

/// Changes the parameters of classes, in an order in which no class is promised more than its parent has at any time.
/// Returns whether that succeeded; if not, the tree is unchanged.
fn change_classes<P: Packet, Q: Qdisc<P>>(cbq: &mut Cbq<P, Q>, now: Instant, wanted: &[(ClassId, Class)]) -> bool {
    let before: Vec<_> = wanted.iter().filter_map(|(id, _)| Some((*id, *cbq.class(*id)?))).collect();
    // First down to what holds before and after, children first; then up, parents first.
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

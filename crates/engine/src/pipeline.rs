//! [`Pipeline`]: the way of a packet from a data path through the disciplines and back.

use std::collections::HashMap;
use std::fmt;

use tidegate_config::shaper::{Config, FlowBy, Owners, Root, UnknownOwner};
use tidegate_core::classify::{self, BuildError, Classifier, Fields};
use tidegate_core::flow::{self, FlowHash};
use tidegate_core::fragments::{self, Fragments};
use tidegate_core::{
    Backlog, Bytes, ClassId, Deadline, DropReason, Dscp, Ecn, Event, FlowKey, Instant, Outlet, Packet, Qdisc, Span,
};

use crate::held::Held;
use crate::stats::{ClassCounts, ClassStatus};
use crate::tree::Tree;

/// A superpacket that would occupy its flow's rate for longer than this is cut into segments first.
pub const LONGEST_WHOLE: Span = Span::from_millis(1);

/// What the data path and the dissector know of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sighting {
    /// What rules and flow keys are made of.
    pub fields: Fields,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Bytes from the network header on, all segments of a superpacket together.
    pub length: u32,
    /// Bytes of the network and transport headers.
    pub headers: u32,
    /// Whether it is an acknowledgement without data.
    pub pure_ack: bool,
    /// Whether it is a superpacket, which the data path could have cut.
    pub shape: Shape,
}

/// Whether a packet is one packet of the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Shape {
    /// It leaves as it is.
    #[default]
    Single,
    /// It will be cut into segments on its way out.
    Super,
}

/// What is to be changed in a packet that passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// The code point to write, if another than it has.
    pub dscp: Option<Dscp>,
    /// Whether to mark congestion experienced.
    pub congestion: bool,
}

/// Where the engine sends packets: the data path's half of [`Pipeline`].
pub trait Exit<H> {
    /// The packet may go, with `change` made to it.
    fn pass(&mut self, handle: H, change: Change);
    /// The packet will not go.
    fn refuse(&mut self, handle: H, reason: DropReason);
    /// Something its owner may want to know.
    fn event(&mut self, _event: Event) {}
}

/// What became of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken<H> {
    /// It waits, or was refused already.
    In,
    /// The superpacket is too long for the rate of its flow: cut it, and hand the segments in instead.
    TooLong(H),
}

/// Why a configuration cannot run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BuildFailure {
    /// The rules cannot be built.
    Rules(BuildError),
    /// The discipline cannot be built.
    Tree(String),
    /// A rule names a user that this machine does not have.
    UnknownUser(String),
    /// A rule names a control group that this machine does not have, and why.
    UnknownControlGroup(String, String),
}

impl fmt::Display for BuildFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(error) => write!(f, "the rules cannot be built: {error}"),
            Self::Tree(text) => write!(f, "the discipline cannot be built: {text}"),
            Self::UnknownUser(name) => {
                write!(f, "no user is called `{name}` here; write a number, or create the user first")
            }
            Self::UnknownControlGroup(path, why) => write!(f, "control group `{path}`: {why}"),
        }
    }
}

impl std::error::Error for BuildFailure {}

/// What names in rules mean on this machine. A data path that does not know owners gives none.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// User names to numbers.
    pub users: HashMap<String, u32>,
    /// Control group paths to numbers that the data path will give in [`Fields::cgroup`].
    pub cgroups: HashMap<String, u64>,
}

/// How a pipeline is set up, beside its configuration.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Random streams of disciplines derive from it.
    pub seed: u64,
    /// The secret of flow keys: random bytes live, a constant where runs must be equal.
    pub secret: [u64; 2],
    /// The lateness the shaper makes up for.
    pub catch_up: Span,
    /// What names mean.
    pub names: Names,
}

/// Where a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// The rule that matched, by its number in the configuration.
    pub rule: Option<u32>,
    /// Its class.
    pub class: ClassId,
    /// Its flow.
    pub flow: FlowKey,
}

/// The rules and what they lead to.
struct Rules {
    classifier: Classifier,
    hash: FlowHash,
    classes: Vec<ClassId>,
    default: ClassId,
}

impl Rules {
    fn judge(&self, fields: &Fields) -> Judgement {
        let rule = self.classifier.classify(fields).map(|index| self.classifier.rules()[index as usize].target);
        let class = rule.map_or(self.default, |rule| self.classes[rule as usize]);
        Judgement { rule, class, flow: self.hash.key(fields) }
    }
}

/// A fragment on hold: the data path's handle and what was seen of it.
type Fragment<H> = (H, Sighting);

/// The engine. See the [module](self).
pub struct Pipeline<H: Send> {
    rules: Rules,
    fragments: Fragments<Fragment<H>, Judgement>,
    /// Fragments that the table released in this call; empty between calls.
    released: Vec<(Fragment<H>, Judgement)>,
    mtu: u32,
    overhead: u32,
    tree: Tree<Held<H>>,
    names: Vec<String>,
    counts: Vec<ClassCounts>,
    unclassified: u64,
}

impl<H: Copy + Send + 'static> Pipeline<H> {
    /// Builds the engine of `config`, with empty queues at `now`.
    ///
    /// # Errors
    /// See [`BuildFailure`].
    pub fn new(config: &Config, setup: &Setup, now: Instant) -> Result<Self, BuildFailure> {
        let mut rules = Vec::new();
        for (target, rule) in (0..).zip(&config.rules) {
            // All of them have the place of the rule, so that the first match stays the first.
            for matching in rule.matches.conjunctions(&mut &setup.names)? {
                rules.push(classify::Rule { matching, target });
            }
        }
        let by = match &config.root {
            Root::Shaper(shaper) => shaper.flow_by,
            Root::Discipline(_) => FlowBy::FiveTuple,
        };
        let names: Vec<_> = match config.class_names() {
            names if names.is_empty() => vec!["all".into()],
            names => names.into_iter().map(String::from).collect(),
        };
        let bytes = |n: Bytes| u32::try_from(n.as_u64()).unwrap_or(u32::MAX);
        Ok(Self {
            rules: Rules {
                classifier: Classifier::new(rules).map_err(BuildFailure::Rules)?,
                hash: FlowHash::new(setup.secret, flow_by(by)),
                classes: config.rules.iter().map(|rule| rule.class).collect(),
                default: config.default_class,
            },
            fragments: Fragments::new(fragments::Params::default(), setup.secret)
                .map_err(|error| BuildFailure::Tree(error.to_string()))?,
            released: Vec::new(),
            mtu: bytes(config.interface.mtu).max(68),
            overhead: bytes(config.interface.overhead),
            tree: Tree::build(config, setup.seed, now, setup.catch_up).map_err(BuildFailure::Tree)?,
            counts: vec![ClassCounts::default(); names.len()],
            names,
            unclassified: 0,
        })
    }

    /// Takes a packet that the data path holds.
    pub fn arrive(&mut self, now: Instant, handle: H, seen: &Sighting, out: &mut impl Exit<H>) -> Taken<H> {
        if seen.fields.fragment.is_none() {
            let judgement = self.rules.judge(&seen.fields);
            return self.take(now, handle, seen, judgement, out);
        }
        let (rules, released) = (&self.rules, &mut self.released);
        let size = Bytes::new(seen.length.into());
        self.fragments.arrive(
            now,
            &seen.fields,
            (handle, *seen),
            size,
            &mut |fields| rules.judge(fields),
            &mut |p, v| {
                released.push((p, v));
            },
        );
        self.take_released(now, out);
        Taken::In
    }

    fn take_released(&mut self, now: Instant, out: &mut impl Exit<H>) {
        let mut released = std::mem::take(&mut self.released);
        for ((handle, seen), judgement) in released.drain(..) {
            self.take(now, handle, &Sighting { shape: Shape::Single, ..seen }, judgement, out);
        }
        self.released = released;
    }

    fn take(
        &mut self,
        now: Instant,
        handle: H,
        seen: &Sighting,
        judgement: Judgement,
        out: &mut impl Exit<H>,
    ) -> Taken<H> {
        let Judgement { rule, class, flow } = judgement;
        let (size, segments) = self.wire(seen);
        if segments > 1
            && let Some(rate) = self.tree.rate_of(flow.flow, class)
            && rate.time_for_ceil(size).is_none_or(|time| time > LONGEST_WHOLE)
        {
            return Taken::TooLong(handle);
        }
        self.unclassified += u64::from(rule.is_none());
        let held = Held {
            handle,
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
        };
        let at = slot(class, self.counts.len());
        self.counts[at].arrived(size);
        self.tree.enqueue(now, held, &mut Door { counts: &mut self.counts, out });
        Taken::In
    }

    /// Where a packet with these fields would go, apart from what is remembered of fragments.
    pub fn judge(&self, fields: &Fields) -> Judgement {
        self.rules.judge(fields)
    }

    /// Lets one packet go if one may at `now`; tells whether one did.
    pub fn depart(&mut self, now: Instant, out: &mut impl Exit<H>) -> bool {
        if self.fragments.deadline().is_some_and(|deadline| deadline <= now) {
            let released = &mut self.released;
            self.fragments.expire(now, &mut |p, v| released.push((p, v)));
            self.take_released(now, out);
        }
        let Some(held) = self.tree.dequeue(now, &mut Door { counts: &mut self.counts, out }) else { return false };
        let at = slot(held.class, self.counts.len());
        let counts = &mut self.counts[at];
        counts.left(held.size);
        let through = slot(held.left_by, self.counts.len());
        self.counts[through].sent(held.size, now.since(held.arrived));
        let counts = &mut self.counts[at];
        let change = Change { dscp: (held.dscp != held.arrived_as).then_some(held.dscp), congestion: held.marked };
        counts.marked += u64::from(change.congestion);
        counts.remarked += u64::from(change.dscp.is_some());
        out.pass(held.handle, change);
        true
    }

    /// When to call [`Pipeline::depart`] next. It may then do nothing but let a fragment on hold step into its line.
    pub fn deadline(&self, now: Instant) -> Deadline {
        let fragments = self.fragments.deadline().map_or(Deadline::Idle, |time| Deadline::at(time, now));
        self.tree.deadline(now).min(fragments)
    }

    /// Lets everything go at once, unshaped, in the order in which it would have left: for an orderly end.
    pub fn release_all(&mut self, out: &mut impl Exit<H>) {
        // Far enough into the future everything may leave; a discipline that drops by age may drop.
        let mut now = Instant::ZERO;
        let released = &mut self.released;
        self.fragments.drain(&mut |p, v| released.push((p, v)));
        self.take_released(now, out);
        while !self.tree.backlog().is_empty() {
            let Some(time) = self.tree.deadline(now).instant(now) else { break };
            now = time;
            self.depart(now, out);
        }
    }

    /// The discipline.
    pub fn tree(&self) -> &Tree<Held<H>> {
        &self.tree
    }
    /// The discipline, to steer it.
    pub fn tree_mut(&mut self) -> &mut Tree<Held<H>> {
        &mut self.tree
    }
    /// The names of the classes.
    pub fn class_names(&self) -> &[String] {
        &self.names
    }
    /// Packets that no rule matched.
    pub fn unclassified(&self) -> u64 {
        self.unclassified
    }
    /// The classes with their counts so far.
    pub fn status(&self) -> Vec<ClassStatus> {
        let views = self.tree.classes();
        let status = |(n, (name, counts)): (usize, (&String, &ClassCounts))| ClassStatus {
            name: name.clone(),
            rate: views.get(n).map(|view| view.rate),
            flows: views.get(n).map(|view| view.flows),
            counts: counts.clone(),
        };
        self.names.iter().zip(&self.counts).enumerate().map(status).collect()
    }
    /// Fragments that wait for the first of their datagram, and what happened to fragments so far.
    pub fn fragments(&self) -> (Backlog, fragments::Counts) {
        (self.fragments.backlog(), self.fragments.counts())
    }
    /// Bytes on the wire and the number of packets: each segment of a superpacket has headers of its own.
    fn wire(&self, seen: &Sighting) -> (Bytes, u32) {
        let payload = seen.length.saturating_sub(seen.headers);
        let segments = match seen.shape {
            Shape::Single => 1,
            Shape::Super => payload.div_ceil(self.mtu.saturating_sub(seen.headers).max(1)).max(1),
        };
        let extra = u64::from(segments - 1) * u64::from(seen.headers) + u64::from(segments) * u64::from(self.overhead);
        (Bytes::new(u64::from(seen.length) + extra), segments)
    }
}

/// A class number that the discipline does not know counts as the last.
fn slot(class: ClassId, classes: usize) -> usize {
    (class.0 as usize).min(classes - 1)
}

/// Counts what is dropped on its way back to the data path.
struct Door<'a, E> {
    counts: &'a mut Vec<ClassCounts>,
    out: &'a mut E,
}

impl<H: Send, E: Exit<H>> Outlet<Held<H>> for Door<'_, E> {
    fn dropped(&mut self, held: Held<H>, reason: DropReason) {
        let at = slot(held.class, self.counts.len());
        self.counts[at].dropped(held.size(), reason);
        self.out.refuse(held.handle, reason);
    }
    fn event(&mut self, event: Event) {
        self.out.event(event);
    }
}

fn flow_by(by: FlowBy) -> flow::FlowBy {
    match by {
        FlowBy::FiveTuple => flow::FlowBy::FiveTuple,
        FlowBy::HostPair => flow::FlowBy::HostPair,
        FlowBy::Source => flow::FlowBy::Source,
        FlowBy::Destination => flow::FlowBy::Destination,
        FlowBy::User => flow::FlowBy::Uid,
        FlowBy::ControlGroup => flow::FlowBy::Cgroup,
        FlowBy::Dscp => flow::FlowBy::Dscp,
        FlowBy::Mark => flow::FlowBy::Mark,
    }
}

impl Owners for &Names {
    fn user(&mut self, name: &str) -> Option<u32> {
        self.users.get(name).copied()
    }
    fn cgroup(&mut self, path: &str) -> Option<u64> {
        self.cgroups.get(path).copied()
    }
}

impl From<UnknownOwner> for BuildFailure {
    fn from(unknown: UnknownOwner) -> Self {
        match unknown {
            UnknownOwner::User(name) => Self::UnknownUser(name),
            UnknownOwner::ControlGroup(path) => {
                Self::UnknownControlGroup(path, "this data path does not know control groups".into())
            }
        }
    }
}

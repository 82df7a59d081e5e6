//! The rules of a configuration on this machine: which class and which flow a packet belongs to.

use std::collections::HashMap;
use std::fmt;

use tidegate_config::discipline::Discipline;
use tidegate_config::shaper::{Config, FairBy, FlowBy, Match, Owners, Root, UnknownOwner};
use tidegate_core::classify::{self, BuildError, Classifier, Fields, Target};
use tidegate_core::flow::{self, FlowHash};
use tidegate_core::{ClassId, FlowKey, Span};

use crate::class_names::numbers_of;

/// Why a configuration cannot run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BuildFailure {
    /// The rules cannot be built.
    Rules(BuildError),
    /// The discipline cannot be built.
    Tree(String),
    /// A rule, by its number from 1, names a user that this machine does not have.
    UnknownUser {
        /// The number of the rule, from 1.
        rule: usize,
        /// The name of the user.
        name: String,
    },
    /// A rule, by its number from 1, names a control group that this machine does not have.
    UnknownControlGroup {
        /// The number of the rule, from 1.
        rule: usize,
        /// The path of the control group.
        path: String,
        /// Why its id cannot be determined.
        why: String,
    },
}

impl fmt::Display for BuildFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(error) => write!(f, "the rules cannot be built: {error}"),
            Self::Tree(text) => write!(f, "the discipline cannot be built: {text}"),
            Self::UnknownUser { rule, name } => {
                write!(f, "rule {rule}: no user is called `{name}` here; write a number, or create the user first")
            }
            Self::UnknownControlGroup { rule, path, why } => write!(f, "rule {rule}: control group `{path}`: {why}"),
        }
    }
}

impl std::error::Error for BuildFailure {}

/// The ids of the names in rules on this machine; empty for a data path without owners.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// User names to numbers.
    pub users: HashMap<String, u32>,
    /// Control group paths to numbers that the data path will set in [`Fields::cgroup`].
    pub cgroups: HashMap<String, u64>,
}

/// The setup of an engine beside its configuration.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Random streams of disciplines derive from it.
    pub seed: u64,
    /// The secret of flow keys: random bytes live, a constant where runs must be equal.
    pub secret: [u64; 2],
    /// The lateness the shaper makes up for.
    pub catch_up: Span,
    /// Ids of users and control groups by name.
    pub names: Names,
}

/// The result of classifying a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classification {
    /// The rule that matched, by its number in the configuration; those of reservations count on from there.
    pub rule: Option<u32>,
    /// Its class.
    pub class: ClassId,
    /// Its flow, which is within the class: the key of the flow contains the class.
    pub flow: FlowKey,
}

/// The rules of a configuration and the keys of its flows as numbers, for a program that classifies by itself. `groups` are
/// the control groups of its rules, in their order.
///
/// # Errors
/// When the rules cannot be built, or name an owner that `setup` does not have.
pub fn image(config: &Config, setup: &Setup, groups: &[u64]) -> Result<Vec<u64>, BuildFailure> {
    let rules = Rules::new(config, setup)?;
    let target = |class: ClassId, profile| Target { class: class.0, profile, salt: rules.salt(class) };
    let targets: Vec<Target> = rules.classes.iter().zip(1..).map(|(class, profile)| target(*class, profile)).collect();
    let image = classify::image(rules.classifier.rules(), &targets, target(rules.default, 0), &rules.hash, groups);
    image.map_err(BuildFailure::Rules)
}

/// The rules and what they lead to.
pub(crate) struct Rules {
    /// Those of reservations, which go first. Apart from the others, so that one more does not cost a new classifier of
    /// all of them.
    reserved: Option<Classifier>,
    reserved_classes: Vec<ClassId>,
    classifier: Classifier,
    hash: FlowHash,
    /// What the key of a flow contains of its class, by the number of the class.
    salts: Vec<u64>,
    classes: Vec<ClassId>,
    default: ClassId,
}

/// A classifier whose targets are the places in `matches`.
fn classifier<'a>(matches: impl Iterator<Item = &'a Match>, names: &Names) -> Result<Classifier, BuildFailure> {
    let mut rules = Vec::new();
    for (target, matches) in (0_u32..).zip(matches) {
        // All of them have the place of the rule, so that the first match stays the first.
        let alternatives = matches.conjunctions(&mut &*names);
        for matching in alternatives.map_err(|owner| BuildFailure::unknown(target as usize, owner))? {
            rules.push(classify::Rule { matching, target });
        }
    }
    Classifier::new(rules).map_err(BuildFailure::Rules)
}

/// What the keys of flows contain of each class that has a name: a hash of the name, so that a flow keeps its key when
/// the number of its class changes. Classes of reservations have numbers only.
fn salts(hash: &FlowHash, config: &Config) -> Vec<u64> {
    let named = numbers_of(config);
    let mut salts: Vec<u64> = (0..named.values().map(|class| class.0 + 1).max().unwrap_or(0))
        .map(|class| hash.class(&class.to_le_bytes()))
        .collect();
    for (name, class) in named {
        salts[class.0 as usize] = hash.class(name.as_bytes());
    }
    salts
}

/// The place of the first that matches.
fn first_match(classifier: &Classifier, fields: &Fields) -> Option<u32> {
    classifier.classify(fields).map(|index| classifier.rules()[index as usize].target)
}

impl Rules {
    pub(crate) fn new(config: &Config, setup: &Setup) -> Result<Self, BuildFailure> {
        let (by, hosts) = match &config.root {
            Root::Shaper(shaper) => {
                // Disciplines of classes may distinguish hosts; of the shaper itself only its fairness does.
                let inside =
                    shaper.classes.iter().any(|class| class.queue.as_ref().is_some_and(Discipline::reads_hosts));
                (shaper.flow_by, shaper.fair_by != FairBy::Flow || inside)
            }
            Root::Discipline(discipline) => (FlowBy::FiveTuple, discipline.reads_hosts()),
        };
        let hash = FlowHash::new(setup.secret, flow_by(by));
        let hash = if hosts { hash } else { hash.without_hosts() };
        Ok(Self {
            reserved: None,
            reserved_classes: Vec::new(),
            classifier: classifier(config.rules.iter().map(|rule| &rule.matches), &setup.names)?,
            salts: salts(&hash, config),
            hash,
            classes: config.rules.iter().map(|rule| rule.class).collect(),
            default: config.default_class,
        })
    }

    /// Other rules before those of the configuration.
    pub(crate) fn set_reserved(&mut self, rules: &[(&Match, ClassId)], names: &Names) -> Result<(), BuildFailure> {
        let built = classifier(rules.iter().map(|(matches, _)| *matches), names)?;
        self.reserved = (!rules.is_empty()).then_some(built);
        self.reserved_classes = rules.iter().map(|(_, class)| *class).collect();
        Ok(())
    }

    pub(crate) fn classify(&self, fields: &Fields) -> Classification {
        self.in_class(self.lookup(fields), fields)
    }

    /// A packet of this rule and class.
    #[inline]
    fn in_class(&self, (rule, class): (Option<u32>, ClassId), fields: &Fields) -> Classification {
        let mut flow = self.hash.key(fields);
        // Both are keyed hashes, so that no sender can make two flows meet.
        flow.flow ^= self.salt(class);
        Classification { rule, class, flow }
    }

    /// The key of the flow of a packet with these fields, without its class.
    pub(crate) fn flow_key(&self, fields: &Fields) -> FlowKey {
        self.hash.key(fields)
    }

    fn salt(&self, class: ClassId) -> u64 {
        self.salts.get(class.0 as usize).copied().unwrap_or_else(|| self.hash.class(&class.0.to_le_bytes()))
    }

    fn lookup(&self, fields: &Fields) -> (Option<u32>, ClassId) {
        if let Some(at) = self.reserved.as_ref().and_then(|reserved| first_match(reserved, fields)) {
            let rule = Some(self.classes.len() as u32 + at);
            return (rule, self.reserved_classes[at as usize]);
        }
        self.class_of(first_match(&self.classifier, fields))
    }

    #[inline]
    fn class_of(&self, rule: Option<u32>) -> (Option<u32>, ClassId) {
        (rule, rule.map_or(self.default, |rule| self.classes[rule as usize]))
    }
}

fn flow_by(by: FlowBy) -> flow::FlowBy {
    match by {
        FlowBy::FiveTuple => flow::FlowBy::FiveTuple,
        FlowBy::HostPair => flow::FlowBy::HostPair,
        FlowBy::Source => flow::FlowBy::Source,
        FlowBy::Destination => flow::FlowBy::Destination,
        FlowBy::Socket => flow::FlowBy::Socket,
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

impl BuildFailure {
    /// Returns the failure of the first rule with an owner that is not among `names`.
    pub fn unknown_owner(config: &Config, names: &Names) -> Option<Self> {
        let mut rules = config.rules.iter().enumerate();
        rules.find_map(|(at, rule)| rule.matches.conjunctions(&mut &*names).err().map(|owner| Self::unknown(at, owner)))
    }
    /// Returns the failure of the rule at this place.
    fn unknown(at: usize, owner: UnknownOwner) -> Self {
        let rule = at + 1;
        match owner {
            UnknownOwner::User(name) => Self::UnknownUser { rule, name },
            UnknownOwner::ControlGroup(path) => {
                let why = "this data path does not know control groups".into();
                Self::UnknownControlGroup { rule, path, why }
            }
        }
    }
}

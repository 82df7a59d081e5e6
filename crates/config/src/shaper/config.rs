//! The validated form of a shaper file.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_core::fbq::Profile;
use tidegate_core::{Bytes, ClassId, Rate, Span};

use super::control::Control;
use super::file::{DataPath, Detail, Direction, Unattended};
use super::metrics::Metrics;
use crate::classes::{self, Follow, Match, Rule, Shaper};
use crate::discipline::Discipline;
use crate::node::Node;
use crate::values::{Quota, WeekMinute};

/// The largest packet of Ethernet.
pub(super) const DEFAULT_MTU: Bytes = Bytes::new(1500);

/// A shaper file, validated and with all defaults filled in.
#[derive(Clone, Debug)]
pub struct Config {
    /// The text of the file, for recordings.
    pub text: Arc<str>,
    /// The tables of the file.
    pub(crate) tables: Arc<Node>,
    /// Where the traffic leaves or arrives.
    pub interface: Interface,
    /// The discipline or the shaper of this direction.
    pub root: Root,
    /// Rules that assign packets to classes; the first that matches applies. Rule `i` is profile `i + 1` of a packet,
    /// profile 0 is that of packets that no rule matched.
    pub rules: Vec<Rule>,
    /// The class of packets that no rule matches.
    pub default_class: ClassId,
    /// The extent of the statistics.
    pub statistics: Statistics,
    /// Whether the resolver of the system is asked for the names of hosts.
    pub reverse_lookup: bool,
    /// Permissions on the control socket.
    pub control: Control,
    /// Where metrics and the web page are served, if anywhere.
    pub metrics: Option<Metrics>,
}

/// The extent of the statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Classes only, or flows as well.
    pub detail: Detail,
    /// The largest number of flows in the table.
    pub flows: u32,
    /// A flow that sends nothing for this long is forgotten.
    pub idle: Span,
}

impl Default for Statistics {
    /// Flows, 16,384 of them, for a minute: what a file without the section gets.
    fn default() -> Self {
        Self { detail: Detail::Flows, flows: 16_384, idle: Span::from_secs(60) }
    }
}

impl Config {
    /// The names of the classes, by number.
    pub fn class_names(&self) -> Vec<&str> {
        match &self.root {
            Root::Shaper(shaper) => shaper.classes.iter().map(|class| class.name.as_str()).collect(),
            Root::Discipline(discipline) => discipline.classes(),
        }
    }
    /// The rate of all classes together; `None` for a discipline that has none.
    pub fn limit(&self) -> Option<Rate> {
        match &self.root {
            Root::Shaper(shaper) => Some(shaper.rate),
            Root::Discipline(discipline) => discipline.line(),
        }
    }
    /// Whether packets are marked when they have waited for about a millisecond, as L4S asks, so that nothing else should make them
    /// wait that long.
    pub fn marks_early(&self) -> bool {
        match &self.root {
            Root::Shaper(shaper) => shaper
                .classes
                .iter()
                .any(|class| class.l4s_step.is_some() || class.queue.as_ref().is_some_and(Discipline::marks_early)),
            Root::Discipline(discipline) => discipline.marks_early(),
        }
    }
    /// The same with another total rate, of which the classes keep their shares; `None` for a discipline.
    pub fn at_rate(&self, rate: Rate) -> Option<Self> {
        match &self.root {
            Root::Shaper(shaper) => Some(Self { root: Root::Shaper(shaper.at_rate(rate)), ..self.clone() }),
            Root::Discipline(_) => None,
        }
    }
    /// The indices of the rules that do not hold at the minute `now` of the week.
    pub fn rules_off(&self, now: WeekMinute) -> BTreeSet<u32> {
        let rules = (0_u32..).zip(&self.rules);
        rules.filter(|(_, rule)| !rule.matches.holds_at(now)).map(|(at, _)| at).collect()
    }
    /// The first rule that needs a clock, if there is one: its index and the key that needs it.
    pub fn timed_rule(&self) -> Option<(usize, &'static str)> {
        self.rules.iter().enumerate().find_map(|(at, rule)| Some((at, rule.matches.key_of_clock()?)))
    }
    /// The rules with a quota and their indices.
    pub fn quotas(&self) -> impl Iterator<Item = (u32, &Rule, Quota)> {
        (0..).zip(&self.rules).filter_map(|(at, rule)| Some((at, rule, rule.matches.quota?)))
    }
    /// Names the count of a rule with a quota. It stays the same when the rule moves in the file or may use another amount; with a
    /// name also when its conditions change. Rules of an interface with the same class and conditions, or the same name, share their
    /// count if they have the same period: so do the two directions of a rule that is for both.
    pub fn quota_key(&self, rule: &Rule) -> String {
        let interface = self.interface.names.first().map_or("", String::as_str);
        let period = rule.matches.quota.map_or("", |quota| quota.period.word());
        let class = self.class_names().get(rule.class.0 as usize).copied().unwrap_or_default();
        match &rule.name {
            Some(name) => format!("{interface}\n{period}\nname {name}"),
            None => format!("{interface}\n{period}\nclass {class}\n{}", Match { quota: None, ..rule.matches.clone() }),
        }
    }
    /// How the rate follows the line, if it does.
    pub fn follow(&self) -> Option<&Follow> {
        match &self.root {
            Root::Shaper(shaper) => shaper.follow.as_ref(),
            Root::Discipline(_) => None,
        }
    }
    /// The profiles of the rules: profile 0 is for packets that match no rule, rule `i` is profile `i + 1`.
    pub fn profiles(&self) -> Vec<Profile> {
        classes::profiles(&self.rules)
    }
}

/// The most threads of a data path: a packet is compared with the number of each.
pub const MOST_THREADS: u32 = 16;

/// The most interfaces under one total: the data path looks up the one of a packet among them.
pub const MOST_INTERFACES: usize = 16;

/// The interfaces whose traffic is shaped together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Their names in the order of the file; none when the command line has them. All rates are those of all of them
    /// together.
    pub names: Vec<String>,
    /// The direction that is shaped.
    pub direction: Direction,
    /// The size of the largest packet.
    pub mtu: Bytes,
    /// The per-packet overhead of the link, which counts in all rates.
    pub overhead: Bytes,
    /// Where packets are queued.
    pub data_path: DataPath,
    /// The fate of a data path in the kernel if tidegate terminates without removing it.
    pub unattended: Unattended,
    /// How many threads share the work. With more than one [`Shaper::divided_by`] is the key.
    pub threads: u32,
}

impl Default for Interface {
    /// No name, what leaves, Ethernet, in the kernel where it takes the file: what a file without the section gets.
    fn default() -> Self {
        Self {
            names: Vec::new(),
            direction: Direction::Egress,
            mtu: DEFAULT_MTU,
            overhead: Bytes::ZERO,
            data_path: DataPath::Auto,
            unattended: Unattended::Keep,
            threads: 1,
        }
    }
}

/// The discipline or the shaper of the traffic.
// There is one for each file.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum Root {
    /// Classes of flows: an FBC over FBQs.
    Shaper(Shaper),
    /// Any discipline.
    Discipline(Box<Discipline>),
}

//! `kind = "cbq"`: [`tidegate_core::cbq`].

use std::collections::{HashMap, HashSet};

use tidegate_core::cbq::{
    self, Accounting, Borrow, Cbq, Class, Derivation, IdleBounds, Lead, LinkClock, Params, TreeError,
};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::{ClassId, Instant, Packet, Qdisc, Rate};

use super::kinds::Discipline;
use super::section::{NoPacket, Section, Site};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};
use crate::suggest;
use crate::values::Percent;

pub mod options;
mod reservations;
mod sharing;

pub use super::kinds::{CbqClass, CbqQueue};
pub use options::{Clock, Measure, Reservations, Sharing};

/// A place, an error, and advice.
type Fault = (Place, String, Option<String>);

impl CbqQueue {
    /// The classes that have children, or may get some by reservations.
    fn inner(&self) -> HashSet<&str> {
        let parents = self.class.iter().filter_map(|class| Some(class.parent.as_ref()?.value.as_str()));
        parents.chain(self.reservations.as_ref().map(|section| section.class.value.as_str())).collect()
    }

    /// The name of the root of the tree, the link, in reports.
    pub const ROOT: &'static str = "root";

    /// The number of each class: the leaves first, then the others, in the order of the file.
    pub fn numbers(&self) -> HashMap<&str, ClassId> {
        self.names().into_iter().take(self.class.len()).zip((0..).map(ClassId)).collect()
    }

    /// The name of each class, at the index of its number; the last is that of the root, which the file does not name.
    pub fn names(&self) -> Vec<&str> {
        let inner = self.inner();
        let names = || self.class.iter().map(|class| class.name.value.as_str());
        let (inner, leaves): (Vec<&str>, Vec<&str>) = names().partition(|name| inner.contains(name));
        leaves.into_iter().chain(inner).chain([Self::ROOT]).collect()
    }

    fn params(&self) -> Params {
        let default = self.default.as_ref().and_then(|name| self.numbers().get(name.value.as_str()).copied());
        let new = Params::new(self.link.value, self.mtu.value, self.root());
        Params {
            sharing: match self.sharing {
                Sharing::Formal => cbq::Sharing::Formal,
                Sharing::AncestorOnly => cbq::Sharing::AncestorOnly,
                Sharing::TopLevel => cbq::Sharing::TopLevel(self.heuristic),
            },
            general: self.turns,
            accounting: match self.accounting {
                Measure::Bytes => Accounting::Bytes,
                Measure::IdleTime => Accounting::IdleTime {
                    gain: match (&self.gain, self.derivation) {
                        (Some(gain), _) => gain.value,
                        (None, Derivation::Altq) => 5,
                        (None, Derivation::Ns2) => 4,
                    },
                    derivation: self.derivation,
                },
            },
            finish: self.finish,
            link_clock: match (self.link_clock, new.link_clock) {
                (Clock::Clamp, LinkClock::Clamp(lead) | LinkClock::Reset(lead)) => {
                    LinkClock::Clamp(self.clock_lead.unwrap_or(lead))
                }
                (Clock::Reset, LinkClock::Clamp(lead) | LinkClock::Reset(lead)) => {
                    LinkClock::Reset(self.clock_lead.unwrap_or(lead))
                }
            },
            root_rate: self.root.as_ref().map(|share| self.of_link(share.value)),
            conserving: self.conserving,
            regulation: self.suspension,
            lead: self.lead.map_or(new.lead, Lead::Within),
            default,
            ..new
        }
    }

    /// The number of the root, which follows those of the classes in the file.
    fn root(&self) -> ClassId {
        ClassId(self.class.len() as u32)
    }

    fn of_link(&self, share: Percent) -> Rate {
        let part = u128::from(self.link.value.as_bps()) * u128::from(share.millionths()) / 1_000_000;
        Rate::from_bps(u64::try_from(part).unwrap_or(u64::MAX))
    }

    fn class_of(&self, class: &CbqClass) -> Result<Class, Fault> {
        let of_link = |share: Percent| self.of_link(share);
        let rate = match (&class.rate, &class.share) {
            (Some(rate), None) => rate.value,
            (None, Some(share)) => of_link(share.value),
            (Some(_), Some(share)) => {
                return Err((share.place, "both `rate` and `share` are given".into(), Some("leave one out".into())));
            }
            (None, None) => {
                let help = "write for example share = \"10%\"".to_owned();
                return Err((class.name.place, "neither `rate` nor `share` is given".into(), Some(help)));
            }
        };
        Ok(Class {
            rate,
            priority: class.priority.value,
            borrow: class.borrow,
            packet_size: class.packet_size.as_ref().map(|size| size.value),
            max_burst: class.max_burst.value,
            min_burst: class.min_burst.value,
            idle: IdleBounds {
                max: class.maxidle.as_ref().map(|span| span.value),
                min: class.minidle.as_ref().map(|span| span.value),
                off: class.extradelay.as_ref().map(|span| span.value),
            },
        })
    }

    /// The number and the parameters of each class.
    ///
    /// # Errors
    /// The fault of a class. A section that has passed its check has none.
    pub fn parameters(&self) -> Result<Vec<(ClassId, Class)>, String> {
        let numbers = self.numbers();
        let one = |class: &Spanned<CbqClass>| {
            Ok((numbers[class.name.value.as_str()], self.class_of(class).map_err(|(_, message, _)| message)?))
        };
        self.class.iter().map(one).collect()
    }

    /// Whether the tree of `other` differs only in parameters that can change while packets pass, and in reservations.
    pub fn is_same_tree(&self, other: &Self) -> bool {
        let plain = |cbq: &Self| {
            let mut cbq = cbq.clone();
            for class in &mut cbq.class {
                let class = &mut class.value;
                (class.rate, class.share, class.packet_size) = (None, None, None);
                (class.priority.value, class.max_burst.value, class.min_burst.value) = (0, 0, 0);
                class.borrow = Borrow::Never;
            }
            cbq.reservations = None;
            cbq
        };
        plain(self) == plain(other) && self.numbers() == other.numbers()
    }

    /// Builds the tree with the queues that `queue` makes, or returns all its faults.
    fn tree<P: Packet, Q: Qdisc<P>>(
        &self,
        now: Instant,
        mut queue: impl FnMut(&CbqClass) -> Q,
    ) -> Result<Cbq<P, Q>, Vec<Fault>> {
        let root = self.root();
        let mut tree = Cbq::new(self.params()).map_err(|error| vec![self.fault(None, &error)])?;
        let (numbers, inner) = (self.numbers(), self.inner());
        let mut faults = Vec::new();
        // Classes that have been added; those that failed have no number, and their children are left out.
        let mut known: HashMap<&str, Option<ClassId>> = HashMap::new();
        let mut left: Vec<&Spanned<CbqClass>> = self.class.iter().collect();
        // Parents first, in whatever order the file has them.
        while !left.is_empty() {
            let before = left.len();
            let mut later = Vec::new();
            for class in left {
                let name = class.name.value.as_str();
                let parent = match &class.parent {
                    None => Some(Some(root)),
                    Some(parent) => known.get(parent.value.as_str()).copied(),
                };
                let Some(parent) = parent else {
                    later.push(class);
                    continue;
                };
                let id = numbers[name];
                let added = parent.map(|parent| {
                    let params = self.class_of(class)?;
                    let added = if inner.contains(name) {
                        tree.add_inner(now, id, parent, params)
                    } else {
                        tree.add_leaf(now, id, parent, params, queue(class))
                    };
                    added.map_err(|error| self.fault(Some(class), &error))
                });
                known.insert(name, matches!(added, Some(Ok(()))).then_some(id));
                faults.extend(added.and_then(Result::err));
            }
            if later.len() == before {
                let class = later[0];
                let parent = class.parent.as_ref().map_or(class.name.place, |parent| parent.place);
                faults.push((parent, "the parents of these classes form a circle".into(), None));
                break;
            }
            left = later;
        }
        if faults.is_empty() { Ok(tree) } else { Err(faults) }
    }

    /// The place of an error of the tree.
    fn fault(&self, class: Option<&CbqClass>, error: &TreeError) -> Fault {
        let rate = |class: &CbqClass| {
            let share = class.share.as_ref().map(|share| share.place);
            share.or(class.rate.as_ref().map(|rate| rate.place)).unwrap_or(class.name.place)
        };
        let place = match (class, error) {
            (Some(class), TreeError::Overcommitted { parent, free, asked }) => {
                let above = match &class.parent {
                    Some(name) if *parent != self.root() => format!("class `{}`", name.value),
                    _ => "the link".to_owned(),
                };
                let message = format!("{above} has {free} left, and this class requires {asked}");
                return (rate(class), message, Some("give it less, or its brothers, or its parent more".into()));
            }
            (Some(class), TreeError::Param(error)) => match error.field {
                "rate" => rate(class),
                "priority" => class.priority.place,
                "max_burst" => class.max_burst.place,
                "min_burst" => class.min_burst.place,
                "packet_size" => class.packet_size.as_ref().map_or(class.name.place, |size| size.place),
                _ => class.name.place,
            },
            (Some(class), _) => class.name.place,
            (None, TreeError::Param(error)) if error.field == "mtu" => self.mtu.place,
            (None, TreeError::Param(error)) if error.field == "accounting.gain" => {
                self.gain.as_ref().map_or(self.link.place, |gain| gain.place)
            }
            (None, TreeError::Param(error)) if error.field == "root_rate" => {
                self.root.as_ref().map_or(self.link.place, |root| root.place)
            }
            (None, _) => self.link.place,
        };
        (place, error.to_string(), None)
    }

    /// Rejects settings of the average idle time if rates are measured in bytes.
    fn check_estimator(&self, diagnostics: &mut Diagnostics) {
        if self.accounting == Measure::IdleTime {
            return;
        }
        let of_class = |class: &CbqClass| {
            let spans = [("maxidle", &class.maxidle), ("minidle", &class.minidle), ("extradelay", &class.extradelay)];
            spans.into_iter().find_map(|(key, span)| Some((key, span.as_ref()?.place)))
        };
        let gain = self.gain.as_ref().map(|gain| ("gain", gain.place));
        if let Some((key, place)) = gain.or_else(|| self.class.iter().find_map(|class| of_class(&class.value))) {
            diagnostics
                .error(place, format!("`{key}` applies to the average idle time, but rates are measured in bytes"))
                .label("has no effect")
                .help("write accounting = \"idle-time\", or leave it out");
        }
    }

    /// `class` and its ancestors, lowest first. Ends at an unknown parent or at a cycle.
    fn ancestors<'a>(&'a self, class: &'a CbqClass) -> Vec<&'a CbqClass> {
        let mut above = vec![class];
        while let Some(parent) = above.last().and_then(|class| class.parent.as_ref())
            && let Some(next) = self.class.iter().find(|class| class.name.value == parent.value)
            && above.len() <= self.class.len()
        {
            above.push(next);
        }
        above
    }

    /// Builds the tree with its own type, so that it can be changed while packets pass. The section must have passed
    /// its check.
    pub fn build_tree<P: Packet + 'static>(&self, site: &Site) -> Cbq<P> {
        let tree = self.tree(site.now, |class| Self::build_queue_of(class, site));
        match tree {
            Ok(tree) => tree,
            Err(faults) => unreachable!("the tree has been checked: {faults:?}"),
        }
    }

    /// The classes with queues, in the order of their numbers.
    pub fn leaves(&self) -> impl Iterator<Item = &CbqClass> {
        let inner = self.inner();
        self.class.iter().map(|class| &class.value).filter(move |class| !inner.contains(class.name.value.as_str()))
    }

    /// Builds an empty queue for leaf number `leaf`.
    pub fn build_queue<P: Packet + 'static>(&self, leaf: ClassId, site: &Site) -> Option<Box<dyn Qdisc<P>>> {
        let name = *self.classes().get(leaf.0 as usize)?;
        let class = self.class.iter().find(|class| class.name.value == name)?;
        Some(Self::build_queue_of(class, site))
    }

    fn build_queue_of<P: Packet + 'static>(class: &CbqClass, site: &Site) -> Box<dyn Qdisc<P>> {
        let within = Site { name: format!("{}.{}", site.name, class.name.value), ..site.clone() };
        match &class.queue {
            Some(queue) => queue.value.0.build::<P>(&within),
            None => Discipline::plain().build(&within),
        }
    }
}

impl Section for CbqQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        let mut reported = false;
        let inner = self.inner();
        let names: Vec<&str> = self.class.iter().map(|class| class.name.value.as_str()).collect();
        let circle = self.class.iter().all(|class| class.parent.is_some()) && !self.class.is_empty();
        if self.classes().is_empty() && !circle {
            diagnostics
                .error(place, "cbq without a class with a queue")
                .help("write for example class = [{ name = \"all\", share = \"100%\" }]");
            return;
        }
        for (n, class) in self.class.iter().enumerate() {
            let name = class.name.value.as_str();
            if names[..n].contains(&name) {
                diagnostics.error(class.name.place, format!("two classes are called `{name}`")).label("again");
                reported = true;
            }
            if let Some(parent) = &class.parent
                && !names.contains(&parent.value.as_str())
            {
                diagnostics
                    .error(parent.place, format!("no class is called `{}`", parent.value))
                    .label("not a class")
                    .help(suggest::help(&parent.value, &names));
                reported = true;
            }
            match &class.queue {
                Some(queue) if inner.contains(name) => {
                    diagnostics
                        .error(queue.place, format!("class `{name}` has child classes, so it cannot have a queue"))
                        .help("give the queue to its child classes");
                    reported = true;
                }
                Some(queue) => queue.value.0.check(queue.place, diagnostics),
                None => {}
            }
        }
        if let Some(default) = &self.default
            && !self.classes().contains(&default.value.as_str())
        {
            diagnostics
                .error(default.place, format!("no class with a queue is called `{}`", default.value))
                .help(suggest::help(&default.value, &self.classes()));
        }
        self.check_reservations(&names, diagnostics);
        self.check_estimator(diagnostics);
        // The tree would report these errors again.
        if reported {
            return;
        }
        self.check_sharing(diagnostics);
        let checked = self.tree::<NoPacket, _>(Instant::ZERO, |_| Fifo::new(Limit::NONE));
        for (place, message, help) in checked.err().unwrap_or_default() {
            let report = diagnostics.error(place, message).label("cannot work");
            if let Some(help) = help {
                report.help(help);
            }
        }
    }
    /// The leaves, in the order of the file.
    fn classes(&self) -> Vec<&str> {
        let inner = self.inner();
        self.class.iter().map(|class| class.name.value.as_str()).filter(|name| !inner.contains(name)).collect()
    }
    fn default_class(&self) -> Option<&str> {
        self.default.as_ref().map(|name| name.value.as_str())
    }
    fn line(&self) -> Option<Rate> {
        Some(self.link.value)
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(self.build_tree(site))
    }
}

//! `kind = "cbq"`: [`tidegate_core::cbq`].

use std::collections::{HashMap, HashSet};

use tidegate_core::cbq::{
    self, Accounting, Borrow, Cbq, Class, Conserving, Derivation, Finish, General, Heuristic, IdleBounds, Lead,
    LinkClock, Params, Regulation, TreeError,
};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::{Bytes, ClassId, Instant, Packet, Qdisc, Rate, Span};

use super::section::{NoPacket, Section, Site};
use super::{Discipline, Inside};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};
use crate::suggest;
use crate::values::Percent;

mod reservations;
mod sharing;

pub use reservations::Reservations;

crate::choices! {
    /// Which classes may borrow.
    pub enum Sharing as "sharing" {
        /// No class, while one at a lower level could still send or lend. Keeps the rate of every class.
        Formal = "formal",
        /// A class with an ancestor below its limit. A class that may borrow can take the rates of all classes of lower
        /// priority.
        AncestorOnly = "ancestor-only",
        /// Up to a level that `heuristic` sets: with `altq` it keeps the rate of every class, with `floyd` not.
        TopLevel = "top-level",
    }
}

crate::choices! {
    impl "heuristic" for Heuristic {
        /// When no class can send, the level rises one by one: the implementation that was measured in 1999.
        Altq = "altq",
        /// When a class has sent and cannot go on, the level is the highest: the paper of 1995. Until the next packet
        /// arrives for a class below its limit, a class that may borrow can take the rates of all classes of lower
        /// priority.
        Floyd1995 = "floyd",
    }
}

crate::choices! {
    impl "finish" for Finish {
        /// From when its packet left.
        Actual = "actual",
        /// From when its packet is expected to have left the link.
        Expected = "expected",
    }
}

crate::choices! {
    /// What is done when the driver takes packets faster than the link sends them.
    pub enum Clock as "link clock" {
        /// The clock of expected finish times never leads by more than `clock-lead`.
        Clamp = "clamp",
        /// Beyond `clock-lead` it is set back to the time of day, and every class seems over its limit.
        Reset = "reset",
    }
}

crate::choices! {
    impl "turns" for General {
        /// Bytes per round in proportion to their rates.
        WeightedRoundRobin = "weighted",
        /// One packet per round for each class.
        PacketRoundRobin = "packet",
    }
}

crate::choices! {
    /// How the rate of a class is measured.
    pub enum Measure as "accounting" {
        /// In bytes, exactly.
        Bytes = "bytes",
        /// As an average idle time, which needs `packet-size` to be right.
        IdleTime = "idle-time",
    }
}

crate::choices! {
    impl "derivation" for Derivation {
        /// As in the implementation that was measured in 1999: a class starts with its whole burst.
        Altq = "altq",
        /// As in ns-2: no `minidle`, no `extradelay` unless given, and a class starts without a burst.
        Ns2 = "ns-2",
    }
}

crate::choices! {
    impl "conserving" for Conserving {
        /// No class: the link stays idle.
        Strict = "strict",
        /// A class that may borrow sends, as fast as the driver takes packets.
        Efficient = "efficient",
        /// A class that may borrow sends when the link would otherwise be idle.
        WhenLinkIdle = "when-idle",
    }
}

crate::choices! {
    impl "suspension" for Regulation {
        /// The end of its own suspension, or an ancestor below its limit.
        Recheck = "recheck",
        /// The end of its own suspension.
        Sleep = "sleep",
    }
}

crate::choices! {
    impl "borrow" for Borrow {
        /// It keeps to its rate.
        Never = "never",
        /// It may, and through its parent what that may borrow.
        FromParent = "from-parent",
    }
}

crate::record! {
    /// A class of CBQ. One that no other names as its parent has a queue, and packets.
    pub struct CbqClass as "cbq class" {
        /// By which rules and other classes name it; unique in the tree.
        pub name: Spanned<String>,
        /// The class above it. Default: the link.
        pub parent: Option<Spanned<String>>,
        /// What it is sure of. This or `share`.
        pub rate: Option<Spanned<Rate>>,
        /// What it is sure of, as a part of the link. This or `rate`.
        pub share: Option<Spanned<Percent>>,
        /// 0 is the highest, 7 the lowest. Default 1: with values above and below.
        pub priority: Spanned<u8> = 1,
        /// Whether it may borrow. Default never: what is promised to others is not touched.
        pub borrow: Borrow = "never",
        /// The size of its packets, for accounting by idle time. Default `mtu`.
        pub packet_size: Option<Spanned<Bytes>>,
        /// Packets back to back after a silence. Default 16, ALTQ's.
        pub max_burst: Spanned<u32> = 16,
        /// Packets back to back after a suspension. Default 2, ALTQ's.
        pub min_burst: Spanned<u32> = 2,
        /// The largest average idle time, which bounds the burst after a silence, with accounting by idle time. Default what
        /// `max-burst` packets use up.
        pub maxidle: Option<Spanned<Span>>,
        /// How far the average may fall below zero, which bounds what is owed after borrowing, with accounting by idle
        /// time. Default by `derivation`: a packet time of the class by the weight, or any.
        pub minidle: Option<Spanned<Span>>,
        /// How long the class is suspended beyond its debt when it must wait, with accounting by idle time. Default by
        /// `derivation`: so long that `min-burst` packets follow, or not at all.
        pub extradelay: Option<Spanned<Span>>,
        /// Its queue. Default a FIFO of 1 MB.
        pub queue: Option<Spanned<Inside>>,
    }
}

crate::record! {
    /// Class-based queueing: a tree of classes that share a link, each sure of its part.
    pub struct CbqQueue as "cbq" {
        /// The rate of the link. No more is sent.
        pub link: Spanned<Rate>,
        /// The largest packet. Default an Ethernet frame.
        pub mtu: Spanned<Bytes> = "1514B",
        /// Which classes may borrow. Default formal: the definition, and no dearer here.
        pub sharing: Sharing = "formal",
        /// How top-level sharing sets its level. Default altq.
        pub heuristic: Heuristic = "altq",
        /// How the classes of a priority take turns. Default weighted.
        pub turns: General = "weighted",
        /// How use is measured. Default bytes.
        pub accounting: Measure = "bytes",
        /// With accounting by idle time, the weight of a packet in the average is 2 to the power of minus this. Default 5, or
        /// 4 with `derivation = "ns-2"`, as there.
        pub gain: Option<Spanned<u8>>,
        /// With accounting by idle time, where its bounds and its start come from. Default altq.
        pub derivation: Derivation = "altq",
        /// What the class above all others has of the link. Default all of it. Papers have 98 or 99 %, so that it can be over
        /// its limit; the classes under it may have 100 % together.
        pub root: Option<Spanned<Percent>>,
        /// What happens when no class may send. Default when-idle: the link is used and no buffer fills.
        pub conserving: Conserving = "when-idle",
        /// What a suspended class waits for. Default recheck.
        pub suspension: Regulation = "recheck",
        /// From when a class over its limit waits, with accounting by idle time. Default actual: the correction of
        /// 1999.
        pub finish: Finish = "actual",
        /// What is done about a clock of the link that runs ahead. Default clamp: no class is penalised for it.
        pub link_clock: Clock = "clamp",
        /// How far that clock may lead. Default the time of 16 packets, at least 10 ms.
        pub clock_lead: Option<Span>,
        /// How far ahead of the link packets are given. Default the time of two packets, at least half a millisecond.
        pub lead: Option<Span>,
        /// The class of packets that match no rule. Default: they are dropped.
        pub default: Option<Spanned<String>>,
        /// Where flows get classes of their own on request. Default: nowhere.
        pub reservations: Option<Spanned<Reservations>>,
        /// The classes.
        pub class: Vec<Spanned<CbqClass>>,
    }
}

/// A place, an error, and advice.
type Fault = (Place, String, Option<String>);

impl CbqQueue {
    /// The classes that have classes under them, or may get some.
    fn inner(&self) -> HashSet<&str> {
        let parents = self.class.iter().filter_map(|class| Some(class.parent.as_ref()?.value.as_str()));
        parents.chain(self.reservations.as_ref().map(|section| section.class.value.as_str())).collect()
    }

    /// The number of each class: the leaves first, then the others, in the order of the file.
    pub fn numbers(&self) -> HashMap<&str, ClassId> {
        let inner = self.inner();
        let names = || self.class.iter().map(|class| class.name.value.as_str());
        let ordered = names().filter(|name| !inner.contains(name)).chain(names().filter(|name| inner.contains(name)));
        ordered.zip((0..).map(ClassId)).collect()
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

    /// The number of the root: after all that the file names.
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

    /// Each class as the tree has it: its number and parameters.
    ///
    /// # Errors
    /// What is wrong with a class; a section that has passed its check has none.
    pub fn parameters(&self) -> Result<Vec<(ClassId, Class)>, String> {
        let numbers = self.numbers();
        let one = |class: &Spanned<CbqClass>| {
            Ok((numbers[class.name.value.as_str()], self.class_of(class).map_err(|(_, message, _)| message)?))
        };
        self.class.iter().map(one).collect()
    }

    /// Whether the tree of `other` is the same but for parameters of classes that can change while packets pass, and
    /// for reservations.
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
            format!("{cbq:?}")
        };
        plain(self) == plain(other) && self.numbers() == other.numbers()
    }

    /// The tree with the queues that `queue` makes, or all that is wrong with it.
    fn tree<P: Packet, Q: Qdisc<P>>(
        &self,
        now: Instant,
        mut queue: impl FnMut(&CbqClass) -> Q,
    ) -> Result<Cbq<P, Q>, Vec<Fault>> {
        let root = self.root();
        let mut tree = Cbq::new(self.params()).map_err(|error| vec![self.fault(None, &error)])?;
        let (numbers, inner) = (self.numbers(), self.inner());
        let mut faults = Vec::new();
        // Those that have been tried; without a number those that failed, whose children are left out.
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
                faults.push((parent, "the classes are above one another in a circle".into(), None));
                break;
            }
            left = later;
        }
        if faults.is_empty() { Ok(tree) } else { Err(faults) }
    }

    /// Where an error of the tree belongs.
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

    /// Refuses settings of the average idle time where use is measured in bytes.
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
                .error(place, format!("`{key}` is of the average idle time, and use is measured in bytes"))
                .label("has no effect")
                .help("write accounting = \"idle-time\", or leave it out");
        }
    }

    /// `class` and the classes above it, lowest first. Ends where a parent is unknown or comes again.
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

    /// Builds the tree itself, which can be changed while packets pass. The section has passed its check.
    pub fn build_tree<P: Packet + 'static>(&self, site: &Site) -> Cbq<P> {
        let tree = self.tree(site.now, |class| Self::build_queue_of(class, site));
        match tree {
            Ok(tree) => tree,
            Err(faults) => unreachable!("the tree has been checked: {faults:?}"),
        }
    }

    /// Builds the queue of the leaf number `leaf` once more, empty.
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
                        .error(queue.place, format!("class `{name}` has classes under it, and so no queue"))
                        .help("give the queue to the classes under it");
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

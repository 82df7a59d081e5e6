//! `kind = "cbq"`: [`tidegate_core::cbq`].

use tidegate_core::cbq::{
    self, Accounting, Cbq, Class, Conserving, Finish, General, Heuristic, Lead, Params, Regulation, TreeError,
};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::{Bytes, ClassId, FlowKey, Instant, Packet, Qdisc, Rate, Span};

use super::{Discipline, Inside, Site};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};
use crate::suggest;
use crate::values::Percent;

crate::words! {
    /// Who may borrow.
    pub enum Sharing as "sharing" {
        /// Nobody, while a class at a lower level could still send or lend.
        Formal = "formal",
        /// Whoever has an ancestor below its limit.
        AncestorOnly = "ancestor-only",
        /// Up to a level that a heuristic sets.
        TopLevel = "top-level",
    }
}

crate::words! {
    /// How the classes of a priority take turns.
    pub enum Turns as "turns" {
        /// By their rates.
        Weighted = "weighted",
        /// A packet each.
        Packet = "packet",
    }
}

crate::words! {
    /// How use is measured.
    pub enum Measure as "accounting" {
        /// In bytes, exactly.
        Bytes = "bytes",
        /// As an average idle time, which needs `packet-size` to be right.
        IdleTime = "idle-time",
    }
}

crate::words! {
    /// What happens when no class may send.
    pub enum Work as "conserving" {
        /// Nothing.
        Strict = "strict",
        /// Who may borrow sends, as fast as the driver takes it.
        Efficient = "efficient",
        /// Who may borrow sends, when the link would otherwise rest.
        WhenIdle = "when-idle",
    }
}

crate::words! {
    /// What a suspended class waits for.
    pub enum Suspension as "suspension" {
        /// Its own time, or an ancestor below its limit.
        Recheck = "recheck",
        /// Its own time.
        Sleep = "sleep",
    }
}

crate::words! {
    /// Whether a class may use what its parent has left.
    pub enum Borrowing as "borrow" {
        /// It keeps to its rate.
        Never = "never",
        /// It may, and through its parent what that may borrow.
        FromParent = "from-parent",
    }
}

crate::record! {
    /// A class of CBQ. One that no other names as its parent has a queue, and packets.
    pub struct CbqClass as "cbq class" {
        /// Its name.
        pub name: Spanned<String>,
        /// The class above it. Default: the link.
        pub parent: Option<Spanned<String>>,
        /// What it is sure of. This or `share`.
        pub rate: Option<Spanned<Rate>>,
        /// What it is sure of, as a part of the link. This or `rate`.
        pub share: Option<Spanned<Percent>>,
        /// 0 goes first, 7 last. Default 1: room above and below.
        pub priority: Spanned<u8> = 1,
        /// Whether it may borrow. Default never: what is promised to others is not touched.
        pub borrow: Borrowing = "never",
        /// The size of its packets, for accounting by idle time. Default `mtu`.
        pub packet_size: Option<Spanned<Bytes>>,
        /// Packets back to back after a silence. Default 16, ALTQ's.
        pub max_burst: Spanned<u32> = 16,
        /// Packets back to back after a suspension. Default 2, ALTQ's.
        pub min_burst: Spanned<u32> = 2,
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
        /// Who may borrow. Default formal: the definition, and no dearer here.
        pub sharing: Sharing = "formal",
        /// How the classes of a priority take turns. Default weighted.
        pub turns: Turns = "weighted",
        /// How use is measured. Default bytes.
        pub accounting: Measure = "bytes",
        /// What happens when no class may send. Default when-idle: the link is used and no buffer fills.
        pub conserving: Work = "when-idle",
        /// What a suspended class waits for. Default recheck.
        pub suspension: Suspension = "recheck",
        /// How far ahead of the link packets are given. Default the time of two packets, at least half a millisecond.
        pub lead: Option<Span>,
        /// The class of packets that no rule gives a class. Default: they are dropped.
        pub default: Option<Spanned<String>>,
        /// The classes.
        pub class: Vec<Spanned<CbqClass>>,
    }
}

/// A packet for checking trees, where none passes.
struct NoPacket;

impl Packet for NoPacket {
    fn size(&self) -> Bytes {
        Bytes::ZERO
    }
    fn flow(&self) -> FlowKey {
        FlowKey::default()
    }
}

/// What is wrong, and where.
type Fault = (Place, String, Option<String>);

impl CbqQueue {
    /// Whether another class names it as its parent.
    fn is_inner(&self, name: &str) -> bool {
        self.class.iter().any(|class| class.parent.as_ref().is_some_and(|parent| parent.value == name))
    }

    /// The leaves, in the order of the file.
    pub(super) fn classes(&self) -> Vec<&str> {
        self.class.iter().map(|class| class.name.value.as_str()).filter(|name| !self.is_inner(name)).collect()
    }

    fn params(&self) -> Params {
        let leaf = |name: &str| self.classes().iter().position(|leaf| *leaf == name);
        let default = self.default.as_ref().and_then(|name| leaf(&name.value)).map(|at| ClassId(at as u32));
        let new = Params::new(self.link.value, self.mtu.value, self.root());
        Params {
            sharing: match self.sharing {
                Sharing::Formal => cbq::Sharing::Formal,
                Sharing::AncestorOnly => cbq::Sharing::AncestorOnly,
                Sharing::TopLevel => cbq::Sharing::TopLevel(Heuristic::Altq),
            },
            general: match self.turns {
                Turns::Weighted => General::WeightedRoundRobin,
                Turns::Packet => General::PacketRoundRobin,
            },
            accounting: match self.accounting {
                Measure::Bytes => Accounting::Bytes,
                Measure::IdleTime => Accounting::IdleTime { gain: 5 },
            },
            finish: Finish::Actual,
            conserving: match self.conserving {
                Work::Strict => Conserving::Strict,
                Work::Efficient => Conserving::Efficient,
                Work::WhenIdle => Conserving::WhenLinkIdle,
            },
            regulation: match self.suspension {
                Suspension::Recheck => Regulation::Recheck,
                Suspension::Sleep => Regulation::Sleep,
            },
            lead: self.lead.map_or(new.lead, Lead::Within),
            default,
            ..new
        }
    }

    /// The number of the root: after all that the file names.
    fn root(&self) -> ClassId {
        ClassId(self.class.len() as u32)
    }

    fn class_of(&self, class: &CbqClass) -> Result<Class, Fault> {
        let of_link = |share: Percent| {
            let part = u128::from(self.link.value.as_bps()) * u128::from(share.millionths()) / 1_000_000;
            Rate::from_bps(u64::try_from(part).unwrap_or(u64::MAX))
        };
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
            borrow: match class.borrow {
                Borrowing::Never => cbq::Borrow::Never,
                Borrowing::FromParent => cbq::Borrow::FromParent,
            },
            packet_size: class.packet_size.as_ref().map(|size| size.value),
            max_burst: class.max_burst.value,
            min_burst: class.min_burst.value,
        })
    }

    /// The tree with the queues that `queue` makes.
    fn tree<P: Packet, Q: Qdisc<P>>(
        &self,
        now: Instant,
        mut queue: impl FnMut(&CbqClass) -> Q,
    ) -> Result<Cbq<P, Q>, Fault> {
        let root = self.root();
        let mut tree = Cbq::new(self.params()).map_err(|error| self.fault(None, &error))?;
        let leaves: Vec<String> = self.classes().into_iter().map(str::to_owned).collect();
        let mut inner = leaves.len() as u32;
        let mut known: Vec<(&str, ClassId)> = Vec::new();
        let mut left: Vec<&Spanned<CbqClass>> = self.class.iter().collect();
        // Parents first, in whatever order the file has them.
        while !left.is_empty() {
            let before = left.len();
            let mut later = Vec::new();
            for class in left {
                let name = class.name.value.as_str();
                let parent = match &class.parent {
                    None => Some(root),
                    Some(parent) => known.iter().find(|(name, _)| *name == parent.value).map(|&(_, id)| id),
                };
                let Some(parent) = parent else {
                    later.push(class);
                    continue;
                };
                let params = self.class_of(class)?;
                let fault = |error| self.fault(Some(class), &error);
                let id = match leaves.iter().position(|leaf| leaf == name) {
                    Some(at) => {
                        let id = ClassId(at as u32);
                        tree.add_leaf(now, id, parent, params, queue(class)).map_err(fault)?;
                        id
                    }
                    None => {
                        let id = ClassId(inner);
                        inner += 1;
                        tree.add_inner(now, id, parent, params).map_err(fault)?;
                        id
                    }
                };
                known.push((name, id));
            }
            if later.len() == before {
                let class = later[0];
                let parent = class.parent.as_ref().map_or(class.name.place, |parent| parent.place);
                return Err((parent, "the classes are above one another in a circle".into(), None));
            }
            left = later;
        }
        Ok(tree)
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
                let message =
                    format!("{above} has {} bit/s left, and this class wants {} bit/s", free.as_bps(), asked.as_bps());
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
            (None, _) => self.link.place,
        };
        (place, error.to_string(), None)
    }

    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        let mut told = false;
        let names: Vec<&str> = self.class.iter().map(|class| class.name.value.as_str()).collect();
        if self.classes().is_empty() {
            diagnostics
                .error(place, "cbq without a class with a queue")
                .help("write for example class = [{ name = \"all\", share = \"100%\" }]");
            return;
        }
        for (n, class) in self.class.iter().enumerate() {
            let name = class.name.value.as_str();
            if names[..n].contains(&name) {
                diagnostics.error(class.name.place, format!("two classes are called `{name}`")).label("again");
                told = true;
            }
            if let Some(parent) = &class.parent
                && !names.contains(&parent.value.as_str())
            {
                diagnostics
                    .error(parent.place, format!("no class is called `{}`", parent.value))
                    .label("not a class")
                    .help(suggest::help(&parent.value, &names));
                told = true;
            }
            match &class.queue {
                Some(queue) if self.is_inner(name) => {
                    diagnostics
                        .error(queue.place, format!("class `{name}` has classes under it, and so no queue"))
                        .help("give the queue to the classes under it");
                    told = true;
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
            told = true;
        }
        // What is not clear by name would only be told twice.
        if told {
            return;
        }
        let checked = self.tree::<NoPacket, _>(Instant::ZERO, |_| Fifo::new(Limit::NONE));
        if let Err((place, message, help)) = checked {
            let report = diagnostics.error(place, message).label("cannot work");
            if let Some(help) = help {
                report.help(help);
            }
        }
    }

    pub(super) fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        let tree = self.tree(site.now, |class| {
            let within = Site { name: format!("{}.{}", site.name, class.name.value), ..site.clone() };
            match &class.queue {
                Some(queue) => queue.value.0.build::<P>(&within),
                None => Discipline::plain().build(&within),
            }
        });
        match tree {
            Ok(tree) => Box::new(tree),
            Err((_, message, _)) => unreachable!("the tree has been checked: {message}"),
        }
    }
}

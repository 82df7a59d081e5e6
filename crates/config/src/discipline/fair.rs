//! `kind = "wfq"` and `kind = "wf2q"`: [`tidegate_core::wfq`] and [`tidegate_core::wf2q`].

use tidegate_core::fifo::Limit;
use tidegate_core::sessions::{By, Params};
use tidegate_core::wf2q::Wf2q;
use tidegate_core::wfq::Wfq;
use tidegate_core::{Bytes, ClassId, Packet, Qdisc, Rate, Span};

use super::section::{Section, Site, report};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};
use crate::suggest;

crate::record! {
    /// A class of a fair queue.
    pub struct FairClass as "fair class" {
        /// Its name.
        pub name: Spanned<String>,
        /// The share of the link, relative to the weights of the other classes that have packets. Default 1.
        pub weight: Spanned<u32> = 1,
    }
}

crate::record! {
    /// Weighted fair queueing: packets leave in the order in which a fluid server, which serves all flows at once,
    /// would finish them.
    pub struct WfqQueue as "wfq" {
        /// The rate of the link, which is never exceeded.
        pub link: Spanned<Rate>,
        /// How far ahead of the link packets may be released. Default the time of two Ethernet frames, at least half a
        /// millisecond. A process that wakes up later than that loses capacity.
        pub lead: Option<Span>,
        /// The queue limit in bytes. Default 1 MB.
        pub limit: Bytes = "1MB",
        /// The class of packets that match no rule. Default: if there are classes, such packets are dropped.
        pub default: Option<Spanned<String>>,
        /// The classes. Default none: every flow is a class of its own, all with the same weight.
        pub class: Vec<Spanned<FairClass>>,
    }
}

crate::record! {
    /// Worst-case fair weighted fair queueing: as WFQ, but only among packets that the fluid server would have begun.
    pub struct Wf2qQueue as "wf2q" {
        /// The rate of the link, which is never exceeded.
        pub link: Spanned<Rate>,
        /// How far ahead of the link packets may be released. Default the time of two Ethernet frames, at least half a
        /// millisecond. A process that wakes up later than that loses capacity.
        pub lead: Option<Span>,
        /// The queue limit in bytes. Default 1 MB.
        pub limit: Bytes = "1MB",
        /// The class of packets that match no rule. Default: if there are classes, such packets are dropped.
        pub default: Option<Spanned<String>>,
        /// The classes. Default none: every flow is a class of its own, all with the same weight.
        pub class: Vec<Spanned<FairClass>>,
    }
}

/// The default lead of a discipline that models its link.
pub(super) fn default_lead(link: Rate) -> Span {
    link.time_for_ceil(Bytes::new(2 * 1_514)).unwrap_or(Span::ZERO).max(Span::from_micros(500))
}

/// The keys that both sections have.
struct Fair<'a> {
    link: &'a Spanned<Rate>,
    lead: Option<Span>,
    limit: Bytes,
    default: Option<&'a Spanned<String>>,
    class: &'a [Spanned<FairClass>],
}

impl<'a> Fair<'a> {
    fn names(&self) -> Vec<&'a str> {
        self.class.iter().map(|class| class.value.name.value.as_str()).collect()
    }
    fn params(&self) -> Params {
        let number = |name: &str| Some(ClassId(self.names().iter().position(|other| *other == name)? as u32));
        Params {
            link: self.link.value,
            lead: self.lead.unwrap_or_else(|| default_lead(self.link.value)),
            by: match self.class {
                [] => By::Flows,
                classes => By::Classes {
                    weights: classes.iter().map(|class| class.value.weight.value).collect(),
                    default: self.default.and_then(|name| number(&name.value)),
                },
            },
            limit: Limit::bytes(self.limit),
        }
    }
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        let names = self.names();
        for (n, class) in self.class.iter().enumerate() {
            let name = &class.value.name;
            if names[..n].contains(&name.value.as_str()) {
                diagnostics.error(name.place, format!("two classes are called `{}`", name.value)).label("again");
            }
        }
        if let Some(name) = self.default.filter(|name| !names.contains(&name.value.as_str())) {
            diagnostics
                .error(name.place, format!("no class is called `{}`", name.value))
                .help(suggest::help(&name.value, &names));
        }
        if let Err(error) = self.params().validate() {
            let wrong = |class: &&Spanned<FairClass>| !(1..=1_000_000).contains(&class.value.weight.value);
            let weight = self.class.iter().find(wrong).map_or(place, |class| class.value.weight.place);
            report(&error, &[("link", self.link.place), ("weight", weight)], place, diagnostics);
        }
    }
}

macro_rules! fair {
    ($section:ty, $discipline:ident) => {
        impl $section {
            fn fair(&self) -> Fair<'_> {
                let Self { link, lead, limit, default, class } = self;
                Fair { link, lead: *lead, limit: *limit, default: default.as_ref(), class }
            }
        }

        impl Section for $section {
            fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
                self.fair().check(place, diagnostics);
            }
            fn classes(&self) -> Vec<&str> {
                self.fair().names()
            }
            fn line(&self) -> Option<Rate> {
                Some(self.link.value)
            }
            fn build<P: Packet + 'static>(&self, _site: &Site) -> Box<dyn Qdisc<P>> {
                Box::new($discipline::new(self.fair().params()).expect("checked"))
            }
        }
    };
}

fair!(WfqQueue, Wfq);
fair!(Wf2qQueue, Wf2q);

//! Disciplines in a file: the section of each kind, and how it is built.
//!
//! # Adding a kind
//! 1. A file `discipline/<kind>.rs`: the section of the file as a [`record!`](crate::record) (every key with its unit, its
//!    default and the reason for it), and [`Section`] for it. `fifo.rs` is the pattern.
//! 2. A line in the table `kinds!` below, and its `mod`.
//!
//! Schema, reference, `tidegate check` and "did you mean" follow from it. A crate of its own adds a kind by
//! [`register`]: see [`outside`]; `tidegate new-qdisc` writes one.

mod ared;
mod cake;
pub mod cbq;
mod codel;
mod drr;
pub mod early;
mod elephants;
mod fair;
pub mod fbq;
mod fifo;
mod fq_codel;
mod fq_pie;
mod hfsc;
mod htb;
mod ingress_filter;
mod marker;
mod mered;
mod meredt;
pub mod meter;
pub mod outside;
mod pie;
mod ras;
mod red;
mod rio;
mod section;
mod sfq;
mod tree;
mod wred;

use tidegate_core::cake::Wire;
use tidegate_core::{Packet, Qdisc, Rate};

use crate::decode::Decode;
use crate::diagnostic::{Diagnostics, Place};
use crate::node::Node;
use crate::schema::Schemas;

pub use outside::{Kind, RegisterError, is_kind_name, register};
pub use section::{Section, Site};

/// Declares [`Discipline`] by the table of kinds, and what it does by their [`Section`]s.
macro_rules! kinds {
    ( $( $(#[doc = $doc:literal])* $variant:ident($section:ty) = $word:literal, )* ) => {
        crate::choice! {
            /// A queueing discipline.
            pub enum Discipline as "discipline" by "kind" {
                $( $(#[doc = $doc])* $variant($section) = $word, )*
                ..
                /// A kind that another crate added.
                Outside(outside::Outside)
            }
        }

        impl Discipline {
            /// Checks what no key alone shows. `place` is that of the section.
            pub fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
                match self {
                    $( Self::$variant(section) => section.check(place, diagnostics), )*
                    Self::Outside(section) => section.check(place, diagnostics),
                }
            }
            /// The name of its class for packets that no rule gives one, where it names one.
            pub fn default_class(&self) -> Option<&str> {
                match self {
                    $( Self::$variant(section) => section.default_class(), )*
                    Self::Outside(section) => section.default_class(),
                }
            }
            /// The names of its classes: a packet of class number `i` goes to the `i`-th. Empty: it has no classes.
            pub fn classes(&self) -> Vec<&str> {
                match self {
                    $( Self::$variant(section) => section.classes(), )*
                    Self::Outside(section) => section.classes(),
                }
            }
            /// The names of its profiles: a flow with profile number `i + 1` has the promises of the `i`-th.
            pub fn profiles(&self) -> Vec<&str> {
                match self {
                    $( Self::$variant(section) => section.profiles(), )*
                    Self::Outside(section) => section.profiles(),
                }
            }
            /// The rate of the line behind it, where its section has it.
            pub fn line(&self) -> Option<Rate> {
                match self {
                    $( Self::$variant(section) => section.line(), )*
                    Self::Outside(section) => section.line(),
                }
            }
            /// Builds it. The section has passed [`Discipline::check`].
            pub fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
                match self {
                    $( Self::$variant(section) => section.build(site), )*
                    Self::Outside(section) => section.build(site),
                }
            }
        }
    };
}

kinds! {
    /// RED that sets itself from the link.
    Ared(ared::AredQueue) = "ared",
    /// A shaper for a line, with tins, fair to hosts and flows.
    Cake(cake::CakeQueue) = "cake",
    /// Classes that share a link.
    Cbq(cbq::CbqQueue) = "cbq",
    /// Controlled delay.
    CoDel(codel::CoDelQueue) = "codel",
    /// Deficit round robin over flows.
    Drr(drr::DrrQueue) = "drr",
    /// Classes, and in each the flows by their shares.
    Fbq(fbq::FbqQueue) = "fbq",
    /// First in, first out.
    Fifo(fifo::Fifo) = "fifo",
    /// Fair queueing with controlled delay.
    FqCodel(fq_codel::FqCodelQueue) = "fq-codel",
    /// Fair queueing with PIE.
    FqPie(fq_pie::FqPieQueue) = "fq-pie",
    /// Guarantees of rate and delay apart, and shares in a tree.
    Hfsc(hfsc::HfscQueue) = "hfsc",
    /// Token buckets in a tree that borrow from those above.
    Htb(htb::HtbQueue) = "htb",
    /// Mice and Elephants without a queue, on what arrives.
    IngressFilter(ingress_filter::IngressQueue) = "ingress-filter",
    /// A meter, and what is done about its colours, around another discipline.
    Marker(marker::MarkerQueue) = "marker",
    /// Mice and Elephants with one threshold.
    Mered(mered::MeredQueue) = "mered",
    /// Mice and Elephants with a table of values.
    Meredt(meredt::MeredtQueue) = "meredt",
    /// Proportional integral controller, enhanced.
    Pie(pie::PieQueue) = "pie",
    /// A rate adaptive shaper.
    Ras(ras::RasQueue) = "ras",
    /// Random early detection.
    Red(red::RedQueue) = "red",
    /// Random early detection with an average for each colour.
    Rio(rio::RioQueue) = "rio",
    /// Stochastic fairness queueing.
    Sfq(sfq::SfqQueue) = "sfq",
    /// Weighted fair queueing that is also worst-case fair.
    Wf2q(fair::Wf2qQueue) = "wf2q",
    /// Weighted fair queueing.
    Wfq(fair::WfqQueue) = "wfq",
    /// Random early detection with a curve for each colour.
    Wred(wred::WredQueue) = "wred",
}

/// A discipline inside another.
#[derive(Clone, Debug)]
pub struct Inside(pub Box<Discipline>);

impl Decode for Inside {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        Discipline::decode(node, diagnostics).map(|discipline| Self(Box::new(discipline)))
    }
    fn example() -> String {
        Discipline::example()
    }
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        Discipline::schema(schemas)
    }
}

impl Discipline {
    /// A FIFO of 1 MB: the default.
    pub fn plain() -> Self {
        Self::Fifo(fifo::Fifo::plain())
    }

    /// What the line behind it adds to each packet, and the rate of the line itself, where its section has them.
    pub fn wire(&self) -> (Wire, Option<Rate>) {
        match self {
            Self::Cake(cake) => (cake.wire(), cake.line_rate),
            Self::Marker(marker) => marker.inside.as_ref().map_or((Wire::RAW, None), |inside| inside.value.0.wire()),
            _ => (Wire::RAW, None),
        }
    }

    /// Whether it may read which hosts a packet is from and to, itself or in a class. The others need no hash of them.
    pub fn reads_hosts(&self) -> bool {
        match self {
            Self::Ared(_)
            | Self::CoDel(_)
            | Self::Drr(_)
            | Self::Fifo(_)
            | Self::FqCodel(_)
            | Self::FqPie(_)
            | Self::Pie(_)
            | Self::Red(_)
            | Self::Rio(_)
            | Self::Sfq(_)
            | Self::Wred(_) => false,
            Self::Cbq(cbq) => cbq
                .class
                .iter()
                .any(|class| class.value.queue.as_ref().is_some_and(|queue| queue.value.0.reads_hosts())),
            _ => true,
        }
    }

    /// Whether both have the same values, at whatever place and however the values are written.
    pub fn is_same(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

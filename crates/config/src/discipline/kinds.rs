//! The table of kinds, and the sections of those that contain other disciplines. Their types refer to each other, so they are
//! declared in one file; the file of each kind has its checks and how it is built.

use tidegate_core::cake::Wire;
use tidegate_core::cbq::{Borrow, Conserving, Derivation, Finish, General, Heuristic, Regulation};
use tidegate_core::marker::Point;
use tidegate_core::{Bytes, Dscp, Packet, Qdisc, Rate, Span};

use super::cbq::options::{Clock, Measure, Reservations, Sharing as LinkSharing};
use super::meter::Metered;
use super::section::{Section, Site};
use super::{
    ared, cake, codel, drr, dualpi2, fair, fifo, fq_codel, fq_pie, ingress_filter, mered, meredt, outside, pie, ras,
    red, rio, sfq, wred,
};
use crate::classes::file::{Advice, Bursts, DisplaceSection, FeedbackSection, Sharing};
use crate::decode::{Decode, Spanned};
use crate::diagnostic::{Diagnostics, Place};
use crate::node::Node;
use crate::schema::Schemas;
use crate::values::Percent;

/// Declares [`Discipline`] by the table of kinds. Its methods forward to the [`Section`] of each.
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
            /// Checks the keys against each other. `place` is the section's.
            pub fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
                match self {
                    $( Self::$variant(section) => section.check(place, diagnostics), )*
                    Self::Outside(section) => section.check(place, diagnostics),
                }
            }
            /// The class of packets that match no rule, if the section names one.
            pub fn default_class(&self) -> Option<&str> {
                match self {
                    $( Self::$variant(section) => section.default_class(), )*
                    Self::Outside(section) => section.default_class(),
                }
            }
            /// The names of the classes, in the order of their numbers. Empty if the discipline has no classes.
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
            /// The rate of the link behind the discipline, if the section states it.
            pub fn line(&self) -> Option<Rate> {
                match self {
                    $( Self::$variant(section) => section.line(), )*
                    Self::Outside(section) => section.line(),
                }
            }
            /// Builds the discipline. The section must have passed [`Discipline::check`].
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
    /// RED that derives its parameters from the rate of the link.
    Ared(ared::AredQueue) = "ared",
    /// A shaper for an access line, with tins and fairness among hosts and flows.
    Cake(cake::CakeQueue) = "cake",
    /// Classes that share a link.
    Cbq(CbqQueue) = "cbq",
    /// Controlled delay.
    CoDel(codel::CoDelQueue) = "codel",
    /// Deficit round robin over flows.
    Drr(drr::DrrQueue) = "drr",
    /// Two coupled queues, one with a low delay for scalable senders.
    DualPi2(dualpi2::DualPi2Queue) = "dualpi2",
    /// Classes with guaranteed rates, and fair shares for the flows of each class.
    Fbq(FbqQueue) = "fbq",
    /// First in, first out.
    Fifo(fifo::Fifo) = "fifo",
    /// Fair queueing with controlled delay.
    FqCodel(fq_codel::FqCodelQueue) = "fq-codel",
    /// Fair queueing with PIE.
    FqPie(fq_pie::FqPieQueue) = "fq-pie",
    /// Separate guarantees of rate and delay, and shares in a tree of classes.
    Hfsc(HfscQueue) = "hfsc",
    /// A tree of token buckets that borrow from their parents.
    Htb(HtbQueue) = "htb",
    /// Mice and Elephants for ingress, without a queue.
    IngressFilter(ingress_filter::IngressQueue) = "ingress-filter",
    /// A meter around another discipline, with an action for each colour.
    Marker(MarkerQueue) = "marker",
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
#[derive(Clone, PartialEq, Debug)]
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

    /// The per-packet overhead and the rate of the link behind the discipline, if the section states them.
    pub fn wire(&self) -> (Wire, Option<Rate>) {
        match self {
            Self::Cake(cake) => (cake.wire(), cake.line_rate),
            Self::Marker(marker) => marker.inside.as_ref().map_or((Wire::RAW, None), |inside| inside.value.0.wire()),
            _ => (Wire::RAW, None),
        }
    }

    /// Whether the discipline, or one inside it, may read the hosts of a packet. For the others no hash of the hosts is
    /// computed.
    pub fn reads_hosts(&self) -> bool {
        match self {
            Self::Ared(_)
            | Self::CoDel(_)
            | Self::Drr(_)
            | Self::DualPi2(_)
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

    /// Whether packets wait in it only where what it sends to is slow: it has no rate of its own, and does nothing to packets that do not wait.
    pub fn only_queues(&self) -> bool {
        match self {
            Self::Cake(cake) => cake.rate.is_none(),
            Self::Cbq(_)
            | Self::Fbq(_)
            | Self::Hfsc(_)
            | Self::Htb(_)
            | Self::IngressFilter(_)
            | Self::Marker(_)
            | Self::Ras(_)
            | Self::Outside(_) => false,
            _ => true,
        }
    }

    /// Whether the discipline, or one inside it, marks packets when they have waited for about a millisecond, as L4S asks.
    pub fn marks_early(&self) -> bool {
        let does =
            |inside: &Option<Spanned<Inside>>| inside.as_ref().is_some_and(|inside| inside.value.0.marks_early());
        match self {
            Self::DualPi2(_) => true,
            Self::Cake(cake) => cake.l4s_step.is_some(),
            Self::Drr(drr) => drr.l4s_step.is_some(),
            Self::FqCodel(queue) => queue.l4s_step.is_some(),
            Self::Fbq(fbq) => fbq.class.iter().any(|class| {
                class.value.l4s_step.is_some()
                    || class.value.queue.as_ref().is_some_and(|queue| queue.value.marks_early())
            }),
            Self::Cbq(cbq) => cbq.class.iter().any(|class| does(&class.value.queue)),
            Self::Hfsc(hfsc) => hfsc.class.iter().any(|class| does(&class.value.queue)),
            Self::Htb(htb) => htb.class.iter().any(|class| does(&class.value.queue)),
            Self::Marker(marker) => does(&marker.inside),
            _ => false,
        }
    }
}

crate::record! {
    /// A class: a rate, and the flows that share it.
    pub struct ClassSection as "class" {
        /// The name that rules and `tidegate status` use; unique in the file.
        pub name: Spanned<String>,
        /// The guaranteed rate of the class. Default: what the other classes leave of the total, in equal parts among the classes
        /// without a rate, at most `at-most`.
        pub rate: Option<Spanned<Rate>>,
        /// The burst of the class. Default: 1 ms at its rate, at least two packets of the largest size.
        pub burst: Option<Spanned<Bytes>>,
        /// The burst of one flow after a pause. Default: the same as `burst`.
        pub flow_burst: Option<Spanned<Bytes>>,
        /// Classes with a smaller number are served first, each up to its rate; what classes leave unused is lent without regard to
        /// this. Default 1, which leaves 0 for a premium class.
        pub priority: Spanned<u8> = 1,
        /// The code point that its packets are marked with. Default: they keep theirs.
        pub dscp: Option<Dscp>,
        /// Whether the token bucket bounds the whole class or each flow. Default strict: a network that polices the
        /// class drops the excess.
        pub bursts: Bursts = "strict",
        /// Who gets the share that a flow leaves unused. Default work-conserving: no capacity stays idle.
        pub share: Spanned<Sharing> = "work-conserving",
        /// Whether the class may use capacity that other classes leave unused, which goes to the classes that borrow in proportion
        /// to their rates. Default true, so that no capacity stays idle; false with strict sharing, so that what a flow may send does not depend on other classes. Set it to false
        /// if a network polices the class.
        pub borrow: Option<Spanned<bool>>,
        /// The most that the class sends, borrowed capacity included: a bound, where `rate` is a promise. At least `rate`, which
        /// may be small. Not possible in a class that borrows with strict sharing. Default: all that others leave, or with
        /// `borrow = false` its rate.
        pub at_most: Option<Spanned<Rate>>,
        /// The most that each host sends or receives in the class. Needs `fair-by`, which says what a host is, and does not apply
        /// to a class with a `queue`. Default: no bound.
        pub host_at_most: Option<Spanned<Rate>>,
        /// The most that each flow sends in the class. Does not apply to a class with a `queue`. Default: no bound.
        pub flow_at_most: Option<Spanned<Rate>>,
        /// The queue limit of the class in bytes. Default: 200 ms at its rate, at least 64 packets of the largest size.
        pub limit: Option<Spanned<Bytes>>,
        /// The queue limit of one flow in bytes. Default: half of `limit`, so that one flow cannot fill the class.
        pub flow_limit: Option<Spanned<Bytes>>,
        /// How much one step of preference adds to the share of a flow, as a part of the class. Default 10%: one step
        /// is noticeable, and ten steps claim the whole class.
        pub increment: Percent = "10%",
        /// When to notify the owner of a flow that its queue is filling up. Default: never.
        pub feedback: Option<FeedbackSection>,
        /// The delay from which packets of ECT(1), the code point of scalable senders (L4S), are marked, if two more packets of
        /// their flow wait. 1ms is usual. Default: they are treated as all others.
        pub l4s_step: Option<Spanned<Span>>,
        /// The rate advised to flows of QUIC that ask for it with SCONE packets, written into these as they pass, and only
        /// where it is lower than the rate in them. Default none: a rate that is advised tells how the line is divided.
        pub advice: Spanned<Advice> = "none",
        /// A discipline behind the token bucket of the class, instead of one queue per flow. Keys about single flows
        /// (`flow-burst`, `flow-limit`, `feedback`, `l4s-step`, `advice` by flow, minimum rates,
        /// ceilings) then do not apply. Default:
        /// none.
        pub queue: Option<Spanned<Discipline>>,
        /// Whether this class takes the packets that match no rule. Exactly one class must. Default false.
        pub default: Option<Spanned<bool>>,
    }
}

crate::record! {
    /// FBC over FBQ: classes with guaranteed rates, served by priority, and fair shares for the flows of each class.
    pub struct FbqQueue as "fbq" {
        /// The total rate, which is never exceeded. Default: the sum of the rates of the classes.
        pub rate: Option<Spanned<Rate>>,
        /// The burst of all classes together. Default: 1 ms at the total rate, at least two packets of the largest
        /// size.
        pub burst: Option<Spanned<Bytes>>,
        /// The size of the largest packet; bursts must be at least as large. Default 1500 B, Ethernet.
        pub mtu: Spanned<Bytes> = "1500B",
        /// A flow that sends nothing for this long has ended, and its share is released. Default 10 s.
        pub idle_timeout: Spanned<Span> = "10s",
        /// The largest number of flows in the table, over all classes. Default 65536.
        pub flows: Spanned<u32> = 65536,
        /// The classes. A packet carries the number of its class, from 0.
        pub class: Vec<Spanned<ClassSection>>,
        /// The promises to flows. A packet carries the number of its profile, from 1, or 0 without a profile. In a
        /// shaper file the packets that match rule `i` carry number `i`.
        pub profile: Vec<Spanned<ProfileSection>>,
    }
}

crate::record! {
    /// The promises to the flows of a profile.
    pub struct ProfileSection as "profile" {
        /// The name that is displayed as the rule of its flows.
        pub name: Spanned<String>,
        /// The share of each flow relative to flows of weight 1. Default 1.
        pub weight: Spanned<u32> = 1,
        /// The minimum rate of each flow. Default: none.
        pub minimum: Option<Spanned<Rate>>,
        /// The class to which a flow moves when its share falls too low. Default: it stays.
        pub displace: Option<DisplaceSection>,
        /// The most that all flows of the profile send together. Default: no bound.
        pub at_most: Option<Spanned<Rate>>,
    }
}

crate::record! {
    /// A class of CBQ. Only classes that are no other's parent have a queue.
    pub struct CbqClass as "cbq class" {
        /// The name that rules and other classes use; unique in the tree.
        pub name: Spanned<String>,
        /// The parent class. Default: the link.
        pub parent: Option<Spanned<String>>,
        /// The guaranteed rate. Give this or `share`.
        pub rate: Option<Spanned<Rate>>,
        /// The guaranteed rate as a part of the link. Give this or `rate`.
        pub share: Option<Spanned<Percent>>,
        /// 0 is the highest priority, 7 the lowest. Default 1, which leaves a value above it.
        pub priority: Spanned<u8> = 1,
        /// Whether the class may borrow. Default never, so that it cannot take what is promised to others.
        pub borrow: Borrow = "never",
        /// The packet size of the class, for accounting by idle time. Default `mtu`.
        pub packet_size: Option<Spanned<Bytes>>,
        /// How many packets may be sent back to back after an idle time. Default 16, as in ALTQ.
        pub max_burst: Spanned<u32> = 16,
        /// How many packets may be sent back to back after a suspension. Default 2, as in ALTQ.
        pub min_burst: Spanned<u32> = 2,
        /// With accounting by idle time: the upper bound of the average idle time, which limits the burst after an idle
        /// time. Default: as much as `max-burst` packets use up.
        pub maxidle: Option<Spanned<Span>>,
        /// With accounting by idle time: how far the average may fall below zero, which limits the debt after
        /// borrowing. Default by `derivation`: the packet time of the class times the weight of a packet, or no limit.
        pub minidle: Option<Spanned<Span>>,
        /// With accounting by idle time: how much longer than its debt a class is suspended. Default by `derivation`:
        /// long enough for `min-burst` packets to follow, or nothing.
        pub extradelay: Option<Spanned<Span>>,
        /// The queue of the class. Default a FIFO of 1 MB.
        pub queue: Option<Spanned<Inside>>,
    }
}

crate::record! {
    /// Class-based queueing: a tree of classes that share a link, each with a guaranteed rate.
    pub struct CbqQueue as "cbq" {
        /// The rate of the link, which is never exceeded.
        pub link: Spanned<Rate>,
        /// The largest packet. Default an Ethernet frame.
        pub mtu: Spanned<Bytes> = "1514B",
        /// Which classes may borrow. Default formal: the original definition, which costs no more here.
        pub sharing: LinkSharing = "formal",
        /// How top-level sharing sets its level. Default altq.
        pub heuristic: Heuristic = "altq",
        /// How the classes of a priority take turns. Default weighted.
        pub turns: General = "weighted",
        /// How the rate of a class is measured. Default bytes.
        pub accounting: Measure = "bytes",
        /// With accounting by idle time: a packet has the weight 2 to the power of minus this in the average. Default
        /// 5, or 4 with `derivation = "ns-2"`, as in ns-2.
        pub gain: Option<Spanned<u8>>,
        /// With accounting by idle time: which implementation its bounds and its initial value follow. Default altq.
        pub derivation: Derivation = "altq",
        /// The rate of the root class as a part of the link. Default 100 %. Papers use 98 or 99 %, so that the root can
        /// be over its limit; its children may have 100 % together.
        pub root: Option<Spanned<Percent>>,
        /// Which class sends when none may. Default when-idle: the link is used, and no buffer fills.
        pub conserving: Conserving = "when-idle",
        /// When a suspended class may send again. Default recheck.
        pub suspension: Regulation = "recheck",
        /// With accounting by idle time: the time from which a class over its limit waits. Default actual: the
        /// correction of 1999.
        pub finish: Finish = "actual",
        /// How to correct a link clock that runs ahead. Default clamp: no class is penalised for it.
        pub link_clock: Clock = "clamp",
        /// How far that clock may lead. Default the time of 16 packets, at least 10 ms.
        pub clock_lead: Option<Span>,
        /// How far ahead of the link packets may be released to the driver. Default the time of two packets, at least
        /// half a millisecond.
        pub lead: Option<Span>,
        /// The class of packets that match no rule. Default: such packets are dropped.
        pub default: Option<Spanned<String>>,
        /// The class under which flows can reserve classes of their own. Default: no reservations.
        pub reservations: Option<Spanned<Reservations>>,
        /// The classes.
        pub class: Vec<Spanned<CbqClass>>,
    }
}

crate::record! {
    /// A class of HTB. Only classes that are no other's parent have a queue.
    pub struct HtbClass as "htb class" {
        /// Its name.
        pub name: Spanned<String>,
        /// The parent, from which the class borrows. Default none.
        pub parent: Option<Spanned<String>>,
        /// The guaranteed rate.
        pub rate: Spanned<Rate>,
        /// The highest rate, borrowed capacity included. Default `rate`: the class does not borrow.
        pub ceil: Option<Spanned<Rate>>,
        /// The burst at `rate`. Default 1 ms at this rate plus 1600 B, as `tc` computes it for timers of 1 kHz. A
        /// process that wakes up later than that loses capacity.
        pub burst: Option<Spanned<Bytes>>,
        /// The burst at `ceil`. Default 1 ms at that rate plus 1600 B.
        pub cburst: Option<Spanned<Bytes>>,
        /// Classes with priority 0 borrow first, with 7 last. Default 0.
        pub priority: Spanned<u8> = 0,
        /// The share of borrowed capacity, relative to the quanta of other classes of this priority. Default 100 ms at
        /// `rate`, between 1000 B and 200 kB: in proportion to the rates, as in `tc`.
        pub quantum: Option<Spanned<Bytes>>,
        /// The queue of the class. Default a FIFO of 1 MB.
        pub queue: Option<Spanned<Inside>>,
    }
}

crate::record! {
    /// Hierarchical token buckets: each class has a guaranteed rate and borrows from its parent up to a ceil.
    pub struct HtbQueue as "htb" {
        /// The class of packets that match no rule. Default: such packets are dropped.
        pub default: Option<Spanned<String>>,
        /// The classes.
        pub class: Vec<Spanned<HtbClass>>,
    }
}

crate::record! {
    /// A service curve.
    pub struct ServiceCurve as "service curve" {
        /// The long-term rate.
        pub rate: Spanned<Rate>,
        /// The bytes that are sent `within` a time, whatever the rate. Default none.
        pub burst: Bytes = "0B",
        /// The time for `burst`. Default none.
        pub within: Spanned<Span> = "0s",
    }
}

crate::record! {
    /// A class of H-FSC. Only classes that are no other's parent have a queue.
    pub struct HfscClass as "hfsc class" {
        /// Its name.
        pub name: Spanned<String>,
        /// The parent, whose capacity the class shares with its siblings. Default the link.
        pub parent: Option<Spanned<String>>,
        /// The guaranteed service curve of a class with a queue.
        pub guarantee: Option<Spanned<ServiceCurve>>,
        /// The share of the remaining capacity, relative to the shares of its siblings. Default: the guarantee. With
        /// 0bit, a class with a queue gets its guarantee and no more.
        pub share: Option<Spanned<Rate>>,
        /// The queue of the class. Default a FIFO of 1 MB.
        pub queue: Option<Spanned<Inside>>,
    }
}

crate::record! {
    /// The hierarchical fair service curve scheduler: separate guarantees of rate and delay, and shares in a tree of
    /// classes.
    pub struct HfscQueue as "hfsc" {
        /// The rate of the link, which is never exceeded.
        pub link: Spanned<Rate>,
        /// How far ahead of the link packets may be released. Default the time of two Ethernet frames, at least half a
        /// millisecond. A process that wakes up later than that loses capacity.
        pub lead: Option<Span>,
        /// The class of packets that match no rule. Default: such packets are dropped.
        pub default: Option<Spanned<String>>,
        /// The classes.
        pub class: Vec<Spanned<HfscClass>>,
    }
}

crate::record! {
    /// Meters packets, colours them, and marks, passes or drops them by colour.
    pub struct MarkerQueue as "marker" {
        /// The meter, and the action for each colour.
        pub conditioner: Spanned<Metered>,
        /// The position of the meter. Default entry, so that a queue inside sees the colours.
        pub at: Point = "entry",
        /// The discipline inside. Default a FIFO of 1 MB.
        pub inside: Option<Spanned<Inside>>,
    }
}

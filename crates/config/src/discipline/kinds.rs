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
    ared, cake, codel, drr, fair, fifo, fq_codel, fq_pie, ingress_filter, mered, meredt, outside, pie, ras, red, rio,
    sfq, wred,
};
use crate::classes::file::{Bursts, DisplaceSection, FeedbackSection, Sharing};
use crate::decode::{Decode, Spanned};
use crate::diagnostic::{Diagnostics, Place};
use crate::node::Node;
use crate::schema::Schemas;
use crate::values::Percent;

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
    Cbq(CbqQueue) = "cbq",
    /// Controlled delay.
    CoDel(codel::CoDelQueue) = "codel",
    /// Deficit round robin over flows.
    Drr(drr::DrrQueue) = "drr",
    /// Classes, and in each the flows by their shares.
    Fbq(FbqQueue) = "fbq",
    /// First in, first out.
    Fifo(fifo::Fifo) = "fifo",
    /// Fair queueing with controlled delay.
    FqCodel(fq_codel::FqCodelQueue) = "fq-codel",
    /// Fair queueing with PIE.
    FqPie(fq_pie::FqPieQueue) = "fq-pie",
    /// Guarantees of rate and delay apart, and shares in a tree.
    Hfsc(HfscQueue) = "hfsc",
    /// Token buckets in a tree that borrow from those above.
    Htb(HtbQueue) = "htb",
    /// Mice and Elephants without a queue, on what arrives.
    IngressFilter(ingress_filter::IngressQueue) = "ingress-filter",
    /// A meter, and what is done about its colours, around another discipline.
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

crate::record! {
    /// A class: a rate, and the flows that share it.
    pub struct ClassSection as "class" {
        /// By which rules and `tidegate status` name it; unique in the file.
        pub name: Spanned<String>,
        /// The rate that the class is allocated.
        pub rate: Spanned<Rate>,
        /// What the class may send at once. Default: 1 ms at its rate, at least two of the largest packets.
        pub burst: Option<Spanned<Bytes>>,
        /// What a flow that was silent may send at once. Default: the same as `burst`.
        pub flow_burst: Option<Spanned<Bytes>>,
        /// Classes with a smaller number are asked first. Default 1, so that 0 is free for a premium class.
        pub priority: Spanned<u8> = 1,
        /// The code point written on its packets. Default: they keep theirs.
        pub dscp: Option<Dscp>,
        /// What the bucket of the class bounds. Default strict: a network that polices drops what exceeds it.
        pub bursts: Bursts = "strict",
        /// What becomes of a share that its flow does not use. Default work-conserving: no capacity is left idle.
        pub share: Spanned<Sharing> = "work-conserving",
        /// Whether it may use what other classes leave of the total. Default true, no capacity is left idle; false with
        /// strict sharing, where no flow gets more than its share. Set it to false where a network polices the class.
        pub borrow: Option<Spanned<bool>>,
        /// Bytes that may wait in it. Default: 200 ms at its rate, at least 64 of the largest packets.
        pub limit: Option<Spanned<Bytes>>,
        /// Bytes of one flow that may wait in it. Default: half of `limit`, so that one flow cannot fill it.
        pub flow_limit: Option<Spanned<Bytes>>,
        /// What a preference adds to the share of a flow. Default 10%: felt at once, and ten steps go from nothing
        /// to everything.
        pub increment: Percent = "10%",
        /// When the owner of a flow is notified that its queue fills. Default: never.
        pub feedback: Option<FeedbackSection>,
        /// Any discipline instead of one queue per flow, behind the bucket of the class. What belongs to flows
        /// (`flow-burst`, `flow-limit`, `feedback`, minimum rates) then does not apply. Default: none.
        pub queue: Option<Spanned<Discipline>>,
        /// Whether packets that no rule matches go here. Exactly one class has it. Default false.
        pub default: Option<Spanned<bool>>,
    }
}

crate::record! {
    /// Classes in the order of their priorities, and in each the flows by their shares: FBC over FBQ.
    pub struct FbqQueue as "fbq" {
        /// The total that is never exceeded. Default: the sum of the rates of the classes.
        pub rate: Option<Spanned<Rate>>,
        /// What may leave at once over all classes. Default: 1 ms at the total rate, at least two of the largest
        /// packets.
        pub burst: Option<Spanned<Bytes>>,
        /// The largest packet, which bursts must hold. Default 1500 B, Ethernet.
        pub mtu: Spanned<Bytes> = "1500B",
        /// A flow without packets for so long is over, and its share goes back. Default 10 s.
        pub idle_timeout: Spanned<Span> = "10s",
        /// How many flows are remembered at once, over all classes. Default 65536.
        pub flows: Spanned<u32> = 65536,
        /// The classes. Packets carry the number of theirs, from 0.
        pub class: Vec<Spanned<ClassSection>>,
        /// What flows are promised. Packets carry the number of theirs, from 1; 0 is that of flows without a profile.
        /// In a shaper file the packets of rule `i` carry number `i`.
        pub profile: Vec<Spanned<ProfileSection>>,
    }
}

crate::record! {
    /// The promise for the flows of a profile.
    pub struct ProfileSection as "profile" {
        /// Shown as the rule of its flows.
        pub name: Spanned<String>,
        /// How much of the class each flow gets beside flows of weight 1. Default 1.
        pub weight: Spanned<u32> = 1,
        /// What each flow is promised at least. Default: nothing.
        pub minimum: Option<Spanned<Rate>>,
        /// Where a flow goes when its share has fallen too low. Default: it stays.
        pub displace: Option<DisplaceSection>,
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
        pub sharing: LinkSharing = "formal",
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

crate::record! {
    /// A class of HTB. One that no other names as its parent has a queue, and packets.
    pub struct HtbClass as "htb class" {
        /// Its name.
        pub name: Spanned<String>,
        /// The class above it, from which it borrows. Default none.
        pub parent: Option<Spanned<String>>,
        /// What it is sure of.
        pub rate: Spanned<Rate>,
        /// What it may send with what it borrows. Default its rate: it does not borrow.
        pub ceil: Option<Spanned<Rate>>,
        /// What it may send at once within its rate. Default a millisecond of it and 1600 B, as of `tc` where timers have
        /// a kilohertz: a process that is scheduled later than that loses capacity.
        pub burst: Option<Spanned<Bytes>>,
        /// What it may send at once within its ceil. Default a millisecond of that and 1600 B.
        pub cburst: Option<Spanned<Bytes>>,
        /// 0 borrows first, 7 last. Default 0.
        pub priority: Spanned<u8> = 0,
        /// Its part of what is borrowed is this in proportion to those of others of its priority. Default what its rate
        /// sends in 100 ms, between 1000 B and 200 kB: in proportion to the rates, as of `tc`.
        pub quantum: Option<Spanned<Bytes>>,
        /// Its queue. Default a FIFO of 1 MB.
        pub queue: Option<Spanned<Inside>>,
    }
}

crate::record! {
    /// Hierarchical token buckets: classes with a rate each, that borrow from those above up to a ceil.
    pub struct HtbQueue as "htb" {
        /// The class of packets that match no rule. Default: they are dropped.
        pub default: Option<Spanned<String>>,
        /// The classes.
        pub class: Vec<Spanned<HtbClass>>,
    }
}

crate::record! {
    /// A service curve.
    pub struct ServiceCurve as "service curve" {
        /// The rate in the long run.
        pub rate: Spanned<Rate>,
        /// What is sent `within` a time, whatever the rate. Default nothing.
        pub burst: Bytes = "0B",
        /// The time for `burst`. Default none.
        pub within: Spanned<Span> = "0s",
    }
}

crate::record! {
    /// A class of H-FSC. One that no other names as its parent has a queue, and packets.
    pub struct HfscClass as "hfsc class" {
        /// Its name.
        pub name: Spanned<String>,
        /// The class above it, with whose others it shares. Default the link.
        pub parent: Option<Spanned<String>>,
        /// What a class with a queue is sure of, and when.
        pub guarantee: Option<Spanned<ServiceCurve>>,
        /// Its part of what is left is this in proportion to the others'. Default as its guarantee; 0bit for a class with a
        /// queue that gets its guarantee alone.
        pub share: Option<Spanned<Rate>>,
        /// Its queue. Default a FIFO of 1 MB.
        pub queue: Option<Spanned<Inside>>,
    }
}

crate::record! {
    /// The hierarchical fair service curve scheduler: guarantees of rate and delay apart, and shares in a tree.
    pub struct HfscQueue as "hfsc" {
        /// The rate of the link. No more is sent.
        pub link: Spanned<Rate>,
        /// How far ahead of the link packets are given. Default the time of two Ethernet frames, at least half a
        /// millisecond: a process that is scheduled later than that loses capacity.
        pub lead: Option<Span>,
        /// The class of packets that match no rule. Default: they are dropped.
        pub default: Option<Spanned<String>>,
        /// The classes.
        pub class: Vec<Spanned<HfscClass>>,
    }
}

crate::record! {
    /// Meters packets, colours them, and marks, passes or drops them by colour.
    pub struct MarkerQueue as "marker" {
        /// The meter, and what is done about its colours.
        pub conditioner: Spanned<Metered>,
        /// Its position. Default entry: a queue inside then sees the colours.
        pub at: Point = "entry",
        /// The discipline inside. Default a FIFO of 1 MB.
        pub inside: Option<Spanned<Inside>>,
    }
}

//! `kind = "codel"`, `"pie"`, `"ared"`, `"drr"`, `"sfq"`, `"fq-codel"` and `"cake"`: the disciplines of the same
//! names in `tidegate_core`.

use tidegate_core::aqm::AqmFifo;
use tidegate_core::ared::{self, Ared};
use tidegate_core::fifo::Limit;
use tidegate_core::{Bytes, Packet, ParamError, Qdisc, Rate, Span, red};
use tidegate_core::{cake, codel, drr, fq_codel, pie, sfq};

use super::Site;
use super::early::{Signal, fault};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::words! {
    /// How the line cuts packets up.
    pub enum Framing as "framing" {
        /// Bytes as they are: Ethernet, DOCSIS, fibre.
        None = "none",
        /// ATM cells (ADSL).
        Atm = "atm",
        /// 64/65 coding (VDSL2).
        Ptm = "ptm",
    }
}

crate::words! {
    /// Classes of service by code point.
    pub enum Tins as "tins" {
        /// One for everything.
        BestEffort = "besteffort",
        /// Bulk, best effort, voice.
        Diffserv3 = "diffserv3",
        /// Bulk, best effort, video, voice.
        Diffserv4 = "diffserv4",
    }
}

crate::words! {
    /// What shares a tin evenly, before flows share that.
    pub enum Hosts as "hosts" {
        /// Flows only.
        Flows = "flows",
        /// Sending hosts.
        Source = "source",
        /// Receiving hosts.
        Destination = "destination",
        /// Pairs of hosts.
        Pair = "pair",
    }
}

crate::words! {
    /// Whether something is done.
    pub enum Switch as "switch" {
        /// It is.
        On = "on",
        /// It is not.
        Off = "off",
    }
}

crate::record! {
    /// Controlled delay (RFC 8289).
    pub struct CoDelQueue as "codel" {
        /// The standing delay that is accepted. Default 5 ms, the RFC's; on a line below 4 Mbit/s at least one and a
        /// half packets' time.
        pub target: Spanned<Span> = "5ms",
        /// How long it must stand before the first drop. Default 100 ms, the RFC's: a long round trip.
        pub interval: Spanned<Span> = "100ms",
        /// What a drop does to a packet that understands ECN. Default mark.
        pub signal: Signal = "mark",
        /// Bytes that may wait. Default 1 MB.
        pub limit: Bytes = "1MB",
    }
}

crate::record! {
    /// Proportional integral controller, enhanced (RFC 8033).
    pub struct PieQueue as "pie" {
        /// The delay to aim for. Default 15 ms, the RFC's.
        pub target: Spanned<Span> = "15ms",
        /// A burst of this length after rest is let through. Default 150 ms, the RFC's.
        pub burst: Span = "150ms",
        /// What a drop does to a packet that understands ECN. Default mark, below a probability of 10 %.
        pub signal: Signal = "mark",
        /// Bytes that may wait. Default 1 MB.
        pub limit: Bytes = "1MB",
    }
}

crate::record! {
    /// Random early detection that sets itself from the rate of the link.
    pub struct AredQueue as "ared" {
        /// The rate of the link it stands before.
        pub link: Spanned<Rate>,
        /// The average delay to aim for. Default 5 ms, the paper's.
        pub delay: Span = "5ms",
        /// What a drop does to a packet that understands ECN. Default mark.
        pub signal: Signal = "mark",
        /// Bytes that may wait. Default 1 MB.
        pub limit: Bytes = "1MB",
    }
}

crate::record! {
    /// Deficit round robin over exact flows.
    pub struct DrrQueue as "drr" {
        /// Bytes a turn. Default an Ethernet frame.
        pub quantum: Spanned<Bytes> = "1514B",
        /// Bytes that may wait. Default 1 MB.
        pub limit: Bytes = "1MB",
    }
}

crate::record! {
    /// Stochastic fairness queueing.
    pub struct SfqQueue as "sfq" {
        /// Queues that flows are hashed onto. Default 1024.
        pub queues: Spanned<u32> = 1024,
        /// Bytes a turn. Default an Ethernet frame.
        pub quantum: Spanned<Bytes> = "1514B",
        /// How often the hash changes. Default 10 s.
        pub perturb: Spanned<Span> = "10s",
        /// Bytes that may wait. Default 1 MB.
        pub limit: Bytes = "1MB",
    }
}

crate::record! {
    /// Fair queueing with a CoDel for each queue (RFC 8290).
    pub struct FqCodelQueue as "fq-codel" {
        /// The standing delay that is accepted. Default 5 ms, the RFC's.
        pub target: Spanned<Span> = "5ms",
        /// How long it must stand before the first drop. Default 100 ms, the RFC's.
        pub interval: Spanned<Span> = "100ms",
        /// Queues that flows are hashed onto. Default 1024, the RFC's.
        pub queues: Spanned<u32> = 1024,
        /// Bytes a turn. Default an Ethernet frame, the RFC's.
        pub quantum: Spanned<Bytes> = "1514B",
        /// What a drop does to a packet that understands ECN. Default mark.
        pub signal: Signal = "mark",
        /// Bytes that may wait. Default 4 MB.
        pub limit: Bytes = "4MB",
    }
}

crate::record! {
    /// A shaper for a line, tins by code point, fairness of hosts and of flows, COBALT.
    pub struct CakeQueue as "cake" {
        /// What the line carries. Default: something else shapes.
        pub rate: Option<Spanned<Rate>>,
        /// Bytes that the line adds to each packet. Default none; 44 is right or safe on most DSL lines.
        pub overhead: Spanned<u32> = 0,
        /// The least that a packet takes on the line, overhead included. Default nothing.
        pub least: Bytes = "0B",
        /// How the line cuts packets up. Default none.
        pub framing: Framing = "none",
        /// Classes of service. Default diffserv3.
        pub tins: Tins = "diffserv3",
        /// What shares a tin evenly, before flows share that. Default source: for a line upwards.
        pub hosts: Hosts = "source",
        /// Whether acknowledgements make room for later ones. Default off.
        pub ack_filter: Switch = "off",
        /// What a drop does to a packet that understands ECN. Default mark.
        pub signal: Signal = "mark",
        /// Bytes that may wait. Default: 100 ms of the rate, at least 64 packets; 4 MB without a rate.
        pub limit: Option<Bytes>,
        /// How much lateness of the machine is made up for, and with it what may leave at once after rest. Default
        /// 1 ms.
        pub lateness: Span = "1ms",
    }
}

/// A word of the file as the core has it.
pub(super) fn signal(signal: Signal) -> red::Signal {
    match signal {
        Signal::Mark => red::Signal::Mark,
        Signal::Drop => red::Signal::Drop,
    }
}

impl CoDelQueue {
    fn params(&self) -> codel::Params {
        codel::Params {
            target: self.target.value,
            interval: self.interval.value,
            signal: signal(self.signal),
            limit: Limit::bytes(self.limit),
            ..codel::Params::default()
        }
    }
    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if let Err(error) = self.params().validate() {
            fault(&error, &[("target", self.target.place), ("interval", self.interval.place)], place, diagnostics);
        }
    }
    pub(super) fn build<P: Packet + 'static>(&self) -> Box<dyn Qdisc<P>> {
        // Here and below: the node has passed its check, which validates the same parameters.
        Box::new(codel::CoDel::new(self.params()).expect("checked"))
    }
}

impl PieQueue {
    fn params(&self) -> pie::Params {
        pie::Params {
            target: self.target.value,
            burst: self.burst,
            signal: signal(self.signal),
            limit: Limit::bytes(self.limit),
            ..pie::Params::default()
        }
    }
    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if let Err(error) = self.params().validate() {
            fault(&error, &[("target", self.target.place)], place, diagnostics);
        }
    }
    pub(super) fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(pie::Pie::new(self.params(), site.seed, &site.name).expect("checked"))
    }
}

impl AredQueue {
    fn params(&self) -> ared::Params {
        let signal = signal(self.signal);
        ared::Params { delay: self.delay, signal, ..ared::Params::for_link(self.link.value) }
    }
    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if let Err(error) = self.params().red() {
            fault(&error, &[("link", self.link.place)], place, diagnostics);
        }
    }
    pub(super) fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        let ared = Ared::new(self.params(), site.seed, &site.name).expect("checked");
        Box::new(AqmFifo::new(Limit::bytes(self.limit), ared))
    }
}

impl DrrQueue {
    fn params(&self) -> drr::Params {
        drr::Params { quantum: self.quantum.value, limit: Limit::bytes(self.limit), ..drr::Params::default() }
    }
    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if let Err(error) = self.params().validate() {
            fault(&error, &[("quantum", self.quantum.place)], place, diagnostics);
        }
    }
    pub(super) fn build<P: Packet + 'static>(&self) -> Box<dyn Qdisc<P>> {
        Box::new(drr::Drr::new(self.params()).expect("checked"))
    }
}

impl SfqQueue {
    fn params(&self, seed: u64) -> sfq::Params {
        sfq::Params {
            queues: self.queues.value,
            quantum: self.quantum.value,
            limit: Limit::bytes(self.limit),
            perturb: Some(self.perturb.value),
            seed,
        }
    }
    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        let places = [("queues", self.queues.place), ("quantum", self.quantum.place), ("perturb", self.perturb.place)];
        if let Err(error) = self.params(0).validate() {
            fault(&error, &places, place, diagnostics);
        }
    }
    pub(super) fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(sfq::Sfq::new(self.params(site.seed)).expect("checked"))
    }
}

impl FqCodelQueue {
    fn params(&self) -> fq_codel::Params {
        let codel = codel::Params {
            target: self.target.value,
            interval: self.interval.value,
            signal: signal(self.signal),
            limit: Limit { packets: 10_240, bytes: self.limit },
            ..codel::Params::default()
        };
        fq_codel::Params { codel, queues: self.queues.value, quantum: self.quantum.value }
    }
    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        let places = [
            ("target", self.target.place),
            ("interval", self.interval.place),
            ("queues", self.queues.place),
            ("quantum", self.quantum.place),
        ];
        if let Err(error) = self.params().validate() {
            fault(&error, &places, place, diagnostics);
        }
    }
    pub(super) fn build<P: Packet + 'static>(&self) -> Box<dyn Qdisc<P>> {
        Box::new(fq_codel::FqCodel::new(self.params()).expect("checked"))
    }
}

impl CakeQueue {
    fn params(&self) -> cake::Params {
        let rate = self.rate.map(|rate| rate.value);
        // Without a rate the target, interval and limit are those of a fast line.
        let base = cake::Params::for_link(rate.unwrap_or(Rate::from_mbit(320)));
        let limit = Limit { bytes: self.limit.unwrap_or(base.codel.limit.bytes), ..base.codel.limit };
        cake::Params {
            rate,
            wire: cake::Wire {
                // What does not fit is far above what validation takes.
                overhead: i16::try_from(self.overhead.value).unwrap_or(i16::MAX),
                least: self.least,
                framing: match self.framing {
                    Framing::None => cake::Framing::None,
                    Framing::Atm => cake::Framing::Atm,
                    Framing::Ptm => cake::Framing::Ptm,
                },
            },
            tins: match self.tins {
                Tins::BestEffort => cake::Tins::BestEffort,
                Tins::Diffserv3 => cake::Tins::Diffserv3,
                Tins::Diffserv4 => cake::Tins::Diffserv4,
            },
            hosts: match self.hosts {
                Hosts::Flows => cake::Hosts::Flows,
                Hosts::Source => cake::Hosts::Source,
                Hosts::Destination => cake::Hosts::Destination,
                Hosts::Pair => cake::Hosts::Pair,
            },
            ack_filter: match self.ack_filter {
                Switch::On => cake::AckFilter::On,
                Switch::Off => cake::AckFilter::Off,
            },
            codel: codel::Params { limit, signal: signal(self.signal), ..base.codel },
            lateness: self.lateness,
            ..base
        }
    }
    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if let Err(error) = self.params().validate() {
            let rate = self.rate.map_or(place, |rate| rate.place);
            fault(&error, &[("rate", rate), ("overhead", self.overhead.place)], place, diagnostics);
        }
    }
    pub(super) fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(cake::Cake::new(self.params(), site.seed, &site.name).expect("checked"))
    }
}

/// A rate of zero would divide by it before a check can tell.
pub(super) fn check_link(link: &Spanned<Rate>, diagnostics: &mut Diagnostics) -> bool {
    if link.value.is_zero() {
        let error = ParamError::new("link", "must be above 0, for example \"20mbit\"");
        fault(&error, &[("link", link.place)], link.place, diagnostics);
    }
    !link.value.is_zero()
}

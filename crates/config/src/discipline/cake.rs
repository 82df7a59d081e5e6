//! `kind = "cake"`: [`tidegate_core::cake`].

use tidegate_core::cake::{self, AckFilter, Cake, Framing, Isolation, Tins, Wire};
use tidegate_core::codel;
use tidegate_core::fifo::Limit;
use tidegate_core::red::Signal;
use tidegate_core::{Bytes, Packet, Qdisc, Rate, Span};

use super::section::{Section, Site, report, step};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::choices! {
    impl "framing" for Framing {
        /// Unframed bytes: Ethernet, DOCSIS, fibre.
        None = "none",
        /// ATM cells (ADSL).
        Atm = "atm",
        /// 64/65 coding (VDSL2).
        Ptm = "ptm",
    }
}

crate::choices! {
    impl "tins" for Tins {
        /// One tin for all packets.
        BestEffort = "besteffort",
        /// Bulk, best effort, voice.
        Diffserv3 = "diffserv3",
        /// Bulk, best effort, video, voice.
        Diffserv4 = "diffserv4",
    }
}

crate::choices! {
    impl "hosts" for Isolation {
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

crate::choices! {
    impl "switch" for AckFilter {
        /// Enabled.
        On = "on",
        /// Disabled.
        Off = "off",
    }
}

crate::record! {
    /// A shaper for an access line: tins by code point, fairness among hosts and flows, and COBALT as AQM.
    pub struct CakeQueue as "cake" {
        /// The rate to shape to. Default: unlimited, because something else shapes.
        pub rate: Option<Spanned<Rate>>,
        /// The largest packet that the interface sends, with its header. CoDel's target is at least the time of one and a half of
        /// them. Default an Ethernet frame.
        pub mtu: Spanned<Bytes> = "1514B",
        /// The rate of the line itself, of which `rate` is a part. It is displayed and exported, but does not affect
        /// shaping.
        pub line_rate: Option<Rate>,
        /// The overhead of the line per packet, in bytes. Default 0; 44 is right or safe on most DSL lines.
        pub overhead: Spanned<u32> = 0,
        /// The smallest size of a packet on the line, overhead included. Default 0.
        pub least: Bytes = "0B",
        /// The framing of the line. Default none.
        pub framing: Framing = "none",
        /// Classes of service. Default diffserv3.
        pub tins: Tins = "diffserv3",
        /// The hosts that share a tin evenly; the flows of each share its part. Default source, for an upstream line.
        pub hosts: Isolation = "source",
        /// Whether later acknowledgements replace earlier ones. Default off.
        pub ack_filter: AckFilter = "off",
        /// Whether a packet that understands ECN is marked or dropped. Default mark.
        pub signal: Signal = "mark",
        /// The delay from which packets of ECT(1), the code point of scalable senders (L4S), are marked, if two more packets of
        /// their flow wait. 1ms is usual. Default: they are treated as all others.
        pub l4s_step: Option<Spanned<Span>>,
        /// The limit of all queues together, in bytes. Default: as much as the rate carries in four intervals of CoDel
        /// (0.4 s on a fast line), at least 4 MiB, as in the kernel's CAKE; 16 MB without a rate.
        pub limit: Option<Bytes>,
        /// How much timer lateness is compensated, which is also the burst after a pause. Default 1 ms.
        pub lateness: Span = "1ms",
    }
}

impl CakeQueue {
    /// The per-packet overhead of the line.
    pub(super) fn wire(&self) -> Wire {
        Wire {
            // A value that does not fit is far above what validation accepts.
            overhead: i16::try_from(self.overhead.value).unwrap_or(i16::MAX),
            least: self.least,
            framing: self.framing,
        }
    }

    /// The parameters of the discipline.
    pub fn params(&self) -> cake::Params {
        let rate = self.rate.map(|rate| rate.value);
        // Without a rate the target, interval and limit are those of a fast line.
        let base = cake::Params::for_packets(rate.unwrap_or(Rate::from_mbit(320)), self.mtu.value);
        let limit = Limit { bytes: self.limit.unwrap_or(base.codel.limit.bytes), ..base.codel.limit };
        cake::Params {
            rate,
            wire: self.wire(),
            tins: self.tins,
            hosts: self.hosts,
            ack_filter: self.ack_filter,
            codel: codel::Params { limit, signal: self.signal, ..base.codel },
            step: step(self.l4s_step),
            lateness: self.lateness,
            ..base
        }
    }
}

impl Section for CakeQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if !(64..=65_549).contains(&self.mtu.value.as_u64()) {
            let text = "`mtu` must be 64B to 65549B, the header of the link included, for example 1514B";
            diagnostics.error(self.mtu.place, text).label("cannot work");
        } else if let Err(error) = self.params().validate() {
            let rate = self.rate.map_or(place, |rate| rate.place);
            let l4s_step = self.l4s_step.map_or(place, |step| step.place);
            let places = [("rate", rate), ("overhead", self.overhead.place), ("l4s_step", l4s_step)];
            report(&error, &places, place, diagnostics);
        }
    }
    fn line(&self) -> Option<Rate> {
        self.rate.map(|rate| rate.value)
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(Cake::new(self.params(), site.seed, &site.name).expect("checked"))
    }
}

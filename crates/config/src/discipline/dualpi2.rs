//! `kind = "dualpi2"`: [`tidegate_core::dualpi2`].

use tidegate_core::dualpi2::{self, DualPi2, Nqb, Scheduler, protection};
use tidegate_core::fifo::Limit;
use tidegate_core::step::Step;
use tidegate_core::{Bytes, Packet, Qdisc, Span};

use super::section::{Section, Site, report};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::choices! {
    /// Which queue sends when both have packets.
    pub enum Turns as "turns" {
        /// The classic queue sends one part of `classic-parts`, the other the rest.
        Weighted = "weighted",
        /// The oldest packet leaves, where those of the low-latency queue count as older by `shift`.
        TimeShifted = "time-shifted",
    }
}

crate::record! {
    /// Two coupled queues: a low delay for scalable senders (L4S) and for NQB, equal rates for all (RFC 9332).
    pub struct DualPi2Queue as "dualpi2" {
        /// The delay of the classic queue to aim for. Default 15 ms, the RFC's.
        pub target: Spanned<Span> = "15ms",
        /// The interval between updates of the probability. Default 16 ms, for which alpha and beta of the RFC are 0.16
        /// and 3.2 per second.
        pub update: Spanned<Span> = "16ms",
        /// The coupling factor: how often a packet of the low-latency queue is marked, relative to the square root of the
        /// probability of the other queue. Default 2, the RFC's: scalable and classic flows get about the same rate.
        pub coupling: Spanned<u32> = 2,
        /// The delay from which every ECT(1) packet is marked. Default 1.2 ms, the RFC's.
        pub l4s_step: Spanned<Span> = "1200us",
        /// How far below `l4s-step` marks begin, with a likelihood that rises to 1. Default 0.4 ms, the RFC's; 0 for a step.
        pub l4s_ramp: Spanned<Span> = "400us",
        /// Which queue sends when both have packets. Default weighted: the classic queue is sure of its part, whatever
        /// arrives in the other.
        pub turns: Turns = "weighted",
        /// With weighted turns: the classic queue sends one part of so many. Default 16, so that the low-latency queue waits for
        /// one packet at most as long as the classic queue has sent its part.
        pub classic_parts: Spanned<u32> = 16,
        /// With time-shifted turns: how much older the packets of the low-latency queue count as. Default 50 ms, above what the
        /// classic queue has around its target, so that only a queue that is much longer comes first.
        pub shift: Span = "50ms",
        /// Whether packets with the code point NQB (45, RFC 9956) wait in the low-latency queue too. Default true: games and
        /// calls that mark themselves; they get no more rate by it.
        pub nqb: bool = true,
        /// Whether flows that build the low-latency queue wait with the other one (RFC 9957). Default true: a sender that only
        /// claims to be scalable would delay all others of the low-latency queue.
        pub protection: bool = true,
        /// The queue limit of both queues in bytes. Default 1 MB.
        pub limit: Bytes = "1MB",
    }
}

impl DualPi2Queue {
    /// The parameters of the discipline.
    pub fn params(&self) -> dualpi2::Params {
        let full = self.l4s_step.value;
        let critical = protection::Params { critical: full.min(Span::from_secs(1)), ..Default::default() };
        dualpi2::Params {
            target: self.target.value,
            update: self.update.value,
            coupling: self.coupling.value,
            step: Step { from: full.saturating_sub(self.l4s_ramp.value), full },
            scheduler: match self.turns {
                Turns::Weighted => Scheduler::Weighted { parts: self.classic_parts.value },
                Turns::TimeShifted => Scheduler::TimeShifted { shift: self.shift },
            },
            nqb: if self.nqb { Nqb::LowLatency } else { Nqb::ByEcn },
            protection: self.protection.then_some(critical),
            limit: Limit::bytes(self.limit),
            ..dualpi2::Params::default()
        }
    }
}

impl Section for DualPi2Queue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        let places = [
            ("target", self.target.place),
            ("update", self.update.place),
            ("coupling", self.coupling.place),
            ("l4s_step", self.l4s_step.place),
            ("classic_parts", self.classic_parts.place),
        ];
        if self.l4s_ramp.value > self.l4s_step.value {
            diagnostics.error(self.l4s_ramp.place, "`l4s-ramp` must be at most `l4s-step`").label("cannot work");
        }
        if let Err(error) = self.params().validate() {
            report(&error, &places, place, diagnostics);
        }
    }
    fn build<P: Packet + 'static>(&self, _site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(DualPi2::new(self.params()).expect("checked"))
    }
}

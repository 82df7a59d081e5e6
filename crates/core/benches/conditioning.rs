//! Nanoseconds per packet of meters, early drop and rate adaptive shapers. Beside the meters DPDK's `rte_meter`.

use std::hint::black_box;

use tidegate_benches::Harness;
use tidegate_benches::peers::Peer;
use tidegate_core::aqm::{Aqm, AqmFifo};
use tidegate_core::fifo::Limit;
use tidegate_core::marker::{Actions, Conditioner};
use tidegate_core::meter::{AnyMeter, Meter, Mode};
use tidegate_core::qdisc::{Backlog, Discard};
use tidegate_core::random::Stream;
use tidegate_core::ras::{self, Coupling, Curve, Ras};
use tidegate_core::red::{self, EarlyDrop, Red, Thresholds};
use tidegate_core::rio::{self, Rio};
use tidegate_core::{Bytes, Colour, FlowKey, Instant, Packet, Probability, Qdisc, Rate, Span};
use tidegate_core::{rfc4115, srtcm, trtcm, tswtcm};

/// Packets of one call.
const N: usize = 10_000;

#[derive(Clone, Copy)]
struct P {
    size: u64,
    colour: Colour,
}

impl Packet for P {
    fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }
    fn flow(&self) -> FlowKey {
        FlowKey::default()
    }
    fn colour(&self) -> Colour {
        self.colour
    }
    fn set_colour(&mut self, colour: Colour) {
        self.colour = colour;
    }
}

/// Arrivals at about 4 Mbit/s in bursts, a third of each colour.
fn arrivals() -> Vec<(Instant, P)> {
    let mut random = Stream::named(1, "bench");
    let mut now = Instant::ZERO;
    (0..N)
        .map(|_| {
            now += Span::from_nanos(random.below(4_000_000));
            let colour = [Colour::Green, Colour::Yellow, Colour::Red][random.below(3) as usize];
            (now, P { size: 40 + random.below(1_461), colour })
        })
        .collect()
}

const CIR: Rate = Rate::from_mbit(2);
const PIR: Rate = Rate::from_mbit(4);
const CBS: Bytes = Bytes::new(3_000);
const PBS: Bytes = Bytes::new(6_000);

fn trtcm() -> trtcm::TrTcm {
    let params = trtcm::Params { cir: CIR, cbs: CBS, pir: PIR, pbs: PBS, mode: Mode::Blind };
    trtcm::TrTcm::new(params, Instant::ZERO).expect("valid")
}

fn meters(harness: &mut Harness, arrivals: &[(Instant, P)]) {
    let (mode, start) = (Mode::Blind, Instant::ZERO);
    let window = Span::from_millis(100);
    let single = srtcm::SrTcm::new(srtcm::Params { cir: CIR, cbs: CBS, ebs: PBS, mode }, start).expect("valid");
    let efficient = rfc4115::Params { cir: CIR, cbs: CBS, eir: PIR, ebs: PBS, mode };
    let efficient = rfc4115::Rfc4115::new(efficient, start).expect("valid");
    let sliding = tswtcm::TswTcm::new(tswtcm::Params { ctr: CIR, ptr: PIR, window, mode }, start, 1, "bench");
    for (name, meter) in [
        ("srtcm", AnyMeter::SrTcm(single)),
        ("trtcm", AnyMeter::TrTcm(trtcm())),
        ("rfc4115", AnyMeter::Rfc4115(efficient)),
        ("tswtcm", AnyMeter::TswTcm(sliding.expect("valid"))),
    ] {
        harness.case(name, N as u64, || {
            move || {
                let mut meter = meter.clone();
                for (now, packet) in arrivals {
                    black_box(meter.meter(*now, packet));
                }
            }
        });
        if name != "tswtcm" {
            harness.beside(name, Peer::RteMeter, name);
        }
    }
}

fn early(harness: &mut Harness, arrivals: &[(Instant, P)]) {
    // A standing queue in the middle of the curve, where every arrival draws a random number.
    let weight = Probability::ONE;
    let early = EarlyDrop { weight, ..EarlyDrop::RECOMMENDED };
    let red = red::Params { early, ..red::Params::new(Thresholds::Packets { min: 20, max: 60 }) };
    let red = Red::new(red, 1, "bench").expect("valid");
    let standing = Backlog { packets: 40, bytes: Bytes::new(40_000) };
    harness.case("red decides", N as u64, || {
        move || {
            let mut red = red.clone();
            for (now, packet) in arrivals {
                black_box(red.on_arrival(*now, packet, standing));
            }
        }
    });
    harness.case("rio in and out", N as u64, || {
        move || {
            let rio = Rio::new(rio::Params::rfc2963(), 1, "bench").expect("valid");
            let mut queue = AqmFifo::new(Limit::packets(1_000), rio);
            for (n, (now, packet)) in arrivals.iter().enumerate() {
                queue.enqueue(*now, *packet, &mut Discard);
                if n >= 150 {
                    black_box(queue.dequeue(*now, &mut Discard));
                }
            }
        }
    });
}

fn shapers(harness: &mut Harness, arrivals: &[(Instant, P)]) {
    for (name, coupling) in [("trRAS", Coupling::Uncoupled), ("G-trRAS", Coupling::Green)] {
        let curve = Curve::Two {
            cir: CIR,
            pir: PIR,
            mir: Rate::from_mbit(34),
            cir_th: Bytes::new(20_000),
            pir_th: Bytes::new(40_000),
            mir_th: Bytes::new(80_000),
        };
        let params = ras::Params {
            curve,
            buffer: Bytes::new(100_000),
            line_rate: Rate::from_mbit(34),
            averaging: Span::from_millis(100),
            coupling,
            slack: Span::ZERO,
        };
        harness.case(name, N as u64, || {
            move || {
                let mut ras = Ras::new(params, Conditioner::new(trtcm(), Actions::default())).expect("valid");
                for (now, packet) in arrivals {
                    ras.enqueue(*now, *packet, &mut Discard);
                    while black_box(ras.dequeue(*now, &mut Discard)).is_some() {}
                    black_box(ras.deadline(*now));
                }
            }
        });
    }
}

fn main() {
    let mut harness = Harness::from_args();
    let arrivals = arrivals();
    meters(&mut harness, &arrivals);
    early(&mut harness, &arrivals);
    shapers(&mut harness, &arrivals);
}

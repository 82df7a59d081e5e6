//! Compares RED and ARED with the numbers of their papers.

use tidegate_core::aqm::{AqmFifo, Verdict};
use tidegate_core::ared::{self, Ared};
use tidegate_core::fifo::Limit;
use tidegate_core::red::{self, EarlyDrop, Red, Spacing, Thresholds, Zone};
use tidegate_core::{Backlog, Bytes, DropReason, Instant, Outlet, Probability, Qdisc, Rate, Span, mered};
use tidegate_sim::tcp::Config;
use tidegate_sim::{FlowSpec, Line, Network, Shared, SimPacket, Workload};

use super::{Item, Options};
use crate::Failure;
use crate::reproduce::item::{Bound, Sample, paper, theory};
use crate::reproduce::under_seeds;

const LINE: Rate = Rate::from_mbit(15);

/// The number of flows in each phase. A phase lasts a minute.
const PHASES: [usize; 3] = [5, 40, 5];

fn wrong(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

/// Returns the mean of the average queue over the second half of each phase, in packets, and the utilisation in the
/// last phase.
fn average_queue(adapt: bool, seed: u64) -> Result<([f64; 3], f64), Failure> {
    let mut net = Network::new(seed);
    let (near, far) = (net.router("near"), net.router("far"));
    let (bottleneck, _) = net.duplex(near, far, Line::new(LINE, Span::from_millis(10)));
    let params = ared::Params::for_link(LINE);
    // An interval that is longer than the run turns adaptation off.
    let interval = if adapt { params.interval } else { Span::from_secs(100_000) };
    let red = Red::new(params.red().map_err(wrong)?, seed, "red").map_err(wrong)?;
    let ared = Ared::around(red, interval).map_err(wrong)?;
    let queue = Shared::new(AqmFifo::<SimPacket, Ared>::new(Limit::packets(100), ared));
    net.queue(bottleneck, queue.clone());
    let phase = Span::from_secs(60);
    let mut flows = Vec::new();
    for n in 0..PHASES[1] {
        let (from, to) = (net.host(format!("from{n}")), net.host(format!("to{n}")));
        // Round-trip times are 40 to 118 ms.
        let delay = Span::from_micros(10_000 + 1_000 * n as u64);
        net.duplex(from, near, Line::new(Rate::from_mbit(100), delay));
        net.duplex(far, to, Line::new(Rate::from_mbit(100), Span::from_micros(100)));
        let spec = FlowSpec::tcp(format!("flow{n}"), from, to, Config::sack(), Workload::BULK);
        let at = Instant::ZERO + Span::from_millis(50 * n as u64);
        flows.push(net.flow(match n < PHASES[0] {
            true => spec.starting(at),
            false => spec.starting(at + phase).stopping(at + phase + phase),
        }));
    }
    net.warm_up(phase + phase);
    let mut sim = net.build().map_err(wrong)?;
    let mut means = [0.0; 3];
    for (n, mean) in means.iter_mut().enumerate() {
        let mut samples = 0;
        for tenth in 0..600 {
            sim.run_until(Instant::ZERO + phase.saturating_mul(n as u64) + Span::from_millis(100 * (tenth + 1)));
            if tenth >= 300 {
                *mean += queue.borrow().aqm().red().average().as_f64();
                samples += 1;
            }
        }
        *mean /= f64::from(samples);
    }
    let goodput: u64 = flows.iter().map(|flow| sim.flow(*flow).goodput(sim.measured()).as_bps()).sum();
    Ok((means, goodput as f64 / LINE.as_bps() as f64 * 1_500.0 / 1_460.0))
}

/// Returns the mean number of packets from one drop to the next at a constant base probability.
fn gap(spacing: Spacing, percent: u64, seed: u64) -> Result<f64, Failure> {
    let thresholds = Thresholds::Packets { min: 5, max: 15 };
    let early = EarlyDrop { spacing, ..EarlyDrop::RECOMMENDED };
    let mut red = Red::new(red::Params { early, ..red::Params::new(thresholds) }, seed, "gap").map_err(wrong)?;
    let p = Probability::from_ratio(percent, 100).unwrap_or(Probability::ONE);
    let packet = SimPacket::datagram(1, 1_500);
    red.observe(Instant::ZERO, Backlog { packets: 10, bytes: Bytes::new(15_000) });
    let packets = 2_000_000;
    let drops = (0..packets).filter(|_| matches!(red.decide(&packet, Zone::Chance(p)), Verdict::Drop(_))).count();
    Ok(f64::from(packets) / drops as f64)
}

/// Counts the early drops of a flow that keeps ten packets queued, halfway between ARED's thresholds: first as an
/// elephant of M&E, then under ARED alone.
fn early_drops(link: Rate, seed: u64) -> Result<(f64, f64), Failure> {
    let limit = Limit::packets(100);
    let red = ared::Params { delay: Span::from_millis(5), ..ared::Params::for_link(link) };
    let params = mered::Params { pair: None, limit, ared: red, ..mered::Params::for_link(link) };
    let mut elephants = mered::Mered::new(params, seed, "elephants").map_err(wrong)?;
    let mut alone = AqmFifo::<SimPacket, Ared>::new(limit, Ared::new(red, seed, "alone").map_err(wrong)?);
    let count = |queue: &mut dyn Qdisc<SimPacket>| {
        let mut drops = Drops(0);
        let mut now = Instant::ZERO;
        for n in 0..50_000 {
            now += Span::from_micros(800);
            // The first hundred packets turn the flow into an elephant.
            if n == 100 {
                drops.0 = 0;
            }
            queue.enqueue(now, SimPacket::datagram(1, 1_500), &mut drops);
            while queue.backlog().packets > 10 || n < 100 && queue.backlog().packets > 0 {
                queue.dequeue(now, &mut drops);
            }
        }
        drops.0 as f64
    };
    Ok((count(&mut elephants), count(&mut alone)))
}

struct Drops(u64);

impl Outlet<SimPacket> for Drops {
    fn dropped(&mut self, _: SimPacket, reason: DropReason) {
        self.0 += u64::from(reason == DropReason::Early);
    }
}

pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let item = |id: &str, what: &str, unit: &str, value: f64| Item::measured(format!("ared.{id}"), what, unit, value);
    let numbers = super::paper()?;
    // Geometric gaps have the mean 1/p, uniform gaps from 1 to 1/p the mean (1/p + 1)/2.
    let mut items = Vec::new();
    for (id, what, spacing, expected) in [
        ("gap.geometric", "RED, method 1: mean gap", Spacing::Geometric, numbers.red.geometric),
        ("gap.uniform", "RED, method 2: mean gap", Spacing::Uniform, numbers.red.uniform),
    ] {
        let (percent, mean) = (expected.percent, expected.mean_gap_packets);
        items.push(
            item(id, &format!("{what} at p = {percent} %"), "packets", gap(spacing, percent, options.seed)?)
                .paper(mean)
                .bound(Bound::near(
                    mean,
                    0.02,
                    theory("RED 1993, section 7: 1/p, or (1/p + 1)/2; four standard errors of two million packets"),
                )),
        );
    }
    let drops = under_seeds(options, options.runs.into(), |seed| early_drops(LINE, seed))?;
    let ratio = Sample::of(drops.iter().map(|(elephants, alone)| elephants / alone));
    let what = "early drops of an elephant of M&E by those of the same flow under ARED alone, ten packets queued";
    let basis = paper("Mice and Elephants Strategies: elephants are dropped by RED; 5 % for chance");
    items.push(Item::sampled("ared.elephants", what, "ratio", ratio).paper(1.0).bound(Bound::near(1.0, 0.05, basis)));
    let [low, high] = numbers.ared.target_packets;
    // How far the mean of the average queue moves with the number of flows.
    let moves = |means: &[f64; 3]| {
        means.iter().fold(f64::MIN, |most, mean| mean.max(most))
            - means.iter().fold(f64::MAX, |least, mean| mean.min(least))
    };
    let mut moved = Vec::new();
    for (id, name, adapt) in [("red", "RED with max_p 0.1", false), ("ared", "ARED", true)] {
        let runs = under_seeds(options, options.runs.into(), |seed| average_queue(adapt, seed))?;
        for (n, flows) in PHASES.into_iter().enumerate() {
            let what = format!("{name}, phase {} with {flows} flows: mean of the average queue", n + 1);
            let sample = Sample::of(runs.iter().map(|(means, _)| means[n]));
            let item = Item::sampled(format!("ared.{id}.phase{}", n + 1), what, "packets", sample);
            let target =
                paper("Adaptive RED, section 3: within the target range, the middle fifth between the thresholds");
            items.push(if adapt {
                item.paper(f64::midpoint(low, high)).bound(Bound::between(low, high, target))
            } else {
                item
            });
        }
        moved.push(runs.iter().map(|(means, _)| moves(means)).collect::<Vec<f64>>());
        let used = Sample::of(runs.iter().map(|(_, used)| *used));
        items.push(Item::sampled(format!("ared.{id}.used"), format!("{name}, 5 flows: utilisation"), "share", used));
    }
    let improves =
        paper("Conclusion: ARED is a significant improvement on RED; its paper: the queue depends less on the load");
    let what = "how far the average queue moves from 5 flows to 40 and back, ARED over RED";
    let ratios = Sample::of(moved[1].iter().zip(&moved[0]).map(|(ared, red)| ared / red));
    items.push(Item::sampled("ared.improves", what, "ratio", ratios).bound(Bound::below(1.0, improves)));
    Ok(items)
}

//! Compares all disciplines under a heavy-tailed mix of transfers at several loads.

use tidegate_core::fifo::Limit;
use tidegate_core::{Instant, Qdisc, Rate, Span};
use tidegate_metrics::Histogram;
use tidegate_report::{Axis, Curve, Plot, Style};
use tidegate_sim::metrics::SizeClass;
use tidegate_sim::tcp::Config;
use tidegate_sim::{Conditions, Direction, Distribution, FlowSpec, Line, Network, SimPacket, Workload};

use super::peers::Peer;
use super::{Item, Options};
use crate::Failure;
use crate::reproduce::autorate::lines::Capacity;
use crate::reproduce::in_parallel;
use crate::reproduce::item::{Bound, Sample, theory};

const LINE: Rate = Rate::from_mbit(10);
const HOSTS: usize = 10;

/// The sizes are bounded Pareto from 2 kB to 10 MB with exponent 1.2. Half of the transfers are below 4 kB, and those
/// above 1 MB, five in ten thousand, carry a fifth of the bytes.
const SIZE: Distribution = Distribution::BoundedPareto { shape: 1.2, least: 2_000.0, most: 10_000_000.0 };

/// The measurements of one discipline at one load.
#[derive(Default)]
pub struct Outcome {
    completion: [Histogram; 4],
    slowdown: [Histogram; 4],
    pub goodput: f64,
}

/// The line of a mix, and who sends over it.
#[derive(Clone, Debug)]
pub struct World {
    /// The load, as a part of the line's mean rate.
    pub load: f64,
    /// A line whose rate varies, instead of the constant one.
    pub capacity: Option<Capacity>,
    /// The congestion control of the hosts with an even number, and of those with an odd one.
    pub senders: [Config; 2],
}

impl World {
    /// The constant line at this load, with Reno and SACK.
    pub fn constant(load: f64) -> Self {
        Self { load, capacity: None, senders: [Config::sack(); 2] }
    }
    /// The mean rate of the line.
    pub fn rate(&self) -> Rate {
        self.capacity.as_ref().map_or(LINE, Capacity::mean)
    }
    /// 200 ms of a constant line. One that varies has a second of its mean rate, or mice would be lost in every pause.
    pub fn limit(&self) -> Limit {
        let room = if self.capacity.is_some() { Span::from_secs(1) } else { Span::from_millis(200) };
        let bytes = self.rate().bytes_in_floor(room);
        Limit { packets: bytes.as_u64() * 170 / 250_000, bytes }
    }
}

/// Simulates five minutes, of which the first half minute is not counted, for the hosts with an even and with an odd number.
pub fn simulate(
    world: &World,
    queue: impl FnOnce(Rate, Limit) -> Result<Box<dyn Qdisc<SimPacket>>, Failure>,
    seed: u64,
) -> Result<[Outcome; 2], Failure> {
    let mut net = Network::new(seed);
    let (rate, limit) = (world.rate(), world.limit());
    let (near, far) = (net.router("near"), net.router("far"));
    let most = world.capacity.as_ref().map_or(LINE, |capacity| capacity.bounds().most);
    let (bottleneck, _) = net.duplex(near, far, Line::new(most, Span::from_millis(5)));
    net.queue(bottleneck, queue(rate, limit)?);
    if let Some(capacity) = &world.capacity {
        net.conditions(bottleneck, Conditions { rate: Some(capacity.process()), ..Conditions::default() });
    }
    let mut flows = Vec::new();
    for n in 0..HOSTS {
        let (from, to) = (net.host(format!("client{n}")), net.host(format!("server{n}")));
        // Round-trip times are 20 to 65 ms.
        let delay = Span::from_micros(5_000 + 2_500 * n as u64);
        net.duplex(from, near, Line::new(Rate::from_mbit(100), delay));
        net.duplex(far, to, Line::new(Rate::from_mbit(100), Span::from_micros(100)));
        // 1460 of 1500 bytes are data.
        let interval = SIZE.mean() * 1_500.0 / 1_460.0 * 8.0 / (rate.as_bps() as f64 * world.load) * HOSTS as f64;
        let workload = Workload::Mice {
            interval: Distribution::Exponential { mean: interval },
            size: SIZE,
            direction: Direction::Upload,
            most_open: 1_000,
        };
        flows.push(net.flow(FlowSpec::tcp(format!("mix{n}"), from, to, world.senders[n % 2], workload)));
    }
    net.warm_up(Span::from_secs(30));
    let mut sim = net.build().map_err(|error| Failure::Failed(error.to_string()))?;
    sim.run_until(Instant::ZERO + Span::from_secs(330));
    let mut outcomes = [Outcome::default(), Outcome::default()];
    for (n, flow) in flows.into_iter().enumerate() {
        let outcome = &mut outcomes[n % 2];
        let metrics = sim.flow(flow);
        for class in 0..4 {
            outcome.completion[class].merge(&metrics.completion_by_size_ns[class]);
            outcome.slowdown[class].merge(&metrics.slowdown_micro[class]);
        }
        outcome.goodput += metrics.goodput(sim.measured()).as_bps() as f64;
    }
    Ok(outcomes)
}

/// Makes the runs of every discipline at one load, one for each seed.
fn over_seeds(options: &Options, load: f64) -> Result<Vec<(Peer, Vec<Outcome>)>, Failure> {
    let seeds: Vec<u64> = (options.seed..options.seed + u64::from(options.runs)).collect();
    let all: Vec<(Peer, u64)> =
        Peer::ALL.iter().flat_map(|&peer| seeds.iter().map(move |&seed| (peer, seed))).collect();
    let world = World::constant(load);
    let simulate = |&(peer, seed): &(Peer, u64)| {
        simulate(&world, |rate, limit| peer.make(rate, limit, seed), seed).map(Outcome::both)
    };
    let mut outcomes = in_parallel(&all, simulate).into_iter();
    Peer::ALL
        .into_iter()
        .map(|peer| Ok((peer, outcomes.by_ref().take(seeds.len()).collect::<Result<_, _>>()?)))
        .collect()
}

impl Outcome {
    /// The hosts with an even and with an odd number together.
    pub fn both(halves: [Self; 2]) -> Self {
        let goodput = halves[0].goodput + halves[1].goodput;
        Self { goodput, ..Self::sum(&halves) }
    }
    /// Merges several runs.
    pub fn sum(runs: &[Self]) -> Self {
        let mut sum = Self::default();
        for one in runs {
            for class in 0..4 {
                sum.completion[class].merge(&one.completion[class]);
                sum.slowdown[class].merge(&one.slowdown[class]);
            }
            sum.goodput += one.goodput / runs.len() as f64;
        }
        sum
    }
    /// The completion times of several size classes together.
    fn together(&self, classes: &[SizeClass]) -> Histogram {
        let mut sum = Histogram::default();
        classes.iter().for_each(|class| sum.merge(&self.completion[*class as usize]));
        sum
    }
    /// The 99th percentile of the completion time of mice, in seconds.
    pub fn mice_p99(&self) -> f64 {
        let mice = self.together(&[SizeClass::Tiny, SizeClass::Small]);
        mice.quantile(0.99).map_or(f64::NAN, |ns| ns as f64 / 1e9)
    }
    /// The mean completion time of elephants, in seconds.
    pub fn elephants(&self) -> f64 {
        self.completion[SizeClass::Large as usize].mean().unwrap_or(f64::NAN) / 1e9
    }
    /// The mean completion time of all transfers, in seconds.
    pub fn mean(&self) -> f64 {
        self.together(&SizeClass::ALL).mean().unwrap_or(f64::NAN) / 1e9
    }

    fn items(&self, group: &str, peer: Peer, items: &mut Vec<Item>) {
        let id = format!("{group}.{}", peer.name());
        let mut item = |key: &str, what: String, unit: &str, value: Option<f64>| {
            let (id, what) = (format!("{id}.{key}"), format!("{}: {what}", peer.name()));
            items.push(match value {
                Some(value) => Item::measured(id, what, unit, value),
                None => Item::unmeasured(id, what, "no such transfer was complete at the end of the run"),
            });
        };
        for class in SizeClass::ALL {
            let (completion, slowdown) = (&self.completion[class as usize], &self.slowdown[class as usize]);
            let key = ["tiny", "small", "medium", "large"][class as usize];
            let what = |what: &str| format!("transfers {}: {what}", class.name());
            item(&format!("{key}.mean"), what("mean completion"), "s", completion.mean().map(|ns| ns / 1e9));
            let p99 = completion.quantile(0.99).map(|ns| ns as f64 / 1e9);
            item(&format!("{key}.p99"), what("completion, 99th percentile"), "s", p99);
            item(&format!("{key}.slowdown"), what("mean slowdown"), "ratio", slowdown.mean().map(|micro| micro / 1e6));
        }
        item("mice.p99", "transfers <100kB: completion, 99th percentile".into(), "s", Some(self.mice_p99()));
        item("all.mean", "all transfers: mean completion".into(), "s", Some(self.mean()));
        item("goodput", "goodput of all".into(), "Mbit/s", Some(self.goodput / 1e6));
    }
}

/// Plots the share of mice that take longer than a time, with a curve for each discipline.
fn plot(percent: u32, outcomes: &[(Peer, Outcome)]) -> Plot {
    let curve = |(peer, outcome): &(Peer, Outcome)| {
        let mice = outcome.together(&[SizeClass::Tiny, SizeClass::Small]);
        let longer = mice.distribution().map(|(ns, share)| (ns as f64 / 1e9, 1.0 - share));
        Curve::new(peer.name(), longer)
    };
    Plot {
        note: None,
        title: format!("Transfers below 100 kB that take longer, at {percent} % load of 10 Mbit/s"),
        x: Axis::log("completion time", "s"),
        y: Axis::log("share", "1"),
        style: Style::Lines,
        curves: outcomes.iter().map(curve).collect(),
    }
}

pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    for percent in [70_u32, 90, 110] {
        let group = format!("mix.load{percent}");
        if !options.wants(&group) {
            continue;
        }
        let runs = over_seeds(options, f64::from(percent) / 100.0)?;
        let outcomes: Vec<(Peer, Outcome)> = runs.iter().map(|(peer, runs)| (*peer, Outcome::sum(runs))).collect();
        for (peer, outcome) in &outcomes {
            outcome.items(&group, *peer, &mut items);
        }
        if options.plots.wanted() {
            options.plots.add(&format!("mice-mix-load{percent}"), plot(percent, &outcomes))?;
        }
        let runs_of = |wanted: Peer| &runs[Peer::ALL.iter().position(|peer| *peer == wanted).unwrap_or_default()].1;
        let outcome_of = |wanted: Peer| outcomes.iter().find(|(peer, _)| *peer == wanted).map(|(_, outcome)| outcome);
        let (Some(fq), Some(me), Some(fifo)) =
            (outcome_of(Peer::FqCodel), outcome_of(Peer::Mered), outcome_of(Peer::Fifo))
        else {
            continue;
        };
        let best = |seed: usize| runs.iter().map(|(_, runs)| runs[seed].mean()).fold(f64::INFINITY, f64::min);
        let by_best = runs_of(Peer::Srpt).iter().enumerate().map(|(seed, run)| run.mean() / best(seed));
        items.push(
            Item::sampled(
                format!("{group}.srpt_bound"),
                "mean completion of all transfers: SRPT over the best of the disciplines",
                "ratio",
                Sample::of(by_best),
            )
            .bound(Bound::at_most(
                1.05,
                theory("SRPT has the least mean (Schrage 1968); 5 % as TCP does not offer all at once"),
            )),
        );
        let ratio = |id: &str, what: &str, value: f64| Item::measured(format!("{group}.{id}"), what, "ratio", value);
        let gain = ratio(
            "gain",
            "99th percentile of completion of transfers <100kB: FQ-CoDel by MERED",
            fq.mice_p99() / me.mice_p99(),
        );
        let cost =
            ratio("cost", "mean completion of transfers >=1MB: MERED by FQ-CoDel", me.elephants() / fq.elephants());
        let cost_fifo = ratio(
            "cost_by_fifo",
            "mean completion of transfers >=1MB: MERED by drop tail",
            me.elephants() / fifo.elephants(),
        );
        let pairs = runs_of(Peer::Mered).iter().zip(runs_of(Peer::FqCodel));
        let carried = Item::sampled(
            format!("{group}.carried"),
            "goodput of all: MERED over FQ-CoDel",
            "ratio",
            Sample::of(pairs.map(|(me, fq)| me.goodput / fq.goodput)),
        );
        // No paper compares FQ-CoDel and MERED, so these items are information.
        items.extend([gain, cost, cost_fifo]);
        let same = theory("both conserve work and carry the same transfers; 5 % for those that are not over");
        items.push(carried.bound(Bound::near(1.0, 0.05, same)));
    }
    Ok(items)
}

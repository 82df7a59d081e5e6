//! The questions that the paper leaves open: mice and elephants by more than two levels, on recorded lines, and beside L4S.

use tidegate_core::dualpi2::{self, DualPi2};
use tidegate_core::fifo::Limit;
use tidegate_core::fq_codel::{self, FqCodel};
use tidegate_core::step::Step;
use tidegate_core::{Bytes, ParamError, Qdisc, Rate, Span};
use tidegate_sim::tcp::Config;
use tidegate_sim::{Attained, SimPacket};

use super::mix::{Outcome, World, simulate};
use super::peers::Peer;
use super::{Item, Options};
use crate::Failure;
use crate::reproduce::autorate::lines::LINES;
use crate::reproduce::in_parallel;
use crate::reproduce::item::{Bound, Sample, theory};

/// A discipline of these comparisons.
#[derive(Clone, Copy)]
enum System {
    /// One of the other comparisons.
    Peer(Peer),
    /// By attained service, with thresholds at these kilobytes.
    Levels(&'static str, &'static [u64]),
    /// By attained service, with a threshold at every packet up to 10 MB.
    Continuous,
    /// FQ-CoDel with the step of L4S.
    FqCodelL4s,
    /// The coupled queues of RFC 9332.
    DualPi2,
}

/// The threshold of MERED's default.
const TWO: System = System::Levels("levels2", &[100]);
/// The step of L4S in a queue of one flow.
const STEP: Step = Step::at(Span::from_millis(1));
const SIX: System = System::Levels("levels6", &[10, 30, 100, 300, 1_000]);

impl System {
    fn name(self) -> &'static str {
        match self {
            Self::Peer(peer) => peer.name(),
            Self::Levels(name, _) => name,
            Self::Continuous => "attained",
            Self::FqCodelL4s => "fq_codel_l4s",
            Self::DualPi2 => "dualpi2",
        }
    }
    fn make(self, rate: Rate, limit: Limit, seed: u64) -> Result<Box<dyn Qdisc<SimPacket>>, Failure> {
        let wrong = |error: ParamError| Failure::Failed(format!("{}: {error}", self.name()));
        Ok(match self {
            Self::Peer(peer) => return peer.make(rate, limit, seed),
            Self::Levels(_, kilobytes) => {
                let thresholds: Vec<Bytes> = kilobytes.iter().map(|kb| Bytes::new(kb * 1_000)).collect();
                Box::new(Attained::new(limit, &thresholds))
            }
            Self::Continuous => {
                let thresholds: Vec<Bytes> = (1..7_000).map(|packets| Bytes::new(packets * 1_500)).collect();
                Box::new(Attained::new(limit, &thresholds))
            }
            Self::FqCodelL4s => {
                let params = fq_codel::Params::default();
                let codel = tidegate_core::codel::Params { limit, ..params.codel };
                Box::new(FqCodel::new(fq_codel::Params { codel, step: Some(STEP), ..params }).map_err(wrong)?)
            }
            Self::DualPi2 => {
                Box::new(DualPi2::new(dualpi2::Params { limit, ..dualpi2::Params::default() }).map_err(wrong)?)
            }
        })
    }
}

/// The runs of some systems in one world, by system and seed, each for the hosts with an even and an odd number.
fn runs(options: &Options, world: &World, systems: &[System]) -> Result<Vec<Vec<[Outcome; 2]>>, Failure> {
    let seeds: Vec<u64> = (options.seed..options.seed + u64::from(options.runs)).collect();
    let all: Vec<(System, u64)> =
        systems.iter().flat_map(|&system| seeds.iter().map(move |&seed| (system, seed))).collect();
    let run = |&(system, seed): &(System, u64)| simulate(world, |rate, limit| system.make(rate, limit, seed), seed);
    let mut outcomes = in_parallel(&all, run).into_iter();
    systems.iter().map(|_| outcomes.by_ref().take(seeds.len()).collect()).collect()
}

/// The three quantities of a system in a world.
fn items(id: &str, what: &str, outcome: &Outcome) -> [Item; 3] {
    let item = |key: &str, text: &str, value: f64| {
        Item::measured(format!("{id}.{key}"), format!("{what}: {text}"), "s", value)
    };
    [
        item("mice.p99", "transfers <100kB, 99th percentile of the completion", outcome.mice_p99()),
        item("large.mean", "transfers >=1MB, mean completion", outcome.elephants()),
        item("all.mean", "all transfers, mean completion", outcome.mean()),
    ]
}

/// Compares disciplines that do not know how long a transfer is, on the constant line at 90 %, with SRPT, which does.
pub fn levels(options: &Options) -> Result<Vec<Item>, Failure> {
    let blind = [System::Peer(Peer::Fifo), System::Peer(Peer::FqCodel), System::Peer(Peer::Mered), TWO, SIX];
    let systems: Vec<System> = blind.into_iter().chain([System::Continuous, System::Peer(Peer::Srpt)]).collect();
    let all: Vec<Vec<Outcome>> = runs(options, &World::constant(0.9), &systems)?
        .into_iter()
        .map(|runs| runs.into_iter().map(Outcome::both).collect())
        .collect();
    let mut found = Vec::new();
    for (system, runs) in systems.iter().zip(&all) {
        found.extend(items(&format!("attained.{}", system.name()), system.name(), &Outcome::sum(runs)));
    }
    let mean = |system: usize, seed: usize| all[system][seed].mean();
    let (continuous, srpt) = (blind.len(), blind.len() + 1);
    let seeds = 0..all[0].len();
    let over = seeds.clone().map(|seed| {
        mean(continuous, seed) / (0..blind.len()).map(|system| mean(system, seed)).fold(f64::INFINITY, f64::min)
    });
    let basis = theory(
        "Righter and Shanthikumar 1989, for sizes of a falling hazard rate; 5 % as TCP does not offer all at once",
    );
    let what = "mean completion of all transfers: attained service over the best of the others that do not know sizes";
    found.push(Item::sampled("attained.least", what, "ratio", Sample::of(over)).bound(Bound::at_most(1.05, basis)));
    let basis = theory("SRPT has the least mean (Schrage 1968); 5 % as TCP does not offer all at once");
    let what = "mean completion of all transfers: SRPT over attained service";
    let over = seeds.map(|seed| mean(srpt, seed) / mean(continuous, seed));
    found
        .push(Item::sampled("attained.srpt_bound", what, "ratio", Sample::of(over)).bound(Bound::at_most(1.05, basis)));
    Ok(found)
}

/// Compares disciplines on recorded lines of LTE, at 70 % of their mean rate. The queue is told the mean, as a shaper file would.
pub fn recorded(options: &Options) -> Result<Vec<Item>, Failure> {
    let systems = [
        System::Peer(Peer::Fifo),
        System::Peer(Peer::FqCodel),
        System::Peer(Peer::Mered),
        System::Peer(Peer::MeredAsPublished),
        TWO,
        SIX,
        System::Continuous,
        System::Peer(Peer::Srpt),
    ];
    let mut found = Vec::new();
    for line in LINES.iter().filter(|line| matches!(line.name, "verizon" | "att")) {
        let world = World { capacity: Some(line.capacity(1, options.seed)), ..World::constant(0.7) };
        for (system, runs) in systems.iter().zip(runs(options, &world, &systems)?) {
            let runs: Vec<Outcome> = runs.into_iter().map(Outcome::both).collect();
            let (id, what) =
                (format!("recorded.{}.{}", line.name, system.name()), format!("{}, {}", system.name(), line.what));
            found.extend(items(&id, &what, &Outcome::sum(&runs)));
        }
    }
    Ok(found)
}

/// Half of the hosts send with TCP Prague, half with CUBIC, at 90 %: who of them gains by which discipline.
pub fn beside_l4s(options: &Options) -> Result<Vec<Item>, Failure> {
    let systems = [System::Peer(Peer::Fifo), System::DualPi2, System::FqCodelL4s, System::Peer(Peer::Mered), SIX];
    let world = World { senders: [Config::prague(), Config::current()], ..World::constant(0.9) };
    let mut found = Vec::new();
    for (system, runs) in systems.iter().zip(runs(options, &world, &systems)?) {
        let (even, odd): (Vec<Outcome>, Vec<Outcome>) = runs.into_iter().map(|[even, odd]| (even, odd)).unzip();
        for (sender, runs) in [("prague", even), ("cubic", odd)] {
            let (id, what) = (format!("l4s.{}.{sender}", system.name()), format!("{}, {sender}", system.name()));
            found.extend(items(&id, &what, &Outcome::sum(&runs)));
        }
    }
    Ok(found)
}

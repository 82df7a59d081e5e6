//! The heavy-tailed mix between namespaces: real TCP with one connection per transfer, at a load of nine tenths of the
//! line.

use std::io;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use tidegate_live::netns;
use tidegate_report::{Axis, Curve, Plot, Style};
use tidegate_sim::metrics::SizeClass;
use tidegate_testbed::mice::PATIENCE;
use tidegate_testbed::{Chain, Direction, Mice, MiceSpec, Mouse, Sizes};
use tidegate_units::{Bytes, Rate};

use super::live::{RUNS, mean, quantile, queue_text};
use super::{Item, Options, shape};
use crate::Failure;
use crate::reproduce::item::{median, range};

const GROUP: &str = "live.mix";
/// The rate of the line. A machine with two processors can carry it while 200 connections begin and end each second.
const LINE: Rate = Rate::from_mbit(20);
const LOAD: f64 = 0.9;
/// The queue limit, which is 200 ms of the line as in the simulator.
const ROOM: Bytes = Bytes::new(500_000);
/// The number of pairs of hosts.
const HOSTS: u8 = 10;
/// The sizes, distributed as in the simulator. Half of the transfers are below 4 kB, and those above 1 MB carry an
/// eighth of the bytes.
const SIZES: Sizes = Sizes::Pareto(2_000, 10_000_000, 1.2);
/// The mean of [`SIZES`], which is a / (a - 1) L^a (L^(1-a) - H^(1-a)) / (1 - (L/H)^a); see the test of [`Sizes`].
const MEAN_SIZE: f64 = 9_815.0;
/// Transfers count if they begin between `FROM` and `TO`. The rest of the run lets the last of them finish.
const FROM: Duration = Duration::from_secs(10);
const TO: Duration = Duration::from_secs(70);
const END: Duration = Duration::from_secs(95);

/// The disciplines that are always run. Others are run if they are requested by name.
const ALWAYS: [&str; 6] = ["fifo", "sfq", "fq_codel", "cake", "mered", "meredt"];

/// The transfers of a run.
struct Run(Vec<Mouse>);

/// The runs of one discipline.
struct Outcome {
    name: &'static str,
    runs: Vec<Run>,
}

fn run_one(queue: &str, seed: u64) -> io::Result<Run> {
    let chain = Chain::create()?;
    let pairs = chain.add_hosts(HOSTS)?;
    let shaping = shape(&chain.router, &queue_text(LINE, ROOM, queue))?;
    let interval = MEAN_SIZE * 1_500.0 / 1_448.0 * 8.0 / (LINE.as_bps() as f64 * LOAD) * f64::from(HOSTS);
    let start = |(n, &(from, to)): (u64, &(std::net::IpAddr, std::net::IpAddr))| {
        let spec = MiceSpec {
            from,
            to: SocketAddr::new(to, 6_000),
            interval: Duration::from_secs_f64(interval),
            sizes: SIZES,
            direction: Direction::Upload,
            most_open: 200,
            seed: seed * 1_000 + n,
        };
        Mice::start(&chain.server, &chain.client, spec)
    };
    let mice = (0..).zip(&pairs).map(start).collect::<io::Result<Vec<_>>>()?;
    sleep(END);
    let transfers = mice.into_iter().flat_map(Mice::stop);
    // A transfer that has not finished counts with the time that it has waited so far. This can only make the result
    // look better.
    let counted = transfers
        .filter(|one| (FROM..TO).contains(&one.began))
        .map(|one| Mouse { completion: one.completion.or(Some(END.saturating_sub(one.began).min(PATIENCE))), ..one });
    let transfers = counted.collect();
    shaping.stop().map_err(io::Error::other)?;
    Ok(Run(transfers))
}

impl Run {
    fn times(&self, of: impl Fn(SizeClass) -> bool) -> Vec<f64> {
        let wanted = self.0.iter().filter(|one| of(SizeClass::of(Bytes::new(one.size))));
        let mut times: Vec<f64> = wanted.filter_map(|one| one.completion).map(|time| time.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        times
    }
    fn mice(&self) -> Vec<f64> {
        self.times(|class| class <= SizeClass::Small)
    }
    fn elephants(&self) -> f64 {
        mean(&self.times(|class| class == SizeClass::Large))
    }
    /// The mean ratio of the completion time to the time that the line alone would take.
    fn slowdown(&self, class: SizeClass) -> f64 {
        let alone = |size: u64| size as f64 * 1_500.0 / 1_448.0 * 8.0 / LINE.as_bps() as f64;
        let wanted = self.0.iter().filter(|one| SizeClass::of(Bytes::new(one.size)) == class);
        let each: Vec<f64> = wanted.filter_map(|one| Some(one.completion?.as_secs_f64() / alone(one.size))).collect();
        mean(&each)
    }
}

impl Outcome {
    /// The median over the runs.
    fn median(&self, of: impl Fn(&Run) -> f64) -> f64 {
        median(self.runs.iter().map(of).collect())
    }

    fn items(&self, items: &mut Vec<Item>) {
        let mut item = |key: &str, what: String, unit: &str, of: &dyn Fn(&Run) -> f64| {
            let (id, what) = (format!("{GROUP}.{}.{key}", self.name), format!("{}: {what}", self.name));
            let values: Vec<f64> = self.runs.iter().map(of).collect();
            items.push(if values.iter().all(|value| value.is_finite()) {
                let noise = range(&values, 3);
                Item::measured(id, what, unit, median(values)).note(noise)
            } else {
                Item::unmeasured(id, what, "no such transfer within a run")
            });
        };
        for class in SizeClass::ALL {
            let times = |run: &Run| run.times(|one| one == class);
            let key = ["tiny", "small", "medium", "large"][class as usize];
            let what = |what: &str| format!("transfers {}: {what}", class.name());
            item(&format!("{key}.mean"), what("mean completion"), "s", &|run| mean(&times(run)));
            item(&format!("{key}.p50"), what("median completion"), "s", &|run| quantile(&times(run), 0.5));
            let p99 = |run: &Run| quantile(&times(run), 0.99);
            item(&format!("{key}.p99"), what("completion, 99th percentile"), "s", &p99);
            item(&format!("{key}.slowdown"), what("mean slowdown"), "ratio", &|run| run.slowdown(class));
        }
        let mice = "transfers <100kB: median completion";
        item("mice.p50", mice.into(), "s", &|run| quantile(&run.mice(), 0.5));
        let mice = "transfers <100kB: completion, 99th percentile";
        item("mice.p99", mice.into(), "s", &|run| quantile(&run.mice(), 0.99));
        item("transfers", "transfers that were counted".into(), "1", &|run| run.0.len() as f64);
        let large = |run: &Run| run.times(|class| class == SizeClass::Large).len() as f64;
        item("elephants", "of them >=1MB".into(), "1", &large);
    }
}

fn plot(outcomes: &[Outcome]) -> Plot {
    let curve = |outcome: &Outcome| {
        let mut times: Vec<f64> = outcome.runs.iter().flat_map(Run::mice).collect();
        times.sort_by(f64::total_cmp);
        let count = times.len() as f64;
        let points = times.iter().enumerate().map(|(n, time)| (*time, 1.0 - n as f64 / count));
        Curve::new(outcome.name, points)
    };
    Plot {
        note: None,
        title: format!("Transfers below 100 kB that take longer, between namespaces at 90 % load of {LINE}"),
        x: Axis::log("completion time", "s"),
        y: Axis::log("share", "1"),
        style: Style::Lines,
        curves: outcomes.iter().map(curve).collect(),
    }
}

pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let what = "a heavy-tailed mix between namespaces";
    if let Err(error) = netns::enter() {
        return Ok(vec![Item::unmeasured(GROUP, what, error.to_string())]);
    }
    // Disciplines that are terms of ratios are always run.
    let basis = ["fifo", "fq_codel", "mered"];
    let asked = |name: &str| options.only.as_deref().is_some_and(|only| only == format!("{GROUP}.{name}"));
    let wanted = |name: &str| {
        let always = ALWAYS.contains(&name) && options.wants(&format!("{GROUP}.{name}"));
        always || basis.contains(&name) || asked(name)
    };
    let mut outcomes = Vec::new();
    for (name, queue) in super::live::queues().filter(|(name, _)| wanted(name)) {
        let seeds = options.seed..options.seed + RUNS;
        match seeds.map(|seed| run_one(queue, seed)).collect() {
            Ok(runs) => outcomes.push(Outcome { name, runs }),
            Err(error) => return Ok(vec![Item::unmeasured(GROUP, what, error.to_string())]),
        }
    }
    let mut items = Vec::new();
    outcomes.iter().for_each(|outcome| outcome.items(&mut items));
    if options.plots.wanted() {
        options.plots.add("mice-live-mix", plot(&outcomes))?;
    }
    let outcome_of = |wanted: &str| outcomes.iter().find(|outcome| outcome.name == wanted);
    if let (Some(fq), Some(me), Some(fifo)) = (outcome_of("fq_codel"), outcome_of("mered"), outcome_of("fifo")) {
        let p99 = |outcome: &Outcome| outcome.median(|run| quantile(&run.mice(), 0.99));
        let elephants = |outcome: &Outcome| outcome.median(Run::elephants);
        let ratio = |id: &str, what: &str, value| Item::measured(format!("{GROUP}.{id}"), what, "ratio", value);
        let gain = "99th percentile of completion of transfers <100kB: FQ-CoDel by MERED";
        items.push(ratio("gain", gain, p99(fq) / p99(me)));
        let gain = "99th percentile of completion of transfers <100kB: drop tail by MERED";
        items.push(ratio("gain_by_fifo", gain, p99(fifo) / p99(me)));
        let cost = "mean completion of transfers >=1MB: MERED by FQ-CoDel";
        items.push(ratio("cost", cost, elephants(me) / elephants(fq)));
        let cost = "mean completion of transfers >=1MB: MERED by drop tail";
        items.push(ratio("cost_by_fifo", cost, elephants(me) / elephants(fifo)));
    }
    Ok(items)
}

//! The paper's scenarios on this machine: real TCP between namespaces, with a router on the path and our engine on its
//! interface, as queue or as ingress filter.

use std::io;
use std::net::SocketAddr;
use std::thread::{self, sleep};
use std::time::Duration;

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::netns;
use tidegate_live::shaping::{Options as Shape, Shaping};
use tidegate_report::{Axis, Curve, Plot, Style};
use tidegate_testbed::mice::PATIENCE;
use tidegate_testbed::{Chain, Direction, FlowSpec, Mice, MiceSpec, Mouse, Senders, Sink, Sizes};
use tidegate_units::{Bytes, Rate};

use super::{Item, Options};
use crate::Failure;
use crate::reproduce::item::{Bound, median, paper, range, theory};

/// An arrangement: the queue before the line, or the filter behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Mice alone, with drop tail.
    Only,
    /// One of our disciplines as the queue of the router: its name, and its section of a shaper file.
    Queue(&'static str, &'static str),
    /// Drop tail before the line, and the filter on the packets that arrive behind it.
    Filter,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::Only => "only",
            Self::Queue(name, _) => name,
            Self::Filter => "filter",
        }
    }
}

/// The queues, in the order of the simulator's tables. `LINE` is replaced by the rate, `ROOM` by the queue limit.
const QUEUES: [Way; 13] = [
    Way::Queue("fifo", "kind = \"fifo\""),
    Way::Queue("red", "kind = \"red\", min-th = \"LOW\", max-th = \"HIGH\""),
    Way::Queue("ared", "kind = \"ared\", link = \"LINE\""),
    Way::Queue("pie", "kind = \"pie\", target = \"PIE\""),
    Way::Queue("codel", "kind = \"codel\", target = \"TARGET\", interval = \"INTERVAL\""),
    Way::Queue("drr", "kind = \"drr\""),
    Way::Queue("sfq", "kind = \"sfq\""),
    Way::Queue("fq_codel", "kind = \"fq-codel\", target = \"TARGET\", interval = \"INTERVAL\""),
    Way::Queue("cake", "kind = \"cake\", hosts = \"flows\""),
    Way::Queue("mered", "kind = \"mered\", link = \"LINE\""),
    Way::Queue("meredt", "kind = \"meredt\", link = \"LINE\""),
    Way::Queue("mered_paper", "kind = \"mered\", link = \"LINE\", floor = 0.0, memory = { pair-rule = \"off\" }"),
    Way::Queue(
        "mered_floor",
        "kind = \"mered\", link = \"LINE\", floor-credit = \"0B\", memory = { pair-rule = \"off\" }",
    ),
];

/// The scenario for one of the two line rates.
#[derive(Clone, Copy)]
struct Scenario {
    group: &'static str,
    line: Rate,
    room: Bytes,
    mean_interval: Duration,
    sizes: (u64, u64),
    direction: Direction,
    most_open: usize,
    /// The number of bulk transfers, which together are called the elephant.
    elephants: u16,
    warm_up: Duration,
    measured: Duration,
    /// The least ratio of the elephant's goodput under M&E to that under drop tail.
    least_elephant: f64,
}

const DIALUP: Scenario = Scenario {
    group: "live.dialup",
    line: Rate::from_kbit(56),
    room: Bytes::new(45_000),
    mean_interval: Duration::from_secs(1),
    sizes: (2_500, 7_500),
    direction: Direction::Upload,
    most_open: 25,
    elephants: 1,
    // A round trip takes up to 15 s here and a timeout a minute. As in the simulator, the two minutes in which TCP
    // learns this do not count, and the measurement must be longer than them.
    warm_up: Duration::from_secs(120),
    measured: Duration::from_secs(300),
    least_elephant: 0.95,
};

/// The number of runs with different seeds, of which the median counts.
pub const RUNS: u64 = 5;

/// The early interval in which the elephant's goodput is measured while it is still learning the round-trip time.
const START: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(90));

const FILTER: Scenario = Scenario {
    group: "live.filter",
    line: Rate::from_mbit(100),
    room: Bytes::new(1_500_000),
    // Mice begin five times as often as in the paper, so that a run lasts seconds and not minutes.
    mean_interval: Duration::from_millis(200),
    sizes: (50_000, 150_000),
    direction: Direction::Download,
    most_open: 200,
    // With a round-trip time of almost nothing, a single CUBIC that left slow start early takes minutes to fill a queue
    // of 120 ms.
    elephants: 4,
    warm_up: Duration::from_secs(7),
    measured: Duration::from_secs(12),
    least_elephant: 0.85,
};

/// The result of a run of one discipline.
struct Run {
    mice: Vec<Mouse>,
    /// The goodput of the elephant in bit/s.
    elephant: f64,
    /// The goodput of the elephant in the interval [`START`], in bit/s.
    start: Option<f64>,
}

/// The results of the runs of one discipline.
struct Outcome(Vec<Run>);

impl Scenario {
    /// The median size of the transfers.
    fn middle(&self) -> u64 {
        u64::midpoint(self.sizes.0, self.sizes.1)
    }

    fn text(&self, queue: &str) -> String {
        queue_text(self.line, self.room, queue)
    }

    fn run(&self, way: Way, seed: u64) -> io::Result<Run> {
        let chain = Chain::create()?;
        let mut shapings = Vec::new();
        match way {
            Way::Only => shapings.push(shape(&chain.router, &self.text("kind = \"fifo\""))?),
            Way::Queue(_, queue) => shapings.push(shape(&chain.router, &self.text(queue))?),
            Way::Filter => {
                shapings.push(shape(&chain.router, &self.text("kind = \"fifo\""))?);
                let filter = format!(
                    "version = 1\n[interface]\ndirection = \"ingress\"\n[discipline]\nkind = \"ingress-filter\"\n\
                     link = \"{}\"\n",
                    self.line
                );
                shapings.push(shape(&chain.client, &filter)?);
            }
        }
        let elephant = |n| FlowSpec { from: Some(Chain::ELEPHANT.into()), ..FlowSpec::tcp("elephant", 5_000 + n, 0) };
        let elephants: Vec<_> = (0..self.elephants).map(elephant).collect();
        let sink = Sink::start(&chain.client, &elephants)?;
        let senders = match way {
            Way::Only => None,
            Way::Queue(..) | Way::Filter => Some(Senders::start(&chain.server, &chain.client, &elephants)?),
        };
        // In both scenarios the data goes from the server's host to the client's.
        let (opens, listens) = match self.direction {
            Direction::Upload => (&chain.server, &chain.client),
            Direction::Download => (&chain.client, &chain.server),
        };
        let spec = MiceSpec {
            from: opens.v4.into(),
            to: SocketAddr::new(listens.v4.into(), 6_000),
            interval: self.mean_interval,
            sizes: Sizes::Uniform(self.sizes.0, self.sizes.1),
            direction: self.direction,
            most_open: self.most_open,
            seed,
        };
        let mice = Mice::start(opens, listens, spec)?;
        let goodput = || {
            let bytes: u64 = (0..elephants.len()).map(|n| sink.bytes(n)).sum();
            bytes as f64 * 8e9 / sink.elapsed() as f64
        };
        let mut start = None;
        let mut slept = Duration::ZERO;
        if START.1 < self.warm_up {
            sleep(START.0);
            sink.restart();
            sleep(START.1 - START.0);
            start = Some(goodput());
            slept = START.1;
        }
        sleep(self.warm_up.saturating_sub(slept));
        sink.restart();
        sleep(self.measured);
        let elephant = goodput();
        let mice = mice.stop();
        drop(senders);
        for shaping in shapings {
            shaping.stop().map_err(io::Error::other)?;
        }
        // Mice of the warm-up do not count. A mouse that has not finished, or was given up, counts with the time that
        // it has waited so far. This can only make the result look better.
        let end = self.warm_up + self.measured;
        let waited = |mouse: &Mouse| end.saturating_sub(mouse.began).min(PATIENCE);
        let counted = mice
            .into_iter()
            .filter(|mouse| mouse.began >= self.warm_up)
            .map(|mouse| Mouse { completion: mouse.completion.or((!mouse.refused).then(|| waited(&mouse))), ..mouse });
        Ok(Run { mice: counted.collect(), elephant, start })
    }

    /// Makes all runs of each of `ways`. Runs at 56 kbit/s need hardly any processor time, so they all run at once;
    /// those at 100 Mbit/s run one after the other.
    fn runs(&self, ways: &[Way], options: &Options) -> io::Result<Vec<(Way, Outcome)>> {
        let seeds = options.seed..options.seed + RUNS;
        let all = ways.iter().flat_map(|&way| seeds.clone().map(move |seed| (way, seed)));
        let results: Vec<io::Result<(Way, Run)>> = if self.line < Rate::from_mbit(1) {
            thread::scope(|scope| {
                let one = |(way, seed)| scope.spawn(move || Ok((way, self.run(way, seed)?)));
                let runs: Vec<_> = all.map(one).collect();
                let failed = |_| Err(io::Error::other("a run panicked"));
                runs.into_iter().map(|run| run.join().unwrap_or_else(failed)).collect()
            })
        } else {
            all.map(|(way, seed)| Ok((way, self.run(way, seed)?))).collect()
        };
        let mut runs = results.into_iter().collect::<io::Result<Vec<_>>>()?.into_iter().map(|(_, run)| run);
        Ok(ways.iter().map(|&way| (way, Outcome(runs.by_ref().take(RUNS as usize).collect()))).collect())
    }
}

/// Returns the shaper file of a router in front of a line of rate `line`. Its queue is `queue`, of [`QUEUES`], with the
/// limit `room`.
pub fn queue_text(line: Rate, room: Bytes, queue: &str) -> String {
    // The target allows for one and a half times the transmission of a packet, as RFC 8290 advises.
    let packet = line.time_for_ceil(Bytes::new(1_514)).map_or(0, |time| time.as_nanos() / 1_000);
    let target = (packet * 3 / 2).max(5_000);
    let low = room.as_u64() / 12;
    let queue = queue
        .replace("LINE", &line.to_string())
        .replace("TARGET", &format!("{target}us"))
        .replace("INTERVAL", &format!("{}us", (4 * target).max(100_000)))
        .replace("PIE", &format!("{}us", target.max(15_000)))
        .replace("LOW", &format!("{low}B"))
        .replace("HIGH", &format!("{}B", 3 * low));
    format!(
        "version = 1\n[[class]]\nname = \"line\"\nrate = \"{}\"\ndefault = true\n\
         queue = {{ {queue}, limit = \"{}B\" }}\n",
        line,
        room.as_u64()
    )
}

/// The names of the disciplines, each with its queue for [`queue_text`].
pub fn queues() -> impl Iterator<Item = (&'static str, &'static str)> {
    QUEUES.into_iter().filter_map(|way| match way {
        Way::Queue(name, queue) => Some((name, queue)),
        Way::Only | Way::Filter => None,
    })
}

/// Shapes an interface of `host`.
pub fn shape(host: &tidegate_testbed::Host, text: &str) -> io::Result<Shaping> {
    let source = Source::new("mice.toml", text);
    let mut diagnostics = Diagnostics::new();
    let config =
        shaper::load(&source, &mut diagnostics).ok_or_else(|| io::Error::other(diagnostics.render(&source)))?;
    let options = Shape { interfaces: vec![host.interface.into()], ..Shape::default() };
    host.namespace.run(|| Shaping::start(&config, &options))?.map_err(io::Error::other)
}

impl Run {
    fn times(&self, of: impl Fn(&Mouse) -> bool) -> Vec<f64> {
        let mut times: Vec<f64> =
            self.mice.iter().filter(|m| of(m)).filter_map(|m| m.completion).map(|t| t.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        times
    }
    fn response(&self) -> f64 {
        mean(&self.times(|_| true))
    }
    /// The mean response time of the mice below the median size.
    fn short(&self, scenario: &Scenario) -> f64 {
        mean(&self.times(|m| m.size < scenario.middle()))
    }
    fn connect(&self) -> f64 {
        let connects: Vec<f64> = self.mice.iter().filter_map(|m| m.connect).map(|time| time.as_secs_f64()).collect();
        mean(&connects)
    }
    fn refused(&self) -> usize {
        self.mice.iter().filter(|mouse| mouse.refused).count()
    }
    /// The mean ratio of the completion time to the time that the line alone would take.
    fn slowdown(&self, line: Rate) -> f64 {
        // 1448 bytes of data have 52 bytes of headers.
        let alone = |size: u64| size as f64 * 1_500.0 / 1_448.0 * 8.0 / line.as_bps() as f64;
        let each: Vec<f64> =
            self.mice.iter().filter_map(|m| Some(m.completion?.as_secs_f64() / alone(m.size))).collect();
        mean(&each)
    }
}

impl Outcome {
    /// The median over the runs.
    fn median(&self, of: impl Fn(&Run) -> f64) -> f64 {
        median(self.0.iter().map(of).collect())
    }
    fn response(&self) -> f64 {
        self.median(Run::response)
    }
    fn elephant(&self) -> f64 {
        self.median(|run| run.elephant)
    }

    fn items(&self, scenario: &Scenario, way: Way, items: &mut Vec<Item>) {
        let (group, name, middle) = (scenario.group, way.name(), scenario.middle());
        let mut item = |key: &str, what: &str, unit: &str, digits: usize, of: &dyn Fn(&Run) -> f64| {
            let (id, what) = (format!("{group}.{name}.{key}"), format!("{name}: {what}"));
            let values: Vec<f64> = self.0.iter().map(of).collect();
            items.push(if values.iter().all(|value| value.is_finite()) {
                let noise = range(&values, digits);
                Item::measured(id, what, unit, median(values)).note(noise)
            } else {
                Item::unmeasured(id, what, "no such transfer was over within a run")
            });
        };
        item("response", "mean response of mice", "s", 3, &Run::response);
        item("p99", "response of mice, 99th percentile", "s", 3, &|run| quantile(&run.times(|_| true), 0.99));
        item("short", "mean response of the shorter half of sizes", "s", 3, &|run| run.short(scenario));
        let long = |run: &Run| mean(&run.times(|m| m.size >= middle));
        item("long", "mean response of the longer half of sizes", "s", 3, &long);
        item("slowdown", "mean slowdown of mice", "ratio", 2, &|run| run.slowdown(scenario.line));
        item("connect", "mean time to connect", "s", 3, &Run::connect);
        let refused = |run: &Run| run.refused() as f64 / run.mice.len() as f64;
        item("refused", "mice that cannot be started", "share", 3, &refused);
        if way != Way::Only {
            item("elephant", "goodput of the elephant", "bit/s", 0, &|run| run.elephant);
            if self.0.iter().all(|run| run.start.is_some()) {
                let start = |run: &Run| run.start.unwrap_or(f64::NAN);
                item("elephant_start", "goodput of the elephant from 15 to 90 s", "bit/s", 0, &start);
            }
        }
    }
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * q).round() as usize).copied().unwrap_or(f64::NAN)
}

fn plot(scenario: &Scenario, outcomes: &[(Way, Outcome)]) -> Plot {
    let curve = |(way, outcome): &(Way, Outcome)| {
        let mut times: Vec<f64> = outcome.0.iter().flat_map(|run| run.times(|_| true)).collect();
        times.sort_by(f64::total_cmp);
        let count = times.len() as f64;
        let points = times.iter().enumerate().map(|(n, time)| (*time, 1.0 - n as f64 / count));
        Curve::new(way.name(), points)
    };
    Plot {
        note: None,
        title: format!("Mice that take longer, between namespaces at {}", scenario.line),
        x: Axis::log("response", "s"),
        y: Axis::log("share", "1"),
        style: Style::Lines,
        curves: outcomes.iter().map(curve).collect(),
    }
}

/// Runs the experiment at both line rates.
pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    for scenario in [DIALUP, FILTER] {
        if !options.wants(scenario.group) {
            continue;
        }
        let what = "mice beside an elephant between namespaces";
        if let Err(error) = netns::enter() {
            items.push(Item::unmeasured(scenario.group, what, error.to_string()));
            continue;
        }
        let mut ways = vec![Way::Only];
        ways.extend(QUEUES);
        if scenario.direction == Direction::Download {
            ways.push(Way::Filter);
        }
        // Disciplines that are terms of ratios are always run; others may be requested by name.
        let (fifo, basis) = ("fifo", ["only", "mered", "mered_paper", "filter"]);
        let group = |way: &Way| format!("{}.{}", scenario.group, way.name());
        ways.retain(|way| options.wants(&group(way)) || way.name() == fifo || basis.contains(&way.name()));
        let outcomes = match scenario.runs(&ways, options) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                items.push(Item::unmeasured(scenario.group, what, error.to_string()));
                continue;
            }
        };
        outcomes.iter().for_each(|(way, outcome)| outcome.items(&scenario, *way, &mut items));
        claims(&scenario, &outcomes, &mut items);
        if options.plots.wanted() {
            let name = scenario.group.replace('.', "-");
            options.plots.add(&format!("mice-{name}"), plot(&scenario, &outcomes))?;
        }
    }
    Ok(items)
}

/// The claims of the paper, with bounds for a machine that also has other load.
fn claims(scenario: &Scenario, outcomes: &[(Way, Outcome)], items: &mut Vec<Item>) {
    let outcome_of = |name: &str| outcomes.iter().find(|(way, _)| way.name() == name).map(|(_, outcome)| outcome);
    let (Some(only), Some(fifo), Some(mered), Some(paper_)) =
        (outcome_of("only"), outcome_of("fifo"), outcome_of("mered"), outcome_of("mered_paper"))
    else {
        return;
    };
    let ratio =
        |id: &str, what: &str, value: f64| Item::measured(format!("{}.{id}", scenario.group), what, "ratio", value);
    let by = |a: &Outcome, b: &Outcome| a.response() / b.response();
    let short = |outcome: &Outcome| outcome.median(|run| run.short(scenario));
    let shorter = "response of the shorter half: M&E with its defaults by drop tail, with the elephant";
    let dramatic =
        || paper("Scenario Testing: dramatic improvement between the congested and the Mice and Elephants test");
    items.push(ratio("me.gain_short", shorter, short(mered) / short(fifo)).bound(Bound::at_most(0.5, dramatic())));
    let better = "response of mice: M&E with its defaults by drop tail, with the elephant";
    let gain = ratio("me.gain", better, by(mered, fifo));
    // At the other rate a mouse may be longer than the threshold.
    let uploads = scenario.direction == Direction::Upload;
    items.push(if uploads { gain.bound(Bound::at_most(0.5, dramatic())) } else { gain });
    let published = "response of mice: M&E as published by mice only";
    items.push(ratio("me_paper.response_ratio", published, by(paper_, only)));
    items.push(ratio("me.response_ratio", "response of mice: M&E with its defaults by mice only", by(mered, only)));
    let elephant = "goodput of the elephant: M&E with its defaults by drop tail";
    let least =
        Bound::at_least(scenario.least_elephant, theory("mice take what they take under both; both conserve work"));
    items.push(ratio("me.elephant", elephant, mered.elephant() / fifo.elephant()).bound(least));
    if uploads {
        let all = format!("{}.me.refused", scenario.group);
        let all_started = mered.0.iter().all(|run| run.refused() == 0);
        let basis = paper("Scenario Testing: not all could be started in the congested test only");
        items.push(Item::claim(all, "with an elephant, M&E: every mouse can be started", all_started, basis));
    }
    if let Some(filter) = outcome_of("filter") {
        let improves = "response of mice with the elephant: filter by drop tail";
        let basis = paper("Scenario Testing, illustration 8: the improvement of the response is still impressive");
        items.push(ratio("filter.improves", improves, by(filter, fifo)).bound(Bound::at_most(0.5, basis)));
        // Longer transfers exceed the threshold, and are elephants to both.
        let what = "response of the shorter half: filter by M&E with its defaults as queue";
        let basis = paper("Scenario Testing: the improvement is less than with the queueing discipline");
        items.push(ratio("filter.less", what, short(filter) / short(mered)).bound(Bound::above(1.0, basis)));
        let what = "goodput of the elephant: filter by drop tail";
        items.push(ratio("filter.elephant_ratio", what, filter.elephant() / fifo.elephant()));
    }
}

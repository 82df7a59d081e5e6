//! The systems in the simulator, with the same arrivals for all of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use tidegate_config::shaper::{self, Config};
use tidegate_config::{Diagnostics, Source};
use tidegate_core::random::Stream;
use tidegate_core::{Bytes, Instant, Rate, Span};
use tidegate_sim::{FlowSpec, Line, Network, Stage, Workload};

use super::{CLASSES, HEADERS, LOADS, Load, Outcome, PAYLOAD, System, items, jitter_by, ratios};
use crate::reproduce::item::{Bound, Sample, paper};
use crate::reproduce::{Item, Options, in_parallel};

const WIRE: Rate = Rate::from_mbit(100);
const SECONDS: u64 = 4;
const WARM_UP: Span = Span::from_secs(1);
/// Applications hand packets over up to this late, because of the 10 ms tick of the paper's machine.
const TICK: u64 = 10_000_000;
/// And up to this much later for each application, since they take turns on one processor ("a coarse multitasking of the great amount
/// of traffic generators"): the time in which a processor of 450 MHz sends a datagram of 1400 bytes, by our estimate.
const SEND: u64 = 60_000;
/// The destination port that the rules of the files map to the first class. The next ports belong to the other classes.
const FIRST_PORT: u16 = 5_001;

pub fn run(options: &Options) -> Vec<Item> {
    let mut all = Vec::new();
    // A claim that compares loads needs the results of both.
    let between = options.wants("sim.claim");
    let needed = |load: &Load| {
        options.wants(&format!("sim.{}", load.id))
            || options.wants(if load.percent < 100 { "sim.small" } else { "sim.row" })
            || between && load.id != "full.5m" && load.id != "beyond.5m"
    };
    let mut by_load = BTreeMap::new();
    for load in LOADS.into_iter().filter(needed) {
        let results = System::ALL.map(|system| simulate_runs(&config(system), load, options));
        let note = "same arrivals for all; each up to 10 ms late, as on a machine with a 100 Hz tick, and 0.06 ms more for each sender";
        all.extend(items("sim", load, &results, true, note));
        all.extend(kept(load, &results));
        if load.percent < 100 {
            all.extend(at_once(load, &results, options));
        } else {
            all.push(rows(load, &results));
        }
        by_load.insert(load.id, results);
    }
    if between {
        all.extend(claims(&by_load));
    }
    if options.wants("sim.unused") {
        all.extend(unused(options));
    }
    all
}

/// Makes the runs of one shaper with the seeds that `options` asks for.
fn simulate_runs(config: &Config, load: Load, options: &Options) -> Vec<Outcome> {
    let seeds: Vec<u64> = (0..u64::from(options.runs)).map(|n| options.seed + n).collect();
    in_parallel(&seeds, |&seed| simulate(config, load, &load.flows(), seed))
}

/// The claims of section 7 about rates: the total is not exceeded, each class gets its rate, and traffic within the
/// allocation is not reduced.
fn kept(load: Load, results: &[Vec<Outcome>; 4]) -> Vec<Item> {
    let mut items = Vec::new();
    for (system, key) in [(System::Fbq, "fbq"), (System::Shared, "shared")] {
        let runs = &results[system as usize];
        let mut item =
            |what: &str, text: String, unit: &str, paper_: Option<f64>, bound, of: &dyn Fn(&Outcome) -> f64| {
                let item =
                    Item::sampled(format!("sim.{}.{key}.{what}", load.id), text, unit, Sample::of(runs.iter().map(of)));
                let item = if let Some(value) = paper_ { item.paper(value) } else { item };
                items.push(item.bound(bound));
            };
        let name = system.name();
        if load.percent < 100 {
            // 0.5 %: what waits when the run ends.
            let basis =
                paper("section 7: shaping did not reduce the data rate, as the flows do not exceed the allocation");
            item(
                "delivered",
                format!("part of the sent packets that was delivered, {name}"),
                "share",
                Some(1.0),
                Bound::near(1.0, 0.005, basis),
                &|run| 1.0 - run.loss,
            );
            continue;
        }
        let basis =
            paper("section 7: 80 Mbit/s in all, the remaining 20 must not be used; 0.1 for the bursts of the start");
        item("total", format!("all flows, {name}"), "Mbit/s", Some(80.0), Bound::between(79.2, 80.1, basis), &|run| {
            run.rate / 1e6
        });
        for (n, (class, mbit)) in CLASSES.into_iter().enumerate() {
            let basis = paper("section 7: 10, 30 and 40 Mbit/s for the classes; one in a hundred for whole packets");
            let text = format!("flows of class {class}, {name}");
            item(
                &format!("class.{}", class.replace(' ', "-")),
                text,
                "Mbit/s",
                Some(mbit as f64),
                Bound::near(mbit as f64, 0.01, basis),
                &|run| run.classes[n] / 1e6,
            );
        }
        // The margin is two of the packets that a flow sends in the three seconds.
        let packets = 3.0 * load.kbit as f64 * 1e3 / (load.percent as f64 / 100.0) / ((PAYLOAD + HEADERS) * 8) as f64;
        let margin = 2.0 / packets;
        for (what, text, of) in [
            (
                "least",
                "the least rate of a flow over the mean of its class",
                (|run: &Outcome| run.flows.0) as fn(&Outcome) -> f64,
            ),
            ("most", "the largest rate of a flow over the mean of its class", |run| run.flows.1),
        ] {
            let basis = paper("section 4.1: each flow has the same share 1/n of its class; two packets more or less");
            item(what, format!("{text}, {name}"), "share", Some(1.0), Bound::near(1.0, margin, basis), &of);
        }
    }
    items
}

/// The transmission time of a packet on the wire, in ms.
const PACKET_MS: f64 = (PAYLOAD + HEADERS) as f64 * 8.0 / 100e3;

/// The paper's buckets let the jitter of the arrivals pass, and each packet was sent at once. Beside them are buckets of two packets,
/// in which packets wait and the jitter falls.
fn at_once(load: Load, results: &[Vec<Outcome>; 4], options: &Options) -> Vec<Item> {
    let raw = &results[System::Raw as usize];
    let small = simulate_runs(&small(), load, options);
    let held = |id: String, how: &str, runs: &[Outcome]| {
        let more = Sample::of(runs.iter().zip(raw).map(|(run, raw)| (run.wait - raw.wait) / 1e6));
        let what = format!("mean time that a packet waits beyond that under RAW, fbq, {how}");
        Item::sampled(id, what, "ms", more).paper(0.0)
    };
    let basis =
        paper("section 7: all packets passed to the shaper were immediately sent out; the time of one on the wire");
    let fbq = held(
        format!("sim.{}.fbq.held", load.id),
        "buckets that let the jitter of the arrivals pass",
        &results[System::Fbq as usize],
    );
    let what = "jitter of FBQ with buckets of two packets over that of RAW";
    let to_raw = Sample::of(jitter_by(&small, raw));
    vec![
        fbq.bound(Bound::at_most(PACKET_MS, basis)),
        held(format!("sim.small.held.{}", load.id), "buckets of two packets", &small),
        Item::sampled(format!("sim.small.to-raw.{}", load.id), what, "ratio", to_raw),
    ]
}

/// Compares how coarsely the classes are interleaved.
fn rows(load: Load, results: &[Vec<Outcome>; 4]) -> Item {
    let pairs = results[System::Fbq as usize].iter().zip(&results[System::Cbq as usize]);
    let ratios = Sample::of(pairs.map(|(fbq, cbq)| fbq.row / cbq.row));
    let basis = paper("section 7: fine granular, where CBQ sends as long as packets are in a class");
    let what = "packets of a class that leave in a row, FBQ over CBQ";
    Item::sampled(format!("sim.row.{}", load.id), what, "ratio", ratios).bound(Bound::below(1.0, basis))
}

/// The claims of section 7 about concurrent loads.
fn claims(by_load: &BTreeMap<&str, [Vec<Outcome>; 4]>) -> Vec<Item> {
    let jitter =
        |load: &str, system: System| by_load[load][system as usize].iter().map(|run| run.jitter).collect::<Vec<_>>();
    let growth = |system| {
        let pairs = jitter("beyond.1m", system).into_iter().zip(jitter("full.1m", system));
        Sample::of(pairs.map(|(beyond, full)| beyond / full.max(1.0)))
    };
    let mut items = vec![
        Item::sampled(
            "sim.claim.cbq-grows",
            "jitter of CBQ at 150 % over that at 95 %, flows of 1 Mbit/s",
            "ratio",
            growth(System::Cbq),
        )
        .bound(Bound::above(1.0, paper("section 7: beyond the allocated rate CBQ generates a high jitter"))),
        Item::sampled(
            "sim.claim.fbq-does-not",
            "jitter of FBQ at 150 % over that at 95 %, flows of 1 Mbit/s",
            "ratio",
            growth(System::Fbq),
        )
        .bound(Bound::at_most(1.0, paper("section 7: FBQ reduces the jitter significantly beyond the allocated rate"))),
    ];
    for (key, than) in [("cbq", System::Cbq), ("raw", System::Raw)] {
        for load in ["full", "beyond"] {
            let ratios_at = |rate: &str| ratios(&by_load[format!("{load}.{rate}").as_str()], System::Fbq, than);
            let difference = ratios_at("500k").into_iter().zip(ratios_at("1m")).map(|(half, one)| half - one);
            let what = format!(
                "jitter of FBQ over that of {}, {load}: flows of 0.5 less flows of 1 Mbit/s",
                than.name().to_uppercase()
            );
            let basis = paper("section 7: with flows of 0.5 Mbit/s the jitter is not reduced to the same extent");
            items.push(
                Item::sampled(
                    format!("sim.claim.less-at-half-a-mbit.{load}.{key}"),
                    what,
                    "difference",
                    Sample::of(difference),
                )
                .bound(Bound::above(0.0, basis)),
            );
        }
    }
    items
}

/// Tests whether best effort alone, with a demand above the total, can use the rate of the other classes.
fn unused(options: &Options) -> Vec<Item> {
    let only = Load { id: "unused", kbit: 1_000, percent: 250 };
    [(System::Fbq, "fbq"), (System::Shared, "shared")]
        .into_iter()
        .map(|(system, key)| {
            let runs = (0..u64::from(options.runs))
                .map(|n| simulate(&config(system), only, &[2; 100], options.seed + n).rate / 1e6);
            let what = format!("best effort alone with 100 Mbit/s of demand, {}", system.name());
            let basis = paper("section 7: it was allowed to share unused data rate across classes, up to 80 Mbit/s");
            let item = Item::sampled(format!("sim.unused.{key}"), what, "Mbit/s", Sample::of(runs)).paper(80.0);
            item.bound(Bound::between(79.2, 80.1, basis))
        })
        .collect()
}

/// The configuration of FBQ with buckets of two packets.
fn small() -> Config {
    let text = include_str!("../../../fbq/fbq.toml");
    let text = text.replace("\nburst = \"120000B\"\nflow-burst = \"24000B\"", "\nburst = \"2856B\"");
    load("fbq.toml", &text.replace("\nburst = \"240000B\"", "\nburst = \"3028B\""))
}

/// The shaper file of a system.
fn config(system: System) -> Config {
    let (name, text) = match system {
        System::Raw => ("raw.toml", include_str!("../../../fbq/raw.toml")),
        System::Cbq => ("cbq.toml", include_str!("../../../fbq/cbq.toml")),
        System::Fbq => ("fbq.toml", include_str!("../../../fbq/fbq.toml")),
        System::Shared => ("fbq-shared.toml", include_str!("../../../fbq/fbq-shared.toml")),
    };
    load(name, text)
}

fn load(name: &str, text: &str) -> Config {
    let (source, mut diagnostics) = (Source::new(name, text), Diagnostics::new());
    shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
}

/// Simulates one run with a flow for each entry of `classes`, which is the index of its class.
fn simulate(config: &Config, load: Load, classes: &[usize], seed: u64) -> Outcome {
    let mut network = Network::new(seed);
    let (sender, receiver) = (network.host("sender"), network.host("receiver"));
    let (link, _) = network.duplex(sender, receiver, Line::new(WIRE, Span::from_micros(10)));
    network.shaper(link, config);
    let end = SECONDS * 1_000_000_000;
    let mut sent = 0_u64;
    for (n, &class) in classes.iter().enumerate() {
        let times = arrivals(seed, n, load.kbit, TICK + classes.len() as u64 * SEND, end);
        sent += times.iter().filter(|(at, _)| at.as_nanos() >= WARM_UP.as_nanos()).count() as u64;
        let flow = FlowSpec::udp(format!("flow {n}"), sender, receiver, Workload::Trace(times));
        network.flow(flow.to_port(FIRST_PORT + class as u16));
    }
    let wire: Rc<RefCell<Wire>> = Rc::default();
    let seen = Rc::clone(&wire);
    let class_of = classes.to_vec();
    network.tap(link, move |at, stage, packet| {
        let class = class_of[packet.group as usize];
        seen.borrow_mut().see(at.as_nanos(), stage, packet.group, class);
    });
    let mut simulation = network.build().expect("two hosts and a link");
    simulation.run_until(Instant::from_nanos(end));
    let Wire { flows, waited, rows, .. } = std::mem::take(&mut *wire.borrow_mut());
    let delivered: u64 = flows.values().map(|times| times.len() as u64).sum();
    let measured = (SECONDS * 1_000_000_000 - WARM_UP.as_nanos()) as f64 / 1e9;
    let bits = |packets: u64| packets as f64 * (PAYLOAD + HEADERS) as f64 * 8.0 / measured;
    let packets_of = |n: usize| flows.get(&(n as u32)).map_or(0, |times| times.len() as u64);
    let mut rates = [0.0; 3];
    let mut ends = (f64::INFINITY, 0.0_f64);
    for (class, rate) in rates.iter_mut().enumerate() {
        let own: Vec<u64> =
            classes.iter().enumerate().filter(|(_, of)| **of == class).map(|(n, _)| packets_of(n)).collect();
        let sum: u64 = own.iter().sum();
        *rate = bits(sum);
        for packets in &own {
            let part = *packets as f64 * own.len() as f64 / sum.max(1) as f64;
            ends = (ends.0.min(part), ends.1.max(part));
        }
    }
    Outcome {
        jitter: flows.values().map(|times| deviation(times)).sum::<f64>() / flows.len().max(1) as f64,
        rate: bits(delivered),
        loss: 1.0 - (delivered as f64 / sent.max(1) as f64).min(1.0),
        processor: None,
        classes: rates,
        flows: ends,
        wait: waited as f64 / delivered.max(1) as f64,
        row: delivered as f64 / rows.max(1) as f64,
    }
}

/// The packets that were transmitted after the warm-up.
#[derive(Default)]
struct Wire {
    /// The times at which the packets of each flow were transmitted.
    flows: BTreeMap<u32, Vec<u64>>,
    /// The arrival times of the packets of each flow that are still queued. The order within a flow is kept.
    waiting: BTreeMap<u32, VecDeque<u64>>,
    /// The sum of the waiting times of all packets, in ns.
    waited: u64,
    /// The number of sequences of packets of the same class. `last` is the class of the last packet.
    rows: u64,
    last: Option<usize>,
}

impl Wire {
    fn see(&mut self, at: u64, stage: Stage, flow: u32, class: usize) {
        let waiting = self.waiting.entry(flow).or_default();
        match stage {
            Stage::Arrived => waiting.push_back(at),
            // The disciplines here drop from the tail, so the last packet that arrived is the one dropped.
            Stage::Dropped(_) => drop(waiting.pop_back()),
            Stage::Transmitting => {
                let arrived = waiting.pop_front().unwrap_or(at);
                if at < WARM_UP.as_nanos() {
                    return;
                }
                self.waited += at - arrived;
                self.rows += u64::from(self.last != Some(class));
                self.last = Some(class);
                self.flows.entry(flow).or_default().push(at);
            }
            _ => {}
        }
    }
}

/// The mean deviation of the gaps from their mean.
fn deviation(times: &[u64]) -> f64 {
    let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let count = gaps.len().max(1) as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    gaps.iter().map(|gap| (gap - mean).abs()).sum::<f64>() / count
}

/// Returns arrivals at an even rate from a random phase, each up to `late` ns late.
fn arrivals(seed: u64, flow: usize, kbit: u64, late: u64, end: u64) -> Vec<(Span, Bytes)> {
    let mut random = Stream::named(seed, &format!("arrivals of flow {flow}"));
    let size = PAYLOAD + HEADERS;
    let step = size * 8 * 1_000_000 / kbit;
    let phase = random.below(step);
    let mut times: Vec<_> = (0..end / step).map(|n| phase + n * step + random.below(late)).collect();
    times.sort_unstable();
    times.into_iter().map(|at| (Span::from_nanos(at), Bytes::new(size))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shaped_total_is_kept_and_runs_are_equal() {
        let load = LOADS[5];
        let run = |system| simulate(&config(system), load, &load.flows(), 7);
        let (one, two) = (run(System::Fbq), run(System::Fbq));
        assert_eq!(one.jitter.to_bits(), two.jitter.to_bits());
        assert!(one.rate <= 80.1e6 && one.rate > 79.0e6, "{one:?}");
        // The demand is 150 % of 80 Mbit/s, so RAW fills the wire of 100 Mbit/s.
        let raw = run(System::Raw);
        assert!(raw.rate > 99.0e6, "{raw:?}");
    }
}

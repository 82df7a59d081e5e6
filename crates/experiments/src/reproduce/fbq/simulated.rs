//! The three systems in the simulator: the same disciplines, and arrivals that are the same for all of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tidegate_config::shaper::{self, Config};
use tidegate_config::{Diagnostics, Source};
use tidegate_core::random::Stream;
use tidegate_core::{Bytes, Instant, Rate, Span};
use tidegate_sim::{FlowSpec, Line, Network, Stage, Workload};

use super::{HEADERS, LOADS, Load, Outcome, PAYLOAD, System, items};
use crate::reproduce::{Item, Options};

const WIRE: Rate = Rate::from_mbit(100);
const SECONDS: u64 = 4;
const WARM_UP: Span = Span::from_secs(1);
/// Applications hand packets over up to this late: the 10 ms tick of the paper's machine.
const TICK: u64 = 10_000_000;
/// The port by which the rules of the files know the first class; the others follow it.
const FIRST_PORT: u16 = 5_001;

pub fn run(options: &Options) -> Vec<Item> {
    let mut all = Vec::new();
    for load in LOADS.into_iter().filter(|load| options.wants(&format!("sim.{}", load.id))) {
        let results = System::ALL.map(|system| {
            let runs: Vec<_> = (0..options.runs).map(|n| simulate(system, load, options.seed + u64::from(n))).collect();
            let mean = |of: fn(&Outcome) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
            Outcome { jitter: mean(|r| r.jitter), rate: mean(|r| r.rate), loss: mean(|r| r.loss), processor: None }
        });
        let note = "same arrivals for all; each up to 10 ms late, as on a machine with a 100 Hz tick";
        all.extend(items("sim", load, results, true, note));
        all.push(bounded(load, &results));
    }
    if options.wants("sim.claim") {
        all.extend(claims(options));
    }
    all
}

/// Whatever is sent, the shaped total is kept: 80 Mbit/s and the bursts of the start.
fn bounded(load: Load, [_, _, fbq]: &[Outcome; 3]) -> Item {
    let what = "all flows under FBQ, against the shaped total; the rest of the wire stays unused";
    Item::measured(format!("sim.{}.total", load.id), what, "Mbit/s", fbq.rate / 1e6).paper(80.0).within(0.0, 80.1)
}

/// When demand exceeds the allocation, CBQ's jitter grows strongly and FBQ's does not.
fn claims(options: &Options) -> Vec<Item> {
    let jitter = |system, load| simulate(system, load, options.seed).jitter;
    let (full, beyond) = (LOADS[1], LOADS[3]);
    let growth = |system| jitter(system, beyond) / jitter(system, full).max(1.0);
    vec![
        Item::measured(
            "sim.claim.cbq-grows",
            "jitter of CBQ at 150 % over that at 95 %, flows of 1 Mbit/s",
            "ratio",
            growth(System::Cbq),
        ),
        Item::measured(
            "sim.claim.fbq-does-not",
            "the same for FBQ; the paper: it does not",
            "ratio",
            growth(System::Fbq),
        )
        .within(0.0, 1.01),
    ]
}

/// The shaper file of a system.
fn config(system: System) -> Config {
    let (name, text) = match system {
        System::Raw => ("raw.toml", include_str!("../../../../../experiments/fbq/raw.toml")),
        System::Cbq => ("cbq.toml", include_str!("../../../../../experiments/fbq/cbq.toml")),
        System::Fbq => ("fbq.toml", include_str!("../../../../../experiments/fbq/fbq.toml")),
    };
    let (source, mut diagnostics) = (Source::new(name, text), Diagnostics::new());
    shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
}

fn simulate(system: System, load: Load, seed: u64) -> Outcome {
    let mut network = Network::new(seed);
    let (sender, receiver) = (network.host("sender"), network.host("receiver"));
    let (link, _) = network.duplex(sender, receiver, Line::new(WIRE, Span::from_micros(10)));
    network.shaper(link, &config(system));
    let end = SECONDS * 1_000_000_000;
    let mut sent = 0_u64;
    for (n, class) in load.flows().into_iter().enumerate() {
        let times = arrivals(seed, n, load.kbit, end);
        sent += times.iter().filter(|(at, _)| at.as_nanos() >= WARM_UP.as_nanos()).count() as u64;
        let flow = FlowSpec::udp(format!("flow {n}"), sender, receiver, Workload::Trace(times));
        network.flow(flow.to_port(FIRST_PORT + class as u16));
    }
    // When each packet of each flow went onto the wire.
    let flows: Rc<RefCell<BTreeMap<u32, Vec<u64>>>> = Rc::default();
    let by_flow = Rc::clone(&flows);
    network.tap(link, move |at, stage, packet| {
        if stage == Stage::Transmitting && at.as_nanos() >= WARM_UP.as_nanos() {
            by_flow.borrow_mut().entry(packet.group).or_default().push(at.as_nanos());
        }
    });
    let mut simulation = network.build().expect("two hosts and a link");
    simulation.run_until(Instant::from_nanos(end));
    let flows = std::mem::take(&mut *flows.borrow_mut());
    let delivered: u64 = flows.values().map(|times| times.len() as u64).sum();
    let measured = (SECONDS * 1_000_000_000 - WARM_UP.as_nanos()) as f64 / 1e9;
    Outcome {
        jitter: flows.values().map(|times| deviation(times)).sum::<f64>() / flows.len().max(1) as f64,
        rate: delivered as f64 * (PAYLOAD + HEADERS) as f64 * 8.0 / measured,
        loss: 1.0 - (delivered as f64 / sent.max(1) as f64).min(1.0),
        processor: None,
    }
}

/// The mean deviation of the gaps from their mean.
fn deviation(times: &[u64]) -> f64 {
    let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let count = gaps.len().max(1) as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    gaps.iter().map(|gap| (gap - mean).abs()).sum::<f64>() / count
}

/// Packets at an even rate from a random phase, each handed over up to a tick late.
fn arrivals(seed: u64, flow: usize, kbit: u64, end: u64) -> Vec<(Span, Bytes)> {
    let mut random = Stream::named(seed, &format!("arrivals of flow {flow}"));
    let size = PAYLOAD + HEADERS;
    let step = size * 8 * 1_000_000 / kbit;
    let phase = random.below(step);
    let mut times: Vec<_> = (0..end / step).map(|n| phase + n * step + random.below(TICK)).collect();
    times.sort_unstable();
    times.into_iter().map(|at| (Span::from_nanos(at), Bytes::new(size))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shaped_total_is_kept_and_runs_are_equal() {
        let load = LOADS[4];
        let (one, two) = (simulate(System::Fbq, load, 7), simulate(System::Fbq, load, 7));
        assert_eq!(one.jitter.to_bits(), two.jitter.to_bits());
        assert!(one.rate <= 80.1e6 && one.rate > 79.0e6, "{one:?}");
        // 150 % of 80 Mbit/s on a wire of 100: RAW fills the wire.
        let raw = simulate(System::Raw, load, 7);
        assert!(raw.rate > 99.0e6, "{raw:?}");
    }
}

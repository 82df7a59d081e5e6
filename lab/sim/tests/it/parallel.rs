//! Divided runs: whatever the number of threads, the outcome is that of one.

use std::ops::ControlFlow;
use std::path::Path;

use tidegate_config::shaper::Config;
use tidegate_config::{Diagnostics, Source};
use tidegate_core::codel::{self, CoDel};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::fq_codel::{self, FqCodel};
use tidegate_core::random::Stream;
use tidegate_core::{Bytes, Instant, Rate, Span};
use tidegate_sim::parallel::{Division, run};
use tidegate_sim::scenario::Scenario;
use tidegate_sim::{Distribution, FlowSpec, Line, Loss, Network, NodeId, Simulation, Workload, tcp};

/// Runs `work` on so many threads.
pub(crate) fn spawn(threads: usize, work: &(dyn Fn(usize) + Sync)) {
    std::thread::scope(|scope| (0..threads).for_each(|number| drop(scope.spawn(move || work(number)))));
}

/// Everything that is measured in a simulation, as text.
fn measured(sim: &Simulation) -> String {
    let mut text = format!("{} events, {} hops, {:?}\n", sim.events(), sim.hops(), sim.underway());
    sim.flows().for_each(|(flow, metrics)| text += &format!("{} {metrics:?}\n", flow.name));
    sim.links().for_each(|(name, metrics)| text += &format!("{name} {metrics:?}\n"));
    text
}

/// Runs a network on one thread without and on several with division, and compares. Returns how it was divided.
fn compare(name: &str, threads: usize, end: Instant, build: &(dyn Fn() -> Simulation + Sync)) -> Division {
    let mut alone = build();
    alone.run_until(end);
    let expected = measured(&alone);
    let finish = |sim: Simulation, division| (measured(&sim), division);
    let (found, division) =
        run(threads, end, build, &mut |_| ControlFlow::Continue(()), finish, &spawn).expect("not stopped");
    if found != expected {
        let lines = expected.lines().zip(found.lines()).find(|(a, b)| a != b);
        panic!("{name} on {threads} threads, {division:?}: {:.2000?}", lines);
    }
    division
}

/// A shaper file for a hop.
fn shaper() -> Config {
    let text = "version = 1\n[shaper]\nrate = \"32mbit\"\n\
        [[class]]\nname = \"one\"\nrate = \"12mbit\"\n[[class]]\nname = \"rest\"\nrate = \"20mbit\"\ndefault = true\n\
        [[rule]]\nclass = \"one\"\nsource = \"10.0.0.10\"\n";
    let (source, mut diagnostics) = (Source::new("shaper.toml", text), Diagnostics::new());
    let config = tidegate_config::shaper::load(&source, &mut diagnostics);
    config.unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
}

/// Eight routers in a row with a flow over all of them and one over each hop. All times are multiples of few numbers, so that regions
/// often act at the same nanosecond.
fn parking_lot(queued: bool, shaped: bool) -> Simulation {
    let mut net = Network::new(3);
    let routers: Vec<NodeId> = (0..9).map(|n| net.router(format!("r{n}"))).collect();
    let access = Line::new(Rate::from_mbit(400), Span::from_millis(1));
    let hop = Line::new(Rate::from_mbit(40), Span::from_millis(5)).limit(Limit::packets(50));
    for pair in routers.windows(2) {
        let (forward, _) = net.duplex(pair[0], pair[1], hop);
        if queued {
            net.queue(forward, Fifo::new(Limit::packets(50)));
        }
        if shaped && pair[0] == routers[5] {
            net.shaper(forward, &shaper());
        }
        net.watch(forward);
    }
    let mut flow = |from: usize, to: usize, name: String| {
        let (a, b) = (net.host(format!("a{name}")), net.host(format!("b{name}")));
        net.duplex(a, routers[from], access);
        net.duplex(routers[to], b, access);
        net.flow(FlowSpec::tcp(name, a, b, tcp::Config::sack(), Workload::BULK).watched());
    };
    flow(0, 8, "long".into());
    (0..8).for_each(|n| flow(n, n + 1, format!("cross{n}")));
    net.warm_up(Span::from_secs(1));
    net.build().unwrap()
}

#[test]
fn a_parking_lot_has_the_same_results_on_any_number_of_threads() {
    for (queued, shaped) in [(false, false), (true, false), (true, true)] {
        for threads in [1, 2, 3, 4] {
            let end = Instant::ZERO + Span::from_secs(3);
            let division = compare("parking lot", threads, end, &|| parking_lot(queued, shaped));
            assert_eq!(division.regions, threads, "{division:?}");
            assert!(threads == 1 || division.lookahead == Span::from_millis(5), "{division:?}");
        }
    }
}

/// A random tree of routers with random flows. Rates, delays and start times are few, so that many events are simultaneous.
fn random_network(seed: u64) -> Simulation {
    let mut random = Stream::named(seed, "divided networks");
    let mut net = Network::new(seed);
    let count = 2 + random.below(5) as usize;
    let routers: Vec<NodeId> = (0..count).map(|n| net.router(format!("r{n}"))).collect();
    for n in 1..count {
        let line = Line::new(Rate::from_mbit(48), Span::from_millis(5 + random.below(3)));
        let line = if random.below(4) == 0 { line.loss(Loss::Random(0.01)) } else { line };
        let (a, b) = net.duplex(routers[n], routers[random.below(n as u64) as usize], line);
        for link in [a, b] {
            match random.below(4) {
                0 => net.queue(link, Fifo::new(Limit::packets(20))),
                1 => net.queue(link, CoDel::new(codel::Params::default()).unwrap()),
                2 => net.queue(link, FqCodel::new(fq_codel::Params::default()).unwrap()),
                _ => {}
            }
            net.watch(link);
        }
    }
    for n in 0..3 + random.below(8) {
        let [at, to] = [0, 1].map(|_| routers[random.below(count as u64) as usize]);
        let (a, b) = (net.host(format!("a{n}")), net.host(format!("b{n}")));
        let access = Line::new(Rate::from_mbit(480), Span::from_millis(1 + random.below(2)));
        net.duplex(a, at, access);
        net.duplex(to, b, access);
        let (rate, packet) = (Rate::from_mbit(8), Bytes::new(1500));
        let start = Instant::ZERO + Span::from_millis(100 * random.below(3));
        let name = format!("f{n}");
        let mut spec = match random.below(8) {
            0 => FlowSpec::udp(name, a, b, Workload::Constant { rate, packet }),
            1 => FlowSpec::udp(name, a, b, Workload::Poisson { rate, packet }),
            2 => FlowSpec::tcp(name, a, b, tcp::Config::sack(), Workload::Constant { rate, packet }),
            3 if seed.is_multiple_of(3) => {
                let size = Distribution::Exponential { mean: 20_000.0 };
                FlowSpec::tcp(name, a, b, tcp::Config::sack(), Workload::mice(20.0, size))
            }
            4 => {
                let config = tcp::Config { algorithm: tcp::Algorithm::Cubic, ..tcp::Config::sack() };
                FlowSpec::tcp(name, a, b, config, Workload::BULK)
            }
            5 => {
                let size = Distribution::Exponential { mean: 100_000.0 };
                FlowSpec::tcp(name, a, b, tcp::Config::sack(), Workload::Transfer { size })
            }
            _ => FlowSpec::tcp(name, a, b, tcp::Config::sack(), Workload::BULK),
        };
        spec.start = start;
        spec.watch = true;
        net.flow(spec);
    }
    net.keep_transfers();
    net.build().unwrap()
}

#[test]
fn random_networks_have_the_same_results_on_any_number_of_threads() {
    let mut divided = [0; 4];
    for seed in 0..80 {
        let threads = 2 + (seed % 2) as usize;
        let end = Instant::ZERO + Span::from_millis(1_500);
        let division = compare(&format!("network {seed}"), threads, end, &|| random_network(seed));
        divided[division.regions] += 1;
    }
    assert!(divided[2] > 15 && divided[3] > 15, "{divided:?}");
}

#[test]
fn scenarios_have_the_same_outcome_on_any_number_of_threads() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["../papers/scenarios", "../papers/rfc2963"].map(|folder| root.join(folder));
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("a folder of the repository"));
    let mut paths: Vec<_> = files.map(|file| file.expect("a readable folder").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let mut divided = Vec::new();
    for path in &paths {
        let source = Source::open(path).expect("a file of the repository");
        let open = |name: &str| Source::open(&path.with_file_name(name));
        let mut diagnostics = Diagnostics::new();
        let scenario = Scenario::load(&source, Some(&open), &mut diagnostics);
        let mut scenario = scenario.unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
        scenario.duration = scenario.duration.min(scenario.warm_up() + Span::from_secs(6));
        for part in 0..scenario.parts().min(2) {
            let expected = scenario.run_part(1, part, |_| ControlFlow::Continue(())).expect("not stopped");
            for threads in [2, 3] {
                let progress = |_| ControlFlow::Continue(());
                let (found, division) =
                    scenario.run_divided((1, part), threads, progress, &spawn).expect("not stopped");
                assert!(found == expected, "{} on {threads} threads, {division:?}", path.display());
                let name = path.file_stem().expect("a file").to_string_lossy();
                println!("{name}, part {part}: {division:?}");
                if division.regions > 1 {
                    divided.push(name.into_owned());
                }
            }
        }
    }
    assert!(divided.len() >= 8, "{divided:?} of {}", paths.len());
}

#[test]
fn a_connection_between_regions_that_is_aborted_makes_the_run_begin_again() {
    // All packets are lost from the beginning, so that the handshake fails.
    let build = || {
        let mut net = Network::new(1);
        let (a, b) = (net.host("a"), net.host("b"));
        net.duplex(a, b, Line::new(Rate::from_mbit(100), Span::from_millis(10)).loss(Loss::Random(1.0)));
        let config = tcp::Config { retries: 3, ..tcp::Config::sack() };
        net.flow(FlowSpec::tcp("bulk", a, b, config, Workload::BULK));
        net.build().unwrap()
    };
    let division = compare("lost", 2, Instant::ZERO + Span::from_secs(60), &build);
    assert!(
        division.regions == 1 && division.undivided.is_some_and(|reason| reason.contains("aborted")),
        "{division:?}"
    );
}

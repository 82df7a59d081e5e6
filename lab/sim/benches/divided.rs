//! One simulation on two threads beside one: how many times as fast it is by the clock, set-up included, and what it takes more of the
//! processors. Eight routers in a row with ten flows over all of them and ten over each hop; 10,000 pairs of hosts with a flow each over
//! one bottleneck.

mod bottleneck;

use std::ops::ControlFlow;
use std::time::{Duration, Instant as Clock};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use tidegate_benches::{Harness, processor_time};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::{Instant, Rate, Span};
use tidegate_sim::parallel::{Division, run};
use tidegate_sim::{FlowSpec, Line, Network, NodeId, Simulation, Workload, tcp};

use bottleneck::{fifo, network};

type Build = fn() -> Simulation;

/// Pairs of runs, of which the best counts: whatever else the machine does makes the ratio worse.
const PAIRS: usize = 5;

fn parking_lot() -> Simulation {
    let mut net = Network::new(1);
    let routers: Vec<NodeId> = (0..9).map(|n| net.router(format!("r{n}"))).collect();
    let access = Line::new(Rate::from_mbit(1_000), Span::from_millis(1)).limit(Limit::packets(10_000));
    for pair in routers.windows(2) {
        let (forward, _) = net.duplex(pair[0], pair[1], Line::new(Rate::from_mbit(100), Span::from_millis(5)));
        net.queue(forward, Fifo::new(Limit::packets(200)));
    }
    let mut flow = |from: usize, to: usize, name: String| {
        let (a, b) = (net.host(format!("a{name}")), net.host(format!("b{name}")));
        net.duplex(a, routers[from], access);
        net.duplex(routers[to], b, access);
        net.flow(FlowSpec::tcp(name, a, b, tcp::Config::sack(), Workload::BULK).jittered(Span::from_secs(1)));
    };
    (0..10).for_each(|n| flow(0, 8, format!("long{n}")));
    (0..80).for_each(|n| flow(n % 8, n % 8 + 1, format!("cross{n}")));
    net.build().expect("a network that works")
}

fn many() -> Simulation {
    network(10_000, true, fifo).build().expect("a network that works")
}

/// Seconds of the clock and of all processors, and the events.
fn timed(threads: usize, seconds: u64, build: &(dyn Fn() -> Simulation + Sync)) -> (f64, f64, u64, Division) {
    let (begin, used) = (Clock::now(), processor_time());
    let end = Instant::ZERO + Span::from_secs(seconds);
    let spawn = |threads: usize, work: &(dyn Fn(usize) + Sync)| {
        std::thread::scope(|scope| {
            for number in 0..threads {
                scope.spawn(move || {
                    if threads > 1 {
                        stay_on(number);
                    }
                    work(number);
                });
            }
        });
    };
    let finish = |sim: Simulation, division| (sim.events(), division);
    let (events, division) =
        run(threads, end, build, &mut |_| ControlFlow::Continue(()), finish, &spawn).expect("not stopped");
    (begin.elapsed().as_secs_f64(), (processor_time() - used).as_secs_f64(), events, division)
}

/// Keeps this thread on one processor. Without that a busy system has both threads on one of them for long times.
fn stay_on(processor: usize) {
    let mut set = CpuSet::new();
    // Where it fails the figure is worse.
    let _ = set.set(processor).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
}

fn main() {
    let mut harness = Harness::from_args();
    let cases: [(&str, u64, Build); 2] = [("parking lot/8", 20, parking_lot), ("flows/10000", 8, many)];
    for (name, seconds, build) in cases {
        harness.figure(name, "of one", || {
            let mut best: f64 = 0.0;
            for _ in 0..PAIRS {
                let (alone, alone_used, events, _) = timed(1, seconds, &build);
                let (two, two_used, same, division) = timed(2, seconds, &build);
                assert_eq!(events, same, "{division:?}");
                println!(
                    "{name}: {alone:.2} s and {two:.2} s on two threads, {alone_used:.2} s and {two_used:.2} s of processors, \
                     {events} events, {} windows of {:?}",
                    division.windows,
                    Duration::from_nanos(division.lookahead.as_nanos()),
                );
                best = best.max(alone / two);
            }
            best
        });
    }
}

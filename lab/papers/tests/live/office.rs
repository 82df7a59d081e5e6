//! A shaper file in the simulator and live: the rates of its classes are the same, also after a promise.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_config::{Diagnostics, Source};
use tidegate_core::ClassId;
use tidegate_core::fbq::Terms;
use tidegate_engine::{PromiseTable, Target};
use tidegate_live::shaping::Shaping;
use tidegate_sim::scenario::{Outcome, Scenario};
use tidegate_testbed::{FlowSpec, Pair, Senders, Sink};
use tidegate_units::Rate;

use crate::flows::near;
use crate::rates::shape;
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

/// The flow that is promised a minimum, and what.
const PROMISED: u16 = 5_010;
const MINIMUM: Rate = Rate::from_mbit(6);
/// The ports of the ten flows: two calls, five of the web, three backups.
const PORTS: [u16; 10] = [5_000, 5_001, 5_010, 5_011, 5_012, 5_013, 5_014, 5_020, 5_021, 5_022];

/// Bit/s of calls, web and backup, and of the flow that is promised a minimum, before and after that.
type Rates = [[f64; 4]; 2];

pub fn a_file_gives_the_rates_of_the_simulator() -> Ended {
    let expected = simulated();
    println!("  simulated {expected:.0?}");
    patiently(|| compare(&expected))
}

fn compare(expected: &Rates) -> Result<(), String> {
    let seen = live();
    println!("  live      {seen:.0?}");
    for (expected, seen) in expected.iter().flatten().zip(seen.iter().flatten()) {
        near(*seen, *expected, 0.02)?;
    }
    Ok(())
}

/// The scenario of the book's chapter on trying a file.
fn simulated() -> Rates {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let source = Source::open(&folder.join("office.toml")).expect("the scenario");
    let open = |name: &str| Source::open(&folder.join(name));
    let mut diagnostics = Diagnostics::new();
    let scenario = Scenario::load(&source, Some(&open), &mut diagnostics);
    let outcome = scenario.unwrap_or_else(|| panic!("{}", diagnostics.render(&source))).run(1, |_| ());
    // Snapshots at 3, 10, 16 and 24 s; the promise is made at 10 s.
    [between(&outcome, 0, 1), between(&outcome, 2, 3)]
}

/// The rates between two snapshots.
fn between(outcome: &Outcome, from: usize, to: usize) -> [f64; 4] {
    let all: Vec<_> = outcome.reports.iter().filter(|report| report.kind == "status").collect();
    let (from, to) = (all[from], all[to]);
    let seconds = to.time.since(from.time).as_secs_f64();
    let sent = |report: &tidegate_sim::scenario::Report,
                list: &str,
                key: &str,
                wanted: &dyn Fn(&serde_json::Value) -> bool| {
        let found = report.result[list].as_array().and_then(|all| all.iter().find(|one| wanted(one)));
        found.expect("it is in the snapshot")[key].as_f64().expect("bytes")
    };
    let rate = |list, key, wanted: &dyn Fn(&serde_json::Value) -> bool| {
        (sent(to, list, key, wanted) - sent(from, list, key, wanted)) * 8.0 / seconds
    };
    let class = |name: &str| rate("classes", "through_bytes", &|class| class["name"] == name);
    let flow = rate("flows", "sent_bytes", &|flow| flow["flow"]["destination_port"] == PROMISED);
    [class("calls"), class("web"), class("backup"), flow]
}

/// The file and the flows of the simulation run between two hosts, with the TCP of the kernel.
fn live() -> Rates {
    let pair = Pair::create().expect("a pair of hosts");
    let shaping = shape(&pair, include_str!("../../../../examples/office.toml"));
    let flows: Vec<_> = PORTS.iter().map(|port| FlowSpec::tcp(format!("t{port}"), *port, 0)).collect();
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    sleep(Duration::from_millis(1_500));
    let before = measured(&shaping);
    promise(&shaping);
    sleep(Duration::from_millis(1_500));
    let after = measured(&shaping);
    senders.stop();
    sink.stop();
    shaping.stop().expect("an orderly end");
    [before, after]
}

fn promise(shaping: &Shaping) {
    let target = Target { destination_port: Some(PROMISED), ..Target::default() };
    let matches = target.matches().expect("packets that match");
    let table = PromiseTable::new([(1, matches.as_slice())], []).expect("one condition");
    let made = shaping.with(move |engine, now| {
        let mut promises = engine.promises(now);
        promises.promise(1, Terms { minimum: MINIMUM, steps: 0, displace: None }, ClassId(1), 1, false)?;
        drop(promises.set_table(table));
        promises.review(0, 1_024);
        Ok::<_, tidegate_engine::PromiseError>(promises.view(1))
    });
    let view = made.expect("an answer").expect("6 of 10 Mbit/s are free").expect("the promise");
    assert_eq!((view.flows, view.waiting), (1, 0));
}

/// Measures for four seconds the departures of each class and of the promised flow.
fn measured(shaping: &Shaping) -> [f64; 4] {
    let sent = || {
        shaping
            .with(|engine, now| {
                let classes: Vec<u64> =
                    engine.status().iter().map(|class| class.counts.through.bytes.as_u64()).collect();
                let mut rows = Vec::new();
                engine.flow_rows(now, 0, 1_024, &mut rows);
                let promised = rows.iter().find(|row| row.record.who.destination_port == Some(PROMISED));
                let flow = promised.map_or(0, |row| row.record.sent.bytes.as_u64());
                [classes[0], classes[1], classes[2], flow]
            })
            .expect("an answer")
    };
    let (start, before) = (Instant::now(), sent());
    sleep(Duration::from_secs(4));
    let (end, after) = (Instant::now(), sent());
    let seconds = end.duration_since(start).as_secs_f64();
    std::array::from_fn(|n| (after[n] - before[n]) as f64 * 8.0 / seconds)
}

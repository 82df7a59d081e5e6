//! Two flows over one bottleneck: Prague beside CUBIC over DualPI2, and BBRv3 beside CUBIC over a queue that drops at its
//! end. Rates, queues and rates' ratios by line and round trip, with an interval over seeds.
//!
//! `TIDEGATE_TESTS=nightly cargo test -p tidegate-sim --test it coexistence:: -- --nocapture` prints all of the tables; a short
//! run takes three cells of each.

use tidegate_config::{Diagnostics, Source};
use tidegate_sim::scenario::Scenario;
use tidegate_testbed::is_nightly;

/// Bytes of a full segment with timestamps.
const SEGMENT: f64 = 1512.0;

/// A line.
#[derive(Clone, Copy, Debug)]
struct Cell {
    mbit: u64,
    milliseconds: u64,
}

impl Cell {
    /// How long a run takes in which rates settle. A window grows by a segment in a round trip: 417 of them for half of 100 Mbit/s at 100 ms.
    fn seconds(self) -> u64 {
        if self.mbit * self.milliseconds >= 10_000 { 240 } else { 60 }
    }
}

/// The shares of two flows in a run: their rates in bit/s, and the median and the 99th percentile of the first one's queueing in ms.
struct Both {
    rates: [f64; 2],
    queue_p50: f64,
    queue_p99: f64,
    utilisation: f64,
}

/// Runs a flow, or two, for `seconds`, of which the first third is not counted. Before a queue that drops at its end there is jitter of up to one
/// packet: without it shares have phase effects.
fn run(cell: Cell, queue: &str, controls: &[&str], seconds: u64, seed: u64) -> Both {
    let warm_up = seconds / 3;
    let Cell { mbit, milliseconds } = cell;
    let jitter = if queue.contains("\"fifo\"") {
        format!("jitter = {{ delay = {{ kind = \"uniform\", low = \"0s\", high = \"{}us\" }} }}\n", 12_000 / mbit)
    } else {
        String::new()
    };
    let mut text = format!(
        "version = 1\nduration = \"{seconds}s\"\nwarm-up = \"{warm_up}s\"\nmeasure = [\"goodput\", \"queueing\"]\n\
         hosts = [\"a1\", \"a2\", \"b1\", \"b2\"]\nrouters = [\"r\", \"s\"]\n\
         [[link]]\nfrom = \"a{{1..2}}\"\nto = \"r\"\nrate = \"10gbit\"\ndelay = \"0s\"\nlimit = 100000\n{jitter}\
         [[link]]\nfrom = \"r\"\nto = \"s\"\nrate = \"{mbit}mbit\"\ndelay = \"{}us\"\n{queue}\n\
         [[link]]\nfrom = \"s\"\nto = \"b{{1..2}}\"\nrate = \"10gbit\"\ndelay = \"0s\"\nlimit = 100000\n",
        milliseconds * 500,
    );
    for (number, control) in controls.iter().enumerate() {
        let host = number + 1;
        text += &format!(
            "[[flow]]\nname = \"{host}\"\nfrom = \"a{host}\"\nto = \"b{host}\"\njitter = \"100ms\"\n\
             workload = {{ kind = \"bulk\" }}\n\
             tcp = {{ congestion = \"{control}\", recovery = \"rack\", timestamps = true, d-sack = true, \
             hystart = true, prr = true, window = \"64MiB\", min-rto = \"200ms\" }}\n"
        );
    }
    let (source, mut diagnostics) = (Source::new("test.toml", &text), Diagnostics::new());
    let scenario = Scenario::load(&source, None, &mut diagnostics);
    let outcome = scenario.unwrap_or_else(|| panic!("{}\n{text}", diagnostics.render(&source))).run(seed, |_| ());
    let value = |subject: &str, measure: &str| {
        let found = outcome.values.iter().find(|value| value.subject == subject && value.measure == measure);
        found.unwrap_or_else(|| panic!("{measure} of {subject}")).value
    };
    let second = if controls.len() > 1 { value("flow 2", "goodput") } else { 0.0 };
    let rates = [value("flow 1", "goodput"), second];
    Both {
        rates,
        queue_p50: value("flow 1", "queueing p50") / 1e6,
        queue_p99: value("flow 1", "queueing p99") / 1e6,
        utilisation: (rates[0] + rates[1]) * SEGMENT / 1460.0 / (mbit as f64 * 1e6),
    }
}

/// The mean and the half width of its 95 % interval over a few runs (Student's t for two to four degrees of freedom).
fn interval(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let quantile = [12.706, 4.303, 3.182, 2.776].get(values.len() - 2).copied().unwrap_or(1.96);
    (mean, quantile * deviation / n.sqrt())
}

/// The cells of this run.
fn cells(some: &[Cell]) -> Vec<Cell> {
    if !is_nightly() {
        return some.to_vec();
    }
    let rates = [4, 12, 40, 120, 200];
    let round_trips = [5, 10, 20, 50, 100];
    rates.iter().flat_map(|&mbit| round_trips.map(|milliseconds| Cell { mbit, milliseconds })).collect()
}

const fn cell(mbit: u64, milliseconds: u64) -> Cell {
    Cell { mbit, milliseconds }
}

/// With the parameters of RFC 9332 and the queue protection of RFC 9957.
const DUALPI2: &str = "queue = { kind = \"dualpi2\" }";

/// The goal of RFC 9332, section 1: about equal rates, whatever the line. The grid is of lines of 4 to 200 Mbit/s and 5 to 100 ms.
#[test]
fn prague_and_cubic_share_dualpi2() {
    println!("Mbit/s  RTT ms  Prague / CUBIC      Prague's queue p50 ms   p99 ms               used");
    let mut wrong = Vec::new();
    let seeds = if is_nightly() { 3 } else { 2 };
    for cell in cells(&[cell(12, 10), cell(40, 20), cell(40, 50)]) {
        let seconds = cell.seconds();
        let runs: Vec<Both> = (1..=seeds).map(|seed| run(cell, DUALPI2, &["prague", "cubic"], seconds, seed)).collect();
        let (ratio, around) = interval(&runs.iter().map(|both| both.rates[0] / both.rates[1]).collect::<Vec<_>>());
        let (p50, p50_around) = interval(&runs.iter().map(|both| both.queue_p50).collect::<Vec<_>>());
        let (p99, p99_around) = interval(&runs.iter().map(|both| both.queue_p99).collect::<Vec<_>>());
        let (used, _) = interval(&runs.iter().map(|both| both.utilisation).collect::<Vec<_>>());
        let Cell { mbit, milliseconds } = cell;
        println!(
            "{mbit:>6}  {milliseconds:>6}  {ratio:.2} ± {around:.2}         {p50:.3} ± {p50_around:.3}         {p99:.2} ± {p99_around:.2}          \
             {used:.3}"
        );
        // Two packets of the classic queue may go first: where one takes longer than a millisecond, that is the bound.
        let bound = (2.0 * SEGMENT * 8.0 / (mbit as f64 * 1e3)).max(2.0);
        if !(0.5..=2.0).contains(&ratio) || p99 > bound || used < 0.95 {
            wrong.push(format!("{cell:?}: ratio {ratio:.2}, queue {p99:.2} ms, {used:.3} used"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A scalable sender that has the line for itself fills the low-latency queue by its slow start, comes under sanction for it, and is
/// back in that queue when its score has aged, which takes 5 s at most.
#[test]
fn a_lone_prague_flow_waits_in_the_low_latency_queue() {
    println!("Mbit/s  RTT ms  Prague's queue p99 ms, from 20 s on   used");
    let mut wrong = Vec::new();
    for cell in cells(&[cell(20, 20), cell(40, 10), cell(120, 50)]) {
        let Both { queue_p99: p99, utilisation: used, .. } = run(cell, DUALPI2, &["prague"], cell.seconds(), 1);
        let Cell { mbit, milliseconds } = cell;
        println!("{mbit:>6}  {milliseconds:>6}  {p99:.2}  {used:.3}");
        // Up to the end of the step's ramp and two packets, and its own; where packets take longer than that ramp, less than the
        // target of the classic queue, which it would keep there.
        let packet = SEGMENT * 8.0 / (mbit as f64 * 1e3);
        let bound = if packet > 1.2 { 15.0 } else { 1.2 + 3.0 * packet };
        if p99 > bound || used < 0.9 {
            wrong.push(format!("{cell:?}: queue {p99:.2} ms, {used:.3} used"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// "Bandwidth Probing and Coexistence with Reno/CUBIC" of draft-ietf-ccwg-bbr: at a capacity of about 100 segments BBR probes
/// on Reno's time scale and CUBIC has its part; where it is larger BBR probes more often and gets more over a short queue, and
/// CUBIC more over a long one, of which BBR uses at most as much as the path holds.
#[test]
fn bbr_and_cubic_share_a_tail_drop() {
    println!("Mbit/s  RTT ms  queue BDP  BBR's part      used");
    let cells = if is_nightly() { vec![cell(10, 20), cell(50, 30), cell(50, 100)] } else { vec![cell(50, 30)] };
    for cell in cells {
        for capacities in [0.5, 1.0, 2.0, 4.0] {
            let Cell { mbit, milliseconds } = cell;
            let bytes = (mbit * milliseconds * 125) as f64 * capacities;
            let queue = format!("queue = {{ kind = \"fifo\", limit = \"{}B\" }}", bytes as u64);
            let runs: Vec<Both> = (1..=2).map(|seed| run(cell, &queue, &["bbr", "cubic"], 90, seed)).collect();
            let part = |both: &Both| both.rates[0] / (both.rates[0] + both.rates[1]);
            let (mean, around) = interval(&runs.iter().map(part).collect::<Vec<_>>());
            let (used, _) = interval(&runs.iter().map(|both| both.utilisation).collect::<Vec<_>>());
            println!("{mbit:>6}  {milliseconds:>6}  {capacities:>9}  {mean:.2} ± {around:.2}     {used:.3}");
            let bounds = if mbit * milliseconds < 2_000 { 0.25..0.75 } else { 0.2..0.97 };
            assert!(bounds.contains(&mean) && used > 0.95, "{cell:?}, {capacities}: {mean:.2}, {used:.3}");
        }
    }
}

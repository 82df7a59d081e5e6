//! Measures the cases of a benchmark in ns of processor time a packet, beside a peer that does the same work.
//!
//! ```text
//! cargo bench -p PACKAGE --bench NAME -- [CASE...] [--rows] [--seconds S] [--fixed PACKETS]
//! ```
//! A case is selected by a part of its name that does not end within a number. `--rows` prints a line `row CASE NANOSECONDS` for each and leaves the peers
//! out: whoever compares runs them in turn. `--fixed` passes so many packets and prints nothing: for counters of the
//! processor.
// Each benchmark uses a part of it.
#![allow(dead_code)]

#[path = "peers.rs"]
pub mod peers;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time of this process, which other processes disturb less than the time of the day.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The least number of batches whose median counts.
const BATCHES: usize = 5;

/// The cases that the command line selects, and how to measure them.
pub struct Harness {
    names: Vec<String>,
    rows: bool,
    fixed: Option<u64>,
    seconds: f64,
    measured: Vec<(String, f64)>,
}

impl Harness {
    /// From the arguments that `cargo bench` passes.
    pub fn from_args() -> Self {
        let (mut names, mut rows, mut fixed, mut seconds) = (Vec::new(), false, None, 1.0);
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next().and_then(|text| text.parse::<f64>().ok());
            match argument.as_str() {
                "--bench" => {}
                "--rows" => rows = true,
                "--test" => fixed = Some(1),
                "--fixed" => fixed = Some(number().expect("--fixed needs a number of packets") as u64),
                "--seconds" => seconds = number().expect("--seconds needs a number"),
                name => names.push(name.to_owned()),
            }
        }
        Self { names, rows, fixed, seconds, measured: Vec::new() }
    }

    fn selects(&self, name: &str) -> bool {
        let ends = |after: &str| !after.starts_with(|next: char| next.is_ascii_digit());
        self.names.is_empty()
            || self.names.iter().any(|part| name.split_once(part.as_str()).is_some_and(|(_, after)| ends(after)))
    }

    /// Measures a case, each call of which passes `packets`. What `make` does before it returns is not counted.
    pub fn case<F: FnMut()>(&mut self, name: &str, packets: u64, make: impl FnOnce() -> F) {
        if !self.selects(name) {
            return;
        }
        let mut call = make();
        if let Some(fixed) = self.fixed {
            (0..fixed.div_ceil(packets)).for_each(|_| call());
            return;
        }
        let mut time = |calls: u64| {
            let begin = processor_time();
            (0..calls).for_each(|_| call());
            processor_time() - begin
        };
        // Batches of a hundredth of the time, after a third of it for the caches and the branch predictor.
        let (mut calls, begin) = (1, processor_time());
        let warm = Duration::from_secs_f64(self.seconds / 3.0);
        loop {
            let took = time(calls);
            let enough = took.as_secs_f64() >= self.seconds / 100.0;
            if enough && processor_time() - begin >= warm {
                break;
            }
            calls *= 1 + u64::from(!enough);
        }
        let (mut batches, begin) = (Vec::new(), processor_time());
        // Rows are measured in rounds.
        let least = if self.rows { 1 } else { BATCHES };
        while batches.len() < least || (processor_time() - begin).as_secs_f64() < self.seconds {
            batches.push(time(calls).as_nanos() as f64 / (calls * packets) as f64);
        }
        let median = peers::median(&mut batches);
        let spread = (batches[batches.len() * 9 / 10] - batches[batches.len() / 10]) / median * 100.0;
        if self.rows {
            println!("row {name} {median:.3}");
        } else {
            println!("{name:<40} {median:>12.2} ns, 10 to 90 % of the batches within {spread:.0} %");
        }
        self.measured.push((name.to_owned(), median));
    }

    /// A figure that is not a time: what `measure` returns.
    pub fn figure(&mut self, name: &str, unit: &str, measure: impl FnOnce() -> f64) {
        if self.fixed.is_some() || !self.names.is_empty() && !self.names.iter().any(|part| name.contains(part.as_str()))
        {
            return;
        }
        let figure = measure();
        if self.rows {
            println!("row {name} {figure:.3}");
        } else {
            println!("{name:<40} {figure:>12.2} {unit}");
        }
    }

    /// Whether the figures of peers are to be printed.
    pub fn compares(&self) -> bool {
        !self.rows && self.fixed.is_none() && self.names.is_empty()
    }

    /// Prints `figure` of `peer` beside the case `name`, if it was measured.
    pub fn beside(&self, name: &str, peer: peers::Peer, figure: &str) {
        let Some((_, ours)) = self.measured.iter().find(|(case, _)| case == name && !self.rows) else { return };
        match peers::measure(peer).map(|figures| figures.get(figure).copied()) {
            Ok(Some(theirs)) => {
                println!("{:<40} {theirs:>12.2} ns, ours is {:.2} of it", format!("  {peer:?}"), ours / theirs);
            }
            Ok(None) => println!("  {peer:?}: not measured: it reports no {figure}"),
            Err(reason) => println!("  {peer:?}: not measured: {reason}"),
        }
    }
}

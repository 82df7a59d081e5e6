//! Measures the cases of a benchmark in ns of processor time per packet, beside a peer that does the same work.
//!
//! ```text
//! cargo bench -p PACKAGE --bench NAME -- [CASE...] [--seconds S] [--record] [--fixed PACKETS]
//! ```
//! A case is selected by a part of its name that does not end within a number. Each figure and each ratio is printed with
//! the one that `tools/benches/SPEED.md` has on record; `--record` writes the new ones there. `--fixed` passes that many
//! packets and prints nothing: `tools/benches/count` uses it to count events of the processor. A case whose batches are too
//! far apart is measured again, five times at most, as the machine may have had other work; if they never agree, their
//! spread is printed instead of a figure, and no ratio.

pub mod peers;
mod speed;
pub mod traffic;

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use peers::{Figure, Peer};
use speed::Speed;

/// The processor time of this process, threads that have ended included, which other processes disturb less than the time of day.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The least number of batches whose median counts.
const BATCHES: usize = 5;

/// The least number of calls that a cold case makes, and the number of groups of them whose medians count.
const COLD_CALLS: usize = 100;
const COLD_BATCHES: usize = 10;
/// More than the caches of a processor hold.
const OTHER_DATA: usize = 64 << 20;

/// The cases that the command line selects, how to measure them, and the figures so far.
pub struct Harness {
    names: Vec<String>,
    fixed: Option<u64>,
    seconds: f64,
    measured: Vec<(String, f64)>,
    speed: Speed,
}

impl Harness {
    /// Reads the arguments that `cargo bench` passes.
    pub fn from_args() -> Self {
        let (mut names, mut fixed, mut seconds, mut record) = (Vec::new(), None, 1.0, false);
        let mut arguments = std::env::args();
        let program = PathBuf::from(arguments.next().unwrap_or_default());
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next().and_then(|text| text.parse::<f64>().ok());
            match argument.as_str() {
                "--bench" => {}
                "--record" => record = true,
                "--test" => fixed = Some(1),
                "--fixed" => fixed = Some(number().expect("--fixed needs a number of packets") as u64),
                "--seconds" => seconds = number().expect("--seconds needs a number"),
                name => names.push(name.to_owned()),
            }
        }
        // Cargo appends a hash to the name of the benchmark.
        let stem = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let bench = stem.rsplit_once('-').map_or(stem.as_str(), |(bench, _)| bench);
        let speed = Speed::new(peers::root().join("tools/benches/SPEED.md"), bench, record);
        Self { names, fixed, seconds, measured: Vec::new(), speed }
    }

    fn selects(&self, name: &str) -> bool {
        let ends = |after: &str| !after.starts_with(|next: char| next.is_ascii_digit());
        self.names.is_empty()
            || self.names.iter().any(|part| name.split_once(part.as_str()).is_some_and(|(_, after)| ends(after)))
    }

    /// Measures a case, each call of which passes `packets`, over and over: what fits into the caches is in them. The time that
    /// `make` takes is not counted.
    pub fn case<F: FnMut()>(&mut self, name: &str, packets: u64, make: impl FnOnce() -> F) {
        let Some(mut call) = self.start(name, packets, make) else { return };
        let mut time = |calls: u64| {
            let begin = processor_time();
            (0..calls).for_each(|_| call());
            processor_time() - begin
        };
        // A batch takes at least a hundredth of the time. A third of the time passes first, for the caches and the branch
        // predictor.
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
        let seconds = self.seconds;
        self.print_batches(name, || {
            let (mut batches, begin) = (Vec::new(), processor_time());
            while batches.len() < BATCHES || (processor_time() - begin).as_secs_f64() < seconds {
                batches.push(time(calls).as_nanos() as f64 / (calls * packets) as f64);
            }
            batches
        });
    }

    /// Measures a case as [`case`](Self::case) does, but before each call the caches are filled with something else, as if another
    /// program had run. Each call should pass as many packets as the case has together after such a pause.
    pub fn cold_case<F: FnMut()>(&mut self, name: &str, packets: u64, make: impl FnOnce() -> F) {
        let Some(mut call) = self.start(name, packets, make) else { return };
        let mut other = vec![0_u8; OTHER_DATA];
        let mut time = |call: &mut dyn FnMut()| {
            other.iter_mut().step_by(64).for_each(|line| *line = line.wrapping_add(1));
            let begin = processor_time();
            call();
            (processor_time() - begin).as_nanos() as f64
        };
        // Reading the clock twice takes part of a microsecond.
        let clock = peers::median(&mut (0..BATCHES).map(|_| time(&mut || ())).collect::<Vec<_>>());
        let seconds = self.seconds;
        self.print_batches(name, || {
            let (mut times, begin) = (Vec::new(), processor_time());
            while times.len() < COLD_CALLS || (processor_time() - begin).as_secs_f64() < seconds {
                times.push((time(&mut call) - clock) / packets as f64);
            }
            // Single calls differ in what they do; a batch of them does not.
            times.chunks(times.len() / COLD_BATCHES).map(|times| peers::median(&mut times.to_vec())).collect()
        });
    }

    /// What a case calls, if it is selected and to be measured.
    fn start<F: FnMut()>(&self, name: &str, packets: u64, make: impl FnOnce() -> F) -> Option<F> {
        if !self.selects(name) {
            return None;
        }
        let mut call = make();
        if let Some(fixed) = self.fixed {
            (0..fixed.div_ceil(packets)).for_each(|_| call());
            return None;
        }
        Some(call)
    }

    /// Measures until the batches agree, and reports their median.
    fn print_batches(&mut self, name: &str, mut batches: impl FnMut() -> Vec<f64>) {
        let figure = peers::steady(|| Ok::<_, Infallible>(Figure::of(batches())), |figure| figure.is_steady());
        let Ok(figure) = figure;
        let Figure { median, spread } = figure;
        if figure.is_steady() {
            self.print(name, median, &format!("ns, 10 to 90 % of the batches within {spread:.0} %"));
            self.speed.set(name, median, Some(spread), None);
        } else {
            println!("{name:<40} {:>12}: 10 to 90 % of the batches within {spread:.0} %", "unsteady");
            self.speed.set(name, f64::NAN, Some(spread), None);
        }
    }

    /// Reports a figure that is not a time per packet.
    pub fn figure(&mut self, name: &str, unit: &str, measure: impl FnOnce() -> f64) {
        if self.fixed.is_none() && self.selects(name) {
            let figure = measure();
            self.print(name, figure, unit);
        }
    }

    fn print(&mut self, name: &str, figure: f64, unit: &str) {
        println!("{name:<40} {figure:>12.2} {unit}{}", self.speed.recorded_figure(name));
        self.measured.push((name.to_owned(), figure));
        self.speed.set(name, figure, None, None);
    }

    /// Whether all cases are measured, so that what is slow beside them is worth its time.
    pub fn is_complete(&self) -> bool {
        self.fixed.is_none() && self.names.is_empty()
    }

    /// The figure of a case, if it was measured.
    fn measured(&self, name: &str) -> Option<f64> {
        self.measured.iter().find(|(case, _)| case == name).map(|(_, figure)| *figure)
    }

    /// Prints `figure` of `peer` beside the case `name`, if that was measured.
    pub fn beside(&mut self, name: &str, peer: Peer, figure: &str) {
        let Some(ours) = self.measured(name) else { return };
        match peers::measure(peer).map(|figures| figures.get(figure).copied()) {
            Ok(Some(theirs)) if !theirs.is_steady() => {
                println!("  {peer:?}: unsteady: its rounds are {:.0} % apart", theirs.spread);
            }
            Ok(Some(theirs)) => self.ratio(name, ours, &format!("{peer:?}"), theirs.median),
            Ok(None) => println!("  {peer:?}: not measured: it reports no {figure}"),
            Err(reason) => println!("  {peer:?}: not measured: {reason}"),
        }
    }

    /// Prints the ratio of the case `name` to the case `base`, if both were measured.
    pub fn against(&mut self, name: &str, base: &str) {
        if let (Some(ours), Some(theirs)) = (self.measured(name), self.measured(base)) {
            self.ratio(name, ours, base, theirs);
        }
    }

    /// Prints the ratio of `ours`, the figure of the case `name`, to one that was measured in the same run.
    pub fn ratio(&mut self, name: &str, ours: f64, beside: &str, theirs: f64) {
        let (ratio, recorded) = (ours / theirs, self.speed.recorded_ratio(name));
        println!("{:<40} {theirs:>12.2}, {name} is {ratio:.2} of it{recorded}", format!("  {beside}"));
        self.speed.set(name, ours, None, Some(theirs));
    }
}

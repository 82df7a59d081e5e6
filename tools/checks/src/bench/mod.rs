//! The table of speed: every row beside its peer in the same run, in turn, with the noise of the machine.
//!
//! `tidegate-checks bench [PART...]` measures the rows whose names contain a part, five rounds of ours and the peer's,
//! writes medians and spreads with the date into `tools/benches/SPEED.md`, which keeps the other rows, and appends them to
//! `tools/benches/history.csv` (date, commit, row, figure, ratio). It returns a line for each row that is slower than its last
//! entry there by more than both the spread and a tenth. `bench --counts [PART...]` counts events of the processor alone.

mod page;
#[path = "../../../benches/peers.rs"]
mod peers;
mod rows;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use page::Page;
use peers::{Peer, median};
use rows::{Against, Aim, Ours, ROWS, Row};

const ROUNDS: usize = 5;
const PAGE: &str = "tools/benches/SPEED.md";
const HISTORY: &str = "tools/benches/history.csv";
const EVENTS: &str = "cycles,instructions,cache-misses";
const MODELLED: &str = "instructions,L1 misses,last-level misses";

/// Figures of the rounds, or why there are none.
type Figures = Result<Vec<f64>, String>;

/// A line for each row that became slower.
pub fn check(root: &Path, arguments: &[&str]) -> io::Result<Vec<String>> {
    let (counts, parts) = match arguments {
        ["--counts", parts @ ..] => (true, parts),
        parts => (false, parts),
    };
    let selected = |row: &&Row| parts.is_empty() || parts.iter().any(|part| row.name.contains(part));
    let rows: Vec<&Row> = ROWS.iter().filter(selected).collect();
    if rows.is_empty() {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        return Err(io::Error::other(format!("no row has such a name; there are: {}", names.join("; "))));
    }
    let mut page = Page::read(&std::fs::read_to_string(root.join(PAGE)).unwrap_or_default());
    let mut run = Run::default();
    if counts {
        for row in rows {
            if let Some((package, bench, ..)) = counted(row) {
                let program = run.program(package, bench)?;
                run.count(&program, row);
            }
        }
        run.counters.iter().for_each(|(row, counters)| {
            println!("{row}: {counters}");
            page.set_counters(row, counters);
        });
        std::fs::write(root.join(PAGE), page.text())?;
        return Ok(Vec::new());
    }
    let before = steal()?;
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        run.round(&rows)?;
    }
    let after = steal()?;
    let stolen = (after.0 - before.0) / (after.1 - before.1).max(1.0) * 100.0;
    let (date, commit) = (output("date", &["-u", "+%F %H:%M UTC"])?, output("git", &["rev-parse", "--short", "HEAD"])?);
    let history = std::fs::read_to_string(root.join(HISTORY)).unwrap_or_default();
    let results: Vec<Measured> = rows.into_iter().map(|row| run.result(row, &history)).collect();
    let name = format!("{date}, {commit}");
    page.set_run(&name, format!("of the time of the processors the hypervisor took {stolen:.1} %"));
    results.iter().for_each(|result| page.set_row(result.cells(), &name, result.unmeasured().as_deref()));
    run.counters.iter().for_each(|(row, counters)| page.set_counters(row, counters));
    let page = page.text();
    print!("{page}");
    std::fs::write(root.join(PAGE), page)?;
    append(&root.join(HISTORY), &results, &date, &commit)?;
    Ok(results.iter().filter_map(Measured::slower).collect())
}

/// What a round measured, by benchmark case, figure of the live path, or figure of a peer.
#[derive(Default)]
struct Run {
    programs: BTreeMap<(&'static str, &'static str), PathBuf>,
    cases: BTreeMap<(&'static str, &'static str, String), Vec<f64>>,
    peers: BTreeMap<Peer, Result<BTreeMap<String, Vec<f64>>, String>>,
    /// Events of the processor for a packet, by row.
    counters: BTreeMap<&'static str, String>,
    /// Why the processor counts nothing, once that is known.
    without_counters: Option<String>,
    /// Whether `target/release/tidegate` has been compiled.
    compiled: bool,
}

impl Run {
    /// Runs each benchmark with the cases of `rows`, and after it the peers of these rows.
    fn round(&mut self, rows: &[&'static Row]) -> io::Result<()> {
        let mut done = Vec::new();
        for row in rows {
            match row.ours {
                Ours::Case(package, bench, _) if !done.contains(&(package, bench)) => {
                    done.push((package, bench));
                    self.benchmark(package, bench, rows)?;
                    for row in
                        rows.iter().filter(|row| matches!(row.ours, Ours::Case(p, b, _) if (p, b) == (package, bench)))
                    {
                        if let Against::Peer(peer, _) = row.against
                            && !done.contains(&(row.name, ""))
                        {
                            let same = |other: &&&Row| matches!(other.against, Against::Peer(p, _) if p == peer);
                            done.extend(rows.iter().filter(same).map(|other| (other.name, "")));
                            self.peer(peer);
                        }
                    }
                }
                Ours::Live(peer, _) if !done.contains(&(row.name, "")) => {
                    let same = |other: &&&Row| matches!(other.ours, Ours::Live(p, _) if p == peer);
                    done.extend(rows.iter().filter(same).map(|other| (other.name, "")));
                    self.tidegate()?;
                    self.peer(peer);
                    self.peer(if peer == Peer::Live { Peer::Htb } else { Peer::HtbPaced });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The program of a benchmark, which is compiled first.
    fn program(&mut self, package: &'static str, bench: &'static str) -> io::Result<PathBuf> {
        if let Some(program) = self.programs.get(&(package, bench)) {
            return Ok(program.clone());
        }
        let program = build(package, bench)?;
        self.programs.insert((package, bench), program.clone());
        Ok(program)
    }

    /// Counts the events of the processor for a packet of `row`, if they are [`counted`].
    fn count(&mut self, program: &Path, row: &'static Row) {
        let Some((_, _, case, call)) = counted(row) else { return };
        match counters(program, case, call, &mut self.without_counters) {
            Ok(counters) => drop(self.counters.insert(row.name, counters)),
            Err(reason) => eprintln!("{}: not counted: {reason}", row.name),
        }
    }

    fn benchmark(&mut self, package: &'static str, bench: &'static str, rows: &[&'static Row]) -> io::Result<()> {
        let known = self.programs.contains_key(&(package, bench));
        let program = self.program(package, bench)?;
        if !known {
            let same = |row: &&&Row| matches!(row.ours, Ours::Case(p, b, _) if (p, b) == (package, bench));
            // Of a case that repeats many packets the model takes minutes.
            let short = |row: &&&Row| counted(row).is_some_and(|(.., call)| call == 1);
            rows.iter().filter(same).filter(short).for_each(|row| self.count(&program, row));
        }
        let mut command = Command::new(program);
        command.args(["--rows", "--seconds", "0.5"]);
        for row in rows {
            if let Ours::Case(p, b, case) = row.ours
                && (p, b) == (package, bench)
            {
                command.arg(case);
                if let Against::Case(base) = row.against {
                    command.arg(base);
                }
            }
        }
        let text = text_of(&mut command)?;
        for line in text.lines().filter_map(|line| line.strip_prefix("row ")) {
            if let Some((case, figure)) = line.rsplit_once(' ')
                && let Ok(figure) = figure.parse()
            {
                self.cases.entry((package, bench, case.to_owned())).or_default().push(figure);
            }
        }
        Ok(())
    }

    /// Compiles the program once, with the profile of the benchmarks, which have compiled most of it.
    fn tidegate(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.compiled, true) {
            text_of(Command::new("cargo").args(["build", "--locked", "--profile", "bench", "-q", "-p", "tidegate"]))?;
        }
        Ok(())
    }

    fn peer(&mut self, peer: Peer) {
        let kept = self.peers.entry(peer).or_insert_with(|| Ok(BTreeMap::new()));
        let Ok(figures) = kept else { return };
        match peers::measure(peer) {
            Ok(new) => new.into_iter().for_each(|(name, figure)| figures.entry(name).or_default().push(figure)),
            Err(reason) => *kept = Err(reason),
        }
    }

    fn of_peer(&self, peer: Peer, figure: &str) -> Figures {
        match self.peers.get(&peer) {
            Some(Ok(figures)) => figures.get(figure).cloned().ok_or_else(|| format!("it reports no {figure}")),
            Some(Err(reason)) => Err(reason.clone()),
            None => Err("it was not run".into()),
        }
    }

    fn of_case(&self, package: &'static str, bench: &'static str, case: &str) -> Figures {
        let missing = || format!("{package} has no case {case} in its benchmark {bench}");
        self.cases.get(&(package, bench, case.to_owned())).cloned().ok_or_else(missing)
    }

    fn result(&self, row: &'static Row, history: &str) -> Measured {
        let ours = match row.ours {
            Ours::Case(package, bench, case) => self.of_case(package, bench, case),
            Ours::Live(peer, figure) => self.of_peer(peer, figure),
        };
        let theirs = match (row.against, row.ours) {
            (Against::Peer(peer, figure), _) => Some(self.of_peer(peer, figure)),
            (Against::Case(base), Ours::Case(package, bench, _)) => Some(self.of_case(package, bench, base)),
            _ => None,
        };
        let field = format!("\"{}\"", row.name);
        let last = history.lines().rev().find(|line| line.split_once(&field).is_some());
        let last = last.and_then(|line| line.rsplit(',').nth(1)?.parse().ok());
        Measured { row, ours: summary(ours), theirs: theirs.map(summary), last }
    }
}

/// The package, the benchmark and the case whose events are counted, and of how many packets each of its calls is.
fn counted(row: &Row) -> Option<(&'static str, &'static str, &'static str, u32)> {
    match row.ours {
        Ours::Case(package @ ("tidegate-core" | "tidegate-engine"), bench, case) if row.unit == "ns" => {
            Some((package, bench, case, 1))
        }
        Ours::Case(package @ "tidegate-replay", bench, case) => Some((package, bench, case, 1_000_000)),
        _ => None,
    }
}

/// A median, with the distance of the largest and the smallest in percent of it.
type Summary = Result<(f64, f64), String>;

fn summary(figures: Figures) -> Summary {
    let mut figures = figures?;
    let middle = median(&mut figures);
    Ok((middle, (figures[figures.len() - 1] - figures[0]) / middle * 100.0))
}

struct Measured {
    row: &'static Row,
    ours: Summary,
    theirs: Option<Summary>,
    last: Option<f64>,
}

impl Measured {
    fn ratio(&self) -> Option<f64> {
        Some(self.ours.as_ref().ok()?.0 / self.theirs.as_ref()?.as_ref().ok()?.0)
    }
    /// Whether the aim is reached; `None` where it cannot be judged.
    fn reached(&self) -> Option<bool> {
        match self.row.aim {
            Aim::AtMost(most) => Some(self.ours.as_ref().ok()?.0 <= most),
            Aim::RatioAtMost(most) => Some(self.ratio()? <= most),
            Aim::RatioAtLeast(least) => Some(self.ratio()? >= least),
            Aim::None => None,
        }
    }
    /// The cells of its row in the table, but for the run.
    fn cells(&self) -> [String; 9] {
        let row = self.row;
        let number = |value: f64| if value >= 1e5 { format!("{:.3} M", value / 1e6) } else { format!("{value:.1}") };
        let cells = |summary: Option<&Summary>| match summary {
            Some(Ok((middle, spread))) => [number(*middle), format!("{spread:.0} %")],
            Some(Err(_)) => ["not measured".into(), String::new()],
            None => [String::new(), String::new()],
        };
        let aim = match row.aim {
            Aim::AtMost(most) => format!("≤ {most} {}", row.unit),
            Aim::RatioAtMost(most) => format!("≤ {most} of it"),
            Aim::RatioAtLeast(least) => format!("≥ {least} of it"),
            Aim::None => String::new(),
        };
        let reached = self.reached().map_or("", |reached| if reached { "yes" } else { "no" });
        let ([ours, spread], [theirs, their_spread]) = (cells(Some(&self.ours)), cells(self.theirs.as_ref()));
        let ratio = self.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        [row.name.into(), row.unit.into(), ours, spread, theirs, their_spread, ratio, aim, reached.into()]
    }
    /// Why a figure of it is missing.
    fn unmeasured(&self) -> Option<String> {
        let reasons = [Some(&self.ours), self.theirs.as_ref()].map(|summary| summary?.as_ref().err());
        reasons.into_iter().flatten().next().cloned()
    }
    fn slower(&self) -> Option<String> {
        let (&(ours, spread), last) = (self.ours.as_ref().ok()?, self.last?);
        let larger_is_better = matches!(self.row.aim, Aim::RatioAtLeast(_)) || self.row.unit == "of one";
        let change = if larger_is_better { last / ours } else { ours / last } * 100.0 - 100.0;
        (change > spread.max(10.0)).then(|| {
            format!(
                "{}: {ours:.1} {}, {last:.1} when last measured; spread {spread:.0} %",
                self.row.name, self.row.unit
            )
        })
    }
}

fn append(path: &Path, results: &[Measured], date: &str, commit: &str) -> io::Result<()> {
    let new = !path.exists();
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    if new {
        writeln!(file, "date,commit,row,figure,ratio")?;
    }
    for result in results {
        if let Ok((ours, _)) = result.ours {
            let ratio = result.ratio().map_or_else(String::new, |ratio| format!("{ratio:.3}"));
            writeln!(file, "{date},{commit},\"{}\",{ours:.3},{ratio}", result.row.name)?;
        }
    }
    Ok(())
}

/// Compiles a benchmark and returns its program.
fn build(package: &str, bench: &str) -> io::Result<PathBuf> {
    let arguments =
        ["bench", "--locked", "--no-run", "--message-format", "json", "-q", "-p", package, "--bench", bench];
    let text = text_of(Command::new("cargo").args(arguments))?;
    let artefacts = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    artefacts
        .filter(|message| message["target"]["name"] == bench)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| io::Error::other(format!("{package} has no benchmark {bench}")))
}

/// Events for a packet, as the processor counts them; where it counts nothing, those of valgrind's model of a processor,
/// for cases that are set up in a moment.
fn counters(program: &Path, case: &str, call: u32, without: &mut Option<String>) -> Result<String, String> {
    if without.is_none() {
        match differences(program, case, 1_000_000, count_by_perf) {
            Ok(counts) => return Ok(text_of_counts(EVENTS, &counts)),
            Err(reason) => *without = Some(reason),
        }
    }
    if case.ends_with("/1000000") {
        return Err(format!("{}, and the model takes minutes", without.as_deref().unwrap_or_default()));
    }
    differences(program, case, call.max(20_000), count_by_model).map(|counts| text_of_counts(MODELLED, &counts))
}

fn text_of_counts(events: &str, counts: &[f64]) -> String {
    events
        .split(',')
        .zip(counts)
        .map(|(event, count)| format!("{event} {:.2}", count.max(0.0)))
        .collect::<Vec<_>>()
        .join(", ")
}

type Counter = fn(&mut Command) -> Result<Vec<f64>, String>;

/// Events a packet: the difference of two runs that differ by `packets`.
fn differences(program: &Path, case: &str, packets: u32, count: Counter) -> Result<Vec<f64>, String> {
    let run = |packets: u32| {
        let mut arguments = Command::new("a program");
        count(arguments.arg(program).args(["--fixed", &packets.to_string(), case]))
    };
    let (first, second) = (run(packets)?, run(2 * packets)?);
    Ok(first.iter().zip(&second).map(|(first, second)| (second - first) / f64::from(packets)).collect())
}

/// Runs `program` under `tool` with its options, and returns what the tool reports.
fn under(tool: &str, options: &[&str], program: &Command, package: &str) -> Result<String, String> {
    let output = Command::new(tool).args(options).args(program.get_args()).output();
    let output = output.map_err(|error| format!("{tool}: {error} (Debian: {package})"))?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn count_by_perf(program: &mut Command) -> Result<Vec<f64>, String> {
    let text = under("perf", &["stat", "-x", ",", "-e", EVENTS, "--"], program, "linux-perf")?;
    let counts: Vec<f64> = text.lines().filter_map(|line| line.split(',').next()?.parse().ok()).collect();
    let all = counts.len() == EVENTS.split(',').count();
    all.then_some(counts).ok_or_else(|| format!("perf counts no {EVENTS} on this machine"))
}

fn count_by_model(program: &mut Command) -> Result<Vec<f64>, String> {
    let options = ["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"];
    let text = under("valgrind", &options, program, "valgrind")?;
    let count = |name: &str| {
        let (_, after) = text.split_once(name)?;
        let digits: String = after.trim_start().chars().take_while(|&c| c.is_ascii_digit() || c == ',').collect();
        digits.replace(',', "").parse().ok()
    };
    let counts: Option<Vec<f64>> = ["I   refs:", "D1  misses:", "LLd misses:"].into_iter().map(count).collect();
    counts.ok_or_else(|| "valgrind reported no counts".into())
}

/// Time that the hypervisor took, and all time, in ticks.
fn steal() -> io::Result<(f64, f64)> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_whitespace().skip(1).take(8).filter_map(|tick| tick.parse().ok()).collect();
    Ok((ticks.get(7).copied().unwrap_or(0.0), ticks.iter().sum()))
}

fn output(program: &str, arguments: &[&str]) -> io::Result<String> {
    Ok(text_of(Command::new(program).args(arguments))?.trim().to_owned())
}

fn text_of(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let program = command.get_program().display();
    Err(io::Error::other(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

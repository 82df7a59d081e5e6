//! RFC 2963, appendix A: does a rate adaptive shaper before a marker help TCP?
//!
//! `experiments/rfc2963/README.md` has what is expected, what was found, and why each open parameter is what it is.

mod open;
mod scenario;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Item, Options};
use crate::Failure;
use scenario::{CIRS, Customer, Outcome, Setup};
use tidegate_core::Colour;
use tidegate_core::ras::Coupling;

/// The RFC's numbers.
const TABLES: &str = include_str!("../../../../../experiments/rfc2963/tables.csv");

/// One cell of the RFC's tables.
#[derive(Clone, Debug)]
struct Cell<'a> {
    table: &'a str,
    cbs_kb: u64,
    /// 1 to 10, for C1 to C10.
    customer: usize,
    what: &'a str,
    value: f64,
}

/// All cells, in the order of the RFC.
fn cells() -> impl Iterator<Item = Cell<'static>> {
    TABLES.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let [table, cbs, router, what, value] = fields[..] else { panic!("tables.csv: `{line}` has not five fields") };
        let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("tables.csv: `{line}`: no number"));
        Cell {
            table,
            cbs_kb: number(cbs) as u64,
            customer: number(router.trim_start_matches('c')) as usize,
            what,
            value: number(value),
        }
    })
}

impl Cell<'_> {
    /// Tables A.2 to A.4 are with trRAS, A.5 to A.7 with G-trRAS.
    fn shaper(&self) -> Coupling {
        if matches!(self.table, "a2" | "a3" | "a4") { Coupling::Uncoupled } else { Coupling::Green }
    }
    fn id(&self) -> String {
        match self.what {
            "goodput" => format!("{}.cbs{}.c{}", self.table, self.cbs_kb, self.customer),
            what => format!("{}.c{}.{what}", self.table, self.customer),
        }
    }
    fn measured(&self, customer: &Customer) -> f64 {
        match self.what {
            "green" => customer.colour(Colour::Green),
            "yellow" => customer.colour(Colour::Yellow),
            "total" => customer.total(),
            _ => customer.goodput,
        }
    }
    fn describe(&self) -> String {
        let (cir, shaped) = (CIRS[(self.customer - 1) % 5], self.customer > 5);
        let how = match (shaped, self.shaper()) {
            (false, _) => "no shaper",
            (true, Coupling::Uncoupled) => "trRAS",
            (true, Coupling::Green) => "G-trRAS",
        };
        format!("{} of C{}: CIR {cir} Mbit/s, CBS {} KB, {how}", self.what, self.customer, self.cbs_kb)
    }
}

/// How far a cell may be from the RFC, and why further than 10 % where it may. The page has more on each.
fn tolerance(cell: &Cell<'_>) -> (f64, &'static str) {
    match (cell.table, cell.customer, cell.what) {
        (_, 1, _) if cell.cbs_kb == 3 => {
            (0.25, "ten starving connections live by their timers; with 50 ms ER1 to ER2 all are within 5 %")
        }
        ("a3", 8..=10, "yellow") => (0.30, "yellow follows K: with 20 ms within 7 %"),
        ("a2", 4 | 5, "yellow") => (0.20, "yellow follows K: C5's is within 2 % with 500 ms"),
        ("a4", 6, _) => (0.25, "the delay in the shaper follows K: with 2 s within 11 %"),
        ("a7", 6, _) => (0.20, "the delay in the shaper follows thresholds and K"),
        ("a5", ..) | ("a7", 3, _) if cell.cbs_kb == 3 => (0.15, "takes what the shaped routers of A.6 leave"),
        ("a6", _, "yellow") => (0.35, "the RFC leaves the schedule after an early green release open"),
        ("a6", _, "total") => (0.15, "its yellow"),
        _ => (0.10, ""),
    }
}

/// `item` with the bounds of `cell`.
fn bound(cell: &Cell<'_>, item: Item) -> Item {
    let (tolerance, why) = tolerance(cell);
    item.within(cell.value * (1.0 - tolerance), cell.value * (1.0 + tolerance)).note(why)
}

/// Runs every setup once, in parallel on the cores there are; results in the order of the setups.
fn simulate(setups: &[Setup]) -> Result<Vec<Outcome>, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(setups.len().max(1));
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(setup) = setups.get(n) else { return done };
            done.push((n, scenario::run(setup)));
        }
    };
    let mut results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        // A worker that panics has a bug that the user should see.
        threads.into_iter().flat_map(|thread| thread.join().expect("a simulation panicked")).collect()
    });
    results.sort_by_key(|(n, _)| *n);
    results.into_iter().map(|(_, outcome)| outcome).collect()
}

/// The outcomes of one setup under several seeds.
struct Runs(Vec<Outcome>);

impl Runs {
    fn values<'a>(&'a self, of: impl Fn(&Outcome) -> f64 + 'a) -> impl Iterator<Item = f64> + 'a {
        self.0.iter().map(of)
    }
    /// The mean over the runs.
    fn mean(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        self.values(of).sum::<f64>() / self.0.len() as f64
    }
    /// The standard deviation over the runs; `None` for one.
    fn deviation(&self, of: impl Fn(&Outcome) -> f64 + Copy) -> Option<f64> {
        let (mean, n) = (self.mean(of), self.0.len());
        (n > 1).then(|| (self.values(of).map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1) as f64).sqrt())
    }
    /// The mean of something of customer `n` (1 to 10).
    fn customer(&self, n: usize, of: impl Fn(&Customer) -> f64) -> f64 {
        self.mean(|outcome| of(&outcome.customers[n - 1]))
    }
    /// How much more the shaped twin of the `n`-th CIR (1 to 5) has than the unshaped one.
    fn gain(&self, n: usize, of: impl Fn(&Customer) -> f64 + Copy) -> f64 {
        self.customer(n + 5, of) / self.customer(n, of)
    }
}

/// The runs of several setups, each under the seeds that `options` asks for.
fn simulate_runs(setups: &[Setup], options: &Options) -> Result<Vec<Runs>, Failure> {
    let seeds = || (0..u64::from(options.runs)).map(|n| options.seed.wrapping_add(n));
    let all: Vec<Setup> = setups.iter().flat_map(|&setup| seeds().map(move |seed| Setup { seed, ..setup })).collect();
    let mut outcomes = simulate(&all)?.into_iter();
    Ok(setups.iter().map(|_| Runs(outcomes.by_ref().take(options.runs as usize).collect())).collect())
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    if options.only.as_deref().is_some_and(|only| only.starts_with("sensitivity")) {
        return open::sensitivity(options);
    }
    let mut items = open::chosen();
    // Only what is wanted is simulated; claims need all.
    let claims = ["claim", "check"].iter().any(|group| options.wants(group));
    let mut wanted: Vec<(Coupling, u64)> =
        cells().filter(|cell| claims || options.wants(&cell.id())).map(|cell| (cell.shaper(), cell.cbs_kb)).collect();
    wanted.sort_by_key(|&(shaper, cbs)| (shaper == Coupling::Green, cbs));
    wanted.dedup();
    let setups: Vec<Setup> = wanted.iter().map(|&(shaper, cbs)| Setup::new(shaper, cbs, options.seed)).collect();
    let runs = simulate_runs(&setups, options)?;
    let runs: BTreeMap<(bool, u64), Runs> =
        wanted.iter().map(|&(shaper, cbs)| (shaper == Coupling::Green, cbs)).zip(runs).collect();
    for cell in cells() {
        let Some(runs) = runs.get(&(cell.shaper() == Coupling::Green, cell.cbs_kb)) else { continue };
        let of = |outcome: &Outcome| cell.measured(&outcome.customers[cell.customer - 1]);
        let item = Item::measured(cell.id(), cell.describe(), "Mbit/s", runs.mean(of)).paper(cell.value);
        let mut item = bound(&cell, item);
        if let Some(deviation) = runs.deviation(of) {
            let spread = format!("sd {deviation:.3} over {} runs", options.runs);
            item.note = if item.note.is_empty() { spread } else { format!("{spread}; {}", item.note) };
        }
        items.push(item);
    }
    if claims {
        items.extend(claim_items(&runs));
    }
    Ok(items)
}

/// The RFC's conclusions as bounds on ratios shaped over unshaped.
fn claim_items(runs: &BTreeMap<(bool, u64), Runs>) -> Vec<Item> {
    let mut items = Vec::new();
    let at = |green: bool, cbs: u64| &runs[&(green, cbs)];
    let large = [100, 150, 200, 300, 400];
    for (name, green) in [("trras", false), ("gtrras", true)] {
        for (n, cir) in CIRS.into_iter().enumerate() {
            for (what, of) in
                [("green", (|c| c.colour(Colour::Green)) as fn(&Customer) -> f64), ("total", Customer::total)]
            {
                let gain = at(green, 3).gain(n + 1, of);
                let id = format!("claim.{name}.{what}.cir{cir}");
                let text = format!("{what} throughput at CBS 3 KB, shaped over unshaped, CIR {cir} Mbit/s");
                items.push(above_one(Item::measured(id, text, "ratio", gain)));
            }
        }
        for (n, cir) in [(1, 2), (3, 6)] {
            let of = |customer: &Customer| customer.goodput;
            let small = at(green, 3).gain(n, of);
            let text = format!("goodput at CBS 3 KB, shaped over unshaped, CIR {cir} Mbit/s");
            items.push(above_one(Item::measured(format!("claim.{name}.goodput.cir{cir}"), text, "ratio", small)));
            let text = format!("the advantage in goodput is gone at CBS 25 KB, CIR {cir} Mbit/s");
            let gone = Item::measured(format!("claim.{name}.gone.cir{cir}"), text, "ratio", at(green, 25).gain(n, of));
            items.push(gone.within(0.80, 1.05));
            let mean = large.iter().map(|&cbs| at(green, cbs).gain(n, of)).sum::<f64>() / large.len() as f64;
            let (text, low, high) =
                if green { ("about even", 0.90, 1.10) } else { ("slightly worse or even, not better", 0.75, 1.02) };
            let text = format!("goodput at CBS 100 KB and more, shaped over unshaped: {text}, CIR {cir} Mbit/s");
            let paper = match (green, n) {
                (false, 1) => 0.801,
                (false, _) => 0.920,
                (true, 1) => 0.917,
                (true, _) => 1.007,
            };
            let item = Item::measured(format!("claim.{name}.large.cir{cir}"), text, "ratio", mean).paper(paper);
            items.push(item.within(low, high));
        }
    }
    let worst = |of: fn(&Outcome) -> f64| runs.values().map(|runs| runs.mean(of)).fold(f64::INFINITY, f64::min);
    let busy = worst(|outcome| outcome.utilisation);
    let text = "the bottleneck is busy in every run (least utilisation)";
    items.push(Item::measured("check.utilisation", text, "fraction", busy).within(0.99, 1.0001));
    let elsewhere = runs.values().map(|runs| runs.mean(|outcome| outcome.lost_elsewhere as f64)).sum();
    let text = "packets lost in customer routers and LANs; the RFC says none";
    items.push(Item::measured("check.lost_elsewhere", text, "packets", elsewhere).within(0.0, 0.0));
    items
}

/// A ratio that must exceed one.
fn above_one(mut item: Item) -> Item {
    item.low = Some(1.0);
    item.holds = item.measured.map(|ratio| ratio > 1.0);
    item
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Span;

    #[test]
    fn the_tables_are_whole() {
        let mut ids: Vec<String> = cells().map(|cell| cell.id()).collect();
        // Four tables of five routers and three columns, two of ten bursts and four routers.
        assert_eq!(ids.len(), 4 * 15 + 2 * 40);
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 140, "every cell has its own id");
        assert!(cells().all(|cell| cell.value > 0.5 && cell.value < 12.0 && (cell.customer > 5) == cell.is_shaped()));
        let red = |table, router, total: f64| {
            let of = |what| cells().find(|cell| (cell.table, cell.customer, cell.what) == (table, router, what));
            total - of("green").unwrap().value - of("yellow").unwrap().value
        };
        // The RFC's value for red: the difference to the total. A.2, C1: 2.25 - 1.10 - 0.93.
        assert!((red("a2", 1, 2.25) - 0.22).abs() < 1e-9);
    }

    impl Cell<'_> {
        fn is_shaped(&self) -> bool {
            matches!(self.table, "a3" | "a6") || self.what == "goodput" && matches!(self.customer, 6 | 8)
        }
    }

    #[test]
    fn a_short_run_shows_the_effect_and_repeats() {
        let short = |shaper| Setup { end: Span::from_secs(8), warm_up: Span::from_secs(2), ..Setup::new(shaper, 3, 1) };
        let setups = [short(Coupling::Uncoupled), short(Coupling::Green), short(Coupling::Uncoupled)];
        let outcomes = simulate(&setups).unwrap();
        for outcome in &outcomes {
            let sum: f64 = outcome.customers.iter().map(|customer| customer.goodput).sum();
            // 70 Mbit/s less 40 of 1500 bytes of headers is 68.13. What waited at the receivers for a gap to close when
            // the warm-up ended counts too: at most 64 KB of 100 flows over 6 s, 8.7 Mbit/s, and in fact far less.
            assert!(sum > 60.0 && sum < 70.0, "{sum}");
            assert_eq!(outcome.lost_elsewhere, 0);
            let green = |n: usize| outcome.customers[n - 1].colour(Colour::Green);
            assert!((1..=5).all(|n| green(n + 5) > green(n)), "{outcome:?}");
            // No router sends more green than CIR and one burst: 3 kB over 6 s are 4 kbit/s.
            assert!((1..=10).all(|n| green(n) <= CIRS[(n - 1) % 5] as f64 + 0.004 + 1e-9), "{outcome:?}");
        }
        let numbers = |outcome: &Outcome| outcome.customers.map(|customer| (customer.sent, customer.goodput));
        assert_eq!(numbers(&outcomes[0]), numbers(&outcomes[2]), "the same seed gives the same numbers");
        assert_ne!(numbers(&outcomes[0]), numbers(&outcomes[1]));
    }

    #[test]
    fn the_scenario_file_is_the_same_network() {
        use tidegate_config::{Diagnostics, Source};
        let text = include_str!("../../../../../experiments/rfc2963/scenario.toml");
        let short = text.replace("duration = \"102s\"", "duration = \"6s\"");
        assert_ne!(text, short);
        let (source, mut diagnostics) = (Source::new("scenario.toml", short), Diagnostics::new());
        let scenario = tidegate_sim::scenario::Scenario::load(&source, None, &mut diagnostics);
        assert!(diagnostics.is_empty(), "{}", diagnostics.render(&source));
        let outcome = scenario.unwrap().run(1, |_| ());
        let goodput: f64 = outcome.values.iter().filter(|v| v.measure == "goodput").map(|v| v.value).sum();
        assert!(goodput > 60e6 && goodput < 71e6, "{goodput}");
    }
}

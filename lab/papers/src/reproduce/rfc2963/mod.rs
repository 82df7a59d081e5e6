//! RFC 2963, appendix A: does a rate adaptive shaper before a marker help TCP?
//!
//! `lab/papers/rfc2963/README.md` explains the expectations, the results, and the choice of each open parameter.

mod assumption;
mod figures;
mod open;
mod others;
mod page;
mod reading;
mod rules;
mod scenario;
mod thresholds;

use std::collections::BTreeMap;

use super::item::{Bound, Sample, paper, spread};
use super::{Item, Options, output};
use crate::Failure;
pub use figures::draw;
use scenario::{CIRS, Customer, Outcome, Setup};
use tidegate_core::Colour;
use tidegate_core::ras::Coupling;

/// The name of the experiment on the command line.
pub const NAME: &str = "rfc2963";

/// The RFC's numbers.
const TABLES: &str = include_str!("../../../rfc2963/tables.csv");

/// One cell of the RFC's tables.
#[derive(Clone, Debug)]
struct Cell<'a> {
    table: &'a str,
    cbs_kb: u64,
    /// The number of the customer router, 1 to 10 for C1 to C10.
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
    /// The shaper of the table. Tables A.2 to A.4 use trRAS, A.5 to A.7 use G-trRAS.
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

/// The relative tolerance of a cell. It is three times the spread among the RFC's own cells that differ only in a CBS
/// so large that it no longer matters.
const TOLERANCE: f64 = 0.10;

/// The bound of a cell.
fn bound(cell: &Cell<'_>) -> Bound {
    let basis = "three times the 3.4 % by which cells of A.4 and A.7 at CBS 100 KB and more are from their mean";
    Bound::near(cell.value, TOLERANCE, spread(basis))
}

/// For a cell that deviates, returns which parameter that the RFC leaves open causes this, and how far below and above
/// the RFC's value the cell may then be. A separate experiment found the cause: its items are the same cells with
/// another value of the parameter.
fn cause(cell: &Cell<'_>) -> Option<(&'static str, f64, f64)> {
    Some(match (cell.table, cell.customer, cell.what) {
        ("a2", 1, _) if cell.cbs_kb == 3 => ("sensitivity.delay.50ms.a2.c1", 0.0, 0.25),
        ("a3", 8..=10, "yellow") => ("sensitivity.averaging.20ms.a3", 0.25, 0.0),
        _ => return None,
    })
}

/// Runs every setup once. The results are in the order of the setups.
fn simulate(setups: &[Setup]) -> Result<Vec<Outcome>, Failure> {
    super::in_parallel(setups, scenario::run).into_iter().collect()
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
    /// The mean of a quantity of customer `n` (1 to 10).
    fn customer(&self, n: usize, of: impl Fn(&Customer) -> f64) -> f64 {
        self.mean(|outcome| of(&outcome.customers[n - 1]))
    }
    /// The gains of all runs, as a sample.
    fn gains(&self, n: usize, of: impl Fn(&Customer) -> f64 + Copy) -> Sample {
        Sample::of((0..self.0.len()).map(|seed| self.gain_of(seed, n, of)))
    }
    /// The gain in one run.
    fn gain_of(&self, seed: usize, n: usize, of: impl Fn(&Customer) -> f64) -> f64 {
        let customers = &self.0[seed].customers;
        of(&customers[n + 4]) / of(&customers[n - 1])
    }
    /// The ratio of the shaped customer with the `n`-th CIR (1 to 5) to the unshaped one.
    fn gain(&self, n: usize, of: impl Fn(&Customer) -> f64 + Copy) -> f64 {
        self.customer(n + 5, of) / self.customer(n, of)
    }
}

/// Makes the runs of several setups, each with the seeds that `options` asks for.
fn simulate_runs(setups: &[Setup], options: &Options) -> Result<Vec<Runs>, Failure> {
    let seeds = || (0..u64::from(options.runs)).map(|n| options.seed.wrapping_add(n));
    let all: Vec<Setup> = setups.iter().flat_map(|&setup| seeds().map(move |seed| Setup { seed, ..setup })).collect();
    let mut outcomes = simulate(&all)?.into_iter();
    Ok(setups.iter().map(|_| Runs(outcomes.by_ref().take(options.runs as usize).collect())).collect())
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    if options.only.as_deref().is_some_and(|only| only.starts_with("sensitivity")) {
        return open::sensitivity(options, open::Changes::Wanted);
    }
    if let Some(path) = &options.page {
        // This is checked before minutes of simulations begin.
        output::check_table(path, NAME)?;
    }
    let mut items = open::chosen();
    if options.wants("section") {
        items.extend(rules::run()?);
    }
    // Only the cells that are wanted are simulated.
    let needed = |cell: &Cell<'_>| {
        let (green, cbs) = (cell.shaper() == Coupling::Green, cell.cbs_kb);
        let claimed = cbs == 3 || cbs == 25 || LARGE.contains(&cbs);
        options.wants("check")
            || options.wants(&cell.id())
            || options.wants("claim.gtrras") && (green && claimed || cbs == 3)
            || options.wants("claim.trras") && !green && claimed
    };
    let mut wanted: Vec<(Coupling, u64)> = cells().filter(needed).map(|cell| (cell.shaper(), cell.cbs_kb)).collect();
    wanted.sort_by_key(|&(shaper, cbs)| (shaper == Coupling::Green, cbs));
    wanted.dedup();
    let setups: Vec<Setup> = wanted.iter().map(|&(shaper, cbs)| Setup::new(shaper, cbs, options.seed)).collect();
    let runs = simulate_runs(&setups, options)?;
    let runs: BTreeMap<(bool, u64), Runs> =
        wanted.iter().map(|&(shaper, cbs)| (shaper == Coupling::Green, cbs)).zip(runs).collect();
    for cell in cells() {
        let Some(runs) = runs.get(&(cell.shaper() == Coupling::Green, cell.cbs_kb)) else { continue };
        let measured = |outcome: &Outcome| cell.measured(&outcome.customers[cell.customer - 1]);
        let sample = Sample::of(runs.values(measured));
        let item = Item::sampled(cell.id(), cell.describe(), "Mbit/s", sample).paper(cell.value).bound(bound(&cell));
        items.push(match cause(&cell) {
            Some((finding, below, above)) => {
                item.because(finding, cell.value * (1.0 - below), cell.value * (1.0 + above))
            }
            None => item,
        });
    }
    items.extend(claim_items(options, &runs));
    if options.wants("sensitivity") {
        items.extend(open::sensitivity(options, open::Changes::Causes)?);
    }
    if options.wants("assumption") {
        items.extend(assumption::run(options)?);
    }
    if options.wants("others") {
        items.extend(others::run(options)?);
    }
    if options.wants("thresholds") {
        items.extend(thresholds::grid(options)?);
        items.extend(thresholds::tables(options)?);
    }
    if options.wants("unshaped") {
        items.extend(assumption::unshaped(options)?);
    }
    if let Some(path) = &options.page {
        output::write_table(path, NAME, &page::tables(&items))?;
    }
    Ok(items)
}

/// Values of CBS in KByte that are so large that CBS no longer matters.
const LARGE: [u64; 5] = [100, 150, 200, 300, 400];

/// The RFC's conclusions as bounds on ratios shaped over unshaped, and whether the network is the RFC's.
fn claim_items(options: &Options, runs: &BTreeMap<(bool, u64), Runs>) -> Vec<Item> {
    let mut items = Vec::new();
    let at = |green: bool, cbs: u64| &runs[&(green, cbs)];
    let large = LARGE;
    for (name, green) in [("trras", false), ("gtrras", true)] {
        if !options.wants(&format!("claim.{name}")) {
            continue;
        }
        for (n, cir) in CIRS.into_iter().enumerate() {
            for (what, of) in
                [("green", (|c| c.colour(Colour::Green)) as fn(&Customer) -> f64), ("total", Customer::total)]
            {
                let id = format!("claim.{name}.{what}.cir{cir}");
                let text = format!("{what} throughput at CBS 3 KB, shaped over unshaped, CIR {cir} Mbit/s");
                let basis = paper("A.2 and A.3: a clear advantage with a rate adaptive shaper");
                items.push(
                    Item::sampled(id, text, "ratio", at(green, 3).gains(n + 1, of)).bound(Bound::above(1.0, basis)),
                );
            }
        }
        if !green {
            items.extend(proportions(at(false, 3)));
        }
        for (n, cir) in [(1, 2), (3, 6)] {
            let goodput = |customer: &Customer| customer.goodput;
            let text = format!("goodput at CBS 25 KB, shaped over unshaped: no longer better, CIR {cir} Mbit/s");
            let gone =
                Item::sampled(format!("claim.{name}.gone.cir{cir}"), text, "ratio", at(green, 25).gains(n, goodput));
            let table = if green { "a7" } else { "a4" };
            let (at_25, at_large) = (published(table, &[25], n), published(table, &large, n));
            items.push(gone.paper(at_25).bound(ratio(at_25, "the cells at CBS 25 KB of A.4 and A.7")));
            let mean = |seed: usize| {
                large.iter().map(|&cbs| at(green, cbs).gain_of(seed, n, goodput)).sum::<f64>() / large.len() as f64
            };
            let text = if green { "about even" } else { "slightly worse" };
            let text = format!("goodput at CBS 100 KB and more, shaped over unshaped: {text}, CIR {cir} Mbit/s");
            let sample = Sample::of((0..at(green, 25).0.len()).map(mean));
            let item = Item::sampled(format!("claim.{name}.large.cir{cir}"), text, "ratio", sample).paper(at_large);
            items.push(item.bound(ratio(at_large, "the cells at CBS 100 KB and more of A.4 and A.7")));
        }
    }
    if options.wants("claim.gtrras") {
        items.extend(green_against_plain("claim", at(false, 3), at(true, 3)));
    }
    if !options.wants("check") {
        return items;
    }
    let worst = |of: fn(&Outcome) -> f64| runs.values().map(|runs| runs.mean(of)).fold(f64::INFINITY, f64::min);
    let busy = worst(|outcome| outcome.utilisation);
    let text = "the bottleneck is busy in every run (least utilisation)";
    let basis = paper("A.1: the link between the edge routers is the bottleneck");
    items.push(Item::measured("check.utilisation", text, "fraction", busy).bound(Bound::between(0.99, 1.0001, basis)));
    let elsewhere = runs.values().map(|runs| runs.mean(|outcome| outcome.lost_elsewhere as f64)).sum();
    let text = "packets lost in customer routers and LANs";
    let basis = paper("A.1: links and customer routers are not a bottleneck and no losses occur");
    items.push(
        Item::measured("check.lost_elsewhere", text, "packets", elsewhere).paper(0.0).bound(Bound::at_most(0.0, basis)),
    );
    items
}

/// The fraction of its packets that a router marks green, shaped over unshaped.
fn proportions(runs: &Runs) -> Vec<Item> {
    let cell = |table: &str, customer: usize, what: &str| {
        let mut found = cells().filter(|cell| (cell.table, cell.customer, cell.what) == (table, customer, what));
        found.next().map_or(f64::NAN, |cell| cell.value)
    };
    let part = |table: &str, customer: usize| cell(table, customer, "green") / cell(table, customer, "total");
    let item = |(n, cir): (usize, u64)| {
        let basis = paper("A.2: the improvement is the result of the higher proportion of packets marked as green");
        let what = format!("green of the total at CBS 3 KB, shaped over unshaped, CIR {cir} Mbit/s");
        let sample = runs.gains(n, |customer| customer.colour(Colour::Green) / customer.total());
        Item::sampled(format!("claim.trras.proportion.cir{cir}"), what, "ratio", sample)
            .paper(part("a3", n + 5) / part("a2", n))
            .bound(Bound::above(1.0, basis))
    };
    (1..).zip(CIRS).map(item).collect()
}

/// The goodput of table A.4 or A.7, shaped over unshaped, for the `n`-th CIR: the mean of the ratios over `cbs`.
fn published(table: &str, cbs: &[u64], n: usize) -> f64 {
    let goodput = |cbs: u64, customer: usize| {
        let mut found = cells().filter(|cell| (cell.table, cell.cbs_kb, cell.customer) == (table, cbs, customer));
        found.next().map_or(f64::NAN, |cell| cell.value)
    };
    cbs.iter().map(|&cbs| goodput(cbs, n + 5) / goodput(cbs, n)).sum::<f64>() / cbs.len() as f64
}

/// The bound of a ratio of two cells, with the tolerance of a single cell.
fn ratio(value: f64, source: &str) -> Bound {
    Bound::near(value, TOLERANCE, spread(format!("{source}, with the bound of a cell")))
}

/// The RFC's statements that compare the green shaper with the other one.
fn green_against_plain(group: &str, plain: &Runs, green: &Runs) -> Vec<Item> {
    let shaped = |outcome: &Outcome, of: fn(&Customer) -> f64| outcome.customers[5..].iter().map(of).sum::<f64>();
    let over = |of: fn(&Customer) -> f64| {
        Sample::of(green.0.iter().zip(&plain.0).map(|(green, plain)| shaped(green, of) / shaped(plain, of)))
    };
    let better = paper("A.3: shaped traffic performs again much better, also compared to the trRAS");
    let trade = "A.3: yellow increases with the expense of a slight decrease of green";
    let claims = vec![
        Item::sampled(
            format!("{group}.gtrras.better"),
            "total of C6 to C10 at CBS 3 KB, G-trRAS over trRAS",
            "ratio",
            over(Customer::total),
        )
        .paper(41.89 / 40.21)
        .bound(Bound::above(1.0, better)),
        Item::sampled(
            format!("{group}.gtrras.yellow"),
            "yellow of C6 to C10, G-trRAS over trRAS",
            "ratio",
            over(|customer| customer.colour(Colour::Yellow)),
        )
        .paper(15.15 / 10.68)
        .bound(ratio(15.15 / 10.68, trade)),
        Item::sampled(
            format!("{group}.gtrras.green"),
            "green of C6 to C10, G-trRAS over trRAS",
            "ratio",
            over(|customer| customer.colour(Colour::Green)),
        )
        .paper(26.71 / 29.51)
        .bound(Bound::between(0.85, 1.0_f64.next_down(), paper(trade))),
    ];
    // With other values of the open parameters these are no statements of the RFC.
    if group == "claim" { claims } else { claims.into_iter().map(Item::unbound).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Span;

    #[test]
    fn the_tables_are_whole() {
        let mut ids: Vec<String> = cells().map(|cell| cell.id()).collect();
        // Four tables have five routers and three columns, two have ten bursts and four routers.
        assert_eq!(ids.len(), 4 * 15 + 2 * 40);
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 140, "every cell has its own id");
        assert!(cells().all(|cell| cell.value > 0.5 && cell.value < 12.0 && (cell.customer > 5) == cell.is_shaped()));
        let red = |table, router, total: f64| {
            let cell_of = |what| cells().find(|cell| (cell.table, cell.customer, cell.what) == (table, router, what));
            total - cell_of("green").unwrap().value - cell_of("yellow").unwrap().value
        };
        // The RFC's value for red is the rest of the total. For C1 in A.2 it is 2.25 - 1.10 - 0.93.
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
            // Without the headers, 40 of 1500 bytes, 70 Mbit/s are 68.13. Data that waited at the receivers for a gap
            // to close when the warm-up ended counts, too: at most 64 KB of each of 100 flows over 6 s, which is 8.7
            // Mbit/s, but in fact far less.
            assert!(sum > 60.0 && sum < 70.0, "{sum}");
            assert_eq!(outcome.lost_elsewhere, 0);
            let green = |n: usize| outcome.customers[n - 1].colour(Colour::Green);
            assert!((1..=5).all(|n| green(n + 5) > green(n)), "{outcome:?}");
            // No router sends more green than CIR and one burst. 3 kB over 6 s are 4 kbit/s.
            assert!((1..=10).all(|n| green(n) <= CIRS[(n - 1) % 5] as f64 + 0.004 + 1e-9), "{outcome:?}");
        }
        let numbers = |outcome: &Outcome| outcome.customers.map(|customer| (customer.sent, customer.goodput));
        assert_eq!(numbers(&outcomes[0]), numbers(&outcomes[2]), "the same seed gives the same numbers");
        assert_ne!(numbers(&outcomes[0]), numbers(&outcomes[1]));
    }

    #[test]
    fn the_scenario_file_is_the_same_network() {
        use tidegate_config::{Diagnostics, Source};
        let text = include_str!("../../../rfc2963/scenario.toml");
        let short = text.replace("duration = \"102s\"", "duration = \"6s\"");
        assert_ne!(text, short);
        let (source, mut diagnostics) = (Source::new("scenario.toml", short), Diagnostics::new());
        let scenario = tidegate_sim::scenario::Scenario::load(&source, None, &mut diagnostics);
        // It warns of thresholds far above CBS, which are the maximum windows of this reading.
        assert_eq!(diagnostics.errors(), 0, "{}", diagnostics.render(&source));
        let outcome = scenario.unwrap().run(1, |_| ());
        let goodput: f64 = outcome.values.iter().filter(|v| v.measure == "goodput").map(|v| v.value).sum();
        assert!(goodput > 60e6 && goodput < 71e6, "{goodput}");
    }
}

//! Presents the results of a simulation as a page, and as tables for notebooks.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidegate_metrics::{Curve, Digest, Value, summarise};

use crate::columns::{self, Column};
use crate::comparison::{Better, Comparison, Estimate, Group, Measure, Row};
use crate::curves::{self, Runs};
use crate::judgement::{Contrast, contrasts};
use crate::model::{Fold, Report, Section, Source};
use tidegate_display::Table;
use tidegate_display::human;

/// The results of all variants with one seed.
#[derive(Clone, PartialEq, Debug)]
pub struct Run<'a> {
    /// The seed.
    pub seed: u64,
    /// The number of events that the simulator handled.
    pub events: u64,
    /// The digest of all measurements.
    pub digest: String,
    /// The measured values.
    pub values: &'a [Value],
    /// The measured series and distributions.
    pub curves: &'a [Curve],
}

/// All runs of a scenario.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Simulation<'a> {
    /// The name of the scenario file.
    pub scenario: &'a str,
    /// One sentence about what the scenario shows.
    pub sentence: Option<&'a str>,
    /// The version of Tidegate.
    pub version: &'static str,
    /// The simulated time.
    pub duration_ns: u64,
    /// The time at the beginning that is not measured.
    pub warm_up_ns: u64,
    /// Whether the scenario leaves the width of bins open. If so, goodput is drawn in wider ones.
    pub smooth: bool,
    /// The digest of all runs.
    pub digest: String,
    /// How the number of runs and the warm-up were chosen, where a rule has chosen them.
    pub notes: Vec<String>,
    /// The runs.
    pub runs: Vec<Run<'a>>,
}

/// A quantity over all runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Quantity {
    /// The flow or link, preceded by the name of the variant if there are variants.
    pub subject: String,
    /// The variant; empty if there are none.
    pub variant: String,
    /// The point of a sweep at which it was measured, such as `rate=2mbit`, if variants are compared at each point. The subject
    /// ends with it.
    pub point: String,
    /// The name of the measured quantity.
    pub measure: String,
    /// Its unit.
    pub unit: &'static str,
    /// The mean over the runs that have the quantity. A count of packets that a run omits is 0.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; `None` with one run.
    pub half_width_95: Option<f64>,
    /// The value of each run.
    pub values: Vec<Option<f64>>,
    /// The seed of each run; empty if the runs have none.
    pub seeds: Vec<u64>,
}

/// The unit of a value by its name in results; empty for a name that is none.
pub fn unit(text: &str) -> &'static str {
    ["bps", "ns", "packets", "1", "B", "bytes", "%"].into_iter().find(|known| *known == text).unwrap_or("")
}

/// The number of runs whose curves are on a page. The page has the values of all runs.
const SHOWN: usize = 4;

impl Simulation<'_> {
    /// All quantities with their values in all runs, in the order of their first appearance.
    pub fn quantities(&self) -> Vec<Quantity> {
        let mut quantities: Vec<Quantity> = Vec::new();
        let mut known = BTreeMap::new();
        let mut measured = BTreeSet::new();
        for (number, run) in self.runs.iter().enumerate() {
            for value in run.values {
                let label = value.label();
                measured.insert((label.clone(), number));
                let index = *known.entry((label, value.measure.as_str())).or_insert_with(|| {
                    quantities.push(Quantity {
                        subject: value.label(),
                        variant: value.variant.clone(),
                        point: String::new(),
                        measure: value.measure.clone(),
                        unit: value.unit,
                        mean: 0.0,
                        half_width_95: None,
                        values: vec![None; self.runs.len()],
                        seeds: self.runs.iter().map(|run| run.seed).collect(),
                    });
                    quantities.len() - 1
                });
                quantities[index].values[number] = Some(value.value);
            }
        }
        for quantity in &mut quantities {
            if quantity.unit == "packets" {
                // Runs omit counts that are 0. An interrupted run has no value of the subject at all.
                for (number, value) in quantity.values.iter_mut().enumerate().filter(|(_, value)| value.is_none()) {
                    *value = measured.contains(&(quantity.subject.clone(), number)).then_some(0.0);
                }
            }
            let values: Vec<f64> = quantity.values.iter().copied().flatten().collect();
            if let Some(summary) = summarise(&values) {
                quantity.mean = summary.mean;
                quantity.half_width_95 = summary.half_width;
            }
        }
        quantities
    }

    /// Creates the page, which includes the text of the scenario.
    pub fn page(&self, source: Source) -> Report {
        let seconds = |nanos: u64| human(nanos as f64 / 1e9, "s");
        let first = self.runs.first().map_or(0, |run| run.seed);
        let facts = [
            ("version", self.version.to_owned()),
            ("scenario", self.scenario.to_owned()),
            ("simulated", seconds(self.duration_ns)),
            ("warm-up", seconds(self.warm_up_ns)),
            ("seed", first.to_string()),
            ("runs", self.runs.len().to_string()),
            ("events", self.runs.iter().map(|run| run.events).sum::<u64>().to_string()),
            ("digest", self.digest.clone()),
        ];
        let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value));
        let facts = facts.chain(self.notes.iter().map(|note| ("chosen by a rule".to_owned(), note.clone()))).collect();
        let many = self.runs.len() > 1;
        let heads: &[&str] = if many {
            &["of", "what", ">mean", ">± 95 %", ">least run", ">greatest run"]
        } else {
            &["of", "what", ">measured"]
        };
        let mut table = Table::new("Values over all runs", heads.iter().copied());
        for item in self.quantities() {
            let say = |value: Option<f64>| value.map_or(String::new(), |value| human(value, item.unit));
            let values = || item.values.iter().copied().flatten();
            let row = [
                item.subject.clone(),
                item.measure.clone(),
                human(item.mean, item.unit),
                say(item.half_width_95),
                say(values().reduce(f64::min)),
                say(values().reduce(f64::max)),
            ];
            table.row(row.into_iter().take(heads.len()).map(Into::into));
        }
        let mut runs = Table::new("Runs", ["seed", ">events", "digest"]);
        for run in &self.runs {
            runs.row([run.seed.to_string().into(), run.events.to_string().into(), run.digest.clone().into()]);
        }
        let mut sections = Vec::new();
        let comparison = self.comparison();
        if !comparison.groups.is_empty() {
            let differences = comparison.differences();
            sections.push(Section::new("Answer").with(comparison));
            if !differences.rows.is_empty() {
                sections.push(Section {
                    fold: Fold::Closed,
                    ..Section::new("Differences").note(DIFFERENCES).with(differences)
                });
            }
        }
        let begin = self.warm_up_ns as f64 / 1e9;
        let mut measured: Vec<Vec<Curve>> = self.runs.iter().map(|run| curves::measured(run.curves, begin)).collect();
        let widths = measured.iter_mut().filter(|_| self.smooth).filter_map(|run| curves::smooth(run));
        let goodput = widths.reduce(f64::max);
        let bins = "Rates, delays and queues are means over the width of a bin; the warm-up is not measured.";
        if many {
            let apart = if self.runs.len() < 5 {
                "between the least and the greatest run"
            } else {
                "between the quartiles of the runs"
            };
            let note = format!("Lines are the medians of {} runs, bands are {apart}. {bins}", self.runs.len());
            let runs = Runs::new(measured.iter().map(Vec::as_slice));
            sections.extend(curves::sections_of_runs("", &note, &runs, Fold::Open));
        }
        for (run, measured) in self.runs.iter().zip(&measured).take(SHOWN) {
            let (title, fold) =
                if many { (format!("Seed {}: ", run.seed), Fold::Closed) } else { (String::new(), Fold::Open) };
            let note = format!("The run with seed {}. {bins}", run.seed);
            sections.extend(curves::sections(&title, &note, measured, fold));
        }
        if let Some(width) = goodput {
            curves::note_means(&mut sections, width);
        }
        let mut last = Section::new("Runs").with(runs);
        if self.runs.len() > SHOWN {
            last = last.note(format!("Curves of the first {SHOWN} runs are above; the table has those of all."));
        }
        sections.extend(self.steady_section());
        let values = Section::new("Values").with(table);
        sections.extend([values, last].map(|section| Section { fold: Fold::Closed, ..section }));
        Report {
            title: self.sentence.map_or_else(|| format!("Simulation of {}", self.scenario), str::to_owned),
            sentence: self.sentence.map(|_| format!("Simulation of {}", self.scenario)),
            facts,
            sections,
            sources: vec![source],
        }
    }

    /// Compares the variants by the most important measures, for each flow and the busiest links.
    pub fn comparison(&self) -> Comparison {
        compared("What was measured", &self.quantities())
    }

    /// A table of all values, with a row for each value of each run.
    pub fn values(&self) -> columns::Table {
        let mut rows = Rows::default();
        self.runs.iter().for_each(|run| rows.values(run));
        rows.table(self.scenario).without(&["scenario", "kind", "part", "x", "x_unit"])
    }

    /// A table of all curves, with a row for each point.
    pub fn points(&self) -> columns::Table {
        let mut rows = Rows::default();
        self.runs.iter().for_each(|run| rows.points(run, self.warm_up_ns));
        rows.table(self.scenario).without(&["scenario"])
    }

    /// A table of all values and points, with a row for each value of each run and each point of a curve.
    pub fn table(&self) -> columns::Table {
        let mut rows = Rows::default();
        for run in &self.runs {
            rows.values(run);
            rows.points(run, self.warm_up_ns);
        }
        rows.table(self.scenario)
    }
}

/// Creates a table of runs of a sweep, each of which is given with the paths and values of its axes. There is a column
/// for each axis, then
/// `seed`, `variant`, `subject`, `measure`, `value`, `unit`, and `digest`, which is that of a simulation with this run
/// alone.
pub fn sweep_rows<'a>(runs: impl IntoIterator<Item = (&'a [(String, String)], Run<'a>)>) -> columns::Table {
    let mut rows = Rows::default();
    let mut axes: Vec<(&str, Vec<Option<String>>)> = Vec::new();
    let mut digests = Vec::new();
    for (values, run) in runs {
        rows.values(&run);
        let mut digest = Digest::default();
        Digest::from_hex(&run.digest).into_iter().for_each(|one| digest.digest(one));
        digests.resize(rows.seed.len(), Some(digest.to_string()));
        for (n, (path, value)) in values.iter().enumerate() {
            if n == axes.len() {
                axes.push((path, Vec::new()));
            }
            axes[n].1.resize(rows.seed.len(), Some(value.clone()));
        }
    }
    let mut table = columns::Table::default();
    for (path, values) in axes {
        table = table.with(path, Column::Text(values));
    }
    for (name, column) in rows.table("").without(&["scenario", "kind", "part", "x", "x_unit"]).columns() {
        table = table.with(name, column.clone());
    }
    table.with("digest", Column::Text(digests))
}

/// The note of a table of differences.
pub const DIFFERENCES: &str = "Runs with the same seed meet the same random numbers and are compared with each other. Intervals are \
    those of single differences; p (Holm) is corrected for all differences of this table, and decides at 0.05. The bootstrap \
    (BCa) assumes no distribution: where its interval has zero on another side, there are too few runs for either. Further \
    runs are for a power of 80 %, if the difference is as large as it was measured.";

/// The maximum number of flows, and of links, in a comparison.
const SUBJECTS: usize = 6;
const LINKS: usize = 2;

/// The measures of a comparison of flows and links, the most important first. From each group of alternatives the first
/// one that was measured is taken.
const MEASURES: &[&[(&str, Better)]] = &[
    &[
        ("MOS", Better::More),
        ("MOS up", Better::More),
        ("rebuffering", Better::Less),
        ("page load mean", Better::Less),
        ("completion p50", Better::Less),
    ],
    &[("MOS down", Better::More), ("slowdown p50", Better::Less)],
    &[
        ("bit rate mean", Better::More),
        ("completion p99", Better::Less),
        ("goodput", Better::More),
        ("throughput", Better::Neither),
    ],
    &[
        ("page load p50", Better::Less),
        ("slowdown p99", Better::Less),
        ("delay p50", Better::Less),
        ("delay up p50", Better::Less),
        ("queueing p50", Better::Less),
        ("wait p50", Better::Less),
    ],
    &[
        ("page load p99", Better::Less),
        ("delay p99", Better::Less),
        ("delay up p99", Better::Less),
        ("queueing p99", Better::Less),
        ("wait p99", Better::Less),
    ],
    &[("delay down p99", Better::Less)],
    &[("fairness", Better::More)],
    &[("loss up", Better::Less), ("loss", Better::Less), ("dropped", Better::Neither)],
    &[("loss down", Better::Less)],
];

/// The direction in which values of a measure are better: that of one of [`MEASURES`] with the same first word, if there is one.
fn better(measure: &str) -> Better {
    let first = |name: &str| name.split(' ').next().map(str::to_owned);
    let all = MEASURES.iter().copied().flatten();
    all.clone()
        .find(|(name, _)| *name == measure)
        .or_else(|| all.clone().find(|(name, _)| first(name) == first(measure)))
        .map_or(Better::Neither, |(_, better)| *better)
}

impl Quantity {
    /// A quantity of a single run without a seed. `subject` is without the variant, which may be empty.
    pub fn of_one_run(variant: &str, subject: &str, measure: &str, unit: &'static str, value: f64) -> Self {
        Self {
            subject: if variant.is_empty() { subject.to_owned() } else { format!("{variant}: {subject}") },
            variant: variant.to_owned(),
            point: String::new(),
            measure: measure.to_owned(),
            unit,
            mean: value,
            half_width_95: None,
            values: vec![Some(value)],
            seeds: Vec::new(),
        }
    }
    /// The subject without the variant.
    pub fn plain(&self) -> &str {
        let rest = self.subject.strip_prefix(self.variant.as_str()).and_then(|rest| rest.strip_prefix(": "));
        rest.unwrap_or(&self.subject)
    }
    fn estimate(&self) -> Estimate {
        let measured = self.values.iter().enumerate().filter(|(_, value)| value.is_some());
        let seeds = measured.filter_map(|(run, _)| self.seeds.get(run).copied()).collect();
        Estimate::of_runs(self.mean, self.half_width_95, self.values.iter().flatten().copied().collect())
            .with_seeds(seeds)
    }
}

/// The differences of all pairs of variants in all quantities, for notebooks. Each is corrected for the pairs of its measure: a
/// notebook chooses the quantities that it states.
pub fn differences(quantities: &[Quantity]) -> Vec<Contrast> {
    let mut groups: Vec<Vec<&Quantity>> = Vec::new();
    let mut known = BTreeMap::new();
    for quantity in quantities {
        let index = *known.entry((quantity.plain(), quantity.measure.as_str())).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[index].push(quantity);
    }
    let of_group = |group: Vec<&Quantity>| {
        let estimates: Vec<Estimate> = group.iter().map(|quantity| quantity.estimate()).collect();
        let named: Vec<(&str, &Estimate)> =
            group.iter().map(|quantity| quantity.variant.as_str()).zip(&estimates).collect();
        contrasts(group[0].plain(), &group[0].measure, group[0].unit, &named, None)
    };
    groups.into_iter().flat_map(of_group).collect()
}

/// Compares the variants by the most important measures (rate, delay, fairness, loss) for each subject of `quantities`:
/// first the flows, then the links that are used most. The points of a sweep are compared one after the other.
pub fn compared(title: &str, quantities: &[Quantity]) -> Comparison {
    let mut points: Vec<(&str, Vec<&Quantity>)> = Vec::new();
    for quantity in quantities {
        match points.iter_mut().find(|(point, _)| *point == quantity.point) {
            Some((_, of_point)) => of_point.push(quantity),
            None => points.push((&quantity.point, vec![quantity])),
        }
    }
    let groups = points.iter().flat_map(|(_, quantities)| groups(quantities)).collect();
    Comparison { title: title.to_owned(), groups }
}

/// The groups of the comparison of `quantities`.
fn groups(quantities: &[&Quantity]) -> Vec<Group> {
    let mut subjects: Vec<&str> = Vec::new();
    let mut variants: Vec<&str> = Vec::new();
    let mut used: BTreeMap<&str, f64> = BTreeMap::new();
    for quantity in quantities {
        if !subjects.contains(&quantity.plain()) {
            subjects.push(quantity.plain());
        }
        if !variants.contains(&quantity.variant.as_str()) {
            variants.push(&quantity.variant);
        }
        if quantity.measure == "utilisation" {
            let most = used.entry(quantity.plain()).or_insert(0.0);
            *most = quantity.mean.max(*most);
        }
    }
    // Each measure of each row is looked up, so that a search would take a time that grows with the square of their number.
    let mut index = HashMap::new();
    for quantity in quantities.iter().copied() {
        index.entry((quantity.plain(), quantity.variant.as_str(), quantity.measure.as_str())).or_insert(quantity);
    }
    let find = |subject: &str, variant: &str, measure: &str| index.get(&(subject, variant, measure)).copied();
    let used = |subject: &str| used.get(subject).copied().unwrap_or(0.0);
    let (mut links, mut chosen): (Vec<&str>, Vec<&str>) = subjects.iter().partition(|name| name.starts_with("link "));
    links.sort_by(|a, b| used(b).total_cmp(&used(a)));
    // Those that all variants have come first: classes may differ between configurations where flows do not.
    let everywhere = |subject: &str| {
        let has = |variant: &&str| quantities.iter().any(|q| q.variant == **variant && q.plain() == subject);
        variants.iter().all(has)
    };
    chosen.sort_by_key(|subject| !everywhere(subject));
    chosen.truncate(SUBJECTS);
    chosen.extend(links.into_iter().take(LINKS));
    let group = |subject: &str| {
        let mut group = Group { name: subject.to_owned(), ..Group::default() };
        group.rows = variants.iter().map(|name| Row { name: (*name).to_owned(), cells: Vec::new() }).collect();
        for alternatives in MEASURES {
            let cells = |measure: &str| -> Vec<Option<(Estimate, String)>> {
                let cell = |variant: &&str| {
                    find(subject, variant, measure).map(|found| (found.estimate(), found.unit.to_owned()))
                };
                variants.iter().map(cell).collect()
            };
            let found = alternatives.iter().map(|(name, better)| (name, better, cells(name)));
            let Some((name, better, cells)) = found.into_iter().find(|(.., cells)| cells.iter().any(Option::is_some))
            else {
                continue;
            };
            let unit = cells.iter().flatten().next().map_or(String::new(), |(_, unit)| unit.clone());
            group.measures.push(Measure::new(*name, unit, *better));
            for (row, cell) in group.rows.iter_mut().zip(cells) {
                row.cells.push(cell.map(|(estimate, _)| estimate));
            }
        }
        group.rows.retain(|row| row.cells.iter().any(Option::is_some));
        for quantity in quantities.iter().filter(|quantity| quantity.plain() == subject) {
            let (name, is_named) = (quantity.measure.as_str(), |measure: &Measure| measure.name == quantity.measure);
            if group.measures.iter().any(is_named) || group.others.iter().any(|(measure, _)| is_named(measure)) {
                continue;
            }
            let cells = group.rows.iter().map(|row| find(subject, &row.name, name).map(Quantity::estimate)).collect();
            group.others.push((Measure::new(name, quantity.unit, better(name)), cells));
        }
        // Without variants the row has the name of the subject.
        if let [row] = group.rows.as_mut_slice()
            && row.name.is_empty()
        {
            row.name = std::mem::take(&mut group.name);
        }
        group
    };
    let mut groups: Vec<Group> = Vec::new();
    for group in chosen.into_iter().map(group).filter(|group| !group.rows.is_empty()) {
        // Subjects with the same measures are rows of one group.
        match groups.last_mut() {
            Some(last) if last.name.is_empty() && group.name.is_empty() && last.measures == group.measures => {
                last.append(group);
            }
            _ => groups.push(group),
        }
    }
    groups
}

/// The columns of the tables.
#[derive(Default)]
struct Rows {
    seed: Vec<Option<u64>>,
    kind: Vec<Option<String>>,
    variant: Vec<Option<String>>,
    subject: Vec<Option<String>>,
    measure: Vec<Option<String>>,
    part: Vec<Option<String>>,
    x: Vec<Option<f64>>,
    x_unit: Vec<Option<String>>,
    value: Vec<Option<f64>>,
    unit: Vec<Option<String>>,
}

/// Converts an empty text to a missing value.
fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl Rows {
    fn values(&mut self, run: &Run<'_>) {
        for value in run.values {
            self.seed.push(Some(run.seed));
            self.kind.push(text("value"));
            self.variant.push(text(&value.variant));
            self.subject.push(text(&value.subject));
            self.measure.push(text(&value.measure));
            self.part.push(None);
            self.x.push(None);
            self.x_unit.push(None);
            self.value.push(Some(value.value));
            self.unit.push(text(value.unit));
        }
    }

    /// Adds the points of the curves. What was before the end of the warm-up is not measured.
    fn points(&mut self, run: &Run<'_>, warm_up_ns: u64) {
        for curve in &curves::measured(run.curves, warm_up_ns as f64 / 1e9) {
            for point in &curve.points {
                self.seed.push(Some(run.seed));
                self.kind.push(text(if curve.x == "time_s" { "series" } else { "distribution" }));
                self.variant.push(text(&curve.variant));
                self.subject.push(text(&curve.subject));
                self.measure.push(text(curve.measure));
                self.part.push(text(&curve.part));
                self.x.push(Some(point.0));
                self.x_unit.push(text(curve.x));
                self.value.push(Some(point.1));
                self.unit.push(text(curve.y));
            }
        }
    }

    fn table(self, scenario: &str) -> columns::Table {
        columns::Table::default()
            .with("scenario", Column::Text(vec![text(scenario); self.seed.len()]))
            .with("seed", Column::Integer(self.seed))
            .with("kind", Column::Text(self.kind))
            .with("variant", Column::Text(self.variant))
            .with("subject", Column::Text(self.subject))
            .with("measure", Column::Text(self.measure))
            .with("part", Column::Text(self.part))
            .with("x", Column::Number(self.x))
            .with("x_unit", Column::Text(self.x_unit))
            .with("value", Column::Number(self.value))
            .with("unit", Column::Text(self.unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_count_counts_as_zero() {
        let value = |variant: &str, measure: &str, unit, value| Value {
            variant: variant.into(),
            subject: "link a->b".into(),
            measure: measure.into(),
            unit,
            value,
        };
        let dropped = |packets| value("red", "dropped for early", "packets", packets);
        let throughput = value("red", "throughput", "bps", 1e6);
        let delay = value("red", "queueing mean", "ns", 5.0);
        let runs = [
            vec![throughput.clone(), dropped(11.0), delay],
            vec![throughput.clone(), dropped(1.0)],
            vec![throughput],
            // This run was interrupted before the variant.
            vec![value("fifo", "throughput", "bps", 1e6)],
        ];
        let run = |values| Run { seed: 1, events: 0, digest: String::new(), values, curves: &[] };
        let simulation = Simulation {
            scenario: "test",
            sentence: None,
            version: "0",
            duration_ns: 1,
            warm_up_ns: 0,
            smooth: false,
            digest: String::new(),
            notes: Vec::new(),
            runs: runs.iter().map(|values| run(values)).collect(),
        };
        let quantities = simulation.quantities();
        let quantity = |measure| quantities.iter().find(|quantity| quantity.measure == measure).unwrap();
        let dropped = quantity("dropped for early");
        assert_eq!((dropped.mean, dropped.values[..].to_vec()), (4.0, vec![Some(11.0), Some(1.0), Some(0.0), None]));
        assert_eq!(quantity("queueing mean").mean, 5.0, "no packet has a delay in the other runs");
    }
}

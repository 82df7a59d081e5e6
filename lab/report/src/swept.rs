//! The results of a sweep as variants: one for each combination of the values of its axes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidegate_metrics::Value;

use crate::columns::{Column, Table, end};
use crate::simulation::{Quantity, Run, Simulation, is_count, unit};

/// The columns of a sweep that are not axes.
const OWN: [&str; 7] = ["seed", "variant", "subject", "measure", "value", "unit", "digest"];
/// The largest number of combinations that are compared: each measure is tested for all of their pairs.
const MOST: usize = 40;
/// The largest number of points at which they are.
const MOST_POINTS: usize = 1000;

/// Whether a choice of rows is one of quantities.
pub fn is_of_quantities((column, _): &(String, String)) -> bool {
    column == "measure" || column == "subject"
}

/// The quantities of the rows of [`sweep_rows`](crate::simulation::sweep_rows) that have all texts of `only`, pairs of column
/// and text.
///
/// `by` has the columns whose values are compared with each other: each combination of the others is a point at which they are.
/// Without any it is the variants of the scenario, if these rows are of several, and otherwise all axes, so that each combination
/// is a variant. The names of points and variants have the axes that take several values.
///
/// # Errors
/// If the table is not that of a sweep, if no row has a text of `only`, if a column of `by` is none of the axes or has one value
/// alone, if there are more than 40 variants or 1000 points, or if a run is there twice, so that the table has the results of two
/// scenarios.
pub fn quantities(table: &Table, only: &[(String, String)], by: &[String]) -> Result<Vec<Quantity>, String> {
    Swept::new(table, only, by)?.quantities()
}

/// Rows of the table of a sweep, and how they are compared.
pub(crate) struct Swept<'a> {
    rows: Vec<usize>,
    /// The rows that count what began and what was completed of it, where other measures are chosen.
    counts: Vec<usize>,
    seeds: &'a [Option<u64>],
    values: &'a [Option<f64>],
    /// The columns `variant`, `subject`, `measure` and `unit`.
    texts: [&'a [Option<String>]; 4],
    compared: Compared<'a>,
}

impl<'a> Swept<'a> {
    pub(crate) fn new(table: &'a Table, only: &[(String, String)], by: &[String]) -> Result<Self, String> {
        let text = |name: &str| match table.known(name)? {
            Column::Text(values) => Ok(values.as_slice()),
            _ => Err(format!("the column `{name}` has no texts")),
        };
        let (Column::Integer(seeds), Column::Number(values)) = (table.known("seed")?, table.known("value")?) else {
            return Err("the columns `seed` and `value` are not numbers".into());
        };
        let texts = [text("variant")?, text("subject")?, text("measure")?, text("unit")?];
        let rows = table.rows_with(only)?;
        let own = |row: &usize| texts[0][*row].as_deref().unwrap_or_default();
        let several = rows.iter().any(|row| own(row) != own(&rows[0]));
        let compared = Compared::new(table, &rows, several, by)?;
        let counts = match only.iter().any(|(column, _)| column == "measure") {
            true => {
                let rest: Vec<_> = only.iter().filter(|(column, _)| column != "measure").cloned().collect();
                let is_left_out =
                    |row: &usize| texts[2][*row].as_deref().is_some_and(is_count) && rows.binary_search(row).is_err();
                table.rows_with(&rest)?.into_iter().filter(is_left_out).collect()
            }
            false => Vec::new(),
        };
        Ok(Self { rows, counts, seeds, values, texts, compared })
    }

    /// The point of a row, and its variant.
    fn labels(&self, row: usize) -> [String; 2] {
        let own = self.texts[0][row].as_deref().unwrap_or_default();
        [false, true].map(|of_variant| self.compared.label(row, of_variant, own))
    }

    /// The measure of a row, and the subject at its point, as comparisons name it.
    pub(crate) fn quantity(&self, row: usize) -> Option<(&'a str, String)> {
        let [_, subjects, measures, _] = self.texts;
        let [point, _] = self.labels(row);
        Some((measures[row].as_deref()?, at_point(subjects[row].as_deref()?, &point)))
    }

    pub(crate) fn quantities(&self) -> Result<Vec<Quantity>, String> {
        let [_, subjects, measures, units] = self.texts;
        let (mut points, mut numbers, mut variants) = (Vec::new(), HashMap::new(), BTreeSet::new());
        let mut known = BTreeSet::new();
        // The values of each point by seed. Without several variants there is one point.
        let mut runs: Vec<BTreeMap<u64, Vec<Value>>> = Vec::new();
        for &row in self.rows.iter().chain(&self.counts) {
            let texts = (subjects[row].as_deref(), measures[row].as_deref(), units[row].as_deref());
            let ((Some(subject), Some(measure), Some(of)), Some(seed), Some(value)) =
                (texts, self.seeds[row], self.values[row])
            else {
                continue;
            };
            let [point, variant] = self.labels(row);
            if !known.insert((seed, point.clone(), variant.clone(), subject, measure)) {
                let run = if point.is_empty() { variant } else { format!("{variant} at {point}") };
                return Err(format!(
                    "the run of {run} with seed {seed} is there twice: the folder has results of two scenarios"
                ));
            }
            let at = *numbers.entry(point).or_insert_with_key(|point| {
                points.push(point.clone());
                runs.push(BTreeMap::new());
                points.len() - 1
            });
            variants.insert(variant.clone());
            let (subject, measure) = (subject.to_owned(), measure.to_owned());
            runs[at].entry(seed).or_default().push(Value { variant, subject, measure, unit: unit(of), value });
        }
        for (many, most, what) in [(variants.len(), MOST, "combinations"), (points.len(), MOST_POINTS, "points")] {
            if many > most {
                return Err(format!("{many} {what} are too many to compare, at most {most}: choose some"));
            }
        }
        let chosen: BTreeSet<&str> = self.rows.iter().filter_map(|row| measures[*row].as_deref()).collect();
        let of_point = |(point, runs): (String, BTreeMap<u64, Vec<Value>>)| {
            let runs = runs
                .iter()
                .map(|(seed, values)| Run { seed: *seed, events: 0, digest: String::new(), values, curves: &[] })
                .collect();
            let mut all = Simulation { runs, ..Simulation::default() }.quantities();
            all.retain(|quantity| {
                self.counts.is_empty() || !is_count(&quantity.measure) || chosen.contains(&*quantity.measure)
            });
            let placed = move |quantity: Quantity| Quantity {
                subject: at_point(&quantity.subject, &point),
                point: point.clone(),
                ..quantity
            };
            all.into_iter().map(placed).collect::<Vec<_>>()
        };
        Ok(points.into_iter().zip(runs).flat_map(of_point).collect())
    }
}

/// The runs of the table of a sweep: the values of the axes, and the seed.
pub fn runs(table: &Table) -> BTreeSet<(Vec<(String, String)>, u64)> {
    let axes: Vec<(&str, &Column)> = table.columns().filter(|(name, _)| !OWN.contains(name)).collect();
    let Ok(Column::Integer(seeds)) = table.known("seed") else { return BTreeSet::new() };
    let values = |row: usize| {
        axes.iter().map(|(name, column)| ((*name).to_owned(), column.text(row).unwrap_or_default())).collect::<Vec<_>>()
    };
    let run = |(row, seed): (usize, &Option<u64>)| Some((values(row), (*seed)?));
    // The rows of a run follow each other.
    let is_first = |row: usize| row == 0 || seeds[row] != seeds[row - 1] || values(row) != values(row - 1);
    seeds.iter().enumerate().filter(|(row, _)| is_first(*row)).filter_map(run).collect()
}

/// A subject at a point of a sweep, which is empty where the sweep has one alone.
pub(crate) fn at_point(subject: &str, point: &str) -> String {
    if point.is_empty() { subject.to_owned() } else { format!("{subject} at {point}") }
}

/// The axes of a sweep, and which of them are compared.
struct Compared<'a> {
    axes: Vec<Axis<'a>>,
    /// The places of the axes that are compared; the others make a point.
    chosen: Vec<usize>,
    /// Whether the scenario has several variants, and whether these are compared.
    variants: (bool, bool),
}

impl<'a> Compared<'a> {
    /// Finds the axes that `by` names; without a name the variants of the scenario, if there are `several`, or else all axes.
    fn new(table: &'a Table, rows: &[usize], several: bool, by: &[String]) -> Result<Self, String> {
        let axes = axes(table, rows);
        let usual = by.is_empty();
        let mut chosen = if usual && !several { (0..axes.len()).collect() } else { Vec::new() };
        for name in by.iter().filter(|name| *name != "variant") {
            let column = table.known(name)?;
            let place = axes.iter().position(|axis| axis.columns.iter().any(|of| std::ptr::eq(*of, column)));
            chosen.push(place.ok_or_else(|| {
                let mut names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
                names.extend(several.then_some("variant"));
                let others = if names.is_empty() { String::new() } else { format!("; {} do", names.join(", ")) };
                format!("the column `{name}` has no two values in these runs{others}")
            })?);
        }
        let named = by.iter().any(|name| name == "variant");
        if named && !several {
            return Err(
                "the runs are of one variant of the scenario: name the column whose values are compared with --by"
                    .into(),
            );
        }
        Ok(Self { axes, chosen, variants: (several, named || (usual && several)) })
    }

    /// The name of the variant that a row is of, or of its point. `own` is its variant of the scenario.
    fn label(&self, row: usize, of_variant: bool, own: &str) -> String {
        let (several, compared) = self.variants;
        let own = (several && compared == of_variant).then(|| own.to_owned());
        let axes = self.axes.iter().enumerate().filter(|(n, _)| self.chosen.contains(n) == of_variant);
        let values = axes.filter_map(|(_, axis)| Some(format!("{}={}", axis.name, axis.value(row)?)));
        own.into_iter().chain(values).collect::<Vec<_>>().join(", ")
    }
}

/// Whether a column takes several values in `rows`.
fn varies(column: &Column, rows: &[usize]) -> bool {
    let mut texts = rows.iter().map(|row| column.text(*row));
    let first = texts.next();
    texts.any(|text| Some(text) != first)
}

/// Whether each value of a column belongs to one value of the other, and the other way round, as those of keys that a sweep varies together.
fn vary_together(a: &Column, b: &Column, rows: &[usize]) -> bool {
    let (mut to_b, mut to_a) = (HashMap::new(), HashMap::new());
    rows.iter().map(|row| (a.text(*row), b.text(*row))).all(|(a, b)| {
        *to_b.entry(a.clone()).or_insert_with(|| b.clone()) == b && *to_a.entry(b).or_insert_with(|| a.clone()) == a
    })
}

/// An axis that takes several values: a key of the scenario, or several that vary together.
struct Axis<'a> {
    /// The last part of the path of a key, or the whole path where two end alike; between several keys stands a `/`, as between their values.
    /// Keys that end alike and always have the same value have one name.
    name: String,
    columns: Vec<&'a Column>,
}

impl Axis<'_> {
    /// The values of the keys in a row; one alone where they are all the same.
    fn value(&self, row: usize) -> Option<String> {
        let values: Vec<String> = self.columns.iter().filter_map(|column| column.text(row)).collect();
        let short: Vec<&str> = values.iter().map(|value| short(value)).collect();
        match short.as_slice() {
            [] => None,
            [first, others @ ..] if others.iter().all(|other| other == first) => Some((*first).to_owned()),
            all => Some(all.join("/")),
        }
    }
}

/// The axes that take several values in `rows`. Keys that vary together are one.
fn axes<'a>(table: &'a Table, rows: &[usize]) -> Vec<Axis<'a>> {
    let mut groups: Vec<Vec<(&str, &Column)>> = Vec::new();
    for (name, column) in table.columns().filter(|(name, column)| !OWN.contains(name) && varies(column, rows)) {
        match groups.iter_mut().find(|group| vary_together(group[0].1, column, rows)) {
            Some(group) => group.push((name, column)),
            None => groups.push(vec![(name, column)]),
        }
    }
    let all: Vec<&str> = groups.iter().flatten().map(|(name, _)| *name).collect();
    let axis = |group: &Vec<(&str, &'a Column)>| {
        let keys: Vec<&str> = group.iter().map(|(name, _)| *name).collect();
        let ends_alike = |key: &&str| end(key) == end(keys[0]);
        let is_one_name = keys.len() > 1
            && keys.iter().all(ends_alike)
            && all.iter().filter(|key| ends_alike(key)).count() == keys.len()
            && group.iter().all(|(_, column)| rows.iter().all(|row| column.text(*row) == group[0].1.text(*row)));
        let name = if is_one_name { end(keys[0]).to_owned() } else { names(&keys, &all).join("/") };
        Axis { name, columns: group.iter().map(|(_, column)| *column).collect() }
    };
    groups.iter().map(axis).collect()
}

/// The names of the keys of an axis, of `all` keys that vary: the last part of each, or the whole path where two end alike. Keys of one
/// section do without its name: `rate` and `queue.rate` of a link.
fn names<'a>(keys: &[&'a str], all: &[&str]) -> Vec<&'a str> {
    let section = |key: &'a str| &key[..key.rfind('.').map_or(0, |at| at + 1)];
    let common = keys.iter().map(|key| section(key)).min_by_key(|section| section.len()).unwrap_or_default();
    let is_of_others = |name: &str| all.iter().any(|other| !keys.contains(other) && end(other) == end(name));
    let is_one_section = keys.len() > 1 && !common.is_empty() && keys.iter().all(|key| key.starts_with(common));
    let name = |key: &&'a str| match *key {
        key if all.iter().filter(|other| end(other) == end(key)).count() == 1 => end(key),
        key if is_one_section && !is_of_others(key) => &key[common.len()..],
        key => key,
    };
    keys.iter().map(name).collect()
}

/// The value of an axis for people: a section that has a kind alone is named by it.
fn short(value: &str) -> &str {
    let kind = || {
        let rest = value.trim().strip_prefix('{')?.strip_suffix('}')?.trim().strip_prefix("\"kind\"")?;
        rest.trim_start().strip_prefix(':')?.trim().strip_prefix('"')?.strip_suffix('"')
    };
    kind().filter(|kind| !kind.contains('"')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn table(seeds: [u64; 4]) -> Table {
        let text = |all: [&str; 4]| Column::Text(all.map(|text| Some(text.to_owned())).into());
        Table::default()
            .with("link.a->b.rate", text(["2mbit", "2mbit", "5mbit", "5mbit"]))
            .with("link.a->b.queue", text([r#"{"kind":"fifo"}"#; 4]))
            .with("seed", Column::Integer(seeds.map(Some).into()))
            .with("variant", text([""; 4]))
            .with("subject", text(["flow bulk"; 4]))
            .with("measure", text(["goodput"; 4]))
            .with("value", Column::Number([1.0, 2.0, 4.0, 6.0].map(Some).into()))
            .with("unit", text(["bps"; 4]))
            .with("digest", text(["0"; 4]))
    }

    /// Two files have the run of seed 8 with the same result, which is one run, and that of seed 7 with another, which is another scenario's.
    #[test]
    fn a_run_that_two_tables_have_counts_once() {
        let mut known = HashSet::new();
        let mut both = table([7, 8, 7, 8]).without_runs(&mut known);
        assert_eq!((both.rows(), runs(&both).len()), (4, 4));
        both.append(table([9, 8, 9, 8]).without_runs(&mut known)).expect("the same columns");
        assert_eq!(both.rows(), 6);
        let found = quantities(&both, &[], &[]).expect("a sweep");
        assert!(found.iter().all(|of| of.seeds == [7, 8, 9]), "{found:?}");
        let other = Column::Text(vec![Some("1".to_owned()); 4]);
        let other = table([7, 8, 7, 8]).without(&["digest"]).with("digest", other);
        both.append(other.without_runs(&mut known)).expect("the same columns");
        assert!(quantities(&both, &[], &[]).is_err_and(|why| why.contains("is there twice")));
        // Tables that are not of sweeps have no digests.
        assert_eq!(table([7, 7, 7, 7]).without(&["digest"]).without_runs(&mut known).rows(), 4);
    }

    #[test]
    fn combinations_are_variants_whose_runs_are_pairs_by_seed() {
        let found = quantities(&table([7, 8, 7, 8]), &[], &[]).expect("a sweep");
        let said: Vec<_> = found.iter().map(|of| (of.variant.as_str(), of.plain(), of.mean)).collect();
        assert_eq!(said, [("rate=2mbit", "flow bulk", 1.5), ("rate=5mbit", "flow bulk", 5.0)]);
        assert!(found.iter().all(|of| of.seeds == [7, 8]));
        // 4 - 1 and 6 - 2: the mean of the pairs.
        let pairs = crate::simulation::differences(&found, &crate::simulation::compared("", &found));
        assert_eq!((pairs.len(), pairs[0].difference.mean.abs(), pairs[0].test()), (1, 3.5, "paired t of logarithms"));
        let one = quantities(&table([7, 8, 7, 8]), &[("link.a->b.rate".into(), "5mbit".into())], &[]).expect("a sweep");
        assert_eq!((one.len(), one[0].variant.as_str(), one[0].mean), (1, "", 5.0), "nothing varies");
    }

    #[test]
    fn variants_of_the_scenario_are_compared_at_each_point() {
        let text = |all: [&str; 8]| Column::Text(all.map(|text| Some(text.to_owned())).into());
        let table = Table::default()
            .with("link.a->b.rate", text(["2mbit", "2mbit", "2mbit", "2mbit", "5mbit", "5mbit", "5mbit", "5mbit"]))
            .with("seed", Column::Integer([7, 8, 7, 8, 7, 8, 7, 8].map(Some).into()))
            .with("variant", text(["red", "red", "pie", "pie", "red", "red", "pie", "pie"]))
            .with("subject", text(["flow bulk"; 8]))
            .with("measure", text(["goodput"; 8]))
            .with("value", Column::Number([1.0, 2.0, 4.0, 6.0, 1.0, 1.0, 1.0, 1.5].map(Some).into()))
            .with("unit", text(["bps"; 8]))
            .with("digest", text(["0"; 8]));
        let found = quantities(&table, &[], &[]).expect("a sweep");
        let said: Vec<_> = found.iter().map(|of| (of.variant.as_str(), of.plain(), of.mean)).collect();
        let (slow, fast) = ("flow bulk at rate=2mbit", "flow bulk at rate=5mbit");
        assert_eq!(said, [("red", slow, 1.5), ("pie", slow, 5.0), ("red", fast, 1.0), ("pie", fast, 1.25)]);
        let pairs = crate::simulation::differences(&found, &crate::simulation::compared("", &found));
        let said: Vec<_> = pairs
            .iter()
            .map(|pair| (pair.subject.as_str(), pair.stated.map(|stated| stated.comparisons), pair.test()))
            .collect();
        assert_eq!(
            said,
            [(slow, Some(2), "paired t of logarithms"), (fast, Some(2), "paired t of logarithms")],
            "red is compared with pie, not 2 with 5 Mbit/s"
        );
        let groups = crate::simulation::compared("t", &found).groups;
        assert_eq!(groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(), [slow, fast]);
        // The points of one variant are compared with each other. An axis may be named by the end of its path.
        let one = quantities(&table, &[("variant".into(), "red".into())], &[]).expect("a sweep");
        let said: Vec<_> = one.iter().map(|of| (of.variant.as_str(), of.plain())).collect();
        assert_eq!(said, [("rate=2mbit", "flow bulk"), ("rate=5mbit", "flow bulk")]);
        let one = quantities(&table, &[("rate".into(), "5mbit".into())], &[]).expect("a sweep");
        assert_eq!(one.iter().map(|of| of.variant.as_str()).collect::<Vec<_>>(), ["red", "pie"]);
        // The values of an axis are compared within each variant, or together with them.
        let said = |by: &[&str]| {
            let by: Vec<String> = by.iter().map(|name| (*name).to_owned()).collect();
            let found = quantities(&table, &[], &by)?;
            Ok::<_, String>(found.iter().map(|of| format!("{} | {}", of.variant, of.plain())).collect::<Vec<_>>())
        };
        let within = ["rate=2mbit | flow bulk at red", "rate=5mbit | flow bulk at red"];
        assert_eq!(said(&["rate"]).expect("a sweep")[..2], within);
        let all = said(&["variant", "link.a->b.rate"]).expect("a sweep");
        assert_eq!(all[..2], ["red, rate=2mbit | flow bulk", "pie, rate=2mbit | flow bulk"]);
        assert!(said(&["speed"]).is_err_and(|why| why.contains("no column `speed`; it has link.a->b.rate")));
        assert!(said(&["digest"]).is_err_and(|why| why.ends_with("no two values in these runs; rate, variant do")));
    }

    /// A shaper a little below its line varies with it: a point has the names and the values of both keys, and either key names the axis.
    #[test]
    fn keys_that_vary_together_are_one_axis() {
        let text = |all: [&str; 4]| Column::Text(all.map(|text| Some(text.to_owned())).into());
        let table =
            table([7, 8, 7, 8]).with("variant.cake.rate", text(["1900kbit", "1900kbit", "4700kbit", "4700kbit"]));
        let said = |by: &[String]| {
            let found = quantities(&table, &[], by).expect("a sweep");
            found.iter().map(|of| of.variant.clone()).collect::<Vec<_>>()
        };
        let both = "link.a->b.rate/variant.cake.rate=";
        assert_eq!(said(&[]), [format!("{both}2mbit/1900kbit"), format!("{both}5mbit/4700kbit")]);
        assert_eq!(said(&["variant.cake.rate".to_owned()]), said(&[]));
        assert_eq!(said(&["link.a->b.rate".to_owned()]), said(&[]));
        let other = quantities(&table, &[], &["link.a->b.queue".to_owned()]).expect_err("one value");
        assert!(other.contains("no two values"), "{other}");
        // Keys of one link have no need of its name, and those that end differently have no need of their sections.
        let cases: [(&[&str], &[&str], &str); 6] = [
            (&["link.1.rate", "link.1.queue.rate"], &[], "rate/queue.rate"),
            (&["link.1.rate", "link.1.queue.rate"], &["link.2.rate"], "link.1.rate/link.1.queue.rate"),
            (&["link.1.rate", "link.1.delay"], &[], "rate/delay"),
            (&["link.1.rate", "link.2.rate"], &[], "link.1.rate/link.2.rate"),
            (&["link.1.rate"], &["link.2.rate"], "link.1.rate"),
            (&["link.1.rate"], &["duration"], "rate"),
        ];
        for (keys, all, expected) in cases {
            assert_eq!(names(keys, &[keys, all].concat()).join("/"), expected);
        }
        // Values that are the same in all keys are written once, and so is the end of their names.
        let same =
            table.without(&["variant.cake.rate"]).with("link.c->d.rate", text(["2mbit", "2mbit", "5mbit", "5mbit"]));
        let found = quantities(&same, &[], &[]).expect("a sweep");
        assert_eq!(found[0].variant, "rate=2mbit");
        assert_eq!(quantities(&same, &[], &["rate".to_owned()]).expect("a sweep")[0].variant, "rate=2mbit");
        // A key that takes a value with two of the other's is an axis of its own.
        let table = same.without(&["link.c->d.rate"]).with("buffer", text(["10", "20", "10", "20"]));
        let found = quantities(&table, &[], &["rate".to_owned()]).expect("a sweep");
        assert_eq!(found[0].subject, "rate=2mbit: flow bulk at buffer=10");
    }

    /// The usual question: which queue is better at each rate. Queues are compared at one rate, not rates with each other.
    #[test]
    fn the_values_of_an_axis_are_compared_at_each_point_of_the_others() {
        let queues = [r#"{"kind":"fifo"}"#, r#"{"kind":"fifo"}"#, r#"{"kind":"codel"}"#, r#"{"kind":"codel"}"#];
        let text = |all: [&str; 4]| Column::Text(all.map(|text| Some(text.to_owned())).into());
        let of_rate = |rate: &str, values: [f64; 4]| {
            Table::default()
                .with("link.a->b.rate", text([rate; 4]))
                .with("link.a->b.queue", text(queues))
                .with("seed", Column::Integer([7, 8, 7, 8].map(Some).into()))
                .with("variant", text([""; 4]))
                .with("subject", text(["flow bulk"; 4]))
                .with("measure", text(["goodput"; 4]))
                .with("value", Column::Number(values.map(Some).into()))
                .with("unit", text(["bps"; 4]))
                .with("digest", text(["0"; 4]))
        };
        let mut table = of_rate("2mbit", [1.0, 1.1, 2.0, 2.11]);
        table.append(of_rate("5mbit", [5.0, 5.1, 4.0, 4.11])).expect("the same columns");
        let found = quantities(&table, &[], &["queue".to_owned()]).expect("a sweep");
        let pairs = crate::simulation::differences(&found, &crate::simulation::compared("", &found));
        let said: Vec<_> = pairs.iter().map(|pair| (pair.subject.as_str(), pair.variants.join(" - "))).collect();
        let pair = || "queue=fifo - queue=codel".to_owned();
        assert_eq!(said, [("flow bulk at rate=2mbit", pair()), ("flow bulk at rate=5mbit", pair())]);
        // The best is another one at each point.
        let said = crate::simulation::compared("t", &found).sentences();
        assert!(said[0].starts_with("goodput of flow bulk at rate=2mbit: queue=codel has the most"), "{said:?}");
        assert!(said[1].starts_with("goodput of flow bulk at rate=5mbit: queue=fifo has the most"), "{said:?}");
    }

    #[test]
    fn a_table_that_is_no_sweep_is_refused_with_the_reason() {
        let said = |table: &Table, only: &[(String, String)]| quantities(table, only, &[]).expect_err("refused");
        assert!(said(&table([7, 7, 7, 8]), &[]).contains("rate=2mbit with seed 7 is there twice"));
        assert!(said(&table([7, 8, 7, 8]).without(&["measure"]), &[]).contains("no column `measure`; it has"));
        let other = [("link.a->b.rate".to_owned(), "9mbit".to_owned())];
        assert!(said(&table([7, 8, 7, 8]), &other).contains("there are 2mbit, 5mbit"));
    }

    #[test]
    fn values_are_short() {
        assert_eq!((short(r#"{"kind":"codel"}"#), short(r#"{"kind": "codel"}"#)), ("codel", "codel"));
        let whole = r#"{"kind":"codel","target":"5ms"}"#;
        assert_eq!(short(whole), whole);
    }
}

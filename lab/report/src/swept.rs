//! The results of a sweep as variants: one for each combination of the values of its axes.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_metrics::Value;

use crate::columns::{Column, Table};
use crate::simulation::{Quantity, Run, Simulation, unit};

/// The columns of a sweep that are not axes.
const OWN: [&str; 7] = ["seed", "variant", "subject", "measure", "value", "unit", "digest"];
/// The largest number of combinations that are compared: each measure is tested for all of their pairs.
const MOST: usize = 40;

/// The quantities of the rows of [`sweep_rows`](crate::simulation::sweep_rows) that have all texts of `only`, pairs of column
/// and text. Each combination of values, with each variant of the scenario, is a variant. Its name has the axes that take
/// several values.
///
/// # Errors
/// If the table is not that of a sweep, if no row has a text of `only`, if there are more than 40 combinations, or if a run is
/// there twice, so that the table has the results of two scenarios.
pub fn quantities(table: &Table, only: &[(String, String)]) -> Result<Vec<Quantity>, String> {
    let text = |name: &str| match table.known(name)? {
        Column::Text(values) => Ok(values.as_slice()),
        _ => Err(format!("the column `{name}` has no texts")),
    };
    let (Column::Integer(seeds), Column::Number(values)) = (table.known("seed")?, table.known("value")?) else {
        return Err("the columns `seed` and `value` are not numbers".into());
    };
    let (variants, subjects) = (text("variant")?, text("subject")?);
    let (measures, units) = (text("measure")?, text("unit")?);
    let rows = table.rows_with(only)?;
    let axes = axes(table, &rows);
    let label = |row: usize| {
        let values = axes.iter().filter_map(|(name, column)| Some(format!("{name}={}", short(&column.text(row)?))));
        let variant = variants[row].clone().filter(|variant| !variant.is_empty());
        values.chain(variant).collect::<Vec<_>>().join(", ")
    };
    let mut labels = BTreeSet::new();
    let mut known = BTreeSet::new();
    let mut runs: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for row in rows {
        let texts = (subjects[row].as_deref(), measures[row].as_deref(), units[row].as_deref());
        let ((Some(subject), Some(measure), Some(of)), Some(seed), Some(value)) = (texts, seeds[row], values[row])
        else {
            continue;
        };
        let variant = label(row);
        if !known.insert((seed, variant.clone(), subject, measure)) {
            return Err(format!(
                "the run of {variant} with seed {seed} is there twice: the folder has results of two scenarios"
            ));
        }
        labels.insert(variant.clone());
        let (subject, measure) = (subject.to_owned(), measure.to_owned());
        runs.entry(seed).or_default().push(Value { variant, subject, measure, unit: unit(of), value });
    }
    if labels.len() > MOST {
        return Err(format!("{} combinations are too many to compare, at most {MOST}: choose some", labels.len()));
    }
    let runs =
        runs.iter().map(|(seed, values)| Run { seed: *seed, events: 0, digest: String::new(), values, curves: &[] });
    Ok(Simulation { runs: runs.collect(), ..Simulation::default() }.quantities())
}

/// The axes that take several values in `rows`, by the last part of their path, or the whole path where two end alike.
fn axes<'a>(table: &'a Table, rows: &[usize]) -> Vec<(&'a str, &'a Column)> {
    let varies = |column: &Column| {
        let mut texts = rows.iter().map(|row| column.text(*row));
        let first = texts.next();
        texts.any(|text| Some(text) != first)
    };
    let axes: Vec<(&str, &Column)> =
        table.columns().filter(|(name, column)| !OWN.contains(name) && varies(column)).collect();
    let is_unique = |name: &str| axes.iter().filter(|(other, _)| end(other) == name).count() == 1;
    let shown = |&(name, column): &(&'a str, &'a Column)| (if is_unique(end(name)) { end(name) } else { name }, column);
    axes.iter().map(shown).collect()
}

/// The last part of the path of an axis.
fn end(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, end)| end)
}

/// The value of an axis for people: a section that has a kind alone is named by it.
fn short(value: &str) -> &str {
    let kind = value.strip_prefix("{\"kind\":\"").and_then(|rest| rest.strip_suffix("\"}"));
    kind.filter(|kind| !kind.contains('"')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn combinations_are_variants_whose_runs_are_pairs_by_seed() {
        let found = quantities(&table([7, 8, 7, 8]), &[]).expect("a sweep");
        let said: Vec<_> = found.iter().map(|of| (of.variant.as_str(), of.plain(), of.mean)).collect();
        assert_eq!(said, [("rate=2mbit", "flow bulk", 1.5), ("rate=5mbit", "flow bulk", 5.0)]);
        assert!(found.iter().all(|of| of.seeds == [7, 8]));
        // 4 - 1 and 6 - 2: the mean of the pairs.
        let pairs = crate::simulation::differences(&found);
        assert_eq!((pairs.len(), pairs[0].difference.mean.abs(), pairs[0].test()), (1, 3.5, "paired t"));
        let one = quantities(&table([7, 8, 7, 8]), &[("link.a->b.rate".into(), "5mbit".into())]).expect("a sweep");
        assert_eq!((one.len(), one[0].variant.as_str(), one[0].mean), (1, "", 5.0), "nothing varies");
    }

    #[test]
    fn a_table_that_is_no_sweep_is_refused_with_the_reason() {
        let said = |table: &Table, only: &[(String, String)]| quantities(table, only).expect_err("refused");
        assert!(said(&table([7, 7, 7, 8]), &[]).contains("rate=2mbit with seed 7 is there twice"));
        assert!(said(&table([7, 8, 7, 8]).without(&["measure"]), &[]).contains("no column `measure`; it has"));
        let other = [("link.a->b.rate".to_owned(), "9mbit".to_owned())];
        assert!(said(&table([7, 8, 7, 8]), &other).contains("there are 2mbit, 5mbit"));
    }

    #[test]
    fn values_are_short() {
        assert_eq!(short(r#"{"kind":"codel"}"#), "codel");
        let whole = r#"{"kind":"codel","target":"5ms"}"#;
        assert_eq!(short(whole), whole);
    }
}

//! The tables of the README, with each cell of the RFC beside ours.

use std::fmt::Write as _;

use super::{Cell, Item, TOLERANCE, cells};
use crate::reproduce::item::Verdict;

/// The relative difference between our value and the RFC's.
fn distance(cell: &Cell<'_>, items: &[Item]) -> Option<f64> {
    let item = items.iter().find(|item| item.id == cell.id())?;
    Some(item.measured? / cell.value - 1.0)
}

fn entry(cell: &Cell<'_>, items: &[Item]) -> String {
    match distance(cell, items) {
        Some(part) => {
            // The conversion to an integer avoids a negative zero.
            let percent = (part * 100.0).round() as i64;
            let sign = if percent > 0 { "+" } else { "" };
            format!("{} / {:.2} ({sign}{percent} %)", cell.value, cell.value * (1.0 + part))
        }
        None => format!("{} / not run", cell.value),
    }
}

/// Writes a row for each of `keys`, with the entries of `columns`.
fn rows<K: std::fmt::Display>(
    out: &mut String,
    items: &[Item],
    keys: &[K],
    columns: impl Fn(usize, &Cell<'_>) -> bool,
) {
    for (n, key) in keys.iter().enumerate() {
        let entries = cells().filter(|cell| columns(n, cell)).map(|cell| entry(&cell, items));
        let _ = writeln!(out, "| {key} | {} |", entries.collect::<Vec<_>>().join(" | "));
    }
}

/// Writes how many cells are within the bound and within half of it, then tables A.2 to A.7, then the other items of
/// `items` that are
/// contradicted or deviate.
pub fn tables(items: &[Item]) -> String {
    let mut out = String::new();
    let near = |tables: &[&str]| {
        let compared = cells().filter(|cell| tables.contains(&cell.table));
        compared.filter_map(|cell| distance(&cell, items)).map(f64::abs).collect::<Vec<f64>>()
    };
    let within = |distances: &[f64], part: f64| distances.iter().filter(|distance| **distance <= part).count();
    let (first, all) = (near(&["a2", "a3"]), near(&["a2", "a3", "a4", "a5", "a6", "a7"]));
    let mean = first.iter().sum::<f64>() / first.len() as f64;
    let _ = writeln!(
        out,
        "{} of the {} cells of A.2 and A.3 are within 10 % of the RFC, and the mean distance is {:.1} %; of all {} cells {} are\n\
         within 10 %, {} within 5 %. Each cell below: RFC / here (deviation), by the mean over the seeds.",
        within(&first, TOLERANCE),
        first.len(),
        100.0 * mean,
        all.len(),
        within(&all, TOLERANCE),
        within(&all, TOLERANCE / 2.0),
    );
    for (name, unshaped, shaped, goodput) in [("trRAS", "a2", "a3", "a4"), ("G-trRAS", "a5", "a6", "a7")] {
        let capital = str::to_uppercase;
        let (first, second, third) = (capital(unshaped), capital(shaped), capital(goodput));
        let dotted = |table: &str| format!("{}.{}", &table[..1], &table[1..]);
        let _ = writeln!(
            out,
            "\n### {} and {}: throughput in Mbit/s at CBS 3 KB, {name}\n\n| CIR | green, unshaped | yellow | total | green, \
             shaped | yellow | total |\n| --- | --- | --- | --- | --- | --- | --- |",
            dotted(&first),
            dotted(&second)
        );
        let columns_of = |n: usize, cell: &Cell<'_>| {
            (cell.table == unshaped || cell.table == shaped) && (cell.customer - 1) % 5 == n
        };
        rows(&mut out, items, &super::CIRS, columns_of);
        let _ = writeln!(
            out,
            "\n### {}: goodput in Mbit/s against CBS, {name}\n\n| CBS in KB | C1, 2 Mbit/s, unshaped | C6, shaped | C3, \
             6 Mbit/s, unshaped | C8, shaped |\n| --- | --- | --- | --- | --- |",
            dotted(&third)
        );
        let mut bursts: Vec<u64> = cells().filter(|cell| cell.table == goodput).map(|cell| cell.cbs_kb).collect();
        bursts.sort_unstable();
        bursts.dedup();
        for cbs in bursts {
            let entries = [1, 6, 3, 8].map(|customer| {
                let cell = cells().find(|cell| (cell.table, cell.cbs_kb, cell.customer) == (goodput, cbs, customer));
                cell.map_or_else(String::new, |cell| entry(&cell, items))
            });
            let _ = writeln!(out, "| {cbs} | {} |", entries.join(" | "));
        }
    }
    let is_cell = |id: &str| cells().any(|cell| cell.id() == id);
    let _ = writeln!(
        out,
        "\n### Claims outside of their bounds\n\n| item | the RFC | here | verdict |\n| --- | --- | --- | --- |"
    );
    for item in items.iter().filter(|item| !is_cell(&item.id)) {
        let Some(verdict) =
            item.verdict().filter(|verdict| matches!(verdict, Verdict::Contradicted | Verdict::Deviates))
        else {
            continue;
        };
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
        let verdict = verdict.name();
        let _ = writeln!(out, "| `{}` | {} | {} | {verdict} |", item.id, number(item.paper), number(item.measured));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_in_the_tables() {
        let items: Vec<Item> = cells().map(|cell| Item::measured(cell.id(), "", "", cell.value * 1.06)).collect();
        let text = tables(&items);
        assert!(text.starts_with(
            "30 of the 30 cells of A.2 and A.3 are within 10 % of the RFC, and the mean distance is 6.0 %"
        ));
        assert!(text.contains("of all 140 cells 140 are\nwithin 10 %, 0 within 5 %"));
        assert_eq!(text.matches("(+6 %)").count(), 140);
        // The row has green, yellow and total of C1 in A.2, and then those of C6 in A.3.
        let row = "| 2 | 1.1 / 1.17 (+6 %) | 0.93 / 0.99 (+6 %) | 2.25 / 2.39 (+6 %) | 2 / 2.12 (+6 %) |";
        assert!(text.contains(row), "{text}");
    }
}

//! Draws tables A.2 to A.7 as curves, the RFC's beside ours.

use tidegate_report::Axis;

use super::cells;
use super::scenario::CIRS;
use crate::Failure;
use crate::reproduce::figure::Figure;
use crate::reproduce::{Item, Options};

/// Draws the tables for which there are items.
pub fn draw(options: &Options, items: &[Item]) -> Result<(), Failure> {
    for (unshaped, shaped, shaper) in [("a2", "a3", "trRAS"), ("a5", "a6", "G-trRAS")] {
        for what in ["green", "yellow", "total"] {
            let points = |table: &str, first: usize| {
                CIRS.iter()
                    .enumerate()
                    .map(|(n, cir)| (*cir as f64, format!("{table}.c{}.{what}", first + n)))
                    .collect()
            };
            Figure {
                name: format!("tables-{unshaped}-{shaped}-{what}"),
                title: format!("Throughput at CBS 3 KB, {what}: tables A.{} and A.{}", &unshaped[1..], &shaped[1..]),
                curves: vec![("unshaped".to_owned(), points(unshaped, 1)), (shaper.to_owned(), points(shaped, 6))],
                ..Figure::default()
            }
            .draw(options, items, Axis::new("CIR", "Mbit/s"), Axis::new("throughput", "Mbit/s"))?;
        }
    }
    for (table, shaper) in [("a4", "trRAS"), ("a7", "G-trRAS")] {
        let points = |customer: usize| {
            let own = cells().filter(|cell| cell.table == table && cell.customer == customer);
            own.map(|cell| (cell.cbs_kb as f64, cell.id())).collect()
        };
        let curve = |customer: usize, how: &str| (format!("C{customer}, {how}"), points(customer));
        Figure {
            name: format!("table-{table}"),
            title: format!("Goodput against CBS, {shaper}: table A.{}", &table[1..]),
            curves: vec![curve(1, "unshaped"), curve(6, "shaped"), curve(3, "unshaped"), curve(8, "shaped")],
            ..Figure::default()
        }
        .draw(options, items, Axis::log("CBS", "KB"), Axis::new("goodput", "Mbit/s"))?;
    }
    Ok(())
}

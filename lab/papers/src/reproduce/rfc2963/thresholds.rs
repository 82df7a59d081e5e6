//! The shaper's thresholds, which "will usually depend on the values chosen for CBS and PBS" (sections 2.2 and 2.4): as multiples of
//! them, at several round trips and numbers of connections, and what they do to tables A.3 and A.4.

use tidegate_core::Span;
use tidegate_core::ras::Coupling;

use super::scenario::{CIRS, Customer, Outcome, Setup, Sources};
use super::{Cell, Options, cells, simulate_runs};
use crate::Failure;
use crate::reproduce::Item;
use crate::reproduce::item::{Bound, Sample, spread};

/// CIR_th in tenths of CBS.
const TENTHS: [u64; 5] = [10, 20, 40, 80, 200];
/// A case of the grid: TCP connections a router, CBS in KByte, and the delay from ER1 to ER2 in ms.
type Case = (u64, u64, u64);
const CASES: [Case; 8] =
    [(10, 3, 10), (10, 3, 50), (10, 10, 10), (10, 10, 50), (2, 3, 10), (2, 3, 50), (2, 10, 10), (2, 10, 50)];
/// Items beyond the RFC have the first seeds only: forty setups of the grid take as long as all tables of the RFC.
pub const SEEDS: u32 = 4;

fn goodput(customer: &Customer) -> f64 {
    customer.goodput
}

/// The gain of shaping in each case of the grid, by the multiple; and the default's over that of the best multiple.
pub fn grid(options: &Options) -> Result<Vec<Item>, Failure> {
    let options = Options { runs: options.runs.min(SEEDS), ..options.clone() };
    let setup = |(stations, cbs, delay): Case, tenths| Setup {
        sources: Sources::Tcp { stations },
        rio_connections: 10 * stations,
        delay: Span::from_millis(delay),
        by_burst: Some(tenths),
        ..Setup::new(Coupling::Uncoupled, cbs, options.seed)
    };
    let setups: Vec<Setup> = CASES.iter().flat_map(|&case| TENTHS.map(|tenths| setup(case, tenths))).collect();
    let runs = simulate_runs(&setups, &options)?;
    let (mut items, mut worst) = (Vec::new(), f64::INFINITY);
    for ((stations, cbs, delay), runs) in CASES.into_iter().zip(runs.chunks_exact(TENTHS.len())) {
        let mut gains = Vec::new();
        for (tenths, runs) in TENTHS.into_iter().zip(runs) {
            let of = |seed| (1..=CIRS.len()).map(|n| runs.gain_of(seed, n, goodput)).sum::<f64>() / CIRS.len() as f64;
            let sample = Sample::of((0..options.runs as usize).map(of));
            gains.push(sample.mean);
            // There and back over the access links and LANs are 14 ms more.
            let round_trip = 2 * delay + 14;
            let what = format!(
                "goodput, shaped over unshaped, mean of the CIRs: CIR_th {} CBS, CBS {cbs} KB, {stations} TCPs a router, {round_trip} ms",
                tenths / 10
            );
            let id = format!("thresholds.cbs{cbs}.tcp{stations}.rtt{round_trip}ms.x{}", tenths / 10);
            items.push(Item::sampled(id, what, "ratio", sample));
        }
        let best = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        worst = worst.min(gains[0] / best);
    }
    let basis = spread(
        "our default: no multiple of the grid is better in any case by more than the 3.4 % of the RFC's own cells, doubled",
    );
    let what = "the gain with CIR_th = CBS, PIR_th = PBS and MIR_th = 2 PBS over that of the best multiple: the least of all cases";
    items.push(Item::measured("thresholds.default", what, "ratio", worst).bound(Bound::at_least(0.932, basis)));
    Ok(items)
}

/// Whether the cell has another value where the thresholds are twice CBS and PBS.
pub fn explains(cell: &Cell<'_>) -> bool {
    cell.customer > 5 && (cell.table == "a3" || cell.table == "a4" && cell.cbs_kb >= 75)
}

/// The cells of A.3, and of A.4 at a CBS of 75 KB and more, with CIR_th = 2 CBS, PIR_th = 2 PBS and MIR_th = 4 PBS.
pub fn tables(options: &Options) -> Result<Vec<Item>, Failure> {
    let options = &Options { runs: options.runs.min(SEEDS), ..options.clone() };
    let mut bursts: Vec<u64> = cells().filter(explains).map(|cell| cell.cbs_kb).collect();
    bursts.sort_unstable();
    bursts.dedup();
    let setup = |&cbs: &u64| Setup { by_burst: Some(20), ..Setup::new(Coupling::Uncoupled, cbs, options.seed) };
    let runs = simulate_runs(&bursts.iter().map(setup).collect::<Vec<_>>(), options)?;
    let mut items = Vec::new();
    for cell in cells().filter(explains) {
        let runs = bursts.iter().zip(&runs).find(|(cbs, _)| **cbs == cell.cbs_kb);
        let Some((_, runs)) = runs else { continue };
        let measured = |outcome: &Outcome| cell.measured(&outcome.customers[cell.customer - 1]);
        let sample = Sample::of(runs.values(measured));
        let what = format!("{}, thresholds by CBS", cell.describe());
        let item = Item::sampled(format!("thresholds.{}", cell.id()), what, "Mbit/s", sample);
        items.push(item.paper(cell.value).bound(super::bound(&cell)));
    }
    Ok(items)
}

//! Two claims of RFC 2963: if the traffic does not react to congestion, shaping gains nothing (section 4), and it gains
//! more with few connections (section 1). Also the network without shapers, which can be compared with ns-2.

use tidegate_core::ras::Coupling;

use super::scenario::{CIRS, Customer, Gaps, Setup, Sources};
use super::{Options, Runs, simulate_runs, thresholds};
use crate::Failure;
use crate::reproduce::Item;
use crate::reproduce::item::{Bound, Sample, paper};

pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    if options.wants("assumption.unresponsive") {
        items.extend(unresponsive(options)?);
    }
    if ["few", "fewer", "same-rio"].iter().any(|group| options.wants(&format!("assumption.{group}."))) {
        items.extend(few(options)?);
    }
    if options.wants("assumption.by-burst") {
        items.extend(few_by_burst(options)?);
    }
    Ok(items)
}

fn goodput(customer: &Customer) -> f64 {
    customer.goodput
}

/// Flows that do not react, with random gaps: those of equal gaps keep the phases of their beginnings, so that a router's packets
/// come in the same bursts all the time, which differ from seed to seed.
fn unresponsive(options: &Options) -> Result<Vec<Item>, Failure> {
    const CASES: [(Gaps, u64, &str); 4] = [
        (Gaps::Random, 3, "cbs3"),
        (Gaps::Random, 25, "cbs25"),
        (Gaps::Random, 100, "cbs100"),
        (Gaps::Constant, 3, "constant"),
    ];
    // Each router sends 150 % of its CIR, which is 90 Mbit/s for the bottleneck of 70.
    let setups = CASES.map(|(gaps, cbs, _)| Setup {
        sources: Sources::Udp { percent_of_cir: 150, gaps },
        ..Setup::new(Coupling::Uncoupled, cbs, options.seed)
    });
    let mut items = Vec::new();
    for ((gaps, cbs, name), runs) in CASES.into_iter().zip(simulate_runs(&setups, options)?) {
        for (n, cir) in (1..).zip(CIRS) {
            let how = match gaps {
                Gaps::Random => "random",
                Gaps::Constant => "constant",
            };
            let what = format!(
                "goodput at CBS {cbs} KB, shaped over unshaped, CIR {cir} Mbit/s, ten flows of 0.15 CIR a router with {how} \
                 gaps instead of TCP"
            );
            let id = format!("assumption.unresponsive.{name}.cir{cir}");
            let item = Item::sampled(id, what, "ratio", runs.gains(n, goodput)).paper(1.0);
            let basis =
                paper("section 4: no performance gain if the traffic does not react; 3.4 % as in its own cells");
            items.push(match gaps {
                Gaps::Random => item.bound(Bound::at_most(1.034, basis)),
                Gaps::Constant => item,
            });
        }
    }
    Ok(items)
}

/// Two connections a router instead of ten. RIO's thresholds are in proportion: the RFC's are for a hundred connections. Those of the
/// shaper depend, by the RFC, on the burst sizes, and are tried by them as well.
fn few(options: &Options) -> Result<Vec<Item>, Failure> {
    let setup = |stations, rio_connections| Setup {
        sources: Sources::Tcp { stations },
        rio_connections,
        ..Setup::new(Coupling::Uncoupled, 3, options.seed)
    };
    let setups = [setup(10, 100), setup(2, 20), setup(2, 100)];
    let runs = simulate_runs(&setups, options)?;
    let [ten, two, same_rio] = &runs[..] else { unreachable!("three setups") };
    let mut items = Vec::new();
    for (n, cir) in (1..).zip(CIRS) {
        let mut add = |id: &str, how: &str, sample, bound| {
            let what = format!("goodput at CBS 3 KB, shaped over unshaped, CIR {cir} Mbit/s, {how}");
            let item = Item::sampled(format!("assumption.{id}.cir{cir}"), what, "ratio", sample);
            items.push(match bound {
                Some(bound) if matches!(cir, 4 | 6) => item.bound(bound).because("assumption.by-burst", 0.7, 1.0),
                Some(bound) => item.bound(bound),
                None => item,
            });
        };
        let over = |few: &Runs| {
            let ratio = |seed| few.gain_of(seed, n, goodput) / ten.gain_of(seed, n, goodput);
            Sample::of((0..options.runs as usize).map(ratio))
        };
        let basis = paper("abstract and section 1: particularly useful with a small number of TCP connections");
        add("few", "two TCPs a router", two.gains(n, goodput), None);
        add("fewer", "two TCPs a router over ten", over(two), Some(Bound::above(1.0, basis)));
        add("same-rio", "two TCPs a router and RIO's thresholds for a hundred, over ten", over(same_rio), None);
    }
    Ok(items)
}

/// Two connections a router over ten, with the shaper's thresholds by CBS and PBS, which are our defaults (see `thresholds`).
fn few_by_burst(options: &Options) -> Result<Vec<Item>, Failure> {
    let options = Options { runs: options.runs.min(thresholds::SEEDS), ..options.clone() };
    let setups = [10, 2].map(|stations| Setup {
        sources: Sources::Tcp { stations },
        rio_connections: 10 * stations,
        by_burst: Some(10),
        ..Setup::new(Coupling::Uncoupled, 3, options.seed)
    });
    let runs = simulate_runs(&setups, &options)?;
    let item = |(n, cir): (usize, u64)| {
        let ratio = |seed| runs[1].gain_of(seed, n, goodput) / runs[0].gain_of(seed, n, goodput);
        let what = format!(
            "goodput at CBS 3 KB, shaped over unshaped, CIR {cir} Mbit/s, two TCPs a router over ten, thresholds by CBS"
        );
        let basis = paper("abstract and section 1: particularly useful with a small number of TCP connections");
        Item::sampled(
            format!("assumption.by-burst.cir{cir}"),
            what,
            "ratio",
            Sample::of((0..options.runs as usize).map(ratio)),
        )
        .bound(Bound::above(1.0, basis))
    };
    Ok((1..).zip(CIRS).map(item).collect())
}

/// Simulates the network without shapers. The mean goodput of the two routers with each CIR can be compared with the
/// results of `lab/papers/rfc2963/ns2.tcl`.
pub fn unshaped(options: &Options) -> Result<Vec<Item>, Failure> {
    let cbs = [3, 100];
    let setups = cbs.map(|cbs| Setup { shaped: false, ..Setup::new(Coupling::Uncoupled, cbs, options.seed) });
    let mut items = Vec::new();
    for (cbs, runs) in cbs.into_iter().zip(simulate_runs(&setups, options)?) {
        for (n, cir) in CIRS.into_iter().enumerate() {
            let both = runs.values(|outcome| (outcome.customers[n].goodput + outcome.customers[n + 5].goodput) / 2.0);
            let what = format!("goodput at CBS {cbs} KB with no router shaped, CIR {cir} Mbit/s");
            items.push(Item::sampled(format!("unshaped.cbs{cbs}.cir{cir}"), what, "Mbit/s", Sample::of(both)));
        }
    }
    Ok(items)
}

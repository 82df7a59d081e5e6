//! Two claims of RFC 2963: if the traffic does not react to congestion, shaping gains nothing (section 4), and it gains
//! more with few connections (section 1). Also the network without shapers, which can be compared with ns-2.

use tidegate_core::ras::Coupling;

use super::scenario::{CIRS, Customer, Setup, Sources};
use super::{Options, simulate_runs};
use crate::Failure;
use crate::reproduce::Item;
use crate::reproduce::item::{Bound, Sample, paper};

pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let setup = |sources| Setup { sources, ..Setup::new(Coupling::Uncoupled, 3, options.seed) };
    // Each router sends 150 % of its CIR, which is 90 Mbit/s for the bottleneck of 70.
    let setups = [
        setup(Sources::Udp { percent_of_cir: 150 }),
        setup(Sources::Tcp { stations: 2 }),
        setup(Sources::Tcp { stations: 10 }),
    ];
    let runs = simulate_runs(&setups, options)?;
    let goodput = |customer: &Customer| customer.goodput;
    let mut items = Vec::new();
    for (n, cir) in CIRS.into_iter().enumerate() {
        let what = |how: &str| format!("goodput at CBS 3 KB, shaped over unshaped, CIR {cir} Mbit/s, {how}");
        let basis = paper("section 4: no performance gain if the traffic does not react; 3.4 % as in its own cells");
        items.push(
            Item::sampled(
                format!("assumption.unresponsive.cir{cir}"),
                what("ten constant flows of 0.15 CIR a router instead of TCP"),
                "ratio",
                runs[0].gains(n + 1, goodput),
            )
            .paper(1.0)
            .bound(Bound::at_most(1.034, basis)),
        );
        items.push(Item::sampled(
            format!("assumption.few.cir{cir}"),
            what("two TCPs a router instead of ten"),
            "ratio",
            runs[1].gains(n + 1, goodput),
        ));
        let seeds = 0..options.runs as usize;
        let fewer = seeds.map(|seed| runs[1].gain_of(seed, n + 1, goodput) / runs[2].gain_of(seed, n + 1, goodput));
        let basis = paper("abstract and section 1: particularly useful with a small number of TCP connections");
        items.push(
            Item::sampled(
                format!("assumption.fewer.cir{cir}"),
                what("two TCPs a router over ten"),
                "ratio",
                Sample::of(fewer),
            )
            .bound(Bound::above(1.0, basis)),
        );
    }
    Ok(items)
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

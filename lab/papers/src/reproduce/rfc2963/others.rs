//! The shapers and meters that the RFC names and does not simulate, in its network: srRAS and G-srRAS before srTCM, and trRAS before
//! the meters of RFC 4115 and RFC 2859.

use tidegate_core::Colour;
use tidegate_core::ras::Coupling;

use super::scenario::{CIRS, Customer, Metering, Setup};
use super::{Options, simulate_runs, thresholds};
use crate::Failure;
use crate::reproduce::Item;
use crate::reproduce::item::{Bound, paper};

/// A shaper and the meter behind it.
struct System {
    id: &'static str,
    shaper: Coupling,
    meter: Metering,
    name: &'static str,
}

const SYSTEMS: [System; 5] = [
    System { id: "srras", shaper: Coupling::Uncoupled, meter: Metering::SrTcm, name: "srRAS before srTCM" },
    System { id: "gsrras", shaper: Coupling::Green, meter: Metering::SrTcm, name: "G-srRAS before srTCM" },
    System { id: "rfc4115", shaper: Coupling::Uncoupled, meter: Metering::Rfc4115, name: "trRAS before RFC 4115" },
    System { id: "g-rfc4115", shaper: Coupling::Green, meter: Metering::Rfc4115, name: "G-trRAS before RFC 4115" },
    System { id: "tswtcm", shaper: Coupling::Uncoupled, meter: Metering::TswTcm, name: "trRAS before TSWTCM" },
];

/// The burst sizes: the one of the RFC's tables of throughput, and one at which it has no advantage any more.
const BURSTS: [u64; 2] = [3, 100];

type Quantity = fn(&Customer) -> f64;

/// The measure that is compared, shaped over unshaped.
const QUANTITIES: [(&str, Quantity); 4] = [
    ("green", |customer| customer.colour(Colour::Green)),
    ("proportion", |customer| customer.colour(Colour::Green) / customer.total()),
    ("conforming", |customer| customer.colour(Colour::Green) + customer.colour(Colour::Yellow)),
    ("goodput", |customer| customer.goodput),
];

pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let options = &Options { runs: options.runs.min(thresholds::SEEDS), ..options.clone() };
    let wanted: Vec<&System> = SYSTEMS.iter().filter(|one| options.wants(&format!("others.{}", one.id))).collect();
    let setup = |system: &System, cbs| Setup { meter: system.meter, ..Setup::new(system.shaper, cbs, options.seed) };
    let setups: Vec<Setup> = wanted.iter().flat_map(|system| BURSTS.map(|cbs| setup(system, cbs))).collect();
    let runs = simulate_runs(&setups, options)?;
    let mut items = Vec::new();
    for (system, runs) in wanted.iter().zip(runs.chunks_exact(BURSTS.len())) {
        for (cbs, runs) in BURSTS.into_iter().zip(runs) {
            for (what, of) in QUANTITIES {
                for (n, cir) in (1..).zip(CIRS) {
                    let System { id, name, .. } = system;
                    let text = format!("{what} at CBS {cbs} KB, shaped over unshaped, CIR {cir} Mbit/s, {name}");
                    let id = format!("others.{id}.cbs{cbs}.{what}.cir{cir}");
                    let item = Item::sampled(id, text, "ratio", runs.gains(n, of));
                    // Claimed of the RFC's own shapers, without a simulation of these.
                    let claimed =
                        system.meter == Metering::SrTcm && cbs == 3 && matches!(what, "proportion" | "goodput");
                    let basis =
                        paper("abstract and section 1: a higher part marked green, and an improved TCP goodput");
                    items.push(if claimed { item.bound(Bound::above(1.0, basis)) } else { item });
                }
            }
        }
    }
    Ok(items)
}

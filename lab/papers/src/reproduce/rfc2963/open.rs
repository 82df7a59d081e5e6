//! The parameters that RFC 2963 leaves open: the values that we chose, and the results with other values.

use tidegate_core::marker::Point;
use tidegate_core::ras::Coupling;
use tidegate_core::red::AboveMax;
use tidegate_core::{Colour, Span, rio};
use tidegate_sim::tcp::Vintage;

use super::reading::Schedule;
use super::scenario::{CIRS, Customer, Setup, WINDOW};
use super::{Options, Runs, cells, simulate_runs};
use crate::Failure;
use crate::reproduce::Item;
use crate::reproduce::item::Sample;

/// The chosen values, each with its reason. The README gives the arguments at length.
pub fn chosen() -> Vec<Item> {
    let setup = Setup::new(Coupling::Uncoupled, 3, 0);
    let milli = |span: Span| span.as_nanos() as f64 / 1e6;
    let [cir_th, pir_th, mir_th, buffer] = setup.thresholds.map(|milli| (WINDOW * milli / 1_000) as f64);
    let window = "in maximum windows of 64 KB: a burst of one connection does not speed the shaper up";
    [
        ("cir_th", "CIR_th of every shaper", "B", cir_th, window),
        ("pir_th", "PIR_th of every shaper", "B", pir_th, "two maximum windows"),
        ("mir_th", "MIR_th of every shaper", "B", mir_th, "four maximum windows"),
        ("buffer", "buffer of every customer router", "B", buffer, "ten maximum windows: nothing can be lost there"),
        (
            "averaging",
            "K of the EAR",
            "ms",
            milli(setup.averaging),
            "some round trips: the RFC's average is \"long term\"",
        ),
        ("delay", "delay ER1 to ER2", "ms", milli(setup.delay), "a national backbone, some 2000 km"),
        ("kb", "bytes of a KByte of CBS", "B", setup.kb as f64, "two packets of 1500 B fit 3 KB either way"),
        ("starts", "connections start within", "ms", milli(setup.starts), "half of the warm-up, at random"),
        ("delayed_ack", "acknowledgements are held back up to", "ms", 200.0, "RFC 1122's SHOULD, with BSD's 200 ms"),
        ("least_rto", "minimum retransmission timeout", "ms", milli(setup.least_rto), "RFC 2988 of the same month"),
        ("initial_window", "first window", "segments", 2.0, "RFC 2581"),
        ("limited_transmit", "limited transmit", "used=1", 0.0, "RFC 3042 is younger than RFC 2963"),
        ("limit", "physical queue at ER1", "packets", setup.limit as f64, "beyond RIO's last threshold of 800"),
        ("gentle", "RIO rises gently above a maximum threshold", "used=1", 0.0, "Clark and Fang have a cliff"),
    ]
    .into_iter()
    .map(|(id, what, unit, value, why)| Item::measured(format!("open.{id}"), what, unit, value).note(why))
    .collect()
}

type Change = fn(&mut Setup);

/// Other values of every open parameter: the parameter, the value, and how to set it.
const CHANGES: &[(&str, &str, Change)] = &[
    ("none", "as_chosen", |_| {}),
    ("thresholds", "quarter", |s| s.thresholds = [250, 500, 1_000, 10_000]),
    ("thresholds", "half", |s| s.thresholds = [500, 1_000, 2_000, 10_000]),
    ("thresholds", "double", |s| s.thresholds = [2_000, 4_000, 8_000, 10_000]),
    ("buffer", "half", |s| s.thresholds[3] = 5_000),
    ("averaging", "20ms", |s| s.averaging = Span::from_millis(20)),
    ("averaging", "100ms", |s| s.averaging = Span::from_millis(100)),
    ("averaging", "200ms", |s| s.averaging = Span::from_millis(200)),
    ("averaging", "2s", |s| s.averaging = Span::from_secs(2)),
    ("delay", "2ms", |s| s.delay = Span::from_millis(2)),
    ("delay", "25ms", |s| s.delay = Span::from_millis(25)),
    ("delay", "50ms", |s| s.delay = Span::from_millis(50)),
    ("kb", "1024", |s| s.kb = 1_024),
    ("starts", "at_once", |s| s.starts = Span::from_nanos(1)),
    ("delayed_ack", "none", |s| s.delayed_ack = None),
    ("delayed_ack", "40ms", |s| s.delayed_ack = Some(Span::from_millis(40))),
    ("least_rto", "200ms", |s| s.least_rto = Span::from_millis(200)),
    ("initial_window", "1", |s| s.initial_window = 1),
    ("limited_transmit", "used", |s| s.vintage = Vintage::Current),
    ("gentle", "used", |s| s.above_max = AboveMax::Gentle),
    ("rio", "uncoupled", |s| s.coupling = rio::Coupling::Uncoupled),
    ("metered", "behind_the_queue", |s| s.metered_at = Point::Exit),
    ("metered", "before_the_shaper", |s| s.metered_first = true),
    ("schedule", "paid_at_once", |s| s.schedule = Schedule::PaidAtOnce),
    ("schedule", "served", |s| s.schedule = Schedule::Served),
    ("schedule", "served_at_once", |s| s.schedule = Schedule::ServedAtOnce),
    ("schedule", "served_20ms", |s| {
        s.schedule = Schedule::Served;
        s.averaging = Span::from_millis(20);
    }),
];

/// The values to try.
#[derive(Clone, Copy)]
pub enum Changes {
    /// The values that the options ask for, in addition to the chosen ones.
    Wanted,
    /// The values that explain a cell, see [`super::cause`].
    Causes,
}

/// Simulates other values of the open parameters. For each there are, with trRAS, the mean distance from tables A.2 and
/// A.3, the least advantage of shaping at CBS 3 KB, and the advantage at CBS 25 KB; also the gain of G-trRAS over
/// trRAS.
pub fn sensitivity(options: &Options, changes: Changes) -> Result<Vec<Item>, Failure> {
    let wanted: Vec<_> = CHANGES
        .iter()
        .filter(|(parameter, value, _)| match changes {
            Changes::Wanted => *parameter == "none" || options.wants(&id(parameter, value)),
            Changes::Causes => cells()
                .filter_map(|cell| super::cause(&cell))
                .any(|(finding, ..)| finding.starts_with(&id(parameter, value))),
        })
        .collect();
    let setups: Vec<Setup> = wanted
        .iter()
        .flat_map(|(_, _, change)| {
            [(Coupling::Uncoupled, 3), (Coupling::Uncoupled, 25), (Coupling::Green, 3)].map(|(shaper, cbs)| {
                let mut setup = Setup::new(shaper, cbs, options.seed);
                change(&mut setup);
                setup
            })
        })
        .collect();
    let runs = simulate_runs(&setups, options)?;
    let items = wanted.iter().zip(runs.chunks_exact(3)).flat_map(|((parameter, value, _), runs)| {
        let id = id(parameter, value);
        let prefix = id.clone();
        // These are the cells that this value explains, see `cause`.
        let cells =
            cells().filter(move |cell| super::cause(cell).is_some_and(|(finding, ..)| finding.starts_with(&prefix)));
        let cell_items = cells.map(|cell| {
            let runs = if cell.shaper() == Coupling::Green { &runs[2] } else { &runs[0] };
            let sample = Sample::of(runs.values(|outcome| cell.measured(&outcome.customers[cell.customer - 1])));
            let item = Item::sampled(format!("{id}.{}", cell.id()), cell.describe(), "Mbit/s", sample);
            item.paper(cell.value).bound(super::bound(&cell))
        });
        let cell_items: Vec<Item> = cell_items.collect();
        let (small, large) = (&runs[0], &runs[1]);
        let green = super::green_against_plain(&id, small, &runs[2]);
        let least =
            |of: fn(&Customer) -> f64| (1..=CIRS.len()).map(|n| small.gain(n, of)).fold(f64::INFINITY, f64::min);
        let gone = [1, 3].map(|n| large.gain(n, |customer| customer.goodput));
        [
            Item::measured(format!("{id}.distance"), "mean distance from A.2 and A.3", "%", distance(small)),
            Item::measured(
                format!("{id}.green"),
                "green at CBS 3 KB, shaped over unshaped: the least of the five CIRs",
                "ratio",
                least(|customer| customer.colour(Colour::Green)),
            ),
            Item::measured(
                format!("{id}.total"),
                "total at CBS 3 KB, shaped over unshaped: the least of the five CIRs",
                "ratio",
                least(Customer::total),
            ),
            Item::measured(
                format!("{id}.cbs25"),
                "goodput at CBS 25 KB, shaped over unshaped: the larger of CIR 2 and 6",
                "ratio",
                gone[0].max(gone[1]),
            ),
        ]
        .into_iter()
        .chain(green)
        .chain(cell_items)
    });
    Ok(items.collect())
}

fn id(parameter: &str, value: &str) -> String {
    format!("sensitivity.{parameter}.{value}")
}

/// The mean distance from the thirty cells of tables A.2 and A.3, in percent.
fn distance(runs: &Runs) -> f64 {
    let distances: Vec<f64> = cells()
        .filter(|cell| matches!(cell.table, "a2" | "a3"))
        .map(|cell| (runs.customer(cell.customer, |customer| cell.measured(customer)) / cell.value - 1.0).abs())
        .collect();
    distances.iter().sum::<f64>() / distances.len() as f64 * 100.0
}

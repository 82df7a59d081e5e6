//! `tidegate reproduce cbq`: the defects of a CBQ router, each beside its cure.
//!
//! Sources: F. Risso and P. Gevros, "Operational and performance issues of a CBQ router", 1999; for the last group S.
//! Floyd and V. Jacobson, "Link-sharing and resource management models for packet networks", 1995. The README,
//! `lab/papers/cbq/README.md`, explains the expectations, the results and the bounds.

mod bursts;
mod driver;
mod goals;
mod issues;
mod linkshare;
mod live;
mod open;
mod overload;
mod performance;
mod queues;
mod rig;

use serde::Deserialize;
use tidegate_core::cbq::{Class, LinkClock, Params};
use tidegate_core::{Bytes, Rate, Span};
use tidegate_report::{Axis, Curve, Plot, Style};
use tidegate_sim::Driver;

use super::figure::Figure;
use super::{Item, Options};
use crate::Failure;
use rig::{Load, Outcome, ROOT};

/// The paper's numbers.
#[derive(Deserialize)]
struct Paper {
    overtaken: Overtaken,
    table_4_pps: Vec<Table4>,
    table_5_pps: Vec<Table5>,
    table_6_kbit: Vec<Table6>,
}

#[derive(Deserialize)]
struct Overtaken {
    original: f64,
    modified: f64,
    small: f64,
}

#[derive(Deserialize)]
struct Table4 {
    bytes: u32,
    cbq: f64,
    fifo: f64,
}

#[derive(Deserialize)]
struct Table5 {
    classes: u32,
    pps: f64,
}

#[derive(Deserialize)]
struct Table6 {
    min_burst: u32,
    big: f64,
    small: f64,
}

fn paper() -> Paper {
    let text = include_str!("../../cbq/paper.json");
    serde_json::from_str(text).expect("the paper's numbers are checked by a test")
}

/// Runs the groups that are wanted.
pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    // Namespaces can only be created while the process is single-threaded.
    if options.wants("live") {
        items.extend(live::run(options));
    }
    type Group = fn(&Options, &Paper) -> Result<Vec<Item>, Failure>;
    let groups: [(&str, Group); 6] = [
        ("s2", queues::left_over),
        ("s4", driver::run),
        ("s5", goals::run),
        ("s6", performance::run),
        ("s7", issues::run),
        ("ls", linkshare::run),
    ];
    let paper = paper();
    for (group, run) in groups {
        if options.wants(group) {
            items.extend(run(options, &paper)?);
        }
    }
    Ok(items)
}

/// Draws figures 18, 20 and 22, which plot items.
pub fn figures(options: &Options, items: &[Item]) -> Result<(), Failure> {
    let shares = [(75.0, "big"), (25.0, "small"), (5.0, "tiny")];
    let curve = |name: &str, what: &str| {
        (name.to_owned(), shares.map(|(share, class)| (share, format!("s6.1.{class}.{what}"))).into())
    };
    Figure {
        name: "figure-18".to_owned(),
        title: "One flow alone in a class that borrows, 100 Hz (figure 18)".to_owned(),
        curves: vec![
            curve("UDP, expected finish", "expected"),
            curve("UDP, actual finish", "actual"),
            curve("UDP, efficient", "efficient"),
            curve("UDP, 2 + 16 KB", "small-buffers"),
            curve("TCP", "tcp"),
        ],
        ..Figure::default()
    }
    .draw(options, items, Axis::new("share of the class", "%"), Axis::new("throughput", "kbit/s"))?;
    let curve = |configured: u32, share: u32| {
        let ids = [128, 540, 1_500].map(|size| (f64::from(size), format!("s6.3.{configured}.{size}.{share}")));
        (format!("{configured} B configured, class of {share} %"), ids.into())
    };
    Figure {
        name: "figure-22".to_owned(),
        title: "What a class gets of its rate by the size of its packets (figure 22)".to_owned(),
        curves: vec![curve(9_180, 75), curve(9_180, 25), curve(1_500, 75), curve(1_500, 25), curve(128, 25)],
        ..Figure::default()
    }
    .draw(options, items, Axis::log("packet size", "B"), Axis::new("part of its rate", "1"))?;
    let curve = |name: &str, system: &str| {
        let ids = overload::OFFERED.map(|kpps| (kpps as f64, format!("s6.2.load.{system}.{kpps}")));
        (name.to_owned(), ids.into())
    };
    Figure {
        name: "figure-20".to_owned(),
        title: "Packets forwarded by the load, 60 B (figure 20; the paper's router at most 20.7 and 23.9)".to_owned(),
        curves: vec![curve("CBQ", "cbq"), curve("FIFO", "fifo")],
        ..Figure::default()
    }
    .draw(options, items, Axis::new("offered", "1000/s"), Axis::new("forwarded", "1000/s"))
}

/// The link of the testbed.
const LINK: Rate = Rate::from_mbit(2);

/// The parameters of the kernel that the paper measured (section 3).
fn kernel(mtu: u64) -> Params {
    Params::altq(LINK, Bytes::new(mtu), ROOT)
}

/// Like [`kernel`], but a clock of expected finish times that is too far ahead is held at the maximum lead instead of
/// being set back to the present.
fn held_clock(mtu: u64) -> Params {
    let lead = LINK.time_for_ceil(Bytes::new(16 * mtu)).unwrap_or(Span::MAX);
    Params { link_clock: LinkClock::Clamp(lead), ..kernel(mtu) }
}

/// Like [`held_clock`], with the lead of ALTQ's later source: 16 packets, or 4 where one takes over 10 ms.
fn source_clock(mtu: u64) -> Params {
    let packet = LINK.time_for_ceil(Bytes::new(mtu)).unwrap_or(Span::MAX);
    let packets = if packet > Span::from_millis(10) { 4 } else { 16 };
    Params { link_clock: LinkClock::Clamp(packet.saturating_mul(packets)), ..kernel(mtu) }
}

/// CBQ's parameters with all cures.
fn cured(mtu: u64) -> Params {
    Params::new(LINK, Bytes::new(mtu), ROOT)
}

fn at_500_hz(driver: Driver) -> Driver {
    Driver { timer_hz: Some(500), ..driver }
}

/// Gives `driver` a timer with a resolution of nanoseconds.
fn exact(driver: Driver) -> Driver {
    Driver { timer_hz: None, ..driver }
}

/// A class with this percentage of the link.
fn percent(share: u64) -> Class {
    Class::new(Rate::from_bps(LINK.as_bps() / 100 * share))
}

/// The paper's UDP source, which sends more than the link can take.
const UDP: Load = Load::Udp { rate: Rate::from_mbit(3), packet: 1_500 };
/// The paper's TCP source, one connection with a window of 16 KB.
const TCP: Load = Load::Tcp { connections: 1, mss: 1_460, window: 16_384 };

/// Draws the throughput of classes over time, if plots are wanted.
fn draw(options: &Options, name: &str, title: &str, outcome: &Outcome, classes: &[(u32, &str)]) -> Result<(), Failure> {
    if !options.plots.wanted() {
        return Ok(());
    }
    let curve = |&(id, name): &(u32, &str)| {
        let kbit = outcome.curve(id, Span::from_millis(500));
        Curve::new(name, kbit.into_iter().map(|(at, kbit)| (at, kbit * 1e3)))
    };
    let plot = Plot {
        note: None,
        title: title.to_owned(),
        x: Axis::new("time", "s"),
        y: Axis::new("throughput", "bit/s"),
        style: Style::Lines,
        curves: classes.iter().map(curve).collect(),
    };
    options.plots.add(name, plot)
}

/// Draws the transmitted packets as bytes over time, if plots are wanted.
fn draw_pattern(
    options: &Options,
    name: &str,
    title: &str,
    outcome: &Outcome,
    classes: &[(u32, &str)],
    window: (f64, f64),
) -> Result<(), Failure> {
    if !options.plots.wanted() {
        return Ok(());
    }
    let plot = Plot {
        note: None,
        title: title.to_owned(),
        x: Axis::new("time", "s"),
        y: Axis::new("sent so far", "B"),
        style: Style::Marks,
        curves: classes.iter().map(|&(id, name)| Curve::new(name, outcome.pattern(id, window))).collect(),
    };
    options.plots.add(name, plot)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_papers_numbers_are_whole() {
        let paper = super::paper();
        assert_eq!((paper.table_4_pps.len(), paper.table_5_pps.len(), paper.table_6_kbit.len()), (5, 6, 4));
    }
}

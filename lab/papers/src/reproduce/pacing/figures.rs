//! The figures of the paper on their axes, with our results, the ideal, and the points that the paper's text states.
//! Our copy of the paper lacks the pictures, so no values are read from them.

use tidegate_pace::{Clock, Kind, VirtualClock};
use tidegate_report::{Axis, Curve, Plot, Style};
use tidegate_units::{Bytes, Rate, Span};

use super::{Paper, Point, burst, live_data};
use crate::Failure;
use crate::reproduce::Options;

/// A plot of the grid, either against the packet size or against the rate.
struct Panel {
    letter: char,
    x: fn() -> Axis,
    of: fn(&Point) -> f64,
    by_size: bool,
}

const PANELS: [Panel; 2] = [
    Panel { letter: 'a', x: || Axis::new("packet size S", "B"), of: |point| point.size as f64, by_size: true },
    Panel { letter: 'b', x: || Axis::new("rate R", "B/s"), of: |point| point.rate as f64, by_size: false },
];

/// Draws all figures, if plots are wanted.
pub fn draw(numbers: &Paper, options: &Options) -> Result<(), Failure> {
    if !options.plots.wanted() {
        return Ok(());
    }
    let plot = |name: &str, title: &str, x, y, style, curves| {
        let number: String = name.chars().filter(char::is_ascii_digit).collect();
        if !options.wants(&format!("fig{number}")) {
            return Ok(());
        }
        let plot = Plot { title: title.to_owned(), x, y, style, note: None, curves };
        options.plots.add(name, plot)
    };
    let throughput = || Axis::new("throughput", "B/s");
    let milliseconds = |title: &str| Axis::new(title, "ms");
    for panel in &PANELS {
        let points: Vec<Point> =
            numbers.points().into_iter().filter(|point| point.id.starts_with("size") == panel.by_size).collect();
        let curve = |name: &str, of: &dyn Fn(&Point) -> f64| {
            Curve::new(name, points.iter().map(|point| ((panel.of)(point), of(point))))
        };
        let ideal = || curve("min(S/T, R)", &|point| numbers.ideal(point));
        let reached = |kind: Kind, exact: bool| {
            let clock = || if exact { VirtualClock::exact() } else { VirtualClock::paper() };
            curve(&kind.name().to_uppercase(), &|point| numbers.send(clock(), kind, point, 10_000).0)
        };
        let name = |figure: u32| format!("figure-{figure}{}", panel.letter);
        plot(
            &name(4),
            "Expected performance, and DT0 where sleep is exact (figure 4)",
            (panel.x)(),
            throughput(),
            Style::Lines,
            vec![ideal(), reached(Kind::Dt0, true)],
        )?;
        plot(
            &name(6),
            "DT0 with a sleep of 10 ms (figure 6)",
            (panel.x)(),
            throughput(),
            Style::Lines,
            vec![ideal(), reached(Kind::Dt0, false)],
        )?;
        plot(
            &name(12),
            "DT1, DT2 and AT0 with a sleep of 10 ms (figure 12)",
            (panel.x)(),
            throughput(),
            Style::Lines,
            vec![ideal(), reached(Kind::Dt1, false), reached(Kind::Dt2, false), reached(Kind::At0, false)],
        )?;
        let slept = |of: fn(&VirtualClock) -> Span| {
            move |point: &Point| {
                let (_, clock) = numbers.send(VirtualClock::paper(), Kind::Dt0, point, numbers.figure_7.packets);
                of(&clock).as_nanos() as f64 / 1e6
            }
        };
        let mut curves =
            vec![curve("requested", &slept(VirtualClock::asked)), curve("slept", &slept(VirtualClock::slept))];
        if panel.by_size {
            let (small, large) = (&numbers.figure_7.at_500, &numbers.figure_7.at_1000);
            curves.push(Curve::new("requested, in the paper's text", [(500.0, small.requested_ms)]));
            curves.push(Curve::new("slept, in the paper's text", [(500.0, small.slept_ms), (1_000.0, large.slept_ms)]));
        }
        plot(
            &name(7),
            "Sleep requested and slept for 100 packets, DT0 (figure 7)",
            (panel.x)(),
            milliseconds("sleep"),
            Style::Marks,
            curves,
        )?;
    }
    let asked = |us: u64| {
        let mut clock = VirtualClock::paper();
        clock.advance(Span::from_millis(5));
        let until = clock.now() + Span::from_micros(us);
        clock.sleep_until(until);
        (us as f64 / 1e3, clock.slept().as_nanos() as f64 / 1e6)
    };
    plot(
        "figure-5",
        "What a sleep takes, begun between two ticks (figure 5)",
        milliseconds("requested"),
        milliseconds("slept"),
        Style::Lines,
        vec![
            Curve::new("the clock of the experiment", (1..=200).map(|n| asked(n * 200))),
            Curve::new("in the paper's text", [(1.9, 10.0), (2.1, 10.0)]),
        ],
    )?;
    let sent = live_data(&numbers.figure_14);
    let curves = sent.into_iter().map(|(name, times)| {
        let size = numbers.figure_14.size_byte as f64;
        let points = times.into_iter().enumerate();
        Curve::new(name.to_uppercase(), points.map(|(n, at)| (at.as_nanos() as f64 / 1e9, (n + 1) as f64 * size)))
    });
    plot(
        "figure-14",
        "Live data: a batch every so often, at half of its rate (figure 14)",
        Axis::new("time", "s"),
        Axis::new("sent so far", "B"),
        Style::Steps,
        curves.collect(),
    )?;
    let rate = Rate::from_bytes_per_sec(burst::RATE);
    let cap = burst::Burst { rate: Rate::from_bytes_per_sec(burst::CAP), allowance: Bytes::ZERO };
    let curve = |name: &str, cap| {
        let mut bytes = 0.0;
        let sent = burst::sent(Kind::Dt1, rate, cap, Bytes::new(burst::SIZE), 200);
        let points = sent.into_iter().map(|at| {
            bytes += burst::SIZE as f64;
            (at.as_nanos() as f64 / 1e9, bytes)
        });
        Curve::new(name, points.filter(|point| point.0 < 0.2).collect::<Vec<_>>())
    };
    plot(
        "figure-15",
        "DT1 with a sleep of 10 ms, without and with a burst rate (figure 15)",
        Axis::new("time", "s"),
        Axis::new("sent so far", "B"),
        Style::Steps,
        vec![curve("no burst rate", None), curve("at most twice the rate", Some(cap))],
    )
}

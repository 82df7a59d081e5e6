//! [`Plot::svg`]: a plot for a paper.

use crate::drawing::{Anchor, Drawing, Ink, Shape};
use crate::model::{Axis, Plot, Scale, Style};
use crate::palette::{Pen, Pens};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 80.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 55.0;
/// The approximate width of a character of a legend.
const CHARACTER: f64 = 7.2;
/// The most points of a curve: beyond, [`decimate`](crate::decimate) keeps what is visible.
const POINTS: usize = 4_000;

/// An axis with its range and its ticks.
struct Ruler {
    scale: Scale,
    /// The ends of the range, in the scale.
    low: f64,
    high: f64,
    /// Values and their labels.
    ticks: Vec<(f64, String)>,
}

impl Ruler {
    fn new(axis: &Axis, values: impl Iterator<Item = f64>, from_zero: bool) -> Self {
        let (mut low, mut high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        match axis.scale {
            Scale::Log => {
                let (low, high) = (low.log10().floor(), high.log10().ceil());
                let high = high.max(low + 1.0);
                let ticks =
                    (low as i32..=high as i32).map(|power| 10_f64.powi(power)).map(|v| (v, axis.tick(v))).collect();
                Self { scale: axis.scale, low, high, ticks }
            }
            Scale::Linear => {
                if from_zero {
                    low = low.min(0.0);
                }
                if high <= low {
                    high = low + 1.0;
                }
                // 1, 2 or 5 times a power of ten, so that there are five to ten steps.
                let rough = (high - low) / 6.0;
                let power = 10_f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough).unwrap_or(rough);
                if from_zero {
                    high = (high / step - 1e-9).ceil() * step;
                }
                let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
                let ticks = (first..=last).map(|n| n as f64 * step).map(|v| (v, axis.tick(v))).collect();
                Self { scale: axis.scale, low, high, ticks }
            }
        }
    }
    /// The position along the axis, from 0 to 1.
    fn at(&self, value: f64) -> f64 {
        let value = if self.scale == Scale::Log { value.log10() } else { value };
        (value - self.low) / (self.high - self.low)
    }
}

impl Axis {
    /// The label of a tick: rates and sizes with a decimal prefix.
    fn tick(&self, value: f64) -> String {
        let prefixed = [(1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|(scale, _)| value.abs() >= *scale);
        match prefixed.filter(|_| self.unit == "bit/s" || self.unit == "B") {
            Some((scale, prefix)) => format!("{} {prefix}", plain(value / scale)),
            None => plain(value),
        }
    }
}

/// A tick's number, without rounding errors of binary fractions.
fn plain(value: f64) -> String {
    let rounded: f64 = format!("{value:.6e}").parse().unwrap_or(value);
    if rounded == 0.0 { "0".to_owned() } else { rounded.to_string() }
}

/// Draws plots one below the other, with the axes of the first and over the same ranges; `None` for none. `pens` are those of
/// the curves of each.
pub(crate) fn stacked(plots: &[(Plot, Vec<Pen>)]) -> Option<Drawing> {
    let (first, _) = plots.first()?;
    let alike = |plot: &Plot| Plot { x: first.x.clone(), y: first.y.clone(), ..plot.clone() };
    let plots: Vec<(Plot, &[Pen])> = plots.iter().map(|(plot, pens)| (alike(plot), pens.as_slice())).collect();
    let placed: Vec<_> = plots.iter().flat_map(|(plot, _)| plot.placed()).flatten().collect();
    let x = Ruler::new(&first.x, placed.iter().map(|point| point.0), first.style == Style::Cdf);
    let y = Ruler::new(&first.y, placed.iter().map(|point| point.1), true);
    let longest = plots.iter().map(|(plot, _)| plot.longest_name()).max().unwrap_or(0);
    let mut whole = Drawing::default();
    for (plot, pens) in &plots {
        whole.append(plot.drawn(&x, &y, longest, pens));
    }
    Some(whole)
}

impl Plot {
    /// Formats the plot as SVG on white, 900 by 480; higher where its legend needs it.
    pub fn svg(&self) -> String {
        self.drawing(&self.pens(&Pens::named(self.names()))).svg()
    }

    /// Draws it, each curve with its pen.
    pub(crate) fn drawing(&self, pens: &[Pen]) -> Drawing {
        let placed = self.placed();
        let points = || placed.iter().flatten();
        let x = Ruler::new(&self.x, points().map(|point| point.0), self.style == Style::Cdf);
        let y = Ruler::new(&self.y, points().map(|point| point.1), true);
        self.drawn(&x, &y, self.longest_name(), pens)
    }

    fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.curves.iter().map(|curve| curve.name.as_str())
    }

    /// The pens of its curves, of those of a report.
    pub(crate) fn pens(&self, pens: &Pens) -> Vec<Pen> {
        pens.of_curves(&self.names().collect::<Vec<_>>())
    }

    fn placed(&self) -> Vec<Vec<(f64, f64)>> {
        self.curves.iter().map(|curve| curve.placed(&self.x, &self.y)).collect()
    }

    /// The characters of the longest name of a curve.
    fn longest_name(&self) -> usize {
        self.curves.iter().map(|curve| curve.name.chars().count()).max().unwrap_or(0)
    }

    /// Draws it over the ranges of `x` and `y`, with space for a legend of `longest` characters.
    fn drawn(&self, x: &Ruler, y: &Ruler, longest: usize, pens: &[Pen]) -> Drawing {
        let curves = self.placed();
        let longest = longest as f64;
        let right = if self.curves.len() > 1 { (52.0 + longest * CHARACTER).clamp(80.0, 340.0) } else { 32.0 };
        let height = HEIGHT.max(TOP + 20.0 + 20.0 * self.curves.len() as f64);
        let bottom = height - BOTTOM;
        let at_x = |value: f64| LEFT + x.at(value) * (WIDTH - LEFT - right);
        let at_y = |value: f64| bottom - y.at(value) * (bottom - TOP);

        let mut drawing = Drawing { width: WIDTH, height, title: self.title.clone(), shapes: Vec::new() };
        let mut text = |at: (f64, f64), anchor: Anchor, text: &str| drawing.text(at, anchor, 13.0, Ink::Text, text);
        text((LEFT, 22.0), Anchor::Start, &self.title);
        text(((LEFT + WIDTH - right) / 2.0, height - 12.0), Anchor::Middle, &self.x.label());
        text((12.0, TOP - 12.0), Anchor::Start, &self.y.label());
        for (value, label) in &x.ticks {
            text((at_x(*value), bottom + 18.0), Anchor::Middle, label);
        }
        for (value, label) in &y.ticks {
            text((LEFT - 8.0, at_y(*value) + 4.0), Anchor::End, label);
        }
        let legend = WIDTH - right + 12.0;
        if self.curves.len() > 1 {
            for (n, curve) in self.curves.iter().enumerate() {
                text((legend + 34.0, TOP + 14.0 + 20.0 * n as f64), Anchor::Start, &curve.name);
            }
        }
        for (value, _) in &x.ticks {
            drawing.line((at_x(*value), TOP), (at_x(*value), bottom), 1.0, Ink::Grid);
        }
        for (value, _) in &y.ticks {
            drawing.line((LEFT, at_y(*value)), (WIDTH - right, at_y(*value)), 1.0, Ink::Grid);
        }
        for (n, (points, curve)) in curves.iter().zip(&self.curves).enumerate() {
            let pen = pens.get(n).copied().unwrap_or_default();
            let ink = Ink::Curve(pen.colour);
            let at = TOP + 10.0 + 20.0 * n as f64;
            if self.style == Style::Marks {
                let points = points.iter().map(|(x, y)| (at_x(*x), at_y(*y))).collect();
                drawing.shapes.push(Shape::Marks { points, radius: 2.0, pen });
                if self.curves.len() > 1 {
                    drawing.shapes.push(Shape::Marks { points: vec![(legend + 14.0, at)], radius: 4.0, pen });
                }
                continue;
            }
            let mut lines: Vec<Vec<(f64, f64)>> = Vec::new();
            let gaps = curve.gaps();
            // The number of gaps before the last point.
            let mut behind = 0;
            for (x, y) in crate::decimate::decimate(points, POINTS, |value| x.at(value)) {
                let gone = gaps.partition_point(|gap| *gap <= x);
                let (x, y) = (at_x(x), at_y(y));
                let begins = lines.is_empty() || (gone > behind && self.style != Style::Cdf);
                behind = gone;
                if begins {
                    lines.push(if self.style == Style::Cdf { vec![(x, bottom), (x, y)] } else { vec![(x, y)] });
                } else if let Some(line) = lines.last_mut() {
                    if let (Style::Steps | Style::Cdf, Some(&(_, before))) = (self.style, line.last()) {
                        line.push((x, before));
                    }
                    line.push((x, y));
                }
            }
            let dash = pen.dashes();
            drawing.shapes.push(Shape::Lines { lines, width: 1.8, ink, dash });
            if self.curves.len() > 1 {
                let sample = vec![vec![(legend, at), (legend + 28.0, at)]];
                drawing.shapes.push(Shape::Lines { lines: sample, width: 1.8, ink, dash });
            }
        }
        drawing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Curve;

    #[test]
    fn stacked_plots_have_the_same_ranges() {
        let plot = |title: &str, most: f64| Plot {
            title: title.into(),
            x: Axis::new("time", "s"),
            y: Axis::new("rate", "bit/s"),
            style: Style::Lines,
            curves: vec![Curve::new("one", [(0.0, 0.0), (10.0, most)])],
        };
        let both = [plot("first", 1.0), plot("second", 1e7)].map(|plot| (plot, vec![Pen::default()]));
        let drawing = stacked(&both).unwrap_or_default();
        assert_eq!((drawing.width, drawing.height), (WIDTH, 2.0 * HEIGHT));
        let svg = drawing.svg();
        assert_eq!(svg.matches(">10 M<").count(), 2, "both reach to the greatest value: {svg}");
        // The second is below the first: its upper edge is at 480 + 56.
        assert!(svg.contains("L868.0,536.0"), "{svg}");
        assert_eq!(stacked(&[]), None);
    }

    #[test]
    fn a_plot_has_its_curves_its_decades_and_no_markup_of_others() {
        let plot = Plot {
            title: "a < b & c".into(),
            x: Axis::log("time", "s"),
            y: Axis::log("share", "1"),
            style: Style::Lines,
            curves: vec![Curve::new("one", [(0.02, 1.0), (3.0, 0.1), (5.0, 0.0)]), Curve::new("two", [])],
        };
        let svg = plot.svg();
        assert!(svg.contains("a &lt; b &amp; c") && svg.contains(">time, s (logarithmic)<"));
        // 0.02 to 3 needs 0.01 to 10, and 0.1 to 1 one decade; the point at zero is left out.
        for label in [">0.01<", ">0.1<", ">1<", ">10<"] {
            assert!(svg.contains(label), "{label}");
        }
        // 0.02 is at log10(2) / 3 = 0.1003 of the 900 - 80 - 80 = 740 pixels from 80: 154.3; a share of 1 is at the
        // top.
        assert!(svg.contains("M154.3,56.0L"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn a_linear_axis_has_round_ticks_and_begins_at_zero_upwards() {
        let plot = Plot {
            title: "t".into(),
            x: Axis::new("time", "s"),
            y: Axis::new("rate", "kbit/s"),
            style: Style::Marks,
            curves: vec![Curve::new("one", [(0.0, 100.0), (60.0, 1_930.0)])],
        };
        let svg = plot.svg();
        // A sixth of 60 is 10; a sixth of 1930 is 322, the next round step 500, and the top 2000.
        for label in [">0<", ">10<", ">60<", ">500<", ">2000<", ">rate, kbit/s<"] {
            assert!(svg.contains(label), "{label}");
        }
        assert_eq!(svg.matches("<circle").count(), 2);
    }

    #[test]
    fn nothing_is_a_plot_too() {
        let axis = || Axis::log("x", "");
        let plot = Plot { title: String::new(), x: axis(), y: axis(), style: Style::Cdf, curves: vec![] };
        assert!(plot.svg().ends_with("</svg>\n") && !plot.svg().contains("NaN"));
    }
}

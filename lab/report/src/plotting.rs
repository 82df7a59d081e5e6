//! Draws plots: alone, one below the other, and as small multiples.

use crate::drawing::{Anchor, Drawing, Ink, Shape};
use crate::font::{fitted, room};
use crate::model::{Axis, Curve, Panels, Plot, Scale, Style};
use crate::palette::{Pen, Pens};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 80.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 55.0;
/// The font sizes, in plots and in small multiples.
const SIZE: f64 = 13.0;
const SMALL: f64 = 11.0;
/// The maximum number of points of a curve. If there are more, [`decimate`](crate::decimate) keeps the visible ones.
const POINTS: usize = 4_000;

/// An axis with its range and its ticks.
pub(crate) struct Ruler {
    scale: Scale,
    /// The ends of the range, transformed by the scale.
    low: f64,
    high: f64,
    /// The values of the ticks and their labels.
    ticks: Vec<(f64, String)>,
}

/// The position of a share on an axis with a logarithmic tail, which is 1 at 90 % and 2 at 99 %.
fn tail(share: f64) -> f64 {
    -(1.0 - share).clamp(1e-12, 1.0).log10()
}

impl Ruler {
    pub(crate) fn new(axis: &Axis, values: impl Iterator<Item = f64> + Clone, from_zero: bool) -> Self {
        let scale = axis.scale;
        let range = values.clone().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        let (mut low, mut high) = if range.0 > range.1 { (1.0, 10.0) } else { range };
        match scale {
            Scale::Log => {
                let (low, high) = (low.log10().floor(), high.log10().ceil());
                let high = high.max(low + 1.0);
                let ticks =
                    (low as i32..=high as i32).map(|power| 10_f64.powi(power)).map(|v| (v, axis.tick(v))).collect();
                Self { scale, low, high, ticks }
            }
            Scale::Tail => {
                // A share of 1 would be at infinity, so the end of a distribution is at the end of the axis.
                let deepest = values.filter(|share| *share < 1.0).map(tail).fold(1.0, f64::max);
                let high = deepest * 1.04;
                let nines = (1..=high as i32).map(|nines| 1.0 - 10_f64.powi(-nines));
                let label = |share: f64| format!("{} %", plain(share * 100.0));
                let ticks = [0.0, 0.5].into_iter().chain(nines).map(|share| (share, label(share))).collect();
                Self { scale, low: 0.0, high, ticks }
            }
            Scale::Linear => {
                if from_zero {
                    low = low.min(0.0);
                }
                if high <= low {
                    high = low + 1.0;
                }
                // A step is 1, 2 or 5 times a power of ten, so that there are five to ten steps.
                let rough = (high - low) / 6.0;
                let power = 10_f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough).unwrap_or(rough);
                if from_zero {
                    high = (high / step - 1e-9).ceil() * step;
                }
                let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
                let ticks = (first..=last).map(|n| n as f64 * step).map(|v| (v, axis.tick(v))).collect();
                Self { scale, low, high, ticks }
            }
        }
    }
    /// Creates the horizontal and the vertical axis, whose ranges cover the points of all `plots`.
    fn pair<'a>(plots: impl Iterator<Item = &'a Plot> + Clone, first: &Plot) -> (Self, Self) {
        let placed: Vec<_> =
            plots.clone().flat_map(|plot| &plot.curves).flat_map(|curve| curve.placed(&first.x, &first.y)).collect();
        let bands = plots.flat_map(|plot| &plot.curves).flat_map(|curve| &curve.band);
        let ends: Vec<f64> =
            bands.flat_map(|(_, low, high)| [*low, *high]).filter(|value| first.y.has(*value)).collect();
        let x = Self::new(&first.x, placed.iter().map(|point| point.0), first.style == Style::Cdf);
        (x, Self::new(&first.y, placed.iter().map(|point| point.1).chain(ends.iter().copied()), true))
    }
    /// Creates an axis without ticks.
    pub(crate) fn none() -> Self {
        Self { scale: Scale::Linear, low: 0.0, high: 1.0, ticks: Vec::new() }
    }
    /// Relabels the ticks.
    pub(crate) fn label(&mut self, text: impl Fn(f64) -> String) {
        self.ticks.iter_mut().for_each(|(value, label)| *label = text(*value));
    }
    /// The position of a value along the axis, from 0 to 1.
    fn at(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Log => value.log10(),
            Scale::Tail => tail(value).min(self.high),
        };
        (value - self.low) / (self.high - self.low)
    }
}

impl Axis {
    /// The label of a tick. Rates and sizes have a decimal prefix.
    fn tick(&self, value: f64) -> String {
        let prefixed = [(1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|(scale, _)| value.abs() >= *scale);
        match prefixed.filter(|_| self.unit == "bit/s" || self.unit == "B") {
            Some((scale, prefix)) => format!("{} {prefix}", plain(value / scale)),
            None => plain(value),
        }
    }
}

/// Formats a tick's number without rounding errors of binary fractions.
fn plain(value: f64) -> String {
    let rounded: f64 = format!("{value:.6e}").parse().unwrap_or(value);
    if rounded == 0.0 { "0".to_owned() } else { rounded.to_string() }
}

/// The area of a plot inside its axes.
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

impl Frame {
    pub(crate) fn x(&self, ruler: &Ruler, value: f64) -> f64 {
        self.left + ruler.at(value) * (self.right - self.left)
    }
    fn y(&self, ruler: &Ruler, value: f64) -> f64 {
        self.bottom - ruler.at(value) * (self.bottom - self.top)
    }

    /// Draws the grid. The vertical axis may be without labels. Labels of the horizontal axis are drawn if they exceed
    /// it by at most the given length. If labels would overlap, only the first of them is drawn.
    pub(crate) fn grid(
        &self,
        drawing: &mut Drawing,
        (x, y): (&Ruler, &Ruler),
        size: f64,
        (beyond, labels_y): (Option<f64>, bool),
    ) {
        let mut free = f64::NEG_INFINITY;
        for ((value, label), beyond) in x.ticks.iter().zip(beyond.into_iter().cycle()) {
            let (at, half) = (self.x(x, *value), room(label, size) / 2.0);
            if at - half >= free.max(self.left - beyond) && at + half <= self.right + beyond {
                drawing.text((at, self.bottom + size + 5.0), Anchor::Middle, size, Ink::Text, label);
                free = at + half + 4.0;
            }
        }
        let mut free = f64::INFINITY;
        for (value, label) in y.ticks.iter().filter(|_| labels_y) {
            let at = self.y(y, *value);
            if at <= free {
                drawing.text((self.left - 8.0, at + size * 0.3), Anchor::End, size, Ink::Text, label);
                free = at - size - 1.0;
            }
        }
        for (value, _) in &x.ticks {
            let at = self.x(x, *value);
            drawing.line((at, self.top), (at, self.bottom), 1.0, Ink::Grid);
        }
        for (value, _) in &y.ticks {
            let at = self.y(y, *value);
            drawing.line((self.left, at), (self.right, at), 1.0, Ink::Grid);
        }
    }

    /// Draws the curves of `plot`, with their bands behind them.
    fn curves(&self, drawing: &mut Drawing, plot: &Plot, (x, y): (&Ruler, &Ruler), pens: &[Pen], marks: f64) {
        let pen = |n: usize| pens.get(n).copied().unwrap_or_default();
        for (n, curve) in plot.curves.iter().enumerate() {
            self.band(drawing, curve, plot, (x, y), pen(n));
        }
        for (n, curve) in plot.curves.iter().enumerate() {
            let points = curve.placed(&plot.x, &plot.y);
            if plot.style == Style::Marks {
                let points = points.iter().map(|point| (self.x(x, point.0), self.y(y, point.1))).collect();
                drawing.shapes.push(Shape::Marks { points, radius: marks, pen: pen(n) });
                continue;
            }
            let mut lines: Vec<Vec<(f64, f64)>> = Vec::new();
            let gaps = curve.gaps();
            // The number of gaps before the last point.
            let mut behind = 0;
            for (at, value) in crate::decimate::decimate(&points, POINTS, |value| x.at(value)) {
                let gone = gaps.partition_point(|gap| *gap <= at);
                let point = (self.x(x, at), self.y(y, value));
                let begins = lines.is_empty() || (gone > behind && plot.style != Style::Cdf);
                behind = gone;
                match lines.last_mut() {
                    Some(line) if !begins => plot.style.join(line, point),
                    _ if plot.style == Style::Cdf => lines.push(vec![(point.0, self.bottom), point]),
                    _ => lines.push(vec![point]),
                }
            }
            let (ink, dash) = (Ink::Curve(pen(n).colour), pen(n).dashes());
            drawing.shapes.push(Shape::Lines { lines, width: 1.8, ink, dash });
        }
    }

    fn band(&self, drawing: &mut Drawing, curve: &Curve, plot: &Plot, (x, y): (&Ruler, &Ruler), pen: Pen) {
        let whole = |(_, low, high): &(f64, f64, f64)| plot.y.has(*low) && plot.y.has(*high);
        for run in curve.band.chunk_by(|a, b| whole(a) == whole(b)).filter(|run| whole(&run[0])) {
            let (mut upper, mut lower) = (Vec::new(), Vec::new());
            for &(at, low, high) in run.iter().filter(|point| plot.x.has(point.0)) {
                let at = self.x(x, at);
                plot.style.join(&mut upper, (at, self.y(y, high)));
                plot.style.join(&mut lower, (at, self.y(y, low)));
            }
            upper.extend(lower.into_iter().rev());
            drawing.shapes.push(Shape::Area { outline: upper, ink: Ink::Curve(pen.colour) });
        }
    }

    /// Draws a sample of a pen for a legend, which is 28 points wide.
    fn sample(drawing: &mut Drawing, style: Style, pen: Pen, (x, y): (f64, f64)) {
        drawing.shapes.push(match style {
            Style::Marks => Shape::Marks { points: vec![(x + 14.0, y)], radius: 4.0, pen },
            _ => {
                let lines = vec![vec![(x, y), (x + 28.0, y)]];
                Shape::Lines { lines, width: 1.8, ink: Ink::Curve(pen.colour), dash: pen.dashes() }
            }
        });
    }
}

impl Style {
    /// Continues a line to a point, straight or with a step.
    fn join(self, line: &mut Vec<(f64, f64)>, point: (f64, f64)) {
        if let (Self::Steps | Self::Cdf, Some(&(_, before))) = (self, line.last()) {
            line.push((point.0, before));
        }
        line.push(point);
    }
}

/// Draws plots, each with the pens of its curves, one below the other. All have the axes of the first and the same
/// ranges. Returns `None` if there are no plots.
pub(crate) fn stacked(plots: &[(Plot, Vec<Pen>)]) -> Option<Drawing> {
    let (first, _) = plots.first()?;
    let plots: Vec<(Plot, &[Pen])> =
        plots.iter().map(|(plot, pens)| (plot.on_axes_of(first), pens.as_slice())).collect();
    let (x, y) = Ruler::pair(plots.iter().map(|(plot, _)| plot), first);
    let legend = plots.iter().map(|(plot, _)| plot.legend()).fold(0.0, f64::max);
    let mut whole = Drawing::default();
    for (plot, pens) in &plots {
        whole.append(plot.drawn(&x, &y, legend, pens));
    }
    Some(whole)
}

impl Panels {
    /// Draws the panels over the same ranges, with one legend and the pens of a report.
    pub(crate) fn drawing(&self, pens: &Pens) -> Option<Drawing> {
        let (_, first) = self.panels.first()?;
        let (x, y) = Ruler::pair(self.plots(), first);
        let names = self.names();
        let pens = pens.of_curves(&names);
        let pen_of = |name: &str| names.iter().position(|known| *known == name).map_or(Pen::default(), |n| pens[n]);
        let columns = self.columns();
        let labels = y.ticks.iter().map(|(_, label)| room(label, SMALL)).fold(0.0, f64::max);
        let (left, gap, height) = (labels + 24.0, 22.0, if columns < 3 { 190.0 } else { 150.0 });
        let width = (WIDTH - left - 20.0 - gap * (columns - 1) as f64) / columns as f64;
        let mut drawing = Drawing { width: WIDTH, title: self.title.clone(), ..Drawing::default() };
        drawing.text((12.0, 22.0), Anchor::Start, SIZE, Ink::Text, fitted(&self.title, SIZE, WIDTH - 24.0));
        drawing.text((12.0, 40.0), Anchor::Start, SMALL, Ink::Muted, first.y.label());
        let top = 66.0;
        let step = height + 36.0;
        for (n, (name, plot)) in self.panels.iter().enumerate() {
            let (row, column) = (n / columns, n % columns);
            let (x0, y0) = (left + (width + gap) * column as f64, top + step * row as f64);
            let frame = Frame { left: x0, top: y0, right: x0 + width, bottom: y0 + height };
            drawing.text((x0, y0 - 6.0), Anchor::Start, SMALL, Ink::Text, fitted(name, SMALL, width));
            // The lowest panel of each column has the labels of the horizontal axis.
            let lowest = n + columns >= self.panels.len();
            frame.grid(&mut drawing, (&x, &y), SMALL, (lowest.then_some(gap / 2.0 - 1.0), column == 0));
            let plot = plot.on_axes_of(first);
            let pens: Vec<Pen> = plot.curves.iter().map(|curve| pen_of(&curve.name)).collect();
            frame.curves(&mut drawing, &plot, (&x, &y), &pens, 1.5);
        }
        let rows = self.panels.len().div_ceil(columns);
        let mut at = top + step * rows as f64 + 6.0;
        drawing.text((left + (WIDTH - left) / 2.0, at), Anchor::Middle, SMALL, Ink::Text, first.x.label());
        // There is no legend if each panel has a single curve, which the panel's name identifies.
        if self.panels.iter().any(|(_, plot)| plot.curves.len() > 1) {
            let mut from = left;
            at += 22.0;
            for (name, pen) in names.iter().zip(&pens) {
                let name = fitted(name, SMALL, WIDTH - left - 60.0);
                let wide = 34.0 + room(&name, SMALL) + 18.0;
                if from > left && from + wide > WIDTH {
                    (from, at) = (left, at + 18.0);
                }
                Frame::sample(&mut drawing, first.style, *pen, (from, at - 4.0));
                drawing.text((from + 34.0, at), Anchor::Start, SMALL, Ink::Text, name);
                from += wide;
            }
        }
        drawing.height = at + 14.0;
        Some(drawing)
    }

    /// The distinct names of the panels' curves.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.plots().flat_map(Plot::names) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The number of columns. Four panels form a square, otherwise there are up to three in a row.
    fn columns(&self) -> usize {
        match self.panels.len() {
            n @ ..=2 => n.max(1),
            4 => 2,
            _ => 3,
        }
    }
}

impl Plot {
    /// Formats the plot as SVG on white. It is 900 by 480 points, or higher if its legend needs it.
    pub fn svg(&self) -> String {
        self.drawing(&self.pens(&Pens::named(self.names()))).svg()
    }

    /// Draws the plot, each curve with its pen.
    pub(crate) fn drawing(&self, pens: &[Pen]) -> Drawing {
        let (x, y) = Ruler::pair(std::iter::once(self), self);
        self.drawn(&x, &y, self.legend(), pens)
    }

    /// Returns this plot with the axes of another plot.
    fn on_axes_of(&self, other: &Self) -> Self {
        Self { x: other.x.clone(), y: other.y.clone(), ..self.clone() }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.curves.iter().map(|curve| curve.name.as_str())
    }

    /// Chooses the pens of its curves from those of a report.
    pub(crate) fn pens(&self, pens: &Pens) -> Vec<Pen> {
        pens.of_curves(&self.names().collect::<Vec<_>>())
    }

    /// The width of its legend. A single curve has no legend.
    fn legend(&self) -> f64 {
        match self.curves.len() {
            0 | 1 => 32.0,
            _ => self.names().map(|name| 52.0 + room(name, SIZE)).fold(80.0, f64::max).min(340.0),
        }
    }

    /// Draws the plot over the ranges of `x` and `y`, with a legend of width `right`.
    fn drawn(&self, x: &Ruler, y: &Ruler, right: f64, pens: &[Pen]) -> Drawing {
        let height = HEIGHT.max(TOP + 20.0 + 20.0 * self.curves.len() as f64);
        let frame = Frame { left: LEFT, top: TOP, right: WIDTH - right, bottom: height - BOTTOM };
        let mut drawing = Drawing { width: WIDTH, height, title: self.title.clone(), shapes: Vec::new() };
        let mut text = |at: (f64, f64), anchor: Anchor, text: &str| drawing.text(at, anchor, SIZE, Ink::Text, text);
        text((LEFT, 22.0), Anchor::Start, &fitted(&self.title, SIZE, WIDTH - LEFT - 12.0));
        text(((LEFT + WIDTH - right) / 2.0, height - 12.0), Anchor::Middle, &self.x.label());
        text((12.0, TOP - 12.0), Anchor::Start, &self.y.label());
        frame.grid(&mut drawing, (x, y), SIZE, (Some(30.0), true));
        frame.curves(&mut drawing, self, (x, y), pens, 2.0);
        if self.curves.len() > 1 {
            let legend = WIDTH - right + 12.0;
            for (n, curve) in self.curves.iter().enumerate() {
                let (at, pen) = (TOP + 10.0 + 20.0 * n as f64, pens.get(n).copied().unwrap_or_default());
                let name = fitted(&curve.name, SIZE, right - 50.0);
                drawing.text((legend + 34.0, at + 4.0), Anchor::Start, SIZE, Ink::Text, name);
                Frame::sample(&mut drawing, self.style, pen, (legend, at));
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
        // The second plot is below the first, so its upper edge is at 480 + 56.
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
        // Values from 0.02 to 3 need a range from 0.01 to 10, those from 0.1 to 1 one decade. The point at zero is
        // omitted.
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

    #[test]
    fn a_tail_has_as_much_space_for_the_last_percent_as_for_the_last_tenth() {
        let points = (1..=1_000).map(|n| (f64::from(n), f64::from(n) / 1_000.0));
        let plot = Plot {
            title: "t".into(),
            x: Axis::new("time", "s"),
            y: Axis::tail("share of the values"),
            style: Style::Cdf,
            curves: vec![Curve::new("one", points)],
        };
        let svg = plot.svg();
        for label in ["0 %", "50 %", "90 %", "99 %", "99.9 %", "share of the values (logarithmic tail)"] {
            assert!(svg.contains(&format!(">{label}</text>")), "{label}");
        }
        // The lines of 0, 90, 99 and 99.9 % are equally far apart: a third of 369 / 1.04.
        let (_, y) = Ruler::pair(std::iter::once(&plot), &plot);
        let places: Vec<f64> = [0.0, 0.9, 0.99, 0.999].map(|share| y.at(share) * 1.04 * 3.0).into();
        assert!(places.iter().zip([0.0, 1.0, 2.0, 3.0]).all(|(a, b)| (a - b).abs() < 1e-9), "{places:?}");
        assert_eq!(y.at(1.0), 1.0, "the greatest value is at the end");
    }

    #[test]
    fn bands_are_behind_their_curves_and_have_their_gaps() {
        let mut curve = Curve::new("one", [(0.0, 5.0), (1.0, 6.0), (2.0, 5.0), (3.0, 5.0)]);
        curve.band =
            vec![(0.0, 4.0, 6.0), (1.0, 5.0, 20.0), (1.5, f64::NAN, f64::NAN), (2.0, 5.0, 5.0), (3.0, 5.0, 6.0)];
        let axis = || Axis::new("x", "");
        let plot = Plot { title: String::new(), x: axis(), y: axis(), style: Style::Lines, curves: vec![curve] };
        let drawing = plot.drawing(&[Pen::default()]);
        let area = |shape: &Shape| matches!(shape, Shape::Area { .. });
        let (first, last) = (drawing.shapes.iter().position(area), drawing.shapes.iter().rposition(area));
        assert_eq!(drawing.shapes.iter().filter(|shape| area(shape)).count(), 2);
        assert!(first < last && last < drawing.shapes.iter().rposition(|shape| matches!(shape, Shape::Lines { .. })));
        // The range reaches to the end of the band.
        assert!(drawing.svg().contains(">20</text>"));
    }

    #[test]
    fn panels_have_one_scale_one_legend_and_labels_outside_alone() {
        let plot = |most: f64| Plot {
            title: String::new(),
            x: Axis::new("time", "s"),
            y: Axis::new("rate", "bit/s"),
            style: Style::Lines,
            curves: vec![Curve::new("web", [(0.0, 0.0), (10.0, most)]), Curve::new("bulk", [(0.0, 1.0), (10.0, 1.0)])],
        };
        let panels = (0..5).map(|n| (format!("variant {n}"), plot(f64::from(n) * 1e6))).collect();
        let panels = Panels { title: "Rates".into(), panels };
        let drawing = panels.drawing(&Pens::named(panels.names().into_iter())).unwrap_or_default();
        let svg = drawing.svg();
        // There are two rows. The first column has labels of the vertical axis, and the lowest panel of each of the
        // three columns has those of the horizontal axis.
        assert_eq!((svg.matches(">4 M<").count(), svg.matches(">10<").count()), (2, 3), "{svg}");
        assert_eq!((svg.matches(">web<").count(), svg.matches(">variant 3<").count()), (1, 1));
        assert_eq!(drawing.misplaced(), Vec::<String>::new());
        assert_eq!(Panels::default().drawing(&Pens::default()), None);
    }

    #[test]
    fn long_names_lose_their_middle() {
        let name = "flow tcp [2001:db8:1111:2222:3333:4444:5555:6666]:40000 > [2001:db8::1]:443";
        let axis = || Axis::new("x", "");
        let curves = vec![Curve::new(name, [(0.0, 1.0)]), Curve::new("two", [(0.0, 1.0)])];
        let plot = Plot { title: name.repeat(3), x: axis(), y: axis(), style: Style::Lines, curves };
        assert_eq!(plot.drawing(&[Pen::default(); 2]).misplaced(), Vec::<String>::new());
    }
}

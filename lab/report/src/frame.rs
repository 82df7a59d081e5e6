//! [`Frame`]: draws the grid, the curves and the bands of a plot inside its axes.

use crate::drawing::{Anchor, Drawing, Ink, Shape};
use crate::font::room;
use crate::model::{Curve, Plot, Style};
use crate::palette::Pen;
use crate::ruler::Ruler;

/// The maximum number of points of a curve. If there are more, [`decimate`](crate::decimate) keeps the visible ones.
const POINTS: usize = 4_000;
/// The number of marks along a line on paper.
const MARKS: usize = 8;

/// The area of a plot inside its axes.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
    /// The factor for distances inside, as [`Look::unit`].
    pub(crate) unit: f64,
}

impl Frame {
    pub(crate) fn x(&self, ruler: &Ruler, value: f64) -> f64 {
        self.left + ruler.at(value) * (self.right - self.left)
    }
    pub(crate) fn y(&self, ruler: &Ruler, value: f64) -> f64 {
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
        let u = self.unit;
        let mut free = f64::NEG_INFINITY;
        let width = drawing.width;
        // Where a label is, if it has room. One at an end is moved inwards, but still reaches to its tick.
        let place = |(value, label): &(f64, String), beyond: f64, free: f64| {
            let (tick, half) = (self.x(x, *value), room(label, size) / 2.0);
            let at = tick.min((self.right + beyond).min(width) - half).max(self.left - beyond + half);
            let fits = at - half >= free && at + half <= width && (at - tick).abs() <= half;
            fits.then_some((at, at + half + 4.0 * u))
        };
        let all_fit = |every: &usize| {
            let mut free = f64::NEG_INFINITY;
            let each = x.ticks.iter().step_by(*every).zip(beyond.into_iter().cycle());
            each.map(|(tick, beyond)| place(tick, beyond, free).map(|(_, end)| free = end)).all(|fits| fits.is_some())
        };
        // Labels of evenly spaced ticks are evenly spaced.
        let every = if x.has_even_ticks() { (1..x.ticks.len()).find(all_fit).unwrap_or(1) } else { 1 };
        for (tick, beyond) in x.ticks.iter().step_by(every).zip(beyond.into_iter().cycle()) {
            if let Some((at, end)) = place(tick, beyond, free) {
                drawing.text((at, self.bottom + size + 5.0 * u), Anchor::Middle, size, Ink::Text, &tick.1);
                free = end;
            }
        }
        // An axis that is too narrow for every label has that of its middle, between its ends.
        if let (Some(_), true, Some((value, label))) =
            (beyond, free == f64::NEG_INFINITY, x.ticks.get(x.ticks.len() / 2))
        {
            let half = room(label, size) / 2.0;
            let at = self.x(x, *value).min(drawing.width - half).max(half);
            drawing.text((at, self.bottom + size + 5.0 * u), Anchor::Middle, size, Ink::Text, label);
        }
        let mut free = f64::INFINITY;
        for (value, label) in y.ticks.iter().filter(|_| labels_y) {
            let at = self.y(y, *value);
            if at <= free {
                drawing.text((self.left - 8.0 * u, at + size * 0.3), Anchor::End, size, Ink::Text, label);
                free = at - size - 1.0;
            }
        }
        for (value, _) in &x.ticks {
            let at = self.x(x, *value);
            drawing.line((at, self.top), (at, self.bottom), u.max(0.5), Ink::Grid);
        }
        for (value, _) in &y.ticks {
            let at = self.y(y, *value);
            drawing.line((self.left, at), (self.right, at), u.max(0.5), Ink::Grid);
        }
        // Ticks without labels are short, at the axis alone.
        for at in x.minor.iter().map(|value| self.x(x, *value)) {
            drawing.line((at, self.bottom), (at, self.bottom - 4.0 * u), u.max(0.5), Ink::Muted);
        }
        for at in y.minor.iter().map(|value| self.y(y, *value)) {
            drawing.line((self.left, at), (self.left + 4.0 * u, at), u.max(0.5), Ink::Muted);
        }
    }

    /// Draws the curves of `plot`, with their bands behind them.
    pub(crate) fn curves(
        &self,
        drawing: &mut Drawing,
        plot: &Plot,
        (x, y): (&Ruler, &Ruler),
        pens: &[Pen],
        marks: f64,
    ) {
        let pen = |n: usize| pens.get(n).copied().unwrap_or_default();
        for (n, curve) in plot.curves.iter().enumerate() {
            self.band(drawing, curve, plot, (x, y), pen(n));
            let outline: Vec<_> = curve.outline.iter().map(|point| (self.x(x, point.0), self.y(y, point.1))).collect();
            if !outline.is_empty() {
                let (ink, lines) = (Ink::Curve(pen(n).colour), vec![outline.clone()]);
                drawing.shapes.push(Shape::Area { outline, ink });
                drawing.shapes.push(Shape::Lines { lines, width: self.unit, ink, dash: &[] });
            }
        }
        for (n, curve) in plot.curves.iter().enumerate() {
            if plot.style == Style::Marks || curve.is_apart {
                let marks = if curve.is_apart { 4.0 * self.unit } else { marks };
                let points = curve.placed(&plot.x, &plot.y);
                let points = points.iter().map(|point| (self.x(x, point.0), self.y(y, point.1))).collect();
                drawing.marks(points, marks, pen(n));
                if let Some((at, value)) = curve.centre {
                    drawing.marks(vec![(self.x(x, at), self.y(y, value))], 3.0 * marks, pen(n));
                }
                continue;
            }
            let lines = self.lines(curve, plot, (x, y));
            let marked = drawing.finish.on_paper && plot.curves.len() > 1;
            let points = curve.placed(&plot.x, &plot.y);
            let places = match plot.style {
                _ if !marked => Vec::new(),
                // The marks of few values are at the values.
                Style::Lines if points.len() <= 2 * MARKS => {
                    points.iter().map(|point| (self.x(x, point.0), self.y(y, point.1))).collect()
                }
                style => places(&lines, style, (n, plot.curves.len()), self),
            };
            let (ink, dash) = (Ink::Curve(pen(n).colour), pen(n).dashes());
            // A point alone between gaps has no line.
            let alone: Vec<(f64, f64)> = lines.iter().filter(|line| line.len() == 1).map(|line| line[0]).collect();
            drawing.shapes.push(Shape::Lines { lines, width: 1.8 * self.unit, ink, dash });
            if !places.is_empty() {
                drawing.marks(places, 3.6 * self.unit, pen(n));
            } else if !alone.is_empty() {
                drawing.marks(alone, marks.max(2.0 * self.unit), pen(n));
            }
        }
    }

    /// The lines of a curve on paper, between its gaps.
    pub(crate) fn lines(&self, curve: &Curve, plot: &Plot, (x, y): (&Ruler, &Ruler)) -> Vec<Vec<(f64, f64)>> {
        let mut lines: Vec<Vec<(f64, f64)>> = Vec::new();
        let gaps = curve.gaps();
        let steps = matches!(plot.style, Style::Cdf | Style::Ccdf);
        // The number of gaps before the last point.
        let mut behind = 0;
        for (at, value) in crate::decimate::decimate(&curve.placed(&plot.x, &plot.y), POINTS, |value| x.at(value)) {
            let gone = gaps.partition_point(|gap| *gap <= at);
            let point = (self.x(x, at), self.y(y, value));
            let begins = lines.is_empty() || (gone > behind && !steps);
            behind = gone;
            match lines.last_mut() {
                Some(line) if !begins => plot.style.join(line, point),
                // A range that was chosen begins with what is before it.
                _ if plot.x.range[0].is_some_and(|from| at <= from) => lines.push(vec![point]),
                _ if plot.style == Style::Cdf => lines.push(vec![(point.0, self.bottom), point]),
                _ if plot.style == Style::Ccdf => lines.push(vec![(point.0, self.y(y, 1.0)), point]),
                _ => lines.push(vec![point]),
            }
        }
        // Above its greatest value a distribution has no share, which is below every logarithmic axis: its line ends at the least
        // share that was measured. The median of several runs may have none long before the greatest value of all.
        let end = curve.points.iter().find(|point| point.1 <= 0.0).or(curve.points.last());
        if let (Style::Ccdf, Some(line), Some(end)) = (plot.style, lines.last_mut(), end)
            && plot.x.has(end.0)
            && let Some(&(_, last)) = line.last()
        {
            line.push((self.x(x, end.0), last));
        }
        lines
    }

    pub(crate) fn band(&self, drawing: &mut Drawing, curve: &Curve, plot: &Plot, (x, y): (&Ruler, &Ruler), pen: Pen) {
        let complement = plot.style == Style::Ccdf;
        // The lower end of a band may be below a logarithmic axis, down to which the band goes then.
        let whole = |(_, low, high): &(f64, f64, f64)| plot.y.has(*high) && !low.is_nan();
        let place = |value: f64| if plot.y.has(value) { self.y(y, value).min(self.bottom) } else { self.bottom };
        let mut rest = curve.band.as_slice();
        while let Some(begin) = rest.iter().position(whole) {
            rest = &rest[begin..];
            let count = rest.iter().position(|point| !whole(point)).unwrap_or(rest.len());
            let (run, behind) = rest.split_at(count);
            rest = behind;
            let (mut upper, mut lower) = (Vec::new(), Vec::new());
            for &(at, low, high) in run.iter().filter(|point| plot.x.has(point.0)) {
                let at = self.x(x, at);
                plot.style.join(&mut upper, (at, place(high)));
                plot.style.join(&mut lower, (at, place(low)));
            }
            // A share is valid until the next value.
            if let (true, Some(next)) = (complement, behind.first().filter(|point| plot.x.has(point.0))) {
                for line in [&mut upper, &mut lower] {
                    line.extend(line.last().map(|last| (self.x(x, next.0), last.1)));
                }
            }
            // A point alone between gaps has a bar instead of an area without a width.
            if let ([(at, above), rest @ ..], [(_, below), ..]) = (upper.as_slice(), lower.as_slice())
                && rest.iter().all(|point| point.0 == *at)
            {
                let (end, at) = (3.0 * self.unit, *at);
                let cap = |y: f64| vec![(at - end, y), (at + end, y)];
                let lines = vec![vec![(at, *above), (at, *below)], cap(*above), cap(*below)];
                let ink = Ink::Curve(pen.colour);
                drawing.shapes.push(Shape::Lines { lines, width: self.unit, ink, dash: &[] });
                continue;
            }
            upper.extend(lower.into_iter().rev());
            drawing.shapes.push(Shape::Area { outline: upper, ink: Ink::Curve(pen.colour) });
        }
    }
}

/// Where a line has its marks: at equal distances along the horizontal axis, or along the line of a distribution, which
/// may rise steeply. Those of the `n`-th of `many` lines are between those of the others.
fn places(lines: &[Vec<(f64, f64)>], style: Style, (n, many): (usize, usize), frame: &Frame) -> Vec<(f64, f64)> {
    let along = matches!(style, Style::Cdf | Style::Ccdf);
    let far = |a: (f64, f64), b: (f64, f64)| if along { (a.0 - b.0).hypot(a.1 - b.1) } else { b.0 - a.0 };
    let pairs = || lines.iter().flat_map(|line| line.windows(2)).map(|two| (two[0], two[1]));
    let whole: f64 = pairs().map(|(a, b)| far(a, b)).sum();
    let width = frame.right - frame.left;
    let step = (whole / MARKS as f64).max(width / 16.0);
    let mut next = step * (n as f64 + 0.5) / many.max(1) as f64;
    let (mut gone, mut found) = (0.0, Vec::new());
    for (a, b) in pairs() {
        let long = far(a, b);
        while long > 0.0 && next <= gone + long {
            let part = (next - gone) / long;
            found.push((a.0 + (b.0 - a.0) * part, a.1 + (b.1 - a.1) * part));
            next += step;
        }
        gone += long;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Axis;
    use crate::ruler::Ends;

    /// A narrow axis with ticks at 0, 50, 100 and 150 labels 0 and 100, and not 0, 50 and 150.
    #[test]
    fn labels_of_a_narrow_axis_are_evenly_spaced() {
        let mut ruler = Ruler::new(&Axis::new("", ""), [0.0, 155.0].into_iter(), Ends::Values);
        ruler.label_in(1.0);
        let mut counts = Vec::new();
        for width in 24..160 {
            let frame = Frame { left: 40.0, top: 0.0, right: 40.0 + f64::from(width), bottom: 20.0, unit: 8.0 / 13.0 };
            let mut drawing = Drawing { width: 300.0, height: 40.0, ..Drawing::default() };
            frame.grid(&mut drawing, (&ruler, &Ruler::none()), 8.0, (Some(8.0), false));
            let text = |shape: &Shape| if let Shape::Text { text, .. } = shape { text.parse().ok() } else { None };
            let labels: Vec<f64> = drawing.shapes.iter().filter_map(text).collect();
            let steps: Vec<f64> = labels.windows(2).map(|two| two[1] - two[0]).collect();
            assert!(steps.iter().all(|step| *step == steps[0]), "{width}: {labels:?}");
            counts.push(labels.len());
        }
        // Values that were taken as ticks are labelled wherever there is room.
        ruler.ticks = [0.0, 100.0, 130.0, 155.0].map(|value| (value, value.to_string())).into();
        let frame = Frame { left: 40.0, top: 0.0, right: 90.0, bottom: 20.0, unit: 8.0 / 13.0 };
        let mut drawing = Drawing { width: 300.0, height: 40.0, ..Drawing::default() };
        frame.grid(&mut drawing, (&ruler, &Ruler::none()), 8.0, (Some(8.0), false));
        let has =
            |label: &str| drawing.shapes.iter().any(|shape| matches!(shape, Shape::Text { text, .. } if text == label));
        assert!(has("0") && has("100") && !has("130"));
        assert!(counts.is_sorted() && counts[0] <= 2 && counts.contains(&ruler.ticks.len()), "{counts:?}");
    }
}

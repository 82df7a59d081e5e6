//! The spread of each variant's runs in a comparison, as boxes, violins or points. Each measure has its own scale.

use crate::bars::blocks;
use crate::comparison::{Comparison, Estimate, Group, Measure, Row};
use crate::drawing::{Anchor, Drawing, Ink, Shape};
use crate::font::{fitted, fitted_apart};
use crate::frame::Frame;
use crate::look::{Form, Look};
use crate::model::Axis;
use crate::palette::{Pen, Pens};
use crate::ruler::{Ends, Ruler};
use tidegate_display::{NOT_REACHED, human};

/// The height of a row and half the height of a box, given for type of 13 points.
const ROW: f64 = 20.0;
const HALF: f64 = 4.5;
/// How far a box is above the middle of its row; its points are below.
const APART: f64 = 2.5;
/// Up to so many values each is lifted by those that are near it.
const MANY: usize = 500;
/// The number of runs from which boxes with quartiles and violins are drawn.
const ENOUGH: usize = 5;
/// How many times as far as the rest all runs reach where those that are far from the quartiles of their row are beyond the axis.
const FAR: f64 = 4.0;
/// How many times the distance of the quartiles a run is from them if it is far.
const FENCE: f64 = 3.0;
/// The number of points at which a density is computed.
const STEPS: usize = 48;

impl Comparison {
    /// Draws the runs of each variant as points and, if there are at least five and the form has them, a box or a violin.
    /// `of` says what the points are, such as `runs`. Returns `None` if nothing has two of them.
    pub(crate) fn spread(&self, pens: &Pens, form: Form, of: &str, look: &Look) -> Option<Drawing> {
        let runs = self.groups.iter().map(Group::runs).max().filter(|runs| *runs > 1)?;
        let kind = match form {
            Form::Violin => "violins",
            Form::Strip => "points",
            _ => "box plots",
        };
        let (u, size, small) = (look.unit(), look.type_of(12.0), look.type_of(11.0));
        let title = format!("{}: {kind} of {runs} {of}", self.title);
        let (mut drawing, left, mut y) = self.begin(&title, look);
        // How many of the rows that are drawn have enough runs for what the form adds to their points, and how many have not.
        let mut summed = [0_usize; 2];
        let (mut beyond, mut axes) = (Vec::new(), 0);
        for group in self.groups.iter().filter(|group| group.runs() > 1) {
            y = self.heading(group, &mut drawing, y, look);
            for measures in blocks(group, left, look) {
                y += 18.0 * u;
                axes += measures.len();
                let column = (look.width - left - 12.0 * u) / measures.len().max(1) as f64;
                let (top, bottom) = (y + 4.0 * u, y + 4.0 * u + ROW * u * group.rows.len() as f64);
                let names = fitted_apart(group.rows.iter().map(|row| row.name.as_str()), size, left - 20.0 * u);
                for (n, name) in names.into_iter().enumerate() {
                    let at = top + ROW * u * (n as f64 + 0.5);
                    drawing.text((12.0 * u, at + 4.0 * u), Anchor::Start, size, Ink::Text, name);
                }
                for (n, at) in measures.iter().enumerate() {
                    let x = left + column * n as f64;
                    let frame = Frame { left: x, top, right: x + column - 30.0 * u, bottom, unit: u };
                    let name_with_unit =
                        group.column((&mut drawing, &mut beyond), (*at, form, look.log), &frame, (pens, small));
                    let enough = group.rows.iter().filter_map(|row| row.cells.get(*at)?.as_ref());
                    enough.for_each(|cell| summed[usize::from(cell.values.len() >= ENOUGH)] += 1);
                    let name = fitted(&name_with_unit, small, column - 12.0 * u);
                    drawing.text((x, y - 2.0 * u), Anchor::Start, small, Ink::Muted, name);
                }
                y = bottom + small + 18.0 * u;
            }
        }
        if look.on_paper {
            let subject = self.only_subject(look).map_or(String::new(), |subject| format!("{subject} "));
            let mut what = subject + &caption(form, (of, runs), summed);
            what += match axes {
                _ if !look.log => "",
                1 => " Logarithmic axis.",
                _ => " Logarithmic axes.",
            };
            let drawn = || self.cells().filter(|cell| cell.is_reached() && !cell.lasted.is_empty());
            if drawn().next().is_some() {
                what += " What had not finished counts as longer than it had lasted (Kaplan and Meier).";
            }
            if drawn().any(|cell| cell.five().is_some_and(|five| five[3].is_infinite())) {
                what += " Open boxes: the upper quartile, or the median too, is not reached.";
            }
            if !beyond.is_empty() {
                what += &format!(" Arrows: {}.", beyond.join("; "));
            }
            if let Some(fewer) = self.fewer_runs() {
                what += &format!(" {fewer}");
            }
            let (lines, left_out) = look.note(what, small, look.width);
            drawing.left_out = left_out;
            drawing.note(&lines, (12.0 * u, y - 8.0 * u), small);
            y += lines.len() as f64 * small * 1.3;
        }
        drawing.height = y;
        Some(drawing)
    }
}

/// States what is drawn of rows of so many runs at most, or `of` other values, of which `[few, enough]` have fewer than a box or a violin
/// needs, and as many.
fn caption(form: Form, (of, most): (&str, usize), [few, enough]: [usize; 2]) -> String {
    let points = if of == "runs" { format!("{most} runs") } else { of.to_owned() };
    let of = of.split(' ').next().unwrap_or(of);
    let (name, parts) = match form {
        Form::Violin => ("violins", "outlines: their density (Gaussian kernel, Silverman's width); line: median"),
        Form::Strip => ("medians", "line: median"),
        _ => ("boxes", "boxes: quartiles and median; whiskers: least and greatest"),
    };
    match (enough, few) {
        (0, _) => format!("Points: {points}; fewer than {ENOUGH} have no {name}."),
        (_, 0) => format!("Points: {points}; {parts}."),
        _ => format!("Points: {points}; {parts}, of at least {ENOUGH} {of}."),
    }
}

impl Group {
    /// The largest number of runs of any value.
    fn runs(&self) -> usize {
        let cells = self.rows.iter().flat_map(|row| &row.cells).flatten();
        cells.map(|estimate| estimate.values.len()).max().unwrap_or(0)
    }

    /// Draws the runs of one measure, and returns its name with the unit of its axis. On a logarithmic axis all are above 0, as
    /// [`Comparison::check_axis`] checks. On a linear one a run that is far from all others has an arrow at the end of the axis, and is
    /// added to `beyond`.
    fn column(
        &self,
        (drawing, beyond): (&mut Drawing, &mut Vec<String>),
        (at, form, log): (usize, Form, bool),
        frame: &Frame,
        (pens, size): (&Pens, f64),
    ) -> String {
        let Measure { name, unit, .. } = &self.measures[at];
        let u = frame.unit;
        let runs = |(n, row): (usize, &'_ Row)| {
            let cell = row.cells.get(at)?.as_ref().filter(|cell| cell.is_drawn())?;
            let values = if cell.values.is_empty() { vec![cell.mean] } else { cell.values.clone() };
            Some((n, pens.pen(&row.name), Estimate { values, ..cell.clone() }))
        };
        let rows: Vec<(usize, Pen, Estimate)> = self.rows.iter().enumerate().filter_map(runs).collect();
        for (n, row) in self.rows.iter().enumerate() {
            if row.cells.get(at).is_some_and(|cell| cell.as_ref().is_some_and(|cell| !cell.is_drawn())) {
                let y = frame.top + ROW * u * (n as f64 + 0.5) + 4.0 * u;
                drawing.text((frame.left + 4.0 * u, y), Anchor::Start, size, Ink::Text, NOT_REACHED);
            }
        }
        let Some([low, high]) = ends(rows.iter().map(|(.., cell)| cell), log) else {
            return name.clone();
        };
        let is_beyond = |value: f64| value < low || value > high;
        // Equal values are drawn in the middle.
        let margin = if high > low { (high - low) * 0.06 } else { (high.abs() * 0.1).max(0.5) };
        // The axis of nonnegative values does not become negative.
        let least = low;
        let low = if low >= 0.0 { (low - margin).max(0.0) } else { low - margin };
        let mut ruler = match log && least > 0.0 {
            true => Ruler::new(&Axis::log("", ""), [least, high].into_iter(), Ends::Values),
            false => Ruler::new(&Axis::new("", ""), [low, high + margin].into_iter(), Ends::Values),
        };
        let unit = ruler.label(unit);
        frame.grid(drawing, (&ruler, &Ruler::none()), size, (Some(14.0 * u), false));
        for (n, pen, cell) in rows {
            let values = &cell.values;
            let centre = frame.top + ROW * u * (n as f64 + 0.5);
            // The points are below a box or a violin, so that they do not cover its median.
            let is_apart = form != Form::Strip && values.len() >= ENOUGH;
            let (middle, points_at) =
                if is_apart { (centre - APART * u, centre + 2.5 * APART * u) } else { (centre, centre) };
            let place =
                |value: f64| if value.is_infinite() { frame.right } else { frame.x(&ruler, value.clamp(low, high)) };
            let open = values.iter().filter(|value| value.is_infinite()).count();
            if open > 0 {
                let what = if cell.lasted.is_empty() { NOT_REACHED } else { "not finished" };
                beyond.push(format!("{name}, {}: {open} of {} {what}", self.rows[n].name, values.len()));
                arrow(drawing, (place(high), points_at), 3.0 * u, (pen, u));
            }
            for value in values.iter().copied().filter(|value| value.is_finite() && is_beyond(*value)) {
                let value_there = human(value, &self.measures[at].unit);
                beyond.push(format!("{name}, {} {value_there}, beyond the axis", self.rows[n].name));
                arrow(drawing, (place(value), points_at), if value > high { 3.0 * u } else { -3.0 * u }, (pen, u));
            }
            // Runs near each other are at different heights, so that equal ones can be counted.
            let inside: Vec<f64> =
                values.iter().filter(|value| !is_beyond(**value)).map(|value| place(*value)).collect();
            let (step, most) = if form == Form::Strip { (2.4 * u, 5) } else { (1.8 * u, 3) };
            let lift = |n: usize| {
                // Among many the heights are in turn, since to look for those near each would take the square of their number.
                let is_near = |x: &&f64| (*x - inside[n]).abs() < 3.0 * u;
                let before = if inside.len() > MANY { n } else { inside[..n].iter().filter(is_near).count() } % most;
                // On either side in turn.
                step * if before % 2 == 1 { before.div_ceil(2) as f64 } else { -((before / 2) as f64) }
            };
            let points = (0..inside.len()).map(|n| (inside[n], points_at + lift(n))).collect();
            let five = cell.five().filter(|_| values.len() >= ENOUGH);
            let is_strip = form == Form::Strip;
            match (five, form) {
                (Some(five), Form::Strip) if five[2].is_infinite() => {}
                (Some(five), Form::Strip) => {
                    let median = place(five[2]);
                    drawing.line((median, middle - 7.0 * u), (median, middle + 7.0 * u), 2.2 * u, Ink::Text);
                }
                (Some(five), Form::Violin) if log => {
                    // The density is that of the logarithms, as it is seen along the axis.
                    let logs: Vec<(f64, f64)> = cell.shares().iter().map(|step| (step.0.log10(), step.1)).collect();
                    let at = |value: f64| place(10_f64.powf(value));
                    draw_violin(drawing, &logs, (at, five.map(f64::log10)), middle, (pen, u));
                }
                (Some(five), Form::Violin) => draw_violin(drawing, &cell.shares(), (place, five), middle, (pen, u)),
                (Some(five), _) => draw_box(drawing, (place, five), middle, (pen, u)),
                (None, _) => {}
            }
            drawing.marks(points, 1.8 * u, Pen { dash: if is_strip { pen.dash } else { 0 }, ..pen });
        }
        if unit.is_empty() { name.clone() } else { format!("{name}, {unit}") }
    }
}

/// The ends of the axis of several rows: the least and the greatest value. If those far from the quartiles of their row would press
/// the others together, they are left out.
fn ends<'a>(rows: impl Iterator<Item = &'a Estimate> + Clone, log: bool) -> Option<[f64; 2]> {
    let span = |values: &mut dyn Iterator<Item = f64>| {
        let none = [f64::INFINITY, f64::NEG_INFINITY];
        let [low, high] = values.fold(none, |[low, high], value| [low.min(value), high.max(value)]);
        (low <= high).then_some([low, high])
    };
    let whole = span(&mut rows.clone().flat_map(|cell| &cell.values).copied().filter(|value| value.is_finite()))?;
    let near = |cell: &'a Estimate| {
        let [_, lower, _, upper, _] = cell.five().unwrap_or_default();
        let fence = FENCE * (upper - lower);
        let is_few = cell.values.len() < ENOUGH;
        let is_near = move |value: &f64| is_few || (lower - fence..=upper + fence).contains(value);
        cell.values.iter().copied().filter(move |value| value.is_finite() && is_near(value))
    };
    let inner = span(&mut rows.flat_map(near))?;
    let is_pressed = inner[1] > inner[0] && whole[1] - whole[0] > FAR * (inner[1] - inner[0]);
    Some(if is_pressed && !log { inner } else { whole })
}

/// Draws the head of an arrow at an end of an axis, to the right or, with a negative length, to the left.
fn arrow(drawing: &mut Drawing, (x, y): (f64, f64), length: f64, (pen, u): (Pen, f64)) {
    let head = vec![(x, y - 3.0 * u), (x + length, y), (x, y + 3.0 * u)];
    drawing.shapes.push(Shape::Lines { lines: vec![head], width: 1.2 * u, ink: Ink::Curve(pen.colour), dash: &[] });
}

/// Draws a box, vertically centred at `middle`, of the least value, the lower quartile, the median, the upper quartile and the
/// greatest value. What is infinite has no line, and the box is open towards it.
fn draw_box(drawing: &mut Drawing, (place, five): (impl Fn(f64) -> f64, [f64; 5]), middle: f64, (pen, u): (Pen, f64)) {
    let (ink, half, end) = (Ink::Curve(pen.colour), HALF * u, 3.0 * u);
    let [least, lower, median, upper, most] = five.map(place);
    let corners = [(lower, -half), (upper, -half), (upper, half), (lower, half)].map(|(x, by)| (x, middle + by));
    drawing.shapes.push(Shape::Area { outline: corners.to_vec(), ink });
    let end = |x: f64| vec![(x, middle - end), (x, middle + end)];
    let mut lines = vec![vec![(least, middle), (lower, middle)], end(least)];
    if five[3].is_finite() {
        lines.push(corners.into_iter().chain([corners[0]]).collect());
        lines.push(vec![(upper, middle), (most, middle)]);
    } else {
        lines.push(vec![corners[1], corners[0], corners[3], corners[2]]);
    }
    if five[4].is_finite() {
        lines.push(end(most));
    }
    drawing.shapes.push(Shape::Lines { lines, width: u, ink, dash: &[] });
    if five[2].is_finite() {
        drawing.line((median, middle - half), (median, middle + half), 2.2 * u, Ink::Text);
    }
}

/// The density of rising values, each with the share up to it, at equal steps from the least to the greatest: a Gaussian kernel with
/// the width of Silverman (1986, equation 3.31). Its greatest value is 1. Equal values have none.
fn density(shares: &[(f64, f64)], [_, lower, _, upper, _]: [f64; 5]) -> Vec<(f64, f64)> {
    let (Some((first, _)), Some((last, all))) = (shares.first(), shares.last()) else { return Vec::new() };
    let before = std::iter::once(0.0).chain(shares.iter().map(|step| step.1));
    let weighted: Vec<(f64, f64)> = shares.iter().zip(before).map(|(step, before)| (step.0, step.1 - before)).collect();
    let count = weighted.len() as f64;
    let mean = weighted.iter().map(|(value, weight)| value * weight).sum::<f64>() / all;
    let squares = weighted.iter().map(|(value, weight)| (value - mean).powi(2) * weight).sum::<f64>() / all;
    let deviation = (squares * count / (count - 1.0).max(1.0)).sqrt();
    let quartiles = (upper - lower) / 1.34;
    let spread = if quartiles > 0.0 { deviation.min(quartiles) } else { deviation };
    let width = 0.9 * spread * count.powf(-0.2);
    if width <= 0.0 {
        return Vec::new();
    }
    let at = |n: usize| first + (last - first) * n as f64 / STEPS as f64;
    let part = |x: f64, (value, weight): &(f64, f64)| (-0.5 * ((x - value) / width).powi(2)).exp() * weight;
    let sum = |x: f64| weighted.iter().map(|of| part(x, of)).sum::<f64>();
    let all: Vec<(f64, f64)> = (0..=STEPS).map(|n| (at(n), sum(at(n)))).collect();
    let most = all.iter().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max);
    all.into_iter().map(|(x, share)| (x, share / most)).collect()
}

/// Draws the density of rising values with the shares up to them to both sides of `middle`, and their median if it is finite.
fn draw_violin(
    drawing: &mut Drawing,
    shares: &[(f64, f64)],
    (place, five): (impl Fn(f64) -> f64, [f64; 5]),
    middle: f64,
    (pen, u): (Pen, f64),
) {
    let half = 6.0 * u;
    let upper = density(shares, five).into_iter().map(|(x, share)| (place(x), middle - share * half));
    let mut outline: Vec<(f64, f64)> = upper.collect();
    let lower: Vec<(f64, f64)> = outline.iter().rev().map(|(x, y)| (*x, 2.0 * middle - y)).collect();
    outline.extend(lower);
    if let Some(first) = outline.first().copied() {
        let ink = Ink::Curve(pen.colour);
        drawing.shapes.push(Shape::Area { outline: outline.clone(), ink });
        outline.push(first);
        drawing.shapes.push(Shape::Lines { lines: vec![outline], width: u, ink, dash: &[] });
    }
    if five[2].is_finite() {
        let median = place(five[2]);
        drawing.line((median, middle - HALF * u), (median, middle + HALF * u), 2.2 * u, Ink::Text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{Better, Estimate, Row};

    fn comparison(runs: &[&[f64]]) -> Comparison {
        let row = |(n, values): (usize, &&[f64])| Row {
            name: format!("variant {n}"),
            cells: vec![Some(Estimate::of_runs(
                values.iter().sum::<f64>() / values.len() as f64,
                None,
                values.to_vec(),
            ))],
        };
        let group = Group {
            name: "flow call".into(),
            measures: vec![Measure::new("MOS", "", Better::More)],
            rows: runs.iter().enumerate().map(row).collect(),
            ..Group::default()
        };
        Comparison::new("Calls", vec![group])
    }

    #[test]
    fn quartiles_are_where_they_are_on_the_scale_of_the_measure() {
        let all = comparison(&[&[1.0, 2.0, 3.0, 4.0, 5.0], &[3.0, 3.0]]);
        let drawing = all
            .spread(&Pens::named(["variant 0", "variant 1"].into_iter()), Form::Box, "runs", &Look::page())
            .expect("runs");
        let marks: Vec<&Vec<(f64, f64)>> = drawing
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Marks { points, .. } => Some(points),
                _ => None,
            })
            .collect();
        assert_eq!(marks.iter().map(|points| points.len()).collect::<Vec<_>>(), [5, 2]);
        // The points are not on the box. Two runs have no box. The first box is from the second to the fourth run.
        let boxes: Vec<&Vec<(f64, f64)>> = drawing
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Area { outline, .. } => Some(outline),
                _ => None,
            })
            .collect();
        assert_eq!(boxes.len(), 1);
        assert!(marks[0].iter().all(|point| point.1 > boxes[0][2].1), "{marks:?} {boxes:?}");
        assert!((boxes[0][0].0 - marks[0][1].0).abs() < 1e-9 && (boxes[0][1].0 - marks[0][3].0).abs() < 1e-9);
        assert!((marks[1][0].0 - marks[0][2].0).abs() < 1e-9, "equal values are at the same place");
        for (x, y) in marks.into_iter().chain(boxes).flatten() {
            assert!((0.0..900.0).contains(x) && (0.0..drawing.height).contains(y));
        }
        assert_eq!(drawing.misplaced(), Vec::<String>::new());
        assert_eq!(comparison(&[&[1.0], &[2.0]]).spread(&Pens::default(), Form::Box, "runs", &Look::page()), None);
    }

    /// One of ten runs takes a hundred times as long: the others are not pressed into a point, and the caption has the value.
    #[test]
    fn a_far_run_has_an_arrow_and_its_value_below() {
        let near: Vec<f64> = (0..10).map(|n| 10.0 + f64::from(n)).collect();
        let mut far = near.clone();
        far[3] = 1500.0;
        let drawn = |look: &str| {
            let look = Look::parse(look).expect("a look");
            comparison(&[&near, &far]).figure(&Pens::default(), &look).expect("an axis").expect("runs")
        };
        let drawing = drawn("column,form=box");
        assert_eq!(drawing.misplaced(), Vec::<String>::new());
        let text = |drawing: &Drawing| {
            let texts = drawing.shapes.iter().filter_map(|shape| match shape {
                Shape::Text { text, .. } => Some(text.clone()),
                _ => None,
            });
            texts.collect::<Vec<_>>().join(" ")
        };
        assert!(text(&drawing).contains("Arrows: MOS, variant 1 1500, beyond the axis."), "{}", text(&drawing));
        let widest = |drawing: &Drawing| {
            let of_first = drawing.shapes.iter().find_map(|shape| match shape {
                Shape::Marks { points, .. } => Some(points.clone()),
                _ => None,
            });
            let at: Vec<f64> = of_first.expect("points").iter().map(|point| point.0).collect();
            at.iter().copied().fold(0.0, f64::max) - at.iter().copied().fold(f64::INFINITY, f64::min)
        };
        assert!(widest(&drawing) > 80.0, "{}", widest(&drawing));
        // A logarithmic axis has room for all.
        assert!(!text(&drawn("column,log,form=box")).contains("Arrows"));
        // Values that are merely spread have no arrows.
        let spread: Vec<f64> = (0..10).map(|n| f64::from(n * n)).collect();
        let of = |values: Vec<f64>| Estimate { values, ..Estimate::default() };
        assert_eq!(ends([of(near), of(spread)].iter(), false), Some([0.0, 81.0]));
    }

    /// Of twenty values two were not reached: the quartiles are those of all twenty, and an arrow stands for the two.
    #[test]
    fn values_that_were_not_reached_are_beyond_the_axis() {
        let mut values: Vec<f64> = (1..=18).map(f64::from).collect();
        values.extend([f64::INFINITY; 2]);
        let mut all = comparison(&[&values]);
        all.groups[0].rows[0].cells[0] = Some(Estimate { mean: 9.5, values, ..Estimate::default() });
        for form in [Form::Box, Form::Violin, Form::Strip] {
            let drawing = all.spread(&Pens::default(), form, "values", &Look::column()).expect("values");
            let svg = drawing.svg();
            let texts = drawing.shapes.iter().filter_map(|shape| match shape {
                Shape::Text { text, .. } => Some(text.as_str()),
                _ => None,
            });
            let said = texts.collect::<Vec<_>>().join(" ");
            assert!(said.contains("Points: values; ") && !svg.contains("inf") && !svg.contains("NaN"), "{svg}");
            assert!(said.contains("Arrows: MOS, variant 0: 2 of 20 not reached."), "{said}");
            let points = drawing.shapes.iter().find_map(|shape| match shape {
                Shape::Marks { points, .. } => Some(points.len()),
                _ => None,
            });
            assert_eq!(points, Some(18));
        }
    }

    /// 1, 10 and 100 are equally far apart on a logarithmic axis, which bars do not have, nor a value of 0.
    #[test]
    fn boxes_may_have_logarithmic_axes_and_bars_may_not() {
        let all = comparison(&[&[1.0, 10.0, 100.0, 10.0, 10.0], &[2.0, 3.0, 4.0, 5.0, 6.0]]);
        let pens = Pens::named(["variant 0", "variant 1"].into_iter());
        for form in ["box", "violin", "strip"] {
            let look = Look::parse(&format!("column,log,form={form}")).expect("a look");
            let drawing = all.figure(&pens, &look).expect("an axis").expect("runs");
            assert_eq!(drawing.misplaced(), Vec::<String>::new(), "{form}");
            let points = drawing.shapes.iter().find_map(|shape| match shape {
                Shape::Marks { points, .. } => Some(points.iter().map(|point| point.0).collect::<Vec<_>>()),
                _ => None,
            });
            let points = points.expect("points");
            assert!((points[1] - points[0] - (points[2] - points[1])).abs() < 1e-9, "{form}: {points:?}");
        }
        let refused = |all: &Comparison, look: &str| {
            all.figure(&pens, &Look::parse(look).expect("a look")).expect_err("a reason")
        };
        assert!(refused(&all, "log").contains("choose form=box"));
        assert!(refused(&all, "log,form=bars").contains("bars begin at 0"));
        assert!(refused(&all, "from=1").contains("an axis of its own"));
        let zero = comparison(&[&[0.0, 10.0], &[2.0, 3.0]]);
        assert!(refused(&zero, "log,form=box").contains("MOS of flow call is 0 in a run"));
    }

    /// An axis around 1 s has labels in one unit that differ, whatever its range and its width.
    #[test]
    fn every_axis_has_labels_that_differ() {
        for spread in [1e2, 1e4, 1e6, 3e6, 1e7, 5e7, 1e8, 3e8, 9e8] {
            for (width, many) in [("column", false), ("column", true), ("page", false), ("page", true), ("text", true)]
            {
                let values: Vec<f64> = (0..6).map(|n| 1e9 + spread * (f64::from(n) - 2.5) / 2.5).collect();
                let mut all = comparison(&[&values, &values]);
                all.groups[0].measures[0].unit = "ns".into();
                let group = all.groups[0].clone();
                if many {
                    all.groups[0].measures = vec![group.measures[0].clone(); 6];
                    all.groups[0].rows.iter_mut().for_each(|row| row.cells = vec![row.cells[0].clone(); 6]);
                }
                let look = Look::parse(width).expect("a look");
                let drawing = all.spread(&Pens::default(), Form::Box, "runs", &look).expect("runs");
                let text = |shape: &Shape| match shape {
                    Shape::Text { text, .. } if text.parse::<f64>().is_ok() => Some(text.clone()),
                    _ => None,
                };
                let labels: Vec<String> = drawing.shapes.iter().filter_map(text).collect();
                let distinct: std::collections::BTreeSet<&String> = labels.iter().collect();
                assert_eq!(drawing.misplaced(), Vec::<String>::new(), "{spread} {width}");
                match many {
                    true => assert!(labels.len() >= 6, "{spread} {width}: {labels:?}"),
                    false => {
                        assert!(distinct.len() == labels.len() && distinct.len() > 1, "{spread} {width}: {labels:?}")
                    }
                }
            }
        }
    }

    #[test]
    fn a_density_is_highest_where_most_values_are_and_equal_values_have_none() {
        let values = [1.0, 2.0, 2.0, 2.1, 2.1, 2.2, 5.0];
        let density_of = |values: &[f64]| {
            let of = Estimate { values: values.to_vec(), ..Estimate::default() };
            density(&of.shares(), of.five().expect("values"))
        };
        let density = density_of(&values);
        let top = density.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("points");
        assert!((1.8..2.4).contains(&top.0) && top.1 == 1.0, "{top:?}");
        assert_eq!((density[0].0, density[STEPS].0), (1.0, 5.0), "nothing outside of the values");
        assert!(density_of(&[3.0; 6]).is_empty());
    }

    /// The caption names a box only where there is one.
    #[test]
    fn the_caption_is_of_what_is_drawn() {
        let said = |runs: &[&[f64]], form: &str| {
            let look = Look::parse(&format!("column,form={form}")).expect("a look");
            let drawing = comparison(runs).figure(&Pens::default(), &look).expect("an axis").expect("runs");
            let texts = drawing.shapes.into_iter().filter_map(|shape| match shape {
                Shape::Text { text, .. } => Some(text),
                _ => None,
            });
            texts.collect::<Vec<_>>().join(" ")
        };
        let (four, five): (&[f64], &[f64]) = (&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 4.0, 5.0]);
        for (form, name, part) in
            [("box", "boxes", "whiskers"), ("violin", "violins", "outlines"), ("strip", "medians", "line")]
        {
            let few = said(&[four, four], form);
            assert!(few.contains(&format!("fewer than 5 have no {name}.")) && !few.contains(part), "{few}");
            assert!(said(&[five, five], form).contains(part), "{form}");
            assert!(said(&[four, five], form).contains("of at least 5 runs."), "{form}");
        }
    }

    #[test]
    fn every_form_fits_into_a_column() {
        let all = comparison(&[&[1.0, 2.0, 3.0, 4.0, 5.0], &[3.0, 3.5, 3.6, 4.0, 4.4]]);
        let pens = Pens::named(["variant 0", "variant 1"].into_iter());
        for form in [Form::Box, Form::Violin, Form::Strip] {
            let drawing = all.spread(&pens, form, "runs", &Look::column()).expect("runs");
            assert_eq!((drawing.width, drawing.misplaced()), (252.0, Vec::<String>::new()), "{form:?}");
        }
        let bars = all.drawing(&pens, &Look::column());
        assert_eq!((bars.width, bars.misplaced()), (252.0, Vec::<String>::new()));
    }
}

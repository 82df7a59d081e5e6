//! Box plots of a comparison, which show the spread of each variant's runs. Each measure has its own scale.

use crate::comparison::{Comparison, Group, Row, WIDTH};
use crate::drawing::{Anchor, Drawing, Ink, Shape};
use crate::font::{fitted, room};
use crate::model::Axis;
use crate::number::quantiles;
use crate::palette::{Pen, Pens};
use crate::plotting::{Frame, Ruler};
use tidegate_display::human;

const ROW: f64 = 20.0;
const SIZE: f64 = 11.0;
/// Half the height of a box.
const HALF: f64 = 5.5;
/// The number of runs from which a box with quartiles is drawn.
const ENOUGH: usize = 5;

impl Comparison {
    /// Draws the runs of each variant as points and, if there are at least five, a box with the quartiles and the
    /// median. Returns `None` if nothing was run twice.
    pub fn boxes(&self, pens: &Pens) -> Option<Drawing> {
        let runs = self.groups.iter().map(Group::runs).max().filter(|runs| *runs > 1)?;
        let title = format!("{}: box plots of {runs} runs", self.title);
        let mut drawing = Drawing { width: WIDTH, title: title.clone(), ..Drawing::default() };
        drawing.text((12.0, 24.0), Anchor::Start, 14.0, Ink::Text, title);
        let names = self.groups.iter().flat_map(|group| &group.rows).map(|row| room(&row.name, 12.0));
        let left = (names.fold(0.0, f64::max) + 30.0).clamp(70.0, 240.0);
        let mut y = 38.0;
        for group in self.groups.iter().filter(|group| group.runs() > 1) {
            if !group.name.is_empty() {
                y += 20.0;
                drawing.text((12.0, y), Anchor::Start, 13.0, Ink::Text, fitted(&group.name, 13.0, WIDTH - 24.0));
            }
            y += 18.0;
            let column = (WIDTH - left - 12.0) / group.measures.len().max(1) as f64;
            let top = y + 4.0;
            for (n, row) in group.rows.iter().enumerate() {
                let at = top + ROW * (n as f64 + 0.5);
                drawing.text((12.0, at + 4.0), Anchor::Start, 12.0, Ink::Text, fitted(&row.name, 12.0, left - 20.0));
            }
            for (at, measure) in group.measures.iter().enumerate() {
                let x = left + column * at as f64;
                drawing.text((x, y - 2.0), Anchor::Start, SIZE, Ink::Muted, fitted(&measure.name, SIZE, column - 12.0));
                let bottom = top + ROW * group.rows.len() as f64;
                group.column(&mut drawing, at, &Frame { left: x, top, right: x + column - 30.0, bottom }, pens);
            }
            y = top + ROW * group.rows.len() as f64 + SIZE + 18.0;
        }
        drawing.height = y;
        Some(drawing)
    }
}

impl Group {
    /// The largest number of runs of any value.
    fn runs(&self) -> usize {
        let cells = self.rows.iter().flat_map(|row| &row.cells).flatten();
        cells.map(|estimate| estimate.values.len()).max().unwrap_or(0)
    }

    /// Draws the runs of one measure.
    fn column(&self, drawing: &mut Drawing, at: usize, frame: &Frame, pens: &Pens) {
        let runs = |(n, row): (usize, &'_ Row)| {
            let cell = row.cells.get(at)?.as_ref()?;
            let values = if cell.values.is_empty() { vec![cell.mean] } else { cell.values.clone() };
            Some((n, pens.pen(&row.name), values))
        };
        let rows: Vec<(usize, Pen, Vec<f64>)> = self.rows.iter().enumerate().filter_map(runs).collect();
        let all = || rows.iter().flat_map(|(.., values)| values).copied();
        let (Some(low), Some(high)) = (all().reduce(f64::min), all().reduce(f64::max)) else { return };
        // Equal values are drawn in the middle.
        let margin = if high > low { (high - low) * 0.06 } else { (high.abs() * 0.1).max(0.5) };
        // The axis of nonnegative values does not become negative.
        let low = if low >= 0.0 { (low - margin).max(0.0) } else { low - margin };
        let mut ruler = Ruler::new(&Axis::new("", ""), [low, high + margin].into_iter(), false);
        let unit = &self.measures[at].unit;
        ruler.label(|value| human(value, unit));
        frame.grid(drawing, (&ruler, &Ruler::none()), SIZE, (Some(14.0), false));
        for (n, pen, mut values) in rows {
            let middle = frame.top + ROW * (n as f64 + 0.5);
            let place = |value: f64| frame.x(&ruler, value);
            let points = values.iter().map(|value| (place(*value), middle)).collect();
            if let Some(five) = quantiles(&mut values).filter(|_| values.len() >= ENOUGH) {
                draw_box(drawing, five.map(place), middle, pen);
            }
            drawing.shapes.push(Shape::Marks { points, radius: 1.8, pen });
        }
    }
}

/// Draws a box, vertically centred at `middle`, from the positions of the least value, the lower quartile, the median,
/// the upper quartile and the greatest value.
fn draw_box(drawing: &mut Drawing, [least, lower, median, upper, most]: [f64; 5], middle: f64, pen: Pen) {
    let ink = Ink::Curve(pen.colour);
    let corners = [(lower, -HALF), (upper, -HALF), (upper, HALF), (lower, HALF)].map(|(x, by)| (x, middle + by));
    drawing.shapes.push(Shape::Area { outline: corners.to_vec(), ink });
    let outline = corners.into_iter().chain([corners[0]]).collect();
    let end = |x: f64| vec![(x, middle - 3.0), (x, middle + 3.0)];
    let whiskers =
        [vec![(least, middle), (lower, middle)], vec![(upper, middle), (most, middle)], end(least), end(most)];
    let lines = [outline].into_iter().chain(whiskers).collect();
    drawing.shapes.push(Shape::Lines { lines, width: 1.0, ink, dash: &[] });
    drawing.line((median, middle - HALF), (median, middle + HALF), 2.2, Ink::Text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{Better, Estimate, Measure, Row};

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
        };
        Comparison { title: "Calls".into(), groups: vec![group] }
    }

    #[test]
    fn quartiles_are_where_they_are_on_the_scale_of_the_measure() {
        let all = comparison(&[&[1.0, 2.0, 3.0, 4.0, 5.0], &[3.0, 3.0]]);
        let drawing = all.boxes(&Pens::named(["variant 0", "variant 1"].into_iter())).expect("runs");
        let marks: Vec<&Vec<(f64, f64)>> = drawing
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Marks { points, .. } => Some(points),
                _ => None,
            })
            .collect();
        assert_eq!(marks.iter().map(|points| points.len()).collect::<Vec<_>>(), [5, 2]);
        // Two runs have no box. The first box is from the second to the fourth run.
        let boxes: Vec<&Vec<(f64, f64)>> = drawing
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Area { outline, .. } => Some(outline),
                _ => None,
            })
            .collect();
        assert_eq!(boxes.len(), 1);
        assert!((boxes[0][0].0 - marks[0][1].0).abs() < 1e-9 && (boxes[0][1].0 - marks[0][3].0).abs() < 1e-9);
        assert!((marks[1][0].0 - marks[0][2].0).abs() < 1e-9, "equal values are at the same place");
        for (x, y) in marks.into_iter().chain(boxes).flatten() {
            assert!((0.0..WIDTH).contains(x) && (0.0..drawing.height).contains(y));
        }
        assert_eq!(drawing.misplaced(), Vec::<String>::new());
        assert_eq!(comparison(&[&[1.0], &[2.0]]).boxes(&Pens::default()), None);
    }
}

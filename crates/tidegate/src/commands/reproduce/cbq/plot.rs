//! Plots with linear axes, as SVG: lines over time, and the pattern of packets on a link.

use std::path::Path;

use plotters::prelude::*;

use crate::Failure;

/// One curve, or one row of points.
pub struct Curve<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// Its points.
    pub points: &'a [(f64, f64)],
}

/// How points are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Joined by lines.
    Lines,
    /// Each a mark of its own.
    Marks,
}

/// A plot with its captions.
pub struct Plot<'a> {
    /// The sentence above it.
    pub title: &'a str,
    /// What runs to the right, with its unit.
    pub x: &'a str,
    /// What runs upwards, with its unit.
    pub y: &'a str,
    /// How points are drawn.
    pub style: Style,
    /// The curves.
    pub curves: &'a [Curve<'a>],
}

impl Plot<'_> {
    /// Writes the plot to `dir/name.svg`.
    ///
    /// # Errors
    /// What the file system has against it.
    pub fn write(&self, dir: &Path, name: &str) -> Result<(), Failure> {
        let path = dir.join(format!("{name}.svg"));
        let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", path.display()));
        std::fs::create_dir_all(dir).map_err(|error| failed(&error))?;
        let points = || self.curves.iter().flat_map(|curve| curve.points);
        let bounds = |of: fn(&(f64, f64)) -> f64| {
            points().map(of).fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
        };
        let ((left, right), (_, top)) = if points().next().is_none() {
            ((0.0, 1.0), (0.0, 1.0))
        } else {
            (bounds(|point| point.0), bounds(|point| point.1))
        };
        let area = SVGBackend::new(&path, (900, 420)).into_drawing_area();
        area.fill(&WHITE).map_err(|error| failed(&error))?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d(left..right.max(left + 1e-9), 0.0..(top * 1.05).max(1e-9))
            .map_err(|error| failed(&error))?;
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .light_line_style(TRANSPARENT)
            .draw()
            .map_err(|error| failed(&error))?;
        for (n, curve) in self.curves.iter().enumerate() {
            let colour = Palette99::pick(n).to_rgba();
            let legend = move |(x, y)| Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled());
            let points = curve.points.iter().copied();
            match self.style {
                Style::Lines => chart.draw_series(LineSeries::new(points, colour.stroke_width(2))),
                Style::Marks => chart.draw_series(points.map(|point| Circle::new(point, 2, colour.filled()))),
            }
            .map_err(|error| failed(&error))?
            .label(curve.name)
            .legend(legend);
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .draw()
            .map_err(|error| failed(&error))?;
        area.present().map_err(|error| failed(&error))
    }
}

//! The range of the horizontal axis of a plot that a look chooses.

use crate::chart::units::number_in;
use crate::look::Look;
use crate::model::{Axis, Plot, Scale, Style};

/// Reads the end of a range in the unit of an axis.
fn end(key: &str, text: &str, axis: &Axis) -> Result<f64, String> {
    let (unit, one, such) = match axis.unit.as_str() {
        "s" => ("ns", 1e9, "20ms"),
        "ms" => ("ns", 1e6, "20ms"),
        "\u{b5}s" => ("ns", 1e3, "20us"),
        "ns" => ("ns", 1.0, "20us"),
        "bit/s" => ("bps", 1.0, "4mbit"),
        "B" => ("B", 1.0, "20kB"),
        _ => ("", 1.0, "20"),
    };
    let found = number_in(text).filter(|(_, of)| *of == unit).map(|(value, _)| value / one);
    found.ok_or_else(|| format!("{key}={text}: the horizontal axis is {}; write it as in {key}={such}", axis.label()))
}

/// The part of sorted values in a range. Where a value is valid until the next, the ends have the values that are valid there.
fn inside<T: Copy>(
    values: &[T],
    (from, to): (f64, f64),
    steps: bool,
    x: impl Fn(&T) -> f64,
    at: impl Fn(T, f64) -> T,
) -> Vec<T> {
    let begin = values.partition_point(|value| x(value) < from);
    let end = values.partition_point(|value| x(value) <= to).max(begin);
    let mut found = values[begin..end].to_vec();
    if !steps {
        return found;
    }
    if let Some(before) = begin.checked_sub(1).map(|n| values[n])
        && found.first().is_none_or(|first| x(first) > from)
        && (!found.is_empty() || end < values.len())
    {
        found.insert(0, at(before, from));
    }
    if let (Some(last), true) = (found.last().copied(), end < values.len()) {
        found.push(at(last, to));
    }
    found
}

impl Look {
    /// Refuses a range for a figure whose axes it cannot have.
    ///
    /// # Errors
    /// If a range is wanted, with the reason.
    pub(crate) fn refuse_range(&self, why: &str) -> Result<(), String> {
        match self.from.is_none() && self.to.is_none() {
            true => Ok(()),
            false => Err(format!("from= and to= are of the horizontal axes of plots; {why}")),
        }
    }

    /// The part of a plot in the range that is wanted.
    ///
    /// # Errors
    /// If an end is not in the unit of the axis, or nothing is in the range.
    pub(crate) fn ranged(&self, mut plot: Plot) -> Result<Plot, String> {
        if self.from.is_none() && self.to.is_none() {
            return Ok(plot);
        }
        let read = |key, text: &Option<String>| text.as_ref().map(|text| end(key, text, &plot.x)).transpose();
        let range = [read("from", &self.from)?, read("to", &self.to)?];
        let (from, to) = (range[0].unwrap_or(f64::NEG_INFINITY), range[1].unwrap_or(f64::INFINITY));
        if from >= to {
            return Err("from= must be less than to=".into());
        }
        let steps = matches!(plot.style, Style::Cdf | Style::Ccdf | Style::Steps);
        let all = || plot.curves.iter().flat_map(|curve| &curve.points).map(|point| point.0);
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        for curve in &mut plot.curves {
            curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let is_step = steps && !curve.is_apart;
            curve.points = inside(&curve.points, (from, to), is_step, |point| point.0, |point, x| (x, point.1));
            curve.band = inside(&curve.band, (from, to), is_step, |point| point.0, |point, x| (x, point.1, point.2));
        }
        if plot.curves.iter().all(|curve| curve.points.is_empty()) {
            return Err(format!(
                "nothing is between from= and to=: the values are from {least} to {most} on the axis {}",
                plot.x.label()
            ));
        }
        plot.x.range = range;
        if plot.x.scale == Scale::Log {
            let (low, high) = (from.max(least), to.min(most));
            // A narrow range is linear, as the axis of values that are close to each other is.
            if !self.log && (from == 0.0 || high < low * 10.0) {
                plot.x.scale = Scale::Linear;
            } else if range.iter().flatten().any(|end| *end <= 0.0) {
                return Err("from= and to= of a logarithmic axis are above 0".into());
            }
        }
        Ok(plot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::Shape;
    use crate::model::Curve;
    use crate::palette::Pen;

    fn plot() -> Plot {
        let curve =
            |name: &str, by: f64| Curve::new(name, [(0.001, 0.1), (0.02 + by, 0.5), (0.021 + by, 0.9), (0.4, 1.0)]);
        Plot {
            title: String::new(),
            x: Axis::log("one-way delay", "s"),
            y: Axis::tail("share of the values"),
            style: Style::Cdf,
            note: None,
            curves: vec![curve("fifo", 0.0), curve("codel", 0.0005)],
        }
    }

    /// Curves that lie in one pixel between 1 and 1000 ms are told apart between 20 and 22 ms.
    #[test]
    fn a_range_is_drawn_over_the_whole_width() {
        for (look, ticks) in
            [("from=20ms,to=22ms", "20"), ("from=20ms,to=22ms,log", "20"), ("from=20ms,to=22ms,form=ccdf", "20")]
        {
            let look = Look::parse(look).expect("a look");
            let plot = look.plot(plot()).expect("a part");
            let drawing = plot.drawing(&[Pen::default(); 2], &look);
            assert_eq!(drawing.misplaced(), Vec::<String>::new());
            let svg = drawing.svg();
            assert!(svg.contains(&format!(">{ticks}</text>")) && svg.contains(">22</text>"), "{svg}");
            let lines = drawing.shapes.iter().filter_map(|shape| match shape {
                Shape::Lines { lines, width, .. } if *width > 1.5 => Some(lines),
                _ => None,
            });
            let all: Vec<(f64, f64)> = lines.flatten().flatten().copied().collect();
            assert!(all.iter().all(|(x, _)| (80.0 - 1e-6..=900.0).contains(x)), "{all:?}");
        }
        let look = Look::parse("from=20ms,to=22ms").expect("a look");
        let part = look.plot(plot()).expect("a part");
        assert_eq!(part.x.scale, Scale::Linear);
        // The value before the range is valid at its beginning, and the last value at its end.
        let codel = [(0.02, 0.1), (0.0205, 0.5), (0.0215, 0.9), (0.022, 0.9)];
        let near = |(a, b): (&(f64, f64), &(f64, f64))| (a.0 - b.0).abs() < 1e-12 && a.1 == b.1;
        let points = &part.curves[1].points;
        assert!(points.len() == 4 && points.iter().zip(&codel).all(near), "{points:?}");
    }

    #[test]
    fn wrong_ranges_are_named() {
        for (look, why) in [
            ("from=20", "write it as in from=20ms"),
            ("to=4mbit", "the horizontal axis is one-way delay, s"),
            ("from=2s,to=3s", "nothing is between"),
            ("from=3ms,to=2ms", "less than"),
            ("from=0,to=2ms", "write it as in"),
            ("from=0ms,log", "above 0"),
        ] {
            let said = Look::parse(look).expect("a look").plot(plot()).expect_err(look);
            assert!(said.contains(why), "{look}: {said}");
        }
        assert!(Look::parse("from=soon").is_err_and(|why| why.contains("a number with its unit")));
    }
}

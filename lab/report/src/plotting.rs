//! Draws plots: alone, one below the other, and as small multiples.

use crate::comparison::each_once;
use crate::drawing::{Anchor, Drawing, Ink, Shape};
use crate::font::{fitted, fitted_apart, room};
use crate::frame::Frame;
use crate::look::{Heading, Look};
use crate::model::{Axis, Panels, Plot, Scale, Style};
use crate::palette::{Pen, Pens};
use crate::ruler::Ruler;

/// The type sizes of small multiples, given for type of 13 points.
const SMALL: f64 = 11.0;

/// The entries of a legend in rows below each other: the place of each, and the number of rows.
pub(crate) struct Legend {
    entries: Vec<(f64, usize, String)>,
    pub(crate) rows: usize,
}

impl Legend {
    /// Places `names` in rows of `width`.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>, width: f64, size: f64, unit: f64) -> Self {
        let (mut from, mut row, mut entries) = (0.0, 0, Vec::new());
        for name in fitted_apart(names, size, width - 40.0 * unit) {
            let wide = 34.0 * unit + room(&name, size) + 18.0 * unit;
            if from > 0.0 && from + wide - 18.0 * unit > width {
                (from, row) = (0.0, row + 1);
            }
            entries.push((from, row, name));
            from += wide;
        }
        let rows = if entries.is_empty() { 0 } else { row + 1 };
        Self { entries, rows }
    }

    /// Draws the entries. The first row has its base line at `y`.
    pub(crate) fn draw(
        self,
        drawing: &mut Drawing,
        (x, y): (f64, f64),
        (size, unit): (f64, f64),
        style: impl Fn(usize) -> Style,
        pens: &[Pen],
    ) {
        for (n, ((from, row, name), pen)) in self.entries.into_iter().zip(pens).enumerate() {
            let base = y + row as f64 * (size + 7.0 * unit);
            sample(drawing, style(n), *pen, (x + from, base - 4.0 * unit), unit);
            drawing.text((x + from + 34.0 * unit, base), Anchor::Start, size, Ink::Text, name);
        }
    }

    /// Draws the entries with a field of the ink of each before it.
    pub(crate) fn draw_fields(self, drawing: &mut Drawing, (x, y): (f64, f64), (size, unit): (f64, f64), inks: &[Ink]) {
        for ((from, row, name), ink) in self.entries.into_iter().zip(inks) {
            let base = y + row as f64 * (size + 7.0 * unit);
            let (left, top, wide, tall) = (x + from, base - size * 0.75, 28.0 * unit, size * 0.8);
            drawing.rectangle((left, top), wide, tall, *ink);
            drawing.outline((left, top), wide, tall);
            drawing.text((left + 34.0 * unit, base), Anchor::Start, size, Ink::Text, name);
        }
    }
}

/// Draws a sample of a pen for a legend.
fn sample(drawing: &mut Drawing, style: Style, pen: Pen, (x, y): (f64, f64), unit: f64) {
    if style != Style::Marks {
        let lines = vec![vec![(x, y), (x + 28.0 * unit, y)]];
        let (ink, dash) = (Ink::Curve(pen.colour), pen.dashes());
        drawing.shapes.push(Shape::Lines { lines, width: 1.8 * unit, ink, dash });
    }
    if style == Style::Marks || drawing.finish.on_paper {
        drawing.marks(vec![(x + 14.0 * unit, y)], 4.0 * unit, pen);
    }
}

/// Draws plots, each with the pens of its curves, one below the other. All have the axes of the first and the same
/// ranges. Returns `None` if there are no plots.
pub(crate) fn stacked(plots: &[(Plot, Vec<Pen>)], look: &Look) -> Option<Drawing> {
    let (first, _) = plots.first()?;
    // Without its title nobody knows which of several a plot is.
    let titled = Look { heading: Heading::Title, ..look.clone() };
    let look = if plots.len() > 1 && look.heading == Heading::Nothing { &titled } else { look };
    let plots: Vec<(Plot, &[Pen])> =
        plots.iter().map(|(plot, pens)| (plot.on_axes_of(first), pens.as_slice())).collect();
    let (x, y) = Ruler::pair(plots.iter().map(|(plot, _)| plot), first);
    let legend = plots.iter().map(|(plot, _)| plot.legend(look)).fold(0.0, f64::max);
    let mut whole = Drawing::default();
    for (plot, pens) in &plots {
        whole.append(plot.drawn(&x, &y, (legend, look), pens));
    }
    Some(whole)
}

impl Panels {
    /// Draws the panels over the same ranges, with one legend and the pens of a report.
    pub(crate) fn drawing(&self, pens: &Pens, look: &Look) -> Option<Drawing> {
        let (_, first) = self.panels.first()?;
        let (u, size, small) = (look.unit(), look.size, look.type_of(SMALL));
        let (x, y) = Ruler::pair(self.plots(), first);
        let names = self.names();
        let pens = pens.of_curves(&names);
        let pen_of = |name: &str| names.iter().position(|known| *known == name).map_or(Pen::default(), |n| pens[n]);
        let columns = self.columns(look);
        let rows = self.panels.len().div_ceil(columns);
        let labels = y.ticks.iter().map(|(_, label)| room(label, small)).fold(0.0, f64::max);
        let (left, gap) = (labels + 24.0 * u, 22.0 * u);
        let width = (look.width - left - 20.0 * u - gap * (columns - 1) as f64) / columns as f64;
        let mut drawing =
            Drawing { width: look.width, title: self.title.clone(), finish: look.finish(), ..Drawing::default() };
        let mut top = 18.0 * u;
        if let Some(heading) = look.heading(&self.title) {
            top += 22.0 * u;
            let heading = fitted(heading, size, look.width - 24.0 * u);
            drawing.text((12.0 * u, 22.0 * u), Anchor::Start, size, Ink::Text, heading);
        }
        drawing.text((12.0 * u, top), Anchor::Start, small, Ink::Muted, y.title.as_str());
        top += 26.0 * u;
        // There is no legend if each panel has a single curve, which the panel's name identifies. Such a curve needs no dashes.
        let several = self.panels.iter().any(|(_, plot)| plot.curves.len() > 1);
        let plain = |pen: Pen| if several { pen } else { Pen { dash: 0, ..pen } };
        let entries = names.iter().copied().filter(|_| several);
        let legend = Legend::new(entries, look.width - left, small, u);
        let (note, left_out) = look.note(first.whole_note().unwrap_or_default(), small, look.width);
        drawing.left_out = left_out;
        let lines = if legend.rows > 0 { 22.0 * u + (legend.rows - 1) as f64 * (small + 7.0 * u) } else { 0.0 };
        let below = 20.0 * u + lines + note.len() as f64 * small * 1.3;
        let usual = if columns < 3 { (width * 0.6).clamp(90.0 * u, 190.0 * u) } else { 150.0 * u };
        let height =
            look.height.map_or(usual, |height| ((height - top - below) / rows as f64 - 36.0 * u).max(30.0 * u));
        let step = height + 36.0 * u;
        for (n, (name, plot)) in self.panels.iter().enumerate() {
            let (row, column) = (n / columns, n % columns);
            let (x0, y0) = (left + (width + gap) * column as f64, top + step * row as f64);
            let frame = Frame { left: x0, top: y0, right: x0 + width, bottom: y0 + height, unit: u };
            drawing.text((x0, y0 - 6.0 * u), Anchor::Start, small, Ink::Text, fitted(name, small, width));
            // The lowest panel of each column has the labels of the horizontal axis.
            let lowest = n + columns >= self.panels.len();
            let beyond = lowest.then_some(gap / 2.0 - 1.0);
            frame.grid(&mut drawing, (&x, &y), small, (beyond, column == 0));
            let plot = plot.on_axes_of(first);
            let pens: Vec<Pen> = plot.curves.iter().map(|curve| plain(pen_of(&curve.name))).collect();
            frame.curves(&mut drawing, &plot, (&x, &y), &pens, 1.5 * u);
        }
        let mut at = top + step * rows as f64 + 6.0 * u;
        let middle = left + (look.width - left) / 2.0;
        drawing.text((middle, at), Anchor::Middle, small, Ink::Text, x.title.as_str());
        legend.draw(&mut drawing, (left, at + 22.0 * u), (small, u), |_| first.style, &pens);
        at += lines;
        drawing.note(&note, (12.0 * u, at), small);
        drawing.height = at + 14.0 * u + note.len() as f64 * small * 1.3;
        Some(drawing)
    }

    /// The distinct names of the panels' curves.
    pub(crate) fn names(&self) -> Vec<&str> {
        each_once(self.plots().flat_map(Plot::names))
    }

    /// The number of columns. Four panels form a square, otherwise there are up to three in a row, as far as they fit.
    fn columns(&self, look: &Look) -> usize {
        let most = match self.panels.len() {
            n @ ..=2 => n.max(1),
            4 => 2,
            _ => 3,
        };
        most.min((look.width / look.size / 14.0) as usize).max(1)
    }
}

impl Plot {
    /// Formats the plot as SVG on white. It is 900 by 480 points, or higher if its legend needs it.
    pub fn svg(&self) -> String {
        self.drawing(&self.pens(&Pens::named(self.names())), &Look::page()).svg()
    }

    /// Draws the part of the plot that a look selects.
    ///
    /// # Errors
    /// If a curve that is to be drawn does not exist.
    pub fn with_look(&self, look: &Look) -> Result<Drawing, String> {
        let plot = look.plot(self.clone())?;
        Ok(plot.drawing(&plot.pens(&Pens::named(plot.names())), look))
    }

    /// Draws the plot, each curve with its pen.
    pub(crate) fn drawing(&self, pens: &[Pen], look: &Look) -> Drawing {
        let (x, y) = Ruler::pair(std::iter::once(self), self);
        self.drawn(&x, &y, (self.legend(look), look), pens)
    }

    /// Returns the shares above each value instead of those up to it, on a logarithmic axis.
    pub(crate) fn complementary(mut self) -> Self {
        self.style = Style::Ccdf;
        self.y = Axis { scale: Scale::Log, ..Axis::new("share of the values above", "1") };
        for curve in &mut self.curves {
            curve.points.iter_mut().for_each(|point| point.1 = 1.0 - point.1);
            curve.band.iter_mut().for_each(|band| (band.1, band.2) = (1.0 - band.2, 1.0 - band.1));
            // A share that is 0 but for rounding has no place on the axis.
            curve.points.iter_mut().filter(|point| point.1 < 1e-12).for_each(|point| point.1 = 0.0);
        }
        self
    }

    /// Returns this plot with the axes of another plot.
    fn on_axes_of(&self, other: &Self) -> Self {
        Self { x: other.x.clone(), y: other.y.clone(), ..self.clone() }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.curves.iter().map(|curve| curve.name.as_str())
    }

    /// The style of a curve.
    fn style_of(&self, curve: usize) -> Style {
        if self.curves[curve].is_apart { Style::Marks } else { self.style }
    }

    /// Chooses the pens of its curves from those of a report.
    pub(crate) fn pens(&self, pens: &Pens) -> Vec<Pen> {
        pens.of_curves(&self.names().collect::<Vec<_>>())
    }

    /// The width of its legend on the right. A single curve has no legend, and a narrow plot has it above.
    fn legend(&self, look: &Look) -> f64 {
        let u = look.unit();
        match self.curves.len() {
            0 | 1 => 32.0 * u,
            _ if !look.is_wide() => 16.0 * u,
            _ => self.names().map(|name| 52.0 * u + room(name, look.size)).fold(80.0 * u, f64::max).min(340.0 * u),
        }
    }

    /// Draws the plot over the ranges of `x` and `y`, with a legend of width `right`.
    fn drawn(&self, x: &Ruler, y: &Ruler, (right, look): (f64, &Look), pens: &[Pen]) -> Drawing {
        let (u, size, width) = (look.unit(), look.size, look.width);
        let wide = look.is_wide();
        let heading = look.heading(&self.title);
        // The last label of the horizontal axis, which is in the middle below its tick.
        let last = x.ticks.last().map_or(0.0, |(_, label)| room(label, size) / 2.0 + 2.0 * u);
        let right = right.max(last);
        let left = match wide {
            true => 80.0 * u,
            false => y.ticks.iter().map(|(_, label)| room(label, size)).fold(0.0, f64::max) + 14.0 * u,
        };
        let above = self.names().filter(|_| !wide && self.curves.len() > 1);
        let legend = Legend::new(above, width - 12.0 * u, size, u);
        let legend_height = legend.rows as f64 * (size + 7.0 * u);
        let top = 34.0 * u + heading.map_or(0.0, |_| 22.0 * u) + legend_height;
        let small = look.type_of(SMALL);
        let (note, left_out) = look.note(self.whole_note().unwrap_or_default(), small, width);
        let note_height = note.len() as f64 * small * 1.3;
        let usual = if wide { width * 480.0 / 900.0 } else { width * 0.62 + legend_height };
        let rows = if wide { top + 20.0 * u + 20.0 * u * self.curves.len() as f64 } else { 0.0 };
        let height = look.height.unwrap_or_else(|| usual.max(rows) + note_height);
        let bottom = (height - 55.0 * u - note_height).max(top + 20.0 * u);
        let frame = Frame { left, top, right: width - right, bottom, unit: u };
        let mut drawing =
            Drawing { width, height, title: self.title.clone(), finish: look.finish(), ..Drawing::default() };
        (drawing.curves, drawing.left_out) = (self.curves.len(), left_out);
        let begin = if wide { left } else { 6.0 * u };
        if let Some(heading) = heading {
            let heading = fitted(heading, size, width - begin - 12.0 * u);
            drawing.text((begin, 22.0 * u), Anchor::Start, size, Ink::Text, heading);
        }
        let below = ((left + width - right) / 2.0, bottom + 43.0 * u);
        drawing.title_of_axis(below, Anchor::Middle, size, &x.title);
        drawing.title_of_axis((if wide { 12.0 } else { 6.0 } * u, top - 12.0 * u), Anchor::Start, size, &y.title);
        drawing.note(&note, (12.0 * u, bottom + 43.0 * u), small);
        frame.grid(&mut drawing, (x, y), size, (Some(if wide { 30.0 * u } else { left - 2.0 * u }), true));
        frame.curves(&mut drawing, self, (x, y), pens, 2.0 * u);
        if legend.rows > 0 {
            let base = top - 34.0 * u - legend_height + size + 2.0 * u;
            legend.draw(&mut drawing, (6.0 * u, base), (size, u), |n| self.style_of(n), pens);
        } else if self.curves.len() > 1 {
            let legend = width - right + 12.0 * u;
            let names = fitted_apart(self.curves.iter().map(|curve| curve.name.as_str()), size, right - 50.0 * u);
            for (n, name) in names.into_iter().enumerate() {
                let (at, pen) = (top + (10.0 + 20.0 * n as f64) * u, pens.get(n).copied().unwrap_or_default());
                drawing.text((legend + 34.0 * u, at + 4.0 * u), Anchor::Start, size, Ink::Text, name);
                sample(&mut drawing, self.style_of(n), pen, (legend, at), u);
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
            note: None,
            curves: vec![Curve::new("one", [(0.0, 0.0), (10.0, most)])],
        };
        let both = [plot("first", 1.0), plot("second", 1e7)].map(|plot| (plot, vec![Pen::default()]));
        let drawing = stacked(&both, &Look::page()).unwrap_or_default();
        assert_eq!((drawing.width, drawing.height), (900.0, 960.0));
        let svg = drawing.svg();
        assert!(svg.contains(">rate, Mbit/s<"), "{svg}");
        assert_eq!(svg.matches(">8<").count(), 4, "on each axis of both, which reach to the greatest value: {svg}");
        // The second plot is below the first, so its upper edge is at 480 + 56.
        assert!(svg.contains("L868.0,536.0"), "{svg}");
        assert_eq!(stacked(&[], &Look::page()), None);
        // On paper, too, where one alone has no title, each says which it is.
        let said = |plots: &[(Plot, Vec<Pen>)]| stacked(plots, &Look::column()).unwrap_or_default().svg();
        assert!(said(&both).contains(">first</text>") && said(&both).contains(">second</text>"));
        assert!(!said(&both[..1]).contains(">first</text>"));
    }

    #[test]
    fn a_plot_has_its_curves_its_decades_and_no_markup_of_others() {
        let plot = Plot {
            title: "a < b & c".into(),
            x: Axis::log("time", "s"),
            y: Axis::log("share", "1"),
            style: Style::Lines,
            note: None,
            curves: vec![Curve::new("one", [(0.02, 1.0), (3.0, 0.1), (5.0, 0.0)]), Curve::new("two", [])],
        };
        let svg = plot.svg();
        assert!(svg.contains("a &lt; b &amp; c") && svg.contains(">time, s (logarithmic)<"));
        // Values from 0.02 to 3 need a range from 0.02 to 5, those from 0.1 to 1 one decade. The point at zero is
        // omitted.
        for label in [">0.1<", ">1<"] {
            assert!(svg.contains(label), "{label}");
        }
        // 3 is at log10(150) / log10(250) = 0.9075 of the 900 - 80 - 80 = 740 pixels from 80: 751.5; a share of 1 is at the top.
        assert!(svg.contains("M80.0,56.0L751.5,"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn a_linear_axis_has_round_ticks_and_begins_at_zero_upwards() {
        let plot = Plot {
            title: "t".into(),
            x: Axis::new("time", "s"),
            y: Axis::new("rate", "kbit/s"),
            style: Style::Marks,
            note: None,
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
        let plot = Plot { title: String::new(), x: axis(), y: axis(), style: Style::Cdf, note: None, curves: vec![] };
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
            note: None,
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
    fn a_complement_ends_where_nothing_is_left() {
        let curves = vec![Curve::new("median", [(1.0, 0.9), (2.0, 1.0), (9.0, 1.0)])];
        let axis = || Axis::new("x", "");
        let plot = Plot { title: String::new(), x: axis(), y: axis(), style: Style::Cdf, note: None, curves };
        let (plot, frame) = (plot.complementary(), Frame { left: 0.0, top: 0.0, right: 9.0, bottom: 1.0, unit: 1.0 });
        let (x, y) = Ruler::pair(std::iter::once(&plot), &plot);
        let lines = frame.lines(&plot.curves[0], &plot, (&x, &y));
        // The line ends at the least share that was measured, and does not go down from there.
        assert_eq!(lines[0].last(), Some(&(frame.x(&x, 2.0), frame.y(&y, 0.1))));
    }

    /// More than a quarter of the runs has nothing above 2, and half of them nothing above 3: the band goes on where others have.
    #[test]
    fn the_band_of_a_complement_reaches_the_axis_and_goes_on_without_the_median() {
        let mut curve = Curve::new("median", [(1.0, 0.9), (2.0, 0.99), (3.0, 1.0), (9.0, 1.0)]);
        curve.band = vec![(1.0, 0.8, 0.95), (2.0, 0.9, 1.0), (3.0, 0.95, 1.0), (9.0, 1.0, 1.0)];
        let axis = || Axis::new("x", "");
        let plot =
            Plot { title: String::new(), x: axis(), y: axis(), style: Style::Cdf, note: None, curves: vec![curve] };
        let (plot, frame) = (plot.complementary(), Frame { left: 0.0, top: 0.0, right: 9.0, bottom: 1.0, unit: 1.0 });
        let (x, y) = Ruler::pair(std::iter::once(&plot), &plot);
        let mut drawing = Drawing::default();
        frame.band(&mut drawing, &plot.curves[0], &plot, (&x, &y), Pen::default());
        let [Shape::Area { outline, .. }] = &drawing.shapes[..] else { panic!("{:?}", drawing.shapes) };
        let near = |a: (f64, f64), b: (f64, f64)| (a.0 - b.0).abs() < 1e-9 && (a.1 - b.1).abs() < 1e-9;
        for corner in [(frame.x(&x, 9.0), frame.y(&y, 0.05)), (frame.x(&x, 9.0), 1.0), (frame.x(&x, 2.0), 1.0)] {
            assert!(outline.iter().any(|point| near(*point, corner)), "{corner:?}: {outline:?}");
        }
    }

    #[test]
    fn bands_are_behind_their_curves_and_have_their_gaps() {
        let mut curve = Curve::new("one", [(0.0, 5.0), (1.0, 6.0), (2.0, 5.0), (3.0, 5.0)]);
        curve.band =
            vec![(0.0, 4.0, 6.0), (1.0, 5.0, 20.0), (1.5, f64::NAN, f64::NAN), (2.0, 5.0, 5.0), (3.0, 5.0, 6.0)];
        let axis = || Axis::new("x", "");
        let plot =
            Plot { title: String::new(), x: axis(), y: axis(), style: Style::Lines, note: None, curves: vec![curve] };
        let drawing = plot.drawing(&[Pen::default()], &Look::page());
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
            note: None,
            curves: vec![Curve::new("web", [(0.0, 0.0), (10.0, most)]), Curve::new("bulk", [(0.0, 1.0), (10.0, 1.0)])],
        };
        let panels = (0..5).map(|n| (format!("variant {n}"), plot(f64::from(n) * 1e6))).collect();
        let panels = Panels { title: "Rates".into(), panels };
        let drawing = panels.drawing(&Pens::named(panels.names().into_iter()), &Look::page()).unwrap_or_default();
        let svg = drawing.svg();
        // There are two rows. The first column has labels of the vertical axis, and the lowest panel of each of the
        // three columns has those of the horizontal axis.
        assert_eq!((svg.matches(">4<").count(), svg.matches(">10<").count()), (2 + 3, 3), "{svg}");
        assert_eq!((svg.matches(">web<").count(), svg.matches(">variant 3<").count()), (1, 1));
        assert_eq!(drawing.misplaced(), Vec::<String>::new());
        assert_eq!(Panels::default().drawing(&Pens::default(), &Look::page()), None);
    }

    #[test]
    fn long_names_lose_their_middle() {
        let name = "flow tcp [2001:db8:1111:2222:3333:4444:5555:6666]:40000 > [2001:db8::1]:443";
        let axis = || Axis::new("x", "");
        let curves = vec![Curve::new(name, [(0.0, 1.0)]), Curve::new("two", [(0.0, 1.0)])];
        let plot = Plot { title: name.repeat(3), x: axis(), y: axis(), style: Style::Lines, note: None, curves };
        assert_eq!(plot.drawing(&[Pen::default(); 2], &Look::page()).misplaced(), Vec::<String>::new());
    }
}

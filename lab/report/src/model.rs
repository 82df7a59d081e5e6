//! The content of a report, independent of its format: sections of text, tables and plots, and the input files.

use tidegate_display::Table;

use crate::comparison::Comparison;

/// A report.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// The title of the page.
    pub title: String,
    /// One sentence under the title.
    pub sentence: Option<String>,
    /// The identification of the run: version, seed, digest, interface. Names and values, in display order.
    pub facts: Vec<(String, String)>,
    /// The sections.
    pub sections: Vec<Section>,
    /// The text of configurations and scenarios, complete: the input to repeat the run.
    pub sources: Vec<Source>,
}

/// An input file of the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A part of a report under a heading.
#[derive(Clone, PartialEq, Debug)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// One or two sentences that explain the section.
    pub note: Option<String>,
    /// Whether the section is open initially.
    pub fold: Fold,
    /// Tables and plots.
    pub parts: Vec<Part>,
}

/// Whether a section can be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fold {
    /// Always open.
    #[default]
    Open,
    /// Closed until the reader opens it.
    Closed,
}

impl Section {
    /// An empty section.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), note: None, fold: Fold::Open, parts: Vec::new() }
    }
    /// Sets the note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
    /// Adds a part.
    #[must_use]
    pub fn with(mut self, part: impl Into<Part>) -> Self {
        self.parts.push(part.into());
        self
    }
}

/// A part of a section.
#[derive(Clone, PartialEq, Debug)]
pub enum Part {
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
    /// A plot.
    Plot(Plot),
    /// Small multiples.
    Panels(Panels),
    /// A comparison.
    Comparison(Comparison),
}

impl From<Comparison> for Part {
    fn from(comparison: Comparison) -> Self {
        Self::Comparison(comparison)
    }
}

impl From<Table> for Part {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}

impl From<Plot> for Part {
    fn from(plot: Plot) -> Self {
        Self::Plot(plot)
    }
}

impl From<Panels> for Part {
    fn from(panels: Panels) -> Self {
        Self::Panels(panels)
    }
}

/// Small multiples: plots of the same quantities beside each other, over the same ranges.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Panels {
    /// A one-line title for all panels.
    pub title: String,
    /// The name of each, and its plot.
    pub panels: Vec<(String, Plot)>,
}

impl Panels {
    /// Their plots.
    pub fn plots(&self) -> impl Iterator<Item = &Plot> + Clone {
        self.panels.iter().map(|(_, plot)| plot)
    }
}

/// A plot: for the page ([`Report::html`](crate::Report::html)) and for a paper ([`Plot::svg`](crate::Plot::svg)).
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    /// The title, in one line.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// How points are drawn.
    pub style: Style,
    /// The curves.
    pub curves: Vec<Curve>,
}

impl Plot {
    /// Inserts a gap into a curve where neighbouring points are far apart: more than a fiftieth of the plot's range,
    /// and more than three times the usual distance of its points. For measurements that exist only when something
    /// happens, for example the wait of packets. Points must increase in x.
    #[must_use]
    pub fn with_gaps(mut self) -> Self {
        let ends = self.curves.iter().flat_map(|curve| [curve.points.first(), curve.points.last()]).flatten();
        let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), end| (l.min(end.0), h.max(end.0)));
        for curve in &mut self.curves {
            let mut steps: Vec<f64> = curve.points.windows(2).map(|two| two[1].0 - two[0].0).collect();
            let middle = steps.len() / 2;
            let Some(usual) = steps.get_mut(..).filter(|all| !all.is_empty()).map(|all| {
                let (_, median, _) = all.select_nth_unstable_by(middle, f64::total_cmp);
                *median
            }) else {
                continue;
            };
            let long = ((high - low) / 50.0).max(usual * 3.0);
            let mut points = Vec::with_capacity(curve.points.len());
            for &(x, y) in &curve.points {
                if let Some(&(last, _)) = points.last()
                    && x - last > long
                {
                    let gap = last + (x - last) / 2.0;
                    points.push((gap, f64::NAN));
                    let at = curve.band.partition_point(|place| place.0 < gap);
                    if (1..curve.band.len()).contains(&at) {
                        curve.band.insert(at, (gap, f64::NAN, f64::NAN));
                    }
                }
                points.push((x, y));
            }
            curve.points = points;
        }
        self
    }
}

/// An axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// The quantity.
    pub title: String,
    /// The unit: `s`, `bit/s`, `B`, `packets`, `1` for a share, or any other text.
    pub unit: String,
    /// The scale.
    pub scale: Scale,
}

impl Axis {
    /// A linear axis.
    pub fn new(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { title: title.into(), unit: unit.into(), scale: Scale::Linear }
    }
    /// A logarithmic axis. Values that are not positive are omitted.
    pub fn log(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { scale: Scale::Log, ..Self::new(title, unit) }
    }
    /// A vertical axis of the shares of a distribution, with as much space for the last percent as for the last tenth.
    pub fn tail(title: impl Into<String>) -> Self {
        Self { scale: Scale::Tail, ..Self::new(title, "1") }
    }
    /// Title, unit, and the scale if it is not linear.
    pub fn label(&self) -> String {
        let scale = match self.scale {
            Scale::Linear => "",
            Scale::Log => " (logarithmic)",
            Scale::Tail => " (logarithmic tail)",
        };
        if self.unit.is_empty() || self.unit == "1" {
            format!("{}{scale}", self.title)
        } else {
            format!("{}, {}{scale}", self.title, self.unit)
        }
    }
}

impl Axis {
    /// Whether the value has a place on it.
    pub(crate) fn has(&self, value: f64) -> bool {
        value.is_finite() && (self.scale != Scale::Log || value > 0.0)
    }
}

/// The scale of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Linear.
    Linear,
    /// Logarithmic.
    Log,
    /// For shares: logarithmic in the distance to 1, so that 90 %, 99 % and 99.9 % are equally far apart.
    Tail,
}

/// How points are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Joined by lines.
    Lines,
    /// Steps: a value is valid until the next.
    Steps,
    /// Separate marks.
    Marks,
    /// A cumulative distribution: steps from 0 to 1.
    Cdf,
}

/// The band around a curve: x, the lower and the upper end of it there.
pub type Band = Vec<(f64, f64, f64)>;

/// A curve of a plot.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// The points by increasing x; they are sorted if necessary. A point whose y is NaN is a gap: the line ends
    /// before it and restarts after it.
    pub points: Vec<(f64, f64)>,
    /// A band around it, by rising x: x, the lower and the upper end; empty for none. Where an end is NaN it has a gap.
    pub band: Band,
}

impl Curve {
    /// A curve.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect(), band: Vec::new() }
    }
    /// The positions of its gaps, sorted.
    pub(crate) fn gaps(&self) -> Vec<f64> {
        let mut gaps: Vec<f64> = self.points.iter().filter(|point| point.1.is_nan()).map(|point| point.0).collect();
        gaps.sort_by(f64::total_cmp);
        gaps
    }
    /// The points that are on the axes, sorted by x, without gaps.
    pub(crate) fn placed(&self, x: &Axis, y: &Axis) -> Vec<(f64, f64)> {
        let has = |axis: &Axis, value: f64| axis.has(value);
        let mut points: Vec<_> = self.points.iter().copied().filter(|p| has(x, p.0) && has(y, p.1)).collect();
        if !points.is_sorted_by(|a, b| a.0 <= b.0) {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        points
    }
}

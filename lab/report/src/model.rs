//! The content of a report, independent of its format: sections with text, tables and plots, and the input files.

use tidegate_display::Table;

use crate::comparison::Comparison;
use crate::ruler::least_of_bands;
use crate::simulation::together;

/// A report.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// The title of the page.
    pub title: String,
    /// One sentence under the title.
    pub sentence: Option<String>,
    /// Names and values that identify the run, such as version, seed, digest and interface, in display order.
    pub facts: Vec<(String, String)>,
    /// The sections.
    pub sections: Vec<Section>,
    /// The configurations and scenarios, with their complete text, from which the run can be repeated.
    pub sources: Vec<Source>,
    /// The quantities that a scenario names before its first run, each as `MEASURE of SUBJECT`. The first figure shows these.
    pub primary: Vec<String>,
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
    /// Whether the section is folded.
    pub fold: Fold,
    /// The content: text, tables and plots.
    pub parts: Vec<Part>,
}

/// The folding of a section.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fold {
    /// The section is always open.
    #[default]
    Open,
    /// The section is closed until the reader opens it.
    Closed,
}

impl Section {
    /// Creates an empty section.
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
    Plot(Box<Plot>),
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
        Self::Plot(Box::new(plot))
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
    /// The name and the plot of each panel.
    pub panels: Vec<(String, Plot)>,
}

impl Panels {
    /// The plots of the panels.
    pub fn plots(&self) -> impl Iterator<Item = &Plot> + Clone {
        self.panels.iter().map(|(_, plot)| plot)
    }
}

/// A plot, which can be shown on a page ([`Report::html`](crate::Report::html)) and in a paper
/// ([`Plot::svg`](crate::Plot::svg)).
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    /// The title, in one line.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The style of the curves.
    pub style: Style,
    /// Explains the lines of this plot if they are not evident. It is part of the figure, with what the bands of its curves are.
    pub note: Option<String>,
    /// The curves.
    pub curves: Vec<Curve>,
}

impl Plot {
    /// Inserts a gap into a curve where neighbouring points are far apart: more than a fiftieth of the plot's range,
    /// and more than three times the usual distance of its points. This is for measurements that exist only when
    /// something happens, for example the wait of packets. Points must increase in x.
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

impl Plot {
    /// Says in the note of distributions which curves end below one, because the longest durations had not ended.
    pub(crate) fn note_left(&mut self) {
        let left = self.curves.iter().filter(|curve| !curve.left.is_empty());
        let left = together(&left.map(|curve| (curve.name.clone(), curve.left.clone())).collect::<Vec<_>>());
        if !left.is_empty() {
            self.add_note(format!("Not completed, in the mean of a run, and counted as longer: {}.", left.join("; ")));
        }
    }

    /// Adds a sentence to the note, unless it has it.
    fn add_note(&mut self, said: String) {
        if self.note.as_deref().is_some_and(|note| note.contains(&said)) {
            return;
        }
        self.note = Some(self.note.take().map_or_else(|| said.clone(), |note| format!("{note} {said}")));
    }

    /// Leaves gaps where a logarithmic axis has no place for values, and says in the note where these are, which distributions are not there at
    /// all, and that bands end at the axis.
    pub(crate) fn leave_gaps(&mut self) {
        if self.y.scale == Scale::Log && matches!(self.style, Style::Lines | Style::Steps) {
            let positive = self.curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).filter(|y| *y > 0.0);
            let floor = least_of_bands(positive.fold(f64::INFINITY, f64::min));
            let cut = "; those that reach further down end at the axis";
            // What the bands are is said once for all of them.
            let is_cut = self.curves.iter().flat_map(|curve| &curve.band).any(|band| band.1 < floor);
            for curve in self.curves.iter_mut().filter(|curve| is_cut && !curve.band_is.ends_with(cut)) {
                curve.band_is += cut;
            }
            let mut gaps = Vec::new();
            for curve in &mut self.curves {
                let zeros =
                    curve.points.iter_mut().filter(|point| point.1 <= 0.0).map(|point| point.1 = f64::NAN).count();
                if zeros > 0 {
                    gaps.push(format!("{} {zeros}", curve.name).trim_start().to_owned());
                }
            }
            if !gaps.is_empty() {
                self.add_note(format!("Values of 0, which a logarithmic axis has not: {}; gaps.", gaps.join(", ")));
            }
        }
        if self.x.scale == Scale::Log && matches!(self.style, Style::Cdf | Style::Ccdf) {
            let is_zero = |curve: &&Curve| !curve.points.is_empty() && curve.points.iter().all(|point| point.0 <= 0.0);
            let zero: Vec<&str> = self.curves.iter().filter(is_zero).map(|curve| curve.name.as_str()).collect();
            if !zero.is_empty() {
                self.add_note(format!("All values are 0, which a logarithmic axis has not: {}.", zero.join(", ")));
            }
        }
    }

    /// The note of the figure: that of the plot, and what the bands are.
    pub(crate) fn whole_note(&self) -> Option<String> {
        let mut bands: Vec<&str> = Vec::new();
        for curve in self.curves.iter().filter(|curve| !curve.band.is_empty() && !curve.band_is.is_empty()) {
            if !bands.contains(&curve.band_is.as_str()) {
                bands.push(&curve.band_is);
            }
        }
        let bands = (!bands.is_empty()).then(|| format!("Bands: {}.", bands.join("; ")));
        self.note.clone().into_iter().chain(bands).reduce(|note, more| format!("{note} {more}"))
    }

    /// Changes which curves are there, and has the note name no other as not completed.
    pub(crate) fn choose(&mut self, change: impl FnOnce(&mut Vec<Curve>)) {
        let before = self.open_end();
        change(&mut self.curves);
        if let (Some(note), Some(before)) = (&self.note, before) {
            let said = note.replacen(&before, &self.open_end().unwrap_or_default(), 1).trim().to_owned();
            self.note = Some(said).filter(|note| !note.is_empty());
        }
    }

    pub(crate) fn open_end(&self) -> Option<String> {
        let is_open = |curve: &&Curve| curve.points.last().is_some_and(|point| point.1 < 1.0 - 1e-9);
        let open: Vec<&str> = self.curves.iter().filter(is_open).map(|curve| curve.name.as_str()).collect();
        (self.style == Style::Cdf && !open.is_empty())
            .then(|| format!("Not completed, and longer than the curve: the rest of {}.", open.join(", ")))
    }
}

/// An axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// The quantity.
    pub title: String,
    /// The unit, such as `s`, `bit/s`, `B`, `packets`, or `1` for a share. Any other text is allowed.
    pub unit: String,
    /// The scale.
    pub scale: Scale,
    /// The ends of the range that were chosen, in the unit of the axis; the others follow from the values.
    pub range: [Option<f64>; 2],
    /// The values that the quantity takes, rising, if they are few, as those of an axis of a sweep: its ticks are there. Empty for ticks
    /// at round numbers.
    pub taken: Vec<f64>,
}

impl Axis {
    /// Creates a linear axis.
    pub fn new(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { title: title.into(), unit: unit.into(), scale: Scale::Linear, range: [None; 2], taken: Vec::new() }
    }
    /// Creates a logarithmic axis. Values that are not positive are omitted.
    pub fn log(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { scale: Scale::Log, ..Self::new(title, unit) }
    }
    /// Creates a vertical axis for the shares of a distribution, on which the steps from 90 % to 99 % and from 99 % to
    /// 99.9 % are equally long.
    pub fn tail(title: impl Into<String>) -> Self {
        Self { scale: Scale::Tail, ..Self::new(title, "1") }
    }
    /// The label: title, unit, and the scale if it is not linear.
    pub fn label(&self) -> String {
        self.titled(&self.unit)
    }
    /// The label with a unit that may be another than the axis's own.
    pub(crate) fn titled(&self, unit: &str) -> String {
        let scale = match self.scale {
            Scale::Linear => "",
            Scale::Log => " (logarithmic)",
            Scale::Tail => " (logarithmic tail)",
        };
        // Whoever gives a title may have written the unit into it.
        let is_said = [format!(", {unit}"), format!("({unit})"), format!("[{unit}]")];
        if unit.is_empty() || unit == "1" || is_said.iter().any(|end| self.title.ends_with(end)) {
            format!("{}{scale}", self.title)
        } else {
            format!("{}, {unit}{scale}", self.title)
        }
    }
}

impl Axis {
    /// Whether the axis can show the value.
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

/// The style in which points are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Points joined by lines.
    Lines,
    /// Steps, in which a value is valid until the next.
    Steps,
    /// Separate marks.
    Marks,
    /// A cumulative distribution, drawn as steps from 0 to 1.
    Cdf,
    /// The complement of a cumulative distribution, drawn as steps from 1 downwards.
    Ccdf,
}

impl Style {
    /// Continues a line to a point, straight or with a step.
    pub(crate) fn join(self, line: &mut Vec<(f64, f64)>, point: (f64, f64)) {
        if let (Self::Steps | Self::Cdf | Self::Ccdf, Some(&(_, before))) = (self, line.last()) {
            line.push((point.0, before));
        }
        line.push(point);
    }
}

/// A band around a curve: each x with the lower and the upper end of the band there.
pub type Band = Vec<(f64, f64, f64)>;

/// A curve of a plot.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Curve {
    /// The name in the legend.
    pub name: String,
    /// The points, which are sorted by x if necessary. A point whose y is NaN is a gap: the line ends before it and
    /// restarts after it.
    pub points: Vec<(f64, f64)>,
    /// The band around the curve, by increasing x; empty if there is none. An entry with an end that is NaN is a gap.
    pub band: Band,
    /// The meaning of the band, such as `quartiles of the runs`. The note of the figure says it.
    pub band_is: String,
    /// Whether its points are marks, and not joined, whatever the style of the plot: values from elsewhere.
    pub is_apart: bool,
    /// The mean of its points, if they are runs: a larger mark.
    pub centre: Option<(f64, f64)>,
    /// The outline of the spread of its points, an area behind them; empty for none.
    pub outline: Vec<(f64, f64)>,
    /// How much of what its distribution is of was not completed in the mean of a run, such as `0.25 of 32 transfers`; empty if all was.
    pub left: String,
}

impl Curve {
    /// Creates a curve.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect(), ..Self::default() }
    }
    /// The x values of its gaps, sorted.
    pub(crate) fn gaps(&self) -> Vec<f64> {
        let mut gaps: Vec<f64> = self.points.iter().filter(|point| point.1.is_nan()).map(|point| point.0).collect();
        gaps.sort_by(f64::total_cmp);
        gaps
    }
    /// The points that the axes can show, sorted by x, without gaps.
    pub(crate) fn placed(&self, x: &Axis, y: &Axis) -> Vec<(f64, f64)> {
        let has = |axis: &Axis, value: f64| axis.has(value);
        let mut points: Vec<_> = self.points.iter().copied().filter(|p| has(x, p.0) && has(y, p.1)).collect();
        if !points.is_sorted_by(|a, b| a.0 <= b.0) {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        points
    }
}

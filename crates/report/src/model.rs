//! What a report says, apart from how it looks: sections of text, tables and plots, and the files that made it.

/// A whole report.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// What the page is called.
    pub title: String,
    /// One sentence under the title.
    pub sentence: Option<String>,
    /// What identifies the run: version, seed, digest, interface. Name and value, in the order in which they stand.
    pub facts: Vec<(String, String)>,
    /// The body.
    pub sections: Vec<Section>,
    /// The text of configurations and scenarios, whole: what is needed to run it again.
    pub sources: Vec<Source>,
}

/// A file that made the run.
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
    /// What a reader must know to read it, in a sentence or two.
    pub note: Option<String>,
    /// Whether it is open when the page is.
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
    /// With a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
    /// With a part more.
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

/// A table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each with as many cells as there are columns. The first cell names its row.
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// On which side its cells stand.
    pub align: Align,
}

/// On which side the cells of a column stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A cell of a table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// Whether that is good. It is never said by colour alone: the text says it too.
    pub mood: Mood,
}

/// What a cell means to the reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mood {
    /// Nothing beyond its text.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Not as it should be.
    Bad,
    /// Not known, or worth a look.
    Unsure,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), mood: Mood::Plain }
    }
}

impl Table {
    /// An empty table. A name that begins with `>` is of a column of numbers.
    pub fn new<'a>(caption: impl Into<String>, columns: impl IntoIterator<Item = &'a str>) -> Self {
        let column = |name: &str| match name.strip_prefix('>') {
            Some(name) => Column { name: name.to_owned(), align: Align::Right },
            None => Column { name: name.to_owned(), align: Align::Left },
        };
        Self { caption: caption.into(), columns: columns.into_iter().map(column).collect(), rows: Vec::new() }
    }
    /// Adds a row; cells that are missing are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().take(self.columns.len()).collect();
        row.resize(self.columns.len(), Cell::default());
        self.rows.push(row);
    }
}

/// A plot: for the page ([`Report::html`](crate::Report::html)) and for a paper ([`Plot::svg`](crate::Plot::svg)).
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    /// What it shows, in one line.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// How points become marks on paper.
    pub style: Style,
    /// The curves.
    pub curves: Vec<Curve>,
}

impl Plot {
    /// The plot with a gap in a curve wherever it has no point for long: for more than a fiftieth of all that the plot
    /// shows, and than three times what usually lies between two of its points. For what is not there when nothing
    /// happens, as the wait of packets: a line there would say what nobody measured. Points must rise in x.
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
                    points.push((last + (x - last) / 2.0, f64::NAN));
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
    /// What runs along it.
    pub title: String,
    /// In which unit: `s`, `bit/s`, `B`, `packets`, `1` for a share, or any other word.
    pub unit: String,
    /// How values become places.
    pub scale: Scale,
}

impl Axis {
    /// A linear axis.
    pub fn new(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { title: title.into(), unit: unit.into(), scale: Scale::Linear }
    }
    /// A logarithmic axis, on which values that are not positive have no place and are left out.
    pub fn log(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { scale: Scale::Log, ..Self::new(title, unit) }
    }
    /// Title and unit.
    pub fn label(&self) -> String {
        if self.unit.is_empty() || self.unit == "1" {
            self.title.clone()
        } else {
            format!("{}, {}", self.title, self.unit)
        }
    }
}

/// How values become places on an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// In proportion.
    Linear,
    /// By powers of ten.
    Log,
}

/// How points are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Joined by lines.
    Lines,
    /// A value holds until the next.
    Steps,
    /// Each a mark of its own.
    Marks,
    /// A cumulative distribution: steps from 0 to 1.
    Cdf,
}

/// A curve of a plot.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Its points, by rising x. Where they are not, they are sorted. One whose y is NaN is a gap: the line ends in
    /// front of it and begins anew behind it.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// A curve.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect() }
    }
    /// Where its gaps are, sorted.
    pub(crate) fn gaps(&self) -> Vec<f64> {
        let mut gaps: Vec<f64> = self.points.iter().filter(|point| point.1.is_nan()).map(|point| point.0).collect();
        gaps.sort_by(f64::total_cmp);
        gaps
    }
    /// The points that have a place on the axes, sorted by x; gaps have none.
    pub(crate) fn placed(&self, x: &Axis, y: &Axis) -> Vec<(f64, f64)> {
        let has = |axis: &Axis, value: f64| value.is_finite() && (axis.scale == Scale::Linear || value > 0.0);
        let mut points: Vec<_> = self.points.iter().copied().filter(|p| has(x, p.0) && has(y, p.1)).collect();
        if !points.is_sorted_by(|a, b| a.0 <= b.0) {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        points
    }
}

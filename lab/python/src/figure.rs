//! [`Figure`]: a drawing of a report, which notebooks display and files keep.

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use tidegate_report::{Chart, ChartKind, Drawing, Format, Look, Report};

use crate::failure;
use crate::table::Table;

/// A figure, which notebooks display. It is complete in itself and refers to nothing outside.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Figure {
    drawing: Drawing,
}

/// The keyword arguments of functions that draw.
pub struct Options<'a> {
    pub look: &'a str,
    pub width: Option<f64>,
    pub height: Option<f64>,
    pub type_size: Option<f64>,
    pub heading: Option<&'a str>,
    pub subjects: Option<Vec<String>>,
    pub rows: Option<Vec<String>>,
    pub measures: Option<Vec<String>>,
    pub compare: Option<Vec<String>>,
    pub form: Option<&'a str>,
    pub from: Option<&'a str>,
    pub to: Option<&'a str>,
    pub grey: bool,
    pub log: bool,
    pub overlay: bool,
    pub bands: bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            look: "page",
            width: None,
            height: None,
            type_size: None,
            heading: None,
            subjects: None,
            rows: None,
            measures: None,
            compare: None,
            form: None,
            from: None,
            to: None,
            grey: false,
            log: false,
            overlay: false,
            bands: true,
        }
    }
}

impl Options<'_> {
    /// The look that they describe.
    pub fn look(self) -> PyResult<Look> {
        let mut look = Look::preset(self.look).map_err(PyValueError::new_err)?;
        let numbers = [("type", self.type_size), ("width", self.width), ("height", self.height)];
        let numbers = numbers.into_iter().filter_map(|(key, value)| Some((key, value?.to_string())));
        let heading = self.heading.map(|text| ("title", text.to_owned()));
        let form = self.form.map(|form| ("form", form.to_owned()));
        let subjects = self.subjects.into_iter().flatten().map(|subject| ("subject", subject));
        let rows = self.rows.into_iter().flatten().map(|row| ("row", row));
        let measures = self.measures.into_iter().flatten().map(|measure| ("measure", measure));
        let compare = self.compare.into_iter().flatten().map(|quantity| ("compare", quantity));
        let range = [("from", self.from), ("to", self.to)];
        let range = range.into_iter().filter_map(|(key, end)| Some((key, end?.to_owned())));
        let parts = subjects.chain(rows).chain(measures).chain(compare);
        for (key, value) in numbers.chain(heading).chain(form).chain(range).chain(parts) {
            look.set(key, &value).map_err(PyValueError::new_err)?;
        }
        look.grey = self.grey;
        look.overlay = self.overlay;
        look.bands = self.bands;
        look.log = self.log;
        Ok(look)
    }
}

impl Figure {
    /// Draws a part of a report.
    pub fn new(report: Report, title: Option<&str>, curve: &str, look: &Look) -> Result<Self, String> {
        let drawing = match title {
            Some(title) => report.drawing(title, curve, look),
            None => report.first_figure(look),
        };
        drawing.map(|drawing| Self { drawing })
    }
}

#[pymethods]
impl Figure {
    /// The figure as SVG.
    #[getter]
    fn svg(&self) -> String {
        self.drawing.svg()
    }
    /// Writes the figure to a file in the format of its name: `.svg`, `.pdf` (with its font), `.png` (300 pixels to the inch on
    /// paper), `.pgf` or `.tikz` (for LaTeX, in the font of the document).
    fn save(&self, py: Python<'_>, path: std::path::PathBuf) -> PyResult<()> {
        let format = Format::of(&path).map_err(PyValueError::new_err)?;
        failure::guarded(py, || {
            let bytes = self.drawing.bytes(format).map_err(PyValueError::new_err)?;
            std::fs::write(&path, bytes).map_err(|error| PyOSError::new_err(format!("{}: {error}", path.display())))
        })
    }
    fn _repr_svg_(&self) -> String {
        self.drawing.svg()
    }
    fn _repr_html_(&self) -> String {
        self.drawing.svg()
    }
}

/// A figure of a table; `tidegate.figure` has the documentation.
#[pyfunction]
#[pyo3(signature = (table, kind, x, y, value, by, only, over, log, log_x, times, titles, look, width, height, type_size, heading, rows, form, grey, bands))]
#[expect(clippy::too_many_arguments, reason = "they are the arguments of a function in Python")]
pub fn draw_table(
    py: Python<'_>,
    table: &Table,
    kind: &str,
    x: String,
    y: String,
    value: String,
    by: Vec<String>,
    only: Vec<(String, String)>,
    over: Vec<(String, String)>,
    log: bool,
    log_x: bool,
    times: Option<f64>,
    titles: [String; 2],
    look: &str,
    width: Option<f64>,
    height: Option<f64>,
    type_size: Option<f64>,
    heading: Option<&str>,
    rows: Option<Vec<String>>,
    form: Option<&str>,
    grey: bool,
    bands: bool,
) -> PyResult<Figure> {
    let sizes = Options { look, width, height, type_size, heading, ..Options::default() };
    let look = Options { rows, form, grey, bands, ..sizes }.look()?;
    let kind = ChartKind::named(kind).map_err(PyValueError::new_err)?;
    let chart = Chart { kind, x, y, value, by, only, over, log, log_x, times, labels: titles, ..Chart::default() };
    let columns = table.columns();
    failure::guarded(py, || {
        chart.drawing(columns, &look).map(|drawing| Figure { drawing }).map_err(PyValueError::new_err)
    })
}

//! [`Results`]: the results of a simulation as tables, figures and a report page.

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use tidegate_metrics::Digest;
use tidegate_report::comparison::Comparison;
use tidegate_report::judgement::difference_columns;
use tidegate_report::simulation::{Quantity, Run, Simulation, differences};
use tidegate_report::{Look, Report, Source, escape};
use tidegate_sim::scenario::Outcome;

use crate::failure;
use crate::figure::{Figure, Options};
use crate::scenario::Checked;
use crate::table::Table;

/// The results of all runs of a scenario.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Results {
    scenario: Checked,
    outcomes: Vec<Outcome>,
    /// Whether the flows and classes of watched links were measured over time.
    parts: bool,
    digest: Digest,
}

/// Converts an outcome to a run of a report.
pub fn shown(outcome: &Outcome) -> Run<'_> {
    let Outcome { seed, values, curves, events, digest, .. } = outcome;
    Run { seed: *seed, events: *events, digest: digest.to_string(), values, curves }
}

impl Results {
    pub fn new(scenario: Checked, outcomes: Vec<Outcome>, parts: bool) -> Self {
        let mut digest = Digest::default();
        outcomes.iter().for_each(|outcome| digest.digest(outcome.digest));
        Self { scenario, outcomes, parts, digest }
    }

    /// The part of the comparison that the options choose, in the form that `print` gives it.
    fn printed(
        &self,
        py: Python<'_>,
        options: Options<'_>,
        print: fn(&Comparison, &Look) -> String,
    ) -> PyResult<String> {
        let look = options.look()?;
        failure::guarded(py, || {
            let (chosen, _) = self.stated(&look)?;
            Ok(print(&chosen, &look))
        })
    }

    /// The differences that are stated together, and whether a look has chosen them.
    fn stated(&self, look: &Look) -> PyResult<(Comparison, bool)> {
        look.stated(&self.shown().comparison(), &self.scenario.scenario.primary).map_err(PyValueError::new_err)
    }

    /// The differences of all quantities. Those that a look chooses, or the scenario names as primary, are corrected for these.
    fn differences_by(&self, look: &Look) -> PyResult<Table> {
        let (stated, _) = self.stated(look)?;
        Table::new(difference_columns(&differences(&self.shown().quantities(), &stated)))
    }

    fn shown(&self) -> Simulation<'_> {
        Simulation {
            scenario: self.scenario.source.name(),
            sentence: self.scenario.scenario.sentence.as_deref(),
            version: env!("CARGO_PKG_VERSION"),
            duration_ns: self.scenario.scenario.duration.as_nanos(),
            warm_up_ns: self.scenario.scenario.warm_up().as_nanos(),
            smooth: self.scenario.scenario.has_usual_bin,
            digest: self.digest.to_string(),
            notes: self.scenario.scenario.notes(self.outcomes.iter().map(|outcome| outcome.seed)),
            runs: self.outcomes.iter().map(shown).collect(),
        }
    }

    fn page(&self) -> Report {
        let source = &self.scenario.source;
        let page = self.shown().page(Source { name: source.name().to_owned(), text: source.text().to_owned() });
        Report { primary: self.scenario.scenario.primary.clone(), ..page }
    }
}

#[pymethods]
impl Results {
    /// The digest of all runs, 32 hexadecimal digits: equal for the same scenario and seeds on every machine, and that of
    /// `tidegate simulate --hash`.
    #[getter]
    fn digest(&self) -> String {
        self.digest.to_string()
    }

    /// The seeds of the runs.
    #[getter]
    fn seeds(&self) -> Vec<u64> {
        self.outcomes.iter().map(|outcome| outcome.seed).collect()
    }

    /// The digest of each run.
    #[getter]
    fn digests(&self) -> Vec<String> {
        self.outcomes.iter().map(|outcome| outcome.digest.to_string()).collect()
    }

    /// The number of events that the simulator handled in all runs.
    #[getter]
    fn events(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.events).sum()
    }

    /// The name of the scenario.
    #[getter]
    fn name(&self) -> &str {
        self.scenario.source.name()
    }

    /// One row for each value of each run: `seed` (int64), `variant`, `subject`, `measure` (text), `value` (float64),
    /// `unit` (text: `bps`, `ns`, `packets`, `1`).
    #[getter]
    fn values(&self, py: Python<'_>) -> PyResult<Table> {
        failure::guarded(py, || Table::new(self.shown().values()))
    }

    /// One row for each point of each curve: `seed`, `kind` (`series` or `distribution`), `variant`, `subject`,
    /// `measure`, `part`, `x` (float64), `x_unit` (`time_s`, `value_ns`), `value` (float64), `unit`.
    #[getter]
    fn points(&self, py: Python<'_>) -> PyResult<Table> {
        failure::guarded(py, || Table::new(self.shown().points()))
    }

    /// Values and points together, as `tidegate simulate --table` writes them; its curves of flows and classes are there
    /// after `simulate(..., parts=True)`.
    #[getter]
    fn table(&self, py: Python<'_>) -> PyResult<Table> {
        failure::guarded(py, || Table::new(self.shown().table()))
    }

    /// One row for each pair of variants and each quantity: subject, measure, unit, first, second, their means (mean_first, mean_second),
    /// difference (the first minus the second; of runs that did not reach a percentile with the time counted_as), its 95 % interval
    /// by Student's t (half_width_95) and by the bootstrap, of times the ratio by which they are tested with its interval (ratio,
    /// ratio_low_95, ratio_high_95), and p. p_holm is corrected for all
    /// comparisons that the command and the report state beside each other, and decided says whether it is at most 0.05; both are
    /// missing for other quantities. p_holm_measure is corrected for the comparisons_measure pairs of the measure alone: use it if
    /// you state no other. equal_within_2 says whether two one-sided tests (TOST) find them equal within 2 %, with p_equal_holm
    /// corrected likewise. p_equal is the probability of samples this equal if the means differ by 2 %. Where the seeds do not
    /// change a difference, test is "none" and p is missing. Runs with the same seed are compared as pairs. more_runs is how many more would decide, a guess if
    /// there are fewer than ten. Empty without variants, and with one run.
    #[getter]
    fn differences(&self, py: Python<'_>) -> PyResult<Table> {
        failure::guarded(py, || self.differences_by(&Look::page()))
    }

    /// The differences like `differences`, with p_holm for a paper that states these alone: each of `measures` of each of `subjects`
    /// between `rows`, or the single quantities `compare`, such as `["delay p99 of flow call"]`.
    #[pyo3(signature = (*, subjects=None, rows=None, measures=None, compare=None))]
    fn differences_of(
        &self,
        py: Python<'_>,
        subjects: Option<Vec<String>>,
        rows: Option<Vec<String>>,
        measures: Option<Vec<String>>,
        compare: Option<Vec<String>>,
    ) -> PyResult<Table> {
        let look = Options { subjects, rows, measures, compare, ..Options::default() }.look()?;
        failure::guarded(py, || self.differences_by(&look))
    }

    /// The mean of one value over the runs, in its unit: `value("flow bulk", "goodput")` in bit/s. It is infinite where a run did not
    /// reach a percentile, because too many transfers were not completed.
    ///
    /// Raises `KeyError`, with the names that there are.
    #[pyo3(signature = (subject, measure, variant=""))]
    fn value(&self, subject: &str, measure: &str, variant: &str) -> PyResult<f64> {
        let quantities = self.shown().quantities();
        let named = |quantity: &&Quantity| {
            quantity.plain() == subject && quantity.measure == measure && quantity.variant == variant
        };
        match quantities.iter().find(named) {
            Some(quantity) => Ok(quantity.mean),
            None => {
                // Measures of the subject and the variant come first: one of them has another measure, such as `delay up p99`.
                let is_near = |quantity: &Quantity| quantity.plain() == subject && quantity.variant == variant;
                let name =
                    |found: &Quantity| format!("\n  {:?}, {:?}, {:?}", found.plain(), found.measure, found.variant);
                let (near, far): (Vec<&Quantity>, Vec<_>) = quantities.iter().partition(|found| is_near(found));
                let names: Vec<String> = near.into_iter().chain(far).map(name).collect();
                Err(PyKeyError::new_err(format!("no value of this name; there are{}", names.concat())))
            }
        }
    }

    /// The calls that were made to shapers, and their results: dictionaries with seed, time_ns, variant, link, kind,
    /// refused and result.
    #[getter]
    fn reports<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.getattr("loads")?.call1((self._reports(),))
    }

    /// The reports as JSON.
    fn _reports(&self) -> String {
        let reports = self.outcomes.iter().flat_map(|outcome| {
            outcome.reports.iter().map(|report| {
                serde_json::json!({
                    "seed": outcome.seed,
                    "time_ns": report.time.as_nanos(),
                    "variant": report.variant,
                    "link": report.link,
                    "kind": report.kind,
                    "refused": report.refused,
                    "result": report.result,
                })
            })
        });
        serde_json::Value::from_iter(reports).to_string()
    }

    /// The titles of the plots.
    #[getter]
    fn titles(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        failure::guarded(py, || Ok(self.page().plots().map(|plot| plot.title.clone()).collect()))
    }

    /// The plot with this title, or those whose title contains it, one below the other over the same ranges; a subject of the
    /// comparison, such as `flow call`; or without a title the comparison of the variants. With `curve` it has only the curves,
    /// or measures, whose name contains that text.
    ///
    /// `look` is `"page"` (900 points wide), `"column"` (252 points) or `"text"` (516), the last two with type of 8 points and no
    /// title, for papers. The other options change it: `width`, `height` and `type_size` in points; `heading`, the text above
    /// (empty for none); `subjects`, `rows` and `measures`, what is drawn, in this order; `form`, `"bars"`, `"box"`, `"violin"` or `"strip"` for
    /// comparisons and `"ecdf"` or `"ccdf"` for distributions; `grey` for print without colours; `log` for a logarithmic axis of values.
    /// `compare` has single quantities instead of `subjects` and `measures`, such as `["delay p99 of flow call"]`; `from_` and `to` are the
    /// ends of the horizontal axis of a plot, such as `"20ms"`; `overlay` draws the plots that the title means in one, and without
    /// `bands` curves have no bands around them.
    ///
    /// Raises `ValueError`, with the titles that there are, or what is wrong with an option.
    #[pyo3(signature = (title=None, curve="", *, look="page", width=None, height=None, type_size=None, heading=None, subjects=None, rows=None, measures=None, compare=None, form=None, from_=None, to=None, grey=false, log=false, overlay=false, bands=true))]
    #[expect(clippy::too_many_arguments, reason = "they are the keyword arguments of a function in Python")]
    fn figure(
        &self,
        py: Python<'_>,
        title: Option<&str>,
        curve: &str,
        look: &str,
        width: Option<f64>,
        height: Option<f64>,
        type_size: Option<f64>,
        heading: Option<&str>,
        subjects: Option<Vec<String>>,
        rows: Option<Vec<String>>,
        measures: Option<Vec<String>>,
        compare: Option<Vec<String>>,
        form: Option<&str>,
        from_: Option<&str>,
        to: Option<&str>,
        grey: bool,
        log: bool,
        overlay: bool,
        bands: bool,
    ) -> PyResult<Figure> {
        let sizes = Options { look, width, height, type_size, heading, form, ..Options::default() };
        let parts = Options { subjects, rows, measures, compare, ..sizes };
        let look = Options { from: from_, to, grey, log, overlay, bands, ..parts }.look()?;
        failure::guarded(py, || match Figure::new(self.page(), title, curve, &look) {
            Ok(figure) => Ok(figure),
            Err(text) if self.parts || title.is_none() => Err(PyValueError::new_err(text)),
            Err(text) => {
                let way = "those of the flows and classes of a link are there after simulate(..., parts=True)";
                Err(PyValueError::new_err(format!("{text}; {way}")))
            }
        })
    }

    /// The comparison of the variants as a table for LaTeX, with the package booktabs, as `tidegate simulate --latex` prints
    /// it. `subjects`, `rows`, `measures` and `compare` choose what it has, in their order; without them it has what the scenario names as
    /// primary. With `look` `"column"` or `"text"`, or a `width` of these, no table is wider, and has type of 8 points.
    #[pyo3(signature = (*, look="page", width=None, subjects=None, rows=None, measures=None, compare=None))]
    #[expect(clippy::too_many_arguments, reason = "they are the keyword arguments of a function in Python")]
    fn to_latex(
        &self,
        py: Python<'_>,
        look: &str,
        width: Option<f64>,
        subjects: Option<Vec<String>>,
        rows: Option<Vec<String>>,
        measures: Option<Vec<String>>,
        compare: Option<Vec<String>>,
    ) -> PyResult<String> {
        let options = Options { look, width, subjects, rows, measures, compare, ..Options::default() };
        self.printed(py, options, Comparison::latex)
    }

    /// The comparison of the variants as a table of Markdown; see `to_latex`.
    #[pyo3(signature = (*, subjects=None, rows=None, measures=None, compare=None))]
    fn to_markdown(
        &self,
        py: Python<'_>,
        subjects: Option<Vec<String>>,
        rows: Option<Vec<String>>,
        measures: Option<Vec<String>>,
        compare: Option<Vec<String>>,
    ) -> PyResult<String> {
        let options = Options { subjects, rows, measures, compare, ..Options::default() };
        self.printed(py, options, |comparison, _| comparison.markdown())
    }

    /// The page that `tidegate simulate --report` writes: one HTML document that opens without a network. That of the
    /// command has curves of each flow and class of watched links, which are there after `simulate(..., parts=True)`.
    fn to_html(&self, py: Python<'_>) -> PyResult<String> {
        failure::guarded(py, || Ok(self.page().html()))
    }

    /// The page in a frame, for notebooks.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let page = self.to_html(py)?;
        Ok(format!(
            "<iframe srcdoc=\"{}\" sandbox=\"allow-scripts\" style=\"width:100%;height:640px;border:1px solid #ccc\"></iframe>",
            escape(&page)
        ))
    }

    fn __len__(&self) -> usize {
        self.outcomes.len()
    }

    fn __repr__(&self) -> String {
        let runs = self.outcomes.len();
        let plural = if runs == 1 { "" } else { "s" };
        format!("<tidegate.Results of {}: {runs} run{plural}, digest {}>", self.name(), self.digest)
    }
}

//! Replays captures and recordings through configurations.

use std::fs::File;
use std::io::{BufReader, Read, Sink};
use std::path::{Path, PathBuf};

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use tidegate_config::{Diagnostics, Source as Text, shaper};
use tidegate_core::{Instant, Rate};
use tidegate_replay::decisions;
use tidegate_replay::exact::Verdict;
use tidegate_replay::explain::{self, NotExplained};
use tidegate_replay::files::next_part;
use tidegate_replay::meter::Keep;
use tidegate_replay::recording::Reader;
use tidegate_replay::run::{Outcome, Settings};
use tidegate_replay::session::{self, Again, Hooks, Part};
use tidegate_replay::source::{Choice, Direction, Kind, Notice, Source, SourceError, sniff};
use tidegate_report::columns::{self, Column};
use tidegate_report::curves::sections;
use tidegate_report::{Fold, Report};

use crate::failure;
use crate::figure::{Figure, Options};
use crate::table::Table;
use crate::watch;

/// The results of a replay: those of a recording with its own configuration, and those of all packets with other
/// configurations.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Replay {
    file: String,
    again: Option<Again>,
    packets: u64,
    outcomes: Vec<Outcome>,
    notices: Vec<String>,
}

impl Replay {
    /// All outcomes, beginning with that of the recording's own configuration.
    fn all(&self) -> impl Iterator<Item = &Outcome> {
        self.again.iter().filter_map(|again| again.outcome.as_ref()).chain(&self.outcomes)
    }
    fn page(&self) -> Report {
        let mut curves = Vec::new();
        for outcome in self.all() {
            curves.extend(outcome.curves.iter().map(|curve| tidegate_metrics::Curve {
                subject: curve.subject.clone(),
                variant: outcome.name.clone(),
                ..curve.clone()
            }));
        }
        let sections = sections("", "Each configuration received every packet at its time.", &curves, Fold::Open);
        Report { title: format!("Replay of {}", self.file), sections, ..Report::default() }
    }
}

#[pymethods]
impl Replay {
    /// The number of packets that were replayed.
    #[getter]
    fn packets(&self) -> u64 {
        self.packets
    }
    /// Notices about repairs of the file and parts that were skipped.
    #[getter]
    fn notices(&self) -> Vec<String> {
        self.notices.clone()
    }
    /// Whether a recording's own configuration produced the recorded departures, bit for bit, and the recorded decisions of a rate
    /// that follows the line; `None` for a capture.
    #[getter]
    fn is_exact(&self) -> Option<bool> {
        let again = self.again.as_ref()?;
        let decided = !matches!(again.decisions.verdict(), decisions::Verdict::Different(_));
        Some(again.broken.is_none() && matches!(again.exact.verdict, Verdict::Equal) && decided)
    }
    /// The first difference, if the recording was not reproduced exactly.
    #[getter]
    fn difference(&self) -> Option<String> {
        let again = self.again.as_ref()?;
        match (&again.exact.verdict, again.decisions.verdict()) {
            (Verdict::Different(difference), _) => Some(difference.to_string()),
            (_, decisions::Verdict::Different(difference)) => Some(difference.to_string()),
            _ => None,
        }
    }
    /// The name of each configuration with the digest of its departures.
    #[getter]
    fn digests(&self) -> Vec<(String, String)> {
        self.all().map(|outcome| (outcome.name.clone(), outcome.digest.to_string())).collect()
    }
    /// One row for each configuration: configuration, passed_packets, dropped_packets, unmatched_packets, time_ns, digest.
    #[getter]
    fn configurations(&self) -> PyResult<Table> {
        let text = |of: fn(&Outcome) -> String| Column::Text(self.all().map(|outcome| Some(of(outcome))).collect());
        let number = |of: fn(&Outcome) -> u64| Column::Integer(self.all().map(|outcome| Some(of(outcome))).collect());
        Table::new(
            columns::Table::default()
                .with("configuration", text(|outcome| outcome.name.clone()))
                .with("passed_packets", number(|outcome| outcome.passed))
                .with("dropped_packets", number(|outcome| outcome.refused))
                .with("unmatched_packets", number(|outcome| outcome.unclassified))
                .with("time_ns", number(|outcome| outcome.time.as_nanos()))
                .with("digest", text(|outcome| outcome.digest.to_string())),
        )
    }
    /// One row for each point of each curve: `configuration`, `kind`, `subject`, `measure`, `x`, `x_unit`, `value`,
    /// `unit`.
    #[getter]
    fn points(&self, py: Python<'_>) -> PyResult<Table> {
        failure::guarded(py, || Table::new(points_of(self.all())))
    }
    /// The titles of the plots.
    #[getter]
    fn titles(&self) -> Vec<String> {
        self.page().plots().map(|plot| plot.title.clone()).collect()
    }
    /// The plot with this title, or those whose title contains it; see `Results.figure`.
    #[pyo3(signature = (title, curve="", *, look="page", width=None, height=None, type_size=None, heading=None, rows=None, form=None, from_=None, to=None, grey=false, log=false, overlay=false, bands=true))]
    #[expect(clippy::too_many_arguments, reason = "they are the keyword arguments of a function in Python")]
    fn figure(
        &self,
        title: &str,
        curve: &str,
        look: &str,
        width: Option<f64>,
        height: Option<f64>,
        type_size: Option<f64>,
        heading: Option<&str>,
        rows: Option<Vec<String>>,
        form: Option<&str>,
        from_: Option<&str>,
        to: Option<&str>,
        grey: bool,
        log: bool,
        overlay: bool,
        bands: bool,
    ) -> PyResult<Figure> {
        let sizes = Options { look, width, height, type_size, heading, form, ..Options::default() };
        let look = Options { rows, from: from_, to, grey, log, overlay, bands, ..sizes }.look()?;
        Figure::new(self.page(), Some(title), curve, &look).map_err(PyValueError::new_err)
    }
    fn __repr__(&self) -> String {
        format!("<tidegate.Replay of {}: {} packets>", self.file, self.packets)
    }
}

fn points_of<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> columns::Table {
    let rows: Vec<_> = outcomes
        .flat_map(|outcome| outcome.curves.iter().map(move |curve| (&outcome.name, curve)))
        .flat_map(|(name, curve)| curve.points.iter().map(move |point| (name, curve, *point)))
        .collect();
    let kind = |x: &str| if x == "time_s" { "series" } else { "distribution" };
    columns::Table::default()
        .with("configuration", Column::Text(rows.iter().map(|row| Some(row.0.clone())).collect()))
        .with("kind", Column::Text(rows.iter().map(|row| Some(kind(row.1.x).to_owned())).collect()))
        .with("subject", Column::Text(rows.iter().map(|row| Some(row.1.subject.clone())).collect()))
        .with("measure", Column::Text(rows.iter().map(|row| Some(row.1.measure.to_owned())).collect()))
        .with("x", Column::Number(rows.iter().map(|row| Some(row.2.0)).collect()))
        .with("x_unit", Column::Text(rows.iter().map(|row| Some(row.1.x.to_owned())).collect()))
        .with("value", Column::Number(rows.iter().map(|row| Some(row.2.1)).collect()))
        .with("unit", Column::Text(rows.iter().map(|row| Some(row.1.y.to_owned())).collect()))
}

fn open(path: &Path) -> PyResult<Kind<Box<dyn Read>>> {
    let failed = |error: std::io::Error| PyOSError::new_err(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(failed)?;
    sniff(Box::new(BufReader::with_capacity(256 << 10, file)) as Box<dyn Read>).map_err(failed)
}

/// Replays all packets of a capture or a recording through configurations, each of which is a name and the text of a
/// shaper file. A recording is also replayed through its own configuration.
#[pyfunction]
pub fn run_replay(
    py: Python<'_>,
    path: PathBuf,
    configurations: Vec<(String, String)>,
    link: Option<String>,
    seed: u64,
) -> PyResult<Replay> {
    failure::guarded(py, move || {
        let link = rate(link)?;
        let keep = Keep { series: true, ..Keep::default() };
        let mut parts = Vec::with_capacity(configurations.len());
        for (name, text) in configurations {
            let source = Text::new(name.as_str(), text);
            let mut diagnostics = Diagnostics::new();
            let config =
                shaper::load(&source, &mut diagnostics).ok_or_else(|| failure::config(&source, &diagnostics))?;
            if let Some((at, key)) = config.timed_rule() {
                let text = format!("{name}: rule {} has `{key}`, and a replay has no wall clock; remove it", at + 1);
                return Err(failure::error("TidegateError", text));
            }
            let mut settings = Settings { link, keep, ..Settings::seeded(seed) };
            settings.invent_names(&config);
            parts.push(Part { name, config, settings });
        }
        run(&path, parts, keep)
    })
}

/// Explains, as JSON, what happened to a packet of a capture or a recording, and why. The packet is number `packet`
/// (from 1) or, in a recording, that of record `event` (from 0). A capture needs a configuration, the text of a shaper
/// file.
#[pyfunction]
#[pyo3(signature = (path, packet, event, configuration, link, seed))]
pub fn run_explain(
    py: Python<'_>,
    path: PathBuf,
    packet: Option<u64>,
    event: Option<u64>,
    configuration: Option<String>,
    link: Option<String>,
    seed: u64,
) -> PyResult<String> {
    let wrong = |text: &str| Err(PyValueError::new_err(text.to_owned()));
    failure::guarded(py, move || {
        let failed = |error: NotExplained| failure::error("TidegateError", format!("{}: {error}", path.display()));
        let recording = |error| failed(NotExplained::Recording(error));
        let read = |whole| Reader::with_parts(whole, next_part(&path)).map_err(recording);
        let explained = match (open(&path)?, packet, event, configuration) {
            (_, Some(0), ..) => return wrong("packets are numbered from 1"),
            (Kind::Capture(whole), Some(packet), None, Some(text)) => {
                let source = Text::new("<configuration>", text);
                let mut diagnostics = Diagnostics::new();
                let config =
                    shaper::load(&source, &mut diagnostics).ok_or_else(|| failure::config(&source, &diagnostics))?;
                let mut settings = Settings { link: rate(link)?, ..Settings::seeded(seed) };
                settings.invent_names(&config);
                let wrong = |error: SourceError| failed(NotExplained::Source(error));
                let mut source = Source::capture(whole, Choice::default()).map_err(wrong)?;
                explain::packet(&mut source, packet, &config, &settings).map_err(failed)?
            }
            (Kind::Capture(_), ..) => return wrong("a capture needs packet= and configuration="),
            (Kind::Recording(_), _, _, Some(_)) => {
                return wrong("a recording is explained with its own configuration: leave configuration= out");
            }
            (Kind::Recording(whole), Some(packet), None, None) => {
                let mut explained = explain::arrival(&mut read(whole)?, 1, packet - 1).map_err(failed)?;
                explained.packet = packet;
                explained
            }
            (Kind::Recording(whole), None, Some(event), None) => {
                let (engine, number) = explain::packet_of_record(&mut read(whole)?, event).map_err(failed)?;
                let Kind::Recording(whole) = open(&path)? else { return wrong("the file changes while it is read") };
                let mut explained = explain::arrival(&mut read(whole)?, engine, number).map_err(failed)?;
                explained.packet = number + 1;
                explained
            }
            (Kind::Recording(_), ..) => return wrong("name the packet by packet= or by event="),
        };
        Ok(explained.json().to_string())
    })
}

/// Parses the rate of a line, if one was given.
fn rate(link: Option<String>) -> PyResult<Option<Rate>> {
    let Some(text) = link else { return Ok(None) };
    match text.parse::<Rate>() {
        Ok(rate) if !rate.is_zero() => Ok(Some(rate)),
        Ok(_) => Err(PyValueError::new_err("link: nothing can leave through a link of rate 0")),
        Err(error) => Err(PyValueError::new_err(format!("link={text:?}: {error}"))),
    }
}

fn run(path: &Path, mut parts: Vec<Part>, keep: Keep) -> PyResult<Replay> {
    let unreadable = |error: SourceError| failure::error("TidegateError", format!("{}: {error}", path.display()));
    let mut notices = Vec::new();
    let mut notice = |notice: Notice| notices.push(notice.to_string());
    let choice = Choice { from: Vec::new(), direction: Direction::Any };
    let (mut again, mut source) = (None, None);
    match open(path)? {
        Kind::Capture(_) if parts.is_empty() => {
            return Err(PyValueError::new_err("a capture has no configuration of its own: name at least one"));
        }
        Kind::Capture(whole) => source = Some(Source::capture(whole, choice).map_err(unreadable)?),
        Kind::Recording(whole) => {
            let recording = |error| unreadable(SourceError::Recording(error));
            let mut reader = Reader::with_parts(whole, next_part(path)).map_err(recording)?;
            let to = None::<&mut tidegate_replay::departures::Departures<Sink>>;
            let done = session::again(&mut reader, "recorded", keep, to);
            again = Some(done.map_err(|error| failure::error("TidegateError", error.to_string()))?);
            if let (Kind::Recording(whole), false) = (open(path)?, parts.is_empty()) {
                let reader = Reader::with_parts(whole, next_part(path)).map_err(recording)?;
                source = Some(Source::recording(reader, choice));
            }
        }
    }
    watch::signals()?;
    let (mut packets, mut outcomes) = (again.as_ref().map_or(0, |again| again.packets), Vec::new());
    if let Some(mut source) = source {
        if let Some(setup) = again.as_ref().and_then(|again| again.setup.as_ref()) {
            parts.iter_mut().for_each(|part| part.settings.like_recorded(setup));
        }
        // Signals are checked between packets.
        let mut arrived = 0_u32;
        let mut pause = |_: Instant| {
            arrived = arrived.wrapping_add(1);
            if arrived.is_multiple_of(4096)
                && let Err(error) = watch::signals()
            {
                failure::unwind(error);
            }
        };
        let hooks = Hooks::<Sink> { notice: &mut notice, pace: Some(&mut pause), departures: None };
        let session = session::replay(&mut source, &parts, hooks)
            .map_err(|error| failure::error("TidegateError", error.to_string()))?;
        if let Some(error) = session.broken {
            return Err(unreadable(error));
        }
        (packets, outcomes) = (session.packets, session.outcomes);
    }
    Ok(Replay { file: path.display().to_string(), again, packets, outcomes, notices })
}

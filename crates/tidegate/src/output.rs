//! Output files of commands: reports, and tables for notebooks.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use tidegate_metrics::Curve as Measured;
use tidegate_report::text::wrapped;
use tidegate_report::{Axis, Curve, Fold, Part, Plot, Report, Scale, Section, Style, columns};
use tidegate_units::{Rate, Span};
use unicode_width::UnicodeWidthStr;

use crate::Failure;

/// The output files, the same options for every command that has them.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Files {
    /// Write a report to this file: one HTML page with plots that opens without a network
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write the results as one table for notebooks to this file (Parquet)
    #[arg(long, value_name = "FILE.parquet")]
    pub parquet: Option<PathBuf>,
    /// Write that table in the format of the file name: .csv, .json or .parquet
    #[arg(long, value_name = "FILE", value_parser = TableFile::parse)]
    pub table: Option<TableFile>,
}

/// The file of a table, and its format.
#[derive(Debug, Clone)]
pub struct TableFile {
    path: PathBuf,
    form: Form,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Csv,
    Json,
    Parquet,
}

impl TableFile {
    fn parse(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        let form = match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => Form::Csv,
            Some("json") => Form::Json,
            Some("parquet") => Form::Parquet,
            _ => return Err("the name must end in .csv, .json or .parquet".into()),
        };
        Ok(Self { path, form })
    }
}

impl Files {
    /// Whether any file was requested.
    pub fn wanted(&self) -> bool {
        self.report.is_some() || self.parquet.is_some() || self.table.is_some()
    }
    /// The requested files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let table = self.table.as_ref().map(|table| &table.path);
        self.report.iter().chain(&self.parquet).chain(table).map(PathBuf::as_path)
    }
    /// Checks that the requested files can be written, before a long run, and are none of the files that are `read`.
    /// Existing files stay as they are, and no new file is left.
    ///
    /// # Errors
    /// Invalid usage, with the file that cannot be written.
    pub fn try_them<'a>(&self, read: impl IntoIterator<Item = &'a Path, IntoIter: Clone>) -> Result<(), Failure> {
        let read = read.into_iter();
        self.paths().try_for_each(|path| try_path(path, read.clone()))
    }
    /// Writes the requested files. Their contents are made only then.
    pub fn write(
        &self,
        report: impl FnOnce() -> Report,
        table: impl FnOnce() -> columns::Table,
    ) -> Result<(), Failure> {
        if let Some(path) = &self.report {
            write(path, report().html().as_bytes())?;
        }
        if self.parquet.is_none() && self.table.is_none() {
            return Ok(());
        }
        let table = table();
        let parquet = |path: &Path| {
            let bytes = table.parquet().map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
            write(path, &bytes)
        };
        if let Some(path) = &self.parquet {
            parquet(path)?;
        }
        match &self.table {
            Some(TableFile { path, form: Form::Csv }) => write(path, table.csv().as_bytes()),
            Some(TableFile { path, form: Form::Json }) => write(path, table.json().as_bytes()),
            Some(TableFile { path, form: Form::Parquet }) => parquet(path),
            None => Ok(()),
        }
    }
}

/// Checks that `path` can be written, as [`Files::try_them`] does.
///
/// # Errors
/// Invalid usage, with the file.
pub fn try_path<'a>(path: &Path, read: impl Iterator<Item = &'a Path>) -> Result<(), Failure> {
    spare(path, read)?;
    let there = path.symlink_metadata().is_ok();
    // Opening a pipe would wait for its reader.
    if path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir()) {
        return Ok(());
    }
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| Failure::Usage(format!("cannot write {}: {error}", path.display())))?;
    if !there {
        // An error means that it is removed already.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Plots of a report as one SVG file: `TITLE=FILE.svg` or `TITLE/CURVE=FILE.svg`.
#[derive(Debug, Clone)]
pub struct PlotFile {
    /// A title, or part of the titles of the plots, in lower case.
    title: String,
    /// Part of the names of the curves, in lower case; empty for all.
    curve: String,
    /// The file.
    pub path: PathBuf,
}

impl PlotFile {
    /// Reads the argument of an option.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (plots, path) =
            text.rsplit_once('=').ok_or("a part of the title and a file are expected: TITLE=FILE.svg")?;
        if !path.ends_with(".svg") {
            return Err("the name of the file must end in .svg".into());
        }
        let (title, curve) = plots.split_once('/').unwrap_or((plots, ""));
        Ok(Self { title: title.to_lowercase(), curve: curve.to_lowercase(), path: path.into() })
    }

    /// Writes the plots of `report` that are meant, one below the other.
    ///
    /// # Errors
    /// Invalid usage where no plot is meant, with the titles that there are; or the file cannot be written.
    pub fn write(&self, report: &Report) -> Result<(), Failure> {
        let all = || {
            let parts = report.sections.iter().flat_map(|section| &section.parts);
            parts.filter_map(|part| match part {
                Part::Plot(plot) => Some(plot),
                Part::Text(_) | Part::Table(_) => None,
            })
        };
        let exact = all().any(|plot| plot.title.to_lowercase() == self.title);
        let is_meant = |plot: &&Plot| {
            let title = plot.title.to_lowercase();
            if exact { title == self.title } else { title.contains(&self.title) }
        };
        let mut meant: Vec<Plot> = all().filter(is_meant).cloned().collect();
        for plot in &mut meant {
            plot.curves.retain(|curve| curve.name.to_lowercase().contains(&self.curve));
            // One curve alone has no legend.
            if let ([curve], false) = (plot.curves.as_slice(), self.curve.is_empty()) {
                plot.title = format!("{}: {}", plot.title, curve.name);
            }
        }
        meant.retain(|plot| !plot.curves.is_empty());
        let quantities = |plot: &Plot| (plot.x.label(), plot.y.label());
        if let Some(pair) = meant.windows(2).find(|pair| quantities(&pair[0]) != quantities(&pair[1])) {
            let titles = (&pair[0].title, &pair[1].title);
            return Err(Failure::Usage(format!(
                "`{}` and `{}` have different axes: name one of them",
                titles.0, titles.1
            )));
        }
        if let Some(svg) = tidegate_report::stacked(&meant) {
            return write(&self.path, svg.as_bytes());
        }
        let titles: Vec<String> = all().map(|plot| format!("\n  {}", plot.title)).collect();
        let wanted = if self.curve.is_empty() { self.title.clone() } else { format!("{}/{}", self.title, self.curve) };
        Err(Failure::Usage(format!("no plot is meant by `{wanted}`; the plots are{}", titles.concat())))
    }
}

/// Checks that writing to `path` overwrites none of the files that are `read`, by any of their names.
///
/// # Errors
/// Invalid usage, with the file.
pub fn spare<'a>(path: &Path, mut read: impl Iterator<Item = &'a Path>) -> Result<(), Failure> {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| {
        let data = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some((data.dev(), data.ino()))
    };
    let Some(written) = identity(path) else { return Ok(()) };
    match read.find(|path| identity(path) == Some(written)) {
        None => Ok(()),
        Some(read) => Err(Failure::Usage(format!(
            "{} is read, and writing {} would destroy it; name another file",
            read.display(),
            path.display()
        ))),
    }
}

/// The width of the terminal that is standard output, in characters; `None` where that is none: a pipe or a file receives
/// whole tables.
pub fn width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    // A terminal that does not report its width has that of most.
    let width = ratatui::crossterm::terminal::size().map_or(0, |(width, _)| usize::from(width));
    Some(if width == 0 { 80 } else { width })
}

/// Writes `text` to standard output; on a terminal, lines that are wider are broken between words. Tables fit already.
///
/// # Errors
/// When it cannot be written.
pub fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match width() {
        None => out.write_all(text.as_bytes())?,
        Some(width) => {
            for line in text.lines() {
                let fits = line.width() <= width;
                writeln!(out, "{}", if fits { line.into() } else { wrapped(line, Some(width)) })?;
            }
        }
    }
    out.flush()
}

/// A rate with four digits: 27.99mbit. A shorter one is as its `Display` formats it.
pub fn rate(rate: Rate) -> String {
    let bps = rate.as_bps();
    let step = 10_u64.pow(bps.checked_ilog10().unwrap_or(0).saturating_sub(3));
    Rate::from_bps(bps.saturating_add(step / 2) / step * step).to_string()
}

/// A wait in the format of tables.
pub fn wait(span: Span) -> String {
    match span.as_nanos() as f64 {
        nanos if nanos < 1e6 => format!("{:.1} us", nanos / 1e3),
        nanos if nanos < 1e9 => format!("{:.1} ms", nanos / 1e6),
        nanos => format!("{:.2} s", nanos / 1e9),
    }
}

/// Writes a file; the error names it.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))
}

/// The most curves of one plot; further curves are in another plot.
const CURVES: usize = 16;

/// Removes what is before `begin`: bins of a time that was not measured are empty, and would be drawn as zeros.
pub fn measured(curves: &[Measured], begin: f64) -> Vec<Measured> {
    let mut curves = curves.to_vec();
    for curve in curves.iter_mut().filter(|curve| curve.x == "time_s") {
        curve.points.retain(|point| point.0 >= begin);
    }
    curves
}

/// The plots of a run: over time, and distributions. Curves to compare are in one plot.
pub fn sections(title: &str, note: &str, curves: &[Measured], fold: Fold) -> Vec<Section> {
    let (mut over_time, mut distributions) = (Vec::<Group<'_>>::new(), Vec::<Group<'_>>::new());
    for curve in curves {
        let (kind, groups) = match curve.x {
            "time_s" => (Kind::of(curve), &mut over_time),
            _ if !curve.part.is_empty() => {
                let (subject, variant) = (&curve.subject, &curve.variant);
                (Kind::PartsSpread(subject, curve.measure, variant, family(&curve.part)), &mut distributions)
            }
            _ => (Kind::Distribution(curve.measure, family(&curve.subject)), &mut distributions),
        };
        match groups.iter_mut().find(|group| group.kind == kind) {
            Some(group) => group.curves.push(curve),
            None => groups.push(Group { kind, curves: vec![curve] }),
        }
    }
    let section = |name: &str, groups: Vec<Group<'_>>| {
        let plots: Vec<Plot> = groups.iter().flat_map(Group::plots).collect();
        let title = if title.is_empty() { capital(name) } else { format!("{title}{name}") };
        let mut section = Section::new(title).note(note);
        section.fold = fold;
        section.parts = plots.into_iter().map(Into::into).collect();
        section
    };
    let sections = [section("over time", over_time), section("distributions", distributions)];
    sections.into_iter().filter(|section| !section.parts.is_empty()).collect()
}

/// `flow` or `link`.
fn family(subject: &str) -> &str {
    subject.split_once(' ').map_or(subject, |(family, _)| family)
}

/// The key that groups curves into one plot.
#[derive(PartialEq, Clone, Copy, Debug)]
enum Kind<'a> {
    /// A measure of all flows, or of all links, of all variants.
    Distribution(&'a str, &'a str),
    /// A measure of the parts of a subject, in one variant: subject, measure, variant, kind of part.
    PartsSpread(&'a str, &'a str, &'a str, &'a str),
    /// The goodput of all flows of a variant.
    Goodput(&'a str),
    /// A measure of a link, all variants beside each other.
    Whole(&'a str, &'a str),
    /// A measure of the parts of a link, in one variant: subject, measure, variant, kind of part.
    Parts(&'a str, &'a str, &'a str, &'a str),
}

impl<'a> Kind<'a> {
    fn of(curve: &'a Measured) -> Self {
        let part = match curve.part.as_str() {
            "green" | "yellow" | "red" => "colour",
            part => family(part),
        };
        match curve.measure {
            "goodput" => Self::Goodput(&curve.variant),
            measure if part.is_empty() => Self::Whole(&curve.subject, measure),
            measure => Self::Parts(&curve.subject, measure, &curve.variant, part),
        }
    }
}

struct Group<'a> {
    kind: Kind<'a>,
    curves: Vec<&'a Measured>,
}

/// The text of a measure in a title.
fn words(measure: &str) -> &str {
    match measure {
        "queueing" => "queueing delay",
        "backlog" => "queue",
        "drops" => "drops",
        "marks" => "congestion marks",
        "completion" => "completion time",
        "delay" => "one-way delay",
        other => other,
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn join(variant: &str, rest: &str) -> String {
    match (variant, rest) {
        ("", rest) => rest.to_owned(),
        (variant, "") => variant.to_owned(),
        (variant, rest) => format!("{variant}: {rest}"),
    }
}

impl Group<'_> {
    fn plots(&self) -> Vec<Plot> {
        let many = self.curves.len().div_ceil(CURVES);
        let chunks = self.curves.chunks(CURVES).enumerate();
        chunks
            .map(|(n, curves)| {
                let mut plot = self.plot(curves);
                if many > 1 {
                    plot.title = format!("{} ({} of {many})", plot.title, n + 1);
                }
                plot
            })
            .collect()
    }

    fn plot(&self, curves: &[&Measured]) -> Plot {
        let of = |variant: &str| if variant.is_empty() { String::new() } else { format!(", {variant}") };
        // A single colour needs no distinction.
        let whole = matches!(self.kind, Kind::Parts(_, _, _, "colour")) && curves.len() == 1;
        let title = match self.kind {
            Kind::Distribution(measure, "flow") => capital(words(measure)) + ", distribution",
            Kind::Distribution(measure, family) => {
                format!("{} of each {family}, distribution", capital(words(measure)))
            }
            Kind::PartsSpread(subject, measure, variant, part) => {
                format!("{} of each {part}, {subject}{}, distribution", capital(words(measure)), of(variant))
            }
            Kind::Goodput(variant) => format!("Goodput of the flows that are watched{}", of(variant)),
            Kind::Whole(subject, measure) => format!("{}, {subject}", capital(words(measure))),
            Kind::Parts(subject, measure, variant, _) if whole => {
                format!("{}, {subject}{}", capital(words(measure)), of(variant))
            }
            Kind::Parts(subject, measure, variant, part) => {
                format!("{} of each {part}, {subject}{}", capital(words(measure)), of(variant))
            }
        };
        let label = |curve: &Measured| match self.kind {
            Kind::Distribution(..) => join(&curve.variant, &curve.subject),
            Kind::Goodput(_) => format!("{} {}", curve.subject, curve.part).trim_end().to_owned(),
            Kind::Whole(subject, _) => join(&curve.variant, if curve.variant.is_empty() { subject } else { "" }),
            Kind::Parts(..) if whole => "all".to_owned(),
            Kind::Parts(..) | Kind::PartsSpread(..) => curve.part.clone(),
        };
        let (y, scale, unit) = match curves[0].y {
            "rate_bps" => ("rate", 1.0, "bit/s"),
            "delay_ns" => ("delay", 1e-9, "s"),
            "share" => ("share of the values", 1.0, "1"),
            "bytes" => ("queue", 1.0, "B"),
            other => (other, 1.0, "packets"),
        };
        let y = Axis::new(y, if y == "packets" { "" } else { unit });
        let distribution = matches!(self.kind, Kind::Distribution(..) | Kind::PartsSpread(..));
        let (x, x_scale) = if distribution { (Axis::log("time", "s"), 1e-9) } else { (Axis::new("time", "s"), 1.0) };
        let scaled = |curve: &Measured| {
            let points = curve.points.iter().map(|&(x, y)| (x * x_scale, y * scale));
            Curve::new(label(curve), points.collect::<Vec<_>>())
        };
        let mut plot = Plot {
            title,
            x,
            y,
            style: if distribution { Style::Cdf } else { Style::Lines },
            curves: curves.iter().map(|curve| scaled(curve)).collect(),
        };
        // Without arrivals there is no delay.
        if !distribution && curves[0].y == "delay_ns" {
            plot = plot.with_gaps();
        }
        // A logarithmic axis only if the values span more than a decade.
        if distribution {
            let values =
                || plot.curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).filter(|x| *x > 0.0);
            let (least, most) = values().fold((f64::MAX, 0.0_f64), |(least, most), x| (least.min(x), most.max(x)));
            if most < least * 10.0 {
                plot.x.scale = Scale::Linear;
            }
        }
        plot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_four_digits() {
        // The granted rate: a share of 28 Mbit/s that an exact division left 19 bit/s below it.
        for (bps, text) in [
            (27_999_981, "28mbit"),
            (7_991_706, "7.992mbit"),
            (300_000, "300kbit"),
            (12_345, "12.35kbit"),
            (999, "999bit"),
            (0, "0bit"),
        ] {
            assert_eq!(rate(Rate::from_bps(bps)), text);
        }
    }
}

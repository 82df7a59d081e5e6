//! Output files of commands: reports, and tables for notebooks.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use tidegate_config::decode::printable;
use tidegate_display::wrapped;
use tidegate_report::{Report, columns};
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
    /// Write a figure of the report to this file: the comparison; or the plot with this title, or those whose title contains
    /// it, over the same ranges; `box plots` are those of the runs. With CURVE only the curves with that in their name. The end
    /// of the name is .svg, .pdf or .png. May be repeated
    #[arg(long, alias = "plot", value_name = "[TITLE[/CURVE]=]FILE.svg", value_parser = FigureFile::parse)]
    pub figure: Vec<FigureFile>,
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
        self.report.is_some() || self.parquet.is_some() || self.table.is_some() || !self.figure.is_empty()
    }
    /// The requested files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let table = self.table.as_ref().map(|table| &table.path);
        let figures = self.figure.iter().map(|figure| &figure.path);
        self.report.iter().chain(&self.parquet).chain(table).chain(figures).map(PathBuf::as_path)
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
        if self.report.is_some() || !self.figure.is_empty() {
            let report = report();
            if let Some(path) = &self.report {
                write(path, report.html().as_bytes())?;
            }
            self.figure.iter().try_for_each(|figure| figure.write(&report))?;
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

/// A figure of a report as a file: `FILE`, `TITLE=FILE` or `TITLE/CURVE=FILE`.
#[derive(Debug, Clone)]
pub struct FigureFile {
    /// A title, or part of the titles of the plots, and part of the names of the curves, empty for all; `None` for the
    /// first figure of the report.
    plots: Option<(String, String)>,
    path: PathBuf,
    form: FigureForm,
}

#[derive(Debug, Clone, Copy)]
enum FigureForm {
    Svg,
    Pdf,
    Png,
}

/// The pixels of a point of a figure: 900 points are 1800 pixels.
const PIXELS: f64 = 2.0;

impl FigureFile {
    fn parse(text: &str) -> Result<Self, String> {
        let (plots, path) = text.rsplit_once('=').map_or((None, text), |(plots, path)| (Some(plots), path));
        let path = PathBuf::from(path);
        let form = match path.extension().and_then(|end| end.to_str()) {
            Some("svg") => FigureForm::Svg,
            Some("pdf") => FigureForm::Pdf,
            Some("png") => FigureForm::Png,
            _ => {
                return Err(
                    "the name of the file must end in .svg, .pdf or .png; with a title it is TITLE=FILE.svg".into()
                );
            }
        };
        let plots = plots.map(|plots| plots.split_once('/').unwrap_or((plots, "")));
        Ok(Self { plots: plots.map(|(title, curve)| (title.to_owned(), curve.to_owned())), path, form })
    }

    /// Writes what is meant of `report`.
    ///
    /// # Errors
    /// Invalid usage where nothing is meant, with the titles that there are; or the file cannot be written.
    fn write(&self, report: &Report) -> Result<(), Failure> {
        let drawing = match &self.plots {
            Some((title, curve)) => report.drawing(title, curve).map_err(Failure::Usage)?,
            None => report.first_figure().ok_or_else(|| Failure::Failed("the report has no figure".into()))?,
        };
        let bytes = match self.form {
            FigureForm::Svg => drawing.svg().into_bytes(),
            FigureForm::Pdf => drawing.pdf(),
            FigureForm::Png => drawing
                .png(PIXELS)
                .map_err(|why| Failure::Failed(format!("cannot write {}: {why}", self.path.display())))?,
        };
        write(&self.path, &bytes)
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

/// Standard output for text: what others wrote, names above all, does nothing to a terminal ([`printable`]).
pub fn stdout() -> Text {
    Text(std::io::stdout().lock())
}

/// See [`stdout`].
pub struct Text(std::io::StdoutLock<'static>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Parts of a formatted text are whole characters.
        self.0.write_all(printable(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Writes text to standard error, like [`stdout`]. If that is closed, nobody is left to be informed.
pub fn say(text: &str) {
    styled(&printable(text));
}

/// Writes text with colours of this program's own to standard error.
pub fn styled(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
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
    let (mut out, text) = (stdout(), printable(text));
    match width() {
        None => out.write_all(text.as_bytes())?,
        Some(width) => out.write_all(broken(&text, width).as_bytes())?,
    }
    out.flush()
}

/// `text` for a terminal of `width` characters.
pub fn broken(text: &str, width: usize) -> String {
    let line = |line: &str| {
        let fits = line.width() <= width;
        if fits { format!("{line}\n") } else { format!("{}\n", wrapped(line, Some(width))) }
    };
    text.lines().map(line).collect()
}

/// Names the command that is often the next one, to people at a terminal.
pub fn hint(text: &str) {
    if std::io::stdout().is_terminal() && std::io::stderr().is_terminal() {
        message!("{}", hanging(&format!("next: {text}"), width(), 6));
    }
}

/// `text` in lines of at most `width` characters, or in one; those after the first begin with `indent` spaces.
pub fn hanging(text: &str, width: Option<usize>, indent: usize) -> String {
    let room = width.map(|width| width.saturating_sub(indent.saturating_sub(2)));
    let words = text.trim_start_matches(' ');
    let lines = wrapped(words, room).replace("\n  ", &format!("\n{:indent$}", ""));
    format!("{}{lines}", &text[..text.len() - words.len()])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_after_the_first_are_indented() {
        assert_eq!(hanging("note one two three", Some(12), 5), "note one\n     two\n     three");
        assert_eq!(hanging("   -> one two", Some(12), 6), "   -> one\n      two");
        assert_eq!(hanging("one two", None, 5), "one two");
    }

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

//! Output files of commands: reports, figures, and tables for notebooks.

use std::path::{Path, PathBuf};

use tidegate_report::comparison::Comparison;
use tidegate_report::{Format, Look, Report, columns};

use super::write;
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
    /// Write a figure of the report to this file, whose name ends in .svg, .pdf, .png, .pgf or .tikz: the comparison, or with TITLE
    /// the plots whose title is or contains it, over the same ranges, or a subject of the comparison (`flow call`). With CURVE
    /// the figure has only the curves, or measures, whose names contain it. May be repeated
    #[arg(long, alias = "plot", value_name = "[TITLE[/CURVE]=]FILE.svg", value_parser = FigureFile::parse)]
    pub figure: Vec<FigureFile>,
    /// How figures are drawn: `page` (900 points wide), `column` (252) or `text` (516, both with 8 point type, for papers),
    /// then any of width=, height=, type= (points, or with in, cm, mm), title= (empty for none), subject=, row=, measure=
    /// (what is drawn, printed and compared, in this order; may be repeated: p is corrected for these alone), or instead of
    /// subject= and measure= single quantities as compare=MEASURE of SUBJECT, form= (bars, box, violin, strip; ecdf, ccdf),
    /// from=, to= (the horizontal axis of a plot, as in 20ms), log (the axis of values), overlay (the plots that a title means in
    /// one, such as those of two variants), no-bands (curves without bands around them), no-notes (what is said below a figure is printed instead, for its
    /// caption) and grey, with commas between. May be repeated
    #[arg(long, value_name = "PRESET,KEY=VALUE,...", value_parser = look)]
    look: Vec<String>,
}

/// The forms in which a comparison is printed for a paper.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Paper {
    /// Print the comparison as a table for LaTeX (booktabs): one unit for each column, and the digits that the interval
    /// justifies. `--look` chooses subjects, rows and measures; with `column` or `text` no table is wider, and has type of 8 points
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    latex: bool,
    /// Print the comparison as a table of Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

impl Paper {
    /// The comparison as a table, if one is wanted.
    pub fn table(self, comparison: &Comparison, look: &Look) -> Option<String> {
        match self {
            Self { latex: true, .. } => Some(comparison.latex(look)),
            Self { markdown: true, .. } => Some(comparison.markdown()),
            _ => None,
        }
    }
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
    pub fn parse(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        let form = match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => Form::Csv,
            Some("json") => Form::Json,
            Some("parquet") => Form::Parquet,
            _ => return Err("the name must end in .csv, .json or .parquet".into()),
        };
        Ok(Self { path, form })
    }

    /// Writes a table in the format of the name.
    pub fn write(&self, table: &columns::Table) -> Result<(), Failure> {
        match self.form {
            Form::Csv => write(&self.path, table.csv().as_bytes()),
            Form::Json => write(&self.path, table.json().as_bytes()),
            Form::Parquet => write_parquet(&self.path, table),
        }
    }
}

fn write_parquet(path: &Path, table: &columns::Table) -> Result<(), Failure> {
    let bytes = table.parquet().map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    write(path, &bytes)
}

/// Checks one of several looks.
pub fn look(text: &str) -> Result<String, String> {
    Look::parse(text).map(|_| text.to_owned())
}

impl Files {
    /// How figures are drawn.
    ///
    /// # Errors
    /// Invalid usage, if looks that are right alone do not go together.
    pub fn look(&self) -> Result<Look, Failure> {
        Look::parse_all(&self.look).map_err(Failure::Usage)
    }
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
        self.look()?;
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
            let look = self.look()?;
            self.figure.iter().try_for_each(|figure| figure.write(&report, &look))?;
        }
        if self.parquet.is_none() && self.table.is_none() {
            return Ok(());
        }
        let table = table();
        if let Some(path) = &self.parquet {
            write_parquet(path, &table)?;
        }
        self.table.as_ref().map_or(Ok(()), |file| file.write(&table))
    }
}

/// A figure of a report as a file: `FILE`, `TITLE=FILE` or `TITLE/CURVE=FILE`.
#[derive(Debug, Clone)]
pub struct FigureFile {
    /// A title, or part of the titles of the plots, and part of the names of the curves, empty for all; `None` for the
    /// first figure of the report.
    plots: Option<(String, String)>,
    path: PathBuf,
    format: Format,
}

impl FigureFile {
    fn parse(text: &str) -> Result<Self, String> {
        let (plots, path) = text.rsplit_once('=').map_or((None, text), |(plots, path)| (Some(plots), path));
        let path = PathBuf::from(path);
        let format = Format::of(&path).map_err(|why| format!("{why}; with a title write TITLE=FILE.svg"))?;
        let plots = plots.map(|plots| plots.split_once('/').unwrap_or((plots, "")));
        Ok(Self { plots: plots.map(|(title, curve)| (title.to_owned(), curve.to_owned())), path, format })
    }

    /// Writes the selected figure of `report`.
    ///
    /// # Errors
    /// Invalid usage where no figure is selected, with the existing titles; or the file cannot be written.
    fn write(&self, report: &Report, look: &Look) -> Result<(), Failure> {
        let drawing = match &self.plots {
            Some((title, curve)) => report.drawing(title, curve, look).map_err(Failure::Usage)?,
            None => report.first_figure(look).map_err(Failure::Usage)?,
        };
        draw(&drawing, self.format, &self.path)
    }
}

/// Writes a drawing to a file.
///
/// # Errors
/// If it is too large, or the file cannot be written.
pub fn draw(drawing: &tidegate_report::Drawing, format: Format, path: &Path) -> Result<(), Failure> {
    if let Some(height) = drawing.beyond_page() {
        let path = path.display();
        message!(
            "{path}: {height:.0} points high, more than a page has; choose parts by --look subject=, row= or measure="
        );
    }
    if let Some(curves) = drawing.crowded() {
        message!(
            "{}: {curves} curves in one plot; up to eight are told apart by their dashes and marks: choose some by --look row=, or \
             --figure TITLE/CURVE=FILE",
            path.display()
        );
    }
    // What is not below the figure belongs into its caption.
    if let Some(caption) = drawing.left_out() {
        message!("{}: {caption}", path.display());
    }
    let bytes = drawing.bytes(format);
    write(path, &bytes.map_err(|why| Failure::Failed(format!("cannot write {}: {why}", path.display())))?)
}

/// Checks that `path` can be written, before a long run, and is none of the files that are `read`. An existing file
/// stays as it is, and no new one is left.
///
/// # Errors
/// Invalid usage, with the file.
fn try_path<'a>(path: &Path, read: impl Iterator<Item = &'a Path>) -> Result<(), Failure> {
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

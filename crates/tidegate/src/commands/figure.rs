//! `tidegate figure`: figures of tables of results.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use tidegate_report::columns::{Column, Table};
use tidegate_report::{Chart, ChartKind, Format, Look};

use crate::Failure;
use crate::output::{draw, look};

/// Draw a figure of tables of results: heat maps, points, lines, distributions
///
/// TABLE is what `sweep`, or another command with --parquet, has written: a file, or a folder of them. Which rows are drawn
/// is chosen with --only; --over divides them by others, such as the goodput of one flow by that of another.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The tables (Parquet, without compression or with snappy, or CSV), or folders with tables in Parquet
    #[arg(required = true, value_name = "TABLE")]
    tables: Vec<PathBuf>,
    #[command(flatten)]
    chart: ChartArgs,
    /// How the figure is drawn; see `tidegate help simulate`. May be repeated
    #[arg(long, value_name = "PRESET,KEY=VALUE,...", value_parser = look)]
    look: Vec<String>,
    /// The file to write, whose name ends in .svg, .pdf, .png, .pgf or .tikz
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// The kind of a figure of tables, and the columns and rows that it shows.
#[derive(Debug, clap::Args)]
pub struct ChartArgs {
    /// The kind of figure: heat, best, scatter, lines, ecdf, ccdf, box, violin or strip
    #[arg(long, value_name = "KIND", value_parser = ChartKind::named)]
    kind: ChartKind,
    /// The column of the horizontal axis; for distributions and spreads that of the values. A scatter may have a quantity on
    /// each axis, 'delay p95 of flow bulk' and 'goodput of flow bulk': a point for each run, with the mean and an ellipse of
    /// one standard deviation for each variant
    #[arg(long, value_name = "COLUMN", default_value = "value")]
    x: String,
    /// The column of the vertical axis; of lines also a quantity, 'delay p95 of flow bulk'. A map of the best without it has a row for each
    /// measure
    #[arg(long, value_name = "COLUMN", default_value = "value")]
    y: String,
    /// The column of the cells of a heat map, or a quantity
    #[arg(long, value_name = "COLUMN", default_value = "value")]
    cells: String,
    /// The column whose texts name the curves, or the rows; may be repeated, for a curve for each combination
    #[arg(long, value_name = "COLUMN")]
    by: Vec<String>,
    /// Draw only rows that have this text in this column (`part=` those that have none); several texts of one column are united
    #[arg(long, value_name = "COLUMN=TEXT", value_parser = pair)]
    only: Vec<(String, String)>,
    /// Divide by the values of the rows that have this text instead, and are equal otherwise; may be repeated
    #[arg(long, value_name = "COLUMN=TEXT", value_parser = pair)]
    over: Vec<(String, String)>,
    /// Use a logarithmic scale for the values
    #[arg(long)]
    log: bool,
    /// Use a logarithmic scale for the horizontal axis
    #[arg(long)]
    log_x: bool,
    /// Multiply the values by this, for a unit of one's own
    #[arg(long, value_name = "NUMBER")]
    times: Option<f64>,
    /// Draw the points of this file beside those of the tables, such as those of a paper: lines of CURVE,X,Y, with
    /// times in seconds
    #[arg(long, value_name = "FILE.csv")]
    beside: Option<PathBuf>,
    /// The title of the horizontal axis; the unit is added unless it ends with it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    x_title: String,
    /// The title of the vertical axis; the unit is added unless it ends with it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    y_title: String,
}

/// [`ChartArgs`] as the words of a text.
#[derive(Debug, clap::Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Words {
    #[command(flatten)]
    chart: ChartArgs,
}

impl ChartArgs {
    /// Parses the options of a command line, with its quotes.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = shlex::split(text).ok_or("a quote is not closed")?;
        let Words { chart } = clap::Parser::try_parse_from(words).map_err(|error| {
            let text = error.to_string();
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        })?;
        Ok(chart)
    }

    /// Whether it has points of another file.
    pub fn has_others(&self) -> bool {
        self.beside.is_some()
    }

    /// # Errors
    /// If the file of other points cannot be read.
    pub fn chart(&self) -> Result<Chart, Failure> {
        Ok(Chart {
            kind: self.kind,
            x: self.x.clone(),
            y: self.y.clone(),
            value: self.cells.clone(),
            by: self.by.clone(),
            only: self.only.clone(),
            over: self.over.clone(),
            log: self.log,
            log_x: self.log_x,
            times: self.times,
            beside: self.beside.as_deref().map_or(Ok(Vec::new()), beside)?,
            labels: [self.x_title.clone(), self.y_title.clone()],
            names: Vec::new(),
        })
    }
}

/// Parses `COLUMN=TEXT`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("COLUMN=TEXT is expected")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let format = Format::of(&args.out).map_err(Failure::Usage)?;
    let table = read(&args.tables)?;
    let look = Look::parse_all(&args.look).map_err(Failure::Usage)?;
    let drawing = args.chart.chart()?.drawing(&table, &look).map_err(Failure::Usage)?;
    draw(&drawing, format, &args.out)
}

/// The points of a file of others: a curve, x and y in each line.
fn beside(path: &Path) -> Result<Vec<(String, f64, f64)>, Failure> {
    let wrong = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let point = |(n, line): (usize, &str)| {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        let mut parts = line.rsplitn(3, ',');
        let found = (|| {
            let (y, x) = (number(parts.next()?)?, number(parts.next()?)?);
            Some((parts.next()?.trim().to_owned(), x, y))
        })();
        found.ok_or_else(|| wrong(format!("line {}: CURVE,X,Y is expected, with two numbers", n + 1)))
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(point).collect()
}

/// Reads tables, and folders of tables, as one table. The rows of sweeps are in the order of their axes, whichever file has them.
pub(super) fn read(named: &[PathBuf]) -> Result<Table, Failure> {
    let (mut table, mut known) = (Table::default(), HashSet::new());
    for path in files(named)? {
        let wrong = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
        let bytes = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
        let beside = path.with_extension("parquet");
        let is_csv = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("csv"));
        let part =
            if is_csv { from_csv(&bytes) } else { Table::from_parquet(bytes).map_err(|error| error.to_string()) };
        let part = part.map_err(|error| {
            wrong(match beside != path && beside.exists() {
                true => format!("not a table of results in Parquet; {} is", beside.display()),
                false if error.contains("Disabled feature") => {
                    format!("{error}; write it without compression or with snappy, or as CSV")
                }
                false => format!("not a table of results: {error}"),
            })
        })?;
        table.append(part.without_runs(&mut known)).map_err(wrong)?;
    }
    Ok(table.in_order())
}

/// Reads a table of CSV with heads, as pandas and R write it. A column has integers, numbers or truths if all of its values are; an empty
/// value is missing.
fn from_csv(bytes: &[u8]) -> Result<Table, String> {
    let mut reader = csv::Reader::from_reader(bytes);
    let heads: Vec<String> = reader.headers().map_err(|error| error.to_string())?.iter().map(str::to_owned).collect();
    let mut columns: Vec<Vec<Option<String>>> = vec![Vec::new(); heads.len()];
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let values = record.iter().map(|value| (!value.is_empty()).then(|| value.to_owned()));
        columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }
    Ok(heads.iter().zip(columns).fold(Table::default(), |table, (head, values)| table.with(head, typed(values))))
}

/// A column of texts as that of the narrowest type that all of them are of.
fn typed(values: Vec<Option<String>>) -> Column {
    fn all<T>(values: &[Option<String>], read: impl Fn(&str) -> Option<T>) -> Option<Vec<Option<T>>> {
        let has_any = values.iter().any(Option::is_some);
        let read = |value: &Option<String>| value.as_ref().map_or(Some(None), |text| read(text).map(Some));
        values.iter().map(read).collect::<Option<Vec<_>>>().filter(|_| has_any)
    }
    let truth = |text: &str| match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    };
    if let Some(integers) = all(&values, |text| text.parse::<u64>().ok()) {
        return Column::Integer(integers);
    }
    if let Some(numbers) = all(&values, |text| text.parse::<f64>().ok()) {
        return Column::Number(numbers);
    }
    all(&values, truth).map_or(Column::Text(values), Column::Truth)
}

/// The files of tables, with those in folders by their names.
fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let wrong = |error: std::io::Error| Failure::Usage(format!("{}: {error}", path.display()));
        let entries = std::fs::read_dir(path).map_err(wrong)?;
        let mut inside =
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        let is_table = |path: &Path| path.extension().is_some_and(|end| end == "parquet");
        inside.retain(|path| is_table(path));
        if inside.is_empty() {
            return Err(Failure::Usage(format!("{}: there is no file whose name ends in .parquet", path.display())));
        }
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

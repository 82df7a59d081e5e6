//! [`Chart`]: a figure of any table of results, such as that of a sweep: heat maps, points, lines, distributions and the
//! spread of values.

mod best;
mod bins;
mod cells;
mod counts;
mod curve;
mod events;
mod heat;
mod left_out;
mod mixed;
mod open;
mod quantities;
mod rows;
mod series;
#[cfg(test)]
mod tests;
pub(crate) mod units;

use std::collections::BTreeSet;

pub(crate) use self::best::short;
use self::bins::{Bins, Classes};
use self::counts::{Counts, Unreached};
use self::mixed::follows;
use self::open::Open;
pub(crate) use self::open::distribution;
use self::units::{named_unit, number, number_in, of_results, scaled_axis};
use crate::columns::{Column, Table};
use crate::comparison::{Better, Comparison, Estimate, Group, Measure, Row};
use crate::drawing::Drawing;
use crate::look::{Form, Look};
use crate::model::{Axis, Curve, Plot, Scale, Style};
use crate::palette::Pens;
use tidegate_display::human;

/// A figure of a table: its kind, and the columns that it draws.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Chart {
    /// The kind of figure.
    pub kind: ChartKind,
    /// The column of the horizontal axis. For distributions and spreads it is the column of the values.
    pub x: String,
    /// The column of the vertical axis.
    pub y: String,
    /// The column whose values are the cells of a heat map.
    pub value: String,
    /// The columns whose texts name the curves or rows; empty for a single one.
    pub by: Vec<String>,
    /// Only rows that have this text in this column are drawn.
    pub only: Vec<(String, String)>,
    /// The values are divided by those of the rows that have these texts instead of those of `only`, as in the ratio of two
    /// flows. Rows belong together that are equal in all other columns.
    pub over: Vec<(String, String)>,
    /// Whether values have a logarithmic scale.
    pub log: bool,
    /// Whether the horizontal axis has a logarithmic scale, which is that of the values of distributions and spreads.
    pub log_x: bool,
    /// The factor by which values are multiplied, for a unit of one's own; `None` for that of the table.
    pub times: Option<f64>,
    /// Points from elsewhere, such as a paper, beside those of the table: the name of a curve, x and y, with times in seconds. They
    /// are marks.
    pub beside: Vec<(String, f64, f64)>,
    /// The titles of the axes; empty for the names of the columns.
    pub labels: [String; 2],
    /// Texts of columns, and what the figure writes in their place.
    pub names: Vec<(String, String)>,
}

/// The kind of a chart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ChartKind {
    /// A cell for each pair of values, coloured by the mean of its rows.
    #[default]
    Heat,
    /// A cell for each pair of values, with the variant that is the best there.
    Best,
    /// A point for each row.
    Scatter,
    /// The mean of the rows at each x, with its 95 % interval as a band.
    Lines,
    /// The distribution of the values.
    Ecdf,
    /// Its complement, logarithmic.
    Ccdf,
    /// The quartiles of the values.
    Box,
    /// The density of the values.
    Violin,
    /// The values as points.
    Strip,
}

impl ChartKind {
    /// The kinds by their names.
    pub const ALL: [(&'static str, Self); 9] = [
        ("heat", Self::Heat),
        ("best", Self::Best),
        ("scatter", Self::Scatter),
        ("lines", Self::Lines),
        ("ecdf", Self::Ecdf),
        ("ccdf", Self::Ccdf),
        ("box", Self::Box),
        ("violin", Self::Violin),
        ("strip", Self::Strip),
    ];
    /// The kind with this name.
    ///
    /// # Errors
    /// If there is none, with those that are.
    pub fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        found.ok_or_else(|| format!("`{name}` is no kind; there are {}", Self::ALL.map(|(name, _)| name).join(", ")))
    }
}

/// The columns that say what a value is. Rows that differ in them are not drawn as one.
const IDENTITY: [&str; 5] = ["kind", "measure", "subject", "variant", "part"];
/// The columns of texts that do not tell rows of a table apart.
const LABELS: [&str; 5] = ["unit", "x_unit", "digest", "scenario", "file"];

/// The axis of a sweep in words: `link.a->b.delay` is the `delay of link a->b`.
fn of_path(name: &str) -> String {
    match section_of(name) {
        Some((section, key)) => format!("{key} of {section}"),
        None => name.to_owned(),
    }
}

/// The section of a key with its name, such as `link a->b`, and the rest of the path in words.
fn section_of(path: &str) -> Option<(String, String)> {
    match path.split('.').collect::<Vec<_>>().as_slice() {
        [section, of, rest @ ..] if !rest.is_empty() => {
            let key = match rest {
                [trace, "from"] => format!("beginning in {trace}"),
                rest => rest.join(" "),
            };
            Some((format!("{section} {of}"), key.replace('-', " ")))
        }
        _ => None,
    }
}

/// The different texts of a column in these rows, in alphabetical order.
fn distinct(column: &Column, rows: &Rows) -> Vec<String> {
    let texts: BTreeSet<String> = rows.iter().filter_map(|(row, _)| column.text(*row)).collect();
    texts.into_iter().collect()
}

/// The number of runs that these rows are of; 0 if the table has no seeds.
fn runs_in(table: &Table, rows: &Rows) -> usize {
    table.column("seed").map_or(0, |seeds| distinct(seeds, rows).len())
}

impl Column {
    /// The unit of the numbers in these rows of a column of texts; empty if they have none, or several.
    fn unit(&self, rows: &Rows) -> &'static str {
        let Self::Text(values) = self else { return "" };
        let mut units = rows.iter().filter_map(|(row, _)| number_in(values[*row].as_deref()?)).map(|(_, unit)| unit);
        let first = units.next().unwrap_or("");
        if units.all(|unit| unit == first) { first } else { "" }
    }
    /// The value of a row as a finite number, which has a place on an axis.
    fn number(&self, row: usize) -> Option<f64> {
        self.any_number(row).filter(|value| value.is_finite())
    }
    /// The value of a row as a number, which is infinite if it was not reached. `NaN` is no value.
    fn any_number(&self, row: usize) -> Option<f64> {
        let value = match self {
            Self::Number(values) => values[row],
            Self::Text(values) => values[row].as_deref().and_then(number),
            _ => self.text(row)?.parse().ok(),
        };
        value.filter(|value| !value.is_nan())
    }
}

/// The rising values of an axis of a sweep, if they are few and far enough apart for a tick at each.
fn taken(all: &[f64], scale: Scale) -> Vec<f64> {
    let all: Vec<f64> = all.iter().copied().filter(|value| scale == Scale::Linear || *value > 0.0).collect();
    let (Some(first), Some(last)) = (all.first().copied(), all.last().copied()) else { return Vec::new() };
    let is_apart = |two: &[f64]| scale == Scale::Log || two[1] - two[0] >= (last - first) / 25.0;
    if (2..=10).contains(&all.len()) && all.windows(2).all(is_apart) { all } else { Vec::new() }
}

/// The rows to draw: the value of each, as it is or as a ratio.
type Rows = Vec<(usize, f64)>;

impl Chart {
    /// The unit of the values of a column: the one that its name ends with, or that of all rows, if there is a column `unit`.
    fn unit(&self, table: &Table, rows: &Rows, values: &str) -> String {
        if !self.over.is_empty() || self.times.is_some() {
            return String::new();
        }
        if let Some((_, unit)) = named_unit(values) {
            return unit.to_owned();
        }
        let Some(column) = table.column("unit") else { return String::new() };
        let mut units: Vec<String> = rows.iter().filter_map(|(row, _)| column.text(*row)).collect();
        units.dedup();
        match units.as_slice() {
            [unit] => of_results(unit).to_owned(),
            _ => String::new(),
        }
    }

    /// The unit of the horizontal axis: that of the texts of its column, or for points of curves that of the column `x_unit`.
    fn unit_along(&self, table: &Table, along: &Column, rows: &Rows) -> String {
        let of_points = table.column("x_unit").filter(|_| self.x == "x").map(|column| distinct(column, rows));
        match of_points.as_deref() {
            Some([unit]) => of_results(unit).to_owned(),
            _ => named_unit(&self.x).map_or(along.unit(rows), |(_, unit)| unit).to_owned(),
        }
    }

    /// The title of an axis: the one that was given or the column, and of values the measure, if there is only one.
    fn label(&self, axis: usize, name: &str) -> String {
        match self.labels[axis].as_str() {
            "" if name == "value" => self.measure().unwrap_or(name).to_owned(),
            "" => named_unit(name).map_or_else(|| of_path(name), |(name, _)| name.replace('_', " ")),
            given => given.to_owned(),
        }
    }

    /// The chart whose axes of a sweep have the names of all keys that change with them in their titles. Ticks have the values of the key
    /// that was named.
    fn with_all_keys(&self, table: &Table) -> Result<Self, String> {
        let rows: Rows = table.rows_with(&self.only)?.into_iter().map(|row| (row, 0.0)).collect();
        let mut chart = self.clone();
        for (axis, name) in [&self.x, &self.y].into_iter().enumerate().filter(|(axis, _)| self.labels[*axis].is_empty())
        {
            let Some(column) = table.known(name).ok().filter(|column| matches!(column, Column::Text(_))) else {
                continue;
            };
            let path = table.columns().find(|(_, other)| std::ptr::eq(*other, column)).map_or("", |(path, _)| path);
            let section = section_of(path).map(|(section, _)| section);
            let others = table.order.iter().filter(|(other, _)| other != path).filter_map(|(other, _)| {
                let values = table.column(other)?;
                let is_coupled = distinct(values, &rows).len() > 1 && follows(values, &[column], &rows);
                let key = || match section_of(other) {
                    Some((of, key)) if Some(&of) == section.as_ref() => key,
                    _ => of_path(other),
                };
                is_coupled.then(key)
            });
            let others: Vec<String> = others.collect();
            if !others.is_empty() {
                chart.labels[axis] = format!("{} (with {})", self.label(axis, name), others.join(", "));
            }
        }
        Ok(chart)
    }

    /// The measure of all rows, if one was chosen.
    fn measure(&self) -> Option<&str> {
        self.only.iter().find(|(column, _)| column == "measure").map(|(_, measure)| measure.as_str())
    }

    /// Draws the chart of a table.
    ///
    /// # Errors
    /// If a column or a value does not exist, with those that do, or nothing is left to draw.
    pub fn drawing(&self, table: &Table, look: &Look) -> Result<Drawing, String> {
        let axes: &[&String] = match self.kind {
            ChartKind::Heat | ChartKind::Best => &[&self.x, &self.y, &self.value],
            ChartKind::Scatter | ChartKind::Lines => &[&self.x, &self.y],
            _ => &[&self.x],
        };
        if let Some(chart) = self.of_quantity(table)? {
            return chart.drawing(table, look);
        }
        if let Some((chart, wide)) = self.of_quantities(table)? {
            return self.with_clouds(chart.plot(&wide)?).with_look(look);
        }
        axes.iter().try_for_each(|name| table.known(name).map(|_| ()))?;
        self.with_all_keys(table)?.of_columns(table, look)
    }

    fn of_columns(&self, table: &Table, look: &Look) -> Result<Drawing, String> {
        if self.log_x && matches!(self.kind, ChartKind::Heat | ChartKind::Best) {
            return Err("--log-x is not of maps, whose cells have no scale; --log is of the shades".into());
        }
        match self.kind {
            // The values of distributions and spreads are along the horizontal axis.
            kind if self.log_x && !matches!(kind, ChartKind::Scatter | ChartKind::Lines) => {
                Self { log: true, log_x: false, ..self.clone() }.of_columns(table, look)
            }
            ChartKind::Heat => self.heat(table, look),
            // Variants are compared unless the axes of the sweep are named.
            ChartKind::Best => {
                let by = if self.by.is_empty() { vec!["variant".to_owned()] } else { self.by.clone() };
                // Values are no axis of a map of the best: a sweep with one axis has a row for each measure.
                let y = if self.y == self.value { "measure" } else { &self.y }.to_owned();
                Self { by, y, ..self.clone() }.best_of_variants(table, look)
            }
            ChartKind::Box => self.spread(table, Form::Box, look),
            ChartKind::Violin => self.spread(table, Form::Violin, look),
            ChartKind::Strip => self.spread(table, Form::Strip, look),
            _ => self.plot(table)?.with_look(look),
        }
    }

    fn title(&self) -> String {
        match self.kind {
            ChartKind::Heat => {
                format!("{} by {} and {}", self.value, self.label(0, &self.x), self.label(1, &self.y))
            }
            ChartKind::Best => format!("the best by {} and {}", self.label(0, &self.x), self.label(1, &self.y)),
            ChartKind::Scatter | ChartKind::Lines => {
                format!("{} by {}", self.label(1, &self.y), self.label(0, &self.x))
            }
            _ => self.label(0, &self.x),
        }
    }

    /// Says of which subject, variant and values of axes alone the rows are.
    fn selection(&self) -> Option<String> {
        let is_alone = |name: &str| self.only.iter().filter(|(other, _)| other == name).count() == 1;
        let chosen = self
            .only
            .iter()
            .filter(|(name, text)| !["kind", "measure"].contains(&name.as_str()) && !text.is_empty() && is_alone(name));
        let said = |(name, text): &(String, String)| match name.as_str() {
            "subject" | "variant" => text.clone(),
            // A flow has its name as a subject has: with what it is.
            name if text.starts_with(&format!("{name} ")) => text.clone(),
            name => format!("{} {text}", of_path(name)),
        };
        let said: Vec<String> = chosen.map(said).collect();
        (!said.is_empty()).then(|| format!("Drawn: {}.", said.join(", ")))
    }

    fn plot(&self, table: &Table) -> Result<Plot, String> {
        let distribution = matches!(self.kind, ChartKind::Ecdf | ChartKind::Ccdf);
        let values = if distribution { &self.x } else { &self.y };
        let rows = self.chosen(table, values)?;
        let unit = self.unit(table, &rows, values);
        let along = table.known(&self.x)?;
        let greatest = |values: &mut dyn Iterator<Item = f64>| {
            values.map(f64::abs).filter(|value| value.is_finite()).fold(0.0, f64::max)
        };
        let most_of_all = greatest(&mut rows.iter().map(|(_, value)| *value));
        let at = usize::from(!distribution);
        let ratios = if self.labels[at].is_empty() { self.ratios() } else { String::new() };
        let (axis, scale) = scaled_axis(self.label(at, values) + &ratios, &unit, self.log, most_of_all);
        let far = greatest(&mut rows.iter().filter_map(|(row, _)| along.number(*row)));
        let unit_along = self.unit_along(table, along, &rows);
        let over_time = (self.x == "x" && unit_along == "s") || ["time_s", "time_ns"].contains(&self.x.as_str());
        let x_title = if over_time && self.labels[0].is_empty() { "time".to_owned() } else { self.label(0, &self.x) };
        let (mut x_axis, x_scale) = scaled_axis(x_title, &unit_along, self.log_x, far);
        let mut places: Vec<f64> = rows.iter().filter_map(|(row, _)| along.number(*row)).map(|x| x * x_scale).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        // Only the values of an axis of a sweep are the same for all curves.
        let is_swept = matches!(along, Column::Text(_));
        if matches!(self.kind, ChartKind::Lines | ChartKind::Scatter) && is_swept {
            x_axis.taken = taken(&places, x_axis.scale);
        }
        let bins =
            (over_time && unit == "bps" && self.kind == ChartKind::Lines).then(|| Bins::new(along, &rows)).flatten();
        let are_events =
            over_time && self.kind == ChartKind::Lines && bins.is_none() && self.are_events(table, along, &rows)?;
        let (mut curves, mut counts, mut gaps) = (Vec::new(), Counts::default(), Vec::new());
        let (open, open_along) = (Open::new(table, values)?, Open::new(table, &self.x)?);
        // Transfers have nearly as many sizes as there are.
        let is_dense = self.kind == ChartKind::Lines && !over_time && !is_swept && table.column("seed").is_some();
        let classes = is_dense.then(|| {
            let placed = rows.iter().filter_map(|(row, _)| along.number(*row));
            Classes::new(placed.collect())
        });
        let classes = classes.flatten();
        // The values of one run are no replications of what a line shows.
        let by_run = bins.is_some() || (self.kind == ChartKind::Lines && !are_events && table.column("seed").is_some());
        let (mut unreached, mut several) = (Unreached::new(self.kind, open.lasts(), classes.is_some()), false);
        let at = |x: f64| match (&bins, &classes) {
            (Some(bins), _) => bins.begin(x),
            (None, Some(classes)) => classes.middle(x),
            (None, None) => x,
        };
        let place = |(row, value): &(usize, f64)| {
            let x = along.number(*row).filter(|_| open_along.value(*row).is_some_and(f64::is_finite))?;
            Some((at(x) * x_scale, value * scale))
        };
        for (name, rows) in self.series(table, &rows)? {
            unreached.add(&name, &rows);
            let points = if distribution {
                let seen = |(row, _): &(usize, f64)| match self.over.is_empty() {
                    true => open.seen(*row) * self.times.unwrap_or(1.0) * scale,
                    false => f64::INFINITY,
                };
                let (ended, rest): (Rows, Rows) = rows.iter().partition(|(_, value)| value.is_finite());
                let ended = ended.iter().map(|(_, value)| value * scale).collect();
                open::distribution(ended, rest.iter().map(seen).collect())
            } else {
                let placed = || rows.iter().filter_map(|row| Some((row.0, place(row)?)));
                let mut points: Vec<(f64, f64)> = placed().map(|(_, point)| point).collect();
                if by_run {
                    let summary = if classes.is_some() { curve::median } else { curve::mean };
                    let of_runs = curve::by_run(table.column("seed"), placed().collect(), summary);
                    several |= bins.is_none() && of_runs.len() < points.len();
                    points = of_runs;
                }
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                points
            };
            curves.push(match self.kind {
                ChartKind::Lines if are_events => events::steps(name, &points),
                ChartKind::Lines => {
                    let mut curve = curve::of_means(name, &points, &mut counts);
                    let missing = if is_swept { curve::with_gaps(&mut curve, &places) } else { 0 };
                    if missing > 0 {
                        gaps.push((curve.name.clone(), missing));
                    }
                    curve
                }
                _ => Curve::new(name, points.into_iter().filter(|point| point.1.is_finite())),
            });
        }
        // Points from elsewhere have times in seconds.
        let other = |unit: &str, scale: f64| if unit == "ns" { scale * 1e9 } else { scale };
        let (to_x, to_y) = (other(&unit_along, x_scale), other(&unit, scale));
        for (name, x, y) in &self.beside {
            let (x, y) = (&(x * to_x), &(y * to_y));
            match curves.iter_mut().find(|curve| curve.name == *name) {
                Some(curve) => curve.points.push((*x, *y)),
                None => curves.push(Curve { is_apart: true, ..Curve::new(name.as_str(), [(*x, *y)]) }),
            }
        }
        let of_points = matches!(self.kind, ChartKind::Lines | ChartKind::Scatter) && bins.is_none();
        let rowless = of_points
            .then(|| self.left_out(table, &rows, [&open_along, &open], [&x_axis, &axis], place))
            .transpose()?;
        let open = if self.kind == ChartKind::Scatter { None } else { unreached.said() };
        let left_out = open.into_iter().chain(rowless.flatten()).reduce(|said, more| format!("{said} {more}"));
        if curves.iter().flat_map(|curve| &curve.points).all(|point| point.1.is_nan()) {
            let is_open = rows.iter().any(|(_, value)| value.is_infinite());
            let what = if is_open { "no place has only values that were reached in" } else { "no row has numbers in" };
            let why = left_out.map_or(String::new(), |said| format!(". {said}"));
            return Err(format!("{what} `{}` and `{values}`{why}", self.x));
        }
        let has_band = |curve: &&mut Curve| curve.band.iter().any(|(_, low, high)| low < high);
        curves
            .iter_mut()
            .filter(has_band)
            .for_each(|curve| curve.band_is = "95 % intervals of the means (Student's t)".to_owned());
        let each = match &classes {
            Some(classes) => format!(
                ", of each the median of its values in {} classes of {} with equally many",
                classes.count(),
                self.label(0, &self.x)
            ),
            None if several => ", of each the mean of its values".to_owned(),
            None => String::new(),
        };
        let runs = runs_in(table, &rows);
        let note = counts.said(runs).map(|of| format!("Lines: means of {of}{each}."));
        let steps = are_events.then(|| "Steps: a value is valid until the next.".to_owned());
        let means = bins.map(|bins| format!("Points: means over {}.", human(bins.width, "s")));
        let is_pooled = distribution && runs > 1 && !self.by.iter().any(|by| by == "seed");
        let pooled = is_pooled.then(|| format!("Values of {runs} runs together."));
        let gaps = (!gaps.is_empty()).then(|| {
            let of = |(name, places): &(String, usize)| match name.as_str() {
                "" => places.to_string(),
                name => format!("{places} ({name})"),
            };
            format!("No values: {}; gaps.", gaps.iter().map(of).collect::<Vec<_>>().join(", "))
        });
        let counted = curves.iter().map(|curve| curve.points.len());
        let are_values = self.kind == ChartKind::Scatter && runs > 1 && counted.clone().any(|points| points > runs);
        let scattered = are_values.then(|| format!("Points: {} values of {runs} runs.", counted.sum::<usize>()));
        let note = [note, scattered, steps, means, pooled, gaps, left_out, self.selection()]
            .into_iter()
            .flatten()
            .reduce(|note, more| format!("{note} {more}"));
        let mut plot = if distribution {
            let y = Axis::new("share of the values", "1");
            Plot { title: self.title(), x: axis, y, style: Style::Cdf, note, curves }
        } else {
            let style = match self.kind {
                ChartKind::Scatter => Style::Marks,
                _ if are_events => Style::Steps,
                _ => Style::Lines,
            };
            Plot { title: self.title(), x: x_axis, y: axis, style, note, curves }
        };
        plot.leave_gaps();
        Ok(if self.kind == ChartKind::Ccdf { plot.complementary() } else { plot })
    }

    fn spread(&self, table: &Table, form: Form, look: &Look) -> Result<Drawing, String> {
        let rows = self.chosen(table, &self.x)?;
        let most = self.series(table, &rows)?.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0);
        let of = match runs_in(table, &rows) {
            0 | 1 => "values".to_owned(),
            runs if most <= runs => "runs".to_owned(),
            runs => format!("values of {runs} runs together"),
        };
        let measure = Measure::new(self.label(0, &self.x), self.unit(table, &rows, &self.x), Better::Neither);
        let seen = Open::new(table, &self.x)?;
        let row = |(name, rows): (String, Rows)| {
            let values: Vec<f64> = rows.iter().map(|(_, value)| *value).collect();
            let open: Rows = rows.into_iter().filter(|(_, value)| value.is_infinite()).collect();
            // Nobody knows how long the parts of a ratio had lasted.
            let lasted = match seen.lasts() && self.over.is_empty() {
                true => open.iter().map(|(row, _)| seen.seen(*row) * self.times.unwrap_or(1.0)).collect(),
                false => Vec::new(),
            };
            let all = Estimate { values, lasted, ..Estimate::default() };
            // Where the lower quartile is known there is a box, and what was not reached is beyond the axis.
            let estimate = match all.five().is_some_and(|five| five[1].is_finite()) {
                true => {
                    let ended = || all.values.iter().filter(|value| value.is_finite());
                    Estimate { mean: ended().sum::<f64>() / ended().count().max(1) as f64, ..all }
                }
                false => Estimate::not_reached(open.len(), all.values.len()),
            };
            Row { name, cells: vec![Some(estimate)] }
        };
        let rows = self.series(table, &rows)?.into_iter().map(row).collect();
        let group = Group { measures: vec![measure], rows, ..Group::default() };
        let look = &Look { log: look.log || self.log, form: Some(form), ..look.clone() };
        let comparison = look.comparison(&Comparison::new(self.title(), vec![group]))?;
        comparison.check_axis(look)?;
        let pens = Pens::named(comparison.groups.iter().flat_map(|group| &group.rows).map(|row| row.name.as_str()));
        comparison
            .spread(&pens, form, &of, look)
            .ok_or_else(|| "no row of the figure has two values and a lower quartile that was reached".to_owned())
    }

    /// The text that the figure writes for that of a column.
    fn named<'a>(&'a self, text: &'a str) -> &'a str {
        self.names.iter().find(|(of, _)| of == text).map_or(text, |(_, name)| name)
    }
}

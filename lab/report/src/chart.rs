//! [`Chart`]: a figure of any table of results, such as that of a sweep: heat maps, points, lines, distributions and the
//! spread of values.

mod bins;
mod counts;
mod curve;
mod heat;
mod mixed;
mod open;
mod series;
pub(crate) mod units;

use std::collections::{BTreeMap, BTreeSet};

use self::bins::Bins;
use self::counts::{Counts, Unreached};
use self::heat::Heat;
use self::open::Open;
use self::units::{named_unit, number, number_in, of_results, scaled_axis};
use crate::columns::{Column, Table};
use crate::comparison::{Better, Comparison, Estimate, Group, Measure, Row};
use crate::drawing::Drawing;
use crate::look::{Form, Look};
use crate::model::{Axis, Curve, Plot, Style};
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
    /// Whether the horizontal axis of points and lines has a logarithmic scale.
    pub log_x: bool,
    /// The factor by which values are multiplied, for a unit of one's own; `None` for that of the table.
    pub times: Option<f64>,
    /// Points from elsewhere, such as a paper, beside those of the table: the name of a curve, x and y, with times in seconds. They
    /// are marks.
    pub beside: Vec<(String, f64, f64)>,
    /// The titles of the axes; empty for the names of the columns.
    pub labels: [String; 2],
}

/// The kind of a chart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ChartKind {
    /// A cell for each pair of values, coloured by the mean of its rows.
    #[default]
    Heat,
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
    pub const ALL: [(&'static str, Self); 8] = [
        ("heat", Self::Heat),
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
    match name.split('.').collect::<Vec<_>>().as_slice() {
        [section, of, rest @ ..] if !rest.is_empty() => {
            format!("{} of {section} {of}", rest.join(" ").replace('-', " "))
        }
        _ => name.to_owned(),
    }
}

/// The different texts of a column in these rows, in alphabetical order.
fn distinct(column: &Column, rows: &Rows) -> Vec<String> {
    let texts: BTreeSet<String> = rows.iter().filter_map(|(row, _)| column.text(*row)).collect();
    texts.into_iter().collect()
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
    /// The value of a row as a number, which is infinite if it was not reached.
    fn any_number(&self, row: usize) -> Option<f64> {
        match self {
            Self::Number(values) => values[row].filter(|value| !value.is_nan()),
            Self::Text(values) => values[row].as_deref().and_then(number),
            _ => self.text(row)?.parse().ok(),
        }
    }
}

/// The rows to draw: the value of each, as it is or as a ratio.
type Rows = Vec<(usize, f64)>;

impl Chart {
    /// The rows to draw with their values, which are in the column `values`.
    fn chosen(&self, table: &Table, values: &str) -> Result<Rows, String> {
        let open = Open::new(table, values)?;
        let times = self.times.unwrap_or(1.0);
        let valued = |rows: Vec<usize>| rows.into_iter().filter_map(|row| Some((row, open.value(row)? * times)));
        let ours: Rows = valued(table.rows_with(&self.only)?).collect();
        self.check_mixed(table, &ours)?;
        if self.over.is_empty() {
            return Ok(ours);
        }
        let replaced = |(name, text): &(String, String)| {
            let other = self.over.iter().find(|(known, _)| known == name);
            (name.clone(), other.map_or(text, |(_, text)| text).clone())
        };
        let mut wanted: Vec<(String, String)> = self.only.iter().map(replaced).collect();
        wanted.extend(self.over.iter().filter(|(name, _)| !self.only.iter().any(|(known, _)| known == name)).cloned());
        // Rows belong together that are equal in all columns but those of `over` and of the values.
        let same: Vec<&Column> = table
            .columns()
            .filter(|(name, _)| *name != values && !self.over.iter().any(|(other, _)| other == name))
            .map(|(_, column)| column)
            .collect();
        let key = |row: usize| same.iter().map(|column| column.text(row)).collect::<Vec<_>>();
        let below: BTreeMap<Vec<Option<String>>, f64> =
            valued(table.rows_with(&wanted)?).map(|(row, value)| (key(row), value)).collect();
        // A ratio of which one part was not reached is not reached either.
        let divided = |value: f64, by: f64| if by.is_finite() { value / by } else { f64::INFINITY };
        let ratio = |(row, value)| Some((row, divided(value, *below.get(&key(row)).filter(|v| **v != 0.0)?)));
        let ratios: Rows = ours.into_iter().filter_map(ratio).collect();
        match ratios.is_empty() {
            true => {
                Err("no two rows belong together: all columns but the value and those of the ratio must be equal"
                    .into())
            }
            false => Ok(ratios),
        }
    }

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
            ChartKind::Heat => &[&self.x, &self.y, &self.value],
            ChartKind::Scatter | ChartKind::Lines => &[&self.x, &self.y],
            _ => &[&self.x],
        };
        axes.iter().try_for_each(|name| table.known(name).map(|_| ()))?;
        if self.log_x && !matches!(self.kind, ChartKind::Scatter | ChartKind::Lines) {
            return Err("--log-x is of points and lines; --log is of values".into());
        }
        match self.kind {
            ChartKind::Heat => self.heat(table, look),
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
            ChartKind::Scatter | ChartKind::Lines => {
                format!("{} by {}", self.label(1, &self.y), self.label(0, &self.x))
            }
            _ => self.label(0, &self.x),
        }
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
        let (axis, scale) = scaled_axis(self.label(usize::from(!distribution), values), &unit, self.log, most_of_all);
        let far = greatest(&mut rows.iter().filter_map(|(row, _)| along.number(*row)));
        let unit_along = self.unit_along(table, along, &rows);
        let over_time = self.x == "x" && unit_along == "s";
        let x_title = if over_time && self.labels[0].is_empty() { "time".to_owned() } else { self.label(0, &self.x) };
        let (x_axis, x_scale) = scaled_axis(x_title, &unit_along, self.log_x, far);
        let bins =
            (over_time && unit == "bps" && self.kind == ChartKind::Lines).then(|| Bins::new(along, &rows)).flatten();
        let (mut curves, mut counts) = (Vec::new(), Counts::default());
        let open = Open::new(table, values)?;
        let mut unreached = Unreached::new(self.kind, open.lasts());
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
                let place = |(row, value): &(usize, f64)| Some((along.number(*row)? * x_scale, value * scale));
                let mut points: Vec<(f64, f64)> = match bins {
                    Some(bins) => bins.means(table, along, &rows),
                    None => rows.iter().filter_map(place).collect(),
                };
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                points
            };
            curves.push(match self.kind {
                ChartKind::Lines => curve::of_means(name, &points, &mut counts),
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
        if curves.iter().flat_map(|curve| &curve.points).all(|point| point.1.is_nan()) {
            let why = unreached.said().map_or(String::new(), |said| format!(". {said}"));
            return Err(format!("no row has numbers in `{}` and `{values}`{why}", self.x));
        }
        let note = counts.said().map(|of| format!("Lines: means of {of}; bands: their 95 % intervals (Student's t)."));
        let means = bins.map(|bins| format!("Points: means over {}.", human(bins.width, "s")));
        let note = [note, means, unreached.said()].into_iter().flatten().reduce(|note, more| format!("{note} {more}"));
        let plot = if distribution {
            let y = Axis::new("share of the values", "1");
            Plot { title: self.title(), x: axis, y, style: Style::Cdf, note, curves }
        } else {
            let style = if self.kind == ChartKind::Scatter { Style::Marks } else { Style::Lines };
            Plot { title: self.title(), x: x_axis, y: axis, style, note, curves }
        };
        Ok(if self.kind == ChartKind::Ccdf { plot.complementary() } else { plot })
    }

    fn spread(&self, table: &Table, form: Form, look: &Look) -> Result<Drawing, String> {
        let rows = self.chosen(table, &self.x)?;
        let measure = Measure::new(self.label(0, &self.x), self.unit(table, &rows, &self.x), Better::Neither);
        let row = |(name, rows): (String, Rows)| {
            let values: Vec<f64> = rows.iter().map(|(_, value)| *value).collect();
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            let estimate = match values.iter().filter(|value| value.is_infinite()).count() {
                0 => Estimate { mean, half: None, values, ..Estimate::default() },
                open => Estimate::not_reached(open, values.len()),
            };
            Row { name, cells: vec![Some(estimate)] }
        };
        let rows = self.series(table, &rows)?.into_iter().map(row).collect();
        let group = Group { measures: vec![measure], rows, ..Group::default() };
        let look = &Look { log: look.log || self.log, form: Some(form), ..look.clone() };
        let comparison = look.comparison(&Comparison { title: self.title(), groups: vec![group] })?;
        comparison.check_axis(look)?;
        let pens = Pens::named(comparison.groups.iter().flat_map(|group| &group.rows).map(|row| row.name.as_str()));
        comparison
            .spread(&pens, form, look)
            .ok_or_else(|| "no row of the figure has two values and has reached all of them".to_owned())
    }

    /// The texts of a column, by their numbers if all have one, and otherwise in the order of their first appearance.
    fn classes(&self, table: &Table, name: &str, rows: &Rows) -> Result<Vec<String>, String> {
        let column = table.known(name)?;
        let mut classes: Vec<String> = Vec::new();
        for (row, _) in rows {
            let text = column.text(*row).unwrap_or_default();
            if !classes.contains(&text) {
                classes.push(text);
            }
        }
        if classes.len() > 200 {
            return Err(format!(
                "`{name}` has {} different values, too many for the cells of a heat map",
                classes.len()
            ));
        }
        if classes.iter().all(|text| number(text).is_some()) {
            classes.sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
        }
        Ok(classes)
    }

    fn heat(&self, table: &Table, look: &Look) -> Result<Drawing, String> {
        look.refuse_range("choose the cells of a heat map with --only")?;
        let rows = self.chosen(table, &self.value)?;
        let (xs, mut ys) = (self.classes(table, &self.x, &rows)?, self.classes(table, &self.y, &rows)?);
        // Numbers rise upwards; names stand from the top in the order in which the legend of other figures has them.
        if ys.iter().any(|text| number(text).is_none()) {
            ys.reverse();
        }
        let (along, up) = (table.known(&self.x)?, table.known(&self.y)?);
        let mut cells: Vec<Vec<Vec<f64>>> = vec![vec![Vec::new(); xs.len()]; ys.len()];
        for (row, value) in &rows {
            let place = |classes: &[String], column: &Column| {
                let text = column.text(*row).unwrap_or_default();
                classes.iter().position(|known| *known == text)
            };
            if let (Some(x), Some(y)) = (place(&xs, along), place(&ys, up)) {
                cells[y][x].push(*value);
            }
        }
        let mean = |values: &Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let means: Vec<Vec<Option<f64>>> = cells.iter().map(|row| row.iter().map(mean).collect()).collect();
        let mut counts = Counts::default();
        cells.iter().flatten().map(Vec::len).filter(|count| *count > 0).for_each(|count| counts.add(count));
        if counts.most == 0 {
            return Err("no row is left to draw".into());
        }
        let mut note = counts.said().map(|of| format!("Cells: means of {of}.")).unwrap_or_default();
        let flat = || means.iter().flatten().flatten();
        if flat().all(|mean| mean.is_infinite()) {
            return Err("no cell is reached by all of its values".into());
        }
        if flat().any(|mean| mean.is_infinite()) {
            note = format!("{note} n.r.: not reached in at least one of the values.").trim_start().to_owned();
        }
        let (unit, log) = (self.unit(table, &rows, &self.value), self.log || look.log);
        let heat = Heat { xs, ys, means, unit, log, note };
        Ok(heat.drawing(self, look))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::{Ink, Shape};
    use crate::model::Scale;

    /// Two flows over two rates and two round trips, with two seeds.
    fn table() -> Table {
        let (mut rate, mut rtt, mut seed, mut subject, mut value) = (vec![], vec![], vec![], vec![], vec![]);
        for (n, (r, t)) in
            [("10mbit", "5ms"), ("10mbit", "20ms"), ("4mbit", "5ms"), ("4mbit", "20ms")].iter().enumerate()
        {
            for s in 1..=2_u64 {
                for (flow, times) in [("flow a", 1.0), ("flow b", 2.0)] {
                    rate.push(Some((*r).to_owned()));
                    rtt.push(Some((*t).to_owned()));
                    seed.push(Some(s));
                    subject.push(Some(flow.to_owned()));
                    value.push(Some((n as f64 + 1.0) * times * s as f64));
                }
            }
        }
        Table::default()
            .with("rate", Column::Text(rate))
            .with("rtt", Column::Text(rtt))
            .with("seed", Column::Integer(seed))
            .with("subject", Column::Text(subject))
            .with("value", Column::Number(value))
    }
    fn chart(kind: ChartKind) -> Chart {
        let names = ["rate", "rtt", "value"].map(str::to_owned);
        let [x, y, value] = names;
        Chart { kind, x, y, value, ..Chart::default() }
    }
    fn texts(drawing: &Drawing) -> Vec<&str> {
        let text = |shape: &'_ Shape| matches!(shape, Shape::Text { .. });
        drawing
            .shapes
            .iter()
            .filter(|shape| text(shape))
            .filter_map(|shape| match shape {
                Shape::Text { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn cells_are_means_or_ratios_in_the_order_of_their_numbers() {
        let mut heat = chart(ChartKind::Heat);
        heat.only = vec![("subject".into(), "flow b".into())];
        heat.over = vec![("subject".into(), "flow a".into())];
        let rows = heat.chosen(&table(), "value").expect("pairs");
        assert!(rows.len() == 8 && rows.iter().all(|(_, ratio)| *ratio == 2.0), "{rows:?}");
        heat.over.clear();
        // 4mbit, though it comes later in the table, is left of 10mbit.
        assert_eq!(heat.classes(&table(), "rate", &rows).expect("rates"), ["4mbit", "10mbit"]);
        let drawing = heat.drawing(&table(), &Look::column()).expect("a figure");
        assert_eq!((drawing.width, drawing.misplaced()), (252.0, Vec::<String>::new()));
        let texts = texts(&drawing);
        // The mean of the two seeds of `flow b` in the first cell: (2 + 4) / 2.
        assert!(texts.contains(&"3.00") && texts.contains(&"12.00"), "{texts:?}");
        assert!(texts.join(" ").contains("Shades: value. Cells: means of 2 values."), "{texts:?}");
        // The unit of the axes is in their titles, and the cell of the least value has an edge.
        assert!(["4", "10", "rate, Mbit/s", "rtt, ms"].iter().all(|text| texts.contains(text)), "{texts:?}");
        let edges =
            drawing.shapes.iter().filter(|shape| matches!(shape, Shape::Lines { ink, .. } if *ink == Ink::Muted));
        assert_eq!(edges.count(), 4);
        // A ratio names what is divided by what, and its values have equally many decimals.
        heat.over = vec![("subject".into(), "flow a".into())];
        heat.log = true;
        let drawing = heat.drawing(&table(), &Look::column()).expect("a figure");
        let texts = self::texts(&drawing).join(" ");
        assert!(texts.contains("Shades: value, flow b / flow a (logarithmic).") && texts.contains("2.000"), "{texts}");
        assert_eq!(drawing.misplaced(), Vec::<String>::new());
        assert_eq!(of_path("link.isp->gate.delay"), "delay of link isp->gate");
        assert_eq!(of_path("flow.bulk.tcp.congestion"), "tcp congestion of flow bulk");
    }

    #[test]
    fn lines_are_means_and_distributions_reach_one() {
        let mut lines = chart(ChartKind::Lines);
        lines.y = "value".into();
        lines.by = vec!["subject".into()];
        lines.only = vec![("rtt".into(), "5ms".into())];
        let plot = lines.plot(&table()).expect("a plot");
        assert_eq!(plot.curves.len(), 2);
        assert_eq!(plot.curves[0].points, [(4e6, 4.5), (10e6, 1.5)]);
        assert_eq!((plot.x.unit.as_str(), plot.y.unit.as_str()), ("bit/s", ""));
        // Shares are fractions, as in papers, and times from elsewhere are in seconds.
        assert_eq!((number("1%"), number_in("5ms")), (Some(0.01), Some((5e6, "ns"))));
        assert!(
            plot.note.as_deref().is_some_and(|note| note.contains("95 % intervals")) && plot.y.scale == Scale::Linear
        );
        // An axis that is named by the end of its path is drawn, and not pooled.
        let (mut named, mut swept) = (lines.clone(), Table::default());
        named.only = vec![("seed".into(), "1".into())];
        for (name, column) in table().columns() {
            let name = if name == "seed" || name == "subject" || name == "value" {
                name.into()
            } else {
                format!("link.1.{name}")
            };
            swept = swept.with(name, column.clone());
        }
        // Keys that changed together are one axis.
        let rates = table().columns().find(|(name, _)| *name == "rate").expect("a column").1.clone();
        let together = swept.clone().with("link.1.queue.limit", rates);
        let chosen = Chart { only: vec![("rtt".into(), "5ms".into())], ..named.clone() };
        assert_eq!(chosen.plot(&together).map(|plot| plot.curves.len()), Ok(2));
        // Several points of a sweep are refused, whatever the kind, until one is chosen or each is drawn.
        for kind in [ChartKind::Lines, ChartKind::Box, ChartKind::Violin, ChartKind::Strip, ChartKind::Ecdf] {
            let x = if kind == ChartKind::Lines { "rate" } else { "value" };
            let mut pooled = Chart { kind, x: x.into(), ..named.clone() };
            if kind != ChartKind::Lines {
                pooled.by.push("rate".into());
            }
            let said = pooled.drawing(&swept, &Look::column()).expect_err("two round trips as one");
            assert!(said.contains("several texts in `link.1.rtt`, which would be drawn as one: 20ms, 5ms"), "{said}");
            pooled.only.push(("rtt".into(), "5ms".into()));
            assert!(pooled.chosen(&swept, "value").is_ok(), "{kind:?}");
        }
        let mut ecdf = chart(ChartKind::Ecdf);
        ecdf.x = "value".into();
        let said = ecdf.plot(&table()).expect_err("two flows as one");
        assert!(said.contains("flow a, flow b; choose one with --only subject=TEXT"), "{said}");
        let (whole, table) = (table().without(&["subject"]), || table().without(&["subject", "rate", "rtt"]));
        let plot = ecdf.plot(&table()).expect("a plot");
        assert_eq!(plot.curves[0].points.last(), Some(&(16.0, 1.0)));
        ecdf.kind = ChartKind::Ccdf;
        let plot = ecdf.plot(&table()).expect("a plot");
        assert_eq!((plot.curves[0].points[15].1, plot.y.scale), (0.0, Scale::Log));
        for kind in [ChartKind::Ccdf, ChartKind::Violin, ChartKind::Strip] {
            let chart = Chart { kind, x: "value".into(), by: vec!["rate".into(), "rtt".into()], ..Chart::default() };
            let drawing = chart.drawing(&whole, &Look::column()).expect("a figure");
            assert_eq!((drawing.width, drawing.misplaced()), (252.0, Vec::<String>::new()), "{kind:?}");
        }
    }

    /// Points of a curve in a table: units are those of people, and noise in short bins is drawn as means of each run.
    #[test]
    fn rates_over_time_have_units_and_at_most_a_hundred_points() {
        let rows =
            |of: &dyn Fn(usize, usize) -> f64| Column::Number((0..1200).map(|n| Some(of(n % 600, n / 600))).collect());
        let all = |text: &str| Column::Text(vec![Some(text.to_owned()); 1200]);
        let table = Table::default()
            .with("x", rows(&|n, _| n as f64 / 10.0))
            .with("x_unit", all("time_s"))
            .with("unit", all("rate_bps"))
            .with("seed", Column::Integer((0..1200).map(|n| Some(n / 600)).collect()))
            .with("value", rows(&|n, run| (n % 2) as f64 * 2e6 + run as f64 * 1e6));
        let chart = Chart { kind: ChartKind::Lines, x: "x".into(), y: "value".into(), ..Chart::default() };
        let plot = chart.plot(&table).expect("a plot");
        assert_eq!((plot.x.label(), plot.y.unit.as_str()), ("time, s".to_owned(), "bit/s"));
        let curve = &plot.curves[0];
        assert_eq!((curve.points.len(), curve.points[1].1), (60, 1.5e6));
        // Two runs, of 1 and 2 Mbit/s: with one degree of freedom t is 12.706, and the standard error half of 1 Mbit/s.
        assert!((curve.band[1].2 - curve.band[1].1 - 12.706e6).abs() < 1e3, "{:?}", curve.band[1]);
        let note = plot.note.as_deref().expect("a note");
        assert!(note.contains("of 2 values") && note.ends_with("Points: means over 1 s."), "{note}");
    }

    #[test]
    fn what_is_not_there_is_named() {
        let said = |change: fn(&mut Chart)| {
            let mut chart = chart(ChartKind::Heat);
            change(&mut chart);
            chart.drawing(&table(), &Look::page()).expect_err("wrong")
        };
        assert!(said(|chart| chart.x = "speed".into()).contains("no column `speed`; it has rate, rtt, seed"));
        let only = said(|chart| chart.only = vec![("subject".into(), "flow c".into())]);
        assert!(only.contains("there are flow a, flow b"), "{only}");
        assert!(ChartKind::named("pie").is_err_and(|said| said.contains("heat, scatter, lines")));
    }
}

//! [`Grid`]: cells by two columns, with their labels and axes. A heat map and a map of the best variants are such grids.

use super::units::{Labels, number};
use super::{Chart, Rows};
use crate::columns::{Column, Table};
use crate::drawing::{Anchor, Drawing, Ink};
use crate::font::{fitted, room};
use crate::look::Look;

/// The rows and columns of a grid, and its note.
pub(super) struct Grid {
    /// The texts of the columns, from the left.
    pub(super) xs: Vec<String>,
    /// The texts of the rows, from below.
    pub(super) ys: Vec<String>,
    /// The text below the figure.
    pub(super) note: String,
    /// The height of what is drawn between the title of the horizontal axis and the note, in heights of small type.
    pub(super) legend: f64,
    /// The most lines of text in a cell.
    pub(super) lines: usize,
}

/// The labels of columns as they have room.
struct Labelled {
    texts: Vec<String>,
    /// The number of rows in which labels stand in turns.
    rows: usize,
    /// Each so many columns have one.
    every: usize,
    /// The part of the note that explains them; empty if they need none.
    note: String,
}

/// The most rows of labels below columns.
const ROWS: usize = 3;

/// A cell: its ground and the lines of its text, which are left out where they have no room.
pub(super) struct Cell {
    pub(super) ground: Ink,
    pub(super) ink: Ink,
    pub(super) lines: Vec<String>,
    /// A further line below these, which is left out alone where it has no room.
    pub(super) below: Option<String>,
    /// Inks that share its foot evenly, from the left, and the part of the foot's height that each has.
    pub(super) foot: Vec<(Ink, f64)>,
}

/// The height of the foot of a cell, in heights of small type.
const FOOT: f64 = 0.4;

impl Grid {
    /// The type of the text in cells.
    pub(super) fn small(look: &Look) -> f64 {
        look.type_of(11.0)
    }

    /// The place of the first cell from the left, and the width of each.
    pub(super) fn along(&self, look: &Look) -> (f64, f64) {
        let (u, size) = (look.unit(), look.size);
        let names =
            Labels::new(&self.ys).texts.iter().map(|name| room(name, size)).fold(0.0, f64::max).min(look.width * 0.35);
        let left = names + 16.0 * u;
        (left, (look.width - left - 8.0 * u) / self.xs.len() as f64)
    }

    /// The room for text in a cell.
    pub(super) fn room(&self, look: &Look) -> f64 {
        self.along(look).1 - 2.0 * look.unit()
    }

    /// Chooses the labels of the columns: their names, in turns in several rows where they have no room beside each other, or numbers
    /// that the note explains. No name is left out without a word.
    fn labels(&self, look: &Look) -> Labelled {
        let (size, (left, width)) = (look.size, self.along(look));
        let fit = |texts: &[String], rows: usize, every: usize| {
            let mut free = vec![0.0; rows];
            texts.iter().enumerate().step_by(every).all(|(column, name)| {
                let (at, half) = (left + width * (column as f64 + 0.5), room(name, size) / 2.0);
                let free = &mut free[column / every % rows];
                let fits = at - half >= *free && at + half <= look.width;
                *free = at + half + 4.0 * look.unit();
                fits
            })
        };
        let names = Labels::new(&self.xs).texts;
        if let Some(rows) = (1..=ROWS).find(|rows| fit(&names, *rows, 1)) {
            return Labelled { texts: names, rows, every: 1, note: String::new() };
        }
        let texts: Vec<String> = (1..=names.len()).map(|n| n.to_string()).collect();
        let every = (1..names.len()).find(|every| fit(&texts, ROWS, *every)).unwrap_or(names.len());
        let rows = (1..=ROWS).find(|rows| fit(&texts, *rows, every)).unwrap_or(ROWS);
        let said: Vec<String> = texts.iter().zip(&names).map(|(n, name)| format!("{n} {name}")).collect();
        let some = if every > 1 { format!("; one in {every} columns is labelled") } else { String::new() };
        Labelled { texts, rows, every, note: format!("Columns: {}{some}. ", said.join(", ")) }
    }

    /// Draws the grid; `cell` makes the cell of a column and a row, and `legend` draws what stands below the cells from a place on.
    pub(super) fn drawing(
        &self,
        chart: &Chart,
        look: &Look,
        cell: impl Fn(usize, usize) -> Option<Cell>,
        legend: impl Fn(&mut Drawing, (f64, f64)),
    ) -> Drawing {
        let (u, size, small) = (look.unit(), look.size, Self::small(look));
        let (title, ys) = (chart.title(), Labels::new(&self.ys));
        let mut drawing =
            Drawing { width: look.width, title: title.clone(), finish: look.finish(), ..Drawing::default() };
        let mut top = 24.0 * u;
        if let Some(heading) = look.heading(&title) {
            drawing.text((6.0 * u, top), Anchor::Start, size, Ink::Text, fitted(heading, size, look.width - 12.0 * u));
            top += 22.0 * u;
        }
        drawing.title_of_axis((6.0 * u, top), Anchor::Start, size, &ys.titled(chart.label(1, &chart.y)));
        top += 10.0 * u;
        let (left, width) = self.along(look);
        let labels = self.labels(look);
        let (lines, left_out) = look.note(format!("{}{}", labels.note, self.note), small, look.width);
        drawing.left_out = left_out;
        let turns = (labels.rows - 1) as f64 * size * 1.15;
        let below = 2.6 * size + turns + 24.0 * u + self.legend * small + lines.len() as f64 * small * 1.3 + 10.0 * u;
        let usual = (width * 0.62).clamp(size * 1.9, 60.0 * u).max(small * 1.15 * (self.lines as f64 + 0.5));
        let high = look.height.map_or(usual, |height| ((height - top - below) / self.ys.len() as f64).max(size * 0.8));
        for (row, name) in ys.texts.iter().rev().enumerate() {
            let y = top + high * row as f64;
            let label = fitted(name, size, left - 16.0 * u + 1.0);
            drawing.text((left - 6.0 * u, y + high / 2.0 + size * 0.35), Anchor::End, size, Ink::Text, label);
            for column in 0..self.xs.len() {
                let Some(cell) = cell(column, self.ys.len() - 1 - row) else { continue };
                cell.draw(&mut drawing, (left + width * column as f64, y), (width, high), look);
            }
        }
        let y = self.columns(&mut drawing, (chart, look), &labels, (left, top + high * self.ys.len() as f64));
        legend(&mut drawing, (left, y + 12.0 * u));
        let y = y + 12.0 * u + self.legend * small;
        drawing.note(&lines, (12.0 * u, y), small);
        drawing.height = look.height.unwrap_or(y + lines.len() as f64 * small * 1.3 + 12.0 * u);
        drawing
    }

    /// Writes the labels of the columns and the title of their axis below the cells. Returns the place of the title.
    fn columns(
        &self,
        drawing: &mut Drawing,
        (chart, look): (&Chart, &Look),
        labels: &Labelled,
        (left, bottom): (f64, f64),
    ) -> f64 {
        let (size, width) = (look.size, self.along(look).1);
        let mut y = bottom + size * 1.2;
        for (column, name) in labels.texts.iter().enumerate().step_by(labels.every) {
            let turn = (column / labels.every % labels.rows) as f64;
            let at = (left + width * (column as f64 + 0.5), y + turn * size * 1.15);
            drawing.text(at, Anchor::Middle, size, Ink::Text, name.as_str());
        }
        y += size * 1.4 + (labels.rows - 1) as f64 * size * 1.15;
        let title = Labels::new(&self.xs).titled(chart.label(0, &chart.x));
        drawing.title_of_axis((left + (look.width - left) / 2.0, y), Anchor::Middle, size, &title);
        y
    }
}

impl Cell {
    fn draw(&self, drawing: &mut Drawing, (x, y): (f64, f64), (width, high): (f64, f64), look: &Look) {
        let small = Grid::small(look);
        let (wide, tall) = (width - 0.5, high - 0.5);
        drawing.rectangle((x, y), wide, tall, self.ground);
        let foot = if self.foot.is_empty() { 0.0 } else { (FOOT * small).min(tall / 2.0) };
        let share = wide / self.foot.len().max(1) as f64;
        for (n, (ink, part)) in self.foot.iter().enumerate() {
            let (left, top) = (x + share * n as f64, y + tall - foot * part);
            drawing.rectangle((left, top), share, foot * part, *ink);
            drawing.outline((left, top), share, foot * part);
        }
        drawing.outline((x, y), wide, tall);
        let fit = |lines: &[&String]| {
            let longest = lines.iter().map(|line| room(line, small)).fold(0.0, f64::max);
            longest <= width - 2.0 * look.unit() && lines.len() as f64 * small * 1.15 <= high - foot
        };
        let mut lines: Vec<&String> = self.lines.iter().chain(&self.below).collect();
        if !fit(&lines) {
            lines.truncate(self.lines.len());
        }
        if !fit(&lines) {
            return;
        }
        let first = y + (high - foot) / 2.0 + small * (0.35 - 0.575 * (lines.len() as f64 - 1.0));
        for (n, line) in lines.into_iter().enumerate() {
            let place = (x + width / 2.0, first + small * 1.15 * n as f64);
            drawing.text(place, Anchor::Middle, small, self.ink, line.as_str());
        }
    }
}

impl Chart {
    /// The texts of a column, by their numbers if all have one, and otherwise in the order of their first appearance.
    pub(super) fn classes(&self, table: &Table, name: &str, rows: &Rows) -> Result<Vec<String>, String> {
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

    /// The texts of the columns of cells from the left, and of their rows from below.
    pub(super) fn places(&self, table: &Table, rows: &Rows) -> Result<(Vec<String>, Vec<String>), String> {
        let (xs, mut ys) = (self.classes(table, &self.x, rows)?, self.classes(table, &self.y, rows)?);
        // Numbers rise upwards; names stand from the top in the order in which the legend of other figures has them.
        if ys.iter().any(|text| number(text).is_none()) {
            ys.reverse();
        }
        Ok((xs, ys))
    }

    /// The rows with the place of their cell among the columns and among the rows of cells, and their value.
    pub(super) fn placed<'a>(
        &self,
        table: &'a Table,
        rows: &'a Rows,
        (xs, ys): (&'a [String], &'a [String]),
    ) -> Result<impl Iterator<Item = (usize, [usize; 2], f64)> + use<'a>, String> {
        let (along, up) = (table.known(&self.x)?, table.known(&self.y)?);
        let place = |classes: &[String], column: &Column, row: usize| {
            let text = column.text(row).unwrap_or_default();
            classes.iter().position(|known| *known == text)
        };
        let cell =
            move |(row, value): &(usize, f64)| Some((*row, [place(xs, along, *row)?, place(ys, up, *row)?], *value));
        Ok(rows.iter().filter_map(cell))
    }
}

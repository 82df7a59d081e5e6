//! [`Look`]: how figures are drawn: their size, type and colours, and which parts they show in which order.

use std::fmt::Display;

use crate::chart::units::number_in;
use crate::comparison::{Comparison, Group, each_once, has_words};
use crate::drawing::Finish;
use crate::font::room;
use crate::model::{Panels, Plot, Scale, Style};
use tidegate_metrics::names::{not_meant, parts_of};

/// How figures are drawn. [`Look::page`] is for screens, [`Look::column`] and [`Look::text`] are for papers.
#[derive(Clone, PartialEq, Debug)]
pub struct Look {
    /// The width in points of TeX (1/72.27 inch), as `\columnwidth` states it.
    pub width: f64,
    /// The height in points; `None` for one that suits the width and the contents. Figures whose rows are counted, such
    /// as bars and boxes, are as high as their rows.
    pub height: Option<f64>,
    /// The size of the type in points.
    pub size: f64,
    /// The line above the figure.
    pub heading: Heading,
    /// Whether figures are grey, for papers that are printed without colours.
    pub grey: bool,
    /// Whether a figure has a size on paper. If so, it states this size, and its lines have marks, so that they differ
    /// in a print of any quality.
    pub on_paper: bool,
    /// The subjects of comparisons to draw, such as flows and links, in this order; empty for all.
    pub subjects: Vec<String>,
    /// The rows of comparisons and the curves of plots to draw, in this order; empty for all.
    pub rows: Vec<String>,
    /// The measures of comparisons to draw, in this order; empty for all.
    pub measures: Vec<String>,
    /// The form; `None` for the usual one of each figure.
    pub form: Option<Form>,
    /// Whether values have a logarithmic axis: the vertical one of plots over time, and the horizontal one of distributions and of the
    /// runs of a comparison. The shares of a distribution on paper have a logarithmic tail only then.
    pub log: bool,
    /// Whether the plots that a title means are drawn in one, instead of beside or below each other.
    pub overlay: bool,
    /// Whether curves have bands around them.
    pub bands: bool,
    /// Whether the meaning of lines, bands and marks stands below a figure. If not, [`Drawing::left_out`](crate::Drawing::left_out) has it, for
    /// the caption.
    pub notes: bool,
    /// The quantities of comparisons to draw and to compare, each as `MEASURE of SUBJECT`; empty for those that `subjects` and
    /// `measures` choose, of which each subject has each measure.
    pub quantities: Vec<String>,
    /// The least value of the horizontal axis of plots, with its unit as in `20ms`; `None` for that of the values.
    pub from: Option<String>,
    /// The greatest value of that axis, likewise.
    pub to: Option<String>,
}

/// The line above a figure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heading {
    /// The title of the figure.
    Title,
    /// Nothing. In a paper the caption is below the figure.
    Nothing,
    /// This text.
    Text(String),
}

/// The form of a figure that can have several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Means as bars, with their 95 % intervals.
    Bars,
    /// The quartiles of the runs, and how far they reach.
    Box,
    /// The density of the runs.
    Violin,
    /// Each run as a point.
    Strip,
    /// The share of values up to each value, linear.
    Ecdf,
    /// The share of values above each value, logarithmic.
    Ccdf,
}

/// The forms by their names.
const FORMS: [(&str, Form); 6] = [
    ("bars", Form::Bars),
    ("box", Form::Box),
    ("violin", Form::Violin),
    ("strip", Form::Strip),
    ("ecdf", Form::Ecdf),
    ("ccdf", Form::Ccdf),
];

/// The size of the type for which distances in figures are given.
const NORMAL: f64 = 13.0;
/// The most bands that are laid over each other in grey.
const MOST_GREY_BANDS: usize = 3;

impl Default for Look {
    fn default() -> Self {
        Self::page()
    }
}

impl Look {
    /// For a screen: 900 points wide, with 13 point type and the title of each figure.
    pub fn page() -> Self {
        Self {
            width: 900.0,
            height: None,
            size: NORMAL,
            heading: Heading::Title,
            grey: false,
            on_paper: false,
            subjects: Vec::new(),
            rows: Vec::new(),
            measures: Vec::new(),
            form: None,
            log: false,
            overlay: false,
            bands: true,
            notes: true,
            quantities: Vec::new(),
            from: None,
            to: None,
        }
    }
    /// For a column of a paper with two columns: 252 points wide, with 8 point type and no title.
    pub fn column() -> Self {
        Self { width: 252.0, size: 8.0, heading: Heading::Nothing, on_paper: true, ..Self::page() }
    }
    /// For both columns of such a paper: 516 points wide, with 8 point type and no title.
    pub fn text() -> Self {
        Self { width: 516.0, ..Self::column() }
    }

    /// Reads a look: the name of a preset (`page`, `column`, `text`) or `KEY=VALUE`, with commas between. The keys are
    /// `width`, `height`, `type`, `title`, `subject`, `row`, `measure`, `compare`, `form`, `from` and `to`; `grey`, `log`,
    /// `overlay`, `no-bands` and `no-notes` have no value. `subject`, `row`, `measure` and `compare` may be repeated.
    ///
    /// # Errors
    /// If a part is not understood, with those that are.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_all(&[text])
    }

    /// Reads several looks as one: a later size, title or form replaces an earlier one, and choices of parts are added.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_all(texts: &[impl AsRef<str>]) -> Result<Self, String> {
        let mut look = Self::page();
        for text in texts {
            for (n, part) in text.as_ref().split(',').map(str::trim).enumerate() {
                match (part.split_once('='), part) {
                    (Some((key, value)), _) => look.set(key.trim(), value.trim())?,
                    (None, "grey") => look.grey = true,
                    (None, "log") => look.log = true,
                    (None, "overlay") => look.overlay = true,
                    (None, "no-bands") => look.bands = false,
                    (None, "no-notes") => look.notes = false,
                    (None, name) if n == 0 => {
                        let Self { width, size, heading, on_paper, .. } = Self::preset(name)?;
                        look = Self { width, size, heading, on_paper, ..look };
                    }
                    (None, _) => {
                        return Err(format!(
                            "`{part}` is neither `grey`, `log`, `overlay`, `no-bands`, `no-notes` nor KEY=VALUE; a preset comes first"
                        ));
                    }
                }
            }
        }
        Ok(look)
    }

    /// The preset with this name.
    ///
    /// # Errors
    /// If there is none, with the names.
    pub fn preset(name: &str) -> Result<Self, String> {
        match name {
            "page" => Ok(Self::page()),
            "column" => Ok(Self::column()),
            "text" => Ok(Self::text()),
            _ => Err(format!(
                "`{name}` is no look; there are page (900 pt wide), column (252 pt, 8 pt type) and text (516 pt, 8 pt \
                 type), which may be followed by width=, height=, type=, title=, subject=, row=, measure=, compare=, form=, \
                 from=, to=, grey, log, overlay, no-bands and no-notes"
            )),
        }
    }

    /// Sets a key to a value.
    ///
    /// # Errors
    /// If there is no such key, or the value is out of its range.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "width" => self.width = length(key, value, 80.0, 4_000.0)?,
            "height" => self.height = Some(length(key, value, 60.0, 4_000.0)?),
            "type" => self.size = length(key, value, 4.0, 40.0)?,
            "title" if value.is_empty() => self.heading = Heading::Nothing,
            "title" => self.heading = Heading::Text(value.to_owned()),
            "subject" => self.subjects.push(value.to_owned()),
            "row" => self.rows.push(value.to_owned()),
            "measure" => self.measures.push(value.to_owned()),
            "compare" => {
                parts_of(value).ok_or_else(|| {
                    format!("compare={value}: expected MEASURE of SUBJECT, as in `delay up p99 of flow call`")
                })?;
                self.quantities.push(value.to_owned());
            }
            "from" | "to" => {
                number_in(value)
                    .ok_or_else(|| format!("{key}={value}: a number with its unit is expected, such as 20ms"))?;
                *(if key == "from" { &mut self.from } else { &mut self.to }) = Some(value.to_owned());
            }
            "form" => {
                let form = FORMS.iter().find(|(name, _)| *name == value);
                let names = || FORMS.map(|(name, _)| name).join(", ");
                self.form = Some(form.ok_or_else(|| format!("`{value}` is no form; there are {}", names()))?.1);
            }
            _ => {
                return Err(format!(
                    "`{key}` is no key of a look; there are width, height, type, title, subject, row, measure, compare, form, \
                     from and to"
                ));
            }
        }
        let letters = self.width / self.size;
        if letters < 16.0 {
            return Err(format!(
                "{} points are too narrow for type of {} points: at least 16 times as wide",
                self.width, self.size
            ));
        }
        Ok(())
    }

    /// The factor for distances that are given for type of 13 points.
    pub(crate) fn unit(&self) -> f64 {
        self.size / NORMAL
    }
    /// The size of less important text, given for type of 13 points. On paper no text is smaller than the size that was chosen.
    pub(crate) fn type_of(&self, size: f64) -> f64 {
        let least = if self.on_paper { self.size } else { 0.0 };
        (size * self.unit()).max(least)
    }
    /// Whether a legend fits beside a plot.
    pub(crate) fn is_wide(&self) -> bool {
        self.width / self.size >= 50.0
    }
    pub(crate) fn finish(&self) -> Finish {
        Finish { grey: self.grey, on_paper: self.on_paper }
    }
    /// The heading of a figure with this title, if any.
    pub(crate) fn heading<'a>(&'a self, title: &'a str) -> Option<&'a str> {
        match &self.heading {
            Heading::Title => Some(title),
            Heading::Nothing => None,
            Heading::Text(text) => Some(text),
        }
    }

    /// The items that `wanted` selects by their names, in its order: those with that name, or else those with all of its words, such as
    /// the curves of a variant. A part of a word means nothing.
    pub(crate) fn chosen<T: Clone>(
        items: &[T],
        wanted: &[String],
        name: impl Fn(&T) -> &str,
        what: &str,
    ) -> Result<Vec<usize>, String> {
        if wanted.is_empty() {
            return Ok((0..items.len()).collect());
        }
        let mut chosen: Vec<usize> = Vec::new();
        for wanted in wanted {
            let named = |is: &dyn Fn(&str) -> bool| -> Vec<usize> {
                (0..items.len()).filter(|n| is(name(&items[*n]))).collect()
            };
            let mut found = named(&|name| name.to_lowercase() == wanted.to_lowercase());
            if found.is_empty() {
                found = named(&|name| has_words(name, wanted));
            }
            if found.is_empty() {
                let names: Vec<&str> = items.iter().map(&name).collect();
                return Err(not_meant(&names, wanted, what));
            }
            for n in found {
                if !chosen.contains(&n) {
                    chosen.push(n);
                }
            }
        }
        Ok(chosen)
    }

    /// Whether a plot has a curve for each row that is wanted.
    pub(crate) fn has_rows(&self, plot: &Plot) -> bool {
        Self::chosen(&plot.curves, &self.rows, |curve| &curve.name, "curve").is_ok()
    }

    /// The part of a plot that is to be drawn, in the form wanted.
    ///
    /// # Errors
    /// If a row that is wanted does not exist.
    pub(crate) fn plot(&self, mut plot: Plot) -> Result<Plot, String> {
        let chosen = Self::chosen(&plot.curves, &self.rows, |curve| &curve.name, "curve")?;
        plot.choose(|curves| *curves = chosen.into_iter().map(|n| curves[n].clone()).collect());
        let is_cumulative = plot.style == Style::Cdf && !plot.curves.is_empty();
        if is_cumulative && plot.curves.iter().all(|curve| curve.points.iter().all(|point| point.1 <= 0.0)) {
            let names: Vec<&str> = plot.curves.iter().map(|curve| curve.name.as_str()).collect();
            return Err(format!(
                "`{}` has nothing to draw: nothing was completed by {}, or in the smaller part of the runs only",
                plot.title,
                names.join(", ")
            ));
        }
        plot.note_left();
        // Greys have no hue by which one band could be seen through others.
        let are_hidden =
            self.grey && plot.curves.iter().filter(|curve| !curve.band.is_empty()).count() > MOST_GREY_BANDS;
        if self.bands && are_hidden {
            let note = "Bands are left out: in grey those of so many curves would hide each other.";
            let notes = plot.note.take().into_iter().chain([note.to_owned()]);
            plot.note = notes.reduce(|notes, note| format!("{notes} {note}"));
        }
        if !self.bands || are_hidden {
            plot.curves.iter_mut().for_each(|curve| curve.band.clear());
        }
        if self.log && matches!(plot.style, Style::Lines | Style::Steps | Style::Marks) {
            plot.y.scale = Scale::Log;
        }
        if self.log && matches!(plot.style, Style::Cdf | Style::Ccdf) {
            plot.x.scale = Scale::Log;
        }
        if self.log {
            plot.leave_gaps();
        }
        if plot.style == Style::Cdf {
            match self.form {
                Some(Form::Ccdf) => plot = plot.complementary(),
                // A paper shows shares from 0 to 1, unless the tail is asked for.
                form if form == Some(Form::Ecdf) || (self.on_paper && !self.log) => {
                    (plot.y.scale, plot.y.range) = (Scale::Linear, [Some(0.0), Some(1.0)]);
                }
                _ => {}
            }
        }
        self.ranged(plot)
    }

    /// The panels of which something is to be drawn.
    pub(crate) fn panels(&self, panels: Panels) -> Result<Panels, String> {
        let by_name = Self::chosen(&panels.panels, &self.rows, |(name, _)| name, "panel");
        if let Ok(chosen) = by_name {
            let whole = Self { rows: Vec::new(), ..self.clone() };
            let panel = |n: usize| Ok((panels.panels[n].0.clone(), whole.plot(panels.panels[n].1.clone())?));
            let chosen = chosen.into_iter().map(panel).collect::<Result<Vec<_>, String>>()?;
            return Ok(Panels { title: panels.title, panels: chosen });
        }
        let panel = |(name, plot): (String, Plot)| Ok((name, self.plot(plot)?));
        let chosen = panels.panels.into_iter().map(panel).collect::<Result<Vec<_>, String>>()?;
        Ok(Panels { title: panels.title, panels: chosen })
    }

    /// The part of a comparison that is to be drawn: of each subject the rows and measures that it has of those that are wanted.
    ///
    /// # Errors
    /// If no subject has a row or a measure that is wanted.
    pub fn comparison(&self, comparison: &Comparison) -> Result<Comparison, String> {
        let comparison = &self.comparison_of_quantities(comparison)?;
        let all: Vec<Group> = comparison.groups.iter().map(|group| group.with_others(&self.measures)).collect();
        let (mut groups, mut wanted) = (all.iter().collect::<Vec<_>>(), self.rows.clone());
        if groups.iter().all(|group| group.name.is_empty()) {
            // Without variants the subjects are the rows.
            wanted.extend(self.subjects.iter().cloned());
        } else {
            let chosen = Self::chosen(&groups, &self.subjects, |group| &group.name, "subject")?;
            groups = chosen.into_iter().map(|n| groups[n]).collect();
        }
        // What each text means in each group. A text that means nothing in all of them is a mistake.
        let names = |of: fn(&Group) -> Vec<&str>, others: fn(&Group) -> Vec<&str>, wanted: &[String], what: &str| {
            for text in wanted {
                let one = std::slice::from_ref(text);
                if !groups.iter().any(|group| Self::chosen(&of(group), one, |name| name, what).is_ok()) {
                    let names = each_once(groups.iter().flat_map(|group| of(group).into_iter().chain(others(group))));
                    return Err(not_meant(&names, text, what));
                }
            }
            let in_group = |group: &&Group| {
                let names = of(group);
                let is_there =
                    |text: &&String| Self::chosen(&names, std::slice::from_ref(*text), |name| name, what).is_ok();
                let there: Vec<String> = wanted.iter().filter(is_there).cloned().collect();
                match there.is_empty() && !wanted.is_empty() {
                    true => Ok(Vec::new()),
                    false => Self::chosen(&names, &there, |name| name, what),
                }
            };
            groups.iter().map(in_group).collect::<Result<Vec<_>, String>>()
        };
        fn of_rows(group: &Group) -> Vec<&str> {
            group.rows.iter().map(|row| row.name.as_str()).collect()
        }
        fn of_measures(group: &Group) -> Vec<&str> {
            group.measures.iter().map(|measure| measure.name.as_str()).collect()
        }
        fn of_others(group: &Group) -> Vec<&str> {
            group.others.iter().map(|(measure, _)| measure.name.as_str()).collect()
        }
        let rows = names(of_rows, |_| Vec::new(), &wanted, "row")?;
        let measures = names(of_measures, of_others, &self.measures, "measure")?;
        let parts = groups.iter().zip(rows.iter().zip(&measures));
        let parts = parts.filter(|(_, (rows, measures))| !rows.is_empty() && !measures.is_empty());
        let found = parts.map(|(group, (rows, measures))| part(group, rows, measures)).collect();
        Ok(Comparison::new(comparison.title.as_str(), found))
    }

    /// The lines of a text below a figure `width` wide, and the text that is left to the caption: one of both is empty.
    pub(crate) fn note(&self, text: String, size: f64, width: f64) -> (Vec<String>, String) {
        match self.notes {
            true => (Self::lines(&text, size, width - 24.0 * self.unit()), String::new()),
            false => (Vec::new(), text),
        }
    }

    /// Breaks a text into lines that fit into `most` in the font of any reader.
    pub(crate) fn lines(text: &str, size: f64, most: f64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        // A number stays with its percent sign.
        let text = text.replace(" %", "\u{a0}%");
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            match lines.last_mut() {
                Some(line) if room(&format!("{line} {word}"), size) <= most => *line += &format!(" {word}"),
                _ => lines.push(word.to_owned()),
            }
        }
        // A last word does not stand alone.
        if let [.., before, last] = lines.as_mut_slice()
            && !last.contains(' ')
            && let Some((rest, word)) = before.rsplit_once(' ')
        {
            (*last, *before) = (format!("{word} {last}"), rest.to_owned());
        }
        lines.iter().map(|line| line.replace('\u{a0}', " ")).collect()
    }
}

/// A group with some of its rows and measures.
pub(crate) fn part(group: &Group, rows: &[usize], measures: &[usize]) -> Group {
    let mut some = Group { name: group.name.clone(), ..Group::default() };
    some.measures = measures.iter().map(|n| group.measures[*n].clone()).collect();
    for row in rows.iter().map(|n| &group.rows[*n]) {
        let cells = measures.iter().map(|n| row.cells.get(*n).cloned().flatten()).collect();
        some.rows.push(crate::comparison::Row { cells, ..row.clone() });
    }
    some
}

/// Reads a length in points of TeX, or with a unit.
fn length(key: &str, text: &str, least: f64, most: f64) -> Result<f64, String> {
    let units = [("pt", 1.0), ("in", 72.27), ("cm", 72.27 / 2.54), ("mm", 72.27 / 25.4), ("", 1.0)];
    let read = |(unit, points): (&str, f64)| Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * points);
    let wrong = |why: &dyn Display| format!("{key}={text}: {why}");
    let value = units.into_iter().find_map(read).ok_or_else(|| wrong(&"a length is expected: 252pt, 3.5in or 89mm"))?;
    if !(least..=most).contains(&value) {
        return Err(wrong(&format!("from {least} to {most} points")));
    }
    Ok(value)
}

#[cfg(test)]
mod tests;

//! The answer of a comparison, as `simulate` and `compare` print it: the conclusion first, then the values that it is drawn from.

use std::io::Write;

use tidegate_display::wrapped;
use tidegate_report::OverPoints;
use tidegate_report::comparison::Comparison;
use tidegate_sim::scenario::is_further;

use super::simulate::Item;
use super::simulate::values::tables;
use crate::output::width;

/// The most rows of the tables of a sweep that are printed without being asked for.
const ROWS: usize = 60;

/// A comparison, and how much of it is printed.
pub(super) struct Answer<'a> {
    /// The differences that are stated together.
    pub comparison: &'a Comparison,
    /// Whether a look has chosen them.
    pub is_part: bool,
    /// The quantities that scenarios name before their first run.
    pub primary: &'a [String],
    /// The number of runs of a simulation.
    pub runs: Option<usize>,
    /// Whether every sentence and every value is wanted.
    pub all: bool,
    /// How a file has all values, for a hint.
    pub files: &'a str,
}

impl Answer<'_> {
    /// Whether variants are compared.
    fn is_compared(&self) -> bool {
        self.comparison.groups.iter().any(|group| group.rows.len() > 1 && !group.name.is_empty())
    }

    /// Writes the conclusion and the values of `items`.
    pub fn write(&self, out: &mut impl Write, items: &[Item]) -> std::io::Result<()> {
        if self.is_compared() && self.comparison.has_points() && !self.all {
            return self.write_points(out, items.len());
        }
        if self.is_compared() {
            self.conclude(out)?;
            writeln!(out)?;
            if self.all {
                self.write_differences(out)?;
            }
        }
        let shown = items.iter().filter(|item| self.all || self.has(item));
        let shown: Vec<Item> = shown.cloned().map(|item| item.over_common(self.comparison)).collect();
        tables(out, shown.iter(), width())?;
        if let Some(why) = self.comparison.why_no_interval().filter(|_| !self.is_compared()) {
            writeln!(out, "{}", wrapped(&why, width()))?;
        }
        self.say_rest(out, items.len() - shown.len())
    }

    /// Writes the differences of all pairs that are stated, with their probabilities.
    fn write_differences(&self, out: &mut impl Write) -> std::io::Result<()> {
        let differences = self.comparison.differences();
        if differences.rows.is_empty() {
            return Ok(());
        }
        writeln!(out, "{}", differences.text(width()))
    }

    /// Whether a value is among those that the answer is about or, where nothing is compared, among the usual ones.
    fn has(&self, item: &Item) -> bool {
        if self.is_part || self.is_compared() {
            return item.is_in(self.comparison);
        }
        let last = item.measure.rsplit(' ').next().unwrap_or_default();
        !is_further(&item.measure) || self.primary.iter().any(|of| of.split(' ').any(|word| word == last))
    }

    /// States which variants are told apart: by the first measure of each subject that does, or by all that were chosen.
    fn conclude(&self, out: &mut impl Write) -> std::io::Result<()> {
        let all = self.comparison.sentences();
        let is_whole = self.all || self.is_part || !self.primary.is_empty();
        let sentences = if is_whole { all.clone() } else { self.comparison.summary_of_variants() };
        if self.runs.is_some_and(|runs| runs < 2) {
            let text = "One run tells nothing apart: what follows is of this run, and others may differ (--runs 5).";
            writeln!(out, "{}", wrapped(text, width()))?;
        }
        for sentence in sentences.iter().chain(&self.comparison.method()).chain(&self.unjudged()) {
            writeln!(out, "{}", wrapped(sentence, width()))?;
        }
        if all.len() > sentences.len() && self.runs.is_none_or(|runs| runs > 1) && self.comparison.repeated().is_none()
        {
            let rest = "Of each subject this is the first measure that tells variants apart; --all has all measures, and --look \
                        measure=NAME chooses one, with the correction for fewer.";
            writeln!(out, "{}", wrapped(rest, width()))?;
        }
        Ok(())
    }

    /// States why nothing is said of measures that somebody has chosen.
    fn unjudged(&self) -> Option<String> {
        self.comparison.unjudged().filter(|_| self.is_part)
    }

    /// Writes at how many points of a sweep each variant is the best, and the values there.
    fn write_points(&self, out: &mut impl Write, values: usize) -> std::io::Result<()> {
        let is_whole = self.is_part || !self.primary.is_empty();
        let OverPoints { sentences, tables, legend } = self.comparison.over_points(!is_whole);
        for sentence in sentences.iter().chain(&self.comparison.method()).chain(&self.unjudged()) {
            writeln!(out, "{}", wrapped(sentence, width()))?;
        }
        if !is_whole {
            let rest = "Of each subject this is the measure that most often is the first to tell variants apart; --look measure=NAME \
                        chooses another, with the correction for fewer.";
            writeln!(out, "{}", wrapped(rest, width()))?;
        }
        let rows: usize = tables.iter().map(|table| table.rows.len()).sum();
        for table in tables.iter().filter(|_| rows <= ROWS) {
            write!(out, "\n{}\n{}", wrapped(&table.caption, width()), table.text(width()))?;
        }
        writeln!(out)?;
        if rows <= ROWS && !legend.is_empty() {
            writeln!(out, "{}", wrapped(&legend, width()))?;
        }
        self.say_rest(
            out,
            values.saturating_sub(tables.iter().flat_map(|table| &table.rows).map(|row| row.len() - 2).sum()),
        )
    }

    /// Says how many values are not printed, and where they are.
    fn say_rest(&self, out: &mut impl Write, left: usize) -> std::io::Result<()> {
        let plural = if left == 1 { "" } else { "s" };
        let text = format!("{left} further value{plural}: --all prints all, {}.", self.files);
        if left > 0 { writeln!(out, "{}", wrapped(&text, width())) } else { Ok(()) }
    }
}

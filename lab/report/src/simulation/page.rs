//! The page of a simulation.

use tidegate_display::{Table, human, human_columns, human_known, unit_of};
use tidegate_metrics::Curve;

use super::Simulation;
use crate::comparison::bin;
use crate::curves::{self, Runs};
use crate::model::{Fold, Report, Section, Source};

/// The note of a table of differences.
pub const DIFFERENCES: &str = "Runs with the same seed meet the same random numbers and are compared with each other. Intervals are \
    those of single differences; p (Holm) is corrected for all differences of this table, and decides at 0.05. The bootstrap \
    (BCa) assumes no distribution: where its interval has zero on another side, there are too few runs for either. Further \
    runs are for a power of 80 %, if the difference is as large as it was measured.";

/// The number of runs whose curves are on a page. The page has the values of all runs.
const SHOWN: usize = 4;

impl Simulation<'_> {
    /// Creates the page, which includes the text of the scenario.
    pub fn page(&self, source: Source) -> Report {
        let mut sections = self.answer();
        sections.extend(self.curve_sections());
        sections.extend(self.steady_section());
        sections.push(Section { fold: Fold::Closed, ..Section::new("Values").with(self.value_table()) });
        sections.push(self.run_section());
        Report {
            title: self.sentence.map_or_else(|| format!("Simulation of {}", self.scenario), str::to_owned),
            sentence: self.sentence.map(|_| format!("Simulation of {}", self.scenario)),
            facts: self.facts(),
            sections,
            sources: vec![source],
            primary: Vec::new(),
        }
    }

    /// The simulations that were made, by names.
    fn facts(&self) -> Vec<(String, String)> {
        let seconds = |nanos: u64| human(nanos as f64 / 1e9, "s");
        let first = self.runs.first().map_or(0, |run| run.seed);
        let facts = [
            ("version", self.version.to_owned()),
            ("scenario", self.scenario.to_owned()),
            ("simulated", seconds(self.duration_ns)),
            ("warm-up", seconds(self.warm_up_ns)),
            ("seed", first.to_string()),
            ("runs", self.runs.len().to_string()),
            ("events", self.runs.iter().map(|run| run.events).sum::<u64>().to_string()),
            ("digest", self.digest.clone()),
        ];
        let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value));
        let facts = facts.chain(self.notes.iter().map(|note| ("note".to_owned(), note.clone())));
        facts.chain(self.unfinished().map(|unfinished| ("not completed".to_owned(), unfinished))).collect()
    }

    /// The comparison of the variants, and the differences that it was decided by.
    fn answer(&self) -> Vec<Section> {
        let comparison = self.comparison();
        if comparison.groups.is_empty() {
            return Vec::new();
        }
        let differences = comparison.differences();
        let mut answer = Section::new("Answer");
        if self.runs.len() == 1 && !comparison.summary_of_variants().is_empty() {
            answer = answer.note("One run tells nothing apart: this is what it has, and others may differ.");
        }
        let mut sections = vec![answer.with(comparison)];
        if !differences.rows.is_empty() {
            let section = Section::new("Differences").note(DIFFERENCES).with(differences);
            sections.push(Section { fold: Fold::Closed, ..section });
        }
        sections
    }

    /// The curves of all runs together, if there are several, and of the first runs.
    fn curve_sections(&self) -> Vec<Section> {
        let many = self.runs.len() > 1;
        let begin = self.warm_up_ns as f64 / 1e9;
        let mut measured: Vec<Vec<Curve>> = self.runs.iter().map(|run| curves::measured(run.curves, begin)).collect();
        let widths = measured.iter_mut().filter(|_| self.smooth).filter_map(|run| curves::smooth(run));
        let goodput = widths.reduce(f64::max);
        let bins = "Rates, delays and queues are means over the width of a bin; the warm-up is not measured.";
        let mut sections = Vec::new();
        if many {
            let apart = if self.runs.len() < 5 {
                "between the least and the greatest run"
            } else {
                "between the quartiles of the runs"
            };
            let note = format!("Lines are the medians of {} runs, bands are {apart}. {bins}", self.runs.len());
            // The median of runs may end where some of them have transfers left.
            let quantities = self.quantities().into_iter();
            let left = quantities.filter_map(|of| Some(((of.subject, of.left?.what), of.left?.to_string()))).collect();
            let runs = Runs::new(measured.iter().map(Vec::as_slice)).with_left(left);
            sections.extend(curves::sections_of_runs("", &note, &runs, Fold::Open));
        }
        for (run, measured) in self.runs.iter().zip(&measured).take(SHOWN) {
            let (title, fold) =
                if many { (format!("Seed {}: ", run.seed), Fold::Closed) } else { (String::new(), Fold::Open) };
            let note = format!("The run with seed {}. {bins}", run.seed);
            sections.extend(curves::sections(&title, &note, measured, fold));
        }
        if let Some(width) = goodput {
            curves::note_means(&mut sections, width);
        }
        sections
    }

    /// All values over all runs.
    fn value_table(&self) -> Table {
        let heads: &[&str] = match self.runs.len() {
            0 | 1 => &["of", "what", ">measured"],
            _ => &["of", "what", ">mean", ">± 95 %", ">least run", ">greatest run"],
        };
        let mut table = Table::new("Values over all runs", heads.iter().copied());
        for item in self.quantities() {
            let known = |value: f64| human_known(value, None, bin(&item.measure), unit_of(value, item.unit));
            let say = |value: Option<f64>| value.map_or(String::new(), known);
            let values = || item.values.iter().copied().flatten();
            let unit = unit_of(item.mean.abs().max(item.half_width_95.unwrap_or(0.0)), item.unit);
            let [mean, half] = human_columns(item.mean, item.half_width_95, bin(&item.measure), unit);
            let row = [
                item.subject.clone(),
                item.measure.clone(),
                mean,
                half,
                say(values().reduce(f64::min)),
                say(values().reduce(f64::max)),
            ];
            table.row(row.into_iter().take(heads.len()).map(Into::into));
        }
        table
    }

    /// The seeds of the runs with their digests.
    fn run_section(&self) -> Section {
        let mut runs = Table::new("Runs", ["seed", ">events", "digest"]);
        for run in &self.runs {
            runs.row([run.seed.to_string().into(), run.events.to_string().into(), run.digest.clone().into()]);
        }
        let mut section = Section { fold: Fold::Closed, ..Section::new("Runs").with(runs) };
        if self.runs.len() > SHOWN {
            section = section.note(format!("Curves of the first {SHOWN} runs are above; the table has those of all."));
        }
        section
    }
}

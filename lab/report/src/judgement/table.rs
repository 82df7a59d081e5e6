//! The differences of variants as tables: for people, and as columns for notebooks.

use tidegate_display::{Table, human, human_columns, known, unit_of, with_unit};
use tidegate_metrics::{Difference, Test};

use super::Contrast;
use super::plan::would_decide;
use crate::columns::{self, Column};
use crate::comparison::{Comparison, from_to};

impl Comparison {
    /// The differences as a table for people; empty if nothing was tested.
    pub fn differences(&self) -> Table {
        let contrasts = self.contrasts();
        let heads = [
            "of",
            "measure",
            "difference of",
            ">mean",
            ">± 95 %",
            ">bootstrap 95 %",
            ">times (95 %)",
            ">p",
            ">p (Holm)",
            "decided",
        ];
        let runs = contrasts.iter().map(|contrast| contrast.difference.runs);
        let of = runs.clone().min().zip(runs.max());
        let of = of.map_or(String::new(), |(least, most)| format!(" over {} runs", from_to(least, most)));
        let is_paired = contrasts.iter().all(|contrast| contrast.difference.test == Test::Paired);
        let (of, paired) = (of.as_str(), if is_paired { "paired differences" } else { "differences" });
        let caption = format!("Differences of the variants: means of {paired}{of}, and 95 % intervals of these means");
        let mut table = Table::new(caption, heads).shorten("of", 12).shorten("measure", 12);
        table = table.shorten("decided", 8).optional(["bootstrap 95 %", "times (95 %)", "p", "\u{b1} 95 %"]);
        for contrast in &contrasts {
            let Difference { mean, p, .. } = contrast.difference;
            let half = contrast.difference.half_width();
            let unit = unit_of(mean.abs().max(half), &contrast.unit);
            let [difference, width] = human_columns(mean, Some(half), 0.0, unit);
            // The ends have the digits of the interval, too.
            let end = |end: f64| known(end / unit.0, Some(half / unit.0), 0.0).0;
            let interval = contrast
                .bootstrap
                .map_or(String::new(), |(low, high)| with_unit(format!("{} to {}", end(low), end(high)), unit.1));
            let decided = match (contrast.is_decided(), contrast.is_equal(), contrast.more_runs()) {
                _ if contrast.difference.is_fixed() => "not changed by the seeds".to_owned(),
                (Some(true), Some(true), _) => "yes, within 2 %".to_owned(),
                (Some(true), ..) => "yes".to_owned(),
                (_, Some(true), _) => "equal within 2 %".to_owned(),
                (.., Some(more)) => format!("no; {}", would_decide(more, contrast.difference.runs, "")),
                (.., None) => "no".to_owned(),
            };
            let row = [
                contrast.subject.clone(),
                contrast.measure.clone(),
                contrast.variants.join(" - "),
                difference,
                // Differences that are equal in all pairs have a width, too.
                if width.is_empty() { human(0.0, &contrast.unit) } else { width },
                interval,
                contrast.times().unwrap_or_default(),
                p.map_or(String::new(), probability),
                contrast.stated.map_or(String::new(), |stated| probability(stated.p)),
                decided,
            ];
            table.row(row.map(Into::into));
        }
        table
    }
}

/// A probability for people, in a column of such.
fn probability(p: f64) -> String {
    probability_after(p, "")
}

/// A probability for people, where `equals` stands before one that is written whole.
pub fn probability_after(p: f64, equals: &str) -> String {
    if p < 0.0001 { "< 0.0001".to_owned() } else { format!("{equals}{p:.4}") }
}

/// The differences as columns.
pub fn difference_columns(contrasts: &[Contrast]) -> columns::Table {
    let text = |of: &dyn Fn(&Contrast) -> &str| {
        Column::Text(contrasts.iter().map(|contrast| Some(of(contrast).to_owned())).collect())
    };
    let number = |of: &dyn Fn(&Contrast) -> Option<f64>| Column::Number(contrasts.iter().map(of).collect());
    let integer = |of: &dyn Fn(&Contrast) -> Option<u64>| Column::Integer(contrasts.iter().map(of).collect());
    columns::Table::default()
        .with("subject", text(&|of| &of.subject))
        .with("measure", text(&|of| &of.measure))
        .with("unit", text(&|of| &of.unit))
        .with("first", text(&|of| &of.variants[0]))
        .with("second", text(&|of| &of.variants[1]))
        .with("mean_first", number(&|of| Some(of.means[0])))
        .with("mean_second", number(&|of| Some(of.means[1])))
        .with("counted_as", number(&|of| of.limit))
        .with("difference", number(&|of| Some(of.difference.mean)))
        .with("half_width_95", number(&|of| Some(of.difference.half_width())))
        .with("bootstrap_low_95", number(&|of| of.bootstrap.map(|interval| interval.0)))
        .with("bootstrap_high_95", number(&|of| of.bootstrap.map(|interval| interval.1)))
        .with("ratio", number(&|of| of.difference.ratio().map(|[ratio, ..]| ratio)))
        .with("ratio_low_95", number(&|of| of.difference.ratio().map(|[_, low, _]| low)))
        .with("ratio_high_95", number(&|of| of.difference.ratio().map(|[.., high]| high)))
        .with("test", text(&|of| of.test()))
        .with("pairs", integer(&|of| Some(of.difference.runs as u64)))
        .with("p", number(&|of| of.difference.p))
        .with("p_holm", number(&|of| of.stated.map(|stated| stated.p)))
        .with("comparisons", integer(&|of| of.stated.map(|stated| stated.comparisons as u64)))
        .with("decided", Column::Truth(contrasts.iter().map(Contrast::is_decided).collect()))
        .with("more_runs", integer(&|of| of.more_runs()))
        .with("p_holm_measure", number(&|of| of.alone.map(|alone| alone.p)))
        .with("comparisons_measure", integer(&|of| of.alone.map(|alone| alone.comparisons as u64)))
        .with("p_equal", number(&|of| of.equality.map(|equality| equality.p())))
        .with("p_equal_holm", number(&|of| of.stated_equality.map(|stated| stated.p)))
        .with("equal_within_2", Column::Truth(contrasts.iter().map(Contrast::is_equal).collect()))
}

//! The values of all runs as tables for people.

use std::collections::BTreeMap;
use std::io::Write;

use tidegate_display::{Alike, unit_of_all, wrapped};
use tidegate_report::Table;
use tidegate_report::comparison::{Comparison, bin, of_fewer, precision};

use super::Item;

impl Item {
    /// The subject without its variant, which stands before it.
    pub(in crate::commands) fn plain(&self) -> &str {
        self.subject.strip_prefix(&self.variant).map_or(&*self.subject, |rest| rest.trim_start_matches(": "))
    }
    /// Whether a comparison has it.
    pub(in crate::commands) fn is_in(&self, part: &Comparison) -> bool {
        // Without variants subjects are rows.
        let plain = self.plain();
        part.groups.iter().any(|group| {
            let measured = group.measures.iter().any(|measure| measure.name == self.measure);
            let (subject, row) = if group.name.is_empty() { (plain, plain) } else { (&*group.name, &*self.variant) };
            measured && subject == plain && group.rows.iter().any(|of_part| of_part.name == row)
        })
    }
    /// The value as the sentences of a comparison have it: over the runs that all variants have, if others have one besides.
    pub(in crate::commands) fn over_common(mut self, whole: &Comparison) -> Self {
        if let Some((mean, half, runs)) = whole.over_common(self.plain(), &self.variant, &self.measure) {
            (self.mean, self.half_width_95) = (mean, half);
            let all = self.values.len();
            self.values = (0..all).map(|run| (run < runs).then_some(mean)).collect();
        }
        self
    }
    /// Says of how many runs it is, for behind the number, if others have no value or have reached it.
    fn of_fewer(&self) -> String {
        let (open, measured) = (self.not_reached.len(), self.values.iter().flatten().count());
        if open > 0 {
            return if open == measured { String::new() } else { format!(" in {open} of {measured} runs") };
        }
        let missing = self.values.iter().filter(|value| value.is_none()).count();
        of_fewer(self.values.len() - missing, missing)
    }
}

/// All values: variants in columns beside each other, as many as fit, and below what has no variant.
pub(in crate::commands) fn tables<'a>(
    out: &mut impl Write,
    items: impl Iterator<Item = &'a Item>,
    width: Option<usize>,
) -> std::io::Result<()> {
    let items: &[&Item] = &items.collect::<Vec<_>>();
    let units = &Units::of(items);
    let mut variants: Vec<&str> = Vec::new();
    for item in items {
        if !item.variant.is_empty() && !variants.contains(&item.variant.as_str()) {
            variants.push(&item.variant);
        }
    }
    // Beside each other as many as fit.
    let mut rest = variants.as_slice();
    while !rest.is_empty() {
        let fits = |n: &usize| {
            let table = beside((items, units), &rest[..*n]);
            width.is_none_or(|width| table.width() <= width)
        };
        let n = (1..=rest.len()).rev().find(fits).unwrap_or(1);
        write!(out, "{}", beside((items, units), &rest[..n]).text(width))?;
        rest = &rest[n..];
        if !rest.is_empty() {
            writeln!(out)?;
        }
    }
    let alone = || items.iter().filter(|item| item.variant.is_empty());
    // One run, and runs that are one, have no interval.
    let has_halves = alone().any(|item| item.half_width_95.is_some());
    let heads: &[&str] = if has_halves { &["of", "what", ">mean", ">± 95 %"] } else { &["of", "what", ">value"] };
    let mut table = Table::new("", heads.iter().copied()).shorten("of", 16).shorten("what", 16);
    let mut subject = "";
    for item in alone() {
        let [mean, half] = units.of_quantity(item).columns(item.mean, item.half_width_95);
        let half = if item.half_width_95 == Some(0.0) { "equal".to_owned() } else { half };
        let name = if item.subject == subject { "" } else { &item.subject };
        subject = &item.subject;
        let cells = [name.to_owned(), item.measure.clone(), mean + &item.of_fewer(), half];
        table.row(cells.into_iter().take(heads.len()).map(Into::into));
    }
    if !table.rows.is_empty() {
        write!(out, "{}", table.text(width))?;
    }
    let halves = || items.iter().map(|item| item.half_width_95);
    let has_halves = halves().flatten().any(|half| half > 0.0);
    let others = || items.iter().filter(|item| item.half_width_95.is_none_or(|half| half <= 0.0));
    let single = others().any(|item| item.values.iter().flatten().count() < 2);
    let without = [single, others().next().is_some()];
    if let Some(text) = precision(items.iter().map(|item| item.values.len()), has_halves, without) {
        writeln!(out, "{}", wrapped(&text, width))?;
    }
    Ok(())
}

/// The unit of each measure, the same for all subjects and variants, and the decimals of each quantity, the same for all variants, so that its
/// numbers can be compared.
struct Units<'a>(BTreeMap<[&'a str; 3], Alike<'a>>);

/// The subject, the measure and its unit.
fn quantity(item: &Item) -> [&str; 3] {
    [item.plain(), &item.measure, item.unit]
}

impl<'a> Units<'a> {
    fn of(items: &[&'a Item]) -> Self {
        let mut means: BTreeMap<[&str; 2], Vec<f64>> = BTreeMap::new();
        let mut values: BTreeMap<[&str; 3], Vec<(f64, Option<f64>)>> = BTreeMap::new();
        for item in items {
            let of @ [_, measure, unit] = quantity(item);
            means.entry([measure, unit]).or_default().push(item.mean);
            values.entry(of).or_default().push((item.mean, item.half_width_95));
        }
        let alike = |(of @ [_, measure, unit], values): ([&'a str; 3], Vec<_>)| {
            let means = means.get(&[measure, unit]).into_iter().flatten().copied();
            (of, Alike::in_unit(&values, bin(measure), unit_of_all(means, unit)))
        };
        Self(values.into_iter().map(alike).collect())
    }
    fn of_quantity(&self, item: &'a Item) -> Alike<'a> {
        let alone = || Alike::of(&[(item.mean, item.half_width_95)], bin(&item.measure), item.unit);
        self.0.get(&quantity(item)).copied().unwrap_or_else(alone)
    }
}

/// A table with a column for each of the variants.
fn beside<'a>((items, units): (&[&'a Item], &Units<'a>), variants: &[&str]) -> Table {
    let heads: Vec<String> = variants.iter().map(|variant| format!(">{variant}")).collect();
    let columns = ["of", "what"].into_iter().chain(heads.iter().map(String::as_str));
    let mut table = Table::new("", columns).shorten("of", 16).shorten("what", 16);
    let mut rows: Vec<((&str, &str), Vec<String>)> = Vec::new();
    let mut known = std::collections::HashMap::new();
    for item in items {
        let Some(column) = variants.iter().position(|variant| *variant == item.variant) else { continue };
        // The subject has its variant before it.
        let subject = item.subject.get(item.variant.len() + 2..).unwrap_or(&item.subject);
        let key = (subject, item.measure.as_str());
        let row = *known.entry(key).or_insert_with(|| {
            rows.push((key, vec![String::new(); variants.len()]));
            rows.len() - 1
        });
        let number = units.of_quantity(item).text(item.mean, item.half_width_95);
        rows[row].1[column] = number + &item.of_fewer();
    }
    let mut above = "";
    for ((subject, measure), cells) in rows {
        let name = if subject == above { "" } else { subject };
        above = subject;
        table.row([name, measure].map(str::to_owned).into_iter().chain(cells).map(Into::into));
    }
    table
}

//! The answer about the points of a sweep: at how many of them each variant is the best, and the values there.

use std::collections::BTreeMap;

use crate::bars::subject_of;
use crate::comparison::{Better, Comparison, Group};
use crate::judgement::Family;
use crate::paper::Rows;
use crate::standing::Best;
use tidegate_display::Table;

/// A measure of a subject at the points of a sweep.
struct Quantity<'a> {
    measure: &'a str,
    subject: &'a str,
    better: Better,
    /// Its group at each point, and its place in it.
    at: Vec<(&'a Group, usize)>,
}

impl<'a> Quantity<'a> {
    /// States at how many points each variant is the best; `None` if nothing is better than another.
    fn sentence(&self, family: &Family) -> Option<String> {
        let mut found: Vec<(Best<'_>, usize)> = Vec::new();
        for (group, at) in &self.at {
            let best = match group.standing(*at, family) {
                // Which of them is ahead at a point matters less than who they are.
                Best::Several(first, open) => {
                    let mut all = [first, open].concat();
                    all.sort_by_key(|name| group.rows.iter().position(|row| row.name == *name));
                    Best::Several(all, Vec::new())
                }
                other => other,
            };
            match found.iter_mut().find(|(known, _)| *known == best) {
                Some((_, count)) => *count += 1,
                None => found.push((best, 1)),
            }
        }
        if self.better == Better::Neither {
            return None;
        }
        found.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let (ends, all) = (if self.better == Better::More { "most" } else { "least" }, self.at.len());
        // The first winner has the verb.
        let first = found.iter().position(|(best, _)| matches!(best, Best::One(_) | Best::Several(..)));
        let said = |(n, (best, count)): (usize, &(Best<'_>, usize))| {
            let verb = if first == Some(n) { format!(" has the {ends}") } else { String::new() };
            let what = match best {
                Best::One(only) => format!("{only}{verb}"),
                Best::Only(only) => format!("{only} alone reaches it in all runs, which is not tested,"),
                Best::Several(names, _) => format!("{}{verb}", names.join(" or ")),
                Best::Alike => "no difference above 2 %".to_owned(),
                Best::Undecided => "undecided".to_owned(),
                Best::Nobody => "no variant reaches it in all runs".to_owned(),
                Best::Untested => "single runs decide nothing".to_owned(),
            };
            match (n, *count == all) {
                (_, true) => format!("{what} at all {all} points"),
                (0, _) => format!("{what} at {count} of {all} points"),
                _ => format!("{what} at {count}"),
            }
        };
        let parts: Vec<String> = found.iter().enumerate().map(said).collect();
        Some(format!("{} of {}: {}", self.measure, self.subject, parts.join("; ")))
    }

    /// The values as a table with a row for each point, and who is the best there.
    fn table(&self, family: &Family) -> Option<Table> {
        let groups = self.at.iter().map(|(group, at)| {
            let all: Vec<usize> = (0..group.rows.len()).collect();
            crate::look::part(group, &all, &[*at])
        });
        let rows = Rows::grid_of(&Comparison::new("", groups.collect()))?;
        let best = |(group, at): &(&'a Group, usize)| match group.standing(*at, family) {
            Best::One(only) => only.to_owned(),
            Best::Only(only) => format!("({only})"),
            Best::Several(first, open) => {
                let open = open.into_iter().map(|name| format!("{name}?"));
                first.into_iter().map(str::to_owned).chain(open).collect::<Vec<_>>().join(" ")
            }
            Best::Alike => "alike".to_owned(),
            Best::Undecided => "?".to_owned(),
            Best::Nobody | Best::Untested => String::new(),
        };
        let last = (self.better != Better::Neither).then(|| self.at.iter().map(best).collect::<Vec<_>>());
        Some(rows.text(last))
    }
}

impl Comparison {
    /// Whether it is of the points of a sweep: subjects have a group at each.
    pub fn has_points(&self) -> bool {
        let mut groups = self.groups.iter().filter(|group| subject_of(&group.name) != group.name);
        groups.next().is_some_and(|first| groups.any(|other| subject_of(&other.name) == subject_of(&first.name)))
    }

    /// The answer at the points of a sweep: of each quantity at how many points each variant is the best, and a table of its values. If
    /// `headlines` is set, of each subject the measure alone that most often is the first to tell variants apart.
    pub fn over_points(&self, headlines: bool) -> (Vec<String>, Vec<Table>) {
        let family = self.family();
        let mut all = self.quantities_over_points();
        if headlines {
            let first = self.headlines(&family);
            all.retain(|quantity| first.get(quantity.subject) == Some(&quantity.measure));
        }
        let sentences = all.iter().filter_map(|quantity| quantity.sentence(&family)).collect();
        (sentences, all.iter().filter_map(|quantity| quantity.table(&family)).collect())
    }

    fn quantities_over_points(&self) -> Vec<Quantity<'_>> {
        let mut all: Vec<Quantity<'_>> = Vec::new();
        for group in &self.groups {
            for (at, measure) in group.measures.iter().enumerate() {
                let (name, subject) = (measure.name.as_str(), subject_of(&group.name));
                match all.iter_mut().find(|known| (known.measure, known.subject) == (name, subject)) {
                    Some(known) => known.at.push((group, at)),
                    None => {
                        all.push(Quantity { measure: name, subject, better: measure.better, at: vec![(group, at)] })
                    }
                }
            }
        }
        // A subject has its measures beside each other, which a point may lack.
        let mut order: Vec<&str> = Vec::new();
        for group in &self.groups {
            if !order.contains(&subject_of(&group.name)) {
                order.push(subject_of(&group.name));
            }
        }
        all.sort_by_key(|quantity| order.iter().position(|subject| *subject == quantity.subject));
        all
    }

    /// The measure of each subject that is the headline at the most points.
    fn headlines(&self, family: &Family) -> BTreeMap<&str, &str> {
        let mut counts: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
        for group in &self.groups {
            let Some(at) = group.headline(family) else { continue };
            let of_subject = counts.entry(subject_of(&group.name)).or_default();
            match of_subject.iter_mut().find(|(name, _)| *name == group.measures[at].name) {
                Some((_, count)) => *count += 1,
                None => of_subject.push((&group.measures[at].name, 1)),
            }
        }
        // Of equally many the one that comes first.
        let most = |(subject, names): (_, Vec<(_, usize)>)| {
            let (name, _) = names.into_iter().rev().max_by_key(|(_, count)| *count)?;
            Some((subject, name))
        };
        counts.into_iter().filter_map(most).collect()
    }
}

//! [`Best`]: who is the best by a measure, as maps and the answer about the points of a sweep have it.

use crate::comparison::{Group, Row, is_of_completed};
use crate::judgement::Family;

/// Who is the best by a measure.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Best<'a> {
    /// The runs tell this one apart from all others.
    One(&'a str),
    /// This one alone reached it in all runs, and is not told apart from all others.
    Only(&'a str),
    /// Those that are perhaps the best: the first are the best and those that are equal to it within 2 %; the runs do not tell the others
    /// apart from it. Both from the best mean to the worst.
    Several(Vec<&'a str>, Vec<&'a str>),
    /// All are equal within 2 %.
    Alike,
    /// The runs tell no variant apart from another.
    Undecided,
    /// No variant reached the measure in all runs.
    Nobody,
    /// Single runs decide nothing.
    Untested,
    /// One of the variants has the mean of what it completed alone, which is not tested.
    OfCompleted,
}

impl<'a> Best<'a> {
    /// The variants that have a colour in a map.
    pub(crate) fn coloured(&self) -> impl Iterator<Item = &'a str> {
        let all = match self {
            Self::One(only) => vec![*only],
            Self::Several(first, open) => [first.as_slice(), open.as_slice()].concat(),
            _ => Vec::new(),
        };
        all.into_iter()
    }
}

impl Group {
    /// Who is the best by a measure.
    pub(crate) fn standing(&self, at: usize, family: &Family) -> Best<'_> {
        if self.ranked(at).is_empty() {
            return Best::Nobody;
        }
        let ranked = self.judged(at);
        if let [(only, _)] = ranked.as_slice() {
            let told = self.orders_of_open(at, family);
            let is_first = |row: &Row| row.name == *only || told.contains(&[only, &row.name]);
            return if self.rows.iter().all(is_first) { Best::One(only) } else { Best::Only(only) };
        }
        let Some(verdict) = self.verdict(at, &ranked, family) else {
            return if is_of_completed(&ranked) { Best::OfCompleted } else { Best::Untested };
        };
        if verdict.alike.len() + 1 == ranked.len() && !verdict.leads_open {
            return Best::Alike;
        }
        if verdict.is_open() {
            return Best::Undecided;
        }
        let perhaps = verdict.perhaps();
        let (open, first): (Vec<usize>, Vec<usize>) =
            verdict.candidates.iter().partition(|place| perhaps.contains(place));
        let names = |places: Vec<usize>| places.into_iter().map(|place| ranked[place].0).collect::<Vec<_>>();
        match (first.as_slice(), open.is_empty()) {
            ([only], true) => Best::One(ranked[*only].0),
            _ => Best::Several(names(first), names(open)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::comparison::Comparison;
    use crate::judgement::tests::quantity;
    use crate::simulation::{Quantity, compared_whole};

    /// The first is told apart from the third, and not from the second, whose runs vary so much; the fourth is equal to the first. The second
    /// is perhaps the best, also where its mean is worse than that of the third.
    #[test]
    fn the_best_and_who_is_not_told_apart_from_it_are_named() {
        let of = |name: &str, value: &dyn Fn(u64) -> f64| {
            quantity((name, "flow short", "completion p50"), (1..=6).map(|seed| Some(value(seed))))
        };
        let found = [
            of("fq-codel", &|seed| 229e6 + 1e5 * seed as f64),
            of("fifo", &|seed| if seed % 2 == 0 { 1800e6 } else { 131e6 }),
            of("cake", &|seed| 289e6 + 1e5 * (seed % 3) as f64),
            of("pie", &|seed| 230e6 + 1.1e5 * seed as f64),
        ];
        let said = |found: &[Quantity]| {
            let comparison: Comparison = compared_whole(found);
            let standing = comparison.groups[0].standing(0, &comparison.family());
            format!("{standing:?}")
        };
        assert_eq!(said(&found), r#"Several(["fq-codel", "pie"], ["fifo"])"#);
        let worse = of("cake", &|seed| 989e6 + 1e5 * (seed % 3) as f64);
        let near = [found[0].clone(), found[1].clone(), worse, found[3].clone()];
        assert_eq!(said(&near), r#"Several(["fq-codel", "pie"], ["fifo"])"#);
        assert_eq!(said(&[found[0].clone(), found[2].clone()]), r#"One("fq-codel")"#);
        assert_eq!(said(&[found[0].clone(), found[3].clone()]), "Alike");
        assert_eq!(said(&found[..2]), "Undecided");
        // One that alone reached it in all runs is tested against those that did not reach it in all.
        let open = |of: &Quantity| {
            let mut values = of.values.clone();
            values[0] = Some(f64::INFINITY);
            Quantity { values, mean: f64::INFINITY, half_width_95: None, ..of.clone() }
        };
        let alone = [found[0].clone(), open(&found[1]), open(&found[2])];
        assert_eq!(said(&alone), "Undecided");
        // Those whose runs are not known, as in an artifact, are tested against nobody.
        let unknown =
            alone.clone().map(|of| if of.mean.is_finite() { of } else { Quantity { seeds: Vec::new(), ..of } });
        assert_eq!(said(&unknown), r#"Only("fq-codel")"#);
        assert_eq!(said(&[open(&found[0]), open(&found[1])]), "Nobody");
        let sentence = |found: &[Quantity]| compared_whole(found).sentences().remove(0);
        let both = sentence(&[open(&found[0]), open(&found[1])]);
        assert_eq!(both, "completion p50 of flow short: not reached by fq-codel in 1 of 6 runs, fifo in 1 of 6 runs");
    }
}

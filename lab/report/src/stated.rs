//! The differences that are stated together, for which probabilities are corrected: all that a comparison has, what a look chooses of it,
//! or the quantities that a scenario names before its first run.

use crate::bars::subject_of;
use crate::comparison::{Better, Comparison, Group, each_once};
use crate::look::{Look, part};
use crate::simulation::{Quantity, compared_whole};
use tidegate_metrics::names::{parts_of, the_only};

impl Look {
    /// Whether the look chooses subjects, rows, measures or quantities. The answer is about these alone then.
    pub fn chooses_parts(&self) -> bool {
        [&self.subjects, &self.rows, &self.measures, &self.quantities].iter().any(|chosen| !chosen.is_empty())
    }

    /// Whether the look chooses what variants are compared by. Rows are variants, and leave this open.
    pub(crate) fn chooses_quantities(&self) -> bool {
        [&self.subjects, &self.measures, &self.quantities].iter().any(|chosen| !chosen.is_empty())
    }

    /// The part of a comparison that is stated: what the look chooses or, if it chooses no more than rows, the quantities of `primary`,
    /// each as `MEASURE of SUBJECT`; all of it without either. Of quantities of `primary` that the look chooses it is corrected for all of
    /// `primary`. Also returns whether the look has chosen it.
    ///
    /// # Errors
    /// If the look or `primary` names what does not exist, with what does.
    pub fn stated(&self, comparison: &Comparison, primary: &[String]) -> Result<(Comparison, bool), String> {
        let is_compared = comparison.groups.iter().any(|group| !group.name.is_empty());
        let is_planned = is_compared && !self.chooses_quantities() && !primary.is_empty();
        if self.chooses_parts() && !comparison.groups.is_empty() && !is_planned {
            let part = self.comparison(comparison)?;
            // What was planned together is stated together, wherever a part of it is shown.
            let planned = Self { quantities: primary.to_vec(), ..Self::page() }.comparison(comparison).ok();
            let planned = planned.filter(|_| is_compared && !primary.is_empty());
            let family = planned.and_then(|planned| {
                let chosen = part.quantities().into_iter();
                let (among, besides): (Vec<_>, Vec<_>) = chosen.partition(|(measure, of)| planned.has(measure, of));
                match (among.is_empty(), besides.is_empty()) {
                    (_, true) => Some(comparison.planned.clone().unwrap_or_else(|| planned.family())),
                    // Others beside them are added to the plan, with all variants, and do not take its place.
                    (false, false) => {
                        let mut all = planned.quantities();
                        all.extend(besides);
                        Some(comparison.of_quantities(&all).family().with_others())
                    }
                    (true, false) => None,
                }
            });
            return Ok((Comparison { planned: family, ..part }, true));
        }
        if is_planned {
            let look = Self { quantities: primary.to_vec(), ..Self::page() };
            let part = look.comparison(comparison).map_err(|why| format!("primary: {why}"))?;
            let neither =
                |group: &Group| group.measures.iter().find(|measure| measure.better == Better::Neither).cloned();
            if let Some(measure) = part.groups.iter().find_map(neither) {
                return Err(format!(
                    "primary: nobody is the best by `{}`, of which neither more nor less is better; name another",
                    measure.name
                ));
            }
            if self.rows.is_empty() {
                return Ok((Comparison { planned: comparison.planned.clone(), ..part }, false));
            }
            // Whoever chooses variants has not planned fewer.
            let look = Self { rows: self.rows.clone(), ..Self::page() };
            let family = comparison.planned.clone().unwrap_or_else(|| part.family());
            return Ok((Comparison { planned: Some(family), ..look.comparison(&part)? }, true));
        }
        Ok((comparison.clone(), false))
    }

    /// The part that is stated beside figures, as [`stated`](Self::stated). The rows of the look may be curves of these figures: rows that
    /// mean no variants choose none, and everything else is chosen as without them.
    ///
    /// # Errors
    /// As [`stated`](Self::stated), for the rest of the look.
    pub fn stated_beside_figures(
        &self,
        comparison: &Comparison,
        primary: &[String],
    ) -> Result<(Comparison, bool), String> {
        match self.stated(comparison, primary) {
            Err(_) if !self.rows.is_empty() => Self { rows: Vec::new(), ..self.clone() }.stated(comparison, primary),
            stated => stated,
        }
    }

    /// The part of a comparison that has the quantities of a look, in their order; all of it if the look names none.
    ///
    /// # Errors
    /// If a quantity does not exist, with those that do, or the look also chooses subjects or measures.
    pub(crate) fn comparison_of_quantities(&self, comparison: &Comparison) -> Result<Comparison, String> {
        if self.quantities.is_empty() {
            return Ok(comparison.clone());
        }
        if !(self.subjects.is_empty() && self.measures.is_empty()) {
            return Err("compare= names single quantities; subject= and measure= choose each measure of each subject, and do not go \
                        with it"
                .into());
        }
        if comparison.groups.iter().all(|group| group.name.is_empty()) {
            return Err("compare= names what variants are compared by, and there is one variant".into());
        }
        let mut chosen: Vec<(&str, String)> = Vec::new();
        for (measure, subject) in self.quantities.iter().filter_map(|text| parts_of(text)) {
            for n in of_subject(&comparison.groups, subject)? {
                let group = &comparison.groups[n];
                let all = group.measures.iter().chain(group.others.iter().map(|(measure, _)| measure));
                let names: Vec<&str> = all.map(|measure| measure.name.as_str()).collect();
                chosen.push((the_only(&names, measure, &format!("measure of {}", group.name))?, group.name.clone()));
            }
        }
        Ok(comparison.of_quantities(&chosen))
    }
}

impl Comparison {
    /// The part of some subjects, corrected as the whole; `None` if it has none of them.
    pub(crate) fn of_subjects(&self, is_meant: impl Fn(&str) -> bool) -> Option<Self> {
        let groups: Vec<Group> = self.groups.iter().filter(|group| is_meant(&group.name)).cloned().collect();
        let family = if groups.len() < self.groups.len() { Some(self.family()) } else { self.planned.clone() };
        (!groups.is_empty()).then(|| Self { planned: family, title: self.title.clone(), groups })
    }

    /// The part that has these quantities, each the name of a measure and that of a group, in their order.
    pub(crate) fn of_quantities(&self, quantities: &[(&str, String)]) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        for (name, of) in quantities {
            let Some(group) = self.groups.iter().find(|group| group.name == *of) else { continue };
            let group = group.with_others(&[(*name).to_owned()]);
            let found: Vec<usize> = (0..group.measures.len()).filter(|at| group.measures[*at].name == *name).collect();
            let of_group = part(&group, &(0..group.rows.len()).collect::<Vec<_>>(), &found);
            match groups.iter_mut().find(|known| known.name == group.name) {
                Some(known) => known.append_measures(of_group),
                None => groups.push(of_group),
            }
        }
        Self::new(self.title.as_str(), groups)
    }
}

/// Checks a quantity that a scenario names before its first run, with the subjects and the measures that it can have, by the same rules
/// as after the runs.
///
/// # Errors
/// If it means none of them, or several, or nobody is the best by it.
pub fn check_planned(quantity: &str, measurable: &[(String, Vec<String>)]) -> Result<(), String> {
    let names = measurable.iter().flat_map(|(subject, all)| all.iter().map(move |measure| (subject, measure)));
    let of = |variant| names.clone().map(move |(of, measure)| Quantity::of_one_run(variant, of, measure, "", 1.0));
    let all: Vec<Quantity> = ["a", "b"].into_iter().flat_map(of).collect();
    Look::page().stated(&compared_whole(&all), &[quantity.to_owned()]).map(|_| ())
}

/// The places of the groups of a subject: at the points of a sweep it has one at each.
///
/// # Errors
/// If there is none, or several subjects are meant, with those that there are.
fn of_subject(groups: &[Group], subject: &str) -> Result<Vec<usize>, String> {
    let names = each_once(groups.iter().map(|group| subject_of(&group.name)));
    let name = the_only(&names, subject, "subject")?;
    Ok((0..groups.len()).filter(|n| subject_of(&groups[*n].name) == name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{Better, Measure, Row};
    use crate::simulation::compared;

    /// Whoever looks at two of three variants has planned all three.
    #[test]
    fn rows_of_what_was_planned_are_corrected_for_all_of_it() {
        let of = |variant: &'static str, by: f64| Quantity {
            values: (1..=6).map(|seed| Some(by * f64::from(10 * seed + seed % 3))).collect(),
            seeds: (1..=6).collect(),
            ..Quantity::of_one_run(variant, "flow call", "delay p99", "ns", by * 36.0)
        };
        let all: Vec<Quantity> = [("a", 1.0), ("b", 1.5), ("c", 2.0)].map(|(variant, by)| of(variant, by)).into();
        let loss = |of: &Quantity| Quantity { measure: "loss".into(), ..of.clone() };
        let all = compared("", &all.iter().map(loss).chain(all.clone()).collect::<Vec<_>>());
        let primary = ["delay p99 of flow call".to_owned()];
        for (looks, comparisons) in [
            (&["row=a,row=b"][..], 3),
            (&["compare=delay p99 of flow call,row=a,row=b"], 3),
            (&["compare=delay p99 of flow call"], 3),
            // Another quantity is added to the plan.
            (&["compare=delay p99 of flow call,compare=loss of flow call,row=a,row=b"], 6),
        ] {
            let look = Look::parse_all(looks).expect("a look");
            let (part, is_chosen) = look.stated(&all, &primary).expect("a part");
            let stated: Vec<_> = part.contrasts().iter().filter_map(|of| of.stated).map(|of| of.comparisons).collect();
            assert!(is_chosen && stated.iter().all(|found| *found == comparisons), "{looks:?}: {stated:?}");
            assert_eq!(stated.len(), if looks[0].contains("row") { comparisons / 3 } else { 3 });
        }
    }

    #[test]
    fn the_quantities_of_the_scenario_are_stated_unless_the_look_chooses_others() {
        let group = |name: &str| {
            let measures = ["goodput", "delay p99"].map(|name| Measure::new(name, "", Better::Less)).into();
            let row = |name: &str| Row { name: name.into(), cells: vec![Some(1.0.into()), Some(2.0.into())] };
            Group { name: name.into(), measures, rows: ["fifo", "codel"].map(row).into(), ..Group::default() }
        };
        let all = |names: &[&str]| Comparison::new("", names.iter().map(|n| group(n)).collect());
        let said = |look: Look, names: &[&str], primary: &str| {
            look.stated(&all(names), &[primary.to_owned()]).map(|(part, is_chosen)| {
                let of =
                    |group: Group| group.measures.iter().map(|m| format!("{} of {}", m.name, group.name)).collect();
                (part.groups.into_iter().flat_map::<Vec<String>, _>(of).collect::<Vec<_>>(), is_chosen)
            })
        };
        let primary = "delay p99 of flow call";
        let both = ["flow bulk", "flow call"];
        assert_eq!(said(Look::page(), &both, primary), Ok((vec![primary.into()], false)));
        let look = Look::parse("measure=goodput,subject=flow bulk").expect("a look");
        assert_eq!(said(look, &both, primary), Ok((vec!["goodput of flow bulk".into()], true)));
        // Rows choose variants, and the quantities stay those of the scenario.
        let look = Look::parse("row=codel").expect("a look");
        assert_eq!(said(look.clone(), &both, primary), Ok((vec![primary.into()], true)));
        let (part, _) = look.stated(&all(&both), &[primary.to_owned()]).expect("a part");
        assert_eq!(part.groups[0].rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["codel"]);
        // Beside figures rows may be curves, and choose nothing of the comparison then.
        let look = Look::parse("row=call").expect("a look");
        assert!(look.stated(&all(&both), &[primary.to_owned()]).is_err());
        let beside = |look: &Look| look.stated_beside_figures(&all(&both), &[primary.to_owned()]);
        let (part, is_chosen) = beside(&look).expect("a part");
        assert_eq!((part.quantities(), is_chosen), (vec![("delay p99", "flow call".to_owned())], false));
        let look = Look { measures: vec!["goodput".into()], ..look };
        let (part, is_chosen) = beside(&look).expect("a part");
        assert_eq!((part.quantities().len(), is_chosen), (2, true));
        assert!(beside(&Look { measures: vec!["jitter".into()], ..look }).is_err());
        // At the points of a sweep it is stated at each, and that of no other subject whose name contains it.
        let points = ["flow call at rate=2mbit", "flow call at rate=5mbit", "flow callers at rate=2mbit"];
        let at_each = points[..2].iter().map(|point| format!("delay p99 of {point}")).collect();
        assert_eq!(said(Look::page(), &points, primary), Ok((at_each, false)));
        assert!(said(Look::page(), &both, "MOS of flow call").is_err_and(|why| why.starts_with("primary: ")));
        // Parts of words mean nothing, and a name that means several measures none of them.
        let why = said(Look::page(), &both, "delay p99 of flow cal").expect_err("a typo");
        assert!(
            why.contains("no subject is meant by `flow cal`. Did you mean `flow call`? There are flow bulk, flow call"),
            "{why}"
        );
        assert!(
            said(Look::page(), &both, "goodput of flow")
                .is_err_and(|why| why.contains("flow bulk, flow call; name one"))
        );
        let mut ways = all(&["flow call"]);
        ways.groups[0].measures =
            ["delay up p99", "delay down p99"].map(|name| Measure::new(name, "", Better::Less)).into();
        let stated =
            |text: &str| Look::page().stated(&ways, &[text.to_owned()]).map(|(part, _)| part.groups[0].measures.len());
        let why = stated("delay p99 of flow call").expect_err("two directions");
        assert!(
            why.contains(
                "`delay p99` is more than one measure of flow call: delay up p99, delay down p99; name one (up is from"
            ),
            "{why}"
        );
        assert_eq!((stated("delay up p99 of call"), stated("up p99 of flow call")), (Ok(1), Ok(1)));
        let why = said(Look::page(), &both, "delay time p99 of flow call").expect_err("a word too many");
        assert!(why.contains("Did you mean `delay p99`? There are"), "{why}");
        // A quantity of which nothing is better has no answer.
        let mut neither = all(&["flow call", "flow bulk"]);
        neither.groups.iter_mut().for_each(|group| group.measures[0].better = Better::Neither);
        let why = Look::page().stated(&neither, &["goodput of flow call".to_owned()]).expect_err("no answer");
        assert!(why.contains("nobody is the best by `goodput`"), "{why}");
        // Without variants nothing is compared.
        assert_eq!(said(Look::page(), &[""], primary).map(|(all, _)| all.len()), Ok(2));
    }
}

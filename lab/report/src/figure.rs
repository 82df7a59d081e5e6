//! Finds the figures of a report: its comparison, and plots by their titles.

use std::collections::{BTreeMap, BTreeSet};

use crate::comparison::{Comparison, has_words};
use crate::drawing::Drawing;
use crate::look::{Form, Look};
use crate::model::{Curve, Fold, Panels, Part, Plot, Report, Section};
use crate::palette::{Pen, Pens};
use crate::plotting::stacked;

impl Section {
    pub(crate) fn plots(&self) -> impl Iterator<Item = &Plot> {
        self.parts.iter().flat_map(|part| match part {
            Part::Plot(plot) => vec![&**plot],
            Part::Panels(panels) => panels.plots().collect(),
            Part::Text(_) | Part::Table(_) | Part::Comparison(_) => Vec::new(),
        })
    }
    pub(crate) fn plots_mut(&mut self) -> impl Iterator<Item = &mut Plot> {
        self.parts.iter_mut().flat_map(|part| match part {
            Part::Plot(plot) => vec![&mut **plot],
            Part::Panels(panels) => panels.panels.iter_mut().map(|(_, plot)| plot).collect(),
            Part::Text(_) | Part::Table(_) | Part::Comparison(_) => Vec::new(),
        })
    }
    fn panels(&self) -> impl Iterator<Item = &Panels> {
        self.parts.iter().filter_map(|part| match part {
            Part::Panels(panels) => Some(panels),
            _ => None,
        })
    }
}

impl Report {
    /// All plots of the report, in display order.
    pub fn plots(&self) -> impl Iterator<Item = &Plot> {
        self.sections.iter().flat_map(Section::plots)
    }

    /// All comparisons of the report, in display order.
    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.sections.iter().flat_map(|section| &section.parts).filter_map(|part| match part {
            Part::Comparison(comparison) => Some(comparison),
            _ => None,
        })
    }

    /// Assigns a pen to each name that appears in the report.
    pub fn pens(&self) -> Pens {
        let rows = self.comparisons().flat_map(|comparison| &comparison.groups).flat_map(|group| &group.rows);
        let curves = self.plots().flat_map(|plot| &plot.curves);
        let names: Vec<&str> =
            rows.map(|row| row.name.as_str()).chain(curves.map(|curve| curve.name.as_str())).collect();
        Pens::named(names.iter().copied())
    }

    /// The first figure of the report, which is the comparison or else the first plot. Of a comparison it shows what is stated: what the
    /// look chooses, or else the primary quantities.
    ///
    /// # Errors
    /// If there is neither, or the look wants what is not there.
    pub fn first_figure(&self, look: &Look) -> Result<Drawing, String> {
        let pens = self.pens();
        if let Some(comparison) = self.comparisons().next() {
            let drawing = look.stated(comparison, &self.primary)?.0.figure(&pens, look);
            return drawing?.ok_or_else(|| "there is a single run, and this form shows several".into());
        }
        let plot = self.plots().next().ok_or("the report has no figure")?;
        let plot = look.plot(plot.clone())?;
        Ok(plot.drawing(&plot.pens(&pens), look))
    }

    /// Returns the plot with this title as SVG; see [`drawing`](Self::drawing).
    ///
    /// # Errors
    /// If no plot matches (the error lists the existing titles), or several plots match whose axes differ.
    pub fn figure(&self, title: &str, curve: &str) -> Result<String, String> {
        self.drawing(title, curve, &Look::page()).map(|drawing| drawing.svg())
    }

    /// Draws the plot with this title or else all plots whose title contains it, or if there are none all of its words. Small multiples stay together; other
    /// plots are drawn one below the other over the same ranges. Only curves whose name contains `curve` are drawn. If no
    /// plot matches, the title may be that of a group of the comparison, such as `flow call`, and a curve a measure.
    /// Case does not matter.
    ///
    /// # Errors
    /// If no plot matches (the error lists the existing titles), or several plots match whose axes differ.
    pub fn drawing(&self, title: &str, curve: &str, look: &Look) -> Result<Drawing, String> {
        let (title, curve) = (title.to_lowercase(), curve.to_lowercase());
        // Closed sections repeat the plots of open ones for other runs.
        let open = || self.sections.iter().filter(|section| section.fold == Fold::Open);
        let titles = || open().flat_map(Section::plots).map(|plot| plot.title.as_str());
        let exact = titles().any(|found| found.to_lowercase() == title);
        let contained = titles().any(|found| found.to_lowercase().contains(&title));
        let is_meant = |plot: &Plot| {
            let found = plot.title.to_lowercase();
            match (exact, contained) {
                (true, _) => found == title,
                (_, true) => found.contains(&title),
                // The delay of a flow in both directions has a plot for each.
                (_, false) => has_words(&found, &title),
            }
        };
        let left = |plot: &Plot| {
            let mut plot = plot.clone();
            plot.choose(|curves| curves.retain(|found| found.name.to_lowercase().contains(&curve)));
            // A single curve has no legend, so its name goes into the title.
            if let ([only], false) = (plot.curves.as_slice(), curve.is_empty()) {
                plot.title = format!("{}: {}", plot.title, only.name);
            }
            Some(plot).filter(|plot| !plot.curves.is_empty())
        };
        let pens = self.pens();
        // Of pages of many curves some are chosen, which are together then.
        let some = !curve.is_empty() || !look.rows.is_empty();
        let together = |plots: Vec<(String, Plot)>| if some { joined(plots) } else { plots };
        let meant = open().flat_map(Section::plots).filter(|plot| is_meant(plot)).filter_map(left);
        let meant: Vec<Plot> =
            together(meant.map(|plot| (String::new(), plot)).collect()).into_iter().map(|(_, plot)| plot).collect();
        let of_group = |group: &Panels| {
            let meant = group.panels.iter().filter(|(_, plot)| is_meant(plot));
            let panels = meant.filter_map(|(name, plot)| Some((name.clone(), left(plot)?))).collect();
            Panels { title: group.title.clone(), panels: together(panels) }
        };
        if look.overlay && !meant.is_empty() {
            let panels = open().flat_map(|section| &section.parts).filter_map(|part| match part {
                Part::Plot(plot) => Some(vec![(String::new(), &**plot)]),
                Part::Panels(panels) => Some(panels.panels.iter().map(|(name, plot)| (name.clone(), plot)).collect()),
                _ => None,
            });
            let named = panels.flatten().filter(|(_, plot)| is_meant(plot));
            let all = named.filter_map(|(name, plot)| Some((name, left(plot)?))).collect();
            let mut drawn = [(look.plot(overlaid(all)?)?, Vec::new())];
            drawn[0].1 = pens.of_overlay(&drawn[0].0.names().collect::<Vec<_>>());
            name_by_variants(&mut drawn, look);
            return stacked(&drawn, look).ok_or_else(|| "there is nothing to draw".into());
        }
        let mut groups = open().flat_map(Section::panels).map(of_group);
        // Small multiples may only be drawn as such if this omits no other plot that matches.
        let whole = |group: &Panels| {
            group.panels.len() > 1 && (group.title.to_lowercase() == title || group.panels.len() == meant.len())
        };
        if let Some(group) = groups.find(whole)
            && let Some(drawing) = look.panels(group)?.drawing(&pens, look)
        {
            return Ok(drawing);
        }
        if meant.is_empty()
            && let Some(drawing) = self.compared(&title, &curve, look)
        {
            return drawing;
        }
        let quantities = |plot: &Plot| (plot.x.label(), plot.y.label());
        if let Some(pair) = meant.windows(2).find(|pair| quantities(&pair[0]) != quantities(&pair[1])) {
            let titles = (&pair[0].title, &pair[1].title);
            return Err(format!("`{}` and `{}` have different axes: name one of them", titles.0, titles.1));
        }
        let meant = meant.into_iter().map(|plot| look.plot(plot)).collect::<Result<Vec<_>, String>>();
        let meant = meant.map_err(|why| match self.titles_with_rows(look).as_slice() {
            [] => why,
            titles => format!("{why}; it is in {}", titles.join(", ")),
        })?;
        let mut drawn: Vec<_> =
            meant.into_iter().map(|plot| (plot.pens(&pens), plot)).map(|(pens, plot)| (plot, pens)).collect();
        name_by_variants(&mut drawn, look);
        stacked(&drawn, look).ok_or_else(|| {
            let titles: Vec<String> = titles().map(|title| format!("\n  {title}")).collect();
            let hint = match title.contains("goodput") {
                true => "\nGoodput over time is measured of flows with watch = true",
                false => "",
            };
            let wanted = if curve.is_empty() { title } else { format!("{title}/{curve}") };
            format!("no plot is meant by `{wanted}`; the plots are{}{hint}", titles.concat())
        })
    }

    /// The titles of plots that have all rows of a look, if it chooses some.
    fn titles_with_rows(&self, look: &Look) -> Vec<String> {
        let open = self.sections.iter().filter(|section| section.fold == Fold::Open).flat_map(Section::plots);
        let has = |plot: &&Plot| !look.rows.is_empty() && look.has_rows(plot);
        open.filter(has).take(4).map(|plot| format!("`{}`", plot.title)).collect()
    }

    /// The comparison of the groups whose names contain `title`, or the box plots if that is what their title says.
    fn compared(&self, title: &str, measure: &str, look: &Look) -> Option<Result<Drawing, String>> {
        let pens = self.pens();
        let boxes = Look { form: look.form.or(Some(Form::Box)), ..look.clone() };
        for comparison in self.comparisons() {
            let spread = format!("{}: box plots of runs", comparison.title).to_lowercase();
            // Quantities that are primary are shown alone, corrected as the text is. A subject that has none of them is shown whole.
            let is_open = measure.is_empty() && !look.chooses_quantities() && !self.primary.is_empty();
            let planned = is_open.then(|| look.stated(comparison, &self.primary).ok()).flatten();
            if let Some((planned, _)) = planned {
                let of_subjects = planned.of_subjects(|subject| subject.to_lowercase().contains(title));
                let drawn = match of_subjects {
                    Some(part) => part.figure(&pens, look),
                    None if spread.contains(title) => planned.figure(&pens, &boxes),
                    None => Ok(None),
                };
                if let Some(drawn) = drawn.transpose() {
                    return Some(drawn);
                }
            }
            // Quantities are named with their subjects, of which the title may choose one.
            let named = look.comparison_of_quantities(comparison);
            let comparison = match &named {
                Ok(named) => named,
                Err(why) => return Some(Err(why.clone())),
            };
            let part = |group: &&crate::comparison::Group| group.name.to_lowercase().contains(title);
            let groups: Vec<_> = comparison.groups.iter().filter(part).cloned().collect();
            let (mut look, chosen) = match (groups.is_empty(), spread.contains(title)) {
                (false, _) => (look.clone(), Comparison { groups, ..comparison.clone() }),
                (true, true) => (boxes.clone(), comparison.clone()),
                (true, false) => continue,
            };
            look.quantities.clear();
            if !measure.is_empty() {
                look.measures = vec![measure.to_owned()];
            }
            let drawn = look.comparison(&chosen).and_then(|chosen| chosen.figure(&pens, &look));
            match drawn {
                Ok(Some(drawing)) => return Some(Ok(drawing)),
                Ok(None) => {}
                Err(why) => return Some(Err(why)),
            }
        }
        None
    }
}

/// A name without the page on which a report has it, such as ` (1 of 2)`.
fn without_page(name: &str) -> &str {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let before = |(before, page): (&'_ str, &'_ str)| {
        let (n, of) = page.strip_suffix(')')?.split_once(" of ")?;
        (number(n) && number(of)).then_some(before.len())
    };
    name.rsplit_once(" (").and_then(before).map_or(name, |end| &name[..end])
}

/// The plots with those that are pages of one, which follow each other, as one.
fn joined(plots: Vec<(String, Plot)>) -> Vec<(String, Plot)> {
    let key = |(name, plot): &(String, Plot)| (without_page(name).to_owned(), without_page(&plot.title).to_owned());
    let of_one = |a: &(String, Plot), b: &(String, Plot)| key(a) == key(b) && a.1.title != b.1.title;
    let pages = plots.chunk_by(of_one).map(|pages| match pages {
        [] | [_] => pages.to_vec(),
        [first, ..] => {
            let all = pages.iter().map(|(_, plot)| (String::new(), plot.clone())).collect();
            overlaid(all).map_or_else(|_| pages.to_vec(), |plot| vec![(key(first).0, plot)])
        }
    });
    pages.flatten().collect()
}

/// Lays plots with the same axes over each other. A curve gets the name of its panel, which is that of a variant, before its own and, where
/// two have one name, what the titles of their plots differ in behind it.
///
/// # Errors
/// If their axes differ, with the titles.
fn overlaid(plots: Vec<(String, Plot)>) -> Result<Plot, String> {
    let Some((_, first)) = plots.first() else { return Err("there is nothing to draw".into()) };
    let quantities = |plot: &Plot| (plot.x.label(), plot.y.label());
    if let Some((_, other)) = plots.iter().find(|(_, plot)| quantities(plot) != quantities(first)) {
        return Err(format!("`{}` and `{}` have different axes: name one of them", first.title, other.title));
    }
    // A report divides many curves into pages; in one figure they are together.
    let plots: Vec<(&str, &str, &Plot)> =
        plots.iter().map(|(panel, plot)| (without_page(panel), without_page(&plot.title), plot)).collect();
    let named = |panel: &str, curve: &Curve| match panel {
        panel if panel.is_empty() || curve.name == panel => curve.name.clone(),
        // The only curve of a link with packets of one colour.
        panel if curve.name == "all" => panel.to_owned(),
        panel => format!("{panel}: {}", curve.name),
    };
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for (panel, curve) in plots.iter().flat_map(|(panel, _, plot)| plot.curves.iter().map(move |curve| (*panel, curve)))
    {
        *count.entry(named(panel, curve)).or_default() += 1;
    }
    let titles = || plots.iter().map(|(_, title, _)| *title);
    let shared = titles().fold(without_page(&first.title), |shared, title| {
        let same = shared.char_indices().zip(title.chars()).take_while(|((_, a), b)| a == b);
        &shared[..same.last().map_or(0, |((at, a), _)| at + a.len_utf8())]
    });
    // A title is broken between its parts alone.
    let whole = titles().all(|title| title == shared || title[shared.len()..].starts_with(", "));
    let shared = if whole { shared } else { shared.rsplit_once(", ").map_or("", |(begin, _)| begin) };
    let mut all = Plot {
        title: if shared.is_empty() { without_page(&first.title) } else { shared }.to_owned(),
        curves: Vec::new(),
        ..first.clone()
    };
    for (panel, title, plot) in &plots {
        for curve in &plot.curves {
            let (mut name, rest) = (named(panel, curve), title[shared.len()..].trim_start_matches(", "));
            if count.get(&name).is_some_and(|count| *count > 1) && !rest.is_empty() {
                name = format!("{name}, {rest}");
            }
            all.curves.push(Curve { name, ..curve.clone() });
        }
    }
    Ok(all)
}

/// Names curves by what they differ in: by their variants alone where all are of one subject, which goes into the titles or, where a look has
/// none, before the notes, and otherwise without the word that all subjects begin with, such as `flow`.
fn name_by_variants(plots: &mut [(Plot, Vec<Pen>)], look: &Look) {
    let parts = |name: &str| name.split_once(": ").map(|(variant, subject)| (variant.to_owned(), subject.to_owned()));
    let names: BTreeSet<&str> = plots.iter().flat_map(|(plot, _)| plot.names()).collect();
    let Some(subjects) =
        names.iter().map(|name| parts(name).map(|(_, subject)| subject)).collect::<Option<BTreeSet<_>>>()
    else {
        // Plots of different things have names of their own.
        if plots.len() > 1 {
            plots.iter_mut().for_each(|plot| name_by_variants(std::slice::from_mut(plot), look));
        }
        return;
    };
    let Some(subject) = subjects.first().filter(|_| names.len() > 1) else { return };
    let kind = subject.split_once(' ').map_or("", |(kind, _)| kind);
    let is_shared = !kind.is_empty() && subjects.iter().all(|other| other.split(' ').next() == Some(kind));
    for (plot, _) in plots {
        for curve in &mut plot.curves {
            let Some((variant, of)) = parts(&curve.name) else { continue };
            curve.name = match of.strip_prefix(kind).filter(|_| is_shared) {
                _ if subjects.len() == 1 => variant,
                Some(rest) => format!("{variant}: {}", rest.trim_start()),
                None => continue,
            };
        }
        if subjects.len() > 1 {
            continue;
        }
        if !plot.title.contains(subject) {
            plot.title = format!("{}: {subject}", plot.title);
        }
        if look.on_paper && look.heading(&plot.title).is_none() {
            let notes = [Some(format!("{subject}.")), plot.note.take()].into_iter().flatten();
            plot.note = notes.reduce(|notes, note| format!("{notes} {note}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Axis, Style};

    /// The delay of a flow that goes both ways has a plot for each way, which all words of a title mean where no plot has them in a row.
    #[test]
    fn a_title_is_meant_by_its_words_where_none_has_it() {
        let plot = |title: &str| Plot {
            title: title.into(),
            x: Axis::new("delay", "s"),
            y: Axis::new("share", "1"),
            style: Style::Cdf,
            note: None,
            curves: vec![Curve::new("fifo", [(1.0, 0.5), (2.0, 1.0)])],
        };
        let section = Section::new("Distributions")
            .with(plot("One-way delay up, distribution"))
            .with(plot("Queue, distribution"));
        let report = Report { sections: vec![section], ..Report::default() };
        let drawn = |title: &str| report.drawing(title, "", &Look::page()).map(|drawing| drawing.title);
        assert_eq!(drawn("delay, distribution").as_deref(), Ok("One-way delay up, distribution"));
        assert!(drawn("delay down, distribution").is_err());
    }

    /// Two flows under two queues in one axis: four curves, each with a dash and a mark of its own.
    #[test]
    fn panels_are_laid_over_each_other() {
        let plot = |title: &str, names: &[&str]| Plot {
            title: title.into(),
            x: Axis::new("time", "s"),
            y: Axis::new("rate", "bit/s"),
            style: Style::Lines,
            note: Some("Lines: medians of 3 runs.".into()),
            curves: names.iter().map(|name| Curve::new(*name, [(1.0, 5.0), (2.0, 1.0)])).collect(),
        };
        let panel = |variant: &str| {
            (variant.to_owned(), plot(&format!("Goodput of the flows, {variant}"), &["flow call", "flow bulk"]))
        };
        let panels = Panels { title: "Goodput of the flows".into(), panels: vec![panel("fifo"), panel("codel")] };
        let section = Section::new("Over time")
            .with(panels)
            .with(plot("Throughput, link a->b", &["fifo", "codel"]))
            .with(plot("Throughput, link b->a", &["fifo", "codel"]));
        let report = Report { sections: vec![section], ..Report::default() };
        let drawn = |title: &str, look: &str| {
            let look = Look::parse(look).expect("a look");
            report.drawing(title, "", &look).map(|drawing| drawing.svg())
        };
        let svg = drawn("goodput", "column,overlay").expect("a figure");
        for name in ["fifo: call", "fifo: bulk", "codel: call", "codel: bulk", "Lines: medians of 3 runs"] {
            assert!(svg.contains(&format!(">{name}")), "{name}: {svg}");
        }
        // The variants are the names of one flow; a row chooses it.
        let one = drawn("goodput", "column,overlay,row=call").expect("a figure");
        assert!(one.contains(">fifo<") && one.contains(">codel<") && !one.contains("bulk"), "{one}");
        // Plots of two links with the same names of curves are told apart by their links.
        let links = drawn("throughput", "page,overlay").expect("a figure");
        assert!(links.contains("fifo, link a-&gt;b<") && links.contains(">codel, link b-&gt;a<"), "{links}");
        assert!(links.contains(">Throughput<"), "{links}");
        // The pages into which a report divides many curves are no part of their names.
        let page = |variant: &str, n: usize| {
            let (name, title) =
                (format!("{variant} ({n} of 2)"), format!("Goodput of the flows, {variant} ({n} of 2)"));
            (name, plot(&title, if n == 1 { &["flow call"] } else { &["flow bulk"] }))
        };
        let panels = vec![page("fifo", 1), page("fifo", 2), page("codel", 1), page("codel", 2)];
        let group = Panels { title: "Goodput of the flows".into(), panels };
        let pages = Report { sections: vec![Section::new("Over time").with(group)], ..Report::default() };
        let look = Look { overlay: true, ..Look::column() };
        let svg = pages.drawing("goodput", "", &look).map(|drawing| drawing.svg()).expect("a figure");
        assert!(svg.contains(">fifo: call<") && svg.contains(">codel: bulk<") && !svg.contains("of 2"), "{svg}");
        // A row that is in another plot is named with it.
        let elsewhere = Report {
            sections: vec![
                Section::new("Distributions")
                    .with(plot("Delay, distribution", &["flow bulk"]))
                    .with(plot("Delay down, distribution", &["flow call"])),
            ],
            ..Report::default()
        };
        let look = Look::parse("row=call").expect("a look");
        let said = elsewhere.drawing("delay, distribution", "", &look).expect_err("it is elsewhere");
        assert!(said.ends_with("; it is in `Delay down, distribution`"), "{said}");
        // The whole of a link is named by its variant alone.
        let whole = |variant: &str| (variant.to_owned(), plot(&format!("Queue, link a->b, {variant}"), &["all"]));
        let panels = ["fifo", "codel"].map(whole).into();
        let queue = Panels { title: "Queue, link a->b".into(), panels };
        let queues = Report { sections: vec![Section::new("Over time").with(queue)], ..Report::default() };
        let look = Look { overlay: true, ..Look::page() };
        let svg = queues.drawing("queue", "", &look).map(|drawing| drawing.svg()).expect("a figure");
        assert!(svg.contains(">fifo<") && svg.contains(">Queue, link a-&gt;b<"), "{svg}");
        // Pens and marks differ.
        let pens = Pens::named(["fifo", "codel"].into_iter()).of_curves(&[
            "fifo: call",
            "fifo: bulk",
            "codel: call",
            "codel: bulk",
        ]);
        assert_eq!(pens.iter().map(|pen| pen.dash).collect::<BTreeSet<_>>().len(), 4);
        // Without it they are beside each other.
        assert!(!drawn("goodput", "column").expect("a figure").contains(">fifo: call<"));
    }

    #[test]
    fn curves_of_one_flow_are_named_by_their_variants() {
        let curve = |name: &str| Curve::new(name, [(1.0, 0.5), (2.0, 1.0)]);
        let plot = Plot {
            title: "One-way delay, distribution".into(),
            x: Axis::new("delay", "s"),
            y: Axis::new("share", "1"),
            style: Style::Cdf,
            note: None,
            curves: ["fifo: flow call", "codel: flow call", "fifo: flow bulk"].map(curve).into(),
        };
        let report = Report { sections: vec![Section::new("Distributions").with(plot)], ..Report::default() };
        let one = report.figure("one-way delay", "flow call").expect("a figure");
        assert!(one.contains(">fifo<") && one.contains(">codel<") && one.contains("distribution: flow call<"), "{one}");
        let log = report.drawing("one-way delay", "", &Look { log: true, ..Look::page() }).expect("a figure").svg();
        assert!(log.contains("delay, s (logarithmic)"), "{log}");
        let both = report.figure("one-way delay", "").expect("a figure");
        assert!(both.contains(">fifo: call<") && both.contains(">fifo: bulk<"), "{both}");
    }
}

//! Finds the figures of a report: its comparison, and plots by their titles.

use crate::comparison::Comparison;
use crate::drawing::Drawing;
use crate::model::{Fold, Panels, Part, Plot, Report, Section};
use crate::palette::Pens;
use crate::plotting::stacked;

impl Section {
    fn plots(&self) -> impl Iterator<Item = &Plot> {
        self.parts.iter().flat_map(|part| match part {
            Part::Plot(plot) => vec![plot],
            Part::Panels(panels) => panels.plots().collect(),
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

    /// The first figure of the report, which is the comparison or else the first plot. `None` if there is neither.
    pub fn first_figure(&self) -> Option<Drawing> {
        let pens = self.pens();
        let comparison = self.comparisons().next().map(|comparison| comparison.drawing(&pens));
        comparison.or_else(|| self.plots().next().map(|plot| plot.drawing(&plot.pens(&pens))))
    }

    /// Returns the plot with this title as SVG; see [`drawing`](Self::drawing).
    ///
    /// # Errors
    /// If no plot matches (the error lists the existing titles), or several plots match whose axes differ.
    pub fn figure(&self, title: &str, curve: &str) -> Result<String, String> {
        self.drawing(title, curve).map(|drawing| drawing.svg())
    }

    /// Draws the plot with this title or else all plots whose title contains it. Small multiples stay together; other
    /// plots are drawn one below the other over the same ranges. Only curves whose name contains `curve` are drawn.
    /// Case does not matter.
    ///
    /// # Errors
    /// If no plot matches (the error lists the existing titles), or several plots match whose axes differ.
    pub fn drawing(&self, title: &str, curve: &str) -> Result<Drawing, String> {
        let (title, curve) = (title.to_lowercase(), curve.to_lowercase());
        // Closed sections repeat the plots of open ones for other runs.
        let open = || self.sections.iter().filter(|section| section.fold == Fold::Open);
        let titles = || open().flat_map(Section::plots).map(|plot| plot.title.as_str());
        let exact = titles().any(|found| found.to_lowercase() == title);
        let is_meant = |plot: &Plot| {
            let found = plot.title.to_lowercase();
            if exact { found == title } else { found.contains(&title) }
        };
        let left = |plot: &Plot| {
            let mut plot = plot.clone();
            plot.curves.retain(|found| found.name.to_lowercase().contains(&curve));
            // A single curve has no legend, so its name goes into the title.
            if let ([only], false) = (plot.curves.as_slice(), curve.is_empty()) {
                plot.title = format!("{}: {}", plot.title, only.name);
            }
            Some(plot).filter(|plot| !plot.curves.is_empty())
        };
        let pens = self.pens();
        let meant: Vec<Plot> = open().flat_map(Section::plots).filter(|plot| is_meant(plot)).filter_map(left).collect();
        let of_group = |group: &Panels| Panels {
            title: group.title.clone(),
            panels: group
                .panels
                .iter()
                .filter(|(_, plot)| is_meant(plot))
                .filter_map(|(name, plot)| Some((name.clone(), left(plot)?)))
                .collect(),
        };
        let mut groups = open().flat_map(Section::panels).map(of_group);
        // Small multiples may only be drawn as such if this omits no other plot that matches.
        let whole = |group: &Panels| {
            group.panels.len() > 1 && (group.title.to_lowercase() == title || group.panels.len() == meant.len())
        };
        if let Some(drawing) = groups.find(whole).and_then(|group| group.drawing(&pens)) {
            return Ok(drawing);
        }
        let mut boxes = self.comparisons().filter_map(|comparison| comparison.boxes(&pens));
        if let Some(boxes) = boxes.find(|boxes| meant.is_empty() && boxes.title.to_lowercase().contains(&title)) {
            return Ok(boxes);
        }
        let quantities = |plot: &Plot| (plot.x.label(), plot.y.label());
        if let Some(pair) = meant.windows(2).find(|pair| quantities(&pair[0]) != quantities(&pair[1])) {
            let titles = (&pair[0].title, &pair[1].title);
            return Err(format!("`{}` and `{}` have different axes: name one of them", titles.0, titles.1));
        }
        let drawn: Vec<_> =
            meant.into_iter().map(|plot| (plot.pens(&pens), plot)).map(|(pens, plot)| (plot, pens)).collect();
        stacked(&drawn).ok_or_else(|| {
            let titles: Vec<String> = titles().map(|title| format!("\n  {title}")).collect();
            let wanted = if curve.is_empty() { title } else { format!("{title}/{curve}") };
            format!("no plot is meant by `{wanted}`; the plots are{}", titles.concat())
        })
    }
}

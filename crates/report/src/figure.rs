//! Plots of a report by their titles, as one SVG.

use crate::model::{Part, Plot, Report};
use crate::svg::stacked;

impl Report {
    /// All plots, in display order.
    pub fn plots(&self) -> impl Iterator<Item = &Plot> {
        self.sections.iter().flat_map(|section| &section.parts).filter_map(|part| match part {
            Part::Plot(plot) => Some(plot),
            Part::Text(_) | Part::Table(_) => None,
        })
    }

    /// The plot with this title as SVG; or those whose title contains it, one below the other and over the same ranges.
    /// Only the curves whose name contains `curve`, all of them where it is empty. Upper and lower case are equal.
    ///
    /// # Errors
    /// No plot is meant, with the titles that there are; or several that have different axes.
    pub fn figure(&self, title: &str, curve: &str) -> Result<String, String> {
        let (title, curve) = (title.to_lowercase(), curve.to_lowercase());
        let exact = self.plots().any(|plot| plot.title.to_lowercase() == title);
        let is_meant = |plot: &&Plot| {
            let found = plot.title.to_lowercase();
            if exact { found == title } else { found.contains(&title) }
        };
        let mut meant: Vec<Plot> = self.plots().filter(is_meant).cloned().collect();
        for plot in &mut meant {
            plot.curves.retain(|found| found.name.to_lowercase().contains(&curve));
            // One curve alone has no legend.
            if let ([only], false) = (plot.curves.as_slice(), curve.is_empty()) {
                plot.title = format!("{}: {}", plot.title, only.name);
            }
        }
        meant.retain(|plot| !plot.curves.is_empty());
        let quantities = |plot: &Plot| (plot.x.label(), plot.y.label());
        if let Some(pair) = meant.windows(2).find(|pair| quantities(&pair[0]) != quantities(&pair[1])) {
            let titles = (&pair[0].title, &pair[1].title);
            return Err(format!("`{}` and `{}` have different axes: name one of them", titles.0, titles.1));
        }
        stacked(&meant).ok_or_else(|| {
            let titles: Vec<String> = self.plots().map(|plot| format!("\n  {}", plot.title)).collect();
            let wanted = if curve.is_empty() { title } else { format!("{title}/{curve}") };
            format!("no plot is meant by `{wanted}`; the plots are{}", titles.concat())
        })
    }
}

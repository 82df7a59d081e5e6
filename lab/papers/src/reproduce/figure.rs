//! Figures that plot items: our values, and the paper's at the same x values.

use tidegate_report::{Axis, Curve, Plot, Style};

use super::{Item, Options};
use crate::Failure;

/// The suffix that turns the name of our curve into the name of the paper's.
pub(super) const PAPER: &str = ", the paper";

/// A figure whose curves plot items.
#[derive(Debug, Default)]
pub struct Figure {
    /// The name of the file without its extension.
    pub name: String,
    /// The title, in one line.
    pub title: String,
    /// The style of the curves; lines by default.
    pub style: Option<Style>,
    /// The curves. Each has a name, and the x value and the id of each of its items.
    pub curves: Vec<(String, Vec<(f64, String)>)>,
}

impl Figure {
    /// Draws those of its items that are in `items`, if plots are wanted. The paper's values form curves of their own.
    /// Without any items there is no plot.
    ///
    /// # Errors
    /// If the plot cannot be written.
    pub fn draw(self, options: &Options, items: &[Item], x: Axis, y: Axis) -> Result<(), Failure> {
        if !options.plots.wanted() {
            return Ok(());
        }
        let mut curves = Vec::new();
        for (name, points) in &self.curves {
            let values_of = |value: fn(&Item) -> Option<f64>| {
                let place = |(x, id): &(f64, String)| {
                    let item = items.iter().find(|item| item.id == *id)?;
                    Some((*x, value(item)?))
                };
                points.iter().filter_map(place).collect::<Vec<_>>()
            };
            for (name, points) in [
                (name.clone(), values_of(|item| item.measured)),
                (format!("{name}{PAPER}"), values_of(|item| item.paper)),
            ] {
                if !points.is_empty() {
                    curves.push(Curve::new(name, points));
                }
            }
        }
        if curves.is_empty() {
            return Ok(());
        }
        let style = self.style.unwrap_or(Style::Lines);
        options.plots.add(&self.name, Plot { title: self.title, x, y, style, note: None, curves })
    }
}

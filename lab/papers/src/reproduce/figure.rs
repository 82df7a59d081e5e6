//! Figures that are drawn of items: ours and the values that the paper's text gives, at the same places of an axis.

use tidegate_report::{Axis, Curve, Plot, Style};

use super::{Item, Options};
use crate::Failure;

/// The end of the name of a curve of the paper's values, after the name of ours.
pub(super) const PAPER: &str = ", the paper";

/// Curves over items: a name, and the place on the axis with the id of each.
#[derive(Debug, Default)]
pub struct Figure {
    /// The name of the file, without its ending.
    pub name: String,
    /// The title, in one line.
    pub title: String,
    /// How points are drawn.
    pub style: Option<Style>,
    /// The name of a curve, with the place on the x axis and the id of each of its items.
    pub curves: Vec<(String, Vec<(f64, String)>)>,
}

impl Figure {
    /// Draws the items that there are, if plots are wanted; nothing if there are none. What the paper has of them is a curve
    /// of its own.
    ///
    /// # Errors
    /// When the plot cannot be written.
    pub fn draw(self, options: &Options, items: &[Item], x: Axis, y: Axis) -> Result<(), Failure> {
        if !options.plots.wanted() {
            return Ok(());
        }
        let mut curves = Vec::new();
        for (name, points) in &self.curves {
            let of = |value: fn(&Item) -> Option<f64>| {
                let place = |(x, id): &(f64, String)| {
                    let item = items.iter().find(|item| item.id == *id)?;
                    Some((*x, value(item)?))
                };
                points.iter().filter_map(place).collect::<Vec<_>>()
            };
            for (name, points) in
                [(name.clone(), of(|item| item.measured)), (format!("{name}{PAPER}"), of(|item| item.paper))]
            {
                if !points.is_empty() {
                    curves.push(Curve::new(name, points));
                }
            }
        }
        if curves.is_empty() {
            return Ok(());
        }
        let style = self.style.unwrap_or(Style::Lines);
        options.plots.add(&self.name, Plot { title: self.title, x, y, style, curves })
    }
}

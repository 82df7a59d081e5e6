//! Heat maps.

use tidegate_display::human;

use super::Chart;
use crate::drawing::{Anchor, Drawing, Ink};
use crate::font::{fitted, room};
use crate::look::Look;

/// A heat map.
pub(super) struct Heat {
    pub(super) xs: Vec<String>,
    pub(super) ys: Vec<String>,
    pub(super) means: Vec<Vec<Option<f64>>>,
    pub(super) unit: String,
    pub(super) log: bool,
    pub(super) note: String,
}

impl Heat {
    /// The position of a value between the least, 0, and the greatest, 1.
    fn part(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let all = || self.means.iter().flatten().flatten().map(|value| scale(*value));
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        if high > low { (scale(value) - low) / (high - low) } else { 0.0 }
    }

    pub(super) fn drawing(&self, chart: &Chart, look: &Look) -> Drawing {
        let (u, size, small) = (look.unit(), look.size, look.type_of(11.0));
        let title = chart.title();
        let mut drawing =
            Drawing { width: look.width, title: title.clone(), finish: look.finish(), ..Drawing::default() };
        let mut top = 24.0 * u;
        if let Some(heading) = look.heading(&title) {
            drawing.text((6.0 * u, top), Anchor::Start, size, Ink::Text, fitted(heading, size, look.width - 12.0 * u));
            top += 22.0 * u;
        }
        drawing.text((6.0 * u, top), Anchor::Start, size, Ink::Text, chart.label(1, &chart.y));
        top += 10.0 * u;
        let names = self.ys.iter().map(|name| room(name, size)).fold(0.0, f64::max).min(look.width * 0.35);
        let left = names + 16.0 * u;
        let width = (look.width - left - 8.0 * u) / self.xs.len() as f64;
        let lines = Look::lines(&self.note, small, look.width - 24.0 * u);
        // Below the cells are the labels of the columns, the title of the axis, the scale and the note.
        let below = 2.6 * size + 24.0 * u + 2.2 * small + lines.len() as f64 * small * 1.3 + 10.0 * u;
        let usual = (width * 0.62).clamp(size * 1.9, 60.0 * u);
        let high = look.height.map_or(usual, |height| ((height - top - below) / self.ys.len() as f64).max(size * 0.8));
        for (row, (name, means)) in self.ys.iter().rev().zip(self.means.iter().rev()).enumerate() {
            let y = top + high * row as f64;
            let label = fitted(name, size, names + 1.0);
            drawing.text((left - 6.0 * u, y + high / 2.0 + size * 0.35), Anchor::End, size, Ink::Text, label);
            for (column, mean) in means.iter().enumerate() {
                let (x, Some(mean)) = (left + width * column as f64, mean) else { continue };
                let part = self.part(*mean);
                let shade = Ink::Shade((part * 255.0).round() as u8);
                drawing.rectangle((x, y), width - 0.5, high - 0.5, shade);
                let text = human(*mean, &self.unit);
                if room(&text, small) <= width - 2.0 * u {
                    let ink = if part > 0.5 { Ink::Ground } else { Ink::Text };
                    let place = (x + width / 2.0, y + high / 2.0 + small * 0.35);
                    drawing.text(place, Anchor::Middle, small, ink, text);
                }
            }
        }
        let mut y = top + high * self.ys.len() as f64 + size * 1.2;
        let mut free = 0.0;
        for (column, name) in self.xs.iter().enumerate() {
            let at = left + width * (column as f64 + 0.5);
            let half = room(name, size) / 2.0;
            if at - half >= free && at + half <= look.width {
                drawing.text((at, y), Anchor::Middle, size, Ink::Text, name.as_str());
                free = at + half + 4.0 * u;
            }
        }
        y += size * 1.4;
        drawing.text((left + (look.width - left) / 2.0, y), Anchor::Middle, size, Ink::Text, chart.label(0, &chart.x));
        self.scale(&mut drawing, chart, (left, y + 12.0 * u), look);
        y += 12.0 * u + 2.2 * small;
        drawing.note(&lines, (12.0 * u, y), small);
        drawing.height = look.height.unwrap_or(y + lines.len() as f64 * small * 1.3 + 12.0 * u);
        drawing
    }

    /// Draws the scale of the shades from the least to the greatest mean.
    fn scale(&self, drawing: &mut Drawing, chart: &Chart, (left, y): (f64, f64), look: &Look) {
        let (u, small) = (look.unit(), look.type_of(11.0));
        let all = || self.means.iter().flatten().flatten().copied();
        let ends = [all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max)];
        let texts = ends.map(|value| human(value, &self.unit));
        let begin = left + room(&texts[0], small) + 6.0 * u;
        // The cells are of one measure, or of a column that says what they are.
        let what = chart.measure().unwrap_or(&chart.value);
        let ratio = if chart.over.is_empty() { "" } else { ", ratio" };
        let name = format!("{what}{ratio}{}", if self.log { " (logarithmic)" } else { "" });
        let name = fitted(&name, small, look.width * 0.4);
        let end = look.width - 10.0 * u - room(&texts[1], small) - room(&name, small) - 12.0 * u;
        let steps = 24;
        let step = (end - begin).max(10.0 * u) / f64::from(steps);
        for n in 0..steps {
            let shade = Ink::Shade((f64::from(n) * 255.0 / f64::from(steps - 1)).round() as u8);
            drawing.rectangle((begin + step * f64::from(n), y), step + 0.2, small, shade);
        }
        let base = y + small * 0.85;
        drawing.text((begin - 4.0 * u, base), Anchor::End, small, Ink::Text, texts[0].as_str());
        let after = begin + step * f64::from(steps) + 4.0 * u;
        drawing.text((after, base), Anchor::Start, small, Ink::Text, format!("{}  {name}", texts[1]));
    }
}

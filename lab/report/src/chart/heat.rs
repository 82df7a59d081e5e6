//! Heat maps.

use tidegate_display::{digits, unit_of_all};

use super::Chart;
use super::units::Labels;
use crate::drawing::{Anchor, Drawing, Ink, Shape};
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
        let all = || reached(&self.means).map(scale);
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        if high > low { (scale(value) - low) / (high - low) } else { 0.0 }
    }

    pub(super) fn drawing(&self, chart: &Chart, look: &Look) -> Drawing {
        let (u, size, small) = (look.unit(), look.size, look.type_of(11.0));
        let (title, xs, ys) = (chart.title(), Labels::new(&self.xs), Labels::new(&self.ys));
        let values = Values::new(&self.means, &self.unit);
        let mut drawing =
            Drawing { width: look.width, title: title.clone(), finish: look.finish(), ..Drawing::default() };
        let mut top = 24.0 * u;
        if let Some(heading) = look.heading(&title) {
            drawing.text((6.0 * u, top), Anchor::Start, size, Ink::Text, fitted(heading, size, look.width - 12.0 * u));
            top += 22.0 * u;
        }
        drawing.text((6.0 * u, top), Anchor::Start, size, Ink::Text, ys.titled(chart.label(1, &chart.y)));
        top += 10.0 * u;
        let names = ys.texts.iter().map(|name| room(name, size)).fold(0.0, f64::max).min(look.width * 0.35);
        let left = names + 16.0 * u;
        let width = (look.width - left - 8.0 * u) / self.xs.len() as f64;
        let note = format!("Shades: {}. {}", self.quantity(chart, &values), self.note);
        let lines = Look::lines(&note, small, look.width - 24.0 * u);
        // Below the cells are the labels of the columns, the title of the axis, the scale and the note.
        let below = 2.6 * size + 24.0 * u + 2.2 * small + lines.len() as f64 * small * 1.3 + 10.0 * u;
        let usual = (width * 0.62).clamp(size * 1.9, 60.0 * u);
        let high = look.height.map_or(usual, |height| ((height - top - below) / self.ys.len() as f64).max(size * 0.8));
        for (row, (name, means)) in ys.texts.iter().rev().zip(self.means.iter().rev()).enumerate() {
            let y = top + high * row as f64;
            let label = fitted(name, size, names + 1.0);
            drawing.text((left - 6.0 * u, y + high / 2.0 + size * 0.35), Anchor::End, size, Ink::Text, label);
            for (column, mean) in means.iter().enumerate() {
                let (x, Some(mean)) = (left + width * column as f64, mean) else { continue };
                let part = if mean.is_finite() { self.part(*mean) } else { 0.0 };
                let shade = if mean.is_finite() { Ink::Shade((part * 255.0).round() as u8) } else { Ink::Ground };
                let (wide, tall) = (width - 0.5, high - 0.5);
                drawing.rectangle((x, y), wide, tall, shade);
                // The least value is nearly as light as the ground, and is a cell nevertheless.
                let edge = vec![(x, y), (x + wide, y), (x + wide, y + tall), (x, y + tall), (x, y)];
                drawing.shapes.push(Shape::Lines { lines: vec![edge], width: 0.5, ink: Ink::Muted, dash: &[] });
                let text = values.text(*mean);
                if room(&text, small) <= width - 2.0 * u {
                    let ink = if part > 0.5 { Ink::Ground } else { Ink::Text };
                    let place = (x + width / 2.0, y + high / 2.0 + small * 0.35);
                    drawing.text(place, Anchor::Middle, small, ink, text);
                }
            }
        }
        let mut y = top + high * self.ys.len() as f64 + size * 1.2;
        let mut free = 0.0;
        for (column, name) in xs.texts.iter().enumerate() {
            let at = left + width * (column as f64 + 0.5);
            let half = room(name, size) / 2.0;
            if at - half >= free && at + half <= look.width {
                drawing.text((at, y), Anchor::Middle, size, Ink::Text, name.as_str());
                free = at + half + 4.0 * u;
            }
        }
        y += size * 1.4;
        let title = xs.titled(chart.label(0, &chart.x));
        drawing.text((left + (look.width - left) / 2.0, y), Anchor::Middle, size, Ink::Text, title);
        self.scale(&mut drawing, &values, (left, y + 12.0 * u), look);
        y += 12.0 * u + 2.2 * small;
        drawing.note(&lines, (12.0 * u, y), small);
        drawing.height = look.height.unwrap_or(y + lines.len() as f64 * small * 1.3 + 12.0 * u);
        drawing
    }

    /// The meaning of the shades: the measure of the cells, or the column that says what they are; of ratios both of their parts.
    fn quantity(&self, chart: &Chart, values: &Values) -> String {
        let what = chart.measure().unwrap_or(&chart.value);
        let ours = |column: &str| chart.only.iter().find(|(name, _)| name == column).map_or("all", |(_, text)| text);
        let ratio = |(column, text): &(String, String)| format!(", {} / {text}", ours(column));
        let ratios: String = chart.over.iter().map(ratio).collect();
        let unit = if values.unit.is_empty() { String::new() } else { format!(", {}", values.unit) };
        format!("{what}{ratios}{unit}{}", if self.log { " (logarithmic)" } else { "" })
    }

    /// Draws the scale of the shades from the least to the greatest mean.
    fn scale(&self, drawing: &mut Drawing, values: &Values, (left, y): (f64, f64), look: &Look) {
        let (u, small) = (look.unit(), look.type_of(11.0));
        let all = || reached(&self.means);
        let ends = [all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max)];
        let texts = ends.map(|value| values.text(value));
        let begin = left + room(&texts[0], small) + 6.0 * u;
        let end = look.width - 12.0 * u - room(&texts[1], small);
        let steps = 24;
        let step = (end - begin).max(10.0 * u) / f64::from(steps);
        for n in 0..steps {
            let shade = Ink::Shade((f64::from(n) * 255.0 / f64::from(steps - 1)).round() as u8);
            drawing.rectangle((begin + step * f64::from(n), y), step + 0.2, small, shade);
        }
        let base = y + small * 0.85;
        let [least, most] = texts;
        drawing.text((begin - 4.0 * u, base), Anchor::End, small, Ink::Text, least);
        drawing.text((begin + step * f64::from(steps) + 4.0 * u, base), Anchor::Start, small, Ink::Text, most);
    }
}

/// The means of cells of which all values were reached.
fn reached(means: &[Vec<Option<f64>>]) -> impl Iterator<Item = f64> {
    means.iter().flatten().flatten().copied().filter(|mean| mean.is_finite())
}

/// How the values of cells are written: in one unit, and with equally many decimals where four digits of the greatest leave at least
/// two of the least.
struct Values {
    scale: f64,
    unit: String,
    decimals: Option<usize>,
}

impl Values {
    fn new(means: &[Vec<Option<f64>>], unit: &str) -> Self {
        let all = || reached(means).map(f64::abs);
        let (scale, unit) = unit_of_all(all(), unit);
        let most = all().fold(0.0, f64::max) / scale;
        let least = all().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min) / scale;
        let decimals = (3.0 - most.max(1e-12).log10().floor()).clamp(0.0, 9.0) as usize;
        let is_enough = least * 10_f64.powi(decimals as i32) >= 10.0;
        Self { scale, unit: unit.to_owned(), decimals: is_enough.then_some(decimals) }
    }
    fn text(&self, value: f64) -> String {
        if value.is_infinite() {
            return "n.r.".into();
        }
        let value = value / self.scale;
        self.decimals.map_or_else(|| digits(value), |decimals| format!("{value:.decimals$}"))
    }
}

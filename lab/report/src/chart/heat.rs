//! Heat maps.

use tidegate_display::{digits, known, unit_of_all};
use tidegate_metrics::summarise;

use super::cells::{Cell, Grid};
use super::counts::Counts;
use super::{Chart, runs_in};
use crate::columns::Table;
use crate::comparison::bin;
use crate::drawing::{Anchor, Drawing, Ink};
use crate::font::room;
use crate::look::Look;

/// A heat map.
pub(super) struct Heat {
    pub(super) xs: Vec<String>,
    pub(super) ys: Vec<String>,
    pub(super) means: Vec<Vec<Option<f64>>>,
    /// Half the width of the 95 % interval of each mean, of a geometric mean the factor to either side; `None` for one value.
    pub(super) halves: Vec<Vec<Option<f64>>>,
    pub(super) unit: String,
    pub(super) log: bool,
    /// Whether the means are geometric.
    pub(super) is_factor: bool,
    /// Whether the values are ratios, whose shades have 1 in the middle, and as far on a logarithmic scale to both sides.
    pub(super) ratio: bool,
    pub(super) note: String,
    /// How wide the widest interval is, for cells that have no room for theirs.
    pub(super) widest: Option<String>,
}

impl Chart {
    /// Draws the means of the values of each cell.
    pub(super) fn heat(&self, table: &Table, look: &Look) -> Result<Drawing, String> {
        look.refuse_range("choose the cells of a heat map with --only")?;
        let rows = self.chosen(table, &self.value)?;
        let (xs, ys) = self.places(table, &rows)?;
        let mut cells: Vec<Vec<Vec<f64>>> = vec![vec![Vec::new(); xs.len()]; ys.len()];
        for (_, [x, y], value) in self.placed(table, &rows, (&xs, &ys))? {
            cells[y][x].push(value);
        }
        // Of two ratios that are each other's inverse the means are, too.
        let is_ratio = !self.over.is_empty() && cells.iter().flatten().flatten().all(|value| *value > 0.0);
        let sum = |values: &Vec<f64>, of: fn(f64) -> f64| values.iter().map(|value| of(*value)).sum::<f64>();
        let mean = |values: &Vec<f64>| {
            let count = values.len() as f64;
            let mean =
                || if is_ratio { (sum(values, f64::ln) / count).exp() } else { sum(values, |value| value) / count };
            (!values.is_empty()).then(mean)
        };
        let means: Vec<Vec<Option<f64>>> = cells.iter().map(|row| row.iter().map(mean).collect()).collect();
        let half = |values: &Vec<f64>| half_of(values, is_ratio);
        let halves: Vec<Vec<Option<f64>>> = cells.iter().map(|row| row.iter().map(half).collect()).collect();
        let mut counts = Counts::default();
        cells.iter().flatten().map(Vec::len).filter(|count| *count > 0).for_each(|count| counts.add(count));
        if counts.most == 0 {
            return Err("no row is left to draw".into());
        }
        let kind = if is_ratio { "geometric means" } else { "means" };
        let mut note =
            counts.said(runs_in(table, &rows)).map(|of| format!("Cells: {kind} of {of}.")).unwrap_or_default();
        let flat = || means.iter().flatten().flatten();
        if flat().all(|mean| mean.is_infinite()) {
            return Err("no cell is reached by all of its values".into());
        }
        if flat().any(|mean| mean.is_infinite()) {
            note = format!("{note} n.r.: not reached in at least one of the values.").trim_start().to_owned();
        }
        let notes = [Some(note).filter(|note| !note.is_empty()), self.selection()];
        let note = notes.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let widest = known_to(&means, &halves, is_ratio);
        let (unit, log) = (self.unit(table, &rows, &self.value), self.log || look.log);
        let heat =
            Heat { xs, ys, means, halves, unit, log, is_factor: is_ratio, ratio: !self.over.is_empty(), note, widest };
        Ok(heat.drawing(self, look))
    }
}

/// Half the width of the 95 % interval of the mean of values; of ratios, by their logarithms, the factor to either side. `None` for one value.
fn half_of(values: &[f64], is_ratio: bool) -> Option<f64> {
    if !is_ratio {
        return summarise(values)?.half_width;
    }
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    summarise(&logarithms)?.half_width.map(f64::exp)
}

/// Says how well the means of cells are known, since a shade does not: the widest of their 95 % intervals, by which they may be less or more.
/// `None` where cells have one value.
fn known_to(means: &[Vec<Option<f64>>], halves: &[Vec<Option<f64>>], is_ratio: bool) -> Option<String> {
    let cells = means.iter().flatten().zip(halves.iter().flatten());
    let shares =
        cells.filter_map(|(mean, half)| Some(if is_ratio { (*half)? } else { (*half)? / mean.as_ref()?.abs() }));
    let widest = shares.filter(|share| share.is_finite()).max_by(f64::total_cmp)?;
    Some(match is_ratio {
        true => {
            format!("Widest 95 % interval: by a factor of {} to either side.", digits((widest * 100.0).round() / 100.0))
        }
        false => format!("Widest 95 % interval: \u{b1} {} % of its mean.", digits((widest * 100.0).round())),
    })
}

impl Heat {
    /// The values at the ends of the shades: the least and the greatest, of ratios one and its reciprocal.
    fn ends(&self) -> [f64; 2] {
        let all = || reached(&self.means);
        if self.ratio {
            // Zero has no logarithm; its shade is that of the end.
            let far = all().filter(|value| *value > 0.0).map(|value| value.max(value.recip())).fold(1.0, f64::max);
            return [far.recip(), far];
        }
        [all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max)]
    }

    /// The position of a value between the [ends](Self::ends), 0 and 1.
    fn part(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.log || self.ratio { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let [low, high] = self.ends().map(scale);
        let middle = if self.ratio { 0.5 } else { 0.0 };
        if high > low { ((scale(value) - low) / (high - low)).clamp(0.0, 1.0) } else { middle }
    }

    /// The shade of a position.
    fn shade(&self, part: f64) -> Ink {
        match self.ratio {
            true => Ink::Diverging(((part * 2.0 - 1.0) * 127.0).round() as i8),
            false => Ink::Shade((part * 255.0).round() as u8),
        }
    }

    pub(super) fn drawing(&self, chart: &Chart, look: &Look) -> Drawing {
        let values = Values::new(&self.means, &self.unit, bin(chart.measure().unwrap_or_default()));
        let note = format!("Shades: {}. {}", self.quantity(chart, &values), self.note);
        let mut grid = Grid { xs: self.xs.clone(), ys: self.ys.clone(), note, legend: 2.2, lines: 1 };
        let below = |x: usize, y: usize| values.half(self.means[y][x]?, self.halves[y][x]?, self.is_factor);
        let all = || (0..self.ys.len()).flat_map(|y| (0..self.xs.len()).filter_map(move |x| below(x, y)));
        let small = Grid::small(look);
        let has_room = all().next().is_some() && all().all(|text| room(&text, small) <= grid.room(look));
        let known = match (has_room, self.is_factor) {
            (true, true) => Some("Below a mean: the factor of its 95 % interval."),
            (true, false) => Some("Below a mean: half the width of its 95 % interval."),
            (false, _) => self.widest.as_deref(),
        };
        grid.note = [grid.note.trim_end()].into_iter().chain(known).collect::<Vec<_>>().join(" ");
        grid.lines = if has_room { 2 } else { 1 };
        let cell = |x: usize, y: usize| {
            let mean = self.means[y][x]?;
            let ground = if mean.is_finite() { self.shade(self.part(mean)) } else { Ink::Ground };
            let ink = if ground.is_dark(look.grey) { Ink::Ground } else { Ink::Text };
            let half = self.halves[y][x].map(|half| if self.is_factor { mean * (half - 1.0) } else { half });
            let lines = vec![values.with_interval(mean, half)];
            Some(Cell { ground, ink, lines, below: below(x, y).filter(|_| has_room), foot: Vec::new() })
        };
        grid.drawing(chart, look, cell, |drawing, place| self.scale(drawing, &values, place, look))
    }

    /// The meaning of the shades: the measure of the cells, or the column that says what they are; of ratios both of their parts.
    fn quantity(&self, chart: &Chart, values: &Values) -> String {
        let what = chart.measure().unwrap_or(&chart.value);
        let ratios = chart.ratios();
        let unit = if values.unit.is_empty() { String::new() } else { format!(", {}", values.unit) };
        format!("{what}{ratios}{unit}{}", self.scaling())
    }

    fn scaling(&self) -> &'static str {
        match (self.ratio, self.log) {
            (true, _) => " (logarithmic, 1 in the middle)",
            (false, true) => " (logarithmic)",
            (false, false) => "",
        }
    }

    /// Draws the scale of the shades from one end to the other.
    fn scale(&self, drawing: &mut Drawing, values: &Values, (left, y): (f64, f64), look: &Look) {
        let (u, small) = (look.unit(), look.type_of(11.0));
        let texts = self.ends().map(|value| values.text(value));
        let begin = left + room(&texts[0], small) + 6.0 * u;
        let end = look.width - 12.0 * u - room(&texts[1], small);
        let steps = 24;
        let step = (end - begin).max(10.0 * u) / f64::from(steps);
        for n in 0..steps {
            let shade = self.shade(f64::from(n) / f64::from(steps - 1));
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

/// How the values of cells are written: in one unit, and with equally many decimals where three digits of the greatest leave at least
/// two of the least, and no interval justifies fewer.
struct Values {
    scale: f64,
    unit: String,
    decimals: Option<usize>,
    /// The share of itself by which a value may be too great.
    bin: f64,
}

impl Values {
    fn new(means: &[Vec<Option<f64>>], unit: &str, bin: f64) -> Self {
        let all = || reached(means).map(f64::abs);
        let (scale, unit) = unit_of_all(all(), unit);
        let most = all().fold(0.0, f64::max) / scale;
        let least = all().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min) / scale;
        let decimals = (2.0 - most.max(1e-12).log10().floor()).clamp(0.0, 9.0) as usize;
        let is_enough = least * 10_f64.powi(decimals as i32) >= 10.0;
        Self { scale, unit: unit.to_owned(), decimals: is_enough.then_some(decimals), bin }
    }
    /// The text of a mean, with the digits that its interval justifies.
    fn with_interval(&self, mean: f64, half: Option<f64>) -> String {
        let text = self.text(mean);
        let Some(half) = half.filter(|half| mean.is_finite() && *half > 0.0) else { return text };
        let justified = known(mean / self.scale, Some(half / self.scale), self.bin).0;
        // A narrow interval adds no digits: cells are read beside each other, and the table has them all.
        let decimals = |text: &str| text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        if decimals(&justified) <= decimals(&text) { justified } else { text }
    }
    /// The text of half the width of an interval, in the unit of the means and with their decimals; of a factor that to either side.
    fn half(&self, mean: f64, half: f64, is_factor: bool) -> Option<String> {
        if !mean.is_finite() || !half.is_finite() || half <= 0.0 {
            return None;
        }
        if is_factor {
            return Some(format!("\u{d7}/\u{f7} {half:.2}"));
        }
        Some(format!("\u{b1} {}", known(mean / self.scale, Some(half / self.scale), self.bin).1?))
    }
    fn text(&self, value: f64) -> String {
        if value.is_infinite() {
            return "n.r.".into();
        }
        let value = value / self.scale;
        self.decimals.map_or_else(|| digits(value), |decimals| format!("{value:.decimals$}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ratio of 1 has the shade of the ground whatever the others are, and a half is as far from it as 2.
    #[test]
    fn ratios_have_one_in_the_middle() {
        let heat = |ratio: bool, values: &[f64]| Heat {
            xs: Vec::new(),
            ys: Vec::new(),
            means: vec![values.iter().map(|value| Some(*value)).collect()],
            halves: Vec::new(),
            unit: String::new(),
            log: true,
            is_factor: ratio,
            ratio,
            note: String::new(),
            widest: None,
        };
        let shades = |heat: &Heat, values: &[f64]| -> Vec<Ink> {
            values.iter().map(|value| heat.shade(heat.part(*value))).collect()
        };
        let some = heat(true, &[0.5, 4.0]);
        let [least, half, one, two, most] = [-127, -64, 0, 64, 127].map(Ink::Diverging);
        assert_eq!(shades(&some, &[0.25, 0.5, 1.0, 2.0, 4.0]), [least, half, one, two, most]);
        // Type has the contrast that it needs, in colour and in grey.
        assert_eq!([least, half, one].map(|ink| ink.is_dark(false)), [true, false, false]);
        assert_eq!([least, two, one].map(|ink| ink.is_dark(true)), [false, true, false]);
        assert_eq!(some.ends(), [0.25, 4.0]);
        // Equal, and a flow that got nothing.
        assert_eq!(shades(&heat(true, &[1.0, 1.0]), &[1.0]), [one]);
        assert_eq!(shades(&heat(true, &[0.0, 2.0]), &[0.0]), [least]);
        // A quantity that is no ratio has the least at the light end.
        assert_eq!(shades(&heat(false, &[0.5, 4.0]), &[0.5]), [Ink::Shade(0)]);
        assert_eq!(Ink::Diverging(0).rgb(false), Ink::Shade(0).rgb(false));
    }

    /// Three digits where nothing is known of the spread, two of a wide interval, no more than three of a narrow one, and of a percentile
    /// none below its bin.
    #[test]
    fn cells_have_the_digits_that_are_known() {
        let values = Values::new(&[vec![Some(698.4e6), Some(52.31e6)]], "ns", 0.0);
        let said = |mean: f64, half: Option<f64>| values.with_interval(mean, half);
        assert_eq!([said(698.4e6, None), said(52.31e6, None)], ["698", "52"]);
        assert_eq!([said(698.4e6, Some(140e6)), said(698.4e6, Some(1e3))], ["700", "698"]);
        let narrow = Values::new(&[vec![Some(9.6561), Some(4.2)]], "1", 0.0);
        assert_eq!(
            [narrow.with_interval(9.6561, Some(0.0004)), narrow.with_interval(4.2, Some(0.6))],
            ["9.66", "4.20"]
        );
        let most = Values::new(&[vec![Some(1043e6), Some(1e9)]], "ns", 1.0 / 64.0);
        assert_eq!(most.with_interval(1043e6, Some(1e4)), "1.04");
    }
}

//! A comparison as bars: a row for each variant, a column for each measure, means with their intervals.

use crate::comparison::{Better, Comparison, Estimate, Group, Measure, bin, each_once};
use crate::drawing::{Anchor, Drawing, Ink, Shape};
use crate::font::{fitted, fitted_apart, room};
use crate::frame::Frame;
use crate::look::{Form, Look};
use crate::model::Axis;
use crate::palette::Pens;
use crate::ruler::{Ends, Ruler};
use tidegate_display::{Alike, NOT_REACHED, unit_of_all, with_unit};

/// The height of a row, given for type of 13 points.
const ROW: f64 = 22.0;

impl Comparison {
    /// Draws the comparison in the form of a look. Returns `None` if the form shows runs, and nothing was run twice.
    ///
    /// # Errors
    /// If the look wants an axis that the form or the values cannot have.
    pub(crate) fn figure(&self, pens: &Pens, look: &Look) -> Result<Option<Drawing>, String> {
        self.check_axis(look)?;
        Ok(match look.form {
            Some(form @ (Form::Box | Form::Violin | Form::Strip)) => self.spread(pens, form, "runs", look),
            _ => Some(self.drawing(pens, look)),
        })
    }

    /// Checks that values can have the axis that a look wants.
    ///
    /// # Errors
    /// The reason why they cannot, and what can be done.
    pub(crate) fn check_axis(&self, look: &Look) -> Result<(), String> {
        look.refuse_range("in a comparison each measure has an axis of its own")?;
        if !look.log {
            return Ok(());
        }
        if !matches!(look.form, Some(Form::Box | Form::Violin | Form::Strip)) {
            return Err("log: bars begin at 0, which a logarithmic axis does not have; choose form=box, form=violin or form=strip, \
                        or draw bars without log"
                .into());
        }
        for group in &self.groups {
            for (at, measure) in group.measures.iter().enumerate() {
                let cells = group.ranked(at).into_iter().map(|(_, cell)| cell);
                let all = cells.flat_map(|cell| cell.values.iter().copied().chain([cell.mean]));
                if let Some(least) = all.reduce(f64::min).filter(|least| *least <= 0.0) {
                    let of = if group.name.is_empty() { String::new() } else { format!(" of {}", group.name) };
                    return Err(format!(
                        "log: {}{of} is {} in a run, which a logarithmic axis does not have; choose other measures with measure=, \
                         or draw without log",
                        measure.name,
                        measure.value(least)
                    ));
                }
            }
        }
        Ok(())
    }

    /// Draws bars and 95 % intervals. `pens` assigns pens to the names of rows.
    pub(crate) fn drawing(&self, pens: &Pens, look: &Look) -> Drawing {
        let u = look.unit();
        let (size, small) = (look.type_of(12.0), look.type_of(11.0));
        let (mut drawing, left, mut y) = self.begin(&self.title, look);
        let width = |measures: usize| (look.width - left - 12.0 * u) / measures.max(1) as f64;
        // A paper has the unit at the axis, and a page at each number.
        let heading = |measure: &Measure, unit: &str, remark: &str| match look.on_paper && !unit.is_empty() {
            true => format!("{}, {unit}{remark}", measure.name),
            false => format!("{}{remark}", measure.name),
        };
        let fits = |measure: &Measure, column: f64| {
            // As wide as any, before the scale has chosen one.
            let unit = if measure.unit.is_empty() { "" } else { "Mbit/s" };
            room(&heading(measure, unit, measure.better.remark()), small) < column - 8.0 * u
        };
        let fit = |group: &Group| {
            let blocks = blocks(group, left, look);
            blocks.iter().all(|some| some.iter().all(|at| fits(&group.measures[*at], width(some.len()))))
        };
        // Where the remark does not fit behind each measure, one line below says it of all.
        let remarked = self.groups.iter().all(fit);
        let (family, mut starred, mut own_scales) = (self.family(), false, false);
        let names = self.names_of_rows();
        let colours = pens.of_bars(&names, look.grey);
        let colour = |name: &str| names.iter().position(|known| *known == name).map_or(0, |n| colours[n]);
        for group in &self.groups {
            y = self.heading(group, &mut drawing, y, look);
            own_scales |= subject_of(&group.name) != subject_of(&self.groups[0].name);
            for measures in blocks(group, left, look) {
                y += 18.0 * u;
                let column = width(measures.len());
                let rows = (y + 4.0 * u, y + ROW * u * group.rows.len() as f64 + 7.0 * u);
                let scales: Vec<Option<Bars<'_>>> = measures
                    .iter()
                    .enumerate()
                    .map(|(n, at)| {
                        let measure = &group.measures[*at];
                        let place = (left + column * n as f64, column);
                        let bars = Bars::new(measure, &self.beside(group, measure), place, rows, look)?;
                        bars.frame.grid(&mut drawing, (&bars.ruler, &Ruler::none()), small, (Some(14.0 * u), false));
                        Some(bars)
                    })
                    .collect();
                for (n, (at, bars)) in measures.iter().zip(&scales).enumerate() {
                    let measure = &group.measures[*at];
                    let remark = if remarked { measure.better.remark() } else { "" };
                    let text = heading(measure, bars.as_ref().map_or("", |bars| bars.unit), remark);
                    let text = fitted(&text, small, column - 8.0 * u);
                    drawing.text((left + column * n as f64, y), Anchor::Start, small, Ink::Muted, text);
                }
                let best: Vec<Vec<&str>> = measures.iter().map(|at| group.best(*at, &family)).collect();
                let names = fitted_apart(group.rows.iter().map(|row| row.name.as_str()), size, left - 20.0 * u);
                for (row, name) in group.rows.iter().zip(names) {
                    y += ROW * u;
                    drawing.text((12.0 * u, y), Anchor::Start, size, Ink::Text, name);
                    for (n, at) in measures.iter().enumerate() {
                        let Some(estimate) = row.cells.get(*at).and_then(Option::as_ref) else { continue };
                        let place = (left + column * n as f64, y);
                        let best = best[n].contains(&row.name.as_str());
                        starred |= best;
                        let Some(bars) = scales[n].as_ref().filter(|_| estimate.is_reached()) else {
                            let text = if best { format!("{NOT_REACHED} *") } else { NOT_REACHED.to_owned() };
                            drawing.text((place.0 + 4.0 * u, y), Anchor::Start, size, Ink::Text, text);
                            continue;
                        };
                        bars.bar(&mut drawing, (estimate, place), (colour(&row.name), best), look);
                    }
                }
                let has_axis = scales.iter().any(Option::is_some);
                y += if has_axis { small + 16.0 * u } else { 8.0 * u };
            }
        }
        let mut notes: Vec<String> = self.only_subject(look).into_iter().collect();
        if look.on_paper && self.cells().any(|estimate| estimate.half.is_some()) {
            notes.push(format!("Bars: means{}; lines: 95 % intervals of the mean.", self.of_runs()));
        }
        if self.cells().any(|estimate| estimate.half.is_some() && estimate.low() < 0.0) {
            notes.push("An interval without an end on the left reaches below 0.".to_owned());
        }
        if look.on_paper && own_scales {
            notes.push("Each subject has a scale of its own.".to_owned());
        }
        if starred {
            notes.push(self.star());
        }
        notes.extend(self.fewer_runs());
        if !remarked {
            notes.extend(self.remarks());
        }
        if !notes.is_empty() {
            let (lines, left_out) = look.note(notes.join(" "), small, look.width);
            drawing.left_out = left_out;
            drawing.note(&lines, (12.0 * u, y), small);
            y += lines.len() as f64 * small * 1.3;
        }
        drawing.height = y + 12.0 * u;
        drawing
    }

    /// Names the values that are of fewer runs than there are, and those that some of the runs did not reach.
    pub(crate) fn fewer_runs(&self) -> Option<String> {
        let said = |what: &str, is_reached: bool| {
            let of_group =
                |group: &Group| (0..group.measures.len()).filter_map(|at| group.of_fewer(at, is_reached)).collect();
            let found: Vec<String> = self.groups.iter().flat_map(|group| -> Vec<String> { of_group(group) }).collect();
            (!found.is_empty()).then(|| format!("{what}: {}.", found.join("; ")))
        };
        let both = [said("Of fewer runs", true), said("Not reached", false)];
        both.into_iter().flatten().reduce(|fewer, open| format!("{fewer} {open}"))
    }

    /// States what a star means, as [`Group::best`] chooses, and for how many differences it is corrected.
    pub(crate) fn star(&self) -> String {
        format!("*: {}", self.marked("of the figure"))
    }
    /// States what the mark of the best means. `of` says where the differences are that it is corrected for.
    pub(crate) fn marked(&self, of: &str) -> String {
        match self.correction(of) {
            None => "the best value; a single run tells nothing apart.".to_owned(),
            Some(corrected) => {
                format!(
                    "the best, equal to it within 2 %, or not told apart from it and behind no other, at 5 %{corrected}."
                )
            }
        }
    }

    /// The estimates of a measure that share a scale with those of a group: its own, and those of the same subject at the other points of a
    /// sweep.
    fn beside(&self, group: &Group, measure: &Measure) -> Vec<&Estimate> {
        let same = self.groups.iter().filter(|other| subject_of(&other.name) == subject_of(&group.name));
        let of_measure = same.filter_map(|other| {
            let at = other.measures.iter().position(|known| known == measure)?;
            Some(other.rows.iter().filter_map(move |row| row.cells.get(at)?.as_ref()))
        });
        of_measure.flatten().collect()
    }

    /// The names of all rows, each once.
    pub(crate) fn names_of_rows(&self) -> Vec<&str> {
        each_once(self.groups.iter().flat_map(|group| &group.rows).map(|row| row.name.as_str()))
    }

    /// Writes the name of a group, and returns where its rows begin. A single group of a figure without a title has none either: its
    /// caption says what it shows.
    pub(crate) fn heading(&self, group: &Group, drawing: &mut Drawing, y: f64, look: &Look) -> f64 {
        if group.name.is_empty() || (self.groups.len() == 1 && look.heading(&self.title).is_none()) {
            return y;
        }
        let (u, size) = (look.unit(), look.type_of(13.0));
        let y = y + 20.0 * u;
        let name = fitted(&group.name, size, look.width - 24.0 * u);
        drawing.text((12.0 * u, y), Anchor::Start, size, Ink::Text, name);
        y
    }

    /// The name of the only subject, for the note of a figure in which it has no [heading](Self::heading).
    pub(crate) fn only_subject(&self, look: &Look) -> Option<String> {
        let [only] = self.groups.as_slice() else { return None };
        let is_unnamed = look.on_paper && !only.name.is_empty() && look.heading(&self.title).is_none();
        is_unnamed.then(|| format!("{}.", only.name))
    }

    /// Which measures are better in which direction, in sentences.
    fn remarks(&self) -> Vec<String> {
        let measures = || self.groups.iter().flat_map(|group| &group.measures);
        let of = |better: Better, word: &str| {
            let mut names: Vec<&str> = Vec::new();
            for measure in measures().filter(|measure| measure.better == better) {
                if !names.contains(&measure.name.as_str()) {
                    names.push(&measure.name);
                }
            }
            (!names.is_empty()).then(|| format!("{word} is better: {}.", names.join(", ")))
        };
        [of(Better::More, "More"), of(Better::Less, "Less")].into_iter().flatten().collect()
    }

    /// An empty drawing with its heading, the width of the names of rows, and where the groups begin.
    pub(crate) fn begin(&self, title: &str, look: &Look) -> (Drawing, f64, f64) {
        let u = look.unit();
        let names = self.groups.iter().flat_map(|group| &group.rows).map(|row| room(&row.name, look.type_of(12.0)));
        let most = (240.0 * u).min(look.width * 0.4);
        let left = (names.fold(0.0, f64::max) + 30.0 * u).clamp(70.0_f64.min(most / u) * u, most);
        let finish = look.finish();
        let mut drawing = Drawing { width: look.width, title: title.to_owned(), finish, ..Drawing::default() };
        let Some(heading) = look.heading(title) else { return (drawing, left, 0.0) };
        let size = look.type_of(14.0);
        let text = fitted(heading, size, look.width - 24.0 * u);
        drawing.text((12.0 * u, 24.0 * u), Anchor::Start, size, Ink::Text, text);
        (drawing, left, 38.0 * u)
    }
}

impl Group {
    /// Names the values of a measure that are of fewer runs than there are, of those that were reached or of the others; `None` if none is.
    fn of_fewer(&self, at: usize, is_reached: bool) -> Option<String> {
        let cells = self.rows.iter().filter_map(|row| Some((row, row.cells.get(at)?.as_ref()?)));
        let such = cells.filter(|(_, cell)| cell.is_reached() == is_reached);
        let said = such.map(|(row, cell)| (&row.name, cell.of_fewer())).filter(|(_, said)| !said.is_empty());
        let said: Vec<String> = said.map(|(name, said)| format!("{name}{said}")).collect();
        let of = if self.name.is_empty() { String::new() } else { format!(" of {}", self.name) };
        (!said.is_empty()).then(|| format!("{}{of}: {}", self.measures[at].name, said.join(", ")))
    }
}

/// The measures of a group in blocks that fit beside each other.
pub(crate) fn blocks(group: &Group, left: f64, look: &Look) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..group.measures.len()).collect();
    let fit = ((look.width - left - 12.0 * look.unit()) / (8.2 * look.size)).max(1.0) as usize;
    // Blocks of equal size look better than a full one and a rest.
    let blocks = all.len().div_ceil(fit).max(1);
    all.chunks(all.len().div_ceil(blocks).max(1)).map(<[usize]>::to_vec).collect()
}

/// The subject of a group without the point of a sweep.
pub(crate) fn subject_of(name: &str) -> &str {
    name.split_once(" at ").map_or(name, |(subject, _)| subject)
}

/// The bars of one measure below each other: their scale and its axis.
struct Bars<'a> {
    /// The unit of the numbers and of the labels of the axis.
    unit: &'a str,
    /// Whether it stands at the axis instead of at each number.
    at_axis: bool,
    /// The value at which bars begin.
    begin: f64,
    /// How the numbers are written.
    alike: Alike<'a>,
    frame: Frame,
    ruler: Ruler,
}

impl<'a> Bars<'a> {
    /// Chooses the scale of all `cells` in a column from `left` on, and between the ends of the rows. `None` if no value was reached.
    fn new(
        measure: &'a Measure,
        cells: &[&Estimate],
        (left, column): (f64, f64),
        (top, bottom): (f64, f64),
        look: &Look,
    ) -> Option<Self> {
        let (u, size) = (look.unit(), look.type_of(12.0));
        let reached = || cells.iter().filter(|cell| cell.is_reached());
        let most = reached().map(|cell| cell.high()).reduce(f64::max)?;
        // One scale has one unit.
        let unit = unit_of_all(cells.iter().map(|cell| cell.mean), &measure.unit);
        let begin = if measure.is_mos() { 1.0 } else { 0.0 };
        let mut ruler = Ruler::new(&Axis::new("", ""), [begin, most].into_iter(), Ends::Values);
        ruler.label_in(unit.0);
        if most <= begin {
            ruler.ticks.truncate(1);
        }
        let frame = Frame { left, top, right: left, bottom, unit: u };
        let means: Vec<_> = reached().map(|cell| (cell.mean, cell.half)).collect();
        let alike = Alike::in_unit(&means, bin(&measure.name), unit);
        let mut bars = Self { unit: unit.1, at_axis: look.on_paper, begin, alike, frame, ruler };
        // The space for numbers fits the widest of them with a mark behind it.
        let numbers = reached().map(|cell| room(&bars.said(cell), size)).fold(0.0, f64::max);
        bars.frame.right = left + (column - numbers - 28.0 * u).max(20.0 * u);
        Some(bars)
    }

    /// A mean with as many decimals as the others on this scale, as in the tables.
    fn said(&self, of: &Estimate) -> String {
        with_unit(self.alike.numbers(of.mean, of.half).0, if self.at_axis { "" } else { self.unit })
    }

    /// Draws one value as a bar with its interval and its number.
    fn bar(
        &self,
        drawing: &mut Drawing,
        (estimate, (x, y)): (&Estimate, (f64, f64)),
        (colour, best): (usize, bool),
        look: &Look,
    ) {
        let (u, size) = (look.unit(), look.type_of(12.0));
        let text = self.said(estimate);
        let place = |value: f64| self.frame.x(&self.ruler, value).clamp(self.frame.left, self.frame.right);
        let middle = y - 4.0 * u;
        drawing.line((x, middle - 8.0 * u), (x, middle + 8.0 * u), u.max(0.5), Ink::Muted);
        let (wide, half) = (place(estimate.mean) - x, 6.0 * u);
        drawing.rectangle((x, middle - half), wide, 2.0 * half, Ink::Bar(colour));
        if look.grey {
            let outline =
                [(0.0, -half), (wide, -half), (wide, half), (0.0, half)].map(|(by, up)| (x + by, middle + up));
            let lines = vec![outline.to_vec()];
            drawing.shapes.push(Shape::Lines { lines, width: 0.8 * u, ink: Ink::Text, dash: &[] });
        }
        if estimate.half.is_some() {
            let (low, high, height) = (place(estimate.low()), place(estimate.high()), 4.0 * u);
            let cap = |x: f64| vec![(x, middle - height), (x, middle + height)];
            let mut lines = vec![vec![(low, middle), (high, middle)], cap(high)];
            // An interval that reaches below the beginning of the axis has no end there.
            lines.extend((estimate.low() >= self.begin).then(|| cap(low)));
            // The part over the bar is seen in any colour, also on black, between edges of the ground.
            drawing.shapes.push(Shape::Lines { lines: lines.clone(), width: 2.2 * u, ink: Ink::Ground, dash: &[] });
            drawing.shapes.push(Shape::Lines { lines, width: 1.2 * u, ink: Ink::Text, dash: &[] });
        }
        // The best value of a column is marked.
        let text = if best { format!("{text} *") } else { text };
        let ink = if best || look.on_paper { Ink::Text } else { Ink::Muted };
        drawing.text((self.frame.right + 6.0 * u, y), Anchor::Start, size, ink, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::comparison;

    #[test]
    fn the_star_is_explained_by_its_rule() {
        let said = |comparison: &Comparison| {
            let drawing = comparison.drawing(&Pens::default(), &Look::page());
            let text = |shape: &Shape| match shape {
                Shape::Text { text, .. } => Some(text.clone()),
                _ => None,
            };
            drawing.shapes.iter().filter_map(text).collect::<Vec<_>>().join(" ")
        };
        let mut all = comparison();
        let of_runs = said(&all);
        assert!(
            of_runs.contains("equal to it within 2 %, or not told apart from it and behind no other, at 5 %"),
            "{of_runs}"
        );
        // Three pairs of variants in two measures.
        assert!(of_runs.contains("at 5 %, corrected for all 6 differences of the figure (Holm)"), "{of_runs}");
        // A part of the comparison is corrected for what it shows.
        let part = Look::parse("measure=delay p99").expect("a look").comparison(&all).expect("a part");
        assert!(said(&part).contains("corrected for all 3 differences of the figure"), "{}", said(&part));
        let cells = all.groups[0].rows.iter_mut().flat_map(|row| &mut row.cells);
        cells.flatten().for_each(|cell| *cell = Estimate::from(cell.mean));
        assert!(said(&all).contains("*: the best value; a single run"), "{}", said(&all));
    }

    /// Both halves of an interval over a black bar are seen.
    #[test]
    fn intervals_have_an_edge_of_the_ground_below_them() {
        let drawing = comparison().drawing(&Pens::named(["fifo"].into_iter()), &Look { grey: true, ..Look::column() });
        let inks: Vec<Ink> = drawing
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Lines { lines, ink, .. } if (2..=3).contains(&lines.len()) => Some(*ink),
                _ => None,
            })
            .collect();
        assert!(inks.len() == 12 && inks.chunks(2).all(|two| two == [Ink::Ground, Ink::Text]), "{inks:?}");
    }

    /// Each measure has an axis from zero below its bars, in the unit of the numbers behind them, on which a bar ends at its value.
    #[test]
    fn bars_have_an_axis_in_the_unit_of_their_numbers() {
        for look in [Look::page(), Look::column(), Look::text()] {
            let drawing = comparison().drawing(&Pens::default(), &look);
            // The lines of the grid and the labels below them.
            let (mut lines, mut bars) = (Vec::<f64>::new(), Vec::<(f64, f64)>::new());
            let mut labels = Vec::<(f64, f64, f64)>::new();
            for shape in &drawing.shapes {
                match shape {
                    Shape::Lines { lines: all, ink: Ink::Grid, .. } => lines.push(all[0][0].0),
                    Shape::Text { anchor: Anchor::Middle, x, y, text, .. } => {
                        labels.push((*x, *y, text.parse().expect("a number")));
                    }
                    Shape::Rectangle { x, width, .. } => bars.push((*x, *width)),
                    _ => {}
                }
            }
            // 100 ms is a tick of the axis that ends at 105, and goodput has one at 5 Mbit/s. Labels stand at their values, where not moved inwards.
            for (value, (from, wide), to) in [(5.0, bars[0], bars[1].0), (100.0, bars[1], look.width)] {
                assert!(lines.iter().any(|x| (x - from - wide).abs() < 0.01), "{value} at {}: {lines:?}", from + wide);
                let below: Vec<_> = labels.iter().filter(|label| (from - 1.0..to - 1.0).contains(&label.0)).collect();
                let apart = |label: &&(f64, f64, f64)| (label.0 - from - wide * label.2 / value).abs();
                // Where there is no room for all labels, every second or third tick has one.
                let steps: Vec<f64> = below.windows(2).map(|two| two[1].2 - two[0].2).collect();
                assert!(steps.iter().all(|step| (step - steps[0]).abs() < 1e-9), "{labels:?}");
                assert!(below.len() > 1 && below.iter().all(|label| apart(label) < 6.0 * look.unit()), "{labels:?}");
            }
            assert_eq!(labels.iter().filter(|label| label.2 == 0.0).count(), 2, "{labels:?}");
            assert_eq!(drawing.misplaced(), Vec::<String>::new());
        }
    }

    /// Bars of one subject at two points of a sweep can be compared; those of another subject cannot, and the figure says so.
    #[test]
    fn the_points_of_a_sweep_share_a_scale() {
        let mut all = comparison();
        all.groups.push(all.groups[0].clone());
        for (group, point) in all.groups.iter_mut().zip(["2mbit", "5mbit"]) {
            group.name = format!("flow call at rate={point}");
        }
        for cell in all.groups[1].rows.iter_mut().filter_map(|row| row.cells[1].as_mut()) {
            *cell = Estimate::from(cell.mean / 2.0);
        }
        let drawn = |all: &Comparison| {
            let drawing = all.drawing(&Pens::default(), &Look::column());
            let wide = drawing.shapes.iter().filter_map(|shape| match shape {
                Shape::Rectangle { width, .. } => Some(*width),
                _ => None,
            });
            let text = |shape: &Shape| if let Shape::Text { text, .. } = shape { Some(text.clone()) } else { None };
            let said = drawing.shapes.iter().filter_map(text).collect::<Vec<_>>().join(" ");
            (wide.collect::<Vec<f64>>(), said.contains("Each subject has"))
        };
        let (bars, said) = drawn(&all);
        assert!((bars[1] / bars[7] - 2.0).abs() < 0.01 && !said, "{bars:?}");
        // Values on one scale have one unit, also below and above a second.
        let mut slow = all.clone();
        slow.groups[0].rows[0].cells[1] = Some(Estimate::from(1.5e9));
        let svg = slow.drawing(&Pens::default(), &Look::column()).svg();
        assert!(
            svg.contains(">0.013<") && svg.contains(">1.500<") && svg.contains(", s<") && !svg.contains("ms<"),
            "{svg}"
        );
        all.groups[1].name = "flow bulk".into();
        let (bars, said) = drawn(&all);
        assert!(bars[1] / bars[7] < 1.2 && said, "{bars:?}");
    }

    /// Numbers below each other are compared digit by digit, however wide their intervals are.
    #[test]
    fn numbers_beside_bars_have_equally_many_decimals() {
        let mut all = comparison();
        for (row, (mean, half)) in
            all.groups[0].rows.iter_mut().zip([(134.3e6, 12e6), (13.04e6, 0.31e6), (23e6, 1.1e6)])
        {
            row.cells[1] = Some(Estimate { half: Some(half), ..Estimate::from(mean) });
        }
        let drawing = all.drawing(&Pens::default(), &Look::column());
        let text = |shape: &Shape| match shape {
            Shape::Text { text, .. } if text.contains('.') => Some(text.trim_end_matches(" *").to_owned()),
            _ => None,
        };
        let numbers: Vec<String> = drawing.shapes.iter().filter_map(text).collect();
        let wanted = ["134.3", "13.0", "23.0"];
        let delays: Vec<&str> = numbers.iter().map(String::as_str).filter(|number| wanted.contains(number)).collect();
        assert_eq!(delays, wanted, "{numbers:?}");
    }

    #[test]
    fn bars_are_in_proportion_and_inside() {
        let drawing = comparison().drawing(&Pens::named(["fifo", "codel", "pie"].into_iter()), &Look::page());
        let bars: Vec<f64> = drawing
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Rectangle { width, .. } => Some(*width),
                _ => None,
            })
            .collect();
        assert_eq!(bars.len(), 6);
        // The only subject is named below a title; a figure of a paper has neither.
        let named = |look: &Look| {
            let drawing = comparison().drawing(&Pens::named(["fifo"].into_iter()), look);
            drawing.shapes.iter().any(|shape| matches!(shape, Shape::Text { text, .. } if text == "flow call"))
        };
        assert!(named(&Look::page()) && !named(&Look::column()));
        assert_eq!(drawing.misplaced(), Vec::<String>::new());
        // Every second bar is a delay, of 100 and 13 ms.
        assert!((bars[1] / bars[3] - 100.0 / 13.0).abs() < 0.01, "{bars:?}");
        for shape in &drawing.shapes {
            let Shape::Lines { lines, .. } = shape else { continue };
            assert!(
                lines.iter().flatten().all(|(x, y)| (0.0..=900.0).contains(x) && (0.0..=drawing.height).contains(y))
            );
        }
    }
}

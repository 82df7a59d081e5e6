//! Maps of the best variants: which is the best by a measure at each point of a sweep.

use std::collections::{BTreeMap, BTreeSet};

use super::Chart;
use super::cells::{Cell, Grid};
use crate::bars::subject_of;
use crate::columns::Table;
use crate::comparison::{Better, Comparison, each_once};
use crate::drawing::{Drawing, Ink};
use crate::font::room;
use crate::look::Look;
use crate::palette::Pens;
use crate::plotting::Legend;
use crate::points::NOT_TESTED;
use crate::simulation::{better, compared_whole};
use crate::standing::Best;
use crate::swept::{Swept, is_of_quantities};

impl Chart {
    /// Draws which variant is the best in each cell. The tests of all cells are corrected for each other.
    pub(super) fn best_of_variants(&self, table: &Table, look: &Look) -> Result<Drawing, String> {
        look.refuse_range("choose the cells of a map with --only")?;
        if self.log || look.log || self.times.is_some() || !self.over.is_empty() {
            return Err(
                "a map of the best variants has no scale, unit or ratio: leave out --log, --times and --over".into()
            );
        }
        for (axis, by) in [&self.x, &self.y].into_iter().flat_map(|axis| self.by.iter().map(move |by| (axis, by))) {
            if std::ptr::eq(table.known(axis)?, table.known(by)?) {
                return Err(format!(
                    "`{axis}` is what is compared in each cell, and no axis; a sweep with one axis needs --x alone, and has a row for each \
                     measure"
                ));
            }
        }
        let rows = self.chosen(table, &self.value)?;
        let (xs, ys) = self.places(table, &rows)?;
        // The same differences that `compare` makes of these rows, of all of their quantities.
        let swept = Swept::new(table, &self.only, &self.by)?;
        let mut quantities: Vec<(&str, String)> = Vec::new();
        let mut places = BTreeMap::new();
        let planned = self.planned(table)?;
        let is_chosen = self.only.iter().any(is_of_quantities);
        for (row, place, _) in self.placed(table, &rows, (&xs, &ys))? {
            let Some((measure, subject)) = swept.quantity(row) else { continue };
            // Who chooses none asks about those that were planned.
            if !is_chosen && planned.as_ref().is_some_and(|planned| !planned.has(measure, &subject)) {
                continue;
            }
            if better(measure) == Better::Neither {
                return Err(format!(
                    "nobody is the best by `{measure}`, of which neither more nor less is better; choose measures with --only measure=NAME"
                ));
            }
            let at = quantities.iter().position(|known| *known == (measure, subject.clone())).unwrap_or_else(|| {
                quantities.push((measure, subject));
                quantities.len() - 1
            });
            places.insert(place, at);
        }
        // Those that the scenario names before its first run were planned together, and are corrected together with all that it names, as
        // `compare` does, whichever of them is drawn.
        let is_planned =
            |planned: &Comparison| quantities.iter().all(|(measure, subject)| planned.has(measure, subject));
        let comparison = match planned.filter(is_planned) {
            Some(planned) => planned.planned_part(&quantities),
            None => compared_whole(&swept.quantities()?).of_quantities(&quantities),
        };
        let family = comparison.family();
        let names = comparison.names_of_rows();
        let mut cells: Vec<Vec<Option<Best<'_>>>> = vec![vec![None; xs.len()]; ys.len()];
        for ([x, y], at) in places {
            let (measure, subject) = &quantities[at];
            let Some(group) = comparison.groups.iter().find(|group| group.name == *subject) else { continue };
            let measure = group.measures.iter().position(|of| of.name == *measure);
            cells[y][x] = measure.map(|measure| group.standing(measure, &family));
        }
        if cells.iter().flatten().flatten().any(|best| *best == Best::Untested) {
            return Err(match comparison.repeated() {
                Some(runs) => format!(
                    "the seeds change nothing: all {runs} runs have measured the same, so that they are one, which decides nothing"
                ),
                None => "single runs decide nothing: sweep with --runs 5 or more".into(),
            });
        }
        let of_completed = || cells.iter().flatten().flatten().filter(|best| **best == Best::OfCompleted);
        if family.is_empty() && of_completed().next().is_some() {
            return Err("nobody is the best by the mean of what was completed where not all was: the slower a variant, the more of its \
                        longest durations it leaves out. Draw a percentile, such as --only 'measure=completion p50'"
                .into());
        }
        let left_out = match of_completed().next() {
            Some(_) => " n.t.: not tested, because these are means of what was completed, and not all was.",
            None => "",
        };
        let is_open = comparison.cells().any(|cell| !cell.is_reached());
        let alone = if has_alone(&cells) {
            " (In parentheses): alone in reaching it in all runs, and not told apart from all others."
        } else {
            ""
        };
        let has = |is: fn(&Best<'_>) -> bool| cells.iter().flatten().flatten().any(is);
        // The signs that are there.
        let signs = [
            (has(|best| matches!(best, Best::One(_))), "a name alone is told apart from all others"),
            (
                has(|best| matches!(best, Best::Several(..))),
                "names together, with the colour of each below, are equal within 2 % or, with ? and a lower field, not told apart",
            ),
            (has(|best| *best == Best::Alike), "alike: all within 2 %"),
            (has(|best| *best == Best::Undecided), "? alone: undecided"),
        ];
        let signs: Vec<&str> = signs.into_iter().filter(|(is_there, _)| *is_there).map(|(_, sign)| sign).collect();
        let signs = if signs.is_empty() { String::new() } else { format!(": {}", signs.join("; ")) };
        let Some((measure, first)) = quantities.first() else { return Err("no row is left to compare".into()) };
        let (measures, subject) = (quantities.iter().all(|(of, _)| of == measure), subject_of(first));
        let subjects = quantities.iter().all(|(_, of)| subject_of(of) == subject);
        let of = |direction: Better| {
            let of_it = quantities.iter().filter(|(measure, _)| better(measure) == direction);
            each_once(of_it.map(|(measure, _)| *measure)).join(", ")
        };
        let directions = match [of(Better::Less), of(Better::More)] {
            [_, more] if more.is_empty() => "less is better".to_owned(),
            [less, _] if less.is_empty() => "more is better".to_owned(),
            [less, more] => format!("less is better: {less}; more is better: {more}"),
        };
        let decided = match family.len() {
            _ if family.is_empty() => "Not tested: the seeds change no difference.".to_owned(),
            n => format!(
                "Decided at 5 %, by runs with the same seed, corrected for all {n} differences{} (Holm).",
                if comparison.is_planned() { " that were planned" } else { " of the figure" }
            ),
        };
        let note = format!(
            "The best by {} of {} ({directions}){signs}.{}{alone}{left_out} {decided}",
            if measures { measure } else { "each measure" },
            if subjects { subject } else { "each subject" },
            if is_open {
                " Variants that did not reach it in all runs are left out; n.r.: none reached it in all."
            } else {
                ""
            }
        );
        Ok(self.map(Grid { xs, ys, note, legend: 0.0, lines: 1 }, &cells, &names, look))
    }

    /// The comparison of the quantities that the scenario names before its first run, if it names any.
    fn planned(&self, table: &Table) -> Result<Option<Comparison>, String> {
        if table.primary.is_empty() {
            return Ok(None);
        }
        let whole: Vec<_> = self.only.iter().filter(|only| !is_of_quantities(only)).cloned().collect();
        let whole = compared_whole(&Swept::new(table, &whole, &self.by)?.quantities()?);
        let stated = |whole: &Comparison| Look::page().stated(whole, &table.primary).ok().map(|(planned, _)| planned);
        // Whoever chooses variants or points has planned all of the table, unless that cannot be compared.
        let all = Swept::new(table, &[], &self.by).and_then(|swept| swept.quantities()).ok();
        let all = all.and_then(|quantities| stated(&compared_whole(&quantities)));
        let narrowed = stated(&whole);
        Ok(narrowed.map(|narrowed| match &all {
            Some(all) => narrowed.planned_with(all),
            None => narrowed,
        }))
    }

    fn map(&self, mut grid: Grid, cells: &[Vec<Option<Best<'_>>>], names: &[&str], look: &Look) -> Drawing {
        let (u, small) = (look.unit(), Grid::small(look));
        let mut shown: Vec<String> = short(names);
        let longest = |name: &String| if has_alone(cells) { format!("({name})") } else { format!("{name}?") };
        let wide = shown.iter().map(|name| room(&longest(name), small)).fold(0.0, f64::max);
        let mut entries = shown.clone();
        if wide > grid.room(look) {
            let letters: Vec<String> = (0..names.len()).map(letter).collect();
            entries = letters.iter().zip(&shown).map(|(letter, name)| format!("{letter} {name}")).collect();
            grid.note = format!("{}. {}", entries.join(", "), grid.note);
            shown = letters;
        }
        let place = |name: &str| names.iter().position(|known| *known == name).unwrap_or(0);
        let inks: Vec<Ink> =
            Pens::named(names.iter().copied()).of_bars(names, look.grey).into_iter().map(Ink::Bar).collect();
        // A cell of one colour has the name of its variant. Where cells have several, a legend says which is whose.
        let all = || cells.iter().flatten().flatten();
        let coloured: BTreeSet<usize> = all().flat_map(Best::coloured).map(place).collect();
        let has_several = all().any(|best| matches!(best, Best::Several(..)));
        let coloured: Vec<usize> = coloured.into_iter().filter(|_| has_several).collect();
        let left = grid.along(look).0;
        let legend = || Legend::new(coloured.iter().map(|at| entries[*at].as_str()), look.width - left, small, u);
        let rows = legend().rows as f64;
        grid.legend = if rows > 0.0 { (rows * (small + 7.0 * u) + 10.0 * u) / small } else { 0.0 };
        let cell = |x: usize, y: usize| {
            let plain =
                |lines: Vec<String>| Cell { ground: Ink::Ground, ink: Ink::Text, lines, below: None, foot: Vec::new() };
            Some(match cells[y][x].as_ref()? {
                Best::Nobody => plain(vec!["n.r.".into()]),
                Best::Alike => plain(vec!["alike".into()]),
                Best::Undecided | Best::Untested => plain(vec!["?".into()]),
                Best::OfCompleted => plain(vec![NOT_TESTED.into()]),
                // Nobody was tested against it: it is no winner, and has no colour.
                Best::Only(only) => plain(vec![format!("({})", shown[place(only)])]),
                Best::One(only) => {
                    let ground = inks[place(only)];
                    let ink = if ground.is_dark(look.grey) { Ink::Ground } else { Ink::Text };
                    Cell { ground, ink, ..plain(vec![shown[place(only)].clone()]) }
                }
                Best::Several(first, open) => {
                    let name = |name: &str| shown[place(name)].clone();
                    let lines = first.iter().map(|of| name(of)).chain(open.iter().map(|of| name(of) + "?"));
                    let foot = first.iter().map(|of| (of, 1.0)).chain(open.iter().map(|of| (of, 0.5)));
                    let foot = foot.map(|(of, part)| (inks[place(of)], part)).collect();
                    Cell { foot, ..plain(lines.collect()) }
                }
            })
        };
        let lines = all().map(|of| match of {
            Best::Several(first, open) => first.len() + open.len(),
            _ => 1,
        });
        grid.lines = lines.max().unwrap_or(1);
        let inks_of_legend: Vec<Ink> = coloured.iter().map(|at| inks[*at]).collect();
        grid.drawing(self, look, cell, |drawing, (x, y)| {
            legend().draw_fields(drawing, (x, y + small * 0.8), (small, u), &inks_of_legend);
        })
    }
}

/// Whether a cell has a variant that alone reached the measure in all runs.
fn has_alone(cells: &[Vec<Option<Best<'_>>>]) -> bool {
    cells.iter().flatten().flatten().any(|best| matches!(best, Best::Only(_)))
}

/// Names without what all begin with: the axis of `queue=fifo` and `queue=codel`.
pub(crate) fn short(names: &[&str]) -> Vec<String> {
    let axis = |name: &str| name.split_once('=').map(|(axis, _)| axis.to_owned());
    let first = names.first().and_then(|name| axis(name));
    let is_common = first.is_some() && names.iter().all(|name| axis(name) == first && !name.contains(", "));
    let of = |name: &str| name.split_once('=').filter(|_| is_common).map_or(name, |(_, value)| value).to_owned();
    names.iter().map(|name| of(name)).collect()
}

/// A letter for a name that has no room: A to Z, then A1 and so on.
fn letter(n: usize) -> String {
    let letter = char::from(b'A' + (n % 26) as u8);
    if n < 26 { letter.to_string() } else { format!("{letter}{}", n / 26) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::ChartKind;
    use crate::columns::Column;
    use crate::drawing::Shape;

    /// Two queues at two rates and two round trips with five seeds: the first is faster at 4 Mbit/s, at 10 Mbit/s the second is with
    /// the short round trip, and both are equal with the long one.
    fn table(noise: f64) -> Table {
        let mut texts: [Vec<Option<String>>; 3] = Default::default();
        let (mut seeds, mut values) = (Vec::new(), Vec::new());
        for (rate, rtt, of) in [
            ("4mbit", "5ms", [4.0, 3.0]),
            ("4mbit", "20ms", [4.0, 3.0]),
            ("10mbit", "5ms", [8.0, 9.0]),
            ("10mbit", "20ms", [9.0, 9.0]),
        ] {
            for seed in 1..=5_u64 {
                for (queue, value) in ["fq-codel", "pie"].into_iter().zip(of) {
                    let all = [rate, rtt, queue];
                    texts.iter_mut().zip(all).for_each(|(column, text)| column.push(Some(text.to_owned())));
                    seeds.push(Some(seed));
                    let sign = if queue == "pie" { 1.0 } else { -1.0 };
                    values.push(Some(1e6 * (value + seed as f64 / 100.0 + sign * noise * ((seed * 2) % 5) as f64)));
                }
            }
        }
        let rows = seeds.len();
        let all = |text: &str| Column::Text(vec![Some(text.to_owned()); rows]);
        let [rate, rtt, variant] = texts;
        Table::default()
            .with("link.1.rate", Column::Text(rate))
            .with("link.1.rtt", Column::Text(rtt))
            .with("seed", Column::Integer(seeds))
            .with("variant", Column::Text(variant))
            .with("subject", all("flow bulk"))
            .with("measure", all("goodput"))
            .with("value", Column::Number(values))
            .with("unit", all("bps"))
    }
    fn chart() -> Chart {
        let [x, y, value] = ["link.1.rate", "rtt", "value"].map(str::to_owned);
        Chart { kind: ChartKind::Best, x, y, value, ..Chart::default() }
    }
    /// The texts of the cells, from the upper left to the lower right, with the ground of each.
    fn cells(drawing: &Drawing) -> Vec<(Ink, String)> {
        let mut found: Vec<(Ink, String)> = Vec::new();
        let mut is_cell = false;
        for shape in &drawing.shapes {
            match shape {
                Shape::Rectangle { ink, .. } => found.push((*ink, String::new())),
                Shape::Lines { .. } => is_cell = true,
                Shape::Text { text, anchor: crate::drawing::Anchor::Middle, .. } if is_cell => {
                    let last = found.last_mut().expect("a cell");
                    last.1 = if last.1.is_empty() { text.clone() } else { format!("{} {text}", last.1) };
                }
                Shape::Text { .. } => is_cell = false,
                _ => {}
            }
        }
        found
    }

    /// A variant that alone reached it in all runs was tested against nobody: it is no winner.
    #[test]
    fn one_that_alone_reached_it_is_in_parentheses() {
        let mut open = table(0.001);
        let place = open.names.iter().position(|name| name == "value").expect("a column");
        let Column::Number(values) = &mut open.columns[place] else { panic!("values") };
        // One run of the second at 4 Mbit/s and 5 ms, and one of each at 10 Mbit/s and 20 ms.
        [1, 30, 31].into_iter().for_each(|row: usize| values[row] = Some(f64::INFINITY));
        let shares = Column::Text(vec![Some("%".to_owned()); values.len()]);
        let open = open.without(&["unit"]).with("unit", shares);
        let drawing = chart().drawing(&open, &Look::text()).expect("a map");
        let said = cells(&drawing);
        assert!(said.contains(&(Ink::Ground, "(fq-codel)".to_owned())), "{said:?}");
        assert!(said.contains(&(Ink::Ground, "n.r.".to_owned())), "{said:?}");
        let svg = drawing.svg().replace("</text>", " ");
        assert!(svg.contains("(In parentheses): alone in"), "{svg}");
    }

    #[test]
    fn each_cell_has_who_is_the_best_or_who_may_be() {
        let drawing = chart().drawing(&table(0.001), &Look::text()).expect("a map");
        let said: Vec<(bool, String)> =
            cells(&drawing).into_iter().map(|(ink, text)| (matches!(ink, Ink::Bar(_)), text)).collect();
        let of = |is_decided: bool, text: &str| (is_decided, text.to_owned());
        // The longer round trip is above.
        let [above, below] = [[of(true, "fq-codel"), of(false, "alike")], [of(true, "fq-codel"), of(true, "pie")]];
        assert_eq!(said[..2], above);
        assert_eq!(said[2].clone(), below[0]);
        assert!(said[3].1.starts_with("pie") && said[3].0, "{said:?}");
        // The note explains the signs that are there, and no others.
        let note = |drawing: &Drawing| {
            let text = |shape: &Shape| if let Shape::Text { text, .. } = shape { Some(text.clone()) } else { None };
            drawing.shapes.iter().filter_map(text).collect::<Vec<_>>().join(" ")
        };
        let whole = note(&drawing);
        assert!(whole.contains("a name alone is told apart from all others; alike: all within 2 %."), "{whole}");
        assert!(!whole.contains("names together") && !whole.contains("? alone"), "{whole}");
        // With noise nothing is told apart.
        let drawing = chart().drawing(&table(1.0), &Look::text()).expect("a map");
        assert!(
            cells(&drawing).iter().any(|(ink, text)| *ink == Ink::Ground && text.starts_with('?')),
            "{:?}",
            cells(&drawing)
        );
    }

    /// The map draws one of two planned quantities, and corrects it for both as the answer of `compare` does, so that the two cannot
    /// disagree.
    #[test]
    fn a_map_of_a_planned_quantity_is_corrected_for_all_that_was_planned() {
        let other = table(0.001).columns().fold(Table::default(), |other, (name, column)| match name {
            "measure" => other.with(name, Column::Text(vec![Some("loss".to_owned()); 40])),
            _ => other.with(name, column.clone()),
        });
        let mut both = table(0.001);
        both.append(other).expect("the same columns");
        let chart = Chart { only: vec![("measure".into(), "goodput".into())], ..chart() };
        let said = |table: &Table| {
            let drawing = chart.drawing(table, &Look::text()).expect("a map");
            let text = |shape: &Shape| if let Shape::Text { text, .. } = shape { Some(text.clone()) } else { None };
            drawing.shapes.iter().filter_map(text).collect::<Vec<_>>().join(" ")
        };
        assert!(said(&both).contains("corrected for all 4 differences of the figure (Holm)"), "{}", said(&both));
        both.primary = vec!["goodput of flow bulk".into(), "loss of flow bulk".into()];
        let planned = said(&both);
        assert!(planned.contains("corrected for all 8 differences that were planned (Holm)"), "{planned}");
        let whole = compared_whole(&crate::swept::quantities(&both, &[], &[]).expect("a sweep"));
        let (stated, _) = Look::page().stated(&whole, &both.primary).expect("both");
        assert!(stated.method().is_some_and(|method| method.contains("corrected for all 8 differences")));
        // Another quantity than those that were planned is explored, and corrected for what is drawn.
        both.primary = vec!["loss of flow bulk".into()];
        assert!(said(&both).contains("all 4 differences of the figure"));
    }

    /// Two that are equal share a cell, below which both have their colour; the legend says which is whose.
    #[test]
    fn a_cell_of_two_has_both_colours_and_the_map_a_legend() {
        let queues = [("fq-codel", [9.0, 9.0]), ("pie", [9.01, 5.0]), ("fifo", [3.0, 3.0])];
        let mut texts: [Vec<Option<String>>; 2] = Default::default();
        let (mut seeds, mut values) = (Vec::new(), Vec::new());
        for (at, rate) in ["4mbit", "10mbit"].into_iter().enumerate() {
            for seed in 1..=5_u64 {
                for (queue, of) in queues {
                    texts.iter_mut().zip([rate, queue]).for_each(|(column, text)| column.push(Some(text.to_owned())));
                    seeds.push(Some(seed));
                    values.push(Some(1e6 * (of[at] + seed as f64 * of[at] / 1000.0)));
                }
            }
        }
        let rows = seeds.len();
        let all = |text: &str| Column::Text(vec![Some(text.to_owned()); rows]);
        let [rate, variant] = texts;
        let table = Table::default()
            .with("link.1.rate", Column::Text(rate.clone()))
            .with("link.1.rtt", Column::Text(rate))
            .with("seed", Column::Integer(seeds))
            .with("variant", Column::Text(variant))
            .with("subject", all("flow bulk"))
            .with("measure", all("goodput"))
            .with("value", Column::Number(values))
            .with("unit", all("bps"));
        for look in [Look::text(), Look::column(), Look { grey: true, ..Look::column() }] {
            let drawing = chart().drawing(&table, &look).expect("a map");
            // The fields of the colours of bars, with their widths and the text that follows.
            let mut fields: Vec<(usize, f64, f64, String)> = Vec::new();
            for shape in &drawing.shapes {
                match shape {
                    Shape::Rectangle { ink: Ink::Bar(ink), x, width, .. } => {
                        fields.push((*ink, *x, *width, String::new()))
                    }
                    Shape::Text { text, .. } => {
                        if let Some(last) = fields.last_mut().filter(|last| last.3.is_empty()) {
                            last.3.clone_from(text);
                        }
                    }
                    _ => {}
                }
            }
            let [alone, first, second, named, other] = fields.as_slice() else { panic!("{fields:?}") };
            assert!(first.0 != second.0 && first.2 == second.2 && first.1 + first.2 == second.1, "{fields:?}");
            assert_eq!((alone.0, alone.3.as_str()), (named.0, "fq-codel"), "{fields:?}");
            // The legend has the two that have a colour, and the third has none.
            assert_eq!((named.3.as_str(), other.3.as_str()), ("fq-codel", "pie"));
            assert_eq!(BTreeSet::from([named.0, other.0]), BTreeSet::from([first.0, second.0]));
            let bottom = drawing.shapes.iter().filter_map(|shape| match shape {
                Shape::Text { y, .. } => Some(*y),
                _ => None,
            });
            assert!(bottom.fold(0.0, f64::max) <= drawing.height);
            let svg = drawing.svg().replace("</text>", " ");
            assert!(svg.contains("names together"), "{svg}");
        }
    }

    /// A sweep with one axis has one row, and the variants that are compared are no axis.
    #[test]
    fn a_map_of_one_axis_has_one_row() {
        let one = Chart {
            y: "value".into(),
            only: vec![("link.1.rtt".into(), "5ms".into()), ("measure".into(), "goodput".into())],
            ..chart()
        };
        let drawing = one.drawing(&table(0.001), &Look::text()).expect("a map");
        let said: Vec<String> = cells(&drawing).into_iter().map(|(_, text)| text).collect();
        assert_eq!(said[0], "fq-codel");
        assert!(said[1].starts_with("pie") && said.len() == 2, "{said:?}");
        assert!(drawing.height < 200.0, "{}", drawing.height);
        let axis = Chart { y: "variant".into(), ..one };
        let why = axis.drawing(&table(0.001), &Look::text()).expect_err("no axis");
        assert!(why.contains("`variant` is what is compared in each cell"), "{why}");
    }

    /// The note says which way each measure is better.
    #[test]
    fn each_measure_has_its_direction() {
        let both = (0..40).map(|n| Some(if n < 20 { "goodput" } else { "delay p99" }.to_owned())).collect();
        let table = table(0.001).without(&["measure"]).with("measure", Column::Text(both));
        let one = |only: &[&str]| {
            let only = only.iter().map(|measure| ("measure".to_owned(), (*measure).to_owned()));
            let only = only.chain([("link.1.rtt".to_owned(), "5ms".to_owned())]).collect();
            let drawing = Chart { y: "measure".into(), only, ..chart() }.drawing(&table, &Look::page()).expect("a map");
            drawing.svg().replace("</text>", " ")
        };
        assert!(one(&[]).contains("(less is better: delay p99; more is better: goodput)"), "{}", one(&[]));
        assert!(one(&["goodput"]).contains("(more is better)"), "{}", one(&["goodput"]));
    }

    #[test]
    fn names_without_room_are_letters_that_the_note_explains() {
        let look = Look { width: 70.0, ..Look::column() };
        let drawing = chart().drawing(&table(0.001), &look).expect("a map");
        assert_eq!(cells(&drawing)[0].1, "A");
        let texts: Vec<&str> = drawing
            .shapes
            .iter()
            .filter_map(|shape| if let Shape::Text { text, .. } = shape { Some(text.as_str()) } else { None })
            .collect();
        assert!(texts.join(" ").contains("A fq-codel, B pie."), "{texts:?}");
    }

    #[test]
    fn what_has_no_best_is_refused() {
        let said = |chart: Chart, table: Table| chart.drawing(&table, &Look::page()).expect_err("refused");
        let neither = Column::Text(vec![Some("throughput".to_owned()); 40]);
        let of = said(chart(), table(0.001).without(&["measure"]).with("measure", neither));
        assert!(of.contains("neither more nor less is better"), "{of}");
        let of = said(Chart { only: vec![("seed".into(), "1".into())], ..chart() }, table(0.001));
        assert!(of.contains("--runs"), "{of}");
        let of = said(Chart { only: vec![("variant".into(), "pie".into())], ..chart() }, table(0.001));
        assert!(of.contains("--by"), "{of}");
        assert!(said(Chart { log: true, ..chart() }, table(0.001)).contains("--log"));
    }
}

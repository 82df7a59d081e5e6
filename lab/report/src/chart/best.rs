//! Maps of the best variants: which is the best by a measure at each point of a sweep.

use std::collections::BTreeSet;

use super::Chart;
use super::cells::{Cell, Grid};
use crate::columns::Table;
use crate::comparison::{Better, Comparison, Group, Measure, Row};
use crate::drawing::{Drawing, Ink};
use crate::font::room;
use crate::judgement::Family;
use crate::look::Look;
use crate::palette::Pens;
use crate::simulation::{Quantity, better};
use crate::swept::quantities;

/// Who is the best in a cell, by places among all names.
#[derive(Debug, PartialEq)]
enum Best {
    /// No variant reached the measure in all runs.
    Nobody,
    /// The runs tell this one apart from all others.
    One(usize),
    /// The first are the best and those that are equal to it within 2 %; the runs do not tell the others apart from it.
    Several(Vec<usize>, Vec<usize>),
    /// All are equal within 2 %.
    Alike,
    /// The runs tell no other apart from the one with the best mean.
    Undecided,
}

impl Chart {
    /// Draws which variant is the best in each cell. The tests of all cells are corrected for each other.
    pub(super) fn best_of_variants(&self, table: &Table, look: &Look) -> Result<Drawing, String> {
        look.refuse_range("choose the cells of a map with --only")?;
        if self.log || look.log || self.times.is_some() || !self.over.is_empty() {
            return Err(
                "a map of the best variants has no scale, unit or ratio: leave out --log, --times and --over".into()
            );
        }
        let rows = self.chosen(table, &self.value)?;
        let (xs, ys) = self.places(table, &rows)?;
        let mut groups = Vec::new();
        let points: BTreeSet<[usize; 2]> = self.placed(table, &rows, (&xs, &ys))?.map(|(point, _)| point).collect();
        for [x, y] in points {
            let point = [(self.x.clone(), xs[x].clone()), (self.y.clone(), ys[y].clone())];
            let only: Vec<(String, String)> = self.only.iter().cloned().chain(point).collect();
            let found =
                quantities(table, &only, &self.by).map_err(|why| format!("at {} and {}: {why}", xs[x], ys[y]))?;
            groups.push(((x, y), group(&found)?));
        }
        let comparison =
            Comparison { title: String::new(), groups: groups.iter().map(|(_, group)| group.clone()).collect() };
        let family = comparison.family();
        let names = comparison.names_of_rows();
        let mut cells: Vec<Vec<Option<Best>>> = ys.iter().map(|_| xs.iter().map(|_| None).collect()).collect();
        for ((x, y), group) in &groups {
            cells[*y][*x] = Some(best(group, &family, &names)?);
        }
        let mut all = comparison.groups.iter().flat_map(|group| &group.rows).flat_map(|row| row.cells.iter().flatten());
        let is_open = all.any(|cell| !cell.is_reached());
        let measure = &comparison.groups[0].measures[0];
        let subject = &comparison.groups[0].name;
        let is_one = comparison.groups.iter().all(|group| group.name == *subject);
        let note = format!(
            "The best by {} of {} ({} is better): a name alone in its colour is told apart from all others, which are worse. Names \
             together: the best mean, those equal to it within 2 % and, with ?, those not told apart from it. alike: all within 2 %; ? \
             alone: undecided.{} Decided at 5 %, by runs with the same seed, corrected for all {} differences of the figure (Holm).",
            measure.name,
            if is_one { subject } else { "each subject" },
            if measure.better == Better::More { "more" } else { "less" },
            if is_open { " Variants that did not reach it in all runs are left out; n.r.: none did." } else { "" },
            family.len()
        );
        Ok(self.map(Grid { xs, ys, note, legend: 0.0, lines: 1 }, &cells, &names, look))
    }

    fn map(&self, mut grid: Grid, cells: &[Vec<Option<Best>>], names: &[&str], look: &Look) -> Drawing {
        let small = Grid::small(look);
        let mut shown: Vec<String> = short(names);
        let wide = shown.iter().map(|name| room(&format!("{name}?"), small)).fold(0.0, f64::max);
        if wide > grid.room(look) {
            let letters: Vec<String> = (0..names.len()).map(letter).collect();
            let said: Vec<String> =
                letters.iter().zip(&shown).map(|(letter, name)| format!("{letter} {name}")).collect();
            grid.note = format!("{}. {}", said.join(", "), grid.note);
            shown = letters;
        }
        let colours = Pens::named(names.iter().copied()).of_bars(names);
        let cell = |x: usize, y: usize| {
            let plain = |lines: Vec<String>| Cell { ground: Ink::Ground, ink: Ink::Text, lines };
            let all = |places: &[usize]| places.iter().map(|place| shown[*place].clone()).collect::<Vec<_>>();
            Some(match cells[y][x].as_ref()? {
                Best::Nobody => plain(vec!["n.r.".into()]),
                Best::Alike => plain(vec!["alike".into()]),
                Best::Undecided => plain(vec!["?".into()]),
                Best::One(only) => {
                    let ground = Ink::Bar(colours[*only]);
                    let ink = if ground.is_dark(look.grey) { Ink::Ground } else { Ink::Text };
                    Cell { ground, ink, lines: vec![shown[*only].clone()] }
                }
                Best::Several(first, open) => {
                    plain(all(first).into_iter().chain(all(open).into_iter().map(|name| name + "?")).collect())
                }
            })
        };
        let lines = cells.iter().flatten().flatten().map(|of| match of {
            Best::Several(first, open) => first.len() + open.len(),
            _ => 1,
        });
        grid.lines = lines.max().unwrap_or(1);
        grid.drawing(self, look, cell, |_, _| ())
    }
}

/// The comparison of the variants at one point.
fn group(found: &[Quantity]) -> Result<Group, String> {
    let first = found.first().ok_or("no row is left to compare")?;
    let measure = Measure::new(first.measure.as_str(), first.unit, better(&first.measure));
    if measure.better == Better::Neither {
        return Err(format!("nobody is the best by `{}`, of which neither more nor less is better", first.measure));
    }
    let row = |of: &Quantity| Row { name: of.variant.clone(), cells: vec![Some(of.estimate())] };
    let rows = found.iter().map(row).collect();
    Ok(Group { name: first.plain().to_owned(), measures: vec![measure], rows, ..Group::default() })
}

fn best(group: &Group, family: &Family, names: &[&str]) -> Result<Best, String> {
    let ranked = group.ranked(0);
    let place = |of: &usize| names.iter().position(|name| *name == ranked[*of].0).unwrap_or(0);
    match ranked.len() {
        0 => return Ok(Best::Nobody),
        1 => return Ok(Best::One(place(&0))),
        _ => {}
    }
    let verdict = group.verdict(0, &ranked, family);
    let verdict = verdict.ok_or("single runs decide nothing: sweep with --runs 5 or more")?;
    if verdict.alike.len() + 1 == ranked.len() {
        return Ok(Best::Alike);
    }
    if verdict.apart.is_empty() {
        return Ok(Best::Undecided);
    }
    // The places among `ranked` rise from the best mean to the worst.
    let sorted = |of: &[usize]| {
        let mut of = of.to_vec();
        of.sort_unstable();
        of.iter().map(place).collect::<Vec<_>>()
    };
    let first = [&[verdict.best][..], &verdict.alike].concat();
    Ok(match (first.as_slice(), verdict.open.is_empty()) {
        ([only], true) => Best::One(place(only)),
        _ => Best::Several(sorted(&first), sorted(&verdict.open)),
    })
}

/// Names without what all begin with: the axis of `queue=fifo` and `queue=codel`.
fn short(names: &[&str]) -> Vec<String> {
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

    #[test]
    fn each_cell_has_who_is_the_best_or_who_may_be() {
        let drawing = chart().drawing(&table(0.0), &Look::text()).expect("a map");
        let said: Vec<(bool, String)> =
            cells(&drawing).into_iter().map(|(ink, text)| (matches!(ink, Ink::Bar(_)), text)).collect();
        let of = |is_decided: bool, text: &str| (is_decided, text.to_owned());
        // The longer round trip is above.
        let [above, below] = [[of(true, "fq-codel"), of(false, "alike")], [of(true, "fq-codel"), of(true, "pie")]];
        assert_eq!(said[..2], above);
        assert_eq!(said[2].clone(), below[0]);
        assert!(said[3].1.starts_with("pie") && said[3].0, "{said:?}");
        // With noise nothing is told apart.
        let drawing = chart().drawing(&table(1.0), &Look::text()).expect("a map");
        assert!(
            cells(&drawing).iter().any(|(ink, text)| *ink == Ink::Ground && text.starts_with('?')),
            "{:?}",
            cells(&drawing)
        );
    }

    /// The first is told apart from the third, and not from the second, whose runs vary so much; the fourth is equal to the first.
    #[test]
    fn a_cell_names_the_best_and_who_is_not_told_apart_from_it() {
        let of = |name: &str, value: &dyn Fn(u64) -> f64| Quantity {
            variant: name.into(),
            subject: format!("{name}: flow short"),
            measure: "completion mean".into(),
            unit: "ns",
            mean: (1..=6).map(value).sum::<f64>() / 6.0,
            values: (1..=6).map(|seed| Some(value(seed))).collect(),
            seeds: (1..=6).collect(),
            half_width_95: Some(1.0),
            point: String::new(),
        };
        let found = [
            of("fq-codel", &|seed| 229e6 + 1e5 * seed as f64),
            of("fifo", &|seed| if seed % 2 == 0 { 1800e6 } else { 131e6 }),
            of("cake", &|seed| 289e6 + 1e5 * (seed % 3) as f64),
            of("pie", &|seed| 230e6 + 1e5 * seed as f64),
        ];
        let said = |found: &[Quantity]| {
            let group = group(found).expect("a group");
            let comparison = Comparison { title: String::new(), groups: vec![group.clone()] };
            best(&group, &comparison.family(), &["fq-codel", "fifo", "cake", "pie"]).expect("runs")
        };
        assert_eq!(said(&found), Best::Several(vec![0, 3], vec![1]));
        assert_eq!(said(&[found[0].clone(), found[2].clone()]), Best::One(0));
        assert_eq!(said(&[found[0].clone(), found[3].clone()]), Best::Alike);
        assert_eq!(said(&found[..2]), Best::Undecided);
    }

    #[test]
    fn names_without_room_are_letters_that_the_note_explains() {
        let look = Look { width: 70.0, ..Look::column() };
        let drawing = chart().drawing(&table(0.0), &look).expect("a map");
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
        let of = said(chart(), table(0.0).without(&["measure"]).with("measure", neither));
        assert!(of.contains("neither more nor less is better"), "{of}");
        let of = said(Chart { only: vec![("seed".into(), "1".into())], ..chart() }, table(0.0));
        assert!(of.contains("--runs"), "{of}");
        let of = said(Chart { only: vec![("variant".into(), "pie".into())], ..chart() }, table(0.0));
        assert!(of.contains("--by"), "{of}");
        assert!(said(Chart { log: true, ..chart() }, table(0.0)).contains("--log"));
    }
}

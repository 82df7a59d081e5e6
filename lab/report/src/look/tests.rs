use super::*;

#[test]
fn lines_are_as_wide_as_they_may_be_and_keep_percentages_whole() {
    let lines = Look::lines("those within 2 % of it", 10.0, room("those within 2", 10.0) + 1.0);
    assert_eq!(lines, ["those within", "2 % of it"]);
    assert_eq!(Look::lines("one two", 10.0, room("one two", 10.0)), ["one two"]);
}
use crate::comparison::{Better, Measure, Row};

#[test]
fn a_distribution_on_paper_is_linear_unless_its_tail_is_asked_for() {
    let scales = |look: &str| {
        let axis = || crate::model::Axis::new("delay", "s");
        let y = crate::model::Axis::tail("share");
        let curves = vec![crate::model::Curve::new("one", [(0.1, 0.5), (0.2, 1.0)])];
        let plot = Plot { title: String::new(), x: axis(), y, style: Style::Cdf, note: None, curves };
        let plot = Look::parse(look).and_then(|look| look.plot(plot)).expect("a plot");
        (plot.x.scale, plot.y.scale)
    };
    assert_eq!(scales("column"), (Scale::Linear, Scale::Linear));
    assert_eq!(scales("text,log"), (Scale::Log, Scale::Tail));
    assert_eq!(scales("text,log,form=ecdf"), (Scale::Log, Scale::Linear));
    assert_eq!(scales("page"), (Scale::Linear, Scale::Tail));
}

#[test]
fn bands_are_left_out_with_their_note() {
    let axis = || crate::model::Axis::new("time", "s");
    let mut curve = crate::model::Curve::new("one", [(0.0, 1.0), (1.0, 2.0)]);
    curve.band = vec![(0.0, 0.5, 1.5), (1.0, 1.5, 2.5)];
    curve.band_is = "quartiles of the runs".into();
    let curves = vec![curve.clone(), crate::model::Curve { name: "two".into(), ..curve }];
    let note = Some("Lines: medians of 9 runs.".to_owned());
    let plot = Plot { title: String::new(), x: axis(), y: axis(), style: Style::Lines, note, curves };
    let drawn = |look: &str| {
        let drawing = plot.with_look(&Look::parse(look).expect("a look")).expect("a plot");
        let areas = drawing.shapes.iter().filter(|shape| matches!(shape, crate::drawing::Shape::Area { .. })).count();
        let text = |shape: &crate::drawing::Shape| match shape {
            crate::drawing::Shape::Text { text, .. } => Some(text.clone()),
            _ => None,
        };
        let left_out = drawing.left_out().map(str::to_owned);
        (areas, drawing.shapes.iter().filter_map(text).collect::<Vec<_>>().join(" "), left_out, drawing.height)
    };
    let (with, without) = (drawn("column"), drawn("column,no-bands"));
    // Both curves have the same kind of band, which is said once.
    assert!(with.1.contains("Lines: medians of 9 runs. Bands: quartiles of the runs."), "{with:?}");
    assert!(without.1.contains("Lines: medians of 9 runs.") && !without.1.contains("Bands"), "{without:?}");
    assert_eq!((with.0, without.0), (2, 0));
    // In grey a fourth band would hide others.
    let mut four = plot.clone();
    four.curves.extend(
        plot.curves.iter().map(|curve| crate::model::Curve { name: format!("{} more", curve.name), ..curve.clone() }),
    );
    let areas = |plot: &Plot, look: &str| {
        let plot = Look::parse(look).and_then(|look| look.plot(plot.clone())).expect("a plot");
        let bands = plot.curves.iter().filter(|curve| !curve.band.is_empty()).count();
        (bands, plot.note.unwrap_or_default().contains("Bands are left out"))
    };
    assert_eq!([areas(&four, "column"), areas(&plot, "column,grey")], [(4, false), (2, false)]);
    assert_eq!([areas(&four, "column,grey"), areas(&four, "column,grey,no-bands")], [(0, true), (0, false)]);
    // What is said below a figure may be left to the caption, which has it then.
    let plain = drawn("column,no-notes");
    assert!(!plain.1.contains("Lines:") && plain.3 < with.3 && with.2.is_none(), "{plain:?}");
    assert!(plain.2.is_some_and(|caption| caption.contains("Lines: medians of 9 runs. Bands")));
}

#[test]
fn looks_are_read_and_wrong_ones_named() {
    let look = Look::parse("column,height=5cm,type=7,title=Delay at 1 Mbit/s,row=pie,row=red,form=ccdf,grey");
    let look = look.expect("a look");
    assert_eq!((look.width, look.size, look.grey, look.on_paper), (252.0, 7.0, true, true));
    assert!((look.height.unwrap_or(0.0) - 142.26).abs() < 0.01);
    assert_eq!(look.heading("other"), Some("Delay at 1 Mbit/s"));
    assert_eq!((look.rows, look.form), (vec!["pie".to_owned(), "red".to_owned()], Some(Form::Ccdf)));
    let inches = Look::parse("width=4in").expect("a look").width;
    assert!((inches - 289.08).abs() < 1e-9, "{inches}");
    assert_eq!(Look::parse("text,title=").map(|look| look.heading), Ok(Heading::Nothing));
    let both = Look::parse_all(&["row=pie,grey", "column,row=red"]).expect("a look");
    assert_eq!((both.width, both.grey, both.rows), (252.0, true, vec!["pie".to_owned(), "red".to_owned()]));
    for (text, why) in [
        ("poster", "no look"),
        ("column,text", "neither `grey`, `log`, `overlay`, `no-bands`, `no-notes` nor KEY=VALUE"),
        ("width=wide", "a length is expected"),
        ("width=9999", "from 80 to 4000 points"),
        ("width=NaN", "from 80"),
        ("type=3", "from 4 to 40"),
        ("form=pie", "there are bars, box, violin, strip, ecdf, ccdf"),
        ("colour=red", "no key of a look"),
        ("width=80,type=20", "too narrow"),
    ] {
        let said = Look::parse(text).expect_err(text);
        assert!(said.contains(why), "{text}: {said}");
    }
}

#[test]
fn rows_and_measures_are_chosen_by_name_in_the_order_given() {
    let row = |name: &str| Row { name: name.into(), cells: vec![Some(1.0.into()), None, Some(3.0.into())] };
    let measures = ["goodput", "delay p50", "delay p99"].map(|name| Measure::new(name, "", Better::Less)).into();
    let rows = ["red", "ared", "codel"].map(row).into();
    let all = Comparison::new("t", vec![Group { name: "call".into(), measures, rows, ..Group::default() }]);
    let look = |text: &str| Look::parse(text).expect("a look").comparison(&all);
    let some = look("row=codel,row=red,measure=p99").expect("a part");
    let names: Vec<&str> = some.groups[0].rows.iter().map(|row| row.name.as_str()).collect();
    // `red` is the name of a row, so that `ared`, which contains it, is not meant.
    assert_eq!(names, ["codel", "red"]);
    assert_eq!(some.groups[0].measures.len(), 1);
    assert_eq!(some.groups[0].rows[0].cells, [Some(3.0.into())]);
    assert!(look("row=sfq").is_err_and(|why| why.contains("there are red, ared, codel")));
}

/// Each variant has several curves: `codel` means those of this variant, and not those of `fq-codel`.
#[test]
fn a_row_is_meant_by_whole_words_first() {
    let names = ["codel: flow bulk", "codel: flow call", "fq-codel: flow bulk", "fq-codel: flow call"];
    let chosen = |text: &str| Look::chosen(&names, &[text.to_owned()], |name| name, "curve").expect("a curve");
    assert_eq!(chosen("codel"), [0, 1]);
    assert_eq!(chosen("fq-codel"), [2, 3]);
    assert_eq!(chosen("codel call"), [1]);
    // A part of a word means nothing.
    let why = Look::chosen(&names, &["fq".to_owned()], |name| name, "curve").expect_err("no word");
    assert!(
        why.contains("no curve is meant by `fq`. Did you mean `fq-codel: flow bulk`? There are codel: flow bulk"),
        "{why}"
    );
}

#[test]
fn measures_that_are_not_shown_by_themselves_are_found_by_their_names() {
    let value = |variant: &str, measure: &str, value: f64| {
        crate::simulation::Quantity::of_one_run(variant, "flow web", measure, "bps", value)
    };
    let measures = [("page load p50", 2.0), ("goodput", 3.0), ("delay up p99", 4.0), ("delay down p99", 5.0)];
    let of = |variant| measures.iter().map(move |(measure, number)| value(variant, measure, *number));
    let all: Vec<_> = of("fifo").chain(of("codel")).collect();
    let all = crate::simulation::compared("t", &all);
    let shown = |look: &str| -> Result<Vec<(String, f64)>, String> {
        let found = Look::parse(look).expect("a look").comparison(&all)?;
        let group = &found.groups[0];
        let cells = group.rows[1].cells.iter().map(|cell| cell.as_ref().map_or(f64::NAN, |cell| cell.mean));
        Ok(group.measures.iter().map(|measure| measure.name.clone()).zip(cells).collect())
    };
    assert_eq!(shown("measure=goodput"), Ok(vec![("goodput".into(), 3.0)]));
    // All words of `delay p99` are in both names.
    let both = vec![("delay up p99".to_owned(), 4.0), ("delay down p99".to_owned(), 5.0)];
    assert_eq!(shown("measure=delay p99"), Ok(both));
    // So are all measures that have a word, whether they are usually shown or not.
    let names = |look: &str| shown(look).map(|found| found.into_iter().map(|(name, _)| name).collect::<Vec<_>>());
    assert_eq!(names("measure=p99"), Ok(vec!["delay up p99".into(), "delay down p99".into()]));
    assert_eq!(names("measure=delay"), names("measure=p99"));
    assert!(names("measure=goodpu").is_err_and(|why| why.contains("Did you mean `goodput`?")));
    assert!(shown("measure=jitter").is_err_and(|why| why.contains("page load p50") && why.contains("goodput")));
}

/// Two measures, each of another subject: two quantities, and not four.
#[test]
fn single_quantities_are_chosen_by_their_measure_and_subject() {
    let group = |name: &str| {
        let measures = ["goodput", "delay up p99"].map(|name| Measure::new(name, "", Better::Less)).into();
        let row = |name: &str| Row { name: name.into(), cells: vec![Some(1.0.into()), Some(2.0.into())] };
        let others = vec![(Measure::new("jitter", "", Better::Less), vec![Some(3.0.into()), None])];
        Group { name: name.into(), measures, rows: ["fifo", "codel"].map(row).into(), others }
    };
    let all = Comparison::new("", ["flow bulk", "flow call"].map(group).into());
    let look = |texts: &[&str]| Look::parse_all(texts).expect("a look").comparison(&all);
    let names = |found: Comparison| -> Vec<String> {
        let of_group = |group: Group| {
            let of = |measure: &Measure| format!("{} of {}", measure.name, group.name);
            group.measures.iter().map(of).collect::<Vec<_>>()
        };
        found.groups.into_iter().flat_map(of_group).collect()
    };
    let two = ["compare=delay up p99 of flow call", "compare=goodput of flow bulk"];
    assert_eq!(look(&two).map(names), Ok(vec!["delay up p99 of flow call".into(), "goodput of flow bulk".into()]));
    let more = ["compare=delay up p99 of flow call,compare=jitter of call,row=fifo"];
    let found = look(&more).expect("a part");
    assert_eq!((found.groups[0].rows.len(), found.groups[0].rows[0].cells[1].clone()), (1, Some(3.0.into())));
    assert_eq!(names(found), ["delay up p99 of flow call", "jitter of flow call"]);
    assert!(Look::parse("compare=goodput").is_err_and(|why| why.contains("MEASURE of SUBJECT")));
    assert!(look(&["compare=MOS of flow call"]).is_err_and(|why| why.contains("goodput, delay up p99")));
    assert!(look(&["compare=goodput of flow web"]).is_err_and(|why| why.contains("flow bulk, flow call")));
    assert!(look(&["compare=goodput of flow call,measure=loss"]).is_err_and(|why| why.contains("do not go")));
}

#[test]
fn each_subject_keeps_those_of_the_measures_that_it_has() {
    let group = |name: &str, measures: [&str; 2]| {
        let measures = measures.map(|name| Measure::new(name, "", Better::Less)).into();
        let row = |name: &str| Row { name: name.into(), cells: vec![Some(1.0.into()), Some(2.0.into())] };
        Group { name: name.into(), measures, rows: ["fifo", "codel"].map(row).into(), ..Group::default() }
    };
    let groups = vec![group("flow bulk", ["goodput", "loss"]), group("flow call", ["MOS up", "loss"])];
    let all = Comparison::new("", groups);
    let look = |text: &str| Look::parse(text).expect("a look").comparison(&all);
    let names = |found: Comparison| -> Vec<(String, usize)> {
        found.groups.into_iter().map(|group| (group.name, group.measures.len())).collect()
    };
    let both = look("measure=goodput,measure=MOS up").expect("a part");
    assert_eq!(names(both), [("flow bulk".into(), 1), ("flow call".into(), 1)]);
    assert_eq!(names(look("measure=goodput").expect("a part")), [("flow bulk".into(), 1)]);
    assert_eq!(names(look("subject=call").expect("a part")), [("flow call".into(), 2)]);
    assert!(look("measure=goodput,measure=jitter").is_err_and(|why| why.contains("goodput, loss, MOS up")));
    assert!(look("subject=video").is_err_and(|why| why.contains("there are flow bulk, flow call")));
}

/// A distribution of which nothing was completed is there, and is told apart from one that nobody meant.
#[test]
fn curves_that_stay_at_zero_say_that_nothing_was_completed() {
    let plot = |points: &[(f64, f64)]| Plot {
        title: "Completion time, distribution".into(),
        x: crate::model::Axis::new("completion time", "s"),
        y: crate::model::Axis::tail("share"),
        style: Style::Cdf,
        note: None,
        curves: vec![
            crate::model::Curve::new("fifo: flow a", [(7.0, 0.0)]),
            crate::model::Curve::new("codel: flow a", points.iter().copied()),
        ],
    };
    let said = Look::page().plot(plot(&[(6.0, 0.0)])).expect_err("nothing to draw");
    assert!(said.contains("nothing was completed by fifo: flow a, codel: flow a"), "{said}");
    assert_eq!(Look::page().plot(plot(&[(6.0, 0.25)])).map(|plot| plot.curves.len()), Ok(2));
}

/// The note is about the curves that are drawn.
#[test]
fn a_note_names_no_curve_that_is_not_drawn() {
    let curve = |name: &str, share: f64| crate::model::Curve::new(name, [(1.0, 0.5), (2.0, share)]);
    let mut plot = Plot {
        title: "Completion time, distribution".into(),
        x: crate::model::Axis::new("completion time", "s"),
        y: crate::model::Axis::tail("share"),
        style: Style::Cdf,
        note: None,
        curves: vec![curve("fifo", 0.75), curve("pie", 0.75), curve("cake", 1.0)],
    };
    plot.note = Some(format!("Lines: medians of 6 runs. {}", plot.open_end().expect("open ends")));
    let noted = |look: &str| {
        let look = Look::parse(look).expect("a look");
        look.plot(plot.clone()).expect("a plot").note.expect("a note")
    };
    assert!(noted("row=fifo").ends_with("the rest of fifo."), "{}", noted("row=fifo"));
    assert_eq!(noted("row=cake"), "Lines: medians of 6 runs.");
}

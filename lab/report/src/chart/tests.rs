use super::*;
use crate::drawing::{Ink, Shape};

/// Two flows over two rates and two round trips, with two seeds.
fn table() -> Table {
    let (mut rate, mut rtt, mut seed, mut subject, mut value) = (vec![], vec![], vec![], vec![], vec![]);
    for (n, (r, t)) in [("10mbit", "5ms"), ("10mbit", "20ms"), ("4mbit", "5ms"), ("4mbit", "20ms")].iter().enumerate() {
        for s in 1..=2_u64 {
            for (flow, times) in [("flow a", 1.0), ("flow b", 2.0)] {
                rate.push(Some((*r).to_owned()));
                rtt.push(Some((*t).to_owned()));
                seed.push(Some(s));
                subject.push(Some(flow.to_owned()));
                value.push(Some((n as f64 + 1.0) * times * s as f64));
            }
        }
    }
    Table::default()
        .with("rate", Column::Text(rate))
        .with("rtt", Column::Text(rtt))
        .with("seed", Column::Integer(seed))
        .with("subject", Column::Text(subject))
        .with("value", Column::Number(value))
}
fn chart(kind: ChartKind) -> Chart {
    let names = ["rate", "rtt", "value"].map(str::to_owned);
    let [x, y, value] = names;
    Chart { kind, x, y, value, ..Chart::default() }
}
fn texts(drawing: &Drawing) -> Vec<&str> {
    let text = |shape: &'_ Shape| matches!(shape, Shape::Text { .. });
    drawing
        .shapes
        .iter()
        .filter(|shape| text(shape))
        .filter_map(|shape| match shape {
            Shape::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn cells_are_means_or_ratios_in_the_order_of_their_numbers() {
    let mut heat = chart(ChartKind::Heat);
    heat.only = vec![("subject".into(), "flow b".into())];
    heat.over = vec![("subject".into(), "flow a".into())];
    let rows = heat.chosen(&table(), "value").expect("pairs");
    assert!(rows.len() == 8 && rows.iter().all(|(_, ratio)| *ratio == 2.0), "{rows:?}");
    heat.over.clear();
    // 4mbit, though it comes later in the table, is left of 10mbit.
    assert_eq!(heat.classes(&table(), "rate", &rows).expect("rates"), ["4mbit", "10mbit"]);
    let drawing = heat.drawing(&table(), &Look::column()).expect("a figure");
    assert_eq!((drawing.width, drawing.misplaced()), (252.0, Vec::<String>::new()));
    let texts = texts(&drawing);
    // The mean of the two seeds of `flow b` in the first cell: (2 + 4) / 2.
    assert!(texts.contains(&"3.0") && texts.contains(&"12.0"), "{texts:?}");
    assert!(texts.join(" ").contains("Shades: value. Cells: means of 2 runs."), "{texts:?}");
    // The unit of the axes is in their titles, and the cell of the least value has an edge.
    assert!(["4", "10", "rate, Mbit/s", "rtt, ms"].iter().all(|text| texts.contains(text)), "{texts:?}");
    let edges = drawing.shapes.iter().filter(|shape| matches!(shape, Shape::Lines { ink, .. } if *ink == Ink::Muted));
    assert_eq!(edges.count(), 4);
    // A ratio names what is divided by what, and its values have equally many decimals.
    heat.over = vec![("subject".into(), "flow a".into())];
    heat.log = true;
    let drawing = heat.drawing(&table(), &Look::column()).expect("a figure");
    let texts = self::texts(&drawing).join(" ");
    assert!(
        texts.contains("Shades: value, flow b / flow a (logarithmic, 1 in the middle).") && texts.contains("2.00"),
        "{texts}"
    );
    assert_eq!(drawing.misplaced(), Vec::<String>::new());
    // Lines say what is divided by what, too, and nothing is divided by zero.
    let lines = Chart {
        kind: ChartKind::Lines,
        x: "rate".into(),
        y: "value".into(),
        by: vec!["rtt".into()],
        log: false,
        ..heat.clone()
    };
    let drawing = lines.drawing(&table(), &Look::column()).expect("a figure");
    assert!(
        self::texts(&drawing).iter().any(|text| text.contains("value, flow b / flow a")),
        "{:?}",
        self::texts(&drawing)
    );
    let zeros = Column::Number(vec![Some(0.0); table().rows()]);
    let why = lines.drawing(&table().without(&["value"]).with("value", zeros), &Look::column()).expect_err("refused");
    assert!(why.contains("values are 0 by which others would be divided, flow b / flow a"), "{why}");
    assert_eq!(of_path("link.isp->gate.delay"), "delay of link isp->gate");
    let from = "link.isp->gate.rate-over-time.from";
    assert_eq!(of_path(from), "beginning in rate over time of link isp->gate");
    assert_eq!(of_path("flow.bulk.tcp.congestion"), "tcp congestion of flow bulk");
}

/// A shaper changes with its line: the title of the axis has both keys, and those of another axis are not in it.
#[test]
fn the_title_of_an_axis_has_all_keys_that_change_with_it() {
    let copied = |table: &Table, from: &str| table.known(from).expect("a column").clone();
    let plain = table();
    let paths = ["link.a->b.rate", "link.a->b.queue.rate", "variant.cake.rate", "link.a->b.delay"];
    let columns = ["rate", "rate", "rate", "rtt"];
    let mut table = plain.clone().without(&["rate", "rtt"]);
    for (path, column) in paths.iter().zip(columns) {
        table = table.with(*path, copied(&plain, column));
    }
    table.order = paths.iter().map(|path| ((*path).to_owned(), Vec::new())).collect();
    let only = vec![("subject".to_owned(), "flow a".to_owned())];
    let lines =
        Chart { x: paths[0].to_owned(), y: "value".into(), by: vec![paths[3].into()], only, ..chart(ChartKind::Lines) };
    let said = |chart: &Chart| texts(&chart.drawing(&table, &Look::text()).expect("a figure")).join("; ");
    let all = "rate of link a->b (with queue rate, rate of variant cake), Mbit/s";
    assert!(said(&lines).contains(all), "{}", said(&lines));
    let heat = Chart { kind: ChartKind::Heat, y: paths[3].into(), by: Vec::new(), ..lines.clone() };
    assert!(said(&heat).contains(all) && said(&heat).contains("delay of link a->b, ms; "), "{}", said(&heat));
    let given = Chart { labels: ["rate of the line".into(), String::new()], ..lines.clone() };
    assert!(said(&given).contains("rate of the line, Mbit/s") && !said(&given).contains("with"), "{}", said(&given));
    // A text without room loses its middle, and not its unit.
    let narrow = Look::parse("column,width=180pt").expect("a look");
    let narrow = lines.drawing(&table, &narrow).expect("a figure");
    assert!(texts(&narrow).iter().any(|text| text.contains('\u{2026}') && text.ends_with("Mbit/s")), "{narrow:?}");
    assert_eq!(narrow.misplaced(), Vec::<String>::new());
    // Where rows have one value of a key only the other changes.
    let mut one = Chart { x: paths[3].into(), by: Vec::new(), ..lines };
    one.only.push((paths[0].into(), "4mbit".into()));
    assert!(said(&one).contains("delay of link a->b, ms"), "{}", said(&one));
}

/// In a column of a paper eight long names have no room below their cells, and none of them is left out.
#[test]
fn each_column_of_a_heat_map_has_a_label_or_a_note() {
    let drawn = |names: &[String]| {
        let text = |of: &dyn Fn(usize) -> String| Column::Text((0..names.len()).map(|n| Some(of(n))).collect());
        let table = Table::default()
            .with("queue", text(&|n| names[n].clone()))
            .with("rate", text(&|_| "5mbit".into()))
            .with("value", Column::Number((0..names.len()).map(|n| Some(n as f64 + 1.0)).collect()));
        let heat = Chart { x: "queue".into(), y: "rate".into(), ..chart(ChartKind::Heat) };
        let drawing = heat.drawing(&table, &Look::column()).expect("a figure");
        assert_eq!(drawing.misplaced(), Vec::<String>::new());
        texts(&drawing).into_iter().map(str::to_owned).collect::<Vec<String>>()
    };
    // Beside each other in turns.
    let few: Vec<String> = (1..=8).map(|n| format!("codel-{n}")).collect();
    let said = drawn(&few);
    assert!(few.iter().all(|name| said.contains(name)), "{said:?}");
    let long: Vec<String> = (1..=8).map(|n| format!("fair-queueing-with-codel-{n}")).collect();
    let said = drawn(&long);
    assert!((1..=8).all(|n| said.contains(&n.to_string())), "{said:?}");
    let note = said.join(" ");
    assert!(note.contains("Columns: 1 fair-queueing-with-codel-1, 2 fair"), "{note}");
    // Where no number has room either, the note says so.
    let many: Vec<String> = (1..=150).map(|n| format!("q{n}x")).collect();
    assert!(drawn(&many).join(" ").contains("columns is labelled"));
}

/// A point of a sweep that one queue has no runs of, as where they failed: its line has a gap there, its points beside the gap are marks,
/// and the note counts it. A point that no queue has is no place of the axis.
#[test]
fn a_line_has_a_gap_where_its_curve_has_no_value() {
    let text = |all: [&str; 7]| Column::Text(all.map(|text| Some(text.to_owned())).into());
    let table = Table::default()
        .with("rate", text(["5mbit", "10mbit", "20mbit", "40mbit", "5mbit", "20mbit", "40mbit"]))
        .with("queue", text(["fifo", "fifo", "fifo", "fifo", "pie", "pie", "pie"]))
        .with("value", Column::Number([4.0, 9.0, 19.0, 39.0, 3.0, 17.0, 37.0].map(Some).into()));
    let lines = Chart { y: "value".into(), by: vec!["queue".into()], ..chart(ChartKind::Lines) };
    let plot = lines.plot(&table).expect("a plot");
    assert_eq!(plot.curves[0].gaps(), Vec::<f64>::new());
    assert_eq!(plot.curves[1].gaps(), [10e6]);
    assert!(plot.note.as_deref().is_some_and(|note| note.contains("No values: 1 (pie); gaps.")), "{:?}", plot.note);
    let drawing = lines.drawing(&table, &Look::page()).expect("a figure");
    let found = drawing.shapes.iter().filter_map(|shape| match shape {
        Shape::Lines { lines, width, .. } if *width > 1.5 => Some(lines.iter().map(Vec::len).collect::<Vec<_>>()),
        _ => None,
    });
    // The lines of both, and their samples in the legend.
    assert_eq!(found.collect::<Vec<_>>(), [vec![4], vec![1, 2], vec![2], vec![2]]);
    let alone: Vec<usize> = drawing
        .shapes
        .iter()
        .filter_map(|shape| match shape {
            Shape::Marks { points, ink, .. } if *ink != Ink::Ground => Some(points.len()),
            _ => None,
        })
        .collect();
    assert_eq!(alone, [1], "the point at 5 Mbit/s, which has no line");
}

#[test]
fn lines_are_means_and_distributions_reach_one() {
    let mut lines = chart(ChartKind::Lines);
    lines.y = "value".into();
    lines.by = vec!["subject".into()];
    lines.only = vec![("rtt".into(), "5ms".into())];
    let plot = lines.plot(&table()).expect("a plot");
    assert_eq!(plot.curves.len(), 2);
    assert_eq!(plot.curves[0].points, [(4e6, 4.5), (10e6, 1.5)]);
    assert_eq!((plot.x.unit.as_str(), plot.y.unit.as_str()), ("bit/s", ""));
    // Each rate of the sweep has its tick.
    assert_eq!(plot.x.taken, [4e6, 10e6]);
    let drawing = lines.drawing(&table(), &Look::column()).expect("a figure");
    let along = drawing.shapes.iter().filter_map(|shape| match shape {
        Shape::Text { text, anchor: crate::drawing::Anchor::Middle, .. } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(along.filter(|text| text.parse::<f64>().is_ok()).collect::<Vec<_>>(), ["4", "10"]);
    // Shares are fractions, as in papers, and times from elsewhere are in seconds.
    assert_eq!((number("1%"), number_in("5ms")), (Some(0.01), Some((5e6, "ns"))));
    assert!(
        plot.whole_note().is_some_and(|note| note.contains("Bands: 95 % intervals of the means")),
        "{:?}",
        plot.note
    );
    assert!(plot.y.scale == Scale::Linear);
    // An axis that is named by the end of its path is drawn, and not pooled.
    let (mut named, mut swept) = (lines.clone(), Table::default());
    named.only = vec![("seed".into(), "1".into())];
    for (name, column) in table().columns() {
        let name =
            if name == "seed" || name == "subject" || name == "value" { name.into() } else { format!("link.1.{name}") };
        swept = swept.with(name, column.clone());
    }
    // Keys that changed together are one axis.
    let rates = table().columns().find(|(name, _)| *name == "rate").expect("a column").1.clone();
    let together = swept.clone().with("link.1.queue.limit", rates);
    let chosen = Chart { only: vec![("rtt".into(), "5ms".into())], ..named.clone() };
    assert_eq!(chosen.plot(&together).map(|plot| plot.curves.len()), Ok(2));
    // Several points of a sweep are refused, whatever the kind, until one is chosen or each is drawn.
    let along = [ChartKind::Lines, ChartKind::Scatter];
    for kind in [ChartKind::Box, ChartKind::Violin, ChartKind::Strip, ChartKind::Ecdf].into_iter().chain(along) {
        let x = if along.contains(&kind) { "rate" } else { "value" };
        let mut pooled = Chart { kind, x: x.into(), ..named.clone() };
        if !along.contains(&kind) {
            pooled.by.push("rate".into());
        }
        let said = pooled.drawing(&swept, &Look::column()).expect_err("two round trips as one");
        assert!(said.contains("several texts in `link.1.rtt`, which would be drawn as one: 20ms, 5ms"), "{said}");
        pooled.only.push(("rtt".into(), "5ms".into()));
        assert!(pooled.chosen(&swept, "value").is_ok(), "{kind:?}");
    }
    let cloud = Chart { kind: ChartKind::Scatter, by: Vec::new(), ..lines.clone() };
    let said = cloud.plot(&table()).expect_err("two flows in one cloud");
    assert!(said.contains("flow a, flow b; choose one with --only subject=TEXT"), "{said}");
    let mut ecdf = chart(ChartKind::Ecdf);
    ecdf.x = "value".into();
    let said = ecdf.plot(&table()).expect_err("two flows as one");
    assert!(said.contains("flow a, flow b; choose one with --only subject=TEXT"), "{said}");
    let (whole, table) = (table().without(&["subject"]), || table().without(&["subject", "rate", "rtt"]));
    let plot = ecdf.plot(&table()).expect("a plot");
    assert_eq!(plot.curves[0].points.last(), Some(&(16.0, 1.0)));
    ecdf.kind = ChartKind::Ccdf;
    let plot = ecdf.plot(&table()).expect("a plot");
    assert_eq!((plot.curves[0].points[15].1, plot.y.scale), (0.0, Scale::Log));
    for kind in [ChartKind::Ccdf, ChartKind::Violin, ChartKind::Strip] {
        let chart = Chart { kind, x: "value".into(), by: vec!["rate".into(), "rtt".into()], ..Chart::default() };
        let drawing = chart.drawing(&whole, &Look::column()).expect("a figure");
        assert_eq!((drawing.width, drawing.misplaced()), (252.0, Vec::<String>::new()), "{kind:?}");
    }
}

/// The curve of a complement ends within its axes, and the note says that the values are of several runs.
#[test]
fn a_complement_ends_on_its_axis() {
    let values = (1..=40).map(|n| if n == 40 { 9e9 } else { f64::from(n) * 1e8 });
    let table = Table::default()
        .with("seed", Column::Integer((0..40).map(|n| Some(n % 8)).collect()))
        .with("completion_ns", Column::Number(values.map(Some).collect()));
    for look in ["column", "text", "page"] {
        let chart = Chart { kind: ChartKind::Ccdf, x: "completion_ns".into(), ..Chart::default() };
        let drawing = chart.drawing(&table, &Look::parse(look).expect("a look")).expect("a figure");
        let points = drawing.shapes.iter().flat_map(|shape| match shape {
            Shape::Lines { lines, ink: Ink::Curve(_), .. } => lines.iter().flatten().copied().collect(),
            _ => Vec::new(),
        });
        let most = points.map(|point| point.0).fold(0.0, f64::max);
        assert!(most <= drawing.width, "{look}: {most}");
        assert_eq!(drawing.misplaced(), Vec::<String>::new(), "{look}");
        assert!(texts(&drawing).join(" ").contains("Values of 8 runs together."));
    }
}

/// A run that is there with two digests is of two scenarios, whatever is drawn of it.
#[test]
fn the_runs_of_two_scenarios_are_not_drawn_as_one() {
    let mut twice = table();
    let digests = |text: &str| Column::Text(vec![Some(text.to_owned()); 16]);
    twice = twice.with("digest", digests("a"));
    twice.append(table().with("digest", digests("b"))).expect("the same columns");
    for kind in [ChartKind::Heat, ChartKind::Lines, ChartKind::Box] {
        let mut chart = chart(kind);
        (chart.y, chart.by) =
            (if kind == ChartKind::Heat { "rtt".into() } else { "value".into() }, vec!["subject".into()]);
        if kind == ChartKind::Box {
            chart.x = "value".into();
        }
        chart.only =
            vec![("subject".into(), "flow a".into()), ("rtt".into(), "5ms".into()), ("rate".into(), "4mbit".into())];
        let said = chart.drawing(&twice, &Look::column()).expect_err("refused");
        assert!(said.contains("two scenarios"), "{kind:?}: {said}");
    }
}

/// A point between two gaps has an interval that is seen.
#[test]
fn a_point_alone_has_a_bar_for_its_interval() {
    let rows = [(1.0, f64::INFINITY), (1.0, 2.0), (2.0, 3.0), (2.0, 5.0), (3.0, f64::INFINITY), (3.0, 1.0)];
    let table = Table::default()
        .with("at", Column::Number(rows.iter().map(|row| Some(row.0)).collect()))
        .with("value", Column::Number(rows.iter().map(|row| Some(row.1)).collect()));
    let chart = Chart { kind: ChartKind::Lines, x: "at".into(), y: "value".into(), ..Chart::default() };
    let drawing = chart.drawing(&table, &Look::column()).expect("a figure");
    let bar = |shape: &&Shape| matches!(shape, Shape::Lines { lines, ink: Ink::Curve(_), .. } if lines.len() == 3);
    assert_eq!(drawing.shapes.iter().filter(bar).count(), 1);
    assert!(!drawing.shapes.iter().any(|shape| matches!(shape, Shape::Area { .. })));
}

/// Points of a curve in a table: units are those of people, and noise in short bins is drawn as means of each run.
#[test]
fn rates_over_time_have_units_and_at_most_a_hundred_points() {
    let rows =
        |of: &dyn Fn(usize, usize) -> f64| Column::Number((0..1200).map(|n| Some(of(n % 600, n / 600))).collect());
    let all = |text: &str| Column::Text(vec![Some(text.to_owned()); 1200]);
    let table = Table::default()
        .with("x", rows(&|n, _| n as f64 / 10.0))
        .with("x_unit", all("time_s"))
        .with("unit", all("rate_bps"))
        .with("seed", Column::Integer((0..1200).map(|n| Some(n / 600)).collect()))
        .with("value", rows(&|n, run| (n % 2) as f64 * 2e6 + run as f64 * 1e6));
    let chart = Chart { kind: ChartKind::Lines, x: "x".into(), y: "value".into(), ..Chart::default() };
    let plot = chart.plot(&table).expect("a plot");
    assert_eq!((plot.x.label(), plot.y.unit.as_str()), ("time, s".to_owned(), "bit/s"));
    let curve = &plot.curves[0];
    assert_eq!((curve.points.len(), curve.points[1].1), (60, 1.5e6));
    // Two runs, of 1 and 2 Mbit/s: with one degree of freedom t is 12.706, and the standard error half of 1 Mbit/s.
    assert!((curve.band[1].2 - curve.band[1].1 - 12.706e6).abs() < 1e3, "{:?}", curve.band[1]);
    let note = plot.note.as_deref().expect("a note");
    assert!(note.contains("of 2 runs") && note.ends_with("Points: means over 1 s."), "{note}");
}

#[test]
fn what_is_not_there_is_named() {
    let said = |change: fn(&mut Chart)| {
        let mut chart = chart(ChartKind::Heat);
        change(&mut chart);
        chart.drawing(&table(), &Look::page()).expect_err("wrong")
    };
    assert!(said(|chart| chart.x = "speed".into()).contains("no column `speed`; it has rate, rtt, seed"));
    let only = said(|chart| chart.only = vec![("subject".into(), "flow c".into())]);
    assert!(only.contains("there are flow a, flow b"), "{only}");
    assert!(ChartKind::named("pie").is_err_and(|said| said.contains("heat, best, scatter, lines")));
}

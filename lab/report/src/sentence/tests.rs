use crate::comparison::tests::{comparison, estimate};
use crate::comparison::{Better, Comparison, Estimate, Measure, Row};

#[test]
fn the_answer_names_the_best_by_how_much_and_what_is_not_told_apart() {
    let said = comparison().sentences();
    assert_eq!(
        said,
        [
            "goodput of flow call: no difference above 2 %, 4.99 Mbit/s to 5 Mbit/s",
            "delay p99 of flow call: pie has the least, 12 ms, not told apart from codel with 13 ms (about 180 more runs would \
             decide); fifo has 100 ms, 8.3 times as much",
        ]
    );
    // The headline is the measure in which they differ, unless no measure tells them apart.
    assert_eq!(comparison().answers(), [[said[1].clone(), said[0].clone()]]);
    assert_eq!(comparison().summary_of_variants(), said[1..]);
    let mut wide = comparison();
    wide.groups[0].rows[0].cells[1] = estimate(20e6, 20e6);
    let said = &wide.sentences()[1];
    assert!(
        said.starts_with("delay p99 of flow call: undecided, 10 runs tell pie (12 ms) apart from no other; differences may be above 100 %"),
        "{said}"
    );
    assert!(wide.summary_of_variants()[0].starts_with("goodput"));
    // Where all are alike none is marked; otherwise the best and those that are not told apart from it.
    assert!(wide.groups[0].best(1, &wide.family()).is_empty());
    let three = comparison();
    let mut marked = three.groups[0].best(1, &three.family());
    marked.sort_unstable();
    assert_eq!(marked, ["codel", "pie"]);
    assert_eq!(
        comparison().method().as_deref(),
        Some(
            "Decided at 5 % by the means of 10 runs without common seeds (Welch's t), corrected for all 6 differences (Holm). \
             Equal within 2 % is what two one-sided tests of the same runs (TOST) find at 5 %, corrected likewise."
        )
    );
    // A single difference needs no correction.
    let mut one = comparison();
    one.groups[0].measures.truncate(1);
    one.groups[0].rows.truncate(2);
    one.groups[0].rows.iter_mut().for_each(|row| row.cells.truncate(1));
    assert!(one.method().is_some_and(|said| said.ends_with("(TOST) find at 5 %.")), "{:?}", one.method());
    // A single variant is described in words.
    wide.groups[0].rows.truncate(1);
    assert_eq!(wide.sentences(), ["flow call: goodput 5 Mbit/s, delay p99 20 ms"]);
}

/// A variant that varies by far has the best mean, and is told apart from nobody. The pairs that are decided are stated all the same, and
/// no others: these are the rows of `differences.csv` that are decided and not equal.
#[test]
fn pairs_that_are_decided_are_stated_where_the_best_is_not() {
    let seeds: Vec<u64> = (1..=6).collect();
    let row = |name: &str, value: &dyn Fn(u64) -> f64| {
        let values: Vec<f64> = seeds.iter().map(|n| value(*n) * 1e6).collect();
        Row { name: name.into(), cells: vec![Some(crate::judgement::tests::estimate(&values, &seeds))] }
    };
    let said = |better: Better, rows: &[(&str, &dyn Fn(u64) -> f64)]| {
        let measures = vec![Measure::new("goodput", "bps", better)];
        let rows = rows.iter().map(|(name, value)| row(name, value)).collect();
        let group = crate::comparison::Group { name: "flow bbr".into(), measures, rows, ..Default::default() };
        let comparison = Comparison::new("", vec![group]);
        let is_order = |of: &&crate::judgement::Contrast| of.is_decided() == Some(true) && of.is_equal() != Some(true);
        let decided = comparison.contrasts().iter().filter(is_order).count();
        let marked = comparison.groups[0].best(0, &comparison.family()).join(", ");
        (comparison.sentences().remove(0), comparison.stated().len(), decided, marked)
    };
    let wild = |n: u64| if n.is_multiple_of(2) { 19.0 } else { 1.1 };
    let (good, poor) = (|n: u64| 9.0 + 0.01 * (n % 3) as f64, |n: u64| 6.0 + 0.01 * (n % 2) as f64);
    let like_poor = |n: u64| 6.001 + 0.01 * (n % 2) as f64 + 0.001 * (n % 3) as f64;
    let (sentence, orders, decided, marked) =
        said(Better::More, &[("cake", &poor), ("fifo", &wild), ("dualpi2", &good), ("fq-codel", &like_poor)]);
    assert!(
        sentence.starts_with(
            "goodput of flow bbr: dualpi2 (9.01 Mbit/s) has more than fq-codel (6.007 Mbit/s) and cake (6.005 Mbit/s); the best is \
             undecided, 6 runs tell fifo (10.1 Mbit/s) apart from no other; differences may be above 100 %; about "
        ),
        "{sentence}"
    );
    assert!(sentence.ends_with("more runs would decide between fifo and dualpi2, a guess from 6"), "{sentence}");
    assert_eq!((orders, decided, marked.as_str()), (2, 2, "fifo, dualpi2"));
    // Behind a best that is told apart from others, who is beaten by another is named as well.
    let (sentence, ..) = said(
        Better::More,
        &[
            ("top", &|n| 20.0 + 0.01 * (n % 3) as f64),
            ("mid", &wild),
            ("low", &|n| wild(n) - 0.5 - 0.01 * (n % 2) as f64),
            ("far", &|n| 0.1 + 0.01 * (n % 4) as f64),
        ],
    );
    assert!(
        sentence.contains("top has the most, 20") && sentence.contains("; mid (10.1 Mbit/s) has more than low ("),
        "{sentence}"
    );
}

/// The answer has no more digits of a mean than the table beside it, whatever the mean of few runs is.
#[test]
fn means_in_sentences_have_the_digits_of_their_intervals() {
    let measure = Measure::new("completion mean", "ns", Better::Less);
    let said = |mean: f64, half: f64| measure.mean(&Estimate { mean, half: Some(half), ..Estimate::default() });
    assert_eq!(
        [said(698.4e6, 1393e6), said(682.46e6, 31e6), said(17.104e6, 1e3), said(12e6, 2e6)],
        ["698 ms", "682 ms", "17.1 ms", "12 ms"]
    );
}

/// Variants that are not found equal within 2 % may differ by more than 2 %. The interval of one difference alone is narrower than that
/// of one of many, and said less.
#[test]
fn what_is_not_equal_within_two_percent_may_differ_by_more() {
    let seeds: Vec<u64> = (1..=6).collect();
    let row = |name: &str, by: f64| {
        // The differences have a mean of half a percent and vary by one and a half.
        let value = |n: u64, at: u64| 100e6 * (1.0 + by * (0.0148 * ((n * 5 + at * 3) % 6 % 3) as f64 - 0.0098));
        let cell = |at: u64| {
            let values: Vec<f64> = seeds.iter().map(|n| value(*n, at)).collect();
            Some(crate::judgement::tests::estimate(&values, &seeds))
        };
        Row { name: name.into(), cells: (0..12).map(cell).collect() }
    };
    let measures = (0..12).map(|n| Measure::new(format!("delay {n}"), "ns", Better::Less)).collect();
    let rows = vec![row("a", 0.0), row("b", 1.0)];
    let group = crate::comparison::Group { name: "flow call".into(), measures, rows, ..Default::default() };
    let comparison = Comparison::new("", vec![group]);
    let alone = comparison.contrasts()[0].difference;
    assert!((alone.mean.abs() + alone.half_width()) / 100e6 < 0.02, "the interval of one alone: {alone:?}");
    let sentences = comparison.sentences();
    let open: Vec<&String> = sentences.iter().filter(|said| said.contains("undecided")).collect();
    assert!(!open.is_empty(), "{sentences:#?}");
    for said in open {
        let (_, percent) = said.split_once("may be up to ").expect("a share");
        let percent: f64 = percent.split_once(" %").and_then(|(number, _)| number.parse().ok()).expect("a number");
        assert!(percent > 2.0, "{said}");
    }
}

/// However many runs there are, a quantity that the seeds do not change is stated as it is: with the better variant, and no test.
#[test]
fn what_the_seeds_do_not_change_is_stated_as_it_is() {
    let of = |runs: u64, rows: &[(&str, &dyn Fn(u64) -> f64)]| {
        let seeds: Vec<u64> = (1..=runs).collect();
        let row = |(name, value): &(&str, &dyn Fn(u64) -> f64)| {
            let values: Vec<f64> = seeds.iter().map(|n| value(*n)).collect();
            Row { name: (*name).into(), cells: vec![Some(crate::judgement::tests::estimate(&values, &seeds))] }
        };
        let measures = vec![Measure::new("loss", "%", Better::Less)];
        let rows = rows.iter().map(row).collect();
        let group = crate::comparison::Group { name: "flow call".into(), measures, rows, ..Default::default() };
        Comparison::new("", vec![group])
    };
    for runs in [2, 4, 40] {
        let found = of(runs, &[("a", &|_| 12.0), ("b", &|_| 11.5)]);
        let same = format!("the seeds do not change this quantity, it is the same in all {runs} runs");
        assert_eq!(found.sentences(), [format!("loss of flow call: b has the least, 11.5 %; a has 12 %; {same}")]);
        assert_eq!(
            found.method().as_deref(),
            Some(
                "A difference that the seeds do not change is the same in all runs: it is stated as it is, without a test."
            )
        );
        let contrast = found.contrasts().remove(0);
        assert_eq!(
            (contrast.test(), contrast.difference.p, contrast.stated, contrast.alone),
            ("none", None, None, None)
        );
        assert_eq!((contrast.is_decided(), contrast.is_equal(), contrast.more_runs()), (Some(true), Some(false), None));
        assert_eq!(found.groups[0].best(0, &found.family()), ["b"]);
        // No run has a loss in either.
        let none = of(runs, &[("a", &|_| 0.0), ("b", &|_| 0.0)]);
        assert_eq!(none.sentences(), [format!("loss of flow call: no difference above 2 %, 0 %; {same}")]);
        assert_eq!(none.contrasts()[0].is_decided(), Some(false));
    }
    // Others are tested beside them, and corrected for each other alone.
    let some = of(8, &[("a", &|_| 12.0), ("b", &|_| 11.0), ("c", &|n| 20.0 + n as f64), ("d", &|n| 20.0 + n as f64)]);
    assert_eq!(
        some.sentences(),
        [
            "loss of flow call: b has the least, 11 %; a has 12 %, c and d have 24.5 % (equal within 2 %), 2.2 times as much; \
          the seeds do not change those of b and a; c and d have the same in each run"
        ]
    );
    assert_eq!(some.family().len(), 4);
    assert!(some.method().is_some_and(|said| said.contains("corrected for all 4 differences (Holm)")));
}

/// Nobody wins by runs that are all equal, and means that are near each other are no equality if runs differ by far.
#[test]
fn a_tie_has_no_winner_and_near_means_are_no_equality() {
    let of = |name: &str, value: &dyn Fn(u64) -> f64| Row {
        name: name.into(),
        cells: vec![Some(crate::judgement::tests::estimate(
            &(1..=10).map(value).collect::<Vec<_>>(),
            &(1..=10).collect::<Vec<_>>(),
        ))],
    };
    let said = |rows: Vec<Row>| {
        let measures = vec![Measure::new("delay p99", "ns", Better::Less)];
        let group = crate::comparison::Group { name: "flow call".into(), measures, rows, ..Default::default() };
        Comparison::new("", vec![group]).sentences().remove(0)
    };
    let fast = |n: u64| 17e6 + 1e4 * n as f64 + 1e3 * (n * 3 % 7) as f64;
    let (fifo, codel, cake) = (of("fifo", &|n| 75e6 + 1e5 * n as f64), of("fq-codel", &fast), of("cake", &fast));
    assert_eq!(
        said(vec![fifo, codel, cake]),
        "delay p99 of flow call: fq-codel and cake have the least, 17.1 ms, equal within 2 %; fifo has 76 ms, 4.4 times \
         as much; fq-codel and cake have the same in each run"
    );
    // Means of 4.50 and 4.55 s, and runs that differ by up to 1 s in both directions.
    let wide = |shift: f64, by: u64| move |n: u64| (4.0 + shift + ((n + by) % 5) as f64 / 4.0) * 1e9;
    let near = said(vec![of("cubic", &wide(0.0, 0)), of("reno", &wide(0.05, 2))]);
    assert!(
        near.starts_with("delay p99 of flow call: undecided, 10 runs tell cubic (4.5 s) apart from no other; the difference may be up to"),
        "{near}"
    );
    assert!(near.contains("more runs would decide"), "{near}");
    // Single runs that have the same are named together.
    let three = [("fifo", 9e6), ("same", 5e6), ("codel", 5e6)]
        .map(|(name, value)| Row { name: name.into(), cells: vec![Some(Estimate::from(value))] });
    assert_eq!(
        said(three.into()),
        "delay p99 of flow call: same and codel have the least, 5 ms each; fifo has 9 ms, 1.8 times as much"
    );
    // Variants that are equal behind the best are named together, too.
    let twins = said(vec![
        of("cake", &fast),
        of("codel", &|n| 30e6 + 1e4 * n as f64),
        of("same", &|n| 30e6 + 1e4 * n as f64),
        of("fifo", &|n| 75e6 + 1e5 * n as f64),
        of("twin", &|n| 75e6 + 1e5 * n as f64),
    ]);
    assert_eq!(
        twins,
        "delay p99 of flow call: cake has the least, 17.1 ms; codel and same have 30.1 ms (equal within 2 %), fifo and twin \
         have 76 ms (equal within 2 %), 4.4 times as much; codel and same have the same in each run; fifo and twin have the same in \
         each run"
    );
    // All behind the best are named, from the next to the worst.
    let four = said(vec![
        of("codel", &|n| 30e6 + 1e4 * n as f64),
        of("cake", &fast),
        of("fifo", &|n| 75e6 + 1e5 * n as f64),
        of("pie", &|n| 40e6 + 9e4 * n as f64),
    ]);
    assert_eq!(
        four,
        "delay p99 of flow call: cake has the least, 17.1 ms; codel has 30.1 ms, pie has 40.5 ms, fifo has 76 ms, 4.4 times as much"
    );
    let runs = [("fifo", 9e6), ("codel", 5e6), ("twin", 9e6)]
        .map(|(name, value)| Row { name: name.into(), cells: vec![Some(Estimate::from(value))] });
    assert_eq!(
        said(runs.into()),
        "delay p99 of flow call: codel has the least, 5 ms; fifo and twin have 9 ms each, 1.8 times as much"
    );
    // A single run of each is what it is.
    let one = |name: &str, value: f64| Row { name: name.into(), cells: vec![Some(Estimate::from(value))] };
    assert_eq!(said(vec![one("a", 5e6), one("b", 5.05e6)]), "delay p99 of flow call: all within 2 %, 5 ms");
}

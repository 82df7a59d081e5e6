use super::*;

pub(crate) fn estimate(mean: f64, half: f64) -> Option<Estimate> {
    // Ten runs about the mean, none of which belongs to that of another variant.
    let values: Vec<f64> = (0..10).map(|n| mean + half * (f64::from(n) - 4.5) / 2.2).collect();
    Some(Estimate { mean, half: Some(half), values, ..Estimate::default() })
}

pub(crate) fn comparison() -> Comparison {
    let row = |name: &str, cells: [Option<Estimate>; 2]| Row { name: name.into(), cells: cells.into() };
    let measures = vec![Measure::new("goodput", "bps", Better::More), Measure::new("delay p99", "ns", Better::Less)];
    let rows = vec![
        row("fifo", [estimate(5e6, 1e4), estimate(100e6, 5e6)]),
        row("codel", [estimate(5e6, 1e4), estimate(13e6, 2e6)]),
        row("pie", [estimate(4.99e6, 1e4), estimate(12e6, 2e6)]),
    ];
    Comparison::new("Three", vec![Group { name: "flow call".into(), measures, rows, ..Group::default() }])
}

#[test]
fn the_values_of_a_measure_have_one_unit_in_all_rows() {
    let mut all = comparison();
    all.groups.push(all.groups[0].clone());
    all.groups[1].name = "flow tiny".into();
    all.groups[1].rows.iter_mut().for_each(|row| row.cells[0] = Some(80_000.0.into()));
    let table = format!("{:?}", all.table());
    assert!(table.contains("5.000 ± 0.010 Mbit/s") && table.contains("\"0.080 Mbit/s"), "{table}");
    assert!(!table.contains("kbit/s"), "{table}");
}

/// An artifact has means with their intervals, but not the values of the runs. Nothing is tested by these, so that no mean is called
/// the best.
#[test]
fn means_without_their_runs_have_no_best() {
    let mut all = comparison();
    assert!(all.markdown().contains("**12.0** ± 2.0"), "{}", all.markdown());
    all.groups[0].rows.iter_mut().flat_map(|row| row.cells.iter_mut().flatten()).for_each(|cell| cell.values.clear());
    assert!(!all.markdown().contains("**"), "{}", all.markdown());
}

/// Each table and figure says of how many runs its numbers are, and what stands behind the sign.
#[test]
fn tables_and_bars_say_of_how_many_runs_they_are() {
    let all = comparison();
    let said = "Means of 10 runs; \u{b1} is half the width of a 95 % interval of the mean.";
    assert_eq!(all.precision().as_deref(), Some(said));
    assert!(all.markdown().contains(&format!("\n{said}\n")), "{}", all.markdown());
    let latex = all.latex(&crate::Look::column());
    assert!(latex.contains("Means of 10 runs; $\\pm$ is half the width of a 95"), "{latex}");
    let svg = all.drawing(&crate::palette::Pens::default(), &crate::Look::column()).svg();
    assert!(svg.contains("Bars: means of 10 runs; lines: 95 % intervals"), "{svg}");
    let mut one = comparison();
    let cells = one.groups[0].rows.iter_mut().flat_map(|row| row.cells.iter_mut().flatten());
    cells.for_each(|cell| *cell = Estimate::from(cell.mean));
    assert_eq!(one.precision().as_deref(), Some("Values of one run."));
    assert_eq!(precision([3, 5].into_iter(), false, [false, true]).as_deref(), Some("Means of 3 to 5 runs."));
}

/// A number of fewer runs than there are, and one that some of the runs did not reach, are two notes.
#[test]
fn what_fewer_runs_have_and_what_was_not_reached_are_told_apart() {
    let mut all = comparison();
    let cells = &mut all.groups[0].rows;
    let values = vec![4.9e6, 5.1e6, 5e6];
    cells[0].cells[0] = Some(Estimate { missing: 2, ..Estimate::of_runs(5e6, Some(1e5), values) });
    cells[1].cells[1] = Some(Estimate::not_reached(3, 10));
    assert_eq!(
        all.fewer_runs().as_deref(),
        Some(
            "Of fewer runs: goodput of flow call: fifo (3 runs). Not reached: delay p99 of flow call: codel in 3 of 10 runs."
        )
    );
    assert_eq!(comparison().fewer_runs(), None);
}

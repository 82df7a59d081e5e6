//! The files of `simulate --out`.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use tidegate_display::human;
use tidegate_metrics::Curve;
use tidegate_report::columns::{self, Column, field};
use tidegate_report::comparison::Comparison;
use tidegate_report::curves;
use tidegate_report::judgement::difference_columns;
use tidegate_report::simulation::{self, Simulation};
use tidegate_sim::metrics::{MOST_TRANSFERS, TransferEnd};
use tidegate_sim::scenario::{FlowPage, FlowTransfer, Outcome};

use super::Report;

/// The files that may be in the folder, besides a folder for each run.
const FILES: [&str; 8] = [
    "results.json",
    "summary.csv",
    "runs.csv",
    "differences.csv",
    "transfers.csv",
    "transfers.parquet",
    "pages.csv",
    "pages.parquet",
];

/// The folders of runs in `folder`, those of the simulation whose results.json is there and others.
fn runs_in(folder: &Path) -> std::io::Result<[Vec<PathBuf>; 2]> {
    let results = std::fs::read(folder.join("results.json")).unwrap_or_default();
    let results: serde_json::Value = serde_json::from_slice(&results).unwrap_or_default();
    let seeds = results["runs"].as_array().into_iter().flatten().filter_map(|run| run["seed"].as_u64());
    let ours: HashSet<String> = seeds.map(|seed| format!("run-{seed}")).collect();
    let is_run = |name: &str| name.strip_prefix("run-").is_some_and(|seed| seed.parse::<u64>().is_ok());
    let mut found = [Vec::new(), Vec::new()];
    for entry in std::fs::read_dir(folder)? {
        let (name, path) = entry.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))?;
        if is_run(&name) {
            found[usize::from(!ours.contains(&name))].push(path);
        }
    }
    found[1].sort();
    Ok(found)
}

/// Checks before the first run that all folders of runs in `folder` are of the simulation whose results are there, so that they can be
/// replaced: nobody could tell those of others from new ones.
///
/// # Errors
/// If there are others, with their names.
pub fn check(folder: &Path) -> std::io::Result<()> {
    let [_, others] = runs_in(folder)?;
    let Some(first) = others.first() else { return Ok(()) };
    let more = if others.len() > 1 { format!(" and {} more", others.len() - 1) } else { String::new() };
    Err(std::io::Error::other(format!(
        "{}{more} is of another simulation than its results.json; remove it, or choose another folder",
        first.display()
    )))
}

/// Removes what an earlier simulation has written into `folder`, which may have had other seeds, flows and variants.
fn clear(folder: &Path) -> std::io::Result<()> {
    let [runs, _] = runs_in(folder)?;
    for run in runs {
        for entry in std::fs::read_dir(&run)? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "csv") {
                std::fs::remove_file(path)?;
            }
        }
        // Files of others stay, and their folder with them.
        let _ = std::fs::remove_dir(run);
    }
    for name in FILES {
        match std::fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Writes everything into `folder`, in the place of what an earlier simulation has written there.
pub fn all(
    folder: &Path,
    found: &Simulation<'_>,
    report: &Report<'_>,
    outcomes: &[Outcome],
    stated: &Comparison,
) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clear(folder)?;
    let create = |path: PathBuf| std::fs::File::create(path).map(std::io::BufWriter::new);
    let mut json = create(folder.join("results.json"))?;
    serde_json::to_writer_pretty(&mut json, report)?;
    writeln!(json)?;
    json.flush()?;

    let mut summary = create(folder.join("summary.csv"))?;
    writeln!(summary, "variant,subject,measure,unit,mean,half_width_95")?;
    let mut runs = create(folder.join("runs.csv"))?;
    writeln!(runs, "seed,variant,subject,measure,unit,value")?;
    for item in &report.items {
        let of = [&*item.variant, item.plain(), &item.measure].map(field).join(",");
        let half = item.half_width_95.map_or(String::new(), |half| half.to_string());
        writeln!(summary, "{of},{},{},{half}", item.unit, item.mean)?;
        for (run, value) in report.runs.iter().zip(&item.values) {
            if let Some(value) = value {
                writeln!(runs, "{},{of},{},{value}", run.seed, item.unit)?;
            }
        }
    }
    summary.flush()?;
    runs.flush()?;
    let quantities = found.quantities();
    let differences = simulation::differences(&quantities, stated);
    // Several variants and runs have the file, of its header alone where nothing could be tested.
    let is_compared = quantities.iter().any(|of| of.variant != quantities[0].variant);
    if outcomes.len() > 1 && is_compared {
        std::fs::write(folder.join("differences.csv"), difference_columns(&differences).csv())?;
    }
    let transfers = transfers(outcomes);
    if transfers.rows() > 0 {
        std::fs::write(folder.join("transfers.csv"), transfers.csv())?;
        std::fs::write(folder.join("transfers.parquet"), transfers.parquet().map_err(std::io::Error::other)?)?;
    }
    let pages = pages(outcomes);
    if pages.rows() > 0 {
        std::fs::write(folder.join("pages.csv"), pages.csv())?;
        std::fs::write(folder.join("pages.parquet"), pages.parquet().map_err(std::io::Error::other)?)?;
    }
    for outcome in outcomes {
        let inside = folder.join(format!("run-{}", outcome.seed));
        std::fs::create_dir_all(&inside)?;
        let mut taken = HashSet::new();
        // What was before the end of the warm-up is not measured.
        for Curve { name, x, y, points, .. } in &curves::measured(&outcome.curves, found.warm_up_ns as f64 / 1e9) {
            let plain: String = name.chars().map(|c| if c.is_alphanumeric() || c == '.' { c } else { '-' }).collect();
            // Flows `a b` and `a-b` need different names.
            let numbered = (2..).map(|n| format!("{plain}-{n}"));
            let free = std::iter::once(plain.clone()).chain(numbered).find(|slug| taken.insert(slug.clone()));
            let slug = free.unwrap_or(plain);
            let mut file = create(inside.join(format!("{slug}.csv")))?;
            writeln!(file, "{x},{y}")?;
            for (at, value) in points {
                writeln!(file, "{at},{value}")?;
            }
            file.flush()?;
        }
    }
    Ok(())
}

/// States of which flows not all transfers are in the table, because they have too many; `None` if all are.
pub fn left_out(outcomes: &[Outcome]) -> Option<String> {
    let mut kept: BTreeMap<(u64, &str, &str), usize> = BTreeMap::new();
    for run in outcomes {
        // Those that the end of the run cut short are kept besides.
        for done in run.transfers.iter().filter(|done| done.transfer.end != TransferEnd::Cut) {
            *kept.entry((run.seed, &done.variant, &done.flow)).or_default() += 1;
        }
    }
    let full = kept.into_iter().filter(|(_, count)| *count >= MOST_TRANSFERS).map(|((_, _, flow), _)| flow);
    let full: Vec<&str> = full.collect::<BTreeSet<_>>().into_iter().collect();
    (!full.is_empty()).then(|| {
        format!(
            "The table of transfers has, of each {}, the first {} that ended and all that the end of the run cut: shares and percentiles of \
             its rows are not those of the run. The values are of all.",
            full.join(" and "),
            human(MOST_TRANSFERS as f64, "")
        )
    })
}

/// The pages of all runs, one in a row. The load time of one that was not loaded is how long it had been loading at the end.
fn pages(outcomes: &[Outcome]) -> columns::Table {
    let rows = || outcomes.iter().flat_map(|run| run.pages.iter().map(move |done| (run.seed, done)));
    let integer = |of: fn((u64, &FlowPage)) -> u64| Column::Integer(rows().map(|row| Some(of(row))).collect());
    let text = |of: fn(&FlowPage) -> &str| {
        Column::Text(
            rows().map(|(_, done)| Some(of(done)).filter(|text| !text.is_empty()).map(str::to_owned)).collect(),
        )
    };
    columns::Table::default()
        .with("seed", integer(|(seed, _)| seed))
        .with("variant", text(|done| &done.variant))
        .with("flow", text(|done| &done.flow))
        .with("begun_ns", integer(|(_, done)| done.page.begun_ns))
        .with("load_ns", integer(|(_, done)| done.page.load_ns))
        .with("finished", Column::Truth(rows().map(|(_, done)| Some(done.page.finished)).collect()))
}

/// The transfers of all runs, one in a row. The time of one that is not finished is how long it had lasted when it was seen last.
fn transfers(outcomes: &[Outcome]) -> columns::Table {
    let rows = || outcomes.iter().flat_map(|run| run.transfers.iter().map(move |done| (run.seed, done)));
    let integer = |of: fn((u64, &FlowTransfer)) -> u64| Column::Integer(rows().map(|row| Some(of(row))).collect());
    let text = |of: fn(&FlowTransfer) -> &str| {
        Column::Text(
            rows().map(|(_, done)| Some(of(done)).filter(|text| !text.is_empty()).map(str::to_owned)).collect(),
        )
    };
    let truth = |of: fn(&FlowTransfer) -> bool| Column::Truth(rows().map(|(_, done)| Some(of(done))).collect());
    let slowdown = |(_, done): (u64, &FlowTransfer)| done.transfer.time_ns as f64 / done.transfer.ideal_ns as f64;
    columns::Table::default()
        .with("seed", integer(|(seed, _)| seed))
        .with("variant", text(|done| &done.variant))
        .with("flow", text(|done| &done.flow))
        .with("begun_ns", integer(|(_, done)| done.transfer.begun_ns))
        .with("size_bytes", integer(|(_, done)| done.transfer.size))
        .with("completion_ns", integer(|(_, done)| done.transfer.time_ns))
        .with("finished", truth(|done| done.transfer.end == TransferEnd::Completed))
        .with("aborted", truth(|done| done.transfer.end == TransferEnd::Aborted))
        .with("ideal_ns", integer(|(_, done)| done.transfer.ideal_ns))
        .with("slowdown", Column::Number(rows().map(|row| Some(slowdown(row))).collect()))
        .with("connection", integer(|(_, done)| done.transfer.connection))
}

//! The tables that `simulate --out` writes.

use crate::simulate::simulate;
use crate::told_apart::DUEL;
use tidegate_testbed::files::{Folder, text};

/// A percentile that the scenario names as primary is among the values that are shown; others are in the files alone.
#[test]
fn a_percentile_that_is_named_is_shown() {
    let folder = Folder::new("percentile");
    let file =
        folder.with("duel.toml", DUEL.replacen("hosts", "primary = [\"completion p95 of flow mice\"]\nhosts", 1));
    let out = folder.0.join("out");
    let found = text(&simulate(&[&file, "--runs", "2", "--out", &out.display().to_string()]).stdout);
    assert!(found.contains("completion p95") && !found.contains("completion p90"), "{found}");
    let runs = std::fs::read_to_string(out.join("runs.csv")).expect("runs");
    assert!(
        runs.contains(",flow mice,completion p99.9,ns,") && runs.contains(",flow mice,completion p90,ns,"),
        "{runs}"
    );
}

/// Each page has its row, and the counts of the runs are those of the rows.
#[test]
fn each_page_has_its_row() {
    let folder = Folder::new("pages");
    let web = "[[flow]]\nname = \"web\"\nfrom = \"a\"\nto = \"b\"\n\
        workload = { kind = \"web\", think = { kind = \"exponential\", mean = \"1s\" } }\n[[variant]]\nname = \"one\"";
    let file = folder.with("web.toml", DUEL.replacen("[[variant]]\nname = \"one\"", web, 1));
    let out = folder.0.join("out");
    let found = simulate(&[&file, "--runs", "2", "--out", &out.display().to_string()]);
    assert!(found.status.success(), "{}", text(&found.stderr));
    let pages = std::fs::read_to_string(out.join("pages.csv")).expect("pages");
    assert!(pages.starts_with("seed,variant,flow,begun_ns,load_ns,finished\n"), "{pages}");
    let runs = std::fs::read_to_string(out.join("runs.csv")).expect("runs");
    for seed in ["1", "2"] {
        for variant in ["one", "same", "fair"] {
            let count = |measure: &str| {
                let row = runs.lines().find(|row| row.starts_with(&format!("{seed},{variant},flow web,{measure},")));
                row.and_then(|row| row.rsplit(',').next()?.parse::<f64>().ok())
            };
            let rows = || pages.lines().filter(|row| row.starts_with(&format!("{seed},{variant},web,")));
            let loaded = rows().filter(|row| row.ends_with(",true")).count();
            assert!(rows().count() > 1, "{pages}");
            assert_eq!(count("pages begun"), Some(rows().count() as f64), "{seed} {variant}: {runs}");
            assert_eq!(count("pages loaded"), Some(loaded as f64), "{seed} {variant}: {runs}");
        }
    }
    assert!(out.join("pages.parquet").exists());
}

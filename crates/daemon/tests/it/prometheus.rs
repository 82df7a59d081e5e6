//! The files for Prometheus and Grafana: their metrics exist, and `promtool` runs the tests of the alert rules where it is installed
//! (package `prometheus` of Debian).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tidegate_testbed::files::Folder;
use tidegate_testbed::openmetrics::parse;

use crate::metrics::{observation, text};

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(packaging(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The expressions of the dashboard, with values in the place of its variables.
fn dashboard() -> Vec<String> {
    let whole: Value = serde_json::from_str(&read("grafana/tidegate.json")).expect("JSON");
    let panels = whole["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    targets.map(|target| target["expr"].as_str().expect("a text").replace("$instance", "gw")).collect()
}

/// The names of our metrics in a text.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("tidegate_")).collect()
}

#[test]
fn alert_rules_and_dashboard_use_metrics_that_exist() {
    let exposed = text(observation());
    let families = parse(&exposed).expect("OpenMetrics");
    let alerts = read("prometheus/alerts.yml");
    let expressions: String = alerts.lines().filter(|line| line.contains("expr:")).collect::<Vec<_>>().join(" ");
    let all = dashboard().join(" ") + &expressions;
    assert!(named(&all).len() > 10, "{:?}", named(&all));
    for name in named(&all) {
        // A counter is exposed with this end, which is no part of the name of its family.
        let family = name.strip_suffix("_total").unwrap_or(name);
        let found = families.get(family).unwrap_or_else(|| panic!("{name} is in no family of the metrics"));
        assert_eq!(found.kind == "counter", name.ends_with("_total"), "{name} is a {}", found.kind);
    }
}

#[test]
fn promtool_runs_the_tests_of_the_alert_rules() {
    let tool = |args: &[&str]| Command::new("promtool").args(args).output();
    if tool(&["--version"]).is_err() {
        eprintln!("SKIPPED: promtool is not installed; on Debian `apt-get install prometheus`");
        return;
    }
    let passes = |args: &[&str]| {
        let output = tool(args).expect("promtool runs");
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(output.status.success(), "promtool {args:?}: {said}");
    };
    let file = |name: &str| packaging(name).to_str().expect("a path").to_owned();
    passes(&["check", "rules", "--lint-fatal", &file("prometheus/alerts.yml")]);
    passes(&["test", "rules", &file("prometheus/alerts.test.yml")]);
    // An expression is checked as that of a rule.
    let rules: String = (0..)
        .zip(dashboard())
        .map(|(n, expression): (u32, _)| {
            format!("      - {{record: \"panel:{n}\", expr: {}}}\n", Value::from(expression))
        })
        .collect();
    let folder = Folder::new("dashboard");
    let path = folder.write("dashboard.yml", format!("groups:\n  - name: dashboard\n    rules:\n{rules}"));
    passes(&["check", "rules", "--lint-fatal", path.to_str().expect("a path")]);
}

//! The README of an artifact, in the form that artifact evaluation asks for.

use tidegate_display::human;
use tidegate_report::comparison::Comparison;

use super::claims::Claim;
use super::{Manifest, Ran, TOLERANCE, Tolerance};

/// The text, with a place `{{name}}` for each fact.
const TEXT: &str = include_str!("../../../templates/artifact/README.md");

/// A text of others as one line of Markdown, in which it has no meaning of its own.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            c if c.is_control() => out.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

fn tolerances(given: &[Tolerance]) -> String {
    let one = |tolerance: &Tolerance| match tolerance.measure.as_str() {
        "" => format!("{} %", tolerance.percent),
        measure => format!("{} % for {}", tolerance.percent, plain(measure)),
    };
    match given {
        [] => format!("{TOLERANCE} %"),
        given => given.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

/// The parts of the README that follow from the results: the claims, the table, and the digest.
pub fn results(manifest: &Manifest, comparison: &Comparison) -> [String; 3] {
    [claims(manifest, comparison), comparison.markdown(), manifest.digest.clone()]
}

fn claims(manifest: &Manifest, comparison: &Comparison) -> String {
    let claims: Vec<String> = match manifest.claims.as_slice() {
        [] => comparison.sentences(),
        given => given.iter().map(Claim::line).collect(),
    };
    let claim = |(n, claim): (usize, &String)| format!("- **C{}**: {}\n", n + 1, plain(claim));
    match claims.is_empty() {
        true => "- **C1**: the values below.\n".to_owned(),
        false => claims.iter().enumerate().map(claim).collect(),
    }
}

/// Writes the README.
pub fn text(manifest: &Manifest, comparison: &Comparison, ran: &Ran, inputs: &[String]) -> String {
    let [claims, table, digest] = results(manifest, comparison);
    let figure =
        |name: &str| format!("- `expected/{name}.pdf` and `expected/{name}.svg`; yours are in `reproduced/`\n");
    let what = |path: &str| match path == manifest.scenario {
        true => "the scenario: topology, queues, flows, seeds",
        false => "a file that the scenario reads",
    };
    let facts = [
        ("version", manifest.version.clone()),
        ("took", human(ran.elapsed.as_secs_f64(), "s")),
        ("processors", ran.jobs.to_string()),
        ("runs", manifest.runs.to_string()),
        ("variants", ran.scenario.parts().to_string()),
        ("simulated", human(ran.scenario.duration.as_nanos() as f64 / 1e9, "s")),
        ("digest", digest),
        ("tolerances", tolerances(&manifest.tolerances)),
        ("figure", manifest.figure_tolerance_percent.to_string()),
        ("seed", manifest.seed.to_string()),
        ("last", manifest.seed.wrapping_add(u64::from(manifest.runs) - 1).to_string()),
        ("scenario", plain(&manifest.scenario)),
        ("figures", manifest.figures.iter().map(|spec| figure(&spec.name)).collect()),
        ("files", inputs.iter().map(|path| format!("| `input/{path}` | {} |\n", what(path))).collect()),
        // The texts of others come last, so that a place in them stays as it is.
        ("table", table),
        ("claims", claims),
        ("title", plain(&manifest.title)),
    ];
    let place = |text: String, (name, fact): (&str, String)| text.replace(&format!("{{{{{name}}}}}"), &fact);
    facts.into_iter().fold(TEXT.to_owned(), place)
}

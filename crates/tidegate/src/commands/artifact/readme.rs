//! The README of an artifact, in the form that artifact evaluation asks for.

use super::claims::Claim;
use super::own::FOLDER;
use super::ran::Ran;
use super::{Manifest, TABLE, TOLERANCE, Tolerance};
use tidegate_display::human;

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

/// The README of an artifact of several, with a place for the title and for a row of each.
const PARTS: &str = include_str!("../../../templates/artifact/PARTS.md");

/// The row of one of several artifacts in their README.
pub fn row(name: &str, manifest: &Manifest) -> String {
    let (title, runs) = (plain(&manifest.title), several(manifest.digests.len(), "run"));
    let claims = several(manifest.claims.len(), "claim");
    format!("| [{name}]({name}/README.md) | {title} | {runs} | {claims} | `{}` |\n", manifest.digest)
}

/// The README of several artifacts.
pub fn of_parts(title: &str, rows: &str) -> String {
    PARTS.replace("{{rows}}", rows).replace("{{title}}", &plain(title))
}

/// A number with the word for what is counted.
fn several(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// The claims of an artifact, one in a line.
fn claims(manifest: &Manifest) -> String {
    // The correction that all have is said once, below them.
    let shared = match manifest.claims.as_slice() {
        [first, _, ..] => {
            first.correction().filter(|shared| manifest.claims.iter().all(|claim| claim.correction() == Some(shared)))
        }
        _ => None,
    };
    let claim = |(n, claim): (usize, &Claim)| {
        let evidence = shared.and_then(|shared| claim.evidence().strip_suffix(shared)).unwrap_or(claim.evidence());
        let evidence = if evidence.is_empty() { String::new() } else { format!(": {evidence}") };
        format!("- **C{}**: {}\n", n + 1, plain(&(claim.line() + &evidence)))
    };
    let below =
        shared.map_or(String::new(), |shared| format!("\nEach p is{}.\n", plain(shared.trim_start_matches(','))));
    match manifest.claims.is_empty() {
        true => "- **C1**: the values below.\n".to_owned(),
        false => manifest.claims.iter().enumerate().map(claim).collect::<String>() + &below,
    }
}

/// Whether a README says what `artifact.json` does. Returns a line for each part that is another: the versions, the digest, the
/// claims, and the table, which may stand nowhere but in their places.
pub fn check(readme: &str, manifest: &Manifest) -> Vec<String> {
    let section = |begin: &str, end: &str| {
        let (_, rest) = readme.split_once(begin)?;
        Some(rest.split_once(end)?.0.trim())
    };
    let table = manifest.stated().markdown();
    let table_there = section("half the width of their 95 % intervals:", "Figures:");
    let is_version = readme.contains(&format!("a simulation with Tidegate {}, ", plain(&manifest.version)))
        && readme.contains(&format!("prints `tidegate {}`", manifest.version));
    let digest = format!("the digest is `{}`", manifest.digest);
    let within = format!("the expected values are within {} of those measured", tolerances(&manifest.tolerances));
    let parts = [
        ("tolerances", readme.contains(&within)),
        ("version", is_version),
        ("digest", readme.matches("the digest is `").count() == 1 && readme.contains(&digest)),
        ("claims", section("## Claims", "## Requirements") == Some(claims(manifest).trim())),
        ("table", table_there == Some(table.trim())),
    ];
    let wrong = parts.into_iter().filter(|(_, is_right)| !is_right);
    let differ = |name: &str| if ["claims", "tolerances"].contains(&name) { "are not those" } else { "is not that" };
    wrong.map(|(name, _)| format!("README.md: its {name} {} of artifact.json", differ(name))).collect()
}

/// Writes the README.
pub fn text(manifest: &Manifest, ran: &Ran, inputs: &[String]) -> String {
    let figure =
        |name: &str| format!("- `expected/{name}.pdf` and `expected/{name}.svg`; yours are in `reproduced/`\n");
    let what = |path: &str| match path == manifest.scenario {
        true => "the scenario: topology, queues, flows, seeds",
        false => "a file that the scenario reads",
    };
    // Values of an axis may have quotes for the shell.
    let quoted = |axis: &String| format!(" --vary '{}'", axis.replace('\'', r"'\''"));
    let axes: String = manifest.axes.iter().map(quoted).collect();
    let (at_points, vary, table) = match ran.points() {
        Some(points) => (
            format!(" at each of {} of a sweep", several(points, "point")),
            axes.clone(),
            format!("| `{TABLE}` | the results of the sweep, for `tidegate compare` and `tidegate figure` |\n"),
        ),
        None => (String::new(), " --vary ...".to_owned(), String::new()),
    };
    let notes = ran.notes();
    let (version, command) = (&manifest.version, manifest.needs.as_deref().unwrap_or("tidegate"));
    let (software, source, own) = match &manifest.needs {
        None => (
            format!(
                "`tidegate {version}` in the search path, or named by `TIDEGATE=/path/to/tidegate`. From its source tree:\n  \
                 `cargo install --path crates/tidegate`"
            ),
            "",
            String::new(),
        ),
        Some(program) => (
            format!(
                "`{program}`, which is Tidegate {version} with what the crate in `{FOLDER}/` adds, in the search path or named by\n  \
                 `TIDEGATE=/path/to/{program}`; `tidegate` alone does not know it. To build it, put the source tree of Tidegate {version}\n  \
                 beside this folder as `../tidegate` (or a link to it), unless `{FOLDER}/Cargo.toml` names another source, and then\n  \
                 `cargo build --release --manifest-path {FOLDER}/Cargo.toml --features lab --bin {program}` and\n  \
                 `export TIDEGATE=\"$PWD/{FOLDER}/target/release/{program}\"`"
            ),
            ", and the source of what is not Tidegate's in `crate/`",
            format!(
                "| `{FOLDER}/` | the crate of `{program}`, with the path of Tidegate's tree made that of one beside this folder |\n"
            ),
        ),
    };
    let facts = [
        ("version", manifest.version.clone()),
        ("took", human(manifest.seconds, "s")),
        ("processors", several(manifest.processors, "processor")),
        ("alone", human(manifest.seconds * manifest.processors as f64, "s")),
        ("program", if manifest.program.is_empty() { "unknown".to_owned() } else { format!("`{}`", manifest.program) }),
        ("runs", several(manifest.runs as usize, "run")),
        ("variants", several(ran.scenario.parts(), "variant") + &at_points),
        ("simulated", human(ran.scenario.duration.as_nanos() as f64 / 1e9, "s")),
        ("digest", manifest.digest.clone()),
        ("tolerances", tolerances(&manifest.tolerances)),
        ("figure", manifest.figure_tolerance_percent.to_string()),
        ("seed", manifest.seed.to_string()),
        ("last", manifest.seed.wrapping_add(u64::from(manifest.runs) - 1).to_string()),
        ("scenario", plain(&manifest.scenario)),
        ("figures", manifest.figures.iter().map(|spec| figure(&spec.name)).collect()),
        (
            "files",
            inputs.iter().map(|path| format!("| `input/{path}` | {} |\n", what(path))).chain([own, table]).collect(),
        ),
        ("software", software),
        ("source", source.to_owned()),
        ("command", command.to_owned()),
        // The texts of others come last, so that a place in them stays as it is.
        ("notes", notes.iter().map(|note| plain(note) + "\n\n").collect()),
        ("table", manifest.stated().markdown()),
        ("vary", vary),
        ("axes", axes),
        ("count", format!(" --runs {}", manifest.runs)),
        ("claims", claims(manifest)),
        ("title", plain(&manifest.title)),
    ];
    let place = |text: String, (name, fact): (&str, String)| text.replace(&format!("{{{{{name}}}}}"), &fact);
    facts.into_iter().fold(TEXT.to_owned(), place)
}

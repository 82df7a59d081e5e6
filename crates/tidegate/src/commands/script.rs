//! `tidegate script`: runs scripts of arrivals and checks their expectations.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::json;
use tidegate_config::Source;
use tidegate_display::wrapped;
use tidegate_script::{EventKind, Findings, Limits, Outcome, Script};

use super::check::open;
use crate::Failure;
use crate::output::width;
use crate::progress::Progress;

/// The reference of the language, a page of the book.
const LANGUAGE: &str = include_str!("../../../../book/src/reference/script-language.md");

/// Run scripts of arrivals through a discipline or a shaper file, and check the departures
///
/// A script specifies what is sent when, and what must leave, wait or be dropped, in which order, at what time and
/// for what reason; its time is virtual. `tidegate script --language` prints the reference, which is also a chapter
/// of the book.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The scripts; - for standard input
    #[arg(required_unless_present = "language")]
    files: Vec<PathBuf>,
    /// Print every event
    #[arg(long)]
    trace: bool,
    /// Print the results as JSON; with --trace also every event
    #[arg(long)]
    json: bool,
    /// Print the reference of the language, and exit
    #[arg(long)]
    language: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut out = crate::output::stdout();
    if args.language {
        out.write_all(LANGUAGE.as_bytes())?;
        return Ok(());
    }
    let styled = std::io::stderr().is_terminal();
    let (mut results, mut failed, mut wrong) = (Vec::new(), 0, 0);
    let mut progress = Progress::new();
    let all = args.files.len();
    for (done, path) in args.files.iter().enumerate() {
        progress.show(done as u64, all as u64, || format!("{done} of {all} scripts"));
        let source = open(path)?;
        let name = source.name().to_owned();
        let outcome = match play(source, path) {
            Ok(outcome) => outcome,
            Err(findings) => {
                wrong += 1;
                crate::output::styled(&if styled { findings.styled() } else { findings.to_string() });
                message!("");
                continue;
            }
        };
        failed += usize::from(!outcome.holds());
        if !outcome.holds() {
            crate::output::styled(&if styled { outcome.failures_styled() } else { outcome.failures() });
        }
        if args.json {
            results.push(result(&name, &outcome, args.trace));
        } else {
            if args.trace {
                for record in &outcome.log.records {
                    writeln!(out, "{}", outcome.log.line(record))?;
                }
            }
            let all = outcome.expectations;
            let verdict = match outcome.unmet {
                0 => format!("{all} expectation{} hold{}", plural(all), if all == 1 { "s" } else { "" }),
                failed => format!("{failed} of {all} expectation{} failed", plural(all)),
            };
            let verdict = format!("{name}: {verdict}; digest {}", outcome.digest());
            writeln!(out, "{}", wrapped(&verdict, width()))?;
        }
    }
    if args.json {
        writeln!(out, "{:#}", json!({ "version": env!("CARGO_PKG_VERSION"), "scripts": results }))?;
    }
    out.flush()?;
    match (wrong, failed) {
        (0, 0) => Ok(()),
        (0, _) => Err(Failure::Negative),
        (1, _) => Err(Failure::Usage("this script cannot run".into())),
        (many, _) => Err(Failure::Usage(format!("{many} scripts cannot be run"))),
    }
}

/// `s` for several.
fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

fn play(source: Source, path: &Path) -> Result<Outcome, Findings> {
    // A file that a script names is relative to the script.
    let beside = path.parent().filter(|_| path.as_os_str() != "-").unwrap_or(Path::new("."));
    let mut files = |name: &str| Source::open(&beside.join(name)).map_err(|error| error.to_string());
    Script::parse(source, &Limits::default(), &mut files)?.run()
}

fn result(name: &str, outcome: &Outcome, trace: bool) -> serde_json::Value {
    let log = &outcome.log;
    let failures = outcome.failed.iter().map(|failure| {
        let (line, column) = outcome.line_column(failure.place);
        json!({ "line": line, "column": column, "message": failure.message })
    });
    let mut result = json!({
        "script": name,
        "holds": outcome.holds(),
        "expectations": outcome.expectations,
        "failures": failures.collect::<Vec<_>>(),
        "sent_packets": log.packets.len(),
        "left_packets": log.departures().count(),
        "dropped_packets": log.drops().count(),
        "digest": outcome.digest().to_string(),
    });
    if trace {
        let record = |record: &tidegate_script::Record| {
            let packet = &log.packets[record.id as usize];
            let (what, reason) = match record.kind {
                EventKind::Arrived => ("arrived", None),
                EventKind::Left => ("left", None),
                EventKind::Dropped(reason) => ("dropped", Some(reason.name())),
            };
            json!({
                "time_ns": record.time.as_nanos(), "flow": log.names[packet.flow], "number": packet.number,
                "what": what, "reason": reason, "size_bytes": packet.size.as_u64(),
                "waited_ns": (record.kind != EventKind::Arrived).then(|| record.time.since(packet.arrived).as_nanos()),
                "marked": packet.marked && record.kind == EventKind::Left,
            })
        };
        result["trace"] = log.records.iter().map(record).collect();
    }
    result
}

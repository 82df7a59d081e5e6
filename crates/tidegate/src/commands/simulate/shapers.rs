//! The changes of the shapers of a scenario, and their reports: as JSON and as lines for people.

use std::io::Write;

use serde::Serialize;
use serde_json::Value;
use tidegate_display::human;
use tidegate_sim::scenario::{Outcome, Report};

/// One action, snapshot or event.
#[derive(Serialize)]
pub struct Entry<'a> {
    time_ns: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    variant: &'a str,
    link: &'a str,
    kind: &'static str,
    refused: bool,
    result: &'a Value,
}

impl<'a> Entry<'a> {
    fn of(report: &'a Report) -> Self {
        let Report { time, variant, link, kind, refused, result } = report;
        Self { time_ns: time.as_nanos(), variant, link, kind, refused: *refused, result }
    }
}

/// All of a run.
pub fn entries(outcome: &Outcome) -> Vec<Entry<'_>> {
    outcome.reports.iter().map(Entry::of).collect()
}

/// Events that are listed; JSON has all of them.
const LISTED: usize = 40;

/// Writes them as lines.
pub fn write(out: &mut impl Write, outcome: &Outcome) -> std::io::Result<()> {
    if outcome.reports.is_empty() {
        return Ok(());
    }
    let mut events = 0;
    for report in &outcome.reports {
        if report.kind == "event" {
            events += 1;
            if events > LISTED {
                continue;
            }
        }
        let time = human(report.time.as_nanos() as f64 / 1e9, "s");
        let variant = if report.variant.is_empty() { String::new() } else { format!("{}: ", report.variant) };
        writeln!(out, "{time:>9}  {variant}{}  {}", report.link, line(report))?;
        if report.kind == "status" {
            for class in list(&report.result["classes"]) {
                writeln!(out, "           {}", status(class))?;
            }
        }
    }
    if events > LISTED {
        writeln!(out, "           {} more events; --json has all of them", events - LISTED)?;
    }
    writeln!(out)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn rate(value: &Value) -> String {
    human(value.as_f64().unwrap_or(0.0), "bps")
}

fn line(report: &Report) -> String {
    let result = &report.result;
    if report.refused {
        return format!("{} refused: {}", report.kind, text(&result["refused"]));
    }
    match report.kind {
        "promise" => format!(
            "promise {} in class {}: {} granted, {} left to promise",
            text(&result["name"]),
            text(&result["class"]),
            rate(&result["granted_bps"]),
            rate(&result["free_bps"]),
        ),
        "reserve" => format!(
            "reserve {}: {} for {}, {} left",
            text(&result["name"]),
            rate(&result["rate_bps"]),
            text(&result["matches"]),
            rate(&result["free_bps"]),
        ),
        "release" | "unreserve" => format!("{} {}", report.kind, text(&result["name"])),
        "set" | "add" | "remove" | "apply" => {
            let differences: Vec<&str> = list(&result["differences"]).iter().map(text).collect();
            format!("{}: {}", report.kind, differences.join("; "))
        }
        "event" => {
            let flow = &result["flow"];
            let name = flow["name"].as_str().unwrap_or_else(|| text(&flow["key"]));
            let class = result["class"].as_str().map(|class| format!(", class {class}")).unwrap_or_default();
            format!("event {}: {name}{class}", text(&result["event"]))
        }
        kind => kind.to_owned(),
    }
}

/// A class of a snapshot.
fn status(class: &Value) -> String {
    let count = |value: &Value| value.as_f64().unwrap_or(0.0);
    let dropped: f64 = class["dropped"].as_object().map_or(0.0, |all| all.values().map(count).sum());
    let dropped = if dropped > 0.0 { format!(", {} dropped", human(dropped, "packets")) } else { String::new() };
    format!(
        "class {}: {} since the last status, {} queued, waited {} (99 %){dropped}",
        text(&class["name"]),
        rate(&class["sent_bps"]),
        human(count(&class["queue_packets"]), "packets"),
        human(count(&class["wait_p99_ns"]), "ns"),
    )
}

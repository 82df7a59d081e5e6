//! The output of a replay.

use std::io::Write;

use serde_json::{Value, json};
use tidegate_core::DropReason;
use tidegate_display::Table;
use tidegate_engine::ClassStatus;
use tidegate_replay::decisions;
use tidegate_replay::exact::Verdict;
use tidegate_replay::run::{FlowOutcome, Outcome};
use tidegate_replay::session::Again;
use tidegate_units::{Rate, Span};

use super::{Args, Results};
use crate::Failure;
use crate::output::width;

/// All outcomes, the repetition first.
pub fn outcomes(results: &Results) -> Vec<&Outcome> {
    let again = results.again.iter().filter_map(|again| again.outcome.as_ref());
    again.chain(results.session.iter().flat_map(|session| &session.outcomes)).collect()
}

/// Prints in the requested format.
pub fn print(args: &Args, results: &Results) -> Result<(), Failure> {
    let mut out = crate::output::stdout();
    let outcomes = outcomes(results);
    if args.json {
        writeln!(out, "{:#}", whole_json(args, results, &outcomes))?;
    } else if args.csv {
        csv(&mut out, &outcomes)?;
    } else if args.hash {
        for outcome in &outcomes {
            writeln!(out, "{}  {}", outcome.digest, outcome.name)?;
        }
    } else {
        drop(out);
        let mut out = Vec::new();
        table(&mut out, &outcomes)?;
        writeln!(out)?;
        for outcome in &outcomes {
            let Outcome { name, passed, refused, time, digest, .. } = outcome;
            let seconds = time.as_nanos() as f64 / 1e9;
            writeln!(out, "{name}: {passed} left and {refused} were dropped in {seconds:.3} s; digest {digest}")?;
        }
        if let Some(again) = &results.again {
            writeln!(out, "{}", sentence(again))?;
            if let Some(decided) = decided(again) {
                writeln!(out, "{decided}")?;
            }
        }
        return Ok(crate::output::print(&String::from_utf8_lossy(&out))?);
    }
    out.flush()?;
    Ok(())
}

/// Describes whether a recording and its replay are equal.
pub fn sentence(again: &Again) -> String {
    let compared = again.exact.compared;
    match &again.exact.verdict {
        Verdict::Equal if again.broken.is_some() => {
            format!("as far as the recording can be read its {compared} departures and drops are equal bit for bit")
        }
        Verdict::Equal => format!("equal: all {compared} departures and drops are those of the recording, bit for bit"),
        Verdict::EqualUpTo { record, why } => {
            format!(
                "equal up to record {record} ({compared} departures and drops); the records after it cannot be compared: {why}"
            )
        }
        Verdict::Different(difference) => format!("NOT equal: {difference}"),
    }
}

/// Describes whether the decisions of a rate that follows the line are those of the recording; `None` if it has none.
pub fn decided(again: &Again) -> Option<String> {
    let compared = again.decisions.compared();
    (!again.decisions.is_empty()).then(|| match again.decisions.verdict() {
        decisions::Verdict::Equal => format!("equal: all {compared} changes of the line's rate are decided as in the recording"),
        decisions::Verdict::EqualUpTo(call) => {
            format!("{compared} changes of the line's rate are decided as in the recording; from call {call} on calls are missing")
        }
        decisions::Verdict::Different(difference) => {
            format!("NOT equal: after {compared} equal changes of the line's rate {difference}")
        }
    })
}

fn table(out: &mut dyn Write, outcomes: &[&Outcome]) -> Result<(), Failure> {
    let heads = ["configuration", "class", ">packets", ">bytes", ">rate", ">delay p50", ">delay p99", "dropped"];
    let mut table = Table::new("", heads)
        .optional(["bytes", "packets", "delay p50"])
        .shorten("configuration", 12)
        .shorten("class", 12)
        .shorten("dropped", 12);
    for outcome in outcomes {
        for (n, class) in outcome.classes.iter().enumerate() {
            let counts = &class.counts;
            let row = [
                if n == 0 { outcome.name.clone() } else { String::new() },
                class.name.clone(),
                counts.through.packets.to_string(),
                counts.through.bytes.as_u64().to_string(),
                rate(class, outcome.time).to_string(),
                millis(counts.waited_at(0.5)),
                millis(counts.waited_at(0.99)),
                drops(class),
            ];
            table.row(row.map(Into::into));
        }
    }
    write!(out, "{}", table.text(width()))?;
    Ok(())
}

/// The mean rate of a class over all the time, to three digits.
fn rate(class: &ClassStatus, time: Span) -> Rate {
    let bits = u128::from(class.counts.through.bytes.as_u64()) * 8 * 1_000_000_000;
    let bps = bits.checked_div(time.as_nanos().into()).unwrap_or(0);
    let unit = 10_u128.pow(bps.checked_ilog10().unwrap_or(0).saturating_sub(2));
    Rate::from_bps(((bps + unit / 2) / unit * unit) as u64)
}

fn millis(span: Span) -> String {
    format!("{:.2} ms", span.as_nanos() as f64 / 1e6)
}

fn by_reason(class: &ClassStatus) -> impl Iterator<Item = (&'static str, u64)> + '_ {
    let dropped = &class.counts.accounts.dropped;
    DropReason::ALL.into_iter().map(move |reason| (reason.name(), dropped[reason as usize].packets))
}

fn drops(class: &ClassStatus) -> String {
    let reasons: Vec<_> = by_reason(class)
        .filter(|(_, packets)| *packets > 0)
        .map(|(name, packets)| format!("{packets} {name}"))
        .collect();
    if reasons.is_empty() { "0".into() } else { reasons.join(", ") }
}

fn csv(out: &mut dyn Write, outcomes: &[&Outcome]) -> Result<(), Failure> {
    let reasons: Vec<_> = DropReason::ALL.iter().map(|reason| format!("dropped_{}", reason.name())).collect();
    writeln!(
        out,
        "configuration,class,packets,bytes,rate_bps,delay_p50_ns,delay_p99_ns,marked,remarked,{},digest",
        reasons.join(",")
    )?;
    let quoted = |text: &str| {
        if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
    };
    for outcome in outcomes {
        for class in &outcome.classes {
            let counts = &class.counts;
            let dropped: Vec<_> = by_reason(class).map(|(_, packets)| packets.to_string()).collect();
            writeln!(
                out,
                "{},{},{},{},{},{},{},{},{},{},{}",
                quoted(&outcome.name),
                quoted(&class.name),
                counts.through.packets,
                counts.through.bytes.as_u64(),
                rate(class, outcome.time).as_bps(),
                counts.waited_at(0.5).as_nanos(),
                counts.waited_at(0.99).as_nanos(),
                counts.marked,
                counts.remarked,
                dropped.join(","),
                outcome.digest
            )?;
        }
    }
    Ok(())
}

fn class_json(class: &ClassStatus, time: Span) -> Value {
    let counts = &class.counts;
    let dropped: serde_json::Map<_, _> =
        by_reason(class).map(|(name, packets)| (name.to_owned(), packets.into())).collect();
    json!({
        "name": class.name,
        "packets": counts.through.packets,
        "bytes": counts.through.bytes.as_u64(),
        "rate_bps": rate(class, time).as_bps(),
        "arrived_packets": counts.accounts.enqueued.packets,
        "arrived_bytes": counts.accounts.enqueued.bytes.as_u64(),
        "delay_p50_ns": counts.waited_at(0.5).as_nanos(),
        "delay_p99_ns": counts.waited_at(0.99).as_nanos(),
        "marked_packets": counts.marked,
        "remarked_packets": counts.remarked,
        "dropped_packets": dropped,
    })
}

fn outcome_json(outcome: &Outcome) -> Value {
    let classes: Vec<_> = outcome.classes.iter().map(|class| class_json(class, outcome.time)).collect();
    let seconds = outcome.time.as_secs_f64();
    let flow = |flow: &FlowOutcome| {
        json!({
            "name": flow.name,
            "rate_bps": (seconds > 0.0).then(|| (flow.sent_bytes as f64 * 8.0 / seconds) as u64),
            "delay_p50_ns": flow.delays.quantile(0.5),
            "delay_p99_ns": flow.delays.quantile(0.99),
            "dropped_packets": flow.dropped,
        })
    };
    let flows: Vec<_> = outcome.flows.iter().map(flow).collect();
    json!({
        "name": outcome.name,
        "digest": outcome.digest.to_string(),
        "passed_packets": outcome.passed,
        "dropped_packets": outcome.refused,
        "unclassified_packets": outcome.unclassified,
        "time_ns": outcome.time.as_nanos(),
        "classes": classes,
        "flows": flows,
    })
}

fn whole_json(args: &Args, results: &Results, outcomes: &[&Outcome]) -> Value {
    let again = results.again.as_ref().map(|again| {
        let (verdict, record) = match &again.exact.verdict {
            Verdict::Equal => ("equal", None),
            Verdict::EqualUpTo { record, .. } => ("equal-up-to", Some(*record)),
            Verdict::Different(difference) => ("parted", Some(difference.record)),
        };
        json!({
            "verdict": verdict,
            "record": record,
            "says": sentence(again),
            "compared": again.exact.compared,
            "records": again.records,
            "digest_recorded": again.exact.recorded.to_string(),
            "digest_here": again.exact.here.to_string(),
            "decisions": decided(again).map(|says| json!({
                "verdict": match again.decisions.verdict() {
                    decisions::Verdict::Equal => "equal",
                    decisions::Verdict::EqualUpTo(_) => "equal-up-to",
                    decisions::Verdict::Different(_) => "parted",
                },
                "says": says,
                "compared": again.decisions.compared(),
            })),
        })
    });
    let session = results.session.as_ref();
    let packets = session.map(|session| session.packets).or(results.again.as_ref().map(|again| again.packets));
    let broken = session.and_then(|session| session.broken.as_ref()).map(ToString::to_string);
    let broken = broken.or(results.again.as_ref().and_then(|again| again.broken.as_ref()).map(ToString::to_string));
    json!({
        "file": args.file.display().to_string(),
        "version": env!("CARGO_PKG_VERSION"),
        "seed": results.seed(args.seed),
        "packets": packets,
        "warnings": results.notices,
        "broken": broken,
        "recording": again,
        "configurations": outcomes.iter().map(|outcome| outcome_json(outcome)).collect::<Vec<_>>(),
    })
}

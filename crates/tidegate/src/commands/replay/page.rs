//! The report of a replay, and its table for notebooks.

use tidegate_core::DropReason;
use tidegate_display::human;
use tidegate_metrics::Curve;
use tidegate_report::columns::{self, Column};
use tidegate_report::comparison::Comparison;
use tidegate_report::curves::sections;
use tidegate_report::simulation::{Quantity, compared};
use tidegate_report::{Fold, Report, Section, Source, Table};

use super::output::{decided, sentence};
use super::{Args, Results};

use tidegate_replay::run::Outcome;

/// The curves of all outcomes, named so that curves to compare are in one plot: the configurations for each class, or
/// the classes of a single configuration. The flows of a configuration are in separate plots.
fn curves(outcomes: &[&Outcome]) -> Vec<Curve> {
    let named = |outcome: &Outcome, curve: &Curve| {
        let of_flow = curve.subject.starts_with("flow ");
        match (outcomes.len(), curve.x) {
            (1, "time_s") => Curve {
                subject: String::new(),
                variant: outcome.name.clone(),
                part: curve.subject.clone(),
                ..curve.clone()
            },
            _ if of_flow => Curve {
                subject: String::new(),
                variant: outcome.name.clone(),
                part: curve.subject.clone(),
                ..curve.clone()
            },
            (1, _) => curve.clone(),
            _ => Curve { variant: outcome.name.clone(), ..curve.clone() },
        }
    };
    let all = || outcomes.iter().flat_map(|outcome| outcome.curves.iter().map(move |curve| named(outcome, curve)));
    // Classes first, so that the comparison is at the top.
    let (flows, classes): (Vec<_>, Vec<_>) = all().partition(|curve| curve.part.starts_with("flow "));
    classes.into_iter().chain(flows).collect()
}

/// The measures of each class, the configurations beside each other.
pub fn quantities(outcomes: &[&Outcome]) -> Vec<Quantity> {
    let mut found = Vec::new();
    for outcome in outcomes {
        let seconds = outcome.time.as_secs_f64();
        for class in &outcome.classes {
            let counts = &class.counts;
            let bits = counts.through.bytes.as_u64() as f64 * 8.0;
            let wait = |part: f64| counts.waited_at(part).as_nanos() as f64;
            let (sent, dropped) = (counts.accounts.enqueued.packets, counts.accounts.dropped_total().packets);
            let values = [
                ("throughput", "bps", if seconds > 0.0 { bits / seconds } else { 0.0 }),
                ("wait p50", "ns", wait(0.5)),
                ("wait p99", "ns", wait(0.99)),
                ("sent", "packets", sent as f64),
                ("dropped", "packets", dropped as f64),
            ];
            let loss = (sent > 0).then(|| ("loss", "%", dropped as f64 / sent as f64 * 100.0));
            let variant = if outcomes.len() > 1 { outcome.name.as_str() } else { "" };
            let of = format!("class {}", class.name);
            let quantity = |(measure, unit, value)| Quantity::of_one_run(variant, &of, measure, unit, value);
            found.extend(values.into_iter().chain(loss).map(quantity));
        }
    }
    if outcomes.len() > 1 {
        outcomes.iter().for_each(|outcome| of_flows(outcome, &mut found));
    }
    found
}

/// The measures of the largest flows under a configuration, where they were kept. A flow has the same name under
/// configurations whose classes differ.
fn of_flows(outcome: &Outcome, found: &mut Vec<Quantity>) {
    let seconds = outcome.time.as_secs_f64();
    for flow in &outcome.flows {
        let wait = |part| flow.delays.quantile(part).map(|nanos| nanos as f64);
        let values = [
            ("throughput", "bps", (seconds > 0.0).then(|| flow.sent_bytes as f64 * 8.0 / seconds)),
            ("wait p50", "ns", wait(0.5)),
            ("wait p99", "ns", wait(0.99)),
            ("dropped", "packets", Some(flow.dropped as f64)),
        ];
        let of = format!("flow {}", flow.name);
        found.extend(values.into_iter().filter_map(|(measure, unit, value)| {
            Some(Quantity::of_one_run(&outcome.name, &of, measure, unit, value?))
        }));
    }
}

fn comparison(outcomes: &[&Outcome]) -> Comparison {
    compared("Each class under each configuration", &quantities(outcomes))
}

/// The classes of each configuration, the configurations, and the drops by reason.
fn tables(outcomes: &[&Outcome]) -> Section {
    let mut table = Table::new(
        "Classes of each configuration",
        [
            "configuration",
            "class",
            ">packets",
            ">sent",
            ">mean rate",
            ">wait p50",
            ">wait p99",
            ">dropped",
            ">marked",
            ">re-marked",
        ],
    );
    let mut whole =
        Table::new("Configurations", ["configuration", ">left", ">dropped", ">lasted", "digest of departures"]);
    let mut reasons = Table::new("Why packets were dropped", ["configuration", "class", "reason", ">packets"]);
    for outcome in outcomes {
        let seconds = outcome.time.as_secs_f64();
        whole.row([
            outcome.name.as_str().into(),
            outcome.passed.to_string().into(),
            outcome.refused.to_string().into(),
            human(seconds, "s").into(),
            outcome.digest.to_string().into(),
        ]);
        for class in &outcome.classes {
            let counts = &class.counts;
            let bytes = counts.through.bytes.as_u64() as f64;
            let wait = |part: f64| human(counts.waited_at(part).as_secs_f64(), "s");
            let rate = if seconds > 0.0 { human(bytes * 8.0 / seconds, "bit/s") } else { String::new() };
            table.row([
                outcome.name.as_str().into(),
                class.name.as_str().into(),
                counts.through.packets.to_string().into(),
                human(bytes, "B").into(),
                rate.into(),
                wait(0.5).into(),
                wait(0.99).into(),
                counts.accounts.dropped_total().packets.to_string().into(),
                counts.marked.to_string().into(),
                counts.remarked.to_string().into(),
            ]);
            for reason in DropReason::ALL {
                let packets = counts.accounts.dropped[reason as usize].packets;
                if packets > 0 {
                    let (name, class) = (outcome.name.as_str(), class.name.as_str());
                    reasons.row([name.into(), class.into(), reason.name().into(), packets.to_string().into()]);
                }
            }
        }
    }
    let section = Section { fold: Fold::Closed, ..Section::new("Tables") }.with(table).with(whole);
    if reasons.rows.is_empty() { section } else { section.with(reasons) }
}

/// Builds the report. `sources` are the texts of the configurations.
pub(super) fn page(args: &Args, results: &Results, outcomes: &[&Outcome], sources: Vec<Source>) -> Report {
    let mut answer = Section::new("Answer").with(comparison(outcomes));
    if let Some(again) = &results.again {
        answer = answer.note(sentence(again));
        if let Some(decided) = decided(again) {
            answer = answer.note(decided);
        }
    }
    let note = "Rates, delays and queues are of a bin; the queue is at the end of it. Of flows, those with the most bytes \
                have curves of their own; what one had before it was among them is with the others.";
    let mut all = vec![answer];
    all.extend(sections("", note, &curves(outcomes), Fold::Open));
    all.push(tables(outcomes));
    let file = args.file.display().to_string();
    let packets = results.session.as_ref().map(|session| session.packets);
    let packets = packets.or(results.again.as_ref().map(|again| again.packets)).unwrap_or_default();
    let recorded = results.again.as_ref().and_then(|again| again.setup.as_ref());
    let recorded = recorded.map(|setup| Source { name: "recorded".to_owned(), text: setup.configuration.clone() });
    Report {
        title: format!("Replay of {file}"),
        sentence: Some("What each configuration does with the same packets at the same times".to_owned()),
        facts: vec![
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("packets".to_owned(), packets.to_string()),
            ("seed".to_owned(), results.seed(args.seed).to_string()),
            ("configurations".to_owned(), outcomes.len().to_string()),
            ("warnings".to_owned(), results.notices.to_string()),
        ],
        sections: all,
        sources: recorded.into_iter().chain(sources).collect(),
        primary: Vec::new(),
    }
}

/// Every point of every curve, one per row.
pub fn tidy(args: &Args, outcomes: &[&Outcome]) -> columns::Table {
    let rows: Vec<(&Outcome, &Curve, (f64, f64))> = outcomes
        .iter()
        .flat_map(|outcome| outcome.curves.iter().map(move |curve| (*outcome, curve)))
        .flat_map(|(outcome, curve)| curve.points.iter().map(move |point| (outcome, curve, *point)))
        .collect();
    let text = |of: &dyn Fn(&Outcome, &Curve) -> String| {
        Column::Text(rows.iter().map(|(outcome, curve, _)| Some(of(outcome, curve))).collect())
    };
    let number = |of: fn((f64, f64)) -> f64| Column::Number(rows.iter().map(|row| Some(of(row.2))).collect());
    columns::Table::default()
        .with("file", text(&|_, _| args.file.display().to_string()))
        .with("configuration", text(&|outcome, _| outcome.name.clone()))
        .with("kind", text(&|_, curve| if curve.x == "time_s" { "series" } else { "distribution" }.to_owned()))
        .with("subject", text(&|_, curve| curve.subject.clone()))
        .with("measure", text(&|_, curve| curve.measure.to_owned()))
        .with("x", number(|point| point.0))
        .with("x_unit", text(&|_, curve| curve.x.to_owned()))
        .with("value", number(|point| point.1))
        .with("unit", text(&|_, curve| curve.y.to_owned()))
}

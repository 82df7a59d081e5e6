//! The table at the end of the demonstration.

use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use tidegate_display::{Table, wrapped};

use super::plan::{self, DemoFlow};
use super::testbed::Outcome;
use super::verdict::Verdict;
use crate::Failure;

/// The results of one flow, shaped and unshaped. Jitter is the mean deviation of the gaps between packets from the mean
/// gap.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    pub(super) flow: String,
    /// The code point that its sender sets.
    pub(super) dscp: u8,
    /// The rate at which it is offered; TCP takes what it finds.
    pub(super) offered_bps: Option<f64>,
    pub(super) demand: String,
    pub(super) class_configured: String,
    pub(super) class_at_end: String,
    pub(super) terms: String,
    pub(super) promised_bps: Option<f64>,
    pub(super) achieved_bps: f64,
    pub(super) unshaped_bps: f64,
    pub(super) jitter_ns: Option<f64>,
    pub(super) unshaped_jitter_ns: Option<f64>,
    pub(super) delay_p99_ns: Option<u64>,
    pub(super) unshaped_delay_p99_ns: Option<u64>,
    pub(super) packets_received: u64,
    pub(super) packets_missing: u64,
    pub(super) unshaped_packets_received: u64,
    pub(super) unshaped_packets_missing: u64,
    pub(super) packets_reordered: u64,
    pub(super) shaper_drops: u64,
    pub(super) dscps_seen: Vec<u8>,
}

/// Creates the rows of the table.
pub fn rows(flows: &[DemoFlow], before: &[Outcome], after: &[Outcome]) -> Vec<Row> {
    flows.iter().zip(before).zip(after).map(|((flow, before), after)| row(flow, before, after)).collect()
}

fn row(flow: &DemoFlow, before: &Outcome, after: &Outcome) -> Row {
    let datagrams = |outcome: &Outcome| outcome.report.gaps.len() > 1;
    let jitter = |outcome: &Outcome| datagrams(outcome).then(|| outcome.report.gap_deviation_nanos());
    let delay = |outcome: &Outcome| datagrams(outcome).then(|| outcome.report.delays.value_at_quantile(0.99));
    let seen = &after.report.dscps;
    Row {
        flow: flow.spec.name.clone(),
        dscp: flow.spec.dscp,
        offered_bps: plan::offered(&flow.spec),
        demand: plan::demand(&flow.spec),
        class_configured: flow.class.into(),
        class_at_end: after.class.clone(),
        terms: flow.terms.into(),
        promised_bps: after.promised,
        achieved_bps: after.rate,
        unshaped_bps: before.rate,
        jitter_ns: jitter(after),
        unshaped_jitter_ns: jitter(before),
        delay_p99_ns: delay(after),
        unshaped_delay_p99_ns: delay(before),
        packets_received: after.report.packets,
        packets_missing: after.report.missing,
        unshaped_packets_received: before.report.packets,
        unshaped_packets_missing: before.report.missing,
        packets_reordered: after.report.reordered,
        shaper_drops: after.drops,
        dscps_seen: (0..64).filter(|&dscp| seen[usize::from(dscp)] > 0).collect(),
    }
}

/// Writes the table as JSON.
pub fn json(
    out: &mut impl Write,
    rows: &[Row],
    verdict: &Verdict,
    [unshaped, shaped]: [Duration; 2],
    open_wire: Option<&str>,
) -> Result<(), Failure> {
    let whole = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "wire_bps": plan::WIRE.as_bps(),
        "wire_not_limited_because": open_wire,
        "unshaped_ns": unshaped.as_nanos() as u64,
        "shaped_ns": shaped.as_nanos() as u64,
        "flows": rows,
        "verdict": verdict,
    });
    writeln!(out, "{whole:#}")?;
    Ok(())
}

/// Writes the table for a terminal of `width` characters, or for a pipe.
pub fn print(out: &mut impl Write, rows: &[Row], width: Option<usize>) -> Result<(), Failure> {
    let mbit = |rate: f64| format!("{:.2}", rate / 1e6);
    let ms = |nanos: Option<f64>| nanos.map_or("-".into(), |nanos| format!("{:.2}", nanos / 1e6));
    let mut table = Table::new(
        "",
        [
            "flow",
            "sends",
            "class",
            "configured",
            ">promised at end",
            ">achieved (before)",
            ">jitter ms (before)",
            ">p99 ms (before)",
            "DSCP",
        ],
    )
    .optional(["DSCP", "jitter ms (before)", "configured", "sends", "promised at end"])
    .shorten("configured", 16)
    .shorten("class", 12);
    let beside = |now: String, before: String| format!("{now} ({before})");
    for row in rows {
        let class = if row.class_configured == row.class_at_end {
            row.class_at_end.clone()
        } else {
            format!("{} > {}", row.class_configured, row.class_at_end)
        };
        let dscps: Vec<_> = row.dscps_seen.iter().map(u8::to_string).collect();
        let nanos = |value: Option<u64>| ms(value.map(|value| value as f64));
        let row = [
            row.flow.clone(),
            row.demand.clone(),
            class,
            row.terms.clone(),
            row.promised_bps.map_or("-".into(), mbit),
            beside(mbit(row.achieved_bps), mbit(row.unshaped_bps)),
            beside(ms(row.jitter_ns), ms(row.unshaped_jitter_ns)),
            beside(nanos(row.delay_p99_ns), nanos(row.unshaped_delay_p99_ns)),
            if dscps.is_empty() { "-".into() } else { dscps.join(" ") },
        ];
        table.row(row.map(Into::into));
    }
    write!(out, "{}", table.text(width))?;
    let text = "Rates in Mbit/s of payload. `achieved` is the mean over the whole part, while promises came and went; `promised \
                at end` is what a flow may have then if all want everything, and what others leave is shared \
                on top: so a flow may have achieved more or less than that. Jitter is the mean deviation of the gaps between packets from their mean, p99 the \
                delay within which 99 % arrived; (before) is the unshaped part.";
    writeln!(out, "\n{}", wrapped(text, Some(width.unwrap_or(95))))?;
    let reordered: u64 = rows.iter().map(|row| row.packets_reordered).sum();
    writeln!(out, "Packets reordered within a flow: {reordered}.")?;
    Ok(())
}

/// Writes what the table means, for a terminal of `width` characters, or for a pipe.
pub fn print_verdict(out: &mut impl Write, verdict: &Verdict, width: Option<usize>) -> Result<(), Failure> {
    writeln!(out)?;
    for sentence in &verdict.text {
        writeln!(out, "{}", wrapped(sentence, Some(width.unwrap_or(95))))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::verdict::verdict;
    use super::*;

    #[test]
    fn it_fits_the_terminal() {
        let rows: Vec<Row> = plan::flows()
            .iter()
            .zip(1_u32..)
            .map(|(flow, n)| Row {
                flow: flow.spec.name.clone(),
                dscp: flow.spec.dscp,
                offered_bps: plan::offered(&flow.spec),
                demand: plan::demand(&flow.spec),
                class_configured: flow.class.into(),
                class_at_end: if n == 3 { "best effort" } else { flow.class }.into(),
                terms: flow.terms.into(),
                promised_bps: Some(2e6 * f64::from(n)),
                achieved_bps: 2.1e6 * f64::from(n),
                unshaped_bps: 9.97e6,
                jitter_ns: (n % 2 == 0).then_some(512_345.0),
                unshaped_jitter_ns: (n % 2 == 0).then_some(13_512_345.0),
                delay_p99_ns: (n % 2 == 0).then_some(2_512_345),
                unshaped_delay_p99_ns: (n % 2 == 0).then_some(113_512_345),
                packets_received: 1_000,
                packets_missing: 0,
                unshaped_packets_received: 860,
                unshaped_packets_missing: 140,
                packets_reordered: 0,
                shaper_drops: 12,
                dscps_seen: vec![0, 46],
            })
            .collect();
        tidegate_testbed::width::check("demo", |columns| {
            let mut out = Vec::new();
            print(&mut out, &rows, Some(columns.into())).unwrap();
            print_verdict(&mut out, &verdict(&rows, None), Some(columns.into())).unwrap();
            String::from_utf8(out).unwrap()
        });
    }
}

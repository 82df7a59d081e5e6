//! Compares shaper files of the user: the same real flows are sent through one after the other.

use std::io::Write;
use std::time::{Duration, Instant};

use serde::Serialize;
use tidegate_config::shaper::Config;
use tidegate_display::{Table, wrapped};
use tidegate_live::shaping::{Options, Shaping};
use tidegate_testbed::{FlowReport, FlowSpec, Pair, Senders, Sink, Transport};
use tidegate_units::{Bytes, Rate};

use super::progress;
use crate::Failure;

/// The fraction of each phase, at its beginning, that is not measured because TCP is still in slow start.
const WARM_UP: f64 = 0.25;

/// The result of one flow with one file.
#[derive(Clone, Debug, Serialize)]
struct Row {
    file: String,
    flow: String,
    achieved_bps: f64,
    delay_p50_ns: Option<u64>,
    delay_p99_ns: Option<u64>,
    packets_missing: u64,
}

/// The totals of the shaper with one file.
#[derive(Clone, Debug, Serialize)]
struct Total {
    file: String,
    achieved_bps: f64,
    dropped_packets: u64,
    marked_packets: u64,
    wait_p50_ns: u64,
    wait_p99_ns: u64,
}

/// Four bulk transfers, and a call that shows the delay.
fn flows() -> Vec<FlowSpec> {
    let mut flows: Vec<_> = (1..=4_u16).map(|n| FlowSpec::tcp(format!("transfer {n}"), 5_000 + n, 0)).collect();
    flows.push(FlowSpec::udp("call", 5_010, 0, Rate::from_kbit(64), Bytes::new(160)));
    flows
}

/// Runs the flows through each configuration, which is paired with the name of its file. All configurations together
/// take `seconds`.
///
/// # Errors
/// If namespaces cannot be created, or traffic cannot be sent or queued in them.
pub fn run(files: &[(String, Config)], seconds: u64, json: bool, width: Option<usize>) -> Result<(), Failure> {
    let way = tidegate_live::netns::enter().map_err(|error| Failure::Failed(error.to_string()))?;
    let pair = Pair::create().map_err(|error| Failure::Failed(format!("no laboratory can be made: {error}")))?;
    progress(format_args!("two hosts in namespaces of their own ({way:?}); four transfers and a call between them"));
    let length = Duration::from_secs(seconds) / files.len().max(1) as u32;
    let (mut rows, mut totals) = (Vec::new(), Vec::new());
    for (name, config) in files {
        progress(format_args!("{name}: {:.1} s", length.as_secs_f64()));
        run_configuration(&pair, name, config, length, &mut rows, &mut totals)?;
    }
    let mut out = std::io::stdout().lock();
    if json {
        let whole = serde_json::json!({ "version": env!("CARGO_PKG_VERSION"), "totals": totals, "flows": rows });
        writeln!(out, "{whole:#}")?;
    } else {
        print(&mut out, &rows, &totals, width)?;
    }
    Ok(())
}

fn run_configuration(
    pair: &Pair,
    name: &str,
    config: &Config,
    length: Duration,
    rows: &mut Vec<Row>,
    totals: &mut Vec<Total>,
) -> Result<(), Failure> {
    let failed = |what: &'static str| move |error: std::io::Error| Failure::Failed(format!("{what}: {error}"));
    let stopped = |error: tidegate_live::shaping::StartError| Failure::Failed(error.to_string());
    let options = Options { interfaces: vec![pair.sender.interface.into()], ..Options::default() };
    let shaping = pair
        .sender
        .namespace
        .run(|| Shaping::start(config, &options))
        .map_err(failed("cannot enter the laboratory"))?
        .map_err(|error| Failure::Failed(error.to_string()))?;
    let specs = flows();
    let sink = Sink::start(&pair.receiver, &specs).map_err(failed("cannot receive"))?;
    let senders = Senders::start(&pair.sender, &pair.receiver, &specs).map_err(failed("cannot send"))?;
    let start = Instant::now();
    std::thread::sleep(length.mul_f64(WARM_UP));
    sink.restart();
    std::thread::sleep(length.saturating_sub(start.elapsed()));
    sink.freeze();
    let elapsed = sink.elapsed().max(1) as f64;
    let reports: Vec<FlowReport> = (0..specs.len()).map(|n| sink.report(n)).collect();
    senders.stop();
    let status = shaping.status().map_err(stopped)?;
    shaping.stop().map_err(stopped)?;

    let mut achieved = 0.0;
    for (spec, report) in specs.iter().zip(&reports) {
        let rate = report.bytes as f64 * 8e9 / elapsed;
        achieved += rate;
        let datagrams = matches!(spec.transport, Transport::Udp { .. }) && !report.delays.is_empty();
        let delay = |part: f64| datagrams.then(|| report.delays.value_at_quantile(part));
        rows.push(Row {
            file: name.into(),
            flow: spec.name.clone(),
            achieved_bps: rate,
            delay_p50_ns: delay(0.5),
            delay_p99_ns: delay(0.99),
            packets_missing: report.missing,
        });
    }
    let waits = |part: f64| status.iter().map(|class| class.counts.waited_at(part).as_nanos()).max().unwrap_or(0);
    totals.push(Total {
        file: name.into(),
        achieved_bps: achieved,
        dropped_packets: status.iter().map(|class| class.counts.accounts.dropped_total().packets).sum(),
        marked_packets: status.iter().map(|class| class.counts.marked).sum(),
        wait_p50_ns: waits(0.5),
        wait_p99_ns: waits(0.99),
    });
    Ok(())
}

fn print(out: &mut impl Write, rows: &[Row], totals: &[Total], width: Option<usize>) -> Result<(), Failure> {
    let mbit = |rate: f64| format!("{:.2}", rate / 1e6);
    let ms = |nanos: u64| format!("{:.2}", nanos as f64 / 1e6);
    let maybe = |nanos: Option<u64>| nanos.map_or("-".into(), ms);
    let heads = ["file", "flow", ">Mbit/s", ">p50 ms", ">p99 ms", ">missing", ">dropped", ">marked"];
    let mut table = Table::new("", heads).optional(["marked", "missing", "p50 ms"]).shorten("file", 12);
    for total in totals {
        for row in rows.iter().filter(|row| row.file == total.file) {
            let row = [
                row.file.clone(),
                row.flow.clone(),
                mbit(row.achieved_bps),
                maybe(row.delay_p50_ns),
                maybe(row.delay_p99_ns),
                row.packets_missing.to_string(),
                String::new(),
                String::new(),
            ];
            table.row(row.map(Into::into));
        }
        let row = [
            total.file.clone(),
            "all, in the queue".into(),
            mbit(total.achieved_bps),
            ms(total.wait_p50_ns),
            ms(total.wait_p99_ns),
            String::new(),
            total.dropped_packets.to_string(),
            total.marked_packets.to_string(),
        ];
        table.row(row.map(Into::into));
    }
    write!(out, "{}", table.text(width))?;
    let text = "Rates of payload. p50 and p99: of the call the delay from sender to receiver, of all packets the time in the \
                shaper.";
    writeln!(out, "\n{}", wrapped(text, Some(width.unwrap_or(95))))?;
    Ok(())
}

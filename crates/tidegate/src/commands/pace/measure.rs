//! The distributions, as text and as JSON.

use std::io::{self, Write};

use serde::Serialize;
use tidegate_metrics::Quantiles;
use tidegate_pace::Report;
use tidegate_units::Span;

#[derive(Serialize)]
struct Json {
    packets: u64,
    bytes: u64,
    elapsed_ns: u64,
    rate_bps: f64,
    reference_bps: f64,
    rate_error_ppm: f64,
    lost_in_socket_packets: Option<u64>,
    gap_ns: JsonQuantiles,
    gap_error_ns: JsonQuantiles,
    windows: Vec<JsonWindow>,
}

#[derive(Serialize)]
struct JsonQuantiles {
    count: u64,
    min: u64,
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

#[derive(Serialize)]
struct JsonWindow {
    length_ns: u64,
    one_packet_ppm: f64,
    error_ppm: JsonQuantiles,
}

impl From<Quantiles> for JsonQuantiles {
    fn from(q: Quantiles) -> Self {
        let Quantiles { count, min, mean, p50, p90, p99, p999, max } = q;
        Self { count, min, mean, p50, p90, p99, p999, max }
    }
}

/// Writes `report` as one JSON object.
pub fn json(out: &mut dyn Write, report: &Report, lost: Option<u64>) -> io::Result<()> {
    let windows = report.windows.iter().map(|window| JsonWindow {
        length_ns: window.length.as_nanos(),
        one_packet_ppm: window.one_packet_ppm,
        error_ppm: window.error_ppm.into(),
    });
    let json = Json {
        packets: report.packets,
        bytes: report.bytes.as_u64(),
        elapsed_ns: report.elapsed.as_nanos(),
        rate_bps: report.rate_bps,
        reference_bps: report.reference_bps,
        rate_error_ppm: report.rate_error_ppm,
        lost_in_socket_packets: lost,
        gap_ns: report.gap_ns.into(),
        gap_error_ns: report.gap_error_ns.into(),
        windows: windows.collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &json).map_err(io::Error::from)?;
    writeln!(out)
}

/// Writes `report` as text.
pub fn text(out: &mut dyn Write, report: &Report, lost: Option<u64>) -> io::Result<()> {
    writeln!(
        out,
        "{} packets, {} in {}: {} (asked {}, {:+.4} %)",
        report.packets,
        size(report.bytes.as_u64()),
        time(report.elapsed),
        rate(report.rate_bps),
        rate(report.reference_bps),
        report.rate_error_ppm / 1e4,
    )?;
    if let Some(lost) = lost.filter(|lost| *lost > 0) {
        writeln!(out, "{lost} packets lost in the receiving socket: this machine was too slow to take them")?;
    }
    let row = |out: &mut dyn Write, name: &str, q: &Quantiles, show: &dyn Fn(u64) -> String| {
        write!(out, "{name:24}")?;
        for value in [q.min, q.p50, q.p90, q.p99, q.p999, q.max] {
            write!(out, " {:>10}", show(value))?;
        }
        writeln!(out)
    };
    write!(out, "{:24}", "")?;
    for head in ["min", "p50", "p90", "p99", "p99.9", "max"] {
        write!(out, " {head:>10}")?;
    }
    writeln!(out)?;
    let span = |nanos| time(Span::from_nanos(nanos));
    row(out, "gap", &report.gap_ns, &span)?;
    row(out, "gap error", &report.gap_error_ns, &span)?;
    for window in &report.windows {
        if window.error_ppm.count > 0 {
            let name = format!("rate error in {}", time(window.length));
            row(out, &name, &window.error_ppm, &|ppm| format!("{:.3} %", ppm as f64 / 1e4))?;
        }
    }
    if let Some(window) = report.windows.iter().find(|window| window.error_ppm.count > 0) {
        let share = window.one_packet_ppm / 1e4;
        writeln!(
            out,
            "(one packet is {share:.3} % of {}: no pacing of whole packets is more accurate)",
            time(window.length)
        )?;
    }
    Ok(())
}

/// A rate with four digits, in a suitable unit.
pub fn rate(bps: f64) -> String {
    scaled(bps, &[(1e9, "gbit"), (1e6, "mbit"), (1e3, "kbit"), (1.0, "bit")])
}

/// A size with four digits.
pub fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    scaled(bytes as f64, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB")])
}

/// A time with four digits.
pub fn time(span: Span) -> String {
    scaled(span.as_nanos() as f64, &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")])
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let (scale, unit) = units.iter().find(|(scale, _)| value >= *scale).unwrap_or(&units[units.len() - 1]);
    let value = value / scale;
    let digits = if value >= 1000.0 || value.fract() == 0.0 {
        0
    } else if value >= 100.0 {
        1
    } else if value >= 10.0 {
        2
    } else {
        3
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(rate(10_000_000.0), "10 mbit");
        assert_eq!(rate(9_999_600.0), "10.00 mbit".replace("10.00", "10.000"));
        assert_eq!(size(999), "999 B");
        assert_eq!(size(123_456_789), "123.5 MB");
        assert_eq!(time(Span::from_nanos(1_120_000)), "1.120 ms");
        assert_eq!(time(Span::ZERO), "0 ns");
    }
}

//! The progress line on standard error.

use std::io::{self, IsTerminal, Write};

use tidegate_units::{Bytes, Instant, Span};

use super::measure;

/// Shows progress: on a terminal one line that is updated, otherwise one line per second if requested.
#[derive(Debug)]
pub struct Progress {
    mode: Mode,
    next: Instant,
    before: (Instant, u64),
    shown: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Off,
    Line,
    Lines,
}

/// The values to show.
#[derive(Debug, Clone, Copy)]
pub struct View {
    pub bytes: u64,
    pub total: Option<Bytes>,
    pub rate_bps: u64,
    pub paused: bool,
    pub gap_p50: Span,
    pub gap_p99: Span,
    pub dropped: u64,
}

impl Progress {
    pub fn new(asked: bool, quiet: bool, now: Instant) -> Self {
        let mode = match (io::stderr().is_terminal(), asked, quiet) {
            (_, _, true) | (false, false, _) => Mode::Off,
            (true, _, _) => Mode::Line,
            (false, true, _) => Mode::Lines,
        };
        Self { mode, next: now + Self::interval(mode), before: (now, 0), shown: false }
    }
    fn interval(mode: Mode) -> Span {
        if mode == Mode::Line { Span::from_millis(250) } else { Span::from_secs(1) }
    }
    /// Whether an update is due.
    pub fn is_due(&self, now: Instant) -> bool {
        self.mode != Mode::Off && now >= self.next
    }
    pub fn show(&mut self, now: Instant, view: &View) {
        let text = line(view, now.since(self.before.0), view.bytes - self.before.1);
        self.before = (now, view.bytes);
        self.next = now + Self::interval(self.mode);
        self.shown = true;
        // An error on standard error does not stop the transfer.
        let _ = match self.mode {
            Mode::Off => Ok(()),
            Mode::Line => write!(io::stderr(), "\r{text}\x1b[K"),
            Mode::Lines => writeln!(io::stderr(), "{text}"),
        };
    }
    /// Shows the totals, and leaves that line.
    pub fn conclude(&mut self, start: Instant, now: Instant, view: &View) {
        if self.mode != Mode::Off {
            self.before = (start, 0);
            self.show(now, view);
            self.end();
        }
    }
    /// Leaves the line as it is and starts a new one.
    pub fn end(&mut self) {
        if self.mode == Mode::Line && self.shown {
            let _ = writeln!(io::stderr());
        }
        self.shown = false;
    }
}

fn line(view: &View, elapsed: Span, bytes: u64) -> String {
    let bps = if elapsed.is_zero() { 0.0 } else { bytes as f64 * 8.0 / elapsed.as_secs_f64() };
    let mut text = measure::size(view.bytes);
    if let Some(total) = view.total {
        let share = if total == Bytes::ZERO { 100.0 } else { view.bytes as f64 * 100.0 / total.as_u64() as f64 };
        text += &format!(" of {} ({share:.1} %)", measure::size(total.as_u64()));
    }
    text += &format!("  {} (asked {})", measure::rate(bps), measure::rate(view.rate_bps as f64));
    if view.paused {
        text += "  paused";
    } else if let Some(total) = view.total
        && view.rate_bps > 0
    {
        let remaining = total.as_u64().saturating_sub(view.bytes) as f64 * 8.0 / view.rate_bps as f64;
        text += &format!("  ETA {}", clock(remaining.ceil() as u64));
    }
    if !view.gap_p99.is_zero() {
        text += &format!("  gap p50 {} p99 {}", measure::time(view.gap_p50), measure::time(view.gap_p99));
    }
    if view.dropped > 0 {
        text += &format!("  {} dropped", view.dropped);
    }
    text
}

fn clock(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line() {
        let view = View {
            bytes: 5_000_000,
            total: Some(Bytes::new(20_000_000)),
            rate_bps: 16_000_000,
            paused: false,
            gap_p50: Span::from_micros(2_000),
            gap_p99: Span::from_micros(2_100),
            dropped: 0,
        };
        // 15 MB at 2 MB/s: 7.5 s, so 8.
        assert_eq!(
            line(&view, Span::from_secs(1), 2_000_000),
            "5 MB of 20 MB (25.0 %)  16 mbit (asked 16 mbit)  ETA 0:08  gap p50 2 ms p99 2.100 ms"
        );
        assert!(line(&View { paused: true, ..view }, Span::from_secs(1), 0).contains("paused"));
        assert_eq!(clock(3_725), "1:02:05");
    }
}

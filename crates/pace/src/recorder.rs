//! The gap recorder: measures the output, so that claims can be verified.
//!
//! *Units*: gaps in ns; windowed rates as error in millionths of the reference rate.
//! *Cost*: O(1) per packet; 8 bytes for each window recorded, at most [`Recorder::MOST_WINDOWS`] of each length.
//! *Notes*: the expected gap is the time that the packet before it takes at the reference rate. A window contains
//! whole packets, so its error is at least the fraction of one packet; [`WindowReport::one_packet_ppm`] reports it.

use tidegate_metrics::{Histogram, Quantiles};
use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

/// Records packets. See the [module](self).
#[derive(Clone, Debug)]
pub struct Recorder {
    rate: Option<Rate>,
    first: Option<(Instant, Bytes)>,
    last: (Instant, Bytes),
    packets: u64,
    bytes: Bytes,
    gaps: Histogram,
    errors: Histogram,
    windows: [Windows; 3],
}

#[derive(Clone, Debug)]
struct Windows {
    length: Span,
    current: u64,
    filling: Bytes,
    full: Vec<u64>,
}

/// The measurements of a [`Recorder`].
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: Bytes,
    /// From the first packet to the last.
    pub elapsed: Span,
    /// The average rate in bit/s: all bytes but the last packet's, over the elapsed time.
    pub rate_bps: f64,
    /// The reference of errors: the requested rate, or the average if there is none.
    pub reference_bps: f64,
    /// The error of the average rate in millionths of the reference; zero when that is the average itself.
    pub rate_error_ppm: f64,
    /// Gaps between packets, in ns.
    pub gap_ns: Quantiles,
    /// The absolute error of gaps, in ns.
    pub gap_error_ns: Quantiles,
    /// The error of the rate over windows.
    pub windows: Vec<WindowReport>,
}

/// The error of the rate over windows of one length.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WindowReport {
    /// The length of a window.
    pub length: Span,
    /// The absolute error of the rate in millionths; `count` is the number of windows.
    pub error_ppm: Quantiles,
    /// The fraction of one packet of average size in a window, in millionths: about the smallest error of pacing
    /// whole packets.
    pub one_packet_ppm: f64,
}

impl Recorder {
    /// The most windows of one length that are stored: about three hours of the shortest.
    pub const MOST_WINDOWS: usize = 1 << 20;
    /// The lengths of the windows.
    pub const LENGTHS: [Span; 3] = [Span::from_millis(10), Span::from_millis(100), Span::from_secs(1)];

    /// Returns an empty recorder. Errors are relative to `rate`, or to the average with `None`.
    pub fn new(rate: Option<Rate>) -> Self {
        Self {
            rate: rate.filter(|rate| !rate.is_zero()),
            first: None,
            last: (Instant::ZERO, Bytes::ZERO),
            packets: 0,
            bytes: Bytes::ZERO,
            gaps: Histogram::default(),
            errors: Histogram::default(),
            windows: Self::LENGTHS.map(|length| Windows { length, current: 0, filling: Bytes::ZERO, full: Vec::new() }),
        }
    }
    /// Records a packet of `size` at `now`. Instants that run back count as gaps of zero.
    pub fn record(&mut self, now: Instant, size: Bytes) {
        let (first, _) = *self.first.get_or_insert((now, size));
        if self.packets > 0 {
            let gap = now.since(self.last.0).as_nanos();
            self.gaps.record(gap);
            if let Some(expected) = self.rate.and_then(|rate| rate.time_for_ceil(self.last.1)) {
                self.errors.record(gap.abs_diff(expected.as_nanos()));
            }
        }
        let now = now.max(self.last.0);
        for windows in &mut self.windows {
            windows.add(now.since(first), size);
        }
        self.packets += 1;
        self.bytes += size;
        self.last = (now, size);
    }
    /// Sets the requested rate from now on; measurements are kept.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = Some(rate).filter(|rate| !rate.is_zero());
    }
    /// The number of packets.
    pub fn packets(&self) -> u64 {
        self.packets
    }
    /// The number of bytes.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }
    /// A quantile of the gaps.
    pub fn gap(&self, permille: u64) -> Span {
        Span::from_nanos(self.gaps.quantile(permille as f64 / 1_000.0).unwrap_or(0))
    }
    /// The measurements.
    pub fn report(&self) -> Report {
        let elapsed = self.first.map_or(Span::ZERO, |(first, _)| self.last.0.since(first));
        let paid = Credit::of(self.bytes - self.last.1).as_raw() as f64;
        let rate_bps = if elapsed.is_zero() { 0.0 } else { paid / elapsed.as_nanos() as f64 };
        let reference_bps = self.rate.map_or(rate_bps, |rate| rate.as_bps() as f64);
        let ppm = |value: f64, of: f64| if of == 0.0 { 0.0 } else { (value / of - 1.0) * 1e6 };
        let mean_gap = self.gaps.mean().unwrap_or(0.0);
        let errors = match self.rate {
            Some(_) => self.errors.quantiles(),
            None => self.gaps.map(|gap| (gap as f64 - mean_gap).abs() as u64).quantiles(),
        };
        let windows = self.windows.iter().map(|windows| windows.report(reference_bps, self.mean_size())).collect();
        Report {
            packets: self.packets,
            bytes: self.bytes,
            elapsed,
            rate_bps,
            reference_bps,
            rate_error_ppm: ppm(rate_bps, reference_bps),
            gap_ns: self.gaps.quantiles(),
            gap_error_ns: errors,
            windows,
        }
    }
    fn mean_size(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { self.bytes.as_u64() as f64 / self.packets as f64 }
    }
}

impl Windows {
    fn add(&mut self, at: Span, size: Bytes) {
        let index = at.as_nanos() / self.length.as_nanos();
        while self.current < index && self.full.len() < Recorder::MOST_WINDOWS {
            self.full.push(self.filling.as_u64());
            self.filling = Bytes::ZERO;
            self.current += 1;
        }
        self.filling += size;
    }
    fn report(&self, reference_bps: f64, mean_size: f64) -> WindowReport {
        let expected = reference_bps * self.length.as_secs_f64() / 8.0;
        let mut errors = Histogram::default();
        for bytes in &self.full {
            let error = if expected == 0.0 { 0.0 } else { (*bytes as f64 - expected).abs() / expected * 1e6 };
            errors.record(error as u64);
        }
        let one_packet_ppm = if expected == 0.0 { 0.0 } else { mean_size / expected * 1e6 };
        WindowReport { length: self.length, error_ppm: errors.quantiles(), one_packet_ppm }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perfect_sender_has_no_error() {
        let mut recorder = Recorder::new(Some(Rate::from_mbit(8)));
        for k in 0..=3000 {
            recorder.record(Instant::from_nanos(k * 1_000_000), Bytes::new(1000));
        }
        let report = recorder.report();
        assert_eq!((report.packets, report.elapsed), (3001, Span::from_secs(3)));
        assert!((report.rate_bps - 8e6).abs() < 1e-3 && report.rate_error_ppm.abs() < 1e-6);
        assert_eq!((report.gap_error_ns.max, report.gap_ns.min, report.gap_ns.max), (0, 1_000_000, 1_000_000));
        assert_eq!(report.windows.map_counts(), [300, 30, 3]);
        assert!(report.windows.iter().all(|window| window.error_ppm.max == 0));
        // 1000 B of the 10,000 B of a 10 ms window.
        assert!((report.windows[0].one_packet_ppm - 100_000.0).abs() < 1e-6);
    }

    trait Counts {
        fn map_counts(&self) -> [u64; 3];
    }
    impl Counts for Vec<WindowReport> {
        fn map_counts(&self) -> [u64; 3] {
            [self[0].error_ppm.count, self[1].error_ppm.count, self[2].error_ppm.count]
        }
    }

    #[test]
    fn a_burst_shows_in_gaps_and_windows() {
        // Two packets back to back every 2 ms: half of the gaps are 1 ms too short, half 1 ms too long.
        let mut recorder = Recorder::new(Some(Rate::from_mbit(8)));
        for k in 0..1000 {
            recorder.record(Instant::from_nanos(k * 2_000_000), Bytes::new(1000));
            recorder.record(Instant::from_nanos(k * 2_000_000), Bytes::new(1000));
        }
        let report = recorder.report();
        assert_eq!((report.gap_error_ns.p50, report.gap_error_ns.max), (1_000_000, 1_000_000));
        assert_eq!(report.windows[0].error_ppm.max, 0, "ten packets in each 10 ms");
        // Without a rate, the reference is the average: 1999 packets in 1.998 s.
        let mut blind = Recorder::new(None);
        for k in 0..100 {
            blind.record(Instant::from_nanos(k * 1_000_000), Bytes::new(1000));
        }
        assert!(blind.report().gap_error_ns.max <= 1_000_000 / 64 && blind.report().rate_error_ppm == 0.0);
    }

    #[test]
    fn a_silence_is_a_row_of_empty_windows() {
        let mut recorder = Recorder::new(Some(Rate::from_mbit(8)));
        recorder.record(Instant::ZERO, Bytes::new(1000));
        recorder.record(Instant::from_nanos(50_000_000), Bytes::new(1000));
        let report = recorder.report();
        assert_eq!(report.windows[0].error_ppm.count, 5);
        // One window with 1000 B of 10,000, four with none.
        assert_eq!((report.windows[0].error_ppm.p50, report.windows[0].error_ppm.max), (1_000_000, 1_000_000));
    }
}

//! A video player whose bit rate follows its buffer.
//!
//! *Law*: a segment is requested when the previous one has arrived and the buffer has room for it. Its rate is the
//! lowest of the ladder while the buffer is within the reservoir, and the highest above reservoir and cushion. In
//! between it follows a line from one to the other, with a hysteresis of one step. A player that is told a rate requests
//! the highest that is not above the lowest one of a monitoring period instead, and the lowest while less than a segment is left.
//! *Source*: Huang, Johari, McKeown, Trunnell, Watson, "A buffer-based approach to rate adaptation", SIGCOMM 2014:
//! algorithm 1 (BBA-0). draft-ietf-scone-protocol, *Following Throughput Advice*.
//! *Units*: buffer levels are in nanoseconds of video.

use tidegate_core::Rate;
use tidegate_engine::advice::PERIOD;

use crate::workload::Video;

/// A player. Times are in nanoseconds from any moment on.
#[derive(Clone, Debug)]
pub struct Player {
    /// The length of a segment, the reservoir, reservoir plus cushion, the capacity of the buffer, and the level at
    /// which playback begins.
    segment: u64,
    reservoir: u64,
    full_rate: u64,
    most: u64,
    start: u64,
    warm_up: u64,
    ladder: Vec<Rate>,
    step: usize,
    buffer: u64,
    playing: bool,
    begun: u64,
    at: u64,
    started: bool,
    /// The rates that it was told, with their times, both rising: the first that still holds is the lowest.
    told: Vec<(u64, Rate)>,
    result: Playback,
}

/// The quality of a video as its viewer experienced it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Playback {
    /// The time from the first request to the first picture; `None` if there was no picture or it was shown during the
    /// warm-up.
    pub startup_ns: Option<u64>,
    /// The playing time.
    pub played_ns: u64,
    /// The time of stalls with an empty buffer, after the first picture.
    pub stalled_ns: u64,
    /// The number of stalls.
    pub stalls: u64,
    /// Segments that arrived.
    pub segments: u64,
    /// How often the rate changed from one segment to the next.
    pub switches: u64,
    /// The sum of the rates of all segments, in bit/s.
    pub rates: u128,
}

impl Playback {
    /// The mean rate of the segments, in bit/s.
    pub fn mean_rate(&self) -> f64 {
        self.rates as f64 / self.segments.max(1) as f64
    }
}

impl Player {
    /// A player that begins at `now`; its quality counts from `warm_up` on.
    pub fn new(video: &Video, now: u64, warm_up: u64) -> Self {
        Self {
            segment: video.segment.as_nanos(),
            reservoir: video.reservoir.as_nanos(),
            full_rate: (video.reservoir + video.cushion).as_nanos(),
            most: video.buffer.as_nanos(),
            start: video.start.as_nanos(),
            warm_up,
            ladder: video.ladder.clone(),
            step: 0,
            buffer: 0,
            playing: false,
            begun: now,
            at: now,
            started: false,
            told: Vec::new(),
            result: Playback::default(),
        }
    }

    /// Plays until `now`.
    fn play(&mut self, now: u64) {
        let measured = |from: u64, to: u64| to.max(self.warm_up) - from.max(self.warm_up);
        let mut stands = self.at;
        if self.playing {
            stands = now.min(self.at + self.buffer);
            self.result.played_ns += measured(self.at, stands);
            self.buffer -= stands - self.at;
            if stands < now {
                self.playing = false;
                self.result.stalls += u64::from(stands >= self.warm_up);
            }
        }
        if self.started {
            self.result.stalled_ns += measured(stands, now);
        }
        self.at = now;
    }

    /// A rate is advised to it.
    pub fn told(&mut self, now: u64, rate: Rate) {
        // Rates that are not lower than a later one never count again, and neither do those of an earlier period.
        self.told.retain(|(told, earlier)| *earlier < rate && now.saturating_sub(*told) < PERIOD.as_nanos());
        self.told.push((now, rate));
    }

    /// The lowest rate that it was told within a monitoring period.
    fn advice(&self) -> Option<Rate> {
        let lasts = |(told, _): &&(u64, Rate)| self.at.saturating_sub(*told) < PERIOD.as_nanos();
        self.told.iter().find(lasts).map(|(_, rate)| *rate)
    }

    /// Chooses the rate of the next segment and returns its size in bytes.
    pub fn request(&mut self, now: u64) -> u64 {
        self.play(now);
        let before = self.step;
        self.step = self.choose();
        if self.result.segments > 0 && now >= self.warm_up {
            self.result.switches += u64::from(self.step != before);
        }
        let bits = u128::from(self.ladder[self.step].as_bps()) * u128::from(self.segment) / 1_000_000_000;
        (bits / 8).max(1) as u64
    }

    /// The step of the ladder for the next segment: by the advice, or by algorithm 1.
    fn choose(&self) -> usize {
        let top = self.ladder.len() - 1;
        if let Some(rate) = self.advice() {
            let stalls = self.started && self.buffer < self.segment;
            return if stalls { 0 } else { self.ladder.partition_point(|step| *step <= rate).saturating_sub(1) };
        }
        if self.buffer <= self.reservoir {
            return 0;
        }
        if self.buffer >= self.full_rate {
            return top;
        }
        let bps = |step: usize| u128::from(self.ladder[step].as_bps());
        // The rate on the line, multiplied by the cushion to stay in whole numbers.
        let cushion = u128::from(self.full_rate - self.reservoir);
        let line = bps(0) * cushion + (bps(top) - bps(0)) * u128::from(self.buffer - self.reservoir);
        if line >= bps((self.step + 1).min(top)) * cushion {
            (0..=top).rev().find(|&step| bps(step) * cushion < line).unwrap_or(0)
        } else if line <= bps(self.step.saturating_sub(1)) * cushion {
            (0..=top).find(|&step| bps(step) * cushion > line).unwrap_or(top)
        } else {
            self.step
        }
    }

    /// Adds a segment that arrived at `now`. Returns after how many nanoseconds there is room for the next one.
    pub fn take(&mut self, now: u64) -> u64 {
        self.play(now);
        self.buffer += self.segment;
        if now >= self.warm_up {
            self.result.segments += 1;
            self.result.rates += u128::from(self.ladder[self.step].as_bps());
        }
        if !self.playing && self.buffer >= self.start {
            if !self.started && now >= self.warm_up {
                self.result.startup_ns = Some(now - self.begun);
            }
            (self.playing, self.started) = (true, true);
        }
        (self.buffer + self.segment).saturating_sub(self.most)
    }

    /// The quality until `now`.
    pub fn result(&self, now: u64) -> Playback {
        let mut player = self.clone();
        player.play(now);
        player.result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Span;

    /// The published settings: a buffer of 240 s, a reservoir of 90 s, the full rate at 216 s, segments of 4 s.
    fn player() -> Player {
        let ladder = [235, 375, 560, 750, 1050, 1750, 2350, 3000, 3850, 4300].map(Rate::from_kbit).to_vec();
        Player::new(&Video { ladder, ..Video::default() }, 0, 0)
    }

    #[test]
    fn the_rate_follows_the_buffer_as_published() {
        let at = |seconds: u64, step: usize| {
            let mut player = player();
            (player.buffer, player.step) = (seconds * 1_000_000_000, step);
            player.choose()
        };
        assert_eq!([at(0, 9), at(90, 5), at(216, 0), at(240, 3)], [0, 0, 9, 9]);
        // At 153 s the line is half way from 235 to 4,300 kbit/s, 2,267.5: from below to the highest rate under it,
        // from above to the lowest over it, and a rate whose neighbours lie on both sides of it stays.
        assert_eq!([at(153, 0), at(153, 9), at(153, 5), at(153, 6)], [5, 6, 5, 6]);
    }

    #[test]
    fn the_lowest_advice_of_a_period_is_followed() {
        let second = 1_000_000_000;
        let mut player = player();
        let mut at = |time: u64, told: Option<u64>, buffer: u64| {
            (player.at, player.started, player.buffer) = (time * second, true, buffer * second);
            if let Some(kbit) = told {
                player.told(time * second, Rate::from_kbit(kbit));
            }
            player.choose()
        };
        // 2,350 kbit/s is step 6, 1,050 is step 4; the buffer alone would choose the lowest.
        assert_eq!([at(1, Some(2_400), 8), at(10, Some(1_050), 8), at(20, Some(5_000), 8)], [6, 4, 4]);
        // The advice of 10 s holds until 77 s; then the next lowest, of 20 s, until 87 s; then the buffer decides.
        assert_eq!([at(76, None, 8), at(77, None, 8), at(86, None, 8), at(87, None, 8)], [4, 9, 9, 0]);
        assert_eq!([at(88, Some(2_400), 3), at(88, None, 4), at(88, Some(100), 8)], [0, 6, 0]);
    }

    #[test]
    fn time_is_played_or_stalled() {
        let mut player = player();
        let second = 1_000_000_000;
        player.request(0);
        assert_eq!(player.take(2 * second), 0);
        // 4 s of video from 2 s on, the next segment at 9 s: it stands still from 6 s to 9 s.
        player.request(2 * second);
        player.take(9 * second);
        let result = player.result(11 * second);
        assert_eq!(result.startup_ns, Some(2 * second));
        assert_eq!((result.played_ns, result.stalled_ns, result.stalls), (6 * second, 3 * second, 1));
        assert_eq!(result.segments, 2);
        // A full buffer waits until there is room.
        player.buffer = 238 * second;
        player.at = 11 * second;
        assert_eq!(player.take(11 * second), 6 * second);
        assert_eq!(Span::from_nanos(player.most), Span::from_secs(240));
    }
}

//! One direction of the line: its allowed rate, and the step that changes it.

use tidegate_units::{Bytes, Instant, Rate, Span};

use crate::controller::{Bounds, Cause, Decision, Side};

/// Below this the line has no queue worth the name: the noise of schedulers and timers.
const LOW: u64 = 3_000_000;
/// The queue at which a saturated line is held. Less would leave the line idle between two packets.
const TARGET: u64 = 8_000_000;
/// A queue that needs an explanation even if neither direction has reached its allowed rate.
pub(crate) const HIGH: u64 = 15_000_000;
/// A rate falls by at most this part in a step, in thousandths.
const DEEPEST: i64 = 750;
/// The smallest step upwards, one part of 64; also the largest while there is a queue.
const GENTLE: u64 = 64;
/// A queue that has not been empty for this long is drained once, so that the floor of round trips stays known.
const UNDRAINED: Span = Span::from_secs(8);
/// How long it is drained.
const DRAIN: Span = Span::from_millis(500);
/// A direction that has been idle for this long returns to the base.
const IDLE: Span = Span::from_secs(10);
/// A full packet of most lines, in bits.
const PACKET: u64 = 12_000;
/// Rates of the past, to compare a round trip with the rate at which its packets were sent.
const PAST: usize = 8;

/// The measurements at a step of the controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// The delay above the floor in this direction, in ns, where known.
    pub delay: Option<u64>,
    /// For how long a peer has owed an answer, in ns.
    pub overdue: Option<u64>,
    /// Whether all signals are lost.
    pub blind: bool,
    /// The least round trip in ns.
    pub floor: u64,
    /// Whether the direction is to answer for a queue although it has not reached its rate.
    pub blamed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    side: Side,
    pub bounds: Bounds,
    pub allowed: u64,
    /// The estimate of the line's rate.
    capacity: u64,
    /// The best rate of the recent past; it is forgotten within a minute.
    best: u64,
    /// Bytes since the last step, and whether packets waited in the shaper.
    bytes: u64,
    waiting: bool,
    since: Instant,
    pub achieved: u64,
    past: [(Instant, u64); PAST],
    steps: usize,
    /// The delay at the last step.
    pub delay: Option<u64>,
    /// Steps since there was a queue.
    quiet: u32,
    emptied: Instant,
    draining: Option<Instant>,
    active: Instant,
    pub last: Decision,
}

fn bps(rate: Rate) -> u64 {
    rate.as_bps()
}
fn part(value: u64, of: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(of) / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

impl Line {
    pub fn new(side: Side, bounds: Bounds, now: Instant) -> Self {
        let bounds = bounds.ordered();
        let allowed = bps(bounds.base);
        let last = Decision {
            at: now,
            side,
            from: bounds.base,
            to: bounds.base,
            cause: Cause::Start,
            achieved: Rate::ZERO,
            delay: None,
            peers: 0,
        };
        Self {
            side,
            bounds,
            allowed,
            capacity: allowed,
            best: 0,
            bytes: 0,
            waiting: false,
            since: now,
            achieved: 0,
            past: [(now, 0); PAST],
            steps: 0,
            delay: None,
            quiet: 0,
            emptied: now,
            draining: None,
            active: now,
            last,
        }
    }

    pub fn carried(&mut self, bytes: Bytes, waiting: bool) {
        self.bytes = self.bytes.saturating_add(bytes.as_u64());
        self.waiting |= waiting;
    }
    pub fn age(&self, now: Instant) -> Span {
        now.since(self.since)
    }
    /// The rate since the last step.
    pub fn present(&self, now: Instant) -> u64 {
        part(self.bytes.saturating_mul(8), 1_000_000_000, now.since(self.since).as_nanos())
    }
    /// Whether the allowed rate limits the traffic, or nearly so.
    pub fn loaded(&self, now: Instant) -> bool {
        self.waiting || self.present(now) >= self.allowed / 4 * 3
    }

    /// Decides. The caller sees to it that steps are far enough apart.
    pub fn step(&mut self, now: Instant, reading: Reading, peers: usize) -> Option<Decision> {
        let (loaded, time) = (self.loaded(now) || reading.blamed, now.since(self.since).as_nanos());
        self.achieved = self.present(now);
        self.best = (self.best - self.best / 512).max(self.achieved);
        if reading.delay.is_some_and(|delay| delay < LOW / 2 + self.packet()) || !loaded {
            self.emptied = now;
        }
        if self.achieved >= self.allowed / 8 {
            self.active = now;
        }
        let (to, cause) = match reading {
            Reading { blind: true, .. } if loaded => (bps(self.bounds.base), Cause::Blind),
            _ if !loaded => self.rest(now),
            Reading { overdue: Some(overdue), floor, .. } => self.fall(overdue, floor),
            Reading { delay: None, .. } => (self.allowed, Cause::Delay),
            Reading { delay: Some(delay), .. } if delay < LOW + self.packet() => self.grow(time),
            Reading { delay: Some(delay), floor, .. } => self.follow(now, delay, floor, time),
        };
        let (to, cause) = self.drain(now, to, cause, loaded && !reading.blind);
        self.past[self.steps % PAST] = (now, self.achieved);
        self.steps += 1;
        self.delay = reading.delay;
        (self.bytes, self.waiting, self.since) = (0, false, now);
        let to = to.clamp(bps(self.bounds.least), bps(self.bounds.most));
        // A change of less than one part in 256 is not worth the work.
        let small = to.abs_diff(self.allowed) <= self.allowed / 256;
        if to == self.allowed || small && !matches!(cause, Cause::Blind) && to != bps(self.bounds.least) {
            return None;
        }
        let decision = Decision {
            at: now,
            side: self.side,
            from: Rate::from_bps(self.allowed),
            to: Rate::from_bps(to),
            cause,
            achieved: Rate::from_bps(self.achieved),
            delay: reading.delay.or(reading.overdue).map(Span::from_nanos),
            peers,
        };
        (self.allowed, self.last) = (to, decision);
        Some(decision)
    }

    /// The time of a packet: it waits for the one before it.
    fn packet(&self) -> u64 {
        (PACKET * 1_000_000_000 / self.allowed.max(1)).min(100_000_000)
    }

    /// No queue at a saturated rate: upwards, faster the longer it lasts, and fastest far below the best known rate.
    fn grow(&mut self, time: u64) -> (u64, Cause) {
        self.capacity = self.capacity.max(self.achieved);
        // A rate that the traffic does not reach tells nothing about the line, and must not run away from what the line carries: at
        // four thirds of it the direction would not count as loaded when the line is full. A packet more may have been under way.
        if self.achieved.saturating_add(part(PACKET, 1_000_000_000, time)) < self.allowed / 8 * 7 {
            return (self.allowed, Cause::Quiet);
        }
        let step = match self.allowed < self.best / 2 {
            true => self.allowed / 4,
            false => self.allowed / (GENTLE >> (self.quiet / 2).min(3)),
        };
        self.quiet = self.quiet.saturating_add(1);
        (self.allowed.saturating_add(step.max(1)), Cause::Quiet)
    }

    /// A queue: its growth shows the rate of the line, and its length what has to be left free to drain it.
    fn follow(&mut self, now: Instant, delay: u64, floor: u64, time: u64) -> (u64, Cause) {
        self.quiet = 0;
        let line = match self.side {
            // While packets wait before it, what arrives is what the line carries.
            Side::Down => self.achieved,
            // What was sent one round trip ago, less what has been added to the queue.
            Side::Up => {
                let growth = i128::from(delay) - i128::from(self.delay.unwrap_or(0));
                let time = i128::from(time.max(1));
                let growth = growth.clamp(-time / 2, 3 * time);
                let sent = self.sent_at(now.saturating_sub(Span::from_nanos(floor + delay)));
                u64::try_from(i128::from(sent) * time / (time + growth)).unwrap_or(u64::MAX)
            }
        };
        self.capacity = match line < self.capacity {
            true if delay >= HIGH => line,
            true => self.capacity / 2 + line / 2,
            false => self.capacity / 4 * 3 + line / 4,
        };
        // What the line was once is no aim any more.
        self.best = self.best - self.best.saturating_sub(self.capacity) / 32;
        let horizon = horizon(floor);
        let change = ((TARGET + self.packet()) as i64 - delay.min(1 << 40) as i64) * 1_000 / horizon as i64;
        let change = change.clamp(-DEEPEST, 1_000 / GENTLE as i64);
        let to = part(self.capacity, (1_000 + change) as u64, 1_000);
        let to = to.min(self.allowed.saturating_add(self.allowed / GENTLE));
        (to, Cause::Delay)
    }

    /// Peers that have answered until now are silent under load: the line stands still, or nearly so.
    fn fall(&mut self, overdue: u64, floor: u64) -> (u64, Cause) {
        self.quiet = 0;
        let change = (overdue.min(1 << 40) * 1_000 / horizon(floor)).min(500);
        let to = part(self.allowed, 1_000 - change, 1_000);
        self.capacity = self.capacity.min(to);
        (to, Cause::Silent)
    }

    /// Not loaded: nothing is learnt. After a while the rate returns to the base, slowly.
    fn rest(&mut self, now: Instant) -> (u64, Cause) {
        self.quiet = 0;
        let base = bps(self.bounds.base);
        if now.since(self.active) < IDLE {
            return (self.allowed, Cause::Idle);
        }
        let step = (self.allowed.abs_diff(base) / 32).max(base / 128);
        let to = match self.allowed > base {
            true => self.allowed.saturating_sub(step).max(base),
            false => self.allowed.saturating_add(step).min(base),
        };
        self.capacity = to;
        (to, Cause::Idle)
    }

    /// Once in a while a queue that stands is emptied: otherwise its delay would become the floor.
    fn drain(&mut self, now: Instant, to: u64, cause: Cause, wanted: bool) -> (u64, Cause) {
        if !wanted {
            self.draining = None;
            return (to, cause);
        }
        if now.since(self.emptied) >= UNDRAINED && self.draining.is_none() {
            self.draining = Some(now);
        }
        let Some(begun) = self.draining else { return (to, cause) };
        if now.since(begun) >= DRAIN {
            self.draining = None;
            self.emptied = now;
            return (to, cause);
        }
        match to.min(part(self.capacity, 96, 100)) {
            lower if lower < to => (lower, Cause::Drain),
            _ => (to, cause),
        }
    }

    /// The rate of the step in which `then` was.
    fn sent_at(&self, then: Instant) -> u64 {
        let known = self.steps.min(PAST - 1);
        let mut rate = self.achieved;
        for n in 0..known {
            let (end, of) = self.past[(self.steps - 1 - n) % PAST];
            if end <= then {
                break;
            }
            rate = of;
        }
        rate
    }
}

/// The time within which a queue is drained: twice the time until the effect of a change shows.
fn horizon(floor: u64) -> u64 {
    (2 * floor.saturating_add(50_000_000)).clamp(200_000_000, 600_000_000)
}

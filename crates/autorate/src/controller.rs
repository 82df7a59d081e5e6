//! [`Controller`]: samples in, a rate for each direction with its cause out.
//!
//! *Law*: a rate is within its bounds, always. It changes at most ten times a second, and not within one round trip of the
//! last change. More delay never leads to a higher rate. A saturated line that turns slower, or stops answering, is followed
//! downwards within three round trips and 300 ms. The same inputs lead to the same rates, bit for bit; a clock that runs back
//! is taken to stand still.
//! *Source*: ours. That rates follow load and delay, and rest at a base, is as in cake-autorate; the estimate of the line's rate by
//! the growth of its queue is that of TCP Vegas (Brakmo, Peterson 1995), and a floor by windowed minimum that of BBR.
//! *Units*: bit/s and ns, integers.
//! *Method*: for each peer the least round trip of a minute is its floor, and the excess over it is the delay of the line's
//! queues; the median over peers counts. A direction is *loaded* if packets wait in its shaper or if it carries three quarters of its
//! rate. Loaded without delay: upwards, by one part in 64 to one in 4. Loaded with delay: to the rate of the line, less what drains
//! the queue to 8 ms within twice the time until a change shows. Peers that owe an answer: down by up to a half in each step. No
//! signal for 2 s under load: to the base. Idle for 10 s: slowly to the base.
//! *Cost*: constant for a sample, a few hundred operations for a decision.
//! *Notes*: a queue in one direction delays round trips in both. Where a peer's clock shows one-way delays they are told apart; else
//! a loaded direction answers for all of the delay, which is safe and, with both directions loaded, too careful.

use tidegate_units::{Bytes, Instant, Rate, Span};

use crate::side::{HIGH, Line, Reading};
use crate::sources::{Delay, Sources};

/// The least time between two changes of a rate.
pub const PERIOD: Span = Span::from_millis(100);
/// Without any signal for this long, a loaded direction returns to its base.
pub const BLIND: Span = Span::from_secs(2);
/// A round trip that is longer does not delay decisions further.
const LONGEST_PERIOD: Span = Span::from_millis(600);

/// A direction of the line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// Packets that leave by the line.
    Up,
    /// Packets that arrive by the line.
    Down,
}

impl Side {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
    /// Its name in files, tables and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// Between which rates a direction is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Never below: what the line carries at its worst.
    pub least: Rate,
    /// At the start, when idle and without signals.
    pub base: Rate,
    /// Never above.
    pub most: Rate,
}

impl Bounds {
    /// Returns the bounds with 0 < `least` <= `base` <= `most`: `base` is lowered to `most`, and `least` to `base`.
    pub(crate) fn ordered(self) -> Self {
        let most = self.most.max(Rate::from_bps(1));
        let base = self.base.min(most).max(Rate::from_bps(1));
        Self { least: self.least.min(base).max(Rate::from_bps(1)), base, most }
    }
}

/// Why a rate has changed, or was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// The base, at the start.
    Start,
    /// The direction is saturated and the line has no queue.
    Quiet,
    /// The line has a queue, by whose length and growth the rate was set.
    Delay,
    /// A queue that stood for long is emptied once, so that the least round trip stays known.
    Drain,
    /// Peers that had answered owe an answer under load.
    Silent,
    /// No peer has answered for seconds: the base.
    Blind,
    /// Little traffic: back to the base.
    Idle,
}

impl Cause {
    /// All, in the order of their declaration.
    pub const ALL: [Self; 7] =
        [Self::Start, Self::Quiet, Self::Delay, Self::Drain, Self::Silent, Self::Blind, Self::Idle];
    /// Its name in the protocol and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Quiet => "quiet",
            Self::Delay => "delay",
            Self::Drain => "drain",
            Self::Silent => "silent",
            Self::Blind => "blind",
            Self::Idle => "idle",
        }
    }
    /// A sentence for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Start => "the base rate, until there is something to go by",
            Self::Quiet => "the rate is used up and the line has no queue",
            Self::Delay => "the line has a queue; its length and growth set the rate",
            Self::Drain => "a queue that stood for long is emptied, to see the least round trip again",
            Self::Silent => "peers owe an answer: the line stands still, or nearly so",
            Self::Blind => "no peer has answered for 2 s: the base rate",
            Self::Idle => "little traffic: back to the base rate",
        }
    }
}

/// A change of a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// When it was made.
    pub at: Instant,
    /// The direction.
    pub side: Side,
    /// The rate before.
    pub from: Rate,
    /// The rate from now on.
    pub to: Rate,
    /// The reason.
    pub cause: Cause,
    /// The rate that the direction carried since the step before.
    pub achieved: Rate,
    /// The delay above the floor that the direction answers for, where one is known.
    pub delay: Option<Span>,
    /// The number of peers that have answered lately.
    pub peers: usize,
}

/// The state of a direction, for display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// The bounds.
    pub bounds: Bounds,
    /// The allowed rate.
    pub allowed: Rate,
    /// The rate that was carried at the last step.
    pub achieved: Rate,
    /// The delay above the floor at the last step.
    pub delay: Option<Span>,
    /// The last change.
    pub last: Decision,
    /// The number of changes so far.
    pub changes: u64,
}

/// The controller of both directions. See the [module](self).
#[derive(Clone, Debug)]
pub struct Controller {
    lines: [Option<Line>; 2],
    changes: [u64; 2],
    sources: Sources,
    now: Instant,
    loaded: Option<Instant>,
}

impl Controller {
    /// A controller of the directions with bounds, up and down, at their base.
    pub fn new(bounds: [Option<Bounds>; 2], now: Instant) -> Self {
        let line = |side: Side| bounds[side as usize].map(|bounds| Line::new(side, bounds, now));
        Self {
            lines: [line(Side::Up), line(Side::Down)],
            changes: [0; 2],
            sources: Sources::default(),
            now,
            loaded: None,
        }
    }

    /// A peer has answered. `down` is the one-way delay of the answer by the peer's clock, with an arbitrary zero, in ns.
    pub fn round_trip(&mut self, now: Instant, peer: u64, round_trip: Span, down: Option<u64>) {
        self.now = self.now.max(now);
        // Longer than any line: an application that has slept, or a lie.
        if round_trip > Span::from_secs(10) || round_trip.is_zero() {
            return;
        }
        self.sources.add(self.now, peer, round_trip, down);
    }

    /// The line has carried `bytes` more in a direction; `waiting` tells that packets wait in its shaper.
    pub fn carried(&mut self, side: Side, bytes: Bytes, waiting: bool) {
        if let Some(line) = &mut self.lines[side as usize] {
            line.carried(bytes, waiting);
        }
    }

    /// Decides on the rates of the directions for which it is time. Call it often; most calls decide nothing.
    pub fn decide(&mut self, now: Instant) -> [Option<Decision>; 2] {
        self.now = self.now.max(now);
        let now = self.now;
        let floor = self.sources.floor(now).unwrap_or(Span::ZERO);
        let period = floor.max(PERIOD).min(LONGEST_PERIOD);
        let delay = self.sources.delay(now);
        let silence = self.sources.last().map(|last| now.since(last));
        let due = |line: &Line| line.age(now) >= period;
        let loaded = self.lines.each_ref().map(|line| line.as_ref().is_some_and(|line| line.loaded(now)));
        if loaded.contains(&true) {
            self.loaded = Some(now);
        }
        let blamed = Side::BOTH.map(|side| self.blamed(now, side, loaded, delay));
        let peers = self.sources.fresh(now);
        let mut decided = [None; 2];
        for side in Side::BOTH {
            let Some(line) = self.lines[side as usize].as_mut().filter(|line| due(line)) else { continue };
            let patience = floor + PERIOD + PERIOD;
            let overdue = silence
                .filter(|silence| delay.is_none() && *silence > patience)
                .map(|silence| silence.saturating_sub(floor));
            let reading = Reading {
                delay: delay.map(|delay| delay.of(side)),
                overdue: overdue.map(Span::as_nanos),
                blind: silence.is_none_or(|silence| silence >= BLIND),
                floor: floor.as_nanos(),
                blamed: blamed[side as usize],
            };
            decided[side as usize] = line.step(now, reading, peers);
            self.changes[side as usize] += u64::from(decided[side as usize].is_some());
        }
        decided
    }

    /// Whether a direction that has not reached its rate has to answer for a queue: one that is its own by a peer's clock; else,
    /// where neither has reached its rate, the direction that is nearer to it.
    fn blamed(&self, now: Instant, side: Side, loaded: [bool; 2], delay: Option<Delay>) -> bool {
        let Some(delay) = delay.filter(|delay| delay.of(side) >= HIGH && !loaded[side as usize]) else { return false };
        let used = |side: Side| {
            let line = self.lines[side as usize].as_ref()?;
            let used = u128::from(line.present(now)) * 1_000 / u128::from(line.allowed.max(1));
            (used >= 30).then_some(used)
        };
        let Some(own) = used(side) else { return false };
        let other = used(side.other()).unwrap_or(0);
        delay.down.is_some() || !loaded.contains(&true) && (own > other || own == other && side == Side::Down)
    }

    /// The allowed rate of a direction; `None` if it is not followed.
    pub fn allowed(&self, side: Side) -> Option<Rate> {
        self.lines[side as usize].as_ref().map(|line| Rate::from_bps(line.allowed))
    }

    /// Returns the state of a direction; `None` if its rate does not follow the line.
    pub fn state(&self, side: Side) -> Option<State> {
        self.lines[side as usize].as_ref().map(|line| State {
            bounds: line.bounds,
            allowed: Rate::from_bps(line.allowed),
            achieved: Rate::from_bps(line.achieved),
            delay: line.delay.map(Span::from_nanos),
            last: line.last,
            changes: self.changes[side as usize],
        })
    }

    /// Other bounds from now on. The rate is kept as far as they allow.
    pub fn set_bounds(&mut self, side: Side, bounds: Option<Bounds>) {
        let line = &mut self.lines[side as usize];
        match (line.as_mut(), bounds) {
            (Some(line), Some(bounds)) => {
                line.bounds = bounds.ordered();
                line.allowed = line.allowed.clamp(line.bounds.least.as_bps(), line.bounds.most.as_bps());
            }
            (None, Some(bounds)) => *line = Some(Line::new(side, bounds, self.now)),
            (_, None) => *line = None,
        }
    }

    /// Whether probes are needed: a direction was loaded within the last second, and passing traffic tells nothing.
    pub fn wants_probes(&self, now: Instant) -> bool {
        let silent = self.sources.last().is_none_or(|last| now.since(last) >= PERIOD + PERIOD);
        silent && self.loaded.is_some_and(|loaded| now.since(loaded) <= Span::from_secs(1))
    }

    /// The number of peers that have answered within the last 300 ms.
    pub fn peers(&self) -> usize {
        self.sources.fresh(self.now)
    }
    /// The least round trip that is known.
    pub fn floor(&self) -> Option<Span> {
        self.sources.floor(self.now)
    }
}

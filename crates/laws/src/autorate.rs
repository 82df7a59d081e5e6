//! The laws of a rate that follows the line, checked after every call of random scripts.
//!
//! 1. *Bounds.* The rate of a direction is between the least and the most, always.
//! 2. *At most ten changes a second.* Two changes of a direction are 100 ms apart.
//! 3. *Monotone in evidence.* From the same state, more delay never leads to a higher rate.
//! 4. *Same inputs, same outputs*, bit for bit.
//! 5. *Time never runs back*: an earlier time acts as the latest so far.
//! 6. *Reaction is bounded.* A saturated line that turns four times slower is followed to less than half of the old rate within three
//!    round trips and 300 ms ([`check_reaction`]).

use tidegate_autorate::{Bounds, Controller, PERIOD, Side};
use tidegate_core::random::Stream;
use tidegate_core::{Bytes, Instant, Rate, Span};

/// Something that decides on rates. [`Controller`] does, and so do the mutants by which the laws are tested.
pub trait Follows: Clone {
    /// A control of both directions.
    fn with_bounds(bounds: Bounds) -> Self;
    /// A peer has answered.
    fn round_trip(&mut self, now: Instant, peer: u64, round_trip: Span, down: Option<u64>);
    /// The line has carried bytes.
    fn carried(&mut self, side: Side, bytes: Bytes, waiting: bool);
    /// Decides.
    fn decide(&mut self, now: Instant);
    /// The allowed rate.
    fn allowed(&self, side: Side) -> Rate;
}

impl Follows for Controller {
    fn with_bounds(bounds: Bounds) -> Self {
        Self::new([Some(bounds); 2], Instant::ZERO)
    }
    fn round_trip(&mut self, now: Instant, peer: u64, round_trip: Span, down: Option<u64>) {
        self.round_trip(now, peer, round_trip, down);
    }
    fn carried(&mut self, side: Side, bytes: Bytes, waiting: bool) {
        self.carried(side, bytes, waiting);
    }
    fn decide(&mut self, now: Instant) {
        self.decide(now);
    }
    fn allowed(&self, side: Side) -> Rate {
        self.allowed(side).unwrap_or_default()
    }
}

/// How often the scripts of a check came to each situation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coverage {
    /// Changes upwards.
    pub rises: u64,
    /// Changes downwards.
    pub falls: u64,
    /// Comparisons of two delays.
    pub compared: u64,
    /// Calls with an earlier time.
    pub backwards: u64,
}

/// The state of a script.
struct Script {
    random: Stream,
    bounds: Bounds,
    now: Instant,
    /// Whether the traffic of each direction saturates its rate, and the delay of the queues in ms.
    saturated: [bool; 2],
    delay: u64,
    answering: u64,
    changed: [Option<Instant>; 2],
}

/// Runs `seeds` random scripts of `length` steps.
///
/// # Errors
/// The law that does not hold, with the seed and the step.
pub fn check<F: Follows>(seeds: std::ops::Range<u64>, length: usize) -> Result<Coverage, String> {
    let mut coverage = Coverage::default();
    for seed in seeds {
        let first = run::<F>(seed, length, &mut coverage)?;
        let second = run::<F>(seed, length, &mut Coverage::default())?;
        if first != second {
            let step = first.iter().zip(&second).position(|(a, b)| a != b).unwrap_or(0);
            return Err(format!("seed {seed}: two runs differ from change {step} on"));
        }
    }
    Ok(coverage)
}

/// Runs a script; returns the rates after each step.
fn run<F: Follows>(seed: u64, length: usize, coverage: &mut Coverage) -> Result<Vec<[Rate; 2]>, String> {
    let mut random = Stream::named(seed, "autorate");
    let kbit = |random: &mut Stream, most: u64| Rate::from_kbit(100 + random.below(most));
    let mut rates = [kbit(&mut random, 5_000), kbit(&mut random, 30_000), kbit(&mut random, 200_000)];
    rates.sort();
    let bounds = Bounds { least: rates[0], base: rates[1], most: rates[2] };
    let mut control = F::with_bounds(bounds);
    let mut script = Script {
        random,
        bounds,
        now: Instant::ZERO + Span::from_millis(1),
        saturated: [true, false],
        delay: 0,
        answering: 3,
        changed: [None; 2],
    };
    let mut trace = Vec::with_capacity(length);
    for step in 0..length {
        script.step(&mut control, coverage).map_err(|law| format!("seed {seed}, step {step}: {law}"))?;
        trace.push(Side::BOTH.map(|side| control.allowed(side)));
    }
    Ok(trace)
}

impl Script {
    /// Some milliseconds of traffic, and a decision.
    fn step<F: Follows>(&mut self, control: &mut F, coverage: &mut Coverage) -> Result<(), String> {
        match self.random.below(64) {
            0 => self.saturated = [self.random.below(2) == 0, self.random.below(2) == 0],
            1..4 => self.delay = self.random.below(40),
            4 => self.delay = self.random.below(2_000),
            5 => self.answering = self.random.below(6),
            6 => self.now += Span::from_millis(self.random.below(5_000)),
            7 => return self.compare(control, coverage),
            8 => {
                coverage.backwards += 1;
                let early = self.now.saturating_sub(Span::from_millis(self.random.below(2_000)));
                self.traffic(control, early, self.delay, 5);
                return self.decide(control, early, coverage);
            }
            _ => {}
        }
        let millis = 1 + self.random.below(60);
        self.now += Span::from_millis(millis);
        self.traffic(control, self.now, self.delay, millis);
        self.decide(control, self.now, coverage)
    }

    fn traffic<F: Follows>(&mut self, control: &mut F, now: Instant, delay: u64, millis: u64) {
        for peer in 0..self.answering {
            // Peer 4 lies at random.
            let lie = if peer == 4 { self.random.below(3_000) } else { 0 };
            let round_trip = Span::from_millis(20 + 15 * peer + delay + lie + self.random.below(3));
            let down = (self.random.below(4) == 0).then(|| (1 << 40) + delay * 500_000);
            control.round_trip(now, peer, round_trip, down);
        }
        for side in Side::BOTH {
            let allowed = control.allowed(side);
            let bytes = allowed.bytes_in_floor(Span::from_millis(millis));
            let saturated = self.saturated[side as usize];
            let part = if saturated { 16 } else { self.random.below(17) };
            control.carried(side, Bytes::new(bytes.as_u64() * part / 16), saturated && self.random.below(4) > 0);
        }
    }

    fn decide<F: Follows>(&mut self, control: &mut F, now: Instant, coverage: &mut Coverage) -> Result<(), String> {
        let before = Side::BOTH.map(|side| control.allowed(side));
        control.decide(now);
        for side in Side::BOTH {
            let rate = control.allowed(side);
            if rate < self.bounds.least || rate > self.bounds.most {
                return Err(format!("{} is {rate}, not within {:?}", side.name(), self.bounds));
            }
            if rate == before[side as usize] {
                continue;
            }
            match rate > before[side as usize] {
                true => coverage.rises += 1,
                false => coverage.falls += 1,
            }
            if let Some(last) = self.changed[side as usize].replace(self.now)
                && self.now.since(last) < PERIOD
            {
                return Err(format!("{} changed twice within {}", side.name(), self.now.since(last)));
            }
        }
        Ok(())
    }

    /// From the same state, two delays: the longer one must not lead to a higher rate.
    fn compare<F: Follows>(&mut self, control: &F, coverage: &mut Coverage) -> Result<(), String> {
        coverage.compared += 1;
        let mut delays = [self.random.below(60), self.random.below(300)];
        delays.sort_unstable();
        let later = self.now + PERIOD + Span::from_millis(600);
        let rates = delays.map(|delay| {
            let mut control = control.clone();
            for peer in 0..3 {
                for n in 0..4 {
                    let at = later + Span::from_millis(n);
                    control.round_trip(at, peer, Span::from_millis(20 + 15 * peer + delay), None);
                }
            }
            for side in Side::BOTH {
                let bytes = control.allowed(side).bytes_in_floor(later.since(self.now));
                control.carried(side, bytes, true);
            }
            control.decide(later + Span::from_millis(3));
            Side::BOTH.map(|side| control.allowed(side))
        });
        for side in Side::BOTH {
            let [less, more] = rates.map(|rates| rates[side as usize]);
            if more > less {
                let [short, long] = delays;
                return Err(format!("{}: {long} ms of delay lead to {more}, {short} ms to {less}", side.name()));
            }
        }
        Ok(())
    }
}

/// A saturated line of 20 Mbit/s with a round trip of `floor` turns to 5 Mbit/s: its queue grows, and the rate must be below 10
/// Mbit/s within three round trips and 300 ms.
///
/// # Errors
/// The rate that was not left in time.
pub fn check_reaction<F: Follows>(floor: Span) -> Result<(), String> {
    let mbit = |n| Rate::from_mbit(n);
    let mut control = F::with_bounds(Bounds { least: mbit(1), base: mbit(20), most: mbit(21) });
    let turn = Instant::ZERO + Span::from_secs(5);
    let deadline = turn + floor.saturating_mul(3) + Span::from_millis(300);
    let (mut now, mut queue) = (Instant::ZERO, 0_i64);
    // Answers on their way: the delay that packets of each 10 ms met.
    let mut on_the_way = std::collections::VecDeque::new();
    while now < deadline {
        now += Span::from_millis(10);
        let line = if now < turn { mbit(22) } else { mbit(5) };
        let sent = control.allowed(Side::Up).bytes_in_floor(Span::from_millis(10));
        let carried = line.bytes_in_floor(Span::from_millis(10));
        queue = (queue + sent.as_u64() as i64 - carried.as_u64() as i64).max(0);
        let wait = Span::from_nanos((queue as u64 * 8).saturating_mul(1_000_000_000) / line.as_bps());
        on_the_way.push_back((now + floor + wait, floor + wait));
        control.carried(Side::Up, sent, true);
        while let Some(&(_, round_trip)) = on_the_way.front().filter(|answer| answer.0 <= now) {
            on_the_way.pop_front();
            for peer in 0..3 {
                control.round_trip(now, peer, round_trip, None);
            }
        }
        control.decide(now);
    }
    let rate = control.allowed(Side::Up);
    if rate < mbit(10) { Ok(()) } else { Err(format!("{rate} at {floor}, after {}", deadline.since(turn))) }
}

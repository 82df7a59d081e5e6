//! Rates over time.
//!
//! *Source*: R. Netravali et al., "Mahimahi: accurate record-and-replay for HTTP", 2015, for traces of delivery
//! opportunities; K. Winstein, A. Sivaraman and H. Balakrishnan, "Stochastic forecasts achieve high throughput and low
//! delay over cellular networks", 2013, section 3.1, for [`Cellular`].
//! *Departures from the source*: an opportunity of a Mahimahi trace carries 1500 bytes of any packets, and unused bytes
//! are not carried over. A cellular link sends at a steady rate and not as a Poisson process with that rate.

use std::sync::Arc;

use tidegate_core::random::Stream;
use tidegate_core::{Rate, Span};

use super::windows::Windows;
use crate::distribution::{Distribution, standard_normal};
use crate::link::NEVER;

/// A state of a Markov chain of rates.
#[derive(Clone, PartialEq, Debug)]
pub struct MarkovState {
    /// The rate in this state.
    pub rate: Rate,
    /// The mean time in this state; times are exponential.
    pub mean: Span,
    /// The weights with which the next state is chosen, one for each state. Without weights, all other states are
    /// equally likely.
    pub next: Vec<f64>,
}

/// A cellular link, whose rate performs a Brownian motion between zero and a maximum and stays at zero for an
/// exponential time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cellular {
    /// The standard deviation of the rate after one second, in packets of 1500 bytes per second. The source uses 200.
    pub deviation: f64,
    /// The rate at which outages end, per second. The source uses 1.
    pub escape: f64,
    /// The maximum rate. The source uses 1000 packets per second, 12 Mbit/s.
    pub most: Rate,
    /// The time between changes of the rate. The source uses 20 ms.
    pub tick: Span,
}

impl Default for Cellular {
    fn default() -> Self {
        Self { deviation: 200.0, escape: 1.0, most: Rate::from_mbit(12), tick: Span::from_millis(20) }
    }
}

/// The longest path of a random rate of which the mean is taken.
const LONGEST: Span = Span::from_secs(1000);

/// A rate as a function of time.
#[derive(Clone, PartialEq, Debug)]
pub enum RateProcess {
    /// A rate from each time on. The first rate also applies before its time. After `repeat` the steps begin again.
    Steps {
        /// Times and rates, in rising order of time.
        steps: Arc<[(Span, Rate)]>,
        /// The period; `None` keeps the last rate for ever.
        repeat: Option<Span>,
    },
    /// Steps of one or more lines, in a window of which a run begins; see [`Windows`].
    Drawn {
        /// The steps.
        traces: Arc<[RateProcess]>,
        /// The windows.
        windows: Windows,
    },
    /// A sine around a mean in steps; negative rates become zero.
    Sine {
        /// The mean.
        mean: Rate,
        /// The largest deviation from the mean.
        amplitude: Rate,
        /// The time from maximum to maximum.
        period: Span,
        /// The length of a step.
        step: Span,
    },
    /// A Markov chain in continuous time that begins in the first state.
    Markov(Arc<[MarkovState]>),
    /// See [`Cellular`]; begins at half of the maximum rate.
    Cellular(Cellular),
}

impl RateProcess {
    /// The mean of the rate over `span`, or over its period if that is shorter; `None` if it is zero all the time. Of a process that is
    /// drawn it is that of one path, the same for all seeds, of at most 1,000 s; of steps with a drawn beginning that of all of them.
    pub fn mean(&self, span: Span) -> Option<Rate> {
        let up_to = |period: Option<Span>| vec![(self, period.map_or(span, |period| period.min(span)))];
        let parts = match self {
            Self::Steps { repeat, .. } => up_to(*repeat),
            Self::Sine { period, .. } => up_to(Some(*period)),
            Self::Markov(_) | Self::Cellular(_) => up_to(Some(LONGEST)),
            Self::Drawn { traces, .. } => traces.iter().map(|trace| (trace, trace.lasts().unwrap_or(span))).collect(),
        };
        let state = |process: &Self| RateState::begun(process.clone(), Stream::named(0, "mean rate"), Span::ZERO);
        mean_over(parts.into_iter().map(|(process, span)| (state(process), span)))
    }

    /// The mean of the part in which the run of `span` with a seed is, of traces whose part is drawn; `None` of others, or if it is zero.
    pub(crate) fn mean_of_part(&self, seed: u64, span: Span) -> Option<Rate> {
        let Self::Drawn { .. } = self else { return None };
        mean_over(std::iter::once((RateState::new(self.clone(), Stream::named(0, "mean rate"), seed), span)))
    }

    pub(crate) fn constant(rate: Rate) -> Self {
        Self::Steps { steps: [(Span::ZERO, rate)].into(), repeat: None }
    }

    /// Reads a Mahimahi trace: each line is a millisecond at which 1500 bytes can be delivered. The trace repeats after
    /// the last line.
    ///
    /// # Errors
    /// The number of the line, and the problem.
    pub fn mahimahi(text: &str) -> Result<Self, String> {
        let mut counts: Vec<(u64, u64)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let at: u64 = line.trim().parse().map_err(|_| format!("line {number}: not milliseconds: {line}"))?;
            // An opportunity is at the end of its millisecond.
            let from = at.saturating_sub(1);
            match counts.last_mut() {
                Some(last) if last.0 == from => last.1 += 1,
                Some(last) if last.0 > from => return Err(format!("line {number}: earlier than the one before")),
                _ => counts.push((from, 1)),
            }
        }
        let Some(end) = counts.last().map(|last| last.0 + 1) else { return Err("no line with a time".into()) };
        if text.lines().rev().find(|line| !line.trim().is_empty()).is_some_and(|last| last.trim().parse() == Ok(0_u64))
        {
            return Err("its last time is 0 ms, after which it repeats: it lasts no time".into());
        }
        let mut steps: Vec<(Span, Rate)> = Vec::new();
        let mut push = |at: u64, rate: u64| {
            let rate = Rate::from_bps(rate);
            if steps.last().is_none_or(|last| last.1 != rate) {
                steps.push((Span::from_millis(at), rate));
            }
        };
        let mut before = 0;
        for (from, count) in counts {
            if from > before {
                push(before, 0);
            }
            push(from, count.saturating_mul(1500 * 8 * 1000));
            before = from + 1;
        }
        Ok(Self::Steps { steps: steps.into(), repeat: Some(Span::from_millis(end)) })
    }

    /// Reads lines `seconds,rate` with rising times. A rate has a unit, or is in bit/s. Empty lines, comments with `#`,
    /// and one line of headings are skipped.
    ///
    /// # Errors
    /// The line or step, and the problem.
    pub fn csv(text: &str, repeat: Option<Span>) -> Result<Self, String> {
        let steps = timed_lines(text, "seconds,rate", |rate| match rate.parse::<u64>() {
            Ok(bps) => Some(Rate::from_bps(bps)),
            Err(_) => rate.parse().ok(),
        })?;
        if steps.is_empty() {
            return Err("no line with a rate".into());
        }
        if let Some(place) = steps.windows(2).position(|pair| pair[0].0 >= pair[1].0) {
            return Err(format!("step {}: not later than the one before", place + 2));
        }
        Ok(Self::Steps { steps: steps.into(), repeat })
    }

    /// Steps that begin with what they have at the time `from`: those before it are left out or, if they repeat, come at the end of the period.
    ///
    /// # Errors
    /// If they have ended by then, with how long they last.
    pub fn begun_at(self, from: Span) -> Result<Self, String> {
        let Self::Steps { steps, repeat, .. } = &self else { return Ok(self) };
        let last = self.lasts().unwrap_or(Span::ZERO);
        if from.is_zero() {
            return Ok(self);
        }
        if from > last || Some(from) == *repeat {
            return Err(format!("it lasts {} s, and has nothing at {} s", last.as_secs_f64(), from.as_secs_f64()));
        }
        // The first rate also applies before its time.
        let begin = steps.partition_point(|step| step.0 <= from).max(1);
        let later = steps[begin..].iter().map(|step| (step.0.saturating_sub(from), step.1));
        let mut all: Vec<(Span, Rate)> = [(Span::ZERO, steps[begin - 1].1)].into_iter().chain(later).collect();
        if let Some(repeat) = repeat {
            let again =
                steps[..begin].iter().enumerate().map(|(n, step)| (if n == 0 { Span::ZERO } else { step.0 }, step.1));
            all.extend(again.filter(|step| step.0 < from).map(|step| (repeat.saturating_sub(from) + step.0, step.1)));
        }
        Ok(Self::Steps { steps: all.into(), repeat: *repeat })
    }

    /// Traces in one window of which each run of `duration` is: see [`Windows`].
    ///
    /// # Errors
    /// The number of the trace that is too short, counted from 0, with how long it lasts.
    pub fn drawn(traces: Vec<Self>, duration: Span) -> Result<Self, (usize, String)> {
        let lengths: Vec<Span> = traces.iter().map(|trace| trace.lasts().unwrap_or(Span::ZERO)).collect();
        let (short, why) = match traces.as_slice() {
            // It may begin anywhere.
            [Self::Steps { repeat: Some(_), .. }] => (None, ""),
            [_] => (lengths.iter().position(|lasts| *lasts <= duration), "there is nothing to draw"),
            _ => (lengths.iter().position(|lasts| *lasts < duration), "no window of it is one of several traces"),
        };
        if let Some(number) = short {
            let [lasts, run] = [lengths[number], duration].map(Span::as_secs_f64);
            return Err((number, format!("it lasts {lasts} s, and a run {run} s: {why}")));
        }
        Ok(Self::Drawn { windows: Windows::of(&lengths, duration), traces: traces.into() })
    }

    /// How long steps last before they repeat, or have their last rate; `None` of others.
    pub fn lasts(&self) -> Option<Span> {
        let Self::Steps { steps, repeat, .. } = self else { return None };
        repeat.or(steps.last().map(|step| step.0))
    }

    /// After which times steps begin anew, if they do.
    pub fn periods(&self) -> Vec<Span> {
        match self {
            Self::Steps { repeat, .. } => repeat.iter().copied().collect(),
            Self::Drawn { traces, .. } => traces.iter().flat_map(Self::periods).collect(),
            _ => Vec::new(),
        }
    }

    /// Checks the parameters; the error is a short text.
    pub(crate) fn validate(&self) -> Result<(), &'static str> {
        match self {
            Self::Steps { steps, repeat, .. } => {
                if steps.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
                    return Err("the times of a rate must rise");
                }
                let Some(last) = steps.last() else { return Err("a rate over time needs a step") };
                match repeat {
                    Some(repeat) if *repeat <= last.0 => Err("a rate must repeat after its last step"),
                    Some(_) if steps.iter().all(|step| step.1.is_zero()) => Err("a rate must not be zero for ever"),
                    None if last.1.is_zero() => Err("a rate must not end at zero: let the line fail instead"),
                    _ => Ok(()),
                }
            }
            Self::Drawn { traces, .. } => traces.iter().try_for_each(Self::validate),
            Self::Sine { mean, period, step, .. } => {
                if mean.is_zero() || step.is_zero() || *step > *period {
                    Err("a sine needs a mean above zero, and a step of at most its period")
                } else {
                    Ok(())
                }
            }
            Self::Markov(states) => {
                let n = states.len();
                if n < 2 || states.iter().all(|state| state.rate.is_zero()) {
                    return Err("a Markov chain needs at least two states, one of them with a rate above zero");
                }
                if states.iter().any(|state| state.mean.is_zero()) {
                    return Err("the mean time in a state must be above zero");
                }
                let sound = |state: &MarkovState| {
                    state.next.is_empty()
                        || state.next.len() == n
                            && state.next.iter().all(|weight| *weight >= 0.0 && weight.is_finite())
                            && state.next.iter().sum::<f64>() > 0.0
                };
                if states.iter().all(sound) { Ok(()) } else { Err("a state needs a weight for each state, or none") }
            }
            Self::Cellular(Cellular { deviation, escape, most, tick }) => {
                let positive = |value: f64| value > 0.0 && value.is_finite();
                if positive(*deviation) && positive(*escape) && !most.is_zero() && !tick.is_zero() {
                    Ok(())
                } else {
                    Err("a cellular link needs a deviation, an escape rate, a maximum rate and a tick above zero")
                }
            }
        }
    }
}

/// The mean rate of processes over the time of each; `None` if it is zero.
fn mean_over(parts: impl Iterator<Item = (RateState, Span)>) -> Option<Rate> {
    let (mut carried, mut time) = (0, 0);
    for (mut state, span) in parts {
        carried += state.room(0, span.as_nanos(), std::iter::empty());
        time += u128::from(span.as_nanos());
    }
    let rate = carried.checked_div(time).and_then(|rate: u128| u64::try_from(rate).ok());
    rate.filter(|rate| *rate > 0).map(Rate::from_bps)
}

/// A time in seconds, rounded to the nanosecond; `None` outside of zero to thirty years.
pub(crate) fn seconds(time: f64) -> Option<Span> {
    // A half is added before the fraction is cut off: the sums are far below 2^53.
    (0.0..1e9).contains(&time).then(|| Span::from_nanos((time * 1e9 + 0.5) as u64))
}

/// Reads lines of a time in seconds and another field, which `read` takes. Empty lines, comments with `#`, and one line
/// of headings are skipped. `form` describes a line in errors.
///
/// # Errors
/// The number of the first line that cannot be read, and its text.
pub(crate) fn timed_lines<T>(
    text: &str,
    form: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<(Span, T)>, String> {
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        let fields = line.split_once([',', ';', '\t']);
        let entry = fields.and_then(|(time, rest)| Some((seconds(time.trim().parse().ok()?)?, read(rest.trim())?)));
        match entry {
            Some(entry) => entries.push(entry),
            None if line.is_empty() => {}
            None if entries.is_empty() && line.starts_with(|c: char| c.is_alphabetic()) => {}
            None => return Err(format!("line {number}: not `{form}`: {line}")),
        }
    }
    Ok(entries)
}

/// The state of a rate process.
pub(super) struct RateState {
    process: RateProcess,
    random: Stream,
    /// The current rate in bit/s, and until when it holds.
    rate: u64,
    until: u64,
    /// For steps: the next step, when the current period began, and how much earlier all of them are. For a Markov chain: the state.
    index: usize,
    begin: u64,
    earlier: u64,
    /// For a cellular link: the rate in packets per second.
    packets: f64,
}

impl RateState {
    /// The state at the beginning of a run with a seed.
    pub fn new(process: RateProcess, random: Stream, seed: u64) -> Self {
        let RateProcess::Drawn { traces, windows } = &process else { return Self::begun(process, random, Span::ZERO) };
        let (trace, begin) = windows.begin(seed);
        Self::begun(traces[trace].clone(), random, begin)
    }

    /// The state at the beginning of a run that begins in steps at this time.
    fn begun(process: RateProcess, random: Stream, begin: Span) -> Self {
        let packets = match &process {
            RateProcess::Cellular(cellular) => cellular.most.as_bps() as f64 / 12_000.0 / 2.0,
            _ => 0.0,
        };
        let index = match &process {
            // The first rate also applies before its time.
            RateProcess::Steps { steps, .. } => steps.partition_point(|step| step.0 <= begin).saturating_sub(1),
            _ => 0,
        };
        let earlier = begin.as_nanos();
        let mut state = Self { process, random, rate: 0, until: 0, index, begin: 0, earlier, packets };
        state.advance();
        state
    }

    /// Makes the rate constant from now on.
    pub fn set(&mut self, rate: Rate) {
        (self.process, self.rate, self.until) = (RateProcess::constant(rate), rate.as_bps(), NEVER);
    }

    /// The end of a transmission of `bytes` that begins at `start`, if the rate changes to a constant at each of
    /// `changes`. Calls must not go back in time.
    pub fn finish(&mut self, start: u64, bytes: u32, changes: impl Iterator<Item = (u64, Rate)>) -> u64 {
        // In units of bit·ns/s.
        let mut left = u128::from(bytes) * 8 * 1_000_000_000;
        let mut at = start;
        let mut changes = changes.peekable();
        loop {
            while let Some((_, rate)) = changes.next_if(|change| change.0 <= at) {
                self.set(rate);
            }
            while self.until <= at {
                self.advance();
            }
            let until = changes.peek().map_or(self.until, |change| self.until.min(change.0));
            let room = u128::from(self.rate) * u128::from(until - at);
            if room >= left {
                return at + left.div_ceil(u128::from(self.rate.max(1))) as u64;
            }
            if until == NEVER {
                return NEVER / 4;
            }
            left -= room;
            at = until;
        }
    }

    /// The data that the line can carry from `from` to `to`, in bit·ns/s, with `changes` as for [`Self::finish`].
    pub fn room(&mut self, from: u64, to: u64, changes: impl Iterator<Item = (u64, Rate)>) -> u128 {
        let (mut at, mut room) = (from, 0);
        let mut changes = changes.peekable();
        while at < to {
            while let Some((_, rate)) = changes.next_if(|change| change.0 <= at) {
                self.set(rate);
            }
            while self.until <= at {
                self.advance();
            }
            let until = changes.peek().map_or(self.until, |change| self.until.min(change.0)).min(to);
            room += u128::from(self.rate) * u128::from(until - at);
            at = until;
        }
        room
    }

    /// Advances to the next step.
    fn advance(&mut self) {
        let from = self.until;
        match &self.process {
            RateProcess::Steps { steps, repeat, .. } => {
                if self.index == steps.len() {
                    // Only a process that repeats gets here.
                    self.begin += repeat.map_or(NEVER / 4, Span::as_nanos);
                    self.index = 0;
                }
                self.rate = steps[self.index].1.as_bps();
                self.index += 1;
                self.until = match (steps.get(self.index), repeat) {
                    (Some(next), _) => (self.begin + next.0.as_nanos()).saturating_sub(self.earlier),
                    (None, Some(repeat)) => (self.begin + repeat.as_nanos()).saturating_sub(self.earlier),
                    (None, None) => NEVER,
                };
            }
            // The beginning of a run has chosen one of them.
            RateProcess::Drawn { .. } => self.until = NEVER,
            RateProcess::Sine { mean, amplitude, period, step } => {
                let phase = (from % period.as_nanos()) as f64 / period.as_nanos() as f64;
                let value = libm::sin(2.0 * core::f64::consts::PI * phase);
                let rate = mean.as_bps() as f64 + amplitude.as_bps() as f64 * value;
                (self.rate, self.until) = (rate.max(0.0) as u64, from + step.as_nanos());
            }
            RateProcess::Markov(states) => {
                if from > 0 {
                    let state = &states[self.index];
                    let weight = |n: usize| match state.next.get(n) {
                        Some(weight) => *weight,
                        None => f64::from(u8::from(n != self.index)),
                    };
                    let total: f64 = (0..states.len()).map(weight).sum();
                    let mut drawn = self.random.unit() * total;
                    let next = (0..states.len()).find(|&n| {
                        drawn -= weight(n);
                        drawn < 0.0
                    });
                    self.index = next.unwrap_or(states.len() - 1);
                }
                let state = &states[self.index];
                let stay = Distribution::Exponential { mean: state.mean.as_secs_f64() }.sample_span(&mut self.random);
                (self.rate, self.until) = (state.rate.as_bps(), from.saturating_add(stay.as_nanos().max(1)));
            }
            RateProcess::Cellular(Cellular { deviation, escape, most, tick }) => {
                let greatest = most.as_bps() as f64 / 12_000.0;
                let mut stay = tick.as_nanos();
                if from > 0 {
                    let step = deviation * tick.as_secs_f64().sqrt() * standard_normal(&mut self.random);
                    self.packets = (self.packets + step).min(greatest);
                    if self.packets <= 0.0 {
                        self.packets = 0.0;
                        let outage = Distribution::Exponential { mean: 1.0 / escape }.sample_span(&mut self.random);
                        stay = outage.as_nanos().max(1);
                    }
                }
                (self.rate, self.until) = ((self.packets * 12_000.0) as u64, from.saturating_add(stay));
            }
        }
    }
}

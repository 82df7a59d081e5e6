//! [`Conditions`]: the behaviour of a line beyond a constant rate and a constant delay.
//!
//! *Law*: conditions depend only on time and on the line's own random streams, so the end of a transmission is known
//! when it begins. A transmission takes exactly the time in which the rate adds up to its bits.
//! *Source*: see `rates` for rates over time.
//! *Units*: ns, bit/s; a transmission is rounded up to the next nanosecond.
//! *Cost*: O(1) for a packet, plus one step for each change of the rate during its transmission.

mod rates;
mod windows;

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_core::random::Stream;
use tidegate_core::{Instant, Rate, Span};

use crate::distribution::{Distribution, standard_normal};
use crate::impairment::Impairment;
use crate::link::NEVER;
use crate::loss::Loss;
use crate::packet::SimPacket;
use rates::RateState;
pub use rates::{Cellular, MarkovState, RateProcess};
pub(crate) use rates::{seconds, timed_lines};
pub use windows::Windows;

/// Delay that varies from packet to packet, in addition to that of the line.
#[derive(Clone, PartialEq, Debug)]
pub struct Jitter {
    /// The distribution of the additional delay, in seconds.
    pub distribution: Distribution,
    /// The correlation between consecutive packets, from 0 to below 1. It applies to the normal values from which the
    /// delays are computed (a Gaussian copula), so that the distribution holds for any correlation.
    pub correlation: f64,
    /// Whether packets may overtake each other. Otherwise a packet arrives no earlier than the one before it.
    pub reorders: bool,
}

/// Random failures of a line: how long it works and how long it fails, in seconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Failures {
    /// The time from the beginning or from a recovery to the next failure.
    pub works: Distribution,
    /// The time from a failure to the recovery.
    pub fails: Distribution,
}

/// A change of a line at some time. Fields that are `None` stay unchanged.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LineChange {
    /// The time of the change.
    pub at: Instant,
    /// A constant rate, which replaces the rate or rate process.
    pub rate: Option<Rate>,
    /// The propagation delay of packets that are transmitted from then on.
    pub delay: Option<Span>,
    /// The loss model.
    pub loss: Option<Loss>,
}

/// The conditions of a line in addition to its rate and delay. There are none by default.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Conditions {
    /// A rate over time, which replaces that of the line.
    pub rate: Option<RateProcess>,
    /// The mean of this rate, with which the ideal times of transfers are computed; `None` for the rate of the line.
    pub mean_rate: Option<Rate>,
    /// Delay in addition to that of the line.
    pub jitter: Option<Jitter>,
    /// The numbers of the packets that are lost, rising, counted from 1 over all transmitted packets.
    pub lost: Arc<[u64]>,
    /// The probability that a packet arrives twice.
    pub duplication: f64,
    /// How the line changes the ECN field and TCP's feedback.
    pub impairment: Impairment,
    /// Intervals in which the line fails, rising and without overlap. Packets on the line are lost, and queued packets
    /// wait.
    pub outages: Arc<[(Instant, Instant)]>,
    /// Random failures in addition.
    pub failures: Option<Failures>,
    /// Packets transmitted within a frame of this length arrive at its end in one burst, as over link layers that
    /// aggregate (Wi-Fi, DOCSIS, LTE).
    pub frame: Option<Span>,
    /// Changes, in the order of their times.
    pub changes: Arc<[LineChange]>,
}

impl Conditions {
    /// The conditions in the run of `duration` with a seed: the mean of a rate that begins where the seed draws is that of its own part.
    pub(crate) fn in_run(&self, seed: u64, duration: Span) -> Self {
        let of_run = self.rate.as_ref().and_then(|rate| rate.mean_of_part(seed, duration));
        Self { mean_rate: of_run.or(self.mean_rate), ..self.clone() }
    }

    /// Checks the parameters; the error is a short text.
    pub(crate) fn validate(&self) -> Result<(), &'static str> {
        if let Some(rate) = &self.rate {
            rate.validate()?;
        }
        if let Some(jitter) = &self.jitter {
            jitter.distribution.validate()?;
            if !(0.0..1.0).contains(&jitter.correlation) {
                return Err("a correlation must be at least 0 and below 1");
            }
        }
        if let Some(failures) = &self.failures {
            failures.works.validate()?;
            failures.fails.validate()?;
            if failures.works.mean() <= 0.0 {
                return Err("a line that fails must work between the failures");
            }
        }
        if !(0.0..=1.0).contains(&self.duplication) {
            return Err("a probability must be between 0 and 1");
        }
        if self.outages.iter().any(|outage| outage.0 >= outage.1)
            || self.outages.windows(2).any(|pair| pair[0].1 > pair[1].0)
        {
            return Err("outages must end after they begin, and must not overlap");
        }
        let changes_to_nothing = self.changes.iter().any(|change| change.rate.is_some_and(Rate::is_zero));
        if changes_to_nothing && self.changes.last().is_some_and(|change| change.rate.is_some_and(Rate::is_zero)) {
            return Err("a rate must not end at zero: let the line fail instead");
        }
        if self.frame.is_some_and(Span::is_zero) { Err("a frame must be longer than zero") } else { Ok(()) }
    }

    /// Adds a change, behind those of the same time.
    pub(crate) fn add_change(&mut self, change: LineChange) {
        let mut changes = self.changes.to_vec();
        changes.insert(changes.partition_point(|known| known.at <= change.at), change);
        self.changes = changes.into();
    }

    /// Whether packets may be reordered.
    pub(crate) fn reorders(&self) -> bool {
        self.jitter.as_ref().is_some_and(|jitter| jitter.reorders)
    }
}

/// The result of a transmission.
pub(crate) struct Carried {
    /// When the transmitter is free again.
    pub free_at: u64,
    /// When the packet arrives; `None` if it is lost.
    pub arrival: Option<u64>,
    /// The new loss model, if it changes now.
    pub loss: Option<Loss>,
}

/// The state of the conditions of a line.
pub(crate) struct LineState {
    conditions: Conditions,
    rates: RateState,
    seed: u64,
    delay: u64,
    /// Positions of the next change and of the next number of a lost packet.
    next_change: usize,
    next_lost: usize,
    transmitted: u64,
    jitter: Stream,
    normal: f64,
    duplication: Stream,
    /// Outages that are not over yet, as far ahead as they were needed.
    outages: VecDeque<(u64, u64)>,
    next_outage: usize,
    failures: Stream,
    /// The time up to which random failures have been drawn.
    drawn: u64,
    last_arrival: u64,
    /// The streams of the rate and of failures as they were at the beginning.
    first: [Stream; 2],
}

impl LineState {
    pub fn new(conditions: Conditions, rate: Rate, delay: Span, seed: u64, name: &str) -> Self {
        let stream = |what: &str| Stream::named(seed, &format!("{what} {name}"));
        let process = conditions.rate.clone().unwrap_or(RateProcess::constant(rate));
        Self {
            rates: RateState::new(process, stream("rate"), seed),
            seed,
            delay: delay.as_nanos(),
            next_change: 0,
            next_lost: 0,
            transmitted: 0,
            jitter: stream("jitter"),
            normal: 0.0,
            duplication: stream("duplication"),
            outages: VecDeque::new(),
            next_outage: 0,
            failures: stream("failures"),
            drawn: 0,
            last_arrival: 0,
            first: ["rate", "failures"].map(stream),
            conditions,
        }
    }

    /// The bits that a line with these conditions and a rate of `rate` otherwise carries from `from` to `to`.
    pub fn capacity(&self, rate: Rate, from: u64, to: u64) -> u64 {
        // Time cannot run back in the states of the line, so that others begin at its beginning.
        let mut line = Self::new(self.conditions.clone(), rate, Span::ZERO, 0, "");
        let [rates, failures] = self.first.clone();
        let process = self.conditions.rate.clone().unwrap_or(RateProcess::constant(rate));
        line.rates = RateState::new(process, rates, self.seed);
        line.failures = failures;
        let (mut at, mut room) = (from, 0);
        while at < to {
            let works = line.available(at);
            if works > at {
                at = works;
                continue;
            }
            // Outages are drawn only a little ahead, and forgotten when they are over.
            let ahead = to.min(at.saturating_add(1_000_000_000));
            let until = line.fails_between(at, ahead).unwrap_or(ahead);
            let changes =
                self.conditions.changes.iter().filter_map(|change| Some((change.at.as_nanos(), change.rate?)));
            room += line.rates.room(at, until, changes);
            at = until;
        }
        (room / 1_000_000_000) as u64
    }

    pub fn reorders(&self) -> bool {
        self.conditions.reorders()
    }

    /// Adds a change, which must not be earlier than the last transmission.
    pub fn change(&mut self, change: LineChange) {
        self.conditions.add_change(change);
    }

    /// Changes a packet that was transmitted.
    #[inline]
    pub fn impair(&self, packet: &mut SimPacket) {
        self.conditions.impairment.apply(packet);
    }

    /// Draws whether the next packet is duplicated.
    pub fn duplicates(&mut self) -> bool {
        self.conditions.duplication > 0.0 && self.duplication.unit() < self.conditions.duplication
    }

    /// The first time at or after `at` at which the line works. Calls must not go back in time.
    pub fn available(&mut self, at: u64) -> u64 {
        self.draw_outages(at);
        while self.outages.front().is_some_and(|outage| outage.1 <= at) {
            self.outages.pop_front();
        }
        let mut at = at;
        // Listed and random outages may touch or overlap.
        for &(begin, end) in &self.outages {
            if begin > at {
                break;
            }
            at = at.max(end);
        }
        at
    }

    /// Draws or takes all outages that begin up to `until`.
    fn draw_outages(&mut self, until: u64) {
        while let Some(&(begin, end)) = self.conditions.outages.get(self.next_outage)
            && begin.as_nanos() <= until
        {
            self.insert_outage(begin.as_nanos(), end.as_nanos());
            self.next_outage += 1;
        }
        while self.drawn <= until
            && let Some(failures) = &self.conditions.failures
        {
            let begin = self.drawn.saturating_add(failures.works.sample_span(&mut self.failures).as_nanos().max(1));
            let end = begin.saturating_add(failures.fails.sample_span(&mut self.failures).as_nanos());
            self.drawn = end;
            if begin < end {
                self.insert_outage(begin, end);
            }
        }
    }

    fn insert_outage(&mut self, begin: u64, end: u64) {
        let place = self.outages.partition_point(|outage| outage.0 <= begin);
        self.outages.insert(place, (begin, end));
    }

    /// The beginning of the first outage after `from`, if it lies before `until`.
    fn fails_between(&mut self, from: u64, until: u64) -> Option<u64> {
        self.draw_outages(until);
        self.outages.iter().map(|outage| outage.0).find(|&begin| begin > from).filter(|&begin| begin < until)
    }

    /// Transmits `size` bytes from `start`, when the line must be working.
    pub fn carry(&mut self, start: u64, size: u32) -> Carried {
        let mut loss = None;
        while let Some(change) = self.conditions.changes.get(self.next_change)
            && change.at.as_nanos() <= start
        {
            if let Some(rate) = change.rate {
                self.rates.set(rate);
            }
            self.delay = change.delay.map_or(self.delay, Span::as_nanos);
            loss = change.loss.or(loss);
            self.next_change += 1;
        }
        // A rate change during the transmission applies from the time of the change.
        let rest = &self.conditions.changes[self.next_change..];
        let end = self.rates.finish(start, size, rest.iter().filter_map(|c| Some((c.at.as_nanos(), c.rate?))));
        if let Some(failed) = self.fails_between(start, end) {
            self.transmitted += 1;
            return Carried { free_at: self.available(failed), arrival: None, loss };
        }
        let free_at = self.available(end);
        self.transmitted += 1;
        let listed = self.conditions.lost.get(self.next_lost) == Some(&self.transmitted);
        self.next_lost += usize::from(listed);
        let sent = self.conditions.frame.map_or(end, |frame| end.next_multiple_of(frame.as_nanos()));
        let mut arrival = sent.saturating_add(self.delay).saturating_add(self.extra());
        if !self.reorders() {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
        }
        let lost = listed || self.fails_between(start, arrival).is_some();
        Carried { free_at, arrival: (!lost).then_some(arrival), loss }
    }

    /// Draws the jitter of the next packet in ns.
    fn extra(&mut self) -> u64 {
        let Some(Jitter { distribution, correlation, .. }) = &self.conditions.jitter else { return 0 };
        let fresh = standard_normal(&mut self.jitter);
        self.normal = if self.transmitted <= 1 {
            fresh
        } else {
            correlation * self.normal + (1.0 - correlation * correlation).sqrt() * fresh
        };
        distribution.span_at(self.normal).as_nanos().min(NEVER / 4)
    }
}

#[cfg(test)]
mod tests;

//! [`Conditions`]: the behaviour of a line beyond a constant rate and a constant delay.
//!
//! *Law*: conditions depend only on time and on the line's own random streams, so the end of a transmission is known
//! when it begins. A transmission takes exactly the time in which the rate adds up to its bits.
//! *Source*: see `rates` for rates over time.
//! *Units*: ns, bit/s; a transmission is rounded up to the next nanosecond.
//! *Cost*: O(1) for a packet, plus one step for each change of the rate during its transmission.

mod rates;

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
pub use rates::{Cellular, MarkovState, RateProcess, Windows};
pub(crate) use rates::{seconds, timed_lines};

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
mod tests {
    use super::*;

    const DELAY: Span = Span::from_millis(10);
    /// 1250 bytes take 1 ms of 10 Mbit/s.
    const PACKET: u32 = 1250;

    fn line(conditions: Conditions) -> LineState {
        assert_eq!(conditions.validate(), Ok(()));
        LineState::new(conditions, Rate::from_mbit(10), DELAY, 1, "a->b")
    }

    /// Transmits `n` packets back to back and returns the end of each transmission and the arrival.
    fn run(state: &mut LineState, n: usize) -> Vec<(u64, Option<u64>)> {
        let mut at = 0;
        (0..n)
            .map(|_| {
                at = state.available(at);
                let carried = state.carry(at, PACKET);
                at = carried.free_at;
                (carried.free_at, carried.arrival)
            })
            .collect()
    }

    fn millis(n: u64) -> Instant {
        Instant::ZERO + Span::from_millis(n)
    }

    #[test]
    fn without_conditions_the_line_is_constant() {
        let all = run(&mut line(Conditions::default()), 100);
        assert!(all.iter().zip(1..).all(|(packet, n)| *packet == (n * 1_000_000, Some(n * 1_000_000 + 10_000_000))));
    }

    #[test]
    fn jitter_has_its_distribution_and_its_correlation() {
        let mean = 0.004;
        for (distribution, deviation) in [
            (Distribution::Uniform { low: 0.0, high: 0.008 }, 0.008 / 12.0_f64.sqrt()),
            (Distribution::Exponential { mean }, mean),
            (Distribution::LogNormal { mean, deviation: 0.002 }, 0.002),
            (Distribution::Empirical(vec![(0.0, 0.0), (0.008, 1.0)]), 0.008 / 12.0_f64.sqrt()),
        ] {
            for correlation in [0.0, 0.8] {
                let jitter = Jitter { distribution: distribution.clone(), correlation, reorders: true };
                let n = 100_000;
                let all = run(&mut line(Conditions { jitter: Some(jitter), ..Conditions::default() }), n);
                let extra = |(end, arrival): &(u64, Option<u64>)| (arrival.unwrap() - end) as f64 / 1e9 - 0.01;
                let extra: Vec<f64> = all.iter().map(extra).collect();
                let found = extra.iter().sum::<f64>() / n as f64;
                // Correlated values count as fewer: (1 + r) / (1 - r) times the variance of the mean.
                let error = 5.0 * deviation * ((1.0 + correlation) / (1.0 - correlation) / n as f64).sqrt();
                assert!((found - mean).abs() < error, "{distribution:?} {correlation}: mean {found}");
                let variance = extra.iter().map(|x| (x - found).powi(2)).sum::<f64>() / n as f64;
                assert!((variance.sqrt() / deviation - 1.0).abs() < 0.05, "{distribution:?}: {}", variance.sqrt());
                let product = extra.windows(2).map(|pair| (pair[0] - found) * (pair[1] - found)).sum::<f64>();
                let lag = product / n as f64 / variance;
                // The correlation of the underlying normal values is exact; the transformation reduces it slightly.
                let expected = if correlation == 0.0 { -0.02..0.02 } else { 0.7..0.82 };
                assert!(expected.contains(&lag), "{distribution:?} {correlation}: lag-one correlation {lag}");
            }
        }
    }

    #[test]
    fn packets_overtake_each_other_only_where_they_may() {
        for reorders in [false, true] {
            let distribution = Distribution::Exponential { mean: 0.005 };
            let jitter = Some(Jitter { distribution, correlation: 0.0, reorders });
            let all = run(&mut line(Conditions { jitter, ..Conditions::default() }), 1_000);
            let overtaken = all.windows(2).filter(|pair| pair[0].1 > pair[1].1).count();
            assert_eq!(overtaken > 0, reorders, "{overtaken}");
        }
    }

    #[test]
    fn listed_packets_are_lost_and_frames_arrive_at_once() {
        let conditions =
            Conditions { lost: [2, 3, 9].into(), frame: Some(Span::from_millis(4)), ..Conditions::default() };
        let all = run(&mut line(conditions), 12);
        let lost: Vec<usize> = (1..).zip(&all).filter(|(_, packet)| packet.1.is_none()).map(|(n, _)| n).collect();
        assert_eq!(lost, [2, 3, 9]);
        // Transmissions end at 1, 2, ... ms: four of them in each frame.
        let arrivals: Vec<u64> = all.iter().filter_map(|packet| Some(packet.1? / 1_000_000)).collect();
        assert_eq!(arrivals, [14, 14, 18, 18, 18, 18, 22, 22, 22]);
    }

    #[test]
    fn a_failure_takes_what_is_on_the_line_and_keeps_what_is_not() {
        // Down from 20.5 ms to 50 ms: the packet in transmission and the ten on their way are lost.
        let outages = [(Instant::from_nanos(20_500_000), millis(50))].into();
        let all = run(&mut line(Conditions { outages, ..Conditions::default() }), 30);
        let lost: Vec<usize> = (1..).zip(&all).filter(|(_, packet)| packet.1.is_none()).map(|(n, _)| n).collect();
        assert_eq!(lost, (11..=21).collect::<Vec<_>>());
        assert_eq!(all[20].0, 50_000_000, "the transmitter waits for the return");
        assert_eq!(all[21], (51_000_000, Some(61_000_000)));
    }

    #[test]
    fn failures_at_random_have_their_share() {
        let exponential = |mean| Distribution::Exponential { mean };
        let failures = Some(Failures { works: exponential(0.9), fails: exponential(0.1) });
        let mut state = line(Conditions { failures, ..Conditions::default() });
        let mut down = 0;
        let (mut at, mut count) = (0, 0);
        while at < 2_000_000_000_000 {
            let available = state.available(at);
            (down, count) = (down + available - at, count + u64::from(available > at));
            at = available + 1_000_000;
        }
        // The line fails a tenth of the time. There are 2,000 failures, so their mean has an error of 1/45; allow five
        // of it.
        let share = down as f64 / at as f64;
        assert!((share - 0.1).abs() < 0.012 && (1_700..2_300).contains(&count), "{share} {count}");
    }

    #[test]
    fn the_rate_adds_up_to_the_bits() {
        let steps: Arc<[(Span, Rate)]> = [(Span::ZERO, 8), (Span::from_millis(3), 2), (Span::from_millis(5), 0)]
            .map(|(at, mbit)| (at, Rate::from_mbit(mbit)))
            .into();
        let rate = Some(RateProcess::Steps { steps, repeat: Some(Span::from_millis(7)), windows: None });
        let mut state = line(Conditions { rate, ..Conditions::default() });
        // A period has 3 ms x 8 Mbit/s + 2 ms x 2 Mbit/s = 28,000 bits, 2.8 packets: the third ends in the next period.
        // 10,000 bits: 1.25 ms each; the third has 4,000 left at 3 ms, which take 2 ms; the fourth begins at 5 ms, waits
        // until 7 ms, and takes 1.25 ms.
        let ends: Vec<u64> = run(&mut state, 4).iter().map(|packet| packet.0 / 1_000).collect();
        assert_eq!(ends, [1_250, 2_500, 7_250, 8_500]);
        let changes = [LineChange { at: millis(2), rate: Some(Rate::from_mbit(5)), ..LineChange::default() }].into();
        let mut state = line(Conditions { changes, ..Conditions::default() });
        let ends: Vec<u64> = (0..2).map(|_| state.carry(1_500_000, PACKET).free_at / 1_000).collect();
        // Half a millisecond at 10 Mbit/s, the other 5,000 bits at 5: 1 ms.
        assert_eq!(ends[0], 3_000);
    }

    /// Bits a second that the line carries in `seconds`.
    fn mean_rate(process: RateProcess, seconds: u64) -> f64 {
        let mut state = line(Conditions { rate: Some(process), ..Conditions::default() });
        let (mut at, mut bits) = (0, 0);
        while at < seconds * 1_000_000_000 {
            at = state.carry(at, PACKET).free_at;
            bits += u64::from(PACKET) * 8;
        }
        bits as f64 * 1e9 / at as f64
    }

    #[test]
    fn rates_over_time_have_their_means() {
        let mbit = Rate::from_mbit;
        let sine = RateProcess::Sine {
            mean: mbit(4),
            amplitude: mbit(3),
            period: Span::from_secs(2),
            step: Span::from_millis(10),
        };
        let rate = mean_rate(sine, 20);
        assert!((rate / 4e6 - 1.0).abs() < 0.01, "sine {rate}");
        let state = |rate, millis| MarkovState { rate: mbit(rate), mean: Span::from_millis(millis), next: Vec::new() };
        // (1 x 300 + 8 x 100 + 0 x 100) / 500 = 2.2 Mbit/s: all three states equally often.
        let rate = mean_rate(RateProcess::Markov([state(1, 300), state(8, 100), state(0, 100)].into()), 4_000);
        assert!((rate / 2.2e6 - 1.0).abs() < 0.08, "Markov {rate}");
        let trace = RateProcess::mahimahi("1\n1\n3\n10\n").unwrap();
        let rate = mean_rate(trace, 10);
        // Four times 1500 bytes in 10 ms.
        assert!((rate / 4.8e6 - 1.0).abs() < 0.01, "Mahimahi {rate}");
        let csv = RateProcess::csv("time,rate\n0,1000000\n1, 3mbit # more\n", Some(Span::from_secs(2))).unwrap();
        let rate = mean_rate(csv, 100);
        assert!((rate / 2e6 - 1.0).abs() < 0.02, "CSV {rate}");
        assert!(RateProcess::csv("0,1\n0,2", None).unwrap_err().starts_with("step 2"));
        assert!(RateProcess::mahimahi("5\n3\n").unwrap_err().starts_with("line 2"));
        let cellular = Cellular::default();
        let rate = mean_rate(RateProcess::Cellular(cellular), 2_000);
        assert!((2e6..9e6).contains(&rate), "cellular {rate}");
    }

    /// Windows of one trace: what is before the beginning comes at the end of the period, and the mean of a period stays.
    #[test]
    fn a_trace_may_begin_later() {
        let ends = |process: RateProcess, n: usize| {
            let mut state = line(Conditions { rate: Some(process), ..Conditions::default() });
            run(&mut state, n).iter().map(|packet| packet.0 / 1_000).collect::<Vec<_>>()
        };
        let trace = |from: u64| {
            RateProcess::csv("0,8mbit\n0.003,2mbit\n0.005,0\n", Some(Span::from_millis(7)))
                .unwrap()
                .begun_at(Span::from_millis(from))
        };
        // From 4 ms on there are 1 ms at 2 Mbit/s (2,000 bits), nothing for 2 ms, and 8,000 bits in 1 ms of the next period.
        assert_eq!(ends(trace(4).unwrap(), 3), [4_000, 5_250, 8_000]);
        // The whole trace, shifted: three and a half periods are 24.5 ms.
        for from in 0..7 {
            let shifted = trace(from).unwrap();
            assert_eq!(shifted.mean(Span::from_secs(7)), trace(0).unwrap().mean(Span::from_secs(7)), "{from}");
        }
        assert!(trace(7).unwrap_err().starts_with("it lasts 0.007 s, and has nothing at 0.007 s"));
        let open = RateProcess::csv("0,8mbit\n1,2mbit\n", None).unwrap();
        let begun = open.clone().begun_at(Span::from_secs(1)).unwrap();
        assert_eq!(begun, RateProcess::constant(Rate::from_mbit(2)));
        assert!(open.begun_at(Span::from_secs(2)).is_err());
        // A trace that repeats after no time carries infinitely much.
        assert!(RateProcess::mahimahi("0\n0\n").unwrap_err().contains("lasts no time"));
        assert!(RateProcess::mahimahi("0\n4\n").is_ok());
    }

    /// Successive seeds have each window once, whatever the line is called, and each ends before the trace does.
    #[test]
    fn a_trace_may_begin_where_the_seed_says() {
        // In second n of 100 the rate is n packets of 1,000 bytes.
        let text: String = (0..100).map(|n| format!("{n},{}\n", (n + 1) * 8_000)).collect();
        let trace = RateProcess::csv(&text, Some(Span::from_secs(100))).unwrap();
        let drawn = trace.clone().begun_where_drawn(Span::from_secs(9)).unwrap();
        let first = |process: &RateProcess, seed: u64, name: &str| {
            line_of(process, seed, name).capacity(Rate::from_mbit(1), 0, 9_000_000_000) / 8_000
        };
        let all: Vec<u64> = (7..18).map(|seed| first(&drawn, seed, "a->b")).collect();
        assert_eq!(all, (7..18).map(|seed| first(&drawn, seed, "b->a")).collect::<Vec<_>>());
        // Neighbours are far from each other.
        assert!(all.windows(2).all(|two| two[0].abs_diff(two[1]) > 200), "{all:?}");
        let mut sorted = all.clone();
        sorted.sort_unstable();
        // Seconds 1 to 9 have 45 packets, the next nine 81 more, and so on to seconds 91 to 99.
        assert_eq!(sorted, (0..11).map(|n| 45 + 81 * n).collect::<Vec<u64>>());
        assert_eq!(first(&drawn, 18, "a->b"), all[0]);
        // The mean is that of the whole trace, whatever is drawn.
        assert_eq!(drawn.mean(Span::from_secs(9)), trace.mean(Span::from_secs(100)));
        // Where there is no room for two windows, they overlap, and end before the trace does.
        let long = trace.clone().begun_where_drawn(Span::from_secs(60)).unwrap().windows().unwrap();
        assert!((1..2_000).all(|seed| long.begin(seed) <= Span::from_secs(40)));
        let begin = |seed| long.begin(seed).as_nanos();
        assert!((1..4).all(|seed| begin(seed).abs_diff(begin(seed + 1)) > 8_000_000_000));
        // A trace that repeats and is not longer than a run may begin anywhere, and a run has all of it.
        let whole = trace.clone().begun_where_drawn(Span::from_secs(100)).unwrap();
        let state = |seed| line_of(&whole, seed, "a->b").capacity(Rate::from_mbit(1), 0, 100_000_000_000);
        assert!((1..9).all(|seed| state(seed).abs_diff(5_050 * 8_000) <= 1));
        let open = RateProcess::csv("0,8mbit\n1,2mbit\n", None).unwrap();
        assert!(open.begun_where_drawn(Span::from_secs(1)).unwrap_err().contains("nothing to draw"));
    }

    fn line_of(process: &RateProcess, seed: u64, name: &str) -> LineState {
        let conditions = Conditions { rate: Some(process.clone()), ..Conditions::default() };
        LineState::new(conditions, Rate::from_mbit(1), Span::ZERO, seed, name)
    }

    #[test]
    fn wrong_conditions_are_named() {
        let none = Conditions::default;
        let rate = |steps: &[(u64, u64)], repeat: Option<u64>| {
            let steps = steps.iter().map(|&(at, bps)| (Span::from_secs(at), Rate::from_bps(bps))).collect();
            Conditions {
                rate: Some(RateProcess::Steps { steps, repeat: repeat.map(Span::from_secs), windows: None }),
                ..none()
            }
        };
        for (wrong, part) in [
            (rate(&[], None), "needs a step"),
            (rate(&[(0, 1), (0, 2)], None), "rise"),
            (rate(&[(0, 1), (1, 0)], None), "end at zero"),
            (rate(&[(0, 0)], Some(1)), "zero for ever"),
            (rate(&[(0, 1), (2, 1)], Some(2)), "after its last"),
            (Conditions { duplication: 1.5, ..none() }, "between 0 and 1"),
            (Conditions { frame: Some(Span::ZERO), ..none() }, "longer than zero"),
            (Conditions { outages: [(millis(2), millis(1))].into(), ..none() }, "end after"),
        ] {
            assert!(wrong.validate().unwrap_err().contains(part), "{wrong:?}");
        }
    }
}

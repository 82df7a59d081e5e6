//! The network: a shaper before a modem with a deep buffer, and servers beyond the line.
//!
//! ```text
//! host ── gateway ══ modem ~~ provider ── server
//!          shaper up │      └ the line, with the modem's buffer up and the provider's down
//!          shaper down (behind the line)
//! ```

use std::cell::RefCell;
use std::rc::Rc;

use tidegate_config::shaper::{self, Config};
use tidegate_config::{Diagnostics, Source};
use tidegate_core::fifo::Limit;
use tidegate_core::{Instant, Rate, Span};
use tidegate_metrics::Histogram;
use tidegate_sim::applications::emodel::Codec;
use tidegate_sim::{
    Arrivals, Call, Conditions, Distribution, FlowSpec, Line, Network, NodeId, Stage, Web, Workload, tcp,
};

use super::lines;
use super::systems::{Pings, ROUND_TRIP, System};
use crate::Failure;

/// The workload of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    BulkUp,
    BulkDown,
    Call,
    Web,
    Mixture,
}

impl Load {
    pub const ALL: [Self; 5] = [Self::BulkUp, Self::BulkDown, Self::Call, Self::Web, Self::Mixture];
    pub fn name(self) -> &'static str {
        match self {
            Self::BulkUp => "bulk-up",
            Self::BulkDown => "bulk-down",
            Self::Call => "call",
            Self::Web => "web",
            Self::Mixture => "mixture",
        }
    }
    /// The directions that are measured: 0 up, 1 down.
    pub fn directions(self) -> &'static [usize] {
        match self {
            Self::BulkUp => &[0],
            Self::BulkDown | Self::Web => &[1],
            Self::Call | Self::Mixture => &[0, 1],
        }
    }
    fn flows(self, host: NodeId, server: NodeId) -> Vec<FlowSpec> {
        let bulk = |name: &str, from, to| FlowSpec::tcp(name, from, to, tcp::Config::current(), Workload::BULK);
        let up = |n: u32| bulk(&format!("up {n}"), host, server).jittered(Span::from_millis(500));
        let down = |n: u32| bulk(&format!("down {n}"), server, host).jittered(Span::from_millis(500));
        let call = || {
            let call = Call { codec: Codec::ALL[0], spurts: None, both_ways: true, buffer: Span::from_millis(60) };
            FlowSpec::udp("call", host, server, Workload::Call(Box::new(call)))
        };
        let web = || {
            let web = Web { read: Distribution::Exponential { mean: 3.0 }, ..Web::default() };
            FlowSpec::tcp("web", host, server, tcp::Config::current(), Workload::Web(Box::new(web)))
        };
        match self {
            Self::BulkUp => (0..2).map(up).collect(),
            Self::BulkDown => (0..4).map(down).collect(),
            Self::Call => vec![call()],
            Self::Web => vec![web(), call()],
            Self::Mixture => [up(0), up(1), call(), web()].into_iter().chain((0..3).map(down)).collect(),
        }
    }
}

/// The measurements of a run in one direction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outcome {
    /// Quantiles of the wait in the buffer of the line, in ms: 0.5, 0.95, 0.99.
    pub wait: [f64; 3],
    /// The part of the line's capacity that was used.
    pub used: f64,
    /// The part of the time in which packets waited more than 50 ms.
    pub late: f64,
    /// The longest time in one piece in which they did, in s.
    pub recovery: f64,
    /// The seconds until the mean rate of a second is within [`NEAR`] of what the rate is from [`SETTLED`] on, and stays there.
    pub settles: f64,
    /// The standard deviation of the rate from [`SETTLED`] on, as a part of its mean.
    pub varies: f64,
}

/// Seconds that are not measured, and that are.
pub const WARM_UP: u64 = 5;
pub const MEASURED: u64 = 40;
/// The second from which on the rate of a constant line is to be steady, and the part by which it may then be off.
pub const SETTLED: usize = 10;
pub const NEAR: f64 = 0.05;
/// The buffer of the line: about a second at 10 Mbit/s.
const BUFFER: Limit = Limit::packets(1_000);
const BIN: u64 = 10_000_000;

/// How long the packets of one direction waited in the buffer of the line.
#[derive(Default)]
pub struct Waits {
    histogram: Histogram,
    /// The longest wait in each bin.
    bins: Vec<u64>,
    bytes: u64,
}

impl Waits {
    /// A packet left the buffer at `at`, after this wait, both in ns. Those before and after the measured time do not count.
    pub fn record(&mut self, at: u64, wait: u64, bytes: u64) {
        let from = WARM_UP * 1_000_000_000;
        if !(from..from + MEASURED * 1_000_000_000).contains(&at) {
            return;
        }
        self.histogram.record(wait);
        self.bytes += bytes;
        let bin = ((at - from) / BIN) as usize;
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] = self.bins[bin].max(wait);
    }
}

fn config(direction: &str, rate: Rate) -> Result<Config, Failure> {
    let text = format!(
        "version = 1\n[interface]\ndirection = \"{direction}\"\n[shaper]\nrate = \"{0}bit\"\n[[class]]\nname = \"all\"\nrate = \"{0}bit\"\ndefault = true\nqueue = {{ kind = \"fq-codel\" }}\n",
        rate.as_bps()
    );
    let source = Source::new("shaper", text);
    let mut diagnostics = Diagnostics::new();
    shaper::load(&source, &mut diagnostics).ok_or_else(|| Failure::Failed(diagnostics.render(&source)))
}

/// Simulates one system on one line. Returns the outcome of each measured direction.
pub fn run(line: &lines::Line, system: System, load: Load, seed: u64) -> Result<Vec<Outcome>, Failure> {
    let capacity = [line.capacity(0, seed), line.capacity(1, seed)];
    let bounds = [capacity[0].bounds(), capacity[1].bounds()];
    let mut net = Network::new(seed);
    let (host, gateway, modem) = (net.host("host"), net.router("gateway"), net.router("modem"));
    let (provider, server, prober) = (net.router("provider"), net.host("server"), net.host("prober"));
    let lan = Line::new(Rate::from_mbit(1_000), Span::from_micros(50)).limit(Limit::packets(10_000));
    net.duplex(host, gateway, lan);
    let (up, down) = net.duplex(gateway, modem, lan);
    net.duplex(prober, modem, lan);
    let wire = |way: usize| Line::new(bounds[way].most, Span::from_millis(5)).limit(BUFFER);
    let (line_up, line_down) = (net.simplex(modem, provider, wire(0)), net.simplex(provider, modem, wire(1)));
    let rest = Span::from_nanos(ROUND_TRIP.as_nanos() / 2).saturating_sub(Span::from_millis(5));
    net.duplex(provider, server, Line::new(Rate::from_mbit(10_000), rest).limit(Limit::packets(100_000)));
    for (link, way) in [(line_up, 0), (line_down, 1)] {
        net.conditions(link, Conditions { rate: Some(capacity[way].process()), ..Conditions::default() });
    }
    net.shaper(up, &config("egress", system.start(bounds[0]))?);
    net.shaper(down, &config("ingress", system.start(bounds[1]))?);
    for flow in load.flows(host, server) {
        net.flow(flow);
    }
    let ping = Arrivals { gap: Distribution::Constant(0.05), size: Distribution::Constant(64.0) };
    let ping = Workload::Packets { directions: [Some(ping.clone()), Some(ping)] };
    let ping = net.flow(FlowSpec::udp("ping", prober, server, ping));
    let pings = Rc::new(RefCell::new(Pings::default()));
    let waits = [Rc::new(RefCell::new(Waits::default())), Rc::new(RefCell::new(Waits::default()))];
    for (link, way) in [(line_up, 0), (line_down, 1)] {
        let (pings, waits) = (Rc::clone(&pings), Rc::clone(&waits[way]));
        net.tap(link, move |at, stage, packet| {
            if stage != Stage::Transmitting {
                return;
            }
            let wait = at.since(Instant::from_nanos(packet.queued));
            pings.borrow_mut().waits[way] = wait;
            if packet.group as usize == ping.index() {
                let mut pings = pings.borrow_mut();
                match way {
                    0 => pings.up = wait,
                    _ => {
                        let both = pings.up + wait;
                        pings.arrive.push_back((at, both));
                    }
                }
                return;
            }
            waits.borrow_mut().record(at.as_nanos(), wait.as_nanos(), packet.size.into());
        });
    }
    let control = system.control(bounds, capacity.clone(), &pings);
    if let Some(control) = &control {
        net.follow([up, down], Rc::clone(control));
    }
    let mut simulation = net.build().map_err(|error| Failure::Failed(error.to_string()))?;
    simulation.run_until(Instant::ZERO + Span::from_secs(WARM_UP + MEASURED));
    let outcome = |way: &usize| {
        let waits = waits[*way].borrow();
        let offered = capacity[*way].between(WARM_UP * 1_000, (WARM_UP + MEASURED) * 1_000);
        let start = system.start(bounds[*way]).as_bps() as f64;
        let decisions = control.as_ref().map(|control| rates(&*control.borrow(), *way, start)).unwrap_or_default();
        measure(&waits, offered, &decisions)
    };
    Ok(load.directions().iter().map(outcome).collect())
}

/// The times in ns at which the rate changes, and its values, from the start on.
fn rates(control: &dyn tidegate_sim::RateControl, way: usize, start: f64) -> Vec<(u64, f64)> {
    let all = control.decisions().iter().filter(|decision| decision.side as usize == way);
    let changes = all.map(|decision| (decision.at.as_nanos(), decision.to.as_bps() as f64));
    std::iter::once((0, start)).chain(changes).collect()
}

/// The mean and the mean square of the rate in each second.
fn by_second(rates: &[(u64, f64)]) -> Vec<(f64, f64)> {
    let end = |n: usize| rates.get(n + 1).map_or((WARM_UP + MEASURED) * 1_000_000_000, |next| next.0);
    let within = |second: u64| {
        let (from, to) = (second * 1_000_000_000, (second + 1) * 1_000_000_000);
        let parts = rates.iter().enumerate().map(move |(n, (at, rate))| {
            let share = end(n).min(to).saturating_sub((*at).max(from)) as f64 / 1e9;
            (rate * share, rate * rate * share)
        });
        parts.fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
    };
    (0..WARM_UP + MEASURED).map(within).collect()
}

/// [`Outcome::settles`] and [`Outcome::varies`].
fn steadiness(rates: &[(u64, f64)]) -> (f64, f64) {
    let seconds = by_second(rates);
    let rest = &seconds[SETTLED..];
    let mean = |of: fn(&(f64, f64)) -> f64| rest.iter().map(of).sum::<f64>() / rest.len() as f64;
    let (level, squares) = (mean(|second| second.0), mean(|second| second.1));
    let off = seconds.iter().rposition(|second| (second.0 - level).abs() > NEAR * level);
    let settles = off.map_or(0.0, |last| last as f64 + 1.0);
    (settles, (squares - level * level).max(0.0).sqrt() / level.max(1.0))
}

/// The outcome of a direction. `offered` is what the line could have carried, in bytes; `rates` are the changes of the rate, if it changes.
pub fn measure(waits: &Waits, offered: u64, rates: &[(u64, f64)]) -> Outcome {
    let quantile = |q: f64| waits.histogram.quantile(q).unwrap_or(0) as f64 / 1e6;
    let is_late = |bin: &u64| *bin > 50_000_000;
    let total = (MEASURED * 1_000_000_000 / BIN) as usize;
    let (mut longest, mut run) = (0_usize, 0);
    for bin in &waits.bins {
        // A bin without a packet may be an outage, in which the queue stands still.
        run = if is_late(bin) || run > 0 && *bin == 0 { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let (settles, varies) = steadiness(rates);
    Outcome {
        wait: [quantile(0.5), quantile(0.95), quantile(0.99)],
        used: waits.bytes as f64 / offered.max(1) as f64,
        late: waits.bins.iter().filter(|bin| is_late(bin)).count() as f64 / total as f64,
        recovery: longest as f64 * BIN as f64 / 1e9,
        settles,
        varies,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_settles_after_its_last_second_that_is_off() {
        // 15 Mbit/s for 3 s, 20 for the rest: the third second is the last that is off by more than 5 %.
        let steady = steadiness(&[(0, 15e6), (3_000_000_000, 20e6)]);
        assert_eq!(steady, (3.0, 0.0));
        // Half of the rest at 19, half at 21: a deviation of 1 of 20, and no second is off.
        let mut rates = vec![(0, 20e6)];
        rates.extend((0..90).map(|half| (half * 500_000_000, if half % 2 == 0 { 19e6 } else { 21e6 })));
        let (settles, varies) = steadiness(&rates);
        assert!(settles == 0.0 && (varies - 0.05).abs() < 1e-9, "{settles} {varies}");
        // Off at the end: it never settles.
        assert_eq!(steadiness(&[(0, 20e6), (44_000_000_000, 10e6)]).0, 45.0);
    }
}

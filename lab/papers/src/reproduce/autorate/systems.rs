//! The systems that set the rate of the shaper: fixed ones, cake-autorate's algorithm, ours, and an oracle.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use tidegate_autorate::{Bounds, Side};
use tidegate_core::{Instant, Rate, Span};
use tidegate_sim::{Follow, RateControl, SimPacket};

use super::lines::Capacity;

/// A system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum System {
    Least,
    Base,
    Most,
    CakeAutorate,
    Tidegate,
    Oracle,
}

impl System {
    pub const ALL: [Self; 6] = [Self::Least, Self::Base, Self::Most, Self::CakeAutorate, Self::Tidegate, Self::Oracle];
    pub fn name(self) -> &'static str {
        match self {
            Self::Least => "least",
            Self::Base => "base",
            Self::Most => "most",
            Self::CakeAutorate => "cake-autorate",
            Self::Tidegate => "tidegate",
            Self::Oracle => "oracle",
        }
    }

    /// The rate at the start.
    pub fn start(self, bounds: Bounds) -> Rate {
        match self {
            Self::Least => bounds.least,
            Self::Most => bounds.most,
            _ => bounds.base,
        }
    }

    /// The control; `None` for a fixed rate.
    pub fn control(
        self,
        bounds: [Bounds; 2],
        lines: [Capacity; 2],
        pings: &Rc<RefCell<Pings>>,
    ) -> Option<Rc<RefCell<dyn RateControl>>> {
        match self {
            Self::Least | Self::Base | Self::Most => None,
            Self::CakeAutorate => Some(Rc::new(RefCell::new(CakeAutorate::new(bounds, Rc::clone(pings))))),
            Self::Tidegate => {
                Some(Rc::new(RefCell::new(Probing { follow: Follow::new(bounds.map(Some)), pings: Rc::clone(pings) })))
            }
            Self::Oracle => {
                Some(Rc::new(RefCell::new(Oracle { bounds, lines, next: Instant::ZERO, pings: Rc::clone(pings) })))
            }
        }
    }
}

/// Answers to pings through the line, 20 a second: when each arrives, and its round trip beyond the propagation.
#[derive(Debug, Default)]
pub struct Pings {
    pub arrive: VecDeque<(Instant, Span)>,
    /// The wait of the latest ping on its way up.
    pub up: Span,
    /// The wait of the latest packet in each direction, for the oracle.
    pub waits: [Span; 2],
}

/// The propagation in both directions, and the time at the peer.
pub const ROUND_TRIP: Span = Span::from_millis(40);

/// Ours, with probes while they are needed.
struct Probing {
    follow: Follow,
    pings: Rc<RefCell<Pings>>,
}

impl RateControl for Probing {
    fn passes(&mut self, now: Instant, side: Side, packet: &SimPacket) {
        self.follow.passes(now, side, packet);
    }
    fn decide(&mut self, now: Instant, waiting: [bool; 2]) -> [Option<Rate>; 2] {
        let mut pings = self.pings.borrow_mut();
        while let Some((at, wait)) = pings.arrive.pop_front_if(|ping| ping.0 <= now) {
            if self.follow.controller().wants_probes(now) {
                self.follow.controller().round_trip(at, u64::MAX, ROUND_TRIP + wait, None);
            }
        }
        self.follow.decide(now, waiting)
    }
    fn decisions(&self) -> &[tidegate_autorate::Decision] {
        self.follow.decisions()
    }
}

/// Knows the line: the rate that it will carry in the next tenth of a second, less what drains its queue within 200 ms.
struct Oracle {
    bounds: [Bounds; 2],
    lines: [Capacity; 2],
    next: Instant,
    pings: Rc<RefCell<Pings>>,
}

impl RateControl for Oracle {
    fn passes(&mut self, _: Instant, _: Side, _: &SimPacket) {}
    fn decide(&mut self, now: Instant, _: [bool; 2]) -> [Option<Rate>; 2] {
        if now < self.next {
            return [None; 2];
        }
        self.next = now + Span::from_millis(100);
        let ms = now.as_nanos() / 1_000_000;
        let waits = self.pings.borrow().waits;
        [0, 1].map(|side| {
            let wait = (waits[side].as_nanos() / 1_000_000).min(150);
            let rate = Rate::from_bps(self.lines[side].between(ms, ms + 100) * 80 * (200 - wait) / 200);
            Some(rate.clamp(Rate::from_bps(50_000), self.bounds[side].most))
        })
    }
}

/// cake-autorate's algorithm, written from its description: pings at 20 Hz against a baseline that rises slowly and falls fast;
/// bufferbloat if three of the last six are more than 30 ms above it. Then the rate falls to nine tenths of what was achieved, at most
/// once in 300 ms. Under high load it rises by one part in a hundred with each ping, under low load it decays to the base.
struct CakeAutorate {
    bounds: [Bounds; 2],
    rate: [f64; 2],
    bytes: [u64; 2],
    achieved: [f64; 2],
    measured: Instant,
    /// The baseline in ms.
    baseline: Option<f64>,
    late: VecDeque<bool>,
    refractory: [Instant; 2],
    decayed: [Instant; 2],
    pings: Rc<RefCell<Pings>>,
}

impl CakeAutorate {
    fn new(bounds: [Bounds; 2], pings: Rc<RefCell<Pings>>) -> Self {
        Self {
            bounds,
            rate: bounds.map(|bounds| bounds.base.as_bps() as f64),
            bytes: [0; 2],
            achieved: [0.0; 2],
            measured: Instant::ZERO,
            baseline: None,
            late: VecDeque::new(),
            refractory: [Instant::ZERO; 2],
            decayed: [Instant::ZERO; 2],
            pings,
        }
    }

    fn answer(&mut self, now: Instant, round_trip: Span) {
        let round_trip = round_trip.as_secs_f64() * 1e3;
        let baseline = self.baseline.get_or_insert(round_trip);
        let weight = if round_trip > *baseline { 0.001 } else { 0.9 };
        *baseline += weight * (round_trip - *baseline);
        self.late.push_back(round_trip - *baseline > 30.0);
        if self.late.len() > 6 {
            self.late.pop_front();
        }
        let bloated = self.late.iter().filter(|late| **late).count() >= 3;
        for side in 0..2 {
            let Bounds { least, base, most } = self.bounds[side];
            let (base, achieved) = (base.as_bps() as f64, self.achieved[side]);
            let rate = &mut self.rate[side];
            let load = achieved / *rate;
            if bloated {
                if now >= self.refractory[side] {
                    *rate = if load > 0.25 { (0.9 * achieved).min(*rate) } else { *rate * 0.99 };
                    self.refractory[side] = now + Span::from_millis(300);
                }
            } else if load > 0.75 && now >= self.refractory[side] {
                *rate *= 1.01;
            } else if load < 0.25 && now >= self.decayed[side] {
                *rate = if *rate > base { (*rate * 0.99).max(base) } else { (*rate * 1.01).min(base) };
                self.decayed[side] = now + Span::from_secs(1);
            }
            *rate = rate.clamp(least.as_bps() as f64, most.as_bps() as f64);
        }
    }
}

impl RateControl for CakeAutorate {
    fn passes(&mut self, _: Instant, side: Side, packet: &SimPacket) {
        self.bytes[side as usize] += u64::from(packet.size);
    }
    fn decide(&mut self, now: Instant, _: [bool; 2]) -> [Option<Rate>; 2] {
        let time = now.since(self.measured).as_secs_f64();
        if time >= 0.2 {
            self.achieved = self.bytes.map(|bytes| bytes as f64 * 8.0 / time);
            (self.bytes, self.measured) = ([0; 2], now);
        }
        let before = self.rate;
        loop {
            let next = self.pings.borrow_mut().arrive.pop_front_if(|ping| ping.0 <= now);
            let Some((_, wait)) = next else { break };
            self.answer(now, ROUND_TRIP + wait);
        }
        [0, 1].map(|side| (self.rate[side] != before[side]).then(|| Rate::from_bps(self.rate[side] as u64)))
    }
}

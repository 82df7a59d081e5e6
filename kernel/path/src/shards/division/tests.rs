//! Shards as they are in the kernel, in time steps: each sends by a bucket of the rates that are in force in it, and puts what is
//! written in force with the next packet.

use tidegate_core::random::Stream;

use super::*;

const STEP: Span = Span::from_millis(1);
const BURST: u64 = 80_000;

fn granted(total: u64, classes: &[(u64, bool)]) -> Granted {
    Granted {
        rates: Rates { total, classes: classes.iter().map(|(rate, _)| *rate).collect() },
        bursts: vec![BURST; classes.len() + 1],
        borrows: classes.iter().map(|(_, borrows)| *borrows).collect(),
        names: (0..classes.len()).map(|at| format!("c{at}")).collect(),
    }
}

/// A shard with classes of fluid.
#[derive(Clone)]
struct Fluid {
    in_force: Rates,
    written: Rates,
    /// Bits.
    credit: f64,
    of_classes: Vec<f64>,
    waiting: Vec<f64>,
    sent: Vec<f64>,
}

impl Fluid {
    fn new(rates: Rates) -> Self {
        let classes = rates.classes.len();
        Self {
            in_force: rates.clone(),
            written: rates,
            credit: BURST as f64 * 8.0,
            of_classes: vec![BURST as f64 * 8.0; classes],
            waiting: vec![0.0; classes],
            sent: vec![0.0; classes],
        }
    }
    /// A step in which so many bits arrive for each class.
    fn step(&mut self, arrivals: &[f64], borrows: &[bool], is_asked: bool) {
        let depth = BURST as f64 * 8.0;
        self.credit = (self.credit + self.in_force.total as f64 / 1_000.0).min(depth);
        for (credit, rate) in self.of_classes.iter_mut().zip(&self.in_force.classes) {
            *credit = (*credit + *rate as f64 / 1_000.0).min(depth);
        }
        // A timer, which may be late, asks for what waits.
        let arrives = arrivals.iter().any(|bits| *bits > 0.0);
        if !(arrives || is_asked && self.waiting.iter().any(|bits| *bits > 0.0)) {
            return;
        }
        self.in_force = self.written.clone();
        for (waiting, bits) in self.waiting.iter_mut().zip(arrivals) {
            // A queue of 5 ms at 100 Mbit/s.
            *waiting = (*waiting + bits).min(5e5);
        }
        for class in 0..arrivals.len() {
            let bits = self.waiting[class].min(self.of_classes[class].max(0.0)).min(self.credit.max(0.0));
            self.send(class, bits);
        }
        let most: f64 = self
            .in_force
            .classes
            .iter()
            .zip(borrows)
            .map(|(rate, borrows)| if *borrows { *rate as f64 } else { 0.0 })
            .sum();
        let spare = self.credit.max(0.0);
        for class in (0..arrivals.len()).filter(|class| borrows[*class]) {
            let bits = self.waiting[class].min(spare * self.in_force.classes[class] as f64 / most.max(1.0));
            self.send(class, bits);
        }
    }
    fn send(&mut self, class: usize, bits: f64) {
        self.waiting[class] -= bits;
        self.sent[class] += bits;
        self.credit -= bits;
        self.of_classes[class] -= bits.min(self.of_classes[class].max(0.0));
    }
    fn look(&self, flows: &[u64]) -> Look {
        let load = |class: usize| Load {
            sent: (self.sent[class] / 8.0) as u64,
            waiting: u64::from(self.waiting[class] >= 1.0),
            flows: flows[class],
        };
        let in_force = std::iter::once(self.in_force.total).chain(self.in_force.classes.iter().copied()).collect();
        Look { classes: (0..self.sent.len()).map(load).collect(), in_force }
    }
}

struct Stage {
    granted: Granted,
    division: Division,
    shards: Vec<Fluid>,
    now: Instant,
    next_look: Instant,
    /// How often rates were written.
    writes: u32,
}

impl Stage {
    fn new(granted: Granted, shards: usize) -> Self {
        let division = Division::new(granted.clone(), shards);
        let shards = (0..shards).map(|shard| Fluid::new(division.rates(shard))).collect();
        Self { granted, division, shards, now: Instant::ZERO, next_look: Instant::ZERO, writes: 0 }
    }

    /// The law, about what is in force and about what may come into force with the next packet.
    fn check(&self) {
        for pending in [false, true] {
            let of = |shard: &Fluid| if pending { shard.written.clone() } else { shard.in_force.clone() };
            let all: Vec<Rates> = self.shards.iter().map(of).collect();
            for rates in &all {
                assert!(
                    rates.classes.iter().sum::<u64>() <= rates.total,
                    "classes exceed the total of their shard: {rates:?}"
                );
            }
            for (class, most) in self.granted.rates.classes.iter().enumerate() {
                // An idle shard whose bucket is full has not followed yet.
                let busy = all
                    .iter()
                    .zip(&self.shards)
                    .filter(|(_, shard)| pending || shard.of_classes[class] < BURST as f64 * 8.0);
                assert!(busy.map(|(rates, _)| rates.classes[class]).sum::<u64>() <= *most, "class {class}: {all:?}");
            }
            let busy = all.iter().zip(&self.shards).filter(|(_, shard)| pending || shard.credit < BURST as f64 * 8.0);
            assert!(busy.map(|(rates, _)| rates.total).sum::<u64>() <= self.granted.rates.total, "{all:?}");
        }
    }

    /// Lets demand of bits per second and flows for each shard and class last for so long; returns what each has sent, in bits per
    /// second.
    fn run(
        &mut self,
        span: Span,
        demand: &[Vec<(f64, u64)>],
        mut is_asked: impl FnMut(usize) -> bool,
    ) -> Vec<Vec<f64>> {
        let (before, from) = (self.shards.clone(), self.now);
        while self.now < from + span {
            self.now += STEP;
            for (at, (shard, demand)) in self.shards.iter_mut().zip(demand).enumerate() {
                let arrivals: Vec<f64> = demand.iter().map(|(rate, _)| rate / 1_000.0).collect();
                shard.step(&arrivals, &self.granted.borrows, is_asked(at));
            }
            if self.now >= self.next_look {
                let flows: Vec<Vec<u64>> =
                    demand.iter().map(|of| of.iter().map(|(_, flows)| *flows).collect()).collect();
                let looks: Vec<Look> = self.shards.iter().zip(&flows).map(|(shard, flows)| shard.look(flows)).collect();
                for (shard, rates) in self.division.look(self.now, &looks) {
                    self.shards[shard].written = rates;
                    self.writes += 1;
                }
                self.next_look = self.now + Span::from_millis(if self.division.lacks() { 2 } else { 20 });
            }
            self.check();
        }
        let seconds = span.as_nanos() as f64 / 1e9;
        let rates = |(now, before): (&Fluid, &Fluid)| {
            now.sent.iter().zip(&before.sent).map(|(now, before)| (now - before) / seconds).collect()
        };
        self.shards.iter().zip(&before).map(rates).collect()
    }
}

impl Stage {
    /// The rules of the file have changed, and not its rates.
    fn renew(&mut self) {
        let before: Vec<Rates> = (0..self.shards.len()).map(|shard| self.division.rates(shard)).collect();
        self.division.renew(self.granted.clone());
        for (at, before) in before.into_iter().enumerate() {
            assert_eq!(self.division.rates(at), before);
        }
    }
}

fn mbit(rates: &[Vec<f64>]) -> Vec<Vec<f64>> {
    rates.iter().map(|of| of.iter().map(|rate| (rate / 1e5).round() / 10.0).collect()).collect()
}

const SECOND: Span = Span::from_secs(1);
const MORE: f64 = 2e8;

#[test]
fn amounts_are_divided_by_weights_up_to_limits() {
    assert_eq!(filled(12.0, &[f64::INFINITY; 2], &[1.0, 2.0]), [4.0, 8.0]);
    assert_eq!(filled(12.0, &[1.0, f64::INFINITY, 100.0], &[1.0; 3]), [1.0, 5.5, 5.5]);
    assert_eq!(filled(12.0, &[1.0, 0.0, 2.0], &[1.0; 3]), [1.0, 0.0, 2.0]);
    assert_eq!(filled(0.0, &[1.0], &[1.0]), [0.0]);
}

/// All demand in one shard has 127/128 of the total; in both shards each has a part by its flows. The total is used within 2 %.
#[test]
fn the_total_follows_the_demand() {
    let mut stage = Stage::new(granted(100_000_000, &[(100_000_000, true)]), 2);
    for (demand, expected) in [
        ([(MORE, 1), (0.0, 0)], [99.2, 0.0]),
        ([(MORE, 3), (MORE, 1)], [75.0, 25.0]),
        ([(0.0, 0), (MORE, 1)], [0.0, 99.2]),
        ([(3e7, 9), (MORE, 9)], [30.0, 68.1]),
    ] {
        let demand = demand.map(|of| vec![of]);
        stage.run(SECOND, &demand, |_| true);
        let rates = mbit(&stage.run(SECOND, &demand, |_| true));
        for (rate, expected) in rates.iter().zip(expected) {
            assert!((rate[0] - expected).abs() <= 1.0, "{rates:?} in place of {expected}");
        }
    }
    // Once the demand is the same nothing is written.
    let writes = stage.writes;
    stage.run(SECOND, &[vec![(3e7, 9)], vec![(MORE, 9)]], |_| true);
    assert!(stage.writes - writes <= 2, "{}", stage.writes - writes);
}

/// A shard that begins to send has 9/10 of what it is due within three looks, and the packets that its bucket pays at once.
#[test]
fn demand_that_moves_is_followed_within_three_looks() {
    let mut stage = Stage::new(granted(100_000_000, &[(100_000_000, true)]), 2);
    stage.run(SECOND, &[vec![(MORE, 1)], vec![(0.0, 0)]], |_| true);
    for (demand, due) in
        [([vec![(0.0, 0)], vec![(MORE, 1)]], 99_000_000), ([vec![(MORE, 1)], vec![(MORE, 1)]], 50_000_000)]
    {
        let shard = usize::from(due > 50_000_000);
        let mut millis = 0;
        while stage.shards[shard].in_force.total < due / 10 * 9 {
            stage.run(STEP, &demand, |_| true);
            millis += 1;
            assert!(millis <= 65, "{:?}", stage.shards[shard].in_force);
        }
    }
}

/// A class keeps its rate in whichever shard it is, while others would use all; one that does not borrow never has more.
#[test]
fn classes_keep_their_rates_wherever_they_are() {
    let mut stage = Stage::new(granted(100_000_000, &[(10_000_000, false), (30_000_000, true), (60_000_000, true)]), 3);
    let none = (0.0, 0);
    let all = [vec![(MORE, 2), none, none], vec![none, (MORE, 5), none], vec![none, none, (MORE, 1)]];
    stage.run(SECOND, &all, |_| true);
    let rates = mbit(&stage.run(SECOND, &all, |_| true));
    assert!(rates[0][0] > 9.7 && rates[1][1] > 29.4 && rates[2][2] > 58.8, "{rates:?}");
    // The last class is idle: the second borrows, in two shards, by its flows.
    let two = [vec![(MORE, 2), (MORE, 3), none], vec![none, (MORE, 1), none], vec![none; 3]];
    stage.run(SECOND, &two, |_| true);
    let rates = mbit(&stage.run(SECOND, &two, |_| true));
    let (first, second) = (rates[0][1], rates[1][1]);
    assert!(rates[0][0] > 9.7 && rates[0][0] <= 10.1, "{rates:?}");
    assert!(first + second > 87.5 && first + second < 90.1 && (first / second - 3.0).abs() < 0.3, "{rates:?}");
}

/// Random demand of random classes in up to five shards, whose timers are late: the law holds at every moment.
#[test]
fn the_sum_never_exceeds_the_file() {
    for seed in 0..60 {
        let mut random = Stream::named(seed, "division");
        let mut below = |most: u64| random.next_u64() % most;
        let classes: Vec<(u64, bool)> =
            (0..1 + below(4)).map(|_| (100_000 + below(40_000_000), below(3) > 0)).collect();
        let total = classes.iter().map(|(rate, _)| rate).sum::<u64>() + below(2) * below(50_000_000);
        let shards = 2 + below(4) as usize;
        let mut stage = Stage::new(granted(total, &classes), shards);
        for _ in 0..12 {
            let one = |below: &mut dyn FnMut(u64) -> u64| match below(3) {
                0 => (0.0, 0),
                1 => (below(total / 4) as f64, 1),
                _ => (MORE, 1 + below(20)),
            };
            let demand: Vec<Vec<(f64, u64)>> =
                (0..shards).map(|_| classes.iter().map(|_| one(&mut below)).collect()).collect();
            let mut late = Stream::named(seed, "late");
            stage.run(Span::from_millis(30 + below(400)), &demand, |_| late.below(5) > 0);
            stage.renew();
        }
    }
}

/// With another file each class keeps its parts, also where the classes are others.
#[test]
fn another_file_keeps_the_parts() {
    let mut stage = Stage::new(granted(100_000_000, &[(40_000_000, true), (60_000_000, true)]), 2);
    stage.run(SECOND, &[vec![(MORE, 1); 2], vec![(0.0, 0); 2]], |_| true);
    let before = stage.division.rates(0);
    stage.division.renew(granted(50_000_000, &[(20_000_000, true), (30_000_000, true)]));
    let after = stage.division.rates(0);
    let half = |rate: u64, of: u64| rate.abs_diff(of / 2) <= 1;
    assert!(
        half(after.total, before.total) && after.classes.iter().zip(&before.classes).all(|(is, was)| half(*is, *was)),
        "{after:?}"
    );
    let mut other = granted(80_000_000, &[(10_000_000, true), (30_000_000, true), (40_000_000, true)]);
    other.names = ["c1", "new", "c0"].map(str::to_owned).to_vec();
    stage.division.renew(other);
    let all = [0, 1].map(|shard| stage.division.rates(shard));
    for rates in &all {
        assert!(rates.classes.iter().sum::<u64>() <= rates.total, "{all:?}");
    }
    assert!(all[0].total + all[1].total <= 80_000_000 && all[0].total > 79_000_000, "{all:?}");
    assert!(all[0].classes[0] > 9_000_000 && all[0].classes[2] > 37_000_000, "{all:?}");
}

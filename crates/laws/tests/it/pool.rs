//! Shards with a pool of credit: rates over all of them, use of what others leave, order, fairness.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use tidegate_core::bucket::TokenBucket;
use tidegate_core::fbq::{Borrow, ClassParams, Fbc, FbcParams, Profile};
use tidegate_core::pool::{LEAST_MORE, Pool, PoolAccess, Reply, Request, SLICE, Stake};
use tidegate_core::qdisc::Discard;
use tidegate_core::random::Stream;
use tidegate_core::{Bytes, ClassId, Credit, Deadline, Instant, Packet, Qdisc, Rate, Span};
use tidegate_laws::TestPacket;

struct Locked(Mutex<Pool>);

impl PoolAccess for Locked {
    fn take(&self, now: Instant, request: &Request) -> Reply {
        self.0.lock().unwrap().take(now, request)
    }
    fn give_back(&self, now: Instant, shard: u32, class: Option<ClassId>, bytes: Bytes) {
        self.0.lock().unwrap().give_back(now, shard, class, bytes);
    }
    fn promise(&self, class: ClassId, minimum: Rate) -> bool {
        self.0.lock().unwrap().promise(class, minimum)
    }
    fn release(&self, class: ClassId, minimum: Rate) {
        self.0.lock().unwrap().release(class, minimum);
    }
    fn promised(&self, class: ClassId) -> Rate {
        self.0.lock().unwrap().promised(class)
    }
    fn change(&self, now: Instant, total: (Rate, Bytes), classes: &mut dyn Iterator<Item = (Rate, Bytes)>) {
        self.0.lock().unwrap().change(now, total, classes);
    }
}

const BURST: Bytes = Bytes::new(3_028);
const LARGEST: u64 = 1_514;

fn start() -> Instant {
    Instant::from_nanos(1_000_000_000)
}

fn slice(rate: Rate) -> Bytes {
    rate.credit_in(SLICE).bytes_floor().max(LEAST_MORE)
}

/// The bytes that a class, or all together, sent at each time, with the credit that was outstanding before.
#[derive(Clone, Default)]
struct Sent(Vec<(Instant, u64, u64)>);

impl Sent {
    /// Law 1, in every window between two packets.
    fn conforms(&self, what: &str, depth: Bytes, rate: Rate) -> Result<(), String> {
        for (from, &(begin, _, outstanding)) in self.0.iter().enumerate() {
            let mut sum = 0;
            for &(end, bytes, _) in &self.0[from..] {
                sum += bytes;
                let may = Credit::of(depth + Bytes::new(outstanding)) + rate.credit_in(end.since(begin));
                if Credit::of(Bytes::new(sum)) > may {
                    let span = end.since(begin);
                    return Err(format!("law 1, {what}: {sum} bytes in {span}, {outstanding} outstanding"));
                }
            }
        }
        Ok(())
    }
    fn bytes(&self, from: Instant, to: Instant) -> u64 {
        self.0.iter().filter(|(time, ..)| (from..to).contains(time)).map(|(_, bytes, _)| bytes).sum()
    }
}

/// The pool alone, with shards that take, use late or return at random.
#[test]
fn slices_stay_within_rates() {
    for seed in 0..60 {
        let mut random = Stream::named(seed, "pool");
        let shards = 1 + random.below(4) as u32;
        let rates: Vec<Rate> = (0..1 + random.below(3)).map(|_| Rate::from_kbit(random.below(40_000))).collect();
        let total = rates.iter().copied().sum::<Rate>() + Rate::from_kbit(random.below(20_000));
        let classes: Vec<_> = rates.iter().map(|&rate| (rate, BURST)).collect();
        let mut pool = Pool::new(shards as usize, (total, BURST), &classes, start());
        let mut held: BTreeMap<(u32, Option<u32>), (u64, Instant)> = BTreeMap::new();
        // What a shard sends of a class is shaped to its rate, whatever credit there is.
        let mut paced: HashMap<(u32, u32), TokenBucket> = HashMap::new();
        let (mut by_class, mut all) = (vec![Sent::default(); rates.len()], Sent::default());
        let mut now = start();
        for _ in 0..400 {
            now += Span::from_nanos(random.below(1_500_000));
            // The clocks of shards differ a little.
            let at = now.saturating_sub(Span::from_nanos(random.below(50_000)));
            let shard = random.below(shards.into()) as u32;
            let class = random.below(rates.len() as u64 + 1) as u32;
            let class = (class < rates.len() as u32).then_some(class);
            let (left, from) = held.get(&(shard, class)).copied().unwrap_or((0, Instant::ZERO));
            let id = class.map(ClassId);
            match random.below(8) {
                0 => {
                    pool.give_back(at, shard, id, Bytes::new(left));
                    held.remove(&(shard, class));
                }
                1..=4 if left > 0 && from <= at => {
                    let bytes = 1 + random.below(left.min(LARGEST));
                    if let Some(q) = class {
                        let full = || TokenBucket::full(rates[q as usize], BURST, start());
                        if !paced.entry((shard, q)).or_insert_with(full).take(at, Bytes::new(bytes)) {
                            continue;
                        }
                    }
                    let outstanding = |of: &dyn Fn(Option<u32>) -> bool| {
                        held.iter().filter(|((_, class), _)| of(*class)).map(|(_, (left, _))| left).sum::<u64>()
                    };
                    if let Some(q) = class {
                        by_class[q as usize].0.push((at, bytes, outstanding(&|other| other == class)));
                    }
                    all.0.push((at, bytes, outstanding(&|_| true)));
                    held.insert((shard, class), (left - bytes, from));
                }
                _ if left == 0 => {
                    let need = Bytes::new(40 + random.below(LARGEST - 40));
                    let wish = need + Bytes::new(random.below(100_000));
                    let stake = Stake { weight: 1 + random.below(9), minimum: Rate::from_kbit(random.below(5_000)) };
                    match pool.take(at, &Request { shard, class: id, need, wish, stake }) {
                        Reply::Granted(slice) => {
                            assert!(slice.bytes >= need && slice.bytes <= wish, "{slice:?}");
                            assert!(slice.from >= at);
                            held.insert((shard, class), (slice.bytes.as_u64(), slice.from));
                        }
                        Reply::Later(again) => assert!(class.is_none() && again > at),
                        Reply::Never => assert!(class.is_none_or(|q| rates[q as usize].is_zero())),
                    }
                }
                _ => {}
            }
        }
        let mut depths = pool.spare_depth();
        for (q, sent) in by_class.iter().enumerate() {
            let depth = pool.depth(ClassId(q as u32)).unwrap();
            depths += depth;
            sorted(sent).conforms(&format!("class {q}, seed {seed}"), depth, rates[q]).unwrap();
        }
        sorted(&all).conforms(&format!("all, seed {seed}"), depths, total).unwrap();
    }
}

/// The times of shards are not in order: the window law holds for them in order, with the difference of the clocks.
fn sorted(sent: &Sent) -> Sent {
    let mut all = sent.0.clone();
    all.sort_by_key(|(time, ..)| *time);
    // What is outstanding before the first of a window counts also for those whose clock is behind.
    for at in 0..all.len() {
        let until = all[at].0 + Span::from_nanos(50_000);
        all[at].2 =
            all[at..].iter().take_while(|(time, ..)| *time <= until).map(|one| one.2 + one.1).max().unwrap_or(0);
    }
    Sent(all)
}

/// Several shapers with one pool, in virtual time.
struct Bench {
    pool: Arc<Locked>,
    shards: Vec<Fbc<TestPacket>>,
    rates: Vec<Rate>,
    total: Rate,
    now: Instant,
    next: u64,
    last: HashMap<u64, u64>,
    /// By class, and by all.
    sent: Vec<Sent>,
    all: Sent,
    /// Bytes by shard and class, and by flow.
    by_shard: BTreeMap<(usize, u32), Sent>,
    by_flow: BTreeMap<u64, Sent>,
    /// Calls at a deadline that sent nothing.
    fruitless: u64,
}

impl Bench {
    fn new(shards: usize, total: Rate, classes: &[(Rate, Borrow)], profiles: &[Profile]) -> Self {
        let params: Vec<_> = classes
            .iter()
            .map(|&(rate, borrow)| ClassParams { borrow, burst: BURST, ..ClassParams::new(rate) })
            .collect();
        let rates: Vec<Rate> = classes.iter().map(|class| class.0).collect();
        let bursts: Vec<_> = rates.iter().map(|&rate| (rate, BURST)).collect();
        let pool = Arc::new(Locked(Mutex::new(Pool::new(shards, (total, BURST), &bursts, start()))));
        let shards = (0..shards as u32)
            .map(|number| {
                let all = FbcParams { burst: BURST, ..FbcParams::new(total) };
                let mut fbc = Fbc::new(all, params.clone(), profiles.to_vec(), start()).unwrap();
                fbc.share(pool.clone(), number);
                fbc
            })
            .collect();
        let sent = rates.iter().map(|_| Sent::default()).collect();
        let (last, all, by_shard, by_flow) = Default::default();
        Self { pool, shards, rates, total, now: start(), next: 0, last, sent, all, by_shard, by_flow, fruitless: 0 }
    }

    fn put(&mut self, shard: usize, flow: u64, class: u32, profile: u32, size: u64) {
        let packet = TestPacket::new(self.next, flow, size).in_class(class).with_profile(profile);
        self.next += 1;
        self.shards[shard].enqueue(self.now, packet, &mut Discard);
    }

    fn backlog(&self, shard: usize, class: u32) -> u64 {
        self.shards[shard].class(ClassId(class)).unwrap().backlog.bytes.as_u64()
    }

    fn outstanding(&self, class: Option<u32>) -> u64 {
        self.shards.iter().map(|fbc| fbc.outstanding(class.map(ClassId)).as_u64()).sum()
    }

    /// Lets every shard send what it may until `until`; `refill` is called before each packet.
    fn run(&mut self, until: Instant, refill: &mut dyn FnMut(&mut Self)) {
        loop {
            refill(self);
            let due =
                |(shard, fbc): (usize, &Fbc<TestPacket>)| Some((fbc.deadline(self.now).instant(self.now)?, shard));
            let Some((due, shard)) = self.shards.iter().enumerate().filter_map(due).min() else { break };
            if due >= until {
                break;
            }
            // Law 3.
            if due > self.now {
                let before = due.saturating_sub(Span::from_nanos(1));
                assert!(before < self.now || self.shards[shard].dequeue(before, &mut Discard).is_none());
            }
            self.now = due;
            let all: u64 =
                (0..self.rates.len() as u32).map(|q| self.outstanding(Some(q))).sum::<u64>() + self.outstanding(None);
            let classes: Vec<u64> =
                (0..self.rates.len() as u32).map(|q| self.outstanding(Some(q)) + self.outstanding(None)).collect();
            let borrowed = |bench: &Self| -> u64 {
                bench.shards[shard].classes().map(|class| class.borrowed.bytes.as_u64()).sum()
            };
            let before = borrowed(self);
            let Some(packet) = self.shards[shard].dequeue(due, &mut Discard) else {
                self.fruitless += 1;
                continue;
            };
            assert!(self.last.insert(packet.flow.flow, packet.id).is_none_or(|last| last < packet.id), "law 6");
            let (size, q) = (packet.size().as_u64(), packet.class);
            self.all.0.push((due, size, all));
            if borrowed(self) == before {
                self.sent[q.0 as usize].0.push((due, size, classes[q.0 as usize]));
            }
            self.by_shard.entry((shard, q.0)).or_default().0.push((due, size, 0));
            self.by_flow.entry(packet.flow.flow).or_default().0.push((due, size, 0));
        }
        self.now = self.now.max(until);
    }

    fn conforms(&self) -> Result<(), String> {
        let pool = self.pool.0.lock().unwrap();
        let mut depths = pool.spare_depth();
        for (q, sent) in self.sent.iter().enumerate() {
            let depth = pool.depth(ClassId(q as u32)).unwrap();
            depths += depth;
            sent.conforms(&format!("class {q}"), depth, self.rates[q])?;
        }
        self.all.conforms("all", depths, self.total)
    }

    fn rate_of_flow(&self, flow: u64, from: Instant) -> f64 {
        let sent = self.by_flow.get(&flow).map_or(0, |sent| sent.bytes(from, self.now));
        sent as f64 * 8.0 / self.now.since(from).as_secs_f64()
    }
    fn rate_of(&self, shard: usize, class: u32, from: Instant) -> f64 {
        let sent = self.by_shard.get(&(shard, class)).map_or(0, |sent| sent.bytes(from, self.now));
        sent as f64 * 8.0 / self.now.since(from).as_secs_f64()
    }
}

/// Keeps `flows`, each with its shard, class and profile, backlogged.
fn greedy(flows: &[(usize, u64, u32, u32)]) -> impl FnMut(&mut Bench) + '_ {
    move |bench| {
        for &(shard, flow, class, profile) in flows {
            while bench.shards[shard].flow(flow).is_none_or(|view| view.backlog.packets < 3) {
                bench.put(shard, flow, class, profile, LARGEST);
            }
        }
    }
}

fn near(what: &str, is: f64, wanted: f64, part: f64) {
    assert!((is - wanted).abs() <= wanted * part, "{what}: {is:.0} instead of {wanted:.0}");
}

/// Random arrivals and pauses in several shards: rates hold in every window, flows stay in order, and what one shard does
/// not use is used by the others.
#[test]
fn the_laws_hold_for_several_shards() {
    for seed in 0..24 {
        let mut random = Stream::named(seed, "shards");
        let shards = 1 + random.below(4) as usize;
        let borrow = |n| if n == 0 { Borrow::FromOthers } else { Borrow::Never };
        let classes: Vec<_> = (0..1 + random.below(3))
            .map(|_| (Rate::from_kbit(500 + random.below(30_000)), borrow(random.below(2))))
            .collect();
        let total = classes.iter().map(|class| class.0).sum::<Rate>() + Rate::from_kbit(random.below(9_000));
        let mut bench = Bench::new(shards, total, &classes, &[]);
        let mut arrived = 0;
        // By class: since when some shard has a queue.
        let mut busy: Vec<Option<Instant>> = vec![None; classes.len()];
        for _ in 0..60 {
            let (shard, class) = (random.below(shards as u64) as usize, random.below(classes.len() as u64) as u32);
            for _ in 0..random.below(40) {
                let flow = (shard as u64) << 32 | u64::from(class) << 16 | random.below(4);
                bench.put(shard, flow, class, 0, 40 + random.below(LARGEST - 39));
                arrived += 1;
            }
            let until = bench.now + Span::from_nanos(random.below(6_000_000));
            let is_busy = |bench: &Bench, q: usize| (0..shards).any(|shard| bench.backlog(shard, q as u32) > 0);
            bench.run(until, &mut |bench| {
                for (q, since) in busy.iter_mut().enumerate() {
                    let began = is_busy(bench, q).then(|| since.unwrap_or(bench.now));
                    if let (Some(from), None) = (*since, began) {
                        used(bench, q, from, seed);
                    }
                    *since = began;
                }
            });
        }
        bench.conforms().unwrap_or_else(|text| panic!("{text}, seed {seed}"));
        bench.run(Instant::MAX, &mut |_| {});
        assert_eq!(bench.all.0.len(), arrived, "law 1 of disciplines, seed {seed}");
        for q in (0..classes.len() as u32).map(Some).chain([None]) {
            assert_eq!(bench.outstanding(q), 0, "nothing is held without a queue, seed {seed}");
        }
    }
}

/// Law 2: while a class had a queue somewhere it has sent at its rate, but for slices.
fn used(bench: &Bench, q: usize, from: Instant, seed: u64) {
    let sent: u64 = (0..bench.shards.len())
        .filter_map(|shard| bench.by_shard.get(&(shard, q as u32)))
        .map(|sent| sent.bytes(from, bench.now + Span::from_nanos(1)))
        .sum();
    let rate = bench.rates[q];
    let less = (slice(rate).as_u64() + 2 * LARGEST) * (bench.shards.len() as u64 + 1);
    let earned = rate.credit_in(bench.now.since(from)).bytes_floor().as_u64();
    assert!(sent + less >= earned, "law 2: {sent} of {earned} bytes, seed {seed}");
}

#[test]
fn a_lone_busy_shard_has_the_whole_rate() {
    for shards in [1, 2, 8] {
        let mut bench = Bench::new(shards, Rate::from_mbit(50), &[(Rate::from_mbit(50), Borrow::Never)], &[]);
        let busy = [(shards - 1, 1, 0, 0)];
        bench.run(start() + Span::from_secs(1), &mut greedy(&busy));
        bench.conforms().unwrap();
        near("alone", bench.rate_of(shards - 1, 0, start()), 50e6, 0.002);
        // Others come, and leave what they do not need.
        let from = bench.now;
        bench.run(from + Span::from_secs(1), &mut greedy(&[(shards - 1, 1, 0, 0), (0, 2, 0, 0)]));
        let sum: f64 = if shards == 1 { 0.0 } else { bench.rate_of(0, 0, from) } + bench.rate_of(shards - 1, 0, from);
        near("together", sum, 50e6, 0.002);
        near("a flow", bench.rate_of_flow(2, from), 25e6, 0.01);
        bench.conforms().unwrap();
    }
}

#[test]
fn flows_share_a_class_over_all_shards() {
    // One flow in the first shard, three in the second, none in the third.
    let mut bench = Bench::new(3, Rate::from_mbit(40), &[(Rate::from_mbit(40), Borrow::Never)], &[]);
    let flows = [(0, 1, 0, 0), (1, 2, 0, 0), (1, 3, 0, 0), (1, 4, 0, 0)];
    bench.run(start() + Span::from_secs(2), &mut greedy(&flows));
    for flow in 1..=4 {
        near("a flow", bench.rate_of_flow(flow, start() + Span::from_millis(100)), 10e6, 0.02);
    }
    bench.conforms().unwrap();
}

#[test]
fn a_minimum_holds_against_the_flows_of_other_shards() {
    let profiles = [Profile::default(), Profile { minimum: Rate::from_mbit(12), ..Profile::default() }];
    let mut bench = Bench::new(2, Rate::from_mbit(20), &[(Rate::from_mbit(20), Borrow::Never)], &profiles);
    let mut flows = vec![(0, 1, 0, 1)];
    flows.extend((2..10).map(|flow| (1, flow, 0, 0)));
    bench.run(start() + Span::from_secs(3), &mut greedy(&flows));
    let from = start() + Span::from_secs(1);
    let promised = bench.rate_of_flow(1, from);
    assert!(promised >= 12e6 * 0.98, "{promised:.0}");
    let others: f64 = (2..10).map(|flow| bench.rate_of_flow(flow, from)).sum();
    near("all", promised + others, 20e6, 0.01);
}

/// Minimums of all shards together fit into the class; one that waits is granted when another shard releases its own.
#[test]
fn minimums_are_granted_over_all_shards() {
    let profiles = [Profile::default(), Profile { minimum: Rate::from_mbit(12), ..Profile::default() }];
    let mut bench = Bench::new(2, Rate::from_mbit(20), &[(Rate::from_mbit(20), Borrow::Never)], &profiles);
    let flows = [(0, 1, 0, 1), (1, 2, 0, 1)];
    let granted = |bench: &Bench| [0, 1].map(|at| bench.shards[at].flow(at as u64 + 1).unwrap().granted);
    bench.run(start() + Span::from_millis(10), &mut greedy(&flows));
    assert_eq!(granted(&bench), [true, false]);
    let now = bench.now;
    bench.shards[0].set_minimum(now, 1, Rate::from_mbit(8)).unwrap();
    bench.run(now + Span::from_millis(10), &mut greedy(&flows));
    assert_eq!(granted(&bench), [true, true]);
    // The class has less: what does not fit waits again.
    for shard in &mut bench.shards {
        assert!(shard.set_class_rate(bench.now, ClassId(0), Rate::from_mbit(10)));
    }
    let both: u64 = [12, 8].iter().zip([1, 0]).filter(|(_, at)| granted(&bench)[*at]).map(|(rate, _)| rate).sum();
    assert!(both <= 10, "{:?}", granted(&bench));
}

#[test]
fn borrowers_of_one_shard_have_only_what_classes_of_others_leave() {
    // The first class borrows and is in the first shard, the second has 15 Mbit/s and is in the second.
    let classes = [(Rate::from_mbit(5), Borrow::FromOthers), (Rate::from_mbit(15), Borrow::Never)];
    let mut bench = Bench::new(2, Rate::from_mbit(20), &classes, &[]);
    let (borrower, entitled) = ((0, 1, 0, 0), (1, 2, 1, 0));
    let mut from = bench.now;
    bench.run(from + Span::from_secs(1), &mut greedy(&[borrower]));
    near("alone it borrows", bench.rate_of(0, 0, from + Span::from_millis(50)), 20e6, 0.02);
    from = bench.now;
    bench.run(from + Span::from_secs(1), &mut greedy(&[borrower, entitled]));
    let settled = from + Span::from_millis(100);
    near("the entitled", bench.rate_of(1, 1, settled), 15e6, 0.01);
    near("the borrower", bench.rate_of(0, 0, settled), 5e6, 0.03);
    bench.conforms().unwrap();
}

#[test]
fn borrowers_of_two_shards_share_what_is_left() {
    let classes = [(Rate::from_mbit(4), Borrow::FromOthers), (Rate::from_mbit(16), Borrow::Never)];
    let mut bench = Bench::new(2, Rate::from_mbit(20), &classes, &[]);
    bench.run(start() + Span::from_secs(2), &mut greedy(&[(0, 1, 0, 0), (1, 2, 0, 0)]));
    let from = start() + Span::from_millis(100);
    let rates = [bench.rate_of_flow(1, from), bench.rate_of_flow(2, from)];
    near("all", rates.iter().sum(), 20e6, 0.02);
    near("the first", rates[0], 10e6, 0.1);
    bench.conforms().unwrap();
}

#[test]
fn a_change_of_rates_holds_for_all_shards() {
    let mut bench = Bench::new(2, Rate::from_mbit(20), &[(Rate::from_mbit(10), Borrow::Never)], &[]);
    let flows = [(0, 1, 0, 0), (1, 2, 0, 0)];
    bench.run(start() + Span::from_millis(500), &mut greedy(&flows));
    for shard in &mut bench.shards {
        assert!(shard.set_class_rate(bench.now, ClassId(0), Rate::from_mbit(20)));
    }
    let from = bench.now;
    bench.run(from + Span::from_secs(1), &mut greedy(&flows));
    near("both", bench.rate_of(0, 0, from) + bench.rate_of(1, 0, from), 20e6, 0.02);
    for shard in &mut bench.shards {
        assert!(shard.set_class_rate(bench.now, ClassId(0), Rate::ZERO));
    }
    bench.run(bench.now + Span::from_millis(100), &mut |_| {});
    for shard in &bench.shards {
        assert_eq!(shard.deadline(bench.now), Deadline::Idle);
    }
    for shard in &mut bench.shards {
        assert!(shard.set_class_rate(bench.now, ClassId(0), Rate::from_mbit(2)));
    }
    let from = bench.now;
    bench.run(from + Span::from_secs(1), &mut greedy(&flows));
    near("again", bench.rate_of(0, 0, from) + bench.rate_of(1, 0, from), 2e6, 0.2);
}

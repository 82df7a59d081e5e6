//! CBQ with the parameters that `struct twin_cbq_options` of `kernel/tree.h` has, and disciplines in its leaves.

use tidegate_core::accounts::Account;
use tidegate_core::cbq::{
    Accounting, Borrow, Cbq, Class, Conserving, Derivation, Finish, General, Heuristic, IdleBounds, Lead, LinkClock,
    Params, Regulation, Removal, Sharing,
};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::qdisc::Outlet;
use tidegate_core::random::Stream;
use tidegate_core::{Bytes, ClassId, Instant, Packet, Qdisc, Rate, Span};
use tidegate_kernel::options::cbq_class_options::{BORROWS, LEVEL, PARENT, POSITION, PRIORITY, RATE};
use tidegate_kernel::options::{CBQ, CBQ_INNER, CBQ_LEAVES, FIFO, FQ_CODEL, Options, RAS, RED, SPACE};
use tidegate_kernel::tree::{self, CLASS_NUMBERS};

use super::classes::{inside, record_of};
use super::equal::spread;
use super::reference::{COUNTS, Decision, LEAF, Numbered, Operation, SET_RATE, Specification};

/// A tree: its leaves have the first numbers, the root has the last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    params: Params,
    /// The parent and the parameters of each class but the root.
    classes: Vec<(ClassId, Class)>,
    /// The order in which the first leaves are made. The others are vacant in the beginning, as those of reservations are.
    order: Vec<u32>,
    /// The discipline of each leaf.
    insides: Vec<Options>,
}

/// The rates of classes, and the sums of those below each: the last is that of the root. A leaf that is vacant has rate 0.
#[derive(Clone, Debug)]
pub struct Rates {
    own: Vec<u64>,
    given: Vec<u64>,
    /// The number of leaves that were ever made.
    made: u64,
}

/// The counts of a class of this number, less 1. A leaf that is vacant has none.
pub fn counts(cbq: &Cbq<Numbered>, number: u64) -> Decision {
    let stats = cbq.stats(ClassId((number - 1) as u32)).copied().unwrap_or_default();
    let sum = |of: Account| of.packets << 32 ^ of.bytes.as_u64();
    [sum(stats.sent), sum(stats.borrowed), sum(stats.lent), sum(stats.rescued), stats.overlimit, stats.regulated]
}

impl Tree {
    /// At random, for a link of `rate` on which a packet lasts about `typical` nanoseconds.
    pub fn random(random: &mut Stream, rate: u64, typical: u64) -> Self {
        let few = random.below(8) != 0;
        let occupied = 1 + random.below(if few { 6 } else { CBQ_LEAVES }) as u32;
        let vacant = if random.below(3) == 0 { 0 } else { 1 + random.below(4) as u32 };
        let leaves = (occupied + vacant).min(CBQ_LEAVES as u32);
        let inner = random.below(if few { 5 } else { CBQ_INNER }) as u32;
        let root = leaves + inner;
        let mut free = vec![rate; root as usize + 1];
        let mut depth = vec![1; root as usize + 1];
        let mut classes = vec![(ClassId(root), Class::new(Rate::ZERO)); root as usize];
        // Inner classes first, each below one that there is already.
        for id in (leaves..root).chain(0..occupied) {
            let above = if id < leaves { inner } else { id - leaves };
            let parent = leaves + random.below(u64::from(above) + 1) as u32;
            let is_full = depth[parent as usize] > 28 || free[parent as usize] == 0;
            let parent = if parent == leaves + above || is_full { root } else { parent };
            let own = spread(random, 1, (free[parent as usize] / if few { 4 } else { 64 }).max(1));
            free[parent as usize] -= own;
            free[id as usize] = own;
            depth[id as usize] = depth[parent as usize] + 1;
            classes[id as usize] = (ClassId(parent), class(random, own, typical));
        }
        for id in occupied..leaves {
            let parent = leaves + random.below(u64::from(inner) + 1) as u32;
            let parent = if depth[parent as usize] > 28 { root } else { parent };
            classes[id as usize] = (ClassId(parent), class(random, 1, typical));
        }
        let mut order: Vec<u32> = (0..occupied).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        // The program with CBQ has no CAKE.
        let (mut room, mut left) = (SPACE, [true, false]);
        let mut insides: Vec<_> = (0..occupied).map(|_| inside(random, typical, &mut room, &mut left)).collect();
        let fifo = |random: &mut Stream| Options {
            kind: FIFO,
            limit_packets: spread(random, 1, 200),
            limit_bytes: spread(random, 100, 1_000_000),
            ..Options::default()
        };
        insides.extend((occupied..leaves).map(|_| fifo(random)));
        let params = params(random, rate, typical, occupied, root);
        Self { params, classes, order, insides }
    }

    /// The leaves.
    pub fn leaves(&self) -> u64 {
        self.insides.len() as u64
    }

    /// The class of a flow: seldom one that there is not.
    pub fn of_flow(&self, random: &mut Stream, flow: u64) -> u64 {
        if random.below(200) == 0 { random.below(self.leaves() + 3) } else { flow % self.leaves() }
    }

    /// The rates with which it begins.
    pub fn rates(&self) -> Rates {
        let root = self.classes.len();
        let rate = |(id, (_, class)): (usize, &(ClassId, Class))| {
            if self.is_first(id) { class.rate.as_bps() } else { 0 }
        };
        let mut own: Vec<u64> = self.classes.iter().enumerate().map(rate).collect();
        own.push(self.params.link.as_bps());
        let mut given = vec![0; root + 1];
        for (id, (parent, _)) in self.classes.iter().enumerate() {
            given[parent.0 as usize] += own[id];
        }
        Rates { own, given, made: self.order.len() as u64 }
    }

    /// Whether a class is there in the beginning.
    fn is_first(&self, id: usize) -> bool {
        !(self.order.len()..self.insides.len()).contains(&id)
    }

    /// A change of a class at random, as far as its parent has the rate: another rate, and seldom another priority and borrowing; or a
    /// leaf is made or removed. `None` where there is no rate for a leaf.
    pub fn change(&self, random: &mut Stream, now: u64, rates: &mut Rates) -> Option<Operation> {
        let (first, leaves) = (self.order.len() as u64, self.leaves());
        let is_leaf = first < leaves && random.below(2) == 0;
        let id = if is_leaf { first + random.below(leaves - first) } else { random.below(self.classes.len() as u64) };
        let id = id as usize;
        let parent = self.classes[id].0.0 as usize;
        let before = rates.own[id];
        let replaces = !self.is_first(id) && (before == 0 || random.below(2) == 0);
        let least = rates.given[id].max(1);
        let most = rates.own[parent] - rates.given[parent] + before;
        let rate = match replaces {
            true if before != 0 => 0,
            true if most == 0 => return None,
            _ => spread(random, least, most.max(least)),
        };
        rates.given[parent] = rates.given[parent] + rate - before;
        rates.own[id] = rate;
        let class = &self.classes[id].1;
        let other = random.below(3) == 0;
        let priority = if other { random.below(8) } else { class.priority.into() };
        let borrows = if other { random.below(2) } else { u64::from(class.borrow == Borrow::FromParent) };
        let number = id as u64 + 1;
        if !replaces {
            return Some([SET_RATE, now, rate, number, priority, borrows]);
        }
        let position = rates.made;
        rates.made += u64::from(rate != 0);
        Some([LEAF, now, rate, number, priority | position << 32, borrows])
    }

    /// Asks for the counts of a class.
    pub fn count(&self, random: &mut Stream, now: u64) -> Operation {
        [COUNTS, now, 0, 1 + random.below(self.classes.len() as u64 + 1), 0, 0]
    }

    /// Makes a change in the discipline of the core.
    pub fn apply(&self, cbq: &mut Cbq<Numbered>, now: Instant, operation: Operation, out: &mut dyn Outlet<Numbered>) {
        let [what, _, rate, number, priority, borrows] = operation;
        let id = ClassId((number - 1) as u32);
        let borrow = if borrows == 1 { Borrow::FromParent } else { Borrow::Never };
        let with = |class: Class| Class { rate: Rate::from_bps(rate), priority: priority as u8, borrow, ..class };
        let changed = match (what, rate) {
            (LEAF, 0) => cbq.remove(now, id, Removal::Flush, out),
            (LEAF, _) => {
                let (parent, class) = self.classes[id.0 as usize];
                let queue = queue(&self.insides[id.0 as usize]).unwrap_or_else(|error| panic!("{error}"));
                cbq.add_leaf(now, id, parent, with(class), queue)
            }
            _ => {
                let class = *cbq.class(id).unwrap_or_else(|| panic!("{operation:?}: there is no such class"));
                cbq.change(now, id, with(class))
            }
        };
        assert!(changed.is_ok(), "{operation:?}: {changed:?}");
    }

    /// The discipline of the core, empty.
    ///
    /// # Errors
    /// When the tree is none, or a discipline in it.
    pub fn discipline(&self) -> Result<Cbq<Numbered>, String> {
        self.build(queue)
    }

    fn build<P: Packet, Q: Qdisc<P>>(
        &self,
        mut queue: impl FnMut(&Options) -> Result<Q, String>,
    ) -> Result<Cbq<P, Q>, String> {
        let text = |error: tidegate_core::cbq::TreeError| error.to_string();
        let mut cbq = Cbq::new(self.params).map_err(text)?;
        for (id, (parent, class)) in self.classes.iter().enumerate().skip(self.insides.len()) {
            cbq.add_inner(Instant::ZERO, ClassId(id as u32), *parent, *class).map_err(text)?;
        }
        for &leaf in &self.order {
            let (parent, class) = self.classes[leaf as usize];
            let queue = queue(&self.insides[leaf as usize])?;
            cbq.add_leaf(Instant::ZERO, ClassId(leaf), parent, class, queue).map_err(text)?;
        }
        Ok(cbq)
    }

    /// The tree as the C reads it, without what its leaves have.
    pub fn numbers(&self) -> Vec<u64> {
        let plain = self.build::<Numbered, _>(|_| Ok(Fifo::new(Limit::NONE)));
        plain.map_or_else(|_| vec![0; tree::NUMBERS], |cbq| tree::numbers(&cbq, self.leaves(), 0, self.params.catch_up))
    }

    /// The disciplines of the leaves and the tree, as the C reads them.
    pub fn record(&self) -> Vec<u64> {
        [record_of(&self.insides), self.numbers()].concat()
    }

    /// A class as the C reads it, once it is changed by an operation that [`change`](Self::change) returns.
    pub fn class_numbers(&self, [what, _, rate, number, priority, borrows]: Operation) -> [u64; CLASS_NUMBERS] {
        if rate == 0 {
            return [0; CLASS_NUMBERS];
        }
        let id = number - 1;
        let at = tree::NUMBERS - (CBQ_LEAVES + CBQ_INNER) as usize * CLASS_NUMBERS;
        let at = at + tree::node(ClassId(id as u32), self.leaves()) as usize * CLASS_NUMBERS;
        let mut numbers: [u64; CLASS_NUMBERS] = std::array::from_fn(|word| self.numbers()[at + word]);
        let (parent, class) = self.classes[id as usize];
        if !self.is_first(id as usize) {
            (numbers[PARENT], numbers[LEVEL]) = (tree::node(parent, self.leaves()) + 1, 1);
        }
        if what == LEAF {
            numbers[POSITION] = priority >> 32;
        }
        let class = Class { rate: Rate::from_bps(rate), ..class };
        let alone = Self {
            params: Params { root: ClassId(1), default: None, ..self.params },
            classes: vec![(ClassId(1), class)],
            order: vec![0],
            insides: vec![Options::default()],
        };
        let limits = alone
            .build::<Numbered, _>(|_| Ok(Fifo::new(Limit::NONE)))
            .ok()
            .and_then(|cbq| cbq.limits_of(ClassId(0)))
            .map_or([0; 9], |limits| limits.numbers());
        (numbers[PRIORITY], numbers[BORROWS]) = (priority & 0xff, borrows);
        numbers[RATE..].copy_from_slice(&limits);
        numbers
    }

    /// The options of the whole.
    pub fn options() -> Options {
        Options { kind: CBQ, limit_packets: 4_000, limit_bytes: u64::MAX, ..Options::default() }
    }

    /// A tree for traffic in a kernel, with a kind of sharing, and the same with other rates.
    pub fn preset(name: &str) -> Option<[Self; 2]> {
        let mtu = Bytes::new(1_514);
        let root = ClassId(6);
        let new = Params::new(Rate::from_mbit(20), mtu, root);
        let params = match name {
            "cbq" | "cbq_ras" => Params { default: Some(ClassId(3)), ..new },
            "cbq_ancestors" => Params {
                sharing: Sharing::AncestorOnly,
                general: General::PacketRoundRobin,
                conserving: Conserving::Strict,
                regulation: Regulation::Sleep,
                catch_up: Span::from_millis(5),
                ..new
            },
            "cbq_top_level" => Params {
                lead: Lead::Within(Span::from_millis(1)),
                conserving: Conserving::WhenLinkIdle,
                root_rate: Some(Rate::from_kbit(19_600)),
                ..Params::altq(Rate::from_mbit(20), mtu, root)
            },
            _ => return None,
        };
        let small = Options { limit_packets: 12, limit_bytes: 2_000_000, ..Options::default() };
        // It releases packets of short queues later than their classes could send them.
        let shaper = Options {
            kind: RAS,
            limit_bytes: 100_000,
            shaping_rates: [1_000_000, 4_000_000, 20_000_000],
            shaping_bytes: [6_000, 30_000, 90_000],
            interval: 20_000_000,
            slack: 1_000_000,
            ..small
        };
        let mut insides = vec![
            Options { kind: FIFO, ..small },
            Options {
                kind: FQ_CODEL,
                limit_packets: 40,
                quantum: 1_514,
                queues: 64,
                target: 5_000,
                interval: 100_000,
                mtu: 100,
                ..small
            },
            Options {
                kind: RED,
                limit_packets: 50,
                min: 2,
                max: 8,
                max_p: 1 << 29,
                weight: 1 << 30,
                above_max: 1,
                idle_packet: 100_000,
                random: [81_985_529_216_486_895; 4],
                ..small
            },
            Options { kind: FIFO, ..small },
        ];
        if name == "cbq_ras" {
            insides[..2].fill(shaper);
        }
        let tree = |rates: [u64; 6]| {
            let class = |rate: u64, priority| Class::new(Rate::from_kbit(rate)).with_priority(priority);
            let [a, b, c, d, first, second] = rates;
            let classes = vec![
                (ClassId(4), class(a, 1).borrowing()),
                (ClassId(4), class(b, 0).borrowing()),
                (ClassId(5), class(c, 1).borrowing()),
                (ClassId(5), Class { max_burst: 4, ..class(d, 2) }),
                (root, class(first, 1).borrowing()),
                (root, class(second, 1).borrowing()),
            ];
            Self { params, classes, order: vec![2, 0, 3, 1], insides: insides.clone() }
        };
        Some([tree([4_000, 2_000, 3_000, 1_000, 12_000, 8_000]), tree([1_000, 6_000, 5_000, 500, 7_000, 9_000])])
    }

    /// The names of [`preset`](Self::preset).
    pub const PRESETS: [&'static str; 4] = ["cbq", "cbq_ancestors", "cbq_top_level", "cbq_ras"];
}

/// The queue of a leaf.
fn queue(options: &Options) -> Result<Box<dyn Qdisc<Numbered>>, String> {
    let queue = Specification(options).discipline().map_err(|error| error.to_string())?;
    queue.ok_or_else(|| format!("there is no discipline number {} for a leaf", options.kind))
}

/// The parameters of a tree at random.
fn params(random: &mut Stream, rate: u64, typical: u64, leaves: u32, root: u32) -> Params {
    let link = Rate::from_bps(rate);
    let span =
        |random: &mut Stream, times: u64| Span::from_nanos(spread(random, 1, typical.saturating_mul(times).max(1)));
    let mtu = (u128::from(rate) * u128::from(typical) / 8_000_000_000).clamp(60, 70_000) as u64;
    let mut params = Params::new(link, Bytes::new(spread(random, 60, mtu.max(61))), ClassId(root));
    params.sharing = [
        Sharing::Formal,
        Sharing::AncestorOnly,
        Sharing::TopLevel(Heuristic::Floyd1995),
        Sharing::TopLevel(Heuristic::Altq),
    ][random.below(4) as usize];
    if random.below(2) == 0 {
        let derivation = [Derivation::Altq, Derivation::Ns2][random.below(2) as usize];
        params.accounting = Accounting::IdleTime { gain: 1 + random.below(12) as u8, derivation };
    }
    params.general = [General::PacketRoundRobin, General::WeightedRoundRobin][random.below(2) as usize];
    params.finish = [Finish::Actual, Finish::Expected][random.below(2) as usize];
    params.regulation = [Regulation::Recheck, Regulation::Sleep][random.below(2) as usize];
    params.conserving = [Conserving::Strict, Conserving::Efficient, Conserving::WhenLinkIdle][random.below(3) as usize];
    let most = span(random, 100);
    params.link_clock = [LinkClock::Reset(most), LinkClock::Clamp(most)][random.below(2) as usize];
    let lead = span(random, 20);
    params.lead = [Lead::Unbounded, Lead::Within(lead)][random.below(2) as usize];
    params.root_burst = spread(random, 1, 256) as u32;
    params.root_rate = (random.below(3) == 0).then(|| Rate::from_bps(rate - random.below(rate / 10 + 1)));
    params.default = (random.below(2) == 0).then(|| ClassId(random.below(leaves.into()) as u32));
    params.catch_up = if random.below(2) == 0 { Span::ZERO } else { span(random, 20) };
    params
}

/// The parameters of a class at random.
fn class(random: &mut Stream, rate: u64, typical: u64) -> Class {
    let bound = |random: &mut Stream| {
        (random.below(4) == 0).then(|| Span::from_nanos(spread(random, 1, typical.saturating_mul(1_000).max(1))))
    };
    Class {
        rate: Rate::from_bps(rate),
        priority: if random.below(2) == 0 { random.below(8) as u8 } else { 1 },
        borrow: if random.below(4) == 0 { Borrow::Never } else { Borrow::FromParent },
        packet_size: (random.below(3) == 0).then(|| Bytes::new(spread(random, 1, 70_000))),
        max_burst: spread(random, 1, 256) as u32,
        min_burst: spread(random, 1, 256) as u32,
        idle: IdleBounds { max: bound(random), min: bound(random), off: bound(random) },
    }
}

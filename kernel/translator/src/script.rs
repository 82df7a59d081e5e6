//! Random operations for a discipline.

use tidegate_core::random::Stream;
use tidegate_kernel::options::{
    ARED, CAKE, CBQ, CODEL, DUALPI2, FBQ, FQ_CODEL, FQ_PIE, INGRESS, MERED, OWN, Options, PIE, RAS, RED, RIO, SFQ, TBF,
    WRED,
};

use super::classes::Classes;
use super::equal::spread;
use super::more::{cake_traits, service};
use super::promises::Draw;
use super::reference::{DEQUEUE, ENQUEUE, Operation, SET_RATE, Structure};
use super::trees::{Rates, Tree};

/// Steps of time in an interval of CoDel, in a script whose times are multiples of a step: so that a delay is its target.
pub const GRID: u64 = 16;

pub fn grid(interval: u64) -> u64 {
    (interval / GRID).max(1)
}

/// Makes the operations of a script, with bursts, pauses, and times that run back.
pub struct Script<'a> {
    random: &'a mut Stream,
    now: u64,
    /// The usual time between two operations, and a pause in which queues fill.
    step: u64,
    pause: u64,
    /// About the time of a packet.
    typical: u64,
    /// All times are multiples of it.
    grid: u64,
    arrivals: u64,
    /// The sizes of packets, up to the largest or all alike.
    sizes: u64,
    alike: bool,
    /// A sum of sizes beyond 64 bits is beyond every machine, and of a quantum's turns the largest packet takes many.
    largest: u64,
    /// Flows that packets arrive of, and how many of the packets are of the first few.
    flows: u64,
    few: u64,
    /// Pairs of hosts.
    pairs: u64,
    classes: Option<&'a Classes>,
    tree: Option<(&'a Tree, Rates)>,
    /// A third of this are changes of classes of the tree, of a hundred operations.
    changes: u64,
    promises: Draw,
    /// An operation that follows the last one.
    pending: Option<Operation>,
    /// The largest rate that a class gets.
    most: u64,
    is_cake: bool,
    /// How many code points most packets for CAKE have, up to 8.
    points: u64,
}

impl<'a> Script<'a> {
    /// A script for these options.
    pub fn new(random: &'a mut Stream, options: &Options, structure: Option<Structure<'a>>) -> Self {
        let (classes, tree) = match structure {
            Some(Structure::Classes(classes)) => (Some(classes), None),
            Some(Structure::Tree(tree)) => (None, Some((tree, tree.rates()))),
            None => (None, None),
        };
        let changes = if tree.is_some() && random.below(3) == 0 { 15 } else { 1 };
        let has_codel = matches!(options.kind, CODEL | FQ_CODEL | CAKE);
        // Packets of one MTU leave exactly that behind, and flows of classes are next at one time.
        let alike = (has_codel || matches!(options.kind, MERED | FBQ | CBQ)) && random.below(2) == 0;
        let sizes = if alike { options.mtu } else { spread(random, 60, 70_000) };
        // About the time of a packet, so that queues build up and run empty.
        let typical = match options.kind {
            TBF | FBQ | CBQ | CAKE | INGRESS if options.rate > 0 => {
                (sizes as u128 * 8_000_000_000 / u128::from(options.rate)).min(1 << 44) as u64
            }
            RED | ARED | MERED | WRED | RIO if random.below(2) == 0 => options.idle_packet.max(1),
            CODEL | FQ_CODEL | RED | ARED | MERED | WRED | RIO | PIE | FQ_PIE | SFQ | DUALPI2 | CAKE | RAS => {
                options.interval / 20
            }
            OWN => spread(random, 1_000, 20_000_000),
            _ => 1_000,
        };
        let on_grid = has_codel && random.below(2) == 0;
        let grid = if on_grid { grid(options.interval) } else { 1 };
        let step = spread(random, 1, typical.saturating_mul(4).max(1));
        let (now, arrivals) = (random.below(1 << 40), 20 + random.below(60));
        Self {
            now: now / grid * grid,
            step,
            typical,
            pause: typical.saturating_mul(10).max(1),
            grid,
            arrivals,
            sizes,
            alike,
            largest: if matches!(options.kind, FQ_CODEL | FQ_PIE | CAKE) { 1 << 17 } else { 1 << 48 },
            // Few that send much are told apart, or put under sanction.
            flows: spread(random, 1, if matches!(options.kind, MERED | INGRESS | DUALPI2) { 60 } else { 2_000 }),
            few: random.below(100),
            // Of few hosts each has many flows.
            pairs: spread(random, 1, if options.kind == CAKE { 8 } else { 60 }),
            is_cake: options.kind == CAKE,
            points: 1 + random.below(8),
            most: classes.map_or(1 << 40, |classes| options.rate / classes.count() * 2),
            classes,
            tree,
            changes,
            promises: Draw::default(),
            pending: None,
            random,
        }
    }
    /// A time of up to `most`, in steps of the grid.
    fn time(&mut self, most: u64) -> u64 {
        self.random.below(most / self.grid + 2) * self.grid
    }
    /// The next operation.
    pub fn next(&mut self) -> Operation {
        if let Some(operation) = self.pending.take() {
            return operation;
        }
        self.now = match self.random.below(400) {
            0 => self.now + spread(self.random, 1, 1 << 40) / self.grid * self.grid,
            1 => {
                let back = self.time(self.step.saturating_mul(10));
                self.now.saturating_sub(back)
            }
            2 => {
                // Bursts of new flows, and queues that run empty, are what CAKE decides by.
                self.arrivals = if self.is_cake { 5 + self.random.below(95) } else { 20 + self.random.below(60) };
                // Packets that wait, or ones that are alone.
                if self.classes.is_some() || self.tree.is_some() || self.is_cake {
                    let most = if self.random.below(2) == 0 { 4 } else { 100 };
                    self.step = spread(self.random, 1, self.typical.saturating_mul(most).max(1));
                }
                self.now
            }
            3..=8 => self.now + self.time(self.pause),
            9..=120 => self.now,
            _ => self.now + self.time(self.step.saturating_mul(2)),
        };
        match (self.random.below(100), self.classes) {
            (1, Some(classes)) if self.random.below(2) == 0 => {
                let [terms, promise] = self.promises.change(self.random, self.now, classes.count(), self.most);
                self.pending = Some(promise);
                terms
            }
            (draw, _)
                if draw < self.changes
                    && let Some((tree, rates)) = self.tree.as_mut().filter(|_| self.now.is_multiple_of(3)) =>
            {
                tree.change(self.random, self.now, rates).unwrap_or([DEQUEUE, self.now, 0, 0, 0, 0])
            }
            (99, _) if let Some((tree, _)) = &self.tree => tree.count(self.random, self.now),
            (0, _) if self.tree.is_some() => [DEQUEUE, self.now, 0, 0, 0, 0],
            (0, _) if self.classes.is_some() || self.random.below(20) == 0 => {
                let class = self.classes.map_or(0, |classes| self.random.below(classes.count() + 1));
                let most = if class == 0 { self.most.saturating_mul(40) } else { self.most };
                [SET_RATE, self.now, spread(self.random, 1, most.min(1 << 40)), class, 0, 0]
            }
            (draw, _) if draw < self.arrivals => {
                let size = if self.alike {
                    self.sizes
                } else if self.random.below(1_000) == 0 {
                    self.random.next_u64() >> self.random.below(64)
                } else {
                    1 + self.random.below(self.sizes)
                };
                let few = self.random.below(100) < self.few;
                let flow = self.random.below(if few { self.flows.min(4) } else { self.flows });
                let host = flow % self.pairs;
                let (second, fourth) = match (self.classes, &self.tree) {
                    (Some(classes), _) => {
                        let (class, profile) = classes.of_flow(self.random, flow);
                        (class | service(self.random) << 16 | host << 32, profile | self.promises.of_flow(flow) << 32)
                    }
                    (None, Some((tree, _))) => {
                        (tree.of_flow(self.random, flow) | service(self.random) << 16 | host << 32, 0)
                    }
                    (None, None) if self.is_cake => (cake_traits(self.random, flow, self.points), host),
                    (None, None) => (service(self.random), host),
                };
                [ENQUEUE, self.now, size.clamp(1, self.largest), second, flow, fourth]
            }
            _ => [DEQUEUE, self.now, 0, 0, 0, 0],
        }
    }
}

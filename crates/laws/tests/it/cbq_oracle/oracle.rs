//! The oracle: the credit of every class by itself, and every rule by a walk over the whole tree.

use std::collections::BTreeMap;

use tidegate_core::cbq::{Borrow, Cbq, Class, Heuristic, IdleBounds, LEVELS, Params, Sharing};
use tidegate_core::random::Stream;
use tidegate_core::{ClassId, Instant, Rate};
use tidegate_laws::TestPacket;

use super::{MTU, fifo};

/// The oracle's copy of a class. Credit in bit·ns/s: rate x ns is exact.
pub struct Known {
    pub parent: Option<u32>,
    pub class: Class,
    pub leaf: bool,
    pub backlog: u64,
    pub credit: i128,
    pub at: u64,
    /// Over limit before this instant.
    pub until: u64,
}

pub struct Oracle {
    pub classes: BTreeMap<u32, Known>,
    pub sharing: Sharing,
    pub top_level: usize,
}

pub const BYTE: i128 = 8_000_000_000;

impl Oracle {
    pub fn level(&self, id: u32) -> usize {
        if self.classes[&id].leaf {
            return 1;
        }
        let children = self.classes.iter().filter(|(_, known)| known.parent == Some(id));
        1 + children.map(|(&child, _)| self.level(child)).max().unwrap_or(1)
    }
    pub fn over(&self, id: u32, now: u64) -> bool {
        now < self.classes[&id].until
    }
    /// The class and the ancestors that it may borrow from.
    pub fn way(&self, id: u32) -> Vec<u32> {
        let mut way = vec![id];
        let mut at = id;
        while let (Some(parent), true) =
            (self.classes[&at].parent, self.classes[&at].class.borrow == Borrow::FromParent)
        {
            way.push(parent);
            at = parent;
        }
        way
    }
    pub fn demanding(&self) -> Vec<u32> {
        self.classes.iter().filter(|(_, known)| known.leaf && known.backlog > 0).map(|(&id, _)| id).collect()
    }
    /// Not over limit, with a backlogged descendant that may borrow from it.
    pub fn unsatisfied(&self, id: u32, now: u64) -> bool {
        !self.over(id, now) && self.demanding().iter().any(|&leaf| self.way(leaf).contains(&id))
    }
    pub fn permitted(&self, leaf: u32, now: u64, top_level: usize) -> bool {
        if !self.over(leaf, now) {
            return true;
        }
        self.way(leaf)[1..].iter().any(|&lender| {
            !self.over(lender, now)
                && match self.sharing {
                    Sharing::AncestorOnly => true,
                    Sharing::TopLevel(_) => self.level(lender) <= top_level,
                    Sharing::Formal => {
                        let level = self.level(lender);
                        !self.classes.keys().any(|&id| self.level(id) < level && self.unsatisfied(id, now))
                    }
                }
        })
    }
    pub fn lender(&self, leaf: u32, now: u64) -> Option<u32> {
        self.way(leaf).into_iter().find(|&id| !self.over(id, now))
    }
    pub fn arrives(&mut self, leaf: u32, now: u64) {
        // Rules 1 and 2 of both heuristics.
        if let Some(lender) = self.lender(leaf, now) {
            self.top_level = self.top_level.min(self.level(lender));
        }
        self.classes.get_mut(&leaf).unwrap().backlog += 1;
        if self.classes[&leaf].backlog == 1 {
            self.regulate(leaf, now);
        }
        self.asked_in_vain(now);
    }
    /// A kernel asks again after each packet. When no class may send, the threshold becomes infinite.
    fn asked_in_vain(&mut self, now: u64) {
        if self.demanding().into_iter().all(|leaf| self.lender(leaf, now).is_none()) {
            self.top_level = LEVELS;
        }
    }
    /// The leaves that may send now, and the level of each lender.
    pub fn candidates(&mut self, now: u64) -> Vec<u32> {
        loop {
            let may: Vec<u32> =
                self.demanding().into_iter().filter(|&leaf| self.permitted(leaf, now, self.top_level)).collect();
            if !may.is_empty() || self.top_level >= LEVELS {
                if may.is_empty() {
                    self.top_level = LEVELS;
                }
                return may;
            }
            match self.sharing {
                Sharing::TopLevel(Heuristic::Floyd1995) => self.top_level = LEVELS,
                _ => self.top_level += 1,
            }
        }
    }
    pub fn regulate(&mut self, leaf: u32, now: u64) {
        if self.lender(leaf, now).is_none() {
            let known = self.classes.get_mut(&leaf).unwrap();
            let resume = i128::from(MTU) * i128::from(known.class.min_burst - 1) * BYTE;
            let rate = i128::from(known.class.rate.as_bps());
            known.until = known.at + u64::try_from((resume - known.credit + rate - 1) / rate).unwrap();
        }
    }
    pub fn leaves(&mut self, leaf: u32, size: u64, now: u64) {
        let lender = self.lender(leaf, now);
        let mut by_right = false;
        self.classes.get_mut(&leaf).unwrap().backlog -= 1;
        let mut up = Some(leaf);
        while let Some(id) = up {
            let known = self.classes.get_mut(&id).unwrap();
            let rate = i128::from(known.class.rate.as_bps());
            let depth = i128::from(MTU) * i128::from(known.class.max_burst.max(known.class.min_burst)) * BYTE;
            let before = (known.credit + rate * i128::from(now - known.at)).min(depth);
            let cost = i128::from(size) * BYTE;
            by_right |= lender == Some(id);
            known.credit = if by_right { before - cost } else { (before - cost).max(before.min(-cost)) };
            known.at = now;
            known.until =
                if known.credit < 0 { now + u64::try_from((-known.credit + rate - 1) / rate).unwrap() } else { 0 };
            up = known.parent;
        }
        if self.classes[&leaf].backlog > 0 {
            self.regulate(leaf, now);
        }
        if self.sharing == Sharing::TopLevel(Heuristic::Floyd1995) {
            let goes_on = self.classes[&leaf].backlog > 0 && self.permitted(leaf, now, self.top_level);
            if !goes_on {
                self.top_level = LEVELS;
            }
        }
        self.asked_in_vain(now);
    }
    pub fn next(&self) -> Option<u64> {
        let until = |id: &u32| self.classes[id].until;
        self.demanding().iter().map(|&leaf| self.way(leaf).iter().map(until).min().unwrap()).min()
    }
}

/// A random tree of up to 14 classes, and the oracle's copy.
pub fn random_tree(random: &mut Stream, params: Params) -> (Cbq<TestPacket>, Oracle) {
    let mut tree = Cbq::new(params).expect("valid");
    let root = Class { max_burst: params.root_burst, min_burst: 1, ..Class::new(params.link) };
    let known = |parent, class: Class, leaf| Known {
        parent,
        class,
        leaf,
        backlog: 0,
        credit: i128::from(MTU) * i128::from(class.max_burst.max(class.min_burst)) * BYTE,
        at: 0,
        until: 0,
    };
    let mut classes = BTreeMap::from([(0, known(None, root, false))]);
    let mut inner = vec![0_u32];
    for id in 1..14 {
        let parent = inner[random.below(inner.len() as u64) as usize];
        let free = tree.free_rate(ClassId(parent)).unwrap().as_bps();
        let rate = Rate::from_bps(1 + random.below(free.max(2) - 1) * 6 / 10);
        let class = Class {
            rate,
            priority: random.below(3) as u8,
            borrow: if random.below(4) == 0 { Borrow::Never } else { Borrow::FromParent },
            packet_size: None,
            max_burst: 1 + random.below(4) as u32,
            min_burst: 1 + random.below(3) as u32,
            idle: IdleBounds::DERIVED,
        };
        let leaf = random.below(3) > 0;
        let added = if leaf {
            tree.add_leaf(Instant::ZERO, ClassId(id), ClassId(parent), class, fifo())
        } else {
            tree.add_inner(Instant::ZERO, ClassId(id), ClassId(parent), class)
        };
        if added.is_ok() {
            classes.insert(id, known(Some(parent), class, leaf));
            if !leaf {
                inner.push(id);
            }
        }
    }
    (tree, Oracle { classes, sharing: params.sharing, top_level: LEVELS })
}

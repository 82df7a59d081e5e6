//! Groups of rules: which rules share a sequence of tables, and the contents of these tables.
//!
//! Within a group the conditions form a chain (the fields of one rule contain the large fields of the next), so that
//! a table never multiplies unrelated rules.

use alloc::vec::Vec;

use hashbrown::HashTable;

use super::axes::Axis;
use super::sparse::{Sparse, Tables};

/// The most entries the tables of one group may have; a group that needs more is split.
const GROUP_ENTRIES: usize = 1 << 20;
/// The most steps to build one group; a group that needs more is split.
const GROUP_WORK: u64 = 1 << 22;
/// The most steps to build all groups.
const TOTAL_WORK: u64 = 1 << 26;
/// The most entries of all groups.
const TOTAL_ENTRIES: usize = 1 << 22;
/// The largest number of groups of a classifier.
pub(super) const MAX_GROUPS: usize = 64;

/// Represents "no rule" in a table.
pub(super) const NONE: u32 = u32::MAX;

/// One step: from the current state and the class of one more field to the next state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    pub(super) axis: u32,
    /// The column of this group's class in the row of the axis.
    pub(super) column: u32,
}

/// A group with its tables.
pub(super) struct Group {
    /// The axis of the first field.
    pub(super) axis: u32,
    /// The first state, for each elementary interval of that axis.
    pub(super) initial: Vec<u32>,
    pub(super) stages: Vec<Stage>,
    pub(super) tables: Tables,
    /// For each stage, the class in this group of each elementary interval of the stage's axis.
    pub(super) classes: Vec<Vec<u32>>,
    entries: usize,
}

/// The rules overlap too much for the limits of the module.
pub(super) struct TooComplex;

/// Builds the groups of `rules` over `axes`. Sets `seen` for every rule that some packet can match. Rules with
/// conditions on at most one field must not be passed.
pub(super) fn make(axes: &[Axis], rules: &[u32], reachable: &mut [bool]) -> Result<Vec<Group>, TooComplex> {
    let asks = |rule: u32| (0..axes.len()).filter(|&a| axes[a].asked_by(rule)).fold(0_u32, |set, a| set | 1 << a);
    let small = (0..axes.len()).filter(|&a| axes[a].selector.is_small()).fold(0_u32, |set, a| set | 1 << a);
    let mut shapes: Vec<u32> = rules.iter().map(|&rule| asks(rule) & !small).collect();
    shapes.sort_unstable();
    shapes.dedup();

    let mut maker = Maker { axes, reachable, work: 0, entries: 0 };
    let mut groups = Vec::new();
    for chain in chains(&shapes) {
        let members: Vec<u32> = rules.iter().copied().filter(|&rule| chain.contains(&(asks(rule) & !small))).collect();
        let fields = members.iter().fold(0, |set, &rule| set | asks(rule));
        let mut order: Vec<usize> = (0..axes.len()).filter(|a| fields >> a & 1 == 1).collect();
        // Large fields that all rules use come first; among equals the one whose rules overlap least.
        order.sort_by_cached_key(|&axis| {
            let shapes = chain.iter().filter(|&shape| shape >> axis & 1 == 1).count();
            let width = members.iter().map(|&rule| width(&axes[axis], rule)).sum::<u64>();
            (axes[axis].selector.is_small(), usize::MAX - shapes, width)
        });
        maker.make_or_split(&members, &order, &mut groups)?;
    }
    Ok(groups)
}

/// The number of elementary intervals that a rule covers.
fn width(axis: &Axis, rule: u32) -> u64 {
    axis.spans(rule).iter().map(|span| u64::from(span.1 - span.0 + 1)).sum()
}

/// The smallest number of chains (by strict inclusion) that contain all `shapes`, which are distinct: Dilworth's
/// theorem with bipartite matching (Fulkerson, 1956) by augmenting paths.
fn chains(shapes: &[u32]) -> Vec<Vec<u32>> {
    fn augment(from: usize, shapes: &[u32], above: &mut [Option<usize>], tried: &mut [bool]) -> bool {
        for to in 0..shapes.len() {
            // A rule without a large field would be copied into every state of another chain.
            let inside = from != to && shapes[from] != 0 && shapes[from] & !shapes[to] == 0;
            if inside && !core::mem::replace(&mut tried[to], true) {
                // `above[x]` is the shape directly below which x is.
                if above[to].is_none_or(|other| augment(other, shapes, above, tried)) {
                    above[to] = Some(from);
                    return true;
                }
            }
        }
        false
    }
    let mut below = alloc::vec![None; shapes.len()];
    for from in 0..shapes.len() {
        augment(from, shapes, &mut below, &mut alloc::vec![false; shapes.len()]);
    }
    let has_above: Vec<bool> = (0..shapes.len()).map(|i| below.contains(&Some(i))).collect();
    let tops = (0..shapes.len()).filter(|&i| !has_above[i]);
    tops.map(|top| core::iter::successors(Some(top), |&at| below[at]).map(|at| shapes[at]).collect()).collect()
}

/// One axis restricted to a group: cut only where rules of the group begin or end.
struct Local {
    /// The class of each of the group's intervals.
    class: Vec<u32>,
    classes: u32,
    /// The group's interval of each elementary interval.
    index: Vec<u32>,
    /// The class of each elementary interval.
    all: Vec<u32>,
}

impl Local {
    fn new(axis: &Axis, rules: &[u32]) -> Self {
        let (all, classes) = axis.classes(rules);
        let (mut class, mut index) = (Vec::new(), Vec::with_capacity(all.len()));
        for &c in &all {
            if class.last() != Some(&c) {
                class.push(c);
            }
            index.push(class.len() as u32 - 1);
        }
        Self { class, classes, index, all }
    }
}

/// Sets of rules, deduplicated and numbered.
#[derive(Default)]
struct Sets {
    elements: Vec<u32>,
    ends: Vec<u32>,
    table: HashTable<u32>,
}

impl Sets {
    fn get(&self, id: u32) -> &[u32] {
        let start = if id == 0 { 0 } else { self.ends[id as usize - 1] };
        &self.elements[start as usize..self.ends[id as usize] as usize]
    }
    fn len(&self) -> usize {
        self.ends.len()
    }
    fn intern(&mut self, set: &[u32]) -> u32 {
        fn hash(set: &[u32]) -> u64 {
            let step = |h: u64, &n: &u32| (h ^ u64::from(n)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            set.iter().fold(0x243f_6a88_85a3_08d3, step)
        }
        let hashed = hash(set);
        if let Some(&id) = self.table.find(hashed, |&id| self.get(id) == set) {
            return id;
        }
        let id = self.ends.len() as u32;
        self.elements.extend_from_slice(set);
        self.ends.push(self.elements.len() as u32);
        let (elements, ends) = (&self.elements, &self.ends);
        self.table.insert_unique(hashed, id, |&id| {
            let start = if id == 0 { 0 } else { ends[id as usize - 1] };
            hash(&elements[start as usize..ends[id as usize] as usize])
        });
        id
    }
}

struct Maker<'a> {
    axes: &'a [Axis],
    reachable: &'a mut [bool],
    work: u64,
    entries: usize,
}

impl Maker<'_> {
    fn make_or_split(&mut self, rules: &[u32], order: &[usize], groups: &mut Vec<Group>) -> Result<(), TooComplex> {
        if let Some(group) = self.make(rules, order) {
            self.entries += group.entries;
            groups.push(group);
            return if groups.len() > MAX_GROUPS || self.entries > TOTAL_ENTRIES { Err(TooComplex) } else { Ok(()) };
        }
        if self.work > TOTAL_WORK || rules.len() < 2 {
            return Err(TooComplex);
        }
        // Wide rules multiply narrow ones: split them along the axis where that is worst. Halving the list quarters
        // the product where all rules are equally wide.
        let mut worst: Option<(u64, Vec<u64>, u64)> = None;
        for &axis in order {
            let widths: Vec<u64> = rules.iter().map(|&rule| width(&self.axes[axis], rule)).collect();
            let (least, most) = (*widths.iter().min().unwrap_or(&0), *widths.iter().max().unwrap_or(&0));
            let threshold = (least.max(1) * most).isqrt();
            let sum = widths.iter().sum();
            if least < most && most > 2 && worst.as_ref().is_none_or(|other| other.0 < sum) {
                worst = Some((sum, widths, threshold));
            }
        }
        let (narrow, wide): (Vec<u32>, Vec<u32>) = match worst {
            Some((_, widths, threshold)) => {
                let (narrow, wide): (Vec<_>, Vec<_>) =
                    rules.iter().zip(widths).partition(|(_, width)| *width <= threshold);
                let only = |list: Vec<(&u32, u64)>| list.into_iter().map(|(&rule, _)| rule).collect();
                (only(narrow), only(wide))
            }
            None => (rules[..rules.len() / 2].to_vec(), rules[rules.len() / 2..].to_vec()),
        };
        self.make_or_split(&narrow, order, groups)?;
        self.make_or_split(&wide, order, groups)
    }

    /// The tables of one group, or `None` when they exceed the limits.
    fn make(&mut self, rules: &[u32], order: &[usize]) -> Option<Group> {
        let limit = self.work + GROUP_WORK;
        let mut seen_here = Vec::new();
        let mut states = Sets::default();
        states.intern(rules);
        let (mut initial, mut stages, mut tables, mut classes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut entries = 0;
        for (at, &axis) in order.iter().enumerate() {
            let rest = &order[at + 1..];
            let local = Local::new(&self.axes[axis], rules);
            let mut step = Step {
                axis: &self.axes[axis],
                terminal: &|rule| rest.iter().all(|&axis| !self.axes[axis].asked_by(rule)),
                last: rest.is_empty(),
                local: &local,
                next: Sets::default(),
                stamp: alloc::vec![NONE; local.classes as usize],
                pairs: Vec::new(),
                table: Sparse::new(),
                finals: Vec::new(),
                work: self.work,
                limit,
                room: GROUP_ENTRIES - entries,
            };
            for state in 0..states.len() as u32 {
                if !step.follow(state, states.get(state)) {
                    self.work = step.work;
                    return None;
                }
            }
            self.work = step.work;
            seen_here.append(&mut step.finals);
            states = step.next;
            if at == 0 {
                // The only state so far; its default is state 0.
                let mut by_class = alloc::vec![0; local.classes as usize];
                for (class, state) in step.pairs {
                    by_class[class as usize] = state;
                }
                initial = local.all.iter().map(|&class| by_class[class as usize]).collect();
            } else {
                entries += step.table.slots();
                tables.push(step.table);
                stages.push(Stage { axis: axis as u32, column: 0 });
                classes.push(local.all);
            }
        }
        for rule in seen_here.into_iter().filter(|&rule| rule != NONE) {
            self.reachable[rule as usize] = true;
        }
        let tables = Tables::new(&tables, &mut initial);
        Some(Group { axis: order[0] as u32, initial, stages, tables, classes, entries })
    }
}

/// The construction of one stage.
struct Step<'a> {
    axis: &'a Axis,
    /// Whether a rule has no condition after this stage.
    terminal: &'a dyn Fn(u32) -> bool,
    last: bool,
    local: &'a Local,
    next: Sets,
    /// The last state for which a pair was added, by class.
    stamp: Vec<u32>,
    /// The exceptions of the current state: class and next state.
    pairs: Vec<(u32, u32)>,
    table: Sparse,
    /// After the last field: the rules that can result.
    finals: Vec<u32>,
    work: u64,
    /// The limits of work and of slots.
    limit: u64,
    room: usize,
}

impl Step<'_> {
    /// Adds the successors of `state`, in which the rules of `set` have matched so far; returns `false` when a limit
    /// is exceeded.
    fn follow(&mut self, state: u32, set: &[u32]) -> bool {
        let (asking, wild): (Vec<u32>, Vec<u32>) = set.iter().partition(|&&rule| self.axis.asked_by(rule));
        let default = self.outcome(&wild, &[]);
        self.pairs.clear();
        let span = |rule: u32| self.axis.spans(rule).iter().map(move |span| (span, rule));
        let ends = |(span, rule): (&(u32, u32), u32)| {
            [(self.local.index[span.0 as usize], rule), (self.local.index[span.1 as usize] + 1, rule)]
        };
        let mut events: Vec<(u32, u32)> = asking.iter().flat_map(|&rule| span(rule)).flat_map(ends).collect();
        events.sort_unstable();
        self.work += set.len() as u64 + events.len() as u64;

        let mut active: Vec<u32> = Vec::new();
        let mut i = 0;
        while i < events.len() {
            let from = events[i].0;
            while i < events.len() && events[i].0 == from {
                match active.binary_search(&events[i].1) {
                    Ok(at) => drop(active.remove(at)),
                    Err(at) => active.insert(at, events[i].1),
                }
                i += 1;
            }
            if active.is_empty() {
                continue;
            }
            if self.work > self.limit {
                return false;
            }
            // An active rule has its end among the remaining events.
            let until = events[i].0;
            self.work += u64::from(until - from);
            let outcome = self.outcome(&wild, &active);
            for &class in &self.local.class[from as usize..until as usize] {
                if outcome != default && core::mem::replace(&mut self.stamp[class as usize], state) != state {
                    self.pairs.push((class, outcome));
                }
            }
        }
        self.table.push(default, &self.pairs);
        self.work <= self.limit && self.table.slots() <= self.room
    }

    /// The next state when these rules, each list ascending, have matched: the merged list up to the first rule
    /// without further conditions, which precedes all later ones. After the last field, the rule itself.
    fn outcome(&mut self, wild: &[u32], active: &[u32]) -> u32 {
        if self.last {
            let first = *wild.first().unwrap_or(&NONE).min(active.first().unwrap_or(&NONE));
            self.finals.push(first);
            return first;
        }
        let (mut wild, mut active) = (wild.iter().peekable(), active.iter().peekable());
        let mut set = Vec::new();
        while let Some(&rule) = match (wild.peek(), active.peek()) {
            (Some(w), Some(a)) if w < a => wild.next(),
            (Some(_), None) => wild.next(),
            _ => active.next(),
        } {
            set.push(rule);
            if (self.terminal)(rule) {
                break;
            }
        }
        self.work += 1 + set.len() as u64;
        self.next.intern(&set)
    }
}

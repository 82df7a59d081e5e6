//! Classifier: from what is known of a packet to the first rule that matches it.
//!
//! *Law*: [`Classifier::classify`] gives the smallest index whose [`Match::matches`] holds, whatever the rules.
//! *Source*: equivalence classes a field and tables over pairs of them, from recursive flow classification (Gupta
//! and McKeown, *Packet Classification on Multiple Fields*, 1999); groups of rules by the fields they ask for, from
//! tuple space search (Srinivasan, Suri and Varghese, 1999).
//! *Units*: none.
//! *Cost*: one look-up a field that any rule asks for, and one row and two slots of a table for each field but the first
//! of each group; both numbers depend on *which* fields rules combine, not on how many rules there are
//! ([`Classifier::cost`] says them). No allocation.
//! What does grow with the rules is the memory that packets of many flows touch: a packet alone waits for its five
//! to ten cache lines, which [`Classifier::classify_all`] hides behind the work on others.
//! *Notes*: at most 16 different mark masks, 64 groups and 4,194,304 slots (34 MB, and 16 bytes a state); rules
//! that need more are refused ([`BuildError`]). Ten thousand rules that name hosts, prefixes, ports or ranges of them take a
//! fraction of a second to build. Wide ranges that overlap in two or more fields are what is dear: it splits
//! groups, which costs stages, and thousands of rules that each cover a random third of three fields are refused.
//!
//! How it works. Each field is cut into elementary intervals at the ends of all ranges; a packet's value finds its
//! interval in a bounded number of steps. A rule that asks for one field only is settled there: the interval knows
//! its best. The others go into groups, in each of which the fields asked for form a chain. A group starts with
//! the set of its rules that hold in the interval of its first field, a number, and takes one more field at each
//! stage: (state, interval) gives the next state. Most pairs of a stage follow the state's default, so only the
//! exceptions are in a table. After the last field the state is the best rule. The answer is the best of all.
//!
//! *Departures from the source, and why*: the tables of recursive flow classification hold every pair, which is the
//! square of the number of hosts; exceptions to a default are as many as there are rules, times how often they
//! overlap. Tuple space search makes a group for each combination of prefix lengths, so that ten thousand rules
//! have hundreds; here lengths share a group unless the product explodes, and only then are wide and narrow parted.
//! *See also*: [`flow`](crate::flow), which tells flows apart within a class.
//!
//! ```
//! use tidegate_core::classify::{Classifier, Fields, Hosts, Match, Rule};
//! let calls = Match { destination_ports: vec![3478..=3481], protocol: Some(17), ..Match::default() };
//! let office = Match { source: Some("192.0.2.0/24".parse().unwrap()), ..Match::default() };
//! let rules = vec![Rule { matching: calls, target: 7 }, Rule { matching: office, target: 9 }];
//! let classifier = Classifier::new(rules).unwrap();
//! let hosts = Hosts::V4 { source: "192.0.2.1".parse().unwrap(), destination: "198.51.100.1".parse().unwrap() };
//! let mut packet = Fields { hosts, protocol: Some(17), destination_port: Some(3480), ..Fields::default() };
//! assert_eq!(classifier.classify(&packet), Some(0));
//! packet.destination_port = Some(443);
//! assert_eq!(classifier.classify(&packet), Some(1));
//! assert_eq!(classifier.rules()[1].target, 9);
//! ```

mod axes;
mod cover;
mod fields;
mod groups;
mod intervals;
mod sparse;

use core::fmt;

use alloc::vec::Vec;

use axes::{Axis, FIXED_SELECTORS, Lookup, Selector};
pub use cover::{Cause, Shadowed};
pub use fields::{DscpSet, Fields, Fragment, Hosts, MarkMatch, Match, Prefix, PrefixError, Rule, Version};
use groups::{NONE, Stage};
use sparse::Tables;

/// The most axes: the fixed ones, and one for each mark mask.
const MAX_AXES: usize = FIXED_SELECTORS.len() + MAX_MASKS;
const MAX_MASKS: usize = 16;

/// Why rules cannot be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuildError {
    /// More than 16 different mark masks: give the marks of these rules a common mask.
    Masks {
        /// The first rule with a mask too many.
        rule: u32,
    },
    /// The rules overlap in too many ways for the memory and time they may have: make their ranges narrower, or let
    /// them overlap in one field only.
    TooComplex,
    /// More than 2^24 rules.
    TooMany,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Masks { rule } => {
                write!(f, "rule {rule} brings a 17th mark mask; give the marks of some rules a common mask")
            }
            Self::TooComplex => f.write_str(
                "the rules overlap in too many ways; make ranges narrower, or let them overlap in one field only",
            ),
            Self::TooMany => f.write_str("more than 16,777,216 rules"),
        }
    }
}

impl core::error::Error for BuildError {}

/// What a look-up and the tables cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Fields looked up a packet.
    pub fields: usize,
    /// Groups of rules.
    pub groups: usize,
    /// Table look-ups a packet, in all groups together.
    pub stages: usize,
    /// Bytes of all tables.
    pub memory: usize,
}

#[derive(Clone, Debug)]
struct Field {
    /// Gives the number of the only column, or where the row begins if there are more.
    lookup: Lookup,
    /// A row for each class: the best rule that asks for this field only, if the field is that of such rules, then a
    /// number for each group that uses the field: its first state, or its own class.
    rows: Vec<u32>,
    columns: Columns,
    /// What `lookup` gives for a packet without the field.
    absent: u32,
}

/// What a field is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Columns {
    /// Only by rules that ask for it alone.
    Best,
    /// Only by one group.
    Number,
    /// By several; whether the best rule that asks for it alone is the first column.
    Several { best: bool },
}

/// How many packets go through the steps together.
const BATCH: usize = 64;
/// Fewer are sooner done one by one.
const FEW: usize = 8;

/// The best rule where there is none, in a column; larger than every rule.
const NO_RULE: u32 = intervals::VALUE_LIMIT - 1;

#[derive(Clone, Debug)]
struct Sequence {
    axis: u32,
    column: u32,
    stages: Vec<Stage>,
    tables: Tables,
}

/// Rules, ready for packets. See the [module](self).
#[derive(Clone, Debug)]
pub struct Classifier {
    rules: Vec<Rule>,
    /// The first rule without any condition.
    catch_all: u32,
    fields: Vec<Field>,
    groups: Vec<Sequence>,
    /// Which rules some packet can match, as far as the tables know.
    seen: Vec<bool>,
}

impl Classifier {
    /// Builds the tables of `rules`, of which the first that matches wins.
    ///
    /// # Errors
    /// When the rules need more memory than a classifier may have; see [`BuildError`].
    pub fn new(rules: Vec<Rule>) -> Result<Self, BuildError> {
        if rules.len() > 1 << 24 {
            return Err(BuildError::TooMany);
        }
        let mut selectors = Vec::from(FIXED_SELECTORS);
        for (rule, mark) in rules.iter().enumerate().filter_map(|(i, rule)| Some((i, rule.matching.mark?))) {
            if !selectors.contains(&Selector::Mark(mark.mask)) {
                if selectors.len() == MAX_AXES {
                    return Err(BuildError::Masks { rule: rule as u32 });
                }
                selectors.push(Selector::Mark(mark.mask));
            }
        }
        let mut impossible = alloc::vec![false; rules.len()];
        let axes: Vec<Axis> =
            selectors.into_iter().filter_map(|selector| Axis::new(selector, &rules, &mut impossible)).collect();

        let asked = |rule: u32| axes.iter().filter(|axis| axis.asked_by(rule)).count();
        let possible = (0..rules.len() as u32).filter(|&rule| !impossible[rule as usize]);
        let catch_all = possible.clone().find(|&rule| asked(rule) == 0).unwrap_or(NONE);
        let possible: Vec<u32> = possible.take_while(|&rule| rule < catch_all).collect();
        let (single, several): (Vec<u32>, Vec<u32>) = possible.iter().partition(|&&rule| asked(rule) == 1);

        let mut seen = alloc::vec![false; rules.len()];
        let mut see = |rule: u32| {
            if let Some(seen) = seen.get_mut(rule as usize) {
                *seen = true;
            }
        };
        see(catch_all);
        // One column of numbers for each use of an axis.
        let (mut columns, mut has_best): (Vec<Vec<Vec<u32>>>, Vec<bool>) = Default::default();
        for axis in &axes {
            let own: Vec<u32> = single.iter().copied().filter(|&rule| axis.asked_by(rule)).collect();
            let best = axis.smallest(&own);
            best.iter().copied().for_each(&mut see);
            has_best.push(!own.is_empty());
            columns.push(if own.is_empty() { Vec::new() } else { Vec::from([best]) });
        }
        let made = groups::make(&axes, &several, &mut seen).map_err(|_| BuildError::TooComplex)?;
        let mut sequences = Vec::with_capacity(made.len());
        for mut group in made {
            let mut add = |axis: u32, numbers: Vec<u32>| {
                columns[axis as usize].push(numbers);
                columns[axis as usize].len() as u32 - 1
            };
            let column = add(group.axis, group.initial);
            for (stage, classes) in group.stages.iter_mut().zip(group.classes) {
                stage.column = add(stage.axis, classes);
            }
            sequences.push(Sequence { axis: group.axis, column, stages: group.stages, tables: group.tables });
        }
        let uses = columns.iter().zip(has_best);
        let fields = axes.iter().zip(uses).map(|(axis, (columns, best))| Field::new(axis, &possible, columns, best));
        let fields = fields.collect();
        Ok(Self { rules, catch_all, fields, groups: sequences, seen })
    }

    /// The rules, as given.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The index of the first rule that matches, if one does.
    #[inline]
    pub fn classify(&self, packet: &Fields) -> Option<u32> {
        let mut found = [0; MAX_AXES];
        // All first steps before any second, so that they wait for memory together.
        for (field, found) in self.fields.iter().zip(&mut found) {
            *found = field.lookup.begin(packet).unwrap_or(field.absent);
        }
        let mut best = self.catch_all;
        for (field, found) in self.fields.iter().zip(&mut found) {
            *found = field.lookup.finish(packet, *found);
            best = best.min(field.best(*found));
        }
        for group in &self.groups {
            let number = |axis: u32, column: u32| self.fields[axis as usize].number(found[axis as usize], column);
            let mut state = number(group.axis, group.column);
            for stage in &group.stages {
                state = group.tables.next(state, number(stage.axis, stage.column));
            }
            best = best.min(state);
        }
        (best < NO_RULE).then_some(best)
    }

    /// The same for many packets, each step for all before the next step: what one waits for from memory comes while
    /// the others are at work, so that it costs less a packet the more rules there are.
    ///
    /// # Panics
    /// When `first` is not as long as `packets`.
    pub fn classify_all(&self, packets: &[Fields], first: &mut [Option<u32>]) {
        assert_eq!(packets.len(), first.len(), "one answer for each packet");
        for (packets, first) in packets.chunks(BATCH).zip(first.chunks_mut(BATCH)) {
            if packets.len() < FEW {
                first.iter_mut().zip(packets).for_each(|(first, packet)| *first = self.classify(packet));
            } else {
                self.classify_batch(packets, first);
            }
        }
    }

    // Apart from the loop for few, whose copy of the same steps would keep them from being put into these loops.
    #[inline(never)]
    fn classify_batch(&self, packets: &[Fields], first: &mut [Option<u32>]) {
        let mut found = [[0; BATCH]; MAX_AXES];
        for (field, found) in self.fields.iter().zip(&mut found) {
            for (found, packet) in found.iter_mut().zip(packets) {
                *found = field.lookup.begin(packet).unwrap_or(field.absent);
            }
        }
        let mut best = [self.catch_all; BATCH];
        for (field, found) in self.fields.iter().zip(&mut found) {
            for (found, packet) in found.iter_mut().zip(packets) {
                *found = field.lookup.finish(packet, *found);
            }
            if matches!(field.columns, Columns::Best | Columns::Several { best: true }) {
                for (best, found) in best.iter_mut().zip(&*found) {
                    *best = field.best(*found).min(*best);
                }
            }
        }
        for group in &self.groups {
            let field = &self.fields[group.axis as usize];
            let mut states = found[group.axis as usize].map(|found| field.number(found, group.column));
            for stage in &group.stages {
                let field = &self.fields[stage.axis as usize];
                for (state, found) in states[..packets.len()].iter_mut().zip(&found[stage.axis as usize]) {
                    *state = group.tables.next(*state, field.number(*found, stage.column));
                }
            }
            for (best, state) in best.iter_mut().zip(states) {
                *best = state.min(*best);
            }
        }
        for (first, best) in first.iter_mut().zip(best) {
            *first = (best < NO_RULE).then_some(best);
        }
    }

    /// What a look-up costs, and the tables.
    pub fn cost(&self) -> Cost {
        let stages = || self.groups.iter().flat_map(|group| &group.stages);
        let rows = self.fields.iter().map(|field| field.lookup.memory() + size_of_val(&*field.rows)).sum::<usize>();
        Cost {
            fields: self.fields.len(),
            groups: self.groups.len(),
            stages: stages().count(),
            memory: rows + self.groups.iter().map(|group| group.tables.memory()).sum::<usize>(),
        }
    }

    /// The rules that no packet can match, each with the cause: for the author of the rules, not for every packet. A
    /// rule that does not win the first packet it asks for is compared with all before it.
    ///
    /// What it reports is true; it does not find a rule that is only covered by several others together unless
    /// these ask for the same fields.
    pub fn shadowed(&self) -> Vec<Shadowed> {
        cover::shadowed(self, &self.seen)
    }
}

impl Field {
    /// The best rule that asks for this field only.
    #[inline]
    fn best(&self, found: u32) -> u32 {
        match self.columns {
            Columns::Best => found,
            Columns::Several { best: true } => self.rows[found as usize],
            _ => NONE,
        }
    }

    /// What the group with `column` goes by.
    #[inline]
    fn number(&self, found: u32, column: u32) -> u32 {
        match self.columns {
            Columns::Several { .. } => self.rows[(found + column) as usize],
            _ => found,
        }
    }

    fn new(axis: &Axis, rules: &[u32], columns: &[Vec<u32>], best: bool) -> Self {
        let column = |column: &Vec<u32>| column.iter().map(|&number| number.min(NO_RULE)).collect::<Vec<u32>>();
        // A packet without the field is in class 0: no rule that asks for the field holds, and for a group the first
        // state and class are 0.
        let first = if best { NO_RULE } else { 0 };
        let (values, rows, columns) = match columns {
            [] => (alloc::vec![0; axis.starts.len()], Vec::new(), Columns::Number),
            [only] => (column(only), Vec::new(), if best { Columns::Best } else { Columns::Number }),
            _ => {
                let (class_of, classes) = axis.classes(rules);
                let stride = columns.len();
                let mut rows = alloc::vec![0; classes as usize * stride];
                rows[0] = first;
                for (interval, &class) in class_of.iter().enumerate() {
                    for (at, numbers) in columns.iter().enumerate() {
                        rows[class as usize * stride + at] = numbers[interval].min(NO_RULE);
                    }
                }
                (class_of.iter().map(|class| class * stride as u32).collect(), rows, Columns::Several { best })
            }
        };
        let absent = if rows.is_empty() { first } else { 0 };
        Self { lookup: Lookup::new(axis, &values), rows, columns, absent }
    }
}

#[cfg(test)]
mod tests;

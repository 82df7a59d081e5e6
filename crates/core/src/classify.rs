//! Classifier: from the fields of a packet to the first rule that matches it.
//!
//! *Law*: [`Classifier::classify`] returns the smallest index whose [`Match::matches`] holds, for all rules.
//! *Source*: equivalence classes per field and tables over pairs of them, from recursive flow classification (Gupta
//! and McKeown, *Packet Classification on Multiple Fields*, 1999); groups of rules by the fields that they use, from
//! tuple space search (Srinivasan, Suri and Varghese, 1999).
//! *Units*: none.
//! *Cost*: one look-up per field that any rule uses, and one row and two slots of a table for each field but the
//! first of each group. Both numbers depend on *which* fields rules combine, not on the number of rules
//! ([`Classifier::cost`] reports them). No allocation. The memory that packets of many flows touch grows with the
//! rules: a packet waits for its five to ten cache lines.
//! *Notes*: at most 16 different mark masks, 64 groups and 4,194,304 slots (34 MB, and 16 bytes per state); rules
//! that need more are rejected ([`BuildError`]). Ten thousand rules on hosts, prefixes, ports or ranges of them take
//! a fraction of a second to build. Wide ranges that overlap in two or more fields are expensive: they split groups,
//! which adds stages. Thousands of rules that each cover a random third of three fields are rejected.
//!
//! How it works. Each field is cut into elementary intervals at the ends of all ranges; the interval of a packet's
//! value is found in a bounded number of steps. A rule with a condition on one field only is decided there: the
//! interval stores the best such rule. The other rules are divided into groups; in each group the fields that the
//! rules use form a chain. A group starts with the set of its rules that cover the interval of its first field,
//! represented by a number, and adds one field per stage: (state, interval) yields the next state. Most pairs of a
//! stage lead to the default of the state, so only the exceptions are in a table. After the last field the state is
//! the best rule. The result is the best of all groups.
//!
//! *Departures from the source, and why*: the tables of recursive flow classification contain every pair, which is
//! the square of the number of hosts; the exceptions to a default are as many as the rules, times the number of
//! overlaps. Tuple space search makes a group for each combination of prefix lengths, hundreds for ten thousand
//! rules; here lengths share a group, and wide and narrow rules are separated only if the product becomes too large.
//! *See also*: [`flow`], which identifies the flows within a class.
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

pub mod flow;
pub mod fragments;

mod axes;
mod cover;
mod fields;
mod groups;
mod image;
mod intervals;
mod sparse;

use core::fmt;

use alloc::vec::Vec;

use axes::{Axis, FIXED_SELECTORS, Lookup, Selector};
pub use cover::{Cause, Shadowed};
pub use fields::{
    DscpSet, Fields, FlagMatch, Fragment, Hosts, IcmpType, MarkMatch, Match, Prefix, PrefixError, Rule, Signal, Traits,
    Version,
};
use groups::{NONE, Stage};
pub use image::{Target, beside, image};
use sparse::Tables;

/// The most axes: the fixed ones, and one for each mark mask.
const MAX_AXES: usize = FIXED_SELECTORS.len() + MAX_MASKS;
const MAX_MASKS: usize = 16;

/// Why the tables cannot be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuildError {
    /// More than 16 different mark masks. Use a common mask for the marks of these rules.
    Masks {
        /// The first rule that exceeds the number of masks.
        rule: u32,
    },
    /// The rules overlap in too many ways for the limits of memory and time. Make their ranges narrower, or let them
    /// overlap in one field only.
    TooComplex,
    /// More than 2^24 rules.
    TooMany,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Masks { rule } => {
                write!(f, "rule {rule} adds a 17th mark mask; give the marks of some rules a common mask")
            }
            Self::TooComplex => f.write_str(
                "the rules overlap in too many ways; make ranges narrower, or let them overlap in one field only",
            ),
            Self::TooMany => f.write_str("more than 16,777,216 rules"),
        }
    }
}

impl core::error::Error for BuildError {}

/// The cost of a look-up and the size of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Look-ups of fields per packet.
    pub fields: usize,
    /// Groups of rules.
    pub groups: usize,
    /// Table look-ups per packet, in all groups together.
    pub stages: usize,
    /// Bytes of all tables.
    pub memory: usize,
}

#[derive(Clone, Debug)]
struct Field {
    /// Returns the value of the only column, or the start of the row if there are several.
    lookup: Lookup,
    /// A row for each class: the best rule with a condition on this field only, if any rule has one, then a number
    /// for each group that uses the field: its first state, or its class.
    rows: Vec<u32>,
    columns: Columns,
    /// The result of `lookup` for a packet without the field.
    absent: u32,
}

/// The use of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Columns {
    /// Only by rules without another condition.
    Best,
    /// Only by one group.
    Number,
    /// By several; `best` if the first column is the best rule without another condition.
    Several { best: bool },
}

/// The value of a column without a best rule; larger than every rule.
const NO_RULE: u32 = intervals::VALUE_LIMIT - 1;

/// The size and kind of the tables of one field.
struct FieldParts {
    selector: Selector,
    /// The first value of each elementary interval: version, key.
    starts: Vec<(u8, u128)>,
    /// For each of them the value of the only column, or the start of the row if there are several.
    values: Vec<u32>,
    rows: Vec<u32>,
    columns: Columns,
}

/// The size of a classifier and of its tables.
struct Parts {
    catch_all: u32,
    fields: Vec<FieldParts>,
    groups: Vec<Sequence>,
    reachable: Vec<bool>,
}

#[derive(Clone, Debug)]
struct Sequence {
    axis: u32,
    column: u32,
    stages: Vec<Stage>,
    tables: Tables,
}

/// Rules with their tables. See the [module](self).
#[derive(Clone, Debug)]
pub struct Classifier {
    rules: Vec<Rule>,
    /// The first rule without any condition.
    catch_all: u32,
    fields: Vec<Field>,
    groups: Vec<Sequence>,
    /// Which rules some packet can match, as far as the tables show.
    reachable: Vec<bool>,
}

impl Classifier {
    /// Builds the tables of `rules`; the first rule that matches wins.
    ///
    /// # Errors
    /// When the rules need more memory than a classifier may use; see [`BuildError`].
    pub fn new(rules: Vec<Rule>) -> Result<Self, BuildError> {
        let Parts { catch_all, fields, groups, reachable } = Parts::new(&rules)?;
        Ok(Self { rules, catch_all, fields: fields.into_iter().map(Field::new).collect(), groups, reachable })
    }

    /// The rules in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The index of the first rule that matches.
    #[inline]
    pub fn classify(&self, packet: &Fields) -> Option<u32> {
        let mut found = [0; MAX_AXES];
        // All first steps before any second step, so that their memory accesses overlap.
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

    /// The cost of a look-up and the size of the tables.
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

    /// The rules that no packet can match, each with the cause. For diagnostics: a rule that is not the first match
    /// of its own example is compared with all rules before it.
    ///
    /// Every reported rule is shadowed. A rule that is covered only by several others together is found only if these
    /// use the same fields.
    pub fn shadowed(&self) -> Vec<Shadowed> {
        cover::shadowed(self, &self.reachable)
    }
}

impl Field {
    /// The best rule with a condition on this field only.
    #[inline]
    fn best(&self, found: u32) -> u32 {
        match self.columns {
            Columns::Best => found,
            Columns::Several { best: true } => self.rows[found as usize],
            _ => NONE,
        }
    }

    /// The number that the group with `column` uses.
    #[inline]
    fn number(&self, found: u32, column: u32) -> u32 {
        match self.columns {
            Columns::Several { .. } => self.rows[(found + column) as usize],
            _ => found,
        }
    }

    fn new(parts: FieldParts) -> Self {
        let lookup = Lookup::new(parts.selector, &parts.starts, &parts.values);
        // A packet without the field is in class 0: no rule with a condition on the field holds, and for a group the
        // first state and class are 0.
        let absent = if parts.columns == Columns::Best { NO_RULE } else { 0 };
        Self { lookup, rows: parts.rows, columns: parts.columns, absent }
    }
}

impl Parts {
    fn new(rules: &[Rule]) -> Result<Self, BuildError> {
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
            selectors.into_iter().filter_map(|selector| Axis::new(selector, rules, &mut impossible)).collect();

        let asked = |rule: u32| axes.iter().filter(|axis| axis.asked_by(rule)).count();
        let possible = (0..rules.len() as u32).filter(|&rule| !impossible[rule as usize]);
        let catch_all = possible.clone().find(|&rule| asked(rule) == 0).unwrap_or(NONE);
        let possible: Vec<u32> = possible.take_while(|&rule| rule < catch_all).collect();
        let (single, several): (Vec<u32>, Vec<u32>) = possible.iter().partition(|&&rule| asked(rule) == 1);

        let mut reachable = alloc::vec![false; rules.len()];
        let mut see = |rule: u32| {
            if let Some(reachable) = reachable.get_mut(rule as usize) {
                *reachable = true;
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
        let made = groups::make(&axes, &several, &mut reachable).map_err(|_| BuildError::TooComplex)?;
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
        let part = |(axis, (columns, best)): (_, (&Vec<_>, _))| FieldParts::new(axis, &possible, columns, best);
        let fields = axes.iter().zip(uses).map(part).collect();
        Ok(Self { catch_all, fields, groups: sequences, reachable })
    }
}

impl FieldParts {
    fn new(axis: &Axis, rules: &[u32], columns: &[Vec<u32>], best: bool) -> Self {
        let column = |column: &Vec<u32>| column.iter().map(|&number| number.min(NO_RULE)).collect::<Vec<u32>>();
        let (values, rows, columns) = match columns {
            [] => (alloc::vec![0; axis.starts.len()], Vec::new(), Columns::Number),
            [only] => (column(only), Vec::new(), if best { Columns::Best } else { Columns::Number }),
            _ => {
                let (class_of, classes) = axis.classes(rules);
                let stride = columns.len();
                let mut rows = alloc::vec![0; classes as usize * stride];
                rows[0] = if best { NO_RULE } else { 0 };
                for (interval, &class) in class_of.iter().enumerate() {
                    for (at, numbers) in columns.iter().enumerate() {
                        rows[class as usize * stride + at] = numbers[interval].min(NO_RULE);
                    }
                }
                (class_of.iter().map(|class| class * stride as u32).collect(), rows, Columns::Several { best })
            }
        };
        Self { selector: axis.selector, starts: axis.starts.clone(), values, rows, columns }
    }
}

#[cfg(test)]
mod tests;

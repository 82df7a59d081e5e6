//! [`Classes`]: the names and counts of the classes of the configuration, followed by the counts of reservations.

use std::collections::HashMap;

use tidegate_core::{Bytes, ClassId};

use crate::stats::ClassCounts;

/// See the [module](self).
pub(crate) struct Classes {
    names: Vec<String>,
    counts: Vec<ClassCounts>,
    /// The class number of the first reservation.
    first_reserved: u32,
}

impl Classes {
    pub(crate) fn new(names: Vec<String>, first_reserved: u32) -> Self {
        Self { counts: vec![ClassCounts::default(); names.len()], names, first_reserved }
    }
    /// The names of the classes of the configuration.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }
    /// The counts of the classes of the configuration, then those of reservations, present or past.
    pub(crate) fn all(&self) -> &[ClassCounts] {
        &self.counts
    }
    /// The index of the counts of a class. Packets of an unknown class count as those of the last one of the configuration.
    pub(crate) fn index(&self, class: ClassId) -> usize {
        let n = class.0 as usize;
        if n < self.names.len() {
            return n;
        }
        let reserved = class.0.checked_sub(self.first_reserved).map(|n| self.names.len() + n as usize);
        reserved.filter(|&at| at < self.counts.len()).unwrap_or(self.names.len() - 1)
    }
    pub(crate) fn of(&mut self, class: ClassId) -> &mut ClassCounts {
        let at = self.index(class);
        &mut self.counts[at]
    }
    /// The counts at an index.
    pub(crate) fn at(&mut self, place: usize) -> &mut ClassCounts {
        &mut self.counts[place]
    }
    /// Adds counts, all zero, for the class of a new reservation.
    pub(crate) fn open(&mut self, class: ClassId) {
        let at = self.names.len() + (class.0 - self.first_reserved) as usize;
        if at >= self.counts.len() {
            self.counts.resize_with(at + 1, ClassCounts::default);
        }
        self.counts[at] = ClassCounts::default();
    }
    /// Counts that a queued packet moves from the class at index `from` to that at index `to`. `from` is `None` if the class
    /// was removed.
    pub(crate) fn moves(&mut self, from: Option<usize>, to: usize, size: Bytes) {
        if from == Some(to) {
            return;
        }
        if let Some(from) = from {
            self.counts[from].moved_out(size);
        }
        self.counts[to].moved_in(size);
    }
    /// Replaces the classes: a class that keeps its name keeps its counts, and so does every reservation. Also returns, for
    /// each old index, the new one.
    pub(crate) fn renamed(mut self, names: Vec<String>, first_reserved: u32) -> (Self, Vec<Option<usize>>) {
        let reserved = self.counts.split_off(self.names.len());
        let mut new = Self::new(names, first_reserved);
        let places: HashMap<&str, usize> = new.names.iter().map(String::as_str).zip(0..).collect();
        let mut to: Vec<_> = self.names.iter().map(|name| places.get(name.as_str()).copied()).collect();
        for (place, counts) in to.iter().zip(self.counts) {
            if let Some(place) = *place {
                new.counts[place] = counts;
            }
        }
        to.extend((0..reserved.len()).map(|n| Some(new.names.len() + n)));
        new.counts.extend(reserved);
        (new, to)
    }
}

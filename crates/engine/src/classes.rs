//! [`Classes`]: the names of the classes and their counts, those of reservations behind those of the configuration.

use std::collections::HashMap;

use tidegate_core::{Bytes, ClassId};

use crate::stats::ClassCounts;

/// See the [module](self).
pub(crate) struct Classes {
    names: Vec<String>,
    counts: Vec<ClassCounts>,
    /// Class number of the first reservation.
    first_reserved: u32,
}

impl Classes {
    pub(crate) fn new(names: Vec<String>, first_reserved: u32) -> Self {
        Self { counts: vec![ClassCounts::default(); names.len()], names, first_reserved }
    }
    /// The names in the configuration.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }
    /// Those of the configuration, then those of reservations, present or past.
    pub(crate) fn all(&self) -> &[ClassCounts] {
        &self.counts
    }
    /// The index of the counts of a class. An unknown class is counted as the last of the configuration.
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
    /// The counts at a place.
    pub(crate) fn at(&mut self, place: usize) -> &mut ClassCounts {
        &mut self.counts[place]
    }
    /// Counts for the class of a new reservation, from zero.
    pub(crate) fn open(&mut self, class: ClassId) {
        let at = self.names.len() + (class.0 - self.first_reserved) as usize;
        if at >= self.counts.len() {
            self.counts.resize_with(at + 1, ClassCounts::default);
        }
        self.counts[at] = ClassCounts::default();
    }
    /// A packet that waits goes from the class at one place to that at another; none where its class went away.
    pub(crate) fn moves(&mut self, from: Option<usize>, to: usize, size: Bytes) {
        if from == Some(to) {
            return;
        }
        if let Some(from) = from {
            self.counts[from].moved_out(size);
        }
        self.counts[to].moved_in(size);
    }
    /// The same counts under new names: a class that keeps its name keeps its counts, and a reservation does. With the
    /// place where the counts of each old place are now.
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

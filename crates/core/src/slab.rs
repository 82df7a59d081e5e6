//! [`Slab`]: values in numbered slots that are used again, and [`Slot`]: the type of the numbers.
//!
//! *Law*: a slot is given out once until it is released.
//! *Cost*: O(1) a call; it grows to the largest number of slots in use at once, and then allocates no more.
//! *Notes*: at most 2³² - 1 slots. A released slot keeps its value until it is used again, and a slot number says nothing
//! about whether it was: a user whose numbers can be stale compares what it finds there (the key of a flow, for instance).
//! Indexing panics for a number that the slab never gave out, as that of a slice does.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// The number of a slot. Slabs of different things have numbers of different types where one could be taken for the other.
pub trait Slot: Copy {
    /// No slot.
    const NONE: Self;
    /// The slot with this number.
    fn numbered(number: u32) -> Self;
    /// Its number.
    fn number(self) -> u32;
}

impl Slot for u32 {
    const NONE: Self = Self::MAX;
    #[inline]
    fn numbered(number: u32) -> Self {
        number
    }
    #[inline]
    fn number(self) -> u32 {
        self
    }
}

/// Defines a type of slot numbers.
macro_rules! slot {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident;) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        $visibility struct $name(u32);

        impl $crate::slab::Slot for $name {
            const NONE: Self = Self(u32::MAX);
            #[inline]
            fn numbered(number: u32) -> Self {
                Self(number)
            }
            #[inline]
            fn number(self) -> u32 {
                self.0
            }
        }
    };
}
pub(crate) use slot;

/// Values in slots. See the [module](self).
#[derive(Clone, Debug)]
pub struct Slab<S, T> {
    values: Vec<T>,
    free: Vec<S>,
}

impl<S, T> Default for Slab<S, T> {
    fn default() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }
}

impl<S: Slot, T> Slab<S, T> {
    /// An empty slab with room for `capacity` values.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { values: Vec::with_capacity(capacity), free: Vec::new() }
    }
    /// The number of slots, free ones included.
    #[inline]
    pub fn slots(&self) -> u32 {
        self.values.len() as u32
    }
    /// The number of slots that are not free.
    pub fn in_use(&self) -> usize {
        self.values.len() - self.free.len()
    }
    /// The slot that the next [`insert`](Self::insert) fills.
    #[inline]
    pub fn next(&self) -> S {
        self.free.last().copied().unwrap_or_else(|| S::numbered(self.slots()))
    }
    /// Puts `value` into a free slot.
    #[inline]
    pub fn insert(&mut self, value: T) -> S {
        match self.free.pop() {
            Some(slot) => {
                self[slot] = value;
                slot
            }
            None => {
                self.values.push(value);
                S::numbered(self.slots() - 1)
            }
        }
    }
    /// Takes a free slot with the value that it had last, if there is one.
    pub fn reuse(&mut self) -> Option<S> {
        self.free.pop()
    }
    /// Frees `slot`, which must be in use. Its value stays until the slot is used again.
    #[inline]
    pub fn release(&mut self, slot: S) {
        debug_assert!(slot.number() < self.slots() && self.free.len() < self.values.len(), "a slot is freed twice");
        self.free.push(slot);
    }
    /// The value in `slot`; `None` for a slot that was never used.
    #[inline]
    pub fn get(&self, slot: S) -> Option<&T> {
        self.values.get(slot.number() as usize)
    }
    /// Mutable access to the value in `slot`; `None` for a slot that was never used.
    #[inline]
    pub fn get_mut(&mut self, slot: S) -> Option<&mut T> {
        self.values.get_mut(slot.number() as usize)
    }
    /// The values of every slot, free ones included.
    pub fn values(&self) -> core::slice::Iter<'_, T> {
        self.values.iter()
    }
    /// Every slot, free ones included.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = S> + use<S, T> {
        (0..self.slots()).map(S::numbered)
    }
}

impl<S: Slot, T> Index<S> for Slab<S, T> {
    type Output = T;
    #[inline]
    fn index(&self, slot: S) -> &T {
        &self.values[slot.number() as usize]
    }
}

impl<S: Slot, T> IndexMut<S> for Slab<S, T> {
    #[inline]
    fn index_mut(&mut self, slot: S) -> &mut T {
        &mut self.values[slot.number() as usize]
    }
}

impl<S, T> FromIterator<T> for Slab<S, T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self { values: values.into_iter().collect(), free: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    slot! {
        /// A slot of the test.
        struct Number;
    }

    #[test]
    fn a_released_slot_is_the_next_to_be_used() {
        let mut slab: Slab<Number, &str> = ["a", "b", "c"].into_iter().collect();
        assert_eq!((slab.slots(), slab.in_use(), slab.next()), (3, 3, Number(3)));
        slab.release(Number(1));
        slab.release(Number(0));
        assert_eq!((slab.in_use(), slab.next(), slab[Number(0)]), (1, Number(0), "a"));
        assert_eq!((slab.insert("d"), slab.reuse(), slab.reuse()), (Number(0), Some(Number(1)), None));
        assert_eq!((slab[Number(0)], slab[Number(1)], slab.insert("e")), ("d", "b", Number(3)));
        assert_eq!((slab.get(Number(4)), slab.get(Number::NONE)), (None, None));
        assert_eq!(slab.all().map(|slot| slab[slot]).collect::<Vec<_>>(), ["d", "b", "c", "e"]);
    }
}

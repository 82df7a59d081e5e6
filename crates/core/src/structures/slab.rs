//! [`Slab`]: values in numbered slots that are used again, and [`Slot`]: the type of the numbers.
//!
//! *Law*: a slot is given out once until it is released.
//! *Cost*: O(1) a call; it grows to the largest number of slots in use at once, and then allocates no more.
//! *Notes*: at most 2³² - 1 slots. A released slot keeps its value until it is used again, but for the field that
//! [`Reusable`] lends: the list of free slots runs through the values, because a list beside them costs each packet some
//! per cent more. A slot number says nothing about whether the slot was released: a user whose numbers can be stale compares
//! what it finds there (the key of a flow, for instance).
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

/// A value whose slot can be released: one with a field that it does not need then, for the number of the next free slot.
pub trait Reusable<S> {
    /// The field.
    fn next_free(&mut self) -> &mut S;
}

impl<S: Slot> Reusable<S> for S {
    #[inline]
    fn next_free(&mut self) -> &mut S {
        self
    }
}

/// Names the field of a type that has room for the number of the next free slot.
macro_rules! reusable {
    ($type:ident $(<$($generic:ident),+>)?, $($field:ident).+ $([$index:literal])?: $slot:ty) => {
        impl$(<$($generic),+>)? $crate::slab::Reusable<$slot> for $type$(<$($generic),+>)? {
            #[inline]
            fn next_free(&mut self) -> &mut $slot {
                self.$($field).+ $([$index])?.next_free()
            }
        }
    };
}
pub(crate) use reusable;

/// Values in slots. See the [module](self).
#[derive(Clone, Debug)]
pub struct Slab<S, T> {
    values: Vec<T>,
    /// The first of the free slots, each of which has the number of the next.
    free: S,
}

impl<S: Slot, T> Default for Slab<S, T> {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl<S: Slot, T: Reusable<S>> Slab<S, T> {
    /// The slot that the next [`insert`](Self::insert) fills.
    #[inline]
    pub fn next(&self) -> S {
        if self.free.number() == S::NONE.number() { S::numbered(self.slots()) } else { self.free }
    }
    /// Puts `value` into a free slot.
    #[inline]
    pub fn insert(&mut self, value: T) -> S {
        let slot = self.free;
        match self.values.get_mut(slot.number() as usize) {
            Some(free) => {
                self.free = *free.next_free();
                *free = value;
                slot
            }
            None => self.push(value),
        }
    }
    /// Takes a free slot with the value that it had last, if there is one.
    pub fn reuse(&mut self) -> Option<S> {
        let slot = self.free;
        self.free = *self.values.get_mut(slot.number() as usize)?.next_free();
        Some(slot)
    }
    /// Frees `slot`, which must be in use. Its value stays until the slot is used again, but for the field that is lent.
    #[inline]
    pub fn release(&mut self, slot: S) {
        self.take(slot, |_| ());
    }
    /// Frees `slot`, after `take` has returned what is still of use of its value; `None` for a slot that was never used.
    #[inline]
    pub fn take<R>(&mut self, slot: S, take: impl FnOnce(&mut T) -> R) -> Option<R> {
        let value = self.values.get_mut(slot.number() as usize)?;
        let taken = take(value);
        *value.next_free() = core::mem::replace(&mut self.free, slot);
        Some(taken)
    }
}

impl<S: Slot, T> Slab<S, T> {
    /// An empty slab with room for `capacity` values.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { values: Vec::with_capacity(capacity), free: S::NONE }
    }
    /// The number of slots, free ones included.
    #[inline]
    pub fn slots(&self) -> u32 {
        self.values.len() as u32
    }
    /// Puts `value` into a slot that was never used.
    #[inline]
    pub fn push(&mut self, value: T) -> S {
        self.values.push(value);
        S::numbered(self.slots() - 1)
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

impl<S: Slot, T> FromIterator<T> for Slab<S, T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self { values: values.into_iter().collect(), free: S::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    slot! {
        /// A slot of the test.
        struct Number;
    }

    struct Letter {
        letter: &'static str,
        next: Number,
    }

    reusable!(Letter, next: Number);

    fn letter(letter: &'static str) -> Letter {
        Letter { letter, next: Number::NONE }
    }

    #[test]
    fn a_released_slot_is_the_next_to_be_used() {
        let mut slab: Slab<Number, Letter> = ["a", "b", "c"].into_iter().map(letter).collect();
        assert_eq!((slab.slots(), slab.next(), slab.reuse()), (3, Number(3), None));
        slab.release(Number(1));
        slab.release(Number(0));
        assert_eq!((slab.next(), slab[Number(0)].letter), (Number(0), "a"));
        assert_eq!((slab.insert(letter("d")), slab.reuse(), slab.reuse()), (Number(0), Some(Number(1)), None));
        assert_eq!((slab[Number(0)].letter, slab[Number(1)].letter), ("d", "b"));
        assert_eq!((slab.next(), slab.insert(letter("e"))), (Number(3), Number(3)));
        assert!(slab.get(Number(4)).is_none() && slab.get(Number::NONE).is_none());
        assert_eq!(slab.all().map(|slot| slab[slot].letter).collect::<Vec<_>>(), ["d", "b", "c", "e"]);
    }
}

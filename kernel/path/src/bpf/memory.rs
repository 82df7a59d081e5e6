//! [`Mapped`]: the values of a map, in the memory of this process.

use std::io;
use std::sync::atomic::Ordering;

use tidegate_sys::bpf::Map;
use tidegate_sys::map::Shared;

use super::place::Place;

/// The values of a map as numbers of 64 bits, which the kernel reads and writes too. Each is read and written as a whole.
#[derive(Debug)]
pub struct Mapped(Shared);

impl Mapped {
    /// Maps the values of a map that was made to be mapped.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn new(map: &Map) -> io::Result<Self> {
        map.share().map(Self)
    }

    /// Number `at`, before everything that is read after; zero beyond the end.
    pub fn get(&self, at: usize) -> u64 {
        self.0.numbers().get(at).map_or(0, |number| number.load(Ordering::Acquire))
    }

    /// The number at a place, of one of several elements in a row; zero beyond the end.
    pub fn read(&self, place: &Place, element: usize) -> u64 {
        let at = place.at + element * place.apart;
        let whole = self.get(at / 8) >> (at % 8 * 8);
        if place.size >= 8 { whole } else { whole & ((1 << (place.size * 8)) - 1) }
    }

    /// Sets the number at a place, if it has 64 bits. The program may be changing it.
    pub fn write(&self, place: &Place, element: usize, value: u64) {
        if place.size == 8 {
            self.set((place.at + element * place.apart) / 8, value);
        }
    }

    /// Sets number `at`, after everything that was set before; nothing beyond the end.
    pub fn set(&self, at: usize, value: u64) {
        if let Some(number) = self.0.numbers().get(at) {
            number.store(value, Ordering::Release);
        }
    }
}

//! [`Mapped`]: the values of a map, in the memory of this process.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::place::Place;

/// The values of a map as numbers of 64 bits, which the kernel reads and writes too. Each is read and written as a whole.
#[derive(Debug)]
pub struct Mapped {
    first: NonNull<AtomicU64>,
    numbers: usize,
}

// SAFETY: every access to the memory is an atomic operation; the mapping lives as long as the value.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the values, of `size` bytes together, of a map that was made to be mapped.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn new(map: BorrowedFd<'_>, size: usize) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping that overlaps nothing; the kernel refuses a length beyond that of the map.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_SHARED, map.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(Self { first, numbers: size / 8 })
    }

    fn numbers(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, at least as long, and lives as long as `self`; all bit patterns of atomic
        // integers are valid.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.numbers) }
    }

    /// Number `at`, before everything that is read after; zero beyond the end.
    pub fn get(&self, at: usize) -> u64 {
        self.numbers().get(at).map_or(0, |number| number.load(Ordering::Acquire))
    }

    /// The number at a place, of one of several elements in a row; zero beyond the end.
    pub fn read(&self, place: &Place, element: usize) -> u64 {
        let at = place.at + element * place.apart;
        let whole = self.get(at / 8) >> (at % 8 * 8);
        if place.size >= 8 { whole } else { whole & ((1 << (place.size * 8)) - 1) }
    }

    /// Sets number `at`, after everything that was set before; nothing beyond the end.
    pub fn set(&self, at: usize, value: u64) {
        if let Some(number) = self.numbers().get(at) {
            number.store(value, Ordering::Release);
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.numbers * 8) };
    }
}

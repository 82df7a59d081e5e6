//! [`Counting`]: an allocator with which a test shows that something allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The allocator of the system, which counts the allocations of each thread.
#[derive(Debug)]
pub struct Counting;

// SAFETY: every call goes to the allocator of the system as it came; the counter is a plain cell of the thread, made
// without an allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The allocations of the calling thread so far, if [`Counting`] is the allocator of the program.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

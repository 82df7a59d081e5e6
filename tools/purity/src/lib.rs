//! Links the core into a host without an operating system. `std` would bring a second panic handler, which the compiler
//! refuses; a symbol that the core expects from its host would be an import of the module, which `.ci/run` looks for.
#![no_std]

extern crate alloc;

use core::alloc::{GlobalAlloc, Layout};

use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::{Bytes, Deadline, FlowKey, Instant, Packet, Qdisc};

struct Nothing;

impl Packet for Nothing {
    fn size(&self) -> Bytes {
        Bytes::new(1)
    }
    fn flow(&self) -> FlowKey {
        FlowKey::numbered(0)
    }
}

/// Uses the core, so that it is linked.
#[unsafe(no_mangle)]
pub extern "C" fn idle() -> bool {
    let queue: Fifo<Nothing> = Fifo::new(Limit::packets(1));
    queue.deadline(Instant::ZERO) == Deadline::Idle
}

struct NoMemory;

// SAFETY: it never hands out memory.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _layout: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }
    unsafe fn dealloc(&self, _memory: *mut u8, _layout: Layout) {}
}

#[global_allocator]
static MEMORY: NoMemory = NoMemory;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

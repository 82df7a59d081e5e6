//! The page of shaper and guardian.

/// In place of `guardian::memory` of `tidegate-live`: numbers of loom in the place of shared memory.
mod memory {
    use std::ffi::CStr;
    use std::io;
    use std::os::fd::{BorrowedFd, OwnedFd};

    pub(super) use loom::sync::atomic::{AtomicU64, Ordering};

    pub(super) fn memory_file(_: &CStr) -> io::Result<OwnedFd> {
        Ok(std::fs::File::open("/dev/null")?.into())
    }

    #[derive(Debug)]
    pub(super) struct Shared(Vec<AtomicU64>);

    impl Shared {
        /// As many as a page uses; each costs loom memory and time.
        pub(super) fn seal(_: BorrowedFd<'_>, _: usize) -> io::Result<Self> {
            Ok(Self((0..11).map(|_| AtomicU64::new(0)).collect()))
        }
        pub(super) fn sealed(_: BorrowedFd<'_>, _: usize) -> io::Result<Self> {
            Err(io::Error::other("a page of loom cannot be opened again"))
        }
        pub(super) fn numbers(&self) -> &[AtomicU64] {
            &self.0
        }
    }
}
#[path = "../../../../crates/live/src/guardian/page.rs"]
mod page;

pub use page::{Page, Reason, Turn};

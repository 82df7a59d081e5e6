//! The pool of shards.

/// In place of `shards::sync` of `tidegate-engine`.
mod sync {
    pub(super) use loom::sync::{Mutex, MutexGuard};

    pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("no thread panics")
    }
}
#[path = "../../../../crates/engine/src/shards/shared.rs"]
mod shared;

pub use shared::SharedPool;

//! [`SharedPool`]. `tools/interleave` compiles this file with locks that try every order of threads.

use tidegate_core::pool::{Pool, PoolAccess, Reply, Request};
use tidegate_core::{Bytes, ClassId, Instant, Rate};

use super::sync::{Mutex, MutexGuard, lock};

/// A pool of credit behind a lock.
pub struct SharedPool(Mutex<Pool>);

impl SharedPool {
    /// Shares a pool.
    pub fn new(pool: Pool) -> Self {
        Self(Mutex::new(pool))
    }
    fn pool(&self) -> MutexGuard<'_, Pool> {
        // The calls of the pool do not panic between two changes, so that it is consistent.
        lock(&self.0)
    }
}

impl PoolAccess for SharedPool {
    fn take(&self, now: Instant, request: &Request) -> Reply {
        self.pool().take(now, request)
    }
    fn give_back(&self, now: Instant, shard: u32, class: Option<ClassId>, bytes: Bytes) {
        self.pool().give_back(now, shard, class, bytes);
    }
    fn promise(&self, class: ClassId, minimum: Rate) -> bool {
        self.pool().promise(class, minimum)
    }
    fn release(&self, class: ClassId, minimum: Rate) {
        self.pool().release(class, minimum);
    }
    fn promised(&self, class: ClassId) -> Rate {
        self.pool().promised(class)
    }
    fn change(&self, now: Instant, total: (Rate, Bytes), classes: &mut dyn Iterator<Item = (Rate, Bytes)>) {
        self.pool().change(now, total, classes);
    }
}

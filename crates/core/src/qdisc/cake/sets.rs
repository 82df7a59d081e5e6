//! [`Sets`]: which flow has which queue, in sets of eight.
//!
//! *Cost*: a look-up reads the eight tags of a set, which are in a row, and none of its queues.

use alloc::vec::Vec;

/// The queues of a set.
pub(super) const WAYS: u32 = 8;

/// The flow of each queue, and whether the queue is in use. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Sets {
    tags: Vec<[u64; WAYS as usize]>,
    /// A bit for each queue of the set.
    busy: Vec<u8>,
}

impl Sets {
    /// Sets of `queues` queues, a multiple of [`WAYS`], all free.
    pub fn new(queues: u32) -> Self {
        let sets = (queues / WAYS) as usize;
        Self { tags: alloc::vec![[0; WAYS as usize]; sets], busy: alloc::vec![0; sets] }
    }
    /// The flow that has the queue, or had it last.
    pub fn tag(&self, queue: u32) -> u64 {
        self.tags[(queue / WAYS) as usize][(queue % WAYS) as usize]
    }
    /// Gives the queue to another flow.
    pub fn set_tag(&mut self, queue: u32, tag: u64) {
        self.tags[(queue / WAYS) as usize][(queue % WAYS) as usize] = tag;
    }
    /// Whether the queue is in use.
    pub fn is_busy(&self, queue: u32) -> bool {
        self.busy[(queue / WAYS) as usize] >> (queue % WAYS) & 1 == 1
    }
    /// Sets whether the queue is in use.
    pub fn set_busy(&mut self, queue: u32, busy: bool) {
        let set = &mut self.busy[(queue / WAYS) as usize];
        *set = *set & !(1 << (queue % WAYS)) | u8::from(busy) << (queue % WAYS);
    }
    /// Looks `tag` up in the set of `queue`: the first queue that it has in use, and the free queue to take, which is the one
    /// that it had last if that is free.
    pub fn find(&self, queue: u32, tag: u64) -> (Option<u32>, Option<u32>) {
        let set = (queue / WAYS) as usize;
        let equal = (0..).zip(&self.tags[set]).fold(0, |equal, (way, &other)| equal | u8::from(other == tag) << way);
        let busy = self.busy[set];
        let first = |ways: u8| (ways != 0).then(|| queue / WAYS * WAYS + ways.trailing_zeros());
        (first(equal & busy), first(equal & !busy).or(first(!busy)))
    }
}

//! The packets that wait in the engine, in the order in which they came.
//!
//! A discipline need not give up its packets for another to take its place: whatever it holds is here too, as it came,
//! with the fields by which rules judge it. One entry is made and one is freed for each packet, O(1), without
//! allocation once the longest backlog has been seen.

use tidegate_core::classify::Fields;

use crate::packet::QueuedPacket;

const NIL: u32 = u32::MAX;

struct Entry<H> {
    held: QueuedPacket<H>,
    fields: Fields,
    /// Whether it waits in front of the tree.
    waits: bool,
    previous: u32,
    next: u32,
}

/// See the [module](self).
pub(crate) struct PacketTable<H> {
    entries: Vec<Entry<H>>,
    free: u32,
    first: u32,
    last: u32,
    len: usize,
}

impl<H: Copy> PacketTable<H> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: NIL, first: NIL, last: NIL, len: 0 }
    }
    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
    /// Enters a packet as the last, and writes its number into it.
    pub(crate) fn enter(&mut self, held: &mut QueuedPacket<H>, fields: &Fields) -> u32 {
        let at = if self.free == NIL { self.entries.len() as u32 } else { self.free };
        held.slot = at;
        let entry = Entry { held: *held, fields: *fields, waits: false, previous: self.last, next: NIL };
        match self.entries.get_mut(at as usize) {
            Some(old) => {
                self.free = old.next;
                *old = entry;
            }
            None => self.entries.push(entry),
        }
        match self.last {
            NIL => self.first = at,
            last => self.entries[last as usize].next = at,
        }
        self.last = at;
        self.len += 1;
        at
    }
    /// Strikes out a packet.
    pub(crate) fn strike(&mut self, at: u32) {
        let (previous, next) = (self.entries[at as usize].previous, self.entries[at as usize].next);
        match previous {
            NIL => self.first = next,
            previous => self.entries[previous as usize].next = next,
        }
        match next {
            NIL => self.last = previous,
            next => self.entries[next as usize].previous = previous,
        }
        self.entries[at as usize].next = self.free;
        self.free = at;
        self.len -= 1;
    }
    /// A packet as it came.
    pub(crate) fn held(&self, at: u32) -> QueuedPacket<H> {
        self.entries[at as usize].held
    }
    pub(crate) fn held_mut(&mut self, at: u32) -> &mut QueuedPacket<H> {
        &mut self.entries[at as usize].held
    }
    /// By what rules judge it.
    pub(crate) fn fields(&self, at: u32) -> &Fields {
        &self.entries[at as usize].fields
    }
    /// Whether it waits in front of the tree.
    pub(crate) fn waits(&self, at: u32) -> bool {
        self.entries[at as usize].waits
    }
    pub(crate) fn set_waits(&mut self, at: u32, waits: bool) {
        self.entries[at as usize].waits = waits;
    }
    /// The numbers of all that wait, the oldest first.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let mut all = Vec::with_capacity(self.len);
        let mut at = self.first;
        while at != NIL {
            all.push(at);
            at = self.entries[at as usize].next;
        }
        all
    }
}

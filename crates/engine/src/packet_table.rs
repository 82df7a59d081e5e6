//! The packets in the engine, in the order of their arrival.
//!
//! A discipline need not return its packets for another to take its place: every packet is here too, as it arrived, with
//! the fields that classify it.
//!
//! *Cost*: one entry is made and one is freed for each packet, O(1), without allocation once the longest backlog has been
//! reached.

use tidegate_core::classify::Fields;

use crate::packet::QueuedPacket;

const NIL: u32 = u32::MAX;

struct Entry<H> {
    /// The data path's own name for the packet.
    handle: H,
    packet: QueuedPacket,
    fields: Fields,
    /// Whether it is held before the tree.
    held: bool,
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
    /// Packets in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
    /// Appends a packet that the data path names `handle`, and writes its slot into it.
    pub(crate) fn insert(&mut self, handle: H, packet: &mut QueuedPacket, fields: &Fields) -> u32 {
        let slot = if self.free == NIL { self.entries.len() as u32 } else { self.free };
        packet.slot = slot;
        let entry = Entry { handle, packet: *packet, fields: *fields, held: false, previous: self.last, next: NIL };
        match self.entries.get_mut(slot as usize) {
            Some(old) => {
                self.free = old.next;
                *old = entry;
            }
            None => self.entries.push(entry),
        }
        match self.last {
            NIL => self.first = slot,
            last => self.entries[last as usize].next = slot,
        }
        self.last = slot;
        self.len += 1;
        slot
    }
    /// Removes a packet, and returns its handle. Its fields stay readable until the next [`PacketTable::insert`].
    pub(crate) fn remove(&mut self, slot: u32) -> H {
        let Entry { handle, previous, next, .. } = self.entries[slot as usize];
        match previous {
            NIL => self.first = next,
            previous => self.entries[previous as usize].next = next,
        }
        match next {
            NIL => self.last = previous,
            next => self.entries[next as usize].previous = previous,
        }
        self.entries[slot as usize].next = self.free;
        self.free = slot;
        self.len -= 1;
        handle
    }
    /// The data path's name for it.
    pub(crate) fn handle(&self, slot: u32) -> H {
        self.entries[slot as usize].handle
    }
    /// A packet as it arrived.
    pub(crate) fn packet(&self, slot: u32) -> QueuedPacket {
        self.entries[slot as usize].packet
    }
    pub(crate) fn packet_mut(&mut self, slot: u32) -> &mut QueuedPacket {
        &mut self.entries[slot as usize].packet
    }
    /// The fields that classify it.
    pub(crate) fn fields(&self, slot: u32) -> &Fields {
        &self.entries[slot as usize].fields
    }
    /// Whether it is held before the tree.
    pub(crate) fn is_held(&self, slot: u32) -> bool {
        self.entries[slot as usize].held
    }
    pub(crate) fn set_held(&mut self, slot: u32, held: bool) {
        self.entries[slot as usize].held = held;
    }
    /// The slots of all packets, the oldest first.
    pub(crate) fn slots(&self) -> Vec<u32> {
        let mut all = Vec::with_capacity(self.len);
        let mut slot = self.first;
        while slot != NIL {
            all.push(slot);
            slot = self.entries[slot as usize].next;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_in_the_order_of_arrival_and_used_again() {
        let mut table = PacketTable::new();
        let insert = |table: &mut PacketTable<u32>, handle| {
            table.insert(
                handle,
                &mut QueuedPacket { number: handle.into(), ..QueuedPacket::example() },
                &Fields::default(),
            )
        };
        let slots: Vec<u32> = (0..4).map(|handle| insert(&mut table, handle)).collect();
        assert_eq!([1, 3].map(|at| table.remove(slots[at])), [1, 3], "the handles");
        let again = insert(&mut table, 9);
        assert!(slots.contains(&again));
        let numbers: Vec<u64> = table.slots().into_iter().map(|slot| table.packet(slot).number).collect();
        assert_eq!((numbers, table.len()), (vec![0, 2, 9], 3));
    }
}

//! The table of all packets in the engine, as they arrived, with the fields that classify them.
//!
//! Because of it a discipline need not give its packets back when another takes its place.
//!
//! *Cost*: a packet takes and frees one entry, in O(1) without touching another one, and without an allocation once the table
//! has reached the longest backlog. Entries are sorted by arrival only for a change of the configuration or a hand-over.

use tidegate_core::classify::Fields;

use crate::packet::QueuedPacket;

const NIL: u32 = u32::MAX;

/// An entry of three cache lines. A departure reads only the first.
#[repr(C, align(64))]
struct Entry<H> {
    /// The data path's own name for the packet.
    handle: H,
    /// The number of its insertion, with [`HELD`] if the packet is in the hold queue; for a free entry [`FREE`] and the next free
    /// one.
    state: u64,
    fields: Fields,
    packet: QueuedPacket,
}

const FREE: u64 = 1 << 63;
const HELD: u64 = 1 << 62;

/// See the [module](self).
pub(crate) struct PacketTable<H> {
    entries: Vec<Entry<H>>,
    free: u32,
    insertions: u64,
    len: usize,
}

impl<H: Copy> PacketTable<H> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: NIL, insertions: 0, len: 0 }
    }
    /// The number of packets.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
    /// Inserts a packet with the data path's handle, and sets its slot.
    pub(crate) fn insert(&mut self, handle: H, packet: &mut QueuedPacket, fields: &Fields) -> u32 {
        let slot = if self.free == NIL { self.entries.len() as u32 } else { self.free };
        packet.slot = slot;
        let entry = Entry { handle, packet: *packet, fields: *fields, state: self.insertions };
        match self.entries.get_mut(slot as usize) {
            Some(old) => {
                self.free = old.state as u32;
                *old = entry;
            }
            None => self.entries.push(entry),
        }
        self.insertions += 1;
        self.len += 1;
        slot
    }
    /// Removes a packet and returns its handle. The entry stays readable until the next [`PacketTable::insert`].
    pub(crate) fn remove(&mut self, slot: u32) -> H {
        let entry = &mut self.entries[slot as usize];
        entry.state = FREE | u64::from(self.free);
        let handle = entry.handle;
        self.free = slot;
        self.len -= 1;
        handle
    }
    /// The data path's handle of a packet.
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
    /// The fields that classify a packet.
    pub(crate) fn fields(&self, slot: u32) -> &Fields {
        &self.entries[slot as usize].fields
    }
    /// Whether a packet is in the hold queue.
    pub(crate) fn is_held(&self, slot: u32) -> bool {
        self.entries[slot as usize].state & HELD != 0
    }
    pub(crate) fn set_held(&mut self, slot: u32, held: bool) {
        let state = &mut self.entries[slot as usize].state;
        *state = *state & !HELD | if held { HELD } else { 0 };
    }
    /// The slots of all packets in the order of their insertion. Cost: O(n log n) in the number of entries.
    pub(crate) fn slots(&self) -> Vec<u32> {
        let used = (0..).zip(&self.entries).filter(|(_, entry)| entry.state & FREE == 0);
        let mut all: Vec<(u64, u32)> = used.map(|(slot, entry)| (entry.state & !HELD, slot)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, slot)| slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_three_cache_lines() {
        assert_eq!((size_of::<Entry<u32>>(), size_of::<Entry<u64>>()), (192, 192));
    }

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

//! Fragments: all fragments of a datagram are classified as the first, which alone has the ports.
//!
//! *Law*: all fragments of a datagram get one classification. It is that of the first fragment, if this arrives
//! within [`Params::hold`] of the earliest fragment and the bounds below were not reached in between. Otherwise it is
//! the one by addresses alone, for the first fragment too. No packet is lost or released twice. Of the fragments that
//! were held, the first fragment leaves first, the others in order of arrival.
//! *Source*: RFC 791 section 3.2 (a datagram is identified by addresses, protocol and identification) and RFC 8200
//! section 4.5 (by addresses and identification).
//! *Units*: time in ns, sizes in bytes.
//! *Cost*: one keyed hash and O(1) per fragment, and O(1) for each packet released. Packets that are not fragments
//! cost one comparison. No allocation after [`Fragments::new`] except for the table of held packets, which grows to
//! its bound once.
//! *Notes*: memory is bounded by [`Params::datagrams`] records (at most 160 bytes each, and the classification) and
//! [`Params::held_packets`] packets of [`Params::held_bytes`]. Under a flood of fragments the least recently active
//! datagrams are removed first, and fragments that cannot be held pass at once, classified by addresses. A datagram
//! that is removed before its last fragment (after more than `datagrams` newer ones, or idle for [`Params::idle`]) is
//! treated as a new one. Identifications are reused: a first fragment that follows a first fragment starts a new
//! datagram.
//! *Departures from the source, and why*: nothing is reassembled. Shaping needs the classification, not the datagram.
//! So there is no buffer of 64 KB per datagram, and overlaps need no handling.
//! *See also*: [`flow`](crate::flow): the flow key is part of the classification.
//!
//! ```
//! use tidegate_core::{classify::*, fragments::{Fragments, Params}, *};
//! let mut table = Fragments::new(Params::default(), [1, 2]).unwrap();
//! let hosts = Hosts::V4 { source: "192.0.2.1".parse().unwrap(), destination: "198.51.100.1".parse().unwrap() };
//! let piece = |offset, port| Fields {
//!     hosts, protocol: Some(17), destination_port: port,
//!     fragment: Some(Fragment { id: 7, offset, more: offset == 0 }), ..Fields::default()
//! };
//! let mut classify = |fields: &Fields| fields.destination_port;
//! let mut out = vec![];
//! // The second half arrives first and is held; then both are classified by the port.
//! table.arrive(Instant::ZERO, &piece(1480, None), "late", Bytes::new(100), &mut classify, &mut |p, v| out.push((p, v)));
//! table.arrive(Instant::ZERO, &piece(0, Some(53)), "first", Bytes::new(1500), &mut classify, &mut |p, v| out.push((p, v)));
//! assert_eq!(out, [("first", Some(53)), ("late", Some(53))]);
//! ```

use hashbrown::HashTable;

use crate::classify::{Fields, Hosts};
use crate::flow::SipHash13;
use crate::params::ParamError;
use crate::qdisc::Backlog;
use crate::queues::{Linked, List, NIL};
use crate::slab::{Slab, Slot as _, reusable, slot};
use tidegate_units::{Bytes, Instant, Span};

/// Bounds of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The most datagrams recorded. At 10,000 fragmented datagrams per second the default keeps each for 0.4 s.
    pub datagrams: usize,
    /// The most packets held in all; less than `datagrams`.
    pub held_packets: usize,
    /// The most packets held of one datagram. 64 KB in fragments of 1,480 bytes are 45.
    pub held_per_datagram: usize,
    /// The most bytes held in all.
    pub held_bytes: Bytes,
    /// How long a fragment waits for the first. Reordering on paths is within a few milliseconds.
    pub hold: Span,
    /// How long a datagram is recorded after its last fragment.
    pub idle: Span,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            datagrams: 4096,
            held_packets: 512,
            held_per_datagram: 64,
            held_bytes: Bytes::new(1 << 20),
            hold: Span::from_millis(20),
            idle: Span::from_secs(2),
        }
    }
}

impl Params {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Returns the first invalid field.
    pub fn validate(&self) -> Result<(), ParamError> {
        if self.datagrams == 0 || self.datagrams > 1 << 24 {
            return Err(ParamError::new("datagrams", "must be between 1 and 16,777,216"));
        }
        if self.held_packets >= self.datagrams {
            return Err(ParamError::new("held_packets", "must be smaller than `datagrams`"));
        }
        if self.idle < self.hold {
            return Err(ParamError::new("idle", "must not be shorter than `hold`"));
        }
        Ok(())
    }
}

/// Counters, in packets except `forgotten`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Fragments that were held.
    pub held: u64,
    /// Held fragments that were released by the first fragment.
    pub resolved: u64,
    /// Held fragments that were released by the time limit or for lack of space, classified by addresses.
    pub expired: u64,
    /// Fragments that arrived before the first and could not be held.
    pub refused: u64,
    /// Datagrams removed to make space for newer ones.
    pub forgotten: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Datagram {
    hosts: Hosts,
    /// 0 for IPv6, where the fragments of a datagram may have different next headers.
    protocol: u8,
    id: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// Fragments wait for the first.
    Waiting,
    /// Classified by addresses.
    ByAddresses,
    /// Classified by the first fragment.
    ByFirst,
}

slot! {
    /// The number of a held packet.
    struct HeldId;
}

#[derive(Clone, Debug)]
struct Record<V> {
    datagram: Datagram,
    verdict: V,
    standing: Standing,
    /// The arrival of the first held packet while waiting; of the latest packet afterwards.
    since: Instant,
    /// The records before and after it among those that wait, or among the settled ones, which are in the order of use.
    link: [u32; 2],
    held_first: HeldId,
    held_last: HeldId,
    held: u32,
}

#[derive(Clone, Debug)]
struct HeldPacket<P> {
    packet: Option<P>,
    size: Bytes,
    next: HeldId,
}

reusable!(Record<V>, link[0]: u32);
reusable!(HeldPacket<P>, next: HeldId);

impl<V> Linked for Slab<u32, Record<V>> {
    #[inline]
    fn link(&mut self, record: u32) -> &mut [u32; 2] {
        &mut self[record].link
    }
}

/// The table of datagrams, generic over the held packets and the classification. See the [module](self).
#[derive(Clone, Debug)]
pub struct Fragments<P, V> {
    params: Params,
    secret: SipHash13,
    index: HashTable<u32>,
    records: Slab<u32, Record<V>>,
    packets: Slab<HeldId, HeldPacket<P>>,
    waiting: List,
    settled: List,
    backlog: Backlog,
    counts: Counts,
    now: Instant,
}

impl<P, V: Copy> Fragments<P, V> {
    /// Returns an empty table. The secret prevents an outsider from choosing colliding datagrams.
    ///
    /// # Errors
    /// Returns [`Params::validate`]'s.
    pub fn new(params: Params, secret: [u64; 2]) -> Result<Self, ParamError> {
        params.validate()?;
        Ok(Self {
            params,
            secret: SipHash13::new(secret),
            index: HashTable::with_capacity(params.datagrams),
            records: Slab::with_capacity(params.datagrams),
            packets: Slab::default(),
            waiting: List::default(),
            settled: List::default(),
            backlog: Backlog::default(),
            counts: Counts::default(),
            now: Instant::ZERO,
        })
    }

    /// Takes a packet, a fragment or not. `out` receives it with its classification, now or when the first fragment
    /// has arrived, together with every packet that is due at `now`. `classify` maps fields to a classification; it
    /// is called once per datagram, or twice if a later fragment arrived first.
    pub fn arrive(
        &mut self,
        now: Instant,
        fields: &Fields,
        packet: P,
        size: Bytes,
        classify: &mut impl FnMut(&Fields) -> V,
        out: &mut impl FnMut(P, V),
    ) {
        self.expire(now, out);
        // A fragment that is the whole datagram (RFC 6946) is not treated as one.
        let Some(fragment) = fields.fragment.filter(|fragment| fragment.more || fragment.offset != 0) else {
            return out(packet, classify(fields));
        };
        let protocol = match fields.hosts {
            Hosts::V4 { .. } => fields.protocol.unwrap_or(0),
            _ => 0,
        };
        let datagram = Datagram { hosts: fields.hosts, protocol, id: fragment.id };
        let found = self.find(datagram);
        if fragment.is_first() {
            match found {
                Some(at) if self.records[at].standing == Standing::Waiting => {
                    let verdict = classify(fields);
                    out(packet, verdict);
                    self.counts.resolved += self.release(at, verdict, Standing::ByFirst, out);
                }
                Some(at) => {
                    if self.records[at].standing == Standing::ByFirst {
                        self.records[at].verdict = classify(fields);
                    }
                    self.touch(at);
                    out(packet, self.records[at].verdict);
                }
                None => {
                    let verdict = classify(fields);
                    let at = self.insert(datagram, verdict, Standing::ByFirst);
                    self.records.push_back(&mut self.settled, at);
                    out(packet, verdict);
                }
            }
            return;
        }
        match found {
            Some(at) if self.records[at].standing == Standing::Waiting => {
                if self.has_room(size) && (self.records[at].held as usize) < self.params.held_per_datagram {
                    self.hold(at, packet, size);
                } else {
                    let verdict = self.records[at].verdict;
                    self.counts.expired += self.release(at, verdict, Standing::ByAddresses, out);
                    self.counts.refused += 1;
                    out(packet, verdict);
                }
            }
            Some(at) => {
                self.touch(at);
                out(packet, self.records[at].verdict);
            }
            None => {
                let verdict = classify(fields);
                if self.has_room(size) && self.params.held_per_datagram > 0 {
                    let at = self.insert(datagram, verdict, Standing::Waiting);
                    self.records.push_back(&mut self.waiting, at);
                    self.hold(at, packet, size);
                } else {
                    let at = self.insert(datagram, verdict, Standing::ByAddresses);
                    self.records.push_back(&mut self.settled, at);
                    self.counts.refused += 1;
                    out(packet, verdict);
                }
            }
        }
    }

    /// Releases the packets whose time limit is reached at `now`.
    pub fn expire(&mut self, now: Instant, out: &mut impl FnMut(P, V)) {
        self.now = self.now.max(now);
        while self.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.release_oldest(out);
        }
    }

    /// When [`Fragments::expire`] next releases a packet: held packets leave then, or earlier with their first
    /// fragment.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|head| self.records[head].since + self.params.hold)
    }

    /// Releases all held packets, classified by addresses. To be called before the table is dropped.
    pub fn drain(&mut self, out: &mut impl FnMut(P, V)) {
        while !self.waiting.is_empty() {
            self.release_oldest(out);
        }
    }

    /// Removes all classifications, after rules changed. Held packets stay and wait for their first fragment.
    pub fn forget(&mut self) {
        while !self.settled.is_empty() {
            self.remove_oldest();
        }
    }

    /// Returns packets and bytes of the fragments that are held.
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Returns the counts since the start.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn hash(secret: &SipHash13, datagram: &Datagram) -> u64 {
        let id = u64::from(datagram.protocol) << 32 | u64::from(datagram.id);
        match datagram.hosts {
            Hosts::Unknown => secret.words(&[id]),
            Hosts::V4 { source, destination } => {
                secret.words(&[id, u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits())])
            }
            Hosts::V6 { source, destination } => {
                let (s, d) = (source.to_bits(), destination.to_bits());
                secret.words(&[id, (s >> 64) as u64, s as u64, (d >> 64) as u64, d as u64])
            }
        }
    }

    /// Returns the record of `datagram` unless it was idle too long. Removes up to two other idle records.
    fn find(&mut self, datagram: Datagram) -> Option<u32> {
        for _ in 0..2 {
            if self.settled.front().is_some_and(|head| self.is_stale(head)) {
                self.remove_oldest();
            }
        }
        let hash = Self::hash(&self.secret, &datagram);
        let at = *self.index.find(hash, |&at| self.records[at].datagram == datagram)?;
        if self.records[at].standing != Standing::Waiting && self.is_stale(at) {
            self.records.remove(&mut self.settled, at);
            self.unlink(at);
            return None;
        }
        Some(at)
    }

    fn is_stale(&self, at: u32) -> bool {
        self.now.since(self.records[at].since) > self.params.idle
    }

    fn has_room(&self, size: Bytes) -> bool {
        self.backlog.packets < self.params.held_packets as u64 && self.backlog.bytes + size <= self.params.held_bytes
    }

    /// Returns a new record that is in no list yet; removes another if the table is full.
    fn insert(&mut self, datagram: Datagram, verdict: V, standing: Standing) -> u32 {
        if self.index.len() == self.params.datagrams {
            // Fewer packets are held than there are records, so at least one record is settled.
            self.remove_oldest();
            self.counts.forgotten += 1;
        }
        let record = Record {
            datagram,
            verdict,
            standing,
            since: self.now,
            link: [NIL; 2],
            held_first: HeldId::NONE,
            held_last: HeldId::NONE,
            held: 0,
        };
        let at = self.records.insert(record);
        let (secret, records) = (&self.secret, &self.records);
        self.index.insert_unique(Self::hash(secret, &datagram), at, |&at| Self::hash(secret, &records[at].datagram));
        at
    }

    /// Removes the settled datagram that was idle longest.
    fn remove_oldest(&mut self) {
        let Some(at) = self.settled.front() else { return };
        self.records.remove(&mut self.settled, at);
        self.unlink(at);
    }

    /// Removes a record, which is in no list, from the index.
    fn unlink(&mut self, at: u32) {
        let hash = Self::hash(&self.secret, &self.records[at].datagram);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == at) {
            entry.remove();
        }
        self.records.release(at);
    }

    fn touch(&mut self, at: u32) {
        self.records.remove(&mut self.settled, at);
        self.records.push_back(&mut self.settled, at);
        self.records[at].since = self.now;
    }

    fn hold(&mut self, at: u32, packet: P, size: Bytes) {
        let place = self.packets.insert(HeldPacket { packet: Some(packet), size, next: HeldId::NONE });
        let record = &mut self.records[at];
        match record.held_last {
            HeldId::NONE => record.held_first = place,
            last => self.packets[last].next = place,
        }
        record.held_last = place;
        record.held += 1;
        self.backlog.add(size);
        self.counts.held += 1;
    }

    fn release_oldest(&mut self, out: &mut impl FnMut(P, V)) {
        let Some(at) = self.waiting.front() else { return };
        let verdict = self.records[at].verdict;
        self.counts.expired += self.release(at, verdict, Standing::ByAddresses, out);
    }

    /// Settles a waiting record, releases its packets and returns their number.
    fn release(&mut self, at: u32, verdict: V, standing: Standing, out: &mut impl FnMut(P, V)) -> u64 {
        self.records.remove(&mut self.waiting, at);
        self.records.push_back(&mut self.settled, at);
        let record = &mut self.records[at];
        (record.verdict, record.standing, record.since) = (verdict, standing, self.now);
        let mut place = core::mem::replace(&mut record.held_first, HeldId::NONE);
        record.held_last = HeldId::NONE;
        let count = core::mem::take(&mut record.held);
        while place != HeldId::NONE {
            let held = |held: &mut HeldPacket<P>| (held.packet.take(), held.size, held.next);
            let Some((packet, size, next)) = self.packets.take(place, held) else { break };
            self.backlog.remove(size);
            if let Some(packet) = packet {
                out(packet, verdict);
            }
            place = next;
        }
        count.into()
    }
}

#[cfg(test)]
mod tests;

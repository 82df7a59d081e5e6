//! The interfaces of a data path: one, or several whose traffic passes the same queue and the same engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::coverage::Monitor;
use crate::nfqueue::Packet;
use crate::probe::Version;
use crate::rules::Direction;

/// The bytes of the link header, which the interface's counters include.
const LINK_HEADER: u64 = 14;

/// The classes and protocols for which shaping of an interface is proven.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Proof {
    /// Classes with the protocols of which a packet came through.
    pub proven: Vec<(String, Vec<Version>)>,
    /// Classes for which no probe could be made, and why.
    pub unprobed: Vec<(String, String)>,
    /// Protocols that the interface does not carry, and the evidence.
    pub not_carried: Vec<(Version, String)>,
    /// Protocols that the interface carries but that have no packet yet that came through, and why: see [`Shaping::prove_again`](super::Shaping::prove_again).
    pub awaited: Vec<(Version, String)>,
}

impl Proof {
    /// Whether a packet of that protocol has come through.
    pub fn has(&self, version: Version) -> bool {
        self.proven.iter().any(|(_, versions)| versions.contains(&version))
    }

    /// Adds the result of another attempt, which covered everything that was awaited.
    pub(super) fn merge(&mut self, later: Self) {
        for (class, versions) in later.proven {
            match self.proven.iter_mut().find(|(known, _)| *known == class) {
                Some((_, before)) => before.extend(versions),
                None => self.proven.push((class, versions)),
            }
        }
        self.not_carried.extend(later.not_carried);
        self.awaited = later.awaited;
    }
}

/// One of the interfaces whose traffic a data path shapes.
#[derive(Debug)]
pub struct ShapedInterface {
    name: String,
    /// Its index in the data path.
    at: usize,
    /// For each thread.
    counters: Vec<Arc<InterfaceCounters>>,
    pub(super) proof: Proof,
    is_down: bool,
    /// The counters of the interface and the queue at the last measurement.
    pub(super) coverage: Monitor,
}

impl ShapedInterface {
    /// The name of the interface.
    pub fn name(&self) -> &str {
        &self.name
    }
    fn each(&self) -> impl Iterator<Item = &Counter> {
        self.counters.iter().map(|counters| counters.of(self.at))
    }
    fn sum(&self, of: impl Fn(&Counter) -> &AtomicU64) -> u64 {
        self.each().map(|counter| of(counter).load(Relaxed)).sum()
    }
    /// Its index, which stays the same when it is renamed; `None` while it is not there.
    pub fn index(&self) -> Option<u32> {
        self.each().next().map(|counter| counter.index.load(Relaxed)).filter(|&index| index != 0)
    }
    /// Notes its index; with another one the kernel's counters of it begin at zero.
    pub(super) fn set_index(&mut self, index: Option<u32>) {
        if self.index() != index {
            self.each().for_each(|counter| counter.index.store(index.unwrap_or(0), Relaxed));
            self.coverage = Monitor::default();
        }
    }
    /// Whether it is there and was down when it last changed.
    pub fn is_down(&self) -> bool {
        self.is_down
    }
    pub(super) fn set_down(&mut self, is_down: bool) {
        self.is_down = is_down;
    }
    pub(super) fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }
    /// The proof so far: at the start, and later by [`prove_again`](super::Shaping::prove_again).
    pub fn proof(&self) -> &Proof {
        &self.proof
    }
    /// Whether a packet of `version`, other than a probe, has come through the queue.
    pub fn has_received(&self, version: Version) -> bool {
        self.each().any(|counter| counter.of(version).load(Relaxed))
    }
    /// The bytes received from the queue, link headers included; superpackets to be segmented are counted as segments.
    pub(super) fn received_bytes(&self) -> u64 {
        self.sum(|counter| &counter.received_bytes)
    }
    /// The bytes received that were neither sent nor dropped yet, link headers included.
    pub(super) fn waiting_bytes(&self) -> u64 {
        let InterfaceCounts { sent_packets, sent_bytes, dropped_packets } = self.counts();
        let headers = (sent_packets + dropped_packets) * LINK_HEADER;
        let left = sent_bytes + self.sum(|counter| &counter.dropped_bytes) + headers;
        self.received_bytes().saturating_sub(left)
    }
    /// Packets sent and dropped since the start of the data path.
    pub fn counts(&self) -> InterfaceCounts {
        InterfaceCounts {
            sent_packets: self.sum(|counter| &counter.sent_packets),
            sent_bytes: self.sum(|counter| &counter.sent_bytes),
            dropped_packets: self.sum(|counter| &counter.dropped_packets),
        }
    }
}

/// The packets of an interface that the engine has let pass or dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InterfaceCounts {
    /// Packets sent.
    pub sent_packets: u64,
    /// Their bytes, from the network header on.
    pub sent_bytes: u64,
    /// Packets dropped.
    pub dropped_packets: u64,
}

/// The counters of the interfaces, which one thread of the data path writes and others read.
#[derive(Debug)]
pub(super) struct InterfaceCounters {
    direction: Direction,
    each: Box<[Counter]>,
}

#[derive(Debug, Default)]
struct Counter {
    /// Written by the control plane when an interface returns; 0 while it is not there.
    index: AtomicU32,
    v4: AtomicBool,
    v6: AtomicBool,
    received_bytes: AtomicU64,
    sent_packets: AtomicU64,
    sent_bytes: AtomicU64,
    dropped_packets: AtomicU64,
    dropped_bytes: AtomicU64,
}

impl Counter {
    fn of(&self, version: Version) -> &AtomicBool {
        match version {
            Version::V4 => &self.v4,
            Version::V6 => &self.v6,
        }
    }
}

/// Adds to a counter that only this thread writes.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

impl InterfaceCounters {
    /// The interfaces of these names and indices, and their counters for each of `threads` threads.
    pub fn new(
        direction: Direction,
        interfaces: &[(String, Option<u32>)],
        threads: usize,
    ) -> (Vec<Arc<Self>>, Vec<ShapedInterface>) {
        let of_one = |_| Arc::new(Self { direction, each: interfaces.iter().map(|_| Counter::default()).collect() });
        let counters: Vec<_> = (0..threads).map(of_one).collect();
        let interface = |(at, (name, index)): (usize, &(String, Option<u32>))| {
            let (name, counters, proof) = (name.clone(), counters.clone(), Proof::default());
            let mut interface =
                ShapedInterface { name, at, counters, proof, is_down: false, coverage: Monitor::default() };
            interface.set_index(*index);
            interface
        };
        let interfaces = interfaces.iter().enumerate().map(interface).collect();
        (counters, interfaces)
    }

    /// Whether what leaves or what arrives is counted.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    fn of(&self, at: usize) -> &Counter {
        &self.each[at]
    }

    /// The place of the interface of a packet. That of one that has just returned, with an index that is not known yet,
    /// is taken for the first.
    ///
    /// Cost: a comparison for each interface; a configuration has at most 16, whose indices are few lines of memory.
    pub fn place(&self, packet: &Packet<'_>) -> u8 {
        if self.each.len() == 1 {
            return 0;
        }
        let index = match self.direction {
            Direction::Egress => packet.outdev,
            Direction::Ingress => packet.indev,
        };
        self.each.iter().position(|counter| counter.index.load(Relaxed) == index).unwrap_or(0) as u8
    }

    /// The place for a packet of an earlier data path, which had its interface at `at`: the first where that is none here.
    pub fn place_of(&self, at: u8) -> u8 {
        if usize::from(at) < self.each.len() { at } else { 0 }
    }

    /// Counts the bytes of a packet that the queue has delivered.
    pub fn received(&self, at: u8, length: u32) {
        add(&self.of(at.into()).received_bytes, u64::from(length) + LINK_HEADER);
    }

    /// Notes the protocol of a packet that is not a probe.
    pub fn note(&self, at: u8, version: Version) {
        let flag = self.of(at.into()).of(version);
        // Written once, so that the line of memory stays shared.
        if !flag.load(Relaxed) {
            flag.store(true, Relaxed);
        }
    }

    pub fn sent(&self, at: u8, length: u32) {
        let counter = self.of(at.into());
        add(&counter.sent_packets, 1);
        add(&counter.sent_bytes, length.into());
    }

    /// Sets the counters of an interface, in place of [`sent`](Self::sent) and [`dropped`](Self::dropped).
    pub fn set(&self, at: u8, sent_packets: u64, sent_bytes: u64, dropped_packets: u64) {
        let counter = self.of(at.into());
        counter.sent_packets.store(sent_packets, Relaxed);
        counter.sent_bytes.store(sent_bytes, Relaxed);
        counter.dropped_packets.store(dropped_packets, Relaxed);
    }

    /// The packets of all interfaces that were let pass.
    pub fn sent_packets(&self) -> u64 {
        self.each.iter().map(|counter| counter.sent_packets.load(Relaxed)).sum()
    }

    pub fn dropped(&self, at: u8, length: u32) {
        let counter = self.of(at.into());
        add(&counter.dropped_packets, 1);
        add(&counter.dropped_bytes, length.into());
    }
}

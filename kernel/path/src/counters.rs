//! [`Counters`]: the counters of the program, which the engine mirrors.

mod sums;

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_capture::scone::Signal;
use tidegate_core::accounts::Account;
use tidegate_core::cbq::Measured;
use tidegate_core::dualpi2::Coupled;
use tidegate_core::qdisc::Backlog;
use tidegate_core::{Bytes, ClassId, Instant, Rate};
use tidegate_engine::advice::OffloadedAdvice;
use tidegate_engine::guard::lock;
use tidegate_engine::quota::Key;
use tidegate_engine::{Offload, OffloadedFlows, OffloadedReservation, PromiseTable, Promised, Totals};
use tidegate_live::probe::Version;
use tidegate_live::shaping::InterfaceCounts;
use tidegate_live::shaping::backend::OffloadCounters;
use tidegate_units::Span;

use crate::options::counters::{
    ADVISED_PACKETS, ARRIVED_PACKETS, DROPPED, EMPTIED, LONGEST, MARKED_PACKETS, MOVED_IN_PACKETS, MOVED_OUT_PACKETS,
    OVERHEAD_BYTES, QUEUED_PACKETS, REMARKED_PACKETS, SENT_PACKETS, V4_PACKETS, V6_PACKETS, WAITS, WORDS as COUNTERS,
};
use crate::options::{FBQ_CLASSES, LINES, advice, link};
use crate::programs::Discipline;
use crate::reservations;

const BUCKETS: usize = COUNTERS - WAITS;
/// The unit of waits in ns, as a power of two.
const UNIT_BITS: u32 = 10;

pub(crate) use sums::Sums;

/// The account of a reservation, which earlier ones had before.
#[derive(Clone)]
struct Reserved {
    account: String,
    place: u32,
    serial: u64,
    class: ClassId,
    before: Totals,
}

/// The counters of a program, and their state at the last reading.
pub(crate) struct Counters {
    discipline: Arc<Discipline>,
    /// The buckets of waits of each account.
    waits: Vec<[u64; BUCKETS]>,
    /// The number of the change that was in force when flows were read.
    change: u64,
    /// How many events of feedback there were then.
    told: u64,
    /// The flows at the last reading, by key, and their queues.
    places: Vec<(u64, usize)>,
    /// Whether a class advised rates then.
    advises: bool,
    /// The queues of flows that were advised a rate.
    advised: Vec<usize>,
    /// The reservations.
    reserved: Vec<Reserved>,
    /// Packets and bytes of each interface that an earlier data path had counted.
    lines: [InterfaceCounts; LINES as usize],
}

impl Counters {
    pub fn new(discipline: Arc<Discipline>) -> Self {
        let told = discipline.flows.told();
        let lines = std::array::from_fn(|at| discipline.flows.line(at));
        Self {
            discipline,
            waits: vec![[0; BUCKETS]; FBQ_CLASSES as usize],
            change: 0,
            told,
            places: Vec::new(),
            advises: false,
            advised: Vec::new(),
            reserved: Vec::new(),
            lines,
        }
    }

    fn counter(&self, account: usize, at: usize) -> u64 {
        self.discipline.counter(account, at)
    }

    /// Reads the counters of an account. `known` has its buckets of waits at the last reading.
    fn account(&self, account: usize, known: &mut [u64; BUCKETS]) -> Totals {
        let counter = |at: usize| self.counter(account, at);
        let mut waits = Vec::new();
        for (bucket, known) in known.iter_mut().enumerate() {
            let count = counter(WAITS + bucket);
            // An account that began anew counts from zero.
            let new = count.checked_sub(*known).unwrap_or(count);
            if new > 0 {
                waits.push((middle(bucket), new));
            }
            *known = count;
        }
        Totals { waits, ..self.sums(account) }
    }

    /// Reads the counters of an account but for its waits.
    fn sums(&self, account: usize) -> Totals {
        let counter = |at: usize| self.counter(account, at);
        // Each word of packets is followed by a word of bytes.
        let pair = |at: usize| Account { packets: counter(at), bytes: Bytes::new(counter(at + 1)) };
        Totals {
            arrived: pair(ARRIVED_PACKETS),
            sent: pair(SENT_PACKETS),
            overhead: Bytes::new(counter(OVERHEAD_BYTES)),
            dropped: std::array::from_fn(|reason| pair(DROPPED + 2 * reason)),
            marked: counter(MARKED_PACKETS),
            remarked: counter(REMARKED_PACKETS),
            advised: counter(ADVISED_PACKETS),
            moved_in: pair(MOVED_IN_PACKETS),
            moved_out: pair(MOVED_OUT_PACKETS),
            backlog: Backlog { packets: counter(QUEUED_PACKETS), bytes: Bytes::new(counter(QUEUED_PACKETS + 1)) },
            emptied: counter(EMPTIED),
            longest: Span::from_nanos(counter(LONGEST)),
            waits: Vec::new(),
        }
    }
}

impl Offload for Counters {
    fn totals(&mut self, classes: &[String]) -> (Vec<(ClassId, Totals)>, Totals) {
        let accounts = lock(&self.discipline.accounts).clone();
        // The sum includes the accounts of classes that were removed.
        let mut all = Totals::default();
        let mut found = Vec::new();
        let mut waits = std::mem::take(&mut self.waits);
        for ((account, name), known) in accounts.iter().enumerate().zip(&mut waits) {
            let totals = self.account(account, known);
            all.add(&totals);
            if let Some(class) = classes.iter().position(|other| other == name) {
                found.push((ClassId(class as u32), totals));
            } else if let Some(one) = self.reserved.iter().find(|one| one.account == *name) {
                found.push((one.class, totals.since(&one.before)));
            }
        }
        self.waits = waits;
        (found, all)
    }

    fn matched(&mut self) -> Vec<(Option<Key>, Account)> {
        self.discipline.matched()
    }

    fn coupled(&mut self, now: Instant) -> Vec<(ClassId, Coupled)> {
        self.discipline.flows.coupled(now)
    }

    fn shared_classes(&mut self, leaves: u32) -> Vec<(ClassId, Measured)> {
        let [of_leaves, of_others] = self.discipline.flows.shared();
        let reserved = of_leaves.iter().skip(leaves as usize).zip(0..);
        let reserved = reserved.filter_map(|(measured, place)| {
            let one = self.reserved.iter().find(|one| one.place == place)?;
            Some((one.class, *measured))
        });
        let own = (0..leaves).map(ClassId).zip(of_leaves.iter().copied());
        let others = (leaves..).map(ClassId).zip(of_others);
        own.chain(reserved).chain(others).collect()
    }

    fn flows(&mut self) -> OffloadedFlows {
        // A change that comes into force during the reading may have come before or after what is read.
        let change = self.discipline.flows.in_force().0;
        let told = self.discipline.flows.told();
        let (found, held) = self.discipline.flows.all();
        let (places, flows) = found.into_iter().map(|(place, flow)| ((flow.key, place), flow)).unzip();
        self.places = places;
        let continues = self.discipline.flows.in_force().0 == std::mem::replace(&mut self.change, change);
        let crossed = self.discipline.flows.crossed(std::mem::replace(&mut self.told, told), told);
        OffloadedFlows { flows, held, continues, crossed }
    }

    fn set_promises(&mut self, promised: &[Promised], table: &PromiseTable) -> Result<(), String> {
        let mut replaced = Ok(());
        self.discipline.write(|written| {
            replaced = written.promises.replaced(promised, table).map(|promises| written.promises = promises);
        });
        replaced
    }

    fn set_reservations(&mut self, reservations: Vec<OffloadedReservation>) -> Result<(), String> {
        let accounts = lock(&self.discipline.accounts).clone();
        let reserved = |one: &OffloadedReservation| {
            let known = self.reserved.iter().find(|known| known.serial == one.serial).cloned();
            known.unwrap_or_else(|| {
                let name = reservations::account(one.place.into());
                let before = accounts.iter().position(|other| *other == name).map(|account| {
                    self.discipline.counters.set(account * COUNTERS + LONGEST, 0);
                    self.sums(account)
                });
                let OffloadedReservation { place, serial, class, .. } = *one;
                Reserved { account: name, place, serial, class, before: before.unwrap_or_default() }
            })
        };
        let reserved = reservations.iter().map(reserved).collect();
        self.discipline.reserve(reservations)?;
        self.reserved = reserved;
        Ok(())
    }

    fn set_advice(&mut self, advice: &OffloadedAdvice) {
        // Once more after the last advice, to take it back.
        let advises = !advice.classes.is_empty();
        if !std::mem::replace(&mut self.advises, advises) && !advises {
            return;
        }
        let map = &self.discipline.advice;
        let accounts = lock(&self.discipline.accounts).clone();
        for account in 0..FBQ_CLASSES as usize {
            let name = accounts.get(account);
            let class = advice.classes.iter().find(|(class, _)| Some(class) == name);
            map.set(advice::CLASSES + account, class.map_or(0, |(_, rates)| class_word(*rates)));
        }
        // A queue whose flow is gone has another one by now, with another key.
        for place in std::mem::take(&mut self.advised) {
            map.set(advice::FLOWS + place, 0);
        }
        let places: HashMap<u64, usize> = self.places.iter().copied().collect();
        for (key, rate) in &advice.flows {
            if let Some(&place) = places.get(key) {
                map.set(advice::FLOWS + place, key & !0xff | signal(*rate));
                self.advised.push(place);
            }
        }
    }
}

/// The signal of SCONE for a rate plus 1; 0 for none.
fn signal(rate: Option<Rate>) -> u64 {
    rate.map_or(0, |rate| u64::from(Signal::at_most(rate).number()) + 1)
}

/// The word of a class in `struct twin_advice`, of the rates that unknown flows of IPv4 and IPv6 are advised.
fn class_word([v4, v6]: [Option<Rate>; 2]) -> u64 {
    1 | signal(v4) << 8 | signal(v6) << 16
}

impl OffloadCounters for Counters {
    fn renew(&mut self) {
        self.discipline.renew();
    }
    fn feeds_back(&self) -> bool {
        self.discipline.feeds_back()
    }
    fn has_events(&self) -> bool {
        self.discipline.flows.told() != self.told
    }
    fn interfaces(&self) -> Vec<InterfaceCounts> {
        let is_one = |at: &usize| self.discipline.link.get(link::LINES + at) != 0;
        let since = |at: usize| {
            let (now, before) = (self.discipline.flows.line(at), self.lines[at]);
            InterfaceCounts {
                sent_packets: now.sent_packets - before.sent_packets,
                sent_bytes: now.sent_bytes - before.sent_bytes,
                dropped_packets: now.dropped_packets - before.dropped_packets,
            }
        };
        (0..LINES as usize).take_while(is_one).map(since).collect()
    }
    fn has_sent(&self, version: Version) -> bool {
        let counter = match version {
            Version::V4 => V4_PACKETS,
            Version::V6 => V6_PACKETS,
        };
        let accounts = lock(&self.discipline.accounts).len();
        (0..accounts).any(|account| self.counter(account, counter) > 0)
    }
}

/// The bytes that an account has sent, and the packets of it that wait.
pub(crate) fn sent(discipline: &Discipline, account: usize) -> (u64, u64) {
    (discipline.counter(account, SENT_PACKETS + 1), discipline.counter(account, QUEUED_PACKETS))
}

/// The number of packets that are queued.
pub(crate) fn queued(discipline: &Discipline) -> u64 {
    (0..FBQ_CLASSES as usize).map(|account| discipline.counter(account, QUEUED_PACKETS)).sum()
}

/// The middle of a bucket of waits.
fn middle(bucket: usize) -> Span {
    let lowest = |bucket: u64| match bucket {
        0..=3 => bucket << UNIT_BITS,
        _ => (4 + bucket % 4) << (bucket / 4 - 1) << UNIT_BITS,
    };
    Span::from_nanos(u64::midpoint(lowest(bucket as u64), lowest(bucket as u64 + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,024 ns up to four of them, then four buckets to each doubling.
    #[test]
    fn buckets_follow_each_other() {
        assert_eq!([0, 3, 4, 7, 8].map(|bucket| middle(bucket).as_nanos()), [512, 3_584, 4_608, 7_680, 9_216]);
        assert!((1..BUCKETS).all(|bucket| middle(bucket - 1) < middle(bucket)));
        assert!(middle(BUCKETS - 1) > Span::from_secs(200));
    }

    /// A reservation begins at zero in the account of an earlier one. What is queued is as it is.
    #[test]
    fn what_an_earlier_reservation_counted_is_left_out() {
        let totals = |packets: u64| Totals {
            sent: Account { packets, bytes: Bytes::new(100 * packets) },
            emptied: packets,
            backlog: Backlog { packets: 3, bytes: Bytes::new(300) },
            ..Totals::default()
        };
        let since = totals(9).since(&totals(5));
        assert_eq!((since.sent.packets, since.sent.bytes, since.emptied), (4, Bytes::new(400), 4));
        assert_eq!(since.backlog.packets, 3);
    }

    /// 1 and 10 Mbit/s are signals 20 and 40; no advice is not the lowest one.
    #[test]
    fn advice_is_a_signal_for_each_family() {
        assert_eq!(class_word([Some(Rate::from_mbit(1)), Some(Rate::from_mbit(10))]), 41 << 16 | 21 << 8 | 1);
        assert_eq!(class_word([None, Some(Rate::from_bps(1))]), 1 << 16 | 1);
    }
}

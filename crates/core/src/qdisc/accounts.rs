//! [`Accounted`]: a wrapper that counts what a discipline enqueues, dequeues and drops.

use crate::dualpi2::Coupled;
use crate::packet::{ClassId, Packet};
use crate::probability::Probability;
use crate::qdisc::{Backlog, Deadline, DropReason, Event, Outlet, Qdisc, Queued};
use tidegate_units::{Bytes, Instant};

/// Packets and bytes that were counted together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// The number of packets.
    pub packets: u64,
    /// Their size in total, link overhead included.
    pub bytes: Bytes,
}

impl Account {
    /// Counts one packet of `size`.
    pub fn count(&mut self, size: Bytes) {
        self.packets += 1;
        self.bytes += size;
    }
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
    /// The part that was counted after `before`; nothing where that is more.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self { packets: self.packets.saturating_sub(before.packets), bytes: self.bytes.saturating_sub(before.bytes) }
    }
}

/// The packets and bytes that a discipline has enqueued, dequeued and dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Accounts {
    /// Passed to `enqueue`.
    pub enqueued: Account,
    /// Returned by `dequeue`.
    pub dequeued: Account,
    /// Dropped, by [`DropReason`] in the order of [`DropReason::ALL`].
    pub dropped: [Account; DropReason::ALL.len()],
}

impl Accounts {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.enqueued.add(other.enqueued);
        self.dequeued.add(other.dequeued);
        for (sum, one) in self.dropped.iter_mut().zip(other.dropped) {
            sum.add(one);
        }
    }
    /// The sum over all reasons.
    pub fn dropped_total(&self) -> Account {
        self.dropped.iter().fold(Account::default(), |sum, one| Account {
            packets: sum.packets + one.packets,
            bytes: sum.bytes + one.bytes,
        })
    }
    /// Whether law 1 holds with `backlog` queued: enqueued = dequeued + dropped + backlog.
    pub fn balance(&self, backlog: Backlog) -> bool {
        let dropped = self.dropped_total();
        self.enqueued.packets == self.dequeued.packets + dropped.packets + backlog.packets
            && self.enqueued.bytes == self.dequeued.bytes + dropped.bytes + backlog.bytes
    }
}

/// A discipline with its accounts. In debug builds the balance (law 1) is asserted after every call.
#[derive(Clone, Debug)]
pub struct Accounted<Q> {
    inner: Q,
    accounts: Accounts,
}

impl<Q> Accounted<Q> {
    /// Wraps a discipline, which must be empty.
    pub fn new(inner: Q) -> Self {
        Self { inner, accounts: Accounts::default() }
    }
    /// The counts since construction.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }
    /// The wrapped discipline.
    pub fn inner(&self) -> &Q {
        &self.inner
    }
    /// The wrapped discipline, for changes of its parameters. Packets must only pass through the wrapper.
    pub fn inner_mut(&mut self) -> &mut Q {
        &mut self.inner
    }
}

/// Counts drops and forwards them to the caller's outlet.
struct CountingOutlet<'a, P> {
    dropped: &'a mut [Account; DropReason::ALL.len()],
    out: &'a mut dyn Outlet<P>,
}

impl<P: Packet> Outlet<P> for CountingOutlet<'_, P> {
    fn dropped(&mut self, packet: P, reason: DropReason) {
        self.dropped[reason as usize].count(packet.size());
        self.out.dropped(packet, reason);
    }
    fn event(&mut self, event: Event) {
        self.out.event(event);
    }
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for Accounted<Q> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.accounts.enqueued.count(packet.size());
        let queued = self.inner.enqueue(now, packet, &mut CountingOutlet { dropped: &mut self.accounts.dropped, out });
        debug_assert!(self.accounts.balance(self.inner.backlog()), "law 1 broken by enqueue");
        queued
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        let packet = self.inner.dequeue(now, &mut CountingOutlet { dropped: &mut self.accounts.dropped, out });
        if let Some(packet) = &packet {
            self.accounts.dequeued.count(packet.size());
        }
        debug_assert!(self.accounts.balance(self.inner.backlog()), "law 1 broken by dequeue");
        packet
    }

    fn deadline(&self, now: Instant) -> Deadline {
        self.inner.deadline(now)
    }

    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }

    fn probability(&self) -> Option<Probability> {
        self.inner.probability()
    }

    fn coupled(&self, class: ClassId, now: Instant) -> Option<Coupled> {
        self.inner.coupled(class, now)
    }
}

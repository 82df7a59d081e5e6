//! [`Books`]: a wrapper that keeps the accounts of any discipline, so that the discipline only decides.

use crate::packet::Packet;
use crate::qdisc::{Backlog, Deadline, DropReason, Event, Outlet, Qdisc};
use tidegate_units::{Bytes, Instant};

/// Packets and bytes that went one way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: Bytes,
}

impl Account {
    /// Counts one packet of `size`.
    pub fn count(&mut self, size: Bytes) {
        self.packets += 1;
        self.bytes += size;
    }
}

/// The accounts of a discipline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Accounts {
    /// Handed in.
    pub enqueued: Account,
    /// Given out.
    pub dequeued: Account,
    /// Not delivered, by [`DropReason`] in the order of [`DropReason::ALL`].
    pub dropped: [Account; DropReason::ALL.len()],
}

impl Accounts {
    /// All drops together.
    pub fn dropped_total(&self) -> Account {
        self.dropped.iter().fold(Account::default(), |sum, one| Account {
            packets: sum.packets + one.packets,
            bytes: sum.bytes + one.bytes,
        })
    }
    /// Whether law 1 holds with `backlog` inside: enqueued = dequeued + dropped + backlog.
    pub fn balance(&self, backlog: Backlog) -> bool {
        let dropped = self.dropped_total();
        self.enqueued.packets == self.dequeued.packets + dropped.packets + backlog.packets
            && self.enqueued.bytes == self.dequeued.bytes + dropped.bytes + backlog.bytes
    }
}

/// A discipline with its accounts. In debug builds the balance (law 1) is asserted after every call.
#[derive(Clone, Debug)]
pub struct Books<Q> {
    inner: Q,
    accounts: Accounts,
}

impl<Q> Books<Q> {
    /// Opens the books of an empty discipline.
    pub fn new(inner: Q) -> Self {
        Self { inner, accounts: Accounts::default() }
    }
    /// The accounts so far.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }
    /// The discipline.
    pub fn inner(&self) -> &Q {
        &self.inner
    }
    /// The discipline, to change its parameters. Packets must only pass through the books.
    pub fn inner_mut(&mut self) -> &mut Q {
        &mut self.inner
    }
}

/// Writes drops down on their way to the real outlet.
struct Ledger<'a, P> {
    dropped: &'a mut [Account; DropReason::ALL.len()],
    out: &'a mut dyn Outlet<P>,
}

impl<P: Packet> Outlet<P> for Ledger<'_, P> {
    fn dropped(&mut self, packet: P, reason: DropReason) {
        self.dropped[reason as usize].count(packet.size());
        self.out.dropped(packet, reason);
    }
    fn event(&mut self, event: Event) {
        self.out.event(event);
    }
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for Books<Q> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) {
        self.accounts.enqueued.count(packet.size());
        self.inner.enqueue(now, packet, &mut Ledger { dropped: &mut self.accounts.dropped, out });
        debug_assert!(self.accounts.balance(self.inner.backlog()), "law 1 broken by enqueue");
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        let packet = self.inner.dequeue(now, &mut Ledger { dropped: &mut self.accounts.dropped, out });
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
}

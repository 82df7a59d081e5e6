//! [`Totals`]: counters of a class under an [`Offload`](crate::Offload).

use tidegate_core::accounts::Account;
use tidegate_core::{Backlog, Bytes, ClassId, DropReason, Instant, Span};

use crate::account::LineUse;
use crate::engine::Engine;

/// The counters of an offloaded class since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Packets that were queued or dropped on arrival.
    pub arrived: Account,
    /// Packets that were sent.
    pub sent: Account,
    /// The overhead of the line within the bytes sent.
    pub overhead: Bytes,
    /// Packets dropped, by reason.
    pub dropped: [Account; DropReason::ALL.len()],
    /// Packets that got a mark of congestion.
    pub marked: u64,
    /// Packets whose code point was changed.
    pub remarked: u64,
    /// Datagrams into which a rate was written as advice.
    pub advised: u64,
    /// Packets that came from another class while they waited.
    pub moved_in: Account,
    /// Packets that went to another class while they waited.
    pub moved_out: Account,
    /// Packets that are queued.
    pub backlog: Backlog,
    /// How often the queue became empty by a departure.
    pub emptied: u64,
    /// The longest wait of a packet that was sent.
    pub longest: Span,
    /// A histogram of the delays of packets sent since the last reading: delay and number of packets.
    pub waits: Vec<(Span, u64)>,
}

impl Totals {
    /// Adds the counters of another class, except for its backlog and delays.
    pub fn add(&mut self, other: &Self) {
        self.arrived.add(other.arrived);
        self.sent.add(other.sent);
        self.overhead += other.overhead;
        for (sum, other) in self.dropped.iter_mut().zip(other.dropped) {
            sum.add(other);
        }
    }
    /// The counts since `before`, beside the backlog and the waits of this reading.
    #[must_use]
    pub fn since(self, before: &Self) -> Self {
        Self {
            arrived: self.arrived.since(before.arrived),
            sent: self.sent.since(before.sent),
            overhead: self.overhead.saturating_sub(before.overhead),
            dropped: std::array::from_fn(|reason| self.dropped[reason].since(before.dropped[reason])),
            marked: self.marked.saturating_sub(before.marked),
            remarked: self.remarked.saturating_sub(before.remarked),
            advised: self.advised.saturating_sub(before.advised),
            moved_in: self.moved_in.since(before.moved_in),
            moved_out: self.moved_out.since(before.moved_out),
            emptied: self.emptied.saturating_sub(before.emptied),
            ..self
        }
    }
    /// Adds all counters of another scheduler that has a part of the same packets.
    pub fn merge(&mut self, other: Self) {
        self.add(&other);
        self.marked += other.marked;
        self.remarked += other.remarked;
        self.advised += other.advised;
        self.moved_in.add(other.moved_in);
        self.moved_out.add(other.moved_out);
        self.backlog.merge(other.backlog);
        self.emptied += other.emptied;
        self.longest = self.longest.max(other.longest);
        self.waits.extend(other.waits);
    }
    /// Packets that were dropped.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped.iter().map(|dropped| dropped.packets).sum()
    }
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Sets the counters of `classes` to a reading at `now`, and those of all packets to `all`.
    pub(crate) fn set_totals(&mut self, now: Instant, classes: &[(ClassId, Totals)], all: &Totals) {
        let (account, registry) = (&mut self.account, &self.admit.registry);
        for (class, totals) in classes {
            let counts = account.classes.of(*class);
            let new = totals.sent.since(counts.through);
            counts.accounts.enqueued = totals.arrived;
            counts.accounts.dequeued = totals.sent;
            counts.accounts.dropped = totals.dropped;
            (counts.marked, counts.remarked, counts.advised) = (totals.marked, totals.remarked, totals.advised);
            counts.through = totals.sent;
            (counts.moved_in, counts.moved_out) = (totals.moved_in, totals.moved_out);
            counts.backlog = totals.backlog;
            counts.add_offloaded(now, new, totals, registry.offloaded_class_held(*class).is_some());
        }
        account.arrivals = all.arrived.packets;
        account.sent = all.sent;
        account.dropped = all.dropped_packets();
        account.line = LineUse { packets: all.sent.bytes.saturating_sub(all.overhead), line: all.sent.bytes };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Names, Setup};
    use tidegate_config::{Diagnostics, Source, shaper};
    use tidegate_core::Rate;

    #[test]
    fn the_counters_are_the_status_of_the_class() {
        let text = "version = 1\n[discipline]\nkind = \"fifo\"\n";
        let config = shaper::load(&Source::new("totals.toml", text), &mut Diagnostics::new()).expect("valid");
        let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
        let mut engine: Engine<u32> = Engine::new(&config, &setup, Instant::ZERO).expect("valid");
        let account = |packets, bytes| Account { packets, bytes: Bytes::new(bytes) };
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        let mut dropped = [Account::default(); DropReason::ALL.len()];
        dropped[DropReason::QueueLimit as usize] = account(2, 2_000);
        dropped[DropReason::Flushed as usize] = account(3, 3_000);
        let totals = Totals {
            arrived: account(15, 15_000),
            sent: account(9, 9_000),
            overhead: Bytes::new(342),
            dropped,
            marked: 4,
            remarked: 7,
            advised: 2,
            backlog: Backlog { packets: 1, bytes: Bytes::new(1_000) },
            longest: Span::from_millis(7),
            waits: vec![(Span::from_millis(1), 8), (Span::from_millis(6), 1)],
            ..Totals::default()
        };
        let mut all = Totals::default();
        all.add(&totals);
        engine.set_totals(at(1), &[(ClassId(0), totals.clone())], &all);
        // Nothing new in the second before.
        let later = Totals { waits: Vec::new(), ..totals };
        engine.set_totals(at(1_001), &[(ClassId(0), later)], &all);
        let status = engine.status();
        let counts = &status[0].counts;
        assert_eq!((counts.accounts.enqueued.packets, counts.through.packets, counts.backlog.packets), (15, 9, 1));
        assert_eq!((counts.marked, counts.remarked, counts.advised), (4, 7, 2));
        assert_eq!(counts.accounts.dropped[DropReason::Flushed as usize].packets, 3);
        assert_eq!(counts.accounts.dropped[DropReason::QueueLimit as usize].bytes, Bytes::new(2_000));
        assert_eq!((counts.waited.count(), counts.waited.longest()), (9, Span::from_millis(7)));
        let median = counts.waited_at(0.5);
        assert!(median > Span::from_micros(960) && median < Span::from_micros(1_040), "{median}");
        assert!(counts.rate(at(1_001)) < Rate::from_kbit(100), "{}", counts.rate(at(1_001)));
        assert_eq!(engine.line(), LineUse { packets: Bytes::new(8_658), line: Bytes::new(9_000) });
        assert_eq!((engine.sent().packets, engine.dropped()), (9, 5));
    }

    /// 8 Mbit/s are 1,000 packets of 1,000 B a second. In the third second the queue was empty once, between two looks.
    #[test]
    fn an_offloaded_class_kept_its_rate_where_it_sent_that() {
        let text = "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\ndefault = true\n";
        let config = shaper::load(&Source::new("totals.toml", text), &mut Diagnostics::new()).expect("valid");
        let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
        let mut engine: Engine<u32> = Engine::new(&config, &setup, Instant::ZERO).expect("valid");
        let account = |packets: u64| Account { packets, bytes: Bytes::new(packets * 1_000) };
        let mut look = |millis, sent: u64, emptied: u64| {
            let backlog = Backlog { packets: 50, bytes: Bytes::new(50_000) };
            let all =
                Totals { arrived: account(sent + 50), sent: account(sent), backlog, emptied, ..Totals::default() };
            let now = Instant::ZERO + Span::from_millis(millis);
            engine.set_totals(now, &[(ClassId(0), all.clone())], &all);
            let mut rows = Vec::new();
            engine.class_rows(now, 0, 1, &mut rows);
            let promise = *rows[0].counts.promise();
            (promise.kept(), promise.missed())
        };
        assert_eq!(look(1_000, 10, 3), (0, 0));
        assert_eq!(look(1_500, 510, 3), (0, 0));
        assert_eq!(look(2_000, 1_010, 3), (1, 0));
        assert_eq!(look(3_000, 1_510, 3), (1, 1));
        assert_eq!(look(3_500, 1_710, 4), (1, 1));
        assert_eq!(look(4_000, 2_010, 4), (1, 1));
    }
}

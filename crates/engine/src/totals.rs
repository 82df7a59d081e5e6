//! [`Engine::set_totals`]: the counts of a data path in the kernel, whose packets never reach the engine.
//!
//! The engine then has the configuration and the counts of its classes, so that everything that reads them is the same for
//! each data path.

use tidegate_core::accounts::Account;
use tidegate_core::{ClassId, DropReason, Instant};

use crate::account::LineUse;
use crate::engine::Engine;
use crate::stats::Totals;

impl<H: Copy + Send + 'static> Engine<H> {
    /// Sets the counts of `classes`, which were read at `now`, and those of all packets.
    pub fn set_totals(&mut self, now: Instant, classes: &[(ClassId, Totals)], all: &Totals) {
        let account = &mut self.account;
        for (class, totals) in classes {
            let counts = account.classes.of(*class);
            let new = Account {
                packets: totals.sent.packets.saturating_sub(counts.through.packets),
                bytes: totals.sent.bytes.saturating_sub(counts.through.bytes),
            };
            counts.accounts.enqueued = totals.arrived;
            counts.accounts.dequeued = totals.sent;
            counts.accounts.dropped[DropReason::QueueLimit as usize] = totals.full;
            counts.accounts.dropped[DropReason::Early as usize] = totals.early;
            counts.accounts.dropped[DropReason::Flushed as usize] = totals.flushed;
            counts.through = totals.sent;
            (counts.moved_in, counts.moved_out) = (totals.moved_in, totals.moved_out);
            counts.backlog = totals.backlog;
            counts.waited_elsewhere(now, new, totals);
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
    use tidegate_core::qdisc::Backlog;
    use tidegate_core::{Bytes, Rate, Span};

    #[test]
    fn what_the_kernel_counted_is_the_status_of_the_class() {
        let text = "version = 1\n[discipline]\nkind = \"fifo\"\n";
        let config = shaper::load(&Source::new("totals.toml", text), &mut Diagnostics::new()).expect("valid");
        let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, names: Names::default() };
        let mut engine: Engine<u32> = Engine::new(&config, &setup, Instant::ZERO).expect("valid");
        let account = |packets, bytes| Account { packets, bytes: Bytes::new(bytes) };
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        let totals = Totals {
            arrived: account(15, 15_000),
            sent: account(9, 9_000),
            overhead: Bytes::new(342),
            full: account(2, 2_000),
            flushed: account(3, 3_000),
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
    fn a_class_of_the_kernel_had_its_rate_where_it_sent_that() {
        let text = "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\ndefault = true\n";
        let config = shaper::load(&Source::new("totals.toml", text), &mut Diagnostics::new()).expect("valid");
        let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, names: Names::default() };
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

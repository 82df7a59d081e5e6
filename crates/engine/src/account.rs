//! [`Accounting`] counts packets by class and by flow as they arrive, leave and are dropped.
//!
//! *Law*: for the packets that the rules put into a class, arrived + moved in = sent + dropped + moved out + queued.
//! *Cost*: with `detail = "flows"` an arrival looks up its flow once ([`Accounting::find`]). The record also holds the slot of
//! the flow in the scheduler, which therefore need not look the flow up. A departure or a drop looks nothing up: the packet
//! carries the index of the record, which is kept while a packet of the flow is queued.

use tidegate_config::shaper::{Config, Detail, Root};
use tidegate_core::accounts::Account;
use tidegate_core::cake::Wire;
use tidegate_core::classify::Fields;
use tidegate_core::{Bytes, ClassId, DropReason, Instant, Packet};

use crate::class_names::names_of;
use crate::classes::Classes;
use crate::flow_record::Leaving;
use crate::flows::{self, FlowSlots, Flows};
use crate::packet::QueuedPacket;
use crate::quota::Meter;
use crate::rules::{BuildFailure, Classification};
use crate::sink::Change;
use crate::tree::Tree;

/// See the [module](self).
pub(crate) struct Accounting {
    pub(crate) classes: Classes,
    /// How much is measured beyond the counts of classes.
    pub(crate) detail: Detail,
    /// The flow table; `None` unless `detail = "flows"`.
    pub(crate) flows: Option<Flows>,
    pub(crate) arrivals: u64,
    pub(crate) unclassified: u64,
    pub(crate) rules: Meter,
    pub(crate) sent: Account,
    pub(crate) line: LineUse,
    pub(crate) overhead: LineOverhead,
    pub(crate) dropped: u64,
}

/// Bytes sent so far, without and with the overhead of the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LineUse {
    /// Bytes from the network header on.
    pub packets: Bytes,
    /// Bytes on the line: with the overhead of each packet.
    pub line: Bytes,
}

/// The overhead of the line, as the configuration states it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineOverhead {
    /// Bytes a packet that the size of a packet already includes.
    included: u64,
    /// Overhead that the discipline itself adds to the size of a packet.
    wire: Wire,
}

impl LineOverhead {
    pub(crate) fn of(config: &Config) -> Self {
        let wire = match &config.root {
            Root::Shaper(_) => Wire::RAW,
            Root::Discipline(discipline) => discipline.wire().0,
        };
        Self { included: config.interface.overhead.as_u64(), wire }
    }

    #[inline]
    fn count(&self, packet: &QueuedPacket, to: &mut LineUse) {
        let included = self.included * u64::from(packet.segments.max(1));
        to.packets += Bytes::new(packet.size.as_u64().saturating_sub(included));
        to.line += match self.wire == Wire::RAW {
            true => packet.size,
            false => self.wire.bytes(packet.size, packet.segments),
        };
    }
}

/// Makes the flow table that `config` asks for.
pub(crate) fn flows_of(config: &Config) -> Result<Option<Flows>, BuildFailure> {
    match config.statistics.detail {
        Detail::Flows => Flows::new(config.statistics.flows, config.statistics.idle)
            .map(Some)
            .map_err(|error| BuildFailure::Tree(format!("statistics: {error}"))),
        Detail::Classes | Detail::Off => Ok(None),
    }
}

impl Accounting {
    pub(crate) fn new(config: &Config, first_reserved: u32) -> Result<Self, BuildFailure> {
        Ok(Self {
            classes: Classes::new(names_of(config), first_reserved),
            detail: config.statistics.detail,
            flows: flows_of(config)?,
            arrivals: 0,
            unclassified: 0,
            rules: Meter::new(config),
            sent: Account::default(),
            line: LineUse::default(),
            overhead: LineOverhead::of(config),
            dropped: 0,
        })
    }

    /// Looks a flow up. See [`Flows::slots`].
    #[inline]
    pub(crate) fn find(&self, flow: u64) -> FlowSlots {
        self.flows.as_ref().map_or(FlowSlots::NONE, |flows| flows.slots(flow))
    }

    /// Counts an arrival; returns the index of the record of its flow.
    #[inline]
    pub(crate) fn arrived(
        &mut self,
        now: Instant,
        classification: &Classification,
        fields: &Fields,
        size: Bytes,
        slots: FlowSlots,
    ) -> u32 {
        let Classification { rule, class, flow } = *classification;
        self.unclassified += u64::from(rule.is_none());
        self.rules.count(rule, size);
        self.classes.of(class).arrived(size);
        self.flow_arrived(now, flow.flow, fields, (class, rule), size, slots)
    }

    /// Counts an arrival in the record of its flow only.
    #[inline]
    pub(crate) fn flow_arrived(
        &mut self,
        now: Instant,
        flow: u64,
        fields: &Fields,
        class: (ClassId, Option<u32>),
        size: Bytes,
        slots: FlowSlots,
    ) -> u32 {
        match &mut self.flows {
            Some(flows) => flows.arrived(now, flow, fields, class, size, slots.record),
            None => flows::UNTRACKED,
        }
    }

    /// Remembers that the scheduler has the flow of `record` in `slot`.
    #[inline]
    pub(crate) fn scheduled(&mut self, record: u32, slot: u32) {
        if let Some(flows) = &mut self.flows {
            flows.scheduled(record, slot);
        }
    }

    /// Counts a departure; `change` was made to the packet.
    pub(crate) fn sent(&mut self, now: Instant, packet: &QueuedPacket, change: Change, tree: &Tree) {
        self.sent.count(packet.size);
        self.overhead.count(packet, &mut self.line);
        let index = self.classes.index(packet.class);
        let held = self.detail != Detail::Off && tree.is_held(packet.class);
        let counts = self.classes.at(index);
        counts.dequeued(packet.size, held);
        counts.marked += u64::from(change.congestion);
        counts.remarked += u64::from(change.dscp.is_some());
        let through = self.classes.of(packet.left_by);
        through.sent(packet.size);
        if self.detail == Detail::Off {
            return;
        }
        let waited = now.since(packet.arrived);
        through.measured(now, packet.size, waited);
        if let Some(flows) = &mut self.flows {
            let leaving = Leaving {
                size: packet.size,
                waited,
                through: packet.left_by,
                marked: change.congestion,
                remarked: change.dscp.is_some(),
            };
            if let Some(difference) = flows.departed(now, packet.record, &leaving) {
                through.differed(difference);
            }
        }
        self.check_minimums(now, packet, tree);
    }

    /// Counts a drop.
    pub(crate) fn dropped(&mut self, now: Instant, packet: &QueuedPacket, reason: DropReason) {
        self.dropped += 1;
        self.classes.of(packet.class).dropped(packet.size(), reason);
        if let Some(flows) = &mut self.flows {
            flows.dropped(now, packet.record, packet.size(), reason);
        }
    }

    /// Checks once a second whether the class and the flow of `packet` had the rate that they are granted.
    #[inline]
    pub(crate) fn check_minimums(&mut self, now: Instant, packet: &QueuedPacket, tree: &Tree) {
        let index = self.classes.index(packet.class);
        if self.detail != Detail::Off && self.classes.at(index).promise_is_due(now) {
            let class = ClassId(index as u32);
            self.classes.at(index).check(now, tree.due_rate(class), tree.is_held(class));
        }
        if let Some(flows) = &mut self.flows
            && flows.is_due(now, packet.record)
        {
            let view = tree.shaper().and_then(|shaper| shaper.flow(packet.flow.flow));
            flows.check(now, packet.record, flows::promised(view.as_ref()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::{Diagnostics, Source, shaper};
    use tidegate_core::qdisc::Discard;
    use tidegate_core::{Dscp, FlowKey, Qdisc, Span};

    /// Two classes of 8 Mbit/s, the first with a minimum of 4 Mbit/s for each flow of its rule.
    fn stage(detail: &str) -> (Accounting, Tree) {
        let text = format!(
            "version = 1\n[statistics]\ndetail = \"{detail}\"\n\
             [[class]]\nname = \"a\"\nrate = \"8mbit\"\n[[class]]\nname = \"b\"\nrate = \"8mbit\"\ndefault = true\n\
             [[rule]]\nclass = \"a\"\nprotocol = \"udp\"\nminimum = \"4mbit\"\n"
        );
        let source = Source::new("account.toml", text);
        let mut diagnostics = Diagnostics::new();
        let config =
            shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
        let tree = Tree::build(&config, 1, Instant::ZERO, Span::ZERO).expect("valid");
        (Accounting::new(&config, 1 << 16).expect("valid"), tree)
    }
    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }
    /// A packet of `flow` in class `class` arrives at `now`.
    fn arrive(account: &mut Accounting, now: Instant, flow: u64, class: u32, size: u64) -> QueuedPacket {
        let (class, flow, size) = (ClassId(class), FlowKey::numbered(flow), Bytes::new(size));
        let classification = Classification { rule: (class.0 == 0).then_some(0), class, flow };
        let slots = account.find(flow.flow);
        let record = account.arrived(now, &classification, &Fields::default(), size, slots);
        let profile = u32::from(class.0 == 0);
        QueuedPacket { size, flow, class, left_by: class, profile, arrived: now, record, ..QueuedPacket::example() }
    }

    /// ADSL: 1500 + 40 = 1540 B are 33 cells of 53 B, 1,749 B. A shaper's overhead of 38 B is in the size already: 1,538 B
    /// are 1,500 from the network header on, and of three segments 4,614 are 4,500.
    #[test]
    fn departures_are_counted_as_bytes_on_the_line() {
        let used = |text: &str, size: u64, segments: u32| {
            let source = Source::new("line.toml", format!("version = 1\n{text}"));
            let config = shaper::load(&source, &mut Diagnostics::new()).expect("valid");
            let packet = QueuedPacket { size: Bytes::new(size), segments, ..QueuedPacket::example() };
            let mut used = LineUse::default();
            LineOverhead::of(&config).count(&packet, &mut used);
            (used.packets.as_u64(), used.line.as_u64())
        };
        let cake = "[discipline]\nkind = \"cake\"\nrate = \"1mbit\"\noverhead = 40\nframing = \"atm\"\n";
        assert_eq!(used(cake, 1_500, 1), (1_500, 1_749));
        let class = "[interface]\noverhead = \"38B\"\n[[class]]\nname = \"a\"\nrate = \"8mbit\"\ndefault = true\n";
        assert_eq!(used(class, 1_538, 1), (1_500, 1_538));
        assert_eq!(used(class, 4_614, 3), (4_500, 4_614));
    }

    #[test]
    fn arrivals_are_sent_dropped_or_queued() {
        let (mut account, tree) = stage("flows");
        let [first, second, _third] = [1, 1, 2].map(|flow| arrive(&mut account, at(0), flow, 0, 100));
        let other = arrive(&mut account, at(0), 3, 1, 1_000);
        account.sent(at(1), &first, Change::default(), &tree);
        account.dropped(at(1), &second, DropReason::FlowLimit);
        account.sent(at(1), &other, Change::default(), &tree);
        let counts = &account.classes.all()[0];
        assert_eq!((counts.accounts.enqueued.packets, counts.accounts.dequeued.packets), (3, 1));
        assert_eq!(counts.accounts.dropped[DropReason::FlowLimit as usize].bytes, Bytes::new(100));
        assert_eq!((counts.backlog.packets, counts.backlog.bytes), (1, Bytes::new(100)));
        assert!(account.classes.all()[1].backlog.is_empty());
        assert_eq!((account.sent.packets, account.sent.bytes, account.dropped), (2, Bytes::new(1_100), 1));
        assert_eq!(account.unclassified, 1, "the packet of class b matched no rule");
        let record = account.flows.as_ref().and_then(|flows| flows.find(1)).expect("the flow is counted");
        assert_eq!((record.arrived.packets, record.sent.packets, record.dropped_total()), (2, 1, 1));
        assert!(record.waits.is_empty());
    }

    #[test]
    fn a_displaced_packet_counts_in_both_classes() {
        let (mut account, tree) = stage("flows");
        let packet = QueuedPacket { left_by: ClassId(1), ..arrive(&mut account, at(0), 1, 0, 100) };
        account.sent(at(3), &packet, Change { congestion: true, ..Change::default() }, &tree);
        let [from, by] = account.classes.all() else { panic!("two classes") };
        assert_eq!((from.accounts.dequeued.packets, from.marked, from.through.packets), (1, 1, 0));
        assert_eq!((by.accounts.dequeued.packets, by.marked, by.through.packets), (0, 0, 1));
        assert_eq!((from.waited.count(), by.waited.count(), by.waited.longest()), (0, 1, Span::from_millis(3)));
        let record = account.flows.as_ref().and_then(|flows| flows.find(1)).expect("the flow is counted");
        assert_eq!((record.class, record.through, record.marked, record.remarked), (ClassId(0), ClassId(1), 1, 0));
    }

    #[test]
    fn the_detail_limits_what_is_measured() {
        for (detail, waits, flows) in [("flows", 1, 1), ("classes", 1, 0), ("off", 0, 0)] {
            let (mut account, tree) = stage(detail);
            let packet = arrive(&mut account, at(0), 1, 0, 100);
            account.sent(at(3), &packet, Change { dscp: Some(Dscp::BEST_EFFORT), ..Change::default() }, &tree);
            let counts = &account.classes.all()[0];
            assert_eq!((counts.accounts.dequeued.packets, counts.remarked), (1, 1), "{detail}");
            assert_eq!(counts.waited.count(), waits, "{detail}");
            assert_eq!(account.flows.as_ref().map_or(0, Flows::len), flows, "{detail}");
            assert_eq!(packet.record == flows::UNTRACKED, flows == 0, "{detail}");
            assert_eq!(account.find(1).record.is_some(), flows == 1, "{detail}");
        }
    }

    #[test]
    fn jitter_is_that_of_the_class_a_packet_leaves_through() {
        let (mut account, tree) = stage("flows");
        for (sent, waited) in [(0, 0), (20, 16)] {
            let packet = arrive(&mut account, at(sent), 1, 0, 100);
            account.sent(at(sent + waited), &packet, Change::default(), &tree);
        }
        // RFC 3550: a sixteenth of the difference of 16 ms.
        assert_eq!(account.classes.all()[0].jitter(), Span::from_millis(1));
        assert_eq!(account.classes.all()[1].jitter(), Span::ZERO);
    }

    #[test]
    fn a_record_holds_the_slot_of_its_flow() {
        let (mut account, _) = stage("flows");
        assert_eq!(account.find(7), FlowSlots::NONE);
        let packet = arrive(&mut account, at(0), 7, 0, 100);
        account.scheduled(packet.record, 5);
        assert_eq!(account.find(7), FlowSlots { record: Some(packet.record), scheduler: 5 });
        account.scheduled(flows::UNTRACKED, 6);
        assert_eq!(account.find(7).scheduler, 5);
    }

    /// 1,000 bytes in a second are less than the class and the flow are granted, while more is queued.
    #[test]
    fn a_missed_minimum_is_noticed_with_the_next_packet() {
        let (mut account, mut tree) = stage("flows");
        let packets: Vec<_> = (0..4).map(|_| arrive(&mut account, at(0), 1, 0, 1_000)).collect();
        tree.enqueue(at(0), packets[0], &mut Discard);
        assert!(tree.shaper().and_then(|shaper| shaper.flow(1)).is_some_and(|view| view.granted));
        let missed = |account: &Accounting| {
            let record = account.flows.as_ref().and_then(|flows| flows.find(1)).expect("the flow is counted");
            (account.classes.all()[0].promise().missed(), record.promise().missed())
        };
        // The first check only begins a second.
        account.sent(at(1_000), &packets[0], Change::default(), &tree);
        assert_eq!(missed(&account), (0, 0));
        account.sent(at(1_999), &packets[1], Change::default(), &tree);
        assert_eq!(missed(&account), (0, 0), "the second is not over");
        account.sent(at(2_000), &packets[2], Change::default(), &tree);
        assert_eq!(missed(&account), (1, 1));
    }

    #[test]
    fn without_statistics_no_minimum_is_checked() {
        for (detail, missed) in [("flows", 1), ("off", 0)] {
            let (mut account, tree) = stage(detail);
            let waits = arrive(&mut account, at(0), 1, 0, 1_000);
            for now in [1_000, 2_000] {
                account.check_minimums(at(now), &waits, &tree);
            }
            assert_eq!(account.classes.all()[0].promise().missed(), missed, "{detail}");
        }
    }
}

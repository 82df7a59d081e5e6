//! Flows of an [`Offload`](crate::Offload) in the registry.
//!
//! The shaper of the engine keeps an empty record for each of them, with the minimum that is granted there. Shares, the rate
//! that is free to be promised and everything that reads them are then computed by the code that is used without an offload. The
//! registry keeps what only the offload counts.

use std::collections::{HashMap, HashSet};

use tidegate_core::fbq::{Fbc, HeldBy, Terms};
use tidegate_core::nested::Staged;
use tidegate_core::{ClassId, Event, FlowKey, Instant, Rate};

use super::{Events, FlowRegistry};
use crate::engine::Engine;
use crate::notification::Notification;
use crate::offload::OffloadedFlow;
use crate::packet::QueuedPacket;
use crate::sink::Sink;

type Shaper = Fbc<Staged<QueuedPacket>>;

impl FlowRegistry {
    /// The flows at the last reading; `None` without an offload.
    pub(crate) fn offloaded(&self) -> Option<impl Iterator<Item = &OffloadedFlow>> {
        self.offloaded.as_ref().map(|flows| flows.values())
    }

    /// The ceiling that all packets of `class` waited for at the last reading.
    pub(crate) fn offloaded_class_held(&self, class: ClassId) -> Option<HeldBy> {
        self.ceilings.get(&class).copied()
    }

    /// Notes the classes all of whose packets wait for ceilings.
    fn note_ceilings(&mut self, flows: &[OffloadedFlow]) {
        self.ceilings.clear();
        let mut free = HashSet::new();
        for flow in flows.iter().filter(|flow| !flow.backlog.is_empty()) {
            if let Some(ceiling) = flow.held_by {
                self.ceilings.insert(flow.class, ceiling);
            } else {
                free.insert(flow.class);
            }
        }
        self.ceilings.retain(|class, _| !free.contains(class));
    }

    /// Ends the flows that are gone, or whose packets have another class. Those that are displaced from it stay.
    fn end_offloaded(&mut self, now: Instant, flows: &[OffloadedFlow], fbc: &mut Shaper) {
        let Some(known) = &mut self.offloaded else { return };
        let present: HashSet<(u64, ClassId)> = flows.iter().map(|flow| (flow.key, flow.home)).collect();
        known.retain(|key, flow| {
            let stays = present.contains(&(*key, flow.home));
            if !stays {
                fbc.end(now, *key, &mut Events(&mut self.pending));
            }
            stays
        });
    }

    /// Updates a flow; returns whether it is new.
    fn update_offloaded(&mut self, now: Instant, flow: OffloadedFlow, fbc: &mut Shaper) -> bool {
        let (key, minimum) = (flow.key, flow.granted_minimum());
        let before = self.offloaded.get_or_insert_default().insert(key, flow);
        let here = fbc.flow(key);
        if here.is_none_or(|here| (here.profile, here.class) != (flow.profile, flow.class)) {
            let mut events = Vec::new();
            fbc.end(now, key, &mut Events(&mut events));
            let (terms, whole) = (
                Terms { minimum, steps: flow.steps, displace: None },
                FlowKey { flow: key, source: 0, destination: 0 },
            );
            fbc.expect(now, whole, flow.class, flow.profile, terms, &mut Events(&mut events));
            // A flow that had a record goes on, in another class perhaps.
            self.pending.extend(events.into_iter().filter(|_| here.is_none()));
            if let Some(here) = here.filter(|here| here.class != flow.class) {
                self.pending.push(Event::Moved { flow: key, from: here.class, to: flow.class });
            }
        }
        if fbc.flow(key).is_some_and(|view| view.preferred != flow.steps) {
            let _ = fbc.prefer(now, key, flow.steps);
        }
        // The offload decides what is granted.
        if fbc.flow(key).is_some_and(|view| view.minimum != minimum || view.granted == minimum.is_zero()) {
            let _ = fbc.set_minimum(now, key, minimum);
        }
        if before.map(|before| before.promise) != Some(flow.promise) {
            for (number, entry) in &mut self.entries {
                if flow.promise == Some(*number) {
                    entry.flows.insert(key);
                } else {
                    entry.flows.remove(&key);
                }
            }
        }
        if let Some(known) = self.known_mut(key) {
            (known.promise, known.fields) = (flow.promise, flow.fields);
        }
        before.is_none()
    }
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Updates the flows to a reading at `now`. `held` is for how many more flows each promise known to the offload reserves rate.
    /// `continues` means that the offload has had one configuration since the last reading: otherwise queued packets may belong
    /// to other flows now. Cost: linear in the flows.
    pub(crate) fn set_flows(
        &mut self,
        now: Instant,
        flows: &[OffloadedFlow],
        held: &[(u64, u32)],
        continues: bool,
        out: &mut impl Sink<H>,
    ) {
        if let Some(records) = &mut self.account.flows {
            records.add_offloaded(now, flows, continues);
        }
        // An offload is there before its first flow, and with CBQ, which has no flows.
        self.admit.registry.offloaded.get_or_insert_default();
        let Some(fbc) = self.tree.shaper_mut() else { return };
        let registry = &mut self.admit.registry;
        for (number, _) in held {
            if let Some(entry) = registry.entries.get_mut(number) {
                entry.set_held(0, fbc);
            }
        }
        registry.note_ceilings(flows);
        registry.end_offloaded(now, flows, fbc);
        let mut began = HashMap::new();
        for flow in flows {
            // The offload notices that a promise has ended with the next packet of the flow.
            let ended = flow.promise.is_some_and(|number| !registry.entries.contains_key(&number));
            let flow = if ended {
                OffloadedFlow { promise: None, minimum: Rate::ZERO, granted: false, steps: 0, ..*flow }
            } else {
                *flow
            };
            if registry.update_offloaded(now, flow, fbc) {
                began.insert(flow.key, (flow.fields, flow.promise));
            }
        }
        for (number, held) in held {
            if let Some(entry) = registry.entries.get_mut(number) {
                entry.set_held(*held, fbc);
            }
        }
        let mut notify = |notification: &Notification<'_>| {
            if out.wants_notifications() {
                out.notify(notification);
            }
        };
        while let Some(event) = registry.next_pending() {
            if let Event::FlowStarted { flow, .. } = event
                && let Some((fields, promise)) = began.get(&flow)
            {
                registry.started(flow, fields, *promise, now);
            }
            registry.event(now, event, None, &mut notify);
        }
        registry.watch_now.drain(..).for_each(|flow| fbc.watch(flow, true));
        for (number, flow) in registry.ended.drain(..) {
            let is_here = registry.offloaded.as_ref().is_some_and(|flows| flows.contains_key(&flow));
            if let Some(entry) = registry.entries.get_mut(&number).filter(|_| !is_here) {
                entry.flows.remove(&flow);
            }
        }
        registry.poll(now, &self.tree, &mut notify);
    }

    /// Notifies of events of flows that [`set_flows`](Self::set_flows) has read.
    pub(crate) fn pass_on(&mut self, now: Instant, events: Vec<Event>, out: &mut impl Sink<H>) {
        if out.wants_notifications() {
            for event in events {
                self.admit.registry.event(now, event, None, &mut |notification| out.notify(notification));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::OffloadedAdvice;
    use crate::notification::NotificationKind;
    use crate::offload::{Offload, OffloadedFlows, Totals};
    use crate::registry::{PromiseError, PromiseTable, Promised};
    use crate::rules::{Names, Setup};
    use crate::sink::Change;
    use crate::swap::PreparedConfig;
    use crate::view::SharedClass;
    use tidegate_config::{Diagnostics, Source, shaper};
    use tidegate_core::accounts::Account;
    use tidegate_core::cbq::{Measured, Stats};
    use tidegate_core::classify::{Fields, Match};
    use tidegate_core::fbq::FlowCounts;
    use tidegate_core::qdisc::Backlog;
    use tidegate_core::{Bytes, Credit, DropReason, Span};

    #[derive(Default)]
    struct Noted(Vec<(u64, NotificationKind)>);

    impl Sink<u32> for Noted {
        fn transmit(&mut self, _: u32, _: Change) {}
        fn drop_packet(&mut self, _: u32, _: DropReason) {}
        fn wants_notifications(&self) -> bool {
            true
        }
        fn notify(&mut self, notification: &Notification<'_>) {
            self.0.push((notification.flow, notification.kind));
        }
    }

    fn flow(key: u64, promise: Option<u64>) -> OffloadedFlow {
        let minimum = if promise.is_some() { Rate::from_mbit(3) } else { Rate::ZERO };
        OffloadedFlow {
            key,
            class: ClassId(0),
            home: ClassId(0),
            profile: 0,
            fields: Fields { destination_port: Some(7_000), ..Fields::default() },
            promise,
            minimum,
            granted: promise.is_some(),
            steps: 0,
            backlog: Backlog::default(),
            head_arrived: None,
            held_by: None,
            counts: FlowCounts::default(),
            waited: Span::ZERO,
        }
    }

    /// An offload with these flows, and the promises that it was handed.
    struct Reading {
        flows: OffloadedFlows,
        promised: Vec<Promised>,
        advice: OffloadedAdvice,
    }

    impl Offload for Reading {
        fn totals(&mut self, _: &[String]) -> (Vec<(ClassId, Totals)>, Totals) {
            Default::default()
        }
        fn flows(&mut self) -> OffloadedFlows {
            self.flows.clone()
        }
        fn set_promises(&mut self, promised: &[Promised], _: &PromiseTable) -> Result<(), String> {
            self.promised = promised.to_vec();
            Ok(())
        }
        fn set_advice(&mut self, advice: &OffloadedAdvice) {
            self.advice = advice.clone();
        }
    }

    /// An engine with one class of 8 Mbit/s.
    fn engine() -> Engine<u32> {
        let text = "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\ndefault = true\n";
        let config = shaper::load(&Source::new("offload.toml", text), &mut Diagnostics::new()).expect("valid");
        let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
        Engine::new(&config, &setup, Instant::ZERO).expect("valid")
    }

    /// A class is held by a ceiling while each of its flows with a queue is.
    #[test]
    fn a_class_is_held_while_all_its_flows_are() {
        let mut engine = engine();
        let queued = |key, held_by| OffloadedFlow {
            held_by,
            backlog: Backlog { packets: 1, bytes: Bytes::new(100) },
            ..flow(key, None)
        };
        let mut held = |flows: &[OffloadedFlow]| {
            engine.set_flows(Instant::ZERO, flows, &[], true, &mut Noted::default());
            let mut rows = Vec::new();
            engine.class_rows(Instant::ZERO, 0, 1, &mut rows);
            assert_eq!(engine.class_views()[0].held_by, rows[0].view.and_then(|view| view.held_by));
            (rows[0].view.and_then(|view| view.held_by), engine.flow_row(6).and_then(|row| row.view?.held_by))
        };
        let host = Some(HeldBy::Host);
        assert_eq!(held(&[queued(6, host), queued(7, host)]), (host, host));
        // A flow without a queue waits for nothing.
        assert_eq!(held(&[queued(6, host), flow(7, None)]), (host, host));
        assert_eq!(held(&[queued(6, host), queued(7, None)]), (None, host));
        assert_eq!(held(&[flow(6, None)]), (None, None));
    }

    /// 4 of the promised 8 Mbit/s: the class was held in the first of these seconds, and not in the second.
    #[test]
    fn an_offloaded_class_that_a_ceiling_holds_misses_nothing() {
        let mut engine = engine();
        let backlog = Backlog { packets: 50, bytes: Bytes::new(50_000) };
        let mut missed = 0;
        for (second, held_by) in (1..).zip([Some(HeldBy::Rule), Some(HeldBy::Rule), None, None]) {
            let now = Instant::ZERO + Span::from_secs(second);
            let account = |packets| Account { packets, bytes: Bytes::new(packets * 1_000) };
            let (sent, arrived) = (account(second * 500), account(second * 500 + 50));
            let all = Totals { arrived, sent, backlog, ..Totals::default() };
            engine.set_totals(now, &[(ClassId(0), all.clone())], &all);
            let queued = OffloadedFlow { held_by, backlog, ..flow(6, None) };
            engine.set_flows(now, &[queued], &[], true, &mut Noted::default());
            let mut rows = Vec::new();
            engine.class_rows(now, 0, 1, &mut rows);
            missed = rows[0].counts.promise().missed();
            assert_eq!(missed, u32::from(second == 4), "second {second}");
        }
        assert_eq!(missed, 1);
    }

    /// The tree of the idle engine has the names and the limits, and the offload counts.
    #[test]
    fn the_tree_of_an_offload_has_its_counts() {
        let text = "version = 1\n[discipline]\nkind = \"cbq\"\nlink = \"8mbit\"\nclass = [{ name = \"all\", rate = \"8mbit\" }]\n";
        let config = shaper::load(&Source::new("tree.toml", text), &mut Diagnostics::new()).expect("valid");
        let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
        let mut engine: Engine<u32> = Engine::new(&config, &setup, Instant::ZERO).expect("valid");
        assert_eq!(engine.shared_classes(Instant::ZERO).len(), 2);
        engine.set_flows(Instant::ZERO, &[], &[], true, &mut Noted::default());
        assert_eq!(engine.status()[0].borrowed, Some(Account::default()));
        let now = Instant::ZERO + Span::from_secs(1);
        let stats = Stats { borrowed: Account { packets: 3, bytes: Bytes::new(4_500) }, ..Stats::default() };
        let used = Credit::of(Bytes::new(1_000)).as_raw() as u128;
        let measured = Measured { stats, under_time: now + Span::from_millis(5), used, at: now, ..Measured::default() };
        engine.admit.registry.shared_classes.insert(ClassId(0), measured);
        let rows = engine.shared_classes(now);
        let [root, all] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((root.name.as_str(), root.state.stats), ("root", Stats::default()));
        assert_eq!((all.name.as_str(), all.parent.as_deref(), all.state.stats), ("all", Some("root"), stats));
        assert_eq!(all.state.status.under_time, now + Span::from_millis(5));
        let credit = |row: &SharedClass| row.state.status.estimate.credit_bytes().expect("measured in bytes");
        assert_eq!(credit(root) - credit(all), 1_000, "{rows:?}");
        assert_eq!(engine.status()[0].borrowed, Some(stats.borrowed));
    }

    #[test]
    fn offloaded_flows_are_promised_and_watched() {
        let mut engine = engine();
        let (mut noted, at) = (Noted::default(), |millis| Instant::ZERO + Span::from_millis(millis));
        let terms = Terms { minimum: Rate::from_mbit(3), ..Terms::default() };
        let promise = |engine: &mut Engine<u32>, number, flows| {
            engine.promises(at(1)).promise(number, terms, ClassId(0), flows, false).map(drop)
        };
        engine.set_flows(at(0), &[], &[], true, &mut noted);
        assert_eq!(promise(&mut engine, 1, 2), Ok(()));
        // The promise is not in force there yet. The rate that it holds counts nevertheless.
        engine.set_flows(at(1), &[flow(6, None)], &[], true, &mut noted);
        assert_eq!(promise(&mut engine, 2, 1), Err(PromiseError::NoRoom(Rate::from_mbit(2))));
        let matching = Match { destination_ports: vec![7_000..=7_000], ..Match::default() };
        let table = PromiseTable::new([(1, std::slice::from_ref(&matching))], []).expect("few conditions");
        engine.promises(at(1)).set_table(table);
        noted.0.clear();
        let flows = vec![flow(6, None), flow(7, Some(1))];
        let above = Event::QueueAbove { flow: 7, bytes: Bytes::new(9_000) };
        let reading = OffloadedFlows { flows, held: vec![(1, 1)], continues: true, crossed: vec![above] };
        let mut offload = Reading { flows: reading, promised: Vec::new(), advice: OffloadedAdvice::default() };
        assert_eq!(engine.offload_promises(at(2), &mut offload), Ok(true));
        assert_eq!(offload.promised, [Promised { number: 1, class: ClassId(0), terms, flows: 2 }]);
        // They are handed over once.
        assert_eq!(engine.offload_promises(at(2), &mut offload), Ok(false));
        engine.mirror(at(2), &mut offload, &mut noted);
        let view = engine.promises(at(2)).view(1).expect("made");
        assert_eq!((view.flows, view.waiting, view.held), (1, 0, 1));
        // An equal part of the rate that is left, and at least the minimum.
        assert_eq!(view.rate, Rate::from_mbit(4));
        let began = Event::FlowStarted { flow: 7, class: ClassId(0) };
        assert_eq!(
            noted.0,
            [
                (7, NotificationKind::Event(began)),
                (7, NotificationKind::Rate),
                (7, NotificationKind::Promised),
                (7, NotificationKind::Event(above))
            ]
        );
        assert_eq!(promise(&mut engine, 2, 1), Err(PromiseError::NoRoom(Rate::from_mbit(2))));
        noted.0.clear();
        let dropped = Account { packets: 5, bytes: Bytes::new(5_000) };
        let counts = FlowCounts { dropped, ..FlowCounts::default() };
        let head_arrived = Some(at(3));
        let backlog = Backlog { packets: 1, bytes: Bytes::new(100) };
        let late = OffloadedFlow { counts, head_arrived, backlog, granted: false, ..flow(7, Some(1)) };
        engine.set_flows(at(200), &[flow(6, None), late], &[(1, 1)], true, &mut noted);
        let kinds: Vec<_> = noted.0.iter().map(|(_, kind)| *kind).collect();
        assert_eq!(kinds, [NotificationKind::Waiting, NotificationKind::Dropped(5), NotificationKind::DelayAbove]);
        assert_eq!(engine.promises(at(200)).view(1).map(|view| view.waiting), Some(1));
        // The offload has not ended the promise yet, but its rate is free.
        engine.promises(at(201)).end(1);
        engine.promises(at(201)).set_table(PromiseTable::default());
        engine.set_flows(at(201), &[flow(6, None), flow(7, Some(1))], &[(1, 1)], true, &mut noted);
        assert_eq!(promise(&mut engine, 3, 2), Ok(()));
        noted.0.clear();
        engine.set_flows(at(202), &[], &[(3, 2)], true, &mut noted);
        assert_eq!(noted.0.len(), 2, "both ended: {:?}", noted.0);
        assert_eq!(engine.status()[0].flows, Some(0));
    }

    /// In 8 Mbit/s one of two flows has 4, of which 3.908 are left for payload; a rate of its own class is that of any flow.
    #[test]
    fn offloaded_flows_are_advised_their_rates() {
        let advised = |policy: &str, flows: &[OffloadedFlow]| {
            let text = format!(
                "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\ndefault = true\nadvice = \"{policy}\"\n\
                 [[class]]\nname = \"other\"\nrate = \"2mbit\"\n"
            );
            let config = shaper::load(&Source::new("advice.toml", text), &mut Diagnostics::new()).expect("valid");
            let setup =
                Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
            let mut engine: Engine<u32> = Engine::new(&config, &setup, Instant::ZERO).expect("valid");
            let flows = OffloadedFlows { flows: flows.to_vec(), continues: true, ..OffloadedFlows::default() };
            let mut offload = Reading { flows, promised: Vec::new(), advice: OffloadedAdvice::default() };
            engine.mirror(Instant::ZERO, &mut offload, &mut Noted::default());
            let mut advice = offload.advice;
            advice.flows.sort_unstable();
            advice
        };
        let of = |rate: u64, headers: u64| Some(Rate::from_bps(rate * 1_200 / (1_200 + headers)));
        let flows = [flow(6, None), OffloadedFlow { minimum: Rate::from_mbit(3), granted: true, ..flow(7, None) }];
        let all = |early| vec![("all".to_owned(), early)];
        let ceiling = advised("ceiling", &flows);
        // The shaper has 10 Mbit/s, which a class that borrows may have.
        assert_eq!(ceiling.classes, all([of(10_000_000, 28), of(10_000_000, 48)]));
        assert_eq!(ceiling.flows, [(6, of(10_000_000, 28)), (7, of(10_000_000, 28))]);
        let share = advised("fair-share", &flows);
        assert_eq!(share.classes, all([None; 2]));
        assert_eq!(share.flows, [(6, of(4_000_000, 28)), (7, of(4_000_000, 28))]);
        assert_eq!(advised("promise", &flows).flows, [(6, None), (7, of(3_000_000, 28))]);
        let other = OffloadedFlow { class: ClassId(1), home: ClassId(1), ..flow(6, None) };
        assert_eq!(advised("ceiling", &[other]).flows, [(6, None)]);
        assert_eq!(advised("none", &flows), OffloadedAdvice::default());
    }

    /// Ten packets of 1,000 bytes: 5 are sent after 20 ms each and 2 dropped; then 2 more, after 30 ms; the last goes with the
    /// interface. Then it begins anew.
    #[test]
    fn offloaded_flows_have_records() {
        let text = "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\ndefault = true\n\
                    [[rule]]\nclass = \"all\"\nprotocol = \"udp\"\n";
        let config = shaper::load(&Source::new("records.toml", text), &mut Diagnostics::new()).expect("valid");
        let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
        let mut engine: Engine<u32> = Engine::new(&config, &setup, Instant::ZERO).expect("valid");
        let (mut noted, at) = (Noted::default(), |millis| Instant::ZERO + Span::from_millis(millis));
        let account = |packets| Account { packets, bytes: Bytes::new(packets * 1_000) };
        let with = |sent, dropped, queued, waited| OffloadedFlow {
            profile: 1,
            counts: FlowCounts { sent: account(sent), dropped: account(dropped), ..FlowCounts::default() },
            backlog: Backlog { packets: queued, bytes: Bytes::new(queued * 1_000) },
            waited: Span::from_millis(waited),
            ..flow(7, None)
        };
        let row = |engine: &mut Engine<u32>, now| {
            let mut rows = Vec::new();
            assert_eq!(engine.flow_rows(now, 0, 10, &mut rows), None);
            rows.into_iter().find(|row| row.key == 7).expect("it is counted")
        };
        engine.set_flows(at(100), &[with(5, 2, 3, 100), flow(8, None)], &[], true, &mut noted);
        let first = row(&mut engine, at(100));
        let counts = |record: &crate::FlowRecord| {
            (record.arrived.packets, record.sent.packets, record.waits.packets, record.dropped_total())
        };
        assert_eq!(counts(&first.record), (10, 5, 3, 2));
        assert_eq!((first.record.rule, first.record.who.destination_port), (Some(0), Some(7_000)));
        assert_eq!(first.record.longest, Span::from_millis(20));
        assert_eq!(first.view.map(|view| view.backlog.packets), Some(3), "its share is that of a flow with a queue");
        engine.set_flows(at(1_100), &[with(7, 2, 1, 160), flow(8, None)], &[], true, &mut noted);
        let second = row(&mut engine, at(1_100)).record;
        assert_eq!((counts(&second), second.longest), ((10, 7, 1, 2), Span::from_millis(30)));
        assert_eq!(second.sent.bytes, Bytes::new(7_000));
        let all = engine.flows().expect("they are counted");
        assert_eq!((all.len(), all.table().created), (2, 2));
        // What did not change is not touched.
        engine.set_flows(at(5_000), &[with(7, 2, 1, 160)], &[], true, &mut noted);
        assert_eq!(row(&mut engine, at(5_000)).record.last, at(1_100));
        engine.set_flows(at(5_100), &[], &[], true, &mut noted);
        let gone = row(&mut engine, at(5_100)).record;
        assert_eq!((counts(&gone), gone.dropped[DropReason::Flushed as usize]), ((10, 7, 0, 3), 1));
        engine.set_flows(at(6_000), &[with(1, 0, 1, 10)], &[], true, &mut noted);
        assert_eq!(counts(&row(&mut engine, at(6_000)).record), (12, 8, 1, 3));
        engine.set_flows(at(6_100), &[with(2, 0, 0, 20)], &[], true, &mut noted);
        // An idle record ends with the next one that is touched.
        engine.set_flows(
            at(70_000),
            &[with(2, 0, 0, 20), OffloadedFlow { key: 9, ..with(1, 0, 0, 1) }],
            &[],
            true,
            &mut noted,
        );
        assert_eq!(engine.flows().map(|flows| flows.table().expired), Some(2));
    }

    /// Four of ten packets are queued. A change moves them to another flow, which has not sent any of them yet.
    #[test]
    fn packets_that_a_change_moves_are_counted_once() {
        let text = "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\ndefault = true\n";
        let of = |text: &str| {
            let source = Source::new("moved.toml", text);
            shaper::load(&source, &mut Diagnostics::new()).expect("valid")
        };
        let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
        let mut engine: Engine<u32> = Engine::new(&of(text), &setup, Instant::ZERO).expect("valid");
        let (mut noted, at) = (Noted::default(), |millis| Instant::ZERO + Span::from_millis(millis));
        let account = |packets| Account { packets, bytes: Bytes::new(packets * 1_000) };
        let with = |key, sent, queued| OffloadedFlow {
            counts: FlowCounts { sent: account(sent), ..FlowCounts::default() },
            backlog: Backlog { packets: queued, bytes: Bytes::new(queued * 1_000) },
            ..flow(key, None)
        };
        let counts = |engine: &mut Engine<u32>, key| {
            let mut rows = Vec::new();
            engine.flow_rows(at(0), 0, 10, &mut rows);
            let record = rows.into_iter().find(|row| row.key == key).expect("it is counted").record;
            (record.arrived.packets, record.sent.packets, record.waits.packets, record.dropped_total())
        };
        engine.set_flows(at(100), &[with(7, 6, 4)], &[], true, &mut noted);
        engine.set_flows(at(200), &[with(8, 0, 4)], &[], false, &mut noted);
        assert_eq!((counts(&mut engine, 7), counts(&mut engine, 8)), ((6, 6, 0, 0), (4, 0, 4, 0)));
        // New statistics count only packets that are sent later.
        let next =
            PreparedConfig::new(&of(&format!("{text}[statistics]\nflows = 100\n")), &setup, at(300)).expect("valid");
        engine.swap(next, at(300), &mut noted).expect("valid");
        engine.set_flows(at(400), &[with(8, 3, 1)], &[], true, &mut noted);
        assert_eq!(counts(&mut engine, 8), (4, 3, 1, 0));
        // Packets that wait in the offload count as entered anew where the queues are others.
        let totals = Totals { backlog: Backlog { packets: 4, bytes: Bytes::new(4_000) }, ..Totals::default() };
        engine.set_totals(at(500), &[(ClassId(0), totals)], &Totals::default());
        let other = PreparedConfig::new(&of(&text.replace("\"all\"", "\"other\"")), &setup, at(500)).expect("valid");
        assert_eq!(engine.swap(other, at(500), &mut noted).expect("valid").0.rehomed, 4);
    }

    /// A flow that the offload has moved is in the other class, which its own one knows, with its preference.
    #[test]
    fn an_offloaded_flow_that_is_displaced_is_seen_to_be() {
        let text = "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\ndefault = true\n\
                    [[class]]\nname = \"other\"\nrate = \"2mbit\"\n";
        let config = shaper::load(&Source::new("moved.toml", text), &mut Diagnostics::new()).expect("valid");
        let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
        let mut engine: Engine<u32> = Engine::new(&config, &setup, Instant::ZERO).expect("valid");
        let (mut noted, at) = (Noted::default(), |millis| Instant::ZERO + Span::from_millis(millis));
        let here = OffloadedFlow { steps: 2, ..flow(7, None) };
        engine.set_flows(at(1), &[here], &[], true, &mut noted);
        noted.0.clear();
        engine.set_flows(at(2), &[OffloadedFlow { class: ClassId(1), ..here }], &[], true, &mut noted);
        let moved = Event::Moved { flow: 7, from: ClassId(0), to: ClassId(1) };
        assert_eq!(noted.0, [(7, NotificationKind::Event(moved))]);
        let view = engine.tree.shaper_mut().and_then(|fbc| fbc.flow(7)).expect("it is there");
        assert_eq!((view.class, view.preferred), (ClassId(1), 2));
        // It is looked at again, and nothing has changed.
        noted.0.clear();
        engine.set_flows(at(3), &[OffloadedFlow { class: ClassId(1), ..here }], &[], true, &mut noted);
        assert_eq!(noted.0, []);
    }

    /// 0.8 of 3 Mbit/s: missed where packets are there from one look to the next, otherwise there may have been too few.
    #[test]
    fn an_offloaded_flow_misses_its_minimum_where_it_waits_throughout() {
        let text = "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\ndefault = true\n";
        let config = shaper::load(&Source::new("missed.toml", text), &mut Diagnostics::new()).expect("valid");
        let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
        let judged = |waited: u64| {
            let mut engine: Engine<u32> = Engine::new(&config, &setup, Instant::ZERO).expect("valid");
            let at = |millis| Instant::ZERO + Span::from_millis(millis);
            let terms = Terms { minimum: Rate::from_mbit(3), ..Terms::default() };
            engine.promises(at(0)).promise(1, terms, ClassId(0), 1, false).map(drop).expect("there is room");
            let mut rows = Vec::new();
            for look in 1..=31 {
                let now = look * 100;
                let sent = Account { packets: look * 10, bytes: Bytes::new(look * 10_000) };
                let read = OffloadedFlow {
                    counts: FlowCounts { sent, ..FlowCounts::default() },
                    backlog: Backlog { packets: 5, bytes: Bytes::new(5_000) },
                    head_arrived: Some(at(now - waited)),
                    ..flow(7, Some(1))
                };
                engine.set_flows(at(now), &[read], &[(1, 0)], true, &mut Noted::default());
                rows.clear();
                engine.flow_rows(at(now), 0, 10, &mut rows);
            }
            let promise = *rows[0].record.promise();
            (promise.kept(), promise.missed())
        };
        assert_eq!(judged(100), (0, 2));
        assert_eq!(judged(50), (0, 0));
    }
}

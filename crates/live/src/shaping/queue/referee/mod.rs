//! The data path over NFQUEUE, over a model of the kernel in virtual time: packets that a live run recorded arrive again, while the
//! process wakes late, messages take their time, the kernel empties its queues, the interface vanishes and returns, the guardian takes
//! the turn, another data path takes over, and shaping ends in between. A race that loses or reorders packets is found by its seed, and found again.
//!
//! All of the worker runs as it does live, from the bytes of the kernel's messages to those of its verdicts; the [model](model) says
//! what stands for the kernel.

mod model;

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::sync::{Arc, mpsc};

use tidegate_capture::dissect;
use tidegate_core::classify::Version;
use tidegate_core::random::Stream;
use tidegate_engine::driver::{DataPath, Driver, Wait, run};
use tidegate_engine::{Engine, Names, Setup, Shape};
use tidegate_replay::exact;
use tidegate_replay::recording::{Reader, Record};
use tidegate_units::{Instant, Span};

use super::kernel::Kernel as _;
use super::worker::{PathParts, QueuePath};
use crate::guardian::{self, Page};
use crate::marks::MarkLayout;
use crate::netlink::Error;
use crate::rules::Direction;
use crate::shaping::Options;
use crate::shaping::command::{Command, Handle, LiveEngine, VerdictSink};
use crate::shaping::interfaces::InterfaceCounters;
use crate::shaping::watchdog::WorkerState;
use model::{End, Faults, Model};

/// TCP without limit and two streams of datagrams for 0.7 s, on a line of 8 Mbit/s: 3,325 records.
const LIVE: &[u8] = include_bytes!("../../../../tests/recorded.tgr");
/// How many runs there are of it.
const SEEDS: u64 = 150;
/// The queues of the data path.
const QUEUES: [u16; 2] = [7_400, 7_401];

/// A packet that arrived live: its first bytes, and its length.
struct Packet {
    at: Instant,
    bytes: Vec<u8>,
    length: u32,
}

/// Packets that arrived live, in their order.
struct Live {
    setup: tidegate_replay::recording::Setup,
    packets: Vec<Packet>,
}

impl Live {
    fn read() -> Self {
        let mut reader = Reader::new(LIVE).expect("a recording");
        let (mut setup, mut packets) = (None, Vec::new());
        while let Some(record) = reader.next_record() {
            match record.expect("a whole recording") {
                Record::Setup(of) => setup = Some(of),
                // Superpackets are made anew, of the packets that they were cut into.
                Record::Arrives { now, meta, .. } if meta.shape == Shape::Single => {
                    let bytes = reader.bytes().to_vec();
                    assert_eq!(dissect::network(&bytes, meta.length as usize).unwrap().fields.hosts, meta.fields.hosts);
                    packets.push(Packet { at: now, bytes, length: meta.length });
                }
                _ => {}
            }
        }
        Self { setup: setup.expect("an engine"), packets }
    }

    /// An engine as the one that shaped them.
    fn engine(&self, at: Instant) -> Result<LiveEngine, String> {
        let config = exact::configuration(&self.setup.configuration)?;
        let setup = Setup {
            seed: self.setup.seed,
            secret: self.setup.secret,
            catch_up: Span::from_nanos(self.setup.catch_up_ns),
            most_queued: self.setup.most_queued,
            names: Names::default(),
        };
        Engine::new(&config, &setup, at).map_err(|error| error.to_string())
    }

    /// The flow of each packet.
    fn flows(&self) -> Result<Vec<u64>, String> {
        let engine = self.engine(self.packets[0].at)?;
        let fields = |packet: &Packet| dissect::network(&packet.bytes, packet.length as usize).unwrap().fields;
        Ok(self.packets.iter().map(|packet| engine.classify(&fields(packet)).flow.flow).collect())
    }

    /// The bytes of a packet that consists of these.
    fn joined(&self, numbers: &[usize]) -> (Vec<u8>, u32) {
        let mut bytes = self.packets[numbers[0]].bytes.clone();
        let length: u32 = numbers.iter().map(|number| self.packets[*number].length).sum();
        let stated = u16::try_from(length).expect("no longer than a packet can be");
        match dissect::network(&bytes, length as usize).unwrap().fields.hosts.version() {
            Some(Version::V4) => bytes[2..4].copy_from_slice(&stated.to_be_bytes()),
            _ => bytes[4..6].copy_from_slice(&(stated - 40).to_be_bytes()),
        }
        (bytes, length)
    }
}

/// Counts of a run, to see that what is tested happens.
#[derive(Default, Debug)]
struct Happened {
    segmented: u64,
    dropped: u64,
    emptied: u64,
    /// Verdicts about packets that the kernel did not have any more.
    refused: u64,
    takeovers: u64,
    /// Packets that passed because shaping had ended.
    passed_by: u64,
    /// Packets that a data path took over from the one before.
    adopted: u64,
    /// Packets that were sent while there was no interface.
    unlinked: u64,
}

/// The data path, and what else happens in a turn after it has received so many packets.
struct Judged<'a, F> {
    path: QueuePath<Model<'a>>,
    received: F,
}

impl<'a, F: FnMut(&QueuePath<Model<'a>>, &mut Driver<Handle>, usize)> DataPath for Judged<'a, F> {
    type Handle = Handle;
    type Sink = VerdictSink;
    type Error = Error;

    fn now(&mut self) -> Instant {
        self.path.now()
    }
    fn wait(&mut self, wait: Wait) -> Result<ControlFlow<()>, Error> {
        self.path.wait(wait)
    }
    fn receive(&mut self, now: Instant, driver: &mut Driver<Handle>) -> Result<usize, Error> {
        let received = self.path.receive(now, driver)?;
        (self.received)(&self.path, driver, received);
        Ok(received)
    }
    fn sink(&mut self) -> &mut VerdictSink {
        self.path.sink()
    }
    fn flush(&mut self) -> Result<(), Error> {
        self.path.flush()
    }
    fn control(&mut self, now: Instant, driver: &mut Driver<Handle>) -> Result<ControlFlow<()>, Error> {
        self.path.control(now, driver)
    }
}

/// Does the recording again with the delays and the faults of a seed. A hasty data path forgets too early that segments are on their
/// way.
fn judge(live: &Live, seed: u64, faults: Faults, hasty: bool) -> Result<Happened, String> {
    let (first, flows) = (live.engine(live.packets[0].at)?, live.flows()?);
    let page = Arc::new(Page::create().map_err(|error| error.to_string())?);
    let list = Arc::new(guardian::state_file().map_err(|error| error.to_string())?);
    let (commands, inbox) = mpsc::channel();
    let random = Stream::named(seed, "referee");
    let model = Model::new(live, &flows, random, faults, Arc::clone(&page), (commands, Arc::clone(&list)));
    let shape = |model, inbox, (state, left), engine| {
        let (path, mut driver) = QueuePath::new(model, parts(inbox, state, left), engine);
        let received = |_: &QueuePath<_>, driver: &mut Driver<_>, _| {
            if hasty {
                driver.segmentation_done();
            }
        };
        let mut judged = Judged { path, received };
        run(&mut driver, &mut judged).map_err(|failure| format!("{failure:?}"))?;
        Ok::<_, String>((judged.path.kernel, driver.counters().segmented))
    };
    let state = Arc::new(WorkerState::new(Arc::clone(&page), true));
    let (mut model, mut segmented) = shape(model, inbox, (state, None), first)?;
    if faults.hand_over {
        let (commands, inbox) = mpsc::channel();
        let state = Arc::new(WorkerState::new(page, false));
        model.hand_over(commands, Arc::clone(&state));
        let next = live.engine(model.time())?;
        let more;
        (model, more) = shape(model, inbox, (state, Some(list)), next)?;
        segmented += more;
    }
    let ends = model.settle()?;
    let takeovers = ends.takeovers;
    // Each packet that the kernel has dropped is noticed when its verdict is refused; so is one that the guardian let pass while its
    // verdict was on its way, or that passed when shaping ended.
    if takeovers == 0 && ends.passed_by == 0 && ends.refused != ends.emptied {
        return Err(format!("{} packets dropped by the kernel, {} noticed", ends.emptied, ends.refused));
    }
    let mut last: BTreeMap<u64, usize> = BTreeMap::new();
    for number in ends.accepted {
        if let Some(before) = last.insert(flows[number], number).filter(|before| *before > number) {
            return Err(format!("packet {number} leaves after packet {before} of its flow"));
        }
    }
    let ended = |so: End| ends.of_each.iter().filter(|end| **end == so).count() as u64;
    let (dropped, unlinked) = (ended(End::Dropped), ended(End::Unlinked));
    let (emptied, refused, passed_by, adopted) = (ends.emptied, ends.refused, ends.passed_by, ends.adopted);
    Ok(Happened { segmented, dropped, emptied, refused, takeovers, passed_by, adopted, unlinked })
}

/// The parts of a data path over the model.
fn parts(commands: mpsc::Receiver<Command>, state: Arc<WorkerState>, left: Option<Arc<File>>) -> PathParts {
    let options = Options::default();
    let interface = [("eth0".to_owned(), Some(2))];
    PathParts {
        copy_range: 128,
        whole: QUEUES[0],
        cut: QUEUES[1],
        marks: MarkLayout::default(),
        groups: Vec::new(),
        commands,
        quantum: options.quantum,
        rest: options.rest,
        priority: options.priority,
        patient: options.catch_up_normal,
        #[cfg(debug_assertions)]
        inject: None,
        state,
        counters: InterfaceCounters::new(Direction::Egress, &interface, 1).0.remove(0),
        left,
    }
}

/// Runs all seeds with these faults.
fn judge_all(faults: Faults) -> Happened {
    let live = Live::read();
    let mut all = Happened::default();
    for seed in 0..SEEDS {
        let one = judge(&live, seed, faults, false).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        all.segmented += one.segmented;
        all.dropped += one.dropped;
        all.emptied += one.emptied;
        all.refused += one.refused;
        all.takeovers += one.takeovers;
        all.passed_by += one.passed_by;
        all.adopted += one.adopted;
        all.unlinked += one.unlinked;
    }
    all
}

#[test]
fn late_processes_and_emptied_queues_lose_and_reorder_nothing_uncounted() {
    let all = judge_all(Faults { empty: true, ..Faults::default() });
    assert!(all.segmented > 1_000 && all.dropped > 1_000 && all.emptied > 500, "{all:?}");
}

#[test]
fn an_interface_that_vanishes_and_returns_reorders_nothing() {
    let all = judge_all(Faults { vanish: true, ..Faults::default() });
    assert!(all.segmented > 1_000 && all.emptied > 500 && all.unlinked > 3_000, "{all:?}");
    let all = judge_all(Faults { vanish: true, take: true, ..Faults::default() });
    assert!(all.takeovers > SEEDS && all.emptied > 300, "{all:?}");
    let all = judge_all(Faults { vanish: true, hand_over: true, ..Faults::default() });
    assert!(all.adopted > 1_000 && all.unlinked > 3_000, "{all:?}");
}

#[test]
fn a_guardian_that_takes_the_turn_at_any_moment_reorders_and_loses_nothing() {
    let all = judge_all(Faults { take: true, ..Faults::default() });
    assert!(all.segmented > 1_000 && all.takeovers > SEEDS, "{all:?}");
    // What it has let pass is not taken for dropped, but where it takes the turn in the moment between a look at it and the verdicts.
    assert!(all.refused * 100 < all.takeovers, "{all:?}");
}

#[test]
fn a_guardian_that_asks_for_the_turn_at_any_moment_reorders_and_loses_nothing() {
    let all = judge_all(Faults { ask: true, ..Faults::default() });
    assert!(all.segmented > 1_000 && all.takeovers > SEEDS, "{all:?}");
}

#[test]
fn an_end_at_any_moment_reorders_and_loses_nothing() {
    let all = judge_all(Faults { end: true, ..Faults::default() });
    assert!(all.segmented > 500 && all.passed_by > 10_000, "{all:?}");
}

#[test]
fn another_data_path_that_takes_over_at_any_moment_reorders_and_loses_nothing() {
    let all = judge_all(Faults { hand_over: true, ..Faults::default() });
    assert!(all.segmented > 1_000 && all.takeovers > SEEDS / 2 && all.adopted > 1_000, "{all:?}");
}

/// Its successor reads the same socket and shares the same page.
#[test]
fn a_thread_that_was_abandoned_in_its_turn_touches_nothing_any_more() {
    let live = Live::read();
    for batches in 1..=40 {
        let page = Arc::new(Page::create().unwrap());
        let (commands, inbox) = mpsc::channel();
        let list = Arc::new(guardian::state_file().unwrap());
        let random = Stream::named(batches.into(), "stalled");
        let flows = live.flows().unwrap();
        let model = Model::new(&live, &flows, random, Faults::default(), Arc::clone(&page), (commands, list));
        let state = Arc::new(WorkerState::new(page, true));
        let engine = live.engine(live.packets[0].at).unwrap();
        let (path, mut driver) = QueuePath::new(model, parts(inbox, Arc::clone(&state), None), engine);
        let seen = |path: &QueuePath<Model<'_>>| (path.kernel.counters(), state.page.received(), state.page.beats());
        let (mut left, mut then) = (batches, None);
        let received = |path: &QueuePath<Model<'_>>, _: &mut Driver<_>, packets| {
            left -= u32::from(packets > 0 && left > 0);
            if left == 0 && then.is_none() {
                state.abandon();
                then = Some(seen(path));
            }
        };
        let mut judged = Judged { path, received };
        assert!(run(&mut driver, &mut judged).is_ok());
        let now = seen(&judged.path);
        assert_eq!(then, Some(now), "after {batches} batches");
    }
}

/// A data path that does not hold back what follows a superpacket on its way to the second queue reorders.
#[test]
fn the_referee_sees_what_is_out_of_order() {
    let live = Live::read();
    let wrong = (0..SEEDS).find_map(|seed| judge(&live, seed, Faults::default(), true).err());
    assert!(wrong.as_ref().is_some_and(|wrong| wrong.contains("of its flow")), "{wrong:?}");
}

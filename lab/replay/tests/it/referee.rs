//! The loop of the data path as it runs live, over a model of NFQUEUE in virtual time: what a live run recorded arrives again, while the
//! process wakes late, verdicts take their time, and the kernel empties its queues. A race that loses or reorders packets is found
//! by its seed, and found again.
//!
//! *The model*: a packet has an id and waits in the kernel until there is a verdict for it; its message waits in the socket.
//! A verdict for a packet that the kernel has dropped is refused. A packet that goes to the second queue comes back as its
//! segments, each with an id of its own, behind what waits in the socket by then.
//! *Not in it*: memory that runs out, the guardian (`tools/interleave`), and what the kernel does with a packet afterwards.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::ops::ControlFlow;

use tidegate_core::DropReason;
use tidegate_core::random::Stream;
use tidegate_engine::driver::{Arrival, DataPath, Driver, Offered, Params, Segmentation, Wait, run};
use tidegate_engine::{Change, Engine, Names, PacketMeta, Setup, Shape, Sink};
use tidegate_replay::exact;
use tidegate_replay::recording::{Reader, Record};
use tidegate_units::{Instant, Span};

/// TCP without limit and two streams of datagrams for 0.7 s, on a line of 8 Mbit/s: 3,325 records.
const LIVE: &[u8] = include_bytes!("live.tgr");
/// How many runs there are of it.
const SEEDS: u64 = 60;
/// The most packets of a superpacket, and the bytes from which packets are put into one.
const MOST: u64 = 8;
const LARGE: u32 = 1_000;

/// Packets that arrived live, in their order.
struct Live {
    setup: tidegate_replay::recording::Setup,
    packets: Vec<(Instant, PacketMeta)>,
}

impl Live {
    fn read() -> Self {
        let mut reader = Reader::new(LIVE).expect("a recording");
        let (mut setup, mut packets) = (None, Vec::new());
        while let Some(record) = reader.next_record() {
            match record.expect("a whole recording") {
                Record::Setup(of) => setup = Some(of),
                // Superpackets are made anew, of the packets that they were cut into.
                Record::Arrives { now, meta, .. } if meta.shape == Shape::Single => packets.push((now, meta)),
                _ => {}
            }
        }
        Self { setup: setup.expect("an engine"), packets }
    }
}

/// A packet in the kernel's queue: the numbers of the packets that it is made of.
struct Held {
    numbers: Vec<usize>,
    is_segment: bool,
}

/// The fate of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Accepted,
    Dropped(DropReason),
    /// The kernel has dropped it with its queue.
    Emptied,
}

#[derive(Clone, Copy)]
enum Verdict {
    Accept,
    Drop(DropReason),
    Segment,
}

/// The kernel, the socket and the clock.
struct Kernel<'a> {
    live: &'a Live,
    random: Stream,
    now: Instant,
    /// The packets that are yet to arrive.
    coming: VecDeque<(Instant, Vec<usize>)>,
    /// When another program removes a chain.
    removals: VecDeque<Instant>,
    held: BTreeMap<u32, Held>,
    messages: VecDeque<u32>,
    /// The packets that each id stands for, and whether it is a segment of them; an id outlives the packet.
    ids: Vec<(Vec<usize>, bool)>,
    verdicts: Vec<(u32, Verdict)>,
    ends: Vec<Option<End>>,
    accepted: Vec<usize>,
    emptied: u64,
    refused: u64,
    wrong: Option<String>,
}

impl<'a> Kernel<'a> {
    fn new(live: &'a Live, flows: &[u64], seed: u64) -> Self {
        let mut random = Stream::named(seed, "referee");
        let mut coming: VecDeque<(Instant, Vec<usize>)> = VecDeque::new();
        for (number, (at, meta)) in live.packets.iter().enumerate() {
            // A sender hands over several packets of a flow at once.
            match coming.back_mut() {
                Some((begun, numbers))
                    if meta.length >= LARGE
                        && flows[numbers[0]] == flows[number]
                        && live.packets[numbers[0]].1.length >= LARGE
                        && at.since(*begun) < Span::from_millis(2)
                        && (numbers.len() as u64) < random.below(MOST + 1) =>
                {
                    numbers.push(number);
                }
                _ => coming.push_back((*at, vec![number])),
            }
        }
        let (first, last) = (live.packets[0].0, live.packets[live.packets.len() - 1].0);
        let mut removals: Vec<Instant> = (0..random.below(4))
            .map(|_| first + Span::from_nanos(random.below(last.since(first).as_nanos())))
            .collect();
        removals.sort_unstable();
        Self {
            live,
            random,
            now: first,
            coming,
            removals: removals.into(),
            held: BTreeMap::new(),
            messages: VecDeque::new(),
            ids: Vec::new(),
            verdicts: Vec::new(),
            ends: vec![None; live.packets.len()],
            accepted: Vec::new(),
            emptied: 0,
            refused: 0,
            wrong: None,
        }
    }

    fn queue(&mut self, numbers: Vec<usize>, is_segment: bool) {
        let id = self.ids.len() as u32;
        self.ids.push((numbers.clone(), is_segment));
        self.held.insert(id, Held { numbers, is_segment });
        self.messages.push_back(id);
    }

    fn end(&mut self, numbers: &[usize], end: End) {
        for number in numbers {
            if let Some(before) = self.ends[*number].replace(end) {
                self.wrong.get_or_insert_with(|| format!("packet {number} ended twice: {before:?}, {end:?}"));
            }
        }
    }

    /// Lets the time pass, with what happens in it.
    fn pass(&mut self, until: Instant) {
        loop {
            let arrival = self.coming.front().map(|(at, _)| *at).filter(|at| *at <= until);
            let removal = self.removals.front().copied().filter(|at| *at <= until);
            if removal.is_some_and(|removal| arrival.is_none_or(|arrival| removal < arrival)) {
                self.removals.pop_front();
                let held = std::mem::take(&mut self.held);
                self.emptied += held.len() as u64;
                held.values().for_each(|held| self.end(&held.numbers, End::Emptied));
            } else if arrival.is_some() {
                let (_, numbers) = self.coming.pop_front().expect("it is there");
                self.queue(numbers, false);
            } else {
                break;
            }
        }
        self.now = self.now.max(until);
    }

    /// Takes up to so many nanoseconds.
    fn take(&mut self, most: u64) {
        let time = Span::from_nanos(self.random.below(most));
        self.pass(self.now + time);
    }
}

impl Sink<u32> for Kernel<'_> {
    fn transmit(&mut self, id: u32, _: Change) {
        self.verdicts.push((id, Verdict::Accept));
    }
    fn drop_packet(&mut self, id: u32, reason: DropReason) {
        self.verdicts.push((id, Verdict::Drop(reason)));
    }
}

impl DataPath for Kernel<'_> {
    type Handle = u32;
    type Sink = Self;
    type Error = Infallible;

    fn now(&mut self) -> Instant {
        self.now
    }

    fn wait(&mut self, wait: Wait) -> Result<ControlFlow<()>, Infallible> {
        if let Some(until) = wait.ignore_arrivals_until {
            self.pass(until);
        }
        if self.messages.is_empty() {
            let next = self.coming.front().map(|(at, _)| *at);
            let Some(until) = next.into_iter().chain(wait.until).min() else { return Ok(ControlFlow::Break(())) };
            self.pass(until);
        }
        // Another program has the processor, now and then for long.
        let late = if self.random.below(40) == 0 { 60_000_000 } else { 200_000 };
        self.take(late);
        Ok(ControlFlow::Continue(()))
    }

    fn receive(&mut self, now: Instant, driver: &mut Driver<u32>) -> Result<usize, Infallible> {
        let batch = self.messages.len().min(1 + self.random.below(32) as usize);
        let before = driver.counters().segmented;
        let received: Vec<u32> = self.messages.drain(..batch).collect();
        self.take(50_000);
        for id in received {
            let (numbers, is_segment) = self.ids[id as usize].clone();
            let mut meta = self.live.packets[numbers[0]].1;
            if numbers.len() > 1 {
                meta.length = numbers.iter().map(|number| self.live.packets[*number].1.length).sum();
                meta.shape = Shape::Super;
            }
            let arrival = Arrival { segmented: is_segment, ..Arrival::new(id, &meta) };
            match driver.offer(now, arrival, self) {
                Offered::Consumed => {}
                Offered::Segment(id) => self.verdicts.push((id, Verdict::Segment)),
            }
        }
        if driver.counters().segmented != before {
            self.flush()?;
        }
        Ok(batch)
    }

    fn sink(&mut self) -> &mut Self {
        self
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        for (id, verdict) in std::mem::take(&mut self.verdicts) {
            // Between two messages of a call the kernel may do anything else.
            if self.random.below(8) == 0 {
                self.take(300_000);
            }
            let Some(Held { numbers, is_segment }) = self.held.remove(&id) else {
                self.refused += 1;
                continue;
            };
            match verdict {
                Verdict::Accept => {
                    self.end(&numbers, End::Accepted);
                    self.accepted.extend(numbers);
                }
                Verdict::Drop(reason) => self.end(&numbers, End::Dropped(reason)),
                Verdict::Segment if is_segment => {
                    self.wrong.get_or_insert_with(|| format!("a segment is to be segmented: {numbers:?}"));
                }
                Verdict::Segment => numbers.into_iter().for_each(|number| self.queue(vec![number], true)),
            }
        }
        Ok(())
    }
}

/// Counts of a run, to see that what is tested happens.
#[derive(Default, Debug)]
struct Happened {
    segmented: u64,
    dropped: u64,
    emptied: u64,
}

/// Does the recording again with the delays of a seed.
fn judge(live: &Live, seed: u64, segmentation: Segmentation) -> Result<Happened, String> {
    let config = exact::configuration(&live.setup.configuration)?;
    let setup = Setup {
        seed: live.setup.seed,
        secret: live.setup.secret,
        catch_up: Span::from_nanos(live.setup.catch_up_ns),
        most_queued: live.setup.most_queued,
        names: Names::default(),
    };
    let engine = Engine::new(&config, &setup, live.packets[0].0).map_err(|error| error.to_string())?;
    let flows: Vec<u64> = live.packets.iter().map(|(_, meta)| engine.classify(&meta.fields).flow.flow).collect();
    let mut kernel = Kernel::new(live, &flows, seed);
    let params = Params { segmentation, ..Params::default() };
    let mut driver = Driver::new(engine, params, kernel.now);
    run(&mut driver, &mut kernel).map_err(|failure| format!("{failure:?}"))?;
    if let Some(wrong) = kernel.wrong {
        return Err(wrong);
    }
    if let Some(number) = kernel.ends.iter().position(Option::is_none) {
        return Err(format!("packet {number} waits for ever"));
    }
    // Each packet that the kernel has dropped is noticed when its verdict is refused.
    if kernel.refused != kernel.emptied {
        return Err(format!("{} packets dropped by the kernel, {} noticed", kernel.emptied, kernel.refused));
    }
    let mut last: BTreeMap<u64, usize> = BTreeMap::new();
    for number in kernel.accepted {
        if let Some(before) = last.insert(flows[number], number).filter(|before| *before > number) {
            return Err(format!("packet {number} leaves after packet {before} of its flow"));
        }
    }
    let dropped = kernel.ends.iter().filter(|end| matches!(end, Some(End::Dropped(_)))).count() as u64;
    Ok(Happened { segmented: driver.counters().segmented, dropped, emptied: kernel.emptied })
}

#[test]
fn late_processes_and_emptied_queues_lose_and_reorder_nothing_uncounted() {
    let live = Live::read();
    let mut all = Happened::default();
    for seed in 0..SEEDS {
        let Happened { segmented, dropped, emptied } =
            judge(&live, seed, Segmentation::Deferred).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        (all.segmented, all.dropped, all.emptied) =
            (all.segmented + segmented, all.dropped + dropped, all.emptied + emptied);
    }
    assert!(all.segmented > 1_000 && all.dropped > 1_000 && all.emptied > 500, "{all:?}");
}

/// A data path that does not hold back what follows a superpacket on its way to the second queue reorders.
#[test]
fn the_referee_sees_what_is_out_of_order() {
    let live = Live::read();
    let wrong = (0..SEEDS).find_map(|seed| judge(&live, seed, Segmentation::Inline).err());
    assert!(wrong.as_ref().is_some_and(|wrong| wrong.contains("of its flow")), "{wrong:?}");
}

//! The testbed of the paper (section 3). Sources behind links of 3 Mbit/s send through a router with CBQ, whose link to
//! the sink has 2 Mbit/s.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::rc::Rc;

use tidegate_core::aqm::AqmFifo;
use tidegate_core::cbq::{Accounting, Cbq, Class, Params};
use tidegate_core::classify::{Fields, Fragment, Hosts};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::fragments::{self, Fragments};
use tidegate_core::red::{self, Red, Thresholds};
use tidegate_core::{Bytes, ClassId, Instant, Qdisc, Rate, Span};
use tidegate_sim::{Driver, FlowSpec, Line, Network, SimPacket, Stage, Verdict, Workload, tcp};

use super::bursts::{Bursts, limited};

/// The root of every tree here.
pub const ROOT: ClassId = ClassId(0);

/// The limit of a class's queue in packets. It is more than a window of 64 KB, so that TCP loses no packet there.
const QUEUE: u64 = 50;

/// The traffic of a class.
#[derive(Clone, Copy, PartialEq)]
pub enum Load {
    /// Datagrams of this size on the link, at a constant rate.
    Udp { rate: Rate, packet: u64 },
    /// This number of connections, with segments and a window of these sizes.
    Tcp { connections: u32, mss: u16, window: u64 },
}

/// A leaf class and its traffic.
#[derive(Clone)]
pub struct Leaf {
    pub id: u32,
    pub parent: ClassId,
    pub class: Class,
    pub load: Load,
    /// The periods in which it has traffic, in seconds. If empty, it always has.
    pub when: Vec<(f64, f64)>,
}

impl Leaf {
    pub fn new(id: u32, class: Class, load: Load) -> Self {
        Self { id, parent: ROOT, class, load, when: Vec::new() }
    }
}

/// An experiment on the testbed.
#[derive(Clone)]
pub struct Rig {
    pub params: Params,
    /// The inner classes: number, parent and parameters.
    pub inner: Vec<(u32, ClassId, Class)>,
    pub leaves: Vec<Leaf>,
    pub driver: Option<Driver>,
    /// The rate of the sources' links.
    pub input: Rate,
    /// Round-trip times of the sources' links and of the link to the sink.
    pub round_trips: (Span, Span),
    pub fragmenting: Fragmenting,
    /// How long receivers may delay an acknowledgement.
    pub delayed_ack: Option<Span>,
    /// The thresholds of RED in the queues of the classes, which are FIFOs without it.
    pub red: Option<Thresholds>,
    /// The bursts of classes whose use is measured by idle time.
    pub bursts: Bursts,
    pub seconds: u64,
    pub seed: u64,
}

/// A packet that passes one stage of its path.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    pub at: Instant,
    pub stage: Stage,
    pub class: u32,
    pub size: u32,
    /// The leaf whose source sent it, which need not be its class.
    pub source: u32,
    /// Its sequence number at its source.
    pub number: u32,
}

/// The classification of fragments, of which the first leaf's source sends three per datagram (section 7.1).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fragmenting {
    /// No datagrams are fragmented.
    None,
    /// Only the first fragment has ports. The others are put into the class with this number.
    PortsLost(u16),
    /// The classifier's table puts all fragments into the class of the first.
    Kept,
}

/// The results of an experiment.
pub struct Outcome {
    /// Each packet at each stage, in order of time.
    pub observations: Vec<Observation>,
    classes: Vec<u32>,
    seconds: u64,
}

impl Rig {
    pub fn new(params: Params, leaves: Vec<Leaf>) -> Self {
        let ms = Span::from_millis;
        Self {
            params,
            inner: Vec::new(),
            leaves,
            driver: None,
            input: Rate::from_mbit(3),
            round_trips: (ms(9), ms(9)),
            fragmenting: Fragmenting::None,
            delayed_ack: Some(ms(200)),
            red: None,
            bursts: Bursts::Limited,
            seconds: 30,
            seed: 1,
        }
    }

    pub fn with_driver(self, driver: Driver) -> Self {
        Self { driver: Some(driver), ..self }
    }

    /// The class with the bursts that ALTQ gives it, if its use is measured by idle time.
    fn as_altq(&self, class: Class) -> Class {
        let Accounting::IdleTime { .. } = self.params.accounting else { return class };
        match self.bursts {
            Bursts::Unlimited => class,
            Bursts::Limited => limited(&self.params, class),
        }
    }

    /// Runs the experiment.
    pub fn run(&self) -> Outcome {
        let zero = Instant::ZERO;
        let mut tree = Cbq::<SimPacket, Box<dyn Qdisc<SimPacket>>>::new(self.params).expect("the tree is valid");
        for &(id, parent, class) in &self.inner {
            tree.add_inner(zero, ClassId(id), parent, self.as_altq(class)).expect("the class fits");
        }
        for leaf in &self.leaves {
            let queue: Box<dyn Qdisc<SimPacket>> = match self.red {
                None => Box::new(Fifo::new(Limit::packets(QUEUE))),
                Some(thresholds) => {
                    let red = Red::new(red::Params::new(thresholds), self.seed, &format!("class {}", leaf.id));
                    Box::new(AqmFifo::new(Limit::packets(QUEUE), red.expect("the thresholds are in order")))
                }
            };
            let class = self.as_altq(leaf.class);
            tree.add_leaf(zero, ClassId(leaf.id), leaf.parent, class, queue).expect("the class fits");
        }
        let mut network = Network::new(self.seed);
        let (router, sink) = (network.router("router"), network.host("sink"));
        let half = |span: Span| Span::from_nanos(span.as_nanos() / 2);
        let (out, _) = network.duplex(router, sink, Line::new(self.params.link, half(self.round_trips.1)));
        network.queue(out, tree);
        if let Some(driver) = self.driver {
            network.driver(out, driver);
        }
        if let Some(mut classify) = fragments(self.fragmenting) {
            let first = self.leaves[0].id as u16;
            network.at_entry(out, move |now, packet| {
                if packet.class == first {
                    classify(now, packet);
                }
                Verdict::Pass
            });
        }
        let observations = Rc::new(RefCell::new(Vec::new()));
        let log = observations.clone();
        let sources = Rc::new(RefCell::new(Vec::<u32>::new()));
        let of_flow = sources.clone();
        network.tap(out, move |at, stage, packet| {
            let source = of_flow.borrow()[packet.group as usize];
            let number = packet.segment.seq;
            log.borrow_mut().push(Observation {
                at,
                stage,
                class: u32::from(packet.class),
                size: packet.size,
                source,
                number,
            });
        });
        for leaf in &self.leaves {
            let source = network.host(format!("source {}", leaf.id));
            network.duplex(source, router, Line::new(self.input, half(self.round_trips.0)));
            let whole = [(0.0, self.seconds as f64)];
            let when = if leaf.when.is_empty() { &whole[..] } else { &leaf.when };
            for (n, &(from, until)) in when.iter().enumerate() {
                let at = |seconds: f64| zero + Span::from_nanos((seconds * 1e9) as u64);
                let flows: Vec<FlowSpec> = match leaf.load {
                    Load::Udp { rate, packet } => {
                        let workload = Workload::Constant { rate, packet: Bytes::new(packet) };
                        vec![FlowSpec::udp(format!("udp {} {n}", leaf.id), source, sink, workload)]
                    }
                    Load::Tcp { connections, mss, window } => {
                        let config = tcp::Config {
                            mss,
                            receive_buffer: window,
                            initial_window: 1,
                            delayed_ack: self.delayed_ack,
                            ..tcp::Config::reno()
                        };
                        let flow = |k| {
                            let name = format!("tcp {} {n} {k}", leaf.id);
                            FlowSpec::tcp(name, source, sink, config, Workload::BULK)
                        };
                        (0..connections).map(flow).collect()
                    }
                };
                for (k, flow) in flows.into_iter().enumerate() {
                    // Sources start a few milliseconds apart. Otherwise all would always send at the same instant.
                    let start = at(from) + Span::from_millis(3 * u64::from(leaf.id) + 7 * k as u64);
                    sources.borrow_mut().push(leaf.id);
                    network.flow(flow.in_class(leaf.id as u16).starting(start).stopping(at(until)));
                }
            }
        }
        let mut simulation = network.build().expect("the testbed is connected");
        simulation.run_until(zero + Span::from_secs(self.seconds));
        drop(simulation);
        let classes = self.leaves.iter().map(|leaf| leaf.id).collect();
        Outcome { observations: observations.take(), classes, seconds: self.seconds }
    }
}

/// A function that classifies a packet when it arrives.
type Classify = Box<dyn FnMut(Instant, &mut SimPacket)>;

/// Creates the classifier before the queue. Each datagram arrives as three fragments in order.
fn fragments(fragmenting: Fragmenting) -> Option<Classify> {
    let offset = |number: u32| (number % 3) as u16 * 1_480;
    match fragmenting {
        Fragmenting::None => None,
        Fragmenting::PortsLost(other) => Some(Box::new(move |_, packet| {
            if offset(packet.segment.seq) != 0 {
                packet.class = other;
            }
        })),
        Fragmenting::Kept => {
            let mut table = Fragments::new(fragments::Params::default(), [1, 2]).expect("the defaults are valid");
            let [source, destination] = [[192, 0, 2, 1], [198, 51, 100, 1]].map(Ipv4Addr::from);
            let hosts = Hosts::V4 { source, destination };
            Some(Box::new(move |now, packet| {
                let (id, offset) = (packet.segment.seq / 3, offset(packet.segment.seq));
                let fields = Fields {
                    hosts,
                    protocol: Some(17),
                    // Only the first fragment has ports.
                    destination_port: (offset == 0).then_some(packet.class),
                    fragment: Some(Fragment { id, offset, more: offset < 2_960 }),
                    ..Fields::default()
                };
                let size = Bytes::new(u64::from(packet.size));
                table.arrive(now, &fields, (), size, &mut |fields| fields.destination_port, &mut |(), class| {
                    packet.class = class.unwrap_or(0);
                });
            }))
        }
    }
}

impl Outcome {
    /// The bytes of a class whose transmission on the link began, in bins of `width`.
    pub fn bins(&self, class: u32, width: Span) -> Vec<u64> {
        let n = Span::from_secs(self.seconds).as_nanos().div_ceil(width.as_nanos());
        let mut bins = vec![0; n as usize];
        for packet in
            self.observations.iter().filter(|packet| packet.class == class && packet.stage == Stage::Transmitting)
        {
            if let Some(bin) = bins.get_mut((packet.at.as_nanos() / width.as_nanos()) as usize) {
                *bin += u64::from(packet.size);
            }
        }
        bins
    }

    /// The mean rate of a class in kbit/s, without the first `skip` seconds.
    pub fn kbit(&self, class: u32, skip: u64) -> f64 {
        let bins = self.bins(class, Span::from_secs(1));
        let bytes: u64 = bins[skip as usize..].iter().sum();
        bytes as f64 * 8.0 / 1_000.0 / (self.seconds - skip) as f64
    }

    /// The share of a class in all traffic sent.
    pub fn share(&self, class: u32, skip: u64) -> f64 {
        let all: f64 = self.classes.iter().map(|&id| self.kbit(id, skip)).sum();
        self.kbit(class, skip) / all
    }

    /// The rate of a class in kbit/s over time, for plots.
    pub fn curve(&self, class: u32, width: Span) -> Vec<(f64, f64)> {
        let seconds = width.as_secs_f64();
        let bins = self.bins(class, width).into_iter().enumerate();
        bins.map(|(n, bytes)| (n as f64 * seconds, bytes as f64 * 8.0 / 1_000.0 / seconds)).collect()
    }

    /// The transmissions of a class that began within a window of seconds: the time of each, and the bytes so far.
    pub fn pattern(&self, class: u32, window: (f64, f64)) -> Vec<(f64, f64)> {
        let mut bytes = 0.0;
        let own =
            self.observations.iter().filter(|packet| packet.class == class && packet.stage == Stage::Transmitting);
        own.map(|packet| (packet.at.since(Instant::ZERO).as_secs_f64(), f64::from(packet.size)))
            .filter(|&(at, _)| at >= window.0 && at < window.1)
            .map(|(at, size)| {
                bytes += size;
                (at, bytes)
            })
            .collect()
    }

    /// All packets that passed a stage within a window of seconds: the time of each, and the bytes so far.
    pub fn passed(&self, stage: Stage, window: (f64, f64)) -> Vec<(f64, f64)> {
        let mut bytes = 0.0;
        let passed = self.observations.iter().filter(|packet| packet.stage == stage);
        passed
            .map(|packet| (packet.at.since(Instant::ZERO).as_secs_f64(), f64::from(packet.size)))
            .filter(|&(at, _)| at >= window.0 && at < window.1)
            .map(|(at, size)| {
                bytes += size;
                (at, bytes)
            })
            .collect()
    }

    /// The highest rate in kbit/s at which packets passed a stage, over `ms` or slightly more, after the first two
    /// seconds.
    pub fn fastest(&self, stage: Stage, ms: f64) -> f64 {
        let passed = self.passed(stage, (2.0, f64::MAX));
        let mut first = 0;
        let mut most = 0.0_f64;
        for (n, &(at, bytes)) in passed.iter().enumerate() {
            while first + 1 < n && at - passed[first + 1].0 >= ms / 1e3 {
                first += 1;
            }
            let span = at - passed[first].0;
            if span >= ms / 1e3 {
                most = most.max((bytes - passed[first].1) * 8e-3 / span);
            }
        }
        most
    }

    /// The backlog of a class at each change, as seconds and bytes.
    pub fn backlog(&self, class: u32) -> Vec<(f64, f64)> {
        self.between(class, Stage::Arrived, |stage| matches!(stage, Stage::Dequeued | Stage::Dropped(_)))
    }

    /// The bytes of a class between the stage `from` and the stages for which `end` returns `true`, at each change, as
    /// seconds and bytes.
    fn between(&self, class: u32, from: Stage, end: impl Fn(Stage) -> bool) -> Vec<(f64, f64)> {
        let mut bytes = 0.0;
        let own = self.observations.iter().filter(|packet| packet.class == class);
        own.filter_map(|packet| {
            match packet.stage {
                stage if stage == from => bytes += f64::from(packet.size),
                stage if end(stage) => bytes -= f64::from(packet.size),
                _ => return None,
            }
            Some((packet.at.since(Instant::ZERO).as_secs_f64(), bytes))
        })
        .collect()
    }

    /// The median over time of the backlog of a class, without the first `skip` seconds.
    pub fn median_backlog(&self, class: u32, skip: u64) -> f64 {
        Self::median(&self.backlog(class), skip)
    }

    /// The median of the bytes of a class in the buffers of the driver.
    pub fn median_in_driver(&self, class: u32, skip: u64) -> f64 {
        Self::median(&self.between(class, Stage::Dequeued, |stage| stage == Stage::Transmitting), skip)
    }

    fn median(changes: &[(f64, f64)], skip: u64) -> f64 {
        let mut spans: Vec<(f64, f64)> = changes
            .windows(2)
            .filter(|pair| pair[0].0 >= skip as f64)
            .map(|pair| (pair[0].1, pair[1].0 - pair[0].0))
            .collect();
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half = spans.iter().map(|span| span.1).sum::<f64>() / 2.0;
        let mut sum = 0.0;
        let median = spans.iter().find(|span| {
            sum += span.1;
            sum >= half
        });
        median.map_or(f64::NAN, |span| span.0)
    }

    /// Returns the fraction of a source's datagrams of which all three fragments were transmitted, and the number of
    /// datagrams of which a later fragment was transmitted before the first.
    pub fn datagrams(&self, source: u32) -> (f64, u64) {
        let own = |stage: Stage| {
            self.observations.iter().filter(move |packet| packet.source == source && packet.stage == stage)
        };
        let came = own(Stage::Arrived).count() as u64 / 3;
        let mut left = HashMap::<u32, (u32, bool)>::new();
        let mut overtaken = 0;
        for packet in own(Stage::Transmitting) {
            let (count, first) = left.entry(packet.number / 3).or_default();
            *count += 1;
            if packet.number.is_multiple_of(3) {
                overtaken += u64::from(*count > 1);
                *first = true;
            }
        }
        let whole = left.values().filter(|(count, _)| *count == 3).count();
        (whole as f64 / came.max(1) as f64, overtaken)
    }

    /// The longest time from the arrival of a packet of a class to the start of its transmission, in ms.
    pub fn longest_wait_ms(&self, class: u32, skip: u64) -> f64 {
        self.longest_until_ms(class, skip, Stage::Transmitting)
    }

    /// The longest time from the arrival of a packet of a class until it passes a stage, in ms.
    pub fn longest_until_ms(&self, class: u32, skip: u64, stage: Stage) -> f64 {
        let begin = Instant::ZERO + Span::from_secs(skip);
        let mut waiting = VecDeque::new();
        let mut longest = Span::ZERO;
        for packet in self.observations.iter().filter(|packet| packet.class == class) {
            match packet.stage {
                Stage::Arrived => waiting.push_back(packet.at),
                Stage::Dropped(_) => drop(waiting.pop_back()),
                passed if passed == stage => {
                    if let Some(at) = waiting.pop_front().filter(|&at| at >= begin) {
                        longest = longest.max(packet.at.since(at));
                    }
                }
                _ => {}
            }
        }
        longest.as_secs_f64() * 1e3
    }

    /// The longest time for which the first packet of a class's queue waited for its turn, in ms.
    pub fn longest_turn_ms(&self, class: u32, skip: u64) -> f64 {
        let begin = Instant::ZERO + Span::from_secs(skip);
        let (mut queued, mut since, mut longest) = (0_u64, begin, Span::ZERO);
        for packet in self.observations.iter().filter(|packet| packet.class == class) {
            match packet.stage {
                Stage::Arrived => {
                    if queued == 0 {
                        since = packet.at;
                    }
                    queued += 1;
                }
                Stage::Dropped(_) => queued -= 1,
                Stage::Dequeued => {
                    if since >= begin {
                        longest = longest.max(packet.at.since(since));
                    }
                    (queued, since) = (queued - 1, packet.at);
                }
                _ => {}
            }
        }
        longest.as_secs_f64() * 1e3
    }

    /// The largest number of packets of a class transmitted in a row, after the first two seconds.
    pub fn longest_row(&self, class: u32) -> u64 {
        let begin = Instant::ZERO + Span::from_secs(2);
        let (mut row, mut most) = (0, 0);
        for packet in
            self.observations.iter().filter(|packet| packet.stage == Stage::Transmitting && packet.at >= begin)
        {
            row = if packet.class == class { row + 1 } else { 0 };
            most = most.max(row);
        }
        most
    }

    /// The median number of packets of a class transmitted in a row, after the first two seconds.
    pub fn median_row(&self, class: u32) -> f64 {
        let begin = Instant::ZERO + Span::from_secs(2);
        let left = self.observations.iter().filter(|packet| packet.stage == Stage::Transmitting && packet.at >= begin);
        let (mut rows, mut row) = (Vec::new(), 0_u64);
        for packet in left {
            if packet.class == class {
                row += 1;
            } else if row > 0 {
                rows.push(row);
                row = 0;
            }
        }
        rows.sort_unstable();
        rows.get(rows.len() / 2).map_or(f64::NAN, |row| *row as f64)
    }

    /// The longest time between two transmissions of a class, in ms, after the first two seconds.
    pub fn longest_gap_ms(&self, class: u32) -> f64 {
        let begin = Instant::ZERO + Span::from_secs(2);
        let own =
            |packet: &&Observation| packet.class == class && packet.stage == Stage::Transmitting && packet.at >= begin;
        let times: Vec<Instant> = self.observations.iter().filter(own).map(|packet| packet.at).collect();
        let longest = times.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap_or(Span::ZERO);
        longest.as_secs_f64() * 1e3
    }

    /// Considers the packets of `class` that find the queue of their class empty on arrival. Counts how many packets of
    /// `other` leave the software buffer before each of them does, and returns the maximum and the mean.
    pub fn overtaken(&self, class: u32, other: u32, skip: u64) -> (u64, f64) {
        let begin = Instant::ZERO + Span::from_secs(skip);
        // `queued` counts the packets of `class` in the scheduler. `track` has an entry for each packet of `class` in
        // the scheduler or the software buffer: for one that found the queue empty, how many packets of `other` have
        // left since.
        let (mut queued, mut track) = (0_u64, VecDeque::<Option<u64>>::new());
        let (mut most, mut sum, mut n) = (0, 0, 0);
        for packet in &self.observations {
            match packet.stage {
                Stage::Arrived if packet.class == class => {
                    track.push_back((queued == 0).then_some(0));
                    queued += 1;
                }
                Stage::Dequeued if packet.class == class => queued -= 1,
                Stage::Dropped(_) if packet.class == class => {
                    queued -= 1;
                    track.pop_back();
                }
                Stage::Hardware if packet.class == other => {
                    for count in track.iter_mut().flatten() {
                        *count += 1;
                    }
                }
                Stage::Hardware if packet.class == class => {
                    if let Some(Some(count)) = track.pop_front()
                        && packet.at >= begin
                    {
                        most = most.max(count);
                        sum += count;
                        n += 1;
                    }
                }
                _ => {}
            }
        }
        (most, sum as f64 / f64::from(n.max(1)))
    }
}

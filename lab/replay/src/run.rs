//! [`Run`] runs packets through a configuration in virtual time.
//!
//! *Law*: the engine is called at its deadlines, so that no packet leaves late. At equal instants, arrivals precede departures,
//! as in the live shaper. Equal packets and settings produce equal departures on every machine.
//! *Units*: ns of the clock of the source.
//! *Cost*: that of the engine, and some 30 ns a packet for the digest.
//! *Notes*: a discipline without a rate sends every packet at once, so that it has no visible effect. With [`Settings::link`]
//! packets leave through a virtual link, which transmits one packet at a time.

use tidegate_capture::dissect::protocol;
use tidegate_config::shaper::{Config, FlowBy, Root};
use tidegate_config::values::User;
use tidegate_engine::driver::{Arrival, Driver, Offered, Params};
use tidegate_engine::{BuildFailure, ClassStatus, Engine, LONGEST_WHOLE, Names, PacketMeta, Setup, Shape};
use tidegate_metrics::{Curve, Digest, Histogram, OTHER_FLOWS, PartSeries, Points, SHOWN_PARTS, Series};
use tidegate_units::{Bytes, Instant, Rate, Span};

use crate::cut;
use crate::meter::{BIN, Departure, Keep, Meter, Ticket};
use crate::recording::Setup as RecordedSetup;

/// The settings of a run that are not part of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seed, secret, catch-up and names of the engine.
    pub setup: Setup,
    /// The rate of the link behind the engine; `None` for a link of infinite rate.
    pub link: Option<Rate>,
    /// The measurements to keep.
    pub keep: Keep,
}

impl Settings {
    /// Settings with random streams and flow keys from `seed`, without a link, that keep nothing.
    pub fn seeded(seed: u64) -> Self {
        let secret = [seed ^ 0x7469_6465_6761_7465, seed.rotate_left(32) ^ 0x7265_706c_6179_2020];
        let setup = Setup { seed, secret, catch_up: Span::ZERO, most_queued: None, names: Names::default() };
        Self { setup, link: None, keep: Keep::default() }
    }

    /// Assigns ids that no packet has to the unknown users and control groups that `config` names, because a capture does not
    /// have the owners of packets. Returns their names.
    pub fn invent_names(&mut self, config: &Config) -> Vec<String> {
        let names = &mut self.setup.names;
        let mut invented = Vec::new();
        for rule in &config.rules {
            for user in &rule.matches.users {
                if let User::Name(name) = user
                    && !names.users.contains_key(name)
                {
                    names.users.insert(name.clone(), u32::MAX);
                    invented.push(format!("user {name}"));
                }
            }
            for path in &rule.matches.cgroups {
                if !names.cgroups.contains_key(path) {
                    names.cgroups.insert(path.clone(), u64::MAX);
                    invented.push(format!("control group {path}"));
                }
            }
        }
        invented
    }

    /// Adopts the seed, the secret and the names of a recording. Invented names stay if the recording does not have them.
    pub fn like_recorded(&mut self, setup: &RecordedSetup) {
        let invented = std::mem::replace(&mut self.setup, setup.engine()).names;
        let names = &mut self.setup.names;
        // The rules of the recording are others.
        names.off = invented.off;
        for (name, id) in invented.users {
            names.users.entry(name).or_insert(id);
        }
        for (path, id) in invented.cgroups {
            names.cgroups.entry(path).or_insert(id);
        }
        for (name, addresses) in invented.named {
            names.named.entry(name).or_insert(addresses);
        }
        for (mac, addresses) in invented.macs {
            names.macs.entry(mac).or_insert(addresses);
        }
    }
}

/// See the [module](self).
pub struct Run {
    driver: Driver<Ticket>,
    meter: Meter,
    mtu: u32,
    link: Option<Rate>,
    start: Instant,
}

impl Run {
    /// Starts a run with empty queues at `now`.
    ///
    /// # Errors
    /// If the engine cannot be built.
    pub fn new(config: &Config, settings: &Settings, now: Instant) -> Result<Self, BuildFailure> {
        let engine = Engine::new(config, &settings.setup, now)?;
        let by = match &config.root {
            Root::Shaper(shaper) => shaper.flow_by,
            Root::Discipline(_) => FlowBy::FiveTuple,
        };
        let meter = Meter::new(settings.keep, engine.class_names().len(), by, now);
        let mtu = u32::try_from(config.interface.mtu.as_u64()).unwrap_or(u32::MAX);
        let driver = Driver::new(engine, Params { link: settings.link, ..Params::default() }, now);
        Ok(Self { driver, meter, mtu, link: settings.link, start: now })
    }

    /// Lets a packet arrive at `now`, after the departures that are due before. If `meta` describes a superpacket, it may be
    /// segmented; any other packet longer than the MTU is sent as one, in fragments. Returns the number of tickets of the packet,
    /// which is the number of segments if it was segmented.
    pub fn arrive(&mut self, now: Instant, packet: u64, meta: &PacketMeta) -> u64 {
        self.run_until(now);
        let now = now.max(self.driver.now());
        let mut meta = *meta;
        if !cut::can_be_cut(&meta) {
            meta.shape = Shape::Single;
        }
        let whole = Arrival::new(Ticket { packet, segment: 0 }, &meta);
        if !self.occupies_link(&meta) && self.driver.offer(now, whole, &mut self.meter) == Offered::Consumed {
            return 1;
        }
        let mut segments = 0;
        for (segment, meta) in (1..).zip(cut::segments(&meta, self.mtu)) {
            let _consumed = self.driver.offer(now, Arrival::new(Ticket { packet, segment }, &meta), &mut self.meter);
            segments += 1;
        }
        segments
    }

    /// Whether a superpacket would occupy the virtual link longer than a flow may occupy its rate. The engine does not know the
    /// rate of this link.
    fn occupies_link(&self, meta: &PacketMeta) -> bool {
        let size = Bytes::new(meta.length.into());
        let lasts = |rate: Rate| rate.time_for_ceil(size).is_none_or(|time| time > LONGEST_WHOLE);
        meta.shape == Shape::Super && meta.length > self.mtu && self.link.is_some_and(lasts)
    }

    /// Sends the packets that are due before `until`.
    pub fn run_until(&mut self, until: Instant) {
        self.driver.run_until(until, &mut self.meter);
    }

    /// The next deadline if no packet arrives.
    pub fn due(&self) -> Option<Instant> {
        self.driver.next_departure(self.driver.now())
    }

    /// Sends every queued packet at its deadline.
    pub fn finish(&mut self) {
        self.driver.run_to_end(&mut self.meter);
    }

    /// Returns the instant of its start.
    pub fn start(&self) -> Instant {
        self.start
    }
    /// The MTU of its interface.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }
    /// Returns the engine.
    pub fn engine(&self) -> &Engine<Ticket> {
        self.driver.engine()
    }
    /// The engine and the meter, for a caller that makes the calls itself.
    pub(crate) fn parts(&mut self) -> (&mut Engine<Ticket>, &mut Meter) {
        (self.driver.engine_mut(), &mut self.meter)
    }
    /// Returns the meter.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
    /// Returns the departures since the last call.
    pub fn take_departures(&mut self) -> std::vec::Drain<'_, Departure> {
        self.meter.take_departures()
    }

    /// Returns the measurements so far, under `name`.
    pub fn outcome(&self, name: &str) -> Outcome {
        let end = self.meter.last().max(self.driver.now());
        Outcome {
            name: name.into(),
            classes: self.driver.engine().status(),
            unclassified: self.driver.engine().unclassified(),
            passed: self.meter.passed(),
            refused: self.meter.refused(),
            time: end.since(self.start),
            digest: self.meter.digest(),
            curves: curves(self.driver.engine().class_names(), &self.meter, Instant::ZERO + end.since(self.start)),
            flows: flows(&self.meter),
        }
    }
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The name of the configuration.
    pub name: String,
    /// The classes with their counts.
    pub classes: Vec<ClassStatus>,
    /// Packets that no rule matched.
    pub unclassified: u64,
    /// Packets sent.
    pub passed: u64,
    /// Packets dropped.
    pub refused: u64,
    /// The time from the beginning to the last departure.
    pub time: Span,
    /// The digest of all departures.
    pub digest: Digest,
    /// If series were kept: rate, queue, delay and drops over time for each class, for each of the largest flows, and for all
    /// other flows together.
    pub curves: Vec<Curve>,
    /// If series were kept: the largest flows, by their names.
    pub flows: Vec<FlowOutcome>,
}

/// The outcome of a flow in a run.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowOutcome {
    /// Its name, which does not depend on the configuration.
    pub name: String,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// How long its packets waited, in nanoseconds.
    pub delays: Histogram,
}

fn flows(meter: &Meter) -> Vec<FlowOutcome> {
    let Some(flows) = meter.flows() else { return Vec::new() };
    let found = |(name, part): (&str, &PartSeries)| FlowOutcome {
        name: name.to_owned(),
        sent_bytes: part.sent.sums().map(|(_, bytes)| bytes).sum(),
        dropped: part.dropped.sums().map(|(_, packets)| packets).sum(),
        delays: part.delays.clone(),
    };
    flows.largest(SHOWN_PARTS).0.into_iter().map(found).collect()
}

/// Makes curves for reports from the series of classes and flows.
fn curves(names: &[String], meter: &Meter, end: Instant) -> Vec<Curve> {
    // A replay has no end but its last packet, whose bin counts as a whole one.
    let width = Series::new(BIN).until(end).width().as_nanos();
    let end = Instant::from_nanos((end.as_nanos() / width + 1) * width);
    let mut curves = Vec::new();
    for (name, part) in names.iter().zip(meter.series()) {
        part_curves(&format!("class {name}"), part, end, &mut curves);
    }
    if let Some(flows) = meter.flows() {
        let (largest, others) = flows.largest(SHOWN_PARTS);
        for (name, part) in largest {
            part_curves(&format!("flow {name}"), part, end, &mut curves);
        }
        if let Some(others) = others {
            part_curves(OTHER_FLOWS, &others, end, &mut curves);
        }
    }
    curves
}

fn part_curves(subject: &str, part: &PartSeries, end: Instant, curves: &mut Vec<Curve>) {
    let mut add = |measure, (form, x, y), points: Points| {
        if points.is_empty() {
            return;
        }
        let (name, subject) = (format!("{subject} {measure} {form}"), subject.to_owned());
        curves.push(Curve { name, variant: String::new(), subject, measure, part: String::new(), x, y, points });
    };
    let over_time = |y| ("over time", "time_s", y);
    add("arrivals", over_time("rate_bps"), part.arrived.rate_points(end));
    add("throughput", over_time("rate_bps"), part.sent.rate_points(end));
    add("backlog", over_time("bytes"), part.waiting.mean_points(Instant::ZERO, end));
    add("queueing", over_time("delay_ns"), part.delay_ns.mean_points());
    if part.dropped.sums().next().is_some() {
        add("drops", over_time("packets"), part.dropped.sum_points(end));
    }
    add("queueing", ("distribution", "value_ns", "share"), part.delays.points());
}

/// Whether the kernel segments superpackets of this protocol.
pub(crate) const fn is_segmented(number: u8) -> bool {
    matches!(number, protocol::TCP | protocol::UDP)
}
